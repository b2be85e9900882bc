//! `cargo xtask bench screen`: cost of the terminal UI without key presses.
//!
//! Idle: 64 queue pairs at the speed of the capture, screen by screen: bytes written to the terminal, and CPU time of
//! the screen's thread and of all threads that work for it. Watched: a capture at full speed with the terminal UI,
//! compared with the same with a report at the end.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use super::keys::Session;
use super::{child, machine, replay};
use crate::gen_capture::{Generate, Snap, generate};
use crate::run::{step, target_dir};

/// Options of the measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Seconds for which each screen is watched
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Rounds of the watched replay, whose median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Captures for the watched replay, instead of a generated one
    #[arg(long, num_args = 1..)]
    capture: Vec<PathBuf>,
    /// Measure these programs, one after the other, instead of building one
    #[arg(long)]
    bin: Vec<PathBuf>,
}

/// The screens, by key.
const SCREENS: [(&str, &str); 8] = [
    ("1", "Overview"),
    ("2", "QPs"),
    ("3", "Detail"),
    ("4", "Matrix"),
    ("5", "Links"),
    ("6", "Bursts"),
    ("7", "Events"),
    ("8", "Findings"),
];
/// Number of connections, each with a flow per direction.
const CONNECTIONS: u32 = 32;
/// Factor that gives some 4,000 packets per second.
const SLOWER: u64 = 3_000;
const PACKETS: u64 = 600_000;
/// Time until the time range is full.
const WARM_UP: Duration = Duration::from_secs(12);
/// Timeout of a replay.
const LONGEST: Duration = Duration::from_secs(300);
/// Limits: bytes per second, and per cent of a core.
const LIMITS: (f64, f64) = (5_000.0, 2.0);

/// Measures and prints.
pub(crate) fn screen(wanted: &Wanted) -> Result<()> {
    let programs = if wanted.bin.is_empty() { vec![replay::build()?] } else { wanted.bin.clone() };
    let folder = target_dir().join("bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let out = folder.join("screen.pcap");
    let file = out.clone();
    let wish = Generate {
        packets: PACKETS,
        snap: Snap(96),
        flows: CONNECTIONS,
        mtu: 4096,
        other: 0,
        slower: SLOWER,
        seed: 1,
        out,
    };
    step("writing the capture", || generate(&wish))?;
    machine::print();
    let captures = if wanted.capture.is_empty() { vec![file.clone()] } else { wanted.capture.clone() };
    for program in programs {
        println!("{}", program.display());
        quiet(&program, &file, Duration::from_secs(wanted.seconds))?;
        watched(&program, &captures, wanted.rounds)?;
    }
    Ok(())
}

fn quiet(program: &Path, file: &Path, time: Duration) -> Result<()> {
    let arguments = ["replay", "--speed", "1x"].map(OsStr::new);
    let mut session = Session::start(program, &[&arguments[..], &[file.as_os_str()]].concat())?;
    session.drain(WARM_UP)?;
    let (bytes_limit, share_limit) = LIMITS;
    println!("{} queue pairs, 120x40, limits {bytes_limit} bytes/s and {share_limit} %", 2 * CONNECTIONS);
    println!("{:<10} {:>8} {:>12} {:>14}", "screen", "bytes/s", "% of a core", "its own thread");
    let mut missed = Vec::new();
    for (key, name) in SCREENS {
        session.press(key)?;
        // The first frame of a screen is complete.
        session.drain(Duration::from_secs(1))?;
        let before = [session.spent_by_all()?, session.spent()?.0];
        let start = Instant::now();
        let bytes = session.drain(time)? as f64;
        let seconds = start.elapsed().as_secs_f64();
        let share = |spent: f64, before: f64| (spent - before) / 10.0 / seconds;
        let (all, own) = (share(session.spent_by_all()?, before[0]), share(session.spent()?.0, before[1]));
        let rate = bytes / seconds;
        println!("{name:<10} {rate:>8.0} {all:>12.2} {own:>14.2}");
        if rate > bytes_limit || all > share_limit {
            missed.push(name);
        }
    }
    session.press("q")?;
    ensure!(missed.is_empty(), "beyond the limits: {}", missed.join(", "));
    Ok(())
}

fn watched(program: &Path, captures: &[PathBuf], rounds: usize) -> Result<()> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let mut arguments = vec![OsStr::new("replay")];
    arguments.extend(captures.iter().map(|file| file.as_os_str()));
    for _ in 0..rounds.max(1) {
        let mut command = Command::new(program);
        command.args(&arguments).args(["--output", "json"]);
        without.push(child::time(&mut command)?.cpu);
        let before = child::children();
        let mut session = Session::start(program, &arguments)?;
        ensure!(session.writes("EOF", LONGEST)?, "the replay does not end");
        // The last frame and the last analysis.
        session.drain(Duration::from_millis(700))?;
        drop(session);
        with.push(child::children().saturating_sub(before));
    }
    let (with, without) = (child::median(with), child::median(without));
    let ratio = with.as_secs_f64() / without.as_secs_f64().max(1e-9);
    println!(
        "watched replay: {with:.2?} of processor time, {without:.2?} with a report instead: {ratio:.2} ×"
    );
    Ok(())
}
