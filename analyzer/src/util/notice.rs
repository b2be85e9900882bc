//! Notices to the user, apart from the output.

use std::io::{self, Write as _};

use super::layout::plain;

/// A sentence to standard error. What others named (files, interfaces, arguments, text in files) cannot command the
/// terminal, nor begin a line of its own.
pub fn say(sentence: &str) {
    // Without a reader there is nothing to report.
    let _ = writeln!(io::stderr(), "rocescope: {}", lines(sentence));
}

/// Lines as they may be shown; those after the first are indented.
pub(crate) fn lines(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("\n  ")
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
        assert_eq!(lines("bad\nrocescope: fine\r\n"), "bad\n  rocescope: fine");
    }
}
