//! The CNPs of one flow, counted alike in replay and live.

use rocescope_common::account::latency::{BUCKETS, bucket};

use super::CnpFigure;
use crate::metrics::latency::Summary;

/// CNPs of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Cnps {
    count: u64,
    first_ns: u64,
    last_ns: u64,
    min_gap_ns: Option<u64>,
    delays: [u32; BUCKETS],
    delay_max: u64,
    /// CNPs while the flow that they answer is observed at this tap, but no mark since the CNP before.
    without_mark: u64,
}

impl Cnps {
    /// None yet; the first comes at this time.
    pub(crate) const fn new(time_ns: u64) -> Self {
        Self {
            count: 0,
            first_ns: time_ns,
            last_ns: time_ns,
            min_gap_ns: None,
            delays: [0; BUCKETS],
            delay_max: 0,
            without_mark: 0,
        }
    }

    /// Counts one more CNP, at `time_ns`.
    pub(crate) fn add(&mut self, time_ns: u64) {
        if self.count > 0
            && let Some(gap) = time_ns.checked_sub(self.last_ns)
        {
            self.min_gap_ns = Some(self.min_gap_ns.map_or(gap, |least| least.min(gap)));
        }
        self.count += 1;
        self.first_ns = self.first_ns.min(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
    }

    /// It came this long after the first CE mark since the CNP before.
    pub(crate) fn after_mark(&mut self, delay_ns: u64) {
        let count = &mut self.delays[bucket(delay_ns) % BUCKETS];
        *count = count.saturating_add(1);
        self.delay_max = self.delay_max.max(delay_ns);
    }

    /// There was no mark since the CNP before.
    pub(crate) const fn without_mark(&mut self) {
        self.without_mark += 1;
    }

    /// The figures so far, without those of the flow that is answered.
    pub(crate) fn figure(&self) -> CnpFigure {
        CnpFigure {
            answers: None,
            count: self.count,
            first_ns: self.first_ns,
            last_ns: self.last_ns,
            min_gap_ns: self.min_gap_ns,
            delay: Summary::of(&self.delays.map(u64::from), self.delay_max),
            without_mark: Some(self.without_mark),
            reaction: None,
        }
    }
}
