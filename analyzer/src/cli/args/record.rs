//! Options of `record`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;
use clap::builder::NonEmptyStringValueParser;

use super::{CommonArgs, SourceArgs, ViewArgs};
use crate::cli::values::positive;
use crate::filter::fields;
use crate::record::store::{Keep, Rotate};
use crate::source::replay::time::parse_duration;
use crate::util::clickhouse::Server;
use crate::util::time::{DAY_NS, nanos};

const RECORD_EXAMPLES: &str = "\
Examples:
  sudo rocescope record                             to /var/lib/rocescope
  sudo rocescope record -i eth2 --dir /data/roce --keep 30d,100GiB
  sudo rocescope record --clickhouse http://ch.example:8123/?database=roce
  rocescope record --read trace.pcap --dir tables   a capture as tables
  rocescope replay /var/lib/rocescope               play a recording back";

/// Options of the tables of a recording, shared by `record` and `agent`.
#[derive(Clone, Debug, ClapArgs)]
pub struct TablesArgs {
    /// Begin new files of the recording after this time or this size, whichever is first
    #[arg(help_heading = "Recording")]
    #[arg(long, value_name = "TIME,SIZE", value_parser = parse_rotate, default_value = "15m,64MiB")]
    pub rotate: Rotate,
    /// Also sum flows over this longer interval, by link and destination (table flow_rollup)
    #[arg(help_heading = "Recording")]
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    pub rollup: Option<Duration>,
    /// Job of this host [default: of the owning processes' Slurm job or Kubernetes pod, else of the environment]
    #[arg(help_heading = "Recording")]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub job: Option<String>,
    /// Name of this host in the recording [default: the host name]
    #[arg(help_heading = "Recording")]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub host: Option<String>,
    /// Also send the files to this ClickHouse
    ///
    /// While it is unreachable, they are queued on disk.
    #[arg(help_heading = "Recording")]
    #[arg(long, value_name = "URL")]
    pub clickhouse: Option<Server>,
}

/// Options of `record`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = RECORD_EXAMPLES, after_long_help = format!("{RECORD_EXAMPLES}\n\n{}", fields::source_help()))]
#[command(mut_arg("max_flows", |arg| arg.help("Flow table size [default: live 65536, with --read 131072]")))]
#[command(mut_arg("idle", |arg| arg.help("Idle timeout of flows [default: live 10m, with --read none]")))]
#[command(mut_arg("duration", |arg| arg.help_heading("Recording")))]
pub struct RecordArgs {
    /// Folder of the recording
    #[arg(help_heading = "Recording")]
    #[arg(long, value_name = "DIR", default_value = "/var/lib/rocescope")]
    pub dir: PathBuf,
    /// Record this capture instead; repeatable
    ///
    /// A capture (pcap, pcapng, also gzip; - is standard input) instead of live interfaces, each a tap.
    #[arg(help_heading = "Recording")]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["interface", "netns", "nccl_ras", "sample_posts"])]
    pub read: Vec<PathBuf>,
    /// Interval of the rows
    #[arg(help_heading = "Recording")]
    #[arg(long, value_name = "DURATION", value_parser = positive, default_value = "1s")]
    pub interval: Duration,
    /// Remove the oldest files beyond this
    ///
    /// Files of this host beyond this time or this total size [default: 7d,20GiB; with --read: all is kept].
    #[arg(help_heading = "Recording")]
    #[arg(long, value_name = "TIME,SIZE", value_parser = parse_keep)]
    pub keep: Option<Keep>,
    /// Options of the tables.
    #[command(flatten)]
    pub tables: TablesArgs,
    /// Options of the source.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Options shared by all commands that count flows.
    #[command(flatten)]
    pub common: CommonArgs,
}

impl RecordArgs {
    /// The corresponding output options.
    pub fn view(&self) -> ViewArgs {
        ViewArgs::of_samples(self.interval, &self.common)
    }

    /// Limits of age and size: the option's, or the default of live recordings.
    pub fn keep(&self) -> Keep {
        let always = Keep { time_ns: Some(7 * DAY_NS), bytes: Some(20 << 30) };
        self.keep.unwrap_or(if self.read.is_empty() { always } else { Keep::default() })
    }
}

/// Parses a duration and a size in either order, or one of them.
fn time_and_size(text: &str) -> Result<(Option<u64>, Option<u64>), String> {
    let (mut time, mut bytes) = (None, None);
    for part in text.split([',', '|']) {
        if let Some(size) = size(part) {
            bytes = Some(size);
        } else if let Some(days) = part.strip_suffix('d').and_then(|days| days.parse::<u64>().ok()) {
            time = Some(days.saturating_mul(DAY_NS));
        } else {
            // Whoever writes 30 means days, not seconds.
            let with_unit = Some(part).filter(|part| !part.ends_with(|end: char| end.is_ascii_digit()));
            time = with_unit.and_then(|part| parse_duration(part).ok()).map(nanos);
            if time.is_none() {
                return Err(format!("invalid time or size '{part}': write 15m, 7d, 64MiB or 20GiB"));
            }
        }
    }
    if time == Some(0) || bytes == Some(0) {
        Err("must be greater than 0".to_owned())
    } else {
        Ok((time, bytes))
    }
}

/// Parses a size with a unit, in bytes.
fn size(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];
    let (number, unit) = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    number.trim().parse::<u64>().ok()?.checked_mul(*unit)
}

fn parse_rotate(text: &str) -> Result<Rotate, String> {
    let (time, bytes) = time_and_size(text)?;
    Ok(Rotate { time_ns: time.unwrap_or(u64::MAX), bytes: bytes.unwrap_or(u64::MAX) })
}

pub(super) fn parse_keep(text: &str) -> Result<Keep, String> {
    let (time_ns, bytes) = time_and_size(text)?;
    Ok(Keep { time_ns, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_read() {
        assert_eq!(parse_rotate("15m,64MiB"), Ok(Rotate { time_ns: 900_000_000_000, bytes: 64 << 20 }));
        assert_eq!(parse_rotate("1MB"), Ok(Rotate { time_ns: u64::MAX, bytes: 1_000_000 }));
        assert_eq!(parse_keep("7d|20GiB"), Ok(Keep { time_ns: Some(7 * DAY_NS), bytes: Some(20 << 30) }));
        assert_eq!(parse_keep("90s"), Ok(Keep { time_ns: Some(90_000_000_000), bytes: None }));
        for wrong in ["", "30", "30,20GiB", "0s", "0MiB", "x", "1m,y", "-1d", "99999999999TiB"] {
            assert!(parse_keep(wrong).is_err(), "{wrong}");
        }
    }
}
