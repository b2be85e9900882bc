//! The programs for which files of the packages are made read them: shells the completions, CycloneDX's schema the bill
//! of materials, rpm the package.

use super::empty;
use crate::run::{root_command, run, workspace_root};
use crate::setup;
use crate::vm;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Shells, each with the argument with which it reads a script and runs nothing.
const SHELLS: [(&str, &str); 3] = [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")];

/// Every shell takes its completions, and refuses them when their last line is incomplete.
///
/// # Errors
/// Names the shell that refuses them, or is missing.
pub(super) fn completions(program: &Path, work: &Path) -> Result<()> {
    let folder = empty(work.to_path_buf())?;
    for (shell, argument) in SHELLS {
        let output = Command::new(program).args(["completions", shell]).output();
        let output = output.with_context(|| format!("cannot run {}", program.display()))?;
        ensure!(output.status.success(), "no completions for {shell}");
        let file = folder.join(shell);
        let takes = |text: &[u8]| -> Result<bool> {
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
            let mut command = Command::new(shell);
            command.arg(argument).arg(&file).stdin(Stdio::null()).stderr(Stdio::piped());
            let read = command.output().with_context(|| format!("{shell} cannot be started"))?;
            Ok(read.status.success() && read.stderr.is_empty())
        };
        ensure!(takes(&output.stdout)?, "{shell} {argument} finds a fault in its completions");
        let broken = [&output.stdout[..], b"\nif (\n"].concat();
        ensure!(!takes(&broken)?, "{shell} {argument} finds no fault where there is one");
    }
    Ok(())
}

/// The bill of materials is valid by CycloneDX's schema, and complete.
///
/// # Errors
/// The first fault, or the schema cannot be had.
pub(super) fn sbom(file: &Path) -> Result<()> {
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", setup::cyclone_dx()?).env("PYTHONDONTWRITEBYTECODE", "1");
    run(python.arg(workspace_root().join("xtask/src/package/sbom.py")).arg(file).stdin(Stdio::null()))
}

/// rpm installs, upgrades and removes the package in a root of its own, and nothing is left.
///
/// # Errors
/// What rpm says, or what is left.
pub(super) fn rpm(first: &Path, second: &Path, work: &Path) -> Result<()> {
    let folder = empty(work.to_path_buf())?;
    let script = folder.join("rpm.sh");
    fs::write(&script, include_str!("rpm.sh"))
        .with_context(|| format!("cannot write {}", script.display()))?;
    let shell = vm::shell()?;
    let mut command = root_command("bash", "installing the .rpm in a root of its own")?;
    run(command.arg(&script).arg(folder.join("root")).arg(shell).args([first, second]).stdin(Stdio::null()))
}
