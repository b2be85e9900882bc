//! Traffic in time and by hosts, as the report has it.

use rocescope_common::account::message::{ByOperation, FRAME_ENDS, FrameSizes, MessageCounts};
use rocescope_common::wire::opcode::Operation;

use super::{matrix, ports, shape};
use crate::metrics::steps::straggler::{Straggler, Why};
use crate::metrics::steps::{self, LinkSteps, MAX_LISTED, median};
use crate::metrics::traffic::hosts::{Host, Target};
use crate::metrics::traffic::{MAX_LINKS, times};
use crate::sample::{Address, Direction, Sample, address};

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

fn ip(host: Host) -> Address {
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

/// Frames of one link by length; `None` where they were not counted.
pub(super) fn frame_sizes(sample: &Sample, link: usize) -> Option<Vec<FrameSize>> {
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

/// How many send to one at once; `None` where it was not counted.
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

/// The steps of the job, or why there are none; neither where bursts are not seen.
pub(super) fn steps(sample: &Sample) -> (Option<Steps>, Option<&'static str>) {
    let Some(traffic) = &sample.metrics.traffic else { return (None, None) };
    let without_flow = sample.links.iter().map(|link| link.without_flow().packets).sum();
    if traffic.too_much_lost(without_flow) {
        let why = if without_flow > 0 {
            "too many packets are in no flow"
        } else {
            "too many packets are in no bin"
        };
        return (None, Some(why));
    }
    let ports = ports::of(&sample.links);
    match steps::steps(traffic, &ports) {
        Ok(all) => (of_job(sample, &ports, &all), None),
        Err(why) => (None, Some(why.words())),
    }
}

fn of_job(sample: &Sample, ports: &[u16], all: &steps::Steps) -> Option<Steps> {
    let found = all.links.first()?;
    let (name, direction) = ports::name(&sample.links, ports, found.link);
    let periods = found.periods();
    let third = (periods.len() / 3).max(1);
    let share = |of: fn(&steps::Step) -> u64| {
        let part: u64 = found.steps.iter().take(periods.len()).map(of).sum();
        part as f64 / periods.iter().sum::<u64>().max(1) as f64
    };
    let flow = |last: &steps::Last| LastFlow {
        src: ip(last.src),
        dst: ip(last.dst),
        dest_qp: last.dest_qp,
        steps: last.steps as u64,
        behind_ns: last.behind_ns,
    };
    Some(Steps {
        link: name,
        direction,
        count: found.steps.len() as u64,
        first_ns: found.steps.first()?.start_ns,
        last_ns: found.steps.last()?.end_ns,
        period_ns: found.period_ns,
        step_bytes: found.volume,
        explained_ratio: found.explained,
        autocorrelation_period_ns: found.rhythm.map(|rhythm| times(1, rhythm.period)),
        autocorrelation: found.rhythm.map(|rhythm| rhythm.strength),
        first_third_ns: quantile(periods.get(..third)?, 0.5)?,
        first_third_p75_ns: quantile(periods.get(..third)?, 0.75)?,
        last_third_ns: quantile(periods.get(periods.len() - third..)?, 0.5)?,
        last_third_p25_ns: quantile(periods.get(periods.len() - third..)?, 0.25)?,
        trend_ns_per_step: slope(&periods),
        busy_ratio: share(|step| step.busy_ns),
        communication_ratio: share(|step| step.end_ns.saturating_sub(step.start_ns)),
        silence_ns: median(found.steps.iter().map(|step| step.silence_ns).collect())?,
        latest: latest(found),
        starts_ns: found.steps.iter().map(|step| step.start_ns).collect(),
        last_flow: found.last.as_ref().map(flow),
        straggler: all.straggler.map(|straggler| named(sample, ports, &straggler, all.named == 1)),
        ending: Ending {
            last_data_ns: found.ending.last_data_ns,
            silent_ns: found.ending.silent_ns,
            unfinished_ratio: found.ending.part,
            outstanding_flows: found.ending.outstanding as u64,
        },
    })
}

fn latest(found: &LinkSteps) -> Vec<Step> {
    let from = found.steps.len().saturating_sub(MAX_LISTED);
    let periods: Vec<u64> = found.periods();
    let listed = found.steps.get(from..).unwrap_or_default().iter().enumerate();
    listed
        .map(|(at, step)| Step {
            start_ns: step.start_ns,
            length_ns: step.end_ns.saturating_sub(step.start_ns),
            busy_ns: step.busy_ns,
            busy_ratio: periods.get(from + at).map(|period| step.busy_ns as f64 / (*period).max(1) as f64),
            silence_ns: step.silence_ns,
        })
        .collect()
}

fn named(sample: &Sample, ports: &[u16], straggler: &Straggler, alone: bool) -> StepStraggler {
    let kind = match straggler.why {
        Why::StartsLate => "starts_late",
        Why::SlowTransfer => "slow_transfer",
        Why::Pauses => "pauses",
        Why::Upstream => "upstream",
    };
    StepStraggler {
        kind,
        host: (straggler.why != Why::Upstream).then(|| ip(straggler.host)),
        waits_for: ip(straggler.host),
        dst: ip(straggler.peer),
        dest_qp: straggler.dest_qp,
        link: ports::name(&sample.links, ports, straggler.link).0,
        certain: straggler.certain,
        changed: straggler.changed,
        alone,
        steps: straggler.steps as u64,
        of_steps: straggler.of_steps as u64,
        since_ns: straggler.since_ns,
        until_ns: straggler.until_ns,
        behind_ns: straggler.behind_ns,
    }
}

/// The number that a share of all does not exceed.
fn quantile(numbers: &[u64], share: f64) -> Option<u64> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    let rank = usize::try_from(times(numbers.len() as u64, share)).ok()?;
    numbers.get(rank.min(numbers.len().saturating_sub(1))).copied()
}

/// The slope of the straight line that is nearest to some numbers, per number.
fn slope(numbers: &[u64]) -> f64 {
    let n = numbers.len() as f64;
    let middle = (n - 1.0) / 2.0;
    let mean = numbers.iter().map(|y| *y as f64).sum::<f64>() / n;
    let (mut above, mut below) = (0.0, 0.0);
    for (x, y) in numbers.iter().enumerate() {
        let x = x as f64 - middle;
        above += x * (*y as f64 - mean);
        below += x * x;
    }
    if below > 0.0 { above / below } else { 0.0 }
}

/// Who sends what to whom; `None` where it was not counted.
pub(super) fn pattern(sample: &Sample) -> Option<Pattern> {
    let traffic = sample.metrics.traffic.as_ref()?;
    let mut matrix = matrix::matrix(sample, traffic);
    let hosts = shape::hosts(&matrix);
    let shape = shape::shape(&matrix);
    let matrix_pairs = matrix.len() as u64;
    matrix.truncate(MAX_LISTED_HOSTS);
    Some(Pattern {
        shape,
        hosts,
        matrix,
        matrix_pairs,
        matrix_left_out_packets: traffic.left_out,
        left_out_packets: (0u16..).zip(&sample.links).map(|(at, _)| left_out(sample, at)).sum(),
        operations: traffic.kinds.as_ref().map(operations),
        message_sizes: traffic.kinds.as_ref().map(message_sizes),
    })
}

/// The kinds of messages that there were.
fn known(kinds: &ByOperation) -> impl Iterator<Item = (&'static str, &MessageCounts)> + Clone {
    let all =
        OPERATIONS.iter().filter_map(|(operation, name)| Some((*name, kinds.get(*operation as usize)?)));
    all.filter(|(_, messages)| messages.packets > 0)
}

fn operations(kinds: &ByOperation) -> Vec<OperationShare> {
    let payload: u64 = known(kinds).map(|(_, messages)| messages.payload_bytes).sum();
    let all = known(kinds).map(|(operation, messages)| OperationShare {
        operation,
        messages: messages.messages(),
        packets: messages.packets,
        payload_bytes: messages.payload_bytes,
        payload_ratio: (payload > 0).then(|| messages.payload_bytes as f64 / payload as f64),
        size_unknown: messages.size_unknown,
    });
    all.collect()
}

fn message_sizes(kinds: &ByOperation) -> Vec<MessageSize> {
    let mut all = Vec::new();
    for (operation, messages) in known(kinds) {
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
pub(crate) use fixtures::example_steps;
