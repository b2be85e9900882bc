//! Lost packets, and on which side of the tap.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use super::not_evaluated::{flows_unjudged, is_unjudged};
use super::once::{Name, name};
use super::tool::own;
use super::{Entry, Family, Input, Measure, Need, Raise};
use crate::analysis::Facts;
use crate::analysis::{Between, Episodes, Flow, Loss};
use crate::findings::{Finding, Severity};
use crate::util::units::{self, plural};

/// This family.
pub(super) const FAMILY: Family =
    Family { entries: &[BEFORE, AFTER, BETWEEN], limits: &[Limits::META], evidence: &[], check };

/// What to look at on whichever side it is.
macro_rules! lossless {
    () => {
        "A lossless fabric does not lose RoCE to full buffers: check that PFC is on for the priority that RoCE uses at every hop (`dcb pfc show`, mlnx_qos), that hosts and \
         switches map the DSCP of RoCE to it (trust dscp, NCCL_IB_TC), and buffer and headroom settings. Look for drops at each hop on the way (switch port counters, rx_discards_phy, \
         rx_prioP_buf_discard) and for link errors (symbol errors, bad cables and transceivers)."
    };
}

/// Where to look for what is lost before a tap.
macro_rules! upstream {
    () => {
        "Look between the sender and this tap: the sending host's port, the hops on the way, and this port's own ingress."
    };
}

/// Where to look for what is lost behind it.
macro_rules! downstream {
    () => {
        "Look between this tap and the receiver: the hops on the way, and the receiving host's port and NIC."
    };
}

/// What losses on both sides of a tap say beyond those of each.
const BOTH_SIDES: &str = "Losses on both sides of this tap at once speak for something common to all hops (PFC off for this priority, a DSCP \
     that no hop maps to it) rather than for one bad cable.";

const BEFORE: Entry = Entry {
    id: "loss.before_tap",
    rank: 220,
    needs: &[Need::Loss, Need::Sequences],
    measure: Some(Measure::ratio("loss_ratio")),
    title: "Packets are lost before they reach this tap",
    meaning: "Between the sender and the place of the capture packets are lost. Each loss makes a sender with go-back-N repeat all that is in flight.",
    computed: "Per link and pair of hosts: PSNs that were skipped here and then sent again, as a share of the packets that should have passed (flows[].loss.lost). PSNs that came late in \
               their own right do not count, nor those that the sender never sent again, for these reached the receiver. Raised when all that passes the tap (live: all interfaces; each queue pair once) shows `episodes` separate episodes and \
               the share `ratio`, or two hosts alone do; it names every pair of hosts with `pair_episodes` and that share; critical from `critical_ratio`. Of UC, whose senders send nothing again, skipped PSNs count as lost, and the finding is info. With two taps on the way, only the one nearer the sender is asked. Left out are queue pairs that lost packets and could not be followed \
               (live): `flows_unjudged` of them.",
    advice: concat!(upstream!(), " ", lossless!()),
    caveat: "Where the capture itself drops packets and the sender repeats for another reason, the first look like losses: while totals.lost grows the title says so.",
    ..Entry::EMPTY
};
const AFTER: Entry = Entry {
    id: "loss.after_tap",
    rank: 230,
    needs: &[Need::Loss, Need::Sequences],
    measure: Some(Measure::ratio("loss_ratio")),
    title: "Receivers ask again for packets that passed this tap",
    meaning: "Receivers ask for packets again that passed here: these were lost behind this tap, or arrived damaged or out of order, which most receivers treat like a loss. Which of these it was is not seen from one tap.",
    computed: "Per link and pair of hosts: times at which a NAK (sequence error) asked for a PSN that had passed here without a gap, and the sender went back to it; of READ responses, times at \
               which they were asked for again (flows[].loss.after_tap). RNR NAKs and what follows them do not count, nor what a mirror shows twice, nor timers that ran out without a NAK. Where no \
               answers are seen, every time the sender went back counts, and where nothing at all passes the other way it is a warning at most. Raised and graded as loss.before_tap, the share being of episodes among packets. With two taps on the way, only the one nearer \
               the receiver is asked.",
    advice: concat!(downstream!(), " ", lossless!()),
    caveat: "One episode may be more than one lost packet: how many is not visible from here. Reordering behind the tap looks the same; with adaptive routing it needs receivers that put \
             packets in order (NCCL_IB_ADAPTIVE_ROUTING, the NIC's out-of-order placement).",
    ..Entry::EMPTY
};
const BETWEEN: Entry = Entry {
    id: "loss.between_taps",
    rank: 210,
    needs: &[Need::Taps],
    measure: Some(Measure::ratio("loss_ratio")),
    title: "Packets vanish between two taps",
    meaning: "Packets that passed one tap did not pass the next one on their way: what loses them lies between the two.",
    computed: "Per pair of taps and pair of hosts: packets that the tap nearer the sender saw and the other did not, between packets that both saw (taps[].vanished), without those that the \
               sender never sent again, for these reached the receiver and were missed by the second capture. Raised from `vanished` packets and the share `ratio` on, critical from `critical_ratio`. \
               Not raised from the share `other_way` on: then flows take several ways, of which only one is captured.",
    advice: concat!("Look between these two taps. ", lossless!()),
    caveat: "Taps are not named when their order is not known. Of services that send nothing again, a packet that the second capture missed cannot be told from a lost one.",
    ..Entry::EMPTY
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "loss";
    episodes: u64 = 5,
        "separate episodes at a tap from which loss is a finding",
        "Clean links repeat now and then: healthy captures show one or two. Loss that matters comes back";
    pair_episodes: u64 = 2,
        "episodes of a pair of hosts from which it is named, where all pairs together make it a finding",
        "Hosts behind the same bad hop lose alike, and in a short capture each only now and then; one episode alone is chance";
    vanished: u64 = 5,
        "packets that vanished between two taps from which it is a finding",
        "As episodes";
    ratio: f64 = 0.0001,
        "share of lost packets from which it is a warning",
        "One loss costs a go-back-N sender all that is in flight, often 100 to 1,000 packets: 1 lost in 10,000 then costs 1 to 10 % of the throughput";
    critical_ratio: f64 = 0.01,
        "share of lost packets from which it is critical",
        "By the same count a sender with 100 packets in flight then sends everything twice";
    other_way: f64 = 0.3,
        "share of packets not seen at a second tap from which they are said to have taken another way",
        "No reliable connection survives such a loss; spraying over two links hides one half of the packets from each";
}

/// Packets, how many more were lost, and how often.
#[derive(Clone, Copy, Default)]
struct Sum {
    /// With those lost before the tap, which should have passed it.
    packets: u64,
    lost: u64,
    episodes: u64,
}

impl Sum {
    /// Of the requests and responses in a flow. Behind a tap an episode counts as one lost packet: how many it was
    /// is not seen.
    fn of(flow: &Flow, side: Side) -> Self {
        if flow.psn.is_none() && flow.psn_responses.is_none() || is_unjudged(flow) {
            return Self::default();
        }
        let mut sum = Self { packets: flow.followed_packets(), ..Self::default() };
        for loss in [flow.loss, flow.loss_responses].iter().flatten() {
            let episodes = side.of(loss).episodes;
            match side {
                // These should have passed as well.
                Side::Before => (sum.lost, sum.packets) = (sum.lost + loss.lost, sum.packets + loss.lost),
                Side::After => sum.lost += episodes,
            }
            sum.episodes += episodes;
        }
        sum
    }

    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.lost += other.lost;
        self.episodes += other.episodes;
    }

    fn ratio(&self) -> f64 {
        self.lost as f64 / self.packets.max(1) as f64
    }

    /// Whether it is more than what clean links show now and then.
    fn is_enough(&self, limits: &Limits) -> bool {
        self.episodes >= limits.episodes && self.ratio() >= limits.ratio
    }
}

/// What went wrong between two hosts.
#[derive(Default)]
struct Pair<'a> {
    flows: Vec<(&'a Flow, u64)>,
    sum: Sum,
    longest_ns: u64,
    largest: u64,
    timeouts: u64,
    last_ns: Option<u64>,
    reliable: bool,
}

impl<'a> Pair<'a> {
    fn add(&mut self, flow: &'a Flow, side: Side) {
        let sum = Sum::of(flow, side);
        self.sum.add(sum);
        for loss in [flow.loss, flow.loss_responses].iter().flatten() {
            let episodes = side.of(loss);
            self.longest_ns = self.longest_ns.max(episodes.longest_ns.unwrap_or(0));
            self.largest = self.largest.max(episodes.largest.unwrap_or(0));
            self.timeouts += loss.timeouts;
            self.last_ns = self.last_ns.max(episodes.last_ns);
        }
        self.reliable |= sum.lost > 0 && !flow.is_uc();
        if sum.lost > 0 {
            self.flows.push((flow, sum.lost));
        }
    }
}

/// What passes a tap, by its name: of services that send lost packets again, and of those that do not. A queue pair
/// that several of its links see counts once.
#[derive(Default)]
struct Tap {
    flows: HashMap<Name, (Sum, bool)>,
    reliable: Sum,
    unreliable: Sum,
}

impl Tap {
    fn add(&mut self, flow: &Flow, side: Side) {
        let sum = Sum::of(flow, side);
        let (most, _) = self.flows.entry(name(flow)).or_insert((Sum::default(), !flow.is_uc()));
        most.packets = most.packets.max(sum.packets);
        most.lost = most.lost.max(sum.lost);
        most.episodes = most.episodes.max(sum.episodes);
    }

    fn sum(&mut self) {
        for (sum, reliable) in self.flows.values() {
            if *reliable { &mut self.reliable } else { &mut self.unreliable }.add(*sum);
        }
    }
}

/// The tap that a link is part of. The interfaces of a live run are one place; links of a file are named after it, and
/// what tells them apart follows a colon.
fn tap_of(flow: &Flow) -> &str {
    if flow.direction.is_some() { "" } else { flow.link.split(':').next().unwrap_or_default() }
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let ends = Ends::of(input.facts);
    let from = found.len();
    sides(input, &ends, Side::Before, found);
    let middle = found.len();
    sides(input, &ends, Side::After, found);
    if (from + 1..found.len()).contains(&middle) {
        for finding in found.iter_mut().skip(from) {
            let _ = write!(finding.advice, " {BOTH_SIDES}");
        }
    }
    between(input, found);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

impl Side {
    fn of(self, loss: &Loss) -> &Episodes {
        match self {
            Self::Before => &loss.before_tap,
            Self::After => &loss.after_tap,
        }
    }
}

/// Flows whose loss on one side is what another tap tells better.
struct Ends<'a> {
    /// Links that another tap is before, of these flows.
    behind: HashSet<(&'a str, Name)>,
    /// Links that another tap is behind.
    ahead: HashSet<(&'a str, Name)>,
}

impl<'a> Ends<'a> {
    fn of(facts: &'a Facts) -> Self {
        let (mut behind, mut ahead) = (HashSet::new(), HashSet::new());
        for tap in &facts.taps {
            let name = (tap.src, tap.dst, tap.dest_qp);
            if let (Some(from), Some(to)) = (&tap.from, &tap.to) {
                ahead.insert((from.as_str(), name));
                behind.insert((to.as_str(), name));
            } else if tap.only_at == [0, 0] {
                // Whichever comes first: both see the same, and one tells it.
                let [_, other] = &tap.links;
                ahead.insert((other.as_str(), name));
                behind.insert((other.as_str(), name));
            }
        }
        Self { behind, ahead }
    }

    fn tell_better(&self, side: Side, flow: &Flow) -> bool {
        let key = (flow.link.as_str(), name(flow));
        match side {
            Side::Before => self.behind.contains(&key),
            Side::After => self.ahead.contains(&key),
        }
    }
}

fn sides(input: &Input<'_>, ends: &Ends<'_>, side: Side, found: &mut Vec<Finding>) {
    let limits = &input.limits.loss;
    let mut taps: HashMap<&str, Tap> = HashMap::new();
    let mut links: BTreeMap<(&str, &str), Pairs<'_>> = BTreeMap::new();
    for flow in input.facts.flows.iter().filter(|flow| !ends.tell_better(side, flow)) {
        taps.entry(tap_of(flow)).or_default().add(flow, side);
        let pairs = links.entry((&flow.link, tap_of(flow))).or_default();
        pairs.entry((flow.src, flow.dst)).or_default().add(flow, side);
    }
    taps.values_mut().for_each(Tap::sum);
    let fewest = limits.pair_episodes.clamp(1, limits.episodes.max(1));
    for ((link, tap), pairs) in links {
        let Some(tap) = taps.get(tap) else { continue };
        let enough = |pair: &Pair<'_>| {
            let all = if pair.reliable { &tap.reliable } else { &tap.unreliable };
            pair.sum.is_enough(limits)
                || pair.sum.episodes >= fewest && pair.sum.ratio() >= limits.ratio && all.is_enough(limits)
        };
        let mut bad: Vec<Bad<'_>> = pairs
            .into_iter()
            .filter(|(_, pair)| enough(pair))
            // Where senders repeat nothing, a capture of every other packet looks like this.
            .filter(|(_, pair)| pair.reliable || pair.sum.ratio() < limits.other_way)
            .collect();
        let weight = |pair: &Pair<'_>| (pair.reliable, pair.sum.is_enough(limits));
        bad.sort_by(|(_, a), (_, b)| {
            weight(b).cmp(&weight(a)).then_with(|| b.sum.ratio().total_cmp(&a.sum.ratio()))
        });
        raise(input, side, link, &bad, found);
    }
}

/// What is lost on one link, by source and destination.
type Pairs<'a> = BTreeMap<(IpAddr, IpAddr), Pair<'a>>;

/// Two hosts, and what is lost between them.
type Bad<'a> = ((IpAddr, IpAddr), Pair<'a>);

/// Names the pairs of hosts that lose on one side of a link, the worst first.
fn raise(input: &Input<'_>, side: Side, link: &str, bad: &[Bad<'_>], found: &mut Vec<Finding>) {
    /// Pairs named beside the worst.
    const ALSO: usize = 3;
    let limits = &input.limits.loss;
    let Some((((src, dst), worst), others)) = bad.split_first() else { return };
    let Sum { lost, packets, .. } = worst.sum;
    let share = |pair: &Pair<'_>| units::ratio(Some(pair.sum.ratio()));
    let answers = input.facts.flows.iter().any(|flow| flow.src == *dst && flow.dst == *src);
    let mut what = match side {
        Side::Before => format!(
            "{} of the packets from {src} to {dst} are lost before {link}: {lost} of {}",
            share(worst),
            packets
        ),
        Side::After if answers => format!(
            "{dst} asked {} for packets from {src} that had passed {link}: lost behind it, or arrived damaged \
             or out of order",
            plural(lost, "time")
        ),
        Side::After => format!(
            "{src} went back {} to send {dst} again what had passed {link}; why is not seen, for nothing passes here \
             from {dst} to {src}: lost behind it, damaged, out of order, or {dst} was not ready",
            plural(lost, "time")
        ),
    };
    for (at, ((src, dst), pair)) in others.iter().take(ALSO).enumerate() {
        let how = match side {
            Side::Before => share(pair),
            Side::After => plural(pair.sum.lost, "time"),
        };
        let also = if at == 0 { "; also" } else { "," };
        let _ = write!(what, "{also} from {src} to {dst} ({how})");
    }
    let mut all = Sum::default();
    for (_, pair) in bad {
        all.add(pair.sum);
    }
    // A share of few packets says little of one pair, but much of all.
    let ratio = if worst.sum.is_enough(limits) { worst.sum.ratio() } else { all.ratio() };
    let severity = if !worst.reliable {
        Severity::Info
    } else if ratio >= limits.critical_ratio && (side == Side::Before || answers) {
        Severity::Critical
    } else {
        Severity::Warning
    };
    let most = |of: fn(&Pair<'_>) -> u64| bad.iter().map(|(_, pair)| of(pair)).max().unwrap_or(0);
    let entry = if side == Side::Before { &BEFORE } else { &AFTER };
    Raise::new(entry, severity, title(what, others.len().saturating_sub(ALSO), input.facts))
        .evidence("loss_ratio", all.ratio())
        .evidence("worst_ratio", worst.sum.ratio())
        .evidence(if side == Side::Before { "lost" } else { "asked_again" }, all.lost)
        .evidence("packets", all.packets)
        .evidence("episodes", all.episodes)
        .evidence("longest_ns", most(|pair| pair.longest_ns))
        .evidence("largest", most(|pair| pair.largest))
        .evidence("timeouts", bad.iter().map(|(_, pair)| pair.timeouts).sum::<u64>())
        .evidence("host_pairs", bad.len())
        .evidence("flows_unjudged", flows_unjudged(input.facts))
        .evidence("tool_lost", own(&input.facts.totals.lost))
        .last_seen(bad.iter().filter_map(|(_, pair)| pair.last_ns).max())
        .flows(in_turn(bad))
        .into(found);
}

/// The flows of all pairs, those that lost most first, each pair's worst before any pair's second.
fn in_turn<'a>(bad: &[Bad<'a>]) -> impl Iterator<Item = &'a Flow> + use<'a> {
    let mut flows: Vec<(usize, u64, &Flow)> = Vec::new();
    for (_, pair) in bad {
        let mut own = pair.flows.clone();
        own.sort_by_key(|(_, lost)| Reverse(*lost));
        flows.extend(own.into_iter().enumerate().map(|(turn, (flow, lost))| (turn, lost, flow)));
    }
    flows.sort_by_key(|(turn, lost, _)| (*turn, Reverse(*lost)));
    flows.into_iter().map(|(.., flow)| flow)
}

fn between(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.loss;
    let mut bad = input.facts.between_taps();
    bad.retain(|one| {
        one.vanished >= limits.vanished && (limits.ratio..limits.other_way).contains(&one.ratio())
    });
    bad.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    for one in bad {
        let Between { from, to, src, dst, vanished, .. } = &one;
        let share = units::ratio(Some(one.ratio()));
        let what = format!(
            "{share} of the packets from {src} to {dst} vanish between {from} and {to}: {vanished} of {}",
            one.packets()
        );
        let critical = one.ratio() >= limits.critical_ratio;
        let severity = if critical { Severity::Critical } else { Severity::Warning };
        Raise::new(&BETWEEN, severity, title(what, 0, input.facts))
            .evidence("loss_ratio", one.ratio())
            .evidence("vanished", *vanished)
            .evidence("packets", one.packets())
            .evidence("tool_lost", own(&input.facts.totals.lost))
            .flows(one.flows.iter().copied())
            .into(found);
    }
}

fn title(what: String, others: usize, facts: &Facts) -> String {
    let mut title = what;
    match others {
        0 => {}
        1 => title.push_str("; one more pair of hosts"),
        n => {
            let _ = write!(title, "; {n} more pairs of hosts");
        }
    }
    let own = own(&facts.totals.lost);
    if own > 0 {
        let _ = write!(title, " (may be our own: {} dropped before counting)", plural(own, "packet"));
    }
    title
}
