//! Live counts in the virtual machine of `cargo xtask vm`, compared with tshark's dissection of tcpdump's captures of
//! the same packets. Runs on the host after the virtual machine has ended: in it, tshark would take minutes.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::path::PathBuf;

use rocescope_tests::oracle::account::Account;
use rocescope_tests::oracle::{binary, compare, tshark};
use serde_json::{Value, json};

/// Both ends of the link, and the one whose queue drops or changes packets.
const INTERFACES: [&str; 2] = ["h0", "h1"];
const HARMED: (&str, &str) = ("h0", "10.0.0.1");

fn results() -> PathBuf {
    let place = std::env::var_os("ROCESCOPE_VM_RESULTS");
    place.unwrap_or_else(|| panic!("ROCESCOPE_VM_RESULTS is not set: `cargo xtask vm` runs this")).into()
}

fn live_counted_what_tshark_sees(hook: &str) {
    assert!(tshark::available().unwrap(), "tshark is not installed: install the package tshark");
    let left = std::fs::read_to_string(results().join(format!("{hook}.json"))).unwrap();
    let left: Value = serde_json::from_str(&left).unwrap();
    let mut compared = 0;
    for interface in INTERFACES {
        let name = format!("{hook}.{interface}.pcap");
        let capture = results().join(&name);
        let account = Account::of_files(std::slice::from_ref(&capture)).unwrap();
        assert!(account.roce_packets() > 1000, "{name}: {} packets", account.roce_packets());
        // A queueing discipline lies between TC egress and tcpdump.
        let harmed = |flow: &Value| {
            interface == HARMED.0
                && flow["src"] == HARMED.1
                && left["harmed"].as_array().unwrap().contains(&flow["dest_qp"])
        };
        let mut ours: Vec<Value> = left["report"]["flows"].as_array().unwrap().clone();
        ours.retain(|flow| flow["link"] == interface && !harmed(flow));
        for flow in &mut ours {
            // Named as by a replay; XDP on veth cannot distinguish an untagged frame.
            flow["link"] = json!(name);
            flow["direction"] = Value::Null;
            for tag in ["vlan", "inner_vlan"] {
                if flow[tag].is_null() {
                    flow[tag] = json!(0);
                }
            }
        }
        let mut theirs: Vec<Value> = account.report()["flows"].as_array().unwrap().clone();
        theirs.retain(|flow| !harmed(flow));
        for flow in &mut theirs {
            // The kernel programs' clock is coarser than tcpdump's.
            let flow = flow.as_object_mut().unwrap();
            flow.remove("first_ns");
            flow.remove("last_ns");
        }
        compared += theirs.len();
        let found = compare::flow_differences(&json!(ours), &json!(theirs));
        assert!(found.is_empty(), "{name}: {} differences:\n{}", found.len(), found.join("\n"));
        // Also the replay of the capture, with all fields.
        let replayed = binary::replay(&[capture], [] as [&str; 0]).unwrap();
        let found = compare::differences(&replayed, &account.report());
        assert!(found.is_empty(), "replay of {name}: {} differences:\n{}", found.len(), found.join("\n"));
    }
    println!("{hook}: {compared} flows compared");
    assert!(compared >= 40, "only {compared} flows were compared");
}

#[test]
#[ignore = "looks at what `cargo xtask vm` left behind"]
fn with_xdp() {
    live_counted_what_tshark_sees("xdp");
}

#[test]
#[ignore = "looks at what `cargo xtask vm` left behind"]
fn with_tc() {
    live_counted_what_tshark_sees("tc");
}
