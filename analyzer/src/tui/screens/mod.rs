//! The screens. Each owns its state, its keys, its drawing and its export.

pub mod bursts;
pub mod detail;
mod devices;
mod empty;
pub mod events;
mod export_table;
pub mod findings;
pub mod flows;
pub mod links;
pub mod matrix;
pub mod nic;
pub mod overview;
pub(super) mod packet;
pub mod problem;
mod reverse;
pub(super) mod trends;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use rocescope_common::account::FlowKey;

use self::bursts::BurstsScreen;
use self::detail::DetailScreen;
use self::events::EventsScreen;
use self::findings::FindingsScreen;
use self::flows::table::Table;
use self::links::LinksScreen;
use self::matrix::MatrixScreen;
use self::nic::NicScreen;
use self::overview::OverviewScreen;
use self::problem::ProblemScreen;
use super::Options;
use super::cursor::{Cursor, Move};
use super::export::{Content, ExportTable, Form};
use super::focus::Focus;
use super::key::Input;
use super::layout::Layout;
use super::overlay::{OpenedEvent, Overlay};
use super::screen::Screen;
use super::view::View;
use crate::model::{Basis, Identity, Lost};
use crate::tui::widgets::{Lines, Spans, WIDEST, counted, cut, line, overlay, scrolled, select, spark};
use crate::util::time::NS_PER_S;
use crate::util::units;

/// Keys and their meaning, for the status line.
pub(super) type Hint = (&'static [Input], &'static str);
/// Hints of a screen: those that come first, and those where there is room.
pub(super) type Hints = (&'static [Hint], &'static [Hint]);

/// Effect of a key or a click beyond the state of the screen.
#[derive(Debug)]
pub(super) enum Effect {
    /// Nothing changes beside the screen.
    None,
    /// The table is sorted and filtered again.
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
pub(super) trait Page {
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

/// The states of all screens.
#[derive(Debug)]
pub struct Screens {
    /// Overview of the traffic.
    pub overview: OverviewScreen,
    /// The table of queue pairs.
    pub flows: Table,
    /// Detail of one queue pair.
    pub detail: DetailScreen,
    /// Matrix of host pairs.
    pub matrix: MatrixScreen,
    /// Links and their balance.
    pub links: LinksScreen,
    /// Bursts and steps.
    pub bursts: BurstsScreen,
    /// Events at packets.
    pub events: EventsScreen,
    /// List of findings.
    pub findings: FindingsScreen,
    /// Page of one finding.
    pub problem: ProblemScreen,
    /// Queue pairs of NICs.
    pub nic: NicScreen,
}

impl Screens {
    /// Screens without any selection.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self {
            overview: OverviewScreen::default(),
            flows: Table::new(options),
            detail: DetailScreen::default(),
            matrix: MatrixScreen::default(),
            links: LinksScreen::default(),
            bursts: BurstsScreen::default(),
            events: EventsScreen::default(),
            findings: FindingsScreen::default(),
            problem: ProblemScreen::default(),
            nic: NicScreen::default(),
        }
    }

    /// Forgets the lines that screens keep: after every change of what they show.
    pub(super) fn forget_lines(&self) {
        Screen::ALL.iter().filter_map(|screen| self.page(*screen).kept_lines()).for_each(Lines::forget);
    }

    /// The screen that is named.
    pub(super) fn page(&self, screen: Screen) -> &dyn Page {
        match screen {
            Screen::Overview => &self.overview,
            Screen::Qps => &self.flows,
            Screen::Detail => &self.detail,
            Screen::Matrix => &self.matrix,
            Screen::Links => &self.links,
            Screen::Bursts => &self.bursts,
            Screen::Events => &self.events,
            Screen::Findings => &self.findings,
            Screen::Problem => &self.problem,
            Screen::Nic => &self.nic,
        }
    }

    /// A screen, to be changed.
    pub(super) fn page_mut(&mut self, screen: Screen) -> &mut dyn Page {
        match screen {
            Screen::Overview => &mut self.overview,
            Screen::Qps => &mut self.flows,
            Screen::Detail => &mut self.detail,
            Screen::Matrix => &mut self.matrix,
            Screen::Links => &mut self.links,
            Screen::Bursts => &mut self.bursts,
            Screen::Events => &mut self.events,
            Screen::Findings => &mut self.findings,
            Screen::Problem => &mut self.problem,
            Screen::Nic => &mut self.nic,
        }
    }
}

/// Selects the row under the mouse in a list with one line of titles; true when it was selected already.
fn click_list(cursor: &mut Cursor, area: Rect, rows: usize, at: Position) -> bool {
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
pub(super) fn time_range(basis: Basis) -> String {
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

/// Capture loss in words.
pub(super) fn own_losses(lost: &Lost) -> String {
    let known = [
        (Some(lost.flow_table_full), "packet", "not counted: flow table full"),
        (Some(lost.contended), "packet", "not counted: counter contention"),
        (lost.capture_drops, "packet", "dropped by the capture"),
        (lost.interface_drops, "packet", "dropped by the interface"),
        (lost.events_dropped, "event", "dropped"),
        (lost.bins_dropped, "packet", "not in burst/step statistics"),
        (Some(lost.extra_full), "packet", "without port or opcode statistics"),
    ];
    let parts = known.into_iter().filter_map(|(count, unit, what)| {
        let count = count.filter(|count| *count > 0)?;
        Some(format!("{} {what}", counted(count, unit)))
    });
    parts.collect::<Vec<_>>().join(", ")
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
