//! The seam between sources and views: a source runs in its own thread and sends updates, a view
//! takes them and sends commands.
//!
//! Samples are cumulative, so a view that is slow may miss one without missing a count; a source
//! therefore never waits for a view with a sample. What it says in events and notices it says once.

use std::sync::mpsc;

use crate::sample::{EventSample, Sample};

/// What a source tells.
#[derive(Debug)]
pub enum Update {
    /// The counters now.
    Sample(Box<Sample>),
    /// What happened since the last update, in order.
    Events(Vec<EventSample>),
    /// A sentence for the user: a warning, or what was chosen and why.
    Notice(String),
    /// Replay only: it begins anew, after [`Command::Rewind`]. What was said before is still to come.
    Again,
    /// The source is done and its last sample was sent. An error ends a run with exit status 1.
    Ended(Result<(), anyhow::Error>),
}

/// What a view asks of a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Command {
    /// Replay only: stop the data's time, or let it go on.
    Pause(bool),
    /// Replay only: the data's time against the clock; infinity for as fast as possible.
    Speed(f64),
    /// Replay only: as fast as possible to this Unix time in nanoseconds, then on (or paused) as before. A
    /// time that is past changes nothing.
    Seek(u64),
    /// Replay only: back to this Unix time in nanoseconds, by reading everything again up to there. After the
    /// end too; then it stands still when it is there. What can be read only once says so in a notice.
    Rewind(u64),
    /// Finish: send the last sample, then [`Update::Ended`].
    Stop,
}

/// The view's end.
#[derive(Debug)]
pub struct Feed {
    /// Updates from the source.
    pub updates: mpsc::Receiver<Update>,
    /// Commands to it.
    pub commands: mpsc::Sender<Command>,
}

/// The source's end.
#[derive(Debug)]
pub struct Tap {
    /// Updates to the view. Bounded: use [`Tap::sample`] for samples.
    pub updates: mpsc::SyncSender<Update>,
    /// Commands from it.
    pub commands: mpsc::Receiver<Command>,
}

/// Updates that may wait for a view.
const DEPTH: usize = 64;

/// A pair of connected ends.
#[must_use]
pub fn channel() -> (Tap, Feed) {
    let (update_in, update_out) = mpsc::sync_channel(DEPTH);
    let (command_in, command_out) = mpsc::channel();
    (Tap { updates: update_in, commands: command_out }, Feed { updates: update_out, commands: command_in })
}

impl Tap {
    /// Offers a sample; a view that is behind does without. False when the view is gone.
    #[must_use]
    pub fn sample(&self, sample: Sample) -> bool {
        !matches!(
            self.updates.try_send(Update::Sample(Box::new(sample))),
            Err(mpsc::TrySendError::Disconnected(_))
        )
    }

    /// Says something that the view must hear; waits while it is behind. False when it is gone.
    #[must_use]
    pub fn tell(&self, update: Update) -> bool {
        self.updates.send(update).is_ok()
    }
}
