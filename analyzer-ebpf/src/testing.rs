//! A program for tests alone: what else on a host does to packets, on machines that have nothing
//! to do it with.

use aya_ebpf::bindings::tcx_action_base::TCX_NEXT;
use aya_ebpf::helpers::generated::bpf_skb_vlan_push;
use aya_ebpf::macros::classifier;
use aya_ebpf::programs::TcContext;

/// Priority 5, id 100.
const TCI: u16 = 5 << 13 | 100;
const ETHERTYPE_VLAN: u16 = 0x8100;

/// Puts a tag into the packet's metadata, as a VLAN device or a switch port would.
#[classifier]
pub fn rocescope_test_tag(ctx: TcContext) -> i32 {
    // A packet that cannot be tagged goes on without, and the test notices.
    // SAFETY: the context is this program's own.
    let _ = unsafe { bpf_skb_vlan_push(ctx.skb.skb, ETHERTYPE_VLAN.to_be(), TCI) };
    TCX_NEXT
}
