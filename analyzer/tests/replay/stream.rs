//! Standard input while it is open, and the ends that a run may come to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::craft::{pcap_header, record, send, sends};
use crate::{conserved, file, rocescope, schema};

/// A run with pipes on all three ends.
fn start(args: &[&str]) -> (Child, ChildStdin) {
    let mut child = rocescope(&["replay"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdin = child.stdin.take().unwrap();
    (child, stdin)
}

fn line(stdout: &mut impl std::io::BufRead) -> Value {
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    schema::read(&line).unwrap()
}

/// The report of a program that has ended.
fn printed(child: &mut Child) -> Value {
    let mut report = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut report).unwrap();
    schema::read(&report).unwrap()
}

/// Waits for the end, not for ever.
fn wait(child: &mut Child) -> Option<i32> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    panic!("did not end");
}

fn stderr(child: &mut Child) -> String {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn the_report_comes_at_the_end_of_the_stream() {
    let (mut child, mut stdin) = start(&["-", "--output", "json"]);
    // In pieces that respect no boundary.
    for piece in sends(0, 7, 40).chunks(37) {
        stdin.write_all(piece).unwrap();
    }
    drop(stdin);
    assert_eq!(wait(&mut child), Some(0));
    let report = printed(&mut child);
    conserved(&report);
    assert_eq!(report["totals"]["roce_packets"], 40);
    assert_eq!(report["links"][0]["name"], "stdin");
}

#[test]
fn lines_appear_while_the_pipe_is_open() {
    let (mut child, mut stdin) = start(&["-", "--output", "jsonl", "--interval", "200ms"]);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdin.write_all(&pcap_header(1)).unwrap();
    stdin.write_all(&record(&send(0, 7, 0))).unwrap();
    assert_eq!(line(&mut stdout)["totals"]["packets"], 1, "nothing is held back");
    // Half a record, then silence, then the rest.
    let second = record(&send(50, 7, 1));
    stdin.write_all(&second[..30]).unwrap();
    std::thread::sleep(Duration::from_millis(250));
    stdin.write_all(&second[30..]).unwrap();
    assert_eq!(line(&mut stdout)["totals"]["packets"], 2);
    drop(stdin);
    let last = line(&mut stdout);
    assert_eq!((&last["totals"]["packets"], &last["flows"][0]["psn"]["gaps"]), (&2.into(), &0.into()));
    assert_eq!(wait(&mut child), Some(0));
    assert_eq!(stderr(&mut child), "");
}

#[test]
fn an_interrupt_prints_what_was_counted_so_far() {
    for number in [Signal::INT, Signal::TERM] {
        let (mut child, mut stdin) = start(&["-", "--output", "jsonl", "--interval", "1ms"]);
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdin.write_all(&sends(0, 7, 3)).unwrap();
        while line(&mut stdout)["totals"]["packets"] != 3 {}
        signal(&child, number);
        assert_eq!(wait(&mut child), Some(0), "the pipe is still open");
        assert_eq!(line(&mut stdout)["totals"]["packets"], 3);
        drop(stdin);
    }
    // A file at the data's own speed, with a report that is printed once.
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = sends(0, 7, 3);
    bytes.extend(record(&send(3_600_000, 7, 3)));
    let path = file(folder.path(), "a.pcap", &bytes);
    let (mut child, _stdin) = start(&[&path, "--speed", "1x", "--output", "json"]);
    std::thread::sleep(Duration::from_millis(700));
    signal(&child, Signal::INT);
    assert_eq!(wait(&mut child), Some(0));
    let report = printed(&mut child);
    assert_eq!(report["totals"]["packets"], 3);
}

#[test]
fn an_interrupt_before_the_first_byte_is_an_empty_report() {
    let (mut child, _stdin) = start(&["-", "--output", "json"]);
    std::thread::sleep(Duration::from_millis(700));
    signal(&child, Signal::INT);
    assert_eq!(wait(&mut child), Some(0));
    let report = printed(&mut child);
    assert_eq!(report["totals"]["packets"], 0);
}

#[test]
fn a_reader_that_leaves_ends_the_run_quietly() {
    let (mut child, mut stdin) = start(&["-", "--output", "jsonl", "--interval", "1ms"]);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdin.write_all(&sends(0, 7, 3)).unwrap();
    line(&mut stdout);
    drop(stdout);
    // The run may end while it is written to.
    for i in 0..200 {
        if stdin.write_all(&record(&send(10 + i, 7, 3))).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(wait(&mut child), Some(0));
    assert_eq!(stderr(&mut child), "");
}

#[test]
fn a_stream_that_is_no_capture_is_refused() {
    for (bytes, what) in [(&b""[..], "empty"), (b"tcpdump: mlx5_0: no such device\n", "not a pcap")] {
        let (mut child, mut stdin) = start(&["-", "--output", "json"]);
        stdin.write_all(bytes).unwrap();
        drop(stdin);
        assert_eq!(wait(&mut child), Some(1));
        let said = stderr(&mut child);
        assert!(said.starts_with("rocescope: standard input: ") && said.contains(what), "{said}");
        let mut printed = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut printed).unwrap();
        assert!(printed.is_empty());
    }
}

#[test]
fn a_duration_ends_a_stream_that_is_silent() {
    let (mut child, mut stdin) = start(&["-", "--output", "json", "--duration", "300ms"]);
    stdin.write_all(&sends(0, 7, 3)).unwrap();
    assert_eq!(wait(&mut child), Some(0));
    let report = printed(&mut child);
    assert_eq!(report["totals"]["packets"], 3);
    drop(stdin);
}

/// Standard output takes nothing, so that the report is never out.
#[test]
fn an_end_that_takes_its_time_is_explained_and_a_second_signal_ends_at_once() {
    let (mut child, mut stdin) = start(&["-", "--output", "json"]);
    stdin.write_all(&pcap_header(1)).unwrap();
    for qp in 1..300 {
        stdin.write_all(&record(&send(u64::from(qp), qp, 1))).unwrap();
    }
    drop(stdin);
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    signal(&child, Signal::TERM);
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("a second signal ends at once"), "{said}");
    signal(&child, Signal::TERM);
    assert_eq!(wait(&mut child), Some(143));
    drop(stdout);
}
