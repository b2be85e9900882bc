//! Two threads take turns at one replay, each with a part of the file that it has read itself.
//!
//! ```text
//! this thread: part 0: read, count │ part 2: read      , count │ part 4: read ...
//! the other:   part 1: read             , count │ part 3: read        , count
//! ```
//!
//! The replay as a whole changes hands, so everything is counted in the order of the file, by one thread at a time. Only
//! the reading, which of long frames is most of the work, is done side by side.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};
use std::thread;

use anyhow::Result;

use super::{Run, Step};
use crate::source::capture::{Part, Place};
use crate::source::replay::tap::TapReader;

/// Goes on with a replay whose tap wants a part of its file, to the end.
pub(super) fn take(run: &mut Run) -> Result<Step> {
    let second = run.wants_part().map(|first| first.further(1));
    let (to_here, here) = sync_channel(1);
    let (to_other, other) = sync_channel(1);
    let here = Seat { take: here, pass: to_other };
    let other = Seat { take: other, pass: to_here };
    thread::scope(|scope| {
        // Without another thread, this one has every turn.
        let thread = thread::Builder::new().name("replay-turns".into());
        let other = thread.spawn_scoped(scope, move || other.turns(None, second)).ok();
        let mut end = here.turns(Some(run), None);
        if let Some(other) = other {
            end = end.or(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        end.unwrap_or(Ok(Ok(())))
    })
}

/// Where one of the threads sits: the replay comes to it, and goes on to the other. When it is left, the other one hears it.
struct Seat<'run> {
    take: Receiver<&'run mut Run>,
    pass: SyncSender<&'run mut Run>,
}

impl<'run> Seat<'run> {
    /// Reads the part after the next while the other counts, counts it, hands on. `None` when the end came to the other.
    fn turns(self, mut mine: Option<&'run mut Run>, mut next: Option<Place>) -> Option<Result<Step>> {
        let mut buf = Vec::new();
        loop {
            let ready = next.take().map(|place| Part::read(place, std::mem::take(&mut buf)));
            let run = match mine.take() {
                Some(run) => run,
                None => self.take.recv().ok()?,
            };
            if let Some(place) = run.wants_part() {
                next = Some(place.further(2));
                let part = match ready {
                    Some(part) if part.is_at(&place) => part,
                    // A file that grows, or another one.
                    Some(part) => Part::read(place, part.into_buf()),
                    None => Part::read(place, std::mem::take(&mut buf)),
                };
                run.give_part(part);
            }
            match run.go_on() {
                Ok(None) => {
                    buf = run.take_back();
                    if let Err(SendError(run)) = self.pass.send(run) {
                        mine = Some(run);
                        next = None;
                    }
                }
                Ok(Some(step)) => return Some(Ok(step)),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Run {
    /// The tap in the middle of its turn.
    fn going(&mut self) -> Option<&mut TapReader> {
        let (at, _) = self.order.going?;
        self.taps.get_mut(at)
    }

    /// The part that it wants.
    fn wants_part(&mut self) -> Option<Place> {
        self.going()?.wants_part()
    }

    fn give_part(&mut self, part: Part) {
        if let Some(tap) = self.going() {
            tap.give_part(part);
        }
    }

    fn take_back(&mut self) -> Vec<u8> {
        self.going().map(TapReader::take_back).unwrap_or_default()
    }
}
