//! The timeline: every signal on one clock axis, with the values of now or of the cursor, and the peaks.

pub(in crate::tui::screens) mod axis;
mod colour;
mod episodes;
mod signal;

use ratatui::style::Style;
use ratatui::text::Line;

use super::super::link_names;
use super::grid::{Chart, Grid};
use crate::findings::Finding;
use crate::findings::Problem;
use crate::model::Level;
use crate::model::over_time::Series;
use crate::model::signals::{ROWS, Row};
use crate::tui::column::shown_link;
use crate::tui::data::Data;
use crate::tui::view::{AsOf, View};
use crate::tui::widgets::{Spans, cut, letters};
use crate::tui::{names, theme};
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
    /// Links that have rows where there is room.
    links: usize,
    /// The link whose CE ratio is shown, of several; `None` for that of all.
    marked_link: Option<usize>,
    /// Width of the names, in columns.
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
        let links = data.over_time.links.len();
        // Its marks stay while they are in the picture, or their peak would change when the problem ends.
        let is_seen = |one: &&Finding| one.active || one.last_seen_ns.is_some_and(|ns| ns >= grid.from_ns);
        let marked = findings.iter().filter(is_seen);
        let marked = marked.filter_map(|one| Some((!one.active, marked_link(data, one)?)));
        let marked_link = marked.min_by_key(|(ended, _)| *ended).map(|(_, link)| link);
        Some(Self { view, data, chart, grid, findings, at_ns, marks: Vec::new(), links, marked_link, name })
    }

    /// The same without the load of links.
    pub(in crate::tui::screens) fn without_links(self) -> Self {
        Self { links: 0, ..self }
    }

    /// The lines: as many as `height` allows, those with values before those without; and the scale of the links.
    pub(in crate::tui::screens) fn lines(&self, height: usize) -> (Vec<Line<'static>>, String) {
        let axis = usize::from(height >= 3);
        let room = height.saturating_sub(axis);
        let known: Vec<&Row> = rows(self.data).collect();
        let quiet = |row: &&Row| self.is_quiet(row);
        let calm = |row: &&Row| self.is_calm(row);
        let links = self.links;
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
            let most = named.min(NAMED_LINKS);
            let count = if links > 1 && signals > LEAST_SIGNALS { most.min(free).max(least) } else { 0 };
            // With room for one of two, which one that is would change with the time shown.
            if count < most { 0 } else { count }
        };
        let shown = self.fitting(known, room.saturating_sub(1 + own));
        let left = room.saturating_sub(shown.len());
        let problems = if left > own + LEAST_AREA { self.problems() } else { None };
        let room = room - usize::from(problems.is_some());
        let left = room.saturating_sub(shown.len());
        // What active problems are about is what the eye looks for: it has some lines before the throughput has many.
        let is_wrong = |row: &&Row| !calm(row) && !quiet(row);
        let wrong = shown.iter().filter(|row| is_wrong(row)).count();
        let more = left.saturating_sub(own + LEAST_AREA).checked_div(wrong).unwrap_or(0).min(MORE_WRONG);
        let left = left - more * wrong;
        let high = left.saturating_sub(own).clamp(1, USUAL_AREA);
        // Remaining lines make the links higher, then the signals, then the throughput.
        let spare = left.saturating_sub(own + high).checked_div(own).unwrap_or(0);
        let each = (1 + spare).min(MOST_LINK);
        let tall = self.tall(&shown, left.saturating_sub(own * each + high));
        let of = |row: &&Row| tall.max(if is_wrong(row) { 1 + more } else { 1 });
        let rows: Vec<_> = shown.iter().flat_map(|row| self.row(row, of(row))).collect();
        let free = room.saturating_sub(own * each + rows.len()).max(1);
        let mut all = self.throughput(free);
        let (links, peak) = self.links(&self.shown_links(own), each);
        all.extend(links);
        all.extend(rows);
        all.truncate(room);
        all.extend(problems);
        if axis > 0 {
            all.push(self.axis());
        }
        (all, self.scale_of(own, peak))
    }

    fn values(&self, series: Series) -> Vec<Option<f64>> {
        let Grid { from_ns, column_ns, columns } = self.grid;
        self.data.over_time.columns(series, from_ns, column_ns, columns)
    }

    /// The highest value. A column of which less than half has data, as the last one of a capture, is a rate of that
    /// part alone: it would dwarf the others.
    fn highest_of(&self, values: &[Option<f64>]) -> f64 {
        let Grid { from_ns, column_ns, .. } = self.grid;
        let starts = (0u64..).map(|at| from_ns.saturating_add(column_ns.saturating_mul(at)));
        let covered = |from_ns: u64| {
            !self.data.over_time.from_packets
                || self.data.over_time.covered(from_ns, from_ns.saturating_add(column_ns)) >= 0.5
        };
        let known = || starts.clone().zip(values).filter_map(|(start, value)| Some((start, (*value)?)));
        let most = known().filter(|(start, _)| covered(*start)).map(|(_, value)| value).reduce(f64::max);
        most.unwrap_or_else(|| known().map(|(_, value)| value).fold(0.0, f64::max))
    }

    /// The column of the cursor, or of the snapshot shown.
    fn marked(&self) -> Option<usize> {
        self.at_ns
            .and_then(|at| self.grid.column(at.saturating_sub(u64::from(self.chart.cursor_ns.is_none()))))
    }

    /// The value of the column of the cursor.
    fn at_mark(&self, values: &[Option<f64>]) -> Option<f64> {
        self.marked().and_then(|at| values.get(at).copied().flatten())
    }

    /// Throughput as an area of some lines, with its scale at the right.
    fn throughput(&self, lines: usize) -> Vec<Line<'static>> {
        let values = self.values(Series::Throughput);
        let now = if self.chart.cursor_ns.is_some() {
            self.at_mark(&values)
        } else {
            self.data.model.dedup.delta.filter(|delta| delta.seconds > 0.0).map(|delta| delta.bits_per_s())
        };
        let peak = self.highest_of(&values);
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
            let cells = blocks.into_iter().zip(&values).map(|(block, value)| cell(block, *value));
            self.cells(&mut spans, cells.collect());
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

    /// The name of a link with its direction, or what differs between the names of capture files, in `most` columns.
    fn name_of(&self, at: usize, most: usize) -> String {
        let model = &self.data.model;
        if let Some(name) = names_of_files(self.data).as_ref().and_then(|names| names.get(at)) {
            return cut(name, most, true);
        }
        let Some(link) = model.links.get(at) else { return String::new() };
        let direction = link.direction.map_or("", |direction| match direction {
            crate::sample::Direction::Ingress => " in",
            crate::sample::Direction::Egress => " out",
        });
        format!("{}{direction}", link_names::short(model, link, most.saturating_sub(direction.len())))
    }

    /// The load of links in some lines each, all on one scale; and the end of the scale.
    fn links(&self, links: &[usize], high: usize) -> (Vec<Line<'static>>, f64) {
        let most = |values: &[Option<f64>]| self.highest_of(values);
        let shown: Vec<(usize, Vec<Option<f64>>)> =
            links.iter().map(|at| (*at, self.values(Series::Link(*at)))).collect();
        let peak = shown.iter().map(|(_, values)| most(values)).fold(0.0, f64::max);
        // One of several has the scale of all, or it would look as busy as any other.
        let alone = shown.len() == 1 && self.data.over_time.links.len() > 1;
        let peak = if alone { peak.max(most(&self.values(Series::Throughput))) } else { peak };
        let model = &self.data.model;
        let carries = |values: &[Option<f64>]| values.iter().flatten().any(|value| *value > 0.0);
        let idle = shown.iter().filter(|(_, values)| !carries(values)).count();
        // One that carries nothing needs a line, and leaves the others of its own to those that do.
        let busy = shown.len() - idle;
        let mut spare = (high.saturating_sub(1)) * idle;
        let mut height = move |values: &[Option<f64>]| {
            if busy == 0 || carries(values) {
                let more = if busy == 0 { 0 } else { spare.div_ceil(busy) };
                let more = more.min(spare);
                spare -= more;
                high + more
            } else {
                1
            }
        };
        let track = |(at, values): (usize, Vec<Option<f64>>)| {
            let high = height(&values);
            let link = model.links.get(at);
            let name = format!(" {}", self.name_of(at, self.name - 2));
            let delta = link.and_then(|link| link.delta);
            let now = if self.chart.cursor_ns.is_some() {
                self.at_mark(&values)
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
                let cells = blocks.into_iter().zip(&values).map(|(block, value)| cell(apart(block), *value));
                self.cells(&mut spans, cells.collect());
                spans.push(format!(" {own:>width$}", width = PEAK - 1), theme::DIM);
                spans.into_line()
            });
            rows.collect::<Vec<_>>()
        };
        (shown.into_iter().flat_map(track).collect(), peak)
    }

    /// The scale of the `shown` links in words; empty where there is one alone, whose peak is its scale.
    fn scale_of(&self, shown: usize, peak: f64) -> String {
        match shown {
            0 => String::new(),
            1 if self.data.over_time.links.len() < 2 => String::new(),
            1 => format!("link: 0 to {}", units::bit_rate(peak)),
            _ => format!("links: 0 to {}", units::bit_rate(peak)),
        }
    }

    /// What the figures at the cursor are of.
    fn at_cursor(&self) -> String {
        match self.data.over_time.bucket_ns(self.grid.column_ns) {
            NS_PER_S.. => "at cursor, per s".to_owned(),
            bucket_ns => format!("at cursor, in {}", short(bucket_ns)),
        }
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
        // A longer name takes the blanks before the value.
        let room = VALUE.saturating_sub(letters(name).saturating_sub(self.name));
        spans.push(format!("{value:>room$} "), style);
    }

    /// The middle of the column of the chart that stands in this column of the frame.
    pub(in crate::tui::screens) fn time_at(&self, column: usize) -> Option<u64> {
        let at = column.checked_sub(self.name + 1 + VALUE + 1).filter(|at| *at < self.grid.columns)?;
        let time_ns = self.grid.start(at).saturating_add(self.grid.column_ns / 2);
        let (first_ns, last_ns) = self.data.over_time.range()?;
        (first_ns..last_ns).contains(&time_ns).then_some(time_ns)
    }

    /// Length of the window in words.
    pub(in crate::tui::screens) fn length(&self) -> String {
        let length = units::duration(self.grid.column_ns.saturating_mul(self.grid.columns as u64));
        // Windows are of whole seconds or minutes.
        let whole = [(" min 0 s", " min"), (" h 0 min", " h"), (".0 s", " s"), (".00 s", " s")];
        let whole = whole.iter().find_map(|(zero, unit)| Some(length.strip_suffix(zero)?.to_owned() + unit));
        whole.unwrap_or(length)
    }

    /// The same, and the keys that change it.
    pub(in crate::tui::screens) fn hint(&self) -> String {
        use crate::tui::key::Input;
        let key = |input| self.view.options.keys.first(input);
        let [closer, wider, left, right] =
            [Input::ZoomIn, Input::ZoomOut, Input::Left, Input::Right].map(key);
        format!("{} · {closer} {wider} zoom · {left} {right} cursor", self.length())
    }
}

/// The link of several on which a finding sees CE marks; `None` for other findings, where it has no series, and of
/// capture files, of which several may have the same packets.
fn marked_link(data: &Data, finding: &Finding) -> Option<usize> {
    let links = &data.over_time.links;
    if links.len() < 2 || names_of_files(data).is_some() || Problem::of(finding) != Some(Problem::Congestion)
    {
        return None;
    }
    let place = (finding.place.link.as_ref()?, finding.place.direction);
    links.iter().position(|(name, direction)| (name, *direction) == place)
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

/// Columns before a chart that is `width` columns wide with what stands beside it, and its own.
pub(in crate::tui::screens) fn chart_columns(data: &Data, width: usize) -> (usize, usize) {
    let name = name_width(data, width);
    (name + 1 + VALUE + 1, width.saturating_sub(name + AROUND))
}

/// Columns beside the chart besides names; the last one is blank.
const AROUND: usize = 1 + VALUE + 1 + PEAK + 1;
/// Links that findings are about, where there is no room for all.
const NAMED_LINKS: usize = 2;
/// Signals that have lines before links have.
const LEAST_SIGNALS: usize = 3;
/// Lines of the throughput before links and signals become higher, and of a link and of a signal, at most.
const USUAL_AREA: usize = 12;
/// Lines of the throughput, at least, before signals of active problems become higher, and by how many they do.
const LEAST_AREA: usize = 3;
const MORE_WRONG: usize = 3;
const MOST_LINK: usize = 4;
const MOST_SIGNAL: usize = 8;

/// What differs between the names of capture files, as the title has the rest; `None` of links with directions.
pub(in crate::tui::screens) fn names_of_files(data: &Data) -> Option<Vec<String>> {
    let links = &data.model.links;
    let names = || names::distinct(&links.iter().map(shown_link).collect::<Vec<_>>());
    links.iter().all(|link| link.direction.is_none()).then(names)
}

/// Columns for names: the longest of a link where the width allows, so that it is not cut.
fn name_width(data: &Data, width: usize) -> usize {
    // One alone has no line of its own.
    let several = data.model.links.len() > 1;
    let names = names_of_files(data).unwrap_or_else(|| data.model.links.iter().map(shown_link).collect());
    let letters = names.iter().filter(|_| several).map(|name| name.chars().count() + 2);
    let longest = letters.max().unwrap_or(0);
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

/// A cell of a chart's line: nothing is a dot.
fn cell(block: char, value: Option<f64>) -> (char, Style) {
    if value == Some(0.0) && block != ' ' { ('·', theme::FRAME) } else { (block, theme::BAR) }
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
