//! Everything about the selected queue pair, both directions side by side.

mod counter;
mod direction;

use std::fmt::Write as _;
use std::rc::Rc;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use rocescope_common::account::FlowKey;
use serde_json::json;

use super::overview::problems;
use super::page::{Effect, Hints, Page};
use super::trends::{self, LATENCY, taller};
use super::{empty, export_table, reverse};
use crate::model::{Detail, Identity, Row};
use crate::sample::address;
use crate::tui::column::unit::Unit;
use crate::tui::column::{self, Id};
use crate::tui::cursor::{Cursor, Move};
use crate::tui::data::Data;
use crate::tui::export::ExportTable;
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::log::{self, EntryAt};
use crate::tui::overlay::OpenedEvent;
use crate::tui::view::View;
use crate::tui::widgets::panel::{Title, panel, section};
use crate::tui::widgets::{Lines, Spans, beside, scrolled, select};
use crate::tui::{names, theme};
use crate::util::layout::tap_name;
use crate::util::wrap::wrap;

/// Below this width the directions stand one below the other.
const STACKED: usize = 76;

/// From this width on the figures stand left of the charts.
const BESIDE: usize = 180;
/// Columns of the figures of a direction there.
const FIGURES: usize = 52;
/// Lines below them from which on the other direction stands there over time: a title, two charts, their clock.
const OTHER: usize = 4;

/// Events listed, at most.
const EVENTS: usize = 20;

/// State of the screen Detail.
#[derive(Debug, Default)]
pub struct DetailScreen {
    /// First visible line.
    pub scroll: Cursor,
    /// The marked entry among the events.
    pub marked: Option<u64>,
    /// The selected flow and its other direction.
    pub shown: Option<(Detail, Option<Detail>)>,
    lines: Lines,
}

impl DetailScreen {
    /// Looks up a flow and its other direction.
    pub(in crate::tui) fn look_up(&mut self, data: &Data, id: Option<Identity>) {
        self.shown = id.and_then(|id| {
            let row = data.row(&id)?;
            let detail = Detail::new(&data.sample, row.at?)?;
            let other = reverse::other_direction(&data.sample, &detail);
            Some((detail, other.and_then(|at| Detail::new(&data.sample, at))))
        });
    }

    /// Shows the first line, and no event marked.
    pub(in crate::tui) fn scroll_to_top(&mut self) {
        (self.scroll, self.marked) = (Cursor::default(), None);
    }

    /// Keys of the flow and of its other direction.
    #[must_use]
    pub(in crate::tui) fn keys(&self) -> Option<(FlowKey, Option<FlowKey>)> {
        let (this, other) = self.shown.as_ref()?;
        Some((this.id.key, other.as_ref().map(|other| other.id.key)))
    }

    /// The latest events of the queue pair, the latest first.
    #[must_use]
    pub fn events<'a>(&self, view: &'a View) -> Vec<EntryAt<'a>> {
        let Some((this, other)) = self.keys() else { return Vec::new() };
        let own = |listed: &EntryAt<'_>| listed.entry.key == this || Some(listed.entry.key) == other;
        view.log.listed(view.timeline.shown_ns).filter(own).take(EVENTS).collect()
    }

    /// Place of the marked one among them.
    fn marked_place(&self, events: &[EntryAt<'_>]) -> Option<usize> {
        let marked = self.marked?;
        events.iter().position(|listed| listed.entry.number == marked)
    }

    /// Number of lines at the present width.
    fn height(&self, view: &View) -> usize {
        self.lines_at(view, usize::from(view.layout().inner().width)).len()
    }

    fn lines_at(&self, view: &View, width: usize) -> Rc<[Line<'static>]> {
        let height = usize::from(view.layout().inner().height);
        self.lines.at(width | height << 16, || {
            if width >= BESIDE {
                return wide(self, view, width, height);
            }
            let least = lines(self, view, width, 1);
            let high = taller(least.len(), height, || lines(self, view, width, 2).len());
            if high > 1 { lines(self, view, width, high) } else { least }
        })
    }

    /// Marks the event on this line.
    fn mark(&mut self, view: &View, number: u64, line: usize, lines: usize) {
        self.marked = Some(number);
        let page = usize::from(view.layout().inner().height).saturating_sub(1).max(1);
        let mut cursor = Cursor { selected: Some(line), offset: self.scroll.offset };
        cursor.show(lines + 1, page);
        self.scroll.offset = cursor.offset;
    }
}

impl Page for DetailScreen {
    fn kept_lines(&self) -> Option<&Lines> {
        Some(&self.lines)
    }

    /// Moves line by line down to the events, and on through them.
    fn step(&mut self, view: &mut View, step: Move) {
        let lines = self.height(view);
        let room = usize::from(view.layout().inner().height);
        let events = self.events(view);
        let first = first_event(lines, events.len());
        // The last line in view says how many more there are.
        let seen = |offset: usize, at: usize| {
            (offset..(offset + room).saturating_sub(usize::from(offset + room < lines)))
                .contains(&(first + at))
        };
        let to = match (step, self.marked_place(&events)) {
            (Move::Down, Some(at)) => Some(at + 1),
            (Move::Down, None) => {
                let at = self.scroll.offset.saturating_sub(first);
                Some(at).filter(|at| seen(self.scroll.offset, *at))
            }
            (Move::Up, Some(at)) => at.checked_sub(1),
            _ => None,
        };
        if let Some((at, listed)) = to.and_then(|at| Some((at, events.get(at)?))) {
            self.mark(view, listed.entry.number, first + at, lines);
            return;
        }
        self.scroll.scroll(step, lines, room);
        let kept = self.marked_place(&events).filter(|at| seen(self.scroll.offset, *at));
        if kept.is_none() || (step, kept) == (Move::Up, Some(0)) {
            self.marked = None;
        }
    }

    /// Opens the marked event, or else the latest.
    fn open(&mut self, view: &mut View) -> Effect {
        let events = self.events(view);
        let at = self.marked_place(&events).unwrap_or(0);
        let Some(listed) = events.get(at).copied() else {
            view.messages.say("no events kept for this queue pair");
            return Effect::None;
        };
        let opened = OpenedEvent::latest(listed);
        let lines = self.height(view);
        self.mark(view, opened.entry, first_event(lines, events.len()) + at, lines);
        Effect::Packet(opened)
    }

    /// A click on an event marks it, or opens it when it is marked.
    fn click(&mut self, view: &mut View, at: Position) -> Effect {
        let body = view.layout().inner();
        let Some(y) = at.y.checked_sub(body.y).filter(|y| *y < body.height) else { return Effect::None };
        let events = self.events(view);
        let first = first_event(self.height(view), events.len());
        let place = (self.scroll.offset + usize::from(y)).checked_sub(first);
        let number = place.and_then(|place| events.get(place)).map(|listed| listed.entry.number);
        if number.is_some() && number == self.marked {
            return self.open(view);
        }
        self.marked = number.or(self.marked);
        Effect::None
    }

    fn hints(&self, _: &View) -> Hints {
        (&[(&[Input::Back], "back"), (&[Input::Open], "headers")], &[(&[Input::Capture], "pcapng")])
    }

    fn flow(&self, view: &View) -> Option<(FlowKey, Option<FlowKey>)> {
        self.keys().or_else(|| view.selected.map(|id| (id.key, None)))
    }

    /// The charts of both directions, with their counters.
    fn export_table(&self, view: &View) -> ExportTable {
        let mut table = export_table::over_time(&["link", "src", "dst", "dest_qp"], LATENCY);
        for one in self.shown.iter().flat_map(|(this, other)| std::iter::once(this).chain(other)) {
            let key = &one.id.key;
            let [src, dst] = [key.src, key.dst].map(|end| address(key.family, end));
            let first = [json!(one.link), json!(src), json!(dst), json!(key.dest_qp)];
            let points = trends::flow_points(view, &one.id, usize::MAX);
            export_table::add_points(&mut table, &first, &points, LATENCY);
        }
        table
    }

    fn render(&self, buffer: &mut Buffer, at: &Layout, view: &View) {
        if empty::nothing_at_all(buffer, at.body, view) {
            return;
        }
        let Some((this, _)) = &self.shown else {
            let (why, help) = not_shown(view);
            empty::because(buffer, at.body, why, help);
            return;
        };
        let key = |input| view.options.keys.first(input);
        let hint = format!("{} headers · {} back", key(Input::Open), key(Input::Back));
        let about = format!("{} at {}", log::route(&this.id.key), tap_name(&this.link));
        let area =
            panel(buffer, at.body, at.boxed(), Title { name: "QUEUE PAIR", about: &about, hint: &hint });
        let lines = self.lines_at(view, usize::from(area.width));
        scrolled(buffer, area, &lines, self.scroll.offset);
        let events = self.events(view);
        let marked = self.marked_place(&events).map(|at| first_event(lines.len(), events.len()) + at);
        let y = marked.and_then(|line| u16::try_from(line.checked_sub(self.scroll.offset)?).ok());
        if let Some(y) = y.filter(|y| *y < area.height) {
            select(buffer, Rect { y: area.y + y, height: 1, ..area });
        }
    }
}

/// Summary of a flow in `height` lines, its course first. The frame around it names the flow.
pub(super) fn preview(view: &View, id: Identity, width: usize, height: usize) -> Vec<Line<'static>> {
    let mut screen = DetailScreen::default();
    if let Some(data) = &view.data {
        screen.look_up(data, Some(id));
    }
    let [head, mut charts, tail] = parts(&screen, view, width, 1);
    let used = head.len() + charts.len() + tail.len() + 1;
    let more = || parts(&screen, view, width, 2)[1].len() - charts.len();
    let high = taller(used, height, || used + more());
    if high > 1 {
        [_, charts, _] = parts(&screen, view, width, high);
    }
    let mut lines: Vec<_> = charts.into_iter().skip(1).collect();
    if let Some(clock) = lines.pop() {
        // The clock is worth more than the last signal.
        lines.truncate(height.saturating_sub(1));
        lines.push(clock);
    }
    lines.push(Line::default());
    lines.extend(head);
    lines.push(Line::default());
    lines.extend(tail);
    lines.truncate(height);
    lines
}

/// The line of the first of `events` events, which stand at the end of `lines` lines with a line below them.
const fn first_event(lines: usize, events: usize) -> usize {
    lines.saturating_sub(events + 1)
}

/// Reason why no queue pair is shown, and what helps.
fn not_shown(view: &View) -> (&'static str, &'static str) {
    match (view.selected.is_some(), view.past()) {
        (true, true) => (
            "This queue pair is not kept in this snapshot.",
            "History keeps the 1,000 busiest; go to another time, or choose one on screen 2 and press Enter.",
        ),
        (true, false) => ("This queue pair has expired.", "Choose one on screen 2 and press Enter."),
        (false, _) => ("No queue pair is selected.", "Choose one on screen 2 and press Enter."),
    }
}

/// Both directions side by side, charts over time, the latest events.
fn lines(screen: &DetailScreen, view: &View, width: usize, high: usize) -> Vec<Line<'static>> {
    let [mut lines, charts, tail] = parts(screen, view, width, high);
    if !lines.is_empty() {
        lines.push(Line::default());
        lines.extend(charts);
        lines.push(Line::default());
        lines.extend(tail);
    }
    lines
}

/// Figures of a direction, and what else is known of it.
type Figures = (Vec<Line<'static>>, Vec<Line<'static>>);

/// Both directions, each in this number of columns.
fn figures(this: &Detail, other: Option<&Detail>, view: &View, columns: [usize; 2]) -> [Figures; 2] {
    let left = direction::lines(this, view, columns[0], other);
    let Some(other) = other else {
        let why = if this.peer_qp.is_some() {
            "reverse flow not captured"
        } else {
            "reverse flow unknown (no CM exchange captured)"
        };
        let parts = wrap(why, columns[1].saturating_sub(3)).into_iter();
        return [
            left,
            (parts.map(|part| Line::styled(format!(" {part}"), theme::DIM)).collect(), Vec::new()),
        ];
    };
    [left, direction::lines(other, view, columns[1], Some(this))]
}

/// What is wrong with the queue pair, its figures left of its charts, which have the height of the screen, and the
/// latest events. Below the figures is the other direction over time.
fn wide(screen: &DetailScreen, view: &View, width: usize, height: usize) -> Vec<Line<'static>> {
    let Some((this, other)) = &screen.shown else { return Vec::new() };
    let mut lines = problem_lines(screen, view, width);
    let events = event_lines(screen, view, width);
    let room = height.saturating_sub(lines.len() + events.len() + 1);
    let [first, second] = figures(this, other.as_ref(), view, [FIGURES; 2]).map(|(mut head, tail)| {
        head.push(Line::default());
        head.extend(tail);
        head
    });
    let (mut left, columns) = if other.is_some() {
        (beside(first, second, FIGURES), 2 * FIGURES)
    } else {
        (first.into_iter().chain([Line::default()]).chain(second).collect(), FIGURES)
    };
    let free = room.saturating_sub(left.len() + 1);
    let below = other.as_ref().filter(|_| free >= OTHER);
    if let Some(other) = below {
        left.push(Line::default());
        left.extend(trends::charts_in(view, (&other.id, None), columns - 1, free));
    }
    let mut right: Vec<_> = at_taps(view, this, width - columns).into_iter().skip(1).collect();
    let most = room.max(left.len()).saturating_sub(right.len());
    let beside_it = other.as_ref().filter(|_| below.is_none()).map(|other| &other.id);
    right.extend(trends::charts_in(view, (&this.id, beside_it), width - columns, most));
    lines.extend(beside(left, right, columns));
    lines.push(Line::default());
    lines.extend(events);
    lines
}

/// The problems that name the queue pair, with a blank line below; nothing where none does.
fn problem_lines(screen: &DetailScreen, view: &View, width: usize) -> Vec<Line<'static>> {
    let keys: Vec<FlowKey> =
        screen.keys().into_iter().flat_map(|(this, other)| [this].into_iter().chain(other)).collect();
    let named = problems::naming(view, &keys, width);
    if named.is_empty() {
        return Vec::new();
    }
    let head = section("PROBLEMS", "that name this queue pair", width);
    [head].into_iter().chain(named).chain([Line::default()]).collect()
}

/// The figures of both directions, the charts, and what else there is with the events.
fn parts(screen: &DetailScreen, view: &View, width: usize, high: usize) -> [Vec<Line<'static>>; 3] {
    let Some((this, other)) = &screen.shown else { return Default::default() };
    // Half of a narrow screen would cut values: one direction stands below the other.
    let stacked = width < STACKED;
    let half = if stacked { 0 } else { width / 2 };
    let columns = [if stacked { width } else { half }, width - half];
    let [left, (right, more)] = figures(this, other.as_ref(), view, columns);
    let both = |first: Vec<Line<'static>>, second: Vec<Line<'static>>| {
        if stacked { first.into_iter().chain(second).collect() } else { beside(first, second, half) }
    };
    let mut head = both(left.0, right);
    head.extend(at_taps(view, this, width));
    let mut tail = both(left.1, more);
    tail.push(Line::default());
    tail.extend(problem_lines(screen, view, width));
    tail.extend(event_lines(screen, view, width));
    [head, trends::charts(view, (&this.id, other.as_ref().map(|other| &other.id)), width, high), tail]
}

/// The same direction of the queue pair at each tap that sees it, where several do.
fn at_taps(view: &View, this: &Detail, width: usize) -> Vec<Line<'static>> {
    const SHOWN: [Id; 7] =
        [Id::Rate, Id::PacketRate, Id::Packets, Id::Lost, Id::Retransmissions, Id::Gaps, Id::CeNow];
    /// Columns of a name at most, and of each figure.
    const NAME: usize = 40;
    const FIGURE: u16 = 7;
    let Some(data) = view.data.as_ref().filter(|data| data.model.dedup.taps > 1) else { return Vec::new() };
    let key = &this.id.key;
    let same = |row: &&Row| {
        let other = &row.id.key;
        (other.family, other.src, other.dst, other.dest_qp) == (key.family, key.src, key.dst, key.dest_qp)
    };
    let rows: Vec<&Row> = data.model.rows.iter().filter(same).collect();
    if rows.len() < 2 {
        return Vec::new();
    }
    let shown: Vec<String> = data.model.links.iter().map(column::shown_link).collect();
    let longest = shown.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let most = width.saturating_sub(2 + SHOWN.len() * (usize::from(FIGURE) + 1)).min(NAME);
    let name_width = longest.min(most).max(8);
    let cx = data.context();
    let figures = SHOWN.map(column::column);
    let figures = figures.map(|figure| (figure, Unit::of(figure, FIGURE, &rows, cx)));
    let room = usize::from(FIGURE);
    let mut head = format!(" {:<name_width$}", "TAP");
    for (figure, unit) in &figures {
        let title = unit.as_ref().map_or(figure.title, |unit| unit.title.as_str());
        let _ = write!(head, " {title:>room$}");
    }
    let mut lines = vec![Line::default(), section("TAPS", "the same packets at each of them", width)];
    lines.push(Line::styled(head, theme::DIM));
    lines.extend(rows.into_iter().map(|row| {
        let name = shown.get(usize::from(row.id.key.link)).map_or("", String::as_str);
        let name = names::apart(name, shown.iter().map(String::as_str), name_width);
        let mut spans = Spans::default();
        spans.push(format!(" {name:<name_width$}"), theme::PLAIN);
        for (figure, unit) in &figures {
            let (text, style) = figure.cell(row, cx);
            let text = unit.as_ref().map_or(text, |unit| unit.show(figure, row, cx));
            spans.push(format!(" {text:>room$}"), style);
        }
        spans.into_line()
    }));
    lines
}

fn event_lines(screen: &DetailScreen, view: &View, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![section("EVENTS", "of this queue pair, newest first", width)];
    let listed = screen.events(view);
    let key = |input| view.options.keys.first(input);
    let below = if listed.is_empty() {
        " none".to_owned()
    } else {
        format!(" {} {}: select, {}: headers", key(Input::Up), key(Input::Down), key(Input::Open))
    };
    lines.extend(listed.into_iter().map(|listed| super::events::row(listed, view, width)));
    lines.push(Line::styled(below, theme::DIM));
    lines
}
