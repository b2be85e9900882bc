//! Counters over the time that snapshots cover, in columns of equal time.

use ratatui::style::Style;
use ratatui::text::Line;

use super::timeline::chart::{area, axis};
use super::timeline::grid::{Chart, Grid};
use crate::metrics::latency::Bucket;
use crate::model::signals::{self, About};
use crate::model::{Counts, FlowVerdict, Identity, Row, Snapshot, naks};
use crate::tui::column::compact;
use crate::tui::data::Data;
use crate::tui::view::View;
use crate::tui::widgets::Spans;
use crate::tui::widgets::panel::section;
use crate::tui::{log, theme};
use crate::util::units;

/// The growth of counters between a snapshot and the one before, or of several such.
#[derive(Clone, Copy, Debug)]
pub(in crate::tui) struct Point {
    /// Time of the snapshot before, Unix time in nanoseconds.
    pub(in crate::tui) from_ns: u64,
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
    /// Both together. A value that is unknown in one is that of the other; of latencies the highest.
    fn with(self, later: &Self) -> Self {
        let counts = match (self.counts, later.counts) {
            (Some(mut sum), Some(other)) => {
                sum.add(&other);
                Some(sum)
            }
            (one, other) => one.or(other),
        };
        // The time of a point whose counts are unknown is no time without packets.
        let seconds = |point: &Self| if point.counts.is_some() { point.seconds } else { 0.0 };
        let (p50, p99) = match (self.latency, later.latency) {
            (Some(one), Some(other)) => (Some(one.0.max(other.0)), one.1.max(other.1)),
            (one, other) => one.or(other).map_or((None, None), |(p50, p99)| (Some(p50), p99)),
        };
        Self {
            time_ns: later.time_ns,
            counts,
            total: later.total.or(self.total),
            latency: p50.map(|p50| (p50, p99)),
            seconds: seconds(&self) + seconds(later),
            ..self
        }
    }

    /// A counter per second; `None` when it is not known.
    pub(in crate::tui) fn per_second(&self, figure: impl Fn(&Counts) -> u64) -> Option<f64> {
        self.counts.as_ref().filter(|_| self.seconds > 0.0).map(|c| figure(c) as f64 / self.seconds)
    }

    /// The same of lost or retransmitted packets.
    fn of_sequence(&self, figure: fn(&Counts) -> u64) -> Option<f64> {
        self.counts?.of_sequence(figure)?;
        self.per_second(figure)
    }

    /// The same of NAKs.
    fn of_answers(&self, figure: fn(&Counts) -> u64) -> Option<f64> {
        self.counts?.of_answers(figure)?;
        self.per_second(figure)
    }
}

/// One metric over time.
pub(in crate::tui) struct Trend {
    pub(in crate::tui) name: &'static str,
    /// Its name in a file.
    pub(in crate::tui) field: &'static str,
    pub(in crate::tui) value: fn(&Point) -> Option<f64>,
    pub(in crate::tui) format: fn(f64) -> String,
    /// Kinds of findings that give it its colour.
    pub(in crate::tui) about: About,
    /// Why nothing may be known of it; empty where that needs no words.
    needs: &'static str,
}

const fn trend(
    name: &'static str,
    field: &'static str,
    value: fn(&Point) -> Option<f64>,
    format: fn(f64) -> String,
    about: About,
) -> Trend {
    Trend { name, field, value, format, about, needs: "" }
}

fn ratio(ratio: f64) -> String {
    units::ratio(Some(ratio))
}

/// What loss and retransmission need.
const SEQUENCE: &str = "needs packets of a PSN sequence";
/// What NAKs need.
const ANSWERS: &str = "needs observed ACKs or NAKs";

/// The metrics, the most important first.
pub(in crate::tui) const TRENDS: &[Trend] = &[
    trend("bits/s", "bits_per_s", |p| p.per_second(|c| c.bytes * 8), units::bit_rate, signals::NOTHING),
    trend("CE ratio", "ce_ratio", |p| p.counts.and_then(|c| c.ce_ratio()), ratio, signals::CE),
    Trend {
        needs: SEQUENCE,
        ..trend("lost/s", "lost_per_s", |p| p.of_sequence(|c| c.lost), compact, signals::LOST)
    },
    trend("CNP/s", "cnp_per_s", |p| p.per_second(|c| c.cnp), compact, signals::CNP),
    Trend {
        needs: ANSWERS,
        ..trend("RNR NAK/s", "rnr_naks_per_s", |p| p.of_answers(|c| c.rnr), compact, signals::RNR)
    },
    trend("packets/s", "packets_per_s", |p| p.per_second(|c| c.packets), compact, signals::NOTHING),
    Trend {
        needs: SEQUENCE,
        ..trend(
            "RETX/s",
            "repeats_per_s",
            |p| p.of_sequence(|c| c.retransmitted),
            compact,
            signals::RETRANSMITTED,
        )
    },
    Trend {
        needs: ANSWERS,
        ..trend("NAK/s", "naks_per_s", |p| p.of_answers(Counts::naks), compact, signals::NAK)
    },
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
        signals::NOTHING,
    ),
    Trend {
        needs: "needs 100 requests in a column",
        ..trend(
            "latency p99",
            "latency_p99_ns",
            |p| p.latency.and_then(|(_, p99)| Some(p99?.ns() as f64)),
            duration,
            signals::LATENCY,
        )
    },
];

/// Columns of names, values and peaks.
pub(super) const NAME: usize = 11;
const VALUE: usize = 10;
const PEAK: usize = 11;

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
    crate::util::time::seconds(later.time_ns.saturating_sub(earlier.time_ns))
}

/// Points of everything, each packet once, as the header counts.
pub(in crate::tui) fn points(view: &View, n: usize) -> Vec<Point> {
    let point = |(a, b): (&Snapshot, &Snapshot)| Point {
        from_ns: a.time_ns,
        time_ns: b.time_ns,
        counts: Some(b.dedup.since(&a.dedup)),
        total: Some(b.dedup.total),
        latency: None,
        seconds: seconds(a, b),
    };
    pairs(view, n).into_iter().map(point).collect()
}

/// Points of one link.
pub(in crate::tui) fn link_points(view: &View, link: usize, n: usize) -> Vec<Point> {
    let point = |(a, b): (&Snapshot, &Snapshot)| Point {
        from_ns: a.time_ns,
        time_ns: b.time_ns,
        total: b.links.get(link).map(|link| link.total),
        counts: b.links.get(link).zip(a.links.get(link)).and_then(|(b, a)| b.grown.since(&a.grown)),
        latency: None,
        seconds: seconds(a, b),
    };
    pairs(view, n).into_iter().map(point).collect()
}

/// Points of one flow, with the NAKs that answer it, as its row has them; unknown where it was not among the busiest.
pub(in crate::tui) fn flow_points(view: &View, id: &Identity, n: usize) -> Vec<Point> {
    let mut points = carried(view, id, n);
    let Some(answers) = view.data.as_ref().and_then(|data| naks::answers_of(&data.sample, id)) else {
        return points;
    };
    for (point, answer) in points.iter_mut().zip(&carried(view, &answers, n)) {
        for (counts, answer) in [(&mut point.counts, answer.counts), (&mut point.total, answer.total)] {
            if let Some(counts) = counts {
                naks::replace_naks(counts, answer);
            }
        }
    }
    points
}

/// Points of the packets of one flow.
fn carried(view: &View, id: &Identity, n: usize) -> Vec<Point> {
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
        let (from_ns, time_ns) = (a.time_ns, b.time_ns);
        points.push(Point { from_ns, time_ns, counts, total: now, latency, seconds: seconds(a, b) });
        before = Some(now);
    }
    points
}

/// Columns that a chart has in `width` columns of the screen, where names take `name` of them.
pub(super) const fn cells(width: usize, name: usize) -> usize {
    width.saturating_sub(name + VALUE + PEAK + 4)
}

/// The columns of charts that are `width` columns of the screen wide, of what began at `first_ns`; `None` where there
/// is nothing to show.
pub(super) fn grid(data: &Data, first_ns: Option<u64>, width: usize) -> Option<Grid> {
    Chart::since(data, first_ns).grid(data, cells(width, NAME))
}

/// The beginning of the first of these points that counted a packet.
pub(super) fn begin(points: &[Point]) -> Option<u64> {
    let counted = |point: &&Point| point.counts.is_some_and(|counts| counts.packets > 0);
    points.iter().find(counted).map(|point| point.from_ns)
}

/// Points in the columns of a grid: of each what grew between the snapshots in it and around it. `None` where nothing
/// is known of a time.
pub(super) fn columns(points: &[Point], grid: Grid) -> Vec<Option<Point>> {
    let column = |at: usize| {
        let (from_ns, to_ns) = (grid.start(at), grid.start(at + 1));
        let first = points.partition_point(|point| point.time_ns <= from_ns);
        let end = points.partition_point(|point| point.from_ns < to_ns);
        let [one, rest @ ..] = points.get(first..end)? else { return None };
        Some(rest.iter().fold(*one, Point::with))
    };
    (0..grid.columns).map(column).collect()
}

/// Counts of a row in the time range.
pub(in crate::tui) fn of_range(data: &Data, row: &Row) -> Option<Point> {
    let delta = row.delta.as_ref()?;
    let times = data.model.latency(row);
    Some(Point {
        from_ns: data.model.time_ns,
        time_ns: data.model.time_ns,
        counts: Some(delta.counts),
        total: Some(row.total),
        latency: times.map(|times| (times.p50, times.tail())),
        seconds: delta.seconds,
    })
}

/// A metric in `tall` lines, or in one where it shows nothing: name, value in the time range, columns, peak. Where
/// nothing is known of it, why, or no line. Its colour is that of the active findings about it that name the flow.
pub(in crate::tui) fn row(
    trend: &Trend,
    now: Option<&Point>,
    columns: &[Option<Point>],
    (tall, judged): (usize, FlowVerdict),
) -> Vec<Line<'static>> {
    let values: Vec<Option<f64>> = columns.iter().map(|point| (trend.value)(point.as_ref()?)).collect();
    let peak = values.iter().flatten().copied().fold(0.0, f64::max);
    let now = now.and_then(trend.value);
    let known = values.iter().any(Option::is_some);
    if !known && now.is_none() {
        let line = |needs| Line::styled(format!(" {:<NAME$} {needs}", trend.name), theme::DIM);
        return Some(trend.needs).filter(|needs| !needs.is_empty()).map(line).into_iter().collect();
    }
    let style = if now.is_some_and(|now| now > 0.0) { theme::BOLD } else { theme::DIM };
    let unknown = || units::UNKNOWN.to_owned();
    let now = now.map_or_else(unknown, trend.format);
    let most = if known { (trend.format)(peak) } else { unknown() };
    let tall = if peak > 0.0 { tall.max(1) } else { 1 };
    let head = Head { name: (trend.name, NAME), now: (&now, style), most: &most };
    drawn(&head, &values, tall, theme::bar(judged.level_of(trend.about)))
}

/// Text beside a chart.
pub(super) struct Head<'a> {
    /// Name, and columns for it.
    pub(super) name: (&'static str, usize),
    /// Value of the time range, or the latest, and its style.
    pub(super) now: (&'a str, Style),
    /// The highest value of the chart, with its unit.
    pub(super) most: &'a str,
}

/// Values as a chart of `tall` lines; nothing is a dot, and what is unknown is blank.
pub(super) fn drawn(head: &Head<'_>, values: &[Option<f64>], tall: usize, bar: Style) -> Vec<Line<'static>> {
    let peak = values.iter().flatten().copied().fold(0.0, f64::max);
    let line = |(line, blocks): (usize, Vec<char>)| {
        let (name, now, most) = if line == 0 { (head.name.0, head.now.0, head.most) } else { ("", "", "") };
        let mut spans = Spans::default();
        spans.push(format!(" {name:<width$}", width = head.name.1), theme::DIM);
        spans.push(format!("{now:>VALUE$} "), head.now.1);
        for (value, symbol) in values.iter().zip(blocks) {
            match value {
                // So that one that is full ends below the next.
                Some(value) if *value > 0.0 => {
                    let symbol = if line == 0 && symbol == '█' { '▇' } else { symbol };
                    spans.push(symbol.to_string(), bar)
                }
                Some(_) if line + 1 == tall => spans.push("·", theme::FRAME),
                _ => spans.push(" ", theme::PLAIN),
            };
        }
        spans.push(format!(" {most:>PEAK$}"), theme::DIM);
        spans.into_line()
    };
    area(values, peak, tall).into_iter().enumerate().map(line).collect()
}

/// The clock below such lines, whose names have `name` columns.
pub(super) fn clock(grid: Grid, name: usize) -> Line<'static> {
    let ticks: String = axis::ticks(grid, None, &[]).0.into_iter().collect();
    let text = format!(" {:>width$} {ticks} {:>PEAK$}", "", "peak", width = name + VALUE);
    Line::styled(text, theme::DIM)
}

/// Lines of each chart, so that `least` lines become `height` at most; `doubled` would they be with two of each.
pub(super) fn taller(least: usize, height: usize, doubled: impl FnOnce() -> usize) -> usize {
    /// Lines of a chart at most.
    const TALLEST: usize = 40;
    if height <= least {
        return 1;
    }
    let charts = doubled().saturating_sub(least);
    1 + (height - least).checked_div(charts).unwrap_or(0).min(TALLEST - 1)
}

/// A flow over time, in charts of `high` lines: rate, CE, CNP, retransmissions and latency; of a flow of answers the
/// latency of `other`, whose requests it answers.
pub(super) fn charts(
    view: &View,
    (id, other): (&Identity, Option<&Identity>),
    width: usize,
    high: usize,
) -> Vec<Line<'static>> {
    let mut lines = vec![section("OVER TIME", &log::route(&id.key), width)];
    let Some(data) = &view.data else { return lines };
    let points = |id: &Identity| flow_points(view, id, usize::MAX);
    let own = points(id);
    let others = other.map(|other| (other, points(other)));
    let begin = others.iter().map(|(_, points)| points).chain([&own]).filter_map(|one| begin(one)).min();
    let Some(grid) = grid(data, begin, width) else { return lines };
    // The values in the time range, and the columns.
    let of = |id: &Identity, points: &[Point]| {
        (data.row(id).and_then(|row| of_range(data, row)), columns(points, grid))
    };
    let own = of(id, &own);
    let judged = data.row(id).map(|row| row.judged).unwrap_or_default();
    let rows = |trends: &[Trend], (now, columns): &(Option<Point>, Vec<Option<Point>>)| {
        // What shows nothing does not part what does.
        let shows = |trend: &&Trend| {
            columns.iter().flatten().any(|point| (trend.value)(point).is_some_and(|value| value > 0.0))
        };
        let (some, none): (Vec<_>, Vec<_>) = trends.iter().partition(shows);
        let row = |trend| row(trend, now.as_ref(), columns, (high, judged));
        some.into_iter().chain(none).flat_map(row).collect::<Vec<_>>()
    };
    lines.extend(rows(TRENDS, &own));
    // Requests are timed; of a flow of answers, those that it answers.
    let timed = |columns: &[Option<Point>]| columns.iter().flatten().any(|point| point.latency.is_some());
    if timed(&own.1) {
        lines.extend(rows(LATENCY, &own));
    } else if let Some((other, others)) =
        others.map(|(other, points)| (other, of(other, &points))).filter(|(_, o)| timed(&o.1))
    {
        let title = format!(" requests it acknowledges, {}", log::route(&other.key));
        lines.push(Line::styled(title, theme::DIM));
        lines.extend(rows(LATENCY, &others));
    }
    lines.push(clock(grid, NAME));
    lines
}

/// The same in `height` lines at most, with charts as high as they have room.
pub(super) fn charts_in(
    view: &View,
    ids: (&Identity, Option<&Identity>),
    width: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let of = |high| charts(view, ids, width, high);
    let mut lines = of(1);
    let high = taller(lines.len(), height, || of(2).len());
    if high > 1 {
        lines = of(high);
    }
    if let Some(clock) = lines.pop() {
        // The clock is worth more than the last signal.
        lines.truncate(height.saturating_sub(1));
        lines.push(clock);
    }
    lines
}
