//! Commands, options and their help.

mod advice;
pub(super) mod agent;
mod common;
mod doctor;
mod export;
mod fleet;
mod flight;
pub(super) mod help;
mod live;
mod record;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

pub use super::values::SpeedArg;
use super::values::{parse_bin, parse_speed_of_link, parse_tap, positive};
pub use agent::AgentArgs;
use clap::error::ErrorKind;
use clap::{Args as ClapArgs, FromArgMatches as _, Parser, Subcommand, ValueEnum};
pub use common::CommonArgs;
pub use doctor::DoctorArgs;
pub use export::ExportArgs;
pub use fleet::{FleetArgs, FleetOutput};
pub use flight::FlightArgs;
pub use live::{AttachArgs, LiveArgs, SourceArgs};
pub use record::{RecordArgs, TablesArgs};

use crate::filter::fields;
use crate::source::replay::inputs::TapFiles;
use crate::source::replay::time::{TimeSpec, parse_duration, parse_time};
use crate::tui::screen::Screen;
use crate::tui::settings::{Columns, parse_columns, parse_screen, parse_sort, parse_view_filter};
use crate::tui::table::SortOrder;
use crate::util::style::Color;

const START: &str = "\
Start here:
  sudo rocescope demo              generated traffic with problems to find
  sudo rocescope live              this host: all interfaces with an RDMA device
  rocescope replay trace.pcap      a capture
  sudo rocescope doctor            visibility and RoCE settings of this host

Exit status: 0 success (also when interrupted), 1 failure, 2 invalid usage; doctor also 3, a check is critical.";

/// Version, commit, kernel programs and features of this build. The commit is that of `cargo xtask build`, `dist` and
/// `package`; a bare `cargo build` does not know it.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let programs = if cfg!(feature = "live") {
        "XDP, TC, kprobes and uprobes, for Linux 5.15 (aarch64: 5.18) and newer"
    } else {
        "none: live, export, demo and bench do not work in this build"
    };
    let features = match (cfg!(feature = "live"), cfg!(feature = "tls")) {
        (true, true) => "live, tls",
        (true, false) => "live",
        (false, true) => "tls",
        (false, false) => "none",
    };
    let commit = crate::util::system::COMMIT.unwrap_or("unknown");
    let version = env!("CARGO_PKG_VERSION");
    format!("{version}\ncommit: {commit}\nkernel programs: {programs}\nfeatures: {features}")
});

/// RoCE traffic of a host per queue pair, with a diagnosis of its problems.
///
/// Live through eBPF, from captures, and from recordings.
#[derive(Debug, Parser)]
#[command(name = "rocescope", version, long_version = LONG_VERSION.as_str(), propagate_version = true, arg_required_else_help = true)]
#[command(after_help = START)]
pub struct Args {
    /// The command.
    #[command(subcommand)]
    pub verb: Verb,
    /// Colour of text output: auto (in a terminal, unless NO_COLOR is set), always or never
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Color::Auto)]
    #[arg(hide_possible_values = true, hide_default_value = true, display_order = 900)]
    pub color: Color,
    /// Keep all privileges after set-up: where a kernel or a container refuses what the sandbox needs
    #[arg(long, global = true, display_order = 901)]
    pub no_sandbox: bool,
}

impl Args {
    /// Reads a command line, the program's name first.
    ///
    /// # Errors
    /// For invalid usage, and for a time range that ends before it begins.
    pub fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let line: Vec<OsString> = line.into_iter().collect();
        let mut command = help::command_of(&line);
        let read = command.try_get_matches_from_mut(&line).and_then(|found| Self::from_arg_matches(&found));
        let args = read.map_err(|error| {
            let error = error.format(&mut command);
            advice::complete(error, &line, &command)
        })?;
        if let Verb::Replay(replay) = &args.verb
            && let (Some(from), Some(to)) = (replay.from, replay.to)
            && to.is_before(from)
        {
            let what = "--to is before --from, so no frame is in the time range; exchange the two";
            command.build();
            let replay = command.find_subcommand_mut("replay").ok_or(ErrorKind::MissingSubcommand);
            return Err(
                replay.map_or_else(clap::Error::new, |replay| replay.error(ErrorKind::ValueValidation, what))
            );
        }
        Ok(args)
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Watch interfaces live through eBPF
    Live(LiveArgs),
    /// Read captures, from files or standard input, or a recording
    Replay(ReplayArgs),
    /// Metrics of live interfaces for Prometheus and OpenTelemetry
    ///
    /// Serve metrics of live interfaces to Prometheus, write them to a file, or push them to an OpenTelemetry
    /// collector.
    Export(ExportArgs),
    /// Metrics, recording and flight recorder in one process
    ///
    /// Meant to run on a host permanently, with one set of kernel programs and one configuration file.
    Agent(Box<AgentArgs>),
    /// Record live interfaces, or captures, to Parquet files
    Record(RecordArgs),
    /// Show generated RoCE traffic in network namespaces of its own
    ///
    /// Sends RoCE traffic with problems to find through network namespaces of its own, and shows it live: no NIC is
    /// needed.
    Demo(DemoArgs),
    /// Benchmark the overhead per packet; no interface is touched
    Bench(BenchArgs),
    /// Check visibility and RoCE configuration of this host
    Doctor(DoctorArgs),
    /// Compare two captures, recordings or saved reports
    ///
    /// Lists metrics and findings that improved or regressed.
    Diff(DiffArgs),
    /// Query recordings of many hosts: what is slow, lossy, late
    ///
    /// Questions about the recordings of many hosts: what is slow, lossy, uneven, late. They run on DuckDB or
    /// ClickHouse.
    Fleet(FleetArgs),
    /// Explain a finding: meaning, rule, thresholds, remedy
    ///
    /// Without ID, list all findings.
    Explain(ExplainArgs),
    /// Print a configuration file: all settings, defaults, reasons
    #[command(after_help = CONFIG_EXAMPLES)]
    Config {
        /// The file of rocescope agent: its options, and nothing of the terminal view
        #[arg(long)]
        agent: bool,
    },
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    #[command(hide = true)]
    Manual {
        /// The folder to write to
        folder: PathBuf,
    },
}

const CONFIG_EXAMPLES: &str = "\
Examples:
  rocescope config > ~/.config/rocescope/config.toml
  rocescope config --agent > /etc/rocescope/agent.toml";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  rocescope completions bash > /etc/bash_completion.d/rocescope
  rocescope completions zsh > ~/.zfunc/_rocescope
  rocescope completions fish > ~/.config/fish/completions/rocescope.fish";

/// Options of `demo`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = DEMO_EPISODES, after_long_help = format!("{DEMO_EPISODES}\n\n{}", fields::source_help()))]
#[command(mut_arg("hook", |arg| arg.help(DEMO_HOOK).hide_possible_values(true)))]
pub struct DemoArgs {
    /// Options of attaching the kernel programs.
    #[command(flatten)]
    pub attach: AttachArgs,
    /// Options of the output.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// XDP attaches to the demonstration's own interfaces, so its side effects harm nothing.
const DEMO_HOOK: &str = "Ingress hook: xdp, tc, or auto, which is xdp on the interfaces of the demonstration";

const DEMO_EPISODES: &str = "\
Episodes, in this order, each of eight training steps:
  healthy          no problem
  congestion       CE marks on rail0, CNPs to the senders, rate reduction
  loss             PSN gaps, sequence-error NAKs, go-back-N, in both directions
  slow receiver    RNR NAKs
  bad hashing      a second job with few source ports overloads rail0

In the terminal view the cycle repeats every 80 s until q, Ctrl-C or --duration.
With any other --output it runs once, in 12 s; a longer --duration stretches it to that time (80 s, then it repeats).";

const REPLAY_EXAMPLES: &str = "\
Examples:
  rocescope replay trace.pcap
  rocescope replay h0.pcap h1.pcap.gz --group h0.pcap,h1.pcap.gz
  rocescope replay --tap leaf1=l1.pcap0,l1.pcap1 --tap leaf2=l2.pcap
  rocescope replay trace.pcap --output html --out report.html
  rocescope replay trace.pcapng --from +10s --to +20s --filter 'not opcode CNP'
  rocescope replay /var/lib/rocescope --from 2026-01-01T03:00:00Z   a recording
  tcpdump -U -s 128 -i mlx5_0 -w - | rocescope replay -";

/// Options of `replay`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = REPLAY_EXAMPLES, after_long_help = format!("{REPLAY_EXAMPLES}\n\n{}", fields::source_help()))]
pub struct ReplayArgs {
    /// Captures (pcap, pcapng, gzip), or a recording
    ///
    /// pcap or pcapng files, also gzip, each a separate tap; - is standard input; or the folder of a recording.
    #[arg(value_name = "FILE", required_unless_present = "tap")]
    pub files: Vec<PathBuf>,
    /// Name a tap and merge files into it; repeatable
    #[arg(help_heading = "Input")]
    #[arg(long, value_name = "NAME=FILE[,FILE..]", value_parser = parse_tap)]
    pub tap: Vec<TapFiles>,
    /// Host to show, of a recording that has several
    #[arg(help_heading = "Input")]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Playback speed: max, 1x, 10x, 0.5x
    ///
    /// [default: max; Space plays a capture that was read]
    #[arg(help_heading = "Input")]
    #[arg(long, value_name = "SPEED")]
    pub speed: Option<SpeedArg>,
    /// Start of the time range, such as +10s
    ///
    /// +10s after the first frame, a time of day in UTC as screens print it (05:41:57.258), RFC 3339
    /// (2026-01-01T00:00:00Z), or Unix seconds.
    #[arg(help_heading = "Input")]
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    pub from: Option<TimeSpec>,
    /// End of the time range, written as --from
    #[arg(help_heading = "Input")]
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    pub to: Option<TimeSpec>,
    /// Reordering window: packets that fill a gap later count as retransmitted [default: 5ms]
    #[arg(help_heading = "Analysis")]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub reorder_window: Option<Duration>,
    /// Bin of burst and incast statistics: 100us to 1s
    #[arg(help_heading = "Analysis")]
    #[arg(long, value_name = "DURATION", value_parser = parse_bin, default_value = "1ms")]
    pub bin: Duration,
    /// Link speed, such as 400G; needed to convert PFC quanta to time
    #[arg(help_heading = "Analysis")]
    #[arg(long, value_name = "SPEED", value_parser = parse_speed_of_link)]
    pub link_speed: Option<u64>,
    /// Options of the output.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// Options of the output, for all commands that show traffic.
#[derive(Clone, Debug, ClapArgs)]
pub struct ViewArgs {
    /// Output [default: tui in a terminal, else text]
    #[arg(help_heading = "Output")]
    #[arg(long, value_enum)]
    pub output: Option<Output>,
    /// Write the report to this file
    ///
    /// Instead of standard output. Without --output its name decides: .html, .json, .jsonl, .csv, else text.
    #[arg(help_heading = "Output")]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Interval of jsonl reports, of the terminal view, and live of the timeline of html
    #[arg(help_heading = "Output")]
    #[arg(long, value_name = "DURATION", value_parser = positive, default_value = "1s")]
    pub interval: Duration,
    /// Simulate ECMP hashing of the flows over N equal uplinks
    #[arg(help_heading = "Analysis")]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub ecmp: Option<u32>,
    /// First screen of the terminal view: overview, qps, detail, matrix, links, bursts, events, findings, or 1 to 8
    #[arg(help_heading = "Terminal view")]
    #[arg(long, value_name = "SCREEN", value_parser = parse_screen)]
    pub screen: Option<Screen>,
    /// Sort column of the terminal view, such as ce, rate or src; -COLUMN reverses the order
    #[arg(help_heading = "Terminal view")]
    #[arg(long, value_name = "COLUMN", value_parser = parse_sort, allow_hyphen_values = true)]
    pub sort: Option<SortOrder>,
    /// Columns of the queue pair table, such as src,dst,qp,rate, or a set: health, latency, traffic, identity
    ///
    /// Without --screen it is the first screen.
    #[arg(help_heading = "Terminal view")]
    #[arg(long, value_name = "COLUMNS", value_parser = parse_columns)]
    pub columns: Option<Columns>,
    /// Show only matching rows in the terminal view, such as 'host 10.0.1.0/24 and ce > 1%'; all traffic is counted
    #[arg(help_heading = "Terminal view")]
    #[arg(long, value_name = "EXPR", value_parser = parse_view_filter)]
    pub view_filter: Option<String>,
    /// Leave the mouse to the terminal, which then selects text; with it, Shift and the mouse select text
    #[arg(help_heading = "Terminal view")]
    #[arg(long)]
    pub no_mouse: bool,
    /// Options shared by all commands that count flows.
    #[command(flatten)]
    pub common: CommonArgs,
}

impl ViewArgs {
    /// Those of a command that takes every sample and shows none.
    fn of_samples(interval: Duration, common: &CommonArgs) -> Self {
        Self {
            output: Some(Output::Jsonl),
            out: None,
            interval,
            ecmp: None,
            screen: None,
            sort: None,
            columns: None,
            view_filter: None,
            no_mouse: true,
            common: common.clone(),
        }
    }
}

const DIFF_EXAMPLES: &str = "\
Examples:
  rocescope diff before.pcap after.pcap
  rocescope diff monday.json today.pcap.gz    monday.json: --output json
  rocescope diff recordings/ recordings/ --host node1 --host node2";

/// Arguments of `diff`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = DIFF_EXAMPLES)]
pub struct DiffArgs {
    /// Baseline: a capture, a recording, or a report saved with --output json
    pub a: PathBuf,
    /// Capture, recording or report to compare with the baseline
    pub b: PathBuf,
    /// Host to compare, of recordings that have several; given twice, of the baseline and of the other
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = PageOutput::Text)]
    pub output: PageOutput,
    /// Configuration file
    ///
    /// [default: ~/.config/rocescope/config.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `--output` of commands that print a single page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PageOutput {
    /// Text.
    Text,
    /// One JSON document.
    Json,
}

const BENCH_EXAMPLES: &str = "\
Examples:
  sudo rocescope bench                 ns per packet of each kernel program
  sudo rocescope bench --output json > bench.json";

/// Options of `bench`.
#[derive(Clone, Copy, Debug, ClapArgs)]
#[command(after_help = BENCH_EXAMPLES)]
pub struct BenchArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = PageOutput::Text)]
    pub output: PageOutput,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  rocescope explain                              all findings
  rocescope explain loss.before_tap              one of them
  rocescope explain loss                         those of a family
  rocescope explain CNP                          those of a badge on the screen
  rocescope explain definitions                  numbers that no setting changes";

/// Options of `explain`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct ExplainArgs {
    /// Id of a finding (loss.before_tap) or of a family (loss), or `definitions`
    #[arg(value_name = "ID")]
    pub id: Option<String>,
}

/// `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Interactive terminal view.
    Tui,
    /// Text report at the end.
    Text,
    /// JSON report at the end.
    Json,
    /// One JSON report per interval and line.
    Jsonl,
    /// One HTML page at the end, to share: self-contained, nothing is loaded.
    Html,
    /// Trace at the end, for Perfetto and other viewers of Chrome's format.
    Trace,
    /// Flows as CSV at the end.
    Csv,
}

impl Output {
    /// True if samples are needed during the run, not only at its end.
    pub const fn follows(self) -> bool {
        matches!(self, Self::Tui | Self::Jsonl | Self::Html)
    }

    /// True if the output needs single events.
    pub const fn needs_events(self) -> bool {
        matches!(self, Self::Tui | Self::Trace)
    }
}

#[cfg(test)]
mod tests;
