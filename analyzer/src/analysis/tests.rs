//! Exact figures from samples made by hand.

use std::sync::Arc;

use rocescope_common::abi::Counter;
use rocescope_common::account::flow::SRC_QP_SEVERAL;
use rocescope_common::account::{Mixed, PsnTrack, Seldom, observe};
use rocescope_common::wire::SkipReason;
use rocescope_common::wire::frame::{Encap, Frame, UNKNOWN};
use rocescope_common::wire::opcode::Name;

use crate::analysis::fixtures::{START, cnps, counter, everything, key, link, sample, stats, tuple, words};
use crate::analysis::{Ecn, Facts, Flow, Opcode, Options, Port, Spread, unknown_names};
use crate::metrics::traffic::bins::{Bin, BinTotals};
use crate::metrics::traffic::{LinkTraffic, Traffic};
use crate::report::{Report, json, text};
use crate::sample::{Direction, Extra, LinkSample, PeerKey, Retired, RetiredTuple, Sample, Stats};

const A: &str = "10.0.0.1";
const B: &str = "10.0.0.2";

fn facts(sample: &Sample) -> Facts {
    Facts::of(sample, &Options::default())
}

/// The report of one flow on one link.
fn one(stats: &Stats, change: impl FnOnce(&mut Sample)) -> Flow {
    let mut sample = sample(vec![link("a.pcap", None)], vec![(key(0, A, B, 7), stats.clone())]);
    change(&mut sample);
    facts(&sample).flows.remove(0)
}

#[track_caller]
fn close(figure: Option<f64>, expected: f64) {
    assert!(figure.is_some_and(|f| (f - expected).abs() < 1e-12), "{figure:?} is not {expected}");
}

fn frame(src_port: u16, wire_len: u32) -> Frame {
    Frame {
        src: words("fd00::1").1,
        dst: words("fd00::2").1,
        family: 6,
        roce_version: 2,
        tos: 2,
        opcode: 0x04,
        src_port,
        dest_qp: 9,
        wire_len,
        payload: 0,
        bth_offset: 62,
        ip_offset: 14,
        ..Frame::EMPTY
    }
}

/// Accounts for `frames` as replay does, and gives the report of the one flow they make.
fn accounted(frames: &[Frame], keep_extra: bool) -> (Flow, Facts) {
    let (mut stats, mut extra) = (Stats::default(), Extra::default());
    for frame in frames {
        let outcome = observe(&mut stats, frame, START);
        if outcome.other_port && keep_extra {
            match extra.ports.iter_mut().find(|(port, _)| *port == frame.src_port) {
                Some((_, counter)) => counter.add(frame.wire_len),
                None => extra.ports.push((frame.src_port, counter(1, frame.wire_len.into()))),
            }
        }
    }
    let mut sample = sample(vec![link("a.pcap", None)], vec![(key(0, "fd00::1", "fd00::2", 9), stats)]);
    sample.extra.insert(0, extra);
    sample.links[0].extra_full = u64::from(!keep_extra);
    let mut all = facts(&sample);
    (all.flows.remove(0), all)
}

fn v1(wire_len: u32) -> Frame {
    Frame { roce_version: 1, tos: 0, src_port: 0, ..frame(0, wire_len) }
}

#[test]
fn every_packet_is_in_a_flow_or_named_elsewhere() {
    let all = facts(&everything());
    let totals = &all.totals;
    assert_eq!((totals.packets, totals.roce_packets), (1_879_164, 1_819_151));
    assert_eq!(totals.packets, totals.roce_packets + totals.skipped.packets());
    let in_flows: u64 = all.flows.iter().map(|flow| flow.packets).sum();
    let lost = totals.lost.flow_table_full + totals.lost.contended;
    assert_eq!((totals.lost.contended, lost), (2, 7));
    assert_eq!(totals.roce_packets, in_flows + totals.retired.packets + lost);
    assert_eq!(totals.roce_packets, all.links.iter().map(|link| link.packets).sum::<u64>());
    assert_eq!(totals.roce_bytes, all.links.iter().map(|link| link.bytes).sum::<u64>());
    assert_eq!(totals.bytes - totals.roce_bytes, 6_000_000 + 720 + 66);
    assert_eq!(totals.cnp_packets, 5_120 + 3);
    assert_eq!(totals.skipped.0, [(SkipReason::Arp, 12), (SkipReason::Tcp, 60_001)]);
    assert_eq!(totals.lost.extra_table_full, 40);
    // Flows and retired flows; RoCEv1 has no ECN.
    let ecn = Ecn { not_ect: 5_120 + 24 + 3, ect1: 0, ect0: 1_300_000 + 90_000 + 220_000 + 897, ce: 200_100 };
    assert_eq!(totals.ecn, Some(ecn));
    close(totals.ce_ratio, 200_100.0 / (1_300_000.0 + 220_000.0 + 897.0 + 200_100.0));
    close(all.links[0].ce_ratio, 200_100.0 / 1_500_997.0);
    assert_eq!(all.links[1].ce_ratio, None, "acknowledgements and CNPs alone");
    for flow in &all.flows {
        let opcodes: u64 = flow.opcodes.iter().map(|opcode| opcode.packets).sum();
        assert_eq!(opcodes, flow.packets, "{flow:?}");
    }
}

#[test]
fn what_is_not_known_is_null() {
    let mut sample = sample(vec![link("a.pcap", None)], vec![(key(0, A, B, 7), cnps(0, 2))]);
    sample.window = None;
    let json = serde_json::to_value(facts(&sample)).unwrap();
    let flow = &json["flows"][0];
    for (of, fields) in [
        (&json["window"], &["first_ns", "last_ns"][..]),
        (&json["totals"]["lost"], &["events_dropped", "capture_drops", "interface_drops"]),
        (
            flow,
            &[
                "direction",
                "pcp",
                "encapsulation",
                "inner_bytes",
                "ce_ratio",
                "psn",
                "psn_responses",
                "latency_ns",
                "peer_qp",
                "pid",
                "comm",
            ],
        ),
        (&json["entropy"], &["normalized"]),
    ] {
        for field in fields {
            assert_eq!(of.get(field), Some(&serde_json::Value::Null), "{field}");
        }
    }
    assert_eq!((&flow["vlan"], &flow["src_port_count"]), (&0.into(), &1.into()));
    assert_eq!(json["totals"]["skipped"], serde_json::json!({}));
    assert_eq!(json["entropy"]["entropy_bits"], 0.0);
    assert_eq!(flow["opcodes"], serde_json::json!([{"code": 129, "name": "CNP", "packets": 2}]));
}

#[test]
fn order_does_not_depend_on_who_came_first() {
    let mut sample = everything();
    let expected = facts(&sample);
    sample.flows.reverse();
    let reversed = facts(&sample);
    assert_eq!(expected, reversed);
    let order: Vec<_> = expected.flows.iter().map(|flow| (flow.src.to_string(), flow.dest_qp)).collect();
    assert_eq!(
        order,
        [
            ("10.1.0.11".into(), 1),
            ("10.1.0.11".into(), 280),
            ("10.1.0.42".into(), 280),
            ("10.1.0.42".into(), 679),
            ("fd00:10::c0de:11".into(), 0x00FF_0001),
            ("fe80::1".to_owned(), 17),
        ]
    );
}

#[test]
fn the_sixteen_ports_with_most_bytes() {
    let mut stats = stats(50_000, 100, 10_000);
    (stats.seldom.other_port_packets, stats.seldom.other_port_bytes) = (99, 9_900);
    // Twenty more ports in falling order, the last five of equal size.
    let ports =
        (0..20u16).map(|i| (60_020 - i, counter(u64::from(20 - i), u64::from(1_000 - 10 * i.min(15)))));
    let ports: Vec<_> = ports.collect();
    let flow = one(&stats, |sample| {
        sample.extra.insert(0, Extra { ports, opcodes: vec![(0x64, 3)], ..Extra::default() });
    });
    assert_eq!(flow.src_port_count.get(), Some(21));
    assert_eq!(flow.src_ports.len(), 16);
    assert_eq!(flow.src_ports[0], Port { port: 60_020, packets: 20, bytes: 1_000 });
    assert_eq!(flow.src_ports[15], Port { port: 60_001, packets: 1, bytes: 850 }, "equal: the lowest port");
    let ud = Opcode { code: 0x64, name: Name(0x64), packets: 3 };
    assert_eq!(flow.opcodes.iter().map(|one| one.code).collect::<Vec<_>>(), [0x04, 0x64]);
    assert_eq!(flow.opcodes.iter().last(), Some(ud));
}

#[test]
fn ports_that_found_the_table_full_make_their_number_unknown() {
    let frames = [frame(1, 100), frame(2, 200), frame(3, 300)];
    let (flow, all) = accounted(&frames, true);
    assert_eq!(flow.src_port_count.get(), Some(3));
    assert_eq!((all.entropy.tuples.five_tuples, all.entropy.unattributed_bytes), (3, Some(0)));
    let (flow, all) = accounted(&frames, false);
    assert_eq!(flow.src_port_count.get(), None);
    assert_eq!(*flow.src_ports, [Port { port: 1, packets: 1, bytes: 100 }]);
    assert_eq!((all.entropy.tuples.five_tuples, all.entropy.unattributed_bytes), (1, Some(500)));
    // A flow on the same link that lost nothing keeps its number.
    let (flow, _) = accounted(&[frame(1, 100)], false);
    assert_eq!(flow.src_port_count.get(), Some(1));
}

/// In live runs a flow and its further ports are read one after the other: packets between the two
/// readings are no loss.
#[test]
fn ports_read_later_than_their_flow_are_not_lost() {
    let stats = Stats {
        seldom: Seldom { other_port_packets: 5, other_port_bytes: 500, ..Seldom::default() }.into(),
        ..stats(1, 9, 900)
    };
    let mut sample = sample(vec![link("a.pcap", None)], vec![(key(0, A, B, 7), stats)]);
    sample.extra.insert(0, Extra { ports: vec![(2, counter(4, 400))], ..Extra::default() });
    let all = facts(&sample);
    assert_eq!(all.flows[0].src_port_count.get(), Some(2));
    assert_eq!(all.entropy.unattributed_bytes, Some(0));
}

#[test]
fn rocev1_has_no_ports() {
    for lost_elsewhere in [false, true] {
        let (flow, all) = accounted(&[v1(90), v1(90)], !lost_elsewhere);
        assert_eq!((flow.src_port_count.get(), flow.src_ports.len()), (Some(0), 0));
        assert_eq!((flow.roce_version, flow.dscp, flow.ce_ratio()), (Some(1), None, None));
        assert_eq!(flow.ecn.get(), Some(Ecn::default()));
        assert_eq!((all.entropy.tuples.five_tuples, all.entropy.tuples.source_ports), (0, 0));
        assert_eq!((all.entropy.tuples.entropy_bits, all.entropy.tuples.effective_flows), (None, None));
        assert_eq!((all.entropy.tuples.normalized, all.entropy.tuples.top_share), (None, None));
    }
}

#[test]
fn both_versions_in_one_flow() {
    for frames in [[v1(90), frame(5, 100), frame(6, 200)], [frame(5, 100), v1(90), frame(6, 200)]] {
        let (flow, all) = accounted(&frames, true);
        assert!(flow.mixed.contains("roce_version"));
        assert_eq!(flow.src_port_count.get(), Some(2));
        let ports = [Port { port: 6, packets: 1, bytes: 200 }, Port { port: 5, packets: 1, bytes: 100 }];
        assert_eq!(*flow.src_ports, ports);
        assert_eq!((all.entropy.tuples.five_tuples, all.entropy.unattributed_bytes), (2, Some(0)));
        let (flow, all) = accounted(&frames, false);
        assert_eq!(flow.src_port_count.get(), None);
        assert_eq!(all.entropy.unattributed_bytes, None, "the bytes of RoCEv1 are not known apart");
    }
}

#[test]
fn what_is_mixed_is_named() {
    let mut stats = stats(1, 2, 300);
    stats.mixed = Mixed::PCP | Mixed::ENCAPSULATION;
    stats.seldom.inner_bytes = 120;
    let flow = one(&stats, |_| ());
    assert_eq!(flow.mixed.names().collect::<Vec<_>>(), ["pcp", "encapsulation"]);
    assert!(flow.encapsulation.is_none());
    assert_eq!((flow.encapsulation.name(), flow.inner_bytes.get()), (None, Some(120)));
    stats.encap = Encap::Erspan3 as u32 | (Encap::Vxlan as u32) << 8;
    assert_eq!(one(&stats, |_| ()).encapsulation.name().as_deref(), Some("erspan3+vxlan"));
}

#[test]
fn the_sending_queue_pair() {
    let rc = Stats { src_qp: 5, ..stats(1, 2, 300) };
    assert_eq!(one(&rc, |_| ()).peer_qp, None, "not a datagram");
    let ud = Stats { transport: 3, ..rc };
    assert_eq!(one(&ud, |_| ()).peer_qp, Some(5));
    for unknown in [UNKNOWN, SRC_QP_SEVERAL] {
        assert_eq!(one(&Stats { src_qp: unknown, ..ud.clone() }, |_| ()).peer_qp, None);
    }
    let named = one(&ud, |sample| {
        sample.peers.insert(PeerKey::of(&key(0, A, B, 7)), 0x99);
    });
    assert_eq!(named.peer_qp, Some(0x99), "connection management knows better");
}

#[test]
fn entropy_by_hand() {
    // 1/2, 1/4, 1/8, 1/8: 0.5·1 + 0.25·2 + 2·0.125·3 = 1.75 bits. The half is two flows.
    let flows = [(7, 1, 250), (8, 1, 250), (9, 2, 250), (10, 3, 125)]
        .map(|(qp, port, bytes)| (key(0, A, B, qp), stats(port, 1, bytes)));
    let mut sample = sample(vec![link("a.pcap", None), link("b.pcap", None)], flows.to_vec());
    sample.retired_tuples = vec![
        RetiredTuple { tuple: tuple(B, A, 3), link: 0, bytes: 125 },
        // The same tuples on another link, where they have fewer bytes.
        RetiredTuple { tuple: tuple(A, B, 1), link: 1, bytes: 499 },
        RetiredTuple { tuple: tuple(B, A, 3), link: 1, bytes: 1 },
    ];
    sample.retired_unattributed = 77;
    let entropy = facts(&sample).entropy;
    assert_eq!((entropy.tuples.five_tuples, entropy.tuples.source_ports), (4, 3));
    close(entropy.tuples.entropy_bits, 1.75);
    close(entropy.tuples.normalized, 0.875);
    close(entropy.tuples.effective_flows, 3.363_585_661_014_858);
    close(entropy.tuples.top_share, 0.5);
    assert_eq!(entropy.unattributed_bytes, Some(77));
    // More bytes on the other link: 600 + 250 + 125 + 125.
    sample.retired_tuples[1].bytes = 600;
    close(facts(&sample).entropy.tuples.top_share, 600.0 / 1_100.0);
}

#[test]
fn acknowledgements_are_no_data_flows() {
    let data = |qp, port| (key(0, A, B, qp), Stats { payload_bytes: 1_000, ..stats(port, 1, 1_100) });
    let ack = |qp, port| (key(0, B, A, qp), Stats { payload_bytes: 0, ..stats(port, 1, 66) });
    let flows = vec![data(1, 10), data(2, 11), ack(1, 10), ack(2, 11)];
    let entropy = facts(&sample(vec![link("a.pcap", None)], flows)).entropy;
    let data = entropy.data.unwrap();
    assert_eq!((entropy.tuples.five_tuples, data.five_tuples), (4, 2));
    close(data.effective_flows, 2.0);
    close(data.normalized, 1.0);
    assert!(entropy.tuples.normalized < Some(0.7), "{entropy:?}");
}

#[test]
fn one_tuple_has_no_spread() {
    let sample = sample(vec![link("a.pcap", None)], vec![(key(0, A, B, 7), stats(1, 3, 300))]);
    let entropy = facts(&sample).entropy;
    assert_eq!((entropy.tuples.entropy_bits, entropy.tuples.normalized), (Some(0.0), None));
    assert_eq!((entropy.tuples.effective_flows, entropy.tuples.top_share), (Some(1.0), Some(1.0)));
    assert!(!serde_json::to_string(&entropy).unwrap().contains("-0"));
}

#[test]
fn imbalance_counts_idle_links() {
    let links = ["up0", "up1", "up2", "host"].map(|name| link(name, None));
    let mut sample = sample(links.to_vec(), vec![(key(0, A, B, 7), stats(1, 3, 300))]);
    sample.links[1].retired.bytes = 60;
    sample.links[1].flow_table_full = Counter { packets: 1, bytes: 40 };
    let group = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let groups = vec![group(&["up1", "up0", "up2", "nowhere"]), group(&["host", "up2"]), group(&["up0"])];
    assert_eq!(unknown_names(&sample, groups.iter().flatten()), ["nowhere"]);
    let found =
        Facts::of(&sample, &Options { groups, imbalance_all_links: false, ..Options::default() }).imbalance;
    assert_eq!(found.len(), 2, "one link compares with nothing");
    assert_eq!(found[0].links, ["up0", "up1", "up2"]);
    close(found[0].max_over_mean, 300.0 * 3.0 / 400.0);
    close(found[0].jain, 160_000.0 / (3.0 * 100_000.0));
    assert_eq!((found[1].max_over_mean, found[1].jain), (None, None), "all idle");
    assert!(facts(&sample).imbalance.is_empty());
}

/// Two links that take turns are even over the run and as uneven as can be at any time.
#[test]
fn imbalance_over_time() {
    let bins = |first: u64, busy: std::ops::Range<u64>| {
        let mut folded = BinTotals::default();
        for index in busy {
            let bytes = if index % 256 < 128 { 1000 } else { 0 };
            folded.fold(&Bin { index: first + index, bytes, packets: bytes / 1000, ..Bin::default() });
        }
        LinkTraffic {
            bursts: folded.bursts(1_000_000),
            frame_sizes: None,
            last_ns: None,
            lost: Counter::default(),
        }
    };
    let mut sample = sample(vec![link("up0", None), link("up1", None), link("up2", None)], vec![]);
    let start = 1_763_000_000_000 / 256 * 256;
    let traffic = |links| Traffic { bin_ns: 1_000_000, links, ..Traffic::default() };
    let groups = vec![vec!["up0".to_owned(), "up1".to_owned()]];
    let options = Options { groups, ..Options::default() };
    let over_time = |sample: &Sample| Facts::of(sample, &options).imbalance[0].over_time;
    assert_eq!(over_time(&sample), None, "not counted");
    sample.metrics.traffic = Some(Arc::new(traffic(vec![bins(start, 0..2560), bins(start + 128, 0..2560)])));
    let found = over_time(&sample).unwrap();
    assert_eq!((found.window_ns, found.windows), (128_000_000, 20));
    close(Some(found.max_over_mean_p50), 2.0);
    assert_eq!(found.worst_ns, start * 1_000_000, "the first of equals");
    // At the same time, and one of the two much longer: its points are coarser.
    sample.metrics.traffic = Some(Arc::new(traffic(vec![bins(start, 0..30_000), bins(start, 0..256)])));
    let found = over_time(&sample).unwrap();
    assert_eq!(found.window_ns, 128_000_000);
    close(Some(found.max_over_mean_max), 2.0);
    sample.metrics.traffic = Some(Arc::new(traffic(vec![bins(start, 0..256), bins(start, 0..256)])));
    close(over_time(&sample).map(|time| time.max_over_mean_max), 1.0);
}

#[test]
fn imbalance_keeps_directions_apart() {
    let options = Options {
        groups: vec![vec!["eth1".into(), "eth0".into()]],
        imbalance_all_links: true,
        ..Options::default()
    };
    let found = Facts::of(&everything(), &options).imbalance;
    let directions: Vec<_> = found.iter().map(|one| one.direction).collect();
    assert_eq!(directions, [Some(Direction::Ingress), Some(Direction::Egress)], "the group is the same");
    assert_eq!(found[1].max_over_mean, Some(2.0));
    assert_eq!(found[1].jain, Some(0.5));
}

/// The two ends of a cable see the same packets: what one sends the other receives. They share no load, and
/// neither does a finding say so; of two cables the same ends are compared.
#[test]
fn two_ends_of_a_cable_are_not_compared() {
    let (out, into) = (Some(Direction::Egress), Some(Direction::Ingress));
    let ends = ["a0", "a1", "b0", "b1"];
    let links: Vec<LinkSample> = ends.iter().flat_map(|name| [link(name, into), link(name, out)]).collect();
    let data =
        || Stats { psn: PsnTrack { expected: 5_100, ..stats(7, 1, 1).psn }, ..stats(7, 5_000, 5_000_000) };
    let acks = || Stats { psn: PsnTrack::default(), acks: 50, ..stats(7, 50, 3_000) };
    // a0 sends to a1, which acknowledges.
    let mut flows = vec![
        (key(1, A, B, 7), data()),
        (key(2, A, B, 7), data()),
        (key(3, B, A, 8), acks()),
        (key(0, B, A, 8), acks()),
    ];
    let options = Options { imbalance_all_links: true, ..Options::default() };
    let found = |sample: &Sample| Facts::of(sample, &options);
    let uneven = |sample: &Sample| {
        let findings = Report::build(sample, &options.clone().into()).findings;
        findings.iter().any(|finding| finding.id == "links.imbalance")
    };
    let same = sample(links[..4].to_vec(), flows.clone());
    let two = found(&same);
    assert!(!two.imbalance.is_empty() && two.imbalance.iter().all(|one| one.same_path));
    assert!(!uneven(&same));
    assert_eq!((two.totals.counted_again.taps, two.totals.counted_again.roce_packets), (2, Some(5_050)));
    assert_eq!(two.totals.roce_packets, 10_100);
    // A second cable carries a tenth.
    let small = || Stats { packets: 500, bytes: 500_000, ..data() };
    flows.extend([(key(5, A, B, 9), small()), (key(6, A, B, 9), small())]);
    let other = sample(links, flows);
    let four = found(&other);
    let compared: Vec<_> =
        four.imbalance.iter().filter(|one| !one.same_path && one.direction == out).collect();
    assert_eq!(compared.len(), 1);
    assert_eq!(compared[0].links, ["a0", "b0"]);
    assert!(uneven(&other));
}

/// Of closed flows only their 5-tuples are known: which are on one link alone were counted once.
#[test]
fn retired_flows_that_several_taps_saw_are_reported_as_counted_several_times() {
    let (into, out) = (Some(Direction::Ingress), Some(Direction::Egress));
    let retired = |bytes| Retired { flows: 1, packets: 10, bytes, ..Retired::default() };
    let of = |link, src_port, bytes| RetiredTuple { tuple: tuple(A, B, src_port), link, bytes };
    let links = |bytes: [u64; 4]| {
        let ends = [("a", into), ("a", out), ("b", into), ("b", out)];
        let of = |((name, way), bytes): ((&str, _), u64)| LinkSample {
            retired: if bytes > 0 { retired(bytes) } else { Retired::default() },
            ..link(name, way)
        };
        ends.into_iter().zip(bytes).map(of).collect::<Vec<_>>()
    };
    let present = || vec![(key(2, A, B, 7), Stats { src_port: 50_000, ..stats(7, 10, 1_000) })];
    for (bytes, tuples, flows, known) in [
        // Both directions of one interface.
        ([500, 500, 0, 0], vec![of(0, 50_000, 500), of(1, 50_000, 500)], vec![], true),
        // Two rails.
        ([500, 0, 500, 0], vec![of(0, 50_000, 500), of(2, 50_001, 500)], vec![], true),
        // Two taps, and one whose flow goes on.
        ([500, 0, 500, 0], vec![of(0, 50_000, 500), of(2, 50_000, 500)], vec![], false),
        ([500, 0, 0, 0], vec![of(0, 50_000, 500)], present(), false),
        ([500, 0, 0, 0], vec![of(0, 50_001, 500)], present(), true),
        // RoCEv1, and more than fit: a part is unknown.
        ([500, 0, 500, 0], vec![of(0, 50_000, 500)], vec![], false),
        ([500, 0, 0, 0], vec![], vec![], true),
    ] {
        let mut sample = sample(links(bytes), flows);
        sample.retired_tuples = tuples.clone();
        let report = Report::build(&sample, &Options::default().into());
        let again = report.facts.totals.counted_again;
        assert_eq!((again.taps, again.roce_packets.is_some()), (1, known), "{bytes:?} {tuples:?}");
        let text = text::text(&report, 120).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text.contains("counted once per link"), !known, "{text}");
        assert!(!text.contains("once per tap"), "one link alone has each of the others: {text}");
    }
}

#[test]
fn json_on_one_line_and_on_many() {
    let options = Options { groups: Vec::new(), imbalance_all_links: true, ..Options::default() };
    let report = Report::build(&everything(), &options.into());
    let (mut line, mut pretty) = (Vec::new(), Vec::new());
    json::write_line(&report, &mut line).unwrap();
    json::write(&report, &mut pretty).unwrap();
    assert_eq!(std::str::from_utf8(&line).unwrap().lines().count(), 1);
    assert_eq!(line.last(), Some(&b'\n'));
    let [one, other]: [serde_json::Value; 2] =
        [&line, &pretty].map(|bytes| serde_json::from_slice(bytes).unwrap());
    assert_eq!(one, other);
    insta::assert_snapshot!("everything", std::str::from_utf8(&pretty).unwrap());
}

#[test]
fn the_kernel_names_process_and_sender_better_than_packets_do() {
    use crate::entity::owners::{Owners, QpOwner};
    let owner = QpOwner {
        device: "mlx5_0".into(),
        lqpn: 7,
        rqpn: Some(99),
        pid: Some(4711),
        comm: Some("python3".into()),
        pod: Some("trainer-0".into()),
        ..QpOwner::default()
    };
    let gids = [("mlx5_0".to_owned(), vec!["::ffff:10.0.0.2".parse().unwrap()])];
    let owners = std::sync::Arc::new(Owners::new(vec![owner], &gids));
    let flow = one(&stats(50_000, 10, 1000), |sample| {
        sample.links[0].direction = Some(Direction::Ingress);
        sample.peers.insert(PeerKey::of(&sample.flows[0].key), 5);
        sample.owners = owners;
    });
    assert_eq!((flow.peer_qp, flow.pid), (Some(99), Some(4711)));
    assert_eq!((flow.comm.as_deref(), flow.pod.as_deref()), (Some("python3"), Some("trainer-0")));
    let pairing = flow.pairing.unwrap();
    assert_eq!((pairing.how.name(), pairing.confidence.name()), ("device", "certain"));
    // Without it, what the packets say stays.
    let flow = one(&stats(50_000, 10, 1000), |sample| {
        sample.peers.insert(PeerKey::of(&sample.flows[0].key), 5);
    });
    assert_eq!((flow.peer_qp, flow.pid, flow.pod), (Some(5), None, None));
}

#[test]
fn each_link_has_the_entropy_of_its_own_bytes() {
    let links = [("eth0", Direction::Ingress), ("eth0", Direction::Egress), ("eth1", Direction::Ingress)];
    let mut sample = sample(
        links.map(|(name, direction)| link(name, Some(direction))).into(),
        vec![
            (key(0, A, B, 7), stats(1, 9, 600)),
            (key(1, A, B, 7), stats(1, 9, 200)),
            (key(1, B, A, 8), stats(2, 9, 400)),
            // The same packets on another link, and one flow that left the table there.
            (key(2, A, B, 7), stats(1, 9, 300)),
        ],
    );
    sample.retired_tuples = vec![RetiredTuple { tuple: tuple(A, B, 3), link: 2, bytes: 100 }];
    let by_link = Spread::by_link(&sample);
    assert_eq!(by_link.keys().copied().collect::<Vec<_>>(), ["eth0", "eth1"]);
    let [both, one] = ["eth0", "eth1"].map(|name| by_link[name].entropy());
    assert_eq!(
        (both.tuples.five_tuples, both.tuples.source_ports, both.tuples.top_share),
        (2, 2, Some(2.0 / 3.0))
    );
    // Three quarters and one quarter.
    close(one.tuples.normalized, 2.0 - 0.75 * 3.0_f64.log2());
}
