//! Programs that `rocescope bench` runs on frames in memory; they are never attached.
//!
//! `BPF_PROG_TEST_RUN` passes the same frame to every repetition. These programs therefore first increment
//! a field of the packet (the PSN, or the queue pair for cases with many flows) and then count with the
//! code of the attached programs. A program that only increments the field measures the cost of that step,
//! which is subtracted.

use aya_ebpf::bindings::{tcx_action_base::TCX_NEXT, xdp_action::XDP_PASS};
use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use aya_ebpf::macros::{classifier, xdp};
use aya_ebpf::programs::{TcContext, XdpContext};

use rocescope_common::abi::BenchStep;

use crate::floor::{self, Memory, Part, Time};
use crate::maps::BENCH_STEP;
use crate::packet::opaque;
use crate::record;

/// Bound for the verifier: the incremented field lies within the headers.
const OFFSET_MASK: u16 = 0xFF;

/// Cost of calling an XDP program.
#[xdp]
#[inline(always)]
pub fn rocescope_bench_xdp_empty(_ctx: XdpContext) -> u32 {
    XDP_PASS
}

/// Cost of incrementing the field.
#[xdp]
#[inline(always)]
pub fn rocescope_bench_xdp_step(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    XDP_PASS
}

/// Increments the field, then counts like `rocescope_xdp`.
#[xdp]
#[inline(always)]
pub fn rocescope_bench_xdp(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    record::xdp(&ctx, false);
    XDP_PASS
}

/// Cost of calling an XDP program that reads the exact clock: what counting by it cannot go below.
#[xdp]
#[inline(always)]
pub fn rocescope_bench_xdp_clock(_ctx: XdpContext) -> u32 {
    clock();
    XDP_PASS
}

/// Increments the field and does all but bins and latency; see [`floor`].
#[xdp]
#[inline(always)]
pub fn rocescope_bench_xdp_reach(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    floor::xdp(&ctx, Memory::Slot, Time::Own);
    XDP_PASS
}

/// The same, with a flow's memory in two neighbouring cache lines.
#[xdp]
#[inline(always)]
pub fn rocescope_bench_xdp_together(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    floor::xdp(&ctx, Memory::Together, Time::Own);
    XDP_PASS
}

/// The same as the first, with a time from memory.
#[xdp]
#[inline(always)]
pub fn rocescope_bench_xdp_published(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    floor::xdp(&ctx, Memory::Slot, Time::Published);
    XDP_PASS
}

/// Increments the field and counts a WRITE LAST or an ACK, and nothing else; see [`floor`].
#[xdp]
#[inline(always)]
pub fn rocescope_bench_xdp_answered(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    floor::xdp_answered(&ctx);
    XDP_PASS
}

/// All but bins and latency, of frames as they are, for an interface.
#[xdp]
#[inline(always)]
pub fn rocescope_floor_xdp(ctx: XdpContext) -> u32 {
    floor::xdp(&ctx, Memory::Slot, Time::Own);
    XDP_PASS
}

/// Increments the field and inserts a flow; see [`floor::insert`].
#[xdp]
#[inline(always)]
pub fn rocescope_bench_xdp_insert(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    floor::insert(&ctx, Part::All);
    XDP_PASS
}

/// Increments the field and inserts a key into the hash.
#[xdp]
#[inline(always)]
pub fn rocescope_bench_xdp_hash(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    floor::insert(&ctx, Part::Hash);
    XDP_PASS
}

/// Increments the field and sends an event.
#[xdp]
#[inline(always)]
pub fn rocescope_bench_xdp_event(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    floor::insert(&ctx, Part::Event);
    XDP_PASS
}

/// Cost of calling an XDP program that accepts multi-buffer frames.
#[xdp(frags)]
#[inline(always)]
pub fn rocescope_bench_xdp_frags_empty(_ctx: XdpContext) -> u32 {
    XDP_PASS
}

/// Cost of incrementing the field.
#[xdp(frags)]
#[inline(always)]
pub fn rocescope_bench_xdp_frags_step(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    XDP_PASS
}

/// Increments the field, then counts like `rocescope_xdp_frags`.
#[xdp(frags)]
#[inline(always)]
pub fn rocescope_bench_xdp_frags(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    record::xdp(&ctx, true);
    XDP_PASS
}

/// Cost of calling a TC program.
#[classifier]
#[inline(always)]
pub fn rocescope_bench_tc_empty(_ctx: TcContext) -> i32 {
    TCX_NEXT
}

/// Cost of calling a TC program that reads the exact clock.
#[classifier]
#[inline(always)]
pub fn rocescope_bench_tc_clock(_ctx: TcContext) -> i32 {
    clock();
    TCX_NEXT
}

/// Cost of incrementing the field.
#[classifier]
#[inline(always)]
pub fn rocescope_bench_tc_step(ctx: TcContext) -> i32 {
    step(ctx.data(), ctx.data_end());
    TCX_NEXT
}

/// Increments the field, then counts like `rocescope_tc_ingress`.
#[classifier]
#[inline(always)]
pub fn rocescope_bench_tc(ctx: TcContext) -> i32 {
    step(ctx.data(), ctx.data_end());
    record::tc(&ctx, false, false);
    TCX_NEXT
}

/// Increments the field and does all but bins and latency; see [`floor`].
#[classifier]
#[inline(always)]
pub fn rocescope_bench_tc_reach(ctx: TcContext) -> i32 {
    step(ctx.data(), ctx.data_end());
    floor::tc(&ctx);
    TCX_NEXT
}

/// Increments the field and counts a WRITE LAST or an ACK, and nothing else; see [`floor`].
#[classifier]
#[inline(always)]
pub fn rocescope_bench_tc_answered(ctx: TcContext) -> i32 {
    step(ctx.data(), ctx.data_end());
    floor::tc_answered(&ctx);
    TCX_NEXT
}

/// All but bins and latency, of frames as they are, for an interface.
#[classifier]
#[inline(always)]
pub fn rocescope_floor_tc(ctx: TcContext) -> i32 {
    floor::tc(&ctx);
    TCX_NEXT
}

#[inline(always)]
fn clock() {
    // SAFETY: the helper takes nothing and touches no memory of this program. A call is never left out.
    let _now = unsafe { bpf_ktime_get_ns() };
}

/// Increments the masked bits of a word of the packet by 1; with a toggle see [`alternate`].
#[inline(always)]
fn step(start: usize, end: usize) {
    let Some(step) = BENCH_STEP.get(0) else { return };
    let at = opaque(start + (step.offset & OFFSET_MASK) as usize);
    if step.toggle != 0 {
        return alternate(at, end, step);
    }
    if at + 4 > end {
        return;
    }
    let word = at as *mut u32;
    // SAFETY: the four bytes from `at` lie before the end of the packet; the verifier checks it.
    unsafe {
        let old = u32::from_be(word.read_unaligned());
        let new = (old & !step.mask) | (old.wrapping_add(1) & step.mask);
        word.write_unaligned(new.to_be());
    }
}

/// Toggles bits of the first word of a BTH with every packet and increments the word that holds the PSN
/// with every second packet.
#[inline(always)]
fn alternate(at: usize, end: usize, step: &BenchStep) {
    /// Reserved bit next to the PSN that marks the second packet of a pair.
    const SECOND: u32 = 1 << 30;
    if at + 12 > end {
        return;
    }
    let first = at as *mut u64;
    // SAFETY: the twelve bytes from `at` lie before the end of the packet; the verifier checks it.
    unsafe {
        // Eight bytes at once, as the parser reads them: it would wait for a narrower store to be done, and no packet
        // of a line has one pending.
        first.write_unaligned(first.read_unaligned() ^ (u64::from(step.toggle) << 48).to_be());
        let last = first.add(1).cast::<u32>();
        let old = u32::from_be(last.read_unaligned());
        let new = (old & !step.mask) | (old.wrapping_add(1) & step.mask);
        let next = if old & SECOND == 0 { old | SECOND } else { new & !SECOND };
        last.write_unaligned(next.to_be());
    }
}
