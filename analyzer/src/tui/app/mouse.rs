//! The mouse: clicks and the wheel, by the place where they happen.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use super::header::Badge;
use super::{Action, App, draw, header, help, tabs};
use crate::tui::cursor::Move;
use crate::tui::key::{Binding, Input, KEYMAP};
use crate::tui::overlay::Overlay;
use crate::tui::screen::Screen;
use crate::tui::screens::page::Effect;

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
            let hit = tabs::all(self).into_iter().find(|(area, _)| area.contains(&at.x));
            if let Some((_, screen)) = hit {
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
        if let Some(key) = self.prompt.is_none().then(|| self.key_named_at(at)).flatten() {
            return self.on_input(key);
        }
        let effect = self.screens.page_mut(self.view.screen).click(&mut self.view, at);
        self.apply(effect)
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

    /// Effect of the key that is named at a place of the last line or of the frame of a part, such as
    /// `Enter queue pairs`.
    fn key_named_at(&self, at: Position) -> Option<Input> {
        let area = Rect::new(0, 0, self.view.size.0, self.view.size.1);
        let mut buffer = Buffer::empty(area);
        draw::picture(&mut buffer, self);
        let row = (0..area.width)
            .map(|x| buffer.cell((x, at.y)).map_or(" ", |cell| cell.symbol()))
            .collect::<Vec<_>>();
        let status = self.view.layout().status.contains(at);
        let keys = &self.view.options.keys;
        if let Some(input) = action_at(&row, usize::from(at.x)).filter(|_| !status) {
            return Some(input);
        }
        let label = label(&row, usize::from(at.x), status)?;
        let inputs = label.split(' ').map_while(|word| {
            let bound = |binding: &&Binding| {
                binding.on.has(self.view.screen)
                    && keys.of(binding).iter().any(|key| key.to_string() == *word)
            };
            KEYMAP.iter().find(bound).map(|binding| (word, binding.input))
        });
        // Of two keys in one label, such as `+ − zoom`, the one that is hit, or else the first.
        let inputs: Vec<(&str, Input)> = inputs.collect();
        let hit = row.get(usize::from(at.x)).and_then(|hit| inputs.iter().find(|(word, _)| word == hit));
        hit.or(inputs.first()).map(|(_, input)| *input)
    }
}

/// The words around column `x` of a line: in the last line of the screen between two spaces each, in the frame of a
/// part between dots, and with the line of the frame behind them.
fn label(row: &[&str], x: usize, status: bool) -> Option<String> {
    let ends = |at: usize| {
        let two = || row.get(at) == Some(&" ") && row.get(at + 1) == Some(&" ");
        let line = || row.get(at).is_none_or(|symbol| ["─", "╮", "·"].contains(symbol));
        if status { two() || at >= row.len() } else { line() }
    };
    let starts = |at: usize| {
        let two = || row.get(at) == Some(&" ") && (at == 0 || row.get(at - 1) == Some(&" "));
        let line = || row.get(at).is_some_and(|symbol| ["─", "╭", "·"].contains(symbol));
        if status { two() } else { line() }
    };
    let from = (0..=x).rev().find(|at| starts(*at))?;
    let to = (x..=row.len()).find(|at| ends(*at))?;
    // Elsewhere a line is no frame.
    let frame = row.iter().filter(|symbol| **symbol == "─").count() > 4;
    let text = row.get(from..to)?.concat();
    let text = text.trim_matches(['─', '·', '╭', ' ']);
    ((status || frame) && !text.is_empty()).then(|| text.to_owned())
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
        from + rest.find("  ").into_iter().chain(rest.find('│')).min().unwrap_or(rest.len())
    };
    let is_last = text.trim_end_matches(['│', ' ']).ends_with(" more");
    let more = text.rfind(" Down: ").filter(|from| is_last && hit(*from, text.len()));
    if more.is_some() {
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
    use super::{Input, action_at, label};

    #[test]
    fn an_action_that_a_line_names_can_be_clicked() {
        let row = |text: &'static str| text.split_inclusive(|_: char| true).collect::<Vec<_>>();
        let down = row("│ text  Down: more        Down: 12 more │");
        assert_eq!(action_at(&down, 28), Some(Input::PageDown));
        assert_eq!(action_at(&down, 10), None);
        let more = row("│   +3 more (2 ended): screen 8      │ next");
        assert_eq!(action_at(&more, 5), Some(Input::Screen(7)));
        assert_eq!(action_at(&more, 29), Some(Input::Screen(7)));
        assert_eq!((action_at(&more, 1), action_at(&more, 40)), (None, None));
        let all = row(" 45 more lines: Enter opens all  ");
        assert_eq!(action_at(&all, 3), Some(Input::Open));
        assert_eq!(action_at(&row(" nothing to do "), 3), None);
    }

    #[test]
    fn a_label_is_what_stands_around_the_mouse() {
        let row = |text: &'static str| text.split_inclusive(|_: char| true).collect::<Vec<_>>();
        let frame = row("╭ LINKS full ─────── m metric · Enter queue pairs ─╮");
        assert_eq!(label(&frame, 22, false).as_deref(), Some("m metric"));
        assert_eq!(label(&frame, 34, false).as_deref(), Some("Enter queue pairs"));
        assert_eq!(label(&frame, 4, false).as_deref(), Some("LINKS full"));
        assert_eq!(label(&row(" no frame · here "), 12, false), None);
        let last = row(" Tab screens  Enter headers     ? help  q quit ");
        assert_eq!(label(&last, 3, true).as_deref(), Some("Tab screens"));
        assert_eq!(label(&last, 18, true).as_deref(), Some("Enter headers"));
        assert_eq!(label(&last, 32, true).as_deref(), Some("? help"));
        assert_eq!(label(&last, 41, true).as_deref(), Some("q quit"));
    }
}
