//! `cargo xtask build`: the release binary with the kernel programs inside.

use crate::ebpf_toolchain::{EbpfToolchain, LINKER_DIR_VAR, SHARED_DIR_VAR, TOOLCHAIN_VAR};
use crate::run::{cargo, output_of, run, say, step, target_dir, workspace_root};
use crate::setup;
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// Sets up, builds and prints the location of the binary.
///
/// # Errors
/// Errors of set-up or build.
pub(crate) fn build() -> Result<PathBuf> {
    let toolchain = setup::ebpf_toolchain()?;
    step("building rocescope (release)", || {
        run(with_ebpf(&mut cargo(), &toolchain).envs(commit()).args([
            "build",
            "--release",
            "-p",
            "rocescope",
            "--features",
            "live",
        ]))
    })?;
    let binary = target_dir().join("release/rocescope");
    say(&format!("built {}", binary.display()));
    Ok(binary)
}

/// The commit, shown in `--version`. Only for programs to be distributed, since each commit would recompile the
/// tests.
pub(crate) fn commit() -> Option<(&'static str, String)> {
    let git =
        |arguments: &[&str]| output_of(Command::new("git").current_dir(workspace_root()).args(arguments));
    let number = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|list| !list.trim().is_empty());
    Some(("ROCESCOPE_COMMIT", format!("{}{}", number.trim(), if changed { ", changed" } else { "" })))
}

/// Passes to the build script the compiler, the linker and the folder in which all profiles and targets build the
/// kernel programs; otherwise each of them would compile `core` and the programs again.
pub(crate) fn with_ebpf<'a>(command: &'a mut Command, toolchain: &EbpfToolchain) -> &'a mut Command {
    command
        .env(TOOLCHAIN_VAR, &toolchain.toolchain)
        .env(LINKER_DIR_VAR, &toolchain.linker_dir)
        .env(SHARED_DIR_VAR, target_dir().join("ebpf"))
}
