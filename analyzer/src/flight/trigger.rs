//! When a dump is made: a finding begins, or somebody asks.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::pattern::Pattern;
use crate::findings::{Finding, Severity};

/// What makes a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A finding began.
    Finding,
    /// SIGUSR1.
    Signal,
    /// The key of the terminal UI.
    Key,
    /// A request on the unix socket.
    Request,
}

impl Cause {
    /// In words, for those that are no finding.
    const fn words(self) -> &'static str {
        match self {
            Self::Finding => "a finding",
            Self::Signal => "SIGUSR1",
            Self::Key => "a key of the terminal UI",
            Self::Request => "a request on the unix socket",
        }
    }
}

/// Why a dump was made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reason {
    /// What asked for it.
    pub cause: Cause,
    /// Time, Unix nanoseconds.
    pub time_ns: u64,
    /// Id of the finding.
    pub id: Option<&'static str>,
    /// Its severity.
    pub severity: Option<Severity>,
    /// The sentence.
    pub title: String,
    /// The figures that it is based on.
    pub evidence: Value,
}

impl Reason {
    /// Somebody asked.
    #[must_use]
    pub fn asked(cause: Cause, time_ns: u64) -> Self {
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

    /// A word for the name of a folder.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.id.unwrap_or(match self.cause {
            Cause::Finding => "finding",
            Cause::Signal => "signal",
            Cause::Key => "key",
            Cause::Request => "request",
        })
    }
}

/// Follows findings.
#[derive(Debug)]
pub struct Triggers {
    on: Pattern,
    cooldown_ns: u64,
    /// Those active in the latest report; `None` before the first.
    known: Option<BTreeSet<String>>,
    /// When each id last made a dump.
    fired: BTreeMap<&'static str, u64>,
    /// Findings that began during the cooldown of their id.
    held_back: u64,
}

impl Triggers {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(on: Pattern, cooldown_ns: u64) -> Self {
        Self { on, cooldown_ns, known: None, fired: BTreeMap::new(), held_back: 0 }
    }

    /// Other findings, another cooldown. Those that are active now and were not among the ones before make no dump.
    pub fn change(&mut self, on: Pattern, cooldown_ns: u64) {
        if on != self.on {
            (self.on, self.known) = (on, None);
        }
        self.cooldown_ns = cooldown_ns;
    }

    /// Findings that began since the report before; those of the first report were there already.
    pub fn take(&mut self, findings: &[Finding], time_ns: u64) -> Vec<Reason> {
        let active = || findings.iter().filter(|finding| finding.active && self.on.matches(finding.id));
        let now: BTreeSet<String> = active().map(Finding::key).collect();
        let mut reasons = Vec::new();
        if let Some(known) = &self.known {
            let began: Vec<&Finding> = active().filter(|finding| !known.contains(&finding.key())).collect();
            for finding in began {
                // A clock that steps ends the time as well.
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

    /// Findings so far that made no dump since their id was in its cooldown.
    #[must_use]
    pub const fn held_back(&self) -> u64 {
        self.held_back
    }
}
