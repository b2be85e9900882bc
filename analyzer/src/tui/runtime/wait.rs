//! Waits for the terminal, for a signal, or until updates are due.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Stdin, Write as _, stdin};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::SigId;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};

/// Signals that end the program, with the terminal given back.
pub(super) const ENDING: [i32; 4] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT];

/// The terminal that keys come from where standard input is none.
pub(super) fn other_terminal() -> io::Result<Option<File>> {
    if stdin().is_terminal() { Ok(None) } else { File::open("/dev/tty").map(Some) }
}

/// The terminal library's own waiting spins through the last millisecond of every wait; this one sleeps.
#[derive(Debug)]
pub(in crate::tui) struct Waiter {
    /// The source of keys when standard input is not a terminal.
    tty: Option<File>,
    signals: UnixStream,
    /// The other end of `signals`.
    written: UnixStream,
    /// True after the process was stopped and goes on.
    continued: Arc<AtomicBool>,
    handlers: Vec<SigId>,
}

/// Ends a wait from another thread.
#[derive(Debug)]
pub(in crate::tui) struct Waker(pub(super) UnixStream);

impl Waker {
    /// Ends the wait that is under way, or else the next.
    pub(in crate::tui) fn wake(&self) {
        // A full pipe has woken it already.
        let _ = (&self.0).write(&[0]);
    }
}

/// Reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tui) enum WakeReason {
    /// The terminal has something to read.
    Keys,
    /// The terminal is gone.
    HungUp,
    /// A signal came, a thread is done, or the time is over.
    Other,
}

impl Waiter {
    /// Watches the terminal, the signals that end the program, that of a new size, and that to go on after a stop.
    ///
    /// # Errors
    /// An error if there is no terminal, or signals cannot be handled.
    pub(in crate::tui) fn new() -> Result<Self> {
        let tty = other_terminal().context("no terminal to read keys from (/dev/tty)")?;
        let (signals, written) = UnixStream::pair().context("signals cannot be handled")?;
        signals.set_nonblocking(true).context("signals cannot be handled")?;
        written.set_nonblocking(true).context("signals cannot be handled")?;
        let continued = Arc::new(AtomicBool::new(false));
        let mut waiter = Self { tty, signals, written, continued, handlers: Vec::new() };
        // Before the handler that ends the wait.
        let handler = signal_hook::flag::register(SIGCONT, Arc::clone(&waiter.continued));
        waiter.handlers.push(handler.context("signals cannot be handled")?);
        for signal in ENDING.into_iter().chain([SIGWINCH, SIGCONT]) {
            let end = waiter.written.try_clone().context("signals cannot be handled")?;
            let handler = signal_hook::low_level::pipe::register(signal, end);
            waiter.handlers.push(handler.context("signals cannot be handled")?);
        }
        Ok(waiter)
    }

    /// Something that ends a wait from another thread.
    ///
    /// # Errors
    /// An error if there are too many open files.
    pub(in crate::tui) fn waker(&self) -> Result<Waker> {
        Ok(Waker(self.written.try_clone().context("threads cannot wake the view up")?))
    }

    fn terminal<'a>(&'a self, stdin: &'a Stdin) -> BorrowedFd<'a> {
        self.tty.as_ref().map_or_else(|| stdin.as_fd(), File::as_fd)
    }

    /// True if the process was stopped and goes on, since the last call.
    pub(in crate::tui) fn take_continued(&self) -> bool {
        self.continued.swap(false, Ordering::SeqCst)
    }

    /// True if the terminal has something to read now.
    pub(in crate::tui) fn has_key(&self) -> bool {
        let stdin = stdin();
        let mut tty = [PollFd::from_borrowed_fd(self.terminal(&stdin), PollFlags::IN)];
        poll(&mut tty, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Waits, `most` at most.
    ///
    /// # Errors
    /// An error if the system cannot wait.
    pub(in crate::tui) fn wait(&mut self, most: Duration) -> io::Result<WakeReason> {
        let stdin = stdin();
        let mut fds = [
            PollFd::from_borrowed_fd(self.terminal(&stdin), PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
        ];
        match poll(&mut fds, Timespec::try_from(most).ok().as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(WakeReason::Other),
            Err(error) => return Err(error.into()),
        }
        let [tty, signals] = fds.map(|fd| fd.revents());
        if !signals.is_empty() {
            // The flags of the handlers say which they were.
            while self.signals.read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
        }
        if tty.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Ok(WakeReason::HungUp);
        }
        Ok(if tty.is_empty() { WakeReason::Other } else { WakeReason::Keys })
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
    }
}
