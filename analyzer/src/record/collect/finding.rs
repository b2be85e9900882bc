//! Rows of findings.

use std::collections::BTreeMap;

use super::{Interval, Origin, text};
use crate::findings::{Finding, Severity};
use crate::record::cell::Time;
use crate::record::registry;
use crate::report::Report;
use crate::sample::{Address, Direction};

/// Time between two rows of a finding that goes on.
const EVERY_NS: u64 = 60_000_000_000;

/// Id, link, direction, hop, both ends, and its number among those that have all of these in common.
type Key = (
    &'static str,
    Option<String>,
    Option<Direction>,
    Option<String>,
    [Option<(Address, Option<u32>)>; 2],
    usize,
);

/// Findings by their latest row.
#[derive(Debug, Default)]
pub(super) struct Findings(BTreeMap<Key, registry::Finding>);

impl Findings {
    pub(super) fn take(
        &mut self,
        origin: &Origin,
        at: Interval,
        report: &Report,
        rows: &mut Vec<registry::Finding>,
    ) {
        let mut present: Vec<Key> = Vec::new();
        for finding in &report.findings {
            let mut key = key(finding);
            key.5 = present
                .iter()
                .filter(|other| {
                    (&other.0, &other.1, &other.2, &other.3, &other.4)
                        == (&key.0, &key.1, &key.2, &key.3, &key.4)
                })
                .count();
            let known = self.0.get(&key);
            let due = known.is_none_or(|known| {
                known.active != u64::from(finding.active)
                    || *known.severity != *severity(finding.severity)
                    || (*known.title != *finding.title && at.t.0.saturating_sub(known.t.0) >= EVERY_NS)
            });
            if due {
                let row = row(origin, at, finding);
                rows.push(row.clone());
                self.0.insert(key.clone(), row);
            }
            present.push(key);
        }
        // What the report does not have any more has ended: its flows are gone.
        for (key, known) in &mut self.0 {
            if known.active == 1 && !present.contains(key) {
                (known.active, known.t) = (0, at.t);
                rows.push(known.clone());
            }
        }
    }
}

fn key(finding: &Finding) -> Key {
    let place = &finding.place;
    let ends =
        [&finding.requester, &finding.responder].map(|end| end.as_ref().map(|end| (end.addr, end.qpn)));
    (finding.id, place.link.clone(), place.direction, place.hop.clone(), ends, 0)
}

const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

fn row(origin: &Origin, at: Interval, finding: &Finding) -> registry::Finding {
    let place = &finding.place;
    registry::Finding {
        t: at.t,
        host: origin.host.clone(),
        job: origin.job.clone(),
        id: finding.id.into(),
        severity: severity(finding.severity).into(),
        active: finding.active.into(),
        since: finding.first_seen_ns.map(Time),
        until: finding.last_seen_ns.map(Time),
        title: finding.title.as_str().into(),
        link: text(place.link.as_deref()),
        direction: place.direction,
        hop: text(place.hop.as_deref()),
        switch_port: text(place.switch_port.as_deref()),
        src: finding.requester.as_ref().map(|end| end.addr),
        dst: finding.responder.as_ref().map(|end| end.addr),
        packets_ratio: finding.impact.packets_ratio,
        time_lost_ns: finding.impact.time_lost_ns,
        // A finding has numbers, texts and lists of them: it is always JSON.
        json: serde_json::to_string(finding).unwrap_or_default().as_str().into(),
    }
}
