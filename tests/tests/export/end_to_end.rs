//! Traffic of the demonstration through an agent: metrics, recording, view and report must have the same figures.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocescope::host::net::netns::NetNs;
use rocescope::host::net::veth;
use rocescope::record::parquet;
use rocescope::record::registry::Finding;
use rocescope::source::demo::scenario::{BRIEF, Scenario};
use rocescope::source::demo::stage::Stage;
use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::live::root_or_skip;
use rocescope_tests::packages::{ClickHouse, click_house_or_skip, duck_db_or_skip, program_or_skip};
use rocescope_tests::recording::tables;
use rustix::process::Signal;
use serde_json::Value;

use super::agent::{dumps, json};
use super::{METRICS, PACKAGE, Prometheus, ask, piped, until};

/// Figures of a link, in the order of [`COLUMN_NAMES`].
type Figures = BTreeMap<(String, String), [u64; 7]>;

/// The columns of the recording with these figures.
const COLUMN_NAMES: [&str; 7] =
    ["packets", "bytes", "ce", "cnp_packets", "retransmitted", "timeouts", "lost"];
/// The metrics with them.
const METRICS_OF: [&str; 7] = [
    "rocescope_link_packets_total",
    "rocescope_link_bytes_total",
    "rocescope_link_ce_marked_packets_total",
    "rocescope_link_cnp_packets_total",
    "rocescope_link_retransmitted_packets_total",
    "rocescope_link_timeouts_total",
    "rocescope_link_lost_packets_total",
];
/// Index of the timeouts, of which the demonstration has none.
const TIMEOUTS: usize = 5;
/// Index of the losses: the report takes back those that prove to be reordering, and a counter never decreases.
const LOST: usize = 6;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts far below 2^53")]
fn number(value: &Value) -> u64 {
    // ClickHouse writes 64-bit numbers as text.
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).or_else(|| Some(value.as_f64()? as u64)).unwrap()
}

fn link_of(value: &Value, name: &str) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&value[name]), text(&value["direction"]))
}

/// From the report: sums over its flows, none of which is retired here.
fn of_report(report: &Value) -> Figures {
    let mut all = Figures::new();
    for flow in report["flows"].as_array().unwrap() {
        let of = all.entry(link_of(flow, "link")).or_default();
        let of_loss = |figure: &str| -> u64 {
            ["loss", "loss_responses"].iter().filter_map(|loss| flow[loss][figure].as_u64()).sum()
        };
        let figures = [
            number(&flow["packets"]),
            number(&flow["bytes"]),
            number(&flow["ecn"]["ce"]),
            number(&flow["cnp_packets"]),
            of_loss("retransmitted"),
            of_loss("timeouts"),
            of_loss("lost"),
        ];
        for (sum, figure) in of.iter_mut().zip(figures) {
            *sum += figure;
        }
    }
    all
}

/// From a table, by an engine that takes SQL and returns rows in JSON.
fn of_engine(command: &mut Command, sql: &str, is_lines: bool) -> Figures {
    let output = piped(command, sql.as_bytes());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    let all: Vec<Value> = if is_lines {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    } else {
        serde_json::from_str(&text).unwrap()
    };
    rows(&all)
}

fn rows(rows: &[Value]) -> Figures {
    rows.iter().map(|row| (link_of(row, "link"), COLUMN_NAMES.map(|name| number(&row[name])))).collect()
}

fn sql(table: &str) -> String {
    let columns = COLUMN_NAMES.map(|name| format!("sum({name}) as {name}")).join(", ");
    format!("select link, direction, {columns} from {table} group by link, direction;\n")
}

fn tables_of(recording: &Path, table: &str) -> String {
    format!("{}/v1/{table}/**/*.parquet", recording.display())
}

/// The sums of a table, by a server in that namespace.
fn of_server(netns: &NetNs, port: u16, table: &str) -> Figures {
    let sql = sql(table).trim_end().trim_end_matches(';').to_owned();
    let head =
        format!("POST /?default_format=JSONEachRow HTTP/1.0\r\nContent-Length: {}\r\n\r\n{sql}", sql.len());
    let stream = netns.run(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port))).unwrap().unwrap();
    let answer = ask(stream, &head).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    rows(&answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>())
}

/// Ids of the active findings of a report.
fn active(report: &Value) -> BTreeSet<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    let active = findings.filter(|finding| finding["active"] == true);
    active.map(|finding| finding["id"].as_str().unwrap().to_owned()).collect()
}

/// Ids of the findings that are active at this time by their latest rows.
fn active_rows(folder: &Path, time_ns: u64) -> BTreeSet<String> {
    let files = tables(&folder.join("v1/findings")).into_iter();
    let mut rows: Vec<Finding> =
        files.flat_map(|file| parquet::decode(std::fs::read(file).unwrap().into()).unwrap()).collect();
    rows.retain(|row| row.t.0 <= time_ns);
    rows.sort_by_key(|row| row.t);
    let place = |row: &Finding| {
        let Finding { id, link, direction, hop, src, dst, since, .. } = row.clone();
        (id, link, direction, hop, src, dst, since)
    };
    let is_latest = |at: &usize| rows.iter().skip(at + 1).all(|later| place(later) != place(&rows[*at]));
    let latest = (0..rows.len()).filter(is_latest).map(|at| &rows[at]);
    latest.filter(|row| row.active == 1).map(|row| row.id.to_string()).collect()
}

/// A view that is attached and Prometheus have the same active findings.
fn check_findings(near: &NetNs, view: impl Fn() -> Value) {
    let found = until("the same findings", || {
        let active = active(&view());
        let rows = Prometheus::values(near, "rocescope_finding_active", ["id", "severity"])?;
        let ids: BTreeSet<String> = rows.into_keys().map(|[id, _]| id).collect();
        (ids == active).then_some(ids)
    });
    assert!(!found.is_empty(), "none is active");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one run with all its consumers")]
fn metrics_recording_view_and_report_of_the_demonstration_agree() {
    const TEST: &str = "metrics_recording_view_and_report_of_the_demonstration_agree";
    if !root_or_skip(TEST) {
        return;
    }
    let stage = Stage::new().unwrap();
    let near = stage.observed();
    near.run(|| veth::set_up(veth::index_of("lo").unwrap())).unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    let (unix, recording, dump_dir) =
        (format!("unix:{}", text("agent.sock")), text("recording"), text("dumps"));
    let [rail0, rail1] = stage.interfaces();
    let arguments = [
        "agent",
        "-i",
        &rail0,
        "-i",
        &rail1,
        "--interval",
        "1s",
        "--listen",
        METRICS,
        "--listen",
        &unix,
        "--record",
        &recording,
        "--keep",
        "5m",
        "--post",
        "0s",
        "--dump-dir",
        &dump_dir,
    ];
    let click_house = click_house_or_skip(TEST);
    // The server is away until files wait for it.
    let free = near.run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap().unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let url = click_house.as_ref().map(|_| format!("http://127.0.0.1:{port}/"));
    let sends: Vec<&str> = url.iter().flat_map(|url| ["--clickhouse", url, "--rotate", "3s"]).collect();
    let start = Start { netns: Some(near), ..Start::default() };
    let agent = Program::watching(start, &[&arguments[..], &sends].concat()).unwrap();
    let prometheus =
        program_or_skip(TEST, PACKAGE, "prometheus").map(|program| Prometheus::start(near, &program));
    let player = stage.start(Scenario::new(4791, BRIEF), Some(BRIEF + Duration::from_millis(500))).unwrap();
    let queued = || std::fs::read_dir(Path::new(&recording).join("queue")).unwrap().count();
    let server = click_house.as_ref().map(|program| {
        until("files of two rotations in the queue", || (queued() > 8).then_some(()));
        agent.wait_for_message(|text| text.contains("cannot send to ClickHouse").then_some(())).unwrap();
        // The response to every third insert is lost.
        near.run(|| ClickHouse::start_at(port, program, folder.path(), &[])).unwrap().unwrap()
    });
    until("the end of the traffic", || player.is_finished().then_some(()));
    let sent = player.join().unwrap();
    assert!(sent.first_error.is_none(), "{:?}", sent.first_error);
    // A sample after the traffic, by which time all findings have been evaluated.
    let ended_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let ended_ns = u64::try_from(ended_ns).unwrap();
    let view = || {
        let socket = text("agent.sock");
        let arguments = ["live", "--attach", &socket, "--output", "json", "--duration", "300ms"];
        Program::run(Start::default(), &arguments).unwrap().report().unwrap()
    };
    let viewed = until("a reading after the traffic", || {
        let report = view();
        (number(&report["window"]["last_ns"]) > ended_ns + 2_000_000_000).then(|| of_report(&report))
    });
    let socket = std::os::unix::net::UnixStream::connect(path("agent.sock")).unwrap();
    assert_eq!(ask(socket, "POST /dump HTTP/1.0\r\n\r\n").unwrap().status, 202);
    let dump = until("a dump", || dumps(&path("dumps")).into_iter().next());
    let report = json(dump.join("report.json"));
    let expected = of_report(&report);
    assert_eq!(viewed, expected, "the view that is attached");
    assert_eq!(report["totals"]["retired"]["packets"], 0);
    let sums =
        expected.values().fold([0; 7], |sums: [u64; 7], own| std::array::from_fn(|i| sums[i] + own[i]));
    assert_eq!(sums[0], number(&report["totals"]["roce_packets"]));
    let has = |(at, sum): (usize, &u64)| at == TIMEOUTS || *sum > 0;
    assert!(sums.iter().enumerate().all(has), "the demonstration has all of it: {sums:?}");

    if prometheus.is_some() {
        // Soon after the traffic: ten seconds later they have ended.
        check_findings(near, view);
        for (at, metric) in METRICS_OF.iter().enumerate() {
            let wanted: BTreeMap<_, _> =
                expected.iter().map(|(link, own)| (link.clone(), own[at] as f64)).collect();
            until(metric, || {
                let last = Prometheus::query(near, metric)?;
                let is_all = || wanted.iter().all(|(link, least)| last.get(link) >= Some(least));
                (last == wanted || at == LOST && last.len() == wanted.len() && is_all()).then_some(())
            });
        }
    }
    if server.is_some() {
        until("the files of the time without the server", || (queued() <= 4).then_some(()));
    }
    agent.signal(Signal::TERM).unwrap();
    let ended = agent.end().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    let (found, time_ns) = (active(&report), number(&report["window"]["last_ns"]));
    assert!(!found.is_empty(), "none is active");
    for folder in [Path::new(&recording), &dump] {
        assert_eq!(active_rows(folder, time_ns), found, "findings in {}", folder.display());
        if let Some(program) = duck_db_or_skip(TEST) {
            for table in ["flow_seconds", "link_seconds"] {
                let from = format!("read_parquet('{}')", tables_of(folder, table));
                let mut command = Command::new(&program);
                command.args(["-init", "/dev/null", "-batch", "-bail", "-json"]);
                assert_eq!(of_engine(&mut command, &sql(&from), false), expected, "DuckDB, {table}");
            }
        }
        if let Some(program) = &click_house {
            let from = format!("file('{}', Parquet)", tables_of(folder, "flow_seconds"));
            let mut command = Command::new(program);
            command.args(["local", "--output-format", "JSONEachRow"]);
            assert_eq!(of_engine(&mut command, &sql(&from), true), expected, "ClickHouse");
        }
    }
    // Files that waited for the server, some of them sent twice, and the rest at the end.
    if let Some(server) = server {
        assert!(ended.err.contains("files are sent to ClickHouse"), "{}", ended.err);
        for table in ["flow_seconds", "link_seconds"] {
            assert_eq!(of_server(near, server.port, table), expected, "ClickHouse over HTTP, {table}");
        }
    }
}
