//! What is known of loss in one sequence, and of a flow's NAKs.

use super::episode::Episodes;

/// How a sender repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retransmission {
    /// From the missing packet on, everything again.
    GoBackN,
    /// What was missing, and no more.
    SelectiveRepeat,
}

/// NAKs of one kind in a flow: how many were told, and when the latest came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NakTally {
    /// NAKs.
    pub count: u64,
    /// Unix nanoseconds; 0 when there is none.
    pub last_ns: u64,
}

/// NAKs of a flow by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Naks {
    /// Of receivers that were not ready.
    pub rnr: NakTally,
    /// By code 0 to 4; all others last.
    pub codes: [NakTally; 6],
}

impl Naks {
    /// Takes in one, with these bits of the AETH behind its kind.
    pub(super) fn add(&mut self, rnr: bool, code: u32, time_ns: u64) {
        let last = self.codes.len() - 1;
        let code = usize::try_from(code).map_or(last, |code| code.min(last));
        let Some(told) = (if rnr { Some(&mut self.rnr) } else { self.codes.get_mut(code) }) else { return };
        told.count += 1;
        told.last_ns = told.last_ns.max(time_ns);
    }
}

/// What is known of loss in one sequence. Counts of PSNs are such of packets but for READ requests,
/// which take several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// PSNs that were skipped and came late, but in their own right: out of order.
    pub recovered: u64,
    /// PSNs lost before this link: skipped here, then sent again; also packets that were
    /// sent again and skipped once more. Of UC, which sends nothing again: skipped, never seen.
    pub lost: u64,
    /// PSNs that were skipped here and never came, though the sender has gone on.
    pub unfilled: u64,
    /// Packets sent again that had passed here before.
    pub retransmitted: u64,
    /// Packets that passed twice because a mirror shows them twice.
    pub mirrored: u64,
    /// READ requests sent again: the request was lost, or responses.
    pub rereads: u64,
    /// Packets sent again because the receiver was not ready.
    pub rnr_resent: u64,
    /// Times at which the sender's timer ran out: it went back after a pause, and no NAK had asked it
    /// to.
    pub timeouts: u64,
    /// When the latest packet came that was sent again, Unix nanoseconds; 0 for none.
    pub again_ns: u64,
    /// Losses before this link.
    pub before: Episodes,
    /// Times at which the sender was asked to send again what had passed here: lost behind this
    /// link, or thrown away by the receiver because it was damaged or out of order. Where
    /// no answers are seen, all the times at which it sent again.
    pub after: Episodes,
    /// How the sender repairs; `None` when it had nothing to repair, or it cannot be told.
    pub retransmission: Option<Retransmission>,
    /// How often in a row the sender began again at one PSN without getting any further.
    pub stuck: u64,
}
