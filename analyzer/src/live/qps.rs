//! Whose queue pairs are whose, read in the background while a run goes on.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::host::ask::Kernel;
use crate::host::qp;
use crate::host::read::{HostRoot, Unread};
use crate::owners::Owners;

/// Between two readings, at least: queue pairs of a short test live for a second or two.
const SHORTEST: Duration = Duration::from_millis(500);
/// And at most: queue pairs of a job live for hours.
const LONGEST: Duration = Duration::from_secs(5);
/// Each reading asks the device about every queue pair, which takes it some time with thousands of
/// them. It rests this many times as long as it worked.
const REST: u32 = 20;
/// How long the devices' addresses are taken to stay what they are: to read them takes far longer.
const ADDRESSES_STAY: Duration = Duration::from_secs(30);

/// Reads again and again until dropped, on a thread of its own, so that a slow device holds
/// nothing else up.
#[derive(Debug)]
pub(super) struct QpReader {
    current: Arc<Mutex<Arc<Owners>>>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl QpReader {
    /// Starts in the network namespace of the calling thread. `None` when no thread can be made:
    /// flows then have no processes, which harms nothing else.
    pub(super) fn start() -> Option<Self> {
        let current = Arc::new(Mutex::new(Arc::new(Owners::default())));
        let (stop, stopped) = mpsc::channel();
        let shared = Arc::clone(&current);
        let read = move || {
            let mut addresses: Option<(Instant, qp::Addresses)> = None;
            loop {
                let mut start = Instant::now();
                // Mounted anew each time: a mount that stays would keep the namespace alive.
                if let Ok(root) = HostRoot::here() {
                    let mut unread = Unread::new();
                    addresses = addresses.filter(|(read, _)| read.elapsed() < ADDRESSES_STAY);
                    let (_, known) = addresses.get_or_insert_with(|| {
                        let known = qp::addresses(&root, &mut unread);
                        // It rests for the queue pairs: addresses have a rest of their own.
                        start = Instant::now();
                        (start, known)
                    });
                    let now = qp::owners(&root, &Kernel, known, &mut unread);
                    let mut slot = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    *slot = Arc::new(now.with_gone(&slot));
                }
                let pause = start.elapsed().saturating_mul(REST).clamp(SHORTEST, LONGEST);
                if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("queue pairs".into()).spawn(read).ok()?;
        Some(Self { current, stop: Some(stop), thread: Some(thread) })
    }

    /// What was read last.
    pub(super) fn current(&self) -> Arc<Owners> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for QpReader {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}
