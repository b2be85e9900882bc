//! Counts of a source up to a moment: the one input of every view.
//!
//! A [`Sample`] is raw and cumulative: it holds counters as the accounting keeps them, never rates
//! or ratios. Those are derived when it is read, from one sample or from two. Live runs and replay
//! make the same samples, so that nothing behind this point knows where the packets came from.

mod flows;
mod grown;
pub mod marking;
mod missed;
mod packed;
pub mod stream;
pub mod tunnels;

use std::sync::Arc;

use bytes::Bytes;
use rocescope_common::abi::Counter;
use rocescope_common::account::FlowKey;
use rocescope_common::wire::SkipReason;
use rocescope_common::wire::bth::psn_distance;
use rocescope_common::wire::opcode::TRANSPORT_UD;

use crate::entity::devices::Devices;
use crate::entity::nccl::Nccl;
use crate::entity::owners::{Owned, Owners};
pub use crate::entity::{
    Address, Direction, Extra, MULTICAST_QP, Opcodes, PeerKey, Psns, Stats, Tuple, address, from_kernel,
    has_answers, has_sequence,
};
use crate::metrics::Metrics;
use crate::metrics::duplicates::DuplicateCounts;
use crate::metrics::latency::LatencyRange;
use crate::util::map::Map;
use crate::util::shared::Shared;
pub use flows::{Flows, SpareList};
pub use grown::{GrownTimes, LastGrowth, UntimedCounter};
pub use missed::{MissedCounts, MissedInterval, MissedTimes};

/// Kind of the source of the figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceKind {
    /// Capture files or a stream of one.
    #[default]
    Replay,
    /// Programs in the kernel.
    Live,
}

/// Everything counted up to a moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The moment, Unix time in nanoseconds; in replay, of the data.
    pub time_ns: u64,
    /// The same moment by `CLOCK_MONOTONIC`, which does not step, in nanoseconds; `None` in replay, where the data has
    /// all there is.
    pub steady_ns: Option<u64>,
    /// Kind of the source.
    pub kind: SourceKind,
    /// Interfaces, or capture files as given.
    pub inputs: Vec<String>,
    /// Start and end of the window in Unix nanoseconds; `None` before the first frame of a replay.
    pub window: Option<(u64, u64)>,
    /// Links; [`FlowKey::link`] is an index into them.
    pub links: Vec<LinkSample>,
    /// Flows that are not retired, in the order in which they appeared.
    pub flows: Flows,
    /// Further facts of some flows, by [`FlowSample::slot`].
    pub extra: Map<u32, Extra>,
    /// Bytes by 5-tuple of flows that were retired.
    pub retired_tuples: Vec<RetiredTuple>,
    /// Bytes of retired flows whose 5-tuples are not known any more, because too many were retired.
    pub retired_unattributed: u64,
    /// Queue pair at the sending end, where datagram headers or connection management state it.
    pub peers: Map<PeerKey, u32>,
    /// Events that did not reach user space; `None` where there is no ring buffer.
    pub events_dropped: Option<u64>,
    /// Packets that the capture says it dropped.
    pub capture_drops: Option<u64>,
    /// Packets that the interfaces dropped on receipt meanwhile.
    pub interface_drops: Option<u64>,
    /// The times at which the source missed something. Drops that a capture reports have no known time.
    pub missed: MissedTimes,
    /// The last growth of counters without times of their own; empty in replay.
    pub grown: GrownTimes,
    /// Queue pairs of this host and their processes; empty in replay, and without RDMA devices.
    pub owners: Arc<Owners>,
    /// Counters of devices; empty in replay, and without RDMA devices.
    pub devices: Arc<Devices>,
    /// State of the job as NCCL reports it; `None` without `--nccl-ras`.
    pub nccl: Option<Arc<Nccl>>,
    /// The recording that is played back; `None` of captures, interfaces and devices.
    pub recording: Option<Arc<Recording>>,
    /// Metrics beyond counters.
    pub metrics: Metrics,
}

/// Facts that a recording has in place of packets.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Findings at that time, in the JSON of the report.
    pub findings: Vec<Shared>,
    /// Median length of its intervals, in nanoseconds; `None` where no row has it.
    pub interval_ns: Option<u64>,
    /// Ranges of the latency percentiles of flows, by [`FlowSample::slot`].
    pub latency_ranges: Map<u32, LatencyRange>,
}

impl Sample {
    /// False of a recording, which has the losses that PSNs show, and no PSNs.
    pub const fn has_psns(&self) -> bool {
        self.recording.is_none()
    }

    /// True if flows of a link can have source ports that are not known: a recording has one of each flow, and a full
    /// table lacks some.
    pub fn lacks_ports(&self, link: u16) -> bool {
        let link = self.links.get(usize::from(link));
        self.recording.is_some() || link.is_some_and(|link| link.extra_full > 0)
    }

    /// Duplicates among the packets of the flow in a slot: the capture shows them twice.
    pub fn duplicates(&self, slot: u32) -> DuplicateCounts {
        self.metrics.duplicates.as_ref().map(|found| found.flow(slot)).unwrap_or_default()
    }

    /// Duplicates among the packets of a link, those of retired flows included.
    pub fn duplicates_on(&self, link: usize) -> DuplicateCounts {
        self.metrics.duplicates.as_ref().map(|found| found.link(link).duplicates).unwrap_or_default()
    }

    /// The queue pair of this host that a flow goes to (received) or comes from (sent), as the
    /// kernel knows it.
    pub fn owned(&self, flow: &FlowSample) -> Option<Owned<'_>> {
        let direction = self.links.get(usize::from(flow.key.link))?.direction;
        self.owners.of(&flow.key, direction, flow.stats.transport != TRANSPORT_UD)
    }
}

/// Counters of one link.
#[derive(Clone, Debug, Default)]
pub struct LinkSample {
    /// Name as reports show it.
    pub name: String,
    /// Direction; `None` in replay.
    pub direction: Option<Direction>,
    /// MTU of the interface; `None` in replay.
    pub mtu: Option<u32>,
    /// Speed of the interface in Mb/s, when it was attached; in replay that of the options. `None` when unknown.
    pub speed_mbps: Option<u64>,
    /// Frames that are not RoCE, by [`SkipReason`].
    pub skipped: [Counter; SkipReason::COUNT],
    /// RoCE packets that found the flow table full.
    pub flow_table_full: Counter,
    /// RoCE packets that did not get at their flow's counters, which other processors kept.
    pub contended: Counter,
    /// Packets counted in their flow, whose port or opcode found the overflow table full.
    pub extra_full: u64,
    /// Sums of the retired flows.
    pub retired: Retired,
}

impl LinkSample {
    /// RoCE packets that are in no flow, and so in none of the figures that are made by flow.
    pub fn without_flow(&self) -> Counter {
        let (full, contended) = (self.flow_table_full, self.contended);
        Counter { packets: full.packets + contended.packets, bytes: full.bytes + contended.bytes }
    }
}

/// The sum over retired flows of one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    /// Number of flows.
    pub flows: u64,
    /// Number of packets.
    pub packets: u64,
    /// Bytes of outer frames.
    pub bytes: u64,
    /// Congestion notification packets (CNPs).
    pub cnp_packets: u64,
    /// All packets by ECN bits.
    pub ecn: [u64; 4],
    /// Packets other than CNP and ACKNOWLEDGE by ECN bits.
    pub ecn_data: [u64; 4],
}

/// Counters of one flow.
#[derive(Clone, Debug)]
pub struct FlowSample {
    /// Number of the flow's place in the table. Stable while the flow lives; used again later.
    pub slot: u32,
    /// Key of the flow.
    pub key: FlowKey,
    /// Its counters; times are Unix nanoseconds.
    pub stats: Stats,
}

/// A 5-tuple (the protocol is always UDP, the destination port 4791) of retired flows on one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetiredTuple {
    /// The 5-tuple.
    pub tuple: Tuple,
    /// Index of the link.
    pub link: u16,
    /// Bytes of outer frames.
    pub bytes: u64,
}

/// Something that happened at one packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSample {
    /// Time of the event, Unix nanoseconds.
    pub time_ns: u64,
    /// Key of the packet's flow.
    pub key: FlowKey,
    /// Events of the packet, bits of [`rocescope_common::account::Event`].
    pub events: u16,
    /// BTH operation code.
    pub opcode: u8,
    /// IPv4 ToS or IPv6 traffic class.
    pub tos: u8,
    /// UDP source port.
    pub src_port: u16,
    /// Packet sequence number.
    pub psn: u32,
    /// PSNs skipped, with a gap.
    pub missing: u32,
    /// AETH of the packet, or [`rocescope_common::wire::frame::UNKNOWN`].
    pub aeth: u32,
    /// Length of the frame on the wire.
    pub wire_len: u32,
    /// Offset of the BTH in `headers`.
    pub bth_offset: u16,
    /// The first bytes of the frame; empty for events that carry none.
    pub headers: Bytes,
}

impl EventSample {
    /// The first of the PSNs that are missing, with a gap.
    pub const fn first_missing(&self) -> u32 {
        psn_distance(self.missing, self.psn)
    }
}
