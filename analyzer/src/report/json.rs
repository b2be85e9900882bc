//! The report as JSON. Floats have as many digits as it takes to read the same number back.

use std::io::{self, Write};

use crate::report::Report;

/// Writes the report over several lines, indented by two spaces, with a line end (`--output json`).
///
/// # Errors
/// What writing to `out` gave.
pub fn write(report: &Report, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    out.write_all(b"\n")
}

/// Writes the report on one line with a line end (`--output jsonl`).
///
/// # Errors
/// What writing to `out` gave.
pub fn write_line(report: &Report, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, report)?;
    out.write_all(b"\n")
}
