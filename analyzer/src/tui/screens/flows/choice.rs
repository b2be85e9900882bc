//! The choice of columns: a box over the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType, Clear, Widget as _};

use super::table::Table;
use crate::tui::column::{self, COLUMNS, Column, Id, sets};
use crate::tui::key::Key;
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::{Spans, box_area, line, select};
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
            Key::Char('q' | '?') | Key::F(1) | Key::Ctrl(_) => return Chosen::NotOurs,
            _ => return Chosen::At(at),
        }
        self.own_columns.clone_from(&columns);
        self.columns = columns;
        Chosen::At(place)
    }
}

/// The keys that the frame of the choice names.
pub(in crate::tui) const KEYS: [Key; 5] = [Key::Char(' '), Key::Left, Key::Right, Key::Backspace, Key::Enter];
/// Columns of the sign that shows a column, or hides it.
const SIGN: u16 = 5;

/// Lines of the columns within the frame, and the first column that they show.
fn page(within: Rect, selected: usize) -> (Rect, usize) {
    let height = within.height - HELP.min(within.height / 3);
    (Rect { height, ..within }, (selected + 1).saturating_sub(usize::from(height)))
}

/// The column at a place while column number `selected` is selected, and whether a click there shows or hides it.
pub(in crate::tui) fn column_at(
    screen: Rect,
    count: usize,
    selected: usize,
    place: Position,
) -> Option<(usize, bool)> {
    let (rows, top) = page(Block::bordered().inner(box_area(screen, lines(count))), selected);
    let column = rows.contains(place).then(|| top + usize::from(place.y - rows.y))?;
    (column < count).then_some((column, column == selected || place.x < rows.x + SIGN))
}

/// Lines of the choice of this number of columns.
pub(in crate::tui) fn lines(count: usize) -> usize {
    count + usize::from(HELP)
}

/// Draws the choice with column number `selected` selected.
pub(in crate::tui) fn render(buffer: &mut Buffer, screen: Rect, table: &Table, view: &View, selected: usize) {
    let choice = table.column_choice(view);
    let area = box_area(screen, lines(choice.len()));
    let help = choice.get(selected).map_or("", |(column, _)| column.help);
    let help = wrap(help, usize::from(area.width.saturating_sub(4)));
    Clear.render(area, buffer);
    let hints = " Space: show/hide  Left Right: move  Backspace: automatic  Enter: done ";
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .title(" Columns from left to right ")
        .title_bottom(hints);
    let inner = block.inner(area);
    block.render(area, buffer);
    // The lines of the table are too short for most of the help.
    let (rows, top) = page(inner, selected);
    for (y, text) in (rows.height..inner.height).zip(help) {
        line(buffer, inner, y, &Line::styled(format!(" {text}"), theme::KEY));
    }
    let visible = choice.iter().enumerate().skip(top).take(usize::from(rows.height));
    for (y, (place, (column, shown))) in (0..).zip(visible) {
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
