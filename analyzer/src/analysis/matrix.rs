//! Traffic from host to host.

use std::cmp::Reverse;

use super::facts::traffic::Cell;
use super::paths;
use crate::entity::wide;
use crate::metrics::traffic::Traffic;
use crate::metrics::traffic::hosts::{Host, Pair};
use crate::sample::{FlowSample, Sample, address};
use crate::util::map::Map;

/// Pairs of hosts, most data first.
///
/// Two links of a pair that see the same packets of a queue pair are taps, and the one that saw most counts.
/// Links with different queue pairs, or with different packets of them, are rails, and add up.
pub(super) fn matrix(sample: &Sample, traffic: &Traffic) -> Vec<Cell> {
    let same = links_with_the_same(sample);
    let mut pairs: Vec<&Pair> = traffic.pairs.iter().collect();
    // As hosts are in order.
    let number = |(family, words): Host| (family, wide(words));
    pairs.sort_unstable_by_key(|pair| (number(pair.src), number(pair.dst), Reverse(pair.bytes), pair.link));
    let hosts = pairs.chunk_by(|a, b| (a.src, a.dst) == (b.src, b.dst));
    let mut cells: Vec<Cell> = hosts.filter_map(|links| sum(links, &same)).collect();
    cells.sort_unstable_by_key(|cell| (Reverse(cell.data_bytes), cell.src, cell.dst));
    cells
}

/// Traffic between two hosts, from the links that saw any, the one that saw most first.
fn sum(links: &[&Pair], same: &Map<(Host, Host), Map<u16, u16>>) -> Option<Cell> {
    let (first, others) = links.split_first()?;
    let mut sum = Cell {
        src: address(first.src.0, first.src.1),
        dst: address(first.dst.0, first.dst.1),
        packets: first.packets,
        bytes: first.bytes,
        data_bytes: first.data_bytes,
    };
    if others.is_empty() {
        return Some(sum);
    }
    let groups = same.get(&(first.src, first.dst));
    let group_of = |link: u16| groups.and_then(|groups| groups.get(&link)).copied();
    let mut counted = vec![group_of(first.link)];
    for pair in others {
        let group = group_of(pair.link);
        // Of a link whose queue pairs have all retired it is not known any more.
        if group.is_none() || counted.contains(&group) {
            continue;
        }
        counted.push(group);
        sum.packets += pair.packets;
        sum.bytes += pair.bytes;
        sum.data_bytes += pair.data_bytes;
    }
    Some(sum)
}

/// For each pair of hosts, the links it uses, by a number that links have in common which see the same packets
/// of a queue pair. Nothing where there is one link.
fn links_with_the_same(sample: &Sample) -> Map<(Host, Host), Map<u16, u16>> {
    let mut seen_on: Map<(Host, Host, u32), Vec<&FlowSample>> = Map::default();
    let mut same: Map<(Host, Host), Map<u16, u16>> = Map::default();
    if sample.links.len() < 2 {
        return same;
    }
    for flow in &sample.flows {
        let key = &flow.key;
        let (src, dst) = ((key.family, key.src), (key.family, key.dst));
        let groups = same.entry((src, dst)).or_default();
        groups.entry(key.link).or_insert(key.link);
        let others = seen_on.entry((src, dst, key.dest_qp)).or_default();
        if others.len() >= paths::MAX_OBSERVATIONS {
            continue;
        }
        for other in others.iter().filter(|other| paths::same(&other.stats, &flow.stats)) {
            let into = groups.get(&other.key.link).copied().unwrap_or(key.link);
            let from = groups.get(&key.link).copied().unwrap_or(into);
            if from != into {
                groups.values_mut().filter(|group| **group == from).for_each(|group| *group = into);
            }
        }
        others.push(flow);
    }
    same
}
