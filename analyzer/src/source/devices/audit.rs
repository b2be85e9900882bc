//! Reads the settings of the host beside a run, which takes seconds on a host with many interfaces.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::doctor::{self, Privileged, facts::HostFacts};
use crate::host::read::queries::Host;
use crate::sandbox::{self, Plan};

/// A thread that reads the settings once, as `rocescope doctor` does.
#[derive(Debug)]
pub struct Audit(Receiver<HostFacts>);

impl Audit {
    /// Starts the thread with the privileges of the calling thread, of which it gives up what it does not need before
    /// it reads what processes say. `None` if no thread can be started: the settings stay unknown.
    pub fn start(host: Arc<dyn Host>) -> Option<Self> {
        let (found, facts) = mpsc::channel();
        let read = move || {
            let Ok(root) = host.root() else { return };
            let earlier = Privileged::read(&root);
            if host.is_running() {
                sandbox::confine(&Plan::reading_host());
            }
            let _ended = found.send(doctor::collect_with(&root, host.ask(), Some(&earlier)));
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
