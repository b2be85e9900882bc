//! For how long a group of links was uneven, where the whole run is not.

use super::Imbalance;
use super::imbalance::{members, windows};
use crate::metrics::steps::straggler::densest;
use crate::sample::Sample;
use crate::util::definition::definitions;

definitions! {
    SPAN_NS: u64 = 60_000_000_000,
        "Time that an uneven part of the run is compared with, in nanoseconds",
        "In a run of hours a share of the whole would hide a part that has just begun";
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
    /// Loaded windows of the stretch.
    pub windows: u64,
    /// Loaded windows of the minute from its start, or of the last minute of the run if it has just begun; of the whole
    /// stretch if that is longer.
    pub of_windows: u64,
    /// True if that is less than the loaded windows of the run.
    pub of_minute: bool,
    /// Bytes of the busy link in the stretch over the mean of the links.
    pub max_over_mean: f64,
    /// Share of the group's bytes in the run that passed in the stretch.
    pub bytes_ratio: f64,
}

/// The longest stretch of windows with `loaded` times the bytes of the mean window or more in which one link of a group carries `limit` times the mean or more all in all, and half as much
/// above the mean in two of three of them. `None` when there is none, or bins were not counted. Only windows from `after_ns` on count.
#[must_use]
pub(crate) fn longest(
    sample: &Sample,
    group: &Imbalance,
    limit: f64,
    loaded: f64,
    after_ns: u64,
) -> Option<Uneven> {
    let traffic = sample.metrics.traffic.as_ref()?;
    let mut windows = windows(sample, traffic, group)?;
    let all: f64 = windows.loads.values().flatten().sum();
    windows.leave_out_below(loaded);
    let loads: Vec<(u64, &[f64])> = windows.loads.iter().map(|(at, loads)| (*at, &loads[..])).collect();
    let start = loads.partition_point(|(at, _)| at.saturating_mul(windows.window_ns) < after_ns);
    let later = loads.get(start..)?;
    let ratio = |own: f64, sum: f64, links: usize| if sum > 0.0 { own * links as f64 / sum } else { 0.0 };
    // A step of a job begins more evenly than it ends, or the other way round: single windows need half of the excess only.
    let half = f64::midpoint(1.0, limit);
    let found = members(sample, group).enumerate().filter_map(|(member, link)| {
        let own = |loads: &[f64]| loads.get(member).copied().unwrap_or(0.0);
        let busy = |loads: &[f64]| ratio(own(loads), loads.iter().sum(), loads.len()) >= half;
        let (range, _) = densest(later.iter().map(|(_, loads)| busy(loads)))?;
        let stretch = later.get(range)?;
        let (first, links) = stretch.first()?;
        let sum: f64 = stretch.iter().flat_map(|(_, loads)| loads.iter()).sum();
        let own: f64 = stretch.iter().map(|(_, loads)| own(loads)).sum();
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
            windows: count,
            of_windows: near,
            of_minute: near < loads.len() as u64,
            max_over_mean: ratio(own, sum, links.len()),
            bytes_ratio: sum / all,
        })
    });
    found.filter(|found| found.max_over_mean >= limit).max_by_key(|found| found.windows)
}
