//! Redundant parts of a report agree: headline, findings, lists of flows, and the cost of a cause and its effect.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::path::PathBuf;
use std::process::Command;

use rocescope_tests::oracle::{binary, captures};
use rocescope_tests::verdict;
use serde_json::Value;

fn files(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| captures::folder().join(name)).collect()
}

fn replay(names: &[&str]) -> Value {
    binary::replay(&files(names), [] as [&str; 0]).unwrap()
}

fn finding<'a>(report: &'a Value, id: &str) -> &'a Value {
    report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id).unwrap()
}

/// The text report as one line.
fn page(names: &[&str]) -> String {
    let mut command = Command::new(binary::path().unwrap());
    let output = command.arg("replay").args(files(names)).args(["--output", "text"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// For every capture of the tests; those of the simulator are checked elsewhere.
#[test]
fn findings_of_all_captures_have_times_labels_and_an_order() {
    let all = captures::own().unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for path in &all {
        let report = binary::replay(std::slice::from_ref(path), [] as [&str; 0]).unwrap();
        assert_eq!(verdict::faults(&report), [""; 0], "{}", path.display());
        let ids = report["findings"].as_array().unwrap().iter();
        kinds.extend(ids.filter_map(|one| one["id"].as_str().map(str::to_owned)));
    }
    // The check is effective: both kinds of findings occur.
    let of = |lasts| kinds.iter().filter(|id| verdict::lasts(id) == Some(lasts)).count();
    assert!(all.len() > 20 && of(true) > 0 && of(false) > 5, "{kinds:?}");
}

/// Losses before a timeout leave no gap, and missing READ responses cost the requester the time of the timeout.
#[test]
fn lost_responses_are_a_lower_bound_and_belong_to_the_timeouts_of_their_requester() {
    let far = page(&["h6_rping_loss.h1.pcap.gz"]);
    assert!(far.contains("Loss at least 3 packets lost upstream (longest recovery 2.30 s)"), "{far}");
    let line = "responses: at least 3 lost upstream in 3 episodes (longest recovery 2.30 s); 3 retransmitted \
                (go-back-N) [retry.timeouts]";
    assert!(far.contains(line), "{far}");
}

/// A cause has one cost, whichever finding reports it.
#[test]
fn a_loss_costs_what_its_timeouts_cost() {
    let near = replay(&["h6_rping_loss.h0.pcap.gz"]);
    let both = replay(&["h6_rping_loss.h0.pcap.gz", "h6_rping_loss.h1.pcap.gz"]);
    for (report, id) in [(&near, "loss.after_tap"), (&both, "loss.between_taps")] {
        let cost = |id: &str| finding(report, id)["impact"]["time_lost_ns"].clone();
        assert_eq!(cost(id), cost("retry.timeouts"), "{id}");
    }
    assert_eq!(finding(&near, "loss.after_tap")["evidence"]["timeouts"], 11);
    // Some of its timeouts are seen at one tap, some at the other.
    assert!(finding(&both, "retry.timeouts")["where"]["link"].is_null());
    let far = replay(&["h6_rping_loss.h1.pcap.gz"]);
    assert!(finding(&far, "retry.timeouts")["evidence"]["acks_lost"].is_null(), "unknown from one tap");
}

/// Headline, list of flows and finding use the same words for loss downstream of a tap.
#[test]
fn what_happened_downstream_has_one_name_in_all_of_a_report() {
    let count = |page: &str, what: &str| page.matches(what).count();
    let near = page(&["e3_reorder.h0.pcap.gz"]);
    assert!(near.contains("Loss 52 loss or reordering episodes downstream"), "{near}");
    assert_eq!(count(&near, " loss or reordering episodes downstream (longest go-back"), 4, "{near}");
    assert!(near.contains("Loss or reordering downstream of e3_reorder.h0: 52 NAK episodes"), "{near}");
    assert!(
        near.contains("CRITICAL Loss or reordering downstream: 56.2 % retransmitted, 10.0.0.1 → 10.0.0.2"),
        "{near}"
    );
    assert!(near.contains("info Loss or reordering downstream of e3_reorder.h0"), "{near}");
    assert_eq!(count(&near, " loss episodes downstream"), 0, "{near}");
    let both = page(&["e3_reorder.h0.pcap.gz", "e3_reorder.h1.pcap.gz"]);
    assert!(both.contains("52 reordering or loss episodes downstream (all packets reached the next tap)"));
    let lost = page(&["e1_loss1.h0.pcap.gz", "e1_loss1.h1.pcap.gz"]);
    assert!(lost.contains("e1_loss1.h1: 92 packets lost upstream"), "{lost}");
    for of_flow in ["37 lost upstream", "27 lost upstream", "16 lost upstream", "12 lost upstream"] {
        assert!(lost.contains(of_flow), "{of_flow}: {lost}");
    }
}
