//! Rows of findings.

use std::collections::BTreeMap;

use super::{Interval, Origin, text};
use crate::findings::{Finding, Hop, Place};
use crate::record::cell::Time;
use crate::record::registry;
use crate::report::Report;
use crate::sample::{Address, Direction};
use crate::util::shared::Shared;

/// Interval between two rows of an active finding.
const EVERY_NS: u64 = 60_000_000_000;

/// Identity of a finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    id: &'static str,
    link: Option<String>,
    direction: Option<Direction>,
    hop: Option<Hop>,
    ends: [Option<(Address, Option<u32>)>; 2],
    /// Index among the findings that share all of the fields above.
    number: usize,
}

/// Latest state of the findings, and the row written last.
#[derive(Debug, Default)]
pub(super) struct Findings(BTreeMap<Key, LatestFinding>);

#[derive(Debug)]
struct LatestFinding {
    /// As in the latest report.
    latest: registry::Finding,
    /// Time and JSON of the row written last.
    recorded: (Time, Shared),
}

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
            let same = |other: &&Key| Key { number: key.number, ..(*other).clone() } == key;
            key.number = present.iter().filter(same).count();
            let mut row = row(origin, at, finding);
            // It may be computed anew at each sample, from a clock that is corrected: a finding has one begin.
            if let Some(since) = self.0.get(&key).and_then(|known| known.latest.since) {
                row.since = Some(since);
            }
            let due = self.0.get(&key).is_none_or(|known| {
                let (time, json) = &known.recorded;
                (known.latest.active, &known.latest.severity) != (row.active, &row.severity)
                    || (*json != row.json && at.t.0.abs_diff(time.0) >= EVERY_NS)
            });
            self.put(key.clone(), row, due, rows);
            present.push(key);
        }
        // A finding that is missing from the report has ended: its flows have left.
        for (key, known) in &mut self.0 {
            if known.latest.active == 1 && !present.contains(key) {
                (known.latest.active, known.latest.t) = (0, at.t);
                known.recorded = (at.t, known.latest.json.clone());
                rows.push(known.latest.clone());
            }
        }
    }

    fn put(&mut self, key: Key, row: registry::Finding, due: bool, rows: &mut Vec<registry::Finding>) {
        if due {
            rows.push(row.clone());
        }
        let now = (row.t, row.json.clone());
        match self.0.get_mut(&key) {
            Some(known) => {
                known.latest = row;
                if due {
                    known.recorded = now;
                }
            }
            None => {
                self.0.insert(key, LatestFinding { latest: row, recorded: now });
            }
        }
    }

    /// Rows of those that have none since `first_ns`, as of that time.
    pub(super) fn before(&self, first_ns: u64) -> impl Iterator<Item = registry::Finding> {
        let older = self.0.values().filter(move |known| known.recorded.0.0 < first_ns);
        older.map(move |known| registry::Finding { t: Time(first_ns), ..known.latest.clone() })
    }

    /// Rows of those that have changed since their latest row.
    pub(super) fn changed(&self) -> impl Iterator<Item = registry::Finding> {
        let changed = self.0.values().filter(|known| known.recorded.1 != known.latest.json);
        changed.map(|known| known.latest.clone())
    }
}

fn key(finding: &Finding) -> Key {
    let place = &finding.place;
    let ends = finding.own_ends().map(|end| end.map(|end| (end.addr, end.qpn)));
    let Place { link, direction, hop, .. } = place.clone();
    Key { id: finding.id, link, direction, hop, ends, number: 0 }
}

fn row(origin: &Origin, at: Interval, finding: &Finding) -> registry::Finding {
    let place = &finding.place;
    let [src, dst] = finding.own_ends();
    registry::Finding {
        t: at.t,
        host: origin.host.clone(),
        job: origin.job.clone(),
        id: finding.id.into(),
        severity: finding.severity.name().into(),
        active: finding.active.into(),
        since: finding.first_seen_ns.map(Time),
        until: finding.last_seen_ns.map(Time),
        title: finding.title.as_str().into(),
        link: text(place.link.as_deref()),
        direction: place.direction,
        hop: text(place.hop.as_ref().map(ToString::to_string).as_deref()),
        switch_port: text(place.switch_port.as_deref()),
        src: src.map(|end| end.addr),
        dst: dst.map(|end| end.addr),
        packets_ratio: finding.impact.packets_ratio,
        time_lost_ns: finding.impact.time_lost_ns,
        // A finding contains only numbers, texts and lists of them, so it always serialises.
        json: serde_json::to_string(finding).unwrap_or_default().as_str().into(),
    }
}
