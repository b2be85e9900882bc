//! Host matrix: a heat map, with values where there is room, and the top pairs beside it.

mod pairs;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use serde_json::json;

use self::pairs::{Unit, figure, least, level, pairs};
use super::page::{Effect, Hints, Page};
use super::{empty, timeline};
use crate::findings::Problem;
use crate::model::Level;
use crate::sample::Address;
use crate::tui::cursor::{Cursor, Move};
use crate::tui::data::Data;
use crate::tui::export::ExportTable;
use crate::tui::focus::{Focus, FocusCondition};
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::matrix::{Cell, Matrix, Metric};
use crate::tui::table::Table;
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::panel::{Title, frame_height, inner, panel};
use crate::tui::widgets::{Spans, counted, cut, line, select};
use crate::util::units::{self, plural};

/// Width of a cell with a value, and of one without, the space before it included.
const FIGURES: u16 = 8;
const SHADES: u16 = 3;
/// Columns that a list of pairs needs beside the map, and columns between.
const LIST: u16 = 72;
const GAP: u16 = 3;
/// Lines of a list below the map of a wide screen, at least.
const LEAST_LIST: u16 = 8;
/// Columns from which on other things may stand beside the map and the list, and columns that they need.
const WIDE: u16 = 200;
const BESIDE: u16 = 80;
/// Lines from which on the queue pairs of the selected cell are shown.
const MEMBERS: u16 = 6;

/// State of the screen Matrix.
#[derive(Debug, Default)]
pub struct MatrixScreen {
    /// Row and column of the selected cell.
    pub cell: (usize, usize),
    /// The metric of the cells.
    pub metric: Metric,
    /// True once the user chose the metric.
    chosen: bool,
}

impl MatrixScreen {
    /// Begins with the worst active problem: its metric, unless the user chose one, and its worst cell.
    pub(in crate::tui) fn begin(&mut self, view: &View) {
        let worst = view.verdict().and_then(|verdict| verdict.headline).filter(|worst| worst.active);
        if !self.chosen {
            self.metric = worst.and_then(Problem::of).map_or(Metric::Rate, Metric::of);
        }
        self.select_hottest(view);
    }

    /// Selects the cell with the largest value, where there is one: of those that the worst problem is about, if its
    /// metric is shown.
    fn select_hottest(&mut self, view: &View) {
        let Some(data) = &view.data else { return };
        let worst = view.verdict().and_then(|verdict| verdict.headline).and_then(Problem::of);
        let own = worst.is_some_and(|kind| Metric::of(kind) == self.metric);
        let of_problem = data.matrix.hottest_of(self.metric, |cell| cell.judged.is_headline());
        let hottest = of_problem.filter(|_| own).or_else(|| data.matrix.hottest(self.metric));
        self.cell = hottest.unwrap_or(self.cell);
    }

    /// Source and destination of the selected cell.
    fn pair(&self, data: &Data) -> Option<(Address, Address)> {
        let matrix = &data.matrix;
        Some((*matrix.sources.get(self.cell.0)?, *matrix.destinations.get(self.cell.1)?))
    }

    /// The queue pairs of the selected cell; `None` where there are none, or too many to look for them in each picture.
    fn members(&self, view: &View, data: &Data) -> Option<Table> {
        let (src, dst) = self.pair(data).filter(|_| data.at_once())?;
        let focus = Focus { about: format!("{src} → {dst}"), on: FocusCondition::Hosts(src, dst) };
        let mut table = Table { focus: Some(focus), ..Table::default() };
        table.arrange(view, data, None);
        table.cursor = Cursor::default();
        Some(table).filter(|table| !table.order.is_empty())
    }
}

impl Page for MatrixScreen {
    fn step(&mut self, view: &mut View, step: Move) {
        let rows = view.data.as_ref().map_or(0, |data| data.matrix.size().0);
        let page = usize::from(view.layout().inner().height.saturating_sub(3)).max(1);
        let mut cursor = Cursor { selected: Some(self.cell.0), offset: 0 };
        cursor.step(step, rows, page);
        self.cell.0 = cursor.selected.unwrap_or(0);
    }

    fn open(&mut self, view: &mut View) -> Effect {
        let pair = view.data.as_ref().and_then(|data| self.pair(data));
        pair.map_or(Effect::None, |(src, dst)| {
            Effect::Focus(Focus { about: format!("{src} → {dst}"), on: FocusCondition::Hosts(src, dst) })
        })
    }

    fn click(&mut self, view: &mut View, at: Position) -> Effect {
        let layout = view.layout();
        let area = inner(parts(&layout, view, self.cell).0, layout.boxed());
        let cell = Grid::new(area, view, self.cell).and_then(|grid| grid.at(at.x, at.y));
        if cell == Some(self.cell) {
            return self.open(view);
        }
        self.cell = cell.unwrap_or(self.cell);
        Effect::None
    }

    fn on_input(&mut self, view: &mut View, input: Input) -> Effect {
        match input {
            Input::Left => self.cell.1 = self.cell.1.saturating_sub(1),
            Input::Right => {
                self.cell.1 += 1;
                self.keep_in_view(view);
            }
            Input::Metric => {
                (self.metric, self.chosen) = (self.metric.next(), true);
                self.select_hottest(view);
            }
            _ => {}
        }
        Effect::None
    }

    fn keep_in_view(&mut self, view: &View) {
        let hosts = view.data.as_ref().map_or((0, 0), |data| data.matrix.size());
        self.cell = (self.cell.0.min(hosts.0.saturating_sub(1)), self.cell.1.min(hosts.1.saturating_sub(1)));
    }

    fn hints(&self, _: &View) -> Hints {
        (
            &[
                (&[Input::Open], "queue pairs"),
                (&[Input::Metric], "metric"),
                (&[Input::Left, Input::Right], "cursor"),
            ],
            &[],
        )
    }

    fn export_table(&self, view: &View) -> ExportTable {
        let mut table = ExportTable::new(&[
            "src",
            "dst",
            "flows",
            "bytes",
            "bits_per_s",
            "ce_ratio",
            "missing",
            "lost",
            "retransmitted",
            "sequence_naks",
            "rnr_naks",
            "latency_p99_ns",
        ]);
        let has_psns = view.data.as_ref().is_some_and(|data| data.sample.has_psns());
        let cells = view.data.iter().flat_map(|data| data.matrix.iter());
        table.rows = cells
            .map(|(src, dst, cell)| {
                vec![
                    json!(src),
                    json!(dst),
                    json!(cell.flows),
                    json!(cell.counts.bytes),
                    json!(cell.value(Metric::Rate)),
                    json!(cell.counts.ce_ratio()),
                    json!(cell.counts.of_sequence(|counts| counts.missing).filter(|_| has_psns)),
                    json!(cell.counts.of_sequence(|counts| counts.lost)),
                    json!(cell.counts.of_sequence(|counts| counts.retransmitted)),
                    json!(cell.counts.of_answers(|counts| counts.sequence_naks)),
                    json!(cell.counts.of_answers(|counts| counts.rnr)),
                    json!(cell.latency_ns),
                ]
            })
            .collect();
        table
    }

    fn render(&self, buffer: &mut Buffer, at: &Layout, view: &View) {
        render(buffer, at, view, self);
    }
}

/// The map with its list, and what is free beside them where they fill the height of a wide screen.
fn parts(layout: &Layout, view: &View, cell: (usize, usize)) -> (Rect, Rect) {
    let body = layout.body;
    let whole = (body, Rect::default());
    let (true, Some(data)) = (body.width >= WIDE, &view.data) else { return whole };
    let frame = frame_height(layout.boxed());
    let Some(grid) = Grid::new(layout.inner(), view, cell) else { return whole };
    let below = body.bottom().saturating_sub(grid.used(&data.matrix) + 1 + frame);
    let used = grid.list.x.saturating_sub(body.x).saturating_add(LIST + 2);
    let is_beside = grid.list.height > 0 && grid.list.x > grid.area.x;
    if below >= timeline::BELOW || !is_beside || used + BESIDE > body.width {
        return whole;
    }
    let left = Rect { width: used, ..body };
    (left, Rect { x: left.right(), width: body.width - used, ..body })
}

/// Areas of the matrix: a function of the state and its size.
struct Grid {
    /// Cells and the names around them.
    area: Rect,
    /// Columns of a row's name, its number and the space behind it included.
    names: u16,
    /// Width of a cell.
    cell: u16,
    /// First row and column shown.
    from: (usize, usize),
    /// Number of rows and columns shown.
    shown: (usize, usize),
    /// The top pairs; no height where there is no room.
    list: Rect,
}

impl Grid {
    /// The grid of the matrix in `area`.
    fn new(area: Rect, view: &View, cell: (usize, usize)) -> Option<Self> {
        let selected = cell;
        let data = view.data.as_ref()?;
        let (rows, columns) = data.matrix.size();
        let inner = Rect { y: area.y + 1, height: area.height.saturating_sub(2), ..area };
        let longest = data.matrix.sources.iter().map(|host| host.to_string().len()).max().unwrap_or(0);
        let name = u16::try_from(longest).unwrap_or(24).clamp(7, 24);
        let fits = |names: u16, cell: u16| usize::from(area.width.saturating_sub(names) / cell).max(1);
        let (mut names, mut cell) = (name + 2, FIGURES);
        if fits(names, cell) < columns {
            (names, cell) = (name + 6, SHADES);
        }
        let page = usize::from(inner.height.saturating_sub(1)).max(1);
        let shown = (rows.min(page), columns.min(fits(names, cell)));
        let from = (scroll(selected.0, rows, page), scroll(selected.1, columns, shown.1));
        let used_width = names + u16::try_from(shown.1).unwrap_or(0) * cell;
        let used_height = 1 + u16::try_from(shown.0).unwrap_or(0);
        let below = inner.height.saturating_sub(used_height + 1);
        let list = if area.width >= used_width + GAP + LIST {
            let x = inner.x + used_width + GAP;
            Rect { x, width: inner.right() - x, ..inner }
        } else if below >= 4 {
            // Beside a list that is much narrower than the screen would be nothing.
            let height = if area.width >= 2 * LIST { (below / 3).max(LEAST_LIST).min(below) } else { below };
            Rect { y: inner.y + used_height + 1, height, ..inner }
        } else {
            Rect { height: 0, ..inner }
        };
        Some(Self { area: inner, names, cell, from, shown, list })
    }

    /// Row and column of the cell at this place of the screen.
    fn at(&self, x: u16, y: u16) -> Option<(usize, usize)> {
        let row = usize::from(y.checked_sub(self.area.y + 1)?);
        let column = usize::from(x.checked_sub(self.area.x + self.names)? / self.cell);
        (row < self.shown.0 && column < self.shown.1).then_some((self.from.0 + row, self.from.1 + column))
    }

    /// The line below the map and the list.
    fn used(&self, matrix: &Matrix) -> u16 {
        let lines = |count: usize| u16::try_from(count).unwrap_or(u16::MAX).saturating_add(1);
        let map = self.area.y.saturating_add(lines(self.shown.0));
        let list = self.list.height.min(lines(matrix.iter().count()));
        map.max(self.list.y.saturating_add(list))
    }

    const fn numbered(&self) -> bool {
        self.cell == SHADES
    }

    /// Which of all rows and columns have room, in `room` letters; `None` where all have.
    fn part_shown(&self, (rows, columns): (usize, usize), room: usize) -> Option<String> {
        let part = |what: &str, from: usize, shown: usize, all: usize| {
            (shown < all).then(|| format!("{what} {}–{} of {all}", from + 1, from + shown))
        };
        let forms = [("senders", "receivers"), ("rows", "columns"), ("↓", "→")].map(|(row, column)| {
            let parts = [
                part(row, self.from.0, self.shown.0, rows),
                part(column, self.from.1, self.shown.1, columns),
            ];
            parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
        });
        forms.into_iter().find(|form| !form.is_empty() && form.chars().count() <= room)
    }
}

fn render(buffer: &mut Buffer, at: &Layout, view: &View, screen: &MatrixScreen) {
    if empty::nothing_at_all(buffer, at.body, view) {
        return;
    }
    let (whole, free) = parts(at, view, screen.cell);
    let area = inner(whole, at.boxed());
    let (Some(data), Some(grid)) = (&view.data, Grid::new(area, view, screen.cell)) else { return };
    let (matrix, metric) = (&data.matrix, screen.metric);
    let (rows, columns) = matrix.size();
    let key = |input| view.options.keys.first(input);
    let hint = format!("{} metric · {} queue pairs", key(Input::Metric), key(Input::Open));
    let unit = Unit::of(metric, [matrix.most(metric)]);
    let name = format!("MATRIX: {}{}", metric.title(), unit.behind_title());
    let room = usize::from(whole.width).saturating_sub(name.chars().count() + hint.chars().count() + 10);
    let about = if rows > 0 { size(rows, columns, room) } else { String::new() };
    let title = Title { name: &name, about: &about, hint: &hint };
    let known = matrix.iter().any(|(.., cell)| cell.value(metric).is_some());
    // If the map leaves room, the queue pairs of the selected cell are below it.
    let frame = whole.bottom() - area.bottom();
    let beside = !free.is_empty();
    let below =
        if beside { free.height } else { whole.bottom().saturating_sub(grid.used(matrix) + 1 + frame) };
    let members = screen.members(view, data).filter(|_| known && below >= MEMBERS);
    // And below these, or where that cell has none, how all signals went.
    let lines = members.as_ref().map_or(0, |table| u16::try_from(table.order.len()).unwrap_or(u16::MAX));
    let listed =
        if members.is_some() { lines.saturating_add(1 + frame_height(at.boxed())).min(below) } else { 0 };
    let timeline = if known && at.boxed() && below - listed >= timeline::BELOW { below - listed } else { 0 };
    let below = match (&members, timeline) {
        (Some(_), 0) => below,
        _ => listed + timeline,
    };
    let own = if beside { whole } else { Rect { height: whole.height - below, ..whole } };
    panel(buffer, own, at.boxed(), title);
    if rows == 0 {
        let flows = units::count(data.model.rows.len() as u64);
        let why = format!("summing {flows} flows by host…");
        empty::because(buffer, area, &why, "This takes a moment.");
        return;
    }
    let most = matrix.most(metric);
    if !known {
        let (why, help) = unknown(metric);
        empty::because(buffer, area, why, help);
        return;
    }
    legend(buffer, area, (data, &grid), &unit, most);
    heads(buffer, &grid, screen.cell.1, data);
    cells(buffer, &grid, data, screen, (most, &unit));
    pairs(buffer, grid.list, data, metric);
    let y = area.bottom().saturating_sub(if beside { 1 } else { below + 1 });
    selected(buffer, Rect { y, height: 1, ..area }, data, screen);
    let free = if beside { free } else { Rect { y: whole.bottom() - below, height: below, ..whole } };
    if let Some(table) = members {
        let hint = format!("{} opens", key(Input::Open));
        table.draw(buffer, Rect { height: below - timeline, ..free }, view, data, &hint);
    }
    let area = Rect { y: free.bottom() - timeline, height: timeline, ..free };
    timeline::render_in(buffer, area, at.boxed(), view, data);
}

/// The shades, each with the largest value that it stands for, and what is left out; `most` is the largest value.
fn legend(buffer: &mut Buffer, area: Rect, (data, grid): (&Data, &Grid), unit: &Unit, most: f64) {
    let mut spans = Spans::default();
    spans.push(" ", theme::PLAIN);
    let end = |step: u8| {
        let end = most * f64::from(step) / 4.0;
        if unit.is_of_counts() { end.floor() } else { end }
    };
    let value = |step: u8| unit.show(Some(end(step)));
    for (step, block) in (1u8..).zip(SHADE) {
        // Counts of few have no quarters: no cell has a shade that no whole number falls into.
        let is_empty = unit.is_of_counts() && end(step) <= end(step - 1);
        // Steps that look alike are one, and nothing is below a value that is its own.
        let (value, next) = (value(step), value(step.saturating_add(1)));
        let is_alike = !unit.is_of_counts() && (value == next || value.starts_with('<'));
        if most > 0.0 && usize::from(step) < SHADE.len() && (is_empty || is_alike) {
            continue;
        }
        spans.push(format!(" {block} ≤ {value} "), theme::heat(step)).push(" ", theme::PLAIN);
        if most <= 0.0 {
            break;
        }
    }
    let without_flow = data.model.lost.flow_table_full + data.model.lost.contended;
    if without_flow > 0 {
        let text = format!(" {} left out", counted(without_flow, "packet"));
        spans.push(text, theme::text(Level::Warning));
    }
    let room = usize::from(area.width).saturating_sub(spans.width + 3);
    if let Some(text) = grid.part_shown(data.matrix.size(), room) {
        spans.push(format!("  {text:>room$}"), theme::DIM);
    }
    line(buffer, area, 0, &spans.into_line());
}

/// Reason why a metric is unknown for every pair, and what helps.
const fn unknown(metric: Metric) -> (&'static str, &'static str) {
    match metric {
        Metric::Latency => (
            "Latency is unknown for these queue pairs.",
            "p99 needs 100 requests of a host pair in the time range, with responses at the same tap. v: another metric.",
        ),
        Metric::Ce => ("ECN is off: no data packet is ECN-capable.", "v: another metric."),
        Metric::Rate | Metric::Loss | Metric::Retransmissions | Metric::Naks | Metric::Rnr => {
            ("No data for this time range yet.", "Wait for the next sample.")
        }
    }
}

/// Rows of cells, each with its sender.
fn cells(buffer: &mut Buffer, grid: &Grid, data: &Data, screen: &MatrixScreen, (most, unit): (f64, &Unit)) {
    let matrix = &data.matrix;
    let rows = matrix.sources.iter().enumerate().skip(grid.from.0).take(grid.shown.0);
    for (y, (row, src)) in (grid.area.y + 1..).zip(rows) {
        let style = if row == screen.cell.0 { theme::BOLD } else { theme::PLAIN };
        let number = if grid.numbered() { format!("{:>3} ", matrix.number(src)) } else { String::new() };
        let width = usize::from(grid.names) - 2 - number.len();
        let text = format!(" {number}{}", cut(&src.to_string(), width, true));
        buffer.set_stringn(grid.area.x, y, text, usize::from(grid.names), style);
        let mut x = grid.area.x + grid.names;
        for (column, dst) in matrix.destinations.iter().enumerate().skip(grid.from.1).take(grid.shown.1) {
            let area = Rect { x, y, width: grid.cell, height: 1 };
            draw(buffer, area, matrix.cell(src, dst), unit, most);
            if (row, column) == screen.cell {
                select(buffer, area);
            }
            x += grid.cell;
        }
    }
}

/// Rows and columns in words, in `room` columns of the screen.
fn size(rows: usize, columns: usize, room: usize) -> String {
    let [rows, columns] = [rows as u64, columns as u64];
    let (senders, receivers) = (plural(rows, "sender"), plural(columns, "receiver"));
    let words = [
        format!("{senders} (rows) to {receivers} (columns)"),
        format!("{senders} to {receivers}"),
        format!("{} to {} hosts", units::count(rows), units::count(columns)),
    ];
    words.into_iter().find(|words| words.chars().count() <= room).unwrap_or_default()
}

/// The first row or column shown, so that the selected one is.
fn scroll(selected: usize, count: usize, page: usize) -> usize {
    (selected + 1).saturating_sub(page).min(count.saturating_sub(page))
}

/// Titles of columns: the ends of addresses where they fit, else the numbers that rows have too.
fn heads(buffer: &mut Buffer, grid: &Grid, selected: usize, data: &Data) {
    let hosts = &data.matrix.destinations;
    let common = common_prefix(hosts);
    let shown = || hosts.iter().enumerate().skip(grid.from.1).take(grid.shown.1);
    let room = usize::from(grid.cell) - 1;
    // A number that is wider than its column also takes that of the column before, which then has none.
    let wide = grid.numbered() && shown().any(|(_, host)| data.matrix.number(host).to_string().len() > room);
    let (left, room) = if wide { (grid.cell, room + usize::from(grid.cell)) } else { (0, room) };
    let mut x = grid.area.x + grid.names;
    for (column, host) in shown() {
        let text = if grid.numbered() {
            data.matrix.number(host).to_string()
        } else {
            let text = host.to_string();
            let end: String = text.chars().skip(common).collect();
            let over = end.chars().count().saturating_sub(room);
            if over == 0 { end } else { format!("…{}", end.chars().skip(over + 1).collect::<String>()) }
        };
        let style = if column == selected { theme::HEAD } else { theme::BOLD };
        if !wide || column % 2 == selected % 2 {
            buffer.set_stringn(x + 1 - left, grid.area.y, format!("{text:>room$}"), room, style);
        }
        x += grid.cell;
    }
}

/// Characters that all these addresses begin with, up to a dot or colon; 0 for a single one.
fn common_prefix(hosts: &[Address]) -> usize {
    let texts: Vec<String> = hosts.iter().map(Address::to_string).collect();
    let Some((first, rest)) = texts.split_first().filter(|(_, rest)| !rest.is_empty()) else { return 0 };
    let same =
        |at: usize| first.get(..at).is_some_and(|start| rest.iter().all(|text| text.starts_with(start)));
    let ends = first.char_indices().filter(|(_, c)| matches!(c, '.' | ':')).map(|(at, _)| at + 1);
    ends.filter(|end| same(*end)).max().unwrap_or(0)
}

/// Shades from little to much, for terminals without colours too.
const SHADE: [char; 4] = ['░', '▒', '▓', '█'];

/// Shade and value, or the shade twice, on a background: all by the ratio to the largest value.
fn draw(buffer: &mut Buffer, area: Rect, cell: Option<&Cell>, unit: &Unit, most: f64) {
    let metric = unit.metric;
    let width = usize::from(area.width);
    let Some(cell) = cell else {
        let text = if area.width == SHADES { " · ".to_owned() } else { format!("{:>8}", "·") };
        buffer.set_stringn(area.x, area.y, text, width, theme::DIM);
        return;
    };
    let value = cell.value(metric);
    let share = value.map_or(0.0, |value| if most > 0.0 { value / most } else { 0.0 });
    let step = match share {
        s if s <= 0.0 => 0,
        s if s <= 0.25 => 1,
        s if s <= 0.5 => 2,
        s if s <= 0.75 => 3,
        _ => 4u8,
    };
    let block = step.checked_sub(1).and_then(|at| SHADE.get(usize::from(at)).copied());
    let level = level(metric, cell);
    // The shade of a problem has the colour of the badge that its value is.
    let (block_style, style) = match (level, step) {
        (Level::Fine, 0) => (theme::DIM, theme::DIM),
        (Level::Fine, step) => (theme::heat(step), theme::heat(step)),
        (level, _) => (theme::text(level), theme::badge(level)),
    };
    let room = width - 1;
    if area.width == SHADES {
        let nothing = if value.is_none() { '-' } else { '0' };
        let text = block.map_or_else(|| format!("{nothing} "), |block| format!("{block}{block}"));
        buffer.set_stringn(area.x + 1, area.y, text, room, block_style);
    } else {
        let text = cut(&format!("{}{}", least(metric, cell), unit.show(value)), 6, false);
        buffer.set_stringn(area.x + 1, area.y, block.unwrap_or(' ').to_string(), 1, block_style);
        buffer.set_stringn(area.x + 2, area.y, format!("{text:>0$}", room - 1), room - 1, style);
    }
}

/// The selected cell in words.
fn selected(buffer: &mut Buffer, area: Rect, data: &Data, screen: &MatrixScreen) {
    let matrix = &data.matrix;
    let pair = matrix.sources.get(screen.cell.0).zip(matrix.destinations.get(screen.cell.1));
    let Some((src, dst)) = pair else { return };
    let Some(cell) = matrix.cell(src, dst) else {
        line(buffer, area, 0, &Line::styled(format!(" {src} → {dst}: no traffic"), theme::DIM));
        return;
    };
    let unknown = || units::UNKNOWN.to_owned();
    let rate = cell.value(Metric::Rate).map_or_else(unknown, units::bit_rate);
    let s = if cell.flows == 1 { "" } else { "s" };
    let mut parts = vec![
        (Metric::Rate, format!("{rate}, {} flow{s}", cell.flows)),
        (Metric::Ce, format!("CE {}", units::ratio(cell.value(Metric::Ce)))),
        (Metric::Loss, format!("lost {}", figure(Metric::Loss, cell.value(Metric::Loss)))),
        (Metric::Naks, format!("NAK rx {}", figure(Metric::Naks, cell.value(Metric::Naks)))),
        (Metric::Rnr, format!("RNR rx {}", figure(Metric::Rnr, cell.value(Metric::Rnr)))),
        (Metric::Retransmissions, {
            format!("RETX {}", figure(Metric::Retransmissions, cell.value(Metric::Retransmissions)))
        }),
        (Metric::Latency, {
            let latency = cell.latency_ns.map_or_else(unknown, units::duration);
            format!("p99 {}{latency}", least(Metric::Latency, cell))
        }),
    ];
    let pair = format!("{src} → {dst}");
    let width = usize::from(area.width);
    let text = |parts: &[(Metric, String)]| {
        parts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(", ")
    };
    let room = |parts: &[(Metric, String)]| width.saturating_sub(3 + text(parts).chars().count());
    // Addresses matter more than values that are not in the map, where there is little room.
    while room(&parts) < pair.chars().count().min(width / 2)
        && let Some(at) = parts.iter().rposition(|(of, _)| ![Metric::Rate, screen.metric].contains(of))
    {
        parts.remove(at);
    }
    let text = format!(" {}: {}", cut(&pair, room(&parts), true), text(&parts));
    line(buffer, area, 0, &Line::styled(text, theme::BOLD));
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;

    use super::{Grid, SHADES, common_prefix};

    #[test]
    fn a_map_that_scrolls_says_which_part_it_shows() {
        let area = Rect::new(0, 0, 80, 16);
        let grid = |from, shown| Grid { area, names: 17, cell: SHADES, from, shown, list: Rect::default() };
        assert_eq!(grid((0, 0), (33, 33)).part_shown((33, 33), 60), None);
        let part = grid((18, 0), (15, 21));
        let of = |room| part.part_shown((33, 33), room);
        assert_eq!(of(60).as_deref(), Some("senders 19–33 of 33 · receivers 1–21 of 33"));
        assert_eq!(of(40).as_deref(), Some("rows 19–33 of 33 · columns 1–21 of 33"));
        assert_eq!(of(30).as_deref(), Some("↓ 19–33 of 33 · → 1–21 of 33"));
        assert_eq!(of(20), None);
    }

    #[test]
    fn heads_leave_out_what_all_hosts_begin_with() {
        let of =
            |hosts: &[&str]| common_prefix(&hosts.iter().map(|h| h.parse().unwrap()).collect::<Vec<_>>());
        assert_eq!(of(&["10.1.2.3", "10.1.20.3"]), 5);
        assert_eq!(of(&["10.1.2.3", "11.1.2.3"]), 0);
        assert_eq!(of(&["10.1.2.3"]), 0);
        assert_eq!(of(&["2001:db8::1", "2001:db8::2"]), 10);
        assert_eq!(of(&[]), 0);
    }
}
