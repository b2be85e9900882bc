use rocescope_common::random::Random;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::*;
use crate::export::listen::Listen;

const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a server on a free port.
fn started(board: &Arc<Board>) -> (Server, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (Server::start(vec![Listener::Tcp(listener)], board, None).unwrap(), address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Status and body of the response to these bytes; an empty status if the connection is closed without a response.
fn response_to(address: SocketAddr, bytes: &[u8]) -> (String, String) {
    let mut stream = connect(address);
    // A server that refuses the request may close before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8(answer).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    (head.split(' ').nth(1).unwrap_or_default().to_owned(), body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    response_to(address, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
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
fn probes_fail_once_no_sample_arrives() {
    let board = Arc::new(Board::default());
    let (_server, address) = started(&board);
    board.publish(Exposition::default());
    let start = Instant::now();
    assert!(!board.hangs(start) && board.hangs(start + 2 * HANGS));
    board.works(start.checked_sub(2 * HANGS).unwrap());
    let hangs = ("503".to_owned(), "no sample for 30 s\n".to_owned());
    assert_eq!([get(address, "/healthz"), get(address, "/readyz")], [hangs.clone(), hangs]);
    assert_eq!(get(address, "/metrics").0, "200");
    board.works(Instant::now());
    assert_eq!([get(address, "/healthz").0, get(address, "/readyz").0], ["200", "200"]);
}

#[test]
fn a_unix_socket_is_removed_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.sock");
    let listener = Listener::bind(&Listen::Unix(path.clone())).unwrap();
    let server = Server::start(vec![listener], &Arc::default(), None).unwrap();
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
        let server =
            Server::start(vec![Listener::Tcp(tcp), unix], &Arc::new(Board::new(dump)), None).unwrap();
        assert_eq!(response_to(address, b"POST /dump HTTP/1.1\r\n\r\n").0, "405");
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
        assert_eq!(response_to(address, &bytes).0, status, "{shown:?}");
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
    let mut random = Random::new(1);
    for _ in 0..500 {
        let count = random.below(40);
        let request: Vec<u8> = (0..count).flat_map(|_| random.pick(&words).to_vec()).collect();
        let (status, _) = response_to(address, &request);
        assert!(["", "200", "400", "404", "405", "503", "505"].contains(&status.as_str()), "{status}");
    }
    assert_eq!(get(address, "/healthz").0, "200");
}

#[test]
fn slow_and_many_clients_are_bounded() {
    let (_server, address) = started(&Arc::default());
    let start = Instant::now();
    // More connections than allowed: half of them send a part of a request, the others nothing.
    let mut slow: Vec<TcpStream> = (0..3 * MOST_CONNECTIONS).map(|_| connect(address)).collect();
    for stream in slow.iter_mut().step_by(2) {
        // The server may have closed it already.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ");
    }
    // After their timeout other clients are served.
    while get(address, "/healthz").0 != "200" {
        assert!(start.elapsed() < PATIENCE, "not served while {} are slow", slow.len());
        std::thread::sleep(Duration::from_millis(50));
    }
    for mut stream in slow {
        let mut answer = String::new();
        // Closed, or 408: no connection stays open forever.
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
    assert!(start.elapsed() < PATIENCE);
}

/// A server with a web configuration file in a temporary folder.
fn guarded(text: &str) -> (Server, SocketAddr, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yml");
    std::fs::write(&file, text).unwrap();
    let web = Web::open(&file, |_| ()).unwrap();
    let board = Arc::new(Board::default());
    board.publish(Exposition::default());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (Server::start(vec![Listener::Tcp(listener)], &board, Some(web)).unwrap(), address, folder)
}

#[test]
fn a_password_is_asked_for_where_one_is_set() {
    let hash = bcrypt::hash("a secret", 4).unwrap();
    let (_server, address, _folder) = guarded(&format!("basic_auth_users: {{alice: {hash}}}"));
    let metrics =
        |header: &str| response_to(address, format!("GET /metrics HTTP/1.1\r\n{header}\r\n").as_bytes()).0;
    // The credentials are alice:a secret, then alice:wrong.
    assert_eq!(metrics("authorization: Basic YWxpY2U6YSBzZWNyZXQ=\r\n"), "200");
    assert_eq!(metrics("Authorization: Basic YWxpY2U6d3Jvbmc=\r\n"), "401");
    assert_eq!(metrics(""), "401");
    for path in ["/", "/nowhere"] {
        assert_eq!(get(address, path).0, "401", "{path}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(address, path).0, "200", "{path}: a probe has no password");
    }
    let mut stream = connect(address);
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\r\nWWW-Authenticate: Basic realm=\"rocescope\""), "{answer}");
}

#[cfg(feature = "tls")]
mod tls {
    use super::*;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use tokio_rustls::rustls::version::{TLS12, TLS13};
    use tokio_rustls::rustls::{
        ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
    };

    fn file(name: &str) -> String {
        format!("{}/../tests/data/export/tls/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    /// The status of a response; `shown` is the client's certificate. Empty if the server refuses the connection.
    fn tls_response(
        address: SocketAddr,
        version: &'static SupportedProtocolVersion,
        shown: Option<&str>,
    ) -> String {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(file("authority.pem")).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        let config = match shown {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let certificate = CertificateDer::from_pem_file(file(&format!("{name}.pem"))).unwrap();
                let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key"))).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        let connection = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap());
        let mut stream = StreamOwned::new(connection.unwrap(), connect(address));
        let _refused = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        let mut answer = Vec::new();
        let _refused = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap().split(' ').nth(1).unwrap_or_default().to_owned()
    }

    fn server(more: &str) -> (Server, SocketAddr, tempfile::TempDir) {
        let (certificate, key) = (file("server.pem"), file("server.key"));
        guarded(&format!("tls_server_config: {{cert_file: {certificate}, key_file: {key}{more}}}"))
    }

    #[test]
    fn an_answer_is_encrypted_and_never_in_the_clear() {
        let (_server, address, _folder) = server("");
        assert_eq!(tls_response(address, &TLS13, None), "200");
        assert_eq!(tls_response(address, &TLS12, None), "200");
        let mut stream = connect(address);
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    }

    #[test]
    fn an_old_version_is_refused() {
        let (_server, address, _folder) = server(", min_version: TLS13");
        assert_eq!(tls_response(address, &TLS13, None), "200");
        assert_eq!(tls_response(address, &TLS12, None), "");
    }

    #[test]
    fn certificates_of_clients_are_verified() {
        let authority = file("authority.pem");
        let of = |policy: &str, more: &str| {
            server(&format!(", client_ca_file: {authority}, client_auth_type: {policy}{more}"))
        };
        let (_server, address, _folder) = of("RequireAndVerifyClientCert", "");
        assert_eq!(tls_response(address, &TLS13, Some("client")), "200");
        assert_eq!(tls_response(address, &TLS13, None), "");
        let (_server, address, _folder) = of("VerifyClientCertIfGiven", "");
        assert_eq!(tls_response(address, &TLS13, None), "200");
        let named = |name: &str| {
            of("RequireAndVerifyClientCert", &format!(", client_allowed_sans: [other.example, {name}]"))
        };
        let (_server, address, _folder) = named("prometheus.example");
        assert_eq!(tls_response(address, &TLS12, Some("client")), "200");
        let (_server, address, _folder) = named("127.0.0.1");
        assert_eq!(tls_response(address, &TLS12, Some("client")), "");
    }

    #[test]
    fn files_that_do_not_fit_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.yml");
        for (certificate, key, said) in [
            ("server.pem", "client.key", "certificate and key do not fit"),
            ("server.key", "server.key", "no certificate in PEM"),
            ("server.pem", "server.pem", "no private key in PEM"),
            ("none.pem", "server.key", "none.pem"),
        ] {
            let text =
                format!("tls_server_config: {{cert_file: {}, key_file: {}}}", file(certificate), file(key));
            std::fs::write(&path, text).unwrap();
            let error = Web::open(&path, |_| ()).unwrap_err();
            assert!(error.contains(said) && error.contains("web.yml"), "{error}");
        }
    }
}
