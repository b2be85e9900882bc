//! Going back in a replay: everything is read again up to the time wanted.

use anyhow::Result;

use super::{Clock, Run, Seek};
use crate::source::feed::{Command, Update};
use crate::source::replay::pace::Pace;
use crate::source::replay::tap::{Said, TapReader};
use crate::source::replay::{Emit, open};

impl Run {
    /// Replays everything and sends the last sample; again for as long as someone who watches goes back.
    pub(in crate::source::replay) fn run(mut self) {
        loop {
            let read = self.merge();
            if self.clock.rewind.is_none() {
                self.finish(read);
                self.await_rewind();
            }
            let Some(to_ns) = self.clock.rewind.take() else { return };
            if let Err(error) = self.begin_again(to_ns) {
                let _ = self.tap.tell(Update::Ended(Err(error)));
                return;
            }
        }
    }

    /// After the end, someone who watches may still want to see what was before.
    fn await_rewind(&mut self) {
        if !matches!(self.options.emit, Emit::Watch(_)) {
            return;
        }
        // Until the view is gone, or wants to go back.
        while let Ok(command) = self.tap.commands.recv() {
            match command {
                Command::Stop => return,
                Command::Rewind(to_ns) if self.can_rewind() => {
                    self.clock.rewind = Some(to_ns);
                    self.pace.pause(true, None);
                    return;
                }
                // The view takes it for running again until it hears otherwise.
                Command::Rewind(_) => {
                    let _ = self.tap.tell(Update::Ended(Ok(())));
                }
                Command::Pause(_) | Command::Speed(_) | Command::Seek(_) => {}
            }
        }
    }

    /// Whether all inputs can be read again. Says so when not.
    pub(super) fn can_rewind(&mut self) -> bool {
        let streams = self.taps.iter().any(TapReader::is_stream);
        if streams {
            let notice = "a stream can be read only once: what is no longer kept of it is gone".to_owned();
            // A view that is gone need not know.
            let _ = self.tap.tell(Update::Notice(notice));
        }
        !streams
    }

    /// Opens everything again, to be read as fast as possible up to a time.
    fn begin_again(&mut self, to_ns: u64) -> Result<()> {
        let opened = open(&self.options)?;
        let speed = self.clock.seek.map_or(self.pace.speed(), |seek| seek.speed);
        let paused = self.clock.seek.map_or(self.pace.paused(), |seek| seek.paused);
        (self.taps, self.counts, self.inputs) = (opened.taps, opened.counts, opened.names);
        self.said = Said { notices: opened.notices, failure: None };
        self.clock = Clock { seek: Some(Seek { to_ns, speed, paused }), ..Clock::default() };
        self.pace = Pace::new(f64::INFINITY);
        // A view that is gone is noticed with the first sample.
        let _ = self.tap.tell(Update::Again);
        Ok(())
    }
}
