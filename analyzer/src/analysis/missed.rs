//! What the captures at two taps missed: packets that one shows, and that the other does not although they passed.
//!
//! A request or a response that its sender never retransmits reached the receiver. Nothing shows that of a single ACK:
//! a later one stands for it. A capture that misses requests and responses misses as many ACKs.

use std::hash::Hash;

use crate::metrics::traffic::times;
use crate::util::definition::definitions;
use crate::util::map::Map;

definitions! {
    DEVIATIONS: f64 = 3.0,
        "Standard deviations that the ACKs missed by a capture may exceed its share of requests and responses missed",
        "Chance exceeds three once in some hundred runs";
}

/// Requests and responses that passed taps, and those that the captures there missed.
#[derive(Debug)]
pub(super) struct Missed<K>(Map<K, (u64, u64)>);

impl<K> Default for Missed<K> {
    fn default() -> Self {
        Self(Map::default())
    }
}

impl<K: Eq + Hash> Missed<K> {
    /// Of these packets with a PSN sequence, which passed the tap, its capture missed some.
    pub(super) fn note(&mut self, tap: K, packets: u64, missed: u64) {
        let sum = self.0.entry(tap).or_default();
        sum.0 += packets;
        sum.1 += missed;
    }

    /// Of `vanished` ACKs and CNPs, of `packets` that should have passed the tap: those that its capture may have
    /// missed. `timeouts` of these are known to be lost: the requester waited for them in vain.
    pub(super) fn answers(&self, tap: &K, (packets, vanished): (u64, u64), timeouts: u64) -> u64 {
        let open = vanished.saturating_sub(timeouts);
        let Some((seen, missed)) = self.0.get(tap).filter(|(seen, _)| *seen > 0) else { return open };
        let expected = *missed as f64 / *seen as f64 * packets as f64;
        let most = expected + DEVIATIONS * expected.sqrt();
        if most >= open as f64 { open } else { times(1, most) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_misses_acks_as_it_misses_requests() {
        let mut missed = Missed::default();
        assert_eq!(missed.answers(&"b", (800, 15), 0), 15, "nothing but ACKs passed");
        assert_eq!(missed.answers(&"b", (800, 15), 4), 11, "some were waited for");
        missed.note("b", 10_000, 0);
        assert_eq!(missed.answers(&"b", (800, 15), 0), 0, "the capture is whole");
        missed.note("b", 2_800, 256);
        // 2 % of 800 are 16, and chance adds 12.
        assert_eq!(missed.answers(&"b", (800, 15), 0), 15);
        assert_eq!(missed.answers(&"b", (800, 100), 0), 28);
        assert_eq!(missed.answers(&"b", (800, 15), 15), 0);
        assert_eq!(missed.answers(&"a", (800, 15), 0), 15, "of another tap nothing is known");
    }
}
