//! Clean controls: fabrics that spray, reorder, hash and mirror by design.

use super::{Entry, connections, settings};
use crate::sim::channel::{Effect, Fault, Match, Node};
use crate::sim::frame::Addr;
use crate::sim::job::Stream;
use crate::sim::lab::{KB, Lab, MS, US};
use crate::sim::net::GBIT;
use crate::sim::qp::{Ports, Recovery, Settings, Verb};
use crate::sim::switch::Spread;
use crate::sim::truth::Place;

pub(super) const ALL: &[Entry] = &[
    ("control", "clean-spray-at-receiver", |lab| sprayed(lab, false, &[4])),
    ("control", "clean-spray-two-taps", |lab| sprayed(lab, false, &[0, 4])),
    ("control", "clean-spray-identified", |lab| sprayed(lab, true, &[4])),
    ("control", "clean-spray-all-uplinks", spray_uplinks),
    ("control", "clean-adaptive-routing", |lab| reordered(lab, 60_000, 3 * US, &[1])),
    ("control", "clean-adaptive-routing-two-taps", |lab| reordered(lab, 60_000, 3 * US, &[0, 1])),
    ("control", "clean-adaptive-routing-deep", |lab| reordered(lab, 250_000, 20 * US, &[1])),
    ("control", "clean-multipath-ports", |lab| multipath(lab, 128, 0)),
    ("control", "clean-multipath-many-ports", |lab| multipath(lab, 256, 0)),
    ("control", "clean-multipath-planes", |lab| multipath(lab, 64, 4)),
    ("control", "clean-multipath-ipv6-in-ipv6", |lab| multipath_of_ipv6(lab, false)),
    ("control", "clean-multipath-srv6", |lab| multipath_of_ipv6(lab, true)),
    ("control", "clean-multipath-trimmed", trimmed),
    ("control", "clean-hashed-uplinks", hashed_uplinks),
    ("control", "clean-mirror-of-switch", mirror),
    ("control", "clean-rails-of-subnets", rails_of_subnets),
    ("control", "clean-routed-subnets", routed_subnets),
    ("control", "clean-selective-reads", selective_reads),
    ("control", "clean-spines-of-eight-hosts", spines),
    ("reordering", "reordering-hop-go-back-n", |lab| overtaking(lab, false, &[1])),
    ("reordering", "reordering-hop-go-back-n-two-taps", |lab| overtaking(lab, false, &[0, 1])),
    ("reordering", "reordering-hop-identified", |lab| overtaking(lab, true, &[1])),
];

/// Rails with a subnet and a switch each: hosts communicate within their rail, and one rail has fewer active hosts.
fn rails_of_subnets(lab: &mut Lab) {
    lab.world.star(10, 10 * GBIT);
    let rails: [&[u8]; 3] = [&[1, 2, 3, 4], &[1, 2, 3, 4], &[2, 3]];
    let mut host = 0;
    let mut ends = Vec::new();
    for (rail, parts) in (0u8..).zip(rails) {
        for (at, part) in parts.iter().enumerate() {
            lab.world.hosts[host + at].addr = Addr::V4([10 + rail, 1, 0, *part]);
        }
        for at in 0..parts.len() {
            ends.extend(connections(lab, host + at, host + (at + 1) % parts.len(), 2, &settings()));
        }
        host += parts.len();
    }
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 60).gap(MS, MS), 0);
    lab.world.tap_switch(0, "switch.pcap");
}

/// Each host in its own subnet, as on a routed fabric, and two pairs that communicate with no other host.
fn routed_subnets(lab: &mut Lab) {
    lab.world.star(8, 10 * GBIT);
    for (at, host) in (0u8..).zip(&mut lab.world.hosts) {
        host.addr = Addr::V4([10, 20 + at, at, 1]);
    }
    let mut ends = Vec::new();
    for (src, dst) in [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (6, 7)] {
        ends.extend(connections(lab, src, dst, 2, &settings()));
    }
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 60).gap(MS, MS), 0);
    lab.world.tap_switch(0, "switch.pcap");
}

fn tolerant() -> Settings {
    Settings { recovery: Recovery::Selective(1_024), ..settings() }
}

const NAMES: [&str; 8] =
    ["h0.pcap", "h1.pcap", "h2.pcap", "h3.pcap", "h4.pcap", "h5.pcap", "h6.pcap", "h7.pcap"];

/// Leaf and spine, each packet over any spine, some of which are slower: receivers place packets out of order.
fn sprayed(lab: &mut Lab, idents: bool, taps: &[usize]) {
    lab.world.leaf_spine(2, 4, 4, (10 * GBIT, 10 * GBIT));
    lab.world.spread(Spread::Spray);
    for host in &mut lab.world.hosts {
        host.counts_ident = idents;
    }
    for at in 0..lab.world.channels.len() {
        if lab.world.channels[at].from == Node::Switch(3) {
            lab.world.channels[at].delay_ns += 5 * US;
        }
    }
    let mut ends = Vec::new();
    for host in 0..2 {
        ends.extend(connections(lab, host, 4 + host, 3, &tolerant()));
    }
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 60).gap(500 * US, 500 * US), 0);
    for tap in taps {
        lab.world.tap_host(*tap, NAMES[*tap]);
    }
}

/// A tap on each of the uplinks over which one queue pair is sprayed.
fn spray_uplinks(lab: &mut Lab) {
    lab.world.leaf_spine(2, 2, 2, (10 * GBIT, 10 * GBIT));
    lab.world.spread(Spread::Spray);
    let mut ends = connections(lab, 0, 2, 2, &tolerant());
    ends.extend(connections(lab, 3, 1, 2, &tolerant()));
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 80).gap(500 * US, 500 * US), 0);
    for spine in 0..2 {
        lab.world.tap_cable(Node::Switch(0), Node::Switch(2 + spine), ["up0.pcap", "up1.pcap"][spine]);
    }
    lab.option(&["--group", "up0.pcap,up1.pcap"]);
}

/// Some packets take a longer path.
fn reordered(lab: &mut Lab, ppm: u32, ns: u64, taps: &[usize]) {
    lab.world.line(10 * GBIT);
    let data = Match { data: Some(true), ..Match::default() };
    let way = Fault::always(data, Effect::Delay { ppm, ns, jitter_ns: ns });
    lab.world.fault(Node::Switch(0), Node::Switch(1), way);
    let ends = connections(lab, 0, 1, 4, &tolerant());
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 70).gap(200 * US, 200 * US), 0);
    for tap in taps {
        lab.world.tap_host(*tap, NAMES[*tap]);
    }
}

/// Most packets take a path that is 4 ms longer, and receivers that cannot place packets out of order send NAKs for
/// the gaps.
fn overtaking(lab: &mut Lab, idents: bool, taps: &[usize]) {
    lab.world.line(10 * GBIT);
    for host in &mut lab.world.hosts {
        host.counts_ident = idents;
    }
    let data = Match { data: Some(true), ..Match::default() };
    let way = Fault::always(data, Effect::Delay { ppm: 900_000, ns: 4 * MS, jitter_ns: 0 });
    lab.world.fault(Node::Switch(0), Node::Switch(1), way);
    let ends = connections(lab, 0, 1, 2, &Settings { timeout_ns: 67 * MS, ..super::mtu(1024) });
    lab.world.start(Stream::new(&ends, Verb::Write, 32 * KB, 12).depth(4), 0);
    for tap in taps {
        lab.world.tap_host(*tap, NAMES[*tap]);
    }
    lab.also(&["retry.storm", "latency.tail"]).never(&["loss.between_taps", "capture.duplicates"]);
}

/// Each packet of a queue pair has one of many source ports, and possibly one of several planes in an outer header.
fn multipath(lab: &mut Lab, ports: u16, planes: u16) {
    multipath_with(lab, false, &Settings { ports: Ports::Many(0xC000, ports), planes, ..tolerant() });
}

/// The same between hosts with IPv6 addresses: IPv6 in IPv6, or with the segments of SRv6 in a routing header.
fn multipath_of_ipv6(lab: &mut Lab, routing: bool) {
    // Room for both IPv6 headers, the segments, and the transport.
    lab.world.snap = lab.world.snap.max(192);
    multipath_with(lab, true, &Settings { ports: Ports::Many(0xC000, 64), planes: 8, routing, ..tolerant() });
}

fn multipath_with(lab: &mut Lab, ipv6: bool, set: &Settings) {
    lab.world.leaf_spine(2, 2, 4, (10 * GBIT, 10 * GBIT));
    if ipv6 {
        lab.world.ipv6();
    }
    for at in 0..lab.world.channels.len() {
        if lab.world.channels[at].from == Node::Switch(4) {
            lab.world.channels[at].delay_ns += 3 * US;
        }
    }
    let mut ends = connections(lab, 0, 2, 4, set);
    ends.extend(connections(lab, 1, 3, 4, set));
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 45).gap(500 * US, 500 * US), 0);
    lab.world.tap_host(2, "h2.pcap");
}

/// Packets with many source ports, some of which a switch trims instead of dropping them; the receiver sends a NAK
/// for each.
fn trimmed(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let way = Fault::always(
        Match { data: Some(true), ..Match::default() },
        Effect::Trim { ppm: 3_000, payload: 64, tos: 46 << 2 },
    );
    lab.world.fault(Node::Switch(0), Node::Switch(1), way);
    let set = Settings { ports: Ports::Many(0xC000, 128), recovery: Recovery::Selective(0), ..settings() };
    let ends = connections(lab, 0, 1, 4, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 60).gap(200 * US, 200 * US), 0);
    lab.world.tap_host(1, "h1.pcap");
}

/// Many queue pairs are hashed evenly onto two uplinks.
fn hashed_uplinks(lab: &mut Lab) {
    lab.world.leaf_spine(2, 4, 2, (10 * GBIT, 40 * GBIT));
    let mut ends = Vec::new();
    for host in 0..4 {
        ends.extend(connections(lab, host, 4 + host, 32, &settings()));
    }
    lab.world.start(Stream::new(&ends, Verb::Write, 32 * KB, 12).depth(2).gap(MS, MS), 0);
    for spine in 0..2 {
        lab.world.tap_cable(Node::Switch(0), Node::Switch(2 + spine), ["up0.pcap", "up1.pcap"][spine]);
    }
    lab.option(&["--group", "up0.pcap,up1.pcap"]);
}

fn mirror(lab: &mut Lab) {
    lab.world.star(6, 10 * GBIT);
    let mut ends = Vec::new();
    for host in 0..6 {
        ends.extend(connections(lab, host, (host + 2) % 6, 3, &settings()));
    }
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 50).gap(MS, MS), 0);
    lab.world.tap_switch(0, "mirror.pcap");
}

fn selective_reads(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let set = Settings { reads: 16, ..tolerant() };
    let ends = connections(lab, 0, 1, 4, &set);
    lab.world.start(Stream::new(&ends, Verb::Read, 32 * KB, 250).depth(12).gap(50 * US, 0), 0);
    lab.world.tap_host(1, "h1.pcap");
}

/// A tap at each spine: together they see everything once.
fn spines(lab: &mut Lab) {
    const TAPS: [&str; 4] = ["s0.pcap", "s1.pcap", "s2.pcap", "s3.pcap"];
    lab.world.leaf_spine(2, 4, 4, (10 * GBIT, 10 * GBIT));
    let mut ends = Vec::new();
    for host in 0..4 {
        ends.extend(connections(lab, host, 7 - host, 8, &settings()));
    }
    lab.world.start(Stream::new(&ends, Verb::WriteImm, 64 * KB, 20).gap(MS, MS), 0);
    for (spine, name) in TAPS.into_iter().enumerate() {
        lab.world.tap_switch(2 + spine, name);
    }
    lab.world.run();
    // Hashing puts half of 32 queue pairs on one of four spines once in a while: then the load is uneven.
    let loads = lab.world.taps.iter().map(|tap| tap.counted.bytes).zip(TAPS);
    let all: u64 = loads.clone().map(|(bytes, _)| bytes).sum();
    if let Some((_, name)) = loads.max().filter(|(most, _)| most * 4 * 2 >= all * 3) {
        lab.expect(&["links.imbalance"], Place::Link(name.into()));
    }
}
