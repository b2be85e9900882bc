//! The signals of timelines and their findings, the same in every view.

use super::over_time::Series;
use super::{Counts, Level};
use crate::findings::{Finding, Problem};
use crate::metrics::timeline::SignalKind;
use crate::util::units;

/// Kinds of findings about a counter. Of the counter on a row, the level is that of the worst active finding of these
/// kinds there, and nothing else decides about it.
pub type About = &'static [Problem];

/// Packets lost, and gaps in sequences.
pub const LOST: About = &[Problem::Loss, Problem::Icrc];
/// Retransmissions.
pub const RETRANSMITTED: About =
    &[Problem::Retransmission, Problem::Reordering, Problem::Loss, Problem::NotReady];
/// NAKs other than RNR NAKs.
pub const NAK: About = &[Problem::Refused, Problem::Loss, Problem::NotReady];
/// RNR NAKs.
pub const RNR: About = &[Problem::NotReady];
/// CE marks.
pub const CE: About = &[Problem::Congestion, Problem::Incast, Problem::NoCnp, Problem::Notification];
/// CNPs.
pub const CNP: About = &[Problem::NoCnp, Problem::Notification, Problem::Congestion];
/// Tails of latency.
pub const LATENCY: About = &[Problem::Latency];
/// Pauses.
pub const PAUSED: About = &[Problem::Pause];
/// Packets with a wrong ICRC.
pub const CORRUPT: About = &[Problem::Icrc];
/// Header fields that change on the way.
pub const CHANGED: About = &[Problem::Settings];
/// What no finding is about.
pub const NOTHING: About = &[];

/// A signal on timelines.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name of the signal.
    pub name: &'static str,
    /// Values of the signal over time.
    pub series: Series,
    /// Kinds of findings about it.
    pub about: About,
    /// The value over the time range; `None` if no counter has it: then it is that of the points.
    pub now: Option<fn(&Counts) -> Option<f64>>,
}

/// Name of the CE ratio of all packets: pairs of hosts and links have ratios of their own beside it.
pub const ECN: &str = "ECN CE, all";

/// All signals, in the order of the timelines.
pub const ROWS: [Row; 9] = [
    Row {
        name: "lost",
        series: Series::Signal(SignalKind::Lost),
        about: LOST,
        now: Some(|c| c.of_sequence(|c| c.lost).map(|n| n as f64)),
    },
    Row { name: "wrong ICRC", series: Series::Signal(SignalKind::WrongIcrc), about: CORRUPT, now: None },
    Row {
        name: "retransmit",
        series: Series::Signal(SignalKind::Retransmitted),
        about: RETRANSMITTED,
        now: Some(|c| c.of_sequence(|c| c.retransmitted).map(|n| n as f64)),
    },
    Row {
        name: "NAK",
        series: Series::Signal(SignalKind::Nak),
        about: NAK,
        now: Some(|c| c.of_answers(Counts::naks).map(|n| n as f64)),
    },
    Row {
        name: "RNR NAK",
        series: Series::Signal(SignalKind::Rnr),
        about: RNR,
        now: Some(|c| c.of_answers(|c| c.rnr).map(|n| n as f64)),
    },
    Row { name: ECN, series: Series::CeRatio, about: CE, now: Some(Counts::ce_ratio) },
    Row {
        name: "CNP",
        series: Series::Signal(SignalKind::Cnp),
        about: CNP,
        now: Some(|c| Some(c.cnp as f64)),
    },
    Row { name: "p99 latency", series: Series::P99, about: LATENCY, now: None },
    Row { name: "PFC paused", series: Series::Paused, about: PAUSED, now: None },
];

/// A value of the timeline as text; `other` formats rates and counts, which differ between views.
pub fn figure(series: Series, value: f64, other: impl Fn(f64) -> String) -> String {
    match series {
        Series::CeRatio | Series::LinkCeRatio(_) | Series::Paused => units::ratio(Some(value)),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time that was measured"
        )]
        Series::P99 => units::duration(value as u64),
        Series::Throughput | Series::Link(_) | Series::Signal(_) => other(value),
    }
}

/// True if a finding held at some time in this span.
pub fn held(finding: &Finding, from_ns: u64, to_ns: u64) -> bool {
    let last = finding.episodes.last().filter(|_| finding.active).map(|one| one.first_ns);
    // An active finding extends to the end of the data.
    finding.episodes.is_empty()
        || last.is_some_and(|first| first < to_ns)
        || finding.episodes.iter().any(|one| one.first_ns < to_ns && one.last_ns >= from_ns)
}

/// True if an active finding reports packets that were lost or may have been, if only as information: zero packets lost
/// upstream of a tap do not contradict it.
pub fn is_losing(findings: &[Finding]) -> bool {
    findings.iter().filter(|finding| finding.active).filter_map(Problem::of).any(Problem::is_loss)
}

/// Severity of the worst finding about these problems that satisfies `of`.
#[must_use]
pub fn level(findings: &[Finding], about: &[Problem], of: impl Fn(&Finding) -> bool) -> Level {
    let about = findings.iter().filter(|finding| {
        finding.is_problem() && Problem::of(finding).is_some_and(|kind| about.contains(&kind)) && of(finding)
    });
    about.map(|finding| Level::from(finding.severity)).max().unwrap_or_default()
}
