//! Events, newest first, and notices of the source.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use rocescope_common::account::FlowKey;
use serde_json::json;

use super::{Effect, Hints, Page, Spans, click_list, line, sheet};
use crate::model::Level;
use crate::sample::address;
use crate::tui::column::compact;
use crate::tui::cursor::{Cursor, Move};
use crate::tui::export::Sheet;
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::log::{EntryAt, route};
use crate::tui::overlay::Opened;
use crate::tui::screen::Screen;
use crate::tui::theme;
use crate::tui::view::View;
use crate::util::units;

/// Room for the name of a tap.
const TAP: usize = 12;

/// The screen.
#[derive(Debug, Default)]
pub struct EventsScreen {
    /// Place in the list.
    pub cursor: Cursor,
}

impl EventsScreen {
    /// The selected entry.
    #[must_use]
    pub(in crate::tui) fn entry<'a>(&self, view: &'a View) -> Option<EntryAt<'a>> {
        self.cursor.selected.and_then(|at| view.shown_events().nth(at))
    }
}

impl Page for EventsScreen {
    fn step(&mut self, view: &mut View, step: Move) {
        self.cursor.step(step, view.event_count(), view.layout().events_page());
    }

    fn open(&mut self, view: &mut View) -> Effect {
        if self.cursor.selected.is_none() {
            self.step(view, Move::Up);
        }
        self.entry(view).map_or(Effect::None, |entry| Effect::Packet(Opened::latest(entry)))
    }

    fn click(&mut self, view: &mut View, at: Position) -> Effect {
        let layout = view.layout();
        let height = layout.body.height.saturating_sub(layout.notices());
        let list = Rect { height, ..layout.body };
        if click_list(&mut self.cursor, list, view.event_count(), at) {
            self.open(view)
        } else {
            Effect::None
        }
    }

    fn keep_in_view(&mut self, view: &View) {
        // To count them is to search all of the log.
        if view.screen == Screen::Events {
            self.cursor.show(view.event_count(), view.layout().events_page());
        }
    }

    fn selection(&mut self) -> Option<&mut Cursor> {
        Some(&mut self.cursor)
    }

    fn hints(&self, view: &View) -> Hints {
        if view.log.is_empty() {
            return (&[], &[(&[Input::Filter], "filter")]);
        }
        (&[(&[Input::Open], "headers")], &[(&[Input::Filter], "filter"), (&[Input::Capture], "pcapng")])
    }

    fn flow(&self, view: &View) -> Option<(FlowKey, Option<FlowKey>)> {
        self.entry(view).map(|listed| (listed.entry.key, None))
    }

    fn sheet(&self, view: &View) -> Sheet {
        let mut table = Sheet::new(&[
            "link",
            "direction",
            "first_ns",
            "last_ns",
            "event",
            "src",
            "dst",
            "dest_qp",
            "count",
            "text",
        ]);
        let links = view.data.as_ref().map_or(&[][..], |data| &data.sample.links);
        table.rows = view
            .shown_events()
            .map(|EntryAt { entry, state }| {
                let key = &entry.key;
                let link = links.get(usize::from(key.link));
                vec![
                    json!(link.map(|link| &link.name)),
                    sheet::direction(link.and_then(|link| link.direction)),
                    json!(entry.first_ns),
                    json!(state.time_ns),
                    json!(entry.class.word),
                    json!(address(key.family, key.src)),
                    json!(address(key.family, key.dst)),
                    json!(key.dest_qp),
                    json!(state.count),
                    json!(state.text),
                ]
            })
            .collect();
        table
    }

    fn render(&self, buffer: &mut Buffer, at: &Layout, view: &View) {
        render(buffer, at, view, self.cursor);
    }
}

fn render(buffer: &mut Buffer, at: &Layout, view: &View, cursor: Cursor) {
    let (body, notices) = (at.body, at.notices());
    let list = Rect { height: body.height - notices, ..body };
    line(buffer, list, 0, &Line::styled(" TIME (UTC)   EVENT  FLOW · DETAIL (newest first)", theme::HEAD));
    let page = at.events_page();
    let mut y = 1;
    for (place, listed) in view.shown_events().enumerate().skip(cursor.offset).take(page) {
        line(buffer, list, y, &row(listed, view));
        if cursor.selected == Some(place) {
            super::select(buffer, Rect { y: list.y + y, height: 1, ..list });
        }
        y += 1;
    }
    if y == 1 {
        let why = if view.log.is_empty() {
            "  No events so far: no new flow, NAK, RNR NAK, PSN gap, CNP or CE-marked packet."
        } else {
            "  No event matches the filter."
        };
        line(buffer, list, 2, &Line::raw(why));
    }
    let below = Rect { y: list.bottom(), height: notices, ..body };
    notice_lines(buffer, below, view);
}

pub(super) fn row(EntryAt { entry, state }: EntryAt<'_>, view: &View) -> Line<'static> {
    let level = entry.class.level;
    let symbol = if level == Level::Fine { "·" } else { theme::symbol(level) };
    let mut spans = Spans::default();
    spans.push(format!(" {} ", units::clock_utc(state.time_ns)), theme::DIM);
    spans.push(format!("{symbol} {:<4} ", entry.class.word), theme::text(level));
    spans.push(route(&entry.key), theme::PLAIN);
    if state.count > 1 {
        spans.push(format!(" ×{}", compact(state.count as f64)), theme::BOLD);
        spans.push(format!(" since {}", units::clock_utc(entry.first_ns)), theme::DIM);
    }
    // Several taps that see the same packets each report them.
    if let Some(data) = view.data.as_ref().filter(|data| data.model.dedup.taps > 1)
        && let Some(link) = data.model.links.get(usize::from(entry.key.link))
    {
        spans.push(format!("  at {}", super::links::short(&data.model, link, TAP)), theme::DIM);
    }
    spans.push(format!("  {}", state.text), theme::PLAIN);
    spans.into_line()
}

/// The latest notices, a line each, and how many there were.
fn notice_lines(buffer: &mut Buffer, area: Rect, view: &View) {
    let mut head = format!(" NOTICES {} ", view.messages.notices.len());
    for (y, notice) in (0..area.height).zip(view.messages.notices.iter().rev()) {
        let mut spans = Spans::default();
        spans.push(head.clone(), theme::HEAD).push(format!(" {notice}"), theme::PLAIN);
        line(buffer, area, y, &spans.into_line());
        head = " ".repeat(head.len());
    }
    if view.messages.notices.is_empty() {
        line(buffer, area, 0, &Line::styled(head, theme::HEAD));
    }
}
