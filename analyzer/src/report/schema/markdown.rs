//! Makes docs/metrics.md from the schema of the report.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rocescope_common::account::Event;
use rocescope_common::wire::SkipReason;
use serde_json::Value;

use crate::analysis::PortCounter;

/// An event: its bit in [`Event`], its name and its meaning.
pub(super) const EVENTS: [(u16, &str, &str); 8] = [
    (Event::NEW_FLOW, "new_flow", "the first packet of a flow"),
    (Event::CNP, "cnp", "a congestion notification packet"),
    (Event::CE, "ce", "the first CE-marked packet after at least 10 ms without one"),
    (Event::NAK, "nak", "a negative acknowledgement"),
    (Event::RNR, "rnr_nak", "an RNR NAK: no receive buffer was posted"),
    (
        Event::GAP,
        "gap",
        "a jump over PSNs that are missing or out of order; not over those that responses leave out between two messages",
    ),
    (Event::RESTART, "restart", "a PSN so far off that the QP number must be in use again"),
    (Event::GSI, "gsi", "a datagram to QP 1: connection management"),
];

const HEAD: &str = "\
# The report and its metrics

<!-- Made from the doc comments of the report's types in analyzer/src: change these, then run
     ROCESCOPE_BLESS=1 cargo test -p rocescope schema -->

`--output json` prints one `rocescope.report/1`, `--output jsonl` one per interval, each cumulative.
The text report and the terminal UI show the same figures by the same definitions.
[report.schema.json](report.schema.json) is the same as JSON Schema, with units as `x-unit`, conditions of null as `x-null`.

- Counts are integers. Times are Unix time in integer nanoseconds. Ratios are fractions of 1.
- Unknown is null, never 0. A field without an entry under *null when* is never null.
- Every field is always present. Later versions of rocescope may add fields; those below keep their name and meaning.
- `[]` stands for each element of a list, `<name>` for the keys of a map.
- Terms: [terms.md](terms.md).

These sums always hold:

- `totals.packets` = `totals.roce_packets` + all of `totals.skipped`
- `totals.roce_packets` = all `flows[].packets` + `totals.retired.packets` + `totals.lost.flow_table_full`
  + `totals.lost.contended`
";

const SKIPPED_HEAD: &str = "
## Reasons in `totals.skipped`

A frame is RoCE when its whole base transport header is there. Every other frame is counted under one
of these reasons; reasons that did not occur are left out.

| reason | meaning |
|---|---|
";

const EVENTS_HEAD: &str = "
## Events

Reported at once; in live runs through a ring buffer. Counters never depend on events: events that do not fit are
counted in `totals.lost.events_dropped`.

| event | meaning |
|---|---|
";

const COUNTERS_HEAD: &str = "
## Port counters

Names in `devices[].counters` that are the same for all drivers. Which of them a port has depends on its driver.

| counter | unit | meaning |
|---|---|---|
";

/// The text of docs/metrics.md.
pub(super) fn markdown(schema: &Value) -> String {
    let mut objects = Objects { schema, found: Vec::new(), places: BTreeMap::new() };
    objects.visit("", schema, "");
    let mut text = String::from(HEAD);
    for (name, object) in &objects.found {
        let places = objects.places.get(name).map_or(&[][..], Vec::as_slice);
        section(&mut text, if name.is_empty() { "Report" } else { name }, places, object, schema);
    }
    text.push_str(SKIPPED_HEAD);
    for reason in SkipReason::ALL {
        row(&mut text, &[&code(reason.name()), reason.meaning()]);
    }
    text.push_str(COUNTERS_HEAD);
    for counter in PortCounter::ALL {
        row(&mut text, &[&code(counter.name()), counter.unit(), counter.text()]);
    }
    text.push_str(EVENTS_HEAD);
    for (_, name, meaning) in EVENTS {
        row(&mut text, &[&code(name), meaning]);
    }
    text
}

/// The fields of an object, in the order of their declaration.
pub(super) fn fields(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    // Maps of JSON are sorted by name; the list of required fields, which has all of them, is not.
    let names = object["required"].as_array().into_iter().flatten();
    names.filter_map(|name| Some((name.as_str()?, object["properties"].get(name.as_str()?)?)))
}

/// Follows a reference, and the one of two alternatives that is not null: name of the type, if it has one, and schema.
pub(super) fn target<'s>(root: &'s Value, schema: &'s Value) -> (Option<&'s str>, &'s Value) {
    let known = |one: &&Value| one["type"] != "null";
    let schema = schema["anyOf"].as_array().and_then(|all| all.iter().find(known)).unwrap_or(schema);
    let name = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    name.map_or((None, schema), |name| (Some(name), &root["$defs"][name]))
}

/// Objects of the report in the order of their first place, and all places of each.
struct Objects<'s> {
    schema: &'s Value,
    found: Vec<(&'s str, &'s Value)>,
    places: BTreeMap<&'s str, Vec<String>>,
}

impl<'s> Objects<'s> {
    fn visit(&mut self, name: &'s str, object: &'s Value, place: &str) {
        if !self.found.iter().any(|(known, _)| *known == name) {
            self.found.push((name, object));
        }
        if !place.is_empty() {
            self.places.entry(name).or_default().push(place.to_owned());
        }
        for (field, schema) in fields(object) {
            let place = if place.is_empty() { field.to_owned() } else { format!("{place}.{field}") };
            let (name, schema) = target(self.schema, schema);
            let (name, schema, place) = match schema.get("items") {
                Some(items) => {
                    let (name, schema) = target(self.schema, items);
                    (name, schema, format!("{place}[]"))
                }
                None => (name, schema, place),
            };
            if let Some(name) = name.filter(|_| schema.get("properties").is_some()) {
                self.visit(name, schema, &place);
            }
        }
    }
}

fn section(text: &mut String, name: &str, places: &[String], object: &Value, root: &Value) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "\n## {name}\n");
    if !places.is_empty() {
        let places = places.iter().map(|place| code(place)).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "{places}\n");
    }
    let _ = writeln!(text, "{}\n", object["description"].as_str().unwrap_or_default());
    text.push_str("| field | type | unit | meaning | null when |\n|---|---|---|---|---|\n");
    for (field, schema) in fields(object) {
        let word = |key: &str| schema[key].as_str().unwrap_or_default();
        let (_, kind) = target(root, schema);
        let meaning = format!("{}{}", word("description"), values(kind));
        row(text, &[&code(field), &type_of(root, schema), word("x-unit"), &meaning, word("x-null")]);
    }
}

/// The type of a field in words, linked to the section of an object.
fn type_of(root: &Value, schema: &Value) -> String {
    let (name, schema) = target(root, schema);
    if let Some(items) = schema.get("items") {
        return format!("list of {}", type_of(root, items));
    }
    if let Some(values) = schema.get("additionalProperties") {
        return format!("map of {}", type_of(root, values));
    }
    if let Some(name) = name.filter(|_| schema.get("properties").is_some()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.first().and_then(Value::as_str),
        kind => kind.as_str(),
    };
    match (kind, schema["format"].as_str()) {
        (_, Some("ip")) => "address",
        (Some("boolean"), _) => "bool",
        (Some("integer"), _) => "integer",
        (Some("number"), _) => "number",
        _ => "text",
    }
    .to_owned()
}

/// The values of an enumeration and their meaning.
fn values(schema: &Value) -> String {
    let mut text = String::new();
    for value in schema["oneOf"].as_array().into_iter().flatten() {
        if let (Some(name), Some(meaning)) = (value["const"].as_str(), value["description"].as_str()) {
            let _ = write!(text, " `{name}`: {meaning}");
        }
    }
    text
}

fn row(text: &mut String, cells: &[&str]) {
    for cell in cells {
        // A bar would end the cell.
        let _ = write!(text, "| {} ", cell.replace('|', "\\|"));
    }
    text.push_str("|\n");
}

fn code(name: &str) -> String {
    format!("`{name}`")
}
