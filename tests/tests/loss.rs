//! Conclusions of `rocescope replay` about loss, its place, rejected and damaged packets: from real captures with
//! counts of queues and drivers (tests/data/README.md), and from crafted ones just above or below a threshold.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::path::PathBuf;

use rocescope_tests::capture_file::{Order, Pcap, PcapNg};
use rocescope_tests::craft::{self, Icrc, Mac, Net, Transport};
use rocescope_tests::oracle::{binary, captures};
use serde_json::Value;
use tempfile::TempDir;

const MS: u64 = 1_000_000;
const START: u64 = 1_800_000_000_000_000_000;
const ETHERNET: u16 = 1;
const FAMILIES: [&str; 8] = ["loss.", "nak.", "rnr.", "retry.", "icrc.", "peer.", "qp.", "cnp."];

fn replay(names: &[&str]) -> Value {
    let files: Vec<PathBuf> = names.iter().map(|name| captures::folder().join(name)).collect();
    binary::replay(&files, [] as [&str; 0]).unwrap()
}

/// Ids of findings of these families without an owner, each with its severity.
fn found(report: &Value) -> Vec<(String, String)> {
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap().iter().filter(|one| one["owner"].is_null());
    let own =
        findings.filter(|finding| FAMILIES.iter().any(|family| text(finding, "id").starts_with(family)));
    own.map(|finding| (text(finding, "id"), text(finding, "severity"))).collect()
}

fn ids(report: &Value) -> Vec<String> {
    let mut ids: Vec<String> = found(report).into_iter().map(|(id, _)| id).collect();
    ids.sort();
    ids
}

fn evidence(report: &Value, id: &str, name: &str) -> u64 {
    let finding = report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id).unwrap();
    finding["evidence"][name].as_u64().unwrap()
}

/// The sum of a figure of `flows[].loss`.
fn sum(report: &Value, name: &str) -> u64 {
    let flows = report["flows"].as_array().unwrap().iter();
    flows.filter_map(|flow| flow["loss"][name].as_u64()).sum()
}

/// The queue between the taps reported 92 dropped packets.
#[test]
fn loss_between_two_hosts_is_placed_from_either_side() {
    let near = replay(&["e1_loss1.h0.pcap.gz"]);
    // One tap does not distinguish loss downstream from reordering: the cost is the problem, which owns the info.
    assert_eq!(found(&near), [("retry.storm".into(), "critical".into())]);
    let after = near["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "loss.after_tap");
    let after = after.unwrap();
    assert_eq!((&after["severity"], &after["owner"]), (&"info".into(), &"retry.storm".into()), "{after}");
    assert_eq!((sum(&near, "lost"), sum(&near, "recovered")), (0, 0));
    // The sender's driver counted 49 sequence errors; one more NAK arrived when it had already gone back.
    let asked = evidence(&near, "loss.after_tap", "asked_again");
    assert!((45..=50).contains(&asked), "{asked}");

    let far = replay(&["e1_loss1.h1.pcap.gz"]);
    assert_eq!(ids(&far), ["loss.before_tap"]);
    // If a PSN is lost twice in succession, its gap is seen only once.
    let lost = evidence(&far, "loss.before_tap", "lost");
    assert!((80..=92).contains(&lost), "{lost}");
    for flow in far["flows"].as_array().unwrap().iter().filter(|flow| flow["loss"]["lost"].as_u64() > Some(0))
    {
        assert_eq!(flow["loss"]["retransmission"], "go_back_n");
    }

    let both = replay(&["e1_loss1.h0.pcap.gz", "e1_loss1.h1.pcap.gz"]);
    assert_eq!(ids(&both), ["loss.between_taps"]);
    assert_eq!(evidence(&both, "loss.between_taps", "vanished"), 92);
    for tap in both["taps"].as_array().unwrap() {
        let sent = tap["src"] == "10.0.0.1";
        assert_eq!(tap["from"], if sent { "e1_loss1.h0.pcap.gz" } else { "e1_loss1.h1.pcap.gz" });
        assert!(sent || tap["vanished"] == 0, "{tap}");
    }
}

#[test]
fn reordering_is_no_loss() {
    let far = replay(&["e3_reorder.h1.pcap.gz"]);
    // Of 92 skipped PSNs.
    assert!(sum(&far, "recovered") >= 90 && sum(&far, "lost") <= 1, "{}", sum(&far, "lost"));
    // The timeouts belong to the retransmissions that reordering causes.
    assert_eq!(ids(&far), ["retry.storm"]);
    let both = replay(&["e3_reorder.h0.pcap.gz", "e3_reorder.h1.pcap.gz"]);
    assert_eq!(ids(&both), ["retry.storm"]);
    for report in [&far, &both] {
        assert_eq!(evidence(report, "retry.storm", "timeouts"), 11);
        assert_eq!(evidence(report, "retry.timeouts", "timeouts"), 11);
    }
    assert!(both["taps"].as_array().unwrap().iter().all(|tap| tap["vanished"] == 0));
}

/// Lost READ responses, and requests in between that are acknowledged.
#[test]
fn lost_answers_differ_from_requests_without_response() {
    let names = ["h6_rping_loss.h0.pcap.gz", "h6_rping_loss.h1.pcap.gz"];
    let both = replay(&names);
    assert_eq!(found(&both), [("loss.between_taps".into(), "critical".into())]);
    // The last of the 15 comes after the last packet that both taps saw.
    assert_eq!(evidence(&both, "loss.between_taps", "vanished"), 14);
    let far = replay(&names[1..]);
    let flow =
        far["flows"].as_array().unwrap().iter().find(|flow| flow["loss_responses"].is_object()).unwrap();
    let (loss, skipped) = (&flow["loss_responses"], &flow["psn_responses"]["missing"]);
    assert_eq!((loss["unfilled"].as_u64(), loss["lost"].as_u64()), (Some(0), Some(3)), "{flow:#}");
    assert!(flow["responses_missing"].as_u64() < skipped.as_u64(), "{flow:#}");
}

/// A queue that duplicated 44 packets: the duplicates are not loss on the path to a tap upstream of the duplication.
#[test]
fn what_a_network_doubles_is_no_loss() {
    let names = ["e4_dup.h0.pcap.gz", "e4_dup.h1.pcap.gz"];
    let both = replay(&names);
    for report in [&both, &replay(&names[..1]), &replay(&names[1..])] {
        assert_eq!(found(report), []);
    }
    let taps = both["taps"].as_array().unwrap();
    assert!(taps.iter().all(|tap| tap["vanished"] == 0), "{taps:#?}");
    let of = |tap: &Value| tap["links"].as_array().unwrap().iter().position(|link| link == names[1]).unwrap();
    let doubled: u64 = taps.iter().map(|tap| tap["copies_at"][of(tap)].as_u64().unwrap()).sum();
    let there: u64 = taps.iter().map(|tap| tap["copies_at"][1 - of(tap)].as_u64().unwrap()).sum();
    assert_eq!((there, doubled), (0, 44));
}

#[test]
fn healthy_captures_raise_no_alarm() {
    for name in [
        "a1_write_mtu1024.h0.pcap",
        "b1_send.h1.pcap",
        "b2_read.h0.pcap",
        "b5_ops_full.h0.pcap",
        "b6_uc.h1.pcap",
        "b7_ud_ops.h1.pcap",
        "c1_ipv6_write.h0.pcap",
        "d1_vlan_write.h0.pcap",
        "f1_ecn_red.h1.pcap.gz",
        "h1_rping.h0.pcap",
        "h2_cm_write.h0.pcap",
        "k1_ecmp_ring.uA0.pcap.gz",
        "l1_any_sll2.any.pcap",
        "n1_vxlan_ops.x0.pcap",
    ] {
        assert_eq!(found(&replay(&[name])), [], "{name}");
    }
    // Two uplinks carry different flows; the same frames twice are two taps without loss in between.
    assert_eq!(found(&replay(&["k1_ecmp_ring.uA0.pcap.gz", "k1_ecmp_ring.uA1.pcap.gz"])), []);
}

/// The figures of the findings. Each tap has its own place of damage.
fn numbers(report: &Value) -> Vec<(String, Value)> {
    let findings = report["findings"].as_array().unwrap().iter();
    let mut all: Vec<(String, Value)> = findings
        .map(|finding| {
            let mut evidence = finding["evidence"].clone();
            evidence.as_object_mut().unwrap().remove("link");
            (finding["id"].as_str().unwrap().to_owned(), evidence)
        })
        .collect();
    all.sort_by_key(|(id, evidence)| (id.clone(), evidence.to_string()));
    all.dedup_by(|a, b| a == b && ["icrc.errors", "capture.duplicates"].contains(&a.0.as_str()));
    all
}

/// A second tap that sees the same packets changes no figure: neither of the findings, nor the flows and packets of
/// their evidence.
#[test]
fn a_second_tap_changes_no_number() {
    let folder = tempfile::tempdir().unwrap();
    let mut findings = 0;
    for capture in captures::own().unwrap() {
        let copy = folder.path().join(format!("copy_{}", capture.file_name().unwrap().to_string_lossy()));
        std::fs::copy(&capture, &copy).unwrap();
        let taps = [capture, copy];
        let once = numbers(&binary::replay(&taps[..1], [] as [&str; 0]).unwrap());
        let twice = numbers(&binary::replay(&taps, [] as [&str; 0]).unwrap());
        assert_eq!(once, twice, "{}", taps[0].display());
        findings += once.len();
    }
    assert!(findings > 30, "{findings} findings compared");
}

#[test]
fn refused_and_damaged_packets_are_named() {
    assert_eq!(ids(&replay(&["g_rnr.h0.pcap"])), ["rnr.slow_receiver"]);
    let denied = replay(&["g_badrkey.h0.pcap"]);
    assert_eq!(found(&denied), [("nak.remote_access_error".into(), "critical".into())]);
    let damaged = replay(&["e5_corrupt_full.h1.pcap"]);
    assert_eq!(evidence(&damaged, "icrc.errors", "bad"), 3);
    assert_eq!(damaged["links"][0]["icrc"]["checked"], 71);
    // Truncated frames are not evaluated; of 70 bytes only ACKs are complete.
    let cut = replay(&["e1_loss1.h0.pcap.gz"]);
    let icrc = &cut["links"][0]["icrc"];
    assert_eq!((icrc["checked"].as_u64(), icrc["bad"].as_u64()), (Some(444), Some(0)));
    assert_eq!(icrc["unchecked"], 9_170);
}

/// A capture under construction: host 1 writes to QP 17 of host 2, which acknowledges to QP 18.
struct Made {
    frames: Vec<(u64, Vec<u8>)>,
    now_ns: u64,
    id: u16,
}

impl Made {
    fn new() -> Self {
        Self { frames: Vec::new(), now_ns: START, id: 0 }
    }

    fn frame(&mut self, net: &Net, transport: &Transport) {
        self.now_ns += 20_000;
        let packet = net.roce(50_000, transport);
        self.frames.push((self.now_ns, craft::ethernet(Mac::SRC, Mac::DST, &packet)));
    }

    fn write(&mut self, psn: u32, icrc: Icrc) {
        self.id = self.id.wrapping_add(1);
        let net = Net { id: self.id, ..Net::v4([10, 0, 0, 1], [10, 0, 0, 2]) };
        let middle = Transport { icrc, ack_req: true, ..Transport::new(7, 17, psn).payload(vec![7; 64]) };
        self.frame(&net, &middle);
    }

    fn send(&mut self, psns: impl IntoIterator<Item = u32>) {
        for psn in psns {
            self.write(psn, Icrc::Right);
        }
    }

    fn answer(&mut self, psn: u32, syndrome: u8) {
        self.frame(&Net::v4([10, 0, 0, 2], [10, 0, 0, 1]), &Transport::ack(18, psn, syndrome, 0));
    }

    /// Writes the capture to a temporary folder, which is removed with the first value.
    fn write_as(&self, name: &str, shift_ns: i64, keep: impl Fn(usize) -> bool) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut file = Pcap::new(Order::Little, true, ETHERNET);
        for (_, (time_ns, frame)) in self.frames.iter().enumerate().filter(|(at, _)| keep(*at)) {
            file.packet(time_ns.wrapping_add_signed(shift_ns), frame);
        }
        std::fs::write(&path, file.finish()).unwrap();
        (folder, path)
    }

    fn report(&self) -> Value {
        let (_folder, path) = self.write_as("made.pcap", 0, |_| true);
        binary::replay(&[path], [] as [&str; 0]).unwrap()
    }
}

/// In each of `episodes`, a packet is lost and everything in flight is retransmitted.
fn losses(episodes: u32, seen: bool) -> Made {
    let mut made = Made::new();
    made.answer(99, 0x1F);
    made.send(100..200);
    for episode in 0..episodes {
        let start = 200 + episode * 100;
        made.send((start..start + 20).filter(|psn| seen || *psn != start + 10));
        made.answer(start + 10, 0x60);
        made.send(start + 10..start + 100);
        made.answer(start + 99, 0x1F);
    }
    made
}

/// A thousand packets per second: clean ones, 20 episodes of loss in two seconds, clean ones.
fn lossy_between(before_s: u32, behind_s: u32, seen: bool) -> Made {
    let mut made = Made::new();
    let mut psn = 100;
    let paced = |made: &mut Made, psns: std::ops::Range<u32>, lost: Option<u32>| {
        for psn in psns {
            made.now_ns += MS;
            made.send(Some(psn).filter(|psn| lost != Some(*psn)));
        }
    };
    for second in 0..before_s + 2 + behind_s {
        let lossy = (before_s..before_s + 2).contains(&second);
        for _ in 0..10 {
            let lost = lossy.then_some(psn + 50);
            paced(&mut made, psn..psn + 60, lost.filter(|_| !seen));
            if let Some(lost) = lost {
                made.answer(lost, 0x60);
                made.send(lost..psn + 60);
            }
            paced(&mut made, psn + 60..psn + 100, None);
            made.answer(psn + 99, 0x1F);
            psn += 100;
        }
    }
    made
}

/// Ratios of an episode cover the packets between its first and its last signal: within 1 %, since a loss upstream is
/// detected when it is repaired.
#[test]
fn clean_traffic_before_and_behind_does_not_dilute_a_loss() {
    for (id, seen) in [("loss.before_tap", false), ("loss.after_tap", true)] {
        let ratio = |before_s, behind_s| {
            let report = lossy_between(before_s, behind_s, seen).report();
            let findings = report["findings"].as_array().unwrap();
            let finding = findings.iter().find(|finding| finding["id"] == id).unwrap();
            finding["evidence"]["loss_ratio"].as_f64().unwrap()
        };
        // Of 2,200 packets between the first and the last of 20 losses.
        let alone = ratio(0, 0);
        assert!((0.009..0.011).contains(&alone), "{id}: {alone}");
        for (before_s, behind_s) in [(9, 0), (0, 9), (9, 9), (60, 0), (0, 60)] {
            let other = ratio(before_s, behind_s);
            assert!((other / alone - 1.0).abs() <= 0.01, "{id}: {other} with {before_s} s, {behind_s} s");
        }
    }
}

#[test]
fn loss_takes_several_episodes() {
    let of = |count, seen| found(&losses(count, seen).report());
    assert_eq!(of(5, false), [("loss.before_tap".into(), "warning".into())]);
    assert!(of(5, true).contains(&("loss.after_tap".into(), "info".into())), "{:?}", of(5, true));
    assert!((of(4, false).is_empty()) && of(4, true).is_empty());
}

#[test]
fn while_packets_are_dropped_by_the_capture_a_loss_may_be_its_own() {
    let made = losses(6, false);
    let mut file = PcapNg::new(Order::Little);
    file.section(Order::Little).interface(Some("eth0"), ETHERNET, Some(9));
    for (time_ns, frame) in &made.frames {
        file.packet(0, *time_ns, frame, None);
    }
    file.dropped(0, 37);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dropped.pcapng");
    std::fs::write(&path, file.finish()).unwrap();
    let report = binary::replay(&[path], [] as [&str; 0]).unwrap();
    let finding =
        report["findings"].as_array().unwrap().iter().find(|f| f["id"] == "loss.before_tap").unwrap();
    let caveat = finding["caveats"][0].as_str().unwrap();
    assert!(caveat.starts_with("May be capture loss: 37 packets dropped"), "{finding}");
    assert_eq!(finding["evidence"]["tool_lost"], 37);
}

/// Mirrors can be configured to copy only NAKs.
#[test]
fn naks_alone_place_no_loss() {
    let mut made = Made::new();
    for i in 0..4 {
        made.answer(i * 10, 0x60);
    }
    assert_eq!(found(&made.report()), []);
    for i in 4..50 {
        made.answer(i * 10, 0x60);
    }
    let report = made.report();
    assert_eq!(found(&report), [("nak.psn_sequence_error".into(), "info".into())]);
    assert_eq!(evidence(&report, "nak.psn_sequence_error", "naks"), 50);
}

#[test]
fn loss_between_taps_takes_several_packets_and_one_way() {
    let mut made = Made::new();
    for psn in 0..2_000 {
        made.send([psn]);
        made.answer(psn, 0x1F);
    }
    let is_request = |at: usize| at.is_multiple_of(2);
    for every in [200, 2_000, 2] {
        let (_a, near) = made.write_as("near.pcap", 0, |_| true);
        let lost = |at: usize| is_request(at) && (at / 2) % every == every / 2;
        let (_b, far) = made.write_as("far.pcap", 5_000_000_000, |at| !lost(at));
        let report = binary::replay(&[far, near], [] as [&str; 0]).unwrap();
        // Nothing was retransmitted, although a reliable sender would have received NAKs: the second capture missed
        // the packets, or they took another path.
        assert_eq!(found(&report), [], "{every}");
    }
    // With retransmissions: of 100 packets in flight, a lost one costs half of what is sent.
    let made = losses(20, true);
    let first_copies: Vec<usize> = (0..made.frames.len()).filter(|at| is_lost_copy(*at)).collect();
    let (_a, near) = made.write_as("near.pcap", 0, |_| true);
    let (_b, far) = made.write_as("far.pcap", -5_000_000_000, |at| !first_copies.contains(&at));
    let report = binary::replay(&[near.clone(), far], [] as [&str; 0]).unwrap();
    assert_eq!(found(&report), [("loss.between_taps".into(), "critical".into())]);
    assert_eq!(evidence(&report, "loss.between_taps", "vanished"), 20);
    let tap = report["taps"].as_array().unwrap().iter().find(|tap| tap["dest_qp"] == 17).unwrap();
    assert_eq!((tap["from"].as_str(), tap["to"].as_str()), (Some("near.pcap"), Some("far.pcap")));
    // Four of them are not enough.
    let (_b, far) = made.write_as("far.pcap", 0, |at| !first_copies.iter().take(4).any(|lost| *lost == at));
    let report = binary::replay(&[near, far], [] as [&str; 0]).unwrap();
    assert!(!ids(&report).contains(&"loss.between_taps".to_owned()));
}

/// True for retransmitted frames of [`losses`]: the eleventh of each episode.
fn is_lost_copy(at: usize) -> bool {
    // An ACK and 100 requests; then per episode 20 requests, a NAK, 90 requests, an ACK.
    at.checked_sub(101).is_some_and(|at| at % 112 == 10)
}

#[test]
fn every_refusal_has_its_own_finding() {
    for (syndrome, id) in [
        (0x61, "nak.invalid_request"),
        (0x62, "nak.remote_access_error"),
        (0x63, "nak.remote_operational_error"),
        // A responder of RC sends no such NAK; nevertheless the connection ends.
        (0x64, "nak.invalid_request"),
    ] {
        let mut made = losses(0, true);
        made.answer(200, syndrome);
        assert_eq!(found(&made.report()), [(id.into(), "critical".into())]);
    }
    // One or two sequence errors raise no such finding.
    assert_eq!(found(&losses(2, true).report()), []);
}

#[test]
fn receivers_are_slow_when_it_happens_again_and_again() {
    let rnr = |times: u32, requests: u32| {
        let mut made = Made::new();
        made.send(0..requests);
        for i in 0..times {
            made.send([requests + i]);
            made.answer(requests + i, 0x2C);
            made.now_ns += MS;
            made.send([requests + i]);
            made.answer(requests + i, 0x1F);
        }
        found(&made.report())
    };
    assert_eq!(rnr(5, 100), [("rnr.slow_receiver".into(), "warning".into())]);
    assert_eq!(rnr(4, 100), []);
    assert_eq!(rnr(5, 6_000), []);
}

#[test]
fn storms_are_large() {
    // Twenty times, ten packets of two hundred are retransmitted after a timeout.
    let storm = |again: u32, packets: u32| {
        let mut made = Made::new();
        made.answer(0, 0x1F);
        for start in (0..packets).step_by(200) {
            made.send(start..start + 200);
            made.now_ns += 67 * MS;
            made.send(start + 200 - again..start + 200);
        }
        made.report()
    };
    // The timeouts explain it and own it.
    let timeouts: [(String, String); 1] = [("retry.timeouts".into(), "warning".into())];
    let of = |(report, again): (Value, u32)| {
        assert_eq!(found(&report), timeouts, "{again}");
        report["findings"].as_array().unwrap().iter().any(|finding| finding["id"] == "retry.storm")
    };
    assert!(of((storm(60, 2_000), 60)));
    assert!(!of((storm(40, 2_000), 40)));
    assert_eq!(found(&storm(60, 200)), []);
}

#[test]
fn timeouts_cost_time_though_nothing_is_seen_to_be_lost() {
    let waited = |waits_ms: &[u64]| {
        let mut made = Made::new();
        made.answer(99, 0x1F);
        let mut psn = 100;
        for ms in waits_ms {
            made.send(psn..psn + 50);
            made.now_ns += ms * MS;
            // The ACK was lost: the last request is retransmitted, and then acknowledged.
            made.send(psn + 49..psn + 50);
            made.answer(psn + 49, 0x1F);
            psn += 50;
        }
        made.send(psn..psn + 50);
        made.report()
    };
    assert_eq!(found(&waited(&[5, 5])), [], "two short ones");
    assert_eq!(ids(&waited(&[1_200])), ["retry.timeouts"], "one long timeout");
    let report = waited(&[4, 8, 16]);
    assert_eq!(ids(&report), ["retry.timeouts"]);
    assert_eq!(evidence(&report, "retry.timeouts", "timeouts"), 3);
    let finding = &report["findings"][0];
    let lost_ns = finding["impact"]["time_lost_ns"].as_u64().unwrap();
    assert!((28 * MS..29 * MS).contains(&lost_ns), "{finding:#}");
    assert!(finding["evidence"]["backoff"].as_f64().unwrap() > 3.5, "{finding:#}");
    assert!(finding["first_seen_ns"].as_u64().unwrap() > START, "{finding:#}");
}

#[test]
fn a_queue_pair_that_worked_and_gives_up_has_died() {
    let died = |retries: u32, answer: Option<u32>| {
        let mut made = Made::new();
        made.answer(99, 0x1F);
        made.send(100..200);
        made.answer(199, 0x1F);
        made.send(200..204);
        for _ in 0..retries {
            made.now_ns += 67 * MS;
            made.send(200..204);
        }
        if let Some(psn) = answer {
            made.answer(psn, 0x1F);
        }
        made.report()
    };
    let report = died(7, None);
    assert_eq!(found(&report), [("qp.died".into(), "critical".into())]);
    let finding = &report["findings"][0]["evidence"];
    assert_eq!(finding["cause"], "retries exhausted");
    assert_eq!((&finding["last_acked_psn"], &finding["retries"]), (&199.into(), &7.into()));
    assert_eq!(ids(&died(7, Some(203))), ["retry.timeouts"], "the request was acknowledged in the end");
    assert_eq!(ids(&died(3, None)), ["retry.timeouts"], "the queue pair may continue");
}

#[test]
fn a_queue_pair_that_stops_in_mid_message_while_its_siblings_go_on_has_died() {
    let (there, back) = (Net::v4([10, 0, 0, 1], [10, 0, 0, 2]), Net::v4([10, 0, 0, 2], [10, 0, 0, 1]));
    let stopped = |last: u8, siblings: u32| {
        let mut made = Made::new();
        for qp in [17, 19] {
            for (at, opcode) in (100..).zip([0, 1, 1, 2, 0, 1, 1, last]) {
                made.frame(&there, &Transport::new(opcode, qp, at).payload(vec![1; 64]));
            }
        }
        made.frame(&back, &Transport::ack(18, 103, 0x1F, 1));
        for at in 0..siblings {
            made.now_ns += MS;
            made.frame(&there, &Transport::new(4, 19, 108 + at).payload(vec![1; 64]));
        }
        let report = made.report();
        let all = report["findings"].as_array().unwrap().clone();
        all.into_iter().find(|finding| finding["id"] == "qp.died")
    };
    let finding = stopped(1, 200).unwrap();
    assert_eq!(finding["severity"], "critical");
    let evidence = &finding["evidence"];
    assert_eq!((&evidence["message"], &evidence["last_acked_psn"]), (&"SEND".into(), &103.into()));
    assert_eq!(evidence["last_sent_psn"], 107);
    assert_eq!(finding["flows"][0]["dest_qp"], 17, "{finding:#}");
    assert_eq!(stopped(2, 200), None, "the message ended");
    assert_eq!(stopped(1, 50), None, "the queue pair may still continue");
}

#[test]
fn damage_differs_from_icrcs_that_are_never_right() {
    let damaged = |wrong: u32, of: u32| {
        let mut made = Made::new();
        for psn in 0..of {
            made.write(psn, if psn < wrong { Icrc::Wrong } else { Icrc::Right });
        }
        found(&made.report())
    };
    assert_eq!(damaged(3, 100), [("icrc.errors".into(), "warning".into())]);
    assert_eq!(damaged(2, 100), [("icrc.errors".into(), "info".into())]);
    assert_eq!(damaged(0, 100), []);
    // The NIC inserts it after the capture point.
    assert_eq!(damaged(100, 100), [("icrc.errors".into(), "info".into())]);
}

#[test]
fn a_peer_is_silent_when_nothing_it_is_asked_is_answered() {
    let silent = |retries: u32, answer: Option<u32>| {
        let mut made = Made::new();
        made.answer(5_000, 0x1F);
        for _ in 0..=retries {
            made.send(100..104);
            made.now_ns += 500 * MS;
        }
        if let Some(psn) = answer {
            made.answer(psn, 0x1F);
        }
        found(&made.report())
    };
    assert_eq!(silent(3, None), [("peer.silent".into(), "critical".into())]);
    let timeouts: [(String, String); 1] = [("retry.timeouts".into(), "warning".into())];
    assert_eq!(silent(1, None), timeouts);
    assert_eq!(silent(3, Some(103)), timeouts);
}

/// The example in docs/report.md is the output of its command.
#[test]
fn the_documentation_shows_what_the_command_prints() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let document = std::fs::read_to_string(root.join("docs/report.md")).unwrap();
    let (_, from) = document.split_once("$ rocescope replay --output text --tap h0=").unwrap();
    let (rest, after) = from.split_once("\n```").unwrap();
    let arguments = format!("replay --output text --tap h0={rest}");
    let page = after.split_once("```text\n").unwrap().1.split_once("\n```").unwrap().0;
    let output = std::process::Command::new(binary::path().unwrap())
        .args(arguments.split(' '))
        .current_dir(root)
        .env("COLUMNS", "120")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    rocescope_tests::document::check("report.md", &document.replace(page, printed.trim_end()));
}
