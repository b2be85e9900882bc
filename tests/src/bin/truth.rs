//! Scores `rocescope replay` on simulated fabrics, for `cargo xtask bench truth`.

use std::ops::RangeInclusive;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use rocescope_tests::oracle::binary;
use rocescope_tests::sim::bench::{self, Options};
use rocescope_tests::sim::scenarios;

const MOST_FALSE_ALARMS: f64 = 0.02;
const LEAST_RIGHT: f64 = 0.95;

fn main() -> ExitCode {
    rocescope_tests::exit_status(work())
}

fn work() -> Result<()> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options =
        Options { rocescope: binary::path()?, seeds: 1..=1, vary: false, only: None, keep: None, jobs };
    let mut require = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--seeds" => {
                options.seeds = seeds(&value()?).context("--seeds needs a number, or two as 8-14")?;
            }
            "--only" => options.only = Some(value()?),
            "--keep" => options.keep = Some(value()?.into()),
            "--vary" => options.vary = true,
            "--require" => require = true,
            other => bail!("unknown argument {other}"),
        }
    }
    let outcomes = bench::run(&scenarios::all(), &options)?;
    bench::print(&outcomes);
    let (faults, controls) = bench::totals(&outcomes);
    let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
    if require
        && (faults.runs > 0 && share(faults.right, faults.runs) < LEAST_RIGHT
            || share(controls.runs - controls.right, controls.runs) > MOST_FALSE_ALARMS)
    {
        bail!("the goal is at least 95 % right, and at most 2 % false alarms on controls");
    }
    Ok(())
}

/// The seeds up to a number, or from one to another.
fn seeds(text: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = text.split_once('-').unwrap_or(("1", text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}
