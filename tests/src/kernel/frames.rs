//! Converts captures to Ethernet frames, which the kernel programs expect.

use std::path::Path;

use anyhow::{Context as _, Result};
use rocescope::source::capture::{self, Reader, Record};

use crate::capture_file::{ETHERNET, Order, Pcap};
use crate::oracle::craft;

/// One frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Time of capture, Unix nanoseconds.
    pub time_ns: u64,
    /// The captured bytes, from the Ethernet header on.
    pub data: Vec<u8>,
    /// Length on the wire, at least that of `data`.
    pub wire_len: u32,
}

const ETHERNET_LEN: u32 = 14;

/// All frames of a capture. Cooked and raw frames get an Ethernet header instead of their own; `None` if the capture
/// has frames of other link types, which never reach the kernel programs.
pub fn read(path: &Path) -> Result<Option<Vec<Frame>>> {
    let mut reader = Reader::open(path)?;
    let mut frames = Vec::new();
    while let Some(record) = reader.next().with_context(|| path.display().to_string())? {
        match reframed(&record) {
            Some(frame) => frames.push(frame),
            None => return Ok(None),
        }
    }
    Ok(Some(frames))
}

fn reframed(record: &Record<'_>) -> Option<Frame> {
    let Record { ts_ns: time_ns, link_type, wire_len, data, .. } = *record;
    let ethertype = |at: usize| Some(u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?));
    let by_version = |at: usize| if data.get(at).is_some_and(|b| b >> 4 == 6) { 0x86DD } else { 0x0800 };
    let (stripped, ethertype) = match link_type {
        capture::LINKTYPE_EN10MB => return Some(Frame { time_ns, data: data.to_vec(), wire_len }),
        capture::LINKTYPE_RAW
        | capture::LINKTYPE_RAW_BSD
        | capture::LINKTYPE_RAW_OPENBSD
        | capture::LINKTYPE_IPV4
        | capture::LINKTYPE_IPV6 => (0, by_version(0)),
        capture::LINKTYPE_NULL | capture::LINKTYPE_LOOP => (4, by_version(4)),
        capture::LINKTYPE_LINUX_SLL => (16, ethertype(14)?),
        capture::LINKTYPE_LINUX_SLL2 => (20, ethertype(0)?),
        _ => return None,
    };
    let packet = data.get(stripped..)?;
    let wire_len = wire_len - u32::try_from(stripped).ok()? + ETHERNET_LEN;
    Some(Frame { time_ns, data: craft::ethernet(ethertype, packet), wire_len })
}

impl Frame {
    /// The frame at its length on the wire, with zeros for unknown bytes.
    #[must_use]
    pub fn padded(&self) -> Self {
        let mut data = self.data.clone();
        data.resize(data.len().max(self.wire_len as usize), 0);
        Self { data, ..*self }
    }

    /// The frame truncated to at most `most` bytes.
    #[must_use]
    pub fn cut(&self, most: usize) -> Self {
        Self { data: self.data[..self.data.len().min(most)].to_vec(), ..*self }
    }
}

/// The frames as a pcap file.
pub fn pcap(frames: &[Frame]) -> Vec<u8> {
    let mut file = Pcap::new(Order::Little, true, ETHERNET);
    for frame in frames {
        file.start_of_packet(frame.time_ns, &frame.padded().data, frame.data.len());
    }
    file.finish()
}
