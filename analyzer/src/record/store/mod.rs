//! Rows on disk: the journal, the tables' files, rotation and retention.

mod journal;
mod layout;
mod lock;
mod retention;
#[cfg(test)]
mod tests;
mod volume;

use std::io;
use std::path::{Path, PathBuf};

pub use layout::{Part, folder_name};
pub(crate) use layout::{folder, queue, walk};
use lock::{HostLock, taken};
pub use retention::Keep;
use volume::Volume;

use super::parquet::GROUP;
use super::registry::Rows;
use crate::util::time::HOUR_NS;
use crate::util::units;

/// Data time between two attempts to seal after a failure, and between two fsyncs.
const AGAIN_NS: u64 = 30_000_000_000;
/// Longest plausible time between two rows: a host has a row each minute. Beyond it, the clock is not trusted at
/// once.
const STEP_NS: u64 = HOUR_NS;
/// Data time after such a step in which no file is removed by age.
const WARY_NS: u64 = 900_000_000_000;

/// Rows kept in memory while no journal can be created; then the oldest are lost.
const MOST_HELD: usize = 4 * GROUP;

/// A volume that is not sealed.
#[derive(Debug)]
struct NotSealed {
    volume: Volume,
    /// Its files, where they are in place, and only the queue lacks them.
    files: Option<Vec<Part>>,
    error: io::Error,
}

/// Losses of the recording itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Rows that could not be written.
    pub rows: u64,
    /// Events beyond the limit per interval.
    pub events_left_out: u64,
    /// Sum of clock steps, in nanoseconds.
    pub clock_jump_ns: i64,
}

impl Losses {
    /// Adds the losses of another table or run.
    pub fn add(&mut self, more: Self) {
        self.rows += more.rows;
        self.events_left_out += more.events_left_out;
        self.clock_jump_ns = self.clock_jump_ns.saturating_add(more.clock_jump_ns);
    }
}

/// Limits at which files are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotate {
    /// Longest data time in a file, in nanoseconds.
    pub time_ns: u64,
    /// Largest total size of a rotation's files, in bytes.
    pub bytes: u64,
}

/// The folder of a recording, open for writing.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    host: String,
    rotate: Rotate,
    keep: Keep,
    /// Sealed files are also linked into the queue.
    queue: bool,
    volume: Option<Volume>,
    /// Volumes whose files are in place, but not in the queue yet: nothing is added to them, since what is sent once is
    /// not inserted again under its name.
    published: Vec<(Volume, Vec<Part>)>,
    /// Rows for which no journal could be created, at most [`MOST_HELD`].
    held: Rows,
    /// Rows that wait for the end of an interval or for a change.
    unfinished: Rows,
    /// Time of the first row in the volume.
    begin_ns: u64,
    last_ns: u64,
    /// Time of the last interval, with or without rows.
    now_ns: u64,
    /// Time of the next attempt to seal.
    seal_from_ns: u64,
    synced_ns: u64,
    wary_until_ns: u64,
    /// Why the last write failed; avoids repeated notices.
    failing: Option<io::Error>,
    /// Number of journals that killed processes of this host left.
    killed: u32,
    /// Files were sealed since the last [`take_sealed`](Self::take_sealed).
    sealed: bool,
    /// Locked as long as this process records the host there.
    _lock: Option<HostLock>,
}

/// Messages for the user.
pub type Notices = Vec<String>;

/// Sentence about a recording whose run was killed, with the rows that it lost: rows are appended per interval, and
/// synced each [`AGAIN_NS`].
fn sealed(files: usize, last_ns: u64, journal: &Path) -> String {
    format!(
        "sealed {} of a recording that was killed: the rows reach to {}; at most one interval after that is lost, after a power failure up to {} ({})",
        units::plural(files as u64, "file"),
        units::time_utc(last_ns),
        units::duration(AGAIN_NS),
        journal.display()
    )
}

impl Store {
    /// Creates a folder with its parents.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn create(dir: &Path) -> io::Result<()> {
        layout::create(dir, layout::PRIVATE)
    }

    /// Opens a folder, creating it if needed, and seals rows left by a killed process.
    ///
    /// # Errors
    /// If the folder cannot be created or written, or another process records this host to it.
    pub fn open(
        dir: &Path,
        host: &str,
        rotate: Rotate,
        keep: Keep,
        queue: bool,
    ) -> io::Result<(Self, Notices)> {
        layout::create(&layout::journals(dir), layout::PRIVATE)?;
        layout::create(&layout::folder(dir), layout::PRIVATE)?;
        if queue {
            layout::create(&layout::queue(dir), layout::PRIVATE)?;
        }
        let host = folder_name(host);
        let lock = HostLock::take(dir, &host)?;
        let mut store = Self {
            dir: dir.to_owned(),
            host,
            rotate,
            keep,
            queue,
            volume: None,
            published: Vec::new(),
            held: Rows::default(),
            unfinished: Rows::default(),
            begin_ns: 0,
            last_ns: 0,
            now_ns: 0,
            seal_from_ns: 0,
            synced_ns: 0,
            wary_until_ns: 0,
            failing: None,
            killed: 0,
            sealed: false,
            _lock: lock,
        };
        let notices = store.recover()?;
        Ok((store, notices))
    }

    /// Seals journals left by killed processes.
    fn recover(&mut self) -> io::Result<Notices> {
        let mut notices = Notices::new();
        for entry in std::fs::read_dir(layout::journals(&self.dir))?.flatten() {
            let path = entry.path();
            match Volume::recover(path.clone()) {
                Ok(None) if layout::journal_name(&path).is_some_and(|(host, _)| host == self.host) => {
                    return Err(taken(&self.host));
                }
                Ok(None) => {}
                Ok(Some(volume)) => {
                    self.killed += u32::from(volume.is_of(&self.host));
                    match (volume.last_ns(), self.finish(volume)) {
                        (_, Ok(0)) => {}
                        (last_ns, Ok(files)) => notices.push(sealed(files, last_ns, &path)),
                        (_, Err(failed)) => notices.push(format!(
                            "cannot seal {}, the journal of a recording that was killed: {}; it is tried again at the next start",
                            path.display(),
                            failed.error
                        )),
                    }
                }
                Err(error) => notices.push(format!(
                    "cannot read the journal {}: {error}; remove it if it is of no use",
                    path.display()
                )),
            }
        }
        self.remove_asides();
        Ok(notices)
    }

    /// Removes files that this host was writing when it was killed.
    fn remove_asides(&self) {
        let own = format!("host={}", self.host);
        walk(&folder(&self.dir), &mut |path, _| {
            let is_own = path.parent().and_then(Path::file_name).is_some_and(|name| *name == *own);
            let is_aside =
                path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(layout::ASIDE));
            if is_own && is_aside {
                // Retried at the next start.
                let _ = std::fs::remove_file(path);
            }
        });
    }

    /// Writes the files of a volume, links them into the queue, and removes the journal.
    fn finish(&self, volume: Volume) -> Result<usize, Box<NotSealed>> {
        if volume.is_empty() {
            // An empty journal that stays does no harm.
            let _ = volume.remove();
            return Ok(0);
        }
        let not_published = |(volume, error)| Box::new(NotSealed { volume, files: None, error });
        let (volume, parts) = volume.seal(&self.dir).map_err(not_published)?;
        self.enqueue(volume, parts)
    }

    /// Links the files of a volume into the queue, and removes the journal.
    fn enqueue(&self, volume: Volume, parts: Vec<Part>) -> Result<usize, Box<NotSealed>> {
        if self.queue
            && let Err(error) = self.link(&parts)
        {
            return Err(Box::new(NotSealed { volume, files: Some(parts), error }));
        }
        // A journal that stays is sealed again at the next start, into the same files.
        let _ = volume.remove();
        Ok(parts.len())
    }

    /// Links files into the queue.
    fn link(&self, parts: &[Part]) -> io::Result<()> {
        let queue = queue(&self.dir);
        for part in parts {
            match std::fs::hard_link(&part.path, queue.join(part.queue_name())) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        layout::sync(&queue)
    }

    /// Sets the rows that wait, which become rows if the process is killed. They replace those of the last call, and
    /// reach the journal when rows are next added, even if none are.
    pub fn set_unfinished(&mut self, rows: Rows) {
        self.unfinished = rows;
    }

    /// Adds the rows of an interval that ends at `time_ns`. Returns lost rows, and messages for the user.
    pub fn append(&mut self, time_ns: u64, rows: Rows) -> (Losses, Notices) {
        let mut notices = Notices::new();
        let mut losses = Losses::default();
        self.now_ns = time_ns;
        if rows.is_empty() && !self.waits() {
            // A host that falls silent has its last rows sealed in time.
            if self.is_due(time_ns) || (!self.published.is_empty() && !self.rests(time_ns)) {
                notices.extend(self.seal());
            }
            return (losses, notices);
        }
        if self.last_ns != 0 && time_ns.abs_diff(self.last_ns) > STEP_NS {
            self.wary_until_ns = time_ns.saturating_add(WARY_NS);
        }
        self.last_ns = time_ns;
        if self.is_due(time_ns) {
            notices.extend(self.seal());
        }
        let volume = match self.volume.take() {
            Some(volume) => Ok(volume),
            None => Volume::create(&self.dir, &self.host),
        };
        let error = match volume {
            Ok(mut volume) => {
                if volume.is_empty() {
                    self.begin_ns = time_ns;
                }
                let mut held = std::mem::take(&mut self.held);
                held.append(rows);
                let appended = volume.append(held, &self.unfinished);
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
                if self.held.len() + rows.len() > MOST_HELD {
                    losses.rows += std::mem::take(&mut self.held).len() as u64;
                }
                self.held.append(rows);
                Some(error)
            }
        };
        // Files that the queue lacks are no recovery either.
        if error.is_some() || self.published.is_empty() {
            self.say(error, &mut notices);
        }
        (losses, notices)
    }

    /// True if there is something that the journal lacks: rows that it did not take, which are tried again, and
    /// unfinished ones.
    fn waits(&self) -> bool {
        !self.held.is_empty()
            || match &self.volume {
                Some(volume) => volume.unwritten() > 0 || volume.lacks(&self.unfinished),
                None => !self.unfinished.is_empty(),
            }
    }

    /// Reports a failing disk once, and its recovery once.
    fn say(&mut self, error: Option<io::Error>, notices: &mut Notices) {
        match error {
            Some(error) if self.failing.is_none() => {
                notices.push(format!(
                    "cannot write to {}: {error}; rows wait in memory, then the oldest are lost and counted (hosts.rows_lost); free space or lower --keep",
                    self.dir.display()
                ));
                self.failing = Some(error);
            }
            None if self.failing.take().is_some() => {
                notices.push(format!("writing to {} again", self.dir.display()));
            }
            _ => {}
        }
    }

    /// True while the next attempt to seal is not due. A clock that was set back does not prolong it.
    fn rests(&self, time_ns: u64) -> bool {
        time_ns < self.seal_from_ns && self.seal_from_ns.abs_diff(time_ns) <= AGAIN_NS
    }

    /// True if the rows so far must be sealed before rows of this time.
    fn is_due(&self, time_ns: u64) -> bool {
        let Some(volume) = self.volume.as_ref().filter(|volume| !volume.is_empty()) else { return false };
        if self.rests(time_ns) {
            return false;
        }
        time_ns / HOUR_NS != self.begin_ns / HOUR_NS
            || time_ns.abs_diff(self.begin_ns) >= self.rotate.time_ns
            || volume.bytes() >= self.rotate.bytes
    }

    /// Writes files of the rows so far, and applies retention.
    pub fn seal(&mut self) -> Notices {
        let mut notices = Notices::new();
        let (published, volume) = (std::mem::take(&mut self.published), self.volume.take());
        let linked = published.into_iter().map(|(volume, parts)| self.enqueue(volume, parts));
        let ended: Vec<_> = linked.chain(volume.map(|volume| self.finish(volume))).collect();
        if ended.is_empty() {
            return notices;
        }
        let mut failed = None;
        for result in ended {
            match result {
                Ok(_) => self.sealed = true,
                Err(not_sealed) => {
                    let NotSealed { volume, files, error } = *not_sealed;
                    match files {
                        Some(files) => self.published.push((volume, files)),
                        None => self.volume = Some(volume),
                    }
                    self.seal_from_ns = self.now_ns.saturating_add(AGAIN_NS);
                    failed = Some(error);
                }
            }
        }
        self.say(failed, &mut notices);
        let newest_ns = (self.last_ns >= self.wary_until_ns).then_some(self.last_ns);
        let journal = self.volume.as_ref().map_or(0, Volume::journal_bytes);
        notices.extend(self.keep.apply(&self.dir, &self.host, newest_ns, journal));
        notices
    }

    /// Seals the remaining rows. Returns rows that are neither in a file nor in the journal, and messages for the
    /// user.
    pub fn close(mut self) -> (Losses, Notices) {
        let mut notices = self.seal();
        let unwritten = self.volume.as_ref().map_or(0, Volume::unwritten);
        let rows = unwritten + self.held.len() as u64;
        if self.published.is_empty() && self.volume.as_ref().is_none_or(Volume::is_empty) {
            return (Losses { rows, ..Losses::default() }, notices);
        }
        notices.push(format!(
            "rows that the journal in {} has become files at the next start",
            layout::journals(&self.dir).display()
        ));
        (Losses { rows, ..Losses::default() }, notices)
    }

    /// Why rows could not be written the last time.
    pub const fn failure(&self) -> Option<&io::Error> {
        self.failing.as_ref()
    }

    /// True if files were sealed since the last call.
    pub fn take_sealed(&mut self) -> bool {
        std::mem::take(&mut self.sealed)
    }

    /// True if the folder had the journal of a process of this host that was killed.
    pub const fn is_after_kill(&self) -> bool {
        self.killed > 0
    }

    /// Number of rows that are in no block yet.
    pub fn open_rows(&self) -> usize {
        self.volume.as_ref().map_or(0, Volume::open_rows)
    }
}
