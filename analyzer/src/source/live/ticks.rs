//! The clock of the kernel programs: ticks, and their time in nanoseconds.
//!
//! The kernel counts a tick whenever the monotonic clock has advanced by the length of one. The length can be
//! queried; the time of tick 0 is found by sampling both clocks for a while. It is constant, because ticks follow
//! from the clock, except on kernels with a periodic timer (`highres=off nohz=off`), which may lose ticks. So a run
//! samples again periodically.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use aya::Ebpf;
use aya::maps::{Array, MapData};
use aya::programs::{SchedClassifier, TestRun as _, TestRunOptions};
use rocescope_common::abi::{TickClock, maps};

use super::names;
use super::object::{Data, refused};
use crate::host::kernel::clock::monotonic_ns;

/// Ticks last 1 to 10 ms.
const LONGEST_TICK_NS: u64 = 10_000_000;
/// Time between two samples.
const PAUSE: Duration = Duration::from_micros(50);
/// Maximum number of samples.
const CLOCK_SAMPLES: u32 = 2_000;
/// Number of samples, or time, after which one of them is near the start of a tick.
const ENOUGH_SAMPLES: u32 = 40;
const LONGEST_NS: u64 = 100_000_000;
/// Number of consecutive late samples after which the clock is considered wrong.
const LATE_SAMPLES: u32 = 10;
/// The shortest frame that programs are run on.
const FRAME: [u8; 14] = [0; 14];

/// Sets the clock of the kernel programs.
///
/// # Errors
/// If the kernel rejects the tick program, or refuses to run it.
pub(super) fn set(ebpf: &mut Ebpf) -> Result<()> {
    let tick_ns = tick_ns()?;
    let program: &mut SchedClassifier = ebpf
        .program_mut(names::TICKS)
        .ok_or_else(|| anyhow!("the kernel object has no program {}", names::TICKS))?
        .try_into()?;
    program.load().map_err(|error| refused(names::TICKS, error))?;
    let (mut base, mut samples) = (None, 0);
    let start = monotonic_ns();
    for _ in 0..CLOCK_SAMPLES {
        let (now, seen) = look(ebpf, tick_ns)?;
        base = Some(earlier(base, seen));
        samples += 1;
        let took = now.saturating_sub(start);
        // On a busy machine samples are few and far apart.
        if took > tick_ns + tick_ns / 4 && (samples >= ENOUGH_SAMPLES || took > LONGEST_NS) {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    let base_ns = base.context("the kernel's tick is unknown")?;
    write(ebpf, TickClock { tick_ns, base_ns, ticks: 0 })
}

/// Takes one more sample, and sets the clock again if ticks were lost permanently.
///
/// # Errors
/// As for [`set`].
pub(super) fn keep(ebpf: &mut Ebpf, drift: &mut Drift) -> Result<()> {
    let clock = read(ebpf)?;
    let (_, seen) = look(ebpf, clock.tick_ns)?;
    match drift.judge(clock, seen) {
        Some(base_ns) => write(ebpf, TickClock { base_ns, ..clock }),
        None => Ok(()),
    }
}

/// Consecutive readings that differed from the clock.
#[derive(Debug, Default)]
pub(super) struct Drift {
    samples: u32,
    base: Option<u64>,
}

impl Drift {
    /// The base that the clock should have, if it differs from the current one. `seen` is the base according to a
    /// sample.
    fn judge(&mut self, clock: TickClock, seen: u64) -> Option<u64> {
        let ahead = seen.wrapping_sub(clock.base_ns).cast_signed();
        let tick = clock.tick_ns.cast_signed();
        if ahead < -tick / 64 {
            // No sample can precede its tick, so the base was too late.
            *self = Self::default();
            return Some(seen);
        }
        if ahead <= 2 * tick {
            *self = Self::default();
            return None;
        }
        // Delayed ticks, as on a busy host of virtual machines, are soon made up for. Lost ticks make every sample
        // late.
        self.samples += 1;
        self.base = Some(earlier(self.base, seen));
        if self.samples < LATE_SAMPLES {
            return None;
        }
        std::mem::take(self).base
    }
}

/// The time, and the time of tick 0 under the assumption that the current tick has just begun.
fn look(ebpf: &mut Ebpf, tick_ns: u64) -> Result<(u64, u64)> {
    let program: &mut SchedClassifier =
        ebpf.program_mut(names::TICKS).context("the kernel object has no tick program")?.try_into()?;
    let mut options = TestRunOptions::new();
    options.data_in = Some(&FRAME);
    program.test_run(options).context("cannot read the kernel's tick")?;
    let now = monotonic_ns();
    Ok((now, now.wrapping_sub(read(ebpf)?.ticks.wrapping_mul(tick_ns))))
}

fn read(ebpf: &mut Ebpf) -> Result<TickClock> {
    Ok(map(ebpf)?.get(&0, 0).context("cannot read the tick")?.0)
}

fn write(ebpf: &mut Ebpf, clock: TickClock) -> Result<()> {
    map(ebpf)?.set(0, Data(clock), 0).context("cannot set the kernel programs' clock")
}

/// Each sample is an upper bound of the time of tick 0: the earliest is the most accurate, from the sample nearest to
/// the start of its tick.
fn earlier(known: Option<u64>, seen: u64) -> u64 {
    // Modulo 2^64, since the kernel starts to count below 0.
    known.map_or(seen, |known| if seen.wrapping_sub(known).cast_signed() < 0 { seen } else { known })
}

fn map(ebpf: &mut Ebpf) -> Result<Array<&mut MapData, Data<TickClock>>> {
    Ok(ebpf.map_mut(maps::TICKS).context("the kernel object has no clock map")?.try_into()?)
}

/// The length of a tick, which is the resolution of the coarse clocks.
fn tick_ns() -> Result<u64> {
    let time = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    let ns = u64::try_from(time.tv_nsec).unwrap_or(0);
    if time.tv_sec != 0 || ns == 0 || ns > LONGEST_TICK_NS {
        return Err(anyhow!("the kernel reports a tick of {} s and {ns} ns", time.tv_sec));
    }
    Ok(ns)
}

#[cfg(test)]
mod tests {
    use super::{Drift, LATE_SAMPLES, TickClock, earlier};

    #[test]
    fn the_earliest_counts_also_below_zero() {
        assert_eq!(earlier(None, 7), 7);
        assert_eq!(earlier(Some(7), 9), 7);
        assert_eq!(earlier(Some(7), 5), 5);
        assert_eq!(earlier(Some(3), 5u64.wrapping_sub(10)), 5u64.wrapping_sub(10));
        assert_eq!(earlier(Some(u64::MAX), 2), u64::MAX);
    }

    #[test]
    fn only_ticks_that_stay_late_move_the_clock() {
        const TICK: u64 = 4_000_000;
        let clock = TickClock { tick_ns: TICK, base_ns: 100, ticks: 0 };
        let mut drift = Drift::default();
        // Within a tick, and late for a while.
        assert_eq!(drift.judge(clock, 100 + TICK), None);
        for _ in 1..LATE_SAMPLES {
            assert_eq!(drift.judge(clock, 100 + 50 * TICK), None);
        }
        assert_eq!(drift.judge(clock, 150), None);
        // Permanently late: the earliest sample is nearest to the truth.
        for look in 1..LATE_SAMPLES {
            assert_eq!(drift.judge(clock, 100 + 5 * TICK + u64::from(look)), None);
        }
        assert_eq!(drift.judge(clock, 100 + 6 * TICK), Some(100 + 5 * TICK + 1));
        // A base that is too late shows at once, also below zero.
        assert_eq!(drift.judge(clock, 99), None);
        let before = 100u64.wrapping_sub(2 * TICK);
        assert_eq!(drift.judge(clock, before), Some(before));
    }
}
