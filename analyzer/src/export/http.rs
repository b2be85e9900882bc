//! A minimal HTTP/1.1 server protocol for scrapes: one request and one response per connection. Pure.

use std::sync::Arc;

use super::exposition::{Exposition, Format};

/// Maximum length of a request head, in bytes.
pub const MOST_HEAD: usize = 8 * 1024;

/// Request line and the headers that matter, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// HEAD: the response has no body.
    pub head_only: bool,
    /// POST: requests an action.
    pub post: bool,
    /// Path without query.
    pub path: String,
    /// The query, without its question mark; empty if there is none.
    pub query: String,
    /// Format of the exposition, negotiated from `Accept`.
    pub format: Format,
    /// Value of `Authorization`.
    pub authorization: Option<String>,
}

impl Request {
    /// True if a view asks to attach.
    pub fn is_for_samples(&self) -> bool {
        !self.post && !self.head_only && self.path == SAMPLES
    }
}

/// Path at which views attach.
pub const SAMPLES: &str = "/samples";

/// Status line and headers of the sample stream, which has no length.
pub const SAMPLES_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.rocescope.samples\r\n\
                                Cache-Control: no-store\r\nConnection: close\r\n\r\n";

/// A rejected request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not HTTP.
    BadRequest,
    /// The head did not arrive in time.
    Timeout,
    /// A method other than GET, HEAD and POST.
    Method,
    /// A head longer than [`MOST_HEAD`].
    TooLong,
    /// An unsupported major version of HTTP.
    Version,
}

/// Length of the request head, including its empty line. `None` while it has not arrived completely.
pub fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut line_start = 0;
    for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        let line = bytes.get(line_start..at).unwrap_or_default();
        if line_start > 0 && (line.is_empty() || line == b"\r") {
            return Some(at + 1);
        }
        line_start = at + 1;
    }
    None
}

/// Parses a complete request head.
///
/// # Errors
/// If it is malformed or not supported.
pub fn parse(head: &[u8]) -> Result<Request, Refusal> {
    let text = std::str::from_utf8(head).map_err(|_| Refusal::BadRequest)?;
    let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refusal::BadRequest);
    };
    let version = version.strip_prefix("HTTP/").ok_or(Refusal::BadRequest)?;
    if !version.starts_with("1.") {
        return Err(Refusal::Version);
    }
    let (head_only, post) = match method {
        "GET" => (false, false),
        "HEAD" => (true, false),
        "POST" => (false, true),
        _ => return Err(Refusal::Method),
    };
    // The absolute form, which proxies send, has scheme and host before the path.
    let path = match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"),
        None => target,
    };
    let path = path.split('#').next().unwrap_or_default();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    if !path.starts_with('/') {
        return Err(Refusal::BadRequest);
    }
    let (mut accepted, mut authorization) = (Vec::new(), None);
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(Refusal::BadRequest)?;
        if name.is_empty() || name.contains([' ', '\t']) {
            return Err(Refusal::BadRequest);
        }
        if name.eq_ignore_ascii_case("accept") {
            accepted.push(value);
        } else if name.eq_ignore_ascii_case("authorization") {
            authorization = Some(value.to_owned());
        }
    }
    let (path, query) = (path.to_owned(), query.to_owned());
    Ok(Request { head_only, post, path, query, format: negotiated(&accepted.join(",")), authorization })
}

/// The format preferred by an `Accept` header; the text format unless OpenMetrics is preferred.
pub fn negotiated(accept: &str) -> Format {
    let (mut open_metrics, mut text): (f64, f64) = (0.0, 0.0);
    for one in accept.split(',') {
        let mut parts = one.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let (mut weight, mut version) = (1.0, None);
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim().to_ascii_lowercase().as_str() {
                "q" => weight = value.trim().parse().unwrap_or(0.0),
                "version" => version = Some(value.trim().trim_matches('"').to_owned()),
                _ => {}
            }
        }
        match (kind.as_str(), version.as_deref()) {
            // Clients that accept the draft 0.0.1, such as Prometheus, accept 1.0 as well.
            ("application/openmetrics-text", None | Some("1.0.0" | "0.0.1")) => {
                open_metrics = open_metrics.max(weight);
            }
            ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => text = text.max(weight),
            _ => {}
        }
    }
    if open_metrics > 0.0 && open_metrics >= text { Format::OpenMetrics } else { Format::Text }
}

/// Result of a dump request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpRequested {
    /// The dump is being written.
    Yes,
    /// No flight recorder runs.
    NoRecorder,
    /// The query is not a valid time.
    NoTime,
}

/// Status, headers and body of a response.
#[derive(Clone, Debug)]
pub struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: Body,
    head_only: bool,
}

#[derive(Clone, Debug)]
enum Body {
    Fixed(&'static str),
    Metrics(Arc<Exposition>, Format),
}

const PLAIN: &str = "text/plain; charset=utf-8";

const INDEX: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>rocescope</title></head><body>\
<h1>rocescope</h1><ul><li><a href=\"/metrics\">Metrics</a></li><li><a href=\"/healthz\">Liveness</a></li>\
<li><a href=\"/readyz\">Readiness</a></li></ul></body></html>\n";

impl Answer {
    fn fixed(status: &'static str, content_type: &'static str, body: &'static str) -> Self {
        Self { status, content_type, body: Body::Fixed(body), head_only: false }
    }

    /// The response to a request. `latest` is the latest exposition, `None` before the first. With `hangs`, samples
    /// should arrive and do not: metrics remain, and have the time of their sample.
    pub fn to(request: &Result<Request, Refusal>, latest: Option<Arc<Exposition>>, hangs: bool) -> Self {
        const HANGS: &str = "no sample for 30 s\n";
        const NOT_READY: &str = "not ready: no sample yet\n";
        let request = match request {
            Ok(request) => request,
            Err(refusal) => return Self::refusing(*refusal),
        };
        if request.post {
            return Self::refusing(Refusal::Method);
        }
        let unavailable = || Self::fixed("503 Service Unavailable", PLAIN, NOT_READY);
        let answer = match (request.path.as_str(), latest) {
            ("/healthz" | "/readyz", _) if hangs => Self::fixed("503 Service Unavailable", PLAIN, HANGS),
            ("/metrics", Some(latest)) => Self {
                status: "200 OK",
                content_type: request.format.content_type(),
                body: Body::Metrics(latest, request.format),
                head_only: false,
            },
            ("/readyz", Some(_)) => Self::fixed("200 OK", PLAIN, "ready\n"),
            ("/metrics" | "/readyz", None) => unavailable(),
            ("/healthz", _) => Self::fixed("200 OK", PLAIN, "ok\n"),
            (SAMPLES, _) => Self::fixed(
                "403 Forbidden",
                PLAIN,
                "samples are served on unix sockets alone: --listen unix:PATH\n",
            ),
            ("/", _) => Self::fixed("200 OK", "text/html; charset=utf-8", INDEX),
            _ => Self::fixed("404 Not Found", PLAIN, "not found: see /metrics\n"),
        };
        Self { head_only: request.head_only, ..answer }
    }

    /// The response to `POST /dump`.
    pub fn dump(requested: DumpRequested) -> Self {
        match requested {
            DumpRequested::Yes => Self::fixed("202 Accepted", PLAIN, "a dump will be written after --post\n"),
            DumpRequested::NoRecorder => Self::fixed(
                "409 Conflict",
                PLAIN,
                "no flight recorder runs: start rocescope with --keep 10m\n",
            ),
            DumpRequested::NoTime => {
                Self::fixed("400 Bad Request", PLAIN, "invalid query: write /dump, or /dump?last=5m\n")
            }
        }
    }

    /// The response (401) to missing or wrong credentials.
    pub fn unauthorized() -> Self {
        Self::fixed("401 Unauthorized", PLAIN, "a user name and a password of --web-config are needed\n")
    }

    /// The response to a view for which there is no free slot.
    pub fn no_place() -> Self {
        const TEXT: &str = "8 views are attached, or the agent has just begun: end one, or try again\n";
        Self::fixed("503 Service Unavailable", PLAIN, TEXT)
    }

    fn refusing(refusal: Refusal) -> Self {
        let (status, body) = match refusal {
            Refusal::BadRequest => ("400 Bad Request", "no HTTP request\n"),
            Refusal::Timeout => ("408 Request Timeout", "the request did not arrive in time\n"),
            Refusal::Method => ("405 Method Not Allowed", "GET and HEAD only\n"),
            Refusal::TooLong => ("431 Request Header Fields Too Large", "the request is too long\n"),
            Refusal::Version => ("505 HTTP Version Not Supported", "HTTP/1.0 and HTTP/1.1 only\n"),
        };
        Self::fixed(status, PLAIN, body)
    }

    /// Status line and headers.
    pub fn head(&self) -> String {
        let length = self.whole_body().len();
        let more = match self.status.get(..3) {
            Some("401") => "WWW-Authenticate: Basic realm=\"rocescope\", charset=\"UTF-8\"\r\n",
            Some("405") => "Allow: GET, HEAD\r\n",
            _ => "",
        };
        format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {length}\r\n{more}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            self.status, self.content_type
        )
    }

    /// The body to send.
    pub fn body(&self) -> &[u8] {
        if self.head_only { &[] } else { self.whole_body().as_bytes() }
    }

    fn whole_body(&self) -> &str {
        match &self.body {
            Body::Fixed(text) => text,
            Body::Metrics(exposition, format) => exposition.text(*format),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(head: &str) -> Result<Request, Refusal> {
        parse(head.as_bytes())
    }

    #[test]
    fn a_head_ends_with_an_empty_line() {
        assert_eq!(end_of_head(b"GET / HTTP/1.1\r\n\r\nrest"), Some(18));
        assert_eq!(end_of_head(b"GET / HTTP/1.1\n\nrest"), Some(16));
        for part in ["", "\r", "GET / HTTP/1.1", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n\r", "\r\nGET"] {
            assert_eq!(end_of_head(part.as_bytes()), None, "{part:?}");
        }
    }

    #[test]
    fn requests_are_read() {
        let request =
            get("GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nACCEPT: application/openmetrics-text\r\n\r\n");
        let open = Format::OpenMetrics;
        assert_eq!(
            request,
            Ok(Request {
                head_only: false,
                post: false,
                path: "/metrics".into(),
                query: "x=1".into(),
                format: open,
                authorization: None
            })
        );
        let proxied = get("HEAD http://h:1/readyz HTTP/1.0\n\n").unwrap();
        assert!(proxied.head_only && proxied.path == "/readyz" && proxied.format == Format::Text);
        assert_eq!(get("GET http://h HTTP/1.1\r\n\r\n").unwrap().path, "/");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (head, refusal) in [
            ("\r\n\r\n", Refusal::BadRequest),
            ("GET /\r\n\r\n", Refusal::BadRequest),
            ("GET  / HTTP/1.1\r\n\r\n", Refusal::BadRequest),
            ("GET x HTTP/1.1\r\n\r\n", Refusal::BadRequest),
            ("GET / FTP/1.1\r\n\r\n", Refusal::BadRequest),
            ("GET / HTTP/1.1\r\nno colon\r\n\r\n", Refusal::BadRequest),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", Refusal::BadRequest),
            ("GET / HTTP/1.1\r\n: a\r\n\r\n", Refusal::BadRequest),
            ("PRI * HTTP/2.0\r\n\r\n", Refusal::Version),
            ("PUT /metrics HTTP/1.1\r\n\r\n", Refusal::Method),
        ] {
            assert_eq!(get(head), Err(refusal), "{head:?}");
        }
        assert_eq!(parse(b"GET /\xff HTTP/1.1\r\n\r\n"), Err(Refusal::BadRequest));
    }

    #[test]
    fn the_client_chooses_the_format() {
        // As sent by Prometheus 2.42 and 3, curl and browsers.
        for (accept, open) in [
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                true,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                true,
            ),
            ("text/plain;version=0.0.4;q=0.5,application/openmetrics-text;q=0.4", false),
            ("application/openmetrics-text; version=\"1.0.0\"", true),
            ("application/openmetrics-text;version=2.0.0,text/plain", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=x", false),
            ("*/*", false),
            ("", false),
            (",;=,;q=;,", false),
        ] {
            assert_eq!(negotiated(accept) == Format::OpenMetrics, open, "{accept}");
        }
    }

    #[test]
    fn answers_by_path_and_readiness() {
        let answer = |path: &str, ready: bool, hangs: bool| {
            let exposition = ready.then(|| Arc::new(Exposition::default()));
            Answer::to(&get(&format!("GET {path} HTTP/1.1\r\n\r\n")), exposition, hangs)
        };
        for (path, before, after, hanging) in [
            ("/", "200", "200", "200"),
            ("/healthz", "200", "200", "503"),
            ("/readyz", "503", "200", "503"),
            ("/metrics", "503", "200", "200"),
            ("/metrics/", "404", "404", "404"),
            ("/../etc/passwd", "404", "404", "404"),
        ] {
            for (ready, hangs, status) in
                [(false, false, before), (true, false, after), (true, true, hanging)]
            {
                assert!(answer(path, ready, hangs).status.starts_with(status), "{path}");
            }
        }
        for path in ["/metrics", "/dump"] {
            let posted = Answer::to(&get(&format!("POST {path} HTTP/1.1\r\n\r\n")), None, false);
            assert!(posted.status.starts_with("405"), "{path}");
        }
        let refused = Answer::to(&Err(Refusal::Method), None, false);
        assert!(refused.head().contains("Allow: GET, HEAD\r\n"));
        let head = Answer::to(&get("HEAD / HTTP/1.1\r\n\r\n"), None, false);
        assert!(head.body().is_empty());
        assert!(head.head().contains(&format!("Content-Length: {}\r\n", INDEX.len())));
    }
}
