//! Compares replay's report with an independent accounting based on tshark.
//!
//! The first tests compare that accounting with the output of the programs, queues and drivers that produced the
//! traffic; they do not need rocescope.

#![expect(clippy::expect_used, reason = "a helper of tests may fail like a test")]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use rocescope_tests::oracle::account::Account;
use rocescope_tests::oracle::craft::{self, Captured, Roce};
use rocescope_tests::oracle::packet::{self, Content};
use rocescope_tests::oracle::{binary, captures, cases, compare, tshark};
use serde_json::{Value, json};

fn data(name: &str) -> PathBuf {
    captures::folder().join(name)
}

fn account(files: &[PathBuf]) -> Account {
    Account::of_files(files).expect("tshark's accounting")
}

/// Replays files and returns all differences from an accounting of them.
fn differences(files: &[PathBuf], account: &Account) -> Vec<String> {
    let names: Vec<_> = files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
    let found = match binary::replay(files, [] as [&str; 0]) {
        Ok(report) => compare::differences(&report, &account.report()),
        Err(error) => vec![format!("{error:#}")],
    };
    found.into_iter().map(|line| format!("{}: {line}", names.join(" "))).collect()
}

fn none(found: &[String]) {
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

/// Replays sets of files, each in one run, and fails with all differences from tshark's accounting.
fn hold_against_tshark(sets: &[Vec<PathBuf>]) {
    none(&sets.iter().flat_map(|files| differences(files, &account(files))).collect::<Vec<_>>());
}

// ---------------------------------------------------------------------------------------------
// The accounting against the truth of those who made the traffic

#[test]
fn lost_packets_are_those_that_the_emulated_link_dropped() {
    if !tshark::available().unwrap() {
        return;
    }
    let (before, after) = (account(&[data("e1_loss1.h0.pcap.gz")]), account(&[data("e1_loss1.h1.pcap.gz")]));
    // tcpdump on both hosts, and netem in between.
    assert_eq!((before.packets(), after.packets()), (9614, 9522));
    assert_eq!(before.packets() - after.packets(), 92, "netem dropped 92");
    // First PSNs as printed by ib_write_bw, QPs 0x15 to 0x18.
    let first: Vec<_> =
        before.flows().iter().filter_map(|((.., qp), flow)| Some((*qp, flow.requests()?.first))).collect();
    assert_eq!(first, [(0x15, 0x2f_e12c), (0x16, 0x7e_44dd), (0x17, 0x58_ee2d), (0x18, 0x06_0341)]);
    let naks: u64 = after.flows().values().map(|flow| flow.sequence_and_rnr_naks().0).sum();
    assert_eq!(naks, 50, "out_of_seq_request of the receiving host's driver");
    let sent: u64 = before
        .flows()
        .iter()
        .filter(|((_, _, dst, _), _)| dst.to_string() == "10.0.0.2")
        .map(|(_, flow)| flow.packets())
        .sum();
    assert_eq!(sent, 9170, "sent_pkts of the sending host's driver");
    // Nothing is lost upstream of the link: retransmissions there fill no gap.
    let missing = |account: &Account| -> u64 {
        account.flows().values().filter_map(|flow| Some(flow.requests()?.missing)).sum()
    };
    assert_eq!(missing(&before), 0);
    assert!(missing(&after) > 0);
}

#[test]
fn marked_packets_are_those_that_the_queue_marked() {
    if !tshark::available().unwrap() {
        return;
    }
    for (name, packets, marked) in
        [("f1_ecn_red.h1.pcap.gz", 5200, 4977), ("f1b_ecn_red_mild.h1.pcap.gz", 5328, 573)]
    {
        let account = account(&[data(name)]);
        assert_eq!(account.roce_packets(), packets, "{name}: tcpdump's count");
        assert_eq!(account.report()["totals"]["ecn"]["ce"], marked, "{name}: RED's count");
    }
}

#[test]
fn refusals_are_those_that_the_driver_counted() {
    if !tshark::available().unwrap() {
        return;
    }
    let account = account(&[data("g_rnr.h0.pcap")]);
    let refused: u64 = account.flows().values().map(|flow| flow.sequence_and_rnr_naks().1).sum();
    assert_eq!((account.packets(), refused), (111, 19), "rcvd_rnr_err");
}

#[test]
fn every_length_of_the_message_list_is_accounted() {
    if !tshark::available().unwrap() {
        return;
    }
    let report = account(&[data("b5_ops_full.h0.pcap")]).report();
    // The program sent each kind with these lengths, except READ and atomics in one direction; responses to READs
    // return theirs.
    let lengths: u64 = [0, 1, 2, 3, 4, 64, 1023, 1024, 1025, 2048, 2051, 5118].iter().sum();
    let flows = report["flows"].as_array().unwrap();
    let payload = |dst: &str| -> u64 {
        flows.iter().filter(|f| f["dst"] == dst).filter_map(|f| f["payload_bytes"].as_u64()).sum()
    };
    assert_eq!(payload("10.0.0.2"), 4 * lengths, "SEND, SEND_IMM, WRITE and WRITE_IMM");
    assert_eq!(payload("10.0.0.1"), lengths, "READ responses");
    for flow in flows.iter().filter(|flow| flow["psn"].is_object()) {
        assert_eq!(flow["psn"]["gaps"], 0, "{flow}");
        assert_eq!(flow["psn"]["repeats"], 0, "{flow}");
    }
}

#[test]
fn connection_setup_states_both_queue_pairs() {
    if !tshark::available().unwrap() {
        return;
    }
    let report = account(&[data("h1_rping.h0.pcap")]).report();
    let stated: Vec<_> = report["flows"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|flow| flow["dest_qp"] != 1)
        .map(|flow| (flow["dest_qp"].clone(), flow["peer_qp"]["is"].clone()))
        .collect();
    assert_eq!(stated, [(json!(0x23), json!(0x23)), (json!(0x23), json!(0x23))]);
}

// ---------------------------------------------------------------------------------------------
// Replay against the accounting

#[test]
fn every_capture_of_the_tests() {
    if !tshark::available().unwrap() {
        return;
    }
    let sets: Vec<_> = captures::own().unwrap().into_iter().map(|file| vec![file]).collect();
    assert!(sets.len() > 50, "only {} captures found", sets.len());
    hold_against_tshark(&sets);
}

#[test]
fn every_further_capture() {
    if !tshark::available().unwrap() {
        return;
    }
    let sets: Vec<_> = captures::further().unwrap().into_iter().map(|file| vec![file]).collect();
    hold_against_tshark(&sets);
}

#[test]
fn several_taps_at_once() {
    if !tshark::available().unwrap() {
        return;
    }
    hold_against_tshark(&[
        vec![data("e1_loss1.h0.pcap.gz"), data("e1_loss1.h1.pcap.gz")],
        vec![data("k1_ecmp_ring.uA0.pcap.gz"), data("k1_ecmp_ring.uA1.pcap.gz")],
    ]);
}

#[test]
fn uneven_uplinks_give_the_imbalance_of_their_bytes() {
    if !tshark::available().unwrap() {
        return;
    }
    let names = ["k1_ecmp_ring.uA0.pcap.gz", "k1_ecmp_ring.uA1.pcap.gz"];
    let files: Vec<_> = names.iter().map(|name| data(name)).collect();
    let report = binary::replay(&files, ["--group", &names.join(",")]).unwrap();
    let links = account(&files).report()["links"].clone();
    let bytes: Vec<_> =
        links.as_array().unwrap().iter().map(|link| link["bytes"].as_f64().unwrap()).collect();
    let (sum, squares) = (bytes.iter().sum::<f64>(), bytes.iter().map(|b| b * b).sum::<f64>());
    let max = bytes.iter().copied().fold(0.0, f64::max);
    let groups = report["imbalance"].as_array().expect("imbalance is a list");
    assert_eq!(groups.len(), 1, "{groups:?}");
    for (field, expected) in [("max_over_mean", max / (sum / 2.0)), ("jain", sum * sum / (2.0 * squares))] {
        let value = groups[0][field].as_f64().unwrap_or(f64::NAN);
        assert!((value - expected).abs() < 1e-9, "{field}: {value}, expected {expected}");
    }
    let without = binary::replay(&files, [] as [&str; 0]).unwrap();
    let group = &without["imbalance"][0];
    assert_eq!(
        (&group["found"], &group["max_over_mean"]),
        (&json!(true), &groups[0]["max_over_mean"]),
        "{group}"
    );
}

/// A capture in several files is one link if named as one tap.
#[test]
fn parts_of_one_tap() {
    if !tshark::available().unwrap() {
        return;
    }
    let packets = |psns: std::ops::Range<u32>| {
        psns.map(|psn| craft::ethernet(0x0800, &Roce { psn, payload: 99, ..Roce::default() }.ipv4()))
            .collect()
    };
    let all = craft::in_sequence(packets(0..20));
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, frames: &[Captured]| {
        let path = folder.path().join(name);
        std::fs::write(&path, craft::pcap(1, frames)).unwrap();
        path
    };
    let parts = [write("one.pcap", &all[..7]), write("other.pcap", &all[7..])];
    let whole = write("leaf1", &all);
    let named = format!("leaf1={},{}", parts[0].display(), parts[1].display());
    let report = binary::replay(&[], ["--tap", &named]).unwrap();
    none(&compare::differences(&report, &account(&[whole]).report()));
}

/// Drops recorded in a capture are reported beside the counts; without a record they are null.
#[test]
fn drops_of_the_capture() {
    let frames = craft::in_sequence(vec![craft::ethernet(0x0800, &Roce::default().ipv4())]);
    let folder = tempfile::tempdir().unwrap();
    let drops = |name: &str, file: Vec<u8>| {
        let path = folder.path().join(name);
        std::fs::write(&path, file).unwrap();
        binary::replay(&[path], [] as [&str; 0]).unwrap()["totals"]["lost"]["capture_drops"].clone()
    };
    let mut pcapng = craft::pcapng(&["eth0"], &frames);
    assert_eq!(drops("unsaid.pcapng", pcapng.finish()), Value::Null);
    assert_eq!(drops("said.pcapng", pcapng.dropped(0, 7).finish()), 7);
    assert_eq!(drops("plain.pcap", craft::pcap(1, &frames)), Value::Null);
}

// ---------------------------------------------------------------------------------------------
// Packets of which there is no capture

/// tshark must find the RoCE packets and flows that were created.
#[test]
fn every_crafted_capture() {
    if !tshark::available().unwrap() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut differing = Vec::new();
    for case in cases::all() {
        let path = folder.path().join(case.name);
        std::fs::write(&path, &case.file).unwrap();
        let account = account(std::slice::from_ref(&path));
        let found = (account.roce_packets(), account.flows().len());
        assert_eq!(found, (case.packets, case.flows), "{} for tshark", case.name);
        differing.extend(differences(&[path], &account));
    }
    none(&differing);
}

/// The comparison must be effective: every figure of a report is changed in turn.
#[test]
fn a_wrong_figure_anywhere_is_noticed() {
    if !tshark::available().unwrap() {
        return;
    }
    let expected = account(&[data("g_badrkey.h0.pcap")]).report();
    let mut report = expected.clone();
    report["totals"]["skipped"] = json!({ "other": expected["totals"]["skipped_sum"] });
    for flow in report["flows"].as_array_mut().unwrap() {
        flow["peer_qp"] = flow["peer_qp"].get("is").cloned().unwrap_or(Value::Null);
    }
    assert_eq!(compare::differences(&report, &expected), Vec::<String>::new());
    let mut places = Vec::new();
    numbers(&report, "", &mut places);
    assert!(places.len() > 60, "{}", places.len());
    for place in places {
        // Copies of values compared elsewhere, used only by the comparison.
        if place.ends_with("skipped_sum")
            || place.ends_with("skipped_truncated_at_least")
            || place.ends_with("peer_qp")
        {
            continue;
        }
        let mut wrong = report.clone();
        let value = wrong.pointer_mut(&place).unwrap();
        *value =
            value.as_u64().map_or_else(|| json!(value.as_f64().unwrap() + 0.001), |count| json!(count + 1));
        assert!(!compare::differences(&wrong, &expected).is_empty(), "{place} may be anything");
    }
}

fn numbers(value: &Value, place: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(place.to_owned()),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, v)| numbers(v, &format!("{place}/{i}"), found));
        }
        Value::Object(map) => {
            map.iter().for_each(|(name, v)| numbers(v, &format!("{place}/{name}"), found));
        }
        _ => {}
    }
}

#[test]
fn the_captures_are_where_the_tests_look() {
    assert!(Path::new(&data("README.md")).is_file());
}

// ---------------------------------------------------------------------------------------------
// Message completion

/// Completion times of a connection's messages in nanoseconds by operation, in the order of [`OPERATIONS`]: from the
/// first packet of each PSN range to the first response to its last one.
fn completions(file: &Path, src: &str, requests_to: u64, responses_to: u64) -> [Vec<u64>; 3] {
    let (mut times, mut open, mut waiting) = ([vec![], vec![], vec![]], None, VecDeque::new());
    let (mut next, mut reading) = (None, None);
    for row in tshark::read(file).expect("tshark") {
        let frame = packet::decode(&row).expect("a frame");
        let Content::Roce(packet) = frame.content else { continue };
        let (name, now) = (packet.opcode.name.as_str(), frame.time_ns);
        let forward = packet.src.to_string() == src;
        if forward == (name.contains("RESPONSE") || name.contains("ACKNOWLEDGE")) {
            continue;
        }
        if forward && packet.dest_qp == requests_to {
            let ahead = |than: u32| packet.psn.wrapping_sub(than) & 0xFF_FFFF < 0x80_0000;
            if next.is_some_and(|next| !ahead(next)) {
                continue;
            }
            next = Some(packet.psn + 1);
            let Some(operation) = OPERATIONS.iter().position(|part| name.contains(part)) else { continue };
            if name.ends_with("FIRST") || name.contains("ONLY") || name.ends_with("REQUEST") {
                open = Some(now);
            }
            if name.contains("LAST") || name.contains("ONLY") || name.ends_with("REQUEST") {
                waiting.push_back((operation, packet.psn, open.take().expect("its first packet")));
            }
        } else if !forward && packet.dest_qp == responses_to {
            // A READ completes with its last response, whatever its request expected.
            let read = name.contains("READ_RESPONSE");
            let acknowledges = packet.syndrome.is_none_or(|syndrome| syndrome < 0x20);
            let reached = |psn: u32| packet.psn.wrapping_sub(psn) & 0xFF_FFFF < 0x80_0000;
            let completes = |(operation, psn, _): &(usize, u32, u64)| {
                acknowledges && reached(*psn) && (read || *operation != 2)
            };
            while waiting.front().is_some_and(completes)
                && let Some((operation, _, begun)) = waiting.pop_front()
            {
                if operation == 2 { reading = Some(begun) } else { times[operation].push(now - begun) }
            }
            if (name.contains("RESPONSE_LAST") || name.contains("RESPONSE_ONLY"))
                && let Some(begun) = reading.take()
            {
                times[2].push(now - begun);
            }
        }
    }
    times
}

const OPERATIONS: [&str; 3] = ["WRITE", "SEND", "READ"];

/// Among them are retransmitted messages: netem dropped packets behind the tap.
#[test]
fn message_completion_times_are_those_of_tshark() {
    if !tshark::available().unwrap_or(false) {
        return;
    }
    let mut compared = [0; 3];
    for (name, requester, requests_to, responses_to) in [
        ("a1_write_mtu1024.h0.pcap", "10.0.0.1", 17, 17),
        ("b1_send.h1.pcap", "10.0.0.1", 42, 42),
        ("b2_read.h0.pcap", "10.0.0.1", 44, 44),
        ("h1_rping.h0.pcap", "10.0.0.1", 35, 35),
        ("h1_rping.h0.pcap", "10.0.0.2", 35, 35),
        ("e1_loss1.h0.pcap.gz", "10.0.0.1", 22, 22),
    ] {
        let report = binary::replay(&[data(name)], [] as [&str; 0]).expect("a report");
        let flows = report["flows"].as_array().expect("flows");
        let flow = flows.iter().find(|flow| flow["src"] == requester && flow["dest_qp"] == requests_to);
        let found = &flow.expect("the flow")["message_completion_ns"];
        for (operation, mut times) in
            completions(&data(name), requester, requests_to, responses_to).into_iter().enumerate()
        {
            let summary = &found[OPERATIONS[operation].to_lowercase()];
            times.sort_unstable();
            let Some(longest) = times.last() else {
                assert!(summary.is_null(), "{name}: {summary}");
                continue;
            };
            compared[operation] += times.len();
            assert_eq!(summary["count"], times.len(), "{name}: {found}");
            let max = summary["max"].as_u64().expect("the longest");
            assert!(max.abs_diff(*longest) <= 32, "{name}: {max}, tshark {longest}");
            let (p50, median) = (summary["p50"].as_u64().expect("the median"), times[(times.len() - 1) / 2]);
            assert!(p50.abs_diff(median) * 100 <= 22 * median, "{name}: {p50}, tshark {median}");
        }
    }
    assert!(compared.iter().all(|count| *count > 20), "{compared:?}");
}
