//! Metrics for Prometheus and OpenTelemetry: one table of metrics, their values from samples and reports, the
//! exposition, the server, and what is pushed.
//!
//! | module | contents |
//! |---|---|
//! | [`registry`] | the table: each metric with type, unit, labels, help and how it is read |
//! | `read` | values of the table that a sample and its report have |
//! | [`ledger`] | counters that outlive the flows they come from, and the bounded choice of peers and queue pairs |
//! | [`nic_qps`] | queue pairs of NICs without packets that have series of their own |
//! | [`exposition`] | the text formats 0.0.4 and OpenMetrics 1.0 |
//! | [`http`] | requests and answers; pure |
//! | [`listen`], [`serve`] | sockets, and the thread that answers |
//! | [`web`] | passwords and TLS |
//! | [`otlp`] | the same metrics, and findings as log records, pushed to a collector |
//!
//! No conclusions are drawn here: findings and ratios are those of the report.

#[cfg(test)]
mod document;
pub mod exposition;
pub mod http;
pub mod ledger;
pub mod listen;
#[cfg(test)]
mod name_tests;
#[cfg(test)]
mod nic_qp_tests;
pub mod nic_qps;
pub mod otlp;
mod read;
pub mod registry;
pub mod serve;
#[cfg(test)]
mod tests;
pub mod views;
pub mod web;

use crate::analysis::{Entropy, Spread};
use crate::host::kernel::fdinfo::Usage;
use crate::report::Report;
use crate::sample::Sample;
pub use exposition::{Exposition, Series};
use ledger::Ledger;

/// Default number of peers with series of their own.
pub const PEERS: usize = 32;
/// Maximum number of queue pairs with series of their own.
pub const MOST_QPS: usize = 64;

/// Options of the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of peers (pairs of a link and an address) with series of their own; the rest is summed.
    pub peers: usize,
    /// Number of queue pairs with series of their own; 0 for none.
    pub qps: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { peers: PEERS, qps: 0 }
    }
}

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
    pub otlp: Vec<(&'static str, otlp::queue::Tally)>,
}

/// Turns samples into expositions. Samples must arrive in order of time.
#[derive(Debug)]
pub struct Exporter {
    ledger: Ledger,
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

impl Exporter {
    /// An exporter without samples.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { ledger: Ledger::new(options) }
    }

    /// All series up to `sample`; `report` is the report of that sample.
    #[must_use]
    pub fn take(&mut self, sample: &Sample, report: &Report, process: &Process) -> Vec<Series> {
        self.ledger.take(sample, report);
        let entropy: Vec<(&str, Entropy)> =
            Spread::by_link(sample).into_iter().map(|(link, spread)| (link, spread.entropy())).collect();
        exposition::families(&Reading { sample, report, entropy: &entropy, ledger: &self.ledger, process })
    }
}
