//! ECN: congestion, missing CNPs, and data that is not ECN-capable.

use rocescope_common::wire::bth::GSI_QP;
use std::collections::{BTreeMap, BTreeSet};

use super::ends;
use crate::analysis::{ByLink, Cnp, Flow, FlowId, Link, Loss};
use crate::findings::command::ethernet;
use crate::findings::dedup::{LinkShare, deduplicated, deduplicated_links, worst_first};
use crate::findings::fabric::Marks;
use crate::findings::ids;
use crate::findings::period::{Evaluated, Period, latest, run, timed};
use crate::findings::title::{beside, hosts, more, pair, short, title};
use crate::findings::{
    Better, ByHand, Commands, Entry, Family, Finding, Hop, Impact, Input, Measure, NoEpisodes, Place,
    Problem, Raise, Severity, Unit, label,
};
use crate::metrics::loss::signal_intervals::Signal;
use crate::sample::Address;
use crate::util::numbers::share;
use crate::util::time::NS_PER_MS;
use crate::util::units;

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family {
    entries: &[CONGESTION, NO_CNP, NOT_CAPABLE],
    limits: &[Limits::META],
    evidence: &[label("peers_ratio", "CE ratio on the parallel links", Unit::Ratio)],
    check,
};

pub(super) const CONGESTION: Entry = Entry {
    id: ids::ECN_CONGESTION,
    rank: 310,
    causes: &[ids::BURST_INCAST, ids::ECN_NO_CNP],
    measure: Some(Measure::ratio("ce_ratio")),
    title: "ECN congestion",
    meaning: "Switches on the path queue beyond their ECN marking threshold and mark packets CE. The receivers answer with CNPs and the senders reduce their rate: \
                these flows are limited by the fabric, not by the hosts.",
    computed: "Per link, over the flows with at least ecn.congestion_flow_marks CE-marked packets and a CE ratio of at least ecn.congestion_ratio (of ECN-capable data packets). A \
               warning when they have at least ecn.congestion_marks CE-marked packets together. ACKNOWLEDGE and CNP are excluded.\n\
               \n\
               Taps that see the same packets raise one finding (capture.own_ratio), at the tap with most CE-marked packets. marked_time_ratio is the share of time bins with data that \
               contain CE-marked packets; peak_ratio is the highest CE ratio of a bin. All figures are those of the latest episode ({EPISODE_GAP_NS} without a mark end one), over {LEAST_NS} at least.\n\
               \n\
               If at least the share ecn.drop_share of at least ecn.drop_gaps PSN gaps of these flows are followed by a CE-marked packet, and ecn.drop_factor times the CE ratio \
               (gaps_ce_ratio; at most ecn.drop_most), the queue that marks drops as well: loss.before_tap, loss.between_taps and retry.storm of the same hosts then belong to this \
               finding.\n\
               \n\
               If links share the load of this one and are not congested (as links.congested_one_of compares them), the finding has their CE ratio (peers_ratio).",
    advice: "Locate the congested queue: incast (several senders to one host, see the flows), or flows hashed onto one uplink (see entropy and imbalance; \
               NCCL_IB_QPS_PER_CONNECTION=4 with NCCL_IB_SPLIT_DATA_ON_QPS=1 adds source ports). On the switch, check that the marking thresholds (Kmin, Kmax, Pmax) \
               suit the port speed. On the hosts, check that DCQCN is enabled: /sys/class/net/IF/ecn/roce_np/enable/PRIO and roce_rp/enable/PRIO, or cc_params in \
               mlx5 debugfs.",
    caveat: "Some CE marking is normal operation of DCQCN: the CE ratio shows how often the queue exceeded the threshold, not loss. CE marks set downstream of this \
               tap are not visible here.",
    ..Entry::of(Problem::Congestion)
};
const NO_CNP: Entry = Entry {
    id: ids::ECN_NO_CNP,
    rank: 320,
    measure: Some(Measure { name: "receivers", unit: Unit::Count, better: Better::Less, grades: false }),
    title: "CE-marked packets are not answered with CNPs",
    meaning: "The receiver gets CE-marked packets and never sends a CNP, so its senders do not reduce their rate: the queue grows until <eth>PFC pauses the port or </eth>\
                packets are dropped.",
    computed: "Per receiver: a warning when at least ecn.no_cnp_marks CE-marked data packets arrive over at least ecn.no_cnp_ms, at least ecn.no_cnp_acks acknowledgements from it are \
                 captured (which shows that its reverse direction is captured), and it sends no CNP to any host. The number of CNPs is not evaluated otherwise: NICs \
                 pace CNPs per port, per address pair or per destination. Figures are those of the latest episode ({EPISODE_GAP_NS} without a mark end one).",
    advice: "Enable the notification point for the priority of the data: echo 1 > /sys/class/net/IF/ecn/roce_np/enable/PRIO (mlx5; upstream kernels: cc_params/np_* \
               in debugfs), and the reaction point (roce_rp) at the senders. <eth>Check that CNPs are not dropped: their DSCP (default 48) needs its own queue on the \
               switch.</eth> np_cnp_sent and np_ecn_marked_roce_packets in hw_counters show whether the NIC sends CNPs.",
    caveat: "Soft-RoCE (rxe) never sends CNPs. CNPs have a source port of their own, so with several uplinks they may return over one that is not captured. DCQCN \
               is not the only congestion control: HPCC, Swift and NIC-specific algorithms need no CNPs.",
    ..Entry::of(Problem::NoCnp)
};
const NOT_CAPABLE: Entry = Entry {
    id: "ecn.not_capable",
    rank: 440,
    lasting: Some(NoEpisodes::Setting),
    measure: Some(Measure::ratio("not_ect_ratio")),
    title: "ECN not enabled",
    meaning: "These packets are Not-ECT (ECN bits 00): a congested switch cannot mark them, it can only drop or pause them. DCQCN has no effect on them.",
    computed: "Info when at least ecn.not_capable_packets packets of connections are Not-ECT and make up at least the share ecn.not_capable_ratio of all such packets. \
                 ACKNOWLEDGE, CNP, connection management and RoCEv1 (no ECN bits) are excluded.",
    advice: "<eth>With DCQCN, set ECT in the traffic class: NCCL_IB_TC=106 is DSCP 26 with ECT(0); cma_roce_tos for connections through rdma_cm; `--tclass=106` \
               in perftest; on mlx5 also /sys/class/infiniband/DEV/tc/1/traffic_class.</eth>",
    caveat: "<eth>Not a fault where the fabric relies on PFC alone, or on another congestion control.</eth>",
    ..Entry::of(Problem::Notification)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "ecn";
    congestion_ratio: f64 = 0.01,
        "minimum CE ratio of congestion: of a flow, of the bins of an incast, of a link beside its peers, of what a NIC receives",
        "DCQCN holds queues at the threshold with well under one mark in a hundred packets; at one in a hundred a flow gets CNPs faster than it recovers from them, which takes milliseconds";
    congestion_marks: u64 = 100,
        "minimum CE-marked packets to report, summed over the congested flows of a link",
        "A burst at the start of a step marks some tens of packets and ends; the many queue pairs of a job share the CE marks of one queue";
    congestion_flow_marks: u64 = 10,
        "minimum CE-marked packets of a congested flow",
        "With fewer the ratio is not significant: one of 20 packets is 5 %";
    no_cnp_marks: u64 = 100,
        "minimum CE-marked packets of a receiver for a CNP to be expected",
        "NICs pace CNPs by time (4 µs to 50 µs by default, milliseconds at most), not by CE marks: any burst of this size triggers at least one";
    no_cnp_ms: u64 = 100,
        "minimum duration of CE marking in milliseconds",
        "Many times the longest configurable CNP pacing interval (4 ms)";
    no_cnp_acks: u64 = 10,
        "minimum acknowledgements of a receiver that show that its reverse direction is captured",
        "A mirror of one direction leaks a few packets of the other";
    drop_gaps: u64 = 3,
        "minimum PSN gaps to conclude that the queue that marks drops",
        "One or two gaps may lie before a CE-marked packet by chance";
    drop_share: f64 = 0.5,
        "minimum share of the PSN gaps that a CE-marked packet follows",
        "A queue that drops is above its marking threshold, and marks what it still takes";
    drop_factor: f64 = 2.0,
        "minimum ratio of that share to the CE ratio",
        "If most packets are marked, a mark follows most gaps whatever their cause";
    drop_most: f64 = 0.9,
        "share of the PSN gaps from which on the CE ratio does not matter",
        "Nearly all gaps are followed by a mark only where the queue that marks drops";
    not_capable_packets: u64 = 100,
        "minimum Not-ECT packets to report",
        "A job moves more than that in a step; fewer packets are negligible";
    not_capable_ratio: f64 = 0.05,
        "minimum Not-ECT share of all packets of connections",
        "Below it, ECN-capable traffic dominates";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let numbers = 0..input.facts.links.len();
    let by_link = ByLink::of(input.facts);
    let congested = numbers.filter_map(|number| {
        let judged = congested(input, number, &by_link)?;
        let marks: Vec<_> = judged.what.flows.iter().map(|one| (one.flow, one.ce)).collect();
        Some(LinkShare::new(number, judged, marks))
    });
    for seen in deduplicated_links(input, congested.collect()) {
        congestion(input, &seen, found);
    }
    no_cnp(input, found);
    not_capable(input, found);
}

/// A congested flow in one episode.
struct Marked<'a> {
    flow: &'a Flow,
    ce: u64,
    capable: u64,
}

/// The flows of a link that are congested together in one episode, in the order of [`worst_first`] by marks.
struct Congested<'a> {
    flows: Vec<Marked<'a>>,
    ce: u64,
    capable: u64,
    /// The times of all marks are known.
    timed: bool,
}

/// The congestion of a link in its latest episode.
fn congested<'a>(input: &Input<'a>, number: usize, by_link: &ByLink<'a>) -> Option<Evaluated<Congested<'a>>> {
    let limits = &input.limits.ecn;
    let link = input.facts.links.get(number)?;
    let marked = |flow: &&Flow| flow.ecn_data().ce >= limits.congestion_flow_marks.max(1);
    let all: Vec<&Flow> = by_link.on(link).iter().copied().filter(marked).collect();
    let periods = timed(&all, Signal::CeMarked, |flow| flow.ecn_data().ce);
    let judge = |period: &Period| {
        let mut flows: Vec<Marked<'_>> = all
            .iter()
            .map(|flow| Marked {
                flow,
                ce: period.count(flow, Signal::CeMarked, flow.ecn_data().ce),
                capable: period.capable(input.facts, flow),
            })
            .filter(|one| one.ce >= limits.congestion_flow_marks.max(1))
            .filter(|one| share(one.ce, one.capable) >= limits.congestion_ratio)
            .collect();
        worst_first(&mut flows, |one| one.ce, |one| one.flow);
        let sum = |of: fn(&Marked<'_>) -> u64| flows.iter().map(of).sum::<u64>();
        let (ce, capable) = (sum(|one| one.ce), sum(|one| one.capable));
        let ratio = share(ce, capable);
        let enough = !flows.is_empty() && ce >= limits.congestion_marks;
        enough.then_some((Congested { flows, ce, capable, timed: !periods.is_empty() }, Some(ratio)))
    };
    latest(&periods, run(all.iter().copied()), judge)
}

/// The diagnosis of congestion, and additions for which the title may have room. `one_of`: the link is one of several,
/// so that the ratio is not that of all.
fn headline(
    marks: Marks,
    congested: &Congested<'_>,
    (link, one_of): (&str, bool),
    others: String,
) -> (String, [String; 2]) {
    let Congested { flows, ce, capable, .. } = congested;
    let percent = units::ratio(Some(share(*ce, *capable)));
    let Marks { ce, ecn } = marks;
    match &flows[..] {
        [Marked { flow, .. }] => (
            format!("{ecn} congestion: {percent} {ce}-marked"),
            [pair(flow.src, flow.dst), format!(", QP {}", flow.dest_qp)],
        ),
        [Marked { flow: most, .. }, rest @ ..] if rest.iter().all(|one| one.flow.dst == most.dst) => {
            let on = if one_of { format!(" on {}", short(link)) } else { String::new() };
            let congestion = format!("{ecn} congestion: {percent} {ce}-marked{on}");
            let pairs: BTreeSet<_> = flows.iter().map(|one| (one.flow.src, one.flow.dst)).collect();
            let senders = beside(&congestion, hosts(pairs.iter().copied()));
            (congestion, [senders, format!(", {} flows{others}", flows.len())])
        }
        _ => (
            format!("{ecn} congestion on {}: {percent} {ce}-marked", short(link)),
            [format!(", {} flows", flows.len()), others],
        ),
    }
}

/// Share of the PSN gaps of some flows after which the next packet is CE-marked; and whether this shows that the
/// marking queue is the dropping one: it is most gaps, and the share is far above the CE ratio.
pub(super) fn gaps_at_marks<'a>(
    input: &Input<'_>,
    flows: impl Iterator<Item = &'a Flow>,
    period: &Period,
) -> (Option<f64>, bool) {
    let limits = &input.limits.ecn;
    let (mut gaps, mut marked, mut ce, mut capable) = (0, 0, 0, 0);
    for flow in flows {
        let all = |of: fn(&Loss) -> u64| flow.losses_sum(of);
        gaps += period.count(flow, Signal::GapCapable, all(|loss| loss.gaps_capable.or_zero()));
        marked += period.count(flow, Signal::GapMarked, all(|loss| loss.gaps_ce.or_zero()));
        ce += period.count(flow, Signal::CeMarked, flow.ecn_data().ce);
        capable += period.capable(input.facts, flow);
    }
    let ratio = (gaps > 0).then(|| share(marked, gaps));
    let most = ratio.is_some_and(|ratio| {
        ratio >= limits.drop_share && ratio >= (limits.drop_factor * share(ce, capable)).min(limits.drop_most)
    });
    (ratio, gaps >= limits.drop_gaps && most)
}

/// From the time bins of a link in a period: share of bins with CE marks among those with data, and the highest CE
/// ratio of a bin.
fn over_time(link: &Link, period: &Period) -> (Option<f64>, Option<f64>) {
    let Some(over_time) = &link.ecn_over_time else { return (None, None) };
    let begin = |number: u64| over_time.start_ns.saturating_add(over_time.bin_ns.saturating_mul(number));
    let within = move |number: u64| {
        period.is_whole() || begin(number) <= period.last_ns && begin(number + 1) > period.first_ns
    };
    let all = || (0..).zip(over_time.capable.iter().zip(&over_time.ce));
    let bins = || all().filter(|(number, (all, _))| **all > 0 && within(*number)).map(|(_, bin)| bin);
    let marked = share(bins().filter(|(_, ce)| **ce > 0).count() as u64, bins().count() as u64);
    (Some(marked), bins().map(|(all, ce)| f64::from(*ce) / f64::from(*all)).reduce(f64::max))
}

fn congestion(input: &Input<'_>, seen: &LinkShare<Evaluated<Congested<'_>>>, found: &mut Vec<Finding>) {
    let Evaluated { what: congested, period, episodes } = &seen.what;
    let flows = || congested.flows.iter().map(|one| one.flow);
    let (Some(link), Some(most)) = (input.facts.links.get(seen.link), flows().next()) else { return };
    let one_of = input.facts.links.iter().any(|other| other.name != link.name);
    let (diagnosis, parts) = headline(Marks::of(input.facts), congested, (&link.name, one_of), seen.others());
    let ratio = share(congested.ce, congested.capable);
    let worst = congested.flows.iter().map(|one| share(one.ce, one.capable)).fold(0.0, f64::max);
    let (marked_time, peak) = over_time(link, period);
    // Both are upper bounds, accurate to a bin.
    let by_flows = flows().filter_map(last_mark).max();
    let by_link =
        link.ecn_over_time.as_ref().and_then(|bins| end_of_last(bins.start_ns, bins.bin_ns, &bins.ce));
    let answers = |cnp: &&Cnp| cnp.answers.as_ref().is_some_and(|id| *id == FlowId::of(most));
    let reaction = input.facts.flows.iter().filter_map(|flow| flow.cnp.as_deref()).find(answers);
    let (gaps_ce, drops) = gaps_at_marks(input, flows(), period);
    let here = Commands::near(input, most, most.dst);
    let (requester, responder) = ends::of_data(input, flows());
    let place = Place::link(input, &link.name, link.direction).hop(Hop::Upstream);
    let port = match (&place.switch_port, flows().all(|flow| flow.dst == most.dst)) {
        (Some(port), _) => format!("On {port} and the switches upstream"),
        (None, true) => format!("On the switch port towards {}", most.dst),
        (None, false) => "On the switches upstream of this tap".to_owned(),
    };
    Raise::new(&CONGESTION, Severity::Warning, title(diagnosis, parts))
        .evidence("ce_ratio", ratio)
        .evidence("ce_packets", congested.ce)
        .evidence("ecn_capable_packets", congested.capable)
        .evidence("worst_flow_ratio", worst)
        .evidence("marked_time_ratio", marked_time)
        .evidence("peak_ratio", peak)
        .evidence("gaps_ce_ratio", gaps_ce)
        .evidence("rate_before_cnp_bps", reaction.and_then(|cnp| cnp.rate_before_bps))
        .evidence("rate_after_cnp_bps", reaction.and_then(|cnp| cnp.rate_after_bps))
        .counted(congested.flows.iter().map(|one| (one.ce, one.flow)))
        .place(place)
        .ends(requester, responder)
        .impact(Impact { packets_ratio: Some(ratio), ..Impact::default() })
        .owns(if drops { &OWNED_WITH_DROPS } else { &OWNED })
        .step(
            format!("{port}, check queue depth, ECN-marked and discarded packets per priority."),
            ByHand::Switch,
        )
        .step("Check that ECN is enabled per priority on the NIC (roce_np, roce_rp).", here.ecn())
        .step("Check PFC and priorities of the NIC.", here.qos())
        .step("Reduce concurrent senders (incast) or add source ports (ECMP collisions).", ByHand::Job)
        .last_seen([by_flows, by_link].into_iter().flatten().min())
        .episodes(if congested.timed { episodes.clone() } else { Vec::new() })
        .into(found);
}

/// Findings that congestion explains. With drops, it also explains loss where packets are marked.
const OWNED: [&str; 2] = [ids::CNP_WITHOUT_CE, ids::CNP_STORM];
/// Findings that congestion owns where packets were dropped too; see [`OWNED`].
const OWNED_WITH_DROPS: [&str; 6] = [
    ids::CNP_WITHOUT_CE,
    ids::CNP_STORM,
    ids::LOSS_BEFORE_TAP,
    ids::LOSS_BETWEEN_TAPS,
    ids::RETRY_STORM,
    ids::RETRY_TIMEOUTS,
];

/// End of the last time bin with a count, Unix nanoseconds.
fn end_of_last(start_ns: u64, bin_ns: u64, counts: &[u32]) -> Option<u64> {
    let last = counts.iter().rposition(|count| *count > 0)? as u64;
    Some(start_ns.saturating_add(bin_ns.saturating_mul(last + 1)))
}

/// Latest possible time of a flow's last mark; `None` without marks or without history.
fn last_mark(flow: &Flow) -> Option<u64> {
    let over_time = flow.ce_over_time.as_ref()?;
    Some(end_of_last(over_time.start_ns, over_time.bin_ns, &over_time.ce)?.min(flow.last_ns))
}

/// Duration of marking in a flow, in nanoseconds: from its history, else the duration of the flow.
fn marked_for(flow: &Flow) -> u64 {
    let Some(over_time) = &flow.ce_over_time else {
        return flow.last_ns.saturating_sub(flow.first_ns);
    };
    let marked = |count: &u32| *count > 0;
    let (first, last) = (over_time.ce.iter().position(marked), over_time.ce.iter().rposition(marked));
    let bins = last.unwrap_or(0).saturating_sub(first.unwrap_or(0)) as u64;
    (bins * over_time.bin_ns).min(flow.last_ns.saturating_sub(flow.first_ns))
}

/// CE-marked packets that a receiver gets, and CNPs that it sends.
#[derive(Default)]
struct Receiver<'a> {
    ce: u64,
    marked_ns: u64,
    acks: u64,
    cnps: u64,
    flows: Vec<&'a Flow>,
}

/// Receivers of CE-marked packets that send no CNP in a period, most marks first.
fn without_cnps<'a>(input: &Input<'a>, period: &Period) -> Vec<(Address, Receiver<'a>)> {
    let limits = &input.limits.ecn;
    let acks_of = |flow: &Flow| period.part(input.facts, flow, flow.ack.acks);
    let marked_ns = |flow: &Flow| {
        let length =
            if period.is_whole() { u64::MAX } else { period.last_ns.saturating_sub(period.first_ns) };
        marked_for(flow).min(length)
    };
    let mut receivers: BTreeMap<Address, Receiver<'_>> = BTreeMap::new();
    for (flow, ce) in
        deduplicated(&input.facts.flows, |flow| period.count(flow, Signal::CeMarked, flow.ecn_data().ce))
    {
        let receiver = receivers.entry(flow.dst).or_default();
        receiver.ce += ce;
        receiver.marked_ns = receiver.marked_ns.max(marked_ns(flow));
        receiver.flows.push(flow);
    }
    // With many flows nearly all are those of others.
    receivers.retain(|_, receiver| receiver.ce >= limits.no_cnp_marks);
    let is_of_one = |flow: &&Flow| limits.no_cnp_marks == 0 || receivers.contains_key(&flow.src);
    let answers: Vec<&Flow> = input.facts.flows.iter().filter(is_of_one).collect();
    for (flow, acks) in deduplicated(answers.iter().copied(), acks_of) {
        receivers.entry(flow.src).or_default().acks += acks;
    }
    for (flow, cnps) in deduplicated(answers, |flow| period.count(flow, Signal::Cnp, flow.cnps_dedup())) {
        receivers.entry(flow.src).or_default().cnps += cnps;
    }
    let is_silent = |receiver: &Receiver<'_>| {
        receiver.ce >= limits.no_cnp_marks
            && receiver.marked_ns >= limits.no_cnp_ms.saturating_mul(NS_PER_MS)
            && receiver.acks >= input.limits.ecn.no_cnp_acks
            && receiver.cnps == 0
    };
    let mut silent: Vec<_> = receivers.into_iter().filter(|(_, receiver)| is_silent(receiver)).collect();
    silent.sort_by_key(|(_, receiver)| std::cmp::Reverse(receiver.ce));
    silent
}

fn no_cnp(input: &Input<'_>, found: &mut Vec<Finding>) {
    let present: u64 = input.facts.flows.iter().map(|flow| flow.cnp_packets).sum();
    if input.facts.totals.cnp_packets > present {
        // Retired flows carried some CNPs, and their receivers are no longer known.
        return;
    }
    let marked: Vec<&Flow> = input.facts.flows.iter().filter(|flow| flow.ecn_data().ce > 0).collect();
    let times = timed(&marked, Signal::CeMarked, |flow| flow.ecn_data().ce);
    let judged = latest(&times, run(marked.iter().copied()), |period| {
        let silent = without_cnps(input, period);
        (!silent.is_empty()).then_some((silent, None))
    });
    let Some(judged) = judged else { return };
    let silent = &judged.what;
    let Some((most, receiver)) = silent.first() else { return };
    let capable: u64 = receiver.flows.iter().map(|flow| judged.period.capable(input.facts, flow)).sum();
    let marked = units::ratio(Some(share(receiver.ce, capable)));
    let diagnosis = format!("{most} sends no CNPs: {marked} {}-marked", input.facts.mark());
    let others = more(silent.len() as u64 - 1, "receiver");
    let effect = ", senders keep their rate".to_owned();
    let all: Vec<&Flow> = silent.iter().flat_map(|(_, receiver)| receiver.flows.iter().copied()).collect();
    let first = receiver.flows.first();
    let place = first.map(|flow| Place::of(input, flow).hop(Hop::Responder)).unwrap_or_default();
    let (requester, responder) = ends::of_data(input, receiver.flows.iter().copied());
    let there = first.map(|flow| Commands::at(input, flow, *most));
    Raise::new(&NO_CNP, Severity::Warning, title(diagnosis, [others, effect]))
        .evidence("receivers", silent.len() as u64)
        .evidence("ce_packets", receiver.ce)
        .evidence("marked_ns", receiver.marked_ns)
        .evidence("acks", receiver.acks)
        .evidence("cnp_packets", 0)
        .last_seen(all.iter().filter_map(|flow| last_mark(flow)).max())
        .dated(judged.dated())
        .counted(all.into_iter().map(|flow| (flow.ecn_data().ce, flow)))
        .place(place)
        .ends(requester, responder)
        .step(
            format!("On {most}, check that the notification point (roce_np) is enabled; Soft-RoCE has none."),
            there.and_then(Commands::ecn),
        )
        .step(
            format!("On {most}, compare np_ecn_marked_roce_packets with np_cnp_sent."),
            there.and_then(Commands::rdma_counters),
        )
        .step(
            "On the switches, check that the CNP class (DSCP 48 by default) is not dropped.",
            ethernet(ByHand::Switch),
        )
        .into(found);
}

fn not_capable(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.ecn;
    // Flows with data; ACK flows have no data packets.
    let flows = input.facts.flows.iter().filter(|flow| flow.dest_qp != GSI_QP);
    let mut flows = deduplicated(flows, |flow| flow.ecn_data().not_ect + flow.ecn_data().capable());
    let all = flows.iter().map(|(_, packets)| packets).sum();
    let not = flows.iter().map(|(flow, _)| flow.ecn_data().not_ect).sum();
    let ratio = share(not, all);
    if not < limits.not_capable_packets || ratio < limits.not_capable_ratio {
        return;
    }
    flows.retain(|(flow, _)| flow.ecn_data().not_ect > 0);
    flows.sort_by_key(|(flow, _)| std::cmp::Reverse(flow.ecn_data().not_ect));
    let diagnosis = if not == all {
        format!("ECN not enabled: all {} data packets are Not-ECT", units::count(all))
    } else {
        format!("ECN not enabled: {} of the data packets are Not-ECT", units::ratio(Some(ratio)))
    };
    let Some((first, _)) = flows.first() else { return };
    let (requester, responder) = ends::of_data(input, flows.iter().map(|(flow, _)| *flow));
    let sender = requester.as_ref().map_or_else(|| first.src.to_string(), ToString::to_string);
    Raise::new(&NOT_CAPABLE, Severity::Info, title(diagnosis, []))
        .evidence("not_ect_ratio", ratio)
        .evidence("not_ect_packets", not)
        .evidence("packets", all)
        .flows(flows.iter().map(|(flow, _)| *flow))
        .place(Place::of(input, first))
        .ends(requester, responder)
        .step(
            format!("Set ECT in the traffic class of the sender, {sender} (NCCL_IB_TC=106)."),
            ethernet(ByHand::Job),
        )
        .step(
            "Check that ECN is enabled per priority on the NIC.",
            Commands::at(input, first, first.src).ecn(),
        )
        .into(found);
}

#[cfg(test)]
mod tests {
    use crate::sample::Stats;

    use crate::analysis::Facts;
    use crate::analysis::fixtures::{SECOND, START, everything, key, link, sample, stats};
    use crate::analysis::{CeOverTime, Options};
    use crate::findings::tests::{found, found_on};

    /// Accurate to a time bin, and never later than the flow.
    #[test]
    fn congestion_was_seen_last_in_the_last_bin_with_a_mark() {
        let mut facts = Facts::of(&everything(), &Options::default());
        let flow = facts.flows.iter().position(|flow| flow.ecn_data().ce >= 100).unwrap();
        let mut seen = |ce: Vec<u32>, flow_s: u64| {
            facts.flows[flow].last_ns = START + flow_s * SECOND;
            facts.flows[flow].ce_over_time =
                Some(Box::new(CeOverTime { start_ns: START, bin_ns: SECOND, capable: vec![9; 6], ce }));
            found_on(&facts, "ecn.congestion").unwrap().last_seen_ns
        };
        assert_eq!(seen(vec![5, 0, 3, 0, 0, 0], 60), Some(START + 3 * SECOND));
        assert_eq!(seen(vec![5, 0, 3, 0, 0, 0], 2), Some(START + 2 * SECOND));
        assert_eq!(seen(vec![0; 6], 60), Some(START + 60 * SECOND), "no history of marks: its flows' end");
    }

    /// Nobody slows down: that is what to change first.
    #[test]
    fn congestion_is_an_effect_of_missing_cnps() {
        use crate::findings::Problem;
        let last_ns = START + SECOND;
        let data = Stats { ecn_data: [0, 0, 4_000, 1_000], last_ns, ..stats(50_000, 5_000, 5_000_000) };
        let answers = Stats { acks: 100, last_ns, ..stats(50_000, 100, 6_000) };
        let flows =
            vec![(key(0, "10.0.0.1", "10.0.0.2", 5), data), (key(0, "10.0.0.2", "10.0.0.1", 6), answers)];
        let all = found(&sample(vec![link("eth0", None)], flows), &Options::default());
        let of = |id: &str| all.iter().find(|one| one.id == id).unwrap();
        let silent = of("ecn.no_cnp");
        assert_eq!(silent.title, "10.0.0.2 sends no CNPs: 20.0 % CE-marked, senders keep their rate");
        assert_eq!(Problem::of(silent).map(Problem::badge), Some("NO CNP"));
        assert_eq!(of("ecn.congestion").causes, ["ecn.no_cnp"]);
        assert_eq!(silent.effects, ["ecn.congestion"]);
    }

    /// The marks of one queue are spread over all queue pairs of a job.
    #[test]
    fn many_flows_with_few_marks_each_are_congested_together() {
        let with = |marks: &[u64]| {
            let data = |ce| Stats { ecn_data: [0, 0, 500 - ce, ce], ..stats(50_000, 500, 500_000) };
            let flows = (5..).zip(marks).map(|(qp, ce)| (key(0, "10.0.0.1", "10.0.0.2", qp), data(*ce)));
            found(&sample(vec![link("eth0", None)], flows.collect()), &Options::default())
                .into_iter()
                .find(|finding| finding.id == "ecn.congestion")
        };
        assert_eq!(with(&[40, 40, 40]).unwrap().evidence["ce_packets"], 120);
        assert_eq!(with(&[40, 40]), None, "not enough of them");
        assert_eq!(with(&[9; 20]), None, "too few in each to say anything");
    }
}
