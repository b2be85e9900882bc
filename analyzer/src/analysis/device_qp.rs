//! A queue pair as the kernel, its control path and the NIC's own context show it.

use std::net::IpAddr;

use serde::Serialize;

use crate::source::devices::QpSample;
use crate::source::devices::lives::QpLife;

/// A queue pair, as RDMA netlink, the kernel's control path and the NIC's own context show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeviceQp {
    /// Number of the queue pair.
    pub lqpn: u32,
    /// Number of the queue pair at the other end. Null: not connected, or a datagram transport.
    pub rqpn: Option<u32>,
    /// Transport: `RC`, `UC`, `UD` … Null: not known.
    pub kind: Option<&'static str>,
    /// State: `RTS`, `ERR` … Null: not known.
    pub state: Option<&'static str>,
    /// Process that created it. Null: created by the kernel, or in another PID namespace.
    pub pid: Option<u32>,
    /// Command name of the process, or name of the kernel module. Null: not known.
    pub comm: Option<String>,
    /// Pod or container of the process. Null: none, or not readable.
    pub pod: Option<String>,
    /// PSN sent next. Unit: PSN. Null: not reported by the kernel.
    pub sq_psn: Option<u32>,
    /// PSN expected next. Unit: PSN. Null: not reported by the kernel, or a datagram transport.
    pub rq_psn: Option<u32>,
    /// PSNs taken by its requests since it was first seen; a READ takes those of the responses it asks for.
    /// Unit: packets. Null: PSNs of the device never moved (some drivers report those of the connection's
    /// start), may have wrapped between two readings, or the port's traffic is not known.
    pub sent_packets: Option<u64>,
    /// PSNs of the requests that it received. Unit: packets. Null: as `sent_packets`.
    pub received_packets: Option<u64>,
    /// Time without progress, although ready and busy before, while its priority was paused at least half of
    /// the time. Unit: ns. Null: not known from its PSNs.
    pub pause_stall_ns: Option<u64>,
    /// Address that it sends from. This and the following fields up to `ended_ns` come from the kernel's control path
    /// (`qp_lives`), some of them else from the NIC's own context (`qp_context`). Null: not seen there.
    pub src: Option<IpAddr>,
    /// Address of the other end. Null: not connected, or neither of the two shows it.
    pub dst: Option<IpAddr>,
    /// UDP source port of its packets: that of the NIC's own context, else computed as the kernel does
    /// (`rdma_get_udp_sport`). Null: not connected, not seen, or the driver leaves it to the firmware (bnxt_re, ionic, EFA).
    pub udp_port: Option<u16>,
    /// DSCP of its packets. Null: as `dst`.
    pub dscp: Option<u8>,
    /// Path MTU. Unit: bytes. Null: as `dst`.
    pub path_mtu: Option<u32>,
    /// Transport timeout, 4.096 µs · 2^n; 0 for never. Unit: ns. Null: as `dst`.
    pub timeout_ns: Option<u64>,
    /// Retries after a timeout or a sequence error. Unit: retries. Null: as `dst`.
    pub retry_cnt: Option<u8>,
    /// Retries after an RNR NAK; 7 for ever. Unit: retries. Null: as `dst`.
    pub rnr_retry: Option<u8>,
    /// Creation. Unit: Unix ns. Null: before the run, or not seen there.
    pub created_ns: Option<u64>,
    /// Destruction. Unit: Unix ns. Null: it exists, or its end was not seen.
    pub ended_ns: Option<u64>,
    /// Latest reading of the NIC's own context of the queue pair, from which this and the following fields come
    /// (`qp_context`). Unit: Unix ns. Null: none was read.
    pub context_ns: Option<u64>,
    /// Readings of its context. Unit: readings. Null: none was read.
    pub context_readings: Option<u64>,
    /// Priority (PCP) of its packets. Null: no context, or not in it.
    pub priority: Option<u8>,
    /// The NIC may send its packets on several paths (adaptive routing). Null: as `priority`.
    pub adaptive_routing: Option<bool>,
    /// Plane of a multi-plane port, from 1. Null: as `priority`, or none is chosen.
    pub plane: Option<u8>,
    /// Port of the bond that it sends on, from 1. Null: as `priority`, or none is chosen.
    pub bond_port: Option<u8>,
    /// Packets sent and not acknowledged. Unit: packets. Null: as `priority`, it has sent nothing yet, or it is in the error
    /// state.
    pub in_flight: Option<u32>,
    /// Time for which packets have been in flight without one being acknowledged, at least: up to the latest reading. 0:
    /// acknowledgements arrive, or nothing is in flight. Unit: ns. Null: as `in_flight`.
    pub stuck_ns: Option<u64>,
    /// Send work posted and not begun. Unit: the driver's blocks of work requests (mlx5: of 64 bytes). Null: as `priority`.
    pub unsent_wqes: Option<u32>,
    /// Receive work requests posted and not used yet. Unit: work requests. Null: as `priority`, or a shared receive queue.
    pub posted_receives: Option<u32>,
    /// Retries used up at the latest reading, of `retry_cnt`. Unit: retries. Null: as `in_flight`, or no idle queue pair of
    /// the device has shown yet how its counter counts.
    pub retries_used: Option<u8>,
    /// RNR retries used up at the latest reading, of `rnr_retry`. Unit: retries. Null: as `retries_used`.
    pub rnr_retries_used: Option<u8>,
    /// Readings that showed retries in use. Unit: readings. Null: as `retries_used`.
    pub retrying_readings: Option<u64>,
    /// Readings that showed RNR retries in use. Unit: readings. Null: as `retries_used`.
    pub rnr_retrying_readings: Option<u64>,
    /// Readings that showed a receive queue in use without a posted receive. Unit: readings. Null: as `posted_receives`.
    pub exhausted_readings: Option<u64>,
    /// Transport timeouts counted by the port that are attributed to it. Unit: timeouts. Null: none.
    pub timeouts: Option<u64>,
    /// Sequence-error NAKs counted by the port that are attributed to it. Unit: NAKs. Null: none.
    pub sequence_errors: Option<u64>,
    /// Confidence of `timeouts` and `sequence_errors`. `certain`: no other queue pair of the port that the kernel lists had
    /// a packet in flight. `likely`: its context showed retries or a standstill at that time; others may share the count.
    /// Null: none are attributed.
    pub attribution: Option<&'static str>,
}

/// The transport timeout of this exponent.
pub(super) fn timeout_ns(exponent: u8) -> u64 {
    match exponent {
        0 => 0,
        _ => 4_096_u64 << exponent.min(31),
    }
}

impl DeviceQp {
    pub(super) fn of(qp: &QpSample) -> Self {
        Self {
            lqpn: qp.owner.lqpn,
            rqpn: qp.owner.rqpn,
            kind: qp.owner.kind,
            state: qp.owner.state,
            pid: qp.owner.pid,
            comm: qp.owner.comm.clone(),
            pod: qp.owner.pod.clone(),
            sq_psn: qp.sq_psn,
            rq_psn: qp.rq_psn,
            sent_packets: qp.sent,
            received_packets: qp.received,
            pause_stall_ns: qp.stalled_ns,
            ..Self::default()
        }
    }

    /// Takes over what the control path knows.
    pub(super) fn add(&mut self, life: &QpLife) {
        self.rqpn = self.rqpn.or(life.rqpn);
        self.kind = self.kind.or(life.kind);
        self.state = self.state.or(life.state);
        self.pid = self.pid.or(life.pid);
        self.comm = self.comm.take().or_else(|| life.comm.clone());
        (self.src, self.dst, self.udp_port) = (life.src, life.dst, life.udp_port);
        self.dscp = life.traffic_class.map(|class| class >> 2);
        self.path_mtu = life.path_mtu;
        self.timeout_ns = life.timeout.map(timeout_ns);
        (self.retry_cnt, self.rnr_retry) = (life.retry_cnt, life.rnr_retry);
        (self.created_ns, self.ended_ns) = (life.created_ns, life.ended_ns);
    }
}
