//! Tests of the names and sources of metrics, against those of recordings, CSV and the report.

use std::collections::BTreeSet;

use super::registry::{MetricKind, REGISTRY};

#[test]
fn names_of_the_registry_are_in_order() {
    let names: BTreeSet<&str> = REGISTRY.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), REGISTRY.len(), "a name is there twice");
    for metric in REGISTRY {
        let name = metric.name;
        assert!(name.starts_with("rocescope_"), "{name}");
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(plain(name) && metric.labels.iter().all(|label| plain(label)), "{name}");
        for suffix in ["_total", "_info", "_count", "_sum", "_bucket", "_created"] {
            assert!(!name.ends_with(suffix), "{name}: {suffix} belongs to the format");
        }
        let units = ["packets", "bytes", "seconds", "ratio"];
        let unit = units.into_iter().find(|unit| name.ends_with(&format!("_{unit}")));
        assert_eq!(metric.unit, unit, "{name}");
        assert!(metric.help.ends_with('.') || metric.help.ends_with(')'), "{name}: {}", metric.help);
        assert!(!metric.help.contains('\n') && !metric.source.is_empty(), "{name}");
        assert!(metric.kind != MetricKind::Histogram || metric.unit == Some("seconds"), "{name}");
    }
}

/// The fields of the report that a source names.
fn sources(text: &str) -> BTreeSet<&str> {
    text.split([',', '+']).map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// A figure of the report that is exported as a metric, over OTLP (generated from the same table), as a column of
/// recordings and as a column of CSV has one name: columns have the same words, and they are among those of the metric,
/// apart from units.
#[test]
fn metrics_and_columns_of_one_figure_have_one_name() {
    const UNITS: [&str; 4] = ["ns", "seconds", "packets", "bytes"];
    /// Metric, column of CSV or `*`, column, and the reason for the difference.
    const EXCEPTIONS: [(&str, &str, &str); 16] = [
        ("rocescope_link_nak_packets", "nak_other", "the metric has the code as a label"),
        ("*", "nak_other_json", "by code, all in one column"),
        ("first_unix_ns", "first", "a timestamp, as the type of the column says"),
        ("rocescope_link_nak_packets", "rnr_naks", "the metric has the code as a label"),
        ("rocescope_qp_events", "end_reason", "the latest event of one queue pair"),
        ("rocescope_qp_events", "event", "the name of one event, which the metric counts"),
        ("link", "netdev", "of a flow as of a queue pair: the interface"),
        ("device", "devices", "that of a queue pair, and all of a host"),
        ("src_qp", "lqpn", "a flow has no local end: the queue pair that sends"),
        ("dest_qp", "rqpn", "likewise: the queue pair that receives"),
        ("pcp", "priority", "the tag of the packets has it"),
        ("created_unix_ns", "created", "a timestamp, as the type of the column says"),
        ("ended_unix_ns", "ended", "likewise"),
        ("payload_bytes", "message_bytes", "the part of the payload that messages carry"),
        ("*", "json", "the whole finding"),
        ("*", "t", "every row has a time"),
    ];
    // Recordings and metrics call the report's `latency_ns` rtt: their names never change, nor do the report's, which
    // CSV, traces and the screens' exports follow.
    let words = |name: &'static str| -> BTreeSet<&str> {
        let words = name.split('_').filter(|word| !UNITS.contains(word));
        words.map(|word| if word == "latency" { "rtt" } else { word }).collect()
    };
    let metrics = REGISTRY.iter().map(|metric| (metric.name, metric.source));
    let columns: Vec<_> = (crate::record::TABLES.iter().flat_map(|table| table.columns))
        .map(|column| (column.name, column.source))
        .collect();
    let csv: Vec<_> =
        (crate::share::columns::COLUMNS.iter()).map(|column| (column.name, column.source)).collect();
    let (mut compared, mut used) = ([0; 3], BTreeSet::<&(&str, &str, &str)>::new());
    let mut compare = |at: usize, (name, source): (&'static str, &str), of: &[(&'static str, &str)]| {
        for (column, _) in of.iter().filter(|(_, of)| !sources(source).is_disjoint(&sources(of))) {
            compared[at] += 1;
            let (one, other) = (words(name), words(column));
            if one == other || (name.starts_with("rocescope_") && other.is_subset(&one)) {
                continue;
            }
            let is = |(one, of, _): &&(&'static str, &'static str, &str)| {
                words(of) == other && (*one == "*" || *one == name)
            };
            let exception = EXCEPTIONS.iter().find(is);
            assert!(exception.is_some(), "{name} and {column} are both {source}");
            used.extend(exception);
        }
    };
    for metric in metrics {
        compare(0, metric, &columns);
        compare(1, metric, &csv);
    }
    for column in &csv {
        compare(2, *column, &columns);
    }
    assert!(compared[0] > 30 && compared[1] > 10 && compared[2] > 20, "{compared:?}");
    assert_eq!(used.len(), EXCEPTIONS.len(), "{used:?}");
}

/// True if a path such as `flows[].loss.lost` names a field of the report's schema.
fn is_field(schema: &serde_json::Value, path: &str) -> bool {
    fn resolved<'a>(
        schema: &'a serde_json::Value,
        mut at: &'a serde_json::Value,
    ) -> Vec<&'a serde_json::Value> {
        while let Some(name) = at["$ref"].as_str() {
            at = &schema["$defs"][name.trim_start_matches("#/$defs/")];
        }
        let choices = ["anyOf", "oneOf"].iter().filter_map(|one| at[one].as_array()).flatten();
        choices.flat_map(|one| resolved(schema, one)).chain([at]).collect()
    }
    let mut here = resolved(schema, schema);
    for part in path.split('.') {
        let (name, is_list) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
        let inner = here.iter().filter_map(|at| {
            let of_map = Some(&at["additionalProperties"]).filter(|one| one.is_object());
            at["properties"].get(name).or(of_map)
        });
        here = inner.flat_map(|at| resolved(schema, at)).collect();
        if is_list {
            here = here.iter().filter_map(|at| at.get("items")).flat_map(|at| resolved(schema, at)).collect();
        }
    }
    !here.is_empty()
}

#[test]
fn every_source_is_a_field_of_the_reports_schema() {
    let schema = include_str!("../../../docs/report.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let tables = crate::record::TABLES;
    let of_tables = tables.iter().flat_map(|table| table.columns).map(|column| (column.name, column.source));
    let of_csv = crate::share::columns::COLUMNS.iter().map(|column| (column.name, column.source));
    let of_metrics = REGISTRY.iter().map(|metric| (metric.name, metric.source));
    let mut checked = BTreeSet::new();
    for (name, source) in of_tables.chain(of_csv).chain(of_metrics) {
        for path in sources(source) {
            // Which part of the field it is follows in parentheses.
            let path = path.split_once(" (").map_or(path, |(path, _)| path);
            let is_known = match path.strip_suffix(" of the recording") {
                Some(path) => tables.iter().any(|table| {
                    table.columns.iter().any(|column| path == format!("{}.{}", table.name, column.name))
                }),
                None => path == "process" || is_field(&schema, path),
            };
            assert!(is_known, "{name}: {path} is not in docs/report.schema.json");
            checked.insert(path);
        }
    }
    assert!(checked.len() > 120, "{}", checked.len());
    for wrong in ["flows[].lost", "flows.loss", "loss_responses.lost", "nothing", "flows[].loss[].lost"] {
        assert!(!is_field(&schema, wrong), "{wrong}");
    }
}
