//! Threads beside the writer of dumps, each with the rights of its one task.

use std::io;
use std::sync::mpsc;

/// A task of another thread: waits for its result, which is `None` when that thread has ended.
pub type Aside<Q, A> = Box<dyn Fn(Q) -> Option<A> + Send>;

/// Starts a thread that gives up what `prepare` says, and then does the task that this returns, each time it is asked.
/// It ends with what is returned here.
///
/// # Errors
/// If the thread cannot be started.
pub fn start<Q, A, F>(name: &str, prepare: impl FnOnce() -> F + Send + 'static) -> io::Result<Aside<Q, A>>
where
    Q: Send + 'static,
    A: Send + 'static,
    F: FnMut(Q) -> A,
{
    let (ask, asked) = mpsc::channel::<(Q, mpsc::Sender<A>)>();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let mut task = prepare();
        for (question, reply) in asked {
            // Who asked may have ended.
            let _gone = reply.send(task(question));
        }
    })?;
    Ok(Box::new(move |question| {
        let (reply, answer) = mpsc::channel();
        ask.send((question, reply)).ok()?;
        answer.recv().ok()
    }))
}
