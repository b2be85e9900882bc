//! The headers of the latest frame: most frames only continue its message.
//!
//! In the middle of a message, packets that come directly one behind the other have the same headers but for PSN, IPv4
//! identification and checksums. These need no parser and no lookup of their flow.

use rocescope_common::wire::Frame;
use rocescope_common::wire::bth::{self, MASK24};
use rocescope_common::wire::frame::{CE, UNKNOWN};
use rocescope_common::wire::opcode::Op;

/// Bytes that are compared: up to the BTH behind IPv6 with a tag.
const COMPARED: usize = 80;
/// Masks that are kept: flows with and without a tag, of both families, take turns.
const MASKS: usize = 4;

/// Offsets of IP header and BTH, and the family.
type Layout = (u32, u32, u8);

/// The latest frame, as far as the next one may continue it.
#[derive(Debug)]
pub struct Latest {
    /// Its headers. Where a frame has continued it, with the PSN of that one.
    pub(super) frame: Frame,
    /// Its link, and the slot of its flow.
    pub(super) link: u16,
    pub(super) slot: u32,
    interface: u32,
    time_ns: u64,
    /// Captured bytes; 0 where no frame may continue it.
    len: usize,
    bytes: [u8; COMPARED],
    /// Ones where these have to be the same.
    mask: [u8; COMPARED],
    /// The layout that the mask is for.
    mask_of: Layout,
    /// Masks of other layouts, which take turns in their places.
    masks: [(Layout, [u8; COMPARED]); MASKS],
}

impl Default for Latest {
    fn default() -> Self {
        Self {
            frame: Frame::EMPTY,
            link: 0,
            slot: 0,
            interface: 0,
            time_ns: 0,
            len: 0,
            bytes: [0; COMPARED],
            mask: [0; COMPARED],
            mask_of: (0, 0, 0),
            masks: [((0, 0, 0), [0; COMPARED]); MASKS],
        }
    }
}

impl Latest {
    /// True if a frame continues the message of this one, which takes its place then.
    #[inline]
    pub(super) fn is_continued_by(
        &mut self,
        (interface, time_ns): (u32, u64),
        (wire_len, data): (u32, &[u8]),
    ) -> bool {
        if data.len() != self.len
            || wire_len != self.frame.wire_len
            || interface != self.interface
            || time_ns < self.time_ns
        {
            return false;
        }
        let Some(bytes) = data.first_chunk::<COMPARED>() else { return false };
        // Without a branch, so that the compiler compares many at once.
        let pairs = bytes.iter().zip(&self.bytes).zip(&self.mask);
        let differ = pairs.fold(0, |differ, ((byte, before), mask)| differ | (byte ^ before) & mask);
        let psn = self.frame.psn.wrapping_add(1) & MASK24;
        if differ != 0 || psn_at(data, self.frame.bth_offset as usize) != Some(psn) {
            return false;
        }
        (self.frame.psn, self.time_ns) = (psn, time_ns);
        true
    }

    /// The place for the headers of another frame, which none may continue unless it is [kept](Self::keep).
    #[inline]
    pub(super) fn replace(&mut self) -> &mut Frame {
        self.len = 0;
        &mut self.frame
    }

    /// Another frame is the latest; its headers are in their place, and counting it left nothing to do.
    #[inline]
    pub(super) fn keep(&mut self, (interface, time_ns): (u32, u64), (link, slot): (u16, u32), data: &[u8]) {
        let frame = &self.frame;
        let op = Op::of(frame.opcode);
        let in_the_middle = op.any(Op::REQUEST | Op::RESPONSE) && !op.any(Op::STARTS | Op::ENDS);
        let plain = frame.roce_version == 2 && frame.encap == 0 && !frame.ack_req && frame.tos & CE != CE;
        let end = frame.bth_offset as usize + bth::LEN;
        let Some(bytes) = data.first_chunk::<COMPARED>().filter(|_| end <= COMPARED) else { return };
        if !in_the_middle || !plain || frame.payload == UNKNOWN {
            return;
        }
        let mask_of = (frame.ip_offset, frame.bth_offset, frame.family);
        if self.mask_of != mask_of {
            self.change_mask(mask_of);
        }
        (self.interface, self.time_ns, self.link, self.slot) = (interface, time_ns, link, slot);
        (self.bytes, self.len) = (*bytes, data.len());
    }

    /// Takes the mask of another layout.
    fn change_mask(&mut self, of: Layout) {
        let known = self.masks.iter().find(|(layout, _)| *layout == of).map(|(_, mask)| *mask);
        self.mask_of = of;
        self.mask = known.unwrap_or_else(|| {
            self.masks.rotate_right(1);
            self.masks[0] = (of, mask(of));
            self.masks[0].1
        });
    }
}

/// Ones for the bytes up to the BTH that are the same in all packets of a message.
#[inline(never)]
fn mask((ip, bth, family): Layout) -> [u8; COMPARED] {
    let (ip, bth) = (ip as usize, bth as usize);
    let mut mask = [0; COMPARED];
    let mut set = |from: usize, len: usize, to: u8| {
        if let Some(bytes) = mask.get_mut(from..from + len) {
            bytes.fill(to);
        }
    };
    set(0, bth + bth::LEN, u8::MAX);
    // The PSN, and the checksum of UDP.
    set(bth + 9, 3, 0);
    set(bth.saturating_sub(2), 2, 0);
    if family == 4 {
        // Identification and checksum.
        set(ip + 4, 2, 0);
        set(ip + 10, 2, 0);
    }
    mask
}

/// The PSN of a BTH at this offset.
#[inline]
fn psn_at(data: &[u8], bth: usize) -> Option<u32> {
    let word = data.get(bth + 8..)?.first_chunk()?;
    Some(u32::from_be_bytes(*word) & MASK24)
}

#[cfg(test)]
#[path = "latest_tests.rs"]
mod tests;
