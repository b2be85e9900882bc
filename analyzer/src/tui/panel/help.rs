//! The help, made of the tables of keys, states, columns and events.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Widget as _};

use super::{Spans, line};
use crate::model::Kind;
use crate::tui::column::COLUMNS;
use crate::tui::key::KEYMAP;
use crate::tui::log::CLASSES;
use crate::tui::theme;

const NAMES: usize = 13;

/// All lines of the help.
#[must_use]
pub(in crate::tui) fn lines() -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled("Keys", theme::BOLD)];
    lines.extend(KEYMAP.iter().map(|binding| entry(binding.shown, binding.help)));
    lines.push(Line::default());
    lines.push(Line::styled("States of a queue pair, the worst first", theme::BOLD));
    lines.extend(Kind::ALL.iter().map(|kind| entry(kind.word(), kind.meaning())));
    lines.push(Line::default());
    lines.push(Line::styled("Columns; wider terminals show more", theme::BOLD));
    lines.extend(COLUMNS.iter().map(|column| entry(column.title, column.help)));
    lines.push(Line::default());
    lines.push(Line::styled("Events", theme::BOLD));
    lines.extend(CLASSES.iter().map(|class| entry(class.word, class.help)));
    lines
}

fn entry(name: &'static str, text: &'static str) -> Line<'static> {
    let mut spans = Spans::default();
    spans.push(format!("  {name:<NAMES$}"), theme::BOLD).push(text, theme::PLAIN);
    spans.into_line()
}

pub(super) fn render(buffer: &mut Buffer, screen: Rect, top: usize) {
    let lines = lines();
    let width = screen.width.min(90);
    let area = Rect { x: (screen.width - width) / 2, width, height: screen.height - 1, ..screen };
    Clear.render(area, buffer);
    let end = lines.len().saturating_sub(usize::from(area.height - 2));
    let more = if top < end { " Down: more  Esc: close " } else { " Esc: close " };
    let block = Block::bordered().title(" Help ").title_bottom(more);
    let inner = block.inner(area);
    block.render(area, buffer);
    for (y, text) in (0..).zip(lines.iter().skip(top.min(end)).take(usize::from(inner.height))) {
        line(buffer, inner, y, text);
    }
}
