//! Load and signals of each link over the whole run: points of equal length in bounded memory.
//!
//! Points begin as the [bins](super::traffic::bins) of bursts, which have the traffic. Two become one whenever a run
//! outgrows [`POINTS`] of them, so that a capture of a second has as full a timeline as one of an hour. They begin at
//! multiples of their length: those of several links can be laid over one another.

use std::sync::Arc;

/// Points kept of a link.
pub const POINTS: usize = 2048;
/// Links that have points of their own; those beyond are added to the last of them.
pub const LINKS: usize = 64;

/// Load and signals of one point of time. All are packets unless their name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Bytes of the outer frames.
    pub bytes: u64,
    /// ECN-capable data packets, marked ones included.
    pub capable: u32,
    /// Number of signals, by [`SignalKind`].
    pub signals: [u32; SignalKind::ALL.len()],
}

/// A signal that points count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalKind {
    /// Packets lost upstream of the link.
    Lost,
    /// Packets retransmitted.
    Retransmitted,
    /// NAKs but RNR.
    Nak,
    /// RNR NAKs.
    Rnr,
    /// Packets marked CE.
    Ce,
    /// Congestion notification packets.
    Cnp,
    /// Packets with a wrong ICRC.
    WrongIcrc,
}

impl SignalKind {
    /// All kinds, in order.
    pub const ALL: [Self; 7] =
        [Self::Lost, Self::Retransmitted, Self::Nak, Self::Rnr, Self::Ce, Self::Cnp, Self::WrongIcrc];
}

impl Point {
    /// Adds the counts of another point.
    pub fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.capable = self.capable.saturating_add(other.capable);
        for (own, other) in self.signals.iter_mut().zip(other.signals) {
            *own = own.saturating_add(other);
        }
    }
}

/// The points of one link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkPoints {
    /// Number of the first point: Unix time over [`length_ns`](Self::length_ns).
    pub first: u64,
    /// Length of a bin in nanoseconds; 0 where only their numbers are known.
    pub(super) bin_ns: u64,
    /// Bins to a point, as a power of two.
    shift: u32,
    /// The points, the oldest first.
    pub points: Vec<Point>,
}

impl LinkPoints {
    /// Length of a point in nanoseconds.
    pub const fn length_ns(&self) -> u64 {
        self.bin_ns.saturating_mul(1 << self.shift)
    }

    /// These points of a length, for tests.
    #[cfg(test)]
    pub(crate) const fn of(bin_ns: u64, first: u64, points: Vec<Point>) -> Self {
        Self { first, bin_ns, shift: 0, points }
    }

    /// The same in points of at least this length, a power of two of that of the bins.
    #[must_use]
    pub fn folded(&self, length_ns: u64) -> Self {
        let mut folded = self.clone();
        while folded.length_ns() < length_ns && folded.shift < MOST_SHIFT {
            folded.halve();
        }
        folded
    }

    /// Adds what happened in a bin. One before the first point is in the first.
    pub(super) fn add(&mut self, bin: u64, more: &Point) {
        if self.points.is_empty() {
            self.first = bin >> self.shift;
        }
        self.fit(self.first << self.shift, bin);
        let place = usize::try_from((bin >> self.shift).saturating_sub(self.first)).unwrap_or(POINTS - 1);
        if place >= self.points.len() {
            self.points.resize(place + 1, Point::default());
        }
        self.points[place].add(more);
    }

    /// Adds the points of another link, or other figures of this one, in bins of the same length.
    pub(super) fn add_all(&mut self, other: &Self) {
        while self.shift < other.shift {
            self.halve();
        }
        self.reach_back(other);
        for (number, point) in (other.first..).zip(&other.points) {
            self.add(number << other.shift, point);
        }
    }

    /// Begins where another begins, if that is earlier.
    fn reach_back(&mut self, other: &Self) {
        let begin = |this: &Self| (other.first << other.shift) >> this.shift;
        if self.points.is_empty() || other.points.is_empty() {
            return;
        }
        let last = self.first.saturating_add(self.points.len() as u64 - 1);
        self.fit(other.first << other.shift, last << self.shift);
        let earlier = self.first.saturating_sub(begin(self));
        if let Ok(earlier) = usize::try_from(earlier) {
            self.points.splice(..0, std::iter::repeat_n(Point::default(), earlier));
            self.first = begin(self).min(self.first);
        }
    }

    /// Halves until there is a point for each bin from one to another.
    fn fit(&mut self, first_bin: u64, last_bin: u64) {
        let points = |this: &Self| (last_bin >> this.shift).saturating_sub(first_bin >> this.shift);
        while points(self) >= POINTS as u64 && self.shift < MOST_SHIFT {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let alone = usize::from(!self.first.is_multiple_of(2)).min(self.points.len());
        let (one, pairs) = self.points.split_at(alone);
        let sum = |points: &[Point]| {
            points.iter().fold(Point::default(), |mut sum, point| {
                sum.add(point);
                sum
            })
        };
        self.points = one.chunks(1).chain(pairs.chunks(2)).map(sum).collect();
        self.first /= 2;
        self.shift += 1;
    }

    /// The number of the latest signals of a kind that turned out to be none.
    fn take_back(&mut self, kind: SignalKind, count: u64) {
        let mut left = u32::try_from(count).unwrap_or(u32::MAX);
        for point in self.points.iter_mut().rev() {
            let own = &mut point.signals[kind as usize];
            let taken = left.min(*own);
            *own -= taken;
            left -= taken;
            if left == 0 {
                return;
            }
        }
    }
}

/// At this length [`POINTS`] points hold every bin that there can be.
const MOST_SHIFT: u32 = 53;

/// The points of every link at a moment.
pub type Timeline = Arc<Vec<LinkPoints>>;

/// Collects the signals of every link.
#[derive(Debug)]
pub(super) struct Recorder {
    bin_ns: u64,
    links: Vec<LinkPoints>,
}

impl Recorder {
    /// Nothing seen yet, in bins of this length.
    pub(super) fn new(bin_ns: u64) -> Self {
        Self { bin_ns: bin_ns.max(1), links: Vec::new() }
    }

    fn link(&mut self, link: u16) -> &mut LinkPoints {
        let at = place(usize::from(link));
        if at >= self.links.len() {
            self.links.resize_with(at + 1, || LinkPoints { bin_ns: self.bin_ns, ..LinkPoints::default() });
        }
        &mut self.links[at]
    }

    /// A signal showed so often on a link.
    pub(super) fn note(&mut self, link: u16, kind: SignalKind, time_ns: u64, count: u64) {
        let mut point = Point::default();
        point.signals[kind as usize] = u32::try_from(count).unwrap_or(u32::MAX);
        let bin = time_ns / self.bin_ns;
        self.link(link).add(bin, &point);
    }

    /// The number of the latest on a link that turned out to be none.
    pub(super) fn take_back(&mut self, link: u16, kind: SignalKind, count: u64) {
        self.link(link).take_back(kind, count);
    }

    /// The signals of each link so far.
    pub(super) fn links(&self) -> Vec<LinkPoints> {
        self.links.clone()
    }

    /// Timeline so far, with the traffic of each link.
    pub(super) fn timeline(&self, traffic: impl Iterator<Item = LinkPoints>) -> Vec<LinkPoints> {
        let mut all = self.links.clone();
        add_to(&mut all, traffic);
        all
    }
}

/// Adds other figures of each link to a timeline with bins of the same length.
pub(super) fn add_to(all: &mut Vec<LinkPoints>, more: impl Iterator<Item = LinkPoints>) {
    for (link, more) in more.enumerate() {
        let at = place(link);
        if at >= all.len() {
            all.resize_with(at + 1, LinkPoints::default);
        }
        if all[at].points.is_empty() {
            all[at] = more;
        } else {
            all[at].add_all(&more);
        }
    }
}

/// The place of a link's points.
fn place(link: usize) -> usize {
    link.min(LINKS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::util::time::NS_PER_S as S;
    const BIN_NS: u64 = 1_000_000;

    fn sums(points: &LinkPoints) -> (u64, u32) {
        let lost = points.points.iter().map(|point| point.signals[SignalKind::Lost as usize]).sum();
        (points.points.iter().map(|point| point.bytes).sum(), lost)
    }

    fn traffic(time_ns: u64, into: &mut LinkPoints) {
        into.bin_ns = BIN_NS;
        into.add(time_ns / BIN_NS, &Point { bytes: 100, ..Point::default() });
    }

    /// A packet of 100 bytes every 10 ms for `seconds`; from the middle on every tenth is lost.
    fn run(seconds: u64) -> LinkPoints {
        let mut recorder = Recorder::new(BIN_NS);
        let mut packets = LinkPoints::default();
        for i in 0..seconds * 100 {
            let time_ns = 1_000_000 * S + i * S / 100;
            traffic(time_ns, &mut packets);
            if i >= seconds * 50 && i % 10 == 0 {
                recorder.note(1, SignalKind::Lost, time_ns, 1);
            }
        }
        recorder.timeline([LinkPoints::default(), packets].into_iter()).swap_remove(1)
    }

    #[test]
    fn a_run_of_any_length_fills_half_of_the_points_or_is_in_bins() {
        for (seconds, length_ns) in [(1, BIN_NS), (2, BIN_NS), (60, 32 * BIN_NS), (3_600, 2_048 * BIN_NS)] {
            let points = run(seconds);
            assert_eq!(points.length_ns(), length_ns, "{seconds} s");
            assert!(points.points.len() <= POINTS);
            assert_eq!(sums(&points), (seconds * 10_000, u32::try_from(seconds * 5).unwrap()));
            let first_lost = points.points.iter().position(|point| point.signals[0] > 0).unwrap() as u64;
            let at_ns = (points.first + first_lost) * points.length_ns();
            assert!(at_ns.abs_diff(1_000_000 * S + seconds * S / 2) <= length_ns, "{seconds} s: {at_ns}");
            // Traffic before the first loss is where it was.
            assert_eq!(points.first, 1_000_000 * S / length_ns, "{seconds} s");
            let most = points.points.iter().map(|point| point.bytes).max().unwrap();
            assert!(most <= (length_ns / (10 * BIN_NS) + 1) * 100, "{seconds} s: {most} bytes in a point");
            let folded = points.folded(8 * length_ns);
            assert_eq!((folded.length_ns(), sums(&folded)), (8 * length_ns, sums(&points)));
        }
    }

    #[test]
    fn what_turns_out_to_be_none_is_taken_from_the_latest() {
        let mut recorder = Recorder::new(BIN_NS);
        for (ms, count) in [(0, 5), (10, 3), (20, 1)] {
            recorder.note(0, SignalKind::Lost, S + ms * BIN_NS, count);
        }
        recorder.take_back(0, SignalKind::Lost, 2);
        recorder.take_back(0, SignalKind::Nak, 7);
        let points = &recorder.timeline(std::iter::empty())[0].points;
        let lost = |at: usize| points[at].signals[0];
        assert_eq!((lost(0), lost(10), lost(20)), (5, 2, 0));
    }

    #[test]
    fn times_far_apart_and_backwards_stay_within_bounds() {
        let mut recorder = Recorder::new(1);
        let mut packets = LinkPoints::default();
        for time_ns in [u64::MAX / 2, 0, u64::MAX, 5, 1] {
            packets.bin_ns = 1;
            packets.add(time_ns, &Point { bytes: 1, ..Point::default() });
            recorder.note(u16::MAX, SignalKind::Cnp, time_ns, 1);
        }
        let links = recorder.timeline(std::iter::repeat_n(packets, 2 * LINKS));
        assert_eq!(links.len(), LINKS);
        // The links beyond the last have their traffic there.
        assert_eq!(sums(&links[LINKS - 1]).0, 5 * (LINKS as u64 + 1));
        assert!(links.iter().all(|link| link.points.len() <= POINTS && link.length_ns() > 0));
    }
}
