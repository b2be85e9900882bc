//! Clean controls of unusual shape: jobs that idle, storage, cut and sampled captures, clocks that are set. And data
//! that is held up while no clock is set.

use super::{Entry, connections, mtu, ring_connections, settings};
use crate::sim::channel::{Effect, Fault, Match, Node};
use crate::sim::job::{Collective, Compute, Datagrams, PingPong, Stream};
use crate::sim::lab::{KB, Lab, MB, MS, US};
use crate::sim::net::GBIT;
use crate::sim::packet::{Body, Packet, op};
use crate::sim::qp::{Ports, Recovery, Settings, Verb};
use crate::sim::switch::Spread;
use crate::sim::truth::Expected;

pub(super) const ALL: &[Entry] = &[
    ("control", "clean-job-that-idles", idle_job),
    ("control", "clean-checkpoints", checkpoints),
    ("control", "clean-storage-reads-at-server", |lab| storage(lab, 0)),
    ("control", "clean-storage-reads-at-client", |lab| storage(lab, 2)),
    ("control", "clean-responses-alone", |lab| one_way_reads(lab, false)),
    ("control", "clean-read-requests-alone", |lab| one_way_reads(lab, true)),
    ("control", "clean-reads-cut-at-both-ends", |lab| cut(lab, Verb::Read, 1)),
    ("control", "clean-writes-cut-at-both-ends", |lab| cut(lab, Verb::Write, 1)),
    ("control", "clean-reads-cut-two-taps", |lab| cut(lab, Verb::Read, 2)),
    ("control", "clean-datagrams-beside-connections", datagrams_beside),
    ("control", "clean-three-mtus", three_mtus),
    ("control", "clean-clock-set-forward", |lab| clock_set(lab, 700_000_000)),
    ("held up", "held-up-beside-other-frames", |lab| held_up(lab, 1, true)),
    ("held up", "held-up-without-other-frames", |lab| held_up(lab, 1, false)),
    ("held up", "held-up-again-and-again", |lab| held_up(lab, 3, false)),
    ("control", "clean-clock-set-back", |lab| clock_set(lab, -40_000_000)),
    ("control", "clean-clock-of-one-tap-set", one_clock_set),
    ("control", "clean-clocks-drift", clocks_drift),
    ("control", "clean-three-taps-clocks-far-apart", far_clocks),
    ("control", "clean-snapped-to-64-bytes", snapped),
    ("control", "clean-sixteen-hosts", sixteen_hosts),
    ("control", "clean-hosts-of-two-speeds", two_speeds),
    ("control", "clean-tx-at-one-rx-at-the-other", tx_and_rx),
    ("control", "clean-pipeline-of-stages", pipeline),
    ("control", "clean-heartbeats-and-bulk", heartbeats),
    ("control", "clean-multipath-selective", multipath),
    ("control", "clean-atomics-of-many", atomics_of_many),
    ("control", "clean-one-host-sends-more", one_sends_more),
    ("control", "clean-late-joiner", late_joiner),
    ("control", "clean-broadcast-tree", broadcast),
    ("control", "clean-read-requests-made-twice", reads_twice),
];

fn compute(ns: u64) -> Compute {
    Compute { ns, jitter_ns: ns / 50, ..Compute::default() }
}

/// A ring job with a step of 300 ms, idle for most of it, and an evaluation of two seconds.
fn idle_job(lab: &mut Lab) {
    lab.world.star(8, 10 * GBIT);
    let next = ring_connections(lab, 8, &settings());
    let compute = Compute { pause: Some((12, 2_000 * MS)), ..compute(280 * MS) };
    lab.world.start(Collective::ring(&next, (1, 64 * KB), 24, compute), 0);
    lab.world.tap_host(3, "h3.pcap");
}

/// A ring job, whose hosts write a checkpoint to one more host together, every ten steps or so.
fn checkpoints(lab: &mut Lab) {
    lab.world.star(5, 10 * GBIT);
    let next = ring_connections(lab, 4, &settings());
    lab.world.start(Collective::ring(&next, (2, 64 * KB), 40, compute(30 * MS)), 0);
    for host in 0..4 {
        let ends = connections(lab, host, 4, 1, &Settings { window: 32, ..settings() });
        for burst in 1..4 {
            lab.world.start(Stream::new(&ends, Verb::Write, MB, 2).depth(2), burst * 330 * MS);
        }
    }
    lab.world.tap_switch(0, "switch.pcap");
}

/// Clients read blocks of several sizes from two servers.
fn storage(lab: &mut Lab, tapped: usize) {
    lab.world.star(5, 10 * GBIT);
    for client in 2..5 {
        for server in 0..2 {
            let ends = connections(lab, client, server, 2, &settings());
            let sizes = [(Verb::Read, 4 * KB), (Verb::Read, 128 * KB), (Verb::Read, 512), (Verb::Read, MB)];
            let stream = Stream::new(&ends, Verb::Read, 0, 40).mix(&sizes).depth(6).gap(MS, 4 * MS);
            lab.world.start(stream, client as u64 * MS);
        }
    }
    lab.world.tap_host(tapped, "tap.pcap");
}

/// A mirror of one direction of READs: requests alone, or responses.
fn one_way_reads(lab: &mut Lab, requests: bool) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 3, &settings());
    lab.world.start(Stream::new(&ends, Verb::Read, 200_000, 160).depth(3).gap(300 * US, 200 * US), 0);
    let tap = lab.world.add_tap("one.pcap");
    let [from, to] = if requests { [0, 1] } else { [1, 0] }.map(Node::Switch);
    let channel = lab.world.channel(from, to);
    lab.world.channels[channel].near.push(tap);
}

/// The capture begins and ends in the middle of long messages.
fn cut(lab: &mut Lab, verb: Verb, taps: usize) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 6, &settings());
    lab.world.start(Stream::new(&ends, verb, 4 * MB, 6).depth(2), 0);
    for host in 0..taps {
        let tap = lab.world.tap_host(host, ["h0.pcap", "h1.pcap"][host]);
        lab.world.taps[tap].range = (11 * MS + 77, 60 * MS + 11 * host as u64 * US);
    }
}

/// UD between hosts that have connections, too.
fn datagrams_beside(lab: &mut Lab) {
    lab.world.star(4, 10 * GBIT);
    let next = ring_connections(lab, 4, &settings());
    lab.world.start(Stream::new(&next, Verb::Write, 64 * KB, 80).gap(MS, MS), 0);
    for src in 0..4 {
        lab.world.start(Datagrams::ud(src, (src + 2) % 4, 2_048, 800, 100 * US), 0);
    }
    lab.world.tap_switch(0, "switch.pcap");
}

/// Connections of three path MTUs, each between hosts of its own.
fn three_mtus(lab: &mut Lab) {
    lab.world.star(6, 10 * GBIT);
    for (pair, size) in [1_024, 2_048, 4_096].into_iter().enumerate() {
        let ends = connections(lab, pair, pair + 3, 3, &mtu(size));
        lab.world.start(Stream::new(&ends, Verb::Send, 100_000, 60).gap(400 * US, 400 * US), 0);
    }
    lab.world.tap_switch(0, "switch.pcap");
}

/// The clock of the capturing host is set in the middle, in the middle of messages.
fn clock_set(lab: &mut Lab, by: i64) {
    lab.world.line(2 * GBIT);
    let ends = connections(lab, 0, 1, 3, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, MB, 12).depth(2), 0);
    let tap = lab.world.tap_host(1, "h1.pcap");
    lab.world.taps[tap].set = (90 * MS, by);
}

/// All data is held up for 700 ms, as by pauses of its priority, this number of times. No transport timer is that
/// short. Where frames of other protocols go on, no clock was set; and no clock is set many times.
fn held_up(lab: &mut Lab, times: u64, beside: bool) {
    lab.world.line(2 * GBIT);
    let data = Match { data: Some(true), ..Match::default() };
    for time in 0..times {
        let [from_ns, until_ns] = [90, 790].map(|ms| (ms + 800 * time) * MS);
        let hold = Fault::during(from_ns, until_ns, data, Effect::Hold { until_ns });
        lab.world.fault(Node::Switch(0), Node::Switch(1), hold);
    }
    let ends = connections(lab, 0, 1, 3, &Settings { timeout_ns: 4_096 << 20, ..settings() });
    lab.world.start(Stream::new(&ends, Verb::Write, MB, 24 * times - 12).depth(2), 0);
    if beside {
        let other = Packet::other(0, 1, Body::Other { bytes: 40 });
        lab.world.start(Datagrams { packet: other, count: 100, gap_ns: 10 * MS }, 0);
    }
    lab.world.tap_host(0, "h0.pcap");
    let until_ns = (100 + 800 * times) * MS;
    let found = Expected::new(&["retry.timeouts"], lab.pair(0, 1)).during(90 * MS, until_ns);
    // One tap cannot distinguish a single silence of all frames from a clock that is set.
    let single = times == 1 && !beside;
    lab.expect_that(if single { found.or_info() } else { found })
        .also(&["latency.tail"])
        .never(&["retry.storm"]);
    let rules_out = if beside { 1.0 } else { 0.0 };
    lab.figure("findings that rule out the clock", no_clock, rules_out, rules_out);
    let warnings = if single { 0.0 } else { 1.0 };
    lab.figure("warnings of silences", silence_warnings, warnings, warnings);
    if single {
        lab.figure("verdicts without reserve", good_verdicts, 0.0, 0.0);
    }
    lab.world.run();
}

/// 1 where the verdict says without reserve that nothing is wrong.
fn good_verdicts(report: &serde_json::Value) -> Option<f64> {
    report["verdict"]["good"].as_bool().map(|good| f64::from(u8::from(good)))
}

/// Findings of silences in which other frames passed.
fn no_clock(report: &serde_json::Value) -> Option<f64> {
    let all = report["findings"].as_array()?.iter();
    let titles = all.filter(|one| one["id"] == "retry.timeouts").filter_map(|one| one["title"].as_str());
    Some(titles.filter(|title| title.starts_with("No RoCE packet passed for ")).count() as f64)
}

/// Findings of silences that are more than information.
fn silence_warnings(report: &serde_json::Value) -> Option<f64> {
    let all = report["findings"].as_array()?.iter();
    Some(all.filter(|one| one["id"] == "retry.timeouts" && one["severity"] != "info").count() as f64)
}

/// The clock of one of two capturing hosts is set.
fn one_clock_set(lab: &mut Lab) {
    lab.world.line(2 * GBIT);
    let ends = connections(lab, 0, 1, 3, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, MB, 12).depth(2), 0);
    lab.world.tap_host(0, "h0.pcap");
    let tap = lab.world.tap_host(1, "h1.pcap");
    lab.world.taps[tap].set = (90 * MS, 250_000_000);
}

/// The clocks of two taps move apart by 200 us a second.
fn clocks_drift(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 3, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 150).gap(20 * MS, 20 * MS), 0);
    lab.world.tap_host(0, "h0.pcap");
    let tap = lab.world.tap_host(1, "h1.pcap");
    lab.world.taps[tap].drift_ppm = 200;
}

/// Three taps on a path, whose clocks differ by 90 ms and 230 ms.
fn far_clocks(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 60).gap(500 * US, 500 * US), 0);
    three_taps(lab, [0, 90 * MS, 230 * MS]);
}

/// Taps at the first host, between the switches and at the second host, with these errors of their clocks.
pub(super) fn three_taps(lab: &mut Lab, ahead_ns: [u64; 3]) {
    lab.world.tap_host(0, "h0.pcap");
    lab.world.tap_cable(Node::Switch(0), Node::Switch(1), "mid.pcap");
    lab.world.tap_host(1, "h1.pcap");
    for (tap, ahead_ns) in lab.world.taps.iter_mut().zip(ahead_ns) {
        tap.ahead_ns = ahead_ns;
    }
}

fn snapped(lab: &mut Lab) {
    lab.world.snap = 64;
    lab.world.line(10 * GBIT);
    let mix = [(Verb::Write, 100_001), (Verb::Send, 17), (Verb::Read, 50_000), (Verb::Atomic, 8)];
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 0, 120).mix(&mix).gap(200 * US, 100 * US), 0);
    lab.world.tap_host(0, "h0.pcap");
}

/// All-to-all of sixteen hosts with small chunks.
fn sixteen_hosts(lab: &mut Lab) {
    lab.world.star(16, 25 * GBIT);
    let out: Vec<Vec<usize>> = (0..16)
        .map(|host| {
            (0..16).filter(|to| *to != host).map(|to| lab.world.connect(host, to, &settings()).0).collect()
        })
        .collect();
    lab.world.start(Collective::all_to_all(&out, (1, 16 * KB), 20, compute(25 * MS)), 0);
    lab.world.tap_switch(0, "switch.pcap");
}

/// Two pairs of hosts, one with links a quarter as fast.
fn two_speeds(lab: &mut Lab) {
    lab.world.star(4, 25 * GBIT);
    for channel in &mut lab.world.channels {
        if [Node::Host(2), Node::Host(3)].iter().any(|host| channel.from == *host || channel.to == *host) {
            channel.bits_per_s /= 4;
        }
    }
    for (a, b) in [(0, 1), (2, 3), (1, 0), (3, 2)] {
        let ends = connections(lab, a, b, 2, &settings());
        lab.world.start(Stream::new(&ends, Verb::Write, 256 * KB, 40).gap(MS, MS), 0);
    }
    lab.world.tap_switch(0, "switch.pcap");
}

/// Each host captures one direction: what the first sends, and what the second receives.
fn tx_and_rx(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 128 * KB, 60).gap(500 * US, 500 * US), 0);
    let (tx, rx) = (lab.world.add_tap("tx.pcap"), lab.world.add_tap("rx.pcap"));
    let out = lab.world.channel(Node::Host(0), Node::Switch(0));
    lab.world.channels[out].near.push(tx);
    let into = lab.world.channel(Node::Switch(1), Node::Host(1));
    lab.world.channels[into].far.push(rx);
}

/// Stages of a pipeline: each host sends activations to the next one, at its own pace.
fn pipeline(lab: &mut Lab) {
    lab.world.star(4, 10 * GBIT);
    for stage in 0..3 {
        let ends = connections(lab, stage, stage + 1, 1, &settings());
        let stream = Stream::new(&ends, Verb::WriteImm, 512 * KB, 60).depth(1).gap(18 * MS, 2 * MS);
        lab.world.start(stream, stage as u64 * 7 * MS);
        let back = connections(lab, stage + 1, stage, 1, &settings());
        let stream = Stream::new(&back, Verb::WriteImm, 512 * KB, 60).depth(1).gap(18 * MS, 2 * MS);
        lab.world.start(stream, 10 * MS + stage as u64 * 7 * MS);
    }
    lab.world.tap_switch(0, "switch.pcap");
}

/// Heartbeats every 50 ms beside bulk transfers that fill the port.
fn heartbeats(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let (a, b) = lab.world.connect(0, 1, &mtu(1_024));
    lab.world.start(PingPong { client: a, server: b, bytes: (32, 32), count: 60, gap_ns: 50 * MS }, 0);
    let ends = connections(lab, 0, 1, 2, &Settings { window: 64, ..settings() });
    for burst in 0..6 {
        lab.world.start(Stream::new(&ends, Verb::Write, MB, 4).depth(2), burst * 500 * MS);
    }
    lab.world.tap_host(1, "h1.pcap");
}

/// One queue pair over many source ports, sprayed, whose receiver keeps what arrives out of order.
fn multipath(lab: &mut Lab) {
    lab.world.leaf_spine(2, 2, 4, (10 * GBIT, 10 * GBIT));
    lab.world.spread(Spread::Spray);
    let set = Settings {
        recovery: Recovery::Selective(256),
        ports: Ports::Many(49_152, 64),
        ..Settings::default()
    };
    let ends = connections(lab, 0, 2, 2, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 256 * KB, 40).gap(500 * US, 0), 0);
    lab.world.tap_host(2, "h2.pcap");
}

/// Atomics of five hosts on one, with small WRITEs.
fn atomics_of_many(lab: &mut Lab) {
    lab.world.star(6, 10 * GBIT);
    let mut ends = Vec::new();
    for host in 1..6 {
        ends.extend(connections(lab, host, 0, 2, &settings()));
    }
    let mix = [(Verb::Atomic, 8), (Verb::Atomic, 8), (Verb::Write, 64)];
    lab.world.start(Stream::new(&ends, Verb::Atomic, 8, 600).mix(&mix).depth(4).gap(20 * US, 20 * US), 0);
    lab.world.tap_host(0, "h0.pcap");
}

/// One host of an all-to-all sends four times as much.
fn one_sends_more(lab: &mut Lab) {
    lab.world.star(5, 10 * GBIT);
    for from in 0..5 {
        for to in (0..5).filter(|to| *to != from) {
            let ends = connections(lab, from, to, 1, &settings());
            let len = if from == 2 { 256 * KB } else { 64 * KB };
            lab.world.start(Stream::new(&ends, Verb::Write, len, 40).depth(1).gap(3 * MS, 3 * MS), 0);
        }
    }
    lab.world.tap_switch(0, "switch.pcap");
}

/// A host joins a job in the middle of the capture.
fn late_joiner(lab: &mut Lab) {
    lab.world.star(4, 10 * GBIT);
    let three = ring_connections(lab, 3, &settings());
    lab.world.start(Stream::new(&three, Verb::Write, 64 * KB, 100).gap(5 * MS, 2 * MS), 0);
    for (a, b) in [(2, 3), (3, 0)] {
        let ends = connections(lab, a, b, 1, &settings());
        lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 60).gap(5 * MS, 2 * MS), 300 * MS);
    }
    lab.world.tap_host(3, "h3.pcap");
}

/// One host sends the same to two, which pass it on to two each, step by step.
fn broadcast(lab: &mut Lab) {
    lab.world.star(7, 10 * GBIT);
    for (from, to) in [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)] {
        let ends = connections(lab, from, to, 1, &settings());
        let stream = Stream::new(&ends, Verb::WriteImm, 256 * KB, 60).depth(1).gap(12 * MS, MS / 4);
        lab.world.start(stream, (from as u64 + 1) * MS);
    }
    lab.world.tap_switch(0, "switch.pcap");
}

/// A network that forwards some READ requests twice: their responders answer twice.
fn reads_twice(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let twice = Effect::Duplicate { ppm: 60_000, after_ns: 5 * US };
    let reads = Match { opcode: Some(op::READ_REQUEST), ..Match::default() };
    lab.world.fault(Node::Switch(0), Node::Switch(1), Fault::always(reads, twice));
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Read, 16 * KB, 400).depth(1).gap(100 * US, 100 * US), 0);
    lab.world.tap_host(1, "h1.pcap");
}
