//! `cargo xtask test`: every test there is, also those that need root and eBPF.

use crate::build::with_ebpf;
use crate::check::ensure_target;
use crate::ebpf_toolchain::EbpfToolchain;
use crate::run::{
    cargo, has_program, is_ci, is_root, root_prefix, run, run_watched, say, show, step, target_dir,
};
use crate::setup;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variables for the tests that sudo must pass on.
const PASSED_ON: [&str; 2] = ["CI", "RUST_BACKTRACE"];

/// Environment variable with the path of the program for aarch64.
const ARM_PROGRAM: &str = "ROCESCOPE_AARCH64_BIN";

/// The results so far.
#[derive(Default)]
struct Tally {
    failed: Vec<String>,
    skipped: Vec<String>,
}

impl Tally {
    /// Runs one set of tests. A failure is kept for the end, so that one run shows all of them.
    fn tests(&mut self, name: &str, command: &mut Command) {
        let result = step(name, || run_watched(command, |line| self.skipped.extend(skip_line(line))));
        if let Err(error) = result {
            self.failed.push(format!("{name}: {error:#}"));
        }
    }

    fn skip(&mut self, what: &str, why: &str) {
        let line = format!("SKIP {what}: {why}");
        say(&line);
        self.skipped.push(line);
    }

    fn finish(self) -> Result<()> {
        for line in &self.skipped {
            say(line);
        }
        say(&format!("{} skipped", self.skipped.len()));
        if self.failed.is_empty() {
            say("all tests passed");
            return Ok(());
        }
        bail!("{} of the test runs failed:\n  {}", self.failed.len(), self.failed.join("\n  "))
    }
}

/// Sets up and runs every test.
///
/// # Errors
/// Names the sets of tests that failed. With `CI=true` also when something cannot be set up, which
/// else skips the tests that need it.
pub(crate) fn test() -> Result<()> {
    let mut tally = Tally::default();
    if let Err(error) = setup::test_tools() {
        // Under CI the tests that miss a tool fail by themselves.
        tally.skip("tests that call other programs", &format!("{error:#}"));
    }
    let toolchain = match setup::ebpf_toolchain() {
        Ok(toolchain) => Some(toolchain),
        Err(error) if is_ci() => return Err(error),
        Err(error) => {
            tally.skip("tests of the kernel programs", &format!("{error:#}"));
            None
        }
    };
    tally.tests("tests without `live`", cargo().args(["test", "--no-fail-fast", "--", "--show-output"]));
    if let Some(toolchain) = &toolchain {
        live(&mut tally, toolchain);
    }
    let arm = arm(&mut tally, toolchain.as_ref());
    match binary(toolchain.as_ref()) {
        Ok(binary) => integration(&mut tally, toolchain.as_ref(), &binary, arm),
        Err(error) => tally.failed.push(format!("{error:#}")),
    }
    tally.finish()
}

/// Runs the unit tests that exist only with feature `live`; all others have just run without it.
fn live(tally: &mut Tally, toolchain: &EbpfToolchain) {
    const NAME: &str = "unit tests behind `live`";
    let all = || {
        let mut command = cargo();
        // The same features as the lints: one build of the kernel programs serves both.
        let features = ["test", "-p", "rocescope", "--lib", "--features", "live,test-clock"];
        with_ebpf(&mut command, toolchain).args(features);
        command
    };
    let names = step("listing the unit tests behind `live`", || {
        let without = listed(cargo().args(["test", "-p", "rocescope", "--lib"]))?;
        Ok(listed(&mut all())?.difference(&without).cloned().collect::<Vec<_>>())
    });
    match names {
        Ok(names) if names.is_empty() => tally.failed.push(format!("{NAME}: there are none")),
        Ok(names) => {
            tally.tests(NAME, all().args(["--", "--show-output", "--exact"]).args(names));
        }
        Err(error) => tally.failed.push(format!("{NAME}: {error:#}")),
    }
}

/// The names of the tests that `command`, a `cargo test`, would run.
fn listed(command: &mut Command) -> Result<BTreeSet<String>> {
    command.args(["--", "--list", "--format", "terse"]).stderr(Stdio::inherit());
    let shown = show(command);
    let output = command.output().with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed: {}", output.status);
    }
    Ok(test_names(&String::from_utf8_lossy(&output.stdout)))
}

/// The names in a terse list of tests, which has benchmarks too.
fn test_names(list: &str) -> BTreeSet<String> {
    list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Runs the common crate's tests as an ARM host would: programs of that architecture, linked without
/// a cross compiler, under QEMU's user emulation. Builds the program for it too, as `cargo xtask dist`
/// does but for optimisation, and gives its place for the integration tests.
fn arm(tally: &mut Tally, toolchain: Option<&EbpfToolchain>) -> Option<PathBuf> {
    const TARGET: &str = "aarch64-unknown-linux-musl";
    const NAME: &str = "the common crate's tests on aarch64";
    const LINKER: (&str, &str) = ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld");
    if !has_program("qemu-aarch64") {
        tally.skip(NAME, "qemu-aarch64 is not installed (package qemu-user)");
        return None;
    }
    if let Err(why) = ensure_target(TARGET) {
        tally.skip(NAME, &why);
        return None;
    }
    tally.tests(
        NAME,
        cargo()
            .env(LINKER.0, LINKER.1)
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER", "qemu-aarch64")
            .args([
                "test",
                "--no-fail-fast",
                "-p",
                "rocescope-common",
                "--target",
                TARGET,
                "--lib",
                "--tests",
            ]),
    );
    let built = step("building rocescope for aarch64", || {
        let mut command = cargo();
        command.env(LINKER.0, LINKER.1).args(["build", "-p", "rocescope", "--target", TARGET]);
        if let Some(toolchain) = toolchain {
            with_ebpf(&mut command, toolchain).args(["--features", "live"]);
        }
        run(&mut command)
    });
    match built {
        Ok(()) => Some(target_dir().join(TARGET).join("debug/rocescope")),
        Err(error) => {
            tally.failed.push(format!("{error:#}"));
            None
        }
    }
}

/// Builds the program that the integration tests run.
fn binary(toolchain: Option<&EbpfToolchain>) -> Result<OsString> {
    step("building rocescope for the integration tests", || {
        let mut command = cargo();
        command.args(["build", "--profile", "checked", "-p", "rocescope"]);
        if let Some(toolchain) = toolchain {
            with_ebpf(&mut command, toolchain).args(["--features", "live,test-clock"]);
        }
        run(&mut command)
    })?;
    Ok(target_dir().join("checked/rocescope").into_os_string())
}

/// Builds the integration tests as this user and runs them as root: they make network namespaces
/// and load programs into the kernel. `arm` is the program for aarch64.
fn integration(
    tally: &mut Tally,
    toolchain: Option<&EbpfToolchain>,
    binary: &OsString,
    arm: Option<PathBuf>,
) {
    let mut command = cargo();
    command.env("ROCESCOPE_BIN", binary);
    command.envs(arm.as_ref().map(|arm| (ARM_PROGRAM, arm)));
    command.args(["test", "--no-fail-fast", "--profile", "checked", "-p", "rocescope-tests"]);
    if let Some(toolchain) = toolchain {
        with_ebpf(&mut command, toolchain).args(["--features", "live"]);
    }
    match root_prefix() {
        Some([]) => {}
        Some([sudo, ..]) => {
            say("using sudo: the integration tests need root");
            let arm = arm.map(|arm| (ARM_PROGRAM, arm.display().to_string()));
            let passed_on = PASSED_ON.iter().filter_map(|name| Some((*name, env::var(name).ok()?)));
            let passed_on = passed_on.chain(arm);
            command.arg("--config").arg(runner(sudo, Path::new(binary), passed_on));
        }
        None => {
            tally.skip("integration tests that need root", "this is neither root nor a machine with sudo");
        }
    }
    let name = if is_root() { "integration tests" } else { "integration tests (built as this user)" };
    tally.tests(name, command.args(["--", "--show-output"]));
}

/// Setting that makes cargo start test programs through sudo, with the environment they need. It
/// holds for any architecture, which a `CARGO_TARGET_*_RUNNER` variable does not.
fn runner<'a>(sudo: &str, binary: &Path, environment: impl Iterator<Item = (&'a str, String)>) -> String {
    let mut words = vec![sudo.to_owned(), "env".to_owned()];
    words.push(format!("ROCESCOPE_BIN={}", binary.display()));
    words.extend(environment.map(|(name, value)| format!("{name}={value}")));
    let words: Vec<String> = words.iter().map(|word| toml_string(word)).collect();
    format!("target.'cfg(unix)'.runner = [{}]", words.join(", "))
}

fn toml_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The line when it is one with which a test says what it did not do.
fn skip_line(line: &str) -> Option<String> {
    let line = line.trim();
    let rest = line.strip_prefix("SKIP")?;
    (rest.is_empty() || rest.starts_with([' ', ':'])).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skip_lines_are_found() {
        assert_eq!(skip_line("SKIP: no tshark").as_deref(), Some("SKIP: no tshark"));
        assert_eq!(skip_line("  SKIP needs root\n").as_deref(), Some("SKIP needs root"));
        assert_eq!(skip_line("SKIPPED frames: 3"), None);
        assert_eq!(skip_line("test skip_line ... ok"), None);
    }

    #[test]
    fn tests_are_listed_by_name() {
        let names = test_names("bench::a: test\nsource::live::b: test\nspeed: benchmark\n\n");
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["bench::a", "source::live::b"]);
    }

    #[test]
    fn runner_passes_the_environment_through_sudo() {
        let setting = runner("sudo", Path::new("/t a/r\"b"), [("CI", "true".to_owned())].into_iter());
        assert_eq!(
            setting,
            r#"target.'cfg(unix)'.runner = ["sudo", "env", "ROCESCOPE_BIN=/t a/r\"b", "CI=true"]"#
        );
    }
}
