//! Runs a feed to its end and prints reports.

use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::analysis;
use crate::report::{self, Report, json, text};
use crate::sample::Sample;
use crate::source::feed::{Command, Feed, Update};
pub use crate::util::notice::say;
use crate::util::style::{Color, Paint};

/// Format of printed reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people, at the end.
    Text(Color),
    /// One JSON document.
    Json,
    /// One JSON document per line and interval.
    JsonLines,
}

/// Set by SIGINT and SIGTERM.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches SIGINT and SIGTERM from now on. The first asks for an orderly end, a second one
    /// ends the process at once.
    ///
    /// # Errors
    /// Fails if the system refuses.
    pub fn catch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order the second signal finds the flag set, the first does not.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&flag))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
                .context("cannot catch signals")?;
        }
        Ok(Self(flag))
    }

    /// True if a signal arrived.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Longest time between two checks for signals.
const LOOK: Duration = Duration::from_millis(50);
/// An end that takes longer than this after a signal is explained: a large report takes seconds.
const PATIENCE: Duration = Duration::from_millis(500);

/// Prints the reports of `feed` to standard output in `format`, and its notices to standard error.
/// Returns at its end, after an interrupt, or when the reader of the output is gone. `limit`
/// ends the run by the clock, as `interrupt` does.
///
/// # Errors
/// The source's, and a failure to write the output.
pub fn print(
    feed: &Feed,
    format: Format,
    options: &report::Options,
    interrupt: &Interrupt,
    limit: Option<Duration>,
) -> Result<()> {
    let (done, watched) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // Without a thread the end is not explained.
        let watch = move || explain_slow_end(interrupt, &watched);
        let _watching = std::thread::Builder::new().spawn_scoped(scope, watch);
        let printed = print_all(feed, format, options, interrupt, limit);
        drop(done);
        printed
    })
}

/// Says what goes on where the end that a signal asked for takes its time. Returns when `watched` is closed.
fn explain_slow_end(interrupt: &Interrupt, watched: &Receiver<()>) {
    let mut wait = LOOK;
    while watched.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        if interrupt.is_set() && wait == PATIENCE {
            say("stopping: the report is made and written; a second signal ends at once, without it");
            // Until the end.
            let _ = watched.recv();
        } else if interrupt.is_set() {
            wait = PATIENCE;
        }
    }
}

fn print_all(
    feed: &Feed,
    format: Format,
    options: &report::Options,
    interrupt: &Interrupt,
    limit: Option<Duration>,
) -> Result<()> {
    let start = Instant::now();
    // Standard output by itself would write every line of a long report alone.
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut latest: Option<Box<Sample>> = None;
    let mut stopping = false;
    let ended = loop {
        let over = limit.is_some_and(|limit| start.elapsed() >= limit);
        if (over || interrupt.is_set()) && !stopping {
            stopping = true;
            // A source that is gone has ended, as the next update shows.
            let _ = feed.commands.send(Command::Stop);
        }
        match feed.updates.recv_timeout(LOOK) {
            Ok(Update::Sample(sample)) => {
                if format == Format::JsonLines
                    && !written(
                        json::write_line(&Report::build(&sample, options), &mut out)
                            .and_then(|()| out.flush()),
                    )?
                {
                    let _ = feed.commands.send(Command::Stop);
                    return Ok(());
                }
                latest = Some(sample);
            }
            Ok(Update::Notice(notice)) => say(&notice),
            Ok(Update::Ended(result)) => break result,
            // A report has counters, no log.
            Ok(Update::Events(_) | Update::Restarted) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                break Err(anyhow!("bug: source thread ended unexpectedly"));
            }
        }
    };
    if let Some(sample) = latest {
        for (option, names) in [
            ("--group", options.analysis.groups.iter().flatten().collect::<Vec<_>>()),
            ("--rail", options.analysis.rails.iter().map(|(link, _)| link).collect()),
        ] {
            for name in analysis::unknown_names(&sample, names) {
                let links: Vec<&str> = sample.links.iter().map(|link| link.name.as_str()).collect();
                say(&format!("{option}: unknown link '{name}'; the links are {}", links.join(", ")));
            }
        }
        let printed = match format {
            Format::Text(color) => {
                let report = Report::of_last(*sample, options);
                out.write_all(text::painted(&report, width(), Paint::of_stdout(color)).as_bytes())
            }
            Format::Json => json::write(&Report::of_last(*sample, options), &mut out),
            Format::JsonLines => Ok(()),
        };
        written(printed.and_then(|()| out.flush()))?;
    }
    ended
}

/// False when the reader is gone, which is no failure.
fn written(result: io::Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write the report to standard output"),
    }
}

/// Columns of the terminal, or of a page where there is none.
#[must_use]
pub fn width() -> usize {
    const PAGE: usize = 120;
    if !io::stdout().is_terminal() {
        return PAGE;
    }
    crossterm::terminal::size().map_or(PAGE, |(columns, _)| usize::from(columns))
}

/// A text to standard output. A reader that goes away is no failure.
///
/// # Errors
/// Fails if it cannot be written.
pub fn page(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
