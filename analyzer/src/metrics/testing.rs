//! Packets made by hand for the tests of collectors.

use rocescope_common::account::FlowKey;
use rocescope_common::wire::Frame;
use rocescope_common::wire::frame::UNKNOWN;

use super::packet::{Packet, PacketExtras};
use crate::source::flows::table::FlowTable;

/// A packet in few words.
#[derive(Clone, Copy, Debug)]
pub(super) struct P {
    pub(super) link: u16,
    pub(super) src: u8,
    pub(super) dst: u8,
    pub(super) qp: u32,
    pub(super) opcode: u8,
    pub(super) psn: u32,
    /// IPv4 identification.
    pub(super) id: u16,
    /// AETH syndrome, of responses.
    pub(super) syndrome: u32,
    pub(super) hops: u8,
    pub(super) tos: u8,
    pub(super) payload: u32,
    pub(super) time_ns: u64,
}

/// A WRITE MIDDLE from host 1 to queue pair 17 of host 2.
pub(super) const DATA: P = P {
    link: 0,
    src: 1,
    dst: 2,
    qp: 17,
    opcode: 7,
    psn: 0,
    id: 0,
    syndrome: 0,
    hops: 64,
    tos: 0,
    payload: 1024,
    time_ns: 0,
};
/// An answer to it.
pub(super) const ANSWER: P = P { src: 2, dst: 1, qp: 18, opcode: 0x11, syndrome: 0x1F, ..DATA };

/// Counts packets and shows them to a collector.
pub(super) struct Wire {
    table: FlowTable,
    /// DMA length of what follows.
    pub(super) dma_len: u32,
    /// Name of the tap that a link belongs to.
    pub(super) tap_of: fn(u16) -> String,
}

impl Wire {
    pub(super) fn new(links: usize) -> Self {
        let mut table = FlowTable::new(1024);
        for link in 0..links {
            table.add_link(format!("link{link}"), None);
        }
        Self { table, dma_len: UNKNOWN, tap_of: |link| format!("tap{link}") }
    }

    pub(super) fn pass(&mut self, p: P, collect: impl FnOnce(&Packet, Option<&PacketExtras>)) -> u32 {
        let word = |host: u8| [0, 0, 0, u32::from_ne_bytes([10, 0, 0, host])];
        let mut frame = Frame { family: 4, roce_version: 2, wire_len: 1082, ..Frame::EMPTY };
        (frame.src, frame.dst, frame.dest_qp) = (word(p.src), word(p.dst), p.qp);
        (frame.opcode, frame.psn, frame.payload) = (p.opcode, p.psn & 0xFF_FFFF, p.payload);
        frame.tos = p.tos;
        frame.ack_req = p.opcode < 0x0D;
        frame.aeth = p.syndrome << 24;
        frame.dma_len = self.dma_len;
        let [high, low] = p.id.to_be_bytes();
        let data = [0x45, 0, 0, 0, high, low, 0, 0, p.hops, 17];
        let Some(seen) = self.table.observe(p.link, &frame, p.time_ns) else { return u32::MAX };
        let packet = Packet::new((&frame, &data), (p.time_ns, p.link), seen.slot, seen.stats, seen.outcome);
        let extras = packet
            .wants_extras()
            .then(|| PacketExtras::of((&frame, &data), p.link, (self.tap_of)(p.link).into(), 0));
        collect(&packet, extras.as_ref());
        packet.slot
    }

    pub(super) fn retire(&mut self, now_ns: u64) -> Vec<u32> {
        self.table.retire_idle(now_ns, 0)
    }

    pub(super) fn key(p: P) -> FlowKey {
        let word = |host: u8| [0, 0, 0, u32::from_ne_bytes([10, 0, 0, host])];
        FlowKey { src: word(p.src), dst: word(p.dst), dest_qp: p.qp, link: p.link, family: 4, pad: 0 }
    }
}
