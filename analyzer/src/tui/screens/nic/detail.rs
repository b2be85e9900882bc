//! Everything about one queue pair: its life, its path and settings, the NIC's context now and over time, posted work,
//! events; and for what is not known the reason.

use ratatui::text::Line;

use super::super::{Spans, cut, spark};
use super::columns::timeout;
use super::rows::{self, Row};
use crate::analysis::{Facts, QpPosts, QpSource};
use crate::entity::lives::{ERROR, NUMBER_REUSED};
use crate::model::Level;
use crate::tui::column::compact;
use crate::tui::readings::{self, ReadingPoint};
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::panel::section;
use crate::util::source_port::{self, is_computed};
use crate::util::units::{self, UNKNOWN};
use crate::util::wrap::hanging;

/// Cells of a chart, at most.
const CELLS: usize = 60;
/// Events listed, at most.
const EVENTS: usize = 40;
/// Columns of a name before its value.
const NAME: usize = 18;

/// All lines of the detail.
pub(super) fn lines(view: &View, row: &Row<'_>, width: usize) -> Vec<Line<'static>> {
    let mut lines = about(view, row, width);
    lines.push(section("LIFE", "", width));
    lines.extend(pairs(&life(row), width));
    lines.push(section("PATH AND SETTINGS", "", width));
    lines.extend(pairs(&settings(row), width));
    lines.push(section("PROGRESS", &read(row), width));
    lines.extend(pairs(&context(row), width));
    lines.extend(over_time(view, row, width));
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
    vec![
        ("process", text(row.process())),
        ("pod", text(row.qp.pod.clone())),
        ("made by", text(row.qp.origin)),
        ("created (UTC)", time(control.created_ns, "before the run")),
        ("ready to send", time(control.connected_ns, UNKNOWN)),
        ("connecting took", text(control.connect_took_ns.map(units::duration))),
        ("ended (UTC)", time(control.ended_ns, end)),
        ("how it ended", text(control.end.map(how_ended))),
        ("age", text(row.age_ns.map(units::duration))),
    ]
}

/// An end in words.
fn how_ended(end: &'static str) -> &'static str {
    match end {
        ERROR => "in the error state",
        NUMBER_REUSED => "number in use again",
        other => other,
    }
}

fn settings(row: &Row<'_>) -> Vec<Pair> {
    let (qp, control) = (row.qp, &row.qp.control);
    let retries = |count: Option<u8>| match count {
        Some(7) => "7 (unlimited)".to_owned(),
        other => text(other),
    };
    vec![
        ("from", text(control.src)),
        ("to", text(control.dst)),
        ("UDP source port", text(control.udp_port)),
        ("flow label", text(control.flow_label.map(|label| format!("{label:#x}")))),
        ("DSCP", text(control.dscp)),
        ("priority", text(qp.priority)),
        ("path MTU", text(control.path_mtu)),
        ("timeout", text(control.timeout_ns.map(timeout))),
        ("retries", text(control.retry_cnt)),
        ("RNR retries", retries(control.rnr_retry)),
        ("adaptive routing", text(qp.adaptive_routing.map(|on| if on { "on" } else { "off" }))),
        ("plane", text(qp.plane)),
        ("port of the bond", text(qp.bond_port)),
    ]
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
    let of_readings = |n: Option<u64>| n.map_or_else(|| UNKNOWN.to_owned(), |n| units::plural(n, "reading"));
    let rate = |rate: Option<f64>| {
        rate.map_or_else(|| UNKNOWN.to_owned(), |rate| format!("{} pkt/s", compact(rate)))
    };
    let blamed = |n: Option<u64>| match (n, qp.attribution) {
        (Some(n), Some(how)) => format!("{} ({how})", units::count(n)),
        (n, _) => count(n),
    };
    vec![
        ("sends", rate(row.sent)),
        ("receives", rate(row.received)),
        ("packets sent", count(qp.sent_packets)),
        ("packets received", count(qp.received_packets)),
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

/// Charts of its readings; nothing before there are two.
fn over_time(view: &View, row: &Row<'_>, width: usize) -> Vec<Line<'static>> {
    let points: Vec<&ReadingPoint> = view.timeline.readings.of(&row.device.name, row.qp.lqpn).collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    if points.len() < 2 {
        return Vec::new();
    }
    // With fewer readings than cells, gaps would look like an absence.
    let cells = width.saturating_sub(NAME + 24).min(points.len()).clamp(1, CELLS);
    let span_ns = last.time_ns.saturating_sub(first.time_ns).max(1);
    let place = |time_ns: u64| {
        let at = u128::from(time_ns.saturating_sub(first.time_ns)) * cells as u128 / u128::from(span_ns);
        usize::try_from(at).unwrap_or(0).min(cells - 1)
    };
    let chart =
        |name: &str, values: &mut dyn Iterator<Item = (u64, Option<f64>)>, show: &dyn Fn(f64) -> String| {
            let mut of = vec![None; cells];
            let mut now = None;
            for (time_ns, value) in values {
                now = value;
                if let (Some(value), Some(cell)) = (value, of.get_mut(place(time_ns))) {
                    *cell = Some(f64::max(value, cell.unwrap_or(0.0)));
                }
            }
            let most = of.iter().flatten().copied().fold(0.0, f64::max);
            let mut spans = Spans::default();
            spans.push(format!(" {name:<NAME$}"), theme::DIM).push(spark(&of, most), theme::BAR);
            let most =
                if now.is_some() || of.iter().any(Option::is_some) { show(most) } else { UNKNOWN.to_owned() };
            spans.push(format!(" {}", now.map_or_else(|| UNKNOWN.to_owned(), show)), theme::BOLD);
            spans.push(format!(", most {most}"), theme::DIM);
            spans.into_line()
        };
    let number = |value: f64| compact(value);
    let rate = |value: f64| format!("{}/s", compact(value));
    let steps = || {
        points.iter().zip(points.iter().skip(1)).map(|(then, now)| (now.time_ns, readings::rates(then, now)))
    };
    let range = units::span_utc(first.time_ns, last.time_ns);
    vec![
        section("CONTEXT OVER TIME", &format!("readings {range}"), width),
        chart("in flight", &mut points.iter().map(|p| (p.time_ns, p.in_flight.map(f64::from))), &number),
        chart(
            "retries used",
            &mut points.iter().map(|p| (p.time_ns, p.retries_used.map(f64::from))),
            &number,
        ),
        chart("packets sent", &mut steps().map(|(time, (sent, _))| (time, sent)), &rate),
        chart("packets received", &mut steps().map(|(time, (_, received))| (time, received)), &rate),
    ]
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
    let control = &row.qp.control;
    let in_life = |time_ns: u64| {
        control.created_ns.is_none_or(|made| made <= time_ns)
            && control.ended_ns.is_none_or(|end| time_ns <= end)
    };
    let own = row
        .device
        .qp_events
        .iter()
        .rev()
        .filter(|event| event.lqpn.is_none_or(|lqpn| lqpn == row.qp.lqpn) && in_life(event.time_ns));
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

/// Why there are dashes.
fn unknown(view: &View, row: &Row<'_>, width: usize) -> Vec<Line<'static>> {
    let Some(facts) = view.analysis.as_ref().map(|analysis| &analysis.report.facts) else {
        return Vec::new();
    };
    let reasons = reasons(facts, row);
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

fn reasons(facts: &Facts, row: &Row<'_>) -> Vec<String> {
    let (qp, control) = (row.qp, &row.qp.control);
    let has = |source| qp.sources.contains(&source);
    let mut reasons = Vec::new();
    if !has(QpSource::ControlPath) && !has(QpSource::Devx) {
        let why = facts.qp_lives.as_ref().and_then(|lives| lives.unavailable.clone());
        let why = why.unwrap_or_else(|| "no verb observed since the run began".to_owned());
        reasons.push(format!("path, settings, creation: {why}"));
    } else if control.created_ns.is_none() {
        reasons.push("creation: it is older than the run".to_owned());
    }
    if qp.rqpn.is_none() {
        reasons.push("peer, path, settings: it is not connected".to_owned());
    } else if control.udp_port.is_none() && (control.dst.is_some() || has(QpSource::ControlPath)) {
        let driver = row.device.driver.as_deref().unwrap_or("the driver");
        reasons.push(if is_computed(driver) {
            "UDP source port: its flow label was not seen".to_owned()
        } else {
            source_port::unknown(driver)
        });
    }
    if !has(QpSource::Context) {
        let refused = facts.qp_context.iter().flat_map(|contexts| &contexts.refused);
        let mut own = refused.filter_map(|one| one.strip_prefix(&format!("{}: ", row.device.name)));
        let why = match (own.next(), &facts.qp_context) {
            (Some(why), _) => why.to_owned(),
            (None, _) if has(QpSource::Devx) => {
                "the kernel lists no queue pair that was made past the verbs (--fwctl asks the firmware)"
                    .to_owned()
            }
            (None, _) if row.has_ended() => "it has ended".to_owned(),
            (None, None) => "contexts are not read (--qp-queries)".to_owned(),
            (None, Some(contexts)) => format!("not read yet: {} queries a second at most", contexts.at_most),
        };
        reasons.push(format!("NIC context: {why}"));
    }
    if row.sent.is_none() && row.received.is_none() && !row.has_ended() {
        reasons.push("packet rates: its PSNs are not reported, stand still at the connection's start, or were read once".to_owned());
    }
    if qp.posts.is_none() {
        let why = match &facts.post_sampling {
            None => "not sampled (--sample-posts)",
            Some(_) if has(QpSource::Devx) => "a GPU posts, or direct verbs",
            Some(_) => "nothing was posted in a window",
        };
        reasons.push(format!("posted work: {why}"));
    }
    if !has(QpSource::Packets) {
        reasons
            .push("packets: none of it was captured; a NIC that does RoCE in hardware shows none".to_owned());
    }
    reasons
}
