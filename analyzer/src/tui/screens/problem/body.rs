//! The sections of the page, each at a width, with what can be selected in it.

use ratatui::text::Line;

use super::super::finding_lines;
use super::super::overview::problems::Clock;
use super::super::timeline::Chart;
use super::super::timeline::chart::Picture;
use crate::analysis::{FlowId, link_name};
use crate::findings::{DataEnd, End, Finding, Step, can_cause};
use crate::model::{Basis, Counts, Level, LinkRow, Row, detail};
use crate::tui::column::{compact, process};
use crate::tui::data::Data;
use crate::tui::key::Input;
use crate::tui::view::View;
use crate::tui::widgets::{Spans, cut};
use crate::tui::{log, theme};
use crate::util::units;
use crate::util::wrap::{hanging, wrap};

/// Findings named for each cause or effect, at most.
const RELATED: usize = 3;

/// Columns of both roles and queue pairs of a flow, with the arrow between.
const ROLES: usize = 48;

/// Something that can be selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A step, by its number from 0.
    Step(usize),
    /// Another finding, by its number in the list.
    Finding(usize),
    /// All flows of the finding.
    Table,
    /// One of its flows.
    Flow(usize),
    /// All flows on the link that it is about, where it names none.
    Link,
}

/// A line, and what is selected by it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) line: Line<'static>,
    pub(super) item: Option<Item>,
}

impl Entry {
    pub(super) const fn text(line: Line<'static>) -> Self {
        Self { line, item: None }
    }
}

/// A part of the page with a title.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) name: &'static str,
    /// Time that its figures cover; empty where it has none.
    pub(super) about: String,
    pub(super) hint: String,
    pub(super) entries: Vec<Entry>,
}

impl Section {
    /// `None` where it is empty.
    fn new(name: &'static str, hint: impl Into<String>, entries: Vec<Entry>) -> Option<Self> {
        (!entries.is_empty()).then(|| Self { name, about: String::new(), hint: hint.into(), entries })
    }

    /// The same with words behind its name: the time that its figures cover, or their scale.
    fn with(self, about: String) -> Self {
        Self { about, ..self }
    }
}

/// The finding that the page is about.
pub(super) struct Subject<'a> {
    view: &'a View,
    data: &'a Data,
    all: &'a [Finding],
    finding: &'a Finding,
    end: DataEnd,
}

/// Hosts and queue pair of a flow.
pub(super) fn route(flow: &FlowId) -> String {
    format!("{} → {} QP {}", flow.src, flow.dst, flow.dest_qp)
}

/// The row of a flow; `None` where it is none of the time shown.
pub(super) fn row_of<'a>(view: &'a View, flow: &FlowId) -> Option<&'a Row> {
    let data = view.data.as_ref()?;
    data.rows_of(std::slice::from_ref(flow)).into_iter().next()?
}

/// The links of the finding's place, by number.
pub(super) fn links_of(data: &Data, finding: &Finding) -> Vec<u16> {
    let links = (0..).zip(&data.model.links);
    let place = &finding.place;
    let on = |link: &LinkRow| {
        place.has(&link.name) && (place.direction.is_none() || link.direction == place.direction)
    };
    links.filter(|(_, link)| on(link)).map(|(at, _)| at).collect()
}

impl<'a> Subject<'a> {
    /// The finding of this number; `None` where there is none.
    pub(super) fn new(view: &'a View, at: usize) -> Option<Self> {
        let concluded = view.concluded()?;
        let data = view.data.as_deref()?;
        let end = view.data_end(concluded.end_ns);
        Some(Self { view, data, all: concluded.findings, finding: concluded.findings.get(at)?, end })
    }

    /// The sentence, and below it place, time and cost.
    pub(super) fn head(&self, width: usize) -> Vec<Line<'static>> {
        let finding = self.finding;
        let word = finding.severity.word();
        let (symbol, _) = theme::mark(finding.severity.into(), finding.active);
        let badge =
            if finding.active { theme::badge(Level::from(finding.severity)) } else { theme::SELECTED };
        let badge_text = format!(" {symbol} {word} ");
        let indent = badge_text.chars().count() + 1;
        let mut lines = Vec::new();
        for (at, text) in wrap(&finding.title, width.saturating_sub(indent + 1)).into_iter().enumerate() {
            let mut spans = Spans::default();
            if at == 0 {
                spans.push(badge_text.clone(), badge).push(" ", theme::PLAIN);
            } else {
                spans.push(" ".repeat(indent), theme::PLAIN);
            }
            spans.push(text, theme::BOLD);
            lines.push(spans.into_line());
        }
        for name in ["Where", "When", "Impact"] {
            let fields = finding.fields(self.end);
            let text = fields.into_iter().find(|(label, _)| *label == name).map(|(_, text)| text);
            let by = self.known_by().filter(|_| name == "When");
            let text = match (text, by) {
                (Some(text), Some(by)) => Some(format!("{text}; {by}")),
                (text, by) => text.or(by),
            };
            let late = self.view.late_ns().filter(|_| name == "When");
            let late = late.map_or_else(String::new, |ns| format!(", as of {}", units::second_utc(ns)));
            let text = text.map(|text| text + &late);
            lines.extend(text.into_iter().flat_map(|text| finding_lines::labelled(name, &text, width)));
        }
        lines
    }

    /// The time by which it was there, where its beginning is unknown.
    fn known_by(&self) -> Option<String> {
        let clock = Clock { end: self.end, history: Some(&self.view.timeline.history) };
        let by_ns = clock.known_by(self.finding)?;
        Some(format!("present by {} UTC, start unknown", clock.clock(by_ns)))
    }

    /// The signals that the finding is about, and when it held.
    pub(super) fn timeline(&self, width: usize, height: usize) -> Option<Section> {
        let own = Picture::of(self.view, self.data, self.finding, width);
        // A setting holds at all times.
        let all = || Picture::new(self.view, self.data, Chart::default(), width);
        let dated = own.is_some();
        let picture = own.or_else(all)?;
        let (lines, scale) =
            if dated { picture.lines_of(self.finding, height) } else { picture.lines(height) };
        let section =
            Section::new("TIMELINE", picture.length(), lines.into_iter().map(Entry::text).collect());
        section.map(|section| section.with(scale))
    }

    /// When it held, in two lines.
    pub(super) fn strip(&self, width: usize) -> Vec<Entry> {
        let picture = Picture::of(self.view, self.data, self.finding, width);
        let lines = picture.map_or_else(Vec::new, |picture| picture.strip(self.finding));
        lines.into_iter().map(Entry::text).collect()
    }

    /// All signals over all of the time, for room that nothing else takes.
    pub(super) fn all_signals(&self, width: usize, height: usize) -> Option<Section> {
        let picture = Picture::new(self.view, self.data, Chart::default(), width)?;
        let (lines, scale) = picture.lines(height);
        let entries = lines.into_iter().map(Entry::text).collect();
        Section::new("ALL SIGNALS", picture.length(), entries).map(|section| section.with(scale))
    }

    /// Steps, with the commands of this host.
    pub(super) fn steps(&self, width: usize) -> Option<Section> {
        let mut entries = Vec::new();
        for (at, step) in self.finding.steps.iter().enumerate() {
            for (line, text) in wrap(&step.text, width.saturating_sub(4)).into_iter().enumerate() {
                let mut spans = Spans::default();
                let lead = if line == 0 { format!(" {} ", at + 1) } else { "   ".to_owned() };
                spans.push(lead, theme::BOLD).push(text, theme::PLAIN);
                let item = (line == 0 && step.command.is_none()).then_some(Item::Step(at));
                entries.push(Entry { line: spans.into_line(), item });
            }
            // Whole, as half a command is of no use; the key copies it as one line.
            for (line, text) in step_command(step, width).into_iter().enumerate() {
                let mut spans = Spans::default();
                spans.push(if line == 0 { "   $ " } else { "     " }, theme::DIM).push(text, theme::KEY);
                let item = (line == 0).then_some(Item::Step(at));
                entries.push(Entry { line: spans.into_line(), item });
            }
        }
        if entries.is_empty() {
            let text = wrap(&self.finding.advice, width.saturating_sub(2)).into_iter();
            entries.extend(text.map(|text| Entry::text(Line::raw(format!(" {text}")))));
        }
        let key = self.view.options.keys.first(Input::Copy);
        Section::new("DO NEXT", format!("{key} copies"), entries)
    }

    /// Causes and effects, each with its page.
    pub(super) fn related(&self, width: usize) -> Option<Section> {
        let mut entries = Vec::new();
        let me = self.finding.id;
        let owner: Vec<&'static str> = self.finding.owner.into_iter().collect();
        let others =
            self.finding.causes.iter().copied().filter(|id| Some(*id) != self.finding.owner).collect();
        for (name, ids) in
            [("part of", owner), ("caused by", others), ("leads to", self.finding.effects.clone())]
        {
            let known = |one: &Finding| {
                ids.contains(&one.id) && (one.causes.contains(&me) || one.effects.contains(&me))
            };
            // Of several of a kind, those whose times fit.
            let fits = |one: &Finding| match name {
                "caused by" => can_cause(&one.episodes, &self.finding.episodes),
                "leads to" => can_cause(&self.finding.episodes, &one.episodes),
                _ => true,
            };
            let some_fit = |id| self.all.iter().any(|one| one.id == id && known(one) && fits(one));
            let shown = |one: &Finding| known(one) && (fits(one) || !some_fit(one.id));
            let all = self.all.iter().enumerate().filter(|(_, one)| shown(one)).take(RELATED);
            for (line, (at, other)) in all.enumerate() {
                let (symbol, style) = finding_lines::mark(other);
                let mut spans = Spans::default();
                spans.push(format!(" {:<9} ", if line == 0 { name } else { "" }), theme::DIM);
                spans.push(format!("{symbol} "), style);
                let indent = spans.width;
                let mut lines = wrap(&other.title, width.saturating_sub(indent + 1)).into_iter();
                spans.push(lines.next().unwrap_or_default(), theme::PLAIN);
                entries.push(Entry { line: spans.into_line(), item: Some(Item::Finding(at)) });
                entries.extend(
                    lines.map(|text| Entry::text(Line::raw(format!("{}{text}", " ".repeat(indent))))),
                );
            }
        }
        let key = self.view.options.keys.first(Input::Open);
        Section::new("CAUSES AND EFFECTS", format!("{key} opens"), entries)
    }

    /// Both ends, and the flows with both queue pairs, their counters, process and pod.
    pub(super) fn flows(&self, width: usize) -> Option<Section> {
        let opens = format!("{} opens", self.view.options.keys.first(Input::Open));
        let finding = self.finding;
        let mut entries: Vec<Entry> = Vec::new();
        let who = finding.field("Who", self.end).filter(|_| !self.flows_say_who(width));
        let lines = who.into_iter().flat_map(|text| wrap(&text, width.saturating_sub(2)));
        entries.extend(lines.map(|text| Entry::text(Line::raw(format!(" {text}")))));
        if finding.flows.is_empty() {
            entries.extend(self.on_its_link(width));
            let section = Section::new("FLOWS", if entries.is_empty() { "" } else { &opens }, entries);
            return section.map(|section| section.with(self.range()));
        }
        let known = finding.flows.len();
        let all = finding.flow_count().max(known as u64);
        let some =
            if all > known as u64 { format!("{} of ", units::count(known as u64)) } else { String::new() };
        let text = format!(" {some}{} in the table of queue pairs", units::plural(all, "flow"));
        entries.push(Entry { line: Line::styled(text, theme::DIM), item: Some(Item::Table) });
        let rows = self.data.rows_of(&finding.flows);
        for (at, (flow, row)) in finding.flows.iter().zip(rows).enumerate() {
            entries.extend(self.flow(at, flow, row, width));
        }
        Section::new("FLOWS", &*opens, entries).map(|section| section.with(self.range()))
    }

    /// True if each flow has both ends with their roles, and there is nothing more to say of them.
    fn flows_say_who(&self, width: usize) -> bool {
        let Finding { requester: Some(requester), responder: Some(responder), flows, .. } = self.finding
        else {
            return false;
        };
        let owned = |end: &End| end.comm.is_some() || end.pid.is_some() || end.pod.is_some();
        let both = [requester, responder].map(|end| (end.addr, end.qpn));
        let rows = self.data.rows_of(flows);
        let says = |(flow, row): (&FlowId, Option<&Row>)| {
            let source = row.and_then(|row| detail::peer_qp(&self.data.sample, row.at?));
            let ends = [(flow.src, source), (flow.dst, Some(flow.dest_qp))];
            source.is_some() && both.iter().all(|end| ends.contains(end)) && has_room(flow, width)
        };
        let adds_owners = owned(requester) && owned(responder);
        !flows.is_empty() && !adds_owners && flows.iter().zip(rows).all(says)
    }

    /// Time that the counters of flows cover: it is not that of the evidence beside them.
    fn range(&self) -> String {
        match self.data.model.basis {
            Basis::Unknown => "since the start".to_owned(),
            _ => "in the time range".to_owned(),
        }
    }

    /// Time that the evidence covers: the latest episode where there are any, as of the analysis.
    fn covers(&self) -> String {
        let finding = self.finding;
        let begin = match (finding.is_of_episode(), finding.active) {
            (false, _) => "since the start",
            (true, true) => "this episode",
            (true, false) => return "latest episode".to_owned(),
        };
        let as_of = self.end.ns.filter(|_| !self.end.recorded);
        as_of.map_or_else(|| begin.to_owned(), |ns| format!("{begin}, as of {}", self.end.clock(ns)))
    }

    /// The flows on the link that the finding is about, those with most traffic.
    fn on_its_link(&self, width: usize) -> Vec<Entry> {
        /// Flows listed.
        const BUSIEST: usize = 6;
        let links = links_of(self.data, self.finding);
        let on = self.data.model.rows.iter().filter(|row| links.contains(&row.id.key.link));
        let mut rows: Vec<(u64, &Row)> =
            on.map(|row| (row.delta.map_or(row.total, |delta| delta.counts).bytes, row)).collect();
        if rows.is_empty() {
            return Vec::new();
        }
        rows.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let count = units::plural(rows.len() as u64, "flow");
        let place = self.finding.place.in_words().unwrap_or_default();
        let text = cut(&format!(" {count} on {place} in the table of queue pairs"), width, false);
        let mut entries = vec![Entry { line: Line::styled(text, theme::DIM), item: Some(Item::Link) }];
        for (_, row) in rows.into_iter().take(BUSIEST) {
            let mut spans = Spans::default();
            spans.push(format!(" {}", self.route(row)), theme::BOLD);
            if let Some(delta) = row.delta {
                spans.push(format!("  {}", units::bit_rate(delta.bits_per_s())), theme::DIM);
            }
            let owner = self.data.context().owner(row).and_then(process);
            spans.push(owner.map_or_else(String::new, |owner| format!("  {owner}")), theme::DIM);
            entries.push(Entry::text(spans.into_line()));
        }
        entries
    }

    /// Source and destination of a row with both queue pairs, as far as they are known.
    fn route(&self, row: &Row) -> String {
        let key = &row.id.key;
        match row.at.and_then(|at| detail::peer_qp(&self.data.sample, at)) {
            Some(source) => {
                let [src, dst] = [key.src, key.dst].map(|addr| crate::sample::address(key.family, addr));
                format!("{src} QP {source} → {dst} QP {}", key.dest_qp)
            }
            None => log::route(key),
        }
    }

    /// One flow: source and destination with both queue pairs, what it counted, and who owns it.
    fn flow(&self, at: usize, flow: &FlowId, row: Option<&Row>, width: usize) -> Vec<Entry> {
        let source = row.and_then(|row| detail::peer_qp(&self.data.sample, row.at?));
        let is = |end: &Option<End>, addr| end.as_ref().is_some_and(|end| end.addr == addr);
        let (requester, responder) = (&self.finding.requester, &self.finding.responder);
        // Of several flows one end is the same; both ends and their roles are above, where there is no room for them
        // here.
        let (from, to) = match () {
            () if !has_room(flow, width) => ("", ""),
            () if is(requester, flow.src) || is(responder, flow.dst) => ("requester ", "responder "),
            () if is(responder, flow.src) || is(requester, flow.dst) => ("responder ", "requester "),
            () => ("", ""),
        };
        let qp = |qp: Option<u32>| qp.map_or_else(|| units::UNKNOWN.to_owned(), |qp| qp.to_string());
        let mut spans = Spans::default();
        spans.push(" ", theme::PLAIN).push(from, theme::DIM);
        spans.push(format!("{} QP {}", flow.src, qp(source)), theme::BOLD).push(" → ", theme::DIM);
        spans.push(to, theme::DIM);
        spans.push(format!("{} QP {}", flow.dst, flow.dest_qp), theme::BOLD);
        let mut parts = vec![link_name(&flow.link, flow.direction)];
        parts.extend(row.map(|row| figures(&row.delta.map_or(row.total, |delta| delta.counts))));
        let owner = row.and_then(|row| self.data.context().owner(row));
        parts.extend(owner.and_then(process));
        parts.extend(owner.and_then(|owner| owner.pod.as_ref()).map(|pod| format!("pod {pod}")));
        parts.retain(|part| !part.is_empty());
        let text = parts.join(" · ");
        let item = Some(Item::Flow(at));
        if spans.width + 3 + text.chars().count() < width {
            spans.push(format!("   {text}"), theme::DIM);
            return vec![Entry { line: spans.into_line(), item }];
        }
        let below = wrap(&text, width.saturating_sub(4)).into_iter();
        let below = below.map(|text| Entry::text(Line::styled(format!("   {text}"), theme::DIM)));
        std::iter::once(Entry { line: spans.into_line(), item }).chain(below).collect()
    }

    /// The measurements, and what they cannot tell.
    pub(super) fn evidence(&self, width: usize) -> Option<Section> {
        let all = self.finding.measurements();
        let name = all.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).min(width * 2 / 3);
        let mut entries = Vec::new();
        for (label, value) in all {
            for (at, text) in wrap(&value, width.saturating_sub(name + 4)).into_iter().enumerate() {
                let mut spans = Spans::default();
                let label = if at == 0 { cut(&label, name, false) } else { String::new() };
                spans.push(format!(" {label:<name$}  "), theme::DIM).push(text, theme::PLAIN);
                entries.push(Entry::text(spans.into_line()));
            }
        }
        for caveat in &self.finding.caveats {
            let lines = finding_lines::labelled("Caveat", caveat, width);
            entries.extend(lines.into_iter().map(Entry::text));
        }
        Section::new("EVIDENCE", "", entries).map(|section| section.with(self.covers()))
    }

    /// Meaning and computation of the finding.
    pub(super) fn explanation(&self, width: usize) -> Option<Section> {
        let entry = crate::findings::entry(self.finding.id)?;
        let mut entries = Vec::new();
        let infiniband =
            self.view.analysis.as_ref().is_some_and(|analysis| analysis.report.facts.is_infiniband());
        let text = if infiniband { entry.text_on_infiniband() } else { entry.text() };
        for paragraph in text.lines() {
            let indent = if paragraph.starts_with("- ") { 2 } else { 0 };
            let lines = hanging(paragraph, width.saturating_sub(2), indent).into_iter();
            entries
                .extend(lines.map(|text| Entry::text(Line::raw(format!(" {text}").trim_end().to_owned()))));
        }
        Section::new("EXPLANATION", self.finding.id, entries)
    }

    /// Drops and blind spots of rocescope.
    pub(super) fn blind(&self, width: usize) -> Option<Section> {
        let lines = finding_lines::blind_spots(self.view, width).into_iter().map(Entry::text).collect();
        Section::new("BLIND SPOTS AND DROPS", "", lines)
    }
}

/// True if a flow has room for the roles of its ends.
fn has_room(flow: &FlowId, width: usize) -> bool {
    format!("{}{}", flow.src, flow.dst).chars().count() + ROLES <= width
}

/// The lines of the command of a step.
fn step_command(step: &Step, width: usize) -> Vec<String> {
    step.command.iter().flat_map(|command| wrap(command, width.saturating_sub(6))).collect()
}

/// Counters of a flow that are not zero.
fn figures(counts: &Counts) -> String {
    let all = [
        ("lost", counts.lost),
        ("RETX", counts.retransmitted),
        ("NAK rx", counts.naks()),
        ("RNR rx", counts.rnr),
        ("CNP", counts.cnp),
    ];
    let mut parts: Vec<String> = all
        .into_iter()
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| format!("{name} {}", compact(n as f64)))
        .collect();
    if let Some(ce) = counts.ce_ratio().filter(|ce| *ce > 0.0) {
        parts.push(format!("CE {}", units::ratio(Some(ce))));
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest that a step has: at 80 columns it has two lines.
    #[test]
    fn a_command_is_whole_at_every_width() {
        let command =
            "tcpdump -i DEV -s 128 -c 1000000 -w straggler.pcap 'udp port 4791 or (vlan and udp port 4791)'";
        let step = Step { command: Some(command.to_owned()), ..Step::default() };
        for width in 40..120 {
            let lines = step_command(&step, width);
            assert_eq!(lines.join(" "), command);
            assert!(lines.iter().all(|line| line.chars().count() + 6 <= width), "{width}: {lines:?}");
        }
        assert!(step_command(&Step::default(), 80).is_empty());
    }
}
