//! Two reports side by side: what got better or worse from one run to the next.
//!
//! Works on the JSON of reports, so that a capture of today compares with a report that was saved
//! months ago by another version: what one of them does not have is unknown, not 0.

mod figure;
mod finding;
mod text;

use std::collections::BTreeSet;

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
    pub metrics: Vec<Change>,
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
    /// The figure of the evidence that says how bad it is, of the worst of its kind; null when the kind has none.
    pub figure: Option<Change>,
    /// By severity, then by that figure, then by how often; a changed count at the same severity and figure is "changed".
    /// Null when one of the two runs could not come to it.
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
    pub metrics: Vec<Change>,
}

/// Compares two reports (`rocescope.report/1` as JSON), named as the user gave them.
#[must_use]
pub fn diff(a: (&str, &Value), b: (&str, &Value)) -> Diff {
    Diff {
        schema: SCHEMA,
        a: side(a),
        b: side(b),
        metrics: figure::RUN.iter().map(|figure| figure.change(a.1, b.1)).collect(),
        findings: finding::changes(a.1, b.1),
        hosts: hosts(a.1, b.1),
    }
}

fn side((name, report): (&str, &Value)) -> Side {
    let inputs = report.pointer("/source/inputs").and_then(Value::as_array);
    let inputs = inputs.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    Side { name: name.to_owned(), inputs, duration_ns: figure::duration_ns(report) }
}

fn hosts(a: &Value, b: &Value) -> Vec<Pair> {
    let (before, after) = (figure::by_hosts(a), figure::by_hosts(b));
    let keys: BTreeSet<&(String, String)> = before.keys().chain(after.keys()).collect();
    let nothing = Value::Null;
    let mut pairs: Vec<(f64, Pair)> = keys
        .into_iter()
        .filter_map(|key| {
            let (one, other) = (before.get(key).unwrap_or(&nothing), after.get(key).unwrap_or(&nothing));
            let metrics = figure::changes_of_hosts(one, other);
            let changed = metrics.iter().any(|change| !matches!(change.verdict, None | Some(Verdict::Same)))
                || before.contains_key(key) != after.contains_key(key);
            let weight = metrics.first().map_or(0.0, |rate| rate.a.unwrap_or(0.0).max(rate.b.unwrap_or(0.0)));
            changed.then(|| (weight, Pair { src: key.0.clone(), dst: key.1.clone(), metrics }))
        })
        .collect();
    // What only acknowledges is no traffic to compare.
    let all: f64 = pairs.iter().map(|(rate, _)| rate).sum();
    pairs.retain(|(rate, _)| *rate >= all * LEAST_SHARE);
    pairs.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    pairs.truncate(MAX_PAIRS);
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

/// The text of docs/diff.md.
#[must_use]
pub fn markdown() -> String {
    let row = |first: &str, second: &str, measure: &figure::Measure| {
        let better = match measure.better {
            figure::Better::More => "more",
            figure::Better::Less => "less",
            figure::Better::Neither => "neither",
        };
        format!("| `{first}` | {second} | {better} | {:.0} % |\n", 100.0 * measure.same.0)
    };
    let run = figure::RUN.iter().map(|one| row(one.measure.name, one.meaning, &one.measure));
    let findings = finding::measures();
    let findings = findings.iter().map(|(id, main)| row(id, &format!("`{}`", main.name), main));
    let of_hosts = figure::OF_HOSTS.map(|name| format!("`{name}`")).join(", ");
    format!("{HEAD}{}{HOSTS}{of_hosts}.\n{FINDINGS}{}", run.collect::<String>(), findings.collect::<String>())
}

const HEAD: &str = "\
# What `rocescope diff` compares

<!-- Made from analyzer/src/diff: change that, then run
     ROCESCOPE_BLESS=1 cargo test -p rocescope diff -->

`rocescope diff A B` holds two runs against each other, by captures or by reports saved as JSON. Its JSON has the schema `rocescope.diff/1`. Names are those of the
report (docs/metrics.md); what several taps see counts once, and what either side does not know is null and has no verdict.

## Metrics

A difference up to the last column is none: runs of the same job differ by that much (small absolute differences count for nothing, either). Shares of loss are of the
packets of all flows of which it is known.

| figure | is | better | same up to |
|---|---|---|---|
";

const HOSTS: &str = "\nOf them also for what one host sends to another (`hosts`): ";

const FINDINGS: &str = "
## Findings

Findings are compared by kind: by the worst severity; then by the figure of their evidence that says how bad it is (`findings[].figure`, of the worst of its kind),
so that a finding that is there in both and twice as bad is worse; then by how often it was raised. Kinds without such a figure are compared by the other two.

| finding | figure | better | same up to |
|---|---|---|---|
";

#[cfg(test)]
mod tests;
