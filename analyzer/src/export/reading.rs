//! What metrics are read from.

use super::ledger::Ledger;
use super::otlp::queue::Tally;
use crate::analysis::Entropy;
use crate::host::kernel::fdinfo::Usage;
use crate::report::Report;
use crate::sample::Sample;

/// State of rocescope's own process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// Release of the running kernel.
    pub kernel: Option<String>,
    /// Start of the process, Unix time in nanoseconds.
    pub started_ns: u64,
    /// CPU time used, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Resident memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// Resources of the kernel programs.
    pub bpf: Usage,
    /// Rows of the recording so far, and those of them that were lost; `None` without one.
    pub rows: Option<[u64; 2]>,
    /// Outcome of the requests to the collector, by signal; empty without OTLP.
    pub otlp: Vec<(&'static str, Tally)>,
}

/// Everything that the `read` functions of metrics have access to.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// The counters.
    pub sample: &'a Sample,
    /// The report of the sample.
    pub report: &'a Report,
    /// Entropy of what was seen on each link, by its name.
    pub entropy: &'a [(&'a str, Entropy)],
    /// Counters over flows, including retired ones.
    pub ledger: &'a Ledger,
    /// rocescope's own process.
    pub process: &'a Process,
}
