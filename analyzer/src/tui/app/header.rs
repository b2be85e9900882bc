//! The lines at the top: source and time, counters, verdict, capture loss, screens.

mod badges;
mod below;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

pub(super) use self::badges::{Badge, badge_at};
use self::badges::{badge, badges};
use crate::findings::{Finding, Health, Verdict};
use crate::model::over_time::Series;
use crate::model::{Basis, Counts, Level, signals};
use crate::sample::SourceKind;
use crate::tui::app::{App, tabs};
use crate::tui::column::compact;
use crate::tui::data::Data;
use crate::tui::layout::Layout;
use crate::tui::screen::Screen;
use crate::tui::screens::page::{near_second, time_range};
use crate::tui::screens::{findings, overview};
use crate::tui::timeline::End;
use crate::tui::view::{AsOf, Concluded};
use crate::tui::widgets::panel::BOXED;
use crate::tui::widgets::{Spans, counted, cut, join, letters, line, spark};
use crate::tui::{names, theme};
use crate::util::layout::tap_name;
use crate::util::time::NS_PER_S;
use crate::util::units;
use crate::util::wrap::wrap;

/// Cells of the sparkline among the counters.
const SPARK: usize = 10;

pub(super) fn render(buffer: &mut Buffer, at: &Layout, app: &App) {
    title(buffer, at, app);
    if at.schedule.height > 0 {
        schedule(buffer, at, app);
    }
    if let Some(data) = &app.view.data {
        let impact = below::impact(app);
        let rest = verdict(buffer, at, app, data, impact.is_some());
        match impact {
            Some(impact) => below::render(buffer, at, app, &rest, impact),
            None => metrics(buffer, at, app, data),
        }
        warning(buffer, at, data, app.view.timeline.end.is_none());
    } else {
        let text = match app.view.timeline.end {
            Some(End::Failed(_)) => " nothing to show",
            _ => " waiting for the first sample…",
        };
        line(buffer, at.verdict, 0, &Line::styled(text, theme::DIM));
    }
    tabs::render(buffer, at, app);
}

fn title(buffer: &mut Buffer, at: &Layout, app: &App) {
    let width = usize::from(at.title.width);
    let mut right = times(at, app, false);
    let room = width.saturating_sub(right.width + 2);

    // How it is comes first, then the name of the program where there is room.
    let mut left = badges_in(app, room);
    if left.width == 0 || at.title.width >= BOXED {
        left.push(" rocescope ", theme::BOLD);
    }
    left.push(" ", theme::PLAIN);
    if let Some(data) = &app.view.data {
        let paths = data.model.inputs.iter();
        let (kind, inputs): (_, Vec<String>) = match data.model.kind {
            SourceKind::Live => ("live ", paths.cloned().collect()),
            // Names of files matter more than their folders.
            SourceKind::Replay => ("replay ", paths.map(|path| file_name(path)).collect()),
        };
        if at.title.width >= NARROW {
            left.push(kind, theme::DIM);
        }
        let only = if app.view.options.source_filtered { " filtered" } else { "" };
        let (all, room) = (room, room.saturating_sub(left.width + only.len()));
        // The kind of a file says less than its name.
        let whole = names::together(&inputs, usize::MAX);
        let bare = || inputs.iter().map(|name| tap_name(name)).collect::<Vec<_>>();
        let shown = if whole.chars().count() <= room { whole } else { names::together(&bare(), room) };
        left.push(shown, theme::BOLD);
        left.push(only, theme::text(Level::Warning));
        let host = app.view.options.host.as_ref().map(|host| format!(" · {host}"));
        if let Some(host) = host.filter(|host| left.width + host.chars().count() <= all) {
            left.push(host, theme::DIM);
        }
    }
    // What is live is of today.
    let dated = times(at, app, true);
    if app.view.kind() == Some(SourceKind::Replay) && left.width + dated.width + 2 <= width {
        right = dated;
    }
    line(buffer, at.title, 0, &left.into_line());
    let x = at.title.width.saturating_sub(right.width.try_into().unwrap_or(u16::MAX));
    let area = Rect { x, width: at.title.width - x, ..at.title };
    line(buffer, area, 0, &right.into_line());
}

/// Columns of the source's name that badges leave.
const NAMES: usize = 18;

/// The state in badges, for a title with this room; nothing while it is not known.
fn badges_in(app: &App, room: usize) -> Spans {
    app.view.data.as_ref().map(|data| state(app, data, badge_room(app, room))).unwrap_or_default()
}

/// The room of badges in that of the title, and whether it is wide.
fn badge_room(app: &App, room: usize) -> (usize, bool) {
    let wide = app.view.size.0 >= BOXED;
    let others = NAMES + if wide { " rocescope ".len() } else { 0 };
    (room.saturating_sub(others), wide)
}

/// The area of the badges in the title.
pub(super) fn badges_at(app: &App, at: &Layout) -> Rect {
    let room = usize::from(at.title.width).saturating_sub(times(at, app, false).width + 2);
    let width = u16::try_from(badges_in(app, room).width).unwrap_or(u16::MAX).min(at.title.width);
    Rect { width, ..at.title }
}

/// The time range of the values, the clock, with its date on demand, and the state of the source.
fn times(at: &Layout, app: &App, dated: bool) -> Spans {
    let mut right = Spans::default();
    if let Some(data) = &app.view.data {
        let model = &data.model;
        if !matches!(model.basis, Basis::Unknown) {
            right.push(format!("{}  ", time_range(model.basis)), theme::BOLD);
        }
        if let Some(time_ns) = app.view.clock_ns() {
            // All times are; where there is little room the names of what is looked at matter more.
            let zone = if at.title.width < NARROW { "  " } else { " UTC  " };
            let date = if dated { format!("{} ", units::date_hour_utc(time_ns).0) } else { String::new() };
            right.push(date, theme::DIM);
            right.push(app.view.data_end(None).clock(time_ns), theme::PLAIN).push(zone, theme::DIM);
        }
    }
    let (text, style) = phase(app);
    right.push(format!(" {text} "), style);
    right
}

/// The running episode of a demonstration, and its time.
fn schedule(buffer: &mut Buffer, at: &Layout, app: &App) {
    let time_ns = app.view.data.as_ref().map(|data| data.model.time_ns);
    let running = app.view.options.schedule.as_ref().zip(time_ns).and_then(|(all, at)| all.at(at));
    let mut spans = part(" demo ", theme::KEY);
    match (running, &app.view.options.schedule) {
        (Some(now), Some(all)) => {
            let left = now.left_ns.div_ceil(NS_PER_S);
            spans.push(format!("{}/{} ", now.number, all.titles.len()), theme::DIM);
            spans.push(now.title, theme::BOLD).push(format!(", {left} s left"), theme::PLAIN);
            let next = format!(" · next: {}", now.next.split(':').next().unwrap_or_default());
            if spans.width + next.chars().count() <= usize::from(at.schedule.width) {
                spans.push(next, theme::DIM);
            }
        }
        _ => {
            spans.push("begins", theme::DIM);
        }
    }
    line(buffer, at.schedule, 0, &spans.into_line());
}

/// Below this width only what matters most is in the title.
const NARROW: u16 = 72;

fn file_name(path: &str) -> String {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path).to_owned()
}

fn phase(app: &App) -> (String, ratatui::style::Style) {
    // Against the snapshot of the pause, so that nothing moves while paused.
    let back =
        app.view.data.as_ref().map_or(0, |data| data.sample.time_ns.saturating_sub(data.model.time_ns));
    let past = if back > 0 && app.view.timeline.shown_ns.is_some() {
        format!(" −{}", units::duration(near_second(back)))
    } else {
        String::new()
    };
    if let Some(to) = app.view.timeline.seek_ns {
        return (format!("▶ to {}", app.view.data_end(None).clock(to)), theme::badge(Level::Warning));
    }
    // Problems end as well.
    let end = if app.view.kind() == Some(SourceKind::Replay) { "EOF" } else { "ENDED" };
    match (&app.view.timeline.end, app.view.timeline.paused) {
        (Some(End::Failed(_)), _) => (format!("FAILED{past}"), theme::badge(Level::Critical)),
        (Some(End::Done), _) => (format!("{end}{past}"), theme::SELECTED),
        (None, true) => (format!("PAUSED{past}"), theme::badge(Level::Warning)),
        (None, false) => match app.view.timeline.speed {
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

/// A counter with its name, dim when it is zero or unknown. Only findings say whether it is a problem.
fn figure(name: &str, value: String) -> Spans {
    let mut spans = Spans::default();
    let style = match value.as_str() {
        "0" | "0 %" | "0 /s" | units::UNKNOWN => theme::DIM,
        _ => theme::BOLD,
    };
    spans.push(format!("{name} "), theme::DIM).push(value, style);
    spans
}

fn metrics(buffer: &mut Buffer, at: &Layout, app: &App, data: &Data) {
    let dedup = &data.model.dedup;
    let delta = dedup.delta;
    let unknown = || units::UNKNOWN.to_owned();
    let rate = delta.map_or_else(unknown, |d| units::bit_rate(d.bits_per_s()));
    let mut first = part(format!(" {rate:>9} "), theme::BOLD);
    // Over the same time as the rate before it.
    let length_ns = delta.map_or(0.0, |delta| delta.seconds * NS_PER_S as f64 / SPARK as f64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length of time")]
    let column_ns = (length_ns as u64).max(1);
    let from_ns = data.model.time_ns.saturating_sub(column_ns.saturating_mul(SPARK as u64));
    let values = data.over_time.columns(Series::Throughput, from_ns, column_ns, SPARK);
    let max = values.iter().flatten().copied().fold(0.0, f64::max);
    first.push(format!("{:>SPARK$}", spark(&values, max)), theme::BAR);
    let mut packet_rate = part(delta.map_or_else(unknown, |d| compact(d.packets_per_s())), theme::BOLD);
    packet_rate.push(" pkt/s", theme::DIM);

    let now = delta.and_then(|d| d.counts.ce_ratio());
    let ce = if data.model.is_ecn_off() {
        figure("ECN", "off".to_owned())
    } else {
        figure("CE", units::ratio(now))
    };
    let cnp = delta.map_or_else(unknown, |d| format!("{}/s", compact(d.cnp_per_s())));
    let cnp = if cnp == "0/s" { part("CNP 0/s", theme::DIM) } else { figure("CNP", cnp) };
    let known = |name, known: Option<u64>| figure(name, known.map_or_else(unknown, |n| compact(n as f64)));
    let count = |name, of: fn(&Counts) -> u64| known(name, delta.map(|d| of(&d.counts)));
    let sequence = |name, of: fn(&Counts) -> u64| known(name, delta.and_then(|d| d.counts.of_sequence(of)));
    let answers = |name, of: fn(&Counts) -> u64| known(name, delta.and_then(|d| d.counts.of_answers(of)));
    let counted = |of: fn(&Counts) -> u64| delta.is_some_and(|d| of(&d.counts) > 0);
    // A gap shows loss upstream of a tap: no gap does not exclude a loss downstream.
    let losing = app.view.concluded().is_some_and(|concluded| signals::is_losing(concluded.findings));
    let lost = if losing && !counted(|c| c.lost) { "lost upstream" } else { "lost" };
    // Signals that were counted come before those that were not: the line may have no room for all.
    let mut signals = vec![
        (counted(|c| c.lost), sequence(lost, |c| c.lost)),
        (counted(|c| c.retransmitted), sequence("RETX", |c| c.retransmitted)),
        (counted(Counts::naks), answers("NAK", Counts::naks)),
        (counted(|c| c.rnr), answers("RNR", |c| c.rnr)),
        (counted(|c| c.ecn_data[3]), ce),
        (counted(|c| c.cnp), cnp),
    ];
    if data.sample.has_psns() {
        signals.push((counted(|c| c.gaps), sequence("PSN gaps", |c| c.gaps)));
    }
    if dedup.total.reordered > 0 {
        // Beside the loss that it is not.
        signals.insert(1, (counted(|c| c.reordered), count("reordered", |c| c.reordered)));
    }
    signals.sort_by_key(|(counted, _)| !counted);
    let mut parts = vec![first, packet_rate];
    if let Some(seen) = coverage(app, at.metrics.width >= WIDE) {
        // Right behind the rates: everything else is of what was seen.
        parts.push(seen);
    }
    parts.extend(signals.into_iter().map(|(_, part)| part));
    if dedup.taps > 1 {
        parts.push(part(format!("each packet once, at up to {} taps", dedup.taps), theme::DIM));
    }
    parts.push(figure("total: RoCE", units::bytes(dedup.total.bytes)));
    // The time range has the same figure where it covers all of the data.
    let others = |of: fn(&Counts) -> u64| delta.is_none_or(|d| of(&d.counts) != of(&dedup.total));
    if let Some(lost) = dedup.total.of_sequence(|c| c.lost).filter(|_| others(|c| c.lost)) {
        parts.push(figure("total lost", compact(lost as f64)));
    }
    parts.push(figure("CNPs", compact(dedup.total.cnp as f64)));
    let (spans, _) = join(parts, usize::from(at.metrics.width), " │ ");
    line(buffer, at.metrics, 0, &spans.into_line());
}

/// Share of the NICs' packets that was captured since the start: the worst port. `long`: there is room for the screen
/// that has the reason.
fn coverage(app: &App, long: bool) -> Option<Spans> {
    // It is known of the newest readings only.
    let coverage = &app.view.analysis.as_ref().filter(|_| !app.view.past())?.report.facts.coverage;
    let worst = crate::analysis::worst_coverage(coverage)?;
    let level = if coverage.iter().any(|one| one.why.is_some()) { Level::Warning } else { Level::Fine };
    // A little above 1 is a matter of when the two were read.
    let mut spans = part("captured ", theme::DIM);
    spans.push(units::ratio(Some(worst.min(1.0))), theme::text(level));
    if long && level == Level::Warning {
        spans.push(" (8)", theme::DIM);
    }
    Some(spans)
}

/// The sentence of the worst problem, or that there is none. Returns what `continues` in the next line.
fn verdict(buffer: &mut Buffer, at: &Layout, app: &App, data: &Data, continues: bool) -> String {
    let width = usize::from(at.verdict.width);
    let (spans, rest) = sentence(app, data, width, continues);
    line(buffer, at.verdict, 0, &spans.into_line());
    rest
}

/// State and sentence in one line.
pub(super) fn headline(app: &App, data: &Data, width: usize) -> Spans {
    let mut spans = state(app, data, (width / 2, false));
    let room = width.saturating_sub(spans.width);
    if room >= TITLE {
        spans.append(sentence(app, data, room, false).0);
    }
    spans
}

/// Columns of a sentence that are worth their room.
const TITLE: usize = 24;

/// Source of the headline.
enum HeadlineSource<'a> {
    /// There are no packets: badge and sentence.
    Nothing(&'static str, &'static str),
    /// Nothing is known, for this reason.
    Unknown(&'static str),
    Known(Concluded<'a>, Verdict<'a>),
}

fn headline_source<'a>(app: &'a App, data: &Data) -> HeadlineSource<'a> {
    // Findings need no packets: counters, queue pairs and jobs of offloaded NICs have theirs.
    let is_problem = |health| matches!(health, Health::Degraded | Health::Critical);
    let concluded = app.view.concluded();
    let health = concluded.map(|concluded| Verdict::of(concluded.findings, false).health);
    if let Some((badge, text)) = nothing(data).filter(|_| !health.is_some_and(is_problem)) {
        return HeadlineSource::Nothing(badge, text);
    }
    let Some(concluded) = concluded else { return HeadlineSource::Unknown(" analysing…") };
    if let AsOf::Later(_) = concluded.as_of {
        return HeadlineSource::Unknown(" no findings are kept of this time");
    }
    let verdict = app.view.judged(Verdict::of(concluded.findings, false), data);
    HeadlineSource::Known(concluded, verdict)
}

/// The kinds of the active problems, or that there are none, in badges that fit into `room`; nothing while not known.
fn state(app: &App, data: &Data, (room, wide): (usize, bool)) -> Spans {
    match headline_source(app, data) {
        HeadlineSource::Nothing(badge, _) => part(badge, theme::SELECTED),
        HeadlineSource::Unknown(_) => Spans::default(),
        HeadlineSource::Known(concluded, verdict) => match (verdict.health, verdict.headline) {
            (Health::Degraded | Health::Critical, Some(_)) => badges(&concluded, room, wide),
            (Health::Recovered, Some(_)) if verdict.is_good() => {
                if app.view.shows_end() {
                    return fine("HEALTHY AT THE END");
                }
                let since = verdict.healthy_since_ns;
                let since = since.map(|ns| format!("HEALTHY SINCE {}", app.view.data_end(None).clock(ns)));
                let long = since.as_deref().filter(|word| !word.contains('-') && letters(word) + 4 <= room);
                fine(long.unwrap_or("HEALTHY NOW"))
            }
            _ => {
                // Of a capture that is still read, the rest is not known.
                let reading = data.model.kind == SourceKind::Replay && app.view.timeline.end.is_none();
                match (verdict.is_good(), reading) {
                    (true, true) => fine("HEALTHY SO FAR"),
                    (true, false) => fine("HEALTHY"),
                    (false, true) => part(" ○ NO WARNING SO FAR ", theme::SELECTED),
                    (false, false) => part(" ○ NO WARNING ", theme::SELECTED),
                }
            }
        },
    }
}

/// The sentence; second what is left of it, where it `continues` in another line.
fn sentence(app: &App, data: &Data, width: usize, continues: bool) -> (Spans, String) {
    let (concluded, verdict) = match headline_source(app, data) {
        HeadlineSource::Nothing(_, text) => return (part(text, theme::PLAIN), String::new()),
        HeadlineSource::Unknown(why) => return (part(why, theme::DIM), String::new()),
        HeadlineSource::Known(concluded, verdict) => (concluded, verdict),
    };
    // A verdict of another time than the values shown says so.
    let stale = app
        .view
        .late_ns()
        .map_or_else(String::new, |ns| format!("  as of {}", app.view.data_end(None).clock(ns)));
    let room = width.saturating_sub(stale.chars().count());
    // A sentence that goes on in the next line ends with it there.
    let width = if continues { width } else { room };
    let (mut spans, rest) = match (verdict.health, verdict.headline) {
        (Health::Degraded | Health::Critical, Some(worst)) => {
            // Where it continues the time stands in the next line.
            let since = worst.since_ns().filter(|_| !continues);
            let end = app.view.data_end(None);
            let since = since.map(|ns| format!("  {} {}", end.since(), end.clock(ns)));
            // Its own page has the sentence right below, whole, and its ends further down.
            let shown =
                (app.view.screen == Screen::Problem).then(|| app.screens.problem.at(&app.view)).flatten();
            let own =
                shown.and_then(|at| concluded.findings.get(at)).is_some_and(|one| std::ptr::eq(one, worst));
            if own {
                (part(format!(" {}", ends(app, worst, width)), theme::PLAIN), String::new())
            } else {
                diagnosis(&concluded, &worst.title, (width, continues), since.as_deref().unwrap_or(""))
            }
        }
        (Health::Recovered, Some(worst)) => {
            recovered(concluded.findings, &verdict, worst, (width, continues))
        }
        _ => {
            let detail = verdict.detail_in(width.saturating_sub(2));
            let mut spans = part(format!(" {detail}"), theme::PLAIN);
            let flows = format!(" · {}", units::plural(data.model.dedup.flows as u64, "flow"));
            if stale.is_empty() && spans.width + flows.chars().count() <= width {
                spans.push(flows, theme::PLAIN);
            }
            (spans, String::new())
        }
    };
    if rest.is_empty() && spans.width <= room {
        spans.push(stale, theme::text(Level::Warning));
        return (spans, rest);
    }
    (spans, format!("{rest}{stale}").trim_start().to_owned())
}

/// Both ends of a problem in `width` columns, or what else its page does not say.
fn ends(app: &App, finding: &Finding, width: usize) -> String {
    let forms = overview::problems::both_ends(finding, &app.view);
    let unknown = if forms.is_empty() { &[] } else { overview::problems::unknown_process(&app.view) };
    let form = forms.into_iter().find(|form| form.chars().count() < width);
    let form = form.map(|form| {
        let mut longer = unknown.iter().map(|unknown| format!("{form} · {unknown}"));
        longer.find(|longer| longer.chars().count() < width).unwrap_or(form)
    });
    form.unwrap_or_else(|| format!("problems: {}", overview::problems::about(&app.view)))
}

/// Badge and text in place of the verdict where there are no packets.
fn nothing(data: &Data) -> Option<(&'static str, &'static str)> {
    if data.model.total.packets > 0 {
        return None;
    }
    let hidden = data.sample.devices.ports.iter().any(|port| port.hidden);
    Some(if hidden {
        (" ○ COUNTERS ONLY ", " hardware-offloaded RoCE bypasses XDP and TC; NIC counters: screen 5")
    } else {
        (" ○ NO RoCE ", " no RoCE packets captured")
    })
}

fn fine(word: &str) -> Spans {
    badge(theme::symbol(Level::Fine), word, theme::badge(Level::Fine))
}

/// Sentence for findings that have all ended: their number, and the worst; second the rest, if it `continues`.
fn recovered(
    all: &[Finding],
    verdict: &Verdict<'_>,
    worst: &Finding,
    (width, continues): (usize, bool),
) -> (Spans, String) {
    let detail = &verdict.detail;
    if continues {
        // The time of its end stands in the next line.
        let which = if verdict.ended == 1 { ":" } else { ", worst:" };
        let room = width.saturating_sub(1);
        let text = format!("{detail}{which} {}", worst.title);
        // A line less leaves room for how long it lasted.
        let brief = format!("{detail}{which} {}", overview::problems::share_alone(&worst.title));
        let text = if letters(&text) > room && letters(&brief) <= room { brief } else { text };
        let mut lines = wrap(&text, room).into_iter();
        let first = part(format!(" {}", lines.next().unwrap_or_default()), theme::PLAIN);
        return (first, lines.collect::<Vec<_>>().join(" "));
    }
    let mut spans = part(format!(" {detail}"), theme::PLAIN);
    let ended = findings::ended(all).into_iter().next().unwrap_or_default();
    let lead = format!(": {ended}: ");
    let room = width.saturating_sub(spans.width);
    let worst = overview::problems::shortened(&worst.title, room.saturating_sub(lead.chars().count()));
    spans.push(cut(&(lead + &worst), room, false), theme::PLAIN);
    (spans, String::new())
}

/// The `title` of the worst finding, `since` when, and ended kinds; second the rest of the title, if it `continues`.
fn diagnosis(
    concluded: &Concluded<'_>,
    title: &str,
    (width, continues): (usize, bool),
    since: &str,
) -> (Spans, String) {
    let room = width.saturating_sub(1 + since.len());
    if continues {
        let mut lines = wrap(title, room).into_iter();
        let first = part(format!(" {}", lines.next().unwrap_or_default()), theme::BOLD);
        return (first, lines.collect::<Vec<_>>().join(" "));
    }
    let mut spans = part(format!(" {}", overview::problems::shortened(title, room)), theme::BOLD);
    spans.push(since, theme::PLAIN);
    // If the problems stand below, those that have ended do too.
    for text in findings::ended(concluded.findings) {
        if spans.width + 3 + text.chars().count() > width {
            break;
        }
        spans.push(format!(" · {text}"), theme::DIM);
    }
    (spans, String::new())
}

/// Packets that are not counted: now, if the data `continues`, or before.
fn warning(buffer: &mut Buffer, at: &Layout, data: &Data, continues: bool) {
    let lost = &data.model.lost;
    if !lost.any() {
        return;
    }
    let word = if data.model.losing && continues { "DROPPING NOW" } else { "CAPTURE INCOMPLETE" };
    let mut spans = badge(theme::symbol(Level::Warning), word, theme::badge(Level::Warning));
    spans.push(format!(" {}", lost.in_words(counted).join(", ")), theme::BOLD);
    let room = usize::from(at.warning.width).saturating_sub(spans.width);
    let means = ["; loss may be a capture artefact", "; loss uncertain"];
    spans.push(means.into_iter().find(|text| text.len() <= room).unwrap_or_default(), theme::PLAIN);
    line(buffer, at.warning, 0, &spans.into_line());
}

/// From this width on there is room for reasons beside the counters.
const WIDE: u16 = 110;
