//! Acknowledged PSNs, and spurious timeouts (ACK lost or late).
//!
//! Either an ACK of what is retransmitted has passed this tap, and was lost between tap and requester; or the receiver
//! acknowledges the first retransmissions with a PSN beyond them, and its ACK was lost upstream of the tap.

use rocescope_common::wire::bth::MASK24;
use rocescope_common::wire::frame::UNKNOWN;

use super::cause::Cause;
use super::sequence::Sequence;
use super::state::State;
use super::{AckState, Slot};

/// True if `psn` is at or beyond `start`.
pub(super) const fn reaches(psn: u32, start: u32) -> bool {
    psn.wrapping_sub(start) & MASK24 < MASK24 / 2
}

impl AckState {
    /// The latest PSN that the flow acknowledges: a NAK acknowledges what lies before its own.
    #[must_use]
    pub fn acknowledged(&self) -> Option<u32> {
        Some(self.answer_psn?.wrapping_sub(self.refused.into()) & MASK24)
    }
}

impl Slot {
    pub(super) fn ack_state(&self) -> AckState {
        AckState {
            asked_ns: (self.asked_ns != 0).then_some(self.asked_ns),
            answer_psn: (self.answer_psn != UNKNOWN).then_some(self.answer_psn),
            refused: self.refused,
            answered_something: false,
            sizes: self.sizes,
        }
    }
}

impl Sequence {
    /// A run after a timeout begins; the latest ACK of the peer carried this PSN.
    pub(super) fn acknowledged_before(&mut self, acked: Option<u32>) {
        let State::GoingBack(run, Cause::Timeout) = &mut self.state else { return };
        if !run.acked && run.packets == 1 && acked.is_some_and(|psn| reaches(psn, run.start)) {
            run.acked = true;
            self.metrics.timeouts_acked += 1;
        }
    }

    /// The peer acknowledges up to this PSN.
    pub(super) fn acknowledged(&mut self, psn: u32) {
        let State::GoingBack(run, Cause::Timeout) = &mut self.state else { return };
        if !run.acked && psn != run.last && reaches(psn, run.last) {
            run.acked = true;
            self.metrics.timeouts_acked += 1;
        }
    }
}
