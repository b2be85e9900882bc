//! bpf-linker, built once into our cache folder.

use super::{cache, in_toolchain};
use crate::run::{output_of, run, step};
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A version of bpf-linker and how to build it.
pub(super) struct Linker {
    pub(super) version: &'static str,
    /// Extra arguments of `cargo install`.
    pub(super) args: &'static [&'static str],
    /// Extra environment of `cargo install`.
    pub(super) env: &'static [(&'static str, &'static str)],
}

impl Linker {
    /// The folder with the linker, which is built with `toolchain` when it is not there.
    ///
    /// # Errors
    /// The build of bpf-linker failed.
    pub(super) fn install(&self, toolchain: &str) -> Result<PathBuf> {
        let root = cache()?.join(format!("bpf-linker-{}", self.version));
        let bin = root.join("bin");
        let runs = || output_of(Command::new(bin.join("bpf-linker")).arg("--version"));
        if runs().is_some_and(|version| version.contains(self.version)) {
            return Ok(bin);
        }
        step(&format!("building bpf-linker {} (two minutes on two cores)", self.version), || {
            let mut command = in_toolchain(toolchain, "cargo");
            command
                .args(["install", "bpf-linker", "--locked", "--force", "--version", self.version])
                .args(self.args)
                .arg("--root")
                .arg(&root)
                .envs(self.env.iter().copied())
                .stdin(Stdio::null());
            // The caller's own build settings are not meant for this build.
            for variable in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"]
            {
                command.env_remove(variable);
            }
            run(&mut command)
        })
        .context("cannot build bpf-linker")?;
        Ok(bin)
    }
}
