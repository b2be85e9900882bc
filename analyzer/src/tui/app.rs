//! What the user sees and what keys do to it: state, and the reducer [`App::on_key`]. No I/O, no
//! clock.

use std::collections::VecDeque;

use super::column::{self, COLUMNS, Context, Id};
use super::cursor::{Cursor, Move};
use super::key::{Input, Key, decode};
use super::layout::Layout;
use super::log::Log;
use super::{Options, filter};
use crate::feed::Command;
use crate::model::{Detail, History, Identity, Model, Problem, health};
use crate::report::{Entropy, Imbalance};
use crate::sample::{EventSample, Sample, SourceKind};

/// Notices kept.
const NOTICES: usize = 200;
/// Replay speeds that `+` and `-` go through.
const SPEEDS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1000.0, f64::INFINITY];

/// The screens, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screen {
    /// The table of queue pairs.
    Flows,
    /// Links, imbalance, entropy.
    Links,
    /// Events and notices.
    Events,
    /// The last minutes, and skipped frames.
    Trends,
}

impl Screen {
    /// Every screen.
    pub const ALL: [Self; 4] = [Self::Flows, Self::Links, Self::Events, Self::Trends];

    /// Its title.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Flows => "QPs",
            Self::Links => "Links",
            Self::Events => "Events",
            Self::Trends => "Trends",
        }
    }
}

/// What the loop has to do after a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Nothing.
    None,
    /// Draw.
    Draw,
    /// Clear the terminal and draw.
    Redraw,
    /// Tell the source, and draw.
    Send(Command),
    /// Show the newest figures again, and draw.
    Thaw,
    /// Go to the background.
    Suspend,
    /// Leave.
    Quit,
}

/// How the table is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    /// By which column.
    pub by: Id,
    /// Largest first.
    pub descending: bool,
}

/// Which rows are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Words that must all match; empty for all rows.
    pub text: String,
    /// Whether keys go into the text.
    pub editing: bool,
}

/// How the run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All was read.
    Done,
    /// It failed; the error in a sentence.
    Failed(String),
}

/// The newest figures, and what follows from them.
#[derive(Debug)]
pub struct Data {
    /// Counters.
    pub sample: Box<Sample>,
    /// Rates.
    pub model: Model,
    /// How evenly bytes spread over 5-tuples.
    pub entropy: Entropy,
    /// How evenly links carry the load.
    pub imbalance: Vec<Imbalance>,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// The selected flow.
    pub detail: Option<Detail>,
}

/// The state of the terminal UI.
#[derive(Debug)]
pub struct App {
    /// What the user chose on the command line.
    pub options: Options,
    /// Columns and lines of the terminal.
    pub size: (u16, u16),
    /// The screen shown.
    pub screen: Screen,
    /// The first line of the help, while it is shown.
    pub help: Option<usize>,
    /// Whether details are shown.
    pub detail: bool,
    /// Sorting of the table.
    pub sort: Sort,
    /// Filter of table and events.
    pub filter: Filter,
    /// Rows of the model in the order of the table.
    pub order: Vec<usize>,
    /// Place in the table.
    pub flows: Cursor,
    /// The selected flow, which keeps its selection wherever it is sorted to.
    pub selected: Option<Identity>,
    /// Place in the list of links.
    pub links: Cursor,
    /// Place in the list of events.
    pub events: Cursor,
    /// Events.
    pub log: Log,
    /// What the source said, the oldest first.
    pub notices: VecDeque<String>,
    /// Whether the latest notice is still in the status line.
    pub unread: bool,
    /// Whether the user stopped the data.
    pub paused: bool,
    /// Replay speed, as far as it is known.
    pub speed: Option<f64>,
    /// How the run ended, when it has.
    pub end: Option<End>,
    /// The last minutes.
    pub history: History,
    /// The newest figures; `None` before the first.
    pub data: Option<Data>,
}

impl App {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let speed = options.speed;
        Self {
            options,
            size: (80, 24),
            screen: Screen::Flows,
            help: None,
            detail: false,
            sort: Sort { by: Id::State, descending: true },
            filter: Filter::default(),
            order: Vec::new(),
            flows: Cursor::default(),
            selected: None,
            links: Cursor::default(),
            events: Cursor::default(),
            log: Log::default(),
            notices: VecDeque::new(),
            unread: false,
            paused: false,
            speed,
            end: None,
            history: History::default(),
            data: None,
        }
    }

    /// Whether the view stands still while the source goes on.
    #[must_use]
    pub fn frozen(&self) -> bool {
        self.paused && self.end.is_none() && self.kind() != Some(SourceKind::Replay)
    }

    /// The kind of source, once it is known.
    #[must_use]
    pub fn kind(&self) -> Option<SourceKind> {
        self.data.as_ref().map(|data| data.model.kind)
    }

    /// The terminal has another size.
    pub fn on_resize(&mut self, width: u16, height: u16) {
        self.size = (width, height);
        self.keep_in_view();
    }

    /// Takes new figures.
    pub fn on_sample(&mut self, sample: Box<Sample>) {
        let previous = self.data.take().map(|data| data.sample);
        let model = Model::new(&sample, previous.as_deref());
        self.history.push(&model);
        self.take(sample, model);
    }

    /// Takes new events, in order.
    pub fn on_events(&mut self, events: &[EventSample]) {
        let top = self.log.latest().next().map(|entry| entry.number);
        for event in events {
            self.log.push(event);
        }
        // A user who looks at older entries keeps looking at them.
        if self.events.offset > 0 || self.events.selected.is_some() {
            let new = self.log.latest().take_while(|entry| Some(entry.number) != top).count();
            self.events.offset += new;
            self.events.selected = self.events.selected.map(|at| at + new);
        }
        self.keep_in_view();
    }

    /// Takes a sentence for the user.
    pub fn on_notice(&mut self, notice: String) {
        if self.notices.len() == NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
        self.unread = true;
    }

    /// The source is done: rates become averages over the whole run.
    pub fn on_end(&mut self, end: End) {
        self.end = Some(end);
        self.paused = false;
        if let Some(data) = self.data.take() {
            let model = Model::whole(&data.sample);
            self.take(data.sample, model);
        }
    }

    fn take(&mut self, sample: Box<Sample>, model: Model) {
        let recent = if self.end.is_some() { None } else { self.history.recent(health::PRESENT_NS) };
        let problems = health::problems(&model, recent.as_ref());
        let entropy = crate::report::entropy(&sample);
        let imbalance = crate::report::imbalance(&sample, &self.options.report);
        self.data = Some(Data { sample, model, entropy, imbalance, problems, detail: None });
        self.refresh();
    }

    /// Sorts and filters again. The selected flow stays selected and on its line.
    fn refresh(&mut self) {
        let Some(data) = &self.data else { return };
        let cx = Context { model: &data.model, sample: &data.sample };
        let matcher = filter::Matcher::new(&self.filter.text);
        let shown = data.model.rows.iter().enumerate().filter(|(_, row)| matcher.row(row, &data.model));
        let Sort { by, descending } = self.sort;
        let mut keyed: Vec<_> =
            shown.map(|(i, row)| (column::sort_key(by, descending, i, row, cx), i)).collect();
        keyed.sort_unstable();
        self.order = keyed.into_iter().map(|(_, i)| i).collect();

        let rows = &data.model.rows;
        let place = self
            .selected
            .and_then(|id| self.order.iter().position(|i| rows.get(*i).is_some_and(|row| row.id == id)));
        let page = self.layout().page();
        self.flows.follow(place, self.order.len(), page);
        if place.is_none() {
            self.selected = None;
        }
        self.refresh_detail();
        self.keep_in_view();
    }

    fn refresh_detail(&mut self) {
        let index = self.flows.selected.and_then(|at| self.order.get(at)).copied();
        if let Some(data) = &mut self.data {
            let index = index.filter(|_| self.detail);
            data.detail = index.and_then(|index| Detail::new(&data.sample, index));
        }
    }

    /// Where everything is on the screen.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let warning = self.data.as_ref().is_some_and(|data| data.model.lost.any());
        Layout::new(self.size, self.screen, self.detail && self.selected.is_some(), warning)
    }

    /// The columns of the table, as they fit.
    #[must_use]
    pub fn columns(&self) -> Vec<column::Fitted> {
        let has_ipv6 = self.data.as_ref().is_some_and(|data| data.model.has_ipv6);
        column::fit(self.layout().table.width, has_ipv6)
    }

    fn keep_in_view(&mut self) {
        let layout = self.layout();
        self.flows.show(self.order.len(), layout.page());
        self.events.show(self.event_count(), layout.events_page());
        let links = self.data.as_ref().map_or(0, |data| data.model.links.len());
        self.links.show(links, layout.links_page());
    }

    /// Number of events that the filter lets through.
    #[must_use]
    pub fn event_count(&self) -> usize {
        if self.filter.text.is_empty() {
            return self.log.len();
        }
        let matcher = filter::Matcher::new(&self.filter.text);
        self.log.latest().filter(|entry| matcher.event(entry)).count()
    }

    /// What a key does.
    #[must_use]
    pub fn on_key(&mut self, key: Key) -> Action {
        self.unread = false;
        if self.filter.editing && key != Key::Ctrl('c') {
            return self.edit(key);
        }
        let Some(input) = decode(key) else { return Action::Draw };
        if let Some(top) = self.help {
            return self.in_help(top, input);
        }
        self.on_input(input)
    }

    fn on_input(&mut self, input: Input) -> Action {
        match input {
            Input::Up => self.step(Move::Up),
            Input::Down => self.step(Move::Down),
            Input::PageUp => self.step(Move::PageUp),
            Input::PageDown => self.step(Move::PageDown),
            Input::First => self.step(Move::First),
            Input::Last => self.step(Move::Last),
            Input::Detail => self.toggle_detail(),
            Input::Screen(number) => self.show_screen(number),
            Input::NextScreen => self.show_screen((self.screen as usize + 1) % Screen::ALL.len()),
            Input::PreviousScreen => {
                self.show_screen((self.screen as usize + Screen::ALL.len() - 1) % Screen::ALL.len());
            }
            Input::SortNext => self.sort_by_neighbour(true),
            Input::SortPrevious => self.sort_by_neighbour(false),
            Input::Reverse => {
                self.sort.descending = !self.sort.descending;
                self.refresh();
            }
            Input::Filter => self.filter.editing = true,
            Input::Pause => return self.pause(),
            Input::Faster => return self.change_speed(true),
            Input::Slower => return self.change_speed(false),
            Input::Help => self.help = Some(0),
            Input::Redraw => return Action::Redraw,
            Input::Suspend => return Action::Suspend,
            Input::Back => return self.back(),
            Input::Quit => return Action::Quit,
        }
        Action::Draw
    }

    fn in_help(&mut self, top: usize, input: Input) -> Action {
        let page = usize::from(self.size.1.saturating_sub(3));
        let lines = super::panel::help::lines().len();
        let mut cursor = Cursor { selected: None, offset: top };
        let step = match input {
            Input::Up => Move::Up,
            Input::Down => Move::Down,
            Input::PageUp => Move::PageUp,
            Input::PageDown => Move::PageDown,
            Input::First => Move::First,
            Input::Last => Move::Last,
            Input::Quit => return Action::Quit,
            Input::Redraw => return Action::Redraw,
            Input::Suspend => return Action::Suspend,
            _ => {
                self.help = None;
                return Action::Draw;
            }
        };
        cursor.scroll(step, lines, page);
        self.help = Some(cursor.offset);
        Action::Draw
    }

    fn edit(&mut self, key: Key) -> Action {
        match key {
            Key::Char(c) => self.filter.text.push(c),
            Key::Backspace => {
                self.filter.text.pop();
            }
            Key::Ctrl('u') => self.filter.text.clear(),
            Key::Ctrl('l') => return Action::Redraw,
            Key::Ctrl('z') => return Action::Suspend,
            Key::Enter => self.filter.editing = false,
            Key::Esc => self.filter = Filter::default(),
            _ => return Action::None,
        }
        self.refresh();
        Action::Draw
    }

    fn step(&mut self, step: Move) {
        let layout = self.layout();
        match self.screen {
            Screen::Flows => {
                self.flows.step(step, self.order.len(), layout.page());
                let index = self.flows.selected.and_then(|at| self.order.get(at));
                let rows = self.data.as_ref().map(|data| &data.model.rows);
                self.selected = index.zip(rows).and_then(|(i, rows)| rows.get(*i)).map(|row| row.id);
                self.refresh_detail();
                self.keep_in_view();
            }
            Screen::Links => {
                let links = self.data.as_ref().map_or(0, |data| data.model.links.len());
                self.links.scroll(step, links, layout.links_page());
            }
            Screen::Events => self.events.scroll(step, self.event_count(), layout.events_page()),
            Screen::Trends => {}
        }
    }

    fn toggle_detail(&mut self) {
        if self.screen != Screen::Flows {
            return;
        }
        if self.selected.is_none() {
            self.step(Move::Up);
        }
        self.detail = !self.detail && self.selected.is_some();
        self.refresh_detail();
        self.keep_in_view();
    }

    fn show_screen(&mut self, number: usize) {
        if let Some(screen) = Screen::ALL.get(number) {
            self.screen = *screen;
            self.keep_in_view();
        }
    }

    /// Sorts by the next visible column, or the one before, with its natural direction.
    fn sort_by_neighbour(&mut self, next: bool) {
        let visible: Vec<Id> = self.columns().iter().map(|fitted| fitted.column.id).collect();
        let count = visible.len();
        if count == 0 {
            return;
        }
        let at = visible.iter().position(|id| *id == self.sort.by);
        let to = match (at, next) {
            (Some(at), true) => (at + 1) % count,
            (Some(at), false) => (at + count - 1) % count,
            (None, _) => 0,
        };
        if let Some(id) = visible.get(to) {
            self.sort = Sort { by: *id, descending: column::largest_first(*id) };
        }
        self.refresh();
    }

    fn pause(&mut self) -> Action {
        if self.end.is_some() {
            return Action::Draw;
        }
        self.paused = !self.paused;
        match self.kind() {
            Some(SourceKind::Live) if self.paused => Action::Draw,
            Some(SourceKind::Live) => Action::Thaw,
            Some(SourceKind::Replay) | None => Action::Send(Command::Pause(self.paused)),
        }
    }

    fn change_speed(&mut self, faster: bool) -> Action {
        let Some(speed) = self.speed.filter(|_| self.end.is_none()) else { return Action::Draw };
        let new = if faster {
            SPEEDS.into_iter().find(|s| *s > speed)
        } else {
            SPEEDS.into_iter().rev().find(|s| *s < speed)
        };
        let Some(new) = new else { return Action::Draw };
        self.speed = Some(new);
        Action::Send(Command::Speed(new))
    }

    fn back(&mut self) -> Action {
        if self.detail {
            self.detail = false;
            self.refresh_detail();
            self.keep_in_view();
        } else if !self.filter.text.is_empty() {
            self.filter = Filter::default();
            self.refresh();
        } else if self.selected.is_some() && self.screen == Screen::Flows {
            self.selected = None;
            self.flows = Cursor::default();
        } else {
            return Action::Quit;
        }
        Action::Draw
    }

    /// Title of the column that rows are sorted by.
    #[must_use]
    pub fn sorted_by(&self) -> &'static str {
        COLUMNS.iter().find(|column| column.id == self.sort.by).map_or("", |column| column.title)
    }
}
