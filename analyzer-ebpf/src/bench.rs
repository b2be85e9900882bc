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

/// Declares programs, a line for each: name, `step` for those that increment the field first, then the work itself, and
/// what it measures.
macro_rules! programs {
    (#[$($attribute:tt)*] $context:ty, $pass:expr => $of:ty;
     $($name:ident($ctx:ident)$(.$step:ident())? $({ $work:expr })?, $doc:literal;)*) => {$(
        #[doc = $doc]
        #[$($attribute)*]
        #[inline(always)]
        pub fn $name($ctx: $context) -> $of {
            $($step($ctx.data(), $ctx.data_end());)?
            $($work;)?
            $pass
        }
    )*};
}

programs! {
    #[xdp] XdpContext, XDP_PASS => u32;
    rocescope_bench_xdp_empty(_ctx), "Cost of calling an XDP program.";
    rocescope_bench_xdp_step(ctx).step(), "Cost of incrementing the field.";
    rocescope_bench_xdp(ctx).step() { record::xdp(&ctx, false) },
        "Increments the field, then counts like `rocescope_xdp`.";
    rocescope_bench_xdp_clock(_ctx) { clock() },
        "Cost of calling an XDP program that reads the exact clock: what counting by it cannot go below.";
    rocescope_bench_xdp_reach(ctx).step() { floor::xdp(&ctx, Memory::Slot, Time::Own) },
        "Increments the field and does all but bins and latency; see [`floor`].";
    rocescope_bench_xdp_together(ctx).step() { floor::xdp(&ctx, Memory::Together, Time::Own) },
        "The same, with a flow's memory in two neighbouring cache lines.";
    rocescope_bench_xdp_published(ctx).step() { floor::xdp(&ctx, Memory::Slot, Time::Published) },
        "The same as the first, with a time from memory.";
    rocescope_bench_xdp_answered(ctx).step() { floor::xdp_answered(&ctx) },
        "Increments the field and counts a WRITE LAST or an ACK, and nothing else; see [`floor`].";
    rocescope_floor_xdp(ctx) { floor::xdp(&ctx, Memory::Slot, Time::Own) },
        "All but bins and latency, of frames as they are, for an interface.";
    rocescope_bench_xdp_insert(ctx).step() { floor::insert(&ctx, Part::All) },
        "Increments the field and inserts a flow; see [`floor::insert`].";
    rocescope_bench_xdp_hash(ctx).step() { floor::insert(&ctx, Part::Hash) },
        "Increments the field and inserts a key into the hash.";
    rocescope_bench_xdp_event(ctx).step() { floor::insert(&ctx, Part::Event) },
        "Increments the field and sends an event.";
}

programs! {
    #[xdp(frags)] XdpContext, XDP_PASS => u32;
    rocescope_bench_xdp_frags_empty(_ctx), "Cost of calling an XDP program that accepts multi-buffer frames.";
    rocescope_bench_xdp_frags_step(ctx).step(), "Cost of incrementing the field.";
    rocescope_bench_xdp_frags(ctx).step() { record::xdp(&ctx, true) },
        "Increments the field, then counts like `rocescope_xdp_frags`.";
}

programs! {
    #[classifier] TcContext, TCX_NEXT => i32;
    rocescope_bench_tc_empty(_ctx), "Cost of calling a TC program.";
    rocescope_bench_tc_clock(_ctx) { clock() }, "Cost of calling a TC program that reads the exact clock.";
    rocescope_bench_tc_step(ctx).step(), "Cost of incrementing the field.";
    rocescope_bench_tc(ctx).step() { record::tc(&ctx, false, false) },
        "Increments the field, then counts like `rocescope_tc_ingress`.";
    rocescope_bench_tc_reach(ctx).step() { floor::tc(&ctx) },
        "Increments the field and does all but bins and latency; see [`floor`].";
    rocescope_bench_tc_answered(ctx).step() { floor::tc_answered(&ctx) },
        "Increments the field and counts a WRITE LAST or an ACK, and nothing else; see [`floor`].";
    rocescope_floor_tc(ctx) { floor::tc(&ctx) }, "All but bins and latency, of frames as they are, for an interface.";
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
