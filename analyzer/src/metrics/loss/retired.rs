//! What is kept of the loss in flows that were retired.

use super::FlowLoss;

/// Sums over retired flows, at each link that showed them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetiredLoss {
    /// PSNs lost upstream.
    pub lost: u64,
    /// Packets that had passed before, retransmitted.
    pub retransmitted: u64,
    /// Transport timeouts.
    pub timeouts: u64,
}

impl RetiredLoss {
    pub(super) fn add(&mut self, flow: &FlowLoss) {
        for metrics in [&flow.requests, &flow.responses].into_iter().flatten() {
            self.lost += metrics.lost;
            self.retransmitted += metrics.retransmissions();
            self.timeouts += metrics.timeouts;
        }
    }
}
