//! The figures of `rocescope fleet` over recordings of captures and of a simulated fleet, on DuckDB, every night on
//! both engines.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocescope::record::registry::{FlowSecond, LinkSecond};
use rocescope::sample::Direction;
use rocescope_tests::fleet::ask::{answer_to, ask, engine_of_figures, of_captures, of_captures_each, rows};
use rocescope_tests::fleet::{Fault, Fleet};
use rocescope_tests::oracle::binary;
use rocescope_tests::packages::duck_db_or_skip;
use rocescope_tests::recording::tables;
use serde_json::Value;

/// Real captures have few pairs of ports, and no direction: none of it hides what each of them has.
#[test]
fn few_hosts_recorded_from_captures_are_not_called_healthy() {
    const TEST: &str = "few_hosts_recorded_from_captures_are_not_called_healthy";
    let sender = of_captures(&[("node0", &["e1_loss1.h0.pcap.gz"])]);
    let both = of_captures(&[("node0", &["e1_loss1.h0.pcap.gz"]), ("node1", &["e1_loss1.h1.pcap.gz"])]);
    for engine in engine_of_figures(TEST) {
        // One host of two is enough, but its tap sees no loss, and go-back-N resends 44 packets for each.
        let (loss, row) = answer_to(sender.path(), "loss", &engine);
        assert!(
            loss.contains(
                ": 4,050 packets retransmitted (44.2 %), losses not known, in the only pair of ports"
            ),
            "{loss}"
        );
        assert!(row["lost"].is_null() && row["retransmitted"] == 4_050.0, "{row}");
        let (slow, row) = answer_to(sender.path(), "slow", &engine);
        assert!(slow.contains(": retransmission 44.2 %, in the only pair of ports"), "{slow}");
        assert!(row["usual"].is_null(), "{row}");
        let (balance, row) = answer_to(sender.path(), "balance", &engine);
        assert!(balance.starts_with("Nothing to compare with: ") && row.is_null(), "{balance}");
        let (stragglers, row) = answer_to(sender.path(), "stragglers", &engine);
        assert!(
            stragglers.starts_with(
                "Nothing to compare with: no step is known, and no job has two hosts that were recorded at"
            ) && row.is_null(),
            "{stragglers}"
        );
        let (jobs, row) = answer_to(sender.path(), "jobs", &engine);
        assert!(
            jobs.starts_with("Job training: retransmission 44.2 %, on 1 host; no median to compare with"),
            "{jobs}"
        );
        assert!(row["all_lost"].is_null() && row["usual"].is_null(), "{row}");
        // 92 of 9,170 packets were lost: a packet that two taps see counts once.
        for (question, lost) in [("loss", "lost"), ("jobs", "all_lost")] {
            let (headline, row) = answer_to(both.path(), question, &engine);
            assert!(headline.ends_with("Confidence: low"), "{headline}");
            assert!(
                headline.contains(if question == "loss" {
                    ": at least 87 packets lost (0.95 %)"
                } else {
                    ": loss at least 0.95 %"
                }),
                "{headline}"
            );
            assert_eq!(row[lost].as_f64(), Some(87.0), "{row}");
            // A capture is no rail, and nothing is a median.
            assert!(!headline.contains("pcap"), "{headline}");
            assert!(row["usual"].is_null(), "{row}");
            assert!((row["figure"].as_f64().unwrap() - 0.01).abs() < 6e-4, "{row}");
        }
    }
    let Some(engine) = duck_db_or_skip(TEST) else { return };
    let uplinks = of_captures(&[("node0", &["k1_ecmp_ring.uA0.pcap.gz", "k1_ecmp_ring.uA1.pcap.gz"])]);
    let (balance, _) = answer_to(uplinks.path(), "balance", &engine);
    // 5.98 MB and 0.85 MB.
    assert!(
        balance.starts_with(
            "Traffic of node0: k1_ecmp_ring.uA1 carries 0.25 × the mean of the links, k1_ecmp_ring.uA0 1.75 ×"
        ) || balance.starts_with("Traffic of node0: k1_ecmp_ring.uA0 carries 1.75 × the mean of the links, "),
        "{balance}"
    );
}

/// Where most pairs of a job lose packets the median does, too: that is no reason to call it usual.
#[test]
fn loss_of_every_pair_is_loss() {
    let fleet = Fleet::SMALL.until(Fault::Healthy);
    let folder = tempfile::tempdir().unwrap();
    let lossy = |row: &mut FlowSecond| {
        if row.direction == Some(Direction::Ingress) {
            row.lost = Some((row.packets / 500).cast_signed());
        }
    };
    fleet.write_changed(folder.path(), lossy, |_| {}).unwrap();
    let range = Some(fleet.range(Fault::Healthy));
    for engine in engine_of_figures("loss_of_every_pair_is_loss") {
        let source = folder.path().to_str().unwrap();
        let answer = ask(&binary::path().unwrap(), "loss", source, Some(&engine), range).unwrap();
        let headline = answer["headline"].as_str().unwrap();
        assert!(!headline.starts_with("No pair") && headline.contains("lost (0.20 %)"), "{headline}");
    }
}

/// Hosts have rails of other names and numbers, and a link may carry nothing at all.
#[test]
fn loads_are_compared_among_the_links_of_each_host() {
    const TEST: &str = "loads_are_compared_among_the_links_of_each_host";
    let (even, idle) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let fleet = Fleet::SMALL.until(Fault::Healthy);
    let of_host = |row: &LinkSecond| row.host.as_str().ends_with('3') || row.host.as_str().ends_with('7');
    let renamed = |row: &mut LinkSecond| {
        (row.packets, row.bytes) = (250_000, 1_000_000_000);
        if of_host(row) {
            row.rail = row.rail.as_deref().map(|rail| format!("gpu-{rail}").as_str().into());
        }
    };
    fleet.write_changed(even.path(), |_| {}, renamed).unwrap();
    let silent = |row: &mut LinkSecond| {
        let carried = if row.link.as_str() == "eth1" { 0 } else { 1_000_000_000 };
        (row.packets, row.bytes) = (carried / 4_000, carried);
    };
    fleet.write_changed(idle.path(), |_| {}, silent).unwrap();
    for engine in engine_of_figures(TEST) {
        let (headline, row) = answer_to(even.path(), "balance", &engine);
        assert!(headline.starts_with("No link, rail or plane") && row.is_null(), "{headline}");
        let (headline, row) = answer_to(idle.path(), "balance", &engine);
        assert_eq!(
            (row["idlest_ratio"].as_f64(), row["busiest_ratio"].as_f64().map(|r| r > 1.1)),
            (Some(0.0), Some(true)),
            "{headline} {row}"
        );
    }
}

/// Retransmissions after RNR NAKs, and after packets that arrived out of order.
#[test]
fn what_is_retransmitted_is_not_lost() {
    let not_ready = of_captures(&[("node0", &["g_rnr.h0.pcap"])]);
    let reordered =
        of_captures(&[("node0", &["e3_reorder.h0.pcap.gz"]), ("node1", &["e3_reorder.h1.pcap.gz"])]);
    for engine in engine_of_figures("what_is_retransmitted_is_not_lost") {
        for (folder, resent) in [(&not_ready, 57.0), (&reordered, 3_279.0)] {
            let (loss, row) = answer_to(folder.path(), "loss", &engine);
            if folder.path() == not_ready.path() {
                assert!(loss.starts_with("Losses are not known: 1 port pair"), "{loss}");
            } else {
                assert_eq!(loss, "No pair of ports loses more than 0.01 % of its packets");
            }
            assert!(row.is_null(), "{row}");
            let (jobs, row) = answer_to(folder.path(), "jobs", &engine);
            assert!(
                jobs.starts_with("Job training: waits ") || jobs.starts_with("Job training: stalls "),
                "{jobs}"
            );
            assert_eq!(row["all_retransmitted"].as_f64(), Some(resent), "{row}");
        }
    }
}

/// A job stands still for as long as it does, however often its counts are written.
#[test]
fn shares_of_a_job_do_not_depend_on_the_interval_of_the_recording() {
    const CAPTURES: [(&str, &[&str]); 2] =
        [("node0", &["e3_reorder.h0.pcap.gz"]), ("node1", &["e3_reorder.h1.pcap.gz"])];
    let recordings = ["100ms", "1s", "5s"].map(|interval| (interval, of_captures_each(&CAPTURES, interval)));
    for engine in engine_of_figures("shares_of_a_job_do_not_depend_on_the_interval_of_the_recording") {
        for (interval, folder) in &recordings {
            let (headline, row) = answer_to(folder.path(), "jobs", &engine);
            // The sender of four queue pairs is silent for 757 ms of 4 × 831 ms.
            assert!(
                headline.starts_with("Job training: stalls 22.8 % of the time"),
                "{interval}: {headline}"
            );
            assert_eq!(row["stall_ns"].as_f64(), Some(756_682_000.0), "{interval}: {row}");
        }
    }
}

#[test]
fn congestion_marks_are_a_problem_of_a_job() {
    let folder = of_captures(&[("node1", &["f1_ecn_red.h1.pcap.gz"])]);
    for engine in engine_of_figures("congestion_marks_are_a_problem_of_a_job") {
        let (jobs, _) = answer_to(folder.path(), "jobs", &engine);
        assert!(jobs.starts_with("Job training: CE 97.2 %, on 1 host"), "{jobs}");
        // Marks count without a median, and nobody sees what is lost downstream of a single tap.
        let (slow, row) = answer_to(folder.path(), "slow", &engine);
        assert!(slow.contains(": CE 97.2 %, in the only pair") && slow.contains("no median"), "{slow}");
        assert!(row["usual"].is_null(), "{row}");
        let (loss, _) = answer_to(folder.path(), "loss", &engine);
        assert!(loss.starts_with("Losses are not known: 1 port pair"), "{loss}");
        let timeline = rows(folder.path(), "timeline", &engine);
        assert!(timeline.iter().all(|row| row["lost_packets"].is_null()), "{timeline:?}");
    }
}

/// A packet that two taps see in different slots counts once, however long these are.
#[test]
fn the_timeline_has_the_same_sums_for_every_interval() {
    for interval in ["10ms", "100ms"] {
        let hosts: [(&str, &[&str]); 2] =
            [("node0", &["e1_loss1.h0.pcap.gz"]), ("node1", &["e1_loss1.h1.pcap.gz"])];
        let folder = of_captures_each(&hosts, interval);
        for engine in engine_of_figures("the_timeline_has_the_same_sums_for_every_interval") {
            let timeline = rows(folder.path(), "timeline", &engine);
            let sum = |name: &str| timeline.iter().filter_map(|row| row[name].as_f64()).sum::<f64>();
            let sums = ["retransmitted_packets", "lost_packets", "timeout_count"].map(sum);
            assert_eq!(serde_json::json!(sums), serde_json::json!([4_050.0, 87.0, 18.0]), "{interval}");
        }
    }
}

/// What two taps see counts once, and a slot has the length that was recorded of it.
#[test]
fn the_timeline_counts_what_loss_counts() {
    let folder = of_captures(&[("node0", &["e1_loss1.h0.pcap.gz"]), ("node1", &["e1_loss1.h1.pcap.gz"])]);
    for engine in engine_of_figures("the_timeline_counts_what_loss_counts") {
        let (_, answer) = answer_to(folder.path(), "loss", &engine);
        let timeline = rows(folder.path(), "timeline", &engine);
        let sum = |of: fn(&Value) -> f64| timeline.iter().map(of).sum::<f64>();
        let lost = sum(|row| row["lost_packets"].as_f64().unwrap());
        assert_eq!(Some(lost), answer["lost"].as_f64(), "{timeline:?}");
        let packets = sum(|row| row["lost_packets"].as_f64().unwrap() / row["loss_ratio"].as_f64().unwrap());
        let ratio = answer["figure"].as_f64().unwrap();
        assert!((lost / packets - ratio).abs() < 0.02 * ratio, "{} {ratio}", lost / packets);
        let (_, jobs) = answer_to(folder.path(), "jobs", &engine);
        let resent: f64 = timeline.iter().map(|row| row["retransmitted_packets"].as_f64().unwrap()).sum();
        assert_eq!(Some(resent), jobs["all_retransmitted"].as_f64(), "{timeline:?}");
        // Of a timeout, the two taps may see different ends.
        let timeouts = sum(|row| row["timeout_count"].as_f64().unwrap());
        assert!((timeouts - jobs["all_timeouts"].as_f64().unwrap()).abs() <= 1.0, "{timeline:?}");
        // 1.3 s of captures: the second slot is the rest.
        let lengths: Vec<f64> = timeline.iter().map(|row| row["slot_ns"].as_f64().unwrap()).collect();
        assert_eq!(lengths, [1e9, 317e6]);
        let bytes = sum(|row| row["bytes_per_s"].as_f64().unwrap() * row["slot_ns"].as_f64().unwrap() / 1e9);
        assert!((bytes - jobs["all_bytes"].as_f64().unwrap()).abs() < 1e5, "{bytes} {jobs}");
    }
}

/// From captures, which have no direction: the host of a record is the one that all of its flows have in common.
#[test]
fn a_straggler_is_named_by_others_alone() {
    let folder = tempfile::tempdir().unwrap();
    Fleet::SMALL.until(Fault::Straggler).write_as_captures(folder.path()).unwrap();
    let (program, source) = (binary::path().unwrap(), folder.path().to_str().unwrap());
    let range = Fleet::SMALL.range(Fault::Straggler);
    for engine in engine_of_figures("a_straggler_is_named_by_others_alone") {
        let answer = ask(&program, "stragglers", source, Some(&engine), Some(range)).unwrap();
        let headline = answer["headline"].as_str().unwrap();
        assert!(
            headline.starts_with("Straggler 10.0.0.32 of job train-1: 18 of 19 other hosts wait 2.00 s for it in 100 % of the steps (4.00 s each)."),
            "{headline}"
        );
        assert_eq!(answer["rows"].as_array().unwrap().len(), 1, "{answer}");
    }
}

/// Recorders are started at any time: the hosts of a job are compared although no two of them have rows of the same
/// time, and although none has rows of a time in which it is silent.
#[test]
fn a_straggler_is_named_by_traffic_whenever_the_intervals_begin() {
    let (program, fleet) = (binary::path().unwrap(), Fleet::SMALL.until(Fault::Straggler));
    for is_silent in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let written = fleet.write_shifted(folder.path(), is_silent).unwrap();
        let all = 60 * 8 * 2 * 2 * 16 * 5;
        assert!((written.flow_rows < all * 5 / 6) == is_silent, "{} of {all} rows", written.flow_rows);
        let source = folder.path().to_str().unwrap();
        for engine in engine_of_figures("a_straggler_is_named_by_traffic_whenever_the_intervals_begin") {
            let of =
                |fault| ask(&program, "stragglers", source, Some(&engine), Some(fleet.range(fault))).unwrap();
            let answer = of(Fault::Straggler);
            let headline = answer["headline"].as_str().unwrap();
            assert!(
                headline.starts_with(&fleet.culprit("stragglers", Fault::Straggler).unwrap())
                    && headline.contains(": sends alone in "),
                "{is_silent}: {headline}"
            );
            let rows = answer["rows"].as_array().unwrap();
            assert!(rows.len() == 1 && rows[0]["named_by"].is_null(), "{is_silent}: {answer}");
            // Of 16 seconds, the others are silent in the half; the first and the last are recorded in part.
            let [late, quiet] = ["late_seconds", "quiet_seconds"].map(|name| rows[0][name].as_f64().unwrap());
            assert!((5.0..=8.0).contains(&late) && (6.0..=10.0).contains(&quiet), "{is_silent}: {answer}");
            let healthy = of(Fault::Healthy);
            assert!(healthy["headline"].as_str().unwrap().starts_with("No "), "{is_silent}: {healthy}");
        }
    }
}

/// It receives packets of others alone, and is neither end of any.
#[test]
fn a_mirror_port_is_not_named_for_what_it_sees() {
    const TEST: &str = "a_mirror_port_is_not_named_for_what_it_sees";
    let faults = [("slow", Fault::SlowLink), ("loss", Fault::LossyPort), ("stragglers", Fault::Straggler)];
    let folder = tempfile::tempdir().unwrap();
    let fleet = Fleet::SMALL.until(Fault::Straggler);
    fleet.write(folder.path()).unwrap();
    let (program, source) = (binary::path().unwrap(), folder.path().to_str().unwrap());
    let answers = || {
        let of = |(question, fault)| {
            let range = Some(fleet.range(fault));
            let of_engine = |engine| ask(&program, question, source, Some(engine), range).unwrap();
            engine_of_figures(TEST)
                .iter()
                .map(|engine| of_engine(engine)["headline"].clone())
                .collect::<Vec<_>>()
        };
        faults.map(of)
    };
    let without = answers();
    fleet.add_mirror(folder.path()).unwrap();
    assert_eq!(answers(), without);
}

/// An engine that finds a file removed which it has listed: removes it, and fails once with the engine's words.
fn removing(gone: &Path, engine: &Path, folder: &Path) -> PathBuf {
    let name = engine.file_name().unwrap().to_str().unwrap();
    let words = match name {
        "duckdb" => format!("IO Error: Cannot open file \"{}\": No such file or directory", gone.display()),
        _ => format!(
            "Code: 107. DB::Exception: File {} doesn't exist: While executing File. (FILE_DOESNT_EXIST)",
            gone.display()
        ),
    };
    let (program, message) = (folder.join(name), folder.join("message"));
    std::fs::write(&message, words).unwrap();
    let script = format!(
        "#!/bin/sh\nif [ -e '{0}' ]; then rm '{0}'; cat >/dev/null; cat '{1}' >&2; exit 1; fi\nexec '{2}' \"$@\"\n",
        gone.display(),
        message.display(),
        engine.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// As of a bucket into which hosts copy, or a folder whose oldest files are removed: the answer is that of the whole
/// files, and what is left out is named.
#[test]
fn files_half_copied_or_removed_meanwhile_keep_nobody_from_an_answer() {
    const TEST: &str = "files_half_copied_or_removed_meanwhile_keep_nobody_from_an_answer";
    let folder = of_captures(&[("node0", &["e1_loss1.h0.pcap.gz"]), ("node1", &["e1_loss1.h1.pcap.gz"])]);
    let part = tables(&folder.path().join("v1/flow_seconds")).remove(0);
    let whole = std::fs::read(&part).unwrap();
    let run = |engine: &Path| {
        let mut command = Command::new(binary::path().unwrap());
        command.args(["fleet", "loss"]).arg(folder.path()).args(["--output", "json", "--engine"]).arg(engine);
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        (serde_json::from_slice::<Value>(&output.stdout).unwrap(), said)
    };
    for engine in engine_of_figures(TEST) {
        let (expected, said) = run(&engine);
        assert_eq!((said.as_str(), expected["rows"][0]["lost"].as_f64()), ("", Some(87.0)), "{expected}");
        // The engine lists it, and then it is gone.
        let gone = part.with_file_name("part-1-removed.parquet");
        std::fs::write(&gone, &whole).unwrap();
        let programs = tempfile::tempdir().unwrap();
        let program = removing(&gone, &engine, programs.path());
        assert_eq!(run(&program), (expected.clone(), String::new()));
        assert!(!gone.exists());
        // Half copied, with the temporary names of programs that copy and with the last one.
        let at = |name: &str| part.with_file_name(name);
        let half = &whole[..whole.len() / 2];
        for name in [".part-1-x.tmp", "part-1-x.parquet.partial", ".part-1-x.parquet.Ab12Cd"] {
            std::fs::write(at(name), half).unwrap();
        }
        assert_eq!(run(&engine), (expected.clone(), String::new()));
        for (name, bytes) in [("part-1-half.parquet", half), ("part-1-new.parquet", b"")] {
            std::fs::write(at(name), bytes).unwrap();
        }
        let (answer, said) = run(&engine);
        assert_eq!(answer, expected);
        for name in ["part-1-half.parquet", "part-1-new.parquet"] {
            let line = format!("rocescope: left out of the answer: {}: ", at(name).display());
            assert_eq!(said.matches(&line).count(), 1, "{said}");
        }
        assert_eq!(said.lines().count(), 2, "{said}");
        for file in
            std::fs::read_dir(part.parent().unwrap()).unwrap().flatten().filter(|file| file.path() != part)
        {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
}

/// What happened before a job died: of NICs that process RoCE, every figure of the timeline, second by second.
#[test]
fn the_timeline_has_what_queue_pairs_did_before_they_died() {
    let (program, fleet) = (binary::path().unwrap(), Fleet::SMALL);
    let folder = tempfile::tempdir().unwrap();
    fleet.write_offloaded(folder.path()).unwrap();
    // As of a table that has no file yet.
    std::fs::create_dir_all(folder.path().join("v1/flow_seconds")).unwrap();
    let source = folder.path().to_str().unwrap();
    let (begin, end) = fleet.range(Fault::Stalls);
    for engine in engine_of_figures("the_timeline_has_what_queue_pairs_did_before_they_died") {
        let of = |question: &str, range| {
            let answer = ask(&program, question, source, Some(&engine), Some(range)).unwrap();
            answer["rows"].as_array().unwrap().clone()
        };
        let rows = of("timeline", (begin, end));
        let expected = fleet.seconds_of_deaths();
        assert_eq!(rows.len(), expected.len(), "{rows:#?}");
        for (row, expected) in rows.iter().zip(&expected) {
            assert_eq!(row["unix_s"].as_f64(), Some((begin + expected.at) as f64));
            for (column, figure) in &expected.figures {
                let found = row[column].as_f64();
                let is_same = match (found, *figure) {
                    (Some(found), Some(figure)) => (found - figure).abs() <= 1e-9 * figure,
                    (found, figure) => found == figure,
                };
                assert!(is_same, "{column}: {found:?}, not {figure:?}: {row:#}");
            }
            assert_eq!(row["worst_finding"].as_str(), expected.finding, "{row:#}");
        }
        // All of the recording: the deaths come first, though more is unusual elsewhere.
        let whole = ask(&program, "timeline", source, Some(&engine), None).unwrap();
        let headline = whole["headline"].as_str().unwrap();
        assert!(
            headline.contains(": number of queue pairs that died unusually high, 16 queue pairs "),
            "{headline}"
        );
        let sum = |column: &str| {
            whole["rows"].as_array().unwrap().iter().filter_map(|row| row[column].as_f64()).sum::<f64>()
        };
        let sums = ["qps_died", "setup_failures", "critical_findings", "warning_findings"].map(sum);
        assert_eq!(serde_json::json!(sums), serde_json::json!([16.0, 12.0, 2.0, 2.0]));
        // Of three jobs, one lost queue pairs.
        let jobs = of("jobs", (begin, end));
        let figures = |row: &Value| ["qps_died", "qps_stuck"].map(|column| row[column].as_f64());
        assert_eq!(figures(&jobs[0]), [Some(16.0), Some(16.0)]);
        assert!(jobs[1..].iter().all(|row| figures(row) == [Some(0.0), Some(0.0)]), "{jobs:#?}");
        // Nothing happens in the healthy time, of which the queue pairs are known.
        for row in of("timeline", fleet.range(Fault::Healthy)) {
            assert_eq!(row["qps_died"].as_f64(), Some(0.0), "{row:#}");
            assert_eq!(row["qps_stuck"].as_f64(), Some(0.0), "{row:#}");
            assert!(row["worst_metric"].is_null() && row["worst_finding"].is_null(), "{row:#}");
        }
    }
}
