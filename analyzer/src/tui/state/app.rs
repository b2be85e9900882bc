//! The state of the terminal UI and its changes by metrics, events and notices. No I/O, no clock.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use rocescope_common::account::FlowKey;

use super::analysis::{Analysis, Ask};
use super::cursor::Cursor;
pub use super::data::Data;
use super::job::{Job, Ready};
use super::log::Log;
use super::matrix::Metric;
use super::prompt::Prompt;
use super::screen::Screen;
use super::table::Table;
use super::trail::Trail;
use crate::model::{History, TimeRange};
use crate::sample::{EventSample, Sample, SourceKind};
use crate::source::feed::Command;
use crate::tui::column;
use crate::tui::export::Content;
use crate::tui::layout::Layout;
use crate::tui::query::Query;
use crate::tui::{Options, analysis, screens};
use crate::util::deferred::{Deferred, discard};

/// Notices kept.
const NOTICES: usize = 200;
/// Events that wait while the view is paused, at most; older ones go first.
const WAITING: usize = 8_192;

/// Action of the loop after a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Nothing.
    None,
    /// Draw.
    Draw,
    /// Clear the terminal and draw.
    Redraw,
    /// Tell the source, and draw.
    Send(Command),
    /// Have the newest sample analysed again, and draw.
    Analyse,
    /// Write a file, say so, and draw.
    Write(File),
    /// Go to the background.
    Suspend,
    /// Leave.
    Quit,
}

/// A file to be written to the working directory.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Its name without the ending; the loop appends a number where that is taken.
    pub name: String,
    /// The ending.
    pub ending: &'static str,
    /// Its contents, for the message.
    pub what: String,
    /// The text to write.
    pub content: Content,
}

/// An event that is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The number of its entry in the list.
    pub entry: u64,
    /// Its own number.
    pub event: u64,
    /// The first line that is shown.
    pub top: usize,
}

/// What lies over the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlay {
    /// Nothing.
    #[default]
    None,
    /// The help from this line on.
    Help(usize),
    /// The choice of columns, this one selected.
    Columns(usize),
    /// The headers of an event.
    Packet(Opened),
    /// Everything about the selected finding from this line on.
    Finding(usize),
}

/// How the run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All was read.
    Done,
    /// It failed; the error in a sentence.
    Failed(String),
}

/// The state of the terminal UI.
#[derive(Debug)]
pub struct App {
    /// What the user chose beforehand.
    pub options: Options,
    /// Columns and lines of the terminal.
    pub size: (u16, u16),
    /// The screen shown.
    pub screen: Screen,
    /// Where Esc leads from the details.
    pub from: Screen,
    /// What lies over it.
    pub overlay: Overlay,
    /// The line that is being typed.
    pub prompt: Option<Prompt>,
    /// The filter's text; of table and events.
    pub filter: String,
    /// The filter, ready for use.
    pub query: Query,
    /// The table of queue pairs.
    pub table: Table,
    /// Place in the list of the busiest on the overview.
    pub busiest: Cursor,
    /// Place in the list of links.
    pub links: Cursor,
    /// First line of what stands below them: devices, balance, spread.
    pub below: Cursor,
    /// Place in the list of events.
    pub events: Cursor,
    /// Place in the list of findings.
    pub findings: Cursor,
    /// First line of the details.
    pub detail: Cursor,
    /// The entry that is marked among their events.
    pub marked_event: Option<u64>,
    /// First line of the bursts.
    pub bursts: Cursor,
    /// Row and column of the matrix.
    pub cell: (usize, usize),
    /// What the matrix shows.
    pub metric: Metric,
    /// The time that figures are of.
    pub range: TimeRange,
    /// Uplinks of the what-if, where the user changed them.
    pub uplinks: Option<u32>,
    /// Events.
    pub log: Log,
    /// Flows of events for which holds what the filter asks of flows; of no use where it asks nothing of them.
    pub(in crate::tui) fitting: HashMap<FlowKey, usize, foldhash::fast::RandomState>,
    /// Events that came while the view was paused.
    waiting: VecDeque<EventSample>,
    /// What the source said, the oldest first.
    pub notices: VecDeque<String>,
    /// True if the latest notice is still in the status line.
    pub unread: bool,
    /// The answer to the latest key, until the next.
    pub answer: Option<String>,
    /// True if the user stopped the data.
    pub paused: bool,
    /// The time of the snapshot that is looked at; `None` for the newest.
    pub shown_ns: Option<u64>,
    /// Where a replay is on its way to.
    pub seek_ns: Option<u64>,
    /// Replay speed, as far as it is known.
    pub speed: Option<f64>,
    /// How the run ended, when it has.
    pub end: Option<End>,
    /// The last minutes.
    pub history: History,
    /// The latest readings of devices.
    pub trail: Trail,
    /// The newest sample.
    pub newest: Option<Deferred<Arc<Sample>>>,
    /// The latest conclusions.
    pub analysis: Option<Deferred<Arc<Analysis>>>,
    /// The figures shown; `None` before the first. Files are made from them beside the screen.
    pub data: Option<Deferred<Arc<Data>>>,
    /// True if other figures are wanted than those shown, for the loop to have them made beside it; true inside
    /// where rows may keep their places.
    pub(in crate::tui) awaited: Option<bool>,
}

impl App {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let table = Table {
            sort: options.sort.unwrap_or_default(),
            columns: options.columns.clone(),
            ..Table::default()
        };
        Self {
            size: (80, 24),
            screen: options.screen,
            from: Screen::Qps,
            overlay: Overlay::None,
            prompt: None,
            query: Query::new(&options.filter),
            filter: options.filter.clone(),
            table,
            busiest: Cursor::default(),
            links: Cursor::default(),
            below: Cursor::default(),
            events: Cursor::default(),
            findings: Cursor::default(),
            detail: Cursor::default(),
            marked_event: None,
            bursts: Cursor::default(),
            cell: (0, 0),
            metric: Metric::default(),
            range: TimeRange::default(),
            uplinks: None,
            log: Log::default(),
            fitting: HashMap::default(),
            waiting: VecDeque::new(),
            notices: VecDeque::new(),
            unread: false,
            answer: None,
            paused: false,
            shown_ns: None,
            seek_ns: None,
            speed: options.speed,
            end: None,
            history: History::new(options.history_bytes),
            trail: Trail::default(),
            newest: None,
            analysis: None,
            data: None,
            awaited: None,
            options,
        }
    }

    /// True if figures stand still, so that one can go back in time.
    #[must_use]
    pub fn still(&self) -> bool {
        self.paused || self.end.is_some()
    }

    /// True if a new sample changes the picture, rather than the history alone.
    #[must_use]
    pub fn moves(&self) -> bool {
        !self.paused || self.seek_ns.is_some() || self.data.is_none()
    }

    /// The kind of source, once it is known.
    #[must_use]
    pub fn kind(&self) -> Option<SourceKind> {
        self.newest.as_ref().map(|sample| sample.kind)
    }

    /// What should be analysed.
    #[must_use]
    pub fn ask(&self) -> Ask {
        Ask { range: self.range, uplinks: self.uplinks }
    }

    /// The terminal has another size.
    pub fn on_resize(&mut self, width: u16, height: u16) {
        self.size = (width, height);
        self.keep_in_view();
    }

    /// The work that a new sample makes; [`on_ready`](Self::on_ready) takes what comes of it.
    #[must_use]
    pub fn job(&self, sample: Arc<Sample>, last: bool) -> Job {
        let wanted = last || !self.paused || self.seek_ns.is_some() || self.data.is_none();
        let range = if last { TimeRange::All } else { self.range };
        Job {
            sample,
            last,
            history: self.history.clone(),
            range: wanted.then_some(range),
            texts: self.table.texts.clone(),
            matrix: self.screen == Screen::Matrix,
            options: self.options.report.clone(),
        }
    }

    /// Takes new figures. While the view is paused they only go into the history.
    pub fn on_sample(&mut self, sample: Arc<Sample>) {
        let ready = self.job(sample, false).run();
        self.on_ready(ready);
    }

    /// Takes a sample whose work is done.
    pub fn on_ready(&mut self, ready: Ready) {
        let Ready { sample, last, next, metrics, texts, idle } = ready;
        self.table.texts = texts;
        if self.newest.as_ref().is_some_and(|newest| newest.time_ns > sample.time_ns) {
            // A replay went back: what was seen is still to come.
            self.forget_events();
            self.waiting.clear();
            self.analysis = None;
            self.shown_ns = None;
        }
        self.on_events(&idle);
        if let Some(next) = next {
            self.history.append(next, &sample, last);
            self.log.settle(sample.time_ns);
        }
        self.trail.push(&sample.devices);
        let seeking = self.seek_ns.is_some();
        self.seek_ns = self.seek_ns.filter(|to| sample.time_ns < *to);
        self.newest = Some(Deferred::new(sample));
        if !self.paused {
            self.recompute_from(metrics, true);
        } else if seeking {
            // On the way the picture moves; where the way ends it stands still again.
            self.paused = false;
            self.recompute_from(metrics, true);
            self.paused = true;
            if self.seek_ns.is_none() {
                self.pin();
            }
        } else if self.data.is_none() {
            self.recompute_from(metrics, true);
            self.pin();
        }
    }

    /// Takes new events, in order.
    pub fn on_events(&mut self, events: &[EventSample]) {
        if self.paused && self.seek_ns.is_none() {
            self.waiting.extend(events.iter().cloned());
            let over = self.waiting.len().saturating_sub(WAITING);
            self.waiting.drain(..over);
            return;
        }
        let top = self.log.latest().next().map(|entry| entry.number);
        for event in events {
            let before = event.time_ns.checked_sub(1).and_then(|before| self.history.at_time(before));
            let snapshot = before.and_then(|at| self.history.get(at));
            self.log.push(event, snapshot.map_or(0, |snapshot| snapshot.time_ns));
        }
        self.refresh_fitting();
        // A user who looks at older entries keeps looking at them.
        if self.events.offset > 0 || self.events.selected.is_some() {
            let new = self.log.latest().take_while(|entry| Some(entry.number) != top);
            let new = new.filter(|entry| self.lets_through(entry, &entry.latest)).count();
            self.events.offset += new;
            self.events.selected = self.events.selected.map(|at| at + new);
        }
        self.keep_in_view();
    }

    /// The source restarts: everything that was seen is still to come.
    pub fn on_restart(&mut self) {
        self.forget_events();
        self.waiting.clear();
        self.history.clear();
        (self.newest, self.analysis) = (None, None);
        self.shown_ns = None;
    }

    /// Takes conclusions.
    pub fn on_analysis(&mut self, analysis: Analysis) {
        // Those about what a replay has idle back behind are void.
        if self.newest.as_ref().is_none_or(|newest| newest.time_ns < analysis.time_ns) {
            discard(analysis);
            return;
        }
        if let Some(entropy) = analysis.entropy {
            self.history.set_entropy(analysis.time_ns, entropy);
        }
        self.history.set_conclusions(Arc::clone(&analysis.conclusions));
        if !self.paused || self.analysis.is_none() {
            self.analysis = Some(Deferred::new(Arc::new(analysis)));
            self.judge();
            self.arrange(true);
        } else {
            discard(analysis);
        }
    }

    /// Takes a sentence for the user.
    pub fn on_notice(&mut self, notice: String) {
        if self.notices.len() == NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
        self.unread = true;
    }

    /// The source is done: figures become those of the whole run.
    pub fn on_end(&mut self, end: End) {
        let ready = self.newest.as_deref().map(|newest| self.job(Arc::clone(newest), true).run());
        self.on_ended(end, ready);
    }

    /// The same, with the work of the last sample done.
    pub fn on_ended(&mut self, end: End, ready: Option<Ready>) {
        self.end = Some(end);
        self.paused = false;
        self.shown_ns = None;
        self.seek_ns = None;
        self.range = TimeRange::All;
        let waiting: Vec<EventSample> = self.waiting.drain(..).collect();
        self.on_events(&waiting);
        if let Some(ready) = ready {
            self.on_ready(ready);
        }
    }

    /// Stays at the snapshot that is shown now.
    pub(in crate::tui) fn pin(&mut self) {
        self.shown_ns = self.shown_ns.or_else(|| self.data.as_ref().map(|data| data.model.time_ns));
    }

    /// Shows the newest figures again, with all that came meanwhile.
    pub(in crate::tui) fn unpin(&mut self) {
        self.shown_ns = None;
        let waiting: Vec<EventSample> = self.waiting.drain(..).collect();
        self.on_events(&waiting);
        self.recompute(true);
    }

    /// The number of the snapshot that is shown.
    #[must_use]
    pub fn snapshot(&self) -> Option<usize> {
        match self.shown_ns {
            Some(time) => self.history.at_time(time).or(Some(0)),
            None => self.history.len().checked_sub(1),
        }
    }

    /// Where everything is on the screen.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let warning = self.data.as_ref().is_some_and(|data| data.model.lost.any());
        Layout::new(self.size, warning)
    }

    /// The columns of the table, as they fit.
    #[must_use]
    pub fn columns(&self) -> Vec<column::Fitted> {
        column::fit(
            self.layout().table(self.screen).width.saturating_sub(1),
            self.has(),
            &self.table.columns,
            None,
        )
    }

    /// What there is to be shown in columns.
    #[must_use]
    pub fn has(&self) -> column::Has {
        self.data.as_ref().map(|data| column::Has::of(data.context())).unwrap_or_default()
    }

    pub(in crate::tui) fn keep_in_view(&mut self) {
        let layout = self.layout();
        self.table.cursor.show(self.table.order.len(), layout.table_page(self.screen));
        let busiest = self.data.as_ref().map_or(0, |data| data.busiest.len());
        self.busiest.show(busiest, layout.table_page(Screen::Overview));
        // To count them is to look through all of the log.
        if self.screen == Screen::Events {
            self.events.show(self.event_count(), layout.events_page());
        }
        let links = self.data.as_ref().map_or(0, |data| data.model.links.len());
        self.links.show(links, layout.links_page());
        // To count its lines is to make them.
        if self.screen == Screen::Links {
            let room = usize::from(screens::links::below_height(self, layout.body.height));
            self.below.show(screens::links::below_lines(self), room);
        }
        self.findings.show(self.finding_count(), layout.findings_page());
        let hosts = self.data.as_ref().map_or((0, 0), |data| data.matrix.size());
        self.cell = (self.cell.0.min(hosts.0.saturating_sub(1)), self.cell.1.min(hosts.1.saturating_sub(1)));
    }

    /// Draws conclusions from the newest sample at once; for those who have no thread for it.
    pub fn analyse_with(&mut self, analyst: &mut analysis::Analyst) {
        if let Some(sample) = self.newest.as_deref().cloned() {
            let ask = self.ask();
            self.on_analysis(analyst.analyse(&sample, ask));
        }
    }
}
