//! `rocescope fleet` over recordings that have less than a question wants: what is not known is no zero, and no
//! culprit.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use rocescope::record::registry::{FlowSecond, QpSecond};
use rocescope_tests::fleet::ask::{ask, engines};
use rocescope_tests::fleet::{Fault, Fleet, QpRows};
use rocescope_tests::oracle::binary;
use serde_json::Value;

/// A recording of the queue pairs of which some die.
fn of_deaths(change: impl Fn(&mut QpRows)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    Fleet::SMALL.until(Fault::Stalls).write_deaths(folder.path(), change).unwrap();
    folder
}

fn answer(folder: &Path, question: &str, engine: &Path, range: Option<(u64, u64)>) -> Value {
    ask(&binary::path().unwrap(), question, folder.to_str().unwrap(), Some(engine), range).unwrap()
}

fn column(answer: &Value, name: &str) -> Vec<Option<f64>> {
    answer["rows"].as_array().unwrap().iter().map(|row| row[name].as_f64()).collect()
}

/// Each context is read at another time of a turn, so that the first and the last turn of a range have a part of them.
#[test]
fn queue_pairs_that_are_read_in_turns_do_not_send_less_at_the_ends() {
    const TURN_S: u64 = 8;
    let fleet = Fleet { hosts: 60, seconds: 96, faults: 1 };
    let begin = fleet.range(Fault::Healthy).0;
    let mixed = tempfile::tempdir().unwrap();
    fleet.write_in_turns(mixed.path(), TURN_S).unwrap();
    // Without the hosts that read each second, slots are as long as a turn.
    let slow = tempfile::tempdir().unwrap();
    for host in (0..fleet.hosts).filter(|host| host % 3 != 0) {
        let hours = Path::new("v1/qp_seconds/date=2025-11-22/hour=08").join(format!("host=node{host:05}"));
        std::fs::create_dir_all(slow.path().join(&hours)).unwrap();
        for file in std::fs::read_dir(mixed.path().join(&hours)).unwrap() {
            let file = file.unwrap();
            std::fs::hard_link(file.path(), slow.path().join(&hours).join(file.file_name())).unwrap();
        }
    }
    // Of each host, 8 ports with 2 peers.
    let recordings = [(mixed.path(), 60.0, 1), (slow.path(), 40.0, TURN_S)];
    for engine in engines("queue_pairs_that_are_read_in_turns_do_not_send_less_at_the_ends") {
        for (folder, hosts, slot_s) in recordings {
            for range in [None, Some((begin + 30, begin + 70)), Some((begin + 32, begin + 64))] {
                let answer = answer(folder, "timeline", &engine, range);
                assert_eq!(answer["headline"], "No slot stands out", "{range:?}: {answer:#}");
                let figures = column(&answer, "qp_packets_per_s");
                let known: Vec<f64> = figures.iter().copied().flatten().collect();
                // A turn less at either end.
                let seconds = range.map_or(96, |(from, to)| to - from) - TURN_S - slot_s;
                let width = answer["rows"][1]["slot_ns"].as_f64().unwrap() / 1e9;
                assert!(known.len() as f64 * width >= seconds as f64 - 2.0 * width, "{range:?}: {figures:?}");
                assert!(figures.first() == Some(&None) && figures.last() == Some(&None), "{figures:?}");
                let each = known.iter().sum::<f64>() / known.len() as f64;
                assert!(known.iter().all(|found| (found - each).abs() <= 0.03 * each), "{figures:?}");
                let sent = hosts * 16.0 * (1.5e9_f64 / 4_096.0).floor();
                assert!((each - sent).abs() <= 0.01 * sent, "{each}, not {sent}");
            }
        }
    }
}

/// Only the control path shows how a queue pair ended.
#[test]
fn deaths_are_not_known_where_nobody_follows_the_control_path() {
    let older = of_deaths(|rows| {
        for life in &mut rows.lives {
            (life.sources, life.end_kind) = (None, None);
        }
    });
    let listed = of_deaths(|rows| {
        for life in &mut rows.lives {
            (life.sources, life.end_kind) = (Some("netlink,context".into()), None);
        }
    });
    let contexts = of_deaths(|rows| rows.lives.clear());
    let followed = of_deaths(|rows| rows.seconds.iter_mut().for_each(|row| row.stuck_ns = None));
    let range = Some(Fleet::SMALL.range(Fault::Stalls));
    for engine in engines("deaths_are_not_known_where_nobody_follows_the_control_path") {
        for folder in [&older, &listed, &contexts] {
            let timeline = answer(folder.path(), "timeline", &engine, range);
            assert!(column(&timeline, "qps_died").iter().all(Option::is_none), "{timeline:#}");
            let jobs = answer(folder.path(), "jobs", &engine, range);
            assert_eq!(column(&jobs, "qps_died"), [None; 3], "{jobs:#}");
            // Retries are known in any case.
            assert!(column(&jobs, "qps_stuck").contains(&Some(16.0)), "{jobs:#}");
        }
        let timeline = answer(followed.path(), "timeline", &engine, range);
        let died: Option<f64> = column(&timeline, "qps_died").into_iter().sum();
        assert_eq!(died, Some(16.0), "{timeline:#}");
        // Nothing says that none is stuck.
        assert!(column(&timeline, "qps_stuck").iter().all(Option::is_none), "{timeline:#}");
        let jobs = answer(followed.path(), "jobs", &engine, range);
        assert_eq!(column(&jobs, "qps_died"), [Some(16.0), Some(0.0), Some(0.0)], "{jobs:#}");
        assert_eq!(column(&jobs, "qps_stuck"), [None; 3], "{jobs:#}");
    }
}

/// The row of a death is written again when the queue pair is destroyed.
#[test]
fn queue_pairs_that_died_before_a_range_do_not_die_in_it() {
    let fleet = Fleet::SMALL;
    let folder = of_deaths(|_| {});
    let (begin, end) = fleet.range(Fault::Stalls);
    let middle = fleet.second_after_deaths();
    for engine in engines("queue_pairs_that_died_before_a_range_do_not_die_in_it") {
        for (range, all) in [((begin, middle), 16.0), ((middle, end), 0.0)] {
            for question in ["timeline", "jobs"] {
                let answer = answer(folder.path(), question, &engine, Some(range));
                let died: Option<f64> = column(&answer, "qps_died").into_iter().sum();
                assert_eq!(died, Some(all), "{question} {range:?}: {answer:#}");
            }
        }
    }
}

/// The PSN of one queue pair may have wrapped: the packets of all others are known.
#[test]
fn packets_of_a_slot_with_an_ambiguous_reading_are_a_lower_bound() {
    const AT: [u64; 2] = [2, 4];
    let fleet = Fleet::SMALL;
    let (begin, end) = fleet.range(Fault::Stalls);
    let exact = of_deaths(|_| {});
    // In one second that of one queue pair, in another those of all.
    let ambiguous = of_deaths(|rows| {
        let second = |row: &QpSecond| row.t.0 / 1_000_000_000 - begin - 1;
        let mut one = rows.seconds.iter_mut().filter(|row| row.host.as_str() == "node00003");
        if let Some(row) = one.find(|row| second(row) == AT[0]) {
            row.sent_packets = None;
        }
        let all = rows.seconds.iter_mut().filter(|row| second(row) == AT[1]);
        all.for_each(|row| row.sent_packets = None);
    });
    for engine in engines("packets_of_a_slot_with_an_ambiguous_reading_are_a_lower_bound") {
        let of = |folder: &tempfile::TempDir| answer(folder.path(), "timeline", &engine, Some((begin, end)));
        let (known, found) = (of(&exact), of(&ambiguous));
        assert_eq!(known["headline"], found["headline"]);
        let bounds =
            found["rows"].as_array().unwrap().iter().map(|row| row["qp_packets_lower_bound"].as_bool());
        let all = column(&known, "qp_packets_per_s").into_iter().zip(column(&found, "qp_packets_per_s"));
        for (at, ((exact, found), is_bound)) in (0u64..).zip(all.zip(bounds)) {
            if at == AT[0] {
                let least = exact.unwrap() - (1.5e9_f64 / 4_096.0).floor();
                assert!(found.is_some_and(|found| (found - least).abs() <= 1.0), "{found:?}, not {least}");
                assert_eq!(is_bound, Some(true));
            } else {
                let expected = if at == AT[1] { None } else { exact };
                assert_eq!((found, is_bound), (expected, None), "{at}");
            }
        }
        let mut command = Command::new(binary::path().unwrap());
        command.args(["fleet", "timeline", "--output", "html"]);
        command.args(["--from", &begin.to_string(), "--to", &end.to_string()]);
        let output = command.arg(ambiguous.path()).arg("--engine").arg(&engine).output().unwrap();
        let page = String::from_utf8(output.stdout).unwrap();
        assert_eq!(page.matches(">≥ ").count(), 1, "{page}");
        assert!(!page.contains("LOWER BOUND"), "{page}");
    }
}

/// Of a fleet that is quiet, one table alone says what happened.
#[test]
fn a_table_without_counts_is_no_empty_recording() {
    let fleet = Fleet::SMALL;
    let clear = |rows: &mut QpRows, kept: &str| {
        rows.seconds.clear();
        if kept != "lives" {
            rows.lives.clear();
        }
        if kept != "events" {
            rows.events.clear();
        }
        if kept != "findings" {
            rows.findings.clear();
        }
    };
    let range = Some(fleet.range(Fault::Stalls));
    let sums = [
        ("lives", "qps_died", 16.0),
        ("events", "setup_failures", 12.0),
        ("findings", "critical_findings", 2.0),
    ];
    for (kept, name, all) in sums {
        let folder = of_deaths(|rows| clear(rows, kept));
        for engine in engines("a_table_without_counts_is_no_empty_recording") {
            let timeline = answer(folder.path(), "timeline", &engine, range);
            let sum: f64 = column(&timeline, name).into_iter().flatten().sum();
            assert!((sum - all).abs() < 1e-9, "{kept}: {sum}, not {all}: {timeline:#}");
            if kept == "lives" {
                let jobs = answer(folder.path(), "jobs", &engine, range);
                let headline = jobs["headline"].as_str().unwrap();
                assert!(headline.contains(": 16 queue pairs died ("), "{headline}");
            }
        }
    }
}

/// Five set-ups that fail are as many as it takes, neither more nor less.
#[test]
fn the_smallest_figure_that_stands_out_has_its_name() {
    let fleet = Fleet::SMALL;
    for failed in [4, 5] {
        let folder = of_deaths(|rows| {
            rows.lives.clear();
            rows.findings.clear();
            rows.events.retain(|event| event.event.as_str() == "modify to RTR");
            rows.events.truncate(failed);
            rows.seconds.retain(|row| row.host.as_str() != Fleet::SMALL.dying_host());
        });
        for engine in engines("the_smallest_figure_that_stands_out_has_its_name") {
            let answer = answer(folder.path(), "timeline", &engine, Some(fleet.range(Fault::Stalls)));
            let headline = answer["headline"].as_str().unwrap();
            let expected = " UTC: number of queue pairs whose set-up failed unusually high, 5 against a median of 0 (z 5.0)";
            assert_eq!(headline.contains(expected), failed == 5, "{headline}");
            assert_eq!(headline == "No slot stands out", failed < 5, "{headline}");
        }
    }
}

/// A host begins with the clock of 1970, until the time service has set it.
#[test]
fn a_clock_that_is_not_set_stretches_no_answer_over_decades() {
    let fleet = Fleet::SMALL.until(Fault::Healthy);
    let folder = tempfile::tempdir().unwrap();
    let begin = fleet.range(Fault::Healthy).0;
    let early = |row: &mut FlowSecond| {
        if row.host.as_str() == "node00003" && row.t.0 < (begin + 3) * 1_000_000_000 {
            row.t.0 -= begin * 1_000_000_000 - 30_000_000_000;
        }
    };
    fleet.write_changed(folder.path(), early, |_| {}).unwrap();
    for engine in engines("a_clock_that_is_not_set_stretches_no_answer_over_decades") {
        let mut timeline = Value::Null;
        for question in ["slow", "jobs", "timeline"] {
            timeline = answer(folder.path(), question, &engine, None);
            let scope = timeline["scope"].as_str().unwrap();
            assert!(scope.contains(" readings, 2025-11-22 08:"), "{scope}");
            let (_, left_out) = scope.split_once("; left out: ").unwrap();
            let expected =
                " rows of before 2010, as from a host whose clock was not set: --from 1970-01-01T00:00:00Z";
            assert!(left_out.contains(expected), "{scope}");
        }
        assert!(column(&timeline, "slot_ns").iter().flatten().all(|ns| *ns < 1e11), "{timeline:#}");
        // All questions select rows by the same condition.
        let mut command = Command::new(binary::path().unwrap());
        command.args(["fleet", "jobs", "--from", "1970-01-01T00:00:00Z"]).arg(folder.path());
        let all = String::from_utf8(command.arg("--engine").arg(&engine).output().unwrap().stdout).unwrap();
        assert!(all.contains(" readings, 1970-01-01 00:00:") && !all.contains("left out"), "{all}");
    }
}

/// A host whose clock is years ahead: a time range that ends with its rows would be all but empty.
#[test]
fn a_clock_that_is_years_ahead_stretches_no_answer_over_decades() {
    const YEARS_NS: u64 = 10 * 365 * 24 * 3_600 * 1_000_000_000;
    let fleet = Fleet::SMALL.until(Fault::Healthy);
    let begin = fleet.range(Fault::Healthy).0;
    let late = |row: &mut FlowSecond| {
        if row.host.as_str() == "node00003" && row.t.0 < (begin + 3) * 1_000_000_000 {
            row.t.0 += YEARS_NS;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    fleet.write_changed(folder.path(), late, |_| {}).unwrap();
    // All of them.
    let ahead = tempfile::tempdir().unwrap();
    fleet.write_changed(ahead.path(), |row| row.t.0 += YEARS_NS, |row| row.t.0 += YEARS_NS).unwrap();
    let asked = |folder: &Path, engine: &Path, question: &str, to: &[&str]| {
        let mut command = Command::new(binary::path().unwrap());
        let output =
            command.args(["fleet", question]).args(to).arg(folder).arg("--engine").arg(engine).output();
        let output = output.unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    for engine in engines("a_clock_that_is_years_ahead_stretches_no_answer_over_decades") {
        let mut timeline = Value::Null;
        for question in ["slow", "jobs", "timeline"] {
            timeline = answer(folder.path(), question, &engine, None);
            let scope = timeline["scope"].as_str().unwrap();
            assert!(scope.contains(" to 2025-11-22 08:"), "{scope}");
            let expected = " rows of more than a day from now, as from a host whose clock is ahead: --to 2100-01-01T00:00:00Z";
            let (_, left_out) = scope.split_once("; left out: ").unwrap();
            assert!(left_out.contains(expected), "{scope}");
        }
        assert!(column(&timeline, "slot_ns").iter().flatten().all(|ns| *ns < 1e11), "{timeline:#}");
        let all = asked(folder.path(), &engine, "jobs", &["--to", "2100-01-01T00:00:00Z"]);
        assert!(all.contains(" to 2035-11-") && !all.contains("left out"), "{all}");
        let none = asked(ahead.path(), &engine, "slow", &[]);
        assert!(
            none.contains("job is left out: ") && none.contains(" rows of more than a day from now"),
            "{none}"
        );
    }
}

/// One of several names is wrong: the answer would be of the others alone.
#[test]
fn a_recording_without_a_table_is_named() {
    let folder = tempfile::tempdir().unwrap();
    // As DuckDB answers where a bucket has nothing.
    let engine = folder.path().join("duckdb");
    let script = "#!/bin/sh\npattern=$(grep -o \"s3://typo[^']*\" | head -1)\n\
                  [ -z \"$pattern\" ] || { echo \"IO Error: No files found that match the pattern \\\"$pattern\\\"\" >&2; exit 1; }\n\
                  echo '[{\"all_rows\": 1, \"readings\": 1}]'\n";
    std::fs::write(&engine, script).unwrap();
    std::fs::set_permissions(&engine, std::fs::Permissions::from_mode(0o755)).unwrap();
    let empty = folder.path().join("empty");
    std::fs::create_dir_all(empty.join("v1/flow_seconds")).unwrap();
    let run = |sources: &[&str]| {
        let mut command = Command::new(binary::path().unwrap());
        command.args(["fleet", "slow"]).args(sources).arg("--engine").arg(&engine);
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(run(&["s3://good"]).0);
    // A pattern longer than errors usually are.
    let typo = format!("s3://typo/{}", "folder".repeat(100));
    for wrong in ["s3://typo", &typo] {
        let (success, error) = run(&["s3://good", wrong]);
        let expected = format!("no recording in {wrong}: no table that `slow` reads (flow_seconds, ");
        assert!(!success && error.contains(&expected), "{error}");
    }
    let empty = empty.to_str().unwrap();
    let (success, error) = run(&["s3://good", empty]);
    assert!(!success && error.contains(&format!("no recording in {empty}: ")), "{error}");
}
