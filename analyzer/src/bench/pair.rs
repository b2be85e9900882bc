//! Two processors that count packets of different flows in one table at the same time.
//!
//! Each thread's own processor time is taken, so that what else runs on the machine does not count. Two hardware
//! threads of one core share it: what they make of an empty program stands beside the figure.

use std::sync::Barrier;
use std::time::Instant;

use anyhow::{Context as _, Result};
use aya::programs::SchedClassifier;
use rocescope_common::abi::BenchStep;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::frames as f;
use super::timing::{PACKETS, timed};
use crate::source::live::Programs;
use crate::source::live::load::names;
use crate::util::numbers::interpolated;

/// Rate of two processors together over that of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Counting, less the empty program.
    pub counting: f64,
    /// All but bins and latency, less the empty program: what there is to gain at most.
    pub floor: f64,
    /// Cost of the empty program, ns per packet.
    pub empty: f64,
}

/// Packets of a run that is not measured.
const WARM_UP: u32 = 5_000;
/// Number of measurements of each, by turns.
const TURNS: usize = 15;
/// Largest ratio of elapsed to processor time of a measurement that nothing interrupted.
const WAITED: f64 = 1.05;
/// Smallest part of a measurement beside which the other runs, too.
const OVERLAP: f64 = 0.93;
/// Destination queue pairs of the two flows.
const QPS: [u32; 2] = [0x1C, 0x1D];

/// Measures once; `None` on a host with one processor for this process.
pub(super) fn measure(programs: &mut Programs, step: BenchStep) -> Result<Option<Pair>> {
    let allowed = sched_getaffinity(None).context("cannot read the processors of this process")?;
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let (Some(one), Some(other)) = (cpus.next(), cpus.next()) else { return Ok(None) };
    let cpus = [one, other];
    programs.set_bench_step(step)?;
    let empty = run(programs.tc(names::BENCH_TC_STEP)?, cpus)?;
    let counting = run(programs.tc(names::BENCH_TC)?, cpus)?;
    // Behind counting: the flows have their slots.
    let floor = run(programs.tc(names::BENCH_TC_REACH)?, cpus)?;
    let sum = |of: &dyn Fn(usize) -> Option<f64>| (0..2).map(of).sum::<Option<f64>>();
    let part = |alone: f64, together: f64| (together > 0.0).then(|| alone / together);
    let less = |of: &[Times; 2], at: usize| -> Option<f64> {
        let (one, two) = (of.get(at)?, empty.get(at)?);
        part(one.alone? - two.alone?, one.together? - two.together?)
    };
    let bare = |at: usize| empty.get(at).and_then(|times| part(times.alone?, times.together?));
    let (counting, floor) = (sum(&|at| less(&counting, at)), sum(&|at| less(&floor, at)));
    Ok(counting.zip(floor).zip(sum(&bare)).map(|((counting, floor), empty)| Pair { counting, floor, empty }))
}

/// Nanoseconds per packet of one processor; `None` if no measurement was undisturbed.
#[derive(Clone, Copy, Debug)]
struct Times {
    alone: Option<f64>,
    together: Option<f64>,
}

/// One measurement: when it ran, and its processor time per packet.
#[derive(Clone, Copy, Debug)]
struct Sample {
    begin: Instant,
    end: Instant,
    ns: f64,
}

impl Sample {
    /// True if nothing else ran on its processor meanwhile.
    fn is_undisturbed(&self) -> bool {
        let wall_ns = self.end.duration_since(self.begin).as_secs_f64() * 1e9;
        wall_ns <= WAITED * self.ns * f64::from(PACKETS)
    }

    /// True if the other ran for nearly all of its time.
    fn overlaps(&self, other: &Self) -> bool {
        let common = self.end.min(other.end).saturating_duration_since(self.begin.max(other.begin));
        common.as_secs_f64() >= OVERLAP * self.end.duration_since(self.begin).as_secs_f64()
    }
}

/// First one processor after the other, then both, by turns. A measurement that was interrupted, or that ran beside
/// another only in part, says nothing about two processors and is left out.
fn run(program: &SchedClassifier, cpus: [usize; 2]) -> Result<[Times; 2]> {
    let barrier = Barrier::new(2);
    let worker = |at: usize| -> Result<Vec<Option<Sample>>> {
        let pinned = pin(cpus[at]);
        let frame = f::write(QPS[at]);
        let mut samples = Vec::new();
        for turn in 0..3 * TURNS {
            barrier.wait();
            // 0 and 1: one of them; 2: both.
            let is_due = turn % 3 == 2 || turn % 3 == at;
            samples.push(is_due.then(|| -> Result<Sample> {
                timed(program, &frame, WARM_UP)?;
                let begin = Instant::now();
                let ns = timed(program, &frame, PACKETS)?;
                Ok(Sample { begin, end: Instant::now(), ns })
            }));
        }
        pinned?;
        let samples = samples.into_iter().map(Option::transpose).collect::<Result<Vec<_>>>();
        samples.context("cannot run the bench programs on a test frame")
    };
    let [one, other] = std::thread::scope(|scope| {
        let other = scope.spawn(|| worker(1));
        let one = worker(0);
        let other =
            other.join().map_err(|_| anyhow::anyhow!("bug: the second processor's thread panicked"))?;
        Ok::<_, anyhow::Error>([one?, other?])
    })?;
    let times = |own: &[Option<Sample>], others: &[Option<Sample>]| {
        let mut of = [Vec::new(), Vec::new()];
        for (own, other) in own.iter().zip(others) {
            let Some(own) = own.filter(Sample::is_undisturbed) else { continue };
            match other {
                None => of[0].push(own.ns),
                Some(other) if other.is_undisturbed() && own.overlaps(other) => of[1].push(own.ns),
                Some(_) => {}
            }
        }
        let [alone, together] = of.map(|ns| interpolated(&ns, 0.5));
        Times { alone, together }
    };
    Ok([times(&one, &other), times(&other, &one)])
}

/// Keeps this thread on one processor.
fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on processor {cpu}"))
}
