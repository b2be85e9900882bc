//! The fields of a report, but for findings: sums over all links.
//!
//! The doc comment of a field is its definition in docs/metrics.md and in docs/report.schema.json. It ends with
//! `Unit: ….` where the field has a unit, and with `Null: ….` where it may be `None`, which is null. Structs whose
//! figures one module computes alone lie with that module: [`Ecmp`], [`Imbalance`], [`TapFlow`], [`Device`] and others.

mod by_hosts;
mod by_link;
mod compact;
mod flow;
mod link;
mod places;
mod setting;
pub(super) mod steps;
pub(super) mod traffic;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::metrics::duplicates::DuplicateCounts;
use crate::metrics::loss::signal_intervals::Mark;
use rocescope_common::wire::SkipReason;
use serde::{Serialize, Serializer};

use super::{
    Coverage, Device, Ecmp, Imbalance, MultiTapCounts, Nccl, PostSampling, QpContexts, QpLives, QpPaths,
    QpSpread, Rails, TapFlow,
};
use crate::sample::{LinkSample, Sample, SourceKind};

pub(crate) use by_link::ByLink;
pub use compact::{FlowEcn, Opcode, Opcodes, Psn, SequencePsns};
pub use flow::{
    Ack, CeOverTime, Cnp, CompletionByOperation, DuplicatePackets, Flow, FlowId, Latency, LatencyByClass,
    Naks, Pairing, Port, Untimed,
};
pub use link::{Dscp, EcnOverTime, Link};
pub(crate) use places::Places;
pub use setting::{MixedIn, Tunnels};

/// Everything that follows from one sample without a judgement.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Facts {
    /// Source of the figures.
    pub source: Source,
    /// Time range that the report covers.
    pub window: Window,
    /// Sums over all links.
    pub totals: Totals,
    /// Flows, sorted by link, source, destination and destination QP.
    pub flows: Vec<Flow>,
    /// ECMP entropy of all RoCEv2 traffic.
    pub entropy: Entropy,
    /// Links, idle ones included.
    pub links: Vec<Link>,
    /// Balance of links that share a load, one entry per group of links and direction: those that `--group`
    /// names, live all interfaces; without `--group`, captures that plainly share a load.
    pub imbalance: Vec<Imbalance>,
    /// Balance of the rails given by `--rail`, one entry per direction.
    pub rails: Vec<Rails>,
    /// Model of hashing the 5-tuples over equal uplinks; hash function and seed of a real switch are not
    /// known. Null: `--ecmp` is not given.
    pub ecmp: Option<Ecmp>,
    /// Flows seen at two taps, compared packet by packet. Empty in live runs.
    pub taps: Vec<TapFlow>,
    /// Bursts, one entry per link with traffic. Null: packets are not seen one by one (`--no-timing`,
    /// counters only), or of a recording.
    pub bursts: Option<Vec<traffic::Burst>>,
    /// Incast, one entry per link and receiver: the 256 receivers with the most senders. Null: as `bursts`.
    pub incast: Option<Vec<traffic::Incast>>,
    /// Steps of a training job, of the port with the most steps, both directions together. Null: no traffic
    /// has the pattern of a job, at least 0.1 % of all packets are in no bin (`totals.lost.bins_dropped`) or in no
    /// flow, or as `bursts`.
    pub steps: Option<traffic::Steps>,
    /// Reason in words why `steps` is null: of the port with most data. Null: there are steps, or packets are not seen
    /// one by one.
    pub steps_absent: Option<&'static str>,
    /// Traffic between hosts, and messages. Null: as `bursts`.
    pub pattern: Option<traffic::Pattern>,
    /// Counters of RDMA devices (live), one entry per device, port and source. They are never added to
    /// figures from packets.
    pub devices: Vec<Device>,
    /// RoCE packets seen by rocescope against those counted by the NIC (live), one entry per port and
    /// direction.
    pub coverage: Vec<Coverage>,
    /// Coverage of the kernel's control path, which gives the settings, events and ends of queue pairs whose
    /// packets bypass the kernel (`devices[].qps`, `devices[].qp_events`). Null: no RDMA device is watched.
    pub qp_lives: Option<QpLives>,
    /// Communicators and ranks of the NCCL jobs on this host, by their own account (`--nccl-ras`). Null: NCCL
    /// is not asked.
    pub nccl: Option<Nccl>,
    /// Coverage of the NIC's own contexts of queue pairs (`devices[].qps[].context_ns` and the fields after it), and
    /// what the queries cost. Null: no RDMA device is watched, or `--qp-queries 0`.
    pub qp_context: Option<QpContexts>,
    /// Paths of queue pairs whose packets bypass rocescope, as on NICs that do RoCE in hardware: 5-tuples, entropy and
    /// balance from the source ports that drivers compute or contexts hold. Null: there is no such queue pair.
    pub qp_paths: Option<QpPaths>,
    /// Coverage of the samples of work that processes post (`devices[].qps[].posts`). Null: no `--sample-posts`.
    pub post_sampling: Option<PostSampling>,
    /// Spread of the bytes of each sending host over queue pairs and 5-tuples.
    #[serde(skip)]
    pub spreads: Vec<QpSpread>,
    /// Pairs of links, the smaller number first, that see packets of the same sequence.
    #[serde(skip)]
    pub(crate) related: BTreeSet<(u16, u16)>,
    /// Packets of every flow at the marks that intervals refer to.
    #[serde(skip)]
    pub marks: Vec<Arc<Mark>>,
    /// The flows by their hosts.
    #[serde(skip)]
    pub(crate) by_hosts: Places,
    /// The links by their names.
    #[serde(skip)]
    pub(crate) by_name: Places,
}

impl Facts {
    /// True if they are of a recording, which has less than captures and live runs.
    pub const fn is_recording(&self) -> bool {
        self.source.recording.is_some()
    }

    /// True if all flows are of InfiniBand: no RoCE was seen.
    pub fn is_infiniband(&self) -> bool {
        !self.flows.is_empty() && self.flows.iter().all(|flow| flow.roce_version.is_none())
    }

    /// The name of a congestion mark: InfiniBand has one of its own.
    pub fn mark(&self) -> &'static str {
        if self.is_infiniband() { "FECN" } else { "CE" }
    }
}

/// Source of the figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Source {
    /// Kind of source.
    pub kind: InputKind,
    /// Interfaces, or capture files as given.
    pub inputs: Vec<String>,
    /// Expression of `--filter`. RoCE packets that do not match are counted in `totals.packets` and
    /// `totals.skipped.filtered` only. Null: no filter.
    pub filter: Option<String>,
    /// The recording that is played back (docs/recording.md says what one has not). Null: the source is not a
    /// recording.
    pub recording: Option<Recorded>,
}

/// A recording that is played back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Recorded {
    /// Length of its intervals: the median, to three digits. It is that of `--interval`, and longer where a capture has
    /// pauses. Unit: ns. Null: it has no rows of links.
    pub interval_ns: Option<u64>,
}

/// The kind of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// Capture files or a stream of one.
    Replay,
    /// Programs in the kernel.
    Live,
    /// Counters of devices alone.
    Counters,
    /// Packets and counters of devices.
    Mixed,
}

impl From<SourceKind> for InputKind {
    fn from(kind: SourceKind) -> Self {
        match kind {
            SourceKind::Replay => Self::Replay,
            SourceKind::Live => Self::Live,
        }
    }
}

impl InputKind {
    /// The name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Live => "live",
            Self::Counters => "counters",
            Self::Mixed => "mixed",
        }
    }
}

/// Time range of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Window {
    /// Replay: time of the first frame of any kind. Live: time at which the programs were attached. Unit:
    /// Unix ns. Null: no frame was captured.
    pub first_ns: Option<u64>,
    /// Replay: time of the last frame of any kind. Live: time of the last reading. Unit: Unix ns. Null: no
    /// frame was captured.
    pub last_ns: Option<u64>,
}

impl Window {
    /// Length in nanoseconds; `None` when either end is not known or they are swapped.
    pub fn length_ns(&self) -> Option<u64> {
        self.last_ns?.checked_sub(self.first_ns?)
    }
}

/// Sums over all links. A packet that passes two links counts twice: see `counted_again`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Totals {
    /// All frames, RoCE or not. Unit: packets.
    pub packets: u64,
    /// Length of these frames on the wire: outer frame without FCS. Unit: bytes.
    pub bytes: u64,
    /// RoCE packets: frames with a whole base transport header that match `--filter`. Unit: packets.
    pub roce_packets: u64,
    /// Length of their outer frames. Unit: bytes.
    pub roce_bytes: u64,
    /// Congestion notification packets (opcode 0x81). Unit: packets.
    pub cnp_packets: u64,
    /// All packets of flows and retired flows, by their ECN bits. Null: of a recording.
    pub ecn: Option<Ecn>,
    /// Packets other than CNP and ACKNOWLEDGE; the base of `ce_ratio`.
    #[serde(skip)]
    pub ecn_data: Ecn,
    /// CE ratio as in `flows[].ce_ratio`, over all flows and retired flows. Unit: ratio. Null: no data packet
    /// is ECN-capable.
    pub ce_ratio: Option<f64>,
    /// Frames that are not counted as RoCE, by reason (see the table of reasons). Unit: packets.
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, u64>"))]
    pub skipped: Skipped,
    /// Packets and events that rocescope or the capture lost.
    pub lost: Lost,
    /// Flows that were closed during the run.
    pub retired: Retired,
    /// Duplicates among the RoCE packets (mirrored), without those in `counted_again`. Null: none.
    #[serde(rename = "copied", serialize_with = "flow::duplicate_packets")]
    #[cfg_attr(test, schemars(with = "Option<DuplicatePackets>"))]
    pub duplicates: Option<Box<DuplicateCounts>>,
    /// Packets that several links counted.
    pub counted_again: MultiTapCounts,
}

impl Totals {
    /// RoCE packets, each once, however many taps or duplicates show it; as far as that is known.
    pub fn packets_once(&self) -> u64 {
        let again = self.counted_again.roce_packets.unwrap_or(0);
        let duplicates = self.duplicates.as_ref().map_or(0, |duplicates| duplicates.packets);
        self.roce_packets.saturating_sub(again.saturating_add(duplicates))
    }
}

/// Packets that are not RoCE, by reason, in the order of the reasons; none of them 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped(pub Vec<(SkipReason, u64)>);

impl Serialize for Skipped {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(reason, n)| (reason.name(), n)))
    }
}

impl Skipped {
    /// Of all links.
    pub(crate) fn of(sample: &Sample) -> Self {
        let of =
            |reason: SkipReason| sample.links.iter().map(move |link| link.skipped[reason as usize].packets);
        let by_reason = SkipReason::ALL.into_iter().map(|reason| (reason, of(reason).sum::<u64>()));
        Self(by_reason.filter(|(_, n)| *n > 0).collect())
    }

    /// All packets that were skipped.
    pub fn packets(&self) -> u64 {
        self.0.iter().map(|(_, n)| n).sum()
    }
}

/// Packets and events that were not counted, or not in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Lost {
    /// RoCE packets that found the flow table full. They are in the totals and in their link, but in no flow.
    /// Unit: packets.
    pub flow_table_full: u64,
    /// Events dropped because the ring buffer was full. Unit: events. Null: there is no ring buffer (replay).
    pub events_dropped: Option<u64>,
    /// Packets that the capture reports as dropped. Unit: packets. Null: the capture does not report drops,
    /// or there is no capture.
    pub capture_drops: Option<u64>,
    /// Packets that the interfaces dropped on receipt during the run. Unit: packets. Null: not known
    /// (replay).
    pub interface_drops: Option<u64>,
    /// Packets whose source port or opcode found the overflow table full. They are counted in their flow, but
    /// not in `src_ports` or `opcodes`. Unit: packets.
    pub extra_table_full: u64,
    /// RoCE packets of live runs that gave up after about 0.5 s on counters locked by another processor. They
    /// are in the totals and in their link, but in no flow. A lock is held for nanoseconds unless the
    /// hypervisor stops the processor: expect 0. Unit: packets.
    pub contended: u64,
    /// Packets left out of `ce_over_time` and `cnp` because 16,384 other flows are tracked. Unit: packets.
    /// Null: not collected.
    pub ecn_untracked: Option<u64>,
    /// Packets that are counted in their flows, but not in `bursts`, `incast`, `steps` and `pattern.matrix`,
    /// because the ring buffer of bins was full. Unit: packets. Null: they cannot get lost (replay), or bins
    /// are not collected.
    pub bins_dropped: Option<u64>,
    /// Pause frames left out of `links[].pause` because more than 256 stations sent some. Unit: frames. Null:
    /// not collected (live).
    pub pause_untracked: Option<u64>,
}

impl Lost {
    /// What the counters of a sample lack. Collectors that leave something out are not among it.
    pub(crate) fn of(sample: &Sample) -> Self {
        let sum = |of: fn(&LinkSample) -> u64| sample.links.iter().map(of).sum();
        Self {
            flow_table_full: sum(|link| link.flow_table_full.packets),
            contended: sum(|link| link.contended.packets),
            extra_table_full: sum(|link| link.extra_full),
            events_dropped: sample.events_dropped,
            capture_drops: sample.capture_drops,
            interface_drops: sample.interface_drops,
            bins_dropped: sample.metrics.traffic.as_ref().and_then(|traffic| traffic.lost_packets()),
            ..Self::default()
        }
    }

    /// True if the counters lack anything.
    pub fn any(&self) -> bool {
        let known = [self.events_dropped, self.capture_drops, self.interface_drops, self.bins_dropped];
        self.flow_table_full + self.contended + self.extra_table_full > 0
            || known.iter().flatten().any(|n| *n > 0)
    }

    /// What the counters lack, in words; `counted` writes a number and its unit.
    pub fn in_words(&self, counted: fn(u64, &str) -> String) -> Vec<String> {
        let known = [
            (Some(self.flow_table_full), "packet", "in no flow: flow table full"),
            (Some(self.contended), "packet", "in no flow: counter contention"),
            (self.capture_drops, "packet", "dropped by the capture"),
            (self.interface_drops, "packet", "dropped by the interface"),
            (self.events_dropped, "event", "dropped: ring buffer full"),
            (self.bins_dropped, "packet", "not in burst/step statistics"),
            (Some(self.extra_table_full), "packet", "without port or opcode statistics"),
        ];
        let some = known.into_iter().filter(|(n, ..)| *n > Some(0));
        some.map(|(n, unit, what)| format!("{} {what}", counted(n.unwrap_or(0), unit))).collect()
    }
}

/// Flows that were closed during the run: idle for long, or to make room. Their counts stay in totals and
/// links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Retired {
    /// Retired flows. Unit: flows.
    pub flows: u64,
    /// Their packets. Unit: packets.
    pub packets: u64,
    /// Their bytes. Unit: bytes.
    pub bytes: u64,
    /// Packets lost upstream in them, as in `flows[].loss.lost`, at each link that showed them. Unit: PSNs. Null: none
    /// was retired, or of a recording.
    pub lost: Option<u64>,
    /// Packets retransmitted in them, READ requests included. Unit: packets. Null: as `lost`.
    pub retransmitted: Option<u64>,
    /// Transport timeouts in them. Unit: timeouts. Null: as `lost`.
    pub timeouts: Option<u64>,
    /// Their data packets by ECN bits.
    #[serde(skip)]
    pub ecn_data: Ecn,
}

/// Packets by the ECN bits of the innermost IP header. RoCEv1 packets have none and are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ecn {
    /// ECN bits 00: not ECN-capable. Unit: packets.
    pub not_ect: u64,
    /// ECN bits 01: ECN-capable, ECT(1). Unit: packets.
    pub ect1: u64,
    /// ECN bits 10: ECN-capable, ECT(0). Unit: packets.
    pub ect0: u64,
    /// ECN bits 11: congestion experienced. Unit: packets.
    pub ce: u64,
}

impl From<[u64; 4]> for Ecn {
    /// From counters indexed by the two bits.
    fn from([not_ect, ect1, ect0, ce]: [u64; 4]) -> Self {
        Self { not_ect, ect1, ect0, ce }
    }
}

impl Ecn {
    /// Packets that are ECN-capable, marked ones included.
    pub fn capable(&self) -> u64 {
        self.ect0 + self.ect1 + self.ce
    }

    /// CE among packets that are ECN-capable; `None` when none is.
    pub fn ce_ratio(&self) -> Option<f64> {
        let capable = self.capable();
        (capable > 0).then(|| self.ce as f64 / capable as f64)
    }

    pub(in crate::analysis) fn add(&mut self, [not_ect, ect1, ect0, ce]: [u64; 4]) {
        self.not_ect += not_ect;
        self.ect1 += ect1;
        self.ect0 += ect0;
        self.ce += ce;
    }
}

/// Distribution of the bytes over the 5-tuples that fabrics hash: more even means better ECMP balance. Retired flows
/// are included. A 5-tuple that several links see counts once, with the bytes of the link that saw the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Entropy {
    /// The figures of the distribution.
    #[serde(flatten)]
    pub tuples: TupleEntropy,
    /// Bytes left out because their 5-tuple is not known: the flow table was full, too many flows were retired, or
    /// the overflow table was full. Unit: bytes. Null: a flow lost ports and carried both RoCE versions.
    pub unattributed_bytes: Option<u64>,
    /// The 5-tuples of flows that carry payload, without those of ACKs and CNPs alone, and without retired flows.
    /// Null: no RoCEv2 was seen.
    pub data: Option<DataEntropy>,
}

/// Distribution of weights over 5-tuples: of bytes in `entropy`, of what `weighted_by` names in `qp_paths`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TupleEntropy {
    /// Distinct 5-tuples (source, destination, UDP, source port, 4791). Unit: tuples.
    pub five_tuples: u64,
    /// Distinct UDP source ports among them. Unit: ports.
    pub source_ports: u64,
    /// Entropy of the weights (bytes, or those of `weighted_by`) over the 5-tuples: −Σ p·log2 p. Unit: bits. Null: no
    /// 5-tuple is known, or none has weight.
    pub entropy_bits: Option<f64>,
    /// Normalized entropy: `entropy_bits` over its maximum, log2(`five_tuples`); 1: even. Unit: ratio. Null:
    /// fewer than two 5-tuples.
    pub normalized: Option<f64>,
    /// Effective flows: 2 to the entropy, the number of equal flows with the same entropy. Unit: tuples. Null: as
    /// `entropy_bits`.
    pub effective_flows: Option<f64>,
    /// Share of the busiest 5-tuple. Unit: ratio. Null: as `entropy_bits`.
    pub top_share: Option<f64>,
}

/// Distribution of the bytes over the 5-tuples that carry data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DataEntropy {
    /// Distinct 5-tuples with payload. Unit: tuples.
    pub five_tuples: u64,
    /// Effective flows: 2 to the entropy of their bytes. Unit: tuples. Null: none has payload.
    pub effective_flows: Option<f64>,
    /// Their entropy over its maximum; 1: even. Unit: ratio. Null: fewer than two.
    pub normalized: Option<f64>,
}
