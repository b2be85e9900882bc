//! Threads on chosen CPUs.

use super::available;

/// The CPUs this process may run on.
fn all() -> Vec<usize> {
    // SAFETY: a set of CPUs is an array of integers, which may be zero; the call fills it in.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set), 0);
        set
    };
    // SAFETY: every number is below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

/// Moves this thread to a CPU and keeps it there.
///
/// # Panics
/// When the kernel refuses.
pub fn pin(cpu: usize) {
    // SAFETY: as above; the calling thread is the one that moves.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
    }
}

/// Two CPUs, or a line that says that nothing can race here.
#[must_use]
pub fn two_cpus() -> Option<[usize; 2]> {
    if !available() {
        return None;
    }
    let all = all();
    let [first, second, ..] = all.as_slice() else {
        println!("SKIP nothing can race on a single CPU");
        return None;
    };
    Some([*first, *second])
}
