//! Latency tails.

use super::title::{pair, title};
use super::{
    Better, ByHand, Commands, Entry, Family, Input, Measure, Need, Place, Problem, Raise, Unit, ends,
};
use crate::analysis::{Flow, Latency};
use crate::findings::{Finding, Severity};
use crate::util::units;

/// This family.
pub(super) const FAMILY: Family = Family { entries: &[TAIL], limits: &[Limits::META], evidence: &[], check };

const TAIL: Entry = Entry {
    id: "latency.tail",
    rank: 340,
    causes: &[
        super::pfc::STORM.id,
        super::loss::BETWEEN.id,
        super::loss::BEFORE.id,
        super::loss::AFTER.id,
        super::rnr::SLOW.id,
        super::ecn::CONGESTION.id,
    ],
    needs: &[Need::Latency],
    measure: Some(Measure { name: "p99_ns", unit: Unit::Nanoseconds, better: Better::Less }),
    title: "High tail latency",
    meaning: "Most requests are answered quickly, but one in a hundred takes many times as long. A collective completes with its slowest message, so the tail \
                determines its time.",
    computed: "Over flows with at least latency.tail_samples latency samples (flows[].latency_ns): the 99th percentile is at least latency.tail_factor times the median and at least \
                 latency.tail_us. Info; a warning from latency.warning_factor times the median. Retransmitted requests are not among the samples, so the time of retransmissions is not \
                 included.",
    advice: "Compare with congestion (ecn.congestion), PFC (rx_prioN_pause_duration in ethtool -S) and slow receivers (rnr.slow_receiver) on the same host. A tail \
               towards one host only points at that host: check PCIe (relaxed ordering, ACS, IOMMU), CPU frequency and C-states. A tail towards all hosts of one link \
               points at the fabric.",
    caveat: "Latency is measured between two packets at this tap: close to the sender it includes the network in both directions, close to the receiver only the \
               receiver. Large READs have a high response latency by their size. Soft-RoCE has a tail of its own from the scheduler.",
    ..Entry::of(Problem::Latency)
};

limits! {
    /// Thresholds of this family.
    pub struct Limits = "latency";
    tail_samples: u64 = 500,
        "minimum latency samples of a flow",
        "The 99th percentile of 500 samples rests on five of them; of 100 it would be a single outlier";
    tail_factor: f64 = 20.0,
        "minimum ratio of p99 to median",
        "Queueing in a healthy fabric spreads latency over some multiples of the median; ping-pong tests of hardware and software RoCE stay below 5";
    warning_factor: f64 = 100.0,
        "minimum ratio of p99 to median for a warning",
        "No switch queue holds that much: traffic stops for a time";
    tail_us: u64 = 1000,
        "minimum p99 in microseconds",
        "The buffer of a 100 Gb/s port drains in less: what takes longer is a pause, a timeout or a host";
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.latency;
    let factor = |latency: &Latency| latency.p99 as f64 / latency.p50.max(1) as f64;
    let mut flows: Vec<(&Flow, &Latency)> = input
        .facts
        .flows
        .iter()
        .filter_map(|flow| Some((flow, flow.latency_ns.as_deref()?)))
        .filter(|(_, latency)| {
            latency.count >= limits.tail_samples
                && latency.p99 >= limits.tail_us.saturating_mul(1_000)
                && factor(latency) >= limits.tail_factor
        })
        .collect();
    flows.sort_by(|(_, a), (_, b)| factor(b).total_cmp(&factor(a)));
    let Some((flow, latency)) = flows.first() else { return };
    let severity = if factor(latency) >= limits.warning_factor { Severity::Warning } else { Severity::Info };
    let (p99, p50) = (units::duration(latency.p99), units::duration(latency.p50));
    let diagnosis = format!("High tail latency: p99 {p99}, median {p50}");
    let parts = [pair(flow.src, flow.dst), format!(", QP {}", flow.dest_qp)];
    let (requester, responder) = ends::of_data(input, [*flow]);
    let here = Commands::near(input, flow, flow.dst);
    Raise::new(&TAIL, severity, title(diagnosis, parts))
        .evidence("p50_ns", latency.p50)
        .evidence("p99_ns", latency.p99)
        .evidence("p999_ns", latency.p999)
        .evidence("max_ns", latency.max)
        .evidence("samples", latency.count)
        .evidence("p99_over_p50", factor(latency))
        .flows(flows.iter().map(|(flow, _)| *flow))
        .place(Place::of(input, flow))
        .ends(requester, responder)
        .step("Check received pauses and discards of the NIC.", here.nic_counters())
        .step(format!("Check CPU load, pinning and C-states on {}.", flow.dst), Commands::at(input, flow, flow.dst).threads())
        .step("Compare the flows: a tail towards one host points at that host, towards all hosts at the fabric.", ByHand::Reading)
        .into(found);
}
