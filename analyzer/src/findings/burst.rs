//! Many that send to one at once.

use super::once::{Seen, seen_once};
use super::{Entry, Family, Input, Measure, Need, Raise};
use crate::findings::Severity;
use crate::metrics::traffic::Traffic;
use crate::metrics::traffic::hosts::{Degree, Pair, Target};
use crate::sample::address;

/// This family.
pub(super) const FAMILY: Family =
    Family { entries: &[INCAST], limits: &[Limits::META], evidence: &[], check };

const INCAST: Entry = Entry {
    id: "burst.incast",
    rank: 290,
    needs: &[Need::Traffic],
    measure: Some(Measure::ratio("incast_bytes_ratio")),
    title: "Several hosts send to one at once, and it costs",
    meaning: "Data from several hosts meets at the port towards one host. What comes faster than that port sends waits in the switch; when the queue fills, packets are marked CE, paused by PFC \
              or dropped, and all of these flows slow down. All-to-all and parameter servers do this by their nature; it is a problem when marks or losses come with it.",
    computed: "Data to each receiver is cut into bins (--bin), and the senders in each are counted. Raised as a warning when bins with incast_senders senders or more carry at least incast_share of the \
               receiver's data, there are at least incast_bins of them, and of their data more than incast_ce_ratio is marked CE, or PSN gaps come at incast_gap_ratio per packet or more; and both \
               at least twice as often as in bins with fewer senders. Where there are no such bins to compare with, marks count and gaps do not: loss has other causes. Hosts that send less than a tenth of \
               what the busiest one sends (credits, small messages) make no incast: as many more must send. Senders alone, however many, raise nothing. Once for taps that see the same packets.",
    advice: "Spread the senders in time or over receivers: a hierarchical or pipelined collective (NCCL_ALGO, NCCL_PXN_DISABLE=0), fewer channels at once (NCCL_MAX_NCHANNELS). On the switch: look at the egress queue of the \
             receiver's port, ECN thresholds (Kmin, Kmax), PFC on the priority of the data, and buffer shares. On the senders: DCQCN enabled (roce_rp, roce_np).",
    caveat: "Marks are seen only behind the switch that makes them: at the receiver or its port. Gaps are loss before the point of capture, or reordering by adaptive routing.",
    ..Entry::EMPTY
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "burst";
    incast_senders: u64 = 3,
        "senders in one bin from which it counts as incast",
        "Two senders to one port already exceed it, but a host of a ring sends and receives with two neighbours; incast is spoken of from several on";
    incast_bins: u64 = 10,
        "bins with so many senders, at least",
        "A handful of bins is the start of a job, not a pattern";
    incast_share: f64 = 0.1,
        "share of the receiver's data in such bins, at least",
        "Below a tenth it cannot be what slows the job";
    incast_ce_ratio: f64 = 0.01,
        "share of CE marks in such bins from which it costs",
        "DCQCN halves its rate on the first mark and recovers over milliseconds, so that one packet in a hundred keeps a flow slowed down";
    incast_gap_ratio: f64 = 0.001,
        "PSN gaps per packet in such bins from which it costs",
        "Go-back-N sends all that was under way again for each loss: one in a thousand is felt";
}

/// How much more often than with few senders.
const FACTOR: f64 = 2.0;
/// Share of the busiest sender's data from which a host fills a queue: the others send credits and small messages.
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
    let cost = if marked {
        format!("{:.1} % of it is marked CE", 100.0 * ce)
    } else {
        format!("{} PSN gaps come with it", many.gaps)
    };
    let title = format!(
        "Up to {most} hosts send to {host} at once: {:.0} % of its data comes in such bursts, and {cost}",
        100.0 * share
    );
    let mut flows: Vec<_> =
        input.facts.flows.iter().filter(|flow| flow.dst == host && flow.link == link).collect();
    flows.retain(|flow| flow.payload_bytes > 0);
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes));
    let raise = Raise::new(&INCAST, Severity::Warning, title)
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
        .flows(flows.iter().copied());
    let weighed = flows.into_iter().map(|flow| (flow, flow.bytes));
    Some(Seen::new(usize::from(target.link), (share * (ce + gaps), raise), weighed))
}
