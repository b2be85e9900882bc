//! Amount of loss on one side of a tap in a period.

use super::{Limits, Side};
use crate::analysis::{Facts, Flow, Loss};
use crate::findings::not_evaluated::is_not_evaluated;
use crate::findings::period::Period;
use crate::metrics::loss::signal_intervals::Signal;
use crate::util::numbers::share;

/// Packets, lost packets and loss episodes.
#[derive(Clone, Copy, Default)]
pub(super) struct LossCounts {
    /// Packets seen, and those lost upstream, which should have been seen.
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) episodes: u64,
}

impl LossCounts {
    /// Sum over the requests and responses of a flow in a period. Downstream of a tap an episode counts as one
    /// lost packet, since the number is not visible.
    pub(super) fn of(facts: &Facts, flow: &Flow, side: Side, period: &Period) -> Self {
        if flow.psn.is_none() && flow.psn_responses.is_none() || is_not_evaluated(flow) {
            return Self::default();
        }
        let total = |of: fn(&Loss) -> u64| flow.losses_sum(of);
        let packets = period.packets(facts, flow);
        match side {
            Side::Upstream => {
                let lost = period.count(flow, Signal::Lost, total(|loss| loss.lost));
                let episodes =
                    period.count(flow, side.signal(), total(|loss| loss.before_tap.episodes.or_zero()));
                // Lost packets should have passed as well.
                Self { packets: packets + lost, lost, episodes }
            }
            Side::Downstream => {
                let episodes =
                    period.count(flow, side.signal(), total(|loss| loss.after_tap.episodes.or_zero()));
                // A trimmed packet triggers its own retransmission.
                let episodes = episodes.saturating_sub(flow.trimmed_packets());
                Self { packets, lost: episodes, episodes }
            }
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.lost += other.lost;
        self.episodes += other.episodes;
    }

    pub(super) fn of_all(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum.add(one);
            sum
        })
    }

    pub(super) fn ratio(&self) -> f64 {
        share(self.lost, self.packets)
    }

    /// True if it exceeds the occasional loss of clean links.
    pub(super) fn is_enough(&self, limits: &Limits) -> bool {
        self.episodes >= limits.episodes && self.ratio() >= limits.ratio
    }
}
