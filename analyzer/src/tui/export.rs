//! What is shown, as a file: the table of a screen as CSV or JSON, or packets as pcapng.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::app::{Action, App, File};
use super::column::{self, Context, Id};
use super::log;
use super::screen::Screen;
use super::table::Group;
use crate::packet::pcapng;
use crate::sample::address;
use crate::units;

/// The form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Comma-separated values with a line of names.
    Csv,
    /// An array of objects.
    Json,
}

/// A table to be written: names, and values by row; null is what is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// Names of the columns.
    pub names: Vec<String>,
    /// Values by row.
    pub rows: Vec<Vec<Value>>,
}

impl Sheet {
    fn new(names: &[&str]) -> Self {
        Self { names: names.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() }
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
            // A spreadsheet would take such a cell for a formula.
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

impl App {
    pub(super) fn export(&mut self, form: Form) -> Action {
        let sheet = match self.screen {
            Screen::Overview | Screen::Qps | Screen::Detail | Screen::Bursts => self.flows_sheet(),
            Screen::Matrix => self.matrix_sheet(),
            Screen::Links => self.links_sheet(),
            Screen::Events => self.events_sheet(),
            Screen::Findings => self.findings_sheet(),
        };
        if sheet.rows.is_empty() {
            self.answer = Some("there is nothing here to write".into());
            return Action::Draw;
        }
        let what = match self.screen {
            Screen::Matrix => "matrix",
            Screen::Links => "links",
            Screen::Events => "events",
            Screen::Findings => "findings",
            _ => "qps",
        };
        let (ending, bytes) = match form {
            Form::Csv => ("csv", sheet.csv()),
            Form::Json => ("json", sheet.json()),
        };
        let time = self.data.as_ref().map_or(0, |data| data.model.time_ns);
        Action::Write(File {
            name: format!("rocescope-{what}-{}", units::stamp_utc(time)),
            ending,
            what: units::plural(sheet.rows.len() as u64, "row"),
            bytes: bytes.into_bytes(),
        })
    }

    /// Every column of the rows shown, in the order shown. Rates are per second, ratios fractions of 1.
    #[must_use]
    pub fn flows_sheet(&self) -> Sheet {
        let Some(data) = &self.data else { return Sheet::default() };
        let cx = Context { model: &data.model, sample: &data.sample };
        let grouped = self.table.group != Group::None;
        let mut sheet = Sheet::default();
        let columns: Vec<&column::Column> = column::COLUMNS
            .iter()
            .filter(|c| !matches!(c.id, Id::Share) && (!grouped || column::sums_up(c.id)))
            .collect();
        if grouped {
            sheet.names = vec!["group".into(), "flows".into()];
        }
        sheet.names.extend(columns.iter().map(|column| column.name.to_owned()));
        for index in &self.table.order {
            let sum = if grouped { self.group_sum(*index) } else { None };
            let row = sum.as_ref().map(|sum| &sum.row).or_else(|| data.model.rows.get(*index));
            let Some(row) = row.filter(|_| sum.is_some() == grouped) else { continue };
            let mut cells =
                sum.as_ref().map_or_else(Vec::new, |sum| vec![json!(sum.name.to_string()), json!(sum.flows)]);
            cells.extend(columns.iter().map(|column| column::json(column.id, row, cx)));
            sheet.rows.push(cells);
        }
        sheet
    }

    fn matrix_sheet(&self) -> Sheet {
        let mut sheet = Sheet::new(&[
            "src",
            "dst",
            "flows",
            "bytes",
            "bits_per_s",
            "ce_ratio",
            "missing",
            "lost",
            "sequence_naks",
            "latency_p99_ns",
        ]);
        let cells = self.data.iter().flat_map(|data| data.matrix.iter());
        sheet.rows = cells
            .map(|(src, dst, cell)| {
                vec![
                    json!(src),
                    json!(dst),
                    json!(cell.flows),
                    json!(cell.counts.bytes),
                    json!(cell.value(super::matrix::Metric::Rate)),
                    json!(cell.counts.ce_ratio()),
                    json!(cell.counts.missing),
                    json!(cell.counts.lost),
                    json!(cell.counts.sequence_naks),
                    json!(cell.latency_ns),
                ]
            })
            .collect();
        sheet
    }

    fn links_sheet(&self) -> Sheet {
        let mut sheet = Sheet::new(&[
            "link",
            "direction",
            "flows",
            "bits_per_s",
            "packets_per_s",
            "ce_ratio",
            "packets",
            "bytes",
            "skipped_packets",
        ]);
        let links = self.data.iter().flat_map(|data| &data.model.links);
        sheet.rows = links
            .map(|link| {
                vec![
                    json!(link.name),
                    json!(link.direction.map(crate::report::direction_name)),
                    json!(link.flows),
                    json!(link.delta.map(|d| d.bits_per_s())),
                    json!(link.delta.map(|d| d.packets_per_s())),
                    json!(link.delta.and_then(|d| d.counts.ce_ratio())),
                    json!(link.total.packets),
                    json!(link.total.bytes),
                    json!(link.skipped.packets),
                ]
            })
            .collect();
        sheet
    }

    fn events_sheet(&self) -> Sheet {
        let mut sheet =
            Sheet::new(&["first_ns", "last_ns", "event", "src", "dst", "dest_qp", "count", "text"]);
        sheet.rows = self
            .shown_events()
            .map(|log::Listed { entry, stand }| {
                let key = &entry.key;
                vec![
                    json!(entry.first_ns),
                    json!(stand.time_ns),
                    json!(entry.class.word),
                    json!(address(key.family, key.src)),
                    json!(address(key.family, key.dst)),
                    json!(key.dest_qp),
                    json!(stand.count),
                    json!(stand.text),
                ]
            })
            .collect();
        sheet
    }

    fn findings_sheet(&self) -> Sheet {
        let mut sheet =
            Sheet::new(&["id", "severity", "title", "evidence", "flows", "advice", "last_seen_ns"]);
        let findings = self.concluded().map_or(&[][..], |concluded| concluded.findings).iter();
        sheet.rows = findings
            .map(|finding| {
                vec![
                    json!(finding.id),
                    json!(finding.severity),
                    json!(finding.title),
                    json!(finding.evidence),
                    json!(finding.flows),
                    json!(finding.advice),
                    json!(finding.last_seen_ns),
                ]
            })
            .collect();
        sheet
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
                Some("no packet headers are kept of this queue pair: it had no NAK, RNR, gap or CNP".into());
            return Action::Draw;
        }
        let time = self.data.as_ref().map_or(0, |data| data.model.time_ns);
        let qp = selected.map_or_else(|| "all".to_owned(), |(key, _)| format!("qp{}", key.dest_qp));
        Action::Write(File {
            name: format!("rocescope-{qp}-{}", units::stamp_utc(time)),
            ending: "pcapng",
            what: units::plural(count as u64, "packet header"),
            bytes,
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
