//! The interface between sources and views: a source runs in its own thread and sends updates; a view receives them
//! and sends commands.
//!
//! Samples are cumulative, so that a view that misses one loses no counts; a source therefore never waits for a view
//! with a sample. Events and notices are sent only once, so a source waits until the view receives them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use crate::sample::{EventSample, Sample};

/// A message from a source to its view.
#[derive(Debug)]
pub enum Update {
    /// Current counters of the source.
    Sample(Box<Sample>),
    /// Events since the last update, in order.
    Events(Vec<EventSample>),
    /// A sentence for the user: a warning, or an automatic choice with its reason.
    Notice(String),
    /// Replay only: it restarts from the beginning, after [`Command::Rewind`]. Everything sent before is void.
    Restarted,
    /// The source is done and its last sample was sent. An error ends a run with exit status 1.
    Ended(Result<(), anyhow::Error>),
}

/// A message from a view to its source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Command {
    /// Replay only: pause (true) or resume (false).
    Pause(bool),
    /// Replay only: data time per clock time; infinity for as fast as possible.
    Speed(f64),
    /// Replay only: go to this Unix time in nanoseconds as fast as possible, then continue at the previous speed or
    /// paused. A time in the past has no effect.
    Seek(u64),
    /// Replay only: go back to this Unix time in nanoseconds, by reading all inputs again up to there. Also works
    /// after the end, and then pauses there. For an input that can be read only once, the source sends a notice.
    Rewind(u64),
    /// Live only: write a dump of the flight recorder. Without a recorder the source sends a notice.
    Dump,
    /// End: send the last sample, then [`Update::Ended`].
    Stop,
}

/// The view's end of the channel.
#[derive(Debug)]
pub struct Feed {
    /// Updates from the source.
    pub updates: mpsc::Receiver<Update>,
    /// Commands to the source.
    pub commands: mpsc::Sender<Command>,
}

/// The source's end of the channel.
#[derive(Debug)]
pub struct SourceEnd {
    /// Updates to the view. Bounded: use [`SourceEnd::sample`] for samples.
    pub updates: mpsc::SyncSender<Update>,
    /// Commands from the view.
    pub commands: mpsc::Receiver<Command>,
}

/// Cyclic sequence of a source's episodes, as in the demonstration.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Beginning of the first one, Unix time in nanoseconds.
    pub start_ns: u64,
    /// Length of each in nanoseconds.
    pub length_ns: u64,
    /// Their titles, in order.
    pub titles: Vec<&'static str>,
    /// Delay of the source behind this plan, in nanoseconds.
    pub delayed_ns: Arc<AtomicU64>,
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        (self.start_ns, self.length_ns, &self.titles) == (other.start_ns, other.length_ns, &other.titles)
            && Arc::ptr_eq(&self.delayed_ns, &other.delayed_ns)
    }
}

/// The running episode of a demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its number, from 1.
    pub number: usize,
    /// Title of the episode.
    pub title: &'static str,
    /// Time until the next, in nanoseconds.
    pub left_ns: u64,
    /// The title of the next.
    pub next: &'static str,
}

impl Schedule {
    /// The episode at a Unix time in nanoseconds; `None` before the first.
    pub fn at(&self, time_ns: u64) -> Option<Running> {
        let begin_ns = self.start_ns.saturating_add(self.delayed_ns.load(Ordering::Relaxed));
        let since_ns = time_ns.checked_sub(begin_ns)?;
        let passed = usize::try_from(since_ns.checked_div(self.length_ns)?).ok()?;
        let title = |number: usize| self.titles.get(number.checked_rem(self.titles.len())?).copied();
        Some(Running {
            number: passed.checked_rem(self.titles.len())? + 1,
            title: title(passed)?,
            left_ns: self.length_ns - since_ns % self.length_ns,
            next: title(passed + 1)?,
        })
    }
}

/// Maximum number of queued updates.
const DEPTH: usize = 64;

/// The response to [`Command::Dump`] without a flight recorder.
pub fn no_recorder() -> Update {
    Update::Notice("no flight recorder runs: start rocescope live with --keep 10m".to_owned())
}

/// A pair of connected ends.
pub fn channel() -> (SourceEnd, Feed) {
    let (update_in, update_out) = mpsc::sync_channel(DEPTH);
    let (command_in, command_out) = mpsc::channel();
    (
        SourceEnd { updates: update_in, commands: command_out },
        Feed { updates: update_out, commands: command_in },
    )
}

impl SourceEnd {
    /// Sends a sample, which is dropped if the view's queue is full. False if the view has ended.
    pub fn sample(&self, sample: Sample) -> bool {
        !matches!(
            self.updates.try_send(Update::Sample(Box::new(sample))),
            Err(mpsc::TrySendError::Disconnected(_))
        )
    }

    /// Sends an update that the view must receive; waits while its queue is full. False if the view has ended.
    pub fn tell(&self, update: Update) -> bool {
        self.updates.send(update).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn episodes_follow_one_another_in_a_circle_and_wait_for_a_source_that_is_late() {
        let schedule =
            Schedule { start_ns: 100, length_ns: 10, titles: vec!["a", "b"], delayed_ns: Arc::default() };
        assert_eq!(schedule.at(99), None);
        assert_eq!(schedule.at(100), Some(Running { number: 1, title: "a", left_ns: 10, next: "b" }));
        assert_eq!(schedule.at(119), Some(Running { number: 2, title: "b", left_ns: 1, next: "a" }));
        assert_eq!(schedule.at(120).map(|running| running.title), Some("a"));
        schedule.delayed_ns.store(5, Ordering::Relaxed);
        assert_eq!(schedule.at(120), Some(Running { number: 2, title: "b", left_ns: 5, next: "a" }));
        assert_eq!(Schedule { titles: Vec::new(), ..schedule.clone() }.at(120), None);
        assert_eq!(Schedule { length_ns: 0, ..schedule }.at(120), None);
    }
}
