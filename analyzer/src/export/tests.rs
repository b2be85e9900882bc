//! Tests of the exporter on samples: present and absent series, and counters that must not decrease.

#![expect(clippy::float_cmp, reason = "counts and sums of them are exact")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rocescope_common::account::latency::{
    Latency, Request, Response, class_of, ended_message, on_request, on_response,
};
use rocescope_common::wire::opcode::Op;

use super::exposition::Format;
use super::registry::REGISTRY;
use super::*;
use crate::analysis::fixtures::{
    SECOND, document, everything, key, link, port, qp_life, sample, stats, with_lives,
};
use crate::entity::devices::{Devices, PauseSample, SourceSample};
use crate::entity::lives::{Lives, QpEvent};
use crate::host::kernel::fdinfo::Usage;
use crate::host::rdma::device::Hardware;
use crate::report;
use crate::sample::{Direction, FlowSample, Retired};

fn exposed(exporter: &mut Exporter, sample: &Sample) -> BTreeMap<String, f64> {
    let report = Report::build(sample, &report::Options::default());
    let exposition = Exposition::of(&exporter.take(sample, &report, &Process::default()));
    let text = exposition.text(Format::Text);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let points = lines.map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        (series.to_owned(), value.parse().unwrap())
    });
    let points: Vec<(String, f64)> = points.collect();
    let map: BTreeMap<String, f64> = points.iter().cloned().collect();
    assert_eq!(map.len(), points.len(), "a series is there twice");
    map
}

fn points_of(sample: &Sample) -> BTreeMap<String, f64> {
    exposed(&mut Exporter::new(Options::default()), sample)
}

#[test]
fn figures_are_those_of_the_report() {
    let sample = everything();
    let report = Report::build(&sample, &report::Options::default());
    let points = points_of(&sample);
    for link in &report.facts.links {
        let direction = link.direction.map(crate::analysis::direction_name).unwrap();
        let labels = format!("{{link=\"{}\",direction=\"{direction}\"}}", link.name);
        let at = |name: &str| points[&format!("rocescope_link_{name}_total{labels}")];
        assert_eq!((at("packets"), at("bytes")), (link.packets as f64, link.bytes as f64));
        let ratio = at("ce_marked_packets") / at("ecn_capable_packets");
        assert_eq!((!ratio.is_nan()).then_some(ratio), link.ce_ratio, "{labels}");
        // All bytes are attributed to a peer, those without a flow to `other`.
        let of_link = |name: &&String| {
            name.starts_with(&format!("rocescope_peer_bytes_total{}", labels.trim_end_matches('}')))
        };
        let peers: f64 = points.iter().filter(|(name, _)| of_link(name)).map(|(_, value)| value).sum();
        assert_eq!(peers, link.bytes as f64, "{labels}");
    }
    let sum = |prefix: &str| -> f64 {
        points.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, value)| value).sum()
    };
    let totals = &report.facts.totals;
    assert_eq!(sum("rocescope_link_packets_total"), totals.roce_packets as f64);
    assert_eq!(sum("rocescope_link_cnp_packets_total"), totals.cnp_packets as f64);
    assert_eq!(sum("rocescope_link_skipped_frames_total"), totals.skipped.packets() as f64);
    let active = report.findings.iter().filter(|one| one.active && one.owner.is_none()).count();
    assert!(active > 0);
    assert_eq!(sum("rocescope_findings{"), active as f64);
    assert!(sum("rocescope_finding_active{") > 0.0);
    assert_eq!(points["rocescope_lost_total{where=\"events\"}"], 12.0);
    assert_eq!(
        points["rocescope_link_nak_packets_total{link=\"eth0\",direction=\"egress\",code=\"rnr_nak\"}"],
        960.0
    );
}

#[test]
fn unknown_is_absent() {
    // A capture without a direction: no loss, latency, device or event.
    let mut bare =
        sample(vec![link("a", None)], vec![(key(0, "10.0.0.1", "10.0.0.2", 7), stats(49_152, 5, 500))]);
    bare.kind = crate::sample::SourceKind::Replay;
    let points = points_of(&bare);
    assert_eq!(points["rocescope_link_packets_total{link=\"a\"}"], 5.0);
    for absent in
        ["rocescope_link_lost", "rocescope_rtt", "rocescope_device", "rocescope_peer", "rocescope_coverage"]
    {
        let found: Vec<_> = points.keys().filter(|name| name.starts_with(absent)).collect();
        assert!(found.is_empty(), "{found:?}");
    }
    assert!(!points.contains_key("rocescope_lost_total{where=\"events\"}"));
    assert!(points.keys().all(|name| !name.starts_with("rocescope_process_cpu")));
}

/// Two links of one flow each way, live.
pub(super) fn two_ways(packets: u64) -> Sample {
    let links = vec![link("eth0", Some(Direction::Ingress)), link("eth0", Some(Direction::Egress))];
    let flow = |at, src, dst| (key(at, src, dst, 7), stats(49_152, packets, 100 * packets));
    let mut sample = sample(links, vec![flow(0, "10.0.0.2", "10.0.0.1"), flow(1, "10.0.0.1", "10.0.0.2")]);
    sample.kind = crate::sample::SourceKind::Live;
    sample
}

/// Retires all flows of a sample, as the flow table does.
fn retire(sample: &mut Sample) {
    for FlowSample { key, stats, .. } in std::mem::take(&mut sample.flows) {
        let retired = &mut sample.links[usize::from(key.link)].retired;
        *retired = Retired {
            flows: retired.flows + 1,
            packets: retired.packets + stats.packets,
            bytes: retired.bytes + stats.bytes,
            cnp_packets: retired.cnp_packets + stats.cnp_packets,
            ecn_data: std::array::from_fn(|bits| retired.ecn_data[bits] + stats.ecn_data[bits]),
            ..*retired
        };
    }
}

#[test]
fn counters_never_decrease_when_flows_retire() {
    let mut exporter = Exporter::new(Options { qps: 4, ..Options::default() });
    let mut samples = vec![two_ways(10), two_ways(25)];
    samples[1].flows[0].stats.rare.naks[0] = 3;
    let mut gone = samples[1].clone();
    retire(&mut gone);
    // The same flow keys again, with more packets, retired between two samples.
    let mut anew = gone.clone();
    anew.flows = two_ways(4).flows;
    let mut last = anew.clone();
    retire(&mut last);
    last.links[0].retired.bytes += 1_000;
    samples.extend([gone, anew, last]);
    let mut before: BTreeMap<String, f64> = BTreeMap::new();
    for (at, sample) in (0u64..).zip(&mut samples) {
        sample.time_ns += at * SECOND;
        let points = exposed(&mut exporter, sample);
        for (name, value) in &before {
            let is_counter = name.contains("_total") && !name.starts_with("rocescope_qp_");
            assert!(!is_counter || points.get(name).is_some_and(|now| now >= value), "{name} at {at}");
        }
        let bytes: u64 = sample.links[0].retired.bytes
            + sample.flows.iter().filter(|flow| flow.key.link == 0).map(|flow| flow.stats.bytes).sum::<u64>();
        let of = |peer: &str| {
            points[&format!(
                "rocescope_peer_bytes_total{{link=\"eth0\",direction=\"ingress\",peer=\"{peer}\"}}"
            )]
        };
        assert_eq!(of("10.0.0.2") + of("other"), bytes as f64);
        before = points;
    }
    let naks =
        "rocescope_link_nak_packets_total{link=\"eth0\",direction=\"ingress\",code=\"psn_sequence_error\"}";
    assert_eq!(before[naks], 3.0);
    let qps = before.keys().filter(|name| name.starts_with("rocescope_qp_bytes_total")).count();
    assert_eq!(qps, 2, "queue pairs keep their series for a while");
}

#[test]
fn series_are_bounded_and_the_rest_is_summed() {
    let links = vec![link("eth0", Some(Direction::Ingress)), link("eth0", Some(Direction::Egress))];
    let flows = (0..100u16).map(|at| {
        let address = format!("10.0.{}.{}", at / 50, 1 + at % 50);
        (key(0, &address, "10.9.9.9", 7), stats(49_152, 1, 1_000 + u64::from(at)))
    });
    let many = sample(links, flows.collect());
    let mut exporter = Exporter::new(Options { peers: 8, qps: 3 });
    let points = exposed(&mut exporter, &many);
    let count = |name: &str| points.keys().filter(|series| series.starts_with(name)).count();
    // Eight peers, and `other` in both directions.
    assert_eq!(count("rocescope_peer_bytes_total"), 10);
    assert_eq!(count("rocescope_qp_bytes_total"), 3);
    assert!(
        points.contains_key(
            "rocescope_peer_bytes_total{link=\"eth0\",direction=\"ingress\",peer=\"10.0.1.50\"}"
        )
    );
    let rest: u64 = (0..92).map(|at| 1_000 + at).sum();
    assert_eq!(
        points["rocescope_peer_bytes_total{link=\"eth0\",direction=\"ingress\",peer=\"other\"}"],
        rest as f64
    );
    assert_eq!(points["rocescope_series_dropped_total{family=\"rocescope_peer\"}"], 92.0);
    assert_eq!(points["rocescope_series_dropped_total{family=\"rocescope_qp\"}"], 97.0);
    let none = exposed(&mut Exporter::new(Options::default()), &many);
    assert!(none.keys().all(|name| !name.starts_with("rocescope_qp_")));
    assert!(points_of(&everything()).len() < 1_500);
}

/// A host of eight rails: every counter of its ports, PFC on two priorities, both directions of its links with this
/// many classes of latency, and the 32 busiest of 64 peers. Every rail has findings.
fn eight_rails(classes: u32) -> Sample {
    let (one, _) = full();
    let template = one.devices.ports[0].clone();
    let ports = (0..8u8).map(|rail| {
        let mut port = template.clone();
        (port.device, port.interface) = (format!("mlx5_{rail}"), Some(format!("eth{rail}")));
        let pause =
            |priority, sent| PauseSample { priority: Some(priority), sent, ..template.pause[0].clone() };
        port.pause = vec![pause(3, true), pause(3, false), pause(6, true), pause(6, false)];
        port
    });
    let ways = [Direction::Ingress, Direction::Egress];
    let links = (0..8).flat_map(|rail| ways.map(|way| link(&format!("eth{rail}"), Some(way))));
    let flow = |at: u16| {
        let (link, peer) = (at % 16, 1 + at / 16);
        let (local, remote) = (format!("10.{}.0.1", link / 2), format!("10.{}.1.{peer}", link / 2));
        let (src, dst) = if link % 2 == 0 { (&remote, &local) } else { (&local, &remote) };
        let mut stats = stats(49_152, 1_000, 1_000_000 + 1_000 * u64::from(at));
        stats.ecn_data = [0, 0, 900, 100];
        stats.rare.naks[0] = 3;
        (key(link, src, dst, 17 + u32::from(at)), stats)
    };
    let mut sample = sample(links.collect(), (0..128).map(flow).collect());
    sample.kind = crate::sample::SourceKind::Live;
    sample.links.iter_mut().for_each(|link| link.speed_mbps = Some(400_000));
    sample.devices = Arc::new(Devices { ports: ports.collect(), ..(*one.devices).clone() });
    sample.metrics.loss = Some(crate::metrics::loss::Loss::default());
    let figures = one.metrics.latency.unwrap();
    let figure = figures.get(0).unwrap();
    let of_class = |class| crate::metrics::latency::Figure {
        classes: crate::metrics::latency::Classes::One(class),
        ..figure.clone()
    };
    sample.metrics.latency =
        Some((0..16 * classes).map(|at| (at, of_class(u8::try_from(at / 16).unwrap()))).collect());
    sample
}

/// The budget of a scrape: a Prometheus of ten thousand hosts has this many series for each of them.
#[test]
fn a_host_of_eight_rails_has_at_most_1_500_series() {
    let (_, process) = full();
    let families = |classes| {
        let sample = eight_rails(classes);
        let report = Report::build(&sample, &report::Options::default());
        let mut exporter = Exporter::new(Options { peers: 32, ..Options::default() });
        let exposition = Exposition::of(&exporter.take(&sample, &report, &process));
        let mut families = BTreeMap::<String, usize>::new();
        for line in exposition.text(Format::Text).lines().filter(|line| !line.starts_with('#')) {
            *families.entry(line.split(['{', ' ']).next().unwrap().to_owned()).or_default() += 1;
        }
        families
    };
    let total = |families: &BTreeMap<String, usize>| families.values().sum::<usize>();
    let usual = families(2);
    // Everything is there that the budget is for.
    assert_eq!(usual["rocescope_link_packets_total"], 16);
    assert_eq!((usual["rocescope_device_info"], usual["rocescope_pause_frames_total"]), (8, 8 * 4));
    assert_eq!(usual["rocescope_rtt_seconds_count"], 16 * 2, "{usual:#?}");
    // Both directions of 32 peers, and the rest of each link.
    assert_eq!(usual["rocescope_peer_bytes_total"], 2 * 32 + 16, "{usual:#?}");
    assert!(usual["rocescope_finding_active"] >= 8, "{usual:#?}");
    let devices = usual.iter().filter(|(name, _)| name.starts_with("rocescope_device_")).map(|(_, n)| n);
    assert!(devices.sum::<usize>() > 8 * 30, "{usual:#?}");
    assert!(total(&usual) <= 1_500, "{}: {usual:#?}", total(&usual));
    // Atomics, which few applications use, on every link.
    assert_eq!(total(&families(3)), total(&usual) + 240);
}

#[test]
fn devices_have_their_counters_once() {
    let mut port = port();
    let counters = |source, values: &[(&str, u64)], resets| SourceSample {
        source,
        values: values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        resets,
    };
    port.counters = vec![
        counters("sysfs hw_counters", &[("cnps_sent", 7), ("retransmissions", 5)], 2),
        counters("RDMA netlink", &[("cnps_sent", 8), ("own_name", 1)], 0),
    ];
    port.pause = vec![
        PauseSample {
            priority: Some(3),
            frames: Some(9),
            paused_ns: Some(1_500_000_000),
            ..PauseSample::default()
        },
        PauseSample { priority: Some(4), frames: Some(0), ..PauseSample::default() },
    ];
    port.pause_source = "ethtool";
    let lives = Lives { qps: vec![qp_life(17, 18), qp_life(19, 20)].into(), ..Lives::default() };
    let points = points_of(&with_lives(port, lives));
    assert_eq!(points["rocescope_device_cnps_sent_total{device=\"mlx5_0\",port=\"1\"}"], 7.0);
    assert_eq!(points["rocescope_device_retransmitted_packets_total{device=\"mlx5_0\",port=\"1\"}"], 5.0);
    assert_eq!(
        points["rocescope_device_statistics_resets_total{device=\"mlx5_0\",port=\"1\",source=\"sysfs hw_counters\"}"],
        2.0
    );
    assert_eq!(
        points["rocescope_device_info{device=\"mlx5_0\",port=\"1\",netdev=\"eth0\",driver=\"mlx5_ib\"}"],
        1.0
    );
    let paused =
        "rocescope_pause_seconds_total{device=\"mlx5_0\",port=\"1\",direction=\"received\",priority=\"3\"}";
    assert_eq!(points[paused], 1.5);
    assert!(points.keys().all(|name| !name.contains("priority=\"4\"")));
    let qps = "rocescope_qps{device=\"mlx5_0\",port=\"1\",type=\"RC\",state=\"RTS\",owner=\"train\"}";
    assert_eq!(points[qps], 2.0);
}

#[test]
fn names_from_outside_cannot_break_the_format() {
    let mut port = port();
    port.device = "a\"} 1\nrocescope_evil 1".to_owned();
    let mut hostile = with_lives(port, Lives::default());
    hostile.devices = Arc::new(Devices { ..(*hostile.devices).clone() });
    hostile.links[0].name = "x\\\u{1b}[2J".to_owned();
    let points = points_of(&hostile);
    assert!(points.keys().all(|name| !name.starts_with("rocescope_evil")));
    assert!(points.contains_key("rocescope_link_packets_total{link=\"x\\\\\u{fffd}[2J\"}"), "{points:?}");
}

fn event(name: &str) -> QpEvent {
    QpEvent { device: "mlx5_0".into(), lqpn: Some(17), event: name.to_owned(), ..QpEvent::default() }
}

/// One program and one map, with run-time statistics.
fn usage() -> Usage {
    let mut usage = Usage::default();
    usage.add("prog_type:\t6\nmemlock:\t8192\nprog_id:\t1\nrun_time_ns:\t1500000\n");
    usage.add("map_type:\t2\nmemlock:\t4096\nmap_id:\t2\n");
    usage
}

#[test]
fn events_count_once_and_their_names_are_bounded() {
    let mut exporter = Exporter::new(Options::default());
    let mut at = |events: Vec<QpEvent>, events_left_out| {
        let events =
            (events_left_out..).zip(events).map(|(number, event)| QpEvent { number, ..event }).collect();
        let lives = Lives { events, events_left_out, ..Lives::default() };
        exposed(&mut exporter, &with_lives(port(), lives))
    };
    let of = |points: &BTreeMap<String, f64>, event: &str| {
        points.get(&format!("rocescope_qp_events_total{{device=\"mlx5_0\",event=\"{event}\"}}")).copied()
    };
    let points = at(vec![event("QP_FATAL"), event("modify to RTR")], 0);
    assert_eq!((of(&points, "QP_FATAL"), of(&points, "modify to RTR")), (Some(1.0), Some(1.0)));
    // The first event has left the list, and a new one was added.
    let points = at(vec![event("modify to RTR"), event("QP_FATAL")], 1);
    assert_eq!((of(&points, "QP_FATAL"), of(&points, "modify to RTR")), (Some(2.0), Some(1.0)));
    // More events left the list than were counted: all events in it are new.
    let many = (0..100).map(|at| event(&format!("modify to {at}"))).collect();
    let points = at(many, 10);
    assert_eq!(points.keys().filter(|name| name.starts_with("rocescope_qp_events_total")).count(), 65);
    assert_eq!(of(&points, "other"), Some(38.0));
}

#[test]
fn latency_has_the_class_of_the_requests() {
    let mut sample = two_ways(10);
    let mut ring = Latency::EMPTY;
    let mut time = |exporter: &mut Exporter, psn: u32, class: u32| {
        let request = Request { psn, class, message: 0, duplicate_psn: false };
        on_request(&mut ring, request, 0);
        on_response(&mut ring, Response { acked: psn, is_ack: class != 2, ends_read: false }, 5_000);
        let figure = crate::metrics::latency::Figure::of(&ring);
        sample.metrics.latency = Some([(0, figure)].into_iter().collect());
        sample.time_ns += SECOND;
        exposed(exporter, &sample)
    };
    let of = |points: &BTreeMap<String, f64>, class: &str| {
        let name = "rocescope_rtt_seconds_count{link=\"eth0\",direction=\"ingress\",class=";
        points.get(&format!("{name}\"{class}\"}}")).copied()
    };
    let mut exporter = Exporter::new(Options::default());
    let points = time(&mut exporter, 1, 1);
    assert_eq!((of(&points, "write_send"), of(&points, "read")), (Some(1.0), None));
    let points = time(&mut exporter, 2, 2);
    assert_eq!((of(&points, "write_send"), of(&points, "read")), (Some(1.0), Some(1.0)));
    let points = time(&mut exporter, 3, 2);
    assert_eq!((of(&points, "write_send"), of(&points, "read")), (Some(1.0), Some(2.0)));
}

#[test]
fn message_completion_is_that_of_the_messages_this_host_sends() {
    let mut sample = two_ways(10);
    let mut exporter = Exporter::new(Options::default());
    let mut rings = [Latency::EMPTY; 2];
    let mut points = BTreeMap::new();
    for (psn, opcode) in [(1, 0x08), (2, 0x04), (3, 0x0C)] {
        let op = Op::of(opcode);
        for (slot, ring) in (0..).zip(&mut rings) {
            let now = 2_000_000 + slot * 16;
            let message = ended_message(opcode, op, 1_000_000, now);
            let request = Request { psn, class: class_of(op, true), message, duplicate_psn: false };
            on_request(ring, request, now);
            let response = if opcode == 0x0C { 0x10 } else { 0x11 };
            on_response(ring, Response::of(response, Op::of(response), psn), now + 5_000);
        }
        let figures = (0..).zip(rings.iter().map(crate::metrics::latency::Figure::of));
        sample.metrics.latency = Some(figures.collect());
        sample.time_ns += SECOND;
        points = exposed(&mut exporter, &sample);
    }
    let of = |name: &str, labels: &str| {
        points.get(&format!("rocescope_message_completion_seconds_{name}{{link=\"eth0\",{labels}}}")).copied()
    };
    for operation in ["write", "send", "read"] {
        let label = format!("opcode=\"{operation}\"");
        assert_eq!(of("count", &label), Some(1.0), "one flow of two is egress: {points:#?}");
        let bucket = if operation == "write" { 0.0 } else { 1.0 };
        assert_eq!(of("bucket", &format!("{label},le=\"0.000524288\"")), Some(bucket), "{operation}");
        assert_eq!(of("bucket", &format!("{label},le=\"0.002097152\"")), Some(1.0), "{operation}");
    }
}

#[test]
fn a_queue_pair_has_its_numbers_at_both_ends() {
    let mut sample = two_ways(10);
    sample.devices = with_lives(port(), Lives::default()).devices;
    sample.peers.insert(crate::sample::PeerKey::of(&sample.flows[0].key), 0x2A7);
    let points = exposed(&mut Exporter::new(Options { peers: 1, qps: 4 }), &sample);
    let (received, sent) = (
        "direction=\"ingress\",peer=\"10.0.0.2\",device=\"mlx5_0\",lqpn=\"7\",rqpn=\"679\"",
        "direction=\"egress\",peer=\"10.0.0.2\",device=\"mlx5_0\",rqpn=\"7\"",
    );
    for labels in [received, sent] {
        let name = format!("rocescope_qp_packets_total{{link=\"eth0\",{labels}}}");
        assert_eq!(points.get(&name), Some(&10.0), "{name}: {points:?}");
    }
}

/// A sample in which every metric of the table has a series.
pub(super) fn full() -> (Sample, Process) {
    let mut port = port();
    let named: Vec<(String, u64)> = REGISTRY
        .iter()
        .filter_map(|metric| metric.source.strip_prefix("devices[].counters."))
        .zip(1_000u64..)
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    port.counters = vec![SourceSample { source: "sysfs hw_counters", values: named, resets: 1 }];
    port.pause = vec![PauseSample {
        sent: true,
        priority: Some(3),
        frames: Some(9),
        paused_ns: Some(1_500_000_000),
        transitions: Some(2),
        ..PauseSample::default()
    }];
    port.pause_source = "ethtool";
    port.window = Some((crate::analysis::fixtures::START, crate::analysis::fixtures::START + SECOND));
    port.hardware = Hardware {
        firmware: Some("28.42.1000".into()),
        link_layer: Some("Ethernet".into()),
        pci: Some("0000:3b:00.0".into()),
        numa_node: Some(0),
        speed_mbps: Some(200_000),
    };
    let mut sample = everything();
    sample.devices = Arc::new(super::nic_qp_tests::unseen(port));
    sample.links.iter_mut().for_each(|link| link.speed_mbps = Some(100_000));
    sample.metrics.loss = Some(crate::metrics::loss::Loss::default());
    let mut ring = Latency::EMPTY;
    let counts = &mut ring.counts[0];
    (counts[0], counts[30], counts[193]) = (5, 100, 1);
    (ring.completions[0][20], ring.completion_max_ns[0]) = (40, 1_500_000);
    let figure = crate::metrics::latency::Figure::of(&ring);
    sample.metrics.latency = Some((0..2).map(|slot| (slot, figure.clone())).collect());
    let process = Process {
        kernel: Some("6.12.0".into()),
        started_ns: crate::analysis::fixtures::START,
        cpu_seconds: Some(1.25),
        resident_bytes: Some(50 << 20),
        bpf: usage(),
        rows: Some([2_400, 7]),
        otlp: vec![("metrics", otlp::queue::Tally { sent: 40, retried: 3, ..otlp::queue::Tally::default() })],
    };
    (sample, process)
}

/// The published examples, which parsers of other programs read in the integration tests, contain a series of every
/// metric.
#[test]
fn every_metric_occurs_in_the_examples() {
    let (sample, process) = full();
    let options =
        crate::analysis::Options { imbalance_all_links: true, ..crate::analysis::Options::default() };
    let mut report = Report::build(&sample, &options.into());
    // Series that need bins or several samples.
    let other = crate::report::schema::full::full();
    (report.facts.bursts, report.facts.coverage) = (other.facts.bursts, other.facts.coverage);
    let mut exporter = Exporter::new(Options { peers: 2, qps: 4 });
    let exposition = Exposition::of(&exporter.take(&sample, &report, &process));
    for (format, name) in [(Format::Text, "every.prom"), (Format::OpenMetrics, "every.openmetrics")] {
        let text = exposition.text(format);
        // The version changes with each release, so it is replaced.
        let stable = text.replace(&format!("version=\"{}\"", env!("CARGO_PKG_VERSION")), "version=\"0\"");
        document::check(&format!("../tests/data/export/{name}"), &stable);
    }
    let text = exposition.text(Format::Text);
    for metric in REGISTRY {
        let name = metric.sample_name();
        let found = text.lines().any(|line| {
            line.strip_prefix(&name)
                .is_some_and(|rest| rest.starts_with([' ', '{']) || rest.starts_with("_bucket"))
        });
        assert!(found, "{name} has no series");
    }
}

#[test]
fn alerts_use_metrics_of_the_registry_alone() {
    let alerts = include_str!("../../../docs/alerts.yml");
    let names: BTreeSet<String> = REGISTRY.iter().map(registry::Metric::sample_name).collect();
    let code =
        alerts.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
    let words = code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let used: BTreeSet<&str> = words.filter(|word| word.starts_with("rocescope_")).collect();
    assert!(used.len() > 5, "{used:?}");
    for name in used {
        assert!(names.contains(name), "{name} is no metric");
    }
}
