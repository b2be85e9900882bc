//! Makes anew what the screens show, when the snapshot, the time range, the order or the filter is another.

use std::sync::Arc;

use hashbrown::HashSet;
use rocescope_common::account::FlowKey;

use super::app::{App, Data};
use super::data::Wanted;
use super::screen::Screen;
use super::shown::{Concluded, Then};
use super::table::Group;
use crate::model::{Detail, FlowVerdicts, Row};
use crate::util::deferred::{Deferred, discard};

type State = foldhash::fast::RandomState;

impl App {
    /// Has the figures of the snapshot shown made: at once, or of many flows by whoever asks what is [`wanted`](Self::wanted).
    /// `keep`: rows may stay in their places.
    pub(in crate::tui) fn recompute(&mut self, keep: bool) {
        self.recompute_from(None, keep);
    }

    /// The same, from figures that were made beforehand, where they are the right ones.
    pub(in crate::tui) fn recompute_from(&mut self, ready: Option<Data>, keep: bool) {
        let Some(wanted) = self.figures_of_now() else { return };
        let keep = keep && self.awaited.unwrap_or(true);
        match ready {
            Some(data) if wanted.are(&data) => self.show(data, keep),
            _ if !wanted.at_once() => self.awaited = Some(keep),
            _ => {
                if let Some(data) = wanted.make() {
                    self.show(data, keep);
                }
            }
        }
    }

    /// The figures that should be shown; `None` before the first sample.
    fn figures_of_now(&self) -> Option<Wanted> {
        // What is paused shows settings and ports of the pause.
        let sample = match &self.data {
            Some(data) if self.paused => &data.sample,
            _ => &**self.newest.as_ref()?,
        };
        let known = self.data.as_ref().filter(|data| Arc::ptr_eq(&data.sample, sample));
        Some(Wanted {
            history: self.history.clone(),
            at: self.snapshot()?,
            range: self.range,
            sample: Arc::clone(sample),
            paths: known.map(|data| Arc::clone(&data.paths)),
            matrix: self.screen == Screen::Matrix,
            options: self.options.report.clone(),
        })
    }

    /// Figures that a key asked for and that take too long to be made while it waits: whoever makes them gives them to
    /// [`on_values`](Self::on_values). Until then the old ones are shown, and the status line says so.
    #[must_use]
    pub fn wanted(&self) -> Option<Wanted> {
        self.awaited.and_then(|_| self.figures_of_now())
    }

    /// True if other figures are wanted than those shown.
    #[must_use]
    pub const fn awaited(&self) -> bool {
        self.awaited.is_some()
    }

    /// Takes figures that were wanted; returns whether the picture changes. Those that nobody wants any more are left out.
    pub fn on_values(&mut self, data: Option<Data>) -> bool {
        let Some(keep) = self.awaited else {
            discard(data);
            return false;
        };
        match data {
            Some(data) if self.figures_of_now().is_some_and(|wanted| wanted.are(&data)) => {
                self.show(data, keep);
                true
            }
            // There is no such snapshot: what is shown stays.
            None => self.awaited.take().is_some(),
            // Another key came meanwhile.
            Some(data) => {
                discard(data);
                false
            }
        }
    }

    /// Makes the figures that are wanted; for those who have no thread for it.
    pub fn settle(&mut self) {
        while let Some(wanted) = self.wanted() {
            self.on_values(wanted.make());
        }
    }

    fn show(&mut self, data: Data, keep: bool) {
        self.awaited = None;
        let before = self.data.replace(Deferred::new(Arc::new(data)));
        self.judge();
        let added_up = before.as_ref().is_some_and(|before| !before.has_matrix());
        if let (Screen::Matrix, true, Some(data)) = (self.screen, added_up, &self.data) {
            self.cell = data.matrix.hottest(self.metric).unwrap_or(self.cell);
        }
        let keeps = keep && self.keeps_places();
        self.arrange_at(before.as_ref().filter(|_| keeps).map(|data| &data.model.rows[..]), keeps);
    }

    /// Looks up the findings that belong to the snapshot shown, for rows and pairs of hosts.
    pub(in crate::tui) fn judge(&mut self) {
        let kept = match self.concluded() {
            Some(Concluded { then: Then::By(_), findings, .. }) => Some(FlowVerdicts::of(findings)),
            _ => None,
        };
        let now = matches!(self.concluded(), Some(Concluded { then: Then::Now, .. }));
        let newest = self.analysis.as_ref().filter(|_| now).map(|analysis| &analysis.verdicts);
        if let Some(data) = self.data.as_deref_mut().map(Arc::make_mut) {
            let verdicts = kept.as_ref().or(newest);
            data.model.judge(verdicts);
            data.matrix.judge(verdicts);
        }
    }

    /// True if rows keep their places: while the user looks at one.
    pub(in crate::tui) fn keeps_places(&self) -> bool {
        self.table.selected.is_some() && !self.table.follow && self.table.group == Group::None
    }

    /// Sorts and filters again. The selected flow stays selected.
    pub(in crate::tui) fn arrange(&mut self, keep: bool) {
        let keeps = keep && self.keeps_places();
        self.arrange_at(None, keeps);
    }

    /// `before`: the rows that the order of the table is of, when that are not those of now.
    pub(in crate::tui) fn arrange_at(&mut self, before: Option<&[Row]>, keeps: bool) {
        let page = self.layout().table_page(self.screen);
        let Some(data) = &self.data else { return };
        let cx = data.context();
        let keep = keeps.then(|| before.unwrap_or(&data.model.rows));
        self.table.arrange(&self.query, cx, &data.paths.again, keep, page);
        self.refresh_detail();
        self.refresh_fitting();
        self.keep_in_view();
    }

    /// Looks up the rows of the flows of events, where the filter asks about flows.
    pub(in crate::tui) fn refresh_fitting(&mut self) {
        self.fitting.clear();
        let Some(data) = self.data.as_ref().filter(|_| self.query.is_of_flows()) else { return };
        let flows: HashSet<FlowKey, State> = self.log.latest().map(|entry| entry.key).collect();
        let rows = data.model.rows.iter().enumerate().filter(|(_, row)| flows.contains(&row.id.key));
        self.fitting.extend(rows.map(|(at, row)| (row.id.key, at)));
    }

    /// Looks up the selected flow, or without a selection the one at the top of the table, which is selected with it: what
    /// somebody reads does not change to another's.
    pub(in crate::tui) fn refresh_detail(&mut self) {
        // Only while a file is made from them are they copied.
        let Some(data) = self.data.as_deref_mut().map(Arc::make_mut) else { return };
        if self.screen != Screen::Detail {
            data.detail = None;
            return;
        }
        let at = self.table.cursor.selected.unwrap_or(0);
        let id = self.table.selected.or_else(|| self.table.id_at(at, &data.model));
        data.detail = id.and_then(|id| {
            let row = data.model.rows.iter().find(|row| row.id == id)?;
            let detail = Detail::new(&data.sample, row.at?)?;
            let other = super::extra::other_direction(&data.sample, &detail);
            Some((detail, other.and_then(|at| Detail::new(&data.sample, at))))
        });
        if data.detail.is_some() && self.table.selected.is_none() {
            (self.table.selected, self.table.cursor.selected) = (id, Some(at));
        }
    }

    /// Adds up by host for the screen that shows it, where that is not done yet.
    pub(in crate::tui) fn refresh_matrix(&mut self) {
        match self.data.as_mut().filter(|data| self.screen == Screen::Matrix && !data.has_matrix()) {
            Some(data) if data.at_once() => {
                Arc::make_mut(data).fill_matrix();
                self.judge();
            }
            Some(_) => self.awaited = Some(self.awaited.unwrap_or(true)),
            None => {}
        }
    }
}
