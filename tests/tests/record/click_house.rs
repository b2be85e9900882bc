//! A ClickHouse that was away: what waits for it arrives, and arrives once.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use rocescope::record::TABLES;
use rocescope::record::clickhouse::create_table;
use rocescope_tests::packages::{ClickHouse, click_house_or_skip, duck_db_or_skip};

use super::{Killed, capture, record, rocescope, text, wait_until};

/// The answer of a server to a statement.
fn answer(port: u16, sql: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    write!(stream, "POST / HTTP/1.0\r\nContent-Length: {}\r\n\r\n{sql}", sql.len()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{sql}: {text}");
    body.trim().to_owned()
}

/// Rows of the files of a table.
fn rows_of_files(engine: &Path, dir: &Path, table: &str) -> String {
    let files = format!("{}/v1/{table}/**/*.parquet", dir.display());
    let sql = format!("select count(*) from read_parquet('{files}', hive_partitioning = false)");
    let output = Command::new(engine).args(["-csv", "-noheader", "-c", &sql]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The files of an outage wait in the queue, over an end of the recording. Then the server takes all of them, and its
/// response to every third is lost: those it would get twice.
#[test]
fn what_waited_for_click_house_arrives_once() {
    arrives_once("what_waited_for_click_house_arrives_once", None);
}

/// As if a hundred thousand other files had followed each.
#[test]
fn what_click_house_has_forgotten_arrives_once() {
    arrives_once("what_click_house_has_forgotten_arrives_once", Some("0"));
}

/// With tables that remember this number of tokens, else as many as ours do.
fn arrives_once(test: &str, window: Option<&str>) {
    let (Some(engine), Some(duck_db)) = (click_house_or_skip(test), duck_db_or_skip(test)) else { return };
    let (dir, empty) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let url = format!("http://127.0.0.1:{port}/");
    let options = ["--interval", "20ms", "--rotate", "200ms", "--clickhouse", &url];
    let output = record(&capture("e1_loss1.h0.pcap.gz"), dir.path(), &options);
    let said = text(&output);
    assert!(output.status.success() && said.contains(" left for ClickHouse in "), "{said}");
    let queued = || std::fs::read_dir(dir.path().join("queue")).unwrap().count();
    let waiting = queued();
    assert!(waiting > 15, "{waiting}");
    let _server = ClickHouse::start_at(port, &engine, empty.path(), &[]).unwrap();
    for table in window.iter().flat_map(|_| TABLES) {
        let create = create_table(table);
        let (before, _) = create.rsplit_once(" = ").unwrap();
        answer(port, &format!("{before} = {}", window.unwrap()));
    }
    // A recording that goes on, with nothing to record.
    let folder = dir.path().to_str().unwrap();
    let mut next =
        rocescope(&["record", "--read", "-", "--dir", folder, "--host", "node1", "--clickhouse", &url]);
    let mut next = Killed(next.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let header = &std::fs::read(capture("a1_write_mtu1024.h0.pcap")).unwrap()[..24];
    next.0.stdin.as_mut().unwrap().write_all(header).unwrap();
    wait_until(|| queued() == 0);
    // The server has one connection at a time.
    drop(next);
    let mut tables = 0;
    for table in TABLES.iter().filter(|table| dir.path().join("v1").join(table.name).is_dir()) {
        let expected = rows_of_files(&duck_db, dir.path(), table.name);
        assert_eq!(answer(port, &format!("select count() from {}", table.name)), expected, "{}", table.name);
        tables += 1;
    }
    assert!(tables >= 4, "{tables}");
}

/// Of a table as we create it and of one with a smaller window: what the window is worth, in inserts.
#[test]
fn a_table_remembers_as_many_inserts_as_its_window_has() {
    const OTHERS: usize = 20;
    let Some(engine) = click_house_or_skip("a_table_remembers_as_many_inserts_as_its_window_has") else {
        return;
    };
    let table = TABLES.iter().find(|table| table.name == "link_seconds").unwrap();
    let create = create_table(table);
    let (before, window) = create.rsplit_once("non_replicated_deduplication_window = ").unwrap();
    assert!(window.parse::<usize>().unwrap() > OTHERS, "{create}");
    let insert = |token: &str| {
        let settings =
            format!("async_insert = 0, insert_deduplicate = 1, insert_deduplication_token = '{token}'");
        format!(
            "insert into link_seconds (t, host) settings {settings} values ('2026-03-01 13:00:00', '{token}');\n"
        )
    };
    let others: String = (0..OTHERS).map(|n| insert(&format!("other {n}"))).collect();
    for (window, times) in
        [(window.to_owned(), 1), ((OTHERS + 1).to_string(), 1), (OTHERS.to_string(), 2), ("0".to_owned(), 3)]
    {
        let again = insert("lost");
        let script = format!(
            "{before}non_replicated_deduplication_window = {window};\n{again}{again}{others}{again}select count() as rows from link_seconds where host = 'lost';\n"
        );
        let mut command = Command::new(&engine);
        command.args(["local", "--output-format", "TSV"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(
            String::from_utf8(output.stdout).unwrap().trim(),
            times.to_string(),
            "a window of {window}"
        );
    }
}
