//! Mutated input for rocescope: files, packets, reports and keys that do not occur in normal use.
//!
//! A number and a seed determine a mutant, the same on every machine. It fails if rocescope panics, is killed by a
//! signal, hangs, writes characters that control a terminal or mislead its reader, or writes a report that its schema
//! does not allow or whose sums of packets are inconsistent. In a build with overflow checks (profile `checked`), an
//! overflowing count is a panic.
//!
//! | kind | mutates | runs |
//! |---|---|---|
//! | `file` | bytes of captures: flips, cuts, splices | `replay` of one to three taps |
//! | `frames` | fields, times, lengths and order of the packets of a capture, at one to three taps | `replay` |
//! | `report` | values of reports, and their bytes | `diff` |
//! | `screen` | keys, mouse and the size of the terminal | `replay` in the terminal UI |
//!
//! Mutated `/proc` and `/sys` trees are a unit test of `doctor`, which `cargo xtask mutate` runs, too.

mod bytes;
mod frames;
mod json;
mod judge;
mod screen;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::oracle::captures;
use crate::schema;
use rocescope_common::random::{Random, mix};

/// Selection of the runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program.
    pub rocescope: PathBuf,
    /// Time in which new mutants are started.
    pub duration: Duration,
    /// Seed of the mutants.
    pub seed: u64,
    /// Run only the mutant with this number.
    pub only: Option<u64>,
    /// Folder for the input of failing mutants.
    pub keep: PathBuf,
    /// Number of mutants run in parallel.
    pub jobs: usize,
}

/// A mutant that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its number.
    pub number: u64,
    /// Its kind.
    pub kind: &'static str,
    /// The fault, with the command.
    pub why: String,
}

/// Result of all runs.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Mutants by kind.
    pub ran: Vec<(&'static str, u64)>,
    /// Failed mutants.
    pub failures: Vec<Failure>,
}

/// Kinds of mutants, in the order of their numbers: files and frames are fast, and most inputs are of these kinds.
const KINDS: [&str; 8] = ["file", "frames", "file", "frames", "report", "file", "frames", "screen"];

/// Material for mutants.
struct Stock {
    /// Captures as file contents.
    files: Vec<Vec<u8>>,
    /// Frames of Ethernet captures.
    captures: Vec<Vec<frames::Frame>>,
    /// Reports of some of them.
    reports: Vec<serde_json::Value>,
}

impl Stock {
    fn load(rocescope: &Path) -> Result<Self> {
        let mut stock = Self { files: Vec::new(), captures: Vec::new(), reports: Vec::new() };
        for path in captures::own()? {
            let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
            let frames = frames::parse(&bytes);
            if stock.reports.len() < 6 && frames.is_some() {
                let mut command = Command::new(rocescope);
                command.args(["replay", "--output", "json"]).arg(&path);
                stock.reports.push(schema::read(&command.output()?.stdout)?);
            }
            stock.captures.extend(frames);
            stock.files.push(bytes);
        }
        Ok(stock)
    }
}

/// Creates and runs mutants for the given time.
pub fn run(options: &Options) -> Result<Outcome> {
    let stock = Stock::load(&options.rocescope)?;
    std::fs::create_dir_all(&options.keep)?;
    let next = AtomicU64::new(options.only.unwrap_or(0));
    let end = Instant::now() + options.duration;
    let outcome = Mutex::new(Outcome::default());
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                // Every kind runs at least once, however short the time.
                let over = Instant::now() >= end && number >= KINDS.len() as u64;
                if options.only.map_or(over, |only| number > only) {
                    return Ok(());
                }
                let (kind, why) = one(&stock, options, number)?;
                let mut outcome = outcome.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                match outcome.ran.iter_mut().find(|(known, _)| *known == kind) {
                    Some((_, count)) => *count += 1,
                    None => outcome.ran.push((kind, 1)),
                }
                outcome.failures.extend(why.map(|why| Failure { number, kind, why }));
            }
        };
        let workers: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| bail!("a worker of the mutation tests panicked"))
        })
    })?;
    Ok(outcome.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Creates and runs one mutant; returns its kind, and its fault.
fn one(stock: &Stock, options: &Options, number: u64) -> Result<(&'static str, Option<String>)> {
    let mut rng = Random::new(mix(options.seed) ^ mix(number));
    let kind = KINDS[usize::try_from(number).unwrap_or(0) % KINDS.len()];
    let folder = options.keep.join(format!("mutant-{number}"));
    std::fs::create_dir_all(&folder)?;
    let mut command = Command::new(&options.rocescope);
    // Without the user's configuration; exports are written here.
    command.current_dir(&folder).env("HOME", &folder).env("XDG_CONFIG_HOME", &folder).stdin(Stdio::null());
    let ended = match kind {
        "file" | "frames" => {
            let taps = if rng.chance(700_000) { 1 } else { 2 + rng.below(2) };
            command.arg("replay").args(replay_options(&mut rng));
            let common = rng.bits();
            for tap in 0..taps {
                let bytes = match kind {
                    "file" => bytes::mutant(&stock.files, &mut rng),
                    _ => frames::mutant(&stock.captures, common, &mut rng),
                };
                let name = format!("tap{tap}.pcap");
                std::fs::write(folder.join(&name), bytes)?;
                command.arg(name);
            }
            judge::run(&mut command, &folder)?
        }
        "report" => {
            for name in ["a.json", "b.json"] {
                std::fs::write(folder.join(name), json::mutant(&stock.reports, &mut rng))?;
            }
            let output = if rng.chance(500_000) { "json" } else { "text" };
            command.args(["diff", "a.json", "b.json", "--output", output]);
            judge::run(&mut command, &folder)?
        }
        _ => {
            std::fs::write(folder.join("tap0.pcap"), frames::mutant(&stock.captures, rng.bits(), &mut rng))?;
            command.args(["replay", "tap0.pcap", "--speed", ["max", "1x", "100x"][rng.index(3)]]);
            screen::run(&mut command, &mut rng)?
        }
    };
    let why = judge::wrong(&ended, kind);
    match &why {
        None => std::fs::remove_dir_all(&folder)?,
        Some(why) => {
            let text = format!("{command:?}\n{why}\n{}", String::from_utf8_lossy(&ended.errors));
            std::fs::write(folder.join("failure.txt"), text)?;
        }
    }
    Ok((kind, why.map(|why| format!("{why}: {command:?} in {}", folder.display()))))
}

/// Options of `replay` that select different code paths.
fn replay_options(rng: &mut Random) -> Vec<&'static str> {
    const OPTIONS: [&[&str]; 14] = [
        &["--max-flows", "3"],
        &["--max-flows", "1"],
        &["--idle", "1ms"],
        &["--bin", "100us"],
        &["--bin", "1s"],
        &["--reorder-window", "0"],
        &["--reorder-window", "99h"],
        &["--from", "+1ms"],
        &["--to", "+10ms"],
        &["--filter", "qp 17 or ce > 1% or host 10.0.0.0/8 and not rocev1"],
        &["--ecmp", "7"],
        &["--link-speed", "400G"],
        &["--link-speed", "1M"],
        &["--group", "tap0.pcap,tap1.pcap"],
    ];
    let output = ["json", "text", "jsonl"][rng.index(3)];
    let mut options = vec!["--output", output];
    for option in OPTIONS {
        if rng.chance(80_000) && !options.contains(&option[0]) {
            options.extend(option);
        }
    }
    options
}
