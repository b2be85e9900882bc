//! Balance of links that share a load.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::same_path::SamePath;
use crate::analysis::Options;
use crate::metrics::traffic::Traffic;
use crate::metrics::traffic::bins::Bursts;
use crate::sample::{Address, Direction, Sample};
use crate::util::definition::definitions;
use crate::util::layout::tap_name;

/// Distribution of the bytes over links that share a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Imbalance {
    /// Names of links of one direction that share a load, idle ones included.
    pub links: Vec<String>,
    /// Their direction. Null: replay.
    pub direction: Option<Direction>,
    /// Bytes of the busiest link over the mean; 1: even, number of links: one link carries all. Unit: ratio.
    /// Null: all links are idle.
    pub max_over_mean: Option<f64>,
    /// Jain's index (Σx)² / (n·Σx²) over bytes; 1: even, 1/n: one link carries all. Unit: ratio. Null: all
    /// links are idle.
    pub jain: Option<f64>,
    /// Balance in windows of time. In a replay it is valid only if the clocks of the captures agree. Null:
    /// bins are not collected, or there was no traffic.
    pub over_time: Option<OverTime>,
    /// Balance by direction, where captures hold both directions of these links: taps on cables. Null: live,
    /// or the hosts do not divide into two sides.
    pub ways: Option<Vec<DirectionBalance>>,
    /// Some of these links see the same packets (both ends of a cable, both sides of a router), so that their
    /// bytes say nothing about balance. The parallel ones among them follow as an entry of their own if there
    /// are at least two.
    pub same_path: bool,
    /// No option names this group: these captures carry different packets between the same hosts at the same
    /// time, which links that share a load do.
    pub found: bool,
}

/// Balance in windows of time. Windows with less than a tenth of the mean window's bytes are left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OverTime {
    /// Length of a window: about 100 ms, longer in long runs. Unit: ns.
    pub window_ns: u64,
    /// Windows included. Unit: windows.
    pub windows: u64,
    /// Median of max/mean over the windows. Well above that of the whole run: links take turns. Unit: ratio.
    pub max_over_mean_p50: f64,
    /// Largest max/mean of a window. Unit: ratio.
    pub max_over_mean_max: f64,
    /// Start of that window. Unit: Unix ns.
    pub worst_ns: u64,
}

/// Distribution of the bytes over the rails of one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rails {
    /// Their direction. Null: replay.
    pub direction: Option<Direction>,
    /// Rails.
    pub rails: Vec<Rail>,
    /// Bytes of the busiest rail over the mean, as `imbalance[].max_over_mean`. Unit: ratio. Null: all rails
    /// are idle.
    pub max_over_mean: Option<f64>,
    /// Jain's index over rails, as `imbalance[].jain`. Unit: ratio. Null: all rails are idle.
    pub jain: Option<f64>,
}

/// One rail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rail {
    /// Name of the rail, as given by `--rail`.
    pub name: String,
    /// Names of its links.
    pub links: Vec<String>,
    /// Length of the outer RoCE frames on them. Unit: bytes.
    pub bytes: u64,
}

/// Balance of one direction of links whose captures hold both.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DirectionBalance {
    /// Hosts that send in this direction, at most 16.
    pub sources: Vec<Address>,
    /// Bytes of each link, in the order of `links`. Unit: bytes.
    pub bytes: Vec<u64>,
    /// Packets of all links. Unit: packets.
    pub packets: u64,
    /// As `imbalance[].max_over_mean`. Unit: ratio. Null: all are idle.
    pub max_over_mean: Option<f64>,
    /// As `imbalance[].jain`. Unit: ratio. Null: all are idle.
    pub jain: Option<f64>,
}

/// The RoCE bytes of one link.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// Name of the link.
    pub name: &'a str,
    /// Direction of the link.
    pub direction: Option<Direction>,
    /// RoCE bytes that it carried.
    pub bytes: u64,
}

/// One comparison for each group and each direction in which the group has two links or more: first all links if that
/// was asked for, then the named groups in their order, then those that were found. If some of all links are on one
/// path, which shows nothing about balance, those that are parallel are compared too.
pub fn imbalances(links: &[Load<'_>], options: &Options, same_path: &SamePath) -> Vec<Imbalance> {
    let mut all = Vec::new();
    if options.imbalance_all_links {
        let names: BTreeSet<&str> = links.iter().map(|link| link.name).collect();
        let given: Vec<&str> = links.iter().map(|link| link.name).collect();
        let parallel = same_path.parallel(&given);
        compare(links, |_| true, parallel.len() < names.len(), &mut all);
        compare(links, |name| parallel.contains(&name), false, &mut all);
    }
    for group in &options.groups {
        compare(links, |name| group.iter().any(|member| is_named(name, member)), false, &mut all);
    }
    for group in &same_path.parallel {
        let from = all.len();
        compare(links, |name| group.iter().any(|member| member == name), false, &mut all);
        all.iter_mut().skip(from).for_each(|group| group.found = true);
    }
    all
}

fn compare(links: &[Load<'_>], member: impl Fn(&str) -> bool, same_path: bool, all: &mut Vec<Imbalance>) {
    for direction in [Some(Direction::Ingress), Some(Direction::Egress), None] {
        let group = links.iter().filter(|link| link.direction == direction && member(link.name));
        let (names, bytes): (Vec<String>, Vec<f64>) =
            group.map(|link| (link.name.to_owned(), link.bytes as f64)).unzip();
        if names.len() < 2 || all.iter().any(|done| done.direction == direction && done.links == names) {
            continue;
        }
        all.push(Imbalance {
            links: names,
            direction,
            max_over_mean: max_over_mean(&bytes),
            jain: jain(&bytes),
            over_time: None,
            ways: None,
            same_path,
            found: false,
        });
    }
}

definitions! {
    WINDOW_NS: u64 = 100_000_000,
        "Minimum length of a window in which the loads of links are compared, in nanoseconds",
        "A step of a job has several, a burst fits into one";
    QUIET: f64 = 0.1,
        "Minimum bytes of such a window over those of the mean window",
        "Hardly any bytes show nothing about balance";
}

/// Bytes of the links of a group in windows of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Windows {
    /// Length of a window.
    pub(super) window_ns: u64,
    /// Number of the window (Unix time over its length), and bytes of each link of [`members`], of those windows with
    /// any.
    pub(super) loads: BTreeMap<u64, Vec<f64>>,
}

/// Indexes of a group's links.
pub(super) fn members<'a>(sample: &'a Sample, group: &'a Imbalance) -> impl Iterator<Item = usize> + 'a {
    let links = sample.links.iter().enumerate();
    let own = links.filter(|(_, link)| link.direction == group.direction && group.links.contains(&link.name));
    own.map(|(at, _)| at)
}

/// Bytes of a group's links in windows of time; `None` where bins were not counted.
pub(super) fn windows(sample: &Sample, traffic: &Traffic, group: &Imbalance) -> Option<Windows> {
    let members = members_bursts(sample, traffic, group);
    // Points of each series begin at multiples of their own length, all of which are powers of two.
    let longest = members.iter().flatten().map(|bursts| bursts.long_bins).max()?;
    let bins = longest.max(least_bins(traffic));
    let points = |bursts: &'_ Bursts| {
        let bin = |number: u64| bursts.long_first.saturating_add(number.saturating_mul(bursts.long_bins));
        (0u64..).zip(&bursts.long).map(|(number, bytes)| (bin(number), *bytes as f64)).collect()
    };
    Some(Windows::of(traffic, bins, members.iter().map(|bursts| bursts.map_or_else(Vec::new, points))))
}

fn members_bursts<'a>(sample: &Sample, traffic: &'a Traffic, group: &Imbalance) -> Vec<Option<&'a Bursts>> {
    members(sample, group).map(|at| traffic.links.get(at).and_then(|link| link.bursts.as_ref())).collect()
}

/// Bins of the shortest window.
fn least_bins(traffic: &Traffic) -> u64 {
    WINDOW_NS.div_ceil(traffic.bin_ns.max(1)).next_power_of_two()
}

/// The same of the last seconds alone, in the shortest windows: those of a long run are longer. Only windows whose bins
/// are all kept, and have all passed, of every link.
pub(super) fn latest(sample: &Sample, traffic: &Traffic, group: &Imbalance, span_ns: u64) -> Option<Windows> {
    let members = members_bursts(sample, traffic, group);
    let bins = least_bins(traffic);
    let bin_ns = traffic.bin_ns.max(1);
    let end = |bursts: &Bursts| (bursts.first_ns / bin_ns).saturating_add(bursts.bins);
    let first = |bursts: &Bursts| end(bursts).saturating_sub(bursts.recent.len() as u64);
    let newest = members.iter().flatten().map(|bursts| end(bursts)).max()?;
    // What a link carried before the oldest bin that is kept of it is not known, unless that is its first.
    let cut = members.iter().flatten().filter(|bursts| bursts.bins > bursts.recent.len() as u64);
    let known = cut.map(|bursts| first(bursts)).max().unwrap_or(0);
    let oldest = known.max(newest.saturating_sub(span_ns / bin_ns)).div_ceil(bins);
    let points = |bursts: &'_ Bursts| {
        let all = (first(bursts)..).zip(&bursts.recent).map(|(bin, bytes)| (bin, f64::from(*bytes)));
        all.filter(|(bin, _)| (oldest..newest / bins).contains(&(bin / bins))).collect()
    };
    Some(Windows::of(traffic, bins, members.iter().map(|bursts| bursts.map_or_else(Vec::new, points))))
}

impl Windows {
    /// Windows of `bins` bins, from the bins of each link with their bytes.
    fn of(traffic: &Traffic, bins: u64, members: impl ExactSizeIterator<Item = Vec<(u64, f64)>>) -> Self {
        let count = members.len();
        let mut loads: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for (at, points) in members.enumerate() {
            for (bin, bytes) in points {
                let loads = loads.entry(bin / bins).or_insert_with(|| vec![0.0; count]);
                if let Some(load) = loads.get_mut(at) {
                    *load += bytes;
                }
            }
        }
        loads.retain(|_, loads| loads.iter().sum::<f64>() > 0.0);
        Self { window_ns: bins.saturating_mul(traffic.bin_ns), loads }
    }

    /// Bytes of all links of the group.
    pub(super) fn bytes(&self) -> f64 {
        self.loads.values().flatten().sum()
    }

    /// Bytes per nanosecond, from the first window to the last.
    pub(super) fn rate(&self) -> Option<f64> {
        let (first, last) = (self.loads.keys().next()?, self.loads.keys().next_back()?);
        Some(self.bytes() / ((last - first + 1) as f64 * self.window_ns as f64))
    }

    /// Leaves out windows with less than a share of the mean window's bytes.
    pub(super) fn leave_out_below(&mut self, share: f64) {
        let least = share * self.bytes() / self.loads.len().max(1) as f64;
        self.loads.retain(|_, loads| loads.iter().sum::<f64>() >= least);
    }
}

/// Balance of the links of a group over time; `None` if bins were not counted.
pub(super) fn over_time(sample: &Sample, traffic: &Traffic, group: &Imbalance) -> Option<OverTime> {
    let mut windows = windows(sample, traffic, group)?;
    windows.leave_out_below(QUIET);
    let mut ratios: Vec<(f64, u64)> =
        windows.loads.iter().filter_map(|(window, loads)| Some((max_over_mean(loads)?, *window))).collect();
    ratios.sort_by(|(a, at), (b, other)| a.total_cmp(b).then(other.cmp(at)));
    let (worst, at) = *ratios.last()?;
    let (median, _) = *ratios.get(ratios.len() / 2)?;
    Some(OverTime {
        window_ns: windows.window_ns,
        windows: ratios.len() as u64,
        max_over_mean_p50: median,
        max_over_mean_max: worst,
        worst_ns: at.saturating_mul(windows.window_ns),
    })
}

/// The load of each rail, one list for each direction in which there are two rails or more.
pub(super) fn rails(links: &[Load<'_>], options: &Options) -> Vec<Rails> {
    let mut all = Vec::new();
    for direction in [Some(Direction::Ingress), Some(Direction::Egress), None] {
        let mut rails: Vec<Rail> = Vec::new();
        for (interface, name) in &options.rails {
            let at = rails.iter().position(|rail| rail.name == *name).unwrap_or_else(|| {
                rails.push(Rail { name: name.clone(), links: Vec::new(), bytes: 0 });
                rails.len() - 1
            });
            let (Some(rail), Some(link)) = (
                rails.get_mut(at),
                links.iter().find(|link| link.direction == direction && is_named(link.name, interface)),
            ) else {
                continue;
            };
            if !rail.links.iter().any(|name| name == link.name) {
                rail.links.push(link.name.to_owned());
                rail.bytes += link.bytes;
            }
        }
        rails.retain(|rail| !rail.links.is_empty());
        if rails.len() > 1 {
            let bytes: Vec<f64> = rails.iter().map(|rail| rail.bytes as f64).collect();
            all.push(Rails { direction, max_over_mean: max_over_mean(&bytes), jain: jain(&bytes), rails });
        }
    }
    all
}

pub(super) fn max_over_mean(loads: &[f64]) -> Option<f64> {
    let sum: f64 = loads.iter().sum();
    (sum > 0.0).then(|| loads.iter().copied().fold(0.0, f64::max) * loads.len() as f64 / sum)
}

/// Jain's fairness index: 1 when all are equal, 1/n when one carries everything.
pub(super) fn jain(loads: &[f64]) -> Option<f64> {
    let sum: f64 = loads.iter().sum();
    let squares: f64 = loads.iter().map(|load| load * load).sum();
    (squares > 0.0).then(|| sum * sum / (loads.len() as f64 * squares))
}

/// True if the user's `name` is that of this link, in full or without the suffix of a capture file.
pub(super) fn is_named(link: &str, name: &str) -> bool {
    link == name || tap_name(link) == name
}

/// The rail that the user's names give a link.
pub fn rail_of<'a>(link: &str, rails: &'a [(String, String)]) -> Option<&'a str> {
    rails.iter().rfind(|(interface, _)| is_named(link, interface)).map(|(_, rail)| rail.as_str())
}

/// The names in `names` that no link of the sample has, for a notice to the user.
pub fn unknown_names<'a>(sample: &Sample, names: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().cloned().collect();
    names.retain(|name| !sample.links.iter().any(|link| is_named(&link.name, name)));
    names.sort();
    names.dedup();
    names
}
