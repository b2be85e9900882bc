//! Single messages: from the first packet of a request to the answer that ends it, for traces. A replay that is not
//! asked for them does not follow them.
//!
//! Followed are SENDs, WRITEs, READs and atomics. A packet that was seen before begins and ends nothing. What is not
//! answered (unreliable transports, answers that do not pass the tap) ends with its last packet.

use std::cmp::Reverse as Least;
use std::collections::{BinaryHeap, VecDeque};

use rocescope_common::account::latency::acked_psn;
use rocescope_common::wire::bth::{HALF24, MASK24, psn_distance};
use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::Op;

use super::packet::Packet;
use super::pairing::{NONE, Reverse};

/// Messages kept: the longest. The others are counted.
pub const MOST: usize = 20_000;
/// Messages of a flow that wait for their answer. Of more, the first ends with its last packet.
const WAITING: usize = 64;

/// An RDMA message with the times of its first and last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// From its first packet to its answer; to its last packet where no answer was seen.
    pub length_ns: u64,
    /// Time of its first packet, Unix nanoseconds.
    pub start_ns: u64,
    /// From its first packet to its last.
    pub sending_ns: u64,
    /// Slot of the flow of requests.
    pub slot: u32,
    /// Opcode of its first packet.
    pub opcode: u8,
    /// Payload of its packets; for READs the length that is asked for; `None` where not known.
    pub bytes: Option<u64>,
    /// PSN of its first packet.
    pub psn: u32,
    /// An answer was seen.
    pub answered: bool,
}

/// A message that waits for the answer to its last packet.
#[derive(Clone, Copy, Debug)]
struct WaitingMessage {
    message: Message,
    last_psn: u32,
}

/// Messages of a flow of requests.
#[derive(Clone, Debug, Default)]
struct Flow {
    /// The message whose last packet has not come, and the next PSN.
    open: Option<(Message, u32)>,
    waiting: VecDeque<WaitingMessage>,
}

/// Messages of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// The longest, in the order of their beginning.
    pub longest: Vec<Message>,
    /// Shorter ones, and those of flows that were retired.
    pub left_out: u64,
    /// Messages whose beginning or end was not seen.
    pub partial: u64,
}

/// Follows messages packet by packet.
#[derive(Debug, Default)]
pub struct Collector {
    flows: Vec<Flow>,
    longest: BinaryHeap<Least<Message>>,
    left_out: u64,
    partial: u64,
}

impl Collector {
    /// Takes in a packet; `reverse` is what is known of the other direction at it.
    pub fn packet(&mut self, packet: &Packet, reverse: Reverse) {
        let op = Op::of(packet.opcode);
        if op.any(Op::RESPONSE | Op::ACKNOWLEDGE) {
            if reverse.slot != NONE {
                self.answer(packet, op, reverse.slot);
            }
        } else if op.any(Op::STARTS | Op::ENDS | Op::REQUEST) && !packet.outcome.duplicate_psn {
            self.request(packet, op);
        }
    }

    fn request(&mut self, packet: &Packet, op: Op) {
        let at = packet.slot as usize;
        if self.flows.len() <= at {
            self.flows.resize(at + 1, Flow::default());
        }
        let Some(flow) = self.flows.get_mut(at) else { return };
        let payload = (packet.payload != UNKNOWN).then_some(u64::from(packet.payload));
        let next = packet.psn.wrapping_add(1) & MASK24;
        if op.has(Op::STARTS) {
            // The last packet of the message before was lost: it has the PSN before this one, or one before that.
            let cut = flow.open.take();
            if let Some((mut message, _)) = cut {
                message.sending_ns = packet.time_ns.saturating_sub(message.start_ns);
                (message.length_ns, message.bytes) = (message.sending_ns, None);
                flow.waiting
                    .push_back(WaitingMessage { message, last_psn: packet.psn.wrapping_sub(1) & MASK24 });
            }
            let asked = (op.has(Op::READ_REQUEST) && packet.dma_len != UNKNOWN).then_some(packet.dma_len);
            let message = Message {
                length_ns: 0,
                start_ns: packet.time_ns,
                sending_ns: 0,
                slot: packet.slot,
                opcode: packet.opcode,
                bytes: asked.map(u64::from).or(payload),
                psn: packet.psn,
                answered: false,
            };
            flow.open = Some((message, next));
        } else {
            let Some((message, expected)) = &mut flow.open else {
                self.partial += u64::from(op.has(Op::ENDS));
                return;
            };
            if packet.psn != *expected {
                // A packet is missing, which comes again.
                message.bytes = None;
            }
            *expected = next;
            message.bytes = message.bytes.zip(payload).map(|(sum, more)| sum + more);
        }
        if !op.has(Op::ENDS) {
            return;
        }
        let Some((mut message, _)) = flow.open.take() else { return };
        message.sending_ns = packet.time_ns.saturating_sub(message.start_ns);
        message.length_ns = message.sending_ns;
        let done = if op.has(Op::RELIABLE) {
            // The responses of a READ have the PSNs behind that of its request.
            let answers = match (op.has(Op::READ_REQUEST), packet.mtu) {
                (true, mtu @ 1..) if packet.dma_len != UNKNOWN => packet.dma_len.div_ceil(mtu.into()).max(1),
                _ => 1,
            };
            let last_psn = packet.psn.wrapping_add(answers - 1) & MASK24;
            flow.waiting.push_back(WaitingMessage { message, last_psn });
            (flow.waiting.len() > WAITING).then(|| flow.waiting.pop_front()).flatten().map(|one| one.message)
        } else {
            Some(message)
        };
        if let Some(message) = done {
            self.keep(message);
        }
    }

    /// An answer ends all messages up to its PSN.
    fn answer(&mut self, packet: &Packet, op: Op, requests: u32) {
        let up_to = acked_psn(op, packet.psn, packet.aeth);
        if up_to == UNKNOWN {
            return;
        }
        while let Some(flow) = self.flows.get_mut(requests as usize)
            && let Some(first) = flow.waiting.front().copied()
            && psn_distance(first.last_psn, up_to) < HALF24
        {
            flow.waiting.pop_front();
            let length_ns = packet.time_ns.saturating_sub(first.message.start_ns);
            self.keep(Message { length_ns, answered: true, ..first.message });
        }
    }

    fn keep(&mut self, message: Message) {
        self.longest.push(Least(message));
        if self.longest.len() > MOST {
            self.longest.pop();
            self.left_out += 1;
        }
    }

    /// The flow of a slot was retired: its messages belong to no flow any more.
    pub fn retired(&mut self, slot: u32) {
        let flow = self.flows.get_mut(slot as usize).map(std::mem::take).unwrap_or_default();
        let before = self.longest.len();
        self.longest.retain(|Least(message)| message.slot != slot);
        let gone = before - self.longest.len() + flow.waiting.len() + usize::from(flow.open.is_some());
        self.left_out += gone as u64;
    }

    /// The messages so far; those that wait for an answer end with their last packet.
    pub fn metrics(&self) -> Messages {
        let waiting = self.flows.iter().flat_map(|flow| &flow.waiting).map(|one| one.message);
        let mut longest: Vec<Message> =
            self.longest.iter().map(|Least(message)| *message).chain(waiting).collect();
        longest.sort_unstable_by(|a, b| b.cmp(a));
        let more = longest.len().saturating_sub(MOST);
        longest.truncate(MOST);
        longest.sort_unstable_by_key(|message| (message.slot, message.start_ns));
        let open = self.flows.iter().filter(|flow| flow.open.is_some()).count() as u64;
        Messages { longest, left_out: self.left_out + more as u64, partial: self.partial + open }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: u8 = 0x06;
    const MIDDLE: u8 = 0x07;
    const LAST: u8 = 0x08;
    const ONLY: u8 = 0x0A;
    const READ: u8 = 0x0C;
    const RESPONSE_LAST: u8 = 0x0F;
    const ACK: u8 = 0x11;
    const UC_ONLY: u8 = 0x2A;

    fn packet(time_ns: u64, opcode: u8, psn: u32, slot: u32) -> Packet {
        let mut packet = Packet::EMPTY;
        (packet.time_ns, packet.opcode, packet.psn, packet.slot) = (time_ns, opcode, psn, slot);
        packet
    }

    /// Requests in slot 0, answers in slot 1.
    fn collect(packets: &[(u64, u8, u32)]) -> Messages {
        let mut collector = Collector::default();
        for (time_ns, opcode, psn) in packets.iter().copied() {
            let is_answer = Op::of(opcode).any(Op::RESPONSE | Op::ACKNOWLEDGE);
            let mut packet = packet(time_ns, opcode, psn, u32::from(is_answer));
            (packet.payload, packet.mtu) = (1_000, 1_024);
            packet.dma_len = if opcode == READ { 3_000 } else { UNKNOWN };
            let slot = u32::from(!is_answer);
            collector.packet(&packet, Reverse { slot, paired: true });
        }
        collector.metrics()
    }

    fn seen(messages: &Messages) -> Vec<(u64, u64, Option<u64>, bool)> {
        messages.longest.iter().map(|one| (one.start_ns, one.length_ns, one.bytes, one.answered)).collect()
    }

    #[test]
    fn a_message_lasts_from_its_first_packet_to_its_answer() {
        let messages =
            collect(&[(10, FIRST, 1), (20, MIDDLE, 2), (30, LAST, 3), (35, ONLY, 4), (90, ACK, 4)]);
        assert_eq!(seen(&messages), [(10, 80, Some(3_000), true), (35, 55, Some(1_000), true)]);
        assert_eq!((messages.longest[0].sending_ns, messages.left_out, messages.partial), (20, 0, 0));
        // An answer to the first one alone; the other goes on.
        let messages = collect(&[(10, ONLY, 1), (11, ONLY, 2), (50, ACK, 1)]);
        assert_eq!(seen(&messages), [(10, 40, Some(1_000), true), (11, 0, Some(1_000), false)]);
    }

    #[test]
    fn a_read_lasts_to_its_last_response() {
        let messages = collect(&[(10, READ, 0xFF_FFFE), (20, RESPONSE_LAST, 0), (30, ONLY, 1)]);
        assert_eq!(seen(&messages), [(10, 10, Some(3_000), true), (30, 0, Some(1_000), false)]);
        let early = collect(&[(10, READ, 5), (20, ACK, 6)]);
        assert_eq!(seen(&early), [(10, 0, Some(3_000), false)]);
    }

    #[test]
    fn losses_leave_the_length_open_but_not_the_end() {
        // The middle packet was lost; the answer comes after its retransmission.
        let messages = collect(&[(10, FIRST, 1), (30, LAST, 3), (90, ACK, 3)]);
        assert_eq!(seen(&messages), [(10, 80, None, true)]);
        // The last packet was lost.
        let messages = collect(&[(10, FIRST, 1), (40, ONLY, 3), (90, ACK, 3)]);
        assert_eq!(seen(&messages), [(10, 80, None, true), (40, 50, Some(1_000), true)]);
        // The beginning was not seen, and the end of the second.
        let messages = collect(&[(10, LAST, 1), (20, FIRST, 2)]);
        assert_eq!((messages.longest.len(), messages.partial), (0, 2));
        assert_eq!(seen(&collect(&[(10, UC_ONLY, 1)])), [(10, 0, Some(1_000), false)]);
    }

    #[test]
    fn the_longest_are_kept_and_the_others_counted() {
        let mut collector = Collector::default();
        let most = u32::try_from(MOST).unwrap();
        for psn in 0..most + 10 {
            let request = packet(0, ONLY, psn, 0);
            collector.packet(&request, Reverse { slot: 1, paired: true });
            let length = if psn == 7 { 1_000_000 } else { u64::from(psn) };
            let answer = packet(length, ACK, psn, 1);
            collector.packet(&answer, Reverse { slot: 0, paired: true });
        }
        let messages = collector.metrics();
        assert_eq!((messages.longest.len(), messages.left_out), (MOST, 10));
        assert_eq!(messages.longest.iter().map(|one| one.length_ns).max(), Some(1_000_000));
        assert_eq!(messages.longest.iter().map(|one| one.length_ns).min(), Some(11));
        collector.retired(0);
        assert_eq!(
            (collector.metrics().longest.len(), collector.metrics().left_out),
            (0, u64::from(most) + 10)
        );
    }
}
