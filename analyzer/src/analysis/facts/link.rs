//! Fields of one link.

use serde::Serialize;

use super::{Ecn, traffic};
use crate::analysis::{Icrc, Pause};
use crate::ethernet::lldp::Neighbour;
use crate::metrics::duplicates::DuplicateCounts;
use crate::sample::Direction;

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
    /// Packets of the link that are in no flow: the flow table was full, or the counters were locked. They are in
    /// `packets` and `bytes`, but not in `ce_ratio`, `ecn_over_time` and `icrc`; `frame_sizes` and `dscp` are null
    /// then. Unit: packets.
    pub left_out_packets: u64,
    /// Duplicates among these packets. Null: none.
    #[serde(rename = "copied", serialize_with = "super::flow::duplicate_packets")]
    #[cfg_attr(test, schemars(with = "Option<super::DuplicatePackets>"))]
    pub duplicates: Option<Box<DuplicateCounts>>,
    /// Packets other than CNP and ACKNOWLEDGE, without duplicates; the base of `ce_ratio`.
    #[serde(skip)]
    pub ecn_data: Ecn,
    /// CNPs of flows and retired flows.
    #[serde(skip)]
    pub cnp_packets: u64,
    /// CE ratio as in `flows[].ce_ratio`, over flows and retired flows of the link. Unit: ratio. Null: no
    /// data packet is ECN-capable.
    pub ce_ratio: Option<f64>,
    /// Length of the frames that are not counted as RoCE. Unit: bytes.
    pub skipped_bytes: u64,
    /// RoCEv2 packets by the DSCP of the innermost IP header; only values seen. Null: some are not known: the
    /// flow table or the overflow table was full, or flows that `--filter` excludes were retired.
    pub dscp: Option<Vec<Dscp>>,
    /// CE marks and CNPs over time. Null: neither a CE mark nor a CNP was seen.
    pub ecn_over_time: Option<EcnOverTime>,
    /// Check of the invariant CRC over flows and retired flows of the link. Null: not checked by this source
    /// (live).
    pub icrc: Option<Icrc>,
    /// RoCE frames by length. Null: not collected by this source, or not of all packets (`left_out_packets`).
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
