//! Checks the structure of a trace, read by an independent JSON parser.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::analysis::fixtures::everything;
use crate::findings::Episode;
use crate::metrics::timeline::Point;
use crate::report::Options;
use crate::sample::Sample;

fn event(sample: &Sample, at: usize, events: u16, time_ns: u64) -> EventSample {
    EventSample {
        time_ns,
        key: sample.flows.get(at).unwrap().key,
        events,
        opcode: 0x11,
        tos: 0,
        src_port: 49_152,
        psn: 3,
        missing: 5,
        aeth: 0x6000_0000,
        wire_len: 64,
        bth_offset: 42,
        headers: bytes::Bytes::new(),
    }
}

fn traced(report: &Report, timeline: &[LinkPoints], events: &Events) -> Value {
    let mut text = Vec::new();
    write(report, timeline, events, None, &mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn entries(trace: &Value) -> &Vec<Value> {
    trace["traceEvents"].as_array().unwrap()
}

/// Checks that all tracks are in order, lengths are not negative, slices of a track are nested, and everything has a
/// name.
fn check(all: &Value) {
    let mut latest: BTreeMap<(u64, u64), (f64, Vec<f64>)> = BTreeMap::new();
    let mut named = BTreeSet::new();
    for entry in entries(all) {
        let track = (entry["pid"].as_u64().unwrap(), entry["tid"].as_u64().unwrap());
        assert!(track.0 > 1 << 22 && i32::try_from(track.0).is_ok(), "that of a process of Linux: {entry}");
        match entry["ph"].as_str().unwrap() {
            "M" => {
                named.insert(track);
                continue;
            }
            "X" => assert!(entry["dur"].as_f64().unwrap() >= 0.0, "{entry}"),
            "i" => assert_eq!(entry["s"], "t"),
            "C" => assert!(entry["args"].as_object().unwrap().values().all(Value::is_number)),
            other => panic!("{other}"),
        }
        let ts = entry["ts"].as_f64().unwrap();
        let (before, open) = latest.entry(track).or_default();
        assert!(ts >= *before, "{entry}: after {before}");
        *before = ts;
        open.retain(|end| *end > ts);
        if let Some(dur) = entry["dur"].as_f64() {
            assert!(open.iter().all(|end| ts + dur <= *end + 1.0), "{entry} ends after the slice around it");
            open.push(ts + dur);
        }
        assert!(named.contains(&track), "{entry}: a track without a name");
    }
}

#[test]
fn flows_events_findings_and_counters_have_their_tracks() {
    let sample = everything();
    let mut report = Report::build(&sample, &Options::default());
    let (first, last) = (report.facts.window.first_ns.unwrap(), report.facts.window.last_ns.unwrap());
    let middle = first.midpoint(last);
    report.findings[0].first_seen_ns = Some(first);
    report.findings[0].episodes = vec![
        Episode { first_ns: first, last_ns: middle + 7, peak: None },
        Episode { first_ns: middle, last_ns: last, peak: None },
    ];
    let mut events = Events::default();
    events.extend(&[
        event(&sample, 0, Event::NAK, middle + 1),
        event(&sample, 0, Event::GAP, middle),
        event(&sample, 1, Event::CNP, middle),
        event(&sample, 1, Event::NEW_FLOW, first),
    ]);
    let mut points = LinkPoints::default();
    points.first = first / 1_000_000;
    points.points = vec![Point::default(); 3];
    points.points[1].bytes = 1_000;
    points.points[1].signals[SignalKind::Lost as usize] = 2;
    let trace = traced(&report, &[points], &events);
    check(&trace);
    let of = |phase: &str| entries(&trace).iter().filter(|entry| entry["ph"] == phase).collect::<Vec<_>>();
    let instants = of("i");
    let names: Vec<&str> = instants.iter().filter_map(|entry| entry["name"].as_str()).collect();
    for name in ["PSN gap: 5 missing", "NAK: PSN sequence error", "CNP"] {
        assert_eq!(names.iter().filter(|one| **one == name).count(), 1, "{name}: {names:?}");
    }
    let gap = instants.iter().find(|entry| entry["name"] == "PSN gap: 5 missing").unwrap();
    assert_eq!(gap["args"]["first_missing_psn"], 0x00FF_FFFE, "modulo 2^24");
    let slices = of("X");
    assert_eq!(slices.iter().filter(|entry| entry["name"] == "flow").count(), report.facts.flows.len());
    let title = Value::String(report.findings[0].title.clone());
    assert_eq!(slices.iter().filter(|entry| entry["name"] == title).count(), 2, "both episodes");
    assert_eq!(of("C").iter().filter(|entry| entry["name"] == "lost packets").count(), 4);
    assert_eq!(trace["otherData"]["events_left_out"], 0);
}

#[test]
fn times_have_every_nanosecond() {
    assert_eq!(micros(1_772_370_309_000_123_456), "1772370309000123.456");
    assert_eq!(micros(7), "0.007");
}

#[test]
fn events_beyond_the_bound_are_counted() {
    let sample = everything();
    let mut events = Events::default();
    let many = vec![event(&sample, 0, Event::CNP, 5); MOST_EVENTS + 3];
    events.extend(&many);
    assert_eq!((events.kept.len(), events.left_out), (MOST_EVENTS, 3));
    // A retired flow has no track.
    let mut gone = event(&sample, 0, Event::CNP, 5);
    gone.key.dest_qp = 0x00AB_CDEF;
    let mut events = Events::default();
    events.extend(&[gone]);
    let trace = traced(&Report::build(&sample, &Options::default()), &[], &events);
    assert_eq!(trace["otherData"]["events_left_out"], 1);
    check(&trace);
}

#[test]
fn names_from_outside_are_texts_without_control_characters() {
    let mut report = Report::build(&everything(), &Options::default());
    report.findings[0].title = "\"}],\u{1b}[2J\u{202e}".into();
    report.findings[0].first_seen_ns = Some(1);
    report.facts.flows[0].comm = Some("a\"\n\\".into());
    let mut text = Vec::new();
    write(&report, &[], &Events::default(), None, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(!text.contains(['\u{1b}', '\u{202e}']));
    let trace: Value = serde_json::from_str(&text).unwrap();
    check(&trace);
    assert!(entries(&trace).iter().any(|entry| entry["args"]["process"] == "a\"\u{fffd}\\"));
}
