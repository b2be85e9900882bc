//! Request-to-response latency: atomic access to the entries of `LATENCY`, and the packets that update
//! them. The algorithm is `rocescope_common::account::latency`, shared with replay.
//!
//! User space decides which flows are the two directions of a connection (see
//! [`rocescope_common::abi::Timing`]). Requests of flows without that pairing count as untimed.

use core::arch::asm;

use rocescope_common::abi::event::mark_age;
use rocescope_common::abi::{CpuState, FlowSlot, Timing};
use rocescope_common::account::latency::{
    BUCKETS, CLASS_NONE, CLASSES, COMPLETION_BUCKETS, COMPLETIONS, Latency, LatencyMemory, RING, Request,
    Response, acked_psn, begun, class_of, ended_message, is_timed, on_request, on_response, on_restart,
    on_single_ack,
};
use rocescope_common::account::psn::Span;
use rocescope_common::account::{Event, PackedOutcome};
use rocescope_common::wire::Frame;
use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::Op;

use crate::maps::{CPU_STATE, LATENCY, SLOTS};
use crate::packet::through;
use crate::{emit, seqlock};

/// ECN codepoint CE.
const CE: u8 = 3;
/// Flag for [`rocescope_time`]: the PSN is a duplicate (behind the expected one).
const DUPLICATE_PSN: u32 = 1;
/// Flag for [`rocescope_time`]: the PSN sequence restarted.
const RESTART: u32 = 2;
/// Flag for [`rocescope_time`]: PSNs are missing before the packet.
const GAP: u32 = 4;

/// An entry of the map. Packets of two flows write to it, each under the seqlock of its own slot only, so
/// words that both change are exchanged atomically.
///
/// Indices pass through this CPU's `offset`: the verifier would otherwise follow the code behind once for every way in
/// which a bucket is found.
#[derive(Clone, Copy)]
struct Entry(*mut Latency, *mut CpuState);

impl Entry {
    #[inline(always)]
    fn at(number: u32, work: *mut CpuState) -> Option<Self> {
        Some(Self(LATENCY.get_ptr_mut(number.wrapping_sub(1))?, work))
    }

    /// An index of which the verifier knows nothing.
    #[inline(always)]
    fn forgotten(&self, index: usize) -> usize {
        // SAFETY: the pointer comes from the map.
        through(unsafe { &raw mut (*self.1).offset }, index as u64) as usize
    }

    /// Increments a counter that only packets of one flow write.
    ///
    /// # Safety
    /// `word` lies in the entry.
    #[inline(always)]
    unsafe fn count(word: *mut u64) {
        // SAFETY: promised by the caller.
        unsafe { word.write_volatile(word.read_volatile() + 1) };
    }

    /// Notes the beginning of the flow's open message at one of its packets, and returns it.
    #[inline(always)]
    fn begin(self, op: Op, duplicate_psn: bool, broken: bool, now: u64) -> u64 {
        // SAFETY: the pointer comes from the map; only packets of this flow write the time.
        unsafe {
            let begin = &raw mut (*self.0).begun_ns;
            let before = begin.read_volatile();
            let begun_ns = begun(op, duplicate_psn, broken, before, now);
            if begun_ns != before {
                begin.write_volatile(begun_ns);
            }
            begun_ns
        }
    }

    /// Adds a time to a histogram, of which `count` is its bucket and `max` the maximum.
    ///
    /// # Safety
    /// Both lie in the entry.
    #[inline(always)]
    unsafe fn sample(count: *mut u32, max: *mut u64, ns: u64) {
        // SAFETY: promised by the caller.
        unsafe {
            count.write_volatile(count.read_volatile().saturating_add(1));
            if ns > max.read_volatile() {
                max.write_volatile(ns);
            }
        }
    }
}

impl LatencyMemory for Entry {
    #[inline(always)]
    fn head(&self) -> u32 {
        // Loaded together with the tail, before the ring cells below the head.
        // SAFETY: the pointer comes from the map, and two numbers of four bytes come first.
        let both = seqlock::acquire(unsafe { (&raw mut (*self.0).head).cast() });
        if cfg!(target_endian = "little") { both as u32 } else { (both >> 32) as u32 }
    }

    #[inline(always)]
    fn set_head(&mut self, head: u32) {
        // Stored after the cell, see `store`.
        // SAFETY: the pointer comes from the map.
        unsafe { (&raw mut (*self.0).head).write_volatile(head) };
    }

    #[inline(always)]
    fn tail(&self) -> u32 {
        // SAFETY: the pointer comes from the map.
        unsafe { (&raw const (*self.0).tail).read_volatile() }
    }

    #[inline(always)]
    fn set_tail(&mut self, tail: u32) {
        // SAFETY: the pointer comes from the map.
        unsafe { (&raw mut (*self.0).tail).write_volatile(tail) };
    }

    #[inline(always)]
    fn cell(&self, index: usize) -> u64 {
        // SAFETY: the index is masked, and the pointer comes from the map.
        unsafe { (&raw const (*self.0).ring).cast::<u64>().add(index & (RING - 1)).read_volatile() }
    }

    #[inline(always)]
    fn store(&mut self, index: usize, value: u64, message: u32) {
        // The response side only reads cells below the head, so this cell is not shared yet.
        // SAFETY: as above.
        unsafe {
            (&raw mut (*self.0).messages).cast::<u32>().add(index & (RING - 1)).write_volatile(message);
            seqlock::release((&raw mut (*self.0).ring).cast::<u64>().add(index & (RING - 1)), value);
        }
    }

    #[inline(always)]
    fn swap(&mut self, index: usize, value: u64) -> u64 {
        // SAFETY: as above.
        exchange(unsafe { (&raw mut (*self.0).ring).cast::<u64>().add(index & (RING - 1)) }, value)
    }

    #[inline(always)]
    fn message(&self, index: usize) -> u32 {
        // SAFETY: as above.
        unsafe { (&raw const (*self.0).messages).cast::<u32>().add(index & (RING - 1)).read_volatile() }
    }

    #[inline(always)]
    fn reading(&self) -> u64 {
        // SAFETY: the pointer comes from the map.
        unsafe { (&raw const (*self.0).reading).read_volatile() }
    }

    #[inline(always)]
    fn set_reading(&mut self, reading: u64) {
        // SAFETY: as above.
        unsafe { (&raw mut (*self.0).reading).write_volatile(reading) };
    }

    #[inline(always)]
    fn count_ambiguous(&mut self) {
        // SAFETY: the pointer comes from the map.
        unsafe { Self::count(&raw mut (*self.0).ambiguous) };
    }

    #[inline(always)]
    fn count_ambiguous_response(&mut self) {
        // SAFETY: as above.
        unsafe { Self::count(&raw mut (*self.0).ambiguous_responses) };
    }

    #[inline(always)]
    fn count_ring_full(&mut self) {
        // SAFETY: as above.
        unsafe { Self::count(&raw mut (*self.0).ring_full) };
    }

    #[inline(always)]
    fn add_sample(&mut self, class: usize, bucket: usize, ns: u64) {
        let at = self.forgotten(class * BUCKETS + bucket);
        if class >= CLASSES || at >= CLASSES * BUCKETS {
            return;
        }
        // SAFETY: both indices were just compared, and the pointer comes from the map.
        unsafe {
            let count = (&raw mut (*self.0).counts).cast::<u32>().add(at);
            Self::sample(count, (&raw mut (*self.0).max_ns).cast::<u64>().add(masked(class)), ns);
        }
    }

    #[inline(always)]
    fn add_completion(&mut self, operation: usize, bucket: usize, ns: u64) {
        let at = self.forgotten(operation * COMPLETION_BUCKETS + bucket);
        if operation >= COMPLETIONS || at >= COMPLETIONS * COMPLETION_BUCKETS {
            return;
        }
        // SAFETY: as above.
        unsafe {
            let count = (&raw mut (*self.0).completions).cast::<u32>().add(at);
            Self::sample(
                count,
                (&raw mut (*self.0).completion_max_ns).cast::<u64>().add(masked(operation)),
                ns,
            );
        }
    }
}

/// An index below 4, which the verifier can see: it forgets a comparison made on a copy in another register.
#[inline(always)]
fn masked(index: usize) -> usize {
    core::hint::black_box(index) & 3
}

/// Exchanges a word of map memory atomically and fully ordered; returns the old value.
#[inline(always)]
pub(crate) fn exchange(word: *mut u64, value: u64) -> u64 {
    let mut value = value;
    // SAFETY: callers pass an aligned word of map memory.
    unsafe { asm!("{0} = xchg_64({1} + 0, {0})", inout(reg) value, in(reg) word, options(nostack)) };
    value
}

/// Updates latency state for the packet in `work`, which was just counted, under its flow's seqlock.
/// `before_ns`: time of the flow's previous packet.
/// Writes the mark age of a CNP into the packet's outcome.
///
/// Most packets (the middle of messages) return here, and the rest takes a function call. Fields are read
/// again from map memory and combined without branches, as numbers: all paths through the accounting meet here, and the
/// verifier must be able to merge them into one state.
///
/// # Safety
/// `work` points to this CPU's state, and `place` to the packet's slot.
#[inline(always)]
pub(crate) unsafe fn packet(slot: u32, place: *mut FlowSlot, work: *mut CpuState, before_ns: u64, now: u64) {
    const UNUSUAL: u32 = PackedOutcome::DUPLICATE_PSN | (Event::RESTART | Event::GAP) as u32;
    // SAFETY: promised by the caller.
    let (untimed, opcode, ack_req, tos, bits) = unsafe {
        (
            (&raw const (*place).timing.untimed).read_volatile(),
            (&raw const (*work).frame.opcode).read_volatile(),
            (&raw const (*work).frame.ack_req).cast::<u8>().read_volatile(),
            (&raw const (*work).frame.tos).read_volatile(),
            (&raw const (*work).outcome.bits).read_volatile(),
        )
    };
    let op = Op::of(opcode);
    // 1 if both bits of the ECN field are set.
    let marked = tos & (tos >> 1) & 1;
    let unusual = (untimed & Timing::RETX_RUN) | (bits & UNUSUAL) | u32::from(marked);
    // A request that needs a response is reliable.
    let wanted = op.bits(Op::RESPONSE | Op::ACKNOWLEDGE | Op::CNP | Op::NEEDS_RESPONSE)
        | (op.bits(Op::RELIABLE) * u32::from(ack_req));
    // SAFETY: promised by the caller.
    let own = || Entry::at(Timing::own(unsafe { (&raw const (*place).timing.pair).read_volatile() }), work);
    if wanted | unusual == 0 {
        if op.has(Op::STARTS)
            && let Some(own) = own()
        {
            own.begin(op, false, false, now);
        }
        return;
    }
    // Fast paths for the last packet of a message and its acknowledgement, the most frequent timed packets: where the
    // kernel mitigates SRSO, the return of a function call alone costs some 10 ns.
    if unusual == 0 && op.has(Op::ACKNOWLEDGE) {
        // SAFETY: promised by the caller.
        let (pair, psn, aeth) = unsafe {
            (
                (&raw const (*place).timing.pair).read_volatile(),
                (&raw const (*work).frame.psn).read_volatile(),
                (&raw const (*work).frame.aeth).read_volatile(),
            )
        };
        let Some(mut other) = Entry::at(Timing::other(pair), work) else { return };
        let acked = acked_psn(op, psn, aeth);
        if acked == UNKNOWN || on_single_ack(&mut other, acked, now) {
            return;
        }
    }
    if unusual == 0
        && is_timed(op, ack_req != 0)
        && let Some(mut own) = own()
    {
        // SAFETY: promised by the caller.
        let psn = unsafe { (&raw const (*work).frame.psn).read_volatile() };
        let message = ended_message(opcode, op, own.begin(op, false, false, now), now);
        let class = class_of(op, ack_req != 0);
        on_request(&mut own, Request { psn, class, message, duplicate_psn: false }, now);
        return;
    }
    let flag = |bit: u32, flag: u32| if bits & bit == 0 { 0 } else { flag };
    let flags = flag(PackedOutcome::DUPLICATE_PSN, DUPLICATE_PSN)
        | flag(u32::from(Event::RESTART), RESTART)
        | flag(u32::from(Event::GAP), GAP);
    let age = rocescope_time(slot, now, flags, before_ns) as u32;
    if age != mark_age::UNKNOWN {
        // SAFETY: promised by the caller.
        unsafe { (&raw mut (*work).outcome.missing).write_volatile(age) };
    }
}

/// Applies the frame in `CPU_STATE` to the latency entries of its flow, whose seqlock the caller holds.
/// Returns the mark age of a CNP.
///
/// A global function, which the verifier checks once by itself: thousands of paths lead here.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn rocescope_time(slot: u32, now: u64, flags: u32, before_ns: u64) -> u64 {
    let (Some(work), Some(place)) = (CPU_STATE.get_ptr_mut(0), SLOTS.get_ptr_mut(slot)) else { return 0 };
    // SAFETY: both pointers come from maps; the frame is this program's own.
    let (frame, timing) = unsafe { (&(*work).frame, &raw mut (*place).timing) };
    let op = Op::of(frame.opcode);
    let class = class_of(op, frame.ack_req);
    // SAFETY: as above. Only packets of this flow write the count.
    let pair = unsafe {
        let pair = (&raw const (*timing).pair).read_volatile();
        if class != CLASS_NONE && Timing::own(pair) == 0 {
            let untimed = &raw mut (*timing).untimed;
            let before = untimed.read_volatile();
            let next = before.wrapping_add(1) & !Timing::RETX_RUN;
            untimed.write_volatile(next | before & Timing::RETX_RUN);
        }
        pair
    };
    if pair == 0 {
        return 0;
    }
    // Looked up lazily: most packets need only one of the two.
    let own = || Entry::at(Timing::own(pair), work);
    let other = || Entry::at(Timing::other(pair), work);
    if op.has(Op::CNP) {
        return u64::from(take_mark_age(own(), other(), now));
    }
    if frame.roce_version != 1 && frame.tos & CE == CE && !op.has(Op::ACKNOWLEDGE) {
        note_mark(own(), other(), now);
    }
    if op.has(Op::RELIABLE) {
        let Some(mut own) = own() else { return 0 };
        let place = Place { slot: place, frame, now };
        if flags & DUPLICATE_PSN != 0 {
            duplicate(own, &place, op, before_ns);
        } else {
            end_run(own, &place, 0);
        }
        if flags & RESTART != 0 {
            on_restart(&mut own);
        }
        let duplicate_psn = flags & DUPLICATE_PSN != 0;
        let begun_ns = own.begin(op, duplicate_psn, flags & (RESTART | GAP) != 0, now);
        if class != CLASS_NONE {
            let message = ended_message(frame.opcode, op, begun_ns, now);
            on_request(&mut own, Request { psn: frame.psn, class, message, duplicate_psn }, now);
        }
    } else if op.any(Op::RESPONSE | Op::ACKNOWLEDGE)
        && let Some(mut other) = other()
    {
        let acked = acked_psn(op, frame.psn, frame.aeth);
        if acked != UNKNOWN {
            on_response(&mut other, Response::of(frame.opcode, op, acked), now);
        }
    }
    0
}

/// A packet and its slot.
struct Place<'a> {
    slot: *mut FlowSlot,
    frame: &'a Frame,
    now: u64,
}

/// Adds a duplicate-PSN packet to the current run, or starts a new run.
#[inline(always)]
fn duplicate(entry: Entry, place: &Place<'_>, op: Op, before_ns: u64) {
    let psn = place.frame.psn;
    // SAFETY: the pointer comes from the map; only packets of this flow write the run.
    let run = unsafe { &raw mut (*entry.0).retx_run };
    // SAFETY: as above.
    unsafe {
        if (*run).continues_with(op, psn, place.now) {
            (*run).packets += 1;
            (*run).end_ns = place.now;
            return;
        }
    }
    end_run(entry, place, DUPLICATE_PSN);
    let pause = place.now.saturating_sub(before_ns);
    // SAFETY: as above; the slot is this packet's.
    unsafe {
        (*run).start_ns = place.now;
        (*run).end_ns = place.now;
        (*run).pause_ns = if pause > u64::from(u32::MAX) { u32::MAX } else { pause as u32 };
        (*run).first = psn | u32::from(place.frame.opcode) << 24;
        (*run).packets = 1;
        if op.has(Op::READ_REQUEST) {
            let span = Span::of_read(place.frame.dma_len, (*place.slot).stats.mtu);
            (*run).packets = if span.loose { 1 } else { span.upper };
        }
        (*run).expected = (*place.slot).stats.psn.expected;
        let untimed = &raw mut (*place.slot).timing.untimed;
        untimed.write_volatile(untimed.read_volatile() | Timing::RETX_RUN);
    }
}

/// Sends the current run of duplicate-PSN packets, if any, and clears it. `duplicate`: 1 if the PSN of the
/// packet that ends it is a duplicate too.
#[inline(always)]
fn end_run(entry: Entry, place: &Place<'_>, duplicate: u32) {
    // SAFETY: the pointer comes from the map; only packets of this flow write the run.
    let run = unsafe { &raw mut (*entry.0).retx_run };
    // SAFETY: as above; this packet's slot, whose seqlock the caller holds.
    unsafe {
        if (*run).packets == 0 {
            return;
        }
        emit::retx_run(place.frame, &raw const (*place.slot).key, run, duplicate, place.now);
        (*run).packets = 0;
        let untimed = &raw mut (*place.slot).timing.untimed;
        untimed.write_volatile(untimed.read_volatile() & !Timing::RETX_RUN);
    }
}

/// Records the first CE mark on the flow's data: in the flow's own entry, or else in that of the reverse
/// direction. A CNP for the flow reads it there.
#[inline(always)]
fn note_mark(own: Option<Entry>, other: Option<Entry>, now: u64) {
    let word = match (own, other) {
        // SAFETY: the pointers come from the map.
        (Some(own), _) => unsafe { (&raw mut (*own.0).marked_ns).cast::<u64>() },
        // SAFETY: as above; there are two words.
        (None, Some(other)) => unsafe { (&raw mut (*other.0).marked_ns).cast::<u64>().add(1) },
        (None, None) => return,
    };
    // SAFETY: as above. Packets of one flow set the word, and a CNP clears it.
    unsafe {
        if word.read_volatile() == 0 {
            word.write_volatile(now);
        }
    }
}

/// Time since the first CE mark on the reverse direction; clears the mark.
#[inline(always)]
fn take_mark_age(own: Option<Entry>, other: Option<Entry>, now: u64) -> u32 {
    let word = match (other, own) {
        // SAFETY: the pointers come from the map.
        (Some(other), _) => unsafe { (&raw mut (*other.0).marked_ns).cast::<u64>() },
        // SAFETY: as above; there are two words.
        (None, Some(own)) => unsafe { (&raw mut (*own.0).marked_ns).cast::<u64>().add(1) },
        (None, None) => return mark_age::UNKNOWN,
    };
    let marked = exchange(word, 0);
    if marked == 0 {
        return mark_age::NONE;
    }
    // Clocks of different CPUs may differ slightly.
    if now < marked { mark_age::UNKNOWN } else { mark_age::encode(now - marked) }
}
