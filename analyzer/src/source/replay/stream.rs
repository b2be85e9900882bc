//! Standard input and other inputs whose reads may block.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

/// Timeout of a read.
const PATIENCE: Duration = Duration::from_millis(100);

/// A pipe, socket or terminal. A read that gets no data for a tenth of a second fails with
/// [`io::ErrorKind::WouldBlock`]; no data is lost.
#[derive(Debug)]
pub struct Stream {
    file: File,
}

impl Stream {
    /// Standard input.
    ///
    /// # Errors
    /// If standard input is closed.
    pub fn stdin() -> io::Result<Self> {
        Ok(Self { file: io::stdin().as_fd().try_clone_to_owned()?.into() })
    }

    /// Opens a file if its reads may block (such as a named pipe); else `None`. Does not wait for a writer.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let kind = std::fs::metadata(path)?.file_type();
        if kind.is_file() || kind.is_dir() {
            return Ok(None);
        }
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        Ok(Some(Self { file }))
    }

    /// Waits up to `PATIENCE` for data or for the end; false when there is neither.
    ///
    /// # Errors
    /// If poll(2) fails.
    fn ready(&self) -> io::Result<bool> {
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
        if self.ready()? { self.file.read(buf) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }
}
