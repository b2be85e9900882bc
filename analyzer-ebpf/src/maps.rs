//! The maps, and the constants that user space sets before it loads the programs.
//!
//! Sizes are defaults that user space scales with `--max-flows`. With 65,536 flows: slots 44 MiB, hints 0.5
//! MiB, hash 8 MiB, overflow table 6 MiB, latency entries 1.9 MiB, ring buffer of events 1 MiB, free slots
//! 0.3 MiB.

use aya_ebpf::Global;
use aya_ebpf::btf_maps::{Array, HashMap, PerCpuArray, RingBuf, Stack};
use aya_ebpf::macros::btf_map;
use rocescope_common::abi::maps::MAX_LINKS;
use rocescope_common::abi::{
    BenchStep, BinRecord, CpuState, EventRecord, ExtraKey, ExtraValue, FlowSlot, LinkCounters, TIMED_FLOWS,
    TickClock,
};
use rocescope_common::account::FlowKey;
use rocescope_common::account::bin::LastExchange;
use rocescope_common::account::latency::Latency;

const FLOWS_MAX: usize = 65_536;
/// `BPF_F_MMAPABLE`.
const MMAPABLE: usize = 1 << 10;
const EVENTS_BYTES: usize = 1 << 20;
/// Some 9,300 records: 900 flows that send in every bin of 1 ms fill it in 10 ms.
const BINS_BYTES: usize = 512 << 10;
/// Bytes copied of a packet whose headers are not in its linear part.
pub(crate) const SCRATCH_LEN: usize = 512;

#[btf_map]
pub(crate) static FLOWS: HashMap<FlowKey, u32, FLOWS_MAX> = HashMap::new();

/// One slot per flow rather than per flow and CPU: a PSN sequence has one order, and memory stays
/// independent of the number of CPUs. The seqlock of a slot keeps counts exact when packets of one flow
/// arrive on several CPUs. User space maps the array and reads it without system calls.
#[btf_map]
pub(crate) static SLOTS: Array<FlowSlot, FLOWS_MAX, MMAPABLE> = Array::new();

/// Shared by all CPUs. A hint may be stale or wrong: the key in the slot decides. See [`hint_at`].
#[btf_map]
pub(crate) static HINTS: Array<[u32; 2], { FLOWS_MAX }> = Array::new();

/// Outstanding requests and latency histograms of the flows that user space selected.
#[btf_map]
pub(crate) static LATENCY: Array<Latency, { TIMED_FLOWS as usize }, MMAPABLE> = Array::new();

#[btf_map]
pub(crate) static TICKS: Array<TickClock, 1> = Array::new();

#[btf_map]
pub(crate) static FREE: Stack<u32, FLOWS_MAX> = Stack::new();

#[btf_map]
pub(crate) static EXTRA: HashMap<ExtraKey, ExtraValue, FLOWS_MAX> = HashMap::new();

#[btf_map]
static LINKS: PerCpuArray<LinkCounters, { MAX_LINKS as usize }> = PerCpuArray::new();

/// A hint by its index. An array rounds its values up to eight bytes: two hints share one.
#[inline(always)]
pub(crate) fn hint_at(index: u32) -> Option<*mut u32> {
    let two = HINTS.get_ptr_mut(index >> 1)?;
    // SAFETY: within the value, which comes from the map.
    Some(unsafe { two.cast::<u32>().add((index & 1) as usize) })
}

/// This CPU's counters of a link.
#[inline(always)]
pub(crate) fn counters_of<'a>(link: u32) -> Option<&'a mut LinkCounters> {
    // SAFETY: a per-CPU value, and programs on one CPU do not interrupt one another.
    Some(unsafe { &mut *LINKS.get_ptr_mut(link)? })
}

#[btf_map]
pub(crate) static BINS: RingBuf<BinRecord, BINS_BYTES> = RingBuf::new();

/// Indexed by slot and protected by its seqlock. Apart from the slot, since few packets request a response
/// or are one.
#[btf_map]
pub(crate) static EXCHANGES: Array<LastExchange, FLOWS_MAX, MMAPABLE> = Array::new();

#[btf_map]
pub(crate) static EVENTS: RingBuf<EventRecord, EVENTS_BYTES> = RingBuf::new();

#[btf_map]
pub(crate) static CPU_STATE: PerCpuArray<CpuState, 1> = PerCpuArray::new();

/// Per CPU: TC programs on one CPU do not interrupt one another.
#[btf_map]
pub(crate) static SCRATCH: PerCpuArray<[u8; SCRATCH_LEN], 1> = PerCpuArray::new();

/// Field that the bench programs increment before they count.
#[btf_map]
pub(crate) static BENCH_STEP: Array<BenchStep, 1> = Array::new();

#[cfg(feature = "test-clock")]
#[btf_map]
pub(crate) static TEST_CLOCK: Array<u64, 1> = Array::new();

/// See [`rocescope_common::abi::Link::index`].
#[unsafe(no_mangle)]
pub(crate) static LINK_MULTIPLIER: Global<u32> = Global::new(0);

/// See [`rocescope_common::abi::Link::index`].
#[unsafe(no_mangle)]
pub(crate) static LINK_SHIFT: Global<u32> = Global::new(31);

/// 1 where the kernel has `bpf_xdp_get_buff_len` (5.18 and later).
#[unsafe(no_mangle)]
pub(crate) static HAVE_XDP_BUFF_LEN: Global<u8> = Global::new(0);

/// 32 less the logarithm of the number of hints.
#[unsafe(no_mangle)]
pub(crate) static HINT_SHIFT: Global<u32> = Global::new(31);

/// 1 on processors with a memory model weaker than x86's, where stores need full barriers.
#[unsafe(no_mangle)]
pub(crate) static FULL_ORDER: Global<u8> = Global::new(1);

/// 1: exact clock, with latency and bins; 0: tick clock, without either.
#[unsafe(no_mangle)]
pub(crate) static PRECISE_CLOCK: Global<u8> = Global::new(0);

/// Length of a bin in nanoseconds.
#[unsafe(no_mangle)]
pub(crate) static BIN_NS: Global<u64> = Global::new(1_000_000);

/// See [`rocescope_common::account::bin::Bins::phase_ns`].
#[unsafe(no_mangle)]
pub(crate) static BIN_PHASE_NS: Global<u64> = Global::new(0);

/// 1 to send events.
#[unsafe(no_mangle)]
pub(crate) static WANT_EVENTS: Global<u8> = Global::new(1);
