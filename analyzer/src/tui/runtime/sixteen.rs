//! Output for terminals of 16 colours.
//!
//! The terminal library names each of the 16 colours by its number among 256 (`38;5;1`). A terminal that does not
//! know 256 takes the three numbers for three attributes, one of them blinking. Here the 16 become what every
//! terminal with colours knows (`31`, `91`), which is shorter too; other colours pass as they are.

use std::io::{self, Write};

/// Longest escape sequence that is looked at.
const LONGEST: usize = 64;

/// Passes output on, with colours renamed.
#[derive(Debug)]
pub(in crate::tui) struct Sixteen<W> {
    to: W,
    /// What may become an escape sequence of colours.
    escape: Vec<u8>,
    /// Output that waits to be flushed.
    out: Vec<u8>,
}

impl<W: Write> Sixteen<W> {
    pub(in crate::tui) const fn new(to: W) -> Self {
        Self { to, escape: Vec::new(), out: Vec::new() }
    }

    fn byte(&mut self, byte: u8) {
        match (self.escape.as_slice(), byte) {
            ([], 0x1B) | ([0x1B], b'[') | ([0x1B, b'[', ..], b'0'..=b'9' | b';')
                if self.escape.len() < LONGEST =>
            {
                self.escape.push(byte);
            }
            ([0x1B, b'[', parameters @ ..], b'm') => {
                let renamed = renamed(&String::from_utf8_lossy(parameters));
                self.out.extend(b"\x1B[");
                self.out.extend(renamed.as_bytes());
                self.out.push(b'm');
                self.escape.clear();
            }
            _ => {
                self.out.append(&mut self.escape);
                if byte == 0x1B {
                    self.escape.push(byte);
                } else {
                    self.out.push(byte);
                }
            }
        }
    }
}

/// Parameters of a selection of attributes, with the short names of the 16 colours.
fn renamed(parameters: &str) -> String {
    let mut numbers = parameters.split(';');
    let mut renamed: Vec<String> = Vec::new();
    while let Some(number) = numbers.next() {
        let mut after = numbers.clone();
        let color = match (number, after.next(), after.next().map(str::parse::<u16>)) {
            ("38", Some("5"), Some(Ok(color @ 0..=7))) => Some(30 + color),
            ("38", Some("5"), Some(Ok(color @ 8..=15))) => Some(82 + color),
            ("48", Some("5"), Some(Ok(color @ 0..=7))) => Some(40 + color),
            ("48", Some("5"), Some(Ok(color @ 8..=15))) => Some(92 + color),
            // The numbers of another colour are none of the attributes.
            ("38" | "48", ..) => {
                renamed.push(number.to_owned());
                renamed.extend(numbers.map(str::to_owned));
                break;
            }
            _ => None,
        };
        if let Some(color) = color {
            renamed.push(color.to_string());
            numbers = after;
        } else {
            renamed.push(number.to_owned());
        }
    }
    renamed.join(";")
}

impl<W: Write> Write for Sixteen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.byte(*byte);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.append(&mut self.escape);
        let written = self.to.write_all(&self.out);
        self.out.clear();
        written?;
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(parts: &[&str]) -> String {
        let mut out = Sixteen::new(Vec::new());
        for part in parts {
            out.write_all(part.as_bytes()).unwrap();
        }
        out.flush().unwrap();
        String::from_utf8(out.to).unwrap()
    }

    #[test]
    fn the_16_colours_get_names_that_every_terminal_knows() {
        for (given, wanted) in [
            ("\u{1b}[38;5;6m█", "\u{1b}[36m█"),
            ("\u{1b}[38;5;15;48;5;1mx", "\u{1b}[97;41mx"),
            ("\u{1b}[48;5;11m", "\u{1b}[103m"),
            ("\u{1b}[1;38;5;0;4m", "\u{1b}[1;30;4m"),
            ("\u{1b}[m\u{1b}[0m", "\u{1b}[m\u{1b}[0m"),
        ] {
            assert_eq!(through(&[given]), wanted);
            // However it is cut.
            let bytes: Vec<String> = given.chars().map(String::from).collect();
            assert_eq!(through(&bytes.iter().map(String::as_str).collect::<Vec<_>>()), wanted);
        }
    }

    #[test]
    fn everything_else_passes_as_it_is() {
        for text in [
            "plain, ▁▂▃ and · µ",
            "\u{1b}[38;5;208mx\u{1b}[48;2;255;135;0m\u{1b}[38;5;16m",
            "\u{1b}[12;40H\u{1b}[2J\u{1b}[?25l\u{1b}[?1049h",
            "\u{1b}\u{1b}[31m\u{1b}]0;title\u{7}",
            "\u{1b}[38;5m\u{1b}[38m\u{1b}[",
        ] {
            assert_eq!(through(&[text]), text);
        }
        let long = format!("\u{1b}[{}m", "1;".repeat(100));
        assert_eq!(through(&[&long]), long);
    }
}
