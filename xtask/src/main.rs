//! rocescope's development tasks, run as `cargo xtask <task>`.

mod bench;
mod build;
mod check;
mod demo;
mod dist;
mod docs;
mod ebpf_toolchain;
mod emulated;
mod fresh;
mod fuzz;
mod gen_capture;
mod mutate;
mod package;
mod pictures;
mod programs;
mod recipe;
mod run;
mod sanitize;
mod setup;
mod test;
mod ubuntu;
mod vm;

use anyhow::{Result, anyhow};
use clap::{Parser, Subcommand};
use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

/// The profile of tasks that need optimisation.
const OPTIMISED: &str = "tasks";

/// Set up, build, run, test and check rocescope. Start it as any user: steps that need root use sudo, and print that
/// they do
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install missing tools for building and testing
    Setup {
        /// Also ClickHouse's engine for the tests of `fleet` (560 MB), which is always installed in CI
        #[arg(long)]
        clickhouse: bool,
    },
    /// Build target/release/rocescope with the kernel programs inside
    Build,
    /// Build the static, stripped executables for hosts without Rust
    Dist(dist::Dist),
    /// Build packages for hosts without Rust: archives, .deb, .rpm, each with manual pages, completions and SBOM
    Package {
        /// The targets.
        #[command(flatten)]
        wanted: dist::Dist,
        /// Build everything a second time, in a clone of the commit, and fail where the bytes differ: half an hour and
        /// more
        #[arg(long)]
        compare: bool,
    },
    /// Build, then run `rocescope demo` as root
    Demo {
        /// Arguments of `rocescope demo`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run all tests, with sudo for those that need root
    Test {
        /// Run the tests in virtual machines instead: the kernel programs on an older kernel, and those of `vm`
        #[arg(long, conflicts_with = "packages")]
        vm: bool,
        /// Run the tests of another processor instead: the program for aarch64, under emulation
        #[arg(long, conflicts_with_all = ["vm", "packages"])]
        aarch64: bool,
        /// Also run `check`, at the lowest priority, beside tests that wait
        #[arg(long, conflicts_with_all = ["vm", "packages", "aarch64"])]
        checks: bool,
        /// Test the packages instead: built twice, linted, and in a virtual machine with systemd installed, run,
        /// upgraded, purged
        #[arg(long)]
        packages: bool,
    },
    /// Test with Soft-RoCE devices in a virtual machine against perftest, rdma, tc and tshark
    Vm {
        /// Run only the tests whose names contain one of these
        names: Vec<String>,
        /// Build program and tests without optimisation: a minute instead of ten, for work on one test
        #[arg(long)]
        debug: bool,
        /// The guest's kernel: `backports` (Debian's newer one) or a version that Ubuntu has, as 5.15. Runs the tests
        /// that depend on it: the programs load and count, and follow queue pairs
        #[arg(long, value_parser = vm::Kernel::parse, default_value = "distribution")]
        kernel: vm::Kernel,
        /// The guest's processor: with `aarch64`, the kernel of Debian for it verifies the programs, which count what a
        /// replay counts, and queue pairs are followed
        #[arg(long, value_parser = vm::Processor::parse, default_value = "x86_64")]
        arch: vm::Processor,
    },
    /// Follow the README on a bare Debian and a bare Ubuntu, as a user with sudo: demonstration, tests, and the .deb
    /// without Rust. Takes an hour or more, and needs root for namespaces
    Fresh(fresh::Wanted),
    /// Measure performance, compared with other programs and with its limits
    Bench {
        /// The measurement; by default the kernel programs and replay
        #[command(subcommand)]
        measurement: Option<bench::Bench>,
    },
    /// Run rocescope on mutated captures, packets, reports and keys, in a build with checked arithmetic
    Mutate(mutate::Wanted),
    /// Make the pictures in docs/ anew, and images of every screen in each state of the snapshots at six sizes
    Pictures(pictures::Wanted),
    /// Run the fuzz targets one after the other, from seeds of the test data: the nightly run. Fails on a finding
    Fuzz(fuzz::Wanted),
    /// Run Miri on the common crate and ThreadSanitizer on replay; part of the nightly run
    Sanitize,
    /// Write a capture of synthetic RoCE traffic, reproducible from its arguments
    GenCapture(gen_capture::Generate),
    /// Check that every link of the documentation has a target, without network access
    Docs {
        /// Also build the site with mdBook (installed if missing)
        #[arg(long)]
        site: bool,
    },
    /// Run formatter, lints, documentation and other checks that need no root
    Check,
}

impl Task {
    /// True if its own code decides how long it takes, or what is compared with it.
    const fn needs_optimisation(&self) -> bool {
        matches!(self, Self::Bench { .. } | Self::GenCapture(_) | Self::Sanitize)
    }
}

/// Replaces this program by the same with optimisation, built if necessary, and the same arguments. Returns if that
/// fails.
fn optimised() -> anyhow::Error {
    let mut command = run::cargo_here();
    command.args(["run", "--quiet", "--profile", OPTIMISED, "--package", "xtask", "--"]);
    let error = command.args(env::args_os().skip(1)).exec();
    anyhow!(error).context(format!("cannot start `{}`", run::show(&command)))
}

fn main() -> ExitCode {
    let task = Cli::parse().task;
    // Only its profile has no debug assertions.
    let done =
        if cfg!(debug_assertions) && task.needs_optimisation() { Err(optimised()) } else { work(&task) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Not `main() -> Result`, which would print a backtrace with a message for the user.
        Err(error) => {
            run::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn work(task: &Task) -> Result<()> {
    match task {
        Task::Setup { clickhouse } => setup::setup(*clickhouse),
        Task::Build => build::build().map(drop),
        Task::Dist(wanted) => dist::dist(wanted),
        Task::Package { wanted, compare: false } => package::package(wanted),
        Task::Package { wanted, compare: true } => package::compare(wanted),
        Task::Demo { args } => demo::demo(args),
        Task::Test { packages: true, .. } => package::test(),
        Task::Test { vm: true, .. } => vm::test(),
        Task::Test { aarch64: true, .. } => emulated::test(),
        Task::Test { checks, .. } => test::test(*checks),
        Task::Vm { names, debug, kernel, arch } => vm::vm(names, *debug, kernel, *arch),
        Task::Fresh(wanted) => fresh::fresh(wanted),
        Task::Bench { measurement } => bench::bench(measurement.as_ref()),
        Task::Mutate(wanted) => mutate::mutate(wanted),
        Task::Pictures(wanted) => pictures::pictures(wanted),
        Task::Fuzz(wanted) => fuzz::fuzz(wanted),
        Task::Sanitize => sanitize::sanitize(),
        Task::GenCapture(wanted) => gen_capture::generate(wanted),
        Task::Docs { site } => docs::docs(*site),
        Task::Check => check::check(),
    }
}
