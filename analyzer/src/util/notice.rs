//! Notices to the user, apart from the output.

use std::io::{self, Write as _};
use std::sync::Mutex;

use super::layout::plain;
use super::limit;

use crate::util::lock::Locked;

/// The line of progress at the end of standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Absent,
    Shown,
    /// A report follows, which it must not be mixed with.
    Ended,
}

static LINE: Mutex<Line> = Mutex::new(Line::Absent);
/// To the beginning of the line, and clears it.
const CLEAR: &str = "\r\x1b[K";

/// Shows how far something is, on a terminal, in a line that the next one replaces.
pub fn progress(text: &str) {
    let mut line = LINE.locked();
    if *line != Line::Ended {
        *line = Line::Shown;
        let _ = write!(io::stderr(), "{CLEAR}{}", plain(text));
    }
}

/// Removes the line of progress for good.
pub fn end_progress() {
    replace(Line::Ended);
}

/// Removes the line of progress until the next one.
pub fn clear_progress() {
    replace(Line::Absent);
}

fn replace(by: Line) {
    let mut line = LINE.locked();
    if *line == Line::Shown {
        let _ = write!(io::stderr(), "{CLEAR}");
    }
    if *line != Line::Ended {
        *line = by;
    }
}

/// A sentence to standard error. Names from outside (files, interfaces, arguments, text in files) cannot command
/// the terminal, nor begin a line of their own. Numbers of errors are left out: their text is there.
pub fn say(sentence: &str) {
    let mut line = LINE.locked();
    let clear = if *line == Line::Shown { CLEAR } else { "" };
    if *line == Line::Shown {
        *line = Line::Absent;
    }
    // Without a reader there is nothing to report.
    let _ = writeln!(io::stderr(), "{clear}rocescope: {}", lines(sentence));
}

/// Lines as they may be shown; those after the first are indented.
pub(crate) fn lines(text: &str) -> String {
    limit::words(text).lines().map(plain).collect::<Vec<_>>().join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_message_commands_the_terminal() {
        assert_eq!(
            lines("é.pcap: \u{1b}[2Jx\u{9b}31m\u{7}\ty"),
            "é.pcap: \u{fffd}[2Jx\u{fffd}31m\u{fffd}\u{fffd}y"
        );
        assert_eq!(lines("a\u{202e}b\u{2066}c\u{200f}d\u{2028}e"), "a\u{fffd}b\u{fffd}c\u{fffd}d\u{fffd}e");
        assert_eq!(
            lines("cannot send: refused (os error 111); trying again"),
            "cannot send: refused; trying again"
        );
        assert_eq!(lines("bad\nrocescope: fine\r\n"), "bad\n  rocescope: fine");
    }
}
