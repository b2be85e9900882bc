//! A finding: its evidence, the flows concerned and how bad it is.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::FlowId;

/// Something that is wrong, or may be.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Finding {
    pub id: &'static str,
    pub severity: Severity,
    pub title: String,
    pub evidence: BTreeMap<String, serde_json::Value>,
    pub flows: Vec<FlowId>,
    pub advice: String,
    pub last_seen_ns: Option<u64>,
}

/// A kind of finding that could not be come to: that it is not there says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "every field is described in report::fields")]
pub struct Unjudged {
    pub id: &'static str,
    pub needs: &'static str,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Costs performance, or will.
    Warning,
    /// Stops traffic, or makes the figures wrong.
    Critical,
}
