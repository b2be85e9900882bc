//! The problems: what is active and what has ended, with place, time and cost, and what to do next.

use ratatui::text::{Line, Span};

use super::super::{Spans, cut, findings};
use crate::analysis::FlowId;
use crate::findings::{DataEnd, End, Finding, Severity};
use crate::model::Level;
use crate::sample::SourceKind;
use crate::tui::theme;
use crate::tui::view::{AsOf, Concluded, View};
use crate::util::layout::plain;
use crate::util::time::NS_PER_S;
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

/// Number of active and of ended problems: without information, and without those that others cause.
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

/// The same, with the number of those for information.
pub(super) fn about_all(view: &View) -> String {
    let all = known(view).map_or(&[][..], |concluded| concluded.findings);
    let episodes = if all.is_empty() { "" } else { " · figures of the latest episode" };
    match all.iter().filter(|one| one.severity == Severity::Info).count() {
        0 => about(view) + episodes,
        notes => format!("{}, {notes} for information{episodes}", about(view)),
    }
}

/// The lines within `width` columns. With `detail` and `room` for it, each has its place and cost below, and the steps of the
/// worst follow, with `rest` its evidence too, or blind spots where there is no problem.
pub(super) fn lines(view: &View, width: usize, room: usize, detail: bool, rest: bool) -> Vec<Entry> {
    let concluded = match shown(view, width) {
        Ok(concluded) => concluded,
        Err(why) => return why,
    };
    let end = end(view, &concluded);
    let all = concluded.findings;
    let problems: Vec<(usize, &Finding)> = problems_of(all).collect();
    if problems.is_empty() {
        let mut lines = vec![nothing(&concluded)];
        lines.extend(notes(all, width, room.saturating_sub(1)));
        let left = room.saturating_sub(lines.len());
        let blind = if rest { findings::blind_spots(view, width) } else { Vec::new() };
        if detail && !blind.is_empty() && left >= blind.len() + 2 {
            lines.push((None, Line::default()));
            lines.push((None, Line::styled(format!(" {}", findings::BLIND), theme::BOLD)));
            lines.extend(blind.into_iter().map(|line| (None, line)));
        }
        return lines;
    }
    let listed = if detail { listed(&problems, end, width, room) } else { None };
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
    let notes = notes(all, width, room.saturating_sub(lines.len() + 1));
    if !notes.is_empty() {
        lines.push((None, Line::default()));
        lines.extend(notes);
    }
    let left = room.saturating_sub(lines.len());
    if let Some((_, worst)) = problems.first().filter(|_| rest) {
        lines.extend(evidence(worst, end, width, left).into_iter().map(|line| (None, line)));
    }
    lines
}

/// Below this width sentences of a card are not wrapped.
const NARROW: usize = 40;

/// Some problems for the smallest terminals: whole, with what to do, where that has room, else a line each.
pub(in crate::tui) fn card(view: &View, width: usize, count: usize, room: usize) -> Vec<Line<'static>> {
    let concluded = match shown(view, width) {
        Ok(concluded) => concluded,
        Err(why) => return why.into_iter().map(|(_, line)| line).take(count).collect(),
    };
    let end = end(view, &concluded);
    let shown = || problems_of(concluded.findings).take(count);
    let mut lines: Vec<Line<'static>> = shown().flat_map(|(_, one)| brief(one, end, width, true)).collect();
    if lines.is_empty() {
        return vec![nothing(&concluded).1];
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
        let text = format!(" findings {}", findings::since(concluded.as_of));
        let lines = wrap(&text, width).into_iter().map(|text| (None, Line::styled(text, theme::DIM)));
        return Err(lines.collect());
    }
    Ok(concluded)
}

fn end(view: &View, concluded: &Concluded<'_>) -> DataEnd {
    view.data_end(concluded.end_ns)
}

/// All but information, with their numbers.
fn problems_of(all: &[Finding]) -> impl Iterator<Item = (usize, &Finding)> {
    all.iter().enumerate().filter(|(_, one)| one.severity > Severity::Info)
}

/// All problems, as many of the first ones as there is room for with place and cost; `None` where the sentences alone have
/// none.
fn listed(problems: &[(usize, &Finding)], end: DataEnd, width: usize, room: usize) -> Option<Vec<Entry>> {
    let brief: Vec<_> = problems.iter().map(|(_, finding)| brief(finding, end, width, true)).collect();
    let mut left = room.checked_sub(brief.iter().map(Vec::len).sum())?;
    let mut lines = Vec::new();
    for ((at, finding), mut sentence) in problems.iter().zip(brief) {
        if left > 0
            && let Some(below) = below(finding, end, width)
        {
            left -= 1;
            sentence.push(below);
        }
        lines.extend(sentence.into_iter().map(|line| (Some(*at), line)));
    }
    Some(lines)
}

/// Each problem whole, in as few lines as it takes; those that have room for more say when they began. The last line
/// counts what finds no room.
fn whole(problems: &[(usize, &Finding)], end: DataEnd, width: usize, room: usize) -> Vec<Entry> {
    if room < 2 {
        // A cut sentence says more than how many there are.
        let first = problems.iter().take(room);
        return first.map(|(at, one)| (Some(*at), cut_off(one, end, width))).collect();
    }
    let mut texts: Vec<Vec<Line<'static>>> = Vec::new();
    let mut used = 0;
    for (place, (_, finding)) in problems.iter().enumerate() {
        let mut lines = brief(finding, end, width, false);
        let counter = usize::from(place + 1 < problems.len());
        if used + lines.len() + counter > room && place > 0 {
            // Of one that is active a cut sentence says more than a count.
            if !finding.active || used + 1 + counter > room {
                break;
            }
            lines = vec![cut_off(finding, end, width)];
        }
        used += lines.len();
        texts.push(lines);
    }
    let counter = usize::from(texts.len() < problems.len());
    for (lines, (_, finding)) in texts.iter_mut().zip(problems) {
        let timed = brief(finding, end, width, true);
        if used + timed.len() - lines.len() + counter <= room {
            used += timed.len() - lines.len();
            *lines = timed;
        }
    }
    let entry = |(lines, (at, _)): (Vec<Line<'static>>, &(usize, &Finding))| {
        lines.into_iter().map(|line| (Some(*at), line)).collect::<Vec<_>>()
    };
    let count = texts.len();
    let mut lines: Vec<Entry> = texts.into_iter().zip(problems).flat_map(entry).collect();
    if count < problems.len() {
        let text = format!("   +{} more: screen 8", problems.len() - count);
        lines.push((None, Line::styled(text, theme::DIM)));
    }
    lines.truncate(room);
    lines
}

/// Lines of the sentences of all problems, without place, cost and steps.
pub(super) fn sentences(view: &View, width: usize) -> usize {
    let Some(concluded) = known(view) else { return 0 };
    let end = end(view, &concluded);
    problems_of(concluded.findings).map(|(_, finding)| brief(finding, end, width, true).len()).sum()
}

fn nothing(concluded: &Concluded<'_>) -> Entry {
    let mut spans = Spans::default();
    spans.push(format!(" {} ", theme::symbol(Level::Fine)), theme::GOOD);
    spans.push(format!("no problem {}", findings::since(concluded.as_of)), theme::PLAIN);
    (None, spans.into_line())
}

/// Information, in grey: no problem. The last line counts what finds no room.
fn notes(all: &[Finding], width: usize, room: usize) -> Vec<Entry> {
    let infos: Vec<(usize, &Finding)> =
        all.iter().enumerate().filter(|(_, one)| one.severity == Severity::Info).collect();
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
    let (symbol, style) = theme::mark(finding.severity.into(), finding.active);
    let mut spans = Spans::default();
    spans.push(if finding.owner.is_some() { " └ " } else { " " }, theme::FRAME);
    spans.push(format!("{symbol} "), style);
    spans
}

/// Bold is what shows now, as a badge is filled then.
fn style(finding: &Finding, end: DataEnd) -> ratatui::style::Style {
    match (finding.active, finding.quiet_ns(end.ns)) {
        (true, None) => theme::BOLD,
        (true, Some(_)) => theme::PLAIN,
        (false, _) => theme::DIM,
    }
}

/// Time of the beginning, or of the end and the length.
fn when(finding: &Finding, end: DataEnd) -> String {
    let at = |ns: u64| end.clock(ns);
    match (finding.active, finding.since_ns(), finding.last_seen_ns) {
        (true, Some(first), _) => {
            let quiet = finding.quiet_ns(end.ns);
            let quiet = quiet.map_or_else(String::new, |ns| format!(", quiet for {} s", ns / NS_PER_S));
            format!("since {}{quiet}", at(first))
        }
        (false, _, Some(_)) => {
            let length = finding.length_ns();
            let length = length
                .filter(|ns| *ns > 0)
                .map_or_else(String::new, |ns| format!(", {}", units::duration(ns)));
            format!("ended {}{length}", finding.last_seen_ns.map_or_else(String::new, at))
        }
        // It has a begin, which is not known.
        _ if !finding.episodes.is_empty() => units::UNKNOWN.to_owned(),
        _ => String::new(),
    }
}

/// The diagnosis, which has the figure and the place, and the time: in one line where both find room, else with a clock
/// alone. A sentence that has a line for itself is `timed` in a second one.
fn brief(finding: &Finding, end: DataEnd, width: usize, timed: bool) -> Vec<Line<'static>> {
    let lead = lead(finding);
    let indent = lead.width;
    let room = width.saturating_sub(indent + 1);
    let long = when(finding, end);
    let short = clock(&long);
    let letters = |text: &str| text.chars().count();
    let title = letters(&finding.title);
    let fits = |when: &str| title + 2 + letters(when) <= room;
    let when = match () {
        () if fits(&long) => long,
        () if fits(&short) || timed || title > room + 1 => short,
        () => String::new(),
    };
    // Alone it has the last column too.
    let left = if when.is_empty() { room + 1 } else { room.saturating_sub(letters(&when) + 2) };
    let mut parts = wrap(&finding.title, left).into_iter();
    let first = parts.next().unwrap_or_default();
    let gap = room.saturating_sub(letters(&first) + letters(&when));
    let mut spans = lead;
    spans.push(first, style(finding, end)).push(" ".repeat(gap), theme::PLAIN).push(when, theme::DIM);
    let mut lines = vec![spans.into_line()];
    let rest = wrap(&parts.collect::<Vec<_>>().join(" "), room).into_iter();
    let line =
        |text| Line::from(vec![Span::raw(" ".repeat(indent)), Span::styled(text, style(finding, end))]);
    lines.extend(rest.filter(|text| !text.is_empty()).map(line));
    lines
}

/// The diagnosis in one line, cut where it has no room.
fn cut_off(finding: &Finding, end: DataEnd, width: usize) -> Line<'static> {
    let mut spans = lead(finding);
    let room = width.saturating_sub(spans.width + 1);
    let when = clock(&when(finding, end));
    let left = room.saturating_sub(when.chars().count() + 2);
    let text = cut(&finding.title, left, false);
    let gap = room.saturating_sub(text.chars().count() + when.chars().count());
    spans.push(text, style(finding, end)).push(" ".repeat(gap), theme::PLAIN).push(when, theme::DIM);
    spans.into_line()
}

/// A time without its words, where these find no room: the symbol says whether it lasts, unless it is quiet.
fn clock(when: &str) -> String {
    if let Some((_, quiet)) = when.split_once(", quiet for ") {
        return format!("quiet {quiet}");
    }
    let clock = when.trim_start_matches("since ");
    clock.split(", ").next().unwrap_or_default().to_owned()
}

/// Place and cost in a line for below the diagnosis: of both the parts that find room, the first ones first.
fn below(finding: &Finding, end: DataEnd, width: usize) -> Option<Line<'static>> {
    const NEXT: &str = " · ";
    let indent = lead(finding).width;
    let room = width.saturating_sub(indent + 1);
    let letters = |text: &str| text.chars().count();
    let place = field(finding, end, "Where").unwrap_or_default();
    let cost = new_cost(finding, end).unwrap_or_default();
    let [mut places, mut costs] =
        [&place, &cost].map(|text| text.split(NEXT).filter(|part| !part.is_empty()));
    let (mut left, mut right) = (String::new(), String::new());
    let mut used = 0;
    // The cost is worth more than the switch behind its place.
    for is_place in [true, false, true, false, false, false] {
        let Some(part) = (if is_place { places.next() } else { costs.next() }) else { continue };
        let side = if is_place { &mut left } else { &mut right };
        let gap = if side.is_empty() { "" } else { NEXT };
        // Two columns stay between the sides.
        if used + letters(gap) + letters(part) + 2 <= room {
            *side = format!("{side}{gap}{part}");
            used += letters(gap) + letters(part);
        }
    }
    if used == 0 {
        return None;
    }
    let style = if finding.active { theme::PLAIN } else { theme::DIM };
    let between = " ".repeat(room.saturating_sub(used));
    Some(Line::from(vec![
        Span::raw(" ".repeat(indent)),
        Span::styled(left, theme::DIM),
        Span::raw(between),
        Span::styled(right, style),
    ]))
}

fn field(finding: &Finding, end: DataEnd, name: &str) -> Option<String> {
    finding.fields(end).into_iter().find(|(label, _)| *label == name).map(|(_, text)| text)
}

/// The cost, without what the title says already.
fn new_cost(finding: &Finding, end: DataEnd) -> Option<String> {
    let text = field(finding, end, "Impact")?;
    let new = |part: &&str| {
        let figure = part.strip_suffix(" of packets").map(|figure| figure.trim_start_matches("at least "));
        figure.is_none_or(|figure| !finding.title.contains(figure))
    };
    let text = text.split(" · ").filter(new).collect::<Vec<_>>().join(" · ");
    (!text.is_empty()).then_some(text)
}

/// The steps of the worst finding, with their `commands` or without.
fn steps(all: &[Finding], width: usize, room: usize, commands: bool) -> Vec<Line<'static>> {
    let worst = all.iter().find(|one| one.severity > Severity::Info && !one.steps.is_empty());
    let Some(worst) = worst else { return Vec::new() };
    let mut lines = vec![Line::default(), Line::styled(" DO NEXT", theme::BOLD)];
    for (number, step) in (1..).zip(&worst.steps) {
        let mut one = Vec::new();
        for (at, text) in wrap(&step.text, width.saturating_sub(5)).into_iter().enumerate() {
            let lead = if at == 0 { format!(" {number} ") } else { "   ".to_owned() };
            one.push(Line::from(vec![Span::styled(lead, theme::BOLD), Span::raw(text)]));
        }
        if let Some(command) = step.command.as_ref().filter(|_| commands) {
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

/// Ends, flows and measurements of a problem, whole lines as far as there is room.
fn evidence(finding: &Finding, end: DataEnd, width: usize, room: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default(), Line::styled(" EVIDENCE", theme::BOLD)];
    let fields = finding.fields(end).into_iter();
    let fields = fields.filter(|(name, _)| matches!(*name, "Who" | "Flows" | "Evidence"));
    let caveats = finding.caveats.iter().map(|text| ("Caveat", text.clone()));
    for (name, text) in fields.chain(caveats) {
        let one = findings::labelled(name, &text, width);
        if lines.len() + one.len() > room {
            break;
        }
        lines.extend(one);
    }
    if lines.len() > 2 { lines } else { Vec::new() }
}

/// Both ends, with their queue pairs, processes or pods where these are known; of hosts that the title names the queue pairs
/// alone.
fn who(finding: &Finding) -> Option<String> {
    let owned = |end: &End, name: String| {
        let owner = end.pod.as_ref().or(end.comm.as_ref());
        owner.map_or_else(|| name.clone(), |owner| format!("{name} ({})", plain(owner)))
    };
    let titled = |end: &End| finding.title.contains(&end.addr.to_string());
    if let (Some(requester), Some(responder)) = (&finding.requester, &finding.responder)
        && let (Some(from), Some(to)) = (requester.qpn, responder.qpn)
    {
        // Which of two that the title names is which, the queue pairs do not say.
        let both = titled(requester) && titled(responder);
        let name = |end: &End, qp: u32| {
            let bare = titled(end) && !both;
            owned(end, if bare { format!("QP {qp}") } else { format!("{} QP {qp}", end.addr) })
        };
        return Some(format!("{} → {}", name(requester, from), name(responder, to)));
    }
    let name = |end: &End| owned(end, end.addr.to_string());
    let first = finding.flows.first()?;
    let same = |flow: &FlowId| (flow.src, flow.dst) == (first.src, first.dst);
    let ends = match (&finding.requester, &finding.responder) {
        (Some(requester), Some(responder)) => [name(requester), name(responder)],
        (None, None) if finding.flows.iter().all(same) => [first.src.to_string(), first.dst.to_string()],
        _ => return None,
    };
    let named = ends.iter().any(|end| finding.title.contains(end.split(' ').next().unwrap_or(end)));
    (!named).then(|| ends.join(" → "))
}

/// Time, ends, cost and place of the worst problem, for the line below the verdict.
pub(in crate::tui) fn impact(view: &View) -> Option<String> {
    let concluded = known(view)?;
    let verdict = view.verdict()?;
    let worst = verdict.worst?;
    let end = end(view, &concluded);
    let time = Some(when(worst, end)).filter(|text| !text.is_empty());
    let impact = new_cost(worst, end);
    let bare = |text: &String| !text.contains(' ');
    let place = field(worst, end, "Where").map(|text| if bare(&text) { format!("at {text}") } else { text });
    let parts = [time, who(worst), impact, place].into_iter().flatten();
    let text = parts.collect::<Vec<_>>().join(" · ");
    (!text.is_empty()).then_some(text)
}
