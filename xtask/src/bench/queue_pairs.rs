//! `cargo xtask bench queue-pairs`: CPU time, memory and queries of the layers that follow 10,000 queue pairs, held to
//! their limits.
//!
//! The measurement is a unit test that needs the library's recorded feeds. It is ignored elsewhere, since it depends on
//! the machine: this command runs it, and fails when it misses a limit.

use anyhow::{Context as _, Result};
use clap::Args;

use super::machine;
use crate::build::with_ebpf;
use crate::run::{cargo, run, step};
use crate::setup;

/// Name of the test (`source/live/queue_pair_load_tests.rs`).
const TEST: &str = "ten_thousand_queue_pairs_cost_little";

/// Options of the measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Profile of cargo to build in; `checked` is that of the tests, and some 30 % slower
    #[arg(long, default_value = "release")]
    profile: String,
}

/// Measures, and prints the figures.
pub(crate) fn queue_pairs(wanted: &Wanted) -> Result<()> {
    let toolchain = setup::ebpf_toolchain()?;
    let command = |last: &[&str]| {
        let mut command = cargo();
        with_ebpf(&mut command, &toolchain)
            .args(["test", "--profile", &wanted.profile, "-p", "rocescope", "--features"])
            .args(["live,test-clock,tls", "--lib", TEST])
            .args(last);
        command
    };
    step("building the measurement", || run(&mut command(&["--no-run"])))?;
    machine::print();
    run(&mut command(&["--", "--ignored", "--nocapture"]))
        .context("10,000 queue pairs miss a limit: the line with `missed` names it")
}
