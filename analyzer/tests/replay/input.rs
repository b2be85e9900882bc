//! Inputs good and bad: counters, messages, exit status.

use serde_json::json;

use crate::craft::{self, Shot, arp, pcap, pcapng, send, sends};
use crate::{file, links, replay, report, rocescope, schema};

/// The sentence of a run that has to fail with exit status 1 and print nothing else.
fn refused(args: &[&str]) -> String {
    let output = replay(&[args, &["--output", "json"]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    assert!(output.stdout.is_empty(), "{args:?} printed a report");
    assert!(said.starts_with("rocescope: ") && said.trim_end().lines().count() == 1, "{said}");
    said
}

#[test]
fn frames_are_counted_by_flow_or_by_reason() {
    let folder = tempfile::tempdir().unwrap();
    let shots = [send(0, 17, 0), send(1, 17, 1), arp(2), send(3, 18, 5), send(4, 17, 3)];
    let path = file(folder.path(), "a.pcap", &pcap(1, &shots));
    let (report, said) = report(&[&path]);
    assert_eq!(said, "");
    assert_eq!(report["totals"]["packets"], 5);
    assert_eq!(report["totals"]["skipped"], json!({ "arp": 1 }));
    assert_eq!(report["window"]["first_ns"], craft::START * 1_000_000_000);
    assert_eq!(report["window"]["last_ns"], craft::START * 1_000_000_000 + 4_000_000);
    assert_eq!(report["flows"][0]["packets"], 3);
    assert_eq!(report["flows"][0]["psn"]["missing"], 1);
    assert_eq!(report["flows"][0]["bytes"], 3 * 62);
    assert_eq!(report["totals"]["lost"]["capture_drops"], json!(null), "pcap does not say");
    assert_eq!(links(&report), ["a.pcap"]);
    assert_eq!(report["source"]["inputs"], json!([path]));
}

#[test]
fn what_cannot_be_read_is_named_with_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let good = file(folder.path(), "good.pcap", &sends(0, 1, 2));
    let missing = at("missing.pcap");
    assert!(refused(&[&missing]).contains("missing.pcap: no such file"));
    assert!(refused(&[&good, &missing]).contains("missing.pcap: no such file"), "before any report");
    assert!(refused(&[&file(folder.path(), "empty.pcap", b"")]).contains("empty"));
    assert!(refused(&[&file(folder.path(), "notes.txt", b"Dear diary, today")]).contains("not a pcap"));
    assert!(refused(&[&at("")]).contains("directory"));
    assert!(refused(&[&good, &good]).contains("given twice"));
    let foreign = file(folder.path(), "usb.pcap", &pcap(189, &[send(0, 1, 1)]));
    assert!(refused(&[&foreign]).contains("USB_LINUX (189)"));
    let foreign = file(folder.path(), "wifi.pcapng", &pcapng(&[("wlan0", 105)], &[(0, send(0, 1, 1))]));
    assert!(refused(&[&foreign]).contains("IEEE802_11 (105)"));
}

#[test]
fn a_cut_capture_counts_what_is_there_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = sends(0, 1, 3);
    bytes.truncate(bytes.len() - 7);
    let (report, said) = report(&[&file(folder.path(), "cut.pcap", &bytes)]);
    assert_eq!(report["totals"]["packets"], 2);
    assert!(said.contains("cut.pcap: cut off in a packet"), "{said}");
}

#[test]
fn damage_in_the_middle_fails_after_the_report_of_what_was_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = sends(0, 1, 3);
    bytes.extend([0xFF; 40]);
    let output = replay(&[&file(folder.path(), "bad.pcap", &bytes), "--output", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let report = schema::read(&output.stdout).unwrap();
    assert_eq!(report["totals"]["packets"], 3);
    assert!(String::from_utf8_lossy(&output.stderr).contains("bad.pcap: damaged"));
}

#[test]
fn a_capture_without_frames_is_an_empty_report() {
    let folder = tempfile::tempdir().unwrap();
    let (report, _) = report(&[&file(folder.path(), "none.pcap", &pcap(1, &[]))]);
    assert_eq!(report["window"]["first_ns"], json!(null));
    assert_eq!(links(&report), ["none.pcap"]);
}

#[test]
fn interfaces_of_one_file_are_links_and_a_foreign_one_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let shots = [(0, send(0, 1, 0)), (1, send(1, 1, 0)), (2, send(2, 1, 0)), (1, send(3, 1, 1))];
    let bytes = pcapng(&[("eth0", 1), ("eth1", 1), ("wlan0", 105)], &shots);
    let (report, said) = report(&[&file(folder.path(), "x.pcapng", &bytes)]);
    assert_eq!(report["totals"]["skipped"], json!({ "link_type_unsupported": 1 }));
    assert!(said.contains("IEEE802_11 (105)"), "{said}");
    assert_eq!(links(&report), ["x.pcapng:eth0", "x.pcapng:eth1", "x.pcapng:wlan0"]);
    let flows: Vec<_> =
        report["flows"].as_array().unwrap().iter().map(|f| f["link"].as_str().unwrap()).collect();
    assert_eq!(flows, ["x.pcapng:eth0", "x.pcapng:eth1"]);
}

#[test]
fn other_link_layers() {
    let folder = tempfile::tempdir().unwrap();
    let with = |header: &[u8]| Shot { ts_ns: 1, bytes: [header, &craft::ip(9, 0)].concat() };
    let raw = file(folder.path(), "raw.pcap", &pcap(101, &[with(&[])]));
    let null = file(folder.path(), "null.pcap", &pcap(0, &[with(&[2, 0, 0, 0])]));
    let mut sll2 = [0; 20];
    (sll2[0], sll2[7], sll2[10]) = (8, 3, 4);
    let sll2 = file(folder.path(), "any.pcap", &pcap(276, &[with(&sll2)]));
    let mut sll = [0; 16];
    sll[14] = 8;
    let sll = file(folder.path(), "old.pcap", &pcap(113, &[with(&sll)]));
    let (report, _) = report(&[&raw, &null, &sll2, &sll]);
    let flows: Vec<_> = report["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (f["link"].as_str().unwrap(), f["vlan"].as_u64(), f["bytes"].as_u64().unwrap()))
        .collect();
    assert_eq!(
        flows,
        [
            ("raw.pcap", None, 48),
            ("null.pcap", None, 52),
            ("any.pcap:if3:out", Some(0), 68),
            ("old.pcap:in", Some(0), 64)
        ]
    );
}

#[test]
fn wrong_usage_is_exit_status_2() {
    for args in
        [&["replay"][..], &["replay", "x", "--output", "xml"], &["replay", "x", "--filter", "qp"], &["fly"]]
    {
        let output = rocescope(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
    }
    let help = rocescope(&["replay", "--help"]).output().unwrap();
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("Examples:"));
}

#[cfg(not(feature = "live"))]
#[test]
fn a_build_without_kernel_side_says_so() {
    for verb in ["live", "demo"] {
        let output = rocescope(&[verb]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains("cargo xtask build"));
    }
}

/// A PFC frame from a switch about priority 0, `us` microseconds after the start.
fn pfc(us: u64, quanta: u16) -> Shot {
    let mut bytes = vec![0x01, 0x80, 0xC2, 0, 0, 1, 2, 0, 0, 0, 0, 7, 0x88, 0x08, 0x01, 0x01, 0, 1];
    bytes.extend(quanta.to_be_bytes());
    bytes.resize(60, 0);
    Shot { ts_ns: craft::START * 1_000_000_000 + us * 1_000, bytes }
}

#[test]
fn pauses_are_read_and_stay_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let mut shots = vec![send(0, 17, 0), send(1, 17, 1)];
    shots.extend((5..300).map(|n| pfc(n * 200, 0xFFFF)));
    shots.push(pfc(60_000, 0));
    shots.extend([send(60, 17, 2), send(61, 17, 3)]);
    let path = file(folder.path(), "pfc.pcap", &pcap(1, &shots));
    let (report, _) = report(&[&path, "--link-speed", "400G"]);
    assert_eq!(report["totals"]["skipped"], json!({ "mac_control": 296 }), "as ever");
    let pause = &report["links"][0]["pause"][0];
    assert_eq!((&pause["from"], &pause["priority"]), (&json!("02:00:00:00:00:07"), &json!(0)));
    assert_eq!((&pause["frames"], &pause["resumes"]), (&json!(295), &json!(1)));
    // At 400 Gb/s a frame stops for 83,884 ns, less than the 200 µs to the next.
    assert_eq!(pause["paused_ns"], 295 * 83_884);
    let found: Vec<&str> =
        report["findings"].as_array().unwrap().iter().map(|found| found["id"].as_str().unwrap()).collect();
    assert!(found.contains(&"pfc.storm"), "{found:?}");
    // Of a link whose speed is not known, only what was asked for is.
    let (report, _) = crate::report(&[&path]);
    let pause = &report["links"][0]["pause"][0];
    assert_eq!((&pause["paused_ns"], &pause["quanta"]), (&json!(null), &json!(295 * 0xFFFF)));
    assert!(report["flows"][0]["pause_stall_ns"].is_null(), "{}", report["flows"][0]);
    // At 100 Gb/s they join, and the flow was silent for nothing else.
    let (report, _) = crate::report(&[&path, "--link-speed", "100G"]);
    assert_eq!(report["links"][0]["pause"][0]["paused_ns"], 59_000_000);
    assert_eq!(report["flows"][0]["pause_stall_ns"], 59_000_000);
    let victim = report["findings"].as_array().unwrap().iter().find(|found| found["id"] == "pfc.victim");
    assert_eq!(victim.unwrap()["flows"][0]["dest_qp"], 17);
    let text = replay(&[&path, "--output", "text"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("PAUSE AND PFC FRAMES") && text.contains("PFC priority 0: 295 frames"), "{text}");
}

#[test]
fn what_the_switch_says_is_in_the_report() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/encap/tcpdump_dcb_pfc.pcap");
    let (report, _) = report(&[path]);
    let neighbour = &report["links"][0]["neighbours"][0];
    assert!(neighbour["dialect"].is_string() && neighbour["pfc"]["enabled"].is_u64(), "{neighbour}");
    let text = String::from_utf8(replay(&[path, "--output", "text"]).stdout).unwrap();
    assert!(text.contains("NEIGHBOURS") && text.contains("IEEE DCBX; PFC on priority 2, 4, 5"), "{text}");
}

/// Under a limit of address space that is too small, too.
#[cfg(target_os = "linux")]
#[test]
fn no_memory_is_an_error_and_no_crash() {
    let folder = tempfile::tempdir().unwrap();
    let shots: Vec<Shot> = (0..2_000).map(|qp| send(u64::from(qp), qp + 16, 1)).collect();
    let path = file(folder.path(), "a.pcap", &pcap(1, &shots));
    let program = env!("CARGO_BIN_EXE_rocescope");
    let (mut refused, mut done) = (0, false);
    for limit in (16 * 1024..).step_by(8 * 1024).take(64) {
        let script = format!("ulimit -v {limit}; exec {program} replay {path} --output json");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => {
                done = true;
                break;
            }
            Some(1) => refused += 1,
            // The kernel cannot map the program, or the loader its libraries.
            None | Some(127) if refused == 0 => continue,
            code => panic!("{limit} kB: {code:?}, {}: {said}", output.status),
        }
        assert!(said.contains("rocescope: ") && said.contains("memory"), "{limit} kB: {said}");
    }
    assert!(done && refused > 0, "{refused} refused");
}
