//! `cargo xtask check`: all checks that need no root.

mod advisories;
mod kernel;
mod length;

use crate::docs;
use crate::ebpf_toolchain::EbpfToolchain;
use crate::programs::{self, Features};
use crate::run::{cargo, has_program, is_ci, output_of, run, say, step, target_dir};
use crate::setup;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// The package of the benchmarks, which tests do not build.
const BENCHMARKS: &str = "rocescope-benches";

/// The results so far.
#[derive(Default)]
struct Checks {
    /// In continuous integration.
    ci: bool,
    passed: usize,
    failed: Vec<String>,
    skipped: Vec<String>,
}

impl Checks {
    /// Runs one check. Failures are collected, so that one run shows all of them.
    fn check(&mut self, name: &str, work: impl FnOnce() -> Result<()>) {
        match step(name, work) {
            Ok(()) => self.passed += 1,
            Err(error) => self.failed.push(format!("{name}: {error:#}")),
        }
    }

    /// A check whose tool set-up could not install: skipped, and failed in continuous integration.
    fn without_tool(&mut self, name: &str, why: &str) {
        if self.ci {
            self.failed.push(format!("{name}: {why}"));
        } else {
            self.skip(name, why);
        }
    }

    fn skip(&mut self, name: &str, why: &str) {
        let line = format!("SKIP {name}: {why}");
        say(&line);
        self.skipped.push(line);
    }
}

/// Runs every check.
///
/// # Errors
/// Names the checks that failed.
pub(crate) fn check() -> Result<()> {
    let mut checks = Checks { ci: is_ci(), ..Checks::default() };
    let toolchain = setup::ebpf_toolchain();
    if let Err(error) = &toolchain {
        checks.without_tool("checks with feature `live`", &format!("{error:#}"));
    }
    let ebpf = toolchain.as_ref().ok();
    checks.check("files of at most 600 lines", length::check);
    checks.check("comments of at most 120 characters", length::check_comments);
    checks.check("links of the documentation", docs::check);
    format(&mut checks);
    lints(&mut checks, ebpf);
    rustdoc(&mut checks, ebpf);
    checks.check("fuzz targets, and the library without `live`", fuzz_targets);
    licences(&mut checks);
    advisories::check(&mut checks);

    for line in &checks.skipped {
        say(line);
    }
    say(&format!(
        "{} checks passed, {} failed, {} skipped",
        checks.passed,
        checks.failed.len(),
        checks.skipped.len()
    ));
    if checks.failed.is_empty() {
        return Ok(());
    }
    bail!("{} checks failed:\n  {}", checks.failed.len(), checks.failed.join("\n  "))
}

fn format(checks: &mut Checks) {
    match component("rustfmt", "fmt") {
        Ok(()) => checks.check("format", || run(cargo().args(["fmt", "--all", "--check"]))),
        Err(why) => checks.without_tool("format", &why),
    }
}

fn lints(checks: &mut Checks, ebpf: Option<&EbpfToolchain>) {
    match component("clippy", "clippy") {
        Ok(()) => checks.check("lints", || {
            let mut command = cargo();
            programs::select(command.arg("clippy"), Features::All, ebpf);
            run(command.args(["-p", BENCHMARKS, "--all-targets", "--", "-D", "warnings"]))
        }),
        Err(why) => checks.without_tool("lints", &why),
    }
    kernel::lints(checks, ebpf);
}

fn rustdoc(checks: &mut Checks, ebpf: Option<&EbpfToolchain>) {
    checks.check("documentation", || {
        let mut command = cargo();
        command.env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--no-deps"]);
        // With feature `live`, the helpers of the integration tests would need the whole library compiled once more.
        programs::select(&mut command, Features::Units, ebpf);
        run(&mut command)
    });
}

/// The fuzz targets are a workspace of their own, which the nightly run builds. Checking them needs neither its
/// compiler nor libFuzzer, which a C++ compiler would build. They use the library without `live`, so that this is the
/// check of that build, too: without warnings.
fn fuzz_targets() -> Result<()> {
    let mut command = cargo();
    command.args(["check", "--quiet", "--manifest-path", "fuzz/Cargo.toml", "--locked", "--bins"]);
    command.arg("--target-dir").arg(target_dir().join("fuzz-check"));
    command.env("RUSTFLAGS", "-D warnings");
    run(command.env("CUSTOM_LIBFUZZER_PATH", target_dir().join("fuzz-check/libnone.a")))
}

fn licences(checks: &mut Checks) {
    const NAME: &str = "licences, sources and duplicates of dependencies";
    match setup::deny() {
        // Builds fetch what this platform needs; licences are checked for all platforms.
        Ok(mut deny) => checks.check(NAME, || {
            run(cargo().args(["fetch", "--locked"]))?;
            run(deny.args(["--offline", "--all-features", "check", "licenses", "bans", "sources"]))
        }),
        Err(error) => checks.without_tool(NAME, &format!("{error:#}")),
    }
}

/// Ensures that the active toolchain has a component, `cargo <subcommand>`.
fn component(name: &str, subcommand: &str) -> Result<(), String> {
    let there = || output_of(cargo().args([subcommand, "--version"])).is_some();
    if there() {
        return Ok(());
    }
    say(&format!("adding {name} to the active toolchain"));
    let added = run(Command::new("rustup").args(["component", "add", name]).stdin(Stdio::null()));
    match added {
        Ok(()) if there() => Ok(()),
        Ok(()) => Err(format!("{name} was added, but does not run")),
        Err(error) => Err(format!("{name} is not installed: {error:#}")),
    }
}

/// True if the active toolchain can build for `target`.
fn has_target(target: &str) -> bool {
    output_of(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))
        .is_some_and(|dir| Path::new(dir.trim()).exists())
}

/// Ensures that the active toolchain can build for `target`.
///
/// # Errors
/// The reason, with the remedy.
pub(crate) fn ensure_target(target: &str) -> Result<(), String> {
    if has_target(target) {
        return Ok(());
    }
    let remedy = format!(
        "`rustup target add {target}` installs it; without rustup, install the distribution's standard library for it"
    );
    if !has_program("rustup") {
        return Err(format!(
            "the compiler has no standard library for {target}, and there is no rustup: {remedy}"
        ));
    }
    say(&format!("adding the target {target} to the active toolchain"));
    run(Command::new("rustup").args(["target", "add", target]).stdin(Stdio::null()))
        .map_err(|error| format!("the target is not installed: {error:#}; {remedy}"))?;
    if has_target(target) {
        Ok(())
    } else {
        Err("the target was added, but rustc does not find it".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_missing_tool_cannot_check_is_skipped_and_fails_in_continuous_integration() {
        for ci in [false, true] {
            let mut checks = Checks { ci, ..Checks::default() };
            checks.without_tool("format", "rustfmt is not installed");
            checks.skip("advisories", "no network");
            assert_eq!((checks.failed.len(), checks.skipped.len()), if ci { (1, 1) } else { (0, 2) });
        }
    }
}
