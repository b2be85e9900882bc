//! Requests with a PSN that belongs to a READ.
//!
//! A READ takes one PSN for each packet of its response, and the next request starts behind them. A request with a PSN
//! within is a fault of the requester: the responder takes it for a duplicate, acknowledges it and does not execute it.

use super::Collector;
use crate::metrics::packet::Packet;
use crate::metrics::pairing::Reverse;
use crate::util::map::Map;
use rocescope_common::account::Event;
use rocescope_common::account::psn::WINDOW;
use rocescope_common::wire::bth::{MASK24, psn_distance};
use rocescope_common::wire::frame::UNKNOWN;

/// Path MTUs, in bytes.
const MTUS: [u32; 5] = [256, 512, 1_024, 2_048, 4_096];

/// Overlaps of flows, by slot.
pub type BySlot = Map<u32, Overlap>;

/// Request packets of a flow whose PSN belongs to the READ before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Number of packets; a message of several packets counts several times.
    pub requests: u64,
    /// The first of them: its PSN and opcode, and the PSNs of the READ.
    pub psn: u32,
    /// Opcode of the packet with `psn`.
    pub opcode: u8,
    /// First PSN of the READ.
    pub read_psn: u32,
    /// PSNs that the READ takes, at least.
    pub read_span: u32,
    /// Time of the first one, Unix nanoseconds.
    pub first_ns: u64,
    /// Time of the last one, Unix nanoseconds.
    pub last_ns: u64,
}

/// A path MTU in bytes, or the largest where it is not known (0): no READ takes fewer PSNs than with it.
fn mtu_or_largest(mtu: u16) -> u32 {
    if mtu == 0 { 4_096 } else { mtu.into() }
}

/// Largest payload of the responses to a READ of `dma_len` bytes; 0 for [`UNKNOWN`].
pub(super) fn largest_response(dma_len: u32, mtu: u16) -> u32 {
    if dma_len == UNKNOWN { 0 } else { dma_len.min(mtu_or_largest(mtu)) }
}

/// The latest READ of a sequence, until a request passes behind it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Read {
    psn: u32,
    /// PSNs that it takes, at least; 0 for no READ.
    span: u32,
    /// Its bytes, where the path MTU is not known, so that it may take more PSNs than `span`; else 0.
    loose_bytes: u32,
}

impl Read {
    /// A READ request of `dma_len` bytes, or [`UNKNOWN`], with a path MTU of `mtu` bytes, or 0 where that is not known.
    pub(super) fn of(psn: u32, dma_len: u32, mtu: u16) -> Self {
        let loose_bytes = if mtu == 0 && dma_len != UNKNOWN { dma_len } else { 0 };
        let mtu = mtu_or_largest(mtu);
        let span = if dma_len == UNKNOWN { 0 } else { dma_len.div_ceil(mtu) };
        // A READ longer than half of the sequence shows nothing about the packets behind it.
        Self { psn, span: if span < MASK24 / 2 { span } else { 0 }, loose_bytes }
    }

    /// True if it may still be overlapped.
    pub(super) const fn is_some(self) -> bool {
        self.span > 0
    }

    /// True if a READ request of `dma_len` bytes at this PSN, ahead of this READ's, repeats a part of its request, and
    /// does not read the data behind it.
    fn is_repeated_by(self, psn: u32, dma_len: u32) -> bool {
        let behind = psn_distance(self.psn, psn);
        if behind < self.span {
            return true;
        }
        // The rest of it ends where it ends, whichever the path MTU is.
        let gone = self.loose_bytes.saturating_sub(dma_len);
        gone > 0 && MTUS.iter().any(|mtu| behind.checked_mul(*mtu) == Some(gone))
    }

    /// Another request, with this PSN, passes: true where the PSN belongs to the READ. Its own first PSN may be that of
    /// a request retransmitted from before the READ was known.
    pub(super) fn overlaps(&mut self, psn: u32) -> bool {
        let behind = psn_distance(self.psn, psn);
        if behind > 0 && behind < self.span {
            return true;
        }
        if behind >= self.span && behind < MASK24 / 2 {
            self.span = 0;
        }
        false
    }

    /// Counts a request in its range.
    pub(super) fn note(self, overlap: &mut Overlap, psn: u32, opcode: u8, now_ns: u64) {
        if overlap.requests == 0 {
            (overlap.psn, overlap.opcode, overlap.first_ns) = (psn, opcode, now_ns);
            (overlap.read_psn, overlap.read_span) = (self.psn, self.span);
        }
        overlap.requests += 1;
        overlap.last_ns = overlap.last_ns.max(now_ns);
    }
}

impl Collector {
    /// True if a READ request asks for data that responses have answered already, or for the rest of a message whose
    /// last response was not seen. If the path MTU is unknown, its PSN alone does not distinguish it from the next
    /// READ. Responses that pass before their request show nothing: the two directions may have been captured by
    /// different clocks.
    pub(super) fn is_repeated_read(&self, packet: &Packet, reverse: Reverse) -> bool {
        let Some(responder) = self.slots.get(reverse.slot as usize) else { return false };
        let answered = responder.responses.latest.psn().wrapping_add(1).wrapping_sub(packet.psn) & MASK24;
        let asked_before = self.slots.get(packet.slot as usize).is_some_and(|asks| {
            let back = psn_distance(packet.psn, asks.requests.psn());
            asks.requests.time_ns > 0
                && (back < MASK24 / 2 || asks.read.is_repeated_by(packet.psn, packet.dma_len))
        });
        let known = responder.responses.latest.time_ns > 0 && packet.outcome.events & Event::RESTART == 0;
        known
            && packet.outcome.missing == 0
            && asked_before
            && (answered == 0 && responder.responses.open || answered > 0 && answered < WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_takes_a_psn_for_each_packet_of_its_response() {
        // 10,000 bytes in packets of 4,096 or 1,024.
        for (mtu, span) in [(0, 3), (4_096, 3), (1_024, 10)] {
            let read = Read::of(100, 10_000, mtu);
            assert_eq!(read.span, span);
            for (psn, is_in) in
                [(99, false), (100, false), (101, true), (99 + span, true), (100 + span, false)]
            {
                let mut read = read;
                assert_eq!(read.overlaps(psn), is_in, "{psn} with an MTU of {mtu}");
            }
        }
        assert!(!Read::of(100, UNKNOWN, 1_024).is_some() && !Read::of(5, 0, 1_024).is_some());
    }

    #[test]
    fn a_read_that_was_passed_is_forgotten_before_the_psns_wrap() {
        let mut read = Read::of(0xFF_FFFE, 4_096, 1_024);
        assert!(read.overlaps(0) && !read.overlaps(2) && !read.is_some());
        assert!(!read.overlaps(0));
    }
}
