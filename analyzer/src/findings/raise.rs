//! How a finding is put together.

use serde_json::Value;

use super::Entry;
use crate::report::{Finding, Flow, FlowId, Severity};

/// Flows that a finding lists; how many there are is in its evidence as `flows`.
const MAX_FLOWS: usize = 16;

/// A finding under construction.
#[derive(Debug)]
pub(super) struct Raise(Finding);

impl Raise {
    /// A finding of this kind. `title` says the case in words, with the figure that matters most.
    pub(super) fn new(entry: &Entry, severity: Severity, title: String) -> Self {
        Self(Finding {
            id: entry.id,
            severity,
            title,
            evidence: std::collections::BTreeMap::new(),
            flows: Vec::new(),
            advice: entry.advice.to_owned(),
        })
    }

    /// Adds a number, or a list of numbers. `None` becomes null: not known.
    pub(super) fn evidence(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.evidence.insert(name.to_owned(), value.into());
        self
    }

    /// Says what to do in this very case, in place of what holds for all of its kind.
    pub(super) fn advice(mut self, advice: &str) -> Self {
        advice.clone_into(&mut self.0.advice);
        self
    }

    /// Names the flows, those that matter most first.
    pub(super) fn flows<'a>(mut self, flows: impl IntoIterator<Item = &'a Flow>) -> Self {
        let mut count = 0u64;
        for flow in flows {
            count += 1;
            if self.0.flows.len() < MAX_FLOWS {
                self.0.flows.push(FlowId::of(flow));
            }
        }
        self.evidence("flows", count)
    }

    /// Puts it with the others.
    pub(super) fn into(self, found: &mut Vec<Finding>) {
        found.push(self.0);
    }
}
