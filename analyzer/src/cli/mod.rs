//! The command line.

#[cfg(feature = "live")]
mod agent;
mod args;
#[cfg(feature = "live")]
mod bench;
pub mod config;
mod confine;
mod diff;
#[cfg(target_os = "linux")]
mod doctor;
mod explain;
#[cfg(feature = "live")]
mod export;
mod fleet;
#[cfg(feature = "live")]
mod flight;
#[cfg(feature = "live")]
mod live;
mod manual;
mod mistake;
pub mod output;
mod progress;
#[cfg(feature = "live")]
mod push;
mod record;
#[cfg(target_os = "linux")]
mod start;
#[cfg(feature = "live")]
mod systemd;
mod values;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::error::ErrorKind;

pub use args::{
    AgentArgs, Args, AttachArgs, BenchArgs, CommonArgs, DemoArgs, DiffArgs, DoctorArgs, ExplainArgs,
    ExportArgs, FleetArgs, FleetOutput, FlightArgs, LiveArgs, Output, PageOutput, RecordArgs, ReplayArgs,
    SourceArgs, SpeedArg, TablesArgs, Verb, ViewArgs,
};

pub use args::help::command;

use self::config::Config;
use self::output::{Format, Interrupt, Sink};
use crate::analysis;
use crate::flight::dump;
use crate::report;
use crate::source::feed::{Command, Feed};
use crate::source::recording;
use crate::source::replay::{self, Emit};
use crate::tui;
use crate::util::background;
use crate::util::layout::plain;
use crate::util::limit;
use crate::util::memory;
use crate::util::notice::{lines, say};
use crate::util::style::{Color, Paint};
use crate::util::time::nanos;

/// A dump is requested by name: `pkill -USR1 rocescope` must not end the processes that have no flight recorder.
fn survive_requests_of_dumps() {
    // If the signal cannot be caught it ends the process, as it does by default.
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::default());
}

/// Runs the command and returns the exit status: 0 success, 1 failure, 2 invalid usage, 3 a critical check of
/// `doctor`.
pub fn main() -> ExitCode {
    survive_requests_of_dumps();
    let mut line: Vec<OsString> = std::env::args_os().collect();
    #[cfg(target_os = "linux")]
    if line.len() == 1 {
        match start::start() {
            Ok(Some(arguments)) => line.extend(arguments.into_iter().map(OsString::from)),
            Ok(None) => return ExitCode::SUCCESS,
            Err(error) => return failed(&error),
        }
    }
    let odd = line.iter().any(is_odd);
    let args = match Args::read(line) {
        Ok(args) => args,
        Err(error) => return usage(&error, odd),
    };
    let color = args.color;
    #[cfg(target_os = "linux")]
    if args.no_sandbox {
        crate::sandbox::disable();
    }
    let result = match args.verb {
        Verb::Replay(args) => self::replay(args, color),
        Verb::Record(args) => record::record(args),
        Verb::Explain(args) => return explain::explain(args.id.as_deref(), Paint::of_stdout(color)),
        Verb::Fleet(args) => fleet::fleet(&args, Paint::of_stdout(color)),
        Verb::Diff(args) => diff::diff(&args, Paint::of_stdout(color)),
        #[cfg(target_os = "linux")]
        Verb::Doctor(args) => match doctor::doctor(&args, Paint::of_stdout(color)) {
            Ok(status) => return status,
            Err(error) => Err(error),
        },
        #[cfg(not(target_os = "linux"))]
        Verb::Doctor(_) => Err(anyhow::anyhow!("doctor needs Linux: run it on the host to be checked")),
        Verb::Config { agent: false } => output::page(&config::template()),
        Verb::Config { agent: true } => output::page(&config::agent_template()),
        Verb::Completions { shell } => manual::completions(shell),
        Verb::Manual { folder } => manual::pages(&folder),
        #[cfg(feature = "live")]
        Verb::Live(args) => live::live(args, color),
        #[cfg(feature = "live")]
        Verb::Export(args) => export::export(args),
        #[cfg(feature = "live")]
        Verb::Agent(args) => agent::agent(*args),
        #[cfg(feature = "live")]
        Verb::Demo(args) => live::demo(&args, color),
        #[cfg(feature = "live")]
        Verb::Bench(args) => bench::run(args.output == PageOutput::Json),
        #[cfg(not(feature = "live"))]
        Verb::Live(_) | Verb::Export(_) | Verb::Agent(_) | Verb::Demo(_) | Verb::Bench(_) => {
            Err(anyhow::anyhow!(NO_KERNEL_SIDE))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// Says why the command failed.
fn failed(error: &anyhow::Error) -> ExitCode {
    output::say(&limit::explained(error));
    ExitCode::FAILURE
}

/// True for an argument, as the name of a file that a pattern of the shell matched, that a terminal would obey.
fn is_odd(argument: &OsString) -> bool {
    let text = argument.to_string_lossy();
    plain(&text) != text
}

/// The message about invalid usage in place of clap's, which is coloured and repeats arguments as they are; `None` if
/// nothing in it commands a terminal. Rendering drops whole escape sequences, so `odd` arguments decide, too.
fn in_plain(error: &clap::Error, odd: bool) -> Option<String> {
    let rendered = error.render().to_string();
    let odd = odd || rendered.lines().any(|line| plain(line) != line);
    (odd && error.use_stderr()).then(|| lines(&rendered))
}

/// Help and version go to standard output, errors to standard error.
fn usage(error: &clap::Error, odd: bool) -> ExitCode {
    // A closed pipe is no failure.
    let _ = match in_plain(error, odd) {
        Some(text) => writeln!(std::io::stderr(), "{text}"),
        None => error.print(),
    };
    let _ = std::io::stdout().flush();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(2),
    }
}

/// The output format: `--output`, else by the name of the file, else by whether standard output is a terminal.
fn chosen(view: &ViewArgs) -> Output {
    let by_place = || match &view.out {
        Some(file) => of_name(file),
        None if std::io::stdout().is_terminal() => Output::Tui,
        None => Output::Text,
    };
    view.output.unwrap_or_else(by_place)
}

/// The format that the name of a file promises; else text.
fn of_name(file: &Path) -> Output {
    match file.extension().and_then(std::ffi::OsStr::to_str) {
        Some("html" | "htm") => Output::Html,
        Some("json") => Output::Json,
        Some("jsonl" | "ndjson") => Output::Jsonl,
        Some("csv") => Output::Csv,
        _ => Output::Text,
    }
}

/// Options of the views, from command line and configuration file.
struct Views {
    /// Options of the report.
    report: report::Options,
    /// Options of the terminal view, if that is the output. Report options are not repeated in it.
    tui: Option<tui::Options>,
    /// Destination of reports.
    sink: Sink,
    /// Maximum queries per second for contexts of queue pairs, from the configuration file.
    #[cfg(feature = "live")]
    qp_queries: u32,
}

/// Reads the configuration file. Call it before anything is started or attached, so that an error in the file leaves
/// nothing to undo.
fn views(view: &ViewArgs, speed: Option<f64>) -> Result<Views> {
    let config = Config::load(view.common.config.as_deref())?;
    let tui = match chosen(view) {
        Output::Tui => Some(tui_options(view, &config, speed)?),
        _ => None,
    };
    if tui.is_none() && view.view_filter.is_some() {
        say(
            "--view-filter chooses rows of the terminal view: the report has all of them; --filter chooses packets",
        );
    }
    let analysis = analysis::Options {
        groups: view.common.group.clone(),
        ecmp: view.ecmp,
        rails: view.common.rail.clone(),
        filter: view.common.filter.as_ref().map(|filter| filter.text().to_owned()),
        ..analysis::Options::default()
    };
    let report = report::Options { analysis, limits: config.findings };
    // Before anything starts, and with the privileges of the user.
    let sink = match (&view.out, &tui) {
        (Some(_), Some(_)) => {
            bail!("--out needs an --output other than tui, such as html: the terminal view has no report")
        }
        (Some(file), None) => Sink::create(file)?,
        (None, _) => Sink::stdout(),
    };
    Ok(Views {
        report,
        tui,
        sink,
        #[cfg(feature = "live")]
        qp_queries: config.live.qp_queries,
    })
}

/// Options of the terminal view: the command line wins over the configuration file, which wins over the environment.
fn tui_options(view: &ViewArgs, config: &Config, speed: Option<f64>) -> Result<tui::Options> {
    let options = tui::Options::from_env()
        .with_settings(&config.tui)
        .map_err(|error| anyhow::anyhow!("configuration file, [tui]: {error}"))?;
    // Who names columns wants to see them.
    let screen = if view.columns.is_some() { tui::Screen::Qps } else { options.screen };
    Ok(tui::Options {
        speed,
        screen: view.screen.unwrap_or(screen),
        sort: view.sort.or(options.sort),
        columns: view.columns.clone().map_or(options.columns, |columns| columns.0),
        mouse: options.mouse && !view.no_mouse,
        filter: view.view_filter.clone().unwrap_or(options.filter),
        source_filtered: view.common.filter.is_some(),
        ..options
    })
}

/// The format of a printed report.
fn format(output: Output, color: Color) -> Format {
    match output {
        Output::Tui | Output::Text => Format::Text(color),
        Output::Json => Format::Json,
        Output::Jsonl => Format::JsonLines,
        Output::Html => Format::Html,
        Output::Trace => Format::Trace,
        Output::Csv => Format::Csv,
    }
}

/// A recording to play, and its speed.
struct Replaying {
    feed: Feed,
    speed: f64,
}

/// Plays a recording. The terminal view opens a dump at its trigger and continues from there at data speed.
fn play(path: PathBuf, args: ReplayArgs, speed: f64, emit: Emit, is_watched: bool) -> Result<Replaying> {
    if args.view.common.filter.is_some() {
        bail!("--filter needs packets, which a recording does not have; --view-filter shows matching rows");
    }
    let common = &args.view.common;
    for (option, is_given, instead) in [
        ("--duration", common.duration.is_some(), "--to ends the time that is played"),
        ("--idle", common.idle.is_some(), "flows are as they were recorded"),
        ("--max-flows", common.max_flows.is_some(), "flows are as they were recorded"),
    ] {
        if is_given {
            bail!("{option} is for captures and has no effect on a recording: {instead}");
        }
    }
    let (host, from, to) = (args.host, args.from, args.to);
    let is_chosen = !is_watched || args.speed.is_some() || from.is_some();
    let trigger_ns = dump::trigger_ns(&path).filter(|_| !is_chosen);
    let speed = if trigger_ns.is_some() { 1.0 } else { speed };
    let options = recording::Options { path, host, from, to, speed, emit };
    let feed = confine::reading(|| recording::start(options))?;
    if let Some(at_ns) = trigger_ns {
        // If this fails, the source has ended, and the first update reports it.
        let _ = feed.commands.send(Command::Seek(at_ns));
    }
    Ok(Replaying { feed, speed })
}

fn replay(args: ReplayArgs, color: Color) -> Result<()> {
    let output = chosen(&args.view);
    let interval = args.view.interval;
    let stream = args.files.iter().any(|file| file.as_os_str() == "-");
    // A capture is read completely and fast by default; the view can play it afterwards.
    let speed = args.speed.map_or(f64::INFINITY, |speed| speed.0);
    let emit = match output {
        Output::Tui => Emit::Watch(interval),
        Output::Jsonl => Emit::Every(interval),
        _ => Emit::AtEnd,
    };
    let Views { report, tui, sink, .. } = views(&args.view, (!stream).then_some(speed))?;
    confine::present(args.files.iter().chain(args.tap.iter().flat_map(|tap| &tap.files)))?;
    // The terminal view handles signals itself, since it has to restore the terminal.
    let interrupt = if tui.is_some() { None } else { Some(Interrupt::catch()?) };
    let notes = confine::replay(&args, tui.is_some());
    // Lines of jsonl appear all the time and need no progress line.
    let is_long = matches!(output, Output::Text | Output::Json | Output::Html | Output::Trace | Output::Csv);
    let inputs: Vec<PathBuf> =
        args.files.iter().chain(args.tap.iter().flat_map(|tap| &tap.files)).cloned().collect();
    let _progress = is_long.then(|| progress::Progress::of(&inputs)).flatten();
    if let [path] = args.files.as_slice()
        && recording::is_recording(path)
    {
        let path = path.clone();
        let Replaying { feed, speed } = play(path, args, speed, emit, tui.is_some())?;
        return match interrupt {
            None => {
                let tui = tui.unwrap_or_default();
                let speed = tui.speed.map(|_| speed);
                output::watch(feed, tui::Options { report, speed, notes, ..tui }, color)
            }
            Some(interrupt) => output::print(&feed, format(output, color), &sink, &report, &interrupt),
        };
    }
    let options = replay::Options {
        files: args.files,
        taps: args.tap,
        speed,
        from: args.from,
        to: args.to,
        duration: args.view.common.duration,
        filter: args.view.common.filter,
        idle: args.view.common.idle,
        max_flows: args.view.common.max_flows.unwrap_or(replay::MAX_FLOWS),
        metrics: crate::metrics::Options {
            reorder_window: args.reorder_window,
            bin_ns: nanos(args.bin),
            link_mbps: args.link_speed,
            messages: output == Output::Trace,
        },
        emit,
        events: output.needs_events(),
    };
    let feed = if tui.is_some() {
        confine::reading(|| background::behind(|| replay::start(options)))?
    } else {
        // From some thousands of flows on, the allocations that grow with their number are at least this large.
        memory::give_back(1 << 20);
        replay::start(options)?
    };
    match interrupt {
        None => output::watch(feed, tui::Options { report, notes, ..tui.unwrap_or_default() }, color),
        Some(interrupt) => output::print(&feed, format(output, color), &sink, &report, &interrupt),
    }
}

#[cfg(not(feature = "live"))]
const NO_KERNEL_SIDE: &str = "this build has no kernel programs: build with `cargo xtask build`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_command_a_terminal_are_repeated_without_that() {
        for argument in ["--\x1b]0;owned\x07\x1b[2Jx", "--\x1b[31mred\x1b[0m", "--\u{202e}x"] {
            let line: Vec<OsString> = ["rocescope", "replay", argument].map(OsString::from).into();
            let odd = line.iter().any(is_odd);
            let text = in_plain(&Args::read(line).unwrap_err(), odd).unwrap();
            assert!(text.contains("unexpected argument"), "{text}");
            assert!(text.lines().all(|line| plain(line) == line), "{text:?}");
        }
        let usual = ["rocescope", "replay", "--spede"].map(OsString::from);
        assert!(!usual.iter().any(is_odd) && in_plain(&Args::read(usual).unwrap_err(), false).is_none());
    }

    #[test]
    fn the_name_of_a_file_decides_its_format() {
        for (name, format) in [
            ("report.html", Output::Html),
            ("r.json", Output::Json),
            ("r.jsonl", Output::Jsonl),
            ("flows.csv", Output::Csv),
            ("report.txt", Output::Text),
            ("report", Output::Text),
        ] {
            assert_eq!(of_name(Path::new(name)), format, "{name}");
        }
    }
}
