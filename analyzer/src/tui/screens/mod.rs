//! One module per part of the screen; each draws from the state alone.

pub(super) mod bursts;
mod columns;
pub(super) mod detail;
mod devices;
mod empty;
mod events;
pub(super) mod findings;
pub(super) mod flows;
pub(super) mod header;
pub(super) mod help;
pub(super) mod links;
pub(super) mod matrix;
mod overview;
pub(super) mod packet;
mod status;
pub(super) mod trends;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::app::{App, Overlay};
use super::screen::Screen;
use super::{layout, theme};
use crate::tui::widgets::{Spans, WIDEST, counted, cut, join, line, overlay, scrolled, select, spark};

/// Adopts the size of the frame and draws: the terminal may have changed since its size was read.
pub fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    if (area.width, area.height) != app.size {
        app.on_resize(area.width, area.height);
    }
    render(frame, app);
}

/// Draws a state that has the size of the frame; see [`draw`].
pub fn render(frame: &mut Frame<'_>, app: &App) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    if (area.width, area.height) != app.size {
        return;
    }
    let (width, height) = layout::SMALLEST;
    if area.width < width || area.height < height {
        too_small(buffer, area);
    } else {
        let at = app.layout();
        header::render(buffer, &at, app);
        match app.screen {
            Screen::Overview => overview::render(buffer, &at, app),
            Screen::Qps => flows::render(buffer, &at, app),
            Screen::Detail => detail::render(buffer, at.body, app),
            Screen::Matrix => matrix::render(buffer, at.body, app),
            Screen::Links => links::render(buffer, at.body, app),
            Screen::Bursts => bursts::render(buffer, at.body, app),
            Screen::Events => events::render(buffer, &at, app),
            Screen::Findings => findings::render(buffer, &at, app),
        }
        status::render(buffer, at.status, app);
        match app.overlay {
            Overlay::None => {}
            Overlay::Help(top) => help::render(buffer, area, app, top),
            Overlay::Columns(at) => columns::render(buffer, area, app, at),
            Overlay::Packet(opened) => packet::render(buffer, area, app, opened.top),
            Overlay::Finding(top) => overlay(buffer, area, " Finding ", &findings::lines(app), top),
        }
    }
    if app.options.color {
        theme::paint(buffer, &app.options.palette);
    } else {
        theme::plain(buffer);
    }
    if !app.options.unicode {
        theme::ascii(buffer);
    }
}

fn too_small(buffer: &mut Buffer, area: Rect) {
    let (width, height) = layout::SMALLEST;
    let lines = [
        format!("terminal too small: {}x{}", area.width, area.height),
        format!("needs {width}x{height}; q quits"),
    ];
    let top = area.height.saturating_sub(2) / 2;
    for (i, text) in (0u16..).zip(lines) {
        let x = area.width.saturating_sub(text.len().try_into().unwrap_or(area.width)) / 2;
        line(buffer, Rect { x, width: area.width - x, ..area }, top + i, &Line::raw(text));
    }
}
