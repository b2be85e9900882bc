//! Reads the settings of the host beside a run, which takes seconds on a host with many interfaces.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::doctor::{self, facts::HostFacts};
use crate::host::read::queries::Host;

/// A thread that reads the settings once, as `rocescope doctor` does.
#[derive(Debug)]
pub struct Audit(Receiver<HostFacts>);

impl Audit {
    /// Starts the thread with the privileges of the calling thread. `None` if no thread can be started: the settings
    /// stay unknown.
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

    /// Waits up to `patience` for the facts: `Err` while the thread is working, `Ok(None)` if it could not read them.
    ///
    /// # Errors
    /// If the thread is still working.
    pub fn read(self, patience: Duration) -> Result<Option<HostFacts>, Self> {
        match self.0.recv_timeout(patience) {
            Ok(facts) => Ok(Some(facts)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(self),
        }
    }
}
