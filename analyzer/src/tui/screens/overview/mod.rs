//! Overview: timeline, problems, worst peers, links, steps, events. A view of the analysis: it judges nothing itself.
//!
//! | module | holds |
//! |---|---|
//! | `areas` | the room of each part |
//! | `problems` | what is active and what has ended |
//! | `peers` | the worst pairs of hosts |
//! | `lower` | links, steps of the job, events |

mod areas;
mod lower;
mod peers;
pub(in crate::tui) mod problems;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use serde_json::{Value, json};

use self::areas::{Areas, WantedLines, problems_width};
use super::page::{Effect, Hint, Hints, Page};
use super::timeline::Chart;
use super::timeline::chart::{self, Picture};
use super::{empty, events, export_table, nic, trends};
use crate::analysis::rail_of;
use crate::tui::cursor::{Cursor, Move};
use crate::tui::data::Data;
use crate::tui::export::ExportTable;
use crate::tui::focus::{Focus, FocusCondition};
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::peers::{PeerGrouping, Shared};
use crate::tui::screen::Screen;
use crate::tui::theme;
use crate::tui::view::View;
use crate::tui::widgets::panel::{BOXED, Title, frame_height, inner, panel};
use crate::tui::widgets::{line, point_out, put, select};
use crate::util::units;

/// Columns that a box takes at its sides.
const SIDES: u16 = 2;

/// State of the screen Overview.
#[derive(Debug, Default)]
pub struct OverviewScreen {
    /// Place in the list of problems, and behind them in that of the peers.
    pub selected: Option<usize>,
    /// The selection, kept in a list of another order.
    followed: FollowedRow,
    /// The first peer that is visible.
    pub offset: usize,
    /// Timeline of all signals.
    pub chart: Chart,
}

/// The selected row, apart from its place.
#[derive(Debug, Default)]
struct FollowedRow {
    /// Key of the selected problem; `None` for a peer.
    problem: Option<String>,
    /// Problems before the peers.
    problems: usize,
}

/// Row that is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Problem(usize),
    Peer(usize),
}

impl OverviewScreen {
    fn peer_count(view: &View) -> usize {
        let data = view.data.as_ref();
        data.map_or(0, |data| data.peers.len())
    }

    /// The selected row; while the user has selected none the one that opens: the worst problem, else the first peer.
    fn at(&self, view: &View) -> Option<usize> {
        let worst = view.verdict().is_some_and(|verdict| verdict.headline.is_some());
        let first = if worst { 0 } else { problems::count(view) };
        self.selected.or_else(|| (first < problems::count(view) + Self::peer_count(view)).then_some(first))
    }

    fn item(&self, view: &View) -> Option<Item> {
        let (at, problems) = (self.at(view)?, problems::count(view));
        Some(if at < problems { Item::Problem(at) } else { Item::Peer(at - problems) })
    }

    /// Remembers what is selected.
    fn remember(&mut self, view: &View) {
        let problem = match self.item(view) {
            Some(Item::Problem(at)) => problems::key(view, at),
            _ => None,
        };
        self.followed = FollowedRow { problem, problems: problems::count(view) };
    }

    /// Selects the same problem or peer after a change of the lists; nothing if it is gone.
    fn follow(&mut self, view: &View) {
        let (Some(at), true) = (self.selected, problems::is_known(view)) else { return };
        let problems = problems::count(view);
        self.selected = match &self.followed.problem {
            Some(key) => problems::with_key(view, key),
            None => at.checked_sub(self.followed.problems).map(|peer| peer + problems),
        };
        self.followed.problems = problems;
    }

    /// True if the problem that the headline names is the one that opens.
    pub(in crate::tui) fn opens_worst(&self, view: &View) -> bool {
        matches!(self.item(view), None | Some(Item::Problem(0)))
    }

    /// The place in the list of peers.
    fn cursor(&self, view: &View) -> Cursor {
        let selected = match self.item(view) {
            Some(Item::Peer(at)) => Some(at),
            _ => None,
        };
        Cursor { selected, offset: self.offset }
    }

    /// True if no flow is known: there is neither a chart nor a peer.
    fn without_packets(view: &View) -> bool {
        view.data.as_ref().is_none_or(|data| data.model.rows.is_empty())
    }

    /// The timeline, unless there is nothing to draw.
    fn picture<'a>(&self, view: &'a View) -> Option<Picture<'a>> {
        let data = view.data.as_ref().filter(|_| !Self::without_packets(view))?;
        let areas = Self::areas(view);
        Picture::new(view, data, self.chart, usize::from(inner(areas.timeline, areas.boxed).width))
    }

    /// Moves the cursor of the timeline, from the time shown where there was none.
    fn step_cursor(&mut self, view: &View, later: bool) {
        if let (Some(picture), Some(data)) = (self.picture(view), &view.data) {
            let shown_ns = Some(data.model.time_ns).filter(|_| view.past());
            self.chart.step(picture.grid, data, shown_ns, later);
        }
    }

    /// Sets the cursor of the timeline to this column of its frame; beside the chart there is none.
    fn point_at(&mut self, view: &View, column: usize) {
        self.chart.cursor_ns = self.picture(view).and_then(|picture| picture.time_at(column));
    }

    fn areas(view: &View) -> Areas {
        let body = view.layout().body;
        let Some(data) = &view.data else { return Areas::default() };
        let boxed = body.width >= BOXED;
        let lines = |n: usize| u16::try_from(n).unwrap_or(u16::MAX / 4).min(u16::MAX / 4);
        let room = usize::from(body.height);
        if Self::without_packets(view) {
            let width = body.width - if boxed { SIDES } else { 0 };
            let problems = |rest| problems::lines(view, usize::from(width), room, true, rest).len();
            let counters = lower::counter_lines(view, usize::from(width)).len();
            let help = usize::from(empty::height(view, body.width));
            // Evidence is on the page of the problem: it has what room the others leave.
            let all = problems(true);
            let frames = 2 * usize::from(frame_height(boxed));
            let problems = if all + counters + help + frames <= room { all } else { problems(false) };
            return Areas::counters(body, lines(problems), lines(counters), lines(help));
        }
        let beside = problems_width(body.width) - if boxed { SIDES } else { 0 };
        let problems = |rest| problems::lines(view, usize::from(beside), room, detail(view), rest).len();
        Areas::new(
            body,
            WantedLines {
                timeline: lines(chart::full_height(data)),
                problems: lines(problems(false)),
                problems_and_rest: lines(problems(true)),
                sentences: lines(problems::sentences(view, usize::from(beside))),
                first_step: lines(problems::with_first_step(view, usize::from(beside))),
                each: lines(problems::above_info(view)),
                peers: lines(Self::peer_count(view) + 1),
                links: lines(lower::link_height(data)),
                events: lines(events::row_count(view, usize::from(body.height))),
            },
        )
    }

    /// Text to copy from the selected row.
    pub(in crate::tui) fn copied(&self, view: &View) -> Option<String> {
        let data = view.data.as_ref()?;
        match self.item(view).unwrap_or(Item::Problem(0)) {
            Item::Problem(at) => view.concluded()?.findings.get(at).map(|finding| finding.title.clone()),
            Item::Peer(at) => data.peers.get(at).map(|peer| peers::name(&peer.shared, data)),
        }
    }

    fn open_problem(view: &View, at: usize) -> Effect {
        if at < view.finding_count() { Effect::Finding(at) } else { Effect::None }
    }

    fn open_peer(view: &View, at: usize) -> Effect {
        let Some(data) = &view.data else { return Effect::None };
        let Some(peer) = data.peers.get(at) else { return Effect::None };
        let on = match peer.shared.clone() {
            Shared::Hosts(src, dst) => FocusCondition::Hosts(src, dst),
            Shared::QueuePair(..) => {
                let row = data.model.rows.get(peer.row);
                return row.map_or(Effect::None, |row| Effect::Detail(row.id));
            }
            Shared::Remote(Some(host)) => FocusCondition::Host(host),
            Shared::Remote(None) => return Effect::None,
            Shared::Process(name) => FocusCondition::Process(name),
            Shared::Pod(name) => FocusCondition::Pod(name),
            Shared::Job(name) => FocusCondition::Job(name),
            Shared::Link(link) => FocusCondition::Links(vec![link]),
            Shared::Rail(rail) => {
                let rails = &view.options.report.analysis.rails;
                let links = (0..).zip(&data.model.links);
                let on = links.filter(|(_, link)| rail_of(&link.name, rails) == rail.as_deref());
                FocusCondition::Links(on.map(|(at, _)| at).collect())
            }
        };
        Effect::Focus(Focus { about: peers::name(&peer.shared, data), on })
    }

    /// Peers that are visible.
    fn page(view: &View) -> usize {
        let areas = Self::areas(view);
        usize::from(inner(areas.peers, areas.boxed).height.saturating_sub(1))
    }

    /// Keeps the selected peer visible.
    fn show(&mut self, view: &View) {
        let page = Self::page(view);
        let mut cursor = self.cursor(view);
        cursor.show(Self::peer_count(view), page);
        self.offset = cursor.offset;
        let last = problems::count(view) + Self::peer_count(view);
        self.selected = self.selected.filter(|at| *at < last);
    }
}

/// True if each problem has room for its place and its cost.
fn detail(view: &View) -> bool {
    view.size.0 >= BOXED || view.size.1 >= 36 || OverviewScreen::without_packets(view)
}

impl Page for OverviewScreen {
    fn step(&mut self, view: &mut View, step: Move) {
        let (problems, peers) = (problems::count(view), Self::peer_count(view));
        let page = Self::page(view);
        let mut all = Cursor { selected: self.at(view), offset: 0 };
        all.step(step, problems + peers, page);
        self.selected = all.selected;
        self.remember(view);
        self.show(view);
    }

    fn open(&mut self, view: &mut View) -> Effect {
        match self.item(view) {
            Some(Item::Problem(at)) => Self::open_problem(view, at),
            Some(Item::Peer(at)) => Self::open_peer(view, at),
            None => Effect::None,
        }
    }

    fn click(&mut self, view: &mut View, at: Position) -> Effect {
        let areas = Self::areas(view);
        let (problems, peers) = (inner(areas.problems, areas.boxed), inner(areas.peers, areas.boxed));
        if problems.contains(at) {
            let lines = problems::lines(
                view,
                usize::from(problems.width),
                usize::from(problems.height),
                detail(view),
                true,
            );
            let Some((Some(finding), _)) = lines.get(usize::from(at.y - problems.y)) else {
                return Effect::None;
            };
            self.selected = Some(*finding);
            self.remember(view);
            return Self::open_problem(view, *finding);
        }
        if inner(areas.timeline, areas.boxed).contains(at) {
            self.point_at(view, usize::from(at.x - inner(areas.timeline, areas.boxed).x));
            return Effect::None;
        }
        if let Some(effect) = Self::click_below(view, areas, at) {
            return effect;
        }
        if peers.contains(at) && at.y > peers.y {
            let place = self.offset + usize::from(at.y - peers.y - 1);
            let all = problems::count(view) + place;
            if place < Self::peer_count(view) {
                let opens = self.selected.replace(all) == Some(all);
                self.remember(view);
                return if opens { Self::open_peer(view, place) } else { Effect::None };
            }
        }
        Effect::None
    }

    fn on_input(&mut self, view: &mut View, input: Input) -> Effect {
        match input {
            Input::ZoomIn | Input::ZoomOut => {
                let closer = input == Input::ZoomIn;
                let zoomed = view.data.as_ref().is_some_and(|data| self.chart.zoom(data, closer));
                if !zoomed {
                    view.messages.say(if closer {
                        "the timeline is at its closest zoom"
                    } else {
                        "the timeline shows the whole range already"
                    });
                }
            }
            Input::Group => {
                (self.selected, self.offset) = (None, 0);
                if let Some(data) = &view.data {
                    view.by = view.by.next(&data.sample, &view.options.report.analysis.rails);
                    return Effect::Values;
                }
            }
            Input::Left | Input::Right => self.step_cursor(view, input == Input::Right),
            _ => {}
        }
        Effect::None
    }

    fn keep_in_view(&mut self, view: &View) {
        self.follow(view);
        if view.screen == Screen::Overview {
            self.show(view);
        }
    }

    fn drop_selection(&mut self) -> bool {
        let dropped = self.selected.take().is_some() || self.chart.cursor_ns.take().is_some();
        dropped || self.chart.window_ns.take().is_some()
    }

    fn hints(&self, view: &View) -> Hints {
        const CURSOR: Hint = (&[Input::Left, Input::Right], "cursor");
        const CLOSER: Hint = (&[Input::ZoomIn], "zoom in");
        const WIDER: Hint = (&[Input::ZoomOut], "zoom out");
        const GROUP: Hint = (&[Input::Group], "group");
        const THEME: Hint = (&[Input::Theme], "theme");
        let problem = matches!(self.item(view), Some(Item::Problem(_)));
        // Without a chart and peers their keys do nothing.
        let shown = !Self::without_packets(view);
        let rest: &[Hint] = if shown { &[CURSOR, CLOSER, WIDER, GROUP, THEME] } else { &[THEME] };
        match (problem, shown) {
            (true, _) => (&[(&[Input::Open], "why + fix")], rest),
            (false, true) => (&[(&[Input::Open], "queue pairs")], rest),
            (false, false) => (&[], rest),
        }
    }

    /// The trends over all links, where `link` is null and packets are deduplicated, and of each link.
    fn export_table(&self, view: &View) -> ExportTable {
        let mut table = export_table::over_time(&["link", "direction"], &[]);
        let all = trends::points(view, usize::MAX);
        export_table::add_points(&mut table, &[Value::Null, Value::Null], &all, &[]);
        let links = view.data.iter().flat_map(|data| &data.model.links);
        for (at, link) in links.enumerate() {
            let first = [json!(link.name), export_table::direction(link.direction)];
            export_table::add_points(&mut table, &first, &trends::link_points(view, at, usize::MAX), &[]);
        }
        table
    }

    fn render(&self, buffer: &mut Buffer, at: &Layout, view: &View) {
        if Self::without_packets(view) {
            self.counters(buffer, at.body, view);
            return;
        }
        let Some(data) = &view.data else { return };
        let areas = Self::areas(view);
        self.timeline(buffer, areas, view, data);
        self.problems(buffer, areas, view);
        self.peers(buffer, areas, view, data);
        let scale = super::links::table::scale(data);
        let title = Title { name: "LINKS", about: &scale, hint: &opens(view, Screen::Links) };
        if !areas.links.is_empty() {
            let area = panel(buffer, areas.links, areas.boxed, title);
            put(
                buffer,
                area,
                lower::link_lines(view, data, usize::from(area.width), usize::from(area.height)),
            );
        }
        if !areas.steps.is_empty() {
            let area = inner(areas.steps, areas.boxed);
            let (width, height) = (usize::from(area.width), usize::from(area.height));
            let lines = lower::step_lines(view, data, width, height);
            let hint = match lower::hidden(&lines, height) {
                0 => opens(view, Screen::Bursts),
                lines => format!("{} · {}", opens(view, Screen::Bursts), units::plural(lines, "more line")),
            };
            let title = Title { name: "JOB STEPS", about: &lower::steps_end(view), hint: &hint };
            panel(buffer, areas.steps, areas.boxed, title);
            put(buffer, area, lower::cut_off(lines, width, height));
        }
        if !areas.events.is_empty() {
            let title = Title { name: "EVENTS", about: "newest first", hint: &opens(view, Screen::Events) };
            let area = panel(buffer, areas.events, areas.boxed, title);
            put(buffer, area, lower::event_lines(view, (usize::from(area.width), usize::from(area.height))));
        }
    }
}

/// The key that shows a screen, with what it does; empty where no key does.
fn opens(view: &View, screen: Screen) -> String {
    let key = view.options.keys.first(Input::Screen(screen as usize));
    if key.is_empty() { key } else { format!("key {key} opens") }
}

impl OverviewScreen {
    /// Links, steps and events open on their own screens; `None` elsewhere.
    fn click_below(view: &View, areas: Areas, at: Position) -> Option<Effect> {
        let data = view.data.as_ref()?;
        let row = |area: Rect| {
            let area = inner(area, areas.boxed);
            area.contains(at).then(|| (usize::from(at.y - area.y), usize::from(area.height)))
        };
        if let Some((row, room)) = row(areas.links) {
            let link = lower::link_at(view, data, room, row).filter(|_| !Self::without_packets(view));
            return Some(Effect::Row(Screen::Links, link));
        }
        if row(areas.steps).is_some() {
            return Some(Effect::Row(Screen::Bursts, None));
        }
        let (row, room) = row(areas.events)?;
        events::place(view, row, room).map(|event| Effect::Row(Screen::Events, Some(event)))
    }

    /// Without packets: what findings say of counters, the counters themselves, and why there is nothing else.
    fn counters(&self, buffer: &mut Buffer, body: Rect, view: &View) {
        if problems::above_info(view) == 0 {
            empty::render(buffer, body, view);
            return;
        }
        let areas = Self::areas(view);
        self.problems(buffer, areas, view);
        let about = "NIC counters, latest reading";
        let title = Title { name: "LINKS", about, hint: &opens(view, Screen::Links) };
        if !areas.links.is_empty() {
            let area = panel(buffer, areas.links, areas.boxed, title);
            put(buffer, area, lower::counter_lines(view, usize::from(area.width)));
        }
        let y = areas.problems.bottom().max(areas.links.bottom());
        let left = Rect { y, height: body.bottom() - y, ..body };
        // What else fills a large screen stands before the reason.
        let why = empty::height(view, body.width).min(left.height);
        let free = Rect { height: left.height - why, ..left };
        let used = if nic::worst(buffer, free, areas.boxed, view) { free.height } else { 0 };
        empty::render(buffer, Rect { y: left.y + used, height: left.height - used, ..left }, view);
    }

    fn timeline(&self, buffer: &mut Buffer, areas: Areas, view: &View, data: &Data) {
        let width = usize::from(inner(areas.timeline, areas.boxed).width);
        let picture = Picture::new(view, data, self.chart, width);
        let hint = picture.as_ref().map_or_else(String::new, Picture::hint);
        let height = usize::from(inner(areas.timeline, areas.boxed).height);
        let drawn = picture.map(|picture| picture.lines(height));
        let scale = drawn.as_ref().map_or("", |(_, scale)| scale);
        let title = Title { name: "TIMELINE", about: scale, hint: &hint };
        let area = panel(buffer, areas.timeline, areas.boxed, title);
        match drawn {
            Some((lines, _)) => put(buffer, area, lines),
            None => line(
                buffer,
                area,
                0,
                &Line::styled(" the timeline begins with the second sample", theme::DIM),
            ),
        }
    }

    fn problems(&self, buffer: &mut Buffer, areas: Areas, view: &View) {
        let about = problems::about_all(view);
        let some = view.verdict().is_some_and(|verdict| verdict.headline.is_some());
        let hint = format!("{} opens", view.options.keys.first(Input::Open));
        let title = Title { name: "PROBLEMS", about: &about, hint: if some { &hint } else { "" } };
        let area = panel(buffer, areas.problems, areas.boxed, title);
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let lines = problems::lines(view, width, height, detail(view), true);
        let selected = match self.item(view) {
            Some(Item::Problem(at)) => Some(at),
            _ => None,
        };
        for (y, (at, text)) in (0..area.height).zip(&lines) {
            line(buffer, area, y, text);
            if at.is_some() && *at == selected {
                let row = Rect { y: area.y + y, height: 1, ..area };
                if self.selected.is_some() { select(buffer, row) } else { point_out(buffer, row) }
            }
        }
    }

    fn peers(&self, buffer: &mut Buffer, areas: Areas, view: &View, data: &Data) {
        let key = view.options.keys.first(Input::Group);
        let next = view.by.next(&data.sample, &view.options.report.analysis.rails);
        let hint = format!("{key} by {}", next.noun());
        let cursor = self.cursor(view);
        let about = peers::about(view);
        let name = match data.by {
            PeerGrouping::QueuePairs => "WORST QUEUE PAIRS",
            PeerGrouping::Hosts => "WORST PEERS",
            PeerGrouping::Remote => "WORST REMOTE HOSTS",
            PeerGrouping::Process => "WORST PROCESSES",
            PeerGrouping::Pod => "WORST PODS",
            PeerGrouping::Job => "WORST JOBS",
            PeerGrouping::Link => "WORST LINKS",
            PeerGrouping::Rail => "WORST RAILS",
        };
        let area = panel(buffer, areas.peers, areas.boxed, Title { name, about: &about, hint: &hint });
        peers::render(buffer, area, view, data, cursor);
    }
}
