//! Counts of retired flows.
//!
//! A retired flow leaves the flow table but not the report: its packets and bytes are added to the sums of its link,
//! and its bytes are kept by 5-tuple, because entropy needs them. Live runs and replay fold flows with the same
//! function.

use hashbrown::HashTable;
use rocescope_common::abi::Counter;
use rocescope_common::account::{FlowKey, Mixed};
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};

use crate::metrics::marking::{self, ByDscp, Marked};
use crate::sample::{Extra, Retired, RetiredTuple, Stats, Tuple};
use crate::util::map::State;

/// Maximum number of retired 5-tuples kept; the bytes of further ones are summed.
pub const MAX_TUPLES: usize = 1 << 20;

/// Bytes by 5-tuple and link of retired flows, bounded.
#[derive(Debug)]
pub struct RetiredTuples {
    list: Vec<RetiredTuple>,
    index: HashTable<u32>,
    hasher: State,
    unattributed: u64,
    max: usize,
    marking: marking::ByLink,
}

impl Default for RetiredTuples {
    fn default() -> Self {
        Self::with_max(MAX_TUPLES)
    }
}

impl RetiredTuples {
    /// Keeps up to `max` 5-tuples.
    pub fn with_max(max: usize) -> Self {
        Self {
            list: Vec::new(),
            index: HashTable::new(),
            hasher: State::default(),
            unattributed: 0,
            max: max.min(u32::MAX as usize),
            marking: marking::ByLink::default(),
        }
    }

    /// Adds a retiring flow to `sum` (that of its link) and into the 5-tuples. `extra` are its entries of the
    /// overflow table.
    pub fn fold(&mut self, sum: &mut Retired, key: &FlowKey, stats: &Stats, extra: Option<&Extra>) {
        sum.flows += 1;
        sum.packets += stats.packets;
        sum.bytes += stats.bytes;
        sum.cnp_packets += stats.cnp_packets;
        for (sum, n) in sum.ecn.iter_mut().zip(stats.ecn()) {
            *sum += n;
        }
        for (sum, n) in sum.ecn_data.iter_mut().zip(stats.ecn_data) {
            *sum += n;
        }
        let link = self.marking.entry(key.link).or_insert_with(|| Box::new([Marked::default(); 64]));
        marking::add(link, stats, extra);
        if stats.roce_version == 2 && stats.first_port_bytes() > 0 {
            self.add(key, stats.src_port, stats.first_port_bytes());
        }
        let mut known = 0;
        for (port, Counter { bytes, .. }) in extra.into_iter().flat_map(|extra| &extra.ports) {
            self.add(key, *port, *bytes);
            known += bytes;
        }
        // RoCEv1 has no ports, so none are missing.
        if stats.roce_version == 2 || stats.mixed & Mixed::ROCE_VERSION != 0 {
            self.unattributed += stats.seldom.other_port_bytes.saturating_sub(known);
        }
    }

    fn add(&mut self, key: &FlowKey, src_port: u16, bytes: u64) {
        let tuple = Tuple { family: key.family, src: key.src, dst: key.dst, src_port };
        let hasher = &self.hasher;
        let hash = hash_of(hasher, &tuple, key.link);
        let list = &mut self.list;
        let same = |at: &u32| list.get(*at as usize).is_some_and(|t| t.tuple == tuple && t.link == key.link);
        if let Some(at) = self.index.find(hash, same).copied() {
            if let Some(entry) = list.get_mut(at as usize) {
                entry.bytes += bytes;
            }
        } else if list.len() < self.max {
            let at = u32::try_from(list.len()).unwrap_or(u32::MAX);
            list.push(RetiredTuple { tuple, link: key.link, bytes });
            self.index.insert_unique(hash, at, |at| {
                list.get(*at as usize).map_or(0, |t| hash_of(hasher, &t.tuple, t.link))
            });
        } else {
            self.unattributed += bytes;
        }
    }

    /// The 5-tuples in the order in which they first retired.
    pub fn tuples(&self) -> &[RetiredTuple] {
        &self.list
    }

    /// Packets by DSCP and link.
    pub fn marking(&self) -> impl Iterator<Item = (u16, ByDscp)> {
        self.marking.iter().map(|(link, by_dscp)| (*link, **by_dscp))
    }

    /// Bytes whose 5-tuple is not kept.
    pub fn unattributed(&self) -> u64 {
        self.unattributed
    }
}

fn hash_of(hasher: &State, tuple: &Tuple, link: u16) -> u64 {
    let mut state = hasher.build_hasher();
    tuple.hash(&mut state);
    state.write_u16(link);
    state.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocescope_common::account::Seldom;

    fn stats(bytes: u64, other: u64) -> Stats {
        Stats {
            packets: 3,
            bytes,
            seldom: Seldom { other_port_packets: 1, other_port_bytes: other, ..Seldom::default() }.into(),
            src_port: 1000,
            roce_version: 2,
            ecn_data: [1, 0, 1, 0],
            ecn_control: [0, 0, 1, 0],
            ..Stats::default()
        }
    }

    #[test]
    fn sums_and_tuples_hold_every_byte_or_say_so() {
        let mut tuples = RetiredTuples::with_max(2);
        let mut sum = Retired::default();
        let key = FlowKey { family: 4, dest_qp: 5, ..FlowKey::default() };
        let extra = Extra { ports: vec![(1001, Counter { packets: 1, bytes: 30 })], ..Extra::default() };
        tuples.fold(&mut sum, &key, &stats(100, 40), Some(&extra));
        assert_eq!(tuples.tuples().iter().map(|t| t.bytes).collect::<Vec<_>>(), [60, 30]);
        assert_eq!(tuples.unattributed(), 10, "a port that found no room in the overflow table");
        // The same 5-tuple under another queue pair is the same entry; a third one finds no room.
        tuples.fold(&mut sum, &FlowKey { dest_qp: 6, ..key }, &stats(100, 0), None);
        tuples.fold(&mut sum, &FlowKey { link: 1, ..key }, &stats(7, 0), None);
        assert_eq!(tuples.tuples().iter().map(|t| t.bytes).sum::<u64>() + tuples.unattributed(), 207);
        assert_eq!((sum.flows, sum.packets, sum.bytes), (3, 9, 207));
        assert_eq!((sum.ecn, sum.ecn_data), ([3, 0, 6, 0], [3, 0, 3, 0]));
    }

    #[test]
    fn version_1_has_no_tuples() {
        let mut tuples = RetiredTuples::default();
        let mut sum = Retired::default();
        let v1 = Stats { roce_version: 1, ..stats(100, 100) };
        tuples.fold(&mut sum, &FlowKey { family: 6, ..FlowKey::default() }, &v1, None);
        assert!(tuples.tuples().is_empty());
        assert_eq!((tuples.unattributed(), sum.bytes), (0, 100));
    }
}
