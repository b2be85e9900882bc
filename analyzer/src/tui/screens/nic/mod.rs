//! Queue pairs as NIC and kernel know them, whether or not a packet shows them: a table, and one of them in full. A
//! view of the facts and findings: it judges nothing itself.
//!
//! | module | holds |
//! |---|---|
//! | `list` | the rows that the filter lets through, in order |
//! | `rows` | a queue pair with rates and findings |
//! | `columns` | the columns |
//! | `filter` | what the filter tests |
//! | `paths` | the line about their paths |
//! | `detail` | everything about one queue pair |
//! | `reasons` | the reasons for which figures of it are not known |

mod columns;
mod detail;
mod filter;
mod list;
mod paths;
mod reasons;
mod rows;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;

pub(in crate::tui) use self::columns::COLUMNS;
use self::columns::{Column, fit};
use self::list::{Order, rows};
pub(in crate::tui) use self::rows::any;
use self::rows::{Key, Row};
use super::empty;
use super::page::{Effect, Hints, Page, click_list};
use crate::analysis::{QpLives, QpSource};
use crate::model::Level;
use crate::tui::cursor::{Cursor, Move};
use crate::tui::export::ExportTable;
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::screen::Screen;
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::panel::{Title, frame_height, inner, panel};
use crate::tui::widgets::{cut, line, scrolled, select};
use crate::util::units::{self, UNKNOWN, plural};
use crate::util::wrap::hanging;

/// Lines below the table from which on they show the selected queue pair.
const PREVIEW: u16 = 9;
/// Lines of a body that has room for nothing but the table.
const SHORTEST: u16 = 8;
/// Devices without a list of queue pairs that are named above the table.
const UNLISTED: usize = 2;
/// Columns at the left for the sign of a finding.
const GUTTER: u16 = 2;

/// State of the screen of NICs' queue pairs.
#[derive(Debug, Default)]
pub struct NicScreen {
    /// Place in the table.
    pub cursor: Cursor,
    /// The queue pair there: rows move.
    selected: Option<Key>,
    order: Order,
    /// True while one queue pair is shown in full.
    opened: bool,
    /// First visible line.
    scroll: Cursor,
}

impl NicScreen {
    /// Goes back from one queue pair to the table; false when the table is shown.
    pub(in crate::tui) fn close(&mut self) -> bool {
        std::mem::take(&mut self.opened)
    }

    /// Text to copy.
    pub(in crate::tui) fn copied(&self, view: &View) -> Option<String> {
        let (all, _) = rows(view, self.order);
        let row = all.get(self.place(&all)?)?;
        let cells = COLUMNS.iter().map(|column| format!("{}={}", column.name, column.cell(row)));
        Some(cells.filter(|cell| !cell.ends_with("=-")).collect::<Vec<_>>().join(" "))
    }

    fn place(&self, all: &[Row<'_>]) -> Option<usize> {
        let key = self.selected.as_ref()?;
        all.iter().position(|row| row.key() == *key)
    }

    /// The queue pair shown in full or below the table: the selected one, else the first.
    fn shown<'a, 'b>(&self, all: &'b [Row<'a>]) -> Option<&'b Row<'a>> {
        all.get(self.place(all).unwrap_or(0))
    }

    fn sort_by_next(&mut self, view: &View) {
        let visible = fit(view.layout().inner().width.saturating_sub(GUTTER));
        // The worst first, then by each column.
        let all: Vec<Option<usize>> = std::iter::once(None).chain(visible.into_iter().map(Some)).collect();
        let at = all.iter().position(|by| *by == self.order.by).unwrap_or(0);
        let to = (at + 1) % all.len();
        self.order = Order { by: all.get(to).copied().flatten(), reverse: false };
    }

    /// Sorts by the column whose title stands at `x`; by the same one again in the other direction.
    fn sort_by_title(&mut self, table: Rect, x: u16) {
        let mut left = table.x + GUTTER;
        for at in fit(table.width.saturating_sub(GUTTER)) {
            let width = COLUMNS.get(at).map_or(0, |column| column.width);
            if (left..=left + width).contains(&x) {
                let again = self.order.by == Some(at);
                self.order = Order { by: Some(at), reverse: again && !self.order.reverse };
                return;
            }
            left += width + 1;
        }
    }

    /// The lines above the table, the table, and the lines below it where the first or selected queue pair is shown.
    fn areas(view: &View, layout: &Layout, count: usize) -> [Rect; 3] {
        let (body, frame) = (layout.body, frame_height(layout.boxed()));
        let about = u16::try_from(above(view, body.width).len()).unwrap_or(u16::MAX);
        let about = about.min(body.height.saturating_sub(SHORTEST));
        let rest = Rect { y: body.y + about, height: body.height - about, ..body };
        let used = u16::try_from(count).unwrap_or(u16::MAX).saturating_add(1 + frame);
        // Long tables leave two fifths of a tall screen.
        let table = used.min((rest.height * 3 / 5).max(8));
        let below = rest.height.saturating_sub(table);
        let below = if below >= PREVIEW { below } else { 0 };
        let table = Rect { height: rest.height - below, ..rest };
        [Rect { height: about, ..body }, table, Rect { y: table.bottom(), height: below, ..rest }]
    }

    /// Rows of the table that are visible.
    fn page(view: &View, layout: &Layout, count: usize) -> usize {
        let [_, table, _] = Self::areas(view, layout, count);
        usize::from(inner(table, layout.boxed()).height.saturating_sub(1))
    }
}

impl Page for NicScreen {
    fn step(&mut self, view: &mut View, step: Move) {
        let (all, _) = rows(view, self.order);
        if self.opened {
            let area = view.layout().inner();
            let height = self.shown(&all).map_or(0, |row| in_full(view, row, size(area)).len());
            self.scroll.scroll(step, height, usize::from(area.height));
            return;
        }
        self.cursor.selected = self.place(&all);
        self.cursor.step(step, all.len(), Self::page(view, &view.layout(), all.len()));
        self.selected = self.cursor.selected.and_then(|at| all.get(at)).map(Row::key);
    }

    fn open(&mut self, view: &mut View) -> Effect {
        if self.selected.is_none() {
            self.step(view, Move::Up);
        }
        (self.opened, self.scroll) = (self.selected.is_some(), Cursor::default());
        Effect::None
    }

    fn click(&mut self, view: &mut View, at: Position) -> Effect {
        let (all, _) = rows(view, self.order);
        let layout = view.layout();
        let [_, table, below] = Self::areas(view, &layout, all.len());
        if !self.opened && below.contains(at) {
            drop(all);
            return self.open(view);
        }
        let table = inner(table, layout.boxed());
        if !self.opened && at.y == table.y && table.contains(at) {
            drop(all);
            self.sort_by_title(table, at.x);
            self.keep_in_view(view);
            return Effect::None;
        }
        let again = !self.opened && click_list(&mut self.cursor, table, all.len(), at);
        self.selected = self.cursor.selected.and_then(|at| all.get(at)).map(Row::key);
        drop(all);
        if again { self.open(view) } else { Effect::None }
    }

    fn on_input(&mut self, view: &mut View, input: Input) -> Effect {
        match input {
            Input::SortNext => self.sort_by_next(view),
            Input::Reverse => self.order.reverse = !self.order.reverse,
            _ => {}
        }
        self.keep_in_view(view);
        Effect::None
    }

    fn keep_in_view(&mut self, view: &View) {
        if view.screen != Screen::Nic {
            return;
        }
        let (all, _) = rows(view, self.order);
        let page = Self::page(view, &view.layout(), all.len());
        self.cursor.follow(self.place(&all), all.len(), page);
    }

    fn drop_selection(&mut self) -> bool {
        self.cursor = Cursor::default();
        self.selected.take().is_some()
    }

    fn hints(&self, view: &View) -> Hints {
        if self.opened {
            return (&[(&[Input::Back], "table")], &[]);
        }
        if !rows::any(view) {
            // Nothing to open or sort; the same key that led here leads back.
            return (&[(&[Input::NicQps], "packets' table")], &[]);
        }
        (&[(&[Input::Open], "details")], &[(&[Input::SortNext], "sort"), (&[Input::Filter], "filter")])
    }

    fn export_table(&self, view: &View) -> ExportTable {
        let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        let mut table = ExportTable::new(&names);
        let (all, _) = rows(view, self.order);
        table.rows =
            all.iter().map(|row| COLUMNS.iter().map(|column| (column.value)(row)).collect()).collect();
        table
    }

    fn render(&self, buffer: &mut Buffer, at: &Layout, view: &View) {
        let (all, count) = rows(view, self.order);
        let Some(shown) = self.shown(&all) else {
            nothing(buffer, at.body, view, count);
            return;
        };
        let key = |input| view.options.keys.first(input);
        if self.opened {
            let about = format!("{} of {}", shown.qp.lqpn, shown.label());
            let hint = format!("{} table", key(Input::Back));
            let area =
                panel(buffer, at.body, at.boxed(), Title { name: "QUEUE PAIR", about: &about, hint: &hint });
            scrolled(buffer, area, &in_full(view, shown, size(area)), self.scroll.offset);
            return;
        }
        let [top, table, below] = Self::areas(view, at, all.len());
        preview(buffer, top, &above(view, top.width));
        let about = format!("{} · {}", in_words(all.len(), count, left_out(view)), legend(&all));
        let hint = format!("{} packets' table", key(Input::NicQps));
        let hint = if view.row_count() > 0 { hint.as_str() } else { "" };
        let table =
            panel(buffer, table, at.boxed(), Title { name: "QUEUE PAIRS OF NICS", about: &about, hint });
        self.draw(buffer, table, &all);
        if below.height > 0 {
            let name = if self.selected.is_some() { "SELECTED" } else { "FIRST ROW" };
            let about = format!("QP {} of {}", shown.qp.lqpn, shown.label());
            let hint = format!("{} opens", key(Input::Open));
            let area = panel(buffer, below, at.boxed(), Title { name, about: &about, hint: &hint });
            preview(buffer, area, &detail::lines(view, shown, size(area)));
        }
    }
}

/// The lines above the table: which devices did not list their queue pairs, and paths where any are known.
fn above(view: &View, width: u16) -> Vec<Line<'static>> {
    let width = usize::from(width);
    let said: Vec<String> = lives(view).into_iter().flat_map(QpLives::not_listed).collect();
    let more = said.len().saturating_sub(UNLISTED);
    let more = (more > 0).then(|| format!("… and {}", plural(more as u64, "more device")));
    let mut lines = bold(said.into_iter().take(UNLISTED).chain(more), width);
    lines.extend(paths::known(view).map(|paths| paths::line(paths, width)));
    lines
}

/// All lines of an opened queue pair: first that its device did not list it, if so.
fn in_full(view: &View, row: &Row<'_>, (width, height): (usize, usize)) -> Vec<Line<'static>> {
    let said = lives(view).into_iter().flat_map(QpLives::not_listed_by);
    let own = said.filter(|(device, _)| *device == row.device.name && !row.has_ended());
    let mut lines = bold(own.map(|(_, said)| said), width);
    lines.extend(detail::lines(view, row, (width, height.saturating_sub(lines.len()))));
    lines
}

fn bold(said: impl Iterator<Item = String>, width: usize) -> Vec<Line<'static>> {
    let parts = said.flat_map(|one| hanging(&format!(" {one}"), width, 3));
    parts.map(|part| Line::styled(part, theme::BOLD)).collect()
}

fn lives(view: &View) -> Option<&QpLives> {
    view.analysis.as_ref()?.report.facts.qp_lives.as_ref()
}

/// The first lines of what a key opens: nothing scrolls here.
fn preview(buffer: &mut Buffer, area: Rect, lines: &[Line<'_>]) {
    for (y, text) in (0..area.height).zip(lines) {
        line(buffer, area, y, text);
    }
}

fn size(area: Rect) -> (usize, usize) {
    (usize::from(area.width), usize::from(area.height))
}

/// The first queue pair in full, that of the worst finding or else the busiest, for a screen that leaves this much
/// room; false where none is known, or too little room.
pub(super) fn worst(buffer: &mut Buffer, area: Rect, boxed: bool, view: &View) -> bool {
    let (all, _) = rows(view, Order::default());
    let Some(worst) = all.first().filter(|_| area.height >= PREVIEW + frame_height(boxed)) else {
        return false;
    };
    let about = format!("QP {} of {}", worst.qp.lqpn, worst.label());
    let hint = format!("{} all queue pairs", view.options.keys.first(Input::NicQps));
    let name = match (worst.level > Level::Fine, worst.qp.fault_rank().any()) {
        (true, _) => "WORST QUEUE PAIR",
        (false, false) => "BUSIEST QUEUE PAIR",
        // Findings say that it is not bad.
        (false, true) => "QUEUE PAIR",
    };
    let area = panel(buffer, area, boxed, Title { name, about: &about, hint: &hint });
    preview(buffer, area, &detail::lines(view, worst, size(area)));
    true
}

impl NicScreen {
    fn draw(&self, buffer: &mut Buffer, table: Rect, all: &[Row<'_>]) {
        let shown: Vec<(usize, &Column)> = fit(table.width.saturating_sub(GUTTER))
            .into_iter()
            .filter_map(|at| Some((at, COLUMNS.get(at)?)))
            .collect();
        let page = usize::from(table.height.saturating_sub(1));
        let visible: Vec<_> = all.iter().enumerate().skip(self.cursor.offset).take(page).collect();
        let units: Vec<_> =
            shown.iter().map(|(_, column)| column.unit(visible.iter().map(|(_, row)| *row))).collect();
        let mut x = table.x + GUTTER;
        for ((at, column), unit) in shown.iter().zip(&units) {
            let title = unit.as_ref().map_or(column.title, |(_, title)| title);
            let is_sorted = self.order.by == Some(*at);
            let style = if is_sorted { theme::HEAD.patch(theme::SELECTED) } else { theme::HEAD };
            put(buffer, Rect { x, y: table.y, width: column.width, height: 1 }, column, title, style);
            x += column.width + 1;
        }
        for (y, (place, row)) in (table.y + 1..).zip(visible) {
            if row.level > Level::Fine {
                let (symbol, style) = theme::mark(row.level, true);
                buffer.set_stringn(table.x, y, symbol, 1, style);
            }
            let mut x = table.x + GUTTER;
            for ((_, column), unit) in shown.iter().zip(&units) {
                let text = column.cell_in(row, unit.as_ref().map(|(scale, _)| scale));
                let dim = text == UNKNOWN || text == "0" || row.has_ended();
                let style = if dim { theme::DIM } else { theme::PLAIN };
                put(buffer, Rect { x, y, width: column.width, height: 1 }, column, &text, style);
                x += column.width + 1;
            }
            if self.cursor.selected == Some(place) {
                select(buffer, Rect { y, height: 1, ..table });
            }
        }
    }
}

fn put(buffer: &mut Buffer, area: Rect, column: &Column, text: &str, style: ratatui::style::Style) {
    let width = usize::from(area.width);
    // The ends of addresses and devices differ more than their beginnings.
    let text = cut(text, width, !column.right);
    let free = if column.right { width.saturating_sub(text.chars().count()) } else { 0 };
    buffer.set_stringn(area.x + u16::try_from(free).unwrap_or(0), area.y, &text, width, style);
}

fn in_words(shown: usize, count: usize, left_out: u64) -> String {
    let all = if shown == count { count.to_string() } else { format!("{shown} of {count}") };
    if left_out == 0 { all } else { format!("{all}, {} more without room", units::count(left_out)) }
}

/// Queue pairs that the facts do not list.
fn left_out(view: &View) -> u64 {
    rows::devices(view).map(|device| device.qps_left_out).sum()
}

/// The letters of the sources that any of these has.
fn legend(all: &[Row<'_>]) -> String {
    let shown = |source: &QpSource| all.iter().any(|row| row.qp.sources.contains(source));
    let of = |source| format!("{} {}", rows::letter(source), rows::words(source));
    QpSource::ALL.into_iter().filter(shown).map(of).collect::<Vec<_>>().join(", ")
}

/// Draws the reason why there is no row.
fn nothing(buffer: &mut Buffer, area: Rect, view: &View, count: usize) {
    if view.data.is_none() {
        empty::render(buffer, area, view);
        return;
    }
    if count > 0 {
        let why = format!("No queue pair of a NIC matches \"{}\".", view.filter.text);
        empty::because(buffer, area, &why, "Esc clears the filter, / edits it.");
        return;
    }
    let lives = lives(view);
    let unavailable = lives.and_then(|lives| lives.unavailable.as_ref());
    let mut help: Vec<String> =
        unavailable.map(|why| format!("They are not followed: {why}.")).into_iter().collect();
    help.extend(lives.into_iter().flat_map(QpLives::not_listed).map(|one| format!("{one}.")));
    if help.is_empty() {
        help.push(
            "They are known in `rocescope live` on a host with RDMA devices that have queue pairs.".into(),
        );
    }
    empty::because(buffer, area, "No queue pair of a NIC is known.", &help.join(" "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_a_letter_of_its_own() {
        let mut letters: Vec<char> = QpSource::ALL.map(rows::letter).into();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), QpSource::ALL.len());
    }
}
