//! Runs `rocescope fleet`, and finds engines for it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

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
