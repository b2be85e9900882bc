//! Invariants of the findings of every report.

use serde_json::Value;

/// The catalog of findings, which the program generates.
const CATALOG: &str = include_str!("../../docs/findings.md");

/// True if a kind has no episodes, according to the catalog; `None` for an unknown kind.
pub fn lasts(id: &str) -> Option<bool> {
    let (_, section) = CATALOG.split_once(&format!("\n## {id}\n"))?;
    Some(section.split("\n## ").next()?.contains("\nEpisodes: none; "))
}

/// Faults of the findings of a report, one per line.
pub fn faults(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().map_or(&[][..], Vec::as_slice);
    let mut faults = Vec::new();
    for (at, finding) in findings.iter().enumerate() {
        let id = finding["id"].as_str().unwrap_or_default();
        let of_it =
            [times(id, finding), evidence(finding), steps(finding), causes(finding, &findings[at + 1..])];
        faults.extend(of_it.into_iter().flatten().map(|fault| format!("{id}: {fault}")));
    }
    faults
}

/// A finding has episodes, or its kind states why not.
fn times(id: &str, finding: &Value) -> Option<String> {
    let Some(lasts) = lasts(id) else { return Some("not in the catalog".to_owned()) };
    let first = finding["episodes"].as_array().and_then(|all| all.first());
    match first {
        None if !lasts => Some("no episodes".to_owned()),
        Some(_) if lasts => Some("episodes of what lasts".to_owned()),
        Some(first)
            if !finding["first_seen_ns"].is_null() && first["first_ns"] != finding["first_seen_ns"] =>
        {
            Some(format!("first seen {}, {first}", finding["first_seen_ns"]))
        }
        _ => None,
    }
}

/// Both forms of the evidence have the same figures, each with a label.
fn evidence(finding: &Value) -> Option<String> {
    let by_name = finding["evidence"].as_object()?;
    let all = finding["evidence_values"].as_array().map_or(&[][..], Vec::as_slice);
    let same = |one: &Value| one["name"].as_str().and_then(|name| by_name.get(name)) == Some(&one["value"]);
    let labelled =
        |one: &Value| one["label"].as_str().is_some_and(|label| !label.is_empty()) && one["unit"].is_string();
    let good = all.len() == by_name.len() && all.iter().all(|one| same(one) && labelled(one));
    (!good).then(|| format!("{by_name:?}, {all:?}"))
}

/// No step names the host of its command twice.
fn steps(finding: &Value) -> Option<String> {
    let steps = finding["steps"].as_array()?.iter();
    let twice = |step: &&Value| {
        let (text, host) = (step["text"].as_str().unwrap_or_default(), step["host"].as_str());
        host.is_some_and(|host| {
            text.matches(&format!("n {host}")).count() > 1 && text.contains("Run this on")
        })
    };
    steps.filter(twice).map(Value::to_string).next()
}

/// No cause of the same severity and currentness follows its effect, unless an owner determines its position or the
/// two name one another.
fn causes(finding: &Value, behind: &[Value]) -> Option<String> {
    let same = |other: &Value| {
        ["severity", "active"].iter().all(|name| other[name] == finding[name]) && other["owner"].is_null()
    };
    let has = |one: &Value, list: &str, id: &Value| one[list].as_array().is_some_and(|ids| ids.contains(id));
    let late = |other: &&Value| {
        same(other) && has(finding, "causes", &other["id"]) && !has(other, "causes", &finding["id"])
    };
    let own = finding["owner"].is_null() && finding["severity"] != "info";
    behind.iter().filter(|_| own).find(late).map(|other| format!("stands before its cause {}", other["id"]))
}
