//! Duplicates, changes in transit, damage, and reordering.

use super::{Entry, connections, mtu, settings};
use crate::sim::channel::{Effect, Fault, Match, Node};
use crate::sim::frame::Layer;
use crate::sim::job::Stream;
use crate::sim::lab::{KB, Lab, MB, MS, US};
use crate::sim::net::GBIT;
use crate::sim::qp::{Recovery, Settings, Verb};

pub(super) const ALL: &[Entry] = &[
    ("rewritten", "rewritten-dscp", |lab| rewritten(lab, 0x03, 0, "h0.pcap", "h1.pcap")),
    ("rewritten", "rewritten-ecn-cleared", |lab| rewritten(lab, 0xFC, 0, "h0.pcap", "h1.pcap")),
    ("rewritten", "rewritten-dscp-at-second-hop", |lab| {
        rewritten(lab, 0x03, 8 << 2, "leaf0.pcap", "leaf1.pcap");
    }),
    ("rewritten", "rewritten-priority", priority),
    ("rewritten", "rewritten-payload", |lab| altered(lab, Effect::Alter { ppm: 20_000, recompute: true })),
    ("rewritten", "rewritten-corrupt", |lab| altered(lab, Effect::Alter { ppm: 4_000, recompute: false })),
    ("rewritten", "rewritten-corrupt-icrc", |lab| altered(lab, Effect::Corrupt { ppm: 4_000 })),
    ("duplicates", "duplicates-both-directions", |lab| both_directions(lab, false)),
    ("duplicates", "duplicates-both-directions-identified", |lab| both_directions(lab, true)),
    ("duplicates", "duplicates-merged-files", merged),
    ("duplicates", "duplicates-with-marks", with_marks),
    ("icrc", "icrc-corruption", |lab| corruption(lab, 3_000)),
    ("icrc", "icrc-corruption-few", |lab| corruption(lab, 1_000)),
    ("dscp", "dscp-mixed", dscp_mixed),
    ("reordering", "reordering-retransmitted", |lab| spurious(lab, SELECTIVE, false, &[1])),
    ("reordering", "reordering-retransmitted-identified", |lab| spurious(lab, SELECTIVE, true, &[1])),
    ("reordering", "reordering-retransmitted-two-taps", |lab| spurious(lab, SELECTIVE, false, &[0, 1])),
    ("reordering", "reordering-go-back-n", |lab| spurious(lab, Recovery::GoBackN, false, &[1])),
    ("reordering", "reordering-go-back-n-identified", |lab| spurious(lab, Recovery::GoBackN, true, &[1])),
    ("reordering", "reordering-go-back-n-two-taps", |lab| spurious(lab, Recovery::GoBackN, false, &[0, 1])),
    ("reordering", "reordering-go-back-n-identified-two-taps", |lab| {
        spurious(lab, Recovery::GoBackN, true, &[0, 1]);
    }),
    ("duplicates", "duplicates-made-by-network", by_network),
];

const HOP: (Node, Node) = (Node::Switch(0), Node::Switch(1));

fn rewritten(lab: &mut Lab, keep: u8, set: u8, first: &str, second: &str) {
    lab.world.line(10 * GBIT);
    let only = Match { src: Some(0), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(only, Effect::Tos { keep, set }));
    let ends = connections(lab, 0, 1, 3, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 60).gap(MS, MS), 0);
    lab.world.tap_host(0, first);
    lab.world.tap_host(1, second);
    let hop = crate::sim::truth::Place::Hop(first.to_owned(), second.to_owned());
    lab.expect(&["path.rewritten"], hop);
}

/// A hop sets the priority in the 802.1Q tag of one direction to that of another class.
fn priority(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let only = Match { src: Some(0), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(only, Effect::Priority { to: 0 }));
    let ends = connections(lab, 0, 1, 3, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 60).gap(MS, MS), 0);
    for (host, name) in [(0, "h0.pcap"), (1, "h1.pcap")] {
        let tap = lab.world.tap_host(host, name);
        lab.world.taps[tap].layer = Layer::Vlan(3, 100);
    }
    let hop = crate::sim::truth::Place::Hop("h0.pcap".into(), "h1.pcap".into());
    lab.expect(&["path.rewritten"], hop);
    lab.world.run();
    // All packets of host 0, and none of host 1.
    let changed = lab.world.facts.changed as f64;
    lab.figure("packets with another priority", rewritten_packets, changed, changed);
}

fn rewritten_packets(report: &serde_json::Value) -> Option<f64> {
    let mut all = report["findings"].as_array()?.iter();
    all.find(|finding| finding["id"] == "path.rewritten")?["evidence"]["packets"].as_f64()
}

/// A hop changes an immutable field between two taps that see complete frames.
fn altered(lab: &mut Lab, effect: Effect) {
    lab.world.line(10 * GBIT);
    let data = Match { src: Some(0), data: Some(true), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(data, effect));
    let set = Settings { recovery: Recovery::GoBackN, ..mtu(1024) };
    let ends = connections(lab, 0, 1, 2, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 32 * KB, 120).gap(200 * US, 0), 0);
    for (host, name) in [(0, "h0.pcap"), (1, "h1.pcap")] {
        let tap = lab.world.tap_host(host, name);
        lab.world.taps[tap].snap = 65_535;
    }
    let hop = crate::sim::truth::Place::Hop("h0.pcap".into(), "h1.pcap".into());
    lab.expect(&["path.rewritten"], hop);
    // Receivers drop corrupt packets, and senders retransmit.
    if !matches!(effect, Effect::Alter { recompute: true, .. }) {
        lab.also(&["icrc.errors", "loss.after_tap", "retry.storm", "retry.timeouts", "latency.tail"]);
    }
}

const WRONG: &[&str] =
    &["loss.before_tap", "loss.after_tap", "loss.between_taps", "retry.storm", "retry.timeouts"];

/// A mirror of ingress and egress: each packet is in the file twice.
fn both_directions(lab: &mut Lab, idents: bool) {
    lab.world.star(4, 10 * GBIT);
    for host in &mut lab.world.hosts {
        host.counts_ident = idents;
    }
    let mut ends = Vec::new();
    for host in 0..4 {
        ends.extend(connections(lab, host, (host + 1) % 4, 2, &settings()));
    }
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 60).gap(500 * US, 200 * US), 0);
    lab.world.tap_both_ways(0, "mirror.pcap");
    lab.expect_info(&["capture.duplicates"], crate::sim::truth::Place::Link("mirror.pcap".into()))
        .never(WRONG);
    each_twice(lab);
}

/// Of all packets, one of two is a copy.
fn each_twice(lab: &mut Lab) {
    lab.figure("share of copies", copied_ratio, 0.49, 0.5);
}

fn copied_ratio(report: &serde_json::Value) -> Option<f64> {
    let totals = &report["totals"];
    Some(totals["copied"]["packets"].as_f64()? / totals["roce_packets"].as_f64()?)
}

/// The captures of both ends in one file.
fn merged(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 100).gap(500 * US, 200 * US), 0);
    let tap = lab.world.tap_host(0, "merged.pcap");
    for channel in &mut lab.world.channels {
        if channel.from == Node::Host(1) {
            channel.near.push(tap);
        }
        if channel.to == Node::Host(1) {
            channel.far.push(tap);
        }
    }
    lab.expect_info(&["capture.duplicates"], crate::sim::truth::Place::Link("merged.pcap".into()))
        .never(WRONG);
    each_twice(lab);
}

/// A mirror of both directions of a congested switch, which marks between the two copies, so that half of the marks
/// are visible.
fn with_marks(lab: &mut Lab) {
    lab.world.star(3, 10 * GBIT);
    lab.world.red(40_000, 200_000, 200_000);
    let mut ends = connections(lab, 0, 2, 2, &settings());
    ends.extend(connections(lab, 1, 2, 2, &settings()));
    lab.world.start(Stream::new(&ends, Verb::Write, MB / 2, 24), 0);
    lab.world.tap_both_ways(0, "mirror.pcap");
    lab.expect_info(&["capture.duplicates"], crate::sim::truth::Place::Link("mirror.pcap".into()));
    let receiver = lab.host(2);
    lab.expect(&["ecn.congestion", "burst.incast"], receiver)
        .never(WRONG)
        .also(&["ecn.congestion", "burst.incast"]);
    each_twice(lab);
}

fn corruption(lab: &mut Lab, ppm: u32) {
    lab.world.line(10 * GBIT);
    let data = Match { data: Some(true), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(data, Effect::Corrupt { ppm }));
    let set = Settings { recovery: Recovery::GoBackN, ..mtu(1024) };
    let ends = connections(lab, 0, 1, 2, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 32 * KB, 160).gap(200 * US, 0), 0);
    let tap = lab.world.tap_host(1, "h1.pcap");
    lab.world.taps[tap].snap = 65_535;
    let pair = lab.pair(0, 1);
    lab.expect(&["icrc.errors"], pair).also(&[
        "loss.after_tap",
        "retry.storm",
        "retry.timeouts",
        "latency.tail",
    ]);
}

/// Two traffic classes between the same hosts: one of four connections has DSCP 0.
fn dscp_mixed(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let mut ends = connections(lab, 0, 1, 3, &settings());
    ends.extend(connections(lab, 0, 1, 1, &Settings { tos: 2, ..settings() }));
    lab.world.start(Stream::new(&ends, Verb::Write, 256 * KB, 40).gap(500 * US, 0), 0);
    lab.world.tap_host(0, "h0.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["qos.dscp_mixed"], pair);
}

const SELECTIVE: Recovery = Recovery::Selective(3);

/// Reordering that receivers take for loss: NAKs and retransmissions without loss.
fn spurious(lab: &mut Lab, recovery: Recovery, idents: bool, taps: &[usize]) {
    lab.world.line(10 * GBIT);
    for host in &mut lab.world.hosts {
        host.counts_ident = idents;
    }
    let data = Match { data: Some(true), ..Match::default() };
    let way = Effect::Delay { ppm: 20_000, ns: 20 * US, jitter_ns: 20 * US };
    lab.world.fault(HOP.0, HOP.1, Fault::always(data, way));
    let set = Settings { recovery, ..settings() };
    let ends = connections(lab, 0, 1, 4, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 70).gap(200 * US, 200 * US), 0);
    for tap in taps {
        lab.world.tap_host(*tap, ["h0.pcap", "h1.pcap"][*tap]);
    }
    if recovery == Recovery::GoBackN {
        // They cost as much as those that a loss causes.
        lab.also(&["retry.storm"]);
    }
    lab.never(&["loss.between_taps"]);
    // Without identifications, some of those whose original is late count as lost.
    if idents {
        lab.figure("PSNs lost for certain", lost_for_certain, 0.0, 0.0);
    }
}

/// PSNs that count as lost and cannot be reordered ones, of all flows at all taps.
fn lost_for_certain(report: &serde_json::Value) -> Option<f64> {
    let losses = report["flows"].as_array()?.iter().filter_map(|flow| flow["loss"].as_object());
    losses.map(|loss| Some(loss["lost"].as_f64()? - loss["lost_or_reordered"].as_f64()?)).sum()
}

/// A switch that forwards some packets twice, some microseconds apart.
fn by_network(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let twice = Effect::Duplicate { ppm: 30_000, after_ns: 5 * US };
    lab.world.fault(HOP.0, HOP.1, Fault::always(Match { data: Some(true), ..Match::default() }, twice));
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 60).gap(500 * US, 0), 0);
    lab.world.tap_host(1, "h1.pcap");
    lab.expect_info(&["capture.duplicates"], crate::sim::truth::Place::Any).never(WRONG);
}
