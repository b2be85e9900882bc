//! Declaration of tables: columns and row types.

use super::cell::{Cell, CellKind, Time};

/// Name, type and meaning of a column.
#[derive(Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: CellKind,
    /// True if it may be null (unknown).
    pub nullable: bool,
    /// Unit of the values; empty without one.
    pub unit: &'static str,
    /// Report field with the same figure; counts are its increase in the interval. Empty without such a field.
    pub source: &'static str,
    /// Meaning, and when it is null.
    pub help: &'static str,
}

/// Name and columns of a table.
#[derive(Debug)]
pub struct Table {
    /// Name, which is also that of its folder.
    pub name: &'static str,
    /// Meaning of a row.
    pub help: &'static str,
    /// Its columns, in order.
    pub columns: &'static [Column],
}

/// A row of a table.
pub trait Row: Sized {
    /// The table.
    const TABLE: &'static Table;

    /// Time of the row.
    fn t(&self) -> Time;

    /// Passes the values to `put`, in the order of the columns.
    fn cells(&self, put: &mut dyn FnMut(Cell));

    /// Builds a row from values; `None` if a value is missing, out of range, or null in a non-nullable column.
    fn of(cells: &mut dyn Iterator<Item = Cell>) -> Option<Self>;
}

/// An operation on the rows of every table.
pub trait Visit {
    /// Error of the operation.
    type Error;

    /// Processes the rows of one table.
    ///
    /// # Errors
    /// An error ends the visit.
    fn rows<R: Row>(&mut self, rows: &mut Vec<R>) -> Result<(), Self::Error>;
}

/// Declares tables: their row types and columns.
macro_rules! tables {
    ($(
        $(#[$attribute:meta])?
        $row:ident = $table:ident, $help:literal {
            $( $column:ident: $kind:ty, $unit:literal, $source:literal, $meaning:literal; )+
        }
    )+) => {
        $(
            #[doc = $help]
            $(#[$attribute])?
            #[derive(Clone, Debug, PartialEq)]
            pub struct $row {
                $( #[doc = $meaning] pub $column: $kind, )+
            }

            impl $crate::record::table::Row for $row {
                const TABLE: &'static $crate::record::table::Table = &$crate::record::table::Table {
                    name: stringify!($table),
                    help: $help,
                    columns: &[$(
                        $crate::record::table::Column {
                            name: stringify!($column),
                            kind: <$kind as $crate::record::cell::Value>::KIND,
                            nullable: <$kind as $crate::record::cell::Value>::NULLABLE,
                            unit: $unit,
                            source: $source,
                            help: $meaning,
                        },
                    )+],
                };

                fn t(&self) -> $crate::record::cell::Time {
                    self.t
                }

                fn cells(&self, put: &mut dyn FnMut($crate::record::cell::Cell)) {
                    $( put($crate::record::cell::Value::cell(&self.$column)); )+
                }

                fn of(cells: &mut dyn Iterator<Item = $crate::record::cell::Cell>) -> Option<Self> {
                    Some(Self {
                        $( $column: <$kind as $crate::record::cell::Value>::of(cells.next()?)?, )+
                    })
                }
            }
        )+

        /// All tables.
        pub const TABLES: &[&$crate::record::table::Table] =
            &[$( <$row as $crate::record::table::Row>::TABLE ),+];

        /// Rows of all tables.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Rows {
            $( #[doc = $help] pub $table: Vec<$row>, )+
        }

        impl Rows {
            /// Total number of rows.
            pub fn len(&self) -> usize {
                [$( self.$table.len() ),+].into_iter().sum()
            }

            /// True if there are no rows.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Adds other rows.
            pub fn append(&mut self, mut more: Self) {
                $( self.$table.append(&mut more.$table); )+
            }

            /// Visits the rows of each table, in the order of [`TABLES`].
            ///
            /// # Errors
            /// The visitor's first error.
            pub fn visit<V: $crate::record::table::Visit>(&mut self, visitor: &mut V) -> Result<(), V::Error> {
                $( visitor.rows(&mut self.$table)?; )+
                Ok(())
            }

            /// Visits the rows of the tables that differ from those before, also where there are none now.
            ///
            /// # Errors
            /// The visitor's first error.
            pub fn visit_changed<V: $crate::record::table::Visit>(
                &mut self,
                before: &Self,
                visitor: &mut V,
            ) -> Result<(), V::Error> {
                $( if self.$table != before.$table { visitor.rows(&mut self.$table)?; } )+
                Ok(())
            }
        }
    };
}
