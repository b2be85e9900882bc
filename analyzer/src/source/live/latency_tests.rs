//! The ring of outstanding requests, to which packets of a flow add and from which those of the reverse direction
//! remove, in every order of loads and stores that the memory model allows: loom tries all of them.
//!
//! The algorithm is that of the kernel programs; its accesses to memory are modelled as they are on processors with a
//! weak memory order.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::thread;
use rocescope_common::account::latency::{
    CLASS_WRITE_SEND, COMPLETIONS, LatencyMemory, Request, Response, ended_message, on_request, on_response,
    on_restart, on_single_ack,
};
use rocescope_common::wire::opcode::Op;

use super::*;

/// A part of the kernel programs' memory ordering that is left out, to verify that the model detects it.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    /// A cell is stored before the head that publishes it.
    Order,
    /// A cell is taken by a single exchange.
    Exchange,
}

struct Ring {
    head: AtomicU32,
    tail: AtomicU32,
    cells: Vec<AtomicU64>,
    messages: Vec<AtomicU32>,
}

/// Counters of one side, which the other never writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CountedTimes {
    ambiguous: u64,
    full: u64,
    samples: u64,
    completions: [u64; COMPLETIONS],
}

/// A flow of requests, or the one that answers it.
struct Side {
    ring: Arc<Ring>,
    without: Without,
    counted: CountedTimes,
    reading: u64,
}

impl LatencyMemory for Side {
    fn head(&self) -> u32 {
        self.ring.head.load(if self.without == Without::Order {
            Ordering::Relaxed
        } else {
            Ordering::Acquire
        })
    }

    fn set_head(&mut self, head: u32) {
        self.ring.head.store(head, Ordering::Relaxed);
    }

    fn tail(&self) -> u32 {
        self.ring.tail.load(Ordering::Relaxed)
    }

    fn set_tail(&mut self, tail: u32) {
        self.ring.tail.store(tail, Ordering::Relaxed);
    }

    fn cell(&self, index: usize) -> u64 {
        self.ring.cells[index].load(Ordering::Relaxed)
    }

    fn store(&mut self, index: usize, value: u64, message: u32) {
        self.ring.messages[index].store(message, Ordering::Relaxed);
        if self.without == Without::Order {
            self.ring.cells[index].store(value, Ordering::Relaxed);
        } else {
            exchange(&self.ring.cells[index], value);
        }
    }

    fn swap(&mut self, index: usize, value: u64) -> u64 {
        if self.without == Without::Exchange {
            let before = self.cell(index);
            self.ring.cells[index].store(value, Ordering::SeqCst);
            return before;
        }
        exchange(&self.ring.cells[index], value)
    }

    fn message(&self, index: usize) -> u32 {
        self.ring.messages[index].load(Ordering::Relaxed)
    }

    fn reading(&self) -> u64 {
        self.reading
    }

    fn set_reading(&mut self, reading: u64) {
        self.reading = reading;
    }

    fn count_ambiguous(&mut self) {
        self.counted.ambiguous += 1;
    }

    fn count_ambiguous_response(&mut self) {
        self.counted.ambiguous += 1;
    }

    fn count_ring_full(&mut self) {
        self.counted.full += 1;
    }

    fn add_sample(&mut self, _class: usize, _bucket: usize, _ns: u64) {
        self.counted.samples += 1;
    }

    fn add_completion(&mut self, operation: usize, _bucket: usize, _ns: u64) {
        self.counted.completions[operation] += 1;
    }
}

/// The kernel's exchange, which is fully ordered.
fn exchange(word: &AtomicU64, value: u64) -> u64 {
    fence(Ordering::SeqCst);
    let before = word.swap(value, Ordering::AcqRel);
    fence(Ordering::SeqCst);
    before
}

/// Opcodes of messages of one packet: `RC_RDMA_WRITE_ONLY` and `RC_SEND_ONLY`, and their places among the operations.
const WRITE: (u8, usize) = (0x0A, 0);
const SEND: (u8, usize) = (0x04, 1);
/// A time after all requests.
const LATER_NS: u64 = 1 << 20;

impl Side {
    /// A request of one packet, which is a message.
    fn request(&mut self, psn: u32, (opcode, _): (u8, usize)) {
        let message = ended_message(opcode, Op::of(opcode), 0, 16);
        on_request(self, Request { psn, class: CLASS_WRITE_SEND, message, duplicate_psn: false }, 16);
    }

    /// The same again.
    fn retransmit(&mut self, psn: u32) {
        on_request(self, Request { psn, class: CLASS_WRITE_SEND, message: 0, duplicate_psn: true }, 32);
    }

    /// An ACK of the PSNs up to this one.
    fn ack(&mut self, acked: u32) {
        if !on_single_ack(self, acked, LATER_NS) {
            on_response(self, Response { acked, is_ack: true, ends_read: false }, LATER_NS);
        }
    }
}

/// Steps of the flow of requests, of the one that answers it at the same time, and of this one after both.
type Sides = (fn(&mut Side), fn(&mut Side), fn(&mut Side));

/// Number of executions in which what the two count is not `right`, on a ring that holds the WRITEs of these PSNs.
fn wrong(
    without: Without,
    held: std::ops::Range<u32>,
    (requests, answers, rest): Sides,
    right: fn(CountedTimes, CountedTimes) -> bool,
) -> usize {
    let found = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&found);
    loom::model(move || {
        let mut start = Latency::EMPTY;
        for psn in held.clone() {
            let message = ended_message(WRITE.0, Op::of(WRITE.0), 0, 16);
            on_request(
                &mut start,
                Request { psn, class: CLASS_WRITE_SEND, message, duplicate_psn: false },
                16,
            );
        }
        let ring = Arc::new(Ring {
            head: AtomicU32::new(start.head),
            tail: AtomicU32::new(start.tail),
            cells: start.ring.iter().map(|cell| AtomicU64::new(*cell)).collect(),
            messages: start.messages.iter().map(|message| AtomicU32::new(*message)).collect(),
        });
        let side = || Side { ring: Arc::clone(&ring), without, counted: CountedTimes::default(), reading: 0 };
        let (mut one, mut other) = (side(), side());
        let one = thread::spawn(move || {
            requests(&mut one);
            one.counted
        });
        let other = thread::spawn(move || {
            answers(&mut other);
            other
        });
        let (one, mut other) = (one.join().unwrap(), other.join().unwrap());
        rest(&mut other);
        count.fetch_add(usize::from(!right(one, other.counted)), Ordering::Relaxed);
    });
    found.load(Ordering::Relaxed)
}

/// Two requests, a WRITE and a SEND, while ACKs arrive: each has its time, and its message completes once.
fn published(without: Without) -> usize {
    let requests = |side: &mut Side| {
        side.request(1, WRITE);
        side.request(2, SEND);
    };
    let sides: Sides = (requests, |side| side.ack(2), |side| side.ack(2));
    wrong(without, 0..0, sides, |one, other| {
        let completions = [(WRITE.1, 1), (SEND.1, 1)].map(|(at, n)| other.completions[at] == n);
        one == CountedTimes::default() && other.samples == 2 && completions == [true; 2]
    })
}

/// A request that passes again while its ACK arrives is either timed or ambiguous.
fn wrong_retransmissions(without: Without) -> usize {
    let sides: Sides = (|side| side.retransmit(1), |side| side.ack(1), |side| side.ack(1));
    wrong(without, 1..2, sides, |one, other| {
        let completions: u64 = other.completions.iter().sum();
        one.ambiguous + other.samples == 1 && completions == 1
    })
}

#[test]
fn every_request_beside_its_ack_is_timed_once() {
    assert_eq!(published(Without::Nothing), 0);
    assert_eq!(wrong_retransmissions(Without::Nothing), 0);
}

#[test]
fn every_part_of_the_order_is_needed() {
    assert_ne!(published(Without::Order), 0, "the cell before the head");
    assert_ne!(wrong_retransmissions(Without::Exchange), 0, "the exchange");
}

#[test]
fn requests_outstanding_at_a_restart_are_timed_or_ambiguous() {
    let sides: Sides = (|side| on_restart(side), |side| side.ack(2), |side| side.ack(2));
    let found = wrong(Without::Nothing, 1..3, sides, |one, other| {
        one.ambiguous + other.samples == 2 && other.completions[WRITE.1] == other.samples
    });
    assert_eq!(found, 0);
}

#[test]
fn a_request_in_a_cell_that_an_ack_just_left_has_its_own_message() {
    /// All that the ring holds, and the next one.
    #[expect(clippy::cast_possible_truncation, reason = "64")]
    const LAST: u32 = RING as u32;
    const NEXT: u32 = LAST + 1;
    let sides: Sides = (|side| side.request(NEXT, SEND), |side| side.ack(1), |side| side.ack(NEXT));
    let found = wrong(Without::Nothing, 1..NEXT, sides, |one, other| {
        // It finds the ring full, or the place of the first.
        let sends = other.completions[SEND.1];
        other.completions[WRITE.1] == u64::from(LAST)
            && one.full + sends == 1
            && other.samples == u64::from(LAST) + sends
    });
    assert_eq!(found, 0);
}
