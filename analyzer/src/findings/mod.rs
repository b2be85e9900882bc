//! Confirmed and possible problems: conclusions from a sample and its facts, with evidence.
//!
//! A module of `checks` is a [`Family`]: its entries (id, rank, texts, what each needs), its thresholds and its check,
//! a pure function. `rocescope explain`, docs/findings.md, the template of the configuration file, the order of
//! findings, what could not be evaluated and what `rocescope diff` compares all follow from these declarations. The
//! modules here serve them: `raise` builds a finding, `period` its episodes, `relate` finds causes and effects, `bound`
//! joins many of a kind, `order` sorts them, and `verdict` is their sum.
//!
//! A finding is raised when someone should act, not whenever a counter is not zero: a false alarm at three in the
//! morning costs more trust than ten findings earn.

// First, since the other modules use its macros.
#[macro_use]
mod family;

mod bound;
mod catalog;
mod checks;
mod command;
mod dedup;
#[cfg(test)]
mod episode_tests;
mod fabric;
mod fields;
mod finding;
mod growth;
mod ids;
mod index;
mod labels;
mod not_evaluated;
pub mod order;
mod page;
mod period;
mod place;
mod problem;
mod raise;
pub mod recorded;
mod relate;
mod silence;
mod subject;
#[cfg(test)]
mod tests;
mod title;
mod verdict;
mod when;

use command::{ByHand, Command, Commands};
use family::label;
use raise::Raise;

use crate::analysis::Facts;
use crate::sample::Sample;

pub use catalog::{entries, entry, evidence_label, limits, similar};
pub use checks::qps::{CONNECTING, CREATING, PAST_VERBS};
pub use checks::{FAMILIES, Limits};
pub use fabric::Fabric;
pub use family::{Better, Entry, Family, Label, LimitMeta, Measure, NoEpisodes, RequiredData};
pub use finding::{
    End, Episode, Evidence, EvidenceList, Finding, Impact, NotEvaluated, Severity, Step, Unit,
};
pub use index::{FlowIndex, FlowSet};
pub use page::{definitions, markdown};
pub use place::{Hop, Place};
pub use problem::Problem;
pub use relate::causality::can_cause;
pub use silence::Silences;
pub use subject::{Compared, CostBase, Excess, LocalQp, StepDelay, Subject};
pub use verdict::{Grounds, Health, Verdict};
pub use when::DataEnd;

/// Input of the checks.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Raw counters and figures.
    pub sample: &'a Sample,
    /// The facts of the same sample.
    pub facts: &'a Facts,
    /// Thresholds.
    pub limits: &'a Limits,
}

/// Kinds of findings that cannot be evaluated, since the source does not collect the data that they need.
pub fn not_evaluated(sample: &Sample, facts: &Facts) -> Vec<NotEvaluated> {
    not_evaluated::not_evaluated(sample, facts)
}

/// All findings, in the order of [`order::sort`].
pub fn check(input: &Input<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for family in FAMILIES {
        (family.check)(input, &mut found);
    }
    let end_ns = input.facts.window.last_ns;
    for finding in &mut found {
        finding.time(input);
        growth::date(finding, input.sample);
        finding.active = finding.over_since(end_ns).is_none();
    }
    let peer =
        |(src, dst, qp): &index::Name| input.facts.to_qp(*src, *dst, *qp).find_map(|flow| flow.peer_qp);
    relate::relate(&mut found, peer);
    checks::retry::grade(&input.limits.retry, &mut found);
    bound::bound(&mut found, end_ns);
    fabric::adapt(&mut found, input.facts.is_infiniband());
    page::fill(&mut found);
    for finding in &mut found {
        let sources = finding.flows.iter().map(|flow| peer(&(flow.src, flow.dst, flow.dest_qp)));
        finding.subject.source_qps = sources.take(fields::FLOWS).collect();
    }
    order::sort(&mut found, end_ns);
    found
}
