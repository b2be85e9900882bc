//! Retention: removal of old files by age and total size.

use std::path::Path;

use super::Notices;
use super::layout::{self, Part};
use crate::util::units;

/// Limits of retention; `None`: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Maximum data time from the begin of a file to the newest row, in nanoseconds.
    pub time_ns: Option<u64>,
    /// Maximum size of the host's files, journal and queue, in bytes.
    pub bytes: Option<u64>,
}

impl Keep {
    /// Removes files of the host beyond the limits, oldest first. `newest_ns` is the time of the newest row; `None`
    /// disables removal by age. `journal` is the size of the journal in bytes.
    pub(super) fn apply(self, dir: &Path, host: &str, newest_ns: Option<u64>, journal: u64) -> Notices {
        let mut parts: Vec<(Part, u64)> = Vec::new();
        layout::walk(&layout::folder(dir), &mut |path, bytes| {
            parts.extend(Part::at(&path).filter(|part| part.host == host).map(|part| (part, bytes)));
        });
        parts.sort_unstable();
        let mut total: u64 = parts.iter().map(|(_, bytes)| bytes).sum::<u64>() + journal;
        let mut notices = Notices::new();
        for (part, bytes) in parts {
            let age_ns = newest_ns.map(|newest| newest.saturating_sub(part.first_ns));
            let is_old = age_ns.zip(self.time_ns).is_some_and(|(age, keep)| age > keep);
            let is_much = self.bytes.is_some_and(|keep| total > keep);
            if !is_old && !is_much {
                continue;
            }
            match std::fs::remove_file(&part.path) {
                Ok(()) => total = total.saturating_sub(bytes),
                Err(error) => {
                    notices.push(format!("cannot remove {}, which is too old: {error}", part.path.display()));
                    continue;
                }
            }
            let queued = layout::queue(dir).join(part.queue_name());
            if is_much && std::fs::remove_file(queued).is_ok() {
                notices.push(format!(
                    "removed {} ({}) for its size before ClickHouse had it; raise --keep",
                    part.path.display(),
                    units::bytes(bytes)
                ));
            }
            // Folders that are not empty stay.
            let mut folders = part.path.ancestors().skip(1).take(3);
            while folders.next().is_some_and(|folder| std::fs::remove_dir(folder).is_ok()) {}
        }
        notices
    }
}
