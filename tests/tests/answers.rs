//! Responders, latencies, and rate reduction after congestion marks, compared with the output of drivers and
//! programs, and with crafted traffic.
//!
//! Pairing over all available captures with a list of their queue pairs from the drivers (49 files): 266 flows right,
//! none wrong, 1 unknown (UC, which is not acknowledged).

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use rocescope_tests::capture_file::{ETHERNET, Order, Pcap};
use rocescope_tests::craft::{self, Mac, Net, Transport};
use rocescope_tests::oracle::{binary, captures};
use serde_json::{Value, json};

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];
const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Not-ECT, ECT(0) and CE under DSCP 26.
const OFF: u8 = 26 << 2;
const ECT: u8 = OFF | 2;
const CE: u8 = OFF | 3;
/// Queue pair 100 on A, 200 on B; the source port that Linux computes for them.
const QP_A: u32 = 100;
const QP_B: u32 = 200;
const PORT: u16 = 0xC000 | (((100 * 200) & 0x3FFF) ^ ((100 * 200) >> 14));

/// Frames with their times, in any order.
#[derive(Default)]
struct Capture(Vec<(u64, Vec<u8>)>);

impl Capture {
    fn frame(&mut self, at: u64, net: &Net, port: u16, transport: &Transport) {
        let frame = craft::ethernet(Mac::SRC, Mac::DST, &net.roce(port, transport));
        self.0.push((at, frame));
    }

    /// A WRITE of 64 bytes from A to B.
    fn write(&mut self, at: u64, psn: u32, tos: u8, ack_req: bool) {
        let ext = craft::reth(0, 1, 64);
        let transport = Transport { ack_req, ..Transport::new(0x0A, QP_B, psn).ext(ext).payload([0; 64]) };
        self.frame(at, &Net::v4(A, B).tos(tos), PORT, &transport);
    }

    fn ack(&mut self, at: u64, psn: u32) {
        self.frame(at, &Net::v4(B, A).tos(ECT), PORT, &Transport::ack(QP_A, psn, 0x1F, 1));
    }

    fn cnp(&mut self, at: u64) {
        self.frame(at, &Net::v4(B, A).tos(48 << 2 | 2), 0, &Transport::cnp(QP_A));
    }

    fn report(mut self) -> Value {
        self.0.sort_by_key(|(at, _)| *at);
        let mut file = Pcap::with_snap_len(Order::Little, true, ETHERNET, 96);
        for (at, frame) in self.0 {
            file.packet(1_772_370_309 * 1_000 * MS + at, &frame);
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tap.pcap");
        std::fs::write(&path, file.finish()).unwrap();
        binary::replay(&[path], [] as [&str; 0]).unwrap()
    }
}

fn own(name: &str) -> Value {
    binary::replay(&[captures::folder().join(name)], [] as [&str; 0]).unwrap()
}

fn flow<'a>(report: &'a Value, src: &str, qp: u32) -> &'a Value {
    let mut flows = report["flows"].as_array().unwrap().iter();
    flows.find(|flow| flow["src"] == src && flow["dest_qp"] == qp).unwrap()
}

/// Identifiers and severities of the findings of some families.
fn findings(report: &Value, families: &[&str]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = report["findings"].as_array().unwrap().iter();
    let all = all.map(|finding| (text(&finding["id"]), text(&finding["severity"])));
    all.filter(|(id, _)| families.iter().any(|family| id.starts_with(family))).collect()
}

fn found(id: &str, severity: &str) -> (String, String) {
    (id.to_owned(), severity.to_owned())
}

fn near(value: &Value, expected: u64, percent: u64) -> bool {
    value.as_u64().is_some_and(|got| got.abs_diff(expected) * 100 <= expected * percent)
}

/// Queue pairs named by the programs: hosts, then the pairs of queue pairs.
type Named = (&'static str, [&'static str; 2], &'static [(u32, u32)]);

#[test]
fn pairs_are_those_that_the_programs_named() {
    let (a, b) = ("10.0.0.1", "10.0.0.2");
    let named: &[Named] = &[
        ("a1_write_mtu1024.h0.pcap", [a, b], &[(17, 17), (18, 18)]),
        ("b1_send.h1.pcap", [a, b], &[(42, 42)]),
        ("b2_read.h0.pcap", [a, b], &[(44, 44), (45, 45)]),
        ("c1_ipv6_write.h0.pcap", ["fd00::1", "fd00::2"], &[(57, 57)]),
        ("d1_vlan_write.h0.pcap", ["10.1.0.1", "10.1.0.2"], &[(63, 63)]),
        ("e1_loss1.h1.pcap.gz", [a, b], &[(21, 21), (22, 22), (23, 23), (24, 24)]),
        ("e3_reorder.h0.pcap.gz", [a, b], &[(21, 21), (22, 22), (23, 23), (24, 24)]),
        ("f1_ecn_red.h1.pcap.gz", [a, b], &[(25, 25), (26, 26), (27, 27), (28, 28)]),
        ("h1_rping.h0.pcap", [a, b], &[(35, 35)]),
        ("h2_cm_write.h0.pcap", [a, b], &[(36, 36), (37, 37), (38, 38)]),
        ("k1_ecmp_ring.uA0.pcap.gz", ["10.0.1.2", "10.0.2.1"], &[(0x15, 0x11), (0x16, 0x12), (0x18, 0x14)]),
        (
            "k1_ecmp_ring.uA0.pcap.gz",
            ["10.0.2.2", "10.0.1.1"],
            &[(0x15, 0x15), (0x16, 0x16), (0x17, 0x17), (0x18, 0x18)],
        ),
        ("k1_ecmp_ring.uA1.pcap.gz", ["10.0.1.2", "10.0.2.1"], &[(0x17, 0x13)]),
    ];
    let mut wrong = Vec::new();
    for (name, [one, other], pairs) in named {
        let report = own(name);
        for (one_qp, other_qp) in *pairs {
            for (src, qp, expected) in [(one, other_qp, one_qp), (other, one_qp, other_qp)] {
                let flow = flow(&report, src, *qp);
                if flow["peer_qp"] != *expected || flow["pairing"]["confidence"] == "likely" {
                    wrong.push(format!("{name} {src} QP {qp}: {} {}", flow["peer_qp"], flow["pairing"]));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Pairs are mutual in every capture, and unconnected flows are not paired.
#[test]
fn pairs_are_mutual() {
    let mut pairs = 0;
    for capture in captures::own().unwrap() {
        let report = binary::replay(std::slice::from_ref(&capture), [] as [&str; 0]).unwrap();
        let flows = report["flows"].as_array().unwrap();
        for flow in flows.iter().filter(|flow| !flow["peer_qp"].is_null() && flow["dest_qp"] != 1) {
            let back = |other: &&Value| {
                other["link"] == flow["link"]
                    && other["src"] == flow["dst"]
                    && other["dst"] == flow["src"]
                    && other["dest_qp"] == flow["peer_qp"]
            };
            if let Some(back) = flows.iter().find(back) {
                assert_eq!(back["peer_qp"], flow["dest_qp"], "{}: {flow}", capture.display());
                pairs += 1;
            }
            assert!(!flow["pairing"].is_null(), "{}: {flow}", capture.display());
        }
    }
    assert!(pairs > 80, "{pairs}");
}

#[test]
fn latency_is_the_time_from_request_to_answer() {
    let mut capture = Capture::default();
    for i in 0..1_000u32 {
        let at = u64::from(i) * 200 * US;
        capture.write(at, i, OFF, true);
        capture.ack(at + if i % 50 == 49 { 400 * US } else { 20 * US + u64::from(i) }, i);
    }
    let report = capture.report();
    let flow = flow(&report, "10.0.0.1", QP_B);
    let latency = &flow["latency_ns"];
    // The first request passes before an ACK has been seen, and is measured once its ACK flow is known.
    assert_eq!((&flow["latency_unpaired"], &latency["count"]), (&json!(0), &json!(1_000)));
    assert!(near(&latency["p50"], 20_500, 7), "{latency}");
    // An ACK after 400 µs is overtaken by that of the next request, which covers both.
    assert!(near(&latency["p99"], 220_500, 7) && near(&latency["max"], 400_000, 1), "{latency}");
    assert_eq!(flow["latency_by_class"]["write_send"], *latency);
    assert_eq!((&flow["peer_qp"], &flow["pairing"]["how"]), (&json!(QP_A), &json!("port_rule")));
}

#[test]
fn one_acknowledgement_answers_all_before_it_and_repeats_answer_nothing() {
    let mut capture = Capture::default();
    capture.write(0, 0, OFF, true);
    capture.ack(10 * US, 0);
    for psn in 1..=8 {
        capture.write(1_000 * US + u64::from(psn) * US, psn, OFF, true);
    }
    capture.ack(1_100 * US, 8);
    capture.write(2_000 * US, 9, OFF, true);
    capture.write(2_500 * US, 9, OFF, true);
    capture.ack(2_600 * US, 9);
    capture.write(3_000 * US, 10, OFF, true);
    let report = capture.report();
    let flow = flow(&report, "10.0.0.1", QP_B);
    assert_eq!(flow["latency_ns"]["count"], 9);
    assert!(near(&flow["latency_ns"]["max"], 99 * US, 1), "{}", flow["latency_ns"]);
    assert_eq!(
        flow["latency_untimed"],
        json!({ "ambiguous": 1, "ring_full": 0, "untracked": 0, "outstanding": 1 })
    );
}

/// perftest's ping-pong of 64 bytes measured 135 µs one way typically, and 53 µs at least; an ACK takes less time
/// than the reply of the program.
#[test]
fn latencies_of_real_captures() {
    for (name, src, qp, class, least, most) in [
        ("b2_read.h0.pcap", "10.0.0.1", 44, "read", 500 * US, 3_000 * US),
        ("b5_ops_full.h0.pcap", "10.0.0.1", 52, "atomic", 20 * US, 1_000 * US),
        ("b5_ops_full.h0.pcap", "10.0.0.1", 52, "write_send", 20 * US, 1_000 * US),
        // 24 Mb/s with a queue of some 100 packets.
        ("f1_ecn_red.h1.pcap.gz", "10.0.0.1", 25, "write_send", 20 * US, 1_000 * US),
    ] {
        let report = own(name);
        let latency = &flow(&report, src, qp)["latency_by_class"][class];
        let p50 = latency["p50"].as_u64().unwrap();
        assert!((least..most).contains(&p50), "{name}: {latency}");
        for pair in ["p50", "p99", "p999", "max"].windows(2) {
            assert!(latency[pair[0]].as_u64() <= latency[pair[1]].as_u64(), "{name}: {latency}");
        }
    }
}

/// `slow` of a thousand requests take `long`, the others `short`.
fn with_tail(slow: u32, long: u64, short: u64) -> Value {
    let mut capture = Capture::default();
    for i in 0..2_000u32 {
        let at = u64::from(i) * 20 * MS;
        capture.write(at, i, ECT, true);
        capture.ack(at + if i * slow % 1_000 < slow { long } else { short }, i);
    }
    capture.report()
}

#[test]
fn a_long_tail_is_found_and_a_short_one_is_not() {
    let families = ["latency."];
    assert_eq!(findings(&with_tail(20, 8 * MS, 20 * US), &families), [found("latency.tail", "warning")]);
    assert_eq!(findings(&with_tail(20, 2 * MS, 60 * US), &families), [found("latency.tail", "info")]);
    assert_eq!(findings(&with_tail(20, 900 * US, 20 * US), &families), [], "short in all");
    assert_eq!(findings(&with_tail(20, 8 * MS, MS), &families), [], "everything is slow");
    assert_eq!(findings(&with_tail(5, 8 * MS, 20 * US), &families), [], "fewer than one in a hundred");
}

/// A congested flow near its receiver.
struct Congested {
    /// One packet in this many is marked.
    one_in: u32,
    packets: u32,
    /// Minimum time between CNPs; `None`: there are none.
    pace: Option<u64>,
    /// Marks are set downstream of this tap.
    behind: bool,
}

impl Congested {
    fn report(&self) -> Value {
        let mut capture = Capture::default();
        let (mut at, mut gap, mut reported, mut slow_until) = (0, 10 * US, 0, 0);
        for psn in 0..self.packets {
            let marked = psn % self.one_in == self.one_in - 1;
            let tos = if marked && !self.behind { CE } else { ECT };
            capture.write(at, psn, tos, psn % 16 == 15);
            if psn % 16 == 15 {
                capture.ack(at + 5 * US, psn);
            }
            if let Some(pace) = self.pace
                && marked
                && at >= reported + pace
            {
                reported = at;
                capture.cnp(at + 30 * US);
                (gap, slow_until) = (20 * US, at + 5 * MS);
            }
            if at > slow_until {
                gap = 10 * US;
            }
            at += gap;
        }
        capture.report()
    }
}

const CONGESTED: Congested = Congested { one_in: 50, packets: 20_000, pace: Some(10 * MS), behind: false };
const FAMILIES: [&str; 2] = ["ecn.", "cnp."];

#[test]
fn a_notification_names_its_data_its_delay_and_what_the_sender_did() {
    let report = CONGESTED.report();
    let notified = flow(&report, "10.0.0.2", QP_A);
    let cnp = &notified["cnp"];
    assert_eq!(cnp["answers"]["src"], "10.0.0.1");
    assert_eq!(cnp["answers"]["dest_qp"], QP_B);
    assert_eq!(cnp["without_ce"], 0);
    assert_eq!(cnp["delay_ns"]["count"], notified["cnp_packets"]);
    assert!(notified["cnp_packets"].as_u64() > Some(10), "{cnp}");
    // Marks come every 500 µs or 1 ms, CNPs every 10 ms: the first mark is older by that time.
    assert!(cnp["delay_ns"]["p50"].as_u64().is_some_and(|ns| (8 * MS..11 * MS).contains(&ns)), "{cnp}");
    assert!(cnp["min_interval_ns"].as_u64() >= Some(10 * MS), "{cnp}");
    assert!(cnp["per_second"].as_f64().is_some_and(|n| (80.0..100.0).contains(&n)), "{cnp}");
    // Frames of 138 bytes every 10 µs, then every 20 µs.
    let wire = 14 + 20 + 8 + 12 + 16 + 64 + 4;
    assert!(near(&cnp["rate_before_bps"], wire * 8 * 100_000, 5), "{cnp}");
    assert!(near(&cnp["rate_after_bps"], wire * 8 * 50_000, 5), "{cnp}");
    assert_eq!(cnp["rate_window_ns"], 1 << 20);
    let link = &report["links"][0]["ecn_over_time"];
    let sum = |of: &Value| of.as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>();
    let data = flow(&report, "10.0.0.1", QP_B);
    assert_eq!((sum(&link["capable"]), sum(&link["ce"])), (20_000, 400));
    assert_eq!(json!(sum(&link["cnp"])), notified["cnp_packets"]);
    assert_eq!((sum(&data["ce_over_time"]["ce"]), &data["ecn"]["ce"]), (400, &json!(400)));
}

#[test]
fn marks_that_nobody_answers_are_found() {
    let report = CONGESTED.report();
    assert_eq!(findings(&report, &FAMILIES), [found("ecn.congestion", "warning")]);
    let silent = Congested { pace: None, ..CONGESTED }.report();
    let both = [found("ecn.no_cnp", "warning"), found("ecn.congestion", "warning")];
    assert_eq!(findings(&silent, &FAMILIES), both);
    // One CNP is enough, since their number depends on the NIC's pacing.
    let paced = Congested { pace: Some(150 * MS), ..CONGESTED }.report();
    assert_eq!(paced["totals"]["cnp_packets"], 1);
    assert_eq!(findings(&paced, &FAMILIES), [found("ecn.congestion", "warning")]);
    // 99 marks; or 150 of them in 30,000 packets.
    let few = Congested { one_in: 50, packets: 4_999, pace: None, behind: false }.report();
    assert_eq!(findings(&few, &FAMILIES), []);
    let thin = Congested { one_in: 200, packets: 30_000, pace: Some(MS), behind: false }.report();
    assert_eq!(findings(&thin, &FAMILIES), []);
}

/// Without the reverse direction, missing CNPs are no evidence.
#[test]
fn a_tap_on_one_way_misses_no_cnps() {
    let mut capture = Capture::default();
    for psn in 0..20_000 {
        capture.write(u64::from(psn) * 10 * US, psn, if psn % 50 == 0 { CE } else { ECT }, psn % 16 == 0);
    }
    let report = capture.report();
    assert_eq!(findings(&report, &FAMILIES), [found("ecn.congestion", "warning")]);
    assert_eq!(flow(&report, "10.0.0.1", QP_B)["latency_ns"], Value::Null);
    assert_eq!(flow(&report, "10.0.0.1", QP_B)["latency_unpaired"], 1_250);
}

#[test]
fn notifications_for_unmarked_data_are_said_but_alarm_nobody() {
    let behind = Congested { behind: true, ..CONGESTED }.report();
    assert_eq!(findings(&behind, &FAMILIES), [found("cnp.without_ce", "info")]);
    let cnp = &flow(&behind, "10.0.0.2", QP_A)["cnp"];
    assert_eq!(
        (&cnp["delay_ns"], &cnp["without_ce"]),
        (&Value::Null, &flow(&behind, "10.0.0.2", QP_A)["cnp_packets"])
    );
    let few = Congested { behind: true, pace: Some(30 * MS), ..CONGESTED }.report();
    assert!(few["totals"]["cnp_packets"].as_u64() < Some(10));
    assert_eq!(findings(&few, &FAMILIES), []);
}

#[test]
fn data_without_ecn_is_reported() {
    let with = |off: u32| {
        let mut capture = Capture::default();
        for psn in 0..3_000 {
            capture.write(
                u64::from(psn) * 10 * US,
                psn,
                if psn % 100 < off { OFF } else { ECT },
                psn % 16 == 0,
            );
        }
        findings(&capture.report(), &FAMILIES)
    };
    assert_eq!(with(100), [found("ecn.not_capable", "info")]);
    assert_eq!(with(6), [found("ecn.not_capable", "info")]);
    assert_eq!(with(4), []);
}

/// Soft-RoCE sends no CNPs: the finding that its marks have no effect is correct.
#[test]
fn findings_of_real_captures() {
    let families = ["ecn.", "cnp.", "latency."];
    for name in ["f1_ecn_red.h1.pcap.gz", "f1b_ecn_red_mild.h1.pcap.gz"] {
        let both = [found("ecn.no_cnp", "warning"), found("ecn.congestion", "warning")];
        assert_eq!(findings(&own(name), &families), both, "{name}");
    }
    for capture in captures::own().unwrap() {
        let report = binary::replay(std::slice::from_ref(&capture), [] as [&str; 0]).unwrap();
        let marked = capture.file_name().is_some_and(|name| name.to_string_lossy().starts_with("f1"));
        for (id, severity) in findings(&report, &families) {
            assert!(marked || severity == "info", "{}: {id}", capture.display());
        }
    }
}
