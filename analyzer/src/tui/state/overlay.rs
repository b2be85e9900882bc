//! Boxes over the screen.

use super::log::EntryAt;

/// State of an opened event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedEvent {
    /// The number of its entry in the list.
    pub entry: u64,
    /// Number of the event.
    pub event: u64,
    /// The first line shown.
    pub top: usize,
}

impl OpenedEvent {
    /// The latest event of an entry.
    pub(in crate::tui) const fn latest(listed: EntryAt<'_>) -> Self {
        Self { entry: listed.entry.number, event: listed.state.number, top: 0 }
    }
}

/// A box over the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlay {
    /// None.
    #[default]
    None,
    /// The help from this line on.
    Help(usize),
    /// The choice of columns, this one selected.
    Columns(usize),
    /// The headers of an event.
    Packet(OpenedEvent),
}
