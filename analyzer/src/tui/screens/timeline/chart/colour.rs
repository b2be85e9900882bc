//! The colours of a signal over time.

use ratatui::style::Style;

use super::Picture;
use crate::findings::Finding;
use crate::model::signals::{Row, held};
use crate::tui::theme;

impl Picture<'_> {
    /// The colour of each column of a signal, by the findings about it at that time. What is counted together, a second
    /// or a column, has one colour, although a finding begins and ends within it. What has ended draws no eye from what
    /// has not.
    pub(super) fn bars(&self, row: &Row, columns: usize) -> Vec<Style> {
        let bucket_ns = self.data.over_time.bucket_ns(self.grid.column_ns);
        let nothing_active = !self.findings.iter().any(|finding| finding.active && finding.is_problem());
        let bar = |at: usize| {
            let from_ns = self.grid.start(at).saturating_sub(bucket_ns);
            let to_ns = self.grid.start(at + 1).saturating_add(bucket_ns);
            let counts = |finding: &Finding| finding.active || nothing_active;
            theme::bar(self.level(row.about, |finding| counts(finding) && held(finding, from_ns, to_ns)))
        };
        (0..columns).map(bar).collect()
    }
}
