//! Latency tails.

use super::ends;
use crate::analysis::{Flow, Latency};
use crate::findings::ids;
use crate::findings::period::{joined, scaled};
use crate::findings::title::{pair, title};
use crate::findings::{
    Better, ByHand, Commands, Entry, Episode, Family, Finding, Impact, Input, Measure, Place, Problem, Raise,
    RequiredData, Severity, Unit,
};
use crate::metrics::latency::Histogram;
use crate::metrics::latency::tails::TailInterval;
use crate::util::units;

/// Findings of this module, with their thresholds and evidence.
pub(super) const FAMILY: Family = Family { entries: &[TAIL], limits: &[Limits::META], evidence: &[], check };

const TAIL: Entry = Entry {
    id: "latency.tail",
    rank: 340,
    causes: &[
        ids::PFC_STORM,
        ids::LOSS_BETWEEN_TAPS,
        ids::LOSS_BEFORE_TAP,
        ids::LOSS_AFTER_TAP,
        ids::RNR_SLOW_RECEIVER,
        ids::ECN_CONGESTION,
    ],
    needs: &[RequiredData::Latency],
    measure: Some(Measure { name: "p99_ns", unit: Unit::Nanoseconds, better: Better::Less, grades: false }),
    title: "High tail latency",
    meaning: "Most requests are answered quickly, but one in a hundred takes many times as long. A collective completes with its slowest message, so the tail \
                determines its time.",
    computed: "Over flows with at least latency.tail_samples latency samples (flows[].latency_ns): the 99th percentile is at least latency.tail_factor times the median and at least \
               latency.tail_us. Info; a warning from latency.warning_factor times the median. Retransmitted requests are not among the samples, so the time of retransmissions is not \
               included.\n\
               \n\
               Its cost is the time of requests above the median, summed over the flows; where requests overlap, so that their times together exceed that of the flow, the same share of \
               the flow's time. Samples are kept in windows of {EPISODE_GAP_NS} and more, with {SAMPLES} samples at least; figures are those of the windows of the latest episode, or of the run where no \
               window is one.",
    advice: "<eth>Compare with congestion (ecn.congestion), PFC (rx_prioN_pause_duration in ethtool -S) and slow receivers (rnr.slow_receiver) on the same host.</eth> A tail \
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

/// The times in which a flow had such a tail.
fn tails<'a>(input: &Input<'a>, flow: &Flow, is_tail: impl Fn(&Latency) -> bool) -> Vec<&'a TailInterval> {
    let figure = input.sample.metrics.latency.as_ref().and_then(|latency| latency.get(flow.slot));
    let all = figure.and_then(|figure| figure.tails.as_deref()).map_or(&[][..], Vec::as_slice);
    all.iter().filter(|one| TailInterval::summary([*one]).is_some_and(|latency| is_tail(&latency))).collect()
}

/// Time that a flow waited above the median. If requests overlap, so that their sum exceeds the duration of the flow,
/// the excess is scaled to that duration.
fn waited_ns<'a>(samples: impl Iterator<Item = &'a Histogram>, typical_ns: u64, length_ns: u64) -> u64 {
    let sums = samples.map(|samples| samples.time_above(typical_ns));
    let [above, all] = sums.fold([0u64; 2], |a, b| [a[0].saturating_add(b[0]), a[1].saturating_add(b[1])]);
    if all <= length_ns { above } else { scaled(length_ns, above, all) }
}

/// The cost of the latest tails of these flows, or where none has a time, those of the run; `None` without samples.
fn impact(input: &Input<'_>, tails: &[Tail<'_>]) -> Impact {
    let ns = tails.iter().map(|Tail { flow, latency, intervals }| {
        if intervals.is_empty() {
            let figure = input.sample.metrics.latency.as_ref().and_then(|latency| latency.get(flow.slot));
            let run_ns = flow.last_ns.saturating_sub(flow.first_ns);
            return waited_ns(figure.iter().map(|figure| &figure.histogram), latency.p50, run_ns);
        }
        let length_ns = intervals.iter().map(|one| one.last_ns.saturating_sub(one.first_ns)).sum();
        waited_ns(intervals.iter().map(|one| &one.samples), latency.p50, length_ns)
    });
    let ns: u64 = ns.sum();
    Impact { time_lost_ns: (ns > 0).then_some(ns), ..Impact::default() }
}

/// A flow with a tail.
struct Tail<'a> {
    flow: &'a Flow,
    /// Its percentiles in the latest time, or of the run.
    latency: Latency,
    /// That time; empty: the run.
    intervals: Vec<&'a TailInterval>,
}

pub(super) fn check(input: &Input<'_>, found: &mut Vec<Finding>) {
    let limits = &input.limits.latency;
    let factor = |latency: &Latency| latency.p99 as f64 / latency.p50.max(1) as f64;
    let is_tail = |latency: &Latency| {
        latency.count >= limits.tail_samples
            && latency.p99 >= limits.tail_us.saturating_mul(1_000)
            && factor(latency) >= limits.tail_factor
    };
    let with_latency = input.facts.flows.iter().filter(|flow| flow.latency_ns.is_some());
    let flows_tails: Vec<(&Flow, Vec<&TailInterval>)> =
        with_latency.map(|flow| (flow, tails(input, flow, is_tail))).collect();
    let times = flows_tails.iter().flat_map(|(_, tails)| tails.iter().map(|one| (one.first_ns, one.last_ns)));
    let times = joined(times.collect());
    let last = times.last().copied();
    // If no single time qualifies, that of the run counts.
    let judged = flows_tails.into_iter().filter_map(|(flow, mut intervals)| {
        intervals.retain(|one| last.is_some_and(|(first_ns, _)| one.first_ns >= first_ns));
        let latency = match last {
            None => flow.latency_ns.as_deref().copied(),
            Some(_) => TailInterval::summary(intervals.iter().copied()),
        };
        Some(Tail { flow, latency: latency.filter(is_tail)?, intervals })
    });
    let mut flows: Vec<Tail<'_>> = judged.collect();
    flows.sort_by(|a, b| factor(&b.latency).total_cmp(&factor(&a.latency)));
    let Some(Tail { flow, latency, .. }) = flows.first() else { return };
    let episode = |&(first_ns, last_ns): &(u64, u64)| Episode { first_ns, last_ns, peak: None };
    let episodes = times.iter().map(episode).collect();
    let severity = if factor(latency) >= limits.warning_factor { Severity::Warning } else { Severity::Info };
    let (p99, p50) = (units::duration(latency.p99), units::duration(latency.p50));
    let diagnosis = format!("High tail latency: p99 {p99}, median {p50}");
    let parts = [pair(flow.src, flow.dst), format!(", QP {}", flow.dest_qp)];
    let (requester, responder) = ends::of_data(input, [*flow]);
    let here = Commands::near(input, flow, flow.dst);
    Raise::new(&TAIL, severity, title(diagnosis, parts))
        .evidence("p50_ns", latency.p50)
        .evidence("p99_ns", latency.p99)
        .evidence("p999_ns", latency.p999.get())
        .evidence("max_ns", latency.max)
        .evidence("samples", latency.count)
        .evidence("p99_over_p50", factor(latency))
        .flows(flows.iter().map(|one| one.flow))
        .dated(episodes)
        .impact(impact(input, &flows))
        .place(Place::of(input, flow))
        .ends(requester, responder)
        .step("Check received pauses and discards of the NIC.", here.nic_counters())
        .step(format!("Check CPU load, pinning and C-states on {}.", flow.dst), Commands::at(input, flow, flow.dst).threads())
        .step("Compare the flows: a tail towards one host points at that host, towards all hosts at the fabric.", ByHand::Reading)
        .into(found);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rocescope_common::account::latency::{BUCKETS, bounds};

    use crate::analysis::fixtures::{SECOND, START};
    use crate::analysis::{Facts, Options};
    use crate::findings::episode_tests::{by_id, run};
    use crate::findings::{Input, Limits, check};
    use crate::metrics::latency::tails::TailInterval;
    use crate::metrics::latency::{Figure, Histogram, Summary};
    use crate::metrics::loss::Metrics;
    use crate::metrics::loss::signal_intervals::FlowSignalIntervals;
    use crate::sample::Sample;

    /// A second-long window of 1,000 requests of 10 µs, two in a hundred of which take this long.
    fn window(second: u64, slow_us: u64) -> TailInterval {
        let bucket = |us: u64| (0..BUCKETS).find(|at| us * 1_000 < bounds(*at).1).unwrap();
        let mut counts = [0; BUCKETS];
        counts[bucket(10)] += 980;
        counts[bucket(slow_us)] += 20;
        let at = |second: u64| START + second * SECOND;
        let (first_ns, last_ns, max_ns) = (at(second), at(second + 1), slow_us * 1_000);
        TailInterval { first_ns, last_ns, samples: Histogram::of(&counts), max_ns }
    }

    fn timed(seconds: u64, all: Summary, tails: Vec<TailInterval>) -> Sample {
        let mut sample =
            run(seconds, Metrics::default(), FlowSignalIntervals::default(), FlowSignalIntervals::default());
        let tails = (!tails.is_empty()).then(|| Arc::new(tails));
        let figure = Figure { all: Some(all), tails, ..Figure::default() };
        sample.metrics.latency = Some([(0, figure)].into_iter().collect());
        sample
    }

    const HEALTHY: Summary = Summary {
        count: 3_600_000,
        p50: 10_000,
        p99: 20_000,
        p999: crate::util::packed_option::PackedOption::UNKNOWN,
        max: 8_000_000,
    };

    #[test]
    fn a_tail_of_the_first_minute_of_an_hour_has_ended_with_percentiles_of_its_own() {
        let found = by_id(&timed(3_600, HEALTHY, vec![window(30, 8_000)]), "latency.tail").unwrap();
        assert!(!found.active);
        assert_eq!(found.first_seen_ns, Some(START + 30 * SECOND));
        assert_eq!(found.last_seen_ns, Some(START + 31 * SECOND));
        let p99 = found.evidence["p99_ns"].as_u64().unwrap();
        assert!(p99.abs_diff(8_000_000) < 500_000, "{p99}");
        assert_eq!(found.evidence["samples"], 1_000);
        // Of a second, 20 requests of 8 ms and 980 of 10 µs take 170 ms one after the other.
        let lost = found.impact.time_lost_ns.unwrap();
        assert!(lost.abs_diff(159_800_000) < 12_000_000, "{lost}");
        // The latest of two has the figures.
        let twice = timed(3_600, HEALTHY, vec![window(30, 8_000), window(3_590, 4_000)]);
        let found = by_id(&twice, "latency.tail").unwrap();
        assert_eq!((found.active, found.episodes.len()), (true, 2));
        let p99 = found.evidence["p99_ns"].as_u64().unwrap();
        assert!(p99.abs_diff(4_000_000) < 250_000, "{p99}");
        assert_eq!(by_id(&timed(3_600, HEALTHY, vec![window(30, 100)]), "latency.tail"), None, "short");
    }

    #[test]
    fn a_tail_without_times_has_no_begin() {
        let all = Summary { p99: 8_000_000, ..HEALTHY };
        let found = by_id(&timed(3_600, all, Vec::new()), "latency.tail").unwrap();
        assert_eq!((found.first_seen_ns, &found.evidence["p99_ns"]), (None, &8_000_000.into()));
        assert_eq!(found.impact.time_lost_ns, None, "without samples");
    }

    /// The report of a replay takes the flows out of its sample.
    #[test]
    fn a_tail_has_its_time_and_cost_where_the_sample_has_no_flows_any_more() {
        let tail = timed(3_600, HEALTHY, vec![window(30, 8_000)]);
        let mut of_run = timed(3_600, Summary { p99: 8_000_000, ..HEALTHY }, Vec::new());
        let figure = Figure { histogram: window(0, 8_000).samples, ..latency_of(&of_run) };
        of_run.metrics.latency = Some([(0, figure)].into_iter().collect());
        for mut sample in [tail, of_run] {
            let whole = by_id(&sample, "latency.tail").unwrap();
            assert!(whole.impact.time_lost_ns.is_some());
            let facts = Facts::of_last(&mut sample, &Options::default());
            let found = check(&Input { sample: &sample, facts: &facts, limits: &Limits::default() });
            assert_eq!(found.into_iter().find(|one| one.id == "latency.tail"), Some(whole));
        }
        let mut healthy = timed(3_600, HEALTHY, Vec::new());
        let _ = Facts::of_last(&mut healthy, &Options::default());
        assert!(healthy.metrics.latency.unwrap().is_empty(), "of most flows nothing is kept");
    }

    fn latency_of(sample: &Sample) -> Figure {
        sample.metrics.latency.as_ref().unwrap().get(0).unwrap().clone()
    }

    #[test]
    fn requests_that_overlap_wait_at_the_same_time() {
        let slow = window(3_590, 400_000).samples;
        let one = |length_ns| super::waited_ns([&slow].into_iter(), 10_000, length_ns);
        let whole = one(u64::MAX);
        assert!(whole.abs_diff(7_999_800_000) < 600_000_000, "{whole}");
        // 20 requests of 400 ms within one second.
        let second = one(SECOND);
        assert!((900_000_000..SECOND).contains(&second), "{second}");
    }
}
