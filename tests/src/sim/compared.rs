//! What `rocescope diff` says of a run and its baseline, as findings that the truth can be compared with.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::bench;
use super::lab::LabRun;

/// Replays the baseline, and compares its report with that of the run, which is in the folder.
pub(super) fn changes(rocescope: &Path, run: &LabRun, folder: &Path) -> Result<Value> {
    let (files, options) = run.baseline.as_ref().context("the run has no baseline")?;
    let before = folder.join("baseline");
    bench::replayed(rocescope, files, options, &before)?;
    let mut command = Command::new(rocescope);
    command.arg("diff").args([&before, folder].map(|folder| folder.join("report.json")));
    command.args(["--output", "json"]);
    Ok(claims(&bench::output(command, &folder.join("diff.json"), &folder.join("errors.txt"))?))
}

/// Each difference that is claimed: findings of another state under their ids, metrics as `diff.NAME`, those of
/// hosts as `diff.hosts.NAME` with their ends; and the change of the steps of the job.
fn claims(diff: &Value) -> Value {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let differs = |verdict: &Value| !verdict.is_null() && verdict != "same";
    let mut claims = Vec::new();
    for finding in list(&diff["findings"]).iter().filter(|finding| differs(&finding["state"])) {
        let is_new = finding["state"] == "new" || finding["state"] == "worse";
        let severity = if finding["b"].is_null() { &finding["a"] } else { &finding["b"] };
        let id = finding["id"].as_str().unwrap_or_default();
        let id = if is_new { id.to_owned() } else { format!("diff.{id}") };
        claims.push(json!({ "id": id, "severity": severity, "title": finding["title"] }));
    }
    let mut metrics = |prefix: &str, metrics: &Value, ends: (&Value, &Value)| {
        for metric in list(metrics).iter().filter(|metric| differs(&metric["verdict"])) {
            let name = metric["name"].as_str().unwrap_or_default();
            claims.push(json!({
                "id": format!("{prefix}.{name}"), "severity": "warning",
                "title": format!("{} is {}: {} → {}", name, metric["verdict"], metric["a"], metric["b"]),
                "requester": { "addr": ends.0 }, "responder": { "addr": ends.1 },
                "evidence": { "verdict": metric["verdict"] },
            }));
        }
    };
    metrics("diff", &diff["metrics"], (&Value::Null, &Value::Null));
    for pair in list(&diff["hosts"]) {
        metrics("diff.hosts", &pair["metrics"], (&pair["src"], &pair["dst"]));
    }
    json!({ "findings": claims, "steps": diff["steps"] })
}

#[cfg(test)]
mod tests {
    use super::claims;
    use serde_json::json;

    #[test]
    fn only_what_differs_is_claimed() {
        let metric =
            |name: &str, verdict: &str| json!({ "name": name, "verdict": verdict, "a": 1.0, "b": 2.0 });
        let finding =
            |id: &str, state: &str| json!({ "id": id, "state": state, "a": "info", "b": "warning" });
        let diff = json!({
            "metrics": [metric("rate", "same"), metric("lost", "worse"), { "name": "unknown", "verdict": null }],
            "findings": [finding("loss.before_tap", "new"), finding("ecn.congestion", "gone"), finding("qp.died", "same")],
            "hosts": [{ "src": "a", "dst": "b", "metrics": [metric("naks", "better"), metric("rate", "same")] }],
        });
        let claims = claims(&diff);
        let ids: Vec<_> =
            claims["findings"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
        assert_eq!(ids, ["loss.before_tap", "diff.ecn.congestion", "diff.lost", "diff.hosts.naks"]);
        assert_eq!(claims["findings"][3]["requester"]["addr"], "a");
    }
}
