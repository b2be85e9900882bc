//! Work on a second processor, where there is one.

use std::sync::mpsc::channel;
use std::thread;

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
    if !thread::available_parallelism().is_ok_and(|processors| processors.get() > 1) {
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
