//! What the state shows, as numbers: for the panels, and for the lists' cursors.

use super::app::App;
use super::table::{Group, Sum};
use crate::analysis::Entropy;
use crate::findings::{Finding, Severity, Verdict};
use crate::model::Kind;
use crate::tui::{column, log, screens};

/// Moments back from the one shown in which a figure that takes longer is looked for.
const NEAR: usize = 30;

/// Findings since the start, as they stood at the snapshot shown or as near to it as is known.
#[derive(Clone, Copy, Debug)]
pub struct Concluded<'a> {
    /// The findings, the worst first.
    pub findings: &'a [Finding],
    /// The last frame that they are drawn from.
    pub end_ns: Option<u64>,
    /// When they were drawn, where that is not now.
    pub then: Then,
}

/// How the time of something that takes longer than a picture lies to the snapshot shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It is of the snapshot, or the newest there is.
    Now,
    /// It is of this time, not later than the snapshot.
    By(u64),
    /// It is of this time, later than the snapshot: of then nothing was kept.
    Later(u64),
}

impl App {
    /// True if an older snapshot than the newest figures is shown: what is not kept snapshot by snapshot is of later.
    #[must_use]
    pub fn past(&self) -> bool {
        self.data.as_ref().is_some_and(|data| data.model.time_ns < data.sample.time_ns)
    }

    /// What is concluded; `None` before anything was.
    #[must_use]
    pub fn concluded(&self) -> Option<Concluded<'_>> {
        let analysis = self.analysis.as_ref()?;
        let report = &analysis.report;
        let of_report =
            |then| Concluded { findings: &report.findings, end_ns: report.facts.window.last_ns, then };
        let Some(shown_ns) = self.shown_ns.filter(|shown_ns| *shown_ns < analysis.time_ns) else {
            return Some(of_report(Then::Now));
        };
        let kept = self.snapshot().and_then(|at| self.history.conclusions(at));
        Some(kept.filter(|kept| kept.time_ns <= shown_ns).map_or_else(
            || of_report(Then::Later(analysis.time_ns)),
            |kept| Concluded { findings: &kept.findings, end_ns: kept.end_ns, then: Then::By(kept.time_ns) },
        ))
    }

    /// The verdict over what is shown; `None` while nothing is concluded, or nothing was kept of then.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict<'_>> {
        let concluded = self.concluded().filter(|concluded| !matches!(concluded.then, Then::Later(_)))?;
        Some(Verdict::of(concluded.findings))
    }

    /// True if an active finding is of this kind, at the snapshot shown.
    #[must_use]
    pub fn is_active(&self, kind: Kind) -> bool {
        let concluded = self.concluded().filter(|concluded| !matches!(concluded.then, Then::Later(_)));
        concluded.is_some_and(|concluded| {
            let active = concluded.findings.iter().filter(|one| one.active && one.severity > Severity::Info);
            active.into_iter().any(|finding| Kind::of(finding.id) == Some(kind))
        })
    }

    /// The time of what is shown: that of the figures, or of an event that came after them. `None` before anything.
    #[must_use]
    pub fn clock_ns(&self) -> Option<u64> {
        let metrics = self.data.as_ref().map(|data| data.model.time_ns).filter(|time| *time > 0)?;
        let event = self.log.latest().next().map(|entry| entry.latest.time_ns);
        let moves = self.shown_ns.is_none() && !self.paused;
        Some(event.filter(|_| moves).map_or(metrics, |event| event.max(metrics)))
    }

    /// Number of queue pairs.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.model.rows.len())
    }

    /// How bytes spread over 5-tuples in the time range, at the snapshot shown or shortly before.
    #[must_use]
    pub fn entropy(&self) -> Option<Entropy> {
        let at = self.snapshot()?;
        self.history.entropy(at, NEAR)
    }

    /// Number of findings.
    #[must_use]
    pub fn finding_count(&self) -> usize {
        self.concluded().map_or(0, |concluded| concluded.findings.len())
    }

    /// Number of events that the filter lets through.
    #[must_use]
    pub fn event_count(&self) -> usize {
        self.shown_events().count()
    }

    /// Events that the filter lets through and that had happened at the snapshot shown, the latest first.
    pub fn shown_events(&self) -> impl Iterator<Item = log::Listed<'_>> {
        self.log.listed(self.shown_ns).filter(|listed| self.lets_through(listed.entry, listed.stand))
    }

    /// True if the filter lets an event through.
    #[must_use]
    pub(in crate::tui) fn lets_through(&self, entry: &log::Entry, stand: &log::Stand) -> bool {
        if self.query.is_empty() {
            return true;
        }
        let Some(data) = &self.data else { return self.query.event(entry, stand, "", None) };
        let cx = data.context();
        let row = self.fitting.get(&entry.key).and_then(|at| data.model.rows.get(*at));
        let flow = row.filter(|row| row.id.key == entry.key).map(|row| (row, cx));
        let link = data.model.links.get(usize::from(entry.key.link)).map_or("", |link| &link.name);
        self.query.event(entry, stand, link, flow)
    }

    /// Queue pairs that the table shows, and all there are: rows, or in groups each of them once.
    #[must_use]
    pub fn chosen_queue_pairs(&self) -> (usize, usize) {
        let grouped = self.table.groups.flows();
        match self.table.group {
            Group::None => (self.table.order.len(), self.row_count()),
            Group::Link => (grouped, self.row_count()),
            Group::Hosts | Group::Process => {
                let all = self.data.as_ref().map_or(0, |data| data.model.dedup.flows);
                // Where both ends are seen here, each counts for its own process.
                (grouped.min(all), all)
            }
        }
    }

    /// Group number `at` of the table.
    #[must_use]
    pub fn group_sum(&self, at: usize) -> Option<Sum> {
        let data = self.data.as_ref()?;
        self.table.groups.sum(at, data.context(), &data.paths.again)
    }

    /// The columns that the table has now: those of queue pairs, or of groups.
    #[must_use]
    pub fn visible_columns(&self) -> Vec<column::Fitted> {
        match self.table.group {
            Group::None => self.columns(),
            _ => screens::flows::Groups::new(self.layout().table(self.screen)).columns,
        }
    }

    /// Title of the column that rows are sorted by.
    #[must_use]
    pub fn sorted_by(&self) -> &'static str {
        column::column(self.table.sort.by).title
    }
}
