//! Reads files that other users control: never blocks on a pipe, never follows a link out of the root, opens no
//! device, and limits time and memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, ResolveFlags};

/// Maximum number of bytes read of a file.
const MAX_FILE: u64 = 1 << 20;
/// Timeout for files of other processes: a FUSE file system, or memory backed by one, may never respond.
const PATIENCE: Duration = Duration::from_millis(500);
/// Number of hanging reads after which no further ones start.
const MAX_HANGING: usize = 8;

static HANGING: AtomicUsize = AtomicUsize::new(0);

/// Treatment of symbolic links on the path of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Followed below the root of the process, as the process itself would.
    Below,
    /// Refused. For files that are shown verbatim, since a link could lead to any file that root may read.
    Refused,
}

/// The bytes of a regular file, at most 1 MiB.
///
/// # Errors
/// If it is absent, unreadable or not a regular file.
pub(in crate::host) fn regular(path: &Path) -> io::Result<Vec<u8>> {
    contents(&open(path)?)
}

/// Opens a regular file without blocking.
///
/// # Errors
/// As for [`regular`].
pub(in crate::host) fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let kind = file.metadata()?.file_type();
    match kind.is_file() {
        true => Ok(file),
        false if kind.is_dir() => Err(io::Error::from_raw_os_error(libc::EISDIR)),
        false => Err(not_regular()),
    }
}

/// The bytes of the regular file at `path`, resolved in the root directory `root` of a process, at most 1 MiB.
///
/// # Errors
/// As for [`regular`], if links form a loop, and if a link is refused.
pub(super) fn below(root: &Path, path: &str, links: Links) -> io::Result<Vec<u8>> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, folder, Mode::empty())?;
    let links = match links {
        Links::Below => ResolveFlags::NO_MAGICLINKS,
        Links::Refused => ResolveFlags::NO_SYMLINKS,
    };
    let resolve = ResolveFlags::IN_ROOT | links;
    // O_PATH does not really open the file, so that neither a pipe nor a driver is affected.
    let found = rustix::fs::openat2(&root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?;
    contents(&opened(&found)?)
}

/// Opens the regular file behind a link that the kernel made, such as a mapping below `/proc/PID/map_files`, and reads
/// its byte at `offset`, so that a file system that does not answer holds up this call and not a later one of the
/// kernel.
///
/// # Errors
/// If it is absent, unreadable, shorter or not a regular file.
pub(in crate::host) fn behind(link: &Path, offset: u64) -> io::Result<File> {
    let found = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let file = opened(&found)?;
    file.read_exact_at(&mut [0], offset)?;
    Ok(file)
}

/// Opens a file that was found with `O_PATH`, if it is a regular one.
fn opened(found: &OwnedFd) -> io::Result<File> {
    if rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(found.as_fd())?.st_mode)
        != rustix::fs::FileType::RegularFile
    {
        return Err(not_regular());
    }
    open(Path::new(&format!("/proc/self/fd/{}", found.as_raw_fd())))
}

/// Returns the result of `read`, which reads files of another process.
///
/// # Errors
/// Those of `read`, and a timeout after half a second: it then continues in a separate thread.
pub(in crate::host) fn timed<T: Send + 'static>(
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    timed_for(PATIENCE, read)
}

/// The same with another timeout, for a search that takes longer.
pub(in crate::host) fn timed_for<T: Send + 'static>(
    patience: Duration,
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let hangs = || io::Error::new(io::ErrorKind::TimedOut, "the file does not answer");
    if HANGING.load(Ordering::Relaxed) >= MAX_HANGING {
        return Err(hangs());
    }
    // A channel without a buffer: sending fails exactly when this function has given up.
    let (done, result) = mpsc::sync_channel(0);
    std::thread::Builder::new().name("file".into()).spawn(move || {
        if done.send(read()).is_err() {
            HANGING.fetch_sub(1, Ordering::Relaxed);
        }
    })?;
    result.recv_timeout(patience).unwrap_or_else(|_| {
        HANGING.fetch_add(1, Ordering::Relaxed);
        Err(hangs())
    })
}

fn contents(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn not_regular() -> io::Error {
    io::Error::other("not a regular file")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fifo, tree};
    use super::*;

    #[test]
    fn only_regular_files_below_the_root_are_read() {
        let tree = tree(&[
            ("secret", "of the host"),
            ("root/etc/plain", "x"),
            ("root/etc/absolute", "-> /etc/plain"),
            ("root/etc/climbing", "-> ../../../../../etc/plain"),
            ("root/etc/out", "-> ../../secret"),
            ("root/etc/circle", "-> circle"),
        ]);
        fifo(&tree.path().join("root/etc/pipe"));
        let read = |name: &str, links| below(&tree.path().join("root"), &format!("/etc/{name}"), links);
        for name in ["plain", "absolute", "climbing"] {
            assert_eq!(read(name, Links::Below).unwrap(), b"x", "{name}");
        }
        assert_eq!(read("plain", Links::Refused).unwrap(), b"x");
        for name in ["absolute", "climbing", "out"] {
            let error = read(name, Links::Refused).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ELOOP), "{name}");
        }
        for name in ["out", "circle", "pipe", "", "none"] {
            assert!(read(name, Links::Below).is_err(), "{name}");
        }
        assert!(regular(&tree.path().join("root/etc/pipe")).is_err());
        assert!(regular(Path::new("/dev/zero")).is_err());
        let long = File::create(tree.path().join("root/etc/long")).unwrap();
        long.set_len(1 << 40).unwrap();
        assert_eq!(read("long", Links::Below).unwrap().len() as u64, MAX_FILE);
    }

    #[test]
    fn behind_a_link_of_the_kernel_only_a_regular_file_is_opened() {
        let tree =
            tree(&[("plain", "xyz"), ("link", "-> plain"), ("out", "-> pipe"), ("zero", "-> /dev/zero")]);
        // Opening a pipe without a writer for reading would block.
        fifo(&tree.path().join("pipe"));
        let at = |name: &str, offset| behind(&tree.path().join(name), offset).map(drop);
        assert!(at("link", 2).is_ok() && at("plain", 0).is_ok());
        for (name, offset) in [("link", 3), ("out", 0), ("pipe", 0), ("zero", 0), ("none", 0), ("", 0)] {
            assert!(at(name, offset).is_err(), "{name}");
        }
        // The mapping of this very program.
        let own = std::env::current_exe().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mapping = maps.lines().find(|line| line.ends_with(own.to_str().unwrap())).unwrap();
        let range = mapping.split(' ').next().unwrap();
        let link = Path::new("/proc/self/map_files").join(range.trim_start_matches('0'));
        // Others than root may read where it leads, and not follow it.
        match File::open(&link) {
            Ok(_) => assert!(behind(&link, 0).is_ok(), "{link:?}"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{link:?}"),
        }
    }

    #[test]
    fn a_read_that_hangs_is_given_up() {
        let (release, hold) = mpsc::channel::<()>();
        let error = timed(move || hold.recv().map_err(|_| io::Error::other("released"))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(timed(|| Ok(7)).unwrap(), 7, "others still are");
        drop(release);
    }
}
