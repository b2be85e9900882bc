//! Runs a program on a mutant, and evaluates how it ended.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::hostile::is_hostile;
use crate::schema;

/// Timeout after which a run counts as hanging: the inputs have some hundred kilobytes.
pub(super) const LONGEST: Duration = Duration::from_secs(60);

/// Result of a run.
pub(super) struct Ended {
    /// `None`: it did not end in time.
    pub(super) status: Option<ExitStatus>,
    pub(super) output: Vec<u8>,
    pub(super) errors: Vec<u8>,
}

/// Runs a command to its end, with its output in files below `folder`.
pub(super) fn run(command: &mut Command, folder: &Path) -> Result<Ended> {
    let (output, errors) = (folder.join("output"), folder.join("errors"));
    let mut child = command
        .stdout(File::create(&output)?)
        .stderr(File::create(&errors)?)
        .spawn()
        .context("rocescope could not be started")?;
    let status = wait(&mut child, LONGEST)?;
    Ok(Ended { status, output: std::fs::read(output)?, errors: std::fs::read(errors)? })
}

/// Waits for a program, and kills it after a timeout.
pub(super) fn wait(child: &mut Child, longest: Duration) -> Result<Option<ExitStatus>> {
    let end = Instant::now() + longest;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The fault of a run, if any.
pub(super) fn wrong(ended: &Ended, kind: &str) -> Option<String> {
    let Some(status) = ended.status else { return Some("did not end".to_owned()) };
    if let Some(signal) = status.signal() {
        return Some(format!("died of signal {signal}"));
    }
    let said = String::from_utf8_lossy(&ended.errors);
    if !matches!(status.code(), Some(0..=2)) || said.contains("panicked at") || said.contains("bug:") {
        return Some(format!("ended with {status}: {}", said.trim()));
    }
    if kind == "screen" {
        // Its keys end with the one that quits.
        let failed = (!status.success()).then(|| format!("ended with {status}: {}", said.trim()));
        return failed;
    }
    let output = String::from_utf8_lossy(&ended.output);
    // JSON escapes control characters, and leaves the direction of text to the reader.
    let is_json = output.starts_with('{');
    let is_bad = |c: char| if is_json { c.is_control() && c != '\n' } else { is_hostile(c) };
    if output.contains(is_bad) || said.contains(is_hostile) {
        return Some("wrote characters that control a terminal or mislead".to_owned());
    }
    if !is_json {
        return None;
    }
    let reports: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&output).into_iter().collect();
    match reports {
        Err(error) => Some(format!("wrote no JSON: {error}")),
        Ok(reports) => reports.iter().filter(|report| report.get("totals").is_some()).find_map(|report| {
            let invalid = schema::check(report).err().map(|error| format!("against the schema: {error}"));
            invalid.or_else(|| unbalanced(report))
        }),
    }
}

/// A sum in a report that is inconsistent.
fn unbalanced(report: &Value) -> Option<String> {
    let n = |value: &Value| value.as_u64().map_or(0, u128::from);
    let sum = |list: &Value| -> u128 {
        let all = list.as_array().into_iter().flatten();
        all.map(|one| n(&one["packets"])).sum()
    };
    let totals = &report["totals"];
    let skipped: u128 = totals["skipped"].as_object().into_iter().flatten().map(|(_, count)| n(count)).sum();
    let lost = n(&totals["lost"]["flow_table_full"]) + n(&totals["lost"]["contended"]);
    let flows = sum(&report["flows"]) + n(&totals["retired"]["packets"]) + lost;
    let roce = n(&totals["roce_packets"]);
    let ratio = |value: &Value| value.as_f64().is_none_or(|ratio| (0.0..=1.0).contains(&ratio));
    if n(&totals["packets"]) != roce + skipped {
        Some(format!("packets do not add up: {totals}"))
    } else if flows != roce || sum(&report["links"]) != roce {
        Some(format!("packets of flows and links are not the total: {totals}"))
    } else if !ratio(&totals["ce_ratio"]) {
        Some(format!("no ratio: {totals}"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_with(raw_status: i32, output: &str, errors: &str) -> Option<String> {
        let status = Some(ExitStatus::from_raw(raw_status));
        wrong(&Ended { status, output: output.into(), errors: errors.into() }, "file")
    }

    #[test]
    fn what_is_wrong_is_seen() {
        let report = |flows: u64, roce: u64| {
            serde_json::json!({
                "totals": {
                    "packets": roce + 2, "roce_packets": roce, "skipped": { "not_roce": 2 }, "ce_ratio": null,
                    "retired": { "packets": 0 }, "lost": { "flow_table_full": 1, "contended": 0 },
                },
                "flows": [{ "packets": flows }],
                "links": [{ "packets": roce }],
            })
        };
        assert_eq!(unbalanced(&report(4, 5)), None);
        assert!(unbalanced(&report(5, 5)).is_some());
        let invalid = wrong_with(0, &report(4, 5).to_string(), "").unwrap();
        assert!(invalid.starts_with("against the schema: "), "{invalid}");
        assert_eq!(wrong_with(1 << 8, "", "rocescope: not a capture\n"), None, "refused");
        assert_eq!(wrong_with(0, "{\"name\": \"\u{202E}\"}", ""), None, "JSON is not for people");
        for (status, output, errors) in [
            (101 << 8, String::new(), "thread 'main' panicked at x.rs:1"),
            (9, String::new(), ""),
            (1 << 8, String::new(), "bug: source thread ended unexpectedly"),
            (0, "{\"totals\":".to_owned(), ""),
            (0, "LINK \u{1b}[31m".to_owned(), ""),
            (0, "LINK \u{9b}31m".to_owned(), ""),
            (0, "LINK \u{202E}0rt".to_owned(), ""),
            (0, "{\"a\": \"\u{9b}31m\"}".to_owned(), ""),
            (1 << 8, String::new(), "rocescope: link \u{2066}x"),
        ] {
            assert!(wrong_with(status, &output, errors).is_some(), "{status} {output} {errors}");
        }
        let endless = Ended { status: None, output: Vec::new(), errors: Vec::new() };
        assert_eq!(wrong(&endless, "file").as_deref(), Some("did not end"));
    }
}
