//! Events, newest first, and notices of the source.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{Spans, line};
use crate::model::Level;
use crate::tui::app::App;
use crate::tui::column::compact;
use crate::tui::layout::Layout;
use crate::tui::log::{Listed, route};
use crate::tui::theme;
use crate::util::units;

/// Room for the name of a tap.
const TAP: usize = 12;

pub(super) fn render(buffer: &mut Buffer, at: &Layout, app: &App) {
    let (body, notices) = (at.body, at.notices());
    let list = Rect { height: body.height - notices, ..body };
    line(
        buffer,
        list,
        0,
        &Line::styled(" TIME (UTC)   EVENT  FLOW · DETAIL (newest first)", theme::HEAD),
    );
    let page = at.events_page();
    let mut y = 1;
    for (place, listed) in app.shown_events().enumerate().skip(app.events.offset).take(page) {
        line(buffer, list, y, &row(listed, app));
        if app.events.selected == Some(place) {
            super::select(buffer, Rect { y: list.y + y, height: 1, ..list });
        }
        y += 1;
    }
    if y == 1 {
        let why = if app.log.is_empty() {
            "  No events so far: no new flow, NAK, RNR NAK, PSN gap, CNP or CE-marked packet."
        } else {
            "  No event matches the filter."
        };
        line(buffer, list, 2, &Line::raw(why));
    }
    let below = Rect { y: list.bottom(), height: notices, ..body };
    said(buffer, below, app);
}

pub(super) fn row(Listed { entry, stand }: Listed<'_>, app: &App) -> Line<'static> {
    let level = entry.class.level;
    let symbol = if level == Level::Fine { "·" } else { theme::symbol(level) };
    let mut spans = Spans::default();
    spans.push(format!(" {} ", units::clock_utc(stand.time_ns)), theme::DIM);
    spans.push(format!("{symbol} {:<4} ", entry.class.word), theme::text(level));
    spans.push(route(&entry.key), theme::PLAIN);
    if stand.count > 1 {
        spans.push(format!(" ×{}", compact(stand.count as f64)), theme::BOLD);
        spans.push(format!(" since {}", units::clock_utc(entry.first_ns)), theme::DIM);
    }
    // Several taps that see the same packets each report them.
    if let Some(data) = app.data.as_ref().filter(|data| data.model.dedup.taps > 1)
        && let Some(link) = data.model.links.get(usize::from(entry.key.link))
    {
        spans.push(format!("  at {}", super::links::short(&data.model, link, TAP)), theme::DIM);
    }
    spans.push(format!("  {}", stand.text), theme::PLAIN);
    spans.into_line()
}

/// The latest notices, a line each, and how many there were.
fn said(buffer: &mut Buffer, area: Rect, app: &App) {
    let mut head = format!(" NOTICES {} ", app.notices.len());
    for (y, notice) in (0..area.height).zip(app.notices.iter().rev()) {
        let mut spans = Spans::default();
        spans.push(head.clone(), theme::HEAD).push(format!(" {notice}"), theme::PLAIN);
        line(buffer, area, y, &spans.into_line());
        head = " ".repeat(head.len());
    }
    if app.notices.is_empty() {
        line(buffer, area, 0, &Line::styled(head, theme::HEAD));
    }
}
