//! `cargo xtask bench truth`: findings of `rocescope replay` against simulated fabrics with a known truth.
//!
//! The simulator and the scoring are in the tests' package; this builds them and the program, and runs them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use super::machine;
use crate::build::build;
use crate::run::{cargo, run, step, target_dir};

/// Options of the score.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Seeds of each scenario: their number, or a range such as 8-14
    #[arg(long, default_value = "1")]
    seeds: String,
    /// Vary rates, delays, addresses, numbers and settings by the seed, if the truth does not depend on them
    #[arg(long)]
    vary: bool,
    /// Only scenarios whose name or kind contains this
    #[arg(long)]
    only: Option<String>,
    /// Keep captures, truth and reports in this folder
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Fail below 95 % correct, or above 2 % false alarms on clean controls
    #[arg(long)]
    require: bool,
    /// Score this rocescope instead of building one
    #[arg(long)]
    bin: Option<PathBuf>,
}

/// Builds, simulates, replays and prints the score.
pub(crate) fn truth(wanted: &Wanted) -> Result<()> {
    let rocescope = match &wanted.bin {
        Some(binary) => std::path::absolute(binary)?,
        None => build()?,
    };
    step("building the simulator", || {
        run(cargo().args(["build", "-p", "rocescope-tests", "--bin", "rocescope-truth"]))
    })?;
    println!("rocescope:  {}", machine::first_line(Command::new(&rocescope).arg("--version")));
    let mut command = Command::new(target_dir().join("debug/rocescope-truth"));
    command.env("ROCESCOPE_BIN", &rocescope).args(["--seeds", &wanted.seeds]);
    if let Some(only) = &wanted.only {
        command.args(["--only", only]);
    }
    if let Some(keep) = &wanted.keep {
        command.arg("--keep").arg(std::path::absolute(keep)?);
    }
    if wanted.vary {
        command.arg("--vary");
    }
    if wanted.require {
        command.arg("--require");
    }
    run(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_may_be_a_range() {
        let given = Wanted::augment_args(clap::Command::new("truth"))
            .try_get_matches_from(["truth", "--seeds", "8-14"])
            .unwrap();
        assert_eq!(given.get_one::<String>("seeds").map(String::as_str), Some("8-14"));
    }
}
