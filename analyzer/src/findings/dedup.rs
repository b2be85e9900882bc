//! Counts packets seen by several taps once.
//!
//! The report has a flow for each link on which a queue pair is seen. Sums over flows are computed here by queue
//! pair, regardless of link, so that a further tap on the path changes no figure of a finding.

use std::cmp::Reverse;

use super::Input;
use super::index::FlowSet;
use crate::analysis::Flow;
use crate::util::definition::definitions;
use crate::util::map::Map;

definitions! {
    NEAR: f64 = 0.8,
        "Minimum count of a flow over the highest, for the two to be in the order of their addresses",
        "Flows that share a fault take turns in having the highest count, and a view that follows them cannot be read";
    CHANCE: f64 = 2.0,
        "Maximum difference of two counts for neither to be the worst, in standard deviations of that of counts with the same mean",
        "Twenty losses and thirty are as different as chance makes them";
}

/// A direction of a queue pair, on whatever link.
pub(super) use super::index::Name;

pub(super) const fn name(flow: &Flow) -> Name {
    (flow.src, flow.dst, flow.dest_qp)
}

/// True if a count differs from the highest no more than by chance, or little: neither is the worst.
pub(super) fn is_near(count: u64, most: u64) -> bool {
    let (count, most) = (count as f64, most as f64);
    count >= NEAR * most || most - count <= CHANCE * (most + count).sqrt()
}

/// Puts flows in order: the highest count first, but those near it in the order of their names.
pub(super) fn worst_first<T>(all: &mut [T], count: impl Fn(&T) -> u64, flow: impl Fn(&T) -> &Flow) {
    let most = all.iter().map(&count).max().unwrap_or(0);
    let key = |one: &T| match count(one) {
        n if n as f64 >= NEAR * most as f64 => Reverse(u64::MAX),
        n => Reverse(n),
    };
    all.sort_by_key(|one| (key(one), name(flow(one))));
}

/// Flows with a non-zero count, in the order of [`worst_first`]; a flow on several links appears once, from the link
/// that saw most of it.
pub(super) fn deduplicated<'a>(
    flows: impl IntoIterator<Item = &'a Flow>,
    of: impl Fn(&Flow) -> u64,
) -> Vec<(&'a Flow, u64)> {
    let flows = flows.into_iter().map(|flow| (flow, of(flow)));
    let mut counted: Vec<(&Flow, u64)> = flows.filter(|(_, n)| *n > 0).collect();
    // Flows of one link are already in this order.
    counted.sort_by_key(|(flow, _)| name(flow));
    counted.dedup_by(|next, known| {
        let same = name(next.0) == name(known.0);
        if same && next.1 > known.1 {
            *known = *next;
        }
        same
    });
    worst_first(&mut counted, |(_, n)| *n, |(flow, _)| flow);
    counted
}

/// Number of distinct flows, regardless of link.
pub(super) fn count<'a>(flows: impl IntoIterator<Item = &'a Flow>) -> u64 {
    flows.into_iter().map(name).collect::<FlowSet>().len() as u64
}

/// Count of a link, and the share of each queue pair in it.
pub(super) struct LinkShare<T> {
    /// Number of the link.
    pub(super) link: usize,
    pub(super) what: T,
    flows: Map<Name, u64>,
    /// Number of other taps that see the same packets.
    others: u64,
}

impl<T> LinkShare<T> {
    pub(super) fn new<'a>(link: usize, what: T, flows: impl IntoIterator<Item = (&'a Flow, u64)>) -> Self {
        let mut own: Map<Name, u64> = Map::default();
        for (flow, much) in flows {
            *own.entry(name(flow)).or_default() += much;
        }
        Self { link, what, flows: own, others: 0 }
    }

    fn sum(&self) -> u64 {
        self.flows.values().sum()
    }

    /// A phrase for the other taps.
    pub(super) fn others(&self) -> String {
        match self.others {
            0 => String::new(),
            1 => " (another tap sees the same)".to_owned(),
            n => format!(" ({n} other taps see the same)"),
        }
    }
}

/// The counts of links, without those that repeat the packets of another tap.
pub(super) fn deduplicated_links<T>(input: &Input<'_>, mut seen: Vec<LinkShare<T>>) -> Vec<LinkShare<T>> {
    if seen.len() < 2 {
        return seen;
    }
    let related = &input.facts.related;
    let same_path = |a: usize, b: usize| {
        let number = |link: usize| u16::try_from(link).unwrap_or(u16::MAX);
        related.contains(&(number(a.min(b)), number(a.max(b))))
    };
    seen.sort_by_key(|one| Reverse(one.sum()));
    let mut kept: Vec<LinkShare<T>> = Vec::new();
    for one in seen {
        let shown = |before: &LinkShare<T>| {
            same_path(before.link, one.link) && one.flows.keys().any(|name| before.flows.contains_key(name))
        };
        let own = one.flows.iter().filter(|(name, _)| {
            !kept.iter().any(|before| same_path(before.link, one.link) && before.flows.contains_key(*name))
        });
        let own: u64 = own.map(|(_, much)| much).sum();
        let first = kept.iter().position(shown);
        let is_few = (own as f64) < input.limits.capture.own_ratio * one.sum() as f64;
        match first.and_then(|at| kept.get_mut(at)) {
            Some(before) if is_few => before.others += 1,
            _ => kept.push(one),
        }
    }
    kept.sort_by_key(|one| one.link);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Options, fixtures};

    /// With every sample another flow has lost most, but not much more than the others.
    #[test]
    fn flows_near_the_worst_stay_in_order() {
        let facts = crate::analysis::Facts::of(&fixtures::everything(), &Options::default());
        let flows: Vec<Flow> =
            (1..=4).map(|host| Flow { src: [10, 0, 0, host].into(), ..facts.flows[0].clone() }).collect();
        let order = |counts: [u64; 4]| {
            let mut all: Vec<(u64, &Flow)> = counts.into_iter().zip(&flows).rev().collect();
            worst_first(&mut all, |(n, _)| *n, |(_, flow)| flow);
            all.into_iter().map(|(n, _)| n).collect::<Vec<_>>()
        };
        assert_eq!(order([9_000, 10_000, 8_001, 7_999]), [9_000, 10_000, 8_001, 7_999]);
        assert_eq!(order([7_999, 8_001, 10_000, 3]), [8_001, 10_000, 7_999, 3]);
        assert_eq!(order([1, 2, 3, 9]), [9, 3, 2, 1]);
        assert_eq!(order([0; 4]), [0; 4]);
    }
}
