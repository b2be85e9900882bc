//! Two reports side by side: what got better or worse from one run to the next.
//!
//! Works on the JSON of reports, so that a capture of today compares with a report that was saved
//! months ago by another version: what one of them does not have is unknown, not 0.

mod figure;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

pub use text::text;

/// Name and version of the schema of the comparison.
pub const SCHEMA: &str = "rocescope.diff/1";
/// Host pairs that are listed, those that changed most.
const MAX_PAIRS: usize = 16;

/// Share of the bytes below which a pair is not listed.
const LEAST_SHARE: f64 = 0.01;

/// What a change means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Worse than before.
    Worse,
    /// Better than before.
    Better,
    /// Other than before, which is neither good nor bad.
    Changed,
    /// The same within what runs of the same thing differ by.
    Same,
}

/// The comparison of two reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What the first report is of.
    pub a: Side,
    /// What the second is of.
    pub b: Side,
    /// Figures of the whole run.
    pub figures: Vec<Change>,
    /// Findings in either, by id.
    pub findings: Vec<FindingChange>,
    /// Traffic from one host to another whose figures changed, those with most bytes first.
    pub hosts: Vec<Pair>,
}

/// One of the two.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// As given.
    pub name: String,
    /// Inputs of the report.
    pub inputs: Vec<String>,
    /// Length of its window.
    pub duration_ns: Option<u64>,
}

/// A figure in both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Name with its unit.
    pub name: &'static str,
    /// Before; null when not known.
    pub a: Option<f64>,
    /// After; null when not known.
    pub b: Option<f64>,
    /// b / a − 1; null when either is not known or a is 0.
    pub change_ratio: Option<f64>,
    /// Null when either is not known.
    pub verdict: Option<Verdict>,
    #[serde(skip)]
    kind: figure::Kind,
}

/// A kind of finding in both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FindingChange {
    /// Its id.
    pub id: String,
    /// The worst severity before; null when it was not raised, or could not be.
    pub a: Option<String>,
    /// The worst severity after.
    pub b: Option<String>,
    /// How often it was raised before.
    pub count_a: usize,
    /// How often after.
    pub count_b: usize,
    /// The title after, or else before.
    pub title: String,
    /// By severity, then by how often; a changed count at the same severity is "changed". Null when one of the
    /// two runs could not come to it.
    pub verdict: Option<Verdict>,
}

/// What one host sends to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Source address.
    pub src: String,
    /// Destination address.
    pub dst: String,
    /// Its figures.
    pub figures: Vec<Change>,
}

/// Compares two reports (`rocescope.report/1` as JSON), named as the user gave them.
#[must_use]
pub fn diff(a: (&str, &Value), b: (&str, &Value)) -> Diff {
    Diff {
        schema: SCHEMA,
        a: side(a),
        b: side(b),
        figures: figure::run().iter().map(|figure| figure.change(a.1, b.1)).collect(),
        findings: findings(a.1, b.1),
        hosts: hosts(a.1, b.1),
    }
}

fn side((name, report): (&str, &Value)) -> Side {
    let inputs = report.pointer("/source/inputs").and_then(Value::as_array);
    let inputs = inputs.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    Side { name: name.to_owned(), inputs, duration_ns: figure::duration_ns(report) }
}

fn findings(a: &Value, b: &Value) -> Vec<FindingChange> {
    let judged = (Judged::of(a), Judged::of(b));
    let (a, b) = (by_id(a), by_id(b));
    let ids: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let mut changes: Vec<FindingChange> = ids
        .into_iter()
        .map(|id| {
            let (before, after) = (a.get(id), b.get(id));
            let level = |found: Option<&Found>| found.map_or(0, |found| rank(&found.severity));
            let count = |found: Option<&Found>| found.map_or(0, |found| found.count);
            let verdict = match level(after).cmp(&level(before)) {
                _ if !(judged.0.knows(id, before) && judged.1.knows(id, after)) => None,
                std::cmp::Ordering::Greater => Some(Verdict::Worse),
                std::cmp::Ordering::Less => Some(Verdict::Better),
                std::cmp::Ordering::Equal if count(before) != count(after) => Some(Verdict::Changed),
                std::cmp::Ordering::Equal => Some(Verdict::Same),
            };
            let severity = |found: Option<&Found>| found.map(|found| found.severity.clone());
            FindingChange {
                id: id.clone(),
                a: severity(before),
                b: severity(after),
                count_a: count(before),
                count_b: count(after),
                title: after.or(before).map(|found| found.title.clone()).unwrap_or_default(),
                verdict,
            }
        })
        .collect();
    changes.sort_by_key(|change| (change.verdict.is_none(), change.verdict));
    changes
}

/// What a report can say of findings.
struct Judged<'a> {
    /// It has a list of them.
    any: bool,
    /// Those it could not come to.
    not: Vec<&'a str>,
}

impl<'a> Judged<'a> {
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
        });
        one.count += 1;
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

fn hosts(a: &Value, b: &Value) -> Vec<Pair> {
    let (before, after) = (figure::by_hosts(a), figure::by_hosts(b));
    let keys: BTreeSet<&(String, String)> = before.keys().chain(after.keys()).collect();
    let nothing = Value::Null;
    let mut pairs: Vec<(f64, Pair)> = keys
        .into_iter()
        .filter_map(|key| {
            let (one, other) = (before.get(key).unwrap_or(&nothing), after.get(key).unwrap_or(&nothing));
            let figures: Vec<Change> =
                figure::pair().iter().map(|figure| figure.change(one, other)).collect();
            let changed = figures.iter().any(|change| !matches!(change.verdict, None | Some(Verdict::Same)))
                || before.contains_key(key) != after.contains_key(key);
            let weight = figures.first().map_or(0.0, |rate| rate.a.unwrap_or(0.0).max(rate.b.unwrap_or(0.0)));
            changed.then(|| (weight, Pair { src: key.0.clone(), dst: key.1.clone(), figures }))
        })
        .collect();
    // What only acknowledges is no traffic to compare.
    let all: f64 = pairs.iter().map(|(rate, _)| rate).sum();
    pairs.retain(|(rate, _)| *rate >= all * LEAST_SHARE);
    pairs.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    pairs.truncate(MAX_PAIRS);
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

#[cfg(test)]
mod tests;
