//! Everything about the selected queue pair, both directions side by side.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rocescope_common::account::flow::{DSCP_NONE, FlowStats, SRC_QP_SEVERAL};
use rocescope_common::account::{Mixed, PsnTrack};
use rocescope_common::wire::opcode::Name;

use super::trends::{self, LATENCY, TRENDS};
use super::{Spans, cut, empty, wrap};
use crate::model::health::CE_LIMIT;
use crate::model::{Counts, Detail, Level, Row};
use crate::packet::syndrome;
use crate::report::text::{P99_SAMPLES, P999_SAMPLES, enough};
use crate::tui::app::App;
use crate::tui::column::{self, Context, bar, compact};
use crate::tui::{log, theme};
use crate::units;

const NAME: usize = 9;
/// Entries of a list that are shown at least, whatever the height.
const LISTED: usize = 16;

/// Events that are listed.
const EVENTS: usize = 20;

/// Lines of this screen at its present width.
pub(in crate::tui) fn height(app: &App) -> usize {
    lines(app, usize::from(app.size.0)).len()
}

pub(super) fn render(buffer: &mut Buffer, area: Rect, app: &App) {
    if empty::nothing_at_all(buffer, area, app) {
        return;
    }
    let detail = app.data.as_ref().and_then(|data| data.detail.as_ref());
    if detail.is_none() {
        let gone = app.table.selected.is_some();
        let why = if gone { "This queue pair is no longer there." } else { "No queue pair is selected." };
        empty::because(buffer, area, why, "Choose one on screen 2 and press Enter.");
        return;
    }
    let lines = lines(app, usize::from(area.width));
    super::scrolled(buffer, area, &lines, app.detail.offset);
}

/// Both directions side by side, charts over time, the latest events.
fn lines(app: &App, width: usize) -> Vec<Line<'static>> {
    let Some(data) = &app.data else { return Vec::new() };
    let Some((this, other)) = &data.detail else { return Vec::new() };
    let half = width / 2;
    let left = direction(this, app, half, other.as_ref());
    let (right, more) = if let Some(other) = other {
        direction(other, app, width - half, Some(this))
    } else {
        let why = if this.peer_qp.is_some() {
            "the other direction was not seen here"
        } else {
            "the other direction is not known: no connection set-up was seen, and nothing else tells which it is"
        };
        let parts = wrap(why, (width - half).saturating_sub(3), 0);
        (parts.into_iter().map(|part| Line::styled(format!(" {part}"), theme::DIM)).collect(), Vec::new())
    };
    let mut lines = beside(left.0, right, half);
    lines.push(Line::default());
    lines.extend(charts(app, this, other.as_ref(), width));
    lines.push(Line::default());
    lines.extend(beside(left.1, more, half));
    lines.push(Line::default());
    lines.extend(events(app, this, other.as_ref()));
    lines
}

/// Two lists of lines, the second from column `at` on.
fn beside(left: Vec<Line<'static>>, right: Vec<Line<'static>>, at: usize) -> Vec<Line<'static>> {
    let count = left.len().max(right.len());
    let mut left = left.into_iter();
    let mut right = right.into_iter();
    (0..count)
        .map(|_| {
            let mut spans = Vec::new();
            let mut used = 0;
            for span in left.next().unwrap_or_default().spans {
                let room = at.saturating_sub(used + 1);
                let text = cut(&span.content, room, false);
                used += text.chars().count();
                if room > 0 {
                    spans.push(Span::styled(text, span.style));
                }
            }
            spans.push(Span::raw(" ".repeat(at - used.min(at))));
            spans.extend(right.next().unwrap_or_default().spans);
            Line::from(spans)
        })
        .collect()
}

/// One direction: how it fares, and what it is. `other` is the other direction, where it is known.
fn direction(
    detail: &Detail,
    app: &App,
    width: usize,
    other: Option<&Detail>,
) -> (Vec<Line<'static>>, Vec<Line<'static>>) {
    let route = cut(&log::route(&detail.id.key), width.saturating_sub(2), true);
    let row = app.data.as_ref().and_then(|data| data.model.rows.iter().find(|row| row.id == detail.id));
    let mut fares = vec![Line::styled(format!(" {route}"), theme::HEAD)];
    fares.extend(main(detail, row, app, other));
    let mut is = what(detail, row, app, other.map(|other| other.id.key.dest_qp));
    is.extend(lists(detail, width >= 50));
    (fares, is)
}

/// Rate, CE, CNP, repeats and latency over time.
fn charts(app: &App, detail: &Detail, other: Option<&Detail>, width: usize) -> Vec<Line<'static>> {
    let cells = width.saturating_sub(trends::AROUND + 1);
    let points = trends::flow_points(app, &detail.id, cells);
    let covered = units::duration(trends::covered(app, cells));
    let title = format!(" {} over {covered}, the newest at the right", log::route(&detail.id.key));
    let mut lines = vec![Line::styled(title, theme::HEAD)];
    lines.extend(TRENDS.iter().map(|trend| trends::row(trend, &points, cells)));
    // Requests are timed; of a flow of answers, those that it answers.
    let timed = |points: &[trends::Point]| points.iter().any(|point| point.latency.is_some());
    let others = other.map(|other| trends::flow_points(app, &other.id, cells));
    let shown = if timed(&points) { Some(points) } else { others.filter(|others| timed(others)) };
    if let Some(points) = shown {
        lines.extend(LATENCY.iter().map(|trend| trends::row(trend, &points, cells)));
    }
    lines
}

fn events(app: &App, this: &Detail, other: Option<&Detail>) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(" EVENTS of this queue pair, the latest first", theme::HEAD)];
    let until = app.shown_ns.unwrap_or(u64::MAX);
    let of = |entry: &&log::Entry| {
        entry.first_ns <= until
            && (entry.key == this.id.key || other.is_some_and(|other| entry.key == other.id.key))
    };
    lines.extend(app.log.latest().filter(of).take(EVENTS).map(super::events::row));
    if lines.len() == 1 {
        lines.push(Line::styled(" none", theme::DIM));
    } else {
        lines.push(Line::styled(" screen 7 shows the headers of each: Enter there", theme::DIM));
    }
    lines
}

fn entry(name: &str, text: impl Into<String>) -> Line<'static> {
    styled(name, text, Level::Fine)
}

fn styled(name: &str, text: impl Into<String>, level: Level) -> Line<'static> {
    let mut spans = Spans::default();
    spans.push(format!(" {name:<NAME$}"), theme::DIM).push(text, theme::text(level));
    spans.into_line()
}

fn bad(is_bad: bool, level: Level) -> Level {
    if is_bad { level } else { Level::Fine }
}

/// What is bad comes first, so that it shows on small screens.
fn main(detail: &Detail, row: Option<&Row>, app: &App, other: Option<&Detail>) -> Vec<Line<'static>> {
    let stats = &detail.stats;
    let delta = row.and_then(|row| row.delta);
    let rate = delta.map_or_else(
        || units::UNKNOWN.into(),
        |d| format!("{}, {} pkt/s", units::bit_rate(d.bits_per_s()), compact(d.packets_per_s())),
    );
    let ratio = Counts::counted(stats).ce_ratio();
    let now = delta.and_then(|d| d.counts.ce_ratio());
    let [not_ect, ect1, ect0, ce] = stats.ecn();
    let marks = [(ce, "CE"), (ect0, "ECT0"), (ect1, "ECT1"), (not_ect, "not ECT")];
    let marks: Vec<String> = marks
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", compact(count as f64)))
        .collect();
    let naks: u64 = stats.naks.iter().sum();
    let mut lines = vec![
        entry("rate", rate),
        entry(
            "total",
            format!(
                "{}, {} packet{}",
                units::bytes(stats.bytes),
                units::count(stats.packets),
                if stats.packets == 1 { "" } else { "s" }
            ),
        ),
    ];
    lines.extend(psn("PSN", &stats.psn));
    if stats.psn_responses.seen != 0 {
        lines.extend(psn("PSN resp", &stats.psn_responses));
    }
    lines.extend([
        styled(
            "acks",
            format!("{} ACK, {} RNR, {naks} NAK", compact(stats.acks as f64), stats.rnr_naks),
            if naks > 0 { Level::Critical } else { bad(stats.rnr_naks > 0, Level::Warning) },
        ),
        styled(
            "ECN",
            format!(
                "CE {} now, {} in all; {} CNP",
                units::ratio(now),
                units::ratio(ratio),
                compact(stats.cnp_packets as f64)
            ),
            bad(ratio.is_some_and(|r| r >= CE_LIMIT) || stats.cnp_packets > 0, Level::Warning),
        ),
        entry("", marks.join(", ")),
    ]);
    lines.extend(nak_codes(stats));
    lines.extend(asks_for(detail, other));
    lines.extend(asked_for(other));
    lines.extend(latency(detail, row, app));
    lines
}

/// Of a flow of answers with NAKs for a PSN sequence error: whose data they ask for again, for it is that which was
/// lost, not these answers.
fn asks_for(detail: &Detail, other: Option<&Detail>) -> Vec<Line<'static>> {
    let [sequence, ..] = detail.stats.naks;
    if sequence == 0 {
        return Vec::new();
    }
    // The data goes to the queue pair that sends these answers.
    let data = match detail.peer_qp.or(other.map(|other| other.id.key.dest_qp)) {
        Some(qp) => format!("sent to its QP {qp}"),
        None => "sent to a QP not known".to_owned(),
    };
    vec![styled("", "asks for lost data again,", Level::Critical), styled("", data, Level::Critical)]
}

/// Of a flow of data: NAKs of its receiver, in the other direction.
fn asked_for(other: Option<&Detail>) -> Vec<Line<'static>> {
    let naks = other.map_or(0, |other| other.stats.naks[0]);
    if naks == 0 {
        return Vec::new();
    }
    let s = if naks == 1 { "" } else { "s" };
    vec![styled("lost", format!("{} NAK{s} of its receiver", compact(naks as f64)), Level::Critical)]
}

/// Whose it is and what its packets look like.
fn what(detail: &Detail, row: Option<&Row>, app: &App, sender: Option<u32>) -> Vec<Line<'static>> {
    let stats = &detail.stats;
    let mut lines = owner(row, app);
    lines.push(entry("peer QP", peer(detail, sender)));
    let (path, tags) = path(detail);
    lines.extend([entry("path", path), entry("tags", tags)]);
    lines.push(entry("link", detail.link.clone()));
    lines.push(entry("last", format!("{} UTC", units::clock_utc(stats.last_ns))));
    let mixed: Vec<&str> =
        Mixed::NAMES.iter().filter(|(bit, _)| stats.mixed & bit != 0).map(|(_, name)| *name).collect();
    if !mixed.is_empty() {
        lines.push(styled("changed", mixed.join(", "), Level::Warning));
    }
    lines
}

/// Percentiles of latency, in the span and since the start.
fn latency(detail: &Detail, row: Option<&Row>, app: &App) -> Vec<Line<'static>> {
    let timed = app.data.as_ref().and_then(|data| data.sample.figures.latency.as_ref());
    let all = timed.and_then(|timed| timed.get(&detail.id.slot)).and_then(|figure| figure.all);
    let Some(all) = all else { return vec![entry("latency", units::UNKNOWN)] };
    let now = row.zip(app.data.as_ref()).and_then(|(row, data)| data.model.latency(row)).map_or_else(
        || units::UNKNOWN.to_owned(),
        |times| {
            let (p50, p99) =
                (units::duration(times.p50.ns()), enough(times.p99.ns(), times.count, P99_SAMPLES));
            format!("now: p50 {p50}, p99 {p99}")
        },
    );
    let [p50, max] = [all.p50, all.max].map(units::duration);
    let p99 = enough(all.p99, all.count, P99_SAMPLES);
    let p999 = enough(all.p999, all.count, P999_SAMPLES);
    vec![
        entry("latency", now),
        entry("", format!("all: p50 {p50}, p99 {p99}")),
        entry("", format!("     p99.9 {p999}, max {max}")),
        entry(
            "",
            format!("     {} sample{}", compact(all.count as f64), if all.count == 1 { "" } else { "s" }),
        ),
    ]
}

/// Process, pod and device, where the kernel says whose the queue pair is.
fn owner(row: Option<&Row>, app: &App) -> Vec<Line<'static>> {
    let owner = row.zip(app.data.as_ref()).and_then(|(row, data)| {
        let cx = Context { model: &data.model, sample: &data.sample };
        cx.owner(row)
    });
    let Some(owner) = owner else { return Vec::new() };
    let mut lines: Vec<Line<'static>> = Vec::new();
    lines.extend(column::process(owner).map(|process| entry("process", process)));
    lines.extend(owner.pod.clone().map(|pod| entry("pod", pod)));
    let state = owner.state.map_or_else(String::new, |state| format!(", {state}"));
    lines.push(entry("device", format!("{} QP {}{state}", owner.device, owner.lqpn)));
    lines
}

fn psn(name: &str, track: &PsnTrack) -> Vec<Line<'static>> {
    if track.seen == 0 {
        return vec![entry(name, units::UNKNOWN)];
    }
    let found = [
        (track.missing, "missing", ""),
        (track.gaps, "gap", "s"),
        (track.repeats, "repeat", "s"),
        (track.restarts, "restart", "s"),
    ];
    let found: Vec<String> = found
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, what, s)| {
            format!("{} {what}{}", compact(count as f64), if count == 1 { "" } else { s })
        })
        .collect();
    let expected = format!("next {}", track.expected);
    if found.is_empty() {
        return vec![entry(name, format!("in order, {expected}"))];
    }
    let repeated = bad(track.repeats > 0, Level::Warning);
    let level = if track.gaps > 0 { Level::Critical } else { repeated };
    // Two to a line: half of a narrow screen has no room for more.
    let pairs = found.chunks(2).enumerate();
    let mut lines: Vec<Line<'static>> =
        pairs.map(|(at, two)| styled(if at == 0 { name } else { "" }, two.join(", "), level)).collect();
    lines.push(entry("", format!("{expected}, first {}", track.first)));
    lines
}

fn nak_codes(stats: &FlowStats) -> Vec<Line<'static>> {
    let codes = (0u32..).zip(stats.naks).filter(|(_, count)| *count > 0);
    codes
        .map(|(code, count)| {
            let name = syndrome((0x60 | code) << 24);
            styled("", format!("{count} {name}"), Level::Critical)
        })
        .collect()
}

fn peer(detail: &Detail, sender: Option<u32>) -> String {
    match (detail.peer_qp.or(sender), detail.stats.src_qp) {
        (Some(qp), _) => qp.to_string(),
        (None, SRC_QP_SEVERAL) => "several".to_owned(),
        (None, _) => "not known".to_owned(),
    }
}

/// What the packets look like: RoCE version, MTU and DSCP, then tags and tunnels.
fn path(detail: &Detail) -> (String, String) {
    let stats = &detail.stats;
    let mtu = if stats.mtu > 0 { stats.mtu.to_string() } else { units::UNKNOWN.to_owned() };
    let dscp = if stats.dscp == DSCP_NONE { units::UNKNOWN.to_owned() } else { stats.dscp.to_string() };
    let mut tags = vec![match stats.vlan_id() {
        None => "VLAN not known".to_owned(),
        Some(0) => "untagged".to_owned(),
        Some(id) => format!("VLAN {id}"),
    }];
    if let Some(id) = stats.inner_vlan_id().filter(|id| *id != 0) {
        tags.push(format!("inner VLAN {id}"));
    }
    tags.extend(stats.priority().map(|pcp| format!("PCP {pcp}")));
    if !detail.encapsulation.is_empty() {
        tags.push(detail.encapsulation.join("/"));
    }
    (format!("RoCEv{}, MTU {mtu}, DSCP {dscp}", stats.roce_version), tags.join(", "))
}

fn lists(detail: &Detail, bars: bool) -> Vec<Line<'static>> {
    let packets = detail.stats.packets;
    let mut lines = vec![Line::styled(" opcodes", theme::DIM)];
    for (code, count) in detail.opcodes.iter().take(LISTED) {
        lines.push(counted(&Name(*code).to_string(), *count, packets, bars));
    }
    let ports = detail.ports.len();
    if ports > 0 {
        lines.push(Line::styled(format!(" source ports: {ports}"), theme::DIM));
        for (port, counter) in detail.ports.iter().take(LISTED) {
            lines.push(counted(&port.to_string(), counter.packets, packets, bars));
        }
    }
    lines
}

fn counted(name: &str, count: u64, all: u64, bars: bool) -> Line<'static> {
    let share = if all > 0 { count as f64 / all as f64 } else { 0.0 };
    let mut spans = Spans::default();
    spans.push(format!(" {:>6} ", compact(count as f64)), theme::BOLD);
    if bars {
        spans.push(format!("{} ", bar(share, 5)), theme::BAR);
    }
    spans.push(name, theme::PLAIN);
    spans.into_line()
}
