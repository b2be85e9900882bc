//! Where a sample becomes what the user reads: the one place that calls the views.

use std::io::{self, IsTerminal as _, Write};

use anyhow::Result;

use crate::feed::Feed;
use crate::report::{self, Report};
use crate::sample::Sample;
use crate::tui;

/// Prints a report once: `text`.
///
/// # Errors
/// When it cannot be written.
pub fn text(sample: &Sample, options: &report::Options, out: &mut impl Write) -> io::Result<()> {
    out.write_all(report::text::text(&Report::build(sample, options), width()).as_bytes())
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

/// Prints a report once: `json`.
///
/// # Errors
/// When it cannot be written.
pub fn json(sample: &Sample, options: &report::Options, out: &mut impl Write) -> io::Result<()> {
    report::json::write(&Report::build(sample, options), out)
}

/// Prints a report as one line: `jsonl`.
///
/// # Errors
/// When it cannot be written.
pub fn json_line(sample: &Sample, options: &report::Options, out: &mut impl Write) -> io::Result<()> {
    report::json::write_line(&Report::build(sample, options), out)
}

/// Shows a feed in the terminal until the user leaves.
///
/// # Errors
/// The source's, and when the terminal cannot be used.
pub fn tui(feed: Feed, options: tui::Options) -> Result<()> {
    tui::run(feed, options)
}
