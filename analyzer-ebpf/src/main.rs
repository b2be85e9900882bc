//! rocescope's kernel programs: XDP on ingress, TC on ingress or egress.
//!
//! They parse and count each packet and pass it on unchanged. Parser and accounting are those of
//! `rocescope-common`, shared with replay. This crate drives them: `packet` exposes packet buffers to the
//! parser, `record` finds a flow's slot and counts under its `seqlock`, `latency` times requests, `bins`
//! keeps traffic over time, and `emit` sends events to user space.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]
#![expect(unsafe_code, reason = "packet and map memory is reached through pointers that the verifier checks")]

mod bench;
mod bins;
mod emit;
mod floor;
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

/// Ingress, frames in one buffer.
#[xdp]
#[inline(always)]
pub fn rocescope_xdp(ctx: XdpContext) -> u32 {
    record::xdp(&ctx, false);
    XDP_PASS
}

/// Ingress, also frames that span several buffers (jumbo MTU).
#[xdp(frags)]
#[inline(always)]
pub fn rocescope_xdp_frags(ctx: XdpContext) -> u32 {
    record::xdp(&ctx, true);
    XDP_PASS
}

/// Ingress, where XDP is not requested or not supported.
#[classifier]
#[inline(always)]
pub fn rocescope_tc_ingress(ctx: TcContext) -> i32 {
    record::tc(&ctx, false, false);
    TCX_NEXT
}

/// TC program for packets that leave the host.
#[classifier]
#[inline(always)]
pub fn rocescope_tc_egress(ctx: TcContext) -> i32 {
    record::tc(&ctx, true, false);
    TCX_NEXT
}

/// Ingress of an interface without a link layer, whose packets begin with IP.
#[classifier]
#[inline(always)]
pub fn rocescope_tc_raw_ingress(ctx: TcContext) -> i32 {
    record::tc(&ctx, false, true);
    TCX_NEXT
}

/// Egress of such an interface.
#[classifier]
#[inline(always)]
pub fn rocescope_tc_raw_egress(ctx: TcContext) -> i32 {
    record::tc(&ctx, true, true);
    TCX_NEXT
}

/// Writes the current tick to `TICKS`, from which user space calibrates the tick clock. Never attached.
#[classifier]
pub fn rocescope_ticks(_ctx: TcContext) -> i32 {
    record::note_ticks();
    TCX_NEXT
}

rocescope_ebpf::kernel_object!();
