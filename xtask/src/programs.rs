//! The program under test and the test programs, from one build.
//!
//! The features of a dependency depend on the packages that a run of cargo builds. Everything built in one profile
//! therefore comes from runs for the same packages: any other selection would recompile most dependencies.

use crate::build::with_ebpf;
use crate::check::ensure_target;
use crate::dist::Target;
use crate::ebpf_toolchain::EbpfToolchain;
use crate::run::{cargo, show, workspace_root};
use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The profile for running tests: optimised, with checked arithmetic.
pub(crate) const CHECKED: &str = "checked";
/// The profile for development: built in a minute, and slow.
pub(crate) const DEBUG: &str = "dev";
/// The package of the integration tests, which need root, a program and the kernel.
pub(crate) const INTEGRATION: &str = "rocescope-tests";
const PACKAGES: [&str; 4] = ["rocescope", "rocescope-common", INTEGRATION, "xtask"];
// Without `?`, cargo reads these features as those of a dependency, too, and enables the optional one of the
// integration tests.
const LIBRARY: &str = "rocescope?/live,rocescope?/test-clock,rocescope?/tls";
const FOREIGN: &str = "rocescope?/live,rocescope?/test-clock";
const TESTS: &str = "rocescope-tests/live";

/// Features of a build.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Features {
    All,
    /// Those of unit tests: with its feature `live`, the helpers of the integration tests would need the whole
    /// library again, unoptimised.
    Units,
    /// Those of integration tests on another processor.
    Foreign,
}

/// What cargo builds for the integration tests.
pub(crate) const INTEGRATION_TESTS: [&str; 2] = ["--test", "*"];
/// What it builds for the unit tests.
pub(crate) const UNIT_TESTS: [&str; 3] = ["--lib", "--bin", "xtask"];

/// Path of rocescope, and the test programs.
type Built = (Option<PathBuf>, Vec<TestProgram>);

/// Adds the packages to a cargo command, with features for the kernel programs if these can be built.
pub(crate) fn select<'a>(
    command: &'a mut Command,
    features: Features,
    toolchain: Option<&EbpfToolchain>,
) -> &'a mut Command {
    // The tasks are for this machine.
    let is_wanted = |package: &&&str| features != Features::Foreign || **package != "xtask";
    command.args(PACKAGES.iter().filter(is_wanted).flat_map(|package| ["-p", package]));
    if let Some(toolchain) = toolchain {
        let library = if features == Features::Foreign { FOREIGN } else { LIBRARY };
        with_ebpf(command, toolchain).args(["--features", library]);
        if features != Features::Units {
            command.args(["--features", TESTS]);
        }
    }
    command
}

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestProgram {
    pub(crate) package: String,
    /// Name of the file below `tests/`, or of the crate for unit tests.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// The package's folder, in which cargo would start it.
    pub(crate) folder: PathBuf,
}

/// Result of a build.
pub(crate) struct Programs {
    /// Program rocescope itself.
    pub(crate) rocescope: PathBuf,
    pub(crate) tests: Vec<TestProgram>,
}

impl Programs {
    /// Builds rocescope and the test programs of `selection`, which are cargo arguments, in this profile. Without
    /// `toolchain` the tests of the kernel programs are left out.
    ///
    /// # Errors
    /// The command that failed.
    pub(crate) fn build<'a>(
        toolchain: Option<&EbpfToolchain>,
        profile: &str,
        selection: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self> {
        Self::of(build(Features::All, toolchain, profile, None, selection)?)
    }

    /// The same as static programs for a machine with another processor. Without TLS, which takes a C compiler for it.
    ///
    /// # Errors
    /// The command that failed.
    pub(crate) fn foreign<'a>(
        toolchain: &EbpfToolchain,
        profile: &str,
        target: Target,
        selection: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self> {
        ensure_target(target.triple()).map_err(|why| anyhow!("{why}"))?;
        Self::of(build(Features::Foreign, Some(toolchain), profile, Some(target), selection)?)
    }

    fn of((rocescope, tests): Built) -> Result<Self> {
        Ok(Self { rocescope: rocescope.context("cargo built no rocescope")?, tests })
    }

    /// The integration test with this name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn integration(&self, name: &str) -> Result<&Path> {
        let mut all = self.tests.iter();
        let found = all.find(|program| program.package == INTEGRATION && program.name == name);
        found.map(|program| program.path.as_path()).with_context(|| format!("cargo built no test {name}"))
    }
}

/// Builds the unit tests in the development profile, since optimising a crate again for its tests takes longer than
/// running them unoptimised.
///
/// # Errors
/// The command that failed.
pub(crate) fn units(toolchain: Option<&EbpfToolchain>) -> Result<Vec<TestProgram>> {
    Ok(build(Features::Units, toolchain, DEBUG, None, UNIT_TESTS)?.1)
}

/// A build of the crates of others, without what needs the kernel programs, until it is dropped.
pub(crate) struct DependencyBuild(Option<Child>);

impl DependencyBuild {
    /// Of those that the integration tests need in this profile, or the unit tests in [`DEBUG`]. It has the lowest
    /// priority.
    pub(crate) fn of(profile: &str) -> Self {
        let toolchain = EbpfToolchain { toolchain: "none".to_owned(), linker_dir: PathBuf::from("/nowhere") };
        let (features, selection) = if profile == DEBUG {
            // With the crates that only tests need, which give others further features.
            (Features::Units, &["--tests"][..])
        } else {
            (Features::All, &INTEGRATION_TESTS[..])
        };
        let mut command = cargo();
        command.args(["build", "--keep-going", "--profile", profile]);
        select(&mut command, features, Some(&toolchain)).args(selection);
        let mut patient = Command::new("nice");
        patient.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
        patient.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        patient
            .current_dir(workspace_root())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // With its compilers, a group of processes.
        Self(patient.process_group(0).spawn().ok())
    }
}

impl Drop for DependencyBuild {
    fn drop(&mut self) {
        let Some(child) = &mut self.0 else { return };
        // It may have ended.
        let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
        let _ = child.wait();
    }
}

/// Builds `selection`: rocescope, if needed, and tests.
fn build<'a>(
    features: Features,
    toolchain: Option<&EbpfToolchain>,
    profile: &str,
    target: Option<Target>,
    selection: impl IntoIterator<Item = &'a str>,
) -> Result<Built> {
    let mut command = cargo();
    command.args(["test", "--no-run", "--profile", profile, "--message-format", "json-render-diagnostics"]);
    select(&mut command, features, toolchain).args(selection);
    if let Some(target) = target {
        // `strip` of this machine does not know its programs.
        let strip = format!("CARGO_PROFILE_{}_STRIP", profile.to_uppercase());
        command.args(["--target", target.triple()]).envs(target.foreign_linker()).env(strip, "symbols");
    }
    let shown = show(&command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed: {}", output.status);
    }
    Ok(built(&String::from_utf8_lossy(&output.stdout)))
}

/// The programs named in cargo's messages.
fn built(messages: &str) -> Built {
    let (mut rocescope, mut tests) = (None, Vec::new());
    for line in messages.lines() {
        let Some((program, is_test)) = program(line) else { continue };
        if is_test {
            tests.push(program);
        } else if program.package == "rocescope" && program.name == "rocescope" {
            rocescope = Some(program.path);
        }
    }
    (rocescope, tests)
}

/// The program in a message of cargo, and true if it is a test.
fn program(message: &str) -> Option<(TestProgram, bool)> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let name = message["target"]["name"].as_str()?.to_owned();
    // The id ends in `#name@version`, or in `/name#version` if the folder has the package's name.
    let id = message["package_id"].as_str()?;
    let (place, end) = id.rsplit_once('#')?;
    let package = end.split_once('@').map_or_else(|| place.rsplit('/').next(), |(name, _)| Some(name))?;
    let program = TestProgram { package: package.to_owned(), name, path, folder };
    Some((program, message["profile"]["test"].as_bool()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, name: &str, test: bool, executable: &str) -> String {
        serde_json::json!({
            "reason": "compiler-artifact",
            "package_id": id,
            "manifest_path": "/w/tests/Cargo.toml",
            "target": { "name": name },
            "profile": { "test": test },
            "executable": (!executable.is_empty()).then_some(executable),
        })
        .to_string()
    }

    #[test]
    fn programs_are_found_in_cargos_messages() {
        let lines = [
            message("path+file:///w/analyzer#rocescope@0.1.0", "rocescope", false, "/t/rocescope"),
            message("path+file:///w/analyzer#rocescope@0.1.0", "rocescope", true, "/t/rocescope-1"),
            message("path+file:///w/tests#rocescope-tests@0.1.0", "demo", true, "/t/demo-1"),
            message("path+file:///w/xtask#0.1.0", "xtask", true, "/t/xtask-1"),
            message("path+file:///w/tests#rocescope-tests@0.1.0", "rocescope_tests", false, ""),
            "warning: text".to_owned(),
        ];
        let (rocescope, tests) = built(&lines.join("\n"));
        let found = Programs { rocescope: rocescope.unwrap(), tests };
        assert_eq!(found.rocescope, Path::new("/t/rocescope"));
        let tests: Vec<_> = found.tests.iter().map(|test| (&*test.package, &*test.name)).collect();
        assert_eq!(tests, [("rocescope", "rocescope"), ("rocescope-tests", "demo"), ("xtask", "xtask")]);
        assert_eq!(found.integration("demo").unwrap(), Path::new("/t/demo-1"));
        assert!(found.integration("rocescope").is_err());
        assert!(built(&lines[1]).0.is_none(), "rocescope itself was not built");
    }
}
