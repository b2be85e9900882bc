//! The last minutes of the header figures.

use std::collections::VecDeque;

use super::{Counts, Model};

/// Points kept: ten minutes at one sample per second.
pub const CAPACITY: usize = 600;

/// The header figures at one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Unix time in nanoseconds.
    pub time_ns: u64,
    /// What was counted since the point before; `None` when that is not known.
    pub counts: Option<Counts>,
    /// Length of that span in seconds.
    pub seconds: f64,
}

impl Point {
    /// A figure per second; `None` when it is not known.
    #[must_use]
    pub fn per_second(&self, figure: impl Fn(&Counts) -> u64) -> Option<f64> {
        self.counts.as_ref().filter(|_| self.seconds > 0.0).map(|c| figure(c) as f64 / self.seconds)
    }
}

/// A ring of [`Point`]s, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    points: VecDeque<Point>,
}

impl History {
    /// Takes the figures of `model`. A sample that is not later than the latest one starts anew.
    pub fn push(&mut self, model: &Model) {
        match self.points.back() {
            Some(last) if last.time_ns == model.time_ns => return,
            Some(last) if last.time_ns > model.time_ns => self.points.clear(),
            _ => {}
        }
        if self.points.len() == CAPACITY {
            self.points.pop_front();
        }
        let (counts, seconds) = model.delta.map_or((None, 0.0), |d| (Some(d.counts), d.seconds));
        self.points.push_back(Point { time_ns: model.time_ns, counts, seconds });
    }

    /// The latest `n` points, the oldest first.
    pub fn latest(&self, n: usize) -> impl Iterator<Item = &Point> {
        self.points.iter().skip(self.points.len().saturating_sub(n))
    }

    /// How many points there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// What was counted in the last `ns` before the latest point; `None` when there is no point
    /// with known figures in them.
    #[must_use]
    pub fn recent(&self, ns: u64) -> Option<Counts> {
        let since = self.points.back()?.time_ns.saturating_sub(ns);
        let mut sum = None;
        for counts in self.points.iter().rev().take_while(|p| p.time_ns > since).filter_map(|p| p.counts) {
            sum.get_or_insert_with(Counts::default).add(&counts);
        }
        sum
    }
}
