//! Ways to keep flows in the kernel, held against one another: `analyzer-ebpf/src/designs`.

mod maps;

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use aya::Ebpf;
use aya::maps::{MapData, PerCpuArray, PerCpuValues};
use aya::programs::Xdp;
use aya::util::nr_cpus;
use rocescope_common::abi::testing::FloodPlan;
use rocescope_common::account::FlowStats;

use super::flood::{Kind, Plan};
use super::traffic::joined;
use super::{cell, median, usage};
use crate::kernel::test_run;
use maps::Maps;

/// Flows in the table when it is read.
pub(super) const FLOWS: u32 = 65_536;
/// The lowest queue pair number.
pub(super) const FIRST_QP: u32 = 0x100;
/// CPUs that a large host has, for what it would take there.
const MANY_CPUS: usize = 256;
/// Flows that have turns in the second case.
const SEVERAL: u32 = 4_096;
const STEP: &str = "design_step";
const PARSE: &str = "design_parse";

/// Where a design keeps statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    PerCpu,
    Shared,
    Locked,
    Slots,
}

struct Design {
    program: &'static str,
    title: &'static str,
    place: Option<Place>,
    /// What it takes besides its place on a host with so many CPUs, in bytes.
    besides: fn(usize) -> usize,
}

const NOTHING: fn(usize) -> usize = |_| 0;
/// A flow's key, padded, and its slot.
const REMEMBERED: usize = 44;

const DESIGNS: [Design; 9] = [
    Design { program: PARSE, title: "(parsing alone)", place: None, besides: NOTHING },
    Design {
        program: "design_percpu",
        title: "per-CPU hash values",
        place: Some(Place::PerCpu),
        besides: NOTHING,
    },
    Design {
        program: "design_shared",
        title: "shared hash, one writer a flow",
        place: Some(Place::Shared),
        besides: NOTHING,
    },
    Design {
        program: "design_shared_lock",
        title: "shared hash, spin lock",
        place: Some(Place::Locked),
        besides: NOTHING,
    },
    Design {
        program: "design_slot",
        title: "hash to slot, one writer a flow",
        place: Some(Place::Slots),
        besides: NOTHING,
    },
    Design {
        program: "design_slot_turn",
        title: "hash to slot, turns",
        place: Some(Place::Slots),
        besides: NOTHING,
    },
    Design {
        program: "design_last",
        title: "  + last flow of each CPU",
        place: Some(Place::Slots),
        besides: |cpus| cpus * REMEMBERED,
    },
    Design {
        program: "design_cache",
        title: "  + 64 flows of each CPU",
        place: Some(Place::Slots),
        besides: |cpus| cpus * 64 * REMEMBERED,
    },
    Design {
        program: "design_hints",
        title: "  + hints for all CPUs",
        place: Some(Place::Slots),
        besides: |_| 2 * FLOWS as usize * 4,
    },
];

/// A program, and how far its frame has been moved on.
struct Runner {
    program: OwnedFd,
    known: u64,
}

struct Bench {
    step: PerCpuArray<MapData, Plan>,
    maps: Maps,
    cpus: usize,
    frame: Vec<u8>,
    _ebpf: Ebpf,
}

impl Bench {
    fn load(object: &Path) -> Result<(Self, impl FnMut(&str) -> Result<Runner>)> {
        let load = || Ebpf::load_file(object).with_context(|| object.display().to_string());
        let mut ebpf = load()?;
        let mut fds = std::collections::BTreeMap::new();
        for name in DESIGNS.iter().map(|design| design.program).chain([STEP]) {
            let program: &mut Xdp =
                ebpf.program_mut(name).with_context(|| format!("there is no program {name}"))?.try_into()?;
            program.load().map_err(|error| anyhow!("program {name} was refused: {error}"))?;
            fds.insert(name.to_owned(), program.fd()?.as_fd().try_clone_to_owned()?);
        }
        let bench = Self {
            step: ebpf.take_map("STEP").context("there is no map STEP")?.try_into()?,
            maps: Maps::take(&mut ebpf)?,
            cpus: nr_cpus().map_err(|(_, error)| error)?,
            frame: Kind::Data.template(),
            _ebpf: ebpf,
        };
        let runner = move |name: &str| {
            let program = fds.get(name).context("a design without a program")?.try_clone()?;
            Ok(Runner { program, known: 0 })
        };
        Ok((bench, runner))
    }

    /// What the next frames shall be, on every CPU.
    fn plan(&mut self, flows: u32, known: u64, hold_psn: bool) -> Result<()> {
        let plan =
            FloodPlan { flows, known, first_qp: FIRST_QP, hold_psn: hold_psn.into(), ..FloodPlan::default() };
        let values = PerCpuValues::try_from(vec![Plan(plan); self.cpus])?;
        self.step.set(0, values, 0).context("the plan was refused")
    }

    /// Nanoseconds of a packet with everything around.
    fn time(&mut self, runner: &mut Runner, flows: u32) -> Result<f64> {
        const REPEAT: u32 = 1 << 18;
        self.plan(flows, runner.known, false)?;
        let ns = test_run::duration(runner.program.as_fd(), &self.frame, REPEAT)?;
        runner.known += u64::from(REPEAT);
        Ok(f64::from(ns))
    }

    /// The costs of all designs, less that of moving the frame on, in order.
    fn costs(
        &mut self,
        runners: &mut dyn FnMut(&str) -> Result<Runner>,
        flows: u32,
        rounds: usize,
    ) -> Result<Vec<f64>> {
        let mut step = runners(STEP)?;
        let mut all = DESIGNS
            .iter()
            .map(|design| Ok((runners(design.program)?, Vec::new())))
            .collect::<Result<Vec<_>>>()?;
        // The first round makes the flows.
        for round in 0..=rounds.max(1) {
            for (runner, costs) in &mut all {
                let cost = -self.time(&mut step, flows)? + self.time(runner, flows)?;
                if round > 0 {
                    costs.push(cost);
                }
            }
        }
        Ok(all.into_iter().map(|(_, costs)| median(costs)).collect())
    }

    /// The share of packets of one flow that two CPUs at once did not count.
    fn lost(&mut self, design: &Design, place: Place, runner: &Runner, cpus: [usize; 2]) -> Result<f64> {
        const EACH: u32 = 2_000_000;
        self.plan(1, 0, true)?;
        let frame = &self.frame;
        let packets = |maps: &Maps| -> Result<u64> {
            Ok(maps.first_flow(place)?.iter().map(|stats| stats.packets).sum())
        };
        let before = packets(&self.maps)?;
        std::thread::scope(|scope| {
            let threads = cpus.map(|cpu| {
                scope.spawn(move || -> Result<()> {
                    usage::pin(0, cpu)?;
                    Ok(test_run::xdp(runner.program.as_fd(), frame, EACH).map(drop)?)
                })
            });
            threads.into_iter().try_for_each(joined)
        })
        .with_context(|| design.title.to_owned())?;
        let counted = packets(&self.maps)? - before;
        Ok(1.0 - counted as f64 / f64::from(2 * EACH))
    }

    /// Gaps that are found in a sequence without any, whose packets come in on two CPUs in turn.
    fn gaps(&mut self, place: Place, runner: &Runner, cpus: [usize; 2]) -> Result<u64> {
        const PACKETS: u64 = 1_000;
        /// Far from any PSN so far: a sequence of its own.
        const START: u64 = 8_000_000;
        let gaps = |maps: &Maps| -> Result<u64> {
            Ok(maps.first_flow(place)?.iter().map(|stats| stats.psn.gaps).sum())
        };
        let mut before = 0;
        for psn in 0..PACKETS {
            // The first packet of each CPU starts the sequence anew.
            if psn == 2 {
                before = gaps(&self.maps)?;
            }
            self.plan(1, START + psn, false)?;
            let cpu = cpus[usize::from(psn % 2 == 1)];
            std::thread::scope(|scope| {
                joined(scope.spawn(|| {
                    usage::pin(0, cpu)?;
                    Ok(test_run::xdp(runner.program.as_fd(), &self.frame, 1).map(drop)?)
                }))
            })?;
        }
        Ok(gaps(&self.maps)? - before)
    }

    /// Processor time of a reading of the full table.
    fn read(&mut self, place: Place, runner: &Runner, rounds: usize) -> Result<f64> {
        self.plan(FLOWS, 0, true)?;
        test_run::xdp(runner.program.as_fd(), &self.frame, FLOWS)?;
        let thread = usage::this_thread();
        let mut times = Vec::new();
        for _ in 0..rounds.max(1) {
            let before = usage::thread_time(thread)?;
            let read = self.maps.read(place)?;
            times.push(usage::thread_time(thread)?.saturating_sub(before).as_secs_f64());
            anyhow::ensure!(read >= FLOWS as usize, "{place:?}: {read} flows of {FLOWS} were read");
        }
        Ok(median(times))
    }
}

/// Measures, and prints a table.
///
/// # Errors
/// When the object cannot be loaded, or a run is refused.
pub fn bench(object: &Path, rounds: usize) -> Result<()> {
    let cpus = usage::cpus()?;
    // Each CPU moves frames on by itself: a thread that changed CPU would start again.
    usage::pin(0, cpus.first().copied().context("no CPU")?)?;
    measure(object, rounds, &cpus)
}

fn measure(object: &Path, rounds: usize, cpus: &[usize]) -> Result<()> {
    let (mut bench, mut runners) = Bench::load(object)?;
    let one = bench.costs(&mut runners, 1, rounds)?;
    let several = bench.costs(&mut runners, SEVERAL, rounds)?;
    let cpus = match *cpus {
        [first, second, ..] => Some([first, second]),
        _ => None,
    };
    println!("\nways to keep flows: WRITE MIDDLE over IPv4, PSNs in order; ns a packet less what moving the");
    println!("frame on costs (and the call), medians of {rounds} rounds; a table of {FLOWS} flows");
    println!(
        "  {:<32} {:>7} {:>10} {:>11} {:>8} {:>9} {:>12}",
        "", "1 flow", "4096 flows", "2 CPUs lose", "gaps", "read ms", "256 CPUs MiB"
    );
    for (design, (one, several)) in DESIGNS.iter().zip(one.into_iter().zip(several)) {
        let runner = runners(design.program)?;
        let (mut lost, mut gaps, mut read, mut memory) = (None, None, None, None);
        if let Some(place) = design.place {
            if let Some(cpus) = cpus {
                lost = Some(bench.lost(design, place, &runner, cpus)?);
                gaps = Some(bench.gaps(place, &runner, cpus)?);
            }
            read = Some(bench.read(place, &runner, rounds)?);
            memory = Some(Maps::bytes(place, MANY_CPUS) + (design.besides)(MANY_CPUS));
        }
        println!(
            "  {:<32} {one:>7.0} {several:>10.0} {:>11} {:>8} {:>9} {:>12}",
            design.title,
            cell(lost, |lost| format!("{:.2}%", lost * 100.0)),
            cell(gaps, |gaps| gaps.to_string()),
            cell(read, |read| format!("{:.1}", Duration::from_secs_f64(read).as_secs_f64() * 1e3)),
            cell(memory, |bytes| format!("{:.1}", bytes as f64 / f64::from(1 << 20))),
        );
    }
    println!(
        "  2 CPUs lose: packets of one flow that two CPUs at once do not count; gaps: found in a sequence"
    );
    println!("  of 1000 without any, on two CPUs in turn; read: processor time of one reading, here with");
    println!("  {} CPUs; a flow's statistics take {} bytes", bench.cpus, size_of::<FlowStats>());
    Ok(())
}
