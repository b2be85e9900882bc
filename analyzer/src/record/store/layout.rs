//! Names of the files and folders of a recording.
//!
//! ```text
//! <dir>/v1/<table>/date=2026-11-22/hour=12/host=node1/part-<first time>-<uuid>.parquet
//! <dir>/journal/<host>.<uuid>.journal          rows that are not sealed yet
//! <dir>/queue/<first time>-<uuid>.<host>.<table>   files that a ClickHouse does not have yet
//! ```

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

use crate::record::parquet::VERSION;
use crate::util::units::date_hour_utc;

const JOURNAL: &str = ".journal";
const SUFFIX: &str = ".parquet";
const PREFIX: &str = "part-";
/// Suffix of files that are still being written.
pub(super) const ASIDE: &str = ".tmp";

/// A file of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Time of the first row, Unix nanoseconds.
    pub first_ns: u64,
    /// Table.
    pub table: String,
    /// Host, as in the folder name.
    pub host: String,
    /// Path of the file.
    pub path: PathBuf,
}

impl Part {
    pub(super) fn of(dir: &Path, table: &str, host: &str, first_ns: u64, id: &str) -> Self {
        let (date, hour) = date_hour_utc(first_ns);
        let folder = folder(dir).join(table).join(format!("date={date}")).join(format!("hour={hour}"));
        let path = folder.join(format!("host={host}")).join(format!("{PREFIX}{first_ns}-{id}{SUFFIX}"));
        Self { first_ns, table: table.to_owned(), host: host.to_owned(), path }
    }

    /// The part at a path; `None` if the name does not follow the scheme.
    pub fn at(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let (first, _) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once('-')?;
        let mut folders = path.ancestors().skip(1).filter_map(|folder| folder.file_name()?.to_str());
        let host = folders.next()?.strip_prefix("host=")?;
        folders.next()?.strip_prefix("hour=")?;
        folders.next()?.strip_prefix("date=")?;
        let table = folders.next()?;
        let (table, host) = (table.to_owned(), host.to_owned());
        Some(Self { first_ns: first.parse().ok()?, table, host, path: path.to_owned() })
    }

    /// Its path while it is being written, which the pattern `*.parquet` does not match.
    pub(super) fn aside(&self) -> PathBuf {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        self.path.with_file_name(format!(".{name}{ASIDE}"))
    }

    /// Its name in the queue, which is also its deduplication token. Names sort by time.
    pub(super) fn queue_name(&self) -> String {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        format!(
            "{}.{}.{}",
            name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX)).unwrap_or(&name),
            self.host,
            self.table
        )
    }

    /// The part that a file of the queue was linked from, with the path of that link; `None` if the name does not
    /// follow the scheme.
    pub(super) fn queued(path: &Path) -> Option<Self> {
        let (id, rest) = path.file_name()?.to_str()?.split_once('.')?;
        // Names of hosts may have dots.
        let (host, table) = rest.rsplit_once('.')?;
        let (first, _) = id.split_once('-')?;
        let (table, host) = (table.to_owned(), host.to_owned());
        Some(Self { first_ns: first.parse().ok()?, table, host, path: path.to_owned() })
    }
}

/// The folder of the tables.
pub(crate) fn folder(dir: &Path) -> PathBuf {
    dir.join(VERSION)
}

/// The folder of the journals.
pub(super) fn journals(dir: &Path) -> PathBuf {
    dir.join("journal")
}

/// The folder of files to be sent.
pub(crate) fn queue(dir: &Path) -> PathBuf {
    dir.join("queue")
}

/// The file that the process which records a host there holds locked.
pub(super) fn lock(dir: &Path, host: &str) -> PathBuf {
    journals(dir).join(format!("{host}.lock"))
}

pub(super) fn journal(dir: &Path, host: &str, id: &str) -> PathBuf {
    journals(dir).join(format!("{host}.{id}{JOURNAL}"))
}

/// Host and id in the name of a journal.
pub(super) fn journal_name(path: &Path) -> Option<(String, String)> {
    let name = path.file_name()?.to_str()?.strip_suffix(JOURNAL)?;
    let (host, id) = name.rsplit_once('.')?;
    Some((host.to_owned(), id.to_owned()))
}

/// Escapes a name for use as a folder.
pub fn folder_name(host: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = host.trim_start_matches('.').chars().take(100).map(kept).collect();
    if name.is_empty() { "host".to_owned() } else { name }
}

/// A random UUID, from the random keys of the standard library's hashers.
pub(super) fn uuid() -> String {
    let word = || RandomState::new().build_hasher().finish();
    let (high, low) = (word() & !0xF000 | 0x4000, word() & !(0b11 << 62) | (0b10 << 62));
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xFFFF,
        high & 0xFFFF,
        low >> 48,
        low & 0xFFFF_FFFF_FFFF
    )
}

/// Waits until the names in a folder are on disk.
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some file systems sync no folders.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

/// Mode of the folders that hold all others. Rows name hosts, jobs and addresses: no more than the user and the group
/// may read them, or start what a writer that was taken over leaves there.
pub(super) const PRIVATE: u32 = 0o750;
/// Mode of the folders below these.
pub(super) const BELOW: u32 = 0o777;

/// Creates a folder with its parents, each of which is on disk with its name.
pub(super) fn create(folder: &Path, mode: u32) -> io::Result<()> {
    let is_new = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let new: Vec<&Path> = folder.ancestors().take_while(is_new).collect();
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, mode);
    #[cfg(not(unix))]
    let _ = mode;
    builder.recursive(true).create(folder)?;
    new.iter().rev().filter_map(|folder| folder.parent()).try_for_each(|parent| {
        // The parent of a relative name is the current folder.
        sync(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
    })
}

/// Visits all files below a folder, in no particular order. Unreadable folders are skipped.
pub(crate) fn walk(folder: &Path, found: &mut dyn FnMut(PathBuf, u64)) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), found),
            Ok(kind) if kind.is_file() => {
                if let Ok(about) = entry.metadata() {
                    found(entry.path(), about.len());
                }
            }
            _ => {}
        }
    }
}
