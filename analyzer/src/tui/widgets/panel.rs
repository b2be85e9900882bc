//! A part of a screen with a title: a rounded box where there is room, else below a rule.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType, Widget as _};

use super::{Spans, cut, line, whole};
use crate::tui::theme;

/// From this width on parts are boxes.
pub(in crate::tui) const BOXED: u16 = 100;

/// Title, words behind it and hint of a part.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tui) struct Title<'a> {
    pub(in crate::tui) name: &'a str,
    pub(in crate::tui) about: &'a str,
    pub(in crate::tui) hint: &'a str,
}

/// Lines that the frame of a part takes.
pub(in crate::tui) const fn frame_height(boxed: bool) -> u16 {
    if boxed { 2 } else { 1 }
}

/// The area within the frame of a part.
pub(in crate::tui) fn inner(area: Rect, boxed: bool) -> Rect {
    match (area.is_empty(), boxed) {
        (true, _) => area,
        (_, true) => Block::bordered().inner(area),
        (_, false) => Rect { y: area.y + 1, height: area.height - 1, ..area },
    }
}

/// The title of a section among lines that scroll, with a rule to the right end of `width` columns.
pub(in crate::tui) fn section(name: &str, about: &str, width: usize) -> Line<'static> {
    let mut spans = Spans::default();
    let room = width.saturating_sub(2);
    spans.push("─ ", theme::FRAME).push(cut(name, room, false), theme::BOLD);
    let rest = width.saturating_sub(spans.width + 3);
    if !about.is_empty() && rest > 4 {
        spans.push(format!(" {}", cut(about, rest, false)), theme::DIM);
    }
    let rule = width.saturating_sub(spans.width + 1);
    spans.push(format!(" {}", "─".repeat(rule)), theme::FRAME);
    spans.into_line()
}

/// Text in the frame has not the colour of the frame.
const fn own(style: Style) -> Style {
    style.fg(Color::Reset)
}

/// Draws the frame of a part; returns the area within.
pub(in crate::tui) fn panel(buffer: &mut Buffer, area: Rect, boxed: bool, title: Title<'_>) -> Rect {
    if area.is_empty() {
        return area;
    }
    let within = if boxed {
        Block::bordered().border_type(BorderType::Rounded).border_style(theme::FRAME).render(area, buffer);
        inner(area, true)
    } else {
        let rule = "─".repeat(usize::from(area.width));
        buffer.set_stringn(area.x, area.y, rule, usize::from(area.width), theme::FRAME);
        inner(area, false)
    };
    let room = usize::from(area.width).saturating_sub(4);
    let mut left = Spans::default();
    left.push(format!(" {} ", cut(title.name, room.saturating_sub(2), false)), own(theme::BOLD));
    let rest = room.saturating_sub(left.width);
    if !title.about.is_empty() && rest > 4 {
        left.push(
            format!(
                "{} ",
                whole(title.about, rest - 1).map_or_else(|| cut(title.about, rest - 1, false), str::to_owned)
            ),
            own(theme::DIM),
        );
    }
    // Whole parts of the hint too, but no part of one.
    let hint = whole(title.hint, room.saturating_sub(left.width + 4)).unwrap_or_default();
    let (is_hint, hint) = (!hint.is_empty(), format!(" {hint} "));
    let (width, used) = (hint.chars().count(), left.width);
    line(
        buffer,
        Rect { x: area.x + 1, width: area.width.saturating_sub(2), height: 1, ..area },
        0,
        &left.into_line(),
    );
    if is_hint && used + width + 2 <= room {
        let x = area.right() - 2 - u16::try_from(width).unwrap_or(0);
        buffer.set_stringn(x, area.y, &hint, width, own(theme::DIM));
    }
    within
}
