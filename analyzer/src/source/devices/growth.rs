//! The times at which the counters of a port grew.

use std::collections::BTreeMap;

use crate::entity::devices::{AtGrowth, Growth, SourceSample, counted};
use crate::entity::interval;
use crate::util::small_list::SmallList;

/// The times in which each counter of a port grew.
#[derive(Clone, Debug, Default)]
pub(super) struct GrowthWatch {
    values: BTreeMap<String, u64>,
    /// The latest reading, and its Unix time.
    read: Option<(AtGrowth, u64)>,
    growth: BTreeMap<String, SmallList<Growth>>,
}

impl GrowthWatch {
    /// Takes the counters of a port at a reading, by the monotonic clock and as Unix time.
    pub(super) fn take(&mut self, counters: &[SourceSample], (monotonic_ns, time_ns): (u64, u64)) {
        let value = |name: &str| counted(counters, name).map_or(0, |(value, _)| value);
        let at_last = AtGrowth { packets: ["rx_packets", "tx_packets"].map(value), monotonic_ns };
        for (name, _) in counters.iter().flat_map(|source| &source.values) {
            let now = value(name);
            let then = self.values.insert(name.clone(), now);
            let count = then.and_then(|then| now.checked_sub(then)).filter(|n| *n > 0);
            let Some((count, (at_first, first_ns))) = count.zip(self.read) else { continue };
            let grown =
                Growth { first_ns: first_ns.min(time_ns), last_ns: time_ns, count, at_first, at_last };
            let all = self.growth.entry(name.clone()).or_default();
            // The rest before it is that of the monotonic clock.
            let shows_ns = all.last().map_or(time_ns, |last| {
                last.last_ns.saturating_add(monotonic_ns.saturating_sub(last.at_last.monotonic_ns))
            });
            interval::add(grown, all, shows_ns);
        }
        self.read = Some((at_last, time_ns));
    }

    pub(super) fn growth(&self) -> Vec<(String, Vec<Growth>)> {
        self.growth.iter().map(|(name, all)| (name.clone(), all.to_vec())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::interval::MOST;
    use crate::util::time::NS_PER_S as S;

    fn port(discards: u64, received: u64) -> [SourceSample; 1] {
        let values = vec![("rx_discards".to_owned(), discards), ("rx_packets".to_owned(), received)];
        [SourceSample { source: "ethtool", values, resets: 0 }]
    }

    #[test]
    fn ten_seconds_of_rest_end_a_time_of_growth() {
        let mut watch = GrowthWatch::default();
        for (second, discards, received) in
            [(1, 5, 100), (2, 5, 200), (3, 9, 300), (4, 9, 400), (5, 10, 500), (15, 10, 600), (16, 12, 700)]
        {
            watch.take(&port(discards, received), (second * S, second * S));
        }
        let growth = watch.growth();
        let (_, discards) = growth.iter().find(|(name, _)| name == "rx_discards").unwrap();
        let at = |received, second| AtGrowth { packets: [received, 0], monotonic_ns: second * S };
        let of = |first, last, count, before, after| Growth {
            first_ns: first * S,
            last_ns: last * S,
            count,
            at_first: at(before, first),
            at_last: at(after, last),
        };
        assert_eq!(discards[..], [of(2, 5, 5, 200, 500), of(15, 16, 2, 600, 700)]);
    }

    #[test]
    fn times_of_growth_are_apart_however_the_clock_is_set() {
        for [before, after] in [[3_600, 0], [0, 3_600]] {
            let mut watch = GrowthWatch::default();
            for (second, discards, ahead) in
                [(1, 0, before), (2, 1, before), (3, 2, after), (33, 2, after), (34, 3, after)]
            {
                watch.take(&port(discards, 0), (second * S, (second + ahead) * S));
            }
            let growth = watch.growth();
            let times =
                growth[0].1.iter().map(|one| [one.at_first, one.at_last].map(|at| at.monotonic_ns / S));
            assert_eq!(times.collect::<Vec<_>>(), [[1, 3], [33, 34]], "{before} to {after}");
        }
    }

    #[test]
    fn the_oldest_times_become_one() {
        let mut watch = GrowthWatch::default();
        for round in 0..20 {
            watch.take(&port(round, 0), (round * 20 * S, round * 20 * S));
        }
        let growth = watch.growth();
        let all = &growth[0].1;
        assert_eq!((all.len(), all.iter().map(|one| one.count).sum::<u64>()), (MOST, 19));
        assert_eq!(all[0].first_ns, 0);
    }
}
