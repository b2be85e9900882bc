//! Any bytes as a request to the server of the metrics, and its answer.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use rocescope::export::Exposition;
use rocescope::export::http::{Answer, end_of_head, parse};
use rocescope_fuzz::seeds;

/// Requests of scrapers, browsers, proxies and views, and some that are refused.
fn made() -> Vec<Vec<u8>> {
    let requests = [
        "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2\r\n\r\n",
        "GET /metrics?x=1#y HTTP/1.0\r\nAuthorization: Basic YWxpY2U6c2VjcmV0\r\n\r\n",
        "HEAD http://h:1/readyz HTTP/1.1\n\n",
        "GET http://h HTTP/1.1\r\n\r\nrest",
        "GET / HTTP/1.1\r\nACCEPT: application/openmetrics-text; version=\"1.0.0\"\r\naccept: text/*\r\n\r\n",
        "GET /samples HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /dump?last=5m HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\n",
        "PUT /metrics HTTP/1.1\r\n\r\n",
    ];
    requests.map(|request| request.as_bytes().to_vec()).to_vec()
}

fuzz_target!(init: seeds(made), |input: &[u8]| {
    let end = end_of_head(input);
    if let Some(end) = end {
        // Bytes that follow change nothing, and one less is no head.
        assert_eq!(end_of_head(&input[..end]), Some(end));
        assert_eq!(end_of_head(&input[..end - 1]), None);
    }
    let request = parse(&input[..end.unwrap_or(input.len())]);
    if let Ok(request) = &request {
        assert!(request.path.starts_with('/') && !request.path.contains(['?', '#', ' ', '\n']), "{request:?}");
        assert!(!(request.head_only && request.post), "{request:?}");
    }
    let is_short = request.as_ref().is_ok_and(|request| request.head_only);
    for latest in [None, Some(Arc::new(Exposition::default()))] {
        for hangs in [false, true] {
            let answer = Answer::to(&request, latest.clone(), hangs);
            let head = answer.head();
            // One head in one piece, of which the client chooses no byte.
            assert!(head.is_ascii() && head.starts_with("HTTP/1.1 ") && head.ends_with("\r\n\r\n"), "{head}");
            assert_eq!(head.matches("\r\n\r\n").count(), 1, "{head}");
            let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
            let length: usize = length.and_then(|length| length.parse().ok()).expect("a length");
            assert_eq!(answer.body().len(), if is_short { 0 } else { length }, "{head}");
        }
    }
});
