//! The lines at the top: source and time, figures, verdict, own losses, screens.

use ratatui::buffer::Buffer;
use ratatui::text::Line;

use super::{Spans, counted, join, line, spark};
use crate::analysis::Imbalance;
use crate::findings::Severity;
use crate::model::{Basis, Counts, Kind, Level, Lost, Problem};
use crate::sample::SourceKind;
use crate::tui::app::{App, Data, End};
use crate::tui::column::compact;
use crate::tui::layout::Layout;
use crate::tui::screen::Screen;
use crate::tui::shown::Then;
use crate::tui::table::Group;
use crate::tui::{log, names, theme};
use crate::util::units;

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
        metrics(buffer, at, app, data);
        verdict(buffer, at, app, data);
        warning(buffer, at, data);
    } else {
        line(buffer, at.verdict, 0, &Line::styled(" waiting for the first figures", theme::DIM));
    }
    tab_line(buffer, at, app);
}

fn title(buffer: &mut Buffer, at: &Layout, app: &App) {
    let mut right = Spans::default();
    if let Some(data) = &app.data {
        let model = &data.model;
        if !matches!(model.basis, Basis::Unknown) {
            right.push(format!("{}  ", span(model.basis)), theme::BOLD);
        }
        if let Some(time_ns) = app.clock_ns() {
            // All times are; where there is little room the names of what is looked at matter more.
            let zone = if at.title.width < NARROW { "  " } else { " UTC  " };
            right.push(units::clock_utc(time_ns), theme::PLAIN).push(zone, theme::DIM);
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
        if at.title.width >= NARROW {
            left.push(kind, theme::DIM);
        }
        let inputs: Vec<String> = match data.model.kind {
            SourceKind::Live => data.model.inputs.clone(),
            // Where the files are matters less than what they are called.
            SourceKind::Replay => data.model.inputs.iter().map(|path| file_name(path)).collect(),
        };
        let only = if app.options.source_filtered { " filtered" } else { "" };
        let room = room.saturating_sub(left.width + only.len());
        left.push(names::together(&inputs, room), theme::BOLD);
        left.push(only, theme::text(Level::Warning));
    }
    line(buffer, at.title, 0, &left.into_line());
    let x = at.title.width.saturating_sub(right.width.try_into().unwrap_or(u16::MAX));
    let area = ratatui::layout::Rect { x, width: at.title.width - x, ..at.title };
    line(buffer, area, 0, &right.into_line());
}

/// Below this width only what matters most is in the title.
const NARROW: u16 = 72;

fn file_name(path: &str) -> String {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path).to_owned()
}

fn phase(app: &App) -> (String, ratatui::style::Style) {
    // Against the moment of the pause, so that nothing moves while paused.
    let back = app.data.as_ref().map_or(0, |data| data.sample.time_ns.saturating_sub(data.model.time_ns));
    let past = if back > 0 && app.shown_ns.is_some() {
        format!(" −{}", units::duration(back))
    } else {
        String::new()
    };
    if let Some(to) = app.seek_ns {
        return (format!("▶ to {}", units::clock_utc(to)), theme::badge(Level::Warning));
    }
    match (&app.end, app.paused) {
        (Some(End::Failed(_)), _) => (format!("FAILED{past}"), theme::badge(Level::Critical)),
        (Some(End::Done), _) => (format!("ENDED{past}"), theme::SELECTED),
        (None, true) => (format!("PAUSED{past}"), theme::badge(Level::Warning)),
        (None, false) => match app.speed {
            Some(speed) if speed.is_infinite() => ("▶ max".into(), theme::BOLD),
            Some(speed) => (format!("▶ {speed}x"), theme::BOLD),
            None => ("▶".into(), theme::BOLD),
        },
    }
}

/// The span that figures are of, in words.
pub(super) fn span(basis: Basis) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a span of data")]
    let ns = |seconds: f64| units::duration((seconds * 1e9).round() as u64);
    match basis {
        Basis::Unknown => "no span yet".into(),
        Basis::Last(seconds) => format!("last {}", ns(seconds)),
        Basis::Whole(seconds) => format!("all {}", ns(seconds)),
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

fn metrics(buffer: &mut Buffer, at: &Layout, app: &App, data: &Data) {
    let once = &data.model.once;
    let delta = once.delta;
    let unknown = || units::UNKNOWN.to_owned();
    let rate = delta.map_or_else(unknown, |d| units::bit_rate(d.bits_per_s()));
    let mut first = part(format!(" {rate:>9} "), theme::BOLD);
    let values = super::trends::values(app, SPARK, |point| point.per_second(|c| c.bytes));
    let max = values.iter().flatten().copied().fold(0.0, f64::max);
    first.push(format!("{:>SPARK$}", spark(&values, max)), theme::BAR);
    let mut packet_rate = part(delta.map_or_else(unknown, |d| compact(d.packets_per_s())), theme::BOLD);
    packet_rate.push(" pkt/s", theme::DIM);
    if once.taps > 1 {
        packet_rate.push(format!(", once for {} taps", once.taps), theme::DIM);
    }

    let now = delta.and_then(|d| d.counts.ce_ratio());
    let ce_off = delta.is_some_and(|d| d.counts.packets > 0) && now.is_none();
    let ce = if ce_off { "ECN off".to_owned() } else { units::ratio(now) };
    let marked = delta.is_some_and(|d| Kind::Marked.is_in(&d.counts));
    let cnp = delta.map_or_else(unknown, |d| format!("{}/s", compact(d.cnp_per_s())));
    let cnp = if cnp == "0/s" { part("CNP 0/s", theme::DIM) } else { figure("CNP", cnp, Level::Warning) };
    let count = |name, level, of: fn(&Counts) -> u64| {
        figure(name, delta.map_or_else(unknown, |d| compact(of(&d.counts) as f64)), level)
    };
    let mut parts = vec![
        first,
        packet_rate,
        figure("CE", ce, if marked { Level::Warning } else { Level::Fine }),
        cnp,
        count("lost", Level::Critical, |c| c.lost),
        count("RNR", Level::Warning, |c| c.rnr),
        count("NAK", Level::Critical, Counts::naks),
        count("repeats", Level::Warning, |c| c.repeats),
        count("gaps", Level::Critical, |c| c.gaps),
        figure("since the start: RoCE", units::bytes(once.total.bytes), Level::Fine),
        figure("lost", compact(once.total.lost as f64), Level::Critical),
        figure("CNPs", compact(once.total.cnp as f64), Level::Warning),
    ];
    if once.total.late > 0 {
        // Beside the loss that it is not.
        parts.insert(5, count("late", Level::Warning, |c| c.late));
    }
    if let Some(seen) = coverage(app, at.metrics.width >= WHOLE_NAMES) {
        // Right behind the rates: everything else is of what was seen.
        parts.insert(2, seen);
    }
    let (spans, _) = join(parts, usize::from(at.metrics.width), " │ ");
    line(buffer, at.metrics, 0, &spans.into_line());
}

/// How much of what the NICs carried was seen, since the start: the worst port.
/// `long`: there is room to say where the reason is.
fn coverage(app: &App, long: bool) -> Option<Spans> {
    // It is known of the newest readings only.
    let coverage = &app.analysis.as_ref().filter(|_| !app.past())?.report.facts.coverage;
    let worst = crate::analysis::worst_coverage(coverage)?;
    let level = if worst < crate::analysis::WHOLE { Level::Warning } else { Level::Fine };
    // A little above 1 is a matter of when the two were read.
    let mut spans = Spans::default();
    spans.push("seen ", theme::DIM).push(units::ratio(Some(worst.min(1.0))), theme::text(level));
    if long && level == Level::Warning {
        spans.push(", why: 8", theme::DIM);
    }
    Some(spans)
}

fn verdict(buffer: &mut Buffer, at: &Layout, app: &App, data: &Data) {
    let width = usize::from(at.verdict.width);
    let parts = |long: bool| -> Vec<Spans> {
        // A loss says of itself what of it only came late.
        let told = |problem: &&Problem| {
            let loss = |other: &Problem| other.kind == Kind::Loss && other.present == problem.present;
            problem.kind != Kind::Late || !data.problems.iter().any(loss)
        };
        let problems = |present: bool| {
            let found = data.problems.iter().filter(told).filter(move |problem| problem.present == present);
            found.map(move |problem| problem_part(problem, data, long))
        };
        let links = data.imbalance.iter().filter_map(|imbalance| unbalanced(imbalance, long));
        // What is over comes last, so that what is wrong now is never the part that does not fit.
        problems(true).chain(links).chain(hashing(app, long)).chain(problems(false)).collect()
    };
    let long = parts(true);
    if long.is_empty() {
        line(buffer, at.verdict, 0, &no_problem(app, data).into_line());
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

fn no_problem(app: &App, data: &Data) -> Spans {
    let model = &data.model;
    if model.total.packets == 0 && data.sample.devices.ports.iter().any(|port| port.hidden) {
        let mut spans = part(" ○ COUNTERS ", theme::SELECTED);
        spans.push(" the NIC does RoCE in hardware: its own counters are on screen 5", theme::PLAIN);
        return spans;
    }
    if model.total.packets == 0 {
        let mut spans = part(" ○ NO RoCE ", theme::SELECTED);
        spans.push(" no RoCE packet so far", theme::PLAIN);
        return spans;
    }
    if let Some(spans) = found(app) {
        return spans;
    }
    let mut spans = part(format!(" {} HEALTHY ", theme::symbol(Level::Fine)), theme::badge(Level::Fine));
    let qps = data.model.once.flows;
    let s = if qps == 1 { "" } else { "s" };
    let ecn = if model.total.ce_ratio().is_none() { "; ECN is off" } else { "" };
    spans.push(format!(" no loss, no NAK, no congestion in {qps} QP direction{s}{ecn}"), theme::PLAIN);
    spans
}

/// No counter of the span is a problem, but what was concluded since the start is: a step that got slower, say.
fn found(app: &App) -> Option<Spans> {
    // What was found later says nothing of the moment shown.
    let concluded = app.concluded().filter(|concluded| !matches!(concluded.then, Then::Later(_)))?;
    let warnings = || concluded.findings.iter().filter(|finding| finding.severity > Severity::Info);
    let worst = warnings().count();
    let all_over = warnings().all(|finding| finding.over_since(concluded.end_ns).is_some());
    (worst > 0).then(|| {
        let mut spans = badge(Level::Warning, "FINDINGS");
        let s = if worst == 1 { "" } else { "s" };
        let over = match (all_over, worst) {
            (false, _) => "",
            (true, 1) => ", which is over",
            (true, _) => ", all over",
        };
        spans.push(
            format!(" {worst} warning{s} since the start{over}, see 8; no loss, NAK or congestion now"),
            theme::PLAIN,
        );
        spans
    })
}

fn badge(level: Level, word: &str) -> Spans {
    part(format!(" {} {word} ", theme::symbol(level)), theme::badge(level))
}

fn problem_part(problem: &Problem, data: &Data, long: bool) -> Spans {
    let kind = problem.kind;
    let span = data.model.once.delta.map(|d| d.counts).filter(|_| problem.present);
    let counts = &span.unwrap_or(data.model.once.total);
    let n = |n: u64| compact(n as f64);
    let (word, short, text) = match kind {
        Kind::Loss => {
            let naks = counted(counts.asked_again(), "NAK");
            // Where these are one, either it is the same, or it is not known what only came late.
            let lost = if counts.lost == counts.missing { "missing" } else { "lost" };
            if counts.lost == 0 && counts.late > 0 {
                // Receivers ask for what is late as they do for what is lost.
                let word = if long { "OUT OF ORDER" } else { "OOO" };
                (word, n(counts.late), format!("{} late, none lost, {naks}", n(counts.late)))
            } else {
                let mut found = vec![(counts.lost, format!("{} {lost}", n(counts.lost)))];
                found.push((counts.asked_again(), naks));
                found.push((counts.late, format!("{} only late", n(counts.late))));
                let mut found = found.iter().filter(|(count, _)| *count > 0);
                let short = found.clone().next().map_or(0, |(count, _)| *count);
                let text: Vec<&str> = found.by_ref().map(|(_, text)| text.as_str()).collect();
                ("LOSS", n(short), text.join(", "))
            }
        }
        Kind::Refused => {
            ("NAK", n(counts.other_naks), format!("{} refused", counted(counts.other_naks, "request")))
        }
        Kind::NotReady => ("RNR", n(counts.rnr), format!("{} receiver not ready", n(counts.rnr))),
        Kind::Resent => {
            let again = kind.amount(counts);
            ("RPT", n(again), format!("{} sent again", n(again)))
        }
        Kind::Late => {
            let word = if long { "OUT OF ORDER" } else { "OOO" };
            let naks = match counts.behind_late {
                0 => String::new(),
                naks => format!(", {}", counted(naks, "NAK")),
            };
            (word, n(counts.late), format!("{} late, not lost{naks}", n(counts.late)))
        }
        Kind::Marked => {
            // Of what is over the ratio of when it was: a mean since the start would shrink from then on.
            let then = data.last_seen.marked().filter(|_| !problem.present);
            let ratio = units::ratio(then.or_else(|| counts.ce_ratio()));
            let mean = if then.is_none() && !problem.present { " since the start" } else { "" };
            (if long { "CONGESTION" } else { "CE" }, ratio.clone(), format!("CE {ratio}{mean}"))
        }
        Kind::Notified => ("CNP", n(counts.cnp), format!("{} to slow down", n(counts.cnp))),
    };
    let only_late = kind == Kind::Loss && counts.lost == 0 && counts.late > 0;
    let level = if only_late { Kind::Late.level() } else { kind.level() };
    let last_seen = data.last_seen.of(kind).filter(|_| !problem.present);
    let mut spans = Spans::default();
    if problem.present {
        spans.append(badge(level, word));
    } else {
        let earlier = if last_seen.is_some() { "" } else { "earlier: " };
        let text = format!(" {} {earlier}{}", theme::symbol(level), word.to_lowercase());
        spans.push(text, theme::text(level));
    }
    if long {
        spans.push(format!(" {text}"), theme::PLAIN);
        if problem.qps > 0 {
            spans.push(format!(" in {}", counted(problem.qps as u64, "QP")), theme::DIM);
        }
    } else {
        spans.push(format!(" {short}"), theme::PLAIN);
    }
    if let Some(ns) = last_seen {
        spans.push(format!(" until {}", units::second_utc(ns)), theme::text(level));
    }
    spans
}

fn unbalanced(imbalance: &Imbalance, long: bool) -> Option<Spans> {
    let ratio = imbalance.max_over_mean.filter(|ratio| *ratio >= UNBALANCED && !imbalance.same_path)?;
    let mut spans = badge(Level::Warning, if long { "IMBALANCE" } else { "IMBAL" });
    // Both directions may be uneven, each in its own way.
    let way = imbalance.direction.map_or("", |way| super::links::direction(Some(way)));
    let way = if way.is_empty() { String::new() } else { format!(" {way}") };
    let what = if long {
        format!("{way} fullest link {ratio:.2}x the mean of {}", imbalance.links.len())
    } else {
        format!("{way} {ratio:.2}x")
    };
    spans.push(what, theme::PLAIN);
    Some(spans)
}

fn hashing(app: &App, long: bool) -> Option<Spans> {
    let entropy = &app.entropy()?;
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
        (Some(lost.flow_table_full), "packet", "found the flow table full"),
        (Some(lost.contended), "packet", "did not get at the flow's counters"),
        (lost.capture_drops, "packet", "dropped by the capture"),
        (lost.interface_drops, "packet", "dropped by the interface"),
        (lost.events_dropped, "event", "dropped"),
        (lost.bins_dropped, "packet", "missing from bursts and steps"),
        (Some(lost.extra_full), "packet", "without port or opcode"),
    ];
    let parts = known.into_iter().filter_map(|(count, unit, what)| {
        let count = count.filter(|count| *count > 0)?;
        Some(format!("{} {what}", counted(count, unit)))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// From this width on, screens have their whole names, and filter and sorting have room beside them.
const WHOLE_NAMES: u16 = 110;

/// The screens' names, and where they stand: columns of the screen.
#[must_use]
pub(in crate::tui) fn tabs(app: &App) -> Vec<(std::ops::Range<u16>, Screen)> {
    let mut x = 0;
    let tabs = Screen::ALL.into_iter().map(|screen| {
        let width = tab(app, screen).chars().count();
        let start = x;
        x += u16::try_from(width).unwrap_or(0);
        (start..x, screen)
    });
    tabs.collect()
}

/// Number and name of a screen; the number alone where little room is left for what of all is shown, and why.
fn tab(app: &App, screen: Screen) -> String {
    let number = screen as usize + 1;
    if app.size.0 >= WHOLE_NAMES {
        format!(" {number} {} ", screen.title())
    } else if app.size.0 < NARROW && screen != app.screen && chosen(app).is_some() {
        format!(" {number}")
    } else {
        format!(" {number} {}", screen.short())
    }
}

/// Why not all rows or events are shown; `None` when all are.
fn chosen(app: &App) -> Option<String> {
    let table = matches!(app.screen, Screen::Qps | Screen::Detail);
    let mut why = Vec::new();
    if let (true, Some(focus)) = (table, &app.table.focus) {
        why.push(focus.about.clone());
    }
    if table && app.table.only_marked {
        why.push("marked".to_owned());
    }
    // While it is typed it may make no sense yet.
    if !app.filter.is_empty() && app.query.error.is_none() && (table || app.screen == Screen::Events) {
        why.push(format!("\"{}\"", app.filter));
    }
    (!why.is_empty()).then(|| why.join(", "))
}

/// What stands at the right of the screens' names, as far as there is room: what of all is shown and why,
/// grouping, sorting.
fn right_of_tabs(app: &App, room: usize) -> Spans {
    /// Letters of a filter where there is room for more than that.
    const LONGEST: usize = 30;
    let mut all = Spans::default();
    if let Some(why) = chosen(app) {
        let (shown, of) = match app.screen {
            Screen::Events => (app.event_count(), app.log.len()),
            _ => app.chosen_queue_pairs(),
        };
        let count = format!(" {} of {}", compact(shown as f64), compact(of as f64));
        let letters = room.saturating_sub(count.chars().count() + 1).min(LONGEST);
        all.push(super::cut(&why, letters, false), theme::text(Level::Warning)).push(count, theme::PLAIN);
    }
    if app.screen != Screen::Qps {
        return all;
    }
    let arrow = if app.table.sort.descending { "↓" } else { "↑" };
    let sort = app.sorted_by();
    let mut forms = vec![format!("sort {sort} {arrow} "), format!("{sort} {arrow} ")];
    if app.table.group != Group::None {
        // The title of the first column says it as well.
        forms.insert(0, format!("by {}  sort {sort} {arrow} ", app.table.group.title()));
    }
    let gap = if all.width > 0 { "  " } else { "" };
    let left = room.saturating_sub(all.width + gap.len());
    if let Some(form) = forms.into_iter().find(|form| form.chars().count() <= left) {
        all.push(gap, theme::PLAIN).push(form, theme::DIM);
    }
    all
}

fn tab_line(buffer: &mut Buffer, at: &Layout, app: &App) {
    for (area, screen) in tabs(app) {
        let style = if screen == app.screen { theme::SELECTED.patch(theme::BOLD) } else { theme::PLAIN };
        let place = ratatui::layout::Rect { x: area.start, width: area.end - area.start, ..at.tabs };
        line(buffer, place, 0, &Line::styled(tab(app, screen), style));
    }
    let end = tabs(app).last().map_or(0, |(area, _)| area.end);
    let free = at.tabs.width.saturating_sub(end + 1);
    let right = right_of_tabs(app, usize::from(free));
    let width = free.min(u16::try_from(right.width).unwrap_or(free));
    let area = ratatui::layout::Rect { x: at.tabs.width - width, width, ..at.tabs };
    line(buffer, area, 0, &right.into_line());
}
