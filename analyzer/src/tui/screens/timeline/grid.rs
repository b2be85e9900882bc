//! The columns of a timeline: length and position of the time shown.

use crate::sample::SourceKind;
use crate::tui::data::Data;
use crate::util::time::NS_PER_S;

/// Lengths of the window that the keys go through.
const WINDOWS: [u64; 16] = [
    NS_PER_S / 100,
    NS_PER_S / 50,
    NS_PER_S / 20,
    NS_PER_S / 10,
    NS_PER_S / 5,
    NS_PER_S / 2,
    NS_PER_S,
    2 * NS_PER_S,
    5 * NS_PER_S,
    15 * NS_PER_S,
    30 * NS_PER_S,
    60 * NS_PER_S,
    120 * NS_PER_S,
    300 * NS_PER_S,
    600 * NS_PER_S,
    3_600 * NS_PER_S,
];
/// Lengths of a live view that fills up: close to one another, so that most of the view has values.
const FILLING: [u64; 32] = [
    5 * NS_PER_S,
    6 * NS_PER_S,
    7 * NS_PER_S,
    8 * NS_PER_S,
    10 * NS_PER_S,
    12 * NS_PER_S,
    15 * NS_PER_S,
    18 * NS_PER_S,
    20 * NS_PER_S,
    25 * NS_PER_S,
    30 * NS_PER_S,
    35 * NS_PER_S,
    40 * NS_PER_S,
    45 * NS_PER_S,
    50 * NS_PER_S,
    60 * NS_PER_S,
    70 * NS_PER_S,
    80 * NS_PER_S,
    90 * NS_PER_S,
    105 * NS_PER_S,
    120 * NS_PER_S,
    150 * NS_PER_S,
    180 * NS_PER_S,
    210 * NS_PER_S,
    240 * NS_PER_S,
    270 * NS_PER_S,
    300 * NS_PER_S,
    360 * NS_PER_S,
    420 * NS_PER_S,
    480 * NS_PER_S,
    540 * NS_PER_S,
    600 * NS_PER_S,
];
/// Shortest spans that are shown before and after a problem, at least.
const MARGIN: u64 = 10;
/// The shortest window over snapshots.
const SHORTEST_NS: u64 = 5 * NS_PER_S;

/// State of the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chart {
    /// Length of the window; `None` for all there is.
    pub window_ns: Option<u64>,
    /// The time whose values are shown; `None` for those of the time range.
    pub cursor_ns: Option<u64>,
}

/// The columns of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tui::screens) struct Grid {
    /// Beginning of the first column.
    pub(in crate::tui::screens) from_ns: u64,
    /// Length of a column.
    pub(in crate::tui::screens) column_ns: u64,
    /// Number of columns.
    pub(in crate::tui::screens) columns: usize,
}

impl Grid {
    /// End of the last column.
    pub(in crate::tui::screens) fn end_ns(self) -> u64 {
        self.from_ns.saturating_add(self.column_ns.saturating_mul(self.columns as u64))
    }

    /// The column of a time.
    pub(in crate::tui::screens) fn column(self, time_ns: u64) -> Option<usize> {
        let at = usize::try_from(time_ns.checked_sub(self.from_ns)? / self.column_ns).ok()?;
        (at < self.columns).then_some(at)
    }

    /// Beginning of a column.
    pub(in crate::tui::screens) fn start(self, column: usize) -> u64 {
        self.from_ns.saturating_add(self.column_ns.saturating_mul(column as u64))
    }

    /// The columns over the time between two times, and some before and after them; `None` where there is nothing.
    pub(in crate::tui::screens) fn around(
        data: &Data,
        from_ns: u64,
        to_ns: u64,
        columns: usize,
    ) -> Option<Self> {
        let over_time = &data.over_time;
        let (first_ns, last_ns) = over_time.range()?;
        if columns == 0 {
            return None;
        }
        let from_ns = from_ns.clamp(first_ns, last_ns);
        let to_ns = to_ns.clamp(from_ns, last_ns);
        let margin_ns = ((to_ns - from_ns) / 3).max(over_time.least_ns().saturating_mul(MARGIN));
        let from_ns = from_ns.saturating_sub(margin_ns).max(first_ns);
        let to_ns = to_ns.saturating_add(margin_ns).min(last_ns);
        let column_ns = (to_ns - from_ns).div_ceil(columns as u64).max(1);
        let length_ns = column_ns.saturating_mul(columns as u64);
        let from_ns = from_ns.min(last_ns.saturating_sub(length_ns).max(first_ns));
        Some(Self { from_ns, column_ns, columns })
    }
}

impl Chart {
    /// The columns over `data` in this number; `None` where there is nothing.
    pub(in crate::tui::screens) fn grid(self, data: &Data, columns: usize) -> Option<Grid> {
        let over_time = &data.over_time;
        let (first_ns, last_ns) = over_time.range()?;
        if columns == 0 {
            return None;
        }
        let all_ns = (last_ns - first_ns).max(1);
        // A live view fills up from the right; a capture has its length.
        let whole_ns = match data.model.kind {
            SourceKind::Live => FILLING.into_iter().find(|window| *window >= all_ns).unwrap_or(all_ns),
            SourceKind::Replay => all_ns,
        };
        let window_ns = self.window_ns.unwrap_or(whole_ns).min(whole_ns);
        let column_ns = window_ns.div_ceil(columns as u64).max(1);
        let length_ns = column_ns.saturating_mul(columns as u64);
        let whole = window_ns >= whole_ns;
        let from_ns = match self.cursor_ns.filter(|_| !whole) {
            Some(at) => at.saturating_sub(length_ns / 2).clamp(
                first_ns.min(last_ns.saturating_sub(length_ns).max(first_ns)),
                last_ns.saturating_sub(length_ns).max(first_ns),
            ),
            None if whole && data.model.kind == SourceKind::Replay => first_ns,
            None => last_ns.saturating_sub(length_ns),
        };
        // Columns begin at multiples of their length, so that the picture stands still while time goes on.
        let from_ns =
            if data.model.kind == SourceKind::Live { from_ns.next_multiple_of(column_ns) } else { from_ns };
        Some(Grid { from_ns, column_ns, columns })
    }

    /// A window over what began at a time, where that is much shorter than all there is: else most of it were blank.
    pub(in crate::tui::screens) fn since(data: &Data, first_ns: Option<u64>) -> Self {
        let window = first_ns.zip(data.over_time.range()).and_then(|(begin_ns, (first_ns, last_ns))| {
            let length_ns = last_ns.checked_sub(begin_ns).filter(|ns| *ns > 0)?;
            let window_ns = FILLING.into_iter().find(|window| *window >= length_ns).unwrap_or(length_ns);
            (window_ns <= (last_ns - first_ns) / 3 * 2).then_some(window_ns)
        });
        Self { window_ns: window, cursor_ns: None }
    }

    /// A shorter window, or a longer one; false where there is none.
    pub(in crate::tui::screens) fn zoom(&mut self, data: &Data, closer: bool) -> bool {
        let Some((first_ns, last_ns)) = data.over_time.range() else { return false };
        let all_ns = last_ns - first_ns;
        let shortest = if data.over_time.from_packets {
            data.over_time.least_ns().saturating_mul(10)
        } else {
            SHORTEST_NS
        };
        let now = self.window_ns.unwrap_or(all_ns);
        let next = if closer {
            WINDOWS.into_iter().rev().find(|window| *window < now && *window >= shortest)
        } else {
            WINDOWS.into_iter().find(|window| *window > now && *window < all_ns)
        };
        let changes = next.is_some() || (!closer && self.window_ns.is_some());
        if changes {
            self.window_ns = next;
        }
        changes
    }

    /// Moves the cursor by a column of the grid; where there was none, from the earlier time that is shown, else from
    /// the end.
    pub(in crate::tui::screens) fn step(
        &mut self,
        grid: Grid,
        data: &Data,
        shown_ns: Option<u64>,
        later: bool,
    ) {
        let Some((first_ns, last_ns)) = data.over_time.range() else { return };
        let last_ns = last_ns.saturating_sub(1);
        let middle = grid.column_ns / 2;
        self.cursor_ns = match self.cursor_ns.or(shown_ns) {
            None if later => None,
            None => Some(last_ns.saturating_sub(middle)),
            // Behind the end is now again.
            Some(at) if later && at.saturating_add(grid.column_ns) > last_ns => None,
            Some(at) if later => Some(at + grid.column_ns),
            Some(at) => Some(at.saturating_sub(grid.column_ns).max(first_ns)),
        };
    }
}
