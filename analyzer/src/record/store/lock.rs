//! The lock of a recording: one process records a host in a folder, or each packet would count twice.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::layout;

/// A file that is locked as long as this process records a host in a folder, and removed at the end. Journals are
/// locked as well, but there is none before the first row, nor between two rotations.
#[derive(Debug)]
pub(super) struct HostLock {
    path: PathBuf,
    _file: File,
}

impl HostLock {
    /// Locks the recording of a host. `None` on a full disk, where no file can be created.
    ///
    /// # Errors
    /// Another process has locked it, or the folder cannot be written.
    pub(super) fn take(dir: &Path, host: &str) -> io::Result<Option<Self>> {
        let path = layout::lock(dir, host);
        loop {
            let file = match File::options().write(true).create(true).truncate(false).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(None),
                file => file?,
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(taken(host)),
                Err(error) => return Err(error.into()),
            }
            // A process that ended meanwhile has removed the file: the lock must be that of the name.
            let of_name = std::fs::metadata(&path).ok().map(|about| about.ino());
            if of_name == Some(file.metadata()?.ino()) {
                return Ok(Some(Self { path, _file: file }));
            }
        }
    }
}

impl Drop for HostLock {
    fn drop(&mut self) {
        // One that stays is locked by nobody.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The error of a second process that records a host in a folder.
pub(super) fn taken(host: &str) -> io::Error {
    io::Error::other(format!(
        "another process records host {host} there: end it, or choose another folder or name"
    ))
}
