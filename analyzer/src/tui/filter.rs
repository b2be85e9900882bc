//! The text filter: words that must all be found, without regard to case.

use std::fmt::Write as _;

use super::{column, log};
use crate::model::{Kind, Model, Row};
use crate::sample::address;

/// A filter ready for use.
#[derive(Clone, Debug)]
pub(super) struct Matcher {
    words: Vec<String>,
}

impl Matcher {
    /// The filter of this text; no words match everything.
    #[must_use]
    pub(super) fn new(text: &str) -> Self {
        Self { words: text.split_whitespace().map(str::to_lowercase).collect() }
    }

    /// Whether a row is shown: addresses, `qp` and its number, link, state.
    #[must_use]
    pub(super) fn row(&self, row: &Row, model: &Model) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let key = &row.id.key;
        let mut text = String::with_capacity(96);
        // Writing to a string cannot fail.
        let _ = write!(text, "{} {} ", address(key.family, key.src), address(key.family, key.dst));
        let _ = write!(text, "qp{} {} {} ", key.dest_qp, column::link(row, model), column::state(row).0);
        for kind in Kind::ALL.iter().filter(|kind| kind.is_in(&row.total)) {
            text.push_str(kind.word());
            text.push(' ');
        }
        self.all_in(&text)
    }

    /// Whether an event is shown: its word, flow and text.
    #[must_use]
    pub(super) fn event(&self, entry: &log::Entry) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let key = &entry.key;
        let (src, dst) = (address(key.family, key.src), address(key.family, key.dst));
        self.all_in(&format!("{} {src} {dst} qp{} {}", entry.class.word, key.dest_qp, entry.text))
    }

    fn all_in(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.words.iter().all(|word| text.contains(word.as_str()))
    }
}
