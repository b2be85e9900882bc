//! Traffic in time and by hosts, as the report has it.

use rocescope_common::account::message::{
    ByOperation, COUNTED_OPERATIONS, FRAME_ENDS, FrameSizes, MessageCounts,
};
use rocescope_common::wire::opcode::Operation;

use super::paths::Overlap;
use super::{matrix, shape};
use crate::metrics::traffic::hosts::{Host, Target};
use crate::metrics::traffic::{MAX_LINKS, Traffic, times};
use crate::sample::{Address, Direction, FlowSample, Sample, address};
use crate::util::map::Set;

pub use super::facts::steps::{StepParts, StepSlower, StepStretch, StepTrend};
pub use super::facts::traffic::{
    Burst, Cell, Ending, FrameSize, Incast, LastFlow, MessageSize, OperationShare, Pattern, Step,
    StepStraggler, Steps,
};

/// Receivers, pairs of hosts and sizes that a report lists, at most: those with most bytes.
pub const MAX_LISTED_HOSTS: usize = 256;

/// Names of [`Operation`]s in the report, those that have messages.
const OPERATIONS: [(Operation, &str); 4] = [
    (Operation::Write, "write"),
    (Operation::Send, "send"),
    (Operation::Read, "read"),
    (Operation::Atomic, "atomic"),
];

pub(super) fn ip(host: Host) -> Address {
    address(host.0, host.1)
}

fn link(sample: &Sample, link: u16) -> (String, Option<Direction>) {
    let link = sample.links.get(usize::from(link));
    (link.map(|link| link.name.clone()).unwrap_or_default(), link.and_then(|link| link.direction))
}

/// Packets of a link that are in none of the figures here, because they are in no flow.
fn left_out(sample: &Sample, link: u16) -> u64 {
    sample.links.get(usize::from(link)).map_or(0, |link| link.without_flow().packets)
}

/// Frames of one link by length; `None` where they, or some of them, were not counted.
pub(super) fn frame_sizes(sample: &Sample, link: usize) -> Option<Vec<FrameSize>> {
    if sample.links.get(link).is_some_and(|link| link.without_flow().packets > 0) {
        return None;
    }
    let links = &sample.metrics.traffic.as_ref()?.links;
    let sizes = match links.get(link) {
        Some(link) => link.frame_sizes?,
        // Nothing came.
        None if link < MAX_LINKS => FrameSizes::default(),
        None => return None,
    };
    let ends = FRAME_ENDS.iter().map(|end| (*end != u32::MAX).then_some(*end));
    Some(ends.zip(sizes).map(|(up_to_bytes, frames)| FrameSize { up_to_bytes, frames }).collect())
}

/// The traffic of each link in bins; `None` where it was not counted.
pub(super) fn bursts(sample: &Sample) -> Option<Vec<Burst>> {
    let traffic = sample.metrics.traffic.as_ref()?;
    let with_traffic =
        (0u16..).zip(&traffic.links).filter_map(|(at, link)| Some((at, link.bursts.as_ref()?, link.lost)));
    let all = with_traffic.map(|(at, bursts, lost)| {
        let (name, direction) = link(sample, at);
        let mean_bytes = bursts.total.bytes as f64 / bursts.bins as f64;
        Burst {
            link: name,
            direction,
            bin_ns: bursts.bin_ns,
            bins: bursts.bins,
            active_bins: bursts.active_bins,
            duty_cycle: bursts.active_bins as f64 / bursts.bins as f64,
            mean_bytes,
            peak_bytes: bursts.peak.bytes,
            peak_packets: bursts.peak.packets,
            peak_ce_packets: bursts.peak.ce,
            peak_cnp_packets: bursts.peak.cnp,
            peak_ns: bursts.peak.index.saturating_mul(bursts.bin_ns),
            peak_to_mean: bursts.peak.bytes as f64 / mean_bytes,
            threshold_bytes: bursts.threshold_bytes,
            bursts: bursts.bursts,
            burst_ratio: bursts.burst_bins as f64 / bursts.bins as f64,
            length_p50_ns: bursts.length_p50_ns,
            length_p99_ns: bursts.length_p99_ns,
            length_max_ns: bursts.length_max_ns,
            late_packets: bursts.late_packets,
            lost_packets: lost.packets,
            left_out_packets: left_out(sample, at),
        }
    });
    Some(all.collect())
}

/// Concurrent senders to one host; `None` if they were not counted.
pub(super) fn incast(sample: &Sample) -> Option<Vec<Incast>> {
    let traffic = sample.metrics.traffic.as_ref()?;
    let mut targets: Vec<&Target> = traffic.targets.iter().collect();
    let bytes = |target: &Target| target.degrees.iter().map(|degree| degree.bytes).sum::<u64>();
    targets.sort_by_cached_key(|target| {
        (std::cmp::Reverse(target.senders), std::cmp::Reverse(bytes(target)), target.link, ip(target.host))
    });
    targets.truncate(MAX_LISTED_HOSTS);
    let all = targets.into_iter().map(|target| {
        let (name, direction) = link(sample, target.link);
        let bins: u64 = target.degrees.iter().map(|degree| degree.bins).sum();
        let several: u64 = target.degrees.iter().skip(2).map(|degree| degree.bytes).sum();
        Incast {
            link: name,
            direction,
            dst: ip(target.host),
            bin_ns: traffic.bin_ns,
            senders: target.senders,
            senders_max: target.degrees.iter().rposition(|degree| degree.bins > 0).unwrap_or(0) as u64,
            senders_p99: percentile(target, 0.99),
            bins,
            several_ratio: several as f64 / bytes(target).max(1) as f64,
            peak_bytes: target.peak_bytes,
            peak_senders: u64::from(target.peak_senders),
        }
    });
    Some(all.collect())
}

/// The number of senders that a share of the bins does not exceed.
fn percentile(target: &Target, share: f64) -> u64 {
    let bins: u64 = target.degrees.iter().map(|degree| degree.bins).sum();
    let rank = bins - times(bins, 1.0 - share);
    let mut seen = 0;
    let found = target.degrees.iter().position(|degree| {
        seen += degree.bins;
        seen >= rank
    });
    found.unwrap_or(0) as u64
}

/// Traffic pattern of the hosts; `None` if it was not counted.
///
/// `overlap`: the flows that more than one link counts; `None` if flows were retired that may be among them.
pub(super) fn pattern(sample: &Sample, overlap: Option<&Overlap>) -> Option<Pattern> {
    let traffic = sample.metrics.traffic.as_ref()?;
    let mut matrix = matrix::matrix(sample, traffic);
    let hosts = shape::hosts(&matrix);
    let shape = shape::shape(&matrix);
    let matrix_pairs = matrix.len() as u64;
    matrix.truncate(MAX_LISTED_HOSTS);
    matrix.shrink_to_fit();
    Some(Pattern {
        shape,
        hosts,
        matrix,
        matrix_pairs,
        matrix_left_out_packets: traffic.left_out,
        left_out_packets: (0u16..).zip(&sample.links).map(|(at, _)| left_out(sample, at)).sum(),
        operations: traffic.kinds.as_ref().map(|kinds| {
            operations(kinds, overlap.and_then(|overlap| counted_again(sample, traffic, overlap)))
        }),
        message_sizes: traffic.kinds.as_ref().map(message_sizes),
    })
}

/// The kinds of messages that there were.
fn known(kinds: &ByOperation) -> impl Iterator<Item = (Operation, &'static str, &MessageCounts)> + Clone {
    let all = OPERATIONS
        .iter()
        .filter_map(|(operation, name)| Some((*operation, *name, kinds.get(*operation as usize)?)));
    all.filter(|(.., messages)| messages.packets > 0)
}

/// Messages by operation that another tap counts too: those of flows for which the flow of another link speaks. `None`
/// where they are not counted by flow.
fn counted_again(sample: &Sample, traffic: &Traffic, overlap: &Overlap) -> Option<[u64; COUNTED_OPERATIONS]> {
    let mut sums = [0; COUNTED_OPERATIONS];
    let duplicates = sample.flows.iter().enumerate().filter(|(at, _)| overlap.is_duplicate(*at));
    let names: Set<_> = duplicates
        .map(|(_, FlowSample { key, .. })| {
            (key.link, (key.family, key.src), (key.family, key.dst), key.dest_qp)
        })
        .collect();
    if names.is_empty() {
        return Some(sums);
    }
    // Of pairs of hosts for which there was no room, flows are not known.
    if traffic.left_out > 0 {
        return None;
    }
    for standing in &traffic.flowlets.standing {
        let Some(pair) = traffic.pairs.get(standing.flowlet.pair as usize) else { continue };
        if names.contains(&(pair.link, pair.src, pair.dst, standing.flowlet.dest_qp)) {
            for (sum, messages) in sums.iter_mut().zip(standing.messages?) {
                *sum += u64::from(messages);
            }
        }
    }
    Some(sums)
}

fn operations(kinds: &ByOperation, again: Option<[u64; COUNTED_OPERATIONS]>) -> Vec<OperationShare> {
    let payload: u64 = known(kinds).map(|(.., messages)| messages.payload_bytes).sum();
    let all = known(kinds).map(|(operation, name, messages)| OperationShare {
        operation: name,
        messages: messages.messages(),
        counted_again: again.and_then(|again| again.get(operation as usize).copied()),
        packets: messages.packets,
        payload_bytes: messages.payload_bytes,
        payload_ratio: (payload > 0).then(|| messages.payload_bytes as f64 / payload as f64),
        size_unknown: messages.size_unknown,
    });
    all.collect()
}

fn message_sizes(kinds: &ByOperation) -> Vec<MessageSize> {
    let mut all = Vec::new();
    for (_, operation, messages) in known(kinds) {
        for (bucket, count) in messages.sizes.iter().enumerate().filter(|(_, count)| **count > 0) {
            all.push(MessageSize {
                operation,
                from_bytes: if bucket == 0 { 0 } else { 1 << (bucket - 1) },
                to_bytes: (bucket + 1 < messages.sizes.len()).then(|| (1 << bucket) - 1),
                messages: *count,
            });
        }
    }
    all
}

#[cfg(test)]
mod fixtures;
#[cfg(test)]
pub(crate) use fixtures::example;
#[cfg(test)]
pub(crate) use fixtures::{example_slower, example_steps, step_at};
