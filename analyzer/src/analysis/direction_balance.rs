//! The two directions of links whose captures hold both: a tap on a cable.
//!
//! Each packet on a parallel link goes from one side to the other, so the hosts divide into two sides. The time to live
//! shows which side is which where groups of hosts have nothing to do with each other: packets from the nearer side
//! have passed fewer routers.

use std::collections::{BTreeMap, BTreeSet};

use super::Imbalance;
use super::imbalance::{DirectionBalance, jain, max_over_mean, members};
use crate::metrics::traffic::hosts::{Host, Pair};
use crate::sample::{Address, Sample, address};

/// Sources that a direction lists.
const MAX_SOURCES: usize = 16;

/// The side of each host.
pub(crate) type Sides = BTreeMap<Address, bool>;

/// The pairs of hosts on the links of a group, with the index of the link within it.
fn pairs<'a>(sample: &'a Sample, group: &Imbalance) -> Option<Vec<(usize, &'a Pair)>> {
    let traffic = sample.metrics.traffic.as_ref().filter(|_| group.direction.is_none())?;
    let links: Vec<usize> = members(sample, group).collect();
    let own = |pair: &'a Pair| Some((links.iter().position(|link| *link == usize::from(pair.link))?, pair));
    Some(traffic.pairs.iter().filter_map(own).collect())
}

/// Colours the hosts that one host reaches with two sides; `None` where two hosts of one side talk.
fn component(start: Host, next: &BTreeMap<Host, BTreeSet<Host>>) -> Option<BTreeMap<Host, bool>> {
    let mut sides = BTreeMap::from([(start, false)]);
    let mut open = vec![(start, false)];
    while let Some((host, side)) = open.pop() {
        for other in next.get(&host).into_iter().flatten() {
            match sides.get(other) {
                Some(known) if *known == side => return None,
                Some(_) => {}
                None => {
                    sides.insert(*other, !side);
                    open.push((*other, !side));
                }
            }
        }
    }
    Some(sides)
}

/// The side of each host of a group of links; `None` where its links have a direction, or hosts do not divide.
pub(crate) fn sides(sample: &Sample, group: &Imbalance) -> Option<Sides> {
    let pairs = pairs(sample, group)?;
    let mut next: BTreeMap<Host, BTreeSet<Host>> = BTreeMap::new();
    for (_, pair) in &pairs {
        next.entry(pair.src).or_default().insert(pair.dst);
        next.entry(pair.dst).or_default().insert(pair.src);
    }
    let mut hops: BTreeMap<Host, BTreeSet<u8>> = BTreeMap::new();
    for (_, pair) in &pairs {
        hops.entry(pair.src).or_default().insert(pair.hops);
    }
    let mut all: BTreeMap<Host, bool> = BTreeMap::new();
    let (mut components, mut levels) = (0, BTreeSet::new());
    for host in next.keys() {
        if all.contains_key(host) {
            continue;
        }
        components += 1;
        let mut own = component(*host, &next)?;
        let of = |side: bool| -> BTreeSet<u8> {
            let hosts = own.iter().filter(|(_, own)| **own == side).map(|(host, _)| host);
            hosts.filter_map(|host| hops.get(host)).flatten().copied().collect()
        };
        let (near, far) = (of(false), of(true));
        let turn = near.first() < far.first();
        levels.insert(if turn { (far, near) } else { (near, far) });
        for side in own.values_mut() {
            *side ^= turn;
        }
        all.extend(own);
    }
    let reported = levels.first().is_some_and(|(near, far)| near.is_disjoint(far)) && levels.len() == 1;
    (components == 1 || reported)
        .then(|| all.into_iter().map(|((family, addr), side)| (address(family, addr), side)).collect())
}

/// Balance by direction; `None` as [`sides`].
pub(super) fn direction_balances(sample: &Sample, group: &Imbalance) -> Option<Vec<DirectionBalance>> {
    let sides = sides(sample, group)?;
    let pairs = pairs(sample, group)?;
    let way = |side: bool| {
        let own = |pair: &Pair| sides.get(&address(pair.src.0, pair.src.1)) == Some(&side);
        let mut bytes = vec![0; group.links.len()];
        let mut packets = 0;
        for (link, pair) in pairs.iter().filter(|(_, pair)| own(pair)) {
            packets += pair.packets;
            if let Some(bytes) = bytes.get_mut(*link) {
                *bytes += pair.bytes;
            }
        }
        let loads: Vec<f64> = bytes.iter().map(|bytes| *bytes as f64).collect();
        let sources = sides.iter().filter(|(_, own)| **own == side).map(|(host, _)| *host);
        DirectionBalance {
            sources: sources.take(MAX_SOURCES).collect(),
            max_over_mean: max_over_mean(&loads),
            jain: jain(&loads),
            bytes,
            packets,
        }
    };
    (!sides.is_empty()).then(|| vec![way(false), way(true)])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::fixtures::{key, link, sample};
    use crate::analysis::{Facts, Options};
    use crate::metrics::traffic::Collector;
    use crate::metrics::traffic::hosts::{BinPackets, Pairs};

    /// Bytes between hosts on two links, and the time to live.
    fn of(packets: &[(u16, &str, &str, u64, u8)]) -> Option<Vec<DirectionBalance>> {
        let mut pairs = Pairs::default();
        for (link, src, dst, bytes, hops) in packets {
            let number = pairs.number(&key(*link, src, dst, 17), *hops);
            pairs.packets(number, BinPackets { packets: 1, bytes: *bytes, ..BinPackets::default() });
        }
        let mut sample = sample(vec![link("up0", None), link("up1", None)], vec![]);
        let mut traffic = Collector::new(1_000_000).metrics();
        traffic.pairs = pairs.pairs().to_vec();
        sample.metrics.traffic = Some(Arc::new(traffic));
        let groups = vec![vec!["up0".to_owned(), "up1".to_owned()]];
        Facts::of(&sample, &Options { groups, ..Options::default() }).imbalance[0].ways.clone()
    }

    #[test]
    fn directions_are_compared_by_themselves() {
        let ways = of(&[
            (0, "10.0.0.1", "10.0.1.1", 300, 64),
            (1, "10.0.0.2", "10.0.1.1", 100, 64),
            (0, "10.0.1.1", "10.0.0.2", 200, 64),
            (1, "10.0.1.1", "10.0.0.1", 200, 64),
        ])
        .unwrap();
        assert_eq!(ways.iter().map(|way| way.bytes.clone()).collect::<Vec<_>>(), [[300, 100], [200, 200]]);
        assert_eq!(ways[0].sources, [Address::from([10, 0, 0, 1]), Address::from([10, 0, 0, 2])]);
        assert_eq!(ways.iter().map(|way| way.max_over_mean).collect::<Vec<_>>(), [Some(1.5), Some(1.0)]);
    }

    #[test]
    fn the_time_to_live_joins_hosts_that_never_talk() {
        let with = |hops: [u8; 4]| {
            of(&[
                (0, "10.0.0.1", "10.0.1.1", 300, hops[0]),
                (0, "10.0.1.1", "10.0.0.1", 1, hops[1]),
                // Sorted before its peer, and on the far side.
                (1, "10.0.0.0", "10.0.1.2", 100, hops[2]),
                (1, "10.0.1.2", "10.0.0.0", 300, hops[3]),
            ])
        };
        let ways = with([63, 62, 62, 63]).unwrap();
        assert_eq!((&ways[0].bytes[..], &ways[1].bytes[..]), (&[300, 300][..], &[1, 100][..]));
        assert_eq!(with([64, 64, 64, 64]), None, "not routed");
        assert_eq!(with([63, 62, 61, 60]), None, "at other levels");
    }

    #[test]
    fn hosts_that_do_not_divide_have_no_sides() {
        let ring = [("10.0.0.1", "10.0.0.2"), ("10.0.0.2", "10.0.0.3"), ("10.0.0.3", "10.0.0.1")];
        assert_eq!(of(&ring.map(|(src, dst)| (0, src, dst, 100, 64))), None);
    }
}
