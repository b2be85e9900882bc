//! What processes and CPUs did.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// Processor time of a process, user and system, of all its threads.
///
/// # Errors
/// When it has ended.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).context("the program has ended")?;
    // Behind the name, which may hold anything: state, then numbers from the fourth field on.
    let (_, rest) = text.rsplit_once(')').context("a process without a name")?;
    let ticks = |field: usize| -> Result<u64> {
        Ok(rest.split_whitespace().nth(field - 3).context("a line cut short")?.parse()?)
    };
    // SAFETY: takes a number.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let per_second = u64::try_from(per_second).ok().filter(|n| *n > 0).context("no clock ticks")?;
    Ok(Duration::from_millis((ticks(14)? + ticks(15)?) * 1000 / per_second))
}

/// Processor time of one thread of anybody's, user and system, to the nanosecond.
///
/// # Errors
/// When it has ended, or the kernel does not tell.
pub fn thread_time(thread: libc::pid_t) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{thread}/schedstat")).context("a thread has ended")?;
    let first = text.split_whitespace().next().context("a thread without times")?;
    Ok(Duration::from_nanos(first.parse()?))
}

/// The number of the calling thread.
#[must_use]
pub fn this_thread() -> libc::pid_t {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::gettid() }
}

/// The largest part of a process that was ever in memory, in bytes.
///
/// # Errors
/// When it has ended.
pub fn peak_memory(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).context("the program has ended")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

/// The CPUs that this process may use.
///
/// # Errors
/// The kernel's.
pub fn cpus() -> Result<Vec<usize>> {
    // SAFETY: a set of CPUs is an array of integers, which may be zero.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set lives through the call and has the size given.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0 {
        return Err(std::io::Error::last_os_error()).context("the CPUs of this process are not told");
    }
    // SAFETY: every number is below the size of the set.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect())
}

/// Keeps a thread on one CPU: the caller for 0.
///
/// # Errors
/// When there is no such thread, or it may not be moved.
pub fn pin(thread: libc::pid_t, cpu: usize) -> Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        bail!("CPU {cpu} is beyond what a set of CPUs holds");
    }
    // SAFETY: as above; `cpu` is below the size of the set.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()).context("a thread was not moved") }
}

/// Kernel threads and processes whose name starts so.
#[must_use]
pub fn named(start: &str) -> Vec<libc::pid_t> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<libc::pid_t>().ok());
    pids.filter(|pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with(start))
    })
    .collect()
}
