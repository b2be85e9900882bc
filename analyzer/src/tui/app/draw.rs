//! The picture: header, screen, status line, and the box over them.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{App, header, help, status};
use crate::tui::key::Input;
use crate::tui::overlay::Overlay;
use crate::tui::screens::{flows, overview, packet};
use crate::tui::widgets::line;
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
    if (area.width, area.height) == app.view.size {
        picture(frame.buffer_mut(), app);
    }
}

/// Draws a state into a buffer of its size.
fn picture(buffer: &mut Buffer, app: &App) {
    symbols(buffer, app);
    app.view.options.theme.paint(buffer);
    if !app.view.options.unicode {
        theme::ascii(buffer);
    }
}

/// The same in the colours and symbols that the code of the screens names.
pub(super) fn symbols(buffer: &mut Buffer, app: &App) {
    let area = buffer.area;
    if layout::is_card((area.width, area.height)) {
        card(buffer, area, app);
    } else {
        let at = app.view.layout();
        header::render(buffer, &at, app);
        app.screens.page(app.view.screen).render(buffer, &at, &app.view);
        status::render(buffer, at.status, app);
        render_overlay(buffer, area, app);
    }
}

fn render_overlay(buffer: &mut Buffer, area: Rect, app: &App) {
    let view = &app.view;
    match app.overlay {
        Overlay::None => {}
        Overlay::Help(top) => help::render(buffer, area, view, top),
        Overlay::Columns(at) => flows::choice::render(buffer, area, &app.screens.flows, view, at),
        Overlay::Packet(opened) => packet::render(buffer, area, view, opened),
    }
}

/// Terminals with little room: the verdict, three problems, and what to do.
fn card(buffer: &mut Buffer, area: Rect, app: &App) {
    let width = usize::from(area.width);
    let mut lines = Vec::new();
    match &app.view.data {
        Some(data) => {
            lines.push(header::headline(app, data, width).into_line());
            let room = usize::from(area.height.saturating_sub(2));
            lines.extend(overview::problems::card(&app.view, width, 3, room));
        }
        None => lines.push(Line::styled(" waiting for the first sample…", theme::DIM)),
    }
    let (least_width, least_height) = layout::SMALLEST;
    let quit = app.view.options.keys.first(Input::Quit);
    let hint = format!(" {least_width}x{least_height} shows more · {quit} quits");
    lines.truncate(usize::from(area.height.saturating_sub(1)).max(1));
    for (y, text) in (0..area.height).zip(&lines) {
        line(buffer, area, y, text);
    }
    if area.height > 1 {
        line(buffer, area, area.height - 1, &Line::styled(hint, theme::DIM));
    }
}
