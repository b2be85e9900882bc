//! Everything about the selected queue pair, both directions side by side.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use rocescope_common::account::flow::{DSCP_NONE, FlowStats, SRC_QP_SEVERAL};
use rocescope_common::account::{FlowKey, Mixed, PsnTrack};
use rocescope_common::wire::opcode::Name;
use serde_json::json;

use super::trends::{self, LATENCY, TRENDS};
use super::{Effect, Hints, Page, Spans, cut, empty, reverse, sheet};
use crate::model::{Counts, Delta, Detail, Identity, Kind, Level, Row, State};
use crate::packet::syndrome;
use crate::report::text::{P99_SAMPLES, P999_SAMPLES, enough};
use crate::sample::address;
use crate::tui::column::{self, Context, bar, compact};
use crate::tui::cursor::{Cursor, Move};
use crate::tui::data::Data;
use crate::tui::export::Sheet;
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::log::{self, EntryAt};
use crate::tui::overlay::Opened;
use crate::tui::theme;
use crate::tui::view::View;
use crate::util::units;
use crate::util::wrap::wrap;

const NAME: usize = 9;
/// Entries of a list that are shown at least, whatever the height.
const LISTED: usize = 16;

/// Below this width the directions stand one below the other.
const STACKED: usize = 76;

/// Events listed, at most.
const EVENTS: usize = 20;

/// The screen.
#[derive(Debug, Default)]
pub struct DetailScreen {
    /// Its first line.
    pub scroll: Cursor,
    /// The marked entry among the events.
    pub marked: Option<u64>,
    /// The selected flow and its other direction.
    pub shown: Option<(Detail, Option<Detail>)>,
}

impl DetailScreen {
    /// Looks up a flow and its other direction.
    pub(in crate::tui) fn look_up(&mut self, data: &Data, id: Option<Identity>) {
        self.shown = id.and_then(|id| {
            let row = data.model.rows.iter().find(|row| row.id == id)?;
            let detail = Detail::new(&data.sample, row.at?)?;
            let other = reverse::other_direction(&data.sample, &detail);
            Some((detail, other.and_then(|at| Detail::new(&data.sample, at))))
        });
    }

    /// Shows the first line, and no event marked.
    pub(in crate::tui) fn to_top(&mut self) {
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
        lines(self, view, usize::from(view.size.0)).len()
    }

    /// Marks the event on this line.
    fn mark(&mut self, view: &View, number: u64, line: usize, lines: usize) {
        self.marked = Some(number);
        let page = usize::from(view.layout().body.height).saturating_sub(1).max(1);
        let mut cursor = Cursor { selected: Some(line), offset: self.scroll.offset };
        cursor.show(lines + 1, page);
        self.scroll.offset = cursor.offset;
    }
}

impl Page for DetailScreen {
    /// Moves line by line down to the events, and on through them.
    fn step(&mut self, view: &mut View, step: Move) {
        let lines = self.height(view);
        let room = usize::from(view.layout().body.height);
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
        let opened = Opened::latest(listed);
        let lines = self.height(view);
        self.mark(view, opened.entry, first_event(lines, events.len()) + at, lines);
        Effect::Packet(opened)
    }

    /// A click on an event marks it, or opens it when it is marked.
    fn click(&mut self, view: &mut View, at: Position) -> Effect {
        let body = view.layout().body;
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
    fn sheet(&self, view: &View) -> Sheet {
        let mut table = sheet::over_time(&["link", "src", "dst", "dest_qp"], LATENCY);
        for one in self.shown.iter().flat_map(|(this, other)| std::iter::once(this).chain(other)) {
            let key = &one.id.key;
            let [src, dst] = [key.src, key.dst].map(|end| address(key.family, end));
            let first = [json!(one.link), json!(src), json!(dst), json!(key.dest_qp)];
            let points = trends::flow_points(view, &one.id, usize::MAX);
            sheet::add_points(&mut table, &first, &points, LATENCY);
        }
        table
    }

    fn render(&self, buffer: &mut Buffer, at: &Layout, view: &View) {
        let area = at.body;
        if empty::nothing_at_all(buffer, area, view) {
            return;
        }
        if self.shown.is_none() {
            let (why, help) = not_shown(view);
            empty::because(buffer, area, why, help);
            return;
        }
        let lines = lines(self, view, usize::from(area.width));
        super::scrolled(buffer, area, &lines, self.scroll.offset);
        let events = self.events(view);
        let marked = self.marked_place(&events).map(|at| first_event(lines.len(), events.len()) + at);
        let y = marked.and_then(|line| u16::try_from(line.checked_sub(self.scroll.offset)?).ok());
        if let Some(y) = y.filter(|y| *y < area.height) {
            super::select(buffer, Rect { y: area.y + y, height: 1, ..area });
        }
    }
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
fn lines(screen: &DetailScreen, view: &View, width: usize) -> Vec<Line<'static>> {
    let Some((this, other)) = &screen.shown else { return Vec::new() };
    // Half of a narrow screen would cut figures: one below the other.
    let stacked = width < STACKED;
    let half = if stacked { 0 } else { width / 2 };
    let left = direction(this, view, if stacked { width } else { half }, other.as_ref());
    let (right, more) = if let Some(other) = other {
        direction(other, view, width - half, Some(this))
    } else {
        let why = if this.peer_qp.is_some() {
            "reverse flow not captured"
        } else {
            "reverse flow unknown (no CM exchange captured)"
        };
        let parts = wrap(why, (width - half).saturating_sub(3));
        (parts.into_iter().map(|part| Line::styled(format!(" {part}"), theme::DIM)).collect(), Vec::new())
    };
    let both = |first: Vec<Line<'static>>, second: Vec<Line<'static>>| {
        if stacked { first.into_iter().chain(second).collect() } else { beside(first, second, half) }
    };
    let mut lines = both(left.0, right);
    lines.push(Line::default());
    lines.extend(charts(view, this, other.as_ref(), width));
    lines.push(Line::default());
    lines.extend(both(left.1, more));
    lines.push(Line::default());
    lines.extend(event_lines(screen, view));
    lines
}

/// Two lists of lines, the second from column `at` on.
fn beside(left: Vec<Line<'static>>, right: Vec<Line<'static>>, at: usize) -> Vec<Line<'static>> {
    let count = left.len().max(right.len());
    let mut left = left.into_iter();
    let mut right = right.into_iter();
    (0..count)
        .map(|_| {
            let mut spans = Vec::new();
            let mut used = 0;
            for span in left.next().unwrap_or_default().spans {
                let room = at.saturating_sub(used + 1);
                let text = cut(&span.content, room, false);
                used += text.chars().count();
                if room > 0 {
                    spans.push(Span::styled(text, span.style));
                }
            }
            spans.push(Span::raw(" ".repeat(at - used.min(at))));
            spans.extend(right.next().unwrap_or_default().spans);
            Line::from(spans)
        })
        .collect()
}

/// One direction: how it fares, and what it is. `other` is the other direction, where it is known.
fn direction(
    detail: &Detail,
    view: &View,
    width: usize,
    other: Option<&Detail>,
) -> (Vec<Line<'static>>, Vec<Line<'static>>) {
    let route = cut(&log::route(&detail.id.key), width.saturating_sub(2), true);
    let row = view.data.as_ref().and_then(|data| data.model.rows.iter().find(|row| row.id == detail.id));
    let mut fares = vec![Line::styled(format!(" {route}"), theme::HEAD)];
    // Of an older snapshot, only what is kept snapshot by snapshot.
    let later = view.data.as_ref().filter(|_| view.past()).map(|data| data.sample.time_ns);
    match later {
        Some(_) => fares.extend(then(row, view)),
        None => fares.extend(main(detail, row, view, other)),
    }
    let mut is = properties(detail, row, view, other.map(|other| other.id.key.dest_qp));
    if let Some(until) = later {
        let text = format!(" below: state at {} UTC", units::clock_utc(until));
        is.push(Line::styled(text, theme::text(Level::Warning)));
    }
    is.extend(lists(detail, width >= 50));
    (fares, is)
}

/// Rate, CE, CNP, retransmissions and latency over time.
fn charts(view: &View, detail: &Detail, other: Option<&Detail>, width: usize) -> Vec<Line<'static>> {
    let cells = width.saturating_sub(trends::AROUND + 1);
    let points = trends::flow_points(view, &detail.id, cells);
    let covered = units::duration(trends::covered(view, cells));
    let title = format!(" {}, last {covered} (newest right)", log::route(&detail.id.key));
    let mut lines = vec![Line::styled(title, theme::HEAD)];
    lines.extend(TRENDS.iter().map(|trend| trends::row(trend, &points, cells)));
    // Requests are timed; of a flow of answers, those that it answers.
    let timed = |points: &[trends::Point]| points.iter().any(|point| point.latency.is_some());
    let others = other.map(|other| trends::flow_points(view, &other.id, cells));
    let own = timed(&points);
    let shown = if own { Some(points) } else { others.filter(|others| timed(others)) };
    if let Some(points) = shown {
        if let (false, Some(other)) = (own, other) {
            let title = format!(" requests it acknowledges, {}", log::route(&other.id.key));
            lines.push(Line::styled(title, theme::DIM));
        }
        lines.extend(LATENCY.iter().map(|trend| trends::row(trend, &points, cells)));
    }
    lines
}

fn event_lines(screen: &DetailScreen, view: &View) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(" EVENTS of this queue pair (newest first)", theme::HEAD)];
    let listed = screen.events(view);
    let key = |input| view.options.keys.first(input);
    let below = if listed.is_empty() {
        " none".to_owned()
    } else {
        format!(" {} {}: select, {}: headers", key(Input::Up), key(Input::Down), key(Input::Open))
    };
    lines.extend(listed.into_iter().map(|listed| super::events::row(listed, view)));
    lines.push(Line::styled(below, theme::DIM));
    lines
}

fn entry(name: &str, text: impl Into<String>) -> Line<'static> {
    styled(name, text, Level::Fine)
}

fn styled(name: &str, text: impl Into<String>, level: Level) -> Line<'static> {
    let mut spans = Spans::default();
    spans.push(format!(" {name:<NAME$}"), theme::DIM).push(text, theme::text(level));
    spans.into_line()
}

/// The level of a counter: at most that of the findings that name the flow.
fn level(level: Level, row: Option<&Row>) -> Level {
    row.map_or(Level::Fine, |row| level.min(State::of(row).level()))
}

fn bad(is_bad: bool, level: Level) -> Level {
    if is_bad { level } else { Level::Fine }
}

/// Metrics of a queue pair at an older snapshot, which keeps counters only.
fn then(row: Option<&Row>, view: &View) -> Vec<Line<'static>> {
    let Some(row) = row else { return vec![entry("", "not kept in this snapshot")] };
    let counts = &row.total;
    let mut lines = vec![entry("rate", rate(row.delta)), entry("total", total(counts.bytes, counts.packets))];
    let without = view
        .data
        .as_ref()
        .is_some_and(|data| Context { model: &data.model, sample: &data.sample }.without_sequence(row));
    if without {
        lines.push(entry("PSN", units::UNKNOWN));
    } else {
        lines.extend(found("PSN", counts, None, Some(row)));
    }
    lines.extend(lost(row));
    lines.push(acks(counts.acks, counts.rnr, counts.naks(), Some(row)));
    // Of data only: acknowledgements are not kept apart.
    lines.extend(marks(counts, counts.ecn_data, Some(row)));
    if counts.asked_again() > 0 {
        let text = format!("{} sequence-error NAKs (loss)", counts.asked_again());
        lines.push(styled("", text, level(Level::Critical, Some(row))));
    }
    lines.push(entry("latency", latency_now(Some(row), view)));
    lines
}

/// Packets lost, as in the table: more than the PSNs skipped where retransmissions are lost again, fewer where
/// some were reordered.
fn lost(row: &Row) -> Option<Line<'static>> {
    let Counts { lost, late, .. } = row.total;
    let mut found = Vec::new();
    if lost > 0 {
        found.push(format!("{} upstream", compact(lost as f64)));
    }
    if late > 0 {
        found.push(format!("{} reordered", compact(late as f64)));
    }
    let level = level(if lost > 0 { Level::Critical } else { Level::Warning }, Some(row));
    (!found.is_empty()).then(|| styled("lost", found.join(", "), level))
}

fn rate(delta: Option<Delta>) -> String {
    delta.map_or_else(
        || units::UNKNOWN.into(),
        |d| format!("{}, {} pkt/s", units::bit_rate(d.bits_per_s()), compact(d.packets_per_s())),
    )
}

fn total(bytes: u64, packets: u64) -> String {
    let s = if packets == 1 { "" } else { "s" };
    format!("{}, {} packet{s}", units::bytes(bytes), units::count(packets))
}

fn acks(acks: u64, rnr: u64, naks: u64, row: Option<&Row>) -> Line<'static> {
    styled(
        "acks",
        // What is bad is never the part that does not fit.
        format!("{naks} NAK · {rnr} RNR NAK · {} ACK", compact(acks as f64)),
        level(if naks > 0 { Level::Critical } else { bad(rnr > 0, Level::Warning) }, row),
    )
}

/// ECN: CE ratio and CNPs, in the time range and in total; `ecn` counts packets by ECN codepoint.
fn marks(counts: &Counts, ecn: [u64; 4], row: Option<&Row>) -> Vec<Line<'static>> {
    let ratio = counts.ce_ratio();
    let now = row.and_then(|row| row.delta).and_then(|d| d.counts.ce_ratio());
    let congested = row.is_some_and(|row| State::of(row).has(Kind::Congestion));
    let [not_ect, ect1, ect0, ce] = ecn;
    let marks = [(ce, "CE"), (ect0, "ECT(0)"), (ect1, "ECT(1)"), (not_ect, "Not-ECT")];
    let marks: Vec<String> = marks
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", compact(count as f64)))
        .collect();
    let text = format!("CE {} · {} total", units::ratio(now), units::ratio(ratio));
    let mut lines = vec![styled("ECN", text, bad(congested, Level::Warning))];
    if counts.cnp > 0 {
        let text = format!("{} CNP", compact(counts.cnp as f64));
        lines.push(styled("", text, level(Level::Warning, row)));
    }
    lines.push(entry("", marks.join(", ")));
    lines
}

/// Counters of problems come first, so that they show on small screens.
fn main(detail: &Detail, row: Option<&Row>, view: &View, other: Option<&Detail>) -> Vec<Line<'static>> {
    let stats = &detail.stats;
    let delta = row.and_then(|row| row.delta);
    let mut lines = vec![entry("rate", rate(delta)), entry("total", total(stats.bytes, stats.packets))];
    lines.extend(psn("PSN", &stats.psn, row));
    if stats.psn_responses.seen != 0 {
        lines.extend(psn("PSN resp", &stats.responses_missing(), row));
    }
    lines.extend(row.and_then(lost));
    lines.push(acks(stats.acks, stats.rnr_naks, stats.naks.iter().sum(), row));
    lines.extend(marks(&Counts::counted(stats), stats.ecn(), row));
    lines.extend(nak_codes(stats, row));
    lines.extend(asks_for(detail, row, other));
    lines.extend(asked_for(row, other));
    lines.extend(latency(detail, row, view));
    lines
}

/// For a flow of responses with sequence-error NAKs: the queue pair whose data was lost, since the loss is in the reverse
/// direction.
fn asks_for(detail: &Detail, row: Option<&Row>, other: Option<&Detail>) -> Vec<Line<'static>> {
    let counts = row.map_or_else(|| Counts::counted(&detail.stats), |row| row.total);
    if counts.behind_late > 0 {
        return vec![styled("", "NAKs caused by reordering", level(Level::Warning, row))];
    }
    if counts.asked_again() == 0 {
        return Vec::new();
    }
    // The data goes to the queue pair that sends these answers.
    let data = match detail.peer_qp.or(other.map(|other| other.id.key.dest_qp)) {
        Some(qp) => format!("loss of data sent to its QP {qp}"),
        None => "loss of data sent to an unknown QP".to_owned(),
    };
    let level = level(Level::Critical, row);
    vec![styled("", "sequence-error NAKs:", level), styled("", data, level)]
}

/// For a flow of data: sequence-error NAKs of its receiver, in the reverse direction.
fn asked_for(row: Option<&Row>, other: Option<&Detail>) -> Vec<Line<'static>> {
    let naks = other.map_or(0, |other| Counts::counted(&other.stats).asked_again());
    if naks == 0 {
        return Vec::new();
    }
    let s = if naks == 1 { "" } else { "s" };
    let text = format!("{} sequence-error NAK{s} received", compact(naks as f64));
    vec![styled("", text, level(Level::Critical, row))]
}

/// Owner, path and packet properties.
fn properties(detail: &Detail, row: Option<&Row>, view: &View, sender: Option<u32>) -> Vec<Line<'static>> {
    let stats = &detail.stats;
    let mut lines = owner(row, view);
    lines.push(entry("peer QP", peer(detail, sender)));
    let (path, tags) = path(detail);
    lines.extend([entry("path", path), entry("tags", tags)]);
    lines.push(entry("link", detail.link.clone()));
    let then = view.data.as_ref().map(|data| data.model.time_ns).filter(|then| *then < stats.last_ns);
    let last = match then.filter(|_| view.past()) {
        Some(_) => "after this snapshot".to_owned(),
        None => format!("{} UTC", units::clock_utc(stats.last_ns)),
    };
    lines.push(entry("last", last));
    let mixed: Vec<&str> =
        Mixed::NAMES.iter().filter(|(bit, _)| stats.mixed & bit != 0).map(|(_, name)| *name).collect();
    if !mixed.is_empty() {
        lines.push(styled("changed", mixed.join(", "), Level::Warning));
    }
    lines
}

/// Latency percentiles, in the time range and since the start.
fn latency(detail: &Detail, row: Option<&Row>, view: &View) -> Vec<Line<'static>> {
    let timed = view.data.as_ref().and_then(|data| data.sample.metrics.latency.as_ref());
    let all = timed.and_then(|timed| timed.get(detail.id.slot)).and_then(|figure| figure.all);
    let Some(all) = all else { return vec![entry("latency", units::UNKNOWN)] };
    let [p50, max] = [all.p50, all.max].map(units::duration);
    let p99 = enough(all.p99, all.count, P99_SAMPLES);
    let p999 = enough(all.p999, all.count, P999_SAMPLES);
    vec![
        entry("latency", latency_now(row, view)),
        entry("", format!("total: p50 {p50}, p99 {p99}")),
        entry("", format!("       p99.9 {p999}, max {max}")),
        entry(
            "",
            format!("       {} sample{}", compact(all.count as f64), if all.count == 1 { "" } else { "s" }),
        ),
    ]
}

/// Latency percentiles in the time range.
fn latency_now(row: Option<&Row>, view: &View) -> String {
    let times = row.zip(view.data.as_ref()).and_then(|(row, data)| data.model.latency(row));
    times.map_or_else(
        || units::UNKNOWN.to_owned(),
        |times| {
            let (p50, p99) =
                (units::duration(times.p50.ns()), enough(times.p99.ns(), times.count, P99_SAMPLES));
            format!("p50 {p50}, p99 {p99}")
        },
    )
}

/// Process, pod and device, where the kernel says whose the queue pair is.
fn owner(row: Option<&Row>, view: &View) -> Vec<Line<'static>> {
    let owner = row.zip(view.data.as_ref()).and_then(|(row, data)| {
        let cx = Context { model: &data.model, sample: &data.sample };
        cx.owner(row)
    });
    let Some(owner) = owner else { return Vec::new() };
    let mut lines: Vec<Line<'static>> = Vec::new();
    lines.extend(column::process(owner).map(|process| entry("process", process)));
    lines.extend(owner.pod.clone().map(|pod| entry("pod", pod)));
    let state = owner.state.map_or_else(String::new, |state| format!(", {state}"));
    lines.push(entry("device", format!("{} QP {}{state}", owner.device, owner.lqpn)));
    lines
}

fn psn(name: &str, track: &PsnTrack, row: Option<&Row>) -> Vec<Line<'static>> {
    if track.seen == 0 {
        return vec![entry(name, units::UNKNOWN)];
    }
    let counts = Counts {
        missing: track.missing,
        gaps: track.gaps,
        repeats: track.repeats,
        restarts: track.restarts,
        ..Counts::default()
    };
    found(name, &counts, Some((track.first, track.expected)), row)
}

/// Anomalies of a PSN sequence, and its first and next PSN where they are known.
fn found(name: &str, counts: &Counts, ends: Option<(u32, u32)>, row: Option<&Row>) -> Vec<Line<'static>> {
    let found = [
        (counts.missing, "missing", ""),
        (counts.gaps, "gap", "s"),
        (counts.repeats, "retransmission", "s"),
        (counts.restarts, "restart", "s"),
    ];
    let found: Vec<String> = found
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, what, s)| {
            format!("{} {what}{}", compact(count as f64), if count == 1 { "" } else { s })
        })
        .collect();
    if found.is_empty() {
        let next = ends.map_or_else(String::new, |(_, expected)| format!(", next {expected}"));
        return vec![entry(name, format!("in sequence{next}"))];
    }
    let repeated = bad(counts.repeats > 0, Level::Warning);
    let level = level(if counts.gaps > 0 { Level::Critical } else { repeated }, row);
    // Two to a line: half of a narrow screen has no room for more.
    let pairs = found.chunks(2).enumerate();
    let mut lines: Vec<Line<'static>> =
        pairs.map(|(at, two)| styled(if at == 0 { name } else { "" }, two.join(", "), level)).collect();
    lines.extend(ends.map(|(first, expected)| entry("", format!("next {expected}, first {first}"))));
    lines
}

fn nak_codes(stats: &FlowStats, row: Option<&Row>) -> Vec<Line<'static>> {
    let codes = (0u32..).zip(stats.naks).filter(|(_, count)| *count > 0);
    codes
        .map(|(code, count)| {
            let name = syndrome((0x60 | code) << 24);
            styled("", format!("{count} {name}"), level(Level::Critical, row))
        })
        .collect()
}

fn peer(detail: &Detail, sender: Option<u32>) -> String {
    match (detail.peer_qp.or(sender), detail.stats.src_qp) {
        (Some(qp), _) => qp.to_string(),
        (None, SRC_QP_SEVERAL) => "several".to_owned(),
        (None, _) => "unknown".to_owned(),
    }
}

/// Packet properties: RoCE version, MTU and DSCP, then tags and tunnels.
fn path(detail: &Detail) -> (String, String) {
    let stats = &detail.stats;
    let mtu = if stats.mtu > 0 { stats.mtu.to_string() } else { units::UNKNOWN.to_owned() };
    let dscp = if stats.dscp == DSCP_NONE { units::UNKNOWN.to_owned() } else { stats.dscp.to_string() };
    let mut tags = vec![match stats.vlan_id() {
        None => "VLAN unknown".to_owned(),
        Some(0) => "untagged".to_owned(),
        Some(id) => format!("VLAN {id}"),
    }];
    if let Some(id) = stats.inner_vlan_id().filter(|id| *id != 0) {
        tags.push(format!("inner VLAN {id}"));
    }
    tags.extend(stats.priority().map(|pcp| format!("PCP {pcp}")));
    if !detail.encapsulation.is_empty() {
        tags.push(detail.encapsulation.join("/"));
    }
    (format!("RoCEv{}, MTU {mtu}, DSCP {dscp}", stats.roce_version), tags.join(", "))
}

fn lists(detail: &Detail, bars: bool) -> Vec<Line<'static>> {
    let packets = detail.stats.packets;
    let mut lines = vec![Line::styled(" opcodes", theme::DIM)];
    for (code, count) in detail.opcodes.iter().take(LISTED) {
        lines.push(counted(&Name(*code).to_string(), *count, packets, bars));
    }
    let ports = detail.ports.len();
    if ports > 0 {
        lines.push(Line::styled(format!(" source ports: {ports}"), theme::DIM));
        for (port, counter) in detail.ports.iter().take(LISTED) {
            lines.push(counted(&port.to_string(), counter.packets, packets, bars));
        }
    }
    lines
}

fn counted(name: &str, count: u64, all: u64, bars: bool) -> Line<'static> {
    let share = if all > 0 { count as f64 / all as f64 } else { 0.0 };
    let mut spans = Spans::default();
    spans.push(format!(" {:>6} ", compact(count as f64)), theme::BOLD);
    if bars {
        spans.push(format!("{} ", bar(share, 5)), theme::BAR);
    }
    spans.push(name, theme::PLAIN);
    spans.into_line()
}
