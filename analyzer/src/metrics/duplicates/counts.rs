//! Counts of duplicates, by what they would have added to the other counters.

use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::Op;

use super::super::packet::{CE, ECT_MASK, Packet};

/// Duplicates that were counted, to be taken off what was counted of all packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DuplicateCounts {
    /// Number of duplicates.
    pub packets: u64,
    /// Their outer frames' bytes.
    pub bytes: u64,
    /// The same of what is no acknowledgement and no CNP.
    pub data_bytes: u64,
    /// Payload of the duplicates, bytes.
    pub payload_bytes: u64,
    /// Data packets by ECN bits. A packet that shows CE in one of its duplicates counts as marked: the other is here.
    pub ecn_data: [u64; 4],
    /// CNPs and ACKNOWLEDGEs by ECN bits.
    pub ecn_control: [u64; 4],
    /// Number of CNPs among the duplicates.
    pub cnp_packets: u64,
    /// AETHs of the duplicates that acknowledge.
    pub acks: u64,
    /// RNR NAKs among the duplicates.
    pub rnr_naks: u64,
    /// NAKs by code 0 to 4; all others last.
    pub naks: [u64; 6],
    /// Requests among the duplicates.
    pub requests: u64,
    /// READ responses and atomic acknowledgements.
    pub responses: u64,
}

impl DuplicateCounts {
    /// These, where there are any.
    pub fn if_any(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// Adds those of another flow or link.
    pub fn join(&mut self, other: &Self) {
        self.each(other, u64::saturating_add);
    }

    /// Takes away those of a part.
    pub fn part(&mut self, other: &Self) {
        self.each(other, u64::saturating_sub);
    }

    fn each(&mut self, other: &Self, of: fn(u64, u64) -> u64) {
        let mut other = *other;
        for (own, other) in self.counts_mut().zip(other.counts_mut()) {
            *own = of(*own, *other);
        }
    }

    fn counts_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        let Self {
            packets,
            bytes,
            payload_bytes,
            ecn_data,
            ecn_control,
            data_bytes,
            cnp_packets,
            acks,
            rnr_naks,
            naks,
            requests,
            responses,
        } = self;
        let single =
            [packets, bytes, data_bytes, payload_bytes, cnp_packets, acks, rnr_naks, requests, responses];
        single.into_iter().chain(ecn_data).chain(ecn_control).chain(naks)
    }

    /// Adds a duplicate of a packet whose ECN bits were `first_ecn`.
    pub(super) fn add(&mut self, packet: &Packet, op: Op, first_ecn: u8) {
        self.packets += 1;
        self.bytes += u64::from(packet.wire_len);
        let control = op.any(Op::CNP | Op::ACKNOWLEDGE);
        self.data_bytes += if control { 0 } else { u64::from(packet.wire_len) };
        self.payload_bytes += if packet.payload == UNKNOWN { 0 } else { u64::from(packet.payload) };
        if packet.has_ecn() {
            let ecn = packet.tos & ECT_MASK;
            let gone = usize::from(if ecn == CE { first_ecn } else { ecn });
            let counts = if control { &mut self.ecn_control } else { &mut self.ecn_data };
            counts[gone & 3] += 1;
        }
        self.cnp_packets += u64::from(op.has(Op::CNP));
        self.requests += u64::from(op.has(Op::REQUEST));
        self.responses += u64::from(op.has(Op::RESPONSE));
        if !op.has(Op::AETH) || packet.aeth == UNKNOWN {
            return;
        }
        let syndrome = packet.aeth >> 24;
        match syndrome >> 5 & 3 {
            0 => self.acks += 1,
            1 => self.rnr_naks += 1,
            3 => self.naks[(syndrome as usize & 0x1F).min(5)] += 1,
            _ => {}
        }
    }
}
