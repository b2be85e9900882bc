//! Elapsed time and CPU time of a program.

use std::fs;
use std::mem::MaybeUninit;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::run::show;

/// One run of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Elapsed time.
    pub(crate) wall: Duration,
    /// User and system time of all its threads.
    pub(crate) cpu: Duration,
}

/// Runs a program to its end and discards its output.
pub(crate) fn time(command: &mut Command) -> Result<Spent> {
    let shown = show(command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let before = children();
    let start = Instant::now();
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    let wall = start.elapsed();
    if !status.success() {
        bail!("`{shown}` failed: {status}; run it by hand to see why");
    }
    Ok(Spent { wall, cpu: children().saturating_sub(before) })
}

/// Runs a program to its end and discards its output. Returns its peak resident memory in bytes, as read up to a few
/// milliseconds before its end.
pub(crate) fn peak_memory(command: &mut Command) -> Result<u64> {
    /// Polling interval.
    const LOOK: Duration = Duration::from_millis(5);
    let shown = show(command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("cannot start `{shown}`"))?;
    let file = format!("/proc/{}/status", child.id());
    let mut peak = None;
    loop {
        let status = fs::read_to_string(&file).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = kib.or(peak);
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("`{shown}` failed: {status}; run it by hand to see why");
            }
            return Ok(peak.with_context(|| format!("`{shown}` ended before its memory was read"))? * 1024);
        }
        thread::sleep(LOOK);
    }
}

/// CPU time of all children that have ended.
pub(super) fn children() -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer refers to memory of the right size, for which any bytes are valid; a failing call leaves
    // the zeros.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let duration = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

/// The median.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_takes_time_and_a_failing_one_is_named() {
        let spent = time(Command::new("sleep").arg("0.05")).unwrap();
        assert!(spent.wall >= Duration::from_millis(50) && spent.cpu < spent.wall, "{spent:?}");
        let error = time(&mut Command::new("false")).unwrap_err().to_string();
        assert!(error.contains("`false` failed"), "{error}");
    }

    #[test]
    fn the_peak_of_memory_is_that_of_the_program() {
        // A word of 64 MiB in a shell variable.
        let script = "a=$(head -c 67108864 /dev/zero | tr '\\0' x); sleep 0.1";
        let peak = peak_memory(Command::new("sh").args(["-c", script])).unwrap();
        assert!(peak > 64 << 20 && peak < 1 << 30, "{peak}");
        assert!(peak_memory(&mut Command::new("false")).is_err());
    }

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        let ms = |ms: &[u64]| ms.iter().copied().map(Duration::from_millis).collect::<Vec<_>>();
        assert_eq!(median(ms(&[9, 1, 5])), Duration::from_millis(5));
        assert_eq!(median(Vec::new()), Duration::ZERO);
    }
}
