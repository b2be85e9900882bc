//! The help of a screen, made of the tables of keys, states, columns and events.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::Spans;
use crate::model::Kind;
use crate::tui::app::App;
use crate::tui::column::COLUMNS;
use crate::tui::key::KEYMAP;
use crate::tui::log::CLASSES;
use crate::tui::query::HELP;
use crate::tui::screen::{Screen, Screens};
use crate::tui::theme;

const NAMES: usize = 18;

/// All lines of the help for the screen shown.
#[must_use]
pub(in crate::tui) fn lines(app: &App) -> Vec<Line<'static>> {
    let screen = app.screen;
    let title = format!("Keys of this screen: {}", screen.title());
    let mut lines = vec![Line::styled(title, theme::BOLD)];
    // What is of this screen alone comes first.
    for own in [true, false] {
        let bindings = KEYMAP.iter().filter(|b| b.on.has(screen) && (b.on != Screens::ALL) == own);
        lines.extend(bindings.map(|b| entry(&app.options.keys.shown(b), b.help)));
    }
    let mut section = |title: &'static str, entries: Vec<Line<'static>>| {
        lines.push(Line::default());
        lines.push(Line::styled(title, theme::BOLD));
        lines.extend(entries);
    };
    if matches!(screen, Screen::Qps | Screen::Events | Screen::Overview) {
        section("Filter: all words must match", HELP.iter().map(|(text, help)| entry(text, help)).collect());
    }
    if matches!(screen, Screen::Qps | Screen::Overview) {
        let states = Kind::ALL.iter().map(|kind| entry(kind.word(), kind.meaning())).collect();
        section("States of a queue pair, the worst first", states);
        let columns =
            COLUMNS.iter().map(|column| entry(&format!("{} {}", column.title, column.name), column.help));
        section("Columns and their names in filters; wider terminals show more", columns.collect());
    }
    if screen == Screen::Events {
        section("Events", CLASSES.iter().map(|class| entry(class.word, class.help)).collect());
    }
    lines
}

fn entry(name: &str, text: &'static str) -> Line<'static> {
    let mut spans = Spans::default();
    spans.push(format!("  {name:<NAMES$}"), theme::BOLD).push(text, theme::PLAIN);
    spans.into_line()
}

pub(super) fn render(buffer: &mut Buffer, screen: Rect, app: &App, top: usize) {
    let lines = lines(app);
    super::overlay(buffer, screen, " Help ", &lines, top);
}
