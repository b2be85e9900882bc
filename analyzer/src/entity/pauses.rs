//! Times in which a priority was paused, and in which queue pairs stood still meanwhile.

use super::interval::EPISODE_GAP_NS;
use crate::util::time::{NS_PER_S, keep_most};

/// Times kept; of more, the two that together last least become one.
const MOST: usize = 64;
/// Rest that ends a time of pauses of one intensity, in nanoseconds.
const REST_NS: u64 = NS_PER_S;

/// A time in which each window was paused about as much: the shares are within a factor of two of one another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PauseInterval {
    /// Beginning of its first window, Unix nanoseconds.
    pub first_ns: u64,
    /// End of its last window.
    pub last_ns: u64,
    /// Pause frames; `None` when they are not counted.
    pub frames: Option<u64>,
    /// Quanta that they asked for; `None` where frames are not read.
    pub quanta: Option<u64>,
    /// Time spent paused; `None` when it is not counted.
    pub paused_ns: Option<u64>,
    /// Largest paused share of a window; where the speed is not known, its lower bound.
    pub share: Option<f64>,
    /// Upper bound of the same, if time is not counted.
    pub most_share: Option<f64>,
    /// Most pause frames a second between two readings.
    pub worst_frames_per_s: Option<f64>,
    /// Longest pause until its end.
    pub longest_ns: Option<u64>,
}

impl PauseInterval {
    /// Shares of one level are within a factor of two.
    fn level(&self) -> f64 {
        self.share.or(self.most_share).unwrap_or(0.0).clamp(1e-6, 1.0).log2().floor()
    }

    /// Adds the pauses of another port or priority.
    pub fn add(&mut self, other: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (known, None) | (None, known) => known,
        };
        let most = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.frames = sum(self.frames, other.frames);
        self.quanta = sum(self.quanta, other.quanta);
        self.paused_ns = sum(self.paused_ns, other.paused_ns);
        self.share = most(self.share, other.share);
        self.most_share = most(self.most_share, other.most_share);
        self.worst_frames_per_s = most(self.worst_frames_per_s, other.worst_frames_per_s);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// The times in which one priority was paused, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PauseIntervals(pub Vec<PauseInterval>);

impl PauseIntervals {
    /// Adds a window with pauses, none before the last one.
    pub fn add(&mut self, window: &PauseInterval) {
        match self.0.last_mut() {
            Some(last)
                if (last.level() - window.level()).abs() < 0.5
                    && window.first_ns.saturating_sub(last.last_ns) < REST_NS =>
            {
                last.add(window);
            }
            _ => self.0.push(*window),
        }
        keep_most(&mut self.0, MOST, |one| (one.first_ns, one.last_ns), PauseInterval::add);
    }

    /// Adds those of another port.
    pub fn join(&mut self, other: &Self) {
        let mut all = std::mem::take(&mut self.0);
        all.extend(&other.0);
        all.sort_by_key(|one| one.first_ns);
        for one in &all {
            self.add(one);
        }
    }
}

/// The latest time in which something stood still, without 10 s of rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stall {
    /// Begin, Unix nanoseconds.
    pub first_ns: u64,
    /// End, Unix nanoseconds.
    pub last_ns: u64,
    /// Time in which it stood still.
    pub stalled_ns: u64,
}

impl Stall {
    /// It stood still for a part of the time between these two.
    pub fn add(&mut self, (first_ns, last_ns): (u64, u64), stalled_ns: u64) {
        if self.stalled_ns == 0 || first_ns.saturating_sub(self.last_ns) >= EPISODE_GAP_NS {
            *self = Self { first_ns, last_ns, stalled_ns };
        } else {
            self.last_ns = last_ns;
            self.stalled_ns = self.stalled_ns.saturating_add(stalled_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn window(second: u64, share: f64) -> PauseInterval {
        let (first_ns, last_ns) = (second * S, (second + 1) * S);
        PauseInterval { first_ns, last_ns, frames: Some(1), share: Some(share), ..PauseInterval::default() }
    }

    #[test]
    fn windows_paused_about_as_much_become_one() {
        let mut intervals = PauseIntervals::default();
        for (second, share) in [(0, 0.01), (1, 0.011), (2, 0.9), (3, 0.8), (4, 0.01), (9, 0.01)] {
            intervals.add(&window(second, share));
        }
        let times: Vec<_> = intervals.0.iter().map(|one| (one.first_ns / S, one.last_ns / S)).collect();
        assert_eq!(times, [(0, 2), (2, 4), (4, 5), (9, 10)]);
        assert_eq!((intervals.0[1].share, intervals.0[1].frames), (Some(0.9), Some(2)));
    }

    #[test]
    fn memory_is_bounded_and_every_frame_stays_counted() {
        let mut intervals = PauseIntervals::default();
        for n in 0..10_000 {
            intervals.add(&window(n * 3, if n % 7 == 0 { 0.5 } else { 0.02 }));
        }
        assert_eq!(intervals.0.len(), MOST);
        assert_eq!(intervals.0.iter().filter_map(|one| one.frames).sum::<u64>(), 10_000);
        assert!(intervals.0.windows(2).all(|pair| pair[0].last_ns <= pair[1].first_ns));
    }

    #[test]
    fn stalls_ten_seconds_apart_are_others() {
        let mut stall = Stall::default();
        stall.add((S, 2 * S), S);
        stall.add((11 * S, 12 * S), S);
        assert_eq!(stall, Stall { first_ns: S, last_ns: 12 * S, stalled_ns: 2 * S });
        stall.add((22 * S, 23 * S), S / 2);
        assert_eq!(stall, Stall { first_ns: 22 * S, last_ns: 23 * S, stalled_ns: S / 2 });
    }
}
