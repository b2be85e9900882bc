//! The time from a request to its answer, from packets that pass by.
//!
//! A request that asks for an acknowledgement (or is a READ, an atomic or a FLUSH, which are always
//! answered) is noted in a ring of outstanding requests; the first packet of the other direction
//! that answers it takes it out, and the time between becomes a sample in a histogram. An
//! acknowledgement answers everything up to its PSN.
//!
//! Each flow of requests has a [`Latency`]. Its two sides are written by different packets, which
//! may be on different CPUs: the ring's head, [`LatencyMemory::ambiguous`] and [`LatencyMemory::ring_full`] belong
//! to packets of that flow, its tail and the histogram to packets of the flow paired with it.
//! Entries themselves are exchanged, so that each is taken once. [`LatencyMemory`] is the access to that
//! memory: plain in replay, atomic in the kernel.

use super::bits::bit_length;
use super::psn::WINDOW;
use crate::wire::bth::MASK24;
use crate::wire::frame::UNKNOWN;
use crate::wire::opcode::Op;

/// Requests that can be outstanding at once; a power of two.
pub const RING: usize = 64;
/// Classes of requests: see [`class_of`].
pub const CLASSES: usize = 3;
/// The names of the classes in reports.
pub const CLASS_NAMES: [&str; CLASSES] = ["write_send", "read", "atomic"];

/// No request whose answer is timed.
pub const CLASS_NONE: u32 = 0;
/// SEND, WRITE, FLUSH, ATOMIC WRITE.
pub const CLASS_WRITE_SEND: u32 = 1;
/// RDMA READ.
pub const CLASS_READ: u32 = 2;
/// COMPARE SWAP, FETCH ADD.
pub const CLASS_ATOMIC: u32 = 3;

/// Sub-buckets of each octave as a power of two: 8, so that a bucket is at most 1/8 of its lower
/// end wide and its middle within 1/16 of every value in it.
const SUB_BITS: u32 = 3;
/// Below 2 to this (1,024 ns) all is one bucket.
const FIRST_OCTAVE: u32 = 10;
/// From 2 to this (17.2 s) all is one bucket.
const END_OCTAVE: u32 = 34;
/// Buckets of a histogram.
pub const BUCKETS: usize = 2 + (((END_OCTAVE - FIRST_OCTAVE) as usize) << SUB_BITS);

/// Times in the ring are counted in units of 16 ns, modulo 2^38 units (73 minutes).
const UNIT_BITS: u32 = 4;
const TIME_BITS: u32 = 38;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
const CLASS_SHIFT: u32 = TIME_BITS;
const PSN_SHIFT: u32 = TIME_BITS + 2;

/// Access to a [`Latency`].
///
/// In the kernel every method must be a single access to memory that the compiler neither drops
/// nor moves, `swap` an atomic exchange that orders what is around it, and indices must be masked
/// once more for the verifier.
pub trait LatencyMemory {
    /// Requests noted so far, modulo 2^32.
    fn head(&self) -> u32;
    /// Stores [`Self::head`]. Only called for packets of the flow of requests.
    fn set_head(&mut self, head: u32);
    /// Places of the ring that are done with, modulo 2^32.
    fn tail(&self) -> u32;
    /// Stores [`Self::tail`]. Only called for packets of the flow of answers.
    fn set_tail(&mut self, tail: u32);
    /// Place `index` (below [`RING`]) of the ring; 0 is empty.
    fn cell(&self, index: usize) -> u64;
    /// Stores `value` there before [`Self::set_head`] leads anybody to it. The place is empty and nobody
    /// else's until then.
    fn store(&mut self, index: usize, value: u64);
    /// Stores `value` there and gives what was there.
    fn swap(&mut self, index: usize, value: u64) -> u64;
    /// Counts a request whose answer cannot be timed: it was repeated, the sequence began anew, or
    /// a response went missing.
    fn count_ambiguous(&mut self);
    /// The same, found out by an answer.
    fn count_ambiguous_response(&mut self);
    /// Counts a request that found the ring full.
    fn count_ring_full(&mut self);
    /// Counts a sample: `class` below [`CLASSES`], `bucket` below [`BUCKETS`], its time.
    fn add_sample(&mut self, class: usize, bucket: usize, ns: u64);
}

/// Outstanding requests and histograms of one flow of requests. What every packet touches comes
/// first, in one line of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Latency {
    /// See [`LatencyMemory::head`].
    pub head: u32,
    /// See [`LatencyMemory::tail`].
    pub tail: u32,
    /// Requests that were repeated before they were on_response, or left behind by a restart.
    pub ambiguous: u64,
    /// Requests whose own response went missing.
    pub ambiguous_responses: u64,
    /// Requests that found [`RING`] others outstanding.
    pub ring_full: u64,
    /// Longest time of each class, nanoseconds.
    pub max_ns: [u64; CLASSES],
    /// Outstanding requests: PSN (24 bits), class (2), time (38); 0 is empty.
    pub ring: [u64; RING],
    /// Samples by class and bucket (see [`bucket`]); each stops at its largest value.
    pub counts: [[u32; BUCKETS]; CLASSES],
    /// First CE mark since the latest CNP, on data of the flow of requests and of the flow of answers; 0
    /// for none. The kernel programs' alone; a replay keeps it with other figures.
    pub marked_ns: [u64; 2],
    /// Packets that come again, one after the other. The kernel programs' alone as well.
    pub retx_run: RetxRun,
}

/// Packets behind the expected PSN whose PSNs follow one another: what is told of them is told once, when
/// something else follows. Zero packets: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RetxRun {
    /// Time of the first, in the run's clock.
    pub start_ns: u64,
    /// Time of the latest.
    pub end_ns: u64,
    /// Nanoseconds between the packet of the flow before and the first, at most 4.3 s.
    pub pause_ns: u32,
    /// PSN of the first in the lower 24 bits, its opcode above.
    pub first: u32,
    /// How many; a READ request is a run of its own, and this is how many PSNs it takes.
    pub packets: u32,
    /// The PSN that was expected instead.
    pub expected: u32,
}

impl RetxRun {
    /// No packets.
    pub const EMPTY: Self = Self { start_ns: 0, end_ns: 0, pause_ns: 0, first: 0, packets: 0, expected: 0 };

    /// PSN of the first.
    #[inline(always)]
    #[must_use]
    pub const fn first_psn(&self) -> u32 {
        self.first & MASK24
    }

    /// The kind of its packets, as far as it matters.
    #[inline(always)]
    #[must_use]
    pub fn op(&self) -> Op {
        Op::of((self.first >> 24) as u8)
    }

    /// A longer time between two packets ends a run, in nanoseconds: when each of them came is told by
    /// the ends of the run alone.
    pub const PAUSE_NS: u64 = 500_000;

    /// Whether a packet of this kind and PSN goes on with the run.
    #[inline(always)]
    #[must_use]
    pub fn continues_with(&self, op: Op, psn: u32, now: u64) -> bool {
        self.packets != 0
            && now.wrapping_sub(self.end_ns) < Self::PAUSE_NS
            && psn == self.first.wrapping_add(self.packets) & MASK24
            && !op.has(Op::READ_REQUEST)
            && !self.op().has(Op::READ_REQUEST)
    }
}

impl Latency {
    /// Nothing seen yet: all zero, so that fresh map memory is a valid value.
    pub const EMPTY: Self = Self {
        head: 0,
        tail: 0,
        ambiguous: 0,
        ambiguous_responses: 0,
        ring_full: 0,
        max_ns: [0; CLASSES],
        ring: [0; RING],
        counts: [[0; BUCKETS]; CLASSES],
        marked_ns: [0; 2],
        retx_run: RetxRun::EMPTY,
    };

    /// Requests that are not answered yet.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.ring.iter().filter(|entry| **entry != 0).count() as u64
    }
}

/// Memory of the caller's alone.
impl LatencyMemory for Latency {
    #[inline(always)]
    fn head(&self) -> u32 {
        self.head
    }

    #[inline(always)]
    fn set_head(&mut self, head: u32) {
        self.head = head;
    }

    #[inline(always)]
    fn tail(&self) -> u32 {
        self.tail
    }

    #[inline(always)]
    fn set_tail(&mut self, tail: u32) {
        self.tail = tail;
    }

    #[inline(always)]
    fn cell(&self, index: usize) -> u64 {
        self.ring[index % RING]
    }

    #[inline(always)]
    fn store(&mut self, index: usize, value: u64) {
        self.ring[index % RING] = value;
    }

    #[inline(always)]
    fn swap(&mut self, index: usize, value: u64) -> u64 {
        core::mem::replace(&mut self.ring[index % RING], value)
    }

    #[inline(always)]
    fn count_ambiguous(&mut self) {
        self.ambiguous += 1;
    }

    #[inline(always)]
    fn count_ambiguous_response(&mut self) {
        self.ambiguous_responses += 1;
    }

    #[inline(always)]
    fn count_ring_full(&mut self) {
        self.ring_full += 1;
    }

    #[inline(always)]
    fn add_sample(&mut self, class: usize, bucket: usize, ns: u64) {
        let (class, bucket) = (class % CLASSES, bucket % BUCKETS);
        let count = &mut self.counts[class][bucket];
        *count = count.saturating_add(1);
        if ns > self.max_ns[class] {
            self.max_ns[class] = ns;
        }
    }
}

/// 2.9 KB: user space and the kernel programs must agree on it.
const _: () = assert!(size_of::<Latency>() == 2944);

/// Whether a packet is a request with an answer to come.
#[inline(always)]
#[must_use]
pub fn is_timed(op: Op, ack_req: bool) -> bool {
    op.has(Op::RELIABLE) & (ack_req | op.has(Op::NEEDS_RESPONSE))
}

/// The class of a request whose answer is timed, or [`CLASS_NONE`].
#[inline(always)]
#[must_use]
pub fn class_of(op: Op, ack_req: bool) -> u32 {
    if is_timed(op, ack_req) {
        if op.has(Op::READ_REQUEST) {
            CLASS_READ
        } else if op.has(Op::ATOMIC) {
            CLASS_ATOMIC
        } else {
            CLASS_WRITE_SEND
        }
    } else {
        CLASS_NONE
    }
}

/// The last PSN that a packet with this opcode, PSN and AETH (or [`UNKNOWN`]) answers, or [`UNKNOWN`] when it answers
/// none. A NAK answers what comes before the PSN that it names.
#[inline(always)]
#[must_use]
pub fn acked_psn(op: Op, psn: u32, aeth: u32) -> u32 {
    const KIND: u32 = 0x6000_0000;
    if !op.any(Op::RESPONSE | Op::ACKNOWLEDGE) {
        return UNKNOWN;
    }
    if !op.has(Op::AETH) {
        return psn;
    }
    if aeth == UNKNOWN {
        return UNKNOWN;
    }
    if aeth & KIND == 0 { psn } else { psn.wrapping_sub(1) & MASK24 }
}

/// Notes a request of class `class` (not [`CLASS_NONE`]) at `now`, in nanoseconds. `repeat`: its
/// PSN was behind the expected one. Then the answer could be to either of the two, and neither is
/// timed.
#[inline(always)]
pub fn on_request(memory: &mut impl LatencyMemory, psn: u32, class: u32, duplicate_psn: bool, now: u64) {
    if duplicate_psn {
        return on_duplicate_request(memory, psn);
    }
    let head = memory.head();
    // Full: the newest is left out. To drop the oldest would, under a constant load, drop every
    // request just before its answer.
    if head.wrapping_sub(memory.tail()) >= RING as u32 {
        return memory.count_ring_full();
    }
    let entry = (u64::from(psn & MASK24) << PSN_SHIFT)
        | (u64::from(class & 3) << CLASS_SHIFT)
        | ((now >> UNIT_BITS) & TIME_MASK);
    memory.store(head as usize % RING, entry);
    memory.set_head(head.wrapping_add(1));
}

#[inline(always)]
fn on_duplicate_request(memory: &mut impl LatencyMemory, psn: u32) {
    for index in 0..RING {
        let entry = memory.cell(index);
        if entry != 0 && (entry >> PSN_SHIFT) as u32 == psn {
            if memory.swap(index, 0) != 0 {
                memory.count_ambiguous();
            }
            return;
        }
    }
}

/// The sequence began anew: nothing that is outstanding will be answered.
#[inline(always)]
pub fn on_restart(memory: &mut impl LatencyMemory) {
    for index in 0..RING {
        if memory.cell(index) != 0 && memory.swap(index, 0) != 0 {
            memory.count_ambiguous();
        }
    }
}

/// Takes the requests that an answer up to PSN `up_to` (from [`acked_psn`]) is for, at `now`.
/// `plain`: it is an ACKNOWLEDGE. That cannot be the answer of a READ or an atomic: their own
/// went missing.
#[inline(always)]
pub fn on_response(memory: &mut impl LatencyMemory, up_to: u32, plain: bool, now: u64) {
    let head = memory.head();
    let mut tail = memory.tail();
    if tail == head {
        return;
    }
    for _ in 0..RING {
        if tail == head {
            break;
        }
        let index = tail as usize % RING;
        let entry = memory.cell(index);
        if entry != 0 {
            if up_to.wrapping_sub((entry >> PSN_SHIFT) as u32) & MASK24 >= WINDOW {
                break;
            }
            let entry = memory.swap(index, 0);
            if entry != 0 {
                count_response(memory, entry, plain, now);
            }
        }
        tail = tail.wrapping_add(1);
    }
    memory.set_tail(tail);
}

#[inline(always)]
fn count_response(memory: &mut impl LatencyMemory, entry: u64, plain: bool, now: u64) {
    let class = (entry >> CLASS_SHIFT) as u32 & 3;
    let units = (now >> UNIT_BITS).wrapping_sub(entry & TIME_MASK) & TIME_MASK;
    // More than half of what can be told apart: the clock went back.
    if (plain && class != CLASS_WRITE_SEND) || class == CLASS_NONE || units > TIME_MASK / 2 {
        return memory.count_ambiguous_response();
    }
    let ns = units << UNIT_BITS;
    memory.add_sample(class as usize - 1, bucket(ns), ns);
}

/// The bucket of a time in nanoseconds.
#[inline(always)]
#[must_use]
pub fn bucket(ns: u64) -> usize {
    if ns < 1 << FIRST_OCTAVE {
        return 0;
    }
    if ns >= 1 << END_OCTAVE {
        return BUCKETS - 1;
    }
    // Below 2^24 after the shift: 32 bits are enough, and cheaper where there is no instruction.
    let octave = FIRST_OCTAVE - 1 + bit_length((ns >> FIRST_OCTAVE) as u32);
    let sub = (ns >> (octave - SUB_BITS)) as usize & ((1 << SUB_BITS) - 1);
    1 + ((((octave - FIRST_OCTAVE) as usize) << SUB_BITS) | sub)
}

/// The least time of a bucket, and the first that is too long for it.
#[must_use]
pub const fn bounds(bucket: usize) -> (u64, u64) {
    if bucket == 0 {
        return (0, 1 << FIRST_OCTAVE);
    }
    if bucket >= BUCKETS - 1 {
        return (1 << END_OCTAVE, u64::MAX);
    }
    let place = bucket - 1;
    let octave = FIRST_OCTAVE + (place >> SUB_BITS) as u32;
    let step = 1u64 << (octave - SUB_BITS);
    let low = (1u64 << octave) + step * (place as u64 & ((1 << SUB_BITS) - 1));
    (low, low + step)
}

#[cfg(test)]
#[path = "latency_tests.rs"]
mod tests;
