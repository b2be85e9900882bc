//! What the state shows, as numbers: for the panels, and for the lists' cursors.

use super::app::App;
use super::table::Group;
use super::{column, log, panel};
use crate::report::Entropy;

/// Moments back from the one shown in which a figure that takes longer is looked for.
const NEAR: usize = 30;

impl App {
    /// The time of what is shown: that of the figures, or of an event that came after them. `None` before anything.
    #[must_use]
    pub fn clock_ns(&self) -> Option<u64> {
        let figures = self.data.as_ref().map(|data| data.model.time_ns).filter(|time| *time > 0)?;
        let event = self.log.latest().next().map(|entry| entry.time_ns);
        let moves = self.shown_ns.is_none() && !self.paused;
        Some(event.filter(|_| moves).map_or(figures, |event| event.max(figures)))
    }

    /// Number of queue pairs.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.model.rows.len())
    }

    /// How bytes spread over 5-tuples in the span, at the moment shown or shortly before.
    #[must_use]
    pub fn entropy(&self) -> Option<Entropy> {
        let at = self.moment()?;
        self.history.entropy(at, NEAR)
    }

    /// Number of findings.
    #[must_use]
    pub fn finding_count(&self) -> usize {
        self.analysis.as_ref().map_or(0, |analysis| analysis.report.findings.len())
    }

    /// Number of events that the filter lets through.
    #[must_use]
    pub fn event_count(&self) -> usize {
        self.shown_events().count()
    }

    /// Events that the filter lets through and that had happened at the moment shown, the latest first.
    pub fn shown_events(&self) -> impl Iterator<Item = &log::Entry> {
        let until = self.shown_ns.unwrap_or(u64::MAX);
        self.log.latest().filter(move |entry| entry.first_ns <= until && self.query.event(entry))
    }

    /// Queue pairs that the table shows, and all there are: rows, or in groups each of them once.
    #[must_use]
    pub fn chosen_queue_pairs(&self) -> (usize, usize) {
        let grouped = self.table.sums.iter().map(|sum| sum.flows).sum();
        match self.table.group {
            Group::None => (self.table.order.len(), self.row_count()),
            Group::Link => (grouped, self.row_count()),
            Group::Hosts | Group::Process => (grouped, self.data.as_ref().map_or(0, |d| d.once.flows)),
        }
    }

    /// The columns that the table has now: those of queue pairs, or of groups.
    #[must_use]
    pub fn visible_columns(&self) -> Vec<column::Fitted> {
        match self.table.group {
            Group::None => self.columns(),
            _ => panel::flows::Groups::new(self.layout().table(self.screen)).columns,
        }
    }

    /// Title of the column that rows are sorted by.
    #[must_use]
    pub fn sorted_by(&self) -> &'static str {
        column::column(self.table.sort.by).title
    }
}
