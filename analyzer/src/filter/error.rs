//! The error of a filter: its position, cause and remedy.

use std::fmt;

/// The error of a filter expression. Displayed, the expression stands below the sentence, with a mark under the part
/// that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// Text of the filter expression.
    pub(super) text: String,
    /// First byte of the part that is wrong.
    pub(super) at: usize,
    /// The byte after it.
    pub(super) end: usize,
    /// Cause of the error, for the user.
    pub(super) cause: String,
    /// The remedy; may be empty.
    pub(super) remedy: String,
}

impl FilterError {
    /// The number of the character at which the mistake begins, from 1.
    pub fn column(&self) -> usize {
        1 + self.text.get(..self.at).map_or(0, |text| text.chars().count())
    }

    /// The expression before the part that is wrong, that part, and what follows.
    pub fn parts(&self) -> Option<[&str; 3]> {
        let Self { text, at, end, .. } = self;
        Some([text.get(..*at)?, text.get(*at..*end)?, text.get(*end..)?])
    }

    /// Cause, position and remedy in one line.
    pub fn one_line(&self) -> String {
        let Self { cause, remedy, .. } = self;
        let separator = if remedy.is_empty() { "" } else { "; " };
        format!("{cause} at column {}{separator}{remedy}", self.column())
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marks = self.text.get(self.at..self.end).map_or(1, |text| text.chars().count().max(1));
        let indent = " ".repeat(self.column() - 1);
        write!(f, "{}\n  {}\n  {indent}{}", self.one_line(), self.text, "^".repeat(marks))
    }
}

impl std::error::Error for FilterError {}
