//! Readings of the NIC's own contexts of queue pairs, for their charts. Their number is that of the queries: some tens
//! a second, whatever the number of queue pairs.

use std::collections::VecDeque;
use std::sync::Arc;

use super::psn_rates::{PsnCounts, Rates};
use crate::entity::contexts::{ContextSample, Contexts};
use crate::model::history::KEPT_NS;
use crate::util::map::Map;
use crate::util::time::seconds;

/// Of one queue pair.
const MOST: usize = 600;

/// Readings by device and number.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    by: Map<(String, u32), VecDeque<ReadingPoint>>,
    latest: Option<Arc<Contexts>>,
}

/// Reading of a queue pair's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadingPoint {
    /// Time of the reading, Unix nanoseconds.
    pub time_ns: u64,
    /// Number of packets in flight.
    pub in_flight: Option<u32>,
    /// Retries in use.
    pub retries_used: Option<u8>,
    /// Packets.
    pub counts: PsnCounts,
}

impl ReadingPoint {
    fn of(sample: &ContextSample) -> Self {
        Self {
            time_ns: sample.read_ns,
            in_flight: sample.in_flight,
            retries_used: sample.retries_used,
            counts: PsnCounts { sent: sample.sent, received: sample.received, ambiguous: sample.ambiguous },
        }
    }

    /// Packets a second since an earlier reading.
    pub fn rates_since(&self, then: &Self) -> Rates {
        self.counts.per_second(then.counts, seconds(self.time_ns.saturating_sub(then.time_ns)))
    }
}

impl Readings {
    /// Takes in the contexts of a sample.
    pub fn push(&mut self, contexts: &Arc<Contexts>) {
        if self.latest.as_ref().is_some_and(|latest| Arc::ptr_eq(latest, contexts)) {
            return;
        }
        let newest = contexts.qps.iter().map(|qp| qp.read_ns).max().unwrap_or(0);
        for qp in &contexts.qps {
            let kept = self.by.entry((qp.device.clone(), qp.lqpn)).or_default();
            let last = kept.back().map(|last| last.time_ns);
            if last.is_some_and(|last| qp.read_ns < last) {
                // The number is in use again, or the source restarted.
                kept.clear();
            }
            if last != Some(qp.read_ns) {
                kept.push_back(ReadingPoint::of(qp));
            }
            let old = |first: &ReadingPoint| first.time_ns.saturating_add(KEPT_NS) < newest;
            while kept.len() > MOST || kept.len() > 1 && kept.front().is_some_and(old) {
                kept.pop_front();
            }
        }
        if self.by.len() > 2 * contexts.qps.len() {
            // Most of them have ended.
            let old = |last: &ReadingPoint| last.time_ns.saturating_add(KEPT_NS) < newest;
            self.by.retain(|_, kept| !kept.back().is_none_or(old));
        }
        self.latest = Some(Arc::clone(contexts));
    }

    /// The readings of a queue pair, the oldest first.
    pub fn of(&self, device: &str, lqpn: u32) -> impl Iterator<Item = &ReadingPoint> {
        self.by.get(&(device.to_owned(), lqpn)).into_iter().flatten()
    }

    /// Packets a second that it sent and received between its two latest readings.
    pub fn rates(&self, device: &str, lqpn: u32) -> Rates {
        let Some(kept) = self.by.get(&(device.to_owned(), lqpn)) else { return (None, None) };
        let mut newest = kept.iter().rev();
        let (Some(now), Some(then)) = (newest.next(), newest.next()) else { return (None, None) };
        now.rates_since(then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::util::time::NS_PER_S as SECOND;

    fn at(seconds: u64, sent: u64) -> Arc<Contexts> {
        let qp = ContextSample {
            device: "mlx5_0".into(),
            lqpn: 17,
            read_ns: seconds * SECOND,
            sent: Some(sent),
            ..ContextSample::default()
        };
        Arc::new(Contexts { qps: vec![qp], ..Contexts::default() })
    }

    #[test]
    fn readings_are_kept_once_and_for_ten_minutes() {
        let mut readings = Readings::default();
        assert_eq!(readings.rates("mlx5_0", 17), (None, None));
        for seconds in [10, 10, 12] {
            readings.push(&at(seconds, 100 * seconds));
        }
        assert_eq!(readings.of("mlx5_0", 17).count(), 2, "the same reading in two samples is one");
        assert_eq!(readings.rates("mlx5_0", 17), (Some(100.0), None));
        readings.push(&at(615, 70_000));
        assert_eq!(readings.of("mlx5_0", 17).count(), 1, "{readings:?}");
        readings.push(&at(3, 5));
        assert_eq!(readings.of("mlx5_0", 17).count(), 1, "the source restarted");
        for seconds in 4..4 + 2 * MOST as u64 {
            readings.push(&at(seconds, 5));
        }
        assert!(readings.of("mlx5_0", 17).count() <= MOST);
    }

    #[test]
    fn a_psn_that_may_have_wrapped_has_no_rate_until_the_next_reading() {
        let mut readings = Readings::default();
        for (seconds, ambiguous, expected) in
            [(1, 0, None), (2, 0, Some(100.0)), (3, 1, None), (4, 1, Some(100.0))]
        {
            let mut contexts = Contexts::clone(&at(seconds, 100 * seconds));
            contexts.qps[0].ambiguous = ambiguous;
            readings.push(&Arc::new(contexts));
            assert_eq!(readings.rates("mlx5_0", 17).0, expected, "{seconds}");
        }
    }
}
