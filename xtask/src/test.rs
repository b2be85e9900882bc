//! `cargo xtask test`: all tests, including those that need root and eBPF.

mod lanes;
mod reachable;

use crate::ebpf_toolchain::EbpfToolchain;
use crate::emulated;
use crate::programs::{self, CHECKED, DEBUG, DependencyBuild, INTEGRATION, Programs, TestProgram};
use crate::run::{is_ci, root_prefix, say, step, target_dir};
use crate::setup;
use anyhow::{Context as _, Result, anyhow, bail};
use lanes::LaneProgram;
use reachable::Reachable;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs, thread};

/// Number of test programs that run at the same time: one more than two CPUs have work for, since most of them wait for
/// traffic, timers and programs.
const LANES: usize = 3;

/// The longest tests, which start first, so that the others fill the lanes.
const LONG: [&str; 17] = [
    PATIENT,
    "fleet",
    "export",
    "fleet_unknown",
    "record",
    "fleet_figures",
    "live_cli",
    "tui_replay",
    "replay_vs_tshark",
    "robust",
    "tui",
    "truth",
    "share",
    "layers",
    "progress",
    "hijacked",
    "tui_tmux",
];

/// Tests that saturate the machine, measure time or inspect loaded programs system-wide: nothing runs beside them.
const ALONE: [&str; 5] = ["load", "races", "seqlock", "live_timing", "live_findings"];

/// The same, but for each other: one of them loads no program, and the other uses one processor.
const LAST: [&str; 2] = ["replay_scale", "verifier"];

/// What `--checks` adds: its name, and the task of this program.
const CHECKS: (&str, &str) = ("checks", "check");

/// Seconds after which [`CHECKS`] hang.
const BESIDE_LIMIT: &str = "2400";

/// A test that works for a given time: it takes the processors when others leave them.
const PATIENT: &str = "mutation";

/// Environment variables that sudo must pass to the tests.
const PASSED_ON: [&str; 3] = ["CI", "RUST_BACKTRACE", "ROCESCOPE_ENGINES"];

/// Environment variable with the folder of unpacked packages.
const PACKAGES: &str = "ROCESCOPE_PACKAGES";

/// File below the folder of logs with the failures of the last run, which `.ci/run` prints last.
const FAILURES: &str = "failures";

/// Number of lines of a failed program's messages that [`FAILURES`] repeats.
const REPEATED: usize = 60;

/// The results so far.
#[derive(Default)]
struct Tally {
    failed: Vec<String>,
    /// What the failed programs printed about their failures.
    messages: Vec<String>,
    skipped: Vec<String>,
    /// Tests that passed at the second attempt.
    second: Vec<String>,
}

impl Tally {
    /// Records the result of a test program.
    fn ended(&mut self, name: &str, output: &str, result: Result<()>) {
        self.skipped.extend(output.lines().filter_map(skip_line));
        if let Err(error) = result {
            self.failed.push(format!("{name}: {error:#}"));
            self.messages.push(format!("{name}:\n{}", failure_messages(output)));
        }
    }

    /// The same of tasks of this program, whose messages begin with its name.
    fn tasks_ended(&mut self, tasks: Vec<(String, String, Result<()>)>) {
        for (name, output, result) in tasks {
            for line in output.lines().filter_map(|line| skip_line(line.trim().strip_prefix("xtask: ")?)) {
                // Checks say it twice.
                if !self.skipped.contains(&line) {
                    self.skipped.push(line);
                }
            }
            self.ended(&name, &output, result);
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
        if !self.second.is_empty() {
            say(&format!("passed at the second try: {}", self.second.join(" ")));
        }
        if self.failed.is_empty() {
            say("all tests passed");
            return Ok(());
        }
        let failed =
            format!("{} of the test runs failed:\n  {}", self.failed.len(), self.failed.join("\n  "));
        let file = logs().join(FAILURES);
        fs::write(&file, format!("{}\n{failed}\n", self.messages.join("\n")))
            .with_context(|| format!("cannot write {}", file.display()))?;
        bail!(failed)
    }
}

/// Sets up and runs every test, and with `checks` the [`CHECKS`].
///
/// # Errors
/// Names the sets of tests that failed. With `CI=true` also fails if something cannot be set up; otherwise
/// the tests that need it are skipped.
pub(crate) fn test(checks: bool) -> Result<()> {
    let mut tally = Tally::default();
    // Of the run before, if any.
    let _ = fs::remove_file(logs().join(FAILURES));
    let ready = OnceLock::new();
    let done = thread::scope(|scope| {
        // Downloads leave the processors to the compilers.
        scope.spawn(|| ready.get_or_init(tools));
        let (toolchain, missing) = toolchain()?;
        if let Some(why) = missing {
            tally.skip("tests of the kernel programs", &why);
        }
        all(&mut tally, toolchain.as_ref(), checks, || ready.get_or_init(tools))
    });
    if let Err(error) = done {
        tally.failed.push(format!("{error:#}"));
    }
    tally.finish()
}

/// The folder of the output of each test program.
fn logs() -> PathBuf {
    target_dir().join("tests")
}

/// Programs that the tests call.
#[derive(Default)]
struct Tools {
    /// Folder of unpacked packages, if available.
    packages: Option<PathBuf>,
    /// Tests of which the tools could not be installed, and why.
    missing: Vec<(&'static str, String)>,
}

/// Installs what the tests call.
fn tools() -> Tools {
    let mut tools = Tools::default();
    if let Err(error) = setup::test_tools() {
        tools.missing.push(("tests that call other programs", format!("{error:#}")));
    }
    match setup::test_packages() {
        Ok(folder) => tools.packages = Some(folder),
        Err(error) => tools.missing.push(("tests that use packages of Debian", format!("{error:#}"))),
    }
    if let Some(Err(error)) = tools.packages.as_deref().map(|packages| setup::engines(packages, false)) {
        tools.missing.push((
            "tests of `fleet` on engines, of `export` with a collector, of traces and of the Helm chart",
            format!("{error:#}"),
        ));
    }
    tools
}

/// The toolchain of the kernel programs, or why there is none. While it is set up, crates of others are built.
fn toolchain() -> Result<(Option<EbpfToolchain>, Option<String>)> {
    let early = (!setup::has_ebpf_toolchain()).then(|| [CHECKED, DEBUG].map(DependencyBuild::of));
    let toolchain = setup::ebpf_toolchain();
    drop(early);
    match toolchain {
        Ok(toolchain) => Ok((Some(toolchain), None)),
        Err(error) if is_ci() => Err(error),
        Err(error) => Ok((None, Some(format!("{error:#}")))),
    }
}

/// The end of a test program: its output and result.
type Ended = (TestProgram, String, Result<()>);

/// What ran beside the integration tests: the unit tests, unless they could not be built, and name, output and result
/// of checks.
type RunBeside = (Result<Vec<Ended>>, Vec<(String, String, Result<()>)>);

/// Builds and runs all tests: unit tests as this user, integration tests as root, since they create network namespaces
/// and load kernel programs.
///
/// Optimised and other builds use separate folders below `target`, so that neither waits for cargo's lock of the
/// other. A compiler uses a single CPU for much of its time, so two builds in parallel end sooner than in sequence, and
/// unit tests and checks run beside the rest of the longer one. `tools` waits for what the tests call.
fn all<'a>(
    tally: &mut Tally,
    toolchain: Option<&EbpfToolchain>,
    checks: bool,
    tools: impl Fn() -> &'a Tools + Sync,
) -> Result<()> {
    let passed_on = PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), env::var(name).ok()?)));
    let mut environment: Vec<_> = passed_on.collect();
    let logs = logs();
    fs::create_dir_all(&logs).with_context(|| format!("cannot create {}", logs.display()))?;
    thread::scope(|scope| {
        let beside = scope.spawn({
            let (environment, logs, tools) = (environment.clone(), &logs, &tools);
            move || -> RunBeside {
                let tests = step("building the unit tests", || programs::units(toolchain));
                tools();
                let ended = tests.map(|tests| units(&tests, &environment, logs));
                (ended, if checks { run_checks(logs) } else { Vec::new() })
            }
        });
        let built = step("building rocescope and the integration tests", || {
            Programs::build(toolchain, CHECKED, programs::INTEGRATION_TESTS)
        });
        let tools = tools();
        // In CI, tests without their tools fail by themselves.
        for (what, why) in &tools.missing {
            tally.skip(what, why);
        }
        let beside = || {
            let panicked = |_| (Err(anyhow!("the thread of the unit tests panicked")), Vec::new());
            beside.join().unwrap_or_else(panicked)
        };
        match built {
            Ok(mut programs) => {
                // Removed at the end of the tests.
                let program = Reachable::of(&programs.rocescope)?;
                environment.push(("ROCESCOPE_BIN".to_owned(), program.path.display().to_string()));
                let packages = tools.packages.iter();
                environment
                    .extend(packages.map(|folder| (PACKAGES.to_owned(), folder.display().to_string())));
                programs.tests.retain(|test| test.name != emulated::TEST);
                integration(tally, &programs.tests, &environment, &logs, beside)
            }
            Err(error) => {
                tally.failed.push(format!("{error:#}"));
                let (units, checks) = beside();
                tally.tasks_ended(checks);
                for (test, output, result) in units? {
                    tally.ended(&test.name, &output, result);
                }
                Ok(())
            }
        }
    })
}

/// Runs the unit tests.
fn units(tests: &[TestProgram], environment: &[(String, String)], logs: &Path) -> Vec<Ended> {
    let threads = 2 * thread::available_parallelism().map_or(1, usize::from);
    let mut all = Vec::new();
    for test in tests {
        let mut job = job(test, &[], &[], environment);
        // A fifth of their time is waiting for servers and timers of the tests.
        job.command.arg(format!("--test-threads={threads}"));
        lanes::run(vec![job], 1, logs, |_, output, result| {
            all.push((test.clone(), output.to_owned(), result));
        });
    }
    all
}

/// Runs the [`CHECKS`]. The lowest priority leaves them what tests do not take.
fn run_checks(logs: &Path) -> Vec<(String, String, Result<()>)> {
    let (name, task) = CHECKS;
    let this = match env::current_exe().context("cannot find the program of the tasks") {
        Ok(this) => this,
        Err(error) => return vec![(name.to_owned(), String::new(), Err(error))],
    };
    // Children stay in the group of this program, which an interrupt and the limit of the caller end.
    let mut command = Command::new("timeout");
    command
        .args(["--foreground", "--kill-after=30", BESIDE_LIMIT, "nice", "-n", "19"])
        .arg(&this)
        .arg(task)
        .stdin(Stdio::null());
    let mut all = Vec::new();
    let program = LaneProgram { name: name.to_owned(), command };
    lanes::run(vec![program], 1, logs, |name, output, result| {
        all.push((name.to_owned(), output.to_owned(), result));
    });
    all
}

/// The prefix of tests that need root.
fn root(tally: &mut Tally) -> &'static [&'static str] {
    match root_prefix() {
        Some([]) => &[],
        Some(prefix) => {
            say("using sudo: the integration tests need root");
            prefix
        }
        None => {
            tally.skip("integration tests that need root", "this is neither root nor a machine with sudo");
            &[]
        }
    }
}

/// Runs the integration tests. `beside` waits for what runs beside them: nothing does beside the last ones. What failed
/// is tried once more.
fn integration(
    tally: &mut Tally,
    tests: &[TestProgram],
    environment: &[(String, String)],
    logs: &Path,
    beside: impl FnOnce() -> RunBeside,
) -> Result<()> {
    let prefix = root(tally);
    let rank = |test: &&TestProgram| LONG.iter().position(|name| *name == test.name).unwrap_or(LONG.len());
    let (last, others): (Vec<_>, Vec<_>) = tests.iter().partition(|test| LAST.contains(&&*test.name));
    let (alone, mut together): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|test| ALONE.contains(&&*test.name));
    together.sort_by_key(rank);
    let mut again = Vec::new();
    let mut run = |chosen: Vec<&TestProgram>, count| {
        let jobs = chosen.into_iter().map(|test| job(test, &[], rights(test, prefix), environment)).collect();
        lanes::run(jobs, count, logs, |name, output, result| {
            let names = if result.is_err() { failed_names(output) } else { Vec::new() };
            let program = tests.iter().find(|test| test.package == INTEGRATION && test.name == name);
            match program.filter(|_| !names.is_empty()) {
                Some(program) => again.push((program.clone(), names)),
                None => tally.ended(name, output, result),
            }
        });
    };
    run(together, LANES);
    let (units, checks) = beside();
    run(alone, 1);
    run(last, LAST.len());
    tally.tasks_ended(checks);
    let (units, unbuilt) = match units {
        Ok(units) => (units, Ok(())),
        Err(error) => (Vec::new(), Err(error)),
    };
    for (test, mut output, result) in units {
        let privileged = names_that_need_root(&output);
        if !prefix.is_empty() && !privileged.is_empty() {
            output = output
                .lines()
                .filter(|line| !needs_root(line))
                .fold(String::new(), |all, line| all + line + "\n");
            let job = job(&test, &privileged, prefix, environment);
            lanes::run(vec![job], 1, logs, |name, output, result| tally.ended(name, output, result));
        }
        let names = if result.is_err() { failed_names(&output) } else { Vec::new() };
        if names.is_empty() {
            tally.ended(&test.name, &output, result);
        } else {
            again.push((test, names));
        }
    }
    // They send traffic and wait for responses: on a busy machine, kernel and program may miss a deadline.
    for (program, names) in again {
        say(&format!("{}: a second try of {}", program.name, names.join(" ")));
        let job = job(&program, &names, rights(&program, prefix), environment);
        lanes::run(vec![job], 1, logs, |name, output, result| {
            if result.is_ok() {
                tally.second.extend(names.iter().map(|test| format!("{name}::{test}")));
            }
            tally.ended(name, output, result);
        });
    }
    unbuilt
}

/// The tests listed as failed at the end of a test program's output. Empty if the program itself failed.
fn failed_names(output: &str) -> Vec<String> {
    let lists = output.lines().rev().take_while(|line| line.trim() != "failures:");
    let indented = lists.filter_map(|line| line.strip_prefix("    ")).filter(|name| !name.contains(' '));
    if output.lines().any(|line| line.starts_with("test result: FAILED")) {
        indented.map(str::to_owned).collect()
    } else {
        Vec::new()
    }
}

/// True for the message of a test that was skipped because its user is not root.
fn needs_root(line: &str) -> bool {
    skip_line(line).is_some_and(|line| line.contains("needs root"))
}

/// The tests that said so, by the headings above their output.
fn names_that_need_root(output: &str) -> Vec<String> {
    let mut heading = "";
    let mut names = Vec::new();
    for line in output.lines() {
        if let Some(name) = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----")) {
            heading = name;
        } else if needs_root(line) && !heading.is_empty() {
            names.push(heading.to_owned());
        }
    }
    names
}

/// The prefix of a test program: others than the integration tests run as the user.
fn rights<'a>(test: &TestProgram, root: &'a [&'a str]) -> &'a [&'a str] {
    if test.package == INTEGRATION { root } else { &[] }
}

/// The end of what a program printed, from its list of failures on if it has one: [`REPEATED`] lines at most.
fn failure_messages(output: &str) -> String {
    let lines: Vec<_> = output.lines().collect();
    let list = lines.iter().position(|line| line.trim() == "failures:");
    let first = list.unwrap_or_else(|| lines.len().saturating_sub(REPEATED));
    lines[first..].iter().take(REPEATED).copied().collect::<Vec<_>>().join("\n")
}

/// The command for a test program, or for some of its tests, in the folder in which cargo would start it. sudo passes
/// no environment.
fn job(
    test: &TestProgram,
    only: &[String],
    prefix: &[&str],
    environment: &[(String, String)],
) -> LaneProgram {
    let environment = environment.iter().map(|(name, value)| format!("{name}={value}"));
    let mut command = Command::new(prefix.first().unwrap_or(&"env"));
    command.args(prefix.iter().map(|_| "env")).args(environment);
    if test.name == PATIENT {
        command.args(["nice", "-n", "5"]);
    }
    command.arg(&test.path).arg("--show-output");
    if !only.is_empty() {
        command.arg("--exact").args(only);
    }
    command.current_dir(&test.folder).stdin(Stdio::null());
    // Test programs of two packages may have the same name.
    let name = if test.name.replace('_', "-") == test.package {
        format!("{} unit tests", test.name)
    } else if test.package == INTEGRATION {
        test.name.clone()
    } else {
        format!("{} {}", test.package, test.name)
    };
    LaneProgram { name, command }
}

/// The line, if it is the message of a skipped test.
fn skip_line(line: &str) -> Option<String> {
    let line = line.trim();
    let rest = line.strip_prefix("SKIP")?;
    (rest.is_empty() || rest.starts_with([' ', ':'])).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::run::show;

    #[test]
    fn skip_lines_are_found() {
        assert_eq!(skip_line("SKIP: no tshark").as_deref(), Some("SKIP: no tshark"));
        assert_eq!(skip_line("  SKIP needs root\n").as_deref(), Some("SKIP needs root"));
        assert_eq!(skip_line("SKIPPED frames: 3"), None);
        assert_eq!(skip_line("test skip_line ... ok"), None);
    }

    #[test]
    fn what_a_task_skips_is_listed_once() {
        let mut tally = Tally::default();
        let output =
            "xtask: SKIP advisories: no database\nxtask: format: ok\nxtask: SKIP advisories: no database";
        tally.tasks_ended(vec![("checks".to_owned(), output.to_owned(), Ok(()))]);
        assert_eq!((tally.skipped, tally.failed), (vec!["SKIP advisories: no database".to_owned()], vec![]));
    }

    #[test]
    fn failed_tests_are_named() {
        let output = "failures:\n\n---- a stdout ----\n    text\n\nfailures:\n    a::b\n    c\n\ntest result: FAILED. 3 passed";
        assert_eq!(failed_names(output), ["c", "a::b"]);
        assert_eq!(failed_names("    a::b\ntest result: ok. 1 passed"), [""; 0]);
        assert_eq!(failed_names("failures:\n    a::b\nkilled"), [""; 0]);
    }

    #[test]
    fn tests_that_need_root_are_named_by_their_headings() {
        let output = "SKIP: c needs root\n---- a::b stdout ----\nSKIP: b needs root\n\n---- d stdout ----\nSKIP: d needs tshark\n";
        assert_eq!(names_that_need_root(output), ["a::b"]);
    }

    #[test]
    fn failures_are_repeated_from_their_list_on() {
        let output = "test a ... ok\n\nfailures:\n\n---- a::b stdout ----\n    text\n";
        assert_eq!(failure_messages(output), "failures:\n\n---- a::b stdout ----\n    text");
        let long = (0..100).map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
        assert_eq!(failure_messages(&long).lines().next(), Some("40"));
        assert_eq!(failure_messages(""), "");
    }

    #[test]
    fn integration_tests_run_as_root_with_the_environment() {
        let test = |package: &str| TestProgram {
            package: package.to_owned(),
            name: "demo".to_owned(),
            path: PathBuf::from("/t a/demo-1"),
            folder: PathBuf::from("/w"),
        };
        let shown = |test, only: &[String]| {
            let environment = [("CI".to_owned(), "true".to_owned())];
            show(&job(&test, only, rights(&test, &["sudo"]), &environment).command)
        };
        assert_eq!(shown(test("rocescope-tests"), &[]), "sudo env CI=true /t a/demo-1 --show-output");
        assert_eq!(
            shown(test("rocescope"), &["a".to_owned()]),
            "env CI=true /t a/demo-1 --show-output --exact a"
        );
    }
}
