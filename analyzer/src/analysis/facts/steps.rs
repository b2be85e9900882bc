//! Fields of step times: parts of a step, and how they change over a run.

use serde::Serialize;

pub use crate::metrics::steps::trend::{Parts as StepParts, Stretch as StepStretch};
use crate::util::units;

/// Step time over the run, against its fastest steps in a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StepTrend {
    /// The fastest quarter of the steps in a row, at least 5: the step time that the job has shown to sustain.
    pub fastest: StepStretch,
    /// Time that slower and long steps took above the median of `fastest`, since the first step in the data: an
    /// estimate, and a lower bound where the job was never at its best. Slower: the median of its neighbours
    /// exceeds nine of ten steps of `fastest`, and its median by 3 %. Long: a single step of at least 1.25 times
    /// that median and 1.5 interquartile ranges above the upper quartile. Unit: ns.
    pub lost_ns: u64,
    /// `lost_ns` over the length of all steps. Unit: ratio.
    pub lost_ratio: f64,
    /// Long steps that are not among slower ones, such as checkpoints. Unit: steps.
    pub long_steps: u64,
    /// Part of `lost_ns` that is theirs. Unit: ns.
    pub long_ns: u64,
    /// The longest stretch of slower steps (two of three), at least 5, with at least 4 faster ones before it, and
    /// its lower quartile 3 % above the upper quartile of all steps before. Null: the steps did not become slower.
    pub slower: Option<StepSlower>,
}

impl StepTrend {
    /// Sentence about the trend, the same in every view: number of slower steps, their beginning, and the part that
    /// grew.
    pub fn in_words(&self) -> String {
        let Some(slower) = &self.slower else { return "steps did not become slower".to_owned() };
        let (grew, stretch) = (units::growth, &slower.stretch);
        format!(
            "{} slower steps {}: {} → {} (+{:.0} %); per step transfer {}, waiting {}, computing {}",
            units::count(stretch.steps),
            units::span_utc(stretch.first_ns, stretch.last_ns),
            units::duration(self.fastest.period_ns),
            units::duration(stretch.period_ns),
            100.0 * slower.growth_ratio,
            grew(slower.transfer_grew_ns),
            grew(slower.wait_grew_ns),
            grew(slower.compute_grew_ns),
        )
    }
}

/// Steps that became slower.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StepSlower {
    /// The slower steps.
    pub stretch: StepStretch,
    /// Growth of the median period over that of `fastest`; 0.2: a fifth longer. Unit: ratio.
    pub growth_ratio: f64,
    /// The part that grew most: `transfer`, `wait` or `compute`.
    pub grew_most: &'static str,
    /// Growth of `parts.transfer_ns`. Negative: shorter. Unit: ns.
    pub transfer_grew_ns: i64,
    /// Growth of `parts.wait_ns`. Negative: shorter. Unit: ns.
    pub wait_grew_ns: i64,
    /// Growth of `parts.compute_ns`. Negative: shorter. Unit: ns.
    pub compute_grew_ns: i64,
    /// Share of the growth of the transfers by which the steps grew: estimate of the exposed share of the
    /// communication that was added. Near 1: the job waits for the whole transfer; near 0: it overlaps with
    /// computation. Unit: ratio. Null: transfers did not grow by 5 % of a step.
    pub exposed_ratio: Option<f64>,
    /// Part of `lost_ns` in this stretch. Unit: ns.
    pub lost_ns: u64,
}
