//! `cargo xtask bench load`: rocescope on an interface that receives at the maximum rate.
//!
//! The measurement is a program of the tests' package, because it needs root and the kernel programs; this builds and
//! runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::goal::{Goal, Row};
use super::machine;
use crate::build::{build, with_ebpf};
use crate::run::{cargo, root_command, run, step, target_dir};
use crate::setup;

/// Options of the measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Only these parts
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// Rounds of each part, instead of its default
    #[arg(long)]
    rounds: Option<u32>,
    /// Seconds of each measurement, instead of the part's default
    #[arg(long)]
    seconds: Option<f64>,
    /// Measure this rocescope instead of building one
    #[arg(long)]
    bin: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Part {
    /// Throughput without a program, with an empty program, and with rocescope attached
    Traffic,
    /// Every packet is an event
    Storm,
    /// New flows at 100,000 per second
    Scan,
    /// A scrape of the exporter with 400 flows
    Scrape,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Traffic => "traffic",
            Self::Storm => "storm",
            Self::Scan => "scan",
            Self::Scrape => "scrape",
        }
    }
}

/// Builds, measures and prints.
pub(crate) fn load(wanted: &Wanted) -> Result<()> {
    let rocescope = match &wanted.bin {
        Some(binary) => std::path::absolute(binary)?,
        None => build()?,
    };
    let tool = tool()?;
    machine::print();
    println!("rocescope:  {}", machine::first_line(Command::new(&rocescope).arg("--version")));
    let all = Part::value_variants();
    for part in if wanted.parts.is_empty() { all } else { &wanted.parts } {
        measure(&rocescope, &tool, *part, wanted)?;
    }
    Ok(())
}

/// Throughput with rocescope as a share of that with an empty program.
const FLOOD: Goal = Goal::at_least(0.9, Some(0.95));
/// Floods a veth pair and prints tables; a row for each hook and each place of the receiving end.
pub(super) fn rows(rocescope: &Path) -> Result<Vec<Row>> {
    let mut command = command(&std::path::absolute(rocescope)?, &tool()?, Part::Traffic)?;
    command.arg("--json").stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = step("flooding a veth pair", || command.output().context("cannot start the flood"))?;
    ensure!(output.status.success(), "the flood failed: {}; its last message is above", output.status);
    let ratios: Value = serde_json::from_slice(&output.stdout).context("the flood printed no JSON")?;
    Ok(flood_rows(&ratios))
}

fn flood_rows(ratios: &Value) -> Vec<Row> {
    let places = [("same_cpu", "on the sender's CPU"), ("own_cpu", "on a CPU of its own")];
    let row = |(key, place), hook| {
        let of = |program: &str| ratios[key][format!("{program} {hook}")].as_f64();
        let name = format!("veth flood {place}, {hook}, by default, of the empty program");
        Row { name, figure: of("rocescope"), unit: " ×", goal: FLOOD, floor: of("floor") }
    };
    places.into_iter().flat_map(|place| ["XDP", "TC"].map(|hook| row(place, hook))).collect()
}

/// A part of the measurement, as root.
fn command(rocescope: &Path, tool: &Path, part: Part) -> Result<Command> {
    // sudo resets the environment, so the program is named after it.
    let mut command = root_command("env", "a network namespace with a link to flood")?;
    command.arg(format!("ROCESCOPE_BIN={}", rocescope.display())).arg(tool).arg(part.name());
    Ok(command)
}

fn measure(rocescope: &Path, tool: &Path, part: Part, wanted: &Wanted) -> Result<()> {
    let mut command = command(rocescope, tool, part)?;
    if let Some(rounds) = wanted.rounds {
        command.arg("--rounds").arg(rounds.to_string());
    }
    if let Some(seconds) = wanted.seconds.filter(|_| !matches!(part, Part::Scrape)) {
        command.arg("--seconds").arg(seconds.to_string());
    }
    run(&mut command)
}

/// Builds the program that measures.
fn tool() -> Result<PathBuf> {
    let toolchain = setup::ebpf_toolchain()?;
    step("building what measures", || {
        let arguments = ["build", "--release", "-p", "rocescope-tests", "--features", "live"];
        run(with_ebpf(&mut cargo(), &toolchain).args(arguments).args(["--bin", "rocescope-load"]))
    })?;
    Ok(target_dir().join("release/rocescope-load"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_has_a_row_for_each_hook_and_place() {
        let ratios = serde_json::json!({ "same_cpu": { "rocescope XDP": 0.81, "floor XDP": 0.85, "rocescope TC": 0.91 } });
        let rows = flood_rows(&ratios);
        let figures: Vec<_> = rows.iter().map(|row| (row.figure, row.floor)).collect();
        assert_eq!(figures, [(Some(0.81), Some(0.85)), (Some(0.91), None), (None, None), (None, None)]);
        let verdicts: Vec<_> = rows.iter().map(|row| row.goal.verdict(row.figure)).collect();
        assert_eq!(verdicts, ["MISSED", "met", "not known", "not known"]);
    }
}
