//! The choice of columns: a box over the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType, Clear, Widget as _};

use super::table::Table;
use crate::tui::column::{self, COLUMNS, Column, Id, sets};
use crate::tui::key::Key;
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::{Spans, WIDEST, line, select};
use crate::util::wrap::wrap;

/// Lines of the help of the selected column.
const HELP: u16 = 2;

/// Effect of a key in the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tui) enum Chosen {
    /// This column is selected now.
    At(usize),
    /// The choice is done.
    Done,
    /// The key has its usual meaning.
    NotOurs,
}

impl Table {
    /// Goes to the next set of columns.
    pub(in crate::tui) fn next_columns(&mut self, view: &mut View) {
        self.columns = sets::next(&self.columns, &self.own_columns);
        let (name, help) =
            sets::of(&self.columns).map_or(("own", "as chosen one by one"), |set| (set.name, set.help));
        view.messages.say(format!("columns {name}: {help}"));
    }

    /// The columns in the order of the choice: those shown, then the others.
    #[must_use]
    pub fn column_choice(&self, view: &View) -> Vec<(&'static Column, bool)> {
        let mut shown = self.columns.clone();
        if shown.is_empty() {
            shown = self.columns(view).iter().map(|fitted| fitted.column.id).collect();
        }
        let others =
            COLUMNS.iter().filter(|column| !shown.contains(&column.id)).map(|column| (column, false));
        shown.iter().map(|id| (column::column(*id), true)).chain(others).collect()
    }

    /// A key while column number `at` is selected.
    pub(in crate::tui) fn choose(&mut self, view: &View, at: usize, key: Key) -> Chosen {
        let choice = self.column_choice(view);
        let Some((column, shown)) = choice.get(at).copied() else { return Chosen::NotOurs };
        let mut columns: Vec<Id> = choice.iter().filter(|(_, shown)| *shown).map(|(c, _)| c.id).collect();
        let mut place = at;
        match key {
            Key::Up | Key::Char('k') => place = at.saturating_sub(1),
            Key::Down | Key::Char('j') => place = (at + 1).min(choice.len() - 1),
            Key::Home => place = 0,
            Key::End => place = choice.len() - 1,
            Key::Char(' ') if shown && columns.len() > 1 => columns.retain(|id| *id != column.id),
            Key::Char(' ') if !shown => {
                columns.push(column.id);
                place = columns.len() - 1;
            }
            Key::Left | Key::Char('-') if shown && at > 0 => {
                columns.swap(at, at - 1);
                place = at - 1;
            }
            Key::Right | Key::Char('+') if shown && at + 1 < columns.len() => {
                columns.swap(at, at + 1);
                place = at + 1;
            }
            Key::Backspace | Key::Delete => columns.clear(),
            Key::Enter | Key::Esc | Key::Char('c') => return Chosen::Done,
            Key::Char('q') | Key::Ctrl(_) => return Chosen::NotOurs,
            _ => return Chosen::At(at),
        }
        self.own_columns.clone_from(&columns);
        self.columns = columns;
        Chosen::At(place)
    }
}

/// Draws the choice with column number `selected` selected.
pub(in crate::tui) fn render(buffer: &mut Buffer, screen: Rect, table: &Table, view: &View, selected: usize) {
    let choice = table.column_choice(view);
    let width = screen.width.min(WIDEST);
    let help = choice.get(selected).map_or("", |(column, _)| column.help);
    let help = wrap(help, usize::from(width.saturating_sub(4)));
    let height = u16::try_from(choice.len() + 2)
        .unwrap_or(u16::MAX)
        .saturating_add(HELP)
        .min(screen.height.saturating_sub(1));
    let area = Rect { x: (screen.width - width) / 2, width, height, ..screen };
    Clear.render(area, buffer);
    let hints = " Space: show/hide  Left Right: move  Backspace: automatic  Enter: done ";
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .title(" Columns from left to right ")
        .title_bottom(hints);
    let inner = block.inner(area);
    block.render(area, buffer);
    // The lines of the table are too short for most of the help.
    let below = HELP.min(inner.height / 3);
    let page = usize::from(inner.height - below);
    for (y, text) in (inner.height - below..inner.height).zip(help) {
        line(buffer, inner, y, &Line::styled(format!(" {text}"), theme::KEY));
    }
    let top = (selected + 1).saturating_sub(page);
    for (y, (place, (column, shown))) in (0..).zip(choice.iter().enumerate().skip(top).take(page)) {
        let mut spans = Spans::default();
        let style = if *shown { theme::BOLD } else { theme::DIM };
        spans.push(if *shown { " [x] " } else { " [ ] " }, style);
        spans.push(format!("{:<12}{:<10}", column.title, column.name), style);
        spans.push(column.help, theme::PLAIN);
        let text: Line<'_> = spans.into_line();
        line(buffer, inner, y, &text);
        if place == selected {
            select(buffer, Rect { y: inner.y + y, height: 1, ..inner });
        }
    }
}
