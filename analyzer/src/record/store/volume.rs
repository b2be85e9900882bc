//! A volume: the rows between two rotations. They are in its journal until sealing turns them into one file per
//! table.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::journal::{FrameKind, Journal, Place};
use super::layout::{self, Part};
use crate::record::budget::{MOST_OPEN_BYTES, MemoryBudget};
use crate::record::packed::{pack_rows, unpack_rows};
use crate::record::parquet::{self, GROUP};
use crate::record::registry::{FlowRollup, Rows};
use crate::record::table::{Row, Visit};

/// Maximum number of rows of a table in the journal that are in no block: one for each flow that the kernel's table can
/// hold, beside those of a row group.
const MOST_OPEN: usize = (1 << 22) + GROUP;
/// Maximum number of row groups per table kept in memory while the journal cannot be written; then the oldest are
/// lost.
const WAITING: usize = 4;

/// Journal state of a table, beside its open rows.
#[derive(Debug, Default)]
struct Blocks {
    places: Vec<Place>,
    /// Time of the first row.
    first_ns: Option<u64>,
}

/// The rows of a volume.
#[derive(Debug)]
pub(super) struct Volume {
    journal: Journal,
    /// Id in the names of its files.
    id: String,
    host: String,
    /// Rows that are in no block yet.
    open: Rows,
    blocks: BTreeMap<&'static str, Blocks>,
    /// Total length of the blocks, in bytes.
    block_bytes: u64,
    /// Number of open rows missing from the journal, by table: always the last ones.
    unwritten: BTreeMap<&'static str, u64>,
    /// Unfinished rows that would be recovered from the journal now.
    unfinished: Rows,
    /// Time of the latest row that was recovered, Unix nanoseconds.
    last_ns: u64,
}

/// Result of adding rows.
#[derive(Debug, Default)]
pub(super) struct Appended {
    /// Number of rows lost.
    pub(super) lost: u64,
    /// Error of writing the journal.
    pub(super) error: Option<io::Error>,
}

impl Volume {
    pub(super) fn create(dir: &Path, host: &str) -> io::Result<Self> {
        let id = layout::uuid();
        let journal = Journal::create(layout::journal(dir, host, &id))?;
        Ok(Self::with(journal, id, host.to_owned()))
    }

    /// One whose journal takes nothing.
    #[cfg(test)]
    pub(super) fn on_a_full_disk() -> Self {
        Self::with(Journal::on_a_full_disk(), layout::uuid(), "node1".to_owned())
    }

    fn with(journal: Journal, id: String, host: String) -> Self {
        let (open, unfinished) = (Rows::default(), Rows::default());
        let (blocks, unwritten) = (BTreeMap::new(), BTreeMap::new());
        Self { journal, id, host, open, blocks, block_bytes: 0, unwritten, unfinished, last_ns: 0 }
    }

    /// Recovers the volume of a killed process; `None` while a process writes it, or if the path is not a journal's.
    pub(super) fn recover(path: PathBuf) -> io::Result<Option<Self>> {
        Self::recover_within(path, MOST_OPEN_BYTES)
    }

    /// [`Self::recover`] with this bound of the memory of all rows.
    pub(super) fn recover_within(path: PathBuf, most: usize) -> io::Result<Option<Self>> {
        let Some((host, id)) = layout::journal_name(&path) else { return Ok(None) };
        #[cfg(feature = "test-clock")]
        crate::util::hijack::here("journal");
        let Some((journal, frames)) = Journal::open(path)? else { return Ok(None) };
        let mut volume = Self::with(journal, id, host);
        let (mut open, mut unfinished) = (Rows::default(), Rows::default());
        let mut held = Recovered {
            budget: MemoryBudget::of(most),
            open: BytesByTable::new(),
            unfinished: BytesByTable::new(),
        };
        for frame in frames {
            let Ok(()) = unfinished.visit(&mut Clear(&frame.table));
            held.budget.give_back(held.unfinished.remove(&*frame.table).unwrap_or(0));
            let rows = if frame.kind == FrameKind::Unfinished { &mut unfinished } else { &mut open };
            rows.visit(&mut Recover { volume: &mut volume, frame: &frame, held: &mut held })?;
        }
        open.append(unfinished);
        volume.open = open;
        Ok(Some(volume))
    }

    /// True if it has no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.blocks.is_empty()
    }

    /// True if its rows are of this host.
    pub(super) fn is_of(&self, host: &str) -> bool {
        self.host == host
    }

    /// Time of the latest row that was recovered, Unix nanoseconds; 0 if none was.
    pub(super) const fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Number of rows that are in no block.
    pub(super) fn open_rows(&self) -> usize {
        self.open.len()
    }

    /// Number of rows that are only in memory, since the journal could not be written.
    pub(super) fn unwritten(&self) -> u64 {
        self.unwritten.values().sum()
    }

    /// Approximate size of its files, in bytes: rows that are in no block yet count 25 bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.block_bytes + 25 * self.open.len() as u64
    }

    pub(super) const fn journal_bytes(&self) -> u64 {
        self.journal.len()
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.journal.sync()
    }

    /// Adds the rows of an interval, and writes all rows to the journal that it lacks: these, and those that waited in
    /// memory while it could not be written. `unfinished` become rows if nothing is added any more.
    pub(super) fn append(&mut self, mut rows: Rows, unfinished: &Rows) -> Appended {
        let Ok(()) = rows.visit(&mut Count(&mut self.unwritten));
        self.open.append(rows);
        let mut open = std::mem::take(&mut self.open);
        let mut groups = Groups { volume: self, lost: 0, error: None };
        let ended = open.visit(&mut groups).err();
        let Groups { lost, error: of_groups, .. } = groups;
        let written = self.write(&mut open, unfinished);
        self.open = open;
        Appended { lost, error: of_groups.or(ended).or(written.err()) }
    }

    /// True if the journal has other unfinished rows.
    pub(super) fn lacks(&self, unfinished: &Rows) -> bool {
        self.unfinished != *unfinished
    }

    /// Writes the open rows that the journal lacks, and the unfinished ones of tables in which they changed.
    fn write(&mut self, open: &mut Rows, unfinished: &Rows) -> io::Result<()> {
        let mut frames = Frames { count: &self.unwritten, of: Vec::new() };
        open.visit(&mut frames)?;
        let mut of = frames.of;
        for (_, table, _) in &of {
            let Ok(()) = self.unfinished.visit(&mut Clear(table));
        }
        unfinished.clone().visit_changed(&self.unfinished, &mut Replacing(&mut of))?;
        let of: Vec<_> = of.iter().map(|(kind, table, rows)| (*kind, *table, rows.as_slice())).collect();
        if !of.is_empty() {
            self.journal.append(&of)?;
        }
        self.unwritten.clear();
        self.unfinished.clone_from(unfinished);
        Ok(())
    }

    /// Writes and returns the files of all tables. After an error the volume is unchanged. A journal that stays
    /// although its files are in place has no unfinished rows: they go into the next one.
    #[expect(clippy::result_large_err, reason = "the volume goes on as before; it is moved once in minutes")]
    pub(super) fn seal(mut self, dir: &Path) -> Result<(Self, Vec<Part>), (Self, io::Error)> {
        let mut open = std::mem::take(&mut self.open);
        let mut sealing = Seal { volume: &self, dir, made: Vec::new() };
        let result = open.visit(&mut sealing);
        let made = sealing.made;
        self.open = open;
        let renamed =
            result.and_then(|()| made.iter().try_for_each(|(aside, part)| publish(aside, &part.path)));
        let forgot = renamed.and_then(|()| self.write(&mut Rows::default(), &Rows::default()));
        if let Err(error) = forgot {
            for (aside, _) in &made {
                // A missing file needs no removal.
                let _ = std::fs::remove_file(aside);
            }
            return Err((self, error));
        }
        Ok((self, made.into_iter().map(|(_, part)| part).collect()))
    }

    /// Removes the journal, once the files are in place.
    pub(super) fn remove(self) -> io::Result<()> {
        self.journal.remove()
    }
}

/// Moves a finished file into place. An existing file of this name is the same one, made before a kill.
fn publish(aside: &Path, path: &Path) -> io::Result<()> {
    std::fs::rename(aside, path)?;
    path.parent().map_or(Ok(()), layout::sync)
}

/// Counts rows by table.
struct Count<'a>(&'a mut BTreeMap<&'static str, u64>);

impl Visit for Count<'_> {
    type Error = Infallible;

    fn rows<R: Row>(&mut self, rows: &mut Vec<R>) -> Result<(), Infallible> {
        if !rows.is_empty() {
            *self.0.entry(R::TABLE.name).or_default() += rows.len() as u64;
        }
        Ok(())
    }
}

/// A frame with its table and its encoded rows.
type Encoded = (FrameKind, &'static str, Vec<u8>);

/// Encodes the last rows of each table as frames.
struct Frames<'a> {
    /// Number of rows by table.
    count: &'a BTreeMap<&'static str, u64>,
    of: Vec<Encoded>,
}

impl Visit for Frames<'_> {
    type Error = io::Error;

    fn rows<R: Row>(&mut self, rows: &mut Vec<R>) -> io::Result<()> {
        let count = self.count.get(R::TABLE.name).copied().unwrap_or(0);
        let from = rows.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
        if let Some(rows) = rows.get(from..).filter(|rows| !rows.is_empty()) {
            self.of.push((FrameKind::Rows, R::TABLE.name, pack_rows(rows)?));
        }
        Ok(())
    }
}

/// Encodes unfinished rows as a frame that replaces those before, also if there are none.
struct Replacing<'a>(&'a mut Vec<Encoded>);

impl Visit for Replacing<'_> {
    type Error = io::Error;

    fn rows<R: Row>(&mut self, rows: &mut Vec<R>) -> io::Result<()> {
        self.0.push((FrameKind::Unfinished, R::TABLE.name, pack_rows(rows)?));
        Ok(())
    }
}

/// Moves open rows into blocks.
struct Groups<'a> {
    volume: &'a mut Volume,
    lost: u64,
    error: Option<io::Error>,
}

impl Visit for Groups<'_> {
    type Error = io::Error;

    fn rows<R: Row>(&mut self, rows: &mut Vec<R>) -> io::Result<()> {
        while rows.len() >= GROUP {
            let (group, rest) = rows.split_at(GROUP);
            let table = R::TABLE.name;
            let block = parquet::encode(group).map_err(io::Error::other)?;
            // The block replaces all earlier row frames, so rows outside it are written again.
            let rest = pack_rows(rest)?;
            let frames =
                [(FrameKind::Block, table, block.as_slice()), (FrameKind::Rows, table, rest.as_slice())];
            match self.volume.journal.append(&frames) {
                Ok(places) => {
                    let blocks = self.volume.blocks.entry(table).or_default();
                    blocks.first_ns = blocks.first_ns.or(group.first().map(|row| row.t().0));
                    blocks.places.extend(places.first());
                    self.volume.block_bytes += block.len() as u64;
                    self.volume.unwritten.remove(table);
                    let Ok(()) = self.volume.unfinished.visit(&mut Clear(table));
                    rows.drain(..GROUP);
                }
                Err(error) => {
                    self.error = Some(error);
                    // An interval may have more than one group.
                    let over = rows.len().saturating_sub(WAITING * GROUP).next_multiple_of(GROUP);
                    if over > 0 {
                        self.lost += over as u64;
                        rows.drain(..over);
                        // The oldest may be in the journal.
                        let unwritten = self.volume.unwritten.entry(table).or_default();
                        *unwritten = (*unwritten).min(rows.len() as u64);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Time of the latest row, Unix nanoseconds; 0 without rows.
fn latest<R: Row>(rows: &[R]) -> u64 {
    rows.iter().map(|row| row.t().0).max().unwrap_or(0)
}

/// Bytes that the rows of a table take.
type BytesByTable = BTreeMap<&'static str, usize>;

/// What recovery holds in memory: rows of all tables together.
struct Recovered {
    budget: MemoryBudget,
    open: BytesByTable,
    unfinished: BytesByTable,
}

/// Adds a frame to its table.
struct Recover<'a> {
    volume: &'a mut Volume,
    frame: &'a super::journal::Frame,
    held: &'a mut Recovered,
}

impl Visit for Recover<'_> {
    type Error = io::Error;

    fn rows<R: Row>(&mut self, rows: &mut Vec<R>) -> io::Result<()> {
        let table = R::TABLE.name;
        if self.frame.table != table {
            return Ok(());
        }
        let payload = self.volume.journal.read(self.frame.place)?;
        let Recovered { budget, open, unfinished } = &mut *self.held;
        let mut last_ns = 0;
        if self.frame.kind == FrameKind::Block {
            rows.clear();
            budget.give_back(open.remove(table).unwrap_or(0));
            let mut first_ns = None;
            let mut take = |row: R| {
                first_ns.get_or_insert(row.t().0);
                last_ns = last_ns.max(row.t().0);
            };
            // They do not stay in memory.
            parquet::each(payload, &mut budget.clone(), &mut take).map_err(parquet::cause)?;
            let blocks = self.volume.blocks.entry(table).or_default();
            blocks.first_ns = blocks.first_ns.or(first_ns);
            blocks.places.push(self.frame.place);
        } else {
            let left = budget.left();
            let decoded: Vec<R> = unpack_rows(payload, MOST_OPEN.saturating_sub(rows.len()), budget)?;
            let is_unfinished = self.frame.kind == FrameKind::Unfinished;
            let taken = if is_unfinished { unfinished } else { open };
            *taken.entry(table).or_default() += left - budget.left();
            // The time of an unfinished one is the end of an interval that is not over.
            if !is_unfinished || table != FlowRollup::TABLE.name {
                last_ns = latest(&decoded);
            }
            rows.extend(decoded);
        }
        self.volume.last_ns = self.volume.last_ns.max(last_ns);
        Ok(())
    }
}

/// Drops the rows of a table.
struct Clear<'a>(&'a str);

impl Visit for Clear<'_> {
    type Error = Infallible;

    fn rows<R: Row>(&mut self, rows: &mut Vec<R>) -> Result<(), Infallible> {
        if R::TABLE.name == self.0 {
            rows.clear();
        }
        Ok(())
    }
}

/// Writes the files of all tables under temporary names.
struct Seal<'a> {
    volume: &'a Volume,
    dir: &'a Path,
    /// Temporary path and destination of each file.
    made: Vec<(PathBuf, Part)>,
}

impl Visit for Seal<'_> {
    type Error = io::Error;

    fn rows<R: Row>(&mut self, rows: &mut Vec<R>) -> io::Result<()> {
        let Volume { journal, id, host, blocks, .. } = self.volume;
        let blocks = blocks.get(R::TABLE.name);
        let first_ns = blocks.and_then(|blocks| blocks.first_ns).or(rows.first().map(|row| row.t().0));
        let Some(first_ns) = first_ns else { return Ok(()) };
        let part = Part::of(self.dir, R::TABLE.name, host, first_ns, id);
        let aside = part.aside();
        if let Some(folder) = part.path.parent() {
            // Removed meanwhile, it is made as at the start.
            layout::create(&layout::folder(self.dir), layout::PRIVATE)?;
            layout::create(folder, layout::BELOW)?;
        }
        // Left by a process that was killed while sealing.
        let _ = std::fs::remove_file(&aside);
        let file = File::options().write(true).create_new(true).open(&aside)?;
        self.made.push((aside, part));
        let places = blocks.map_or(&[][..], |blocks| blocks.places.as_slice());
        let mut failed = None;
        let mut read =
            places.iter().map_while(|place| journal.read(*place).map_err(|error| failed = Some(error)).ok());
        let open = parquet::encode(rows).map_err(io::Error::other)?;
        let file =
            parquet::join(R::TABLE, read.by_ref().chain([open.into()]), file).map_err(parquet::cause)?;
        drop(read);
        match failed {
            Some(error) => Err(error),
            None => file.sync_all(),
        }
    }
}
