//! Control of a run by its view: commands to the source, notices to the user.

use std::time::Duration;

use crate::source::feed::{Command, SourceEnd, no_recorder};

/// Sentences for the user.
pub(super) type Notices = Vec<String>;

/// Interval at which commands and the end of the run are checked.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// True if the view has requested the end or has ended.
pub(super) fn stop_requested(tap: &SourceEnd) -> bool {
    loop {
        match tap.commands.try_recv() {
            Ok(Command::Stop) | Err(std::sync::mpsc::TryRecvError::Disconnected) => return true,
            Ok(Command::Pause(_) | Command::Speed(_) | Command::Seek(_) | Command::Rewind(_)) => {}
            // If the view has ended, the next check notices.
            Ok(Command::Dump) => {
                let _gone = tap.tell(no_recorder());
            }
            Err(std::sync::mpsc::TryRecvError::Empty) => return false,
        }
    }
}
