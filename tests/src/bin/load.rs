//! Measures what watching costs under real load, for `cargo xtask bench load`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use rocescope_tests::load::{scan, scrape, storm, tcp, traffic};

/// Floods links of its own, in network namespaces without a name. Needs root.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Throughput with nothing, an empty program and rocescope attached
    Traffic {
        /// Rounds in which every state has its turn
        #[arg(long, default_value_t = 7)]
        rounds: usize,
        /// Seconds of a turn
        #[arg(long, default_value_t = 1.0)]
        seconds: f64,
    },
    /// TCP of others through a veth pair with nothing and with rocescope attached, by hook
    Tcp {
        /// Rounds in which every hook has its turn
        #[arg(long, default_value_t = 7)]
        rounds: usize,
    },
    /// New flows at 100,000 a second, and what they do to known ones
    Scan {
        /// Rounds in which the cost of a known flow is measured
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Seconds that a rocescope watches a scan
        #[arg(long, default_value_t = 10.0)]
        seconds: f64,
    },
    /// A scrape of the exporter at 400 flows
    Scrape {
        /// Scrapes
        #[arg(long, default_value_t = 200)]
        rounds: usize,
    },
    /// A storm of events, and what telling of them takes
    Storm {
        /// Storms for each view
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Seconds of a storm
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
    },
}

fn main() -> ExitCode {
    rocescope_tests::exit_status(work())
}

fn work() -> Result<()> {
    match Cli::parse().what {
        What::Traffic { rounds, seconds } => traffic::bench(rounds, Duration::try_from_secs_f64(seconds)?),
        What::Tcp { rounds } => tcp::bench(rounds),
        What::Scrape { rounds } => scrape::bench(rounds),
        What::Scan { rounds, seconds } => scan::bench(rounds, Duration::try_from_secs_f64(seconds)?),
        What::Storm { rounds, seconds } => storm::bench(rounds, Duration::try_from_secs_f64(seconds)?),
    }
}
