//! The frames of one tap, from one file after another.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::inputs::{STDIN, TapFiles};
use super::links::{TapLinks, supported};
use super::stream::Stream;
use crate::source::capture::{
    CaptureError, Interface, Location, Opening, Part, Reader, Record, link_type_name,
};
use crate::source::flows::table::FlowTable;

/// A frame that was read and waits to be counted. Its buffer is reused.
#[derive(Debug, Default)]
pub struct PendingFrame {
    /// Time of the frame, Unix nanoseconds.
    pub ts_ns: u64,
    /// Index of the interface in the file.
    pub interface: u32,
    /// Bytes on the wire.
    pub wire_len: u32,
    /// Captured bytes of the frame.
    pub data: Vec<u8>,
}

impl PendingFrame {
    fn keep(&mut self, record: &Record<'_>) {
        self.ts_ns = record.ts_ns;
        self.interface = record.interface;
        self.wire_len = record.wire_len;
        self.data.clear();
        self.data.extend_from_slice(record.data);
    }
}

/// Reason why [`TapReader::frames`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HaltReason {
    /// The next frame is in [`TapReader::pending`]: frames of other taps come first, or an action is due before it.
    FrameWaits,
    /// A stream has no data at the moment.
    NoData,
    /// The reader [wants a part](TapReader::wanted_part) of its file.
    PartWanted,
    /// The current file is read to its end.
    FileEnded,
}

/// Messages of tap readers.
#[derive(Debug, Default)]
pub struct Messages {
    /// Sentences for the user.
    pub notices: Vec<String>,
    /// The first error that kept frames from being read.
    pub failure: Option<CaptureError>,
}

/// Reads the files of a tap in order.
#[derive(Debug)]
pub struct TapReader {
    /// Links of the tap.
    pub links: TapLinks,
    /// The waiting frame, after [`HaltReason::FrameWaits`].
    pub pending: PendingFrame,
    files: VecDeque<PathBuf>,
    /// A stream whose format is not known yet.
    opening: Option<Opening>,
    is_stream: bool,
    reader: Option<Reader>,
    drops: Option<u64>,
    /// The first frame was read when the file was opened, and is in `pending`.
    primed: bool,
    /// True if long files may be read in parts that the caller supplies.
    in_parts: bool,
}

impl TapReader {
    /// Opens the files of a tap; several files are sorted by the time of their first frame.
    ///
    /// # Errors
    /// If a file cannot be read, or has no supported link type.
    pub fn open(tap: TapFiles) -> Result<Self> {
        let mut opened = Self {
            links: TapLinks::new(tap.name),
            pending: PendingFrame::default(),
            files: VecDeque::new(),
            opening: None,
            is_stream: false,
            reader: None,
            drops: None,
            primed: false,
            in_parts: false,
        };
        if let [file] = tap.files.as_slice() {
            if let Some(stream) = stream(file)? {
                let mut opening = Opening::new(&display(file), Box::new(stream));
                opening.interruptible();
                (opened.opening, opened.is_stream) = (Some(opening), true);
            } else {
                let mut reader = Reader::open(file)?;
                // A pcapng describes its interfaces before the first frame, not in the file header.
                if let Some(record) = reader.next()? {
                    opened.pending.keep(&record);
                    opened.primed = true;
                }
                refuse_unreadable(&reader)?;
                reader.interruptible();
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
            // A file without frames may come last.
            let first = reader.next()?.map_or(u64::MAX, |record| record.ts_ns);
            refuse_unreadable(&reader)?;
            timed.push((first, file));
        }
        timed.sort_by_key(|(first, _)| *first);
        opened.files = timed.into_iter().map(|(_, file)| file).collect();
        Ok(opened)
    }

    /// Allows long files to be read in parts that the caller [supplies](Self::give_part).
    pub fn allow_parts(&mut self) {
        self.in_parts = true;
        if let Some(reader) = &mut self.reader {
            reader.allow_parts();
        }
    }

    /// The location of the part that is wanted after [`HaltReason::PartWanted`].
    #[must_use]
    pub fn wanted_part(&self) -> Option<Location> {
        self.reader.as_ref().and_then(Reader::wanted_part)
    }

    /// Supplies the wanted part.
    pub fn give_part(&mut self, part: Part) {
        if let Some(reader) = &mut self.reader {
            reader.give_part(part);
        }
    }

    /// Takes back the buffer of the current part.
    pub fn reclaim_buffer(&mut self) -> Vec<u8> {
        self.reader.as_mut().map(Reader::reclaim_buffer).unwrap_or_default()
    }

    /// True if the tap is a stream, which ends when its writer does.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// Packets dropped during the capture, as the files read so far report; `None` when they do not.
    #[must_use]
    pub fn drops(&self) -> Option<u64> {
        let now = self.reader.as_ref().and_then(Reader::capture_drops);
        match (self.drops, now) {
            (None, None) => None,
            (before, now) => Some(before.unwrap_or(0).saturating_add(now.unwrap_or(0))),
        }
    }

    /// Adds new interfaces. To be called after [`HaltReason::FrameWaits`] and at the end.
    ///
    /// # Errors
    /// If no interface of a file has a supported link type.
    pub fn learn(&mut self, table: &mut FlowTable, messages: &mut Messages) -> Result<()> {
        let Some(reader) = &self.reader else { return Ok(()) };
        let refused = self.links.learn(reader.interfaces(), table);
        if !refused.is_empty() {
            refuse_unreadable(reader)?;
        }
        for link_type in &refused {
            messages.notices.push(format!(
                "{}: frames of link type {} ({link_type}) are not supported; they are counted as \
                 link_type_unsupported",
                reader.name(),
                link_type_name(*link_type)
            ));
        }
        Ok(())
    }

    /// Passes frames to `take` while `go_on` accepts their times.
    ///
    /// # Errors
    /// If a stream is not a readable capture.
    #[inline]
    pub fn frames(
        &mut self,
        messages: &mut Messages,
        mut go_on: impl FnMut(u64) -> bool,
        mut take: impl FnMut(&mut TapLinks, &Record<'_>),
    ) -> Result<HaltReason> {
        if std::mem::take(&mut self.primed) {
            return Ok(HaltReason::FrameWaits);
        }
        loop {
            let Some(reader) = &mut self.reader else {
                match self.next_file(messages)? {
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
                        return Ok(HaltReason::FrameWaits);
                    }
                }
                Err(error) if error.would_block() => {
                    return Ok(if reader.wanted_part().is_some() {
                        HaltReason::PartWanted
                    } else {
                        HaltReason::NoData
                    });
                }
                Err(error) => {
                    messages.failure.get_or_insert(error);
                }
                Ok(None) => return Ok(HaltReason::FileEnded),
            }
        }
    }

    /// Closes the current file, after [`HaltReason::FileEnded`]; false when it was the last one.
    pub fn finish_file(&mut self, messages: &mut Messages) -> bool {
        if let Some(reader) = &self.reader {
            if let Some(truncation) = reader.truncated() {
                messages.notices.push(truncation.to_string());
            }
            if reader.untimed() > 0 {
                messages.notices.push(format!(
                    "{}: {} frames have no timestamp (simple packet blocks); they get that of the frame before",
                    reader.name(),
                    reader.untimed()
                ));
            }
            self.drops = self.drops();
        }
        self.reader = None;
        !self.files.is_empty()
    }

    /// Opens the next input; `None` when it is open.
    #[cold]
    fn next_file(&mut self, messages: &mut Messages) -> Result<Option<HaltReason>> {
        if let Some(opening) = &mut self.opening {
            match opening.poll() {
                Ok(reader) => {
                    refuse_unreadable(&reader)?;
                    (self.reader, self.opening) = (Some(reader), None);
                    return Ok(None);
                }
                Err(error) if error.would_block() => return Ok(Some(HaltReason::NoData)),
                Err(error) => return Err(error.into()),
            }
        }
        let Some(file) = self.files.pop_front() else { return Ok(Some(HaltReason::FileEnded)) };
        self.links.next_file();
        match Reader::open(&file) {
            Ok(mut reader) => {
                reader.interruptible();
                if self.in_parts {
                    reader.allow_parts();
                }
                self.reader = Some(reader);
            }
            // The file existed at the start; the counts so far still make a report.
            Err(error) => {
                messages.failure.get_or_insert(error);
            }
        }
        Ok(None)
    }
}

/// The input as a stream, when its reads may block.
fn stream(file: &Path) -> Result<Option<Stream>> {
    if file.as_os_str() == STDIN {
        return Ok(Some(Stream::stdin()?));
    }
    // The file reader reports errors of a file.
    Ok(Stream::open(file).unwrap_or(None))
}

fn display(file: &Path) -> String {
    if file.as_os_str() == STDIN { "standard input".into() } else { file.display().to_string() }
}

/// Refuses a capture when no interface known so far has a supported link type.
fn refuse_unreadable(reader: &Reader) -> Result<()> {
    let interfaces = reader.interfaces();
    let readable = |interface: &Interface| supported(interface.link_type);
    if let Some(first) = interfaces.first()
        && !interfaces.iter().any(readable)
    {
        bail!(
            "{}: link type {} ({}) is not supported; capture on an Ethernet interface (raw IP and Linux \
             cooked captures are supported too)",
            reader.name(),
            link_type_name(first.link_type),
            first.link_type
        );
    }
    Ok(())
}
