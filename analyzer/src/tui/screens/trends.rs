//! Counters over the last minutes as sparklines.

use ratatui::text::Line;

use super::{Spans, spark};
use crate::metrics::latency::Bucket;
use crate::model::{Counts, Identity, Level, Snapshot};
use crate::tui::column::compact;
use crate::tui::theme;
use crate::tui::view::View;
use crate::util::units;

/// The growth of counters between a snapshot and the one before.
#[derive(Clone, Copy, Debug)]
pub(in crate::tui) struct Point {
    /// Time of the snapshot, Unix time in nanoseconds.
    pub(in crate::tui) time_ns: u64,
    /// `None` when that is not known.
    pub(in crate::tui) counts: Option<Counts>,
    /// All that had been counted by then; `None` when that is not known.
    pub(in crate::tui) total: Option<Counts>,
    /// Median and, of enough samples, 99th percentile of requests answered meanwhile; of single flows.
    pub(in crate::tui) latency: Option<(Bucket, Option<Bucket>)>,
    /// Length of the time between.
    pub(in crate::tui) seconds: f64,
}

impl Point {
    /// A counter per second; `None` when it is not known.
    pub(in crate::tui) fn per_second(&self, figure: impl Fn(&Counts) -> u64) -> Option<f64> {
        self.counts.as_ref().filter(|_| self.seconds > 0.0).map(|c| figure(c) as f64 / self.seconds)
    }
}

/// One metric over time.
pub(in crate::tui) struct Trend {
    pub(in crate::tui) name: &'static str,
    /// Its name in a file.
    pub(in crate::tui) field: &'static str,
    pub(in crate::tui) value: fn(&Point) -> Option<f64>,
    pub(in crate::tui) format: fn(f64) -> String,
    pub(in crate::tui) level: Level,
}

const fn trend(
    name: &'static str,
    field: &'static str,
    value: fn(&Point) -> Option<f64>,
    format: fn(f64) -> String,
    level: Level,
) -> Trend {
    Trend { name, field, value, format, level }
}

fn ratio(ratio: f64) -> String {
    units::ratio(Some(ratio))
}

/// The metrics, the most important first.
pub(in crate::tui) const TRENDS: &[Trend] = &[
    trend("bits/s", "bits_per_s", |p| p.per_second(|c| c.bytes * 8), units::bit_rate, Level::Fine),
    trend("CE ratio", "ce_ratio", |p| p.counts.and_then(|c| c.ce_ratio()), ratio, Level::Warning),
    trend("lost/s", "lost_per_s", |p| p.per_second(|c| c.lost), compact, Level::Critical),
    trend("CNP/s", "cnp_per_s", |p| p.per_second(|c| c.cnp), compact, Level::Warning),
    trend("RNR NAK/s", "rnr_naks_per_s", |p| p.per_second(|c| c.rnr), compact, Level::Warning),
    trend("packets/s", "packets_per_s", |p| p.per_second(|c| c.packets), compact, Level::Fine),
    trend("RETX/s", "repeats_per_s", |p| p.per_second(|c| c.retransmitted), compact, Level::Warning),
    trend("NAK/s", "naks_per_s", |p| p.per_second(Counts::naks), compact, Level::Critical),
];

fn duration(ns: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time that was counted")]
    units::duration(ns as u64)
}

/// Latencies of the requests of a flow.
pub(in crate::tui) const LATENCY: &[Trend] = &[
    trend(
        "latency p50",
        "latency_p50_ns",
        |p| p.latency.map(|(p50, _)| p50.ns() as f64),
        duration,
        Level::Fine,
    ),
    trend(
        "latency p99",
        "latency_p99_ns",
        |p| p.latency.and_then(|(_, p99)| Some(p99?.ns() as f64)),
        duration,
        Level::Fine,
    ),
];

/// Columns before and behind a sparkline.
pub(in crate::tui) const AROUND: usize = 23 + 16;

/// Pairs of snapshots that follow one another, the latest `n` up to the one shown, the oldest first.
fn pairs(view: &View, n: usize) -> Vec<(&Snapshot, &Snapshot)> {
    let end = view.timeline.snapshot().map_or(0, |at| at + 1);
    let mut pairs: Vec<_> = (1..end)
        .rev()
        .take(n)
        .filter_map(|at| Some((view.timeline.history.get(at - 1)?, view.timeline.history.get(at)?)))
        .collect();
    pairs.reverse();
    pairs
}

fn seconds(earlier: &Snapshot, later: &Snapshot) -> f64 {
    later.time_ns.saturating_sub(earlier.time_ns) as f64 / crate::model::counts::NS_PER_S
}

/// Points of everything, each packet once, as the header counts.
pub(in crate::tui) fn points(view: &View, n: usize) -> Vec<Point> {
    let point = |(a, b): (&Snapshot, &Snapshot)| Point {
        time_ns: b.time_ns,
        counts: b.dedup.grown.since(&a.dedup.grown),
        total: Some(b.dedup.total),
        latency: None,
        seconds: seconds(a, b),
    };
    pairs(view, n).into_iter().map(point).collect()
}

/// Points of one link.
pub(in crate::tui) fn link_points(view: &View, link: usize, n: usize) -> Vec<Point> {
    let point = |(a, b): (&Snapshot, &Snapshot)| Point {
        time_ns: b.time_ns,
        total: b.links.get(link).map(|link| link.total),
        counts: b.links.get(link).zip(a.links.get(link)).and_then(|(b, a)| b.grown.since(&a.grown)),
        latency: None,
        seconds: seconds(a, b),
    };
    pairs(view, n).into_iter().map(point).collect()
}

/// Points of one flow; unknown where it was not among the busiest.
pub(in crate::tui) fn flow_points(view: &View, id: &Identity, n: usize) -> Vec<Point> {
    // From snapshot to snapshot flows mostly keep their places.
    let mut place = 0;
    let mut of = |snapshot: &Snapshot| {
        let there = snapshot.flows.get(place).is_some_and(|f| f.id == *id);
        let at = if there { Some(place) } else { snapshot.flows.iter().position(|f| f.id == *id) };
        place = at.unwrap_or(place);
        let flow = at.and_then(|at| snapshot.flows.get(at));
        (flow.map(|f| f.counts), flow.and_then(|f| f.latency))
    };
    let mut points: Vec<Point> = Vec::new();
    let mut before: Option<Option<Counts>> = None;
    for (a, b) in pairs(view, n) {
        let then = before.unwrap_or_else(|| of(a).0);
        let (now, latency) = of(b);
        let new = a.complete && then.is_none();
        let counts = match (now, then) {
            (Some(now), Some(then)) => now.since(&then),
            (Some(now), None) if new => Some(now),
            _ => None,
        };
        points.push(Point { time_ns: b.time_ns, counts, total: now, latency, seconds: seconds(a, b) });
        before = Some(now);
    }
    points
}

/// One metric of all traffic over the latest `n` snapshots.
pub(in crate::tui) fn values(view: &View, n: usize, value: fn(&Point) -> Option<f64>) -> Vec<Option<f64>> {
    points(view, n).iter().map(value).collect()
}

/// Time that the latest `n` points cover, in nanoseconds.
pub(in crate::tui) fn covered(view: &View, n: usize) -> u64 {
    let pairs = pairs(view, n);
    pairs.first().zip(pairs.last()).map_or(0, |((a, _), (_, b))| b.time_ns.saturating_sub(a.time_ns))
}

/// A metric in a line: name, latest value, sparkline of `width` columns, peak.
pub(in crate::tui) fn row(trend: &Trend, points: &[Point], width: usize) -> Line<'static> {
    let values: Vec<Option<f64>> = points.iter().map(|point| (trend.value)(point)).collect();
    let peak = values.iter().flatten().copied().fold(0.0, f64::max);
    let now = values.last().copied().flatten();
    let style = if now.is_some_and(|now| now > 0.0) { theme::BOLD } else { theme::DIM };
    let mut spans = Spans::default();
    spans.push(format!(" {:<11}", trend.name), theme::DIM);
    spans.push(format!("{:>10} ", now.map_or_else(|| units::UNKNOWN.into(), trend.format)), style);
    let bars = if peak > 0.0 { theme::bar(trend.level) } else { theme::DIM };
    spans.push(format!("{:>width$}", spark(&values, peak)), bars);
    let known = values.iter().any(Option::is_some);
    let peak = if known { (trend.format)(peak) } else { units::UNKNOWN.to_owned() };
    spans.push(format!(" peak {peak:>9}"), theme::DIM);
    spans.into_line()
}
