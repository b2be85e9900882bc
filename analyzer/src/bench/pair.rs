//! Two processors that count packets of different flows in one table at the same time.
//!
//! Each thread's own processor time is taken, so that what else runs on the machine does not count. Two hardware threads of
//! one core share it: what they make of an empty program stands beside the figure.

use std::sync::Barrier;

use anyhow::{Context as _, Result};
use aya::programs::SchedClassifier;
use rocescope_common::abi::BenchStep;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::frames as f;
use super::measure::{PACKETS, timed};
use crate::source::live::Programs;
use crate::source::live::load::names;

/// Rate of two processors together over that of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Counting, less the empty program.
    pub counting: f64,
    /// The empty program.
    pub empty: f64,
}

/// Packets of a run that is not measured.
const WARM_UP: u32 = 5_000;
/// Number of measurements of each, by turns.
const TURNS: usize = 7;
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
    let sum = |of: &dyn Fn(usize) -> Option<f64>| (0..2).map(of).sum::<Option<f64>>();
    let part = |alone: f64, together: f64| (together > 0.0).then(|| alone / together);
    let less = |at: usize| -> Option<f64> {
        let (one, two) = (counting.get(at)?, empty.get(at)?);
        part(one.alone - two.alone, one.together - two.together)
    };
    let bare = |at: usize| empty.get(at).and_then(|times| part(times.alone, times.together));
    Ok(sum(&less).zip(sum(&bare)).map(|(counting, empty)| Pair { counting, empty }))
}

/// Nanoseconds per packet of one processor.
#[derive(Clone, Copy, Debug)]
struct Times {
    alone: f64,
    together: f64,
}

/// First one processor after the other, then both.
fn run(program: &SchedClassifier, cpus: [usize; 2]) -> Result<[Times; 2]> {
    let barrier = Barrier::new(2);
    let worker = |at: usize| -> Result<Times> {
        let pinned = pin(cpus[at]);
        let frame = f::write(QPS[at]);
        // Of each the least: another guest on the same core can only add to it.
        let mut least = [Ok(f64::MAX), Ok(f64::MAX)];
        for turn in 0..3 * TURNS {
            barrier.wait();
            // 0 and 1: one of them; 2: both.
            let place = match turn % 3 {
                2 => 1,
                one if one == at => 0,
                _ => continue,
            };
            let took = timed(program, &frame, WARM_UP).and_then(|_| timed(program, &frame, PACKETS));
            if let Some(least) = least.get_mut(place) {
                *least = match (&*least, took) {
                    (Ok(least), Ok(took)) => Ok(least.min(took)),
                    (Err(_), _) => continue,
                    (_, failed) => failed,
                };
            }
        }
        pinned?;
        let [alone, together] = least.map(|ns| ns.context("cannot run the bench programs on a test frame"));
        Ok(Times { alone: alone?, together: together? })
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| worker(1));
        let one = worker(0);
        let other =
            other.join().map_err(|_| anyhow::anyhow!("bug: the second processor's thread panicked"))?;
        Ok([one?, other?])
    })
}

/// Keeps this thread on one processor.
fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on processor {cpu}"))
}
