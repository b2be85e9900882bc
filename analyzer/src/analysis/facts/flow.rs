//! Fields of one flow.

use std::ops::Deref;

use crate::metrics::duplicates::DuplicateCounts;
use crate::metrics::loss::signal_intervals::FlowSignalIntervals;
use crate::metrics::pairing::{Confidence, PairingEvidence};
use crate::sample::{Address, Direction};
use crate::util::boxed_unless_default::{BoxedUnlessDefault, shared_default};
use crate::util::boxed_unless_zero::{BoxedUnlessZero, Zero};
use crate::util::packed_option::PackedOption;
use crate::util::shared::Shared;

use serde::{Serialize, Serializer};

use super::{Ecn, FlowEcn, MixedIn, Opcodes, Psn, SequencePsns, Tunnels};
use crate::analysis::{FlowIcrc, LastNaks, SequenceLoss, Spray, Unfollowed};
#[cfg(test)]
use crate::analysis::{Icrc, Loss};
pub use crate::metrics::latency::Summary as Latency;
use crate::metrics::latency::{self, LatencyRange};

/// One direction of a queue pair on one link: link, direction, source, destination and destination QP
/// identify it. The UDP source port is not part of the key.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Flow {
    /// Name of the link, as in `links[].name`.
    pub link: Shared,
    /// Direction of the link. Null: replay.
    pub direction: Option<Direction>,
    /// Source address: of the innermost IP header, or of the GRH of RoCEv1 and InfiniBand; without a GRH the
    /// LID of InfiniBand, as `lid:0x0011`.
    pub src: Address,
    /// Destination address.
    pub dst: Address,
    /// Destination queue pair, 24 bits. For CNPs: the queue pair whose rate is to be reduced.
    pub dest_qp: u32,
    /// RoCE version of the first packet: 1 (GRH over Ethernet) or 2 (UDP). Null: InfiniBand.
    pub roce_version: Option<u8>,
    /// Distinct UDP source ports; 0 for RoCEv1 and InfiniBand, which have none. Unit: ports. Null: some ports found the
    /// overflow table full.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub src_port_count: PackedOption,
    /// UDP source ports: the 16 with the most bytes, in descending order.
    #[cfg_attr(test, schemars(with = "Vec<Port>"))]
    pub src_ports: Ports,
    /// Outermost VLAN id of the first packet; 0: untagged. Null: not known: XDP may not see the tag, raw IP
    /// has no link layer; InfiniBand has none.
    pub vlan: Option<u16>,
    /// Second VLAN id of the first packet; 0: none. Null: not known.
    pub inner_vlan: Option<u16>,
    /// Priority code point of the first packet. Null: untagged, or not known.
    pub pcp: Option<u8>,
    /// Service level (SL) of the first packet, 0 to 15. Null: not InfiniBand.
    pub service_level: Option<u8>,
    /// Virtual lane (VL) of the first packet on this link, 0 to 14. Null: not InfiniBand.
    pub virtual_lane: Option<u8>,
    /// DSCP of the first packet. Null: RoCEv1, InfiniBand.
    pub dscp: Option<u8>,
    /// Tunnels of the first packet, outermost first, joined by `+`: `vxlan`, `vxlan-gpe`, `geneve`, `gre`,
    /// `erspan1`, `erspan2`, `erspan3`, `mpls`, `ipip`. Null: none.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub encapsulation: Tunnels,
    /// Properties in which a later packet differs from the first: `vlan`, `inner_vlan`, `pcp`, `dscp`,
    /// `encapsulation`, `roce_version`; `lane` (service level or virtual lane) of InfiniBand.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    pub mixed: MixedIn,
    /// Path MTU in use: payload of the latest FIRST or MIDDLE packet of a SEND or WRITE. Unit: bytes. Null:
    /// no message of several packets was seen.
    pub path_mtu: Option<u32>,
    /// Packets of every kind. Unit: packets.
    pub packets: u64,
    /// Length of the outer frames on the wire, without FCS. Unit: bytes.
    pub bytes: u64,
    /// Length of the encapsulated frames: inner IP packet plus 14 bytes each. Unit: bytes. Null: no packet
    /// was encapsulated.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub inner_bytes: PackedOption,
    /// Payload without headers, padding and ICRC. Unit: bytes.
    pub payload_bytes: u64,
    /// Packets of unknown payload length: the opcode's headers are not known, or lengths contradict each
    /// other. Unit: packets.
    pub payload_unknown: u64,
    /// Time of the first packet. Unit: Unix ns.
    pub first_ns: u64,
    /// Time of the last packet. Unit: Unix ns.
    pub last_ns: u64,
    /// All packets of the flow, by their ECN bits. Null: of a recording.
    #[cfg_attr(test, schemars(with = "Option<Ecn>"))]
    pub ecn: FlowEcn,
    /// Duplicates among all packets: the capture has them twice. Null: none.
    #[serde(rename = "copied", serialize_with = "duplicate_packets")]
    #[cfg_attr(test, schemars(with = "Option<DuplicatePackets>"))]
    pub duplicates: Option<Box<DuplicateCounts>>,
    /// CE-marked over ECN-capable packets, each once, without CNPs and ACKNOWLEDGEs: ce / (ect0 + ect1 + ce). Unit:
    /// ratio. Null: none of them is ECN-capable: ECN is off, which is not 0 %.
    #[serde(rename = "ce_ratio", serialize_with = "ce_ratio")]
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    pub data: FlowEcn,
    /// CE marks over time. Null: no packet is CE-marked.
    pub ce_over_time: Option<Box<CeOverTime>>,
    /// CNPs in this flow: they request a rate reduction of `dest_qp`; of InfiniBand also ACKs with BECN. Unit:
    /// packets.
    pub cnp_packets: u64,
    /// CNPs in this flow and their effect. Null: there are none; live also: all their events were dropped
    /// (`totals.lost.events_dropped`).
    pub cnp: Option<Box<Cnp>>,
    /// Packets by opcode, in ascending order.
    #[cfg_attr(test, schemars(with = "Vec<super::Opcode>"))]
    pub opcodes: Opcodes,
    /// Acknowledgements by the syndrome of their AETH.
    pub ack: Ack,
    /// Time of the latest NAK of each kind. Null: live with `--no-timing`.
    #[cfg_attr(test, schemars(with = "Option<LastNaks>"))]
    pub last_naks_ns: BoxedUnlessDefault<LastNaks>,
    /// PSNs of the requests. Null: no request of RC, UC or XRC was seen.
    #[cfg_attr(test, schemars(with = "Option<Psn>"))]
    pub psn: SequencePsns,
    /// PSNs of READ responses and atomic acknowledgements. Null: none was seen.
    pub psn_responses: Option<Box<Psn>>,
    /// Part of `psn_responses.missing` that is certainly missing: PSNs skipped within a response message, and
    /// one for each message without a beginning, or whose predecessor has no end. PSNs skipped between two
    /// messages may belong to requests that an ACK answers. Unit: PSNs. Null: no response was seen.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub responses_missing: PackedOption,
    /// Loss, reordering and retransmission of the requests. Live: of timed flows (see `latency_ns`), since
    /// they are timed (`loss_unfollowed`); IPv4 identifications are not used, and pauses are those between
    /// any packets of the flow. Null: no request of RC, UC or XRC was seen; live also: the flow is not timed,
    /// or was not while PSNs were skipped or repeated, or `--no-timing`.
    #[cfg_attr(test, schemars(with = "Option<Loss>"))]
    pub loss: SequenceLoss,
    /// Loss, reordering and retransmission of READ responses and atomic acknowledgements. Null: no response
    /// was seen, or live: repeated responses are counted only, see `responses_missing`.
    #[cfg_attr(test, schemars(with = "Option<Loss>"))]
    pub loss_responses: SequenceLoss,
    /// Packets before loss detection began, and of times in which an event of the flow was dropped; they are not in
    /// `loss`. Pairing the two directions of a connection takes some milliseconds when rocescope starts during a run.
    /// Null: requests were followed from the first packet on without a dropped event, or no PSN had been skipped or
    /// repeated before.
    pub loss_unfollowed: Option<Box<Unfollowed>>,
    /// Packets lost upstream of this link, where a tap further upstream saw what was sent; not known: PSNs at this link
    /// alone tell.
    #[serde(skip)]
    pub lost_upstream: PackedOption,
    /// Spreading of its packets over paths. Null: nothing shows that they are.
    pub spray: Option<Box<Spray>>,
    /// Check of the invariant CRC. Null: not checked by this source (live).
    #[cfg_attr(test, schemars(with = "Option<Icrc>"))]
    pub icrc: FlowIcrc,
    /// Request-to-ACK and response latency at this tap: from a request that asks for an acknowledgement, a
    /// READ, atomic or FLUSH to the first packet that answers it. An ACK answers all requests up to its PSN.
    /// Needs the reverse flow (`pairing`) on the same tap. Live: measured in the kernel by its exact clock,
    /// for the 512 busiest flows of requests that are paired. Null: no sample: no such request, or no reverse
    /// flow; live also: 512 busier flows are timed (`latency_untimed.untracked`), or `--no-timing`.
    pub latency_ns: Option<Box<Latency>>,
    /// Ranges that the percentiles in `latency_ns` of a recording lie in. Null: not a recording, whose percentiles are
    /// at most 6.25 % off, or as `latency_ns`.
    pub latency_range_ns: Option<Box<LatencyRange>>,
    /// The same latency by class of request. Null: as `latency_ns`, or of a recording.
    pub latency_by_class: Option<Box<LatencyByClass>>,
    /// Message completion time at this tap, by operation: from a message's first packet to the ACK of its last, of a
    /// READ from the request to the last packet of the response, retransmissions included. Timed are the messages whose
    /// last packet asks for an ACK and whose packets all passed the tap. Percentiles are at most 21 % off, the maximum
    /// is exact. Null: as `latency_ns`.
    pub message_completion_ns: Option<Box<CompletionByOperation>>,
    /// Requests without a sample because the reverse flow was not known. Replay times up to 1,024 requests that
    /// passed before the pair was known once it is; live, where a pair is known some milliseconds after the
    /// packet that shows it, all before count here. Unit: requests.
    /// Null: the flow has no request to be timed, live with `--no-timing`, or of a recording.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub latency_unpaired: PackedOption,
    /// Other requests without a sample. Null: as `latency_unpaired`.
    #[cfg_attr(test, schemars(with = "Option<Untimed>"))]
    pub latency_untimed: BoxedUnlessDefault<Untimed>,
    /// Sum of silences of at least 1 ms during at least half of which the priority of the flow was paused by
    /// MAC control frames on the link. The priority is the PCP of the tag, without a tag DSCP / 8. Unit: ns.
    /// Null: live, no pause frame on the link, or `--link-speed` is not given.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub pause_stall_ns: PackedOption,
    /// Queue pair at the sending end: the destination QP of the reverse flow. Null: not known, or the packets
    /// came from several.
    pub peer_qp: Option<u32>,
    /// Method by which `peer_qp` was found. Null: as `peer_qp`, or of a recording.
    pub pairing: Option<Pairing>,
    /// Process on this host that owns the queue pair to which the flow goes (ingress) or from which it comes
    /// (egress). Null: not live, no RDMA device, owned by the kernel, or two queue pairs match.
    pub pid: Option<u32>,
    /// Command name of the process, or name of the kernel module. Null: not known.
    pub comm: Option<Shared>,
    /// Kubernetes pod (name or id) of the process, else its container, else its Slurm job. Null: not known,
    /// or it runs directly on the host.
    pub pod: Option<Shared>,
    /// Upper bits of the opcodes of its first packet other than a CNP, as in
    /// [`Stats::transport`](rocescope_common::account::FlowStats::transport).
    #[serde(skip)]
    pub transport: u8,
    /// Its place in [`Mark::packets`](crate::metrics::loss::signal_intervals::Mark::packets).
    #[serde(skip)]
    pub slot: u32,
    /// Times of trouble in this flow.
    #[serde(skip)]
    pub intervals: FlowSignalIntervals,
}

/// Duplicates, where the capture has packets twice (finding `capture.duplicates`). They are part of the counts beside
/// this; no ratio, rate or finding counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DuplicatePackets {
    /// Duplicates of packets of every kind. Unit: packets.
    pub packets: u64,
    /// Length of their outer frames. Unit: bytes.
    pub bytes: u64,
    /// Their payload. Unit: bytes.
    pub payload_bytes: u64,
    /// CNPs among them. Unit: packets.
    pub cnp_packets: u64,
    /// RNR NAKs among them. Unit: packets.
    pub rnr_naks: u64,
    /// NAKs among them, of all codes. Unit: packets.
    pub naks: u64,
    /// Requests, READ responses and atomic acknowledgements among them: part of `psn.repeats` and
    /// `psn_responses.repeats`. Unit: packets.
    pub repeats: u64,
}

impl Flow {
    /// Packets other than CNP and ACKNOWLEDGE by their ECN bits, each once.
    pub fn ecn_data(&self) -> Ecn {
        self.data.get().unwrap_or_default()
    }

    /// CE-marked over ECN-capable ones of these; `None` where none is ECN-capable.
    pub fn ce_ratio(&self) -> Option<f64> {
        self.ecn_data().ce_ratio()
    }
}

/// Writes packets by their ECN bits as the ratio of those that are marked.
fn ce_ratio<S: Serializer>(data: &FlowEcn, serializer: S) -> Result<S::Ok, S::Error> {
    data.get().and_then(|ecn| ecn.ce_ratio()).serialize(serializer)
}

impl From<&DuplicateCounts> for DuplicatePackets {
    fn from(duplicates: &DuplicateCounts) -> Self {
        Self {
            packets: duplicates.packets,
            bytes: duplicates.bytes,
            payload_bytes: duplicates.payload_bytes,
            cnp_packets: duplicates.cnp_packets,
            rnr_naks: duplicates.rnr_naks,
            naks: duplicates.naks.iter().sum(),
            repeats: duplicates.requests + duplicates.responses,
        }
    }
}

/// Writes duplicates as [`DuplicatePackets`].
#[expect(clippy::ref_option, reason = "serde gives the field as it is")]
pub(super) fn duplicate_packets<S: Serializer>(
    duplicates: &Option<Box<DuplicateCounts>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duplicates.as_deref().map(DuplicatePackets::from).serialize(serializer)
}

/// UDP source ports of a flow. Nearly all have one, which needs no memory of its own.
#[derive(Clone, Debug)]
pub enum Ports {
    /// The only port of the flow.
    One(Port),
    /// Several ports, or none.
    Many(Box<[Port]>),
}

impl Default for Ports {
    /// No port.
    fn default() -> Self {
        Self::Many(Box::default())
    }
}

impl From<Vec<Port>> for Ports {
    fn from(ports: Vec<Port>) -> Self {
        match ports[..] {
            [port] => Self::One(port),
            _ => Self::Many(ports.into()),
        }
    }
}

impl Deref for Ports {
    type Target = [Port];

    fn deref(&self) -> &[Port] {
        match self {
            Self::One(port) => std::slice::from_ref(port),
            Self::Many(ports) => ports,
        }
    }
}

impl PartialEq for Ports {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Serialize for Ports {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
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

/// Acknowledgements by the syndrome of their AETH.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ack {
    /// Positive acknowledgements: ACKNOWLEDGE, READ RESPONSE, ATOMIC ACKNOWLEDGE. Unit: packets.
    pub acks: u64,
    /// RNR NAKs: the receiver had no receive buffer posted. Unit: packets.
    pub rnr_naks: u64,
    /// NAKs by code, RNR NAKs excluded.
    #[cfg_attr(test, schemars(with = "Naks"))]
    pub naks: BoxedUnlessZero<Naks>,
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

impl Zero for Naks {
    const ZERO: &'static Self = &Self {
        psn_sequence_error: 0,
        invalid_request: 0,
        remote_access_error: 0,
        remote_operational_error: 0,
        invalid_rd_request: 0,
        reserved: 0,
    };
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
    /// Counters indexed by the code, all others last.
    pub(crate) const fn codes(&self) -> [u64; 6] {
        [
            self.psn_sequence_error,
            self.invalid_request,
            self.remote_access_error,
            self.remote_operational_error,
            self.invalid_rd_request,
            self.reserved,
        ]
    }

    /// Those of other codes than 0, in the order of [`OTHER_CODES`](crate::metrics::loss::OTHER_CODES).
    pub(crate) const fn others(&self) -> [u64; 5] {
        let [_, others @ ..] = self.codes();
        others
    }

    /// NAKs of every code.
    pub fn total(&self) -> u64 {
        self.codes().iter().sum()
    }

    /// Refused requests: NAKs of every code but 0.
    pub(crate) fn refused(&self) -> u64 {
        self.others().iter().sum()
    }
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

/// CNPs in a flow, and their effect on the data flow whose rate they reduce.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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
    /// pacing, which can make up most of the delay. `count` is the number of CNPs with a mark before them.
    /// Null: no mark was seen before a CNP; live also: the pair of flows is not timed (see `latency_ns`).
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LatencyByClass {
    /// SEND, WRITE, FLUSH and ATOMIC WRITE. Null: no sample.
    pub write_send: Option<Box<Latency>>,
    /// RDMA READ: to its first response. Null: no sample.
    pub read: Option<Box<Latency>>,
    /// COMPARE SWAP and FETCH ADD. Null: no sample.
    pub atomic: Option<Box<Latency>>,
}

/// Message completion time by operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CompletionByOperation {
    /// RDMA WRITE. Null: no sample.
    pub write: Option<Box<Latency>>,
    /// SEND. Null: no sample.
    pub send: Option<Box<Latency>>,
    /// RDMA READ. Null: no sample.
    pub read: Option<Box<Latency>>,
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

shared_default!(Untimed);

impl Untimed {
    /// Requests that take longer than those that are timed, or for ever.
    pub const fn unanswered(self) -> u64 {
        latency::unanswered(self.ambiguous, self.outstanding)
    }
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
    #[serde(serialize_with = "how")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub how: PairingEvidence,
    /// `certain` (device, cm, datagram), `strong` (port_rule, port_is_qp; in replay also shared_port once
    /// ACKs match the PSNs of the requests) or `likely`.
    #[serde(serialize_with = "confidence")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub confidence: Confidence,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives the field as it is")]
fn how<S: Serializer>(how: &PairingEvidence, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(how.name())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives the field as it is")]
fn confidence<S: Serializer>(confidence: &Confidence, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(confidence.name())
}

/// Identity of a flow, as in `flows`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FlowId {
    /// Name of its link.
    pub link: Shared,
    /// Direction of the link. Null: replay.
    pub direction: Option<Direction>,
    /// Source address.
    pub src: Address,
    /// Destination address.
    pub dst: Address,
    /// Destination queue pair.
    pub dest_qp: u32,
}

impl FlowId {
    /// The id of a flow.
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
