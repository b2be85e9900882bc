//! Findings as log records: one when a finding begins, when its severity changes, and when it ends.

use std::collections::BTreeMap;

use super::names;
use super::proto::{AnyValue, KeyValue, LogRecord};
use crate::analysis::direction_name;
use crate::findings::{Finding, Severity};

/// Event name of these log records.
pub const EVENT: &str = "rocescope.finding";

/// The active findings of the latest report.
#[derive(Debug, Default)]
pub struct Findings(BTreeMap<String, SentFinding>);

/// Fields of a finding that the record of its end repeats.
#[derive(Debug)]
struct SentFinding {
    severity: Severity,
    title: String,
    attributes: Vec<KeyValue>,
}

impl Findings {
    /// Records of the changes since the previous report; `time_ns` is the time of this one.
    pub fn take(&mut self, findings: &[Finding], time_ns: u64) -> Vec<LogRecord> {
        let mut records = Vec::new();
        let mut now = BTreeMap::new();
        for finding in findings.iter().filter(|finding| finding.active) {
            let known = SentFinding {
                severity: finding.severity,
                title: finding.title.clone(),
                attributes: attributes(finding),
            };
            let key = finding.key();
            let state = match self.0.remove(&key) {
                None => Some("began"),
                Some(before) if before.severity != finding.severity => Some("changed"),
                Some(_) => None,
            };
            if let Some(state) = state {
                let began_ns = finding.since_ns().filter(|_| state == "began");
                records.push(record(&known, state, began_ns.unwrap_or(time_ns), time_ns));
            }
            now.insert(key, known);
        }
        for known in std::mem::replace(&mut self.0, now).into_values() {
            records.push(record(&known, "ended", time_ns, time_ns));
        }
        records
    }
}

fn attributes(finding: &Finding) -> Vec<KeyValue> {
    let mut all = vec![KeyValue::new("rocescope.finding.id", finding.id)];
    let mut add = |key: &str, value: Option<&str>| {
        all.extend(value.map(|value| KeyValue::new(key, value)));
    };
    add("rocescope.finding.owner", finding.owner);
    add("network.interface.name", finding.place.link.as_deref());
    add("network.io.direction", finding.place.direction.map(direction_name).map(names::direction));
    add("rocescope.finding.switch_port", finding.place.switch_port.as_deref());
    add("rocescope.finding.advice", Some(finding.advice.as_str()).filter(|advice| !advice.is_empty()));
    for (name, end) in [("requester", &finding.requester), ("responder", &finding.responder)] {
        let Some(end) = end else { continue };
        all.push(KeyValue::new(&format!("rocescope.{name}.address"), end.addr.to_string().as_str()));
        if let Some(pid) = end.pid {
            all.push(KeyValue::new(&format!("rocescope.{name}.pid"), i64::from(pid)));
        }
        for (what, text) in [("comm", &end.comm), ("pod", &end.pod)] {
            all.extend(text.as_deref().map(|text| KeyValue::new(&format!("rocescope.{name}.{what}"), text)));
        }
    }
    for one in finding.evidence.iter().filter(|one| !one.value.is_null()) {
        all.push(KeyValue::new(&format!("rocescope.evidence.{}", one.name), &one.value));
    }
    all
}

fn record(known: &SentFinding, state: &str, time_unix_nano: u64, observed_time_unix_nano: u64) -> LogRecord {
    // INFO, WARN and ERROR of the OTLP specification.
    let severity_number = match known.severity {
        Severity::Info => 9,
        Severity::Warning => 13,
        Severity::Critical => 17,
    };
    let mut attributes =
        vec![KeyValue::new("event.name", EVENT), KeyValue::new("rocescope.finding.state", state)];
    attributes.extend(known.attributes.iter().cloned());
    LogRecord {
        time_unix_nano,
        severity_number,
        severity_text: known.severity.name().to_owned(),
        body: Some(AnyValue::from(known.title.as_str())),
        attributes,
        observed_time_unix_nano,
        event_name: EVENT.to_owned(),
    }
}
