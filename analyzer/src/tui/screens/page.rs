//! What every screen is: behaviour, effects of its keys, hints; and words that screens share.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use rocescope_common::account::FlowKey;

use crate::model::{Basis, Identity};
use crate::tui::cursor::{Cursor, Move};
use crate::tui::export::{Content, ExportTable, Form};
use crate::tui::focus::Focus;
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::overlay::{OpenedEvent, Overlay};
use crate::tui::screen::Screen;
use crate::tui::view::View;
use crate::tui::widgets::Lines;
use crate::util::time::NS_PER_S;
use crate::util::units;

/// Keys and their meaning, for the status line.
pub(in crate::tui) type Hint = (&'static [Input], &'static str);
/// Hints of a screen: those that come first, and those where there is room.
pub(in crate::tui) type Hints = (&'static [Hint], &'static [Hint]);

/// Effect of a key or a click beyond the state of the screen.
#[derive(Debug)]
pub(in crate::tui) enum Effect {
    /// Nothing changes beside the screen.
    None,
    /// The table is sorted, filtered and grouped again.
    Arrange,
    /// The newest sample is analysed again.
    Analyse,
    /// The values are made again.
    Values,
    /// The details of a queue pair are shown.
    Detail(Identity),
    /// The table shows these queue pairs alone.
    Focus(Focus),
    /// The page of the finding of this number is shown.
    Finding(usize),
    /// A screen is shown, with this row of its list selected.
    Row(Screen, Option<usize>),
    /// The headers of an event are shown.
    Packet(OpenedEvent),
    /// A box is shown over the screen.
    Overlay(Overlay),
}

/// Behaviour that each screen has.
pub(in crate::tui) trait Page {
    /// Moves in its list, or scrolls.
    fn step(&mut self, view: &mut View, step: Move);

    /// Opens the selected item.
    fn open(&mut self, _view: &mut View) -> Effect {
        Effect::None
    }

    /// A click somewhere on the screen.
    fn click(&mut self, _view: &mut View, _at: Position) -> Effect {
        Effect::None
    }

    /// A key that is bound on this screen alone.
    fn on_input(&mut self, _view: &mut View, _input: Input) -> Effect {
        Effect::None
    }

    /// Keeps selection and scroll position within the content, after content or size changed.
    fn keep_in_view(&mut self, _view: &View) {}

    /// The lines that it keeps from one key or picture to the next.
    fn kept_lines(&self) -> Option<&Lines> {
        None
    }

    /// Its place in a list, where it has one.
    fn selection(&mut self) -> Option<&mut Cursor> {
        None
    }

    /// Drops what is selected in ways of its own; true if there was something.
    fn drop_selection(&mut self) -> bool {
        false
    }

    /// Hints for the status line.
    fn hints(&self, _view: &View) -> Hints {
        (&[], &[])
    }

    /// The flow whose packet headers are written to a capture file, and its other direction; `None` for all flows.
    fn flow(&self, view: &View) -> Option<(FlowKey, Option<FlowKey>)> {
        view.selected.map(|id| (id.key, None))
    }

    /// Its data as a table.
    fn export_table(&self, view: &View) -> ExportTable;

    /// Its data as a file.
    fn content(&self, view: &View, form: Form) -> Content {
        Content::Table(self.export_table(view), form)
    }

    /// Draws the screen into its part of the layout.
    fn render(&self, buffer: &mut Buffer, at: &Layout, view: &View);
}

/// Selects the row under the mouse in a list with one line of titles; true when it was selected already.
pub(super) fn click_list(cursor: &mut Cursor, area: Rect, rows: usize, at: Position) -> bool {
    if !area.contains(at) || at.y == area.y {
        return false;
    }
    let row = cursor.offset + usize::from(at.y - area.y - 1);
    if row >= rows {
        return false;
    }
    cursor.selected.replace(row) == Some(row)
}

/// A length of time without what samples that arrive about every second add to whole seconds or take from them.
pub(in crate::tui) const fn near_second(ns: u64) -> u64 {
    const JITTER: u64 = 50_000_000;
    let whole = (ns + NS_PER_S / 2) / NS_PER_S * NS_PER_S;
    if whole > 0 && ns.abs_diff(whole) <= JITTER { whole } else { ns }
}

/// A time range in words.
pub(in crate::tui) fn time_range(basis: Basis) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length of time")]
    let exact = |seconds: f64| (seconds * NS_PER_S as f64).round() as u64;
    let ns = |seconds: f64| units::duration(near_second(exact(seconds)));
    match basis {
        Basis::Unknown => "no time range yet".into(),
        // Whole seconds are the usual ones.
        Basis::Last(seconds) => format!("last {}", ns(seconds).replace(".00 s", " s").replace(".0 s", " s")),
        // It is the length of the data that others name, whatever is near it.
        Basis::Whole(seconds) => format!("all {}", units::duration(exact(seconds))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_of_samples_does_not_show_in_time_ranges() {
        assert_eq!(time_range(Basis::Last(9.996)), "last 10 s");
        assert_eq!(time_range(Basis::Last(11.004)), "last 11 s");
        assert_eq!(time_range(Basis::Last(9.5)), "last 9.50 s");
        assert_eq!(time_range(Basis::Whole(0.02)), "all 20.0 ms");
        assert_eq!((near_second(999_000_000), near_second(949_000_000)), (1_000_000_000, 949_000_000));
    }
}
