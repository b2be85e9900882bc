//! Percentiles of a time range, from those of its intervals: what a recording has of latencies.
//!
//! An interval of `n` samples has its median at rank n/2 and its 99th percentile at rank 0.99 n. Samples of other ranks
//! lie between these, or beyond them: each has a least and a most possible time. In the order of all least times, the
//! time of a rank is the least possible of the time range; in the order of all most times, the most.

use rocescope_common::account::latency::{BUCKETS, bounds, bucket};
use serde::Serialize;

use super::histogram::{Histogram, Summary, at_rank, rank};
use crate::util::packed_option::PackedOption;

/// Ranges that the percentiles of a flow's latency in a recording lie in. The rows have those of each interval: the
/// more the intervals differ, the wider the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LatencyRange {
    /// Least possible median. Unit: ns.
    pub p50_least: u64,
    /// Most possible median. Unit: ns.
    pub p50_most: u64,
    /// Least possible 99th percentile. Unit: ns.
    pub p99_least: u64,
    /// Most possible 99th percentile. Unit: ns.
    pub p99_most: u64,
}

/// Latencies of one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalLatency {
    /// Number of samples.
    pub count: u64,
    /// Median, nanoseconds.
    pub p50: u64,
    /// 99th percentile, nanoseconds.
    pub p99: u64,
    /// The longest, nanoseconds; the end of its bucket, where a longer one came in an earlier interval.
    pub max: u64,
}

/// Latencies of several intervals.
#[derive(Clone, Debug)]
pub struct MergedLatency {
    /// Samples by bucket, each with its least possible time.
    least: [u64; BUCKETS],
    /// Each with a time between those of the ranks on either side of it.
    near: [u64; BUCKETS],
    /// Each with its most possible time.
    most: [u64; BUCKETS],
    longest_ns: u64,
}

impl Default for MergedLatency {
    fn default() -> Self {
        let none = [0; BUCKETS];
        Self { least: none, near: none, most: none, longest_ns: 0 }
    }
}

impl MergedLatency {
    /// Adds the percentiles of an interval, weighted by its samples.
    pub fn add(&mut self, of: IntervalLatency) {
        let IntervalLatency { count, p50, p99, max } = of;
        if count == 0 {
            return;
        }
        let (median, tail) = (rank(count, 500), rank(count, 990));
        let (p50, p99) = (bucket(p50), bucket(p99).max(bucket(p50)));
        // The end of a bucket is where the next begins.
        let (top, beyond) = (bucket(max.saturating_sub(1)).max(p99), bucket(max).max(p99));
        for (at, samples) in [(0, median - 1), (p50, tail - median), (p99, count - tail), (top, 1)] {
            self.least[at] += samples;
        }
        for (at, samples) in [(p50, median), (p99, tail - median), (beyond, count - tail)] {
            self.most[at] += samples;
        }
        // As far below the median as above it.
        spread(&mut self.near, (p50, p50.saturating_sub(p99 - p50)), median - 1, 50.0);
        self.near[p50] += 1;
        if tail > median {
            spread(&mut self.near, (p50, p99), tail - median - 1, 50.0);
            self.near[p99] += 1;
        }
        if count > tail {
            spread(&mut self.near, (p99, top), count - tail - 1, (count - tail) as f64);
            self.near[top] += 1;
        }
        self.longest_ns = self.longest_ns.max(max);
    }

    /// The summary of all intervals, with percentiles in their [range](Self::range); `None` without samples. What is
    /// beyond the 99th percentile of its interval is not known.
    pub fn summary(&self) -> Option<Summary> {
        let all = Summary::of(&self.near, self.longest_ns)?;
        Some(Summary { p999: PackedOption::UNKNOWN, ..all })
    }

    /// The ranges of its percentiles; `None` without samples.
    pub fn range(&self) -> Option<LatencyRange> {
        let count: u64 = self.near.iter().sum();
        let within = |per_mille| {
            let rank = rank(count, per_mille);
            let at = |samples: &[u64; BUCKETS]| at_rank(samples.iter().copied().enumerate(), rank);
            let (least, most) = (at(&self.least)?, at(&self.most)?);
            Some((bounds(least).0, bounds(most).1.min(self.longest_ns)))
        };
        let ((p50_least, p50_most), (p99_least, p99_most)) = within(500).zip(within(990))?;
        Some(LatencyRange { p50_least, p50_most, p99_least, p99_most })
    }

    /// Its samples by bucket.
    pub fn histogram(&self) -> Histogram {
        Histogram::of(&self.near)
    }
}

/// Adds samples between two ranks to the buckets `from` one `to` the other. Over equal parts of the way, on the
/// logarithmic scale of the buckets, the number of samples beyond falls by equal factors, over all of it to 1/`fall`:
/// as latencies mostly do.
fn spread(counts: &mut [u64; BUCKETS], (from, to): (usize, usize), samples: u64, fall: f64) {
    if samples == 0 || from == to || fall <= 1.0 {
        counts[from] += samples;
        return;
    }
    let buckets = from.abs_diff(to) + 1;
    let up_to = |part: usize| {
        let share = (1.0 - fall.powf(-(part as f64 / buckets as f64))) / (1.0 - fall.recip());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of a number of samples"
        )]
        let upto = (samples as f64 * share).round() as u64;
        upto.min(samples)
    };
    for part in 0..buckets {
        let at = if to > from { from + part } else { from - part };
        let end = if part + 1 == buckets { samples } else { up_to(part + 1) };
        counts[at] += end - up_to(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocescope_common::random::Random;

    /// An interval of these samples, as a recording keeps it.
    fn interval(samples: &[u64]) -> IntervalLatency {
        let mut counts = [0; BUCKETS];
        for ns in samples {
            counts[bucket(*ns)] += 1;
        }
        let Summary { count, p50, p99, max, .. } =
            Summary::of(&counts, samples.iter().copied().max().unwrap()).unwrap();
        IntervalLatency { count, p50, p99, max }
    }

    fn merged(intervals: &[Vec<u64>]) -> MergedLatency {
        let mut all = MergedLatency::default();
        for samples in intervals {
            all.add(interval(samples));
        }
        all
    }

    #[test]
    fn one_interval_has_its_own_percentiles_and_the_error_of_their_buckets() {
        let samples: Vec<u64> = (1..=1_000).map(|i| i * 1_000).collect();
        let (one, all) = (interval(&samples), merged(&[samples]));
        let summary = all.summary().unwrap();
        assert_eq!(
            (summary.count, summary.p50, summary.p99, summary.max),
            (1_000, one.p50, one.p99, one.max)
        );
        assert_eq!(summary.p999.get(), None);
        let range = all.range().unwrap();
        assert!(range.p50_least <= 500_000 && 500_000 <= range.p50_most, "{range:?}");
        assert!(range.p50_most - range.p50_least <= range.p50_least / 8, "{range:?}");
        assert!(range.p99_most - range.p99_least <= range.p99_least / 8, "{range:?}");
        assert!(MergedLatency::default().summary().is_none() && MergedLatency::default().range().is_none());
    }

    /// The true percentiles lie in the ranges, and so do those shown, whatever the intervals have.
    #[test]
    fn true_percentiles_lie_in_the_ranges() {
        let mut numbers = Random::new(4_791);
        let mut random = move |below: u64| numbers.below(below);
        for _ in 0..300 {
            let intervals: Vec<Vec<u64>> = (0..=random(6))
                .map(|_| {
                    let (base, wide) = (2_000 + random(200_000), 1 + random(3_000_000));
                    (0..=random(400)).map(|_| base + if random(10) == 0 { random(wide) } else { 0 }).collect()
                })
                .collect();
            let mut all: Vec<u64> = intervals.concat();
            all.sort_unstable();
            let at = |per_mille| all[usize::try_from(rank(all.len() as u64, per_mille)).unwrap() - 1];
            let all_merged = merged(&intervals);
            let (shown, range) = (all_merged.summary().unwrap(), all_merged.range().unwrap());
            for value in [at(500), shown.p50] {
                assert!((range.p50_least..=range.p50_most).contains(&value), "{value} {range:?} {shown:?}");
            }
            for value in [at(990), shown.p99] {
                assert!((range.p99_least..=range.p99_most).contains(&value), "{value} {range:?} {shown:?}");
            }
        }
    }

    /// Half of the intervals are ten times as slow: the tail of all is theirs, not that of the others.
    #[test]
    fn the_tail_of_unlike_intervals_is_that_of_the_slow_ones() {
        let samples = |scale: u64| (1..=1_000).map(|i| i * scale).collect::<Vec<u64>>();
        let shown = merged(&[samples(100), samples(1_000)]);
        let (summary, range) = (shown.summary().unwrap(), shown.range().unwrap());
        // The 99th percentile of the 2,000: the 980th of the slow ones.
        assert!(summary.p99.abs_diff(980_000) < 147_000, "{summary:?}");
        assert!(range.p99_least <= 980_000 && 980_000 <= range.p99_most, "{range:?}");
        assert!(range.p99_least * 2 < range.p99_most, "wide, and said so: {range:?}");
    }
}
