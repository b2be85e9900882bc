//! The timeline: every signal on one clock axis, with the values of now or of the cursor, and the peaks.

use std::ops::Range;

use ratatui::style::Style;
use ratatui::text::Line;

use super::super::Spans;
use crate::findings::{Finding, Severity};
use crate::metrics::timeline::Kind;
use crate::model::over_time::Series;
use crate::model::{Counts, Level, Problem};
use crate::sample::SourceKind;
use crate::tui::column::compact;
use crate::tui::data::Data;
use crate::tui::theme;
use crate::tui::view::{AsOf, View};
use crate::util::units;

const SECOND: u64 = 1_000_000_000;
/// Columns of names, of values and of peaks.
const NAME: usize = 12;
const VALUE: usize = 10;
const PEAK: usize = 11;
/// Lengths of the window that the keys go through.
const WINDOWS: [u64; 16] = [
    SECOND / 100,
    SECOND / 50,
    SECOND / 20,
    SECOND / 10,
    SECOND / 5,
    SECOND / 2,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    15 * SECOND,
    30 * SECOND,
    60 * SECOND,
    120 * SECOND,
    300 * SECOND,
    600 * SECOND,
    3_600 * SECOND,
];
/// The shortest window over snapshots.
const SHORTEST_NS: u64 = 5 * SECOND;

/// State of the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chart {
    /// Length of the window; `None` for all there is.
    pub window_ns: Option<u64>,
    /// The time whose values are shown; `None` for those of the time range.
    pub cursor_ns: Option<u64>,
}

/// The columns of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// Begin of the first column.
    pub(super) from_ns: u64,
    /// Length of a column.
    pub(super) column_ns: u64,
    /// Number of columns.
    pub(super) columns: usize,
}

impl Grid {
    fn end_ns(self) -> u64 {
        self.from_ns.saturating_add(self.column_ns.saturating_mul(self.columns as u64))
    }

    /// The column of a time.
    fn column(self, time_ns: u64) -> Option<usize> {
        let at = usize::try_from(time_ns.checked_sub(self.from_ns)? / self.column_ns).ok()?;
        (at < self.columns).then_some(at)
    }

    fn start(self, column: usize) -> u64 {
        self.from_ns.saturating_add(self.column_ns.saturating_mul(column as u64))
    }
}

impl Chart {
    /// The columns over `data` in this number; `None` where there is nothing.
    pub(super) fn grid(self, data: &Data, columns: usize) -> Option<Grid> {
        let over_time = &data.over_time;
        let (first_ns, last_ns) = over_time.range()?;
        if columns == 0 {
            return None;
        }
        let all_ns = (last_ns - first_ns).max(1);
        // A live view fills up from the right; a capture has its length.
        let whole_ns = match data.model.kind {
            SourceKind::Live => WINDOWS
                .into_iter()
                .find(|window| *window >= all_ns && *window >= 15 * SECOND)
                .unwrap_or(all_ns),
            SourceKind::Replay => all_ns,
        };
        let window_ns = self.window_ns.unwrap_or(whole_ns).min(whole_ns);
        let mut column_ns = window_ns.div_ceil(columns as u64).max(1);
        if over_time.from_packets {
            column_ns = column_ns.next_multiple_of(over_time.least_ns());
        }
        let length_ns = column_ns.saturating_mul(columns as u64);
        let whole = window_ns >= whole_ns;
        let from_ns = match self.cursor_ns.filter(|_| !whole) {
            Some(at) => at.saturating_sub(length_ns / 2).clamp(
                first_ns.min(last_ns.saturating_sub(length_ns).max(first_ns)),
                last_ns.saturating_sub(length_ns).max(first_ns),
            ),
            None if whole && data.model.kind == SourceKind::Replay => first_ns,
            None => last_ns.saturating_sub(length_ns),
        };
        // Columns begin at multiples of their length, so that the picture stands still while time goes on.
        let from_ns =
            if data.model.kind == SourceKind::Live { from_ns.next_multiple_of(column_ns) } else { from_ns };
        Some(Grid { from_ns, column_ns, columns })
    }

    /// A shorter window, or a longer one; false where there is none.
    pub(super) fn zoom(&mut self, data: &Data, closer: bool) -> bool {
        let Some((first_ns, last_ns)) = data.over_time.range() else { return false };
        let all_ns = last_ns - first_ns;
        let shortest = if data.over_time.from_packets {
            data.over_time.least_ns().saturating_mul(10)
        } else {
            SHORTEST_NS
        };
        let now = self.window_ns.unwrap_or(all_ns);
        let next = if closer {
            WINDOWS.into_iter().rev().find(|window| *window < now && *window >= shortest)
        } else {
            WINDOWS.into_iter().find(|window| *window > now && *window < all_ns)
        };
        let changes = next.is_some() || (!closer && self.window_ns.is_some());
        if changes {
            self.window_ns = next;
        }
        changes
    }

    /// Moves the cursor by a column of the grid, from the end where there was none.
    pub(super) fn step(&mut self, grid: Grid, data: &Data, later: bool) {
        let Some((first_ns, last_ns)) = data.over_time.range() else { return };
        let last_ns = last_ns.saturating_sub(1);
        let middle = grid.column_ns / 2;
        self.cursor_ns = match self.cursor_ns {
            None if later => None,
            None => Some(last_ns.saturating_sub(middle)),
            // Behind the end is now again.
            Some(at) if later && at.saturating_add(grid.column_ns) > last_ns => None,
            Some(at) if later => Some(at + grid.column_ns),
            Some(at) => Some(at.saturating_sub(grid.column_ns).max(first_ns)),
        };
    }
}

/// A row of the timeline.
struct Row {
    name: &'static str,
    series: Series,
    /// Kinds of findings that are about it.
    about: &'static [Problem],
    /// The figure of the time range.
    now: fn(&Counts) -> u64,
}

const ROWS: [Row; 6] = [
    Row {
        name: "lost",
        series: Series::Signal(Kind::Lost),
        about: &[Problem::Loss, Problem::Icrc],
        now: |c| c.lost,
    },
    Row {
        name: "retransmit",
        series: Series::Signal(Kind::Retransmitted),
        about: &[Problem::Retransmission, Problem::Loss, Problem::LossOrReordering],
        now: |c| c.retransmitted,
    },
    Row {
        name: "NAK",
        series: Series::Signal(Kind::Nak),
        about: &[Problem::Refused, Problem::Loss, Problem::LossOrReordering],
        now: Counts::naks,
    },
    Row { name: "RNR NAK", series: Series::Signal(Kind::Rnr), about: &[Problem::NotReady], now: |c| c.rnr },
    Row {
        name: "ECN CE",
        series: Series::CeRatio,
        about: &[Problem::Congestion, Problem::Incast, Problem::Notification],
        now: |c| c.ecn_data[3],
    },
    Row {
        name: "CNP",
        series: Series::Signal(Kind::Cnp),
        about: &[Problem::Notification, Problem::Congestion],
        now: |c| c.cnp,
    },
];

/// Everything that the rows of a picture share.
pub(super) struct Picture<'a> {
    view: &'a View,
    data: &'a Data,
    chart: Chart,
    pub(super) grid: Grid,
    findings: &'a [Finding],
    /// The cursor, or the snapshot shown of an earlier time.
    at_ns: Option<u64>,
}

impl<'a> Picture<'a> {
    /// A picture that is `width` columns wide; `None` where there is nothing to show.
    pub(super) fn new(view: &'a View, data: &'a Data, chart: Chart, width: usize) -> Option<Self> {
        let grid = chart.grid(data, width.saturating_sub(AROUND))?;
        let concluded = view.concluded().filter(|concluded| !matches!(concluded.as_of, AsOf::Later(_)));
        let findings = concluded.map_or(&[][..], |concluded| concluded.findings);
        let at_ns = chart.cursor_ns.or_else(|| Some(data.model.time_ns).filter(|_| view.past()));
        Some(Self { view, data, chart, grid, findings, at_ns })
    }

    /// The lines: as many as `height` allows, those with values before those without.
    pub(super) fn lines(&self, height: usize) -> Vec<Line<'static>> {
        let axis = usize::from(height >= 3);
        let room = height.saturating_sub(axis);
        let mut shown: Vec<&Row> = ROWS.iter().collect();
        if room <= ROWS.len() {
            // Stable: those that show something first, and the order stays.
            let quiet = |row: &&Row| self.values(row.series).iter().flatten().all(|value| *value <= 0.0);
            let mut order: Vec<&Row> = ROWS.iter().collect();
            order.sort_by_key(quiet);
            order.truncate(room.saturating_sub(1));
            shown.retain(|row| order.iter().any(|one| std::ptr::eq(*one, *row)));
        }
        let left = room.saturating_sub(shown.len());
        let own = self.data.over_time.links.len();
        let own = if own > 1 && left >= own + 2 { own } else { 0 };
        let high = left.saturating_sub(own).clamp(1, MOST_AREA);
        let mut all = self.throughput(high);
        all.extend(self.links(own));
        all.extend(shown.iter().map(|row| self.row(row)));
        all.truncate(room);
        if axis > 0 {
            all.push(self.axis());
        }
        all
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
            head(&mut spans, name, &value, theme::BOLD);
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

    /// The load of links, all on one scale.
    fn links(&self, links: usize) -> Vec<Line<'static>> {
        let values: Vec<Vec<Option<f64>>> = (0..links).map(|at| self.values(Series::Link(at))).collect();
        let peak = values.iter().flatten().flatten().copied().fold(0.0, f64::max);
        let model = &self.data.model;
        let names = self.data.over_time.links.iter().zip(&values).enumerate();
        let line = |(at, (_, values)): (usize, (_, &Vec<Option<f64>>))| {
            let mut spans = Spans::default();
            let link = model.links.get(at);
            let name = link.map_or_else(String::new, |link| {
                let direction = link.direction.map_or("", |direction| match direction {
                    crate::sample::Direction::Ingress => " in",
                    crate::sample::Direction::Egress => " out",
                });
                let name = super::super::links::short(model, link, NAME - 2 - direction.len());
                format!(" {name}{direction}")
            });
            let delta = link.and_then(|link| link.delta);
            let now = if self.chart.cursor_ns.is_some() {
                self.marked().and_then(|at| values.get(at).copied().flatten())
            } else {
                delta.map(|delta| delta.bits_per_s())
            };
            head(
                &mut spans,
                &name,
                &now.map_or_else(|| units::UNKNOWN.into(), units::bit_rate),
                theme::PLAIN,
            );
            let cells = values.iter().map(|value| (block(*value, peak), theme::BAR)).collect();
            self.cells(&mut spans, cells);
            let own = values.iter().flatten().copied().fold(0.0, f64::max);
            spans.push(format!(" {:>width$}", units::bit_rate(own), width = PEAK - 1), theme::DIM);
            spans.into_line()
        };
        names.map(line).collect()
    }

    fn row(&self, row: &Row) -> Line<'static> {
        let values = self.values(row.series);
        let peak = values.iter().flatten().copied().fold(0.0, f64::max);
        let ratio = row.series == Series::CeRatio;
        let now = self
            .now(&values, |counts, _| if ratio { counts.ce_ratio() } else { Some((row.now)(counts) as f64) });
        let text = match now {
            None if ratio && self.chart.cursor_ns.is_none() => "off".to_owned(),
            None => units::UNKNOWN.to_owned(),
            Some(value) if ratio => units::ratio(Some(value)),
            Some(value) => compact(value.round()),
        };
        let level = self.level(row.about, |finding| finding.active);
        let style = match now {
            Some(value) if value > 0.0 => theme::BOLD.patch(theme::text(level)),
            _ => theme::DIM,
        };
        let mut spans = Spans::default();
        head(&mut spans, row.name, &text, style);
        let cells = values.iter().enumerate().map(|(at, value)| match value {
            Some(value) if *value > 0.0 => {
                let (from, to) = (self.grid.start(at), self.grid.start(at + 1));
                let during = |finding: &Finding| {
                    let last = finding.episodes.last().filter(|_| finding.active).map(|one| one.first_ns);
                    // What is active lasts to the end of the data.
                    finding.episodes.is_empty()
                        || last.is_some_and(|first| first < to)
                        || finding.episodes.iter().any(|one| one.first_ns < to && one.last_ns >= from)
                };
                (block(Some(*value), peak), theme::bar(self.level(row.about, during)))
            }
            Some(_) => ('·', theme::FRAME),
            None => (' ', theme::PLAIN),
        });
        self.cells(&mut spans, cells.collect());
        let known = values.iter().any(Option::is_some);
        let text = if known { self.peak(ratio, peak) } else { units::UNKNOWN.to_owned() };
        spans.push(format!(" {text:>width$}", width = PEAK - 1), theme::DIM);
        spans.into_line()
    }

    /// The peak with the time in which it was counted.
    fn peak(&self, ratio: bool, peak: f64) -> String {
        let bucket_ns = self.data.over_time.bucket_ns(self.grid.column_ns);
        match () {
            () if peak <= 0.0 => "0".to_owned(),
            () if ratio => units::ratio(Some(peak)),
            () if bucket_ns >= SECOND => format!("{}/s", compact(peak)),
            () => format!("{}/{}", compact(peak.round()), short(bucket_ns)),
        }
    }

    /// The worst level of the findings about a row of which `of` holds.
    fn level(&self, about: &[Problem], of: impl Fn(&Finding) -> bool) -> Level {
        let about = self.findings.iter().filter(|finding| {
            finding.severity > Severity::Info
                && Problem::of(finding).is_some_and(|kind| about.contains(&kind))
                && of(finding)
        });
        about.map(|finding| Level::from(finding.severity)).max().unwrap_or_default()
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

    /// Clock times below the columns, and the time of the cursor.
    fn axis(&self) -> Line<'static> {
        let (text, cursor) = self.ticks();
        let mut spans = Spans::default();
        let range = super::super::time_range(self.data.model.basis);
        let what = if self.chart.cursor_ns.is_some() { "at the cursor".to_owned() } else { range };
        let width = NAME + VALUE;
        spans.push(format!(" {:>width$} ", super::super::cut(&what, width, false)), theme::DIM);
        let part = |from: usize, to: usize| text.iter().skip(from).take(to - from).collect::<String>();
        spans.push(part(0, cursor.start), theme::DIM);
        spans.push(part(cursor.start, cursor.end), theme::SELECTED);
        spans.push(part(cursor.end, text.len()), theme::DIM);
        spans.push(format!(" {:>width$}", "peak", width = PEAK - 1), theme::DIM);
        spans.into_line()
    }

    /// The text of the axis, and the part of it that is the time of the cursor.
    fn ticks(&self) -> (Vec<char>, Range<usize>) {
        let Grid { from_ns, column_ns, columns } = self.grid;
        let least = column_ns.saturating_mul(APART);
        let step = STEPS.into_iter().find(|step| *step >= least).unwrap_or(least.max(1));
        let letters = match step {
            0..10_000_000 => 12,
            10_000_000..SECOND => 11,
            _ => 8,
        };
        let mut text: Vec<char> = vec![' '; columns];
        let cursor = self
            .marked()
            .zip(self.at_ns)
            .map_or(0..0, |(column, at)| write(&mut text, column, at, if step < SECOND { 12 } else { 8 }));
        let mut at = from_ns.next_multiple_of(step);
        while at < self.grid.end_ns() {
            if let Some(column) = self.grid.column(at) {
                write(&mut text, column, at, letters);
            }
            let Some(next) = at.checked_add(step) else { break };
            at = next;
        }
        (text, cursor)
    }

    /// Length of the window in words, and the keys that change it.
    pub(super) fn hint(&self) -> String {
        use crate::tui::key::Input;
        let key = |input| self.view.options.keys.first(input);
        let length = units::duration(self.grid.column_ns.saturating_mul(self.grid.columns as u64));
        format!("{length} · {} {} zoom · {} {} cursor", key(Input::ZoomIn), key(Input::ZoomOut), "←", "→")
    }
}

/// Writes the first letters of a clock time around a column, where nothing is written yet; returns where it stands.
fn write(text: &mut [char], column: usize, at_ns: u64, letters: usize) -> Range<usize> {
    let label: Vec<char> = units::clock_utc(at_ns).chars().take(letters).collect();
    let Some(last) = text.len().checked_sub(label.len()) else { return 0..0 };
    let from = column.saturating_sub(label.len() / 2).min(last);
    let to = from + label.len();
    let around = text.get(from.saturating_sub(1)..(to + 1).min(text.len()));
    if around.is_none_or(|around| around.iter().any(|c| *c != ' ')) {
        return 0..0;
    }
    for (cell, letter) in text.iter_mut().skip(from).zip(&label) {
        *cell = *letter;
    }
    from..to
}

/// Columns between two clock times, at least, and the steps between them.
const APART: u64 = 14;
const STEPS: [u64; 22] = [
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
    60 * SECOND,
    120 * SECOND,
    300 * SECOND,
    600 * SECOND,
    1_800 * SECOND,
    3_600 * SECOND,
    21_600 * SECOND,
    86_400 * SECOND,
];
/// Columns beside the chart.
const AROUND: usize = 1 + NAME + VALUE + 1 + PEAK;
/// Lines of the throughput, at most.
const MOST_AREA: usize = 12;

/// Name and value before the chart.
fn head(spans: &mut Spans, name: &str, value: &str, style: Style) {
    spans.push(format!(" {name:<NAME$}"), theme::DIM);
    spans.push(format!("{value:>VALUE$} "), style);
}

/// A length of time without a space and with few digits.
fn short(ns: u64) -> String {
    match ns {
        1_000_000.. => format!("{}ms", (ns + 500_000) / 1_000_000),
        _ => format!("{}µs", ns / 1_000),
    }
}

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A block of seven heights, so that lines below one another stay apart; blank where nothing is known.
fn block(value: Option<f64>, peak: f64) -> char {
    let Some(value) = value else { return ' ' };
    if value <= 0.0 || peak <= 0.0 {
        return '▁';
    }
    let step = (value / peak * 7.0).ceil().clamp(1.0, 7.0);
    BLOCKS.into_iter().zip(1u8..).find(|(_, n)| f64::from(*n) >= step).map_or('▇', |(block, _)| block)
}

/// An area of some lines, the highest first.
fn area(values: &[Option<f64>], peak: f64, lines: usize) -> Vec<Vec<char>> {
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
