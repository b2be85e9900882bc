//! Two runs of one job, which `rocescope diff` compares.

use super::{Entry, connections, ring, settings};
use crate::sim::channel::{Effect, Fault, Match, Node};
use crate::sim::job::{Compute, Stream};
use crate::sim::lab::{KB, Lab, MS, US};
use crate::sim::net::GBIT;
use crate::sim::qp::{Settings, Verb};

pub(super) const ALL: &[Entry] = &[
    ("diff", "diff-loss", loss),
    ("diff", "diff-slow-uplink", slow_uplink),
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

fn transfers(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let set = Settings { timeout_ns: 4 * MS, ..settings() };
    let ends = connections(lab, 0, 1, 4, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 120).gap(500 * US, 500 * US), 0);
    lab.world.tap_host(1, "h1.pcap");
    lab.world.run();
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
    lab.world.run();
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
        lab.world.run();
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
    lab.world.run();
}

fn job(lab: &mut Lab) {
    ring(lab, 4, 30, Compute { ns: 40 * MS, jitter_ns: MS, ..Compute::default() });
    lab.world.tap_switch(0, "switch.pcap");
    lab.world.run();
}
