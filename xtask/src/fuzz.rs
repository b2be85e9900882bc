//! `cargo xtask fuzz`: every fuzz target for some time, from seeds of the test data, as the nightly run does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::recipe::PINNED_NIGHTLY;
use crate::run::{output_of, run, say, show, step, workspace_root};
use crate::setup;

/// Maximum length of an input: that of the longest seeds with a margin.
const MAX_LEN: usize = 64 << 10;
/// Memory limit of a target, including the shadow memory of AddressSanitizer. Unit: MiB.
const MEMORY_MIB: usize = 3072;
/// Timeout of one input, which counts as a finding. Unit: s.
const INPUT_SECONDS: u64 = 20;
/// Additional time in which a target has to end, including reading the seeds. Unit: s.
const GRACE_SECONDS: u64 = 300;

/// Options of the run.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Time for each target, including reading its seeds
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Targets; all of them if none is named
    targets: Vec<String>,
}

/// Result of a target.
struct Outcome {
    name: String,
    executions: Option<u64>,
    /// Inputs that are findings.
    findings: Vec<PathBuf>,
    /// Reason why it ended early.
    failure: Option<String>,
}

/// Builds the targets and runs them one after the other.
///
/// # Errors
/// cargo-fuzz or the nightly is not available, a target does not build, or one has a finding.
pub(crate) fn fuzz(wanted: &Wanted) -> Result<()> {
    let all =
        targets(&fs::read_to_string(folder().join("Cargo.toml")).context("cannot read fuzz/Cargo.toml")?);
    if let Some(unknown) = wanted.targets.iter().find(|name| !all.contains(name)) {
        bail!("no fuzz target {unknown}; there are {}", all.join(", "));
    }
    let chosen = if wanted.targets.is_empty() { &all } else { &wanted.targets };
    step("building the fuzz targets", || build(&wanted.targets))?;
    let mut outcomes = Vec::new();
    for name in chosen {
        outcomes.push(step(&format!("{name} for {} s", wanted.seconds), || one(name, wanted.seconds))?);
    }
    for outcome in &outcomes {
        say(&line(outcome));
    }
    let failed: Vec<&str> =
        outcomes.iter().filter(|one| one.failure.is_some()).map(|one| one.name.as_str()).collect();
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("findings of {}: see fuzz/README.md for what to do with them", failed.join(", "))
    }
}

fn folder() -> PathBuf {
    workspace_root().join("fuzz")
}

/// The names of the targets in a manifest.
fn targets(manifest: &str) -> Vec<String> {
    let bins = manifest.split("[[bin]]").skip(1);
    bins.filter_map(|bin| bin.split("name = \"").nth(1)?.split('"').next()).map(str::to_owned).collect()
}

fn build(named: &[String]) -> Result<()> {
    let mut command = setup::cargo_fuzz()?;
    command.arg("build").current_dir(workspace_root()).stdin(Stdio::null());
    // cargo-fuzz builds one target or all.
    match named {
        [one] => run(command.arg(one)),
        _ => run(&mut command),
    }
}

/// The program of a target.
fn program(name: &str) -> Result<PathBuf> {
    let version = output_of(setup::in_toolchain(PINNED_NIGHTLY, "rustc").arg("-vV"));
    let host = version.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("host: ")));
    let host = host.context("the pinned nightly does not name its host")?;
    Ok(folder().join("target").join(host).join("release").join(name))
}

/// Creates the seeds of a target, and runs it.
fn one(name: &str, seconds: u64) -> Result<Outcome> {
    let (seeds, corpus) = (folder().join("target/seeds").join(name), folder().join("corpus").join(name));
    let artifacts = folder().join("artifacts").join(name);
    for dir in [&seeds, &corpus, &artifacts] {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    let program = program(name)?;
    run(Command::new(&program).env("ROCESCOPE_FUZZ_SEEDS", &seeds).stdin(Stdio::null()))
        .with_context(|| format!("cannot make the seeds of {name}"))?;
    let before = files(&artifacts);
    let log = folder().join("target").join(format!("{name}.log"));
    // An external timeout as well: libFuzzer checks the time only between two inputs.
    let mut command = Command::new("timeout");
    command.arg("--kill-after=10").arg((seconds + GRACE_SECONDS).to_string()).arg(&program);
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.args([format!("-max_total_time={seconds}"), format!("-timeout={INPUT_SECONDS}")]);
    command.args([
        format!("-rss_limit_mb={MEMORY_MIB}"),
        format!("-max_len={MAX_LEN}"),
        "-print_final_stats=1".to_owned(),
    ]);
    let dictionary = folder().join(format!("{name}.dict"));
    if dictionary.exists() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    command.arg(&corpus).arg(&seeds).current_dir(workspace_root()).stdin(Stdio::null());
    // Memory that lives as long as the program is not a leak.
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    // Files that targets write and read need no disk.
    if Path::new("/dev/shm").is_dir() {
        command.env("TMPDIR", "/dev/shm");
    }
    let start = Instant::now();
    let ended = crate::run::into_file(&mut command, &log);
    let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    let findings: Vec<PathBuf> =
        files(&artifacts).into_iter().filter(|path| !before.contains(path)).collect();
    let failure = ended.err().map(|_| reason(&text, start.elapsed().as_secs(), &show(&command)));
    Ok(Outcome { name: name.to_owned(), executions: executions(&text), findings, failure })
}

/// The files of a folder.
fn files(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Number of executed inputs, from the statistics at the end, else from the latest progress line.
fn executions(log: &str) -> Option<u64> {
    let end = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let progress = || log.lines().rev().find_map(|line| line.strip_prefix('#')?.split_whitespace().next());
    end.map(str::trim).or_else(progress)?.parse().ok()
}

/// The line of a log with the reason of the end.
fn reason(log: &str, seconds: u64, command: &str) -> String {
    let marks = ["panicked at", "ERROR: AddressSanitizer", "ERROR: libFuzzer", "SUMMARY:"];
    let found = marks.iter().find_map(|mark| log.lines().position(|line| line.contains(mark)));
    let lines: Vec<&str> =
        found.map_or_else(Vec::new, |at| log.lines().skip(at).take(2).map(str::trim).collect());
    if lines.is_empty() {
        format!("ended after {seconds} s without a reason: `{command}`")
    } else {
        lines.join(" ")
    }
}

/// The result of a target in one line.
fn line(outcome: &Outcome) -> String {
    let Outcome { name, executions, findings, failure } = outcome;
    let executions = executions.map_or_else(|| "?".to_owned(), |count| count.to_string());
    match failure {
        None => format!("{name}: {executions} executions, no finding"),
        Some(why) => {
            let inputs: Vec<String> = findings.iter().map(|path| path.display().to_string()).collect();
            format!("{name}: {executions} executions, FINDING: {why} ({})", inputs.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_of_the_manifest_is_there_and_explained() {
        let read = |name: &str| fs::read_to_string(folder().join(name)).unwrap();
        let all = targets(&read("Cargo.toml"));
        let sources: Vec<String> = files(&folder().join("fuzz_targets"))
            .iter()
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        assert!(all.len() >= 15 && all.len() == sources.len(), "{all:?} {sources:?}");
        let readme = read("README.md");
        for name in all {
            assert!(sources.contains(&name) && readme.contains(&format!("| `{name}` |")), "{name}");
        }
    }

    #[test]
    fn logs_are_read() {
        let ended = "#2\tINITED\n#512\tpulse\nstat::number_of_executed_units: 700\n";
        assert_eq!(executions(ended), Some(700));
        let crashed = "#2\tINITED\n#512\tNEW cov\n\nthread 'main' panicked at a.rs:7:\nboom\n==1== ERROR: libFuzzer: deadly signal\n";
        assert_eq!(executions(crashed), Some(512));
        assert_eq!(reason(crashed, 3, "x"), "thread 'main' panicked at a.rs:7: boom");
        assert!(reason("", 3, "x").contains("without a reason"));
    }
}
