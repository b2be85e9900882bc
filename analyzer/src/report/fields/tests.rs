use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::{EVENTS, all, markdown};
use crate::report::fixtures::{compare, everything};
use crate::report::{Device, Finding, FlowId, Latency, Options, Report, Severity};

/// Maps whose keys are data; the table has one entry for all of them.
const MAPS: [(&str, &str); 3] =
    [("totals.skipped", "<reason>"), ("devices[].counters", "<name>"), ("findings[].evidence", "<name>")];

/// A report in which nothing is null or empty.
fn full() -> Report {
    let mut sample = everything();
    sample.capture_drops = Some(1);
    let mut report = Report::build(&sample, &Options { imbalance_all_links: true, ..Options::default() });
    crate::report::traffic::example(&mut report);
    let flow = &mut report.flows[0];
    flow.latency_ns = Some(Latency::default());
    (flow.pid, flow.comm) = (Some(1), Some("train".into()));
    let id = FlowId {
        link: flow.link.clone(),
        direction: flow.direction,
        src: flow.src,
        dst: flow.dst,
        dest_qp: flow.dest_qp,
    };
    report.devices.push(Device {
        name: "mlx5_0".into(),
        port: Some(1),
        source: "sysfs".into(),
        counters: [("rx_ecn_marked".to_owned(), 4)].into(),
        qps: vec![serde_json::json!({ "lqpn": 280 })],
    });
    report.findings.push(Finding {
        id: "gaps",
        severity: Severity::Warning,
        title: "Packets are lost".into(),
        evidence: [("gaps".to_owned(), 37.into())].into(),
        flows: vec![id],
        advice: "Look at the switch.".into(),
    });
    report
}

/// The names of all values in `value`, and whether each was ever null.
fn names(value: &Value, at: &str, found: &mut BTreeSet<(String, bool)>) {
    match value {
        Value::Object(fields) => {
            // Objects that may be null are fields themselves; a device's queue pair is its driver's.
            found.insert((at.to_owned(), false));
            if at == "devices[].qps[]" {
                return;
            }
            let any = MAPS.iter().find(|(map, _)| *map == at).map(|(_, key)| *key);
            for (key, value) in fields {
                let key = any.unwrap_or(key);
                let path = if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
                names(value, &path, found);
            }
        }
        Value::Array(elements) => {
            for element in elements {
                names(element, &format!("{at}[]"), found);
            }
        }
        other => {
            found.insert((at.to_owned(), other.is_null()));
        }
    }
}

#[test]
fn every_field_is_documented_and_every_documented_field_exists() {
    let mut found = BTreeSet::new();
    names(&serde_json::to_value(full()).unwrap(), "", &mut found);
    let containers: BTreeSet<String> = found
        .iter()
        .filter(|(name, _)| found.iter().any(|(other, _)| other.starts_with(&format!("{name}."))))
        .map(|(name, _)| name.clone())
        .chain([String::new()])
        .collect();
    for (name, null) in &found {
        match all().find(|field| field.name == name) {
            Some(field) => assert!(!null || !field.null.is_empty(), "{name} may be null: say when"),
            None => assert!(containers.contains(name) && !null, "{name} is not documented"),
        }
    }
    let mut seen = BTreeSet::new();
    for field in all() {
        assert!(found.iter().any(|(name, _)| name == field.name), "{} does not exist", field.name);
        assert!(seen.insert(field.name), "{} is there twice", field.name);
    }
}

#[test]
fn every_event_has_a_name() {
    let bits = EVENTS.iter().fold(0, |bits, (bit, _, _)| bits | bit);
    assert_eq!((bits, EVENTS.len()), (0xFF, 8));
}

#[test]
fn metrics_page_is_made_from_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    compare(&path, &markdown());
}
