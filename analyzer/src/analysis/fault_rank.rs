//! How much goes wrong in a flow or a queue pair: one order for every view that lists the worst of several.

use super::loss::counted_responses;
use super::{DeviceQp, Flow, Loss, Psn};
use crate::entity::lives::ERROR;

/// What was counted of a flow or a queue pair that does not work as it should; the greater is the worse, and the
/// default is none. Each part is compared only where those before it are equal: what stops traffic comes before lost
/// packets, these before what repairs them, and that before congestion. A count of it is no finding: findings have
/// thresholds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultRank {
    /// 2: the queue pair died. 1: it is in the error state.
    pub broken: u8,
    /// Time without an acknowledgement, in nanoseconds.
    pub stuck_ns: u64,
    /// Packets lost upstream; PSNs missing where reordering cannot be excluded.
    pub lost: u64,
    /// Retries in use.
    pub retries: u8,
    /// Retransmissions, NAKs and RNR NAKs; timeouts of a queue pair that the NIC knows.
    pub recovery: u64,
    /// CNPs and CE-marked packets.
    pub congestion: u64,
}

impl FaultRank {
    /// True if there is any.
    pub fn any(&self) -> bool {
        *self > Self::default()
    }

    /// Lost packets, and what repaired loss: a CNP or a mark is no error.
    pub const fn errors(&self) -> u64 {
        self.lost.saturating_add(self.recovery)
    }
}

impl Flow {
    /// What goes wrong in it.
    pub fn fault_rank(&self) -> FaultRank {
        let sequences =
            [(self.psn.get(), self.loss.get()), (counted_responses(self), self.loss_responses.get())];
        let sum = |known: fn(&Loss) -> u64, raw: fn(&Psn) -> u64| -> u64 {
            let one = |(psn, loss): &(Option<Psn>, Option<Loss>)| match (loss, psn) {
                (Some(loss), _) => known(loss),
                (None, Some(psn)) => raw(psn),
                (None, None) => 0,
            };
            sequences.iter().map(one).sum()
        };
        let again = sum(Loss::retransmissions, |psn| psn.repeats);
        FaultRank {
            lost: sum(|loss| loss.lost, |psn| psn.missing),
            recovery: again + self.naks_dedup().total() + self.rnr_naks_dedup(),
            congestion: self.cnps_dedup() + self.ecn_data().ce,
            ..FaultRank::default()
        }
    }
}

impl DeviceQp {
    /// What goes wrong in it.
    pub fn fault_rank(&self) -> FaultRank {
        let broken = match (self.control.end, self.state) {
            (Some(ERROR), _) => 2,
            (_, Some("ERR")) if !self.control.is_over() => 1,
            _ => 0,
        };
        FaultRank {
            broken,
            stuck_ns: self.stuck_ns.unwrap_or(0),
            retries: self.retries_used.max(self.rnr_retries_used).unwrap_or(0),
            recovery: self.timeouts.unwrap_or(0),
            ..FaultRank::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_packets_are_worse_than_any_number_of_repairs_and_these_than_marks() {
        let lost = FaultRank { lost: 4, ..FaultRank::default() };
        let repaired = FaultRank { recovery: 500, ..FaultRank::default() };
        let marked = FaultRank { congestion: 9_000, ..FaultRank::default() };
        let dead = FaultRank { broken: 2, ..FaultRank::default() };
        assert!(dead > lost && lost > repaired && repaired > marked && marked.any());
        assert_eq!((marked.errors(), repaired.errors(), FaultRank::default().any()), (0, 500, false));
    }
}
