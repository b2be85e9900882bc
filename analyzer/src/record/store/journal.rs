//! The journal: frames appended per interval, so that a kill loses only the rows not yet appended.
//!
//! A frame of rows contains the rows of one table in one interval, packed. A frame of a block is a Parquet file of a
//! complete row group, and replaces all earlier row frames of its table. A frame of unfinished rows contains what
//! became rows only if nothing follows: the next frame of its table replaces it. A frame truncated by a kill has a
//! wrong checksum and is ignored.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use bytes::Bytes;
use rustix::fs::{FlockOperation, flock};

use super::layout;

/// Magic number of a frame.
const MAGIC: [u8; 4] = *b"RSJ1";
/// Length of a frame header: magic, kind, name length, two reserved bytes, payload length, checksum.
const HEAD: usize = 16;
/// Maximum payload: row groups have some hundred kilobytes.
const MOST: u32 = 256 * 1024 * 1024;

/// Content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// Rows of an interval.
    Rows,
    /// Rows of one table, as a row group of Parquet.
    Block,
    /// Rows of an interval that is not over.
    Unfinished,
}

/// Kinds of frames in the order of their codes.
const KINDS: [FrameKind; 3] = [FrameKind::Rows, FrameKind::Block, FrameKind::Unfinished];

/// Position of a frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    offset: u64,
    len: u32,
}

/// A valid frame in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    pub(super) table: String,
    pub(super) place: Place,
}

/// A journal, locked for this process.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    /// End of the last complete frame, in bytes.
    len: u64,
}

impl Journal {
    /// Creates a journal.
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from);
        // After a power failure its rows are of no use without its name.
        let ready = locked.and_then(|()| path.parent().map_or(Ok(()), layout::sync));
        if let Err(error) = ready {
            // Each attempt would leave an empty one.
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        Ok(Self { file, path, len: 0 })
    }

    #[cfg(test)]
    pub(super) fn on_a_full_disk() -> Self {
        let path = PathBuf::from("/dev/full");
        Self { file: File::options().read(true).write(true).open(&path).unwrap(), path, len: 0 }
    }

    /// Opens an existing journal and reads its frames; `None` while another process holds its lock.
    pub(super) fn open(path: PathBuf) -> io::Result<Option<(Self, Vec<Frame>)>> {
        let file = File::options().read(true).write(true).open(&path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let mut journal = Self { file, path, len: 0 };
        let frames = journal.frames()?;
        Ok(Some((journal, frames)))
    }

    /// Length in bytes.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Reads the complete frames from the start, and sets `len` to their end.
    fn frames(&mut self) -> io::Result<Vec<Frame>> {
        let mut frames = Vec::new();
        let end = self.file.metadata()?.len();
        self.file.seek(SeekFrom::Start(0))?;
        let mut reader = io::BufReader::new(&self.file);
        while let Some((frame, next)) = frame(&mut reader, self.len, end)? {
            self.len = next;
            frames.push(frame);
        }
        Ok(frames)
    }

    /// Appends frames atomically: after an error, none of them is in the journal.
    pub(super) fn append(&mut self, frames: &[(FrameKind, &str, &[u8])]) -> io::Result<Vec<Place>> {
        let mut buffer = Vec::new();
        let mut places = Vec::new();
        for (kind, table, payload) in frames {
            let len = u32::try_from(payload.len()).ok().filter(|len| *len <= MOST);
            let (Some(len), Ok(name)) = (len, u8::try_from(table.len())) else {
                return Err(io::Error::other("a frame is too long"));
            };
            buffer.extend(MAGIC);
            buffer.extend([*kind as u8, name, 0, 0]);
            buffer.extend(len.to_le_bytes());
            buffer.extend(checksum(table, payload).to_le_bytes());
            buffer.extend(table.as_bytes());
            places.push(Place { offset: self.len + buffer.len() as u64, len });
            buffer.extend_from_slice(payload);
        }
        let written = self.file.seek(SeekFrom::Start(self.len)).and_then(|_| self.file.write_all(&buffer));
        if let Err(error) = written {
            // Remove the partial frame, which would precede the next one. If even that fails, the next frame
            // overwrites it.
            let _ = self.file.set_len(self.len);
            return Err(error);
        }
        self.len += buffer.len() as u64;
        Ok(places)
    }

    /// Reads the payload of a frame.
    pub(super) fn read(&self, place: Place) -> io::Result<Bytes> {
        let mut payload = vec![0; place.len as usize];
        self.file.read_exact_at(&mut payload, place.offset)?;
        Ok(payload.into())
    }

    /// Waits until the data is on disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Removes the journal file.
    pub(super) fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

fn checksum(table: &str, payload: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(table.as_bytes());
    sum.update(payload);
    sum.finalize()
}

/// The frame at an offset, and the offset after it; `None` if no complete frame is there.
fn frame(reader: &mut impl io::Read, at: u64, end: u64) -> io::Result<Option<(Frame, u64)>> {
    let mut head = [0; HEAD];
    if end.saturating_sub(at) < HEAD as u64 {
        return Ok(None);
    }
    reader.read_exact(&mut head)?;
    let [m0, m1, m2, m3, kind, name, _, _, l0, l1, l2, l3, c0, c1, c2, c3] = head;
    let (len, sum) = (u32::from_le_bytes([l0, l1, l2, l3]), u32::from_le_bytes([c0, c1, c2, c3]));
    let offset = at + (HEAD + usize::from(name)) as u64;
    let next = offset + u64::from(len);
    let Some(kind) = KINDS.get(usize::from(kind)).copied() else { return Ok(None) };
    if [m0, m1, m2, m3] != MAGIC || len > MOST || next > end {
        return Ok(None);
    }
    let mut table = vec![0; usize::from(name)];
    reader.read_exact(&mut table)?;
    let mut payload = vec![0; len as usize];
    reader.read_exact(&mut payload)?;
    let Ok(table) = String::from_utf8(table) else { return Ok(None) };
    if checksum(&table, &payload) != sum {
        return Ok(None);
    }
    Ok(Some((Frame { kind, table, place: Place { offset, len } }, next)))
}
