//! What hosts send one another.

use std::cmp::Reverse;

use super::paths;
use super::traffic::Cell;
use crate::metrics::traffic::Traffic;
use crate::metrics::traffic::hosts::Host;
use crate::sample::{FlowSample, Sample, address};
use crate::util::map::Map;

/// Pairs of hosts, most data first.
///
/// Two links of a pair that see the same packets of a queue pair are taps, and the one that saw most counts.
/// Links with different queue pairs, or with different packets of them, are rails, and add up.
pub(super) fn matrix(sample: &Sample, traffic: &Traffic) -> Vec<Cell> {
    let same = links_with_the_same(sample);
    let mut links: Map<(Host, Host), Vec<(u16, Cell)>> = Map::default();
    for pair in &traffic.pairs {
        let cell = Cell {
            src: address(pair.src.0, pair.src.1),
            dst: address(pair.dst.0, pair.dst.1),
            packets: pair.packets,
            bytes: pair.bytes,
            data_bytes: pair.data_bytes,
        };
        links.entry((pair.src, pair.dst)).or_default().push((pair.link, cell));
    }
    let mut cells: Vec<Cell> = links
        .into_iter()
        .filter_map(|(pair, mut links)| {
            links.sort_unstable_by_key(|(link, cell)| (Reverse(cell.bytes), *link));
            let groups = same.get(&pair);
            let group_of = |link: u16| groups.and_then(|groups| groups.get(&link)).copied();
            let (first, mut sum) = links.first().copied()?;
            let mut counted = vec![group_of(first)];
            for (link, cell) in links.into_iter().skip(1) {
                let group = group_of(link);
                // Of a link whose queue pairs have all retired it is not known any more.
                if group.is_none() || counted.contains(&group) {
                    continue;
                }
                counted.push(group);
                sum.packets += cell.packets;
                sum.bytes += cell.bytes;
                sum.data_bytes += cell.data_bytes;
            }
            Some(sum)
        })
        .collect();
    cells.sort_unstable_by_key(|cell| (Reverse(cell.data_bytes), cell.src, cell.dst));
    cells
}

/// For each pair of hosts, the links it uses, by a number that links have in common which see the same packets
/// of a queue pair.
fn links_with_the_same(sample: &Sample) -> Map<(Host, Host), Map<u16, u16>> {
    let mut seen_on: Map<(Host, Host, u32), Vec<&FlowSample>> = Map::default();
    let mut same: Map<(Host, Host), Map<u16, u16>> = Map::default();
    for flow in &sample.flows {
        let key = &flow.key;
        let (src, dst) = ((key.family, key.src), (key.family, key.dst));
        let groups = same.entry((src, dst)).or_default();
        groups.entry(key.link).or_insert(key.link);
        let others = seen_on.entry((src, dst, key.dest_qp)).or_default();
        if others.len() >= paths::MAX_SIGHTS {
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
