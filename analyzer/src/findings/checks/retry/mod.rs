//! Retransmission storms.

mod nak_episodes;
#[cfg(test)]
mod tests;

use std::cell::LazyCell;

use super::ends;
use super::loss::taps::Ends;
use super::timeouts::nearest_sender;
use crate::analysis::{Facts, Flow, Loss};
use crate::findings::dedup::deduplicated;
use crate::findings::ids;
use crate::findings::index::ByHosts;
use crate::findings::not_evaluated::{flows_not_evaluated, is_not_evaluated};
use crate::findings::period::{
    Cost, Evaluated, Period, Wait, cost_base, impact, latest, periods, run, scaled,
};
use crate::findings::relate::causality::overlap;
use crate::findings::title::{self, title};
use crate::findings::{
    ByHand, Commands, Entry, Family, Finding, Hop, Impact, Input, Measure, Place, Problem, Raise,
    RequiredData, Severity, Unit, label,
};
use crate::metrics::loss::signal_intervals::Signal;
use crate::sample::{Address, Direction, UntimedCounter};
use crate::util::map::Set;
use crate::util::numbers::share;
use crate::util::units::{self, plural};
use nak_episodes::NakEpisodes;

/// Remedy if no other finding explains it.
macro_rules! timers {
    () => {
        "<eth>Transport timeouts are likely: compare the ACK timeout (NCCL_IB_TIMEOUT: 4.096 us * 2^n) with the latency, and look for paths that pause for long (PFC storms).</eth>"
    };
}

/// Remedy that reduces the cost, whatever the cause.
macro_rules! selective {
    () => {
        "Selective retransmission, where the NIC has it, retransmits only what is missing."
    };
}

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[STORM],
    limits: &[Limits::META],
    evidence: &[
        label("late", "packets out of order", Unit::Count).summed(),
        label("asked_again", "episodes of NAKs or repeated READs", Unit::Count).summed(),
        label("retransmitted", "retransmissions", Unit::Count).summed(),
        label("retransmitted_ratio", "retransmission ratio", Unit::Ratio),
        label("packets", "packets sent", Unit::Count).summed(),
        label("timeouts", "transport timeouts", Unit::Count).summed(),
        label("flows_unjudged", "flows not evaluated", Unit::Count),
        label("rnr_resent", "retransmissions after RNR NAK", Unit::Count).summed(),
    ],
    check,
};

pub(in crate::findings) const STORM: Entry = Entry {
    id: ids::RETRY_STORM,
    or: Some(Problem::Reordering),
    rank: 280,
    needs: &[RequiredData::Loss, RequiredData::Sequences],
    causes: &[
        ids::ICRC_ERRORS,
        ids::LOSS_BETWEEN_TAPS,
        ids::LOSS_BEFORE_TAP,
        ids::LOSS_AFTER_TAP,
        ids::RNR_SLOW_RECEIVER,
        ids::PEER_SILENT,
    ],
    grows: Some(UntimedCounter::Repeats),
    measure: Some(Measure::ratio("retransmitted_ratio")),
    title: "Retransmissions that cost bandwidth",
    meaning: "Senders spend much of their capacity on retransmissions: the job gets the rest, and the fabric carries load without progress.",
    computed: "Per host pair: retransmissions of packets that had passed before, whatever the cause (flows[].loss.retransmitted; duplicates made by a mirror and reordered packets do not \
               count). A warning when they are the share `retry.ratio` of the packets sent and at least `retry.packets`, critical from the share `retry.critical_ratio` on.\n\
               \n\
               The share `retry.nak_ratio` suffices between hosts that an info loss.after_tap names: their receivers send sequence-error NAKs for these packets, and the cost is \
               certain whether they were lost or reordered. Retransmissions that follow RNR NAKs do not count there. Its host pairs are one finding, which owns that loss.after_tap.\n\
               \n\
               Not raised where a loss finding of the same hosts, direction and time owns them (of READ responses those in the other direction), or rnr.slow_receiver does (the share `retry.rnr_share` of them follows RNR NAKs). Queue pairs that \
               could not be followed (live) are left out: `flows_unjudged`. Figures are those of the latest episode ({EPISODE_GAP_NS} without the signal end one), over {LEAST_NS} at least.",
    advice: concat!(
        "Look for a finding that explains it: loss (upstream, downstream, between taps), rnr.slow_receiver, icrc.errors. Without one, look at timeouts. ",
        timers!(),
        " ",
        selective!()
    ),
    caveat: "",
    ..Entry::of(Problem::Retransmission)
};

/// First remedy if packets arrive out of order.
const REORDERED: &str = "Packets arrive out of order, which a go-back-N receiver treats as loss: check whether switches spread packets over paths (adaptive routing, packet spraying), and whether both \
     ends are set to accept that (out-of-order placement on the NICs, NCCL_IB_ADAPTIVE_ROUTING=1 for NCCL).";

limits! {
    /// Thresholds of this family.
    pub struct Limits = "retry";
    ratio: f64 = 0.2,
        "minimum retransmission ratio",
        "A healthy software stack under load shows up to 8 % in our captures; at a fifth the job loses a fifth of its bandwidth";
    critical_ratio: f64 = 0.3,
        "minimum retransmission ratio for critical, of `retry.packets` retransmissions at least: of every warning with this cost",
        "As loss.critical_ratio: a go-back-N sender with 50 packets in flight that loses one in 100 retransmits this share";
    nak_ratio: f64 = 0.01,
        "minimum retransmission ratio where receivers send sequence-error NAKs for packets that passed this tap",
        "As loss.ratio: with 100 packets in flight, a go-back-N sender that loses one in 10,000 retransmits this share";
    packets: u64 = 100,
        "minimum retransmissions",
        "A short exchange that is retransmitted once is not a storm";
    timeouts: u64 = 3,
        "minimum transport timeouts",
        "An occasional tail loss is recovered by a timeout; three in ten seconds are not occasional";
    timeout_wait_ms: u64 = 100,
        "minimum silence before transport timeouts in all, in milliseconds",
        "The length of a training step or two: the job feels it, even with a single timeout";
    stall_ms: u64 = 500,
        "minimum silence in mid-message of a single queue pair, in milliseconds",
        "Shorter than one transport timeout of NCCL (4.3 s by default, 1.07 s before 2.23); a queue pair alone may pause a little for a busy host";
    stall_paces: u64 = 10,
        "the same, over its longest other silence in mid-message",
        "A flow that congestion control paces is as slow all the time, not once";
    rnr_share: f64 = 0.5,
        "minimum share of the retransmissions that follow RNR NAKs, for the slow receiver to own them",
        "The cause of most of them is the most important one";
    acks_lost: f64 = 0.5,
        "share of the timeouts whose packets had arrived, above which lost ACKs are named as the reason",
        "The cause of most of them is the most important one";
}

fn retransmitted(flow: &Flow) -> u64 {
    flow.losses_sum(Loss::retransmissions)
}

fn reordered(flow: &Flow) -> u64 {
    flow.losses_sum(|loss| loss.recovered)
}

/// Packets from one host to another, in one period.
#[derive(Default)]
pub(super) struct Pair<'a> {
    pub(super) packets: u64,
    pub(super) retransmitted: u64,
    /// Packets out of order, seen by a capture nearer the receiver or in the other direction.
    reordered: u64,
    pub(super) after_rnr: u64,
    timeouts: u64,
    flows: Vec<(&'a Flow, u64)>,
}

impl<'a> Pair<'a> {
    pub(super) fn of(facts: &Facts, ends: &Ends<'_>, flows: &[&'a Flow], period: &Period) -> Self {
        let flows = || flows.iter().copied();
        let own = |flow: &Flow, of: fn(&Loss) -> u64| flow.loss.get().as_ref().map_or(0, of);
        let timeouts = |flow: &Flow| period.count(flow, Signal::Timeout, own(flow, |loss| loss.timeouts));
        let nearest = deduplicated(flows().filter(|flow| nearest_sender(ends, flow)), timeouts);
        let is_sequence =
            |flow: &Flow| (flow.psn.is_some() || flow.psn_responses.is_some()) && !is_not_evaluated(flow);
        let sum = |of: &dyn Fn(&Flow) -> u64| deduplicated(flows(), of).iter().map(|(_, n)| n).sum::<u64>();
        let troubled =
            deduplicated(flows(), |flow| period.count(flow, Signal::Retransmitted, retransmitted(flow)));
        let of_troubled = |of: &dyn Fn(&Flow) -> u64| troubled.iter().map(|(flow, _)| of(flow)).sum::<u64>();
        Self {
            packets: sum(&|flow| if is_sequence(flow) { period.packets(facts, flow) } else { 0 }),
            retransmitted: troubled.iter().map(|(_, retransmitted)| retransmitted).sum(),
            reordered: sum(&|flow| period.count(flow, Signal::Reordered, reordered(flow))),
            after_rnr: of_troubled(&|flow| {
                period.count(flow, Signal::RetransmittedAfterRnr, own(flow, |loss| loss.rnr_resent.or_zero()))
            }),
            timeouts: nearest.iter().map(|(_, timeouts)| timeouts).sum(),
            flows: troubled,
        }
    }

    pub(super) fn ratio(&self) -> f64 {
        share(self.retransmitted, self.packets)
    }
}

/// Findings that own the retransmissions between two hosts, which are then no finding of their own.
pub(super) const OWNERS: [&str; 3] = [ids::LOSS_BETWEEN_TAPS, ids::LOSS_BEFORE_TAP, ids::LOSS_AFTER_TAP];
/// Owner if most of them follow RNR NAKs.
const SLOW_RECEIVER: &str = ids::RNR_SLOW_RECEIVER;

/// True if a finding shows in this time.
pub(super) fn is_during(finding: &Finding, period: &Period) -> bool {
    overlap(&finding.episodes, &[period.episode(None)])
}

/// True if a finding is about packets of which retransmissions from one host to another are the repair: packets in the
/// same direction, or READ responses in the other, for which READs are repeated. Loss in one direction does not explain
/// what the other one retransmits.
pub(super) fn is_about(facts: &Facts, finding: &Finding, (src, dst): (Address, Address)) -> bool {
    let lost = |loss: Loss| loss.lost > 0 || loss.after_tap.episodes.or_zero() > 0;
    let loses_responses = |flow: &Flow| flow.loss_responses.get().is_some_and(lost);
    !finding.named.between(src, dst).is_empty()
        || (finding.named.between(dst, src).iter())
            .any(|(_, _, qp)| facts.to_qp(dst, src, *qp).any(loses_responses))
}

/// True if another finding between the same hosts explains the retransmissions from one of them to the other.
fn is_owned<'f, I: Iterator<Item = &'f Finding>>(
    (input, hosts): (&Input<'_>, (Address, Address)),
    pair: &Pair<'_>,
    period: &Period,
    between: impl Fn() -> I,
) -> bool {
    let (limits, facts) = (&input.limits.retry, input.facts);
    let is_of_loss = |one: &Finding| OWNERS.contains(&one.id) && is_about(facts, one, hosts);
    let naks = between().any(|one| nak_episodes::is_downstream_of_tap(one) && is_of_loss(one));
    between().any(|one| {
        // What owns a loss downstream, such as corruption, owns the NAKs of the receivers.
        let explains = naks && nak_episodes::owns_downstream_loss(one)
            || one.is_problem() && is_of_loss(one)
            || one.id == SLOW_RECEIVER
                && pair.after_rnr as f64 >= limits.rnr_share * pair.retransmitted as f64;
        explains && is_during(one, period)
    })
}

/// Advice about the retransmissions between two hosts, after the other findings.
fn advice(
    facts: &Facts,
    reordered: u64,
    hosts: &[(Address, Address)],
    known: &ByHosts,
    found: &[Finding],
) -> String {
    let explains = |one: &Finding, hosts| !OWNERS.contains(&one.id) || is_about(facts, one, hosts);
    let mut kinds: Set<&str> = Set::default();
    for hosts in hosts {
        kinds.extend(known.between(found, *hosts).filter(|one| explains(one, *hosts)).map(|one| one.id));
    }
    let why = |id: &&&str| kinds.contains(*id);
    let ids: Vec<&str> = STORM.causes.iter().filter(why).copied().collect();
    let mut parts: Vec<String> = Vec::new();
    if reordered > 0 {
        parts.push(REORDERED.to_owned());
    }
    if !ids.is_empty() {
        parts.push(format!("Likely cause: {}.", ids.join(", ")));
    } else if reordered == 0 {
        parts.push(format!("No finding explains it. {}", timers!()));
    }
    parts.push(selective!().to_owned());
    parts.join(" ")
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let (limits, facts) = (&input.limits.retry, input.facts);
    let ends = Ends::of(facts);
    let hosts_of = |flow: &&Flow| (flow.src, flow.dst);
    let mut known = ByHosts::of(found);
    let not_evaluated = LazyCell::new(|| flows_not_evaluated(facts));
    let mut by_hosts: Vec<&Flow> = facts.flows.iter().collect();
    by_hosts.sort_by_key(hosts_of);
    for flows in by_hosts.chunk_by(|a, b| hosts_of(a) == hosts_of(b)) {
        let Some(hosts) = flows.first().map(hosts_of) else { continue };
        if flows.iter().all(|flow| retransmitted(flow) == 0) {
            continue;
        }
        let periods = periods(flows.iter().copied(), &[Signal::Retransmitted]);
        let judge = |period: &Period| {
            let pair = Pair::of(facts, &ends, flows, period);
            let ratio = pair.ratio();
            let enough = pair.retransmitted >= limits.packets && ratio >= limits.ratio;
            (enough && !is_owned((input, hosts), &pair, period, || known.between(found, hosts)))
                .then_some((pair, Some(ratio)))
        };
        let Some(judged) = latest(&periods, whole(flows), judge) else { continue };
        let refused = |one: &&Finding| nak_episodes::is_downstream_of_tap(one) && is_about(facts, one, hosts);
        let naks = known.between(found, hosts).find(refused);
        let naks = naks.filter(|one| is_during(one, &judged.period)).map(NakEpisodes::of);
        raise(input, &[hosts], &judged, (naks, *not_evaluated), &mut known, found);
    }
    nak_episodes::check(input, &ends, || *not_evaluated, known, found);
    nak_episodes::own(found);
}

/// The run of these flows up to the last retransmission.
pub(super) fn whole(flows: &[&Flow]) -> Period {
    let whole = run(flows.iter().copied());
    let last_ns = flows.iter().filter_map(|flow| last_again(flow)).max().unwrap_or(whole.last_ns);
    Period::whole(whole.first_ns, last_ns)
}

/// Time of the flow's last retransmission.
fn last_again(flow: &Flow) -> Option<u64> {
    flow.losses().iter().flatten().filter_map(|loss| loss.last_again_ns).max()
}

/// Adds steps that distinguish loss and corruption downstream of the tap from reordering.
fn decide(input: &Input<'_>, flow: Option<&Flow>, raise: Raise) -> Raise {
    let Some(flow) = flow else { return raise };
    let dst = flow.dst;
    let raise = raise
        .step(
            format!("Read drop counters and FCS errors of the switches between this tap and {dst}: if they grow, packets are lost; if not, they are reordered."),
            ByHand::Switch,
        )
        .step(
            format!("Check the RDMA counters on {dst}: reordering raises out_of_sequence alone, corruption rx_icrc_encapsulated too (mlx5)."),
            Commands::at(input, flow, dst).rdma_counters(),
        );
    // A tap on the way into the receiver is at the receiver.
    if flow.direction == Some(Direction::Ingress) {
        return raise;
    }
    raise.step(
        format!("Capture on {dst} and at this tap at the same time, and replay both captures: a packet seen at both taps was not lost between them, and the second tap shows reordering."),
        Commands::at(input, flow, dst).capture("receiver.pcap"),
    )
}

/// Raises it between these hosts. `naks`: the receivers sent NAKs for packets that passed the tap; `None` where
/// the retransmissions have another reason. `not_evaluated`: flows that could not be followed.
fn raise(
    input: &Input<'_>,
    hosts: &[(Address, Address)],
    judged: &Evaluated<Pair<'_>>,
    (naks, not_evaluated): (Option<NakEpisodes>, u64),
    known: &mut ByHosts,
    found: &mut Vec<Finding>,
) {
    let Evaluated { period, what: storm, episodes } = judged;
    let flows = || storm.flows.iter().map(|(flow, _)| *flow);
    let advice = advice(input.facts, storm.reordered, hosts, known, found);
    let (requester, responder) = ends::of_lost(input, flows());
    let place = Place::of_several(input, flows());
    // `Problem::of` recognises reordering by this place.
    let place = match naks.as_ref() {
        _ if causes_repairs(storm.reordered, storm, naks.as_ref()) => place.hop(Hop::Upstream),
        Some(_) => place.hop(Hop::Downstream),
        None => place,
    };
    let mut raise = Raise::new(&STORM, Severity::Warning, headline(input, storm, naks.as_ref(), hosts))
        .advice(&advice)
        .reordered(storm.reordered)
        .nak_episodes(naks.as_ref().map(|naks| naks.episodes), naks.as_ref().and_then(|naks| naks.what))
        .evidence("retransmitted", storm.retransmitted)
        .evidence("retransmitted_ratio", storm.ratio())
        .evidence("packets", storm.packets)
        .timeouts(Some(storm.timeouts))
        .evidence("flows_unjudged", not_evaluated)
        .evidence("rnr_resent", storm.after_rnr)
        .counted(storm.flows.iter().map(|(flow, again)| (*again, *flow)))
        .place(place)
        .ends(requester, responder)
        .impact(cost(period, storm))
        .of_cost(cost_base(input.facts, period, flows()))
        .episodes(episodes.clone());
    if storm.reordered > 0 || naks.is_some() {
        raise = raise.owns(&[ids::RETRY_TIMEOUTS]);
    }
    steps(input, raise, storm, naks.as_ref()).into(found);
    known.add(found, found.len() - 1);
}

/// The threshold of [`grade`], for texts.
pub(in crate::findings) const CRITICAL_RATIO: &str = "retry.critical_ratio";

/// What [`grade`] does, in words.
pub(in crate::findings) const GRADED: &str = "a warning is critical when its retransmissions are at least `retry.packets` and the share `retry.critical_ratio` of what its flows sent.";

/// True if findings of this problem can cost retransmissions, so that [`grade`] decides their severity.
pub(in crate::findings) fn can_cost(problem: Problem) -> bool {
    matches!(problem, Problem::Icrc | Problem::Loss | Problem::NotReady | Problem::Retransmission)
}

/// Makes warnings critical that cost a large part of what their flows sent, whatever their kind: one fault has one
/// severity at every tap.
pub(in crate::findings) fn grade(limits: &Limits, found: &mut [Finding]) {
    let is_costly = |one: &Finding| {
        let again = one.impact.retransmissions.filter(|n| *n >= limits.packets);
        let cost = again.zip(one.subject.cost_base);
        cost.is_some_and(|(again, base)| share(again, base.packets) >= limits.critical_ratio)
    };
    for one in found.iter_mut().filter(|one| one.severity == Severity::Warning) {
        if is_costly(one) {
            one.severity = Severity::Critical;
        }
    }
}

/// The title: what it is, how much, and between which hosts.
fn headline(
    input: &Input<'_>,
    storm: &Pair<'_>,
    naks: Option<&NakEpisodes>,
    hosts: &[(Address, Address)],
) -> String {
    let flows = || storm.flows.iter().map(|(flow, _)| *flow);
    let percent = units::ratio(Some(storm.ratio()));
    let is_storm = storm.ratio() >= input.limits.retry.ratio;
    let lost = flows().any(|flow| flow.losses().iter().flatten().any(|loss| loss.lost > 0));
    let late = Some(storm.reordered).filter(|late| *late > 0 && !lost);
    let diagnosis = match (naks, late) {
        // They arrive at the tap in this order already.
        (_, Some(late)) if causes_repairs(late, storm, naks) => {
            format!("Reordering: {} out of order, {percent} retransmitted", plural(late, "packet"))
        }
        // The receivers' NAKs and what they cost are one trouble.
        (Some(NakEpisodes { what: Some(what), .. }), _) => {
            format!("{} downstream: {percent} retransmitted", what.name())
        }
        _ => format!(
            "{}: {} of {} ({percent})",
            if is_storm { "Retransmission storm" } else { "Retransmissions" },
            units::count(storm.retransmitted),
            plural(storm.packets, "packet"),
        ),
    };
    let late = late.filter(|_| !diagnosis.starts_with("Reordering:"));
    let reordered = late.map_or_else(String::new, |late| format!(", {} out of order", units::count(late)));
    let between = title::beside(&format!("{diagnosis}{reordered}"), title::hosts(hosts.iter().copied()));
    title(diagnosis, [reordered, between])
}

/// True if packets out of order can be why senders retransmit: they are no fewer than the timeouts and NAKs.
fn causes_repairs(late: u64, storm: &Pair<'_>, naks: Option<&NakEpisodes>) -> bool {
    late > storm.timeouts && late >= storm.timeouts + naks.map_or(0, |naks| naks.episodes)
}

/// Of what the flows retransmitted, the packets of the storm.
fn cost(period: &Period, storm: &Pair<'_>) -> Impact {
    let cost = Cost {
        ratio: Some(storm.ratio()),
        signal: Signal::Retransmitted,
        waits: &[Wait::Timeout, Wait::RecoveryDownstream],
    };
    let cost = impact(period, storm.flows.iter().map(|(flow, _)| *flow), &cost);
    let bytes = cost.goodput_lost_bytes.map(|bytes| {
        scaled(storm.retransmitted, bytes, cost.retransmissions.unwrap_or(storm.retransmitted).max(1))
    });
    Impact { retransmissions: Some(storm.retransmitted), goodput_lost_bytes: bytes, ..cost }
}

/// Adds the steps; `refused`: the receivers sent NAKs for packets that passed the tap.
fn steps(input: &Input<'_>, mut raise: Raise, storm: &Pair<'_>, naks: Option<&NakEpisodes>) -> Raise {
    let flows = || storm.flows.iter().map(|(flow, _)| *flow);
    let first = flows().min_by_key(|flow| (&flow.link, flow.src, flow.dst, flow.dest_qp));
    let here = first.map_or(Commands::NOWHERE, |flow| Commands::near(input, flow, flow.src));
    if causes_repairs(storm.reordered, storm, naks) {
        raise = raise
            .step("Check whether the switches spread the packets of a flow (adaptive routing, packet spraying).", ByHand::Switch)
            .step("Enable out-of-order placement on the NICs of both ends, and set NCCL_IB_ADAPTIVE_ROUTING=1 for NCCL.", ByHand::Job);
    } else if naks.is_some() {
        raise = decide(input, flows().next(), raise);
    }
    if storm.timeouts > 0 {
        raise = raise.step(
            "Compare the ACK timeout (NCCL_IB_TIMEOUT: 4.096 µs × 2^n) with the latency of these flows.",
            here.nccl_settings(),
        );
    }
    raise
        .step("Check NIC counters for timeouts, retries and discards.", here.rdma_counters())
        .step("Check the port for pauses and drops.", here.nic_counters())
}
