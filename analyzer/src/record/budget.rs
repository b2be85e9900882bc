//! A bound of the texts that the recovery of a journal takes into memory: few bytes, of anybody who may write to the
//! folder, unpack to any number of them.

use std::io;

use crate::util::units;

/// Maximum length of the texts of a table's rows that are in no block, in bytes: 64 for each of as many rows as a
/// journal may have, 32 kB for each of a row group.
pub(super) const MOST_TEXTS_OPEN: usize = 256 << 20;

/// How much more text may be taken into memory.
#[derive(Clone, Debug)]
pub(super) struct TextBudget {
    most: usize,
    left: usize,
}

impl TextBudget {
    /// One of this many bytes.
    pub(super) const fn of(most: usize) -> Self {
        Self { most, left: most }
    }

    /// One that never ends, of files that are read a group at a time.
    pub(super) const fn unlimited() -> Self {
        Self::of(usize::MAX)
    }

    /// Number of bytes that are left.
    pub(super) const fn left(&self) -> usize {
        self.left
    }

    /// Takes the bytes of texts.
    ///
    /// # Errors
    /// If fewer are left.
    pub(super) fn take(&mut self, length: usize) -> io::Result<()> {
        self.left = self.left.checked_sub(length).ok_or_else(|| more_than(self.most))?;
        Ok(())
    }
}

/// The error that there are more bytes of texts.
pub(super) fn more_than(most: usize) -> io::Error {
    not_written(&format!("more than {}", units::bytes(most as u64)))
}

/// The error that texts are of no recorder.
pub(super) fn not_written(reason: &str) -> io::Error {
    io::Error::other(format!("it has texts that a recorder does not write: {reason}"))
}
