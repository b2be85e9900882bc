//! The mouse: clicks and the wheel, by the place where they happen.

mod labels;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use self::labels::Names;
use super::header::Badge;
use super::{Action, App, draw, header, help, tabs};
use crate::tui::cursor::Move;
use crate::tui::key::{Input, Key};
use crate::tui::layout::is_card;
use crate::tui::overlay::Overlay;
use crate::tui::screen::Screen;
use crate::tui::screens::flows::choice;
use crate::tui::screens::packet;
use crate::tui::screens::page::Effect;
use crate::tui::widgets::box_area;

/// Rows that one notch of the wheel moves.
const NOTCH: usize = 3;

/// Input of the mouse, with its place.
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
    /// Handles mouse input, and returns what the loop has to do.
    #[must_use]
    pub fn on_mouse(&mut self, mouse: Mouse) -> Action {
        // The label that was seen, before the picture changes.
        let named = match mouse {
            Mouse::Click(x, y) => self.named_at(Position::new(x, y)),
            Mouse::WheelUp | Mouse::WheelDown => None,
        };
        self.view.messages.clear();
        self.screens.forget_lines();
        self.arrange_due();
        match (mouse, named) {
            (Mouse::WheelUp, _) => self.wheel(Move::Up),
            (Mouse::WheelDown, _) => self.wheel(Move::Down),
            (_, Some(Named::Key(key))) => return self.on_key(key),
            (_, Some(Named::Input(input))) if self.overlay == Overlay::None => return self.on_input(input),
            (_, Some(Named::Input(input))) => return self.in_overlay(input),
            (Mouse::Click(x, y), None) if self.overlay != Overlay::None => {
                return self.click_box(Position::new(x, y));
            }
            (Mouse::Click(..), None) if is_card(self.view.size) => {}
            (Mouse::Click(x, y), None) => return self.click(Position::new(x, y)),
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

    /// A click that hits no label of a box: on a column it selects, shows or hides it; elsewhere it closes the box.
    fn click_box(&mut self, at: Position) -> Action {
        let Overlay::Columns(selected) = self.overlay else {
            self.overlay = Overlay::None;
            return Action::Draw;
        };
        let count = self.screens.flows.column_choice(&self.view).len();
        let Some((column, changes)) = choice::column_at(self.screen_area(), count, selected, at) else {
            if !self.box_area().contains(at) {
                self.overlay = Overlay::None;
            }
            return Action::Draw;
        };
        self.overlay = Overlay::Columns(column);
        if changes { self.on_key(Key::Char(' ')) } else { Action::Draw }
    }

    fn click(&mut self, at: Position) -> Action {
        if self.view.layout().tabs.contains(at) {
            if let Some(screen) = self.tab_at(at) {
                self.show_screen(screen);
            }
            return Action::Draw;
        }
        if self.on_verdict(at) {
            let layout = self.view.layout();
            let badge = header::badge_at(self, &layout, at.x).filter(|_| layout.title.contains(at));
            return match badge {
                Some(Badge::All) => {
                    self.show_screen(Screen::Findings);
                    Action::Draw
                }
                Some(Badge::Finding(finding)) => self.apply(Effect::Finding(finding)),
                None => self.apply(Effect::Finding(0)),
            };
        }
        if self.view.layout().title.contains(at)
            && let Some(top) = help::rights_at(&self.view)
        {
            self.overlay = Overlay::Help(top);
            return Action::Draw;
        }
        let effect = self.screens.page_mut(self.view.screen).click(&mut self.view, at);
        self.apply(effect)
    }

    fn tab_at(&self, at: Position) -> Option<Screen> {
        tabs::all(self).into_iter().find(|(area, _)| area.contains(&at.x)).map(|(_, screen)| screen)
    }

    /// True if a place is that of the verdict, or of the lines around it that say what kind it is, what it costs and
    /// who it is about, and there is a problem to open.
    fn on_verdict(&self, at: Position) -> bool {
        let (layout, screen) = (self.view.layout(), self.view.screen);
        let below = [layout.metrics, layout.cost];
        let on = layout.verdict.contains(at)
            || header::badges_at(self, &layout).contains(at)
            || screen == Screen::Overview && below.iter().any(|area| area.contains(at));
        on && screen != Screen::Problem
            && self.view.verdict().is_some_and(|verdict| verdict.headline.is_some())
    }

    const fn screen_area(&self) -> Rect {
        Rect::new(0, 0, self.view.size.0, self.view.size.1)
    }

    /// The area of the box over the screen.
    fn box_area(&self) -> Rect {
        let lines = match self.overlay {
            Overlay::None => return Rect::ZERO,
            Overlay::Help(_) => help::lines(&self.view).len(),
            Overlay::Columns(_) => choice::lines(self.screens.flows.column_choice(&self.view).len()),
            Overlay::Packet(opened) => packet::lines(&self.view, opened).len(),
        };
        box_area(self.screen_area(), lines)
    }

    /// The key or the action whose label stands at a place: in the last line, in the frame of a part, or in a text.
    fn named_at(&self, at: Position) -> Option<Named> {
        let (layout, card) = (self.view.layout(), is_card(self.view.size));
        let status = !card && layout.status.contains(at);
        let tabs = !card && layout.tabs.contains(at) && self.overlay == Overlay::None;
        let hidden = self.overlay != Overlay::None && !self.box_area().contains(at);
        if !status && hidden || tabs && self.tab_at(at).is_some() {
            return None;
        }
        let mut buffer = Buffer::empty(self.screen_area());
        draw::symbols(&mut buffer, self);
        let row = (0..self.view.size.0)
            .map(|x| buffer.cell((x, at.y)).map_or(" ", |cell| cell.symbol()))
            .collect::<Vec<_>>();
        // While a filter is typed, keys have other meanings.
        let action = action_at(&row, usize::from(at.x)).filter(|_| !status && self.prompt.is_none());
        if let Some(input) = action {
            return Some(Named::Input(input));
        }
        let names = Names {
            is_key: &|word| self.key_of(word).is_some(),
            stands_alone: &|word| self.key_of(word).is_some_and(|key| self.stands_alone(key)),
        };
        let hit = labels::hit(&row, usize::from(at.x), status || tabs || card, &names)?;
        self.key_of(&hit).map(Named::Key)
    }

    /// The key of a name, where it does something in what is in front.
    fn key_of(&self, name: &str) -> Option<Key> {
        let key = name.parse::<Key>().ok()?;
        let input = self.view.options.keys.decode(key, self.view.screen);
        let works = match self.overlay {
            _ if self.prompt.is_some() => matches!(key, Key::Enter | Key::Esc),
            Overlay::Columns(_) => {
                choice::KEYS.contains(&key) || matches!(input, Some(Input::Help | Input::Quit))
            }
            _ => input.is_some(),
        };
        works.then_some(key)
    }

    /// True for keys that texts name without a colon: no sentence begins with their names.
    fn stands_alone(&self, key: Key) -> bool {
        let input = self.view.options.keys.decode(key, self.view.screen);
        let event = matches!(self.overlay, Overlay::Packet(_));
        match input {
            Some(Input::Older | Input::Newer) => event,
            Some(Input::Back | Input::Filter) => true,
            _ => false,
        }
    }
}

/// What a label names.
enum Named {
    /// A key.
    Key(Key),
    /// An action of its own.
    Input(Input),
}

/// The action that a line of a list names at the place of a click: ` Down: 12 more `, `+3 more (3 ended): screen 8`,
/// `Enter opens all`.
fn action_at(row: &[&str], x: usize) -> Option<Input> {
    let text = row.concat();
    // From the letter of this byte to the end of its words: two spaces or a frame.
    let hit = |from: usize, to: usize| {
        let letter = |byte: usize| text.get(..byte).map_or(0, |before| before.chars().count());
        (letter(from)..letter(to)).contains(&x)
    };
    let end = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        from + rest.find("  ").into_iter().chain(rest.find(['│', '─', '╯'])).min().unwrap_or(rest.len())
    };
    let mut downs = text.match_indices(" Down: ").map(|(from, _)| (from, end(from + 1)));
    let is_more =
        |from: usize, to: usize| text.get(from..to).is_some_and(|text| text.trim_end().ends_with(" more"));
    if downs.any(|(from, to)| is_more(from, to) && hit(from, to)) {
        return Some(Input::PageDown);
    }
    let screen = text.match_indices(": screen ").find_map(|(at, words)| {
        let from = text.get(..at)?.rfind("  ").map_or(0, |from| from + 2);
        let number = text.get(at + words.len()..)?.chars().next()?.to_digit(10)?;
        let screen = usize::try_from(number).ok()?.checked_sub(1)?;
        hit(from, end(at)).then_some(Input::Screen(screen))
    });
    let all = text.find(" opens all").filter(|at| {
        let from = text.get(..*at).and_then(|before| before.rfind("  ")).map_or(0, |from| from + 2);
        hit(from, end(*at))
    });
    screen.or(all.map(|_| Input::Open))
}

#[cfg(test)]
mod tests {
    use super::{Input, action_at};

    #[test]
    fn an_action_that_a_line_names_can_be_clicked() {
        let row = |text: &'static str| text.split_inclusive(|_: char| true).collect::<Vec<_>>();
        let down = row("│ text  Down: lost        Down: 12 more │");
        assert_eq!(action_at(&down, 28), Some(Input::PageDown));
        assert_eq!(action_at(&down, 10), None);
        let under = row("╰ Down: more  Esc: close ────────╯");
        assert_eq!((action_at(&under, 3), action_at(&under, 16)), (Some(Input::PageDown), None));
        let more = row("│   +3 more (2 ended): screen 8      │ next");
        assert_eq!(action_at(&more, 5), Some(Input::Screen(7)));
        assert_eq!(action_at(&more, 29), Some(Input::Screen(7)));
        assert_eq!((action_at(&more, 1), action_at(&more, 40)), (None, None));
        let all = row(" 45 more lines: Enter opens all  ");
        assert_eq!(action_at(&all, 3), Some(Input::Open));
        assert_eq!(action_at(&row(" nothing to do "), 3), None);
    }
}
