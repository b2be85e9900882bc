//! Sits between a source and its view: the recorder sees every update, and the view gets it unchanged.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError, TrySendError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::recorder::Recorder;
use crate::source::feed::{Command, Feed, SourceEnd, Update};

/// Maximum delay of a command from the view.
const LOOK: Duration = Duration::from_millis(20);

/// Passes a feed on to `end` through a recorder. The thread ends with the source or the view.
///
/// # Errors
/// If a thread cannot be started.
pub fn start(source: Feed, end: SourceEnd, recorder: Recorder) -> io::Result<JoinHandle<()>> {
    let tee = Tee { source, end, recorder, waiting: None };
    std::thread::Builder::new().name("recorder".to_owned()).spawn(move || tee.run())
}

struct Tee {
    source: Feed,
    end: SourceEnd,
    recorder: Recorder,
    /// A sample for which the view's queue had no room; kept because the last one must arrive.
    waiting: Option<Update>,
}

impl Tee {
    fn run(mut self) {
        while self.commands() {
            match self.source.updates.recv_timeout(LOOK) {
                Ok(update) => {
                    if !self.pass(update) {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.recorder.finish();
    }

    /// Passes commands on; false if the view has ended.
    fn commands(&mut self) -> bool {
        loop {
            match self.end.commands.try_recv() {
                Ok(Command::Dump) => {
                    self.recorder.requests().key.store(true, Ordering::Relaxed);
                    let _gone =
                        self.end.tell(Update::Notice("a dump will be written after --post".to_owned()));
                }
                Ok(command) => {
                    // If this fails, the source has ended, and the next update reports it.
                    let _ = self.source.commands.send(command);
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Shows an update to the recorder and passes it on; false after the last update.
    fn pass(&mut self, update: Update) -> bool {
        match &update {
            Update::Sample(sample) => {
                if let Some(notice) = self.recorder.sample(sample) {
                    // If the view has ended, sending the sample shows it.
                    let _gone = self.end.tell(Update::Notice(notice));
                }
                return match self.end.updates.try_send(update) {
                    Ok(()) => {
                        self.waiting = None;
                        true
                    }
                    Err(TrySendError::Full(update)) => {
                        self.waiting = Some(update);
                        true
                    }
                    Err(TrySendError::Disconnected(_)) => false,
                };
            }
            Update::Events(events) => self.recorder.events(events),
            Update::Ended(_) => {
                if let Some(sample) = self.waiting.take() {
                    let _gone = self.end.tell(sample);
                }
                let _gone = self.end.tell(update);
                return false;
            }
            Update::Notice(_) | Update::Restarted => {}
        }
        self.end.tell(update)
    }
}
