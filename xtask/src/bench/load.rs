//! `cargo xtask bench load`: rocescope on an interface that receives at the maximum rate.
//!
//! The measurement is a program of the tests' package, because it needs root and the kernel programs; this builds and
//! runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use clap::{Args, ValueEnum};

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
///
/// # Errors
/// Fails if something cannot be built, or counts are wrong.
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

fn measure(rocescope: &Path, tool: &Path, part: Part, wanted: &Wanted) -> Result<()> {
    // sudo resets the environment, so the program is named after it.
    let mut command = root_command("env", "a network namespace with a link to flood")?;
    command.arg(format!("ROCESCOPE_BIN={}", rocescope.display())).arg(tool).arg(part.name());
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
