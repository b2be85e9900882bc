//! Programs that cargo builds once into the cache folder, separate from the user's own.

use super::cache;
use crate::run::{output_of, run, step};
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A version of a program and how to build it.
pub(super) struct Tool {
    /// The package, and the program in it.
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// Extra arguments of `cargo install`.
    pub(super) args: &'static [&'static str],
    /// Extra environment of `cargo install`.
    pub(super) env: &'static [(&'static str, &'static str)],
}

impl Tool {
    /// The folder with the program, which `cargo` builds if it is missing.
    pub(super) fn install(&self, mut cargo: Command) -> Result<PathBuf> {
        let Self { name, version, .. } = self;
        let root = cache()?.join(format!("{name}-{version}"));
        let bin = root.join("bin");
        let runs = || output_of(Command::new(bin.join(name)).arg("--version"));
        if runs().is_some_and(|printed| printed.contains(version)) {
            return Ok(bin);
        }
        step(&format!("building {name} {version} (minutes, once)"), || {
            cargo
                .args(["install", name, "--locked", "--force", "--version", version])
                .args(self.args)
                .arg("--root")
                .arg(&root)
                // Half of a build's time otherwise, for programs that run for seconds.
                .env("CARGO_PROFILE_RELEASE_LTO", "off")
                .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
                .envs(self.env.iter().copied())
                .stdin(Stdio::null());
            // The caller's build settings do not apply to this build.
            for variable in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"]
            {
                cargo.env_remove(variable);
            }
            run(&mut cargo)
        })
        .with_context(|| format!("cannot build {name}"))?;
        Ok(bin)
    }
}
