//! Slow work beside the screen, so that a key is answered meanwhile: samples, values that a key asks for, files,
//! findings, and freeing memory.
//!
//! Each kind of work has a slot of its own, and a newer piece of work replaces one that still waits there; files alone
//! all get written. Three threads take from the slots: an analysis of 65,536 flows lasts longer than a key may wait for
//! its values, so it has the second for itself, and files the third, which alone may write.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, RecvError, Sender, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::files;
use super::wait::Waker;
use crate::report;
use crate::sample::Sample;
use crate::tui::analysis::{Analysis, Analyst, Scope};
use crate::tui::data::{Data, ValuesRequest};
use crate::tui::export::File;
use crate::tui::preparation::{Preparation, Prepared};
use crate::util::background;
use crate::util::deferred::{self, discard};
use crate::util::lock::Locked;

/// An analysis is followed by this many times its processor time without one, so that it takes a small part of a
/// processor.
const REST: u32 = 24;
/// The longest such pause.
const LONGEST_REST: Duration = Duration::from_secs(60);
/// The longest pause after an analysis that took at most `QUICK`: on a slow machine too, a verdict is not much older.
const QUICK_REST: Duration = Duration::from_secs(5);
const QUICK: Duration = Duration::from_millis(500);

/// Result of a piece of work.
#[derive(Debug)]
pub(in crate::tui) enum WorkResult {
    /// A sample, ready for the state.
    Sample(Box<Prepared>),
    /// Values that a key asked for; `None` when there is no such snapshot.
    Values(Option<Box<Data>>),
    /// Findings and what views show of them.
    Analysis(Box<Analysis>),
    /// The sentence about a file.
    Written(String),
    /// A thread panicked.
    Failed,
}

/// Work of the first thread.
enum Work {
    Sample(Box<Preparation>),
    Values(Box<ValuesRequest>),
    Free(Vec<Box<dyn Any + Send>>),
}

/// A sample to be analysed.
struct Request {
    sample: Arc<Sample>,
    scope: Scope,
    /// True if the user waits for it, or something new shows.
    urgent: bool,
    /// True if it is older than others that were analysed.
    earlier: bool,
}

/// Work that waits for a thread, at most one item of each kind.
#[derive(Default)]
struct Slots {
    sample: Option<Box<Preparation>>,
    values: Option<Box<ValuesRequest>>,
    analysis: Option<Request>,
    /// A sample of an earlier time, which the user looks at.
    earlier: Option<Request>,
    files: VecDeque<File>,
    discarded: Vec<Box<dyn Any + Send>>,
    /// True if the view is gone.
    closed: bool,
}

impl Slots {
    /// The most urgent work of the first thread.
    fn take(&mut self) -> Option<Work> {
        let values = self.values.take().map(Work::Values);
        let next = values.or_else(|| self.sample.take().map(Work::Sample));
        next.or_else(|| (!self.discarded.is_empty()).then(|| Work::Free(std::mem::take(&mut self.discarded))))
    }
}

#[derive(Default)]
struct Shared {
    slots: Mutex<Slots>,
    changed: Condvar,
}

impl Shared {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.locked()
    }

    fn change(&self, change: impl FnOnce(&mut Slots)) {
        change(&mut self.slots());
        self.changed.notify_all();
    }

    /// The next work of the first thread; `None` when the view is gone.
    fn next(&self) -> Option<Work> {
        let mut slots = self.slots();
        while !slots.closed {
            if let Some(work) = slots.take() {
                return Some(work);
            }
            slots = self.changed.wait(slots).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// The next file; `None` when the view is gone and all are written.
    fn next_file(&self) -> Option<File> {
        let mut slots = self.slots();
        loop {
            let file = slots.files.pop_front();
            if file.is_some() || slots.closed {
                return file;
            }
            slots = self.changed.wait(slots).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next analysis: after `rested` unless it is urgent; `None` when the view is gone.
    fn next_analysis(&self, rested: Instant) -> Option<Request> {
        let mut slots = self.slots();
        while !slots.closed {
            if let Some(request) = slots.earlier.take() {
                return Some(request);
            }
            let wait = rested.saturating_duration_since(Instant::now());
            slots = match &slots.analysis {
                Some(request) if request.urgent || wait.is_zero() => return slots.analysis.take(),
                Some(_) => self.changed.wait_timeout(slots, wait).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(slots).unwrap_or_else(PoisonError::into_inner),
            };
        }
        None
    }
}

/// The thread's way to the view.
struct Results {
    done: Sender<WorkResult>,
    waker: Waker,
}

impl Results {
    fn send(&self, done: WorkResult) {
        // A view that is gone needs no results.
        let _ = self.done.send(done);
        self.waker.wake();
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        if thread::panicking() {
            self.send(WorkResult::Failed);
        }
    }
}

/// End of the background work that the view holds.
pub(in crate::tui) struct Background {
    shared: Arc<Shared>,
    done: Receiver<WorkResult>,
    /// True if a sample or values are under way: one at a time, so that all stays in order.
    busy: bool,
    /// Files that are not written yet.
    files: usize,
    _discarded: deferred::Registration,
}

impl Background {
    /// Starts the threads, which end when this is dropped. `waker` makes what wakes the view up.
    ///
    /// # Errors
    /// An error if there is no thread to be had.
    pub(in crate::tui) fn start(
        options: report::Options,
        waker: impl Fn() -> anyhow::Result<Waker>,
    ) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (sender, done) = mpsc::channel();
        let first = (Arc::clone(&shared), Results { done: sender.clone(), waker: waker()? });
        let second = (Arc::clone(&shared), Results { done: sender.clone(), waker: waker()? });
        let third = (Arc::clone(&shared), Results { done: sender, waker: waker()? });
        let sink = Arc::clone(&shared);
        let registration =
            deferred::send_discarded_to(move |value| sink.change(|slots| slots.discarded.push(value)));
        let background = Self { shared, done, busy: false, files: 0, _discarded: registration };
        thread::Builder::new().name("files".into()).spawn(move || serve_files(&third.0, &third.1))?;
        // Of the threads of the view, that one alone keeps the folder it writes to.
        #[cfg(target_os = "linux")]
        crate::sandbox::write_to_terminal_only();
        thread::Builder::new().name("background".into()).spawn(move || serve(&first.0, &first.1))?;
        thread::Builder::new()
            .name("analysis".into())
            .spawn(move || serve_analyses(&second.0, &second.1, &options))?;
        Ok(background)
    }

    /// True if a sample or values are under way.
    pub(in crate::tui) fn busy(&self) -> bool {
        self.busy
    }

    /// Begins with the work of a sample.
    pub(in crate::tui) fn sample(&mut self, preparation: Preparation) {
        self.busy = true;
        self.shared.change(|slots| slots.sample = Some(Box::new(preparation)));
    }

    /// Starts the computation of values.
    pub(in crate::tui) fn values(&mut self, wanted: ValuesRequest) {
        self.busy = true;
        self.shared.change(|slots| slots.values = Some(Box::new(wanted)));
    }

    /// Has a sample analysed, at once where the user waits for it. Of several that wait the newest is.
    pub(in crate::tui) fn analyse(&self, sample: Arc<Sample>, scope: Scope, urgent: bool) {
        let mut replaced = None;
        self.shared.change(|slots| {
            let urgent = urgent || slots.analysis.as_ref().is_some_and(|request| request.urgent);
            replaced = slots.analysis.replace(Request { sample, scope, urgent, earlier: false });
        });
        discard(replaced.map(|request| request.sample));
    }

    /// Has a sample of an earlier time analysed, on its own.
    pub(in crate::tui) fn analyse_earlier(&self, sample: Arc<Sample>, scope: Scope) {
        self.shared.change(|slots| {
            slots.earlier = Some(Request { sample, scope, urgent: true, earlier: true });
        });
    }

    /// Has a file written.
    pub(in crate::tui) fn write(&mut self, file: File) {
        self.files += 1;
        self.shared.change(|slots| slots.files.push_back(file));
    }

    /// The next result, where there is one.
    pub(in crate::tui) fn take(&mut self) -> Option<WorkResult> {
        let done = match self.done.try_recv() {
            Ok(done) => done,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => WorkResult::Failed,
        };
        self.note(&done);
        Some(done)
    }

    /// Waits until every file is written.
    pub(in crate::tui) fn finish_files(&mut self) {
        while self.files > 0 {
            match self.done.recv() {
                Ok(WorkResult::Failed) | Err(RecvError) => return,
                Ok(done) => self.note(&done),
            }
        }
    }

    fn note(&mut self, done: &WorkResult) {
        match done {
            WorkResult::Written(_) => self.files -= 1,
            WorkResult::Sample(_) | WorkResult::Values(_) => self.busy = false,
            WorkResult::Analysis(_) | WorkResult::Failed => {}
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.shared.change(|slots| slots.closed = true);
    }
}

/// Takes the right to write from the calling thread.
fn read_only(place: &'static str) {
    #[cfg(target_os = "linux")]
    crate::sandbox::write_nothing();
    #[cfg(feature = "test-clock")]
    crate::util::hijack::here(place);
    #[cfg(not(feature = "test-clock"))]
    let _ = place;
}

/// Work of the first thread: samples and values.
fn serve(shared: &Shared, results: &Results) {
    read_only("background");
    background::stand_back();
    while let Some(work) = shared.next() {
        match work {
            Work::Sample(preparation) => results.send(WorkResult::Sample(Box::new(preparation.run()))),
            Work::Values(wanted) => results.send(WorkResult::Values(wanted.make().map(Box::new))),
            Work::Free(discarded) => drop(discarded),
        }
    }
}

/// Work of the third thread: files.
fn serve_files(shared: &Shared, results: &Results) {
    background::stand_back();
    while let Some(file) = shared.next_file() {
        results.send(WorkResult::Written(files::write(file)));
    }
}

/// Work of the second thread: analyses.
fn serve_analyses(shared: &Shared, results: &Results, options: &report::Options) {
    read_only("analysis");
    background::stand_back();
    let mut analyst = Analyst::new(options.clone());
    let mut rested = Instant::now();
    while let Some(Request { sample, scope, earlier, .. }) = shared.next_analysis(rested) {
        let before = background::processor_time();
        // What was found of later times does not bear on earlier ones, nor the other way round.
        let analysis = if earlier {
            Analyst::new(options.clone()).analyse(&sample, scope)
        } else {
            analyst.analyse(&sample, scope)
        };
        drop(sample);
        results.send(WorkResult::Analysis(Box::new(analysis)));
        let used = background::processor_time().saturating_sub(before);
        rested = Instant::now() + rest(used);
    }
}

/// The pause after an analysis that used this much of a processor.
fn rest(used: Duration) -> Duration {
    (used * REST).min(if used <= QUICK { QUICK_REST } else { LONGEST_REST })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::{START, link, sample};
    use crate::tui::export::Content;
    use crate::util::deferred::SINK_TESTS;

    #[test]
    fn an_analysis_takes_a_small_part_of_a_processor_and_a_verdict_is_not_old() {
        let rest_ms = |used| rest(Duration::from_millis(used)).as_millis();
        assert_eq!((rest_ms(0), rest_ms(10), rest_ms(100)), (0, 240, 2_400));
        assert_eq!((rest_ms(300), rest_ms(500)), (5_000, 5_000), "a tenth of a processor at most");
        assert_eq!((rest_ms(900), rest_ms(9_000)), (21_600, 60_000));
    }

    fn at(time_ns: u64) -> Arc<Sample> {
        let mut sample = sample(vec![link("eth0", None)], Vec::new());
        sample.time_ns = time_ns;
        Arc::new(sample)
    }

    #[test]
    fn newer_work_replaces_older_of_its_kind_and_stays_urgent() {
        let _alone = SINK_TESTS.locked();
        let shared = Shared::default();
        let request = |time_ns, urgent| Request {
            sample: at(time_ns),
            scope: Scope::default(),
            urgent,
            earlier: false,
        };
        shared.change(|slots| slots.analysis = Some(request(START, true)));
        let background = Background {
            shared: Arc::new(shared),
            done: mpsc::channel().1,
            busy: false,
            files: 0,
            _discarded: deferred::send_discarded_to(drop),
        };
        background.analyse(at(START + 1), Scope::default(), false);
        let rested = Instant::now() + Duration::from_secs(3_600);
        let next = background.shared.next_analysis(rested).unwrap();
        assert_eq!((next.sample.time_ns, next.urgent), (START + 1, true));
        background.shared.change(|slots| slots.closed = true);
        assert!(background.shared.next_analysis(rested).is_none() && background.shared.next().is_none());
    }

    #[test]
    fn every_file_is_written_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        // Without a terminal there is nothing to wake up.
        let _alone = SINK_TESTS.locked();
        let (end, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let waker = || Ok(Waker(end.try_clone()?));
        let mut background = Background::start(report::Options::default(), waker).unwrap();
        for number in 0..3 {
            background.write(File {
                name: folder.path().join(format!("file{number}")).display().to_string(),
                ending: "csv",
                what: "1 row".into(),
                content: Content::Bytes(b"x".to_vec()),
            });
        }
        background.finish_files();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
        background.analyse(at(START), Scope::default(), false);
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            match background.take() {
                Some(WorkResult::Analysis(analysis)) => {
                    assert_eq!(analysis.time_ns, START);
                    return;
                }
                Some(other) => panic!("{other:?}"),
                None => thread::sleep(Duration::from_millis(5)),
            }
        }
        panic!("no analysis");
    }
}
