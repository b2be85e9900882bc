//! The headers of one event's packet, field by field, with their bytes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use crate::packet::{decode, hex};
use crate::sample::EventSample;
use crate::tui::key::Input;
use crate::tui::log::{Entry, EntryAt, IDLE, class_of, describe, route};
use crate::tui::overlay::OpenedEvent;
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::{Spans, WIDEST, overlay};
use crate::util::units;
use crate::util::wrap::wrap;

/// Columns of a field's name, its value, and its bytes.
const NAME: usize = 24;
const VALUE: usize = 40;
const BYTES: usize = 17;
/// Width of a field's name on narrow screens.
const SHORT_NAME: usize = 20;
/// From this width of the box on all have their room.
const WIDE: usize = 2 + NAME + VALUE + 1;

/// The opened event, and its entry at the time shown; `None` when it is not kept any more.
pub(in crate::tui) fn event(view: &View, opened: OpenedEvent) -> Option<(&EventSample, EntryAt<'_>)> {
    let entry = view.log.entry(opened.entry)?;
    let state = entry.at(until_ns(view)).unwrap_or(&entry.latest);
    Some((view.log.event(entry, opened.event).unwrap_or(&state.event), EntryAt { entry, state }))
}

/// The event before the opened one in its entry, or the one after it, where its headers are kept.
pub(in crate::tui) fn neighbour(view: &View, opened: OpenedEvent, older: bool) -> Option<OpenedEvent> {
    let numbers = kept_of(view, view.log.entry(opened.entry)?);
    let event = if older {
        numbers.into_iter().rev().find(|number| *number < opened.event)
    } else {
        numbers.into_iter().find(|number| *number > opened.event)
    };
    Some(OpenedEvent { event: event?, ..opened })
}

/// Numbers of the events of an entry whose headers are kept, none later than the time shown.
fn kept_of(view: &View, entry: &Entry) -> Vec<u64> {
    view.log.kept(entry, until_ns(view)).map(|(number, _)| number).collect()
}

/// Time up to which events are shown.
fn until_ns(view: &View) -> u64 {
    view.timeline.shown_ns.unwrap_or(u64::MAX)
}

/// All lines about the opened event.
pub(in crate::tui) fn lines(view: &View, opened: OpenedEvent) -> Vec<Line<'static>> {
    // The box is as wide as the screen up to a limit, with a border on both sides.
    lines_in(view, opened, usize::from(view.size.0.min(WIDEST).saturating_sub(2)), true)
}

/// The same in this number of columns; with the keys that go on from here, where they are in force.
pub(super) fn lines_in(view: &View, opened: OpenedEvent, width: usize, keys: bool) -> Vec<Line<'static>> {
    let Some((event, EntryAt { entry, state })) = event(view, opened) else {
        return vec![Line::raw("This event is no longer kept.")];
    };
    let sentence = |text: &str| wrap(text, width).into_iter();
    // A NAK may be part of the entry of the gap that it answers.
    let class = class_of(event).unwrap_or(entry.class);
    let class = format!("{}  {}", class.word, class.help);
    let mut lines: Vec<Line<'static>> =
        sentence(&class).map(|part| Line::styled(part, theme::BOLD)).collect();
    let no_packet = entry.class.bit == IDLE;
    let time = units::time_utc(event.time_ns);
    let bytes = units::count(event.wire_len.into());
    let passed = if no_packet { time } else { format!("{time}, {bytes} bytes on the wire") };
    lines.extend([Line::raw(route(&event.key)), Line::raw(passed)]);
    if state.count > 1 {
        let (count, from, to) =
            (units::count(state.count), units::clock_utc(entry.first_ns), units::clock_utc(state.time_ns));
        let text = format!("{count} events, {from}–{to}, less than 1 s apart");
        lines.extend(sentence(&text).map(Line::raw));
        let kept = kept_of(view, entry).len() as u64;
        let key = |input| view.options.keys.first(input);
        if kept > 1 && keys {
            let (older, newer, kept) = (key(Input::Older), key(Input::Newer), units::count(kept));
            let text =
                format!("{older} earlier, {newer} later event of this row · headers of {kept} events stored");
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
    lines.extend(decoded(event, width));
    lines
}

/// The fields of its headers, and their bytes.
fn decoded(event: &EventSample, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
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

pub(in crate::tui) fn render(buffer: &mut Buffer, screen: Rect, view: &View, opened: OpenedEvent) {
    overlay(buffer, screen, " Packet ", &lines(view, opened), opened.top);
}
