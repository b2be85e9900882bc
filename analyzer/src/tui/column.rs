//! The columns of the table of queue pairs. A column is one declaration in `table`; its typed value decides
//! cell, sort order, sums of groups, exports and filter comparisons.

mod fit;
pub mod sets;
mod table;
pub(super) mod unit;
pub mod value;

use std::sync::LazyLock;

use ratatui::style::Style;

pub use fit::{ColumnContext, fit, fit_sums};
pub use table::{COLUMNS, Id};
pub use value::{SortKey, Value, ValueKind};

use super::theme;
use crate::entity::owners::QpOwner;
use crate::findings::Problem;
use crate::model::signals::{About, NOTHING};
use crate::model::{LinkRow, Model, Row, State};
use crate::sample::{Sample, Stats};
use crate::util::layout::tap_name;
use crate::util::units;

/// The declaration of a column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Identifier of the column.
    pub id: Id,
    /// Its name in filters, on the command line and in the configuration file.
    pub name: &'static str,
    /// Other names that are accepted.
    pub aliases: &'static [&'static str],
    /// Title of the column.
    pub title: &'static str,
    /// Kind of the values in the column.
    pub kind: ValueKind,
    /// Width in cells.
    pub width: u16,
    /// Columns with a smaller number come first when there is little room.
    pub rank: u8,
    /// Prerequisite of its values.
    pub needs: ColumnNeeds,
    /// Kinds of findings that give a value above 0 its colour.
    pub about: About,
    /// Its meaning, for the help.
    pub help: &'static str,
    /// The value of a row.
    pub get: for<'a> fn(&'a Row, Context<'a>) -> Value<'a>,
}

impl Column {
    /// Its name in exported files, with the unit of its values.
    pub fn field(&self) -> String {
        let unit = match self.kind {
            ValueKind::BitRate => "bits_per_s",
            ValueKind::Rate => "per_s",
            ValueKind::Share | ValueKind::Ratio => "ratio",
            ValueKind::Duration => "ns",
            _ => return self.name.to_owned(),
        };
        match self.name {
            "rate" => unit.to_owned(),
            "pps" => format!("packets_{unit}"),
            name => format!("{name}_{unit}"),
        }
    }
}

/// Prerequisite of the values of a column: without it the column appears only when it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnNeeds {
    /// Packets, which there always are.
    Packets,
    /// Latencies.
    Latency,
    /// Processes of queue pairs.
    Owners,
}

/// Column whose fields a declaration leaves as they are here.
const COLUMN: Column = Column {
    id: Id::State,
    name: "",
    aliases: &[],
    title: "",
    kind: ValueKind::Text,
    width: 0,
    rank: 0,
    needs: ColumnNeeds::Packets,
    about: NOTHING,
    help: "",
    get: |_, _| Value::Unknown,
};

/// A column with the width it has on this screen.
#[derive(Clone, Copy, Debug)]
pub struct FittedColumn {
    /// Column that is shown.
    pub column: &'static Column,
    /// Width in cells.
    pub width: u16,
}

/// The column of an id.
pub fn column(id: Id) -> &'static Column {
    // A test looks for every id in the table.
    COLUMNS.iter().find(|column| column.id == id).unwrap_or(&COLUMNS[0])
}

/// The column of a name.
pub fn by_name(name: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.name == name || column.aliases.contains(&name))
}

/// The data of a cell besides its row.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Model of the snapshot shown.
    pub model: &'a Model,
    /// Newest sample of the source.
    pub sample: &'a Sample,
}

impl<'a> Context<'a> {
    pub(in crate::tui) fn flow(&self, row: &Row) -> Option<&'a Stats> {
        self.sample.flows.get(row.at?).map(|flow| &flow.stats)
    }

    /// Owner of the row's queue pair, where the kernel knows it.
    pub fn owner(&self, row: &Row) -> Option<&'a QpOwner> {
        if self.sample.owners.all().is_empty() {
            return None;
        }
        self.sample.flows.get(row.at?).and_then(|flow| self.sample.owned(flow)).map(|owned| owned.owner)
    }
}

/// Names of the states, for filters: without a problem, by problem, and by problem with the sign for more than one.
fn states() -> &'static [String] {
    static STATES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let kinds = || Problem::ALL.iter().map(|kind| kind.word().to_lowercase());
        let healthy = ["ok", "idle"].map(str::to_owned);
        healthy.into_iter().chain(kinds()).chain(kinds().map(|kind| format!("{kind}+"))).collect()
    });
    &STATES
}

/// The states of a row, as bits of [`states`]: each kind of finding about it, and with the sign the one shown; none
/// while the state is unknown.
pub(super) fn state_bits(row: &Row) -> u64 {
    const HEALTHY: usize = 2;
    const KINDS: usize = Problem::ALL.len();
    let state = State::of(row);
    let Some(worst) = state.worst else {
        return match state.active {
            Some(false) => 0b10,
            _ => u64::from(state.known()),
        };
    };
    let bits = Problem::ALL.iter().enumerate().map(|(at, kind)| {
        let plain = u64::from(state.has(*kind)) << (HEALTHY + at);
        let more = u64::from(state.more && *kind == worst) << (HEALTHY + KINDS + at);
        plain | more
    });
    bits.fold(0, |all, bits| all | bits)
}

/// The state's name in exports and filters, whether it lasts or not.
fn state_name(state: State) -> String {
    match (state.worst, state.active) {
        (Some(kind), _) => kind.word().to_lowercase(),
        (None, Some(false)) => "idle".into(),
        (None, _) => "ok".into(),
    }
}

/// True if the finding about a row lasts, and the names of all kinds that are about it; for exports. `None` while
/// unknown or where there is none.
pub(super) fn state_details(row: &Row) -> (Option<bool>, Option<String>) {
    let state = State::of(row);
    let kinds = Problem::ALL.iter().filter(|kind| state.has(**kind));
    let names = kinds.map(|kind| kind.word().to_lowercase()).collect::<Vec<_>>().join(" ");
    (state.worst.map(|_| state.present), Some(names).filter(|names| !names.is_empty()))
}

/// The state as a word: upper case while it lasts.
fn state_cell(state: State) -> (String, Style) {
    match (state.worst, state.active) {
        (Some(kind), _) => {
            let more = if state.more { "+" } else { "" };
            if state.present {
                (format!("{}{more}", kind.word()), theme::badge(state.level()))
            } else {
                (format!("{}{more}", kind.word().to_lowercase()), theme::DIM)
            }
        }
        (None, Some(false)) => ("idle".into(), theme::DIM),
        (None, _) => ("ok".into(), theme::PLAIN),
    }
}

/// Name and PID of a process, as far as they are known.
pub fn process(owner: &QpOwner) -> Option<String> {
    match (&owner.comm, owner.pid) {
        (Some(comm), Some(pid)) => Some(format!("{comm} ({pid})")),
        (Some(comm), None) => Some(comm.clone()),
        (None, pid) => pid.map(|pid| format!("process {pid}")),
    }
}

/// Three significant digits without a space: `1.25k`.
pub fn compact(n: f64) -> String {
    units::si(n).replace(' ', "")
}

/// A bar of `width` cells, filled by `share` to the half of a cell; any share above 0 shows. Lines, so that bars below
/// one another stay apart.
pub fn bar(share: f64, width: u16) -> String {
    let halves = (share.min(1.0) * f64::from(width) * 2.0).round();
    let halves = if share > 0.0 { halves.max(1.0) } else { 0.0 };
    let part = |i: u16| match halves - f64::from(i) * 2.0 {
        2.0.. => '━',
        1.0..2.0 => '╸',
        _ => '·',
    };
    (0..width).map(part).collect()
}

/// The name of a link, with its direction.
pub fn link_name(link: &LinkRow) -> String {
    match link.direction {
        Some(crate::sample::Direction::Ingress) => format!("{} in", link.name),
        Some(crate::sample::Direction::Egress) => format!("{} out", link.name),
        None => link.name.clone(),
    }
}

/// The same as it is shown: a capture file without its ending, as in the titles of findings.
pub fn shown_link(link: &LinkRow) -> String {
    match link.direction {
        Some(_) => link_name(link),
        None => tap_name(&link.name),
    }
}

/// Order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortOrder {
    /// The column sorted by.
    pub by: Id,
    /// True for the largest first.
    pub descending: bool,
}

impl SortOrder {
    /// By a column in its natural direction.
    pub fn by(id: Id) -> Self {
        Self { by: id, descending: column(id).kind.largest_first() }
    }
}

impl Default for SortOrder {
    fn default() -> Self {
        Self::by(Id::State)
    }
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn a_bar_is_filled_to_the_half_of_a_cell() {
        let bars = [(0.0, "····"), (1e-9, "╸···"), (0.2, "━···"), (0.25, "━···"), (0.4, "━╸··")];
        for (share, text) in bars.into_iter().chain([(0.5, "━━··"), (0.99, "━━━━"), (7.0, "━━━━")])
        {
            assert_eq!(bar(share, 4), text, "{share}");
        }
        assert_eq!(bar(f64::NAN, 2), "··");
    }
}
