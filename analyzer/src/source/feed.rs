//! The seam between sources and views: a source runs in its own thread and sends updates, a view receives
//! them and sends commands.
//!
//! Samples are cumulative, so a view that misses one misses no count; a source therefore never waits for a
//! view with a sample. Events and notices are sent once, and a source waits until the view takes them.

use std::sync::mpsc;

use crate::sample::{EventSample, Sample};

/// A message from a source to its view.
#[derive(Debug)]
pub enum Update {
    /// The counters now.
    Sample(Box<Sample>),
    /// Events since the last update, in order.
    Events(Vec<EventSample>),
    /// A sentence for the user: a warning, or a choice that was made and its reason.
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
    /// Replay only: as fast as possible to this Unix time in nanoseconds, then at the speed of before, or
    /// paused as before. A time in the past changes nothing.
    Seek(u64),
    /// Replay only: back to this Unix time in nanoseconds, by reading all inputs again up to there. Works after
    /// the end too, and then pauses there. An input that can be read only once is answered with a notice.
    Rewind(u64),
    /// Finish: send the last sample, then [`Update::Ended`].
    Stop,
}

/// The view's end.
#[derive(Debug)]
pub struct Feed {
    /// Updates from the source.
    pub updates: mpsc::Receiver<Update>,
    /// Commands to the source.
    pub commands: mpsc::Sender<Command>,
}

/// The source's end.
#[derive(Debug)]
pub struct SourceEnd {
    /// Updates to the view. Bounded: use [`SourceEnd::sample`] for samples.
    pub updates: mpsc::SyncSender<Update>,
    /// Commands from the view.
    pub commands: mpsc::Receiver<Command>,
}

/// Updates that may wait for a view.
const DEPTH: usize = 64;

/// A pair of connected ends.
#[must_use]
pub fn channel() -> (SourceEnd, Feed) {
    let (update_in, update_out) = mpsc::sync_channel(DEPTH);
    let (command_in, command_out) = mpsc::channel();
    (
        SourceEnd { updates: update_in, commands: command_out },
        Feed { updates: update_out, commands: command_in },
    )
}

impl SourceEnd {
    /// Offers a sample; it is dropped when the view is behind. False when the view is gone.
    #[must_use]
    pub fn sample(&self, sample: Sample) -> bool {
        !matches!(
            self.updates.try_send(Update::Sample(Box::new(sample))),
            Err(mpsc::TrySendError::Disconnected(_))
        )
    }

    /// Sends an update that the view must receive; waits while the view is behind. False when it is gone.
    #[must_use]
    pub fn tell(&self, update: Update) -> bool {
        self.updates.send(update).is_ok()
    }
}
