//! What really crosses the links, kept by the generator as it decides: independent of the
//! accounting that it is compared with.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::super::craft::{Operation, Syndrome};
use super::fabric::Uplink;
use crate::sample::Direction;

/// A flow as reports define it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TruthKey {
    /// Link.
    pub uplink: Uplink,
    /// Direction on it.
    pub direction: Direction,
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Destination queue pair.
    pub dest_qp: u32,
}

/// Where a request stands in its sequence, as seen at this host's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Next in line, or no request at all.
    Next,
    /// First behind a loss on the way here, of so many packets.
    After(u32),
    /// Sent once more.
    Again,
}

/// Counts of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTruth {
    /// Packets.
    pub packets: u64,
    /// Frame lengths without FCS.
    pub bytes: u64,
    /// Payload of requests.
    pub payload_bytes: u64,
    /// Packets marked congestion experienced.
    pub ce: u64,
    /// Congestion notification packets.
    pub cnp: u64,
    /// Jumps ahead in the sequence.
    pub gaps: u64,
    /// Requests lost on the way here.
    pub missing: u64,
    /// Requests sent once more.
    pub repeats: u64,
    /// Positive acknowledgements.
    pub acks: u64,
    /// NAKs for a PSN sequence error.
    pub naks: u64,
    /// RNR NAKs.
    pub rnr_naks: u64,
}

/// Counts of everything that was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// RoCE, by flow.
    pub flows: BTreeMap<TruthKey, FlowTruth>,
    /// Frames that are not RoCE.
    pub other_packets: u64,
    /// Their bytes.
    pub other_bytes: u64,
}

const HEADERS: u64 = 14 + 20 + 8 + 12;
const ICRC: u64 = 4;
const CE: u8 = 3;

impl Truth {
    /// Adds a RoCE packet over IPv4 without a tag.
    pub(super) fn roce(&mut self, key: TruthKey, operation: Operation, tos: u8, payload: u16, order: Order) {
        let flow = self.flows.entry(key).or_default();
        flow.packets += 1;
        let extended: u64 = match operation {
            Operation::WriteFirst(_)
            | Operation::WriteOnly(_)
            | Operation::ReadRequest(_)
            | Operation::Cnp => 16,
            Operation::WriteOnlyImm(..) => 20,
            Operation::WriteLastImm(_) | Operation::Acknowledge(..) => 4,
            Operation::WriteMiddle | Operation::WriteLast => 0,
        };
        let payload = u64::from(payload);
        flow.bytes += HEADERS + extended + payload.next_multiple_of(4) + ICRC;
        flow.payload_bytes += payload;
        flow.ce += u64::from(tos & 3 == CE);
        match order {
            Order::Next => {}
            Order::After(lost) => {
                flow.gaps += 1;
                flow.missing += u64::from(lost);
            }
            Order::Again => flow.repeats += 1,
        }
        match operation {
            Operation::Cnp => flow.cnp += 1,
            Operation::Acknowledge(Syndrome::Ack, _) => flow.acks += 1,
            Operation::Acknowledge(Syndrome::Nak(_), _) => flow.naks += 1,
            Operation::Acknowledge(Syndrome::Rnr(_), _) => flow.rnr_naks += 1,
            _ => {}
        }
    }

    /// Adds a frame that is not RoCE.
    pub(super) fn other(&mut self, bytes: usize) {
        self.other_packets += 1;
        self.other_bytes += bytes as u64;
    }

    /// The sum over all flows.
    #[must_use]
    pub fn total(&self) -> FlowTruth {
        let mut sum = FlowTruth::default();
        for flow in self.flows.values() {
            sum.packets += flow.packets;
            sum.bytes += flow.bytes;
            sum.payload_bytes += flow.payload_bytes;
            sum.ce += flow.ce;
            sum.cnp += flow.cnp;
            sum.gaps += flow.gaps;
            sum.missing += flow.missing;
            sum.repeats += flow.repeats;
            sum.acks += flow.acks;
            sum.naks += flow.naks;
            sum.rnr_naks += flow.rnr_naks;
        }
        sum
    }
}
