//! Traces of fabrics that spread the packets of one queue pair: outer destinations, one for each plane, and packets
//! that a switch trimmed instead of dropping them.
//!
//! Two bytes per flow, and more for flows in tunnels and for those with trimmed packets.

use rocescope_common::wire::Frame;
use rocescope_common::wire::bth::MASK24;
use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::Op;

use super::packet::Packet;
use crate::util::definition::definitions;
use crate::util::map::Map;

/// Outer destinations that are kept of a flow; more count as many.
const MAX_PLANES: usize = 64;

definitions! {
    CHANGED: u32 = 16,
        "Short packets in a row after which the path MTU has changed, and no switch trims",
        "A full queue trims a few packets among others";
}

/// Spreading of flows, by slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BySlot {
    /// Packets that a switch trimmed; flows without any are not in it.
    pub trimmed: Map<u32, u64>,
    /// Outer destinations of flows in IP tunnels.
    pub planes: Map<u32, u64>,
}

/// Collector of the spreading.
#[derive(Debug, Default)]
pub struct Collector {
    /// Largest payload of a FIRST or MIDDLE packet, by slot: the path MTU.
    largest: Vec<u16>,
    trims: Map<u32, Trims>,
    outer: Map<u32, Vec<u64>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Trims {
    count: u64,
    /// The latest ones follow one another.
    row: u32,
    psn: u32,
}

impl Collector {
    /// Takes in one packet, whose headers are `frame` and whose captured bytes are `data`. Returns whether it was
    /// trimmed.
    #[inline]
    pub fn packet(&mut self, packet: &Packet, frame: &Frame, data: &[u8]) -> bool {
        if frame.encap != 0 {
            self.tunnelled(packet.slot, frame, data);
        }
        if packet.payload == UNKNOWN || packet.payload == 0 {
            return false;
        }
        let at = packet.slot as usize;
        if self.largest.len() <= at {
            self.largest.resize(at + 1, 0);
        }
        let Some(largest) = self.largest.get_mut(at) else { return false };
        if packet.wire_len < packet.payload {
            // The headers still have the lengths of the whole packet.
            return self.trimmed(packet);
        }
        let op = Op::of(packet.opcode);
        if op.has(Op::ENDS) || packet.payload == u32::from(*largest) {
            return false;
        }
        if packet.payload > u32::from(*largest) {
            *largest = u16::try_from(packet.payload).unwrap_or(u16::MAX);
            return false;
        }
        self.trimmed(packet)
    }

    #[cold]
    fn trimmed(&mut self, packet: &Packet) -> bool {
        let trims = self.trims.entry(packet.slot).or_default();
        let follows = packet.psn == trims.psn.wrapping_add(1) & MASK24;
        trims.row = if follows { trims.row + 1 } else { 1 };
        trims.psn = packet.psn;
        trims.count += 1;
        if trims.row < CHANGED {
            return true;
        }
        trims.count = trims.count.saturating_sub(trims.row.into());
        trims.row = 0;
        if packet.wire_len >= packet.payload
            && let Some(largest) = self.largest.get_mut(packet.slot as usize)
        {
            *largest = u16::try_from(packet.payload).unwrap_or(u16::MAX);
        }
        false
    }

    /// A packet in a tunnel. Planes of one fabric differ in the outer destination, segment routing included.
    #[cold]
    fn tunnelled(&mut self, slot: u32, frame: &Frame, data: &[u8]) {
        let Some(outer) = outer_destination(data, frame.ip_offset as usize) else { return };
        let seen = self.outer.entry(slot).or_default();
        if !seen.contains(&outer) && seen.len() < MAX_PLANES {
            seen.push(outer);
        }
    }

    /// The flow of a slot was retired.
    pub fn retired(&mut self, slot: u32) {
        if let Some(largest) = self.largest.get_mut(slot as usize) {
            *largest = 0;
        }
        self.trims.remove(&slot);
        self.outer.remove(&slot);
    }

    /// Spreading of flows so far.
    #[must_use]
    pub fn metrics(&self) -> BySlot {
        BySlot {
            trimmed: self
                .trims
                .iter()
                .filter(|(_, trims)| trims.count > 0)
                .map(|(slot, trims)| (*slot, trims.count))
                .collect(),
            planes: self.outer.iter().map(|(slot, seen)| (*slot, seen.len() as u64)).collect(),
        }
    }
}

/// The destination of the outermost IP header of an Ethernet frame, before the inner one at `inner`; its lower half of
/// IPv6, where segments have their identifiers, folded into the upper one.
fn outer_destination(data: &[u8], inner: usize) -> Option<u64> {
    /// Ethertypes of VLAN tags.
    const TAGS: [u16; 2] = [0x8100, 0x88A8];
    let word = |at: usize| Some(u16::from_be_bytes(*data.get(at..)?.first_chunk()?));
    let long = |at: usize| Some(u64::from_be_bytes(*data.get(at..)?.first_chunk()?));
    let mut at = 12;
    while TAGS.contains(&word(at)?) && at < 24 {
        at += 4;
    }
    let ip = at + 2;
    if ip >= inner {
        return None;
    }
    match (word(at)?, data.get(ip)? >> 4) {
        (0x0800, 4) => Some(u64::from(u32::from_be_bytes(*data.get(ip + 16..)?.first_chunk()?))),
        (0x86DD, 6) => Some(long(ip + 24)?.rotate_left(32) ^ long(ip + 32)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RC_RDMA_WRITE_MIDDLE: u8 = 0x07;
    const RC_RDMA_WRITE_LAST: u8 = 0x08;

    fn trimmed(packets: &[(u8, u32, u32, u32)]) -> Option<u64> {
        let mut collector = Collector::default();
        for &(opcode, psn, payload, wire_len) in packets {
            let mut packet = Packet::EMPTY;
            (packet.opcode, packet.psn) = (opcode, psn);
            (packet.payload, packet.wire_len) = (payload, wire_len);
            collector.packet(&packet, &Frame::EMPTY, &[]);
        }
        collector.metrics().trimmed.get(&0).copied()
    }

    #[test]
    fn a_packet_shorter_than_the_path_mtu_was_trimmed() {
        let whole = |psn| (RC_RDMA_WRITE_MIDDLE, psn, 1_024, 1_082);
        assert_eq!(trimmed(&[whole(1), (RC_RDMA_WRITE_LAST, 2, 10, 68)]), None, "the end of a message");
        assert_eq!(trimmed(&[whole(1), (RC_RDMA_WRITE_MIDDLE, 2, 128, 186), whole(3)]), Some(1));
        assert_eq!(
            trimmed(&[whole(1), (RC_RDMA_WRITE_LAST, 2, 1_024, 256)]),
            Some(1),
            "the lengths of the whole"
        );
    }

    #[test]
    fn a_smaller_path_mtu_trims_nothing() {
        let mut packets: Vec<_> = (0..4).map(|psn| (RC_RDMA_WRITE_MIDDLE, psn, 4_096, 4_154)).collect();
        packets.extend((4..64).map(|psn| (RC_RDMA_WRITE_MIDDLE, psn, 1_024, 1_082)));
        assert_eq!(trimmed(&packets), None);
        packets.push((RC_RDMA_WRITE_MIDDLE, 64, 128, 186));
        assert_eq!(trimmed(&packets), Some(1), "of the new one");
    }

    #[test]
    fn planes_are_outer_destinations() {
        let frame = |last: u8| {
            let mut data = vec![0; 14 + 40 + 40];
            data[12..14].copy_from_slice(&[0x86, 0xDD]);
            data[14] = 0x60;
            data[14 + 39] = last;
            data
        };
        let headers = Frame { encap: 1, ip_offset: 54, ..Frame::EMPTY };
        let mut collector = Collector::default();
        for last in [1, 2, 1, 3] {
            collector.packet(&Packet::EMPTY, &headers, &frame(last));
        }
        // Cut anywhere.
        (0..94).for_each(|len| {
            collector.packet(&Packet::EMPTY, &headers, &frame(1)[..len]);
        });
        assert_eq!(collector.metrics().planes.get(&0), Some(&3));
        collector.retired(0);
        assert!(collector.metrics().planes.is_empty());
    }
}
