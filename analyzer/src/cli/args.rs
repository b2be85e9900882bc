//! Commands, options and their help.

pub(super) mod agent;
mod common;
mod doctor;
mod export;
mod fleet;
mod flight;
mod live;
mod record;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

pub use super::values::SpeedArg;
use super::values::{parse_bin, parse_speed_of_link, parse_tap, positive};
pub use agent::AgentArgs;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args as ClapArgs, CommandFactory as _, Parser, Subcommand, ValueEnum};
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
use crate::tui::settings::{parse_screen, parse_sort, parse_view_filter};
use crate::tui::table::Sort;
use crate::util::style::Color;

const START: &str = "\
Start here:
  sudo rocescope demo              generated traffic with problems to find: no NIC needed
  sudo rocescope live              this host: all interfaces with an RDMA device
  rocescope replay trace.pcap      a capture
  sudo rocescope doctor            what this host can show, and whether RoCE is configured correctly

Exit status: 0 success (also when interrupted), 1 failure, 2 invalid usage.";

/// Version, commit, kernel programs and features of this build. The commit is that of `cargo xtask build`, `dist` and
/// `package`; a bare `cargo build` does not know it.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let (programs, features) = if cfg!(feature = "live") {
        ("XDP, TC, kprobes and uprobes, for Linux 5.15 (aarch64: 5.18) and newer", "live")
    } else {
        ("none: live, export, demo and bench do not work in this build", "none")
    };
    let commit = option_env!("ROCESCOPE_COMMIT").unwrap_or("unknown");
    let version = env!("CARGO_PKG_VERSION");
    format!("{version}\ncommit: {commit}\nkernel programs: {programs}\nfeatures: {features}")
});

/// RoCE traffic of a host per queue pair, live or from captures, with a diagnosis of its problems.
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
    /// Keep all privileges after set-up: where a kernel or a container refuses what the sandbox needs (docs/security.md)
    #[arg(long, global = true, display_order = 901, hide_short_help = true)]
    pub no_sandbox: bool,
}

impl Args {
    /// Reads a command line, the program's name first.
    ///
    /// # Errors
    /// For invalid usage, and for a time range that ends before it begins.
    pub fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let args = Self::try_parse_from(line).map_err(|error| capture_alone(&error).unwrap_or(error))?;
        if let Verb::Replay(replay) = &args.verb
            && let (Some(from), Some(to)) = (replay.from, replay.to)
            && to.is_before(from)
        {
            let what = "--to is before --from, so no frame is in the time range; exchange the two";
            let mut command = Self::command();
            command.build();
            let replay = command.find_subcommand_mut("replay").ok_or(ErrorKind::MissingSubcommand);
            return Err(
                replay.map_or_else(clap::Error::new, |replay| replay.error(ErrorKind::ValueValidation, what))
            );
        }
        Ok(args)
    }
}

/// The error that a capture in place of a command deserves.
fn capture_alone(error: &clap::Error) -> Option<clap::Error> {
    let Some(ContextValue::String(file)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let name = file.strip_suffix(".gz").unwrap_or(file);
    let is_capture = [".pcap", ".pcapng", ".cap"].iter().any(|suffix| name.ends_with(suffix));
    let what = format!("'{file}' is no command; to read a capture: rocescope replay {file}");
    (is_capture || std::path::Path::new(file).is_file())
        .then(|| Args::command().error(ErrorKind::InvalidSubcommand, what))
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Watch interfaces live through eBPF
    Live(LiveArgs),
    /// Read capture files, a capture from standard input, or a recording
    Replay(ReplayArgs),
    /// Serve metrics of live interfaces to Prometheus, or push them to an OpenTelemetry collector
    Export(ExportArgs),
    /// Metrics, recording and flight recorder of live interfaces in one process
    Agent(Box<AgentArgs>),
    /// Record live interfaces, or captures, to Parquet files
    Record(RecordArgs),
    /// Send generated RoCE traffic through network namespaces of its own and show it live
    Demo(DemoArgs),
    /// Benchmark the overhead per packet on this host; no interface is touched
    Bench(BenchArgs),
    /// Check visibility and RoCE configuration of this host
    Doctor(DoctorArgs),
    /// Compare two captures, recordings or saved reports: metrics and findings that improved or regressed
    Diff(DiffArgs),
    /// Ask about the recordings of many hosts: what is slow, lossy, uneven, late, on DuckDB or ClickHouse
    Fleet(FleetArgs),
    /// Explain a finding: meaning, rule, thresholds, remedy; without ID, list all findings
    Explain(ExplainArgs),
    /// Print a configuration file with all settings, their defaults and reasons
    Config,
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

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  rocescope completions bash > ~/.local/share/bash-completion/completions/rocescope
  rocescope completions zsh > ~/.zfunc/_rocescope
  rocescope completions fish > ~/.config/fish/completions/rocescope.fish";

/// Options of `demo`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = format!("{DEMO_EPISODES}\n\n{}", fields::source_help()))]
#[command(mut_arg("hook", |arg| arg.help(DEMO_HOOK).hide_possible_values(true)))]
pub struct DemoArgs {
    /// Options of attaching the kernel programs.
    #[command(flatten)]
    pub attach: AttachArgs,
    /// Options of the view.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// The interfaces are its own, so that side effects of XDP concern nobody.
const DEMO_HOOK: &str = "Ingress hook: xdp, tc, or auto, which is xdp on the interfaces of the demonstration";

const DEMO_EPISODES: &str = "\
Episodes, in this order, each of eight training steps:
  healthy          no problem
  congestion       CE marks on rail0, CNPs to the senders, rate reduction
  loss             PSN gaps, sequence-error NAKs, go-back-N retransmissions, in both directions
  slow receiver    RNR NAKs
  bad hashing      a second job with few source ports overloads rail0

In the terminal view the cycle repeats every 80 s until q, Ctrl-C or --duration.
With any other --output it runs once, in 12 s; --duration repeats or shortens it.";

const REPLAY_EXAMPLES: &str = "\
Examples:
  rocescope replay trace.pcap
  rocescope replay h0.pcap h1.pcap.gz --group h0.pcap,h1.pcap.gz
  rocescope replay --tap leaf1=l1.pcap0,l1.pcap1 --tap leaf2=l2.pcap --output json
  rocescope replay trace.pcap --output html --out report.html
  rocescope replay /var/lib/rocescope --from 2026-01-01T03:00:00Z       a recording of rocescope record
  rocescope replay trace.pcapng --from +10s --to +20s --filter 'host 10.0.0.1 and not opcode CNP'
  tcpdump -U -s 128 -i mlx5_0 -w - | rocescope replay -";

/// Options of `replay`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = format!("{REPLAY_EXAMPLES}\n\n{}", fields::source_help()))]
pub struct ReplayArgs {
    /// pcap or pcapng files, also gzip, each a separate tap; - is standard input; or the folder of a recording
    #[arg(value_name = "FILE", required_unless_present = "tap")]
    pub files: Vec<PathBuf>,
    /// Name a tap and merge files into it; repeatable
    #[arg(long, value_name = "NAME=FILE[,FILE..]", value_parser = parse_tap)]
    pub tap: Vec<TapFiles>,
    /// Host to show, of a recording that has several
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Playback speed: max, 1x, 10x, 0.5x [default: max; Space plays a capture that was read]
    #[arg(long, value_name = "SPEED")]
    pub speed: Option<SpeedArg>,
    /// Start of the time range: +10s after the first frame, RFC 3339 (2026-01-01T00:00:00Z), or Unix seconds
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    pub from: Option<TimeSpec>,
    /// End of the time range, written as --from
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    pub to: Option<TimeSpec>,
    /// Reordering window: packets that fill a gap later count as retransmitted [default: 5ms]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub reorder_window: Option<Duration>,
    /// Bin of burst and incast statistics: 100us to 1s
    #[arg(long, value_name = "DURATION", value_parser = parse_bin, default_value = "1ms")]
    pub bin: Duration,
    /// Link speed, such as 400G; needed to convert PFC quanta to time
    #[arg(long, value_name = "SPEED", value_parser = parse_speed_of_link)]
    pub link_speed: Option<u64>,
    /// Options of the view.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// Options of all commands that show traffic.
#[derive(Clone, Debug, ClapArgs)]
pub struct ViewArgs {
    /// Output [default: tui in a terminal, else text]
    #[arg(long, value_enum)]
    pub output: Option<Output>,
    /// Write the report to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Interval of jsonl reports, of the terminal view, and live of the timeline of html
    #[arg(long, value_name = "DURATION", value_parser = positive, default_value = "1s")]
    pub interval: Duration,
    /// Simulate ECMP hashing of the flows over N equal uplinks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub ecmp: Option<u32>,
    /// First screen of the terminal view: overview, qps, detail, matrix, links, bursts, events, findings, or 1 to 8
    #[arg(long, value_name = "SCREEN", value_parser = parse_screen)]
    pub screen: Option<Screen>,
    /// Sort column of the terminal view, such as ce, rate or src; -COLUMN reverses the order
    #[arg(long, value_name = "COLUMN", value_parser = parse_sort, allow_hyphen_values = true)]
    pub sort: Option<Sort>,
    /// Show only matching rows in the terminal view, such as 'host 10.0.1.0/24 and ce > 1%'; all traffic is counted
    #[arg(long, value_name = "EXPR", value_parser = parse_view_filter)]
    pub view_filter: Option<String>,
    /// Leave the mouse to the terminal, which then selects text; with it, Shift and the mouse select text
    #[arg(long)]
    pub no_mouse: bool,
    /// Options that all commands with flows share.
    #[command(flatten)]
    pub common: CommonArgs,
}

const DIFF_EXAMPLES: &str = "\
Examples:
  rocescope diff before.pcap after.pcap
  rocescope diff monday.json today.pcap.gz --output json     (monday.json: saved with --output json)";

/// Options of `diff`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = DIFF_EXAMPLES)]
pub struct DiffArgs {
    /// Baseline: a capture, a recording, or a report saved with --output json
    pub a: PathBuf,
    /// Capture, recording or report to compare with the baseline
    pub b: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t = PageOutput::Text)]
    pub output: PageOutput,
    /// Configuration file [default: ~/.config/rocescope/config.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `--output` of commands that print one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PageOutput {
    /// Text.
    Text,
    /// One JSON document.
    Json,
}

/// Options of `bench`.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub struct BenchArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = PageOutput::Text)]
    pub output: PageOutput,
}

/// Options of `explain`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ExplainArgs {
    /// Id of a finding (loss.before_tap) or of a family (loss)
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
    /// Whether samples are needed while the run goes on, not at its end alone.
    #[must_use]
    pub const fn follows(self) -> bool {
        matches!(self, Self::Tui | Self::Jsonl | Self::Html)
    }

    /// Whether single events are needed.
    #[must_use]
    pub const fn needs_events(self) -> bool {
        matches!(self, Self::Tui | Self::Trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(args: &[&str]) -> Result<ReplayArgs, clap::Error> {
        let all = ["rocescope", "replay"].iter().chain(args);
        match Args::read(all.map(OsString::from))?.verb {
            Verb::Replay(args) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_demo_says_which_episodes_there_are_and_how_long_they_last() {
        use crate::source::demo::scenario::{BRIEF, Episode, WATCHED};
        let listed = DEMO_EPISODES.lines().filter(|line| line.starts_with("  ")).count();
        assert_eq!(listed, Episode::ALL.len());
        for cycle in [BRIEF, WATCHED] {
            assert!(DEMO_EPISODES.contains(&format!(" {} s", cycle.as_secs())), "{cycle:?}");
        }
    }

    #[test]
    fn definitions_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn replay_options() {
        let args = replay(&[
            "a.pcap",
            "--tap",
            "l=b,c",
            "--speed",
            "0.5x",
            "--from",
            "+1s",
            "--group",
            "a.pcap,l",
            "--filter",
            "qp 17",
            "--interval",
            "500ms",
            "--duration",
            "10",
            "--reorder-window",
            "100us",
        ])
        .unwrap();
        assert_eq!(args.tap[0], TapFiles { name: "l".into(), files: vec!["b".into(), "c".into()] });
        assert_eq!(args.speed, Some(SpeedArg(0.5)));
        assert_eq!(args.from, Some(TimeSpec::Offset(1_000_000_000)));
        assert_eq!(args.view.common.group, [["a.pcap", "l"]]);
        assert_eq!(args.view.common.duration, Some(Duration::from_secs(10)));
        assert_eq!(args.reorder_window, Some(Duration::from_micros(100)));
        assert_eq!(replay(&["-"]).unwrap().view.interval, Duration::from_secs(1));
        assert_eq!(replay(&["-"]).unwrap().bin, Duration::from_millis(1));
        assert_eq!(replay(&["-", "--bin", "100us"]).unwrap().bin, Duration::from_micros(100));
        assert_eq!(replay(&["-", "--link-speed", "400G"]).unwrap().link_speed, Some(400_000));
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_an_error_of_replay() {
        let error = replay(&["x", "--from", "+2s", "--to", "+1s"]).unwrap_err().to_string();
        assert!(error.contains("--to is before --from") && error.contains("rocescope replay"), "{error}");
        assert!(!error.contains("<COMMAND>"), "{error}");
    }

    #[test]
    fn an_interface_without_its_option_is_told_how() {
        let error = Args::read(["rocescope", "live", "vb"].map(OsString::from)).unwrap_err();
        assert!(error.to_string().contains("use -i vb") && error.exit_code() == 2, "{error}");
        assert!(Args::read(["rocescope", "live", "-i", "vb"].map(OsString::from)).is_ok());
    }

    #[test]
    #[cfg(feature = "live")]
    fn the_help_names_the_defaults_that_depend_on_the_command() {
        use crate::source::{live::DEFAULT_MAX_FLOWS, replay::MAX_FLOWS};
        let mut command = Args::command();
        let help = command.find_subcommand_mut("live").unwrap().render_long_help().to_string();
        let idle = crate::cli::live::IDLE.as_secs() / 60;
        for text in [
            format!("[default: live {DEFAULT_MAX_FLOWS}, replay {MAX_FLOWS}]"),
            format!("[default: live {idle}m, replay none]"),
        ] {
            assert!(help.contains(&text), "{text}: {help}");
        }
    }

    #[test]
    fn a_capture_without_a_command_is_told_how() {
        for file in ["e1.pcap", "dir/x.pcapng.gz"] {
            let error = Args::read(["rocescope", file].map(OsString::from)).unwrap_err();
            assert!(error.to_string().contains(&format!("rocescope replay {file}")), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
        let error = Args::read(["rocescope", "replai"].map(OsString::from)).unwrap_err();
        assert!(error.to_string().contains("'replay'"), "{error}");
    }

    #[test]
    fn nonsense_is_refused() {
        for args in [
            &[][..],
            &["x", "--speed", "fast"],
            &["x", "--speed", "0x"],
            &["x", "--speed", "inf"],
            &["x", "--speed", "-1x"],
            &["x", "--interval", "0"],
            &["x", "--group", "one"],
            &["x", "--tap", "l"],
            &["x", "--ecmp", "1"],
            &["x", "--rail", "eth0"],
            &["x", "--rail", "=r"],
            &["x", "--tap", "=f"],
            &["x", "--tap", "l=a,,b"],
            &["x", "--max-flows", "0"],
            &["x", "--from", "yesterday"],
            &["x", "--from", "10"],
            &["x", "--from", "+2s", "--to", "+1s"],
            &["x", "--from", "2026-01-01T00:00:00Z", "--to", "1767225599"],
            &["x", "--filter", "qp"],
            &["x", "--output", "xml"],
            &["x", "--screen", "9"],
            &["x", "--sort", "nothing"],
            &["x", "--view-filter", "p99:>soon"],
            &["x", "--bin", "10us"],
            &["x", "--link-speed", "400"],
            &["x", "--link-speed", "0G"],
            &["x", "--bin", "2s"],
        ] {
            assert!(replay(args).is_err(), "{args:?}");
        }
    }
}
