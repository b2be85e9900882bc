//! Reports stored with the tests, for machines without tshark.
//!
//! They were correct when written: `replay_vs_tshark` compared them with tshark. After an intended change of reports,
//! run that test, then this one with `ROCESCOPE_BLESS=1`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper of tests may fail like a test")]

use std::path::{Path, PathBuf};

use rocescope_tests::oracle::{binary, captures};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    captures::folder().join("golden")
}

/// File with a capture's report. Several folders have captures with the same name.
fn kept(capture: &Path) -> PathBuf {
    let inner = capture.strip_prefix(captures::folder()).expect("the tests' own captures");
    let name = inner.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "__");
    folder().join(format!("{name}.json"))
}

/// The stored part of a report: everything but the findings, which are conclusions from these figures and may be
/// improved, and null values. The schema, which the report was validated against, names the required fields: those
/// not stored are null.
fn reduced(mut report: Value) -> Value {
    binary::strip_folders(&mut report);
    if let Some(report) = report.as_object_mut() {
        report.remove("findings");
        report.remove("verdict");
    }
    drop_nulls(&mut report);
    report
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(members) => members.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The paths at which two values differ, as sentences.
fn differences(place: &str, now: &Value, before: &Value, found: &mut Vec<String>) {
    match (now, before) {
        (Value::Object(a), Value::Object(b)) => {
            for name in a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))) {
                let absent = json!("absent");
                let (a, b) = (a.get(name).unwrap_or(&absent), b.get(name).unwrap_or(&absent));
                differences(&format!("{place}/{name}"), a, b, found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{place}/{index}"), a, b, found);
            }
        }
        // The last digit of a logarithm may differ between machines.
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            if (a - b).abs() > 1e-9 * b.abs().max(1.0) {
                found.push(format!("{place}: {a}, kept {b}"));
            }
        }
        _ if now == before => {}
        _ => found.push(format!("{place}: {now}, kept {before}")),
    }
}

#[test]
fn reports_are_as_kept() {
    let bless = rocescope_tests::document::blessing();
    let captures = captures::own().unwrap();
    assert!(captures.len() > 50, "only {} captures found", captures.len());
    if bless {
        std::fs::create_dir_all(folder()).unwrap();
    }
    let mut found = Vec::new();
    for capture in &captures {
        let report = reduced(binary::replay(std::slice::from_ref(capture), [] as [&str; 0]).unwrap());
        let path = kept(capture);
        if bless {
            std::fs::write(&path, rocescope_tests::document::json(&report)).unwrap();
            continue;
        }
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let before = serde_json::from_str(&text).expect("a kept report is JSON");
                let name = capture.file_name().unwrap().to_string_lossy();
                differences(&name, &report, &before, &mut found);
            }
            Err(error) => found.push(format!(
                "{}: {error}; after checking the report, keep it with ROCESCOPE_BLESS=1",
                path.display()
            )),
        }
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

/// The order of flows must be deterministic, so that reports can be compared.
#[test]
fn the_same_capture_gives_the_same_bytes() {
    let capture = captures::folder().join("h1_rping.h0.pcap");
    let run = || binary::replay(std::slice::from_ref(&capture), [] as [&str; 0]).unwrap().to_string();
    assert_eq!(run(), run());
}

#[test]
fn differences_are_found_wherever_they_are() {
    let kept = json!({ "a": [{ "b": 1 }, 0.5], "c": 3 });
    for (mut now, says) in [
        (json!({ "a": [{ "b": 2 }, 0.5], "c": 3 }), "x/a/0/b: 2, kept 1"),
        (json!({ "a": [{ "b": 1 }, 0.6], "c": 3 }), "x/a/1: 0.6, kept 0.5"),
        (json!({ "a": [{ "b": 1 }], "c": 3 }), "x/a: "),
        (json!({ "a": [{ "b": null }, 0.5], "c": 3 }), "x/a/0/b: \"absent\", kept 1"),
        (json!({ "a": [{ "b": 1 }, 0.5] }), "x/c: \"absent\", kept 3"),
        (json!({ "a": [{ "b": 1 }, 0.5], "c": 3, "d": 0 }), "x/d: 0, kept \"absent\""),
    ] {
        let mut found = Vec::new();
        drop_nulls(&mut now);
        differences("x", &now, &kept, &mut found);
        assert!(found.len() == 1 && found[0].starts_with(says), "{found:?}");
    }
}
