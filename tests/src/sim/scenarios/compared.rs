//! Two runs of one job, which `rocescope diff` compares.

use serde_json::Value;

use super::{Entry, connections, ring, settings};
use crate::sim::channel::{Effect, Fault, Match, Node};
use crate::sim::job::{Compute, Stream};
use crate::sim::lab::{KB, Lab, MS, US};
use crate::sim::net::GBIT;
use crate::sim::qp::{Settings, Verb};
use crate::sim::truth::{Expected, Place};

pub(super) const ALL: &[Entry] = &[
    ("diff", "diff-loss", loss),
    ("diff", "diff-slow-uplink", slow_uplink),
    ("diff", "diff-slower-steps", slower_steps),
    ("diff", "diff-slower-by-network", slower_by_network),
    ("diff", "diff-growing-steps", growing_steps),
    ("control", "clean-diff-of-two-seeds", |lab| {
        lab.baseline = Some(transfers);
        transfers(lab);
    }),
    ("control", "clean-diff-of-two-runs-of-a-job", |lab| {
        lab.baseline = Some(job);
        job(lab);
    }),
];

/// Metrics that are worse when data is lost or waits.
const SLOWER: &[&str] = &[
    "diff.roce_bits_per_second",
    "diff.payload_bits_per_second",
    "diff.roce_packets_per_second",
    "diff.hosts.roce_bits_per_second",
];

/// Shares of a step, which are different in a longer step.
const CHANGED: &[&str] = &["diff.step_busy_ratio", "diff.step_communication_ratio"];

fn transfers(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let set = Settings { timeout_ns: 4 * MS, ..settings() };
    let ends = connections(lab, 0, 1, 4, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 120).gap(500 * US, 500 * US), 0);
    lab.world.tap_host(1, "h1.pcap");
}

/// Half a per cent of the data is lost in the second run.
fn loss(lab: &mut Lab) {
    lab.baseline = Some(transfers);
    lab.world.line(10 * GBIT);
    let data = Match { data: Some(true), ..Match::default() };
    lab.world.fault(Node::Switch(0), Node::Switch(1), Fault::always(data, Effect::Drop { ppm: 5_000 }));
    let set = Settings { timeout_ns: 4 * MS, ..settings() };
    let ends = connections(lab, 0, 1, 4, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 120).gap(500 * US, 500 * US), 0);
    lab.world.tap_host(1, "h1.pcap");
    let pair = lab.pair(0, 1);
    lab.expect(&["loss.before_tap"], pair.clone()).expect(&["diff.hosts.lost_before_tap_ratio"], pair);
    lab.also(&["retry.storm", "retry.timeouts", "latency.tail"]).also(SLOWER).also(&[
        "diff.lost_before_tap_ratio",
        "diff.missing_ratio",
        "diff.hosts.missing_ratio",
        "diff.retransmitted_ratio",
        "diff.hosts.retransmitted_ratio",
        "diff.naks_per_second",
        // Behind a loss, messages end elsewhere in the count of coalesced ACKs, and wait for the ACK timer.
        "diff.latency_p50_ns",
    ]);
}

fn over_uplink(lab: &mut Lab, bits_per_s: u64) {
    lab.world.leaf_spine(2, 2, 1, (10 * GBIT, bits_per_s));
    lab.world.red(60_000, 300_000, 100_000);
    let mut ends = connections(lab, 0, 2, 2, &settings());
    ends.extend(connections(lab, 1, 3, 2, &settings()));
    lab.world.start(Stream::new(&ends, Verb::Write, 512 * KB, 24), 0);
    lab.world.tap_cable(Node::Switch(1), Node::Host(2), "h2.pcap");
}

/// The uplink of two hosts has a quarter of its speed in the second run.
fn slow_uplink(lab: &mut Lab) {
    lab.baseline = Some(|lab| {
        over_uplink(lab, 40 * GBIT);
    });
    over_uplink(lab, 10 * GBIT);
    let (host, pair) = (lab.host(2), lab.pair(0, 2));
    lab.expect(&["ecn.congestion"], host).expect(&["diff.hosts.ce_ratio"], pair);
    lab.also(SLOWER).also(&["latency.tail", "diff.ce_ratio", "diff.cnp_packets_per_second"]);
    lab.never(&["burst.incast"]);
    if lab.world.vary.settings(&settings(), 0).coalesce > 1 {
        // Packets arrive more slowly, and the ACK of several of them waits for the last.
        lab.also(&["diff.latency_p50_ns"]);
    }
}

/// Computing of a step of the job, and how many there are.
const COMPUTE: Compute =
    Compute { ns: 40 * MS, jitter_ns: MS, late: None, growth_ns: 0, longer: None, hang: None, pause: None };
const STEPS: u64 = 30;

fn job(lab: &mut Lab) {
    ring(lab, 4, STEPS, COMPUTE);
    lab.world.tap_switch(0, "switch.pcap");
}

/// A metric of `diff` that must be worse, of the whole run.
fn worse(lab: &mut Lab, ids: &[&'static str]) {
    for id in ids {
        let id = std::slice::from_ref(id);
        lab.expect_that(Expected::new(id, Place::Any).with("verdict", "worse".into()));
    }
}

/// Growth of a part of the step, or of the step, in milliseconds, as `diff` states it.
fn grew(diff: &Value, part: &str) -> Option<f64> {
    Some(diff["steps"][part].as_f64()? / MS as f64)
}

/// All hosts compute 20 ms longer in the second run, in steps of some 55 ms; the transfers are as fast.
fn slower_steps(lab: &mut Lab) {
    lab.baseline = Some(job);
    ring(lab, 4, STEPS, Compute { longer: Some((20 * MS, 0..STEPS)), ..COMPUTE });
    lab.world.tap_switch(0, "switch.pcap");
    worse(lab, &["diff.step_period_ns", "diff.step_fastest_ns", "diff.step_compute_ns"]);
    lab.also(SLOWER).also(CHANGED);
    lab.never(&["diff.step_transfer_ns", "diff.step_wait_ns", "diff.step_lost_ratio", "step.slower"]);
    lab.figure("growth of computing", |diff| grew(diff, "compute_ns"), 19.0, 21.0);
    lab.figure("growth of transfers", |diff| grew(diff, "transfer_ns"), -1.0, 1.0);
}

/// All ports of the switch have a third of their rate in the second run; the hosts compute as fast.
fn slower_by_network(lab: &mut Lab) {
    lab.baseline = Some(job);
    ring(lab, 4, STEPS, COMPUTE);
    for host in 0..4 {
        let port = lab.world.channel(Node::Switch(0), Node::Host(host));
        let rate = lab.world.vary.rate(2 * GBIT / 3);
        lab.world.channels[port].rates.push((0, rate));
    }
    lab.world.tap_switch(0, "switch.pcap");
    worse(lab, &["diff.step_period_ns", "diff.step_fastest_ns"]);
    // Data on the wire, or pauses between its parts: it depends on windows and delays.
    let waits = Expected::new(&["diff.step_transfer_ns", "diff.step_wait_ns"], Place::Any);
    lab.expect_that(waits.with("verdict", "worse".into()));
    lab.also(SLOWER).also(CHANGED).also(&[
        "diff.step_transfer_ns",
        "diff.step_wait_ns",
        "diff.step_compute_ns",
    ]);
    lab.also(&[
        "diff.step_faster_network_ns",
        "diff.latency_p50_ns",
        "diff.latency_p99_ns",
        "diff.hosts.latency_p50_ns",
        "diff.hosts.latency_p99_ns",
    ]);
    lab.never(&["diff.step_lost_ratio", "diff.step_trend_ns_per_step", "step.slower"]);
    // Upstream of the switch, the last packets of a step pass before they leave its queue.
    lab.figure("growth by the network", by_network, 0.75, 1.05);
}

/// Share of the growth of a step that is not in the silence until the next.
fn by_network(diff: &Value) -> Option<f64> {
    let network = grew(diff, "transfer_ns")? + grew(diff, "wait_ns")?;
    Some(network / (network + grew(diff, "compute_ns")?))
}

/// Each step of the second run takes a millisecond longer than the one before it.
fn growing_steps(lab: &mut Lab) {
    lab.baseline = Some(job);
    ring(lab, 4, STEPS, Compute { growth_ns: MS, ..COMPUTE });
    lab.world.tap_switch(0, "switch.pcap");
    worse(lab, &["diff.step_period_ns", "diff.step_compute_ns"]);
    worse(lab, &["diff.step_trend_ns_per_step", "diff.step_lost_ratio"]);
    lab.expect(&["step.slower"], Place::Any).also(SLOWER).also(CHANGED).also(&["diff.step_fastest_ns"]);
    lab.never(&["diff.step_transfer_ns", "diff.step_wait_ns"]);
    // The mean over the steps.
    lab.figure("growth of computing", |diff| grew(diff, "compute_ns"), 14.0, 16.0);
}
