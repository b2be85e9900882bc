//! The lock of a recording: one process records a host in a folder, or each packet would count twice.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::layout;

/// Maximum number of files that other processes remove between opening and locking.
const MOST_TURNS: u32 = 100;

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
        for _ in 0..MOST_TURNS {
            let file = match File::options().write(true).create(true).truncate(false).open(&path) {
                Err(error) if is_full(&error) => return Ok(None),
                // One that a killed process of another user left behind is locked by nobody, and need not be written.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    File::open(&path).map_err(|error| named(&path, &error))?
                }
                file => file.map_err(|error| named(&path, &error))?,
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(taken(host)),
                Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    return Err(io::Error::other(format!(
                        "the file system of {} has no file locks (flock): choose a local folder",
                        dir.display()
                    )));
                }
                Err(error) => return Err(named(&path, &error.into())),
            }
            // A process that ended meanwhile has removed the file: the lock must be that of the name.
            let id = |about: std::fs::Metadata| (about.dev(), about.ino());
            if std::fs::metadata(&path).ok().map(id) == Some(id(file.metadata()?)) {
                return Ok(Some(Self { path, _file: file }));
            }
        }
        Err(io::Error::other(format!(
            "{} is replaced again and again: choose another folder",
            path.display()
        )))
    }
}

impl Drop for HostLock {
    fn drop(&mut self) {
        // One that stays is locked by nobody.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot lock {}: {error}", path.display()))
}

/// The error of a second process that records a host in a folder.
pub(super) fn taken(host: &str) -> io::Error {
    io::Error::other(format!(
        "another process records host {host} there: end it, or choose another folder or name"
    ))
}
