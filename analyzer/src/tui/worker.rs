//! A thread that draws conclusions from the newest sample, so that neither the screen nor the source
//! waits for it.

use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::analysis::{Analysis, Analyst, Ask};
use super::wait::Waker;
use crate::report;
use crate::sample::Sample;
use crate::second;

/// The thread rests this many times as long as it worked, so that it takes a small part of one core.
const REST: u32 = 24;
/// It rests no longer than this, whatever the work took.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// The view's end.
#[derive(Debug)]
pub(super) struct Worker {
    work: Sender<(Arc<Sample>, Ask, bool)>,
    done: Arc<Mutex<Option<Analysis>>>,
}

impl Worker {
    /// Starts the thread; it ends when the worker is dropped.
    pub(super) fn start(options: report::Options, waker: Waker) -> std::io::Result<Self> {
        let (work, todo) = mpsc::channel();
        let done = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&done);
        thread::Builder::new().name("analyst".into()).spawn(move || {
            second::stand_back();
            run(&todo, options, &shared, &waker);
        })?;
        Ok(Self { work, done })
    }

    /// Has a sample analysed, at once when the user waits for it. When samples come faster than that, only
    /// the newest is.
    pub(super) fn analyse(&self, sample: Arc<Sample>, ask: Ask, at_once: bool) {
        // Without the thread, conclusions stay as they were.
        let _ = self.work.send((sample, ask, at_once));
    }

    /// What came of it since the last call.
    pub(super) fn take(&self) -> Option<Analysis> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn run(
    todo: &Receiver<(Arc<Sample>, Ask, bool)>,
    options: report::Options,
    done: &Mutex<Option<Analysis>>,
    waker: &Waker,
) {
    let mut analyst = Analyst::new(options);
    let mut rested = Instant::now();
    while let Ok(mut work) = todo.recv() {
        loop {
            match todo.try_recv() {
                Ok((sample, ask, at_once)) => work = (sample, ask, at_once || work.2),
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {
                    let wait = rested.saturating_duration_since(Instant::now());
                    if work.2 || wait.is_zero() {
                        break;
                    }
                    match todo.recv_timeout(wait) {
                        Ok((sample, ask, at_once)) => work = (sample, ask, at_once || work.2),
                        Err(mpsc::RecvTimeoutError::Timeout) => break,
                        Err(mpsc::RecvTimeoutError::Disconnected) => return,
                    }
                }
            }
        }
        let start = Instant::now();
        let (sample, ask, _) = work;
        let analysis = analyst.analyse(&sample, ask);
        drop(sample);
        *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(analysis);
        waker.wake();
        rested = Instant::now() + (start.elapsed() * REST).min(LONGEST_REST);
    }
}
