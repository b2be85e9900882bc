//! For how long a group of links was uneven, where the whole run is not.

use std::ops::Range;

use super::Imbalance;
use super::imbalance::{self, Windows, members, windows};
use crate::metrics::steps::straggler::densest;
use crate::metrics::traffic::times;
use crate::sample::Sample;
use crate::util::definition::definitions;

definitions! {
    SPAN_NS: u64 = 60_000_000_000,
        "Time that an uneven part of the run is compared with, in nanoseconds",
        "In a run of hours a share of the whole would hide a part that has just begun";
    LATEST_NS: u64 = 8_000_000_000,
        "Time before the end in which windows are about 100 ms long in a run of any length, in nanoseconds",
        "Of 8,192 bins of a millisecond each is kept; the windows of a day would be 16 s long, and see no minute of unevenness";
}

/// A stretch of time in which one link carried far more than its peers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Uneven {
    /// Name of the busy link.
    pub link: String,
    /// Start of the first window, Unix time.
    pub since_ns: u64,
    /// End of the last window.
    pub until_ns: u64,
    /// Length of all of its windows together: silence between them does not count.
    pub length_ns: u64,
    /// Length of one of its windows.
    pub window_ns: u64,
    /// The longest time in it between two uneven windows: between two steps of a job, say.
    pub silence_ns: u64,
    /// Loaded windows of the stretch.
    pub windows: u64,
    /// Loaded windows of the minute from its start, or of the last minute of the run if it has just begun; of the whole
    /// stretch if that is longer.
    pub of_windows: u64,
    /// Bytes of each link in the stretch, in the order of the group.
    pub bytes: Vec<u64>,
    /// Bytes of the busy link in the stretch over the mean of the links.
    pub max_over_mean: f64,
    /// Share of the group's bytes in the run that passed in the stretch.
    pub bytes_ratio: f64,
}

/// The longest stretch of windows with `loaded` times the bytes of the mean window or more in which one link of a group
/// carries `limit` times the mean or more all in all, and half as much above the mean in two of three of them. `None`
/// when there is none, or bins were not counted. Only windows that begin `within` a time count.
pub(crate) fn longest(
    sample: &Sample,
    group: &Imbalance,
    limit: f64,
    loaded: f64,
    within: Range<u64>,
) -> Option<Uneven> {
    let traffic = sample.metrics.traffic.as_ref()?;
    let mut windows = windows(sample, traffic, group)?;
    let all: f64 = windows.loads.values().flatten().sum();
    windows.leave_out_below(loaded);
    in_windows(sample, group, &windows, limit, (within, all))
}

/// The same in these windows; `all` is the bytes of the run.
fn in_windows(
    sample: &Sample,
    group: &Imbalance,
    windows: &Windows,
    limit: f64,
    (within, all): (Range<u64>, f64),
) -> Option<Uneven> {
    let loads: Vec<(u64, &[f64])> = windows.loads.iter().map(|(at, loads)| (*at, &loads[..])).collect();
    let before = |ns: u64| loads.partition_point(|(at, _)| at.saturating_mul(windows.window_ns) < ns);
    let considered = loads.get(before(within.start)..before(within.end))?;
    let half = half_above(limit);
    let found = members(sample, group).enumerate().filter_map(|(member, link)| {
        let own = |loads: &[f64]| loads.get(member).copied().unwrap_or(0.0);
        let busy = |loads: &[f64]| ratio(own(loads), loads.iter().sum(), loads.len()) >= half;
        let (range, _) = densest(considered.iter().map(|(_, loads)| busy(loads)))?;
        let stretch = considered.get(range)?;
        let (first, links) = stretch.first()?;
        let sum: f64 = stretch.iter().flat_map(|(_, loads)| loads.iter()).sum();
        let own: f64 = stretch.iter().map(|(_, loads)| own(loads)).sum();
        let uneven: Vec<u64> = stretch.iter().filter(|(_, loads)| busy(loads)).map(|(at, _)| *at).collect();
        let silence = uneven.windows(2).map(|two| two[1] - two[0] - 1).max().unwrap_or(0);
        let count = stretch.len() as u64;
        let (last, _) = stretch.last()?;
        let span = SPAN_NS / windows.window_ns.max(1);
        let until = loads.last()?.0.min(first.saturating_add(span)).max(*last);
        let from = until.saturating_sub(span).min(*first);
        let near = loads.iter().filter(|(at, _)| (from..=until).contains(at)).count() as u64;
        Some(Uneven {
            link: sample.links.get(link)?.name.clone(),
            since_ns: first.saturating_mul(windows.window_ns),
            until_ns: last.saturating_add(1).saturating_mul(windows.window_ns),
            length_ns: count.saturating_mul(windows.window_ns),
            window_ns: windows.window_ns,
            silence_ns: silence.saturating_mul(windows.window_ns),
            windows: count,
            of_windows: near,
            bytes: bytes_of(sample, group, stretch),
            max_over_mean: ratio(own, sum, links.len()),
            bytes_ratio: sum / all,
        })
    });
    found.filter(|found| found.max_over_mean >= limit).max_by_key(|found| found.windows)
}

/// Bytes of each link of a group in these windows, in the order of its links.
fn bytes_of(sample: &Sample, group: &Imbalance, stretch: &[(u64, &[f64])]) -> Vec<u64> {
    let of = |name: &String| {
        let is_own = |at: usize| sample.links.get(at).is_some_and(|link| link.name == *name);
        let member = members(sample, group).position(is_own)?;
        let own = stretch.iter().filter_map(|(_, loads)| loads.get(member));
        Some(times(1, own.sum()))
    };
    group.links.iter().map(|name| of(name).unwrap_or(0)).collect()
}

/// Bytes of a link over the mean of the links.
fn ratio(own: f64, sum: f64, links: usize) -> f64 {
    if sum > 0.0 { own * links as f64 / sum } else { 0.0 }
}

/// A step of a job begins more evenly than it ends, or the other way round: single windows need half of the excess
/// only.
fn half_above(limit: f64) -> f64 {
    f64::midpoint(1.0, limit)
}

/// The loaded windows of the last seconds, about 100 ms each in runs of any length.
#[derive(Clone, Debug)]
pub(crate) struct Latest<'a> {
    sample: &'a Sample,
    group: &'a Imbalance,
    windows: Windows,
    /// Bytes of the group in the run.
    all: f64,
}

impl<'a> Latest<'a> {
    /// Those with `loaded` times the bytes of their mean window or more, or of the run's; none if the group is not that
    /// busy compared with the run. `None` if bins were not counted.
    pub(crate) fn of(sample: &'a Sample, group: &'a Imbalance, loaded: f64) -> Option<Self> {
        let traffic = sample.metrics.traffic.as_ref()?;
        let run = imbalance::windows(sample, traffic, group)?;
        let mut windows = imbalance::latest(sample, traffic, group, LATEST_NS)?;
        let all = run.bytes();
        // Congested flows take longer for the same bytes: windows have less than those of bursts before, at the same
        // rate.
        let least = if windows.rate()? < loaded * run.rate()? {
            f64::INFINITY
        } else {
            let mean = |of: &Windows| of.bytes() / (of.loads.len() as f64 * of.window_ns as f64);
            loaded * mean(&windows).min(mean(&run)) * windows.window_ns as f64
        };
        windows.loads.retain(|_, loads| loads.iter().sum::<f64>() >= least);
        Some(Self { sample, group, windows, all })
    }

    /// The longest uneven stretch of them, as [`longest`] has those of the run.
    pub(crate) fn longest(&self, limit: f64) -> Option<Uneven> {
        in_windows(self.sample, self.group, &self.windows, limit, (0..u64::MAX, self.all))
    }

    /// Start of the last of them, `count` or more over `span_ns` or more, all from `after_ns` on, if `link` carries no
    /// more than half of the excess of `limit` in these: evenness that was seen, not silence.
    pub(crate) fn even_since(
        &self,
        link: &str,
        limit: f64,
        count: u64,
        (after_ns, span_ns): (u64, u64),
    ) -> Option<u64> {
        let (member, _) = members(self.sample, self.group)
            .enumerate()
            .find(|(_, at)| self.sample.links.get(*at).is_some_and(|one| one.name == link))?;
        let end = self.windows.loads.keys().next_back()?.saturating_add(1);
        let (mut own, mut sum, mut links) = (0.0, 0.0, 0);
        let first = after_ns.div_ceil(self.windows.window_ns.max(1));
        let last_first = self.windows.loads.range(first..).rev();
        for (n, (at, loads)) in (1u64..).zip(last_first) {
            own += loads.get(member).copied().unwrap_or(0.0);
            sum += loads.iter().sum::<f64>();
            links = links.max(loads.len());
            if n >= count && (end - at).saturating_mul(self.windows.window_ns) >= span_ns {
                let is_even = ratio(own, sum, links) < half_above(limit);
                return is_even.then(|| at.saturating_mul(self.windows.window_ns));
            }
        }
        None
    }

    /// Length of one of them.
    pub(crate) fn window_ns(&self) -> u64 {
        self.windows.window_ns
    }
}
