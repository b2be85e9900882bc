//! Jobs in steps: stragglers, slow links, growing steps, stalled jobs.

use serde_json::Value;

use super::{Entry, mtu, ring, ring_connections, settings};
use crate::sim::channel::{Effect, Fault, Match, Node};
use crate::sim::job::{Collective, Compute, Datagrams, Stream};
use crate::sim::lab::{KB, Lab, MS};
use crate::sim::net::GBIT;
use crate::sim::packet::{Body, Packet};
use crate::sim::qp::{Settings, Verb};
use crate::sim::truth::{Expected, Place};

pub(super) const ALL: &[Entry] = &[
    ("straggler", "straggler-ring-at-switch", |lab| late(lab, 4, 2, 12..1_000, None)),
    ("straggler", "straggler-ring-of-six", |lab| late(lab, 6, 5, 10..1_000, None)),
    ("straggler", "straggler-ring-at-its-host", |lab| late(lab, 4, 1, 12..1_000, Some(1))),
    ("straggler", "straggler-all-to-all", straggler_all_to_all),
    ("straggler", "straggler-in-all-steps", |lab| in_all_steps(lab, None)),
    ("straggler", "straggler-in-all-steps-at-its-host", |lab| in_all_steps(lab, Some(1))),
    ("straggler", "straggler-for-a-time", |lab| late(lab, 4, 3, 8..20, None)),
    ("slow link", "slow-inbound-link", slow_inbound),
    ("slow link", "slow-inbound-link-in-all-steps", slow_inbound_in_all_steps),
    ("slow link", "slow-inbound-link-marked", slow_inbound_marked),
    ("slower", "slower-steps", slower),
    ("slower", "slower-by-network-at-host", |lab| slower_by_network(lab, Some(2))),
    ("slower", "slower-by-network-at-switch", |lab| slower_by_network(lab, None)),
    ("slower", "slower-by-loss", slower_by_loss),
    ("slower", "slower-from-the-middle", longer_from_the_middle),
    ("steps", "steps-shorter-from-the-middle", shorter_from_the_middle),
    ("stalled", "stalled-in-mid-step", stalled),
    ("steps", "steps-one-long", one_long),
    ("steps", "steps-of-160ms", steps_of_160ms),
    ("steps", "steps-after-other-traffic", after_other_traffic),
    ("steps", "steps-again-after-other-traffic", repeated_job),
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
    expect_late(lab, who);
}

/// The same in all steps that are looked at, from somewhere in a step on: none shows how long a step takes without.
fn in_all_steps(lab: &mut Lab, tapped: Option<usize>) {
    lab.option(&["--from", "+0.5s"]);
    late(lab, 4, 1, 0..1_000, tapped);
}

/// The straggler is this host, which starts late; its transfers are as fast as the others'.
fn expect_late(lab: &mut Lab, who: usize) {
    let late = Expected::new(&["step.straggler"], lab.host(who))
        .with("kind", "starts_late".into())
        .with("host", lab.addr(who));
    lab.expect_that(late).also(&["step.slower"]);
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
    expect_late(lab, 1);
}

/// A port has another rate from the middle on, varied as all rates are.
fn lower_rate(lab: &mut Lab, port: usize, bits_per_s: u64) {
    let rate = lab.world.vary.rate(bits_per_s);
    lab.world.channels[port].rates.push((500 * MS, rate));
}

/// The rate of the switch's port to one host drops to a quarter in the middle: its inbound transfers are slow, but
/// the host itself is not.
fn slow_inbound(lab: &mut Lab) {
    slow_inbound_build(lab);
    // A step more or less.
    let slow = slow_transfer(lab).seen((500 * MS, lab.world.now), 80 * MS);
    lab.expect_that(slow).also(&["step.slower", "latency.tail"]);
    late_acks(lab);
}

fn slow_inbound_build(lab: &mut Lab) {
    ring(lab, 4, 32, compute(30 * MS));
    let port = lab.world.channel(Node::Switch(0), Node::Host(2));
    lower_rate(lab, port, GBIT / 2);
    lab.world.tap_switch(0, "switch.pcap");
    lab.world.run();
}

fn slow_transfer(lab: &mut Lab) -> Expected {
    Expected::new(&["step.straggler"], lab.pair(1, 2))
        .with("kind", "slow_transfer".into())
        .with("waits_for", lab.addr(1))
        .with("receiver", lab.addr(2))
}

/// The same, looked at since then: no step is faster.
fn slow_inbound_in_all_steps(lab: &mut Lab) {
    lab.option(&["--from", "+0.6s"]);
    slow_inbound_build(lab);
    let slow = slow_transfer(lab);
    lab.expect_that(slow).also(&["latency.tail"]);
    late_acks(lab);
}

/// With the slowest rates ACKs wait behind the queue for longer than the timer.
fn late_acks(lab: &mut Lab) {
    if lab.world.facts.timeouts > 0 {
        lab.also(&["retry.timeouts"]);
    }
}

fn slow_inbound_marked(lab: &mut Lab) {
    ring(lab, 4, 32, compute(30 * MS));
    lab.world.red(60_000, 300_000, 100_000);
    let port = lab.world.channel(Node::Switch(0), Node::Host(2));
    lower_rate(lab, port, GBIT / 2);
    lab.world.tap_host(2, "h2.pcap");
    let pair = lab.pair(1, 2);
    // The transfer over this link is the one that others wait for.
    lab.expect(&["ecn.congestion"], pair).also(&["step.slower", "step.straggler", "latency.tail"]);
    lab.world.run();
    late_acks(lab);
}

/// All hosts compute a little longer with each step.
fn slower(lab: &mut Lab) {
    ring(lab, 4, 36, Compute { growth_ns: MS, ..compute(40 * MS) });
    lab.world.tap_switch(0, "switch.pcap");
    lab.expect(&["step.slower"], Place::Any);
    lab.figure("growth by computing", by_compute, 0.9, 1.1);
    lab.figure("lost share", lost_ratio, 0.1, 0.35);
}

/// From one step on all hosts compute half as long again: the trend begins there.
fn longer_from_the_middle(lab: &mut Lab) {
    ring(lab, 4, 40, Compute { longer: Some((20 * MS, 20..1_000)), ..compute(40 * MS) });
    lab.world.tap_switch(0, "switch.pcap");
    lab.world.run();
    let Some(grown) = lab.world.facts.grown_ns else { return };
    // A step more or less.
    let slower = Expected::new(&["step.slower"], Place::Any).seen((grown, lab.world.now), 80 * MS);
    lab.expect_that(slower);
    lab.figure("steps", steps, 39.0, 40.0);
    lab.figure("growth by computing", by_compute, 0.9, 1.1);
}

/// A slow half at the start, and faster steps since: nothing to warn about.
fn shorter_from_the_middle(lab: &mut Lab) {
    ring(lab, 4, 40, Compute { longer: Some((20 * MS, 0..20)), ..compute(40 * MS) });
    lab.world.tap_switch(0, "switch.pcap");
    lab.never(&["step.slower", "step.straggler"]);
    lab.figure("steps", steps, 39.0, 40.0);
}

/// The growth of the steps in a part of the step.
fn grown(report: &Value, part: &str) -> Option<f64> {
    let slower = &report["steps"]["trend"]["slower"];
    let grew = |name: &str| slower[format!("{name}_grew_ns")].as_f64();
    Some(grew(part)? / (grew("transfer")? + grew("wait")? + grew("compute")?))
}

fn by_compute(report: &Value) -> Option<f64> {
    grown(report, "compute")
}

fn by_transfer(report: &Value) -> Option<f64> {
    grown(report, "transfer")
}

fn by_network(report: &Value) -> Option<f64> {
    Some(grown(report, "transfer")? + grown(report, "wait")?)
}

fn lost_ratio(report: &Value) -> Option<f64> {
    report["steps"]["trend"]["lost_ratio"].as_f64()
}

/// All ports of the switch drop to a third of their speed: transfers of 6 ms take 19. Upstream of the switch, hosts
/// are seen waiting for packets queued in it.
fn slower_by_network(lab: &mut Lab, tapped: Option<usize>) {
    ring(lab, 4, 40, compute(20 * MS));
    for host in 0..4 {
        let port = lab.world.channel(Node::Switch(0), Node::Host(host));
        lower_rate(lab, port, 2 * GBIT / 3);
    }
    match tapped {
        None => lab.world.tap_switch(0, "switch.pcap"),
        Some(host) => lab.world.tap_host(host, "host.pcap"),
    };
    lab.expect_during(&["step.slower"], Place::Any, (450 * MS, 600 * MS)).also(&["latency.tail"]);
    if tapped.is_some() {
        // The host's egress is as fast as before: in comparison its inbound transfer is slow.
        lab.also(&["step.straggler"]);
        lab.figure("growth by transfers", by_transfer, 0.85, 1.15);
        let exposed = |report: &Value| report["steps"]["trend"]["slower"]["exposed_ratio"].as_f64();
        lab.figure("exposed", exposed, 0.8, 1.0);
    } else {
        lab.figure("growth by the network", by_network, 0.75, 1.15);
    }
}

/// Every port of the switch loses data from the middle on: the steps wait for retransmissions. With other rates, delays
/// and ACKs they become longer by 13 per cent or by more: a finding from 15 on.
fn slower_by_loss(lab: &mut Lab) {
    const FROM: u64 = 650 * MS;
    lab.world.star(4, 2 * GBIT);
    // Timeouts far shorter than a step: with longer ones, hosts of a ring would start their steps at very different
    // times. How much longer a step takes depends on path MTU and window: with others it has no pauses left.
    let set = Settings { timeout_ns: 4_096 << 10, window: 100, ..mtu(2_048) };
    let next = ring_connections(lab, 4, &set);
    lab.world.start(Collective::ring(&next, (8, 128 * KB), 30, compute(20 * MS)), 0);
    let data = Match { data: Some(true), ..Match::default() };
    for host in 0..4 {
        let fault = Fault::during(FROM, u64::MAX, data, Effect::Drop { ppm: 15_000 });
        lab.world.fault(Node::Switch(0), Node::Host(host), fault);
    }
    lab.world.tap_switch(0, "switch.pcap");
    lab.expect(&["loss.after_tap", "loss.before_tap", "retry.timeouts"], Place::Any);
    lab.also(&["retry.storm", "retry.timeouts", "latency.tail", "step.straggler"]);
    lab.world.run();
    // Medians of steps at a tap are not exactly those of the members.
    match lab.world.facts.step_growth(FROM) {
        growth if growth >= 0.17 => {
            let share = lab.world.facts.network_growth(FROM);
            lab.expect(&["step.slower"], Place::Any);
            lab.figure("growth by the network", by_network, share - 0.25, share + 0.25)
        }
        growth if growth >= 0.13 => lab.also(&["step.slower"]),
        _ => lab,
    };
}

/// A member stops in the middle of a step; other frames continue for three seconds.
fn stalled(lab: &mut Lab) {
    ring(lab, 4, 30, Compute { hang: Some((2, 20, 3)), ..compute(40 * MS) });
    let arp = Packet::other(0, 1, Body::Other { bytes: 40 });
    lab.world.start(Datagrams { packet: arp, count: 45, gap_ns: 100 * MS }, 0);
    lab.world.tap_switch(0, "switch.pcap");
    lab.expect(&["job.stalled"], Place::Any);
}

fn steps(report: &Value) -> Option<f64> {
    report["steps"]["count"].as_f64()
}

/// One step takes ten times as long; all steps still count.
fn one_long(lab: &mut Lab) {
    ring(lab, 4, 30, Compute { pause: Some((14, 500 * MS)), ..compute(40 * MS) });
    lab.world.tap_switch(0, "switch.pcap");
    lab.figure("steps", steps, 28.0, 30.0);
    lab.figure("long steps", |report| report["steps"]["trend"]["long_steps"].as_f64(), 1.0, 1.0);
    lab.figure("lost", |report| report["steps"]["trend"]["lost_ns"].as_f64(), 4.9e8, 5.1e8);
}

/// Thirty steps of 160 ms whose rounds are far apart.
fn steps_of_160ms(lab: &mut Lab) {
    lab.world.star(4, GBIT);
    let next = ring_connections(lab, 4, &settings());
    lab.world.start(Collective::ring(&next, (4, 128 * KB), 30, compute(130 * MS)), 0);
    lab.world.tap_host(1, "h1.pcap");
    lab.figure("steps", steps, 28.0, 30.0);
}

/// A job, two seconds of other traffic between the same hosts, and the job again with another step length.
fn repeated_job(lab: &mut Lab) {
    lab.world.star(4, 2 * GBIT);
    let next = ring_connections(lab, 4, &settings());
    lab.world.start(Collective::ring(&next, (4, 64 * KB), 30, compute(40 * MS)), 0);
    let between = Stream::new(&next, Verb::Write, 32 * KB, 150).depth(1).gap(3 * MS, 17 * MS);
    lab.world.start(between, 1_700 * MS);
    lab.world.start(Collective::ring(&next, (4, 96 * KB), 40, compute(30 * MS)), 4_000 * MS);
    lab.world.tap_switch(0, "switch.pcap");
    lab.figure("steps", steps, 38.0, 40.0);
    lab.figure("data since", |report| report["steps"]["ending"]["unfinished_ratio"].as_f64(), 0.0, 1.0);
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
}
