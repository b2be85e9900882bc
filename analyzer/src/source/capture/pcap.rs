//! Classic pcap: a file header, then a header and the bytes of each packet.
//!
//! Parsed by hand: a record header is four integers, and a replay spends its reading time in this loop.

use super::error::{CaptureError, Cut, ReadEnd};
use super::window::{MAX_RECORD, Window};
use super::{FoundFrame, Interface, without_fcs};

use crate::util::time::NS_PER_S;

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// Snap length that libpcap uses for "whole packets". Some writers store more than the header's own snap length, so
/// records up to this are accepted in any file.
const USUAL_SNAPLEN: u32 = 262_144;

/// Bit of the link-type field: the four bits above it hold the FCS length, in 16-bit words.
const FCS_PRESENT: u32 = 0x0400_0000;

/// The variant of a file, from its first four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Magic {
    big_endian: bool,
    /// Nanoseconds in the unit of a record's second time field.
    unit: u64,
    record_header: usize,
}

impl Magic {
    pub(super) fn from_bytes(first: [u8; 4]) -> Option<Self> {
        let le = Self::from_number(u32::from_le_bytes(first), false);
        le.or_else(|| Self::from_number(u32::from_be_bytes(first), true))
    }

    fn from_number(magic: u32, big_endian: bool) -> Option<Self> {
        let (unit, record_header) = match magic {
            0xa1b2_c3d4 => (1000, RECORD_HEADER),
            0xa1b2_3c4d => (1, RECORD_HEADER),
            // "Modified" pcap of old Linux libpcap patches: interface index, protocol and packet
            // type follow each record header.
            0xa1b2_cd34 => (1000, RECORD_HEADER + 8),
            _ => return None,
        };
        Some(Self { big_endian, unit, record_header })
    }

    #[inline]
    fn u32(self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

/// Reads the records of a classic pcap.
pub(super) struct Pcap {
    magic: Magic,
    first_bytes: [u8; 4],
    /// Before version 2.3 a record had its wire length before its captured length.
    wire_len_first: bool,
    link_type: u16,
    fcs: u32,
    max_caplen: u32,
}

impl Pcap {
    /// Reads the file header, whose first four bytes are known to be a pcap magic.
    pub(super) fn open(
        name: &str,
        window: &mut Window,
        interfaces: &mut Vec<Interface>,
    ) -> Result<Self, CaptureError> {
        let complete = window.ensure(FILE_HEADER).map_err(|e| super::error::open_error(name, e))?;
        let head = window.available();
        let cut = || CaptureError::HeaderCut { name: name.to_owned(), have: head.len(), format: "pcap" };
        let (true, Some(head)) = (complete, head.first_chunk::<FILE_HEADER>()) else {
            return Err(cut());
        };
        let first_bytes = [head[0], head[1], head[2], head[3]];
        let magic = Magic::from_bytes(first_bytes).ok_or_else(cut)?;
        let word = |at: usize| magic.u32([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        // Two 16-bit numbers in one word; the major version comes first.
        let versions = word(4);
        let (major, minor) = if magic.big_endian {
            (versions >> 16, versions & 0xffff)
        } else {
            (versions & 0xffff, versions >> 16)
        };
        if major != 2 {
            return Err(CaptureError::Unsupported {
                name: name.to_owned(),
                what: format!("pcap version {major}.{minor} is not known (2.4 is usual)"),
            });
        }
        let snaplen = word(16);
        let network = word(20);
        let fcs = if network & FCS_PRESENT == 0 { 0 } else { (network >> 28) * 2 };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low half is the link type, the rest was looked at above"
        )]
        let link_type = network as u16;
        window.consume(FILE_HEADER);
        interfaces.push(Interface { name: None, link_type, snaplen, section: 0 });
        Ok(Self {
            magic,
            first_bytes,
            wire_len_first: minor < 3,
            link_type,
            fcs,
            max_caplen: snaplen.clamp(USUAL_SNAPLEN, MAX_RECORD),
        })
    }

    #[expect(clippy::inline_always, reason = "see the reader's")]
    #[inline(always)]
    pub(super) fn next(&mut self, window: &mut Window) -> Result<FoundFrame, ReadEnd> {
        let header_len = self.magic.record_header;
        if !window.ensure(header_len)? {
            return Err(header_cut(window, header_len));
        }
        let Some(head) = window.available().first_chunk::<RECORD_HEADER>() else {
            return Err(header_cut(window, header_len));
        };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let mut words = [word(0), word(4), word(8), word(12)];
        if self.magic.big_endian {
            words = words.map(u32::swap_bytes);
        }
        let [seconds, fraction, mut caplen, mut wire_len] = words;
        if self.wire_len_first {
            std::mem::swap(&mut caplen, &mut wire_len);
        }
        if caplen > self.max_caplen {
            return Err(self.too_long(caplen));
        }
        if caplen | wire_len == 0 && head[..4] == self.first_bytes {
            return Err(concatenated());
        }
        let record_len = header_len + caplen as usize;
        if !window.ensure(record_len)? {
            return Err(ReadEnd::Cut { cut: Cut::Record, need: Some(record_len as u64) });
        }
        let (wire_len, len) = without_fcs(wire_len, caplen, self.fcs);
        Ok(FoundFrame {
            ts_ns: u64::from(seconds) * NS_PER_S + u64::from(fraction) * self.magic.unit,
            interface: 0,
            link_type: self.link_type,
            wire_len,
            start: window.consume(record_len) + header_len,
            len: len as usize,
        })
    }

    #[cold]
    fn too_long(&self, caplen: u32) -> ReadEnd {
        ReadEnd::Corrupt(format!(
            "a packet record claims {caplen} captured bytes, more than the {} possible here",
            self.max_caplen
        ))
    }
}

#[cold]
fn header_cut(window: &Window, need: usize) -> ReadEnd {
    if window.available().is_empty() {
        return ReadEnd::End;
    }
    ReadEnd::Cut { cut: Cut::RecordHeader, need: Some(need as u64) }
}

/// A second file header read as a record: no time, no length, but the magic number.
#[cold]
fn concatenated() -> ReadEnd {
    ReadEnd::Corrupt(
        "another pcap file header: files were joined with `cat` (join them with `mergecap -a` \
         instead)"
            .to_owned(),
    )
}
