//! The timeline: every signal on one clock axis, with the values of now or of the cursor, and the peaks.

pub(in crate::tui::screens) mod axis;
mod colour;

use ratatui::style::Style;
use ratatui::text::Line;

use super::super::Spans;
use super::grid::{Chart, Grid};
use crate::analysis::direction_name;
use crate::findings::Finding;
use crate::findings::Problem;
use crate::model::over_time::Series;
use crate::model::signals::{self, ROWS, Row};
use crate::model::{Basis, Counts, Level, Model};
use crate::sample::SourceKind;
use crate::tui::column::{compact, shown_link};
use crate::tui::data::Data;
use crate::tui::theme;
use crate::tui::view::{AsOf, View};
use crate::util::time::NS_PER_S;
use crate::util::units;

/// Columns of names at least, of values and of peaks.
const NAME: usize = 12;
const VALUE: usize = 10;
const PEAK: usize = 13;

/// The rows of which this data knows anything.
fn rows(data: &Data) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(|row| data.over_time.knows(row.series))
}

/// Lines of the whole timeline with one line of throughput.
pub(in crate::tui::screens) fn full_height(data: &Data) -> usize {
    rows(data).count() + 2
}

/// A value in words.
fn figure(series: Series, value: f64) -> String {
    let unit = if matches!(series, Series::Signal(_)) { " pkt" } else { "" };
    signals::figure(series, value, |value| compact(value.round()) + unit)
}

/// Everything that the rows of a picture share.
pub(in crate::tui::screens) struct Picture<'a> {
    view: &'a View,
    data: &'a Data,
    chart: Chart,
    pub(in crate::tui::screens) grid: Grid,
    findings: &'a [Finding],
    /// The cursor, or the snapshot shown of an earlier time.
    at_ns: Option<u64>,
    /// Times that the axis names first.
    marks: Vec<u64>,
    /// Columns of names.
    name: usize,
}

impl<'a> Picture<'a> {
    /// A picture that is `width` columns wide; `None` where there is nothing to show.
    pub(in crate::tui::screens) fn new(
        view: &'a View,
        data: &'a Data,
        chart: Chart,
        width: usize,
    ) -> Option<Self> {
        let name = name_width(data, width);
        let grid = chart.grid(data, width.saturating_sub(name + AROUND))?;
        let concluded = view.concluded().filter(|concluded| !matches!(concluded.as_of, AsOf::Later(_)));
        let findings = concluded.map_or(&[][..], |concluded| concluded.findings);
        let at_ns = chart.cursor_ns.or_else(|| Some(data.model.time_ns).filter(|_| view.past()));
        Some(Self { view, data, chart, grid, findings, at_ns, marks: Vec::new(), name })
    }

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
        Some(Self { view, data, chart: Chart::default(), grid, findings, at_ns, marks, name })
    }

    /// The rows that are about the finding, its episodes and the axis: at most `height` lines; and the scale of its
    /// links.
    pub(in crate::tui::screens) fn lines_of(
        &self,
        finding: &Finding,
        height: usize,
    ) -> (Vec<Line<'static>>, String) {
        let about = |row: &Row| Problem::of(finding).is_some_and(|kind| row.about.contains(&kind));
        let marked = !finding.episodes.is_empty();
        let below = 1 + usize::from(marked);
        // Signals that it is about come before others that show something at that time.
        let shows = |row: &&Row| about(row) || self.values(row.series).iter().flatten().any(|n| *n > 0.0);
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
            scale = shared_scale(links.len(), peak);
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

    /// The links of a finding's place; where it compares links, those `most` of them that its place is, and then the
    /// others.
    fn compared(&self, finding: &Finding, most: usize) -> Vec<usize> {
        let compares = matches!(Problem::of(finding), Some(Problem::Imbalance));
        let among = finding.evidence["links"].as_array().filter(|_| compares);
        let worse = finding.evidence["worse_direction"].as_str();
        let place = &finding.place;
        let is_way = |direction: Option<crate::sample::Direction>| match (place.direction, worse) {
            (None, Some(worse)) => direction.is_some_and(|way| direction_name(way) == worse),
            (way, _) => way.is_none() || direction == way,
        };
        let all = self.data.over_time.links.iter().enumerate();
        let all = || all.clone().filter(|(_, (_, direction))| is_way(*direction));
        let is_own = |name: &String| place.has(name);
        let is_other = |name: &String| among.is_some_and(|all| all.iter().any(|one| *one == **name));
        let own = all().filter(|(_, (name, _))| is_own(name));
        let others = all().filter(|(_, (name, _))| !is_own(name) && is_other(name));
        let mut links: Vec<usize> = own.chain(others).map(|(at, _)| at).take(most.max(2)).collect();
        links.sort_unstable();
        links
    }

    /// Times at which the finding held: begin, end and the time between.
    fn episodes(&self, finding: &Finding) -> Line<'static> {
        let Grid { columns, .. } = self.grid;
        let last_ns = self.data.over_time.range().map_or(0, |(_, last)| last.saturating_sub(1));
        let known = self.view.concluded().and_then(|known| known.end_ns);
        // The same length as in words, though there may be no value of its last second yet.
        let end_ns = self.view.data_end(known).until().unwrap_or(last_ns);
        let mut cells = vec![('·', theme::FRAME); columns];
        let level = Level::from(finding.severity);
        let lasting = finding.episodes.len().checked_sub(1).filter(|_| finding.active);
        let dated = finding.since_ns().map_or(&[][..], |_| &finding.episodes[..]);
        for (at, episode) in dated.iter().enumerate() {
            let lasts = lasting == Some(at);
            let end_ns = end_ns.max(episode.last_ns).min(last_ns.max(episode.last_ns));
            let last_ns = if lasts { end_ns } else { episode.last_ns };
            if last_ns < self.grid.from_ns || episode.first_ns >= self.grid.end_ns() {
                continue;
            }
            let from = self.grid.column(episode.first_ns);
            let to = self.grid.column(last_ns);
            let style = if finding.active { theme::text(level) } else { theme::PLAIN };
            let (first, last) = (from.unwrap_or(0), to.unwrap_or(columns.saturating_sub(1)));
            for cell in cells.iter_mut().take(last + 1).skip(first) {
                *cell = ('━', style);
            }
            if let Some(cell) = from.and_then(|at| cells.get_mut(at)) {
                cell.0 = '├';
            }
            if let Some(cell) = to.filter(|to| from != Some(*to)).and_then(|at| cells.get_mut(at)) {
                cell.0 = if lasts { '▶' } else { '┤' };
            }
        }
        let mut spans = Spans::default();
        // Nothing is active at the end of a capture.
        let recorded = self.data.model.kind == SourceKind::Replay;
        let state = match finding.active {
            true if recorded => "to the end",
            true => "active",
            false => "ended",
        };
        self.head(&mut spans, "episodes", state, theme::BOLD);
        self.cells(&mut spans, cells);
        let length = dated.last().map(|one| {
            let last_ns = if finding.active { end_ns.max(one.last_ns) } else { one.last_ns };
            last_ns.saturating_sub(one.first_ns)
        });
        let text = match length {
            None => units::UNKNOWN.to_owned(),
            Some(0) => String::new(),
            Some(ns) => units::duration(ns),
        };
        spans.push(
            format!(" {:>width$}", super::super::cut(&text, PEAK - 1, false), width = PEAK - 1),
            theme::DIM,
        );
        spans.into_line()
    }

    /// The lines: as many as `height` allows, those with values before those without; and the scale of the links.
    pub(in crate::tui::screens) fn lines(&self, height: usize) -> (Vec<Line<'static>>, String) {
        let axis = usize::from(height >= 3);
        let room = height.saturating_sub(axis);
        let known: Vec<&Row> = rows(self.data).collect();
        let quiet = |row: &&Row| self.values(row.series).iter().flatten().all(|value| *value <= 0.0);
        let calm = |row: &&Row| self.level(row.about, |finding| finding.active) == Level::Fine;
        let links = self.data.over_time.links.len();
        // All links where there is room, else those that findings are about, which take the place of signals that show
        // nothing.
        let own = if links > 1 && room >= known.len() + links + 2 {
            links
        } else {
            let named = (0..links).filter(|at| self.level_of(*at).0 > Level::Fine).count();
            let signals = room.saturating_sub(1);
            // A comparison of links needs the links more than signals of what has ended.
            let compared = self.view.active_level(Problem::Imbalance) > Level::Fine;
            let needed = |row: &&&Row| if compared { !calm(row) } else { !quiet(row) };
            let free = signals.saturating_sub(known.iter().filter(needed).count());
            // One link of a comparison shows nothing.
            let least = if compared { NAMED_LINKS.min(links) } else { 0 };
            if links > 1 && signals > LEAST_SIGNALS { named.min(free).min(NAMED_LINKS).max(least) } else { 0 }
        };
        let mut shown = known.clone();
        if room <= known.len() + own {
            // Stable: those that active problems are about first, then those that show something, and the order stays.
            let mut order = known;
            order.sort_by_key(|row| (calm(row), quiet(row)));
            order.truncate(room.saturating_sub(1 + own));
            shown.retain(|row| order.iter().any(|one| std::ptr::eq(*one, *row)));
        }
        let left = room.saturating_sub(shown.len());
        let high = left.saturating_sub(own).clamp(1, USUAL_AREA);
        // Remaining lines make the links higher, then the signals, then the throughput.
        let spare = left.saturating_sub(own + high).checked_div(own).unwrap_or(0);
        let each = (1 + spare).min(MOST_LINK);
        let left = left.saturating_sub(own * each);
        let tall = self.tall(&shown, left.saturating_sub(high));
        let rows: Vec<_> = shown.iter().flat_map(|row| self.row(row, tall)).collect();
        let mut all = self.throughput((left + shown.len()).saturating_sub(rows.len()).max(1));
        let (links, peak) = self.links(&self.shown_links(own), each);
        all.extend(links);
        all.extend(rows);
        all.truncate(room);
        if axis > 0 {
            all.push(self.axis());
        }
        (all, shared_scale(own, peak))
    }

    fn values(&self, series: Series) -> Vec<Option<f64>> {
        let Grid { from_ns, column_ns, columns } = self.grid;
        self.data.over_time.columns(series, from_ns, column_ns, columns)
    }

    /// The column of the cursor, or of the snapshot shown.
    fn marked(&self) -> Option<usize> {
        self.at_ns
            .and_then(|at| self.grid.column(at.saturating_sub(u64::from(self.chart.cursor_ns.is_none()))))
    }

    /// The value at the cursor, else of the time range.
    fn now(&self, values: &[Option<f64>], range: impl FnOnce(&Counts, f64) -> Option<f64>) -> Option<f64> {
        if self.chart.cursor_ns.is_some() {
            return self.marked().and_then(|at| values.get(at).copied().flatten());
        }
        self.data.model.dedup.delta.and_then(|delta| range(&delta.counts, delta.seconds))
    }

    /// Throughput as an area of some lines, with its scale at the right.
    fn throughput(&self, lines: usize) -> Vec<Line<'static>> {
        let values = self.values(Series::Throughput);
        let now =
            self.now(&values, |counts, seconds| (seconds > 0.0).then(|| counts.bytes as f64 * 8.0 / seconds));
        let peak = values.iter().flatten().copied().fold(0.0, f64::max);
        let area = area(&values, peak, lines);
        let mut all = Vec::new();
        for (at, blocks) in area.into_iter().enumerate() {
            let mut spans = Spans::default();
            let (name, value) = if at == 0 {
                ("throughput", now.map_or_else(|| units::UNKNOWN.into(), units::bit_rate))
            } else {
                ("", String::new())
            };
            self.head(&mut spans, name, &value, theme::BOLD);
            let cells: Vec<(char, Style)> = blocks.into_iter().map(|block| (block, theme::BAR)).collect();
            self.cells(&mut spans, cells);
            let scale = match at {
                0 => units::bit_rate(peak),
                _ if at + 1 == lines => "0".to_owned(),
                _ => String::new(),
            };
            spans.push(format!(" {scale:>width$}", width = PEAK - 1), theme::DIM);
            all.push(spans.into_line());
        }
        all
    }

    /// The level of the worst active finding about a link, and whether it is its place.
    fn level_of(&self, link: usize) -> (Level, bool) {
        self.data
            .over_time
            .links
            .get(link)
            .map_or_else(Default::default, |(name, _)| self.view.level_of_link(name))
    }

    /// The busiest links; where an active finding compares links, those first, in the direction in which they differ.
    fn shown_links(&self, count: usize) -> Vec<usize> {
        let compares = |one: &&Finding| one.active && Problem::of(one) == Some(Problem::Imbalance);
        let mut links = match self.findings.iter().find(compares) {
            Some(finding) if count >= 2 => self.compared(finding, count),
            _ => return self.busiest(count),
        };
        for other in self.busiest(self.data.over_time.links.len()) {
            if links.len() < count && !links.contains(&other) {
                links.push(other);
            }
        }
        links.truncate(count);
        links.sort_unstable();
        links
    }

    /// The links that findings are about, then the busiest, in their usual order.
    fn busiest(&self, count: usize) -> Vec<usize> {
        let most = |at: usize| self.values(Series::Link(at)).into_iter().flatten().fold(0.0, f64::max);
        let mut links: Vec<(usize, f64)> =
            (0..self.data.over_time.links.len()).map(|at| (at, most(at))).collect();
        links.sort_by(|a, b| self.level_of(b.0).cmp(&self.level_of(a.0)).then(b.1.total_cmp(&a.1)));
        links.truncate(count);
        let mut links: Vec<usize> = links.into_iter().map(|(at, _)| at).collect();
        links.sort_unstable();
        links
    }

    /// The load of links in some lines each, all on one scale; and the end of the scale.
    fn links(&self, links: &[usize], high: usize) -> (Vec<Line<'static>>, f64) {
        let most = |values: &[Option<f64>]| values.iter().flatten().copied().fold(0.0, f64::max);
        let shown: Vec<(usize, Vec<Option<f64>>)> =
            links.iter().map(|at| (*at, self.values(Series::Link(*at)))).collect();
        let peak = shown.iter().map(|(_, values)| most(values)).fold(0.0, f64::max);
        let model = &self.data.model;
        let track = |(at, values): (usize, Vec<Option<f64>>)| {
            let link = model.links.get(at);
            let name = link.map_or_else(String::new, |link| {
                let direction = link.direction.map_or("", |direction| match direction {
                    crate::sample::Direction::Ingress => " in",
                    crate::sample::Direction::Egress => " out",
                });
                let name = super::super::links::short(model, link, self.name - 2 - direction.len());
                format!(" {name}{direction}")
            });
            let delta = link.and_then(|link| link.delta);
            let now = if self.chart.cursor_ns.is_some() {
                self.marked().and_then(|at| values.get(at).copied().flatten())
            } else {
                delta.map(|delta| delta.bits_per_s())
            };
            let now = now.map_or_else(|| units::UNKNOWN.into(), units::bit_rate);
            let own = units::bit_rate(most(&values));
            let blocks = area(&values, peak, high).into_iter().enumerate();
            let rows = blocks.map(|(line, blocks)| {
                let (name, now, own) = if line == 0 { (&*name, &*now, &*own) } else { ("", "", "") };
                let mut spans = Spans::default();
                self.head(&mut spans, name, now, theme::PLAIN);
                // So that one that is full ends below the next.
                let apart = |block| if line == 0 && block == '█' { '▇' } else { block };
                self.cells(&mut spans, blocks.into_iter().map(|block| (apart(block), theme::BAR)).collect());
                spans.push(format!(" {own:>width$}", width = PEAK - 1), theme::DIM);
                spans.into_line()
            });
            rows.collect::<Vec<_>>()
        };
        (shown.into_iter().flat_map(track).collect(), peak)
    }

    /// Lines of each signal that shows something, where there is room for more than one line each.
    fn tall(&self, rows: &[&Row], spare: usize) -> usize {
        let shows = |row: &&&Row| self.values(row.series).iter().flatten().any(|value| *value > 0.0);
        let more = spare.checked_div(rows.iter().filter(shows).count()).unwrap_or(0);
        (1 + more).min(MOST_SIGNAL)
    }

    /// A signal in a line, or one that shows something in `tall` of them.
    fn row(&self, row: &Row, tall: usize) -> Vec<Line<'static>> {
        let values = self.values(row.series);
        let peak = values.iter().flatten().copied().fold(0.0, f64::max);
        let now = match row.now {
            Some(of) => self.now(&values, |counts, _| of(counts)),
            None if self.chart.cursor_ns.is_some() => self.now(&values, |_, _| None),
            None => self.highest(row.series),
        };
        let text = match now {
            None if row.series == Series::CeRatio && self.chart.cursor_ns.is_none() => "off".to_owned(),
            None => units::UNKNOWN.to_owned(),
            // In the time range it is a count, in a column a rate or a part of one.
            Some(value) if self.chart.cursor_ns.is_some() => Some(self.peak(row.series, value))
                .filter(|text| text.chars().count() <= VALUE)
                .unwrap_or_else(|| figure(row.series, value)),
            Some(value) => figure(row.series, value),
        };
        let level = self.level(row.about, |finding| finding.active);
        let style = match now {
            Some(value) if value > 0.0 => theme::BOLD.patch(theme::text(level)),
            _ => theme::DIM,
        };
        let tall = if peak > 0.0 { tall } else { 1 };
        let known = values.iter().any(Option::is_some);
        let most = if known { self.peak(row.series, peak) } else { units::UNKNOWN.to_owned() };
        let bars = self.bars(row, values.len());
        let lines = area(&values, peak, tall).into_iter().enumerate();
        let line = |(line, blocks): (usize, Vec<char>)| {
            let (name, text, most) = if line == 0 { (row.name, &*text, &*most) } else { ("", "", "") };
            let mut spans = Spans::default();
            self.head(&mut spans, name, text, style);
            let cells = values.iter().zip(blocks).zip(&bars).map(|((value, symbol), bar)| match value {
                // So that one that is full ends below the next.
                Some(value) if *value > 0.0 && line == 0 && symbol == '█' => ('▇', *bar),
                Some(value) if *value > 0.0 => (symbol, *bar),
                Some(_) if line + 1 == tall => ('·', theme::FRAME),
                _ => (' ', theme::PLAIN),
            });
            self.cells(&mut spans, cells.collect());
            spans.push(format!(" {most:>width$}", width = PEAK - 1), theme::DIM);
            spans.into_line()
        };
        lines.map(line).collect()
    }

    /// The highest value in the time range.
    fn highest(&self, series: Series) -> Option<f64> {
        let Model { time_ns, basis, .. } = self.data.model;
        let (Basis::Last(seconds) | Basis::Whole(seconds)) = basis else { return None };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length of time")]
        let length_ns = (seconds * NS_PER_S as f64) as u64;
        self.data.over_time.value(series, time_ns.saturating_sub(length_ns), time_ns)
    }

    /// A value of a column with the time in which it was counted.
    fn peak(&self, series: Series, peak: f64) -> String {
        let bucket_ns = self.data.over_time.bucket_ns(self.grid.column_ns);
        match () {
            () if peak <= 0.0 => "0".to_owned(),
            () if !matches!(series, Series::Signal(_)) => figure(series, peak),
            () if bucket_ns >= NS_PER_S => format!("{} pkt/s", compact(peak)),
            () if peak < 0.5 => format!("<1 in {}", short(bucket_ns)),
            () => format!("{} in {}", compact(peak.round()), short(bucket_ns)),
        }
    }

    /// The worst level of the findings about a row of which `of` holds.
    fn level(&self, about: &[Problem], of: impl Fn(&Finding) -> bool) -> Level {
        signals::level(self.findings, about, of)
    }

    /// Cells of the chart, runs of one style together; the marked column is reversed.
    fn cells(&self, spans: &mut Spans, cells: Vec<(char, Style)>) {
        let marked = self.marked();
        let mut run = (String::new(), theme::PLAIN);
        for (at, (symbol, style)) in cells.into_iter().enumerate() {
            let style = if Some(at) == marked { style.patch(theme::SELECTED) } else { style };
            if style != run.1 && !run.0.is_empty() {
                spans.push(std::mem::take(&mut run.0), run.1);
            }
            run.1 = style;
            run.0.push(symbol);
        }
        spans.push(run.0, run.1);
    }

    /// Name and value before the chart.
    fn head(&self, spans: &mut Spans, name: &str, value: &str, style: Style) {
        spans.push(format!(" {name:<width$}", width = self.name), theme::DIM);
        spans.push(format!("{value:>VALUE$} "), style);
    }

    /// Length of the window in words.
    pub(in crate::tui::screens) fn length(&self) -> String {
        units::duration(self.grid.column_ns.saturating_mul(self.grid.columns as u64))
    }

    /// The same, and the keys that change it.
    pub(in crate::tui::screens) fn hint(&self) -> String {
        use crate::tui::key::Input;
        let key = |input| self.view.options.keys.first(input);
        let length = self.length();
        format!(
            "{length} · {} zooms in, {} out · {} {} cursor",
            key(Input::ZoomIn),
            key(Input::ZoomOut),
            "←",
            "→"
        )
    }
}

/// The scale that several links share, in words; empty for one, whose peak is its scale.
fn shared_scale(links: usize, peak: f64) -> String {
    if links > 1 { format!("links: 0 to {}", units::bit_rate(peak)) } else { String::new() }
}

/// The load of the first links over all of the time that is known, in some lines each and on one scale, with the clock
/// below; and the end of the scale. `None` where nothing is known yet.
pub(in crate::tui::screens) fn links_over_time(
    view: &View,
    data: &Data,
    width: usize,
    count: usize,
    high: usize,
) -> Option<(Vec<Line<'static>>, f64)> {
    let picture = Picture::new(view, data, Chart::default(), width)?;
    let (mut lines, peak) = picture.links(&picture.busiest(count), high);
    lines.push(picture.axis());
    Some((lines, peak))
}

/// The load of a link over all of the time that is known, in bits per second; `None` where nothing is.
pub(in crate::tui::screens) fn load_of(data: &Data, link: usize, columns: usize) -> Option<Vec<Option<f64>>> {
    let Grid { from_ns, column_ns, columns } = Chart::default().grid(data, columns)?;
    let known = link < data.over_time.links.len();
    known.then(|| data.over_time.columns(Series::Link(link), from_ns, column_ns, columns))
}

/// Columns beside the chart besides names; the last one is blank.
const AROUND: usize = 1 + VALUE + 1 + PEAK + 1;
/// Links that findings are about, where there is no room for all.
const NAMED_LINKS: usize = 2;
/// Signals that have lines before links have.
const LEAST_SIGNALS: usize = 3;
/// Lines of the throughput before links and signals become higher, and of a link and of a signal, at most.
const USUAL_AREA: usize = 12;
const MOST_LINK: usize = 4;
const MOST_SIGNAL: usize = 8;

/// Columns for names: the longest of a link where the width allows, so that it is not cut.
fn name_width(data: &Data, width: usize) -> usize {
    let letters = |link: &crate::model::LinkRow| shown_link(link).chars().count() + 2;
    // One alone has no line of its own.
    let several = data.model.links.len() > 1;
    let longest = data.model.links.iter().filter(|_| several).map(letters).max().unwrap_or(0);
    // A quarter of what a chart does not need.
    longest.min(NAME + width.saturating_sub(60) / 4).max(NAME)
}

/// A length of time with few digits.
fn short(ns: u64) -> String {
    match ns {
        1_000_000.. => format!("{} ms", (ns + 500_000) / 1_000_000),
        _ => format!("{} µs", ns / 1_000),
    }
}

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A block of seven heights, so that lines below one another stay apart; blank where nothing is known.
pub(in crate::tui::screens) fn block(value: Option<f64>, peak: f64) -> char {
    let Some(value) = value else { return ' ' };
    if value <= 0.0 || peak <= 0.0 {
        return '▁';
    }
    let step = (value / peak * 7.0).ceil().clamp(1.0, 7.0);
    BLOCKS.into_iter().zip(1u8..).find(|(_, n)| f64::from(*n) >= step).map_or('▇', |(block, _)| block)
}

/// An area of some lines, the highest first.
pub(in crate::tui::screens) fn area(values: &[Option<f64>], peak: f64, lines: usize) -> Vec<Vec<char>> {
    let full = if lines == 1 { 7.0 } else { 8.0 };
    let cell = |value: &Option<f64>, line: usize| {
        let Some(value) = value else { return ' ' };
        let below = (lines - 1 - line) as f64 * full;
        let eighths = if peak > 0.0 { (value / peak * full * lines as f64).ceil() } else { 0.0 };
        let here = (eighths - below).clamp(0.0, full);
        if here < 1.0 {
            return if line + 1 == lines { '▁' } else { ' ' };
        }
        BLOCKS.into_iter().zip(1u8..).find(|(_, n)| f64::from(*n) >= here).map_or('█', |(block, _)| block)
    };
    (0..lines).map(|line| values.iter().map(|value| cell(value, line)).collect()).collect()
}
