//! Questions over the recordings of many hosts, answered by DuckDB or ClickHouse.
//!
//! | module | contents |
//! |---|---|
//! | [`question`] | the questions: SQL in a dialect that both engines accept, and the columns of the answers |
//! | [`recording`] | locations of the tables, and their declaration for an engine |
//! | [`engine`], [`server`] | run SQL on an engine of this host, or on a server; `excerpt`: their errors in short |
//! | [`cover`], `fewest` | a small set of hops that explains bad pairs of ports |
//! | [`answer`], `cell` | rows, and the confidence in them; a cell in words |
//! | `headline`, `coverage` | the sentence about the first row, or about what was looked at if nothing stands out |
//! | [`page`] | the answer as text, JSON and HTML |

pub mod answer;
mod cell;
pub mod cover;
mod coverage;
pub mod engine;
mod excerpt;
mod fewest;
mod headline;
pub mod page;
pub mod question;
pub mod recording;
pub mod server;

use serde_json::{Map, Value};

/// A row as returned by an engine.
pub type Row = Map<String, Value>;

/// A number in a row; engines write some numbers as text. `None`: unknown.
pub fn number(row: &Row, name: &str) -> Option<f64> {
    match row.get(name)? {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// A text in a row. Empty: unknown.
pub fn text<'a>(row: &'a Row, name: &str) -> &'a str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A number of an engine as a count.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn whole(number: f64) -> u64 {
    number.round().max(0.0) as u64
}
