//! CPU time, memory and CPU affinity of processes and threads.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::param::clock_ticks_per_second;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};

/// User and system CPU time of a process, over all its threads.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).context("the program has ended")?;
    // After the name, which may contain any character: state, then numbers from the fourth field on.
    let (_, rest) = text.rsplit_once(')').context("a process without a name")?;
    let ticks = |field: usize| -> Result<u64> {
        Ok(rest.split_whitespace().nth(field - 3).context("a line cut short")?.parse()?)
    };
    Ok(Duration::from_millis((ticks(14)? + ticks(15)?) * 1000 / clock_ticks_per_second()))
}

/// User and system CPU time of any thread, to the nanosecond.
pub fn thread_time(thread: i32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{thread}/schedstat")).context("a thread has ended")?;
    let first = text.split_whitespace().next().context("a thread without times")?;
    Ok(Duration::from_nanos(first.parse()?))
}

/// The id of the calling thread.
pub fn this_thread() -> i32 {
    gettid().as_raw_pid()
}

/// The CPUs that this process may use.
pub fn cpus() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("the CPUs of this process are unknown")?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Pins a thread to one CPU; 0 is the calling thread.
pub fn pin(thread: i32, cpu: usize) -> Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        bail!("CPU {cpu} is beyond what a set of CPUs holds");
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(Pid::from_raw(thread), &set).context("a thread was not moved")
}

/// Kernel threads and processes whose name starts with this.
pub fn named(start: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with(start))
    })
    .collect()
}
