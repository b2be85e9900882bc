//! Exports: the table of a screen as CSV or JSON, or packet headers as pcapng.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::app::{Action, App, Data, File};
use super::screen::Screen;
use super::table::Group;
use super::{log, sheet};
use crate::packet::pcapng;
use crate::util::units;

/// The form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Comma-separated values with a line of names.
    Csv,
    /// An array of objects.
    Json,
}

/// A table for export: names, and values by row; null is unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// Names of the columns.
    pub names: Vec<String>,
    /// Values by row.
    pub rows: Vec<Vec<Value>>,
}

impl Sheet {
    pub(super) fn new(names: &[&str]) -> Self {
        Self { names: names.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() }
    }

    /// As text.
    #[must_use]
    pub fn text(&self, form: Form) -> String {
        match form {
            Form::Csv => self.csv(),
            Form::Json => self.json(),
        }
    }

    /// As CSV (RFC 4180 with line feeds); null is empty.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = self.names.join(",");
        text.push('\n');
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(csv_cell).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", cells.join(","));
        }
        text
    }

    /// As JSON.
    #[must_use]
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

fn csv_cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => {
            // A spreadsheet reads such a cell as a formula.
            let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text.clone() };
            if text.contains([',', '"', '\n', '\r']) { quoted(&text) } else { text }
        }
        Value::Array(_) | Value::Object(_) => quoted(&value.to_string()),
        other => other.to_string(),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// The content of a file at the time the key is pressed; the thread that writes the file makes it into bytes.
#[derive(Clone, Debug)]
pub enum Content {
    /// Ready bytes.
    Bytes(Vec<u8>),
    /// A table.
    Sheet(Sheet, Form),
    /// Every column of these rows.
    Rows(Arc<Data>, Vec<usize>, Form),
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Sheet(a, in_form), Self::Sheet(b, form)) => (a, in_form) == (b, form),
            (Self::Rows(a, rows, in_form), Self::Rows(b, others, form)) => {
                Arc::ptr_eq(a, b) && (rows, in_form) == (others, form)
            }
            _ => false,
        }
    }
}

impl Content {
    /// The bytes to write.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Sheet(sheet, form) => sheet.text(form).into_bytes(),
            Self::Rows(data, rows, form) => sheet::of_rows(&data, &rows).text(form).into_bytes(),
        }
    }
}

impl App {
    pub(super) fn export(&mut self, form: Form) -> Action {
        let content = match &self.data {
            // With many rows this takes too long for a key.
            Some(data) if self.screen == Screen::Qps && self.table.group == Group::None => {
                Content::Rows(Arc::clone(&**data), self.table.order.clone(), form)
            }
            _ => Content::Sheet(self.sheet(), form),
        };
        let rows = match &content {
            Content::Bytes(_) => 0,
            Content::Sheet(sheet, _) => sheet.rows.len(),
            Content::Rows(_, order, _) => order.len(),
        };
        if rows == 0 {
            self.answer = Some("nothing to export on this screen".into());
            return Action::Draw;
        }
        let time = self.data.as_ref().map_or(0, |data| data.model.time_ns);
        Action::Write(File {
            name: format!("rocescope-{}-{}", self.screen.name(), units::stamp_utc(time)),
            ending: match form {
                Form::Csv => "csv",
                Form::Json => "json",
            },
            what: units::plural(rows as u64, "row"),
            content,
        })
    }

    /// The latest packet headers of the selected queue pair, both directions; without a selection, of all.
    pub(super) fn capture(&mut self) -> Action {
        let selected = match self.screen {
            Screen::Events => {
                let listed = self.events.selected.and_then(|at| self.shown_events().nth(at));
                listed.map(|listed| (listed.entry.key, None))
            }
            _ => self.data.as_ref().and_then(|data| match &data.detail {
                Some((detail, other)) => Some((detail.id.key, other.as_ref().map(|other| other.id.key))),
                None => self.table.selected.map(|id| (id.key, None)),
            }),
        };
        let of = |key: &rocescope_common::account::FlowKey| match &selected {
            None => true,
            Some((one, other)) => key == one || Some(*key) == *other,
        };
        let packets = self.log.packets().filter(|event| of(&event.key));
        let (bytes, count) = pcapng::file(packets, log::describe);
        if count == 0 {
            self.answer =
                Some("no packet headers stored for this queue pair: it had no NAK, RNR, gap or CNP".into());
            return Action::Draw;
        }
        let time = self.data.as_ref().map_or(0, |data| data.model.time_ns);
        let qp = selected.map_or_else(|| "all".to_owned(), |(key, _)| format!("qp{}", key.dest_qp));
        Action::Write(File {
            name: format!("rocescope-{qp}-{}", units::stamp_utc(time)),
            ending: "pcapng",
            what: units::plural(count as u64, "packet header"),
            content: Content::Bytes(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Sheet;
    use serde_json::{Value, json};

    #[test]
    fn cells_with_commas_quotes_and_formulas_are_safe() {
        let sheet = Sheet {
            names: vec!["a".into(), "b".into()],
            rows: vec![
                vec![json!("x, \"y\""), json!(1.5)],
                vec![json!("=1+1"), Value::Null],
                vec![json!({"k": "v"}), json!(["one"])],
            ],
        };
        assert_eq!(
            sheet.csv(),
            "a,b\n\"x, \"\"y\"\"\",1.5\n'=1+1,\n\"{\"\"k\"\":\"\"v\"\"}\",\"[\"\"one\"\"]\"\n"
        );
        let back: Vec<Value> = serde_json::from_str(&sheet.json()).unwrap();
        assert_eq!(back[1], json!({"a": "=1+1", "b": null}));
    }
}
