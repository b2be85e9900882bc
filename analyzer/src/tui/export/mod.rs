//! Exported files: the table of a screen as CSV or JSON, or packet headers as pcapng.

pub mod clipboard;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::column::{self, Column, ValueKind};
use super::data::Data;
use crate::util::csv;

/// The form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Comma-separated values with a line of names.
    Csv,
    /// An array of objects.
    Json,
}

/// A file to be written to the working directory.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Its name without the ending; a number is appended where the name is taken.
    pub name: String,
    /// Extension of the file's name.
    pub ending: &'static str,
    /// Its contents in a few words, for the message.
    pub what: String,
    /// Contents of the file.
    pub content: Content,
}

/// A table for export: names, and values by row; null is unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExportTable {
    /// Names of the columns.
    pub names: Vec<String>,
    /// Rows of values, in the order of the columns.
    pub rows: Vec<Vec<Value>>,
}

impl ExportTable {
    pub(super) fn new(names: &[&str]) -> Self {
        Self { names: names.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() }
    }

    /// The sheet as text in a format.
    pub fn text(&self, form: Form) -> String {
        match form {
            Form::Csv => self.csv(),
            Form::Json => self.json(),
        }
    }

    /// As CSV (RFC 4180 with line feeds); null is empty.
    pub fn csv(&self) -> String {
        let rows = self.rows.iter().map(|row| csv::line(row.iter().map(csv::cell)));
        std::iter::once(csv::line(self.names.iter().cloned())).chain(rows).collect()
    }

    /// The sheet as JSON.
    pub fn json(&self) -> String {
        let object = |row: &Vec<Value>| {
            Value::Object(self.names.iter().cloned().zip(row.iter().cloned()).collect::<Map<_, _>>())
        };
        let rows: Vec<Value> = self.rows.iter().map(object).collect();
        let mut text = serde_json::to_string_pretty(&rows).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// The content of a file at the time the key is pressed; the thread that writes the file makes it into bytes.
#[derive(Clone, Debug)]
pub enum Content {
    /// The bytes of the file.
    Bytes(Vec<u8>),
    /// A table.
    Table(ExportTable, Form),
    /// Every column of these rows.
    Rows(Arc<Data>, Vec<usize>, Form),
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Table(a, in_form), Self::Table(b, form)) => (a, in_form) == (b, form),
            (Self::Rows(a, rows, in_form), Self::Rows(b, others, form)) => {
                Arc::ptr_eq(a, b) && (rows, in_form) == (others, form)
            }
            _ => false,
        }
    }
}

impl Content {
    /// The bytes to write.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Table(table, form) => table.text(form).into_bytes(),
            Self::Rows(data, rows, form) => of_rows(&data, &rows).text(form).into_bytes(),
        }
    }
}

/// Every column of these rows. Rates are per second, ratios fractions of 1.
pub(super) fn of_rows(data: &Data, rows: &[usize]) -> ExportTable {
    let cx = data.context();
    let columns: Vec<&Column> = columns(false).collect();
    let rows = rows.iter().filter_map(|index| data.model.rows.get(*index));
    // The cell of the state has three facts in one word.
    let details = ["state_active", "states"].map(str::to_owned);
    let values = |row| {
        let (active, kinds) = column::state_details(row);
        let values = columns.iter().map(|column| column.value(row, cx).json());
        values.chain([json!(active), json!(kinds)]).collect()
    };
    ExportTable {
        names: columns.iter().map(|column| column.field()).chain(details).collect(),
        rows: rows.map(values).collect(),
    }
}

/// Columns of rows, or of groups.
pub(super) fn columns(grouped: bool) -> impl Iterator<Item = &'static Column> {
    column::COLUMNS.iter().filter(move |c| c.kind != ValueKind::Share && (!grouped || c.kind.sums_up()))
}

#[cfg(test)]
mod tests {
    use super::ExportTable;
    use serde_json::{Value, json};

    #[test]
    fn cells_with_commas_quotes_and_formulas_are_safe() {
        let table = ExportTable {
            names: vec!["a".into(), "b".into()],
            rows: vec![
                vec![json!("x, \"y\""), json!(1.5)],
                vec![json!("=1+1"), Value::Null],
                vec![json!({"k": "v"}), json!(["one"])],
            ],
        };
        assert_eq!(
            table.csv(),
            "a,b\n\"x, \"\"y\"\"\",1.5\n'=1+1,\n\"{\"\"k\"\":\"\"v\"\"}\",\"[\"\"one\"\"]\"\n"
        );
        let back: Vec<Value> = serde_json::from_str(&table.json()).unwrap();
        assert_eq!(back[1], json!({"a": "=1+1", "b": null}));
    }
}
