//! Tests with unevenly spread traffic, and with traffic just below the thresholds.

use rocescope_common::abi::Counter;
use std::sync::Arc;

use crate::analysis::{Facts, Options, fixtures};
use crate::ethernet::lldp::Neighbour;
use crate::findings::tests::{found, found_on, severity};
use crate::findings::{Finding, Severity};
use crate::metrics::traffic::bins::{Bin, BinTotals};
use crate::metrics::traffic::{LinkTraffic, Traffic};
use crate::sample::{Direction, PeerKey, Sample, SourceKind};

/// Queue pairs of one host, each with the given source port.
fn pairs(ports: &[u16]) -> Sample {
    let flows = (0..).zip(ports).map(|(qp, port)| {
        (fixtures::key(0, "10.0.0.1", "10.0.0.2", 100 + qp), fixtures::stats(*port, 1000, 4_000_000))
    });
    fixtures::sample(vec![fixtures::link("h0.pcap", None)], flows.collect())
}

#[test]
fn sixteen_queue_pairs_behind_two_ports() {
    let ports: Vec<u16> = (0..16).map(|i| 50_000 + i % 2).collect();
    let findings = found(&pairs(&ports), &Options::default());
    let finding = findings.iter().find(|f| f.id == "entropy.low").unwrap();
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(finding.evidence["queue_pairs"], 16);
    assert_eq!(finding.evidence["source_ports"], 2);
    assert!((finding.evidence["effective_five_tuples"].as_f64().unwrap() - 2.0).abs() < 1e-9);
    assert_eq!((finding.flows.len(), finding.evidence["flows"].as_u64()), (16, Some(16)));
    assert!(
        finding.title.contains("10.0.0.1") && finding.title.contains("2 source ports"),
        "{}",
        finding.title
    );
}

#[test]
fn many_hosts_that_share_ports_are_one_finding() {
    let of = |hosts: u8| {
        let flows = (0..hosts).flat_map(|host| {
            (0..16).map(move |qp| {
                let key = fixtures::key(0, &format!("10.0.0.{host}"), "10.0.1.1", 100 + qp);
                (key, fixtures::stats(50_000 + u16::from(host > 0 && qp % 2 == 0), 1000, 4_000_000))
            })
        });
        let sample = fixtures::sample(vec![fixtures::link("h0.pcap", None)], flows.collect());
        found(&sample, &Options::default()).into_iter().filter(|f| f.id == "entropy.low").collect::<Vec<_>>()
    };
    assert_eq!(of(8).len(), 8);
    let [one] = &of(9)[..] else { panic!("one finding") };
    assert_eq!(one.title, "Low ECMP entropy: QPs of 9 hosts share source ports, worst 10.0.0.0");
    assert_eq!((one.evidence["hosts"].as_u64(), one.evidence["five_tuples"].as_u64()), (Some(9), Some(1)));
    assert_eq!(one.flows.len(), 9, "the busiest flow of each");
}

#[test]
fn nearly_too_few_ports_are_enough() {
    // Ten ports for sixteen queue pairs: collisions as expected from chance.
    let ports: Vec<u16> = (0..16).map(|i| 50_000 + i % 10).collect();
    assert_eq!(severity(&pairs(&ports), "entropy.low"), None);
    // Three queue pairs are too few to be spread.
    assert_eq!(severity(&pairs(&[50_000; 3]), "entropy.low"), None);
    assert_eq!(severity(&pairs(&[50_000; 4]), "entropy.low"), Some(Severity::Warning));
    // Fifteen idle queue pairs beside a busy one count as one.
    let mut one = pairs(&[50_000; 16]);
    for flow in &mut one.flows[1..] {
        flow.stats.bytes = 100;
    }
    assert_eq!(severity(&one, "entropy.low"), None);
}

#[test]
fn uplinks_that_the_user_named() {
    let asked = |ports: &[u16], uplinks| {
        let options = Options { ecmp: Some(uplinks), ..Options::default() };
        found(&pairs(ports), &options).into_iter().filter(|f| f.id == "entropy.low").count()
    };
    assert_eq!(asked(&[50_000, 50_001, 50_002], 4), 1, "three flows over four uplinks");
    let many: Vec<u16> = (0..256).map(|i| 50_000 + i).collect();
    assert_eq!(asked(&many, 2), 0, "256 flows over two are even");
}

fn links(bytes: &[u64]) -> Sample {
    let names = (0..bytes.len()).map(|i| fixtures::link(&format!("u{i}"), None));
    let flows = (0u16..).zip(bytes).map(|(link, bytes)| {
        let port = 50_000 + link;
        (fixtures::key(link, "10.0.0.1", "10.0.0.2", 100), fixtures::stats(port, bytes / 1000, *bytes))
    });
    fixtures::sample(names.collect(), flows.collect())
}

#[test]
fn links_and_rails() {
    let seen = |bytes: &[u64], options: &Options| {
        found(&links(bytes), options).into_iter().filter(|f| f.id == "links.imbalance").count()
    };
    let group = Options { groups: vec![vec!["u0".into(), "u1".into()]], ..Options::default() };
    assert_eq!(seen(&[6_000_000, 853_000], &group), 1);
    // A figure of the whole run lasts until its end, and began at no known time.
    let whole = found(&links(&[6_000_000, 853_000]), &group);
    let whole = whole.iter().find(|f| f.id == "links.imbalance").unwrap();
    let (_, last) = links(&[1, 1]).window.unwrap();
    assert_eq!((whole.first_seen_ns, whole.last_seen_ns, whole.active), (None, Some(last), true));
    assert_eq!(seen(&[4_000_000, 1_400_000], &group), 0, "1.48 times the mean");
    assert_eq!(seen(&[6_000_000, 853_000], &Options::default()), 0, "nobody says that they share a load");
    assert_eq!(seen(&[600_000, 85_000], &group), 0, "685 packets may fall as they like");
    let rails = ["u0", "u1", "u2"].map(|link| (link.to_owned(), format!("r{}", &link[1..]))).into();
    let rails = Options { rails, ..Options::default() };
    assert_eq!(seen(&[9_000_000, 1_000_000, 1_000_000], &rails), 1);
    assert_eq!(seen(&[3_000_000, 3_000_000, 3_000_000], &rails), 0);
}

/// Each link has an address of its own, as NICs have: no switch moves traffic from one to the other. Uplinks have hosts
/// in common, or several.
#[test]
fn links_with_addresses_of_their_own_are_balanced_by_no_hash() {
    const A: &str = "10.0.0.1";
    const B: &str = "10.0.1.1";
    let of = |pairs: &[(u16, &str, &str)], rails: bool, direction: Option<Direction>| {
        let mut sample = links(&[0, 0]);
        sample.links = ["u0", "u1"].map(|name| fixtures::link(name, direction)).into();
        let flows = (0..).zip(pairs).map(|(at, (link, src, dst))| {
            let bytes = if *link == 0 { 8_000_000 } else { 900_000 };
            // 16 queue pairs of the busy link share a source port.
            (fixtures::key(*link, src, dst, 100 + at), fixtures::stats(50_000, bytes / 1000, bytes))
        });
        sample.flows = fixtures::sample(Vec::new(), flows.collect()).flows;
        let names = vec!["u0".to_owned(), "u1".to_owned()];
        let options = if rails {
            let rails = names.into_iter().map(|name| (name.clone(), name)).collect();
            Options { rails, ..Options::default() }
        } else {
            Options { groups: vec![names], ..Options::default() }
        };
        let found = found(&sample, &options);
        let entropy = found.iter().find(|one| one.id == "entropy.low").unwrap();
        let is_cause = !entropy.no_cause_of.contains(&"links.imbalance");
        let uneven = found.into_iter().find(|one| one.id == "links.imbalance").unwrap();
        let about_hashing = |text: &str| text.contains("hash fields");
        (about_hashing(&uneven.advice) && uneven.steps.iter().any(|step| about_hashing(&step.text)), is_cause)
    };
    let busy = |other: &[(u16, &'static str, &'static str)]| -> Vec<(u16, &'static str, &'static str)> {
        [&[(0, A, "10.0.0.2"); 8][..], &[(0, A, "10.0.0.3"); 8], other].concat()
    };
    for rails in [false, true] {
        assert_eq!(of(&busy(&[(1, B, "10.0.1.2"), (1, "10.0.1.3", B)]), rails, None), (false, false));
        for other in [
            &[(1, A, "10.0.1.2")][..],
            &[(1, B, "10.0.1.2"), (1, "10.0.1.3", "10.0.1.4")],
            &[(1, B, "10.0.1.2")],
        ] {
            assert_eq!(
                of(&busy(other), rails, None),
                (true, true),
                "a host in common, several, or one pair: {other:?}"
            );
        }
        // Two NICs of this host send to one other.
        let same_peer = busy(&[(1, B, "10.0.0.2")]);
        assert_eq!(of(&same_peer, rails, Some(Direction::Egress)), (false, false));
        assert_eq!(of(&same_peer, rails, None), (true, true), "two hosts that meet on the way");
    }
}

/// Two links whose load in each of 234 windows of 128 ms is given by `carried`, in bytes per millisecond.
fn in_windows(packets: u64, carried: impl Fn(u64) -> [u64; 2]) -> Sample {
    let mut sample = links(&[1000 * packets, 1000 * packets]);
    let start = 1_763_000_000_000 / 128 * 128;
    sample.window = Some((start * 1_000_000, (start + 234 * 128) * 1_000_000));
    let link = |at: usize| {
        let mut folded = BinTotals::default();
        for bin in 0..234 * 128 {
            folded.fold(&Bin {
                index: start + bin,
                bytes: carried(bin / 128)[at],
                packets: 1,
                ..Bin::default()
            });
        }
        let bursts = folded.bursts(1_000_000);
        LinkTraffic { bursts, frame_sizes: None, last_ns: None, lost: Counter::default() }
    };
    sample.metrics.traffic =
        Some(Arc::new(Traffic { bin_ns: 1_000_000, links: vec![link(0), link(1)], ..Traffic::default() }));
    sample
}

#[test]
fn the_heaviest_flows_of_the_busiest_link_are_named() {
    let mut sample = links(&[6_000_000, 853_000]);
    let second = (fixtures::key(0, "10.0.0.1", "10.0.0.3", 101), fixtures::stats(50_009, 2000, 2_000_000));
    let mut others = fixtures::sample(vec![], vec![second]).flows;
    others[0].slot = 2;
    sample.flows.extend(others);
    sample.peers.insert(PeerKey::of(&sample.flows[0].key), 5);
    let group = Options { groups: vec![vec!["u0".into(), "u1".into()]], ..Options::default() };
    let finding = found(&sample, &group).into_iter().find(|one| one.id == "links.imbalance").unwrap();
    assert_eq!(
        finding.evidence["heaviest"],
        serde_json::json!(["10.0.0.1 QP 5 → 10.0.0.2 QP 100", "10.0.0.1 → 10.0.0.3 QP 101"])
    );
    assert_eq!(finding.evidence["heaviest_ratios"], serde_json::json!([0.75, 0.25]), "of u0, not of both");
    assert!(!finding.subject.is_alike);
    assert_eq!((finding.flow_count(), finding.subject.of_flows), (2, Some(2)));
    let impact = finding.fields(crate::findings::DataEnd::default());
    let impact = impact.iter().find(|(label, _)| *label == "Impact").unwrap();
    assert!(impact.1.starts_with("2 of 2 data flows and 90.4 % of the links' bytes, "), "{impact:?}");
    let words: Vec<_> = finding.measurements();
    assert!(
        words.iter().any(|(label, text)| label == "heaviest flows there"
            && text == "10.0.0.1 QP 5 → 10.0.0.2 QP 100 (75.0 %), 10.0.0.1 → 10.0.0.3 QP 101 (25.0 %)"),
        "{words:?}"
    );

    assert_eq!(finding.flows.iter().map(|flow| flow.dest_qp).collect::<Vec<_>>(), [100, 101], "worst first");
    // All are sent by one host.
    assert_eq!(finding.title, "Uneven load: u0 carries 1.81 × the mean of 2 links, 10.0.0.1 → 10.0.0.2,3");
    let addr = |end: &Option<crate::findings::End>| end.as_ref().map(|end| (end.addr.to_string(), end.qpn));
    assert_eq!(addr(&finding.requester), Some(("10.0.0.1".to_owned(), None)));
    assert_eq!(finding.responder, None);
    let who = finding.fields(crate::findings::DataEnd::default());
    assert!(who.contains(&("Who", "requester 10.0.0.1 → 2 responders".to_owned())), "{who:?}");

    // A flow of READ responses: its sender is the responder.
    sample.flows[0].stats.psn.seen = 0;
    let finding = found(&sample, &group).into_iter().find(|one| one.id == "links.imbalance").unwrap();
    assert_eq!(finding.evidence["heaviest"][0], "10.0.0.2 QP 100 → 10.0.0.1 QP 5");
    assert_eq!(addr(&finding.responder), Some(("10.0.0.1".to_owned(), None)));
    // Hosts that send to one another: no one is named, but flows are.
    sample.flows[2].key = fixtures::key(0, "10.0.0.3", "10.0.0.1", 101);
    let finding = found(&sample, &group).into_iter().find(|one| one.id == "links.imbalance").unwrap();
    assert_eq!((&finding.requester, &finding.responder, finding.flows.len()), (&None, &None, 2));
    assert!(finding.title.ends_with("of 2 links"), "{}", finding.title);
    sample.flows[2].key = fixtures::key(0, "10.0.0.1", "10.0.0.3", 101);

    // In a part of the run: a flow that ended before it has no part in it.
    let mut part =
        in_windows(10_000, |window| if (100..130).contains(&window) { [400, 1600] } else { [1000, 1000] });
    let (first, last) = (1_763_000_000_000_000_000, 1_763_000_030_000_000_000);
    for flow in &mut part.flows {
        (flow.stats.first_ns, flow.stats.last_ns) = (first, last);
    }
    let second = (fixtures::key(1, "10.0.0.1", "10.0.0.3", 101), fixtures::stats(50_009, 9000, 9_000_000));
    let mut over = fixtures::sample(vec![], vec![second]).flows;
    (over[0].slot, over[0].stats.first_ns, over[0].stats.last_ns) = (2, first, first + 5_000_000_000);
    part.flows.extend(over);
    let finding = found(&part, &group).into_iter().find(|one| one.id == "links.imbalance").unwrap();
    assert_eq!(finding.place.link.as_deref(), Some("u1"));
    assert_eq!(finding.evidence["heaviest"], serde_json::json!(["10.0.0.1 → 10.0.0.2 QP 100"]));
}

#[test]
fn the_steps_name_the_switch_port_and_list_source_ports_on_this_host() {
    let mut sample = links(&[6_000_000, 853_000]);
    sample.kind = SourceKind::Live;
    let group = Options { groups: vec![vec!["u0".into(), "u1".into()]], ..Options::default() };
    let mut facts = Facts::of(&sample, &group);
    let steps = |facts: &Facts| {
        let finding = found_on(facts, "links.imbalance").unwrap();
        finding.steps.into_iter().map(|step| (step.text, step.command)).collect::<Vec<_>>()
    };
    let [(_, ports), (switch, none), (_, settings)] = &steps(&facts)[..] else { panic!("three") };
    assert_eq!(ports.as_deref(), Some("rocescope live -i u0 --columns identity --sort rate"));
    assert!(switch.starts_with("On the switches, compare the hash fields") && none.is_none());
    assert!(settings.as_ref().unwrap().contains("NCCL_"));
    let (system, port) = (Some("leaf1".to_owned()), Some("swp11".to_owned()));
    facts.links[0].neighbours = vec![Neighbour { system, port, ..Neighbour::default() }];
    let named = steps(&facts);
    assert!(named[1].0.starts_with("On leaf1 swp11, compare"), "{named:?}");
}

/// Interfaces with both directions: bytes received, then bytes sent.
fn both_ways(bytes: [&[u64]; 2]) -> Vec<Finding> {
    let ways = [Direction::Ingress, Direction::Egress];
    let count = bytes[0].len();
    let names = ways.iter().flat_map(|way| (0..count).map(|i| fixtures::link(&format!("u{i}"), Some(*way))));
    let flows = (0u16..).zip(bytes.into_iter().flatten()).map(|(link, bytes)| {
        let [src, dst] = if usize::from(link) < count { [1, 2] } else { [2, 1] };
        let key = fixtures::key(link, &format!("10.0.0.{src}"), &format!("10.0.0.{dst}"), 100);
        (key, fixtures::stats(50_000 + link, bytes / 1000, *bytes))
    });
    let sample = fixtures::sample(names.collect(), flows.collect());
    let group = Options { groups: vec![vec!["u0".into(), "u1".into()]], ..Options::default() };
    found(&sample, &group).into_iter().filter(|one| one.id == "links.imbalance").collect()
}

#[test]
fn one_link_that_is_busier_in_both_directions_is_one_trouble() {
    let [one] = &both_ways([&[6_000_000, 1_000_000], &[6_800_000, 1_000_000]])[..] else { panic!("one") };
    // Two ratios that are alike do not take turns in the title.
    assert_eq!(one.title, "Uneven load: u0 carries 1.71 × the mean of 2 links, 10.0.0.1 → 10.0.0.2");
    assert_eq!((one.place.link.as_deref(), one.place.direction), (Some("u0"), None));
    assert!(one.evidence.get("worse_direction").is_none(), "by chance alone");
    assert!((one.evidence["other_max_over_mean"].as_f64().unwrap() - 13.6 / 7.8).abs() < 1e-9);
    let [one] = &both_ways([&[4_000_000, 1_000_000], &[9_000_000, 1_000_000]])[..] else { panic!("one") };
    assert_eq!(one.title, "Uneven load: u0 carries 1.80 × the mean of 2 links, 10.0.0.2 → 10.0.0.1");
    assert_eq!(one.evidence["worse_direction"], "egress");
    assert!((one.evidence["other_max_over_mean"].as_f64().unwrap() - 1.6).abs() < 1e-9);

    let [one] = &both_ways([&[6_000_000, 1_000_000], &[4_000_000, 4_000_000]])[..] else { panic!("one") };
    assert_eq!(one.title, "Uneven load: u0 carries 1.71 × the mean of 2 links, 10.0.0.1 → 10.0.0.2");
    assert_eq!(one.place.direction, Some(Direction::Ingress));
    let crossed = both_ways([&[6_000_000, 1_000_000], &[1_000_000, 6_800_000]]);
    assert_eq!(crossed.len(), 2, "two links, each in a direction of its own");
}

#[test]
fn a_part_of_the_run_in_which_one_link_carries_nearly_all() {
    let group = Options { groups: vec![vec!["u0".into(), "u1".into()]], ..Options::default() };
    let seen = |packets, carried: &dyn Fn(u64) -> [u64; 2]| {
        let findings = found(&in_windows(packets, carried), &group);
        findings.into_iter().find(|f| f.id == "links.imbalance")
    };
    let part = |windows: std::ops::Range<u64>, uneven: [u64; 2]| {
        move |window: u64| if windows.contains(&window) { uneven } else { [1000, 1000] }
    };
    let finding = seen(10_000, &part(100..130, [400, 1600])).unwrap();
    assert_eq!(finding.severity, Severity::Warning);
    let title = "Uneven load: u1 carried 1.60 × the mean of 2 links for 3.84 s";
    assert_eq!(finding.title, title);
    assert_eq!(finding.evidence["length_ns"], 3_840_000_000_u64);
    let windows = (finding.evidence["windows"].as_u64(), finding.evidence["of_windows"].as_u64());
    assert_eq!(windows, (Some(30), Some(234)));
    assert_eq!(finding.evidence["since_ns"].as_u64().map(|at| at / 1_000_000_000), Some(1_763_000_012));
    let warm_up = |window: u64| if window.is_multiple_of(3) { [1000, 1000] } else { [400, 1600] };
    // Recurring imbalance is reported while it lasts.
    let again = |window: u64| {
        if (20..60).contains(&window) || (150..180).contains(&window) { [400, 1600] } else { [1000, 1000] }
    };
    let finding = seen(10_000, &again).unwrap();
    assert_eq!(finding.evidence["length_ns"], 3_840_000_000_u64, "the second");
    assert_eq!((finding.episodes.len(), finding.evidence["windows"].as_u64()), (2, Some(30)));
    assert!(finding.episodes[0].last_ns < finding.episodes[1].first_ns);

    let some_even = |window: u64| if (99..150).contains(&window) { warm_up(window) } else { [1000, 1000] };
    assert_eq!(seen(10_000, &some_even), None, "two of three windows are not enough: nothing is left over");

    assert_eq!(seen(10_000, &part(100..120, [400, 1600])), None, "less than a tenth of the run");
    assert_eq!(seen(10_000, &part(100..130, [620, 1380])), None, "1.38 times the mean");
    assert_eq!(seen(10_000, &part(100..130, [0, 800])), None, "hardly any load");
    assert_eq!(seen(3_000, &part(100..130, [400, 1600])), None, "770 packets may fall as they like");
    let begin_more_evenly_than_they_end = |window: u64| match (window, window % 2) {
        (100..130, 0) => [1465, 665],
        (100..130, _) => [935, 135],
        _ => [1000, 1000],
    };
    assert!(
        seen(10_000, &begin_more_evenly_than_they_end).is_some(),
        "steps of several windows: 1.5 all in all"
    );
    let turns = |window: u64| if window.is_multiple_of(2) { [400, 1600] } else { [1600, 400] };
    assert_eq!(seen(10_000, &turns), None, "links that take turns");
}

#[test]
fn load_that_was_uneven_and_is_even_now_has_ended_though_the_run_is_uneven() {
    let group = Options { groups: vec![vec!["u0".into(), "u1".into()]], ..Options::default() };
    let judged = |carried: &dyn Fn(u64) -> [u64; 2]| {
        let mut sample = in_windows(10_000, carried);
        sample.flows[1].stats.bytes *= 4;
        found(&sample, &group).into_iter().find(|one| one.id == "links.imbalance").unwrap()
    };
    let ended = judged(&|window| if window < 100 { [200, 1800] } else { [1000, 1000] });
    assert_eq!(ended.evidence["of_windows"], 234);
    assert!(ended.title.contains("u1 carried 1.80 × the mean of 2 links for "), "{}", ended.title);
    assert_eq!(ended.evidence["length_ns"], 12_800_000_000_u64);
    assert!(!ended.active && ended.last_seen_ns.is_some());
    // Without windows that show it no time is known.
    let whole = judged(&|_| [1000, 1000]);
    assert!(whole.title.contains("u1 carries 1.60 × the mean of 2 links"), "{}", whole.title);
    assert_eq!(whole.first_seen_ns, None);
}

/// The finding about these loads of two links, which are even but for some windows of 128 ms at most.
fn about(carried: &dyn Fn(u64) -> [u64; 2]) -> Option<Finding> {
    let group = Options { groups: vec![vec!["u0".into(), "u1".into()]], ..Options::default() };
    let findings = found(&in_windows(10_000, carried), &group);
    findings.into_iter().find(|one| one.id == "links.imbalance")
}

/// Steps of eight windows: load in the first three of each.
fn in_steps(uneven: std::ops::Range<u64>, load: [u64; 2]) -> impl Fn(u64) -> [u64; 2] {
    move |window| match window % 8 {
        0..3 if uneven.contains(&window) => load,
        0..3 => [1000, 1000],
        _ => [0, 0],
    }
}

#[test]
fn load_that_is_uneven_now_is_known_after_two_seconds() {
    // 234 windows: the last step begins with window 232.
    let finding = about(&|window| if window >= 218 { [400, 1600] } else { [1000, 1000] }).unwrap();
    assert_eq!(finding.title, "Uneven load: u1 carries 1.60 × the mean of 2 links for 2.05 s");
    assert!(finding.active);
    // While it goes on, nothing of the run is counted in but the ratio that is labelled so.
    for name in ["of_windows", "bytes_ratio"] {
        assert!(finding.evidence.get(name).is_none(), "{name}");
    }
    let bytes = 16 * 128;
    assert_eq!(finding.evidence["bytes"], serde_json::json!([400 * bytes, 1600 * bytes]));
    assert_eq!(
        (&finding.evidence["excess_bytes"], &finding.evidence["excess_ratio"]),
        (&(600 * bytes).into(), &0.3.into())
    );
    let lines = finding.fields(crate::findings::DataEnd::default());
    let line = |label| lines.iter().find(|(of, _)| *of == label).map(|(_, text)| text.as_str());
    assert_eq!(line("Where"), Some("u1, parallel to u0"));
    assert_eq!(line("Impact"), Some("80.0 % of the links' bytes, 1.23 MB beyond an even share"));
    assert_eq!(finding.evidence["length_ns"], 2_048_000_000_u64);
    assert_eq!(finding.since_ns(), finding.evidence["since_ns"].as_u64());
    let steps = about(&in_steps(208..234, [400, 1600])).unwrap();
    assert_eq!(steps.evidence["windows"], 11, "four steps of three windows, the last not complete");
    let rare = |window: u64| match window % 8 {
        0 if window >= 208 => [400, 1600],
        0 => [1000, 1000],
        _ => [0, 0],
    };
    assert_eq!(about(&rare), None, "four windows in 3.2 s");

    // A queue spreads the same bytes over more windows, each with less than those of a burst.
    let spread = |window: u64| {
        let before = in_steps(0..0, [0, 0]);
        if window < 208 { before(window) } else { [120, 480] }
    };
    let spread = about(&spread).unwrap();
    assert!(spread.active && spread.title.contains("u1 carries 1.60"), "{}", spread.title);
    let little = |window: u64| if window < 208 { [1000, 1000] } else { [120, 480] };
    assert_eq!(about(&little), None, "a third of the usual load");

    let shorter = |window: u64| if window >= 219 { [400, 1600] } else { [1000, 1000] };
    assert_eq!(about(&shorter), None, "1.9 s: two checkpoints, say");
    let less = |window: u64| if window >= 215 { [520, 1480] } else { [1000, 1000] };
    assert_eq!(about(&less), None, "1.48 times the mean must fill a tenth of the minute");
    let ended = |window: u64| if (201..217).contains(&window) { [400, 1600] } else { [1000, 1000] };
    assert_eq!(about(&ended), None, "even again for 2.2 s, and it was less than a tenth of the minute");
}

#[test]
fn load_that_is_even_again_has_ended_after_two_seconds() {
    let until =
        |end: u64| move |window: u64| if (160..end).contains(&window) { [400, 1600] } else { [1000, 1000] };
    let lasts = about(&until(222)).unwrap();
    assert!(lasts.active, "12 windows are no two seconds");
    let ended = about(&until(216)).unwrap();
    let end_ns = in_windows(10_000, |_| [1, 1]).window.map(|(_, end_ns)| end_ns);
    assert!(!ended.active && ended.over_since(end_ns) == ended.last_seen_ns, "{ended:?}");
    assert_eq!(end_ns.zip(ended.last_seen_ns).map(|(end, seen)| end - seen), Some(18 * 128_000_000));
    // Silence shows nothing about balance.
    let silent = |window: u64| if window < 216 { until(216)(window) } else { [0, 0] };
    assert!(about(&silent).unwrap().active);
}

#[test]
fn links_that_take_turns_for_seconds_are_one_problem() {
    // 3 s, then even for as long, and again.
    let turns = |window: u64| {
        let is_uneven = (114..138).contains(&window) || (162..186).contains(&window);
        if is_uneven { [400, 1600] } else { [1000, 1000] }
    };
    assert!(about(&turns).unwrap().active, "even for 6.1 s");
    let pauses = |window: u64| match window {
        100..160 | 180..210 => [400, 1600],
        _ => [1000, 1000],
    };
    let lasts = about(&pauses).unwrap();
    assert!(lasts.active, "even for 3.1 s, but for 2.6 s before: {}", lasts.title);
}

#[test]
fn a_long_run_sees_the_last_seconds_as_finely() {
    let mut sample = in_windows(10_000, |window| if window >= 210 { [400, 1600] } else { [1000, 1000] });
    let mut traffic = Traffic::clone(sample.metrics.traffic.as_ref().unwrap());
    for bursts in traffic.links.iter_mut().filter_map(|link| link.bursts.as_mut()) {
        // As after a day: 16 s to a point.
        let bins = 16_384;
        let first = bursts.long_first / bins;
        let mut points = vec![0; 4];
        for (at, bytes) in (bursts.long_first / bursts.long_bins..).zip(&bursts.long) {
            points[usize::try_from(at * bursts.long_bins / bins - first).unwrap()] += bytes;
        }
        (bursts.long, bursts.long_bins, bursts.long_first) = (points, bins, first * bins);
    }
    sample.metrics.traffic = Some(Arc::new(traffic));
    let group = Options { groups: vec![vec!["u0".into(), "u1".into()]], ..Options::default() };
    let finding = found(&sample, &group).into_iter().find(|one| one.id == "links.imbalance").unwrap();
    assert_eq!(finding.evidence["windows"], 24);
    assert!(finding.active && finding.title.contains("u1 carries 1.60"), "{}", finding.title);
}

/// The findings of a kind about queue pairs of which no packet is seen: source port and packets sent of each.
fn hidden(qps: &[(Option<u16>, Option<u64>)], options: &Options, id: &str) -> Vec<Finding> {
    let given: Vec<fixtures::HiddenQp> =
        (17..).zip(qps).map(|(lqpn, (port, sent))| (lqpn, 2, *port, *sent, None)).collect();
    let sample = fixtures::hidden_qps("mlx5_ib", &given);
    found(&sample, options).into_iter().filter(|one| one.id == id).collect()
}

#[test]
fn computed_source_ports_are_judged_as_those_of_packets() {
    let options = Options::default();
    let on = |count: u16, ports: u16, sent| -> Vec<Finding> {
        let qps: Vec<_> = (0..count).map(|qp| (Some(50_000 + qp % ports), sent)).collect();
        hidden(&qps, &options, "entropy.low")
    };
    let [low] = &on(16, 2, Some(1_000))[..] else { panic!("one finding") };
    assert_eq!(low.severity, Severity::Warning);
    assert_eq!(low.title, "Low ECMP entropy: 16 QPs of 10.0.0.1 share 2 source ports (2.0 of 16.0 flows)");
    assert_eq!((&low.evidence["source_ports"], &low.evidence["weighted_by"]), (&2.into(), &"bytes".into()));
    assert_eq!((low.place.link.as_deref(), low.requester.is_some()), (Some("eth0"), true));
    assert!(
        low.caveats[0].contains("known of 16 of 16 queue pairs; each queue pair weighs PSNs"),
        "{:?}",
        low.caveats
    );
    let [alike] = &on(16, 2, None)[..] else { panic!("one finding") };
    assert_eq!(alike.evidence["weighted_by"], "queue_pairs");
    assert!(alike.caveats[0].contains("weighs the same"), "{:?}", alike.caveats);
    // The same limits as for packets.
    assert_eq!((on(4, 1, Some(1_000)).len(), on(3, 1, Some(1_000)).len()), (1, 0));
    assert_eq!((on(16, 10, Some(1_000)).len(), on(16, 16, Some(1_000)).len()), (0, 0));
    assert_eq!(hidden(&[(None, Some(1_000)); 16], &options, "entropy.low"), [], "ports are not known");
    assert_eq!(on(16, 2, Some(0)).len(), 1, "without any bytes each counts as one");
}

#[test]
fn computed_source_ports_over_the_uplinks_that_the_user_named() {
    let options = Options { ecmp: Some(4), ..Options::default() };
    let qps = [50_000, 50_001, 50_002].map(|port| (Some(port), Some(1_000)));
    let [low] = &hidden(&qps, &options, "entropy.low")[..] else { panic!("one finding") };
    assert!(low.title.starts_with("Simulated ECMP: busiest of 4 uplinks"), "{}", low.title);
    assert!(low.caveats[0].contains("No packet of these queue pairs is seen"), "{:?}", low.caveats);
    let many: Vec<_> = (0..256).map(|at| (Some(50_000 + at), Some(1_000))).collect();
    assert_eq!(hidden(&many, &Options { ecmp: Some(2), ..Options::default() }, "entropy.low"), []);
}

#[test]
fn rails_of_queue_pairs_without_packets_are_compared_by_bytes() {
    let rails = vec![("eth0".into(), "rail0".into()), ("eth1".into(), "rail1".into())];
    let options = Options { rails, ..Options::default() };
    let of = |qps: &[(Option<u16>, Option<u64>)]| hidden(qps, &options, "links.imbalance");
    let given = [(Some(50_000), Some(600)), (Some(50_001), Some(400))];
    let [uneven] = &of(&given)[..] else { panic!("one finding") };
    assert_eq!(uneven.title, "Uneven load: rail0 carries 2.00 × the mean of 2 rails");
    assert_eq!((&uneven.evidence["weighted_by"], uneven.active), (&"bytes".into(), true));
    assert!(uneven.evidence["device"].is_null(), "a rail is no device");
    assert!(uneven.caveats[0].starts_with("No packet of these queue pairs is seen"), "{:?}", uneven.caveats);
    assert_eq!(of(&[(Some(50_000), Some(999))]), [], "too few packets");
    assert_eq!(of(&[(Some(50_000), Some(5_000)), (Some(50_001), None)]), [], "the load of one is not known");
    // Without names, the other port may be for something else.
    assert_eq!(hidden(&given, &Options::default(), "links.imbalance"), []);
}

#[test]
fn ports_of_queue_pairs_without_packets_are_compared_by_bytes() {
    let split = |there: u64| {
        let given: Vec<fixtures::HiddenQp> = (17..21)
            .map(|lqpn| (lqpn, 2, Some(50_000), Some(if lqpn % 2 == 0 { there } else { 1_000 }), None))
            .collect();
        let mut sample = fixtures::hidden_qps("mlx5_ib", &given);
        let devices = Arc::make_mut(&mut sample.devices);
        let lives = Arc::make_mut(&mut devices.lives);
        for life in Arc::make_mut(&mut lives.qps).iter_mut().filter(|life| life.lqpn % 2 == 0) {
            life.device = "mlx5_1".into();
        }
        let (here, mut there): (Vec<_>, Vec<_>) =
            devices.ports[0].qps.iter().cloned().partition(|qp| qp.owner.lqpn % 2 == 1);
        for qp in &mut there {
            qp.owner.device = "mlx5_1".into();
        }
        (devices.ports[0].qps, devices.ports[1].qps) = (Arc::new(here), Arc::new(there));
        let all = found(&sample, &Options::default()).into_iter();
        all.filter(|one| one.id == "links.imbalance").collect::<Vec<_>>()
    };
    assert_eq!(split(1_000), []);
    let [uneven] = &split(10)[..] else { panic!("one finding") };
    assert_eq!(uneven.title, "Uneven load: mlx5_0/1 carries 1.98 × the mean of 2 ports");
    assert_eq!(
        (uneven.place.link.as_deref(), &uneven.evidence["device"]),
        (Some("eth0"), &"mlx5_0/1".into())
    );
}
