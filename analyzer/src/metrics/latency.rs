//! The time from requests to their answers, by flow and class of request.
//!
//! The core is [`rocescope_common::account::latency`], the same in the kernel. Here is what it
//! needs around it: which flow has which ring, and percentiles.

mod early;
mod ring;
pub mod tails;

use std::sync::Arc;

use rocescope_common::account::Event;
use rocescope_common::account::latency::{
    BUCKETS, CLASS_NONE, CLASSES, Latency, RING, acked_psn, bounds, class_of, on_request, on_response,
    on_restart,
};
use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::Op;
use serde::Serialize;

use super::packet::Packet;
use super::pairing::{NONE, Reverse};
use crate::util::pack::pack;
use early::{Early, Passed};
use ring::Ring;
pub use tails::{P99_SAMPLES, P999_SAMPLES};
use tails::{TailSpell, Tails};

/// Flows of requests that are timed at a time. Each takes 150 bytes; 500 more with 64 outstanding requests, and 800 for each
/// class of requests with more than a few samples; in runs of more than 10 s another 300, or 1,500 with long tails.
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
    /// State of the early requests or answers.
    early: Kept,
}

/// State of the packets seen before the other direction of their flow was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// Nothing has passed.
    None,
    Some,
    /// Too many passed: none is timed.
    TooMuch,
}

const FREE: Slot = Slot { ring: NONE, unpaired: 0, untracked: 0, early: Kept::None };

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
    tails: Tails,
    latest_ns: u64,
}

impl Collector {
    /// Takes in a packet; `reverse` is what is known of the other direction at it.
    #[inline(always)]
    pub fn packet(&mut self, packet: &Packet, reverse: Reverse) {
        let op = Op::of(packet.opcode);
        if op.has(Op::RELIABLE) {
            let restart = packet.outcome.events & Event::RESTART != 0;
            let class = class_of(op, packet.ack_req());
            if class != CLASS_NONE || restart {
                self.request(packet, class, reverse);
            }
        } else if op.any(Op::RESPONSE | Op::ACKNOWLEDGE) {
            let up_to = acked_psn(op, packet.psn, packet.aeth);
            if reverse.slot == NONE {
                if up_to != UNKNOWN && self.keeps(packet.slot) {
                    let answer = Passed::answer(up_to, op.has(Op::ACKNOWLEDGE), packet.time_ns);
                    self.keep(packet.slot, answer);
                }
                return;
            }
            if self.slots.get(reverse.slot as usize).is_some_and(|slot| slot.early != Kept::None) {
                self.backwards(reverse.slot, packet.slot);
            }
            let ring = self.slots.get(reverse.slot as usize).map_or(NONE, |slot| slot.ring);
            if up_to != UNKNOWN
                && let Some(ring) = self.rings.get_mut(ring as usize)
            {
                on_response(ring.as_mut(), up_to, op.has(Op::ACKNOWLEDGE), packet.time_ns);
            }
        }
    }

    fn request(&mut self, packet: &Packet, class: u32, reverse: Reverse) {
        let at = packet.slot as usize;
        self.make_room(at);
        let Some(slot) = self.slots.get_mut(at) else { return };
        if packet.outcome.events & Event::RESTART != 0 {
            if let Some(ring) = self.rings.get_mut(slot.ring as usize) {
                on_restart(ring.as_mut());
            }
            if slot.early == Kept::Some {
                slot.early = Kept::None;
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
        if !reverse.paired {
            slot.unpaired += 1;
            if slot.early != Kept::TooMuch {
                let request =
                    Passed::request(packet.psn, class, packet.outcome.duplicate_psn, packet.time_ns);
                self.keep(packet.slot, request);
            }
            return;
        }
        if slot.early != Kept::None {
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
        on_request(ring.as_mut(), packet.psn, class, packet.outcome.duplicate_psn, packet.time_ns);
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
        self.slots.get(number as usize).is_none_or(|slot| slot.early != Kept::TooMuch)
    }

    /// Keeps a request or an answer of a flow that [may](Self::keeps), and whose other direction is not known.
    #[cold]
    fn keep(&mut self, number: u32, passed: Passed) {
        let at = number as usize;
        self.make_room(at);
        if let Some(slot) = self.slots.get_mut(at) {
            slot.early = if self.early.keep(number, passed) { Kept::Some } else { Kept::TooMuch };
        }
    }

    /// Times the packets seen before these two flows were known to belong together.
    #[cold]
    fn backwards(&mut self, requests: u32, answers: u32) {
        let at = requests as usize;
        self.take_ring(at);
        let answered =
            self.slots.get_mut(answers as usize).map(|slot| std::mem::replace(&mut slot.early, Kept::None));
        let Some(slot) = self.slots.get_mut(at) else { return };
        let asked = std::mem::replace(&mut slot.early, Kept::None);
        if asked == Kept::TooMuch || answered == Some(Kept::TooMuch) {
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
    #[must_use]
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

/// Distribution of latencies. Percentiles are middles of histogram buckets, at most 6.25 % off; all values
/// below 1.024 µs share a bucket, as do all above 17.2 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "Latency"))]
pub struct Summary {
    /// Samples. Unit: samples.
    pub count: u64,
    /// Median. Unit: ns.
    pub p50: u64,
    /// 99th percentile. Unit: ns.
    pub p99: u64,
    /// 99.9th percentile. Unit: ns.
    pub p999: u64,
    /// Longest, exact to 16 ns. Unit: ns.
    pub max: u64,
}

impl Summary {
    /// The summary of a histogram; `None` without samples.
    #[must_use]
    pub fn of(counts: &[u64; BUCKETS], max: u64) -> Option<Self> {
        let count: u64 = counts.iter().sum();
        (count > 0).then(|| Self {
            count,
            p50: percentile(counts, count, 500, max),
            p99: percentile(counts, count, 990, max),
            p999: percentile(counts, count, 999, max),
            max,
        })
    }
}

/// The least value that is not exceeded by `per_mille` of all.
fn percentile(counts: &[u64; BUCKETS], count: u64, per_mille: u64, max: u64) -> u64 {
    let rank = u64::try_from((u128::from(count) * u128::from(per_mille)).div_ceil(1000)).unwrap_or(count);
    let mut seen = 0;
    for (bucket, n) in counts.iter().enumerate() {
        seen += n;
        if seen >= rank.max(1) {
            let (low, high) = bounds(bucket);
            // The open bucket has no middle.
            return if high == u64::MAX { max } else { u64::midpoint(low, high).min(max) };
        }
    }
    max
}

/// Samples by bucket, all classes together: the basis of the times of a time range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(Arc<[(u8, u32)]>);

impl Histogram {
    /// Those buckets that have any. `counts` are samples by bucket; more than 32 bits hold stop there.
    #[must_use]
    pub fn of(counts: &[u64; BUCKETS]) -> Self {
        let some = (0..=u8::MAX).zip(counts).filter(|(_, n)| **n > 0);
        Self(some.map(|(bucket, n)| (bucket, u32::try_from(*n).unwrap_or(u32::MAX))).collect())
    }

    /// True if there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of samples in the histogram.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Adds the samples to `counts`, which are by bucket.
    pub fn add_to(&self, counts: &mut [u64; BUCKETS]) {
        for (bucket, n) in self.0.iter() {
            if let Some(count) = counts.get_mut(usize::from(*bucket)) {
                *count += u64::from(*n);
            }
        }
    }

    /// Memory that it takes besides itself, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0) + 2 * size_of::<usize>()
    }

    /// Percentiles of the samples that came on top of `earlier`; `None` when none did.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Option<Times> {
        if Arc::ptr_eq(&self.0, &earlier.0) {
            return None;
        }
        let mut then = earlier.0.iter().copied().peekable();
        let mut new = [(0, 0); BUCKETS];
        let mut count = 0u64;
        for (place, (bucket, n)) in new.iter_mut().zip(self.0.iter()) {
            while then.next_if(|(other, _)| other < bucket).is_some() {}
            let before = then.next_if(|(other, _)| other == bucket).map_or(0, |(_, n)| n);
            // A histogram that decreased is that of another flow in the same place.
            *place = (*bucket, n.checked_sub(before)?);
            count += u64::from(place.1);
        }
        let at = |per_mille: u64| {
            let rank = (count * per_mille).div_ceil(1000).max(1);
            let mut seen = 0;
            new.iter().find_map(|(bucket, n)| {
                seen += u64::from(*n);
                (seen >= rank).then_some(*bucket)
            })
        };
        Some(Times { count, p50: Bucket(at(500)?), p99: Bucket(at(990)?) })
    }
}

/// A bucket of a [`Histogram`]: a time with its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket(u8);

impl Bucket {
    /// Its middle in nanoseconds; of the open one, where it begins.
    #[must_use]
    pub fn ns(self) -> u64 {
        let (low, high) = bounds(usize::from(self.0));
        if high == u64::MAX { low } else { u64::midpoint(low, high) }
    }
}

/// Percentiles of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Number of samples.
    pub count: u64,
    /// Median of the samples.
    pub p50: Bucket,
    /// 99th percentile of the samples.
    pub p99: Bucket,
}

impl Times {
    /// The 99th percentile; `None` where it rests on fewer than [`P99_SAMPLES`].
    #[must_use]
    pub fn tail(&self) -> Option<Bucket> {
        (self.count >= P99_SAMPLES).then_some(self.p99)
    }
}

/// Times of one flow of requests, and why others are not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    /// Summary over all classes.
    pub all: Option<Summary>,
    /// Which classes there are.
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
    pub tails: Option<Arc<Vec<TailSpell>>>,
}

/// Times by class, in little memory: of nearly every flow all are of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Classes {
    /// No sample.
    #[default]
    None,
    /// All samples are of this class.
    One(u8),
    /// Several, or a class with a time of its own.
    Several(Box<[Option<(Summary, Histogram)>; CLASSES]>),
}

impl Figure {
    /// By class: writes and sends, READs, atomics; `None` where [`all`](Self::all) is.
    #[must_use]
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

    /// All samples by bucket, class by class, in the order of [`classes`](Self::classes); `None` where the class is not known.
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

    /// Requests that are not in the times, and will not be: without those that no answer has been seen for.
    #[must_use]
    pub const fn not_timed(&self) -> u64 {
        self.unpaired + self.ambiguous + self.ring_full + self.untracked
    }
}

/// Figures by the slot of the flow of requests. A map of 65,536 takes twice the memory.
#[derive(Clone, Debug, Default)]
pub struct BySlot(Vec<(u32, Figure)>);

pack! {
    new Histogram;
    new BySlot;
}

impl BySlot {
    /// The figures of the flow in a slot.
    #[must_use]
    pub fn get(&self, slot: u32) -> Option<&Figure> {
        let at = self.0.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
        self.0.get(at).map(|(_, figure)| figure)
    }

    /// All of them.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.0.iter().map(|(_, figure)| figure)
    }

    /// True if no flow has any.
    #[must_use]
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
    #[must_use]
    pub fn of(ring: &Latency) -> Self {
        Self {
            ambiguous: ring.ambiguous + ring.ambiguous_responses,
            ring_full: ring.ring_full,
            outstanding: ring.outstanding(),
            ..Self::times(ring.counts.each_ref().map(Some), ring.max_ns)
        }
    }

    /// Those of samples by class and bucket, with the longest time of each class.
    fn times(counts: [Option<&[u32; BUCKETS]>; CLASSES], max_ns: [u64; CLASSES]) -> Self {
        let mut sum = [0; BUCKETS];
        let classes: [_; CLASSES] = std::array::from_fn(|class| {
            let counts = counts[class]?.map(u64::from);
            sum.iter_mut().zip(&counts).for_each(|(sum, n)| *sum += n);
            Some((Summary::of(&counts, max_ns[class])?, counts))
        });
        let all = Summary::of(&sum, max_ns.into_iter().max().unwrap_or(0));
        let mut times = (0..).zip(&classes).filter(|(_, times)| times.is_some());
        let classes = match (all, times.next(), times.next()) {
            (None, ..) | (_, None, _) => Classes::None,
            (all, Some((class, Some((times, _)))), None) if Some(*times) == all => Classes::One(class),
            _ => {
                let times = classes.map(|class| class.map(|(times, counts)| (times, Histogram::of(&counts))));
                Classes::Several(Box::new(times))
            }
        };
        Self { all, classes, histogram: Histogram::of(&sum), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_their_error() {
        let mut ring = Latency::EMPTY;
        for i in 1..=10_000u32 {
            on_request(&mut ring, i, 1, false, 0);
            on_response(&mut ring, i, true, u64::from(i) * 1_000);
        }
        let all = Figure::of(&ring).all.unwrap();
        assert_eq!((all.count, all.max), (10_000, 10_000_000));
        for (got, want) in [(all.p50, 5_000_000f64), (all.p99, 9_900_000.0), (all.p999, 9_990_000.0)] {
            assert!((got as f64 - want).abs() <= want * 0.0625, "{got} for {want}");
        }
    }

    #[test]
    fn the_times_of_a_span_are_one_histogram_less_another() {
        let mut ring = Latency::EMPTY;
        let mut time = |psn: u32, ns: u64| {
            on_request(&mut ring, psn, 1, false, 0);
            on_response(&mut ring, psn, true, ns);
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
        on_request(&mut ring, 1, 2, false, 0);
        on_response(&mut ring, 1, false, 64_000);
        let figure = Figure::of(&ring);
        let (Some(all), Some([None, Some(read), None])) = (figure.all, figure.classes()) else {
            panic!("{figure:?}");
        };
        assert_eq!((all, read.max), (read, 64_000));
        assert!(read.p50.abs_diff(64_000) <= 4_000 && read.p50 == read.p999);
    }
}
