//! Colours of text that commands print.

use std::io;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// Value of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// In a terminal, unless NO_COLOR is set; elsewhere with CLICOLOR_FORCE.
    #[default]
    Auto,
    /// In colour, whatever the output is.
    Always,
    /// Without colour.
    Never,
}

/// Purpose of a text, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A heading.
    Heading,
    /// Less important than its surroundings: identifiers, rules, explanations.
    Dim,
    /// A command to run.
    Command,
    /// In order, or better than before.
    Good,
    /// Costs performance, or worse than before.
    Warning,
    /// Stops traffic.
    Critical,
}

impl Role {
    const fn style(self) -> Style {
        let plain = Style::new();
        match self {
            Self::Heading => plain.bold(),
            Self::Dim => plain.dimmed(),
            Self::Command => AnsiColor::Cyan.on_default(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Warning => AnsiColor::Yellow.on_default().bold(),
            Self::Critical => AnsiColor::Red.on_default().bold(),
        }
    }
}

/// Writes texts in colour, or leaves them as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// Without colour: no escape sequence is ever written.
    pub const PLAIN: Self = Self { on: false };
    /// With colour, whatever reads it.
    pub const COLORED: Self = Self { on: true };

    /// As standard output takes it: NO_COLOR, CLICOLOR and CLICOLOR_FORCE decide where `--color` does not.
    pub fn of_stdout(color: Color) -> Self {
        let on = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => AutoStream::choice(&io::stdout()) != ColorChoice::Never,
        };
        Self { on }
    }

    /// `text` in the colour of `role`. Lay it out first: escape sequences count as columns to anything that measures.
    pub fn paint(self, role: Role, text: &str) -> String {
        if !self.on || text.is_empty() {
            return text.to_owned();
        }
        let style = role.style();
        format!("{style}{text}{style:#}")
    }

    /// `line` with its first `characters` characters, or all of a shorter one, in the colour of `role`.
    pub fn head(self, role: Role, line: &str, characters: usize) -> String {
        let at = line.char_indices().nth(characters).map_or(line.len(), |(at, _)| at);
        let (head, rest) = line.split_at(at);
        let text = head.trim_end();
        format!("{}{}{rest}", self.paint(role, text), &head[text.len()..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_has_no_escape_sequence() {
        assert_eq!(Paint::PLAIN.paint(Role::Critical, "loss"), "loss");
        assert_eq!(Paint::COLORED.paint(Role::Critical, "loss"), "\u{1b}[1m\u{1b}[31mloss\u{1b}[0m");
        assert_eq!(Paint::COLORED.paint(Role::Dim, ""), "");
        assert_eq!(Paint::of_stdout(Color::Always), Paint::COLORED);
        assert_eq!(Paint::of_stdout(Color::Never), Paint::PLAIN);
    }

    #[test]
    fn the_head_of_a_line_is_painted_without_its_spaces() {
        assert_eq!(Paint::COLORED.head(Role::Good, "ok  → b", 4), "\u{1b}[32mok\u{1b}[0m  → b");
        assert_eq!(Paint::COLORED.head(Role::Good, "ok", 4), "\u{1b}[32mok\u{1b}[0m");
        assert_eq!(Paint::PLAIN.head(Role::Good, "ok  b", 4), "ok  b");
    }
}
