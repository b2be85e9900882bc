use std::collections::BTreeSet;

use serde_json::Value;

use super::full::full;
use super::markdown::{EVENTS, fields, markdown, target};
use super::{ID, schema};
use crate::analysis::fixtures::{document, everything, sample};
use crate::report::{Options, Report};

/// Fields of `value` that are not null, and whose lists have elements, as (type, field).
///
/// # Panics
/// Where `value` has a field that the schema does not have.
fn occurring(
    value: &Value,
    name: &str,
    root: &Value,
    schema: &Value,
    found: &mut BTreeSet<(String, String)>,
) {
    let (inner, schema) = target(root, schema);
    let name = inner.unwrap_or(name);
    match value {
        Value::Object(fields) if schema.get("properties").is_some() => {
            for (field, value) in fields {
                let schema = schema["properties"].get(field);
                let schema = schema.unwrap_or_else(|| panic!("{name}.{field} is not in the schema"));
                if !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()) {
                    found.insert((name.to_owned(), field.clone()));
                }
                occurring(value, name, root, schema, found);
            }
        }
        Value::Array(elements) => {
            for element in elements {
                occurring(element, name, root, &schema["items"], found);
            }
        }
        _ => {}
    }
}

/// All objects of the schema.
fn objects(root: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let inner = root["$defs"].as_object().unwrap().iter().map(|(name, object)| (name.as_str(), object));
    [("Report", root)].into_iter().chain(inner).filter(|(_, object)| object.get("properties").is_some())
}

/// Whether a value of this schema, or of one beneath that has no name, may be null.
fn nullable(schema: &Value) -> bool {
    let null = |kind: &Value| kind == "null" || kind["type"] == "null";
    ["type", "anyOf"].iter().any(|key| schema[key].as_array().is_some_and(|all| all.iter().any(null)))
        || ["items", "additionalProperties"].iter().any(|key| schema.get(key).is_some_and(nullable))
}

/// The schema in a validator that is not ours, which also checks the schema itself.
fn validator() -> (boon::Schemas, boon::SchemaIndex) {
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.add_resource(ID, schema()).unwrap();
    let index = compiler.compile(ID, &mut schemas).unwrap();
    (schemas, index)
}

#[test]
fn schema_is_published() {
    document::check("report.schema.json", &document::json(&schema()));
}

#[test]
fn metrics_page_is_made_from_the_schema() {
    document::check("metrics.md", &markdown(&schema()));
}

#[test]
fn every_field_of_the_schema_occurs_and_every_field_of_a_report_is_in_the_schema() {
    let root = schema();
    let mut found = BTreeSet::new();
    occurring(&serde_json::to_value(full()).unwrap(), "Report", &root, &root, &mut found);
    let all = objects(&root).flat_map(|(name, object)| fields(object).map(move |(field, _)| (name, field)));
    let missing: Vec<_> =
        all.filter(|(name, field)| !found.contains(&((*name).to_owned(), (*field).to_owned()))).collect();
    assert!(missing.is_empty(), "never known in full(): {missing:?}");
}

#[test]
fn every_field_has_a_meaning_and_says_when_it_is_null() {
    let root = schema();
    for (name, object) in objects(&root) {
        assert!(object["description"].is_string(), "{name} has no description");
        let properties = object["properties"].as_object().unwrap();
        assert_eq!(fields(object).count(), properties.len(), "{name} may lack a field");
        for (field, schema) in fields(object) {
            let meaning = schema["description"].as_str().unwrap_or_default();
            assert!(meaning.ends_with(['.', '…']), "{name}.{field}: {meaning:?}");
            let says = schema.get("x-null").is_some();
            assert_eq!(nullable(schema), says, "{name}.{field}: `Null: ….` belongs where it may be null");
        }
    }
}

#[test]
fn units_are_those_that_names_promise() {
    let root = schema();
    for (name, object) in objects(&root) {
        for (field, schema) in fields(object) {
            let unit = schema["x-unit"].as_str().unwrap_or_default();
            let ends = |ending: &str| {
                field.strip_suffix(ending).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
            };
            let expected: &[&str] = match field {
                _ if target(&root, schema).1.get("properties").is_some() => &[""],
                _ if ends("ns") => &["ns", "Unix ns"],
                _ if ends("bytes") => &["bytes"],
                _ if ends("packets") => &["packets"],
                _ if ends("bps") => &["bits/s"],
                _ if ends("ratio") || ends("share") => &["ratio"],
                _ => continue,
            };
            assert!(expected.contains(&unit), "{name}.{field}: unit {unit:?}, expected {expected:?}");
        }
    }
}

#[test]
fn reports_validate() {
    let (schemas, index) = validator();
    let empty = Report::build(&sample(Vec::new(), Vec::new()), &Options::default());
    for report in [full(), Report::build(&everything(), &Options::default()), empty] {
        let report = serde_json::to_value(report).unwrap();
        schemas.validate(&report, index).unwrap_or_else(|error| panic!("{error:#}"));
    }
}

#[test]
fn reports_with_a_wrong_or_missing_field_do_not_validate() {
    let (schemas, index) = validator();
    let report = serde_json::to_value(full()).unwrap();
    let wrong = [
        ("/totals/packets", Value::Null),
        ("/schema", "rocescope.report/2".into()),
        ("/flows/0/src", 1.into()),
    ];
    for (place, value) in wrong {
        let mut report = report.clone();
        *report.pointer_mut(place).unwrap() = value;
        assert!(schemas.validate(&report, index).is_err(), "{place}");
    }
    let mut report = report;
    report["totals"].as_object_mut().unwrap().remove("lost");
    assert!(schemas.validate(&report, index).is_err());
}

#[test]
fn every_event_has_a_name() {
    let bits = EVENTS.iter().fold(0, |bits, (bit, _, _)| bits | bit);
    assert_eq!((bits, EVENTS.len()), (0xFF, 8));
}
