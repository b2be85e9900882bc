//! Options of `fleet`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use crate::fleet::question::{Chosen, Name, Question};
use crate::source::replay::time::{TimeSpec, parse_time};

const FLEET_EXAMPLES: &str = "\
Examples:
  rocescope fleet slow /mnt/recordings               recordings of many hosts
  rocescope fleet loss /mnt/*/rocescope --job 4711   or a folder for each host
  rocescope fleet timeline http://ch1:8123/rocescope a ClickHouse server
  rocescope fleet jobs DIR --from 2026-03-01T13:00:00Z --to 2026-03-01T14:00:00Z
  rocescope fleet balance DIR --print-sql            the SQL, for any engine

The questions run on duckdb or clickhouse, whichever is on PATH, or on the server.";

/// Options of `fleet`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = FLEET_EXAMPLES)]
pub struct FleetArgs {
    /// The question
    #[arg(value_enum, value_name = "QUESTION")]
    pub question: Question,
    /// Folders of recordings, or the URL of a ClickHouse server
    ///
    /// Also a pattern of folders, and a bucket (s3://..., gs://...) for which the engine has credentials.
    #[arg(value_name = "DIR|GLOB|URL", required = true)]
    pub sources: Vec<String>,
    /// Only flows of this job
    #[arg(long, value_name = "JOB")]
    pub job: Option<Name>,
    /// Start of the time range
    ///
    /// RFC 3339 (2026-01-01T00:00:00Z), or Unix seconds. Without it, rows of before 2010 are left out and counted:
    /// those of a host whose clock was not set.
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub from: Option<u64>,
    /// End of the time range, written as --from
    ///
    /// Without it, rows more than a day ahead of this host's clock are left out and counted.
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub to: Option<u64>,
    /// Output format
    #[arg(long, value_enum, default_value_t = FleetOutput::Table)]
    pub output: FleetOutput,
    /// Write the answer to this file
    ///
    /// Instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Maximum rows of the answer
    ///
    /// The answer of timeline always has all rows.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub top: u64,
    /// Print the SQL and do not run it
    ///
    /// The same text for DuckDB and ClickHouse, with the definitions of the tables in comments; with --engine, the
    /// script for that engine.
    #[arg(long)]
    pub print_sql: bool,
    /// Program to run the SQL
    ///
    /// A name on PATH or a path; names that begin with clickhouse are started as clickhouse local [default: duckdb,
    /// else clickhouse].
    #[arg(long, value_name = "PROGRAM")]
    pub engine: Option<PathBuf>,
    /// Configuration file, for the thresholds of findings
    ///
    /// [default: ~/.config/rocescope/config.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl FleetArgs {
    /// The rows that the question covers, with default thresholds.
    pub fn chosen(&self) -> Chosen {
        Chosen { job: self.job.clone(), from_ns: self.from, to_ns: self.to, ..Chosen::default() }
    }
}

/// `--output` of `fleet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FleetOutput {
    /// A table.
    Table,
    /// One JSON document.
    Json,
    /// One HTML page, to share: self-contained, nothing is loaded.
    Html,
}

/// Parses a calendar time, in Unix nanoseconds.
fn parse_moment(text: &str) -> Result<u64, String> {
    match parse_time(text)? {
        TimeSpec::Absolute(ns) => Ok(ns),
        TimeSpec::Offset(_) => Err(format!(
            "'{text}' is an offset, but recordings of many hosts have no first frame: write a time (2026-01-01T00:00:00Z)"
        )),
        TimeSpec::OfDay(_) => {
            Err(format!("'{text}' has no date: write one before it, and Z after it (2026-01-01T{text}Z)"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Args, Verb};
    use crate::util::time::NS_PER_S;

    fn fleet(arguments: &[&str]) -> Result<FleetArgs, clap::Error> {
        let line = ["rocescope", "fleet"].iter().chain(arguments);
        match Args::read(line.map(std::ffi::OsString::from))?.verb {
            Verb::Fleet(args) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_question_has_sources_and_a_time_range() {
        let args =
            fleet(&["slow", "a", "b", "--from", "2025-11-22T08:26:40Z", "--to", "1763800060", "--job", "7"])
                .unwrap();
        assert_eq!((args.question, args.sources.len(), args.top), (Question::Slow, 2, 10));
        let chosen = args.chosen();
        assert_eq!(
            (chosen.from_ns, chosen.to_ns),
            (Some(1_763_800_000 * NS_PER_S), Some(1_763_800_060 * NS_PER_S))
        );
        for bad in [
            &["slow"][..],
            &["fast", "a"],
            &["slow", "a", "--from", "+1s"],
            &["slow", "a", "--job", "'"],
            &["slow", "a", "--top", "0"],
        ] {
            assert!(fleet(bad).is_err(), "{bad:?}");
        }
    }
}
