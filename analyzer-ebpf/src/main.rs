//! rocescope's programs in the kernel: XDP on ingress, TC on ingress or egress.
//!
//! They parse, count and pass every packet on. Parsing and accounting are those of
//! `rocescope-common`, the same as in replay; this crate only drives them: `packet` lets the parser
//! read a packet buffer, `record` finds a flow's slot and counts in it, `latency` times
//! requests, `emit` tells user space of what happened at single packets.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]
#![expect(unsafe_code, reason = "packet and map memory is reached through pointers that the verifier checks")]

mod bench;
mod bins;
mod emit;
mod latency;
mod maps;
mod packet;
mod record;
mod seqlock;
#[cfg(feature = "test-clock")]
mod testing;

use aya_ebpf::bindings::{tcx_action_base::TCX_NEXT, xdp_action::XDP_PASS};
use aya_ebpf::macros::{classifier, xdp};
use aya_ebpf::programs::{TcContext, XdpContext};

/// Ingress, at frame sizes that fit one buffer.
#[xdp]
#[inline(always)]
pub fn rocescope_xdp(ctx: XdpContext) -> u32 {
    record::xdp(&ctx, false);
    XDP_PASS
}

/// Ingress, also where a frame may span several buffers (jumbo MTU).
#[xdp(frags)]
#[inline(always)]
pub fn rocescope_xdp_frags(ctx: XdpContext) -> u32 {
    record::xdp(&ctx, true);
    XDP_PASS
}

/// Ingress, where XDP is not wanted or not to be had.
#[classifier]
#[inline(always)]
pub fn rocescope_tc_ingress(ctx: TcContext) -> i32 {
    record::tc(&ctx, false);
    TCX_NEXT
}

/// Egress.
#[classifier]
#[inline(always)]
pub fn rocescope_tc_egress(ctx: TcContext) -> i32 {
    record::tc(&ctx, true);
    TCX_NEXT
}

/// Says which tick it is, so that user space can set the clock of the others. Never attached.
#[classifier]
pub fn rocescope_ticks(_ctx: TcContext) -> i32 {
    record::note_ticks();
    TCX_NEXT
}

/// Never reached: a program in which it could be is refused by the verifier.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Without it, helpers that need a GPL-compatible program would be refused.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
