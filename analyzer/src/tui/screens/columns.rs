//! The choice of columns.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Widget as _};

use super::{Spans, WIDEST, line};
use crate::tui::app::App;
use crate::tui::theme;

pub(super) fn render(buffer: &mut Buffer, screen: Rect, app: &App, selected: usize) {
    let choice = app.column_choice();
    let width = screen.width.min(WIDEST);
    let height = u16::try_from(choice.len() + 3).unwrap_or(u16::MAX).min(screen.height.saturating_sub(1));
    let area = Rect { x: (screen.width - width) / 2, width, height, ..screen };
    Clear.render(area, buffer);
    let hints = " Space: show/hide  Left Right: move  Backspace: automatic  Enter: done ";
    let block = Block::bordered().title(" Columns from left to right ").title_bottom(hints);
    let inner = block.inner(area);
    block.render(area, buffer);
    let page = usize::from(inner.height);
    let top = (selected + 1).saturating_sub(page);
    for (y, (place, (column, shown))) in (0..).zip(choice.iter().enumerate().skip(top).take(page)) {
        let mut spans = Spans::default();
        let style = if *shown { theme::BOLD } else { theme::DIM };
        spans.push(if *shown { " [x] " } else { " [ ] " }, style);
        spans.push(format!("{:<12}{:<9}", column.title, column.name), style);
        spans.push(column.help, theme::PLAIN);
        let text: Line<'_> = spans.into_line();
        line(buffer, inner, y, &text);
        if place == selected {
            super::select(buffer, Rect { y: inner.y + y, height: 1, ..inner });
        }
    }
}
