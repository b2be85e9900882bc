//! The metrics that are compared: their place in a report, and which direction is better.

use serde_json::Value;

use super::change::{Change, FigureUnit, Verdict};
use super::value::{
    Likeness, P99, RANGES, at, both, ce_ratio, deduplicated, latency, list, lost_after_tap,
    lost_between_taps, lost_of_expected, max_over_mean, naks, own_losses, present, range, rate,
    retransmitted, rnr_naks, share, total, without_duplicates,
};

/// Direction of improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Better {
    More,
    Less,
    Neither,
}

/// A metric, and the difference from which on it has changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    pub(super) name: &'static str,
    /// Its name in the text.
    pub(super) label: &'static str,
    pub(super) kind: FigureUnit,
    pub(super) better: Better,
    /// Differences up to this are ignored: a share of the larger value, and absolute.
    pub(super) same: (f64, f64),
}

/// A metric of a report.
pub(super) struct Figure {
    pub(super) measure: Measure,
    /// Meaning of the figure, for the table of docs/diff.md.
    pub(super) meaning: &'static str,
    read: fn(&Value) -> Option<f64>,
}

/// Runs of the same job vary by a few per cent.
const USUAL: f64 = 0.05;
/// Tolerance of tail percentiles, which vary more than medians.
const TAIL: f64 = 0.15;
/// Faults vary by chance: their metrics, and the findings that are measured by them.
pub(super) const FAULTS: f64 = 0.25;

impl Figure {
    /// The metric of two reports.
    pub(super) fn change(&self, a: &Value, b: &Value, likeness: Likeness) -> Change {
        let change = self.measure.change((self.read)(a), (self.read)(b));
        let range = |report| range(&list(report), self.measure.name);
        change.within(&self.measure, likeness, || [range(a), range(b)])
    }
}

impl Measure {
    pub(super) fn change(&self, a: Option<f64>, b: Option<f64>) -> Change {
        let verdict = a.zip(b).map(|(a, b)| {
            let (share, least) = self.same;
            let same = (b - a).abs() <= (a.abs().max(b.abs()) * share).max(least);
            match self.better {
                _ if same => Verdict::Same,
                Better::Neither => Verdict::Changed,
                Better::More if b > a => Verdict::Better,
                Better::Less if b < a => Verdict::Better,
                Better::More | Better::Less => Verdict::Worse,
            }
        });
        let change_ratio = a.zip(b).filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a - 1.0);
        Change { name: self.name, label: self.label, a, b, change_ratio, verdict, kind: self.kind }
    }
}

macro_rules! figure {
    ($name:literal, $label:literal, $kind:ident, $better:ident, $same:expr, $meaning:literal, $read:expr) => {
        Figure {
            measure: Measure {
                name: $name,
                label: $label,
                kind: FigureUnit::$kind,
                better: Better::$better,
                same: $same,
            },
            meaning: $meaning,
            read: $read,
        }
    };
}

/// Metrics of a whole run.
#[rustfmt::skip]
pub(super) const RUN: &[Figure] = &[
    figure! { "roce_bits_per_second", "RoCE rate", BitRate, More, (USUAL, 0.0),
        "`totals.roce_bytes` × 8 per second of the time range", |r| rate(r, total(r, "roce_bytes")? * 8.0) },
    figure! { "payload_bits_per_second", "payload rate", BitRate, More, (USUAL, 0.0),
        "`flows[].payload_bytes` × 8 per second",
        |r| rate(r, present(r, |f| without_duplicates(f, "/payload_bytes", "payload_bytes"))? * 8.0) },
    figure! { "roce_packets_per_second", "RoCE packets", Rate, Neither, (USUAL, 0.0),
        "`totals.roce_packets` per second", |r| rate(r, total(r, "roce_packets")?) },
    figure! { "ce_ratio", "CE ratio", Ratio, Less, (USUAL, 0.001),
        "`totals.ce_ratio`; with several taps that of the link with the highest", ce_ratio },
    figure! { "cnp_packets_per_second", "CNPs", Rate, Less, (USUAL, 1.0),
        "`totals.cnp_packets` per second", |r| rate(r, total(r, "cnp_packets")?) },
    figure! { "missing_ratio", "PSN gaps, raw", Ratio, Less, (FAULTS, 1e-5),
        "raw PSN gaps, lost or reordered (`flows[].psn.missing`, `responses_missing`), per packet",
        |r| share(&deduplicated(r), |f| both(f, "missing")) },
    figure! { "lost_before_tap_ratio", "loss upstream", Ratio, Less, (FAULTS, 1e-5),
        "packets lost upstream of the tap (`flows[].loss.lost`), of those that should have passed it",
        |r| lost_of_expected(&deduplicated(r)) },
    figure! { "lost_after_tap_ratio", "loss episodes downstream", Ratio, Less, (FAULTS, 1e-5),
        "loss episodes downstream of the tap (`flows[].loss.after_tap.episodes`; an episode may be several packets, or reordering), per packet",
        |r| share(&deduplicated(r), lost_after_tap) },
    figure! { "lost_between_taps_ratio", "loss between taps", Ratio, Less, (FAULTS, 1e-5),
        "packets lost between two taps (`taps[].vanished`, without those that the second capture missed) of the packets at the first; \
             of the pair of taps with the highest ratio",
        lost_between_taps },
    figure! { "retransmitted_ratio", "retransmissions", Ratio, Less, (FAULTS, 1e-4),
        "retransmissions, repeated READ requests included (`flows[].loss.retransmitted`, `rereads`), per packet; where they are not known, all packets with a PSN below the expected one (`flows[].psn.repeats`)",
        |r| share(&deduplicated(r), retransmitted) },
    figure! { "naks_per_second", "NAKs", Rate, Less, (FAULTS, 0.1),
        "`flows[].ack.naks`, all codes, per second", |r| rate(r, present(r, naks)?) },
    figure! { "rnr_naks_per_second", "RNR NAKs", Rate, Less, (FAULTS, 0.1),
        "`flows[].ack.rnr_naks` per second",
        |r| rate(r, present(r, rnr_naks)?) },
    figure! { "latency_p50_ns", "latency, p50", Duration, Less, (USUAL, 500.0),
        "`flows[].latency_ns.p50`, mean over flows weighted by samples", |r| latency(list(r), "p50") },
    figure! { "latency_p99_ns", "latency, p99", Duration, Less, (TAIL, 1000.0),
        "`flows[].latency_ns.p99`, the same over flows with at least 100 samples",
        |r| latency(list(r), P99) },
    figure! { "effective_flows", "effective flows (5-tuples)", Number, More, (USUAL, 0.1),
        "`entropy.effective_flows`", |r| at(r, "/entropy/effective_flows") },
    figure! { "max_over_mean", "busiest link over mean", Factor, Less, (USUAL, 0.01),
        "the largest `imbalance[].max_over_mean` of parallel links", max_over_mean },
    figure! { "step_period_ns", "step time", Duration, Less, (USUAL, 0.0),
        "`steps.period_ns`: the median over the steps of the job", |r| at(r, "/steps/period_ns") },
    figure! { "step_busy_ratio", "share of a step with data", Ratio, Neither, (USUAL, 0.02),
        "`steps.busy_ratio`", |r| at(r, "/steps/busy_ratio") },
    figure! { "step_fastest_ns", "step time, fastest in a row", Duration, Less, (USUAL, 0.0),
        "`steps.trend.fastest.period_ns`: what the job has shown to sustain",
        |r| at(r, "/steps/trend/fastest/period_ns") },
    figure! { "step_transfer_ns", "step: data on the wire", Duration, Less, (USUAL, 100_000.0),
        "`steps.parts.transfer_ns`", |r| at(r, "/steps/parts/transfer_ns") },
    figure! { "step_wait_ns", "step: waiting within it", Duration, Less, (TAIL, 1_000_000.0),
        "`steps.parts.wait_ns`", |r| at(r, "/steps/parts/wait_ns") },
    figure! { "step_compute_ns", "step: no traffic until the next", Duration, Less, (USUAL, 100_000.0),
        "`steps.parts.compute_ns`, mostly computing", |r| at(r, "/steps/parts/compute_ns") },
    figure! { "step_jitter_ratio", "step time jitter", Ratio, Less, (TAIL, 0.01),
        "`steps.jitter_ratio`", |r| at(r, "/steps/jitter_ratio") },
    figure! { "step_lost_ratio", "time lost in slower and long steps", Ratio, Less, (TAIL, 0.01),
        "`steps.trend.lost_ratio`: against the fastest steps of the same run",
        |r| at(r, "/steps/trend/lost_ratio") },
    figure! { "step_trend_ns_per_step", "step time, growth per step", Growth, Less, (TAIL, 100_000.0),
        "`steps.trend_ns_per_step`; negative: steps became shorter", |r| at(r, "/steps/trend_ns_per_step") },
    figure! { "step_communication_ratio", "share of a step from first to last data", Ratio, Neither, (USUAL, 0.02),
        "`steps.communication_ratio`", |r| at(r, "/steps/communication_ratio") },
    figure! { "step_exposed_ratio", "added transfer that steps wait for", Ratio, Less, (TAIL, 0.05),
        "`steps.trend.slower.exposed_ratio`: 1, the steps wait for all the growth; 0, all the growth overlaps with computing",
        |r| at(r, "/steps/trend/slower/exposed_ratio") },
    figure! { "step_faster_network_ns", "a network twice as fast gains", Duration, Neither, (USUAL, 100_000.0),
        "`steps.faster_network_ns`: at most, per step", |r| at(r, "/steps/faster_network_ns") },
    figure! { "flows", "flows", Number, Neither, (0.0, 0.0), "flows, each counted once on all links",
        |r| { r.get("flows")?.as_array()?; Some(deduplicated(r).len() as f64) } },
    figure! { "tool_lost_packets", "packets not counted", Number, Less, (0.0, 0.0),
        "packets that rocescope did not count: `totals.lost.flow_table_full`, `contended`, and `capture_drops` (replay) or `interface_drops`",
        own_losses },
];

/// The metrics that are compared by host pair, too: a value of [`by_hosts`](super::value::by_hosts) has them by name.
pub(super) const OF_HOSTS: [&str; 7] = [
    "roce_bits_per_second",
    "ce_ratio",
    "missing_ratio",
    "lost_before_tap_ratio",
    "lost_after_tap_ratio",
    "retransmitted_ratio",
    "latency_p99_ns",
];

/// Two values of [`by_hosts`](super::value::by_hosts) side by side.
pub(super) fn changes_of_hosts(a: &Value, b: &Value, likeness: Likeness) -> Vec<Change> {
    let measures = RUN.iter().map(|figure| figure.measure).filter(|one| OF_HOSTS.contains(&one.name));
    let of = |side: &Value, name: &str| side.get(name).and_then(Value::as_f64);
    let range = |side: &Value, name: &str| {
        let ends = side.get(RANGES)?.get(name)?;
        ends.get(0)?.as_f64().zip(ends.get(1)?.as_f64()).map(<[f64; 2]>::from)
    };
    let change = |one: Measure| {
        let ranges = || [a, b].map(|side| range(side, one.name));
        one.change(of(a, one.name), of(b, one.name)).within(&one, likeness, ranges)
    };
    measures.map(change).collect()
}
