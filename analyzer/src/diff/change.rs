//! What changed from one report to the other: a metric, a finding.

use serde::Serialize;

/// Unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FigureUnit {
    /// Bits per second.
    BitRate,
    /// Events per second.
    Rate,
    /// A fraction of 1.
    Ratio,
    /// A multiple.
    Factor,
    /// Nanoseconds.
    Duration,
    /// Nanoseconds by which a time grows; negative: it becomes shorter.
    Growth,
    /// A size in bytes.
    Bytes,
    /// A plain number.
    Number,
}

/// Assessment of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Worse than before.
    Worse,
    /// Better than before.
    Better,
    /// Different, neither better nor worse.
    Changed,
    /// The same within the usual variation between runs of one job.
    Same,
}

/// Change of a kind of finding from one report to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not in the baseline.
    New,
    /// In the baseline only.
    Gone,
    /// Active in the baseline; in the other report it has ended.
    Ended,
    /// In both, worse.
    Worse,
    /// In both, better.
    Better,
    /// In both, different.
    Changed,
    /// In both, the same.
    Same,
}

impl State {
    pub(super) const fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Worse => Self::Worse,
            Verdict::Better => Self::Better,
            Verdict::Changed => Self::Changed,
            Verdict::Same => Self::Same,
        }
    }
}

/// A metric in both reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Name with its unit.
    pub name: &'static str,
    #[serde(skip)]
    pub(super) label: &'static str,
    /// In the baseline; null when unknown.
    pub a: Option<f64>,
    /// In the other report; null when unknown.
    pub b: Option<f64>,
    /// b / a − 1; null when either is unknown or a is 0.
    pub change_ratio: Option<f64>,
    /// Null when either is unknown.
    pub verdict: Option<Verdict>,
    #[serde(skip)]
    pub(super) kind: FigureUnit,
}

/// A kind of finding in both reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FindingChange {
    /// Its id.
    pub id: String,
    /// The highest severity in the baseline; null when not raised or not evaluated.
    pub a: Option<String>,
    /// The highest severity in the other report.
    pub b: Option<String>,
    /// True if one is active at the end of the baseline; null when not raised.
    pub active_a: Option<bool>,
    /// True if one is active at the end of the other report.
    pub active_b: Option<bool>,
    /// Number of findings in the baseline.
    pub count_a: usize,
    /// Number of findings in the other report.
    pub count_b: usize,
    /// The title in the other report, else in the baseline.
    pub title: String,
    /// The measure of its severity in the evidence, of the worst finding of its kind; null when the kind has none.
    pub figure: Option<Change>,
    /// Time lost (`impact.time_lost_ns`) per time of the report; null when neither knows it.
    pub time_lost: Option<Change>,
    /// By the highest severity of active ones, then by severity (warning and critical are one where the measure that
    /// decides between them is the same), by the main measure, by the time lost, by number; another number alone is
    /// "changed". Null when one of the reports did not evaluate it.
    pub verdict: Option<Verdict>,
    /// Change of this finding; null as `verdict`.
    pub state: Option<State>,
}
