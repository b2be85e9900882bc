//! Measures the cost of observation under real load, for `cargo xtask bench load`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use rocescope_tests::load::{scan, scrape, storm, tcp, traffic};

/// Generates load on links in anonymous network namespaces. Needs root.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    what: Measurement,
}

#[derive(Subcommand)]
enum Measurement {
    /// Throughput without a program, with an empty program, and with rocescope attached
    Traffic {
        /// Rounds, each with every state
        #[arg(long, default_value_t = 7)]
        rounds: usize,
        /// Seconds per state
        #[arg(long, default_value_t = 1.0)]
        seconds: f64,
        /// Print the ratios as JSON, and the tables to standard error
        #[arg(long)]
        json: bool,
    },
    /// TCP traffic through a veth pair, without and with rocescope attached, by hook
    Tcp {
        /// Rounds, each with every hook
        #[arg(long, default_value_t = 7)]
        rounds: usize,
    },
    /// New flows at 100,000 per second, and their effect on known flows
    Scan {
        /// Rounds in which the cost of a known flow is measured
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Seconds for which rocescope observes a scan
        #[arg(long, default_value_t = 10.0)]
        seconds: f64,
    },
    /// A scrape of the exporter at 400 flows
    Scrape {
        /// Scrapes
        #[arg(long, default_value_t = 200)]
        rounds: usize,
    },
    /// A storm of events, and the cost of reporting them
    Storm {
        /// Storms per view
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Seconds per storm
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
    },
}

fn main() -> ExitCode {
    rocescope_tests::exit_status(work())
}

fn work() -> Result<()> {
    match Cli::parse().what {
        Measurement::Traffic { rounds, seconds, json } => {
            let time = Duration::try_from_secs_f64(seconds)?;
            if json {
                let ratios = traffic::bench(rounds, time, &mut std::io::stderr())?;
                println!("{ratios}");
            } else {
                traffic::bench(rounds, time, &mut std::io::stdout())?;
            }
            Ok(())
        }
        Measurement::Tcp { rounds } => tcp::bench(rounds),
        Measurement::Scrape { rounds } => scrape::bench(rounds),
        Measurement::Scan { rounds, seconds } => scan::bench(rounds, Duration::try_from_secs_f64(seconds)?),
        Measurement::Storm { rounds, seconds } => storm::bench(rounds, Duration::try_from_secs_f64(seconds)?),
    }
}
