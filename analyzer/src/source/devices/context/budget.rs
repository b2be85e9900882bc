//! When queries may be sent: evenly, at most a number in any second, and not one after the other on a slow device.

use std::collections::VecDeque;

use crate::util::time::NS_PER_S;

/// Pause after a query, as a multiple of its duration, so that a device with slow firmware is not kept busy.
const REST: u64 = 9;
/// Maximum backlog of queries that is made up for at once, in time: that of two rounds of the thread that sends them.
const MOST_LATE_NS: u64 = 100_000_000;

/// Times are monotonic.
#[derive(Debug, Default)]
pub(super) struct Budget {
    pub(super) per_second: u32,
    /// Time of the next query.
    due_ns: u64,
    /// Times of the queries of the latest second.
    latest: VecDeque<u64>,
}

impl Budget {
    pub(super) fn new(per_second: u32) -> Self {
        Self { per_second, ..Self::default() }
    }

    /// Drops the backlog that is too old at this time.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.due_ns = self.due_ns.max(now_ns.saturating_sub(MOST_LATE_NS));
    }

    /// True if a query was due at `start_ns`, and the second before `now_ns` has room for it: what a pause left undone
    /// is no reason for more.
    pub(super) fn allows(&mut self, start_ns: u64, now_ns: u64) -> bool {
        while self.latest.front().is_some_and(|asked_ns| now_ns.saturating_sub(*asked_ns) >= NS_PER_S) {
            self.latest.pop_front();
        }
        self.latest.len() < self.per_second as usize && self.due_ns <= start_ns
    }

    /// There was nothing to ask: the time until now is no backlog.
    pub(super) fn skip(&mut self, now_ns: u64) {
        self.due_ns = now_ns;
    }

    /// A query was sent at this time, and took so long.
    pub(super) fn spend(&mut self, now_ns: u64, took_ns: u64) {
        self.latest.push_back(now_ns);
        let interval_ns = NS_PER_S / u64::from(self.per_second.max(1));
        self.due_ns += interval_ns.max(1).max(took_ns.saturating_mul(REST + 1));
    }
}
