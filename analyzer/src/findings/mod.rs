//! Confirmed and possible problems: conclusions from a sample and its facts, with evidence.
//!
//! A module is a [`Family`]: its entries (id, rank, texts, what each needs), its thresholds and its
//! check, a pure function. `rocescope explain`, docs/findings.md, the template of the configuration
//! file, the order of findings, what could not be evaluated and what `rocescope diff` compares all
//! follow from these declarations: a new finding is an [`Entry`] in one of these files, a new family
//! a file and its line in the list below.
//!
//! A finding is raised when someone should act, not whenever a counter is not zero: a false alarm at three in the
//! morning costs more trust than ten findings earn.

// First, since the other modules use its macros.
#[macro_use]
mod family;

mod balance;
#[cfg(test)]
mod balance_tests;
mod bound;
mod burst;
mod capture;
mod catalog;
mod causality;
mod classes;
mod cm;
mod cnp;
mod command;
mod config;
mod device;
mod died;
mod ecn;
mod ends;
#[cfg(test)]
mod episode_tests;
mod fields;
mod finding;
mod foreign;
mod growth;
mod icrc;
mod index;
mod infiniband;
mod job;
mod labels;
mod latency;
mod loss;
mod loss_grade;
mod loss_links;
mod loss_steps;
mod loss_sum;
mod loss_taps;
#[cfg(test)]
mod loss_tests;
mod nak;
mod nccl;
mod not_evaluated;
mod once;
pub mod order;
mod owners;
mod parallel;
mod path;
mod peer;
mod pfc;
mod problem;
mod psn;
mod qp_context;
mod qp_settings;
mod qps;
mod raise;
pub mod recorded;
mod relate;
mod retry;
mod retry_asked;
mod rnr;
mod settings;
#[cfg(test)]
mod settings_tests;
mod silence;
mod span;
mod step;
#[cfg(test)]
mod tests;
mod timeouts;
mod title;
mod tool;
mod verdict;

use crate::analysis::Facts;
use crate::sample::Sample;

pub use balance::LINKS_IMBALANCE;
pub use catalog::{definitions, entries, entry, evidence_label, limits, markdown, similar};
pub use causality::can_cause;
pub use family::{Better, Entry, Family, Label, Lasting, LimitMeta, Measure, Need};
pub use fields::DataEnd;
pub use finding::{
    End, Episode, Evidence, EvidenceList, Finding, Impact, NotEvaluated, Place, Severity, Step, Unit,
};
pub use index::{FlowIndex, FlowSet};
pub use problem::Problem;
pub use silence::Silences;

use command::{ByHand, Command, Commands};
use family::label;
use raise::Raise;
pub use verdict::{HEALTHY_SUMMARY, Health, Verdict};

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

families! {
    balance [entropy: balance::EntropyLimits, links: balance::LinksLimits],
    burst [burst: burst::Limits],
    capture [capture: capture::Limits],
    cm [cm: cm::Limits],
    cnp [cnp: cnp::Limits],
    config [],
    device [device: device::Limits],
    died [qp: died::Limits],
    ecn [ecn: ecn::Limits],
    foreign [],
    icrc [icrc: icrc::Limits],
    job [job: job::Limits],
    latency [latency: latency::Limits],
    loss [loss: loss::Limits],
    nak [nak: nak::Limits],
    parallel [parallel: parallel::Limits],
    path [path: path::Limits],
    peer [peer: peer::Limits],
    pfc [pfc: pfc::Limits],
    psn [],
    qp_context [qp_context: qp_context::Limits],
    qp_settings [qp_settings: qp_settings::Limits],
    qps [],
    rnr [rnr: rnr::Limits],
    // Its advice names findings of the families before it.
    retry [retry: retry::Limits],
    settings [
        mtu: settings::MtuLimits,
        qos: settings::QosLimits,
        rocev1: settings::Rocev1Limits,
        isolation: settings::IsolationLimits
    ],
    step [step: step::Limits],
    timeouts [],
    // Its causes are findings of the families before it.
    nccl [nccl: nccl::Limits],
    tool [tool: tool::Limits],
}

/// Kinds of findings that cannot be evaluated, since the source does not collect the data that they need.
#[must_use]
pub fn not_evaluated(sample: &Sample, facts: &Facts) -> Vec<NotEvaluated> {
    not_evaluated::not_evaluated(sample, facts)
}

/// All findings, in the order of [`order::sort`].
#[must_use]
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
    relate::relate(&mut found, relate::once(peer));
    bound::bound(&mut found, end_ns);
    if input.facts.is_infiniband() {
        infiniband::adapt(&mut found);
    }
    order::sort(&mut found, end_ns);
    found
}
