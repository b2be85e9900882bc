//! Changes of the state by keys.

use super::{Action, App, help};
use crate::model::TimeRange;
use crate::source::feed::Command;
use crate::tui::cursor::{Cursor, Move};
use crate::tui::export::Form;
use crate::tui::focus::Focus;
use crate::tui::key::{Input, Key};
use crate::tui::overlay::{OpenedEvent, Overlay};
use crate::tui::prompt::{Prompt, PromptEffect, Purpose};
use crate::tui::screen::Screen;
use crate::tui::screens::flows::choice::Chosen;
use crate::tui::screens::page::Effect;
use crate::tui::screens::{nic, packet};
use crate::tui::table::Group;
use crate::util::layout::plain;

/// The move of a key, where it is one.
const fn movement(input: Input) -> Option<Move> {
    Some(match input {
        Input::Up => Move::Up,
        Input::Down => Move::Down,
        Input::PageUp => Move::PageUp,
        Input::PageDown => Move::PageDown,
        Input::First => Move::First,
        Input::Last => Move::Last,
        _ => return None,
    })
}

impl App {
    /// Handles a key, and returns what the loop has to do.
    #[must_use]
    pub fn on_key(&mut self, key: Key) -> Action {
        self.view.messages.clear();
        self.screens.forget_lines();
        // Letters of a filter need no rows; other keys act on those that it lets through.
        if self.prompt.is_none() {
            self.arrange_due();
        }
        if self.prompt.is_some() && key != Key::Ctrl('c') {
            return self.type_key(key);
        }
        if let Overlay::Columns(at) = self.overlay {
            match self.screens.flows.choose(&self.view, at, key) {
                Chosen::At(at) => self.overlay = Overlay::Columns(at),
                Chosen::Done => self.overlay = Overlay::None,
                Chosen::NotOurs => return self.decoded(key),
            }
            return Action::Draw;
        }
        self.decoded(key)
    }

    fn decoded(&mut self, key: Key) -> Action {
        match self.view.options.keys.decode(key, self.view.screen) {
            Some(input) if self.overlay != Overlay::None => self.in_overlay(input),
            Some(input) => self.on_input(input),
            None => {
                let help = self.view.options.keys.first(Input::Help);
                self.view
                    .messages
                    .say(format!("{} does nothing here; {help} lists keys", plain(&key.to_string())));
                Action::Draw
            }
        }
    }

    pub(in crate::tui) fn on_input(&mut self, input: Input) -> Action {
        if let Some(step) = movement(input) {
            self.step(step);
            return Action::Draw;
        }
        match input {
            Input::Open => {
                let effect = self.screens.page_mut(self.view.screen).open(&mut self.view);
                return self.apply(effect);
            }
            Input::Screen(number) => {
                if let Some(screen) = Screen::TABS.get(number) {
                    self.show_screen(*screen);
                }
            }
            Input::NicQps => {
                self.show_screen(if self.view.screen == Screen::Nic { Screen::Qps } else { Screen::Nic });
            }
            Input::NextScreen => self.show_screen(self.tab().turn(1)),
            Input::PreviousScreen => self.show_screen(self.tab().turn(Screen::TABS.len() - 1)),
            Input::Filter => {
                // The screens that have lists of what it filters.
                if !matches!(self.view.screen, Screen::Qps | Screen::Events | Screen::Nic) {
                    self.show_screen(Screen::Qps);
                }
                self.prompt = Some(Prompt::new(Purpose::Filter, &self.view.filter.text));
            }
            Input::GoTo => self.prompt = Some(Prompt::new(Purpose::GoTo, "")),
            Input::Pause => return self.pause(),
            Input::Earlier => return self.step_in_time(false),
            Input::Later => return self.step_in_time(true),
            Input::JumpBack => return self.jump(false),
            Input::JumpForward => return self.jump(true),
            Input::Faster => return self.change_speed(true),
            Input::Slower => return self.change_speed(false),
            Input::TimeRange => return self.change_time_range(),
            Input::Reset => self.reset(),
            Input::ExportCsv => return self.export(Form::Csv),
            Input::ExportJson => return self.export(Form::Json),
            Input::Capture => return self.capture(),
            Input::Dump => return Action::Send(Command::Dump),
            Input::Copy => return self.copy(),
            Input::Theme => self.next_theme(),
            Input::Help => self.overlay = Overlay::Help(0),
            Input::Redraw => return Action::Redraw,
            Input::Suspend => return Action::Suspend,
            Input::Back => return self.back(),
            Input::Quit => return Action::Quit,
            Input::Older | Input::Newer => {
                let open = self.view.options.keys.first(Input::Open);
                self.view.messages.say(format!("no event is open; {open} opens the selected one"));
            }
            own => {
                let effect = self.screens.page_mut(self.view.screen).on_input(&mut self.view, own);
                return self.apply(effect);
            }
        }
        Action::Draw
    }

    /// The tab of the screen shown: of a finding, that of the list it was opened from.
    pub(in crate::tui) fn tab(&self) -> Screen {
        match self.view.screen {
            Screen::Problem => self.screens.problem.from(),
            Screen::Nic => Screen::Qps,
            tab => tab,
        }
    }

    fn next_theme(&mut self) {
        let theme = self.view.options.theme.next();
        self.view.options.theme = theme;
        let name = theme.name.name();
        self.view.messages.say(format!("theme {name}; to keep it, configure [tui.theme] name = \"{name}\""));
    }

    /// Does what a screen asked for.
    pub(in crate::tui) fn apply(&mut self, effect: Effect) -> Action {
        match effect {
            Effect::None => {}
            Effect::Arrange => self.arrange_soon(),
            Effect::Analyse => return Action::Analyse,
            Effect::Values => self.recompute(true),
            Effect::Detail(id) => {
                if self.view.selected.replace(id) != Some(id) {
                    self.arrange(true);
                    // A filter may hide its row, not its details.
                    self.view.selected = Some(id);
                }
                self.screens.detail.scroll_to_top();
                self.back_to = self.view.screen;
                self.show_screen(Screen::Detail);
            }
            Effect::Focus(focus) => self.focus(focus),
            Effect::Finding(at) => {
                self.screens.problem.show(&self.view, at);
                self.show_screen(Screen::Problem);
            }
            Effect::Row(screen, at) => {
                if let (Some(_), Some(cursor)) = (at, self.screens.page_mut(screen).selection()) {
                    cursor.selected = at;
                }
                self.show_screen(screen);
            }
            Effect::Packet(opened) => self.overlay = Overlay::Packet(opened),
            Effect::Overlay(overlay) => self.overlay = overlay,
        }
        Action::Draw
    }

    /// Keys while a box lies over the screen: they scroll it, or close it.
    pub(super) fn in_overlay(&mut self, input: Input) -> Action {
        if let Some(step) = movement(input) {
            self.scroll_overlay(step);
            return Action::Draw;
        }
        match (input, self.overlay) {
            (Input::Quit, _) => return Action::Quit,
            (Input::Redraw, _) => return Action::Redraw,
            (Input::Suspend, _) => return Action::Suspend,
            (Input::Capture, _) => return self.capture(),
            (Input::Help, Overlay::Columns(_) | Overlay::Packet(_)) => self.overlay = Overlay::Help(0),
            (Input::Older | Input::Newer, Overlay::Packet(opened)) => {
                let older = input == Input::Older;
                if let Some(next) = packet::neighbour(&self.view, opened, older) {
                    self.overlay = Overlay::Packet(next);
                } else {
                    let which = if older { "older" } else { "newer" };
                    self.view.messages.say(format!("no headers stored for a {which} event of this row"));
                }
            }
            _ => self.overlay = Overlay::None,
        }
        Action::Draw
    }

    /// Scrolls the box, no further than it has lines.
    pub(in crate::tui) fn scroll_overlay(&mut self, step: Move) {
        let page = usize::from(self.view.size.1.saturating_sub(3));
        let scrolled = |top, lines: usize| {
            let mut cursor = Cursor { selected: None, offset: top };
            cursor.scroll(step, lines, page);
            cursor.offset
        };
        self.overlay = match self.overlay {
            Overlay::Help(top) => Overlay::Help(scrolled(top, help::lines(&self.view).len())),
            Overlay::Packet(opened) => {
                let top = scrolled(opened.top, packet::lines(&self.view, opened).len());
                Overlay::Packet(OpenedEvent { top, ..opened })
            }
            other @ (Overlay::None | Overlay::Columns(_)) => other,
        };
    }

    fn type_key(&mut self, key: Key) -> Action {
        match key {
            Key::Ctrl('l') => return Action::Redraw,
            Key::Ctrl('z') => return Action::Suspend,
            _ => {}
        }
        let Some(prompt) = &mut self.prompt else { return Action::None };
        let typed = prompt.on_key(key);
        let (purpose, text, before) = (prompt.purpose, prompt.text.clone(), prompt.before.clone());
        // The line stays with its mistake marked: the next keys are to mend it, not to act on the screen.
        let mistaken = purpose == Purpose::Filter && self.view.filter.query.error.is_some();
        if typed == PromptEffect::Dropped || typed == PromptEffect::Done && !mistaken {
            self.prompt = None;
        }
        match (purpose, typed) {
            (_, PromptEffect::Nothing) | (Purpose::GoTo, PromptEffect::Changed | PromptEffect::Dropped) => {
                Action::Draw
            }
            (Purpose::Filter, PromptEffect::Done) if mistaken => Action::Draw,
            (Purpose::Filter, PromptEffect::Changed | PromptEffect::Done) => self.set_filter(&text),
            (Purpose::Filter, PromptEffect::Dropped) => self.set_filter(&before),
            (Purpose::GoTo, PromptEffect::Done) => self.go_to_text(&text),
        }
    }

    fn set_filter(&mut self, text: &str) -> Action {
        // Enter applies what was typed, and what the rows are arranged by already.
        if text != self.view.filter.text {
            self.view.filter.set(text);
            // Its places were those of another list.
            self.screens.events.cursor = Cursor::default();
            self.arrange_soon();
        }
        Action::Draw
    }

    /// Moves in the list of the screen.
    pub(in crate::tui) fn step(&mut self, step: Move) {
        self.screens.page_mut(self.view.screen).step(&mut self.view, step);
        self.keep_scrolled();
    }

    pub(in crate::tui) fn show_screen(&mut self, screen: Screen) {
        // Without a packet those that the NIC and the kernel know are all there is.
        let without_packets = self.view.row_count() == 0 && nic::any(&self.view);
        let screen = if screen == Screen::Qps && without_packets { Screen::Nic } else { screen };
        let new = self.view.screen != screen;
        self.view.screen = screen;
        self.refresh_matrix();
        if new && screen == Screen::Matrix {
            self.screens.matrix.begin(&self.view);
        }
        self.refresh_detail();
        self.keep_in_view();
    }

    /// Shows the queue pairs that something is about.
    fn focus(&mut self, focus: Focus) {
        let table = &mut self.screens.flows;
        table.focus = Some(focus);
        table.cursor = Cursor::default();
        table.group = Group::None;
        self.view.selected = None;
        self.view.screen = Screen::Qps;
        self.arrange(false);
    }

    fn change_time_range(&mut self) -> Action {
        let at = TimeRange::ALL.iter().position(|range| *range == self.view.range).unwrap_or(0);
        self.view.range = TimeRange::ALL.into_iter().cycle().nth(at + 1).unwrap_or_default();
        self.recompute(false);
        Action::Analyse
    }

    fn reset(&mut self) {
        if self.view.timeline.end.is_some() {
            self.view.messages.say("the data has ended: nothing to count after a reset");
        } else if self.view.timeline.history.reset() {
            self.view.messages.say("counters reset; findings are kept");
            self.recompute(false);
        }
    }

    fn back(&mut self) -> Action {
        let own_group = Group::automatic(self.view.has().twins);
        let on_table = self.view.screen == Screen::Qps;
        let filters = on_table || matches!(self.view.screen, Screen::Events | Screen::Nic);
        if self.view.screen == Screen::Detail {
            self.show_screen(self.back_to);
        } else if self.view.screen == Screen::Nic && self.screens.nic.close() {
            self.keep_in_view();
        } else if self.view.screen == Screen::Problem {
            let to = self.screens.problem.back();
            self.show_screen(to);
        } else if on_table && self.screens.flows.show_all() {
            self.arrange(false);
        } else if filters && !self.view.filter.text.is_empty() {
            self.view.messages.say("filter cleared");
            return self.set_filter("");
        } else if !on_table && self.unselect() {
            // Nothing more is shown of what the table has.
        } else if on_table && self.screens.flows.group != own_group {
            let effect = self.screens.flows.group_by(&mut self.view, own_group);
            self.screens.flows.grouped = false;
            return self.apply(effect);
        } else if on_table && self.unselect() {
            self.view.selected = None;
            self.arrange(false);
        } else if on_table && !self.view.marked.is_empty() {
            self.view.marked.clear();
            self.view.messages.say("marks cleared");
        } else {
            // A key that is pressed once too often leaves nothing behind that it took an hour to see.
            let quit = self.view.options.keys.first(Input::Quit);
            self.view.messages.say(format!("nothing to close ({quit} quits)"));
        }
        Action::Draw
    }

    /// Drops the selection of the screen; false when it has none.
    fn unselect(&mut self) -> bool {
        let page = self.screens.page_mut(self.view.screen);
        let dropped = match page.selection().filter(|cursor| cursor.selected.is_some()) {
            Some(cursor) => {
                *cursor = Cursor::default();
                true
            }
            None => page.drop_selection(),
        };
        if dropped {
            self.screens.links.below = Cursor::default();
        }
        dropped
    }
}
