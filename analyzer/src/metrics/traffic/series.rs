//! Activity over time in bounded memory: the latest bins as they are, and the whole run more and more coarsely.

use std::collections::VecDeque;

/// Points that are kept of each series.
pub const POINTS: usize = 8192;

/// Bytes of the latest bins.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    bins: VecDeque<u32>,
    last: u64,
}

impl Recent {
    /// Takes in a bin behind the last one; those between had no traffic.
    pub fn add(&mut self, index: u64, bytes: u64) {
        if !self.bins.is_empty() {
            let idle = index.saturating_sub(self.last).saturating_sub(1);
            if idle >= POINTS as u64 {
                self.bins.clear();
            } else {
                for _ in 0..idle {
                    self.push(0);
                }
            }
        }
        self.push(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.last = index;
    }

    fn push(&mut self, bytes: u32) {
        if self.bins.len() == POINTS {
            self.bins.pop_front();
        }
        self.bins.push_back(bytes);
    }

    /// Bytes per bin, oldest first.
    pub fn points(&self) -> Vec<u32> {
        self.bins.iter().copied().collect()
    }
}

/// Bytes of all bins since the first; when there is no room, two points become one.
#[derive(Clone, Debug)]
pub struct Decimated {
    /// Number of the first point: points begin at multiples of their length, so that those of several series can be
    /// laid over one another.
    first: Option<u64>,
    points: Vec<u64>,
    /// Bins to a point: a power of two.
    bins: u64,
}

impl Default for Decimated {
    fn default() -> Self {
        Self { first: None, points: Vec::new(), bins: 1 }
    }
}

impl Decimated {
    /// Takes in a bin; one before the first is left out.
    pub fn add(&mut self, index: u64, bytes: u64) {
        let point = index / self.bins;
        if *self.first.get_or_insert(point) > point {
            return;
        }
        let ahead = |this: &Self| (index / this.bins).saturating_sub(this.first_point());
        while ahead(self) >= POINTS as u64 {
            self.halve();
        }
        let Ok(at) = usize::try_from(ahead(self)) else { return };
        if at >= self.points.len() {
            self.points.resize(at + 1, 0);
        }
        if let Some(point) = self.points.get_mut(at) {
            *point += bytes;
        }
    }

    fn halve(&mut self) {
        let first = self.first_point();
        let alone = usize::from(!first.is_multiple_of(2)).min(self.points.len());
        let (one, pairs) = self.points.split_at(alone);
        self.points = one.chunks(1).chain(pairs.chunks(2)).map(|pair| pair.iter().sum()).collect();
        self.bins = self.bins.saturating_mul(2);
        self.first = Some(first / 2);
    }

    fn first_point(&self) -> u64 {
        self.first.unwrap_or(0)
    }

    /// Number of the bin that the first point begins with.
    pub fn first_bin(&self) -> u64 {
        self.first_point().saturating_mul(self.bins)
    }

    /// Bytes per point, oldest first.
    pub fn points(&self) -> Vec<u64> {
        self.points.clone()
    }

    /// Bins to a point.
    pub fn bins_per_point(&self) -> u64 {
        self.bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_bins_with_their_silences() {
        let mut recent = Recent::default();
        for index in [5, 6, 9] {
            recent.add(index, index);
        }
        assert_eq!(recent.points(), [5, 6, 0, 0, 9]);
        recent.add(1_000_000, 1);
        assert_eq!(recent.points(), [1]);
        for index in 0..3 * POINTS as u64 {
            recent.add(1_000_001 + index, u64::MAX);
        }
        assert_eq!(recent.points().len(), POINTS);
    }

    #[test]
    fn a_long_run_keeps_its_sum() {
        let mut long = Decimated::default();
        for index in 0..100_000 {
            long.add(7 + index, 2);
        }
        assert_eq!((long.bins_per_point(), long.first_bin()), (16, 0));
        assert_eq!(long.points().iter().sum::<u64>(), 200_000);
        // The first point has bins 0 to 15, of which 7 to 15 came.
        assert_eq!(long.points().first_chunk(), Some(&[18, 32]));
        let mut late = Decimated::default();
        late.add(1 << 20, 1);
        late.add(3, 1000);
        assert_eq!((late.points(), late.first_bin()), (vec![1], 1 << 20));
        long.add(u64::MAX, 1);
        assert!(long.points().len() <= POINTS);
    }
}
