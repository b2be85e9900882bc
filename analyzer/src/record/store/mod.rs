//! Rows on disk: the journal, the files of the tables, rotation, retention.

mod journal;
mod layout;
mod retention;
#[cfg(test)]
mod tests;
mod volume;

use std::io;
use std::path::{Path, PathBuf};

pub use layout::{Part, folder_name};
pub(crate) use layout::{folder, queue, walk};
pub use retention::Keep;
use volume::Volume;

use super::registry::Rows;

const HOUR_NS: u64 = 3_600_000_000_000;
/// Data time between two attempts to seal where one failed, and between two calls that wait for the disk.
const AGAIN_NS: u64 = 30_000_000_000;
/// Step from one row to the next beyond which the clock is not believed at once: a host has a row each minute.
const STEP_NS: u64 = HOUR_NS;
/// Time without removals by age after such a step.
const WARY_NS: u64 = 900_000_000_000;

/// Losses of the recording itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Rows that could not be written.
    pub rows: u64,
    /// Events beyond the bound of an interval.
    pub events_left_out: u64,
    /// Steps of the clock, summed.
    pub clock_jump_ns: i64,
}

impl Losses {
    /// Adds others.
    pub fn add(&mut self, more: Self) {
        self.rows += more.rows;
        self.events_left_out += more.events_left_out;
        self.clock_jump_ns = self.clock_jump_ns.saturating_add(more.clock_jump_ns);
    }
}

/// When files are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotate {
    /// Longest data time in one file.
    pub time_ns: u64,
    /// Largest sum of a rotation's files, in bytes.
    pub bytes: u64,
}

/// A folder that rows go to.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    host: String,
    rotate: Rotate,
    keep: Keep,
    /// Files are linked into the queue.
    queue: bool,
    volume: Option<Volume>,
    /// First time in the volume.
    begin_ns: u64,
    last_ns: u64,
    /// Attempts to seal wait until then.
    seal_from_ns: u64,
    synced_ns: u64,
    wary_until_ns: u64,
    /// The disk refused something the last time.
    failing: bool,
    /// Files were made since this was asked the last time.
    sealed: bool,
}

/// What a user should know.
pub type Notices = Vec<String>;

impl Store {
    /// Opens a folder, which is made, and seals what a process that was killed left in it.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn open(
        dir: &Path,
        host: &str,
        rotate: Rotate,
        keep: Keep,
        queue: bool,
    ) -> io::Result<(Self, Notices)> {
        std::fs::create_dir_all(layout::journals(dir))?;
        std::fs::create_dir_all(layout::folder(dir))?;
        if queue {
            std::fs::create_dir_all(layout::queue(dir))?;
        }
        let mut store = Self {
            dir: dir.to_owned(),
            host: folder_name(host),
            rotate,
            keep,
            queue,
            volume: None,
            begin_ns: 0,
            last_ns: 0,
            seal_from_ns: 0,
            synced_ns: 0,
            wary_until_ns: 0,
            failing: false,
            sealed: false,
        };
        let notices = store.recover()?;
        Ok((store, notices))
    }

    /// Seals what processes that were killed left.
    fn recover(&mut self) -> io::Result<Notices> {
        let mut notices = Notices::new();
        for entry in std::fs::read_dir(layout::journals(&self.dir))?.flatten() {
            let path = entry.path();
            match Volume::recover(path.clone()) {
                Ok(None) => {}
                Ok(Some(volume)) => match self.finish(volume) {
                    Ok(0) => {}
                    Ok(files) => notices.push(format!("sealed {files} files of a recording that was killed ({})", path.display())),
                    Err((_, error)) => notices.push(format!(
                        "cannot seal {}, the journal of a recording that was killed: {error}; it is tried again at the next start",
                        path.display()
                    )),
                },
                Err(error) => notices.push(format!("cannot read the journal {}: {error}; remove it if it is of no use", path.display())),
            }
        }
        self.remove_asides();
        Ok(notices)
    }

    /// Removes what this host was writing when it was killed.
    fn remove_asides(&self) {
        let own = format!("host={}", self.host);
        walk(&folder(&self.dir), &mut |path, _| {
            let is_own = path.parent().and_then(Path::file_name).is_some_and(|name| *name == *own);
            let is_aside =
                path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(layout::ASIDE));
            if is_own && is_aside {
                // It is tried again at the next start.
                let _ = std::fs::remove_file(path);
            }
        });
    }

    /// Makes the files of a volume, links them into the queue, and removes the journal.
    #[expect(clippy::result_large_err, reason = "the volume goes on as before; it is moved once in minutes")]
    fn finish(&self, volume: Volume) -> Result<usize, (Volume, io::Error)> {
        if volume.is_empty() {
            // An empty journal that stays does no harm.
            let _ = volume.remove();
            return Ok(0);
        }
        let (volume, parts) = volume.seal(&self.dir)?;
        if self.queue {
            for part in &parts {
                let link = queue(&self.dir).join(part.queue_name());
                match std::fs::hard_link(&part.path, &link) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err((volume, error));
                    }
                    _ => {}
                }
            }
        }
        // One that stays is sealed once more at the next start, into the same files.
        let _ = volume.remove();
        Ok(parts.len())
    }

    /// Takes the rows of an interval that ends at `time_ns`. Its result: rows lost, and what the user should know.
    pub fn append(&mut self, time_ns: u64, rows: Rows) -> (Losses, Notices) {
        let mut notices = Notices::new();
        let mut losses = Losses::default();
        if rows.is_empty() {
            return (losses, notices);
        }
        if self.last_ns != 0 && time_ns.abs_diff(self.last_ns) > STEP_NS {
            self.wary_until_ns = time_ns.saturating_add(WARY_NS);
        }
        self.last_ns = time_ns;
        if self.is_due(time_ns) {
            notices.extend(self.seal());
        }
        let count = rows.len() as u64;
        let volume = match self.volume.take() {
            Some(volume) => Ok(volume),
            None => Volume::create(&self.dir, &self.host),
        };
        let error = match volume {
            Ok(mut volume) => {
                if volume.is_empty() {
                    self.begin_ns = time_ns;
                }
                let appended = volume.append(rows);
                losses.rows += appended.lost;
                let mut error = appended.error;
                if error.is_none() && time_ns.abs_diff(self.synced_ns) >= AGAIN_NS {
                    self.synced_ns = time_ns;
                    error = volume.sync().err();
                }
                self.volume = Some(volume);
                error
            }
            Err(error) => {
                losses.rows += count;
                Some(error)
            }
        };
        self.say(error, &mut notices);
        (losses, notices)
    }

    /// Says once that the disk refuses, and once that it does not any more.
    fn say(&mut self, error: Option<io::Error>, notices: &mut Notices) {
        match error {
            Some(error) if !self.failing => {
                self.failing = true;
                notices.push(format!(
                    "cannot write to {}: {error}; rows wait in memory, then the oldest are lost and counted (hosts.rows_lost); free space or lower --keep",
                    self.dir.display()
                ));
            }
            None if self.failing => {
                self.failing = false;
                notices.push(format!("writing to {} again", self.dir.display()));
            }
            _ => {}
        }
    }

    /// Whether the rows so far go to files of their own before rows of this time.
    fn is_due(&self, time_ns: u64) -> bool {
        let Some(volume) = self.volume.as_ref().filter(|volume| !volume.is_empty()) else { return false };
        if time_ns < self.seal_from_ns && self.seal_from_ns.abs_diff(time_ns) <= AGAIN_NS {
            return false;
        }
        time_ns / HOUR_NS != self.begin_ns / HOUR_NS
            || time_ns.abs_diff(self.begin_ns) >= self.rotate.time_ns
            || volume.bytes() >= self.rotate.bytes
    }

    /// Makes files of the rows so far, and removes old files.
    pub fn seal(&mut self) -> Notices {
        let mut notices = Notices::new();
        let Some(volume) = self.volume.take() else { return notices };
        match self.finish(volume) {
            Ok(_) => {
                self.sealed = true;
                self.say(None, &mut notices);
            }
            Err((volume, error)) => {
                self.volume = Some(volume);
                self.seal_from_ns = self.last_ns.saturating_add(AGAIN_NS);
                self.say(Some(error), &mut notices);
            }
        }
        let newest_ns = (self.last_ns >= self.wary_until_ns).then_some(self.last_ns);
        let journal = self.volume.as_ref().map_or(0, Volume::journal_bytes);
        notices.extend(self.keep.apply(&self.dir, &self.host, newest_ns, journal));
        notices
    }

    /// Seals what is there, for the last time. Its result: rows that are in no file and in no journal, and what the user should know.
    #[must_use]
    pub fn close(mut self) -> (Losses, Notices) {
        let mut notices = self.seal();
        let Some(volume) = self.volume.filter(|volume| !volume.is_empty()) else {
            return (Losses::default(), notices);
        };
        notices.push(format!(
            "rows that the journal in {} has become files at the next start",
            layout::journals(&self.dir).display()
        ));
        (Losses { rows: volume.unwritten(), ..Losses::default() }, notices)
    }

    /// Whether files were made since this was called the last time.
    pub fn take_sealed(&mut self) -> bool {
        std::mem::take(&mut self.sealed)
    }

    /// Rows that are in no block yet.
    #[must_use]
    pub fn open_rows(&self) -> usize {
        self.volume.as_ref().map_or(0, Volume::open_rows)
    }
}
