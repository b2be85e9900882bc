//! Recordings: a capture becomes tables whose sums equal its report; kill -9, a full disk, a damaged file.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod click_house;
mod live;
mod recorded;
mod size;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rocescope::record::parquet;
use rocescope::record::registry::FlowSecond;
use rocescope_tests::capture_file::{ETHERNET, Order, Pcap};
use rocescope_tests::killed::Killed;
use rocescope_tests::live::frames;
use rocescope_tests::needs::there_or_skip;
use rocescope_tests::oracle::{binary, captures};
use rocescope_tests::packages::duck_db_or_skip;
use rocescope_tests::pty;
use rocescope_tests::schema;
use serde_json::Value;

fn capture(name: &str) -> PathBuf {
    captures::folder().join(name)
}

fn rocescope(args: &[&str]) -> Command {
    let mut command = Command::new(binary::path().unwrap());
    command.args(args);
    command
}

fn record(capture: &Path, dir: &Path, options: &[&str]) -> Output {
    let (capture, dir) = (capture.to_str().unwrap(), dir.to_str().unwrap());
    rocescope(&["record", "--read", capture, "--dir", dir, "--host", "node1"]).args(options).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The JSON report of a capture or a recording.
fn report(path: &Path) -> Value {
    let output = rocescope(&["replay", path.to_str().unwrap(), "--output", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    schema::read(&output.stdout).unwrap()
}

/// Figures of flows that a recording keeps, by name.
fn flows(report: &Value) -> BTreeMap<String, Vec<Value>> {
    let of = |flow: &Value| {
        let loss = |name: &str| {
            let both = ["loss", "loss_responses"].map(|part| flow[part][name].as_u64());
            Value::from(both.into_iter().flatten().reduce(|a, b| a + b))
        };
        let mut figures: Vec<Value> =
            ["packets", "bytes", "payload_bytes", "cnp_packets", "ce_ratio", "dscp", "vlan", "roce_version"]
                .map(|name| flow[name].clone())
                .into();
        figures.extend(["lost", "recovered", "retransmitted", "timeouts"].map(loss));
        figures.push(flow["ack"]["acks"].clone());
        figures.push(flow["ack"]["rnr_naks"].clone());
        figures.push(flow["ack"]["naks"]["psn_sequence_error"].clone());
        figures.push(flow["latency_ns"]["count"].clone());
        let name = format!("{} {} {} {}", flow["link"], flow["src"], flow["dst"], flow["dest_qp"]);
        (name, figures)
    };
    report["flows"].as_array().unwrap().iter().map(of).collect()
}

fn ids(report: &Value) -> Vec<&str> {
    let mut ids: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["id"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    ids
}

fn parts(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.join("v1")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() { folders.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn a_recording_played_back_has_the_figures_and_findings_of_the_capture() {
    for name in [
        "e1_loss1.h0.pcap.gz",
        "f1_ecn_red.h1.pcap.gz",
        "g_rnr.h0.pcap",
        "d1_vlan_write.h0.pcap",
        "h6_rping_loss.h1.pcap.gz",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let output = record(&capture(name), dir.path(), &["--interval", "20ms", "--rotate", "200ms"]);
        assert!(output.status.success(), "{name}: {}", text(&output));
        let (expected, played) = (report(&capture(name)), report(dir.path()));
        assert_eq!(flows(&played), flows(&expected), "{name}");
        for figure in ["roce_packets", "roce_bytes", "cnp_packets"] {
            assert_eq!(played["totals"][figure], expected["totals"][figure], "{name}: {figure}");
        }
        assert_eq!(ids(&played), ids(&expected), "{name}");
        // Longer where the capture has pauses.
        assert!(played["source"]["recording"]["interval_ns"].as_u64() >= Some(20_000_000), "{name}");
        assert!(expected["source"]["recording"].is_null(), "{name}");
        recorded::what_is_not_recorded_is_null(&played);
        recorded::ranges_have_the_percentiles(&played, &expected);
        assert!(std::fs::read_dir(dir.path().join("journal")).unwrap().next().is_none(), "{name}");
        // Compares two recordings, or a recording and a capture.
        let (dir, file) = (dir.path().to_str().unwrap(), capture(name));
        let diff = compared(Path::new(dir), &file);
        let (same, unknown): (Vec<_>, Vec<_>) =
            figures(&diff).into_iter().partition(|(_, [a, _])| a.is_number());
        for (figure, [a, b]) in &same {
            // Of latency a recording has the medians of intervals, and it does not count repeated READ requests.
            let rereads = *figure == "retransmitted_ratio" && name.starts_with("h6");
            assert!(a == b || rereads || *figure == "latency_p50_ns", "{name}: {figure}: {a} {b}");
        }
        assert!(same.len() >= 8, "{name}: {same:?}");
        // What a recording does not have is unknown, not equal.
        assert!(
            unknown.iter().any(|(figure, [a, b])| *figure == "missing_ratio" && a.is_null() && b.is_number())
        );
        let pairs = diff["hosts"].as_array().unwrap().iter();
        let of_pairs = pairs.flat_map(|pair| pair["metrics"].as_array().unwrap());
        for metric in diff["metrics"].as_array().unwrap().iter().chain(of_pairs) {
            assert!(metric["verdict"].is_null() || metric["verdict"] == "same", "{name}: {metric}");
        }
        for finding in diff["findings"].as_array().unwrap() {
            assert_eq!(
                (&finding["a"], &finding["count_a"]),
                (&finding["b"], &finding["count_b"]),
                "{name}: {finding}"
            );
        }
    }
}

/// `diff` of two captures or recordings.
fn compared(a: &Path, b: &Path) -> Value {
    let output =
        rocescope(&["diff", a.to_str().unwrap(), b.to_str().unwrap(), "--output", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Figures of both sides by name.
fn figures(diff: &Value) -> BTreeMap<&str, [&Value; 2]> {
    let all = diff["metrics"].as_array().unwrap().iter();
    all.map(|metric| (metric["name"].as_str().unwrap(), [&metric["a"], &metric["b"]])).collect()
}

/// The interval of a recording does not make it better or worse; what is not known is named.
#[test]
fn recordings_of_other_intervals_are_neither_better_nor_worse() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["k1_ecmp_ring.uA0.pcap.gz", "e1_loss1.h0.pcap.gz", "h6_rping_loss.h1.pcap.gz"] {
        let intervals = ["5ms", "50ms", "1s"];
        let recordings = intervals.map(|interval| dir.path().join(format!("{name}.{interval}")));
        for (to, interval) in recordings.iter().zip(intervals) {
            assert!(record(&capture(name), to, &["--interval", interval]).status.success());
        }
        for (a, b) in [(0, 1), (1, 2), (2, 0)] {
            let diff = compared(&recordings[a], &recordings[b]);
            let pairs = diff["hosts"].as_array().unwrap().iter();
            let of_pairs = pairs.flat_map(|pair| pair["metrics"].as_array().unwrap());
            let not_compared = diff["not_compared"].as_array().unwrap();
            for metric in diff["metrics"].as_array().unwrap().iter().chain(of_pairs) {
                let verdict = &metric["verdict"];
                assert!(verdict.is_null() || verdict == "same", "{name}: {metric}");
                let named = not_compared
                    .iter()
                    .any(|one| one["metrics"].as_array().unwrap().contains(&metric["name"]));
                let known = metric["a"].is_number() && metric["b"].is_number();
                assert!(!known || named || verdict == "same", "{name}: {metric} {not_compared:?}");
            }
            for finding in diff["findings"].as_array().unwrap() {
                assert!(finding["state"] == "same" || finding["state"].is_null(), "{name}: {finding}");
            }
        }
    }
}

/// Two recordings: equal to itself, and with the other's figures where they differ.
#[test]
fn two_recordings_are_compared_by_their_figures() {
    let dir = tempfile::tempdir().unwrap();
    let [loss, red, again] = ["loss", "red", "again"].map(|name| dir.path().join(name));
    for (capture_of, to) in [("e1_loss1.h0.pcap.gz", &loss), ("f1_ecn_red.h1.pcap.gz", &red)] {
        assert!(record(&capture(capture_of), to, &["--interval", "20ms"]).status.success());
    }
    // Other intervals and files give the same figures.
    assert!(
        record(&capture("e1_loss1.h0.pcap.gz"), &again, &["--interval", "100ms", "--rotate", "300ms"])
            .status
            .success()
    );
    let equal = compared(&loss, &again);
    for (figure, [a, b]) in figures(&equal) {
        assert!(a == b || figure == "latency_p50_ns", "{figure}: {a} {b}");
    }
    let verdicts = |diff: &Value| -> Vec<String> {
        let of =
            |metric: &Value| Some(format!("{} {}", metric["name"].as_str()?, metric["verdict"].as_str()?));
        diff["metrics"].as_array().unwrap().iter().filter_map(of).collect()
    };
    let same = verdicts(&equal);
    assert!(same.iter().all(|verdict| verdict.ends_with(" same")), "{same:?}");
    let differ = compared(&loss, &red);
    let reports = [report(&loss), report(&red)];
    let rate = |report: &Value| {
        let [first, last] = ["first_ns", "last_ns"].map(|end| report["window"][end].as_u64().unwrap());
        report["totals"]["roce_packets"].as_f64().unwrap() / ((last - first) as f64 / 1e9)
    };
    for (of, expected) in figures(&differ)["roce_packets_per_second"].iter().zip(reports.iter().map(rate)) {
        assert!((of.as_f64().unwrap() / expected - 1.0).abs() < 1e-9, "{of} {expected}");
    }
    assert_eq!(figures(&differ)["ce_ratio"][0], &Value::Null, "no data is ECN-capable");
    assert!(figures(&differ)["ce_ratio"][1].as_f64() > Some(0.9));
    let verdicts = verdicts(&differ);
    let expected = [
        "roce_bits_per_second worse",
        "naks_per_second better",
        "rnr_naks_per_second same",
        "retransmitted_ratio better",
        "lost_before_tap_ratio same",
    ];
    for expected in expected {
        assert!(verdicts.iter().any(|verdict| verdict == expected), "{expected}: {verdicts:?}");
    }
    let new = |finding: &&Value| finding["id"] == "ecn.congestion";
    let new = differ["findings"].as_array().unwrap().iter().find(new).unwrap();
    assert_eq!((&new["state"], &new["count_a"], &new["count_b"]), (&"new".into(), &0.into(), &1.into()));
}

/// Recorded in one interval, the percentiles of latency of a flow are those of the capture.
#[test]
fn a_row_gives_the_percentiles_of_its_interval() {
    let dir = tempfile::tempdir().unwrap();
    let file = capture("k1_ecmp_ring.uA0.pcap.gz");
    assert!(record(&file, dir.path(), &["--interval", "1h"]).status.success());
    let percentiles = |path: &Path| -> BTreeMap<String, [Option<u64>; 4]> {
        let report = report(path);
        let of = |flow: &Value| {
            let figure = |name: &str| flow["latency_ns"][name].as_u64();
            let name = format!("{} {} {} {}", flow["link"], flow["src"], flow["dst"], flow["dest_qp"]);
            (name, ["count", "p50", "p99", "max"].map(figure))
        };
        report["flows"].as_array().unwrap().iter().map(of).collect()
    };
    let expected = percentiles(&file);
    let differ = |[_, p50, p99, _]: &[Option<u64>; 4]| p99.is_some() && p50 != p99;
    assert!(expected.values().any(differ), "{expected:?}");
    assert_eq!(percentiles(dir.path()), expected);
}

#[test]
fn a_time_range_of_a_recording_has_its_rows_alone() {
    let dir = tempfile::tempdir().unwrap();
    record(&capture("e1_loss1.h0.pcap.gz"), dir.path(), &["--interval", "10ms"]);
    let packets = |options: &[&str]| {
        let output = rocescope(&["replay", dir.path().to_str().unwrap(), "--output", "json"])
            .args(options)
            .output()
            .unwrap();
        let report = schema::read(&output.stdout).unwrap();
        report["totals"]["roce_packets"].as_u64().unwrap()
    };
    let (whole, first) = (packets(&[]), packets(&["--to", "+50ms"]));
    let rest = packets(&["--from", "+50.000001ms"]);
    assert!(first > 0 && rest > 0, "{first} {rest}");
    assert_eq!(first + rest, whole);
}

fn wait_until(mut what: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !what() {
        assert!(Instant::now() < end, "in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_kill_costs_one_interval_at_most_and_the_next_start_seals_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_str().unwrap().to_owned();
    let mut child =
        rocescope(&["record", "--read", "-", "--dir", &folder, "--host", "node1", "--interval", "20ms"]);
    let mut child = Killed(child.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let bytes = std::fs::read(capture("a1_write_mtu1024.h0.pcap")).unwrap();
    let mut stdin = child.0.stdin.take().unwrap();
    stdin.write_all(&bytes).unwrap();
    stdin.flush().unwrap();
    // Everything has been read, and the input stays open.
    let journal = || {
        let entries = std::fs::read_dir(dir.path().join("journal")).ok()?;
        entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|about| about.len()).max()
    };
    wait_until(|| journal().is_some_and(|length| length > 0));
    let mut last = 0;
    wait_until(|| {
        std::thread::sleep(Duration::from_millis(200));
        let now = journal().unwrap_or(0);
        std::mem::replace(&mut last, now) == now
    });
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    drop(stdin);
    assert_eq!(parts(dir.path()), Vec::<PathBuf>::new());
    let output = record(&capture("b1_send.h1.pcap"), dir.path(), &[]);
    assert!(
        output.status.success() && text(&output).contains("recording that was killed"),
        "{}",
        text(&output)
    );
    // Up to where it has rows, and what may be missing.
    let (_, said) =
        text(&output).split_once("the rows reach to ").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let (reach, said) = said.split_once("; ").unwrap();
    assert!(said.starts_with("at most one interval after that is lost"), "{said}");
    let last = report(&capture("a1_write_mtu1024.h0.pcap"))["window"]["last_ns"].as_u64().unwrap();
    let times = parts(dir.path()).into_iter().filter(|part| part.to_string_lossy().contains("flow_seconds"));
    let rows =
        times.flat_map(|part| parquet::decode::<FlowSecond>(std::fs::read(part).unwrap().into()).unwrap());
    let rows: Vec<u64> = rows.map(|row| row.t.0).collect();
    let reached = |time: &&u64| rocescope::util::units::time_utc(**time) == reach;
    assert!(
        rows.iter().find(reached).is_some_and(|time| time.abs_diff(last) < 20_000_000),
        "{reach} {last} {rows:?}"
    );
    let one = tempfile::tempdir().unwrap();
    record(&capture("b1_send.h1.pcap"), one.path(), &[]);
    let packets = |report: Value| report["totals"]["roce_packets"].as_u64().unwrap();
    let played = rocescope(&["replay", &folder, "--output", "json"]).output().unwrap();
    assert!(text(&played).contains("nothing was recorded for "), "between the captures: {}", text(&played));
    let of_killed = packets(report(dir.path())) - packets(report(one.path()));
    assert_eq!(of_killed, packets(report(&capture("a1_write_mtu1024.h0.pcap"))));
}

/// A signal ends a playback between two rows: long before the whole is read, with the report of what was.
#[test]
fn a_signal_ends_a_playback_before_the_whole_is_read() {
    let dir = tempfile::tempdir().unwrap();
    record(&capture("f1_ecn_red.h1.pcap.gz"), dir.path(), &["--interval", "5ms"]);
    // The same flows again and again, each time a minute later.
    let part =
        parts(dir.path()).into_iter().find(|part| part.to_string_lossy().contains("flow_seconds")).unwrap();
    let mut rows: Vec<FlowSecond> = parquet::decode(std::fs::read(&part).unwrap().into()).unwrap();
    for copy in 0..300 {
        for row in &mut rows {
            row.t.0 += 60_000_000_000;
        }
        let name = format!("part-{}-{copy:012x}.parquet", rows[0].t.0);
        std::fs::write(part.with_file_name(name), parquet::encode(&rows).unwrap()).unwrap();
    }
    let play = || {
        let mut command = rocescope(&["replay", dir.path().to_str().unwrap(), "--output", "json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let packets = |output: &Output| {
        assert!(output.status.success(), "{}", text(output));
        let report = schema::read(&output.stdout).unwrap();
        report["totals"]["roce_packets"].as_u64().unwrap()
    };
    let start = Instant::now();
    let whole = packets(&play().wait_with_output().unwrap());
    let took = start.elapsed();
    let (start, child) = (Instant::now(), play());
    std::thread::sleep(took / 4);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let part = packets(&child.wait_with_output().unwrap());
    let ended = start.elapsed();
    println!("{took:?} for all of {whole} packets; {ended:?} for {part}, with a signal after {:?}", took / 4);
    assert!(part > 0 && part < whole, "{part} of {whole}");
}

#[test]
fn a_damaged_file_is_left_out_and_said() {
    let dir = tempfile::tempdir().unwrap();
    record(&capture("e1_loss1.h0.pcap.gz"), dir.path(), &["--interval", "10ms", "--rotate", "50ms"]);
    let file =
        parts(dir.path()).into_iter().find(|path| path.to_string_lossy().contains("flow_seconds")).unwrap();
    let bytes = std::fs::read(&file).unwrap();
    for damaged in [&bytes[..bytes.len() / 2], &[][..], b"PAR1PAR1"] {
        std::fs::write(&file, damaged).unwrap();
        let output =
            rocescope(&["replay", dir.path().to_str().unwrap(), "--output", "json"]).output().unwrap();
        let said = text(&output);
        assert!(output.status.success() && said.contains("left out") && !said.contains("panicked"), "{said}");
    }
}

#[test]
fn what_is_no_recording_and_what_is_of_several_hosts_is_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_str().unwrap().to_owned();
    let output = rocescope(&["replay", &folder, "--output", "json"]).output().unwrap();
    assert!(
        output.status.code() == Some(1) && text(&output).contains("files of a recording"),
        "{}",
        text(&output)
    );
    let file = capture("b1_send.h1.pcap");
    for host in ["node1", "node2"] {
        let args = ["record", "--read", file.to_str().unwrap(), "--dir", &folder, "--host", host];
        assert!(rocescope(&args).output().unwrap().status.success());
    }
    let output = rocescope(&["replay", &folder, "--output", "json"]).output().unwrap();
    assert!(text(&output).contains("2 hosts (node1, node2)"), "{}", text(&output));
    let output = rocescope(&["replay", &folder, "--host", "node2", "--output", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    // `diff` takes the same advice, for both or for each.
    let diff = |options: &[&str]| {
        rocescope(&[&["diff", &folder, &folder, "--output", "json"], options].concat()).output().unwrap()
    };
    assert!(text(&diff(&[])).contains("choose one with --host"), "{}", text(&diff(&[])));
    for options in [&["--host", "node2"][..], &["--host", "node1", "--host", "node2"]] {
        assert!(diff(options).status.success(), "{}", text(&diff(options)));
    }
    let unknown = text(&diff(&["--host", "node3"]));
    let named = "no rows of host node3 (did you mean 'node1'?); it has rows of 2 hosts (node1, node2)";
    assert!(unknown.contains(named), "{unknown}");
    let captures = ["diff", file.to_str().unwrap(), file.to_str().unwrap(), "--host", "node1"];
    assert_eq!(rocescope(&captures).output().unwrap().status.code(), Some(1));
    let output = rocescope(&["replay", &folder, "--host", "node2", "--filter", "qp 1"]).output().unwrap();
    assert!(text(&output).contains("--view-filter"), "{}", text(&output));
    for (option, value) in [("--duration", "1s"), ("--idle", "1s"), ("--max-flows", "5")] {
        let output = rocescope(&["replay", &folder, "--host", "node2", option, value]).output().unwrap();
        let said = text(&output);
        assert!(
            said.contains(&format!("{option} is for captures and has no effect on a recording")),
            "{said}"
        );
    }
}

/// A file system of 96 kB in a separate mount namespace: lost rows are reported and counted, and the run continues.
#[test]
fn a_full_disk_is_survived_and_counted() {
    const NAMESPACE: [&str; 3] = ["--user", "--map-root-user", "--mount"];
    let can = Command::new("unshare")
        .args(NAMESPACE)
        .arg("true")
        .output()
        .is_ok_and(|output| output.status.success());
    if !there_or_skip("a_full_disk_is_survived_and_counted", can, "unshare with user namespaces") {
        return;
    }
    let (dir, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // Root of a user namespace may not pass the home directory of another user, where the repository may be.
    let copies = tempfile::tempdir().unwrap();
    let capture_copy = copies.path().join("e1_loss1.h0.pcap.gz");
    std::fs::copy(capture("e1_loss1.h0.pcap.gz"), &capture_copy).unwrap();
    let script = "mount -t tmpfs -o size=96k tmpfs \"$1\" && \"$2\" record --read \"$3\" --dir \"$1\" --interval 4ms --rotate 1h; \
                  echo \"status $?\" >&2; cp -r \"$1/.\" \"$4\"; head -c 1000000 /dev/zero > \"$1/fill\" 2>/dev/null; ls \"$1\" >&2";
    let output = Command::new("unshare")
        .args(NAMESPACE)
        .args(["sh", "-c", script, "sh"])
        .arg(dir.path())
        .arg(binary::path().unwrap())
        .arg(&capture_copy)
        .arg(kept.path())
        .output()
        .unwrap();
    let said = text(&output);
    assert!(said.contains("cannot write to") && said.contains("No space left"), "{said}");
    let number = |behind: &str| -> u64 {
        let (start, _) = said.split_once(behind).unwrap_or_else(|| panic!("no {behind}: {said}"));
        start.rsplit(' ').next().unwrap().replace(',', "").parse().unwrap()
    };
    let (recorded, lost) = (number(" rows recorded"), number(" rows lost"));
    // The next start with enough space makes files from the journal.
    let sealed = record(&capture("e1_loss1.h0.pcap.gz"), kept.path(), &[]);
    assert!(text(&sealed).contains("sealed"), "{}", text(&sealed));
    let Some(engine) = duck_db_or_skip("a_full_disk_is_survived_and_counted") else { return };
    let sql = format!(
        "select sum(num_rows)::bigint, sum(num_rows) filter (where regexp_matches(file_name, '/v1/(hosts|findings)/'))::bigint \
         from parquet_file_metadata('{}/v1/**/*.parquet') where file_name not like '%host=node1%'",
        kept.path().display()
    );
    let counted = Command::new(engine).args(["-csv", "-noheader", "-c", &sql]).output().unwrap();
    let counted = String::from_utf8(counted.stdout).unwrap();
    let (rows, updated) = counted.trim().split_once(',').unwrap();
    let [rows, updated]: [u64; 2] = [rows, updated].map(|count| count.parse().unwrap());
    assert!(rows > 0 && lost > 0, "{rows} {lost}");
    // Rows of the host and of findings that waited when the disk became full are in the journal as they were then, and
    // those that took their place later are among the lost ones.
    assert!((recorded..=recorded + updated).contains(&(rows + lost)), "{rows}, {updated}: {said}");
    assert!(
        said.contains("rows recorded") && said.contains("status 0") && !said.contains("panicked"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_read_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("trace.pcap"), std::fs::read(capture("b1_send.h1.pcap")).unwrap()).unwrap();
    std::fs::write(at("notes.txt"), b"Dear diary, today").unwrap();
    let dir = at("recording");
    for (name, said) in [
        ("tracr.pcap", "trace.pcap'?)"),
        ("unlike-anything", "no such file; check"),
        ("notes.txt", "not a pcap"),
        (".", "is a directory"),
    ] {
        let output = record(&at(name), &dir, &[]);
        let text = text(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(said) && !text.contains("recording to"), "{name}: {text}");
        assert!(!dir.exists(), "{name}: {text}");
    }
    // The same name is meant where the sandbox would hide the folder.
    let wrong = at("trace.pcpa");
    for arguments in [&["replay", wrong.to_str().unwrap()][..], &["diff", wrong.to_str().unwrap(), "b"]] {
        let text = text(&rocescope(arguments).output().unwrap());
        assert!(text.contains("no such file (did you mean '") && text.contains("trace.pcap'?)"), "{text}");
    }
    assert!(record(&at("trace.pcap"), &dir, &[]).status.success());
}

#[test]
fn on_a_terminal_progress_is_shown_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("a.pcap");
    std::fs::write(&large, frames::capture(&frames::sends(64, 1_000))).unwrap();
    let (large, dir) = (large.to_str().unwrap(), folder.path().join("recording").display().to_string());
    // A minute in files of a second.
    let long = folder.path().join("minute.pcap");
    let mut pcap = Pcap::new(Order::Little, true, ETHERNET);
    for (at, frame) in (0..).zip(&frames::sends(64, 400)) {
        pcap.packet(1_700_000_000_000_000_000 + at * 2_500_000, frame);
    }
    std::fs::write(&long, pcap.finish()).unwrap();
    let minute = folder.path().join("minute");
    let made = self::record(&long, &minute, &["--interval", "100ms", "--rotate", "1s"]);
    assert!(made.status.success(), "{}", text(&made));
    let minute = minute.to_str().unwrap();
    let record = ["record", "--read", large, "--dir", &dir];
    let of_recording = " % of the recorded time, ";
    // A file that is read between two lines has no rate.
    let ends = ["/s, ", " read, analysing"];
    for (arguments, share, ends) in [
        (&record[..], " % of ", &ends[..]),
        (&["diff", large, large, "--output", "json"], " % of ", &ends),
        (&["replay", large], " % of ", &ends),
        // At full speed it ends before there is anything to show.
        (&["replay", minute, "--output", "json", "--speed", "30"], of_recording, &[" s left"]),
    ] {
        let mut command = Command::new("sh");
        // Standard error is the terminal.
        command
            .args(["-c", "exec \"$@\" 2>&1 >/dev/null", "sh"])
            .arg(binary::path().unwrap())
            .args(arguments);
        let (status, shown) = pty::output(command.env("ROCESCOPE_TEST_IMPATIENT", "1")).unwrap();
        assert!(status.success(), "{shown}");
        let last = shown.rfind(share).unwrap_or_else(|| panic!("no progress of {arguments:?}: {shown:?}"));
        let is_whole = ends.iter().any(|end| shown[last..].contains(end));
        assert!(is_whole && shown[last..].contains("\r\x1b[K"), "{shown:?}");
    }
    // Elsewhere it would be in the way.
    let output = self::record(Path::new(large), &folder.path().join("again"), &[]);
    assert!(output.status.success() && !text(&output).contains(" % of "), "{}", text(&output));
}
