//! `cargo xtask bench fleet`: questions of `rocescope fleet` over the recordings of a simulated fleet with known
//! faults.
//!
//! The simulator and the time measurement are in the tests' package; this builds them and the program, and runs them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use super::machine;
use crate::build::{build, with_ebpf};
use crate::run::{cargo, run, step, target_dir};
use crate::setup;

/// Options of the measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Hosts of the fleet
    #[arg(long, default_value_t = 1_000)]
    hosts: u64,
    /// Seconds of the time range of each fault
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Also measure ClickHouse (560 MB to install)
    #[arg(long)]
    clickhouse: bool,
    /// NICs that process RoCE: contexts of queue pairs and counters, no packets
    #[arg(long)]
    offloaded: bool,
    /// Keep the recording in this folder, and reuse an existing one
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Measure this rocescope instead of building one
    #[arg(long)]
    bin: Option<PathBuf>,
}

/// Builds, simulates, queries and prints.
pub(crate) fn fleet(wanted: &Wanted) -> Result<()> {
    let packages = setup::test_packages()?;
    setup::engines(&packages, wanted.clickhouse)?;
    let rocescope = match &wanted.bin {
        Some(binary) => std::path::absolute(binary)?,
        None => build()?,
    };
    let toolchain = setup::ebpf_toolchain()?;
    step("building the simulator", || {
        let arguments =
            ["build", "--release", "-p", "rocescope-tests", "--features", "live", "--bin", "rocescope-fleet"];
        run(with_ebpf(&mut cargo(), &toolchain).args(arguments))
    })?;
    machine::print();
    println!("rocescope:  {}", machine::first_line(Command::new(&rocescope).arg("--version")));
    let mut command = Command::new(target_dir().join("release/rocescope-fleet"));
    command.env("ROCESCOPE_BIN", &rocescope).env("ROCESCOPE_PACKAGES", &packages);
    command.args(["--hosts", &wanted.hosts.to_string(), "--seconds", &wanted.seconds.to_string()]);
    if let Some(folder) = &wanted.keep {
        command.arg("--keep").arg(std::path::absolute(folder)?);
    }
    for (is_wanted, option) in [(wanted.clickhouse, "--clickhouse"), (wanted.offloaded, "--offloaded")] {
        if is_wanted {
            command.arg(option);
        }
    }
    run(&mut command)
}
