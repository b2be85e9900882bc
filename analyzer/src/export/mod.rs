//! Metrics for Prometheus and OpenTelemetry: one table of metrics, their values from samples and reports, the
//! exposition, the server, and what is pushed.
//!
//! | module | contents |
//! |---|---|
//! | [`registry`] | the table: each metric with type, unit, labels, help and how it is read |
//! | [`metric`], `reading` | a metric and its series; what they are read from |
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
pub mod metric;
#[cfg(test)]
mod name_tests;
#[cfg(test)]
mod nic_qp_tests;
pub mod nic_qps;
pub mod otlp;
mod read;
mod reading;
pub mod registry;
pub mod serve;
#[cfg(test)]
mod tests;
pub mod views;
pub mod web;

use crate::analysis::{Entropy, Spread};
use crate::report::Report;
use crate::sample::Sample;
pub use exposition::Exposition;
use ledger::Ledger;
pub use ledger::{Options, PEERS};
pub use metric::Series;
pub use reading::{Process, Reading};

/// Maximum number of queue pairs with series of their own.
pub const MOST_QPS: usize = 64;

/// Turns samples into expositions. Samples must arrive in order of time.
#[derive(Debug)]
pub struct Exporter {
    ledger: Ledger,
}

impl Exporter {
    /// An exporter without samples.
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
