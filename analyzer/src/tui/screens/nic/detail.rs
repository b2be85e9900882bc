//! Everything about one queue pair: its life, its path and settings, the NIC's context now and over time, posted work,
//! events; and for what is not known the reason.

use std::cmp::Reverse;

use ratatui::text::Line;

use super::super::timeline::grid::Grid;
use super::super::trends::{self, Head};
use super::columns::timeout;
use super::reasons;
use super::rows::{self, Row};
use crate::analysis::{DeviceQp, QpPosts, QpSource};
use crate::entity::lives::{ERROR, GONE, NUMBER_REUSED};
use crate::model::Level;
use crate::tui::column::compact;
use crate::tui::psn_rates::Rates;
use crate::tui::readings::ReadingPoint;
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::panel::section;
use crate::tui::widgets::{Spans, cut};
use crate::util::units::{self, UNKNOWN};
use crate::util::wrap::hanging;

/// Lines of a chart, at most.
const TALLEST: usize = 24;
/// Events listed, at most.
const EVENTS: usize = 40;
/// Columns of a name before its value.
const NAME: usize = 18;

/// All lines of the detail; where these are fewer than `height`, the charts of its context are higher.
pub(super) fn lines(view: &View, row: &Row<'_>, (width, height): (usize, usize)) -> Vec<Line<'static>> {
    let least = lines_of(view, row, width, 1);
    let more = over_time(view, row, width, 2).len().saturating_sub(over_time(view, row, width, 1).len());
    let tall = 1 + height.saturating_sub(least.len()).checked_div(more).unwrap_or(0).min(TALLEST - 1);
    if tall > 1 { lines_of(view, row, width, tall) } else { least }
}

fn lines_of(view: &View, row: &Row<'_>, width: usize, tall: usize) -> Vec<Line<'static>> {
    let mut lines = about(view, row, width);
    lines.push(section("LIFE", "", width));
    lines.extend(pairs(&life(row), width));
    let (sources, settings) = by_source(row.qp, settings(row));
    lines.push(section("PATH AND SETTINGS", &sources, width));
    lines.extend(pairs(&settings, width));
    lines.push(section("PROGRESS", &read(row), width));
    lines.extend(pairs(&context(row), width));
    lines.extend(over_time(view, row, width, tall));
    if let Some(posts) = &row.qp.posts {
        lines.push(section("POSTED WORK", "of its process, in samples of post_send", width));
        lines.extend(pairs(&posted(posts), width));
    }
    lines.extend(events(row, width));
    lines.extend(unknown(view, row, width));
    lines
}

/// The queue pair in a line, and the findings about it.
fn about(view: &View, row: &Row<'_>, width: usize) -> Vec<Line<'static>> {
    let peer = row.qp.rqpn.map_or_else(|| UNKNOWN.to_owned(), |qpn| qpn.to_string());
    let mut spans = Spans::default();
    spans.push(format!(" QP {} → {peer}", row.qp.lqpn), theme::BOLD);
    let kind = row.qp.kind.unwrap_or(UNKNOWN);
    spans.push(format!("  {kind} {} on {}", row.state(), row.label()), theme::PLAIN);
    let driver = row.device.driver.as_deref().unwrap_or("unknown driver");
    spans.push(format!(" ({driver})"), theme::DIM);
    let sources: Vec<&str> = row.qp.sources.iter().map(|source| rows::words(*source)).collect();
    let known = cut(&sources.join(", "), width.saturating_sub(spans.width + 13), false);
    spans.push("  known from ", theme::DIM).push(known, theme::PLAIN);
    let mut lines = vec![spans.into_line()];
    for finding in rows::findings(view, row) {
        let level = Level::from(finding.severity);
        let (symbol, style) = theme::mark(level, true);
        let text = cut(&finding.title, width.saturating_sub(3), false);
        lines.push(Line::styled(format!(" {symbol} {text}"), style));
    }
    lines
}

type Pair = (&'static str, String);

/// Names with their values, in as many columns as there is room for.
fn pairs(all: &[Pair], width: usize) -> Vec<Line<'static>> {
    const COLUMN: usize = 38;
    let across = (width / COLUMN).max(1);
    let rows = all.len().div_ceil(across);
    let room = if across == 1 { width } else { COLUMN };
    (0..rows)
        .map(|y| {
            let mut spans = Spans::default();
            for x in 0..across {
                let Some((name, value)) = all.get(y + x * rows) else { continue };
                spans.push(" ".repeat((x * COLUMN).saturating_sub(spans.width)), theme::PLAIN);
                spans.push(format!(" {name:<NAME$}"), theme::DIM);
                let style = if value == UNKNOWN { theme::DIM } else { theme::PLAIN };
                spans.push(cut(value, room.saturating_sub(NAME + 2), false), style);
            }
            spans.into_line()
        })
        .collect()
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string())
}

fn life(row: &Row<'_>) -> Vec<Pair> {
    let control = &row.qp.control;
    let time = |ns: Option<u64>, without: &str| ns.map_or_else(|| without.to_owned(), units::second_utc);
    let end = if row.qp.sources.contains(&QpSource::Netlink) { "it exists" } else { "not seen" };
    let mut life = vec![
        ("process", text(row.process())),
        ("pod", text(row.qp.pod.clone())),
        ("made by", text(row.qp.origin)),
        ("created (UTC)", time(control.created_ns, "before the run")),
        ("ready to send", time(control.connected_ns, UNKNOWN)),
        ("connecting took", text(control.connect_took_ns.map(units::duration))),
        ("ended (UTC)", time(control.ended_ns, end)),
        ("age", text(row.age_ns.map(units::duration))),
    ];
    life.extend(control.end.map(|end| ("how it ended", how_ended(end).to_owned())));
    life
}

/// An end in words.
fn how_ended(end: &'static str) -> &'static str {
    match end {
        ERROR => "in the error state",
        NUMBER_REUSED => "number in use again",
        GONE => "not listed any more",
        other => other,
    }
}

/// A name and its value, and between them the figure as sources name it.
type Figure = (&'static str, &'static str, String);

fn settings(row: &Row<'_>) -> Vec<Figure> {
    let (qp, control) = (row.qp, &row.qp.control);
    let retries = |count: Option<u8>| match count {
        Some(7) => "7 (unlimited)".to_owned(),
        other => text(other),
    };
    let adaptive_routing = text(qp.adaptive_routing.map(|on| if on { "on" } else { "off" }));
    vec![
        ("from", "src", text(control.src)),
        ("to", "dst", text(control.dst)),
        ("UDP source port", "udp_port", text(control.udp_port)),
        ("flow label", "flow_label", text(control.flow_label.map(|label| format!("{label:#x}")))),
        ("DSCP", "dscp", text(control.dscp)),
        ("priority", "priority", text(qp.priority)),
        ("path MTU", "path_mtu", text(control.path_mtu)),
        ("timeout", "timeout_ns", text(control.timeout_ns.map(timeout))),
        ("retries", "retry_cnt", text(control.retry_cnt)),
        ("RNR retries", "rnr_retry", retries(control.rnr_retry)),
        ("adaptive routing", "adaptive_routing", adaptive_routing),
        ("plane", "plane", text(qp.plane)),
        ("port of the bond", "bond_port", text(qp.bond_port)),
    ]
}

/// A value with a mark of its source.
fn marked(value: String, source: Option<QpSource>) -> String {
    match source {
        Some(source) if value != UNKNOWN => format!("{value} ({})", rows::words(source)),
        _ => value,
    }
}

/// Figures, marked with their sources where these are others than that of most, which the title names.
fn by_source(qp: &DeviceQp, figures: Vec<Figure>) -> (String, Vec<Pair>) {
    let of = |(_, figure, value): &Figure| qp.source_of(figure).filter(|_| value != UNKNOWN);
    let number = |source: &QpSource| figures.iter().filter(|figure| of(figure) == Some(*source)).count();
    let used = QpSource::ALL.into_iter().filter(|source| number(source) > 0);
    let usual = used.clone().min_by_key(|source| Reverse(number(source)));
    let title = usual.map_or_else(String::new, |source| {
        let others = if used.count() > 1 { ", unless marked" } else { "" };
        format!("from {}{others}", rows::words(source))
    });
    let others = figures.iter().map(|figure| of(figure).filter(|_| of(figure) != usual)).collect::<Vec<_>>();
    let marked = |((name, _, value), source)| (name, marked(value, source));
    (title, figures.into_iter().zip(others).map(marked).collect())
}

/// Number of readings of the context, and the time of the latest.
fn read(row: &Row<'_>) -> String {
    match (row.qp.context_ns, row.qp.context_readings) {
        (Some(time_ns), Some(readings)) => {
            let readings = units::plural(readings, "reading");
            format!("NIC context: {readings}, the latest at {} UTC", units::second_utc(time_ns))
        }
        _ => "NIC context: not read".to_owned(),
    }
}

fn context(row: &Row<'_>) -> Vec<Pair> {
    let qp = row.qp;
    let count = |n: Option<u64>| n.map_or_else(|| UNKNOWN.to_owned(), units::count);
    // The others are of the context, which the title names.
    let elsewhere = |source: Option<QpSource>| source.filter(|source| *source != QpSource::Context);
    let packets = |n: Option<u64>, figure: &str| {
        let shown = text(n.map(|n| format!("{}{}", qp.packets_mark(), units::count(n))));
        marked(shown, elsewhere(qp.source_of(figure)))
    };
    let of_readings = |n: Option<u64>| n.map_or_else(|| UNKNOWN.to_owned(), |n| units::plural(n, "reading"));
    let rate = |rate: Option<f64>, of: Option<QpSource>| {
        marked(text(rate.map(|rate| format!("{} pkt/s", compact(rate)))), elsewhere(of))
    };
    let blamed = |n: Option<u64>| match (n, qp.attribution) {
        (Some(n), Some(how)) if n > 0 => format!("{} ({how})", units::count(n)),
        (n, _) => count(n),
    };
    vec![
        ("sends", rate(row.sent, row.rates_of.0)),
        ("receives", rate(row.received, row.rates_of.1)),
        ("packets sent", packets(qp.sent_packets, "sent_packets")),
        ("packets received", packets(qp.received_packets, "received_packets")),
        ("in flight", count(qp.in_flight.map(u64::from))),
        ("stuck", text(qp.stuck_ns.map(|ns| if ns == 0 { "no".to_owned() } else { units::duration(ns) }))),
        ("retries used", text(qp.retries_used)),
        ("RNR retries used", text(qp.rnr_retries_used)),
        ("retried in", of_readings(qp.retrying_readings)),
        ("unsent work", count(qp.unsent_wqes.map(u64::from))),
        ("posted receives", count(qp.posted_receives.map(u64::from))),
        ("port's timeouts", blamed(qp.timeouts)),
        ("port's PSN errors", blamed(qp.sequence_errors)),
    ]
}

/// The time between two readings, and what holds in it.
type Segment = (u64, u64, Option<f64>);

/// The highest value of the segments in each column.
fn columns(segments: &[Segment], grid: Grid) -> Vec<Option<f64>> {
    let column = |at: usize| {
        let (from_ns, to_ns) = (grid.start(at), grid.start(at + 1));
        let first = segments.partition_point(|(_, end_ns, _)| *end_ns <= from_ns);
        let inside = segments.iter().skip(first).take_while(|(begin_ns, ..)| *begin_ns < to_ns);
        inside.filter_map(|(.., value)| *value).reduce(f64::max)
    };
    (0..grid.columns).map(column).collect()
}

/// Charts of its readings, of `tall` lines each; nothing before there are two. A reading holds until the next one.
fn over_time(view: &View, row: &Row<'_>, width: usize, tall: usize) -> Vec<Line<'static>> {
    let points: Vec<&ReadingPoint> = view.timeline.readings.of(&row.device.name, row.qp.lqpn).collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let columns_of = trends::cells(width, NAME).max(1);
    let (from_ns, length_ns) = (first.time_ns, last.time_ns.saturating_sub(first.time_ns));
    if points.len() < 2 || length_ns == 0 {
        return Vec::new();
    }
    let grid = Grid { from_ns, column_ns: length_ns.div_ceil(columns_of as u64).max(1), columns: columns_of };
    let steps = || points.iter().zip(points.iter().skip(1));
    let states = |of: fn(&ReadingPoint) -> Option<f64>| -> (Vec<Segment>, Option<f64>) {
        let last = last.time_ns;
        let between = steps().map(|(then, next)| (then.time_ns, next.time_ns, of(then)));
        let own = points.last().map(|now| (last, u64::MAX, of(now)));
        (between.chain(own).collect(), points.last().and_then(|now| of(now)))
    };
    let rate = |of: fn(&Rates) -> Option<f64>| -> (Vec<Segment>, Option<f64>) {
        let rates = steps().map(|(then, now)| (then.time_ns, now.time_ns, of(&now.rates_since(then))));
        let all: Vec<Segment> = rates.collect();
        let now = all.last().and_then(|(.., value)| *value);
        (all, now)
    };
    let number: fn(f64) -> String = compact;
    let per_second: fn(f64) -> String = |value| format!("{}/s", compact(value));
    let charts = [
        ("in flight", states(|point| point.in_flight.map(f64::from)), number),
        ("retries used", states(|point| point.retries_used.map(f64::from)), number),
        ("packets sent", rate(|(sent, _)| *sent), per_second),
        ("packets received", rate(|(_, received)| *received), per_second),
    ];
    let range = units::span_utc(first.time_ns, last.time_ns);
    let mut lines = vec![section("CONTEXT OVER TIME", &format!("readings {range}"), width)];
    for (name, (segments, now), show) in charts {
        let values = columns(&segments, grid);
        let peak = values.iter().flatten().copied().reduce(f64::max);
        let [now, most] = [now, peak].map(|value| value.map_or_else(|| UNKNOWN.to_owned(), show));
        let head = Head { name: (name, NAME), now: (&now, theme::BOLD), most: &most };
        let tall = if peak.is_some_and(|peak| peak > 0.0) { tall } else { 1 };
        lines.extend(trends::drawn(&head, &values, tall, theme::BAR));
    }
    lines.push(trends::clock(grid, NAME));
    lines
}

fn posted(posts: &QpPosts) -> Vec<Pair> {
    let rate = |n: Option<u64>, unit: &dyn Fn(f64) -> String| {
        n.map_or_else(|| UNKNOWN.to_owned(), |n| format!("about {}", unit(n as f64)))
    };
    let opcodes: Vec<String> =
        posts.opcodes.iter().map(|of| format!("{} {}", of.name, compact(of.requests as f64))).collect();
    let sizes: Vec<String> = posts
        .sizes
        .iter()
        .map(|of| format!("≤{} {}", units::bytes(of.up_to).replace(' ', ""), compact(of.messages as f64)))
        .collect();
    vec![
        ("requests", rate(posts.requests_per_s, &units::per_second)),
        ("throughput", rate(posts.bytes_per_s.map(|bytes| bytes.saturating_mul(8)), &units::bit_rate)),
        ("sampled", units::duration(posts.sampled_ns)),
        ("calls", units::count(posts.calls)),
        ("opcodes", opcodes.join(", ")),
        ("sizes", sizes.join(", ")),
    ]
}

/// Events and failed verbs of the queue pair, the latest first.
fn events(row: &Row<'_>, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![section("EVENTS", "of this queue pair and its port, newest first", width)];
    let own =
        row.device.qp_events.iter().rev().filter(|event| {
            event.lqpn.is_none_or(|lqpn| lqpn == row.qp.lqpn) && row.qp.control.lived_at(event)
        });
    for event in own.take(EVENTS) {
        let mut spans = Spans::default();
        spans.push(format!(" {} ", units::clock_utc(event.time_ns)), theme::DIM);
        spans.push(event.event.clone(), theme::BOLD);
        if event.lqpn.is_none() {
            spans.push(" of the port", theme::DIM);
        }
        if let Some(errno) = event.errno {
            spans.push(format!("  errno {errno}"), theme::PLAIN);
        }
        if let Some(ns) = event.duration_ns {
            spans.push(format!("  after {}", units::duration(ns)), theme::PLAIN);
        }
        if let Some(reason) = &event.reason {
            spans.push(format!("  {reason}"), theme::PLAIN);
        }
        lines.push(spans.into_line());
    }
    if lines.len() == 1 {
        lines.push(Line::styled(" none", theme::DIM));
    }
    lines
}

/// Names of the figures that are not known.
fn dashes(row: &Row<'_>) -> Vec<&'static str> {
    let identity =
        [("peer QP", text(row.qp.rqpn)), ("type", text(row.qp.kind)), ("state", row.state().to_owned())];
    let settings = settings(row).into_iter().map(|(name, _, value)| (name, value));
    let all = identity.into_iter().chain(life(row)).chain(settings).chain(context(row));
    all.filter(|(_, value)| value == UNKNOWN).map(|(name, _)| name).collect()
}

/// Reasons for the dashes.
fn unknown(view: &View, row: &Row<'_>, width: usize) -> Vec<Line<'static>> {
    let Some(facts) = view.analysis.as_ref().map(|analysis| &analysis.report.facts) else {
        return Vec::new();
    };
    let kernel = view.data.as_ref().and_then(|data| data.sample.devices.kernel);
    let reasons = reasons::of(facts, row, kernel, dashes(row)).given;
    if reasons.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![section("NOT KNOWN", "why values are unavailable", width)];
    for reason in reasons {
        let parts = hanging(&format!(" {reason}"), width, 3);
        lines.extend(parts.into_iter().map(|part| Line::styled(part, theme::DIM)));
    }
    lines
}

#[cfg(test)]
#[path = "detail_tests.rs"]
mod tests;
