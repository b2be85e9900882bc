//! Makes anew what the screens show, when the moment, the span, the order or the filter is another.

use std::sync::Arc;

use super::app::{App, Data};
use super::column::Context;
use super::job::Figures;
use super::matrix::Matrix;
use super::screen::Screen;
use super::table::Group;
use crate::model::{Detail, Row};
use crate::report::Paths;

/// What is not needed any more is kept for the loop up to so many things.
const SPENT: usize = 16;

impl App {
    /// Makes the figures of the moment shown. `keep`: rows may stay in their places.
    pub(super) fn recompute(&mut self, keep: bool) {
        self.recompute_from(None, keep);
    }

    /// The same, from figures that were made beforehand, where they are the right ones.
    pub(super) fn recompute_from(&mut self, ready: Option<Figures>, keep: bool) {
        // What is paused shows settings and ports of the pause.
        let sample = match &self.data {
            Some(data) if self.paused => Arc::clone(&data.sample),
            _ => match &self.newest {
                Some(newest) => Arc::clone(newest),
                None => return,
            },
        };
        let Some(at) = self.moment() else { return };
        let time_ns = self.history.get(at).map(|moment| moment.time_ns);
        let reset_ns = self.history.reset_point().map(|reset| reset.time_ns);
        let fits = |figures: &Figures| {
            figures.span == self.span
                && figures.reset_ns == reset_ns
                && Some(figures.model.time_ns) == time_ns
                && self.newest.as_ref().is_some_and(|newest| Arc::ptr_eq(newest, &sample))
        };
        let ready = ready.filter(fits);
        let figures = ready.or_else(|| {
            let options = &self.options.report;
            let known = self.data.as_ref().filter(|data| Arc::ptr_eq(&data.sample, &sample));
            let paths = match known {
                Some(data) => Arc::clone(&data.paths),
                None => Arc::new(Paths::of(&sample, options)),
            };
            let room = std::mem::take(&mut self.room);
            Figures::new(room, &self.history, at, self.span, &sample, options, paths)
        });
        let Some(Figures { model, paths, imbalance, problems, last_seen, busiest, matrix, .. }) = figures
        else {
            return;
        };
        let matrix = match matrix {
            Some(matrix) => matrix,
            None if self.screen == Screen::Matrix => {
                Matrix::new(Context { model: &model, sample: &sample }, &paths.again)
            }
            None => Matrix::default(),
        };
        let now =
            Data { sample, model, paths, imbalance, problems, last_seen, detail: None, busiest, matrix };
        let before = self.data.replace(now);
        let keeps = keep && self.keeps_places();
        self.arrange_at(before.as_ref().filter(|_| keeps).map(|data| &data.model.rows[..]), keeps);
        if let Some(mut before) = before {
            let mut room = std::mem::take(&mut before.model.rows);
            if room.capacity() > self.room.capacity() {
                std::mem::swap(&mut room, &mut self.room);
            }
            if self.spent.len() > SPENT {
                self.spent.clear();
            }
            self.spent.push(Box::new((before, room)));
        }
    }

    /// Whether rows keep their places: while the user looks at one.
    pub(super) fn keeps_places(&self) -> bool {
        self.table.selected.is_some() && !self.table.follow && self.table.group == Group::None
    }

    /// Sorts and filters again. The selected flow stays selected.
    pub(super) fn arrange(&mut self, keep: bool) {
        let keeps = keep && self.keeps_places();
        self.arrange_at(None, keeps);
    }

    /// `before`: the rows that the order of the table is of, when that are not those of now.
    pub(super) fn arrange_at(&mut self, before: Option<&[Row]>, keeps: bool) {
        let page = self.layout().table_page(self.screen);
        let Some(data) = &self.data else { return };
        let cx = Context { model: &data.model, sample: &data.sample };
        let keep = keeps.then(|| before.unwrap_or(&data.model.rows));
        self.table.arrange(&self.query, cx, &data.paths.again, keep, page);
        self.refresh_detail();
        self.keep_in_view();
    }

    /// Looks up the selected flow, or without a selection the one at the top of the table.
    pub(super) fn refresh_detail(&mut self) {
        let Some(data) = &mut self.data else { return };
        if self.screen != Screen::Detail {
            data.detail = None;
            return;
        }
        let at = self.table.cursor.selected.unwrap_or(0);
        let id = self.table.selected.or_else(|| self.table.id_at(at, &data.model));
        data.detail = id.and_then(|id| {
            let row = data.model.rows.iter().find(|row| row.id == id)?;
            let detail = Detail::new(&data.sample, row.at?)?;
            let other = super::extra::other_direction(&data.sample, &detail, self.analysis.as_deref());
            Some((detail, other.and_then(|at| Detail::new(&data.sample, at))))
        });
    }

    /// Adds up by host for the screen that shows it, where that is not done yet.
    pub(super) fn refresh_matrix(&mut self) {
        if let Some(data) = &mut self.data {
            // Mostly it was made with the sample, beside the screen.
            if self.screen == Screen::Matrix && data.matrix.size() == (0, 0) {
                let cx = Context { model: &data.model, sample: &data.sample };
                data.matrix = Matrix::new(cx, &data.paths.again);
            }
        }
    }
}
