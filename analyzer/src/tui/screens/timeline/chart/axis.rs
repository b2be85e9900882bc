//! The clock below the timeline.

use std::ops::Range;

use ratatui::text::Line;

use super::{PEAK, Picture, VALUE};
use crate::model::Basis;
use crate::sample::SourceKind;
use crate::tui::screens::timeline::grid::Grid;
use crate::tui::theme;
use crate::tui::widgets::{Spans, cut};
use crate::util::time::NS_PER_S;
use crate::util::units;

impl Picture<'_> {
    /// Clock times below the columns, the date where they are not of today, and the time of the cursor.
    pub(super) fn axis(&self) -> Line<'static> {
        let what = match self.data.model.basis {
            _ if self.chart.cursor_ns.is_some() => self.at_cursor(),
            Basis::Unknown => String::new(),
            // The title of the screen says which.
            _ => "time range".to_owned(),
        };
        // It names the column above it, not the time beside it.
        let what = if what.is_empty() { what } else { format!("{what} ↑") };
        if self.view.kind() == Some(SourceKind::Replay) {
            let date = units::date_hour_utc(self.grid.from_ns).0;
            let room = (self.name + VALUE).saturating_sub(date.chars().count());
            // With the date there is less room for the words.
            let forms = [&*what, what.trim_start_matches("time ")];
            if let Some(what) = forms.into_iter().find(|form| form.chars().count() < room) {
                return self.clocks(&format!("{date}{what:>room$}"), "peak ↑");
            }
        }
        self.clocks(&what, "peak ↑")
    }

    /// The same with other words at the left and at the right.
    pub(super) fn clocks(&self, what: &str, most: &str) -> Line<'static> {
        let (text, cursor) = ticks(self.grid, self.marked().zip(self.at_ns), &self.marks);
        let mut spans = Spans::default();
        let width = self.name + VALUE;
        spans.push(format!(" {:>width$} ", cut(what, width, false)), theme::DIM);
        let part = |from: usize, to: usize| text.iter().skip(from).take(to - from).collect::<String>();
        spans.push(part(0, cursor.start), theme::DIM);
        spans.push(part(cursor.start, cursor.end), theme::SELECTED);
        spans.push(part(cursor.end, text.len()), theme::DIM);
        spans.push(format!(" {most:>width$}", width = PEAK - 1), theme::DIM);
        spans.into_line()
    }
}

/// Clock times below the columns of a grid, those of `marks` first; and the part that is the time of the cursor, which
/// stands in a column at a time.
pub(in crate::tui::screens) fn ticks(
    grid: Grid,
    cursor: Option<(usize, u64)>,
    marks: &[u64],
) -> (Vec<char>, Range<usize>) {
    let Grid { from_ns, column_ns, columns } = grid;
    let letters = |step: u64| match step {
        0..10_000_000 => 12,
        10_000_000..NS_PER_S => 11,
        _ => 8,
    };
    let least = |step: u64| column_ns.saturating_mul(letters(step) as u64 + APART);
    let step = STEPS.into_iter().find(|step| *step >= least(*step));
    let step = step.unwrap_or_else(|| least(u64::MAX)).max(1);
    let (letters, half) = (letters(step), letters(step) / 2);
    let mut text: Vec<char> = vec![' '; columns];
    let cursor = cursor
        .map_or(0..0, |(column, at)| write(&mut text, column, at, if step < NS_PER_S { 12 } else { 8 }));
    for at in marks {
        if let Some(column) = grid.column(*at) {
            write(&mut text, column, *at, if column_ns < NS_PER_S / 10 { 12 } else { 8 });
        }
    }
    let mut at = from_ns.next_multiple_of(step);
    while at < grid.end_ns() {
        // One at an edge that would stand beside its time is left out.
        let centred = |column: &usize| column + 1 >= half && column + letters <= columns + half + 1;
        if let Some(column) = grid.column(at).filter(centred) {
            write(&mut text, column, at, letters);
        }
        let Some(next) = at.checked_add(step) else { break };
        at = next;
    }
    (text, cursor)
}

/// Writes the first letters of a clock time around a column, where nothing is written yet; returns where it stands.
fn write(text: &mut [char], column: usize, at_ns: u64, letters: usize) -> Range<usize> {
    let label: Vec<char> = units::clock_utc(at_ns).chars().take(letters).collect();
    let Some(last) = text.len().checked_sub(label.len()) else { return 0..0 };
    let from = column.saturating_sub(label.len() / 2).min(last);
    let to = from + label.len();
    let around = text.get(from.saturating_sub(1)..(to + 1).min(text.len()));
    if around.is_none_or(|around| around.iter().any(|c| *c != ' ')) {
        return 0..0;
    }
    for (cell, letter) in text.iter_mut().skip(from).zip(&label) {
        *cell = *letter;
    }
    from..to
}

/// Columns between the letters of two clock times, at least, and the steps between them.
const APART: u64 = 2;
const STEPS: [u64; 22] = [
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    NS_PER_S,
    2 * NS_PER_S,
    5 * NS_PER_S,
    10 * NS_PER_S,
    30 * NS_PER_S,
    60 * NS_PER_S,
    120 * NS_PER_S,
    300 * NS_PER_S,
    600 * NS_PER_S,
    1_800 * NS_PER_S,
    3_600 * NS_PER_S,
    21_600 * NS_PER_S,
    86_400 * NS_PER_S,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_width_has_several_clock_times_each_below_its_column() {
        let from_ns = 1_772_370_000 * NS_PER_S + 7 * NS_PER_S;
        for length_ns in [NS_PER_S / 2, 3 * NS_PER_S, 75 * NS_PER_S, 600 * NS_PER_S] {
            for columns in 40..160 {
                let grid = Grid { from_ns, column_ns: length_ns.div_ceil(columns as u64), columns };
                let text: String = ticks(grid, None, &[]).0.into_iter().collect();
                let labels = text.split_whitespace().count();
                assert!(labels >= 2 || columns < 50, "{length_ns} in {columns}: {text:?}");
                let mut at = 0;
                for label in text.split_whitespace() {
                    at += text[at..].find(label).unwrap();
                    let middle = grid.start(at + label.len() / 2);
                    let near = |ns: u64| units::clock_utc(ns).starts_with(label);
                    let around = (0..=60).map(|n| middle + grid.column_ns * n / 20 - grid.column_ns);
                    assert!(around.into_iter().any(near), "{label} in {text:?}");
                    at += label.len();
                }
            }
        }
    }
}
