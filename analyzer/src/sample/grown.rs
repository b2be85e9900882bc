//! The last growth of counters that have no times of their own, as between two readings of the kernel's.

use super::{FlowSample, Sample};

/// A counter of flows without times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UntimedCounter {
    /// NAKs for an invalid request.
    InvalidRequest,
    /// NAKs for a remote access error.
    AccessError,
    /// NAKs for a remote operational error.
    OperationalError,
    /// Packets with a PSN below the expected one.
    Repeats,
    /// RNR NAKs.
    RnrNaks,
}

/// All of them for a flow, in the order of [`UntimedCounter`].
fn counts(flow: &FlowSample) -> [u64; 5] {
    let (stats, rare) = (&flow.stats, &flow.stats.rare);
    let repeats = stats.psn.repeats.saturating_add(rare.psn_responses.repeats);
    [rare.naks[1], rare.naks[2], rare.naks[3], repeats, rare.rnr_naks]
}

/// A counter, summed over all flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastGrowth {
    pub(super) count: u64,
    /// Time of the latest reading in which it had grown, Unix nanoseconds; `None` before that.
    pub(super) last_ns: Option<u64>,
}

/// The time at which each counter last grew. Empty where signals have times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrownTimes {
    pub(super) counters: Vec<LastGrowth>,
}

impl GrownTimes {
    /// Takes the counts of a sample.
    pub fn take(&mut self, sample: &Sample) {
        let mut sums = [0_u64; 5];
        for flow in &*sample.flows {
            sums.iter_mut().zip(counts(flow)).for_each(|(sum, count)| *sum = sum.saturating_add(count));
        }
        self.counters.resize(sums.len(), LastGrowth::default());
        for (grown, count) in self.counters.iter_mut().zip(sums) {
            // A smaller sum means that a flow was retired.
            if count > grown.count {
                grown.last_ns = Some(sample.time_ns);
            }
            grown.count = count;
        }
    }

    /// Time of the latest reading in which a counter had grown, Unix nanoseconds.
    pub fn last_ns(&self, counter: UntimedCounter) -> Option<u64> {
        self.counters.get(counter as usize)?.last_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::{key, stats};

    #[test]
    fn the_latest_reading_with_more_is_kept() {
        let mut grown = GrownTimes::default();
        for (time_ns, naks) in [(1, 0), (2, 3), (3, 3), (4, 1), (5, 1)] {
            let mut own = stats(50_000, 1, 100);
            own.rare.rnr_naks = naks;
            let flows =
                vec![FlowSample { slot: 0, key: key(0, "10.0.0.1", "10.0.0.2", 17), stats: own }].into();
            grown.take(&Sample { time_ns, flows, ..Sample::default() });
        }
        assert_eq!(
            (grown.last_ns(UntimedCounter::RnrNaks), grown.last_ns(UntimedCounter::AccessError)),
            (Some(2), None)
        );
    }
}
