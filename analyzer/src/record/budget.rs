//! A bound of the memory that rows of a recording take when they are read: few bytes, of anybody who may write to the
//! folder, unpack to any number of rows and texts.

use std::io;

use crate::util::units;

/// Maximum memory of the rows of a journal that are in no block, those of all tables together, in bytes: of each table,
/// a recorder leaves some row groups, and one row for each destination of its flows.
pub(super) const MOST_OPEN_BYTES: usize = 1 << 30;
/// Maximum length of the texts that are in memory of files that are read a part at a time, in bytes: 32 kB for each row
/// of a row group.
pub(crate) const MOST_TEXTS: usize = 256 << 20;

/// How much more may be taken into memory.
#[derive(Clone, Debug)]
pub(crate) struct MemoryBudget {
    most: usize,
    left: usize,
}

impl MemoryBudget {
    /// One of this many bytes.
    pub(crate) const fn of(most: usize) -> Self {
        Self { most, left: most }
    }

    /// One that never ends, of rows that this process wrote.
    pub(super) const fn unlimited() -> Self {
        Self::of(usize::MAX)
    }

    /// Number of bytes that are left.
    pub(crate) const fn left(&self) -> usize {
        self.left
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// If fewer are left.
    pub(super) fn take(&mut self, bytes: usize) -> io::Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| more_than(self.most))?;
        Ok(())
    }

    /// Gives back bytes that are no longer in memory.
    pub(crate) const fn give_back(&mut self, bytes: usize) {
        self.left += bytes;
    }
}

/// The error that rows take more memory than this many bytes.
pub(super) fn more_than(most: usize) -> io::Error {
    io::Error::other(format!(
        "its rows take more memory than those of a recorder: more than {}",
        units::bytes(most as u64)
    ))
}
