//! The program for aarch64, under QEMU's user emulation: `cargo xtask test --aarch64`.

use crate::build::with_ebpf;
use crate::check::ensure_target;
use crate::dist::Target;
use crate::ebpf_toolchain::EbpfToolchain;
use crate::programs::{CHECKED, Programs};
use crate::run::{cargo, has_program, is_ci, run, say, step, target_dir};
use crate::setup;
use crate::vm::PROGRAMS_TEST;
use anyhow::{Result, bail};
use std::process::{Command, Stdio};

/// The integration test of this program.
pub(crate) const TEST: &str = "aarch64";
/// Environment variable with its path.
const PROGRAM: &str = "ROCESCOPE_AARCH64_BIN";
const EMULATOR: &str = "qemu-aarch64";
/// The folder of its build below the target directory: in that of other builds of the profile it would wait for their
/// lock.
const FOLDER: &str = "aarch64";

/// Builds the program as `cargo xtask dist` does but for optimisation and without a cross compiler, then runs the
/// common crate's tests and the program.
///
/// # Errors
/// A build or a test failed.
pub(crate) fn test() -> Result<()> {
    let target = Target::Arm.triple();
    setup::test_tools()?;
    let why = if has_program(EMULATOR) {
        ensure_target(target).err()
    } else {
        Some(format!("{EMULATOR} is not installed (package qemu-user)"))
    };
    if let Some(why) = why {
        if is_ci() {
            bail!("{why}");
        }
        say(&format!("SKIP aarch64: {why}"));
        return Ok(());
    }
    let toolchain = setup::ebpf_toolchain()?;
    let for_arm = |arguments: &[&str]| {
        let mut command = cargo();
        command
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld")
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER", EMULATOR)
            // Nobody debugs it.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .args(arguments)
            .args(["--target", target, "--target-dir"])
            .arg(target_dir().join(FOLDER));
        command
    };
    let tests = ["test", "--no-fail-fast", "-p", "rocescope-common", "--lib", "--tests"];
    // Emulation takes more time than the optimiser: without it the tests ran for minutes.
    step("the common crate's tests on aarch64", || {
        run(for_arm(&tests).env("CARGO_PROFILE_TEST_OPT_LEVEL", "2"))
    })?;
    step("building rocescope for aarch64", || {
        let mut command = for_arm(&["build", "-p", "rocescope"]);
        run(with_ebpf(&mut command, &toolchain).args(["--features", "live"]))
    })?;
    step("rocescope for aarch64", || run(&mut of_program(&toolchain, target)?))
}

/// The integration test, which compares the program with that of this machine.
fn of_program(toolchain: &EbpfToolchain, target: &str) -> Result<Command> {
    let programs = Programs::build(Some(toolchain), CHECKED, ["--test", TEST, "--test", PROGRAMS_TEST])?;
    let mut command = Command::new(programs.integration(TEST)?);
    command
        .arg("--show-output")
        .env("ROCESCOPE_BIN", &programs.rocescope)
        .env(PROGRAM, target_dir().join(FOLDER).join(target).join("debug/rocescope"))
        .stdin(Stdio::null());
    Ok(command)
}
