//! Options of the flight recorder.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use crate::cli::values::positive;
use crate::flight::Settings;
use crate::flight::pattern::Pattern;
use crate::source::replay::time::parse_duration;

/// Options of the flight recorder.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Flight recorder")]
pub struct FlightArgs {
    /// Hold the last minutes, such as 10m, for dumps
    ///
    /// Held in memory, and written as a dump on SIGUSR1, D in the terminal view, POST /dump on a unix socket of
    /// --listen, or --on.
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    pub keep: Option<Duration>,
    /// Write a dump when one of these findings begins
    ///
    /// Ids with *, separated by |, such as 'loss.*|pfc.storm|qp.died'.
    #[arg(long, value_name = "FINDINGS", requires = "keep")]
    pub on: Option<Pattern>,
    /// Time after its trigger that a dump covers [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "keep")]
    pub post: Option<Duration>,
    /// Time after a dump during which the same finding triggers no other [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "keep")]
    pub cooldown: Option<Duration>,
    /// Number of dumps to keep; the oldest are removed [default: 20]
    #[arg(long, value_name = "N", requires = "keep", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub max_dumps: Option<u64>,
    /// Folder of the dumps [default: /var/lib/rocescope/dumps]
    #[arg(long, value_name = "DIR", requires = "keep")]
    pub dump_dir: Option<PathBuf>,
    /// Run this program with the folder of each dump as its argument; without a shell, for a minute at most
    #[arg(long, value_name = "PROGRAM", requires = "keep")]
    pub on_cmd: Option<PathBuf>,
}

impl FlightArgs {
    /// Settings of the recorder; `None` without `--keep`.
    pub fn settings(&self) -> Option<Settings> {
        Some(Settings {
            keep: self.keep?,
            on: self.on.clone().unwrap_or_default(),
            post: self.post.unwrap_or(Duration::from_secs(10)),
            cooldown: self.cooldown.unwrap_or(Duration::from_secs(300)),
            most: usize::try_from(self.max_dumps.unwrap_or(20)).unwrap_or(usize::MAX),
            folder: self.dump_dir.clone().unwrap_or_else(|| "/var/lib/rocescope/dumps".into()),
            command: self.on_cmd.clone(),
        })
    }
}
