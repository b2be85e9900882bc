use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::*;

/// A request that the test server received: query, deduplication token, login, body.
#[derive(Clone, Debug, PartialEq)]
struct Got {
    query: String,
    token: Option<String>,
    user: Option<String>,
    body: Vec<u8>,
}

/// Responses in sequence; 200 to all further requests.
#[derive(Clone, Copy)]
enum Answer {
    Status(u16),
    /// The server accepts the body, but its response is lost.
    Lost,
    Slow(Duration),
}

fn unescaped(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let hex = [bytes.next().unwrap(), bytes.next().unwrap()];
            out.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).unwrap()
}

fn request(stream: &TcpStream) -> Option<Got> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let target = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut user) = (0, None);
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "x-clickhouse-user" => user = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut got = Got { query: String::new(), token: None, user, body };
    for (name, value) in target.split_once('?')?.1.split('&').filter_map(|pair| pair.split_once('=')) {
        match name {
            "query" => got.query = unescaped(value),
            "insert_deduplication_token" => got.token = Some(unescaped(value)),
            _ => {}
        }
    }
    Some(got)
}

/// Starts a server on loopback for the duration of the test.
fn server(answers: Vec<Answer>) -> (String, Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (address, serve(listener, answers))
}

fn serve(listener: TcpListener, answers: Vec<Answer>) -> Receiver<Got> {
    let (tell, got) = channel();
    std::thread::spawn(move || {
        let mut answers = answers.into_iter();
        for mut stream in listener.incoming().flatten() {
            let Some(request) = request(&stream) else { continue };
            let is_insert = request.query.starts_with("INSERT");
            if tell.send(request).is_err() {
                return;
            }
            let answer = if is_insert { answers.next() } else { None };
            let status = match answer {
                None => 200,
                Some(Answer::Status(status)) => status,
                Some(Answer::Lost) => continue,
                Some(Answer::Slow(time)) => {
                    std::thread::sleep(time);
                    200
                }
            };
            let text = "Code: 60. Unknown table";
            let _ = write!(
                stream,
                "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
                text.len()
            );
        }
    });
    got
}

fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(queue(dir.path())).unwrap();
    for (name, bytes) in files {
        std::fs::write(queue(dir.path()).join(name), bytes).unwrap();
    }
    dir
}

fn wait_until(what: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !what() {
        assert!(Instant::now() < end, "in vain");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn inserts(got: &Receiver<Got>) -> Vec<Got> {
    got.try_iter().filter(|one| one.query.starts_with("INSERT")).collect()
}

#[test]
fn files_arrive_whole_in_order_once_and_leave_the_queue() {
    let big = vec![7; 3 << 20];
    let dir = folder(&[("2-b.link_seconds", &big), ("1-a.flow_seconds", b"one")]);
    let (address, got) = server(Vec::new());
    let sender =
        Sender::start(dir.path(), format!("http://me:secret@{address}/?database=x").parse().unwrap())
            .unwrap();
    wait_until(|| sender.sent() == 2);
    std::fs::write(queue(dir.path()).join("3-c.findings"), b"three").unwrap();
    sender.wake();
    wait_until(|| sender.sent() == 3);
    sender.finish(dir.path());
    assert_eq!(waiting(&queue(dir.path())), Vec::<PathBuf>::new());
    let all: Vec<Got> = got.try_iter().collect();
    let made = all.iter().filter(|one| one.query.starts_with("CREATE TABLE IF NOT EXISTS")).count();
    assert_eq!((made, all.iter().all(|one| one.user.as_deref() == Some("me"))), (TABLES.len(), true));
    let sent: Vec<_> = all
        .iter()
        .filter_map(|one| Some((one.token.as_deref()?, one.query.as_str(), one.body.len())))
        .collect();
    assert_eq!(
        sent,
        [
            ("1-a.flow_seconds", "INSERT INTO flow_seconds FORMAT Parquet", 3),
            ("2-b.link_seconds", "INSERT INTO link_seconds FORMAT Parquet", big.len()),
            ("3-c.findings", "INSERT INTO findings FORMAT Parquet", 5),
        ]
    );
}

/// The server is unreachable, then overloaded, then its confirmation is lost: the file is sent until it is confirmed,
/// each time with the same token.
#[test]
fn a_file_is_sent_until_the_server_says_that_it_has_it() {
    let dir = folder(&[("1-a.flow_seconds", b"one")]);
    // An address without a listener at first.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let sender = Sender::start(dir.path(), format!("http://{address}").parse().unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!((sender.sent(), waiting(&queue(dir.path())).len()), (0, 1));
    let listener = TcpListener::bind(address).unwrap();
    let got = serve(
        listener,
        vec![
            Answer::Status(503),
            Answer::Lost,
            Answer::Status(404),
            Answer::Slow(Duration::from_millis(500)),
        ],
    );
    wait_until(|| sender.sent() == 1);
    sender.finish(dir.path());
    let sent = inserts(&got);
    assert_eq!(sent.len(), 4);
    assert!(sent.iter().all(|one| one == &sent[0] && one.token.as_deref() == Some("1-a.flow_seconds")));
    assert_eq!(waiting(&queue(dir.path())).len(), 0);
}

/// An hour of rotations of a minute waits in the queue. Then every block arrives once, whole and in order, and a second
/// time only where the confirmation was lost, as its token shows.
#[test]
fn an_hour_without_the_server_loses_nothing_and_doubles_nothing() {
    const MINUTES: usize = 60;
    let dir = folder(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let sender = Sender::start(dir.path(), format!("http://{address}").parse().unwrap()).unwrap();
    let mut queued = Vec::new();
    for minute in 0..MINUTES {
        for table in TABLES {
            let id = format!(
                "{:020}-{minute:012x}",
                1_772_370_000_000_000_000_u64 + minute as u64 * 60_000_000_000
            );
            let name = format!("{id}.node1.{}", table.name);
            std::fs::write(queue(dir.path()).join(&name), format!("rows of {name}")).unwrap();
            queued.push(name);
        }
        sender.wake();
    }
    queued.sort_unstable();
    assert!(TABLES.len() >= 8 && sender.sent() == 0, "{}", sender.sent());
    let got = serve(TcpListener::bind(address).unwrap(), vec![Answer::Status(200), Answer::Lost]);
    wait_until(|| sender.sent() == queued.len() as u64);
    sender.finish(dir.path());
    assert_eq!(waiting(&queue(dir.path())), Vec::<PathBuf>::new());
    let mut sent = inserts(&got);
    let again = sent.remove(2);
    assert_eq!(again, sent[1], "the block whose confirmation was lost, with its token");
    let tokens: Vec<&str> = sent.iter().map(|one| one.token.as_deref().unwrap()).collect();
    assert_eq!(tokens, queued);
    for (one, name) in sent.iter().zip(&queued) {
        let table = name.rsplit_once('.').unwrap().1;
        assert_eq!(one.query, format!("INSERT INTO {table} FORMAT Parquet"));
        assert_eq!(one.body, format!("rows of {name}").into_bytes());
    }
}

/// A file that the server does not take stays, and those behind it arrive.
#[test]
fn a_refused_file_does_not_stop_the_others() {
    let dir = folder(&[("1-a.flow_seconds", b"one"), ("2-b.hosts", b"two"), ("3-c.findings", b"three")]);
    let (address, got) = server(vec![Answer::Status(400)]);
    let sender = Sender::start(dir.path(), format!("http://{address}/").parse().unwrap()).unwrap();
    wait_until(|| sender.sent() == 3);
    sender.finish(dir.path());
    let sent: Vec<String> = inserts(&got).into_iter().map(|one| one.token.unwrap()).collect();
    assert_eq!(sent, ["1-a.flow_seconds", "2-b.hosts", "3-c.findings", "1-a.flow_seconds"]);
}

#[test]
fn what_cannot_be_sent_at_the_end_waits_for_the_next_start() {
    let dir = folder(&[("1-a.flow_seconds", b"one"), ("2-b.flow_seconds", b"two")]);
    let (address, got) = server(vec![Answer::Status(500); 100]);
    let sender = Sender::start(dir.path(), format!("http://{address}/").parse().unwrap()).unwrap();
    wait_until(|| !inserts(&got).is_empty());
    let begin = Instant::now();
    sender.finish(dir.path());
    assert!(begin.elapsed() < LAST + Duration::from_secs(2));
    assert_eq!(waiting(&queue(dir.path())).len(), 2);
    let (address, _got) = server(Vec::new());
    let sender = Sender::start(dir.path(), format!("http://{address}/").parse().unwrap()).unwrap();
    wait_until(|| sender.sent() == 2);
    sender.finish(dir.path());
}

#[test]
fn every_column_has_a_type_of_clickhouse() {
    for table in TABLES {
        let sql = create_table(table);
        assert!(sql.starts_with(&format!("CREATE TABLE IF NOT EXISTS {} (", table.name)));
        assert_eq!(sql.matches("\n    `").count(), table.columns.len());
        assert!(sql.contains("`t` DateTime64(9, 'UTC')") && sql.contains("ORDER BY (host, t)"), "{sql}");
        let added = add_columns(table);
        assert_eq!(added.matches("ADD COLUMN IF NOT EXISTS `").count(), table.columns.len(), "{added}");
    }
}
