//! The report as JSON. Floats have as many digits as it takes to read the same number back.

use std::io::{self, Write};

use crate::report::Report;

/// Writes the report over several lines, indented by two spaces, with a line end (`--output json`).
///
/// # Errors
/// What writing to `out` gave.
pub fn write(report: &Report, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(Escaping::new(&mut *out), report)?;
    out.write_all(b"\n")
}

/// Writes the report on one line with a line end (`--output jsonl`).
///
/// # Errors
/// What writing to `out` gave.
pub fn write_line(report: &Report, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(Escaping::new(&mut *out), report)?;
    out.write_all(b"\n")
}

/// Escapes DEL and the control characters above it (U+0080 to U+009F), which JSON may have as they are and some terminals
/// obey. In a JSON text they stand in strings only.
struct Escaping<'a, W> {
    out: &'a mut W,
    /// The first byte of such a character was at the end of what was written before.
    begun: bool,
}

impl<'a, W: Write> Escaping<'a, W> {
    fn new(out: &'a mut W) -> Self {
        Self { out, begun: false }
    }
}

impl<W: Write> Write for Escaping<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const FIRST: u8 = 0xC2;
        let mut rest = bytes;
        if std::mem::take(&mut self.begun)
            && let Some((second, after)) = rest.split_first()
        {
            if (0x80..0xA0).contains(second) {
                write!(self.out, "\\u00{second:02x}")?;
                rest = after;
            } else {
                self.out.write_all(&[FIRST])?;
            }
        }
        while let Some(at) = rest.iter().position(|byte| matches!(*byte, 0x7F | FIRST)) {
            let (plain, found) = rest.split_at(at);
            self.out.write_all(plain)?;
            rest = match found {
                [0x7F, after @ ..] => {
                    self.out.write_all(b"\\u007f")?;
                    after
                }
                [_, second @ 0x80..0xA0, after @ ..] => {
                    write!(self.out, "\\u00{second:02x}")?;
                    after
                }
                [first, after @ ..] if !after.is_empty() => {
                    self.out.write_all(&[*first])?;
                    after
                }
                _ => {
                    self.begun = true;
                    &[]
                }
            };
        }
        self.out.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_any_kind_are_escaped_and_nothing_else() {
        const TEXT: &str = "\"a\u{9b}2J \u{7f}\u{80}\u{9f}\u{a0}\u{e9}\u{c2}é \u{65e5}\u{1f600}\"";
        let wanted: String = serde_json::from_str(TEXT).unwrap();
        for part in 1..TEXT.len() {
            let mut out = Vec::new();
            let mut escaping = Escaping::new(&mut out);
            for bytes in TEXT.as_bytes().chunks(part) {
                escaping.write_all(bytes).unwrap();
            }
            let text = String::from_utf8(out).unwrap();
            assert!(!text.contains(char::is_control), "{text:?}");
            assert_eq!(serde_json::from_str::<String>(&text).unwrap(), wanted, "in parts of {part}");
        }
    }
}
