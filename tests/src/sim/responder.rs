//! The responder of a reliable connection: expects PSNs in order, or keeps packets that arrive out of order.

use super::engine::{Event, Notice, World};
use super::packet::{Packet, SYNDROME_ACK, SYNDROME_NAK, SYNDROME_RNR, op};
use super::qp::{Answer, Ports, Recovery};
use rocescope_common::random::mix;

/// Maximum delay of an ACK.
const ACK_DELAY_NS: u64 = 20_000;

impl World {
    /// Handles a request.
    pub(crate) fn respond(&mut self, index: usize, packet: Packet) {
        let qp = &mut self.qps[index];
        if packet.psn < qp.expected {
            return self.duplicate(index, &packet);
        }
        if packet.psn > qp.expected {
            let Recovery::Selective(depth) = qp.set.recovery else {
                return self.sequence_error(index);
            };
            qp.ahead.insert(packet.psn, packet);
            return self.old_hole(index, depth);
        }
        self.accept(index, &packet);
        loop {
            let qp = &mut self.qps[index];
            let Some(next) = qp.ahead.remove(&qp.expected) else { break };
            self.accept(index, &next);
        }
        if let Recovery::Selective(depth) = self.qps[index].set.recovery {
            self.old_hole(index, depth);
        }
    }

    /// Sends a NAK for a gap that reordering no longer explains.
    fn old_hole(&mut self, index: usize, depth: u64) {
        let qp = &mut self.qps[index];
        let oldest_hole = qp.expected;
        let most = qp.ahead.keys().next_back().map_or(0, |psn| psn - oldest_hole);
        if most > depth && qp.nak_for != oldest_hole {
            qp.nak_for = oldest_hole;
            self.send_nak(index, SYNDROME_NAK);
        }
    }

    fn sequence_error(&mut self, index: usize) {
        if !self.qps[index].nak_sent {
            self.qps[index].nak_sent = true;
            self.send_nak(index, SYNDROME_NAK);
        }
    }

    fn send_nak(&mut self, index: usize, syndrome: u8) {
        self.qps[index].acknowledged = self.qps[index].expected;
        let qp = &self.qps[index];
        let nak = self.response(index, op::ACK, qp.expected, (syndrome, qp.completed));
        self.answer(index, nak);
    }

    /// A response packet of the queue pair.
    fn response(&self, index: usize, opcode: u8, psn: u64, aeth: (u8, u32)) -> Packet {
        let qp = &self.qps[index];
        let peer = &self.qps[qp.peer];
        let mut packet = Packet::roce(qp.host, peer.host, opcode, peer.number, psn);
        packet.aeth = aeth;
        packet.tos = qp.set.tos;
        packet.to_qp = Some(qp.peer);
        packet.sport = match qp.set.ports {
            Ports::One(port) => port,
            Ports::Many(base, count) => base + (mix(psn) % u64::from(count)) as u16,
        };
        if qp.set.planes > 0 {
            packet.outer = Some((psn % u64::from(qp.set.planes)) as u16);
            packet.routing = qp.set.routing;
        }
        packet
    }

    fn duplicate(&mut self, index: usize, packet: &Packet) {
        match packet.opcode {
            op::READ_REQUEST => self.read(index, packet),
            op::FETCH_ADD => self.atomic(index, packet.psn),
            _ if packet.ack_req => self.acknowledge_all(index),
            _ => {}
        }
    }

    /// Accepts the packet with the expected PSN, unless there is no buffer or it is rejected.
    fn accept(&mut self, index: usize, packet: &Packet) {
        let qp = &mut self.qps[index];
        if let Some((number, code)) = qp.set.refuse
            && qp.completed == number
        {
            self.send_nak(index, SYNDROME_NAK | code);
            return self.die(index);
        }
        let first = matches!(packet.opcode, op::SEND_FIRST | op::SEND_ONLY);
        if (first || packet.has_imm()) && qp.set.buffers > 0 {
            if qp.credits == 0 {
                qp.nak_sent = true;
                let code = qp.set.rnr_code;
                return self.send_nak(index, SYNDROME_RNR | code);
            }
            qp.credits -= 1;
            let at = self.now + qp.set.repost_ns;
            self.at(at, Event::Credit(index));
        }
        let qp = &mut self.qps[index];
        qp.nak_sent = false;
        qp.expected += packet.span;
        if matches!(
            packet.opcode,
            op::SEND_LAST | op::SEND_ONLY | op::WRITE_LAST
                ..=op::WRITE_ONLY_IMM | op::READ_REQUEST | op::FETCH_ADD
        ) {
            qp.completed += 1;
        }
        match packet.opcode {
            op::READ_REQUEST => self.read(index, packet),
            op::FETCH_ADD => self.atomic(index, packet.psn),
            _ if packet.ack_req => self.owe_ack(index),
            _ => {}
        }
        if let Some((job, tag)) = packet.notify {
            self.notify(job, Notice::Delivered { tag });
        }
    }

    fn owe_ack(&mut self, index: usize) {
        let now = self.now;
        let qp = &mut self.qps[index];
        qp.ack_owed += 1;
        if qp.ack_owed >= qp.set.coalesce {
            self.acknowledge_all(index);
        } else if qp.ack_owed == 1 {
            self.at(now + ACK_DELAY_NS, Event::Ack(index));
        }
    }

    pub(crate) fn delayed_ack(&mut self, index: usize) {
        if self.qps[index].ack_owed > 0 && !self.qps[index].stopped() {
            self.acknowledge_all(index);
        }
    }

    fn acknowledge_all(&mut self, index: usize) {
        let qp = &mut self.qps[index];
        (qp.ack_owed, qp.acknowledged) = (0, qp.expected);
        let qp = &self.qps[index];
        let ack = self.response(index, op::ACK, qp.expected - 1, (SYNDROME_ACK, qp.completed));
        self.answer(index, ack);
    }

    /// Sends an answer after the host's reaction time: before data of other queue pairs, and never before the
    /// responses to an earlier READ.
    fn answer(&mut self, index: usize, packet: Packet) {
        let at = self.now + self.hosts[packet.src].reaction_ns;
        let psn = packet.psn;
        if self.qps[index].answers.is_empty() {
            self.at(at, Event::Emit(Box::new(packet)));
        } else {
            let answer = Answer { packet: Some(packet), at, start: psn, next: psn, end: psn + 1, len: 0 };
            self.qps[index].answers.push_back(answer);
        }
    }

    fn atomic(&mut self, index: usize, psn: u64) {
        let ack = self.response(index, op::ATOMIC_ACK, psn, (SYNDROME_ACK, self.qps[index].completed));
        self.answer(index, ack);
    }

    /// Queues the responses to a READ; a restarted READ replaces its remaining responses.
    fn read(&mut self, index: usize, packet: &Packet) {
        let qp = &mut self.qps[index];
        let host = qp.host;
        qp.answers.retain(|answer| answer.packet.is_some() || answer.end <= packet.psn);
        let (start, end) = (packet.psn, packet.psn + packet.span);
        // Later than an ACK that is already in transit.
        let at = self.now + self.hosts[host].reaction_ns + 1;
        let answer = Answer { packet: None, at, start, next: start, end, len: packet.dma_len };
        self.qps[index].answers.push_back(answer);
        self.ring(index);
    }

    /// The next answer in the queue pair's order, if due.
    pub(crate) fn next_answer(&mut self, index: usize) -> Option<Packet> {
        let (now, qp) = (self.now, &mut self.qps[index]);
        let answer = qp.answers.front_mut().filter(|answer| answer.at <= now)?;
        let (psn, start, end, len, mtu) = (answer.next, answer.start, answer.end, answer.len, qp.set.mtu);
        answer.next += 1;
        let last = psn + 1 == end;
        if last && let Some(Answer { packet: Some(packet), .. }) = qp.answers.pop_front() {
            return Some(packet);
        }
        let opcode = match (psn == start, last) {
            (true, true) => op::READ_ONLY,
            (true, false) => op::READ_FIRST,
            (false, true) => op::READ_LAST,
            (false, false) => op::READ_MIDDLE,
        };
        let mut packet = self.response(index, opcode, psn, (SYNDROME_ACK, self.qps[index].completed));
        packet.payload = (len - (psn - start) as u32 * mtu).min(mtu);
        Some(packet)
    }
}
