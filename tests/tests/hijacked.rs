//! The abilities of a parser that an attacker has taken over, in every place where bytes of others are read.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rocescope_tests::live::hijack::{
    FOLDER, HIJACK, WRITES, at_liberty, done_in, hijacked, hijacked_in, nobody_came, refused, refused_in,
    victims,
};
use rocescope_tests::live::program::{PATIENCE, Program, Start};
use rocescope_tests::live::wire::World;
use rocescope_tests::live::{frames, tcp};
use rocescope_tests::load::pty::Screen;
use rocescope_tests::needs_root;
use rocescope_tests::oracle::binary;
use rocescope_tests::schema;

/// A capture of three flows.
fn capture_in(folder: &Path) -> String {
    let capture = folder.join("a.pcap").display().to_string();
    std::fs::write(&capture, frames::capture(&frames::sends(3, 5))).unwrap();
    capture
}

/// The folder of a recording of that capture.
fn recording_in(folder: &Path) -> String {
    let (capture, dir) = (capture_in(folder), folder.join("recording").display().to_string());
    let recorded = ["record", "--read", &capture, "--dir", &dir];
    assert!(Command::new(binary::path().unwrap()).args(recorded).status().unwrap().success());
    dir
}

/// A program in place of an engine.
fn engine_in(folder: &Path, script: &str) -> String {
    let engine = folder.join("duckdb");
    std::fs::write(&engine, format!("#!/bin/sh\n{script}\n")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&engine, mode).unwrap();
    engine.display().to_string()
}

#[test]
fn a_hijacked_parser_of_a_capture_can_do_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    // As tcpdump creates it, readable only for root.
    let name = &*capture_in(folder.path());
    for arguments in [&["replay", name, "--output", "json"][..], &["diff", name, name, "--output", "json"]] {
        let (output, listener) = hijacked(arguments, folder.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        refused(&said, "replay");
        schema::read(&output.stdout).unwrap();
        nobody_came(&listener);
    }
}

#[test]
fn the_same_parser_does_as_it_likes_without_the_sandbox() {
    let folder = tempfile::tempdir().unwrap();
    let capture = capture_in(folder.path());
    let (output, listener) =
        at_liberty(&["replay", &capture, "--output", "json", "--no-sandbox"], folder.path());
    let said = String::from_utf8_lossy(&output.stderr);
    // Only root may read it, so that it shows something of root alone.
    let shadow = rustix::process::geteuid().is_root() && Path::new("/etc/shadow").exists();
    let all = ["connect", "exec", "send", "write by openat2", "make a program of its user"];
    for what in all.into_iter().chain(WRITES).chain(shadow.then_some("open /etc/shadow")) {
        assert!(
            said.contains(&format!("hijack in replay: {what}: done")),
            "the attempts have no effect without a sandbox: {said}"
        );
    }
    assert!(listener.accept().is_ok());
}

#[test]
fn hijacked_parsers_of_live_can_do_nothing_else() {
    needs_root!();
    let (world, mut link) = World::with_link(1500).unwrap();
    let how = Start { netns: Some(&world.near), variables: &[(HIJACK, "127.0.0.1:9")], ..Start::default() };
    let program = Program::watching(how, &["live", "-i", "near0", "--output", "jsonl"]).unwrap();
    link.receive(&frames::sends(3, 5)).unwrap();
    program.reported(|report| report["totals"]["roce_packets"] == 15).unwrap();
    for place in ["live", "devices"] {
        let last = format!("hijack in {place}: become root");
        program.wait_for_message(|text| text.contains(&last).then_some(())).unwrap();
    }
    let ended = program.interrupt().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    refused(&ended.err, "live");
    refused(&ended.err, "devices");
}

#[test]
fn hijacked_parsers_of_what_records_and_publishes_can_do_nothing_else() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (records, agents, socket) = (path("records"), path("agents"), path("agent.sock"));
    let (textfile, listen) = (path("text/rocescope.prom"), format!("unix:{socket}"));
    let (none, writes): (&[&str], &[&str]) = (&[], &WRITES);
    for (arguments, own, places) in [
        (
            &["record", "--dir", &records, "-i", "near0"][..],
            &*records,
            &[("live", none), ("devices", none), ("recorder", writes)][..],
        ),
        // Its socket listens in the process of all threads.
        (
            &["export", "--listen", "192.0.2.1:0", "--textfile", &textfile, "-i", "near0"],
            &path("text"),
            &[("live", none), ("devices", none), ("publisher", writes)],
        ),
        (
            &["agent", "--record", &agents, "--listen", &listen, "-i", "near0"],
            &agents,
            &[("live", none), ("devices", none), ("publisher", writes), ("http", none)],
        ),
    ] {
        victims(Path::new(own));
        let (world, mut link) = World::with_link(1500).unwrap();
        let variables = &[(HIJACK, "127.0.0.1:9"), (FOLDER, own)];
        let how = Start { netns: Some(&world.near), variables, ..Start::default() };
        let program = Program::watching(how, arguments).unwrap();
        link.receive(&frames::sends(3, 5)).unwrap();
        if places.iter().any(|(place, _)| *place == "http") {
            // What it answers with is read by another parser.
            let attach = format!("--attach={socket}");
            let (output, listener) =
                hijacked(&["live", &attach, "--duration", "1s", "--output", "json"], folder.path());
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            refused(&said, "attach");
            nobody_came(&listener);
        }
        refused_in(program, places);
    }
}

#[test]
fn a_hijacked_parser_of_a_capture_that_is_recorded_can_do_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let capture = capture_in(folder.path());
    let dir = folder.path().join("recording").display().to_string();
    let arguments = ["record", "--read", &capture, "--dir", &dir];
    // Of a recording that was killed.
    let journals = folder.path().join("recording/journal");
    std::fs::create_dir_all(&journals).unwrap();
    std::fs::write(journals.join("host.1.journal"), "x").unwrap();
    let (output, listener) = hijacked_in(&arguments, folder.path(), Path::new(&dir));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(" rows recorded"), "{said}");
    refused(&said, "replay");
    done_in(&said, "journal", &WRITES);
    done_in(&said, "recorder", &WRITES);
    nobody_came(&listener);
}

#[test]
fn a_hijacked_writer_of_dumps_can_do_nothing_else() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let dumps = folder.path().join("dumps").display().to_string();
    let (world, mut link) = World::with_link(1500).unwrap();
    victims(Path::new(&dumps));
    let variables = &[(HIJACK, "127.0.0.1:9"), (FOLDER, &*dumps)];
    let how = Start { netns: Some(&world.near), variables, ..Start::default() };
    let arguments = [
        "live",
        "-i",
        "near0",
        "--output",
        "jsonl",
        "--keep",
        "1m",
        "--dump-dir",
        &dumps,
        "--max-dumps",
        "1",
    ];
    let program = Program::watching(how, &arguments).unwrap();
    link.receive(&frames::sends(3, 5)).unwrap();
    program.reported(|report| report["totals"]["roce_packets"] == 15).unwrap();
    let asked = Command::new("kill").args(["-USR1", &program.id().to_string()]).status().unwrap();
    assert!(asked.success());
    program.wait_for_message(|text| text.contains("dump written to ").then_some(())).unwrap();
    // What reads the host for doctor's page may read all of it, and do nothing else.
    let mut reads = vec!["open /etc/shadow"];
    // Some hosts keep root from the memory of their first process.
    reads.extend(std::fs::File::open("/proc/1/mem").is_ok().then_some("read memory"));
    refused_in(program, &[("dump", &WRITES), ("facts", &reads)]);
    let mut made = std::fs::read_dir(&dumps).unwrap().map(|entry| entry.unwrap().path());
    let dump = made.find(|path| path.is_dir()).unwrap();
    for name in ["why.json", "report.json", "report.html", "doctor.json"] {
        assert!(dump.join(name).is_file(), "{name} in {}", dump.display());
    }
}

#[test]
fn a_hijacked_parser_of_an_engines_answer_can_do_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let dir = recording_in(folder.path());
    let engine = engine_in(folder.path(), "cat >/dev/null\necho '[]'");
    // A server that gives every question an answer without rows.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/fleet", server.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            // The request fits into one segment of the loopback.
            let _ = stream.read(&mut vec![0; 65_536]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        }
    });
    let local = ["fleet", "slow", &dir, "--engine", &engine];
    // The page is written to the folder of the attempts.
    let out = ["--out", "page.txt"];
    for arguments in [
        &local[..],
        &["fleet", "slow", &url],
        &[local.as_slice(), &out].concat(),
        &["fleet", "slow", &url, "--out", "page.txt"],
    ] {
        let (output, listener) = hijacked(arguments, folder.path());
        let said = String::from_utf8_lossy(&output.stderr);
        refused(&said, "fleet");
        assert!(said.contains("the engine gave no result"), "{said}");
        nobody_came(&listener);
    }
}

#[test]
fn a_hijacked_parser_of_a_damaged_file_of_a_recording_can_do_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let dir = recording_in(folder.path());
    let engine =
        engine_in(folder.path(), "echo 'Invalid Input Error: no magic bytes in a.parquet' >&2\nexit 1");
    let arguments = ["fleet", "slow", &dir, "--engine", &engine];
    let (output, listener) = hijacked_in(&arguments, folder.path(), Path::new(&dir));
    let said = String::from_utf8_lossy(&output.stderr);
    refused(&said, "damaged");
    assert!(said.contains("no magic bytes"), "{said}");
    nobody_came(&listener);
}

#[test]
fn a_hijacked_parser_of_lldp_can_do_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let of = format!("lo={}", capture_in(folder.path()));
    let (output, listener) = hijacked(&["doctor", "--lldp-capture", &of], folder.path());
    let said = String::from_utf8_lossy(&output.stderr);
    refused(&said, "lldp");
    assert!(said.contains("has no LLDP frame"), "{said}");
    nobody_came(&listener);
}

/// Answers every request without a body, until the test ends.
fn empty_answers(server: TcpListener) {
    std::thread::spawn(move || {
        for stream in server.incoming() {
            answer(&mut stream.unwrap());
        }
    });
}

/// Reads a request until nothing more comes, and answers it.
fn answer(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut buffer = vec![0; 65_536];
    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
    // The client may have ended.
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

#[test]
fn hijacked_parsers_of_what_servers_answer_can_do_nothing_else() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("records").display().to_string();
    for (place, command) in [
        ("otlp", &["export", "--listen", "192.0.2.1:0", "--interval", "200ms", "--otlp"][..]),
        ("clickhouse", &["record", "--dir", &dir, "--rotate", "1s", "--clickhouse"]),
        ("nccl", &["live", "--output", "jsonl", "--nccl-ras"]),
    ] {
        let (world, mut link) = World::with_link(1500).unwrap();
        tcp::prepare(&world, &link).unwrap();
        let listen = || world.far.run(|| TcpListener::bind("192.0.2.2:0")).unwrap().unwrap();
        let server = listen();
        let address = server.local_addr().unwrap();
        let url = if place == "nccl" { format!("{address}") } else { format!("http://{address}") };
        if place == "nccl" {
            ras(server);
        } else {
            empty_answers(server);
        }
        let (last, others) = command.split_last().unwrap();
        let joined = format!("{last}={url}");
        let arguments = [others, &[&*joined, "-i", "near0"]].concat();
        // It listens: another port is refused by the sandbox alone.
        let other = listen();
        let address = other.local_addr().unwrap().to_string();
        victims(Path::new(&dir));
        let variables = &[(HIJACK, &*address), (FOLDER, &*dir)];
        let how = Start { netns: Some(&world.near), variables, ..Start::default() };
        let program = Program::watching(how, &arguments).unwrap();
        link.receive(&frames::sends(3, 5)).unwrap();
        // It removes what it has sent.
        let done: &[&str] = if place == "clickhouse" { &WRITES } else { &[] };
        let names = (place != "nccl").then_some(("names", &[][..]));
        refused_in(program, &[Some((place, done)), names].into_iter().flatten().collect::<Vec<_>>());
        nobody_came(&other);
    }
}

/// A service of NCCL that greets, and ends the connection after each question.
fn ras(server: TcpListener) {
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            let asked = BufReader::new(stream.try_clone().unwrap()).read_line(&mut line);
            if asked.is_ok() && line.starts_with("CLIENT PROTOCOL") {
                // The client may have ended.
                let _ = stream.write_all(b"SERVER PROTOCOL 2\n");
            }
        }
    });
}

#[test]
fn hijacked_parsers_of_recordings_and_reports_can_do_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, saved) = (recording_in(folder.path()), folder.path().join("report.json").display().to_string());
    let capture = folder.path().join("a.pcap");
    let report = binary::replay(&[capture], [] as [&str; 0]).unwrap();
    std::fs::write(&saved, report.to_string()).unwrap();
    for (arguments, place) in [
        (&["replay", &*dir, "--output", "json"][..], "recording"),
        (&["diff", &dir, &dir, "--output", "json"], "recording"),
        (&["diff", &saved, &saved, "--output", "json"], "report"),
    ] {
        let (output, listener) = hijacked(arguments, folder.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        refused(&said, place);
        nobody_came(&listener);
    }
}

#[test]
fn a_hijacked_parser_beside_a_view_that_writes_files_writes_none() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, capture) = (recording_in(folder.path()), capture_in(folder.path()));
    for (input, place) in [(&capture, "replay"), (&dir, "recording")] {
        let home = folder.path().join(place);
        victims(&home);
        let error = folder.path().join("error");
        let mut command = Command::new(binary::path().unwrap());
        command.args(["replay", input]).current_dir(&home);
        command.env(HIJACK, "127.0.0.1:9").env(FOLDER, &home);
        let screen = Screen::start_with(command, std::fs::File::create(&error).unwrap()).unwrap();
        let late = Instant::now() + PATIENCE;
        let last = |place: &str| format!("hijack in {place}: become root");
        let places = [place, "analysis", "background", "view"];
        let said = loop {
            let said = std::fs::read_to_string(&error).unwrap();
            if places.iter().all(|place| said.contains(&last(place))) {
                break said;
            }
            assert!(Instant::now() < late, "{said}");
            std::thread::sleep(Duration::from_millis(20));
        };
        drop(screen);
        for place in &places {
            refused(&said, place);
        }
        assert!(!said.contains("privileges:"), "{said}");
    }
}
