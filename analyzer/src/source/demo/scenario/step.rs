//! Plans one step: which packets each connection sends and gets, with what goes wrong.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ambient;
use super::fabric::{Connection, Job, Role, SLOW_PEER, Uplink};
use super::truth::Order;
use super::{Content, Episode, PATH_MTU, Plan, Roce};
use crate::sample::Direction;
use crate::source::demo::craft::{Operation, Reth, Syndrome};

/// One step and what is wrong in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) number: u64,
    /// Nanoseconds since the start of the scenario.
    pub(super) starts: u64,
    /// Nanoseconds.
    pub(super) length: u64,
    pub(super) episode: Episode,
    /// How far the episode has come, in thousandths.
    pub(super) progress: u32,
}

/// DSCP 26 with ECT(0), as lossless RoCE classes use it.
const TOS_DATA: u8 = (26 << 2) | 2;
const TOS_DATA_CE: u8 = TOS_DATA | 3;
/// DSCP 48 with ECT(0), as ConnectX sends notifications.
const TOS_CNP: u8 = (48 << 2) | 2;

/// Packets of a data message.
const PACKETS: u32 = 32;
/// Packets after which an acknowledgement is asked for within a message.
const ACK_EVERY: u32 = 16;
/// Between two packets of a message: sixteen connections send at once, and a frame costs its sender some microseconds.
const PACKET_GAP_NS: u64 = 400_000;
const PACKET_JITTER_NS: u32 = 10_000;
/// From this host to a peer and back.
const ROUND_TRIP_NS: u64 = 160_000;
/// An adapter's own time to answer.
const ANSWER_NS: u64 = 8_000;
/// Bytes of a clear-to-send write.
const CREDIT_BYTES: u16 = 64;
/// From one notification of a queue pair to the next, at least: adapters limit them by time, from microseconds up to this.
const CNP_INTERVAL_NS: u64 = 4_000_000;
/// Timer code 12: what NCCL asks for, and how long it means.
const RNR_TIMER: u8 = 12;
const RNR_WAIT_NS: u64 = 640_000;
/// Data messages per connection and second.
const MESSAGES_PER_SECOND: u64 = 8;
const MAX_MESSAGES: u64 = 64;
/// All connections of a job start a message together, but for this.
const SKEW_NS: u64 = 500_000;
/// GPUs need about the same time in every step: up to so many thousandths of it more.
const COMPUTE_JITTER: u64 = 20;
/// Thousandths of a step in which the job sends, unless something slows it down; then GPUs compute.
const BUSY: u32 = 350;

/// Requests of one direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    /// PSN of the next request.
    psn: u32,
    /// Messages that the other end has completed.
    msn: u32,
}

const MASK24: u32 = 0x00FF_FFFF;

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
    /// When the latest notification is sent. One answers all marks up to it.
    notified: u64,
}

/// What one message of a connection meets.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    /// Data packets out of a thousand that get a CE mark on their way.
    ce: u32,
    /// First lost packet of the message and how many follow it.
    loss: Option<(u32, u32)>,
    /// How often the receiver is not ready for the last packet.
    refusals: u32,
}

/// Plans steps one after another; remembers sequences between them.
#[derive(Debug)]
pub(super) struct Planner {
    random: Random,
    states: Vec<State>,
    planned: u64,
    segments: u32,
}

impl Planner {
    pub(super) fn new(seed: u64, connections: usize) -> Self {
        Self { random: Random(seed), states: vec![State::default(); connections], planned: 0, segments: 0 }
    }

    /// Adds a step's frames. None of them is earlier than the start of the step.
    pub(super) fn plan(&mut self, step: &Step, all: &[Connection], out: &mut BinaryHeap<Reverse<Plan>>) {
        self.ambient(step, out);
        let computed = self.random.next() % (step.length / 1_000 * COMPUTE_JITTER).max(1);
        for (index, connection) in all.iter().enumerate() {
            let count = messages(step, connection);
            let time = step.length / 1_000 * u64::from(busy(step, connection));
            let slot = time / count.max(1);
            for message in 0..count {
                let skew = self.random.next() % SKEW_NS;
                let at = step.starts + computed + message * slot + skew;
                let weather = self.weather(step, connection);
                Message { planner: self, index, connection, out, at }.plan(weather);
            }
        }
    }

    fn weather(&mut self, step: &Step, connection: &Connection) -> Weather {
        let mut weather = Weather::default();
        if connection.job == Job::Crowded {
            return weather;
        }
        match step.episode {
            Episode::Congestion if connection.uplink == Uplink::Rail0 => {
                weather.ce = 80 + step.progress * 2 / 5;
            }
            Episode::Loss if self.random.below(1_000) < 300 => {
                // Enough packets must follow for the gap to be seen and answered in the message.
                let first = 1 + self.random.below(PACKETS - 12);
                weather.loss = Some((first, 1 + self.random.below(3)));
            }
            Episode::SlowReceiver if connection.role == Role::Sends && connection.peer == SLOW_PEER => {
                weather.refusals = self.random.below(4);
            }
            _ => {}
        }
        weather
    }

    fn ambient(&mut self, step: &Step, out: &mut BinaryHeap<Reverse<Plan>>) {
        let at = |part: u64| step.starts + step.length / 100 * part;
        for (uplink, part) in [(Uplink::Rail0, 3), (Uplink::Rail1, 5)] {
            let mut add = |part, direction, kind| {
                push(out, &mut self.planned, at(part), Content::Other(uplink, direction, kind));
            };
            add(part, Direction::Egress, ambient::Kind::Arp);
            add(part + 1, Direction::Ingress, ambient::Kind::Arp);
            if step.number.is_multiple_of(2) {
                add(part + 4, Direction::Ingress, ambient::Kind::Lldp);
            }
        }
        for part in (10..100).step_by(15) {
            for direction in [Direction::Egress, Direction::Ingress] {
                let content = Content::Other(Uplink::Rail0, direction, ambient::Kind::Tcp(self.segments));
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
    let usual = (step.length * MESSAGES_PER_SECOND / 1_000_000_000).clamp(1, MAX_MESSAGES);
    match (step.episode, connection.job) {
        (Episode::BadHashing, Job::Crowded) => usual.max(2),
        // The first job waits for data that the second one keeps from it.
        (Episode::BadHashing, Job::Spread) => 1,
        (_, Job::Spread) => usual,
        (_, Job::Crowded) => 0,
    }
}

/// For how many thousandths of a step a connection sends: its sender slows down when told to.
fn busy(step: &Step, connection: &Connection) -> u32 {
    match step.episode {
        Episode::Congestion if connection.uplink == Uplink::Rail0 => BUSY + step.progress * 3 / 10,
        Episode::BadHashing => 850,
        _ => BUSY,
    }
}

/// A message while it is planned.
struct Message<'a> {
    planner: &'a mut Planner,
    index: usize,
    connection: &'a Connection,
    out: &'a mut BinaryHeap<Reverse<Plan>>,
    /// When the next packet of the data's sender passes this host's port.
    at: u64,
}

impl Message<'_> {
    fn plan(mut self, weather: Weather) {
        self.credit();
        let first_psn = self.state().data.psn;
        let last_payload = 1 + u16::try_from(self.planner.random.below(PATH_MTU.into())).unwrap_or_default();
        let shape = Shape { first_psn, last_payload };
        let last = PACKETS - 1;
        let mut number = 0;
        while number < last {
            match weather.loss {
                Some((first, count)) if first == number => {
                    number = self.lose(shape, first, count, weather.ce);
                }
                _ => {
                    self.data(shape, number, Order::Next, weather.ce);
                    self.acknowledge_if_due(shape, number);
                    number += 1;
                }
            }
        }
        self.data(shape, last, Order::Next, weather.ce);
        for _ in 0..weather.refusals {
            let msn = self.state().data.msn;
            let refused = self.answer(Syndrome::Rnr(RNR_TIMER), shape.psn(last), msn);
            // The sender waits from when the refusal reaches it.
            self.at = refused + RNR_WAIT_NS + self.to_sender();
            self.data(shape, last, Order::Again, weather.ce);
        }
        let msn = self.state().data.complete();
        self.answer(Syndrome::Ack, shape.psn(last), msn);
        self.state().data.psn = shape.psn(PACKETS);
    }

    fn state(&mut self) -> &mut State {
        &mut self.planner.states[self.index]
    }

    /// The receiver tells the sender where it may write, with a small write of its own.
    fn credit(&mut self) {
        let (data, back) = (self.connection.data(), self.connection.answers());
        let Sequence { psn, .. } = self.state().credits;
        let reth = Reth { address: 0x7F3A_5000_0000, rkey: 0x0018_2A00, length: CREDIT_BYTES.into() };
        let operation = Operation::WriteOnly(reth);
        self.push(self.at, back, operation, psn, TOS_DATA, true, CREDIT_BYTES, Order::Next);
        let msn = self.state().credits.complete();
        let acknowledged = self.at + if data == Direction::Ingress { ROUND_TRIP_NS } else { ANSWER_NS };
        let operation = Operation::Acknowledge(Syndrome::Ack, msn);
        self.push(acknowledged, data, operation, psn, TOS_DATA, false, 0, Order::Next);
        self.state().credits.psn = (psn + 1) & MASK24;
        self.at = acknowledged + ANSWER_NS;
    }

    /// Sends one data packet and moves time on to the next.
    fn data(&mut self, shape: Shape, number: u32, order: Order, ce: u32) {
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
        // Marks are set by switches: what this host sends is marked behind its own port.
        let marked = self.planner.random.below(1_000) < ce;
        let seen = marked && self.connection.role == Role::Receives;
        let tos = if seen { TOS_DATA_CE } else { TOS_DATA };
        let ack_req = number == last || asks(number);
        let direction = self.connection.data();
        self.push(self.at, direction, operation, shape.psn(number), tos, ack_req, payload, order);
        if marked {
            self.notify();
        }
        let jitter = self.planner.random.below(PACKET_JITTER_NS);
        self.at += PACKET_GAP_NS + u64::from(jitter);
    }

    /// The receiver of a marked packet tells the sender, as soon as it may do so again.
    fn notify(&mut self) {
        let seen = self.at + self.to_receiver() + ANSWER_NS;
        let notified = self.state().notified;
        if notified >= seen {
            return;
        }
        let at = if notified == 0 { seen } else { seen.max(notified + CNP_INTERVAL_NS) };
        self.state().notified = at;
        self.push(at, self.connection.answers(), Operation::Cnp, 0, TOS_CNP, false, 0, Order::Next);
    }

    /// `lost` packets from `first` on do not arrive. The receiver asks for them as soon as it sees
    /// the next one; the sender has sent more by then, and starts again from the first lost one.
    /// Returns the number of the packet to go on with.
    fn lose(&mut self, shape: Shape, first: u32, lost: u32, ce: u32) -> u32 {
        // What arrives at this host was lost before its port; what it sends is lost behind it.
        let before = self.connection.role == Role::Receives;
        let mut number = first;
        if before {
            self.at += PACKET_GAP_NS * u64::from(lost);
            number += lost;
        } else {
            for _ in 0..lost {
                self.data(shape, number, Order::Next, ce);
                number += 1;
            }
        }
        let order = if before { Order::After(lost) } else { Order::Next };
        self.data(shape, number, order, ce);
        number += 1;
        let msn = self.state().data.msn;
        let refused = self.answer(Syndrome::Nak(0), shape.psn(first), msn);
        let restart = refused + self.to_sender();
        while self.at < restart && number < PACKETS - 1 {
            self.data(shape, number, Order::Next, ce);
            number += 1;
        }
        self.at = self.at.max(restart);
        for again in first..number {
            self.data(shape, again, Order::Again, ce);
            self.acknowledge_if_due(shape, again);
        }
        number
    }

    fn acknowledge_if_due(&mut self, shape: Shape, number: u32) {
        if asks(number) {
            let msn = self.state().data.msn;
            self.answer(Syndrome::Ack, shape.psn(number), msn);
        }
    }

    /// The receiver answers the packet sent last. Returns when the answer passes this host's port.
    fn answer(&mut self, syndrome: Syndrome, psn: u32, msn: u32) -> u64 {
        let sent = self.at - PACKET_GAP_NS;
        let at = sent + self.to_receiver() + ANSWER_NS;
        let operation = Operation::Acknowledge(syndrome, msn);
        self.push(at, self.connection.answers(), operation, psn, TOS_DATA, false, 0, Order::Next);
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

    #[expect(clippy::too_many_arguments, reason = "the fields of one packet")]
    fn push(
        &mut self,
        at: u64,
        direction: Direction,
        operation: Operation,
        psn: u32,
        tos: u8,
        ack_req: bool,
        payload: u16,
        order: Order,
    ) {
        let connection = self.index;
        let roce = Roce { connection, direction, operation, psn, tos, ack_req, payload, order };
        push(self.out, &mut self.planner.planned, at, Content::Roce(roce));
    }
}

/// Whether packet `number` of a message asks for an acknowledgement before its end.
const fn asks(number: u32) -> bool {
    number % ACK_EVERY == ACK_EVERY - 1
}

/// What stays the same while a message is sent, also when parts of it are sent again.
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

/// SplitMix64: small, and good enough for jitter and dice.
#[derive(Clone, Copy, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 to below `end`.
    fn below(&mut self, end: u32) -> u32 {
        u32::try_from((u64::from(end) * (self.next() >> 32)) >> 32).unwrap_or_default()
    }
}
