//! A thread that does the work of samples, makes the figures and files that a key asks for, and frees what is not needed
//! any more, so that a key that comes meanwhile is answered meanwhile.

use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;

use super::files;
use super::wait::Waker;
use crate::tui::app::File;
use crate::tui::data::{Data, Wanted};
use crate::tui::job::{Job, Ready, Spent};
use crate::util::background;

enum Work {
    Sample(Box<Job>),
    Metrics(Box<Wanted>),
    Write(Box<File>),
    Free(Spent),
}

/// Its result.
#[derive(Debug)]
pub(in crate::tui) enum Done {
    Sample(Box<Ready>),
    Metrics(Option<Box<Data>>),
    /// A file; the sentence about it.
    Written(String),
}

impl Work {
    fn run(self) -> Option<Done> {
        match self {
            Self::Sample(job) => Some(Done::Sample(Box::new(job.run()))),
            Self::Metrics(wanted) => Some(Done::Metrics(wanted.make().map(Box::new))),
            Self::Write(file) => Some(Done::Written(files::write(*file))),
            Self::Free(spent) => {
                drop(spent);
                None
            }
        }
    }
}

/// The view's end. One piece of work is under way at a time, files and that of freeing apart.
#[derive(Debug)]
pub(in crate::tui) struct Preparer {
    work: Sender<Work>,
    done: Receiver<Done>,
    busy: bool,
    /// Files that are not written yet.
    files: usize,
}

impl Preparer {
    /// Starts the thread, which wakes the view up when something is done; it ends when the preparer is dropped.
    pub(in crate::tui) fn start(waker: Waker) -> std::io::Result<Self> {
        let (work, todo) = mpsc::channel::<Work>();
        let (ready, done) = mpsc::channel();
        let run = move || {
            background::stand_back();
            for work in todo {
                if let Some(done) = work.run() {
                    if ready.send(done).is_err() {
                        return;
                    }
                    waker.wake();
                }
            }
        };
        thread::Builder::new().name("samples".into()).spawn(run)?;
        Ok(Self { work, done, busy: false, files: 0 })
    }

    /// True if work is under way.
    pub(in crate::tui) fn busy(&self) -> bool {
        self.busy
    }

    /// Begins with the work of a sample; gives back what came of it when the thread is gone and it had to be done here.
    pub(in crate::tui) fn sample(&mut self, job: Job) -> Option<Done> {
        self.begin(Work::Sample(Box::new(job)))
    }

    /// The same with figures.
    pub(in crate::tui) fn metrics(&mut self, wanted: Wanted) -> Option<Done> {
        self.begin(Work::Metrics(Box::new(wanted)))
    }

    /// Has a file written; says how it went when the thread is gone and it had to be done here.
    pub(in crate::tui) fn write(&mut self, file: File) -> Option<Done> {
        match self.work.send(Work::Write(Box::new(file))) {
            Ok(()) => {
                self.files += 1;
                None
            }
            Err(mpsc::SendError(work)) => work.run(),
        }
    }

    /// Waits until every file is written.
    pub(in crate::tui) fn finish_files(&mut self) {
        while self.files > 0
            && let Ok(done) = self.done.recv()
        {
            self.files -= usize::from(matches!(done, Done::Written(_)));
        }
    }

    fn begin(&mut self, work: Work) -> Option<Done> {
        match self.work.send(work) {
            Ok(()) => {
                self.busy = true;
                None
            }
            Err(mpsc::SendError(work)) => work.run(),
        }
    }

    /// Result of the work, when it is done.
    pub(in crate::tui) fn take(&mut self) -> Option<Done> {
        match self.done.try_recv() {
            Ok(done) => {
                match &done {
                    Done::Written(_) => self.files -= 1,
                    Done::Sample(_) | Done::Metrics(_) => self.busy = false,
                }
                Some(done)
            }
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                // The thread is gone: the sample with it, the next is worked out by the view.
                self.busy = false;
                None
            }
        }
    }

    /// Frees what is not needed any more.
    pub(in crate::tui) fn free(&self, spent: Spent) {
        if !spent.is_empty() {
            // Without the thread it is freed here.
            let _ = self.work.send(Work::Free(spent));
        }
    }
}
