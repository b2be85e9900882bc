//! The requester of a reliable connection: sends, waits for ACKs, and retransmits.

use super::engine::{Event, Notice, World};
use super::packet::{Packet, SYNDROME_NAK, SYNDROME_RNR, op};
use super::qp::{Message, Recovery, Verb};

/// RNR timer in nanoseconds, by code.
fn rnr_ns(code: u8) -> u64 {
    const US: [u64; 16] = [655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920];
    US[usize::from(code & 15)] * 1_000
}

impl World {
    /// Posts a message; its completion is reported to `job` with `tag`.
    pub(crate) fn post(&mut self, index: usize, verb: Verb, len: u32, job: usize, tag: u64) {
        let qp = &mut self.qps[index];
        let count = match verb {
            Verb::Atomic => 1,
            _ => u64::from(len.div_ceil(qp.set.mtu)).max(1),
        };
        qp.messages.push_back(Message { verb, len, start: qp.end, count, job, tag });
        qp.end += count;
        self.ring(index);
    }

    /// The earliest time at which the queue pair has a packet to send, within its window.
    pub(crate) fn ready(&self, index: usize) -> Option<u64> {
        let answer = self.qps[index].answers.front().map(|answer| answer.at);
        answer.into_iter().chain(self.request_ready(index)).min()
    }

    fn request_ready(&self, index: usize) -> Option<u64> {
        let qp = &self.qps[index];
        if !qp.resend.is_empty() {
            return Some(self.now);
        }
        let message = qp.message(qp.next)?;
        if qp.next - qp.una >= qp.set.window {
            return None;
        }
        if message.verb == Verb::Read {
            let before = qp.messages.iter().take_while(|m| m.start < message.start);
            if before.filter(|m| m.verb == Verb::Read).count() as u64 >= qp.set.reads {
                return None;
            }
        }
        Some(qp.wait_until)
    }

    /// Takes the next packet: an answer to a READ, a missing packet, or a new one.
    pub(crate) fn next_packet(&mut self, index: usize) -> Option<Packet> {
        if let Some(packet) = self.next_answer(index) {
            return Some(packet);
        }
        let qp = &mut self.qps[index];
        while let Some(psn) = qp.resend.pop_front() {
            if psn >= qp.una {
                return self.request(index, psn);
            }
        }
        let psn = qp.next;
        self.request(index, psn)
    }

    /// The request packet of a PSN.
    fn request(&mut self, index: usize, psn: u64) -> Option<Packet> {
        let (now, qp) = (self.now, &self.qps[index]);
        let message = *qp.message(psn)?;
        let (peer, mtu) = (&self.qps[qp.peer], qp.set.mtu);
        let (at, last) = (psn - message.start, message.count - 1);
        let mut packet = Packet::roce(qp.host, peer.host, 0, peer.number, psn);
        packet.to_qp = Some(qp.peer);
        packet.retransmission = psn < qp.high;
        let rest = message.len - (at as u32 * mtu).min(message.len);
        packet.payload = rest.min(mtu);
        packet.ack_req = at == last || psn.is_multiple_of(qp.set.ack_every);
        packet.dma_len = message.len;
        if at == last {
            packet.notify = Some((message.job, message.tag));
        }
        packet.opcode = match (message.verb, at, at == last) {
            (Verb::Read, ..) => {
                packet.span = message.end() - psn;
                (packet.payload, packet.dma_len, packet.notify) = (0, rest, None);
                op::READ_REQUEST
            }
            (Verb::Atomic, ..) => {
                packet.payload = 0;
                op::FETCH_ADD
            }
            (Verb::Write, 0, true) => op::WRITE_ONLY,
            (Verb::WriteImm, 0, true) => op::WRITE_ONLY_IMM,
            (Verb::Write | Verb::WriteImm, 0, false) => op::WRITE_FIRST,
            (Verb::Write, _, true) => op::WRITE_LAST,
            (Verb::WriteImm, _, true) => op::WRITE_LAST_IMM,
            (Verb::Write | Verb::WriteImm, _, false) => op::WRITE_MIDDLE,
            (Verb::Send, 0, true) => op::SEND_ONLY,
            (Verb::Send, 0, false) => op::SEND_FIRST,
            (Verb::Send, _, true) => op::SEND_LAST,
            (Verb::Send, _, false) => op::SEND_MIDDLE,
        };
        let qp = &mut self.qps[index];
        let after = psn + packet.span;
        if psn == qp.next {
            qp.next = after;
        }
        if packet.ack_req && psn >= qp.high {
            qp.asked.insert(psn, now);
        }
        qp.high = qp.high.max(after);
        if qp.deadline == u64::MAX {
            self.arm(index);
        }
        Some(packet)
    }

    /// Restarts the transport timer.
    fn arm(&mut self, index: usize) {
        let now = self.now;
        let qp = &mut self.qps[index];
        let shift = if qp.set.backoff { qp.tries.min(5) } else { 0 };
        qp.deadline = now + (qp.set.timeout_ns << shift);
        if !qp.timer_runs {
            qp.timer_runs = true;
            let deadline = qp.deadline;
            self.at(deadline, Event::Timer(index));
        }
    }

    pub(crate) fn timer(&mut self, index: usize) {
        let now = self.now;
        let qp = &mut self.qps[index];
        qp.timer_runs = false;
        if qp.deadline == u64::MAX || qp.stopped() {
            return;
        }
        if now < qp.deadline {
            qp.timer_runs = true;
            let deadline = qp.deadline;
            return self.at(deadline, Event::Timer(index));
        }
        qp.tries += 1;
        if qp.tries > qp.set.retries {
            return self.die(index);
        }
        self.facts.timeouts += 1;
        let (oldest, peer) = (self.qps[index].una, self.qps[index].peer);
        self.facts.acks_lost += u64::from(self.qps[peer].expected > oldest);
        self.facts.acks_sent += u64::from(self.qps[peer].acknowledged > oldest);
        self.go_back(index);
        self.arm(index);
        self.ring(index);
    }

    fn go_back(&mut self, index: usize) {
        let qp = &mut self.qps[index];
        qp.next = qp.una;
        qp.reread = None;
        qp.resend.clear();
        qp.asked.clear();
    }

    pub(crate) fn die(&mut self, index: usize) {
        self.qps[index].dead = true;
        self.facts.died.push(index);
    }

    /// Handles a response: ACK, NAK, READ or atomic response.
    pub(crate) fn answered(&mut self, index: usize, packet: &Packet) {
        let syndrome = packet.aeth.0;
        match packet.opcode {
            op::READ_FIRST..=op::READ_ONLY => return self.read_response(index, packet.psn),
            op::ACK if syndrome & 0xE0 == SYNDROME_RNR => {
                self.progress(index, packet.psn);
                let wait_until = self.now + rnr_ns(syndrome);
                self.go_back(index);
                let qp = &mut self.qps[index];
                (qp.wait_until, qp.tries) = (wait_until, 0);
            }
            op::ACK if syndrome == SYNDROME_NAK => {
                self.progress(index, packet.psn);
                let qp = &mut self.qps[index];
                match qp.set.recovery {
                    Recovery::Selective(_) if packet.psn >= qp.una && packet.psn < qp.high => {
                        qp.resend.push_back(packet.psn);
                    }
                    _ => self.go_back(index),
                }
            }
            op::ACK if syndrome & 0xE0 == SYNDROME_NAK => return self.die(index),
            op::ACK | op::ATOMIC_ACK => self.progress(index, packet.psn + 1),
            _ => {}
        }
        self.ring(index);
    }

    /// Everything below `psn` is acknowledged, up to READs without their data.
    fn progress(&mut self, index: usize, psn: u64) {
        let now = self.now;
        let qp = &mut self.qps[index];
        let open = qp.messages.iter().find(|m| m.verb == Verb::Read && m.end() > qp.una);
        let limit = open.map_or(u64::MAX, |m| m.start.max(qp.una));
        let (psn, lost_read) = if psn > limit { (limit, true) } else { (psn, false) };
        if lost_read && qp.reread != Some(limit) {
            qp.reread = Some(limit);
            qp.next = limit;
        }
        if psn > qp.una && psn <= qp.high {
            self.acknowledge(index, psn, now);
        }
    }

    fn acknowledge(&mut self, index: usize, psn: u64, now: u64) {
        let qp = &mut self.qps[index];
        qp.una = psn;
        qp.next = qp.next.max(psn);
        qp.tries = 0;
        let rest = qp.asked.split_off(&psn);
        let longest = qp.asked.values().map(|sent| now - sent).max().unwrap_or(0);
        qp.asked = rest;
        let record = &mut self.facts.longest_ack_ns[index];
        *record = longest.max(*record);
        let mut done = Vec::new();
        let qp = &mut self.qps[index];
        while let Some(message) = qp.messages.front().filter(|message| message.end() <= psn).copied() {
            qp.messages.pop_front();
            done.push(message);
        }
        if qp.una == qp.high {
            qp.deadline = u64::MAX;
        } else {
            self.arm(index);
        }
        for message in done {
            self.notify(message.job, Notice::Done { qp: index, tag: message.tag });
        }
    }

    fn read_response(&mut self, index: usize, psn: u64) {
        let now = self.now;
        let qp = &mut self.qps[index];
        let Some(message) = qp.message(psn).copied() else { return };
        // Responses acknowledge earlier requests.
        if qp.una < message.start && message.start <= qp.high {
            self.progress(index, message.start);
        }
        let qp = &mut self.qps[index];
        if psn == qp.una {
            qp.reread = None;
            self.acknowledge(index, psn + 1, now);
        } else if psn > qp.una && qp.reread != Some(qp.una) && qp.una >= message.start {
            // A response is missing: the READ restarts at that PSN.
            qp.reread = Some(qp.una);
            qp.next = qp.una;
        }
        self.ring(index);
    }
}
