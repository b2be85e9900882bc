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
use crate::tui;
use crate::util::nearest::hint;
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

/// Destination of a report.
#[derive(Debug)]
pub struct Sink {
    file: Option<(PathBuf, File)>,
}

impl Sink {
    /// Standard output.
    pub const fn stdout() -> Self {
        Self { file: None }
    }

    /// A file, truncated.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("--out: cannot create {}", path.display()))?;
        Ok(Self { file: Some((path.to_owned(), file)) })
    }

    /// The destination's name in messages.
    fn name(&self) -> String {
        self.file
            .as_ref()
            .map_or_else(|| "standard output".to_owned(), |(path, _)| path.display().to_string())
    }

    /// Buffered: standard output alone flushes after every line.
    fn writer(&self) -> Box<dyn Write + '_> {
        const BUFFER: usize = 1 << 16;
        match &self.file {
            None => Box::new(BufWriter::with_capacity(BUFFER, io::stdout().lock())),
            Some((_, file)) => Box::new(BufWriter::with_capacity(BUFFER, file)),
        }
    }

    /// Colours and width of text. A file gets a fixed width, since its reader's terminal is unknown.
    fn paint(&self, color: Color) -> (Paint, usize) {
        match self.file {
            None => (Paint::of_stdout(color), width()),
            Some(_) => (Paint::PLAIN, PAGE),
        }
    }
}

/// Data from before the end of the run that some formats need.
#[derive(Default)]
struct RunData {
    history: History,
    events: trace::Events,
}

impl RunData {
    /// Writes the report of the last sample. HTML and traces also use data of the sample that the report lacks.
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

/// A flag that SIGINT and SIGTERM set.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches SIGINT and SIGTERM from now on. The first signal requests an orderly end, the second terminates the
    /// process at once.
    ///
    /// # Errors
    /// If the signal handlers cannot be installed.
    pub fn catch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The shutdown handler comes first: at the first signal it finds the flag unset, at the second it finds
            // it set.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&flag))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
                .context("cannot catch signals")?;
        }
        Ok(Self(flag))
    }

    /// True if a signal arrived.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Longest time between two checks for signals.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// The updates of a source, which a signal asks to stop.
pub(super) struct Updates<'a> {
    feed: &'a Feed,
    interrupt: &'a Interrupt,
    stopping: bool,
}

impl<'a> Updates<'a> {
    pub(super) const fn of(feed: &'a Feed, interrupt: &'a Interrupt) -> Self {
        Self { feed, interrupt, stopping: false }
    }

    /// Asks the source for its last sample and the end.
    fn stop(&mut self) {
        self.stopping = true;
        // If this fails, the source has ended, and the next update reports it.
        let _ = self.feed.commands.send(Command::Stop);
    }

    /// The next update; `None` if none arrives for a moment.
    pub(super) fn next(&mut self) -> Option<Update> {
        self.next_or_end(|| ())
    }

    /// The same; `end` is called once, when a signal has asked for the end.
    pub(super) fn next_or_end(&mut self, end: impl FnOnce()) -> Option<Update> {
        if self.interrupt.is_set() && !self.stopping {
            end();
            self.stop();
        }
        match self.feed.updates.recv_timeout(LOOK) {
            Ok(update) => Some(update),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Update::Ended(Err(anyhow!("bug: source thread ended unexpectedly"))))
            }
        }
    }
}
/// After a signal, an end that takes longer than this is explained: writing a large report takes seconds.
const PATIENCE: Duration = Duration::from_millis(500);

/// Writes the reports of `feed` to `sink` in `format`, and its notices to standard error. Returns at the end of the
/// feed, after an interrupt, or when the reader of the output has closed it.
///
/// # Errors
/// An error of the source, or a failure to write the output.
pub fn print(
    feed: &Feed,
    format: Format,
    sink: &Sink,
    options: &report::Options,
    interrupt: &Interrupt,
) -> Result<()> {
    let (done, watched) = mpsc::channel::<()>();
    let of_watch = interrupt.clone();
    // If the thread cannot be started, a slow end is not explained. Nobody waits for it: waking it on an idle processor
    // can take longer than reading a small file.
    let _watching = std::thread::Builder::new().spawn(move || explain_slow_end(&of_watch, &watched));
    let printed = print_all(feed, format, sink, options, interrupt);
    drop(done);
    printed
}

/// After an interrupt, reports what delays the end. Returns when `watched` is closed.
fn explain_slow_end(interrupt: &Interrupt, watched: &Receiver<()>) {
    let mut wait = LOOK;
    while watched.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        if interrupt.is_set() && wait == PATIENCE {
            say("stopping: the report is made and written; a second signal ends at once, without it");
            // Blocks until the end.
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
    let mut followed = RunData::default();
    let mut latest: Option<Box<Sample>> = None;
    let mut updates = Updates::of(feed, interrupt);
    let ended = loop {
        match updates.next() {
            Some(Update::Sample(sample)) => {
                if format == Format::JsonLines
                    && !written(
                        sink,
                        json::write_line(&Report::build(&sample, options), &mut out)
                            .and_then(|()| out.flush()),
                    )?
                {
                    updates.stop();
                    return Ok(());
                }
                if format == Format::Html {
                    followed.history.push(&sample, false);
                }
                latest = Some(sample);
            }
            Some(Update::Events(events)) if format == Format::Trace => followed.events.extend(&events),
            Some(Update::Notice(notice)) => say(&notice),
            Some(Update::Ended(result)) => break result,
            // Reports contain counters, not events.
            Some(Update::Events(_) | Update::Restarted) | None => {}
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

/// Warns about options that name an unknown link.
pub(super) fn say_unknown_names(sample: &Sample, options: &report::Options) {
    for (option, names) in [
        ("--group", options.analysis.groups.iter().flatten().collect::<Vec<_>>()),
        ("--rail", options.analysis.rails.iter().map(|(link, _)| link).collect()),
    ] {
        for name in analysis::unknown_names(sample, names) {
            let links: Vec<&str> = sample.links.iter().map(|link| link.name.as_str()).collect();
            let hint = hint(&name, links.iter().copied());
            say(&format!("{option}: unknown link '{name}'{hint}; the links are {}", links.join(", ")));
        }
    }
}

/// False if the reader has closed the output, which is no failure.
fn written(sink: &Sink, result: io::Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot write the report to {}", sink.name())),
    }
}

/// Default page width, in columns.
const PAGE: usize = 120;

/// Width of the terminal, or the default page width without a terminal.
pub fn width() -> usize {
    if !io::stdout().is_terminal() {
        return PAGE;
    }
    crossterm::terminal::size().map_or(PAGE, |(columns, _)| usize::from(columns))
}

/// Shows a feed in the terminal view. What the text report ends with stays in the terminal below the command.
///
/// # Errors
/// An error of the terminal or of the source.
pub fn watch(feed: Feed, options: tui::Options, color: Color) -> Result<()> {
    let tui::Closed { analysis, result } = tui::run(feed, options);
    if let Some(analysis) = analysis {
        let text = text::ending(&analysis.report, width(), Paint::of_stdout(color));
        // The terminal may be gone, and then nobody reads it.
        let _ = page(&text);
    }
    result
}

/// Prints a text to standard output. A closed pipe is no failure.
///
/// # Errors
/// If it cannot be written.
pub fn page(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
