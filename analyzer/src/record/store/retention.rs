//! Retention: removal of old files by age and total size.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::Notices;
use super::layout::{self, Part};
use crate::util::units;

/// Limits of retention; `None`: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Maximum data time from the beginning of a file to the newest row, in nanoseconds. Files in the queue have none.
    pub time_ns: Option<u64>,
    /// Maximum size of the host's files, journal and queue, in bytes.
    pub bytes: Option<u64>,
}

/// A file that retention may remove.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct StoredFile {
    part: Part,
    bytes: u64,
    /// It is in the queue alone: its table's file is gone, and with it the other link to the same bytes.
    only_queued: bool,
}

/// Files that ClickHouse did not get.
#[derive(Debug, Default)]
struct GivenUp {
    files: u64,
    bytes: u64,
    /// Times of the first rows of the oldest and of the newest.
    range: Option<(u64, u64)>,
}

impl GivenUp {
    fn add(&mut self, file: &StoredFile) {
        self.files += 1;
        self.bytes += file.bytes;
        let (first, last) = self.range.unwrap_or((file.part.first_ns, file.part.first_ns));
        self.range = Some((first.min(file.part.first_ns), last.max(file.part.first_ns)));
    }

    fn sentence(&self) -> Option<String> {
        let (first, last) = self.range?;
        Some(format!(
            "removed {} ({}) that ClickHouse does not have, begun from {} to {}: recording and queue exceed the size of --keep; raise it",
            units::plural(self.files, "file"),
            units::bytes(self.bytes),
            units::time_utc(first),
            units::time_utc(last)
        ))
    }
}

impl Keep {
    /// Removes files of the host beyond the limits, oldest first. `newest_ns` is the time of the newest row; `None`
    /// disables removal by age. `journal` is the size of the journal in bytes.
    pub(super) fn apply(self, dir: &Path, host: &str, newest_ns: Option<u64>, journal: u64) -> Notices {
        let files = files(dir, host);
        let mut total = files.iter().map(|file| file.bytes).sum::<u64>() + journal;
        let mut given_up = GivenUp::default();
        let mut notices = Notices::new();
        for file in files {
            let age_ns = newest_ns.map(|newest| newest.saturating_sub(file.part.first_ns));
            let is_old = !file.only_queued && age_ns.zip(self.time_ns).is_some_and(|(age, keep)| age > keep);
            let is_much = self.bytes.is_some_and(|keep| total > keep);
            if !is_old && !is_much {
                continue;
            }
            match remove(dir, &file, is_much) {
                Ok(Removed { is_freed, was_queued }) => {
                    if is_freed {
                        total = total.saturating_sub(file.bytes);
                    }
                    if was_queued {
                        given_up.add(&file);
                    }
                }
                Err(error) => {
                    let path = file.part.path.display();
                    notices.push(format!("cannot remove {path}, which is beyond --keep: {error}"));
                }
            }
        }
        notices.extend(given_up.sentence());
        notices
    }
}

/// Files of a host with their sizes, oldest first.
fn files(dir: &Path, host: &str) -> Vec<StoredFile> {
    let (mut files, mut linked) = (Vec::new(), BTreeSet::new());
    layout::walk(&layout::folder(dir), &mut |path, bytes| {
        if let Some(part) = Part::at(&path).filter(|part| part.host == host) {
            linked.insert(part.queue_name());
            files.push(StoredFile { part, bytes, only_queued: false });
        }
    });
    layout::walk(&layout::queue(dir), &mut |path, bytes| {
        let is_linked = path.file_name().is_some_and(|name| linked.contains(&*name.to_string_lossy()));
        let part = Part::queued(&path).filter(|part| part.host == host && !is_linked);
        files.extend(part.map(|part| StoredFile { part, bytes, only_queued: true }));
    });
    files.sort_unstable();
    files
}

/// Effect of a removal.
struct Removed {
    /// The bytes are free; otherwise the queue still has them.
    is_freed: bool,
    /// ClickHouse does not get it any more.
    was_queued: bool,
}

/// Removes a file, from the queue as well if its bytes must go.
fn remove(dir: &Path, file: &StoredFile, is_much: bool) -> io::Result<Removed> {
    match std::fs::remove_file(&file.part.path) {
        Ok(()) if file.only_queued => return Ok(Removed { is_freed: true, was_queued: true }),
        Ok(()) => {}
        // ClickHouse got it meanwhile.
        Err(error) if file.only_queued && error.kind() == io::ErrorKind::NotFound => {
            return Ok(Removed { is_freed: true, was_queued: false });
        }
        Err(error) => return Err(error),
    }
    // Folders that are not empty stay.
    let mut folders = file.part.path.ancestors().skip(1).take(3);
    while folders.next().is_some_and(|folder| std::fs::remove_dir(folder).is_ok()) {}
    let queued = layout::queue(dir).join(file.part.queue_name());
    if is_much {
        return Ok(Removed { is_freed: true, was_queued: std::fs::remove_file(queued).is_ok() });
    }
    Ok(Removed { is_freed: !queued.exists(), was_queued: false })
}
