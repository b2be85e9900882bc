//! Every packet is an event: the cost of reporting events, and counting must not wait for it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rocescope::host::net::netns::NetNs;
use serde_json::Value;

use super::flood::{Flood, PacketKind, Wanted};
use super::link::{FloodLink, Receiver};
use super::pty::Screen;
use super::traffic::joined;
use super::{cell, median, usage};
use crate::live::program::{PATIENCE, Program};

const FLOWS: u32 = 64;
/// Interval of reports.
const INTERVAL: &str = "100ms";
/// Time before the first reports or screens.
const START: Duration = Duration::from_millis(500);

/// Output of rocescope during the storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// A report ten times a second: events are read only for connection management.
    Reports,
    /// The user interface, which lists events.
    Screen,
}

impl View {
    fn name(self) -> &'static str {
        match self {
            Self::Reports => "jsonl",
            Self::Screen => "tui",
        }
    }
}

/// Result of a storm.
#[derive(Clone, Copy, Debug)]
pub struct FloodRun {
    /// Packets counted per second.
    pub packets: f64,
    /// CPU time of rocescope's process, as a share of one core.
    pub process: f64,
    /// With reports: share of dropped events, and the longest time between two reports of which the second counted
    /// more.
    pub reported: Option<(f64, Duration)>,
}

enum Watching {
    Reports(Program),
    Screen(Screen),
}

impl Watching {
    fn new(view: View, near: &NetNs, name: &str) -> Result<Self> {
        Ok(match view {
            View::Reports => {
                let options = ["-i", name, "--output", "jsonl", "--interval", INTERVAL];
                let program = Program::live(near, &options)?;
                program.reported(|_| true)?;
                Self::Reports(program)
            }
            View::Screen => Self::Screen(Screen::start(near, &["live", "-i", name, "--output", "tui"])?),
        })
    }

    fn id(&self) -> u32 {
        match self {
            Self::Reports(program) => program.id(),
            Self::Screen(screen) => screen.id(),
        }
    }
}

/// Floods a link with NAKs for this time.
pub fn run(view: View, time: Duration) -> Result<FloodRun> {
    let mut bench = FloodLink::new(Receiver::SameCpu)?;
    let watching = Watching::new(view, &bench.world.near, &bench.link.name)?;
    attached(&mut bench)?;
    std::thread::sleep(START);
    let before = bench.link.near_counted()?;
    let wanted = Wanted { kind: PacketKind::Nak, flows: FLOWS, scan_every: 0, hold_psn: false };
    let flood = Flood::new(&bench.world.far, bench.far, wanted)?;
    let cpu = usage::cpus()?.first().copied().context("no CPU")?;
    let (seconds, worked) = std::thread::scope(|scope| {
        joined(scope.spawn(|| {
            usage::pin(0, cpu)?;
            flood.enter()?;
            let (start, idle) = (Instant::now(), usage::cpu_time(watching.id())?);
            flood.send_for(time)?;
            Ok((start.elapsed().as_secs_f64(), usage::cpu_time(watching.id())?.saturating_sub(idle)))
        }))
    })?;
    let received = bench.arrived(before, &flood)?.received;
    let reported = match watching {
        Watching::Reports(program) => Some(reports(program, received)?),
        Watching::Screen(_) => None,
    };
    Ok(FloodRun { packets: received as f64 / seconds, process: worked.as_secs_f64() / seconds, reported })
}

/// Waits for promiscuous mode on the link, which rocescope enables last.
fn attached(bench: &mut FloodLink) -> Result<()> {
    let late = Instant::now() + PATIENCE;
    while bench.link.near_counted()?.promiscuity == 0 {
        ensure!(Instant::now() < late, "rocescope did not attach");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The share of dropped events, and the longest time without an increase of the counters.
fn reports(program: Program, received: u64) -> Result<(f64, Duration)> {
    let reports = program.interrupt()?.lines()?;
    let last = reports.last().context("no report")?;
    let packets = |report: &Value| report["totals"]["packets"].as_u64().unwrap_or_default();
    ensure!(packets(last) == received, "{received} packets received, {} counted", packets(last));
    let naks: u64 = last["flows"].as_array().into_iter().flatten().filter_map(naks).sum();
    ensure!(naks == received, "{received} NAKs received, {naks} counted");
    let dropped = last["totals"]["lost"]["events_dropped"].as_u64().context("no events_dropped")?;
    ensure!(dropped <= received, "{dropped} events dropped of {received}");
    let growing: Vec<&Value> = reports
        .windows(2)
        .filter(|pair| packets(&pair[1]) > packets(&pair[0]))
        .map(|pair| &pair[1])
        .collect();
    let time = |report: &&Value| report["window"]["last_ns"].as_u64().unwrap_or_default();
    let gaps = growing.windows(2).map(|pair| time(&pair[1]).saturating_sub(time(&pair[0])));
    let longest = Duration::from_nanos(gaps.max().context("counters stood still during the storm")?);
    Ok((dropped as f64 / received as f64, longest))
}

fn naks(flow: &Value) -> Option<u64> {
    flow["ack"]["naks"]["psn_sequence_error"].as_u64()
}

/// Runs all storms and prints a table.
pub fn bench(rounds: usize, time: Duration) -> Result<()> {
    println!(
        "\na storm of events: every packet a NAK, of {FLOWS} queue pairs; {rounds} rounds of {time:?}, medians"
    );
    println!(
        "  {:<8} {:>13} {:>14} {:>19} {:>22}",
        "view", "packets Mpps", "events dropped", "process, of a core", "longest between counts"
    );
    let mut runs = [View::Reports, View::Screen].map(|view| (view, Vec::new()));
    for _ in 0..rounds.max(1) {
        for (view, runs) in &mut runs {
            runs.push(run(*view, time)?);
        }
    }
    for (view, runs) in runs {
        let figure = |of: fn(&FloodRun) -> f64| median(runs.iter().map(of).collect());
        let reported: Vec<_> = runs.iter().filter_map(|run| run.reported).collect();
        let known = !reported.is_empty();
        let dropped = known.then(|| median(reported.iter().map(|(share, _)| *share).collect()));
        let longest = reported.iter().map(|(_, longest)| *longest).max();
        println!(
            "  {:<8} {:>13.3} {:>14} {:>18.1}% {:>22}",
            view.name(),
            figure(|run| run.packets) / 1e6,
            cell(dropped, |share| format!("{:.1}%", share * 100.0)),
            figure(|run| run.process) * 100.0,
            cell(longest, |longest| format!("{} ms", longest.as_millis())),
        );
    }
    println!(
        "  wanted: at most 50% of a core. Every NAK received was counted; reports come every {INTERVAL}."
    );
    Ok(())
}
