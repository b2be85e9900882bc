//! From a sample to facts: sums, order, links.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::analysis::entropy::QpSpread;
use crate::analysis::facts::Places;
use crate::analysis::flow::less;
use crate::analysis::spray::Planes;
use crate::analysis::{
    Dscp, Ecmp, Ecn, Entropy, Facts, Flow, FlowId, Imbalance, Link, Lost, MultiTapCounts, Options, Overlap,
    Recorded, Skipped, Source, Totals, Window, device, device_qp, direction_balance, ecmp, ecn, entropy,
    flow, imbalance, nccl, paths, qp_context, qp_lives, qp_paths, same_path, taps, traffic, upstream,
};
use crate::metrics::Metrics;
use crate::metrics::duplicates::DuplicateCounts;
use crate::metrics::loss::RetiredLoss;
use crate::metrics::loss::signal_intervals::BySlot;
use crate::metrics::marking::{ByDscp, Marked};
use crate::metrics::pairing;
use crate::metrics::traffic::flowlets::Flowlets;
use crate::sample::{Address, FlowSample, LinkSample, Sample, Tuple, address};
use crate::util::map::Map;
use crate::util::shared::Shared;
use crate::util::{background, memory};

/// Flows up to which a second thread does not pay: starting one takes as long.
const MOST_ALONE: usize = 1024;

impl Facts {
    /// The facts of everything counted up to `sample`.
    ///
    /// The same counts give the same facts, whatever the order of the sample's flows.
    pub fn of(sample: &Sample, options: &Options) -> Self {
        let mut facts = Self::but_flows(sample, options);
        facts.flows = flows(sample);
        facts
    }

    /// The same of a sample that nobody needs afterwards. Its flows give way one by one to those of the facts, which
    /// take as much memory: never is there room for both.
    #[must_use]
    pub fn of_last(sample: &mut Sample, options: &Options) -> Self {
        let mut facts = Self::but_flows(sample, options);
        if let Some(traffic) = &mut sample.metrics.traffic {
            // Steps alone follow from them.
            Arc::make_mut(traffic).flowlets = Flowlets::default();
        }
        facts.flows = take_flows(sample);
        forget_flows(&mut sample.metrics);
        // Counters of flows lay between what the facts keep.
        memory::trim();
        facts
    }

    fn but_flows(sample: &Sample, options: &Options) -> Self {
        let sums = sums(sample);
        let overlap = Overlap::of(sample);
        // Of many flows these take longest.
        let ((entropy, ecmp, spreads), (pattern, (steps, steps_absent))) = background::both(
            "facts",
            sample.flows.len() > MOST_ALONE,
            || spread(sample, options),
            || (pattern(sample, &overlap), super::steps::steps(sample)),
        );
        let mut facts = Self {
            source: Source {
                kind: sample.kind.into(),
                inputs: sample.inputs.clone(),
                filter: options.filter.clone(),
                recording: sample.recording.as_ref().map(|of| Recorded { interval_ns: of.interval_ns }),
            },
            window: Window {
                first_ns: sample.window.map(|(first, _)| first),
                last_ns: sample.window.map(|(_, last)| last),
            },
            totals: totals(sample, &sums, &overlap),
            flows: Vec::new(),
            entropy,
            links: links(sample, &sums),
            imbalance: with_time(sample, imbalances(sample, &sums, options)),
            rails: imbalance::rails(&loads(sample, &sums), options),
            ecmp,
            taps: taps::taps(sample),
            bursts: traffic::bursts(sample),
            incast: traffic::incast(sample),
            steps,
            steps_absent,
            pattern,
            qp_lives: None,
            qp_context: qp_context::coverage(&sample.devices),
            qp_paths: None,
            post_sampling: sample.devices.posts.sampling.clone(),
            devices: device::devices(&sample.devices),
            nccl: None,
            coverage: Vec::new(),
            spreads,
            related: paths::related(sample),
            by_hosts: Places::default(),
            by_name: Places::default(),
            marks: sample.metrics.loss.as_ref().map(|loss| loss.intervals.marks.clone()).unwrap_or_default(),
        };
        facts.source.kind = device::kind(sample, facts.totals.roce_packets);
        device_qp::mark_packets(&mut facts.devices, &sample.flows);
        if sample.recording.is_some() {
            device_qp::forget_sources(&mut facts.devices);
        }
        facts.qp_lives = qp_lives::lives(&sample.devices, &facts.devices);
        facts.qp_paths = qp_paths::paths(&facts.devices, &sample.devices, options);
        facts.nccl = nccl::nccl(sample, &facts.devices);
        facts.coverage = device::coverage(sample, &facts.links);
        facts
    }
}

fn pattern(sample: &Sample, overlap: &Overlap) -> Option<traffic::Pattern> {
    traffic::pattern(sample, retired_at_one_tap(sample).then_some(overlap))
}

/// Figures of how bytes spread over 5-tuples and queue pairs.
fn spread(sample: &Sample, options: &Options) -> (Entropy, Option<Ecmp>, Vec<QpSpread>) {
    let (entropy, spreads) = entropy::spreads(sample);
    (entropy, options.ecmp.map(|uplinks| ecmp::what_if(sample, uplinks)), spreads)
}

/// RoCE packets of one link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkSum {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    cnp_packets: u64,
    ecn: Ecn,
    /// Without duplicates.
    ecn_data: Ecn,
    /// Bytes without those of duplicates.
    bytes_dedup: u64,
}

/// The sum over flows, retired flows and packets that found no flow, by link.
fn sums(sample: &Sample) -> Vec<LinkSum> {
    let mut sums: Vec<LinkSum> = sample.links.iter().map(link_alone).collect();
    for FlowSample { key, stats, .. } in &sample.flows {
        // A sample names only links that it has.
        if let Some(sum) = sums.get_mut(usize::from(key.link)) {
            sum.packets += stats.packets;
            sum.bytes += stats.bytes;
            sum.cnp_packets += stats.cnp_packets;
            sum.ecn.add(stats.ecn());
            sum.ecn_data.add(stats.ecn_data);
        }
    }
    for (at, sum) in sums.iter_mut().enumerate() {
        let duplicates = sample.duplicates_on(at);
        sum.bytes_dedup = sum.bytes.saturating_sub(duplicates.bytes);
        let Ecn { not_ect, ect1, ect0, ce } = sum.ecn_data;
        sum.ecn_data = less([not_ect, ect1, ect0, ce], duplicates.ecn_data).into();
    }
    sums
}

/// Counts of a link outside its present flows.
fn link_alone(link: &LinkSample) -> LinkSum {
    let (retired, without_flow) = (&link.retired, link.without_flow());
    LinkSum {
        packets: retired.packets + without_flow.packets,
        bytes: retired.bytes + without_flow.bytes,
        cnp_packets: retired.cnp_packets,
        ecn: retired.ecn.into(),
        ecn_data: retired.ecn_data.into(),
        bytes_dedup: 0,
    }
}

fn totals(sample: &Sample, sums: &[LinkSum], overlap: &Overlap) -> Totals {
    let mut totals = Totals {
        lost: Lost {
            ecn_untracked: sample.metrics.ecn.as_ref().map(|ecn| ecn.untracked),
            pause_untracked: sample.metrics.control.as_ref().map(|control| control.untracked),
            ..Lost::of(sample)
        },
        ..Totals::default()
    };
    let mut ecn = Ecn::default();
    for sum in sums {
        totals.roce_packets += sum.packets;
        totals.roce_bytes += sum.bytes;
        totals.cnp_packets += sum.cnp_packets;
        for (total, part) in [(&mut ecn, sum.ecn), (&mut totals.ecn_data, sum.ecn_data)] {
            total.add([part.not_ect, part.ect1, part.ect0, part.ce]);
        }
    }
    let mut skipped_bytes = 0;
    for link in &sample.links {
        skipped_bytes += link.skipped.iter().map(|counter| counter.bytes).sum::<u64>();
        totals.retired.flows += link.retired.flows;
        totals.retired.packets += link.retired.packets;
        totals.retired.bytes += link.retired.bytes;
        totals.retired.ecn_data.add(link.retired.ecn_data);
    }
    let followed = sample.metrics.loss.as_ref().filter(|_| sample.recording.is_none());
    if let Some(loss) = followed.filter(|_| totals.retired.flows > 0) {
        let RetiredLoss { lost, retransmitted, timeouts } = loss.retired;
        let retired = &mut totals.retired;
        (retired.lost, retired.retransmitted, retired.timeouts) =
            (Some(lost), Some(retransmitted), Some(timeouts));
    }
    (totals.counted_again, totals.duplicates) = seen_at_other_taps(sample, overlap);
    totals.ecn = sample.recording.is_none().then_some(ecn);
    totals.ce_ratio = totals.ecn_data.ce_ratio();
    totals.skipped = Skipped::of(sample);
    totals.packets = totals.roce_packets + totals.skipped.packets();
    totals.bytes = totals.roce_bytes + skipped_bytes;
    totals
}

/// True if each packet of retired flows was counted in one place: of these no more is known than their
/// 5-tuples, and packets that several places see have the same one in each. The two directions of an
/// interface are one place: what comes in is not what goes out.
fn retired_at_one_tap(sample: &Sample) -> bool {
    let place = |link: u16| sample.links.get(usize::from(link)).map(|link| link.name.as_str());
    let places: BTreeSet<&str> = sample.links.iter().map(|link| link.name.as_str()).collect();
    let with_retired = sample.links.iter().filter(|link| link.retired.flows > 0);
    let retired_in: BTreeSet<&str> = with_retired.clone().map(|link| link.name.as_str()).collect();
    if places.len() < 2 || retired_in.is_empty() {
        return true;
    }
    let bytes: u64 = with_retired.map(|link| link.retired.bytes).sum();
    let known: u64 = sample.retired_tuples.iter().map(|tuple| tuple.bytes).sum();
    if known < bytes && retired_in.len() > 1 {
        return false;
    }
    let mut seen: Map<Tuple, Option<&str>> = Map::default();
    let mut is_elsewhere = |tuple: Tuple, at| *seen.entry(tuple).or_insert(at) != at;
    for retired in &sample.retired_tuples {
        if is_elsewhere(retired.tuple, place(retired.link)) {
            return false;
        }
    }
    // A flow that has retired in one place may go on in another.
    !sample.flows.iter().any(|FlowSample { key, stats, .. }| {
        let tuple = Tuple { family: key.family, src: key.src, dst: key.dst, src_port: stats.src_port };
        seen.get(&tuple).is_some_and(|at| *at != place(key.link))
    })
}

/// Packets that several links counted, and the duplicates among the rest.
fn seen_at_other_taps(sample: &Sample, overlap: &Overlap) -> (MultiTapCounts, Option<Box<DuplicateCounts>>) {
    let flows = sample.flows.iter().enumerate().filter(|(at, _)| overlap.is_duplicate(*at));
    let mut sum = (0, 0, 0);
    let mut duplicates = DuplicateCounts::default();
    (0..sample.links.len()).for_each(|link| duplicates.join(&sample.duplicates_on(link)));
    for (_, FlowSample { slot, stats, .. }) in flows {
        sum = (sum.0 + stats.packets, sum.1 + stats.bytes, sum.2 + stats.cnp_packets);
        duplicates.part(&sample.duplicates(*slot));
    }
    let at_one_tap = retired_at_one_tap(sample);
    let known = |n: u64| at_one_tap.then_some(n);
    let again = MultiTapCounts {
        taps: overlap.taps as u64,
        roce_packets: known(sum.0),
        roce_bytes: known(sum.1),
        cnp_packets: known(sum.2),
    };
    (again, duplicates.if_any())
}

/// Sort key of flows.
fn place(flow: &FlowSample) -> (u16, Address, Address, u32) {
    let key = &flow.key;
    (key.link, address(key.family, key.src), address(key.family, key.dst), key.dest_qp)
}

fn flows(sample: &Sample) -> Vec<Flow> {
    let mut order: Vec<&FlowSample> = sample.flows.iter().collect();
    order.sort_by_cached_key(|flow| place(flow));
    let others = OtherFlowFacts::of(sample);
    order.iter().map(|flow| others.flow(sample, flow)).collect()
}

/// The same, and the sample has none any more. Of many, two threads make one half each of every part.
fn take_flows(sample: &mut Sample) -> Vec<Flow> {
    /// Flows of a part, after which memory goes back.
    const MOST: usize = 8192;
    let others = OtherFlowFacts::of(sample);
    let mut left = std::mem::take(&mut sample.flows).into_vec();
    left.sort_by_cached_key(|flow| Reverse(place(flow)));
    let sample = &*sample;
    let facts_of = |flows: &[FlowSample]| -> Vec<Flow> {
        flows.iter().rev().map(|flow| others.flow(sample, flow)).collect()
    };
    // Memory that is not written to yet is none.
    let mut flows = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let rest = left.len().saturating_sub(MOST);
        let part = left.get(rest..).unwrap_or_default();
        // The last come first.
        let (second, first) = part.split_at(part.len() / 2);
        let pays = part.len() > MOST_ALONE;
        let (second, first) = background::both("flows", pays, || facts_of(second), || facts_of(first));
        flows.extend(first);
        flows.extend(second);
        left.truncate(rest);
        left.shrink_to_fit();
    }
    flows
}

/// Gives back the memory of what metrics know of single flows and findings do not ask for: the facts have it now.
fn forget_flows(metrics: &mut Metrics) {
    if let Some(icrc) = &mut metrics.icrc {
        icrc.forget_flows();
    }
    if let Some(latency) = &mut metrics.latency {
        latency.keep_tails();
    }
    if let Some(loss) = &mut metrics.loss {
        loss.intervals.flows = BySlot::default();
    }
    // That they were measured still counts.
    metrics.pairs = metrics.pairs.take().map(|_| pairing::BySlot::default());
}

/// Facts of other flows that the facts of a flow need.
struct OtherFlowFacts {
    /// Names of the links.
    links: Vec<Shared>,
    /// Flows that CNPs answer, by slot.
    answered: Map<u32, FlowId>,
    /// Packets lost upstream, by slot.
    upstream: Map<u32, u64>,
    /// Links that share the packets of a queue pair.
    planes: Planes,
}

impl OtherFlowFacts {
    fn of(sample: &Sample) -> Self {
        Self {
            links: sample.links.iter().map(|link| link.name.as_str().into()).collect(),
            answered: ecn::answered(sample),
            upstream: upstream::lost(sample),
            planes: Planes::of(sample),
        }
    }

    fn flow(&self, sample: &Sample, flow: &FlowSample) -> Flow {
        let built = flow::build(sample, flow, &self.links);
        let ports = (built.src_port_count.get(), &*built.src_ports);
        Flow {
            cnp: ecn::cnp(sample, flow.slot, &self.answered).map(Box::new),
            lost_upstream: self.upstream.get(&flow.slot).copied().into(),
            spray: self.planes.spray(sample, flow, ports, &built.losses()).map(Box::new),
            ..built
        }
    }
}

fn links(sample: &Sample, sums: &[LinkSum]) -> Vec<Link> {
    let mut icrc = sample.metrics.icrc.as_ref().map(|icrc| {
        (0..).zip(&sample.links).map(|(at, link)| icrc.retired(at, link.retired.packets)).collect::<Vec<_>>()
    });
    if let (Some(icrc), Some(metrics)) = (&mut icrc, &sample.metrics.icrc) {
        for FlowSample { key, slot, stats } in &sample.flows {
            if let Some(link) = icrc.get_mut(usize::from(key.link)) {
                link.add(&metrics.flow(*slot, stats.packets));
            }
        }
    }
    let links = (0u16..).zip(sample.links.iter().zip(sums));
    links
        .map(|(number, (link, sum))| Link {
            name: link.name.clone(),
            direction: link.direction,
            packets: sum.packets,
            bytes: sum.bytes,
            ecn_data: sum.ecn_data,
            cnp_packets: sum.cnp_packets,
            ce_ratio: sum.ecn_data.ce_ratio(),
            duplicates: sample.duplicates_on(usize::from(number)).if_any(),
            left_out_packets: link.without_flow().packets,
            skipped_bytes: link.skipped.iter().map(|counter| counter.bytes).sum(),
            dscp: sample.metrics.marking.as_deref().map(|links| dscp(links.get(usize::from(number)))),
            ecn_over_time: ecn::link(sample, number),
            icrc: icrc
                .as_ref()
                .and_then(|icrc| icrc.get(usize::from(number)))
                .map(|checked| checked.clone().into()),
            frame_sizes: traffic::frame_sizes(sample, usize::from(number)),
            mtu: link.mtu,
            pause: device::pauses(sample, number),
            neighbours: device::neighbours(sample, number),
        })
        .collect()
}

fn dscp(link: Option<&ByDscp>) -> Vec<Dscp> {
    let marked = (0..).zip(link.into_iter().flatten());
    marked
        .filter(|(_, marked)| marked.data_packets + marked.ack_packets + marked.cnp_packets > 0)
        .map(|(dscp, &Marked { data_packets, data_bytes, ack_packets, cnp_packets })| Dscp {
            dscp,
            data_packets,
            data_bytes,
            ack_packets,
            cnp_packets,
        })
        .collect()
}

/// Balance of the links that share a load: [`Facts::imbalance`] alone.
pub fn compare_links(sample: &Sample, options: &Options) -> Vec<Imbalance> {
    imbalances(sample, &sums(sample), options)
}

fn with_time(sample: &Sample, mut groups: Vec<Imbalance>) -> Vec<Imbalance> {
    if let Some(traffic) = &sample.metrics.traffic {
        for group in &mut groups {
            group.over_time = imbalance::over_time(sample, traffic, group);
            group.ways = direction_balance::direction_balances(sample, group).filter(|_| !group.same_path);
        }
    }
    groups
}

fn imbalances(sample: &Sample, sums: &[LinkSum], options: &Options) -> Vec<Imbalance> {
    let same_path = same_path::SamePath::of(sample, options);
    imbalance::imbalances(&loads(sample, sums), options, &same_path)
}

fn loads<'a>(sample: &'a Sample, sums: &[LinkSum]) -> Vec<imbalance::Load<'a>> {
    let load = |(link, sum): (&'a LinkSample, &LinkSum)| imbalance::Load {
        name: &link.name,
        direction: link.direction,
        bytes: sum.bytes_dedup,
    };
    sample.links.iter().zip(sums).map(load).collect()
}
