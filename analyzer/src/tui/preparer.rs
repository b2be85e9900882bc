//! A thread that does the work of samples, and frees what is not needed any more, so that a key that comes
//! meanwhile is answered meanwhile.

use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;

use super::job::{Job, Ready, Spent};
use super::wait::Waker;
use crate::second;

enum Work {
    Sample(Box<Job>),
    Free(Spent),
}

/// The view's end. One job is under way at a time.
#[derive(Debug)]
pub(super) struct Preparer {
    work: Sender<Work>,
    done: Receiver<Ready>,
    busy: bool,
}

impl Preparer {
    /// Starts the thread, which wakes the view up when something is done; it ends when the preparer is dropped.
    pub(super) fn start(waker: Waker) -> std::io::Result<Self> {
        let (work, todo) = mpsc::channel();
        let (ready, done) = mpsc::channel();
        let run = move || {
            second::stand_back();
            for work in todo {
                match work {
                    Work::Sample(job) => {
                        if ready.send(job.run()).is_err() {
                            return;
                        }
                        waker.wake();
                    }
                    Work::Free(spent) => drop(spent),
                }
            }
        };
        thread::Builder::new().name("samples".into()).spawn(run)?;
        Ok(Self { work, done, busy: false })
    }

    /// Whether a job is under way.
    pub(super) fn busy(&self) -> bool {
        self.busy
    }

    /// Begins with a job; gives back what came of it when the thread is gone and it had to be done here.
    pub(super) fn begin(&mut self, job: Job) -> Option<Ready> {
        match self.work.send(Work::Sample(Box::new(job))) {
            Ok(()) => {
                self.busy = true;
                None
            }
            Err(mpsc::SendError(Work::Sample(job))) => Some(job.run()),
            Err(mpsc::SendError(Work::Free(_))) => None,
        }
    }

    /// What came of the job, when it is done.
    pub(super) fn take(&mut self) -> Option<Ready> {
        match self.done.try_recv() {
            Ok(ready) => {
                self.busy = false;
                Some(ready)
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
    pub(super) fn free(&self, spent: Spent) {
        if !spent.is_empty() {
            // Without the thread it is freed here.
            let _ = self.work.send(Work::Free(spent));
        }
    }
}
