//! How a finding is put together.

use std::collections::HashSet;

use serde_json::Value;

use super::Entry;
use super::once::{Name, name};
use crate::analysis::{Flow, FlowId};
use crate::findings::{Evidence, Finding, Severity};

/// Flows that a finding lists; how many there are is in its evidence as `flows`.
pub(super) const MAX_FLOWS: usize = 16;

/// Kinds that are about settings, which last however long no packet shows them.
const SETTINGS: [&str; 6] =
    ["ecn.not_capable", "mtu.small", "qos.dscp_mixed", "qos.dscp_unset", "qos.cnp_dscp", "rocev1.present"];

/// A finding under construction.
#[derive(Debug)]
pub(super) struct Raise {
    finding: Finding,
    /// When it was seen last, where that is known better than by its flows.
    seen_ns: Option<u64>,
    /// Last packet of its flows.
    flows_end_ns: Option<u64>,
    /// It is about something that is not there, or that is set: no flow's end is the end of it.
    lasting: bool,
}

impl Raise {
    /// A finding of this kind. `title` says the case in words, with the figure that matters most.
    pub(super) fn new(entry: &Entry, severity: Severity, title: String) -> Self {
        let finding = Finding { advice: entry.advice.to_owned(), ..Finding::new(entry.id, severity, title) };
        Self { finding, seen_ns: None, flows_end_ns: None, lasting: SETTINGS.contains(&entry.id) }
    }

    /// Adds a number, or a list of numbers. `None` becomes null: not known.
    pub(super) fn evidence(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.finding.evidence.insert(Evidence::named(name, value.into()));
        self
    }

    /// Says what to do in this very case, in place of what holds for all of its kind.
    pub(super) fn advice(mut self, advice: &str) -> Self {
        advice.clone_into(&mut self.finding.advice);
        self
    }

    /// Names the flows, those that matter most first. One that several links see is one, named as the first of them has it.
    pub(super) fn flows<'a>(mut self, flows: impl IntoIterator<Item = &'a Flow>) -> Self {
        let mut seen: HashSet<Name> = HashSet::new();
        for flow in flows {
            self.flows_end_ns = self.flows_end_ns.max(Some(flow.last_ns));
            if seen.insert(name(flow)) && self.finding.flows.len() < MAX_FLOWS {
                self.finding.flows.push(FlowId::of(flow));
            }
        }
        self.evidence("flows", seen.len())
    }

    /// Nothing of it can have shown later, Unix nanoseconds; without it, nothing later than the last packet of its
    /// flows.
    pub(super) fn last_seen(mut self, seen_ns: Option<u64>) -> Self {
        self.seen_ns = seen_ns;
        self
    }

    /// It lasts: a silence does not end with the flows that fell silent.
    pub(super) fn lasting(mut self) -> Self {
        self.lasting = true;
        self
    }

    /// Puts it with the others.
    pub(super) fn into(mut self, found: &mut Vec<Finding>) {
        let known = self.seen_ns.or(self.flows_end_ns);
        self.finding.last_seen_ns = known.filter(|_| !self.lasting);
        found.push(self.finding);
    }
}
