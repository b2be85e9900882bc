//! Commands, options and their help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args as ClapArgs, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::filter::{Filter, FilterError, fields};
use crate::host::hook::{HookChoice, XdpModeChoice};
use crate::metrics::traffic::BIN_RANGE_NS;
use crate::source::replay::inputs::TapFiles;
use crate::source::replay::time::{TimeSpec, parse_duration, parse_time};
use crate::tui::query;
use crate::tui::screen::Screen;
use crate::tui::settings::{parse_screen, parse_sort, parse_view_filter};
use crate::tui::table::Sort;

/// Shows the RoCE traffic of a host, queue pair by queue pair, and says what is wrong with it.
#[derive(Debug, Parser)]
#[command(name = "rocescope", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Exit status: 0 done (also when interrupted), 1 failed, 2 bad usage.")]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

impl Args {
    /// Reads a command line, the program's name first.
    ///
    /// # Errors
    /// For what `rocescope` does not understand, and for a span of time that ends before it begins.
    pub fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let args = Self::try_parse_from(line)?;
        if let Verb::Replay(replay) = &args.verb
            && let (Some(from), Some(to)) = (replay.from, replay.to)
            && to.is_before(from)
        {
            let what = "--to is before --from, so that no frame can be within; exchange the two";
            return Err(Self::command().error(ErrorKind::ValueValidation, what));
        }
        Ok(args)
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Watch interfaces: attach, show, detach
    Live(LiveArgs),
    /// Read capture files, or a stream of one
    Replay(ReplayArgs),
    /// Build network namespaces, send bundled RoCE traffic through them and show it live
    Demo(DemoArgs),
    /// Measure what counting costs on this host, without touching any interface
    Bench(BenchArgs),
    /// Say what can be seen on this host, through which source, and what is set wrong
    Doctor(DoctorArgs),
    /// Compare two captures or saved reports: what got better or worse
    Diff(DiffArgs),
    /// Say what a finding means, how it is computed and what to do; without ID, list them
    Explain(ExplainArgs),
    /// Print a configuration file with every setting, its default and its reason
    Config,
}

const LIVE_EXAMPLES: &str = "\
Examples:
  rocescope live                                   every interface that has an RDMA device
  rocescope live -i eth2 -i mlx5_1                 by interface or by RDMA device
  rocescope live -i eth0 --netns 4711              inside the pod of process 4711
  rocescope live -i eth2 --output json --duration 10s";

/// Options of `live`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = format!("{LIVE_EXAMPLES}\n\n{}", fields::source_help()))]
pub struct LiveArgs {
    /// Network interface, or RDMA device (its interface is meant); repeatable
    #[arg(short, long = "interface", value_name = "IFACE")]
    pub interface: Vec<String>,
    /// An interface without -i: refused, with a word about how to say it.
    #[arg(hide = true, value_name = "IFACE", value_parser = parse_misplaced)]
    pub misplaced: Option<String>,
    /// Network namespace of the interfaces: a name, or the number of a process in it
    #[arg(long, value_name = "NAME|PID")]
    pub netns: Option<String>,
    /// Options of all live sources.
    #[command(flatten)]
    pub attach: AttachArgs,
    /// Options of the view.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// How the kernel programs are attached.
#[derive(Clone, Debug, ClapArgs)]
pub struct AttachArgs {
    /// Ingress hook: auto is TC on physical interfaces, XDP on virtual ones
    #[arg(long, value_enum, default_value_t = HookChoice::Auto)]
    pub hook: HookChoice,
    /// Where XDP runs: in the driver, or behind it
    #[arg(long, value_enum, default_value_t = XdpModeChoice::Auto)]
    pub xdp_mode: XdpModeChoice,
    /// Leave promiscuous mode alone
    #[arg(long)]
    pub no_promisc: bool,
    /// Time nothing, to the tick of 1 to 10 ms only: costs less per packet, and there is no latency
    #[arg(long)]
    pub no_timing: bool,
    /// Bins in which bursts and senders at once are counted: 100us to 1ms, or whole milliseconds to 1s
    #[arg(long, value_name = "DURATION", value_parser = parse_bin, default_value = "1ms")]
    pub bin: Duration,
    /// Print the kernel programs' diagnostics
    #[arg(long)]
    pub log: bool,
}

/// Options of `demo`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = format!("{DEMO_EPISODES}\n\n{}", fields::source_help()))]
pub struct DemoArgs {
    /// How the kernel programs are attached.
    #[command(flatten)]
    pub attach: AttachArgs,
    /// Options of the view.
    #[command(flatten)]
    pub view: ViewArgs,
}

const DEMO_EPISODES: &str = "\
Episodes, one after the other, each of eight training steps:
  healthy          nothing is wrong
  congestion       CE marks on rail0, CNPs to the senders, who slow down
  loss             gaps, NAKs, whole windows sent again, on both sides of this host
  slow receiver    RNR NAKs
  bad hashing      a second job with few source ports crowds rail0

In the terminal UI they come round every 40 s, until q, Ctrl-C or --duration.
With --output text, json or jsonl each comes once, in 12 s. A longer --duration goes round again, a shorter one ends
within the round.";

const REPLAY_EXAMPLES: &str = "\
Examples:
  rocescope replay trace.pcap
  rocescope replay h0.pcap h1.pcap.gz --group h0.pcap,h1.pcap.gz
  rocescope replay --tap leaf1=l1.pcap0,l1.pcap1 --tap leaf2=l2.pcap --output json
  rocescope replay trace.pcapng --from +10s --to +20s --filter 'host 10.0.0.1 and not opcode CNP'
  tcpdump -U -s 128 -i mlx5_0 -w - | rocescope replay -";

/// Options of `replay`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = format!("{REPLAY_EXAMPLES}\n\n{}", fields::source_help()))]
pub struct ReplayArgs {
    /// pcap or pcapng files, also gzip, each a tap of its own; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "tap")]
    pub files: Vec<PathBuf>,
    /// Name a tap, and join files into it; repeatable
    #[arg(long, value_name = "NAME=FILE[,FILE..]", value_parser = parse_tap)]
    pub tap: Vec<TapFiles>,
    /// The data's time against the clock: max, 1x, 10x, 0.5x [default: 1x in the terminal, else max]
    #[arg(long, value_name = "SPEED")]
    pub speed: Option<SpeedArg>,
    /// Count no frames before: Unix seconds, RFC 3339, or +OFFSET from the first frame
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub from: Option<TimeSpec>,
    /// Count no frames after
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub to: Option<TimeSpec>,
    /// How late a packet may come and be out of order, not lost and sent again [default: 5ms]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub reorder_window: Option<Duration>,
    /// Bins in which bursts and senders at once are counted: 100us to 1s
    #[arg(long, value_name = "DURATION", value_parser = parse_bin, default_value = "1ms")]
    pub bin: Duration,
    /// Speed of the links, such as 400G: how long pauses last is known by it alone
    #[arg(long, value_name = "SPEED", value_parser = parse_speed_of_link)]
    pub link_speed: Option<u64>,
    /// Options of the view.
    #[command(flatten)]
    pub view: ViewArgs,
}

/// What all commands that show traffic share.
#[derive(Clone, Debug, ClapArgs)]
pub struct ViewArgs {
    /// What to show [default: tui in a terminal, else text]
    #[arg(long, value_enum)]
    pub output: Option<Output>,
    /// End after this time
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    pub duration: Option<Duration>,
    /// Time between two reports of jsonl, and two readings of the terminal view
    #[arg(long, value_name = "DURATION", value_parser = positive, default_value = "1s")]
    pub interval: Duration,
    /// Count only RoCE packets (live: flows) that match, such as 'host 10.0.1.0/24 and qp 17'; see Filters below
    #[arg(long, value_name = "EXPR", value_parser = parse_filter)]
    pub filter: Option<Filter>,
    /// Links that share a load, to be compared; repeatable
    #[arg(long, value_name = "LINK,LINK", value_parser = parse_group)]
    pub group: Vec<Vec<String>>,
    /// What hashing over N equal uplinks would make of these flows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub ecmp: Option<u32>,
    /// The rail that an interface belongs to; repeatable
    #[arg(long, value_name = "IFACE=NAME", value_parser = parse_rail)]
    pub rail: Vec<(String, String)>,
    /// First screen of the terminal view: overview, qps, detail, matrix, links, bursts, events, findings, or 1 to 8
    #[arg(long, value_name = "SCREEN", value_parser = parse_screen)]
    pub screen: Option<Screen>,
    /// Column that the terminal view sorts queue pairs by, such as ce, rate or src; -COLUMN turns it round
    #[arg(long, value_name = "COLUMN", value_parser = parse_sort, allow_hyphen_values = true)]
    pub sort: Option<Sort>,
    /// Show only matching rows in the terminal view, such as 'host 10.0.1.0/24 and ce > 1%'; all traffic is counted
    #[arg(long, value_name = "EXPR", value_parser = parse_view_filter)]
    pub view_filter: Option<String>,
    /// Flows at a time, at most
    #[arg(long, value_name = "N", value_parser = parse_flows)]
    pub max_flows: Option<usize>,
    /// Configuration file [default: ~/.config/rocescope/config.toml, where it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Retire flows that are idle for longer; their sums stay in the report
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    pub idle: Option<Duration>,
}

const DIFF_EXAMPLES: &str = "\
Examples:
  rocescope diff before.pcap after.pcap
  rocescope diff monday.json today.pcap.gz --output json     (monday.json: saved from --output json)";

/// Options of `diff`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = DIFF_EXAMPLES)]
pub struct DiffArgs {
    /// Before: a capture, or a report saved with --output json
    pub a: PathBuf,
    /// After
    pub b: PathBuf,
    /// What to print
    #[arg(long, value_enum, default_value_t = PageOutput::Text)]
    pub output: PageOutput,
    /// Configuration file [default: ~/.config/rocescope/config.toml, where it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `--output` of commands that print one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PageOutput {
    /// Tables for people.
    Text,
    /// One JSON document.
    Json,
}

/// Options of `bench`.
#[derive(Clone, Copy, Debug, ClapArgs)]
pub struct BenchArgs {
    /// What to print
    #[arg(long, value_enum, default_value_t = PageOutput::Text)]
    pub output: PageOutput,
}

const DOCTOR_EXAMPLES: &str = "\
Exit status: 0 done, 1 failed, 2 bad usage, 3 something critical was found.

Examples:
  rocescope doctor                                 changes nothing; shows more as root
  rocescope doctor --verbose                       also what could not be read, and why
  rocescope doctor --lldp 35s                      listen for what the switch says (it speaks every 30 s)
  rocescope doctor --lldp-capture eth2=lldp.pcap   or take it from a capture made on that interface
  rocescope doctor --netns 4711                    what can be seen inside the pod of process 4711
  rocescope doctor --clean                         remove what a killed run left behind";

/// Options of `doctor`.
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub struct DoctorArgs {
    /// What to print
    #[arg(long, value_enum, default_value_t = PageOutput::Text)]
    pub output: PageOutput,
    /// Also what is unknown, and why it could not be read
    #[arg(short, long)]
    pub verbose: bool,
    /// Network namespace to look into: a name, or the number of a process in it
    #[arg(long, value_name = "NAME|PID")]
    pub netns: Option<String>,
    /// Remove the TC filters that a killed run left behind (kernels before 6.6)
    #[arg(long)]
    pub clean: bool,
    /// Listen for LLDP frames of the switches, this long at most
    #[arg(long, value_name = "DURATION", value_parser = positive)]
    pub lldp: Option<Duration>,
    /// An interface and a capture with the LLDP frames of its switch; repeatable
    #[arg(long, value_name = "IFACE=FILE", value_parser = parse_lldp_capture)]
    pub lldp_capture: Vec<(String, PathBuf)>,
}

/// Options of `explain`.
#[derive(Clone, Debug, ClapArgs)]
pub struct ExplainArgs {
    /// Id of a finding (loss.before_tap), or a family of them (loss)
    #[arg(value_name = "ID")]
    pub id: Option<String>,
}

/// `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Terminal view.
    Tui,
    /// A report for people, at the end.
    Text,
    /// A report as JSON, at the end.
    Json,
    /// A report as one line of JSON per interval.
    Jsonl,
}

/// `--speed`: data time per clock time, infinite for `max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedArg(pub f64);

impl FromStr for SpeedArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self(f64::INFINITY));
        }
        let number = text.strip_suffix('x').unwrap_or(text);
        let speed: Option<f64> = number.parse().ok();
        speed
            .filter(|speed| speed.is_finite() && *speed > 0.0)
            .map(Self)
            .ok_or_else(|| format!("`{text}` is no speed; write max, 1x, 10x or 0.5x"))
    }
}

fn positive(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration.is_zero() { Err("must be more than nothing".into()) } else { Ok(duration) }
}

fn parse_filter(text: &str) -> Result<Filter, FilterError> {
    Filter::source(text, query::vocabulary())
}

fn parse_bin(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    let fits = u64::try_from(duration.as_nanos()).is_ok_and(|ns| BIN_RANGE_NS.contains(&ns));
    if fits { Ok(duration) } else { Err("write 100us to 1s".into()) }
}

/// Mbit/s of "400G" or "2500M".
fn parse_speed_of_link(text: &str) -> Result<u64, String> {
    let (number, unit) = match (text.strip_suffix('G'), text.strip_suffix('M')) {
        (Some(number), _) => (number, 1000),
        (_, Some(number)) => (number, 1),
        _ => ("", 1),
    };
    let mbps = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    mbps.filter(|mbps| (1..=10_000_000).contains(mbps)).ok_or_else(|| "write 100G, 400G or 1000M".into())
}

fn parse_flows(text: &str) -> Result<usize, String> {
    const MOST: usize = 1 << 26;
    text.parse()
        .ok()
        .filter(|n| (1..=MOST).contains(n))
        .ok_or_else(|| format!("`{text}` is no number of flows; write 1 to {MOST}"))
}

fn parse_group(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = text.split(',').map(str::to_owned).collect();
    if names.len() < 2 || names.iter().any(String::is_empty) {
        return Err("names two links or more, with commas between".into());
    }
    Ok(names)
}

fn parse_rail(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((interface, name)) if !interface.is_empty() && !name.is_empty() => {
            Ok((interface.into(), name.into()))
        }
        _ => Err("write IFACE=NAME, such as eth2=rail0".into()),
    }
}

fn parse_lldp_capture(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((interface, file)) if !interface.is_empty() && !file.is_empty() => {
            Ok((interface.into(), file.into()))
        }
        _ => Err("write IFACE=FILE, such as eth2=lldp.pcap".into()),
    }
}

fn parse_tap(text: &str) -> Result<TapFiles, String> {
    let wanted = || "write NAME=FILE, or NAME=FILE,FILE to join files".to_owned();
    let (name, files) = text.split_once('=').ok_or_else(wanted)?;
    let files: Vec<PathBuf> = files.split(',').map(PathBuf::from).collect();
    if name.is_empty() || files.iter().any(|file| file.as_os_str().is_empty()) {
        return Err(wanted());
    }
    Ok(TapFiles { name: name.into(), files })
}

/// Always a mistake: what it means is said with `-i`.
fn parse_misplaced(text: &str) -> Result<String, String> {
    Err(format!("interfaces are named with -i: use -i {text}"))
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
        assert_eq!(args.view.group, [["a.pcap", "l"]]);
        assert_eq!(args.view.duration, Some(Duration::from_secs(10)));
        assert_eq!(args.reorder_window, Some(Duration::from_micros(100)));
        assert_eq!(replay(&["-"]).unwrap().view.interval, Duration::from_secs(1));
        assert_eq!(replay(&["-"]).unwrap().bin, Duration::from_millis(1));
        assert_eq!(replay(&["-", "--bin", "100us"]).unwrap().bin, Duration::from_micros(100));
        assert_eq!(replay(&["-", "--link-speed", "400G"]).unwrap().link_speed, Some(400_000));
    }

    #[test]
    fn an_interface_without_its_option_is_told_how() {
        let error = Args::read(["rocescope", "live", "vb"].map(OsString::from)).unwrap_err();
        assert!(error.to_string().contains("use -i vb") && error.exit_code() == 2, "{error}");
        assert!(Args::read(["rocescope", "live", "-i", "vb"].map(OsString::from)).is_ok());
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
