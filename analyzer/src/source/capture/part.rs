//! Parts of a file, each read by the thread that will parse it.
//!
//! Data that a CPU has read is in its own cache, and moves to another CPU slowly: for complete frames, whose bytes
//! all enter the ICRC, this transfer costs as much as a second thread gains. So if two threads replay one file
//! alternately, each reads the part that it will parse while the other parses the part before. The bytes are those
//! that sequential reading gives.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// Space before the data, for the start of a record whose end is in the next part.
pub(super) const HEADROOM: usize = 16 * 1024;
/// Size of a part: large enough for the cost of the hand-over, small enough to stay in a CPU's cache.
pub(super) const CHUNK: usize = 512 * 1024;

/// Data of one read: `buf[HEADROOM..HEADROOM + len]`.
pub(super) struct Chunk {
    pub(super) buf: Vec<u8>,
    pub(super) len: usize,
}

impl Chunk {
    /// Appends its bytes to `buf[start..end]`, which may move. Returns the new range, and the buffer that is free
    /// again.
    pub(super) fn behind(mut self, buf: &mut Vec<u8>, start: usize, end: usize) -> ((usize, usize), Vec<u8>) {
        let left = buf.get(start..end).unwrap_or_default();
        if left.len() <= HEADROOM {
            let from = HEADROOM - left.len();
            if let Some(room) = self.buf.get_mut(from..HEADROOM) {
                room.copy_from_slice(left);
            }
            std::mem::swap(buf, &mut self.buf);
            return ((from, HEADROOM + self.len), self.buf);
        }
        // A larger record is joined in place.
        buf.copy_within(start..end, 0);
        buf.truncate(end - start);
        buf.extend_from_slice(self.buf.get(HEADROOM..HEADROOM + self.len).unwrap_or_default());
        ((0, buf.len()), self.buf)
    }
}

/// A buffer for a read: this one, unless it is new or grew for a large record. The system gives memory that is zero:
/// nothing is written.
pub(super) fn of_one_size(buf: Vec<u8>) -> Vec<u8> {
    const SIZE: usize = HEADROOM + CHUNK;
    if buf.len() == SIZE { buf } else { vec![0; SIZE] }
}

/// A position in a file.
#[derive(Clone, Debug)]
pub struct Location {
    file: Arc<File>,
    offset: u64,
}

impl Location {
    pub(super) fn new(file: Arc<File>, offset: u64) -> Self {
        Self { file, offset }
    }

    /// The location after `parts` complete parts.
    #[must_use]
    pub fn further(&self, parts: u64) -> Self {
        let offset = self.offset.saturating_add(parts.saturating_mul(CHUNK as u64));
        Self { file: Arc::clone(&self.file), offset }
    }

    pub(super) fn advance(&mut self, len: usize) {
        self.offset = self.offset.saturating_add(len as u64);
    }

    fn is(&self, other: &Self) -> bool {
        self.offset == other.offset && Arc::ptr_eq(&self.file, &other.file)
    }
}

/// Bytes read at a location.
#[derive(Debug)]
pub struct Part {
    location: Location,
    buf: Vec<u8>,
    read: io::Result<usize>,
}

impl Part {
    /// Reads at a location, into a buffer that is reused.
    pub fn read(location: Location, buf: Vec<u8>) -> Self {
        let mut buf = of_one_size(buf);
        let read = loop {
            let room = buf.get_mut(HEADROOM..).unwrap_or_default();
            match location.file.read_at(room, location.offset) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        Self { location, buf, read }
    }

    /// True if it was read at this location.
    pub fn is_at(&self, location: &Location) -> bool {
        self.location.is(location)
    }

    /// The buffer, to be reused.
    pub fn into_buf(self) -> Vec<u8> {
        self.buf
    }

    pub(super) fn into_chunk(self) -> io::Result<Chunk> {
        let buf = self.buf;
        self.read.map(|len| Chunk { buf, len })
    }
}
