//! Times in which the requests of a flow had a long tail of latency.

use std::sync::Arc;

use rocescope_common::account::latency::{BUCKETS, bounds};

use super::{BySlot, Collector, Figure, Histogram, Summary};
use crate::entity::interval::EPISODE_GAP_NS;
use crate::util::definition::definitions;
use crate::util::map::Map;
use crate::util::time::keep_most;

/// Shortest window, in nanoseconds: the silence that ends an episode of a finding.
const LENGTH_NS: u64 = EPISODE_GAP_NS;

definitions! {
    SAMPLES: u64 = 500,
        "Minimum samples of a window of latencies",
        "Its 99th percentile rests on five of them. A flow with fewer has longer windows";
    FACTOR: u64 = 4,
        "Minimum ratio of 99th percentile to median for a window to be kept",
        "Healthy flows stay below 5";
}

/// Times kept per flow; of more, the two that together last least become one.
const MOST: usize = 4;

/// A time with a long tail: windows with a ratio of 99th percentile to median within a factor of two of one another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TailInterval {
    /// Beginning of its first window, Unix nanoseconds.
    pub first_ns: u64,
    /// End of its last window.
    pub last_ns: u64,
    /// Samples of the window.
    pub samples: Histogram,
    /// Longest time until its end, in nanoseconds.
    pub max_ns: u64,
}

impl TailInterval {
    /// The percentiles of these; `None` without samples.
    pub fn summary<'a>(intervals: impl IntoIterator<Item = &'a Self>) -> Option<Summary> {
        let (mut counts, mut max_ns) = ([0; BUCKETS], 0);
        for interval in intervals {
            interval.samples.add_to(&mut counts);
            max_ns = max_ns.max(interval.max_ns);
        }
        // The longest of the run may be of another time.
        let highest = counts.iter().rposition(|count| *count > 0)?;
        Summary::of(&counts, max_ns.min(bounds(highest).1))
    }

    fn factor(&self) -> u64 {
        Self::summary([self]).map_or(0, |times| times.p99 / times.p50.max(1))
    }

    fn add(&mut self, other: &Self) {
        let mut counts = [0; BUCKETS];
        self.samples.add_to(&mut counts);
        other.samples.add_to(&mut counts);
        self.samples = Histogram::of(&counts);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

impl Collector {
    /// Begins or ends windows at a request of this time.
    #[cold]
    pub(super) fn end_windows(&mut self, now_ns: u64) {
        if !self.tails.begin(now_ns) {
            self.tails.take(&self.figures(), now_ns);
        }
    }
}

impl BySlot {
    /// The figures with their slots.
    fn iter(&self) -> impl Iterator<Item = (u32, &Figure)> {
        self.0.iter().map(|(slot, figure)| (*slot, figure))
    }

    /// Leaves samples and times of flows that may have a long tail, which findings judge, and nothing else.
    pub fn keep_tails(&mut self) {
        let is_long = |all: Summary| all.count >= SAMPLES && all.p99 / all.p50.max(1) >= FACTOR;
        self.0.retain(|(_, figure)| {
            figure.tails.as_ref().is_some_and(|tails| !tails.is_empty()) || figure.all.is_some_and(is_long)
        });
        self.0.shrink_to_fit();
        for (_, figure) in self.iter_mut() {
            let Figure { all, histogram, tails, .. } = std::mem::take(figure);
            *figure = Figure { all, histogram, tails, ..Figure::default() };
        }
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Figure)> {
        self.0.iter_mut().map(|(slot, figure)| (*slot, figure))
    }
}

/// One flow of requests.
#[derive(Clone, Debug, Default)]
struct Watch {
    /// Beginning of the open window, and the samples until then.
    from_ns: u64,
    before: Histogram,
    intervals: Option<Arc<Vec<TailInterval>>>,
}

impl Watch {
    /// The open window until now, with the samples since it began; `None` with too few.
    fn window(&self, now_ns: u64, samples: Histogram, max_ns: u64) -> Option<TailInterval> {
        let enough = samples.count() >= SAMPLES;
        enough.then_some(TailInterval { first_ns: self.from_ns, last_ns: now_ns, samples, max_ns })
    }

    fn add(intervals: &mut Vec<TailInterval>, window: TailInterval) {
        let factor = window.factor();
        if factor < FACTOR {
            return;
        }
        match intervals.last_mut() {
            Some(last)
                if last.last_ns == window.first_ns && last.factor().max(1).ilog2() == factor.ilog2() =>
            {
                last.add(&window);
            }
            _ => intervals.push(window),
        }
        keep_most(intervals, MOST, |one| (one.first_ns, one.last_ns), TailInterval::add);
    }
}

/// The times with long tails of all flows of requests.
#[derive(Clone, Debug, Default)]
pub struct LatencyTails {
    /// The latest end of windows, and the next one.
    ended_ns: u64,
    due_ns: u64,
    flows: Map<u32, Watch>,
}

impl LatencyTails {
    /// True if windows may end, or the first one [begins](Self::begin).
    #[inline]
    pub const fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.due_ns
    }

    /// Begins, unless it has begun.
    pub const fn begin(&mut self, now_ns: u64) -> bool {
        let begins = self.due_ns == 0;
        if begins {
            (self.ended_ns, self.due_ns) = (now_ns, now_ns.saturating_add(LENGTH_NS));
        }
        begins
    }

    /// Ends the windows of all flows that have samples enough.
    pub fn take(&mut self, figures: &BySlot, now_ns: u64) {
        for (slot, figure) in figures.iter() {
            let (samples, Some(all)) = (&figure.histogram, figure.all) else { continue };
            let watch = self
                .flows
                .entry(slot)
                .or_insert_with(|| Watch { from_ns: self.ended_ns, ..Watch::default() });
            let since = samples.less(&watch.before).unwrap_or_else(|| {
                // Another flow in the same place.
                *watch = Watch { from_ns: self.ended_ns, ..Watch::default() };
                samples.clone()
            });
            if let Some(window) = watch.window(now_ns, since, all.max) {
                (watch.from_ns, watch.before) = (now_ns, samples.clone());
                Watch::add(Arc::make_mut(watch.intervals.get_or_insert_default()), window);
            }
        }
        (self.ended_ns, self.due_ns) = (now_ns, now_ns.saturating_add(LENGTH_NS));
    }

    /// Sets the times of each figure, the open window included.
    pub fn fill(&self, figures: &mut BySlot, now_ns: u64) {
        for (slot, figure) in figures.iter_mut() {
            let Some(all) = figure.all else { continue };
            let new = Watch { from_ns: self.ended_ns, ..Watch::default() };
            let watch = self.flows.get(&slot).unwrap_or(&new);
            figure.tails.clone_from(&watch.intervals);
            if all.count < SAMPLES {
                continue;
            }
            let since = figure.histogram.less(&watch.before);
            if let Some(window) = since.and_then(|since| watch.window(now_ns, since, all.max)) {
                let intervals = Arc::make_mut(figure.tails.get_or_insert_default());
                Watch::add(intervals, window);
            }
        }
    }

    /// The flow of a slot was retired.
    pub fn retired(&mut self, slot: u32) {
        self.flows.remove(&slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const US: u64 = 1_000;

    /// A flow with 100 requests a second; each tenth takes this long, the others 10 µs.
    fn times(slow: impl Fn(u64) -> u64, seconds: u64) -> Vec<TailInterval> {
        let (mut tails, mut counts, mut max_ns) = (LatencyTails::default(), [0; BUCKETS], 0);
        let bucket = |ns: u64| (0..BUCKETS).find(|at| ns < bounds(*at).1).unwrap();
        let mut figures = BySlot::default();
        for second in 0..seconds {
            if tails.is_due(second * S + 1) && !tails.begin(second * S + 1) {
                tails.take(&figures, second * S + 1);
            }
            let slow_ns = slow(second) * US;
            max_ns = max_ns.max(slow_ns);
            counts[bucket(slow_ns)] += 10;
            counts[bucket(10 * US)] += 90;
            let figure = Figure {
                all: Summary::of(&counts, max_ns),
                histogram: Histogram::of(&counts),
                ..Figure::default()
            };
            figures = [(7, figure)].into_iter().collect();
        }
        tails.fill(&mut figures, seconds * S);
        figures.get(7).unwrap().tails.as_ref().map(|tails| tails.to_vec()).unwrap_or_default()
    }

    #[test]
    fn time_above_the_typical_one_is_that_of_the_slow_samples() {
        let mut counts = [0; BUCKETS];
        for ns in [20_000, 20_000, 20_000, 900_000, 900_000] {
            counts[(0..BUCKETS).find(|at| ns < bounds(*at).1).unwrap()] += 1;
        }
        let (typical, samples) = (Summary::of(&counts, 900_000).unwrap().p50, Histogram::of(&counts));
        let [above, all] = samples.time_above(typical);
        assert!(above.abs_diff(1_760_000) * 16 <= 1_760_000 && all.abs_diff(1_860_000) * 16 <= 1_860_000);
        assert_eq!(samples.time_above(2_000_000)[0], 0);
    }

    #[test]
    fn a_tail_of_the_first_minute_is_apart_from_the_hour() {
        let intervals = times(|second| if second < 60 { 1_000 } else { 11 }, 3_600);
        let [one] = &intervals[..] else { panic!("{intervals:?}") };
        assert_eq!((one.first_ns / S, one.last_ns / S), (0, 60));
        let summary = TailInterval::summary(&intervals).unwrap();
        assert!(summary.count == 6_000 && summary.p99.abs_diff(1_000 * US) < 63 * US, "{summary:?}");
        assert_eq!(times(|_| 11, 3_600), [], "healthy");
    }

    #[test]
    fn what_is_shorter_than_a_window_has_its_time_too() {
        let intervals = times(|_| 500, 8);
        assert_eq!((intervals.len(), intervals[0].last_ns / S, intervals[0].samples.count()), (1, 8, 800));
    }

    #[test]
    fn of_many_times_few_are_kept() {
        let intervals = times(|second| if second / 20 % 2 == 0 { 900 } else { 10 }, 2_000);
        assert_eq!(intervals.len(), MOST);
        assert!(intervals.windows(2).all(|pair| pair[0].last_ns <= pair[1].first_ns));
    }
}
