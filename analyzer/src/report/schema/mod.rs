//! JSON Schema of the report, made from its types.
//!
//! The doc comment of a field is its one definition: `Meaning. Unit: packets. Null: when it is null.` The schema has
//! the meaning as `description`, the other two as `x-unit` and `x-null`; docs/metrics.md is made from the schema. All
//! of it is needed by tests only, which keep both files up to date.

pub(crate) mod full;
mod markdown;
mod tests;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::report::Report;

/// Name of the schema: where it is published.
const ID: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/report.schema.json");

/// The schema of a report, draft 2020-12.
fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Report>();
    RecursiveTransform(split).transform(&mut schema);
    schema.insert("$id".to_owned(), ID.into());
    schema.insert("title".to_owned(), super::SCHEMA.into());
    schema.to_value()
}

/// The schema of the evidence of a finding: numbers and names, or lists of them, by name.
pub(crate) fn evidence(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "type": ["number", "string", "boolean", "array", "null"],
            "items": { "type": ["number", "string"] },
        },
    })
}

/// The schema of one measurement.
pub(crate) fn measurement(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["number", "string", "boolean", "array", "null"],
        "items": { "type": ["number", "string"] },
    })
}

/// Takes unit and condition of null out of a description.
fn split(schema: &mut Schema) {
    let Some(text) = schema.get("description").and_then(Value::as_str) else { return };
    // Lines end where the source breaks them.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (text, null) = text.split_once(" Null: ").unwrap_or((&text, ""));
    let (text, unit) = text.split_once(" Unit: ").unwrap_or((text, ""));
    for (key, value) in [("description", text), ("x-unit", unit), ("x-null", null)] {
        let value = if key == "description" { value } else { value.trim_end_matches('.') };
        if !value.is_empty() {
            schema.insert(key.to_owned(), value.into());
        }
    }
}
