//! Queries `rocescope fleet` about a simulated fleet and measures the time, for `cargo xtask bench fleet`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use rocescope_tests::fleet::ask::ask;
use rocescope_tests::fleet::{FAULTS, Fault, Fleet};
use rocescope_tests::oracle::binary;
use rocescope_tests::packages::{click_house_or_skip, duck_db_or_skip};

const QUESTIONS: [&str; 6] = ["slow", "loss", "balance", "jobs", "stragglers", "timeline"];

fn main() -> ExitCode {
    rocescope_tests::exit_status(work())
}

fn work() -> Result<()> {
    let mut fleet = Fleet { hosts: 1_000, seconds: 20, ..Fleet::SMALL };
    let (mut keep, mut click_house, mut offloaded): (Option<PathBuf>, bool, bool) = (None, false, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--hosts" => fleet.hosts = value()?.parse().context("--hosts needs a number")?,
            "--seconds" => fleet.seconds = value()?.parse().context("--seconds needs a number")?,
            "--keep" => keep = Some(value()?.into()),
            "--clickhouse" => click_house = true,
            "--offloaded" => offloaded = true,
            other => bail!("unknown argument {other}"),
        }
    }
    if fleet.hosts < 40 || fleet.seconds < 16 || fleet.seconds * FAULTS.len() as u64 > 3_600 {
        bail!("a fleet has at least 40 hosts, and faults of 16 to 240 seconds");
    }
    let temporary = tempfile::tempdir().context("no temporary folder")?;
    let folder = keep.as_deref().unwrap_or(temporary.path());
    if folder.join("v1").is_dir() {
        println!("recording:  {}, as it is", folder.display());
    } else {
        let start = Instant::now();
        let written = if offloaded { fleet.write_offloaded(folder) } else { fleet.write(folder) }?;
        let took = start.elapsed().as_secs_f64();
        println!(
            "recording:  {} hosts, {} rows of {} of {} rows, {:.1} MB ({:.1} B/row), made in {took:.1} s ({:.0} k rows/s)",
            fleet.hosts,
            rows_of(fleet, offloaded),
            if offloaded { "queue pairs" } else { "flows" },
            written.rows,
            written.bytes as f64 / 1e6,
            written.bytes as f64 / written.rows as f64,
            written.rows as f64 / took / 1e3,
        );
    }
    let mut engines = Vec::new();
    engines.extend(duck_db_or_skip("bench fleet").map(|engine| ("DuckDB", engine)));
    if click_house {
        engines.extend(click_house_or_skip("bench fleet").map(|engine| ("ClickHouse", engine)));
    }
    let measured = engines.iter().map(|(name, engine)| measure((fleet, offloaded), folder, name, engine));
    let wrong: usize = measured.sum::<Result<usize>>()?;
    if wrong > 0 {
        bail!("{wrong} answers do not name the culprit first");
    }
    Ok(())
}

/// Rows of flows, or of queue pairs, which send only.
const fn rows_of(fleet: Fleet, offloaded: bool) -> u64 {
    let taps = if offloaded { 1 } else { 2 };
    fleet.hosts * 8 * 2 * taps * fleet.seconds * FAULTS.len() as u64
}

/// The texts with which the headlines for a question begin for a fault.
fn culprits(fleet: Fleet, offloaded: bool, question: &str, fault: Fault) -> Vec<String> {
    if !offloaded {
        return fleet.culprit(question, fault).into_iter().collect();
    }
    let all = fleet.culprit_offloaded(fault).into_iter();
    all.filter(|(of, _)| *of == question).map(|(_, culprit)| culprit).collect()
}

/// Asks every question over the whole recording, then over the time range of each fault that concerns it. Returns the
/// number of wrong answers.
fn measure((fleet, offloaded): (Fleet, bool), folder: &Path, name: &str, engine: &Path) -> Result<usize> {
    let program = binary::path()?;
    let folder = folder.to_str().context("the folder's name is not valid UTF-8")?;
    let rows = rows_of(fleet, offloaded) as f64;
    let load = std::fs::read_to_string("/proc/loadavg").context("/proc/loadavg cannot be read")?;
    let load = load.split(' ').next().unwrap_or_default();
    println!(
        "\n{name}, at a load of {load} before\nquestion    all rows  on CPUs  rows/CPU s  answer in the time of the fault"
    );
    let mut wrong = 0;
    // Of queue pairs alone, nothing says who waits for whom.
    for question in QUESTIONS.into_iter().filter(|question| !offloaded || *question != "stragglers") {
        let (start, used) = (Instant::now(), cpu_of_children()?);
        let whole = ask(&program, question, folder, Some(engine), None)?;
        let (took, used) = (start.elapsed().as_secs_f64(), cpu_of_children()? - used);
        print!("{question:<10} {took:7.2} s {used:6.2} s  {:7.2} M  ", rows / used.max(0.01) / 1e6);
        if question == "timeline" {
            let headline = whole["headline"].as_str().unwrap_or_default();
            let right = if offloaded {
                headline.contains(&fleet.dying_host())
            } else {
                fleet.is_of_worst_slot(headline)
            };
            wrong += usize::from(!right);
            println!("{} {headline}", if right { "ok" } else { "WRONG" });
        }
        let about = FAULTS.into_iter().flat_map(|fault| {
            let culprits = culprits(fleet, offloaded, question, fault);
            culprits.into_iter().map(move |culprit| (fault, culprit))
        });
        for (at, (fault, culprit)) in about.enumerate() {
            let answer = ask(&program, question, folder, Some(engine), Some(fleet.range(fault)))?;
            let headline = answer["headline"].as_str().unwrap_or_default();
            let right = headline.starts_with(&culprit);
            wrong += usize::from(!right);
            let indent = if at == 0 { "" } else { "                                        " };
            println!("{indent}{} {headline}", if right { "ok" } else { "WRONG" });
        }
    }
    Ok(wrong)
}

/// CPU time of ended child processes, in seconds: less affected by other load than elapsed time.
fn cpu_of_children() -> Result<f64> {
    const TICKS_PER_S: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").context("/proc/self/stat cannot be read")?;
    // The name in parentheses may contain spaces, so fields are counted after it; cutime and cstime are the 14th and
    // 15th there.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(13).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>().context("/proc/self/stat is not as expected")? / TICKS_PER_S)
}
