//! Map names, keys and values.

use crate::account::message::{ByOperation, FrameSizes};
use crate::account::{FlowBin, FlowKey, FlowStats, PackedOutcome};
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
/// Array of slot numbers (two u32 a value) by [`hint_of`], tried before the hash lookup.
pub const HINTS: &str = "HINTS";
/// Array of [`Latency`](crate::account::latency::Latency), indexed by the numbers in [`Timing`].
pub const LATENCY: &str = "LATENCY";
/// Array of one [`TickClock`].
pub const TICKS: &str = "TICKS";
/// Array of one [`BenchStep`].
pub const BENCH_STEP: &str = "BENCH_STEP";
/// Array of one u64, in test builds: the time of the next frame.
pub const TEST_CLOCK: &str = "TEST_CLOCK";

/// Maximum number of links (interface and direction) in a run.
pub const MAX_LINKS: u32 = 128;

/// One flow in the kernel, aligned to cache lines.
///
/// `seqlock` is a lock and a version: a program makes it odd while it counts and then even again, 2 higher
/// than before. A copy in user space is consistent if the same even number was read before and after.
/// `bpf_spin_lock` would serve as well, but disables and enables interrupts, which alone costs more than
/// counting.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct FlowSlot {
    /// Odd while a program counts.
    pub seqlock: u64,
    /// Key of the flow; family 0 for a free slot. Written before the slot is inserted into the hash, the
    /// word with `dest_qp`, `link` and `family` last. `pad` is 1 before the insertion and after the
    /// removal.
    pub key: FlowKey,
    /// Counters of the flow; `packets == 0` marks an unused slot.
    pub stats: FlowStats,
    /// The flow's current bin.
    pub bin: FlowBin,
    /// Latency entries of the flow and of its reverse direction. Shares a cache line with the bin, since
    /// both are used together.
    pub timing: Timing,
}

/// A completed bin of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BinRecord {
    /// Counts of one flow in one bin.
    pub bin: FlowBin,
    /// Slot of the flow in the flow table.
    pub slot: u32,
    /// Always 0.
    pub pad: u32,
}

/// Per-CPU state: the packet in progress, and counters over all flows. In a map because it exceeds the
/// stack, and because the verifier does not track values in map memory, which limits the states it must
/// explore. Per CPU, since programs on one CPU do not interrupt one another.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct CpuState {
    /// Message counters of all flows.
    pub messages: ByOperation,
    /// Offsets pass through this word so that the verifier forgets their range, see `Bytes::forget_range`.
    pub offset: u64,
    /// The bin that this packet ended.
    pub ended_bin: FlowBin,
    /// 1 if this packet ended a bin, else 0.
    pub bin_ended: u64,
    /// The frame being counted.
    pub frame: Frame,
    /// Result of counting the packet, passed from one part of the program to the next.
    pub outcome: PackedOutcome,
}

/// Entries of [`LATENCY`] that a flow's packets update.
///
/// A packet carries only its destination queue pair. User space sees both directions and decides which two
/// flows form a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Timing {
    /// Written by user space only, atomically: see [`Timing::pair`].
    pub pair: u32,
    /// Requests that expect a response and passed while the flow had no entry of its own, modulo 2^31, and
    /// [`Self::RETX_RUN`].
    pub untimed: u32,
}

impl Timing {
    /// Bit of [`Self::untimed`]: a run of duplicate-PSN packets is in progress.
    pub const RETX_RUN: u32 = 1 << 31;

    /// Encodes a pairing: the flow's requests go to entry `own`, and its responses complete requests in
    /// entry `other`. Numbers are the entry's index plus 1; 0 is none.
    #[inline(always)]
    pub const fn pair(own: u16, other: u16) -> u32 {
        own as u32 | (other as u32) << 16
    }

    /// The entry of the flow's own requests.
    #[inline(always)]
    pub const fn own(pair: u32) -> u32 {
        pair & 0xFFFF
    }

    /// The entry of the requests that the flow responds to.
    #[inline(always)]
    pub const fn other(pair: u32) -> u32 {
        pair >> 16
    }
}

/// Maximum number of flows that are timed at once: 1.9 MiB, so that all maps stay within 64 MiB.
pub const TIMED_FLOWS: u32 = 512;

/// Calibration of the tick clock. Reading the tick count costs a load, reading any kernel clock more (see
/// `now` in the kernel programs). Ticks follow the monotonic clock, so length and offset convert one into
/// the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TickClock {
    /// Length of a tick in nanoseconds.
    pub tick_ns: u64,
    /// Monotonic time at tick 0, modulo 2^64.
    pub base_ns: u64,
    /// The tick that `rocescope_ticks` read last.
    pub ticks: u64,
}

/// Values of [`ExtraKey::kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraKind;

impl ExtraKind {
    /// UDP source port other than that of the flow's first packet.
    pub const PORT: u16 = 0;
    /// Opcode of a transport other than the flow's.
    pub const OPCODE: u16 = 1;
    /// DSCP other than that of the flow's first packet, with the kind of packet: see [`dscp_value`].
    pub const DSCP: u16 = 2;
}

/// Kinds of packets in DSCP counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DscpKind;

impl DscpKind {
    /// Neither ACKNOWLEDGE nor CNP.
    pub const DATA: u16 = 0;
    /// ACKNOWLEDGE of RC or XRC.
    pub const ACK: u16 = 1;
    /// Congestion notification packet (CNP).
    pub const CNP: u16 = 2;
}

/// Value of an [`ExtraKey`] of [`ExtraKind::DSCP`]: the DSCP in the lower six bits, [`DscpKind`] above.
#[inline(always)]
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

/// Key of the overflow table, for counters that few flows need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct ExtraKey {
    /// Slot of the flow in the flow table.
    pub slot: u32,
    /// Kind of the entry, a value of [`ExtraKind`].
    pub kind: u16,
    /// Port, opcode, or [`dscp_value`].
    pub value: u16,
}

/// Counters under an [`ExtraKey`]; both are updated atomically.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ExtraValue {
    /// Packets counted under the key.
    pub packets: u64,
    /// Bytes of the outer frames.
    pub bytes: u64,
}

/// Packets and bytes counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counter {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of the outer frames.
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

/// Per-CPU counters of a link that do not belong to a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LinkCounters {
    /// Frames that are not RoCE, by [`SkipReason`].
    pub skipped: [Counter; SkipReason::KERNEL],
    /// RoCE packets not counted in a flow: the flow table was full.
    pub flow_table_full: Counter,
    /// RoCE packets not counted in a flow: its slot stayed locked for about half a second.
    pub contended: Counter,
    /// Packets whose port, opcode or DSCP was not counted: the overflow table was full. Their flow counts
    /// them.
    pub extra_full: u64,
    /// Events dropped because the ring buffer was full.
    pub events_dropped: u64,
    /// RoCE packets by length.
    pub frame_sizes: FrameSizes,
    /// Packets of bins dropped because their ring buffer was full.
    pub bins_lost: Counter,
}

impl LinkCounters {
    /// Frames that are not RoCE, by every [`SkipReason`].
    pub fn skipped(&self) -> [Counter; SkipReason::COUNT] {
        let mut all = [Counter::default(); SkipReason::COUNT];
        for (counter, counted) in all.iter_mut().zip(self.skipped) {
            *counter = counted;
        }
        all
    }
}

/// Change that the bench programs make to a packet before they count it: the bits of `mask` in the
/// big-endian word at `offset` are incremented as a number. With a `toggle`, its bits in the two bytes at
/// `offset` are inverted with every packet, and the number 8 bytes further is incremented with every second
/// packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BenchStep {
    /// Offset of the word in the frame, 0 to 255.
    pub offset: u16,
    /// Bits to invert, or 0.
    pub toggle: u16,
    /// Bits of the word that form the number.
    pub mask: u32,
}

/// Computation of link numbers from interface and direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link;

impl Link {
    /// Index of a link: a multiplicative hash of the interface index, doubled, plus 1 for egress. User
    /// space chooses `multiplier` so that the interfaces of a run do not collide.
    #[inline(always)]
    pub const fn index(ifindex: u32, multiplier: u32, shift: u32, egress: bool) -> u32 {
        (ifindex.wrapping_mul(multiplier) >> (shift & 31)) * 2 + egress as u32
    }
}

/// Hints per flow of the table's capacity: with 1, every third flow would share its hint.
pub const HINTS_PER_FLOW: u32 = 2;

/// Hash of a flow for its hint; the topmost bits are the index.
///
/// Fibonacci hashing: queue pair numbers are mostly consecutive, and multiplication by the golden ratio
/// spreads them over the upper bits more evenly than a random hash.
#[inline(always)]
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
    assert!(size_of::<LinkCounters>() == 16 * (SkipReason::KERNEL + 3) + 16 + size_of::<FrameSizes>());
};
