//! `cargo xtask build`: the release binary with the kernel programs inside.

use crate::ebpf_toolchain::{EbpfToolchain, LINKER_DIR_VAR, SHARED_DIR_VAR, TOOLCHAIN_VAR};
use crate::run::{cargo, run, say, step, target_dir};
use crate::setup;
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

/// Sets up, builds and says where the binary is.
///
/// # Errors
/// Of the set-up or of the build.
pub(crate) fn build() -> Result<PathBuf> {
    let toolchain = setup::ebpf_toolchain()?;
    step("building rocescope (release)", || {
        run(with_ebpf(&mut cargo(), &toolchain).args([
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

/// Passes the compiler and the linker to the build script, and the folder in which all profiles and targets
/// build the kernel programs: each of them would otherwise compile `core` and the programs again.
pub(crate) fn with_ebpf<'a>(command: &'a mut Command, toolchain: &EbpfToolchain) -> &'a mut Command {
    command
        .env(TOOLCHAIN_VAR, &toolchain.toolchain)
        .env(LINKER_DIR_VAR, &toolchain.linker_dir)
        .env(SHARED_DIR_VAR, target_dir().join("ebpf"))
}
