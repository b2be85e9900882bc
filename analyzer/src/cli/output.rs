//! Runs a feed to its end and prints reports.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::analysis::{self, Overlap};
use crate::model::{History, OverTime};
use crate::report::{self, Report, json, text};
use crate::sample::Sample;
use crate::share::{csv, html, trace};
use crate::source::feed::{Command, Feed, Update};
use crate::util::notice::end_progress;
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
    /// One HTML page, at the end.
    Html,
    /// A trace, at the end.
    Trace,
    /// The flows as CSV, at the end.
    Csv,
}

/// Where a report goes.
#[derive(Debug)]
pub struct Sink {
    file: Option<(PathBuf, File)>,
}

impl Sink {
    /// Standard output.
    #[must_use]
    pub const fn stdout() -> Self {
        Self { file: None }
    }

    /// A file, which is emptied.
    ///
    /// # Errors
    /// Fails if it cannot be created.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("--out: cannot create {}", path.display()))?;
        Ok(Self { file: Some((path.to_owned(), file)) })
    }

    /// Its name in messages.
    fn name(&self) -> String {
        self.file
            .as_ref()
            .map_or_else(|| "standard output".to_owned(), |(path, _)| path.display().to_string())
    }

    /// Buffered: standard output by itself would write every line of a long report alone.
    fn writer(&self) -> Box<dyn Write + '_> {
        const BUFFER: usize = 1 << 16;
        match &self.file {
            None => Box::new(BufWriter::with_capacity(BUFFER, io::stdout().lock())),
            Some((_, file)) => Box::new(BufWriter::with_capacity(BUFFER, file)),
        }
    }

    /// Colours of text, and its width: a file is read anywhere.
    fn paint(&self, color: Color) -> (Paint, usize) {
        match self.file {
            None => (Paint::of_stdout(color), width()),
            Some(_) => (Paint::PLAIN, PAGE),
        }
    }
}

/// What some formats need of the time before the end.
#[derive(Default)]
struct Followed {
    history: History,
    events: trace::Events,
}

impl Followed {
    /// The report of the last sample in a format. HTML and traces take from the sample what the report does not have.
    fn write(
        mut self,
        format: Format,
        sink: &Sink,
        sample: Sample,
        options: &report::Options,
        mut out: &mut dyn Write,
    ) -> io::Result<()> {
        match format {
            Format::Text(color) => {
                let (paint, width) = sink.paint(color);
                let report = Report::of_last(sample, options);
                out.write_all(text::painted(&report, width, paint).as_bytes())
            }
            Format::Json => json::write_last(sample, options, &mut out),
            Format::JsonLines => Ok(()),
            Format::Csv => csv::write(&Report::of_last(sample, options), &mut out),
            Format::Html => {
                self.history.push(&sample, true);
                let over_time = OverTime::new(&self.history, &sample, &Overlap::of(&sample));
                drop(self.history);
                let distribution = html::Distribution::of(&sample);
                let report = Report::of_last(sample, options);
                html::write(&report, Some(&over_time), Some(&distribution), &mut out)
            }
            Format::Trace => {
                let timeline = sample.metrics.timeline.clone().unwrap_or_default();
                let messages = sample.metrics.messages.clone();
                let report = Report::of_last(sample, options);
                trace::write(&report, &timeline, &self.events, messages.as_deref(), &mut out)
            }
        }
    }
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

/// Writes the reports of `feed` to `sink` in `format`, and its notices to standard error.
/// Returns at its end, after an interrupt, or when the reader of the output is gone.
///
/// # Errors
/// The source's, and a failure to write the output.
pub fn print(
    feed: &Feed,
    format: Format,
    sink: &Sink,
    options: &report::Options,
    interrupt: &Interrupt,
) -> Result<()> {
    let (done, watched) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // Without a thread the end is not explained.
        let watch = move || explain_slow_end(interrupt, &watched);
        let _watching = std::thread::Builder::new().spawn_scoped(scope, watch);
        let printed = print_all(feed, format, sink, options, interrupt);
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
    sink: &Sink,
    options: &report::Options,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut out = sink.writer();
    let mut followed = Followed::default();
    let mut latest: Option<Box<Sample>> = None;
    let mut stopping = false;
    let ended = loop {
        if interrupt.is_set() && !stopping {
            stopping = true;
            // A source that is gone has ended, as the next update shows.
            let _ = feed.commands.send(Command::Stop);
        }
        match feed.updates.recv_timeout(LOOK) {
            Ok(Update::Sample(sample)) => {
                if format == Format::JsonLines
                    && !written(
                        sink,
                        json::write_line(&Report::build(&sample, options), &mut out)
                            .and_then(|()| out.flush()),
                    )?
                {
                    let _ = feed.commands.send(Command::Stop);
                    return Ok(());
                }
                if format == Format::Html {
                    followed.history.push(&sample, false);
                }
                latest = Some(sample);
            }
            Ok(Update::Events(events)) if format == Format::Trace => followed.events.extend(&events),
            Ok(Update::Notice(notice)) => say(&notice),
            Ok(Update::Ended(result)) => break result,
            // A report has counters, no log.
            Ok(Update::Events(_) | Update::Restarted) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                break Err(anyhow!("bug: source thread ended unexpectedly"));
            }
        }
    };
    end_progress();
    if let Some(sample) = latest {
        say_unknown_names(&sample, options);
        let printed = followed.write(format, sink, *sample, options, &mut *out);
        written(sink, printed.and_then(|()| out.flush()))?;
    }
    ended
}

/// Options that name a link which there is not.
fn say_unknown_names(sample: &Sample, options: &report::Options) {
    for (option, names) in [
        ("--group", options.analysis.groups.iter().flatten().collect::<Vec<_>>()),
        ("--rail", options.analysis.rails.iter().map(|(link, _)| link).collect()),
    ] {
        for name in analysis::unknown_names(sample, names) {
            let links: Vec<&str> = sample.links.iter().map(|link| link.name.as_str()).collect();
            say(&format!("{option}: unknown link '{name}'; the links are {}", links.join(", ")));
        }
    }
}

/// False when the reader is gone, which is no failure.
fn written(sink: &Sink, result: io::Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot write the report to {}", sink.name())),
    }
}

/// Columns of a page.
const PAGE: usize = 120;

/// Columns of the terminal, or of a page where there is none.
#[must_use]
pub fn width() -> usize {
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
