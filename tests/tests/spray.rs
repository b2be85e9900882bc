//! Queue pairs whose packets take many paths on purpose, through IPv6 in IPv6 and the segments of SRv6.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use rocescope_tests::oracle::binary;
use rocescope_tests::sim::{bench, scenarios};
use serde_json::Value;

fn report(name: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let scenario = scenarios::all().into_iter().find(|scenario| scenario.name == name).unwrap();
    let run = scenario.run(1, folder.path()).unwrap();
    bench::report(&binary::path().unwrap(), &run, folder.path()).unwrap()
}

#[test]
fn many_paths_are_named_and_raise_no_alarm() {
    // Bytes in front of the inner IP header: an IPv6 header, and a routing header with two segments.
    for (name, outer) in [("clean-multipath-ipv6-in-ipv6", 40), ("clean-multipath-srv6", 40 + 40)] {
        let report = report(name);
        let flows = report["flows"].as_array().unwrap();
        let data: Vec<&Value> = flows.iter().filter(|flow| flow["path_mtu"].is_u64()).collect();
        assert!(!data.is_empty(), "{name}");
        for flow in data {
            let spray = &flow["spray"];
            assert_eq!(
                (spray["planes"].as_u64(), spray["src_ports"].as_u64(), spray["trimmed"].as_u64()),
                (Some(8), Some(64), Some(0)),
                "{name}: {spray}"
            );
            assert!(
                spray["reordering_depth"].as_u64() > Some(0),
                "{name}: no packet overtakes another: {spray}"
            );
            assert_eq!(flow["encapsulation"], "ipip", "{name}");
            let number = |field: &str| flow[field].as_u64().unwrap();
            assert_eq!(number("bytes") - number("inner_bytes"), outer * number("packets"), "{name}");
            assert!(flow["src"].as_str().unwrap().starts_with("2001:db8::"), "{name}: {flow}");
            assert_eq!(flow["loss"]["lost"], 0, "{name}: {flow}");
        }
        let findings = report["findings"].as_array().unwrap();
        let alarms: Vec<&Value> = findings.iter().filter(|finding| finding["severity"] != "info").collect();
        assert!(alarms.is_empty(), "{name}: {alarms:?}");
        for finding in findings {
            let id = finding["id"].as_str().unwrap();
            assert!(
                !id.starts_with("loss.") && id != "entropy.low" && !id.starts_with("retry."),
                "{name}: {id}"
            );
        }
    }
}
