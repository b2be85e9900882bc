//! The address of a ClickHouse server, and requests to it.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ureq::http::Uri;
use ureq::typestate::WithBody;
use ureq::{Agent, RequestBuilder};

use super::request;

/// Ports of its HTTP interface, without and with TLS.
const PORTS: (u16, u16) = (8123, 8443);
const FORM: &str = "expected http[s]://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?SETTING=VALUE], the database in letters, digits and _";
/// All but the characters that RFC 3986 calls unreserved.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A server, and how to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    /// `http://host:port/`, or `https`.
    base: String,
    port: u16,
    /// Database that the path names.
    database: String,
    /// Further parameters of every request, joined by `&`.
    parameters: String,
    login: Option<(String, String)>,
}

impl FromStr for Server {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let is_encrypted = request::is_encrypted(url);
        if is_encrypted && !cfg!(feature = "tls") {
            return Err(request::NO_TLS.to_owned());
        }
        let (scheme, port) = if is_encrypted { ("https://", PORTS.1) } else { ("http://", PORTS.0) };
        url.strip_prefix(scheme).and_then(|rest| Self::of(scheme, port, rest)).ok_or_else(|| FORM.to_owned())
    }
}

impl fmt::Display for Server {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.base, self.database)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Server {
    /// True for a text that names a server rather than a file.
    pub fn is_url(text: &str) -> bool {
        text.starts_with("http://") || request::is_encrypted(text)
    }

    fn of(scheme: &str, port: u16, rest: &str) -> Option<Self> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (rest, database) =
            rest.trim_end_matches('/').split_once('/').unwrap_or((rest.trim_end_matches('/'), ""));
        let (login, address) = match rest.rsplit_once('@') {
            Some((login, address)) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                (Some((user.to_owned(), password.to_owned())), address)
            }
            None => (None, rest),
        };
        let uri: Uri = format!("{scheme}{address}/").parse().ok()?;
        let host = uri.host().filter(|host| !host.is_empty())?;
        // The colons of an IPv6 address are within brackets.
        let has_port = address.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let port = if has_port { uri.port_u16()? } else { port };
        let is_header = |text: &str| !text.chars().any(char::is_control);
        let fits = database.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !query.contains(|c: char| c.is_whitespace() || c.is_control())
            && login.as_ref().is_none_or(|(user, password)| is_header(user) && is_header(password));
        fits.then(|| Self {
            base: format!("{scheme}{host}:{port}/"),
            port,
            database: database.to_owned(),
            parameters: query.to_owned(),
            login,
        })
    }

    /// Its address without user, password and parameters.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// TCP port of the server.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The address of a request with these parameters and the server's own.
    pub fn url(&self, parameters: &[(&str, &str)]) -> String {
        let given =
            parameters.iter().map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, ESCAPED)));
        let database = (!self.database.is_empty()).then(|| format!("database={}", self.database));
        let own = (!self.parameters.is_empty()).then(|| self.parameters.clone());
        format!("{}?{}", self.base, given.chain(database).chain(own).collect::<Vec<_>>().join("&"))
    }

    /// A request that logs in.
    pub fn post(&self, agent: &Agent, url: &str) -> RequestBuilder<WithBody> {
        let request = agent.post(url);
        match &self.login {
            Some((user, password)) => {
                request.header("X-ClickHouse-User", user).header("X-ClickHouse-Key", password)
            }
            None => request,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let of = |url: &str| url.parse::<Server>();
        let server = of("http://me:se:cr@et@[::1]:9000/fleet/").unwrap();
        assert_eq!((server.to_string().as_str(), server.port()), ("http://[::1]:9000/fleet", 9000));
        assert_eq!(server.login, Some(("me".into(), "se:cr@et".into())));
        assert_eq!(
            server.url(&[("query", "select 'a b'")]),
            "http://[::1]:9000/?query=select%20%27a%20b%27&database=fleet"
        );
        assert!(!format!("{server:?}").contains("cr@et"));
        let server = of("http://db/?database=roce&async_insert=0").unwrap();
        assert_eq!((server.port(), &server.login), (8123, &None));
        assert_eq!(server.url(&[]), "http://db:8123/?database=roce&async_insert=0");
        let bad = [
            "http://",
            "http://h:x",
            "http://h/a&b",
            "http://h/a b",
            "http://a\r\nb/c",
            "http://a\r\n@b",
            "ftp://h",
            "h:8123",
        ];
        for bad in bad {
            assert!(of(bad).is_err(), "{bad}");
        }
        match of("https://db") {
            Ok(server) if cfg!(feature = "tls") => {
                assert_eq!((server.base(), server.port()), ("https://db:8443/", 8443));
            }
            other => assert!(other.unwrap_err().contains("feature tls"), "a build without TLS"),
        }
        assert!(
            Server::is_url("http://db")
                && Server::is_url("https://db")
                && !Server::is_url("/var/lib/rocescope")
        );
    }
}
