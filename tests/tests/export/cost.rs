//! Resources that record, export and an agent with all features use on this host with 400 flows, for
//! docs/performance.md.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rocescope_tests::live::frames;
use rocescope_tests::live::program::{Program, Start};
use rocescope_tests::live::wire::{Link, World};
use rocescope_tests::load::usage;
use rocescope_tests::needs_root;
use rocescope_tests::oracle::binary;

use super::{METRICS, get, otlp, world};

/// Number of queue pairs, each with a flow in both directions.
const QPS: u32 = 200;
/// Packets per flow and second.
const EACH: u32 = 25;
/// Limits of a recording and of metrics: percent of a core, MiB (100 MB).
const LIMITS: (f64, f64) = (2.0, 95.4);
/// Limits of an agent with everything on: percent of a core, MiB (125 MB).
const AGENT_LIMITS: (f64, f64) = (4.0, 119.2);
/// Where the agent sends its recording.
const CLICK_HOUSE: &str = "127.0.0.1:18123";
/// Seconds of warm-up, and of the measurement.
const WARM_UP: u32 = 10;
const SECONDS: u32 = 60;

/// CPU time in seconds, and peak resident memory in MiB.
fn used(id: u32) -> (f64, f64) {
    let memory = binary::peak_memory(id).unwrap() as f64 / f64::from(1 << 20);
    (usage::cpu_time(id).unwrap().as_secs_f64(), memory)
}

/// Takes what is sent and answers as ClickHouse does to an insertion.
fn take(stream: TcpStream) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let begin = head.len();
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
        let line = head[begin..].to_lowercase();
        length =
            line.strip_prefix("content-length: ").map_or(length, |number| number.trim().parse().unwrap());
    }
    std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).unwrap();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    reader.into_inner().write_all(answer).unwrap();
}

/// Sends one second's packets of all flows, in order, scrapes once, and waits for the next second.
fn second(world: &World, link: &mut Link, number: u32, scrapes: bool) {
    let start = Instant::now();
    let psns = number * EACH..(number + 1) * EACH;
    let sent: Vec<Vec<u8>> =
        psns.flat_map(|psn| (0..QPS).map(move |qp| frames::send(0x100 + qp, psn))).collect();
    link.receive(&sent).unwrap();
    link.transmit(&sent).unwrap();
    if scrapes {
        let _not_ready = get(&world.near, METRICS, "/metrics", "");
    }
    std::thread::sleep(Duration::from_secs(1).saturating_sub(start.elapsed()));
}

/// Prints and returns the share of a core in percent, and the peak resident memory in MiB.
fn measure(world: &World, link: &mut Link, name: &str, program: &Program, scrapes: bool) -> (f64, f64) {
    for number in 0..WARM_UP {
        second(world, link, number, scrapes);
    }
    let (start, before) = (Instant::now(), used(program.id()).0);
    for number in WARM_UP..WARM_UP + SECONDS {
        second(world, link, number, scrapes);
    }
    let (after, mib) = used(program.id());
    let share = (after - before) / start.elapsed().as_secs_f64() * 100.0;
    println!("{name}: {share:.2} % of a core, {mib:.0} MiB at most");
    (share, mib)
}

#[test]
#[ignore = "a measurement of four minutes"]
fn cost_at_400_flows() {
    needs_root!();
    let (world, mut link) = world();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let start = || Start { netns: Some(&world.near), ..Start::default() };

    let export = Program::watching(start(), &["export", "-i", "near0", "--interval", "1s"]).unwrap();
    let of_export = measure(&world, &mut link, "export, scraped every second", &export, true);
    export.interrupt().unwrap();

    let record = Program::watching(start(), &["record", "-i", "near0", "--dir", &at("alone")]).unwrap();
    let of_record = measure(&world, &mut link, "record", &record, false);
    record.interrupt().unwrap();

    let listener = world.near.run(|| TcpListener::bind(otlp::COLLECTOR)).unwrap().unwrap();
    let _arrived = otlp::collector(listener);
    let (socket, collector) = (at("agent.sock"), format!("http://{}", otlp::COLLECTOR));
    let (unix, recording, dumps) = (format!("unix:{socket}"), at("recording"), at("dumps"));
    let listener = world.near.run(|| TcpListener::bind(CLICK_HOUSE)).unwrap().unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(take));
    let (textfile, server) = (at("rocescope.prom"), format!("http://{CLICK_HOUSE}"));
    let all = [
        &["agent", "-i", "near0", "--interval", "1s", "--listen", METRICS, "--listen", &unix][..],
        &["--record", &recording, "--keep", "10m", "--on", "*", "--dump-dir", &dumps],
        &["--otlp", &collector, "--clickhouse", &server, "--textfile", &textfile],
        &["--rollup", "10s", "--rotate", "15s", "--per-qp", "64", "--on-cmd", "/bin/true"],
    ]
    .concat();
    let agent = Program::watching(start(), &all).unwrap();
    let view = Program::start(Start::default(), &["live", "--attach", &socket, "--output", "jsonl"]).unwrap();
    let of_agent = measure(&world, &mut link, "agent with everything on, and a view", &agent, true);
    view.interrupt().unwrap();
    let ended = agent.interrupt().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    for (what, took, most) in [
        ("a recording", of_record, LIMITS),
        ("metrics", of_export, LIMITS),
        ("an agent with everything on", of_agent, AGENT_LIMITS),
    ] {
        let is_within = took.0 <= most.0 && took.1 <= most.1;
        assert!(is_within, "{what} at 400 flows took {took:?} % of a core and MiB, more than {most:?}");
    }
}
