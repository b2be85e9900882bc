//! `rocescope replay` as a user runs it, on captures made here byte by byte.
#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod craft;
mod input;
#[path = "../../../tests/src/schema.rs"]
#[allow(unreachable_pub, reason = "shared with the integration tests")]
mod schema;
mod select;
mod stream;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The command, not yet run.
fn rocescope(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocescope"));
    command.args(args);
    command
}

/// Runs `rocescope replay` to its end.
fn replay(args: &[&str]) -> Output {
    rocescope(&["replay"]).args(args).output().unwrap()
}

/// The report of a run that has to succeed, and what it said besides.
fn report(args: &[&str]) -> (Value, String) {
    let output = replay(&[args, &["--output", "json"]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?}: {said}");
    let report = schema::read(&output.stdout).unwrap();
    conserved(&report);
    (report, said)
}

/// Every frame is accounted for once.
fn conserved(report: &Value) {
    let totals = &report["totals"];
    let n = |value: &Value| value.as_u64().unwrap();
    let skipped: u64 = totals["skipped"].as_object().unwrap().values().map(n).sum();
    assert_eq!(n(&totals["packets"]), n(&totals["roce_packets"]) + skipped, "{totals}");
    let flows: u64 = report["flows"].as_array().unwrap().iter().map(|flow| n(&flow["packets"])).sum();
    let elsewhere = n(&totals["retired"]["packets"]) + n(&totals["lost"]["flow_table_full"]);
    assert_eq!(n(&totals["roce_packets"]), flows + elsewhere, "{totals}");
}

/// Names of the links in a report.
fn links(report: &Value) -> Vec<&str> {
    report["links"].as_array().unwrap().iter().map(|link| link["name"].as_str().unwrap()).collect()
}

/// Writes a file into `folder` and gives its path.
fn file(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}
