//! `cargo xtask bench designs`: other ways to keep flows in the kernel, beside the one that is used.

use std::env;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use clap::Args;

use super::load::tool;
use super::machine;
use crate::run::{root_command, run, step, target_dir, workspace_root};
use crate::setup::{self, in_toolchain};

/// What to measure.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Rounds in which every program has its turn
    #[arg(long, default_value_t = 21)]
    rounds: u32,
}

/// Builds, measures and prints.
///
/// # Errors
/// When something cannot be built, or the kernel refuses it.
pub(crate) fn designs(wanted: &Wanted) -> Result<()> {
    let (object, tool) = (object()?, tool()?);
    machine::print();
    let mut command = root_command(tool, "loading programs into the kernel")?;
    run(command.arg("designs").arg(object).arg("--rounds").arg(wanted.rounds.to_string()))
}

/// Builds the programs, as the build script of rocescope builds its own.
fn object() -> Result<PathBuf> {
    const TARGET: &str = "bpfel-unknown-none";
    let chosen = setup::ebpf_toolchain()?;
    let folder = target_dir().join("designs");
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(chosen.linker_dir.clone()).chain(env::split_paths(&path));
    let path = env::join_paths(folders).context("the linker's folder cannot stand in PATH")?;
    let flags = [
        format!("--cfg=bpf_target_arch=\"{}\"", env::consts::ARCH),
        "-Cdebuginfo=2".to_owned(),
        "-Clink-arg=--btf".to_owned(),
    ];
    step("building the designs", || {
        let mut command = in_toolchain(&chosen.toolchain, "cargo");
        command.current_dir(workspace_root()).stdin(Stdio::null()).env("PATH", path);
        // `core` is built from source, which a compiler that is not a nightly allows only so.
        command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        // Those of the cargo that runs this would be another compiler's.
        command.env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
        command.args(["build", "--release", "-p", "rocescope-ebpf", "--bin", "rocescope-designs"]);
        command.args(["--features", "designs", "--target", TARGET, "-Z", "build-std=core"]);
        run(command.arg("--target-dir").arg(&folder))
    })?;
    Ok(folder.join(TARGET).join("release/rocescope-designs"))
}
