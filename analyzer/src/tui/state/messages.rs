//! Sentences for the user.

use std::collections::VecDeque;

/// Notices kept.
const NOTICES: usize = 200;

/// Notices of the source, and the answer to the latest key.
#[derive(Debug, Default)]
pub struct Messages {
    /// Notices, the oldest first.
    pub notices: VecDeque<String>,
    /// True if the latest notice is still in the status line.
    pub unread: bool,
    /// The answer to the latest key, until the next.
    pub answer: Option<String>,
}

impl Messages {
    /// Notices that need no attention: they are listed, and do not take the status line.
    pub(in crate::tui) fn with(notices: &[String]) -> Self {
        Self { notices: notices.iter().cloned().collect(), ..Self::default() }
    }

    /// Shows an answer to a key.
    pub fn say(&mut self, answer: impl Into<String>) {
        self.answer = Some(answer.into());
    }

    /// Adds a notice; the oldest one leaves a full list.
    pub(in crate::tui) fn notice(&mut self, notice: String) {
        if self.notices.len() == NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
        self.unread = true;
    }

    /// The user pressed a key, and has read what was there.
    pub(in crate::tui) fn clear(&mut self) {
        self.unread = false;
        self.answer = None;
    }
}
