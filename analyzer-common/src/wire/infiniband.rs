//! The InfiniBand link layer: ERF records and the local route header (LRH).
//!
//! LRH, 8 bytes, from the InfiniBand Architecture Specification, volume 1, as in `include/rdma/ib_pack.h` of Linux:
//!
//! ```text
//!  0    4    8    12 14 16               31
//! | VL |LVer| SL |rsv|LNH| destination LID |
//! | reserved | length, words | source LID  |
//! ```

use super::bth::{self, ICRC_LEN};
use super::bytes::Bytes;
use super::frame::{ECT0, Entry, FAMILY_LID, GRH_LEN, PCP_NONE, UNKNOWN, VLAN_UNKNOWN, Walk, grh, transport};
use super::layer::{Layer, Trace};
use super::opcode::CNP;
use super::skip_reason::SkipReason;

const LRH_LEN: usize = 8;
/// Virtual lane of subnet management.
const VL_MANAGEMENT: u8 = 15;
/// Next header: BTH.
const LNH_LOCAL: u8 = 2;
/// Next header: GRH, then BTH.
const LNH_GLOBAL: u8 = 3;
/// Opcode of CNPs, which are counted under that of RoCEv2.
const CNP_INFINIBAND: u8 = 0x80;
/// FECN in the fifth byte of the BTH: a switch saw congestion.
const FECN: u8 = 0x80;
/// BECN there: the destination of the other direction saw FECN.
const BECN: u8 = 0x40;
/// Bit of [`super::Frame::tos`] of an InfiniBand packet with BECN.
pub const TOS_BECN: u8 = 1 << 2;

/// Service level and virtual lane of an InfiniBand packet, in the place of an inner VLAN id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Service level (SL), 0 to 15: chosen by the sender.
    pub service_level: u8,
    /// Virtual lane (VL) of this hop, 0 to 14.
    pub virtual_lane: u8,
}

impl Lane {
    /// No VLAN id has this bit.
    const MARK: u16 = 1 << 14;

    /// As [`super::Frame::inner_vlan`].
    #[inline(always)]
    pub const fn inner_vlan(self) -> u16 {
        Self::MARK | (self.service_level as u16) << 4 | self.virtual_lane as u16
    }

    /// The lane in [`super::Frame::inner_vlan`] of an InfiniBand packet.
    pub const fn of(inner_vlan: u16) -> Self {
        Self { service_level: (inner_vlan >> 4 & 15) as u8, virtual_lane: (inner_vlan & 15) as u8 }
    }
}

/// Offset of the LRH in an ERF record (LINKTYPE 197), and the length of the packet from there on the wire.
///
/// # Errors
/// [`SkipReason::TruncatedHeaders`]; [`SkipReason::LinkTypeUnsupported`] for ERF types other than InfiniBand.
pub fn erf(bytes: &impl Bytes) -> Result<(usize, u32), SkipReason> {
    const HEADER: usize = 16;
    const EXTENSION: usize = 8;
    const MORE: u8 = 0x80;
    const TYPE_INFINIBAND: u8 = 21;
    /// Records have few extension headers; a chain that does not end is damage.
    const MAX_EXTENSIONS: usize = 16;
    let head = bytes.get::<HEADER>(0).ok_or(SkipReason::TruncatedHeaders)?;
    if head[8] & !MORE != TYPE_INFINIBAND {
        return Err(SkipReason::LinkTypeUnsupported);
    }
    let (mut at, mut more) = (HEADER, head[8] & MORE != 0);
    for _ in 0..MAX_EXTENSIONS {
        if !more {
            return Ok((at, u32::from(u16::from_be_bytes([head[14], head[15]]))));
        }
        let [kind] = bytes.get::<1>(at).ok_or(SkipReason::TruncatedHeaders)?;
        more = kind & MORE != 0;
        at += EXTENSION;
    }
    Err(SkipReason::Malformed)
}

/// Parses a packet from its LRH.
#[inline]
pub(super) fn parse(
    bytes: &impl Bytes,
    walk: &mut Walk<'_>,
    trace: &mut impl Trace,
) -> Result<Entry, SkipReason> {
    let at = walk.offset;
    let h = bytes.get::<LRH_LEN>(at).ok_or(SkipReason::TruncatedHeaders)?;
    trace.layer(Layer::Lrh, at);
    let lane = Lane { service_level: h[1] >> 4, virtual_lane: h[0] >> 4 };
    if lane.virtual_lane == VL_MANAGEMENT {
        return Err(SkipReason::InfinibandManagement);
    }
    // The length, in words of four bytes, reaches from the LRH to the ICRC.
    let len = u32::from(u16::from_be_bytes([h[4], h[5]]) & 0x7FF) * 4;
    let frame = &mut *walk.frame;
    let headers = match h[1] & 3 {
        LNH_LOCAL => {
            frame.family = FAMILY_LID;
            frame.src = [0, 0, 0, u32::from_ne_bytes([0, 0, h[6], h[7]])];
            frame.dst = [0, 0, 0, u32::from_ne_bytes([0, 0, h[2], h[3]])];
            frame.ip_offset = at as u32;
            LRH_LEN
        }
        LNH_GLOBAL => {
            grh(bytes, at + LRH_LEN, frame, trace)?;
            LRH_LEN + GRH_LEN
        }
        _ => return Err(SkipReason::InfinibandRaw),
    };
    if len < headers as u32 + bth::LEN as u32 + ICRC_LEN {
        return Err(SkipReason::Malformed);
    }
    let fits = len <= frame.wire_len;
    if fits {
        // Without the VCRC, which each hop computes anew.
        frame.wire_len = len;
    }
    frame.roce_version = 0;
    frame.vlan = VLAN_UNKNOWN;
    frame.inner_vlan = lane.inner_vlan();
    frame.pcp = PCP_NONE;
    frame.src_port = 0;
    frame.inner_bytes = 0;
    let transport_len = if fits { len - headers as u32 } else { UNKNOWN };
    transport(bytes, at + headers, transport_len, frame, trace)?;
    if frame.opcode == CNP_INFINIBAND {
        (frame.opcode, frame.payload) = (CNP, 0);
    }
    let [marks] = bytes.get::<1>(at + headers + 4).ok_or(SkipReason::Truncated)?;
    // Switches may mark every packet: FECN is CE, and a packet without it is ECN-capable.
    let mark = if marks & FECN == 0 { ECT0 } else { ECT0 | 1 };
    frame.tos = mark | if marks & BECN == 0 { 0 } else { TOS_BECN };
    Ok(Entry::DONE)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use super::super::frame::{Full, Meta, Tag};
    use super::super::{Frame, parse};
    use super::*;

    /// LRH of a lane and a length in bytes, and what follows it.
    fn packet(lane: Lane, next: u8, len: u16, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![lane.virtual_lane << 4, lane.service_level << 4 | next, 0x00, 0x11];
        packet.extend((len / 4).to_be_bytes());
        packet.extend([0x01, 0x02]);
        packet.extend(rest);
        packet
    }

    /// BTH of an ACK with these marks, AETH, ICRC and VCRC.
    fn ack(marks: u8) -> Vec<u8> {
        let mut ack = vec![0x11, 0, 0xFF, 0xFF, marks, 0, 1, 0x18, 0, 0, 0, 7];
        ack.extend([0x1F, 0, 0, 3]);
        ack.extend([0; 6]);
        ack
    }

    fn read(bytes: &[u8]) -> Result<Frame, SkipReason> {
        let meta = Meta { entry: Entry::LRH, offset: 0, wire_len: bytes.len() as u32, tag: Tag::NONE };
        parse::<Full>(&bytes, meta, &mut ())
    }

    const LANE: Lane = Lane { service_level: 9, virtual_lane: 3 };

    #[test]
    fn local_and_global_packets_give_lids_and_gids() {
        let frame = read(&packet(LANE, LNH_LOCAL, 28, &ack(BECN))).unwrap();
        assert_eq!((frame.family, frame.roce_version, frame.wire_len), (FAMILY_LID, 0, 28));
        assert_eq!(frame.src.map(u32::from_be), [0, 0, 0, 0x0102]);
        assert_eq!(frame.dst.map(u32::from_be), [0, 0, 0, 0x0011]);
        assert_eq!((frame.dest_qp, frame.psn, frame.payload, frame.icrc_offset), (0x118, 7, 0, 24));
        assert_eq!((frame.tos, Lane::of(frame.inner_vlan)), (ECT0 | TOS_BECN, LANE));

        let mut rest = vec![0x60, 0, 0, 0, 0, 20, 0x1B, 64];
        rest.extend([[0xFE; 16], [0xFD; 16]].concat());
        rest.extend(ack(FECN));
        let frame = read(&packet(LANE, LNH_GLOBAL, 68, &rest)).unwrap();
        assert_eq!((frame.family, frame.src[0], frame.dst[0]), (6, 0xFEFE_FEFE, 0xFDFD_FDFD));
        assert_eq!((frame.tos, frame.ip_offset, frame.bth_offset, frame.icrc_offset), (3, 8, 48, 64));
    }

    #[test]
    fn packets_that_are_not_counted_say_why() {
        let management = Lane { virtual_lane: VL_MANAGEMENT, ..LANE };
        assert_eq!(read(&packet(management, LNH_LOCAL, 28, &ack(0))), Err(SkipReason::InfinibandManagement));
        assert_eq!(read(&packet(LANE, 1, 28, &ack(0))), Err(SkipReason::InfinibandRaw));
        assert_eq!(read(&packet(LANE, LNH_LOCAL, 20, &ack(0))), Err(SkipReason::Malformed));
        let whole = packet(LANE, LNH_LOCAL, 28, &ack(0));
        for len in 0..whole.len() {
            let expected = match len {
                0..8 => Some(SkipReason::TruncatedHeaders),
                8..20 => Some(SkipReason::Truncated),
                _ => None,
            };
            assert_eq!(read(&whole[..len]).err(), expected, "cut to {len}");
        }
        // A length beyond the packet gives neither payload nor ICRC.
        let frame = read(&packet(LANE, LNH_LOCAL, 2_000, &ack(0))).unwrap();
        assert_eq!((frame.icrc_offset, frame.wire_len), (UNKNOWN, 30));
    }

    #[test]
    fn records_have_extension_headers_and_a_length() {
        let mut record = vec![0; 16];
        (record[8], record[15]) = (21, 30);
        assert_eq!(erf(&&record[..]), Ok((16, 30)));
        assert_eq!(erf(&&record[..15]), Err(SkipReason::TruncatedHeaders));
        record[8] |= 0x80;
        assert_eq!(erf(&&record[..]), Err(SkipReason::TruncatedHeaders));
        record.extend([0x83, 0, 0, 0, 0, 0, 0, 0, 0x03, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(erf(&&record[..]), Ok((32, 30)));
        assert_eq!(erf(&&[0x82; 400][..]), Err(SkipReason::LinkTypeUnsupported));
        assert_eq!(erf(&&[0x95; 400][..]), Err(SkipReason::Malformed), "a chain without an end");
    }
}
