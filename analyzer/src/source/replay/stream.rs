//! Standard input and other inputs whose reads may block.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time after which an impatient read gives up.
const PATIENCE: Duration = Duration::from_millis(100);

/// A pipe, socket or terminal. While [`Stream::impatient`] is set, a read that gets no data for a tenth of a second fails
/// with [`io::ErrorKind::WouldBlock`]; no data is lost.
#[derive(Debug)]
pub struct Stream {
    file: File,
    impatient: Arc<AtomicBool>,
}

impl Stream {
    /// Standard input.
    ///
    /// # Errors
    /// When standard input is closed.
    pub fn stdin() -> io::Result<Self> {
        Ok(Self::new(io::stdin().as_fd().try_clone_to_owned()?))
    }

    /// A file, when it is one whose reads may block (a named pipe, say); else `None`.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let kind = std::fs::metadata(path)?.file_type();
        if kind.is_file() || kind.is_dir() {
            return Ok(None);
        }
        Ok(Some(Self::new(File::open(path)?.into())))
    }

    fn new(fd: OwnedFd) -> Self {
        Self { file: File::from(fd), impatient: Arc::new(AtomicBool::new(false)) }
    }

    /// The switch between patient (false, at first) and impatient reads.
    #[must_use]
    pub fn impatient(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.impatient)
    }

    /// Waits up to `PATIENCE` for data or for the end; false when there is neither.
    ///
    /// # Errors
    /// When poll(2) fails.
    pub fn ready(&self) -> io::Result<bool> {
        let mut poll = libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let patience = i32::try_from(PATIENCE.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: `poll` is one valid pollfd that outlives the call, and the count says one.
        let n = unsafe { libc::poll(&raw mut poll, 1, patience) };
        if n < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(false) } else { Err(error) };
        }
        Ok(n > 0)
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while !self.ready()? {
            if self.impatient.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        self.file.read(buf)
    }
}
