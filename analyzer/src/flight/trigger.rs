//! Triggers of dumps: a finding that begins, or a request.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::pattern::Pattern;
use crate::findings::{Finding, Severity};

/// Cause of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A finding began.
    Finding,
    /// SIGUSR1.
    Signal,
    /// A key in the terminal UI.
    Key,
    /// A request on the unix socket.
    Request,
}

impl Cause {
    /// The sentence for causes other than findings.
    const fn words(self) -> &'static str {
        match self {
            Self::Finding => "a finding",
            Self::Signal => "SIGUSR1",
            Self::Key => "the key D",
            Self::Request => "POST /dump on the unix socket",
        }
    }
}

/// Reason of a dump.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reason {
    /// Cause.
    pub cause: Cause,
    /// Time, Unix nanoseconds.
    pub time_ns: u64,
    /// Id of the finding.
    pub id: Option<&'static str>,
    /// Its severity.
    pub severity: Option<Severity>,
    /// Title of the finding, or a sentence about the request.
    pub title: String,
    /// Evidence of the finding.
    pub evidence: Value,
}

impl Reason {
    /// The reason for a request.
    pub fn requested(cause: Cause, time_ns: u64) -> Self {
        let title = format!("Requested by {}", cause.words());
        Self { cause, time_ns, id: None, severity: None, title, evidence: Value::Null }
    }

    fn of(finding: &Finding, time_ns: u64) -> Self {
        Self {
            cause: Cause::Finding,
            time_ns,
            id: Some(finding.id),
            severity: Some(finding.severity),
            title: finding.title.clone(),
            evidence: serde_json::to_value(&finding.evidence).unwrap_or_default(),
        }
    }

    /// A word for the folder name.
    pub fn word(&self) -> &'static str {
        self.id.unwrap_or(match self.cause {
            Cause::Finding => "finding",
            Cause::Signal => "signal",
            Cause::Key => "key",
            Cause::Request => "request",
        })
    }
}

/// Detects findings that begin.
#[derive(Debug)]
pub struct Triggers {
    on: Pattern,
    cooldown_ns: u64,
    /// Findings active in the latest report; `None` before the first.
    known: Option<BTreeSet<String>>,
    /// Time of the latest dump per id.
    fired: BTreeMap<&'static str, u64>,
    /// Findings that began during the cooldown of their id.
    held_back: u64,
}

impl Triggers {
    /// Triggers without a report.
    pub fn new(on: Pattern, cooldown_ns: u64) -> Self {
        Self { on, cooldown_ns, known: None, fired: BTreeMap::new(), held_back: 0 }
    }

    /// Changes the trigger findings and the cooldown. Findings that are active now trigger no dump, even if the old
    /// pattern did not match them.
    pub fn change(&mut self, on: Pattern, cooldown_ns: u64) {
        if on != self.on {
            (self.on, self.known) = (on, None);
        }
        self.cooldown_ns = cooldown_ns;
    }

    /// Findings that began since the previous report; those of the first report count as known.
    pub fn take(&mut self, findings: &[Finding], time_ns: u64) -> Vec<Reason> {
        let active = || findings.iter().filter(|finding| finding.active && self.on.matches(finding.id));
        let now: BTreeSet<String> = active().map(Finding::key).collect();
        let mut reasons = Vec::new();
        if let Some(known) = &self.known {
            let began: Vec<&Finding> = active().filter(|finding| !known.contains(&finding.key())).collect();
            for finding in began {
                // A clock step beyond the cooldown ends it as well.
                let is_cool = |at: &u64| time_ns.abs_diff(*at) >= self.cooldown_ns || *at == time_ns;
                if self.fired.get(finding.id).is_none_or(is_cool) {
                    self.fired.insert(finding.id, time_ns);
                    reasons.push(Reason::of(finding, time_ns));
                } else {
                    self.held_back += 1;
                }
            }
        }
        self.known = Some(now);
        reasons
    }

    /// Number of findings so far that triggered no dump because of the cooldown of their id.
    pub const fn held_back(&self) -> u64 {
        self.held_back
    }
}
