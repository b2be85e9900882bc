//! Request-to-response latency and message completion time at the point of observation.
//!
//! A request that expects a response (AckReq set, or a READ, atomic or FLUSH) enters a ring of outstanding
//! requests. The first packet of the reverse direction that acknowledges it removes it, and the time
//! between them is added to a histogram. An acknowledgement covers all requests up to its PSN.
//!
//! A message completes with the response to its last packet, or with the last packet of a READ's response.
//! Its completion time counts from its first packet, whatever was retransmitted in between.
//!
//! Each flow of requests has a [`Latency`], which packets of two flows write, possibly on different CPUs.
//! Packets of the flow itself own the ring's head, [`LatencyMemory::count_ambiguous`] and
//! [`LatencyMemory::count_ring_full`]; packets of the reverse direction own its tail and the histogram.
//! Ring entries are exchanged, so that each is removed once. [`LatencyMemory`] abstracts that access: plain
//! in replay, atomic in the kernel.

pub use super::histogram::{BUCKETS, COMPLETION_BUCKETS, bounds, bucket, completion_bucket, typical_bucket};
use super::psn::WINDOW;
use crate::wire::bth::MASK24;
use crate::wire::frame::UNKNOWN;
use crate::wire::opcode::{Op, Operation};

/// Maximum number of outstanding requests; a power of two.
pub const RING: usize = 64;
/// Classes of requests: see [`class_of`].
pub const CLASSES: usize = 3;
/// Not a timed request.
pub const CLASS_NONE: u32 = 0;
/// SEND, WRITE, FLUSH, ATOMIC WRITE.
pub const CLASS_WRITE_SEND: u32 = 1;
/// RDMA READ.
pub const CLASS_READ: u32 = 2;
/// COMPARE SWAP, FETCH ADD.
pub const CLASS_ATOMIC: u32 = 3;
/// Operations whose message completion is timed: WRITE, SEND and READ, by [`Operation`]. An atomic is one
/// packet: its completion time is its latency.
pub const COMPLETIONS: usize = Operation::Atomic as usize;

/// Times in the ring are in units of 16 ns, modulo 2^37 units (36 minutes).
const UNIT_BITS: u32 = 4;
const TIME_BITS: u32 = 37;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
/// Bit of a ring entry: the request was retransmitted. It has no latency, but its message still completes.
const REPEATED: u64 = 1 << TIME_BITS;
const CLASS_SHIFT: u32 = TIME_BITS + 1;
const PSN_SHIFT: u32 = CLASS_SHIFT + 2;

/// [`Latency::messages`] holds times in the same unit, from 8.6 s on in units of 16.4 us, at most 2.4 hours.
const SENDING_BITS: u32 = 29;
const SENDING_MASK: u32 = (1 << SENDING_BITS) - 1;
/// Bit of a message: its time is in the coarse unit.
const COARSE: u32 = 1 << SENDING_BITS;
const COARSE_BITS: u32 = 10;
const KIND_SHIFT: u32 = SENDING_BITS + 1;
/// Bit of [`Latency::reading`]: a READ is in progress.
const READING: u64 = 1 << 63;

/// Memory access to a [`Latency`].
///
/// In the kernel every method is a single memory access that the compiler neither removes nor reorders,
/// `swap` is a fully ordered atomic exchange, and indices are masked again for the verifier.
pub trait LatencyMemory {
    /// Requests added to the ring so far, modulo 2^32.
    fn head(&self) -> u32;
    /// Stores [`Self::head`]. Only for packets of the request flow.
    fn set_head(&mut self, head: u32);
    /// Ring positions processed so far, modulo 2^32.
    fn tail(&self) -> u32;
    /// Stores [`Self::tail`]. Only for packets of the response flow.
    fn set_tail(&mut self, tail: u32);
    /// Ring entry `index` (below [`RING`]); 0 is empty.
    fn cell(&self, index: usize) -> u64;
    /// Stores `value` and its message in an entry that is empty and not shared until [`Self::set_head`]
    /// publishes it.
    fn store(&mut self, index: usize, value: u64, message: u32);
    /// Stores `value` in an entry and returns the previous one.
    fn swap(&mut self, index: usize, value: u64) -> u64;
    /// The message that the request in an entry ends, see [`ended_message`]; read before the entry is removed.
    fn message(&self, index: usize) -> u32;
    /// The READ whose responses are passing. Only for packets of the response flow.
    fn reading(&self) -> u64;
    /// Stores [`Self::reading`].
    fn set_reading(&mut self, reading: u64);
    /// Counts a request that cannot be timed: it was retransmitted, the PSN sequence restarted, or a
    /// response is missing.
    fn count_ambiguous(&mut self);
    /// The same, detected by a response.
    fn count_ambiguous_response(&mut self);
    /// Counts a request that was not timed because the ring was full.
    fn count_ring_full(&mut self);
    /// Adds a sample: `class` below [`CLASSES`], `bucket` below [`BUCKETS`], time in nanoseconds.
    fn add_sample(&mut self, class: usize, bucket: usize, ns: u64);
    /// Adds a message completion time: `operation` below [`COMPLETIONS`], `bucket` below
    /// [`COMPLETION_BUCKETS`].
    fn add_completion(&mut self, operation: usize, bucket: usize, ns: u64);
}

/// Outstanding requests and histograms of one flow of requests. The fields that every packet touches share
/// the first cache line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Latency {
    /// See [`LatencyMemory::head`].
    pub head: u32,
    /// See [`LatencyMemory::tail`].
    pub tail: u32,
    /// Requests that were retransmitted before their response, or outstanding at a restart.
    pub ambiguous: u64,
    /// Requests whose own response is missing.
    pub ambiguous_responses: u64,
    /// Requests that were not timed because [`RING`] others were outstanding.
    pub ring_full: u64,
    /// Beginning of the flow's open message: see [`begun`]. Kernel programs only: replay keeps it elsewhere.
    pub begun_ns: u64,
    /// Maximum time of each class, in nanoseconds.
    pub max_ns: [u64; CLASSES],
    /// Outstanding requests: PSN (24 bits), class (2), retransmitted (1), time (37); 0 is empty.
    pub ring: [u64; RING],
    /// The messages that they end: see [`ended_message`].
    pub messages: [u32; RING],
    /// Time of the READ request whose responses are passing, with bit 63; 0 for none.
    pub reading: u64,
    /// Samples by class and bucket (see [`bucket`]), saturating.
    pub counts: [[u32; BUCKETS]; CLASSES],
    /// Maximum message completion time of each operation, in nanoseconds.
    pub completion_max_ns: [u64; COMPLETIONS],
    /// Message completion times by operation and bucket, saturating.
    pub completions: [[u32; COMPLETION_BUCKETS]; COMPLETIONS],
    /// Time of the first CE mark since the latest CNP, on data of the request flow and of the response
    /// flow; 0 for none. Kernel programs only: replay keeps it elsewhere.
    pub marked_ns: [u64; 2],
    /// The current run of duplicate-PSN packets. Kernel programs only.
    pub retx_run: RetxRun,
}

/// A run of packets with duplicate, consecutive PSNs: retransmissions, or reordered packets. It goes to
/// user space as one event when it ends. Zero packets: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RetxRun {
    /// Time of the first packet, in the run's clock.
    pub start_ns: u64,
    /// Time of the latest packet.
    pub end_ns: u64,
    /// Nanoseconds from the flow's previous packet to the first packet, at most 4.3 s.
    pub pause_ns: u32,
    /// PSN of the first packet in the lower 24 bits, its opcode above.
    pub first: u32,
    /// Number of PSNs. A READ request forms a run of its own, with as many PSNs as it spans.
    pub packets: u32,
    /// The PSN that was expected at the first packet.
    pub expected: u32,
}

impl RetxRun {
    /// Initial value: no run.
    pub const EMPTY: Self = Self { start_ns: 0, end_ns: 0, pause_ns: 0, first: 0, packets: 0, expected: 0 };

    /// PSN of the first packet.
    #[inline(always)]
    pub const fn first_psn(&self) -> u32 {
        self.first & MASK24
    }

    /// Properties of the first packet's opcode.
    #[inline(always)]
    pub fn op(&self) -> Op {
        Op::of((self.first >> 24) as u8)
    }

    /// Minimum gap in nanoseconds between two packets that ends a run: times within a run are interpolated.
    pub const PAUSE_NS: u64 = 500_000;

    /// True if a packet with this opcode and PSN continues the run.
    #[inline(always)]
    pub fn continues_with(&self, op: Op, psn: u32, now: u64) -> bool {
        self.packets != 0
            && now.wrapping_sub(self.end_ns) < Self::PAUSE_NS
            && psn == self.first.wrapping_add(self.packets) & MASK24
            && !op.has(Op::READ_REQUEST)
            && !self.op().has(Op::READ_REQUEST)
    }
}

impl Latency {
    /// All zero, so that fresh map memory is a valid value.
    pub const EMPTY: Self = Self {
        head: 0,
        tail: 0,
        ambiguous: 0,
        ambiguous_responses: 0,
        ring_full: 0,
        begun_ns: 0,
        max_ns: [0; CLASSES],
        ring: [0; RING],
        messages: [0; RING],
        reading: 0,
        counts: [[0; BUCKETS]; CLASSES],
        completion_max_ns: [0; COMPLETIONS],
        completions: [[0; COMPLETION_BUCKETS]; COMPLETIONS],
        marked_ns: [0; 2],
        retx_run: RetxRun::EMPTY,
    };

    /// Number of outstanding requests that can still be timed.
    pub fn outstanding(&self) -> u64 {
        self.ring.iter().filter(|entry| is_timeable(**entry)).count() as u64
    }
}

/// Plain memory, not shared.
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
    fn store(&mut self, index: usize, value: u64, message: u32) {
        self.ring[index % RING] = value;
        self.messages[index % RING] = message;
    }

    #[inline(always)]
    fn swap(&mut self, index: usize, value: u64) -> u64 {
        core::mem::replace(&mut self.ring[index % RING], value)
    }

    #[inline(always)]
    fn message(&self, index: usize) -> u32 {
        self.messages[index % RING]
    }

    #[inline(always)]
    fn reading(&self) -> u64 {
        self.reading
    }

    #[inline(always)]
    fn set_reading(&mut self, reading: u64) {
        self.reading = reading;
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

    #[inline(always)]
    fn add_completion(&mut self, operation: usize, bucket: usize, ns: u64) {
        let (operation, bucket) = (operation % COMPLETIONS, bucket % COMPLETION_BUCKETS);
        let count = &mut self.completions[operation][bucket];
        *count = count.saturating_add(1);
        if ns > self.completion_max_ns[operation] {
            self.completion_max_ns[operation] = ns;
        }
    }
}

/// 3.8 KB: the ABI of user space and kernel programs.
const _: () = assert!(size_of::<Latency>() == 3840);

/// True if a ring entry is a request whose response will be a sample.
#[inline(always)]
pub const fn is_timeable(entry: u64) -> bool {
    entry != 0 && entry & REPEATED == 0
}

/// True if a packet is a request that expects a response.
#[inline(always)]
pub fn is_timed(op: Op, ack_req: bool) -> bool {
    op.has(Op::RELIABLE) & (ack_req | op.has(Op::NEEDS_RESPONSE))
}

/// The class of a timed request, or [`CLASS_NONE`].
#[inline(always)]
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

/// The last PSN that a packet with this opcode, PSN and AETH (or [`UNKNOWN`]) acknowledges, or [`UNKNOWN`]
/// if it acknowledges none. A NAK acknowledges the PSNs before the one it names.
#[inline(always)]
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

/// The start of a flow's open message, after a packet at `now`: 0 if unknown. `before`: the same before the
/// packet. `broken`: PSNs are missing before it, or the sequence restarted.
///
/// The end of a message does not change it: after that comes a packet that begins one, or PSNs are missing.
#[inline(always)]
pub fn begun(op: Op, duplicate_psn: bool, broken: bool, before: u64, now: u64) -> u64 {
    if duplicate_psn || !op.has(Op::REQUEST) {
        before
    } else if op.only(Op::STARTS, Op::ENDS) {
        now
    } else if broken {
        0
    } else {
        before
    }
}

/// The message that a timed request at `now` ends: 1 + its [`Operation`] in the upper 2 bits, and the time
/// from its first packet to this one below. 0: it ends none, or `begun_ns`, when the flow's open message
/// [began](begun), is unknown. READs and atomics are known by their class.
#[inline(always)]
pub fn ended_message(opcode: u8, op: Op, begun_ns: u64, now: u64) -> u32 {
    let operation = Operation::of(opcode) as u32;
    if !op.has(Op::ENDS) || operation > Operation::Send as u32 {
        return 0;
    }
    let kind = (operation + 1) << KIND_SHIFT;
    if op.has(Op::STARTS) {
        return kind;
    }
    if begun_ns == 0 || now < begun_ns {
        return 0;
    }
    let units = (now - begun_ns) >> UNIT_BITS;
    if units <= u64::from(SENDING_MASK) {
        return kind | units as u32;
    }
    let coarse = units >> COARSE_BITS;
    kind | COARSE | if coarse > u64::from(SENDING_MASK) { SENDING_MASK } else { coarse as u32 }
}

/// The time in an [`ended_message`], in nanoseconds.
#[inline(always)]
const fn sending_ns(message: u32) -> u64 {
    let units = (message & SENDING_MASK) as u64;
    (if message & COARSE == 0 { units } else { units << COARSE_BITS }) << UNIT_BITS
}

/// A request that expects a response.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its PSN.
    pub psn: u32,
    /// Its class, not [`CLASS_NONE`].
    pub class: u32,
    /// The message that it ends: see [`ended_message`].
    pub message: u32,
    /// Its PSN is behind the expected one: a response could then be to either copy, so neither is timed.
    pub duplicate_psn: bool,
}

/// Adds a request at `now`, in nanoseconds.
#[inline(always)]
pub fn on_request(memory: &mut impl LatencyMemory, request: Request, now: u64) {
    if request.duplicate_psn {
        return on_duplicate_request(memory, request.psn);
    }
    let head = memory.head();
    // A request that finds the ring full is not added: dropping the oldest would, under constant load, drop
    // every request just before its response.
    if head.wrapping_sub(memory.tail()) >= RING as u32 {
        return memory.count_ring_full();
    }
    let entry = (u64::from(request.psn & MASK24) << PSN_SHIFT)
        | (u64::from(request.class & 3) << CLASS_SHIFT)
        | ((now >> UNIT_BITS) & TIME_MASK);
    memory.store(head as usize % RING, entry, request.message);
    memory.set_head(head.wrapping_add(1));
}

#[inline(always)]
fn on_duplicate_request(memory: &mut impl LatencyMemory, psn: u32) {
    for index in 0..RING {
        let entry = memory.cell(index);
        if entry != 0 && (entry >> PSN_SHIFT) as u32 == psn {
            if !is_timeable(entry) {
                return;
            }
            if memory.swap(index, entry | REPEATED) != 0 {
                memory.count_ambiguous();
            } else {
                // A response removed it meanwhile.
                memory.swap(index, 0);
            }
            return;
        }
    }
}

/// The PSN sequence restarted: no outstanding request will be answered.
#[inline(always)]
pub fn on_restart(memory: &mut impl LatencyMemory) {
    for index in 0..RING {
        if memory.cell(index) != 0 && is_timeable(memory.swap(index, 0)) {
            memory.count_ambiguous();
        }
    }
}

/// A response.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// The last PSN that it acknowledges: see [`acked_psn`].
    pub acked: u32,
    /// It is an ACKNOWLEDGE, which cannot complete a READ or an atomic: their own response is missing.
    pub is_ack: bool,
    /// It is the last packet of a READ response.
    pub ends_read: bool,
}

impl Response {
    /// A packet that acknowledges the PSNs up to `acked`.
    #[inline(always)]
    pub fn of(opcode: u8, op: Op, acked: u32) -> Self {
        let ends_read =
            op.has(Op::RESPONSE | Op::ENDS) && Operation::of(opcode) as u8 == Operation::Read as u8;
        Self { acked, is_ack: op.has(Op::ACKNOWLEDGE), ends_read }
    }

    /// An ACKNOWLEDGE of the PSNs up to `acked`.
    #[inline(always)]
    const fn ack(acked: u32) -> Self {
        Self { acked, is_ack: true, ends_read: false }
    }
}

/// Completes the requests up to the PSN of a response at `now`, in nanoseconds.
#[inline(always)]
pub fn on_response(memory: &mut impl LatencyMemory, response: Response, now: u64) {
    complete_requests(memory, response, now);
    if response.ends_read {
        let reading = memory.reading();
        if reading & READING != 0 {
            memory.set_reading(0);
            if let Some(ns) = since(reading, now) {
                memory.add_completion(Operation::Read as usize, completion_bucket(ns), ns);
            }
        }
    }
}

/// Does what [`on_response`] does for an ACKNOWLEDGE that completes the oldest outstanding request at most; false if it
/// may complete more, and [`on_response`] has to follow.
///
/// Without a loop: kernel programs have it where every packet passes.
#[inline(always)]
pub fn on_single_ack(memory: &mut impl LatencyMemory, acked: u32, now: u64) -> bool {
    let head = memory.head();
    let tail = memory.tail();
    if tail == head || !complete_oldest(memory, tail, Response::ack(acked), now) {
        return true;
    }
    let next = tail.wrapping_add(1);
    memory.set_tail(next);
    if next == head {
        return true;
    }
    let entry = memory.cell(next as usize % RING);
    entry != 0 && !acknowledges(acked, entry)
}

#[inline(always)]
fn complete_requests(memory: &mut impl LatencyMemory, response: Response, now: u64) {
    let head = memory.head();
    let mut tail = memory.tail();
    if tail == head {
        return;
    }
    for _ in 0..RING {
        if tail == head || !complete_oldest(memory, tail, response, now) {
            break;
        }
        tail = tail.wrapping_add(1);
    }
    memory.set_tail(tail);
}

/// True if a response up to this PSN covers the request of a ring entry.
#[inline(always)]
const fn acknowledges(acked: u32, entry: u64) -> bool {
    acked.wrapping_sub((entry >> PSN_SHIFT) as u32) & MASK24 < WINDOW
}

/// Completes the request at the tail of the ring; false if the response does not cover it.
#[inline(always)]
fn complete_oldest(memory: &mut impl LatencyMemory, tail: u32, response: Response, now: u64) -> bool {
    let index = tail as usize % RING;
    let entry = memory.cell(index);
    if entry == 0 {
        return true;
    }
    if !acknowledges(response.acked, entry) {
        return false;
    }
    let message = memory.message(index);
    let entry = memory.swap(index, 0);
    if entry != 0 {
        count_response(memory, entry, message, response.is_ack, now);
    }
    true
}

/// Nanoseconds from the time of a ring entry to `now`; `None` if the clock stepped backwards.
#[inline(always)]
fn since(entry: u64, now: u64) -> Option<u64> {
    let units = (now >> UNIT_BITS).wrapping_sub(entry & TIME_MASK) & TIME_MASK;
    // More than half of the range.
    if units > TIME_MASK / 2 { None } else { Some(units << UNIT_BITS) }
}

#[inline(always)]
fn count_response(memory: &mut impl LatencyMemory, entry: u64, message: u32, is_ack: bool, now: u64) {
    let class = (entry >> CLASS_SHIFT) as u32 & 3;
    let timeable = is_timeable(entry);
    let time = since(entry, now);
    let (Some(ns), true) = (time, !(is_ack && class != CLASS_WRITE_SEND) && class != CLASS_NONE) else {
        if timeable {
            memory.count_ambiguous_response();
        }
        return;
    };
    if timeable {
        memory.add_sample(class as usize - 1, bucket(ns), ns);
    }
    if class == CLASS_READ {
        memory.set_reading(READING | entry & TIME_MASK);
    } else if message != 0 {
        let ns = ns + sending_ns(message);
        let operation = (message >> KIND_SHIFT) as usize - 1;
        memory.add_completion(operation, completion_bucket(ns), ns);
    }
}

#[cfg(test)]
#[path = "latency_tests.rs"]
mod tests;
