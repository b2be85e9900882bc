//! Distributions of times: samples by bucket, and their percentiles.

use std::sync::Arc;

use rocescope_common::account::latency::{BUCKETS, COMPLETION_BUCKETS, COMPLETIONS, bounds, typical_bucket};
use serde::Serialize;

use crate::util::definition::definitions;
use crate::util::pack::pack;
use crate::util::packed_option::PackedOption;

definitions! {
    pub P99_SAMPLES: u64 = 100,
        "Minimum samples of a 99th percentile",
        "It then rests on one sample beyond it, or more";
    pub P999_SAMPLES: u64 = 1_000,
        "Minimum samples of a 99.9th percentile",
        "It then rests on one sample beyond it, or more";
}

pack! {
    new Histogram;
    new Completions;
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
    /// 99.9th percentile. Unit: ns. Null: of a recording.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub p999: PackedOption,
    /// Longest, exact to 16 ns. Unit: ns.
    pub max: u64,
}

impl Summary {
    /// The summary of a histogram; `None` without samples.
    pub fn of(counts: &[u64; BUCKETS], max: u64) -> Option<Self> {
        Self::of_samples(&counts.iter().copied().enumerate(), max)
    }

    /// The same of samples by bucket, in the order of buckets.
    fn of_samples(samples: &(impl Iterator<Item = (usize, u64)> + Clone), max: u64) -> Option<Self> {
        let count: u64 = samples.clone().map(|(_, n)| n).sum();
        // The least value that is not exceeded by this share of all.
        let percentile = |per_mille| {
            let Some(bucket) = at_rank(samples.clone(), rank(count, per_mille)) else { return max };
            let (low, high) = bounds(bucket);
            // The open bucket has no middle.
            if high == u64::MAX { max } else { u64::midpoint(low, high).min(max) }
        };
        (count > 0).then(|| Self {
            count,
            p50: percentile(500),
            p99: percentile(990),
            p999: percentile(999).into(),
            max,
        })
    }
}

/// The rank of a percentile among `count` samples, from 1.
pub(super) fn rank(count: u64, per_mille: u64) -> u64 {
    let rank = count.checked_mul(per_mille).map(|product| product.div_ceil(1000));
    // A division of 128 bits takes several times as long as the rest of a summary.
    let wide = || u64::try_from((u128::from(count) * u128::from(per_mille)).div_ceil(1000)).unwrap_or(count);
    rank.unwrap_or_else(wide).max(1)
}

/// The bucket of the sample of this rank, of samples in the order of buckets; `None` if there are fewer.
pub(super) fn at_rank(mut samples: impl Iterator<Item = (usize, u64)>, rank: u64) -> Option<usize> {
    let mut seen = 0;
    let found = samples.find(|(_, n)| {
        seen += n;
        seen >= rank
    });
    found.map(|(bucket, _)| bucket)
}

/// Samples by bucket, all classes together: the basis of the times of a time range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(Arc<[(u8, u32)]>);

impl Histogram {
    /// Those buckets that have any. `counts` are samples by bucket; more than 32 bits hold stop there.
    pub fn of(counts: &[u64; BUCKETS]) -> Self {
        let some = (0..=u8::MAX).zip(counts).filter(|(_, n)| **n > 0);
        Self(some.map(|(bucket, n)| (bucket, u32::try_from(*n).unwrap_or(u32::MAX))).collect())
    }

    /// Those of a few samples by their buckets.
    pub(super) fn of_few(buckets: &mut [u8]) -> Self {
        // Most flows have no sample of most classes: that takes no memory.
        if buckets.is_empty() {
            return Self::default();
        }
        buckets.sort_unstable();
        let counts = buckets.chunk_by(|a, b| a == b).filter_map(|same| Some((*same.first()?, same.len())));
        Self(counts.map(|(bucket, n)| (bucket, u32::try_from(n).unwrap_or(u32::MAX))).collect())
    }

    /// The samples of all of these together, and their summary.
    pub(super) fn joined(all: &[Self], max: u64) -> (Option<Summary>, Self) {
        let samples = all.iter().flat_map(|one| one.0.iter());
        let mut samples: Vec<(u8, u64)> = samples.map(|(bucket, n)| (*bucket, u64::from(*n))).collect();
        samples.sort_unstable_by_key(|(bucket, _)| *bucket);
        samples.dedup_by(|(bucket, more), (kept, n)| {
            let same = bucket == kept;
            *n += if same { *more } else { 0 };
            same
        });
        let summary = Summary::of_samples(&samples.iter().map(|(bucket, n)| (usize::from(*bucket), *n)), max);
        let clamped = samples.iter().map(|(bucket, n)| (*bucket, u32::try_from(*n).unwrap_or(u32::MAX)));
        (summary, Self(clamped.collect()))
    }

    /// The summary; `None` without samples.
    pub(super) fn summary(&self, max: u64) -> Option<Summary> {
        Summary::of_samples(&self.0.iter().map(|(bucket, n)| (usize::from(*bucket), u64::from(*n))), max)
    }

    /// True if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of samples in the histogram.
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
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0) + 2 * size_of::<usize>()
    }

    /// Percentiles of the samples that came on top of `earlier`; `None` when none did.
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
        Some(Times { count, p50: Bucket(at(500)?), p99: Bucket(at(990)?), unanswered: 0 })
    }

    /// Time of its samples above a typical one, and all their time, summed in nanoseconds; of each the middle of its
    /// bucket.
    pub fn time_above(&self, typical_ns: u64) -> [u64; 2] {
        let mut sums = [0u64; 2];
        for (bucket, n) in self.0.iter() {
            let ns = Bucket(*bucket).ns();
            for (sum, ns) in sums.iter_mut().zip([ns.saturating_sub(typical_ns), ns]) {
                *sum = sum.saturating_add(ns.saturating_mul(u64::from(*n)));
            }
        }
        sums
    }

    /// The samples that came on top of `earlier`; `None` if some are gone, as those of another flow.
    pub(super) fn less(&self, earlier: &Self) -> Option<Self> {
        let (mut now, mut then) = ([0; BUCKETS], [0; BUCKETS]);
        self.add_to(&mut now);
        earlier.add_to(&mut then);
        for (now, then) in now.iter_mut().zip(then) {
            *now = now.checked_sub(then)?;
        }
        Some(Self::of(&now))
    }
}

/// A bucket of a [`Histogram`]: a time with its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket(u8);

impl Bucket {
    /// Its middle in nanoseconds; of the open one, where it begins.
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
    /// Requests in the time range without an answer of their own: they take longer than any sample, or for ever.
    pub unanswered: u64,
}

impl Times {
    /// The 99th percentile; `None` where it rests on fewer than [`P99_SAMPLES`].
    pub fn tail(&self) -> Option<Bucket> {
        (self.count >= P99_SAMPLES).then_some(self.p99)
    }

    /// True if the median of all requests may be any time above that of the answered ones.
    pub const fn p50_is_least(&self) -> bool {
        is_least(500, self.count, self.unanswered)
    }

    /// The same of the 99th percentile.
    pub const fn p99_is_least(&self) -> bool {
        is_least(990, self.count, self.unanswered)
    }
}

/// True if more requests are unanswered than lie above this percentile of all: that of the `answered` ones is a lower
/// bound then.
pub const fn is_least(per_mille: u64, answered: u64, unanswered: u64) -> bool {
    let all = answered.saturating_add(unanswered);
    unanswered.saturating_mul(1_000) > all.saturating_mul(1_000 - per_mille)
}

/// A summary and its samples.
pub(super) type Distribution = (Summary, Histogram);

/// Message completion times of a flow, by operation: WRITE, SEND, READ. Percentiles are at most 21 % off: see
/// [`COMPLETION_BUCKETS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completions(Option<Box<[Option<Distribution>; COMPLETIONS]>>);

impl Completions {
    /// Those of samples by operation, with the longest time of each.
    pub(super) fn of(samples: [Histogram; COMPLETIONS], max_ns: [u64; COMPLETIONS]) -> Self {
        let mut max_ns = max_ns.into_iter();
        let times = samples.map(|samples| Some((samples.summary(max_ns.next()?)?, samples)));
        Self(times.iter().any(Option::is_some).then(|| Box::new(times)))
    }

    /// Those of the kernel's buckets.
    pub(super) fn of_kernel(
        counts: &[[u32; COMPLETION_BUCKETS]; COMPLETIONS],
        max_ns: [u64; COMPLETIONS],
    ) -> Self {
        let samples = counts.each_ref().map(|counts| {
            let mut by_bucket = [0; BUCKETS];
            for (bucket, count) in counts.iter().enumerate() {
                by_bucket[typical_bucket(bucket)] += u64::from(*count);
            }
            Histogram::of(&by_bucket)
        });
        Self::of(samples, max_ns)
    }

    /// By operation; `None` without any.
    pub fn summaries(&self) -> Option<[Option<Summary>; COMPLETIONS]> {
        Some(self.0.as_ref()?.each_ref().map(|times| times.as_ref().map(|(summary, _)| *summary)))
    }

    /// The samples of the operations that have any.
    pub fn histograms(&self) -> impl Iterator<Item = (usize, &Histogram)> {
        let all = self.0.iter().flat_map(|times| times.iter().enumerate());
        all.filter_map(|(operation, times)| Some((operation, &times.as_ref()?.1)))
    }
}
