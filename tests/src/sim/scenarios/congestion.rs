//! Growing queues: incast, marking, CNPs, pauses, receivers that are not ready.

use super::{Entry, connections, settings};
use crate::sim::channel::{Effect, Fault, Match, Node};
use crate::sim::engine::Event;
use crate::sim::frame::Layer;
use crate::sim::job::{Collective, Compute, Stream, Turns};
use crate::sim::lab::{KB, Lab, MB, MS, US};
use crate::sim::net::GBIT;
use crate::sim::packet::{Body, Packet, op};
use crate::sim::qp::{Settings, Verb};
use crate::sim::switch::Pfc;
use crate::sim::truth::{Expected, Place};

pub(super) const ALL: &[Entry] = &[
    ("incast", "incast-3-fifo-runs", |lab| incast(lab, 3, 64, true, 0)),
    ("incast", "incast-4-dcqcn", |lab| incast(lab, 4, 1, true, 0)),
    ("incast", "incast-8-tail-drop", |lab| incast(lab, 8, 16, false, 600_000)),
    ("incast", "incast-8-tail-drop-at-receiver", |lab| incast(lab, 8, 16, false, 500_000)),
    ("incast", "incast-parameter-server", parameter_server),
    ("incast", "incast-read", read_incast),
    ("ecn", "ecn-slow-uplink", |lab| slow_uplink(lab, Layer::Ethernet)),
    ("ecn", "ecn-slow-uplink-infiniband", |lab| slow_uplink(lab, Layer::InfiniBand)),
    ("ecn", "ecn-slow-uplink-infiniband-raw", |lab| slow_uplink(lab, Layer::InfiniBandRaw)),
    ("ecn", "ecn-senders-in-turn", in_turn),
    ("ecn", "ecn-senders-in-short-turns", |lab| short_turns(lab, Verb::Write)),
    ("ecn", "ecn-reads-in-short-turns", |lab| short_turns(lab, Verb::Read)),
    ("ecn", "ecn-no-cnp", no_cnp),
    ("ecn", "ecn-first-half", first_half),
    ("cnp", "cnp-storm", cnp_storm),
    ("rnr", "rnr-slow-receiver", |lab| rnr(lab, 1)),
    ("rnr", "rnr-slow-receiver-at-sender", |lab| rnr(lab, 0)),
    ("rnr", "rnr-one-of-three", rnr_one),
    ("pfc", "pfc-storm-from-host", pfc_storm),
    ("pfc", "pfc-incast", pfc_incast),
];

const CONGESTED: &[&str] = &["ecn.congestion", "burst.incast", "latency.tail"];

/// Hosts from 1 on send to host 0 in rounds of a millisecond.
fn incast(lab: &mut Lab, senders: usize, quantum: u32, marks: bool, buffer: u64) {
    lab.world.star(senders + 1, 10 * GBIT);
    if marks {
        lab.world.red(100_000, 400_000, 100_000);
    } else {
        lab.world.buffers(buffer);
    }
    let window = if marks { 64 } else { 12 };
    let set = Settings { window, timeout_ns: 4 * MS, ..settings() };
    let mut ends = Vec::new();
    for host in 1..=senders {
        lab.world.hosts[host].quantum = quantum;
        ends.extend(connections(lab, host, 0, 2, &set));
    }
    let count = 240 / senders as u64;
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, count).gap(MS, MS / 2).depth(4), 0);
    if buffer == 500_000 {
        lab.world.tap_host(0, "h0.pcap");
    } else {
        lab.world.tap_switch(0, "switch.pcap");
        // Marks are set at the egress to the receiver: a mirror of the ingress does not show them.
        if marks {
            lab.world.taps.pop();
            for channel in &mut lab.world.channels {
                channel.far.clear();
            }
            lab.world.tap_cable(Node::Switch(0), Node::Host(0), "port0.pcap");
        }
    }
    let receiver = lab.host(0);
    lab.expect(&["burst.incast"], receiver).also(CONGESTED);
    if !marks {
        lab.also(&["loss.before_tap", "loss.after_tap", "retry.timeouts"]).never(&["retry.storm"]);
        lab.figure("losses that the incast owns", owned_losses, 1.0, 1.0);
    }
}

/// Share of the findings of loss and timeouts whose owner is the incast.
fn owned_losses(report: &serde_json::Value) -> Option<f64> {
    let costs = |id: &str| id.starts_with("loss.") || id == "retry.timeouts";
    let all: Vec<bool> = report["findings"]
        .as_array()?
        .iter()
        .filter(|finding| finding["id"].as_str().is_some_and(costs))
        .map(|finding| finding["owner"] == "burst.incast")
        .collect();
    let owned = all.iter().filter(|owned| **owned).count();
    (!all.is_empty()).then(|| owned as f64 / all.len() as f64)
}

fn parameter_server(lab: &mut Lab) {
    lab.world.star(7, 5 * GBIT);
    lab.world.red(60_000, 300_000, 100_000);
    let up: Vec<usize> = (1..7).map(|host| lab.world.connect(host, 0, &settings()).0).collect();
    let down: Vec<usize> = (1..7).map(|host| lab.world.connect(0, host, &settings()).0).collect();
    let compute = Compute { ns: 20 * MS, jitter_ns: MS, ..Compute::default() };
    lab.world.start(Collective::server(&up, &down, (2, 128 * KB), 40, compute), 0);
    lab.world.tap_host(0, "server.pcap");
    let server = lab.host(0);
    lab.expect(&["burst.incast"], server).also(CONGESTED);
}

/// Host 0 reads from six hosts at once.
fn read_incast(lab: &mut Lab) {
    lab.world.star(7, 10 * GBIT);
    lab.world.red(100_000, 400_000, 100_000);
    let mut ends = Vec::new();
    for host in 1..7 {
        ends.extend(connections(lab, 0, host, 1, &settings()));
    }
    lab.world.start(Stream::new(&ends, Verb::Read, 256 * KB, 40).gap(2 * MS, MS / 4).depth(2), 0);
    lab.world.tap_host(0, "h0.pcap");
    let receiver = lab.host(0);
    lab.expect(&["burst.incast"], receiver).also(CONGESTED);
}

/// Two hosts on one leaf share an uplink of half their speed.
fn slow_uplink(lab: &mut Lab, layer: Layer) {
    lab.world.leaf_spine(2, 2, 1, (10 * GBIT, 10 * GBIT));
    lab.world.red(60_000, 300_000, 100_000);
    let mut ends = connections(lab, 0, 2, 2, &settings());
    ends.extend(connections(lab, 1, 3, 2, &settings()));
    lab.world.start(Stream::new(&ends, Verb::Write, 512 * KB, 24), 0);
    let tap = lab.world.tap_cable(Node::Switch(1), Node::Host(2), "h2.pcap");
    lab.world.taps[tap].layer = layer;
    let pair = if layer.is_infiniband() { Place::of_lids(0, 2) } else { lab.pair(0, 2) };
    lab.expect(&["ecn.congestion"], pair).also(&["latency.tail"]).never(&["burst.incast"]);
}

/// Four hosts send to one, one after the other, over a path that marks: no host's data queues behind another's.
fn in_turn(lab: &mut Lab) {
    lab.world.star(5, 10 * GBIT);
    let data = Match { data: Some(true), ..Match::default() };
    let mark = Effect::Mark { ppm: 40_000 };
    lab.world.fault(Node::Switch(0), Node::Host(0), Fault::always(data, mark));
    for host in 1..5 {
        let end = connections(lab, host, 0, 1, &settings());
        let stream = Stream::new(&end, Verb::Write, 512 * KB, 24).depth(1).gap(8 * MS, 0);
        lab.world.start(stream, host as u64 * 2 * MS);
    }
    lab.world.tap_host(0, "h0.pcap");
    let receiver = lab.host(0);
    lab.expect(&["ecn.congestion"], receiver).also(&["latency.tail"]).never(&["burst.incast"]);
}

/// The same with minimal pauses: each host sends, or is read from, after the previous one has ended.
fn short_turns(lab: &mut Lab, verb: Verb) {
    lab.world.star(6, 10 * GBIT);
    let data = Match { data: Some(true), ..Match::default() };
    lab.world.fault(Node::Switch(0), Node::Host(0), Fault::always(data, Effect::Mark { ppm: 40_000 }));
    let qps = (1..6).map(|host| match verb {
        Verb::Read => lab.world.connect(0, host, &settings()).0,
        _ => lab.world.connect(host, 0, &settings()).0,
    });
    let turns =
        Turns { qps: qps.collect(), message: (verb, 64 * KB), count: 600, gap_ns: 60 * US, posted: 0 };
    lab.world.start(turns, 0);
    lab.world.tap_host(0, "h0.pcap");
    let receiver = lab.host(0);
    lab.expect(&["ecn.congestion"], receiver).also(&["latency.tail"]).never(&["burst.incast"]);
}

fn no_cnp(lab: &mut Lab) {
    lab.world.leaf_spine(2, 2, 1, (10 * GBIT, 10 * GBIT));
    lab.world.red(60_000, 300_000, 100_000);
    let set = Settings { dcqcn: false, ..settings() };
    let mut ends = connections(lab, 0, 2, 2, &set);
    ends.extend(connections(lab, 1, 2, 2, &set));
    lab.world.start(Stream::new(&ends, Verb::Write, 256 * KB, 80).gap(16 * MS, MS), 0);
    lab.world.tap_host(2, "h2.pcap");
    let receiver = lab.host(2);
    lab.expect(&["ecn.no_cnp"], receiver).also(CONGESTED);
}

/// Marks only in the first half of the capture, which the finding must show as its time.
fn first_half(lab: &mut Lab) {
    lab.world.star(3, 10 * GBIT);
    lab.world.red(60_000, 300_000, 100_000);
    let set = Settings { window: 512, ..settings() };
    let first = connections(lab, 0, 2, 2, &set);
    let second = connections(lab, 1, 2, 2, &set);
    lab.world.start(Stream::new(&first, Verb::Write, 512 * KB, 60).gap(60 * MS, 0), 0);
    lab.world.start(Stream::new(&second, Verb::Write, 512 * KB, 30).gap(60 * MS, 0), 0);
    lab.world.tap_host(2, "h2.pcap");
    lab.also(CONGESTED);
    lab.world.run();
    let Some(marked) = lab.world.facts.marked_ns else { return };
    // A marked packet passes the tap when the queue before it is sent: 4 MB at most.
    let marks = Expected::new(&["ecn.congestion"], lab.host(2)).seen(marked, 4 * MS);
    lab.expect_that(marks);
}

/// A receiver sends thousands of CNPs without any marks.
fn cnp_storm(lab: &mut Lab) {
    lab.world.star(3, 10 * GBIT);
    let ends = connections(lab, 0, 1, 2, &settings());
    let others = connections(lab, 2, 1, 2, &settings());
    for qp in &others {
        lab.world.qps[*qp].set.dcqcn = false;
    }
    lab.world.start(Stream::new(&others, Verb::Write, 128 * KB, 120).gap(MS, 0), 0);
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 120).gap(MS, 0), 0);
    let (responder, requester) = (lab.world.qps[others[0]].peer, others[0]);
    let number = lab.world.qps[requester].number;
    for at in 0..30_000 {
        let mut cnp = Packet::roce(1, 2, op::CNP, number, 0);
        (cnp.becn, cnp.tos, cnp.to_qp) = (true, 48 << 2 | 2, Some(requester));
        lab.world.at(at * 4 * US, Event::Emit(Box::new(cnp)));
    }
    assert_eq!(lab.world.qps[responder].host, 1);
    lab.world.tap_host(2, "h2.pcap");
    let receiver = lab.host(1);
    lab.expect(&["cnp.storm"], receiver);
}

/// A receiver that posts its buffers too late.
fn rnr(lab: &mut Lab, tapped: usize) {
    lab.world.line(10 * GBIT);
    let set = Settings { buffers: 4, repost_ns: MS, ..settings() };
    let ends = connections(lab, 0, 1, 2, &set);
    lab.world.start(Stream::new(&ends, Verb::Send, 16 * KB, 400).depth(8), 0);
    lab.world.tap_host(tapped, "tap.pcap");
    let receiver = lab.host(1);
    lab.expect(&["rnr.slow_receiver"], receiver).never(&["loss.after_tap", "loss.before_tap"]);
    lab.also(&["latency.tail"]);
}

/// One of three receivers is slow; WRITEs with immediate data.
fn rnr_one(lab: &mut Lab) {
    lab.world.star(4, 10 * GBIT);
    let mut ends = Vec::new();
    for host in 1..4 {
        let slow = Settings { buffers: 2, repost_ns: 2 * MS, ..settings() };
        ends.extend(connections(lab, 0, host, 2, &if host == 2 { slow } else { settings() }));
    }
    lab.world.start(Stream::new(&ends, Verb::WriteImm, 32 * KB, 150).gap(200 * US, 0), 0);
    lab.world.tap_host(0, "h0.pcap");
    let receiver = lab.host(2);
    lab.expect(&["rnr.slow_receiver"], receiver).never(&["loss.after_tap"]).also(&["latency.tail"]);
}

/// A host pauses its switch port repeatedly, for half of the time.
fn pfc_storm(lab: &mut Lab) {
    lab.world.star(3, 10 * GBIT);
    let ends = connections(lab, 0, 1, 3, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 60).depth(1).gap(4 * MS, 0), 0);
    // A full pause is 3.4 ms at this speed.
    for at in 0..40 {
        let pause = Packet::other(1, 0x8000, Body::Pfc { priority: 3, quanta: u16::MAX });
        lab.world.at((20 + at * 6) * MS, Event::Emit(Box::new(pause)));
    }
    lab.world.tap_host(1, "h1.pcap");
    lab.expect(&["pfc.storm"], crate::sim::truth::Place::Link("h1.pcap".into()));
    // Those whose timers expire meanwhile retransmit together when it ends.
    let also = &["pfc.victim", "latency.tail", "retry.timeouts", "retry.storm"];
    lab.option(&["--link-speed", "10G"]).also(also);
}

/// Incast on a lossless fabric: the switch pauses the senders.
fn pfc_incast(lab: &mut Lab) {
    lab.world.star(6, 10 * GBIT);
    lab.world.switches[0].pfc = Some(Pfc { off: 100_000, on: 50_000, priority: 3 });
    let set = Settings { dcqcn: false, ..settings() };
    let mut ends = Vec::new();
    for host in 1..6 {
        ends.extend(connections(lab, host, 0, 1, &set));
    }
    lab.world.start(Stream::new(&ends, Verb::Write, MB / 2, 24), 0);
    lab.world.tap_host(1, "h1.pcap");
    lab.expect(&["pfc.storm"], crate::sim::truth::Place::Link("h1.pcap".into()));
    lab.option(&["--link-speed", "10G"]).also(&["pfc.victim", "latency.tail"]);
    // The sender's tap shows pauses, but no loss.
    lab.never(&["loss.after_tap", "loss.before_tap", "retry.storm"]);
}
