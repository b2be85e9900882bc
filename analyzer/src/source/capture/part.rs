//! Parts of a file, read by whoever is going to look at them.
//!
//! What a processor has read lies in its own cache, and comes to another one slowly: of long frames, whose bytes all pass
//! through the ICRC, handing them over costs as much as two threads could win. So where two threads take turns at one
//! file, each reads the part that it will look at, while the other looks at the part before. The bytes are those that
//! one reading after the other would give.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// Room in front of what is read, for the start of a record whose end is in the next part.
pub(super) const HEADROOM: usize = 16 * 1024;
/// Bytes read at once: enough to be worth a change of hands, few enough to stay in a processor's cache.
pub(super) const CHUNK: usize = 512 * 1024;

/// Bytes as they were read: `buf[HEADROOM..HEADROOM + len]`.
pub(super) struct Chunk {
    pub(super) buf: Vec<u8>,
    pub(super) len: usize,
}

impl Chunk {
    /// Puts its bytes behind `buf[start..end]`, which keep their order but may move. Gives back where all of them are
    /// now, and the buffer that is not needed any more.
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
        // A record larger than that is put together where it is.
        buf.copy_within(start..end, 0);
        buf.truncate(end - start);
        buf.extend_from_slice(self.buf.get(HEADROOM..HEADROOM + self.len).unwrap_or_default());
        ((0, buf.len()), self.buf)
    }
}

/// Where in which file bytes are.
#[derive(Clone, Debug)]
pub struct Place {
    file: Arc<File>,
    offset: u64,
}

impl Place {
    pub(super) fn new(file: Arc<File>, offset: u64) -> Self {
        Self { file, offset }
    }

    /// The place `parts` full parts further on.
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

/// What was read at a place.
#[derive(Debug)]
pub struct Part {
    place: Place,
    buf: Vec<u8>,
    read: io::Result<usize>,
}

impl Part {
    /// Reads what is at a place, into a buffer that is used again.
    #[must_use]
    pub fn read(place: Place, mut buf: Vec<u8>) -> Self {
        // One that grew for a large record is not kept.
        if buf.len() != HEADROOM + CHUNK {
            buf = vec![0; HEADROOM + CHUNK];
        }
        let read = loop {
            let room = buf.get_mut(HEADROOM..).unwrap_or_default();
            match place.file.read_at(room, place.offset) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        Self { place, buf, read }
    }

    /// Whether it was read at this place.
    #[must_use]
    pub fn is_at(&self, place: &Place) -> bool {
        self.place.is(place)
    }

    /// The buffer, to be used again.
    #[must_use]
    pub fn into_buf(self) -> Vec<u8> {
        self.buf
    }

    pub(super) fn into_chunk(self) -> io::Result<Chunk> {
        let buf = self.buf;
        self.read.map(|len| Chunk { buf, len })
    }
}
