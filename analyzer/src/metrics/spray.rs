//! Traces of fabrics that spread the packets of one queue pair: outer destinations, one for each plane, and packets
//! that a switch trimmed instead of dropping them.
//!
//! Of a packet in the middle of a message the path MTU gives the length. Of the last packet of a WRITE the RETH of its
//! first one gives it. That of a SEND or READ response is not known: it was trimmed if it has the DSCP of packets that
//! certainly were, and its flow has another.
//!
//! 12 bytes per flow, and more for flows in tunnels and for those with trimmed packets.

use rocescope_common::wire::Frame;
use rocescope_common::wire::bth::{HALF24, MASK24, psn_distance};
use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::{Op, Operation};

use super::packet::Packet;
use crate::util::definition::definitions;
use crate::util::map::Map;

/// Outer destinations that are kept of a flow; more count as many.
const MAX_PLANES: usize = 64;
/// The largest path MTU.
const MAX_MTU: u32 = 4_096;

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
    flows: Vec<OpenMessage>,
    /// The latest packet that was certainly trimmed, if its DSCP is not that of its flow.
    mark: Option<Mark>,
    trims: Map<u32, Trims>,
    outer: Map<u32, Vec<u64>>,
}

/// A flow and its latest message.
#[derive(Clone, Copy, Debug, Default)]
struct OpenMessage {
    /// First PSN and DMA length of the latest WRITE.
    first: u32,
    length: u32,
    /// Largest payload of a FIRST or MIDDLE packet: the path MTU.
    largest: u16,
    /// DSCP of the latest of these.
    dscp: u8,
}

/// DSCP by which a switch marks packets that it trims.
#[derive(Clone, Copy, Debug)]
struct Mark {
    dscp: u8,
    wire_len: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Trims {
    count: u64,
    /// The latest ones follow one another.
    row: u32,
    psn: u32,
}

impl OpenMessage {
    /// A WRITE begins; a retransmission of one does not replace a later one.
    fn begin(&mut self, packet: &Packet) {
        let ahead = psn_distance(self.first, packet.psn);
        if !packet.outcome.duplicate_psn || ahead < HALF24 {
            (self.first, self.length) = (packet.psn, packet.dma_len);
        }
    }

    /// True if the last packet of a WRITE has less of it than is left.
    fn is_short_of_its_end(&self, packet: &Packet, op: Op) -> bool {
        if Operation::of(packet.opcode) as u8 != Operation::Write as u8 {
            return false;
        }
        let mtu = match self.largest {
            0 if op.has(Op::STARTS) => MAX_MTU,
            largest => u32::from(largest),
        };
        let before = u64::from(psn_distance(self.first, packet.psn)) * u64::from(mtu);
        // Anything else belongs to another message, or the path MTU is another.
        let left = u64::from(self.length).checked_sub(before).filter(|left| *left <= u64::from(mtu));
        left.is_some_and(|left| u64::from(packet.payload) < left)
    }

    /// True if a packet has the DSCP of trimmed ones, unlike its flow, and is no longer than they are.
    fn is_marked(&self, packet: &Packet, mark: Mark) -> bool {
        let dscp = packet.tos >> 2;
        self.largest > 0 && dscp == mark.dscp && dscp != self.dscp && packet.wire_len <= mark.wire_len
    }
}

impl Collector {
    /// Takes in one packet, whose headers are `frame` and whose captured bytes are `data`. Returns whether it was
    /// trimmed.
    #[inline]
    pub fn packet(&mut self, packet: &Packet, frame: &Frame, data: &[u8]) -> bool {
        if frame.encap != 0 {
            self.tunnelled(packet.slot, frame, data);
        }
        // One comparison for 0 and for a length that is not known.
        if packet.payload.wrapping_add(1) <= 1 {
            return false;
        }
        let at = packet.slot as usize;
        if self.flows.len() <= at {
            self.flows.resize(at + 1, OpenMessage::default());
        }
        let Some(flow) = self.flows.get_mut(at) else { return false };
        let op = Op::of(packet.opcode);
        // Most packets are neither the first nor the last of a message.
        if op.any(Op::STARTS | Op::ENDS) {
            if op.has(Op::STARTS | Op::RETH) && packet.dma_len != UNKNOWN {
                flow.begin(packet);
            }
            if op.has(Op::ENDS) && packet.wire_len >= packet.payload {
                let trimmed = flow.is_short_of_its_end(packet, op)
                    || self.mark.is_some_and(|mark| flow.is_marked(packet, mark));
                return trimmed && self.end_trimmed(packet);
            }
        }
        if packet.wire_len < packet.payload {
            // The headers still have the lengths of the whole packet.
            return self.trimmed(packet);
        }
        if packet.payload >= u32::from(flow.largest) {
            flow.largest = u16::try_from(packet.payload).unwrap_or(u16::MAX);
            flow.dscp = packet.tos >> 2;
            return false;
        }
        self.trimmed(packet)
    }

    /// True if a packet that was just taken in is as long as the longest of its flow, with its DSCP: one more such in
    /// the middle of a message changes nothing.
    #[inline]
    #[must_use]
    pub fn is_usual(&self, slot: u32, frame: &Frame) -> bool {
        let Some(flow) = self.flows.get(slot as usize) else { return false };
        frame.payload > 0
            && frame.payload == u32::from(flow.largest)
            && frame.tos >> 2 == flow.dscp
            && frame.payload <= frame.wire_len
    }

    #[cold]
    fn trimmed(&mut self, packet: &Packet) -> bool {
        let trims = self.trims.entry(packet.slot).or_default();
        let follows = packet.psn == trims.psn.wrapping_add(1) & MASK24;
        trims.row = if follows { trims.row + 1 } else { 1 };
        trims.psn = packet.psn;
        trims.count += 1;
        if trims.row < CHANGED {
            self.learn_mark(packet);
            return true;
        }
        trims.count = trims.count.saturating_sub(trims.row.into());
        trims.row = 0;
        if packet.wire_len >= packet.payload
            && let Some(flow) = self.flows.get_mut(packet.slot as usize)
        {
            flow.largest = u16::try_from(packet.payload).unwrap_or(u16::MAX);
        }
        false
    }

    /// The last packet of a message was trimmed.
    #[cold]
    fn end_trimmed(&mut self, packet: &Packet) -> bool {
        self.trims.entry(packet.slot).or_default().count += 1;
        self.learn_mark(packet);
        true
    }

    fn learn_mark(&mut self, packet: &Packet) {
        let dscp = packet.tos >> 2;
        if self.flows.get(packet.slot as usize).is_some_and(|flow| flow.largest > 0 && flow.dscp != dscp) {
            let most = self.mark.filter(|mark| mark.dscp == dscp).map_or(0, |mark| mark.wire_len);
            self.mark = Some(Mark { dscp, wire_len: packet.wire_len.max(most) });
        }
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
        if let Some(flow) = self.flows.get_mut(slot as usize) {
            *flow = OpenMessage::default();
        }
        self.trims.remove(&slot);
        self.outer.remove(&slot);
    }

    /// Spreading of flows so far.
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
            (packet.payload, packet.wire_len, packet.dma_len) = (payload, wire_len, UNKNOWN);
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

    /// Of (opcode, PSN, payload, DMA length, ToS).
    fn trims_of(packets: &[(u8, u32, u32, u32, u8)]) -> Vec<bool> {
        let mut collector = Collector::default();
        let one = |&(opcode, psn, payload, dma_len, tos): &_| {
            let mut packet = Packet::EMPTY;
            (packet.opcode, packet.psn, packet.payload) = (opcode, psn, payload);
            (packet.dma_len, packet.tos, packet.wire_len) = (dma_len, tos, payload + 58);
            collector.packet(&packet, &Frame::EMPTY, &[])
        };
        packets.iter().map(one).collect()
    }

    #[test]
    fn the_last_packet_of_a_write_was_trimmed_if_it_is_shorter_than_what_is_left_of_it() {
        const FIRST: u8 = 0x06;
        const LAST: u8 = RC_RDMA_WRITE_LAST;
        const ONLY: u8 = 0x0A;
        let last = |first_psn, psn, payload, dma_len| {
            trims_of(&[(FIRST, first_psn, 4_096, dma_len, 2), (LAST, psn, payload, UNKNOWN, 2)])[1]
        };
        assert!(last(10, 12, 64, 3 * 4_096));
        assert!(last(MASK24, 1, 64, 3 * 4_096), "over the end of the PSNs");
        assert!(!last(10, 12, 64, 2 * 4_096 + 64), "all that is left");
        assert!(!last(10, 13, 64, 3 * 4_096), "of another message");
        assert!(!last(10, 11, 64, 3 * 4_096), "a path MTU that is not known");
        let only = |payload, dma_len| trims_of(&[(ONLY, 10, payload, dma_len, 2)])[0];
        assert!(only(64, 4_096) && !only(64, 64) && !only(64, 1 << 30));
    }

    #[test]
    fn the_last_packet_of_a_send_was_trimmed_if_it_is_marked_as_those_in_the_middle() {
        const SEND_MIDDLE: u8 = 0x01;
        const SEND_LAST: u8 = 0x02;
        let of = |trimmed_tos, last_tos| {
            trims_of(&[
                (SEND_MIDDLE, 1, 4_096, UNKNOWN, 26 << 2),
                (SEND_MIDDLE, 2, 64, UNKNOWN, trimmed_tos),
                (SEND_LAST, 9, 64, UNKNOWN, last_tos),
            ])
        };
        assert_eq!(of(46 << 2, 46 << 2), [false, true, true]);
        assert_eq!(of(46 << 2, 26 << 2), [false, true, false], "a short end of a message");
        assert_eq!(of(26 << 2, 26 << 2), [false, true, false], "a switch that does not mark");
        let untrimmed = [(SEND_MIDDLE, 1, 4_096, UNKNOWN, 26 << 2), (SEND_LAST, 2, 64, UNKNOWN, 46 << 2)];
        assert_eq!(trims_of(&untrimmed), [false, false], "another DSCP alone");
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
