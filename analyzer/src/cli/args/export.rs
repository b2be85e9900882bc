//! Options of `export`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::flight::FlightArgs;
use super::{CommonArgs, SourceArgs, ViewArgs};
use crate::cli::values::positive;
use crate::export;
use crate::export::listen::Listen;
use crate::filter::fields;

const EXPORT_EXAMPLES: &str = "\
Examples:
  sudo rocescope export                        http://127.0.0.1:14791/metrics
  sudo rocescope export --listen 10.0.0.5:14791       for other hosts to scrape
  sudo rocescope export --listen unix:/run/rocescope/metrics.sock
  sudo rocescope export --textfile /var/lib/node-exporter/rocescope.prom
  sudo rocescope export --otlp http://localhost:4318  to an OTLP collector

Sockets of systemd (LISTEN_FDS) are used where they are passed. Without --web-config the
answers are not encrypted, and ask for no password.";

/// Options of `export`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXPORT_EXAMPLES, after_long_help = format!("{EXPORT_EXAMPLES}\n\n{}", fields::source_help()))]
#[command(mut_arg("max_flows", |arg| arg.help("Flow table size [default: 65536]")))]
#[command(mut_arg("idle", |arg| arg.help("Idle timeout of flows; the totals keep their counts [default: 10m]")))]
#[command(mut_arg("duration", |arg| arg.help_heading("Metrics")))]
pub struct ExportArgs {
    /// Serve HTTP at ADDRESS:PORT or unix:PATH; repeatable
    ///
    /// [default: 127.0.0.1:14791, unless --textfile, --otlp or systemd's sockets]
    #[arg(help_heading = "Metrics")]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<Listen>,
    /// Passwords and TLS for TCP, in the format of Prometheus exporters (web-config.yml)
    ///
    /// basic_auth_users, and tls_server_config in builds with the feature `tls`. Read again when it, a certificate or
    /// a key is replaced.
    #[arg(help_heading = "Metrics")]
    #[arg(long, value_name = "FILE")]
    pub web_config: Option<PathBuf>,
    /// Write the metrics to this file, too
    ///
    /// Replaced as a whole at each interval; removed at the end.
    #[arg(help_heading = "Metrics")]
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
    /// Push them to an OpenTelemetry collector, too
    ///
    /// Metrics, and findings as log records, to http://HOST:PORT; without URL that of OTEL_EXPORTER_OTLP_ENDPOINT, else
    /// http://localhost:4318.
    #[arg(help_heading = "Metrics")]
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    pub otlp: Option<String>,
    /// Interval of the metrics
    ///
    /// A scrape returns the latest metrics: use at most the interval of the scrapes.
    #[arg(help_heading = "Metrics")]
    #[arg(long, value_name = "DURATION", value_parser = positive, default_value = "15s")]
    pub interval: Duration,
    /// Peers with series of their own, those with the most bytes; the rest is summed
    #[arg(help_heading = "Metrics")]
    #[arg(long, value_name = "N", default_value_t = export::PEERS as u64)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1024))]
    pub peers: u64,
    /// Queue pairs with series of their own, those in trouble first, then the busiest
    ///
    /// Of those with packets, by losses and retransmissions, then bytes; of those of NICs whose packets are not seen,
    /// by death, standstill, retries and timeouts, then packets.
    #[arg(help_heading = "Metrics")]
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=export::MOST_QPS as u64))]
    pub per_qp: u64,
    /// Options of the flight recorder.
    #[command(flatten)]
    pub flight: FlightArgs,
    /// Options of the source.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Options shared by all commands that count flows.
    #[command(flatten)]
    pub common: CommonArgs,
}

impl ExportArgs {
    /// The corresponding output options: an exporter takes every sample, as a view does.
    pub fn view(&self) -> ViewArgs {
        // Sampled at the interval of the views, so that findings are computed from the same readings.
        ViewArgs::of_samples(self.interval.min(Duration::from_secs(1)), &self.common)
    }
}
