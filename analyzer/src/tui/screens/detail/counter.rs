//! A counter of one direction: in the time range, and since the start.

use crate::model::signals::About;
use crate::model::{Counts, Level, Row};
use crate::tui::column::compact;

/// The level of a counter: that of the active findings about it that name the flow.
pub(super) fn level(about: About, row: Option<&Row>) -> Level {
    row.map_or(Level::Fine, |row| row.judged.level_of(about))
}

/// A counter in the time range and since the start.
#[derive(Clone, Copy)]
pub(super) struct Counter {
    /// `None` where the time range is unknown, or the counter has no part of its own in it.
    pub(super) now: Option<u64>,
    pub(super) total: u64,
}

impl Counter {
    pub(super) fn of(delta: Option<&Counts>, total: &Counts, count: impl Fn(&Counts) -> u64) -> Self {
        Self { now: delta.map(&count), total: count(total) }
    }

    /// The level of one that grew; what is past has none.
    pub(super) fn level(self, about: About, row: Option<&Row>) -> Level {
        if self.now.is_none_or(|now| now > 0) { level(about, row) } else { Level::Fine }
    }

    /// As in the rest of the screen the time range comes first; behind it the total, unless it is the same.
    pub(super) fn text(self, what: impl Fn(u64) -> String) -> String {
        match self.now {
            Some(now) if now == self.total => what(now),
            Some(now) => format!("{} · {} total", what(now), compact(self.total as f64)),
            None => format!("{} total", what(self.total)),
        }
    }
}

/// The counters of a row in the time range.
pub(super) fn grown(row: Option<&Row>) -> Option<Counts> {
    row.and_then(|row| row.delta).map(|delta| delta.counts)
}

#[cfg(test)]
mod tests {
    use super::Counter;

    #[test]
    fn the_time_range_comes_first_and_a_total_only_where_it_differs() {
        let text = |now, total| Counter { now, total }.text(|n| format!("{n} lost"));
        assert_eq!(text(Some(3), 40), "3 lost · 40 total");
        assert_eq!(text(Some(0), 2_000), "0 lost · 2.00k total");
        assert_eq!(text(Some(40), 40), "40 lost");
        assert_eq!(text(None, 40), "40 lost total");
    }
}
