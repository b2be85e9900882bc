//! The frames of one tap, from one file after another.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};

use super::inputs::{STDIN, TapFiles};
use super::links::{TapLinks, supported};
use super::stream::Stream;
use crate::source::capture::{CaptureError, Interface, Part, Place, Reader, Record, link_type_name};
use crate::source::flows::table::FlowTable;

/// A frame that was read and has to wait for its turn. Its buffer is used again.
#[derive(Debug, Default)]
pub struct Pending {
    /// Unix nanoseconds.
    pub ts_ns: u64,
    /// Index of the interface in the file.
    pub interface: u32,
    /// Bytes on the wire.
    pub wire_len: u32,
    /// The captured bytes.
    pub data: Vec<u8>,
}

impl Pending {
    fn keep(&mut self, record: &Record<'_>) {
        self.ts_ns = record.ts_ns;
        self.interface = record.interface;
        self.wire_len = record.wire_len;
        self.data.clear();
        self.data.extend_from_slice(record.data);
    }
}

/// Why [`TapReader::frames`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The next frame is in [`TapReader::pending`]; it is not the turn of this tap, or something
    /// has to happen first.
    Later,
    /// A stream has nothing to give at the moment.
    Wait,
    /// The reader [wants a part](TapReader::wants_part) of its file.
    Elsewhere,
    /// All files are read.
    Ended,
}

/// What the reader of a tap has to tell.
#[derive(Debug, Default)]
pub struct Said {
    /// Sentences for the user.
    pub notices: Vec<String>,
    /// The first damage that kept frames from being read.
    pub failure: Option<CaptureError>,
}

/// Reads the files of a tap in order.
#[derive(Debug)]
pub struct TapReader {
    /// Its links.
    pub links: TapLinks,
    /// The frame that waits, after [`Turn::Later`].
    pub pending: Pending,
    files: VecDeque<PathBuf>,
    stream: Option<(String, Stream)>,
    reader: Option<Reader>,
    impatient: Option<Arc<AtomicBool>>,
    drops: Option<u64>,
    /// The first frame was read when the file was opened.
    primed: bool,
    /// Files may be read in parts.
    in_parts: bool,
}

impl TapReader {
    /// Opens the first file of a tap, and looks into the others, to put them in order of time.
    ///
    /// # Errors
    /// When one of them cannot be read, or has no link type that can.
    pub fn open(tap: TapFiles) -> Result<Self> {
        let mut opened = Self {
            links: TapLinks::new(tap.name),
            pending: Pending::default(),
            files: VecDeque::new(),
            stream: None,
            reader: None,
            impatient: None,
            drops: None,
            primed: false,
            in_parts: false,
        };
        if let [file] = tap.files.as_slice() {
            if let Some(stream) = stream(file)? {
                opened.stream = Some((display(file), stream));
            } else {
                let mut reader = Reader::open(file)?;
                // Only with the first frame does a pcapng have an interface.
                if let Some(record) = reader.next()? {
                    opened.pending.keep(&record);
                    opened.primed = true;
                }
                refuse_unreadable(&reader)?;
                opened.reader = Some(reader);
            }
            return Ok(opened);
        }
        let mut timed = Vec::new();
        for file in tap.files {
            if stream(&file)?.is_some() {
                bail!("{}: a pipe cannot be joined with files into one tap", display(&file));
            }
            let mut reader = Reader::open(&file)?;
            // A file without frames has no place in time, and needs none.
            let first = reader.next()?.map_or(u64::MAX, |record| record.ts_ns);
            refuse_unreadable(&reader)?;
            timed.push((first, file));
        }
        timed.sort_by_key(|(first, _)| *first);
        opened.files = timed.into_iter().map(|(_, file)| file).collect();
        Ok(opened)
    }

    /// Lets long files be read in parts, by whoever has the turn.
    pub fn allow_parts(&mut self) {
        self.in_parts = true;
        if let Some(reader) = &mut self.reader {
            reader.allow_parts();
        }
    }

    /// The part that is wanted after [`Turn::Elsewhere`].
    #[must_use]
    pub fn wants_part(&self) -> Option<Place> {
        self.reader.as_ref().and_then(Reader::wants_part)
    }

    /// Gives the part that is wanted.
    pub fn give_part(&mut self, part: Part) {
        if let Some(reader) = &mut self.reader {
            reader.give_part(part);
        }
    }

    /// Gives back the buffer of the part at hand.
    pub fn take_back(&mut self) -> Vec<u8> {
        self.reader.as_mut().map(Reader::take_back).unwrap_or_default()
    }

    /// Whether the tap is a stream, which ends when its writer does.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.stream.is_some() || self.impatient.is_some()
    }

    /// Packets that the captures say were dropped, as far as read; `None` when they say nothing.
    #[must_use]
    pub fn drops(&self) -> Option<u64> {
        let now = self.reader.as_ref().and_then(Reader::capture_drops);
        match (self.drops, now) {
            (None, None) => None,
            (before, now) => Some(before.unwrap_or(0) + now.unwrap_or(0)),
        }
    }

    /// Takes note of new interfaces. To be called after [`Turn::Later`] and at the end.
    ///
    /// # Errors
    /// When none of the interfaces of a file can be read.
    pub fn learn(&mut self, table: &mut FlowTable, said: &mut Said) -> Result<()> {
        let Some(reader) = &self.reader else { return Ok(()) };
        let refused = self.links.learn(reader.interfaces(), table);
        if !refused.is_empty() {
            refuse_unreadable(reader)?;
        }
        for link_type in &refused {
            said.notices.push(format!(
                "{}: frames of link type {} ({link_type}) cannot be read; they are counted as \
                 link_type_unsupported",
                reader.name(),
                link_type_name(*link_type)
            ));
        }
        Ok(())
    }

    /// Hands frames to `take` as long as `go_on` wants them by their times.
    ///
    /// # Errors
    /// When a stream is no capture that can be read.
    #[inline]
    pub fn frames(
        &mut self,
        said: &mut Said,
        mut go_on: impl FnMut(u64) -> bool,
        mut take: impl FnMut(&mut TapLinks, &Record<'_>),
    ) -> Result<Turn> {
        if std::mem::take(&mut self.primed) {
            return Ok(Turn::Later);
        }
        loop {
            let Some(reader) = &mut self.reader else {
                match self.next_file(said)? {
                    None => continue,
                    Some(turn) => return Ok(turn),
                }
            };
            match reader.next() {
                Ok(Some(record)) => {
                    if go_on(record.ts_ns) && self.links.knows(record.interface) {
                        take(&mut self.links, &record);
                    } else {
                        self.pending.keep(&record);
                        return Ok(Turn::Later);
                    }
                }
                Err(error) if error.would_block() => {
                    return Ok(if reader.wants_part().is_some() { Turn::Elsewhere } else { Turn::Wait });
                }
                Err(error) => {
                    said.failure.get_or_insert(error);
                }
                Ok(None) => return Ok(Turn::Ended),
            }
        }
    }

    /// The file at hand is read to its end: goes on to the next one, if there is one. To be called
    /// after [`Turn::Ended`]; false when that was the last.
    pub fn finish_file(&mut self, said: &mut Said) -> bool {
        if let Some(reader) = &self.reader {
            if let Some(truncation) = reader.truncated() {
                said.notices.push(truncation.to_string());
            }
            if reader.untimed() > 0 {
                said.notices.push(format!(
                    "{}: {} frames have no time of their own (simple packet blocks); they take that of the \
                     frame before",
                    reader.name(),
                    reader.untimed()
                ));
            }
            self.drops = self.drops();
        }
        self.reader = None;
        !self.files.is_empty()
    }

    /// Opens what comes next. `None`: it is open.
    #[cold]
    fn next_file(&mut self, said: &mut Said) -> Result<Option<Turn>> {
        if let Some((_, stream)) = &self.stream {
            if !stream.ready()? {
                return Ok(Some(Turn::Wait));
            }
            let Some((name, stream)) = self.stream.take() else { return Ok(Some(Turn::Ended)) };
            let impatient = stream.impatient();
            let reader = Reader::from_read(&name, Box::new(stream))?;
            impatient.store(true, Ordering::Relaxed);
            self.impatient = Some(impatient);
            refuse_unreadable(&reader)?;
            self.reader = Some(reader);
            return Ok(None);
        }
        let Some(file) = self.files.pop_front() else { return Ok(Some(Turn::Ended)) };
        self.links.next_file();
        match Reader::open(&file) {
            Ok(mut reader) => {
                if self.in_parts {
                    reader.allow_parts();
                }
                self.reader = Some(reader);
            }
            // It was there at the start: what was counted since is worth a report.
            Err(error) => {
                said.failure.get_or_insert(error);
            }
        }
        Ok(None)
    }
}

/// The input, when its reads may block.
fn stream(file: &Path) -> Result<Option<Stream>> {
    if file.as_os_str() == STDIN {
        return Ok(Some(Stream::stdin()?));
    }
    // What is wrong with a file is said by the reader of files.
    Ok(Stream::open(file).unwrap_or(None))
}

fn display(file: &Path) -> String {
    if file.as_os_str() == STDIN { "standard input".into() } else { file.display().to_string() }
}

/// Refuses a capture none of whose interfaces, as far as known, has a link type that can be read.
fn refuse_unreadable(reader: &Reader) -> Result<()> {
    let interfaces = reader.interfaces();
    let readable = |interface: &Interface| supported(interface.link_type);
    if let Some(first) = interfaces.first()
        && !interfaces.iter().any(readable)
    {
        bail!(
            "{}: its link type, {} ({}), is not one that rocescope reads; capture on an Ethernet interface \
             (raw IP and Linux cooked captures can be read too)",
            reader.name(),
            link_type_name(first.link_type),
            first.link_type
        );
    }
    Ok(())
}
