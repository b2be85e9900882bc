//! Tests of encoded requests, which are decoded again; of settings; and of the threads against a test collector.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use prost::Message as _;

use super::proto::{Any, AnyValue, KeyValue, LogRecord};
use super::queue::Tally;
use super::send::Pusher;
use super::settings::{DEFAULT, Host, Signal, Target, interval, is_disabled, resource, targets};
use super::*;
use crate::export::registry::REGISTRY;
use crate::export::tests::full;
use crate::export::{Exporter, Options};
use crate::report;
use crate::sample::Sample;
use crate::util::request::Certificates;

use crate::util::time::NS_PER_S as SECOND;

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Any::Text(text)) => text.clone(),
        Some(Any::Int(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn attribute(all: &[KeyValue], key: &str) -> Option<String> {
    all.iter().find(|one| one.key == key).map(|one| text(one.value.as_ref()))
}

fn decoded(requests: &Requests) -> ResourceMetrics {
    MetricsRequest::decode(&requests.metrics[..]).unwrap().resource_metrics.remove(0)
}

fn records(requests: &Requests) -> Vec<LogRecord> {
    let Some(logs) = &requests.logs else { return Vec::new() };
    LogsRequest::decode(&logs[..]).unwrap().resource_logs.remove(0).scope_logs.remove(0).log_records
}

/// All points with start time, time and value, by metric and attributes.
fn points(metrics: &ResourceMetrics) -> BTreeMap<String, (u64, u64, f64)> {
    let mut all = BTreeMap::new();
    for metric in &metrics.scope_metrics[0].metrics {
        let name = |attributes: &[KeyValue]| {
            let labels: Vec<_> =
                attributes.iter().map(|one| format!("{}={}", one.key, text(one.value.as_ref()))).collect();
            format!("{} {}", metric.name, labels.join(","))
        };
        let numbers = match metric.data.as_ref().unwrap() {
            Data::Gauge(gauge) => &gauge.data_points,
            Data::Sum(sum) => {
                assert!(sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE);
                &sum.data_points
            }
            Data::Histogram(histogram) => {
                for point in &histogram.data_points {
                    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                    assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
                    let value = (point.start_time_unix_nano, point.time_unix_nano, point.count as f64);
                    all.insert(name(&point.attributes), value);
                }
                continue;
            }
        };
        for point in numbers {
            let value = match point.value.unwrap() {
                Number::Double(number) => number,
                Number::Int(count) => count as f64,
            };
            let before = all
                .insert(name(&point.attributes), (point.start_time_unix_nano, point.time_unix_nano, value));
            assert!(before.is_none(), "{} is there twice", name(&point.attributes));
        }
    }
    all
}

fn encoder() -> Encoder {
    let env = |_: &str| None;
    Encoder::new(resource(&Host { name: Some("gpu7".into()), id: None }, &env).unwrap())
}

#[test]
fn a_request_has_every_metric_of_the_report() {
    let (sample, process) = full();
    let options =
        crate::analysis::Options { imbalance_all_links: true, ..crate::analysis::Options::default() };
    let mut report = Report::build(&sample, &options.into());
    let other = report::schema::full::full();
    (report.facts.bursts, report.facts.coverage) = (other.facts.bursts, other.facts.coverage);
    let families = Exporter::new(Options { peers: 2, qps: 2 }).take(&sample, &report, &process);
    let requests = encoder().take(&families, &report, sample.time_ns);
    let metrics = decoded(&requests);
    let attributes = &metrics.resource.as_ref().unwrap().attributes;
    assert_eq!(attribute(attributes, "service.name").as_deref(), Some("rocescope"));
    assert_eq!(attribute(attributes, "host.name").as_deref(), Some("gpu7"));
    let sent: Vec<&str> =
        metrics.scope_metrics[0].metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(sent, REGISTRY.iter().map(names::name).collect::<Vec<_>>());
    let points = points(&metrics);
    for link in &report.facts.links {
        let direction = names::direction(link.direction.map(crate::analysis::direction_name).unwrap());
        let key = format!(
            "rocescope.link.bytes network.interface.name={},network.io.direction={direction}",
            link.name
        );
        let began = report.facts.window.first_ns.unwrap();
        assert_eq!(points[&key], (began, sample.time_ns, link.bytes as f64));
    }
    // A gauge has no start time.
    let flows = report.facts.flows.len() as f64;
    assert_eq!(points["rocescope.flows "], (0, sample.time_ns, flows));
    let active: Vec<_> = report.findings.iter().filter(|finding| finding.active).collect();
    let records = records(&requests);
    assert!(!active.is_empty() && records.len() == active.len());
    for (finding, record) in active.iter().zip(&records) {
        assert_eq!(text(record.body.as_ref()), finding.title);
        assert_eq!(attribute(&record.attributes, "rocescope.finding.id").as_deref(), Some(finding.id));
        assert_eq!(record.event_name, "rocescope.finding");
        for one in finding.evidence.iter().filter(|one| !one.value.is_null()) {
            let key = format!("rocescope.evidence.{}", one.name);
            assert!(attribute(&record.attributes, &key).is_some(), "{key}");
        }
    }
}

#[test]
fn counters_start_when_they_appear_and_anew_when_the_clock_goes_back() {
    let (mut sample, process) = full();
    let mut exporter = Exporter::new(Options::default());
    let mut encoder = encoder();
    let mut take = |sample: &Sample| {
        let report = Report::build(sample, &report::Options::default());
        let families = exporter.take(sample, &report, &process);
        encoder.take(&families, &report, sample.time_ns)
    };
    let key =
        "rocescope.link.nak_packets network.interface.name=eth0,network.io.direction=receive,code=reserved";
    let link = "rocescope.link.bytes network.interface.name=eth0,network.io.direction=receive";
    let first_ns = sample.time_ns;
    let first = points(&decoded(&take(&sample)));
    let began_ns = first[link].0;
    assert!(!first.contains_key(key) && began_ns < first_ns);
    // A code that appears starts at the previous sample.
    sample.time_ns += SECOND;
    let at = sample.flows.iter().position(|flow| sample.links[usize::from(flow.key.link)].name == "eth0");
    let flow = &mut sample.flows[at.unwrap()];
    flow.stats.rare.naks[5] = 2;
    flow.stats.rare.naks.iter_mut().for_each(|naks| *naks = (*naks).max(2));
    let second = points(&decoded(&take(&sample)));
    let new = second.iter().find(|(name, _)| name.contains("nak_packets") && !first.contains_key(*name));
    let (_, (start_ns, time_ns, count)) = new.unwrap();
    assert_eq!((*start_ns, *time_ns), (first_ns, first_ns + SECOND));
    assert!(*count > 0.0);
    assert_eq!(second[link].0, began_ns);
    // The clock steps back by an hour: no point starts after its own time.
    sample.time_ns -= 3_600 * SECOND;
    sample.window = sample.window.map(|(first, last)| (first - 3_600 * SECOND, last - 3_600 * SECOND));
    let requests = take(&sample);
    assert_eq!(requests.back_ns, Some(3_600 * SECOND));
    let third = points(&decoded(&requests));
    assert!(third.values().all(|(start_ns, time_ns, _)| start_ns <= time_ns && *time_ns == sample.time_ns));
    assert_eq!(third.len(), second.len());
}

#[test]
fn findings_are_recorded_when_they_begin_change_and_end() {
    let (sample, _) = full();
    let mut report = Report::build(&sample, &report::Options::default());
    report
        .findings
        .retain(|finding| finding.active && finding.severity == crate::findings::Severity::Warning);
    report.findings.truncate(1);
    assert_eq!(report.findings.len(), 1);
    let mut encoder = encoder();
    let mut states = Vec::new();
    let mut at = sample.time_ns;
    let mut take = |report: &Report| {
        at += SECOND;
        let records = records(&encoder.take(&[], report, at));
        let state = |record: &LogRecord| {
            (attribute(&record.attributes, "rocescope.finding.state").unwrap(), record.severity_number)
        };
        states.push(records.iter().map(state).collect::<Vec<_>>());
    };
    take(&report);
    report.findings[0].title = "The same with other figures".to_owned();
    take(&report);
    report.findings[0].severity = crate::findings::Severity::Critical;
    take(&report);
    report.findings[0].active = false;
    take(&report);
    take(&report);
    let state = |name: &str, severity| vec![(name.to_owned(), severity)];
    assert_eq!(states, [state("began", 13), vec![], state("changed", 17), state("ended", 17), vec![]]);
}

fn env(variables: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> {
    |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

#[test]
fn the_standard_variables_are_read() {
    let urls = |option: &str, variables| {
        let all = targets(option, &env(variables)).unwrap();
        all.iter().map(|target| target.url.clone()).collect::<Vec<_>>()
    };
    let both = |base: &str| vec![format!("{base}/v1/metrics"), format!("{base}/v1/logs")];
    assert_eq!(urls("", &[]), both(DEFAULT));
    assert_eq!(urls("http://c:1/", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://d:2")]), both("http://c:1"));
    assert_eq!(urls("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://d:2/x/")]), both("http://d:2/x"));
    let own = [("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://m:3/in"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "")];
    let own: &'static [_] = Box::leak(Box::new(own));
    assert_eq!(urls("", own), ["http://m:3/in".to_owned(), format!("{DEFAULT}/v1/logs")]);
    assert_eq!(urls("", &[("OTEL_LOGS_EXPORTER", "none")]), [format!("{DEFAULT}/v1/metrics")]);

    let full = targets(
        "",
        &env(&[
            ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20eA%3D%3D, x-a = b"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "250"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ]),
    )
    .unwrap();
    let headers: Vec<_> =
        full[0].headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    assert_eq!(headers, [("authorization", "Basic eA=="), ("x-a", "b")]);
    assert_eq!(full[0].timeout, Duration::from_millis(250));
    assert_eq!((full[1].timeout, full[1].gzip), (Duration::from_secs(10), true));
    // `Debug` output must not contain the password of a header.
    assert!(!format!("{full:?}").contains("eA=="));
}

#[test]
fn what_cannot_be_used_is_named() {
    let error = |option: &str, variables| targets(option, &env(variables)).unwrap_err();
    if !cfg!(feature = "tls") {
        let said = error("https://c:4318", &[]);
        assert!(said.contains("--otlp") && said.contains("feature tls"), "{said}");
    }
    for (variables, part) in [
        (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4318")] as &[_], "OTEL_EXPORTER_OTLP_ENDPOINT"),
        (&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "http/protobuf"),
        (&[("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd")], "gzip or none"),
        (&[("OTEL_EXPORTER_OTLP_TIMEOUT", "10s")], "milliseconds"),
        (&[("OTEL_EXPORTER_OTLP_HEADERS", "a")], "NAME=VALUE"),
        (&[("OTEL_EXPORTER_OTLP_HEADERS", "a=b%0D%0Ac")], "OTEL_EXPORTER_OTLP_HEADERS"),
        (&[("OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY", "k")], "belong together"),
        (&[("OTEL_LOGS_EXPORTER", "console")], "OTEL_LOGS_EXPORTER"),
        (
            &[("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")],
            "'delta' for OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: rocescope sends cumulative counts only",
        ),
        (&[("OTEL_LOGS_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")], "nothing is left to send"),
    ] {
        let said = error("", variables);
        assert!(said.contains(part), "{said}");
    }
    assert!(error("ftp://c", &[]).contains("http://HOST:PORT"));
}

#[test]
fn the_environment_sets_the_interval_and_turns_all_off() {
    let preference = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
    for accepted in ["cumulative", "Cumulative", ""] {
        assert_eq!(
            targets("", &move |name| (name == preference).then(|| accepted.to_owned())).unwrap().len(),
            2
        );
    }
    // It is of metrics only.
    let logs = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE" => Some("delta".to_owned()),
        "OTEL_METRICS_EXPORTER" => Some("none".to_owned()),
        _ => None,
    };
    assert_eq!(targets("", &logs).unwrap().len(), 1);
    let with = |name: &'static str, text: &'static str| move |of: &str| (of == name).then(|| text.to_owned());
    assert_eq!(interval(&env(&[])), Ok(None));
    assert_eq!(interval(&with("OTEL_METRIC_EXPORT_INTERVAL", "60000")), Ok(Some(Duration::from_secs(60))));
    for wrong in ["1m", "0", "-5"] {
        let error = interval(&with("OTEL_METRIC_EXPORT_INTERVAL", wrong)).unwrap_err();
        assert!(error.contains("OTEL_METRIC_EXPORT_INTERVAL: write milliseconds"), "{error}");
    }
    for (text, disabled) in [("true", true), ("TRUE", true), ("false", false), ("", false), ("1", false)] {
        assert_eq!(is_disabled(&with("OTEL_SDK_DISABLED", text)), disabled, "{text}");
    }
    assert!(!is_disabled(&env(&[])));
}

#[test]
fn the_resource_is_that_of_the_environment() {
    let host = Host { name: Some("gpu7".into()), id: Some("abc".into()) };
    let variables = &[
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=prod,host.name=a%2Cb"),
        ("OTEL_SERVICE_NAME", "roce"),
        ("SLURM_JOB_ID", "4711"),
        ("NODE_NAME", "n1"),
    ];
    let all = resource(&host, &env(variables)).unwrap().attributes;
    for (key, value) in [
        ("service.name", "roce"),
        ("host.name", "a,b"),
        ("host.id", "abc"),
        ("slurm.job.id", "4711"),
        ("k8s.node.name", "n1"),
        ("deployment.environment", "prod"),
    ] {
        assert_eq!(attribute(&all, key).as_deref(), Some(value), "{key}");
    }
    assert!(resource(&host, &env(&[("OTEL_RESOURCE_ATTRIBUTES", "a")])).is_err());
}

/// A received request: first line, headers in lower case, body.
type Arrived = (String, String, Vec<u8>);

/// A collector that responds with `answers`, one per request, then with 200.
fn collector(answers: &'static [&'static str]) -> (u16, mpsc::Receiver<Arrived>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut answers = answers.iter();
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let answer = answers.next().copied().unwrap_or("200 OK\r\nContent-Length: 0");
            if sender.send(converse(stream, answer)).is_err() {
                return;
            }
        }
    });
    (port, receiver)
}

fn converse(stream: TcpStream, answer: &str) -> Arrived {
    let mut reader = BufReader::new(stream);
    let (mut line, mut head) = (String::new(), String::new());
    reader.read_line(&mut line).unwrap();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).unwrap();
    }
    let head = head.to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let mut stream = reader.into_inner();
    let (answer, content) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let answer = format!("HTTP/1.1 {answer}\r\nConnection: close\r\n\r\n{content}");
    stream.write_all(answer.as_bytes()).unwrap();
    (line.trim().to_owned(), head, body)
}

fn pusher(port: u16, gzip: bool) -> Pusher {
    let target = |signal: Signal| Target {
        signal,
        url: format!("http://127.0.0.1:{port}/v1/{}", signal.name()),
        headers: vec![("x-key".parse().unwrap(), "secret".parse().unwrap())],
        gzip,
        timeout: Duration::from_secs(5),
        certificates: Certificates::default(),
    };
    Pusher::start(vec![target(Signal::Metrics)]).unwrap()
}

fn metrics(body: &[u8]) -> Requests {
    Requests { metrics: body.to_vec(), ..Requests::default() }
}

const PATIENCE: Duration = Duration::from_secs(20);

fn until(pusher: &Pusher, done: impl Fn(&Tally) -> bool) -> Tally {
    let late = Instant::now() + PATIENCE;
    loop {
        let tally = pusher.tallies()[0].1;
        if done(&tally) {
            return tally;
        }
        assert!(Instant::now() < late, "{tally:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn requests_that_a_collector_cannot_take_now_are_retried_in_order() {
    let (port, arrived) = collector(&[
        "503 Unavailable\r\nRetry-After: 1\r\nContent-Length: 0",
        "429 Slow down\r\nRetry-After: 0\r\nContent-Length: 0",
    ]);
    let pusher = pusher(port, false);
    let began = Instant::now();
    pusher.push(metrics(b"one"));
    pusher.push(metrics(b"two"));
    let bodies: Vec<_> = (0..4).map(|_| arrived.recv_timeout(PATIENCE).unwrap()).collect();
    assert!(began.elapsed() >= Duration::from_secs(1), "Retry-After is waited for");
    let (line, head, _) = &bodies[0];
    assert_eq!(line, "POST /v1/metrics HTTP/1.1");
    assert!(
        head.contains("content-type: application/x-protobuf") && head.contains("x-key: secret"),
        "{head}"
    );
    assert!(!head.contains("content-encoding"), "{head}");
    let bodies: Vec<&[u8]> = bodies.iter().map(|(_, _, body)| &body[..]).collect();
    assert_eq!(bodies, [b"one", b"one", b"one", b"two"]);
    let tally = until(&pusher, |tally| tally.sent == 2);
    assert_eq!(tally, Tally { sent: 2, retried: 2, ..Tally::default() });
    pusher.finish();
}

#[test]
fn refused_requests_are_not_retried_and_rejected_points_are_counted() {
    // A partial success: field 1 with 3 rejected points and the message "no".
    let (port, arrived) = collector(&[
        "400 Bad\r\nContent-Length: 0",
        "200 OK\r\nContent-Length: 8\r\n\r\n\x0a\x06\x08\x03\x12\x02no",
    ]);
    let pusher = pusher(port, true);
    pusher.push(metrics(b"one"));
    pusher.push(metrics(&b"two".repeat(1_000)));
    let _first = arrived.recv_timeout(PATIENCE).unwrap();
    let (_, head, body) = arrived.recv_timeout(PATIENCE).unwrap();
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
    assert_eq!(plain, b"two".repeat(1_000));
    let tally = until(&pusher, |tally| tally.sent == 1);
    assert_eq!(tally, Tally { sent: 1, refused: 1, rejected_points: 3, ..Tally::default() });
    pusher.finish();
}

#[test]
fn a_collector_that_is_away_costs_the_oldest_and_no_time() {
    // A port without a listener.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let pusher = pusher(port, false);
    let began = Instant::now();
    for number in 0..1_000u32 {
        pusher.push(metrics(&number.to_be_bytes()));
    }
    assert!(began.elapsed() < Duration::from_secs(2), "a push waits: {:?}", began.elapsed());
    let tally = until(&pusher, |tally| tally.dropped >= 1_000 - queue::MOST as u64 - 1);
    assert!(tally.dropped <= 1_000 - queue::MOST as u64 && tally.sent == 0, "{tally:?}");
    // The collector returns: the newest requests arrive, in order.
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let (stream, _) = listener.accept().unwrap();
    let (_, _, body) = converse(stream, "200 OK\r\nContent-Length: 0");
    let (stream, _) = listener.accept().unwrap();
    let (_, _, next) = converse(stream, "200 OK\r\nContent-Length: 0");
    let number = |body: &[u8]| u32::from_be_bytes(body.try_into().unwrap());
    assert_eq!(u64::from(number(&body)), tally.dropped);
    assert_eq!(number(&next), number(&body) + 1);
    drop(listener);
    let began = Instant::now();
    pusher.finish();
    assert!(began.elapsed() < Duration::from_secs(7), "the end waits: {:?}", began.elapsed());
}
