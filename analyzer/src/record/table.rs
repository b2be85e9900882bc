//! What a table is: its columns, and rows of it.

use super::cell::{Cell, CellKind, Time};

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: CellKind,
    /// Whether it may be null: not known.
    pub nullable: bool,
    /// Unit of its values; empty where they have none.
    pub unit: &'static str,
    /// Field of the report with the same figure, of which counts are the increase in the interval; empty where there is none.
    pub source: &'static str,
    /// Meaning, and when it is null.
    pub help: &'static str,
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Its name, which is that of its folder.
    pub name: &'static str,
    /// What a row is.
    pub help: &'static str,
    /// Its columns, in order.
    pub columns: &'static [Column],
}

/// A row of a table.
pub trait Row: Sized {
    /// The table.
    const TABLE: &'static Table;

    /// Its time.
    fn t(&self) -> Time;

    /// Gives the values, in the order of the columns.
    fn cells(&self, put: &mut dyn FnMut(Cell));

    /// The row of these values; `None` where one is missing, null in a column that is not nullable, or out of range.
    fn of(cells: &mut dyn Iterator<Item = Cell>) -> Option<Self>;
}

/// What is done with the rows of every table.
pub trait Visit {
    /// What can fail.
    type Error;

    /// Does it with the rows of one.
    ///
    /// # Errors
    /// Ends the visit.
    fn rows<R: Row>(&mut self, rows: &mut Vec<R>) -> Result<(), Self::Error>;
}

/// Declares tables: the type of the rows, and from it the columns.
macro_rules! tables {
    ($(
        $row:ident = $table:ident, $help:literal {
            $( $column:ident: $kind:ty, $unit:literal, $source:literal, $meaning:literal; )+
        }
    )+) => {
        $(
            #[doc = $help]
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
            /// Number of rows.
            #[must_use]
            pub fn len(&self) -> usize {
                [$( self.$table.len() ),+].into_iter().sum()
            }

            /// Whether there are none.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Adds others.
            pub fn append(&mut self, mut more: Self) {
                $( self.$table.append(&mut more.$table); )+
            }

            /// Visits the rows of each table, in the order of [`TABLES`].
            ///
            /// # Errors
            /// The first of the visitor's.
            pub fn visit<V: $crate::record::table::Visit>(&mut self, visitor: &mut V) -> Result<(), V::Error> {
                $( visitor.rows(&mut self.$table)?; )+
                Ok(())
            }
        }
    };
}
