//! A ClickHouse server over plain HTTP: one request per statement.

use std::fmt;
use std::io::{Read, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use super::engine::first_lines;

const PORT: u16 = 8123;
const CONNECT: Duration = Duration::from_secs(10);
/// Longest silence of a server that works on a question.
const SILENCE: Duration = Duration::from_secs(600);
/// Longest answer: the SQL has limits far below it.
const MOST: u64 = 256 << 20;

/// A server, and how to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    host: String,
    port: u16,
    database: String,
    user: Option<(String, String)>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the password.
        write!(f, "http://{}:{}/{}", self.host, self.port, self.database)
    }
}

impl Server {
    /// Reads `http://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`. `None`: no such URL.
    ///
    /// # Errors
    /// It is one, and not usable.
    #[must_use]
    pub fn parse(url: &str) -> Option<Result<Self, String>> {
        if url.starts_with("https://") {
            return Some(Err(format!(
                "{url}: TLS is not supported; use http:// through a proxy on this host that adds TLS"
            )));
        }
        let rest = url.strip_prefix("http://")?;
        Some(Self::of(rest).ok_or_else(|| {
            "invalid URL: write http://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE], the database in letters, digits and _".to_owned()
        }))
    }

    fn of(rest: &str) -> Option<Self> {
        let (authority, database) =
            rest.trim_end_matches('/').split_once('/').unwrap_or((rest.trim_end_matches('/'), "default"));
        let (user, address) = match authority.rsplit_once('@') {
            Some((user, address)) => {
                let (user, password) = user.split_once(':').unwrap_or((user, ""));
                (Some((user.to_owned(), password.to_owned())), address)
            }
            None => (None, authority),
        };
        // The colons of an IPv6 address are within brackets.
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (address, PORT),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_header = |text: &str| !text.chars().any(char::is_control);
        let fits = !host.is_empty()
            && !host.contains(|c: char| c.is_whitespace() || c.is_control())
            && !database.is_empty()
            && database.chars().all(is_name)
            && user.as_ref().is_none_or(|(user, password)| is_header(user) && is_header(password));
        fits.then(|| Self { host: host.to_owned(), port, database: database.to_owned(), user })
    }

    /// The answer to a statement: JSON, an object a line.
    ///
    /// # Errors
    /// The server is not there, refuses the statement, or does not finish its answer.
    pub fn ask(&self, statement: &str) -> Result<Vec<u8>, String> {
        let answer = self.exchange(statement).map_err(|error| format!("ClickHouse at {self:?}: {error}"))?;
        let (status, body) = read(&answer).ok_or_else(|| format!("{self:?} does not answer in HTTP"))?;
        match status {
            200 => body.ok_or_else(|| format!("ClickHouse at {self:?} ended its answer early")),
            _ => Err(format!(
                "ClickHouse at {self:?}: {} (HTTP status {status})",
                first_lines(&body.unwrap_or_default())
            )),
        }
    }

    fn exchange(&self, statement: &str) -> std::io::Result<Vec<u8>> {
        let host = self.host.trim_matches(['[', ']']);
        let mut failure = std::io::Error::other("its name has no address");
        for address in (host, self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => return self.send(stream, statement),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn send(&self, mut stream: TcpStream, statement: &str) -> std::io::Result<Vec<u8>> {
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(CONNECT))?;
        let user = self.user.as_ref().map_or_else(String::new, |(user, password)| {
            format!("X-ClickHouse-User: {user}\r\nX-ClickHouse-Key: {password}\r\n")
        });
        // wait_end_of_query: an error after the first rows becomes the status.
        let head = format!(
            "POST /?database={}&default_format=JSONEachRow&wait_end_of_query=1&session_timezone=UTC\
             &output_format_json_quote_64bit_integers=0 HTTP/1.1\r\nHost: {}:{}\r\n{user}Content-Type: text/plain\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.database,
            self.host,
            self.port,
            statement.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(statement.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(MOST).read_to_end(&mut answer)?;
        Ok(answer)
    }
}

/// Status and body of an answer; no body where it ends early.
fn read(answer: &[u8]) -> Option<(u16, Option<Vec<u8>>)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let body = &answer[end + 4..];
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let header = |name: &str| {
        let mut named = head.split("\r\n").filter_map(|line| line.split_once(':'));
        named.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let body = if header("Transfer-Encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        dechunk(body)
    } else {
        match header("Content-Length").map(str::parse::<usize>) {
            Some(Ok(length)) => body.get(..length).map(<[u8]>::to_vec),
            Some(Err(_)) => None,
            None => Some(body.to_vec()),
        }
    };
    Some((status, body))
}

/// The body in chunks as one; `None` where the last chunk is missing.
fn dechunk(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::with_capacity(body.len());
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&body[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        let start = end + 2;
        if size == 0 {
            return Some(whole);
        }
        let stop = start.checked_add(size)?;
        whole.extend_from_slice(body.get(start..stop)?);
        body = body.get(stop.checked_add(2)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn urls_are_read() {
        let of = |url: &str| Server::parse(url).unwrap();
        let server = of("http://me:se:cret@[::1]:9000/fleet/").unwrap();
        assert_eq!((server.host.as_str(), server.port, server.database.as_str()), ("[::1]", 9000, "fleet"));
        assert_eq!(server.user, Some(("me".into(), "se:cret".into())));
        assert_eq!(format!("{server:?}"), "http://[::1]:9000/fleet");
        let server = of("http://db").unwrap();
        assert_eq!((server.port, server.database.as_str(), &server.user), (8123, "default", &None));
        for bad in
            ["http://", "http://h:x", "http://h/a&b", "http://h/a b", "http://a\r\nb/c", "http://a\r\n@b"]
        {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert!(of("https://db").unwrap_err().contains("TLS"));
        assert!(Server::parse("/var/lib/rocescope").is_none() && Server::parse("s3://b").is_none());
    }

    #[test]
    fn answers_are_read_whole_or_not_at_all() {
        let body = |text: &str| read(text.as_bytes()).unwrap().1.map(|body| String::from_utf8(body).unwrap());
        assert_eq!(body("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nabc").as_deref(), Some("ab"));
        assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), None);
        assert_eq!(body("HTTP/1.0 200 OK\r\n\r\nabc").as_deref(), Some("abc"));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n";
        assert_eq!(body(&format!("{chunked}0\r\n\r\n")).as_deref(), Some("abcde"));
        assert_eq!(body(chunked), None);
        assert_eq!(body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"), None);
        assert!(read(b"SSH-2.0").is_none());
    }

    #[test]
    fn a_statement_is_posted_and_an_error_is_the_servers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answering = std::thread::spawn(move || {
            let answers = [
                "200 OK\r\nContent-Length: 8\r\n\r\n{\"a\":1}\n",
                "404 Not Found\r\n\r\nCode: 60. Unknown table\n",
            ];
            answers.map(|answer| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"select 1") {
                    let mut piece = [0; 512];
                    let read = stream.read(&mut piece).unwrap();
                    request.extend_from_slice(&piece[..read]);
                }
                stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).unwrap();
                String::from_utf8(request).unwrap()
            })
        });
        let server = Server::parse(&format!("http://u:p@127.0.0.1:{port}/fleet")).unwrap().unwrap();
        assert_eq!(server.ask("select 1").unwrap(), b"{\"a\":1}\n");
        let error = server.ask("select 1").unwrap_err();
        assert!(
            error.contains("Unknown table") && error.contains("status 404") && !error.contains("u:p"),
            "{error}"
        );
        let requests = answering.join().unwrap();
        assert!(
            requests[0].starts_with("POST /?database=fleet&default_format=JSONEachRow"),
            "{}",
            requests[0]
        );
        assert!(requests[0].contains("X-ClickHouse-User: u\r\nX-ClickHouse-Key: p\r\n"), "{}", requests[0]);
        // Nobody listens any more.
        assert!(server.ask("select 1").unwrap_err().contains("ClickHouse at http://127.0.0.1"));
    }
}
