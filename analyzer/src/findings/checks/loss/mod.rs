//! Packet loss, upstream or downstream of the tap.

mod counts;
mod grade;
mod links;
mod steps;
pub(super) mod taps;
#[cfg(test)]
mod tests;

use std::cell::{Cell, LazyCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::ends;
use super::tool::own_between;
use crate::analysis::loss::Downstream;
use crate::analysis::{Episodes, Facts, Flow, Loss};
use crate::findings::dedup::{name, worst_first};
use crate::findings::ids;
use crate::findings::not_evaluated::flows_not_evaluated;
use crate::findings::period::{Cost, Period, Wait, all_of, cost_base, impact, latest, periods, run, scaled};
use crate::findings::{
    Entry, Family, Finding, Hop, Input, Measure, Place, Problem, Raise, RequiredData, Severity, Unit, label,
    title,
};
use crate::metrics::loss::signal_intervals::Signal;
use crate::sample::Address;
use counts::LossCounts;
use grade::{ReorderingDoubt, grade, headline, in_words, shown_by};
use links::Lossy;
use taps::{Ends, own_loss, with_own_loss};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[UPSTREAM, DOWNSTREAM, BETWEEN],
    limits: &[Limits::META],
    evidence: &[
        label("loss_ratio", "loss ratio", Unit::Ratio),
        label("worst_ratio", "loss ratio, worst host pair", Unit::Ratio),
        label("lost", "packets lost", Unit::Count).summed(),
        label("lower_bound", "count is a lower bound", Unit::Text),
        label("or_reordering", "or reordering: indistinguishable here", Unit::Text),
        label("asked_again", "episodes of NAKs or repeated READs", Unit::Count).summed(),
        label("packets", "packets expected", Unit::Count).summed(),
        label("episodes", "loss episodes", Unit::Count).summed(),
        label("longest_ns", "longest recovery seen at this tap", Unit::Nanoseconds),
        label("largest", "packets in the largest episode", Unit::Count),
        label("timeouts", "transport timeouts", Unit::Count).summed(),
        label("host_pairs", "host pairs", Unit::Count),
        label("pairs", "host pairs, worst first", Unit::Text),
        label("by_link", "loss ratio by link", Unit::Text),
        label("vanished", "packets lost between the taps", Unit::Count).summed(),
        label("flows_unjudged", "flows not evaluated", Unit::Count),
        label("tool_lost", "packets dropped before rocescope saw them", Unit::Count),
        label("flows", "flows", Unit::Count),
    ],
    check,
};

/// Remedy for loss on either side.
macro_rules! lossless {
    () => {
        "<eth>A lossless fabric does not lose RoCE to full buffers: check that PFC is on for the priority that RoCE uses at every hop (`dcb pfc show`, mlnx_qos), that hosts and \
         switches map the DSCP of RoCE to it (trust dscp, NCCL_IB_TC), and buffer and headroom settings.</eth> Look for drops at each hop on the way (switch port counters, rx_discards_phy, \
         rx_prioP_buf_discard) and for link errors (symbol errors, bad cables and transceivers)."
    };
}

/// Remedy for loss upstream of a tap.
macro_rules! upstream {
    () => {
        "Look between the sender and this tap: the sending host's port, the hops on the way, and this port's own ingress."
    };
}

/// Remedy for loss downstream of a tap.
macro_rules! downstream {
    () => {
        "Look between this tap and the receiver: the hops on the way, and the receiving host's port and NIC."
    };
}

/// Addition if there is loss on both sides of a tap.
const BOTH_SIDES: &str = "<eth>Loss on both sides of this tap at once suggests a cause common to all hops (PFC off for this priority, a DSCP \
     that no hop maps to it) rather than one bad cable.</eth>";

pub(super) const UPSTREAM: Entry = Entry {
    id: ids::LOSS_BEFORE_TAP,
    rank: 220,
    causes: &[
        ids::PATH_MTU_BLACK_HOLE,
        ids::PATH_REWRITTEN,
        ids::CONFIG_LOSSLESS,
        ids::DEVICE_DISCARDS,
        ids::DEVICE_LINK_ERRORS,
        ids::PFC_ON_WRONG_PRIORITY,
        ids::ICRC_ERRORS,
    ],
    needs: &[RequiredData::Loss, RequiredData::Sequences],
    measure: Some(Measure::ratio("loss_ratio").grading()),
    title: "Loss upstream of this tap",
    meaning: "Packets are lost between the sender and this tap. Each loss makes a go-back-N sender retransmit all that is in flight.",
    computed: "Per link and host pair: PSNs skipped here and retransmitted later, as a share of the packets that should have passed (flows[].loss.lost). Reordered PSNs do not count, nor \
               PSNs that are never retransmitted: these reached the receiver.\n\
               \n\
               For UC, which retransmits nothing, skipped PSNs count as lost, and the finding is info (none from the share `loss.other_way` on: then the capture has a part of the \
               packets).\n\
               \n\
               Raised when all that passes the tap (live: all interfaces; each queue pair once) shows `loss.episodes` loss episodes and the share `loss.ratio`, or one host pair does; it \
               counts every host pair with `loss.pair_episodes` and that share, and names the worst 16.\n\
               \n\
               Each pair is graded by its own share, critical from `loss.critical_ratio`, and the finding is as severe as the worst of them. Host pairs where loss and reordering cannot \
               be distinguished, because IPv4 identifications do not count up, are a finding of their own, which is info:\n\
               - The share `loss.doubtful` of these PSNs may have been reordered (flows[].loss.lost_or_reordered): they passed twice, a go-back-N sender repeated nothing else, or neither a NAK nor a timeout explains their run, \
               or more gaps are filled without a NAK or timeout than after one.\n\
               - The receiver's ACKs are captured, and neither a NAK nor a timeout triggered any retransmission.\n\
               \n\
               With two taps on the path, only the one nearer the sender is evaluated. Queue pairs that could not be followed (live) are left out: `flows_unjudged`. The title says \"at \
               least\" where the sender also had timeouts: packets lost at the end of what was in flight leave no gap and are not counted.\n\
               \n\
               Figures are those of the latest episode ({EPISODE_GAP_NS} without the signal end one), over {LEAST_NS} at least; of several, longest recovery and largest episode are those of all.\n\
               \n\
               Links of one tap on which the same hosts lose packets at that time (the share `loss.same_pairs` of the host pairs of both or more) are one place, and one finding \
               (where.links, by_link); so are links that miss the share `loss.partial` of a flow's PSNs for good.",
    advice: concat!(upstream!(), " ", lossless!()),
    caveat: "Packets dropped before rocescope saw them look the same where the sender retransmits for another reason; with any of those, the title ends with \"may be capture loss\".",
    ..Entry::of(Problem::Loss)
};
pub(super) const DOWNSTREAM: Entry = Entry {
    id: ids::LOSS_AFTER_TAP,
    rank: 230,
    causes: &[
        ids::PATH_MTU_BLACK_HOLE,
        ids::PATH_REWRITTEN,
        ids::ICRC_ERRORS,
        ids::CONFIG_LOSSLESS,
        ids::DEVICE_DISCARDS,
        ids::PFC_ON_WRONG_PRIORITY,
    ],
    needs: &[RequiredData::Loss, RequiredData::Sequences],
    measure: Some(Measure::ratio("loss_ratio").grading()),
    title: "Loss downstream of this tap",
    meaning: "Receivers send sequence-error NAKs for packets that passed this tap, or requesters repeat READs whose responses did: the packets were lost downstream, or arrived corrupt or out of order, which most receivers treat like a loss. One tap alone cannot tell these apart.",
    computed: "Per link and host pair: sequence-error NAKs for a PSN that passed here, followed by a retransmission; for READ responses, repeated READ requests (flows[].loss.after_tap). \
               RNR NAKs and their fallout do not count, nor duplicates made by a mirror, nor timeouts without a NAK.\n\
               \n\
               If the reverse direction is not captured, every retransmission counts. Info, since loss, corruption and reordering downstream look the same: what the retransmissions \
               cost is `retry.storm`. If READs are repeated after a timeout, it is loss, graded as loss.before_tap.\n\
               \n\
               Same thresholds as loss.before_tap (`loss.episodes`, `loss.pair_episodes`, `loss.ratio`, `loss.critical_ratio`); the ratio is episodes per packet. With two taps on the path, \
               only the one nearer the receiver is evaluated. Figures are those of the latest episode ({EPISODE_GAP_NS} without the signal end one), over {LEAST_NS} at least; links are joined as there.",
    advice: concat!(downstream!(), " ", lossless!()),
    caveat: "An episode may be several lost packets: how many is not visible here. Recovery and waiting are counted from the sender's silence before its go-back-N: the time until the NAK arrives is not visible here.",
    ..Entry::of(Problem::Loss)
};
pub(super) const BETWEEN: Entry = Entry {
    id: ids::LOSS_BETWEEN_TAPS,
    rank: 210,
    causes: &[ids::PATH_MTU_BLACK_HOLE, ids::PATH_REWRITTEN],
    needs: &[RequiredData::Taps, RequiredData::TapOrder, RequiredData::UcAtNextTap],
    measure: Some(Measure::ratio("loss_ratio").grading()),
    title: "Loss between two taps",
    meaning: "Packets that passed one tap did not pass the next tap on their path: they are lost between the two.",
    computed: "Per pair of taps and host pair: packets that the tap nearer the sender saw and the other did not, between packets that both saw (`taps[].vanished`), without those never retransmitted: these reached the receiver, and the second capture missed them.\n\
               \n\
               Raised from `loss.vanished` packets and the share `loss.ratio` on, critical from `loss.critical_ratio`. Not raised from the share `loss.other_way` on: then flows take several paths, and only one is captured.\n\
               \n\
               The title says \"at least\" where one in a hundred packets was not compared although both taps saw the flow: their clocks differ by more than packets can wait for each other.",
    advice: concat!("Look between these two taps. ", lossless!()),
    caveat: "Taps whose order is not known are not compared. For services that retransmit nothing, a packet missed by the second capture looks lost.",
    ..Entry::of(Problem::Loss)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "loss";
    episodes: u64 = 5,
        "minimum loss episodes at a tap",
        "Clean links lose a packet now and then: healthy captures show one or two episodes. Loss that matters comes back";
    pair_episodes: u64 = 2,
        "minimum episodes of a host pair, where all pairs together reach loss.episodes",
        "Hosts downstream of the same bad hop lose alike, and in a short capture each only now and then; one episode alone is chance";
    vanished: u64 = 5,
        "minimum packets lost between two taps",
        "As episodes";
    ratio: f64 = 0.0001,
        "minimum loss ratio for a warning",
        "One loss costs a go-back-N sender all that is in flight, often 100 to 1,000 packets: 1 lost in 10,000 then costs 1 to 10 % of the throughput";
    critical_ratio: f64 = 0.01,
        "minimum loss ratio for critical",
        "By the same count a sender with 100 packets in flight then transmits everything twice";
    other_way: f64 = 0.3,
        "minimum share of packets not seen at the second tap that means another path",
        "No reliable connection survives such a loss; spraying over two links hides one half of the packets from each";
    partial: f64 = 0.25,
        "minimum share of a flow's PSNs that a link misses for good, for it to carry a part of the flow only",
        "As other_way; a link that begins to carry a flow later misses a smaller share";
    doubtful: f64 = 0.5,
        "minimum share of the lost PSNs that may have been reordered, for info",
        "A loss that is more likely reordering is not worth an alert";
    same_pairs: f64 = 0.5,
        "minimum share of the lossy host pairs that two links have in common, for them to be one place",
        "Chance leaves a pair below the threshold on one of the links";
}

/// Loss between two hosts.
#[derive(Default)]
pub(super) struct Pair<'a> {
    flows: Vec<(&'a Flow, u64)>,
    sum: LossCounts,
    longest_ns: u64,
    largest: u64,
    timeouts: u64,
    reordered: u64,
    /// Loss episodes of responses downstream of the tap, in which READs were repeated: all, and those after a silence
    /// of the requester.
    pub(super) rereads: (u64, u64),
    /// Timeouts of requesters whose READ responses were lost.
    requesters_timed_out: u64,
    /// Lost PSNs that may have been reordered (`lost_or_reordered`), and all lost PSNs.
    pub(super) doubtful: (u64, u64),
    pub(super) reliable: bool,
    /// Reasons why nothing may have been lost.
    doubt: ReorderingDoubt,
}

impl<'a> Pair<'a> {
    /// True if more is lost than counted: loss of the last packets in flight ends in a timeout and leaves no gap.
    pub(super) const fn at_least(&self) -> bool {
        self.reliable && self.timeouts + self.requesters_timed_out > 0
    }

    /// Classifies its episodes downstream of the tap.
    pub(super) fn downstream(&self) -> Downstream {
        let (all, after_silence) = self.rereads;
        let episodes = self.sum.episodes;
        let silent = if after_silence == all { after_silence } else { 0 };
        Downstream::of(episodes, self.reordered, silent)
    }

    /// The flow that lost most.
    pub(super) fn first(&self) -> Option<&'a Flow> {
        self.flows.iter().max_by_key(|(_, lost)| *lost).map(|(flow, _)| *flow)
    }

    fn add(&mut self, facts: &Facts, flow: &'a Flow, side: Side, period: &Period) {
        let sum = LossCounts::of(facts, flow, side, period);
        self.sum.add(sum);
        let (mut timeouts, mut reordered, mut doubtful, mut lost) = (0, 0, 0, 0);
        for loss in flow.troubles() {
            let episodes = side.of(loss);
            self.longest_ns = self.longest_ns.max(episodes.longest_ns.unwrap_or(0));
            self.largest = self.largest.max(episodes.largest.unwrap_or(0));
            doubtful += loss.lost_or_reordered.or_zero();
            lost += loss.lost;
            timeouts += loss.timeouts;
            reordered += loss.recovered;
        }
        let lost = period.count(flow, Signal::Lost, lost);
        self.doubtful.0 += period.count(flow, Signal::Doubtful, doubtful).min(lost);
        self.doubtful.1 += lost;
        if let Some(responses) = flow.loss_responses.get() {
            if side == Side::Downstream {
                let (all, after_silence) = rereads(flow, &responses, period);
                self.rereads.0 += all;
                self.rereads.1 += after_silence;
            } else if responses.lost > 0 {
                let requests = facts.requests_answered_by(flow);
                let timed_out = |other: &Flow| other.loss.get().map_or(0, |loss| loss.timeouts);
                self.requesters_timed_out +=
                    requests.map(|other| period.count(other, Signal::Timeout, timed_out(other))).sum::<u64>();
            }
        }
        self.timeouts += period.count(flow, Signal::Timeout, timeouts);
        self.reordered += period.count(flow, Signal::Reordered, reordered);
        self.reliable |= sum.lost > 0 && !flow.is_uc();
        if sum.lost > 0 {
            self.flows.push((flow, sum.lost));
        }
    }
}

/// Loss episodes of a flow's responses downstream of the tap in a period, and those after a silence of the requester.
/// The times are those of both its sequences: those of requests count in proportion.
fn rereads(flow: &Flow, responses: &Loss, period: &Period) -> (u64, u64) {
    let in_span = |signal, of: fn(&Loss) -> u64| {
        let all = flow.losses_sum(of);
        scaled(period.count(flow, signal, all), of(responses), all)
    };
    let episodes = in_span(Signal::LossDownstream, |loss| loss.after_tap.episodes.or_zero());
    let silent_ns = in_span(Signal::RecoveryDownstream, |loss| loss.after_tap.total_ns.unwrap_or(0));
    (episodes, Loss::after_silence(episodes, silent_ns))
}

/// Traffic at a tap, by services that retransmit and services that do not. A queue pair seen on several of its links
/// counts once.
#[derive(Default)]
struct Tap {
    reliable: LossCounts,
    unreliable: LossCounts,
}

impl Tap {
    /// From flows sorted by name.
    fn of(input: &Input<'_>, by_name: &[&Flow], side: Side, period: &Period) -> Self {
        let mut tap = Self::default();
        for flows in by_name.chunk_by(|a, b| name(a) == name(b)) {
            let mut most = LossCounts::default();
            for flow in flows {
                let sum = LossCounts::of(input.facts, flow, side, period);
                if is_partial(&input.limits.loss, flow) {
                    most.add(sum);
                    continue;
                }
                most.packets = most.packets.max(sum.packets);
                most.lost = most.lost.max(sum.lost);
                most.episodes = most.episodes.max(sum.episodes);
            }
            let reliable = flows.first().is_some_and(|flow| !flow.is_uc());
            if reliable { &mut tap.reliable } else { &mut tap.unreliable }.add(most);
        }
        tap
    }
}

/// True if its link shows a part of its packets only: they are sprayed over parallel links, which are one place.
pub(super) fn is_partial(limits: &Limits, flow: &Flow) -> bool {
    let unfilled = flow.loss.other().map_or(0, |loss| loss.unfilled.or_zero());
    flow.loss.is_known() && unfilled as f64 >= limits.partial * flow.packets as f64
}

/// The tap to which a link belongs. The interfaces of a live run are one place; links of a file are named after the
/// file, with the interface after a colon.
fn tap_of<'a>(limits: &Limits, flow: &'a Flow) -> &'a str {
    if flow.direction.is_some() || is_partial(limits, flow) {
        ""
    } else {
        flow.link.split(':').next().unwrap_or_default()
    }
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let ends = Ends::of(input.facts);
    let from = found.len();
    sides(input, &ends, Side::Upstream, found);
    sides(input, &ends, Side::Downstream, found);
    // Of certain loss: what may be reordering has another cause.
    let certain = |one: &&mut Finding| one.is_problem();
    let own = || found.iter().skip(from).filter(|one| one.is_problem());
    if own().any(|one| one.id == UPSTREAM.id) && own().any(|one| one.id == DOWNSTREAM.id) {
        for finding in found.iter_mut().skip(from).filter(certain) {
            let _ = write!(finding.advice, " {BOTH_SIDES}");
        }
    }
    taps::between(input, found);
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Upstream,
    Downstream,
}

impl Side {
    fn of(self, loss: &Loss) -> &Episodes {
        match self {
            Self::Upstream => &loss.before_tap,
            Self::Downstream => &loss.after_tap,
        }
    }

    pub(super) const fn signal(self) -> Signal {
        match self {
            Self::Upstream => Signal::LossUpstream,
            Self::Downstream => Signal::LossDownstream,
        }
    }

    /// The host of the two that is on this side.
    pub(super) const fn far(self, src: &Address, dst: &Address) -> Address {
        match self {
            Self::Upstream => *src,
            Self::Downstream => *dst,
        }
    }

    const fn hop(self) -> Hop {
        match self {
            Self::Upstream => Hop::Upstream,
            Self::Downstream => Hop::Downstream,
        }
    }
}

fn sides<'a>(input: &Input<'a>, ends: &Ends<'_>, side: Side, found: &mut Vec<Finding>) {
    let mut taps: BTreeMap<&str, Vec<&'a Flow>> = BTreeMap::new();
    for flow in input.facts.flows.iter().filter(|flow| !ends.covers(side, flow)) {
        taps.entry(tap_of(&input.limits.loss, flow)).or_default().push(flow);
    }
    let mut raised: Vec<Lossy<'_>> = Vec::new();
    for flows in taps.values() {
        let periods = periods(flows.iter().copied(), &[side.signal()]);
        // The traffic at the tap is the same for all of its links. Sorting a million flows takes a twentieth of the
        // time of a map.
        let mut sorted = flows.clone();
        sorted.sort_by_key(|flow| name(flow));
        let by_name = &sorted[..];
        let tap_in = |period: Period| LazyCell::new(move || Tap::of(input, by_name, side, &period));
        let known: Vec<_> = periods.iter().map(|period| (*period, tap_in(*period))).collect();
        let whole = tap_in(all_of(&periods, Period::whole(0, 0)));
        let mut links: BTreeMap<&'a str, Vec<&'a Flow>> = BTreeMap::new();
        for own in flows.chunk_by(|a, b| a.link == b.link) {
            if let Some(first) = own.first() {
                links.entry(first.link.as_str()).or_default().extend(own);
            }
        }
        // Pairs that lost packets for certain and pairs that may not have lost any are two findings: neither has the
        // severity, or the figures, of the other.
        let has_doubtful = Cell::new(false);
        let judge = |own: &[&'a Flow], certain: bool| {
            let in_span = |period: &Period| {
                let tap = known.iter().find(|(known, _)| known == period).map_or(&whole, |(_, tap)| tap);
                let mut bad = bad(input, own, side, period, tap);
                has_doubtful.set(has_doubtful.get() || bad.iter().any(|(_, pair)| !pair.is_certain()));
                bad.retain(|(_, pair)| pair.is_certain() == certain);
                let ratio = LossCounts::of_all(bad.iter().map(|(_, pair)| pair.sum)).ratio();
                (!bad.is_empty()).then_some((bad, Some(ratio)))
            };
            let whole_run = seen(own, side).unwrap_or_else(|| run(own.iter().copied()));
            latest(&periods, whole_run, in_span)
        };
        let lossy = |(link, mut own): (&'a str, Vec<&'a Flow>)| {
            own.sort_by_key(|flow| (flow.src, flow.dst));
            has_doubtful.set(false);
            let certain = judge(&own, true);
            let doubtful = if has_doubtful.get() { judge(&own, false) } else { None };
            let of = |(judged, certain): (Option<_>, bool)| {
                judged.map(|judged| Lossy::new(link, own.clone(), judged, certain))
            };
            [(certain, true), (doubtful, false)].into_iter().filter_map(of).collect::<Vec<_>>()
        };
        let mut one_by_one: Vec<Lossy<'_>> = links.into_iter().flat_map(lossy).collect();
        for one in &mut one_by_one {
            one.severity = grade(input, side, &one.judged.what);
        }
        raised.extend(links::join(&input.limits.loss, one_by_one, judge, |flow| {
            flow.losses_sum(|loss| side.of(loss).episodes.or_zero())
        }));
    }
    raised.sort_by(|a, b| a.links.cmp(&b.links));
    // Of all flows, and so once for thousands of findings.
    let not_evaluated = if raised.is_empty() { 0 } else { flows_not_evaluated(input.facts) };
    for lossy in &raised {
        raise(input, side, lossy, not_evaluated, found);
    }
}

/// From the first episode to the last of these flows; `None` without episodes.
fn seen(flows: &[&Flow], side: Side) -> Option<Period> {
    let losses = flows.iter().flat_map(|flow| flow.troubles());
    let ends: Vec<(u64, u64)> =
        losses.filter_map(|loss| side.of(loss).first_ns.zip(side.of(loss).last_ns)).collect();
    let first_ns = ends.iter().map(|(first, _)| *first).min()?;
    Some(Period::whole(first_ns, ends.iter().map(|(_, last)| *last).max()?))
}

/// The host pairs with too much loss on one side of a link in a period, worst first.
fn bad<'a>(
    input: &Input<'a>,
    flows: &[&'a Flow],
    side: Side,
    period: &Period,
    tap: &LazyCell<Tap, impl FnOnce() -> Tap>,
) -> Vec<LossyPair<'a>> {
    let limits = &input.limits.loss;
    // Most pairs have no episode, and so too few.
    let may_lose =
        |flow: &&Flow| flow.troubles().next().is_some() || !flow.intervals.of(side.signal()).is_empty();
    let pairs = flows.chunk_by(|a, b| (a.src, a.dst) == (b.src, b.dst));
    let lossy = pairs.filter(|flows| limits.episodes == 0 || flows.iter().any(may_lose));
    let pairs = lossy.filter_map(|flows| {
        let mut pair = Pair::default();
        for flow in flows {
            pair.add(input.facts, flow, side, period);
        }
        let hosts = flows.first().map(|flow| (flow.src, flow.dst))?;
        Some((hosts, pair))
    });
    let fewest = limits.pair_episodes.clamp(1, limits.episodes.max(1));
    let enough = |pair: &Pair<'_>| {
        let all = || if pair.reliable { &tap.reliable } else { &tap.unreliable };
        pair.sum.is_enough(limits)
            || pair.sum.episodes >= fewest && pair.sum.ratio() >= limits.ratio && all().is_enough(limits)
    };
    let mut bad: Vec<LossyPair<'_>> = pairs
        .filter(|(_, pair)| enough(pair))
        // With senders that do not retransmit, this pattern also arises when a capture has every other packet.
        .filter(|(_, pair)| pair.reliable || pair.sum.ratio() < limits.other_way)
        .map(|(hosts, pair)| (hosts, Pair { doubt: ReorderingDoubt::of(input, side, hosts, &pair), ..pair }))
        .collect();
    let weight = |pair: &Pair<'_>| (pair.reliable, pair.sum.is_enough(limits));
    bad.sort_by(|(_, a), (_, b)| {
        weight(b).cmp(&weight(a)).then_with(|| b.sum.ratio().total_cmp(&a.sum.ratio()))
    });
    bad
}

/// Two hosts, and what is lost between them.
pub(super) type LossyPair<'a> = ((Address, Address), Pair<'a>);

/// Names the pairs of hosts that lose on one side of a link, or of several that are one place, the worst first.
fn raise(input: &Input<'_>, side: Side, place: &Lossy<'_>, not_evaluated: u64, found: &mut Vec<Finding>) {
    let (links, judged) = (&place.links[..], &place.judged);
    let (period, bad) = (&judged.period, &judged.what);
    let Some((((src, dst), worst), others)) = bad.split_first() else { return };
    let answers = input.facts.between(*dst, *src).next().is_some();
    let all = LossCounts::of_all(bad.iter().map(|(_, pair)| pair.sum));
    let dropped = own_between(input, (!period.is_whole()).then_some((period.first_ns, period.last_ns)));
    // A link that loses little does not make another one better.
    let severity = place.severity.max(grade(input, side, bad));
    let most = |of: fn(&Pair<'_>) -> u64| bad.iter().map(|(_, pair)| of(pair)).max().filter(|n| *n > 0);
    let entry = if side == Side::Upstream { &UPSTREAM } else { &DOWNSTREAM };
    let lossy = || bad.iter().flat_map(|(_, pair)| pair.flows.iter().map(|(flow, _)| *flow));
    let Some((first, _)) = worst.flows.first() else { return };
    let waits = [if side == Side::Upstream { Wait::RecoveryUpstream } else { Wait::RecoveryDownstream }];
    let cost = Cost { ratio: Some(all.ratio()), signal: Signal::Retransmitted, waits: &waits };
    let (requester, responder) = ends::of_lost(input, lossy());
    let sum = if others.is_empty() { worst.sum } else { all };
    let hosts = title::hosts(bad.iter().map(|(hosts, _)| *hosts));
    let diagnosis = headline(side, links, (worst, sum), answers, &hosts);
    let hosts = title::beside(&diagnosis, hosts);
    let mut raise = Raise::new(entry, severity, title::title(diagnosis, [hosts, own_loss(dropped)]))
        .evidence("loss_ratio", all.ratio())
        .worst_ratio(worst.sum.ratio());
    raise = match side {
        Side::Upstream => raise.evidence("lost", all.lost),
        Side::Downstream => raise.nak_episodes(Some(all.lost), shown_by(worst, answers)),
    };
    raise = raise
        .evidence("packets", all.packets)
        .evidence("episodes", all.episodes)
        .evidence("longest_ns", most(|pair| pair.longest_ns))
        .evidence("largest", most(|pair| pair.largest))
        .timeouts(Some(bad.iter().map(|(_, pair)| pair.timeouts).sum()))
        .host_pairs(bad.len())
        .evidence("pairs", in_words(input, side, bad))
        .evidence("flows_unjudged", not_evaluated)
        .counted(in_turn(bad))
        .place(Place::links(input, links, first.direction).hop(side.hop()))
        .ends(requester, responder)
        .impact(impact(period, lossy(), &cost))
        .of_cost(cost_base(input.facts, period, lossy()))
        .owns(if severity > Severity::Info { &[ids::RETRY_TIMEOUTS] } else { &[] })
        .episodes(judged.episodes.clone())
        .of_all_episodes(&["longest_ns", "largest"]);
    if links.len() > 1 {
        raise = raise.evidence("by_link", links::by_link(input, links, bad, side, period));
    }
    // An episode downstream is one packet or more.
    if side == Side::Downstream || bad.iter().any(|(_, pair)| pair.at_least()) {
        raise = raise.lower_bound();
    }
    if !answers && side == Side::Downstream {
        raise = raise.caveat(
            "The reverse direction was not captured: the sender may also have retransmitted after RNR NAKs or timeouts.",
        );
    }
    raise = worst.doubt.add_to(raise, worst);
    let far: BTreeSet<Address> = bad.iter().map(|((src, dst), _)| side.far(src, dst)).collect();
    steps::steps(with_own_loss(dropped, raise), input, side, links, (first, far.len())).into(found);
}

/// The flows of all pairs with what they lost, those that lost most first, each pair's worst before any pair's second.
fn in_turn<'a>(bad: &[LossyPair<'a>]) -> Vec<(u64, &'a Flow)> {
    let mut flows: Vec<(usize, u64, &Flow)> = Vec::new();
    for (_, pair) in bad {
        let mut own = pair.flows.clone();
        worst_first(&mut own, |(_, lost)| *lost, |(flow, _)| flow);
        flows.extend(own.into_iter().enumerate().map(|(turn, (flow, lost))| (turn, lost, flow)));
    }
    flows.sort_by_key(|(turn, ..)| *turn);
    for same in flows.chunk_by_mut(|a, b| a.0 == b.0) {
        worst_first(same, |(_, lost, _)| *lost, |(.., flow)| flow);
    }
    flows.into_iter().map(|(_, lost, flow)| (lost, flow)).collect()
}
