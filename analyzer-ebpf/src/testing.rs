//! Programs for tests and benchmarks only: packet sources and sinks that a test host lacks.

use aya_ebpf::bindings::tcx_action_base::TCX_NEXT;
use aya_ebpf::bindings::xdp_action::{XDP_ABORTED, XDP_PASS};
use aya_ebpf::btf_maps::Array;
use aya_ebpf::helpers::generated::{bpf_redirect, bpf_skb_vlan_push};
use aya_ebpf::macros::{btf_map, classifier, xdp};
use aya_ebpf::programs::{TcContext, XdpContext};
use rocescope_common::abi::testing::FloodPlan;

/// Priority 5, id 100.
const TCI: u16 = 5 << 13 | 100;
const ETHERTYPE_VLAN: u16 = 0x8100;
/// Offset of the BTH behind Ethernet, IPv4 without options and UDP.
const BTH: usize = 14 + 20 + 8;
const DEST_QP: usize = BTH + 5;
const PSN: usize = BTH + 9;

#[btf_map]
static FLOOD: Array<FloodPlan, 1> = Array::new();

/// Pushes a VLAN tag into the packet's metadata, as a VLAN device or a switch port does.
#[classifier]
pub fn rocescope_test_tag(ctx: TcContext) -> i32 {
    // A packet that cannot be tagged passes untagged, which the test detects.
    // SAFETY: the context is this program's own.
    let _ = unsafe { bpf_skb_vlan_push(ctx.skb.skb, ETHERTYPE_VLAN.to_be(), TCI) };
    TCX_NEXT
}

/// Builds the next frame of a flood from its template and redirects it to an interface. Used with live
/// frames of `BPF_PROG_TEST_RUN`: the kernel recycles pages, which still hold the frame of an earlier run.
#[xdp]
pub fn rocescope_test_flood(ctx: XdpContext) -> u32 {
    flood(&ctx).unwrap_or(XDP_ABORTED)
}

/// Baseline cost of an attached XDP program.
#[xdp]
pub fn rocescope_test_pass_xdp(_ctx: XdpContext) -> u32 {
    XDP_PASS
}

/// Baseline cost of an attached TC program.
#[classifier]
pub fn rocescope_test_pass_tc(_ctx: TcContext) -> i32 {
    TCX_NEXT
}

#[inline(always)]
fn flood(ctx: &XdpContext) -> Option<u32> {
    // SAFETY: one thread runs a flood, and nobody else writes its plan meanwhile.
    let plan = unsafe { &mut *FLOOD.get_ptr_mut(0)? };
    plan.frames += 1;
    let scan = plan.scan_every != 0 && plan.frames.is_multiple_of(u64::from(plan.scan_every));
    let (qp, psn) = if scan {
        plan.scan_qp += 1;
        (plan.scan_qp - 1, 0)
    } else {
        plan.known += 1;
        let (index, flows) = (plan.known - 1, u64::from(plan.flows.max(1)));
        // `checked_rem` avoids the panic path of a division by zero.
        (plan.first_qp + index.checked_rem(flows)? as u32, index.checked_div(flows)? as u32)
    };
    put(ctx, DEST_QP, qp)?;
    put(ctx, PSN, if plan.hold_psn == 0 { psn } else { 0 })?;
    // SAFETY: takes two numbers.
    Some(unsafe { bpf_redirect(plan.interface, 0) } as u32)
}

/// Writes the low 24 bits of a number into the packet.
#[inline(always)]
fn put(ctx: &XdpContext, offset: usize, number: u32) -> Option<()> {
    let at = ctx.data() + offset;
    if at + 3 > ctx.data_end() {
        return None;
    }
    let [_, bytes @ ..] = number.to_be_bytes();
    // SAFETY: the three bytes from `at` lie before the end of the packet; the verifier checks it.
    unsafe { (at as *mut [u8; 3]).write_unaligned(bytes) };
    Some(())
}
