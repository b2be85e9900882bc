//! The question whether a table has the rows of a file already.
//!
//! A block of rows is inserted as a whole. The first and the last row of the file stand for all: equal in every known
//! number and short text, they are no rows of another file, as a time has nanoseconds. The number of rows is that of a
//! file of several blocks, whose last may be missing.

use std::fs::File;
use std::path::Path;

use parquet::errors::ParquetError;

use crate::record::cell::{Cell, CellKind};
use crate::record::parquet::Groups;
use crate::record::registry::Rows;
use crate::record::table::{Row, Table, Visit};

/// Longest text that is compared, in bytes: JSON of findings would make a question of many kilobytes.
const LONGEST: usize = 64;
/// Beginning of the condition of a row's host.
const HOST: &str = "`host` = ";

/// The statement that returns 1 if the table has the rows of the file, else 0. `None` if the file has no rows, or none
/// of the table.
pub(super) fn question(table: &Table, file: &Path) -> Option<String> {
    let mut ends = Ends { table, file, question: None };
    Rows::default().visit(&mut ends).ok()?;
    ends.question
}

struct Ends<'a> {
    table: &'a Table,
    file: &'a Path,
    question: Option<String>,
}

impl Visit for Ends<'_> {
    type Error = ParquetError;

    fn rows<R: Row>(&mut self, _: &mut Vec<R>) -> Result<(), ParquetError> {
        let name = R::TABLE.name;
        if self.table.name != name {
            return Ok(());
        }
        let mut groups = Groups::new(File::open(self.file)?)?;
        let (mut first, mut last): (Option<R>, Option<R>) = (None, None);
        let (mut count, mut from, mut to) = (0, u64::MAX, 0);
        while let Some(mut rows) = groups.next_rows::<R>()? {
            count += rows.len();
            for row in &rows {
                (from, to) = (from.min(row.t().0), to.max(row.t().0));
            }
            last = rows.pop().or(last);
            first = first.or_else(|| rows.into_iter().next());
        }
        let Some(last) = last else { return Ok(()) };
        let last = conditions(&last);
        let first = first.map_or_else(|| last.clone(), |row| conditions(&row));
        let host = first.iter().filter(|condition| condition.starts_with(HOST));
        let range = [format!("t BETWEEN {} AND {}", moment(from), moment(to))];
        let place: Vec<&str> = range.iter().chain(host).map(String::as_str).collect();
        self.question = Some(format!(
            "SELECT countIf({}) > 0 AND countIf({}) > 0 AND count() >= {count} FROM {name} WHERE {} FORMAT TabSeparated",
            first.join(" AND "),
            last.join(" AND "),
            place.join(" AND ")
        ));
        Ok(())
    }
}

/// Every known number and short text of a row. Engines read fractions with errors of their own.
fn conditions<R: Row>(row: &R) -> Vec<String> {
    let mut all = Vec::new();
    let mut columns = R::TABLE.columns.iter();
    row.cells(&mut |cell| {
        let Some(column) = columns.next() else { return };
        let value = match cell {
            Cell::Int(number) if column.kind == CellKind::Time => moment(number),
            Cell::Int(number) => number.to_string(),
            Cell::Text(text) if text.len() <= LONGEST || column.name == "host" => {
                format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
            }
            Cell::Text(_) | Cell::Float(_) | Cell::Null => return,
        };
        all.push(format!("`{}` = {value}", column.name));
    });
    all
}

/// Unix time in nanoseconds as ClickHouse takes it.
fn moment(ns: impl std::fmt::Display) -> String {
    format!("fromUnixTimestamp64Nano(toInt64({ns}))")
}
