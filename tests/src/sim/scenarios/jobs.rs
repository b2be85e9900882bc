//! Jobs in steps: stragglers, slow links, steps that grow, jobs that stop.

use super::{Entry, ring, ring_connections, settings};
use crate::sim::channel::Node;
use crate::sim::job::{Collective, Compute, Datagrams, Stream};
use crate::sim::lab::{KB, Lab, MS};
use crate::sim::net::GBIT;
use crate::sim::packet::{Body, Packet};
use crate::sim::qp::Verb;

pub(super) const ALL: &[Entry] = &[
    ("straggler", "straggler-ring-at-switch", |lab| late(lab, 4, 2, 12..1_000, None)),
    ("straggler", "straggler-ring-of-six", |lab| late(lab, 6, 5, 10..1_000, None)),
    ("straggler", "straggler-ring-at-its-host", |lab| late(lab, 4, 1, 12..1_000, Some(1))),
    ("straggler", "straggler-all-to-all", straggler_all_to_all),
    ("straggler", "straggler-for-a-time", |lab| late(lab, 4, 3, 8..20, None)),
    ("slow link", "slow-inbound-link", slow_inbound),
    ("slow link", "slow-inbound-link-marked", slow_inbound_marked),
    ("slower", "slower-steps", slower),
    ("stalled", "stalled-in-mid-step", stalled),
    ("steps", "steps-one-long", one_long),
    ("steps", "steps-of-160ms", steps_of_160ms),
    ("steps", "steps-after-other-traffic", after_other_traffic),
];

fn compute(ns: u64) -> Compute {
    Compute { ns, jitter_ns: ns / 50, ..Compute::default() }
}

/// A member of a ring computes half as long again from some step on.
fn late(lab: &mut Lab, hosts: usize, who: usize, steps: std::ops::Range<u64>, tapped: Option<usize>) {
    let late = Some((who, 25 * MS, steps));
    ring(lab, hosts, 32, Compute { late, ..compute(40 * MS) });
    match tapped {
        None => lab.world.tap_switch(0, "switch.pcap"),
        Some(host) => lab.world.tap_host(host, "host.pcap"),
    };
    let host = lab.host(who);
    lab.expect(&["step.straggler"], host).also(&["step.slower"]);
    lab.world.run();
}

fn straggler_all_to_all(lab: &mut Lab) {
    lab.world.star(4, 4 * GBIT);
    let out: Vec<Vec<usize>> = (0..4)
        .map(|host| {
            (0..4).filter(|to| *to != host).map(|to| lab.world.connect(host, to, &settings()).0).collect()
        })
        .collect();
    let late = Some((1, 20 * MS, 10..1_000));
    lab.world.start(Collective::all_to_all(&out, (4, 64 * KB), 30, Compute { late, ..compute(30 * MS) }), 0);
    lab.world.tap_switch(0, "switch.pcap");
    let host = lab.host(1);
    lab.expect(&["step.straggler"], host).also(&["step.slower"]);
    lab.world.run();
}

/// The rate of the switch's port to one host falls to a quarter in the middle: its inbound transfers are slow, and
/// the host itself is not.
fn slow_inbound(lab: &mut Lab) {
    ring(lab, 4, 32, compute(30 * MS));
    let port = lab.world.channel(Node::Switch(0), Node::Host(2));
    lab.world.channels[port].rates.push((500 * MS, GBIT / 2));
    lab.world.tap_switch(0, "switch.pcap");
    let pair = lab.pair(1, 2);
    lab.expect(&["step.straggler", "links.congested_one_of", "latency.tail"], pair);
    lab.also(&["step.slower", "latency.tail"]);
    lab.world.run();
}

fn slow_inbound_marked(lab: &mut Lab) {
    ring(lab, 4, 32, compute(30 * MS));
    lab.world.red(60_000, 300_000, 100_000);
    let port = lab.world.channel(Node::Switch(0), Node::Host(2));
    lab.world.channels[port].rates.push((500 * MS, GBIT / 2));
    lab.world.tap_host(2, "h2.pcap");
    let pair = lab.pair(1, 2);
    lab.expect(&["ecn.congestion"], pair).also(&["step.slower", "latency.tail"]);
    lab.world.run();
}

/// All hosts compute a little longer with each step.
fn slower(lab: &mut Lab) {
    ring(lab, 4, 36, Compute { growth_ns: MS, ..compute(40 * MS) });
    lab.world.tap_switch(0, "switch.pcap");
    lab.expect(&["step.slower"], crate::sim::truth::Place::Any);
    lab.world.run();
}

/// A member stops in the middle of a step; other frames go on for three seconds.
fn stalled(lab: &mut Lab) {
    ring(lab, 4, 30, Compute { hang: Some((2, 20, 3)), ..compute(40 * MS) });
    let arp = Packet::other(0, 1, Body::Other { bytes: 40 });
    lab.world.start(Datagrams { packet: arp, count: 45, gap_ns: 100 * MS }, 0);
    lab.world.tap_switch(0, "switch.pcap");
    lab.expect(&["job.stalled"], crate::sim::truth::Place::Any);
    lab.world.run();
}

fn steps(report: &serde_json::Value) -> Option<f64> {
    report["steps"]["count"].as_f64()
}

/// One step takes ten times as long: all steps count still.
fn one_long(lab: &mut Lab) {
    ring(lab, 4, 30, Compute { pause: Some((14, 500 * MS)), ..compute(40 * MS) });
    lab.world.tap_switch(0, "switch.pcap");
    lab.figure("steps", steps, 28.0, 30.0);
    lab.world.run();
}

/// Thirty steps of 160 ms whose rounds are far apart.
fn steps_of_160ms(lab: &mut Lab) {
    lab.world.star(4, GBIT);
    let next = ring_connections(lab, 4, &settings());
    lab.world.start(Collective::ring(&next, (4, 128 * KB), 30, compute(130 * MS)), 0);
    lab.world.tap_host(1, "h1.pcap");
    lab.figure("steps", steps, 28.0, 30.0);
    lab.world.run();
}

/// Two seconds of other traffic between the same hosts, then a job in steps.
fn after_other_traffic(lab: &mut Lab) {
    lab.world.star(4, 2 * GBIT);
    let next = ring_connections(lab, 4, &settings());
    let before = Stream::new(&next, Verb::Write, 32 * KB, 150).depth(1).gap(3 * MS, 17 * MS);
    lab.world.start(before, 0);
    lab.world.start(Collective::ring(&next, (4, 64 * KB), 30, compute(40 * MS)), 2_500 * MS);
    lab.world.tap_switch(0, "switch.pcap");
    lab.figure("steps", steps, 26.0, 31.0);
    lab.world.run();
}
