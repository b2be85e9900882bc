//! Work on a second processor, where there is one.

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
    thread::available_parallelism().is_ok_and(|processors| processors.get() > 1)
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
