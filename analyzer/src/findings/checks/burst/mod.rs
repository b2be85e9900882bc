//! Incast.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};

use super::ecn::gaps_at_marks;
use super::ends;
use crate::analysis::Flow;
use crate::analysis::loss::counted_responses;
use crate::findings::dedup::{LinkShare, deduplicated_links};
use crate::findings::ids;
use crate::findings::period::{Period, episodes, joined, periods, run};
use crate::findings::title::title;
use crate::findings::{
    ByHand, Commands, End, Entry, Episode, Family, Hop, Impact, Input, Measure, Place, Problem, Raise,
    RequiredData, Severity,
};
use crate::metrics::loss::signal_intervals::Signal;
use crate::metrics::traffic::Traffic;
use crate::metrics::traffic::hosts::{BIN_BYTES, Degree, Host, Pair, Target};
use crate::sample::{Address, address};
use crate::util::map::Map;
use crate::util::numbers::share as ratio;
use crate::util::units::{self, plural};

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family =
    Family { entries: &[INCAST], limits: &[Limits::META], evidence: &[], check };

pub(super) const INCAST: Entry = Entry {
    id: ids::BURST_INCAST,
    rank: 290,
    needs: &[RequiredData::Traffic],
    measure: Some(Measure::ratio("incast_bytes_ratio")),
    title: "Incast with congestion",
    meaning: "Data of several hosts converges on the switch port towards one host. Data beyond the speed of that port queues in the switch; when the queue fills, \
                packets are CE-marked, paused<eth> by PFC</eth> or dropped, and the rate of all these flows drops. All-to-all and parameter servers cause incast by nature; it is \
                a problem when CE marks or loss accompany it.",
    computed: "Counted are the hosts that send data to one receiver within a bin, here not of a fixed length: up to {BIN_BYTES} of its data (what a switch buffers for one port), which a silence of {SILENCE_NS} ends; live, 1 ms at \
               least. Packets need not alternate: a FIFO passes the data of one sender after the other.\n\
               \n\
               In a replay, a sender that only takes its turn is counted in the next bin: its data begins while no message or READ response to the receiver is in progress, its READ request \
               was sent after the data of the others, and the silence before it exceeds {TURN_NS} and {TURN_PACKETS} packets at the pace of the bin.\n\
               \n\
               Raised when at least burst.incast_bins bins have at least burst.incast_senders senders and carry at least burst.incast_share of the receiver's data, and one of these \
               holds:\n\
               - More than ecn.congestion_ratio of their packets are CE-marked: at least burst.incast_factor times the ratio in bins with fewer senders, or there are no such bins.\n\
               - At least burst.incast_gap_ratio of them have a PSN gap while the receiver gets at least burst.incast_line_ratio of its peak rate, as from a full queue: at least \
               burst.incast_factor times the ratio in bins with fewer senders, times the PSNs missing at a gap (losses in runs make more gaps where senders take turns), and more than by \
               chance (burst.incast_deviations standard deviations).\n\
               - Without such bins (less than burst.incast_compared of the packets), burst.incast_senders hosts lose packets in runs of burst.incast_run or more on average.\n\
               - The tap is upstream of the queue, where nothing is lost yet: burst.incast_senders hosts have NAK episodes, at least burst.incast_factor times the ratio towards other \
               receivers, while the median request-to-ACK latency is at least burst.incast_latency_ns.\n\
               \n\
               Hosts that send less than burst.incast_heavy of the busiest sender's data (credits, small messages) do not count as senders. Incast without CE marks or loss raises \
               nothing, nor where a parallel link (imbalance) has as many senders to the receiver and at most half the ratio: links.congested_one_of names that link. Its impact is the \
               ratio in these bins, not in all data.\n\
               \n\
               Congestion, loss, timeouts and retransmissions of the same hosts at that time belong to this finding. Figures are those of the latest episode: data is kept in windows of \
               {EPISODE_GAP_NS} or more, and those of the run count where no window shows it by itself. Taps that see the same packets raise one finding (capture.own_ratio).",
    advice: "Spread the senders over time or over receivers: a hierarchical or pipelined collective (NCCL_ALGO, NCCL_PXN_DISABLE=0), fewer concurrent channels \
               (NCCL_MAX_NCHANNELS). <eth>On the switch, check the egress queue of the receiver's port, ECN thresholds (Kmin, Kmax), PFC on the priority of the data, and \
               buffer shares.</eth> On the senders, check that DCQCN is enabled (roce_rp, roce_np).",
    caveat: "CE marks are visible only downstream of the switch that sets them: at the receiver or its port. Gaps are loss upstream of this tap, or reordering by \
               adaptive routing. Damage on the receiver's link may lose packets as well: compare discards and link errors of its switch port.",
    ..Entry::of(Problem::Incast)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "burst";
    incast_senders: u64 = 3,
        "minimum concurrent senders in a bin",
        "Two senders to one port already exceed it, but a host of a ring exchanges data with two neighbours";
    incast_bins: u64 = 10,
        "minimum bins with that number of senders",
        "A handful of bins is the start of a job, not a pattern";
    incast_share: f64 = 0.1,
        "minimum share of the receiver's data in such bins",
        "Below a tenth, incast cannot be what limits the job";
    incast_gap_ratio: f64 = 0.001,
        "minimum PSN gaps per packet in such bins",
        "Go-back-N retransmits all packets in flight for each loss: one in a thousand is noticeable";
    incast_line_ratio: f64 = 0.75,
        "minimum rate in bins with gaps over the receiver's peak rate",
        "A queue overflows only while its port sends at line rate; a quarter is left for pauses of the senders";
    incast_latency_ns: u64 = 100_000,
        "minimum median request-to-ACK latency where loss downstream counts",
        "Switches and network cards of a data centre take 5 to 50 µs; a queue of 1 MB takes 80 µs at 100 Gb/s";
    incast_factor: f64 = 2.0,
        "minimum ratio of the signal to what bins with few senders, or parallel links, show",
        "Chance alone makes ratios differ by a half";
    incast_heavy: f64 = 0.1,
        "minimum share of the busiest sender's data to count as a sender",
        "The others send credits and small messages";
    incast_compared: f64 = 0.02,
        "minimum packets in bins with few senders, over those with many, to compare with",
        "A few packets after a round of incast do not represent traffic without incast";
    incast_deviations: f64 = 3.0,
        "standard deviations by which gaps are fewer in bins with few senders",
        "A smaller difference may be chance; where chance may leave no gap at all in those bins, a single gap there shows that gaps need no full queue";
    incast_run: f64 = 2.0,
        "minimum mean of the PSNs missing at a gap, where nothing compares",
        "Bit errors hit single packets; a full queue drops all arriving packets until it has drained";
}

/// Effects of growing queues.
const CONGESTION: [&str; 3] = [ids::ECN_CONGESTION, ids::CNP_WITHOUT_CE, ids::CNP_STORM];
/// Effects of growing and overflowing queues.
const ALL: [&str; 8] = [
    ids::ECN_CONGESTION,
    ids::CNP_WITHOUT_CE,
    ids::CNP_STORM,
    ids::LOSS_BEFORE_TAP,
    ids::LOSS_AFTER_TAP,
    ids::LOSS_BETWEEN_TAPS,
    ids::RETRY_STORM,
    ids::RETRY_TIMEOUTS,
];

/// Given the data bytes of each sender to one receiver, the number of senders that contribute hardly anything.
fn light_senders(limits: &Limits, data_bytes: &[u64]) -> usize {
    let most = data_bytes.iter().max().copied().unwrap_or(0);
    data_bytes
        .iter()
        .filter(|bytes| **bytes > 0 && (**bytes as f64) < limits.incast_heavy * most as f64)
        .count()
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<crate::findings::Finding>) {
    let Some(traffic) = &input.sample.metrics.traffic else { return };
    let flows = LazyCell::new(|| Receivers::of(&input.facts.flows, &traffic.pairs));
    let all = traffic.targets.iter().filter_map(|target| incast(input, target, traffic, &flows)).collect();
    let mut all: Vec<(f64, Raise)> =
        deduplicated_links(input, all).into_iter().map(|seen| seen.what).collect();
    all.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    for (_, raise) in all {
        raise.into(found);
    }
}

/// Flows with payload, by receiver: there may be as many receivers as flows.
struct Receivers<'a> {
    flows: Map<(&'a str, Address), Vec<&'a Flow>>,
    /// Of the run, NAK episodes and packets per link.
    links: Map<&'a str, (u64, u64)>,
    /// Data bytes of each sender, by link number and receiver.
    senders: Map<(u16, Host), Vec<u64>>,
}

impl<'a> Receivers<'a> {
    fn of(flows: &'a [Flow], pairs: &[Pair]) -> Self {
        let mut all = Self { flows: Map::default(), links: Map::default(), senders: Map::default() };
        for pair in pairs {
            all.senders.entry((pair.link, pair.dst)).or_default().push(pair.data_bytes);
        }
        for flow in flows.iter().filter(|flow| flow.payload_bytes > 0) {
            all.flows.entry((flow.link.as_str(), flow.dst)).or_default().push(flow);
            let (episodes, packets) = all.links.entry(flow.link.as_str()).or_default();
            *episodes += naks(flow, &Period::whole(0, 0));
            *packets += flow.packets;
        }
        all
    }
}

/// Evidence of an overflowing queue.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    /// PSN gaps in the bins with many senders.
    Gaps { ratio: f64, count: u64 },
    /// NAK episodes over all flows to the receiver: the queue is downstream of the tap.
    Downstream { ratio: f64, count: u64 },
}

impl Loss {
    const fn ratio(&self) -> f64 {
        match self {
            Self::Gaps { ratio, .. } | Self::Downstream { ratio, .. } => *ratio,
        }
    }
}

/// Bins with few and with many senders to a receiver.
struct Bins {
    few: Degree,
    many: Degree,
    compare: bool,
}

impl Bins {
    fn of(overlaps: &[Degree], least: usize, limits: &Limits) -> Option<Self> {
        let (few, many) = overlaps.split_at_checked(least.min(overlaps.len()))?;
        let (few, many): (Degree, Degree) = (few.iter().copied().sum(), many.iter().copied().sum());
        let compare = few.bins >= limits.incast_bins
            && few.packets as f64 >= limits.incast_compared * many.packets as f64;
        Some(Self { few, many, compare })
    }

    fn share(&self) -> f64 {
        self.many.bytes as f64 / (self.few.bytes + self.many.bytes).max(1) as f64
    }
}

/// Number of hosts with a non-zero count in one of their flows.
fn hosts<'a>(flows: impl Iterator<Item = &'a Flow>, of: impl Fn(&Flow) -> u64) -> u64 {
    flows.filter(|flow| of(flow) > 0).map(|flow| flow.src).collect::<BTreeSet<_>>().len() as u64
}

/// NAK episodes of a flow in a period.
fn naks(flow: &Flow, period: &Period) -> u64 {
    let all = flow.loss.get().map_or(0, |loss| loss.after_tap.episodes.or_zero());
    period.count(flow, Signal::LossDownstream, all).min(all)
}

/// The NAK episodes and the packets of all flows with payload on a link in a period.
fn on_link(input: &Input<'_>, link: &str, receivers: &Receivers<'_>, period: &Period) -> (u64, u64) {
    if period.is_whole() {
        return receivers.links.get(link).copied().unwrap_or_default();
    }
    let flows = input.facts.flows.iter().filter(|flow| flow.payload_bytes > 0 && flow.link == link);
    let of = |flow: &Flow| (naks(flow, period), period.part(input.facts, flow, flow.packets));
    flows.map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Loss in a period where the queue towards a receiver overflows. `flows` are those to the receiver at this tap;
/// `on_link` gives the NAK episodes and the packets of all flows there.
fn lossy(
    input: &Input<'_>,
    target: &Target,
    bins: &Bins,
    (flows, period): (&[&Flow], &Period),
    traffic: &Traffic,
    on_link: impl Fn() -> (u64, u64),
) -> Option<Loss> {
    let limits = &input.limits.burst;
    let Bins { few, many, compare } = bins;
    let gaps = ratio(many.gaps, many.packets);
    let own = || flows.iter().copied();
    if gaps >= limits.incast_gap_ratio {
        let sequences = own().flat_map(|flow| [flow.psn.get(), counted_responses(flow)]).flatten();
        let (count, missing) =
            sequences.fold((0, 0), |(gaps, missing), psn| (gaps + psn.gaps, missing + psn.missing));
        // Bytes per nanosecond, in both cases.
        let peak = ratio(target.peak_bytes, traffic.bin_ns);
        // Independent of any comparison: the port of an overflowing queue sends without a pause.
        let at_line_rate = ratio(many.lossy_bytes, many.lossy_ns) >= limits.incast_line_ratio * peak;
        let lost = |flow: &Flow| {
            let all = flow.losses_sum(|loss| loss.lost);
            period.count(flow, Signal::Lost, all).min(all)
        };
        let many_hosts = || {
            missing as f64 >= limits.incast_run * count as f64 && hosts(own(), lost) >= limits.incast_senders
        };
        // Expected number of gaps if bins with few senders had the same gap ratio.
        let expected = gaps * few.packets as f64;
        // One run of losses causes as many gaps as flows alternate in it.
        let factor = limits.incast_factor * (missing as f64 / count.max(1) as f64).max(1.0);
        let more = if !compare {
            many_hosts()
        } else if expected < limits.incast_deviations.powi(2) {
            few.gaps == 0 && many_hosts()
        } else {
            few.gaps as f64 <= (expected / factor).min(expected - limits.incast_deviations * expected.sqrt())
        };
        return (at_line_rate && more).then_some(Loss::Gaps { ratio: gaps, count: many.gaps });
    }
    let (count, packets) = own().fold((0, 0), |(episodes, packets), flow| {
        (episodes + naks(flow, period), packets + period.part(input.facts, flow, flow.packets))
    });
    let loss = ratio(count, packets);
    if *compare || loss < limits.incast_gap_ratio {
        return None;
    }
    let on_link = on_link();
    let (others, other_packets) = (on_link.0.saturating_sub(count), on_link.1.saturating_sub(packets));
    let mut waits: Vec<u64> =
        own().filter_map(|flow| flow.latency_ns.as_deref().map(|latency| latency.p50)).collect();
    waits.sort_unstable();
    let full = loss >= limits.incast_factor * ratio(others, other_packets)
        && hosts(own(), |flow| naks(flow, period)) >= limits.incast_senders
        && waits.get(waits.len() / 2).is_some_and(|median| *median >= limits.incast_latency_ns);
    full.then_some(Loss::Downstream { ratio: loss, count })
}

/// The same pattern towards the same receiver on links that share the load, in a period.
fn peers(
    input: &Input<'_>,
    target: &Target,
    traffic: &Traffic,
    (least, period): (usize, &Period),
) -> Vec<Bins> {
    let limits = &input.limits.burst;
    let link = |number: u16| input.sample.links.get(usize::from(number));
    let Some(own) = link(target.link) else { return Vec::new() };
    let in_group = |other: &&Target| {
        let Some(other) = link(other.link) else { return false };
        other.name != own.name
            && input.facts.imbalance.iter().any(|group| {
                let has = |name: &String| group.links.contains(name);
                !group.same_path && group.direction == own.direction && has(&own.name) && has(&other.name)
            })
    };
    let same = traffic.targets.iter().filter(|other| other.host == target.host && other.link != target.link);
    let bins = same.filter(in_group).filter_map(|other| Bins::of(&overlaps(other, period), least, limits));
    bins.filter(|bins| bins.many.bins >= limits.incast_bins).collect()
}

/// True if a parallel link has the pattern without the signal: then the link is the cause, not the convergence on the
/// receiver.
fn one_link_alone(limits: &Limits, peers: &[Bins], here: f64, of: impl Fn(&Bins) -> f64) -> bool {
    peers.iter().any(|bins| here >= limits.incast_factor * of(bins))
}

/// The bins of a receiver in a period.
fn overlaps(target: &Target, period: &Period) -> Vec<Degree> {
    if period.is_whole() {
        target.overlaps.clone()
    } else {
        target.windows.within(period.first_ns, period.last_ns)
    }
}

/// Data bytes of each sender to a receiver in a period.
fn sent(
    input: &Input<'_>,
    target: &Target,
    receivers: &Receivers<'_>,
    (flows, period): (&[&Flow], &Period),
) -> Vec<u64> {
    if period.is_whole() {
        return receivers.senders.get(&(target.link, target.host)).cloned().unwrap_or_default();
    }
    let mut by_sender: BTreeMap<Address, u64> = BTreeMap::new();
    for flow in flows {
        *by_sender.entry(flow.src).or_default() += period.part(input.facts, flow, flow.bytes);
    }
    by_sender.into_values().collect()
}

/// An incast in a period.
struct IncastPeriod {
    bins: Bins,
    /// Most senders at once, without those that send hardly anything.
    most: usize,
    marked: bool,
    loss: Option<Loss>,
}

/// The incast towards a receiver in a period; `flows` are those to it.
fn judge(
    input: &Input<'_>,
    target: &Target,
    (traffic, receivers): (&Traffic, &Receivers<'_>),
    flows: &[&Flow],
    period: &Period,
) -> Option<IncastPeriod> {
    let limits = &input.limits.burst;
    let light = light_senders(limits, &sent(input, target, receivers, (flows, period)));
    let least = usize::try_from(limits.incast_senders).ok()? + light;
    let overlaps = overlaps(target, period);
    let bins = Bins::of(&overlaps, least, limits)?;
    if bins.many.bins < limits.incast_bins || bins.share() < limits.incast_share {
        return None;
    }
    let ce = ratio(bins.many.ce, bins.many.packets);
    let peers = peers(input, target, traffic, (least, period));
    // Too little data for a comparison is evidence neither for nor against a growing queue.
    let marked = ce > input.limits.ecn.congestion_ratio
        && (!bins.compare || ce >= limits.incast_factor * ratio(bins.few.ce, bins.few.packets))
        && !one_link_alone(limits, &peers, ce, |bins| ratio(bins.many.ce, bins.many.packets));
    let gaps = ratio(bins.many.gaps, bins.many.packets);
    let link = input.sample.links.get(usize::from(target.link)).map_or("", |link| link.name.as_str());
    let there = || on_link(input, link, receivers, period);
    let loss = lossy(input, target, &bins, (flows, period), traffic, there)
        .filter(|_| !one_link_alone(limits, &peers, gaps, |bins| ratio(bins.many.gaps, bins.many.packets)));
    (marked || loss.is_some()).then_some(IncastPeriod {
        bins,
        most: overlaps.len().saturating_sub(1 + light),
        marked,
        loss,
    })
}

/// An incast, its period, and the times of all.
type Latest = (IncastPeriod, Period, Vec<(u64, u64)>);

/// The latest incast towards a receiver, its period, and the times of all; if no single period qualifies, that of the
/// run.
fn latest(target: &Target, run: Period, judge: impl Fn(&Period) -> Option<IncastPeriod>) -> Option<Latest> {
    // One alone is the run.
    let all = if target.windows.ended.len() > 1 { &target.windows.ended[..] } else { &[] };
    let windows = all.iter().map(|window| Period::between(window.first_ns, window.last_ns));
    let bad = windows.filter(|period| judge(period).is_some());
    let times = joined(bad.map(|period| (period.first_ns, period.last_ns)).collect());
    let last = times.last().map(|&(first_ns, last_ns)| Period::between(first_ns, last_ns));
    let judged = last.and_then(|period| Some((judge(&period)?, period)));
    match judged {
        Some((judged, period)) => Some((judged, period, times)),
        None => Some((judge(&run)?, run, Vec::new())),
    }
}

/// Times of the signals during the incasts; for an incast without signals, its own time. All times of the signals if
/// those of the incasts are not known.
fn times_of(signals: &[Period], incasts: &[(u64, u64)]) -> Vec<Episode> {
    if incasts.is_empty() {
        return episodes(signals);
    }
    let mut all = Vec::new();
    for &(first_ns, last_ns) in incasts {
        let both = signals.iter().map(|one| (one.first_ns.max(first_ns), one.last_ns.min(last_ns)));
        let from = all.len();
        all.extend(both.filter(|(first, last)| first <= last));
        if all.len() == from {
            all.push((first_ns, last_ns));
        }
    }
    let episode = |(first_ns, last_ns)| Episode { first_ns, last_ns, peak: None };
    joined(all).into_iter().map(episode).collect()
}

/// The incast towards a receiver, with its severity.
#[expect(clippy::too_many_lines, reason = "conditions, then the texts that their values go into")]
fn incast<'a>(
    input: &Input<'a>,
    target: &Target,
    traffic: &Traffic,
    receivers: &Receivers<'a>,
) -> Option<LinkShare<(f64, Raise)>> {
    let limits = &input.limits.burst;
    if target.overlaps.len() < usize::try_from(limits.incast_senders).ok()? {
        return None;
    }
    let host = address(target.host.0, target.host.1);
    let link = input.sample.links.get(usize::from(target.link)).map_or("", |link| link.name.as_str());
    let mut flows = receivers.flows.get(&(link, host)).cloned().unwrap_or_default();
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
    let run = run(flows.iter().copied());
    let (judged, period, incasts) =
        latest(target, run, |period| judge(input, target, (traffic, receivers), &flows, period))?;
    let IncastPeriod { bins, most, marked, loss } = judged;
    let (share, ce) = (bins.share(), ratio(bins.many.ce, bins.many.packets));
    let cost = match loss {
        _ if marked => format!("{} {}-marked", units::ratio(Some(ce)), input.facts.mark()),
        Some(Loss::Downstream { count, .. }) => plural(count, "NAK episode"),
        _ => plural(bins.many.gaps, "PSN gap"),
    };
    let part = format!(" ({:.0} % of its data)", 100.0 * share);
    let title = title(format!("Incast to {host}: up to {most} senders, {cost}"), [part]);
    let cost = if marked { ce } else { loss.map_or(0.0, |loss| loss.ratio()) };
    let downstream = matches!(loss, Some(Loss::Downstream { .. }));
    let signal = if downstream { Signal::LossDownstream } else { Signal::LossUpstream };
    let signals = if marked { [Signal::CeMarked, signal] } else { [signal; 2] };
    let times = times_of(&periods(flows.iter().copied(), &signals), &incasts);
    let (gaps_ce, drops) = gaps_at_marks(input, flows.iter().copied(), &period);
    let own_link = input.facts.links.get(usize::from(target.link));
    let place = Place::link(input, link, own_link.and_then(|link| link.direction));
    let check_on = match &place.switch_port {
        Some(switch) => format!("On {switch} and the switch port towards {host}"),
        None => format!("On the switch port towards {host}"),
    };
    let responder = ends::of_data(input, flows.iter().copied()).1;
    let here = Commands::on(input, link);
    let raise = Raise::new(&INCAST, Severity::Warning, title)
        .evidence("link", link)
        .evidence("receiver", host.to_string())
        .evidence("bin_bytes", BIN_BYTES)
        .evidence("senders_max", most)
        .evidence("incast_bins", bins.many.bins)
        .evidence("incast_bytes", bins.many.bytes)
        .evidence("incast_bytes_ratio", share)
        .evidence("incast_ce_ratio", ce)
        .evidence("other_ce_ratio", (bins.few.packets > 0).then(|| ratio(bins.few.ce, bins.few.packets)))
        .evidence("incast_gaps", bins.many.gaps)
        .evidence("other_gaps", bins.few.gaps)
        .evidence("gaps_ce_ratio", gaps_ce)
        .evidence("nak_episodes", flows.iter().map(|flow| naks(flow, &period)).sum::<u64>())
        .flows(flows.iter().copied())
        .place(place.hop(if downstream { Hop::Downstream } else { Hop::Upstream }))
        .ends(None, responder.map(|end| End { qpn: None, ..end }))
        .impact(Impact { packets_ratio: Some(cost), ..Impact::default() })
        .owns(if loss.is_some() || drops { &ALL } else { &CONGESTION })
        .dated(times)
        .step(
            format!("{check_on}, check egress queue, ECN thresholds (Kmin, Kmax) and discards."),
            ByHand::Switch,
        )
        .step("Check that DCQCN is enabled on the NIC (roce_np, roce_rp).", here.ecn())
        .step(
            "Reduce concurrent senders: hierarchical collectives, fewer channels (NCCL_MAX_NCHANNELS).",
            ByHand::Job,
        );
    let weighed = flows.into_iter().map(|flow| (flow, flow.bytes));
    Some(LinkShare::new(usize::from(target.link), (share * (ce + cost), raise), weighed))
}

#[cfg(test)]
mod tests;
