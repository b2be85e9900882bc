//! Times at which something went wrong, counted one by one.

/// Number, length and size of episodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Episodes {
    /// Number of episodes.
    pub count: u64,
    /// Length of the longest in nanoseconds.
    pub longest_ns: u64,
    /// Sum of their lengths in nanoseconds.
    pub total_ns: u64,
    /// PSNs or packets in the largest.
    pub largest: u64,
    /// Start of the first, Unix nanoseconds; 0 when there was none.
    pub first_ns: u64,
    /// End of the last.
    pub last_ns: u64,
}

/// Episodes and the one under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tracker {
    done: Episodes,
    now: Option<Episode>,
}

#[derive(Clone, Copy, Debug)]
struct Episode {
    start_ns: u64,
    end_ns: u64,
    packets: u64,
    /// Time before the start, and between its parts, that belongs to its length.
    waited_ns: u64,
}

impl Episode {
    const fn length_ns(&self) -> u64 {
        self.end_ns - self.start_ns + self.waited_ns
    }
}

impl Tracker {
    /// `packets` went wrong between two times. Belongs to the episode under way when it began before
    /// that ended.
    pub(super) fn note(&mut self, start_ns: u64, end_ns: u64, packets: u64) {
        self.note_after(0, (start_ns, end_ns), packets);
    }

    /// The same after a silence, which belongs to the length of the episode and neither begins nor joins one.
    pub(super) fn note_after(&mut self, waited_ns: u64, (start_ns, end_ns): (u64, u64), packets: u64) {
        match &mut self.now {
            Some(now) if start_ns <= now.end_ns => {
                now.end_ns = end_ns.max(now.end_ns);
                now.start_ns = start_ns.min(now.start_ns);
                now.packets += packets;
                now.waited_ns += waited_ns;
            }
            _ => {
                self.done = self.metrics();
                self.now = Some(Episode { start_ns, end_ns: end_ns.max(start_ns), packets, waited_ns });
            }
        }
    }

    /// One packet of the latest episode turned out to be all right.
    pub(super) fn take_back(&mut self) {
        if let Some(now) = &mut self.now {
            now.packets = now.packets.saturating_sub(1);
            if now.packets == 0 {
                self.now = None;
            }
        }
    }

    /// Beginning and end of the episode under way.
    pub(super) fn under_way(&self) -> Option<(u64, u64)> {
        self.now.map(|now| (now.start_ns, now.end_ns))
    }

    /// All episodes, the one under way included.
    pub(super) fn metrics(&self) -> Episodes {
        let mut all = self.done;
        if let Some(now) = self.now {
            all.count += 1;
            all.longest_ns = all.longest_ns.max(now.length_ns());
            all.total_ns += now.length_ns();
            all.largest = all.largest.max(now.packets);
            all.first_ns = if all.count == 1 { now.start_ns } else { all.first_ns.min(now.start_ns) };
            all.last_ns = all.last_ns.max(now.end_ns);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ones_are_one() {
        let mut tracker = Tracker::default();
        tracker.note(10, 20, 1);
        tracker.note(15, 40, 2);
        tracker.note(50, 50, 1);
        let episodes =
            Episodes { count: 2, longest_ns: 30, total_ns: 30, largest: 3, first_ns: 10, last_ns: 50 };
        assert_eq!(tracker.metrics(), episodes);
        tracker.take_back();
        assert_eq!(tracker.metrics(), Episodes { count: 1, last_ns: 40, ..episodes });
        tracker.take_back();
        assert_eq!(tracker.metrics().count, 1);
    }

    #[test]
    fn the_silence_before_one_belongs_to_its_length() {
        let mut tracker = Tracker::default();
        tracker.note(10, 20, 1);
        tracker.note_after(80, (100, 120), 2);
        let episodes =
            Episodes { count: 2, longest_ns: 100, total_ns: 110, largest: 2, first_ns: 10, last_ns: 120 };
        assert_eq!(tracker.metrics(), episodes);
    }
}
