//! The headers of one event's packet, field by field, with their bytes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::Spans;
use crate::packet::{decode, hex};
use crate::tui::app::App;
use crate::tui::key::Input;
use crate::tui::log::{IDLE, Listed, describe, route};
use crate::tui::theme;
use crate::util::units;
use crate::util::wrap::wrap;

/// Columns of a field's name, its value, and its bytes.
const NAME: usize = 24;
const VALUE: usize = 40;
const BYTES: usize = 17;
/// On narrow screens.
const SHORT_NAME: usize = 20;
/// From this width of the box on all have their room.
const WIDE: usize = 2 + NAME + VALUE + 1;

/// All lines about the opened event.
#[must_use]
pub(in crate::tui) fn lines(app: &App) -> Vec<Line<'static>> {
    // The box is as wide as the screen up to a limit, with a border on both sides.
    let width = usize::from(app.size.0.min(super::WIDEST).saturating_sub(2));
    let Some((event, Listed { entry, stand })) = app.opened() else {
        return vec![Line::raw("This event is no longer kept.")];
    };
    let sentence = |text: &str| wrap(text, width).into_iter();
    let what = format!("{}  {}", entry.class.word, entry.class.help);
    let mut lines: Vec<Line<'static>> = sentence(&what).map(|part| Line::styled(part, theme::BOLD)).collect();
    let no_packet = entry.class.bit == IDLE;
    let time = units::time_utc(event.time_ns);
    let passed = if no_packet { time } else { format!("{time}, {} bytes on the wire", event.wire_len) };
    lines.extend([Line::raw(route(&entry.key)), Line::raw(passed)]);
    if stand.count > 1 {
        let (count, from, to) =
            (units::count(stand.count), units::clock_utc(entry.first_ns), units::clock_utc(stand.time_ns));
        let text = format!("{count} events, {from}–{to}, less than 1 s apart");
        lines.extend(sentence(&text).map(Line::raw));
        let kept = app.kept_of(entry).len() as u64;
        let key = |input| app.options.keys.first(input);
        if kept > 1 {
            let (older, newer, kept) = (key(Input::Older), key(Input::Newer), units::count(kept));
            let text = format!("{older} previous · {newer} next · headers of {kept} events stored");
            lines.extend(sentence(&text).map(|part| Line::styled(part, theme::DIM)));
        }
    }
    lines.extend(sentence(&describe(event)).map(Line::raw));
    if event.headers.is_empty() {
        lines.push(Line::default());
        let why = if no_packet {
            "Derived from samples, not from a packet."
        } else {
            "Headers are stored for NAK, RNR, CNP, gap and CM events only."
        };
        lines.extend(sentence(why).map(|part| Line::styled(part, theme::DIM)));
        return lines;
    }
    let (name, value) = if width < WIDE {
        (SHORT_NAME, width.saturating_sub(2 + SHORT_NAME + 1 + BYTES).clamp(BYTES, VALUE))
    } else {
        (NAME, VALUE)
    };
    let packet = decode(&event.headers, event.wire_len, usize::from(event.bth_offset));
    for header in &packet.headers {
        lines.push(Line::default());
        lines.push(Line::styled(format!("{}, offset {}", header.name, header.offset), theme::HEAD));
        for field in &header.fields {
            let bytes = event.headers.get(field.offset..field.offset + field.len).unwrap_or_default();
            let raw = bytes.iter().take(8).fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
            let more = if bytes.len() > 8 { "…" } else { "" };
            let mut spans = Spans::default();
            spans.push(format!("  {:<name$}", field.name), theme::DIM);
            spans.push(format!("{:<value$} ", field.value), theme::PLAIN);
            spans.push(format!("{raw}{more}"), theme::DIM);
            lines.push(spans.into_line());
        }
    }
    lines.push(Line::default());
    lines.push(Line::styled("Bytes", theme::HEAD));
    lines.extend(hex(&event.headers).map(Line::raw));
    lines.extend(packet.note.map(|note| Line::styled(note, theme::DIM)));
    lines
}

pub(super) fn render(buffer: &mut Buffer, screen: Rect, app: &App, top: usize) {
    super::overlay(buffer, screen, " Packet ", &lines(app), top);
}
