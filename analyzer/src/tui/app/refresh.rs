//! The values shown, made again when the snapshot, the time range, the order or the filter changes.

use std::sync::Arc;

use super::App;
use crate::model::{FlowVerdicts, Row};
use crate::tui::data::{Data, ValuesRequest};
use crate::tui::screen::Screen;
use crate::tui::screens::Screens;
use crate::tui::view::{AsOf, Concluded, View};
use crate::util::deferred::{Deferred, discard};

impl App {
    /// Makes the values of the snapshot shown: at once, or for many flows through [`wanted`](Self::wanted). `keep`:
    /// rows may stay in their places.
    pub(in crate::tui) fn recompute(&mut self, keep: bool) {
        self.recompute_from(None, keep);
    }

    /// The same, with values that were made beforehand where they are the right ones.
    pub(in crate::tui) fn recompute_from(&mut self, ready: Option<Data>, keep: bool) {
        let Some(wanted) = self.wanted_now() else { return };
        let keep = keep && self.view.awaited.unwrap_or(true);
        match ready {
            Some(data) if wanted.are(&data) => self.show(data, keep),
            _ if !wanted.at_once() => self.view.awaited = Some(keep),
            _ => {
                if let Some(data) = wanted.make() {
                    self.show(data, keep);
                }
            }
        }
    }

    /// The values that should be shown; `None` before the first sample.
    fn wanted_now(&self) -> Option<ValuesRequest> {
        // A paused view shows settings and ports of the pause.
        let sample = match &self.view.data {
            Some(data) if self.view.timeline.paused => &data.sample,
            _ => &**self.view.newest.as_ref()?,
        };
        let known = self.view.data.as_ref().filter(|data| Arc::ptr_eq(&data.sample, sample));
        Some(ValuesRequest {
            history: self.view.timeline.history.clone(),
            at: self.view.timeline.snapshot()?,
            range: self.view.range,
            sample: Arc::clone(sample),
            paths: known.map(|data| Arc::clone(&data.paths)),
            matrix: self.view.screen == Screen::Matrix,
            by: self.view.by,
            options: self.view.options.report.clone(),
            analysis: self.view.analysis.as_deref().cloned(),
        })
    }

    /// Values that a key asked for and that take too long while it waits; they are due at
    /// [`on_values`](Self::on_values). Until then the old ones are shown, and the status line says so.
    pub fn wanted(&self) -> Option<ValuesRequest> {
        self.view.awaited.and_then(|_| self.wanted_now())
    }

    /// True if other values are wanted than those shown.
    pub const fn awaited(&self) -> bool {
        self.view.awaited.is_some()
    }

    /// Takes values that were wanted; returns whether the picture changes. Values that are no longer wanted are
    /// discarded.
    pub fn on_values(&mut self, data: Option<Data>) -> bool {
        let Some(keep) = self.view.awaited else {
            discard(data);
            return false;
        };
        match data {
            Some(data) if self.wanted_now().is_some_and(|wanted| wanted.are(&data)) => {
                self.show(data, keep);
                true
            }
            // There is no such snapshot: the old values stay.
            None => self.view.awaited.take().is_some(),
            // Another key came meanwhile.
            Some(data) => {
                discard(data);
                false
            }
        }
    }

    /// Makes the values that are wanted, and puts rows in the order that is; for callers without a loop.
    pub fn settle(&mut self) {
        while let Some(wanted) = self.wanted() {
            self.on_values(wanted.make());
        }
        self.arrange_due();
    }

    fn show(&mut self, data: Data, keep: bool) {
        self.view.awaited = None;
        let before = self.view.data.replace(Deferred::new(Arc::new(data)));
        self.judge();
        let added_up = before.as_ref().is_some_and(|before| !before.has_matrix());
        if added_up && self.view.screen == Screen::Matrix {
            self.screens.matrix.begin(&self.view);
        }
        let keeps = keep && self.screens.flows.keeps_places(&self.view);
        self.arrange_at(before.as_ref().filter(|_| keeps).map(|data| &data.model.rows[..]), keeps);
    }

    /// Looks up the findings that belong to the snapshot shown, for rows and host pairs, unless that was done where the
    /// values were made.
    pub(in crate::tui) fn judge(&mut self) {
        let kept = match self.view.concluded() {
            Some(Concluded { as_of: AsOf::Earlier(_), findings, .. }) => Some(FlowVerdicts::of(findings)),
            _ => None,
        };
        let now = matches!(self.view.concluded(), Some(Concluded { as_of: AsOf::Now, .. }));
        let newest = self.view.analysis.as_deref().filter(|_| now);
        let is_done = |data: &Arc<Data>| newest.is_some_and(|newest| data.is_judged_by(newest));
        let data = self.view.data.as_deref_mut().filter(|data| !is_done(data));
        let rails = &self.view.options.report.analysis.rails;
        if let Some(data) = data.map(Arc::make_mut) {
            match newest {
                Some(newest) => data.judge_by(newest, rails),
                None => data.judge(kept.as_ref(), rails),
            }
        }
    }

    /// Sorts and filters again. The selected flow stays selected.
    pub(in crate::tui) fn arrange(&mut self, keep: bool) {
        let keeps = keep && self.screens.flows.keeps_places(&self.view);
        self.arrange_at(None, keeps);
    }

    /// The same for another filter or order: many rows are due at [`arrange_due`](Self::arrange_due).
    pub(in crate::tui) fn arrange_soon(&mut self) {
        match &self.view.data {
            Some(data) if !data.at_once() => self.rows_due = true,
            _ => self.arrange(false),
        }
    }

    /// True if filter or order have changed, and rows are still those of before: a key is answered by a picture first.
    pub const fn rows_due(&self) -> bool {
        self.rows_due
    }

    /// Sorts and filters where that is due.
    pub fn arrange_due(&mut self) {
        if self.rows_due {
            self.arrange(false);
        }
    }

    /// Sorts and filters; `before` has the rows that the order of the table refers to, where the data has changed
    /// since.
    fn arrange_at(&mut self, before: Option<&[Row]>, keeps: bool) {
        let keeps = !std::mem::take(&mut self.rows_due) && keeps;
        let Some(data) = &self.view.data else { return };
        let keep = keeps.then(|| before.unwrap_or(&data.model.rows));
        self.view.selected = self.screens.flows.arrange(&self.view, data, keep);
        self.refresh_detail();
        self.find_rows();
        self.keep_in_view();
    }

    /// Looks up the rows of the flows of events for the filter.
    pub(in crate::tui) fn find_rows(&mut self) {
        let View { filter, data, log, .. } = &mut self.view;
        filter.find_rows(data.as_ref().map(|data| &***data), log);
    }

    /// Looks up the selected flow, or without a selection the one at the top of the table, which is selected with it:
    /// the details stay with one flow while rows move.
    pub(in crate::tui) fn refresh_detail(&mut self) {
        let Screens { detail, flows, .. } = &mut self.screens;
        let Some(data) = &self.view.data else { return };
        if self.view.screen != Screen::Detail {
            detail.shown = None;
            return;
        }
        let at = flows.cursor.selected.unwrap_or(0);
        let id = self.view.selected.or_else(|| flows.id_at(at, &data.model));
        detail.look_up(data, id);
        if detail.shown.is_some() && self.view.selected.is_none() {
            (self.view.selected, flows.cursor.selected) = (id, Some(at));
        }
    }

    /// After a change of what screens show: keeps it within the new content.
    pub(in crate::tui) fn keep_in_view(&mut self) {
        self.screens.forget_lines();
        self.keep_scrolled();
    }

    /// The same after a scroll, which leaves the content as it is.
    pub(in crate::tui) fn keep_scrolled(&mut self) {
        for screen in Screen::all() {
            self.screens.page_mut(screen).keep_in_view(&self.view);
        }
    }

    /// Sums flows by host for the matrix, where that is not done yet.
    pub(in crate::tui) fn refresh_matrix(&mut self) {
        match self.view.data.as_mut().filter(|data| self.view.screen == Screen::Matrix && !data.has_matrix())
        {
            Some(data) if data.at_once() => {
                Arc::make_mut(data).fill_matrix();
                self.judge();
            }
            Some(_) => self.view.awaited = Some(self.view.awaited.unwrap_or(true)),
            None => {}
        }
    }
}
