//! Rows of flows.

use std::collections::BTreeMap;

use rocescope_common::account::latency::{BUCKETS, bounds};
use rocescope_common::wire::opcode::Op;

use super::{Interval, Origin, json, text};
use crate::analysis::{Flow, Loss, Opcodes};
use crate::metrics::latency::{Histogram, Summary};
use crate::metrics::loss::OTHER_CODES;
use crate::record::cell::Time;
use crate::record::registry::FlowSecond;
use crate::report::Report;
use crate::sample::{Address, Direction, Sample};
use crate::util::map::Map;
use crate::util::shared::Shared;

/// Number of counts of a flow that never decrease.
const COUNTS: usize = 11;
/// Number of loss figures, which later packets may correct.
const LOSSES: usize = 6;

/// If the first packet of a flow moves by more than this, the queue pair number is in use again.
const REUSED_NS: u64 = 500_000_000;

/// Key of a flow: link, direction, source, destination, destination queue pair.
type Key = (Shared, Option<Direction>, Address, Address, u32);

/// State of a flow at the latest report.
#[derive(Clone, Debug, Default)]
struct LatestFlow {
    /// Time of its first packet, relative to the start of the time range.
    first_ns: u64,
    counts: [u64; COUNTS],
    /// NAKs with other codes than 0, by code.
    naks: [u64; 5],
    losses: Option<[u64; LOSSES]>,
    times: Histogram,
    /// In the latest report.
    present: bool,
}

/// Flows of the latest report.
#[derive(Debug, Default)]
pub(super) struct Flows(Map<Key, LatestFlow>);

impl Flows {
    pub(super) fn take(
        &mut self,
        origin: &Origin,
        at: Interval,
        sample: &Sample,
        report: &Report,
        rails: &BTreeMap<&str, Shared>,
        rows: &mut Vec<FlowSecond>,
    ) {
        self.0.values_mut().for_each(|known| known.present = false);
        // In live runs, every sample converts times with its own clock offset, which drifts and can step; all times
        // of a sample shift alike.
        let begin_ns = report.facts.window.first_ns.unwrap_or(0);
        for flow in &report.facts.flows {
            let key = (flow.link.clone(), flow.direction, flow.src, flow.dst, flow.dest_qp);
            let known = self.0.entry(key).or_default();
            let counts = counts(flow);
            let first_ns = flow.first_ns.saturating_sub(begin_ns);
            let is_later = first_ns.saturating_sub(known.first_ns) > REUSED_NS && !at.is_stepped;
            if is_later || counts[0] < known.counts[0] {
                *known = LatestFlow::default();
            }
            known.first_ns = first_ns;
            let first = (known.counts[0] == 0).then_some(Time(flow.first_ns));
            known.present = true;
            let figure = sample.metrics.latency.as_ref().map(|all| all.get(flow.slot));
            // A flow without packets can still change in two ways: losses that a timer decides, and latencies, since
            // the last response arrives in the reverse flow.
            let losses = losses(flow);
            let is_timed = figure.flatten().is_some_and(|figure| figure.histogram != known.times);
            if counts == known.counts && losses == known.losses && !is_timed {
                continue;
            }
            let new = std::array::from_fn(|at| counts[at].saturating_sub(known.counts[at]));
            let lost = losses.map(|now| {
                let before = known.losses.unwrap_or_default();
                std::array::from_fn(|at| signed(now[at]) - signed(before[at]))
            });
            let times = figure.map(|figure| {
                let figure = figure?;
                let new = times(&figure.histogram, &known.times, figure.all.map_or(0, |all| all.max));
                known.times = figure.histogram.clone();
                new
            });
            let nak_other_json = codes(flow.ack.naks.others(), known.naks);
            (known.counts, known.losses) = (counts, losses);
            known.naks = flow.ack.naks.others();
            let row = row(origin, at, flow, rails.get(flow.link.as_str()), new, lost, times);
            let job = origin.job(flow.pod.as_deref());
            rows.push(FlowSecond { job, nak_other_json, first, ..row });
        }
        self.0.retain(|_, known| known.present);
    }
}

/// NAKs since `before` by the names of their codes, in JSON; `None` without any.
fn codes(now: [u64; 5], before: [u64; 5]) -> Option<Shared> {
    let new = now.into_iter().zip(before).map(|(now, before)| now.saturating_sub(before));
    let new = OTHER_CODES.into_iter().zip(new);
    json(new.filter(|(_, new)| *new > 0).map(|(code, new)| (code, new.into())))
}

/// A count as a signed number; larger values do not occur.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Counts in the order of [`row`].
fn counts(flow: &Flow) -> [u64; COUNTS] {
    let naks = &flow.ack.naks;
    [
        flow.packets,
        flow.bytes,
        flow.payload_bytes,
        flow.ecn_data().capable(),
        flow.ecn_data().ce,
        flow.cnp_packets,
        flow.ack.acks,
        flow.ack.rnr_naks,
        naks.psn_sequence_error,
        naks.refused(),
        messages(&flow.opcodes),
    ]
}

/// Number of requests that their packet completes.
fn messages(opcodes: &Opcodes) -> u64 {
    let ends = |code: u8| {
        let op = Op::of(code);
        op.has(Op::RELIABLE) && matches!(code & 0x1F, 0x02..=0x05 | 0x08..=0x0C | 0x13 | 0x14 | 0x16 | 0x17)
            || matches!(code >> 5, 1 | 3) && matches!(code & 0x1F, 0x02..=0x05 | 0x08..=0x0B)
    };
    opcodes.iter().filter(|opcode| ends(opcode.code)).map(|opcode| opcode.packets).sum()
}

/// True if the opcodes include responses with payload: those of READs and atomics.
fn has_responses(opcodes: &Opcodes) -> bool {
    opcodes.iter().any(|opcode| Op::of(opcode.code).has(Op::RESPONSE))
}

/// Loss figures of both sequences, added; `None` if no sequence is followed.
fn losses(flow: &Flow) -> Option<[u64; LOSSES]> {
    let of = |loss: Loss| {
        [loss.lost, loss.recovered, loss.retransmitted, loss.timeouts, loss.timeout_wait_ns, loss.rnr_wait_ns]
    };
    let both = flow.losses().into_iter().flatten().map(of);
    both.reduce(|a, b| std::array::from_fn(|at| a[at].saturating_add(b[at])))
}

/// Latencies of an interval.
struct Times {
    summary: Summary,
    sum_ns: u64,
}

/// Latencies added since `before`; `None` if there are none.
fn times(now: &Histogram, before: &Histogram, longest_ns: u64) -> Option<Times> {
    let (mut new, mut old) = ([0; BUCKETS], [0; BUCKETS]);
    now.add_to(&mut new);
    if before.count() <= now.count() {
        before.add_to(&mut old);
    }
    let mut sum_ns = 0u64;
    let mut max_ns = 0;
    for (bucket, (new, old)) in new.iter_mut().zip(old).enumerate() {
        *new = new.saturating_sub(old);
        if *new > 0 {
            let (low, high) = bounds(bucket);
            // The unbounded bucket has no middle.
            let middle = if high == u64::MAX { low } else { u64::midpoint(low, high) };
            sum_ns = sum_ns.saturating_add(middle.saturating_mul(*new));
            max_ns = high.min(longest_ns);
        }
    }
    Summary::of(&new, max_ns).map(|summary| Times { summary, sum_ns })
}

/// `times` is `None` if latency is not measured, `Some(None)` if the interval has no sample.
#[expect(clippy::option_option, reason = "not measured is null, and no sample is 0")]
#[expect(clippy::too_many_lines, reason = "a line for each column")]
fn row(
    origin: &Origin,
    at: Interval,
    flow: &Flow,
    rail: Option<&Shared>,
    counts: [u64; COUNTS],
    losses: Option<[i64; LOSSES]>,
    times: Option<Option<Times>>,
) -> FlowSecond {
    let [
        packets,
        bytes,
        payload_bytes,
        ecn_capable,
        ce,
        cnp_packets,
        acks,
        rnr_naks,
        nak_sequence,
        nak_other,
        messages,
    ] = counts;
    let loss = |at: usize| losses.map(|losses| losses[at]);
    let message_bytes = (!has_responses(&flow.opcodes)).then_some(payload_bytes);
    let measured = times.is_some();
    let times = times.flatten();
    let time = |of: fn(&Times) -> u64| times.as_ref().map(of);
    FlowSecond {
        t: at.t,
        interval_ns: at.ns,
        host: origin.host.clone(),
        job: origin.job.clone(),
        pod: text(flow.pod.as_deref()),
        link: flow.link.clone(),
        rail: rail.cloned(),
        direction: flow.direction,
        src: flow.src,
        dst: flow.dst,
        dest_qp: flow.dest_qp.into(),
        src_qp: flow.peer_qp.map(Into::into),
        src_port: flow.src_ports.first().map(|port| port.port.into()),
        src_port_count: flow.src_port_count.get(),
        roce_version: flow.roce_version.map(Into::into),
        transport: flow.transport.into(),
        dscp: flow.dscp.map(Into::into),
        pcp: flow.pcp.map(Into::into),
        vlan: flow.vlan.map(Into::into),
        packets,
        bytes,
        payload_bytes,
        ecn_capable,
        ce,
        cnp_packets,
        acks,
        rnr_naks,
        nak_sequence,
        nak_other,
        lost: loss(0),
        reordered: loss(1),
        retransmitted: loss(2),
        timeouts: loss(3),
        timeout_wait_ns: loss(4),
        rnr_wait_ns: loss(5),
        rtt_count: measured.then(|| time(|times| times.summary.count).unwrap_or(0)),
        rtt_sum_ns: time(|times| times.sum_ns),
        rtt_p50_ns: time(|times| times.summary.p50),
        rtt_p99_ns: time(|times| times.summary.p99),
        rtt_max_ns: time(|times| times.summary.max),
        messages,
        pid: flow.pid.map(Into::into),
        comm: text(flow.comm.as_deref()),
        source: "packets".into(),
        message_bytes,
        nak_other_json: None,
        first: None,
        loss_of: match flow.losses() {
            [None, None] => None,
            [Some(_), None] => Some("requests".into()),
            [None, Some(_)] => Some("responses".into()),
            [Some(_), Some(_)] => Some("both".into()),
        },
    }
}
