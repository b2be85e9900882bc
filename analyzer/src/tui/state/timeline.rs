//! Time: the snapshots kept, and which of them is shown.

use std::collections::VecDeque;
use std::sync::Arc;

use super::readings::Readings;
use super::trail::Trail;
use crate::model::History;
use crate::sample::{EventSample, Sample};

/// Events that wait while the view is paused, at most; older ones go first.
const WAITING: usize = 8_192;

/// Samples of a replay that are kept for findings of earlier times, and their flows, at most.
const SAMPLES: usize = 64;
const FLOWS: usize = 16_384;

/// End of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All data was read.
    Done,
    /// The source failed, with its error in a sentence.
    Failed(String),
}

/// The last minutes, and the place in them that is shown.
#[derive(Debug)]
pub struct Timeline {
    /// Snapshots of the last minutes.
    pub history: History,
    /// The latest readings of devices.
    pub trail: Trail,
    /// Readings of the NIC's own contexts of queue pairs.
    pub readings: Readings,
    /// Samples at snapshots of a replay, for findings of their times.
    samples: VecDeque<Arc<Sample>>,
    /// Events that came while the view was paused.
    waiting: VecDeque<EventSample>,
    /// True if the user paused.
    pub paused: bool,
    /// Time of the snapshot shown; `None` for the newest.
    pub shown_ns: Option<u64>,
    /// Time that a replay is seeking.
    pub seek_ns: Option<u64>,
    /// Replay speed; `None` where there is none.
    pub speed: Option<f64>,
    /// End of the run.
    pub end: Option<End>,
}

impl Timeline {
    /// Nothing yet, with `history_bytes` of memory for snapshots.
    pub fn new(history_bytes: usize, speed: Option<f64>) -> Self {
        Self {
            history: History::new(history_bytes),
            trail: Trail::default(),
            readings: Readings::default(),
            samples: VecDeque::new(),
            waiting: VecDeque::new(),
            paused: false,
            shown_ns: None,
            seek_ns: None,
            speed,
            end: None,
        }
    }

    /// True if values stand still, so that one can step in time.
    pub const fn still(&self) -> bool {
        self.paused || self.end.is_some()
    }

    /// Number of the snapshot shown.
    pub fn snapshot(&self) -> Option<usize> {
        match self.shown_ns {
            Some(time) => self.history.at_time(time).or(Some(0)),
            None => self.history.len().checked_sub(1),
        }
    }

    /// Keeps the sample of a snapshot for findings of its time: of many every other one, so that they stay spread over
    /// all of the data.
    pub(in crate::tui) fn keep(&mut self, sample: &Arc<Sample>) {
        self.samples.push_back(Arc::clone(sample));
        let flows = |all: &VecDeque<Arc<Sample>>| all.iter().map(|one| one.flows.len().max(1)).sum::<usize>();
        while self.samples.len() > SAMPLES || self.samples.len() > 1 && flows(&self.samples) > FLOWS {
            let mut at = 0;
            self.samples.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
    }

    /// Forgets the kept samples.
    pub(in crate::tui) fn forget_samples(&mut self) {
        self.samples.clear();
    }

    /// The sample of the snapshot shown, or the latest kept before it.
    pub(in crate::tui) fn sample_shown(&self) -> Option<&Arc<Sample>> {
        let shown_ns = self.shown_ns?;
        self.samples.iter().rev().find(|sample| sample.time_ns <= shown_ns)
    }

    /// Keeps events until the view goes on.
    pub(in crate::tui) fn hold_back(&mut self, events: &[EventSample]) {
        self.waiting.extend(events.iter().cloned());
        let over = self.waiting.len().saturating_sub(WAITING);
        self.waiting.drain(..over);
    }

    /// The events held back, which it no longer keeps.
    pub(in crate::tui) fn take_waiting(&mut self) -> Vec<EventSample> {
        self.waiting.drain(..).collect()
    }
}
