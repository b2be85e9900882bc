//! rocescope's development tasks, run as `cargo xtask <task>`.

mod build;
mod check;
mod demo;
mod ebpf_toolchain;
mod recipe;
mod run;
mod setup;
mod test;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Sets up, builds, runs, tests and checks rocescope. None of it needs to be started as root: what
/// does need root goes through sudo, and says so.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what building and testing need and this machine lacks
    Setup,
    /// Build target/release/rocescope with the kernel programs inside
    Build,
    /// Build, then run `rocescope demo` as root
    Demo {
        /// Arguments of `rocescope demo`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run every test, those that need root through sudo
    Test,
    /// Run formatter, lints, documentation and other checks that need no root
    Check,
}

fn main() -> ExitCode {
    match work(&Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        // Not `main() -> Result`: that prints a backtrace for what is a message to the user.
        Err(error) => {
            run::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn work(task: &Task) -> Result<()> {
    match task {
        Task::Setup => setup::setup(),
        Task::Build => build::build().map(drop),
        Task::Demo { args } => demo::demo(args),
        Task::Test => test::test(),
        Task::Check => check::check(),
    }
}
