//! Capture files and streams as a sequence of frames.
//!
//! ```text
//! file or pipe ─ [gzip] ─ window ─┬─ pcap   ─┐
//!                                 └─ pcapng ─┴─ Record (borrowed from the window)
//! ```
//!
//! [`Reader`] recognises pcap and pcapng (plain or gzip) by their first bytes and hands out one
//! [`Record`] at a time, borrowed from its buffer: no copy and no allocation per packet, memory
//! that does not grow with the input, and no delay on a pipe: a record is delivered as soon as its last
//! byte has arrived. It does not interpret frames. A long input may be read, and decompressed, by a thread of
//! its own; records stay the same.
//!
//! All complete records before damage are delivered; then a cut end shows as [`Reader::truncated`] and
//! invalid data as one [`CaptureError::Corrupt`].

mod detect;
mod error;
mod gzip;
mod link_type;
mod part;
mod pcap;
mod pcapng;
mod read_ahead;
mod window;

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

pub use error::{CaptureError, Cut, Truncation};
pub use link_type::*;
pub use part::{Location, Part};

use detect::Magic;
use error::ReadEnd;
use pcap::Pcap;
use pcapng::PcapNg;
use window::Window;

use crate::util::background;

/// One captured frame, borrowed from the reader until the next call of [`Reader::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time of capture, in nanoseconds of Unix time, at the file's own resolution. Times
    /// before 1970 and after 2554 are clamped. A pcapng simple packet has no time: it gets the
    /// latest time of the file (0 before any) and is counted in [`Reader::untimed`].
    pub ts_ns: u64,
    /// Index into [`Reader::interfaces`], counted across all sections.
    pub interface: u32,
    /// LINKTYPE number of the interface (see [`link_type_name`]).
    pub link_type: u16,
    /// Bytes the frame had on the wire, without FCS; never less than `data.len()`.
    pub wire_len: u32,
    /// The captured bytes from the start of the link-layer header, without FCS.
    pub data: &'a [u8],
}

/// An interface of the capture, as far as the capture describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// pcapng `if_name`; `None` for pcap and where there is no name.
    pub name: Option<String>,
    /// LINKTYPE number of its frames.
    pub link_type: u16,
    /// Longest frame the capture keeps, in bytes; 0 means no limit.
    pub snaplen: u32,
    /// Number of the pcapng section that describes it, from 0; always 0 for pcap.
    pub section: u32,
}

/// The two capture formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatKind {
    /// Classic pcap: one interface, one header per packet.
    Pcap,
    /// pcapng: blocks in sections.
    PcapNg,
}

/// The encoding of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Kind of the format: pcap or pcapng.
    pub kind: FormatKind,
    /// True if it is gzip-compressed.
    pub gzip: bool,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            FormatKind::Pcap => "pcap",
            FormatKind::PcapNg => "pcapng",
        };
        write!(f, "{kind}{}", if self.gzip { " (gzip)" } else { "" })
    }
}

/// Records after which an input counts as long; shorter captures are not worth a thread.
const LONG_INPUT: u64 = 8192;
/// Maximum mean length of records, in bytes, for which a plain file is read ahead.
const SHORT_RECORD: u64 = 1024;

/// A frame found in the window: a [`Record`] before it borrows.
struct FoundFrame {
    ts_ns: u64,
    interface: u32,
    link_type: u16,
    wire_len: u32,
    /// Start of the bytes in the window's buffer, and their number.
    start: usize,
    len: usize,
}

enum Decoder {
    Pcap(Pcap),
    PcapNg(PcapNg),
}

/// Reads a capture file or stream record by record.
pub struct Reader {
    name: String,
    window: Window,
    /// The input, if it is a regular file.
    file: Option<Arc<File>>,
    /// True if the caller can supply [parts](Self::give_part).
    in_parts: bool,
    format: Format,
    decoder: Decoder,
    interfaces: Vec<Interface>,
    records: u64,
    truncated: Option<Truncation>,
    ended: bool,
    /// The latest call of `next` paused among input without packets.
    paused: bool,
}

/// A stream whose format is not known yet.
pub struct Opening {
    name: String,
    window: Window,
    gzip: bool,
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Opening {
    /// An opening with nothing read. Messages refer to the stream as `name`.
    pub fn new(name: &str, input: Box<dyn Read + Send>) -> Self {
        Self { name: name.to_owned(), window: Window::new(input), gzip: false }
    }

    /// Lets [`Self::poll`] [block](CaptureError::would_block) now and then where the input goes on without content.
    pub fn interruptible(&mut self) {
        self.window.interruptible = true;
    }

    /// The reader, once the bytes that identify the format have arrived (24 at most).
    ///
    /// # Errors
    /// If the stream fails, is empty, or is not a capture. An input that [would block](CaptureError::would_block)
    /// may be read later.
    pub fn poll(&mut self) -> Result<Reader, CaptureError> {
        let Self { name, window, .. } = self;
        let nothing = || Window::new(Box::new(io::empty()));
        let io_error = |e| error::open_error(name, e);
        let mut magic = detect::magic(window).map_err(io_error)?;
        if magic == Magic::Gzip && !self.gzip {
            *window = Window::gunzip(std::mem::replace(window, nothing()));
            self.gzip = true;
            magic = detect::magic(window).map_err(io_error)?;
        }
        let kind = match magic {
            Magic::Pcap => FormatKind::Pcap,
            Magic::PcapNg => FormatKind::PcapNg,
            Magic::Nothing | Magic::Gzip | Magic::Other => {
                return Err(detect::refuse(name, self.gzip, window));
            }
        };
        let mut interfaces = Vec::new();
        let decoder = match kind {
            FormatKind::Pcap => Decoder::Pcap(Pcap::open(name, window, &mut interfaces)?),
            FormatKind::PcapNg => Decoder::PcapNg(PcapNg::open(name, window)?),
        };
        Ok(Reader {
            name: name.clone(),
            window: std::mem::replace(window, nothing()),
            file: None,
            in_parts: false,
            format: Format { kind, gzip: self.gzip },
            decoder,
            interfaces,
            records: 0,
            truncated: None,
            ended: false,
            paused: false,
        })
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("name", &self.name)
            .field("format", &self.format)
            .field("records", &self.records)
            .field("truncated", &self.truncated)
            .finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens a capture file; compression and format are recognised by content, not by name.
    ///
    /// # Errors
    /// If there is no such file, it may not be read, is a directory, is empty, or is not a capture.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|e| CaptureError::from_io(&name, e))?;
        // Opening a directory succeeds; reading it would fail with EISDIR only.
        if file.metadata().is_ok_and(|m| m.is_dir()) {
            return Err(CaptureError::Directory { name });
        }
        let file = Arc::new(file);
        Ok(Self { file: Some(Arc::clone(&file)), ..Self::from_read(&name, Box::new(file))? })
    }

    /// Reads from any stream. Messages call it `name`.
    ///
    /// Blocks until the bytes that identify the format have arrived (24 at most), not longer.
    ///
    /// # Errors
    /// If the stream fails, is empty, or is not a capture.
    pub fn from_read(name: &str, input: Box<dyn Read + Send>) -> Result<Self, CaptureError> {
        Opening::new(name, input).poll()
    }

    /// Lets [`Self::next`] [block](CaptureError::would_block) now and then where much input holds no packet, so that
    /// the caller can stop.
    pub fn interruptible(&mut self) {
        self.window.interruptible = true;
    }

    /// The next record, or `None` at the end. An end in the middle of a record also gives `None`
    /// and is described by [`Self::truncated`].
    ///
    /// # Errors
    /// [`CaptureError::Corrupt`] or [`CaptureError::Io`], once, after all records before the
    /// damage; later calls give `None`. An input that [would block](CaptureError::would_block)
    /// may be read later.
    #[expect(
        clippy::should_implement_trait,
        reason = "records borrow from the reader, which Iterator cannot express"
    )]
    #[expect(
        clippy::inline_always,
        reason = "as a call, it moves each record through memory: 40 instructions more"
    )]
    #[inline(always)]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        if self.ended {
            return Ok(None);
        }
        let found = match &mut self.decoder {
            Decoder::Pcap(pcap) => pcap.next(&mut self.window),
            Decoder::PcapNg(pcapng) => pcapng.next(&mut self.window, &mut self.interfaces),
        };
        match found {
            Ok(found) => {
                self.records += 1;
                if self.records == LONG_INPUT {
                    self.read_ahead();
                }
                Ok(Some(Record {
                    ts_ns: found.ts_ns,
                    interface: found.interface,
                    link_type: found.link_type,
                    wire_len: found.wire_len,
                    data: self.window.slice(found.start, found.len),
                }))
            }
            Err(stop) => self.halt(stop).map(|()| None),
        }
    }

    /// Handles the end of the readable records.
    #[cold]
    #[inline(never)]
    fn halt(&mut self, stop: ReadEnd) -> Result<(), CaptureError> {
        match stop {
            // No byte of the record was consumed: the next call tries again.
            ReadEnd::Io(source) if source.kind() == io::ErrorKind::WouldBlock => {
                self.paused = false;
                Err(CaptureError::from_io(&self.name, source))
            }
            ReadEnd::Pause => {
                self.paused = true;
                Err(CaptureError::from_io(&self.name, io::ErrorKind::WouldBlock.into()))
            }
            stop => self.stop(stop),
        }
    }

    /// Allows the reader to ask for its input in parts, where that is faster.
    pub fn allow_parts(&mut self) {
        self.in_parts = true;
    }

    /// After an error that [would block](CaptureError::would_block): the location of the part that the caller has to
    /// supply before the next record; `None` when the input has no data.
    pub fn wanted_part(&self) -> Option<Location> {
        self.window.wanted_part().filter(|_| !self.paused)
    }

    /// Supplies the part that is [wanted](Self::wanted_part).
    pub fn give_part(&mut self, part: Part) {
        self.window.give_part(part);
    }

    /// Takes back the buffer that records were borrowed from, for the thread that filled it.
    pub fn reclaim_buffer(&mut self) -> Vec<u8> {
        self.window.reclaim_buffer()
    }

    /// Decides how to read the rest of a long input. A thread that reads ahead pays off if decompression, or the copy
    /// from the page cache, takes about as long as counting. For whole frames the copy takes most of the time, and
    /// two threads share it by reading alternately. The writer of a pipe has read ahead already.
    #[cold]
    fn read_ahead(&mut self) {
        let mean_len = self.window.position() / self.records.max(1);
        if self.window.gzip() || (self.file.is_some() && mean_len <= SHORT_RECORD) {
            self.window.read_ahead();
        } else if let Some(file) = &self.file
            && self.in_parts
            && background::is_there()
        {
            self.window.in_parts(Arc::clone(file));
        }
    }

    /// Converts the end of the input into the caller's view.
    fn stop(&mut self, stop: ReadEnd) -> Result<(), CaptureError> {
        self.ended = true;
        let offset = self.window.position();
        let cut = match stop {
            ReadEnd::Cut { cut, need } => Some((cut, need)),
            ReadEnd::End if self.window.gzip_cut() => Some((Cut::Gzip, None)),
            ReadEnd::End => None,
            ReadEnd::Io(e) if self.format.gzip && error::is_gzip_damage(&e) => {
                return Err(self.corrupt(offset, format!("the gzip data is damaged ({e})")));
            }
            ReadEnd::Pause => return Ok(()),
            ReadEnd::Io(source) => return Err(CaptureError::from_io(&self.name, source)),
            ReadEnd::Corrupt(what) => return Err(self.corrupt(offset, what)),
        };
        self.truncated = cut.map(|(cut, need)| Truncation {
            name: self.name.clone(),
            cut,
            offset,
            have: self.window.available().len() as u64,
            need,
            records: self.records,
            gzip_cut: self.window.gzip_cut(),
        });
        Ok(())
    }

    fn corrupt(&self, offset: u64, what: String) -> CaptureError {
        CaptureError::Corrupt { name: self.name.clone(), offset, what, records: self.records }
    }

    /// The name of this input in messages: the path, or the name given to [`Self::from_read`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interfaces described so far; pcap has exactly one, pcapng may add some at any time.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The encoding of an input.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Packets dropped during the capture, as the input read so far reports; `None` when it does not (pcap never
    /// does).
    ///
    /// Per interface the latest `isb_ifdrop`, or `isb_osdrop` where that is all, summed over
    /// interfaces. Without any of them, the losses noted packet by packet.
    pub fn capture_drops(&self) -> Option<u64> {
        match &self.decoder {
            Decoder::Pcap(_) => None,
            Decoder::PcapNg(pcapng) => pcapng.drops(),
        }
    }

    /// Set once the input has ended inside a record or block; all complete records were delivered.
    pub fn truncated(&self) -> Option<&Truncation> {
        self.truncated.as_ref()
    }

    /// Records delivered so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Records delivered so far that have no timestamp (pcapng simple packets).
    pub fn untimed(&self) -> u64 {
        match &self.decoder {
            Decoder::Pcap(_) => 0,
            Decoder::PcapNg(pcapng) => pcapng.untimed(),
        }
    }
}

/// Lengths on the wire and in the capture, in that order, without `fcs` trailing bytes.
///
/// The frame had at least the bytes that were captured, whatever its length field says.
#[inline]
fn without_fcs(wire_len: u32, caplen: u32, fcs: u32) -> (u32, u32) {
    let wire_len = wire_len.max(caplen).saturating_sub(fcs);
    (wire_len, caplen.min(wire_len))
}

impl From<io::Error> for ReadEnd {
    fn from(e: io::Error) -> Self {
        ReadEnd::Io(e)
    }
}
