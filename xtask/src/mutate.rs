//! `cargo xtask mutate`: runs rocescope on mutated input for a given time.
//!
//! The mutants are created in the tests' package, whose tests run them for two minutes; this builds it and the
//! program, with checked arithmetic, and runs them. Trees of `/proc` and `/sys` are mutated in a unit test, which runs
//! first.

use std::path::PathBuf;
use std::process::Command;

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
    /// Repeat only the tree of /proc and /sys with this number
    #[arg(long, conflicts_with = "only")]
    tree: Option<u64>,
    /// Folder for the input of failing mutants [default: target/mutants]
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Run this rocescope instead of building one
    #[arg(long)]
    bin: Option<PathBuf>,
}

/// The unit test that mutates trees of `/proc` and `/sys`.
const TREES: &str =
    "doctor::tests::hostile::mutated_trees_are_survived_in_time_and_without_control_characters";
/// Part of the time that it has: a tree is one of five kinds of input, and a unit test uses one processor.
const SHARE: u64 = 5;

/// Runs the mutated trees; nothing where one mutant of another kind is repeated.
fn trees(wanted: &Wanted) -> Option<Command> {
    if wanted.only.is_some() {
        return None;
    }
    let mut command = cargo();
    command.args([
        "test",
        "--profile",
        "checked",
        "-p",
        "rocescope",
        "--lib",
        "--",
        "--exact",
        TREES,
        "--nocapture",
    ]);
    command.env("ROCESCOPE_MUTATE_SECONDS", (wanted.minutes * 60 / SHARE).to_string());
    command.env("ROCESCOPE_MUTATE_SEED", wanted.seed.to_string());
    command.envs(wanted.tree.map(|tree| ("ROCESCOPE_MUTATE_TREE", tree.to_string())));
    Some(command)
}

/// Builds, runs and prints the failures.
pub(crate) fn mutate(wanted: &Wanted) -> Result<()> {
    const CHECKED: [&str; 3] = ["build", "--profile", "checked"];
    if let Some(mut trees) = trees(wanted) {
        step("mutated trees of /proc and /sys", || run(&mut trees))?;
    }
    if wanted.tree.is_some() {
        return Ok(());
    }
    step("building rocescope and the mutants", || {
        if wanted.bin.is_none() {
            run(cargo().args(CHECKED).args(["-p", "rocescope", "--bin", "rocescope"]))?;
        }
        run(cargo().args(CHECKED).args(["-p", "rocescope-tests", "--bin", "rocescope-mutate"]))
    })?;
    let folder = target_dir().join("checked");
    let rocescope = wanted.bin.clone().unwrap_or_else(|| folder.join("rocescope"));
    let keep = wanted.keep.clone().unwrap_or_else(|| target_dir().join("mutants"));
    let mut command = Command::new(folder.join("rocescope-mutate"));
    command.env("ROCESCOPE_BIN", std::path::absolute(rocescope)?);
    command.arg("--keep").arg(std::path::absolute(keep)?);
    for (option, value) in
        [("--seconds", Some(wanted.minutes * 60)), ("--seed", Some(wanted.seed)), ("--only", wanted.only)]
    {
        command.args(value.into_iter().flat_map(|value| [option.to_owned(), value.to_string()]));
    }
    run(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutated_trees_are_part_of_it_and_their_test_is_there() {
        let wanted = |only, tree| Wanted { minutes: 10, seed: 7, only, tree, keep: None, bin: None };
        let command = trees(&wanted(None, Some(3))).unwrap();
        assert!(command.get_args().any(|argument| argument == TREES));
        for (name, value) in [("SECONDS", "120"), ("SEED", "7"), ("TREE", "3")] {
            let name = format!("ROCESCOPE_MUTATE_{name}");
            let set = command.get_envs().find(|(own, _)| *own == name.as_str());
            assert_eq!(set.and_then(|(_, own)| own), Some(value.as_ref()), "{name}");
        }
        assert!(trees(&wanted(Some(5), None)).is_none());
        // A name that no test has would pass without a tree.
        let source = include_str!("../../analyzer/src/doctor/tests/hostile.rs");
        let name = TREES.rsplit("::").next().unwrap();
        assert!(source.contains(&format!("fn {name}()")), "{name}");
    }
}
