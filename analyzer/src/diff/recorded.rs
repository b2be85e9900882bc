//! Recordings beside captures, live runs and other recordings: what of them can be compared.

use serde::Serialize;

use super::change::{Change, Verdict};
use super::figure::Measure;
use super::value::{Likeness, percentile};
use crate::util::units;

impl Likeness {
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
