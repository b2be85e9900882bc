//! Programs that `rocescope bench` measures against; they are never attached anywhere.
//!
//! `BPF_PROG_TEST_RUN` gives a program the same memory again and again, so a program that first
//! moves a number in the packet on meets packets in order, or another flow each time. What that
//! step costs is measured by a program that does nothing else.

use aya_ebpf::bindings::{tcx_action_base::TCX_NEXT, xdp_action::XDP_PASS};
use aya_ebpf::macros::{classifier, xdp};
use aya_ebpf::programs::{TcContext, XdpContext};

use rocescope_common::abi::BenchStep;

use crate::maps::BENCH_STEP;
use crate::packet::opaque;
use crate::record;

/// Steps are taken within headers.
const OFFSET_MASK: u16 = 0xFF;

/// The cost of calling any XDP program.
#[xdp]
#[inline(always)]
pub fn rocescope_bench_xdp_empty(_ctx: XdpContext) -> u32 {
    XDP_PASS
}

/// The cost of the step.
#[xdp]
#[inline(always)]
pub fn rocescope_bench_xdp_step(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    XDP_PASS
}

/// The step, then what `rocescope_xdp` does.
#[xdp]
#[inline(always)]
pub fn rocescope_bench_xdp(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    record::xdp(&ctx, false);
    XDP_PASS
}

/// The cost of calling any XDP program that takes frames of several buffers.
#[xdp(frags)]
#[inline(always)]
pub fn rocescope_bench_xdp_frags_empty(_ctx: XdpContext) -> u32 {
    XDP_PASS
}

/// The cost of the step.
#[xdp(frags)]
#[inline(always)]
pub fn rocescope_bench_xdp_frags_step(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    XDP_PASS
}

/// The step, then what `rocescope_xdp_frags` does.
#[xdp(frags)]
#[inline(always)]
pub fn rocescope_bench_xdp_frags(ctx: XdpContext) -> u32 {
    step(ctx.data(), ctx.data_end());
    record::xdp(&ctx, true);
    XDP_PASS
}

/// The cost of calling any TC program.
#[classifier]
#[inline(always)]
pub fn rocescope_bench_tc_empty(_ctx: TcContext) -> i32 {
    TCX_NEXT
}

/// The cost of the step.
#[classifier]
#[inline(always)]
pub fn rocescope_bench_tc_step(ctx: TcContext) -> i32 {
    step(ctx.data(), ctx.data_end());
    TCX_NEXT
}

/// The step, then what `rocescope_tc_ingress` does.
#[classifier]
#[inline(always)]
pub fn rocescope_bench_tc(ctx: TcContext) -> i32 {
    step(ctx.data(), ctx.data_end());
    record::tc(&ctx, false);
    TCX_NEXT
}

/// Adds 1 to the bits of a word in the packet that the mask names; with a toggle see [`alternate`].
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

/// Changes the first word of a BTH with each packet, and the number in the word with the PSN with every
/// other.
#[inline(always)]
fn alternate(at: usize, end: usize, step: &BenchStep) {
    /// A reserved bit beside the PSN says which packet of two it is.
    const SECOND: u32 = 1 << 30;
    if at + 12 > end {
        return;
    }
    let first = at as *mut u32;
    // SAFETY: the twelve bytes from `at` lie before the end of the packet; the verifier checks it.
    unsafe {
        first.write_unaligned(first.read_unaligned() ^ (u32::from(step.toggle) << 16).to_be());
        let last = first.add(2);
        let old = u32::from_be(last.read_unaligned());
        let new = (old & !step.mask) | (old.wrapping_add(1) & step.mask);
        let next = if old & SECOND == 0 { old | SECOND } else { new & !SECOND };
        last.write_unaligned(next.to_be());
    }
}
