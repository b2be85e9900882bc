//! The mouse: what a click or a turn of the wheel does, by where it happens.

use ratatui::layout::{Position, Rect};

use super::app::{Action, App, Opened, Overlay};
use super::cursor::{Cursor, Move};
use super::screen::Screen;
use crate::tui::screens;

/// Rows that one notch of the wheel moves.
const NOTCH: usize = 3;

/// Mouse input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mouse {
    /// The left button was pressed at this column and line.
    Click(u16, u16),
    /// The wheel was turned away from the user.
    WheelUp,
    /// The wheel was turned towards the user.
    WheelDown,
}

impl App {
    /// Handles mouse input.
    #[must_use]
    pub fn on_mouse(&mut self, mouse: Mouse) -> Action {
        self.unread = false;
        self.answer = None;
        match mouse {
            Mouse::WheelUp => self.wheel(Move::Up),
            Mouse::WheelDown => self.wheel(Move::Down),
            Mouse::Click(..) if self.overlay != Overlay::None => self.overlay = Overlay::None,
            Mouse::Click(x, y) => self.click(Position::new(x, y)),
        }
        Action::Draw
    }

    fn wheel(&mut self, step: Move) {
        for _ in 0..NOTCH {
            match &mut self.overlay {
                Overlay::None => self.step(step),
                Overlay::Help(top) | Overlay::Packet(Opened { top, .. }) | Overlay::Finding(top) => {
                    *top = if step == Move::Up { top.saturating_sub(1) } else { *top + 1 };
                }
                Overlay::Columns(_) => {}
            }
        }
        // No further than there are lines.
        let page = usize::from(self.size.1.saturating_sub(3));
        let end = |lines: usize| lines.saturating_sub(page);
        self.overlay = match self.overlay {
            Overlay::Help(top) => Overlay::Help(top.min(end(screens::help::lines(self).len()))),
            Overlay::Packet(opened) => {
                let top = opened.top.min(end(screens::packet::lines(self).len()));
                Overlay::Packet(Opened { top, ..opened })
            }
            Overlay::Finding(top) => Overlay::Finding(top.min(end(screens::findings::lines(self).len()))),
            other => other,
        };
    }

    fn click(&mut self, at: Position) {
        let layout = self.layout();
        if layout.tabs.contains(at) {
            let hit = screens::header::tabs(self).into_iter().find(|(area, _)| area.contains(&at.x));
            if let Some((_, screen)) = hit {
                self.show_screen(screen);
            }
            return;
        }
        match self.screen {
            Screen::Overview => {
                let rows = self.data.as_ref().map_or(0, |data| data.busiest.len());
                if click_list(&mut self.busiest, layout.table(Screen::Overview), rows, at) {
                    self.open();
                }
            }
            Screen::Qps => self.click_table(layout.table(self.screen), at),
            Screen::Links => {
                let rows = self.data.as_ref().map_or(0, |data| data.model.links.len());
                // What stands below the list is no row of it.
                let shown = u16::try_from(rows.min(layout.links_page())).unwrap_or(u16::MAX);
                let list = Rect { height: shown.saturating_add(1), ..layout.body };
                click_list(&mut self.links, list, rows, at);
            }
            Screen::Events => {
                let rows = self.event_count();
                let height = layout.body.height.saturating_sub(layout.notices());
                if click_list(&mut self.events, Rect { height, ..layout.body }, rows, at) {
                    self.open();
                }
            }
            Screen::Findings => {
                let rows = self.finding_count();
                if click_list(&mut self.findings, layout.findings(rows), rows, at) {
                    self.open();
                }
            }
            Screen::Matrix => {
                let cell = screens::matrix::Grid::new(layout.body, self).and_then(|grid| grid.at(at.x, at.y));
                if cell == Some(self.cell) {
                    self.open();
                } else {
                    self.cell = cell.unwrap_or(self.cell);
                }
            }
            Screen::Detail => {
                if let Some(y) = at.y.checked_sub(layout.body.y).filter(|y| *y < layout.body.height) {
                    self.click_detail(self.detail.offset + usize::from(y));
                }
            }
            Screen::Bursts => {}
        }
    }

    /// On a title: sorts by it, or the other way round. On a row: selects it. On the selected row: opens it.
    fn click_table(&mut self, table: Rect, at: Position) {
        if !table.contains(at) {
            return;
        }
        if at.y == table.y {
            let mut x = screens::flows::columns_at(self, table);
            for fitted in self.visible_columns() {
                if (x..=x + fitted.width).contains(&at.x) {
                    if self.table.sort.by == fitted.column.id {
                        self.table.sort.descending = !self.table.sort.descending;
                        self.arrange(false);
                    } else {
                        self.sort_by(fitted.column.id);
                    }
                    return;
                }
                x += fitted.width + 1;
            }
            return;
        }
        let row = self.table.cursor.offset + usize::from(at.y - table.y - 1);
        if self.table.cursor.selected == Some(row) {
            self.open();
        } else if let Some(data) = &self.data {
            let page = usize::from(table.height.saturating_sub(1));
            self.table.select(row, &data.model, page);
        }
    }
}

/// Selects the row under the mouse in a list with one line of titles; true when it was selected already.
fn click_list(cursor: &mut Cursor, area: Rect, rows: usize, at: Position) -> bool {
    if !area.contains(at) || at.y == area.y {
        return false;
    }
    let row = cursor.offset + usize::from(at.y - area.y - 1);
    if row >= rows {
        return false;
    }
    cursor.selected.replace(row) == Some(row)
}
