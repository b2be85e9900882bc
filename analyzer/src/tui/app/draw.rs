//! The picture: header, screen, status line, and the box over them.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{App, header, help, status};
use crate::tui::overlay::Overlay;
use crate::tui::screens::{findings, flows, packet};
use crate::tui::widgets::{line, overlay};
use crate::tui::{layout, theme};

/// Adopts the size of the frame and draws: the terminal may have changed since its size was read.
pub fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    if (area.width, area.height) != app.view.size {
        app.on_resize(area.width, area.height);
    }
    render(frame, app);
}

/// Draws a state that has the size of the frame, and nothing where it has another; see [`draw`].
pub fn render(frame: &mut Frame<'_>, app: &App) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    if (area.width, area.height) != app.view.size {
        return;
    }
    let (width, height) = layout::SMALLEST;
    if area.width < width || area.height < height {
        too_small(buffer, area);
    } else {
        let at = app.view.layout();
        header::render(buffer, &at, app);
        app.screens.page(app.view.screen).render(buffer, &at, &app.view);
        status::render(buffer, at.status, app);
        render_overlay(buffer, area, app);
    }
    app.view.options.theme.paint(buffer);
    if !app.view.options.unicode {
        theme::ascii(buffer);
    }
}

fn render_overlay(buffer: &mut Buffer, area: Rect, app: &App) {
    let view = &app.view;
    match app.overlay {
        Overlay::None => {}
        Overlay::Help(top) => help::render(buffer, area, view, top),
        Overlay::Columns(at) => flows::choice::render(buffer, area, &app.screens.flows, view, at),
        Overlay::Packet(opened) => packet::render(buffer, area, view, opened),
        Overlay::Finding(top) => {
            let lines = findings::lines(view, &app.screens.findings);
            overlay(buffer, area, " Finding ", &lines, top);
        }
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
