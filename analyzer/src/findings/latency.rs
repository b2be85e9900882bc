//! Answers that take much longer than usual.

use super::{Better, Entry, Family, Input, Measure, Need, Raise, Unit};
use crate::analysis::{Flow, Latency};
use crate::findings::{Finding, Severity};
use crate::util::units;

/// This family.
pub(super) const FAMILY: Family = Family { entries: &[TAIL], limits: &[Limits::META], evidence: &[], check };

const TAIL: Entry = Entry {
    id: "latency.tail",
    rank: 340,
    causes: &[
        "pfc.storm",
        "loss.between_taps",
        "loss.before_tap",
        "loss.after_tap",
        "rnr.slow_receiver",
        "ecn.congestion",
    ],
    needs: &[Need::Latency],
    measure: Some(Measure { name: "p99_ns", unit: Unit::Nanoseconds, better: Better::Less }),
    title: "Some requests wait far longer than others",
    meaning: "Most requests are answered soon, but one in a hundred takes many times as long. A collective waits for its slowest message, so it is the tail that the job feels.",
    computed: "Over flows with at least tail_samples timed requests, by flows[].latency_ns: the 99th percentile is at least tail_factor times the median and at least tail_us. Info; a warning \
               from warning_factor times on. Repeated requests are not among the samples, so the time of retransmissions is not either.",
    advice: "Compare with congestion (ecn.congestion), PFC (rx_prioN_pause_duration in ethtool -S) and slow receivers (rnr.slow_receiver) on the same host. A tail towards one host only is that \
             host: look at PCIe (relaxed ordering, ACS, IOMMU), CPU frequency and C-states; a tail from all hosts on one link is the fabric.",
    caveat: "The time is that between two packets at this point: near the sender it has the way there and back, near the receiver only the receiver. Large READs answer slowly because they are \
             large. Software RoCE has a tail of its own from the scheduler.",
    ..Entry::EMPTY
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "latency";
    tail_samples: u64 = 500,
        "timed requests that a flow must have",
        "The 99th percentile of five hundred rests on five of them; of a hundred it would be one accident";
    tail_factor: f64 = 20.0,
        "99th percentile over median from which it is said",
        "Queueing in a fabric that works spreads answers over some multiples of the median; ping-pong tests of hardware and software RoCE stay below 5";
    warning_factor: f64 = 100.0,
        "99th percentile over median from which it is a warning",
        "No queue of a switch holds that much: something stops for a time";
    tail_us: u64 = 1000,
        "99th percentile in microseconds below which nothing is said",
        "The buffer of a 100 Gb/s port drains in less: what takes longer is a pause, a timeout or a host";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.latency;
    let factor = |latency: &Latency| latency.p99 as f64 / latency.p50.max(1) as f64;
    let mut flows: Vec<(&Flow, &Latency)> = input
        .facts
        .flows
        .iter()
        .filter_map(|flow| Some((flow, flow.latency_ns.as_ref()?)))
        .filter(|(_, latency)| {
            latency.count >= limits.tail_samples
                && latency.p99 >= limits.tail_us.saturating_mul(1_000)
                && factor(latency) >= limits.tail_factor
        })
        .collect();
    flows.sort_by(|(_, a), (_, b)| factor(b).total_cmp(&factor(a)));
    let Some((flow, latency)) = flows.first() else { return };
    let severity = if factor(latency) >= limits.warning_factor { Severity::Warning } else { Severity::Info };
    let title = format!(
        "1 in 100 requests from {} to QP {} on {} waits {} or more for its answer, half of them at most {}",
        flow.src,
        flow.dest_qp,
        flow.dst,
        units::duration(latency.p99),
        units::duration(latency.p50)
    );
    Raise::new(&TAIL, severity, title)
        .evidence("p50_ns", latency.p50)
        .evidence("p99_ns", latency.p99)
        .evidence("p999_ns", latency.p999)
        .evidence("max_ns", latency.max)
        .evidence("samples", latency.count)
        .evidence("p99_over_p50", factor(latency))
        .flows(flows.iter().map(|(flow, _)| *flow))
        .into(found);
}
