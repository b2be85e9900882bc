//! Map names, keys and values.

use crate::account::message::{ByOperation, FrameSizes};
use crate::account::{FlowBin, FlowKey, FlowStats, Outcome};
use crate::wire::opcode::{CNP as CNP_OPCODE, Op};
use crate::wire::{Frame, SkipReason};

/// Hash: [`FlowKey`] → slot number (u32).
pub const FLOWS: &str = "FLOWS";
/// Array of [`FlowSlot`], indexed by slot number.
pub const SLOTS: &str = "SLOTS";
/// Stack of free slot numbers (u32).
pub const FREE: &str = "FREE";
/// Hash: [`ExtraKey`] → [`ExtraValue`].
pub const EXTRA: &str = "EXTRA";
/// Per-CPU array of [`LinkCounters`], indexed by link.
pub const LINKS: &str = "LINKS";
/// Ring buffer of [`super::EventRecord`].
pub const EVENTS: &str = "EVENTS";
/// Ring buffer of [`BinRecord`].
pub const BINS: &str = "BINS";
/// Array of [`crate::account::bin::LastExchange`], indexed by slot number.
pub const EXCHANGES: &str = "EXCHANGES";
/// Per-CPU array of one [`CpuState`].
pub const CPU_STATE: &str = "CPU_STATE";
/// Array of slot numbers (u32), by [`hint_of`]: where to look for a flow before asking the hash.
pub const HINTS: &str = "HINTS";
/// Array of [`Latency`](crate::account::latency::Latency), by the numbers in [`Timing`].
pub const LATENCY: &str = "LATENCY";
/// Array of one [`TickClock`].
pub const TICKS: &str = "TICKS";
/// Array of one [`BenchStep`].
pub const BENCH_STEP: &str = "BENCH_STEP";
/// Array of one u64, in builds for tests: the time of the next frame.
pub const TEST_CLOCK: &str = "TEST_CLOCK";

/// Most links (interface and direction) in one run.
pub const MAX_LINKS: u32 = 128;

/// One flow in the kernel, on cache lines of its own.
///
/// `turn` is a lock and a version in one: a program that counts makes it odd first, and then even
/// again, 2 higher than before. User space takes a copy for whole when it met the same even number
/// before and after. The kernel's own `bpf_spin_lock` would do as well, but turns interrupts off and
/// on, which alone costs more than counting does.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct FlowSlot {
    /// Odd while a program counts.
    pub seqlock: u64,
    /// Whose statistics these are; family 0 for nobody's. Written before the slot gets into the hash,
    /// the word with `dest_qp`, `link` and `family` last. `pad` is 1 until it is there, and again from
    /// when it has left.
    pub key: FlowKey,
    /// The statistics; `packets == 0` marks a slot that is not in use.
    pub stats: FlowStats,
    /// What it sent in the bin of time at hand.
    pub bin: FlowBin,
    /// Which other flow has the answers. Beside the bin, which is wanted where this is.
    pub timing: Timing,
}

/// A flow's bin that is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BinRecord {
    /// What the flow sent in it.
    pub bin: FlowBin,
    /// The flow's slot.
    pub slot: u32,
    /// Always 0.
    pub pad: u32,
}

/// What one CPU keeps of the packet at hand, and counts of all flows. In a map rather than on the
/// stack: it would not fit there beside the rest, and the verifier does not tell apart what lies in
/// map memory, which keeps the number of states that it has to walk through small. Per CPU: programs
/// on one CPU do not interrupt one another.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct CpuState {
    /// Messages of all flows.
    pub messages: ByOperation,
    /// Where offsets go to be forgotten by the verifier, see `Bytes::settle`.
    pub offset: u64,
    /// A bin that has ended with the packet.
    pub ended_bin: FlowBin,
    /// Whether there is one.
    pub bin_ended: u64,
    /// The frame being counted.
    pub frame: Frame,
    /// What counting it gave rise to, on its way from one half of the program to the other.
    pub outcome: Outcome,
}

/// Which entries of [`LATENCY`] a flow's packets belong to.
///
/// A packet names only the queue pair it goes to, so user space, which sees both directions, says which
/// two flows are one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Timing {
    /// Written by user space alone, in one go: see [`Timing::pair`].
    pub pair: u32,
    /// Requests with an answer to come that passed while the flow had no entry of its own, modulo 2^31,
    /// and [`Self::RETX_RUN`].
    pub untimed: u32,
}

impl Timing {
    /// Bit of [`Self::untimed`]: packets come again at the moment.
    pub const RETX_RUN: u32 = 1 << 31;

    /// The word for a flow whose requests are noted in entry `own` and whose answers are to the
    /// requests in entry `other`. Numbers are one above the entry's index; 0 is none.
    #[inline(always)]
    #[must_use]
    pub const fn pair(own: u16, other: u16) -> u32 {
        own as u32 | (other as u32) << 16
    }

    /// `own` of a word.
    #[inline(always)]
    #[must_use]
    pub const fn own(pair: u32) -> u32 {
        pair & 0xFFFF
    }

    /// `other` of a word.
    #[inline(always)]
    #[must_use]
    pub const fn other(pair: u32) -> u32 {
        pair >> 16
    }
}

/// Flows whose requests are timed at a time, at most: 1.4 MiB, which is what 64 MiB leave beside the
/// flow table.
pub const TIMED_FLOWS: u32 = 512;

/// Where kernel programs take the time from: the number of ticks since the kernel started, as the
/// kernel counts it, costs a load; its clocks cost more than counting a packet does. Ticks follow
/// the monotonic clock, so that two numbers turn one into the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TickClock {
    /// Nanoseconds of a tick.
    pub tick_ns: u64,
    /// Monotonic time at tick 0, modulo 2^64.
    pub base_ns: u64,
    /// The latest tick that `rocescope_ticks` met.
    pub ticks: u64,
}

/// What [`ExtraKey`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraKind;

impl ExtraKind {
    /// A UDP source port other than the flow's first.
    pub const PORT: u16 = 0;
    /// An opcode of another transport than the flow's.
    pub const OPCODE: u16 = 1;
    /// A DSCP other than that of the flow's first packet, by kind of packet: see [`dscp_value`].
    pub const DSCP: u16 = 2;
}

/// What a packet is when it comes to its DSCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DscpKind;

impl DscpKind {
    /// Neither of the other two.
    pub const DATA: u16 = 0;
    /// ACKNOWLEDGE.
    pub const ACK: u16 = 1;
    /// Congestion notification.
    pub const CNP: u16 = 2;
}

/// The value of an [`ExtraKey`] of [`ExtraKind::DSCP`]: the DSCP in the lower six bits, above it
/// [`DscpKind`].
#[inline(always)]
#[must_use]
pub fn dscp_value(frame: &Frame) -> u16 {
    let kind = if frame.opcode == CNP_OPCODE {
        DscpKind::CNP
    } else if Op::of(frame.opcode).has(Op::ACKNOWLEDGE) {
        DscpKind::ACK
    } else {
        DscpKind::DATA
    };
    kind << 6 | u16::from(frame.tos >> 2)
}

/// Counts that few flows need, kept beside the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct ExtraKey {
    /// The flow's slot.
    pub slot: u32,
    /// [`ExtraKind`].
    pub kind: u16,
    /// The port or opcode.
    pub value: u16,
}

/// Packets and bytes under an [`ExtraKey`]. Both are changed atomically.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ExtraValue {
    /// Packets.
    pub packets: u64,
    /// Outer frames' bytes.
    pub bytes: u64,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counter {
    /// Packets.
    pub packets: u64,
    /// Outer frames' bytes.
    pub bytes: u64,
}

impl Counter {
    /// Adds one packet of `bytes`.
    #[inline(always)]
    pub fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

/// What one CPU counted on one link besides flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LinkCounters {
    /// Frames that are not RoCE, by [`SkipReason`].
    pub skipped: [Counter; SkipReason::COUNT],
    /// RoCE packets that found no free slot in the flow table.
    pub flow_table_full: Counter,
    /// RoCE packets that did not get their turn at their flow's slot in about half a second.
    pub contended: Counter,
    /// Packets whose source port or opcode found no room in the overflow table. They are counted
    /// in their flow all the same.
    pub extra_full: u64,
    /// Events that did not fit into the ring buffer.
    pub events_dropped: u64,
    /// RoCE packets by length.
    pub frame_sizes: FrameSizes,
    /// Packets of bins that did not fit into their ring buffer.
    pub bins_lost: Counter,
}

/// What the programs that `rocescope bench` measures do to a packet before they count it: the
/// bits of `mask`, as a number in the big-endian word at `offset`, go up by 1. With a `toggle`, these bits
/// of the first two bytes at `offset` change with every packet, and the number 8 bytes later goes up with
/// every other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BenchStep {
    /// Offset of the word in the frame, 0 to 255.
    pub offset: u16,
    /// Which bits change, or 0.
    pub toggle: u16,
    /// Which bits of the word count.
    pub mask: u32,
}

/// Where a program runs: how it finds the index of its link from the interface index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link;

impl Link {
    /// The index of a link: a multiplicative hash of the interface index, doubled, plus 1 for
    /// egress. User space chooses `multiplier` so that no two interfaces of a run collide.
    #[inline(always)]
    #[must_use]
    pub const fn index(ifindex: u32, multiplier: u32, shift: u32, egress: bool) -> u32 {
        (ifindex.wrapping_mul(multiplier) >> (shift & 31)) * 2 + egress as u32
    }
}

/// Hints per flow that the table has room for: with as many as flows, every third flow would share
/// its hint with another.
pub const HINTS_PER_FLOW: u32 = 2;

/// The index of a flow's hint, in as many of the topmost bits as there are hints.
///
/// Queue pairs are mostly numbered in order; multiplied by the golden ratio they lie evenly in the
/// upper bits, more evenly than chance would spread them.
#[inline(always)]
#[must_use]
pub const fn hint_of(src: u32, dst: u32, dest_qp: u32, link: u16) -> u32 {
    let between = (src ^ dst.rotate_left(9) ^ ((link as u32) << 4)).wrapping_mul(0x85EB_CA6B);
    dest_qp.wrapping_add(between ^ (between >> 16)).wrapping_mul(0x9E37_79B9)
}

const _: () = {
    use core::mem::{align_of, offset_of, size_of};
    assert!(size_of::<FlowKey>() == 40 && align_of::<FlowKey>() == 4);
    assert!(size_of::<FlowStats>().is_multiple_of(8) && align_of::<FlowStats>() == 8);
    assert!(offset_of!(FlowSlot, key) == 8 && offset_of!(FlowSlot, stats) == 48);
    assert!(offset_of!(FlowSlot, stats) + offset_of!(FlowStats, ecn_data) + 3 * 8 <= 3 * 64);
    assert!(offset_of!(FlowSlot, bin) / 64 == offset_of!(FlowSlot, timing) / 64);
    assert!(size_of::<BinRecord>() == 48 && size_of::<FlowBin>() == 40);
    assert!(size_of::<CpuState>().is_multiple_of(8) && offset_of!(CpuState, messages) == 0);
    assert!(offset_of!(FlowKey, dest_qp) == 32 && offset_of!(FlowKey, family) == 38);
    assert!(size_of::<FlowSlot>() == 704, "65,536 slots must stay well under 64 MiB");
    assert!(size_of::<ExtraKey>() == 8 && size_of::<ExtraValue>() == 16);
    assert!(size_of::<LinkCounters>() == 16 * (SkipReason::COUNT + 3) + 16 + size_of::<FrameSizes>());
};
