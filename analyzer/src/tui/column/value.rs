//! The typed value of a column: it decides the text of a cell, the sort order, exports and comparisons.

use std::borrow::Cow;
use std::cmp::Reverse;

use ratatui::style::Style;
use serde_json::json;

use super::{Column, Context, bar, compact, link_name, shown_link, state_cell, state_name};
use crate::filter::Unit;
use crate::model::{Delta, Level, LinkRow, Row, State};
use crate::sample::Address;
use crate::tui::theme;
use crate::util::units;

/// The kind of a column's values. It decides alignment, initial sort order, and whether groups of queue pairs have a
/// sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// State of a flow.
    State,
    /// Bits per second.
    BitRate,
    /// Things per second.
    Rate,
    /// Share of a whole, shown as a bar.
    Share,
    /// Ratio, shown in percent.
    Ratio,
    /// Number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Duration.
    Duration,
    /// Identifier.
    Number,
    /// IP address.
    Address,
    /// Link.
    Link,
    /// Text.
    Text,
}

impl ValueKind {
    /// True if cells are aligned to the right.
    pub const fn right(self) -> bool {
        !matches!(self, Self::State | Self::Address | Self::Link | Self::Text)
    }

    /// True if the largest values come first initially.
    pub const fn largest_first(self) -> bool {
        !matches!(self, Self::Number | Self::Address | Self::Link | Self::Text)
    }

    /// True if several queue pairs together have a value.
    pub const fn sums_up(self) -> bool {
        self.largest_first() && !matches!(self, Self::Duration)
    }

    /// True if its sort keys need more than 64 bits.
    pub const fn is_wide(self) -> bool {
        matches!(self, Self::Address | Self::Text)
    }

    /// The unit of its values in filters.
    pub(in crate::tui) const fn unit(self) -> Unit {
        match self {
            Self::State => Unit::Words(super::states),
            Self::BitRate => Unit::BitRate,
            Self::Rate => Unit::Rate,
            Self::Share | Self::Ratio => Unit::Ratio,
            Self::Count => Unit::Count,
            Self::Bytes => Unit::Bytes,
            Self::Duration => Unit::Duration,
            Self::Number => Unit::Number,
            Self::Address | Self::Link | Self::Text => Unit::Text,
        }
    }
}

/// Typed value of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Not known.
    Unknown,
    /// State of a flow.
    State(State),
    /// Bits or other things per second.
    Rate(f64),
    /// Share of a whole, from 0 to 1.
    Share(f64),
    /// Ratio, from 0 to 1.
    Ratio(f64),
    /// Number of things.
    Count(u64),
    /// Bytes.
    Bytes(u64),
    /// Duration in nanoseconds.
    Duration(u64),
    /// Lower bound of a duration in nanoseconds.
    LeastDuration(u64),
    /// Identifier.
    Number(u32),
    /// Identifier that the screen shows as a word.
    Special(u32, &'static str),
    /// Identifier, the first of several.
    First(u32),
    /// IP address.
    Address(Address),
    /// Link and its number.
    Link(u16, LinkName<'a>),
    /// Text.
    Text(Cow<'a, str>),
}

/// A link as a value; its name becomes text only where it is shown.
#[derive(Clone, Copy, Debug)]
pub struct LinkName<'a>(pub &'a LinkRow);

impl PartialEq for LinkName<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name && self.0.direction == other.0.direction
    }
}

/// Sort key of a row; the smaller comes first, and unknown values come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SortKey {
    pub(in crate::tui) major: u128,
    pub(in crate::tui) minor: Reverse<u64>,
}

impl<'a> Value<'a> {
    /// A known value, or [`Value::Unknown`].
    pub(super) fn of<T>(known: Option<T>, value: impl FnOnce(T) -> Self) -> Self {
        known.map_or(Self::Unknown, value)
    }

    /// A text, or [`Value::Unknown`].
    pub(super) fn text_of(known: Option<&'a str>) -> Self {
        Self::of(known, |text| Self::Text(Cow::Borrowed(text)))
    }

    /// The number to compare and to sort by, in units of one (bits, packets, nanoseconds, fractions of 1); `None` when
    /// it is unknown, or no number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Unknown | Self::Address(_) | Self::Text(_) => None,
            Self::State(state) => Some(f64::from(state.rank())),
            Self::Rate(n) | Self::Share(n) | Self::Ratio(n) => Some(*n),
            Self::Count(n) | Self::Bytes(n) | Self::Duration(n) | Self::LeastDuration(n) => Some(*n as f64),
            Self::Number(n) | Self::Special(n, _) | Self::First(n) => Some(f64::from(*n)),
            Self::Link(n, _) => Some(f64::from(*n)),
        }
    }

    /// The sign before its number: that of a lower bound.
    pub(in crate::tui) const fn sign(&self) -> &'static str {
        if matches!(self, Self::LeastDuration(_)) { units::LEAST } else { "" }
    }

    /// The value as exports hold it: a number, a text, or null when it is unknown.
    pub fn json(&self) -> serde_json::Value {
        match self {
            Self::Unknown => serde_json::Value::Null,
            Self::State(state) => json!(state_name(*state)),
            Self::Rate(n) | Self::Share(n) | Self::Ratio(n) => json!(n),
            Self::Count(n) | Self::Bytes(n) | Self::Duration(n) | Self::LeastDuration(n) => json!(n),
            Self::Number(n) | Self::Special(n, _) | Self::First(n) => json!(n),
            Self::Address(address) => json!(address),
            Self::Link(_, link) => json!(link_name(link.0)),
            Self::Text(text) => json!(text),
        }
    }

    /// True if it is a text that contains `part`, which is in lower case.
    pub fn contains(&self, part: &str) -> bool {
        match self {
            Self::Text(text) => text.to_lowercase().contains(part),
            Self::Link(_, link) => link_name(link.0).to_lowercase().contains(part),
            _ => false,
        }
    }

    /// Text and style of its cell. `level` is that of a count or ratio above 0.
    fn cell(&self, kind: ValueKind, level: Level) -> (String, Style) {
        let counted = |n: u64| if n == 0 { theme::DIM } else { theme::text(level) };
        match self {
            Self::Unknown => (units::UNKNOWN.to_owned(), theme::DIM),
            Self::State(state) => state_cell(*state),
            Self::Rate(n) if *n <= 0.0 => ("0".into(), theme::DIM),
            Self::Rate(n) if kind == ValueKind::BitRate => (compact(*n), theme::BOLD),
            Self::Rate(n) => (compact(*n), theme::text(level)),
            Self::Share(share) => (bar(*share, 8), theme::BAR),
            Self::Ratio(ratio) => {
                let style = match ratio {
                    r if *r <= 0.0 => theme::DIM,
                    _ => theme::text(level),
                };
                (units::ratio(Some(*ratio)).trim_end_matches(" %").to_owned(), style)
            }
            Self::Count(n) if *n < 100_000 => (n.to_string(), counted(*n)),
            Self::Count(n) => (compact(*n as f64), counted(*n)),
            Self::Bytes(n) => (units::bytes(*n), theme::PLAIN),
            Self::Duration(ns) => (units::duration(*ns).replace(' ', ""), theme::PLAIN),
            Self::LeastDuration(ns) => (least(*ns), theme::PLAIN),
            Self::Number(n) => (n.to_string(), theme::PLAIN),
            Self::Special(_, word) => ((*word).to_owned(), theme::DIM),
            Self::First(n) => (format!("{n}+"), theme::PLAIN),
            Self::Address(address) => (address.to_string(), theme::PLAIN),
            Self::Link(_, link) => (shown_link(link.0), theme::PLAIN),
            Self::Text(text) => (text.clone().into_owned(), theme::PLAIN),
        }
    }

    /// Its place among others.
    fn place(&self) -> Option<u128> {
        match self {
            Self::Address(address) => Some(address.bits()),
            Self::Text(text) => Some(beginning(text)),
            _ => self.number().map(|n| u128::from(float(n))),
        }
    }
}

/// The lower bound of a duration, with the digits for which its sign leaves room.
fn least(ns: u64) -> String {
    let text = units::duration(ns);
    let shorter = text.split_once('.').and_then(|(whole, rest)| {
        let (digits, unit) = rest.split_once(' ')?;
        let fewer = digits.get(..digits.len().checked_sub(1)?)?;
        let point = if fewer.is_empty() { "" } else { "." };
        Some(format!("{whole}{point}{fewer}{unit}"))
    });
    format!("{}{}", units::LEAST, shorter.unwrap_or_else(|| text.replace(' ', "")))
}

/// Floats that are not negative compare like their bits.
fn float(n: f64) -> u64 {
    n.max(0.0).to_bits()
}

/// Texts compare like their first sixteen bytes.
fn beginning(text: &str) -> u128 {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
    u128::from_be_bytes(bytes)
}

impl Column {
    /// The value of a row.
    pub fn value<'a>(&self, row: &'a Row, cx: Context<'a>) -> Value<'a> {
        (self.get)(row, cx)
    }

    /// Text and style of the cell of a row. Only an active finding about the counter that names the flow
    /// makes it stand out.
    pub fn cell(&self, row: &Row, cx: Context<'_>) -> (String, Style) {
        self.value(row, cx).cell(self.kind, row.judged.level_of(self.about))
    }

    /// The sort key of a row. Rows with equal values are sorted by rate.
    pub fn sort_key(&self, descending: bool, row: &Row, cx: Context<'_>) -> SortKey {
        let minor = Reverse(row.delta.as_ref().map_or(0, |d: &Delta| float(d.bits_per_s())));
        // The largest key is for unknown values.
        let most = if self.kind.is_wide() { u128::MAX } else { u128::from(u64::MAX) };
        let major = match self.value(row, cx).place() {
            Some(place) if descending => most - 1 - place.min(most - 1),
            Some(place) => place,
            None => most,
        };
        SortKey { major, minor }
    }
}
