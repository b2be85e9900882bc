//! Selection: the files that form a tap, and the frames that a filter leaves.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::craft::{START, Shot, pcap, send, sends};
use crate::{file, links, replay, report, schema};

#[test]
fn several_files_are_several_taps() {
    let folder = tempfile::tempdir().unwrap();
    let a = file(folder.path(), "a.pcap", &sends(0, 1, 5));
    let b = file(folder.path(), "b.pcap", &sends(2, 1, 4));
    let (report, said) = report(&[&a, &b]);
    assert_eq!((links(&report), said.as_str()), (vec!["a.pcap", "b.pcap"], ""));
    assert_eq!(report["flows"].as_array().unwrap().len(), 2);
    assert_eq!(report["totals"]["packets"], 9);
}

#[test]
fn rotated_files_are_one_tap_in_the_order_of_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&pcap(1, &[send(0, 1, 0), send(1, 1, 1)])).unwrap();
    let first = file(folder.path(), "x.pcap0.gz", &gz.finish().unwrap());
    let second = file(folder.path(), "x.pcap1", &pcap(1, &[send(2, 1, 2)]));
    // Given in the wrong order, they still have no gap.
    for args in [[second.as_str(), first.as_str()], [&first, &second]] {
        let (report, said) = report(&args);
        assert_eq!(links(&report), ["x.pcap"]);
        assert!(said.contains("joined into one tap, x.pcap"), "{said}");
        let psn = &report["flows"][0]["psn"];
        assert_eq!((&psn["first"], &psn["gaps"], &psn["repeats"]), (&json!(0), &json!(0), &json!(0)));
    }
    let (named, said) = report(&["--tap", &format!("leaf={second},{first}")]);
    assert_eq!((links(&named), said.as_str()), (vec!["leaf"], ""));
    assert_eq!(named["flows"][0]["psn"]["gaps"], 0);
}

#[test]
fn the_same_name_in_two_folders_stays_apart() {
    let folder = tempfile::tempdir().unwrap();
    let a = file(folder.path(), "h0/x.pcap", &sends(0, 1, 1));
    let b = file(folder.path(), "h1/x.pcap", &sends(0, 1, 1));
    let (report, said) = report(&[&a, &b]);
    assert_eq!(links(&report), ["h0/x.pcap", "h1/x.pcap"]);
    assert!(said.contains("2 files are named x.pcap"), "{said}");
}

#[test]
fn time_ranges_and_filters() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "a.pcap", &sends(0, 0x11, 100));
    let packets =
        |args: &[&str]| report(&[&[path.as_str()], args].concat()).0["totals"]["packets"].as_u64().unwrap();
    assert_eq!(packets(&["--from", "+90ms"]), 10);
    assert_eq!(packets(&["--to", "+9ms"]), 10);
    assert_eq!(packets(&["--from", "+10ms", "--to", "+19ms"]), 10);
    assert_eq!(packets(&["--from", &format!("{START}.05")]), 50);
    assert_eq!(packets(&["--to", "2023-11-14T22:13:20.049Z"]), 50);
    for output in ["text", "json"] {
        let outside = |args: &[&str]| {
            let output = replay(&[&[path.as_str(), "--output", output], args].concat());
            assert_eq!(
                (output.status.code(), output.stdout.len()),
                (Some(1), 0),
                "{args:?}: nothing is known"
            );
            String::from_utf8(output.stderr).unwrap()
        };
        let said = outside(&["--from", "+1h"]);
        assert!(
            said.contains("--from 2023-11-14 23:13:20.000 UTC is after the last frame")
                && said.contains(
                    "the frames are from 2023-11-14 22:13:20.000 UTC to 2023-11-14 22:13:20.099 UTC"
                )
                && said.contains("offsets below +99.0ms"),
            "{said}"
        );
        let said = outside(&["--to", "2023-11-14T22:13:19Z"]);
        assert!(said.contains("--to 2023-11-14 22:13:19.000 UTC is before the first frame"), "{said}");
        let said = outside(&["--from", "+10.1ms", "--to", "+10.9ms"]);
        assert!(said.contains("no frame is within --from and --to"), "{said}");
    }
    let output = replay(&[&path, "--from", "-1s"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("write +1s"), "{said}");
    assert_eq!(packets(&["--duration", "24ms"]), 25);
    assert_eq!(packets(&["--from", "+50ms", "--duration", "9ms"]), 10);
    let (filtered, _) = report(&[&path, "--filter", "qp 17 and not host 10.0.0.9"]);
    assert_eq!(filtered["totals"]["roce_packets"], 100);
    let (filtered, _) = report(&[&path, "--filter", "dst 10.0.0.1"]);
    assert_eq!(filtered["totals"]["skipped"], json!({ "filtered": 100 }));
}

#[test]
fn idle_flows_retire_and_a_full_table_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let shots: Vec<_> = (0..100).map(|i| send(u64::from(i) * 10, i % 10, i)).collect();
    let path = file(folder.path(), "a.pcap", &pcap(1, &shots));
    let (report_full, _) = report(&[&path, "--max-flows", "4"]);
    assert_eq!(report_full["totals"]["lost"]["flow_table_full"], 60);
    // Each figure that is made by flow says what it leaves out, and the rest adds up to the whole.
    let (link, burst, pattern) =
        (&report_full["links"][0], &report_full["bursts"][0], &report_full["pattern"]);
    for left_out in [link, burst, pattern].map(|of| &of["left_out_packets"]) {
        assert_eq!(left_out, 60, "{report_full}");
    }
    let sum = |list: &serde_json::Value, field: &str| -> u64 {
        list.as_array().unwrap().iter().map(|one| one[field].as_u64().unwrap()).sum()
    };
    assert_eq!(sum(&pattern["matrix"], "packets"), 40);
    for partial in ["frame_sizes", "dscp"] {
        assert_eq!(link[partial], serde_json::Value::Null, "{partial}");
    }
    assert_eq!(report_full["entropy"]["unattributed_bytes"], 60 * 62);
    assert_eq!(report_full["steps_absent"], "too many packets are in no flow");
    let text = replay(&[&path, "--max-flows", "4", "--output", "text"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert_eq!(text.matches("60 packets without a flow left out").count(), 2, "{text}");
    let (retired, _) = report(&[&path, "--idle", "50ms"]);
    assert!(retired["totals"]["retired"]["flows"].as_u64().unwrap() >= 80);
    assert_eq!(retired["entropy"]["five_tuples"], 1, "retired flows count");
}

#[test]
fn groups_compare_links_and_unknown_names_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let a = file(folder.path(), "a.pcap", &sends(0, 1, 30));
    let b = file(folder.path(), "b.pcap", &sends(2, 1, 10));
    let (grouped, said) = report(&[&a, &b, "--group", "a.pcap,b.pcap"]);
    assert_eq!((&grouped["imbalance"][0]["max_over_mean"], said.as_str()), (&json!(1.5), ""));
    let (_, said) = report(&[&a, &b, "--group", "a.pcap,c.pcap"]);
    assert!(said.contains("unknown link 'c.pcap'"), "{said}");
}

#[test]
fn a_speed_holds_frames_to_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "a.pcap", &pcap(1, &[send(0, 1, 0), send(600, 1, 1)]));
    let start = Instant::now();
    assert!(replay(&[&path, "--speed", "2x"]).status.success());
    assert!(start.elapsed() >= Duration::from_millis(300), "{:?}", start.elapsed());
}

#[test]
fn jsonl_is_a_report_per_interval_of_the_data_and_one_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    // 2.5 seconds of data, then a jump of a year.
    let mut shots: Vec<_> = (0..25).map(|i| send(u64::from(i) * 100, 1, i)).collect();
    shots.push(send(31_536_000_000, 1, 25));
    let output = replay(&[&file(folder.path(), "a.pcap", &pcap(1, &shots)), "--output", "jsonl"]);
    let packets: Vec<u64> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| schema::read(line).unwrap()["totals"]["packets"].as_u64().unwrap())
        .collect();
    assert_eq!(packets, [10, 20, 25, 26]);
}

#[test]
fn infiniband_has_neither_ports_nor_dscps_to_filter_by() {
    let folder = tempfile::tempdir().unwrap();
    // LRH from LID 1 to LID 2, BTH of a SEND ONLY, payload, ICRC and VCRC.
    let shot = |psn: u8| {
        let mut bytes = vec![0, 2, 0, 2, 0, 7, 0, 1, 4, 0, 0xFF, 0xFF, 0, 0, 0, 17, 0, 0, 0, psn];
        bytes.resize(30, 0);
        Shot { bytes, ..send(u64::from(psn), 17, 0) }
    };
    let path = file(folder.path(), "ib.pcap", &pcap(247, &[shot(1), shot(2), shot(3)]));
    let (all, said) = report(&[&path, "--filter", "qp 17"]);
    assert_eq!((&all["totals"]["roce_packets"], said.as_str()), (&json!(3), ""));
    let (none, said) = report(&[&path, "--filter", "port 4791 or dscp 0"]);
    assert_eq!(none["totals"]["skipped"], json!({ "filtered": 3 }));
    assert!(
        said.contains("3 InfiniBand packets did not match --filter: InfiniBand has no port, dscp"),
        "{said}"
    );
    let text = String::from_utf8(replay(&[&path, "--output", "text"]).stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("IB ")) && !text.contains("RoCE  "), "{text}");
}
