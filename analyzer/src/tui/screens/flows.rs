//! The table of queue pairs. Only the visible rows are made into text.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{cut, empty, line};
use crate::model::Row;
use crate::tui::app::{App, Data};
use crate::tui::column::{self, Context, Fitted, Id};
use crate::tui::layout::Layout;
use crate::tui::table::Group;
use crate::tui::{names, theme};

/// Columns at the left for marks.
pub(in crate::tui) const GUTTER: u16 = 1;

pub(super) fn render(buffer: &mut Buffer, at: &Layout, app: &App) {
    let table = at.table(app.screen);
    let Some(data) = app.data.as_ref().filter(|_| !app.table.order.is_empty()) else {
        empty::render(buffer, at.body, app);
        return;
    };
    if app.table.group != Group::None {
        groups(buffer, table, app, data);
        return;
    }
    let rows = app.table.order.iter().enumerate().skip(app.table.cursor.offset);
    let rows = rows.filter_map(|(place, index)| Some((place, data.model.rows.get(*index)?)));
    let columns = app.columns();
    titles(buffer, table, &columns, Some(app.table.sort.by));
    list(buffer, table, app, data, &columns, rows, app.table.cursor.selected);
}

/// Rows of queue pairs below one line of titles.
pub(super) fn list<'a>(
    buffer: &mut Buffer,
    table: Rect,
    app: &App,
    data: &Data,
    columns: &[Fitted],
    rows: impl Iterator<Item = (usize, &'a Row)>,
    selected: Option<usize>,
) {
    let cx = Context { model: &data.model, sample: &data.sample };
    let page = usize::from(table.height.saturating_sub(1));
    let links: Vec<String> = data.model.links.iter().map(column::link_name).collect();
    for (y, (place, row)) in (table.y + 1..).zip(rows.take(page)) {
        let marked = app.table.marked.contains(&row.id);
        let sign = if marked { "*" } else { " " };
        buffer.set_stringn(table.x, y, sign, 1, theme::BOLD);
        let mut x = table.x + GUTTER;
        for fitted in columns {
            let (mut text, style) = fitted.column.cell(row, cx);
            if fitted.column.id == Id::Link {
                text = names::apart(&text, links.iter().map(String::as_str), usize::from(fitted.width));
            }
            let area = Rect { x, y, width: fitted.width, height: 1 };
            put(buffer, area, fitted, &text, style);
            x += fitted.width + 1;
        }
        if selected == Some(place) {
            super::select(buffer, Rect { y, height: 1, ..table });
        }
    }
}

/// Where things are in the table of groups.
pub(in crate::tui) struct Groups {
    /// Columns for the name.
    name: u16,
    /// What stands behind name and number of queue pairs.
    rest: Rect,
    /// Its columns.
    pub(in crate::tui) columns: Vec<Fitted>,
}

impl Groups {
    pub(in crate::tui) fn new(table: Rect) -> Self {
        const FLOWS: u16 = 6;
        // Two short addresses, or on wider screens two long ones.
        let least = if table.width < 80 { 20 } else { 28 };
        let name = (table.width / 3).max(least);
        let used = GUTTER + name + 1 + FLOWS;
        let rest = Rect { x: table.x + used, width: table.width.saturating_sub(used), ..table };
        Self { name, rest, columns: column::fit_sums(rest.width.saturating_sub(GUTTER)) }
    }
}

/// Where the first column of the table begins that can be sorted by.
pub(in crate::tui) fn columns_at(app: &App, table: Rect) -> u16 {
    GUTTER + if app.table.group == Group::None { table.x } else { Groups::new(table).rest.x }
}

/// One row for each group.
fn groups(buffer: &mut Buffer, table: Rect, app: &App, data: &Data) {
    let cx = Context { model: &data.model, sample: &data.sample };
    let Groups { name: width, rest, columns } = Groups::new(table);
    let title = format!("{:<1$}", app.table.group.title().to_uppercase(), usize::from(width));
    line(buffer, table, 0, &Line::styled(format!(" {title} {:>5}", "QPs"), theme::HEAD));
    titles(buffer, rest, &columns, Some(app.table.sort.by));
    let page = usize::from(table.height.saturating_sub(1));
    let rows = app.table.order.iter().enumerate().skip(app.table.cursor.offset).take(page);
    for (y, (place, index)) in (table.y + 1..).zip(rows) {
        let Some(sum) = app.group_sum(*index) else { continue };
        let name = cut(&sum.name.to_string(), usize::from(width), true);
        let text = format!(" {name:<0$} {1:>5}", usize::from(width), column::compact(sum.flows as f64));
        buffer.set_stringn(table.x, y, text, usize::from(table.width), theme::PLAIN);
        let mut x = rest.x + GUTTER;
        for fitted in &columns {
            let (text, style) = fitted.column.cell(&sum.row, cx);
            put(buffer, Rect { x, y, width: fitted.width, height: 1 }, fitted, &text, style);
            x += fitted.width + 1;
        }
        if app.table.cursor.selected == Some(place) {
            super::select(buffer, Rect { y, height: 1, ..table });
        }
    }
}

/// The title of a column, in short where it is narrower than that.
fn title(fitted: &Fitted) -> &'static str {
    match fitted.column.id {
        Id::Destination if usize::from(fitted.width) < fitted.column.title.len() => "DEST",
        _ => fitted.column.title,
    }
}

pub(super) fn titles(buffer: &mut Buffer, table: Rect, columns: &[Fitted], sorted: Option<Id>) {
    let mut x = table.x + GUTTER;
    for fitted in columns {
        let area = Rect { x, y: table.y, width: fitted.width, height: 1 };
        let style =
            if sorted == Some(fitted.column.id) { theme::HEAD.patch(theme::SELECTED) } else { theme::HEAD };
        put(buffer, area, fitted, title(fitted), style);
        x += fitted.width + 1;
    }
}

fn put(buffer: &mut Buffer, area: Rect, fitted: &Fitted, text: &str, style: ratatui::style::Style) {
    let width = usize::from(area.width);
    let keep_end = matches!(fitted.column.id, Id::Source | Id::Destination | Id::Link);
    let text = cut(text, width, keep_end);
    let free = width - text.chars().count().min(width);
    let x = area.x + if fitted.column.kind.right() { u16::try_from(free).unwrap_or(0) } else { 0 };
    buffer.set_stringn(x, area.y, &text, width, style);
}
