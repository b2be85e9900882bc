//! One unit for the values of a column, which its title names.

use super::{Column, Context, Id, ValueKind};
use crate::model::Row;
use crate::util::units::Scale;

/// The unit of a column over the rows in view.
pub(in crate::tui) struct Unit {
    scale: Scale,
    /// Title of the column with the unit.
    pub(in crate::tui) title: String,
}

impl Unit {
    /// `None` for a column without one, or whose title with it has no room in `width` columns of the screen.
    pub(in crate::tui) fn of(column: &Column, width: u16, rows: &[&Row], cx: Context<'_>) -> Option<Self> {
        let known: Vec<f64> = rows.iter().filter_map(|row| column.value(row, cx).number()).collect();
        if known.is_empty() {
            return None;
        }
        let scale = match column.kind {
            ValueKind::Duration => Scale::of_ns(known),
            ValueKind::Ratio => Scale::of_ratios(known),
            _ => Scale::of(known),
        };
        let prefix = scale.prefix();
        let title = match column.kind {
            ValueKind::BitRate => format!("{prefix}b/s"),
            ValueKind::Bytes => format!("{prefix}B"),
            ValueKind::Rate if column.id == Id::PacketRate => format!("{prefix}pkt/s"),
            ValueKind::Duration => format!("{} {}", column.title, scale.time_unit()),
            // Their titles have the unit: as many decimals in each row.
            ValueKind::Ratio => column.title.to_owned(),
            ValueKind::Rate if prefix.is_empty() => column.title.to_owned(),
            _ => return None,
        };
        (title.chars().count() <= usize::from(width)).then_some(Self { scale, title })
    }

    /// The value of a row in this unit.
    pub(in crate::tui) fn show(&self, column: &Column, row: &Row, cx: Context<'_>) -> String {
        let value = column.value(row, cx);
        let number = value.number();
        let is_percent = column.kind == ValueKind::Ratio;
        let text = if is_percent { self.scale.show_percent(number) } else { self.scale.show(number) };
        format!("{}{text}", value.sign())
    }
}
