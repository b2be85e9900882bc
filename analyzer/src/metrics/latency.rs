//! The time from requests to their answers, by flow and class of request, and that from messages' first packets to
//! their completion.
//!
//! The core is [`rocescope_common::account::latency`], the same in the kernel. Here is what it
//! needs around it: which flow has which ring, and percentiles.

mod early;
pub(super) mod histogram;
mod merged;
mod ring;
pub mod tails;

use std::sync::Arc;

use rocescope_common::account::Event;
use rocescope_common::account::latency::{
    CLASS_NONE, CLASSES, Latency, RING, Request, Response, acked_psn, begun, class_of, ended_message,
    on_request, on_response, on_restart,
};
use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::Op;

use super::packet::Packet;
use super::pairing::{NONE, Reverse};
use crate::util::pack::pack;
use early::{Early, EarlyMessage};
use histogram::Distribution;
pub use histogram::{Bucket, Completions, Histogram, P99_SAMPLES, P999_SAMPLES, Summary, Times, is_least};
pub use merged::{IntervalLatency, LatencyRange, MergedLatency};
use ring::Ring;
use tails::{LatencyTails, TailInterval};

/// Flows of requests that are timed at a time. Each takes 250 bytes; 750 more with 64 outstanding requests, and 800 for
/// each class of requests and each operation with more than a few samples; in runs of more than 10 s another 300, or
/// 1,500 with long tails.
pub const MAX_FLOWS: usize = 65_536;

/// State of one flow of requests.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Number of its ring.
    ring: u32,
    /// Requests that passed while the flow with the answers was not known.
    unpaired: u64,
    /// Requests that passed while all rings were in use.
    untracked: u64,
    /// Beginning of its open message: see [`begun`].
    begun_ns: u64,
    /// State of the early requests or answers.
    early: EarlyState,
}

/// State of the packets seen before the other direction of their flow was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EarlyState {
    /// No packet was early.
    None,
    Some,
    /// Too many passed: none is timed.
    TooMuch,
}

const FREE: Slot = Slot { ring: NONE, unpaired: 0, untracked: 0, begun_ns: 0, early: EarlyState::None };

/// Times requests packet by packet.
#[derive(Debug, Default)]
pub struct Collector {
    slots: Vec<Slot>,
    #[expect(clippy::vec_box, reason = "growing the list must not copy them")]
    rings: Vec<Box<Ring>>,
    free: Vec<u32>,
    /// Requests and answers of flows whose other direction is not known yet.
    early: Early,
    /// Times with long tails, and the latest request.
    tails: LatencyTails,
    latest_ns: u64,
}

impl Collector {
    /// Takes in a packet; `reverse` is what is known of the other direction at it.
    #[inline(always)]
    pub fn packet(&mut self, packet: &Packet, reverse: Reverse) {
        let op = Op::of(packet.opcode);
        if op.has(Op::RELIABLE) {
            const BROKEN: u16 = Event::GAP | Event::RESTART;
            let broken = packet.outcome.events & BROKEN != 0;
            // Most packets are in the middle of a message, which takes one test.
            if !(op.any(Op::STARTS | Op::NEEDS_RESPONSE) | packet.ack_req() | broken) {
                return;
            }
            let restart = packet.outcome.events & Event::RESTART != 0;
            let class = class_of(op, packet.ack_req());
            if op.any(Op::STARTS) || broken {
                self.begin(packet, op, broken);
            }
            if class != CLASS_NONE || restart {
                self.request(packet, op, class, reverse);
            }
        } else if op.any(Op::RESPONSE | Op::ACKNOWLEDGE) {
            let up_to = acked_psn(op, packet.psn, packet.aeth);
            let response = Response::of(packet.opcode, op, up_to);
            if reverse.slot == NONE {
                if up_to != UNKNOWN && self.keeps(packet.slot) {
                    self.keep(packet.slot, EarlyMessage::answer(response, packet.time_ns));
                }
                return;
            }
            if self.slots.get(reverse.slot as usize).is_some_and(|slot| slot.early != EarlyState::None) {
                self.backwards(reverse.slot, packet.slot);
            }
            let ring = self.slots.get(reverse.slot as usize).map_or(NONE, |slot| slot.ring);
            if up_to != UNKNOWN
                && let Some(ring) = self.rings.get_mut(ring as usize)
            {
                on_response(ring.as_mut(), response, packet.time_ns);
            }
        }
    }

    /// Takes in packets in the middle of a message: of requests they tell nothing.
    #[inline]
    pub fn train(&mut self, train: &[Packet], reverse: Reverse) {
        if train.first().is_some_and(|first| !Op::of(first.opcode).has(Op::REQUEST)) {
            self.responses(train, reverse);
        }
    }

    #[inline(never)]
    fn responses(&mut self, train: &[Packet], reverse: Reverse) {
        for packet in train {
            self.packet(packet, reverse);
        }
    }

    /// Notes where the flow's open message begins.
    fn begin(&mut self, packet: &Packet, op: Op, broken: bool) {
        let at = packet.slot as usize;
        self.make_room(at);
        if let Some(slot) = self.slots.get_mut(at) {
            slot.begun_ns = begun(op, packet.outcome.duplicate_psn, broken, slot.begun_ns, packet.time_ns);
        }
    }

    fn request(&mut self, packet: &Packet, op: Op, class: u32, reverse: Reverse) {
        let at = packet.slot as usize;
        self.make_room(at);
        let Some(slot) = self.slots.get_mut(at) else { return };
        if packet.outcome.events & Event::RESTART != 0 {
            if let Some(ring) = self.rings.get_mut(slot.ring as usize) {
                on_restart(ring.as_mut());
            }
            if slot.early == EarlyState::Some {
                slot.early = EarlyState::None;
                self.early.forget(packet.slot);
            }
        }
        if class == CLASS_NONE {
            return;
        }
        self.latest_ns = packet.time_ns;
        if self.tails.is_due(packet.time_ns) {
            self.end_windows(packet.time_ns);
        }
        let Some(slot) = self.slots.get_mut(at) else { return };
        let message = ended_message(packet.opcode, op, slot.begun_ns, packet.time_ns);
        let request =
            Request { psn: packet.psn, class, message, duplicate_psn: packet.outcome.duplicate_psn };
        if !reverse.paired {
            slot.unpaired += 1;
            if slot.early != EarlyState::TooMuch {
                self.keep(packet.slot, EarlyMessage::request(request, packet.time_ns));
            }
            return;
        }
        if slot.early != EarlyState::None {
            self.backwards(packet.slot, reverse.slot);
        }
        self.take_ring(at);
        let Some(slot) = self.slots.get_mut(at) else { return };
        let Some(ring) = self.rings.get_mut(slot.ring as usize) else {
            slot.untracked += 1;
            return;
        };
        // Answers that never come this way would leave old requests to wait for the first that does.
        if reverse.slot == NONE && ring.outstanding() >= RING as u64 {
            slot.unpaired += 1;
            return;
        }
        on_request(ring.as_mut(), request, packet.time_ns);
    }

    /// Makes room for the slot of a flow.
    fn make_room(&mut self, at: usize) {
        if self.slots.len() <= at {
            self.slots.resize(at + 1, FREE);
        }
    }

    /// Gives a flow of requests a ring, if it has none and one is left.
    fn take_ring(&mut self, at: usize) {
        let Some(slot) = self.slots.get_mut(at).filter(|slot| slot.ring == NONE) else { return };
        if let Some(free) = self.free.pop() {
            slot.ring = free;
        } else if self.rings.len() < MAX_FLOWS {
            slot.ring = u32::try_from(self.rings.len()).unwrap_or(NONE);
            self.rings.push(Box::default());
        }
    }

    /// True if a flow may still keep packets.
    #[inline]
    fn keeps(&self, number: u32) -> bool {
        self.slots.get(number as usize).is_none_or(|slot| slot.early != EarlyState::TooMuch)
    }

    /// Keeps a request or an answer of a flow that [may](Self::keeps), and whose other direction is not known.
    #[cold]
    fn keep(&mut self, number: u32, passed: EarlyMessage) {
        let at = number as usize;
        self.make_room(at);
        if let Some(slot) = self.slots.get_mut(at) {
            slot.early = if self.early.keep(number, passed) { EarlyState::Some } else { EarlyState::TooMuch };
        }
    }

    /// Times the packets seen before these two flows were known to belong together.
    #[cold]
    fn backwards(&mut self, requests: u32, answers: u32) {
        let at = requests as usize;
        self.take_ring(at);
        let answered = self
            .slots
            .get_mut(answers as usize)
            .map(|slot| std::mem::replace(&mut slot.early, EarlyState::None));
        let Some(slot) = self.slots.get_mut(at) else { return };
        let asked = std::mem::replace(&mut slot.early, EarlyState::None);
        if asked == EarlyState::TooMuch || answered == Some(EarlyState::TooMuch) {
            self.early.forget(requests);
            self.early.forget(answers);
        } else if let Some(ring) = self.rings.get_mut(slot.ring as usize) {
            slot.unpaired -= self.early.replay(requests, answers, ring.as_mut()).min(slot.unpaired);
        }
    }

    /// The flow of a slot was retired.
    pub fn retired(&mut self, slot: u32) {
        self.early.forget(slot);
        self.tails.retired(slot);
        let Some(slot) = self.slots.get_mut(slot as usize) else { return };
        let gone = std::mem::replace(slot, FREE);
        if let Some(ring) = self.rings.get_mut(gone.ring as usize) {
            **ring = Ring::default();
            self.free.push(gone.ring);
        }
    }

    /// The figures so far, by slot of the flow of requests.
    pub fn metrics(&self) -> BySlot {
        let mut figures = self.figures();
        self.tails.fill(&mut figures, self.latest_ns);
        figures
    }

    fn figures(&self) -> BySlot {
        let metrics = (0u32..).zip(&self.slots).filter_map(|(number, slot)| {
            let ring = self.rings.get(slot.ring as usize);
            if ring.is_none() && slot.unpaired + slot.untracked == 0 {
                return None;
            }
            let mut figure = ring.map(|ring| ring.figure()).unwrap_or_default();
            (figure.unpaired, figure.untracked) = (slot.unpaired, slot.untracked);
            Some((number, figure))
        });
        metrics.collect()
    }
}

/// Times of one flow of requests, and why others are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    /// Summary over all classes.
    pub all: Option<Summary>,
    /// Classes that the figures are divided into.
    pub classes: Classes,
    /// All samples by bucket.
    pub histogram: Histogram,
    /// Requests that passed while the flow with the answers was not known.
    pub unpaired: u64,
    /// Requests retransmitted before they were answered, or whose response is missing.
    pub ambiguous: u64,
    /// Requests beyond what a flow may have outstanding to be timed.
    pub ring_full: u64,
    /// Requests of flows beyond what can be timed at once.
    pub untracked: u64,
    /// Requests that no answer has been seen for.
    pub outstanding: u64,
    /// Times with a long tail, the oldest first.
    pub tails: Option<Arc<Vec<TailInterval>>>,
    /// Message completion times.
    pub completions: Completions,
}

/// Times by class, in little memory: of nearly every flow all are of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Classes {
    /// There is no sample to compute it from.
    #[default]
    None,
    /// All samples are of this class.
    One(u8),
    /// Several, or a class with a time of its own.
    Several(Box<[Option<Distribution>; CLASSES]>),
}

impl Figure {
    /// By class: writes and sends, READs, atomics; `None` where [`all`](Self::all) is.
    pub fn classes(&self) -> Option<[Option<Summary>; CLASSES]> {
        match &self.classes {
            Classes::None => None,
            Classes::One(one) => {
                Some(std::array::from_fn(|class| self.all.filter(|_| class == usize::from(*one))))
            }
            Classes::Several(classes) => {
                Some(classes.each_ref().map(|class| class.as_ref().map(|(times, _)| *times)))
            }
        }
    }

    /// All samples by bucket, class by class, in the order of [`classes`](Self::classes); `None` where the class is not
    /// known.
    pub fn by_class(&self) -> impl Iterator<Item = (Option<usize>, &Histogram)> {
        let whole = match &self.classes {
            Classes::None => Some((None, &self.histogram)),
            Classes::One(one) => Some((Some(usize::from(*one)), &self.histogram)),
            Classes::Several(_) => None,
        };
        let several = match &self.classes {
            Classes::Several(classes) => Some(classes.iter().enumerate()),
            _ => None,
        };
        let several = several.into_iter().flatten();
        let timed = several.filter_map(|(class, times)| Some((Some(class), &times.as_ref()?.1)));
        whole.into_iter().chain(timed)
    }

    /// Requests without an answer of their own: they take longer than those that are timed, or for ever.
    pub const fn unanswered(&self) -> u64 {
        unanswered(self.ambiguous, self.outstanding)
    }

    /// Requests that are not in the times, and will not be: without those that no answer has been seen for.
    pub const fn not_timed(&self) -> u64 {
        self.unpaired + self.ambiguous + self.ring_full + self.untracked
    }
}

/// Requests without an answer of their own: those whose answer may be that of another one, and those without any.
pub const fn unanswered(ambiguous: u64, outstanding: u64) -> u64 {
    ambiguous + outstanding
}

/// Figures by the slot of the flow of requests. A map of 65,536 takes twice the memory.
#[derive(Clone, Debug, Default)]
pub struct BySlot(Vec<(u32, Figure)>);

pack! {
    new BySlot;
}

impl BySlot {
    /// The figures of the flow in a slot.
    pub fn get(&self, slot: u32) -> Option<&Figure> {
        let at = self.0.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
        self.0.get(at).map(|(_, figure)| figure)
    }

    /// The figures of all flows.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.0.iter().map(|(_, figure)| figure)
    }

    /// True if no flow has any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl IntoIterator for BySlot {
    type Item = (u32, Figure);
    type IntoIter = std::vec::IntoIter<(u32, Figure)>;

    /// In the order of the slots.
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromIterator<(u32, Figure)> for BySlot {
    /// Each slot comes once.
    fn from_iter<T: IntoIterator<Item = (u32, Figure)>>(metrics: T) -> Self {
        let mut metrics: Vec<(u32, Figure)> = metrics.into_iter().collect();
        // Sorted already, mostly.
        metrics.sort_by_key(|(slot, _)| *slot);
        metrics.shrink_to_fit();
        Self(metrics)
    }
}

impl Figure {
    /// The figures of one ring of the kernel; `unpaired` and `untracked` are not its business.
    pub fn of(ring: &Latency) -> Self {
        Self {
            ambiguous: ring.ambiguous + ring.ambiguous_responses,
            ring_full: ring.ring_full,
            outstanding: ring.outstanding(),
            completions: Completions::of_kernel(&ring.completions, ring.completion_max_ns),
            ..Self::times(ring.counts.map(|counts| Histogram::of(&counts.map(u64::from))), ring.max_ns)
        }
    }

    /// Those of samples by class, with the longest time of each class.
    fn times(samples: [Histogram; CLASSES], max_ns: [u64; CLASSES]) -> Self {
        let longest_ns = max_ns.into_iter().max().unwrap_or(0);
        let mut some = (0..).zip(&samples).filter(|(_, samples)| !samples.is_empty());
        match (some.next(), some.next()) {
            (None, _) => Self::default(),
            (Some((class, samples)), None) if max_ns[usize::from(class)] == longest_ns => Self {
                all: samples.summary(longest_ns),
                classes: Classes::One(class),
                histogram: samples.clone(),
                ..Self::default()
            },
            _ => {
                let (all, histogram) = Histogram::joined(&samples, longest_ns);
                let mut max_ns = max_ns.into_iter();
                let classes = samples.map(|samples| Some((samples.summary(max_ns.next()?)?, samples)));
                Self { all, classes: Classes::Several(Box::new(classes)), histogram, ..Self::default() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(ring: &mut Latency, class: u32, psn: u32, ns: u64) {
        on_request(ring, Request { psn, class, message: 0, duplicate_psn: false }, 0);
        on_response(ring, Response { acked: psn, is_ack: class == 1, ends_read: false }, ns);
    }

    #[test]
    fn percentiles_are_within_their_error() {
        let mut ring = Latency::EMPTY;
        for i in 1..=10_000u32 {
            time(&mut ring, 1, i, u64::from(i) * 1_000);
        }
        let all = Figure::of(&ring).all.unwrap();
        assert_eq!((all.count, all.max), (10_000, 10_000_000));
        for (got, want) in
            [(all.p50, 5_000_000f64), (all.p99, 9_900_000.0), (all.p999.or_zero(), 9_990_000.0)]
        {
            assert!((got as f64 - want).abs() <= want * 0.0625, "{got} for {want}");
        }
    }

    #[test]
    fn a_percentile_is_a_lower_bound_where_too_many_requests_have_no_time() {
        assert!(!is_least(990, 0, 0) && !is_least(990, 99, 0) && is_least(990, 0, 1));
        assert!(is_least(990, 98, 1) && !is_least(990, 99, 1), "the 99th of a hundred is the longest time");
        assert!(is_least(500, 7, 8) && !is_least(500, 7, 7));
    }

    #[test]
    fn the_times_of_a_span_are_one_histogram_less_another() {
        let mut ring = Latency::EMPTY;
        let mut time = |psn: u32, ns: u64| {
            time(&mut ring, 1, psn, ns);
            Figure::of(&ring).histogram
        };
        let none = Histogram::default();
        assert!(none.is_empty() && none.since(&none).is_none());
        let slow = time(1, 5_000_000);
        let first = slow.since(&none).unwrap();
        assert_eq!((first.count, first.p50), (1, first.p99));
        let near = |bucket: Bucket, ns: u64| bucket.ns().abs_diff(ns) * 16 <= ns;
        assert!(near(first.p50, 5_000_000), "{}", first.p50.ns());
        assert_eq!(slow.since(&slow), None, "nothing came since");
        for psn in 2..=99 {
            time(psn, 20_000);
        }
        let later = time(100, 900_000);
        let span = later.since(&slow).unwrap();
        assert_eq!(span.count, 99);
        assert!(near(span.p50, 20_000) && near(span.p99, 900_000), "{span:?}");
        assert_eq!(slow.since(&later), None, "what went back says nothing");
    }

    #[test]
    fn one_sample_is_every_percentile() {
        let mut ring = Latency::EMPTY;
        time(&mut ring, 2, 1, 64_000);
        let figure = Figure::of(&ring);
        let (Some(all), Some([None, Some(read), None])) = (figure.all, figure.classes()) else {
            panic!("{figure:?}");
        };
        assert_eq!((all, read.max), (read, 64_000));
        assert!(read.p50.abs_diff(64_000) <= 4_000 && Some(read.p50) == read.p999.get());
    }
}
