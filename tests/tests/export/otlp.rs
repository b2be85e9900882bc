//! OTLP as received by a collector, decoded by a wire format decoder that knows only field numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rocescope_tests::killed::Killed;
use rocescope_tests::live::program::{Ended, PATIENCE, Program, Start};
use rocescope_tests::live::wire::Link;
use rocescope_tests::live::{frames, root_or_skip};
use rocescope_tests::needs_root;
use rocescope_tests::packages::collector_or_skip;
use serde_json::Value;

use super::{World, data, exporting, sums, traffic, until, world};

pub(super) const COLLECTOR: &str = "127.0.0.1:4318";

/// A field of a message.
#[derive(Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in order: numbers and contents.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (number, rest) = bytes.split_at(8);
                bytes = rest;
                Field::Number(u64::from_le_bytes(number.try_into().unwrap()))
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(content)
            }
            other => panic!("wire type {other}"),
        };
        all.push((tag >> 3, field));
    }
    all
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        number |= u64::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            return number;
        }
        shift += 7;
    }
}

/// All messages at a path of field numbers.
fn at<'a>(bytes: &'a [u8], path: &[u64]) -> Vec<&'a [u8]> {
    let Some((first, rest)) = path.split_first() else { return vec![bytes] };
    let own = fields(bytes).into_iter().filter(|(number, _)| number == first);
    let messages = own.filter_map(|(_, field)| match field {
        Field::Bytes(content) => Some(content),
        Field::Number(_) => None,
    });
    messages.flat_map(|content| at(content, rest)).collect()
}

fn text(bytes: &[u8], path: &[u64]) -> String {
    at(bytes, path).first().map(|text| String::from_utf8(text.to_vec()).unwrap()).unwrap_or_default()
}

fn number(bytes: &[u8], wanted: u64) -> Option<u64> {
    fields(bytes).into_iter().find_map(|(number, field)| match field {
        Field::Number(content) if number == wanted => Some(content),
        _ => None,
    })
}

/// Text attributes in field `field`, by name.
fn attributes(bytes: &[u8], field: u64) -> BTreeMap<String, String> {
    at(bytes, &[field]).into_iter().map(|one| (text(one, &[1]), text(one, &[2, 1]))).collect()
}

/// Integer values of a sum, by link and direction in the report's words.
pub(super) fn by_link(request: &[u8], metric: &str, code: Option<&str>) -> BTreeMap<(String, String), f64> {
    let mut all = BTreeMap::new();
    for one in at(request, &[1, 2, 2]).into_iter().filter(|one| text(one, &[1]) == metric) {
        let sum = at(one, &[7])[0];
        assert_eq!((number(sum, 2), number(sum, 3)), (Some(2), Some(1)), "cumulative and monotonic");
        for point in at(sum, &[1]) {
            let labels = attributes(point, 7);
            if code.is_some_and(|code| labels["code"] != code) {
                continue;
            }
            let (start, time) = (number(point, 2).unwrap(), number(point, 3).unwrap());
            assert!(start > 1_500_000_000_000_000_000 && start < time, "{start} {time}");
            let direction = match labels["network.io.direction"].as_str() {
                "receive" => "ingress",
                "transmit" => "egress",
                other => other,
            };
            let link = (labels["network.interface.name"].clone(), direction.to_owned());
            all.insert(link, number(point, 6).unwrap() as f64);
        }
    }
    all
}

/// Path and body of a request.
pub(super) type Arrived = (String, Vec<u8>);

/// Responds with 503 if `busy`, else with 200.
fn converse(stream: TcpStream, busy: bool) -> Arrived {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    assert!(head.to_lowercase().contains("content-type: application/x-protobuf"), "{head}");
    let length =
        head.lines().find_map(|line| Some(line.to_lowercase().strip_prefix("content-length: ")?.to_owned()));
    let mut body = vec![0; length.unwrap().trim().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    if head.to_lowercase().contains("content-encoding: gzip") {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
        body = plain;
    }
    let status = if busy { "503 Service Unavailable\r\nRetry-After: 0" } else { "200 OK" };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    reader.into_inner().write_all(answer.as_bytes()).unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), body)
}

/// A collector that is overloaded at first.
pub(super) fn collector(listener: TcpListener) -> mpsc::Receiver<Arrived> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(stream) = stream else { return };
            let busy = number == 0;
            let arrived = converse(stream, busy);
            if !busy && sender.send(arrived).is_err() {
                return;
            }
        }
    });
    receiver
}

/// A host with a collector at [`COLLECTOR`], and the requests received there.
fn collected() -> (World, Link, mpsc::Receiver<Arrived>) {
    let (world, link) = world();
    let listener = world.near.run(|| TcpListener::bind(COLLECTOR)).unwrap().unwrap();
    (world, link, collector(listener))
}

/// Exports to `url` with this environment, compares the requests received at [`COLLECTOR`] with the report, and
/// returns the messages at the end.
fn figures_and_findings_arrive(
    (world, link): (&World, &mut Link),
    url: &str,
    variables: &[(&str, &str)],
    arrived: &mpsc::Receiver<Arrived>,
) -> Ended {
    let start = Start { netns: Some(&world.near), variables, ..Start::default() };
    let arguments = ["export", "-i", "near0", "--interval", "200ms", "--otlp", url];
    let export = Program::watching(start, &arguments).unwrap();
    let live = Program::live(&world.near, &["-i", "near0", "--output", "json"]).unwrap();
    let sent = traffic();
    link.receive(&sent).unwrap();
    link.transmit(&sent).unwrap();
    let report = live.interrupt().unwrap().report().unwrap();
    let count = |value: &Value| value.as_u64().unwrap();
    let expected = [
        ("rocescope.link.packets", None, sums(&report, |flow| count(&flow["packets"]))),
        ("rocescope.link.bytes", None, sums(&report, |flow| count(&flow["bytes"]))),
        ("rocescope.link.ce_marked_packets", None, sums(&report, |flow| count(&flow["ecn"]["ce"]))),
        ("rocescope.link.cnp_packets", None, sums(&report, |flow| count(&flow["cnp_packets"]))),
        (
            "rocescope.link.nak_packets",
            Some("psn_sequence_error"),
            sums(&report, |flow| count(&flow["ack"]["naks"]["psn_sequence_error"])),
        ),
    ];
    let wanted: BTreeSet<String> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["active"] == true && finding["severity"] != "info")
        .map(|finding| finding["id"].as_str().unwrap().to_owned())
        .collect();
    assert!(!wanted.is_empty(), "{}", report["findings"]);
    let (mut found, mut equal) = (BTreeSet::new(), false);
    until("equal figures, and all findings", || {
        let (path, body) = arrived.recv_timeout(Duration::from_secs(10)).unwrap();
        if path == "/v1/logs" {
            for record in at(&body, &[1, 2, 2]) {
                let labels = attributes(record, 6);
                assert_eq!(
                    (text(record, &[12]).as_str(), text(record, &[5, 1]).is_empty()),
                    ("rocescope.finding", false)
                );
                found.insert(labels["rocescope.finding.id"].clone());
            }
        } else {
            assert_eq!(path, "/v1/metrics");
            let resource = attributes(at(&body, &[1, 1])[0], 1);
            assert_eq!(resource["service.name"], "rocescope");
            let is = |(metric, code, sums): &(&str, Option<&str>, BTreeMap<_, f64>)| {
                by_link(&body, metric, *code) == *sums
            };
            equal = expected.iter().all(is);
        }
        (equal && wanted.is_subset(&found)).then_some(())
    });
    let ended = export.interrupt().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    assert!(!ended.err.contains("not delivered") && !ended.err.contains("metrics at"), "{}", ended.err);
    ended
}

#[test]
fn a_collector_has_the_figures_and_findings_of_the_report() {
    needs_root!();
    let (world, mut link, arrived) = collected();
    let ended =
        figures_and_findings_arrive((&world, &mut link), &format!("http://{COLLECTOR}"), &[], &arrived);
    assert!(ended.err.contains("503") && ended.err.contains("are sent to http://"), "{}", ended.err);
}

fn beside(world: &World, command: &mut Command, address: &str) -> Killed {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let beside = Killed(world.near.run(|| command.spawn()).unwrap().unwrap());
    until(address, || world.near.run(|| TcpStream::connect(address)).unwrap().ok());
    beside
}

#[test]
fn a_collector_of_others_passes_on_the_figures_and_findings_of_the_report() {
    const TEST: &str = "a_collector_of_others_passes_on_the_figures_and_findings_of_the_report";
    const RECEIVER: &str = "127.0.0.1:14318";
    if !root_or_skip(TEST) {
        return;
    }
    let Some(program) = collector_or_skip(TEST) else { return };
    let (world, mut link, arrived) = collected();
    let mut command = Command::new(program);
    command.args(["start", "--otlp-grpc-endpoint", "127.0.0.1:14317", "--otlp-http-endpoint", RECEIVER]);
    command.args(["--exporter", "otlp", "--otlp-exporter-protocol", "http"]);
    command.arg("--otlp-exporter-endpoint").arg(format!("http://{COLLECTOR}"));
    let _collector = beside(&world, &mut command, RECEIVER);
    figures_and_findings_arrive((&world, &mut link), &format!("http://{RECEIVER}"), &[], &arrived);
}

/// Accepts TLS connections from clients with a certificate only, and forwards them as plain text, using OpenSSL.
const TERMINATOR: &str = "
import select, socket, ssl, sys, threading
server, key, authority, port, to = sys.argv[1:]
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
context.load_cert_chain(server, key)
context.verify_mode = ssl.CERT_REQUIRED
def serve(connection):
    try:
        near = context.wrap_socket(connection, server_side=True)
        far = socket.create_connection(('127.0.0.1', int(to)))
        while True:
            ready = [near] if near.pending() else select.select([near, far], [], [])[0]
            for source in ready:
                data = source.recv(65536)
                if not data:
                    return near.close(), far.close()
                (far if source is near else near).sendall(data)
    except OSError:
        connection.close()
listener = socket.create_server(('127.0.0.1', int(port)))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
";

#[test]
fn a_collector_behind_tls_has_them_where_both_sides_show_a_certificate() {
    needs_root!();
    let (world, mut link, arrived) = collected();
    let tls = |name: &str| data("tls").join(name).display().to_string();
    let (authority, certificate, key) = (tls("authority.pem"), tls("client.pem"), tls("client.key"));
    let mut command = Command::new("python3");
    command.args(["-c", TERMINATOR, &tls("server.pem"), &tls("server.key"), &authority, "4319", "4318"]);
    let _terminator = beside(&world, &mut command, "127.0.0.1:4319");
    let url = "https://localhost:4319";
    let authorities = ("OTEL_EXPORTER_OTLP_CERTIFICATE", authority.as_str());
    let own = [
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", certificate.as_str()),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", key.as_str()),
    ];
    let complete = [&own[..], &[authorities]].concat();
    figures_and_findings_arrive((&world, &mut link), url, &complete, &arrived);

    // Without the authority the server is not trusted; without a certificate the client is rejected.
    let without = |variables: &[(&str, &str)]| {
        let start = Start { netns: Some(&world.near), variables, ..Start::default() };
        let arguments = ["export", "-i", "near0", "--interval", "200ms", "--otlp", url];
        let export = Program::watching(start, &arguments).unwrap();
        export.wait_for_message(|err| err.contains("cannot send metrics").then_some(())).unwrap();
        export.interrupt().unwrap().err
    };
    let err = without(&[&own[..], &[("SSL_CERT_FILE", &certificate)]].concat());
    assert!(err.contains("no authority that is trusted here has signed"), "{err}");
    // In TLS 1.3 the server's rejection may arrive after the client's data, or be lost with the connection.
    let err = without(&[authorities]);
    assert!(err.contains("were not delivered before the end"), "{err}");
    let start = Start { netns: Some(&world.near), variables: &own[..1], ..Start::default() };
    let refused = Program::run(start, &["export", "-i", "near0", "--otlp", url]).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.err.contains("OTEL_EXPORTER_OTLP_CLIENT_KEY belong together"), "{}", refused.err);
}

#[test]
fn a_collector_that_is_away_disturbs_nothing_and_loss_is_reported() {
    needs_root!();
    let (world, mut link) = world();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.prom");
    let url = format!("http://{COLLECTOR}");
    let export = exporting(&world, &["--otlp", &url, "--textfile", file.to_str().unwrap()]);
    link.receive(&frames::sends(3, 10)).unwrap();
    until("the text file", || {
        let text = std::fs::read_to_string(&file).ok()?;
        let counted =
            text.contains("rocescope_link_packets_total{link=\"near0\",direction=\"ingress\"} 30\n");
        let retried = text.lines().find_map(|line| {
            line.strip_prefix("rocescope_otlp_requests_total{signal=\"metrics\",result=\"retried\"} ")
        });
        (counted && retried.is_some_and(|count| count != "0")).then_some(())
    });
    let ended = export.interrupt().unwrap();
    assert_eq!(ended.status.code(), Some(0));
    let said = format!("cannot send metrics to {url}/v1/metrics: Connection refused");
    assert!(ended.err.contains(&said), "{}", ended.err);
    assert!(
        ended.err.contains("OTLP requests with metrics were not delivered before the end"),
        "{}",
        ended.err
    );

    // Unsupported settings are rejected before anything is attached.
    let start = Start { netns: Some(&world.near), ..Start::default() };
    let refused = Program::run(start, &["export", "-i", "near0", "--otlp", "ftp://c:4318"]).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.err.contains("invalid URL") && !refused.err.contains("egress"), "{}", refused.err);
}
