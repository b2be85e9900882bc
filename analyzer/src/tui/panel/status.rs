//! The last line: what is typed, what the source said, or what can be done.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Spans, cut, join, line};
use crate::model::Level;
use crate::sample::SourceKind;
use crate::tui::app::{App, End};
use crate::tui::prompt::Purpose;
use crate::tui::screen::Screen;
use crate::tui::theme;

/// What must never be out of sight.
const WAY_OUT: &str = "  ? help  q quit ";

pub(super) fn render(buffer: &mut Buffer, area: Rect, app: &App) {
    let mut spans = Spans::default();
    if let Some(prompt) = &app.prompt {
        let (name, hint) = match prompt.purpose {
            Purpose::Filter => (" filter: ", "  Enter keeps it, Esc drops it"),
            Purpose::GoTo => (" go to: ", "  12:00:05, +30 from the start, -30 from here"),
        };
        spans.push(name, theme::BOLD).push(prompt.text.clone(), theme::PLAIN);
        spans.push("█", theme::PLAIN);
        match &app.query.error {
            Some(error) if prompt.purpose == Purpose::Filter => {
                spans.push(format!("  {error}"), theme::text(Level::Warning));
            }
            _ => {
                spans.push(hint, theme::DIM);
            }
        }
        line(buffer, area, 0, &spans.into_line());
        return;
    }
    let room = usize::from(area.width).saturating_sub(WAY_OUT.len());
    if let Some(answer) = &app.answer {
        spans.push(format!(" {}", cut(answer, room.saturating_sub(1), false)), theme::BOLD);
    } else if let (true, Some(notice)) = (app.unread, app.notices.back()) {
        spans.push(" ! ", theme::badge(Level::Warning));
        spans.push(format!(" {}", cut(notice, room.saturating_sub(5), false)), theme::PLAIN);
    } else if let Some(End::Failed(error)) = &app.end {
        spans.push(" ✖ ", theme::badge(Level::Critical));
        spans.push(format!(" {}", cut(error, room.saturating_sub(5), false)), theme::PLAIN);
    } else {
        spans = hints(app, room);
    }
    let gap = room.saturating_sub(spans.width);
    spans.push(" ".repeat(gap), theme::PLAIN).push(WAY_OUT, theme::BOLD);
    line(buffer, area, 0, &spans.into_line());
}

fn hints(app: &App, width: usize) -> Spans {
    let pause = match (&app.end, app.paused) {
        (Some(_), _) => None,
        (None, true) => Some(("Space", "go on")),
        (None, false) => Some(("Space", "pause")),
    };
    let replay = app.end.is_none() && app.speed.is_some() && app.kind() == Some(SourceKind::Replay);
    let (open, more): (&str, &[(&str, &str)]) = match app.screen {
        Screen::Overview => ("details", &[]),
        Screen::Qps => ("details", &[("s S", "sort"), ("/", "filter"), ("c", "columns"), ("o", "group")]),
        Screen::Detail => ("", &[("Esc", "back"), ("w", "pcapng")]),
        Screen::Matrix => ("queue pairs", &[("m", "figure")]),
        Screen::Links => ("queue pairs", &[("n N", "uplinks")]),
        Screen::Bursts => ("", &[]),
        Screen::Events => ("headers", &[("/", "filter"), ("w", "pcapng")]),
        Screen::Findings => ("queue pairs", &[]),
    };
    let hints = [Some(("Tab", "screens")), (!open.is_empty()).then_some(("Enter", open))]
        .into_iter()
        .chain(more.iter().copied().map(Some))
        .chain([
            app.still().then_some(("Left Right", "in time")),
            pause,
            Some(("t", "span")),
            replay.then_some(("+ -", "speed")),
            Some(("e", "export")),
        ]);
    let parts = hints.flatten().map(|(key, what)| {
        let mut spans = Spans::default();
        spans.push(format!(" {key} "), theme::BOLD).push(what, theme::DIM);
        spans
    });
    join(parts.collect(), width, " ").0
}
