use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::*;
use crate::record::parquet::encode;
use crate::record::parquet_tests::link;

/// Pauses that a test need not wait for.
const QUICK: Pace = Pace { pauses: (Duration::from_millis(10), Duration::from_millis(200)), ..PACE };
/// The same where files stay in the queue at the end.
const ENDING: Pace = Pace { last: Duration::from_secs(1), ..QUICK };

/// A request that the test server received: query, deduplication token, whether the answer waits for the table, login,
/// body.
#[derive(Clone, Debug, PartialEq)]
struct Got {
    query: String,
    token: Option<String>,
    is_synchronous: bool,
    user: Option<String>,
    body: Vec<u8>,
}

/// Responses in sequence; 200 to all further requests.
#[derive(Clone, Copy)]
enum Answer {
    /// With the text of an exception.
    Status(u16),
    /// Of a proxy, without one.
    Proxy(u16),
    /// The server accepts the body, but its response is lost.
    Lost,
    Slow(Duration),
    /// The answer to a question.
    Says(&'static str),
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
    let mut got = Got { query: String::new(), token: None, is_synchronous: false, user, body };
    for (name, value) in target.split_once('?')?.1.split('&').filter_map(|pair| pair.split_once('=')) {
        match name {
            "query" => got.query = unescaped(value),
            "insert_deduplication_token" => got.token = Some(unescaped(value)),
            "async_insert" => got.is_synchronous = value == "0",
            "input_format_parquet_preserve_order" => assert_eq!(value, "1"),
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
    let mut answers = answers.into_iter();
    serve_by(listener, move |_| answers.next())
}

/// Starts a server that never takes the files of these tokens.
fn refusing(tokens: &'static [&'static str], answer: Answer) -> (String, Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let refuses =
        move |got: &Got| got.token.as_deref().is_some_and(|token| tokens.contains(&token)).then_some(answer);
    (address, serve_by(listener, refuses))
}

fn serve_by(
    listener: TcpListener,
    mut answer: impl FnMut(&Got) -> Option<Answer> + Send + 'static,
) -> Receiver<Got> {
    let (tell, got) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let Some(request) = request(&stream) else { continue };
            let is_asked = ["INSERT", "SELECT"].iter().any(|word| request.query.starts_with(word));
            let answer = if is_asked { answer(&request) } else { None };
            if tell.send(request).is_err() {
                return;
            }
            let status = match answer {
                None | Some(Answer::Says(_)) => 200,
                Some(Answer::Status(status) | Answer::Proxy(status)) => status,
                Some(Answer::Lost) => continue,
                Some(Answer::Slow(time)) => {
                    std::thread::sleep(time);
                    200
                }
            };
            let text = match answer {
                Some(Answer::Proxy(_)) => "",
                Some(Answer::Says(text)) => text,
                _ => "Code: 60. Unknown table",
            };
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

fn start(dir: &tempfile::TempDir, address: &impl std::fmt::Display, pace: Pace) -> Sender {
    Sender::paced(dir.path(), format!("http://{address}/").parse().unwrap(), pace).unwrap()
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
    assert!(all.iter().all(|one| one.is_synchronous == one.token.is_some()), "{all:?}");
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
    let sender = start(&dir, &address, QUICK);
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

/// A pause outlasts the end of the run.
#[test]
fn a_server_that_came_back_gets_the_files_at_the_end() {
    const LONG: Pace = Pace { pauses: (PACE.pauses.1, PACE.pauses.1), ..PACE };
    let dir = folder(&[("1-a.flow_seconds", b"one")]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let sender = start(&dir, &address, LONG);
    // Tried at 0 s, and then after a minute.
    std::thread::sleep(Duration::from_secs(1));
    let got = serve(TcpListener::bind(address).unwrap(), Vec::new());
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!((sender.sent(), got.try_iter().count()), (0, 0), "the pause goes on");
    let begin = Instant::now();
    sender.finish(dir.path());
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    assert_eq!((inserts(&got).len(), waiting(&queue(dir.path())).len()), (1, 0));
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
    let sender = start(&dir, &address, QUICK);
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

/// A file whose rows can be looked for.
fn rows_of(ns: u64) -> Vec<u8> {
    encode(&[link(ns), link(ns + 1), link(ns + 2)]).unwrap()
}

/// First words and token of the requests for files.
fn statements(got: &Receiver<Got>) -> Vec<(String, Option<String>)> {
    let words = got.try_iter().map(|one| (one.query.split(' ').next().unwrap().to_owned(), one.token));
    words.filter(|(word, _)| ["INSERT", "SELECT"].contains(&word.as_str())).collect()
}

/// Tokens are forgotten: before a file is sent once more, by this run or the next, the table is asked for its rows.
#[test]
fn a_file_that_the_table_has_is_not_sent_twice() {
    let (select, insert) =
        (("SELECT".to_owned(), None), |name: &str| ("INSERT".to_owned(), Some(name.to_owned())));
    let dir = folder(&[("1-a.link_seconds", &rows_of(1))]);
    let answers = [Answer::Says("0\n"), Answer::Lost, Answer::Says("1\n")];
    let (address, got) = server(answers.to_vec());
    let sender = start(&dir, &address, QUICK);
    wait_until(|| sender.sent() == 1);
    // Nobody can have sent this one.
    std::fs::write(queue(dir.path()).join("2-b.link_seconds"), rows_of(9)).unwrap();
    sender.wake();
    wait_until(|| sender.sent() == 2);
    sender.finish(dir.path());
    let sent = statements(&got);
    assert_eq!(sent, [select.clone(), insert("1-a.link_seconds"), select, insert("2-b.link_seconds")]);
}

/// Without the right to read, the token alone decides, and nothing is lost.
#[test]
fn a_table_that_may_not_be_asked_gets_the_file_with_its_token() {
    let dir = folder(&[("1-a.link_seconds", &rows_of(1)), ("2-b.link_seconds", &rows_of(9))]);
    let (address, got) = server(vec![Answer::Status(403)]);
    let sender = start(&dir, &address, QUICK);
    wait_until(|| sender.sent() == 2);
    sender.finish(dir.path());
    let words: Vec<String> = statements(&got).into_iter().map(|(word, _)| word).collect();
    assert_eq!(words, ["SELECT", "INSERT", "INSERT"], "asked once");
}

/// Of each table a question about all that is known of two of its rows.
#[test]
fn the_question_names_table_host_time_and_the_rows_at_both_ends() {
    let dir = folder(&[("1-a.link_seconds", &rows_of(1)), ("2-b.hosts", &rows_of(1)), ("3-c.hosts", b"x")]);
    let of = |table: &str, name: &str| {
        let table = TABLES.iter().find(|own| own.name == table).unwrap();
        sent::question(table, &queue(dir.path()).join(name))
    };
    let question = of("link_seconds", "1-a.link_seconds").unwrap();
    let time = |n: u64| {
        format!("fromUnixTimestamp64Nano(toInt64({}))", 1_700_000_000_000_000_000 + n * 1_000_000_000)
    };
    let parts = [
        "SELECT countIf(`t` = ".to_owned(),
        format!(" AND countIf(`t` = {}", time(3)),
        format!(
            " AND count() >= 3 FROM link_seconds WHERE t BETWEEN {} AND {} AND `host` = 'node1'",
            time(1),
            time(3)
        ),
        "`packets` = 1000 AND".to_owned(),
    ];
    assert!(parts.iter().all(|part| question.contains(part)), "{question}");
    assert_eq!((of("hosts", "2-b.hosts"), of("hosts", "3-c.hosts")), (None, None), "no files of the table");
}

/// A file that the server does not take stays, and those behind it arrive.
#[test]
fn a_refused_file_does_not_stop_the_others() {
    let dir = folder(&[("1-a.flow_seconds", b"one"), ("2-b.hosts", b"two"), ("3-c.findings", b"three")]);
    let (address, got) = server(vec![Answer::Status(400)]);
    let sender = start(&dir, &address, QUICK);
    wait_until(|| sender.sent() == 3);
    sender.finish(dir.path());
    let sent: Vec<String> = inserts(&got).into_iter().map(|one| one.token.unwrap()).collect();
    assert_eq!(sent, ["1-a.flow_seconds", "2-b.hosts", "3-c.findings", "1-a.flow_seconds"]);
}

/// More refused files than a pass tries, at the head of the queue: those behind them arrive, of the same table and of
/// others, and the refused ones stay.
#[test]
fn refused_files_at_the_head_do_not_stop_those_behind_them() {
    const BAD: &[&str] = &["1-a.flow_seconds", "2-b.flow_seconds", "3-c.flow_seconds", "4-d.flow_seconds"];
    let mut files: Vec<(&str, &[u8])> = BAD.iter().map(|name| (*name, b"bad".as_slice())).collect();
    files.extend([("5-e.flow_seconds", b"good".as_slice()), ("6-f.hosts", b"good".as_slice())]);
    let dir = folder(&files);
    let (address, got) = refusing(BAD, Answer::Status(400));
    let sender = start(&dir, &address, ENDING);
    wait_until(|| sender.sent() == 2);
    // A new file as well, while the refused ones are retried.
    std::fs::write(queue(dir.path()).join("7-g.flow_seconds"), b"good").unwrap();
    sender.wake();
    wait_until(|| sender.sent() == 3);
    sender.finish(dir.path());
    let sent: Vec<String> = inserts(&got).into_iter().map(|one| one.token.unwrap()).collect();
    assert_eq!(
        sent[..4],
        ["1-a.flow_seconds", "2-b.flow_seconds", "3-c.flow_seconds", "6-f.hosts"],
        "{sent:?}"
    );
    assert_eq!(sent[4..6], ["4-d.flow_seconds", "5-e.flow_seconds"], "the untried come first: {sent:?}");
    assert!(BAD.iter().all(|bad| sent.iter().filter(|token| token == bad).count() >= 2), "{sent:?}");
    let left: Vec<PathBuf> = BAD.iter().map(|name| queue(dir.path()).join(name)).collect();
    assert_eq!(waiting(&queue(dir.path())), left);
}

/// ClickHouse answers many exceptions with 500, although it could take other files.
#[test]
fn an_exception_with_the_status_500_is_of_its_file_only() {
    const BAD: &[&str] = &["1-a.flow_seconds"];
    let dir =
        folder(&[("1-a.flow_seconds", b"one"), ("2-b.flow_seconds", b"two"), ("3-c.flow_seconds", b"three")]);
    let (address, got) = refusing(BAD, Answer::Status(500));
    let sender = start(&dir, &address, Pace { last: ENDING.last, ..PACE });
    wait_until(|| sender.sent() == 2);
    let sent: Vec<String> = inserts(&got).into_iter().map(|one| one.token.unwrap()).collect();
    assert_eq!(sent, ["1-a.flow_seconds", "2-b.flow_seconds", "3-c.flow_seconds"]);
    // Its pause doubles: the second attempt is 1 s after the first, the third 2 s after that.
    let begin = Instant::now();
    let again = [(); 2].map(|()| got.recv_timeout(Duration::from_secs(60)).unwrap().token.unwrap());
    assert_eq!(again, ["1-a.flow_seconds", "1-a.flow_seconds"]);
    assert!(begin.elapsed() >= Duration::from_millis(2_500), "{:?}", begin.elapsed());
    sender.finish(dir.path());
}

/// Without the text of an exception nobody says that other files would be taken: the first is tried again.
#[test]
fn a_proxy_that_answers_502_stops_all() {
    let dir = folder(&[("1-a.flow_seconds", b"one"), ("2-b.hosts", b"two")]);
    let (address, got) = server(vec![Answer::Proxy(502), Answer::Proxy(503), Answer::Proxy(429)]);
    let sender = start(&dir, &address, QUICK);
    wait_until(|| sender.sent() == 2);
    sender.finish(dir.path());
    let sent: Vec<String> = inserts(&got).into_iter().map(|one| one.token.unwrap()).collect();
    assert_eq!(
        sent,
        ["1-a.flow_seconds", "1-a.flow_seconds", "1-a.flow_seconds", "1-a.flow_seconds", "2-b.hosts"]
    );
}

#[test]
fn exception_codes_are_read() {
    assert_eq!(exception_of("Code: 117. DB::Exception: Unknown column"), Some(117));
    assert_eq!(exception_of("Code: 60, e.displayText() = DB::Exception"), Some(60));
    assert_eq!(exception_of("<html>Bad gateway. Code: 60."), None);
}

#[test]
fn what_cannot_be_sent_at_the_end_waits_for_the_next_start() {
    let dir = folder(&[("1-a.flow_seconds", b"one"), ("2-b.flow_seconds", b"two")]);
    let (address, got) = server(vec![Answer::Status(500); 100]);
    let sender = start(&dir, &address, ENDING);
    wait_until(|| !inserts(&got).is_empty());
    let begin = Instant::now();
    sender.finish(dir.path());
    assert!(begin.elapsed() < ENDING.last + Duration::from_secs(2));
    assert_eq!(waiting(&queue(dir.path())).len(), 2);
    let (address, _got) = server(Vec::new());
    let sender = start(&dir, &address, QUICK);
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
