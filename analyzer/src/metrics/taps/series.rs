//! A difference of times over time, in few points.

/// Points of a series, at most.
const POINTS: usize = 32;
/// Width of a point at first; doubled whenever the series has grown too long.
const FIRST_WIDTH_NS: u64 = 1_000_000;

/// Change of a one-way delay, in nanoseconds. A constant difference of the clocks shifts all values alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    start_ns: u64,
    width_ns: u64,
    /// Smallest and largest difference in each span of time. The delay that queues add varies: the smallest
    /// value shows clocks and distance.
    points: [Option<Range>; POINTS],
    all: Range,
}

/// From the smallest difference to the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    min: i64,
    max: i64,
}

impl Range {
    fn join(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    fn reversed(self) -> Self {
        Self { min: self.max.saturating_neg(), max: self.min.saturating_neg() }
    }
}

impl Series {
    /// A series that begins with this difference.
    pub fn new(time_ns: u64, difference: i64) -> Self {
        let all = Range { min: difference, max: difference };
        let mut points = [None; POINTS];
        points[0] = Some(all);
        Self { start_ns: time_ns, width_ns: FIRST_WIDTH_NS, points, all }
    }

    /// Adds a difference. A time before the first point counts as that of the first.
    pub fn add(&mut self, time_ns: u64, difference: i64) {
        let one = Range { min: difference, max: difference };
        self.all = self.all.join(one);
        let age = time_ns.saturating_sub(self.start_ns);
        while age / self.width_ns >= POINTS as u64 {
            let old = self.points;
            for (at, point) in self.points.iter_mut().enumerate() {
                let pair = [old.get(2 * at), old.get(2 * at + 1)];
                *point = pair.into_iter().flatten().flatten().copied().reduce(Range::join);
            }
            self.width_ns = self.width_ns.saturating_mul(2);
        }
        let at = usize::try_from(age / self.width_ns).unwrap_or(usize::MAX);
        if let Some(point) = self.points.get_mut(at) {
            *point = Some(point.map_or(one, |range| range.join(one)));
        }
    }

    /// The smallest and the largest difference.
    pub fn range(&self) -> (i64, i64) {
        (self.all.min, self.all.max)
    }

    /// The same in the first span of time.
    pub fn at_first(&self) -> (i64, i64) {
        let first = self.points.iter().flatten().next().unwrap_or(&self.all);
        (first.min, first.max)
    }

    /// Start of each span of time, and the smallest difference in it.
    pub fn points(&self) -> impl Iterator<Item = (u64, i64)> + '_ {
        (0..).zip(&self.points).filter_map(|(at, point)| {
            let start_ns = self.start_ns.saturating_add(self.width_ns.saturating_mul(at));
            point.map(|range| (start_ns, range.min))
        })
    }

    /// The same as seen from the other end.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let points = self.points.map(|point| point.map(Range::reversed));
        Self { points, all: self.all.reversed(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_has_few_points_and_keeps_the_least() {
        let mut series = Series::new(1_000, 500);
        for i in 0..100_000u64 {
            let queue = if i % 7 == 0 { 0 } else { 300 };
            series.add(1_000 + i * 100_000, 500 + i.cast_signed() / 100 + queue);
        }
        let points: Vec<_> = series.points().collect();
        assert!(points.len() > POINTS / 2 && points.len() <= POINTS, "{}", points.len());
        assert_eq!(points[0], (1_000, 500));
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
        assert_eq!(series.range(), (500, 500 + 999 + 300));
        // Years ahead, and before the first.
        series.add(u64::MAX, 7);
        series.add(0, -3);
        assert_eq!(series.range().0, -3);
        assert_eq!(series.reversed().range(), (-1799, 3));
    }
}
