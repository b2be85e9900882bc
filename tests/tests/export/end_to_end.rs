//! Traffic of the demonstration through an agent: metrics, recording, view and report must have the same figures.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocescope::host::net::netns::NetNs;
use rocescope::host::net::veth;
use rocescope::record::parquet;
use rocescope::record::registry::FlowSecond;
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

/// Packets, bytes, CE marks and retransmissions of a link.
type Figures = BTreeMap<(String, String), [u64; 4]>;

/// The metrics with these figures, and the columns of the recording.
const METRICS_OF: [&str; 4] = [
    "rocescope_link_packets_total",
    "rocescope_link_bytes_total",
    "rocescope_link_ce_marked_packets_total",
    "rocescope_link_retransmitted_packets_total",
];
const COLUMNS: &str =
    "sum(packets) as packets, sum(bytes) as bytes, sum(ce) as ce, sum(retransmitted) as retransmitted";
const COLUMN_NAMES: [&str; 4] = ["packets", "bytes", "ce", "retransmitted"];

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
        let retransmitted = |loss: &str| flow[loss]["retransmitted"].as_u64().unwrap_or(0);
        let figures = [
            number(&flow["packets"]),
            number(&flow["bytes"]),
            number(&flow["ecn"]["ce"]),
            retransmitted("loss") + retransmitted("loss_responses"),
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
    format!("select link, direction, {COLUMNS} from {table} group by link, direction;\n")
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

/// A flow row takes at most 25 bytes, apart from a file's fixed part: names, types and offsets of the columns.
fn check_size(recording: &Path) {
    const FILE: u64 = 4_000;
    let (mut bytes, mut rows) = (0, 0);
    for file in tables(&recording.join("v1/flow_seconds")) {
        let whole = std::fs::read(file).unwrap();
        bytes += (whole.len() as u64).saturating_sub(FILE);
        rows += parquet::decode::<FlowSecond>(whole.into()).unwrap().len() as u64;
    }
    println!("{rows} rows of flows take {bytes} bytes beside {FILE} of each file");
    assert!(rows > 100 && bytes <= 25 * rows, "{bytes} bytes of {rows} rows");
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
    let viewed = until("a reading after the traffic", || {
        let socket = text("agent.sock");
        let arguments = ["live", "--attach", &socket, "--output", "json", "--duration", "300ms"];
        let report = Program::run(Start::default(), &arguments).unwrap().report().unwrap();
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
        expected.values().fold([0; 4], |sums: [u64; 4], own| std::array::from_fn(|i| sums[i] + own[i]));
    assert_eq!(sums[0], number(&report["totals"]["roce_packets"]));
    assert!(sums.iter().all(|sum| *sum > 0), "the demonstration has all of it: {sums:?}");

    if prometheus.is_some() {
        for (at, metric) in METRICS_OF.iter().enumerate() {
            let wanted = expected.iter().map(|(link, own)| (link.clone(), own[at] as f64)).collect();
            let mut last = None;
            until(metric, || {
                last = Prometheus::query(near, metric);
                (last.as_ref() == Some(&wanted)).then_some(())
            });
        }
    }
    if server.is_some() {
        until("the files of the time without the server", || (queued() <= 4).then_some(()));
    }
    agent.signal(Signal::TERM).unwrap();
    let ended = agent.end().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    // Files that are rotated every few seconds consist mostly of their fixed part: the dump has the same rows in one
    // file.
    check_size(&dump);
    for folder in [Path::new(&recording), &dump] {
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
