//! Packets that several taps see, counted once.
//!
//! The report has a flow for each link that a queue pair is seen on. What is counted of all of them is counted here, by queue
//! pair and not by link, so that a second tap on the way changes no number of a finding.

use std::cmp::Reverse;

use super::Input;
use crate::analysis::Flow;
use crate::util::map::{Map, Set};

/// A direction of a queue pair, wherever it is seen.
pub(super) use super::index::Name;

pub(super) const fn name(flow: &Flow) -> Name {
    (flow.src, flow.dst, flow.dest_qp)
}

/// Flows in which something was counted, the most first; one that passes several links is there
/// once, from the link that saw most of it.
pub(super) fn once<'a>(
    flows: impl IntoIterator<Item = &'a Flow>,
    of: impl Fn(&Flow) -> u64,
) -> Vec<(&'a Flow, u64)> {
    let flows = flows.into_iter().map(|flow| (flow, of(flow)));
    let mut counted: Vec<(&Flow, u64)> = flows.filter(|(_, n)| *n > 0).collect();
    // Those of one link are in this order already.
    counted.sort_by_key(|(flow, _)| name(flow));
    counted.dedup_by(|next, known| {
        let same = name(next.0) == name(known.0);
        if same && next.1 > known.1 {
            *known = *next;
        }
        same
    });
    counted.sort_by_key(|(_, n)| Reverse(*n));
    counted
}

/// How many flows these are, whatever the number of links.
pub(super) fn count<'a>(flows: impl IntoIterator<Item = &'a Flow>) -> u64 {
    flows.into_iter().map(name).collect::<Set<Name>>().len() as u64
}

/// A tap that shows this much of its own besides is reported by itself.
const OF_ITS_OWN: f64 = 0.1;

/// What a link shows, and how much of it each queue pair has.
pub(super) struct LinkShare<T> {
    /// Number of the link.
    pub(super) link: usize,
    pub(super) what: T,
    flows: Map<Name, u64>,
    /// Other taps that show the same.
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

    /// Words for the other taps.
    pub(super) fn others(&self) -> String {
        match self.others {
            0 => String::new(),
            1 => " (another tap sees the same)".to_owned(),
            n => format!(" ({n} other taps see the same)"),
        }
    }
}

/// What is shown, without what is shown again by taps of the same packets.
pub(super) fn seen_once<T>(input: &Input<'_>, mut seen: Vec<LinkShare<T>>) -> Vec<LinkShare<T>> {
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
        match first.and_then(|at| kept.get_mut(at)) {
            Some(before) if (own as f64) < OF_ITS_OWN * one.sum() as f64 => before.others += 1,
            _ => kept.push(one),
        }
    }
    kept.sort_by_key(|one| one.link);
    kept
}
