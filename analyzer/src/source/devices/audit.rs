//! The settings of the host, read beside what a run watches: that takes seconds on a host with many interfaces.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::doctor::{self, facts::HostFacts};
use crate::host::queries::Host;

/// A thread that reads them, once, as `rocescope doctor` does.
#[derive(Debug)]
pub struct Audit(Receiver<HostFacts>);

impl Audit {
    /// Starts it, with the rights of the calling thread. `None` when no thread can be made: the settings stay unknown.
    #[must_use]
    pub fn start(host: Arc<dyn Host>) -> Option<Self> {
        let (found, facts) = mpsc::channel();
        let read = move || {
            if let Ok(root) = host.root() {
                let _ended = found.send(doctor::collect(&root, host.ask()));
            }
        };
        std::thread::Builder::new().name("audit".into()).spawn(read).ok()?;
        Some(Self(facts))
    }

    /// The facts read within this time: `Err` while it is at work, `Ok(None)` when it could not read them.
    ///
    /// # Errors
    /// It is at work.
    pub fn read(self, patience: Duration) -> Result<Option<HostFacts>, Self> {
        match self.0.recv_timeout(patience) {
            Ok(facts) => Ok(Some(facts)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(self),
        }
    }
}
