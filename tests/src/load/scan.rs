//! New flows at a high rate: their cost for known flows, exact totals, and bounded memory beyond the size of the
//! table.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use aya::maps::{MapData, RingBuf};
use rocescope::source::live::{Programs, Tables};
use serde_json::Value;

use super::flood::{Flood, PacketKind, SCANNED, Wanted};
use super::link::{FloodLink, Receiver};
use super::traffic::{EMPTY_XDP, joined};
use super::{median, usage};
use crate::kernel::machine::{self, Hook};
use crate::kernel::test_run;
use crate::live::program::Program;
use crate::oracle::binary;

/// New flows per second.
pub const RATE: u32 = 100_000;
/// Default size of the flow table.
const PLACES: u32 = rocescope::source::live::DEFAULT_MAX_FLOWS;
const MICROS: u64 = 1_000_000;

/// The template of a flood with another queue pair.
fn to_qp(qp: u32) -> Vec<u8> {
    let mut frame = PacketKind::Data.template();
    let [_, bytes @ ..] = qp.to_be_bytes();
    // After Ethernet, IPv4, UDP and five bytes of BTH.
    frame[47..50].copy_from_slice(&bytes);
    frame
}

/// State of the table and of the scan during the measurement of the known flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Quiet,
    Scanned,
    Full,
    FullScanned,
}

impl State {
    const ALL: [Self; 4] = [Self::Quiet, Self::Scanned, Self::Full, Self::FullScanned];

    fn name(self) -> &'static str {
        match self {
            Self::Quiet => "no other flow",
            Self::Scanned => "new flows",
            Self::Full => "table full",
            Self::FullScanned => "table full, new flows",
        }
    }
}

/// Sends packets of new flows at a steady rate until stopped, and reads their events as a view does. Returns the
/// number of packets.
fn scan(
    program: BorrowedFd<'_>,
    first_qp: u32,
    stop: &AtomicBool,
    ring: &mut RingBuf<MapData>,
) -> Result<u64> {
    let (start, mut sent) = (Instant::now(), 0u64);
    while !stop.load(Ordering::Relaxed) {
        let due = u64::try_from(start.elapsed().as_micros())? * u64::from(RATE) / MICROS;
        while sent < due {
            test_run::xdp(program, &to_qp(first_qp + u32::try_from(sent)?), 1)?;
            sent += 1;
        }
        while ring.next().is_some() {}
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(sent)
}

/// Nanoseconds per packet of the known flow, less those of an empty program.
fn known(program: BorrowedFd<'_>, empty: BorrowedFd<'_>) -> Result<f64> {
    const REPEAT: u32 = 500_000;
    let frame = to_qp(1);
    let without = test_run::duration(empty, &frame, REPEAT)?;
    let with = test_run::duration(program, &frame, REPEAT)?;
    Ok(f64::from(with) - f64::from(without))
}

/// One round: the known flow in every state. Returns the actual number of new flows per second.
fn round(costs: &mut [(State, Vec<f64>)]) -> Result<f64> {
    let cpus = usage::cpus()?;
    let &[here, there, ..] = cpus.as_slice() else {
        bail!("a scan beside a known flow needs two CPUs");
    };
    let mut programs = machine::programs(PLACES, false)?;
    let mut empty = machine::programs(1, true)?;
    let fd = Hook::Xdp.load(&mut programs)?;
    let empty_fd = empty.xdp(EMPTY_XDP)?.fd()?.as_fd().try_clone_to_owned()?;
    let (program, empty) = (fd.as_fd(), empty_fd.as_fd());
    let mut ring = programs.take_events().context("the ring buffer is taken")?;
    let (sent, seconds) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut next = SCANNED;
    for (state, found) in costs.iter_mut() {
        if *state == State::Full {
            for qp in next..next + PLACES {
                test_run::xdp(program, &to_qp(qp), 1)?;
            }
            next += PLACES;
        }
        let ring = &mut ring;
        let scanned = matches!(state, State::Scanned | State::FullScanned);
        let stop = AtomicBool::new(!scanned);
        let first = next;
        let (cost, new) = std::thread::scope(|scope| {
            let other = scope.spawn(|| -> Result<u64> {
                usage::pin(0, there)?;
                let start = Instant::now();
                let done = scan(program, first, &stop, ring)?;
                sent.fetch_add(done, Ordering::Relaxed);
                seconds.fetch_add(u64::try_from(start.elapsed().as_micros())?, Ordering::Relaxed);
                Ok(done)
            });
            let cost = scope.spawn(|| {
                usage::pin(0, here)?;
                (0..5).map(|_| known(program, empty)).collect::<Result<Vec<f64>>>().map(median)
            });
            let cost = joined(cost);
            stop.store(true, Ordering::Relaxed);
            Ok::<_, anyhow::Error>((cost?, joined(other)?))
        })?;
        next += u32::try_from(new)?;
        found.push(cost);
    }
    complete(&mut programs, next - SCANNED)?;
    let micros = seconds.load(Ordering::Relaxed);
    Ok(sent.load(Ordering::Relaxed) as f64 * MICROS as f64 / micros as f64)
}

/// Verifies that each new flow has a slot, or that its packet is counted as without one.
fn complete(programs: &mut Programs, new: u32) -> Result<()> {
    let reading = Tables::default().read(programs)?;
    let scanned: u64 =
        reading.flows.iter().filter(|f| f.key.dest_qp >= SCANNED).map(|f| f.stats.packets).sum();
    let link = programs.hash.index(1, false);
    let without = rocescope::source::live::tables::link_counters(programs, link)?.flow_table_full.packets;
    ensure!(
        scanned + without == u64::from(new),
        "{new} packets of new flows: {scanned} in flows, {without} without a slot"
    );
    Ok(())
}

/// Result of a run of rocescope during a scan.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    /// New flows per second.
    pub rate: f64,
    /// Number of new flows.
    pub new: u64,
    /// Number of retired flows.
    pub retired: u64,
    /// Packets without room in the table.
    pub without: u64,
    /// CPU time of rocescope's process, as a share of one core.
    pub process: f64,
    /// Peak memory of the process at half of the time, and at the end, in bytes.
    pub memory: [u64; 2],
}

/// Scans a link watched by rocescope for this time; every second packet belongs to one of 64 known flows.
pub fn watched(time: Duration, options: &[&str]) -> Result<Watched> {
    /// Interval and size of bursts.
    const TURN: Duration = Duration::from_millis(200);
    let burst = RATE / 5 * 2;
    let mut bench = FloodLink::new(Receiver::SameCpu)?;
    let basic = ["-i", &bench.link.name, "--output", "json"];
    let program = Program::live(&bench.world.near, &[&basic, options].concat())?;
    let before = bench.link.near_counted()?;
    let wanted = Wanted { kind: PacketKind::Data, flows: 64, scan_every: 2, hold_psn: false };
    let flood = Flood::new(&bench.world.far, bench.far, wanted)?;
    let cpu = usage::cpus()?.first().copied().context("no CPU")?;
    let (seconds, worked, memory) = std::thread::scope(|scope| {
        joined(scope.spawn(|| {
            usage::pin(0, cpu)?;
            flood.enter()?;
            let (start, idle) = (Instant::now(), usage::cpu_time(program.id())?);
            let mut half = None;
            let mut turns = 0;
            while start.elapsed() < time {
                flood.send(burst)?;
                turns += 1;
                if start.elapsed() >= time / 2 {
                    half = half.or(Some(binary::peak_memory(program.id())?));
                }
                std::thread::sleep((TURN * turns).saturating_sub(start.elapsed()));
            }
            let worked = usage::cpu_time(program.id())?.saturating_sub(idle);
            let end = binary::peak_memory(program.id())?;
            Ok((start.elapsed().as_secs_f64(), worked, [half.unwrap_or(end), end]))
        }))
    })?;
    let received = bench.arrived(before, &flood)?.received;
    let report = program.interrupt()?.report()?;
    let (retired, without) = even(&report, received)?;
    let (_, new) = flood.made()?;
    Ok(Watched {
        rate: new as f64 / seconds,
        new,
        retired,
        without,
        process: worked.as_secs_f64() / seconds,
        memory,
    })
}

/// Compares the report with the interface and checks its consistency. Returns retired flows, and packets without a
/// slot.
fn even(report: &Value, received: u64) -> Result<(u64, u64)> {
    let number = |value: &Value| value.as_u64().with_context(|| format!("no number: {value}"));
    let totals = &report["totals"];
    let packets = number(&totals["packets"])?;
    ensure!(packets == received, "{received} packets received, {packets} counted");
    let skipped: u64 =
        totals["skipped"].as_object().context("no skipped")?.values().filter_map(Value::as_u64).sum();
    let lost = &totals["lost"];
    let (roce, without) = (number(&totals["roce_packets"])?, number(&lost["flow_table_full"])?);
    let contended = number(&lost["contended"])?;
    ensure!(packets == roce + skipped, "{packets} packets: {roce} of RoCE and {skipped} skipped");
    let flows = report["flows"].as_array().context("no flows")?;
    let in_flows: u64 = flows.iter().filter_map(|flow| flow["packets"].as_u64()).sum();
    let retired = number(&totals["retired"]["packets"])?;
    ensure!(
        roce == in_flows + retired + without + contended,
        "{roce} packets of RoCE: {in_flows} in flows, {retired} retired, {without} without a slot, {contended} \
         contended"
    );
    Ok((number(&totals["retired"]["flows"])?, without))
}

/// Runs both measurements, and prints their tables.
pub fn bench(rounds: usize, time: Duration) -> Result<()> {
    println!("\nnew flows at {RATE} a second");
    if usage::cpus()?.len() > 1 {
        let mut costs = State::ALL.map(|state| (state, Vec::new()));
        let rates = (0..rounds.max(1)).map(|_| round(&mut costs)).collect::<Result<Vec<f64>>>()?;
        println!(
            "a packet of a known flow, PSN repeated, on one CPU; the new flows, {:.0} a second, on another; {rounds} rounds",
            median(rates)
        );
        println!("  {:<22} {:>10} {:>9}", "meanwhile", "median ns", "ratio");
        let quiet = median(costs[0].1.clone());
        for (state, costs) in costs {
            let cost = median(costs);
            println!("  {:<22} {cost:>10.0} {:>9.2}", state.name(), cost / quiet);
        }
    } else {
        println!("SKIP the cost of a known flow: new ones need a second CPU");
    }
    println!("\n`rocescope live` on a link with them, half of the packets of 64 known flows, {time:?}");
    println!(
        "  {:<24} {:>9} {:>9} {:>9} {:>13} {:>9} {:>12} {:>9}",
        "options", "new /s", "new", "retired", "without place", "process", "peak at half", "at end"
    );
    for options in [&["--idle", "1s"] as &[&str], &["--idle", "60s"]] {
        let seen = watched(time, options)?;
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        println!(
            "  {:<24} {:>9.0} {:>9} {:>9} {:>13} {:>8.1}% {:>12} {:>9}",
            options.join(" "),
            seen.rate,
            seen.new,
            seen.retired,
            seen.without,
            seen.process * 100.0,
            mib(seen.memory[0]),
            mib(seen.memory[1]),
        );
    }
    println!("  packets = in flows + retired + without a slot = received by the interface, each time");
    Ok(())
}
