//! The demonstration must show what its generator sent.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use rocescope::host::net::hook::HookChoice;
use rocescope::sample::{Direction, Sample};
use rocescope::source::demo::scenario::{BRIEF, FlowTruth, Scenario, Truth};
use rocescope::source::demo::stage::Stage;
use rocescope::source::feed::{Command, Feed, Update};
use rocescope::source::live::{self, Config};
use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::needs_root;
use rocescope_tests::schema;
use rustix::process::Signal;
use serde_json::Value;

/// The seed that the command uses.
const SEED: u64 = 4791;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Link, true for egress, source, destination, queue pair.
type Key = (String, bool, IpAddr, IpAddr, u64);

fn truths(truth: &Truth) -> BTreeMap<Key, FlowTruth> {
    let key = |k: &rocescope::source::demo::scenario::TruthKey| {
        (k.uplink.name().to_owned(), k.direction == Direction::Egress, k.src, k.dst, u64::from(k.dest_qp))
    };
    truth.flows.iter().map(|(k, flow)| (key(k), *flow)).collect()
}

/// The flows of a report in the form of the generator's counts.
fn reported(report: &Value) -> BTreeMap<Key, FlowTruth> {
    let address = |value: &Value| value.as_str().unwrap().parse::<IpAddr>().unwrap();
    let flows = report["flows"].as_array().unwrap().iter();
    flows
        .map(|flow| {
            let key = (
                flow["link"].as_str().unwrap().to_owned(),
                flow["direction"] == "egress",
                address(&flow["src"]),
                address(&flow["dst"]),
                number(&flow["dest_qp"]),
            );
            let (ack, psn) = (&flow["ack"], &flow["psn"]);
            let truth = FlowTruth {
                packets: number(&flow["packets"]),
                bytes: number(&flow["bytes"]),
                payload_bytes: number(&flow["payload_bytes"]),
                ce: number(&flow["ecn"]["ce"]),
                cnp: number(&flow["cnp_packets"]),
                gaps: number(&psn["gaps"]),
                missing: number(&psn["missing"]),
                retransmissions: number(&psn["repeats"]),
                acks: number(&ack["acks"]),
                naks: number(&ack["naks"]["psn_sequence_error"]),
                rnr_naks: number(&ack["rnr_naks"]),
            };
            (key, truth)
        })
        .collect()
}

/// Every kind of problem in the demonstration is counted.
fn all_episodes_show(sum: &FlowTruth) {
    for (what, count) in [
        ("CE marks", sum.ce),
        ("CNPs", sum.cnp),
        ("gaps", sum.gaps),
        ("missing packets", sum.missing),
        ("retransmissions", sum.retransmissions),
        ("NAKs", sum.naks),
        ("RNR NAKs", sum.rnr_naks),
        ("acknowledgements", sum.acks),
    ] {
        assert!(count > 0, "no {what}: {sum:?}");
    }
}

fn report_of(sample: &Sample) -> Value {
    let options = rocescope::analysis::Options { imbalance_all_links: true, ..Default::default() };
    let mut json = Vec::new();
    rocescope::report::json::write(&rocescope::report::Report::build(sample, &options.into()), &mut json)
        .unwrap();
    schema::read(&json).unwrap()
}

/// Stops the source after `sent` packets, and returns its last report.
fn last_report(feed: &Feed, sent: u64) -> Value {
    // The last frames may still be in transit when the player has finished.
    let late = Instant::now() + Duration::from_secs(30);
    let (mut last, mut stopping) = (None, false);
    loop {
        match feed.updates.recv_timeout(Duration::from_secs(30)).unwrap() {
            Update::Sample(sample) => {
                let report = report_of(&sample);
                if !stopping && (number(&report["totals"]["packets"]) >= sent || Instant::now() > late) {
                    stopping = true;
                    feed.commands.send(Command::Stop).unwrap();
                }
                last = Some(report);
            }
            Update::Ended(result) => {
                result.unwrap();
                return last.unwrap();
            }
            Update::Notice(_) | Update::Events(_) | Update::Restarted => {}
        }
    }
}

/// A whole cycle with access to the generator: every flow's figures must match.
#[test]
fn what_is_counted_is_what_was_sent() {
    needs_root!();
    let stage = Stage::new().unwrap();
    let running = live::start(Config {
        interfaces: stage.interfaces().to_vec(),
        netns: Some(stage.observed().try_clone().unwrap()),
        hook: HookChoice::Private,
        max_flows: 1024,
        interval: Duration::from_millis(100),
        ..Config::default()
    })
    .unwrap();
    // Half of the usual time, to increase the load.
    let scenario = Scenario::new(SEED, Duration::from_secs(6));
    let round = scenario.round();
    let player = stage.start(scenario, Some(round)).unwrap();
    let result = player.join().unwrap();
    assert_eq!((result.failed, result.first_error), (0, None));

    let report = last_report(&running.feed, result.sent);
    running.thread.join().unwrap();
    let truth = &result.truth;
    assert_eq!(number(&report["totals"]["packets"]), result.sent, "{}", report["totals"]);
    assert_eq!(number(&report["totals"]["roce_packets"]), truth.total().packets);
    let skipped: u64 = report["totals"]["skipped"].as_object().unwrap().values().map(number).sum();
    assert_eq!(skipped, truth.other_packets);
    assert_eq!(number(&report["totals"]["bytes"]), truth.total().bytes + truth.other_bytes);
    let (ours, theirs) = (reported(&report), truths(truth));
    for (key, their) in &theirs {
        assert_eq!(ours.get(key), Some(their), "{key:?}");
    }
    assert_eq!(ours.len(), theirs.len());
    all_episodes_show(&truth.total());
    assert_eq!(
        report["totals"]["lost"]["interface_drops"], 0,
        "frames dropped by the links of the demonstration"
    );
}

/// The command as a user runs it: it ends, shows every episode, and its figures match those of the generator up to
/// the time of its end.
#[test]
fn the_command_shows_every_episode_and_cleans_up() {
    needs_root!();
    let start = Instant::now();
    let ended = Program::run(Start::default(), &["demo", "--output", "json"]).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(start.elapsed() >= BRIEF, "{:?}", start.elapsed());
    for interface in ["rail0", "rail1"] {
        assert!(ended.err.contains(&format!("{interface}: native XDP and TC egress")), "{}", ended.err);
    }
    let report = ended.report().unwrap();
    let counted = reported(&report);
    let mut sum = FlowTruth::default();
    for flow in counted.values() {
        sum += *flow;
    }
    all_episodes_show(&sum);
    for direction in ["ingress", "egress"] {
        let all = report["imbalance"].as_array().unwrap();
        let entry = all.iter().find(|entry| entry["direction"] == direction).unwrap();
        assert_eq!(entry["links"], serde_json::json!(["rail0", "rail1"]));
        assert!(entry["max_over_mean"].as_f64().unwrap() > 1.05, "bad hashing is not reported: {entry}");
    }

    // The generator's traffic up to the last frame in the report. The two links are not detached at the same moment,
    // so that a difference of a few frames per flow is allowed.
    let total = number(&report["totals"]["packets"]);
    let mut scenario = Scenario::new(SEED, BRIEF);
    let frames = scenario.by_ref().take(usize::try_from(total).unwrap()).count();
    assert_eq!(frames as u64, total);
    let truth = truths(scenario.truth());
    let near = |ours: u64, theirs: u64| ours.abs_diff(theirs) <= 64;
    for (key, their) in &truth {
        let our = counted.get(key).copied().unwrap_or_default();
        assert!(near(our.packets, their.packets), "{key:?}: {our:?}, generated {their:?}");
        assert!(
            near(our.acks, their.acks) && near(our.retransmissions, their.retransmissions),
            "{key:?}: {our:?}, generated {their:?}"
        );
        assert!(
            near(our.ce, their.ce) && our.gaps.abs_diff(their.gaps) <= 1,
            "{key:?}: {our:?}, generated {their:?}"
        );
    }
    assert!(counted.keys().all(|key| truth.contains_key(key)), "flows that were never generated");
}

#[test]
fn the_command_can_be_interrupted() {
    needs_root!();
    let options = ["demo", "--output", "jsonl", "--interval", "100ms", "--hook", "tc"];
    let program = Program::start(Start::default(), &options).unwrap();
    program.wait_for_message(|text| text.contains("rail1: TC ingress and TC egress").then_some(())).unwrap();
    program.reported(|report| number(&report["totals"]["roce_packets"]) > 0).unwrap();
    program.signal(Signal::TERM).unwrap();
    let ended = program.end().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    for line in ended.lines().unwrap() {
        assert_eq!(line["source"]["kind"], "live");
    }
}
