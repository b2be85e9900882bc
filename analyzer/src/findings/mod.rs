//! What is wrong, or may be: conclusions from a sample and its report, with their evidence.
//!
//! Each family of findings is a module with the same parts: `ENTRIES`, the text about each finding
//! (one source for `rocescope explain` and docs/findings.md); `Limits`, the thresholds, each with
//! its reason; and `check`, a pure function. A finding says what was seen in numbers. It is raised
//! when someone should look, not whenever a counter is not zero: a false alarm at three in the
//! morning costs more trust than ten findings earn.

mod burst;
mod catalog;
mod job;
mod raise;
mod step;
#[cfg(test)]
mod tests;
mod tool;

use serde::Deserialize;

use crate::report::{Finding, Report};
use crate::sample::Sample;

pub use catalog::{Entry, LimitMeta, entries, limits, markdown};
use raise::Raise;

/// What findings are drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The raw counters and figures.
    pub sample: &'a Sample,
    /// The report of the same sample, its findings still empty.
    pub report: &'a Report,
    /// Thresholds.
    pub limits: &'a Limits,
}

/// The thresholds of all families, as in the `[findings]` table of the configuration file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "each family describes its own")]
pub struct Limits {
    pub burst: burst::Limits,
    pub job: job::Limits,
    pub step: step::Limits,
    pub tool: tool::Limits,
}

/// All findings, the worst first, then by id.
#[must_use]
pub fn check(input: &Input<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    burst::check(input, &mut found);
    job::check(input, &mut found);
    step::check(input, &mut found);
    tool::check(input, &mut found);
    // Stable: within a family the order says which is the worst.
    found.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.id.cmp(b.id)));
    found
}
