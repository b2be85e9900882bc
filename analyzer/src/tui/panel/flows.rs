//! The table of queue pairs. Only the visible rows are made into text.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use super::{cut, detail, empty};
use crate::tui::app::App;
use crate::tui::column::{self, Context, Fitted, Id};
use crate::tui::layout::Layout;
use crate::tui::theme;

pub(super) fn render(buffer: &mut Buffer, at: &Layout, app: &App) {
    let Some(data) = app.data.as_ref().filter(|_| !app.order.is_empty()) else {
        empty::render(buffer, at.body, app);
        return;
    };
    let columns = app.columns();
    titles(buffer, at.table, app, &columns);
    let cx = Context { model: &data.model, sample: &data.sample };
    let visible = app.order.iter().enumerate().skip(app.flows.offset).take(at.page());
    for (y, (place, index)) in (1..).zip(visible) {
        let Some(row) = data.model.rows.get(*index) else { continue };
        let mut x = at.table.x;
        for fitted in &columns {
            let (text, style) = column::cell(fitted.column.id, *index, row, cx);
            let area = Rect { x, y: at.table.y + y, width: fitted.width, height: 1 };
            put(buffer, area, fitted, &text, style);
            x += fitted.width + 1;
        }
        if app.flows.selected == Some(place) {
            let line = Rect { y: at.table.y + y, height: 1, ..at.table };
            buffer.set_style(line, theme::SELECTED);
            for place in line.positions() {
                if let Some(cell) = buffer.cell_mut(place) {
                    cell.modifier.remove(Modifier::DIM);
                }
            }
        }
    }
    detail::render(buffer, at.detail, data.detail.as_ref(), app);
}

fn titles(buffer: &mut Buffer, table: Rect, app: &App, columns: &[Fitted]) {
    let mut x = table.x;
    for fitted in columns {
        let area = Rect { x, y: table.y, width: fitted.width, height: 1 };
        let sorted = fitted.column.id == app.sort.by;
        let style = if sorted { theme::HEAD.patch(theme::SELECTED) } else { theme::HEAD };
        put(buffer, area, fitted, fitted.column.title, style);
        x += fitted.width + 1;
    }
}

fn put(buffer: &mut Buffer, area: Rect, fitted: &Fitted, text: &str, style: ratatui::style::Style) {
    let width = usize::from(area.width);
    let keep_end = matches!(fitted.column.id, Id::Source | Id::Destination);
    let text = cut(text, width, keep_end);
    let free = width - text.chars().count().min(width);
    let x = area.x + if fitted.column.right { u16::try_from(free).unwrap_or(0) } else { 0 };
    buffer.set_stringn(x, area.y, &text, width, style);
}
