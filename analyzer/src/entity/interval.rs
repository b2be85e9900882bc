//! A time in which something showed without 10 s of silence.

use crate::util::definition::definitions;
use crate::util::small_list::SmallList;

definitions! {
    pub EPISODE_GAP_NS: u64 = 10_000_000_000,
        "Silence after which an episode has ended, in nanoseconds; also the time that screens average over",
        "The steps of training jobs are seconds apart at most, so that what comes with each of them is seen again within it";
}

/// Intervals kept of one kind; of more, the oldest become one.
pub const MOST: usize = 8;

/// A time in which something showed without 10 s of silence. `C` are the counts that a ratio is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval<C = u64> {
    /// Its beginning, Unix nanoseconds.
    pub first_ns: u64,
    /// Its end, so far.
    pub last_ns: u64,
    /// Number of signals, or increase of a counter; of a time, its sum in nanoseconds.
    pub count: u64,
    /// Counts before its first signal.
    pub at_first: C,
    /// Counts at its last signal, with what showed it.
    pub at_last: C,
}

/// A time that a later one can extend.
pub trait Lasting: Copy {
    /// Its end so far, Unix nanoseconds.
    fn last_ns(&self) -> u64;
    /// Adds a later one.
    fn extend(&mut self, later: Self);
}

/// Adds one to older ones: to the latest, if it shows (`shows_ns`) less than 10 s after that one's end.
pub fn add<S: Lasting>(one: S, intervals: &mut SmallList<S>, shows_ns: u64) {
    match intervals.last_mut() {
        Some(last) if shows_ns.saturating_sub(last.last_ns()) < EPISODE_GAP_NS => last.extend(one),
        _ => intervals.push(one),
    }
    if intervals.len() > MOST
        && let Some(mut oldest) = intervals.pop_front()
    {
        oldest.extend(intervals[0]);
        intervals[0] = oldest;
    }
}

impl<C: Copy> Lasting for Interval<C> {
    fn last_ns(&self) -> u64 {
        self.last_ns
    }

    fn extend(&mut self, later: Self) {
        self.first_ns = self.first_ns.min(later.first_ns);
        self.last_ns = self.last_ns.max(later.last_ns);
        self.count = self.count.saturating_add(later.count);
        self.at_last = later.at_last;
    }
}
