//! Metrics for Prometheus and OpenTelemetry: one table of metrics, their values from samples and reports, the exposition,
//! the server, and what is pushed.
//!
//! | module | contents |
//! |---|---|
//! | [`registry`] | the table: each metric with type, unit, labels, help and how it is read |
//! | `read` | values of the table that a sample and its report have |
//! | [`ledger`] | counters that outlive the flows they come from, and the bounded choice of peers and queue pairs |
//! | [`exposition`] | the text formats 0.0.4 and OpenMetrics 1.0 |
//! | [`http`] | requests and answers; pure |
//! | [`listen`], [`serve`] | sockets, and the thread that answers |
//! | [`web`] | passwords and TLS |
//! | [`otlp`] | the same metrics, and findings as log records, pushed to a collector |
//!
//! Nothing is decided here: findings and ratios are those of the report.

#[cfg(test)]
mod document;
pub mod exposition;
pub mod http;
pub mod ledger;
pub mod listen;
pub mod otlp;
mod read;
pub mod registry;
pub mod serve;
#[cfg(test)]
mod tests;
pub mod views;
pub mod web;

use crate::host::fdinfo::Usage;
use crate::report::Report;
use crate::sample::Sample;
pub use exposition::{Exposition, Series};
use ledger::Ledger;

/// Peers with series of their own.
pub const PEERS: usize = 32;
/// Most queue pairs that may have series of their own.
pub const MOST_QPS: usize = 64;

/// What the user chose about the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Peers (pairs of a link and an address) with series of their own; the rest is summed.
    pub peers: usize,
    /// Queue pairs with series of their own; 0 for none.
    pub qps: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { peers: PEERS, qps: 0 }
    }
}

/// What the process knows of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// Release of the running kernel.
    pub kernel: Option<String>,
    /// Start of the process, Unix time in nanoseconds.
    pub started_ns: u64,
    /// Processor time used, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Memory in use, in bytes.
    pub resident_bytes: Option<u64>,
    /// What the kernel programs take.
    pub bpf: Usage,
    /// Rows of the recording so far, and those of them that were lost; `None` without one.
    pub rows: Option<[u64; 2]>,
    /// What became of the requests to the collector, by signal; empty without OTLP.
    pub otlp: Vec<(&'static str, otlp::queue::Tally)>,
}

/// Turns samples into expositions. Samples come in the order of time.
#[derive(Debug)]
pub struct Exporter {
    ledger: Ledger,
}

/// All that a metric may be read from.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// The counters.
    pub sample: &'a Sample,
    /// The report of the sample.
    pub report: &'a Report,
    /// Counters over flows, those that are gone included.
    pub ledger: &'a Ledger,
    /// The process itself.
    pub process: &'a Process,
}

impl Exporter {
    /// Nothing counted yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { ledger: Ledger::new(options) }
    }

    /// All series of everything counted up to `sample`; `report` is its report.
    #[must_use]
    pub fn take(&mut self, sample: &Sample, report: &Report, process: &Process) -> Vec<Series> {
        self.ledger.take(sample, report);
        exposition::families(&Reading { sample, report, ledger: &self.ledger, process })
    }
}
