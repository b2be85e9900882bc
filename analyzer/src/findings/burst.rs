//! Incast.

use super::ecn::gaps_at_marks;
use super::once::{Seen, seen_once};
use super::span::{episodes, spans};
use super::title::title;
use super::{Commands, End, Entry, Family, Impact, Input, Measure, Need, Place, Raise, ends};
use crate::findings::Severity;
use crate::metrics::loss::spells::Signal;
use crate::metrics::traffic::Traffic;
use crate::metrics::traffic::hosts::{Degree, Pair, Target};
use crate::sample::address;
use crate::util::units::{self, plural};

/// This family.
pub(super) const FAMILY: Family =
    Family { entries: &[INCAST], limits: &[Limits::META], evidence: &[], check };

const INCAST: Entry = Entry {
    id: "burst.incast",
    rank: 290,
    needs: &[Need::Traffic],
    measure: Some(Measure::ratio("incast_bytes_ratio")),
    title: "Incast with congestion",
    meaning: "Data of several hosts converges on the switch port towards one host. What exceeds the speed of that port queues in the switch; when the queue fills, \
                packets are CE-marked, paused by PFC or dropped, and the rate of all these flows drops. All-to-all and parameter servers cause incast by nature; it is \
                a problem when CE marks or loss accompany it.",
    computed: "Data to each receiver is divided into time bins (--bin), and the senders in each bin are counted. A warning when there are at least burst.incast_bins bins \
                 with at least burst.incast_senders senders, these carry at least burst.incast_share of the receiver's data, and of their packets more than burst.incast_ce_ratio are \
                 CE-marked or at least burst.incast_gap_ratio have a PSN gap, in both cases at least twice the ratio in bins with fewer senders. Without such bins to compare \
                 with, CE marks count and gaps do not: loss has other causes. Hosts that send less than a tenth of the busiest sender's data (credits, small messages) \
                 do not count as senders. Incast without CE marks or gaps raises nothing. ecn.congestion of the same hosts belongs to this finding; so do loss.before_tap, loss.between_taps and retry.storm where the \
                 gaps come with such bins, or right before CE-marked packets (gaps_ce_ratio). Taps that see the same packets raise one finding.",
    advice: "Spread the senders over time or over receivers: a hierarchical or pipelined collective (NCCL_ALGO, NCCL_PXN_DISABLE=0), fewer concurrent channels \
               (NCCL_MAX_NCHANNELS). On the switch, check the egress queue of the receiver's port, ECN thresholds (Kmin, Kmax), PFC on the priority of the data, and \
               buffer shares. On the senders, check that DCQCN is enabled (roce_rp, roce_np).",
    caveat: "CE marks are visible only downstream of the switch that sets them: at the receiver or its port. Gaps are loss upstream of this tap, or reordering by \
               adaptive routing.",
    ..Entry::EMPTY
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
    incast_ce_ratio: f64 = 0.01,
        "minimum CE ratio in such bins",
        "DCQCN halves its rate on the first CNP and recovers over milliseconds, so that one CE-marked packet in a hundred keeps a flow throttled";
    incast_gap_ratio: f64 = 0.001,
        "minimum PSN gaps per packet in such bins",
        "Go-back-N retransmits all packets in flight for each loss: one in a thousand is noticeable";
}

/// Effects of queues that fill.
const CONGESTION: [&str; 3] = ["ecn.congestion", "cnp.without_ce", "cnp.storm"];
/// Effects of queues that overflow.
const ALL: [&str; 7] = [
    "ecn.congestion",
    "cnp.without_ce",
    "cnp.storm",
    "loss.before_tap",
    "loss.between_taps",
    "retry.storm",
    "retry.timeouts",
];
/// Minimum ratio to what bins with few senders show.
const FACTOR: f64 = 2.0;
/// Minimum share of the busiest sender's data to count as a sender: the others send credits and small messages.
const HEAVY: f64 = 0.1;

/// Hosts that send to a receiver now and then, but hardly anything.
fn light_senders(pairs: &[Pair], target: &Target) -> usize {
    let own = || pairs.iter().filter(|pair| pair.link == target.link && pair.dst == target.host);
    let most = own().map(|pair| pair.data_bytes).max().unwrap_or(0);
    own().filter(|pair| pair.data_bytes > 0 && (pair.data_bytes as f64) < HEAVY * most as f64).count()
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<crate::findings::Finding>) {
    let Some(traffic) = &input.sample.metrics.traffic else { return };
    let all = traffic.targets.iter().filter_map(|target| incast(input, target, traffic)).collect();
    let mut all: Vec<(f64, Raise)> = seen_once(input, all).into_iter().map(|seen| seen.what).collect();
    all.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    // One per receiver would bury the rest: the worst few stand for them.
    for (_, raise) in all.into_iter().take(4) {
        raise.into(found);
    }
}

fn sum(degrees: &[Degree]) -> Degree {
    degrees.iter().fold(Degree::default(), |sum, degree| Degree {
        bins: sum.bins + degree.bins,
        packets: sum.packets + degree.packets,
        bytes: sum.bytes + degree.bytes,
        ce: sum.ce + degree.ce,
        gaps: sum.gaps + degree.gaps,
    })
}

/// The incast to a receiver, and how bad it is.
#[expect(clippy::too_many_lines, reason = "conditions, then the texts that their values go into")]
fn incast(input: &Input<'_>, target: &Target, traffic: &Traffic) -> Option<Seen<(f64, Raise)>> {
    let limits = &input.limits.burst;
    let light = light_senders(&traffic.pairs, target);
    let at = (usize::try_from(limits.incast_senders).ok()? + light).min(target.degrees.len());
    let (few, many) = target.degrees.split_at_checked(at)?;
    let (few, many) = (sum(few), sum(many));
    let share = many.bytes as f64 / (few.bytes + many.bytes).max(1) as f64;
    if many.bins < limits.incast_bins || share < limits.incast_share {
        return None;
    }
    let ratio = |part: u64, of: &Degree| part as f64 / of.packets.max(1) as f64;
    let (ce, gaps) = (ratio(many.ce, &many), ratio(many.gaps, &many));
    // Too little to compare with says nothing for or against a queue that fills; loss has many causes besides.
    let compare = few.bins >= limits.incast_bins;
    let worse = |many: f64, few: f64| many >= FACTOR * few;
    let marked = ce > limits.incast_ce_ratio && (!compare || worse(ce, ratio(few.ce, &few)));
    let lossy = gaps >= limits.incast_gap_ratio && compare && worse(gaps, ratio(few.gaps, &few));
    if !marked && !lossy {
        return None;
    }
    let host = address(target.host.0, target.host.1);
    let link = input.sample.links.get(usize::from(target.link)).map_or("", |link| link.name.as_str());
    let most = target.degrees.len().saturating_sub(1 + light);
    let cost =
        if marked { format!("{} CE-marked", units::ratio(Some(ce))) } else { plural(many.gaps, "PSN gap") };
    let diagnosis = format!("Incast to {host}: up to {most} senders, {cost}");
    let part = format!(" ({:.0} % of its data)", 100.0 * share);
    let mut flows: Vec<_> =
        input.facts.flows.iter().filter(|flow| flow.dst == host && flow.link == link).collect();
    flows.retain(|flow| flow.payload_bytes > 0);
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
    let direction = input.facts.links.get(usize::from(target.link)).and_then(|link| link.direction);
    let place = Place::link(input, link, direction);
    let check_on = match &place.switch_port {
        Some(switch) => format!("On {switch} and the switch port towards {host}"),
        None => format!("On the switch port towards {host}"),
    };
    let responder = ends::of_data(input, flows.iter().copied()).1;
    let (gaps_ce, drops) = gaps_at_marks(flows.iter().copied());
    let signals = if marked { [Signal::CeMarked, Signal::LossUpstream] } else { [Signal::LossUpstream; 2] };
    let here = Commands::on(input, link);
    let raise = Raise::new(&INCAST, Severity::Warning, title(diagnosis, [part]))
        .evidence("link", link)
        .evidence("receiver", host.to_string())
        .evidence("bin_ns", traffic.bin_ns)
        .evidence("senders_max", most)
        .evidence("incast_bins", many.bins)
        .evidence("incast_bytes", many.bytes)
        .evidence("incast_bytes_ratio", share)
        .evidence("incast_ce_ratio", ce)
        .evidence("other_ce_ratio", (few.packets > 0).then(|| ratio(few.ce, &few)))
        .evidence("incast_gaps", many.gaps)
        .evidence("other_gaps", few.gaps)
        .evidence("gaps_ce_ratio", gaps_ce)
        .flows(flows.iter().copied())
        .place(place.hop("upstream"))
        .ends(None, responder.map(|end| End { qpn: None, ..end }))
        .impact(Impact { packets_ratio: Some(if marked { ce } else { gaps }), ..Impact::default() })
        .owns(match (marked, lossy || drops) {
            (true, false) => &CONGESTION,
            (_, true) => &ALL,
            (false, false) => &[],
        })
        .episodes(episodes(&spans(flows.iter().copied(), &signals)))
        .step(format!("{check_on}, check egress queue, ECN thresholds (Kmin, Kmax) and discards."), None)
        .step("Check that DCQCN is enabled on the NIC (roce_np, roce_rp).", here.ecn())
        .step(
            "Reduce concurrent senders: hierarchical collectives, fewer channels (NCCL_MAX_NCHANNELS).",
            None,
        );
    let weighed = flows.into_iter().map(|flow| (flow, flow.bytes));
    Some(Seen::new(usize::from(target.link), (share * (ce + gaps), raise), weighed))
}
