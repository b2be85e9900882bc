//! Questions over the recordings of many hosts, on an engine that reads them: DuckDB or ClickHouse.
//!
//! | module | contents |
//! |---|---|
//! | [`question`] | the questions: SQL that both engines read unchanged, and the columns of the answers |
//! | [`recording`] | where the tables are, and what makes them known to an engine |
//! | [`engine`], `server` | runs SQL on an engine of this host, or on a server |
//! | [`cover`] | the smallest set of hops that explains bad pairs of ports |
//! | [`answer`] | rows, the sentence about the first of them, and how sure it is |
//! | [`page`] | the answer as text, JSON and HTML |

pub mod answer;
pub mod cover;
pub mod engine;
pub mod page;
pub mod question;
pub mod recording;
mod server;

use serde_json::{Map, Value};

/// A row of an answer, as an engine gives it.
pub type Row = Map<String, Value>;

/// A number of a row. Engines write some as text. `None`: unknown.
#[must_use]
pub fn number(row: &Row, name: &str) -> Option<f64> {
    match row.get(name)? {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// A text of a row; empty: unknown.
#[must_use]
pub fn text<'a>(row: &'a Row, name: &str) -> &'a str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}
