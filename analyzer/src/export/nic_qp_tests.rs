//! Tests of the series of queue pairs whose packets are not seen.

#![expect(clippy::float_cmp, reason = "counts and ratios of small counts are exact")]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::exposition::Format;
use super::*;
use crate::analysis::fixtures::{self, SECOND, everything, port, qp_event, qp_life, with_lives};
use crate::entity::contexts::{Blamed, ContextSample, Contexts, Queries};
use crate::entity::devices::{Devices, PortSample, QpSample};
use crate::entity::lives::{ERROR, Lives};
use crate::entity::owners::QpOwner;
use crate::report;

/// Devices with two queue pairs of no flow, one of which retries; an idle second port; and all that metrics have of
/// them.
pub(super) fn unseen(port: PortSample) -> Devices {
    let life = |device: &str, lqpn: u32, udp_port| {
        let mut life = qp_life(lqpn, lqpn + 0x1000);
        (life.device, life.control.udp_port) = (device.to_owned(), Some(udp_port));
        life
    };
    let lives = Lives {
        qps: vec![life("mlx5_0", 0x1A0, 50_000), life("mlx5_1", 0x1A1, 50_001)].into(),
        events: vec![qp_event(0x1A0, "QP_FATAL", 0)],
        unavailable: Some("no BTF".into()),
        ..Lives::default()
    };
    let other = PortSample { device: "mlx5_1".into(), interface: Some("eth1".into()), ..fixtures::port() };
    let contexts = Contexts {
        qps: vec![retrying(0x1A0, 4_000)],
        queries: Queries { per_second: 50, queried: 1, of: 2, answered: 1, ..Queries::default() },
    };
    Devices {
        ports: vec![port, other],
        lives: Arc::new(lives),
        contexts: Arc::new(contexts),
        ..Devices::default()
    }
}

/// The context of a queue pair that waits for an acknowledgement.
fn retrying(lqpn: u32, sent: u64) -> ContextSample {
    ContextSample {
        device: "mlx5_0".into(),
        port: 1,
        lqpn,
        sent: Some(sent),
        received: Some(70),
        in_flight: Some(3),
        stuck_ns: Some(2_500_000_000),
        retries_used: Some(5),
        retrying: 4,
        blamed: Some(Blamed { timeouts: 5, sequence_errors: 0, certain: true }),
        ..ContextSample::default()
    }
}

fn exposed(exporter: &mut Exporter, sample: &Sample) -> BTreeMap<String, f64> {
    let report = Report::build(sample, &report::Options::default());
    let exposition = Exposition::of(&exporter.take(sample, &report, &Process::default()));
    let lines = exposition.text(Format::Text).lines().filter(|line| !line.starts_with('#'));
    let points = lines.map(|line| line.rsplit_once(' ').unwrap());
    points.map(|(series, value)| (series.to_owned(), value.parse().unwrap())).collect()
}

/// A host whose NIC processes RoCE itself, with these contexts.
fn offloaded(contexts: Vec<ContextSample>) -> Sample {
    let qps = contexts.iter().map(|context| qp_life(context.lqpn, context.lqpn + 1_000)).collect::<Vec<_>>();
    let mut sample = with_lives(port(), Lives { qps: qps.into(), ..Lives::default() });
    Arc::make_mut(&mut sample.devices).contexts = Arc::new(Contexts { qps: contexts, ..Contexts::default() });
    sample
}

fn moving(lqpn: u32, sent: u64) -> ContextSample {
    let context = retrying(lqpn, sent);
    ContextSample { stuck_ns: Some(0), retries_used: Some(0), retrying: 0, blamed: None, ..context }
}

const NUMBERS: &str =
    "device=\"mlx5_0\",lqpn=\"7\",rqpn=\"1007\",peer=\"10.0.0.2\",pid=\"4711\",comm=\"train\"";

fn figure(points: &BTreeMap<String, f64>, name: &str) -> Option<f64> {
    points.get(&format!("rocescope_device_qp_{name}{{{NUMBERS}}}")).copied()
}

fn count(points: &BTreeMap<String, f64>, name: &str) -> usize {
    points.keys().filter(|series| series.starts_with(name)).count()
}

#[test]
fn a_host_without_packets_has_series_of_its_queue_pairs() {
    let sample = offloaded(vec![retrying(7, 900)]);
    let points = exposed(&mut Exporter::new(Options { qps: 4, ..Options::default() }), &sample);
    for (name, value) in [
        ("sent_packets_total", 900.0),
        ("received_packets_total", 70.0),
        ("ambiguous_readings_total", 0.0),
        ("in_flight_packets", 3.0),
        ("stuck_seconds", 2.5),
        ("retries_used", 5.0),
        ("timeouts_total", 5.0),
    ] {
        assert_eq!(figure(&points, name), Some(value), "{name}: {points:#?}");
    }
    assert_eq!(count(&points, "rocescope_qp_packets"), 0, "it has no flow");
    // Off unless asked for.
    assert_eq!(count(&exposed(&mut Exporter::new(Options::default()), &sample), "rocescope_device_qp_"), 0);
}

#[test]
fn unknown_figures_of_a_queue_pair_are_absent() {
    let listed = with_lives(port(), Lives { qps: vec![qp_life(7, 1_007)].into(), ..Lives::default() });
    let points = exposed(&mut Exporter::new(Options { qps: 4, ..Options::default() }), &listed);
    assert_eq!(count(&points, "rocescope_device_qp_"), 0, "{points:#?}");
    let mut known = offloaded(vec![moving(7, 900)]);
    let contexts = Arc::make_mut(&mut Arc::make_mut(&mut known.devices).contexts);
    (contexts.qps[0].stuck_ns, contexts.qps[0].in_flight) = (None, None);
    let points = exposed(&mut Exporter::new(Options { qps: 4, ..Options::default() }), &known);
    assert_eq!(
        (figure(&points, "sent_packets_total"), figure(&points, "retries_used")),
        (Some(900.0), Some(0.0))
    );
    for absent in ["stuck_seconds", "in_flight_packets", "timeouts_total"] {
        assert_eq!(figure(&points, absent), None, "{absent}");
    }
}

#[test]
fn those_in_trouble_come_first_and_the_rest_is_counted() {
    let mut contexts: Vec<_> = (100..120).map(|lqpn| moving(lqpn, 10_000 + u64::from(lqpn))).collect();
    contexts.push(retrying(7, 1));
    let mut sample = offloaded(contexts);
    let mut dead = qp_life(8, 1_008);
    dead.control.end = Some(ERROR);
    Arc::make_mut(&mut Arc::make_mut(&mut Arc::make_mut(&mut sample.devices).lives).qps).push(dead);
    let contexts = Arc::make_mut(&mut Arc::make_mut(&mut sample.devices).contexts);
    contexts.qps.push(ContextSample { in_flight: None, ..moving(8, 2) });
    let mut exporter = Exporter::new(Options { qps: 3, ..Options::default() });
    let points = exposed(&mut exporter, &sample);
    let chosen: Vec<&str> = (points.keys())
        .filter_map(|series| series.strip_prefix("rocescope_device_qp_sent_packets_total{"))
        .map(|labels| labels.split('"').nth(3).unwrap())
        .collect();
    assert_eq!(chosen, ["119", "7", "8"], "the dead one, the one that stands still, the busiest");
    let dropped = "rocescope_series_dropped_total{family=\"rocescope_qp\"}";
    assert_eq!(points[dropped], 19.0);
    sample.time_ns += SECOND;
    assert_eq!(exposed(&mut exporter, &sample)[dropped], 19.0, "they are counted once");
}

#[test]
fn flows_and_queue_pairs_of_nics_share_the_limit() {
    let mut sample = everything();
    sample.devices = Arc::new(unseen(port()));
    let flows = sample.flows.len();
    assert!(flows >= 2);
    let of = |qps| {
        let points = exposed(&mut Exporter::new(Options { qps, ..Options::default() }), &sample);
        let states =
            points.iter().filter(|(name, _)| name.starts_with("rocescope_device_qp_timeouts")).count();
        (count(&points, "rocescope_qp_packets_total"), states)
    };
    assert_eq!((of(2), of(64)), ((1, 1), (flows, 1)));
}

#[test]
fn a_queue_pair_that_packets_show_has_no_second_series() {
    let mut sample = super::tests::two_ways(10);
    // The flow to 10.0.0.2 goes to its peer.
    let life = qp_life(0x1A0, 7);
    let lives = Lives { qps: vec![life].into(), ..Lives::default() };
    let contexts = Contexts { qps: vec![moving(0x1A0, 9)], ..Contexts::default() };
    sample.devices = Arc::new(Devices {
        ports: vec![port()],
        lives: Arc::new(lives),
        contexts: Arc::new(contexts),
        ..Devices::default()
    });
    let points = exposed(&mut Exporter::new(Options { qps: 8, ..Options::default() }), &sample);
    assert_eq!(count(&points, "rocescope_device_qp_"), 0, "{points:#?}");
    assert!(count(&points, "rocescope_qp_packets_total") > 0);
}

#[test]
fn counts_of_a_queue_pair_never_decrease() {
    let mut exporter = Exporter::new(Options { qps: 4, ..Options::default() });
    let mut time_ns = offloaded(Vec::new()).time_ns;
    let mut at = |contexts: Vec<ContextSample>, created_ns: Option<u64>, seconds: u64| {
        let mut sample = offloaded(contexts);
        let lives = Arc::make_mut(&mut Arc::make_mut(&mut sample.devices).lives);
        for life in Arc::make_mut(&mut lives.qps) {
            life.control.created_ns = created_ns;
        }
        time_ns += seconds * SECOND;
        sample.time_ns = time_ns;
        exposed(&mut exporter, &sample)
    };
    let sent = |points: &BTreeMap<String, f64>| figure(points, "sent_packets_total");
    assert_eq!(sent(&at(vec![moving(7, 900)], Some(1), 1)), Some(900.0));
    // A count that began again goes on at once, and a reading without the figure changes nothing.
    let again = at(vec![moving(7, 3)], None, 1);
    assert_eq!((sent(&again), figure(&again, "ambiguous_readings_total")), (Some(900.0), Some(1.0)));
    let unknown = ContextSample { sent: None, ..moving(7, 0) };
    assert_eq!(sent(&at(vec![unknown], Some(1), 1)), Some(900.0));
    assert_eq!(sent(&at(vec![moving(7, 53)], Some(1), 1)), Some(950.0));
    // Another queue pair of the same numbers.
    assert_eq!(sent(&at(vec![moving(7, 10)], Some(2), 1)), Some(960.0));
    // It is gone: its counts stay for a while, what it did at the moment does not.
    let gone = at(Vec::new(), None, 1);
    assert_eq!((sent(&gone), figure(&gone, "in_flight_packets")), (Some(960.0), None));
    let back = at(vec![moving(7, 12)], Some(2), 200);
    assert_eq!((sent(&back), figure(&back, "in_flight_packets")), (Some(962.0), Some(3.0)));
    assert_eq!(figure(&back, "ambiguous_readings_total"), Some(1.0));
    assert_eq!(sent(&at(Vec::new(), None, 301)), None, "five minutes later");
}

/// The list and the contexts begin to count at different times: neither does a count stand still until one has
/// overtaken the other, nor does it take the difference for traffic.
#[test]
fn counts_go_on_where_another_source_takes_over() {
    let mut exporter = Exporter::new(Options { qps: 4, ..Options::default() });
    let mut time_ns = 0;
    let mut at = |(listed, wraps): (u64, u64), (read, own_wraps): (u64, u64)| {
        let context = ContextSample { received: None, ambiguous: own_wraps, ..moving(7, read) };
        let mut sample = offloaded(vec![context]);
        let mut port = port();
        let owner = QpOwner { device: port.device.clone(), lqpn: 7, rqpn: Some(1_007), ..QpOwner::default() };
        let qp = QpSample { owner, sent: Some(listed), ambiguous: wraps, ..QpSample::default() };
        port.qps = Arc::new(vec![qp]);
        Arc::make_mut(&mut sample.devices).ports = vec![port];
        time_ns += SECOND;
        sample.time_ns += time_ns;
        let points = exposed(&mut exporter, &sample);
        ["sent_packets_total", "ambiguous_readings_total"].map(|name| figure(&points, name))
    };
    assert_eq!(at((5_000, 0), (90, 0)), [Some(5_000.0), Some(0.0)]);
    // Exact, and smaller: what the list has counted stays.
    assert_eq!(at((5_100, 1), (190, 0)), [Some(5_000.0), Some(1.0)]);
    assert_eq!(at((5_200, 1), (290, 0)), [Some(5_100.0), Some(1.0)]);
    // A lower bound as well, so the list is first again; and it is larger.
    assert_eq!(at((5_300, 1), (390, 1)), [Some(5_100.0), Some(2.0)]);
    assert_eq!(at((5_420, 1), (490, 1)), [Some(5_220.0), Some(2.0)]);
}

#[test]
fn paths_without_packets_have_metrics_of_their_own() {
    let mut sample = everything();
    let of_packets = |points: &BTreeMap<String, f64>| -> Vec<(String, f64)> {
        let names = ["rocescope_entropy_", "rocescope_links_imbalance"];
        let own = points.iter().filter(|(name, _)| names.iter().any(|prefix| name.starts_with(prefix)));
        own.map(|(name, value)| (name.clone(), *value)).collect()
    };
    let before = exposed(&mut Exporter::new(Options::default()), &sample);
    assert_eq!(count(&before, "rocescope_qp_paths_"), 0);
    sample.devices = Arc::new(unseen(port()));
    let points = exposed(&mut Exporter::new(Options::default()), &sample);
    assert!(!of_packets(&before).is_empty());
    assert_eq!(of_packets(&points), of_packets(&before));
    assert_eq!(points["rocescope_qp_paths_qps{five_tuple=\"known\"}"], 2.0);
    assert_eq!(points["rocescope_qp_paths_qps{five_tuple=\"unknown\"}"], 0.0);
    assert_eq!(points["rocescope_qp_paths_entropy_normalized{weighted_by=\"queue_pairs\"}"], 1.0);
    assert_eq!(points["rocescope_qp_paths_effective_flows{weighted_by=\"queue_pairs\"}"], 2.0);
    // One on each of two ports.
    let ports = "rocescope_qp_paths_imbalance_ratio{over=\"ports\",weighted_by=\"queue_pairs\"}";
    assert_eq!(points[ports], 1.0);
}

/// Whether or not the verbs are probed.
#[test]
fn lists_are_a_collector() {
    for unavailable in [None, Some("--no-qp-probes".to_owned())] {
        let of = |unlisted: Vec<(String, String)>| {
            let mut sample = offloaded(vec![moving(7, 1)]);
            let devices = Arc::make_mut(&mut sample.devices);
            devices.lists.unlisted = unlisted;
            let lives = Arc::make_mut(&mut devices.lives);
            lives.calls.entered = 1;
            lives.unavailable.clone_from(&unavailable);
            let points = exposed(&mut Exporter::new(Options::default()), &sample);
            points["rocescope_scrape_collector_success{collector=\"qp_list\"}"]
        };
        assert_eq!(of(Vec::new()), 1.0);
        assert_eq!(of(vec![("mlx5_0".to_owned(), "I/O error".to_owned())]), 0.0);
    }
}

#[test]
fn contexts_are_a_collector() {
    let of = |queries: Queries| {
        let mut sample = offloaded(vec![moving(7, 1)]);
        Arc::make_mut(&mut Arc::make_mut(&mut sample.devices).contexts).queries = queries;
        let points = exposed(&mut Exporter::new(Options::default()), &sample);
        points.get("rocescope_scrape_collector_success{collector=\"qp_context\"}").copied()
    };
    let asked = Queries { per_second: 50, of: 1, ..Queries::default() };
    let refused = vec![("mlx5_0".to_owned(), "no CAP_SYS_RAWIO".to_owned())];
    assert_eq!(of(Queries::default()), None, "not asked for");
    assert_eq!(of(asked.clone()), Some(1.0), "nothing was asked yet");
    assert_eq!(of(Queries { queried: 1, answered: 1, ..asked.clone() }), Some(1.0));
    assert_eq!(of(Queries { failed: 1, refused: refused.clone(), ..asked.clone() }), Some(0.0));
    // One of two devices answers.
    assert_eq!(of(Queries { queried: 1, answered: 1, failed: 1, refused, ..asked }), Some(1.0));
}
