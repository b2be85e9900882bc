//! When the counters of a port grew.

use std::collections::BTreeMap;

use crate::entity::devices::{Growth, PortSample};
use crate::metrics::loss::spells::SPELL_NS;

/// Times kept per counter; of more, the oldest become one.
const MOST: usize = 8;

/// The times in which each counter of a port grew.
#[derive(Clone, Debug, Default)]
pub(super) struct GrowthWatch {
    values: BTreeMap<String, u64>,
    packets: [u64; 2],
    read_ns: Option<u64>,
    growth: BTreeMap<String, Vec<Growth>>,
}

impl GrowthWatch {
    /// Takes the counters of a port at a reading.
    pub(super) fn take(&mut self, port: &PortSample, time_ns: u64) {
        let value = |name: &str| port.value(name).map_or(0, |(value, _)| value);
        let packets = ["rx_packets", "tx_packets"].map(value);
        let names = port.counters.iter().flat_map(|source| source.values.iter().map(|(name, _)| name));
        for name in names {
            let now = value(name);
            let Some(then) = self.values.insert(name.clone(), now) else { continue };
            let (Some(count), Some(read_ns)) = (now.checked_sub(then).filter(|n| *n > 0), self.read_ns)
            else {
                continue;
            };
            let all = self.growth.entry(name.clone()).or_default();
            match all.last_mut() {
                Some(last) if time_ns.saturating_sub(last.last_ns) < SPELL_NS => {
                    last.count = last.count.saturating_add(count);
                    (last.last_ns, last.after) = (time_ns, packets);
                }
                _ => all.push(Growth {
                    first_ns: read_ns,
                    last_ns: time_ns,
                    count,
                    before: self.packets,
                    after: packets,
                }),
            }
            if all.len() > MOST {
                let oldest = all.remove(0);
                if let Some(next) = all.first_mut() {
                    next.count = next.count.saturating_add(oldest.count);
                    (next.first_ns, next.before) = (oldest.first_ns, oldest.before);
                }
            }
        }
        (self.packets, self.read_ns) = (packets, Some(time_ns));
    }

    pub(super) fn growth(&self) -> Vec<(String, Vec<Growth>)> {
        self.growth.iter().map(|(name, all)| (name.clone(), all.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::devices::SourceSample;

    use crate::util::time::NS_PER_S as S;

    fn port(discards: u64, received: u64) -> PortSample {
        let values = vec![("rx_discards".to_owned(), discards), ("rx_packets".to_owned(), received)];
        PortSample {
            counters: vec![SourceSample { source: "ethtool", values, resets: 0 }],
            ..PortSample::default()
        }
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
            before: [before, 0],
            after: [after, 0],
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
