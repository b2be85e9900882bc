//! Facts: what follows from one sample without a judgement.
//!
//! [`Facts::of`] sums, sorts, pairs and compares what a [`Sample`](crate::sample::Sample) has counted. Findings judge facts, a
//! report is facts and findings. The structs have the names and the order of `rocescope.report/1`; what each field means, in
//! which unit, is in [`fields`](crate::report::fields). What is not known is `None` and becomes null.

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
mod naks;
mod paths;
pub(crate) mod ports;
mod shape;
mod taps;
#[cfg(test)]
mod tests;
pub mod traffic;
pub(crate) mod uneven;

use std::net::IpAddr;
use std::sync::Arc;

use rocescope_common::wire::SkipReason;
use serde::{Serialize, Serializer};

use crate::metrics::loss::spells::{FlowSpells, Mark};
use crate::sample::{Direction, SourceKind};
use crate::source::net::lldp::Neighbour;

pub use build::compare_links as imbalance;
pub use device::{Coverage, Device, DeviceQp, DeviceQpCounters, Pause, WHOLE, worst as worst_coverage};
pub use ecmp::{Case, Ecmp, Set, in_words as hashing_case, what_if};
pub use entropy::{QpSpread, Spread, entropy};
pub use imbalance::{Imbalance, Load, OverTime, Rail, Rails, SamePath, imbalances, unknown_names};
pub use loss::{Episodes, Icrc, LastNaks, Loss, Unfollowed};
pub use naks::{NakCauses, Requests};
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
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Facts {
    pub source: Source,
    pub window: Window,
    pub totals: Totals,
    /// Sorted by link, source, destination and destination queue pair.
    pub flows: Vec<Flow>,
    pub entropy: Entropy,
    pub links: Vec<Link>,
    pub imbalance: Vec<Imbalance>,
    pub rails: Vec<Rails>,
    pub ecmp: Option<Ecmp>,
    pub taps: Vec<TapFlow>,
    pub bursts: Option<Vec<traffic::Burst>>,
    pub incast: Option<Vec<traffic::Incast>>,
    pub steps: Option<traffic::Steps>,
    pub pattern: Option<traffic::Pattern>,
    pub devices: Vec<Device>,
    pub coverage: Vec<Coverage>,
    /// Packets of every flow at the marks that spells refer to.
    #[serde(skip)]
    pub marks: Vec<Arc<Mark>>,
}

/// Where the figures come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Source {
    pub kind: Kind,
    pub inputs: Vec<String>,
    pub filter: Option<String>,
}

/// The kind of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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

/// Start and end in Unix nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Window {
    pub first_ns: Option<u64>,
    pub last_ns: Option<u64>,
}

impl Window {
    /// Length in nanoseconds; `None` when either end is not known or they are swapped.
    #[must_use]
    pub fn length_ns(&self) -> Option<u64> {
        self.last_ns?.checked_sub(self.first_ns?)
    }
}

/// Sums over all links.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Totals {
    pub packets: u64,
    pub bytes: u64,
    pub roce_packets: u64,
    pub roce_bytes: u64,
    pub cnp_packets: u64,
    pub ecn: Ecn,
    /// Packets other than CNP and ACKNOWLEDGE; the base of `ce_ratio`.
    #[serde(skip)]
    pub ecn_data: Ecn,
    pub ce_ratio: Option<f64>,
    pub skipped: Skipped,
    pub lost: Lost,
    pub retired: Retired,
    pub counted_again: CountedAgain,
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
    /// All packets that were skipped.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.0.iter().map(|(_, n)| n).sum()
    }
}

/// What was not counted, or not in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Lost {
    pub flow_table_full: u64,
    pub events_dropped: Option<u64>,
    pub capture_drops: Option<u64>,
    pub interface_drops: Option<u64>,
    pub extra_table_full: u64,
    pub contended: u64,
    pub ecn_untracked: Option<u64>,
    pub bins_dropped: Option<u64>,
    pub pause_untracked: Option<u64>,
}

/// Flows that were closed because they were idle for long or the table was full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Retired {
    pub flows: u64,
    pub packets: u64,
    pub bytes: u64,
}

/// Packets by the ECN bits of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Ecn {
    pub not_ect: u64,
    pub ect1: u64,
    pub ect0: u64,
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

/// One direction of a queue pair on one link.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Flow {
    pub link: String,
    #[serde(serialize_with = "direction")]
    pub direction: Option<Direction>,
    pub src: IpAddr,
    pub dst: IpAddr,
    pub dest_qp: u32,
    pub roce_version: u8,
    pub src_port_count: Option<u64>,
    pub src_ports: Vec<Port>,
    pub vlan: Option<u16>,
    pub inner_vlan: Option<u16>,
    pub pcp: Option<u8>,
    pub dscp: Option<u8>,
    pub encapsulation: Option<String>,
    pub mixed: Vec<&'static str>,
    pub path_mtu: Option<u32>,
    pub packets: u64,
    pub bytes: u64,
    pub inner_bytes: Option<u64>,
    pub payload_bytes: u64,
    pub payload_unknown: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    pub ecn: Ecn,
    /// Packets other than CNP and ACKNOWLEDGE; the base of [`Flow::ce_ratio`].
    #[serde(skip)]
    pub ecn_data: Ecn,
    pub ce_ratio: Option<f64>,
    pub ce_over_time: Option<CeOverTime>,
    pub cnp_packets: u64,
    pub cnp: Option<Cnp>,
    pub opcodes: Vec<Opcode>,
    pub ack: Ack,
    pub last_naks_ns: Option<LastNaks>,
    pub psn: Option<Psn>,
    pub psn_responses: Option<Psn>,
    pub responses_missing: Option<u64>,
    pub loss: Option<Loss>,
    pub loss_responses: Option<Loss>,
    pub loss_unfollowed: Option<Unfollowed>,
    pub icrc: Option<Icrc>,
    pub latency_ns: Option<Latency>,
    pub latency_by_class: Option<LatencyByClass>,
    pub latency_unpaired: Option<u64>,
    pub latency_untimed: Option<Untimed>,
    pub pause_stall_ns: Option<u64>,
    pub peer_qp: Option<u32>,
    pub pairing: Option<Pairing>,
    pub pid: Option<u32>,
    pub comm: Option<String>,
    pub pod: Option<String>,
    /// Its place in [`Mark::packets`].
    #[serde(skip)]
    pub slot: u32,
    /// When trouble showed in it.
    #[serde(skip)]
    pub spells: FlowSpells,
}

/// Packets and bytes from one UDP source port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Port {
    pub port: u16,
    pub packets: u64,
    pub bytes: u64,
}

/// Packets with one BTH opcode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Opcode {
    pub code: u8,
    pub name: String,
    pub packets: u64,
}

/// Acknowledgements by the syndrome of their AETH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Ack {
    pub acks: u64,
    pub rnr_naks: u64,
    pub naks: Naks,
    pub unknown: u64,
}

/// NAKs by code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Naks {
    pub psn_sequence_error: u64,
    pub invalid_request: u64,
    pub remote_access_error: u64,
    pub remote_operational_error: u64,
    pub invalid_rd_request: u64,
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

/// A sequence of PSNs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Psn {
    pub first: u32,
    pub expected: u32,
    pub repeats: u64,
    pub gaps: u64,
    pub missing: u64,
    pub restarts: u64,
}

/// Percentiles of the time between request and acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Latency {
    pub count: u64,
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// Marks of one flow over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct CeOverTime {
    pub start_ns: u64,
    pub bin_ns: u64,
    pub capable: Vec<u32>,
    pub ce: Vec<u32>,
}

/// Marks and notifications of one link over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct EcnOverTime {
    pub start_ns: u64,
    pub bin_ns: u64,
    pub capable: Vec<u32>,
    pub ce: Vec<u32>,
    pub cnp: Vec<u32>,
}

/// The congestion notifications in a flow, and what they did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Cnp {
    pub answers: Option<FlowId>,
    pub per_second: Option<f64>,
    pub min_interval_ns: Option<u64>,
    pub delay_ns: Option<Latency>,
    pub without_ce: Option<u64>,
    pub rate_before_bps: Option<u64>,
    pub rate_after_bps: Option<u64>,
    pub rate_window_ns: Option<u64>,
    pub rate_samples: Option<u64>,
}

/// The same by class of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct LatencyByClass {
    pub write_send: Option<Latency>,
    pub read: Option<Latency>,
    pub atomic: Option<Latency>,
}

/// Requests whose answer was not timed though the flow with the answers was known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Untimed {
    pub ambiguous: u64,
    pub ring_full: u64,
    pub untracked: u64,
    pub outstanding: u64,
}

/// What says which queue pair sends in this direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Pairing {
    pub how: &'static str,
    pub confidence: &'static str,
}

/// How evenly bytes spread over 5-tuples, which is what fabrics hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Entropy {
    pub five_tuples: u64,
    pub source_ports: u64,
    pub entropy_bits: Option<f64>,
    pub normalized: Option<f64>,
    pub effective_flows: Option<f64>,
    pub top_share: Option<f64>,
    pub unattributed_bytes: Option<u64>,
}

/// One link.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Link {
    pub name: String,
    #[serde(serialize_with = "direction")]
    pub direction: Option<Direction>,
    pub packets: u64,
    pub bytes: u64,
    pub ce_ratio: Option<f64>,
    pub skipped_bytes: u64,
    pub dscp: Option<Vec<Dscp>>,
    pub ecn_over_time: Option<EcnOverTime>,
    pub icrc: Option<Icrc>,
    pub frame_sizes: Option<Vec<traffic::FrameSize>>,
    pub mtu: Option<u32>,
    pub pause: Option<Vec<Pause>>,
    pub neighbours: Vec<Neighbour>,
}

/// RoCEv2 packets of one link with one DSCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Dscp {
    pub dscp: u8,
    pub data_packets: u64,
    pub data_bytes: u64,
    pub ack_packets: u64,
    pub cnp_packets: u64,
}

/// Which flow a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct FlowId {
    pub link: String,
    #[serde(serialize_with = "direction")]
    pub direction: Option<Direction>,
    pub src: IpAddr,
    pub dst: IpAddr,
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

#[expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference to the field"
)]
fn direction<S: Serializer>(direction: &Option<Direction>, serializer: S) -> Result<S::Ok, S::Error> {
    direction.map(direction_name).serialize(serializer)
}
