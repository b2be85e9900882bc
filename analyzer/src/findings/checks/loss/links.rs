//! Links of one tap on which the same hosts lose packets at the same time: one place, and one finding.

use std::collections::BTreeSet;

use super::counts::LossCounts;
use super::{Limits, LossyPair, Side, is_partial};
use crate::analysis::Flow;
use crate::findings::dedup::{Name, name};
use crate::findings::period::{Evaluated, Period};
use crate::findings::raise::MAX_FLOWS;
use crate::findings::title::short;
use crate::findings::{Input, Severity};
use crate::sample::{Address, Direction};
use crate::util::map::{Map, Set};
use crate::util::units;

/// Links with loss on the same side of them.
pub(super) struct Lossy<'a> {
    /// Their names, in order.
    pub(super) links: Vec<&'a str>,
    /// The flows that pass them, by hosts.
    flows: Vec<&'a Flow>,
    pub(super) judged: Evaluated<Vec<LossyPair<'a>>>,
    /// Severity of the worst of them: a link that loses little does not make another one better.
    pub(super) severity: Severity,
    /// True if its packets were lost for certain; else they may have been reordered.
    certain: bool,
}

impl<'a> Lossy<'a> {
    pub(super) fn new(
        link: &'a str,
        flows: Vec<&'a Flow>,
        judged: Evaluated<Vec<LossyPair<'a>>>,
        certain: bool,
    ) -> Self {
        Self { links: vec![link], flows, judged, severity: Severity::Info, certain }
    }

    /// The direction in which most is lost.
    fn direction(&self) -> Option<Direction> {
        let (_, worst) = self.judged.what.first()?;
        worst.first()?.direction
    }

    fn hosts(&self) -> Set<(Address, Address)> {
        self.judged.what.iter().map(|(hosts, _)| *hosts).collect()
    }

    /// True if certainty, time and direction are the same, and enough of the host pairs of both.
    fn is_with(&self, other: &Self, limits: &Limits) -> bool {
        let is_alike = self.certain == other.certain
            && self.judged.period == other.judged.period
            && self.direction() == other.direction();
        is_alike && {
            let (own, others) = (self.hosts(), other.hosts());
            let both = own.intersection(&others).count();
            both as f64 >= limits.same_pairs * (own.len() + others.len() - both) as f64
        }
    }

    /// Traffic of these links; a flow complete on several counts once.
    fn union(&self, other: &Self, limits: &Limits, lost: impl Fn(&Flow) -> u64) -> Vec<&'a Flow> {
        let mut all: Vec<&Flow> = self.flows.iter().chain(&other.flows).copied().collect();
        all.sort_by_key(|flow| (flow.src, flow.dst, name(flow), std::cmp::Reverse(lost(flow))));
        let mut seen: Set<Name> = Set::default();
        all.retain(|flow| is_partial(limits, flow) || seen.insert(name(flow)));
        all
    }
}

/// Joins the links of one tap that are one place. `judge` is that of each link, `lost` the losses of a flow.
pub(super) fn join<'a>(
    limits: &Limits,
    one_by_one: Vec<Lossy<'a>>,
    judge: impl Fn(&[&'a Flow], bool) -> Option<Evaluated<Vec<LossyPair<'a>>>>,
    lost: impl Fn(&Flow) -> u64,
) -> Vec<Lossy<'a>> {
    let mut joined: Vec<Lossy<'a>> = Vec::new();
    // Places by the hosts that they have had: there may be thousands.
    let mut by_hosts: Map<(Period, (Address, Address)), Vec<usize>> = Map::default();
    for one in one_by_one {
        let hosts = one.hosts();
        // Without a pair in common they are only one where the threshold asks for none.
        let near: BTreeSet<usize> = if limits.same_pairs > 0.0 {
            let of = |hosts: &(Address, Address)| {
                by_hosts.get(&(one.judged.period, *hosts)).into_iter().flatten().copied()
            };
            hosts.iter().flat_map(of).collect()
        } else {
            (0..joined.len()).collect()
        };
        let like = near.into_iter().find(|at| joined[*at].is_with(&one, limits));
        let both = like.and_then(|at| {
            let flows = joined[at].union(&one, limits, &lost);
            let judged = judge(&flows, one.certain)?;
            Some((at, flows, judged))
        });
        let at = if let Some((at, flows, judged)) = both {
            let other = &mut joined[at];
            other.links.extend(&one.links);
            other.severity = other.severity.max(one.severity);
            (other.flows, other.judged) = (flows, judged);
            at
        } else {
            joined.push(one);
            joined.len() - 1
        };
        let period = joined[at].judged.period;
        for hosts in joined[at].hosts() {
            let known = by_hosts.entry((period, hosts)).or_default();
            if known.last() != Some(&at) {
                known.push(at);
            }
        }
    }
    joined
}

/// The loss ratio on each of several links, of many on the first.
pub(super) fn by_link(
    input: &Input<'_>,
    links: &[&str],
    bad: &[LossyPair<'_>],
    side: Side,
    period: &Period,
) -> Vec<String> {
    let of = |link: &&str| {
        let flows = bad.iter().flat_map(|((src, dst), _)| input.facts.between(*src, *dst));
        let own = flows.filter(|flow| flow.link == **link);
        let sum = LossCounts::of_all(own.map(|flow| LossCounts::of(input.facts, flow, side, period)));
        format!("{} ({})", short(link), units::ratio(Some(sum.ratio())))
    };
    links.iter().take(MAX_FLOWS).map(of).collect()
}
