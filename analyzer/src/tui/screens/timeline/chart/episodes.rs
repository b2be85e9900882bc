//! The timeline of one finding: the signals that it is about, the links that it compares, and its episodes; and the
//! episodes of all problems in a line.

use std::cmp::Reverse;
use std::iter::repeat_n;

use ratatui::style::Style;
use ratatui::text::Line;

use super::super::grid::{Chart, Grid};
use super::{AROUND, PEAK, Picture, USUAL_AREA, marked_link, name_width, rows};
use crate::findings::{DataEnd, Finding, Problem};
use crate::model::Level;
use crate::model::signals::Row;
use crate::sample::Direction;
use crate::tui::data::Data;
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::{Spans, cut};
use crate::util::units;

impl<'a> Picture<'a> {
    /// The time of one finding, with the time before and after it; `None` if none is known.
    pub(in crate::tui::screens) fn of(
        view: &'a View,
        data: &'a Data,
        finding: &'a Finding,
        width: usize,
    ) -> Option<Self> {
        let times = finding.episodes.iter().flat_map(|one| [one.first_ns, one.last_ns]);
        let times = times.chain(finding.first_seen_ns).chain(finding.last_seen_ns);
        let mut marks: Vec<u64> = times.collect();
        marks.sort_unstable();
        marks.dedup();
        let (first, last) = (*marks.first()?, *marks.last()?);
        let last = if finding.active { data.over_time.range()?.1 } else { last };
        let name = name_width(data, width);
        let grid = Grid::around(data, first, last, width.saturating_sub(name + AROUND))?;
        let at_ns = Some(data.model.time_ns).filter(|_| view.past());
        let findings = std::slice::from_ref(finding);
        let links = data.over_time.links.len();
        let (chart, marked_link) = (Chart::default(), marked_link(data, finding));
        Some(Self { view, data, chart, grid, findings, at_ns, marks, links, marked_link, name })
    }

    /// The rows that are about the finding, its episodes and the axis: at most `height` lines; and the scale of its
    /// links.
    pub(in crate::tui::screens) fn lines_of(
        &self,
        finding: &Finding,
        height: usize,
    ) -> (Vec<Line<'static>>, String) {
        let about = |row: &Row| Problem::of(finding).is_some_and(|kind| row.about.contains(&kind));
        let marked = finding.since_ns().is_some() && !finding.episodes.is_empty();
        let below = 1 + usize::from(marked);
        // Signals that it is about come before others that show something at that time.
        let shows = |row: &&Row| about(row) || !self.is_quiet(row);
        let mut rows: Vec<&Row> = rows(self.data).filter(shows).collect();
        let links = self.compared(finding, height / 3);
        let room = height.saturating_sub(below + 1 + if links.len() > 1 { links.len() } else { 0 });
        let mut order = rows.clone();
        order.sort_by_key(|row| !about(row));
        order.truncate(room);
        rows.retain(|row| order.iter().any(|one| std::ptr::eq(*one, *row)));
        let own = rows.len() + below;
        let high = height.saturating_sub(own + links.len()).clamp(1, USUAL_AREA);
        let mut all = self.throughput(high);
        // With one link its load is that of all.
        let mut scale = String::new();
        if self.data.over_time.links.len() > 1 {
            let (drawn, peak) = self.links(&links, 1);
            all.extend(drawn);
            scale = self.scale_of(links.len(), peak);
        }
        all.truncate(height.saturating_sub(own).max(1));
        // Remaining lines make the signals higher.
        let spare = height.saturating_sub(all.len() + rows.len() + below);
        let tall = self.tall(&rows, spare);
        all.extend(rows.into_iter().flat_map(|row| self.row(row, tall)));
        all.extend(marked.then(|| self.episodes(finding)));
        all.push(self.axis());
        (all, scale)
    }

    /// Its episodes and the clock alone; nothing where its times are unknown.
    pub(in crate::tui::screens) fn strip(&self, finding: &Finding) -> Vec<Line<'static>> {
        if finding.since_ns().is_none() || finding.episodes.is_empty() {
            return Vec::new();
        }
        vec![self.episodes(finding), self.clocks("", "")]
    }

    /// The links of a finding's place; where it compares links, those `most` of them that its place is, and then the
    /// others.
    pub(super) fn compared(&self, finding: &Finding, most: usize) -> Vec<usize> {
        let compares = matches!(Problem::of(finding), Some(Problem::Imbalance));
        let is_in = |(_, way): &(String, Option<Direction>)| *way == Some(Direction::Ingress);
        let ingress = || self.data.over_time.links.iter().any(is_in).then_some(Direction::Ingress);
        let way = finding.place.direction.or(finding.subject.worse_direction);
        // Where both are alike always the same, or they take turns.
        let way = way.or_else(|| ingress().filter(|_| compares));
        let is_way = |direction: Option<Direction>| way.is_none() || direction == way;
        let all = self.data.over_time.links.iter().enumerate();
        let all = || all.clone().filter(|(_, (_, direction))| is_way(*direction));
        let is_own = |name: &String| finding.is_at(name);
        let is_other = |name: &String| compares && finding.compares(name);
        let own = all().filter(|(_, (name, _))| is_own(name));
        let others = all().filter(|(_, (name, _))| !is_own(name) && is_other(name));
        let mut links: Vec<usize> = own.chain(others).map(|(at, _)| at).take(most.max(2)).collect();
        links.sort_unstable();
        links
    }

    /// The columns of the episodes of a finding, as far as they are in the picture. `goes_on`: the latest has no end.
    fn stretches(&self, finding: &Finding, goes_on: bool) -> impl Iterator<Item = Stretch> {
        let last_ns = self.data.over_time.range().map_or(0, |(_, last)| last.saturating_sub(1));
        let end_ns = self.end_ns();
        let lasting = finding.episodes.len().checked_sub(1).filter(|_| goes_on);
        finding.episodes.iter().enumerate().filter_map(move |(at, episode)| {
            let lasts = lasting == Some(at);
            let end_ns = end_ns.max(episode.last_ns).min(last_ns.max(episode.last_ns));
            let last_ns = if lasts { end_ns } else { episode.last_ns };
            let is_seen = last_ns >= self.grid.from_ns && episode.first_ns < self.grid.end_ns();
            let (from, to) = (self.grid.column(episode.first_ns), self.grid.column(last_ns));
            is_seen.then_some(Stretch { from, to, lasts })
        })
    }

    /// The end of the data from which the findings were computed.
    fn end(&self) -> DataEnd {
        self.view.data_end(self.view.concluded().and_then(|known| known.end_ns))
    }

    /// The end of what lasts: the same as in words, though there may be no value of its last second yet.
    fn end_ns(&self) -> u64 {
        let last_ns = self.data.over_time.range().map_or(0, |(_, last)| last.saturating_sub(1));
        self.end().until().unwrap_or(last_ns)
    }

    /// Times at which the finding held: beginning, end and the time between.
    fn episodes(&self, finding: &Finding) -> Line<'static> {
        let columns = self.grid.columns;
        let mut cells = vec![('·', theme::FRAME); columns];
        let style = style(finding);
        for Stretch { from, to, lasts } in self.stretches(finding, finding.active) {
            let (first, last) = (from.unwrap_or(0), to.unwrap_or(columns.saturating_sub(1)));
            for cell in cells.iter_mut().take(last + 1).skip(first) {
                *cell = ('━', style);
            }
            if let Some(cell) = from.and_then(|at| cells.get_mut(at)) {
                cell.0 = '├';
            }
            // What lasts may reach beyond the last column: there may be no value of its last second yet.
            let end = if lasts { Some(last) } else { to };
            if let Some(cell) = end.filter(|end| from != Some(*end)).and_then(|at| cells.get_mut(at)) {
                cell.0 = if lasts { '▶' } else { '┤' };
            }
        }
        let mut spans = Spans::default();
        // Nothing is active at the end of a capture.
        let recorded = self.view.shows_end();
        let state = match finding.active {
            true if recorded => "to the end",
            true => "active",
            false => "ended",
        };
        self.head(&mut spans, "episodes", state, theme::BOLD);
        self.cells(&mut spans, cells);
        let length = finding.episodes.last().map(|one| {
            let last_ns = if finding.active { self.end_ns().max(one.last_ns) } else { one.last_ns };
            last_ns.saturating_sub(one.first_ns)
        });
        let text = match length {
            None => units::UNKNOWN.to_owned(),
            Some(0) => String::new(),
            Some(ns) => units::duration(ns),
        };
        spans.push(format!(" {:>width$}", cut(&text, PEAK - 1, false), width = PEAK - 1), theme::DIM);
        spans.into_line()
    }

    /// Which problem held when: of several at a time the worst, each with the word of its kind where it begins. `None`
    /// where no time is known.
    pub(super) fn problems(&self) -> Option<Line<'static>> {
        let kind = |one: &'a Finding| Some((one, Problem::of(one)?));
        let mut all: Vec<(&Finding, Problem)> = self.findings.iter().filter_map(kind).collect();
        all.retain(|(one, _)| one.is_primary() && one.is_of_episode());
        all.sort_by_key(|(one, _)| Reverse(one.severity));
        let columns = self.grid.columns;
        let mut held: Vec<Option<(usize, bool)>> = vec![None; columns];
        for (number, (finding, _)) in all.iter().enumerate() {
            // What is quiet hides nothing that came later.
            let goes_on = finding.active && finding.quiet_until(self.end()).is_none();
            for Stretch { from, to, lasts } in self.stretches(finding, goes_on) {
                let (first, last) = (from.unwrap_or(0), to.unwrap_or(columns.saturating_sub(1)));
                for cell in held.iter_mut().take(last + 1).skip(first) {
                    *cell = cell.or(Some((number, lasts)));
                }
            }
        }
        if held.iter().all(Option::is_none) {
            return None;
        }
        let mut cells = Vec::with_capacity(columns);
        // The word of an episode that has no room for it, for the time without any that follows.
        let mut pending = None;
        for run in held.chunk_by(|one, next| one.map(|(at, _)| at) == next.map(|(at, _)| at)) {
            let worst = run.first().copied().flatten().and_then(|(at, _)| all.get(at));
            let (fill, look) = worst.map_or(('·', theme::FRAME), |(finding, _)| ('━', style(finding)));
            let named = worst.map(|(finding, kind)| (*kind, style(finding))).or(pending);
            // As in the header, or else as in the column of states.
            let word = named.and_then(|(kind, look)| {
                let fits = |word: &&str| word.len() < run.len();
                Some(([kind.badge(), kind.word()].into_iter().find(fits)?, look))
            });
            pending = worst.and(named).filter(|_| word.is_none());
            let (word, its_look) = word.unwrap_or(("", look));
            cells.extend(word.chars().map(|symbol| (symbol, its_look)));
            cells.extend(repeat_n((fill, look), run.len() - word.len()));
        }
        let lasting = held.iter().rposition(|one| one.is_some_and(|(_, lasts)| lasts));
        if let Some(cell) = lasting.and_then(|at| cells.get_mut(at)) {
            cell.0 = '▶';
        }
        // At the cursor it is what held then.
        let marked = self.marked().and_then(|at| held.get(at).copied().flatten());
        let word = marked.and_then(|(at, _)| all.get(at)).map_or("", |(_, kind)| kind.word());
        let mut spans = Spans::default();
        self.head(&mut spans, "episodes", word, theme::BOLD);
        self.cells(&mut spans, cells);
        spans.push(" ".repeat(PEAK), theme::PLAIN);
        Some(spans.into_line())
    }
}

/// The columns of an episode; `None` where an end is not in the picture.
struct Stretch {
    from: Option<usize>,
    to: Option<usize>,
    /// It goes on at the end of the data.
    lasts: bool,
}

/// The colour of a problem while it lasts.
fn style(finding: &Finding) -> Style {
    if finding.active { theme::text(Level::from(finding.severity)) } else { theme::PLAIN }
}
