//! The last line: what is typed, what the source said, or what can be done.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Spans, cut, join, line};
use crate::model::Level;
use crate::sample::SourceKind;
use crate::tui::app::{App, End, Screen};
use crate::tui::theme;

/// What must never be out of sight.
const WAY_OUT: &str = "  ? help  q quit ";

pub(super) fn render(buffer: &mut Buffer, area: Rect, app: &App) {
    let mut spans = Spans::default();
    if app.filter.editing {
        spans.push(" filter: ", theme::BOLD).push(app.filter.text.clone(), theme::PLAIN);
        spans.push("█", theme::PLAIN).push("  Enter keeps it, Esc drops it", theme::DIM);
        line(buffer, area, 0, &spans.into_line());
        return;
    }
    let room = usize::from(area.width).saturating_sub(WAY_OUT.len());
    if let (true, Some(notice)) = (app.unread, app.notices.back()) {
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
    let flows = app.screen == Screen::Flows;
    let replay = app.end.is_none() && app.speed.is_some() && app.kind() == Some(SourceKind::Replay);
    let hints = [
        Some(("Tab", "screens")),
        flows.then_some(("Enter", "details")),
        flows.then_some(("s S", "sort")),
        Some(("/", "filter")),
        pause,
        replay.then_some(("+ -", "speed")),
    ];
    let parts = hints.into_iter().flatten().map(|(key, what)| {
        let mut spans = Spans::default();
        spans.push(format!(" {key} "), theme::BOLD).push(what, theme::DIM);
        spans
    });
    let mut parts: Vec<Spans> = parts.collect();
    if app.end == Some(End::Done) {
        let mut ended = Spans::default();
        ended.push(" ended: rates are averages ", theme::PLAIN);
        parts.insert(0, ended);
    }
    join(parts, width, " ").0
}
