//! The problems: what is active and what has ended, with place, time and cost, and what to do next.

use ratatui::text::{Line, Span};

use super::super::{Spans, cut, findings};
use crate::findings::{DataEnd, Finding, Severity};
use crate::model::Level;
use crate::sample::SourceKind;
use crate::tui::theme;
use crate::tui::view::{AsOf, Concluded, View};
use crate::util::units;
use crate::util::wrap::wrap;

/// A line of the list, and the number of the finding that it is about.
pub(in crate::tui) type Entry = (Option<usize>, Line<'static>);

/// Findings above info, and info, of the snapshot shown.
pub(super) fn count(view: &View) -> usize {
    known(view).map_or(0, |concluded| concluded.findings.len())
}

fn known(view: &View) -> Option<Concluded<'_>> {
    view.concluded().filter(|concluded| !matches!(concluded.as_of, AsOf::Later(_)))
}

/// How many are active and how many have ended: without information, and without what others cause.
pub(in crate::tui) fn about(view: &View) -> String {
    let Some(concluded) = known(view) else { return String::new() };
    let problems =
        || concluded.findings.iter().filter(|one| one.severity > Severity::Info && one.owner.is_none());
    let active = problems().filter(|one| one.active).count();
    let ended = problems().count() - active;
    // Nothing is active at the end of a capture.
    let lasts = if view.kind() == Some(SourceKind::Replay) { "lasting to the end" } else { "active" };
    match (active, ended) {
        (0, 0) => "none".to_owned(),
        (active, 0) => format!("{active} {lasts}"),
        (0, ended) => format!("{ended} ended"),
        (active, ended) => format!("{active} {lasts}, {ended} ended"),
    }
}

/// The lines within `width` columns. With `detail` and `room` for it, each has its place and cost below, and the steps of the
/// worst follow.
pub(in crate::tui) fn lines(view: &View, width: usize, room: usize, detail: bool) -> Vec<Entry> {
    let Some(concluded) = view.concluded() else {
        return vec![(None, Line::styled(" analysing…", theme::DIM))];
    };
    if matches!(concluded.as_of, AsOf::Later(_)) {
        let text = format!(" findings {}", findings::since(concluded.as_of));
        return wrap(&text, width).into_iter().map(|text| (None, Line::styled(text, theme::DIM))).collect();
    }
    let end = DataEnd { ns: concluded.end_ns, recorded: view.kind() == Some(SourceKind::Replay) };
    let all = concluded.findings;
    if all.iter().all(|one| one.severity == Severity::Info) {
        let mut lines = vec![nothing(&concluded)];
        lines.extend(notes(all, width, room.saturating_sub(1)));
        return lines;
    }
    let problems = all.iter().filter(|one| one.severity > Severity::Info).count();
    let wide = detail && room >= 3 * problems;
    let (mut lines, mut shown): (Vec<Entry>, usize) = (Vec::new(), 0);
    for (at, finding) in all.iter().enumerate().filter(|(_, one)| one.severity > Severity::Info) {
        let one = if wide {
            detailed(finding, end, width)
        } else {
            // As long as the rest has a line each, a title that does not fit takes several.
            let rest = problems.saturating_sub(shown + 1);
            brief(finding, end, width, room.saturating_sub(lines.len() + rest).max(1))
        };
        shown += 1;
        lines.extend(one.into_iter().map(|line| (Some(at), line)));
    }
    let left = room.saturating_sub(lines.len());
    if lines.len() > room && room > 0 {
        // The last line says how many are left out.
        lines.truncate(room);
        let mut shown: Vec<usize> = lines.iter().take(room - 1).filter_map(|(at, _)| *at).collect();
        shown.dedup();
        if let Some(last) = lines.last_mut() {
            let text = match problems.saturating_sub(shown.len()) {
                0 => "   more of it: screen 8".to_owned(),
                more => format!("   +{more} more: screen 8"),
            };
            *last = (None, Line::styled(text, theme::DIM));
        }
    } else if wide && left > 3 {
        let steps = steps(all, width, left);
        lines.extend(steps.into_iter().map(|line| (None, line)));
        let left = room.saturating_sub(lines.len() + 1);
        let notes = notes(all, width, left);
        if !notes.is_empty() {
            lines.push((None, Line::default()));
            lines.extend(notes);
        }
    } else {
        lines.extend(notes(all, width, left));
    }
    lines
}

/// Lines of the sentences of all problems, without place, cost and steps.
pub(super) fn sentences(view: &View, width: usize) -> usize {
    let Some(concluded) = known(view) else { return 0 };
    let end = DataEnd { ns: concluded.end_ns, recorded: view.kind() == Some(SourceKind::Replay) };
    let problems = concluded.findings.iter().filter(|one| one.severity > Severity::Info);
    problems.map(|finding| brief(finding, end, width, usize::MAX).len()).sum()
}

fn nothing(concluded: &Concluded<'_>) -> Entry {
    let mut spans = Spans::default();
    spans.push(format!(" {} ", theme::symbol(Level::Fine)), theme::GOOD);
    spans.push(format!("no problem {}", findings::since(concluded.as_of)), theme::PLAIN);
    (None, spans.into_line())
}

/// Information, in grey: no problem.
fn notes(all: &[Finding], width: usize, room: usize) -> Vec<Entry> {
    let infos = all.iter().enumerate().filter(|(_, one)| one.severity == Severity::Info);
    let line = |(at, finding): (usize, &Finding)| {
        let text = format!(" · {}", cut(&finding.title, width.saturating_sub(3), false));
        (Some(at), Line::styled(text, theme::DIM))
    };
    infos.take(room).map(line).collect()
}

/// Symbol and indent of a finding: an effect stands below what owns it.
fn lead(finding: &Finding) -> Spans {
    let (symbol, style) = theme::mark(finding.severity.into(), finding.active);
    let mut spans = Spans::default();
    spans.push(if finding.owner.is_some() { " └ " } else { " " }, theme::FRAME);
    spans.push(format!("{symbol} "), style);
    spans
}

fn style(finding: &Finding) -> ratatui::style::Style {
    if finding.active { theme::BOLD } else { theme::DIM }
}

/// When it began, or ended and after how long.
fn when(finding: &Finding, end: DataEnd) -> String {
    let at = |ns: u64| units::recent_utc(ns, end.ns);
    match (finding.active, finding.since_ns(), finding.last_seen_ns) {
        (true, Some(first), _) => format!("since {}", at(first)),
        (false, _, Some(_)) => {
            let last =
                finding.episodes.last().map(|episode| episode.last_ns.saturating_sub(episode.first_ns));
            let length =
                last.filter(|ns| *ns > 0).map_or_else(String::new, |ns| format!(", {}", units::duration(ns)));
            format!("ended {}{length}", finding.last_seen_ns.map_or_else(String::new, at))
        }
        _ => String::new(),
    }
}

/// The diagnosis, which has the figure and the place, in as many of `most` lines as it takes, and the time.
fn brief(finding: &Finding, end: DataEnd, width: usize, most: usize) -> Vec<Line<'static>> {
    let mut spans = lead(finding);
    let indent = spans.width;
    let mut when = when(finding, end);
    let room = width.saturating_sub(indent + 1);
    if finding.title.chars().count() + 2 + when.chars().count() > room {
        // The clock says enough where the words do not fit.
        let clock = when.replace("since ", "");
        clock.split(", ").next().unwrap_or_default().clone_into(&mut when);
    }
    let left = room.saturating_sub(when.chars().count() + 2);
    let mut parts = wrap(&finding.title, left).into_iter();
    let several = most > 1;
    let first = if several { parts.next().unwrap_or_default() } else { cut(&finding.title, left, false) };
    let gap = room.saturating_sub(first.chars().count() + when.chars().count());
    spans.push(first, style(finding)).push(" ".repeat(gap), theme::PLAIN).push(when, theme::DIM);
    let mut lines = vec![spans.into_line()];
    if several {
        let rest = wrap(&parts.collect::<Vec<_>>().join(" "), room);
        for (at, text) in rest.iter().filter(|text| !text.is_empty()).enumerate().take(most - 1) {
            let last = at + 2 == most && at + 1 < rest.len();
            let text = if last {
                cut(&rest.iter().skip(at).cloned().collect::<Vec<_>>().join(" "), room, false)
            } else {
                text.clone()
            };
            lines.push(Line::from(vec![Span::raw(" ".repeat(indent)), Span::styled(text, style(finding))]));
        }
    }
    lines
}

/// The diagnosis, and below it place, time and cost.
fn detailed(finding: &Finding, end: DataEnd, width: usize) -> Vec<Line<'static>> {
    let first = lead(finding);
    let indent = first.width;
    let room = width.saturating_sub(indent + 1);
    let mut lines = Vec::new();
    for (at, text) in wrap(&finding.title, room).into_iter().enumerate() {
        let mut spans = if at == 0 { first.clone() } else { Spans::default() };
        if at > 0 {
            spans.push(" ".repeat(indent), theme::PLAIN);
        }
        spans.push(text, style(finding));
        lines.push(spans.into_line());
    }
    let fields = finding.fields(end);
    let field = |name: &str| fields.iter().find(|(label, _)| *label == name).map(|(_, text)| text.clone());
    let parts = [field("Where"), Some(when(finding, end)).filter(|text| !text.is_empty()), field("Impact")];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    for text in wrap(&text, room) {
        lines.push(Line::from(vec![Span::raw(" ".repeat(indent)), Span::styled(text, theme::DIM)]));
    }
    lines
}

/// The steps of the worst finding.
fn steps(all: &[Finding], width: usize, room: usize) -> Vec<Line<'static>> {
    let worst = all.iter().find(|one| one.severity > Severity::Info && !one.steps.is_empty());
    let Some(worst) = worst else { return Vec::new() };
    let mut lines = vec![Line::default(), Line::styled(" DO NEXT", theme::BOLD)];
    for (number, step) in (1..).zip(&worst.steps) {
        let mut one = Vec::new();
        for (at, text) in wrap(&step.text, width.saturating_sub(5)).into_iter().enumerate() {
            let lead = if at == 0 { format!(" {number} ") } else { "   ".to_owned() };
            one.push(Line::from(vec![Span::styled(lead, theme::BOLD), Span::raw(text)]));
        }
        if let Some(command) = &step.command {
            let text = cut(command, width.saturating_sub(6), false);
            one.push(Line::from(vec![Span::raw("   $ "), Span::styled(text, theme::KEY)]));
        }
        if lines.len() + one.len() > room {
            break;
        }
        lines.extend(one);
    }
    if lines.len() > 2 { lines } else { Vec::new() }
}

/// Place, time and cost of the worst problem, for the line below the verdict.
pub(in crate::tui) fn impact(view: &View) -> Option<String> {
    let concluded = known(view)?;
    let verdict = view.verdict()?;
    let worst = verdict.worst?;
    let end = DataEnd { ns: concluded.end_ns, recorded: view.kind() == Some(SourceKind::Replay) };
    let fields = worst.fields(end);
    let field = |name: &str| fields.iter().find(|(label, _)| *label == name).map(|(_, text)| text.clone());
    let time = Some(when(worst, end)).filter(|text| !text.is_empty());
    // What the title says already is not said again.
    let impact = field("Impact").map(|text| {
        let new = |part: &&str| {
            let figure =
                part.strip_suffix(" of packets").map(|figure| figure.trim_start_matches("at least "));
            figure.is_none_or(|figure| !worst.title.contains(figure))
        };
        text.split(" · ").filter(new).collect::<Vec<_>>().join(" · ")
    });
    let bare = |text: &String| !text.contains(' ');
    let place = field("Where").map(|text| if bare(&text) { format!("at {text}") } else { text });
    let parts = [time, impact.filter(|text| !text.is_empty()), place].into_iter().flatten();
    let text = parts.collect::<Vec<_>>().join(" · ");
    (!text.is_empty()).then_some(text)
}
