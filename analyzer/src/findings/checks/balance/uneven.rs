//! Uneven load as a finding: the busiest link, its heaviest flows, what an even load would move, and the steps.

use std::collections::BTreeSet;

use super::{LINKS_IMBALANCE, ends};
use crate::analysis::{Flow, direction_name};
use crate::findings::dedup;
use crate::findings::order::OVER_NS;
use crate::findings::period::Period;
use crate::findings::raise::are_alike;
use crate::findings::title::{beside, hosts, short, title};
use crate::findings::{ByHand, Commands, End, Episode, Finding, Input, Place, Raise, Severity};
use crate::sample::{Address, Direction};
use crate::util::numbers::share;

/// Links or rails of which one carries more than its share, in one or both directions.
pub(super) struct Uneven {
    names: Vec<String>,
    pub(super) busiest: String,
    /// Links of the busiest: itself, or those of a rail.
    pub(super) on: Vec<String>,
    pub(super) direction: Option<Direction>,
    ratio: f64,
    diagnosis: String,
    /// Part of the title between the diagnosis and the direction.
    pub(super) more: String,
    /// Its figures are those of the run.
    pub(super) whole: bool,
    pub(super) episodes: Vec<Episode>,
    /// Even load was seen after it.
    pub(super) settled: bool,
    /// Each part has an address of its own: no hash can move traffic from one to another.
    pub(super) bound: bool,
    raise: Raise,
}

/// True if one address takes part in all data of each part, and the others have none of its addresses: each part is a
/// list of links. In a live run, addresses are those of this host. In a replay it has several peers: one pair of hosts
/// on each link may be what a hash chose.
pub(super) fn is_bound(input: &Input<'_>, parts: &[&[String]], direction: Option<Direction>) -> bool {
    let ends = |flow: &Flow| match direction {
        Some(Direction::Egress) => BTreeSet::from([flow.src]),
        Some(Direction::Ingress) => BTreeSet::from([flow.dst]),
        None => BTreeSet::from([flow.src, flow.dst]),
    };
    let addresses = |links: &&[String]| {
        let mut here = input.facts.flows.iter().filter(|flow| {
            flow.payload_bytes > 0
                && flow.direction == direction
                && links.iter().any(|link| *link == *flow.link)
        });
        let first = ends(here.next()?);
        let both = (first.clone(), first);
        Some(here.fold(both, |(common, all), flow| (&common & &ends(flow), &all | &ends(flow))))
    };
    let parts: Vec<_> = parts.iter().filter_map(addresses).collect();
    let mut all: Vec<&Address> = parts.iter().flat_map(|(_, all)| all).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    let least = if direction.is_some() { 1 } else { 3 };
    let has_own = |(common, all): &(BTreeSet<_>, BTreeSet<_>)| !common.is_empty() && all.len() >= least;
    parts.len() > 1 && all.len() == count && parts.iter().all(has_own)
}

impl Uneven {
    pub(super) fn new(names: Vec<String>, busiest: &str, ratio: f64, diagnosis: String) -> Self {
        let raise = Raise::new(&LINKS_IMBALANCE, Severity::Warning, String::new());
        let raise = raise.compares(names.clone(), None);
        let (busiest, more) = (busiest.to_owned(), String::new());
        let on = vec![busiest.clone()];
        let (direction, episodes) = (None, Vec::new());
        let (whole, settled, bound) = (true, false, false);
        Self { names, busiest, on, direction, ratio, diagnosis, more, whole, episodes, settled, bound, raise }
    }

    pub(super) fn evidence(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        self.raise = self.raise.evidence(name, value);
        self
    }

    /// Sets the bytes of each link, and what the busiest carries beyond an even share.
    pub(super) fn of_bytes(mut self, bytes: Vec<u64>) -> Self {
        self.raise = self.raise.load_of_links(bytes);
        self
    }

    /// True if its figures stand for both directions of a problem: those of the direction with more imbalance, and of
    /// two that are alike those of ingress, so that they do not alternate while a run goes on.
    fn leads(&self, other: &Self) -> bool {
        if are_alike(self.ratio.min(other.ratio), self.ratio.max(other.ratio)) {
            self.direction == Some(Direction::Ingress)
        } else {
            self.ratio > other.ratio
        }
    }

    /// Adds it to the others. If the same link is the busiest in both directions, that is one problem: the finding
    /// has the figures of the direction that [leads](Self::leads), and the time of both.
    pub(super) fn join(self, all: &mut Vec<(Self, Option<Self>)>) {
        let is_other_way = |known: &Self| {
            let ways = known.direction.zip(self.direction);
            ways.is_some_and(|(a, b)| a != b) && known.busiest == self.busiest && known.names == self.names
        };
        let other = all.iter_mut().find(|(known, other)| other.is_none() && is_other_way(known));
        match other {
            Some(both) if both.0.leads(&self) => both.1 = Some(self),
            Some(both) => both.1 = Some(std::mem::replace(&mut both.0, self)),
            None => all.push((self, None)),
        }
    }

    /// The finding about queue pairs of which no packet is seen, without steps.
    pub(super) fn without_flows(self, input: &Input<'_>, place: Place) -> Raise {
        self.raise
            .compares(self.names, place.direction)
            .titled(title(self.diagnosis, [self.more]))
            .place(place)
            .last_seen(input.facts.window.last_ns)
    }

    /// True if its latest episode has ended.
    pub(super) fn has_ended(&self, input: &Input<'_>) -> bool {
        let ends = input.facts.window.last_ns.zip(self.episodes.last());
        self.settled || ends.is_some_and(|(end_ns, last)| end_ns.saturating_sub(last.last_ns) >= OVER_NS)
    }

    /// The flows on the busiest link in the latest episode, those with most bytes first.
    fn heaviest<'a>(&self, input: &Input<'a>) -> Vec<(u64, &'a Flow)> {
        let period = match self.episodes.last() {
            Some(part) if !self.whole => Period::between(part.first_ns, part.last_ns),
            _ => Period::whole(0, 0),
        };
        let is_here = |flow: &&Flow| {
            self.on.iter().any(|link| *link == *flow.link)
                && self.direction.is_none_or(|way| flow.direction == Some(way))
        };
        let here = input.facts.flows.iter().filter(is_here);
        let with_bytes = here.map(|flow| (period.part(input.facts, flow, flow.bytes), flow));
        let mut heaviest: Vec<_> = with_bytes.filter(|(bytes, _)| *bytes > 0).collect();
        dedup::worst_first(&mut heaviest, |(bytes, _)| *bytes, |(_, flow)| flow);
        heaviest
    }

    /// Number of data flows on all of its links, of the run; `None` where its figures are those of a part of it.
    fn of_flows(&self, input: &Input<'_>) -> Option<u64> {
        let is_here = |flow: &&Flow| {
            flow.payload_bytes > 0
                && self.names.iter().any(|link| *link == *flow.link)
                && self.direction.is_none_or(|way| flow.direction == Some(way))
        };
        let are_links = self.on.iter().all(|link| self.names.contains(link));
        (self.whole && are_links).then(|| dedup::count(input.facts.flows.iter().filter(is_here)))
    }

    pub(super) fn into(self, input: &Input<'_>, other: Option<Self>, found: &mut Vec<Finding>) {
        let flows = self.heaviest(input);
        let of_flows = self.of_flows(input);
        let (heaviest, ratios) = in_words(input, &flows).into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
        let Self {
            names,
            busiest,
            direction,
            ratio,
            diagnosis,
            more,
            mut episodes,
            mut settled,
            bound,
            mut raise,
            ..
        } = self;
        raise = raise.evidence("heaviest", heaviest).evidence("heaviest_ratios", ratios);
        let mut place = Place::link(input, &busiest, direction);
        let mut way = direction.map_or_else(String::new, |way| format!(" ({})", direction_name(way)));
        if let Some(other) = other {
            (place.direction, way) = (None, " (in and out)".to_owned());
            settled &= other.has_ended(input);
            if !are_alike(ratio.min(other.ratio), ratio.max(other.ratio)) {
                raise = raise.worse_direction(direction);
            }
            raise = raise.evidence("other_max_over_mean", other.ratio);
            if let (Some(own), Some(other)) = (episodes.last_mut(), other.episodes.last()) {
                own.first_ns = own.first_ns.min(other.first_ns);
                own.last_ns = own.last_ns.max(other.last_ns);
            }
        }
        let most = flows.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0);
        let least = most as f64 * input.limits.links.flow_ratio;
        let counts = |(bytes, flow): &&(u64, &Flow)| flow.payload_bytes > 0 && *bytes as f64 >= least;
        let with_data: Vec<&Flow> = flows.iter().filter(counts).map(|(_, flow)| *flow).collect();
        let (between, (requester, responder)) = hosts_of(input, &with_data);
        let between = beside(&diagnosis, between);
        let raise = if bound {
            bound_steps(input, raise, &busiest)
        } else {
            let sender = with_data.first().map(|flow| flow.src);
            steps(input, raise, (&busiest, place.switch_port.as_deref()), sender)
        };
        raise
            .compares(names, place.direction)
            .titled(title(diagnosis, [between, more, way]))
            .place(place)
            .counted(flows.iter().filter(counts).copied())
            .of_flows(of_flows)
            .ends(requester, responder)
            .last_seen(input.facts.window.last_ns)
            .dated(episodes)
            .settled(settled)
            .into(found);
    }
}

/// Flows of the busiest link that a finding names with their shares.
const HEAVIEST: usize = 5;

/// The first of these, requester → responder, each with its share of all.
fn in_words(input: &Input<'_>, flows: &[(u64, &Flow)]) -> Vec<(String, f64)> {
    let all: u64 = flows.iter().map(|(bytes, _)| bytes).sum();
    let words = |(bytes, flow): &(u64, &Flow)| {
        // Data of responses goes to the requester.
        let of = if flow.psn.is_none() { ends::of_answers } else { ends::of_data };
        let (requester, responder) = of(input, [*flow]);
        Some((format!("{} → {}", requester?, responder?), share(*bytes, all)))
    };
    flows.iter().take(HEAVIEST).filter_map(words).collect()
}

/// The hosts of these flows in words, and as requester and responder, where all send or all receive on one of them.
/// Queue pairs are left out: which flows are there changes, and the problem stays the same.
fn hosts_of(input: &Input<'_>, flows: &[&Flow]) -> ([String; 2], (Option<End>, Option<End>)) {
    let pairs: BTreeSet<(Address, Address)> = flows.iter().map(|flow| (flow.src, flow.dst)).collect();
    let Some(&(src, dst)) = pairs.first() else { return Default::default() };
    if pairs.iter().any(|pair| pair.0 != src) && pairs.iter().any(|pair| pair.1 != dst) {
        return Default::default();
    }
    // Responses go to the requester. Where a host sends both, it is named in the role of most bytes.
    let is_request = |flow: &&Flow| flow.psn.is_some();
    let asks = flows.first().is_some_and(is_request);
    let alike = flows.iter().copied().filter(|flow| is_request(flow) == asks);
    let (requester, responder) =
        if asks { ends::of_data(input, alike) } else { ends::of_answers(input, alike) };
    let host = |end: Option<End>| end.map(|end| End { qpn: None, ..end });
    (hosts(pairs.iter().copied()), (host(requester), host(responder)))
}

/// Steps about what distributes the load, nearest first: the source ports of the flows, the switch's hash, the job's
/// settings.
fn steps(
    input: &Input<'_>,
    raise: Raise,
    (busiest, port): (&str, Option<&str>),
    sender: Option<Address>,
) -> Raise {
    let (here, name) = (Commands::on(input, busiest), short(busiest));
    let switch = port.map_or_else(|| "On the switches".to_owned(), |port| format!("On {port}"));
    raise
        .step(
            format!("Count the source ports (SPORT) of the flows on {name}: ECMP cannot spread few of them evenly."),
            here.source_ports(),
        )
        .step(
            format!(
                "{switch}, compare the hash fields (L4 ports, destination QP) and the load of the parallel ports; check for polarisation."
            ),
            ByHand::Switch,
        )
        .step(
            "If there are few source ports, raise NCCL_IB_QPS_PER_CONNECTION; check NCCL_IB_HCA, NCCL_CROSS_NIC and the GPU to NIC assignment.",
            // Of a capture that is the host that sends most.
            if here.are_here() { here } else { sender.map_or(here, Commands::of_host) }.nccl_settings(),
        )
}

/// The same where each link has an address of its own: the job chooses the link, and no switch.
fn bound_steps(input: &Input<'_>, raise: Raise, busiest: &str) -> Raise {
    let here = Commands::on(input, busiest);
    raise
        .advice(
            "Each link has traffic of an address of its own, so no hash distributes the load: check how the job assigns GPUs \
             and processes to the links (NCCL_IB_HCA, NCCL_CROSS_NIC). Do not compare links that share no load by design.",
        )
        .step(
            "Compare the GPU to NIC assignment of the processes with that of the links (NCCL_IB_HCA, NCCL_CROSS_NIC).",
            here.nccl_settings(),
        )
        .step("List the queue pairs of each port with their processes.", here.queue_pairs())
        .step("If the links share no load by design, leave them out of the comparison (--group).", ByHand::Varies)
}
