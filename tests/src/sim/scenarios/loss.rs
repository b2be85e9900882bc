//! Packet loss in the fabric.

use super::Entry;
use crate::sim::channel::{Effect, Fault, Match, Node};
use crate::sim::engine::Event;
use crate::sim::frame::Layer;
use crate::sim::job::{PingPong, Stream};
use crate::sim::lab::{KB, Lab, MB, MS, US};
use crate::sim::net::GBIT;
use crate::sim::packet::{Packet, op};
use crate::sim::qp::{Ports, Recovery, Settings, Verb};
use crate::sim::switch::Spread;
use crate::sim::truth::Place;

pub(super) const ALL: &[Entry] = &[
    ("loss", "loss-upstream", |lab| random(lab, 1, Side::Upstream, &Settings::default(), Verb::Write)),
    ("loss", "loss-upstream-send-selective", |lab| {
        let set = Settings { recovery: Recovery::Selective(32), ..mtu(1024) };
        random(lab, 4, Side::Upstream, &set, Verb::Send);
    }),
    ("loss", "loss-downstream", |lab| random(lab, 2, Side::Downstream, &Settings::default(), Verb::Write)),
    ("loss", "loss-downstream-mtu1024", |lab| random(lab, 8, Side::Downstream, &mtu(1024), Verb::WriteImm)),
    ("loss", "loss-between-taps", |lab| random(lab, 3, Side::Both, &Settings::default(), Verb::Write)),
    ("loss", "loss-between-taps-ipv6", |lab| {
        lab.world.line(25 * GBIT);
        lab.world.ipv6();
        lossy_line(lab, 4, Side::Both, &mtu(2048), Verb::Write);
    }),
    ("loss", "loss-between-taps-selective", |lab| {
        let set = Settings { recovery: Recovery::Selective(64), ..Settings::default() };
        random(lab, 4, Side::Both, &set, Verb::Write);
    }),
    ("loss", "loss-between-taps-marked", marked),
    ("loss", "loss-runs", runs),
    ("loss", "loss-read-responses-upstream", |lab| reads(lab, 0)),
    ("loss", "loss-read-responses-downstream", |lab| reads(lab, 1)),
    ("loss", "loss-one-spine", one_spine),
    ("loss", "loss-one-host-of-many", one_host),
    ("loss", "loss-towards-six-senders", |lab| many_senders(lab, true, Effect::Drop { ppm: 5_000 })),
    ("loss", "loss-of-six-senders-downstream", |lab| many_senders(lab, false, Effect::Drop { ppm: 5_000 })),
    ("loss", "loss-runs-of-six-senders", |lab| {
        many_senders(lab, true, Effect::DropRuns { ppm: 1_500, len: 4 });
    }),
    ("loss", "loss-sprayed-two-taps", sprayed),
    ("loss", "loss-ends-early", for_a_time),
    ("loss", "loss-atomics", atomics),
    ("loss", "loss-uc-whole-flow-two-taps", uc),
    ("loss", "loss-infiniband", |lab| infiniband(lab, Layer::InfiniBand)),
    ("loss", "loss-infiniband-raw", |lab| infiniband(lab, Layer::InfiniBandRaw)),
];

fn mtu(mtu: u32) -> Settings {
    Settings { mtu, ..Settings::default() }
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    /// Lost upstream of the tap, which is at the receiver.
    Upstream,
    /// Lost downstream of the tap, which is at the sender.
    Downstream,
    /// Taps at both.
    Both,
}

const HOP: (Node, Node) = (Node::Switch(0), Node::Switch(1));

fn random(lab: &mut Lab, qps: usize, side: Side, set: &Settings, verb: Verb) {
    lab.world.line(25 * GBIT);
    lossy_line(lab, qps, side, set, verb);
}

/// Six hosts send to one whose link loses packets, at less than half of its rate: no queue overflows, so this is not
/// incast.
fn many_senders(lab: &mut Lab, at_receiver: bool, effect: Effect) {
    lab.world.star(7, 10 * GBIT);
    let data = Match { data: Some(true), ..Match::default() };
    lab.world.fault(Node::Switch(0), Node::Host(0), Fault::always(data, effect));
    let set = Settings { timeout_ns: 4 * MS, ..Settings::default() };
    let ends: Vec<usize> = (1..7).map(|host| lab.world.connect(host, 0, &set).0).collect();
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 150).depth(1).gap(MS, MS / 2), 0);
    let receiver = lab.host(0);
    if at_receiver {
        lab.world.tap_host(0, "h0.pcap");
        lab.expect(&["loss.before_tap"], receiver);
    } else {
        lab.world.tap_switch(0, "switch.pcap");
        downstream(lab, receiver);
    }
    lab.also(&["retry.timeouts", "latency.tail"]).never(&["burst.incast"]);
}

/// Loss of half a per cent of the data between two hosts, and the diagnosis according to the place of the taps.
fn lossy_line(lab: &mut Lab, qps: usize, side: Side, set: &Settings, verb: Verb) {
    let data = Match { data: Some(true), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(data, Effect::Drop { ppm: 5_000 }));
    transfer(lab, qps, set, verb, 12_000);
    let pair = lab.pair(0, 1);
    match side {
        Side::Upstream => {
            lab.world.tap_host(1, "h1.pcap");
            lab.expect(&["loss.before_tap"], pair);
        }
        Side::Downstream => {
            lab.world.tap_host(0, "h0.pcap");
            downstream(lab, pair);
        }
        Side::Both => {
            lab.world.tap_host(0, "h0.pcap");
            lab.world.tap_host(1, "h1.pcap");
            lab.expect(&["loss.between_taps"], pair);
        }
    }
    lab.also(&["retry.storm", "retry.timeouts", "latency.tail"]);
    lab.world.run();
    let [lost, first] = [lab.world.facts.lost, lab.world.facts.lost_first].map(|packets| packets as f64);
    if side == Side::Both {
        lab.figure(
            "packets lost between the taps",
            |report| {
                let all = report["findings"].as_array()?.iter();
                let found = all.filter(|finding| finding["id"] == "loss.between_taps");
                found.map(|finding| finding["evidence"]["vanished"].as_f64()).sum()
            },
            lost - first,
            lost,
        );
    }
}

/// Marks upstream of both taps and between them, and loss between them: the retransmission of a marked packet is not
/// marked.
fn marked(lab: &mut Lab) {
    lab.world.line(25 * GBIT);
    let data = Match { data: Some(true), ..Match::default() };
    lab.world.fault(Node::Host(0), HOP.0, Fault::always(data, Effect::Mark { ppm: 60_000 }));
    lab.world.fault(HOP.0, HOP.1, Fault::always(data, Effect::Mark { ppm: 20_000 }));
    lab.world.fault(HOP.1, Node::Host(1), Fault::always(data, Effect::Drop { ppm: 20_000 }));
    transfer(lab, 3, &mtu(2048), Verb::Write, 12_000);
    lab.world.tap_cable(HOP.0, HOP.1, "leaf0.pcap");
    lab.world.tap_host(1, "h1.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["loss.between_taps"], pair);
    lab.also(&["retry.storm", "retry.timeouts", "latency.tail", "ecn.congestion", "ecn.unanswered"]);
    lab.never(&["path.rewritten"]);
}

/// About this number of packets from host 0 to host 1, over this number of queue pairs.
fn transfer(lab: &mut Lab, qps: usize, set: &Settings, verb: Verb, packets: u64) {
    let ends: Vec<usize> = (0..qps)
        .map(|_| lab.world.connect(0, 1, &Settings { ports: Ports::One(0), ..set.clone() }).0)
        .collect();
    let len = set.mtu * 16;
    lab.world.start(Stream::new(&ends, verb, len, packets / 16 / qps as u64).gap(20 * US, 20 * US), 0);
}

fn runs(lab: &mut Lab) {
    lab.world.line(25 * GBIT);
    let data = Match { data: Some(true), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(data, Effect::DropRuns { ppm: 1_000, len: 6 }));
    transfer(lab, 4, &mtu(4096), Verb::Write, 12_000);
    lab.world.tap_cable(HOP.1, Node::Host(1), "leaf1.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["loss.before_tap"], pair).also(&["retry.storm", "retry.timeouts", "latency.tail"]);
}

/// Host 0 reads from host 1; responses are lost in transit. The tap is at one of them.
fn reads(lab: &mut Lab, tapped: usize) {
    lab.world.line(25 * GBIT);
    let responses = Match { src: Some(1), data: Some(true), ..Match::default() };
    lab.world.fault(HOP.1, HOP.0, Fault::always(responses, Effect::Drop { ppm: 3_000 }));
    transfer(lab, 3, &mtu(4096), Verb::Read, 12_000);
    lab.world.tap_host(tapped, "tap.pcap");
    let pair = lab.pair(0, 1);
    if tapped == 0 {
        lab.expect(&["loss.before_tap"], pair);
    } else {
        downstream(lab, pair);
    }
    lab.also(&["retry.storm", "retry.timeouts", "latency.tail"]);
}

/// One of four spines loses packets; taps at two hosts of different leaves.
fn one_spine(lab: &mut Lab) {
    lab.world.leaf_spine(2, 2, 4, (25 * GBIT, 25 * GBIT));
    let data = Match { data: Some(true), ..Match::default() };
    lab.world.fault(Node::Switch(3), Node::Switch(1), Fault::always(data, Effect::Drop { ppm: 10_000 }));
    let set = Settings { ports: Ports::One(0), ..Settings::default() };
    let mut ends = Vec::new();
    for _ in 0..8 {
        ends.push(lab.world.connect(0, 2, &set).0);
    }
    lab.world.start(Stream::new(&ends, Verb::Write, MB / 4, 24).gap(20 * US, 0), 0);
    lab.world.tap_host(0, "h0.pcap");
    lab.world.tap_host(2, "h2.pcap");
    let pair = lab.pair(0, 2);
    lab.expect(&["loss.between_taps"], pair).also(&[
        "retry.storm",
        "retry.timeouts",
        "links.congested_one_of",
    ]);
    lab.also(&["latency.tail"]);
}

/// Six hosts exchange data; everything to one of them passes a bad cable. The tap is a mirror of the switch.
fn one_host(lab: &mut Lab) {
    lab.world.star(6, 25 * GBIT);
    let set = Settings { ports: Ports::One(0), ..Settings::default() };
    let mut ends = Vec::new();
    for host in 0..6 {
        ends.push(lab.world.connect(host, (host + 1) % 6, &set).0);
    }
    lab.world.fault(
        Node::Switch(0),
        Node::Host(3),
        Fault::always(Match { data: Some(true), ..Match::default() }, Effect::Drop { ppm: 10_000 }),
    );
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 150).gap(30 * US, 0), 0);
    lab.world.tap_switch(0, "switch.pcap");
    let pair = lab.pair(2, 3);
    downstream(lab, pair);
    lab.also(&["retry.storm", "retry.timeouts", "latency.tail"]);
}

/// Loss downstream of the only tap, which reordering resembles: information. Its cost is a warning.
fn downstream(lab: &mut Lab, place: Place) {
    lab.expect_info(&["loss.after_tap"], place.clone());
    lab.expect(&["retry.storm", "retry.timeouts"], place);
}

/// One queue pair sprayed over two uplinks with a tap on each: each loss counts once.
fn sprayed(lab: &mut Lab) {
    lab.world.leaf_spine(2, 1, 2, (25 * GBIT, 25 * GBIT));
    lab.world.spread(Spread::Spray);
    let data = Match { data: Some(true), ..Match::default() };
    for spine in [2, 3] {
        lab.world.fault(
            Node::Switch(spine),
            Node::Switch(1),
            Fault::always(data, Effect::Drop { ppm: 2_000 }),
        );
    }
    let set = Settings { recovery: Recovery::Selective(64), ..Settings::default() };
    let end = lab.world.connect(0, 1, &set).0;
    lab.world.start(Stream::new(&[end], Verb::Write, MB / 4, 160).gap(20 * US, 0), 0);
    for spine in [2, 3] {
        lab.world.tap_cable(Node::Switch(1), Node::Switch(spine), ["up0.pcap", "up1.pcap"][spine - 2]);
    }
    let pair = lab.pair(0, 1);
    lab.expect_info(&["loss.before_tap"], pair).also(&["retry.timeouts", "latency.tail"]);
    lab.world.run();
    // A retransmission that is lost leaves no trace if the receiver had the packet.
    let [lost, copies] = [lab.world.facts.lost, lab.world.facts.lost_copies].map(|packets| packets as f64);
    lab.figure(
        "packets lost, all findings together",
        |report| {
            let all = report["findings"].as_array()?.iter();
            let found = all.filter(|finding| finding["id"] == "loss.before_tap");
            found.map(|finding| finding["evidence"]["lost"].as_f64()).sum()
        },
        lost - copies,
        lost,
    );
}

/// One bad second of ten, which the diagnosis must show as its time.
fn for_a_time(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let data = Match { data: Some(true), ..Match::default() };
    let bad = Fault::during(3_000 * MS, 4_000 * MS, data, Effect::Drop { ppm: 20_000 });
    lab.world.fault(HOP.0, HOP.1, bad);
    let end = lab.world.connect(0, 1, &mtu(4096)).0;
    lab.world.start(Stream::new(&[end], Verb::Write, 64 * KB, 1_000).depth(1).gap(10 * MS, MS), 0);
    lab.world.tap_host(1, "h1.pcap");
    let pair = lab.pair(0, 1);
    lab.expect_during(&["loss.before_tap"], pair, (3_000 * MS, 4_100 * MS));
    lab.also(&["retry.storm", "retry.timeouts", "latency.tail"]);
}

fn atomics(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let adds = Match { opcode: Some(op::FETCH_ADD), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(adds, Effect::Drop { ppm: 10_000 }));
    let (a, b) = lab.world.connect(0, 1, &mtu(1024));
    lab.world.start(Stream::new(&[a], Verb::Atomic, 8, 6_000).depth(16), 0);
    lab.world.start(PingPong { client: b, server: a, bytes: (64, 64), count: 300, gap_ns: 100 * US }, 0);
    lab.world.tap_host(1, "h1.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["loss.before_tap"], pair).also(&["retry.storm", "retry.timeouts", "latency.tail"]);
}

/// A UC queue pair of which nothing passes the hop between the taps: nobody retransmits it, so it is not evaluated, and
/// the report says so.
fn uc(lab: &mut Lab) {
    const UC_SEND_ONLY: u8 = 0x24;
    const QP: u32 = 0x900;
    lab.world.line(25 * GBIT);
    let own = Match { qp: Some(QP), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(own, Effect::Drop { ppm: 1_000_000 }));
    transfer(lab, 2, &mtu(2048), Verb::Write, 6_000);
    for at in 0..100 {
        let mut packet = Packet::roce(0, 1, UC_SEND_ONLY, QP, 5_000 + at);
        (packet.payload, packet.sport, packet.tos) = (1_024, 0xC123, 26 << 2 | 2);
        lab.world.at(at * 50 * US, Event::Emit(Box::new(packet)));
    }
    lab.world.tap_host(0, "h0.pcap");
    lab.world.tap_host(1, "h1.pcap");
    lab.figure("loss between taps not evaluated", |report| super::open(report, "uc_at_next_tap"), 1.0, 1.0);
}

/// The same in a capture of the InfiniBand link layer.
fn infiniband(lab: &mut Lab, layer: Layer) {
    lab.world.line(25 * GBIT);
    let data = Match { data: Some(true), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(data, Effect::Drop { ppm: 5_000 }));
    transfer(lab, 2, &mtu(2048), Verb::Write, 12_000);
    let tap = lab.world.tap_host(1, "ib.pcap");
    lab.world.taps[tap].layer = layer;
    lab.expect(&["loss.before_tap"], Place::of_lids(0, 1)).also(&["retry.storm", "retry.timeouts"]);
}
