//! Pins threads to CPUs.

use super::available;
use crate::load::usage;

/// Moves this thread to a CPU and keeps it there.
pub fn pin(cpu: usize) {
    usage::pin(0, cpu).unwrap_or_else(|error| panic!("{error:#}"));
}

/// Two CPUs, or a printed line that races cannot be tested here.
pub fn two_cpus() -> Option<[usize; 2]> {
    if !available() {
        return None;
    }
    let all = usage::cpus().unwrap_or_default();
    let [first, second, ..] = all.as_slice() else {
        println!("SKIP nothing can race on a single CPU");
        return None;
    };
    Some([*first, *second])
}
