//! Findings in both reports: by severity, and by the measure in their evidence.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::change::{Change, FigureUnit, FindingChange, State, Verdict};
use super::figure::{Better, FAULTS, Measure};
use crate::findings::{self, Severity, Unit};

/// The measures of findings by id, in the order of their ranks: what of the evidence says how bad one is.
pub(super) fn measures() -> Vec<(&'static str, Measure)> {
    let mut measured: Vec<_> =
        findings::entries().filter_map(|entry| Some((entry, entry.measure?))).collect();
    measured.sort_by_key(|(entry, _)| entry.rank);
    measured.into_iter().map(|(entry, measure)| (entry.id, compared(entry.id, measure))).collect()
}

/// Comparison of a finding by its measure.
fn compared(id: &str, measure: findings::Measure) -> Measure {
    let kind = match measure.unit {
        Unit::Ratio => FigureUnit::Ratio,
        Unit::Factor => FigureUnit::Factor,
        Unit::Nanoseconds => FigureUnit::Duration,
        Unit::PerSecond => FigureUnit::Rate,
        Unit::BitsPerSecond => FigureUnit::BitRate,
        Unit::Bytes => FigureUnit::Bytes,
        Unit::Count | Unit::Number | Unit::Id | Unit::Time | Unit::Text | Unit::Link => FigureUnit::Number,
    };
    let better = match measure.better {
        findings::Better::More => Better::More,
        findings::Better::Less => Better::Less,
    };
    Measure {
        name: measure.name,
        label: findings::evidence_label(id, measure.name),
        kind,
        better,
        same: (FAULTS, 0.0),
    }
}

/// Time lost to findings of a kind, per time of the report.
const TIME_LOST: Measure = Measure {
    name: "time_lost_ratio",
    label: "time lost",
    kind: FigureUnit::Ratio,
    better: Better::Less,
    same: (FAULTS, 0.001),
};

/// Findings in either, by id: the worse ones first.
pub(super) fn changes(a: &Value, b: &Value) -> Vec<FindingChange> {
    let evaluated = (Evaluated::of(a), Evaluated::of(b));
    let (a, b) = (by_id(a), by_id(b));
    let ids: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let one = |id: &String| {
        let (before, after) = (a.get(id), b.get(id));
        let known = evaluated.0.knows(id, before) && evaluated.1.knows(id, after);
        change(id, before, after, known)
    };
    let mut changes: Vec<FindingChange> = ids.into_iter().map(one).collect();
    changes.sort_by_key(|change| (change.verdict.is_none(), change.verdict));
    changes
}

/// One kind in both: by what is active, then by severity, by its measure, by the time lost, by number.
fn change(
    id: &str,
    before: Option<&FindingSummary>,
    after: Option<&FindingSummary>,
    known: bool,
) -> FindingChange {
    let main = findings::entry(id).and_then(|entry| entry.measure);
    let figure = main.map(|measure| {
        let measure = compared(id, measure);
        let worst = |found: Option<&FindingSummary>| found.and_then(|found| found.worst(&measure));
        measure.change(worst(before), worst(after))
    });
    // Chance puts two runs of one fault on both sides of a threshold: then its figure says whether they differ.
    let is_alike = main.filter(|measure| measure.grades).is_some_and(|measure| {
        let measure = compared(id, measure);
        let grading = |found: Option<&FindingSummary>| found.and_then(|found| found.grading(&measure));
        measure.change(grading(before), grading(after)).verdict == Some(Verdict::Same)
    });
    let most = if is_alike { Severity::Warning } else { Severity::Critical };
    let lost = |found: Option<&FindingSummary>| found.and_then(|found| found.time_lost_ratio);
    let time_lost = (lost(before).is_some() || lost(after).is_some())
        .then(|| TIME_LOST.change(lost(before), lost(after)));
    let by = |change: Option<&Change>| {
        change.and_then(|change| change.verdict).filter(|verdict| *verdict != Verdict::Same)
    };
    let at_most = |severity: Option<Severity>| severity.map(|one| one.min(most));
    let level = |found: Option<&FindingSummary>| {
        found.map_or((None, None), |found| (at_most(found.active), at_most(Severity::named(&found.severity))))
    };
    let count = |found: Option<&FindingSummary>| found.map_or(0, |found| found.count);
    let verdict = match level(after).cmp(&level(before)) {
        Ordering::Greater => Verdict::Worse,
        Ordering::Less => Verdict::Better,
        Ordering::Equal => by(figure.as_ref())
            .or(by(time_lost.as_ref()))
            .unwrap_or(if count(before) == count(after) { Verdict::Same } else { Verdict::Changed }),
    };
    let state = match (before, after) {
        (None, _) => State::New,
        (_, None) => State::Gone,
        (Some(before), Some(after)) if before.active.is_some() && after.active.is_none() => State::Ended,
        _ => State::of(verdict),
    };
    let severity = |found: Option<&FindingSummary>| found.map(|found| found.severity.clone());
    FindingChange {
        id: id.to_owned(),
        a: severity(before),
        b: severity(after),
        active_a: before.map(|found| found.active.is_some()),
        active_b: after.map(|found| found.active.is_some()),
        count_a: count(before),
        count_b: count(after),
        title: after.or(before).map(|found| found.title.clone()).unwrap_or_default(),
        figure,
        time_lost,
        verdict: known.then_some(verdict),
        state: known.then_some(state),
    }
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

    fn knows(&self, id: &str, found: Option<&FindingSummary>) -> bool {
        found.is_some() || self.any && !self.not.contains(&id)
    }
}

struct FindingSummary {
    severity: String,
    title: String,
    /// The highest severity of an active one; `None` where all have ended.
    active: Option<Severity>,
    /// Time lost per time of the report, of all of them; `None` where it is not known.
    time_lost_ratio: Option<f64>,
    count: usize,
    /// Of each of them, with its severity.
    evidence: Vec<(Option<Severity>, Value)>,
}

impl FindingSummary {
    /// The worst measure of all findings of the kind.
    fn worst(&self, measure: &Measure) -> Option<f64> {
        let all = self.evidence.iter().filter_map(|(_, evidence)| evidence.get(measure.name)?.as_f64());
        all.reduce(if measure.better == Better::More { f64::min } else { f64::max })
    }

    /// The largest measure that decides between warning and critical: of loss that of the worst host pair, not that of
    /// all, nor of packets that may have been reordered.
    fn grading(&self, measure: &Measure) -> Option<f64> {
        let graded = self.evidence.iter().filter(|(severity, _)| *severity > Some(Severity::Info));
        let of = |evidence: &Value| {
            evidence.get("worst_ratio").or_else(|| evidence.get(measure.name)).and_then(Value::as_f64)
        };
        graded.filter_map(|(_, evidence)| of(evidence)).reduce(f64::max)
    }
}

fn by_id(report: &Value) -> BTreeMap<String, FindingSummary> {
    let mut found: BTreeMap<String, FindingSummary> = BTreeMap::new();
    let duration_ns = super::value::duration_ns(report);
    let findings = report.get("findings").and_then(Value::as_array);
    for finding in findings.into_iter().flatten() {
        let text = |name: &str| finding.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let one = found.entry(text("id")).or_insert_with(|| FindingSummary {
            severity: text("severity"),
            title: text("title"),
            active: None,
            time_lost_ratio: None,
            count: 0,
            evidence: Vec::new(),
        });
        one.count += 1;
        // Reports without the field had no end of findings.
        if finding.get("active").and_then(Value::as_bool).unwrap_or(true) {
            one.active = one.active.max(Severity::named(&text("severity")));
        }
        let lost = finding.pointer("/impact/time_lost_ns").and_then(Value::as_f64);
        if let Some((lost, length)) = lost.zip(duration_ns).filter(|(_, length)| *length > 0) {
            *one.time_lost_ratio.get_or_insert(0.0) += lost / length as f64;
        }
        let severity = Severity::named(&text("severity"));
        one.evidence.extend(finding.get("evidence").map(|evidence| (severity, evidence.clone())));
        if severity > Severity::named(&one.severity) {
            (one.severity, one.title) = (text("severity"), text("title"));
        }
    }
    found
}
