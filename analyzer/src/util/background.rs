//! Work on a second processor, where there is one.

use std::num::NonZero;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// Has this thread, and those that it starts from now on, stand back where another wants the same processor: the
/// screen's, which a key waits for.
pub(crate) fn stand_back() {
    #[cfg(target_os = "linux")]
    {
        const NICE: i32 = 5;
        // On Linux no process means the calling thread. A refusal changes nothing.
        let _ = rustix::process::setpriority_process(None, NICE);
    }
}

/// Processor time that this thread has used: a busy machine makes work last longer, not more.
pub(crate) fn processor_time() -> Duration {
    #[cfg(target_os = "linux")]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
        Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
    }
    #[cfg(not(target_os = "linux"))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
}

/// Does `work`; the threads that it starts stand back.
///
/// # Errors
/// Its own, or when there is no thread to be had.
pub(crate) fn behind<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let work = || {
            stand_back();
            work()
        };
        let thread = thread::Builder::new().spawn_scoped(scope, work).context(
            "cannot start a thread: too many threads (ulimit -u), or too little memory (ulimit -v)",
        )?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// True if there is a second processor for this program.
pub(crate) fn is_there() -> bool {
    processors() > 1
}

/// Processors for this program.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Frees what takes long to free while the program goes on, or ends.
pub(crate) fn discard(value: impl Send + 'static) {
    // Without the thread it is freed here.
    let _ = thread::Builder::new().name("discard".into()).spawn(move || drop(value));
}

/// The results of two pieces of work: where that `pays` and there is a processor for it, the first is done by another
/// thread of this name meanwhile.
pub(crate) fn both<A: Send, B>(
    name: &str,
    pays: bool,
    first: impl Fn() -> A + Sync,
    second: impl FnOnce() -> B,
) -> (A, B) {
    if !pays || !is_there() {
        return (first(), second());
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(name.into()).spawn_scoped(scope, &first);
        let second = second();
        // Without the thread this one does it.
        let first = match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => first(),
        };
        (first, second)
    })
}

/// Hands `value` to a thread that does `work` with it. Nobody waits for the thread: it ends by itself when
/// the channels of `work` do.
///
/// # Errors
/// Gives the value back when there is one processor only, or no thread to be had.
pub(crate) fn start<T: Send + 'static>(
    name: &str,
    value: T,
    work: impl FnOnce(T) + Send + 'static,
) -> Result<(), T> {
    if !is_there() {
        return Err(value);
    }
    // A thread that cannot be started takes what it was to own with it: so the value follows once there
    // is one.
    let (hand, taken) = channel();
    let thread = thread::Builder::new().name(name.into()).spawn(move || {
        if let Ok(value) = taken.recv() {
            work(value);
        }
    });
    match thread {
        Ok(_) => hand.send(value).map_err(|unsent| unsent.0),
        Err(_) => Err(value),
    }
}

#[cfg(test)]
mod tests {
    use super::{both, is_there, thread};

    #[test]
    fn two_pieces_of_work_are_done_by_two_threads_where_that_pays() {
        for pays in [false, true] {
            let current = || (thread::current().id(), thread::current().name().map(str::to_owned));
            let (first, second) = both("first", pays, current, current);
            assert_eq!(first != second, pays && is_there());
            assert_eq!(first.1.as_deref() == Some("first"), pays && is_there());
            assert_eq!(second, current());
        }
    }
}
