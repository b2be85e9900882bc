//! Running the program under test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::schema;

/// The program under test: `ROCESCOPE_BIN`, else the one built next to the running test.
pub fn path() -> Result<PathBuf> {
    if let Some(chosen) = std::env::var_os("ROCESCOPE_BIN") {
        let chosen = PathBuf::from(chosen);
        if !chosen.is_file() {
            bail!("ROCESCOPE_BIN names {}, which is not a file: correct or unset it", chosen.display());
        }
        return Ok(chosen);
    }
    let test = std::env::current_exe().context("the path of this test is not known")?;
    // target/<profile>/deps/<test>: the release build first, since users run it.
    for target in test.ancestors().skip(1) {
        for profile in ["release", "debug"] {
            let candidate = target.join(profile).join("rocescope");
            if candidate.is_file() {
                return Ok(candidate);
            }
        }
    }
    bail!("the program rocescope is not built: run `cargo build -p rocescope`, or set ROCESCOPE_BIN to it")
}

/// Peak resident memory of a process, in bytes.
pub fn peak_memory(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).context("the program has ended")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

/// The JSON report of `rocescope replay` over capture files, from standard output.
pub fn replay<I, S>(captures: &[PathBuf], options: I) -> Result<Value>
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = Command::new(path()?);
    command.arg("replay").args(captures).args(["--output", "json"]).args(options);
    let output = command.output().context("rocescope could not be started")?;
    let what = || captures.iter().map(|c| c.display().to_string()).collect::<Vec<_>>().join(" ");
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("rocescope replay {} ended with {}: {}", what(), output.status, why.trim());
    }
    schema::read(&output.stdout).with_context(|| format!("the report of rocescope replay {}", what()))
}

/// Removes the folders from the report's inputs, since they differ between machines.
pub fn strip_folders(report: &mut Value) {
    for input in report["source"]["inputs"].as_array_mut().into_iter().flatten() {
        let name = input.as_str().and_then(|path| Path::new(path).file_name()?.to_str().map(str::to_owned));
        if let Some(name) = name {
            *input = Value::String(name);
        }
    }
}
