//! `cargo xtask mutate`: runs rocescope on mutated input for a given time.
//!
//! The mutants are created in the tests' package, whose tests run them for two minutes; this builds it and the
//! program, with checked arithmetic, and runs them.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::run::{cargo, run, step, target_dir};

/// Options of the run.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Minutes for which new mutants are made
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Seed of the mutants
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Repeat only the mutant with this number
    #[arg(long)]
    only: Option<u64>,
    /// Folder for the input of failing mutants [default: target/mutants]
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Run this rocescope instead of building one
    #[arg(long)]
    bin: Option<PathBuf>,
}

/// Builds, runs and prints the failures.
///
/// # Errors
/// If something cannot be built or run, or a mutant failed.
pub(crate) fn mutate(wanted: &Wanted) -> Result<()> {
    const CHECKED: [&str; 3] = ["build", "--profile", "checked"];
    step("building rocescope and the mutants", || {
        if wanted.bin.is_none() {
            run(cargo().args(CHECKED).args(["-p", "rocescope", "--bin", "rocescope"]))?;
        }
        run(cargo().args(CHECKED).args(["-p", "rocescope-tests", "--bin", "rocescope-mutate"]))
    })?;
    let folder = target_dir().join("checked");
    let rocescope = wanted.bin.clone().unwrap_or_else(|| folder.join("rocescope"));
    let keep = wanted.keep.clone().unwrap_or_else(|| target_dir().join("mutants"));
    let mut command = std::process::Command::new(folder.join("rocescope-mutate"));
    command.env("ROCESCOPE_BIN", std::path::absolute(rocescope)?);
    command.arg("--keep").arg(std::path::absolute(keep)?);
    for (option, value) in
        [("--seconds", Some(wanted.minutes * 60)), ("--seed", Some(wanted.seed)), ("--only", wanted.only)]
    {
        command.args(value.into_iter().flat_map(|value| [option.to_owned(), value.to_string()]));
    }
    run(&mut command)
}
