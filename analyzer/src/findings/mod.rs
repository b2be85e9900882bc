//! What is wrong, or may be: conclusions from a sample and its facts, with their evidence.
//!
//! Each family of findings is a module with the same parts: `ENTRIES`, the text about each finding
//! (one source for `rocescope explain` and docs/findings.md); `Limits`, the thresholds, each with
//! its reason; and `check`, a pure function. A finding says what was seen in numbers. It is raised
//! when someone should look, not whenever a counter is not zero: a false alarm at three in the
//! morning costs more trust than ten findings earn.

mod balance;
#[cfg(test)]
mod balance_tests;
mod burst;
mod catalog;
mod classes;
mod cnp;
mod config;
mod device;
mod ecn;
mod finding;
mod icrc;
mod job;
mod latency;
mod loss;
#[cfg(test)]
mod loss_tests;
mod nak;
mod not_evaluated;
mod once;
pub mod order;
mod peer;
mod pfc;
mod raise;
mod retry;
mod rnr;
mod settings;
#[cfg(test)]
mod settings_tests;
mod step;
#[cfg(test)]
mod tests;
mod tool;
mod verdict;

use serde::Deserialize;

use crate::analysis::{Facts, Flow};
use crate::sample::Sample;

pub use catalog::{Entry, LimitMeta, entries, limits, markdown};
pub use finding::{
    End, Episode, Evidence, EvidenceList, Finding, Impact, NotEvaluated, Place, Severity, Step, Unit,
};
use raise::Raise;
pub use verdict::{Health, Verdict};

/// What findings are drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The raw counters and figures.
    pub sample: &'a Sample,
    /// The facts of the same sample.
    pub facts: &'a Facts,
    /// Thresholds.
    pub limits: &'a Limits,
}

/// The thresholds of all families, as in the `[findings]` table of the configuration file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "each family describes its own")]
pub struct Limits {
    pub entropy: balance::EntropyLimits,
    pub isolation: settings::IsolationLimits,
    pub links: balance::LinksLimits,
    pub mtu: settings::MtuLimits,
    pub qos: settings::QosLimits,
    pub rocev1: settings::Rocev1Limits,
    pub ecn: ecn::Limits,
    pub latency: latency::Limits,
    pub icrc: icrc::Limits,
    pub loss: loss::Limits,
    pub nak: nak::Limits,
    pub peer: peer::Limits,
    pub device: device::Limits,
    pub pfc: pfc::Limits,
    pub retry: retry::Limits,
    pub rnr: rnr::Limits,
    pub burst: burst::Limits,
    pub job: job::Limits,
    pub step: step::Limits,
    pub tool: tool::Limits,
}

/// The findings that cannot be come to, since the source does not collect what they rest on.
#[must_use]
pub fn not_evaluated(sample: &Sample, flows: &[Flow]) -> Vec<NotEvaluated> {
    not_evaluated::not_evaluated(sample, flows)
}

/// All findings in the order of [`order::sort`].
#[must_use]
pub fn check(input: &Input<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let families = [
        balance::check,
        burst::check,
        cnp::check,
        config::check,
        device::check,
        ecn::check,
        icrc::check,
        job::check,
        latency::check,
        loss::check,
        nak::check,
        peer::check,
        pfc::check,
        rnr::check,
        // Says which of the others tell why.
        retry::check,
        settings::check,
        step::check,
        tool::check,
    ];
    for check in families {
        check(input, &mut found);
    }
    order::sort(&mut found, input.facts.window.last_ns);
    found
}
