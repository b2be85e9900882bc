//! The time that a program takes on one frame.

use anyhow::Result;
use aya::programs::{TestRun, TestRunOptions};

use crate::util::time::NS_PER_S;

/// Packets per measurement, an even number: some cases alternate.
pub(super) const PACKETS: u32 = 50_000;

/// Runs a loaded program on a frame in memory; nanoseconds of this thread per packet.
pub(super) fn timed(
    program: &impl for<'a> TestRun<Opts<'a> = TestRunOptions<'a>>,
    frame: &[u8],
    packets: u32,
) -> Result<f64> {
    let mut options = TestRunOptions::new();
    options.data_in = Some(frame);
    options.repeat = packets;
    let start = thread_ns();
    let result = program.test_run(options);
    let took = thread_ns().saturating_sub(start);
    result?;
    Ok(took as f64 / f64::from(packets))
}

/// CPU time of this thread in nanoseconds, without the time that other processes take.
pub(super) fn thread_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * NS_PER_S + u64::try_from(time.tv_nsec).unwrap_or(0)
}
