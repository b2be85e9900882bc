//! Timing on a real link: the report of a live run contains latencies, the pairing of flows, and the number of
//! unmeasured requests.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::time::{Duration, Instant};

use rocescope_tests::craft::{self, Mac, Net, Transport};
use rocescope_tests::live::program::{Ended, Program};
use rocescope_tests::live::wire::{Link, World};
use rocescope_tests::needs_root;
use serde_json::Value;

/// Both directions of a connection use one port, which pairs them.
const PORT: u16 = 50_123;
const REQUESTS: u32 = 100;
/// Minimum latency of an ACK.
const DELAY: Duration = Duration::from_millis(3);
const QPS: (u32, u32) = (0x100, 0x200);

fn frame(net: &Net, transport: &Transport) -> Vec<u8> {
    craft::ethernet(Mac::SRC, Mac::DST, &net.roce(PORT, transport))
}

fn there() -> Net {
    Net::v4([10, 8, 0, 1], [10, 8, 0, 2])
}

fn back() -> Net {
    Net::v4([10, 8, 0, 2], [10, 8, 0, 1])
}

fn request(psn: u32) -> Vec<u8> {
    let transport = Transport { ack_req: true, ..Transport::new(0x04, QPS.0, psn).payload(vec![1; 64]) };
    frame(&there(), &transport)
}

fn answer(psn: u32) -> Vec<u8> {
    frame(&back(), &Transport::ack(QPS.1, psn, 0, psn))
}

/// Watches the near end while `traffic` is sent.
fn watched(more: &[&str], traffic: impl FnOnce(&Link, &Program)) -> Ended {
    let (world, link) = World::with_link(1500).unwrap();
    let options = [&["-i", "near0", "--output", "jsonl", "--interval", "100ms"], more].concat();
    let program = Program::live(&world.near, &options).unwrap();
    traffic(&link, &program);
    program.interrupt().unwrap()
}

fn last(ended: &Ended) -> Value {
    assert!(ended.status.success(), "{ended:?}");
    ended.lines().unwrap().pop().unwrap()
}

fn flow(report: &Value, qp: u32) -> &Value {
    report["flows"].as_array().unwrap().iter().find(|flow| flow["dest_qp"] == qp).unwrap()
}

/// Requests leave at the near end, and their ACKs arrive there after a delay. Returns the longest delay.
fn converse(link: &Link) -> Duration {
    let mut longest = Duration::ZERO;
    for psn in 1..=REQUESTS {
        let start = Instant::now();
        link.near.send(&request(psn)).unwrap();
        std::thread::sleep(DELAY);
        link.far.send(&answer(psn)).unwrap();
        longest = longest.max(start.elapsed());
    }
    longest
}

#[test]
fn answers_are_timed() {
    needs_root!();
    let mut longest = Duration::ZERO;
    let ended = watched(&[], |link, program| {
        longest = converse(link);
        program.reported(|report| report["totals"]["roce_packets"] == 2 * u64::from(REQUESTS)).unwrap();
    });
    let report = last(&ended);
    let asking = flow(&report, QPS.0);
    let latency = &asking["latency_ns"];
    let number = |value: &Value| value.as_u64().unwrap();
    let (count, unpaired) = (number(&latency["count"]), number(&asking["latency_unpaired"]));
    // Requests before the first ACK was seen and reported have no pair.
    assert_eq!(count + unpaired, u64::from(REQUESTS), "{asking}");
    assert!(count > u64::from(REQUESTS) / 2, "{asking}");
    let least = u64::try_from(DELAY.as_nanos()).unwrap();
    // Percentiles are accurate to 1/16.
    assert!(number(&latency["p50"]) >= least - least / 16, "{latency}");
    assert!(
        number(&latency["max"]) <= u64::try_from(longest.as_nanos()).unwrap() + least,
        "{latency}, {longest:?}"
    );
    assert_eq!(number(&asking["latency_by_class"]["write_send"]["count"]), count);
    assert_eq!(asking["latency_untimed"]["outstanding"], 0);
    assert_eq!((&asking["peer_qp"], &asking["pairing"]["how"]), (&QPS.1.into(), &"shared_port".into()));
    let answering = flow(&report, QPS.1);
    assert_eq!((&answering["peer_qp"], &answering["latency_ns"]), (&QPS.0.into(), &Value::Null));
}

#[test]
fn without_timing_there_are_pairs_and_no_times() {
    needs_root!();
    let ended = watched(&["--no-timing"], |link, program| {
        for psn in 1..=10 {
            link.near.send(&request(psn)).unwrap();
            link.far.send(&answer(psn)).unwrap();
        }
        program.reported(|report| report["totals"]["roce_packets"] == 20).unwrap();
    });
    let report = last(&ended);
    let asking = flow(&report, QPS.0);
    assert_eq!(asking["peer_qp"], QPS.1);
    for name in ["latency_ns", "latency_by_class", "latency_unpaired", "latency_untimed", "loss"] {
        assert!(asking[name].is_null(), "{name}: {asking}");
    }
}

/// A retired flow releases its entry, and starts again as a new flow.
#[test]
fn retired_flows_are_timed_anew() {
    needs_root!();
    let ended = watched(&["--idle", "300ms"], |link, program| {
        for round in 1..=3u64 {
            converse(link);
            let packets = round * 2 * u64::from(REQUESTS);
            program.reported(|report| report["totals"]["retired"]["packets"] == packets).unwrap();
        }
        converse(link);
        program.reported(|report| report["totals"]["roce_packets"] == 8 * u64::from(REQUESTS)).unwrap();
    });
    let report = last(&ended);
    let asking = flow(&report, QPS.0);
    let number = |value: &Value| value.as_u64().unwrap();
    let (count, unpaired) = (number(&asking["latency_ns"]["count"]), number(&asking["latency_unpaired"]));
    assert_eq!(count + unpaired, u64::from(REQUESTS), "{asking}");
    assert!(count > u64::from(REQUESTS) / 2, "{asking}");
    assert_eq!(report["totals"]["retired"]["flows"], 6);
}

#[test]
fn a_peer_that_does_not_answer_is_found() {
    needs_root!();
    let ended = watched(&[], |link, program| {
        for psn in 1..=5 {
            link.near.send(&request(psn)).unwrap();
        }
        // The same request repeatedly, some readings apart.
        for round in 1..=8u64 {
            link.near.send(&request(5)).unwrap();
            program.reported(|report| report["totals"]["roce_packets"] == 5 + round).unwrap();
            std::thread::sleep(Duration::from_millis(120));
        }
    });
    let report = last(&ended);
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["id"] == "peer.silent"), "{findings:?}");
}

/// Two of a hundred packets are lost and retransmitted by go-back-N.
#[test]
fn loss_is_reported() {
    needs_root!();
    let ended = watched(&[], |link, program| {
        for psn in (1..=20).chain(23..=30) {
            link.near.send(&request(psn)).unwrap();
            if psn <= 20 {
                link.far.send(&answer(psn)).unwrap();
            }
            // The pair must be known first.
            std::thread::sleep(Duration::from_millis(5));
        }
        link.far.send(&frame(&back(), &Transport::ack(QPS.1, 21, 0x60, 20))).unwrap();
        for psn in 21..=40 {
            link.near.send(&request(psn)).unwrap();
        }
        program.reported(|report| report["totals"]["roce_packets"] == 20 + 20 + 8 + 1 + 20).unwrap();
        std::thread::sleep(Duration::from_millis(250));
    });
    let report = last(&ended);
    let loss = &flow(&report, QPS.0)["loss"];
    assert_eq!(
        (&loss["lost"], &loss["retransmitted"], &loss["before_tap"]["episodes"], &loss["retransmission"]),
        (&2.into(), &8.into(), &1.into(), &"go_back_n".into()),
        "{loss}"
    );
}
