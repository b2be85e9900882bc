//! Rewinding a replay: all inputs are read again up to the target time.

use anyhow::Result;

use super::{Clock, Replay};
use crate::source::feed::{Command, Update, no_recorder};
use crate::source::replay::tap::{Messages, TapReader};
use crate::source::replay::{Emit, open};

impl Replay {
    /// Replays all inputs and sends the last sample; once more for each rewind.
    pub(in crate::source::replay) fn run(mut self) {
        loop {
            let read = self.merge();
            if self.clock.rewind.is_none() {
                self.finish(read);
                self.await_rewind();
            }
            let Some(to_ns) = self.clock.rewind.take() else { return };
            if let Err(error) = self.reopen(to_ns) {
                let _ = self.feed.tell(Update::Ended(Err(error)));
                return;
            }
        }
    }

    /// After the end, waits for a rewind if a view is interactive.
    fn await_rewind(&mut self) {
        if !matches!(self.options.emit, Emit::Watch(_)) {
            return;
        }
        while let Ok(command) = self.feed.commands.recv() {
            match command {
                Command::Stop => return,
                Command::Rewind(to_ns) if self.can_rewind() => {
                    self.clock.rewind = Some(to_ns);
                    self.pace.pause(true, None);
                    return;
                }
                // Without a notice the view would assume that the rewind is in progress.
                Command::Rewind(_) => {
                    let _ = self.feed.tell(Update::Ended(Ok(())));
                }
                Command::Dump => {
                    let _ = self.feed.tell(no_recorder());
                }
                Command::Pause(_) | Command::Speed(_) | Command::Seek(_) => {}
            }
        }
    }

    /// True if all inputs can be read again; sends a notice when not.
    pub(super) fn can_rewind(&mut self) -> bool {
        let streams = self.taps.iter().any(TapReader::is_stream);
        if streams {
            let notice = "a stream can be read only once, and earlier data is no longer kept; record it to a file to go back in it".to_owned();
            // The view may have ended.
            let _ = self.feed.tell(Update::Notice(notice));
        }
        !streams
    }

    /// Opens all inputs again, to be read as fast as possible up to a time.
    fn reopen(&mut self, to_ns: u64) -> Result<()> {
        let opened = open(&self.options)?;
        (self.taps, self.counts, self.inputs) = (opened.taps, opened.counts, opened.names);
        self.messages = Messages { notices: opened.notices, failure: None };
        (self.clock, self.pace) = (Clock::default(), self.pace.anew(to_ns));
        // If the view has ended, sending the first sample notices.
        let _ = self.feed.tell(Update::Restarted);
        Ok(())
    }
}
