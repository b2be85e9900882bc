//! `rocescope export` in use: a real Prometheus scrapes it, independent parsers read it, and nothing stays behind
//! after it ends.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod agent;
mod attach;
mod clock;
mod cost;
mod dashboard;
mod end_to_end;
mod otlp;
mod scrapers;
mod web_config;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rocescope::host::net::netns::NetNs;
use rocescope::host::net::veth;
use rocescope_tests::craft::{self, Mac, Net, Transport};
use rocescope_tests::killed::Killed;
use rocescope_tests::live::attached::Hooks;
use rocescope_tests::live::program::{PATIENCE, Program, Start};
use rocescope_tests::live::wire::World;
use rocescope_tests::live::{frames, root_or_skip};
use rocescope_tests::needs_root;
use rocescope_tests::oracle::binary;
use rocescope_tests::packages::{program_or_skip, python_or_skip};
use rustix::process::Signal;
use serde_json::Value;

const METRICS: &str = "127.0.0.1:14791";
const PROMETHEUS: &str = "127.0.0.1:9090";
const PACKAGE: &str = "prometheus";
/// Debian's parsers of both formats, including the type of a family without `# TYPE`.
const PARSE: &str = "\
import sys
from prometheus_client import parser
from prometheus_client.openmetrics import parser as open_parser
which = open_parser if sys.argv[1] == 'openmetrics' else parser
families = list(which.text_string_to_metric_families(sys.stdin.read()))
assert families and all(family.type != 'unknown' for family in families), families
print(sum(len(family.samples) for family in families))
";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/export").join(name)
}

/// Runs a program with this standard input.
fn piped(command: &mut Command, input: &[u8]) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// Two independent parsers accept an exposition in both formats. False if they are not installed.
fn accepted(caller: &str, text: &str, open_metrics: &str) -> bool {
    let Some(promtool) = program_or_skip(caller, PACKAGE, "promtool") else { return false };
    let Some(mut python) = python_or_skip(caller, "python3-prometheus-client", "prometheus_client") else {
        return false;
    };
    let checked = piped(Command::new(promtool).args(["check", "metrics"]), text.as_bytes());
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}\n{text}");
    python.args(["-c", PARSE]);
    let mut samples = Vec::new();
    for (format, text) in [("text", text), ("openmetrics", open_metrics)] {
        let mut command = Command::new("python3");
        command.envs(python.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let parsed = piped(command.args(python.get_args()).arg(format), text.as_bytes());
        assert!(parsed.status.success(), "{format}: {}", String::from_utf8_lossy(&parsed.stderr));
        let count: usize = String::from_utf8(parsed.stdout).unwrap().trim().parse().unwrap();
        assert_eq!(count, text.lines().filter(|line| !line.starts_with('#')).count(), "{format}");
        samples.push(count);
    }
    assert_eq!(samples[0], samples[1]);
    true
}

#[test]
fn parsers_of_others_accept_every_metric() {
    let [text, open] =
        ["every.prom", "every.openmetrics"].map(|name| std::fs::read_to_string(data(name)).unwrap());
    accepted("parsers_of_others_accept_every_metric", &text, &open);
}

#[test]
fn alerts_fire_on_what_they_are_for() {
    let Some(promtool) = program_or_skip("alerts_fire_on_what_they_are_for", PACKAGE, "promtool") else {
        return;
    };
    let alerts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/alerts.yml");
    let tests = data("alerts_test.yml");
    for (what, file) in [("check", &alerts), ("test", &tests)] {
        let output = Command::new(&promtool).args([what, "rules"]).arg(file).output().unwrap();
        assert!(output.status.success(), "{what}: {output:?}");
    }
    // Every alert has a test.
    let (alerts, tests) = (std::fs::read_to_string(alerts).unwrap(), std::fs::read_to_string(tests).unwrap());
    for name in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tests.contains(&format!("alertname: {name}\n")), "{name} has no test");
    }
}

/// A response: status, headers, body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// Sends a request on `stream` and reads the response.
fn ask(mut stream: impl std::io::Read + std::io::Write, request: &str) -> std::io::Result<Answer> {
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}

/// GET in a namespace; `accept` is a header line or empty.
fn get(netns: &NetNs, address: &str, path: &str, accept: &str) -> std::io::Result<Answer> {
    let to: SocketAddr = address.parse().unwrap();
    let stream = netns.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    ask(stream, &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n{accept}\r\n"))
}

/// Waits until `done` returns a value.
fn until<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let late = Instant::now() + PATIENCE;
    loop {
        if let Some(done) = done() {
            return done;
        }
        assert!(Instant::now() < late, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(30));
    }
}

fn exporting(world: &World, arguments: &[&str]) -> Program {
    let start = Start { netns: Some(&world.near), ..Start::default() };
    let interval: &[&str] = if arguments.contains(&"--interval") { &[] } else { &["--interval", "200ms"] };
    Program::watching(start, &[&["export", "-i", "near0"], interval, arguments].concat()).unwrap()
}

fn until_ready(world: &World) {
    until("/readyz", || get(&world.near, METRICS, "/readyz", "").ok().filter(|answer| answer.status == 200));
}

fn world() -> (World, rocescope_tests::live::wire::Link) {
    let (world, link) = World::with_link(1500).unwrap();
    world.near.run(|| veth::set_up(veth::index_of("lo").unwrap())).unwrap().unwrap();
    (world, link)
}

/// Requests with gaps, CE marks, NAKs and CNPs, in both directions.
fn traffic() -> Vec<Vec<u8>> {
    let mut all = frames::sends(20, 40);
    for psn in (0..60u32).filter(|psn| psn % 9 != 4) {
        let there = Net::v4([10, 7, 0, 2], [10, 7, 0, 1]).tos(if psn % 5 == 0 { 3 } else { 2 });
        let back = Net::v4([10, 7, 0, 1], [10, 7, 0, 2]).tos(2);
        let send = Transport { ack_req: true, ..Transport::new(0x04, 0x31, psn).payload(vec![2; 300]) };
        let syndrome = if psn % 9 == 5 { 0x60 } else { 0x1F };
        for packet in [
            there.roce(51_000, &send),
            back.roce(51_000, &Transport::ack(0x32, psn, syndrome, 0)),
            back.roce(51_000, &Transport::cnp(0x32)),
        ] {
            all.push(craft::ethernet(Mac::SRC, Mac::DST, &packet));
        }
    }
    all
}

/// A running Prometheus, killed when dropped.
struct Prometheus {
    _child: Killed,
    /// Its data folder.
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn start(netns: &NetNs, program: &Path) -> Self {
        let job = format!("{{job_name: rocescope, static_configs: [{{targets: ['{METRICS}']}}]}}");
        Self::scraping(netns, program, "300ms", &job)
    }

    fn scraping(netns: &NetNs, program: &Path, interval: &str, jobs: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "global: {{scrape_interval: {interval}, scrape_timeout: {interval}}}\nscrape_configs: [{jobs}]\n"
        );
        std::fs::write(folder.path().join("prometheus.yml"), config).unwrap();
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .args([&format!("--web.listen-address={PROMETHEUS}"), "--log.level=error"])
            .current_dir(folder.path())
            .stdin(Stdio::null());
        Self { _child: Killed(netns.run(|| command.spawn()).unwrap().unwrap()), _folder: folder }
    }

    /// The latest values of a query, by link and direction.
    fn query(netns: &NetNs, query: &str) -> Option<BTreeMap<(String, String), f64>> {
        let values = Self::values(netns, query, ["link", "direction"])?;
        Some(values.into_iter().map(|([link, direction], value)| ((link, direction), value)).collect())
    }

    /// The latest values of a query, by some of their labels.
    fn values<const N: usize>(
        netns: &NetNs,
        query: &str,
        labels: [&str; N],
    ) -> Option<BTreeMap<[String; N], f64>> {
        let path = format!("/api/v1/query?query={query}");
        let answer = get(netns, PROMETHEUS, &path, "").ok().filter(|answer| answer.status == 200)?;
        let json: Value = serde_json::from_str(&answer.body).ok()?;
        let rows = json["data"]["result"].as_array()?.iter().map(|row| {
            let label = |name: &str| row["metric"][name].as_str().unwrap_or_default().to_owned();
            (labels.map(label), row["value"][1].as_str().unwrap().parse().unwrap())
        });
        Some(rows.collect())
    }
}

/// Sums of the report by link.
fn sums(report: &Value, of: impl Fn(&Value) -> u64) -> BTreeMap<(String, String), f64> {
    let mut sums = BTreeMap::new();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    for link in report["links"].as_array().unwrap() {
        let id = (text(&link["name"]), text(&link["direction"]));
        let own = |flow: &&Value| flow["link"] == link["name"] && flow["direction"] == link["direction"];
        let flows = report["flows"].as_array().unwrap().iter().filter(own);
        sums.insert(id, flows.map(&of).sum::<u64>() as f64);
    }
    sums
}

#[test]
fn prometheus_has_the_figures_of_the_report() {
    const TEST: &str = "prometheus_has_the_figures_of_the_report";
    if !root_or_skip(TEST) {
        return;
    }
    let Some(prometheus) = program_or_skip(TEST, PACKAGE, "prometheus") else { return };
    let (world, mut link) = world();
    let export = exporting(&world, &["--per-qp", "4"]);
    let live = Program::live(&world.near, &["-i", "near0", "--output", "json"]).unwrap();
    let server = Prometheus::start(&world.near, &prometheus);
    let frames = traffic();
    link.receive(&frames).unwrap();
    link.transmit(&frames).unwrap();
    let report = live.interrupt().unwrap().report().unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    assert_eq!(number(&report["totals"]["roce_packets"]), 2 * frames.len() as u64);
    let naks = |flow: &Value| number(&flow["ack"]["naks"]["psn_sequence_error"]);
    assert_eq!(sums(&report, naks).into_values().collect::<Vec<_>>(), [7.0, 7.0]);
    let sum_by = |metric: &str| format!("sum+by+(link,direction)({metric})");
    for (query, expected) in [
        ("rocescope_link_packets_total".to_owned(), sums(&report, |flow| number(&flow["packets"]))),
        ("rocescope_link_bytes_total".to_owned(), sums(&report, |flow| number(&flow["bytes"]))),
        (sum_by("rocescope_peer_bytes_total"), sums(&report, |flow| number(&flow["bytes"]))),
        (
            "rocescope_link_ce_marked_packets_total".to_owned(),
            sums(&report, |flow| number(&flow["ecn"]["ce"])),
        ),
        ("rocescope_link_cnp_packets_total".to_owned(), sums(&report, |flow| number(&flow["cnp_packets"]))),
        ("rocescope_link_nak_packets_total{code='psn_sequence_error'}".to_owned(), sums(&report, naks)),
    ] {
        let mut last = None;
        let late = Instant::now() + PATIENCE;
        while last.as_ref() != Some(&expected) {
            assert!(Instant::now() < late, "{query}: {last:?} instead of {expected:?}");
            std::thread::sleep(Duration::from_millis(50));
            last = Prometheus::query(&world.near, &query);
        }
    }
    let qps = Prometheus::query(&world.near, "count(rocescope_qp_packets_total)").unwrap();
    assert_eq!(qps.into_values().collect::<Vec<_>>(), [4.0]);
    // The sandbox leaves the process its own descriptors: a flow table alone takes megabytes.
    let memory = Prometheus::query(&world.near, "rocescope_bpf_memory_bytes").unwrap();
    assert!(memory.values().any(|bytes| *bytes > 1e6), "{memory:?}");
    let up = Prometheus::query(&world.near, "up{job='rocescope'}").unwrap();
    assert_eq!(up.into_values().collect::<Vec<_>>(), [1.0]);
    drop(server);

    // Other parsers accept what it scraped.
    let text = get(&world.near, METRICS, "/metrics", "").unwrap();
    assert!(text.head.contains("Content-Type: text/plain; version=0.0.4"), "{}", text.head);
    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    let open = get(&world.near, METRICS, "/metrics", accept).unwrap();
    assert!(open.head.contains("Content-Type: application/openmetrics-text; version=1.0.0"), "{}", open.head);
    accepted(TEST, &text.body, &open.body);
    assert_eq!(export.interrupt().unwrap().status.code(), Some(0));
}

#[test]
fn it_ends_cleanly_and_leaves_nothing() {
    needs_root!();
    let (world, mut link) = world();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (socket, textfile) = (file("m.sock"), file("rocescope.prom"));
    let unix = format!("unix:{}", socket.display());
    let arguments = ["--listen", METRICS, "--listen", &unix, "--textfile", textfile.to_str().unwrap()];

    let program = exporting(&world, &arguments);
    until_ready(&world);
    link.receive(&frames::sends(3, 10)).unwrap();
    let text = until("the text file", || {
        let text = std::fs::read_to_string(&textfile).ok()?;
        text.contains("rocescope_link_packets_total{link=\"near0\",direction=\"ingress\"} 30\n")
            .then_some(text)
    });
    accepted(
        "it_ends_cleanly_and_leaves_nothing",
        &text,
        &get(&world.near, METRICS, "/metrics", "Accept: application/openmetrics-text\r\n").unwrap().body,
    );
    let answer = ask(UnixStream::connect(&socket).unwrap(), "GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!((answer.status, answer.body.contains("rocescope_build_info{")), (200, true));
    // A second process attaches nothing before it finds the address in use.
    let start = Start { netns: Some(&world.near), ..Start::default() };
    let second = Program::run(start, &["export", "-i", "near0", "--listen", METRICS]).unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = format!(
        "cannot listen on http://{METRICS}/metrics: another process listens on it; choose another --listen"
    );
    assert!(second.err.contains(&said), "{}", second.err);
    program.signal(Signal::TERM).unwrap();
    let ended = program.end().unwrap();
    assert_eq!((ended.status.code(), ended.out.as_str()), (Some(0), ""), "{ended:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "socket and file are removed");
    Hooks::until_gone(&world, &mut link).unwrap();

    let killed = exporting(&world, &arguments);
    until_ready(&world);
    killed.signal(Signal::KILL).unwrap();
    killed.end().unwrap();
    Hooks::until_gone(&world, &mut link).unwrap();
    // The next process takes over the socket.
    assert!(socket.exists());
    let next = exporting(&world, &arguments);
    until_ready(&world);
    assert_eq!(next.interrupt().unwrap().status.code(), Some(0));
    assert!(!socket.exists());
    Hooks::until_gone(&world, &mut link).unwrap();
}

#[test]
fn it_listens_where_it_is_asked_to_and_on_nothing_else() {
    needs_root!();
    let (world, _link) = world();
    let said = |arguments: &[&str]| exporting(&world, arguments).interrupt().unwrap().err;
    assert!(said(&[]).contains(&format!("metrics at http://{METRICS}/metrics\n")));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.prom");
    assert!(!said(&["--textfile", file.to_str().unwrap()]).contains("metrics at"));
    let remote = said(&["--listen", "0.0.0.0:0"]);
    assert!(remote.contains("other hosts can read the metrics"), "{remote}");
    for address in ["14791", "localhost:1", "unix:relative"] {
        let start = Start { netns: Some(&world.near), ..Start::default() };
        assert_eq!(Program::run(start, &["export", "--listen", address]).unwrap().status.code(), Some(2));
    }
}

#[test]
fn it_uses_the_sockets_of_systemd() {
    needs_root!();
    let (world, mut link) = world();
    let listener = world.near.run(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap().unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // As systemd does: the socket is file descriptor 3, and the variables name this process.
    let script = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" export -i near0 --interval 200ms 3<&0 </dev/null";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(binary::path().unwrap());
    command.stdin(Stdio::from(OwnedFd::from(listener))).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = world.near.run(|| command.spawn()).unwrap().unwrap();
    until("a scrape", || {
        get(&world.near, &address, "/metrics", "").ok().filter(|answer| answer.status == 200)
    });
    assert!(get(&world.near, METRICS, "/healthz", "").is_err(), "the default address is not used");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
    assert!(said.contains(&format!("metrics at http://{address}/metrics\n")), "{said}");
    Hooks::until_gone(&world, &mut link).unwrap();
}

/// For docs/performance.md: `--ignored --nocapture`, best of a release build.
#[test]
#[ignore = "a measurement"]
fn time_of_a_scrape_at_400_flows() {
    let (world, mut link) = world();
    let export = exporting(&world, &["--interval", "1s"]);
    link.receive(&frames::sends(200, 5)).unwrap();
    link.transmit(&frames::sends(200, 5)).unwrap();
    let body = until("all flows", || {
        let answer = get(&world.near, METRICS, "/metrics", "").ok()?;
        answer.body.contains("\nrocescope_flows 400\n").then_some(answer.body)
    });
    let cpu = || -> f64 {
        let body = get(&world.near, METRICS, "/metrics", "").unwrap().body;
        let used = body.lines().find(|row| row.starts_with("rocescope_process_cpu_seconds_total "));
        used.unwrap().rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    let mut times: Vec<Duration> = (0..500)
        .map(|_| {
            let start = Instant::now();
            assert_eq!(get(&world.near, METRICS, "/metrics", "").unwrap().status, 200);
            start.elapsed()
        })
        .collect();
    times.sort();
    let (before, start) = (cpu(), Instant::now());
    std::thread::sleep(Duration::from_secs(10));
    let share = (cpu() - before) / start.elapsed().as_secs_f64();
    println!(
        "{} bytes: {:?} median, {:?} 99th percentile; {:.2} % of a core with --interval 1s",
        body.len(),
        times[250],
        times[495],
        share * 100.0
    );
    drop(export);
}
