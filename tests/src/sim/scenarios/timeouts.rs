//! Time lost to transport timeouts, queue pairs that die, and paths that only deliver small packets.

use super::{Entry, connections, mtu, ring, settings};
use crate::sim::channel::{Effect, Fault, Match, Node};
use crate::sim::engine::Event;
use crate::sim::job::{Compute, PingPong, Stream};
use crate::sim::lab::{KB, Lab, MB, MS, US};
use crate::sim::net::GBIT;
use crate::sim::packet::op;
use crate::sim::qp::{Ports, Settings, Verb};
use crate::sim::truth::Expected;

pub(super) const ALL: &[Entry] = &[
    ("timeouts", "timeouts-lost-acks-at-sender", |lab| lost_acks(lab, 0)),
    ("timeouts", "timeouts-lost-acks-at-receiver", |lab| lost_acks(lab, 1)),
    ("timeouts", "timeouts-lost-acks-mirror", |lab| lost_acks(lab, 2)),
    ("timeouts", "timeouts-path-dead-300ms", |lab| dead_path(lab, 0)),
    ("timeouts", "timeouts-path-dead-300ms-at-receiver", dead_path_at_receiver),
    ("control", "clean-compute-phase-of-two-hosts", computes),
    ("timeouts", "timeouts-go-back-lost-again", |lab| go_back_lost_again(lab, 0)),
    ("timeouts", "timeouts-go-back-lost-again-at-receiver", |lab| go_back_lost_again(lab, 1)),
    ("timeouts", "timeouts-read-responses-lost", |lab| reads_lost(lab, &[0])),
    ("timeouts", "timeouts-read-responses-lost-two-taps", |lab| reads_lost(lab, &[0, 1])),
    ("died", "died-reads-two-taps", |lab| reads_die(lab, 1)),
    ("died", "died-several-reads-outstanding", |lab| reads_die(lab, 4)),
    ("timeouts", "timeouts-late-acks", late_acks),
    ("timeouts", "timeouts-slow-rping", slow_rping),
    ("timeouts", "timeouts-last-packets", last_packets),
    ("timeouts", "timeouts-stalled-step", stalled_step),
    ("died", "died-retries-exhausted", retries_exhausted),
    ("died", "died-stops-in-mid-message", mid_message),
    ("died", "died-in-mid-message-after-loss", mid_message_after_loss),
    ("died", "died-responder-stops-in-mid-response", responder_stops),
    ("timeouts", "timeouts-one-queue-pair-stalls", |lab| stalls_alone(lab, 1_600 * MS)),
    ("timeouts", "timeouts-one-queue-pair-stalls-to-the-end", |lab| stalls_alone(lab, u64::MAX)),
    ("control", "clean-slow-messages", slow_messages),
    ("control", "clean-two-taps-one-ends-early", one_tap_ends_early),
    ("died", "died-peer-killed", peer_killed),
    ("died", "died-peer-never-answers", never_answers),
    ("nak", "nak-remote-access", |lab| refused(lab, 2, &["nak.remote_access_error"], Verb::Write)),
    ("nak", "nak-invalid-request", |lab| refused(lab, 1, &["nak.invalid_request"], Verb::Send)),
    ("nak", "nak-remote-operational", |lab| refused(lab, 3, &["nak.remote_operational_error"], Verb::Send)),
    ("mtu", "mtu-black-hole-two-taps", |lab| black_hole(lab, &[0, 1])),
    ("mtu", "mtu-black-hole-at-sender", |lab| black_hole(lab, &[0])),
    ("mtu", "mtu-black-hole-large-only-two-taps", |lab| large_only(lab, &[0, 1])),
    ("mtu", "mtu-black-hole-large-only-at-sender", |lab| large_only(lab, &[0])),
    ("mtu", "mtu-black-hole-of-reads-at-requester", |lab| large_reads(lab, &[0])),
    ("mtu", "mtu-black-hole-of-reads-at-responder", |lab| large_reads(lab, &[1])),
    ("died", "died-large-and-small", large_and_small),
    ("latency", "latency-first-request-slowest", |lab| first_request(lab, 1, 0)),
    ("latency", "latency-deep-queue-first-slowest", |lab| first_request(lab, 24, 1_000)),
    ("latency", "latency-tail", tail),
];

const HOP: (Node, Node) = (Node::Switch(0), Node::Switch(1));
const BACK: (Node, Node) = (Node::Switch(1), Node::Switch(0));
const NOT_DATA: Match = Match { data: Some(false), src: None, dst: None, qp: None, over: None, opcode: None };
pub(super) const LOSSES: &[&str] = &[
    "retry.storm",
    "retry.timeouts",
    "loss.before_tap",
    "loss.after_tap",
    "loss.between_taps",
    "latency.tail",
];

fn tap(lab: &mut Lab, at: usize) {
    match at {
        2 => lab.world.tap_cable(HOP.0, HOP.1, "mirror.pcap"),
        host => lab.world.tap_host(host, ["h0.pcap", "h1.pcap"][host]),
    };
}

fn lost_acks(lab: &mut Lab, at: usize) {
    lab.world.line(10 * GBIT);
    lab.world.fault(BACK.0, BACK.1, Fault::always(NOT_DATA, Effect::Drop { ppm: 50_000 }));
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 16 * KB, 300).depth(1).gap(50 * US, 50 * US), 0);
    tap(lab, at);
    let pair = lab.pair(0, 1);
    lab.expect(&["retry.timeouts"], pair).also(&["loss.between_taps", "latency.tail", "retry.storm"]);
    lab.world.run();
    if at == 1 {
        acks_lost(lab);
    } else {
        // Elsewhere data may be lost as well, and few runs show which.
        most_acks_lost(lab);
    }
}

fn dead_path(lab: &mut Lab, at: usize) {
    lab.world.line(10 * GBIT);
    let range = (400 * MS, 700 * MS);
    let dead = Fault::during(range.0, range.1, Match::default(), Effect::Drop { ppm: 1_000_000 });
    lab.world.fault(HOP.0, HOP.1, dead);
    lab.world.fault(BACK.0, BACK.1, dead);
    let set = Settings { timeout_ns: 67 * MS, ..settings() };
    let ends = connections(lab, 0, 1, 5, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 240).depth(1).gap(4 * MS, MS), 0);
    tap(lab, at);
    let pair = lab.pair(0, 1);
    lab.expect_during(&["retry.timeouts"], pair, (range.0, range.1 + 100 * MS)).also(LOSSES);
}

/// The data path dies, seen at the receiver: every packet that passes the tap is new, before and after the silence.
/// The silence is in mid-message, which distinguishes it from a compute phase. Another host continues.
fn dead_path_at_receiver(lab: &mut Lab) {
    lab.world.star(3, 10 * GBIT);
    let range = (400 * MS, 700 * MS);
    let dead = Fault::during(range.0, range.1, Match::default(), Effect::Drop { ppm: 1_000_000 });
    lab.world.fault(Node::Host(0), Node::Switch(0), dead);
    let set = Settings { timeout_ns: 67 * MS, backoff: true, ..settings() };
    let ends = connections(lab, 0, 1, 5, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 4 * MB, 24).depth(2).gap(MS, MS), 0);
    goes_on(lab);
    tap(lab, 1);
    let pair = lab.pair(0, 1);
    lab.expect_during(&["retry.timeouts"], pair, (range.0, range.1 + 400 * MS)).also(LOSSES);
}

/// A figure of the evidence of `retry.timeouts`.
fn evidence(report: &serde_json::Value, name: &str) -> Option<f64> {
    let mut all = report["findings"].as_array()?.iter();
    all.find(|finding| finding["id"] == "retry.timeouts")?["evidence"][name].as_f64()
}

fn owned_by_silent_peer(report: &serde_json::Value) -> Option<f64> {
    Some(report["findings"].as_array()?.iter().filter(|one| one["owner"] == "peer.silent").count() as f64)
}

/// More packets are lost than one retransmission repairs: some go-back-N runs lose their first packet again, which a
/// timeout repairs.
fn go_back_lost_again(lab: &mut Lab, at: usize) {
    lab.world.line(10 * GBIT);
    let data = Match { data: Some(true), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(data, Effect::Drop { ppm: 30_000 }));
    let set = Settings { timeout_ns: 17 * MS, ..settings() };
    let ends = connections(lab, 0, 1, 3, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 256 * KB, 60).depth(2), 0);
    tap(lab, at);
    let pair = lab.pair(0, 1);
    lab.expect(&["retry.timeouts"], pair).also(LOSSES);
    lab.world.run();
    let timeouts = lab.world.facts.timeouts as f64;
    if at == 0 {
        lab.figure("transport timeouts", |report| evidence(report, "timeouts"), timeouts, timeouts);
    }
    most_acks_lost(lab);
}

/// As many timeouts after lost ACKs as there were.
fn acks_lost(lab: &mut Lab) {
    let lost = lab.world.facts.acks_lost as f64;
    lab.figure("timeouts of lost ACKs", |report| evidence(report, "acks_lost"), lost, lost);
}

/// No more timeouts after lost ACKs than there were.
fn most_acks_lost(lab: &mut Lab) {
    let most = lab.world.facts.acks_lost as f64;
    let found = |report: &serde_json::Value| Some(evidence(report, "acks_lost").unwrap_or(0.0));
    lab.figure("timeouts of lost ACKs", found, 0.0, most);
}

/// The last packets of READ responses are lost, and each READ is repeated after a timeout; the tap is at the
/// responder, or at both.
fn reads_lost(lab: &mut Lab, taps: &[usize]) {
    lab.world.line(10 * GBIT);
    let last = Match { opcode: Some(op::READ_LAST), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(last, Effect::Drop { ppm: 60_000 }));
    let set = Settings { timeout_ns: 17 * MS, ..settings() };
    let ends = connections(lab, 1, 0, 3, &set);
    lab.world.start(Stream::new(&ends, Verb::Read, 32 * KB, 150).depth(1).gap(100 * US, 50 * US), 0);
    for at in taps {
        tap(lab, *at);
    }
    let pair = lab.pair(1, 0);
    lab.expect(&["retry.timeouts"], pair).also(LOSSES);
    lab.world.run();
    let timeouts = lab.world.facts.timeouts as f64;
    lab.figure("transport timeouts", |report| evidence(report, "timeouts"), timeouts, timeouts);
}

/// Some ACKs take longer than the timer: nothing is lost.
fn late_acks(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let late = Effect::Delay { ppm: 20_000, ns: 25 * MS, jitter_ns: MS };
    lab.world.fault(BACK.0, BACK.1, Fault::always(NOT_DATA, late));
    let set = Settings { timeout_ns: 17 * MS, ..settings() };
    let ends = connections(lab, 0, 1, 4, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 16 * KB, 200).depth(1).gap(50 * US, 50 * US), 0);
    tap(lab, 1);
    let pair = lab.pair(0, 1);
    lab.expect(&["retry.timeouts"], pair).also(&["latency.tail"]);
    lab.never(&["loss.before_tap", "loss.after_tap", "loss.between_taps"]);
    lab.world.run();
    acks_lost(lab);
}

/// A host that sends to host 1 all the time.
fn goes_on(lab: &mut Lab) {
    let others = connections(lab, 2, 1, 2, &settings());
    lab.world.start(Stream::new(&others, Verb::Write, 64 * KB, 240).depth(1).gap(4 * MS, MS), 0);
}

/// The control: queue pairs of two hosts pause at the same time, equally long, between two messages.
fn computes(lab: &mut Lab) {
    lab.world.star(3, 10 * GBIT);
    let ends = connections(lab, 0, 1, 5, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 4 * MB, 8).depth(1), 0);
    lab.world.start(Stream::new(&ends, Verb::Write, 4 * MB, 8).depth(1), 500 * MS);
    goes_on(lab);
    tap(lab, 1);
}

/// Small SENDs, each loss of which costs a timeout of a quarter of a second.
fn slow_rping(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    lab.world.fault(HOP.0, HOP.1, Fault::always(Match::default(), Effect::Drop { ppm: 10_000 }));
    let set = Settings { timeout_ns: 4_096 << 16, ..mtu(1024) };
    let (a, b) = lab.world.connect(0, 1, &set);
    lab.world.start(PingPong { client: a, server: b, bytes: (64, 64), count: 1_500, gap_ns: 100 * US }, 0);
    tap(lab, 0);
    let pair = lab.pair(0, 1);
    lab.expect(&["retry.timeouts"], pair).also(LOSSES);
}

/// Single-packet messages, one at a time: no NAK, each loss is a timeout.
fn last_packets(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let data = Match { data: Some(true), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(data, Effect::Drop { ppm: 10_000 }));
    let ends = connections(lab, 0, 1, 4, &Settings { timeout_ns: 4_096 << 14, ..settings() });
    lab.world.start(Stream::new(&ends, Verb::WriteImm, 4 * KB, 800).depth(1).gap(100 * US, 100 * US), 0);
    tap(lab, 0);
    let pair = lab.pair(0, 1);
    lab.expect(&["retry.timeouts"], pair).also(LOSSES);
}

/// Steps of 50 ms, and one in which a cable is dead for 1.2 s.
fn stalled_step(lab: &mut Lab) {
    ring(lab, 4, 30, Compute { ns: 35 * MS, jitter_ns: MS, ..Compute::default() });
    for qp in &mut lab.world.qps {
        (qp.set.timeout_ns, qp.set.backoff) = (134 * MS, true);
    }
    let dead = Fault::during(600 * MS, 1_800 * MS, Match::default(), Effect::Drop { ppm: 1_000_000 });
    lab.world.fault(Node::Host(2), Node::Switch(0), dead);
    lab.world.tap_host(2, "h2.pcap");
    let host = lab.host(2);
    lab.expect_during(&["retry.timeouts"], host, (600 * MS, 2_100 * MS));
    lab.also(LOSSES).never(&["step.straggler", "step.slower"]);
    // At least the outage, and the last timer, which doubles: for two queue pairs at once, each moment counts once.
    lab.figure("silence that the job felt", |report| evidence(report, "felt_ns"), 1.2e9, 2.2e9);
    lab.world.run();
    // The dead cable also loses data: whether it had arrived shows only where an ACK was sent for it.
    let (least, most) = (lab.world.facts.acks_sent as f64, lab.world.facts.acks_lost as f64);
    lab.figure("timeouts of lost ACKs", |report| evidence(report, "acks_lost"), least, most);
}

/// Three hosts communicate with a fourth; the path of one of them dies permanently.
fn retries_exhausted(lab: &mut Lab) {
    lab.world.star(4, 10 * GBIT);
    let set = Settings { timeout_ns: 17 * MS, ..settings() };
    let mut ends = Vec::new();
    for host in 1..4 {
        ends.extend(connections(lab, host, 0, 2, &set));
    }
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 100).depth(1).gap(3 * MS, MS), 0);
    let dead = Fault::during(
        150 * MS,
        u64::MAX,
        Match { src: Some(2), ..Match::default() },
        Effect::Drop { ppm: 1_000_000 },
    );
    lab.world.fault(Node::Switch(0), Node::Host(0), dead);
    lab.world.tap_switch(0, "switch.pcap");
    let pair = lab.pair(2, 0);
    lab.expect_during(&["qp.died"], pair, (150 * MS, 500 * MS)).also(LOSSES).also(&["peer.silent"]);
}

/// One of four queue pairs stops within a message; the others continue for 100 ms at the least.
fn mid_message(lab: &mut Lab) {
    lab.world.line(2 * GBIT);
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.at(101 * MS, Event::Freeze(ends[1]));
    lab.world.start(Stream::new(&ends, Verb::Write, 512 * KB, 48).depth(2), 0);
    tap(lab, 0);
    let pair = lab.pair(0, 1);
    lab.expect(&["qp.died"], pair).also(&["retry.timeouts"]);
}

/// The same, after packets of each have been lost and retransmitted.
fn mid_message_after_loss(lab: &mut Lab) {
    let data = Match { data: Some(true), ..Match::default() };
    lab.world.line(2 * GBIT);
    lab.world.fault(HOP.0, HOP.1, Fault::during(0, 60 * MS, data, Effect::Drop { ppm: 5_000 }));
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.at(101 * MS, Event::Freeze(ends[1]));
    lab.world.start(Stream::new(&ends, Verb::Write, 512 * KB, 40).depth(2), 0);
    tap(lab, 1);
    let pair = lab.pair(0, 1);
    lab.expect(&["qp.died"], pair).also(LOSSES);
}

/// One of four responders stops within a response; its requester waits for a long timer.
fn responder_stops(lab: &mut Lab) {
    lab.world.line(2 * GBIT);
    let set = Settings { timeout_ns: 4_096 << 20, ..settings() };
    let ends = connections(lab, 0, 1, 4, &set);
    let responder = lab.world.qps[ends[1]].peer;
    lab.world.at(101 * MS, Event::Freeze(responder));
    lab.world.start(Stream::new(&ends, Verb::Read, 512 * KB, 48).depth(1), 0);
    tap(lab, 0);
    // Before the timer of the requester.
    lab.world.taps[0].range = (0, 2_000 * MS);
    let stopped = Expected::new(&["qp.died"], lab.pair(0, 1)).of_responder(lab.addr(1));
    lab.expect_that(stopped).also(&["retry.timeouts"]);
}

/// The path of the only queue pair between two hosts dies upstream of the tap, where every packet has been
/// acknowledged: none passes twice. Another host goes on.
fn stalls_alone(lab: &mut Lab, until: u64) {
    lab.world.star(3, 10 * GBIT);
    let dead = Fault::during(400 * MS, until, Match::default(), Effect::Drop { ppm: 1_000_000 });
    lab.world.fault(Node::Host(0), Node::Switch(0), dead);
    let set = Settings { timeout_ns: 400 * MS, ack_every: 1, window: 2, bits_per_s: GBIT / 10, ..settings() };
    let ends = connections(lab, 0, 1, 1, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 4 * MB, 8).depth(1), 0);
    goes_on(lab);
    tap(lab, 1);
    let pair = lab.pair(0, 1);
    lab.expect_during(&["retry.timeouts"], pair, (400 * MS, 2_000 * MS));
}

/// The control: a queue pair that congestion control has slowed down to some packets a second, and one that pauses
/// between its messages.
fn slow_messages(lab: &mut Lab) {
    lab.world.star(3, 10 * GBIT);
    let slow = Settings { bits_per_s: GBIT / 2_000, timeout_ns: 2_000 * MS, ..settings() };
    let ends = connections(lab, 0, 1, 1, &slow);
    lab.world.start(Stream::new(&ends, Verb::Write, 32 * KB, 4).depth(1).gap(700 * MS, 0), 0);
    let reads = connections(lab, 0, 1, 1, &settings());
    lab.world.start(Stream::new(&reads, Verb::Read, 64 * KB, 4).depth(1).gap(700 * MS, 0), 0);
    goes_on(lab);
    tap(lab, 1);
}

/// The capture at one host ends within messages, that at the other goes on for long.
fn one_tap_ends_early(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let ends = connections(lab, 0, 1, 2, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 4 * MB, 40).depth(1).gap(30 * MS, 0), 0);
    tap(lab, 0);
    tap(lab, 1);
    lab.world.taps[0].range = (0, 35 * MS);
}

/// The process behind a responder is killed: its requester retries until it gives up.
fn peer_killed(lab: &mut Lab) {
    lab.world.star(4, 10 * GBIT);
    let set = Settings { timeout_ns: 17 * MS, backoff: true, ..settings() };
    let mut ends = Vec::new();
    for host in 1..4 {
        ends.extend(connections(lab, 0, host, 2, &set));
    }
    for qp in 0..lab.world.qps.len() {
        if lab.world.qps[qp].host == 3 {
            lab.world.at(120 * MS, Event::Freeze(qp));
        }
    }
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 300).gap(3 * MS, MS), 0);
    tap(lab, 0);
    let pair = lab.pair(0, 3);
    lab.expect(&["qp.died"], pair).also(LOSSES).also(&["peer.silent"]);
}

fn never_answers(lab: &mut Lab) {
    lab.world.star(3, 10 * GBIT);
    let mut ends = connections(lab, 0, 1, 2, &settings());
    ends.extend(connections(lab, 0, 2, 2, &settings()));
    for qp in 0..lab.world.qps.len() {
        lab.world.qps[qp].frozen = lab.world.qps[qp].host == 2;
    }
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 100).gap(3 * MS, MS), 0);
    tap(lab, 0);
    let pair = lab.pair(0, 2);
    lab.expect(&["peer.silent"], pair)
        .also(&["retry.timeouts", "retry.storm"])
        .never(&["loss.after_tap", "loss.before_tap"]);
    lab.world.run();
    let timeouts = lab.world.facts.timeouts as f64;
    lab.figure("transport timeouts", |report| evidence(report, "timeouts"), timeouts, timeouts);
    lab.figure("findings that the silent peer owns", owned_by_silent_peer, 2.0, 2.0);
}

fn refused(lab: &mut Lab, code: u8, ids: &[&'static str], verb: Verb) {
    lab.world.star(3, 10 * GBIT);
    let mut ends = connections(lab, 1, 2, 2, &settings());
    ends.extend(connections(lab, 0, 2, 1, &Settings { refuse: Some((40, code)), ..settings() }));
    lab.world.start(Stream::new(&ends, verb, 64 * KB, 100).gap(MS, MS), 0);
    lab.world.tap_host(2, "h2.pcap");
    let pair = lab.pair(0, 2);
    lab.expect(ids, pair).also(&["qp.died"]);
    if ids[0] == "nak.remote_operational_error" {
        lab.figure("steps about messages longer than the receive buffers", receive_buffers, 1.0, 1.0);
    }
}

fn receive_buffers(report: &serde_json::Value) -> Option<f64> {
    let mut all = report["findings"].as_array()?.iter();
    let nak = all.find(|finding| finding["id"] == "nak.remote_operational_error")?;
    let compares = |step: &&serde_json::Value| {
        step["text"]
            .as_str()
            .is_some_and(|text| text.contains("length of the message with the receive buffers"))
    };
    Some(nak["steps"].as_array()?.iter().filter(compares).count() as f64)
}

/// Packets above 1,500 bytes are lost between two switches; queue pairs with small messages are not affected.
fn black_hole(lab: &mut Lab, taps: &[usize]) {
    lab.world.line(10 * GBIT);
    let large = Match { over: Some(1_500), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(large, Effect::Drop { ppm: 1_000_000 }));
    let small = connections(lab, 0, 1, 2, &settings());
    let big = connections(lab, 0, 1, 2, &settings());
    lab.world.start(Stream::new(&small, Verb::Send, 512, 1_000).gap(200 * US, 100 * US), 0);
    lab.world.start(
        Stream::new(&big, Verb::Send, 64 * KB, 10).mix(&[(Verb::Send, 256), (Verb::Write, 64 * KB)]),
        20 * MS,
    );
    only_small_arrive(lab, taps);
}

/// From some time on all READ responses are lost between the taps, and the requesters give up: the responses themselves
/// are not retried in vain, their requests are: all of those outstanding, from the oldest on.
fn reads_die(lab: &mut Lab, outstanding: u64) {
    lab.world.line(10 * GBIT);
    let responses = Match { data: Some(true), ..Match::default() };
    let dead = Fault::during(40 * MS, u64::MAX, responses, Effect::Drop { ppm: 1_000_000 });
    lab.world.fault(BACK.0, BACK.1, dead);
    let set = Settings { timeout_ns: 17 * MS, ..settings() };
    let ends = connections(lab, 0, 1, 2, &set);
    lab.world.start(Stream::new(&ends, Verb::Read, 64 * KB, 200).depth(outstanding).gap(MS, MS), 0);
    // Its ACKs pass both taps until the end: what does not arrive by then is lost.
    let others = connections(lab, 0, 1, 1, &settings());
    lab.world.start(Stream::new(&others, Verb::Write, 4 * KB, 400).depth(1).gap(MS, MS), 0);
    tap(lab, 0);
    tap(lab, 1);
    let pair = lab.pair(0, 1);
    lab.expect(&["qp.died"], pair).also(LOSSES).also(&["peer.silent", "loss.between_taps", "latency.tail"]);
    lab.world.run();
    let lost = lab.world.facts.lost as f64;
    // Where several READs are outstanding, a few of a thousand losses are not counted.
    let least = if outstanding == 1 { lost } else { lost * 0.99 };
    lab.figure("packets lost between the taps", lost_between_taps, least, lost);
    lab.figure("stalls beside the timeouts", |report| evidence(report, "stalls"), 0.0, 0.0);
}

/// Packets lost between taps, all findings together.
fn lost_between_taps(report: &serde_json::Value) -> Option<f64> {
    let between = report["findings"].as_array()?.iter().filter(|one| one["id"] == "loss.between_taps");
    between.map(|one| one["evidence"]["vanished"].as_f64()).sum()
}

/// The same for queue pairs without small messages, of which nothing arrives. Those with a small path MTU work.
fn large_only(lab: &mut Lab, taps: &[usize]) {
    lab.world.line(10 * GBIT);
    let large = Match { over: Some(1_500), ..Match::default() };
    lab.world.fault(HOP.0, HOP.1, Fault::always(large, Effect::Drop { ppm: 1_000_000 }));
    let small = connections(lab, 0, 1, 2, &mtu(1024));
    let big = connections(lab, 0, 1, 3, &settings());
    lab.world.start(Stream::new(&small, Verb::Write, 8 * KB, 400).gap(300 * US, 100 * US), 0);
    lab.world.start(Stream::new(&big, Verb::Write, 64 * KB, 10), 20 * MS);
    only_small_arrive(lab, taps);
}

/// The same where everything is read: the packets that are lost are responses, and their requests arrive.
fn large_reads(lab: &mut Lab, taps: &[usize]) {
    lab.world.line(10 * GBIT);
    let large = Match { over: Some(1_500), ..Match::default() };
    lab.world.fault(BACK.0, BACK.1, Fault::always(large, Effect::Drop { ppm: 1_000_000 }));
    let small = connections(lab, 0, 1, 2, &settings());
    let big = connections(lab, 0, 1, 3, &settings());
    lab.world.start(Stream::new(&small, Verb::Read, 512, 1_000).gap(200 * US, 100 * US), 0);
    lab.world.start(Stream::new(&big, Verb::Read, 64 * KB, 10), 20 * MS);
    only_small_arrive(lab, taps);
}

/// Some queue pairs have large messages and others small ones; the path of all of them dies.
fn large_and_small(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let set = Settings { timeout_ns: 17 * MS, ..settings() };
    let mut ends = connections(lab, 0, 1, 2, &set);
    lab.world.start(Stream::new(&ends, Verb::Send, 512, 2_000).gap(200 * US, 100 * US), 0);
    ends = connections(lab, 0, 1, 2, &set);
    lab.world.start(Stream::new(&ends, Verb::Write, 64 * KB, 100).gap(MS, MS), 100 * MS);
    let dead = Fault::during(101 * MS, u64::MAX, Match::default(), Effect::Drop { ppm: 1_000_000 });
    lab.world.fault(HOP.0, HOP.1, dead);
    tap(lab, 0);
    tap(lab, 1);
    let pair = lab.pair(0, 1);
    lab.expect(&["qp.died"], pair).also(LOSSES).also(&["peer.silent"]).never(&["path.mtu_black_hole"]);
}

fn only_small_arrive(lab: &mut Lab, taps: &[usize]) {
    for at in taps {
        tap(lab, *at);
    }
    let pair = lab.pair(0, 1);
    lab.expect(&["path.mtu_black_hole"], pair)
        .also(LOSSES)
        .also(&["qp.died", "peer.silent"])
        .never(&["mtu.small"]);
    lab.world.run();
    most_acks_lost(lab);
    let lost = lab.world.facts.lost as f64;
    if taps.len() == 2 {
        // All on the hop between the taps.
        lab.figure("packets lost between the taps", lost_between_taps, lost, lost);
    }
}

/// The first requests of each queue pair are answered late: that is the maximum. With `ports` of their own for each
/// packet, PSNs alone tell the queue pairs, when the first requests have passed.
fn first_request(lab: &mut Lab, depth: u64, ports: u16) {
    lab.world.line(10 * GBIT);
    let slow =
        Fault::during(0, 100 * US, NOT_DATA, Effect::Delay { ppm: 1_000_000, ns: 2 * MS, jitter_ns: 0 });
    lab.world.fault(BACK.0, BACK.1, slow);
    let mut ends = Vec::new();
    for qp in 1..=6 {
        let first_psn = 0x0010_0000 * qp;
        let ports = if ports == 0 { Ports::One(0) } else { Ports::Many(50_000, ports) };
        let set = Settings { first_psn, ports, timeout_ns: 67 * MS, ..settings() };
        ends.extend(connections(lab, 0, 1, 1, &set));
    }
    lab.world.start(Stream::new(&ends, Verb::Write, 8 * KB, 400).depth(depth).gap(100 * US, 50 * US), 0);
    tap(lab, 0);
    lab.world.run();
    // Each flow by itself: a later ACK that is not late covers the request whose own ACK is.
    let longest = lab.world.facts.longest_ack_ns.iter().filter(|ns| **ns > 0).map(|ns| *ns as f64);
    let (least, greatest) = longest.fold((f64::MAX, 0.0), |(a, b), ns| (f64::min(a, ns), f64::max(b, ns)));
    let mut figure = |name, of, longest: f64| {
        lab.figure(name, of, longest * 0.99, longest * 1.01);
    };
    figure("least maximum latency of a flow", |report| maxima(report)?.into_iter().reduce(f64::min), least);
    figure(
        "greatest maximum latency of a flow",
        |report| maxima(report)?.into_iter().reduce(f64::max),
        greatest,
    );
}

/// The maximum latency of each flow.
fn maxima(report: &serde_json::Value) -> Option<Vec<f64>> {
    let flows = report["flows"].as_array()?.iter();
    Some(flows.filter_map(|flow| flow["latency_ns"]["max"].as_f64()).collect())
}

/// One request in sixty takes three milliseconds.
fn tail(lab: &mut Lab) {
    lab.world.line(10 * GBIT);
    let slow = Fault::always(NOT_DATA, Effect::Delay { ppm: 16_000, ns: 9 * MS, jitter_ns: 2 * MS });
    lab.world.fault(BACK.0, BACK.1, slow);
    let ends = connections(lab, 0, 1, 4, &settings());
    lab.world.start(Stream::new(&ends, Verb::Write, 8 * KB, 1_200).depth(1).gap(100 * US, 50 * US), 0);
    tap(lab, 0);
    let pair = lab.pair(0, 1);
    lab.expect(&["latency.tail"], pair);
}
