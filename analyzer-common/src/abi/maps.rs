//! Map names, keys and values.

use crate::account::{FlowKey, FlowStats};
use crate::wire::Reason;

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
/// Array of one [`BenchStep`].
pub const BENCH_STEP: &str = "BENCH_STEP";
/// Array of one u64, in builds for tests: the time of the next frame.
pub const TEST_CLOCK: &str = "TEST_CLOCK";

/// Most links (interface and direction) in one run.
pub const MAX_LINKS: u32 = 128;

/// The kernel's `struct bpf_spin_lock`; the kernel finds it in map values by this name.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct bpf_spin_lock {
    /// Managed by the kernel.
    pub val: u32,
}

/// The same type under a name of Rust's style.
pub type SpinLock = bpf_spin_lock;

/// One flow in the kernel. The lock guards `stats`; `key` is written once, before the slot can be
/// found through the hash.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FlowSlot {
    /// Held while `stats` changes or is read.
    pub lock: SpinLock,
    /// Always 0.
    pub pad: u32,
    /// Whose statistics these are.
    pub key: FlowKey,
    /// The statistics; `packets == 0` marks a slot that is not in use.
    pub stats: FlowStats,
}

/// What [`ExtraKey`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraKind;

impl ExtraKind {
    /// A UDP source port other than the flow's first.
    pub const PORT: u16 = 0;
    /// An opcode of another transport than the flow's.
    pub const OPCODE: u16 = 1;
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
    /// Frames that are not RoCE, by [`Reason`].
    pub skipped: [Counter; Reason::COUNT],
    /// RoCE packets that found no free slot in the flow table.
    pub flow_table_full: Counter,
    /// Packets whose source port or opcode found no room in the overflow table. They are counted
    /// in their flow all the same.
    pub extra_full: u64,
    /// Events that did not fit into the ring buffer.
    pub events_dropped: u64,
}

/// What the programs that `rocescope bench` measures do to a packet before they count it: the
/// bits of `mask`, as a number in the big-endian word at `offset`, go up by 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BenchStep {
    /// Offset of the word in the frame, 0 to 255.
    pub offset: u32,
    /// Which bits of it count.
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

const _: () = {
    use core::mem::{align_of, offset_of, size_of};
    assert!(size_of::<FlowKey>() == 40 && align_of::<FlowKey>() == 4);
    assert!(size_of::<FlowStats>().is_multiple_of(8) && align_of::<FlowStats>() == 8);
    assert!(offset_of!(FlowSlot, key) == 8 && offset_of!(FlowSlot, stats) == 48);
    assert!(size_of::<FlowSlot>() == 48 + size_of::<FlowStats>());
    assert!(size_of::<FlowSlot>() <= 704, "65,536 slots must stay well under 64 MiB");
    assert!(size_of::<ExtraKey>() == 8 && size_of::<ExtraValue>() == 16);
    assert!(size_of::<LinkCounters>() == 16 * (Reason::COUNT + 1) + 16);
};
