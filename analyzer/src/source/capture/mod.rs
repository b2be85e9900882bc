//! Capture files and streams as a sequence of frames.
//!
//! ```text
//! file or pipe ─ [gzip] ─ window ─┬─ pcap   ─┐
//!                                 └─ pcapng ─┴─ Record (borrowed from the window)
//! ```
//!
//! [`Reader`] recognises pcap and pcapng (plain or gzip) by their first bytes and hands out one
//! [`Record`] at a time, borrowed from its buffer: no copy and no allocation per packet, memory
//! that does not grow with the input, and nothing held back on a pipe: a record is delivered as
//! soon as its last byte is there. It knows nothing about what is inside a frame. A long
//! input may be read, and decompressed, by a thread of its own; records stay the same.
//!
//! Damage never costs what came before it: all complete records are delivered first, then a cut
//! end shows as [`Reader::truncated`] and nonsense as one [`CaptureError::Corrupt`].

mod ahead;
mod detect;
mod error;
mod gzip;
mod link_type;
mod part;
mod pcap;
mod pcapng;
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
use error::Stop;
use pcap::Pcap;
use pcapng::PcapNg;
use window::Window;

use crate::util::background;

/// One captured frame, borrowed from the reader until the next call of [`Reader::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When the frame was seen, in nanoseconds of Unix time, at the file's own resolution. Times
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

/// An interface frames were captured on, as far as the capture describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// pcapng `if_name`; `None` for pcap and where the writer gave no name.
    pub name: Option<String>,
    /// LINKTYPE number of its frames.
    pub link_type: u16,
    /// Longest frame the capture keeps, in bytes; 0 means no limit.
    pub snaplen: u32,
    /// Which pcapng section describes it, from 0; always 0 for pcap.
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

/// How the input is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// pcap or pcapng.
    pub kind: FormatKind,
    /// Whether it arrived gzip-compressed.
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

/// Records after which an input counts as long: most captures in tests, and many in life, end before.
const LONG: u64 = 8192;
/// Mean length of records, in bytes, up to which a plain file is read ahead.
const SHORT: u64 = 1024;

/// A frame found in the window: a [`Record`] before it borrows.
struct Found {
    ts_ns: u64,
    interface: u32,
    link_type: u16,
    wire_len: u32,
    /// Where the bytes start in the window's buffer, and how many they are.
    start: usize,
    len: usize,
}

enum State {
    Pcap(Pcap),
    PcapNg(PcapNg),
}

/// Reads a capture file or stream record by record.
pub struct Reader {
    name: String,
    window: Window,
    /// The file, where it is one, whose bytes are all there already.
    file: Option<Arc<File>>,
    /// Whether somebody gives [parts](Self::give_part), should they be wanted.
    in_parts: bool,
    format: Format,
    state: State,
    interfaces: Vec<Interface>,
    records: u64,
    truncated: Option<Truncation>,
    ended: bool,
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
    /// When there is no such file, it may not be read, is a directory, is empty, or is no capture.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|e| CaptureError::from_io(&name, e))?;
        // Opening a directory succeeds; reading it would only say EISDIR.
        if file.metadata().is_ok_and(|m| m.is_dir()) {
            return Err(CaptureError::Directory { name });
        }
        let file = Arc::new(file);
        Ok(Self { file: Some(Arc::clone(&file)), ..Self::from_read(&name, Box::new(file))? })
    }

    /// Reads from any stream, for example standard input. `name` is what messages call it.
    ///
    /// Blocks until the first bytes that tell the format are there (24 at most), not longer.
    ///
    /// # Errors
    /// When the stream fails, is empty, or is no capture.
    pub fn from_read(name: &str, input: Box<dyn Read + Send>) -> Result<Self, CaptureError> {
        let io_error = |e| CaptureError::from_io(name, e);
        let mut window = Window::new(input);
        let mut magic = detect::magic(&mut window).map_err(io_error)?;
        let gzip = magic == Magic::Gzip;
        if gzip {
            window = Window::gunzip(window);
            magic = detect::magic(&mut window).map_err(|e| error::open_error(name, e))?;
        }
        let kind = match magic {
            Magic::Pcap => FormatKind::Pcap,
            Magic::PcapNg => FormatKind::PcapNg,
            Magic::Nothing | Magic::Gzip | Magic::Other => {
                return Err(detect::refuse(name, gzip, &window));
            }
        };
        let mut interfaces = Vec::new();
        let state = match kind {
            FormatKind::Pcap => State::Pcap(Pcap::open(name, &mut window, &mut interfaces)?),
            FormatKind::PcapNg => State::PcapNg(PcapNg::open(name, &mut window)?),
        };
        Ok(Self {
            name: name.to_owned(),
            window,
            file: None,
            in_parts: false,
            format: Format { kind, gzip },
            state,
            interfaces,
            records: 0,
            truncated: None,
            ended: false,
        })
    }

    /// The next record, or `None` at the end. An end in the middle of a record also gives `None`
    /// and is described by [`Self::truncated`].
    ///
    /// # Errors
    /// [`CaptureError::Corrupt`] or [`CaptureError::Io`], once, after all records before the
    /// damage; later calls give `None`. An input that [would block](CaptureError::would_block)
    /// may be asked again.
    #[expect(
        clippy::should_implement_trait,
        reason = "records borrow from the reader, which Iterator cannot express"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        if self.ended {
            return Ok(None);
        }
        let found = match &mut self.state {
            State::Pcap(pcap) => pcap.next(&mut self.window),
            State::PcapNg(pcapng) => pcapng.next(&mut self.window, &mut self.interfaces),
        };
        match found {
            Ok(found) => {
                self.records += 1;
                if self.records == LONG {
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
            // Nothing was consumed of the record: the next call tries again.
            Err(Stop::Io(source)) if source.kind() == io::ErrorKind::WouldBlock => {
                Err(CaptureError::from_io(&self.name, source))
            }
            Err(stop) => self.stop(stop).map(|()| None),
        }
    }

    /// Allows the reader to want its input in parts, when it finds that worth its while.
    pub fn allow_parts(&mut self) {
        self.in_parts = true;
    }

    /// After an error that says it [would block](CaptureError::would_block): the part of the file that the reader has to be
    /// given before it can go on; `None` when it waits for its input.
    #[must_use]
    pub fn wanted_part(&self) -> Option<Location> {
        self.window.wanted_part()
    }

    /// Gives what was read at the place that is [wanted](Self::wanted_part).
    pub fn give_part(&mut self, part: Part) {
        self.window.give_part(part);
    }

    /// Gives the buffer back that records were borrowed from, to whom its bytes are near.
    pub fn reclaim_buffer(&mut self) -> Vec<u8> {
        self.window.reclaim_buffer()
    }

    /// Decides how a long input is read on. A thread that reads ahead is worth its while when decompressing takes as long
    /// as counting, or copying from the page cache does. Of large frames the copy is nearly everything, and two
    /// threads share it by taking turns; what comes through a pipe was read ahead by whoever writes it.
    #[cold]
    fn read_ahead(&mut self) {
        let mean_len = self.window.position() / self.records.max(1);
        if self.window.gzip() || (self.file.is_some() && mean_len <= SHORT) {
            self.window.read_ahead();
        } else if let Some(file) = &self.file
            && self.in_parts
            && background::is_there()
        {
            self.window.in_parts(Arc::clone(file));
        }
    }

    /// Turns the reason the input stopped into what the caller sees of it.
    #[cold]
    fn stop(&mut self, stop: Stop) -> Result<(), CaptureError> {
        self.ended = true;
        let offset = self.window.position();
        let cut = match stop {
            Stop::Cut { cut, need } => Some((cut, need)),
            Stop::End if self.window.gzip_cut() => Some((Cut::Gzip, None)),
            Stop::End => None,
            Stop::Io(e) if self.format.gzip && error::is_gzip_damage(&e) => {
                return Err(self.corrupt(offset, format!("the gzip data is damaged ({e})")));
            }
            Stop::Io(source) => return Err(CaptureError::from_io(&self.name, source)),
            Stop::Corrupt(what) => return Err(self.corrupt(offset, what)),
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

    /// What messages call this input: the path, or the name given to [`Self::from_read`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interfaces described so far; pcap has exactly one, pcapng may add some at any time.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// How the input is encoded.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Packets the capture itself says it lost, as far as read; `None` when it says nothing
    /// (pcap never does).
    ///
    /// Per interface the latest `isb_ifdrop`, or `isb_osdrop` where that is all, summed over
    /// interfaces. Without any of them, the losses noted packet by packet.
    #[must_use]
    pub fn capture_drops(&self) -> Option<u64> {
        match &self.state {
            State::Pcap(_) => None,
            State::PcapNg(pcapng) => pcapng.drops(),
        }
    }

    /// Set once the input turned out to end in the middle of something; all complete records
    /// were delivered.
    #[must_use]
    pub fn truncated(&self) -> Option<&Truncation> {
        self.truncated.as_ref()
    }

    /// Records delivered so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Records delivered so far that carry no time of their own (pcapng simple packets).
    #[must_use]
    pub fn untimed(&self) -> u64 {
        match &self.state {
            State::Pcap(_) => 0,
            State::PcapNg(pcapng) => pcapng.untimed(),
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

impl From<io::Error> for Stop {
    fn from(e: io::Error) -> Self {
        Stop::Io(e)
    }
}
