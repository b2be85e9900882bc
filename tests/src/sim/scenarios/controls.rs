//! Clean controls: traffic between hosts without faults.

use super::{Entry, connections, mtu, settings};
use crate::sim::channel::{Effect, Fault, Match, Node};
use crate::sim::frame::Layer;
use crate::sim::job::{Datagrams, PingPong, Stream};
use crate::sim::lab::{KB, Lab, MB, MS, US};
use crate::sim::net::GBIT;
use crate::sim::qp::{Ports, Settings, Verb};
use crate::sim::tap::Format;

pub(super) const ALL: &[Entry] = &[
    ("control", "clean-writes", |lab| plain(lab, &settings(), &[(Verb::Write, 256 * KB)])),
    ("control", "clean-sends", |lab| plain(lab, &mtu(2048), &[(Verb::Send, 64 * KB)])),
    ("control", "clean-reads", |lab| plain(lab, &settings(), &[(Verb::Read, 128 * KB)])),
    ("control", "clean-atomics", |lab| plain(lab, &settings(), &[(Verb::Atomic, 8), (Verb::Write, 8 * KB)])),
    ("control", "clean-mixed-verbs", |lab| {
        let mix = [
            (Verb::Write, 100_001),
            (Verb::Send, 17),
            (Verb::Read, 50_000),
            (Verb::Atomic, 8),
            (Verb::WriteImm, 4_097),
        ];
        plain(lab, &settings(), &mix);
    }),
    ("control", "clean-mixed-sizes", |lab| {
        plain(
            lab,
            &settings(),
            &[
                (Verb::WriteImm, 64),
                (Verb::Write, 100),
                (Verb::Write, MB),
                (Verb::WriteImm, 3_000),
                (Verb::Write, 9_000),
            ],
        );
    }),
    ("control", "clean-psn-wraps", |lab| {
        plain(
            lab,
            &Settings { first_psn: 0xFF_F000, ..settings() },
            &[(Verb::Write, 256 * KB), (Verb::Read, 64 * KB)],
        );
    }),
    ("control", "clean-ack-coalescing", |lab| {
        plain(lab, &Settings { coalesce: 8, ..settings() }, &[(Verb::Write, 16 * KB)]);
    }),
    ("control", "clean-ipv6", ipv6),
    ("control", "clean-vlan-pcapng", vlan),
    ("control", "clean-infiniband", |lab| infiniband(lab, Layer::InfiniBand)),
    ("control", "clean-infiniband-raw", |lab| infiniband(lab, Layer::InfiniBandRaw)),
    ("control", "clean-one-way-tap", one_way),
    ("control", "clean-two-taps", two_taps),
    ("control", "clean-two-taps-skewed-clocks", skewed),
    ("control", "clean-two-taps-of-unknown-order", unknown_order),
    ("control", "clean-two-taps-the-first-misses-packets", |lab| one_misses(lab, 0)),
    ("control", "clean-two-taps-the-second-misses-packets", |lab| one_misses(lab, 1)),
    ("control", "clean-one-message-each", one_message),
    ("control", "clean-many-small-queue-pairs", many_small),
    ("control", "clean-idle-gaps", idle_gaps),
    ("control", "clean-bursts", bursts),
    ("control", "clean-low-rate", low_rate),
    ("control", "clean-ping-pong", ping_pong),
    ("control", "clean-datagrams", datagrams),
    ("control", "clean-starts-mid-flow", mid_flow),
    ("control", "clean-three-lost-of-many", three_lost),
    ("control", "clean-few-marks", few_marks),
];

fn plain(lab: &mut Lab, set: &Settings, messages: &[(Verb, u32)]) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 4, set);
    let bytes: u64 = messages.iter().map(|(_, len)| u64::from(*len).max(4_096)).sum();
    let count = (24 * u64::from(MB) / bytes).max(1) * messages.len() as u64 / 4;
    lab.world.start(Stream::new(&ends, Verb::Write, 0, count).mix(messages).gap(200 * US, 100 * US), 0);
    lab.world.tap_host(0, "h0.pcap");
}

fn line(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 60).gap(500 * US, 500 * US), 0);
}

fn ipv6(lab: &mut Lab) {
    line(lab);
    lab.world.ipv6();
    lab.world.tap_host(1, "h1.pcap");
}

fn vlan(lab: &mut Lab) {
    line(lab);
    let tap = lab.world.tap_host(1, "h1.pcapng");
    (lab.world.taps[tap].layer, lab.world.taps[tap].format) = (Layer::Vlan(3, 100), Format::PcapNg);
}

/// InfiniBand link layer, in ERF records or without: every packet counts, without faults.
fn infiniband(lab: &mut Lab, layer: Layer) {
    line(lab);
    let tap = lab.world.tap_host(0, "ib.pcap");
    lab.world.taps[tap].layer = layer;
    lab.world.run();
    let packets = lab.world.taps[tap].counted.packets as f64;
    lab.figure("packets", |report| report["totals"]["roce_packets"].as_f64(), packets, packets);
}

/// Only packets sent by the host are captured.
fn one_way(lab: &mut Lab) {
    line(lab);
    let tap = lab.world.add_tap("tx.pcap");
    let out = lab.world.channel(Node::Host(0), Node::Switch(0));
    lab.world.channels[out].near.push(tap);
}

/// Each message counts once.
fn two_taps(lab: &mut Lab) {
    line(lab);
    lab.world.tap_host(0, "h0.pcap");
    lab.world.tap_host(1, "h1.pcap");
    lab.figure("messages", messages, 4.0 * 60.0, 4.0 * 60.0);
}

fn messages(report: &serde_json::Value) -> Option<f64> {
    let writes = &report["pattern"]["operations"][0];
    Some(writes["messages"].as_f64()? - writes["counted_again"].as_f64()?)
}

/// Both captures miss packets of one direction on one cable: which is nearer the sender is not known, and the report
/// says so.
fn unknown_order(lab: &mut Lab) {
    line(lab);
    let cable = lab.world.channel(Node::Switch(0), Node::Switch(1));
    for name in ["a.pcap", "b.pcap"] {
        let tap = lab.world.add_tap(name);
        lab.world.taps[tap].misses_ppm = 2_000;
        lab.world.channels[cable].near.push(tap);
    }
    lab.figure("loss between taps not evaluated", |report| super::open(report, "order_of_taps"), 1.0, 1.0);
}

/// One of two captures misses packets at random, ACKs among them: nothing is lost on the way.
fn one_misses(lab: &mut Lab, host: usize) {
    line(lab);
    let taps = [(0, "h0.pcap"), (1, "h1.pcap")].map(|(host, name)| lab.world.tap_host(host, name));
    lab.world.taps[taps[host]].misses_ppm = 20_000;
}

/// The second host's clock is two milliseconds ahead.
fn skewed(lab: &mut Lab) {
    line(lab);
    lab.world.tap_host(0, "h0.pcap");
    let tap = lab.world.tap_host(1, "h1.pcap");
    lab.world.taps[tap].ahead_ns = 2 * MS;
}

fn one_message(lab: &mut Lab) {
    lab.world.star(4, 10 * GBIT);
    for host in 1..4 {
        let ends = connections(lab, 0, host, 40, &settings());
        for (at, end) in ends.iter().enumerate() {
            lab.world.start(Stream::new(&[*end], Verb::Write, 64 * KB, 1).depth(1), at as u64 * 3 * MS);
        }
    }
    lab.world.tap_host(0, "h0.pcap");
}

fn many_small(lab: &mut Lab) {
    lab.world.star(4, 10 * GBIT);
    for host in 1..4 {
        let ends = connections(lab, host, 0, 100, &mtu(1024));
        lab.world.start(Stream::new(&ends, Verb::Send, 700, 20).depth(1).gap(5 * MS, 5 * MS), 0);
    }
    lab.world.tap_host(0, "h0.pcap");
}

/// Messages, then a second of silence.
fn idle_gaps(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 3, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 60).rest(10, 1_000 * MS).gap(200 * US, 0), 0);
    lab.world.tap_host(0, "h0.pcap");
}

fn bursts(lab: &mut Lab) {
    lab.world.line(25 * GBIT);
    let ends = connections(lab, 0, 1, 2, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, MB, 24).depth(8).rest(8, 40 * MS), 0);
    lab.world.tap_host(1, "h1.pcap");
}

fn low_rate(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let (a, b) = lab.world.connect(0, 1, &mtu(1024));
    lab.world.start(PingPong { client: a, server: b, bytes: (200, 900), count: 200, gap_ns: 150 * MS }, 0);
    lab.world.tap_host(0, "h0.pcap");
}

fn ping_pong(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let (a, b) = lab.world.connect(0, 1, &settings());
    lab.world.start(PingPong { client: a, server: b, bytes: (64, 64), count: 3_000, gap_ns: 3 * US }, 0);
    lab.world.tap_host(0, "h0.pcap");
}

/// Only UD: PSNs count, nothing is acknowledged.
fn datagrams(lab: &mut Lab) {
    lab.world.star(4, 10 * GBIT);
    for src in 0..4 {
        for dst in (0..4).filter(|dst| *dst != src) {
            lab.world.start(Datagrams::ud(src, dst, 1_000, 400, 200 * US), 0);
        }
    }
    lab.world.tap_host(1, "h1.pcap");
}

/// The capture begins and ends while messages are in flight.
fn mid_flow(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, MB, 12), 0);
    let tap = lab.world.tap_host(0, "h0.pcap");
    lab.world.taps[tap].range = (7 * MS + 333, 29 * MS + 777);
}

/// Three packets of twelve thousand are lost, far apart: not a problem.
fn three_lost(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 2, &settings());
    for at in [5, 21, 40] {
        let from = at * MS;
        let fault = Fault::during(
            from,
            from + 3_400,
            Match { data: Some(true), ..Match::default() },
            Effect::Drop { ppm: 1_000_000 },
        );
        lab.world.fault(Node::Switch(0), Node::Switch(1), fault);
    }
    lab.world.start(Stream::new(&ends, Verb::Write, 256 * KB, 90).gap(100 * US, 0), 0);
    lab.world.tap_host(1, "h1.pcap");
}

/// One mark in five thousand packets, answered.
fn few_marks(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    lab.world.fault(
        Node::Switch(0),
        Node::Switch(1),
        Fault::always(Match::default(), Effect::Mark { ppm: 200 }),
    );
    let ends = connections(lab, 0, 1, 4, &Settings { ports: Ports::One(0), ..settings() });
    lab.world.start(Stream::new(&ends, Verb::Write, 256 * KB, 50).gap(500 * US, 0), 0);
    lab.world.tap_host(1, "h1.pcap");
}
