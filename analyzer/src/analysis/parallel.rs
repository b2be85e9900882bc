//! Links of captures that plainly share a load, found without `--group`: the same pairs of hosts on each, in the same
//! time, and no packet on two of them.
//!
//! A pair of hosts whose queue pairs are spread over several links was hashed onto them. Taps along one path see the
//! same queue pairs; rails and hosts of their own have other pairs of addresses; captures one after the other have no
//! time in common. None of these is a group.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::related;
use crate::metrics::traffic::times;
use crate::sample::{Address, Sample, address};
use crate::util::definition::definitions;

definitions! {
    SHARED: f64 = 0.25,
        "Minimum share of a link's data between host pairs that other links of the group carry too, for them to be parallel",
        "A pair with two queue pairs is on one of two links alone every other time, and on uneven links more often";
    TOGETHER: f64 = 0.5,
        "Minimum share of the shorter of two links' times that both have in common, for them to be parallel",
        "Captures one after the other share no load";
    PACKETS: u64 = 100,
        "Minimum data packets of a link, for it to be one of several parallel ones",
        "A few messages say nothing about the load";
}

/// Links that are looked at; of captures with more, a group is named by hand.
const MAX_LINKS: usize = 64;

/// Traffic of one link.
#[derive(Clone, Debug, Default)]
struct Carried {
    first_ns: u64,
    last_ns: u64,
    packets: u64,
    /// Bytes of data by source and destination.
    pairs: BTreeMap<(Address, Address), u64>,
}

impl Carried {
    fn together(&self, other: &Self) -> bool {
        let length = |one: &Self| one.last_ns.saturating_sub(one.first_ns);
        let common = self.last_ns.min(other.last_ns).saturating_sub(self.first_ns.max(other.first_ns));
        common > 0 && common >= times(length(self).min(length(other)), TOGETHER)
    }
}

/// Data by link, of links without a direction.
fn carried(sample: &Sample) -> BTreeMap<u16, Carried> {
    let mut links: BTreeMap<u16, Carried> = BTreeMap::new();
    for flow in sample.flows.iter().filter(|flow| flow.stats.payload_bytes > 0) {
        let (key, stats) = (&flow.key, &flow.stats);
        let link =
            links.entry(key.link).or_insert_with(|| Carried { first_ns: u64::MAX, ..Carried::default() });
        link.first_ns = link.first_ns.min(stats.first_ns);
        link.last_ns = link.last_ns.max(stats.last_ns);
        link.packets += stats.packets;
        let pair = (address(key.family, key.src), address(key.family, key.dst));
        *link.pairs.entry(pair).or_default() += stats.bytes;
    }
    links.retain(|_, link| link.packets >= PACKETS);
    links
}

/// Names of the links of each group, in the order of the links.
pub(super) fn groups(sample: &Sample) -> Vec<Vec<String>> {
    if sample.links.len() < 2
        || sample.links.len() > MAX_LINKS
        || sample.links.iter().any(|link| link.direction.is_some())
    {
        return Vec::new();
    }
    let mut links = carried(sample);
    let related = related(sample);
    let is_related = |a: &u16, b: &u16| related.contains(&(*a.min(b), *a.max(b)));
    let share_load = |(a, one): (&u16, &Carried), (b, other): (&u16, &Carried)| {
        a != b
            && !is_related(a, b)
            && one.together(other)
            && one.pairs.keys().any(|pair| other.pairs.contains_key(pair))
    };
    // One that leaves takes what it had in common with the others along.
    loop {
        let leaves = links.iter().find(|(at, own)| {
            let others: Vec<_> = links.iter().filter(|other| share_load((at, own), *other)).collect();
            let is_common = |pair| others.iter().any(|(_, other)| other.pairs.contains_key(pair));
            let common: u64 =
                own.pairs.iter().filter(|(pair, _)| is_common(pair)).map(|(_, bytes)| bytes).sum();
            let all: u64 = own.pairs.values().sum();
            common == 0 || (common as f64) < SHARED * all as f64
        });
        let Some(at) = leaves.map(|(at, _)| *at) else { break };
        links.remove(&at);
    }
    let mut groups: Vec<Vec<u16>> = Vec::new();
    let mut open: BTreeSet<u16> = links.keys().copied().collect();
    while let Some(first) = open.pop_first() {
        let mut group = vec![first];
        let mut next = 0;
        while let Some(own) = group.get(next).and_then(|at| links.get_key_value(at)) {
            let joined: Vec<u16> = links
                .iter()
                .filter(|(at, _)| open.contains(at))
                .filter(|other| share_load(own, *other))
                .map(|(at, _)| *at)
                .collect();
            for at in joined {
                open.remove(&at);
                group.push(at);
            }
            next += 1;
        }
        group.sort_unstable();
        // Taps along one path may each share a load with a third link: which of them belongs to it is not known.
        let clear = group.iter().all(|a| group.iter().all(|b| a == b || !is_related(a, b)));
        if group.len() > 1 && clear {
            groups.push(group);
        }
    }
    let name = |at: &u16| sample.links.get(usize::from(*at)).map(|link| link.name.clone());
    groups.iter().map(|group| group.iter().filter_map(name).collect()).collect()
}

#[cfg(test)]
mod tests {
    use crate::analysis::fixtures::{key, link, sample, stats};
    use crate::analysis::{Facts, Options};

    /// Queue pairs (link, source, destination, number) of 1,000 packets each; links from `late` on begin when the
    /// others have ended.
    fn found(flows: &[(u16, &str, &str, u32)], late: u16) -> Vec<Vec<String>> {
        let flows = flows.iter().map(|(at, src, dst, qp)| {
            let mut data = stats(50_000, 1_000, 1_000_000);
            let length = data.last_ns - data.first_ns;
            if *at >= late {
                (data.first_ns, data.last_ns) = (data.last_ns + 1, data.last_ns + 1 + length);
            }
            (key(*at, src, dst, *qp), data)
        });
        let links = ["a.pcap", "b.pcap", "c.pcap", "d.pcap"].map(|name| link(name, None));
        let facts = Facts::of(&sample(links.into(), flows.collect()), &Options::default());
        assert!(facts.imbalance.iter().all(|group| group.found));
        facts.imbalance.into_iter().map(|group| group.links).collect()
    }

    const A: &str = "10.0.0.1";
    const B: &str = "10.0.1.1";
    const C: &str = "10.0.2.1";

    #[test]
    fn queue_pairs_of_the_same_hosts_on_several_links() {
        let uplinks =
            [(0, A, B, 17), (0, A, B, 18), (0, A, B, 19), (1, A, B, 20), (2, C, B, 21), (2, A, B, 22)];
        assert_eq!(found(&uplinks, 9), [["a.pcap", "b.pcap", "c.pcap"]]);
        assert_eq!(found(&uplinks[..5], 9), [["a.pcap", "b.pcap"]], "hosts of its own");
        assert!(found(&uplinks[..4], 1).is_empty(), "one after the other");
    }

    #[test]
    fn taps_of_one_path_rails_and_directions_are_no_group() {
        assert!(found(&[(0, A, B, 17), (1, A, B, 17)], 9).is_empty(), "the same packets");
        assert!(found(&[(0, A, B, 17), (1, "10.1.0.1", "10.1.1.1", 18)], 9).is_empty(), "two rails");
        assert!(found(&[(0, A, B, 17), (1, B, A, 18)], 9).is_empty(), "a link for each direction");
        let little =
            [(0, A, B, 17), (1, A, B, 18), (1, A, C, 19), (1, C, A, 20), (1, C, B, 21), (1, B, C, 22)];
        assert!(found(&little, 9).is_empty(), "hardly anything in common");
    }

    #[test]
    fn what_the_user_says_counts() {
        let flows = vec![
            (key(0, A, B, 17), stats(50_000, 1_000, 1_000_000)),
            (key(1, A, B, 18), stats(50_000, 1_000, 1_000_000)),
        ];
        let links = ["a.pcap", "b.pcap", "c.pcap"].map(|name| link(name, None));
        let sample = sample(links.into(), flows);
        let groups = vec![vec!["a.pcap".to_owned(), "c.pcap".to_owned()]];
        let reported =
            Facts::of(&sample, &Options { groups: groups.clone(), ..Options::default() }).imbalance;
        assert_eq!(
            reported.iter().map(|group| (group.links.clone(), group.found)).collect::<Vec<_>>(),
            [(groups[0].clone(), false)]
        );
    }
}
