//! What counting cannot do without, alone: programs that `rocescope bench` sets beside the rows of counting.
//!
//! They parse nothing, check nothing and count nothing. They read the clock, find the slot by its hint, and write each
//! cache line that counting a WRITE or its ACK writes, with what it holds already: counts stay as they are. Frames are
//! those of the bench: untagged Ethernet, IPv4 without options, UDP.

use aya_ebpf::helpers::generated::{bpf_jiffies64, bpf_ktime_get_ns};
use rocescope_common::abi::maps::hint_of;
use rocescope_common::abi::{EventRecord, FlowSlot, Timing};
use rocescope_common::account::FlowKey;

use crate::latency::exchange;
use crate::maps::{
    BINS, CPU_STATE, EVENTS, EXCHANGES, FLOWS, FREE, HINT_SHIFT, HINTS, LATENCY, PRECISE_CLOCK, SLOTS,
};
use crate::packet::opaque;

/// Offsets in these frames.
const SRC: usize = 14 + 12;
const DST: usize = SRC + 4;
const DEST_QP: usize = 14 + 20 + 8 + 4;
const NOEXIST: u64 = 1;

/// Source, destination and queue pair of a frame.
#[inline(always)]
fn ends(start: usize, end: usize) -> Option<[u32; 3]> {
    let at = opaque(start);
    if at + DEST_QP + 4 > end {
        return None;
    }
    // SAFETY: all three lie before the end of the packet; the verifier checks it.
    let word = |offset: usize| unsafe { ((at + offset) as *const u32).read_unaligned() };
    Some([word(SRC), word(DST), u32::from_be(word(DEST_QP)) & 0x00FF_FFFF])
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

/// The clock, the hint, and the lines of the slot; with the exact clock those of the bin, and of a timed flow's
/// request or answer.
#[inline(always)]
pub(crate) fn lines(start: usize, end: usize, link: u32) {
    let Some([src, dst, dest_qp]) = ends(start, end) else { return };
    let precise = PRECISE_CLOCK.load() != 0;
    // SAFETY: the helpers take nothing and touch no memory of this program.
    let now = unsafe { if precise { bpf_ktime_get_ns() } else { bpf_jiffies64() } };
    let index = hint_of(src, dst, dest_qp, link as u16) >> (HINT_SHIFT.load() & 31);
    let Some(hint) = HINTS.get_ptr_mut(index) else { return };
    // SAFETY: the pointer comes from the map; any number is valid as a hint.
    let slot = unsafe { hint.read_volatile() };
    let Some(place) = SLOTS.get_ptr_mut(slot) else { return };
    // SAFETY: the pointer comes from the map.
    unsafe {
        // The seqlock, the key and the first counters; PSNs; bytes by ECN; the counter of the opcode.
        touch(place.cast());
        touch((&raw mut (*place).stats.last_ns).cast());
        touch((&raw mut (*place).stats.data_bytes).cast());
        touch((&raw mut (*place).stats.opcodes).cast());
    }
    if precise {
        exact(slot, place, now);
    }
}

/// What the exact clock adds.
#[inline(always)]
fn exact(slot: u32, place: *mut FlowSlot, now: u64) {
    let Some(work) = CPU_STATE.get_ptr_mut(0) else { return };
    // SAFETY: the pointers come from maps.
    let (started, pair) = unsafe {
        touch((&raw mut (*work).messages).cast());
        touch((&raw mut (*place).bin).cast());
        (
            (&raw const (*place).bin.start_ns).read_volatile(),
            (&raw const (*place).timing.pair).read_volatile(),
        )
    };
    // A bin that has ended is sent, as counting does: where flows take turns, with nearly each packet.
    if now.wrapping_sub(started) > 1_000_000
        && let Some(mut entry) = BINS.reserve(0)
    {
        // SAFETY: the pointer comes from the map.
        entry.write(rocescope_common::abi::BinRecord { bin: unsafe { (*place).bin }, slot, pad: 0 });
        entry.submit(u64::from(aya_ebpf::bindings::BPF_RB_NO_WAKEUP));
    }
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

/// A slot off the free list, the kernel's own insertion into the hash, and a record of the length of a new flow's
/// event, all zero.
#[inline(always)]
#[expect(
    clippy::needless_borrows_for_generic_args,
    reason = "by value each call would put another copy of the key on the stack"
)]
pub(crate) fn insert(start: usize, end: usize, link: u32) {
    let Some([src, dst, dest_qp]) = ends(start, end) else { return };
    let Some(work) = CPU_STATE.get_ptr_mut(0) else { return };
    // SAFETY: a per-CPU value, and programs on one CPU do not interrupt one another.
    let frame = unsafe { &mut (*work).frame };
    // As counting has it: a key that is built of constants has words that the verifier refuses on the stack.
    (frame.src, frame.dst, frame.dest_qp, frame.family) = ([0, 0, 0, src], [0, 0, 0, dst], dest_qp, 4);
    let key = FlowKey::of(frame, link as u16);
    let Ok(Some(slot)) = FREE.pop() else { return };
    if FLOWS.insert(&key, slot, NOEXIST).is_err() {
        return;
    }
    let Some(mut entry) = EVENTS.reserve_untyped::<[u64; EventRecord::BARE / 8]>(0) else { return };
    entry.write([0; EventRecord::BARE / 8]);
    entry.submit(0);
}
