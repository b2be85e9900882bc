//! The times at which the counters of a port grew.

use std::collections::BTreeMap;

use crate::entity::devices::{Growth, SourceSample, counted};
use crate::entity::interval;
use crate::util::small_list::SmallList;

/// The times in which each counter of a port grew.
#[derive(Clone, Debug, Default)]
pub(super) struct GrowthWatch {
    values: BTreeMap<String, u64>,
    packets: [u64; 2],
    read_ns: Option<u64>,
    growth: BTreeMap<String, SmallList<Growth>>,
}

impl GrowthWatch {
    /// Takes the counters of a port at a reading.
    pub(super) fn take(&mut self, counters: &[SourceSample], time_ns: u64) {
        let value = |name: &str| counted(counters, name).map_or(0, |(value, _)| value);
        let packets = ["rx_packets", "tx_packets"].map(value);
        for (name, _) in counters.iter().flat_map(|source| &source.values) {
            let now = value(name);
            let then = self.values.insert(name.clone(), now);
            let count = then.and_then(|then| now.checked_sub(then)).filter(|n| *n > 0);
            let Some((count, first_ns)) = count.zip(self.read_ns) else { continue };
            let grown =
                Growth { first_ns, last_ns: time_ns, count, at_first: self.packets, at_last: packets };
            interval::add(grown, self.growth.entry(name.clone()).or_default(), time_ns);
        }
        (self.packets, self.read_ns) = (packets, Some(time_ns));
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
            watch.take(&port(discards, received), second * S);
        }
        let growth = watch.growth();
        let (_, discards) = growth.iter().find(|(name, _)| name == "rx_discards").unwrap();
        let of = |first, last, count, before, after| Growth {
            first_ns: first * S,
            last_ns: last * S,
            count,
            at_first: [before, 0],
            at_last: [after, 0],
        };
        assert_eq!(discards[..], [of(2, 5, 5, 200, 500), of(15, 16, 2, 600, 700)]);
    }

    #[test]
    fn the_oldest_times_become_one() {
        let mut watch = GrowthWatch::default();
        for round in 0..20 {
            watch.take(&port(round, 0), round * 20 * S);
        }
        let growth = watch.growth();
        let all = &growth[0].1;
        assert_eq!((all.len(), all.iter().map(|one| one.count).sum::<u64>()), (MOST, 19));
        assert_eq!(all[0].first_ns, 0);
    }
}
