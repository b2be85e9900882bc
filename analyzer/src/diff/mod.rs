//! Comparison of two reports: metrics and findings that improved or regressed between two runs.
//!
//! Works on the JSON of reports, so that a capture compares with a report of another version: a field that one
//! of them lacks is unknown, not 0.

mod change;
mod figure;
mod finding;
mod recorded;
mod steps;
mod text;
mod value;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::util::definition::definitions;

pub use change::{Change, FindingChange, State, Verdict};
pub use recorded::NotCompared;
pub use steps::StepChange;
pub use text::text;
use value::Likeness;

/// Name and version of the schema of the comparison.
pub const SCHEMA: &str = "rocescope.diff/1";
/// Host pairs listed: those with most bytes.
const MAX_PAIRS: usize = 16;

definitions! {
    LEAST_SHARE: f64 = 0.01,
        "Minimum share of the bytes of a pair of hosts that is listed",
        "A smaller share cannot be why the job changed";
    SAME_TRAFFIC: f64 = 0.5,
        "Minimum share of the flows, and of the time, that reports of the same traffic have in common",
        "Taps miss flows of other paths, and end at other times";
}

/// The comparison of two reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The baseline report.
    pub a: Side,
    /// The report that is compared with it.
    pub b: Side,
    /// True if both are of the same traffic: most flows of each are in the other, at the same time. They are two taps
    /// then, not two runs.
    pub same_traffic: bool,
    /// Metrics of the whole run.
    pub metrics: Vec<Change>,
    /// Metrics that both reports have and that have no verdict, with the reason.
    pub not_compared: Vec<NotCompared>,
    /// Change of a step of the job; null when one of the reports has no steps.
    pub steps: Option<StepChange>,
    /// Findings in either, by id.
    pub findings: Vec<FindingChange>,
    /// Host pairs whose metrics changed, those with most bytes first.
    pub hosts: Vec<Pair>,
}

/// One of the two reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// File name as given.
    pub name: String,
    /// Inputs of the report.
    pub inputs: Vec<String>,
    /// Length of its time range in nanoseconds.
    pub duration_ns: Option<u64>,
}

/// Traffic from one host to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Source address.
    pub src: String,
    /// Destination address.
    pub dst: String,
    /// Its metrics.
    pub metrics: Vec<Change>,
}

/// Compares two reports (`rocescope.report/1` as JSON), named as the user gave them.
pub fn diff(a: (&str, &Value), b: (&str, &Value)) -> Diff {
    let likeness = Likeness::of(a.1, b.1);
    let metrics: Vec<Change> = figure::RUN.iter().map(|figure| figure.change(a.1, b.1, likeness)).collect();
    let hosts = hosts(a.1, b.1, likeness);
    let all = metrics.iter().chain(hosts.iter().flat_map(|pair| &pair.metrics));
    Diff {
        schema: SCHEMA,
        a: side(a),
        b: side(b),
        same_traffic: are_of_same_traffic(a.1, b.1),
        not_compared: recorded::not_compared(&all, likeness),
        metrics,
        steps: steps::change(a.1, b.1),
        findings: finding::changes(a.1, b.1),
        hosts,
    }
}

/// True if most flows of each report are in the other, at the same time, and they are of other inputs: two taps of one
/// run.
fn are_of_same_traffic(a: &Value, b: &Value) -> bool {
    if a.pointer("/source/inputs") == b.pointer("/source/inputs") {
        return false;
    }
    let window = |report: &Value| {
        let end = |name: &str| report.pointer(name).and_then(Value::as_u64);
        Some((end("/window/first_ns")?, end("/window/last_ns")?))
    };
    let (Some((a_first, a_last)), Some((b_first, b_last))) = (window(a), window(b)) else { return false };
    let common_ns = a_last.min(b_last).saturating_sub(a_first.max(b_first));
    let longest_ns = (a_last.saturating_sub(a_first)).max(b_last.saturating_sub(b_first));
    let [a, b] = [a, b].map(|report| value::list(report).map(value::queue_pair).collect::<BTreeSet<_>>());
    let common = a.intersection(&b).count();
    let is_most = |part: f64, all: f64| part > 0.0 && part >= all * SAME_TRAFFIC;
    is_most(common_ns as f64, longest_ns as f64) && is_most(common as f64, a.len().max(b.len()) as f64)
}

fn side((name, report): (&str, &Value)) -> Side {
    let inputs = report.pointer("/source/inputs").and_then(Value::as_array);
    let inputs = inputs.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    Side { name: name.to_owned(), inputs, duration_ns: value::duration_ns(report) }
}

fn hosts(a: &Value, b: &Value, likeness: Likeness) -> Vec<Pair> {
    let (before, after) = (value::by_hosts(a, likeness), value::by_hosts(b, likeness));
    let keys: BTreeSet<&(String, String)> = before.keys().chain(after.keys()).collect();
    let nothing = Value::Null;
    let mut pairs: Vec<(f64, Pair)> = keys
        .into_iter()
        .filter_map(|key| {
            let (one, other) = (before.get(key).unwrap_or(&nothing), after.get(key).unwrap_or(&nothing));
            let metrics = figure::changes_of_hosts(one, other, likeness);
            let changed = metrics.iter().any(|change| !matches!(change.verdict, None | Some(Verdict::Same)))
                || before.contains_key(key) != after.contains_key(key);
            let weight = metrics.first().map_or(0.0, |rate| rate.a.unwrap_or(0.0).max(rate.b.unwrap_or(0.0)));
            changed.then(|| (weight, Pair { src: key.0.clone(), dst: key.1.clone(), metrics }))
        })
        .collect();
    // Pairs with acknowledgements only are not compared.
    let all: f64 = pairs.iter().map(|(rate, _)| rate).sum();
    pairs.retain(|(rate, _)| *rate >= all * LEAST_SHARE);
    pairs.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    pairs.truncate(MAX_PAIRS);
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

/// The text of docs/diff.md.
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
    let (run, findings) = (run.collect::<String>(), findings.collect::<String>());
    let mut text = format!("{HEAD}{run}{HOSTS}{of_hosts}.\n{FINDINGS}{findings}\n## Definitions\n\n");
    for one in DEFINITIONS.iter().chain(steps::DEFINITIONS) {
        let _ = writeln!(text, "{one}");
    }
    text
}

const HEAD: &str = "\
# What `rocescope diff` compares

<!-- Made from analyzer/src/diff: change that, then run
     ROCESCOPE_BLESS=1 cargo test -p rocescope diff -->

`rocescope diff A B` compares two captures, recordings, or reports saved as JSON. Its JSON has the schema `rocescope.diff/1`. Names are those of the
report ([metrics.md](metrics.md)). Packets seen at several taps count once, and so do packets that
a capture shows twice. A value that is unknown in either report is null and has no verdict.
Percentiles of a recording are made from those of its intervals ([recording.md](recording.md)). In a comparison
with a recording they have a verdict only where it holds for all values in the ranges that the true ones lie in
(`flows[].latency_range_ns`). Retransmissions have none against a capture or a live report: a recording does not count repeated READ
requests. `not_compared` has the metrics without a verdict, and why.

## Metrics

Differences up to the last column are ignored: runs of the same job vary that much. Small absolute differences are ignored, too. Loss ratios are over the packets
of all flows whose losses are known.

| metric | source | better | same up to |
|---|---|---|---|
";

const HOSTS: &str = "\nCompared also by host pair (`hosts`): ";

const FINDINGS: &str = "
## Findings

Findings are compared by kind: first by what is active at the end (one that has ended is better: `state` is `ended`), then by the highest severity
(warning and critical are one where the measure that decides between them, of loss that of the worst host pair, is the same: chance puts two runs of one fault on both
sides of a threshold); then by the measure in their evidence (`findings[].figure`, of the worst finding of the kind), so that a finding in both reports whose measure doubled is worse; then by the time
lost (`time_lost`: `impact.time_lost_ns` per time of the report, same up to 25 %); then by their number.

| finding | measure | better | same up to |
|---|---|---|---|
";

#[cfg(test)]
mod tests;
