//! A queue pair as the kernel, its control path and the NIC's own context show it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

use super::{Device, FaultRank, QpPosts};
use crate::entity::contexts::ContextTimes;
use crate::entity::devices::QpSample;
pub use crate::entity::devices::QpSource;
use crate::entity::lives::{DEVX, KERNEL, PathChoices, QpControl, QpLife, VERBS};
use crate::entity::pauses::Stall;
use crate::sample::{Address, FlowSample, address};
use crate::util::map::Set;

/// A queue pair, as RDMA netlink, the kernel's control path and the NIC's own context show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeviceQp {
    /// Number of the queue pair.
    pub lqpn: u32,
    /// Sources of these facts: `netlink` (the kernel's list), `control_path` (the verbs, `qp_lives`), `devx` (commands
    /// to the firmware past the verbs), `context` (the NIC's own, `qp_context`), `posts` (`post_sampling`), `packets`
    /// (a flow of `flows[]` goes to it or comes from it).
    pub sources: Vec<QpSource>,
    /// Number of the queue pair at the other end. Null: not connected, or a datagram transport.
    pub rqpn: Option<u32>,
    /// Transport: `RC`, `UC`, `UD` … Null: not known.
    pub kind: Option<&'static str>,
    /// Maker: `verbs` (a process), `kernel` (a kernel module), `devx` (a process past the verbs, mostly for a GPU to
    /// post to: in no list of the kernel, known from commands to mlx5's firmware). Null: not known.
    pub origin: Option<&'static str>,
    /// State: `RTS`, `ERR` … Null: not known.
    pub state: Option<&'static str>,
    /// Process that created it. Null: created by the kernel, or in another PID namespace.
    pub pid: Option<u32>,
    /// Command name of the process, or name of the kernel module. Null: not known.
    pub comm: Option<String>,
    /// Pod, container or Slurm job (`slurm job 4711`) of the process. Null: none, or not readable.
    pub pod: Option<String>,
    /// PSN sent next. Unit: PSN. Null: not reported by the kernel, or not set yet (before RTS).
    pub sq_psn: Option<u32>,
    /// PSN expected next. Unit: PSN. Null: not reported by the kernel, not set yet (before RTR), or a datagram
    /// transport.
    pub rq_psn: Option<u32>,
    /// PSNs taken by its requests since it was first seen; a READ takes those of the responses it asks for. A lower
    /// bound once `ambiguous_readings` is above 0. Unit: packets. Null: PSNs of the device never moved (some drivers
    /// report those of the connection's start), or no source has them.
    pub sent_packets: Option<u64>,
    /// PSNs of the requests that it received, likewise. Unit: packets. Null: as `sent_packets`.
    pub received_packets: Option<u64>,
    /// Readings since the previous one of which its PSN may have wrapped (2^24 packets or more passed the port, or the
    /// port's packets are not counted). Of that time the least possible packets are counted. Unit: readings.
    /// Null: as `sent_packets` and `received_packets`.
    pub ambiguous_readings: Option<u64>,
    /// Time without progress, although ready and busy before, while its priority was paused at least half of
    /// the time. Unit: ns. Null: not known from its PSNs.
    pub pause_stall_ns: Option<u64>,
    /// The latest time of that.
    #[serde(skip)]
    pub stall: Stall,
    /// Facts from the kernel's control path; without that, some of them from the NIC's own context.
    #[serde(flatten)]
    pub control: QpControl,
    /// Source of each figure that several sources may have, named as in `sources`: of `state`, `rqpn`, `src`, `dst`,
    /// `udp_port`, `flow_label`, `dscp`, `path_mtu`, `timeout_ns`, `retry_cnt`, `rnr_retry`, `priority`,
    /// `adaptive_routing`, `plane`, `bond_port`, `sent_packets` and `received_packets`. `control_path` is a verb, or
    /// the driver's answer when the kernel queried it; `devx` also a command that set the `udp_port` of a queue pair of
    /// the verbs. A figure that is null has no entry. Empty: only one of `netlink`, `control_path`, `devx` and
    /// `context` is among `sources`, and all figures are from there; or the report is of a recording, which keeps no
    /// source by figure.
    pub figure_sources: BTreeMap<&'static str, QpSource>,
    /// Latest reading of the NIC's own context of the queue pair, from which this and the following fields come
    /// (`qp_context`). Unit: Unix ns. Null: none was read.
    pub context_ns: Option<u64>,
    /// The same by `CLOCK_MONOTONIC`, which does not step. Null: not known.
    #[serde(skip)]
    pub context_steady_ns: Option<u64>,
    /// Readings of its context. Unit: readings. Null: none was read.
    pub context_readings: Option<u64>,
    /// Priority (PCP) of its packets; this and the following fields up to `bond_port` come from the command that
    /// connected a queue pair past the verbs, too. Null: neither context nor such a command, or not in it.
    pub priority: Option<u8>,
    /// The NIC may send its packets on several paths (adaptive routing). Null: as `priority`.
    pub adaptive_routing: Option<bool>,
    /// Plane of a multi-plane port, from 1. Null: as `priority`, or none is chosen.
    pub plane: Option<u8>,
    /// Port of the bond that it sends on, from 1. Null: as `priority`, or none is chosen.
    pub bond_port: Option<u8>,
    /// Packets sent and not acknowledged. Unit: packets. Null: no context, or not in it, it has sent nothing yet, it
    /// is in the error state, or its kind has no such PSN: all but RC and XRC_INI.
    pub in_flight: Option<u32>,
    /// Time for which packets have been in flight without one being acknowledged, at least: up to the latest reading.
    /// 0: acknowledgements arrive, or nothing is in flight. Unit: ns. Null: as `in_flight`.
    pub stuck_ns: Option<u64>,
    /// Send work posted and not begun. Unit: the driver's blocks of work requests (mlx5: of 64 bytes). Null: no
    /// context, or not in it.
    pub unsent_wqes: Option<u32>,
    /// Receive work requests posted and not used yet. Unit: work requests. Null: as `unsent_wqes`, or a shared receive
    /// queue.
    pub posted_receives: Option<u32>,
    /// Retries used up at the latest reading, of `retry_cnt`. Unit: retries. Null: as `in_flight`, or no idle queue
    /// pair of the device has shown yet how its counter counts.
    pub retries_used: Option<u8>,
    /// RNR retries used up at the latest reading, of `rnr_retry`. Unit: retries. Null: as `retries_used`.
    pub rnr_retries_used: Option<u8>,
    /// Readings that showed retries in use. Unit: readings. Null: as `retries_used`.
    pub retrying_readings: Option<u64>,
    /// Readings that showed RNR retries in use. Unit: readings. Null: as `retries_used`.
    pub rnr_retrying_readings: Option<u64>,
    /// Readings that showed a receive queue in use without a posted receive. Unit: readings. Null: as
    /// `posted_receives`.
    pub exhausted_readings: Option<u64>,
    /// Times of readings that showed these three; `None` if none did.
    #[serde(skip)]
    pub context_times: Option<Box<ContextTimes>>,
    /// Transport timeouts counted by the port that are attributed to it; `likely` ones are counted for each queue pair
    /// that may have had them, so that they do not add up. Unit: timeouts. Null: none.
    pub timeouts: Option<u64>,
    /// Sequence-error NAKs counted by the port that are attributed to it, likewise. Unit: NAKs. Null: none.
    pub sequence_errors: Option<u64>,
    /// Confidence of `timeouts` and `sequence_errors`. `certain`: no other known queue pair of the port had a packet in
    /// flight. `likely`: its context showed retries or a standstill at that time, or, for sequence errors that none of
    /// these can have had, PSNs that moved; others may share the count. Null: none are attributed.
    pub attribution: Option<&'static str>,
    /// Work that its process posted, in samples. Null: not sampled (`--sample-posts`), or it posted nothing in a window
    /// (`post_sampling`).
    pub posts: Option<Box<QpPosts>>,
}

impl DeviceQp {
    /// Stands before the numbers of packets sent and received where they are lower bounds.
    pub fn packets_mark(&self) -> &'static str {
        if self.ambiguous_readings.unwrap_or(0) > 0 { "≥ " } else { "" }
    }

    /// Packets sent, if they are known exactly.
    pub fn exactly_sent(&self) -> Option<u64> {
        self.sent_packets.filter(|_| self.ambiguous_readings.unwrap_or(0) == 0)
    }

    /// An upper bound of the bytes that it sent: its packets × path MTU, if both are known exactly.
    pub fn sent_bytes_at_most(&self) -> Option<u64> {
        Some(self.exactly_sent()?.saturating_mul(u64::from(self.control.path_mtu?)))
    }

    /// Source of the numbers of packets: the kernel's list where no context was read. `None`: they are not known.
    pub fn packets_source(&self) -> Option<QpSource> {
        self.sent_packets.or(self.received_packets)?;
        let of = |name| self.figure_sources.get(name).copied();
        Some(of("sent_packets").or_else(|| of("received_packets")).unwrap_or(QpSource::Netlink))
    }

    /// Source of a figure of [`Self::figure_sources`] that is known: the only one that the queue pair has, if that does
    /// not name it. `None` for a recording of several.
    pub fn source_of(&self, figure: &str) -> Option<QpSource> {
        let is_other = |source: &&QpSource| matches!(source, QpSource::Posts | QpSource::Packets);
        let mut own = self.sources.iter().filter(|source| !is_other(source));
        let only = own.next().filter(|_| own.next().is_none());
        self.figure_sources.get(figure).or(only).copied()
    }

    /// Packets sent and received, as far as known.
    pub fn moved_packets(&self) -> u64 {
        self.sent_packets.unwrap_or(0).saturating_add(self.received_packets.unwrap_or(0))
    }

    /// Place in a list from the greatest on: by trouble, those that exist before those that ended, then by packets.
    pub fn rank(&self) -> (FaultRank, bool, u64) {
        (self.fault_rank(), !self.control.is_over(), self.moved_packets())
    }

    pub(super) fn of(qp: &QpSample) -> Self {
        Self {
            lqpn: qp.owner.lqpn,
            sources: vec![QpSource::Netlink],
            rqpn: qp.owner.rqpn,
            kind: qp.owner.kind,
            state: qp.owner.state,
            // The kernel lists a process, or its own module.
            origin: match (qp.owner.pid, &qp.owner.comm) {
                (Some(_), _) => Some(VERBS),
                (None, Some(_)) => Some(KERNEL),
                (None, None) => None,
            },
            pid: qp.owner.pid,
            comm: qp.owner.comm.clone(),
            pod: qp.owner.pod.clone(),
            sq_psn: qp.sq_psn,
            rq_psn: qp.rq_psn,
            sent_packets: qp.sent,
            received_packets: qp.received,
            ambiguous_readings: qp.sent.or(qp.received).map(|_| qp.ambiguous),
            pause_stall_ns: qp.stalled_ns,
            stall: qp.stall,
            ..Self::default()
        }
    }

    /// Takes over what the control path knows.
    pub(super) fn add(&mut self, life: &QpLife) {
        let is_devx = life.origin == Some(DEVX);
        let source = if is_devx { QpSource::Devx } else { QpSource::ControlPath };
        let list = self.sources.contains(&QpSource::Netlink).then_some(QpSource::Netlink);
        let of_list = |is_listed: bool| list.filter(|_| is_listed);
        let of_life = |is_known: bool| list.filter(|_| is_known).map(|_| source);
        // Of the sources, a list or context that showed the state may be none any more.
        let state = life.state.and(life.state_of).or(of_life(life.state.is_some()));
        let figures = [
            ("state", state.or(of_list(self.state.is_some()))),
            ("rqpn", of_life(life.rqpn.is_some()).or(of_list(self.rqpn.is_some()))),
        ];
        self.figure_sources.extend(figures.into_iter().filter_map(|(name, of)| Some((name, of?))));
        self.sources.push(source);
        // Lists and contexts are in the life, too, unless a verb is newer.
        self.rqpn = life.rqpn.or(self.rqpn);
        self.kind = self.kind.or(life.kind);
        self.origin = life.origin.or(self.origin);
        self.state = life.state.or(self.state);
        self.pid = self.pid.or(life.pid);
        self.comm = self.comm.take().or_else(|| life.comm.clone());
        self.pod = life.made_in().cloned().unwrap_or_else(|| self.pod.take().or_else(|| life.pod.clone()));
        self.control = life.control.clone();
        let PathChoices { priority, adaptive_routing, plane, bond_port, udp_port } = life.choices;
        self.control.udp_port = udp_port.or(self.control.udp_port);
        if udp_port.is_some() {
            self.figure_sources.insert("udp_port", QpSource::Devx);
        }
        (self.priority, self.adaptive_routing) = (priority, adaptive_routing);
        (self.plane, self.bond_port) = (plane, bond_port);
    }
}

fn every(devices: &mut [Device]) -> impl Iterator<Item = &mut DeviceQp> {
    devices.iter_mut().flat_map(|device| device.qps.iter_mut().chain(&mut device.unlisted))
}

/// Forgets the sources of figures: a recording has figures of several sources as one.
pub(super) fn forget_sources(devices: &mut [Device]) {
    every(devices).for_each(|qp| qp.figure_sources.clear());
}

/// Marks the queue pairs that a flow goes to or comes from.
pub(super) fn mark_packets(devices: &mut [Device], flows: &[FlowSample]) {
    if flows.is_empty() || devices.iter().all(|device| device.qps.is_empty()) {
        return;
    }
    let of = |flow: &FlowSample| (address(flow.key.family, flow.key.dst), flow.key.dest_qp);
    let ends: Set<(Address, u32)> = flows.iter().map(of).collect();
    for qp in every(devices) {
        let seen = |of: Option<IpAddr>, qpn: Option<u32>| {
            of.zip(qpn).is_some_and(|(of, qpn)| ends.contains(&(of.into(), qpn)))
        };
        if seen(qp.control.src, Some(qp.lqpn)) || seen(qp.control.dst, qp.rqpn) {
            qp.sources.push(QpSource::Packets);
        }
    }
}
