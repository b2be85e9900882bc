//! rocescope's development tasks, run as `cargo xtask <task>`.

mod bench;
mod build;
mod check;
mod demo;
mod dist;
mod ebpf_toolchain;
mod gen_capture;
mod recipe;
mod run;
mod setup;
mod test;
mod vm;

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
    /// Build the static, stripped programs that are copied to hosts without Rust
    Dist(dist::Dist),
    /// Build, then run `rocescope demo` as root
    Demo {
        /// Arguments of `rocescope demo`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run every test, those that need root through sudo
    Test {
        /// Run instead those in a virtual machine: the live path on an older kernel, and all that `vm` runs
        #[arg(long)]
        vm: bool,
    },
    /// Watch Soft-RoCE devices in a virtual machine, and hold the report against perftest, rdma, tc and tshark
    Vm,
    /// Measure beside other programs
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Write a capture of made-up RoCE traffic, the same for the same arguments
    GenCapture(gen_capture::Generate),
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
        Task::Dist(wanted) => dist::dist(wanted),
        Task::Demo { args } => demo::demo(args),
        Task::Test { vm: false } => test::test(),
        Task::Test { vm: true } => vm::test(),
        Task::Vm => vm::vm(),
        Task::Bench(wanted) => bench::bench(wanted),
        Task::GenCapture(wanted) => gen_capture::generate(wanted),
        Task::Check => check::check(),
    }
}
