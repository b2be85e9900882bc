//! The signals of timelines, and the findings that are about them: the same in every view.

use super::over_time::Series;
use super::{Counts, Level};
use crate::findings::{Finding, Problem, Severity};
use crate::metrics::timeline::SignalKind;
use crate::util::units;

/// A signal on timelines.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name of the signal.
    pub name: &'static str,
    /// Values of the signal over time.
    pub series: Series,
    /// Kinds of findings that are about it.
    pub about: &'static [Problem],
    /// The figure of the time range; `None` where that is the highest of its columns.
    pub now: Option<fn(&Counts) -> Option<f64>>,
}

/// Every signal, in the order in which timelines show them.
pub const ROWS: [Row; 8] = [
    Row {
        name: "lost",
        series: Series::Signal(SignalKind::Lost),
        about: &[Problem::Loss, Problem::Icrc],
        now: Some(|c| Some(c.lost as f64)),
    },
    Row {
        name: "retransmit",
        series: Series::Signal(SignalKind::Retransmitted),
        about: &[Problem::Retransmission, Problem::Loss, Problem::LossOrReordering],
        now: Some(|c| Some(c.retransmitted as f64)),
    },
    Row {
        name: "NAK",
        series: Series::Signal(SignalKind::Nak),
        about: &[Problem::Refused, Problem::Loss, Problem::LossOrReordering],
        now: Some(|c| Some(c.naks() as f64)),
    },
    Row {
        name: "RNR NAK",
        series: Series::Signal(SignalKind::Rnr),
        about: &[Problem::NotReady],
        now: Some(|c| Some(c.rnr as f64)),
    },
    Row {
        name: "ECN CE",
        series: Series::CeRatio,
        about: &[Problem::Congestion, Problem::Incast, Problem::Notification],
        now: Some(Counts::ce_ratio),
    },
    Row {
        name: "CNP",
        series: Series::Signal(SignalKind::Cnp),
        about: &[Problem::Notification, Problem::Congestion],
        now: Some(|c| Some(c.cnp as f64)),
    },
    Row { name: "p99 latency", series: Series::P99, about: &[Problem::Latency], now: None },
    Row { name: "PFC paused", series: Series::Paused, about: &[Problem::Pause], now: None },
];

/// A value of the timeline in words; `other` has those of which views differ, rates and counts.
pub fn figure(series: Series, value: f64, other: impl Fn(f64) -> String) -> String {
    match series {
        Series::CeRatio | Series::Paused => units::ratio(Some(value)),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time that was measured"
        )]
        Series::P99 => units::duration(value as u64),
        Series::Throughput | Series::Link(_) | Series::Signal(_) => other(value),
    }
}

/// True if a finding held at some time between two.
#[must_use]
pub fn held(finding: &Finding, from_ns: u64, to_ns: u64) -> bool {
    let last = finding.episodes.last().filter(|_| finding.active).map(|one| one.first_ns);
    // An active finding lasts to the end of the data.
    finding.episodes.is_empty()
        || last.is_some_and(|first| first < to_ns)
        || finding.episodes.iter().any(|one| one.first_ns < to_ns && one.last_ns >= from_ns)
}

/// True if an active finding reports lost packets: a count of none lost upstream of a tap does not contradict it.
#[must_use]
pub fn is_losing(findings: &[Finding]) -> bool {
    level(findings, &[Problem::Loss, Problem::LossOrReordering], |finding| finding.active) > Level::Fine
}

/// The level of the worst of the findings that are about something, and for which `of` holds.
#[must_use]
pub fn level(findings: &[Finding], about: &[Problem], of: impl Fn(&Finding) -> bool) -> Level {
    let about = findings.iter().filter(|finding| {
        finding.severity > Severity::Info
            && Problem::of(finding).is_some_and(|kind| about.contains(&kind))
            && of(finding)
    });
    about.map(|finding| Level::from(finding.severity)).max().unwrap_or_default()
}
