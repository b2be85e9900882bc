//! Recordings beside captures, live runs and other recordings: what of them can be compared.

use serde::Serialize;
use serde_json::Value;

use super::figure::Measure;
use super::value::{P99, at, mean, weight};
use super::{Change, Verdict};
use crate::util::units;

/// Sources of two reports: packets, or a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    /// Both from packets.
    Alike,
    /// Both are of recordings, with the same interval.
    SameInterval,
    /// One is of a recording.
    OneRecorded,
    /// Both are of recordings, with other intervals; nanoseconds, as far as known.
    Intervals(Option<u64>, Option<u64>),
}

/// Largest difference of two intervals that are the same: those of a live run vary.
const SAME_INTERVAL: f64 = 0.1;

impl Likeness {
    pub(super) fn of(a: &Value, b: &Value) -> Self {
        let interval =
            |report: &Value| report.pointer("/source/recording/interval_ns").and_then(Value::as_u64);
        match (is_recording(a), is_recording(b)) {
            (false, false) => Self::Alike,
            (true, true) => match (interval(a), interval(b)) {
                (Some(a), Some(b)) if a.abs_diff(b) as f64 <= a.max(b) as f64 * SAME_INTERVAL => {
                    Self::SameInterval
                }
                (a, b) => Self::Intervals(a, b),
            },
            _ => Self::OneRecorded,
        }
    }

    /// Reason why percentiles have no verdict.
    fn why_percentiles(self) -> String {
        match self {
            Self::Intervals(a, b) => {
                let [a, b] = [a, b].map(|ns| ns.map_or_else(|| units::UNKNOWN.into(), units::duration));
                format!(
                    "recordings of different intervals ({a} and {b}): their percentiles are made from those of intervals, \
                     and the ranges that the true ones lie in (flows[].latency_range_ns) overlap"
                )
            }
            Self::Alike | Self::SameInterval | Self::OneRecorded => {
                "the percentiles of a recording are made from those of its intervals, and the ranges \
                that the true ones lie in (flows[].latency_range_ns) overlap with those of the other report"
                    .into()
            }
        }
    }
}

/// True if a report is of a recording. An older report does not say so: its flows have no opcodes.
fn is_recording(report: &Value) -> bool {
    if let Some(recording) = report.pointer("/source/recording") {
        return !recording.is_null();
    }
    let flows = report.get("flows").and_then(Value::as_array).into_iter().flatten();
    let mut opcodes = flows.filter_map(|flow| flow.get("opcodes")?.as_array()).peekable();
    opcodes.peek().is_some() && opcodes.all(Vec::is_empty)
}

/// Metrics without a verdict between a recording and another report: a recording does not count repeated READ requests.
const UNLIKE: [&str; 1] = ["retransmitted_ratio"];

/// Figures without a verdict though both reports have them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotCompared {
    /// Names of the metrics.
    pub metrics: Vec<&'static str>,
    /// Reason.
    pub why: String,
}

/// The metrics that have no verdict, with the reason.
pub(super) fn not_compared<'a>(
    changes: &(impl Iterator<Item = &'a Change> + Clone),
    likeness: Likeness,
) -> Vec<NotCompared> {
    let without = |is: &dyn Fn(&str) -> bool| {
        let of = changes.clone().filter(|one| one.verdict.is_none() && one.a.is_some() && one.b.is_some());
        let mut names: Vec<&'static str> = of.map(|one| one.name).filter(|name| is(name)).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let rereads = "a recording does not count repeated READ requests";
    let all = [
        (without(&|name| percentile(name).is_some()), likeness.why_percentiles()),
        (without(&|name| UNLIKE.contains(&name)), rereads.to_owned()),
    ];
    let named = all.into_iter().filter(|(metrics, _)| !metrics.is_empty());
    named.map(|(metrics, why)| NotCompared { metrics, why }).collect()
}

/// The percentile that a metric is the mean of.
fn percentile(name: &str) -> Option<&'static str> {
    match name {
        "latency_p50_ns" => Some("p50"),
        "latency_p99_ns" => Some(P99),
        _ => None,
    }
}

/// The range of a metric that is a percentile of latency, over flows; `None` of other metrics, or where it is not
/// known.
pub(super) fn range<'a>(flows: &(impl Iterator<Item = &'a Value> + Clone), name: &str) -> Option<[f64; 2]> {
    let percentile = percentile(name)?;
    let end = |which: &str| {
        let ranged = format!("/latency_range_ns/{percentile}_{which}");
        let exact = format!("/latency_ns/{percentile}");
        // A percentile without a range is that of a capture or a live run.
        let of = |flow: &Value| at(flow, &ranged).or_else(|| at(flow, &exact));
        mean(flows.clone(), of, |flow| weight(flow, percentile))
    };
    Some([end("least")?, end("most")?])
}

impl Change {
    /// With a verdict that holds for all values in the ranges of both, where one is of a recording: reports of packets
    /// have exact percentiles.
    pub(super) fn within(
        self,
        measure: &Measure,
        likeness: Likeness,
        ranges: impl FnOnce() -> [Option<[f64; 2]>; 2],
    ) -> Self {
        let verdict = match likeness {
            Likeness::Alike => self.verdict,
            _ if percentile(measure.name).is_some() => {
                let [a, b] = ranges();
                a.zip(b).and_then(|(a, b)| certain(measure, a, b))
            }
            Likeness::OneRecorded if UNLIKE.contains(&measure.name) => None,
            _ => self.verdict,
        };
        Self { verdict, ..self }
    }
}

/// The verdict on all values of two ranges; `None` where it is not the same for all of them.
fn certain(measure: &Measure, a: [f64; 2], b: [f64; 2]) -> Option<Verdict> {
    let verdict = |a: f64, b: f64| measure.change(Some(a), Some(b)).verdict;
    let ends = [verdict(a[0], b[1]), verdict(a[1], b[0])];
    if ends[0] == ends[1] { ends[0] } else { None }
}
