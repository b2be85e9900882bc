//! The lines at the top: source and time, figures, verdict, own losses, screens.

use ratatui::buffer::Buffer;
use ratatui::text::Line;

use super::{Spans, join, line, spark};
use crate::model::{Basis, Kind, Level, Lost, Problem};
use crate::report::Imbalance;
use crate::sample::SourceKind;
use crate::tui::app::{App, Data, End, Screen};
use crate::tui::column::compact;
use crate::tui::layout::Layout;
use crate::tui::{log, theme};
use crate::units;

/// Cells of the sparkline among the figures.
const SPARK: usize = 10;
/// From this ratio of the fullest link to the mean on, links are called unbalanced.
pub(super) const UNBALANCED: f64 = 1.25;
/// Hashing is called bad when this many 5-tuples or more have less than this normalized entropy.
const FEW_TUPLES: u64 = 8;
pub(super) const LOW_ENTROPY: f64 = 0.5;

pub(super) fn render(buffer: &mut Buffer, at: &Layout, app: &App) {
    title(buffer, at, app);
    if let Some(data) = &app.data {
        figures(buffer, at, app, data);
        verdict(buffer, at, app, data);
        warning(buffer, at, data);
    } else {
        line(buffer, at.verdict, 0, &Line::styled(" waiting for the first figures", theme::DIM));
    }
    tabs(buffer, at, app);
}

fn title(buffer: &mut Buffer, at: &Layout, app: &App) {
    let mut right = Spans::default();
    if let Some(data) = &app.data {
        let model = &data.model;
        if model.time_ns > 0 {
            right.push(units::clock_utc(model.time_ns), theme::PLAIN).push(" UTC  ", theme::DIM);
        }
        if let Some(ns) = model.window_ns {
            right.push(units::duration(ns), theme::PLAIN).push("  ", theme::PLAIN);
        }
    }
    let (text, style) = phase(app);
    right.push(format!(" {text} "), style);
    let width = usize::from(at.title.width);
    let room = width.saturating_sub(right.width + 2);

    let mut left = Spans::default();
    left.push(" rocescope ", theme::SELECTED.patch(theme::BOLD)).push(" ", theme::PLAIN);
    if let Some(data) = &app.data {
        let kind = match data.model.kind {
            SourceKind::Live => "live ",
            SourceKind::Replay => "replay ",
        };
        left.push(kind, theme::DIM);
        let inputs = data.model.inputs.join(", ");
        let room = room.saturating_sub(left.width);
        left.push(super::cut(&inputs, room, true), theme::BOLD);
    }
    line(buffer, at.title, 0, &left.into_line());
    let x = at.title.width.saturating_sub(right.width.try_into().unwrap_or(u16::MAX));
    let area = ratatui::layout::Rect { x, width: at.title.width - x, ..at.title };
    line(buffer, area, 0, &right.into_line());
}

fn phase(app: &App) -> (String, ratatui::style::Style) {
    match (&app.end, app.paused) {
        (Some(End::Failed(_)), _) => ("FAILED".into(), theme::badge(Level::Critical)),
        (Some(End::Done), _) => ("ENDED".into(), theme::SELECTED),
        (None, true) => ("PAUSED".into(), theme::badge(Level::Warning)),
        (None, false) => match app.speed {
            Some(speed) if speed.is_infinite() => ("▶ max".into(), theme::BOLD),
            Some(speed) => (format!("▶ {speed}x"), theme::BOLD),
            None => ("▶".into(), theme::BOLD),
        },
    }
}

fn part(text: impl Into<String>, style: ratatui::style::Style) -> Spans {
    let mut spans = Spans::default();
    spans.push(text, style);
    spans
}

/// A figure with its name, dim when it is zero or unknown.
fn figure(name: &str, value: String, level: Level) -> Spans {
    let mut spans = Spans::default();
    let style = match value.as_str() {
        "0" | "0 %" | "0 /s" | units::UNKNOWN => theme::DIM,
        _ => theme::text(level),
    };
    spans.push(format!("{name} "), theme::DIM).push(value, style);
    spans
}

fn figures(buffer: &mut Buffer, at: &Layout, app: &App, data: &Data) {
    let model = &data.model;
    let delta = model.delta;
    let rate = delta.map_or_else(|| units::UNKNOWN.into(), |d| units::bit_rate(d.bits_per_s()));
    let mut first = part(format!(" {rate:>9}"), theme::BOLD);
    if matches!(model.basis, Basis::Whole(_)) {
        first.push(" average", theme::DIM);
    } else {
        let values: Vec<Option<f64>> =
            app.history.latest(SPARK).map(|point| point.per_second(|c| c.bytes)).collect();
        let max = values.iter().flatten().copied().fold(0.0, f64::max);
        first.push(" ", theme::PLAIN).push(format!("{:>SPARK$}", spark(&values, max)), theme::BAR);
    }
    let packets = delta.map_or_else(|| units::UNKNOWN.into(), |d| compact(d.packets_per_s()));
    let mut packet_rate = part(packets, theme::BOLD);
    packet_rate.push(" pkt/s", theme::DIM);

    let total = &model.total;
    let marked = |ratio: Option<f64>| Kind::Marked.is_in(total) && ratio.is_some_and(|r| r > 0.0);
    let level = |bad: bool, level: Level| if bad { level } else { Level::Fine };
    let now = model.ce_now();
    let ce_off = total.packets > 0 && total.ce_ratio().is_none();
    let ce = if ce_off { "ECN off".to_owned() } else { units::ratio(now) };
    let cnp = delta.map_or_else(|| units::UNKNOWN.into(), |d| format!("{}/s", compact(d.cnp_per_s())));
    let cnp_level = level(total.cnp > 0, Level::Warning);
    let cnp = if cnp == "0/s" { part("CNP 0/s", theme::DIM) } else { figure("CNP", cnp, cnp_level) };
    let parts = vec![
        first,
        packet_rate,
        figure("CE", ce, level(marked(now), Level::Warning)),
        cnp,
        figure("lost", compact(total.missing as f64), Level::Critical),
        figure("RNR", compact(total.rnr as f64), Level::Warning),
        figure("NAK", compact((total.sequence_naks + total.other_naks) as f64), Level::Critical),
        figure("repeats", compact(total.repeats as f64), Level::Warning),
        figure("gaps", compact(total.gaps as f64), Level::Critical),
        figure("CE overall", units::ratio(total.ce_ratio()), Level::Warning),
        figure("CNPs", compact(total.cnp as f64), Level::Warning),
        figure("RoCE", units::bytes(total.bytes), Level::Fine),
        figure("packets", compact(total.packets as f64), Level::Fine),
    ];
    let (spans, _) = join(parts, usize::from(at.figures.width), " │ ");
    line(buffer, at.figures, 0, &spans.into_line());
}

fn verdict(buffer: &mut Buffer, at: &Layout, app: &App, data: &Data) {
    let width = usize::from(at.verdict.width);
    let parts = |long: bool| -> Vec<Spans> {
        let problems = data.problems.iter().map(|problem| problem_part(problem, app, data, long));
        let links = data.imbalance.iter().filter_map(|imbalance| unbalanced(imbalance, long));
        problems.chain(links).chain(hashing(data, long)).collect()
    };
    let long = parts(true);
    if long.is_empty() {
        line(buffer, at.verdict, 0, &no_problem(data).into_line());
        return;
    }
    // Sentences when they all fit, else each problem with its one figure, so that none is hidden.
    let (mut spans, mut left_out) = join(long, width, "  ");
    if left_out > 0 {
        // Room for the count of what does not fit even so.
        (spans, left_out) = join(parts(false), width.saturating_sub(4), "  ");
    }
    if left_out > 0 {
        spans.push(format!("  +{left_out}"), theme::BOLD);
    } else if let Some(problem) = data.problems.first() {
        let route = data.model.rows.get(problem.worst).map(|row| log::route(&row.id.key));
        let worst = route.map_or_else(String::new, |route| format!("  worst: {route}"));
        if spans.width + worst.chars().count() <= width {
            spans.push(worst, theme::PLAIN);
        }
    }
    line(buffer, at.verdict, 0, &spans.into_line());
}

fn no_problem(data: &Data) -> Spans {
    let model = &data.model;
    if model.total.packets == 0 {
        let mut spans = part(" ○ NO RoCE ", theme::SELECTED);
        spans.push(" no RoCE packet so far", theme::PLAIN);
        return spans;
    }
    let mut spans = part(format!(" {} HEALTHY ", theme::symbol(Level::Fine)), theme::badge(Level::Fine));
    let qps = model.rows.len();
    let s = if qps == 1 { "" } else { "s" };
    let ecn = if model.total.ce_ratio().is_none() { "; ECN is off" } else { "" };
    spans.push(format!(" no loss, no NAK, no congestion in {qps} QP direction{s}{ecn}"), theme::PLAIN);
    spans
}

fn badge(level: Level, word: &str) -> Spans {
    part(format!(" {} {word} ", theme::symbol(level)), theme::badge(level))
}

fn problem_part(problem: &Problem, app: &App, data: &Data, long: bool) -> Spans {
    let kind = problem.kind;
    let total = &data.model.total;
    let n = |n: u64| compact(n as f64);
    let (word, short, text) = match kind {
        Kind::Loss => {
            let counts = [(total.missing, "missing"), (total.sequence_naks, "NAKs")];
            let mut found = counts.iter().filter(|(count, _)| *count > 0);
            let text: Vec<String> =
                found.clone().map(|(count, what)| format!("{} {what}", n(*count))).collect();
            ("LOSS", n(found.next().map_or(0, |(count, _)| *count)), text.join(", "))
        }
        Kind::Refused => ("NAK", n(total.other_naks), format!("{} requests refused", n(total.other_naks))),
        Kind::NotReady => ("RNR", n(total.rnr), format!("{} receiver not ready", n(total.rnr))),
        Kind::Resent => ("RPT", n(total.repeats), format!("{} sent again", n(total.repeats))),
        Kind::Marked => {
            let ratio = if app.end.is_none() { data.model.ce_now() } else { total.ce_ratio() };
            let ratio = units::ratio(ratio);
            (if long { "CONGESTION" } else { "CE" }, ratio.clone(), format!("CE {ratio}"))
        }
        Kind::Notified => ("CNP", n(total.cnp), format!("{} to slow down", n(total.cnp))),
    };
    let mut spans = Spans::default();
    if problem.present {
        spans.append(badge(kind.level(), word));
    } else {
        let text = format!(" {} earlier: {}", theme::symbol(kind.level()), word.to_lowercase());
        spans.push(text, theme::text(kind.level()));
    }
    if long {
        spans.push(format!(" {text}"), theme::PLAIN);
        spans.push(
            format!(" in {} QP{}", problem.flows, if problem.flows == 1 { "" } else { "s" }),
            theme::DIM,
        );
    } else {
        spans.push(format!(" {short}"), theme::PLAIN);
    }
    spans
}

fn unbalanced(imbalance: &Imbalance, long: bool) -> Option<Spans> {
    let ratio = imbalance.max_over_mean.filter(|ratio| *ratio >= UNBALANCED)?;
    let mut spans = badge(Level::Warning, if long { "IMBALANCE" } else { "IMBAL" });
    let what = if long {
        format!(" fullest link {ratio:.2}x the mean of {}", imbalance.links.len())
    } else {
        format!(" {ratio:.2}x")
    };
    spans.push(what, theme::PLAIN);
    Some(spans)
}

fn hashing(data: &Data, long: bool) -> Option<Spans> {
    let entropy = &data.entropy;
    let low = entropy.normalized.is_some_and(|n| n < LOW_ENTROPY);
    if !low || entropy.five_tuples < FEW_TUPLES {
        return None;
    }
    let mut spans = badge(Level::Warning, if long { "HASHING" } else { "HASH" });
    let top = units::ratio(entropy.top_share);
    let what = if long {
        format!(" {top} of the bytes in one of {} 5-tuples", entropy.five_tuples)
    } else {
        format!(" {top}")
    };
    spans.push(what, theme::PLAIN);
    Some(spans)
}

fn warning(buffer: &mut Buffer, at: &Layout, data: &Data) {
    let lost = &data.model.lost;
    if !lost.any() {
        return;
    }
    let word = if data.model.losing { "MISSING NOW" } else { "NOT ALL SEEN" };
    let mut spans = badge(Level::Warning, word);
    spans.push(format!(" {}", own_losses(lost)), theme::BOLD);
    spans.push("; a loss shown may be our own", theme::PLAIN);
    line(buffer, at.warning, 0, &spans.into_line());
}

/// What was missed, in words.
pub(super) fn own_losses(lost: &Lost) -> String {
    let known = [
        (Some(lost.flow_table_full), "packets found the flow table full"),
        (Some(lost.contended), "packets did not get at their flow's counters"),
        (lost.capture_drops, "dropped by the capture"),
        (lost.interface_drops, "dropped by the interface"),
        (lost.events_dropped, "events dropped"),
        (Some(lost.extra_full), "packets without their port or opcode"),
    ];
    let parts = known.into_iter().filter_map(|(count, what)| {
        let count = count.filter(|count| *count > 0)?;
        Some(format!("{} {what}", compact(count as f64)))
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn tabs(buffer: &mut Buffer, at: &Layout, app: &App) {
    let mut spans = part(" ", theme::PLAIN);
    for (number, screen) in (1..).zip(Screen::ALL) {
        let count = match screen {
            Screen::Flows => app.data.as_ref().map(|data| data.model.rows.len() as u64),
            Screen::Links => app.data.as_ref().map(|data| data.model.links.len() as u64),
            Screen::Events => Some(app.log.seen()),
            Screen::Trends => None,
        };
        let count = count.map_or_else(String::new, |n| format!(" {}", compact(n as f64)));
        let style = if screen == app.screen { theme::SELECTED.patch(theme::BOLD) } else { theme::PLAIN };
        spans.push(format!(" {number} {}{count} ", screen.title()), style).push(" ", theme::PLAIN);
    }
    let mut right = Spans::default();
    if !app.filter.text.is_empty() {
        let shown = if app.screen == Screen::Events { app.event_count() } else { app.order.len() };
        right.push(format!("filter \"{}\": {shown}  ", app.filter.text), theme::text(Level::Warning));
    }
    if app.screen == Screen::Flows {
        let arrow = if app.sort.descending { "↓" } else { "↑" };
        right.push(format!("sort {} {arrow} ", app.sorted_by()), theme::DIM);
    }
    let width = usize::from(at.tabs.width);
    line(buffer, at.tabs, 0, &spans.clone().into_line());
    if spans.width + right.width <= width {
        let x = at.tabs.width - u16::try_from(right.width).unwrap_or(0);
        let area = ratatui::layout::Rect { x, width: at.tabs.width - x, ..at.tabs };
        line(buffer, area, 0, &right.into_line());
    }
}
