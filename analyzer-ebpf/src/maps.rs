//! The maps, and the numbers that user space sets before loading.
//!
//! Sizes below are the defaults; user space scales them with `--max-flows`. At 65,536 flows:
//! slots 44 MiB, hints 1 MiB, hash 8 MiB, overflow table 6 MiB, requests under way 1.4 MiB, ring buffer
//! 1 MiB, free slots 0.3 MiB.

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
/// BPF_F_MMAPABLE.
const MMAPABLE: usize = 1 << 10;
const EVENTS_BYTES: usize = 1 << 20;
/// Some 9,000 records: what 900 flows that send in every millisecond tell in 10 of them.
const BINS_BYTES: usize = 512 << 10;
/// What is copied of a packet whose headers are spread over several buffers.
pub(crate) const SCRATCH_LEN: usize = 512;

#[btf_map]
pub(crate) static FLOWS: HashMap<FlowKey, u32, FLOWS_MAX> = HashMap::new();

/// Not per CPU: one value a flow keeps the memory independent of the number of CPUs, and a packet
/// sequence has only one order. The turn in each slot makes counting exact when packets of one flow
/// arrive on several CPUs. User space maps the array and reads it without a system call.
#[btf_map]
pub(crate) static SLOTS: Array<FlowSlot, FLOWS_MAX, MMAPABLE> = Array::new();

/// Shared by all CPUs: what a hint says is checked against the slot's own key, so that it may be
/// anything.
#[btf_map]
pub(crate) static HINTS: Array<u32, { FLOWS_MAX * 2 }> = Array::new();

/// Requests under way and their times, of the flows that user space chose.
#[btf_map]
pub(crate) static LATENCY: Array<Latency, { TIMED_FLOWS as usize }, MMAPABLE> = Array::new();

#[btf_map]
pub(crate) static TICKS: Array<TickClock, 1> = Array::new();

#[btf_map]
pub(crate) static FREE: Stack<u32, FLOWS_MAX> = Stack::new();

#[btf_map]
pub(crate) static EXTRA: HashMap<ExtraKey, ExtraValue, FLOWS_MAX> = HashMap::new();

#[btf_map]
pub(crate) static LINKS: PerCpuArray<LinkCounters, { MAX_LINKS as usize }> = PerCpuArray::new();

#[btf_map]
pub(crate) static BINS: RingBuf<BinRecord, BINS_BYTES> = RingBuf::new();

/// Beside the slots, and under their turns: few packets ask for an answer or are one.
#[btf_map]
pub(crate) static EXCHANGES: Array<LastExchange, FLOWS_MAX, MMAPABLE> = Array::new();

#[btf_map]
pub(crate) static EVENTS: RingBuf<EventRecord, EVENTS_BYTES> = RingBuf::new();

#[btf_map]
pub(crate) static CPU_STATE: PerCpuArray<CpuState, 1> = PerCpuArray::new();

/// Per CPU, because a TC program is not interrupted by another on the same CPU.
#[btf_map]
pub(crate) static SCRATCH: PerCpuArray<[u8; SCRATCH_LEN], 1> = PerCpuArray::new();

/// What the programs of `bench` do before they count.
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

/// By how many bits the number of a hint is less than one of 32.
#[unsafe(no_mangle)]
pub(crate) static HINT_SHIFT: Global<u32> = Global::new(31);

/// 1 on processors that may show the stores of one CPU to another in another order (all but x86).
#[unsafe(no_mangle)]
pub(crate) static FULL_ORDER: Global<u8> = Global::new(1);

/// 1 to take the time from the kernel's exact clock and to time requests, 0 to take it from the number of
/// the tick and time nothing.
#[unsafe(no_mangle)]
pub(crate) static PRECISE_CLOCK: Global<u8> = Global::new(0);

/// Length of a bin that flows tell.
#[unsafe(no_mangle)]
pub(crate) static BIN_NS: Global<u64> = Global::new(1_000_000);

/// See [`rocescope_common::account::bin::Bins::phase_ns`].
#[unsafe(no_mangle)]
pub(crate) static BIN_PHASE_NS: Global<u64> = Global::new(0);

/// Whether to send events at all.
#[unsafe(no_mangle)]
pub(crate) static WANT_EVENTS: Global<u8> = Global::new(1);
