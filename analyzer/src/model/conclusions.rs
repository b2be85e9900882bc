//! The findings at a snapshot of the history, as evaluated then.

use crate::analysis::FlowId;
use crate::findings::{Episode, Finding, Step};
use crate::report::Report;

/// Queue pairs kept per finding. The findings of the newest report keep all of theirs.
pub const FLOWS: usize = 16;
/// Maximum number of queue pairs per finding that mark rows of an earlier snapshot.
const NAMED: usize = 1_024;

/// Findings over the time from the start to a snapshot.
#[derive(Clone, Debug)]
pub struct Conclusions {
    /// Time of the snapshot, Unix nanoseconds.
    pub time_ns: u64,
    /// Time of the last frame until then; `None` without a frame.
    pub end_ns: Option<u64>,
    /// The findings in the order of the report, each with its first [`FLOWS`] queue pairs.
    pub findings: Vec<Finding>,
    /// Approximate memory in use, in bytes; stored because it is queried with every sample.
    bytes: usize,
}

impl Conclusions {
    /// The findings of a report made at `time_ns`.
    pub fn of(report: &Report, time_ns: u64) -> Self {
        let few = |finding: &Finding| {
            let mut few = finding.clone();
            few.flows.truncate(FLOWS);
            if few.named.len() > NAMED {
                few.named = few.named.iter().copied().take(NAMED).collect();
            }
            few
        };
        let findings: Vec<Finding> = report.findings.iter().map(few).collect();
        let bytes = size_of::<Self>() + findings.iter().map(memory).sum::<usize>();
        Self { time_ns, end_ns: report.facts.window.last_ns, findings, bytes }
    }

    /// Approximate memory in use, in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

fn memory(finding: &Finding) -> usize {
    let entry = size_of::<(String, serde_json::Value)>();
    let evidence: usize =
        finding.evidence.iter().map(|one| entry + 2 * one.name.len() + text(&one.value)).sum();
    let flows: usize = finding.flows.iter().map(|flow| size_of::<FlowId>() + flow.link.len()).sum();
    let steps: usize = finding.steps.iter().map(|step| size_of::<Step>() + step.text.len()).sum();
    let caveats: usize = finding.caveats.iter().map(|caveat| size_of::<String>() + caveat.len()).sum();
    let episodes = finding.episodes.len() * size_of::<Episode>();
    let texts = finding.title.len() + finding.advice.len() + steps + caveats;
    size_of::<Finding>()
        + texts
        + evidence
        + flows
        + episodes
        + finding.named.bytes()
        + finding.subject.bytes()
}

/// Bytes of the strings and lists in a value.
fn text(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::String(text) => text.len(),
        serde_json::Value::Array(values) => {
            values.iter().map(|value| size_of::<serde_json::Value>() + text(value)).sum()
        }
        _ => 0,
    }
}
