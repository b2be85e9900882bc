//! The mouse: clicks and the wheel, by the place where they happen.

use ratatui::layout::Position;

use super::{Action, App, header};
use crate::tui::cursor::Move;
use crate::tui::overlay::Overlay;

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
        self.view.messages.clear();
        self.screens.forget_lines();
        match mouse {
            Mouse::WheelUp => self.wheel(Move::Up),
            Mouse::WheelDown => self.wheel(Move::Down),
            Mouse::Click(..) if self.overlay != Overlay::None => self.overlay = Overlay::None,
            Mouse::Click(x, y) => return self.click(Position::new(x, y)),
        }
        Action::Draw
    }

    fn wheel(&mut self, step: Move) {
        for _ in 0..NOTCH {
            if self.overlay == Overlay::None {
                self.step(step);
            } else {
                self.scroll_overlay(step);
            }
        }
    }

    fn click(&mut self, at: Position) -> Action {
        if self.view.layout().tabs.contains(at) {
            let hit = header::tabs(self).into_iter().find(|(area, _)| area.contains(&at.x));
            if let Some((_, screen)) = hit {
                self.show_screen(screen);
            }
            return Action::Draw;
        }
        let effect = self.screens.page_mut(self.view.screen).click(&mut self.view, at);
        self.apply(effect)
    }
}
