//! Waits for the terminal, for a signal, or until updates are due.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _, stdin};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, Result};
use signal_hook::SigId;
use signal_hook::consts::SIGWINCH;

/// The terminal library's own waiting spins through the last millisecond of every wait; this one sleeps.
#[derive(Debug)]
pub(in crate::tui) struct Waiter {
    /// Where keys come from when standard input is not it.
    tty: Option<File>,
    signals: UnixStream,
    /// The other end of `signals`.
    written: UnixStream,
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
pub(in crate::tui) enum Woken {
    /// The terminal has something to read.
    Keys,
    /// The terminal is gone.
    HungUp,
    /// A signal came, a thread is done, or the time is over.
    Other,
}

impl Waiter {
    /// Watches the terminal, the signals that end the program, and that of a new size.
    ///
    /// # Errors
    /// An error if there is no terminal, or signals cannot be handled.
    pub(in crate::tui) fn new() -> Result<Self> {
        let tty = if stdin().is_terminal() {
            None
        } else {
            Some(File::open("/dev/tty").context("no terminal to read keys from (/dev/tty)")?)
        };
        let (signals, written) = UnixStream::pair().context("signals cannot be handled")?;
        signals.set_nonblocking(true).context("signals cannot be handled")?;
        written.set_nonblocking(true).context("signals cannot be handled")?;
        let mut waiter = Self { tty, signals, written, handlers: Vec::new() };
        for signal in super::run::ENDING.into_iter().chain([SIGWINCH]) {
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

    fn tty(&self) -> RawFd {
        self.tty.as_ref().map_or_else(|| stdin().as_raw_fd(), File::as_raw_fd)
    }

    /// Waits, `most` at most.
    ///
    /// # Errors
    /// An error if the system cannot wait.
    pub(in crate::tui) fn wait(&mut self, most: Duration) -> io::Result<Woken> {
        let watched = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds = [watched(self.tty()), watched(self.signals.as_raw_fd())];
        // Rounded up, so that a wait of half a millisecond does not become a busy loop.
        let ms = i32::try_from(most.as_micros().div_ceil(1_000)).unwrap_or(i32::MAX);
        // SAFETY: `fds` are two valid pollfds that outlive the call, and the count says two.
        let n = unsafe { libc::poll(fds.as_mut_ptr(), 2, ms) };
        if n < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(Woken::Other) } else { Err(error) };
        }
        let [tty, signals] = fds;
        if signals.revents != 0 {
            // The flags of the handlers say which they were.
            while self.signals.read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
        }
        if tty.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
            // The signal that comes with it is on its way.
            std::thread::sleep(Duration::from_millis(20));
            return Ok(Woken::HungUp);
        }
        Ok(if tty.revents != 0 { Woken::Keys } else { Woken::Other })
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
    }
}
