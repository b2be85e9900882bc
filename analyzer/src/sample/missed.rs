//! Times in which the source missed packets, or parts of what it keeps of them.

use super::Sample;
use crate::entity::interval::{self, Lasting};
use crate::util::small_list::SmallList;

/// The packets and events that a source missed, by kind; as in `totals.lost` of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissedCounts {
    /// RoCE packets that found the flow table full.
    pub flow_table_full: u64,
    /// RoCE packets that did not get at their flow's counters.
    pub contended: u64,
    /// Packets whose source port or opcode found the overflow table full.
    pub extra_table_full: u64,
    /// Events that did not reach user space.
    pub events: u64,
    /// Packets that are in no bin.
    pub bins: u64,
    /// Packets that the interfaces dropped on receipt.
    pub interface_drops: u64,
}

impl MissedCounts {
    /// The packets and events that a sample has missed since its source began.
    pub fn of(sample: &Sample) -> Self {
        let mut missed = Self {
            events: sample.events_dropped.unwrap_or(0),
            bins: sample.metrics.traffic.as_ref().and_then(|traffic| traffic.lost_packets()).unwrap_or(0),
            interface_drops: sample.interface_drops.unwrap_or(0),
            ..Self::default()
        };
        for link in &sample.links {
            missed.flow_table_full += link.flow_table_full.packets;
            missed.contended += link.contended.packets;
            missed.extra_table_full += link.extra_full;
        }
        missed
    }

    /// Of these, packets that no flow counts.
    pub const fn packets(&self) -> u64 {
        self.flow_table_full.saturating_add(self.contended).saturating_add(self.interface_drops)
    }

    fn zip(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            flow_table_full: of(self.flow_table_full, other.flow_table_full),
            contended: of(self.contended, other.contended),
            extra_table_full: of(self.extra_table_full, other.extra_table_full),
            events: of(self.events, other.events),
            bins: of(self.bins, other.bins),
            interface_drops: of(self.interface_drops, other.interface_drops),
        }
    }
}

/// A time in which something was missed, without 10 s in which nothing was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissedInterval {
    /// The latest time known to be before it, or of its first packet. Unix nanoseconds.
    pub first_ns: u64,
    /// The time at which the last of it was known.
    pub last_ns: u64,
    /// The packets and events missed.
    pub missed: MissedCounts,
}

impl Lasting for MissedInterval {
    fn last_ns(&self) -> u64 {
        self.last_ns
    }

    fn extend(&mut self, later: Self) {
        self.last_ns = self.last_ns.max(later.last_ns);
        self.missed = self.missed.zip(&later.missed, u64::saturating_add);
    }
}

/// All such times, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissedTimes {
    /// Time and counts of the latest reading.
    pub(super) read: Option<(u64, MissedCounts)>,
    /// Time ranges in which they were missed.
    pub intervals: SmallList<MissedInterval>,
}

impl MissedTimes {
    /// Something was missed between two times.
    pub fn add(&mut self, (first_ns, last_ns): (u64, u64), missed: &MissedCounts) {
        interval::add(MissedInterval { first_ns, last_ns, missed: *missed }, &mut self.intervals, first_ns);
    }

    /// Takes the counts of a sample: what is more than before was missed since the sample before, or since the run
    /// began.
    pub fn take(&mut self, sample: &Sample) {
        let begin_ns = sample.window.map_or(sample.time_ns, |(first_ns, _)| first_ns);
        let (read_ns, before) = self.read.unwrap_or((begin_ns, MissedCounts::default()));
        let now = MissedCounts::of(sample);
        // Drops of interfaces are a difference of counters that are not read at once.
        self.read = Some((sample.time_ns, now.zip(&before, u64::max)));
        let more = now.zip(&before, u64::saturating_sub);
        if more != MissedCounts::default() {
            self.add((read_ns, sample.time_ns), &more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn drops_are_dated_between_two_samples() {
        let mut times = MissedTimes::default();
        for (second, drops) in [(1, 0), (2, 5), (3, 9), (4, 9), (20, 9), (21, 10)] {
            let sample = Sample {
                time_ns: second * S,
                window: Some((0, second * S)),
                interface_drops: Some(drops),
                ..Sample::default()
            };
            times.take(&sample);
        }
        let intervals: Vec<_> = times
            .intervals
            .iter()
            .map(|interval| (interval.first_ns / S, interval.last_ns / S, interval.missed.interface_drops))
            .collect();
        assert_eq!(intervals, [(1, 3, 9), (20, 21, 1)]);
    }

    #[test]
    fn memory_is_bounded_and_every_packet_stays_counted() {
        let mut times = MissedTimes::default();
        for n in 0..100 {
            let missed = MissedCounts { flow_table_full: 2, ..MissedCounts::default() };
            times.add((n * 20 * S, n * 20 * S), &missed);
        }
        assert_eq!(times.intervals.len(), interval::MOST);
        assert_eq!(times.intervals.iter().map(|interval| interval.missed.flow_table_full).sum::<u64>(), 200);
        assert_eq!(times.intervals[0].first_ns, 0);
    }
}
