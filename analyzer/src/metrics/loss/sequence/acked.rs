//! Spurious timeouts (ACK lost or late).
//!
//! Either an ACK of what is retransmitted has passed this tap, and was lost between tap and requester; or the receiver
//! acknowledges the first retransmissions with a PSN beyond them, and its ACK was lost upstream of the tap.

use rocescope_common::wire::bth::{MASK24, psn_distance};

use super::super::cause::Cause;
use super::super::state::State;
use super::Sequence;

/// True if `psn` is at or beyond `start`.
pub(super) const fn reaches(psn: u32, start: u32) -> bool {
    psn_distance(start, psn) < MASK24 / 2
}

impl Sequence {
    /// A run after a timeout begins; the latest ACK of the peer carried this PSN.
    pub(in super::super) fn acknowledged_before(&mut self, acked: Option<u32>) {
        let State::GoingBack(run, Cause::Timeout) = &mut self.state else { return };
        if !run.acked && run.packets == 1 && acked.is_some_and(|psn| reaches(psn, run.start)) {
            run.acked = true;
            self.metrics.timeouts_acked += 1;
        }
    }

    /// The peer acknowledges up to this PSN.
    pub(in super::super) fn acknowledged(&mut self, psn: u32) {
        let State::GoingBack(run, Cause::Timeout) = &mut self.state else { return };
        if !run.acked && psn != run.last && reaches(psn, run.last) {
            run.acked = true;
            self.metrics.timeouts_acked += 1;
        }
    }
}
