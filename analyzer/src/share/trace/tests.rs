//! Checks the structure of a trace, read by an independent JSON parser.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::analysis::fixtures::{SECOND, START, everything, port, qp_event, qp_life, with_lives};
use crate::entity::lives::{DESTROYED, ERROR, Lives, MonotonicTimes, NUMBER_REUSED};
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
        src_port: 49_152,
        psn: 3,
        missing: 5,
        aeth: 0x6000_0000,
        wire_len: 64,
        bth_offset: 42,
        ..EventSample::default()
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
fn a_finding_lasts_to_the_end_unless_it_is_quiet() {
    let (first_ns, last_ns) = (START, START + 3 * SECOND);
    let finding = Finding {
        active: true,
        first_seen_ns: Some(first_ns),
        last_seen_ns: Some(last_ns),
        episodes: vec![Episode { first_ns, last_ns, peak: None }],
        ..Finding::new("loss.before_tap", crate::findings::Severity::Critical, String::new())
    };
    let until = |ns: u64| spans(&finding, DataEnd { ns: Some(ns), ..DataEnd::default() });
    let soon_ns = last_ns + 2 * SECOND;
    assert_eq!(until(soon_ns), [(first_ns, soon_ns)]);
    assert_eq!(until(last_ns + 7 * SECOND), [(first_ns, last_ns)]);
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

/// Unit: ns.
const MS: u64 = 1_000_000;

/// A host without packets: four lives of three queue pairs.
fn offloaded() -> Report {
    let life = |lqpn, created_ns, ended_ns, end| {
        let mut life = qp_life(lqpn, lqpn + 1_000);
        let control = &mut life.control;
        (control.created_ns, control.ended_ns, control.end) = (created_ns, ended_ns, end);
        life
    };
    let mut connected = life(7, Some(START + 10 * MS), None, Some(ERROR));
    (connected.control.connected_ns, connected.control.connect_took_ns) =
        (Some(START + 30 * MS), Some(15 * MS));
    connected.comm = Some("\"a\u{1b}b".into());
    let lives = Lives {
        qps: vec![
            connected,
            life(8, Some(START + 20 * MS), None, Some(NUMBER_REUSED)),
            life(8, Some(START + 50 * MS), Some(START + 90 * MS), Some(DESTROYED)),
            life(9, None, None, None),
        ]
        .into(),
        events: vec![
            qp_event(7, "QP_FATAL", START + 80 * MS),
            crate::analysis::QpEvent { errno: Some(110), ..qp_event(8, "modify to RTR", START + 25 * MS) },
            crate::analysis::QpEvent { lqpn: None, ..qp_event(0, "PORT_ERR", START + 85 * MS) },
        ],
        events_left_out: 4,
        ..Lives::default()
    };
    let mut report = Report::build(&with_lives(port(), lives), &Options::default());
    report.facts.window = crate::analysis::Window { first_ns: Some(START), last_ns: Some(START + SECOND) };
    let qps = &mut report.facts.devices[0].qps;
    (qps[0].context_ns, qps[0].stuck_ns) = (Some(START + 70 * MS), Some(40 * MS));
    report.facts.qp_lives =
        Some(crate::analysis::QpLives { events_left_out: 4, ..crate::analysis::QpLives::default() });
    report
}

#[test]
fn queue_pairs_of_nics_have_their_lives_and_events() {
    let trace = traced(&offloaded(), &[], &Events::default());
    check(&trace);
    let named = |kind: &str, name: &str| -> Vec<&Value> {
        let all = entries(&trace).iter();
        all.filter(|entry| entry["name"] == kind && entry["args"]["name"] == name).collect()
    };
    let pid = &named("process_name", "NIC mlx5_0/1")[0]["pid"];
    let thread =
        |name: &str| named("thread_name", name).iter().map(|entry| &entry["tid"]).collect::<Vec<_>>();
    let of = |tid: &Value, phase: &str| -> Vec<(String, f64, Option<f64>)> {
        let own = |entry: &&Value| entry["pid"] == *pid && entry["tid"] == *tid && entry["ph"] == phase;
        let ms = |value: &Value| value.as_f64().map(|us| us / 1e3);
        // Numbers of this length are read to about a microsecond.
        let since = |value: &Value| ((value.as_f64().unwrap() - START as f64 / 1e3) / 1e3).round();
        let all = entries(&trace).iter().filter(own);
        all.map(|one| (one["name"].as_str().unwrap().into(), since(&one["ts"]), ms(&one["dur"]))).collect()
    };
    let dead = thread("QP 7 → 10.0.0.2 QP 1007")[0];
    let life = ("queue pair".to_owned(), 10.0, Some(990.0));
    assert_eq!(of(dead, "X"), [life, ("no packet acknowledged".into(), 30.0, Some(40.0))]);
    assert_eq!(of(dead, "i"), [("connected".into(), 30.0, None), ("QP_FATAL".into(), 80.0, None)]);
    // A number that is used again: each life has a thread of its own, and the event is of the earlier one.
    let reused = thread("QP 8 → 10.0.0.2 QP 1008");
    assert_eq!(of(reused[0], "X"), [("queue pair".to_owned(), 20.0, Some(30.0))]);
    assert_eq!(of(reused[0], "i"), [("modify to RTR failed".to_owned(), 25.0, None)]);
    assert_eq!(of(reused[1], "X"), [("queue pair".to_owned(), 50.0, Some(40.0))]);
    assert_eq!(of(reused[1], "i"), []);
    // Older than the run.
    let older = thread("QP 9 → 10.0.0.2 QP 1009")[0];
    assert_eq!(of(older, "X"), [("queue pair".to_owned(), 0.0, Some(1_000.0))]);
    assert_eq!(of(thread("events")[0], "i"), [("PORT_ERR".to_owned(), 85.0, None)]);
    let args = |name: &str| &entries(&trace).iter().find(|entry| entry["name"] == name).unwrap()["args"];
    assert_eq!((&args("QP_FATAL")["dead"], &args("PORT_ERR")["dead"]), (&json!(true), &json!(false)));
    assert_eq!(
        (&args("queue pair")["process"], &args("queue pair")["sent_packets"]),
        (&json!("\"a\u{fffd}b"), &Value::Null)
    );
    assert_eq!(
        (&trace["otherData"]["qps_left_out"], &trace["otherData"]["qp_events_left_out"]),
        (&json!(0), &json!(4))
    );
}

/// By the wall clock, which was set in between, the event is of the later queue pair with its number.
#[test]
fn an_event_is_of_the_queue_pair_of_its_time_however_the_clock_is_set() {
    let mut report = offloaded();
    let device = &mut report.facts.devices[0];
    let reused = device.qps.iter_mut().filter(|qp| qp.lqpn == 8);
    for (qp, [made, over]) in reused.zip([[20, 50], [50, 90]]) {
        let (created_ns, over_ns) = (Some(made * MS), Some(over * MS));
        qp.control.monotonic = MonotonicTimes { created_ns, over_ns, ..MonotonicTimes::default() };
    }
    let event = device.qp_events.iter_mut().find(|event| event.lqpn == Some(8)).unwrap();
    (event.time_ns, event.monotonic_ns) = (START + 60 * MS, Some(25 * MS));
    let trace = traced(&report, &[], &Events::default());
    check(&trace);
    let named = |name: &Value| name == "QP 8 → 10.0.0.2 QP 1008";
    let earlier = entries(&trace).iter().find(|entry| named(&entry["args"]["name"])).unwrap();
    let event = entries(&trace).iter().find(|entry| entry["name"] == "modify to RTR failed").unwrap();
    assert_eq!(event["tid"], earlier["tid"]);
}

#[test]
fn queue_pairs_beyond_the_bound_are_counted() {
    let mut report = offloaded();
    let device = &mut report.facts.devices[0];
    let mut busy = device.qps[3].clone();
    busy.sent_packets = Some(5);
    let more = (10_000..).take(devices::MOST_QPS);
    device.qps.extend(more.map(|lqpn| crate::analysis::DeviceQp { lqpn, ..busy.clone() }));
    device.qps_left_out = 6;
    let trace = traced(&report, &[], &Events::default());
    check(&trace);
    let lives = entries(&trace).iter().filter(|entry| entry["name"] == "queue pair").count();
    assert_eq!((lives, &trace["otherData"]["qps_left_out"]), (devices::MOST_QPS, &json!(10)));
    // Those with events and in trouble stay.
    let names: BTreeSet<&str> =
        entries(&trace).iter().filter_map(|entry| entry["args"]["name"].as_str()).collect();
    assert!(names.contains("QP 7 → 10.0.0.2 QP 1007") && !names.contains("QP 9 → 10.0.0.2 QP 1009"));
}
