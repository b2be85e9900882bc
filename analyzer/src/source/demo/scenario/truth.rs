//! The ground truth of a scenario: what crosses the links, counted by the generator as it decides, and
//! independent of the accounting that it is compared with.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::AddAssign;

use rocescope_common::wire::frame::CE;

use super::super::craft::{Operation, Syndrome};
use super::fabric::Uplink;
use crate::sample::Direction;

/// The identity of a flow, as in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TruthKey {
    /// The interface that it crosses.
    pub uplink: Uplink,
    /// Direction of the packets there.
    pub direction: Direction,
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Destination queue pair.
    pub dest_qp: u32,
}

/// Position of a packet in its PSN sequence, as seen at this host's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SequencePosition {
    /// In sequence, or not a request.
    InSequence,
    /// The first after a loss of this many packets upstream of this port.
    AfterLoss(u32),
    /// Retransmitted.
    Retransmission,
}

/// Counts of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTruth {
    /// Number of packets.
    pub packets: u64,
    /// Frame lengths without FCS.
    pub bytes: u64,
    /// Payload of requests, bytes.
    pub payload_bytes: u64,
    /// Number of CE-marked packets.
    pub ce: u64,
    /// Number of CNPs.
    pub cnp: u64,
    /// Number of PSN gaps.
    pub gaps: u64,
    /// Requests lost upstream of this port.
    pub missing: u64,
    /// Number of retransmitted requests.
    pub retransmissions: u64,
    /// Number of positive acknowledgements.
    pub acks: u64,
    /// Number of sequence-error NAKs.
    pub naks: u64,
    /// Number of RNR NAKs.
    pub rnr_naks: u64,
}

impl AddAssign for FlowTruth {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.payload_bytes += other.payload_bytes;
        self.ce += other.ce;
        self.cnp += other.cnp;
        self.gaps += other.gaps;
        self.missing += other.missing;
        self.retransmissions += other.retransmissions;
        self.acks += other.acks;
        self.naks += other.naks;
        self.rnr_naks += other.rnr_naks;
    }
}

/// Counts of everything that was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Truth of RoCE packets, by flow.
    pub flows: BTreeMap<TruthKey, FlowTruth>,
    /// Frames that are not RoCE.
    pub other_packets: u64,
    /// Bytes of the other frames.
    pub other_bytes: u64,
}

const HEADERS: u64 = 14 + 20 + 8 + 12;
const ICRC: u64 = 4;

impl Truth {
    /// Adds a RoCE packet over IPv4 without a tag.
    pub(super) fn roce(
        &mut self,
        key: TruthKey,
        operation: Operation,
        tos: u8,
        payload: u16,
        position: SequencePosition,
    ) {
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
        match position {
            SequencePosition::InSequence => {}
            SequencePosition::AfterLoss(lost) => {
                flow.gaps += 1;
                flow.missing += u64::from(lost);
            }
            SequencePosition::Retransmission => flow.retransmissions += 1,
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
    pub fn total(&self) -> FlowTruth {
        let mut sum = FlowTruth::default();
        for flow in self.flows.values() {
            sum += *flow;
        }
        sum
    }
}
