//! Events, newest first, and notices of the source.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use rocescope_common::account::{Event, FlowKey};
use serde_json::json;

use super::page::{Effect, Hints, Page, click_list};
use super::{export_table, packet, timeline, trends};
use crate::model::Level;
use crate::sample::address;
use crate::tui::column::{self, compact};
use crate::tui::cursor::{Cursor, Move};
use crate::tui::data::Data;
use crate::tui::export::ExportTable;
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::log::{Entry, EntryAt, IDLE, Log, route};
use crate::tui::overlay::OpenedEvent;
use crate::tui::screen::Screen;
use crate::tui::view::View;
use crate::tui::widgets::panel::{Title, frame_height, inner, panel};
use crate::tui::widgets::{Spans, WIDEST, cut, line, scrolled, select, whole};
use crate::tui::{names, theme};
use crate::util::time::NS_PER_S;
use crate::util::units;

/// Room for the names of taps, and the least for half a text.
const TAPS: usize = 24;
const LEAST_TEXT: usize = 16;
/// Lines below the list from which on other things stand there, and columns from which on two of them do.
const BELOW: u16 = 12;
const BESIDE: u16 = 160;
/// Columns from which on the headers of an event stand beside the list, and lines below them from which on its queue
/// pair stands there over time.
const HEADERS_BESIDE: u16 = 200;
const OVER_TIME: usize = 6;
/// Notices shown, at most, where events fill the screen.
const NOTICES: u16 = 2;

/// State of the screen Events.
#[derive(Debug, Default)]
pub struct EventsScreen {
    /// Place in the list.
    pub cursor: Cursor,
}

impl EventsScreen {
    /// Entry that is selected.
    pub(in crate::tui) fn entry<'a>(&self, view: &'a View) -> Option<EntryAt<'a>> {
        self.cursor.selected.and_then(|at| all(view).nth(at)).map(|(listed, _)| listed)
    }

    /// What the user looks at; `None` at the top of the list with nothing selected.
    pub(in crate::tui) fn reading(&self, view: &View) -> Option<Reading> {
        let Cursor { selected, offset } = self.cursor;
        let number = |at: usize| Some(all(view).nth(at)?.0.entry.number);
        (offset > 0 || selected.is_some()).then(|| Reading {
            joined: is_joined(view),
            latest: number(0),
            top: number(offset),
            selected: selected.and_then(number),
        })
    }

    /// Keeps to what the user looked at before other events came, or the terminal got another size.
    pub(in crate::tui) fn go_on(&mut self, view: &View, reading: Option<Reading>) {
        let Some(Reading { joined, latest, top, selected }) = reading else { return };
        let row = |number: u64| {
            let place = view.shown_events().position(|listed| listed.entry.number == number)?;
            row_of(view, place)
        };
        if is_joined(view) == joined {
            let new = latest.and_then(row).unwrap_or(0);
            self.cursor.offset += new;
            self.cursor.selected = self.cursor.selected.map(|at| at + new);
        } else {
            self.cursor.offset = top.and_then(row).unwrap_or(0);
            self.cursor.selected = selected.and_then(row);
        }
    }
}

/// Place of a user in the list.
#[derive(Clone, Copy, Debug)]
pub(in crate::tui) struct Reading {
    /// True if rows stand for several events.
    joined: bool,
    /// Entries of the first row, of the first one that is visible, and of the selected one.
    latest: Option<u64>,
    top: Option<u64>,
    selected: Option<u64>,
}

impl Page for EventsScreen {
    fn step(&mut self, view: &mut View, step: Move) {
        self.cursor.step(step, all(view).count(), page(view));
    }

    fn open(&mut self, view: &mut View) -> Effect {
        if self.cursor.selected.is_none() {
            self.step(view, Move::Up);
        }
        self.entry(view).map_or(Effect::None, |entry| Effect::Packet(OpenedEvent::latest(entry)))
    }

    fn click(&mut self, view: &mut View, at: Position) -> Effect {
        let layout = view.layout();
        let list = inner(areas(&layout, view).list, layout.boxed());
        if click_list(&mut self.cursor, list, all(view).count(), at) { self.open(view) } else { Effect::None }
    }

    fn keep_in_view(&mut self, view: &View) {
        // To count them is to search all of the log.
        if view.screen == Screen::Events {
            self.cursor.show(all(view).count(), page(view));
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
        self.entry(view).map(|listed| (listed.entry.key, Log::answers(listed.entry)))
    }

    fn export_table(&self, view: &View) -> ExportTable {
        let mut table = ExportTable::new(&[
            "link",
            "also_at",
            "direction",
            "first_ns",
            "last_ns",
            "event",
            "src",
            "dst",
            "dest_qp",
            "count",
            "answered_by_naks",
            "retransmitted",
            "text",
        ]);
        let links = view.data.as_ref().map_or(&[][..], |data| &data.sample.links);
        let also = |entry: &Entry| {
            let names = entry.also.iter().filter_map(|at| links.get(usize::from(*at)));
            names.map(|link| link.name.as_str()).collect::<Vec<_>>().join(" ")
        };
        table.rows = view
            .shown_events()
            .map(|listed| {
                let EntryAt { entry, state } = listed;
                let key = &entry.key;
                let link = links.get(usize::from(key.link));
                vec![
                    json!(link.map(|link| &link.name)),
                    json!(also(entry)),
                    export_table::direction(link.and_then(|link| link.direction)),
                    json!(entry.first_ns),
                    json!(state.time_ns),
                    json!(entry.class.word),
                    json!(address(key.family, key.src)),
                    json!(address(key.family, key.dst)),
                    json!(key.dest_qp),
                    json!(state.count),
                    json!((entry.class.bit == Event::GAP).then_some(listed.naks())),
                    json!(listed.retransmitted(view.timeline.shown_ns)),
                    json!(listed.text(view.timeline.shown_ns)),
                ]
            })
            .collect();
        table
    }

    fn render(&self, buffer: &mut Buffer, at: &Layout, view: &View) {
        render(buffer, at, view, self.cursor);
    }
}

/// Areas of the screen, each with its frame; one that is not shown is empty.
struct Areas {
    list: Rect,
    /// The timeline of all signals, below a list that is short.
    timeline: Rect,
    /// The headers of an event, beside it, or on the widest screens beside the list.
    headers: Rect,
    notices: Rect,
}

fn areas(layout: &Layout, view: &View) -> Areas {
    let body = layout.body;
    let frame = frame_height(layout.boxed());
    let rows = all(view).take(usize::from(body.height)).count();
    let used = frame + 1 + u16::try_from(rows).unwrap_or(u16::MAX - frame - 1).max(2);
    // More of them where the list leaves room.
    let all = u16::try_from(notices(view).count()).unwrap_or(u16::MAX);
    let shown = all.min(body.height.saturating_sub(used.saturating_add(frame)).max(NOTICES));
    let framed = if shown > 0 { shown + frame } else { 0 };
    let height = if shown <= NOTICES && framed > body.height / 3 { 0 } else { framed };
    let left = body.height - height;
    let spare = left.saturating_sub(used);
    let below = if layout.boxed() && rows > 0 && spare >= BELOW { spare } else { 0 };
    let notices = Rect { y: body.y + left, height, ..body };
    if layout.boxed() && rows > 0 && body.width >= HEADERS_BESIDE {
        let width = WIDEST.min(body.width / 3);
        let list = Rect { width: body.width - width, height: left - below, ..body };
        let timeline = Rect { y: list.bottom(), height: below, ..list };
        let headers = Rect { x: list.right(), width, height: left, ..body };
        return Areas { list, timeline, headers, notices };
    }
    let list = Rect { height: left - below, ..body };
    let below = Rect { y: list.bottom(), height: below, ..body };
    let beside = if body.width >= BESIDE { WIDEST.min(body.width / 2) } else { body.width };
    let timeline = Rect { width: body.width - beside, ..below };
    let headers = Rect { x: timeline.right(), width: beside, ..below };
    Areas { list, timeline, headers, notices }
}

/// The event whose headers stand below the list: the selected one, else the latest that has any.
fn previewed<'a>(view: &'a View, cursor: &Cursor) -> Option<EntryAt<'a>> {
    let selected = cursor.selected.and_then(|at| all(view).nth(at)).map(|(listed, _)| listed);
    let first = || view.shown_events().find(|listed| !listed.state.event.headers.is_empty());
    selected.or_else(first).or_else(|| view.shown_events().next())
}

/// Parts below the list, as far as there is room: all signals over time, and the headers of an event.
fn below(buffer: &mut Buffer, areas: &Areas, boxed: bool, view: &View, cursor: &Cursor) {
    if let Some(data) = &view.data {
        timeline::render_in(buffer, areas.timeline, boxed, view, data);
    }
    if let Some(listed) = previewed(view, cursor).filter(|_| !areas.headers.is_empty()) {
        let about = route(&listed.entry.key);
        let hint = format!("{} opens", view.options.keys.first(Input::Open));
        let area = panel(buffer, areas.headers, boxed, Title { name: "HEADERS", about: &about, hint: &hint });
        let area = Rect { x: area.x + 1, width: area.width.saturating_sub(1), ..area };
        let mut lines = packet::lines_in(view, OpenedEvent::latest(listed), usize::from(area.width), false);
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        lines.truncate(height);
        let free = height.saturating_sub(lines.len() + 1);
        let row =
            |data: &Data| data.model.rows.iter().find(|row| row.id.key == listed.entry.key).map(|row| row.id);
        if let Some(id) = view.data.as_ref().filter(|_| free >= OVER_TIME).and_then(|data| row(data)) {
            lines.push(Line::default());
            lines.extend(trends::charts_in(view, (&id, None), width, free));
        }
        scrolled(buffer, area, &lines, 0);
    }
}

/// Events that are visible.
fn page(view: &View) -> usize {
    let layout = view.layout();
    usize::from(inner(areas(&layout, view).list, layout.boxed()).height.saturating_sub(1))
}

fn render(buffer: &mut Buffer, at: &Layout, view: &View, cursor: Cursor) {
    let areas = areas(at, view);
    below(buffer, &areas, at.boxed(), view, &cursor);
    let key = |input| view.options.keys.first(input);
    let hint = format!("{} headers · {} pcapng", key(Input::Open), key(Input::Capture));
    let list =
        panel(buffer, areas.list, at.boxed(), Title { name: "EVENTS", about: "newest first", hint: &hint });
    let visible: Vec<_> = all(view).enumerate().skip(cursor.offset).take(page(view)).collect();
    let entries = || visible.iter().map(|(_, (listed, _))| listed.entry);
    let flow = entries().map(|entry| route(&entry.key).chars().count()).max().unwrap_or(4);
    let words = entries().map(|entry| entry.class.word.chars().count());
    let word = words.max().unwrap_or(0).max("EVENT".len());
    let head = format!(" {:<12}   {:<word$} {:<flow$}  DETAIL", "TIME (UTC)", "EVENT", "FLOW");
    line(buffer, list, 0, &Line::styled(head, theme::DIM));
    let mut y = 1;
    for (place, row) in &visible {
        line(buffer, list, y, &with_others(*row, view, (word, flow), usize::from(list.width)));
        if cursor.selected == Some(*place) {
            select(buffer, Rect { y: list.y + y, height: 1, ..list });
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
    notice_lines(buffer, areas.notices, at.boxed(), view);
}

/// An event in a line of `width` columns.
pub(super) fn row(listed: EntryAt<'_>, view: &View, width: usize) -> Line<'static> {
    aligned(listed, view, (4, 0), width)
}

/// The latest events, each with the number of those that are one line with it: flows that begin or fall silent within a
/// second. Those of a job would leave no line for what was wrong before.
fn grouped(view: &View) -> impl Iterator<Item = (EntryAt<'_>, usize)> {
    let mut listed = view.shown_events().peekable();
    std::iter::from_fn(move || {
        let first = listed.next()?;
        let is_alike = |next: &EntryAt<'_>| {
            let (class, other) = (first.entry.class, next.entry.class);
            let apart = first.state.time_ns.abs_diff(next.state.time_ns);
            [Event::NEW_FLOW, IDLE].contains(&class.bit) && class.bit == other.bit && apart < NS_PER_S
        };
        let others = std::iter::from_fn(|| listed.next_if(is_alike)).count();
        Some((first, others))
    })
}

/// Lines of the latest events on the overview, at most `most`.
pub(super) fn row_count(view: &View, most: usize) -> usize {
    grouped(view).take(most).count()
}

/// The same where `room` lines have not enough for all of them, else each on its own.
fn listed(view: &View, room: usize) -> Box<dyn Iterator<Item = (EntryAt<'_>, usize)> + '_> {
    if view.shown_events().nth(room).is_none() {
        Box::new(view.shown_events().map(|one| (one, 0)))
    } else {
        Box::new(grouped(view))
    }
}

/// The rows of the list: a filter lists each event.
fn all(view: &View) -> Box<dyn Iterator<Item = (EntryAt<'_>, usize)> + '_> {
    let room = if view.filter.query.is_empty() { usize::from(view.layout().body.height) } else { usize::MAX };
    listed(view, room)
}

/// True if a row of the list may stand for several events.
fn is_joined(view: &View) -> bool {
    let room = usize::from(view.layout().body.height);
    view.filter.query.is_empty() && view.shown_events().nth(room).is_some()
}

/// The row of the list in which the event at this place of all stands.
fn row_of(view: &View, place: usize) -> Option<usize> {
    let mut before = 0;
    all(view).position(|(_, others)| {
        before += 1 + others;
        before > place
    })
}

/// The row of the list with the event in this one of `room` lines of the overview.
pub(super) fn place(view: &View, row: usize, room: usize) -> Option<usize> {
    let mut rows = listed(view, room);
    let before = rows.by_ref().take(row).map(|(_, others)| 1 + others).sum();
    rows.next().and_then(|_| row_of(view, before))
}

/// The latest events in `room` lines of `width` columns.
pub(super) fn rows(view: &View, width: usize, room: usize) -> Vec<Line<'static>> {
    listed(view, room).take(room).map(|row| with_others(row, view, (4, 0), width)).collect()
}

/// An event, and how many others its line stands for.
fn with_others(
    (first, others): (EntryAt<'_>, usize),
    view: &View,
    columns: (usize, usize),
    width: usize,
) -> Line<'static> {
    if others == 0 {
        return aligned(first, view, columns, width);
    }
    let more = format!("  and {}", units::plural(others as u64, "more flow"));
    let mut line = aligned(first, view, columns, width.saturating_sub(more.chars().count()));
    line.push_span(Span::styled(more, theme::BOLD));
    line
}

/// The same with word and flow in this number of columns, and 0 for as many as it takes.
fn aligned(listed: EntryAt<'_>, view: &View, (word, flow): (usize, usize), width: usize) -> Line<'static> {
    let EntryAt { entry, state } = listed;
    let level = view.level_between(&entry.key, entry.class.about);
    let symbol = if level == Level::Fine { "·" } else { theme::symbol(level) };
    let mut spans = Spans::default();
    spans.push(format!(" {} ", units::clock_utc(state.time_ns)), theme::DIM);
    spans.push(format!("{symbol} {:<word$} ", entry.class.word), theme::text(level));
    spans.push(format!("{:<flow$}", route(&entry.key)), theme::PLAIN);
    if state.count > 1 {
        // In a table it begins where the text of others does.
        let gap = if flow > 0 { "  " } else { " " };
        spans.push(format!("{gap}×{}", compact(state.count as f64)), theme::BOLD);
    }
    let mut text = listed.text(view.timeline.shown_ns);
    // The reason of a NAK, its timer and the size of a gap come before how long they took, and all before the taps.
    let mut room = width.saturating_sub(spans.width + 2);
    // Missing PSNs, NAKs and retransmissions belong together: in short where they have no room in words.
    let brief = listed.brief(view.timeline.shown_ns);
    let together = brief.as_ref().map(|brief| {
        let parts = brief.matches(", ").count() + 1;
        let words: Vec<&str> = text.splitn(parts + 1, ", ").take(parts).collect();
        words.join(", ").chars().count()
    });
    let brief = brief.filter(|_| together.is_some_and(|letters| letters > room));
    let is_brief = brief.is_some();
    text = brief.unwrap_or(text);
    let says_more = [Event::NAK, Event::RNR, Event::GAP].contains(&entry.class.bit);
    for (part, needed) in [(lasted(listed), !says_more), (seen_at(listed, view), false)] {
        let Some(part) = part else { continue };
        let left = room.saturating_sub(part.chars().count());
        let fits = match together {
            _ if is_brief => text.chars().count() <= left,
            Some(letters) => letters <= left,
            None => needed || whole(&text, left).is_some() || whole(&text, room).is_none(),
        };
        if fits {
            room = left;
            spans.push(part, theme::DIM);
        }
    }
    // Whole parts: half of one says less than the name of the event.
    let parts = whole(&text, room).or(Some(&*text).filter(|_| room >= LEAST_TEXT));
    spans.push(format!("  {}", parts.unwrap_or_default()), theme::PLAIN);
    spans.into_line()
}

/// Duration of several events of a kind.
fn lasted(EntryAt { entry, state }: EntryAt<'_>) -> Option<String> {
    let length = || units::duration(state.time_ns.saturating_sub(entry.first_ns));
    (state.count > 1).then(|| format!(" in {}", length()))
}

/// The taps that saw it: a packet that several of them see is one event.
fn seen_at(listed: EntryAt<'_>, view: &View) -> Option<String> {
    let data = view.data.as_ref().filter(|data| data.model.dedup.taps > 1)?;
    let names = names::distinct(&data.model.links.iter().map(column::shown_link).collect::<Vec<_>>());
    let mut links: Vec<u16> = listed.entry.also.iter().copied().chain([listed.entry.key.link]).collect();
    links.sort_unstable();
    let at: Vec<&str> =
        links.iter().filter_map(|link| names.get(usize::from(*link))).map(String::as_str).collect();
    Some(format!("  at {}", cut(&at.join(" "), TAPS, false)))
}

/// The notices, the latest first, without those of the privileges, which the help has.
fn notices(view: &View) -> impl Iterator<Item = &String> {
    view.messages.notices.iter().rev().filter(|notice| !view.options.notes.contains(notice))
}

/// The latest notices, a line each, and how many there were.
fn notice_lines(buffer: &mut Buffer, area: Rect, boxed: bool, view: &View) {
    if area.is_empty() {
        return;
    }
    let about = units::count(notices(view).count() as u64);
    let area = panel(buffer, area, boxed, Title { name: "NOTICES", about: &about, hint: "" });
    for (y, notice) in (0..area.height).zip(notices(view)) {
        line(buffer, area, y, &Line::raw(format!(" {notice}")));
    }
}
