//! Findings in both reports: by severity, and by the measure in their evidence.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::figure::{Better, Kind, Measure};
use super::{FindingChange, Verdict};
use crate::findings::{self, Unit};

/// What goes wrong by chance differs more from run to run than what is sent.
pub(super) const USUAL: f64 = 0.25;

/// The measures of findings by id, in the order of their ranks: what of the evidence says how bad one is.
pub(super) fn measures() -> Vec<(&'static str, Measure)> {
    let mut measured: Vec<_> =
        findings::entries().filter_map(|entry| Some((entry, entry.measure?))).collect();
    measured.sort_by_key(|(entry, _)| entry.rank);
    measured.into_iter().map(|(entry, measure)| (entry.id, compared(measure))).collect()
}

/// How the measure of a finding is compared.
const fn compared(measure: findings::Measure) -> Measure {
    let kind = match measure.unit {
        Unit::Ratio | Unit::Factor => Kind::Ratio,
        Unit::Nanoseconds => Kind::Duration,
        Unit::PerSecond => Kind::Rate,
        Unit::BitsPerSecond => Kind::BitRate,
        Unit::Count | Unit::Number | Unit::Id | Unit::Time | Unit::Bytes | Unit::Text => Kind::Number,
    };
    let better = match measure.better {
        findings::Better::More => Better::More,
        findings::Better::Less => Better::Less,
    };
    Measure { name: measure.name, kind, better, same: (USUAL, 0.0) }
}

/// Findings in either, by id: the worse ones first.
pub(super) fn changes(a: &Value, b: &Value) -> Vec<FindingChange> {
    let evaluated = (Evaluated::of(a), Evaluated::of(b));
    let (a, b) = (by_id(a), by_id(b));
    let ids: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let mut changes: Vec<FindingChange> = ids
        .into_iter()
        .map(|id| {
            let (before, after) = (a.get(id), b.get(id));
            let level = |found: Option<&Found>| found.map_or(0, |found| rank(&found.severity));
            let count = |found: Option<&Found>| found.map_or(0, |found| found.count);
            let main = findings::entry(id).and_then(|entry| entry.measure).map(compared);
            let figure = main.as_ref().map(|measure| {
                let worst = |found: Option<&Found>| found.and_then(|found| found.worst(measure));
                measure.change(worst(before), worst(after))
            });
            let by_figure = figure.as_ref().and_then(|change| change.verdict);
            let verdict = match level(after).cmp(&level(before)) {
                _ if !(evaluated.0.knows(id, before) && evaluated.1.knows(id, after)) => None,
                Ordering::Greater => Some(Verdict::Worse),
                Ordering::Less => Some(Verdict::Better),
                Ordering::Equal if by_figure.is_some_and(|verdict| verdict != Verdict::Same) => by_figure,
                Ordering::Equal if count(before) != count(after) => Some(Verdict::Changed),
                Ordering::Equal => Some(Verdict::Same),
            };
            let severity = |found: Option<&Found>| found.map(|found| found.severity.clone());
            FindingChange {
                id: id.clone(),
                a: severity(before),
                b: severity(after),
                count_a: count(before),
                count_b: count(after),
                title: after.or(before).map(|found| found.title.clone()).unwrap_or_default(),
                figure,
                verdict,
            }
        })
        .collect();
    changes.sort_by_key(|change| (change.verdict.is_none(), change.verdict));
    changes
}

/// The findings that a report evaluated.
struct Evaluated<'a> {
    /// The report has findings.
    any: bool,
    /// Kinds that were not evaluated.
    not: Vec<&'a str>,
}

impl<'a> Evaluated<'a> {
    fn of(report: &'a Value) -> Self {
        let not = report.get("unjudged").and_then(Value::as_array).into_iter().flatten();
        let not = not.filter_map(|one| one.get("id")?.as_str()).collect();
        Self { any: report.get("findings").is_some_and(Value::is_array), not }
    }

    fn knows(&self, id: &str, found: Option<&Found>) -> bool {
        found.is_some() || self.any && !self.not.contains(&id)
    }
}

struct Found {
    severity: String,
    title: String,
    count: usize,
    evidence: Vec<Value>,
}

impl Found {
    /// The worst measure of all findings of the kind.
    fn worst(&self, measure: &Measure) -> Option<f64> {
        let all = self.evidence.iter().filter_map(|evidence| evidence.get(measure.name)?.as_f64());
        all.reduce(if measure.better == Better::More { f64::min } else { f64::max })
    }
}

fn by_id(report: &Value) -> BTreeMap<String, Found> {
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    let list = report.get("findings").and_then(Value::as_array);
    for finding in list.into_iter().flatten() {
        let text = |name: &str| finding.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let one = found.entry(text("id")).or_insert_with(|| Found {
            severity: text("severity"),
            title: text("title"),
            count: 0,
            evidence: Vec::new(),
        });
        one.count += 1;
        one.evidence.extend(finding.get("evidence").cloned());
        if rank(&text("severity")) > rank(&one.severity) {
            (one.severity, one.title) = (text("severity"), text("title"));
        }
    }
    found
}

fn rank(severity: &str) -> u8 {
    match severity {
        "critical" => 3,
        "warning" => 2,
        "info" => 1,
        _ => 0,
    }
}
