//! A thread that draws conclusions from the newest sample, so that neither the screen nor the source
//! waits for it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::wait::Waker;
use crate::report;
use crate::sample::Sample;
use crate::tui::analysis::{Analysis, Analyst, Ask};
use crate::util::background;

/// The thread rests this many times as long as it worked, so that it takes a small part of one core.
const REST: u32 = 24;
/// It rests no longer than this, whatever the work took.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// What is to be analysed, and whether the user waits for it.
type Work = (Arc<Sample>, Ask, bool);

/// State shared by view and thread. It holds one sample that waits, however long an analysis takes.
#[derive(Debug, Default)]
struct Shared {
    desk: Mutex<Desk>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Desk {
    work: Option<Work>,
    done: Option<Analysis>,
    /// True if the view is gone.
    over: bool,
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The view's end.
#[derive(Debug)]
pub(in crate::tui) struct Worker(Arc<Shared>);

impl Worker {
    /// Starts the thread; it ends when the worker is dropped.
    pub(in crate::tui) fn start(options: report::Options, waker: Waker) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let worker = Self(Arc::clone(&shared));
        thread::Builder::new().name("analyst".into()).spawn(move || {
            background::stand_back();
            run(&shared, options, &waker);
        })?;
        Ok(worker)
    }

    /// Has a sample analysed, at once when the user waits for it. When samples come faster than that, only the newest
    /// is; the one that it takes the place of is given back.
    pub(in crate::tui) fn analyse(
        &self,
        sample: Arc<Sample>,
        ask: Ask,
        at_once: bool,
    ) -> Option<Arc<Sample>> {
        let mut desk = self.0.desk();
        let before = desk.work.take();
        let at_once = at_once || before.as_ref().is_some_and(|(.., at_once)| *at_once);
        desk.work = Some((sample, ask, at_once));
        drop(desk);
        self.0.changed.notify_one();
        before.map(|(sample, ..)| sample)
    }

    /// Result since the last call.
    pub(in crate::tui) fn take(&self) -> Option<Analysis> {
        self.0.desk().done.take()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.desk().over = true;
        self.0.changed.notify_one();
    }
}

fn run(shared: &Shared, options: report::Options, waker: &Waker) {
    let mut analyst = Analyst::new(options);
    let mut rested = Instant::now();
    while let Some((sample, ask, _)) = next(shared, rested) {
        let start = Instant::now();
        let analysis = analyst.analyse(&sample, ask);
        drop(sample);
        let before = shared.desk().done.replace(analysis);
        // Nobody waits for it here.
        drop(before);
        waker.wake();
        rested = Instant::now() + (start.elapsed() * REST).min(LONGEST_REST);
    }
}

/// The newest work, once it is time for it; `None` when the view is gone.
fn next(shared: &Shared, rested: Instant) -> Option<Work> {
    let mut desk = shared.desk();
    while !desk.over {
        let wait = rested.saturating_duration_since(Instant::now());
        desk = match &desk.work {
            Some((.., at_once)) if *at_once || wait.is_zero() => return desk.work.take(),
            Some(_) => shared.changed.wait_timeout(desk, wait).unwrap_or_else(PoisonError::into_inner).0,
            None => shared.changed.wait(desk).unwrap_or_else(PoisonError::into_inner),
        };
    }
    None
}
