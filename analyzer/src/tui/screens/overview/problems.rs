//! The problems: what is active and what has ended, with place, time and cost, and what to do next.

mod cost;
mod ends;
mod sentence;
mod time_text;

use ratatui::text::{Line, Span};
use rocescope_common::account::FlowKey;

use self::cost::new_cost;
pub(in crate::tui) use self::ends::{Ends, both_ends};
use self::sentence::kind;
pub(in crate::tui) use self::sentence::{share_alone, shortened};
pub(in crate::tui) use self::time_text::{Clock, TimeText};
use super::super::finding_lines;
use crate::findings::{Finding, Severity, Step};
use crate::model::Level;
use crate::sample::address;
use crate::tui::theme;
use crate::tui::view::{AsOf, Concluded, View};
use crate::tui::widgets::{Spans, cut, letters};
use crate::util::units;
use crate::util::wrap::wrap;

/// A line of the list, and the number of the finding that it is about.
pub(in crate::tui) type Entry = (Option<usize>, Line<'static>);

/// Findings above info, and info, of the snapshot shown.
pub(super) fn count(view: &View) -> usize {
    known(view).map_or(0, |concluded| concluded.findings.len())
}

/// True if there are findings of the snapshot shown, or none was made.
pub(super) fn is_known(view: &View) -> bool {
    known(view).is_some()
}

/// The identity of the finding at a place, for other snapshots.
pub(super) fn key(view: &View, at: usize) -> Option<String> {
    known(view)?.findings.get(at).map(Finding::key)
}

/// Place of the finding with this key.
pub(super) fn with_key(view: &View, key: &str) -> Option<usize> {
    known(view)?.findings.iter().position(|finding| finding.key() == key)
}

fn known(view: &View) -> Option<Concluded<'_>> {
    view.concluded().filter(|concluded| !matches!(concluded.as_of, AsOf::Later(_)))
}

/// Number of active and of ended problems: without information, and without those that others cause.
pub(in crate::tui) fn about(view: &View) -> String {
    let Some(concluded) = known(view) else { return String::new() };
    let problems = || concluded.findings.iter().filter(|one| one.is_primary());
    let end = end(view, &concluded);
    let quiet = problems().filter(|one| one.quiet_until(*end).is_some()).count();
    let active = problems().filter(|one| one.active).count() - quiet;
    let ended = problems().count() - active - quiet;
    // Nothing is active at the end of a capture.
    let lasts = if view.shows_end() { "at the end" } else { "active" };
    let parts = [(active, lasts), (quiet, "quiet"), (ended, "ended")];
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, state)| format!("{n} {state}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

/// The time that the figures of problems cover, where that is not the whole run.
pub(in crate::tui) fn span(all: &[Finding]) -> Option<&'static str> {
    let dated = all.iter().any(|one| one.is_problem() && one.is_of_episode());
    dated.then_some("figures since each began")
}

/// The same, with the number of those for information.
pub(super) fn about_all(view: &View) -> String {
    let all = known(view).map_or(&[][..], |concluded| concluded.findings);
    let episodes = span(all).map_or_else(String::new, |span| format!(" · {span}"));
    match all.iter().filter(|one| one.is_note()).count() {
        0 => about(view) + &episodes,
        // The time of the figures matters more than what is no problem.
        notes => format!("{}{episodes} · {notes} for information", about(view)),
    }
}

/// The lines within `width` columns. With `detail` and `room` for it, each has its place and cost below, and the steps
/// of the worst follow, with `rest` its evidence too, or blind spots where there is no problem.
pub(super) fn lines(view: &View, width: usize, room: usize, detail: bool, rest: bool) -> Vec<Entry> {
    let concluded = match shown(view, width) {
        Ok(concluded) => concluded,
        Err(why) => return why,
    };
    let end = end(view, &concluded);
    let all = concluded.findings;
    let problems: Vec<(usize, &Finding)> = problems_of(all).collect();
    if problems.is_empty() {
        let mut lines = vec![nothing(view, &concluded)];
        lines.extend(notes(all, width, room.saturating_sub(1)));
        let left = room.saturating_sub(lines.len());
        let blind = if rest { finding_lines::blind_spots(view, width) } else { Vec::new() };
        if detail && !blind.is_empty() && left >= blind.len() + 2 {
            lines.push((None, Line::default()));
            lines.push((None, Line::styled(format!(" {}", finding_lines::BLIND), theme::BOLD)));
            lines.extend(blind.into_iter().map(|line| (None, line)));
        }
        return lines;
    }
    let blocks: Vec<usize> = blocks(all, width, true).iter().map(Vec::len).collect();
    let listed = if detail { listed(&problems, end, width, (room, &blocks)) } else { None };
    let Some(mut lines) = listed else {
        let mut lines = whole(&problems, end, width, room);
        // No information while a problem has no room.
        if lines.last().is_some_and(|(at, _)| at.is_some()) {
            lines.extend(notes(all, width, room.saturating_sub(lines.len())));
        }
        return lines;
    };
    let left = room - lines.len();
    lines.extend(steps(all, width, left, true).into_iter().map(|line| (None, line)));
    let apart = notes(all, width, room.saturating_sub(lines.len() + 1));
    if apart.last().is_some_and(|(at, _)| at.is_some()) {
        lines.push((None, Line::default()));
        lines.extend(apart);
    } else {
        // Where not all have room, none is left blank.
        lines.extend(notes(all, width, room.saturating_sub(lines.len())));
    }
    let left = room.saturating_sub(lines.len());
    if let Some((_, worst)) = problems.first().filter(|_| rest) {
        lines.extend(evidence(worst, end, width, left).into_iter().map(|line| (None, line)));
    }
    lines
}

/// The problems that name one of these flows, with place, cost and time, within `width` columns.
pub(in crate::tui) fn naming(view: &View, flows: &[FlowKey], width: usize) -> Vec<Line<'static>> {
    let Some(concluded) = known(view) else { return Vec::new() };
    let end = end(view, &concluded);
    let name = |key: &FlowKey| (address(key.family, key.src), address(key.family, key.dst), key.dest_qp);
    let names = |one: &Finding| flows.iter().any(|key| one.named.contains(&name(key)));
    let lines = |one: &Finding| {
        let ProblemLines { mut lines, rest } = brief(one, end, width);
        lines.extend(below(one, rest, width));
        lines
    };
    problems_of(concluded.findings).filter(|(_, one)| names(one)).flat_map(|(_, one)| lines(one)).collect()
}

/// Below this width sentences of a card are not wrapped.
const NARROW: usize = 24;

/// Some problems for the smallest terminals: whole, with what to do, where that has room, else a line each.
pub(in crate::tui) fn card(view: &View, width: usize, count: usize, room: usize) -> Vec<Line<'static>> {
    let concluded = match shown(view, width) {
        Ok(concluded) => concluded,
        Err(why) => return why.into_iter().map(|(_, line)| line).take(count).collect(),
    };
    let end = end(view, &concluded);
    let shown = || problems_of(concluded.findings).take(count);
    let mut lines: Vec<Line<'static>> = shown().flat_map(|(_, one)| brief(one, end, width).lines).collect();
    if lines.is_empty() {
        return vec![nothing(view, &concluded).1];
    }
    if lines.len() > room || width < NARROW {
        return shown().map(|(_, one)| cut_off(one, end, width)).collect();
    }
    // A command has no room.
    lines.extend(steps(concluded.findings, width, room - lines.len(), false));
    lines
}

/// The findings of the snapshot shown, or lines that say why there are none.
fn shown(view: &View, width: usize) -> Result<Concluded<'_>, Vec<Entry>> {
    let Some(concluded) = view.concluded() else {
        return Err(vec![(None, Line::styled(" analysing…", theme::DIM))]);
    };
    if matches!(concluded.as_of, AsOf::Later(_)) {
        let text = format!(" findings {}", finding_lines::since(concluded.as_of));
        let lines = wrap(&text, width).into_iter().map(|text| (None, Line::styled(text, theme::DIM)));
        return Err(lines.collect());
    }
    Ok(concluded)
}

fn end<'a>(view: &'a View, concluded: &Concluded<'_>) -> Clock<'a> {
    Clock { end: view.data_end(concluded.end_ns), history: Some(&view.timeline.history) }
}

/// All but information, with their numbers.
fn problems_of(all: &[Finding]) -> impl Iterator<Item = (usize, &Finding)> {
    all.iter().enumerate().filter(|(_, one)| one.is_problem())
}

/// All problems, as many of the first ones as there is room for with place and cost; `None` where the sentences alone
/// have none. Where something lasts and more of its steps, whose numbers of lines are `blocks`, have room then, what
/// has ended takes a line each, and only the first ones have place and cost.
fn listed(
    problems: &[(usize, &Finding)],
    end: Clock<'_>,
    width: usize,
    (room, blocks): (usize, &[usize]),
) -> Option<Vec<Entry>> {
    let lasts = problems.iter().any(|(_, finding)| finding.active);
    let list = |short: bool| -> Vec<ProblemLines> {
        let one = |(_, finding): &(usize, &Finding)| {
            if finding.active || !short {
                return brief(finding, end, width);
            }
            ProblemLines { lines: vec![cut_off(finding, end, width)], rest: Vec::new() }
        };
        problems.iter().map(one).collect()
    };
    let spare = |all: &[ProblemLines]| room.checked_sub(all.iter().map(|one| one.lines.len()).sum());
    let steps = |room: usize, head: usize| -> usize {
        let fit = blocks.iter().scan(head, |used, lines| {
            *used += lines;
            (*used <= room).then_some(*lines)
        });
        fit.sum()
    };
    // Beside the place and cost of the worst, with a blank line above the title.
    let usual = |left: usize| steps(left.saturating_sub(1), STEPS_HEAD + 1);
    let most = |all: &[ProblemLines]| spare(all).map(usual);
    let (whole, short) = (list(false), list(lasts));
    let brief = if most(&short) > most(&whole) { short } else { whole };
    let left = spare(&brief)?;
    // The blank line gives way to place and cost.
    let fits = |below: &usize| steps(left - below, STEPS_HEAD) >= usual(left);
    let mut left = (1..=left).rev().find(|below| !lasts || fits(below)).unwrap_or(0);
    let mut lines = Vec::new();
    for ((at, finding), ProblemLines { lines: mut sentence, rest }) in problems.iter().zip(brief) {
        if left > 0
            && let Some(below) = below(finding, rest, width)
        {
            left -= 1;
            sentence.push(below);
        }
        lines.extend(sentence.into_iter().map(|line| (Some(*at), line)));
    }
    Some(lines)
}

/// As many problems as there is room for, a line each, and the first of them whole, as far as that leaves room for the
/// others. The last line counts what finds none.
fn whole(problems: &[(usize, &Finding)], end: Clock<'_>, width: usize, room: usize) -> Vec<Entry> {
    // In a single line a cut sentence says more than how many there are.
    let counted = room >= 2 && problems.len() > room;
    let shown = problems.len().min(room - usize::from(counted));
    let mut spare = room - shown - usize::from(counted);
    let mut lines: Vec<Entry> = Vec::new();
    let (shown, hidden) = problems.split_at(shown);
    for (at, finding) in shown {
        let mut own = brief(finding, end, width).lines;
        match spare.checked_sub(own.len().saturating_sub(1)) {
            Some(left) => spare = left,
            None => own = vec![cut_off(finding, end, width)],
        }
        lines.extend(own.into_iter().map(|line| (Some(*at), line)));
    }
    if counted {
        lines.push((None, Line::styled(more(hidden), theme::DIM)));
    }
    lines
}

/// Problems without room: how many of each severity, and the screen that lists them.
fn more(hidden: &[(usize, &Finding)]) -> String {
    let count = |is: &dyn Fn(&Finding) -> bool| hidden.iter().filter(|(_, one)| is(one)).count();
    let of = |severity| count(&|one: &Finding| one.active && one.severity == severity);
    let (critical, warnings) = (of(Severity::Critical), of(Severity::Warning));
    let ended = hidden.len() - critical - warnings;
    let counts = [
        (critical, format!("{critical} critical")),
        (warnings, units::plural(warnings as u64, "warning")),
        (ended, format!("{ended} ended")),
    ];
    let counts: Vec<String> = counts.into_iter().filter(|(n, _)| *n > 0).map(|(_, text)| text).collect();
    format!("   +{} more ({}): screen 8", hidden.len(), counts.join(", "))
}

/// Lines of the sentences of all problems, without place, cost and steps.
pub(super) fn sentences(view: &View, width: usize) -> usize {
    let Some(concluded) = known(view) else { return 0 };
    let end = end(view, &concluded);
    problems_of(concluded.findings).map(|(_, finding)| brief(finding, end, width).lines.len()).sum()
}

/// Number of all problems.
pub(super) fn above_info(view: &View) -> usize {
    known(view).map_or(0, |concluded| problems_of(concluded.findings).count())
}

fn nothing(view: &View, concluded: &Concluded<'_>) -> Entry {
    let good = view.verdict().is_none_or(|verdict| verdict.is_good());
    let (symbol, style) = theme::mark(Level::Fine, good);
    let what = if good { "problem" } else { "warning" };
    let mut spans = Spans::default();
    spans.push(format!(" {symbol} "), style);
    spans.push(format!("no {what} {}", finding_lines::since(concluded.as_of)), theme::PLAIN);
    (None, spans.into_line())
}

/// Information, in grey: no problem. The last line counts what finds no room.
fn notes(all: &[Finding], width: usize, room: usize) -> Vec<Entry> {
    let infos: Vec<(usize, &Finding)> = all.iter().enumerate().filter(|(_, one)| one.is_note()).collect();
    let line = |(at, finding): &(usize, &Finding)| {
        let text = format!(" · {}", cut(&finding.title, width.saturating_sub(3), false));
        (Some(*at), Line::styled(text, theme::DIM))
    };
    let fit = if infos.len() > room { room.saturating_sub(1) } else { infos.len() };
    let mut lines: Vec<Entry> = infos.iter().take(fit).map(line).collect();
    if fit < infos.len() && room > 0 {
        let text = format!("   +{} for information: screen 8", infos.len() - fit);
        lines.push((None, Line::styled(text, theme::DIM)));
    }
    lines
}

/// Symbol and indent of a finding: an effect stands below what owns it.
fn lead(finding: &Finding) -> Spans {
    let (symbol, style) = finding_lines::mark(finding);
    let mut spans = Spans::default();
    spans.push(if finding.owner.is_some() { " └ " } else { " " }, theme::FRAME);
    spans.push(format!("{symbol} "), style);
    spans
}

/// The colour of its level while it lasts; bold is what shows now, as a badge is filled then.
fn style(finding: &Finding, end: Clock<'_>) -> ratatui::style::Style {
    let level = finding.severity.into();
    match (finding.active, finding.quiet_ns(end.ns)) {
        (true, None) => theme::text(level),
        (true, Some(_)) => theme::bar(level),
        (false, _) => theme::DIM,
    }
}

/// A problem in few lines.
struct ProblemLines {
    lines: Vec<Line<'static>>,
    /// Parts of place and cost that the lines do not have.
    rest: Vec<Part>,
}

/// The diagnosis, which has the figure and the place, in as many lines as it takes; its time ends the last one, or
/// stands in a line of its own, behind as much of place and cost as it has room for.
fn brief(finding: &Finding, end: Clock<'_>, width: usize) -> ProblemLines {
    let lead = lead(finding);
    let indent = lead.width;
    let room = width.saturating_sub(indent + 1);
    let mut texts = wrap(&finding.title, room);
    let time = TimeText::of(finding, end);
    let last = texts.last().map_or(0, |text| letters(text));
    let mut rest = parts(finding, end);
    let mut below = None;
    let beside = time.forms().find(|form| last + 2 + letters(form) <= room);
    let when = if let Some(form) = beside {
        form.to_owned()
    } else if !time.is_known() {
        String::new()
    } else {
        let own = time.best(|form| letters(form) <= room / 2, |_| true).unwrap_or_default().to_owned();
        let (some, others) = fitting(rest, room.saturating_sub(letters(&own) + 2));
        rest = others;
        below = Some(texts.len());
        texts.push(joined(&some));
        own
    };
    let style = style(finding, end);
    let mut lead = Some(lead);
    let count = texts.len();
    let line = |(at, text): (usize, String)| {
        let mut spans = lead.take().unwrap_or_else(|| {
            let mut blank = Spans::default();
            blank.push(" ".repeat(indent), theme::PLAIN);
            blank
        });
        let gap = room.saturating_sub(letters(&text) + letters(&when));
        spans.push(text, if below == Some(at) { theme::DIM } else { style });
        if at + 1 == count {
            spans.push(" ".repeat(gap), theme::PLAIN).push(when.clone(), theme::DIM);
        }
        spans.into_line()
    };
    ProblemLines { lines: texts.into_iter().enumerate().map(line).collect(), rest }
}

/// The diagnosis in one line with its time, cut where it has no room.
fn cut_off(finding: &Finding, end: Clock<'_>, width: usize) -> Line<'static> {
    let mut spans = lead(finding);
    let room = width.saturating_sub(spans.width + 1);
    let time = TimeText::of(finding, end);
    let when = time.forms().last().unwrap_or_default().to_owned();
    let left = room.saturating_sub(when.chars().count() + 2);
    let text = shortened(&finding.title, left);
    let gap = room.saturating_sub(text.chars().count() + when.chars().count());
    spans.push(text, style(finding, end)).push(" ".repeat(gap), theme::PLAIN).push(when, theme::DIM);
    spans.into_line()
}

/// Between two parts of a place or a cost.
const NEXT: &str = " · ";

/// A part of a place or a cost.
struct Part {
    is_place: bool,
    /// Its place in the text that it is of.
    at: usize,
    text: String,
}

impl Part {
    fn is_switch(&self) -> bool {
        self.is_place && self.text.starts_with("switch port")
    }
}

/// Parts of place and cost that the title does not have, those that matter most first: the switch port to look at, a
/// cost, the place, and the other costs; the place before the cost where the title has a share.
fn parts(finding: &Finding, end: Clock<'_>) -> Vec<Part> {
    let place = finding.field("Where", *end).unwrap_or_default();
    let cost = new_cost(finding, end).unwrap_or_default();
    let part = |is_place: bool| move |(at, text): (usize, &str)| Part { is_place, at, text: text.to_owned() };
    let places = place.split(NEXT).enumerate().filter(|(_, text)| !text.is_empty());
    let places = places.map(part(true)).filter(|part| !finding.title.contains(&part.text));
    let (mut switch, mut places): (Vec<Part>, Vec<Part>) = places.partition(Part::is_switch);
    if finding.is_placed_by_title() {
        places.clear();
    }
    let costs = cost.split(NEXT).enumerate().filter(|(_, text)| !text.is_empty()).map(part(false));
    let (mut first, others): (Vec<Part>, Vec<Part>) = costs.partition(|part| part.at == 0);
    // Where the title has the share that it costs, where it is says more.
    if finding.title.contains(" %") {
        switch.append(&mut places);
    }
    switch.append(&mut first);
    switch.into_iter().chain(places).chain(others).collect()
}

/// The parts that find room behind one another, in the order of the text that they are of, and the others.
fn fitting(parts: Vec<Part>, room: usize) -> (Vec<Part>, Vec<Part>) {
    let mut used = 0;
    let (mut some, others): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|part| {
        let letters = part.text.chars().count() + if used > 0 { NEXT.chars().count() } else { 0 };
        let fits = used + letters <= room;
        used += if fits { letters } else { 0 };
        fits
    });
    some.sort_by_key(|part| (!part.is_place, part.at));
    (some, others)
}

fn joined(parts: &[Part]) -> String {
    parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(NEXT)
}

/// Parts of place and cost in a line for below the diagnosis, the place left and the cost right, or left too where it
/// is alone; `None` where none finds room.
fn below(finding: &Finding, parts: Vec<Part>, width: usize) -> Option<Line<'static>> {
    let indent = lead(finding).width;
    let room = width.saturating_sub(indent + 1);
    let (some, _) = fitting(parts, room);
    if some.is_empty() {
        return None;
    }
    let (places, costs): (Vec<_>, Vec<_>) = some.into_iter().partition(|part| part.is_place);
    let (left, right) = (joined(&places), joined(&costs));
    let style = if finding.active { theme::PLAIN } else { theme::DIM };
    // Far from the sentence a cost alone would look as if something were missing before it.
    let gap = room.saturating_sub(left.chars().count() + right.chars().count());
    let between = if left.is_empty() { 0 } else { gap };
    Some(Line::from(vec![
        Span::raw(" ".repeat(indent)),
        Span::styled(left, theme::DIM),
        Span::raw(" ".repeat(between)),
        Span::styled(right, style),
    ]))
}

/// Lines before the first step: its title. A blank line is above it where that costs nothing else.
const STEPS_HEAD: usize = 1;

/// The worst problem that has steps.
fn with_steps(all: &[Finding]) -> Option<&Finding> {
    all.iter().find(|one| one.is_problem() && !one.steps.is_empty())
}

/// The steps of the worst finding, with their `commands` or without, as many as there is room for.
fn steps(all: &[Finding], width: usize, room: usize, commands: bool) -> Vec<Line<'static>> {
    const NAME: &str = " DO NEXT";
    let blocks = blocks(all, width, commands);
    let count = blocks.len();
    let fits = |used: &mut usize, one: Vec<Line<'static>>| {
        *used += one.len();
        (*used <= room).then_some(one)
    };
    let shown: Vec<_> = blocks.into_iter().scan(STEPS_HEAD, fits).collect();
    if shown.is_empty() {
        return Vec::new();
    }
    // That there are more steps is news; what they are for stands above.
    let part =
        if shown.len() < count { format!(" · {} of {count} steps", shown.len()) } else { String::new() };
    let about = with_steps(all).map(|one| format!(" for {}", kind(one))).unwrap_or_default();
    let about = cut(&about, width.saturating_sub(NAME.len() + 1 + letters(&part)), false) + &part;
    let head = Line::from(vec![Span::styled(NAME, theme::BOLD), Span::styled(about, theme::DIM)]);
    let mut lines: Vec<_> = [head].into_iter().chain(shown.into_iter().flatten()).collect();
    if lines.len() < room {
        lines.insert(0, Line::default());
    }
    lines
}

/// Lines of the problems' sentences, of place and cost of the worst, a blank one, and its first step; 0 where nothing
/// lasts that has one.
pub(super) fn with_first_step(view: &View, width: usize) -> usize {
    let Some(concluded) = known(view) else { return 0 };
    let lasts = with_steps(concluded.findings).is_some_and(|one| one.active);
    let first = blocks(concluded.findings, width, true).first().map(Vec::len).filter(|_| lasts);
    first.map_or(0, |lines| sentences(view, width) + 2 + STEPS_HEAD + lines)
}

/// The lines of each step.
fn blocks(all: &[Finding], width: usize, commands: bool) -> Vec<Vec<Line<'static>>> {
    let worst = with_steps(all);
    let block = |(number, step): (usize, &Step)| {
        let mut one = Vec::new();
        for (at, text) in wrap(&step.text, width.saturating_sub(5)).into_iter().enumerate() {
            let lead = if at == 0 { format!(" {number} ") } else { "   ".to_owned() };
            one.push(Line::from(vec![Span::styled(lead, theme::BOLD), Span::raw(text)]));
        }
        if let Some(command) = step.command.as_ref().filter(|_| commands) {
            // Whole: half a command is of no use.
            for (at, text) in wrap(command, width.saturating_sub(6)).into_iter().enumerate() {
                let lead = if at == 0 { "   $ " } else { "     " };
                one.push(Line::from(vec![Span::raw(lead), Span::styled(text, theme::KEY)]));
            }
        }
        one
    };
    (1..).zip(worst.iter().flat_map(|worst| &worst.steps)).map(block).collect()
}

/// Ends, flows and measurements of a problem, whole lines as far as there is room.
fn evidence(finding: &Finding, end: Clock<'_>, width: usize, room: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default(), Line::styled(" EVIDENCE", theme::BOLD)];
    let fields = finding.fields(*end).into_iter();
    let fields = fields.filter(|(name, _)| matches!(*name, "Who" | "Flows" | "Evidence"));
    let caveats = finding.caveats.iter().map(|text| ("Caveat", text.clone()));
    for (name, text) in fields.chain(caveats) {
        let one = finding_lines::labelled(name, &text, width);
        if lines.len() + one.len() > room {
            break;
        }
        lines.extend(one);
    }
    if lines.len() > 2 { lines } else { Vec::new() }
}

/// Text about the worst problem for the lines below the verdict.
#[derive(Debug)]
pub(in crate::tui) struct Impact {
    pub(in crate::tui) time: TimeText,
    /// Cost and place of the problem, in parts that are dropped from the end.
    pub(in crate::tui) parts: Vec<String>,
    pub(in crate::tui) who: Ends,
    /// That the process of neither end is known, if so, for where there is room: the longest form first.
    pub(in crate::tui) unknown: &'static [&'static str],
}

/// Time of the worst problem, its cost and place, and its ends, for the lines below the verdict.
pub(in crate::tui) fn impact(view: &View) -> Option<Impact> {
    let concluded = known(view)?;
    let verdict = view.verdict()?;
    let worst = verdict.headline?;
    let end = end(view, &concluded);
    let time = TimeText::of(worst, end);
    let bare = |part: &Part| part.is_place && !part.text.contains(' ');
    let worded = |part: Part| if bare(&part) { format!("at {}", part.text) } else { part.text };
    let parts: Vec<String> = parts(worst, end).into_iter().map(worded).collect();
    let who = ends::below_title(worst, view);
    let unknown = if who.forms.is_empty() { &[] } else { unknown_process(view) };
    (time.is_known() || !parts.is_empty() || !who.forms.is_empty()).then_some(Impact {
        time,
        parts,
        who,
        unknown,
    })
}

/// That no process of a queue pair is known, if so: the longest form first.
pub(in crate::tui) fn unknown_process(view: &View) -> &'static [&'static str] {
    let owned = view.analysis.as_ref().is_none_or(|analysis| analysis.owned);
    if owned { &[] } else { &["process unknown", "process ?"] }
}

#[cfg(test)]
mod tests;
