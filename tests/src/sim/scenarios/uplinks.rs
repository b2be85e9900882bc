//! Parallel links: one of them congested, slow or lossy, uneven load, and too few source ports.

use super::{Entry, connections, settings};
use crate::sim::channel::{Channel, Effect, Fault, Match, Node};
use crate::sim::job::Stream;
use crate::sim::lab::{KB, Lab, MS, US};
use crate::sim::net::GBIT;
use crate::sim::qp::{Ports, Settings, Verb};
use crate::sim::truth::{Expected, Place};

pub(super) const ALL: &[Entry] = &[
    ("uplinks", "uplinks-marks-on-one-of-two", |lab| one_of(lab, 2, Effect::Mark { ppm: 40_000 })),
    ("uplinks", "uplinks-marks-on-one-of-four", |lab| one_of(lab, 4, Effect::Mark { ppm: 80_000 })),
    ("uplinks", "uplinks-one-slow", |lab| {
        one_of(lab, 2, Effect::Delay { ppm: 1_000_000, ns: 150 * US, jitter_ns: 0 });
    }),
    ("uplinks", "uplinks-loss-on-one", |lab| one_of(lab, 2, Effect::Drop { ppm: 8_000 })),
    ("uplinks", "uplinks-loss-of-one-host", one_host),
    ("uplinks", "uplinks-uneven", uneven),
    ("uplinks", "uplinks-uneven-one-direction", uneven_one_direction),
    ("uplinks", "uplinks-uneven-not-named", uneven_not_named),
    ("uplinks", "uplinks-marks-between-two-hosts", |lab| two_hosts(lab, Effect::Mark { ppm: 50_000 })),
    ("uplinks", "uplinks-delay-between-two-hosts", |lab| {
        two_hosts(lab, Effect::Delay { ppm: 1_000_000, ns: 150 * US, jitter_ns: 0 });
    }),
    ("uplinks", "uplinks-marks-on-one-to-one-receiver", to_one_receiver),
    ("entropy", "entropy-one-port", |lab| one_port(lab, 16)),
    ("entropy", "entropy-two-ports-of-24", two_ports),
];

const TAPS: [&str; 4] = ["up0.pcap", "up1.pcap", "up2.pcap", "up3.pcap"];

/// Two leaves with parallel uplinks, and a tap on each uplink of the first leaf.
fn fabric(lab: &mut Lab, spines: usize) {
    fabric_of(lab, spines, 20 * GBIT);
}

/// The same with uplinks of a given rate; those of hosts have 10 Gb/s.
fn fabric_of(lab: &mut Lab, spines: usize, uplinks: u64) {
    lab.world.leaf_spine(2, 4, spines, (10 * GBIT, uplinks));
    for (spine, name) in TAPS[..spines].iter().enumerate() {
        lab.world.tap_cable(Node::Switch(0), Node::Switch(2 + spine), name);
    }
    let group = TAPS[..spines].join(",");
    lab.option(&["--group", &group]);
}

fn traffic(lab: &mut Lab, qps: usize, count: u64) {
    for host in 0..4 {
        let mut ends = connections(lab, host, 4 + host, qps, &settings());
        ends.extend(connections(lab, 4 + (host + 1) % 4, host, qps, &settings()));
        lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, count).depth(2).gap(MS, MS / 2), 0);
    }
}

/// Packets that arrive on one of the uplinks have the fault, from the middle of the capture on.
fn one_of(lab: &mut Lab, spines: usize, effect: Effect) {
    // An uplink that can carry the traffic of all hosts has no queue, however it is hashed: the delay is the only
    // one.
    let uplinks = if matches!(effect, Effect::Delay { .. }) { 40 * GBIT } else { 20 * GBIT };
    fabric_of(lab, spines, uplinks);
    let from = if spines == 2 { 6 * MS } else { 0 };
    let data = match effect {
        Effect::Delay { .. } => Match::default(),
        _ => Match { data: Some(true), ..Match::default() },
    };
    lab.world.fault(Node::Switch(3), Node::Switch(0), Fault::during(from, u64::MAX, data, effect));
    traffic(lab, 12, 20);
    let link = Place::Link("up1.pcap".into());
    let expected = match effect {
        Effect::Drop { .. } => Expected::new(&["links.congested_one_of", "loss.before_tap"], link),
        Effect::Mark { .. } => marked_alone(link),
        _ => Expected::new(&["links.congested_one_of"], link),
    };
    lab.expect_that(expected).also(&[
        "ecn.congestion",
        "retry.timeouts",
        "retry.storm",
        "loss.before_tap",
        "latency.tail",
    ]);
    lab.also(&["links.imbalance"]);
}

/// Marks on one link, compared with its peers: congestion of that link, if there is enough of it.
fn marked_alone(link: Place) -> Expected {
    Expected::new(&["links.congested_one_of", "ecn.congestion"], link).having("peers_ratio")
}

/// The largest difference between the mean queueing delays by way of two of the spines, from leaf to leaf, in
/// nanoseconds.
fn uneven_waits(lab: &Lab, spines: usize) -> u64 {
    let wait_ns = |from: Node, to: Node| {
        let mut all = lab.world.channels.iter();
        all.find(|channel| (channel.from, channel.to) == (from, to)).map(Channel::wait_ns)
    };
    let leaves = [Node::Switch(0), Node::Switch(1)];
    let uneven = [leaves, [leaves[1], leaves[0]]].map(|[from, to]| {
        let by_way_of = |spine| Some(wait_ns(from, spine)? + wait_ns(spine, to)?);
        let waits: Vec<u64> = (0..spines).filter_map(|spine| by_way_of(Node::Switch(2 + spine))).collect();
        waits.iter().max().zip(waits.iter().min()).map_or(0, |(most, least)| most - least)
    });
    uneven.into_iter().max().unwrap_or(0)
}

/// The packets of one host are lost on its own link, before they reach any of the uplinks.
fn one_host(lab: &mut Lab) {
    fabric(lab, 2);
    let data = Match { data: Some(true), ..Match::default() };
    lab.world.fault(Node::Host(1), Node::Switch(0), Fault::always(data, Effect::Drop { ppm: 8_000 }));
    traffic(lab, 12, 20);
    let sender = lab.host(1);
    lab.expect(&["loss.before_tap"], sender);
    lab.also(&["retry.timeouts", "retry.storm", "latency.tail"]);
    lab.world.run();
    // The loss is never attributed to the link. If hashing fills the queue of one link, that one is congested.
    let queue = if uneven_waits(lab, 2) >= 50 * US { &mut lab.truth.also } else { &mut lab.truth.never };
    queue.push("links.congested_one_of");
}

/// All source ports are hashed onto one of two uplinks, for three quarters of the load.
fn uneven(lab: &mut Lab) {
    uneven_build(lab);
}

fn uneven_build(lab: &mut Lab) {
    fabric(lab, 2);
    let mut all = Vec::new();
    for host in 0..4 {
        all.extend(connections(lab, host, 4 + host, 4, &settings()));
    }
    steer(lab, &all, |at| at % 8 == 0);
    lab.world.start(Stream::new(&all, Verb::Write, 128 * KB, 30).gap(MS, MS / 2), 0);
    lab.expect(&["links.imbalance"], Place::Link("up0.pcap".into())).also(&["links.congested_one_of"]);
}

/// The same load, without naming the parallel taps.
fn uneven_not_named(lab: &mut Lab) {
    uneven_build(lab);
    lab.options.clear();
    lab.figure("groups", |report| Some(report["imbalance"].as_array()?.len() as f64), 1.0, 1.0);
}

/// Two hosts joined by two uplinks, one of which has the fault.
fn two_hosts(lab: &mut Lab, effect: Effect) {
    lab.world.leaf_spine(2, 1, 2, (10 * GBIT, 20 * GBIT));
    for (spine, name) in TAPS[..2].iter().enumerate() {
        lab.world.tap_cable(Node::Switch(0), Node::Switch(2 + spine), name);
    }
    let only = match effect {
        Effect::Delay { .. } => Match::default(),
        _ => Match { data: Some(true), ..Match::default() },
    };
    lab.world.fault(Node::Switch(3), Node::Switch(0), Fault::always(only, effect));
    // One of four has its ACKs on the same link, so that its latency is measured.
    let mut ends = connections(lab, 0, 1, 40, &settings());
    ends.extend(connections(lab, 1, 0, 40, &settings()));
    lab.world.start(Stream::new(&ends, Verb::Write, 32 * KB, 24).depth(1).gap(4 * MS, 2 * MS), 0);
    let link = Place::Link("up1.pcap".into());
    lab.expect_that(match effect {
        Effect::Mark { .. } => marked_alone(link),
        _ => Expected::new(&["links.congested_one_of"], link),
    });
    lab.also(&["ecn.congestion", "latency.tail", "retry.timeouts", "retry.storm", "links.imbalance"]);
}

/// Marks on one of two uplinks that carry data of several hosts to one: the receiver's port is not the cause.
fn to_one_receiver(lab: &mut Lab) {
    fabric(lab, 2);
    let data = Match { data: Some(true), ..Match::default() };
    lab.world.fault(Node::Switch(3), Node::Switch(0), Fault::always(data, Effect::Mark { ppm: 60_000 }));
    for host in 4..8 {
        let set = Settings { bits_per_s: 2 * GBIT, ..settings() };
        let ends = connections(lab, host, 0, 8, &set);
        lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 40).depth(2).gap(MS / 2, MS / 4), 0);
    }
    lab.expect_that(marked_alone(Place::Link("up1.pcap".into())));
    lab.also(&["ecn.congestion", "latency.tail", "links.imbalance"]).never(&["burst.incast"]);
}

/// Uneven towards the spines, and even in the reverse direction, which carries as much.
fn uneven_one_direction(lab: &mut Lab) {
    fabric(lab, 2);
    let (mut out, mut back) = (Vec::new(), Vec::new());
    for host in 0..4 {
        out.extend(connections(lab, host, 4 + host, 4, &settings()));
        back.extend(connections(lab, 4 + host, host, 4, &settings()));
    }
    steer(lab, &out, |at| at % 8 == 0);
    for ends in [out, back] {
        lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 30).gap(MS, MS / 2), 0);
    }
    lab.expect(&["links.imbalance", "links.congested_one_of"], Place::Link("up0.pcap".into()));
}

/// Chooses source ports such that the requests of a connection take the second uplink if `second` is true.
fn steer(lab: &mut Lab, ends: &[usize], second: fn(usize) -> bool) {
    for (at, end) in ends.iter().enumerate() {
        let (src, dst) = (lab.world.qps[*end].host, lab.world.qps[lab.world.qps[*end].peer].host);
        let seed = lab.world.switches[0].seed;
        let way = |port: u16| {
            let tuple = (src as u64) << 40 | (dst as u64) << 20 | u64::from(port);
            rocescope_common::random::mix(tuple ^ rocescope_common::random::mix(seed)) % 2
        };
        let first = 0xC000 + 64 * at as u16;
        let port = (first..first + 64).find(|port| way(*port) == u64::from(second(at))).unwrap_or(first);
        lab.world.qps[*end].set.ports = Ports::One(port);
    }
}

/// All queue pairs between two hosts use one source port.
fn one_port(lab: &mut Lab, qps: usize) {
    lab.world.star(2, 10 * GBIT);
    let set = Settings { ports: Ports::One(49_152), ..Settings::default() };
    let ends = connections(lab, 0, 1, qps, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 30).gap(MS, MS / 2), 0);
    lab.world.tap_host(0, "h0.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["entropy.low"], pair);
}

fn two_ports(lab: &mut Lab) {
    lab.world.star(4, 10 * GBIT);
    let mut ends = Vec::new();
    for at in 0..24 {
        let set = Settings { ports: Ports::One(50_000 + at % 2), ..Settings::default() };
        ends.extend(connections(lab, 0, 1, 1, &set));
    }
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 20).gap(MS, MS / 2), 0);
    lab.world.tap_host(0, "h0.pcap");
    let host = lab.host(0);
    lab.expect(&["entropy.low"], host);
}
