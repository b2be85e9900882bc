//! Events on the screens that list them: which are listed, which is marked, which is opened.

use super::app::{App, Opened, Overlay};
use super::cursor::{Cursor, Move};
use super::log::{Entry, Listed};
use crate::tui::screens;
use crate::sample::EventSample;

/// Events that the details list.
const LISTED: usize = 20;

impl App {
    /// The latest events of the queue pair on the screen of details, the latest first.
    #[must_use]
    pub fn detail_events(&self) -> Vec<Listed<'_>> {
        let detail = self.data.as_ref().and_then(|data| data.detail.as_ref());
        let Some((this, other)) = detail else { return Vec::new() };
        let own = |listed: &Listed<'_>| {
            let key = listed.entry.key;
            key == this.id.key || other.as_ref().is_some_and(|other| key == other.id.key)
        };
        self.log.listed(self.shown_ns).filter(own).take(LISTED).collect()
    }

    /// The place of the marked one among them.
    #[must_use]
    pub fn marked_place(&self) -> Option<usize> {
        let marked = self.marked_event?;
        self.detail_events().iter().position(|listed| listed.entry.number == marked)
    }

    /// Moves on the screen of details: line by line down to the events, and on through them.
    pub(in crate::tui) fn step_detail(&mut self, step: Move) {
        let lines = screens::detail::height(self);
        let room = usize::from(self.layout().body.height);
        let numbers: Vec<u64> = self.detail_events().iter().map(|listed| listed.entry.number).collect();
        let first = screens::detail::first_event(lines, numbers.len());
        // The last line in view says how many more there are.
        let seen = |offset: usize, at: usize| {
            (offset..(offset + room).saturating_sub(usize::from(offset + room < lines)))
                .contains(&(first + at))
        };
        let to = match (step, self.marked_place()) {
            (Move::Down, Some(at)) => Some(at + 1),
            (Move::Down, None) => {
                let at = self.detail.offset.saturating_sub(first);
                Some(at).filter(|at| seen(self.detail.offset, *at))
            }
            (Move::Up, Some(at)) => at.checked_sub(1),
            _ => None,
        };
        if let Some((at, number)) = to.and_then(|at| Some((at, *numbers.get(at)?))) {
            self.mark_event(number, first + at, lines);
            return;
        }
        self.detail.scroll(step, lines, room);
        let kept = self.marked_place().filter(|at| seen(self.detail.offset, *at));
        if kept.is_none() || (step, kept) == (Move::Up, Some(0)) {
            self.marked_event = None;
        }
    }

    /// Marks the event on this line of the details.
    fn mark_event(&mut self, number: u64, line: usize, lines: usize) {
        self.marked_event = Some(number);
        let page = usize::from(self.layout().body.height).saturating_sub(1).max(1);
        let mut cursor = Cursor { selected: Some(line), offset: self.detail.offset };
        cursor.show(lines + 1, page);
        self.detail.offset = cursor.offset;
    }

    /// Opens the marked event of the details, or else the latest.
    pub(in crate::tui) fn open_detail_event(&mut self) {
        let at = self.marked_place().unwrap_or(0);
        let events = self.detail_events();
        let Some(listed) = events.get(at).copied() else {
            self.answer = Some("no events kept for this queue pair".into());
            return;
        };
        let opened = opened(listed);
        let lines = screens::detail::height(self);
        let line = screens::detail::first_event(lines, events.len()) + at;
        self.mark_event(opened.entry, line, lines);
        self.overlay = Overlay::Packet(opened);
    }

    /// A click on a line of the details: marks the event there, or opens it when it is marked.
    pub(in crate::tui) fn click_detail(&mut self, line: usize) {
        let lines = screens::detail::height(self);
        let events = self.detail_events();
        let first = screens::detail::first_event(lines, events.len());
        let number = line.checked_sub(first).and_then(|at| events.get(at)).map(|listed| listed.entry.number);
        if number.is_some() && number == self.marked_event {
            self.open_detail_event();
        } else if number.is_some() {
            self.marked_event = number;
        }
    }

    /// Opens the selected event of the list.
    pub(in crate::tui) fn open_listed_event(&mut self) {
        if self.events.selected.is_none() {
            self.step(Move::Up);
        }
        let listed = self.events.selected.and_then(|at| self.shown_events().nth(at));
        if let Some(opened) = listed.map(opened) {
            self.overlay = Overlay::Packet(opened);
        }
    }

    /// The event that is opened, what else its entry has, and the entry; `None` when it is not kept any more.
    #[must_use]
    pub fn opened(&self) -> Option<(&EventSample, Listed<'_>)> {
        let Overlay::Packet(opened) = self.overlay else { return None };
        let entry = self.log.entry(opened.entry)?;
        let stand = entry.at(self.until_ns()).unwrap_or(&entry.latest);
        Some((self.log.event(entry, opened.event).unwrap_or(&stand.event), Listed { entry, stand }))
    }

    /// Numbers of the events of an entry whose headers are kept, none later than what is shown.
    pub(in crate::tui) fn kept_of(&self, entry: &Entry) -> Vec<u64> {
        self.log.kept(entry, self.until_ns()).map(|(number, _)| number).collect()
    }

    /// Opens the event before the opened one in its entry, or the one after it.
    pub(in crate::tui) fn open_neighbour(&mut self, older: bool) {
        let Overlay::Packet(opened) = self.overlay else { return };
        let kept = self.log.entry(opened.entry).map_or_else(Vec::new, |entry| self.kept_of(entry));
        let next = if older {
            kept.into_iter().rev().find(|number| *number < opened.event)
        } else {
            kept.into_iter().find(|number| *number > opened.event)
        };
        if let Some(event) = next {
            self.overlay = Overlay::Packet(Opened { event, ..opened });
        } else {
            let which = if older { "older" } else { "newer" };
            self.answer = Some(format!("no headers stored for a {which} event of this row"));
        }
    }

    /// The time up to which events are shown.
    fn until_ns(&self) -> u64 {
        self.shown_ns.unwrap_or(u64::MAX)
    }

    /// What was seen is still to come: nothing of it is listed or open.
    pub(in crate::tui) fn forget_events(&mut self) {
        self.log = super::log::Log::default();
        self.events = Cursor::default();
        self.marked_event = None;
        if matches!(self.overlay, Overlay::Packet(_)) {
            self.overlay = Overlay::None;
        }
    }
}

fn opened(listed: Listed<'_>) -> Opened {
    Opened { entry: listed.entry.number, event: listed.stand.number, top: 0 }
}
