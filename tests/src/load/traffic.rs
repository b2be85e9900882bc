//! Rate of a flood with nothing, an empty program and rocescope at the receiving end.

use std::io::Write;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use aya::programs::{TcAttachType, XdpMode};
use rocescope::source::live::Programs;
use rocescope::source::live::load::names;
use serde_json::{Value, json};

use super::flood::{Flood, PacketKind, Wanted};
use super::link::{FloodLink, Receiver};
use super::usage;
use super::{cell, median};
use crate::kernel::machine;
use crate::live::program::Program;

pub(super) const EMPTY_XDP: &str = "rocescope_test_pass_xdp";
const EMPTY_TC: &str = "rocescope_test_pass_tc";
/// Queue pairs over which the flood is spread.
const FLOWS: u32 = 64;
/// Frames before each measurement, to warm up caches, pages and the flow table.
const WARM_UP: u32 = 50_000;

/// State of the receiving end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Nothing,
    /// An XDP program that passes all frames.
    EmptyXdp,
    /// An XDP program that does all but bins and latency.
    FloorXdp,
    /// rocescope with `--hook xdp --xdp-mode native`.
    Xdp,
    /// A TC program that passes all frames.
    EmptyTc,
    /// A TC program that does all but bins and latency.
    FloorTc,
    /// rocescope with `--hook tc`.
    Tc,
}

impl State {
    /// All states.
    pub const ALL: [Self; 7] =
        [Self::Nothing, Self::EmptyXdp, Self::FloorXdp, Self::Xdp, Self::EmptyTc, Self::FloorTc, Self::Tc];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::EmptyXdp => "empty XDP",
            Self::FloorXdp => "floor XDP",
            Self::Xdp => "rocescope XDP",
            Self::EmptyTc => "empty TC",
            Self::FloorTc => "floor TC",
            Self::Tc => "rocescope TC",
        }
    }

    /// The empty program of the same kind.
    fn empty(self) -> Option<Self> {
        match self {
            Self::Xdp | Self::FloorXdp => Some(Self::EmptyXdp),
            Self::Tc | Self::FloorTc => Some(Self::EmptyTc),
            _ => None,
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct FloodRun {
    /// Frames received per second of elapsed time.
    pub received: f64,
    /// Frames generated per second of elapsed time.
    pub offered: f64,
    /// Frames received per second of CPU time of the threads that process them: the receiving end, and the sender if
    /// both share a CPU. Hardly affected by other load.
    pub per_cpu: f64,
    /// CPU time of rocescope's process, as a share of one core.
    pub process: Option<f64>,
}

/// A program attached to the near end.
enum Attached {
    Nothing,
    /// Detached when dropped.
    Other {
        _programs: Box<Programs>,
    },
    Rocescope(Box<Program>),
}

impl Attached {
    fn new(state: State, flood: &FloodLink) -> Result<Self> {
        let (near, name) = (&flood.world.near, flood.link.name.as_str());
        let live = |hook: &[&str]| {
            let options = ["-i", name, "--output", "json"];
            Program::live(near, &[&options, hook].concat()).map(|program| Self::Rocescope(Box::new(program)))
        };
        match state {
            State::Nothing => Ok(Self::Nothing),
            State::Xdp => live(&["--hook", "xdp", "--xdp-mode", "native"]),
            State::Tc => live(&["--hook", "tc"]),
            State::EmptyXdp | State::FloorXdp => {
                let (mut programs, program) = other(state, EMPTY_XDP, names::FLOOR_XDP)?;
                let program = programs.xdp(program)?;
                near.run(|| program.attach(name, XdpMode::Driver).map(drop))??;
                Ok(Self::Other { _programs: Box::new(programs) })
            }
            State::EmptyTc | State::FloorTc => {
                let (mut programs, program) = other(state, EMPTY_TC, names::FLOOR_TC)?;
                let program = programs.tc(program)?;
                near.run(|| program.attach(name, TcAttachType::Ingress).map(drop))??;
                Ok(Self::Other { _programs: Box::new(programs) })
            }
        }
    }

    /// The process, if there is one.
    fn process(&self) -> Option<u32> {
        match self {
            Self::Rocescope(program) => Some(program.id()),
            _ => None,
        }
    }
}

/// The programs for a state without rocescope, and the name of the one to attach: only the test build has an empty one,
/// and it has no clock.
fn other(state: State, empty: &'static str, floor: &'static str) -> Result<(Programs, &'static str)> {
    let is_floor = matches!(state, State::FloorXdp | State::FloorTc);
    let programs = if is_floor { machine::programs(1024, false) } else { machine::programs(1, true) };
    Ok((programs?, if is_floor { floor } else { empty }))
}

/// Floods a link for about this time.
pub fn run(at: Receiver, state: State, time: Duration) -> Result<FloodRun> {
    let mut bench = FloodLink::new(at)?;
    let attached = Attached::new(state, &bench)?;
    let before = bench.link.near_counted()?;
    let hold_psn = at == Receiver::OwnCpu;
    let wanted = Wanted { kind: PacketKind::Data, flows: FLOWS, scan_every: 0, hold_psn };
    let flood = Flood::new(&bench.world.far, bench.far, wanted)?;
    let spent = send(&flood, &bench, at, attached.process(), time)?;
    let counted = bench.arrived(before, &flood)?;
    if let Attached::Rocescope(program) = attached {
        let report = program.interrupt()?.report()?;
        let seen = report["totals"]["packets"].as_u64().context("a report without packets")?;
        ensure!(
            seen == counted.received,
            "{}: the interface received {} packets, rocescope counted {seen}",
            state.name(),
            counted.received
        );
        let flows = report["flows"].as_array().context("a report without flows")?;
        let in_flows: u64 = flows.iter().filter_map(|flow| flow["packets"].as_u64()).sum();
        ensure!(in_flows == seen, "{seen} packets, {in_flows} of them in flows");
    }
    // Frames of the warm-up arrived in the same proportion as the rest.
    let made = spent.frames as f64;
    let received = counted.received as f64 * made / (made + f64::from(WARM_UP));
    Ok(FloodRun {
        received: received / spent.seconds,
        offered: made / spent.seconds,
        per_cpu: received / spent.cpu_seconds,
        process: spent.process,
    })
}

/// Number of packets sent, and the time taken.
struct Spent {
    frames: u64,
    seconds: f64,
    cpu_seconds: f64,
    process: Option<f64>,
}

fn send(
    flood: &Flood,
    bench: &FloodLink,
    at: Receiver,
    process: Option<u32>,
    time: Duration,
) -> Result<Spent> {
    let cpu = usage::cpus()?.first().copied().context("no CPU")?;
    // In a separate thread, which stays on its CPU and in its namespace.
    std::thread::scope(|scope| {
        joined(scope.spawn(|| {
            usage::pin(0, cpu)?;
            flood.enter()?;
            flood.send(WARM_UP)?;
            let mut workers = bench.threads.clone();
            if at == Receiver::SameCpu {
                workers.push(usage::this_thread());
            }
            let worked =
                || workers.iter().map(|thread| usage::thread_time(*thread)).sum::<Result<Duration>>();
            let (before, (first, _), idle) =
                (process.map(usage::cpu_time).transpose()?, flood.made()?, worked()?);
            let start = Instant::now();
            flood.send_for(time)?;
            let (seconds, worked) = (start.elapsed().as_secs_f64(), worked()?.saturating_sub(idle));
            let process = before.zip(process.map(usage::cpu_time).transpose()?);
            Ok(Spent {
                frames: flood.made()?.0 - first,
                seconds,
                cpu_seconds: worked.as_secs_f64(),
                process: process.map(|(before, after)| after.saturating_sub(before).as_secs_f64() / seconds),
            })
        }))
    })
}

/// Result of a thread.
pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().map_err(|_| anyhow!("a thread of the measurement has panicked"))?
}

/// Measures every state in every round, and prints a table for each placement of the receiving end. Returns each
/// state's rate over that of the empty program, by placement and state.
pub fn bench(rounds: usize, time: Duration, out: &mut impl Write) -> Result<Value> {
    writeln!(out, "{FLOWS} queue pairs, frames of 1082 bytes, {rounds} rounds of {time:?}, medians")?;
    let mut ratios = serde_json::Map::new();
    let title = "the receiving end on the sender's CPU, PSNs in order";
    ratios.insert("same_cpu".to_owned(), table(title, Receiver::SameCpu, rounds, time, out)?);
    if usage::cpus()?.len() > 1 {
        let title = "the receiving end on a CPU of its own, PSNs repeated";
        ratios.insert("own_cpu".to_owned(), table(title, Receiver::OwnCpu, rounds, time, out)?);
    } else {
        writeln!(out, "SKIP the receiving end on a CPU of its own: there is only one")?;
    }
    writeln!(
        out,
        "\nIn every round rocescope counted the packets that the interface received, all of them in flows."
    )?;
    Ok(Value::Object(ratios))
}

fn table(title: &str, at: Receiver, rounds: usize, time: Duration, out: &mut impl Write) -> Result<Value> {
    let mut runs = State::ALL.map(|state| (state, Vec::new()));
    for _ in 0..rounds.max(1) {
        for (state, runs) in &mut runs {
            runs.push(run(at, *state, time)?);
        }
    }
    let figure = |state: State, of: fn(&FloodRun) -> f64| {
        let of_state = runs.iter().filter(|(other, _)| *other == state);
        median(of_state.flat_map(|(_, runs)| runs).map(of).collect())
    };
    let per_cpu = |state| figure(state, |run| run.per_cpu);
    writeln!(out, "\n{title}")?;
    writeln!(
        out,
        "  {:<14} {:>9} {:>9} {:>8} {:>9} {:>10} {:>9} {:>9} {:>9}",
        "attached",
        "offered",
        "received",
        "dropped",
        "per CPU",
        "to nothing",
        "to empty",
        "ns more",
        "process"
    )?;
    for (state, runs) in &runs {
        let (received, offered) = (figure(*state, |run| run.received), figure(*state, |run| run.offered));
        let (now, empty) = (per_cpu(*state), state.empty().map(per_cpu));
        let process: Vec<f64> = runs.iter().filter_map(|run| run.process).collect();
        writeln!(
            out,
            "  {:<14} {:>9.3} {:>9.3} {:>7.1}% {:>9.3} {:>10.3} {:>9} {:>9} {:>9}",
            state.name(),
            offered / 1e6,
            received / 1e6,
            (1.0 - received / offered).max(0.0) * 100.0,
            now / 1e6,
            now / per_cpu(State::Nothing),
            cell(empty, |empty| format!("{:.3}", now / empty)),
            cell(empty, |empty| format!("{:.0}", 1e9 / now - 1e9 / empty)),
            cell((!process.is_empty()).then(|| median(process)), |share| format!("{:.1}%", share * 100.0)),
        )?;
    }
    writeln!(
        out,
        "  offered, received: millions of frames a second by the clock; per CPU: received in a second of"
    )?;
    writeln!(
        out,
        "  processor time, of which the ratios are; ns more: a frame, than with the empty program"
    )?;
    let ratios = State::ALL.iter().filter_map(|state| {
        let empty = per_cpu(state.empty()?);
        Some((state.name().to_owned(), json!(per_cpu(*state) / empty)))
    });
    Ok(Value::Object(ratios.collect()))
}
