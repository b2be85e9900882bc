//! How much was lost on one side of a tap, in one span of time.

use super::loss::{Limits, Side};
use super::not_evaluated::is_not_evaluated;
use super::span::Span;
use crate::analysis::{Facts, Flow, Loss};
use crate::metrics::loss::spells::Signal;

/// Packets, how many more were lost, and how often.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    /// With those lost before the tap, which should have passed it.
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) episodes: u64,
}

impl Sum {
    /// Of the requests and responses in a flow in one span. Behind a tap an episode counts as one lost packet: how many it
    /// was is not seen.
    pub(super) fn of(facts: &Facts, flow: &Flow, side: Side, span: &Span) -> Self {
        if flow.psn.is_none() && flow.psn_responses.is_none() || is_not_evaluated(flow) {
            return Self::default();
        }
        let total = |of: fn(&Loss) -> u64| -> u64 { flow.losses().iter().flatten().map(of).sum() };
        let packets = span.packets(facts, flow);
        match side {
            Side::Before => {
                let lost = span.count(flow, Signal::Lost, total(|loss| loss.lost));
                let episodes = span.count(flow, side.signal(), total(|loss| loss.before_tap.episodes));
                // These should have passed as well.
                Self { packets: packets + lost, lost, episodes }
            }
            Side::After => {
                let episodes = span.count(flow, side.signal(), total(|loss| loss.after_tap.episodes));
                // A packet that a switch trimmed asks for its retransmission by itself.
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
        self.lost as f64 / self.packets.max(1) as f64
    }

    /// Whether it is more than what clean links show now and then.
    pub(super) fn is_enough(&self, limits: &Limits) -> bool {
        self.episodes >= limits.episodes && self.ratio() >= limits.ratio
    }
}
