//! Values of columns, and their types in Parquet.

use crate::analysis::direction_name;
use crate::sample::{Address, Direction};
use crate::util::shared::Shared;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellKind {
    /// Unix time: `TIMESTAMP(NANOS, UTC)` on INT64.
    Time,
    /// An integer: INT64. Signed, since not every engine has unsigned 64-bit integers; counts beyond 2^63 do not
    /// occur.
    Int,
    /// A floating-point number: DOUBLE.
    Float,
    /// UTF-8 text.
    Text,
}

impl CellKind {
    /// Name in the documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "timestamp",
            Self::Int => "integer",
            Self::Float => "float",
            Self::Text => "text",
        }
    }
}

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Unknown.
    Null,
    /// A time or an integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Text(Shared),
}

/// A Rust type for column values.
pub trait Value: Sized {
    /// Type of its columns.
    const KIND: CellKind;
    /// True if its columns may be null.
    const NULLABLE: bool = false;

    /// Converts to a cell.
    fn cell(&self) -> Cell;

    /// Converts from a cell; `None` if it has another type or is out of range.
    fn of(cell: Cell) -> Option<Self>;
}

/// Unix time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Value for Time {
    const KIND: CellKind = CellKind::Time;

    fn cell(&self) -> Cell {
        self.0.cell()
    }

    fn of(cell: Cell) -> Option<Self> {
        u64::of(cell).map(Self)
    }
}

impl Value for u64 {
    const KIND: CellKind = CellKind::Int;

    fn cell(&self) -> Cell {
        Cell::Int(i64::try_from(*self).unwrap_or(i64::MAX))
    }

    fn of(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Int(number) => Self::try_from(number).ok(),
            _ => None,
        }
    }
}

impl Value for i64 {
    const KIND: CellKind = CellKind::Int;

    fn cell(&self) -> Cell {
        Cell::Int(*self)
    }

    fn of(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Int(number) => Some(number),
            _ => None,
        }
    }
}

impl Value for f64 {
    const KIND: CellKind = CellKind::Float;

    fn cell(&self) -> Cell {
        Cell::Float(*self)
    }

    fn of(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Float(number) => Some(number),
            _ => None,
        }
    }
}

impl Value for Shared {
    const KIND: CellKind = CellKind::Text;

    fn cell(&self) -> Cell {
        Cell::Text(self.clone())
    }

    fn of(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl<T: Value> Value for Option<T> {
    const KIND: CellKind = T::KIND;
    const NULLABLE: bool = true;

    fn cell(&self) -> Cell {
        self.as_ref().map_or(Cell::Null, T::cell)
    }

    fn of(cell: Cell) -> Option<Self> {
        match cell {
            Cell::Null => Some(None),
            known => T::of(known).map(Some),
        }
    }
}

/// Implements [`Value`] for types that are stored as text.
macro_rules! text {
    ($kind:ty, |$value:ident| $write:expr, |$text:ident| $read:expr) => {
        impl Value for $kind {
            const KIND: CellKind = CellKind::Text;

            fn cell(&self) -> Cell {
                let $value = self;
                Cell::Text(Shared::from($write))
            }

            fn of(cell: Cell) -> Option<Self> {
                match cell {
                    Cell::Text($text) => $read,
                    _ => None,
                }
            }
        }
    };
}

text!(Address, |address| address.to_string().as_str(), |text| text.parse().ok());
text!(Direction, |direction| direction_name(*direction), |text| match text.as_str() {
    "ingress" => Some(Self::Ingress),
    "egress" => Some(Self::Egress),
    _ => None,
});
