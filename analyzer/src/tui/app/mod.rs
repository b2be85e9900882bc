//! The terminal UI as one state: the screens with what they share, and its changes by samples, events and notices. No
//! I/O, no clock.
//!
//! | module | holds |
//! |---|---|
//! | `keys`, [`mouse`], `time`, `export`, `copy` | changes by keys and the mouse; what keys write and copy |
//! | `refresh` | the values shown, made again after a change |
//! | `draw`, `header`, `tabs`, `status`, `help` | the picture: the frame around the screens, and boxes over them |

mod copy;
mod draw;
mod export;
mod header;
mod help;
mod keys;
pub mod mouse;
mod refresh;
mod status;
mod tabs;
mod time;

use std::sync::Arc;

use rocescope_common::account::FlowKey;

pub use self::draw::{draw, render};
use super::Options;
use super::analysis::{Analysis, Analyst, Scope};
use super::cursor::Cursor;
pub use super::data::Data;
pub use super::export::File;
use super::log::{EntryAt, Log, Retransmissions};
pub use super::overlay::{OpenedEvent, Overlay};
use super::preparation::{Preparation, Prepared, Step};
use super::prompt::Prompt;
use super::screen::Screen;
use super::screens::{Screens, packet};
pub use super::timeline::End;
use super::view::{AsOf, View};
use crate::model::TimeRange;
use crate::sample::{EventSample, PeerKey, Sample, SourceKind};
use crate::source::feed::Command;
use crate::util::deferred::{Deferred, discard};

/// Action of the loop after a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// There is nothing to do.
    None,
    /// The screen is to be drawn.
    Draw,
    /// Clear the terminal and draw.
    Redraw,
    /// Send the source a command, and draw.
    Send(Command),
    /// Have the replay go back to this time and play on from there, and draw.
    Play {
        /// Unix time in nanoseconds.
        from_ns: u64,
        /// Data time per clock time.
        speed: f64,
    },
    /// Have the newest sample analysed again, and draw.
    Analyse,
    /// Write a file, say so, and draw.
    Write(File),
    /// Make this the content of the terminal's clipboard, and draw.
    Copy(String),
    /// Go to the background, as job control does.
    Suspend,
    /// The program is to end.
    Quit,
}

impl Action {
    /// Commands to the source, in this order.
    pub fn commands(self) -> Vec<Command> {
        match self {
            Self::Send(command) => vec![command],
            // After its end a source that is rewound stands still at the target.
            Self::Play { from_ns, speed } => {
                vec![Command::Rewind(from_ns), Command::Speed(speed), Command::Pause(false)]
            }
            _ => Vec::new(),
        }
    }
}

/// The state of the terminal UI.
#[derive(Debug)]
pub struct App {
    /// The state that screens share.
    pub view: View,
    /// The screens' own states.
    pub screens: Screens,
    /// The screen that Esc leads to from the details.
    pub back_to: Screen,
    /// The box over the screen.
    pub overlay: Overlay,
    /// The line that is being typed.
    pub prompt: Option<Prompt>,
    /// Time of the latest earlier sample that was to be analysed.
    asked_ns: Option<u64>,
    /// True if the filter or the order has changed since rows were arranged.
    rows_due: bool,
}

impl App {
    /// State before the first sample.
    pub fn new(options: Options) -> Self {
        Self {
            screens: Screens::new(&options),
            view: View::new(options),
            back_to: Screen::Qps,
            overlay: Overlay::None,
            prompt: None,
            asked_ns: None,
            rows_due: false,
        }
    }

    /// Scope of the next analysis.
    pub fn scope(&self) -> Scope {
        Scope { range: self.view.range, uplinks: self.screens.links.uplinks }
    }

    /// True if the newest sample should be analysed at once: there is no verdict yet, or a trouble has begun to show.
    pub fn is_news(&self) -> bool {
        self.view.analysis.is_none() || self.view.timeline.history.has_onset()
    }

    /// The opened event, and its entry; `None` when none is open, or it is not kept any more.
    pub fn opened(&self) -> Option<(&EventSample, EntryAt<'_>)> {
        let Overlay::Packet(opened) = self.overlay else { return None };
        packet::event(&self.view, opened)
    }

    /// The terminal has another size.
    pub fn on_resize(&mut self, width: u16, height: u16) {
        let reading = self.screens.events.reading(&self.view);
        self.view.size = (width, height);
        self.screens.events.go_on(&self.view, reading);
        self.keep_in_view();
    }

    /// The work that a new sample needs before [`on_prepared`](Self::on_prepared) takes it.
    pub fn preparation(&self, sample: Arc<Sample>, last: bool) -> Preparation {
        let wanted = last || self.view.moves();
        let range = if last { TimeRange::All } else { self.view.range };
        Preparation {
            earlier: Vec::new(),
            sample,
            last,
            history: self.view.timeline.history.clone(),
            range: wanted.then_some(range),
            texts: self.view.filter.texts.clone(),
            matrix: self.view.screen == Screen::Matrix,
            by: self.view.by,
            options: self.view.options.report.clone(),
            analysis: self.view.analysis.as_deref().cloned(),
        }
    }

    /// Takes a sample. While the view is paused it goes into the history alone.
    pub fn on_sample(&mut self, sample: Arc<Sample>) {
        let prepared = self.preparation(sample, false).run();
        self.on_prepared(prepared);
    }

    /// Takes a sample that is prepared.
    pub fn on_prepared(&mut self, prepared: Prepared) {
        let Prepared { steps, sample, last, values, texts } = prepared;
        self.view.filter.texts = texts;
        if self.view.newest.as_ref().is_some_and(|newest| newest.time_ns > sample.time_ns) {
            // A replay restarted.
            self.forget_events();
            self.view.analysis = None;
        }
        let newest = steps.len().saturating_sub(1);
        for (at, step) in steps.into_iter().enumerate() {
            self.remember(step, last && at == newest);
        }
        let seeking = self.view.timeline.seek_ns.is_some();
        self.view.timeline.seek_ns = self.view.timeline.seek_ns.filter(|to| sample.time_ns < *to);
        if !self.view.timeline.paused {
            self.recompute_from(values, true);
        } else if seeking {
            // On the way the picture moves; where the way ends it stands still again.
            self.view.timeline.paused = false;
            self.recompute_from(values, true);
            self.view.timeline.paused = true;
            if self.view.timeline.seek_ns.is_none() {
                self.pin();
            }
        } else if self.view.data.is_none() {
            self.recompute_from(values, true);
            self.pin();
        }
    }

    /// Adds a sample to the history, and what follows from it to the events.
    fn remember(&mut self, step: Step, last: bool) {
        let Step { sample, next, idle } = step;
        self.on_events(&idle);
        self.view.log.find_senders(&sample);
        let gaps = self.view.log.unsettled();
        if !gaps.is_empty() {
            let earlier = self.view.newest.as_ref();
            let before = earlier.map(|earlier| (earlier.time_ns, Retransmissions::of(earlier, &gaps)));
            let (before_ns, before) = before.unwrap_or_default();
            self.view
                .log
                .retransmitted((before_ns, &before), (sample.time_ns, &Retransmissions::of(&sample, &gaps)));
        }
        if let Some(next) = next {
            if sample.kind == SourceKind::Replay {
                self.view.timeline.keep(&sample);
            }
            self.view.timeline.history.append(next, &sample, last);
            self.view.log.settle(sample.time_ns);
        }
        self.view.timeline.trail.push(&sample.devices);
        self.view.timeline.readings.push(&sample.devices.contexts);
        self.view.newest = Some(Deferred::new(sample));
    }

    /// Takes new events, in order.
    pub fn on_events(&mut self, events: &[EventSample]) {
        if self.view.timeline.paused && self.view.timeline.seek_ns.is_none() {
            self.view.timeline.hold_back(events);
            return;
        }
        let reading = self.screens.events.reading(&self.view);
        for event in events {
            let history = &self.view.timeline.history;
            let before = event.time_ns.checked_sub(1).and_then(|before| history.at_time(before));
            let snapshot = before.and_then(|at| history.get(at));
            let peers = self.view.newest.as_ref().map(|newest| &newest.peers);
            let peer = |key: &FlowKey| peers.and_then(|peers| peers.get(&PeerKey::of(key))).copied();
            self.view.log.push_with(event, snapshot.map_or(0, |snapshot| snapshot.time_ns), peer);
        }
        self.find_rows();
        // A user who looks at older entries keeps looking at them.
        self.screens.events.go_on(&self.view, reading);
        self.keep_in_view();
    }

    /// The source restarts: everything that was seen is still to come.
    pub fn on_restart(&mut self) {
        self.forget_events();
        self.view.timeline.history.clear();
        self.view.timeline.forget_samples();
        (self.view.newest, self.view.analysis, self.asked_ns) = (None, None, None);
    }

    /// Everything that was seen is still to come: no event is listed or open.
    fn forget_events(&mut self) {
        self.view.log = Log::default();
        self.screens.forget_lines();
        drop(self.view.timeline.take_waiting());
        self.view.timeline.shown_ns = None;
        self.screens.events.cursor = Cursor::default();
        self.screens.detail.marked = None;
        if matches!(self.overlay, Overlay::Packet(_)) {
            self.overlay = Overlay::None;
        }
    }

    /// Takes the conclusions of an analysis.
    pub fn on_analysis(&mut self, analysis: Analysis) {
        // Conclusions of a time that a replay has gone back behind are void.
        if self.view.newest.as_ref().is_none_or(|newest| newest.time_ns < analysis.time_ns) {
            discard(analysis);
            return;
        }
        if let Some(entropy) = analysis.entropy {
            self.view.timeline.history.set_entropy(analysis.time_ns, entropy);
        }
        self.view.timeline.history.set_conclusions(Arc::clone(&analysis.conclusions));
        if self.view.analysis.as_ref().is_some_and(|newest| newest.time_ns > analysis.time_ns) {
            // Of the earlier time that is shown.
            discard(analysis);
            self.judge();
            self.arrange(true);
            return;
        }
        // A seek while paused ends at a time of its own, whose analysis comes later.
        let shown_ns = self.view.data.as_ref().map_or(0, |data| data.model.time_ns);
        let of_shown = analysis.time_ns <= shown_ns;
        if !self.view.timeline.paused || self.view.analysis.is_none() || of_shown {
            self.view.analysis = Some(Deferred::new(Arc::new(analysis)));
            self.judge();
            self.arrange(true);
        } else {
            discard(analysis);
        }
    }

    /// The sample of an earlier time that is shown whose findings are not known, once: a replay keeps some.
    pub fn unanalysed(&mut self) -> Option<Arc<Sample>> {
        let sample = self.view.timeline.sample_shown()?;
        let known = self.view.concluded().and_then(|concluded| match concluded.as_of {
            AsOf::Now => Some(u64::MAX),
            AsOf::Earlier(time_ns) => Some(time_ns),
            AsOf::Later(_) => None,
        });
        let asked = self.asked_ns == Some(sample.time_ns);
        if asked || self.view.analysis.is_none() || known.is_some_and(|known| known >= sample.time_ns) {
            return None;
        }
        let sample = Arc::clone(sample);
        self.asked_ns = Some(sample.time_ns);
        Some(sample)
    }

    /// Takes a sentence for the user.
    pub fn on_notice(&mut self, notice: String) {
        self.view.messages.notice(notice);
    }

    /// The source is done: values become those of the whole run.
    pub fn on_end(&mut self, end: End) {
        let newest = self.view.newest.as_deref();
        let prepared = newest.map(|newest| self.preparation(Arc::clone(newest), true).run());
        self.on_ended(end, prepared);
    }

    /// The same, with the last sample prepared.
    pub fn on_ended(&mut self, end: End, prepared: Option<Prepared>) {
        let timeline = &mut self.view.timeline;
        timeline.end = Some(end);
        timeline.paused = false;
        (timeline.shown_ns, timeline.seek_ns) = (None, None);
        self.view.range = TimeRange::All;
        let waiting = self.view.timeline.take_waiting();
        self.on_events(&waiting);
        if let Some(prepared) = prepared {
            self.on_prepared(prepared);
        }
    }

    /// Stays at the snapshot that is shown now.
    pub(in crate::tui) fn pin(&mut self) {
        let now = self.view.data.as_ref().map(|data| data.model.time_ns);
        self.view.timeline.shown_ns = self.view.timeline.shown_ns.or(now);
    }

    /// Shows the newest values again, with all events that came meanwhile.
    pub(in crate::tui) fn unpin(&mut self) {
        self.view.timeline.shown_ns = None;
        let waiting = self.view.timeline.take_waiting();
        self.on_events(&waiting);
        self.recompute(true);
    }

    /// Draws conclusions from the newest sample at once; for callers without a thread for it.
    pub fn analyse_with(&mut self, analyst: &mut Analyst) {
        if let Some(earlier) = self.unanalysed() {
            let scope = self.scope();
            let options = self.view.options.report.clone();
            self.on_analysis(Analyst::new(options).analyse(&earlier, scope));
            return;
        }
        if let Some(sample) = self.view.newest.as_deref().cloned() {
            let scope = self.scope();
            self.on_analysis(analyst.analyse(&sample, scope));
        }
    }
}
