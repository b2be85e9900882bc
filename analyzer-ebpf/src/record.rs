//! One packet: parse it, find its flow, count it.

use core::arch::asm;

#[cfg(not(feature = "test-clock"))]
use aya_ebpf::helpers::generated::bpf_ktime_get_coarse_ns;
use aya_ebpf::helpers::generated::{bpf_spin_lock as lock, bpf_spin_unlock as unlock, bpf_xdp_get_buff_len};
use aya_ebpf::programs::{TcContext, XdpContext};
use aya_log_ebpf::debug;
use rocescope_common::abi::maps::ExtraKind;
use rocescope_common::abi::{ExtraKey, ExtraValue, FlowSlot, Link, LinkCounters};
use rocescope_common::account::{FlowKey, observe};
use rocescope_common::wire::frame::{Kernel, Tag};
use rocescope_common::wire::{Bytes, Entry, Frame, Meta, parse_into};

use crate::emit;
use crate::maps::{
    EXTRA, FLOWS, FRAME, FREE, HAVE_XDP_BUFF_LEN, LINK_MULTIPLIER, LINK_SHIFT, LINKS, OUTCOME, SLOTS,
};
use crate::packet::{Copied, Linear};

const NOEXIST: u64 = 1;
const EEXIST: i32 = -17;
/// Headers that the parser may want at most in what is common; shorter linear parts of longer
/// packets are copied.
const ENOUGH: usize = 192;

#[inline(always)]
pub(crate) fn xdp(ctx: &XdpContext, frags: bool) {
    let Some(packet) = Linear::new(ctx.data(), ctx.data_end()) else { return };
    let mut len = packet.len() as u32;
    if frags && HAVE_XDP_BUFF_LEN.load() != 0 {
        // SAFETY: the context is this program's own.
        len = unsafe { bpf_xdp_get_buff_len(ctx.ctx) } as u32;
    }
    let meta = Meta { entry: Entry::ETHERNET, offset: 0, wire_len: len, tag: Tag::UNKNOWN };
    count(ctx, &packet, meta, ctx.ingress_ifindex() as u32, false, |headers| emit::copy(&packet, headers));
}

#[inline(always)]
pub(crate) fn tc(ctx: &TcContext, egress: bool) {
    // SAFETY: the context is this program's own; these are loads of its fields.
    let (skb_len, wire_len, tagged, tci, ifindex) = unsafe {
        let skb = ctx.skb.skb;
        ((*skb).len, (*skb).wire_len, (*skb).vlan_present, (*skb).vlan_tci, (*skb).ifindex)
    };
    // wire_len counts segments' headers on egress; on ingress it lacks the Ethernet header.
    let mut len = if wire_len > skb_len { wire_len } else { skb_len };
    let mut tag = Tag::NONE;
    if tagged != 0 {
        len += 4;
        tag = Tag::tci(tci as u16);
    }
    let meta = Meta { entry: Entry::ETHERNET, offset: 0, wire_len: len, tag };
    let Some(packet) = Linear::new(ctx.data(), ctx.data_end()) else { return };
    let headers = |headers: &mut emit::Headers| emit::load(ctx, headers);
    if packet.len() < ENOUGH
        && packet.len() < skb_len as usize
        && let Some(copied) = Copied::of(ctx)
    {
        count(ctx, &copied, meta, ifindex, egress, headers);
        return;
    }
    count(ctx, &packet, meta, ifindex, egress, headers);
}

#[inline(always)]
fn count<C: aya_ebpf::EbpfContext>(
    ctx: &C,
    packet: &impl Bytes,
    meta: Meta,
    ifindex: u32,
    egress: bool,
    headers: impl FnOnce(&mut emit::Headers) -> u16,
) {
    let link = Link::index(ifindex, LINK_MULTIPLIER.load(), LINK_SHIFT.load(), egress);
    let Some(counters) = LINKS.get_ptr_mut(link) else { return };
    // SAFETY: a per-CPU value, and programs on one CPU do not interrupt one another.
    let counters = unsafe { &mut *counters };
    let Some(frame) = FRAME.get_ptr_mut(0) else { return };
    // SAFETY: a per-CPU value, as above.
    let frame = unsafe { &mut *frame };
    match parse_into::<Kernel>(packet, meta, &mut (), frame) {
        Ok(()) => roce(ctx, frame, link as u16, counters, headers),
        Err(reason) => {
            // Always in range; said this way the compiler need not believe it.
            if let Some(counter) = counters.skipped.get_mut(reason as usize) {
                counter.add(meta.wire_len);
            }
        }
    }
}

#[inline(always)]
fn roce<C: aya_ebpf::EbpfContext>(
    ctx: &C,
    frame: &Frame,
    link: u16,
    counters: &mut LinkCounters,
    headers: impl FnOnce(&mut emit::Headers) -> u16,
) {
    let Some(scratch) = OUTCOME.get_ptr_mut(0) else { return };
    let now = now();
    let key = FlowKey::of(frame, link);
    let Some((slot, place)) = slot_of(ctx, &key) else {
        counters.flow_table_full.add(frame.wire_len);
        return;
    };
    // SAFETY: the pointer comes from the map; between lock and unlock this program alone uses the
    // statistics.
    let outcome = unsafe {
        lock((&raw mut (*place).lock).cast());
        let outcome = observe(&mut (*place).stats, frame, now);
        unlock((&raw mut (*place).lock).cast());
        // Through map memory: the verifier would else walk through what follows once for every
        // combination of events.
        scratch.write_volatile(outcome);
        scratch.read_volatile()
    };
    if outcome.other_port {
        extra(ExtraKey { slot, kind: ExtraKind::PORT, value: frame.src_port }, frame, counters);
    }
    if outcome.other_opcode {
        extra(ExtraKey { slot, kind: ExtraKind::OPCODE, value: u16::from(frame.opcode) }, frame, counters);
    }
    if outcome.events != 0 {
        emit::event(frame, &key, outcome, now, counters, headers);
    }
}

/// The slot of a flow, a new one if need be. `None` when the table is full.
#[inline(always)]
fn slot_of<C: aya_ebpf::EbpfContext>(ctx: &C, key: &FlowKey) -> Option<(u32, *mut FlowSlot)> {
    if let Some(found) = find(key) {
        return Some(found);
    }
    let Ok(Some(slot)) = FREE.pop() else {
        debug!(ctx, "flow table full");
        return None;
    };
    let place = SLOTS.get_ptr_mut(slot)?;
    // SAFETY: a slot off the free list belongs to this program until it is in the hash.
    unsafe { (*place).key = *key };
    match FLOWS.insert(key, slot, NOEXIST) {
        Ok(()) => Some((slot, place)),
        Err(error) => {
            // SAFETY: as above; the slot goes back as it came.
            unsafe { (*place).key = FlowKey::default() };
            if FREE.push(slot, 0).is_err() {
                debug!(ctx, "slot {} lost", slot);
            }
            if error != EEXIST {
                debug!(ctx, "flow not inserted: {}", error);
                return None;
            }
            // Another CPU was faster with the same flow.
            find(key)
        }
    }
}

/// The slot that the hash has for a flow.
///
/// The hash gives an entry that user space removed to the next new flow at once, which may be after
/// the entry was found here and before the number in it is read. The number is then that of another
/// flow's slot, and the key in the slot tells.
#[inline(always)]
fn find(key: &FlowKey) -> Option<(u32, *mut FlowSlot)> {
    // SAFETY: the value is a number that is read at once.
    let slot = *unsafe { FLOWS.get(key) }?;
    let place = SLOTS.get_ptr_mut(slot)?;
    // SAFETY: the pointer comes from the map, and a slot's key stays while the slot may be found.
    let same = unsafe { same(&raw const (*place).key, key) };
    same.then_some((slot, place))
}

/// Whether two keys are equal. Without a branch for each word, each of which the verifier would
/// follow both ways.
///
/// # Safety
/// Both must point to keys.
#[inline(always)]
unsafe fn same(one: *const FlowKey, other: *const FlowKey) -> bool {
    let mut differing = 0;
    for word in 0..size_of::<FlowKey>() / size_of::<u32>() {
        // SAFETY: a key is words without padding, and `word` is one of them.
        differing |= unsafe { one.cast::<u32>().add(word).read() ^ other.cast::<u32>().add(word).read() };
    }
    differing == 0
}

/// Counts a packet under an overflow key.
#[inline(always)]
#[expect(
    clippy::needless_borrows_for_generic_args,
    reason = "by value each call would put another copy of the key on the stack"
)]
fn extra(key: ExtraKey, frame: &Frame, counters: &mut LinkCounters) {
    if EXTRA.get_ptr_mut(&key).is_none() {
        let _exists_or_full = EXTRA.insert(&key, ExtraValue { packets: 0, bytes: 0 }, NOEXIST);
    }
    let Some(value) = EXTRA.get_ptr_mut(&key) else {
        counters.extra_full += 1;
        return;
    };
    // SAFETY: both words lie in the map value, and are aligned.
    unsafe {
        add(&raw mut (*value).packets, 1);
        add(&raw mut (*value).bytes, u64::from(frame.wire_len));
    }
}

/// Adds atomically; other CPUs may count under the same key.
///
/// # Safety
/// `word` must point to an aligned word of map memory.
#[inline(always)]
unsafe fn add(word: *mut u64, amount: u64) {
    // SAFETY: promised by the caller.
    unsafe { asm!("lock *(u64 *)({0} + 0) += {1}", in(reg) word, in(reg) amount, options(nostack)) };
}

#[cfg(not(feature = "test-clock"))]
#[inline(always)]
fn now() -> u64 {
    // The coarse clock moves with the timer tick (1 to 10 ms) and costs a fraction of the exact one.
    // SAFETY: takes no arguments.
    unsafe { bpf_ktime_get_coarse_ns() }
}

#[cfg(feature = "test-clock")]
#[inline(always)]
fn now() -> u64 {
    crate::maps::TEST_CLOCK.get(0).copied().unwrap_or(0)
}
