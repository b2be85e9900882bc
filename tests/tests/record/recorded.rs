//! What a recording has not, and what it does not take twice.

use rocescope_tests::packages::duck_db_or_skip;
use rocescope_tests::recording::flow_rows;
use rocescope_tests::schema;
use rocescope_tests::sim::scenarios;
use serde_json::Value;

use super::{capture, parts, record, report, rocescope, text};

/// What a recording has not is null in its report, never 0.
pub(crate) fn what_is_not_recorded_is_null(played: &Value) {
    let null = |value: &Value, names: &[&str]| {
        for name in names {
            let found = value.get(name).unwrap_or_else(|| panic!("no field {name}"));
            assert!(found.is_null(), "{name}: {found}");
        }
    };
    let of_loss = [
        "lost_or_reordered",
        "unfilled",
        "mirrored",
        "rereads",
        "rnr_resent",
        "timeout_resent",
        "timeout_shortest_ns",
        "timeout_longest_ns",
        "gaps_capable",
        "gaps_ce",
        "stuck",
        "last_again_ns",
        "retransmission",
    ];
    null(played, &["bursts", "incast", "pattern"]);
    null(&played["totals"], &["ecn"]);
    let mut losses = 0;
    for flow in played["flows"].as_array().unwrap() {
        null(flow, &["ecn", "psn", "latency_unpaired", "latency_untimed", "pairing"]);
        if !flow["latency_ns"].is_null() {
            null(&flow["latency_ns"], &["p999"]);
        }
        for loss in [&flow["loss"], &flow["loss_responses"]] {
            if loss.is_null() {
                continue;
            }
            losses += 1;
            null(loss, &of_loss);
            for tap in ["before_tap", "after_tap"] {
                null(&loss[tap], &["episodes", "longest_ns"]);
            }
        }
    }
    assert!(losses > 0);
}

/// Frames other than RoCE by reason, NAKs by code, and of which sequence the losses are, as in the capture.
#[test]
fn kinds_of_frames_naks_and_losses_are_those_of_the_capture() {
    let (mut skipped, mut refused, mut responses) = (0, 0, 0);
    // READs, other frames, refused requests.
    for name in ["b2_read.h0.pcap", "n1_vxlan_ops.x0.pcap", "l1_any_sll2.any.pcap", "g_badrkey.h0.pcap"] {
        let dir = tempfile::tempdir().unwrap();
        assert!(record(&capture(name), dir.path(), &["--interval", "50ms"]).status.success());
        let (expected, played) = (report(&capture(name)), report(dir.path()));
        for total in ["packets", "bytes", "skipped"] {
            assert_eq!(played["totals"][total], expected["totals"][total], "{name}: {total}");
        }
        let by_name = |report: &Value, list: &str, figures: fn(&Value) -> Value| {
            let all = report[list].as_array().unwrap().iter();
            let named = all.map(|one| {
                let name = ["name", "link", "src", "dst", "dest_qp"].map(|part| one[part].to_string());
                (name.concat(), figures(one))
            });
            named.collect::<std::collections::BTreeMap<String, Value>>()
        };
        let of_links = |report| by_name(report, "links", |link| link["skipped_bytes"].clone());
        assert_eq!(of_links(&played), of_links(&expected), "{name}");
        let of_flows = |report| {
            by_name(report, "flows", |flow| {
                let known = ["loss", "loss_responses"].map(|loss| !flow[loss].is_null());
                serde_json::json!([flow["ack"], known, flow["first_ns"]])
            })
        };
        assert_eq!(of_flows(&played), of_flows(&expected), "{name}");
        skipped += expected["totals"]["skipped"].as_object().unwrap().len();
        for flow in expected["flows"].as_array().unwrap() {
            let naks = flow["ack"]["naks"].as_object().unwrap().iter();
            refused += naks.filter(|(code, n)| *code != "psn_sequence_error" && **n != 0).count();
            responses += usize::from(flow["loss"].is_null() && !flow["loss_responses"].is_null());
        }
    }
    assert!(skipped > 0 && refused > 0 && responses > 0, "{skipped} {refused} {responses}");
}

/// A silence makes no interval longer: what follows it is of the interval in which it ends.
#[test]
fn intervals_of_a_capture_with_silences_are_those_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--interval", "20ms"];
    // Silences of up to 2.3 s.
    assert!(record(&capture("h6_rping_loss.h0.pcap.gz"), dir.path(), &options).status.success());
    let rows = flow_rows(dir.path()).unwrap();
    let ends: std::collections::BTreeSet<u64> = rows.iter().map(|row| row.t.0).collect();
    let apart = ends.iter().zip(ends.iter().skip(1)).map(|(end, next)| next - end);
    assert!(apart.max() > Some(40_000_000), "no silence: {ends:?}");
    assert!(rows.iter().all(|row| row.interval_ns <= 20_000_000), "{rows:?}");
    assert_eq!(report(dir.path())["source"]["recording"]["interval_ns"], 20_000_000);
}

/// One rail is a rail; a name of no link is reported.
#[test]
fn one_rail_is_recorded_and_an_unknown_link_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["--rail", "a1_write_mtu1024.h0=left", "--rail", "nowhere=right", "--group", "elsewhere,x"];
    let output = record(&capture("a1_write_mtu1024.h0.pcap"), dir.path(), &names);
    assert!(output.status.success(), "{}", text(&output));
    for said in ["--rail: unknown link 'nowhere'", "--group: unknown link 'elsewhere'"] {
        assert!(text(&output).contains(said), "{}", text(&output));
    }
    let rows = flow_rows(dir.path()).unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|row| row.rail.as_deref() == Some("left")), "{rows:?}");
}

/// Findings have the figures of the end, also where their titles stay.
#[test]
fn findings_are_those_of_the_end_of_the_capture() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["k1_ecmp_ring.uA0.pcap.gz", "k1_ecmp_ring.uA1.pcap.gz"].map(capture);
    let [one, other] = files.each_ref().map(|file| file.to_str().unwrap());
    assert!(record(&files[0], dir.path(), &["--read", other, "--interval", "100ms"]).status.success());
    let output = rocescope(&["replay", one, other, "--output", "json"]).output().unwrap();
    let expected = schema::read(&output.stdout).unwrap();
    let by_id = |report: &Value| {
        let mut all = report["findings"].as_array().unwrap().clone();
        all.sort_by_key(|finding| finding["id"].to_string());
        all
    };
    let played = by_id(&report(dir.path()));
    assert!(played.iter().any(|finding| finding["id"] == "links.imbalance"), "{played:?}");
    assert_eq!(played, by_id(&expected));
}

/// Steps are those of the capture, whatever the interval: what early reports took for steps is withdrawn.
#[test]
fn steps_of_a_recording_do_not_depend_on_its_interval() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["straggler-for-a-time", "steps-of-160ms", "steps-one-long"] {
        let scenario = scenarios::all().into_iter().find(|scenario| scenario.name == name).unwrap();
        let to = dir.path().join(name);
        std::fs::create_dir(&to).unwrap();
        let run = scenario.run(1, &to).unwrap();
        let file = &run.files[0];
        let expected = report(file)["steps"].clone();
        assert!(expected["count"].as_u64() > Some(8), "{name}: {expected}");
        for interval in ["10ms", "70ms", "1s"] {
            let recording = to.join(interval);
            assert!(record(file, &recording, &["--interval", interval]).status.success());
            // The last rows go into the file of those before them.
            let tables = parts(&recording)
                .into_iter()
                .filter(|part| part.components().any(|at| at.as_os_str() == "steps"));
            assert_eq!(tables.count(), 1, "{name} {interval}");
            let played = report(&recording)["steps"].clone();
            for (figure, value) in expected.as_object().unwrap() {
                let is_recorded = !["autocorrelation", "autocorrelation_period_ns", "last_flow", "ending"]
                    .contains(&figure.as_str());
                assert!(
                    !is_recorded || played[figure] == *value,
                    "{name} {interval}: {figure}: {} {value}",
                    played[figure]
                );
            }
        }
    }
}

/// The percentiles of a capture lie in the ranges of its recording.
pub(crate) fn ranges_have_the_percentiles(played: &Value, expected: &Value) {
    for (flow, of_capture) in
        played["flows"].as_array().unwrap().iter().zip(expected["flows"].as_array().unwrap())
    {
        assert!(of_capture["latency_range_ns"].is_null());
        for name in ["p50", "p99"] {
            let Some(exact) = of_capture["latency_ns"][name].as_u64() else { continue };
            let range = &flow["latency_range_ns"];
            let [least, most] = ["least", "most"].map(|end| range[format!("{name}_{end}")].as_u64().unwrap());
            let shown = flow["latency_ns"][name].as_u64().unwrap();
            for value in [exact, shown] {
                assert!((least..=most).contains(&value), "{name}: {value} not in {range}");
            }
        }
    }
}

/// The text of a recording names what it has not, and has no sum of it.
#[test]
fn the_text_of_a_recording_says_what_is_not_recorded() {
    // Losses, PSNs out of order, repeated READ requests.
    for name in ["e1_loss1.h1.pcap.gz", "e3_reorder.h0.pcap.gz", "h6_rping_loss.h1.pcap.gz"] {
        let dir = tempfile::tempdir().unwrap();
        record(&capture(name), dir.path(), &["--interval", "20ms"]);
        let output =
            rocescope(&["replay", dir.path().to_str().unwrap(), "--output", "text"]).output().unwrap();
        let page = String::from_utf8(output.stdout).unwrap();
        for part in ["MISSING in the flow table", "p99.9 1", "6.25 %"] {
            assert!(!page.contains(part), "{name}: {part}: {page}");
        }
        let said = [
            "Steps     none: no rows of steps in the recording",
            "Bursts    not recorded",
            "Not recorded: ",
            "made from those of the recording's intervals",
            "p50 RANGE",
        ];
        for part in said {
            assert!(page.contains(part), "{name}: {part}: {page}");
        }
    }
}

/// A capture that is recorded again is refused: its packets would count twice. Another one of the same time is not, nor
/// the same for another host or in another folder.
#[test]
fn a_capture_is_not_recorded_twice_into_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let file = capture("e1_loss1.h0.pcap.gz");
    assert!(record(&file, dir.path(), &["--interval", "20ms"]).status.success());
    let (once, files) = (report(dir.path()), parts(dir.path()));
    for options in [&["--interval", "20ms"][..], &["--interval", "1h"]] {
        let output = record(&file, dir.path(), options);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        let said = text(&output);
        let parts = ["has rows of e1_loss1.h0.pcap.gz from ", "host node1", "twice", "--dir", "--host"];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
    assert_eq!((report(dir.path()), parts(dir.path())), (once.clone(), files));
    // The other end of the same traffic, at the same time.
    let output = record(&capture("e1_loss1.h1.pcap.gz"), dir.path(), &["--interval", "20ms"]);
    assert!(output.status.success(), "{}", text(&output));
    let packets = |report: &Value| report["totals"]["roce_packets"].as_u64().unwrap();
    let other = packets(&report(&capture("e1_loss1.h1.pcap.gz")));
    assert_eq!(packets(&report(dir.path())), packets(&once) + other);
    let (file, folder) = (file.to_str().unwrap(), dir.path().to_str().unwrap());
    let output = rocescope(&["record", "--read", file, "--dir", folder, "--host", "node2"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

/// How packets are spread over several source ports is not recorded: neither is their number then shown, nor a sum
/// made.
#[test]
fn several_source_ports_of_a_queue_pair_are_not_called_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = scenarios::all().into_iter();
    let scenario = all.find(|scenario| scenario.name == "clean-multipath-srv6").unwrap();
    let run = scenario.run(1, dir.path()).unwrap();
    let to = dir.path().join("recording");
    assert!(record(&run.files[0], &to, &["--interval", "20ms"]).status.success());
    let (expected, played) = (report(&run.files[0]), report(&to));
    let several = |report: &Value| {
        let flows = report["flows"].as_array().unwrap().iter();
        let ports = flows.map(|flow| flow["src_port_count"].as_u64());
        (ports.clone().filter(|ports| *ports > Some(1)).count(), ports.filter(Option::is_none).count())
    };
    let (sprayed, unknown) = several(&expected);
    assert!(sprayed > 0 && unknown == 0, "{}", expected["flows"]);
    assert_eq!(several(&played), (0, sprayed));
    assert!(played["entropy"]["unattributed_bytes"].as_u64() > Some(0), "{}", played["entropy"]);
}

/// What the source lost is that of the run.
#[test]
fn losses_of_the_source_are_those_of_the_run() {
    let name = "k1_ecmp_ring.uA0.pcap.gz";
    let dir = tempfile::tempdir().unwrap();
    let few = ["--max-flows", "5"];
    assert!(
        record(&capture(name), dir.path(), &[&["--interval", "20ms"], &few[..]].concat()).status.success()
    );
    let output =
        rocescope(&["replay", capture(name).to_str().unwrap(), "--output", "json"]).args(few).output();
    let expected = schema::read(&output.unwrap().stdout).unwrap();
    let played = report(dir.path());
    let full = expected["totals"]["lost"]["flow_table_full"].as_u64().unwrap();
    assert!(full > 0, "{}", expected["totals"]);
    for count in ["flow_table_full", "contended", "events_dropped", "capture_drops", "interface_drops"] {
        assert_eq!(played["totals"]["lost"][count], expected["totals"]["lost"][count], "{count}");
    }
    assert_eq!(played["totals"]["retired"]["packets"], expected["totals"]["retired"]["packets"]);
    assert_eq!(played["totals"]["roce_packets"], expected["totals"]["roce_packets"]);
}

/// Medians of intervals can lie on the other side: what the captures call worse was better in recordings of them.
#[test]
fn recordings_of_one_interval_have_no_verdict_that_their_captures_contradict() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["a1_write_mtu1024.h0.pcap", "c1_ipv6_write.h0.pcap"];
    let recordings = names.map(|name| dir.path().join(name));
    for (name, to) in names.iter().zip(&recordings) {
        assert!(record(&capture(name), to, &["--interval", "50ms"]).status.success());
    }
    let verdict = |files: [std::path::PathBuf; 2]| {
        let [a, b] = files.map(|file| file.to_str().unwrap().to_owned());
        let output = rocescope(&["diff", &a, &b, "--output", "json"]).output().unwrap();
        let diff: Value = serde_json::from_slice(&output.stdout).unwrap();
        let all = diff["metrics"].as_array().unwrap();
        all.iter().find(|one| one["name"] == "latency_p50_ns").unwrap()["verdict"].clone()
    };
    let of_captures = verdict(names.map(capture));
    let of_recordings = verdict(recordings);
    assert!(of_captures.is_string(), "{of_captures}");
    assert!(of_recordings.is_null() || of_recordings == of_captures, "{of_recordings}, {of_captures}");
}

/// Packets of a capture have no owner: their job is that of the environment, unless the user names one.
#[test]
fn the_job_of_a_capture_is_that_of_the_environment_unless_it_is_named() {
    let jobs = |options: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let (file, to) = (capture("b1_send.h1.pcap"), dir.path().to_str().unwrap());
        let output = rocescope(&["record", "--read", file.to_str().unwrap(), "--dir", to])
            .args(options)
            .env("SLURM_JOB_ID", "4711")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let mut jobs: Vec<Option<String>> =
            flow_rows(dir.path()).unwrap().iter().map(|row| row.job.as_deref().map(str::to_owned)).collect();
        jobs.dedup();
        jobs
    };
    assert_eq!(jobs(&[]), [Some("slurm job 4711".to_owned())]);
    assert_eq!(jobs(&["--job", "mine"]), [Some("mine".to_owned())]);
}

/// As DuckDB sees it: LZ4 everywhere, dictionaries for texts alone, differences for all numbers, and no row group of
/// more than 8,192 rows.
#[test]
fn files_are_encoded_as_documented() {
    let Some(engine) = duck_db_or_skip("files_are_encoded_as_documented") else { return };
    let dir = tempfile::tempdir().unwrap();
    let [other, third] = ["k1_ecmp_ring.uA1.pcap.gz", "f1_ecn_red.h1.pcap.gz"].map(capture);
    let options =
        ["--read", other.to_str().unwrap(), "--read", third.to_str().unwrap(), "--interval", "200us"];
    assert!(record(&capture("k1_ecmp_ring.uA0.pcap.gz"), dir.path(), &options).status.success());
    let sql = format!(
        "select path_in_schema as name, type, compression, encodings, row_group_num_rows as rows from parquet_metadata('{}/v1/flow_seconds/**/*.parquet') where row_group_id = 0",
        dir.path().display()
    );
    let output = std::process::Command::new(engine).args(["-json", "-c", &sql]).output().unwrap();
    let columns: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(columns.len(), 48, "{columns:?}");
    for column in &columns {
        let [kind, encodings] = ["type", "encodings"].map(|part| column[part].as_str().unwrap());
        assert_eq!(column["compression"], "LZ4_RAW", "{column}");
        let is_text = kind == "BYTE_ARRAY";
        assert_eq!(encodings.contains("DICTIONARY"), is_text, "{column}");
        assert_eq!(encodings.contains("DELTA_BINARY_PACKED"), !is_text, "{column}");
        assert_eq!(column["rows"], 8_192, "{column}");
    }
}
