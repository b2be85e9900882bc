//! Packets in the middle of a message at once.

use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::Op;

use super::Collector;
use crate::metrics::packet::Packet;
use crate::metrics::pairing::Reverse;

impl Collector {
    /// Takes in packets that continue a message, alike but for PSN, identification and time, which does not go back.
    #[inline]
    pub fn train(&mut self, train: &[Packet], reverse: Reverse) {
        let done = self.pass(train);
        if let Some(rest) = train.get(done..).filter(|rest| !rest.is_empty()) {
            self.one_by_one(rest, reverse);
        }
    }

    #[inline(never)]
    fn one_by_one(&mut self, train: &[Packet], reverse: Reverse) {
        for packet in train {
            self.packet(packet, None, reverse);
        }
    }

    /// Takes in packets as far as they change nothing but the latest packet of their flow, and returns their number.
    #[inline]
    fn pass(&mut self, train: &[Packet]) -> usize {
        let (Some(first), Some(last)) = (train.first(), train.last()) else { return 0 };
        if self.intervals.is_due(last.time_ns) {
            return 0;
        }
        let Some(slot) = self.slots.get_mut(first.slot as usize) else { return 0 };
        let response = Op::of(first.opcode).has(Op::RESPONSE);
        let (latest, loss) = if response {
            (&mut slot.responses.latest, &mut slot.response_loss)
        } else {
            (&mut slot.requests, &mut slot.request_loss)
        };
        let overlapped = !response && slot.read.is_some();
        if overlapped || loss.as_ref().is_some_and(|sequence| sequence.parallel != UNKNOWN) {
            return 0;
        }
        let mut done = 0;
        for packet in train {
            let (psn, id, now) = (packet.psn, packet.id, packet.time_ns);
            if now.wrapping_sub(latest.time_ns) > slot.pace_ns
                || !loss.as_mut().is_none_or(|sequence| sequence.advance(psn, id))
            {
                break;
            }
            latest.passed(psn, id, now, true);
            slot.counts.add(packet);
            done += 1;
        }
        done
    }
}
