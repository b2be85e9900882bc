//! Faults of unusual shape: two at a time, at the edge of a capture, seen by unusual taps.

use super::odd::three_taps;
use super::timeouts::LOSSES;
use super::{Entry, connections, mtu, ring_connections, settings};
use crate::sim::channel::{Effect, Fault, Match, Node};
use crate::sim::job::{Collective, Compute, Stream};
use crate::sim::lab::{KB, Lab, MB, MS, US};
use crate::sim::net::GBIT;
use crate::sim::qp::{Settings, Verb};
use crate::sim::truth::Place;

pub(super) const ALL: &[Entry] = &[
    ("mtu", "mtu-black-hole-with-small-tails", small_tails),
    ("loss", "loss-beside-slow-receiver", loss_and_rnr),
    ("loss", "loss-beside-congestion", loss_and_marks),
    ("loss", "loss-three-taps-clocks-far-apart", |lab| far_apart(lab, [0, 90 * MS, 230 * MS])),
    ("loss", "loss-three-taps-clocks-behind", |lab| far_apart(lab, [300 * MS, 120 * MS, 0])),
    ("loss", "loss-three-taps-fast-queue-pair", |lab| far_apart_fast(lab, [0, 0, 130 * MS])),
    ("loss", "loss-three-taps-fast-queue-pair-behind", |lab| far_apart_fast(lab, [200 * MS, 100 * MS, 0])),
    ("loss", "loss-snapped-to-64-bytes", snapped),
    ("loss", "loss-at-tap-of-one-direction", |lab| one_direction(lab, false)),
    ("loss", "loss-downstream-of-tap-of-one-direction", |lab| one_direction(lab, true)),
    ("loss", "loss-both-ways", both_ways),
    ("loss", "loss-two-places", two_places),
    ("loss", "loss-until-capture-begins", until_begin),
    ("loss", "loss-of-sixteen-queue-pairs-100g", fast),
    ("loss", "loss-of-reads-both-ways-mirror", reads_both_ways),
    ("timeouts", "timeouts-dead-when-capture-begins", |lab| edge(lab, (150 * MS, u64::MAX))),
    ("timeouts", "timeouts-dead-when-capture-ends", |lab| edge(lab, (0, 320 * MS))),
    ("timeouts", "timeouts-flapping-link", flapping),
    ("incast", "incast-16-at-receiver", |lab| incast(lab, 16, 0)),
    ("incast", "incast-6-beside-loss-elsewhere", |lab| incast(lab, 6, 20_000)),
    ("rnr", "rnr-while-capture-is-cut", rnr_cut),
    ("straggler", "straggler-of-eight-beside-checkpoints", straggler_of_eight),
    ("ecn", "ecn-of-reads-at-requester", marked_reads),
    ("died", "died-in-last-moments", dies_last),
];

const HOP: (Node, Node) = (Node::Switch(0), Node::Switch(1));
const BACK: (Node, Node) = (Node::Switch(1), Node::Switch(0));
const DATA: Match = Match { data: Some(true), src: None, dst: None, qp: None, over: None, opcode: None };

/// Large packets are lost and the short last one of each message arrives: the receiver sends a NAK each time.
fn small_tails(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let large = Match { over: Some(1_500), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(large, Effect::Drop { ppm: 1_000_000 }));
    let small = connections(lab, 0, 1, 2, &settings());
    let big = connections(lab, 0, 1, 2, &settings());
    lab.world.start(Stream::new(&small, Verb::Send, 512, 1_000).gap(200 * US, 100 * US), 0);
    lab.world.start(Stream::new(&big, Verb::Write, 64 * KB + 100, 10).depth(1), 20 * MS);
    lab.world.end = 200 * MS;
    lab.world.tap_host(0, "h0.pcap");
    lab.world.tap_host(1, "h1.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["path.mtu_black_hole"], pair).also(LOSSES).also(&["qp.died", "peer.silent"]);
}

/// Loss between two hosts, and a receiver without buffers elsewhere.
fn loss_and_rnr(lab: &mut Lab) {
    lab.world.star(4, 10 * GBIT);
    let data = Match { src: Some(0), data: Some(true), ..Match::default() };
    lab.world.fault(Node::Switch(0), Node::Host(1), Fault::always(data, Effect::Drop { ppm: 5_000 }));
    let ends = connections(lab, 0, 1, 2, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 200).gap(200 * US, 200 * US), 0);
    let set = Settings { buffers: 3, repost_ns: 2 * MS, ..settings() };
    let slow = connections(lab, 2, 3, 2, &set);
    lab.world.start(Stream::new(&slow, Verb::Send, 16 * KB, 200).depth(6), 0);
    lab.world.tap_switch(0, "switch.pcap");
    let (pair, receiver) = (lab.pair(0, 1), lab.host(3));
    lab.expect_info(&["loss.after_tap"], pair.clone());
    lab.expect(&["retry.storm", "retry.timeouts"], pair);
    lab.expect(&["rnr.slow_receiver"], receiver).also(&["latency.tail"]);
}

/// One receiver's port marks; packets to another host are lost on a bad cable.
fn loss_and_marks(lab: &mut Lab) {
    lab.world.star(5, 10 * GBIT);
    lab.world.red(100_000, 400_000, 100_000);
    lab.world.fault(Node::Host(3), Node::Switch(0), Fault::always(DATA, Effect::Drop { ppm: 4_000 }));
    let mut ends = connections(lab, 0, 2, 2, &settings());
    ends.extend(connections(lab, 1, 2, 2, &settings()));
    lab.world.start(Stream::new(&ends, Verb::Write, 512 * KB, 24), 0);
    let lossy = connections(lab, 3, 4, 2, &settings());
    lab.world.start(Stream::new(&lossy, Verb::Write, 64 * KB, 200).gap(100 * US, 100 * US), 0);
    lab.world.tap_both_ways(0, "mirror.pcap");
    let (receiver, pair) = (lab.host(2), lab.pair(3, 4));
    lab.expect(&["ecn.congestion"], receiver);
    lab.expect(&["loss.before_tap"], pair).never(&["burst.incast", "loss.after_tap"]);
    lab.also(&["retry.timeouts", "latency.tail"]);
}

/// Packets lost between two taps, of three whose clocks differ by more than the path takes.
fn far_apart(lab: &mut Lab, ahead_ns: [u64; 3]) {
    lab.world.line(10 * GBIT);
    lab.world.fault(HOP.1, Node::Host(1), Fault::always(DATA, Effect::Drop { ppm: 5_000 }));
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 160).gap(100 * US, 100 * US), 0);
    three_taps(lab, ahead_ns);
    lab.expect(&["loss.between_taps"], Place::Hop("mid.pcap".into(), "h1.pcap".into()));
    lab.also(&["retry.timeouts", "retry.storm", "latency.tail"]);
    lab.world.run();
    let lost = lab.world.facts.lost as f64;
    lab.figure(
        "packets lost between the taps",
        |report| sum(report, "loss.between_taps", "vanished"),
        lost,
        lost,
    );
}

/// The same of one queue pair that sends ten times as many packets while the clocks differ as a flow waits with.
fn far_apart_fast(lab: &mut Lab, ahead_ns: [u64; 3]) {
    lab.world.line(25 * GBIT);
    lab.world.fault(HOP.1, Node::Host(1), Fault::always(DATA, Effect::Drop { ppm: 2_000 }));
    let ends = connections(lab, 0, 1, 1, &mtu(1_024));
    lab.world.start(Stream::new(&ends, Verb::Write, MB, 400).depth(2), 0);
    three_taps(lab, ahead_ns);
    lab.expect(&["loss.between_taps"], Place::Hop("mid.pcap".into(), "h1.pcap".into()));
    lab.also(&["retry.timeouts", "retry.storm", "latency.tail"]);
    lab.world.run();
    // All of them, or fewer and "at least".
    let lost = lab.world.facts.lost as f64;
    lab.figure("packets lost between the taps", lost_between, lost, lost);
}

fn lost_between(report: &serde_json::Value) -> Option<f64> {
    sum(report, "loss.between_taps", "vanished")
}

fn sum(report: &serde_json::Value, id: &str, name: &str) -> Option<f64> {
    let all = report["findings"].as_array()?.iter().filter(|finding| finding["id"] == id);
    all.map(|finding| finding["evidence"][name].as_f64()).sum()
}

fn snapped(lab: &mut Lab) {
    lab.world.snap = 64;
    lab.world.line(10 * GBIT);
    lab.world.fault(HOP.0, HOP.1, Fault::always(DATA, Effect::Drop { ppm: 5_000 }));
    let ends = connections(lab, 0, 1, 4, &mtu(2_048));
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 120).gap(100 * US, 100 * US), 0);
    lab.world.tap_host(1, "h1.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["loss.before_tap"], pair).also(LOSSES);
    lab.world.run();
    let lost = lab.world.facts.lost as f64;
    lab.figure("packets lost", |report| sum(report, "loss.before_tap", "lost"), lost * 0.97, lost);
}

/// A mirror of the data's direction alone; the loss is upstream or downstream of it.
fn one_direction(lab: &mut Lab, downstream: bool) {
    lab.world.line(10 * GBIT);
    let hop = if downstream { (HOP.1, Node::Host(1)) } else { (Node::Host(0), HOP.0) };
    lab.world.fault(hop.0, hop.1, Fault::always(DATA, Effect::Drop { ppm: 5_000 }));
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 160).gap(100 * US, 100 * US), 0);
    let tap = lab.world.add_tap("one.pcap");
    let channel = lab.world.channel(HOP.0, HOP.1);
    lab.world.channels[channel].near.push(tap);
    let pair = lab.pair(0, 1);
    if downstream {
        lab.expect_info(&["loss.after_tap"], pair.clone()).expect(&["retry.storm", "retry.timeouts"], pair);
    } else {
        lab.expect(&["loss.before_tap"], pair);
    }
    lab.also(LOSSES);
}

/// Data of both hosts, and loss in both directions of a cable.
fn both_ways(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    for (from, to) in [HOP, BACK] {
        lab.world.fault(from, to, Fault::always(DATA, Effect::Drop { ppm: 5_000 }));
    }
    let mut ends = connections(lab, 0, 1, 3, &settings());
    ends.extend(connections(lab, 1, 0, 3, &settings()));
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 120).gap(200 * US, 200 * US), 0);
    lab.world.tap_host(0, "h0.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["loss.before_tap"], pair.clone());
    lab.expect_info(&["loss.after_tap"], pair.clone());
    lab.expect(&["retry.storm", "retry.timeouts"], pair).also(LOSSES);
}

/// Loss on two hops, of which one is between the taps and one upstream of both.
fn two_places(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    lab.world.fault(Node::Host(0), HOP.0, Fault::always(DATA, Effect::Drop { ppm: 4_000 }));
    lab.world.fault(HOP.1, Node::Host(1), Fault::always(DATA, Effect::Drop { ppm: 4_000 }));
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 160).gap(100 * US, 100 * US), 0);
    lab.world.tap_cable(HOP.0, HOP.1, "mid.pcap");
    lab.world.tap_host(1, "h1.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["loss.before_tap"], pair);
    lab.expect(&["loss.between_taps"], Place::Hop("mid.pcap".into(), "h1.pcap".into())).also(LOSSES);
}

/// Loss ends soon after the capture begins.
fn until_begin(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    lab.world.fault(HOP.0, HOP.1, Fault::during(0, 120 * MS, DATA, Effect::Drop { ppm: 20_000 }));
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 400).depth(1).gap(MS, MS), 0);
    let tap = lab.world.tap_host(1, "h1.pcap");
    lab.world.taps[tap].range = (60 * MS, u64::MAX);
    let pair = lab.pair(0, 1);
    lab.expect_during(&["loss.before_tap"], pair, (60 * MS, 140 * MS)).also(LOSSES);
}

fn fast(lab: &mut Lab) {
    lab.world.line(100 * GBIT);
    lab.world.fault(HOP.0, HOP.1, Fault::always(DATA, Effect::Drop { ppm: 2_000 }));
    let set = Settings { window: 512, ..settings() };
    let ends = connections(lab, 0, 1, 16, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, MB, 10).depth(2), 0);
    lab.world.tap_host(1, "h1.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["loss.before_tap"], pair).also(LOSSES);
}

/// READs in both directions through a mirror, of which responses are lost on one side.
fn reads_both_ways(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    lab.world.fault(Node::Host(1), HOP.1, Fault::always(DATA, Effect::Drop { ppm: 4_000 }));
    let mut ends = connections(lab, 0, 1, 3, &settings());
    ends.extend(connections(lab, 1, 0, 3, &settings()));
    lab.world.start(Stream::new(&ends, Verb::Read, 64 * KB, 120).gap(300 * US, 300 * US), 0);
    lab.world.tap_cable(HOP.0, HOP.1, "mirror.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["loss.before_tap"], pair).also(LOSSES);
}

/// The path is dead while the capture begins or ends.
fn edge(lab: &mut Lab, range: (u64, u64)) {
    lab.world.line(10 * GBIT);
    let dead = Fault::during(100 * MS, 400 * MS, Match::default(), Effect::Drop { ppm: 1_000_000 });
    lab.world.fault(HOP.0, HOP.1, dead);
    let set = Settings { timeout_ns: 33 * MS, retries: 20, ..settings() };
    let ends = connections(lab, 0, 1, 5, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 150).depth(1).gap(4 * MS, MS), 0);
    let tap = lab.world.tap_host(0, "h0.pcap");
    lab.world.taps[tap].range = range;
    let pair = lab.pair(0, 1);
    // While it lasts, a dead path looks like a dead peer.
    lab.expect(&["retry.timeouts", "peer.silent", "qp.died"], pair)
        .also(LOSSES)
        .also(&["peer.silent", "qp.died"]);
}

/// A link is down for 60 ms, five times.
fn flapping(lab: &mut Lab) {
    lab.world.star(3, 10 * GBIT);
    for flap in 0..5 {
        let from = (200 + flap * 400) * MS;
        let down = Fault::during(from, from + 60 * MS, Match::default(), Effect::Drop { ppm: 1_000_000 });
        lab.world.fault(Node::Host(0), Node::Switch(0), down);
        lab.world.fault(Node::Switch(0), Node::Host(0), down);
    }
    let set = Settings { timeout_ns: 33 * MS, ..settings() };
    let mut ends = connections(lab, 0, 1, 3, &set);
    ends.extend(connections(lab, 1, 0, 3, &set));
    ends.extend(connections(lab, 2, 1, 3, &set));
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 240).depth(1).gap(8 * MS, MS), 0);
    lab.world.tap_switch(0, "switch.pcap");
    let host = lab.host(0);
    lab.expect(&["retry.timeouts"], host).also(LOSSES).never(&["peer.silent"]);
}

fn incast(lab: &mut Lab, senders: usize, elsewhere_ppm: u32) {
    lab.world.star(senders + 2, 10 * GBIT);
    lab.world.red(100_000, 400_000, 100_000);
    let mut ends = Vec::new();
    for host in 1..=senders {
        ends.extend(connections(lab, host, 0, 1, &Settings { window: 64, ..settings() }));
    }
    lab.world
        .start(Stream::new(&ends, Verb::Write, 128 * KB, 480 / senders as u64).gap(MS, MS / 2).depth(2), 0);
    let (receiver, last) = (lab.host(0), senders + 1);
    lab.also(&["ecn.congestion", "burst.incast", "latency.tail"]);
    if elsewhere_ppm == 0 {
        lab.world.tap_host(0, "h0.pcap");
    } else {
        lab.world.fault(
            Node::Host(last),
            Node::Switch(0),
            Fault::always(DATA, Effect::Drop { ppm: elsewhere_ppm }),
        );
        let lossy = connections(lab, last, 1, 2, &settings());
        lab.world.start(Stream::new(&lossy, Verb::Write, 64 * KB, 60).depth(1).gap(MS, MS), 0);
        lab.world.tap_both_ways(0, "mirror.pcap");
        let pair = lab.pair(last, 1);
        lab.expect(&["loss.before_tap"], pair).also(&["retry.timeouts"]);
    }
    lab.world.run();
    // At the fastest rates, congestion control holds the queue at its threshold with far less than a mark in a hundred
    // packets, as it should.
    let sent: u64 = ends.iter().map(|end| lab.world.qps[*end].high - lab.world.qps[*end].set.first_psn).sum();
    if lab.world.facts.marked * 100 >= sent {
        lab.expect(&["burst.incast"], receiver);
    }
}

/// A slow receiver, captured from the middle of its RNR waits to the middle of others.
fn rnr_cut(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let set = Settings { buffers: 4, repost_ns: MS, ..settings() };
    let ends = connections(lab, 0, 1, 2, &set);
    lab.world.start(Stream::new(&ends, Verb::Send, 16 * KB, 800).depth(8), 0);
    let tap = lab.world.tap_host(0, "h0.pcap");
    lab.world.taps[tap].range = (21 * MS + 1, 80 * MS + 3);
    let receiver = lab.host(1);
    lab.expect(&["rnr.slow_receiver"], receiver).never(&["loss.after_tap", "loss.before_tap"]);
    lab.also(&["latency.tail"]);
}

/// A host of a ring computes for longer; a storage host gets checkpoints of all meanwhile.
fn straggler_of_eight(lab: &mut Lab) {
    lab.world.star(9, 10 * GBIT);
    let next = ring_connections(lab, 8, &settings());
    let late = Some((5, 30 * MS, 0..1_000));
    let compute = Compute { ns: 50 * MS, jitter_ns: MS, late, ..Compute::default() };
    lab.world.start(Collective::ring(&next, (2, 64 * KB), 40, compute), 0);
    for host in 0..8 {
        let ends = connections(lab, host, 8, 1, &Settings { window: 16, ..settings() });
        lab.world.start(Stream::new(&ends, Verb::Write, MB, 2).depth(1), 1_400 * MS);
    }
    lab.world.tap_switch(0, "switch.pcap");
    let late = crate::sim::truth::Expected::new(&["step.straggler"], lab.host(5)).with("host", lab.addr(5));
    lab.expect_that(late).also(&["step.slower"]);
}

/// READ responses are marked on their way.
fn marked_reads(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    lab.world.fault(BACK.0, BACK.1, Fault::always(DATA, Effect::Mark { ppm: 50_000 }));
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Read, 256 * KB, 60).gap(500 * US, 0), 0);
    lab.world.tap_host(0, "h0.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["ecn.congestion"], pair).also(&["latency.tail"]).never(&["burst.incast"]);
}

/// A path dies less than a timeout before the end of the capture of it, and of others: nothing says so yet but silence.
fn dies_last(lab: &mut Lab) {
    lab.world.star(4, 10 * GBIT);
    let set = Settings { timeout_ns: 17 * MS, ..settings() };
    let mut ends = Vec::new();
    for host in 1..4 {
        ends.extend(connections(lab, host, 0, 2, &set));
    }
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 120).depth(1).gap(3 * MS, MS), 0);
    let only = Match { src: Some(2), ..Match::default() };
    let dead = Fault::during(150 * MS, u64::MAX, only, Effect::Drop { ppm: 1_000_000 });
    lab.world.fault(Node::Switch(0), Node::Host(0), dead);
    let tap = lab.world.tap_switch(0, "switch.pcap");
    lab.world.taps[tap].range = (0, 320 * MS);
    let pair = lab.pair(2, 0);
    lab.expect(&["qp.died"], pair).also(LOSSES).also(&["peer.silent"]);
}
