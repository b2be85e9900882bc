use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::*;
use crate::export::listen::Listen;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a port of its own.
fn started(board: &Arc<Board>) -> (Server, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (Server::start(vec![Listener::Tcp(listener)], board).unwrap(), address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Status and body of the answer to these bytes; an empty status where the connection is closed without one.
fn asked(address: SocketAddr, bytes: &[u8]) -> (String, String) {
    let mut stream = connect(address);
    // A server that refuses may close before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8(answer).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    (head.split(' ').nth(1).unwrap_or_default().to_owned(), body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    asked(address, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
}

#[test]
fn it_answers_and_ends() {
    let board = Arc::new(Board::default());
    let (server, address) = started(&board);
    assert_eq!(get(address, "/readyz").0, "503");
    assert_eq!(get(address, "/healthz"), ("200".to_owned(), "ok\n".to_owned()));
    board.publish(Exposition::default());
    assert_eq!(get(address, "/readyz").0, "200");
    assert_eq!(get(address, "/metrics"), ("200".to_owned(), String::new()));
    drop(server);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_unix_socket_is_removed_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.sock");
    let listener = Listener::bind(&Listen::Unix(path.clone())).unwrap();
    let server = Server::start(vec![listener], &Arc::default()).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok\n"), "{answer}");
    drop(server);
    assert!(!path.exists());
}

#[test]
fn a_dump_is_asked_for_on_a_unix_socket_alone() {
    let folder = tempfile::tempdir().unwrap();
    let post = |wanted_ns: Option<Arc<AtomicU64>>, query: &str| {
        let path = folder.path().join("d.sock");
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        let unix = Listener::bind(&Listen::Unix(path.clone())).unwrap();
        let minutes =
            |text: &str| Some(Duration::from_secs(60 * text.strip_suffix('m')?.parse::<u64>().ok()?));
        let dump = wanted_ns.clone().map(|wanted_ns| Dump { wanted_ns, time: minutes });
        let server = Server::start(vec![Listener::Tcp(tcp), unix], &Arc::new(Board::new(dump))).unwrap();
        assert_eq!(asked(address, b"POST /dump HTTP/1.1\r\n\r\n").0, "405");
        assert!(wanted_ns.is_none_or(|wanted_ns| wanted_ns.load(Ordering::Relaxed) == 0));
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("POST /dump{query} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        drop(server);
        answer
    };
    for (query, status, expected) in [
        ("", "202", u64::MAX),
        ("?last=5m", "202", 300_000_000_000),
        ("?last=soon", "400", 0),
        ("?last=0m", "400", 0),
        ("?first=5m", "400", 0),
    ] {
        let wanted_ns = Arc::new(AtomicU64::new(0));
        let answer = post(Some(Arc::clone(&wanted_ns)), query);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{query}: {answer}");
        assert_eq!(wanted_ns.load(Ordering::Relaxed), expected, "{query}");
    }
    assert!(post(None, "").starts_with("HTTP/1.1 409 "));
}

#[test]
fn hostile_requests_are_refused() {
    let (_server, address) = started(&Arc::default());
    let long = |head: &str, byte: u8, count: usize| {
        let mut bytes = head.as_bytes().to_vec();
        bytes.resize(head.len() + count, byte);
        bytes
    };
    for (bytes, status) in [
        (b"GET / HTTP/1.1".to_vec(), "400"),
        (b"\r\n\r\n".to_vec(), "400"),
        (b"\x16\x03\x01\x02\x00\x01\xfc\x03\x03\n\n".to_vec(), "400"),
        (b"GET / HTTP/9.9\r\n\r\n".to_vec(), "505"),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n".to_vec(), "405"),
        (long("GET /", b'a', MOST_HEAD), "431"),
        (long("GET / HTTP/1.1\r\nX: ", b'a', 10 * MOST_HEAD), "431"),
        (long("", b'\n', MOST_HEAD), "400"),
        (long("", 0, 4 * MOST_HEAD), "431"),
        (Vec::new(), ""),
    ] {
        let shown = String::from_utf8_lossy(bytes.get(..40).unwrap_or(&bytes)).into_owned();
        assert_eq!(asked(address, &bytes).0, status, "{shown:?}");
    }
    assert_eq!(get(address, "/healthz").0, "200");
}

#[test]
fn random_requests_do_no_harm() {
    let (_server, address) = started(&Arc::default());
    let words: [&[u8]; 12] = [
        b"GET",
        b"HEAD",
        b" ",
        b"/metrics",
        b" HTTP/1.1",
        b"\r\n",
        b"\n",
        b"Accept: ",
        b"*/*;q=",
        b"\0",
        b"\xff",
        b":",
    ];
    // xorshift: the same requests in each run.
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..500 {
        let count = next() % 40;
        let request: Vec<u8> =
            (0..count).flat_map(|_| words[usize::try_from(next() % 12).unwrap()].to_vec()).collect();
        let (status, _) = asked(address, &request);
        assert!(["", "200", "400", "404", "405", "503", "505"].contains(&status.as_str()), "{status}");
    }
    assert_eq!(get(address, "/healthz").0, "200");
}

#[test]
fn slow_and_many_clients_are_bounded() {
    let (_server, address) = started(&Arc::default());
    let start = Instant::now();
    // More than there is room for: half of them send a part of a request, the others nothing.
    let mut slow: Vec<TcpStream> = (0..3 * MOST_CONNECTIONS).map(|_| connect(address)).collect();
    for stream in slow.iter_mut().step_by(2) {
        // It may have been closed already.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ");
    }
    // Their time passes, and others are served.
    while get(address, "/healthz").0 != "200" {
        assert!(start.elapsed() < PATIENCE, "not served while {} are slow", slow.len());
        std::thread::sleep(Duration::from_millis(50));
    }
    for mut stream in slow {
        let mut answer = String::new();
        // Closed, or 408: none waits for ever.
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
    assert!(start.elapsed() < PATIENCE);
}
