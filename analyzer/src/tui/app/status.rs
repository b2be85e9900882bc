//! The last line: prompt, answer, notice or key hints.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Clear, Widget as _};

use super::App;
use crate::filter::FilterError;
use crate::model::Level;
use crate::sample::SourceKind;
use crate::tui::key::Input;
use crate::tui::overlay::Overlay;
use crate::tui::prompt::{Prompt, Purpose};
use crate::tui::screens::page::Hint;
use crate::tui::theme;
use crate::tui::timeline::End;
use crate::tui::widgets::{Spans, cut, join, line};
use crate::util::wrap::wrap;

pub(super) fn render(buffer: &mut Buffer, area: Rect, app: &App) {
    if let Some(prompt) = &app.prompt {
        let mut spans = typed(app, prompt, true);
        if spans.width > usize::from(area.width) {
            mistake(buffer, area, app);
            spans = typed(app, prompt, false);
        }
        line(buffer, area, 0, &spans.into_line());
        return;
    }
    let mut spans = Spans::default();
    // Always visible.
    let key = |input| app.view.options.keys.first(input);
    let mut way_out = Spans::default();
    for (input, meaning) in [(Input::Help, "help"), (Input::Quit, "quit")] {
        way_out.push(format!("  {} ", key(input)), theme::KEY).push(meaning, theme::DIM);
    }
    way_out.push(" ", theme::PLAIN);
    let room = usize::from(area.width).saturating_sub(way_out.width);
    let answer = app.view.messages.answer.as_ref();
    let (long, short) = answer.map_or((None, None), |answer| {
        let fits = answer.chars().count() < room;
        if fits { (None, Some(answer)) } else { (Some(answer), None) }
    });
    if let Some(answer) = long {
        above(buffer, area, answer, theme::BOLD);
    }
    if let Some(answer) = short {
        spans.push(format!(" {answer}"), theme::BOLD);
    } else if app.awaited() {
        spans.push(" updating… (showing previous values)", theme::BOLD);
    } else if let (true, Some(notice)) = (app.view.messages.unread, app.view.messages.notices.back()) {
        spans.push(" ! ", theme::badge(Level::Warning));
        spans.push(format!(" {}", cut(notice, room.saturating_sub(5), false)), theme::PLAIN);
    } else if let Some(End::Failed(error)) = &app.view.timeline.end {
        spans.push(" ✖ ", theme::badge(Level::Critical));
        spans.push(format!(" {}", cut(error, room.saturating_sub(5), false)), theme::PLAIN);
    } else {
        let chosen = super::tabs::selection_below(app);
        if let Some(chosen) = chosen {
            spans.push(" ", theme::PLAIN).append(chosen);
        }
        let rest = hints(app, room.saturating_sub(spans.width));
        spans.append(rest);
    }
    let gap = room.saturating_sub(spans.width);
    spans.push(" ".repeat(gap), theme::PLAIN).append(way_out);
    line(buffer, area, 0, &spans.into_line());
}

/// The mistake in a filter on lines of their own above the last one, where it does not fit there.
fn mistake(buffer: &mut Buffer, area: Rect, app: &App) {
    let Some(error) = &app.view.filter.query.error else { return };
    above(buffer, area, &error.one_line(), theme::text(Level::Warning));
}

/// A sentence on lines of its own above the last one.
fn above(buffer: &mut Buffer, area: Rect, text: &str, style: Style) {
    let lines = wrap(text, usize::from(area.width).saturating_sub(2));
    let count = u16::try_from(lines.len()).unwrap_or(area.y).min(area.y);
    let above = Rect { y: area.y - count, height: count, ..area };
    Clear.render(above, buffer);
    for (y, text) in (0..count).zip(lines) {
        line(buffer, above, y, &Line::styled(format!(" {text}"), style));
    }
}

/// The line that is typed, with the mistake in it or without.
fn typed(app: &App, prompt: &Prompt, mistake: bool) -> Spans {
    let (name, hint) = match prompt.purpose {
        Purpose::Filter => (" filter: ", "  Enter apply · Esc cancel"),
        Purpose::GoTo => (" go to: ", "  12:00:05, +30 (from the start), -30 (from here)"),
    };
    let mut spans = Spans::default();
    spans.push(name, theme::BOLD);
    let wrong = theme::text(Level::Warning).add_modifier(Modifier::UNDERLINED);
    let error = app.view.filter.query.error.as_ref().filter(|_| prompt.purpose == Purpose::Filter);
    match error.and_then(FilterError::parts).filter(|parts| parts.concat() == prompt.text) {
        // Marked where it stands, or where something is missing.
        Some([before, "", rest]) => {
            spans.push(before, theme::PLAIN).push(rest, theme::PLAIN).push("█", theme::text(Level::Warning));
        }
        Some([before, part, rest]) => {
            spans
                .push(before, theme::PLAIN)
                .push(part, wrong)
                .push(rest, theme::PLAIN)
                .push("█", theme::PLAIN);
        }
        None => {
            spans.push(prompt.text.clone(), theme::PLAIN).push("█", theme::PLAIN);
        }
    }
    match &app.view.filter.query.error {
        Some(error) if mistake && prompt.purpose == Purpose::Filter => {
            spans.push(format!("  {}", error.one_line()), theme::text(Level::Warning));
        }
        _ => {
            spans.push(hint, theme::DIM);
        }
    }
    spans
}

const SCROLL: Hint = (&[Input::Up, Input::Down], "scroll");
const CLOSE: Hint = (&[Input::Back], "close");

/// Keys with what they do.
fn labelled(app: &App, (inputs, meaning): &Hint) -> Spans {
    let keys: Vec<String> = inputs.iter().map(|input| app.view.options.keys.first(*input)).collect();
    let mut spans = Spans::default();
    spans.push(format!(" {} ", keys.join(" ")), theme::KEY).push(*meaning, theme::DIM);
    spans
}

/// The keys of the box over the screen, else those of the screen.
fn hints(app: &App, width: usize) -> Spans {
    let over: Option<&[Hint]> = match app.overlay {
        Overlay::None => None,
        Overlay::Help(_) => Some(&[SCROLL, CLOSE]),
        Overlay::Packet(_) => Some(&[
            SCROLL,
            (&[Input::Older, Input::Newer], "earlier, later event"),
            (&[Input::Capture], "pcapng"),
            CLOSE,
        ]),
        // Its frame names its own keys.
        Overlay::Columns(_) => Some(&[]),
    };
    if let Some(over) = over {
        return join(over.iter().map(|hint| labelled(app, hint)).collect(), width, " ").0;
    }
    let timeline = &app.view.timeline;
    let replay =
        timeline.end.is_none() && timeline.speed.is_some() && app.view.kind() == Some(SourceKind::Replay);
    let mut hints: Vec<Hint> = vec![(&[Input::NextScreen], "screens")];
    // Keys of the screen first; others where there is room.
    let (first, rest) = app.screens.page(app.view.screen).hints(&app.view);
    hints.extend(first);
    match (&timeline.end, timeline.paused) {
        (Some(_), _) => {}
        (None, true) => hints.push((&[Input::Pause], "resume")),
        (None, false) => hints.push((&[Input::Pause], "pause")),
    }
    if timeline.still() {
        hints.push((&[Input::Earlier, Input::Later], "step"));
    }
    hints.extend(rest);
    hints.push((&[Input::TimeRange], "time range"));
    if replay {
        hints.push((&[Input::Faster, Input::Slower], "speed"));
    }
    hints.push((&[Input::ExportCsv], "export"));
    // Hints without room are in the help.
    let mut parts: Vec<Spans> = hints.iter().map(|hint| labelled(app, hint)).collect();
    if app.view.options.mouse {
        let mut spans = Spans::default();
        spans.push(" Shift-drag ", theme::KEY).push("selects text", theme::DIM);
        parts.push(spans);
    }
    join(parts, width, " ").0
}
