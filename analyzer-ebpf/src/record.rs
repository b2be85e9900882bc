//! Per-packet path: parse, find the flow's slot, count.

use core::arch::asm;

#[cfg(not(feature = "test-clock"))]
use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use aya_ebpf::helpers::generated::{bpf_jiffies64, bpf_xdp_get_buff_len};
use aya_ebpf::programs::{TcContext, XdpContext};
use aya_log_ebpf::debug;
use rocescope_common::abi::maps::{ExtraKind, dscp_value, hint_of};
use rocescope_common::abi::{CpuState, ExtraKey, ExtraValue, FlowSlot, Link, LinkCounters};
use rocescope_common::account::{FlowKey, PackedOutcome, observe_into};
use rocescope_common::wire::frame::{Kernel, Tag};
use rocescope_common::wire::{
    Entry, FirstLook, Frame, Meta, SkipReason, first_look, parse_into, parse_plain,
};

use crate::maps::{
    CPU_STATE, EXTRA, FLOWS, FREE, HAVE_XDP_BUFF_LEN, HINT_SHIFT, LINK_MULTIPLIER, LINK_SHIFT, SLOTS,
    counters_of, hint_at,
};
use crate::packet::{Head, HeadCopy};
use crate::{bins, emit, latency, seqlock};

const NOEXIST: u64 = 1;
const EEXIST: i32 = -17;
/// Linear parts shorter than this may not hold all headers; then the packet's first bytes are copied.
const ENOUGH: usize = 192;

#[inline(always)]
pub(crate) fn xdp(ctx: &XdpContext, frags: bool) {
    let head = Head::new(ctx.data(), ctx.data_end());
    let mut len = head.len() as u32;
    if frags && HAVE_XDP_BUFF_LEN.load() != 0 {
        // SAFETY: the context is this program's own.
        len = unsafe { bpf_xdp_get_buff_len(ctx.ctx) } as u32;
    }
    let link = link(ctx.ingress_ifindex() as u32, false);
    let look = first_look(&head);
    if let FirstLook::NotRoce(reason) = look {
        skip(link, reason, len);
        return;
    }
    let meta = Meta { entry: Entry::ETHERNET, offset: 0, wire_len: len, tag: Tag::UNKNOWN };
    let Some(work) = CPU_STATE.get_ptr_mut(0) else { return };
    // SAFETY: a per-CPU value, and programs on one CPU do not interrupt one another.
    let (packet, frame) = unsafe { (head.with_scratch(&raw mut (*work).offset), &mut (*work).frame) };
    let parsed = if look == FirstLook::Plain && parse_plain(&packet, meta, frame) {
        Ok(())
    } else {
        parse_into::<Kernel>(&packet, meta, &mut (), frame)
    };
    count(ctx, work, parsed, len, link);
}

/// `raw`: packets begin with their IP header, on interfaces without a link layer. A constant.
#[inline(always)]
pub(crate) fn tc(ctx: &TcContext, egress: bool, raw: bool) {
    // SAFETY: the context is this program's own; these are loads of its fields.
    let (skb_len, wire_len, tagged, tci, ifindex) = unsafe {
        let skb = ctx.skb.skb;
        ((*skb).len, (*skb).wire_len, (*skb).vlan_present, (*skb).vlan_tci, (*skb).ifindex)
    };
    // `wire_len` includes the headers of GSO segments on egress; on ingress it excludes the Ethernet
    // header.
    let mut len = if wire_len > skb_len { wire_len } else { skb_len };
    let mut tag = if raw { Tag::UNKNOWN } else { Tag::NONE };
    if tagged != 0 && !raw {
        len += 4;
        tag = Tag::tci(tci as u16);
    }
    let head = Head::new(ctx.data(), ctx.data_end());
    let link = link(ifindex, egress);
    let look = if raw { FirstLook::Other } else { first_look(&head) };
    if let FirstLook::NotRoce(reason) = look {
        skip(link, reason, len);
        return;
    }
    let entry = if raw { Entry::IP } else { Entry::ETHERNET };
    let meta = Meta { entry, offset: 0, wire_len: len, tag };
    let Some(work) = CPU_STATE.get_ptr_mut(0) else { return };
    // SAFETY: the pointer comes from the map.
    let offset = unsafe { &raw mut (*work).offset };
    let packet = head.with_scratch(offset);
    // SAFETY: a per-CPU value, and programs on one CPU do not interrupt one another.
    let frame = unsafe { &mut (*work).frame };
    // One place counts what either has parsed: the verifier follows it once.
    let parsed = if packet.len() < ENOUGH
        && packet.len() < skb_len as usize
        && let Some(copied) = HeadCopy::of(ctx, offset)
    {
        parse_into::<Kernel>(&copied, meta, &mut (), frame)
    } else if look == FirstLook::Plain && parse_plain(&packet, meta, frame) {
        Ok(())
    } else {
        parse_into::<Kernel>(&packet, meta, &mut (), frame)
    };
    count(ctx, work, parsed, len, link);
}

#[inline(always)]
pub(crate) fn link(ifindex: u32, egress: bool) -> u32 {
    Link::index(ifindex, LINK_MULTIPLIER.load(), LINK_SHIFT.load(), egress)
}

#[inline(always)]
fn count(ctx: &impl emit::Packet, work: *mut CpuState, parsed: Result<(), SkipReason>, len: u32, link: u32) {
    match parsed {
        Ok(()) => roce(ctx, work, link as u16),
        Err(reason) => skip(link, reason, len),
    }
}

/// Counts a frame that is not counted as RoCE.
#[inline(always)]
fn skip(link: u32, reason: SkipReason, wire_len: u32) {
    let Some(counters) = counters_of(link) else { return };
    // Always in range; `get_mut` avoids a panic path.
    if let Some(counter) = counters.skipped.get_mut(reason as usize) {
        counter.add(wire_len);
    }
}

#[inline(always)]
fn roce(ctx: &impl emit::Packet, work: *mut CpuState, link: u16) {
    // SAFETY: a per-CPU value, and programs on one CPU do not interrupt one another.
    let (frame, outcome_cell) = unsafe { (&(*work).frame, &raw mut (*work).outcome) };
    let now = now();
    let Some((slot, place)) = slot_of(ctx, frame, link) else {
        if let Some(counters) = counters_of(u32::from(link)) {
            counters.flow_table_full.add(frame.wire_len);
        }
        return;
    };
    // SAFETY: the pointer comes from the map.
    let seqlock = unsafe { &raw mut (*place).seqlock };
    let Some(locked) = seqlock::lock(slot, seqlock) else {
        if let Some(counters) = counters_of(u32::from(link)) {
            counters.contended.add(frame.wire_len);
        }
        return;
    };
    // SAFETY: this program holds the slot's seqlock.
    let outcome = unsafe {
        let timing = bins::enabled();
        let before_ns = if timing { (&raw const (*place).stats.last_ns).read_volatile() } else { 0 };
        // In map memory: otherwise the verifier would walk the code below once for every combination of events.
        observe_into(&mut (*place).stats, frame, now, &mut *outcome_cell);
        if timing {
            bins::record(work, place, slot, outcome_cell.read_volatile().unpack(), now);
            latency::packet(slot, place, work, before_ns, now);
        }
        seqlock::unlock(seqlock, locked);
        outcome_cell.read_volatile()
    };
    if bins::enabled() {
        bins::flush(work, slot, link);
    }
    if outcome.bits & !PackedOutcome::DUPLICATE_PSN == 0 {
        return;
    }
    let outcome = outcome.unpack();
    let Some(counters) = counters_of(u32::from(link)) else { return };
    if outcome.other_port {
        count_extra(ExtraKey { slot, kind: ExtraKind::PORT, value: frame.src_port }, frame, counters);
    }
    if outcome.other_opcode {
        count_extra(
            ExtraKey { slot, kind: ExtraKind::OPCODE, value: u16::from(frame.opcode) },
            frame,
            counters,
        );
    }
    if outcome.other_dscp {
        count_extra(ExtraKey { slot, kind: ExtraKind::DSCP, value: dscp_value(frame) }, frame, counters);
    }
    if outcome.events != 0 {
        emit::event(ctx, frame, &FlowKey::of(frame, link), outcome, now, counters);
    }
}

/// Finds or creates the slot of a flow. `None` when the table is full.
#[inline(always)]
pub(crate) fn slot_of<C: aya_ebpf::EbpfContext>(
    ctx: &C,
    frame: &Frame,
    link: u16,
) -> Option<(u32, *mut FlowSlot)> {
    let index = hint_of(frame.src[3], frame.dst[3], frame.dest_qp, link) >> (HINT_SHIFT.load() & 31);
    let hint = hint_at(index)?;
    // SAFETY: the pointer comes from the map; any number is valid as a hint.
    let slot = unsafe { hint.read_volatile() };
    if let Some(place) = SLOTS.get_ptr_mut(slot)
        && matches_key(place, frame, link, WITH_MARK)
    {
        return Some((slot, place));
    }
    let slot = look_up(ctx, frame, link)?;
    // SAFETY: as above.
    unsafe { hint.write_volatile(slot) };
    Some((slot, SLOTS.get_ptr_mut(slot)?))
}

/// True if a slot has the frame's key. `bits` selects the bits of the key's last word to compare.
///
/// Lookups by hint compare all bits, so that a marked slot never matches: its flow is not yet or no longer
/// in the hash. A flow leaves the hash and is marked before the grace period after which user space reads
/// it for the last time, so a program that found it by hint has finished by then.
#[inline(always)]
fn matches_key(place: *mut FlowSlot, frame: &Frame, link: u16, bits: u64) -> bool {
    // SAFETY: the pointer comes from the map, and the words are those of a key.
    let (last, src, dst) = unsafe {
        let key = &raw mut (*place).key;
        // The last word first: it is written last.
        (seqlock::acquire((&raw mut (*key).dest_qp).cast()), &raw const (*key).src, &raw const (*key).dst)
    };
    if last & bits != last_word(frame.dest_qp, link, frame.family) {
        return false;
    }
    // Without a branch per word: the verifier would follow both sides of each.
    // SAFETY: as above.
    let differs = |at: usize| unsafe {
        (src.cast::<u32>().add(at).read_volatile() ^ frame.src[at])
            | (dst.cast::<u32>().add(at).read_volatile() ^ frame.dst[at])
    };
    // IPv4 keys have 0 in the other words.
    differs(3) == 0 && (frame.family == 4 || differs(0) | differs(1) | differs(2) == 0)
}

/// Mark in the last word of a slot's key: the flow is not yet or no longer in the hash.
const MARK: u64 = if cfg!(target_endian = "little") { 1 << 56 } else { 1 };
const WITH_MARK: u64 = u64::MAX;

/// The last eight bytes of a key as one word.
#[inline(always)]
fn last_word(dest_qp: u32, link: u16, family: u8) -> u64 {
    let low = u64::from(dest_qp);
    let high = u64::from(link) | u64::from(family) << 16;
    if cfg!(target_endian = "little") {
        low | high << 32
    } else {
        low << 32 | u64::from(link) << 16 | u64::from(family) << 8
    }
}

/// Finds a flow's slot in the hash, or inserts the flow. `None` when the table is full.
#[inline(always)]
#[expect(
    clippy::needless_borrows_for_generic_args,
    reason = "by value each call would put another copy of the key on the stack"
)]
fn look_up<C: aya_ebpf::EbpfContext>(ctx: &C, frame: &Frame, link: u16) -> Option<u32> {
    let key = FlowKey::of(frame, link);
    if let Some(slot) = find(&key, frame, link) {
        return Some(slot);
    }
    let Ok(Some(slot)) = FREE.pop() else {
        debug!(ctx, "flow table full");
        return None;
    };
    let place = SLOTS.get_ptr_mut(slot)?;
    let last = last_word(key.dest_qp, key.link, key.family);
    // SAFETY: a slot popped off the free list belongs to this program until it is in the hash. The mark
    // keeps lookups by stale hints away until the insertion has succeeded.
    unsafe {
        (*place).key.src = key.src;
        (*place).key.dst = key.dst;
        seqlock::release((&raw mut (*place).key.dest_qp).cast(), last | MARK);
    }
    match FLOWS.insert(&key, slot, NOEXIST) {
        Ok(()) => {
            // SAFETY: only the program that inserted a slot clears its first mark. User space retires only
            // unmarked slots.
            seqlock::release(unsafe { (&raw mut (*place).key.dest_qp).cast() }, last);
            Some(slot)
        }
        Err(error) => {
            // The slot is released without an owner. The word is written whole, so that no lookup by hint
            // sees the key without its mark.
            // SAFETY: as above.
            seqlock::release(unsafe { (&raw mut (*place).key.dest_qp).cast() }, 0);
            if FREE.push(slot, 0).is_err() {
                debug!(ctx, "slot {} lost", slot);
            }
            if error != EEXIST {
                debug!(ctx, "flow not inserted: {}", error);
                return None;
            }
            // Another CPU inserted the same flow first.
            find(&key, frame, link)
        }
    }
}

/// Looks up a flow's slot in the hash.
///
/// The kernel may reuse a deleted hash entry for a new flow between the lookup and the read of its value,
/// which is then another flow's slot. The key in the slot detects that.
#[inline(always)]
fn find(key: &FlowKey, frame: &Frame, link: u16) -> Option<u32> {
    // SAFETY: the value is read immediately.
    let slot = *unsafe { FLOWS.get(key) }?;
    matches_key(SLOTS.get_ptr_mut(slot)?, frame, link, !MARK).then_some(slot)
}

/// Counts a packet under a key of the overflow table.
#[inline(always)]
#[expect(
    clippy::needless_borrows_for_generic_args,
    reason = "by value each call would put another copy of the key on the stack"
)]
fn count_extra(key: ExtraKey, frame: &Frame, counters: &mut LinkCounters) {
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

/// Adds atomically: other CPUs may count under the same key.
///
/// # Safety
/// `word` points to an aligned word of map memory.
#[inline(always)]
unsafe fn add(word: *mut u64, amount: u64) {
    // SAFETY: promised by the caller.
    unsafe { asm!("lock *(u64 *)({0} + 0) += {1}", in(reg) word, in(reg) amount, options(nostack)) };
}

/// Monotonic time in nanoseconds: exact, or of the latest timer tick (1 to 10 ms).
///
/// Ticks rather than `bpf_ktime_get_coarse_ns`: `bpf_jiffies64` is inlined as a load, the coarse clock is a
/// helper call. Measured on the in-order case (Linux 6.18, Intel Emerald Rapids, 150 rounds, lower
/// quartiles): 33.4 instead of 32.0 ns with XDP (+4.4 %), 36.3 instead of 34.4 with multi-buffer XDP (+5.7
/// %), 38.8 instead of 36.9 with TC (+5.0 %); 26 ns more on an AMD EPYC.
#[cfg(not(feature = "test-clock"))]
#[inline(always)]
fn now() -> u64 {
    if bins::enabled() {
        // SAFETY: takes no arguments.
        return unsafe { bpf_ktime_get_ns() };
    }
    let Some(clock) = crate::maps::TICKS.get(0) else { return 0 };
    ticks().wrapping_mul(clock.tick_ns).wrapping_add(clock.base_ns)
}

#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: takes no arguments.
    unsafe { bpf_jiffies64() }
}

/// Writes the current tick to `TICKS`.
#[inline(always)]
pub(crate) fn note_ticks() {
    if let Some(clock) = crate::maps::TICKS.get_ptr_mut(0) {
        // SAFETY: the pointer comes from the map.
        unsafe { (&raw mut (*clock).ticks).write_volatile(ticks()) };
    }
}

#[cfg(feature = "test-clock")]
#[inline(always)]
fn now() -> u64 {
    crate::maps::TEST_CLOCK.get(0).copied().unwrap_or(0)
}
