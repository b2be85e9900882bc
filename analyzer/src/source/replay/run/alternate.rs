//! Two threads replay one file alternately: each counts the part of the file that it has read itself.
//!
//! ```text
//! this thread: part 0: read, count │ part 2: read      , count │ part 4: read ...
//! the other:   part 1: read             , count │ part 3: read        , count
//! ```
//!
//! The complete replay state passes from thread to thread, so that everything is counted in the order of the file, by
//! one thread at a time. Only the reading, which takes most of the time for whole frames, runs in parallel.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};
use std::thread;

use anyhow::Result;

use super::{Replay, Step};
use crate::source::capture::{Location, Part};
use crate::source::replay::tap::TapReader;

/// Runs a replay whose tap wants a part of its file to the end.
pub(super) fn run(replay: &mut Replay) -> Result<Step> {
    let second = replay.wanted_part().map(|first| first.further(1));
    let (to_this, from_other) = sync_channel(1);
    let (to_other, from_this) = sync_channel(1);
    let this = Side { incoming: from_other, outgoing: to_other };
    let other = Side { incoming: from_this, outgoing: to_this };
    thread::scope(|scope| {
        // Without another thread, this one reads and counts all parts.
        let thread = thread::Builder::new().name("replay-2".into());
        let other = thread.spawn_scoped(scope, move || other.run(None, second)).ok();
        let mut end = this.run(Some(replay), None);
        if let Some(other) = other {
            end = end.or(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        end.unwrap_or(Ok(Ok(())))
    })
}

/// One of the two threads: it receives the replay and passes it back to the other thread. Either end of a channel
/// that is dropped ends the other thread.
struct Side<'run> {
    incoming: Receiver<&'run mut Replay>,
    outgoing: SyncSender<&'run mut Replay>,
}

impl<'run> Side<'run> {
    /// Reads the part after the next while the other thread counts, counts it, passes the replay on. `None` when
    /// the replay ended in the other thread.
    fn run(self, mut mine: Option<&'run mut Replay>, mut next: Option<Location>) -> Option<Result<Step>> {
        let mut buf = Vec::new();
        loop {
            let ready = next.take().map(|location| Part::read(location, std::mem::take(&mut buf)));
            let replay = match mine.take() {
                Some(replay) => replay,
                None => self.incoming.recv().ok()?,
            };
            if let Some(location) = replay.wanted_part() {
                next = Some(location.further(2));
                let part = match ready {
                    Some(part) if part.is_at(&location) => part,
                    // The file grows, or the next file of the tap began.
                    Some(part) => Part::read(location, part.into_buf()),
                    None => Part::read(location, std::mem::take(&mut buf)),
                };
                replay.give_part(part);
            }
            match replay.resume() {
                Ok(None) => {
                    buf = replay.reclaim_buffer();
                    if let Err(SendError(replay)) = self.outgoing.send(replay) {
                        mine = Some(replay);
                        next = None;
                    }
                }
                Ok(Some(step)) => return Some(Ok(step)),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Replay {
    /// The tap that was interrupted for the next part of its file.
    fn current_tap(&mut self) -> Option<&mut TapReader> {
        let (at, _) = self.order.current?;
        self.taps.get_mut(at)
    }

    /// The location of the part that the tap wants.
    fn wanted_part(&mut self) -> Option<Location> {
        self.current_tap()?.wanted_part()
    }

    fn give_part(&mut self, part: Part) {
        if let Some(tap) = self.current_tap() {
            tap.give_part(part);
        }
    }

    fn reclaim_buffer(&mut self) -> Vec<u8> {
        self.current_tap().map(TapReader::reclaim_buffer).unwrap_or_default()
    }
}
