//! The parts that counting cannot do without, alone: programs that `rocescope bench` sets beside the rows of counting.
//!
//! [`reach`] parses a frame, finds its flow, locks it and counts as `--no-timing` does, and reads the clock. Bins,
//! messages and latency it does not count: it writes each cache line that they write, with what it holds already.
//! [`answered`] counts WRITE LAST and ACK alone. [`insert`] is the kernel's part of a new flow. Only the bench reads
//! what they leave in the maps.

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::{bpf_jiffies64, bpf_ktime_get_ns};
use aya_ebpf::programs::{TcContext, XdpContext};
use rocescope_common::abi::maps::hint_of;
use rocescope_common::abi::{BinRecord, CpuState, EventRecord, FlowSlot, Timing};
use rocescope_common::account::bin::{LastExchange, PsnAt};
use rocescope_common::account::latency::{Latency, RING, bucket, completion_bucket};
use rocescope_common::account::message::{ByOperation, frame_bucket};
use rocescope_common::account::{FlowBin, FlowKey, FlowStats, observe_into};
use rocescope_common::wire::bth::MASK24;
use rocescope_common::wire::frame::{Kernel, Tag};
use rocescope_common::wire::opcode::Op;
use rocescope_common::wire::{Entry, FirstLook, Frame, Meta, first_look, parse_into, parse_plain};

use crate::latency::exchange;
use crate::maps::{
    BIN_NS, BINS, CPU_STATE, EVENTS, EXCHANGES, FLOWS, FREE, HINT_SHIFT, LATENCY, PRECISE_CLOCK, SLOTS,
    TICKS, counters_of, hint_at,
};
use crate::packet::Head;
use crate::{record, seqlock};

const NOEXIST: u64 = 1;

/// Bytes of a flow in [`Memory::Together`].
const TOGETHER: usize = 128;

/// The place of the memory that a packet writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// In its slot, as counting has it.
    Slot,
    /// In two neighbouring cache lines, four flows in the place of one slot: the best that a layout could do.
    Together,
}

/// Source of the time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// As in counting: exact, or ticks with `--no-timing`.
    Own,
    /// A word that something else would write every few hundred microseconds, and ticks to see that it is of this tick.
    Published,
}

#[inline(always)]
fn now(time: Time) -> u64 {
    if time == Time::Published {
        let Some(clock) = TICKS.get_ptr_mut(0) else { return 0 };
        // SAFETY: the pointer comes from the map; the helper takes nothing.
        return unsafe {
            let (published, tick) =
                ((&raw const (*clock).base_ns).read_volatile(), (&raw const (*clock).ticks).read_volatile());
            published.wrapping_add(bpf_jiffies64().wrapping_sub(tick).wrapping_mul((*clock).tick_ns))
        };
    }
    // SAFETY: the helpers take nothing and touch no memory of this program.
    unsafe { if PRECISE_CLOCK.load() != 0 { bpf_ktime_get_ns() } else { bpf_jiffies64() } }
}

/// Writes a word with what it holds.
///
/// # Safety
/// It lies in map memory.
#[inline(always)]
unsafe fn touch(word: *mut u64) {
    // SAFETY: promised by the caller.
    unsafe { word.write_volatile(word.read_volatile()) };
}

/// The part that the exact clock adds.
#[inline(always)]
fn exact(slot: u32, place: *mut FlowSlot, now: u64) {
    let Some(work) = CPU_STATE.get_ptr_mut(0) else { return };
    // SAFETY: the pointers come from maps.
    let (bin, pair) = unsafe {
        touch((&raw mut (*work).messages).cast());
        (&raw mut (*place).bin, (&raw const (*place).timing.pair).read_volatile())
    };
    // SAFETY: the bin lies in the slot.
    unsafe { over(slot, bin, now) };
    let Some(timed) = LATENCY.get_ptr_mut(Timing::own(pair).wrapping_sub(1)) else { return };
    let Some(asked) = EXCHANGES.get_ptr_mut(slot) else { return };
    // SAFETY: the pointers come from maps.
    unsafe {
        touch(asked.cast());
        touch(timed.cast());
        let cell = (&raw mut (*timed).ring).cast::<u64>();
        exchange(cell, cell.read_volatile());
        touch((&raw mut (*timed).counts).cast());
    }
}

/// Sends a bin that has ended, as counting does: where flows take turns, with nearly each packet.
///
/// # Safety
/// `bin` lies in map memory.
#[inline(always)]
unsafe fn over(slot: u32, bin: *mut FlowBin, now: u64) {
    // SAFETY: promised by the caller. The start moves on, or each later packet of the flow would send one.
    unsafe {
        let start = &raw mut (*bin).start_ns;
        if now.wrapping_sub(start.read_volatile()) < BIN_NS.load() {
            return touch(start);
        }
        start.write_volatile(now);
        if let Some(mut entry) = BINS.reserve(0) {
            entry.write(BinRecord { bin: *bin, slot, pad: 0 });
            entry.submit(u64::from(aya_ebpf::bindings::BPF_RB_NO_WAKEUP));
        }
    }
}

/// [`reach`] in XDP.
#[inline(always)]
pub(crate) fn xdp(ctx: &XdpContext, memory: Memory, time: Time) {
    let link = record::link(ctx.ingress_ifindex() as u32, false);
    reach(ctx, Head::new(ctx.data(), ctx.data_end()), link, memory, time);
}

/// [`reach`] in TC.
#[inline(always)]
pub(crate) fn tc(ctx: &TcContext) {
    // SAFETY: the context is this program's own.
    let link = record::link(unsafe { (*ctx.skb.skb).ifindex }, false);
    reach(ctx, Head::new(ctx.data(), ctx.data_end()), link, Memory::Slot, Time::Own);
}

/// The frame of a packet, in this CPU's memory.
#[inline(always)]
fn parsed(head: Head) -> Option<*mut CpuState> {
    let look = first_look(&head);
    if let FirstLook::NotRoce(_) = look {
        return None;
    }
    let meta = Meta { entry: Entry::ETHERNET, offset: 0, wire_len: head.len() as u32, tag: Tag::UNKNOWN };
    let work = CPU_STATE.get_ptr_mut(0)?;
    // SAFETY: a per-CPU value, and programs on one CPU do not interrupt one another.
    let (packet, frame) = unsafe { (head.with_scratch(&raw mut (*work).offset), &mut (*work).frame) };
    if look == FirstLook::Plain && parse_plain(&packet, meta, frame) {
        return Some(work);
    }
    parse_into::<Kernel>(&packet, meta, &mut (), frame).ok()?;
    Some(work)
}

/// All but bins, messages and latency.
#[inline(always)]
fn reach<C: EbpfContext>(ctx: &C, head: Head, link: u32, memory: Memory, time: Time) {
    let Some(work) = parsed(head) else { return };
    // SAFETY: as in `parsed`.
    let frame = unsafe { &(*work).frame };
    let now = now(time);
    match memory {
        Memory::Slot => {
            let Some((slot, place)) = record::slot_of(ctx, frame, link as u16) else { return };
            // SAFETY: the pointer comes from the map.
            let word = unsafe { &raw mut (*place).seqlock };
            let Some(locked) = seqlock::lock(slot, word) else { return };
            // SAFETY: this program holds the slot's seqlock; the other memory is this CPU's.
            unsafe {
                observe_into(&mut (*place).stats, frame, now, &mut (*work).outcome);
            }
            if PRECISE_CLOCK.load() != 0 {
                exact(slot, place, now);
            }
            seqlock::unlock(word, locked);
        }
        Memory::Together => together(work, link, now),
    }
}

/// Finds a flow whose memory lies together, and writes that: nothing is counted.
#[inline(always)]
fn together(work: *mut CpuState, link: u32, now: u64) {
    // SAFETY: as in `reach`.
    let frame = unsafe { &(*work).frame };
    let index = hint_of(frame.src[3], frame.dst[3], frame.dest_qp, link as u16) >> (HINT_SHIFT.load() & 31);
    let Some(hint) = hint_at(index) else { return };
    // SAFETY: the pointer comes from the map; any number is valid as a hint.
    let slot = unsafe { hint.read_volatile() };
    let Some(four) = SLOTS.get_ptr_mut(slot >> 2) else { return };
    // Even slots begin at a multiple of 128 bytes, odd ones 64 bytes behind one.
    let place = (slot as usize & 3) * TOGETHER + (slot as usize >> 2 & 1) * (TOGETHER / 2);
    // SAFETY: four times 128 bytes and half of that are less than a slot.
    let first = unsafe { four.cast::<u8>().add(place).cast::<u64>() };
    // SAFETY: as above; the words that would be the key are compared without a consequence.
    let differs = unsafe {
        let word = |at: usize| first.add(at).read_volatile();
        word(1) ^ u64::from(frame.src[3])
            | word(3) ^ u64::from(frame.dst[3])
            | word(5) ^ u64::from(frame.dest_qp)
    };
    // SAFETY: as above. The word is no lock here, so that what it holds stays: an exchange takes as long as locking.
    unsafe {
        let held = first.read_volatile();
        exchange(first, held);
        (&raw mut (*work).bin_ended).write_volatile(differs);
        touch(first.add(6));
        touch(first.add(8));
        if PRECISE_CLOCK.load() != 0 {
            touch((&raw mut (*work).messages).cast());
            over(slot, first.add(9).cast(), now);
        }
        seqlock::release(first, held);
    }
}

/// [`answered`] in XDP.
#[inline(always)]
pub(crate) fn xdp_answered(ctx: &XdpContext) {
    let link = record::link(ctx.ingress_ifindex() as u32, false);
    answered(ctx, Head::new(ctx.data(), ctx.data_end()), link);
}

/// [`answered`] in TC.
#[inline(always)]
pub(crate) fn tc_answered(ctx: &TcContext) {
    // SAFETY: the context is this program's own.
    let link = record::link(unsafe { (*ctx.skb.skb).ifindex }, false);
    answered(ctx, Head::new(ctx.data(), ctx.data_end()), link);
}

/// Counts a WRITE LAST and the ACK to it in every word in which counting does, but looks for nothing else: neither
/// another opcode, nor a property that changed, a PSN out of order, a full ring or a second request.
#[inline(always)]
fn answered<C: EbpfContext>(ctx: &C, head: Head, link: u32) {
    let Some(work) = parsed(head) else { return };
    // SAFETY: as in `parsed`.
    let frame = unsafe { &(*work).frame };
    let now = now(Time::Own);
    let Some((slot, place)) = record::slot_of(ctx, frame, link as u16) else { return };
    // SAFETY: the pointer comes from the map.
    let pair = unsafe { (&raw const (*place).timing.pair).read_volatile() };
    let (Some(timed), Some(exchange)) =
        (LATENCY.get_ptr_mut(Timing::own(pair).wrapping_sub(1)), EXCHANGES.get_ptr_mut(slot))
    else {
        return;
    };
    // SAFETY: the pointer comes from the map.
    let word = unsafe { &raw mut (*place).seqlock };
    let Some(locked) = seqlock::lock(slot, word) else { return };
    // SAFETY: this program holds the slot's seqlock; the other memory is this CPU's, or that of entries from maps.
    unsafe {
        let (stats, bin) = (&mut (*place).stats, (&raw mut (*place).bin).cast::<u32>());
        stats.last_ns = now;
        stats.packets += 1;
        stats.bytes += u64::from(frame.wire_len);
        if let Some(packets) = stats.opcodes.get_mut(usize::from(frame.opcode & 0x1F)) {
            *packets += 1;
        }
        over(slot, bin.cast(), now);
        // Bytes and packets of the bin.
        *bin.add(4) += frame.wire_len;
        *bin.add(7) += 1;
        let pending = Pending { timed, exchange, now };
        if Op::of(frame.opcode).has(Op::ACKNOWLEDGE) {
            *bin.add(5) += frame.wire_len;
            acknowledge(stats, frame, &pending);
        } else {
            *bin.add(3) = now as u32;
            last(stats, &mut (*work).messages, frame, &pending);
        }
    }
    seqlock::unlock(word, locked);
    if let Some(count) =
        counters_of(link).and_then(|counters| counters.frame_sizes.get_mut(frame_bucket(frame.wire_len)))
    {
        *count += 1;
    }
}

/// Entries of a flow for requests and answers, and the time of a packet.
struct Pending {
    timed: *mut Latency,
    exchange: *mut LastExchange,
    now: u64,
}

/// Counts a WRITE LAST.
///
/// # Safety
/// The entries come from maps.
#[inline(always)]
unsafe fn last(stats: &mut FlowStats, messages: &mut ByOperation, frame: &Frame, pending: &Pending) {
    stats.payload_bytes += u64::from(frame.payload);
    stats.data_bytes += u64::from(frame.wire_len);
    stats.ecn_data[usize::from(frame.tos & 3)] += 1;
    stats.psn.expected = frame.psn.wrapping_add(1) & MASK24;
    messages[0].packets += 1;
    messages[0].payload_bytes += u64::from(frame.payload);
    messages[0].size_unknown += 1;
    // SAFETY: promised by the caller.
    unsafe {
        (*pending.exchange).request = PsnAt::new(frame.psn, pending.now);
        let timed = &mut *pending.timed;
        let head = timed.head;
        timed.messages[head as usize % RING] = 1;
        let entry = u64::from(frame.psn) << 40 | pending.now >> 4;
        seqlock::release(&raw mut timed.ring[head as usize % RING], entry);
        (&raw mut timed.head).write_volatile(head.wrapping_add(1));
    }
}

/// Counts the ACK to it.
///
/// # Safety
/// The entries come from maps.
#[inline(always)]
unsafe fn acknowledge(stats: &mut FlowStats, frame: &Frame, pending: &Pending) {
    stats.acks += 1;
    stats.ecn_control[usize::from(frame.tos & 3)] += 1;
    /// A time within 2.2 s.
    const TIME: u64 = (1 << 31) - 1;
    // SAFETY: promised by the caller.
    unsafe {
        (*pending.exchange).response = PsnAt::new(frame.psn, pending.now);
        let timed = &mut *pending.timed;
        let tail = timed.tail;
        let entry = exchange(&raw mut timed.ring[tail as usize % RING], 0);
        (&raw mut timed.tail).write_volatile(tail.wrapping_add(1));
        let ns = pending.now.wrapping_sub((entry << 4) & TIME) & TIME;
        let message = ns + u64::from(timed.messages[tail as usize % RING]);
        if let Some(count) = timed.counts[0].get_mut(core::hint::black_box(bucket(ns))) {
            *count += 1;
        }
        if ns > timed.max_ns[0] {
            timed.max_ns[0] = ns;
        }
        if let Some(count) = timed.completions[0].get_mut(core::hint::black_box(completion_bucket(message))) {
            *count += 1;
        }
        if message > timed.completion_max_ns[0] {
            timed.completion_max_ns[0] = message;
        }
    }
}

/// Parts of the insertion of a flow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Key, free slot and the kernel's own insertion into the hash.
    Hash,
    /// A record of the length of a new flow's event, all zero.
    Event,
    /// Both, the hint, and the lines of the slot, which no packet has written before.
    All,
}

/// Inserts a flow, or does a part of that.
#[inline(always)]
#[expect(
    clippy::needless_borrows_for_generic_args,
    reason = "by value each call would put another copy of the key on the stack"
)]
pub(crate) fn insert(ctx: &XdpContext, part: Part) {
    if part != Part::Event {
        let link = record::link(ctx.ingress_ifindex() as u32, false);
        let Some(work) = parsed(Head::new(ctx.data(), ctx.data_end())) else { return };
        // SAFETY: as in `parsed`.
        let frame = unsafe { &(*work).frame };
        let key = FlowKey::of(frame, link as u16);
        let Ok(Some(slot)) = FREE.pop() else { return };
        if FLOWS.insert(&key, slot, NOEXIST).is_err() {
            return;
        }
        if part == Part::All {
            fresh(slot, &key, frame, link);
        }
    }
    if part != Part::Hash {
        let Some(mut entry) = EVENTS.reserve_untyped::<[u64; EventRecord::BARE / 8]>(0) else { return };
        entry.write([0; EventRecord::BARE / 8]);
        entry.submit(0);
    }
}

/// Writes the hint and each line of a slot that no packet has written before.
#[inline(always)]
fn fresh(slot: u32, key: &FlowKey, frame: &Frame, link: u32) {
    let index = hint_of(frame.src[3], frame.dst[3], frame.dest_qp, link as u16) >> (HINT_SHIFT.load() & 31);
    let (Some(hint), Some(place)) = (hint_at(index), SLOTS.get_ptr_mut(slot)) else { return };
    let now = now(Time::Own);
    // SAFETY: the pointers come from maps. PSNs; bytes by ECN; the counter of the opcode. A first packet ends no bin.
    unsafe {
        hint.write_volatile(slot);
        (*place).key = *key;
        touch((&raw mut (*place).stats.last_ns).cast());
        touch((&raw mut (*place).stats.data_bytes).cast());
        touch((&raw mut (*place).stats.opcodes).cast());
        (&raw mut (*place).bin.start_ns).write_volatile(now);
    }
    if PRECISE_CLOCK.load() != 0 {
        exact(slot, place, now);
    }
}
