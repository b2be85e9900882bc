//! Standard input and other inputs whose reads may block.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Timeout of a read: a tenth of a second.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

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
        match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&PATIENCE)) {
            Ok(n) => Ok(n > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.ready()? { self.file.read(buf) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }
}
