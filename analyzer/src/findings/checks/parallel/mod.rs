//! One of several parallel links that is worse than its peers: marks, loss or delay.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::direction_balance::{Sides, sides};
use crate::analysis::{Flow, Imbalance, TapFlow};
use crate::findings::command::{Commands, priority};
use crate::findings::ids;
use crate::findings::period::{Period, latest, periods, run};
use crate::findings::subject::LinkSignal;
use crate::findings::title::{fits, short, title};
use crate::findings::{
    ByHand, Entry, Episode, Evidence, Family, Finding, Impact, Input, Measure, Place, Problem, Raise,
    Severity, Step, Unit, label,
};
use crate::metrics::loss::signal_intervals::Signal;
use crate::sample::Address;
use crate::util::numbers::share;
use crate::util::units;

mod delay;

use delay::Percentile;

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[ONE_OF],
    limits: &[Limits::META],
    evidence: &[
        label("kind", "signal", Unit::Text),
        label("link_ratio", "ratio on this link", Unit::Ratio),
        label("peers_ratio", "ratio on the parallel links", Unit::Ratio),
        label("link_latency_ns", "median latency on this link", Unit::Nanoseconds),
        label("peers_latency_ns", "median latency on the parallel links", Unit::Nanoseconds),
        label("link_p99_ns", "99th percentile of latency on this link", Unit::Nanoseconds),
        label("peers_p99_ns", "99th percentile of latency on the parallel links", Unit::Nanoseconds),
        label("load_over_mean", "its load over the mean", Unit::Factor),
        label("host_pairs", "host pairs with flows on both", Unit::Count),
        label("ratio_since", "ratio since it began", Unit::Ratio),
    ],
    check,
};

pub(super) const ONE_OF: Entry = Entry {
    id: ids::LINKS_CONGESTED_ONE_OF,
    rank: 355,
    causes: &[ids::ENTROPY_LOW, ids::DEVICE_LINK_ERRORS],
    measure: Some(Measure::ratio("link_ratio")),
    title: "One of several parallel links is congested, slow or lossy",
    meaning: "Flows that hash onto one of several parallel links are CE-marked, lose packets or wait longer for their ACKs, while flows between the same hosts on the \
                other links do not. A collective waits for its slowest flow, so a fault that touches a small share of the data slows the whole collective.",
    computed: "For each group of links that share a load (imbalance), by direction. Only pairs of hosts with flows on this link and on its peers are compared, so that a slow host does \
               not count against a link: their data on this link must amount to at least parallel.packets packets, of at least parallel.pairs host pairs and parallel.flows flows. Raised \
               when one of these holds:\n\
               - The CE ratio is at least ecn.congestion_ratio and at least parallel.factor times that of the peers.\n\
               - The loss ratio (upstream and NAK episodes) is at least parallel.loss_ratio and at least parallel.factor times that of the peers.\n\
               - The median request-to-ACK latency is at least parallel.slower times that of the peers and parallel.slower_ns longer (flows with parallel.samples samples), in the share \
               parallel.agree of at least parallel.slow_pairs host pairs (with fewer host pairs: in that share of the flows, of at least parallel.flows_alone here and on the peers), and \
               no direction of the link carries more than parallel.load times the mean: a queue there would be links.imbalance.\n\
               - The same of 99th percentiles: parallel.tail_slower times and parallel.tail_slower_ns longer (flows with parallel.tail_samples samples), as of a link that becomes slow \
               in the middle of a capture; no direction carries more than parallel.even_load times the mean.\n\
               \n\
               The load may be higher, but less than links.max_over_mean, where the delay is parallel.steady times its own spread from median to p99 or requests of both directions are \
               slow: the delay of a queue varies, and holds up the ACKs of one direction alone.\n\
               \n\
               From parallel.even_load times the mean, where neither holds, the title says that the link may only be busier; else it owns links.imbalance, since what a slow link carries \
               takes longer. CE and loss ratios are those of the latest episode ({EPISODE_GAP_NS} without a mark or loss end one), over {LEAST_NS} at least.\n\
               \n\
               Marks on the link that ecn.congestion names are that finding, which then has the CE ratio of the peers (peers_ratio) and the steps of this one: not raised.",
    advice: "<eth>Check that link and the switch ports at its ends: speed, lanes and FEC errors, egress queue, ECN thresholds and PFC pauses against its peers, and what else is routed over it.</eth> \
               Take it out of the ECMP group to confirm.",
    caveat: "The fault may be on the path beyond this link, which its flows share. Latency covers the way of the request and of the ACK that passes the same link.",
    ..Entry::of(Problem::Congestion)
};

/// Caveat of a delay on a link with more load.
const MORE_LOAD: &str = "One direction of this link carries more than its peers: near saturation that alone fills a queue. If the fabric is \
     that busy, spread the load first (links.imbalance).";

limits! {
    /// Thresholds of this family.
    pub struct Limits = "parallel";
    packets: u64 = 500,
        "minimum data packets on the link, of host pairs that use its peers too",
        "Ratios of a hundredth rest on five packets then";
    loss_ratio: f64 = 0.001,
        "minimum loss ratio on the link",
        "Ten times loss.ratio: loss by chance hits one of few links more than the others";
    factor: f64 = 4.0,
        "minimum ratio of the link to that of its peers",
        "Hashing alone makes loads, and so queues, differ by a factor of two";
    slower: f64 = 2.0,
        "minimum median latency over that of the peers",
        "Medians of parallel links with an even load agree within a half";
    slower_ns: u64 = 50_000,
        "minimum difference of the median latencies",
        "More than the path itself takes in a data centre";
    tail_slower: f64 = 8.0,
        "minimum 99th percentile of latency over that of the peers",
        "Tails of links with an even load differ by a factor of two or three";
    tail_slower_ns: u64 = 200_000,
        "minimum difference of the 99th percentiles",
        "More than a queue that a burst leaves for a moment";
    tail_samples: u64 = 500,
        "minimum latency samples of a flow for a 99th percentile",
        "It rests on five samples beyond it then";
    load: f64 = 1.2,
        "maximum load of a slow link over the mean",
        "A link with a fifth more traffic than its peers queues more";
    even_load: f64 = 1.05,
        "load over the mean above which load may be why a link is slower",
        "Near saturation a queue grows with every per cent";
    steady: u64 = 4,
        "minimum ratio of a delay to the distance from median to p99 for a delay that is not a queue",
        "A queue is empty at times, and even one that a window keeps filled varies by a third";
    pairs: usize = 2,
        "minimum host pairs with the signal",
        "A single pair may have a problem of its own";
    flows: usize = 3,
        "minimum flows with the signal",
        "As pairs";
    slow_pairs: usize = 3,
        "minimum host pairs of which latencies are compared",
        "Of two pairs, neither shows which one is unusual";
    flows_alone: usize = 4,
        "minimum flows on the link, and on its peers, where there are fewer host pairs",
        "If four of eight flows have a problem at random, the probability that they are the four on one link is one in seventy";
    agree: f64 = 0.75,
        "minimum share of the flows or host pairs that must agree",
        "A slow or lossy link affects nearly all flows that it carries";
    samples: u64 = 20,
        "minimum latency samples of a flow for a median",
        "The median of 20 samples lies within those of a quarter and three quarters";
}

/// The flows of one host pair, by link.
type ByLink<'a> = BTreeMap<&'a str, Vec<&'a Flow>>;

/// One direction of a group of links.
struct Direction<'a> {
    group: &'a Imbalance,
    pairs: BTreeMap<(Address, Address), ByLink<'a>>,
}

/// The property that is worse on a link.
#[derive(Clone, Copy, Debug, PartialEq)]
enum WorseProperty {
    /// Ratios on the link and on its peers.
    Marks(f64, f64),
    Loss(f64, f64),
    /// Median latencies on the link and on its peers, in nanoseconds.
    Delay(u64, u64),
    /// Their 99th percentiles: the link was slow for a part of the time.
    Tail(u64, u64),
}

struct WorseLink<'a> {
    link: &'a str,
    worse: WorseProperty,
    /// Factor to the peers.
    times: f64,
    host_pairs: usize,
    /// For latencies: the share of its flows that are slower than their peers.
    slow_share: Option<f64>,
    /// For latencies: the difference is far larger than their variation, which a queue does not cause.
    steady: bool,
    /// For latencies that load may explain: load of the busier direction over the mean.
    load: Option<f64>,
    /// Episodes, if all times are known; the figures are those of the latest.
    episodes: Option<Vec<Episode>>,
    flows: Vec<&'a Flow>,
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    for group in input.facts.imbalance.iter().filter(|group| !group.same_path) {
        // Without sides, both directions of a host pair count together: a pair is compared only with itself.
        let sides = sides(input.sample, group);
        let ways: &[Option<bool>] = if sides.is_some() { &[Some(false), Some(true)] } else { &[None] };
        // Links in a `--group` may be taps on one path.
        let one_path = |tap: &TapFlow| tap.links.iter().all(|link| group.links.contains(link));
        if group.direction.is_none() && sides.is_none() && input.facts.taps.iter().any(one_path) {
            continue;
        }
        let directions: Vec<Direction<'_>> =
            ways.iter().map(|way| Direction::of(input, group, sides.as_ref(), *way)).collect();
        let worst = directions.iter().flat_map(|direction| {
            group
                .links
                .iter()
                .filter_map(|link| direction.worse(input, link, &directions))
                .collect::<Vec<_>>()
        });
        // The worst link, and its clearest signal: if one link delays all flows, a delay of most flows on another is
        // a queue elsewhere.
        let clearer = |a: &WorseLink<'_>, b: &WorseLink<'_>| {
            let share = a.slow_share.zip(b.slow_share).map_or(Ordering::Equal, |(a, b)| a.total_cmp(&b));
            share.then(a.times.total_cmp(&b.times))
        };
        if let Some(worst) = worst.max_by(clearer) {
            raise(input, group, &worst, found);
        }
    }
}

fn lost(flow: &Flow) -> u64 {
    flow.loss.get().map_or(0, |loss| loss.lost) + after_tap(flow)
}

fn after_tap(flow: &Flow) -> u64 {
    flow.loss.get().map_or(0, |loss| loss.after_tap.episodes.or_zero())
}

impl<'a> Direction<'a> {
    fn of(input: &Input<'a>, group: &'a Imbalance, sides: Option<&Sides>, way: Option<bool>) -> Self {
        let mut pairs: BTreeMap<(Address, Address), ByLink<'a>> = BTreeMap::new();
        let own = input.facts.flows.iter().filter(|flow| {
            flow.direction == group.direction
                && (flow.payload_bytes > 0 || flow.latency_ns.is_some())
                && group.links.iter().any(|link| flow.link == *link)
                && sides.is_none_or(|sides| sides.get(&flow.src).copied() == way)
        });
        for flow in own {
            pairs.entry((flow.src, flow.dst)).or_default().entry(&flow.link).or_default().push(flow);
        }
        pairs.retain(|_, links| links.len() > 1);
        Self { group, pairs }
    }

    /// The flows on a link, and those of the same hosts on its peers.
    fn split<'b>(&'b self, link: &'b str) -> impl Iterator<Item = (Vec<&'a Flow>, Vec<&'a Flow>)> + 'b {
        let with = self.pairs.values().filter(move |links| links.contains_key(link));
        with.map(move |links| {
            let of = |own: bool| {
                let links = links.iter().filter(move |(name, _)| (**name == link) == own);
                links.flat_map(|(_, flows)| flows.iter().copied()).collect()
            };
            (of(true), of(false))
        })
    }

    /// Of these, the flows with data: READ requests and atomics have none, and are timed alone.
    fn with_data<'b>(&'b self, link: &'b str) -> impl Iterator<Item = (Vec<&'a Flow>, Vec<&'a Flow>)> + 'b {
        let data = |mut flows: Vec<&'a Flow>| {
            flows.retain(|flow| flow.payload_bytes > 0);
            flows
        };
        let both = self.split(link).map(move |(here, there)| (data(here), data(there)));
        both.filter(|(here, there)| !here.is_empty() && !there.is_empty())
    }

    fn worse(&self, input: &Input<'_>, link: &'a str, all: &[Self]) -> Option<WorseLink<'a>> {
        let limits = &input.limits.parallel;
        let marks = self.in_latest_span(
            link,
            &[Signal::CeMarked],
            |flow| flow.ecn_data().ce,
            |period| {
                let part = |flow: &Flow| period.count(flow, Signal::CeMarked, flow.ecn_data().ce);
                let of = |flow: &Flow| period.capable(input.facts, flow);
                self.more(limits, link, part, of, input.limits.ecn.congestion_ratio, WorseProperty::Marks)
            },
        );
        let loss = self.in_latest_span(link, &[Signal::Lost, Signal::LossDownstream], lost, |period| {
            let part = |flow: &Flow| {
                let (lost, after) = (flow.loss.get().map_or(0, |loss| loss.lost), after_tap(flow));
                period.count(flow, Signal::Lost, lost) + period.count(flow, Signal::LossDownstream, after)
            };
            let of = |flow: &Flow| period.packets_of(input.facts, flow);
            self.more(limits, link, part, of, limits.loss_ratio, WorseProperty::Loss)
        });
        marks.or(loss).or_else(|| {
            let slower = self.slower(&Percentile::median(limits), link);
            let Some(slower) = slower else { return self.tail(input, link) };
            // A queue in one direction delays the ACKs of the other direction's requests, not those of its own: its
            // requests wait upstream of the tap or have left the link. If both directions are delayed, load in one of
            // them is not the cause.
            let loads = self.loads(input, link);
            let (most, least) = loads
                .iter()
                .fold((0.0f64, f64::MAX), |(most, least), load| (most.max(*load), least.min(*load)));
            let both = || {
                let median = Percentile::median(limits);
                let slow = |direction: &Self| direction.slower(&median, link).is_some();
                least <= limits.load && all.len() > 1 && all.iter().all(slow)
            };
            let no_queue = || most < input.limits.links.max_over_mean && (slower.steady || both());
            let queue = most > limits.even_load && !no_queue();
            (most <= limits.load || !queue).then_some(WorseLink { load: queue.then_some(most), ..slower })
        })
    }

    /// The result of `judge` for the latest period with a signal on a link for which it has one. `counted` is the
    /// number of signals in a flow, some of which may lack a time.
    fn in_latest_span(
        &self,
        link: &'a str,
        signals: &[Signal],
        counted: impl Fn(&Flow) -> u64,
        judge: impl Fn(&Period) -> Option<WorseLink<'a>>,
    ) -> Option<WorseLink<'a>> {
        let flows: Vec<&Flow> = self.with_data(link).flat_map(|(here, _)| here).collect();
        let known = |flow: &&Flow| {
            let intervals = signals.iter().flat_map(|signal| flow.intervals.of(*signal));
            intervals.map(|interval| interval.count).sum::<u64>() >= counted(flow)
        };
        let timed = flows.iter().all(known);
        let periods = if timed { periods(flows.iter().copied(), signals) } else { Vec::new() };
        let judged = latest(&periods, run(flows.iter().copied()), |period| {
            let found = judge(period)?;
            let peak = match found.worse {
                WorseProperty::Marks(here, _) | WorseProperty::Loss(here, _) => Some(here),
                WorseProperty::Delay(..) | WorseProperty::Tail(..) => None,
            };
            Some((found, peak))
        })?;
        let episodes = (!periods.is_empty()).then_some(judged.episodes);
        Some(WorseLink { episodes, ..judged.what })
    }

    /// Marks or loss far above those of the peers.
    fn more(
        &self,
        limits: &Limits,
        link: &'a str,
        part: impl Fn(&Flow) -> u64,
        of: impl Fn(&Flow) -> u64,
        least: f64,
        worse: fn(f64, f64) -> WorseProperty,
    ) -> Option<WorseLink<'a>> {
        let (mut own, mut others) = ((0, 0), (0, 0));
        let (mut pairs, mut flows) = (0, Vec::new());
        let (mut all, mut on_link, mut on_peers) = (0usize, 0usize, 0usize);
        for (here, there) in self.with_data(link) {
            (all, on_link, on_peers) = (all + 1, on_link + here.len(), on_peers + there.len());
            for (sum, side) in [(&mut own, &here), (&mut others, &there)] {
                sum.0 += side.iter().map(|flow| part(flow)).sum::<u64>();
                sum.1 += side.iter().map(|flow| of(flow)).sum::<u64>();
            }
            pairs += usize::from(here.iter().any(|flow| part(flow) > 0));
            flows.extend(here.into_iter().filter(|flow| part(flow) > 0));
        }
        let ratio = |(part, of): (u64, u64)| share(part, of);
        let (here, there) = (ratio(own), ratio(others));
        let alone = all < limits.pairs
            && on_link.min(on_peers) >= limits.flows_alone
            && flows.len() as f64 >= limits.agree * on_link as f64;
        let several = pairs >= limits.pairs && flows.len() >= limits.flows;
        let enough = own.1.min(others.1) >= limits.packets && (several || alone);
        // A peer without any counts as one with a single packet, since its ratio need not be smaller.
        let times = here / there.max(1.0 / others.1.max(1) as f64);
        flows.sort_by_key(|flow| std::cmp::Reverse(part(flow)));
        (enough && here >= least && times >= limits.factor).then(|| WorseLink {
            link,
            worse: worse(here, there),
            times,
            host_pairs: pairs,
            slow_share: None,
            steady: false,
            load: None,
            episodes: None,
            flows,
        })
    }

    /// Load of a link over the mean, in each of its directions.
    fn loads(&self, input: &Input<'_>, link: &str) -> Vec<f64> {
        let over_mean = |bytes: &[u64], at: usize| {
            let sum: u64 = bytes.iter().sum();
            bytes.get(at).copied().unwrap_or(0) as f64 * bytes.len() as f64 / sum.max(1) as f64
        };
        let Some(at) = self.group.links.iter().position(|name| name == link) else { return Vec::new() };
        if let Some(ways) = &self.group.ways {
            return ways.iter().map(|way| over_mean(&way.bytes, at)).collect();
        }
        let bytes = |direction| -> Vec<u64> {
            let of = |name: &String| {
                let mut own = input.facts.links.iter();
                own.find(|link| link.direction == direction && link.name == *name)
                    .map_or(0, |link| link.bytes)
            };
            self.group.links.iter().map(of).collect()
        };
        let directions: BTreeSet<_> = input.facts.links.iter().map(|link| link.direction).collect();
        directions.into_iter().map(|direction| over_mean(&bytes(direction), at)).collect()
    }
}

/// The other link of a group, or what stands for all others. "Peers" are hosts.
fn other_links(group: &Imbalance, own: &str) -> String {
    let mut others = group.links.iter().filter(|link| *link != own);
    match (others.next(), others.next()) {
        (Some(other), None) => short(other),
        _ => "the others".to_owned(),
    }
}

/// The sentence about a link of a group, and the signal that is worse.
fn diagnosis(worst: &WorseLink<'_>, name: &str, group: &Imbalance, ce: &str) -> (String, LinkSignal) {
    let ratio = |ratio| units::ratio(Some(ratio));
    let (count, others) = (group.links.len(), other_links(group, worst.link));
    match worst.worse {
        WorseProperty::Marks(here, there) => (
            format!(
                "Congestion on {name}, one of {count} links: {} {ce}-marked, {others} {}",
                ratio(here),
                ratio(there)
            ),
            LinkSignal::Marks,
        ),
        WorseProperty::Loss(here, there) => (
            format!("Loss on {name}, one of {count} links: {}, {others} {}", ratio(here), ratio(there)),
            LinkSignal::Loss,
        ),
        WorseProperty::Delay(here, there) => (
            format!(
                "{} {name}, one of {count}: median latency {}, {others} {}",
                if worst.load.is_some() { "Slow or busier link" } else { "Slow link" },
                units::duration(here),
                units::duration(there)
            ),
            LinkSignal::Delay,
        ),
        WorseProperty::Tail(here, there) => (
            format!(
                "Link {name}, one of {count}, at times slow: p99 {}, {others} {}",
                units::duration(here),
                units::duration(there)
            ),
            LinkSignal::Delay,
        ),
    }
}

fn raise(input: &Input<'_>, group: &Imbalance, worst: &WorseLink<'_>, found: &mut Vec<Finding>) {
    if let (Some(own), WorseProperty::Marks(_, peers)) = (same_marks(worst, group, found), worst.worse) {
        of_one_link(input, own, group, worst, peers);
        return;
    }
    let name = short(worst.link);
    let (diagnosis, signal) = diagnosis(worst, &name, group, input.facts.mark());
    let place = Place::link(input, worst.link, group.direction);
    let port = place.switch_port.as_ref().map_or_else(String::new, |port| format!(" ({port})"));
    let share = match worst.worse {
        WorseProperty::Marks(here, _) | WorseProperty::Loss(here, _) => Some(here),
        WorseProperty::Delay(..) | WorseProperty::Tail(..) => None,
    };
    let class = worst.flows.first().copied().and_then(priority);
    let here = Commands::on(input, worst.link).of_priority(class);
    let mut raise = Raise::new(&ONE_OF, Severity::Warning, title(diagnosis, []))
        .signal(signal)
        .compares(group.links.clone(), group.direction)
        .host_pairs(worst.host_pairs)
        .flows(worst.flows.iter().copied())
        .place(place)
        .impact(Impact { packets_ratio: share, ..Impact::default() })
        .step(check_ends(&name, &port), here.link())
        .step(
            format!("Compare discards, errors and pauses of {name} with those of the other links."),
            here.nic_counters(),
        )
        .step(
            format!("Compare the egress queues, ECN thresholds and PFC of {name} and the other links."),
            here.pfc(),
        )
        .step(OUT_OF_GROUP, ByHand::Switch);
    raise = match worst.worse {
        WorseProperty::Marks(here, there) | WorseProperty::Loss(here, there) => {
            raise.evidence("link_ratio", here).evidence("peers_ratio", there)
        }
        WorseProperty::Delay(here, there) => {
            let raise = raise.evidence("link_latency_ns", here).evidence("peers_latency_ns", there);
            match worst.load {
                Some(load) => raise.evidence("load_over_mean", load).caveat(MORE_LOAD),
                // What a slow link carries takes longer: it is busy alone when its peers are done.
                None => raise.owns(&[ids::LINKS_IMBALANCE]),
            }
        }
        WorseProperty::Tail(here, there) => {
            raise.evidence("link_p99_ns", here).evidence("peers_p99_ns", there)
        }
    };
    dated(raise, input, worst, share).into(found);
}

/// The congestion finding of the same link: its marks are the same, and it names the receivers.
fn same_marks<'f>(
    worst: &WorseLink<'_>,
    group: &Imbalance,
    found: &'f mut [Finding],
) -> Option<&'f mut Finding> {
    found.iter_mut().find(|one| {
        one.id == ids::ECN_CONGESTION
            && one.place.link.as_deref() == Some(worst.link)
            && one.place.direction == group.direction
            && one.is_problem()
    })
}

/// Says of congestion on a link that its peers between the same hosts have none, or far less: one trouble, one finding.
fn of_one_link(
    input: &Input<'_>,
    congestion: &mut Finding,
    group: &Imbalance,
    worst: &WorseLink<'_>,
    peers_ratio: f64,
) {
    let compared = format!(", {} on {}", units::ratio(Some(peers_ratio)), other_links(group, worst.link));
    let own = std::mem::take(&mut congestion.title);
    // How many flows there are gives way to the comparison.
    let own = match own.rsplit_once(", ") {
        Some((rest, flows)) if flows.ends_with(" flows") && !fits(&own, [&compared]) => rest.to_owned(),
        _ => own,
    };
    congestion.title = title(own, [compared]);
    congestion.evidence.insert(Evidence::declared(ids::ECN_CONGESTION, "peers_ratio", peers_ratio.into()));
    congestion.compare(group.links.clone(), group.direction);
    let speed = Commands::on(input, worst.link).link().map(|command| command.line);
    let port = congestion.place.switch_port.as_ref().map_or_else(String::new, |port| format!(" ({port})"));
    let step = |text, command| Step { text, command, ..Step::default() };
    congestion.steps.insert(1, step(check_ends(&short(worst.link), &port), speed));
    congestion.steps.push(step(OUT_OF_GROUP.to_owned(), None));
}

/// Step for the link itself; `port`: the switch port at its other end.
fn check_ends(name: &str, port: &str) -> String {
    format!("Check speed, lanes and FEC errors at both ends of {name}{port}.")
}

/// Last step: whether the link is at fault.
const OUT_OF_GROUP: &str = "Take the link out of the ECMP group for a test.";

/// Adds time, and the ratio since then.
fn dated(raise: Raise, input: &Input<'_>, worst: &WorseLink<'_>, share: Option<f64>) -> Raise {
    if let Some(episodes) = &worst.episodes {
        return raise
            .evidence("since_ns", episodes.last().map(|episode| episode.first_ns))
            .evidence("ratio_since", share)
            .episodes(episodes.clone());
    }
    let (Some((episode, part)), WorseProperty::Marks(here, _)) = (began(input, worst), worst.worse) else {
        return raise;
    };
    raise
        .evidence("since_ns", episode.first_ns)
        .evidence("ratio_since", part.map(|part| here / part))
        .episodes(vec![Episode { peak: Some(here), ..episode }])
}

/// Time of the marks on the link, and their share of its data since the first.
fn began(input: &Input<'_>, worst: &WorseLink<'_>) -> Option<(Episode, Option<f64>)> {
    let link = input.facts.links.iter().find(|link| link.name == worst.link)?;
    let first_ns =
        worst.flows.iter().filter_map(|flow| flow.ce_over_time.as_ref()).map(|ce| ce.start_ns).min()?;
    let last_ns = worst.flows.iter().map(|flow| flow.last_ns).max()?;
    let part = link.ecn_over_time.as_ref().and_then(|over_time| {
        let all: u64 = over_time.capable.iter().map(|n| u64::from(*n)).sum();
        let skip = first_ns.saturating_sub(over_time.start_ns).checked_div(over_time.bin_ns)?;
        let since = over_time.capable.iter().skip(usize::try_from(skip).ok()?);
        let since: u64 = since.map(|n| u64::from(*n)).sum();
        (since > 0).then(|| share(since, all))
    });
    Some((Episode { first_ns, last_ns, peak: None }, part))
}

#[cfg(test)]
mod tests;
