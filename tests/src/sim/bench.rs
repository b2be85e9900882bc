//! Runs scenarios, replays their captures and scores the reports.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::compared;
use super::lab::{LabRun, Scenario};
use super::score::{Judgement, Verdict, judge};
use super::truth::Truth;
use crate::schema;

/// Timeout of a replay.
const LIMIT: Duration = Duration::from_secs(120);

/// Selection of the runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program.
    pub rocescope: PathBuf,
    /// The seeds of each scenario.
    pub seeds: RangeInclusive<u64>,
    /// Varies parameters that a scenario leaves open, and skips runs in which the fault then does not occur.
    pub vary: bool,
    /// Only scenarios whose name or kind contains this.
    pub only: Option<String>,
    /// Folder in which captures, truth and reports are kept.
    pub keep: Option<PathBuf>,
    /// Number of parallel runs.
    pub jobs: usize,
}

/// One run and its result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Name of the scenario.
    pub name: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its seed.
    pub seed: u64,
    /// The truth, unless the simulation could not be written.
    pub truth: Option<Truth>,
    /// Result of the comparison with the truth.
    pub judgement: Judgement,
}

/// Runs the selected scenarios, in the order of the table.
pub fn run(scenarios: &[Scenario], options: &Options) -> Result<Vec<Outcome>> {
    let chosen = |scenario: &&Scenario| {
        options.only.as_ref().is_none_or(|only| scenario.name.contains(only) || scenario.kind.contains(only))
    };
    let tasks: Vec<(&Scenario, u64)> = scenarios
        .iter()
        .filter(chosen)
        .flat_map(|scenario| options.seeds.clone().map(move |seed| (scenario, seed)))
        .collect();
    if tasks.is_empty() {
        bail!("no scenario has this name: without --only, all run");
    }
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while let Some((scenario, seed)) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = one(scenario, *seed, options);
                    // With other rates a queue may not fill, or a timer may not expire.
                    let of = |truth: &Truth| !truth.happened(scenario.kind, scenario.name);
                    if options.vary && outcome.truth.as_ref().is_some_and(of) {
                        continue;
                    }
                    if let Ok(mut outcomes) = outcomes.lock() {
                        outcomes.push(outcome);
                    }
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_default();
    let position = |name: &str| scenarios.iter().position(|scenario| scenario.name == name);
    outcomes.sort_by_key(|outcome| (position(outcome.name), outcome.seed));
    Ok(outcomes)
}

/// Simulates, replays and scores one scenario.
fn one(scenario: &Scenario, seed: u64, options: &Options) -> Outcome {
    let mut truth = None;
    let judged = judgement(scenario, seed, options, &mut truth);
    let judgement = judged.unwrap_or_else(|error| Judgement::failed(format!("{error:#}")));
    Outcome { name: scenario.name, kind: scenario.kind, seed, truth, judgement }
}

fn judgement(
    scenario: &Scenario,
    seed: u64,
    options: &Options,
    truth: &mut Option<Truth>,
) -> Result<Judgement> {
    let temporary = tempfile::tempdir()?;
    let folder = match &options.keep {
        Some(keep) => keep.join(format!("{}-{seed}", scenario.name)),
        None => temporary.path().to_path_buf(),
    };
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let run = if options.vary { scenario.run_varied(seed, &folder) } else { scenario.run(seed, &folder) }?;
    let known = truth.insert(run.truth.clone());
    let report = report(&options.rocescope, &run, &folder)?;
    let mut judgement = match &run.baseline {
        Some(_) => judge(known, &compared::changes(&options.rocescope, &run, &folder)?),
        None => judge(known, &report),
    };
    if !options.vary && !known.happened(scenario.kind, scenario.name) {
        let did = format!("the fault did not occur: {:?}", known.facts);
        judgement = Judgement::failed(did);
    }
    let faults = crate::verdict::faults(&report);
    if !faults.is_empty() {
        judgement.verdict = judgement.verdict.max(Verdict::WrongPlace);
        judgement.reasons.extend(faults);
    }
    Ok(judgement)
}

/// The JSON report of a run's captures.
pub fn report(rocescope: &Path, run: &LabRun, folder: &Path) -> Result<Value> {
    replayed(rocescope, &run.files, &run.options, folder)
}

/// The report of these captures, kept in the folder.
pub(super) fn replayed(
    rocescope: &Path,
    files: &[PathBuf],
    options: &[String],
    folder: &Path,
) -> Result<Value> {
    let mut command = Command::new(rocescope);
    command.arg("replay").args(files).args(["--output", "json"]).args(options);
    output(command, &folder.join("report.json"), &folder.join("errors.txt"))
}

/// The JSON that a command prints, kept in a file.
pub(super) fn output(mut command: Command, out: &Path, errors: &Path) -> Result<Value> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(File::create(out)?)
        .stderr(File::create(errors)?)
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            bail!("{command:?} took more than {} s", LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if !status.success() {
        bail!("{command:?} ended with {status}: {}", std::fs::read_to_string(errors)?.trim());
    }
    schema::read(&std::fs::read(out)?).with_context(|| format!("{command:?}"))
}

/// Totals of a set of runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Runs.
    pub runs: usize,
    /// Runs with a correct report.
    pub right: usize,
}

/// Scenarios with faults, and clean controls.
pub fn totals(outcomes: &[Outcome]) -> (Totals, Totals) {
    let of = |control: bool| {
        let mut all = outcomes.iter().filter(|outcome| (outcome.kind == "control") == control);
        let right = all.clone().filter(|outcome| outcome.judgement.verdict == Verdict::Right).count();
        Totals { runs: all.by_ref().count(), right }
    };
    (of(false), of(true))
}

/// Prints incorrect runs, a table by kind, and the totals.
pub fn print(outcomes: &[Outcome]) {
    const ALL: [Verdict; 5] =
        [Verdict::Right, Verdict::Missed, Verdict::WrongPlace, Verdict::FalseAlarm, Verdict::Failed];
    for outcome in outcomes.iter().filter(|outcome| outcome.judgement.verdict != Verdict::Right) {
        println!("{:12} {} (seed {})", outcome.judgement.verdict, outcome.name, outcome.seed);
        for reason in &outcome.judgement.reasons {
            println!("             {reason}");
        }
    }
    let mut kinds: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
    for outcome in outcomes {
        let verdict = outcome.judgement.verdict.to_string();
        *kinds.entry(outcome.kind).or_default().entry(verdict).or_default() += 1;
    }
    println!(
        "\n{:18} {:>7} {:>7} {:>12} {:>12} {:>7}",
        "kind", "right", "missed", "wrong place", "false alarm", "failed"
    );
    for (kind, counts) in kinds {
        let count = |verdict: Verdict| counts.get(&verdict.to_string()).copied().unwrap_or(0);
        let [right, missed, place, alarm, failed] = ALL.map(count);
        println!("{kind:18} {right:>7} {missed:>7} {place:>12} {alarm:>12} {failed:>7}");
    }
    let (faults, controls) = totals(outcomes);
    let share = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
    println!(
        "\nscenarios: {} of {} right ({:.1} %); clean controls: {} of {} raise a false alarm ({:.1} %)",
        faults.right,
        faults.runs,
        share(faults.right, faults.runs),
        controls.runs - controls.right,
        controls.runs,
        share(controls.runs - controls.right, controls.runs),
    );
}
