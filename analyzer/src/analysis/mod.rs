//! Facts: what follows from one sample without a judgement.
//!
//! [`Facts::of`] sums, sorts, pairs and compares what a [`Sample`](crate::sample::Sample) has counted. Findings judge facts, a
//! report is facts and findings. The structs are those of `rocescope.report/1`: the doc comment of a field is its definition in docs/metrics.md and in
//! docs/report.schema.json. It ends with `Unit: ….` where the field has a unit, and with `Null: ….` where it may be null, which
//! is `None`: not known.

mod build;
mod device;
mod ecmp;
mod ecn;
mod entropy;
#[cfg(test)]
pub(crate) mod fixtures;
mod flow;
mod imbalance;
mod latency;
pub(crate) mod loss;
mod matrix;
mod paths;
pub(crate) mod ports;
mod shape;
mod taps;
#[cfg(test)]
mod tests;
pub mod traffic;
pub(crate) mod uneven;

use std::net::IpAddr;

use rocescope_common::wire::Reason;
use serde::{Serialize, Serializer};

use crate::sample::{Direction, SourceKind};
use crate::source::net::lldp::Neighbour;

pub use build::compare_links as imbalance;
pub use device::{Coverage, Device, DeviceQp, DeviceQpCounters, Pause, WHOLE, worst as worst_coverage};
pub use ecmp::{Case, Ecmp, Set, in_words as hashing_case, what_if};
pub use entropy::{QpSpread, Spread, entropy};
pub use imbalance::{Imbalance, Load, OverTime, Rail, Rails, SamePath, imbalances, unknown_names};
pub use loss::{Episodes, Icrc, LastNaks, Loss, Unfollowed};
pub(crate) use paths::related;
pub use paths::{Again, CountedAgain, Paths};
pub use taps::{Between, DelayChange, DelayPoint, TapFlow};

/// Source ports that a flow lists: those with most bytes.
pub const MAX_PORTS: usize = 16;

/// What the user chose about the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Names of links that share a load, one list per `--group`.
    pub groups: Vec<Vec<String>>,
    /// Compare all links of one direction too: live runs with two or more interfaces.
    pub imbalance_all_links: bool,
    /// Number of equal uplinks to hash the flows over, at least 2.
    pub ecmp: Option<u32>,
    /// Rails: a link and the name of its rail, one for each `--rail`.
    pub rails: Vec<(String, String)>,
    /// The expression that packets or flows had to match to be counted.
    pub filter: Option<String>,
}

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
    /// Balance of links that share a load, one entry per group of links and direction.
    pub imbalance: Vec<Imbalance>,
    /// Balance of the rails given by `--rail`, one entry per direction.
    pub rails: Vec<Rails>,
    /// Model of hashing the 5-tuples over equal uplinks; hash function and seed of a real switch are not
    /// known. Null: `--ecmp` is not given.
    pub ecmp: Option<Ecmp>,
    /// Flows seen at two taps, compared packet by packet. Empty in live runs.
    pub taps: Vec<TapFlow>,
    /// Bursts, one entry per link with traffic. Null: packets are not seen one by one (`--no-timing`,
    /// counters only).
    pub bursts: Option<Vec<traffic::Burst>>,
    /// Incast, one entry per link and receiver: the 256 receivers with the most senders. Null: as `bursts`.
    pub incast: Option<Vec<traffic::Incast>>,
    /// Steps of a training job, of the port with the most steps, both directions together. Null: no traffic
    /// has the pattern of a job, at least 0.1 % of all packets are in no bin (`totals.lost.bins_dropped`), or
    /// as `bursts`.
    pub steps: Option<traffic::Steps>,
    /// Traffic between hosts, and messages. Null: as `bursts`.
    pub pattern: Option<traffic::Pattern>,
    /// Counters of RDMA devices (live), one entry per device, port and source. They are never added to
    /// figures from packets.
    pub devices: Vec<Device>,
    /// RoCE packets seen by rocescope against those counted by the NIC (live), one entry per port and
    /// direction.
    pub coverage: Vec<Coverage>,
}

/// Source of the figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Source {
    /// Kind of source.
    pub kind: Kind,
    /// Interfaces, or capture files as given.
    pub inputs: Vec<String>,
    /// Expression of `--filter`. RoCE packets that do not match are counted in `totals.packets` and
    /// `totals.skipped.filtered` only. Null: no filter.
    pub filter: Option<String>,
}

/// The kind of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Capture files or a stream of one.
    Replay,
    /// Programs in the kernel.
    Live,
    /// Counters of devices alone.
    Counters,
    /// Packets and counters of devices.
    Mixed,
}

impl From<SourceKind> for Kind {
    fn from(kind: SourceKind) -> Self {
        match kind {
            SourceKind::Replay => Self::Replay,
            SourceKind::Live => Self::Live,
        }
    }
}

impl Kind {
    /// The name in the report.
    #[must_use]
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
    #[must_use]
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
    /// All packets of flows and retired flows, by their ECN bits.
    pub ecn: Ecn,
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
    /// Packets that several links counted.
    pub counted_again: CountedAgain,
}

/// Packets that are not RoCE, by reason, in the order of the reasons; none of them 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped(pub Vec<(Reason, u64)>);

impl Serialize for Skipped {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(reason, n)| (reason.name(), n)))
    }
}

impl Skipped {
    /// All packets that were skipped.
    #[must_use]
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
    #[must_use]
    pub fn capable(&self) -> u64 {
        self.ect0 + self.ect1 + self.ce
    }

    /// CE among packets that are ECN-capable; `None` when none is.
    #[must_use]
    pub fn ce_ratio(&self) -> Option<f64> {
        let capable = self.capable();
        (capable > 0).then(|| self.ce as f64 / capable as f64)
    }

    fn add(&mut self, [not_ect, ect1, ect0, ce]: [u64; 4]) {
        self.not_ect += not_ect;
        self.ect1 += ect1;
        self.ect0 += ect0;
        self.ce += ce;
    }
}

/// One direction of a queue pair on one link: link, direction, source, destination and destination QP
/// identify it. The UDP source port is no part of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Flow {
    /// Name of the link, as in `links[].name`.
    pub link: String,
    /// Direction of the link. Null: replay.
    pub direction: Option<Direction>,
    /// Source address: of the innermost IP header, or of the GRH of RoCEv1.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Destination queue pair, 24 bits. For CNPs: the queue pair whose rate is to be reduced.
    pub dest_qp: u32,
    /// RoCE version of the first packet: 1 (GRH over Ethernet) or 2 (UDP).
    pub roce_version: u8,
    /// Distinct UDP source ports; 0 for RoCEv1, which has none. Unit: ports. Null: some ports found the
    /// overflow table full.
    pub src_port_count: Option<u64>,
    /// UDP source ports: the 16 with the most bytes, in descending order.
    pub src_ports: Vec<Port>,
    /// Outermost VLAN id of the first packet; 0: untagged. Null: not known: XDP may not see the tag, raw IP
    /// has no link layer.
    pub vlan: Option<u16>,
    /// Second VLAN id of the first packet; 0: none. Null: not known.
    pub inner_vlan: Option<u16>,
    /// Priority code point of the first packet. Null: untagged, or not known.
    pub pcp: Option<u8>,
    /// DSCP of the first packet. Null: RoCEv1.
    pub dscp: Option<u8>,
    /// Tunnels of the first packet, outermost first, joined by `+`: `vxlan`, `vxlan-gpe`, `geneve`, `gre`,
    /// `erspan1`, `erspan2`, `erspan3`, `mpls`, `ipip`. Null: none.
    pub encapsulation: Option<String>,
    /// Properties in which a later packet differs from the first: `vlan`, `inner_vlan`, `pcp`, `dscp`,
    /// `encapsulation`, `roce_version`.
    pub mixed: Vec<&'static str>,
    /// Path MTU in use: payload of the latest FIRST or MIDDLE packet of a SEND or WRITE. Unit: bytes. Null:
    /// no message of several packets was seen.
    pub path_mtu: Option<u32>,
    /// Packets of every kind. Unit: packets.
    pub packets: u64,
    /// Length of the outer frames on the wire, without FCS. Unit: bytes.
    pub bytes: u64,
    /// Length of the encapsulated frames: inner IP packet plus 14 bytes each. Unit: bytes. Null: no packet
    /// was encapsulated.
    pub inner_bytes: Option<u64>,
    /// Payload without headers, padding and ICRC. Unit: bytes.
    pub payload_bytes: u64,
    /// Packets of unknown payload length: the opcode's headers are not known, or lengths contradict each
    /// other. Unit: packets.
    pub payload_unknown: u64,
    /// Time of the first packet. Unit: Unix ns.
    pub first_ns: u64,
    /// Time of the last packet. Unit: Unix ns.
    pub last_ns: u64,
    /// All packets of the flow, by their ECN bits.
    pub ecn: Ecn,
    /// Packets other than CNP and ACKNOWLEDGE; the base of [`Flow::ce_ratio`].
    #[serde(skip)]
    pub ecn_data: Ecn,
    /// CE-marked over ECN-capable packets, without CNPs and ACKNOWLEDGEs: ce / (ect0 + ect1 + ce). Unit:
    /// ratio. Null: none of them is ECN-capable: ECN is off, which is not 0 %.
    pub ce_ratio: Option<f64>,
    /// CE marks over time. Null: no packet is CE-marked.
    pub ce_over_time: Option<CeOverTime>,
    /// CNPs in this flow: they request a rate reduction of `dest_qp`. Unit: packets.
    pub cnp_packets: u64,
    /// CNPs in this flow and their effect. Null: there are none; live also: all their events were dropped
    /// (`totals.lost.events_dropped`).
    pub cnp: Option<Cnp>,
    /// Packets by opcode, in ascending order.
    pub opcodes: Vec<Opcode>,
    /// Acknowledgements by the syndrome of their AETH.
    pub ack: Ack,
    /// Time of the latest NAK of each kind. Null: live with `--no-timing`.
    pub last_naks_ns: Option<LastNaks>,
    /// PSNs of the requests. Null: no request of RC, UC or XRC was seen.
    pub psn: Option<Psn>,
    /// PSNs of READ responses and atomic acknowledgements. Null: none was seen.
    pub psn_responses: Option<Psn>,
    /// Part of `psn_responses.missing` that is certainly missing: PSNs skipped within a response message, and
    /// one for each message without a beginning, or whose predecessor has no end. PSNs skipped between two
    /// messages may belong to requests that an ACK answers. Unit: PSNs. Null: no response was seen.
    pub responses_missing: Option<u64>,
    /// Loss, reordering and retransmission of the requests. Live: of timed flows (see `latency_ns`), since
    /// they are timed (`loss_unfollowed`); IPv4 identifications are not used, and pauses are those between
    /// any packets of the flow. Null: no request of RC, UC or XRC was seen; live also: the flow is not timed,
    /// or was not while PSNs were skipped or repeated, events were dropped, or `--no-timing`.
    pub loss: Option<Loss>,
    /// Loss, reordering and retransmission of READ responses and atomic acknowledgements. Null: no response
    /// was seen, or live: repeated responses are counted only, see `responses_missing`.
    pub loss_responses: Option<Loss>,
    /// Packets before loss detection began, which are not in `loss`. Pairing the two directions of a
    /// connection takes some milliseconds when rocescope starts during a run. Null: requests were followed
    /// from the first packet on, or no PSN had been skipped or repeated before.
    pub loss_unfollowed: Option<Unfollowed>,
    /// Check of the invariant CRC. Null: not checked by this source (live).
    pub icrc: Option<Icrc>,
    /// Request-to-ACK and response latency at this tap: from a request that asks for an acknowledgement, a
    /// READ, atomic or FLUSH to the first packet that answers it. An ACK answers all requests up to its PSN.
    /// Needs the reverse flow (`pairing`) on the same tap. Live: measured in the kernel by its exact clock,
    /// for the 512 busiest flows of requests that are paired. Null: no sample: no such request, or no reverse
    /// flow; live also: 512 busier flows are timed (`latency_untimed.untracked`), or `--no-timing`.
    pub latency_ns: Option<Latency>,
    /// The same latency by class of request. Null: as `latency_ns`.
    pub latency_by_class: Option<LatencyByClass>,
    /// Requests without a sample because the reverse flow was not yet known; pairing is not applied
    /// backwards. Live, a pair is known some milliseconds after the packet that shows it. Unit: requests.
    /// Null: the flow has no request to be timed, or live with `--no-timing`.
    pub latency_unpaired: Option<u64>,
    /// Other requests without a sample. Null: as `latency_unpaired`.
    pub latency_untimed: Option<Untimed>,
    /// Sum of silences of at least 1 ms during at least half of which the priority of the flow was paused by
    /// MAC control frames on the link. The priority is the PCP of the tag, without a tag DSCP / 8. Unit: ns.
    /// Null: live, no pause frame on the link, or `--link-speed` is not given.
    pub pause_stall_ns: Option<u64>,
    /// Queue pair at the sending end: the destination QP of the reverse flow. Null: not known, or the packets
    /// came from several.
    pub peer_qp: Option<u32>,
    /// Method by which `peer_qp` was found. Null: as `peer_qp`.
    pub pairing: Option<Pairing>,
    /// Process on this host that owns the queue pair to which the flow goes (ingress) or from which it comes
    /// (egress). Null: not live, no RDMA device, owned by the kernel, or two queue pairs match.
    pub pid: Option<u32>,
    /// Command name of the process, or name of the kernel module. Null: not known.
    pub comm: Option<String>,
    /// Kubernetes pod (name or id) of the process, else its container, else its Slurm job. Null: not known,
    /// or it runs directly on the host.
    pub pod: Option<String>,
}

/// Packets and bytes from one UDP source port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Port {
    /// UDP source port.
    pub port: u16,
    /// Packets from it. Unit: packets.
    pub packets: u64,
    /// Length of their outer frames. Unit: bytes.
    pub bytes: u64,
}

/// Packets with one BTH opcode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Opcode {
    /// BTH opcode.
    pub code: u8,
    /// Name of the opcode, as in Linux' ib_pack.h without the prefix; `CNP`, `DC_OR_RD_0xNN` and
    /// `UNKNOWN_0xNN` besides.
    pub name: String,
    /// Packets with it. Unit: packets.
    pub packets: u64,
}

/// Acknowledgements by the syndrome of their AETH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ack {
    /// Positive acknowledgements: ACKNOWLEDGE, READ RESPONSE, ATOMIC ACKNOWLEDGE. Unit: packets.
    pub acks: u64,
    /// RNR NAKs: the receiver had no receive buffer posted. Unit: packets.
    pub rnr_naks: u64,
    /// NAKs by code.
    pub naks: Naks,
    /// AETHs that are truncated or of the reserved type. Unit: packets.
    pub unknown: u64,
}

/// NAKs by code, without RNR NAKs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Naks {
    /// Code 0, PSN sequence error: the responder received a PSN ahead of the expected one. Unit: packets.
    pub psn_sequence_error: u64,
    /// Code 1. Unit: packets.
    pub invalid_request: u64,
    /// Code 2. Unit: packets.
    pub remote_access_error: u64,
    /// Code 3. Unit: packets.
    pub remote_operational_error: u64,
    /// Code 4. Unit: packets.
    pub invalid_rd_request: u64,
    /// All other codes. Unit: packets.
    pub reserved: u64,
}

impl From<[u64; 6]> for Naks {
    /// From counters indexed by the code, all others last.
    fn from([sequence, invalid, access, operational, invalid_rd, reserved]: [u64; 6]) -> Self {
        Self {
            psn_sequence_error: sequence,
            invalid_request: invalid,
            remote_access_error: access,
            remote_operational_error: operational,
            invalid_rd_request: invalid_rd,
            reserved,
        }
    }
}

impl Naks {
    /// NAKs of every code.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.psn_sequence_error
            + self.invalid_request
            + self.remote_access_error
            + self.remote_operational_error
            + self.invalid_rd_request
            + self.reserved
    }
}

/// PSNs of the requests, or of the responses, of one flow. These are raw counts: `loss` tells loss from
/// reordering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Psn {
    /// PSN of the first packet seen. Unit: PSN.
    pub first: u32,
    /// PSN expected next. Unit: PSN.
    pub expected: u32,
    /// Packets up to 65,536 PSNs behind the expected one: retransmitted or out of order. Unit: packets.
    pub repeats: u64,
    /// Jumps ahead by less than 65,536 PSNs: packets were lost upstream, or arrive later. Responses also jump
    /// over the PSNs of other requests without any loss: see `responses_missing`. Unit: jumps.
    pub gaps: u64,
    /// PSNs skipped by these jumps. Unit: PSNs.
    pub missing: u64,
    /// Larger jumps: the QP number is in use again. Unit: jumps.
    pub restarts: u64,
}

/// Distribution of latencies. Percentiles are middles of histogram buckets, at most 6.25 % off; all values
/// below 1.024 µs share a bucket, as do all above 17.2 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Latency {
    /// Samples. Unit: samples.
    pub count: u64,
    /// Median. Unit: ns.
    pub p50: u64,
    /// 99th percentile. Unit: ns.
    pub p99: u64,
    /// 99.9th percentile. Unit: ns.
    pub p999: u64,
    /// Longest, exact to 16 ns. Unit: ns.
    pub max: u64,
}

/// CE marks of a flow in at most 64 bins from the first mark on. Bins are 1.05 ms wide; the width doubles
/// when the bins do not suffice. Live: a bin is at least as long as the time between two readings, and the
/// first covers the time since the reading before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CeOverTime {
    /// Start of the first bin. Unit: Unix ns.
    pub start_ns: u64,
    /// Width of a bin. Unit: ns.
    pub bin_ns: u64,
    /// ECN-capable packets in each bin, CE-marked ones included, without CNPs and ACKNOWLEDGEs. Unit:
    /// packets.
    pub capable: Vec<u32>,
    /// CE-marked packets among them. Unit: packets.
    pub ce: Vec<u32>,
}

/// CE marks and CNPs of a link in at most 128 bins. Bins are 1.05 ms wide; the width doubles when the bins do
/// not suffice. Live: a bin is at least as long as the time between two readings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EcnOverTime {
    /// Start of the first bin. Unit: Unix ns.
    pub start_ns: u64,
    /// Width of a bin. Unit: ns.
    pub bin_ns: u64,
    /// ECN-capable packets in each bin, CE-marked ones included, without CNPs and ACKNOWLEDGEs. Unit:
    /// packets.
    pub capable: Vec<u32>,
    /// CE-marked packets among them. Unit: packets.
    pub ce: Vec<u32>,
    /// CNPs in each bin. Unit: packets.
    pub cnp: Vec<u32>,
}

/// CNPs in a flow, and their effect on the data flow whose rate they reduce.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cnp {
    /// The data flow whose sender is asked to reduce its rate, on the same tap. Null: not known (see
    /// `pairing`), or not visible at this tap.
    pub answers: Option<FlowId>,
    /// CNPs per second between the first and the last. Unit: 1/s. Null: fewer than two CNPs, or no time
    /// between them.
    pub per_second: Option<f64>,
    /// Shortest interval between two CNPs: the NIC's CNP pacing is at most this. Unit: ns. Null: fewer than
    /// two CNPs; live also: events were dropped, possibly of a CNP between two others.
    pub min_interval_ns: Option<u64>,
    /// Time from the first CE mark since the previous CNP to the CNP, at this tap. It includes the NIC's CNP
    /// pacing, which can make up most of it. `count` is the number of CNPs with a mark before them. Null: no
    /// mark was seen before a CNP; live also: the pair of flows is not timed (see `latency_ns`).
    pub delay_ns: Option<Latency>,
    /// CNPs without a CE mark since the previous one. Marks set downstream of this tap are not visible. Unit:
    /// packets. Null: the data flow is not known; live also: it is not timed, or events were dropped.
    pub without_ce: Option<u64>,
    /// Data rate in the window before a CNP: median over up to 128 CNPs, without those before any mark or
    /// other CNP. Outer frames of ECN-capable packets. Unit: bits/s. Null: the data flow is not known, has
    /// too few packets, or stops after CNPs; live: not collected.
    pub rate_before_bps: Option<u64>,
    /// Data rate in the window after a CNP, without the first 262 µs. Unit: bits/s. Null: as
    /// `rate_before_bps`.
    pub rate_after_bps: Option<u64>,
    /// Length of these windows: 1.05 ms, or 10.5 ms for slow senders. Unit: ns. Null: as `rate_before_bps`.
    pub rate_window_ns: Option<u64>,
    /// CNPs that the two rates are based on. Unit: CNPs. Null: as `rate_before_bps`.
    pub rate_samples: Option<u64>,
}

/// Latency by class of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LatencyByClass {
    /// SEND, WRITE, FLUSH and ATOMIC WRITE. Null: no sample.
    pub write_send: Option<Latency>,
    /// RDMA READ: to its first response. Null: no sample.
    pub read: Option<Latency>,
    /// COMPARE SWAP and FETCH ADD. Null: no sample.
    pub atomic: Option<Latency>,
}

/// Requests without a latency sample although the reverse flow was known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Untimed {
    /// Retransmitted before the answer, which may belong to either; or abandoned by a restart; or their own
    /// response is missing. Unit: requests.
    pub ambiguous: u64,
    /// More than 64 requests were outstanding. Unit: requests.
    pub ring_full: u64,
    /// 65,536 other flows were being timed, 512 in live runs. Unit: requests.
    pub untracked: u64,
    /// Not answered so far. Unit: requests.
    pub outstanding: u64,
}

/// Evidence for the queue pair that sends in this direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pairing {
    /// Method. `device`: RDMA netlink names it (live). `cm`: connection management named both ends.
    /// `datagram`: the DETH names the sender. `port_rule`: the UDP source port is the one a driver computes
    /// from both queue pair numbers. `port_is_qp`: the UDP source port is the sender's queue pair number.
    /// `shared_port`: only one flow in each direction uses this port. `psn`: only one flow of requests was
    /// waiting for the PSNs of the answers, eight times (replay: for every packet).
    pub how: &'static str,
    /// `certain` (device, cm, datagram), `strong` (port_rule, port_is_qp; in replay also shared_port once
    /// ACKs match the PSNs of the requests) or `likely`.
    pub confidence: &'static str,
}

/// Distribution of the bytes over the 5-tuples that fabrics hash: more even means better ECMP balance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Entropy {
    /// Distinct 5-tuples (source, destination, UDP, source port, 4791), retired flows included. One that
    /// several links see counts once, with the bytes of the link that saw the most. Unit: tuples.
    pub five_tuples: u64,
    /// Distinct UDP source ports among them. Unit: ports.
    pub source_ports: u64,
    /// Entropy of the bytes over the 5-tuples: −Σ p·log2 p. Unit: bits. Null: no RoCEv2 was seen.
    pub entropy_bits: Option<f64>,
    /// Normalized entropy: `entropy_bits` over its maximum, log2(`five_tuples`); 1: even. Unit: ratio. Null:
    /// fewer than two 5-tuples.
    pub normalized: Option<f64>,
    /// Effective flows: 2 to the entropy, the number of equal flows with the same entropy. Unit: tuples.
    /// Null: no RoCEv2 was seen.
    pub effective_flows: Option<f64>,
    /// Share of the bytes in the busiest 5-tuple. Unit: ratio. Null: no RoCEv2 was seen.
    pub top_share: Option<f64>,
    /// Bytes left out because their 5-tuple is no longer known: too many flows were retired, or the overflow
    /// table was full. Unit: bytes. Null: a flow lost ports and carried both RoCE versions.
    pub unattributed_bytes: Option<u64>,
}

/// One link. Live: an interface and a direction. Replay: a capture file, or an interface within one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Link {
    /// Interface, or capture file without folders.
    pub name: String,
    /// Direction, seen from this host. Null: replay.
    pub direction: Option<Direction>,
    /// RoCE packets: flows, retired flows, and packets that found the flow table full. Unit: packets.
    pub packets: u64,
    /// Length of their outer frames. Unit: bytes.
    pub bytes: u64,
    /// CE ratio as in `flows[].ce_ratio`, over flows and retired flows of the link. Unit: ratio. Null: no
    /// data packet is ECN-capable.
    pub ce_ratio: Option<f64>,
    /// Length of the frames that are not counted as RoCE. Unit: bytes.
    pub skipped_bytes: u64,
    /// RoCEv2 packets by the DSCP of the innermost IP header; only values seen. Null: some are not known: the
    /// overflow table was full, or flows that `--filter` excludes were retired.
    pub dscp: Option<Vec<Dscp>>,
    /// CE marks and CNPs over time. Null: neither a CE mark nor a CNP was seen.
    pub ecn_over_time: Option<EcnOverTime>,
    /// Check of the invariant CRC over flows and retired flows of the link. Null: not checked by this source
    /// (live).
    pub icrc: Option<Icrc>,
    /// RoCE frames by length. Null: not collected by this source.
    pub frame_sizes: Option<Vec<traffic::FrameSize>>,
    /// MTU of the interface. Unit: bytes. Null: replay.
    pub mtu: Option<u32>,
    /// Pauses requested by stations on the link, from MAC control frames in the capture. NICs and most
    /// mirrors do not pass these frames on: no entry proves nothing. Null: live, see `devices[].pause`.
    pub pause: Option<Vec<Pause>>,
    /// LLDP neighbours on the link, the latest frame of each.
    pub neighbours: Vec<Neighbour>,
}

/// RoCEv2 packets of one link with one DSCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Dscp {
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// Packets other than CNP and ACKNOWLEDGE. Unit: packets.
    pub data_packets: u64,
    /// Length of their outer frames. Unit: bytes.
    pub data_bytes: u64,
    /// ACKNOWLEDGE packets. Unit: packets.
    pub ack_packets: u64,
    /// CNPs. Unit: packets.
    pub cnp_packets: u64,
}

/// Identity of a flow, as in `flows`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FlowId {
    /// Name of its link.
    pub link: String,
    /// Direction of the link. Null: replay.
    pub direction: Option<Direction>,
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Destination queue pair.
    pub dest_qp: u32,
}

impl FlowId {
    /// The id of a flow.
    #[must_use]
    pub fn of(flow: &Flow) -> Self {
        Self {
            link: flow.link.clone(),
            direction: flow.direction,
            src: flow.src,
            dst: flow.dst,
            dest_qp: flow.dest_qp,
        }
    }
}

/// The name of a direction in the report.
#[must_use]
pub const fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    }
}
