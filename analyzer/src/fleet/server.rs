//! Queries to a ClickHouse server.

use std::fmt;
use std::time::Duration;

use super::excerpt::first_lines;
use super::recording::{Dialect, source};
use crate::record::TABLES;
use crate::record::table::Table;
use crate::util::clickhouse::Server;
use crate::util::request::{self, Certificates};

/// Timeout of a query.
const MOST_TIME: Duration = Duration::from_secs(600);
/// Maximum size of a response: the limits in the SQL keep results far below it.
const MOST: u64 = 256 << 20;
/// ClickHouse's exception for a column that a table does not have.
const UNKNOWN_COLUMN: &str = "Code: 47.";

/// A server, and all that is read of this host to reach it.
#[derive(Debug)]
pub struct Client {
    server: Server,
    agent: ureq::Agent,
}

impl Client {
    /// The thread that looks up names of hosts does `limit` first.
    ///
    /// # Errors
    /// If the CA certificates cannot be read, or no thread can be started.
    pub fn new(server: Server, limit: impl FnOnce() + Send + 'static) -> Result<Self, String> {
        let agent = request::agent(server.base(), MOST_TIME, &Certificates::default(), limit)
            .map_err(|error| format!("ClickHouse at {server}: {error}"))?;
        Ok(Self { server, agent })
    }

    /// TCP port of the server.
    pub const fn port(&self) -> u16 {
        self.server.port()
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClickHouse at {}", self.server)
    }
}

/// Runs a statement and returns the response: JSON, one object per line. A table of a recording that the server does
/// not have, since all that fills it is older, is empty.
///
/// # Errors
/// If the server is unreachable, refuses the statement, or truncates its response.
pub(super) fn ask(client: &Client, statement: &str) -> Result<Vec<u8>, String> {
    let mut statement = statement.to_owned();
    let mut left: Vec<&Table> = TABLES.to_vec();
    loop {
        let error = match ask_once(client, &statement) {
            Ok(body) => return Ok(body),
            Err(error) => error,
        };
        let is_missing =
            |table: &&Table| error.contains("Unknown table") && error.contains(&format!("'{}'", table.name));
        let Some(at) = left.iter().position(is_missing) else { return Err(with_remedy(error)) };
        statement = without(left.remove(at), &statement);
    }
}

/// The error, with a remedy for a column that the tables do not have.
fn with_remedy(error: String) -> String {
    if error.contains(UNKNOWN_COLUMN) {
        return error
            + "; if the tables are of an older version, `rocescope record --clickhouse` of this one adds the columns that they lack";
    }
    error
}

/// The statement with an empty table of this name before its other common table expressions.
fn without(table: &Table, statement: &str) -> String {
    let empty = format!("with {} as ({})", table.name, source(table, &[], &[], Dialect::ClickHouse));
    // Comments may stand before it.
    let begin =
        statement.find("with\n").filter(|at| *at == 0 || statement.as_bytes().get(at - 1) == Some(&b'\n'));
    match begin {
        Some(at) => format!("{empty},\n{}", statement.get(at + 5..).unwrap_or_default()),
        None => match statement.strip_prefix("with ") {
            Some(rest) => format!("{empty},\n{rest}"),
            None => format!("{empty}\n{statement}"),
        },
    }
}

fn ask_once(client: &Client, statement: &str) -> Result<Vec<u8>, String> {
    // With wait_end_of_query, an error after the first rows still changes the HTTP status.
    let Client { server, agent } = client;
    let url = server.url(&[
        ("default_format", "JSONEachRow"),
        ("wait_end_of_query", "1"),
        ("session_timezone", "UTC"),
        ("output_format_json_quote_64bit_integers", "0"),
    ]);
    let failed = |error: ureq::Error| format!("{client}: {}", request::reason(&error));
    let request = server.post(agent, &url).header("Content-Type", "text/plain");
    let mut response = request.send(statement).map_err(failed)?;
    let body = response.body_mut().with_config().limit(MOST).read_to_vec().map_err(failed)?;
    let status = response.status();
    if status.is_success() {
        Ok(body)
    } else {
        Err(format!("{client}: {} (HTTP status {})", first_lines(&body), status.as_u16()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    #[test]
    fn a_table_that_is_missing_is_empty() {
        let table = TABLES.iter().find(|table| table.name == "qp_seconds").unwrap();
        let empty = "with qp_seconds as (select * from null('t DateTime64(9, \\'UTC\\'), ";
        for (statement, rest) in [
            ("-- A question.\nwith\nfirst as (select 1)\nselect 2", "),\nfirst as (select 1)\nselect 2"),
            ("with steps as (select 1)\nselect 2", "),\nsteps as (select 1)\nselect 2"),
            ("select 2 from qp_seconds", ")\nselect 2 from qp_seconds"),
        ] {
            let whole = without(table, statement);
            assert!(whole.starts_with(empty) && whole.ends_with(rest), "{whole}");
        }
    }

    #[test]
    fn a_statement_is_posted_an_error_is_the_servers_and_a_cut_answer_is_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answering = std::thread::spawn(move || {
            let answers = [
                "200 OK\r\nContent-Length: 8\r\n\r\n{\"a\":1}\n",
                "404 Not Found\r\nContent-Length: 24\r\n\r\nCode: 60. Unknown table\n",
                "404 Not Found\r\nContent-Length: 53\r\n\r\nCode: 47. Unknown expression identifier `stuck_ns`..\n",
                "200 OK\r\nContent-Length: 99\r\n\r\n{\"a\":1}\n",
            ];
            answers.map(|answer| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"select 1") {
                    let mut piece = [0; 512];
                    let read = stream.read(&mut piece).unwrap();
                    assert_ne!(read, 0, "{}", String::from_utf8_lossy(&request));
                    request.extend_from_slice(&piece[..read]);
                }
                // The client would else try the closed connection once more.
                let (status, rest) = answer.split_once("\r\n").unwrap();
                let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{rest}");
                stream.write_all(answer.as_bytes()).unwrap();
                String::from_utf8(request).unwrap().to_lowercase()
            })
        });
        let server =
            Client::new(format!("http://u:p@127.0.0.1:{port}/fleet").parse().unwrap(), || ()).unwrap();
        assert_eq!(ask(&server, "select 1").unwrap(), b"{\"a\":1}\n");
        let error = ask(&server, "select 1").unwrap_err();
        assert!(
            error.contains("Unknown table") && error.contains("status 404") && !error.contains("u:p"),
            "{error}"
        );
        let error = ask(&server, "select 1").unwrap_err();
        assert!(
            error.contains("`stuck_ns`") && error.ends_with("adds the columns that they lack"),
            "{error}"
        );
        assert!(ask(&server, "select 1").is_err());
        let requests = answering.join().unwrap();
        assert!(requests[0].starts_with("post /?default_format=jsoneachrow&"), "{}", requests[0]);
        assert!(requests[0].contains("&database=fleet "), "{}", requests[0]);
        assert!(
            requests[0].contains("x-clickhouse-user: u\r\n")
                && requests[0].contains("x-clickhouse-key: p\r\n")
        );
        // The listener is closed.
        assert!(ask(&server, "select 1").unwrap_err().contains("ClickHouse at http://127.0.0.1"));
    }
}
