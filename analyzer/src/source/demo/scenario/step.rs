//! Plans one step: the packets of each connection, with the problem of the episode.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rocescope_common::random::Random;
use rocescope_common::wire::bth::MASK24;

use super::ambient;
use super::fabric::{Connection, Role, SLOW_PEER, TrainingJob, Uplink};
use super::truth::SequencePosition;
use super::{Content, Episode, PATH_MTU, Plan, Roce};
use crate::sample::Direction;
use crate::source::demo::craft::{Operation, Reth, Syndrome};
use crate::util::time::NS_PER_S;

/// One step and its episode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) number: u64,
    /// Nanoseconds since the start of the scenario.
    pub(super) starts: u64,
    /// Length of the step, nanoseconds.
    pub(super) length: u64,
    pub(super) episode: Episode,
    /// Progress of the episode, in thousandths.
    pub(super) progress: u32,
}

/// DSCP 26 with ECT(0), as lossless RoCE classes use it.
const TOS_DATA: u8 = (26 << 2) | 2;
const TOS_DATA_CE: u8 = TOS_DATA | 3;
/// DSCP 48 with ECT(0), as ConnectX sends CNPs.
const TOS_CNP: u8 = (48 << 2) | 2;

/// Packets of a data message.
const PACKETS: u32 = 32;
/// Packets from one acknowledgement request to the next within a message.
const ACK_EVERY: u32 = 16;
/// Gap between two packets of a message: sixteen connections send at once, and sending a frame takes some
/// microseconds.
const PACKET_GAP_NS: u64 = 400_000;
const PACKET_JITTER_NS: u32 = 10_000;
/// From this host to a peer and back.
const ROUND_TRIP_NS: u64 = 160_000;
/// Response time of an adapter.
const ANSWER_NS: u64 = 8_000;
/// Bytes of a clear-to-send WRITE.
const CREDIT_BYTES: u16 = 64;
/// Minimum time between two CNPs of a queue pair; adapters use from some microseconds up to this.
const CNP_INTERVAL_NS: u64 = 4_000_000;
/// RNR timer code 12, NCCL's default, and its time.
const RNR_TIMER: u8 = 12;
const RNR_WAIT_NS: u64 = 640_000;
/// Data messages per connection and second.
const MESSAGES_PER_SECOND: u64 = 8;
const MAX_MESSAGES: u64 = 64;
/// Connections of a job start a message within this time of each other.
const SKEW_NS: u64 = 500_000;
/// Variation of the compute time, in thousandths of a step.
const COMPUTE_JITTER: u64 = 20;
/// Thousandths of a step in which the job sends, unless something slows it down; GPUs compute in the rest.
const SEND_TIME: u32 = 350;

/// Requests of one direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    /// PSN of the next request.
    psn: u32,
    /// Messages completed by the other end.
    msn: u32,
}

impl Sequence {
    fn complete(&mut self) -> u32 {
        self.msn = (self.msn + 1) & MASK24;
        self.msn
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    data: Sequence,
    credits: Sequence,
    /// Time of the latest CNP. It answers all marks before it.
    last_cnp_ns: u64,
}

/// The problems of one message of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Impairment {
    /// CE-marked data packets per thousand.
    ce: u32,
    /// Number of the first lost packet in the message, and how many are lost in a row.
    loss: Option<(u32, u32)>,
    /// RNR NAKs for the last packet.
    rnr_naks: u32,
}

/// Plans steps one after another; keeps the sequence numbers between them.
#[derive(Debug)]
pub(super) struct Planner {
    random: Random,
    states: Vec<State>,
    planned: u64,
    segments: u32,
}

impl Planner {
    pub(super) fn new(seed: u64, connections: usize) -> Self {
        Self {
            random: Random::new(seed),
            states: vec![State::default(); connections],
            planned: 0,
            segments: 0,
        }
    }

    /// Adds a step's frames. None of them is earlier than the start of the step.
    pub(super) fn plan(&mut self, step: &Step, all: &[Connection], out: &mut BinaryHeap<Reverse<Plan>>) {
        self.ambient(step, out);
        let computed = self.random.bits() % (step.length / 1_000 * COMPUTE_JITTER).max(1);
        for (index, connection) in all.iter().enumerate() {
            let count = messages(step, connection);
            let time = step.length / 1_000 * u64::from(send_time(step, connection));
            let slot = time / count.max(1);
            for message in 0..count {
                let skew = self.random.bits() % SKEW_NS;
                let at = step.starts + computed + message * slot + skew;
                let impairment = self.impairment(step, connection);
                Message { planner: self, index, connection, out, at }.plan(impairment);
            }
        }
    }

    fn impairment(&mut self, step: &Step, connection: &Connection) -> Impairment {
        let mut impairment = Impairment::default();
        if connection.job == TrainingJob::Skewed {
            return impairment;
        }
        match step.episode {
            Episode::Congestion if connection.uplink == Uplink::Rail0 => {
                impairment.ce = 80 + step.progress * 2 / 5;
            }
            Episode::Loss if self.random.below_u32(1_000) < 300 => {
                // Enough packets must follow for the receiver to detect the gap and answer within the message.
                let first = 1 + self.random.below_u32(PACKETS - 12);
                impairment.loss = Some((first, 1 + self.random.below_u32(3)));
            }
            Episode::SlowReceiver if connection.role == Role::Sends && connection.peer == SLOW_PEER => {
                impairment.rnr_naks = self.random.below_u32(4);
            }
            _ => {}
        }
        impairment
    }

    fn ambient(&mut self, step: &Step, out: &mut BinaryHeap<Reverse<Plan>>) {
        let at = |part: u64| step.starts + step.length / 100 * part;
        for (uplink, part) in [(Uplink::Rail0, 3), (Uplink::Rail1, 5)] {
            let mut add = |part, direction, kind| {
                push(out, &mut self.planned, at(part), Content::Other(uplink, direction, kind));
            };
            add(part, Direction::Egress, ambient::FrameKind::Arp);
            add(part + 1, Direction::Ingress, ambient::FrameKind::Arp);
            if step.number.is_multiple_of(2) {
                add(part + 4, Direction::Ingress, ambient::FrameKind::Lldp);
            }
        }
        for part in (10..100).step_by(15) {
            for direction in [Direction::Egress, Direction::Ingress] {
                let content =
                    Content::Other(Uplink::Rail0, direction, ambient::FrameKind::Tcp(self.segments));
                push(out, &mut self.planned, at(part), content);
            }
            self.segments = self.segments.wrapping_add(1);
        }
    }
}

fn push(out: &mut BinaryHeap<Reverse<Plan>>, planned: &mut u64, at_ns: u64, content: Content) {
    out.push(Reverse(Plan { at_ns, number: *planned, content }));
    *planned += 1;
}

/// Messages that a connection sends in a step.
fn messages(step: &Step, connection: &Connection) -> u64 {
    let usual = (step.length * MESSAGES_PER_SECOND / NS_PER_S).clamp(1, MAX_MESSAGES);
    match (step.episode, connection.job) {
        (Episode::BadHashing, TrainingJob::Skewed) => usual.max(2),
        // The first job waits for data that the second job delays.
        (Episode::BadHashing, TrainingJob::Spread) => 1,
        (_, TrainingJob::Spread) => usual,
        (_, TrainingJob::Skewed) => 0,
    }
}

/// Thousandths of a step in which a connection sends; CNPs reduce its sender's rate.
fn send_time(step: &Step, connection: &Connection) -> u32 {
    match step.episode {
        Episode::Congestion if connection.uplink == Uplink::Rail0 => SEND_TIME + step.progress * 3 / 10,
        Episode::BadHashing => 850,
        _ => SEND_TIME,
    }
}

/// A message while it is planned.
struct Message<'a> {
    planner: &'a mut Planner,
    index: usize,
    connection: &'a Connection,
    out: &'a mut BinaryHeap<Reverse<Plan>>,
    /// Time at which the next packet of the data's sender passes this host's port.
    at: u64,
}

impl Message<'_> {
    fn plan(mut self, impairment: Impairment) {
        self.credit();
        let first_psn = self.state().data.psn;
        let last_payload =
            1 + u16::try_from(self.planner.random.below_u32(PATH_MTU.into())).unwrap_or_default();
        let shape = Shape { first_psn, last_payload };
        let last = PACKETS - 1;
        let mut number = 0;
        while number < last {
            match impairment.loss {
                Some((first, count)) if first == number => {
                    number = self.lose(shape, first, count, impairment.ce);
                }
                _ => {
                    self.data(shape, number, SequencePosition::InSequence, impairment.ce);
                    self.acknowledge_if_due(shape, number);
                    number += 1;
                }
            }
        }
        self.data(shape, last, SequencePosition::InSequence, impairment.ce);
        for _ in 0..impairment.rnr_naks {
            let msn = self.state().data.msn;
            let answered = self.answer(Syndrome::Rnr(RNR_TIMER), shape.psn(last), msn);
            // The sender waits from the arrival of the RNR NAK on.
            self.at = answered + RNR_WAIT_NS + self.to_sender();
            self.data(shape, last, SequencePosition::Retransmission, impairment.ce);
        }
        let msn = self.state().data.complete();
        self.answer(Syndrome::Ack, shape.psn(last), msn);
        self.state().data.psn = shape.psn(PACKETS);
    }

    fn state(&mut self) -> &mut State {
        &mut self.planner.states[self.index]
    }

    /// The receiver's clear-to-send: a small WRITE that names the buffer to write to.
    fn credit(&mut self) {
        let (data, back) = (self.connection.data(), self.connection.answers());
        let Sequence { psn, .. } = self.state().credits;
        let reth = Reth { address: 0x7F3A_5000_0000, rkey: 0x0018_2A00, length: CREDIT_BYTES.into() };
        let operation = Operation::WriteOnly(reth);
        let credit = Roce { ack_req: true, payload: CREDIT_BYTES, ..self.packet(back, operation, psn) };
        self.push(self.at, credit);
        let msn = self.state().credits.complete();
        let acknowledged = self.at + if data == Direction::Ingress { ROUND_TRIP_NS } else { ANSWER_NS };
        let operation = Operation::Acknowledge(Syndrome::Ack, msn);
        self.push(acknowledged, self.packet(data, operation, psn));
        self.state().credits.psn = (psn + 1) & MASK24;
        self.at = acknowledged + ANSWER_NS;
    }

    /// Sends one data packet and advances time to the next.
    fn data(&mut self, shape: Shape, number: u32, position: SequencePosition, ce: u32) {
        let last = PACKETS - 1;
        let reth = Reth {
            address: 0x7F3A_9000_0000,
            rkey: 0x0018_2B00,
            length: last * u32::from(PATH_MTU) + u32::from(shape.last_payload),
        };
        let (operation, payload) = match number {
            0 => (Operation::WriteFirst(reth), PATH_MTU),
            n if n == last => (Operation::WriteLastImm(shape.first_psn), shape.last_payload),
            _ => (Operation::WriteMiddle, PATH_MTU),
        };
        // Switches set marks: packets from this host are marked downstream of its port.
        let marked = self.planner.random.below_u32(1_000) < ce;
        let seen = marked && self.connection.role == Role::Receives;
        let tos = if seen { TOS_DATA_CE } else { TOS_DATA };
        let ack_req = number == last || requests_ack(number);
        let packet = self.packet(self.connection.data(), operation, shape.psn(number));
        self.push(self.at, Roce { tos, ack_req, payload, position, ..packet });
        if marked {
            self.send_cnp();
        }
        let jitter = self.planner.random.below_u32(PACKET_JITTER_NS);
        self.at += PACKET_GAP_NS + u64::from(jitter);
    }

    /// The receiver of a marked packet sends a CNP, once the minimum interval has passed.
    fn send_cnp(&mut self) {
        let seen = self.at + self.to_receiver() + ANSWER_NS;
        let last_cnp_ns = self.state().last_cnp_ns;
        if last_cnp_ns >= seen {
            return;
        }
        let at = if last_cnp_ns == 0 { seen } else { seen.max(last_cnp_ns + CNP_INTERVAL_NS) };
        self.state().last_cnp_ns = at;
        let cnp = Roce { tos: TOS_CNP, ..self.packet(self.connection.answers(), Operation::Cnp, 0) };
        self.push(at, cnp);
    }

    /// Loses `lost` packets from `first` on. The receiver sends a sequence-error NAK for the next packet; the sender
    /// has sent more by then, and goes back to the first lost one. Returns the number of the packet that follows.
    fn lose(&mut self, shape: Shape, first: u32, lost: u32, ce: u32) -> u32 {
        // Packets to this host are lost upstream of its port, packets from it downstream.
        let upstream = self.connection.role == Role::Receives;
        let mut number = first;
        if upstream {
            self.at += PACKET_GAP_NS * u64::from(lost);
            number += lost;
        } else {
            for _ in 0..lost {
                self.data(shape, number, SequencePosition::InSequence, ce);
                number += 1;
            }
        }
        let position =
            if upstream { SequencePosition::AfterLoss(lost) } else { SequencePosition::InSequence };
        self.data(shape, number, position, ce);
        number += 1;
        let msn = self.state().data.msn;
        let answered = self.answer(Syndrome::Nak(0), shape.psn(first), msn);
        let restart = answered + self.to_sender();
        while self.at < restart && number < PACKETS - 1 {
            self.data(shape, number, SequencePosition::InSequence, ce);
            number += 1;
        }
        self.at = self.at.max(restart);
        for resent in first..number {
            self.data(shape, resent, SequencePosition::Retransmission, ce);
            self.acknowledge_if_due(shape, resent);
        }
        number
    }

    fn acknowledge_if_due(&mut self, shape: Shape, number: u32) {
        if requests_ack(number) {
            let msn = self.state().data.msn;
            self.answer(Syndrome::Ack, shape.psn(number), msn);
        }
    }

    /// Answers the packet sent last. Returns the time at which the answer passes this host's port.
    fn answer(&mut self, syndrome: Syndrome, psn: u32, msn: u32) -> u64 {
        let sent = self.at - PACKET_GAP_NS;
        let at = sent + self.to_receiver() + ANSWER_NS;
        let operation = Operation::Acknowledge(syndrome, msn);
        self.push(at, self.packet(self.connection.answers(), operation, psn));
        at
    }

    /// From this host's port to the receiver and back to the port.
    fn to_receiver(&self) -> u64 {
        if self.connection.role == Role::Sends { ROUND_TRIP_NS } else { 0 }
    }

    /// From this host's port to the sender and back to the port.
    fn to_sender(&self) -> u64 {
        if self.connection.role == Role::Sends { ANSWER_NS } else { ROUND_TRIP_NS }
    }

    /// A packet in sequence without payload, of the class of the data.
    const fn packet(&self, direction: Direction, operation: Operation, psn: u32) -> Roce {
        Roce {
            connection: self.index,
            direction,
            operation,
            psn,
            tos: TOS_DATA,
            ack_req: false,
            payload: 0,
            position: SequencePosition::InSequence,
        }
    }

    fn push(&mut self, at: u64, roce: Roce) {
        push(self.out, &mut self.planner.planned, at, Content::Roce(roce));
    }
}

/// True if packet `number` requests an acknowledgement before the end of its message.
const fn requests_ack(number: u32) -> bool {
    number % ACK_EVERY == ACK_EVERY - 1
}

/// The properties of a message that its retransmissions keep.
#[derive(Clone, Copy, Debug)]
struct Shape {
    first_psn: u32,
    last_payload: u16,
}

impl Shape {
    const fn psn(self, number: u32) -> u32 {
        (self.first_psn + number) & MASK24
    }
}
