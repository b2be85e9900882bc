//! Validates reports against docs/report.schema.json with an independent validator.

use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow};
use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

/// Name of the schema in reports.
const REPORT: &str = "rocescope.report/1";

const PUBLISHED: &str = include_str!("../../docs/report.schema.json");

/// The compiled schema, or the reason why it is invalid.
static COMPILED: LazyLock<Result<(Schemas, SchemaIndex), String>> = LazyLock::new(|| {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let schema = serde_json::from_str(PUBLISHED).map_err(|error| error.to_string())?;
    compiler.add_resource(REPORT, schema).map_err(|error| error.to_string())?;
    let index = compiler.compile(REPORT, &mut schemas).map_err(|error| format!("{error:#}"))?;
    Ok((schemas, index))
});

/// Checks that a report matches the published schema.
///
/// # Errors
/// All fields that do not match.
pub fn check(report: &Value) -> Result<()> {
    let (schemas, index) = COMPILED.as_ref().map_err(|error| anyhow!("report.schema.json: {error}"))?;
    schemas.validate(report, *index).map_err(|error| anyhow!("{error:#}"))
}

/// Parses JSON written by the program. Reports must match the published schema.
pub fn read(json: &(impl AsRef<[u8]> + ?Sized)) -> Result<Value> {
    let json = json.as_ref();
    let no_json = || format!("no JSON: {}", String::from_utf8_lossy(json));
    let value: Value = serde_json::from_slice(json).with_context(no_json)?;
    if value["schema"] == REPORT {
        check(&value)?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_report_is_refused() {
        let error = check(&serde_json::json!({ "schema": REPORT, "flows": {} })).unwrap_err().to_string();
        assert!(error.contains("totals") && error.contains("/flows"), "{error}");
        assert!(read(&format!("{{ \"schema\": \"{REPORT}\" }}")).is_err());
        assert!(read("{ \"schema\": \"rocescope.doctor/1\" }").is_ok());
    }
}
