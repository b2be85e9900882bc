//! `cargo xtask bench cost`: CPU time and memory of `export`, `record` and an agent with everything on at 400 flows,
//! held to their limits.
//!
//! The measurement is an integration test that needs root. It is ignored elsewhere, since it depends on the machine:
//! this command runs it with a release build, and fails when it misses a limit.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;

use super::machine;
use crate::build::build;
use crate::programs::{CHECKED, Programs};
use crate::run::{root_command, run, step};
use crate::setup;

/// Program and name of the test (`tests/tests/export/cost.rs`).
const TEST: (&str, &str) = ("export", "cost::cost_at_400_flows");

/// Options of the measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Measure this rocescope instead of building one
    #[arg(long)]
    bin: Option<PathBuf>,
}

/// Builds, measures and prints.
pub(crate) fn cost(wanted: &Wanted) -> Result<()> {
    let rocescope = match &wanted.bin {
        Some(binary) => std::path::absolute(binary)?,
        None => build()?,
    };
    let toolchain = setup::ebpf_toolchain()?;
    // All tests, as `cargo xtask test` builds them: of one alone cargo would select other features.
    let programs =
        step("building the measurement", || Programs::build(Some(&toolchain), CHECKED, ["--test", "*"]))?;
    machine::print();
    println!("rocescope:  {}", machine::first_line(Command::new(&rocescope).arg("--version")));
    // sudo resets the environment, so the program is named after it.
    let mut command = root_command("env", "a network namespace with a link to send traffic on")?;
    command.arg(format!("ROCESCOPE_BIN={}", rocescope.display())).arg(programs.integration(TEST.0)?);
    command.args(["--ignored", "--exact", TEST.1, "--nocapture"]);
    run(&mut command).context("the cost at 400 flows misses a limit, or was not measured")
}
