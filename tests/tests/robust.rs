//! Input from outside must not stop rocescope, falsify its figures, or inject output: files of processes, damaged
//! captures, names, extreme counts, resource limits.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rocescope_tests::capture_file::{ETHERNET, Order, Pcap, PcapNg};
use rocescope_tests::craft::{self, Mac, Net, Transport};
use rocescope_tests::hostile::is_hostile;
use rocescope_tests::killed::Killed;
use rocescope_tests::needs_root;
use rocescope_tests::oracle::binary;
use rocescope_tests::{pty, schema};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Timeout far longer than any operation here.
const PATIENCE: Duration = Duration::from_secs(300);
const START_NS: u64 = 1_767_225_600_000_000_000;

/// One SEND to a queue pair.
fn send(dest_qp: u32, psn: u32) -> Vec<u8> {
    let transport = Transport::new(0x04, dest_qp, psn).payload(vec![1; 64]);
    craft::ethernet(Mac::SRC, Mac::DST, &Net::v4([10, 8, 0, 1], [10, 8, 0, 2]).roce(50_000, &transport))
}

/// SENDs of one queue pair, one per microsecond.
fn sends(count: u32) -> Vec<u8> {
    let mut file = Pcap::new(Order::Little, true, ETHERNET);
    for psn in 0..count {
        file.packet(START_NS + u64::from(psn) * 1_000, &send(0x100, psn));
    }
    file.finish()
}

fn rocescope(args: &[&str]) -> Command {
    let mut command = Command::new(binary::path().unwrap());
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs a command that must end in time.
#[track_caller]
fn output(command: &mut Command) -> Output {
    let mut child = Killed(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let (mut out, mut err) = (child.0.stdout.take().unwrap(), child.0.stderr.take().unwrap());
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map(|_| bytes)
    });
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        err.read_to_end(&mut bytes).map(|_| bytes)
    });
    let status = ended(&mut child);
    Output { status, stdout: reader.join().unwrap().unwrap(), stderr: errors.join().unwrap().unwrap() }
}

#[track_caller]
fn ended(child: &mut Killed) -> std::process::ExitStatus {
    let late = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.0.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < late, "it hangs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn standard_error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The report of a replay that may have ended with an error.
#[track_caller]
fn report(args: &[&str]) -> (Value, Output) {
    let output = output(&mut rocescope(&[&["replay", "--output", "json"], args].concat()));
    let report = schema::read(&output.stdout);
    (report.unwrap_or_else(|error| panic!("{error}: {}", standard_error(&output))), output)
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A process in a container, according to its files below `/proc`, with that folder as `/etc`.
fn contained(etc: &Path) -> Killed {
    let mut process = Command::new("unshare");
    let script = format!("mount --bind {} /etc && exec sleep 600", etc.display());
    process.args(["--mount", "sh", "-c", &script]).env("NCCL_IB_HCA", "mlx5_0").stdin(Stdio::null());
    Killed(process.spawn().unwrap())
}

/// The report of `doctor`, which sees that process as part of a pod.
fn doctor_beside(process: &Killed, folder: &Path) -> Output {
    let id = process.0.id();
    let uid = "12345678-1234-1234-1234-123456789012";
    let cgroup = write(folder, "cgroup", format!("0::/kubepods/pod{uid}/{}\n", "ab".repeat(32)).as_bytes());
    let program = binary::path().unwrap();
    let script =
        format!("mount --bind {cgroup} /proc/{id}/cgroup && exec {} doctor --output json", program.display());
    // The process exists before it executes its program.
    let late = Instant::now() + PATIENCE;
    while std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap().trim() != "sleep" {
        assert!(Instant::now() < late, "the process does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    output(Command::new("unshare").args(["--mount", "sh", "-c", &script]).stdin(Stdio::null()))
}

#[test]
fn a_process_neither_stops_doctor_nor_shows_it_a_file_of_the_host() {
    const SECRET: &str = "root:a-secret-of-the-host";
    needs_root!();
    for kind in ["name", "pipe", "link"] {
        let folder = tempfile::tempdir().unwrap();
        let secret = write(folder.path(), "shadow", format!("{SECRET}\n").as_bytes());
        let etc = folder.path().join("etc");
        std::fs::create_dir(&etc).unwrap();
        let name = etc.join("hostname");
        match kind {
            "pipe" => {
                assert!(Command::new("mkfifo").arg(&name).status().unwrap().success());
            }
            "link" => symlink(secret, &name).unwrap(),
            _ => std::fs::write(&name, "trainer-0\n").unwrap(),
        }
        let process = contained(&etc);
        let output = doctor_beside(&process, folder.path());
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(
            text.contains(&process.0.id().to_string()),
            "{kind}: the process is missing: {}",
            standard_error(&output)
        );
        assert!(!text.contains(SECRET), "{kind}: a link out of the process's root was followed");
        assert_eq!(text.contains("trainer-0"), kind == "name", "{kind}: {text}");
    }
}

/// Stored DEFLATE blocks, followed by an invalid one: everything before it can be read.
fn damaged_gzip(bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF];
    for block in bytes.chunks(10_000) {
        let length = u16::try_from(block.len()).unwrap();
        file.push(0);
        file.extend(length.to_le_bytes());
        file.extend((!length).to_le_bytes());
        file.extend(block);
    }
    file.push(0b111);
    file.extend([0; 100]);
    file
}

#[test]
fn every_packet_before_damage_in_a_gzip_stream_counts() {
    const PACKETS: u32 = 5_749;
    let file = damaged_gzip(&sends(PACKETS));
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "damaged.pcap.gz", &file);
    let (from_file, output) = report(&[&path]);
    assert_eq!(output.status.code(), Some(1), "{}", standard_error(&output));
    assert_eq!(from_file["totals"]["packets"], PACKETS, "{}", standard_error(&output));
    // For any split of the bytes.
    for part in [97, 4_096, 65_536] {
        let mut replay = rocescope(&["replay", "-", "--output", "json"]);
        replay.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = replay.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        for bytes in file.chunks(part) {
            // The program may have found the damage already.
            let _ = pipe.write_all(bytes);
        }
        drop(pipe);
        let output = child.wait_with_output().unwrap();
        let streamed = schema::read(&output.stdout).unwrap();
        assert_eq!(streamed["totals"]["packets"], PACKETS, "in parts of {part}: {}", standard_error(&output));
    }
}

#[test]
fn names_of_others_do_not_reach_the_terminal_as_they_are() {
    const NAME: &str = "\u{1b}]0;owned\u{7}\u{202E}\nrocescope: fine";
    let folder = tempfile::tempdir().unwrap();
    let good = write(folder.path(), "good.pcap", &sends(5));
    let mut foreign = PcapNg::new(Order::Little);
    foreign.interface(Some(NAME), 189, None).packet(0, START_NS, &[0; 64], None);
    let foreign = write(folder.path(), "foreign.pcapng", &foreign.finish());
    let unknown = serde_json::json!({ "schema": NAME });
    let unknown = write(folder.path(), "unknown.json", unknown.to_string().as_bytes());
    let missing = folder.path().join(NAME);
    let missing = missing.to_str().unwrap();
    for arguments in [
        &["replay", missing][..],
        &["replay", &foreign],
        &["replay", &good, "--group", NAME],
        &["replay", &good, "--filter", NAME],
        &["replay", &good, "--config", missing],
        &["diff", &good, &unknown],
        &["explain", NAME],
        &[NAME],
    ] {
        let output = output(&mut rocescope(arguments));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.is_empty(), "{arguments:?} prints nothing, so the test proves nothing");
        assert!(!said.contains(is_hostile), "{arguments:?}: {said:?}");
        assert!(!said.lines().any(|line| line == "rocescope: fine"), "{arguments:?}: {said:?}");
    }
}

/// An LLDP frame of a switch whose names are `name`.
fn lldp(name: &str) -> Vec<u8> {
    let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1, 0x88, 0xcc];
    let mut tlv = |kind: u16, value: &[u8]| {
        let head = kind << 9 | u16::try_from(value.len()).unwrap();
        frame.extend(head.to_be_bytes());
        frame.extend(value);
    };
    // Locally assigned names: subtype 7 of a chassis, 7 of a port.
    tlv(1, &[&[7], name.as_bytes()].concat());
    tlv(2, &[&[7], name.as_bytes()].concat());
    tlv(3, &[0, 120]);
    tlv(4, name.as_bytes());
    tlv(5, name.as_bytes());
    tlv(0, &[]);
    frame
}

#[test]
fn names_in_captures_reach_no_output_as_they_are() {
    const NAME: &str = "a\u{1b}]0;owned\u{7}\u{9b}2J\u{202E}\r<script>x</script>";
    let folder = tempfile::tempdir().unwrap();
    let mut file = PcapNg::new(Order::Little);
    file.interface(Some(NAME), ETHERNET, Some(9)).interface(Some("b\u{8}"), ETHERNET, Some(9));
    file.packet(0, START_NS, &lldp(NAME), None);
    for psn in 0..20 {
        // Every second packet is missing on the first interface, which gives findings with names.
        let interface = u32::from(psn % 2 == 0);
        file.packet(interface, START_NS + u64::from(psn) * 1_000, &send(0x100, psn), None);
    }
    let name = write(folder.path(), "cap\u{1b}[31m.pcapng", &file.finish());
    for format in ["text", "csv", "html", "trace", "json", "jsonl"] {
        let output = output(&mut rocescope(&["replay", &name, "--output", format]));
        assert!(output.status.success(), "{format}: {}", standard_error(&output));
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(
            shown.contains("owned"),
            "{format} does not show the name, so the test proves nothing: {shown}"
        );
        // Machine-readable formats escape control characters, and leave text direction to the reader.
        let is_bad = |c: char| match format {
            "text" | "csv" => is_hostile(c),
            _ => c.is_control() && c != '\n',
        };
        let at = shown.find(is_bad);
        assert_eq!(at.map(|at| &shown[at.saturating_sub(60)..]), None, "{format}");
        assert!(format != "html" || !shown.contains("<script>x"), "a name becomes markup");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains(is_hostile), "{format}: {said:?}");
    }
}

/// All numbers of a report, with their paths.
fn numbers(value: &Value, place: &str, found: &mut Vec<(String, f64)>) {
    match value {
        Value::Number(number) => found.push((place.to_owned(), number.as_f64().unwrap())),
        Value::Array(all) => all.iter().for_each(|one| numbers(one, place, found)),
        Value::Object(fields) => {
            for (name, field) in fields {
                numbers(field, &format!("{place}.{name}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn drop_counts_near_the_largest_number_leave_ratios_within_one() {
    let mut file = PcapNg::new(Order::Little);
    file.interface(Some("eth0"), ETHERNET, Some(9)).interface(Some("eth1"), ETHERNET, Some(9));
    for psn in 0..100 {
        file.packet(psn % 2, START_NS + u64::from(psn) * 1_000, &send(0x100 + psn % 2, psn / 2), None);
    }
    file.dropped(0, u64::MAX - 2).dropped(1, u64::MAX - 3);
    let folder = tempfile::tempdir().unwrap();
    let (report, output) = report(&[&write(folder.path(), "drops.pcapng", &file.finish())]);
    assert!(output.status.success(), "{}", standard_error(&output));
    let mut all = Vec::new();
    numbers(&report, "", &mut all);
    let wrong: Vec<_> = all.iter().filter(|(at, n)| at.ends_with("_ratio.value") && *n > 1.0).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let lost = report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "tool.lost");
    let ratio = lost.unwrap()["evidence"]["lost_ratio"].clone();
    let ratio = ratio["value"].as_f64().or(ratio.as_f64()).unwrap();
    assert!((0.99..=1.0).contains(&ratio), "of {} all but 100 were dropped", u64::MAX);
}

#[test]
fn pauses_out_of_time_order_take_no_more_than_all_time() {
    let pfc = |ns: u64| {
        let mut frame = vec![0x01, 0x80, 0xC2, 0, 0, 1, 2, 0, 0, 0, 0, 7, 0x88, 0x08, 0x01, 0x01, 0, 8];
        frame.extend([0; 6]);
        frame.extend([0xFF; 2]);
        frame.resize(60, 0);
        (START_NS + ns, frame)
    };
    let mut file = Pcap::new(Order::Little, true, ETHERNET);
    // Two files merged without regard to time: each frame has a duplicate that arrives late.
    for at in 1..5_000 {
        for (time_ns, frame) in [pfc(at * 200_000), pfc(at * 200_000 - 150_000)] {
            file.packet(time_ns, &frame);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "pauses.pcap", &file.finish());
    let (report, output) = report(&[&path, "--link-speed", "100G"]);
    assert!(output.status.success(), "{}", standard_error(&output));
    let worst = report["links"][0]["pause"][0]["worst_share"].as_f64().unwrap();
    assert!((0.99..=1.0).contains(&worst), "{worst} of a window was paused");
}

#[test]
fn figures_by_flow_say_what_a_full_table_leaves_out() {
    let mut file = Pcap::new(Order::Little, true, ETHERNET);
    for at in 0..5_246 {
        file.packet(START_NS + u64::from(at) * 1_000, &send(0x100 + at % 40, at / 40));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "flows.pcap", &file.finish());
    let (report, _) = report(&[&path, "--max-flows", "10"]);
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    assert_eq!(number(&report["totals"]["roce_packets"]), 5_246);
    let cells = report["pattern"]["matrix"].as_array().unwrap().iter();
    let reported: u64 = cells.map(|cell| number(&cell["packets"])).sum();
    assert!(reported < 5_246, "the table was not full, so the test proves nothing");
    for (what, missing) in [
        ("pattern", &report["pattern"]["left_out_packets"]),
        ("bursts", &report["bursts"][0]["left_out_packets"]),
        ("links", &report["links"][0]["left_out_packets"]),
    ] {
        assert_eq!(
            reported + number(missing),
            5_246,
            "{what}: packets missing from the figures without a notice"
        );
    }
}

/// CPU time of the program in seconds, which does not depend on other load.
fn processor_time(arguments: &[&str]) -> f64 {
    let mut timed = Command::new("sh");
    let program = binary::path().unwrap();
    timed
        .args(["-c", "\"$@\" > /dev/null; status=$?; times >&2; exit $status", "sh"])
        .arg(program)
        .args(arguments);
    let output = output(timed.stdin(Stdio::null()));
    assert!(output.status.success(), "{}", standard_error(&output));
    // The second line has the times of children: user and system, as 0m0.320s.
    let text = standard_error(&output);
    let of_children = text.lines().last().unwrap();
    let seconds = |word: &str| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
    };
    of_children.split_whitespace().map(seconds).sum()
}

#[test]
fn links_that_see_one_queue_pair_cost_time_in_proportion() {
    let folder = tempfile::tempdir().unwrap();
    let seconds = [4_096, 16_384].map(|links| {
        let mut file = PcapNg::new(Order::Little);
        for link in 0..links {
            file.interface(Some(&format!("p{link}")), ETHERNET, Some(9));
        }
        for link in 0..links {
            file.packet(link, START_NS + u64::from(link) * 1_000, &send(0x100, 7), None);
        }
        let path = write(folder.path(), "links.pcapng", &file.finish());
        processor_time(&["replay", &path, "--output", "json"])
    });
    // Four times the time, and a margin for fixed costs: quadratic time would be sixteen times.
    assert!(seconds[1] < 8.0 * seconds[0].max(0.1), "{seconds:?} s");
}

const FLOWS: u32 = 140_000;

/// A capture with one packet of each of [`FLOWS`] flows.
fn many_flows(folder: &Path) -> String {
    let mut file = Pcap::new(Order::Little, true, ETHERNET);
    for flow in 0..FLOWS {
        file.packet(START_NS + u64::from(flow) * 1_000, &send(0x100 + flow, 7));
    }
    write(folder, "flows.pcap", &file.finish())
}

#[test]
fn a_report_of_many_flows_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let (report, _) = report(&[&many_flows(folder.path())]);
    let flows = report["flows"].as_array().unwrap().len() as u64;
    assert!(flows <= 131_072, "{flows} flows in the report");
    assert_eq!(report["totals"]["lost"]["flow_table_full"].as_u64().unwrap(), u64::from(FLOWS) - flows);
}

#[test]
fn limits_of_the_process_are_named_with_what_raises_them() {
    needs_root!();
    let program = binary::path().unwrap();
    let mut refused = 0;
    // One after another: each of the things opened after the maps is once the first too many.
    for limit in 19..33 {
        let script = format!(
            "ip link add v0 type veth peer name v1 && ulimit -n {limit} && exec {} live -i v0 --duration 200ms --output json",
            program.display()
        );
        let output =
            output(Command::new("unshare").args(["--net", "sh", "-c", &script]).stdin(Stdio::null()));
        let said = standard_error(&output);
        if output.status.success() {
            continue;
        }
        refused += 1;
        assert_eq!(output.status.code(), Some(1), "{limit} files: {said}");
        assert!(said.contains("cannot ") && said.contains("ulimit -n"), "{limit} files: {said}");
        assert!(!said.contains("(os error"), "{limit} files: {said}");
        assert!(!said.contains("--max-flows") && !said.contains("please report"), "{limit} files: {said}");
    }
    assert!(refused > 1, "no limit was too small, so the test proves nothing");
}

#[test]
fn without_memory_it_says_so_and_is_not_aborted() {
    let folder = tempfile::tempdir().unwrap();
    let path = many_flows(folder.path());
    for kib in [60_000, 100_000, 140_000] {
        let program = binary::path().unwrap();
        let script =
            format!("ulimit -v {kib} && exec {} replay {path} --output json >/dev/null", program.display());
        let output = output(Command::new("sh").args(["-c", &script]).stdin(Stdio::null()));
        assert_eq!(output.status.code(), Some(1), "{kib} KiB: {}", standard_error(&output));
        assert!(standard_error(&output).contains("ulimit -v"), "{kib} KiB: {}", standard_error(&output));
    }
}

#[test]
fn the_first_interrupt_ends_a_stream_that_does_not_get_to_a_packet() {
    let section: Vec<u8> = [0x0A0D_0D0Au32, 28, 0x1A2B_3C4D, 1, u32::MAX, u32::MAX, 28]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    let unknown: Vec<u8> = [0x0BAD_u32, 12, 12].into_iter().flat_map(u32::to_le_bytes).collect();
    let member = vec![0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (what, head, endless) in [
        ("a stalled header", section[..10].to_vec(), None),
        ("unknown blocks", section.clone(), Some(unknown)),
        ("empty gzip members", member.clone(), Some(member)),
    ] {
        let mut replay = rocescope(&["replay", "-", "--output", "json"]);
        replay.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Killed(replay.spawn().unwrap());
        let mut pipe = child.0.stdin.take().unwrap();
        let writer = std::thread::spawn(move || {
            pipe.write_all(&head).unwrap();
            let endless = endless.map(|bytes| bytes.repeat(1_000));
            // Ends with the reader.
            while endless.as_ref().is_some_and(|bytes| pipe.write_all(bytes).is_ok()) {}
            pipe
        });
        // Long enough to reach its waiting state; an earlier signal would end it at once, which proves nothing.
        std::thread::sleep(Duration::from_millis(400));
        kill_process(Pid::from_child(&child.0), Signal::INT).unwrap();
        let late = Instant::now() + Duration::from_secs(20);
        while child.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < late, "{what}: the interrupt is ignored");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(child);
        drop(writer.join().unwrap());
    }
}

#[test]
fn the_terminal_ui_ends_without_a_panic_when_its_terminal_goes_away() {
    const ALTERNATE_SCREEN: &str = "\u{1b}[?1049h";
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "sends.pcap", &sends(5_000));
    // Before its first picture, while it draws, and while it waits.
    for ms in [0, 30, 100, 500] {
        let mut errors = tempfile::tempfile().unwrap();
        let mut replay = Command::new(binary::path().unwrap());
        replay.args(["replay", &path, "--output", "tui"]);
        let other_end = errors.try_clone().unwrap();
        let child =
            pty::hung_up(&mut replay, other_end, ALTERNATE_SCREEN, Duration::from_millis(ms)).unwrap();
        let status = ended(&mut Killed(child));
        let mut said = String::new();
        errors.rewind().unwrap();
        errors.read_to_string(&mut said).unwrap();
        assert!(matches!(status.code(), Some(0 | 1)), "after {ms} ms: {status}: {said}");
        assert!(!said.contains("panicked") && !said.contains("bug:"), "after {ms} ms: {said}");
    }
}

#[test]
fn usage_and_configuration_errors_show_what_belongs_to_them_alone() {
    let folder = tempfile::tempdir().unwrap();
    let good = write(folder.path(), "good.pcap", &sends(5));
    let swapped = output(&mut rocescope(&["replay", &good, "--from", "+5s", "--to", "+1s"]));
    assert_eq!(swapped.status.code(), Some(2));
    assert!(
        standard_error(&swapped).contains(" replay [OPTIONS]"),
        "the usage of another command: {}",
        standard_error(&swapped)
    );
    let secret = write(folder.path(), "secret", b"top-secret-line of another user\n");
    let config = output(&mut rocescope(&["replay", &good, "--config", &secret]));
    assert_eq!(config.status.code(), Some(1), "{}", standard_error(&config));
    assert!(standard_error(&config).contains("line 1"), "{}", standard_error(&config));
    assert!(
        !standard_error(&config).contains("top-secret"),
        "a line of a file is printed: {}",
        standard_error(&config)
    );
}
