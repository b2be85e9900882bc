//! Runs `rocescope fleet`, finds engines for it, and makes recordings of captures.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::oracle::{binary, captures};
use crate::packages::{click_house_or_skip, duck_db_or_skip};

/// The answer to a question for a time range, as JSON. The source is a folder of recordings or a URL; `engine`
/// applies to folders.
///
/// # Errors
/// The program is missing, or fails.
pub fn ask(
    rocescope: &Path,
    question: &str,
    source: &str,
    engine: Option<&Path>,
    range: Option<(u64, u64)>,
) -> Result<Value> {
    let mut command = Command::new(rocescope);
    command.args(["fleet", question, source, "--output", "json"]);
    if let Some(engine) = engine {
        command.arg("--engine").arg(engine);
    }
    if let Some((from, to)) = range {
        command.args(["--from", &from.to_string(), "--to", &to.to_string()]);
    }
    let output = command.output().context("rocescope could not be started")?;
    if !output.status.success() {
        bail!(
            "fleet {question} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("the answer is not JSON")
}

/// Records captures into one folder: each host's taps.
pub fn of_captures(hosts: &[(&str, &[&str])]) -> tempfile::TempDir {
    of_captures_each(hosts, "1s")
}

/// The same, with rows of this interval.
pub fn of_captures_each(hosts: &[(&str, &[&str])], interval: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (host, captures) in hosts {
        let mut command = Command::new(binary::path().unwrap());
        command.args(["record", "--job", "training", "--interval", interval, "--host", host]);
        command.arg("--dir").arg(folder.path());
        for capture in *captures {
            command.arg("--read").arg(captures::folder().join(capture));
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    folder
}

/// Engines, each with its own program. Where `CI=true`, both.
pub fn engines(test: &str) -> Vec<PathBuf> {
    [duck_db_or_skip(test), click_house_or_skip(test)].into_iter().flatten().collect()
}

/// The engine for figures that the same SQL gives on both: DuckDB, which is several times faster. Where
/// `ROCESCOPE_ENGINES=all`, as every night, both.
pub fn engine_of_figures(test: &str) -> Vec<PathBuf> {
    let all = std::env::var_os("ROCESCOPE_ENGINES").is_some_and(|engines| engines == "all");
    if all { engines(test) } else { duck_db_or_skip(test).into_iter().collect() }
}

/// The headline about a recording, and the first row of the answer.
pub fn answer_to(folder: &Path, question: &str, engine: &Path) -> (String, Value) {
    let source = folder.to_str().unwrap();
    let answer = ask(&binary::path().unwrap(), question, source, Some(engine), None).unwrap();
    (answer["headline"].as_str().unwrap().to_owned(), answer["rows"][0].clone())
}

/// All rows of an answer.
pub fn rows(folder: &Path, question: &str, engine: &Path) -> Vec<Value> {
    let source = folder.to_str().unwrap();
    let answer = ask(&binary::path().unwrap(), question, source, Some(engine), None).unwrap();
    answer["rows"].as_array().unwrap().clone()
}
