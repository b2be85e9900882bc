//! Findings with evidence and steps, and what rocescope dropped or cannot see.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;

use super::finding_lines::{BLIND, NAME, blind_spots, labelled, mark, since, table};
use super::overview::problems;
use super::page::{Effect, Hints, Page, click_list};
use super::{empty, problem, timeline};
use crate::findings::{DataEnd, Finding, Problem, Severity};
use crate::tui::cursor::{Cursor, Move};
use crate::tui::export::ExportTable;
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::theme;
use crate::tui::view::{AsOf, Concluded, View};
use crate::tui::widgets::panel::{BOXED, Title, frame_height, panel};
use crate::tui::widgets::{Spans, cut, line, select};
use crate::util::units;
use crate::util::wrap::wrap;

/// State of the screen Findings.
#[derive(Debug, Default)]
pub struct FindingsScreen {
    /// Place in the list.
    pub cursor: Cursor,
}

/// Findings in view where the list goes on below: its last line counts the others.
fn page(view: &View) -> usize {
    let page = view.layout().findings_page();
    if view.finding_count() > page && page > 1 { page - 1 } else { page }
}

impl Page for FindingsScreen {
    fn step(&mut self, view: &mut View, step: Move) {
        self.cursor.step(step, view.finding_count(), page(view));
        self.keep_in_view(view);
    }

    fn open(&mut self, view: &mut View) -> Effect {
        if view.finding_count() == 0 {
            Effect::None
        } else {
            Effect::Finding(self.cursor.selected.unwrap_or(0))
        }
    }

    fn click(&mut self, view: &mut View, at: Position) -> Effect {
        let rows = view.finding_count();
        let layout = view.layout();
        let list = layout.findings(rows);
        // Below the rows is a border, or nothing, or how many more there are.
        let counted = u16::from(rows > self.cursor.offset + layout.findings_page());
        let beside = frame_height(layout.boxed()) - 1 + counted;
        let list = Rect { height: list.height.saturating_sub(beside), ..list };
        if click_list(&mut self.cursor, list, rows, at) { self.open(view) } else { Effect::None }
    }

    fn keep_in_view(&mut self, view: &View) {
        let count = view.finding_count();
        self.cursor.show(count, page(view));
        // At its end the list fills all lines.
        self.cursor.offset = self.cursor.offset.min(count.saturating_sub(view.layout().findings_page()));
    }

    fn selection(&mut self) -> Option<&mut Cursor> {
        Some(&mut self.cursor)
    }

    fn hints(&self, view: &View) -> Hints {
        if view.finding_count() == 0 {
            return (&[], &[]);
        }
        (&[(&[Input::Open], "why + fix"), (&[Input::Copy], "copy")], &[])
    }

    fn export_table(&self, view: &View) -> ExportTable {
        table(view.concluded().map_or(&[][..], |concluded| concluded.findings).iter())
    }

    fn render(&self, buffer: &mut Buffer, at: &Layout, view: &View) {
        let (Some(data), Some(concluded)) = (&view.data, view.concluded()) else {
            nothing_yet(buffer, at.body, view);
            return;
        };
        let boxed = at.boxed();
        let width = usize::from(at.inner().width);
        let blind = blind_spots(view, width);
        if concluded.findings.is_empty() {
            let why = format!("No findings {}.", since(concluded.as_of));
            empty::because(buffer, at.body, &why, "");
            let used = at.body.height.min(4);
            let below = Rect { y: at.body.y + used, height: at.body.height - used, ..at.body };
            let own = u16::try_from(blind.len()).unwrap_or(u16::MAX).saturating_add(frame_height(boxed));
            let own = if boxed && own + timeline::BELOW <= below.height { own } else { below.height };
            part(buffer, Rect { height: own, ..below }, boxed, BLIND, &blind);
            let rest = Rect { y: below.y + own, height: below.height - own, ..below };
            timeline::render_in(buffer, rest, boxed, view, data);
            return;
        }
        let list = at.findings(concluded.findings.len());
        let about = counted(view, &concluded);
        let hint = format!("{} opens", view.options.keys.first(Input::Open));
        let inside = panel(buffer, list, boxed, Title { name: "FINDINGS", about: &about, hint: &hint });
        titles(buffer, inside, view, &concluded, (self.cursor, at.findings_page()));
        let below = Rect { y: list.bottom(), height: at.body.height - list.height, ..at.body };
        let first = self.cursor.selected.unwrap_or(0);
        if problem::preview(buffer, below, view, first) {
            return;
        }
        texts(buffer, below, boxed, (&concluded, first), &blind, view);
    }
}

/// The text of the selected finding, those of the next ones as far as there is room, and what cannot be seen.
fn texts(
    buffer: &mut Buffer,
    mut area: Rect,
    boxed: bool,
    (concluded, first): (&Concluded<'_>, usize),
    blind: &[Line<'_>],
    view: &View,
) {
    let height = |lines: &[Line<'_>]| {
        u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(frame_height(boxed))
    };
    let width = usize::from(if boxed { area.width.saturating_sub(2) } else { area.width });
    for (place, finding) in concluded.findings.iter().enumerate().skip(first) {
        let mut lines = text(finding, view.data_end(concluded.end_ns), width);
        let fits = height(&lines).saturating_add(height(blind)) <= area.height;
        if !fits && place > first {
            break;
        }
        if !fits {
            let room = usize::from(area.height.saturating_sub(frame_height(boxed)));
            let more = lines.len().saturating_sub(room.saturating_sub(1));
            lines.truncate(room.saturating_sub(1));
            let key = view.options.keys.first(Input::Open);
            let text = match more {
                0 => format!(" blind spots and drops: {key} opens all"),
                _ => format!(
                    " {}, blind spots and drops: {key} opens all",
                    units::plural(more as u64, "more line")
                ),
            };
            lines.push(Line::styled(cut(&text, width, false), theme::DIM));
            part(buffer, area, boxed, finding.id, &lines);
            return;
        }
        let own = Rect { height: height(&lines), ..area };
        part(buffer, own, boxed, finding.id, &lines);
        area = Rect { y: own.bottom(), height: area.height - own.height, ..area };
    }
    part(buffer, Rect { height: height(blind).min(area.height), ..area }, boxed, BLIND, blind);
}

/// A panel with these lines.
fn part(buffer: &mut Buffer, area: Rect, boxed: bool, name: &str, lines: &[Line<'_>]) {
    let area = panel(buffer, area, boxed, Title { name, ..Title::default() });
    for (y, text) in (0..area.height).zip(lines) {
        line(buffer, area, y, text);
    }
}

/// Number of findings of each kind, and the time that they cover.
fn counted(view: &View, concluded: &Concluded<'_>) -> String {
    let findings = concluded.findings;
    let info = findings.iter().filter(|one| one.severity == Severity::Info).count();
    let owned = findings.iter().filter(|one| one.is_problem() && one.owner.is_some()).count();
    let owned = (owned > 0).then(|| units::plural(owned as u64, "consequence"));
    let info = (info > 0).then(|| format!("{info} for information"));
    // The first is empty where the snapshot shown has no findings of its own. The time of the figures matters more
    // than what is no problem.
    let figures = problems::span(findings);
    let since = Some(since(concluded.as_of)).filter(|_| figures.is_none() || concluded.as_of != AsOf::Now);
    let parts = [Some(problems::about(view)), figures.map(str::to_owned), since, owned, info];
    let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

fn nothing_yet(buffer: &mut Buffer, area: Rect, view: &View) {
    if view.data.is_none() {
        empty::render(buffer, area, view);
    } else {
        empty::because(
            buffer,
            area,
            "analysing…",
            "Findings are computed from all samples since the start, in the background.",
        );
    }
}

/// The list of findings.
fn titles(
    buffer: &mut Buffer,
    list: Rect,
    view: &View,
    concluded: &Concluded<'_>,
    (cursor, page): (Cursor, usize),
) {
    let end = view.data_end(concluded.end_ns);
    let findings = concluded.findings;
    let left = findings.len().saturating_sub(cursor.offset);
    let shown = if left > page && page > 1 { page - 1 } else { page };
    let rows = findings.iter().enumerate().skip(cursor.offset).take(shown);
    for (y, (place, finding)) in (0..).zip(rows) {
        line(buffer, list, y, &title(finding, end, usize::from(list.width)));
        if cursor.selected == Some(place) {
            select(buffer, Rect { y: list.y + y, height: 1, ..list });
        }
    }
    if shown < left.min(page) {
        let text = format!("   +{} more", left - shown);
        line(buffer, list, list.height.saturating_sub(1), &Line::styled(text, theme::DIM));
    }
}

/// Letters of a title, at most.
const LONGEST_TITLE: usize = 80;

/// Severity and title in a line, and at its end since when it has been active, or when it ended.
fn title(finding: &Finding, end: DataEnd, width: usize) -> Line<'static> {
    let mut spans = Spans::default();
    // An effect stands below what owns it.
    let indent = if finding.owner.is_some() { " └ " } else { " " };
    spans.push(indent, theme::FRAME);
    let (symbol, style) = mark(finding);
    // If there is little room the sentence needs it; the symbols differ.
    if width < BOXED.into() {
        spans.push(format!("{symbol} "), style);
    } else {
        spans.push(format!("{symbol} {:<8} ", finding.severity.word()), style);
    }
    let time = if finding.active { finding.since_ns() } else { finding.last_seen_ns };
    let word = if finding.active { end.since() } else { "ended" };
    let time = time.map_or_else(String::new, |ns| match units::second_utc(ns) {
        clock if width < BOXED.into() => format!("  {word} {clock}"),
        clock => format!("  {word} {clock} UTC"),
    });
    // The times stand below one another, behind the longest title at most.
    let room = width.saturating_sub(spans.width + time.chars().count() + 1);
    let text = problems::shortened(&finding.title, room);
    let longest = LONGEST_TITLE + 1 - indent.chars().count();
    let gap = if time.is_empty() { 0 } else { room.min(longest).saturating_sub(text.chars().count()) };
    // What has ended is grey, as on the overview.
    spans.push(text, if finding.active { theme::PLAIN } else { theme::DIM });
    spans.push(" ".repeat(gap), theme::PLAIN).push(time, theme::DIM);
    spans.into_line()
}

/// Kinds that have ended, each with its latest end: `LOSS ended 12:09:50`.
pub(in crate::tui) fn ended(all: &[Finding]) -> Vec<String> {
    let mut kinds: Vec<Problem> = Vec::new();
    let mut texts = Vec::new();
    for finding in all.iter().filter(|finding| !finding.active && finding.is_problem()) {
        let Some(kind) = Problem::of(finding).filter(|kind| !kinds.contains(kind)) else { continue };
        kinds.push(kind);
        let at = finding.last_seen_ns.map_or_else(String::new, |ns| format!(" {}", units::second_utc(ns)));
        texts.push(format!("{} ended{at}", kind.badge()));
    }
    texts
}

/// Everything about one finding.
fn text(finding: &Finding, end: DataEnd, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut part = |name: &str, text: String| lines.extend(labelled(name, &text, width));
    part("Finding", finding.title.clone());
    // What to do comes before what proves it: on a small screen it would be out of view.
    let proves = |name: &str| matches!(name, "Who" | "Flows" | "Evidence");
    let (evidence, place): (Vec<_>, Vec<_>) =
        finding.fields(end).into_iter().partition(|(name, _)| proves(name));
    for (name, text) in place {
        part(name, text);
    }
    if finding.steps.is_empty() {
        part("Do", finding.advice.clone());
    }
    for (number, step) in (1..).zip(&finding.steps) {
        // What goes on stands below its beginning.
        let texts = wrap(&step.text, width.saturating_sub(NAME + 4)).into_iter().enumerate();
        for (at, text) in texts {
            let lead = if at == 0 { format!("{number}. ") } else { "   ".to_owned() };
            part(if (number, at) == (1, 0) { "Do" } else { "" }, lead + &text);
        }
        let command = step.command.iter().flat_map(|command| wrap(command, width.saturating_sub(NAME + 6)));
        for (at, text) in command.enumerate() {
            part("", format!("{}{text}", if at == 0 { "   $ " } else { "     " }));
        }
    }
    for (name, text) in evidence {
        part(name, text);
    }
    for (i, caveat) in finding.caveats.iter().enumerate() {
        part(if i == 0 { "Caveats" } else { "" }, caveat.clone());
    }
    for (name, ids) in [("Caused by", &finding.causes), ("Leads to", &finding.effects)] {
        if !ids.is_empty() {
            part(name, ids.join(", "));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::START;
    use crate::findings::order::OVER_NS;
    use crate::findings::{Episode, Evidence, Hop, Impact, Place, Step};
    use crate::util::time::NS_PER_S;

    #[test]
    fn a_past_finding_says_when_it_ended_however_long_its_title_is() {
        let title_text = "Loss upstream of rail0: 9 of 1,009 packets (0.9 %), 10.0.0.1 → 10.0.0.2, long";
        let mut finding = Finding::new("loss.before_tap", Severity::Warning, title_text.into());
        (finding.advice, finding.last_seen_ns) = ("Look.".into(), Some(START));
        finding.evidence.insert(Evidence::declared(finding.id, "better_case", "qps_2".into()));
        finding.evidence.insert(Evidence::declared(finding.id, "link", "eth_0".into()));
        let over = DataEnd { ns: Some(START + 2 * OVER_NS), recorded: false, ..DataEnd::default() };
        assert!(!title(&finding, over, 60).to_string().contains("ended"));
        let page = |finding: &Finding| {
            let lines: Vec<String> = text(finding, over, 80).iter().map(ToString::to_string).collect();
            lines.join("\n")
        };
        finding.active = false;
        let line = title(&finding, over, 60).to_string();
        assert!(line.ends_with("  ended 13:05:09") && line.chars().count() <= 60, "{line}");
        assert_eq!(ended(&[finding.clone(), finding.clone()]), ["LOSS ended 13:05:09"]);
        assert!(page(&finding).contains("ended 13:05:09 UTC"), "{}", page(&finding));
        assert!(page(&finding).contains("better setting qps_2 · link eth_0"), "{}", page(&finding));
    }

    #[test]
    fn a_time_keeps_its_word_where_the_title_needs_the_room() {
        let text = "Remote access error NAK from 10.40.2.25 to 10.40.1.11 QP 5088";
        let mut finding = Finding::new("nak.refused", Severity::Critical, text.into());
        finding.first_seen_ns = Some(START);
        let line = |width| title(&finding, DataEnd::default(), width).to_string();
        let recorded = DataEnd { recorded: true, ..DataEnd::default() };
        assert!(title(&finding, recorded, 90).to_string().ends_with("  from 13:05:09"));
        let room = text.chars().count() + "  since 13:05:09".len() + 4;
        assert_eq!(line(room), format!(" ✖ {text}  since 13:05:09"));
        // Neither the number nor the word that says what it is of.
        let short = line(room - 1);
        assert!(short.contains("10.40.1.11 … ") && short.ends_with("   since 13:05:09"), "{short}");
    }

    #[test]
    fn everything_known_about_a_finding_has_its_line() {
        let mut finding =
            Finding::new("loss.before_tap", Severity::Critical, "Loss upstream of rail0".into());
        finding.first_seen_ns = Some(START);
        finding.episodes = vec![Episode { first_ns: START, last_ns: START, peak: None }; 2];
        finding.impact =
            Impact { packets_ratio: Some(0.007), retransmissions: Some(47), ..Impact::default() };
        finding.place = Place { link: Some("rail0".into()), hop: Some(Hop::Upstream), ..Place::default() };
        finding.steps = vec![
            Step {
                text: "Read the counters.".into(),
                command: Some("ethtool -S rail0".into()),
                ..Step::default()
            },
            Step { text: "Look at the switch.".into(), ..Step::default() },
        ];
        finding.caveats = vec!["Reordering counts.".into()];
        (finding.causes, finding.effects) = (vec!["icrc.errors"], vec!["retry.storm"]);
        let end = DataEnd { ns: Some(START + 8 * NS_PER_S), recorded: false, ..DataEnd::default() };
        let lines: Vec<String> = text(&finding, end, 100).iter().map(ToString::to_string).collect();
        let page = lines.join("\n");
        for part in [
            " Where     upstream of rail0",
            " When      since 13:05:09 UTC, for 8.00 s, 2nd time in 8.00 s",
            " Impact    47 retransmissions · 0.70 % of packets lost",
            " Do        1. Read the counters.",
            "    $ ethtool -S rail0",
            " Caveats   Reordering counts.",
            " Caused by icrc.errors",
            " Leads to  retry.storm",
        ] {
            assert!(page.contains(part), "{part}:\n{page}");
        }
    }
}
