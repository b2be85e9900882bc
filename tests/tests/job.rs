//! Jobs in steps: synthesised packet by packet, replayed, and the resulting reports.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail like a test")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use rocescope_tests::capture_file::{Order, Pcap};
use rocescope_tests::craft::{self, Mac, Net, Transport, Typed};
use rocescope_tests::oracle::binary;
use serde_json::Value;

const ETHERNET: u16 = 1;
const START_NS: u64 = 1_767_225_600_000_000_000;
const MS: u64 = 1_000_000;
const SNAP: u32 = 128;

/// A WRITE in one packet, with immediate data.
const WRITE_ONLY_IMM: u8 = 0x0B;
const WRITE_FIRST: u8 = 0x06;
const ECT0: u8 = 2;
const CE: u8 = 3;

/// Frames with the hosts that see them.
#[derive(Default)]
struct Wire {
    frames: Vec<(u64, u8, u8, Vec<u8>)>,
    /// The next PSN from a host to another.
    psns: BTreeMap<(u8, u8), u32>,
    /// The network is twice as fast.
    fast: bool,
}

impl Wire {
    fn frame(&mut self, ns: u64, src: u8, dst: u8, tos: u8, transport: &Transport) {
        let packet = Net::v4([10, 0, 0, src], [10, 0, 0, dst]).tos(tos).roce(50_000, transport);
        self.frames.push((ns, src, dst, craft::ethernet(Mac::SRC, Mac::DST, &packet)));
    }

    /// `packets` messages of 1000 bytes, one every 100 µs, or 50; the last is acknowledged unless `silent`. Returns the
    /// end.
    fn send(&mut self, ns: u64, src: u8, dst: u8, packets: u64, silent: bool) -> u64 {
        let every_ns = if self.fast { 50_000 } else { 100_000 };
        let psn = self.psns.entry((src, dst)).or_default();
        let first = *psn;
        *psn += u32::try_from(packets).unwrap();
        for number in 0..packets {
            let ext = [craft::reth(0, 1, 1000), vec![0; 4]].concat();
            let mut message =
                Transport::new(WRITE_ONLY_IMM, u32::from(src), first + u32::try_from(number).unwrap())
                    .ext(ext)
                    .payload(vec![0; 1000]);
            message.ack_req = number + 1 == packets;
            self.frame(ns + number * every_ns, src, dst, ECT0, &message);
        }
        let end = ns + packets * every_ns;
        if !silent {
            let ack =
                Transport::ack(0x100 + u32::from(dst), first + u32::try_from(packets).unwrap() - 1, 0x1F, 0);
            self.frame(end, dst, src, ECT0, &ack);
        }
        end
    }

    /// The next PSN from a host to the first one.
    fn next_psn(&mut self, src: u8) -> u32 {
        let next = self.psns.entry((src, 1)).or_default();
        *next += 1;
        *next - 1
    }

    /// A frame that is not RoCE, which every host sees.
    fn other(&mut self, ns: u64) {
        let arp = craft::ethernet(Mac::SRC, Mac::DST, &Typed::new(0x0806, vec![0; 28]));
        self.frames.push((ns, 0, 0, arp));
    }

    /// The capture of one host, or of a switch that sees everything (0).
    fn file(&mut self, folder: &tempfile::TempDir, host: u8) -> PathBuf {
        self.frames.sort_by_key(|(ns, ..)| *ns);
        let mut pcap = Pcap::with_snap_len(Order::Little, true, ETHERNET, SNAP);
        for (ns, src, dst, frame) in &self.frames {
            if host == 0 || [*src, *dst].contains(&host) || *src == 0 {
                pcap.packet(*ns, frame);
            }
        }
        let path = folder.path().join(format!("h{host}.pcap"));
        std::fs::write(&path, pcap.finish()).unwrap();
        path
    }

    /// The report of the captures of these hosts.
    fn report(&mut self, hosts: &[u8]) -> Value {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<PathBuf> = hosts.iter().map(|host| self.file(&folder, *host)).collect();
        binary::replay(&files, [] as [&str; 0]).unwrap()
    }
}

/// A ring of four hosts that compute for 50 ms and then exchange three parts.
struct Ring {
    steps: u64,
    /// A host that computes longer: which, by how many ms, from which step on.
    late: (u8, u64, u64),
    /// Additional compute time of all hosts per step, in ms.
    slower_ms: u64,
    /// No host starts the second part of the last step.
    stops: bool,
    /// The last message is never acknowledged.
    unanswered: bool,
    /// Time for which other frames continue after the end, in ms.
    idle_ms: u64,
    /// The network is twice as fast.
    fast: bool,
}

const HEALTHY: Ring = Ring {
    steps: 16,
    late: (0, 0, 0),
    slower_ms: 0,
    stops: false,
    unanswered: false,
    idle_ms: 0,
    fast: false,
};

impl Ring {
    fn run(&self) -> Wire {
        let mut wire = Wire { fast: self.fast, ..Wire::default() };
        let mut done = [START_NS; 4];
        for step in 0..self.steps {
            let mut ready = done;
            for (host, ready) in (1u8..).zip(&mut ready) {
                let (who, ms, from) = self.late;
                let late = if who == host && step >= from { ms } else { 0 };
                *ready += (50 + late + self.slower_ms * step + u64::from(host)) * MS;
            }
            let last = step + 1 == self.steps;
            for part in 0..3 {
                if self.stops && last && part > 0 {
                    break;
                }
                let silent = self.unanswered && last && part == 2;
                let sent: [u64; 4] = std::array::from_fn(|at| {
                    let src = u8::try_from(at).unwrap() + 1;
                    let dst = src % 4 + 1;
                    wire.send(ready[at], src, dst, 20, silent && src == 2)
                });
                // The next part requires that of the previous host.
                ready = std::array::from_fn(|at| sent[at].max(sent[(at + 3) % 4]) + 100_000);
            }
            done = ready;
        }
        let end = done.iter().max().copied().unwrap_or(START_NS);
        for ms in (0..self.idle_ms).step_by(100) {
            wire.other(end + ms * MS);
        }
        wire
    }
}

fn finding<'a>(report: &'a Value, id: &str) -> Option<&'a Value> {
    report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id)
}

/// No finding above info.
fn calm(report: &Value) {
    for finding in report["findings"].as_array().unwrap() {
        assert_eq!(finding["severity"], "info", "{}", finding["title"]);
    }
}

#[test]
fn a_healthy_ring() {
    let mut wire = HEALTHY.run();
    for hosts in [&[1][..], &[2], &[3], &[4], &[0], &[1, 2, 3, 4]] {
        let report = wire.report(hosts);
        calm(&report);
        let steps = &report["steps"];
        assert_eq!((&steps["count"], &steps["straggler"]), (&Value::from(16), &Value::Null), "{hosts:?}");
        let period = steps["period_ns"].as_u64().unwrap();
        assert!((50 * MS..65 * MS).contains(&period), "{period}");
        let other = steps["autocorrelation_period_ns"].as_u64().unwrap();
        assert!(period.abs_diff(other) < 3 * MS, "{period} {other}");
        let whole = hosts.len() == 4 || hosts == [0];
        assert_eq!(report["pattern"]["shape"], if whole { "ring".into() } else { Value::Null });
    }
}

/// The same job on a network twice as fast gains no more than the report of the slower one promises, and most of it.
#[test]
fn a_faster_network_wins_what_the_report_says() {
    let figure = |fast, name: &str| {
        let report = Ring { fast, ..HEALTHY }.run().report(&[1]);
        report["steps"][name].as_u64().unwrap_or_else(|| panic!("{name}: {}", report["steps"]))
    };
    let gain = figure(false, "period_ns") - figure(true, "period_ns");
    let promised = figure(false, "faster_network_ns");
    // Hosts start one after the other: what one sends while another receives counts once for each.
    assert!(
        gain >= 2 * MS && (gain..=gain + gain / 2).contains(&promised),
        "{gain} won, {promised} promised"
    );
}

#[test]
fn the_host_that_computes_longer_is_named_where_it_is_seen() {
    let mut wire = Ring { late: (3, 40, 8), ..HEALTHY }.run();
    for hosts in [&[3][..], &[4], &[0], &[1, 2, 3, 4]] {
        let report = wire.report(hosts);
        let found = finding(&report, "step.straggler").unwrap_or_else(|| panic!("{hosts:?}: not found"));
        assert_eq!((&found["severity"], &found["evidence"]["host"]), (&"warning".into(), &"10.0.0.3".into()));
        assert_eq!(found["evidence"]["steps"], 8);
        let behind = found["evidence"]["behind_ns"].as_u64().unwrap();
        assert!((35 * MS..50 * MS).contains(&behind), "{hosts:?}: {behind}");
    }
    for host in [1, 2] {
        let report = wire.report(&[host]);
        let found = finding(&report, "step.straggler").expect("no straggler");
        assert_eq!(found["evidence"]["host"], Value::Null, "{host}: straggler without packets at this tap");
    }
}

/// A recording has the straggler of its capture, whole: played back it is that of the report.
#[test]
fn a_recording_played_back_has_the_straggler() {
    let mut wire = Ring { late: (3, 40, 8), ..HEALTHY }.run();
    let folder = tempfile::tempdir().unwrap();
    let capture = wire.file(&folder, 3);
    let expected =
        binary::replay(std::slice::from_ref(&capture), [] as [&str; 0]).unwrap()["steps"]["straggler"].take();
    assert_eq!(expected["host"], "10.0.0.3");
    for interval in ["10s", "100ms"] {
        let dir = folder.path().join(interval);
        let mut command = std::process::Command::new(binary::path().unwrap());
        command.args(["record", "--interval", interval, "--read"]).arg(&capture).arg("--dir").arg(&dir);
        assert!(command.output().unwrap().status.success());
        let played =
            binary::replay(std::slice::from_ref(&dir), [] as [&str; 0]).unwrap()["steps"]["straggler"].take();
        if interval == "10s" {
            assert_eq!(played, expected);
        }
        // Its last row is of the step before the last.
        for figure in ["kind", "host", "waits_for", "dst", "dest_qp", "link", "certain", "since_ns"] {
            assert_eq!(played[figure], expected[figure], "{interval}: {figure}");
        }
    }
}

/// All-to-all: each host computes when it has received everything; one computes longer from the sixth step on.
fn all_to_all(late: u8, ms: u64) -> Wire {
    let mut wire = Wire::default();
    let mut done = START_NS;
    for step in 0..16 {
        let mut end = 0;
        for src in 1..5u8 {
            let extra = if src == late && step >= 6 { ms } else { 0 };
            let mut at = done + (50 + u64::from(src) + extra) * MS;
            for dst in (1..5).filter(|dst| *dst != src) {
                at = wire.send(at, src, dst, 10, false);
            }
            end = at.max(end);
        }
        done = end;
    }
    wire
}

#[test]
fn all_send_to_all() {
    let (mut healthy, mut late) = (all_to_all(0, 0), all_to_all(2, 30));
    for hosts in [&[1][..], &[2], &[0], &[1, 2, 3, 4]] {
        let report = healthy.report(hosts);
        calm(&report);
        assert_eq!((&report["steps"]["count"], &report["steps"]["straggler"]), (&16.into(), &Value::Null));
        let shape = if hosts.len() == 4 || hosts == [0] { "all_to_all".into() } else { Value::Null };
        assert_eq!(report["pattern"]["shape"], shape, "{hosts:?}");
        let report = late.report(hosts);
        let found = finding(&report, "step.straggler").unwrap_or_else(|| panic!("{hosts:?}: not found"));
        assert_eq!(
            (&found["evidence"]["host"], &found["evidence"]["steps"]),
            (&"10.0.0.2".into(), &10.into())
        );
    }
}

/// Data to one host takes ten times as long from the sixth step on.
#[test]
fn a_slow_transfer_is_named() {
    let mut wire = Wire::default();
    let mut at = START_NS;
    for step in 0..16 {
        let slow = if step >= 6 { 10 } else { 1 };
        for packet in 0..20 {
            for (src, pace) in [(1u8, 1), (2, slow), (3, 1)] {
                let message = Transport::new(0x04, u32::from(src), 20 * step + packet).payload(vec![0; 1000]);
                let ns = at + u64::from(packet) * pace * 100_000 + u64::from(src);
                wire.frame(ns, src, src % 3 + 1, ECT0, &message);
            }
        }
        at += 60 * MS;
    }
    let report = wire.report(&[0]);
    let straggler = &report["steps"]["straggler"];
    assert_eq!((&straggler["kind"], &straggler["host"]), (&"slow_transfer".into(), &"10.0.0.2".into()));
    assert_eq!(finding(&report, "step.straggler").expect("17 ms of 60")["severity"], "warning");
}

#[test]
fn a_little_longer_is_no_straggler() {
    let mut wire = Ring { late: (3, 6, 8), ..HEALTHY }.run();
    for hosts in [&[1][..], &[2], &[3], &[4], &[0], &[1, 2, 3, 4]] {
        assert_eq!(finding(&wire.report(hosts), "step.straggler"), None, "{hosts:?}");
    }
}

#[test]
fn steps_that_become_longer() {
    let slower = Ring { slower_ms: 2, ..HEALTHY }.run().report(&[0]);
    let found = finding(&slower, "step.slower").expect("30 ms more at the end");
    let trend = found["evidence"]["trend_ns_per_step"].as_f64().unwrap();
    assert!((trend - 2e6).abs() < 1e5, "{trend}");
    assert_eq!(finding(&HEALTHY.run().report(&[0]), "step.slower"), None);
    let few = Ring { slower_ms: 2, steps: 8, ..HEALTHY }.run().report(&[0]);
    assert_eq!(finding(&few, "step.slower"), None, "too few to say");
}

#[test]
fn a_job_that_stopped_and_one_that_ended() {
    for hosts in [&[1][..], &[0], &[1, 2, 3, 4]] {
        let stalled = Ring { stops: true, idle_ms: 3000, ..HEALTHY }.run().report(hosts);
        let found = finding(&stalled, "job.stalled").unwrap_or_else(|| panic!("{hosts:?}: not found"));
        assert_eq!(found["severity"], "critical");
        calm(&Ring { idle_ms: 3000, ..HEALTHY }.run().report(hosts));
        calm(&Ring { stops: true, ..HEALTHY }.run().report(hosts));
        calm(&Ring { stops: true, idle_ms: 600, ..HEALTHY }.run().report(hosts));
    }
    let unanswered = Ring { unanswered: true, idle_ms: 3000, ..HEALTHY }.run().report(&[0]);
    let found = finding(&unanswered, "job.stalled").expect("a request without an answer");
    assert_eq!(found["evidence"]["outstanding_flows"], 1);
    calm(&Ring { unanswered: true, ..HEALTHY }.run().report(&[0]));
}

/// A message that starts and does not complete.
#[test]
fn a_job_that_stopped_within_a_message() {
    let mut wire = HEALTHY.run();
    let end = wire.frames.iter().map(|(ns, ..)| *ns).max().unwrap();
    let first = Transport::new(WRITE_FIRST, 2, wire.psns[&(2, 3)])
        .ext(craft::reth(0, 1, 4096))
        .payload(vec![0; 1024]);
    wire.frame(end + MS, 2, 3, ECT0, &first);
    for ms in (0..3000).step_by(100) {
        wire.other(end + (1 + ms) * MS);
    }
    let report = wire.report(&[0]);
    assert_eq!(finding(&report, "job.stalled").expect("stopped")["evidence"]["outstanding_flows"], 1);
}

/// Five hosts send to one, simultaneously or in turn; some of the packets are marked.
fn many_to_one(together: bool, marks: impl Fn(u32) -> bool) -> Value {
    let mut wire = Wire::default();
    let mut sent = [0u32; 8];
    for round in 0..200u64 {
        for src in 2..7u8 {
            let slot = if together { 0 } else { u64::from(src) * 2 * MS };
            for packet in 0..4u64 {
                let psn = &mut sent[usize::from(src)];
                let message = Transport::new(0x04, u32::from(src), *psn).payload(vec![0; 1000]);
                let tos = if marks(*psn) { CE } else { ECT0 };
                wire.frame(START_NS + round * 20 * MS + slot + packet * 50_000, src, 1, tos, &message);
                *psn += 1;
            }
        }
    }
    wire.report(&[1])
}

#[test]
fn incast_is_a_matter_when_it_costs() {
    let marked = many_to_one(true, |psn| psn % 20 == 0);
    let found = finding(&marked, "burst.incast").expect("five at once, 5 % marked");
    assert_eq!((&found["severity"], &found["evidence"]["senders_max"]), (&"warning".into(), &5.into()));
    assert_eq!(marked["incast"][0]["senders_p99"], 5);
    for (what, report) in [
        ("no marks", many_to_one(true, |_| false)),
        ("marks, one after the other", many_to_one(false, |psn| psn % 20 == 0)),
        ("a mark in a thousand", many_to_one(true, |psn| psn % 1000 == 7)),
    ] {
        assert_eq!(finding(&report, "burst.incast"), None, "{what}");
    }
    assert_eq!(many_to_one(false, |_| false)["incast"][0]["senders_max"], 1);
}

/// By hand: in a bin of one millisecond three hosts send 1, 2 and 3 packets of 1058 bytes to one; 9 bins later one of
/// them sends one packet; 10 bins later ten packets fill the last bin.
#[test]
fn bins_by_hand() {
    let mut wire = Wire::default();
    let mut send = |ms: u64, us: u64, src: u8| {
        let psn = wire.next_psn(src);
        let message = Transport::new(0x04, u32::from(src), psn).payload(vec![0; 1000]);
        wire.frame(START_NS + ms * MS + us * 1000, src, 1, ECT0, &message);
    };
    for (us, src) in [(0, 2), (100, 3), (200, 3), (300, 4), (400, 4), (999, 4)] {
        send(0, us, src);
    }
    send(10, 500, 2);
    for us in 0..10 {
        send(21, us * 10, 3);
    }
    let report = wire.report(&[1]);
    let burst = &report["bursts"][0];
    // 14 Ethernet, 20 IPv4, 8 UDP, 12 BTH, 1000 payload, 4 ICRC.
    let bytes = 1058.0;
    for (name, expected) in [
        ("bins", 22.0),
        ("active_bins", 3.0),
        ("duty_cycle", 3.0 / 22.0),
        ("mean_bytes", 17.0 * bytes / 22.0),
        ("peak_bytes", 10.0 * bytes),
        ("peak_packets", 10.0),
        ("peak_to_mean", 10.0 * 22.0 / 17.0),
        // Half of 10,580 is 5,290; the next lower power of two is 4,096.
        ("threshold_bytes", 4096.0),
        ("bursts", 2.0),
        ("burst_ratio", 2.0 / 22.0),
        ("length_max_ns", 1e6),
        ("late_packets", 0.0),
    ] {
        let reported = burst[name].as_f64().unwrap_or(f64::NAN);
        assert!(
            (reported - expected).abs() < 1e-9 * expected.max(1.0),
            "{name}: {reported}, expected {expected}"
        );
    }
    assert_eq!(burst["peak_ns"], START_NS + 21 * MS);
    let incast = &report["incast"][0];
    for (name, expected) in [("senders", 3), ("senders_max", 3), ("bins", 3), ("peak_senders", 1)] {
        assert_eq!(incast[name], expected, "{name}");
    }
    assert!((incast["several_ratio"].as_f64().unwrap() - 6.0 / 17.0).abs() < 1e-9);
}

/// Three hosts send small messages to one at once, in addition to the one that sends data to it: no queue grows.
#[test]
fn credits_are_no_incast() {
    let mut wire = Wire::default();
    for round in 0..400u64 {
        for src in 2..7u8 {
            let heavy = if src == 2 { 20 } else { 1 };
            for packet in 0..heavy {
                let psn = wire.next_psn(src);
                let payload = vec![0; if src == 2 { 1000 } else { 64 }];
                let message = Transport::new(0x04, u32::from(src), psn).payload(payload);
                let tos = if psn % 15 == 0 { CE } else { ECT0 };
                wire.frame(START_NS + round * 2 * MS + packet * 10_000, src, 1, tos, &message);
            }
        }
    }
    let report = wire.report(&[1]);
    assert_eq!(report["incast"][0]["senders_max"], 5);
    assert_eq!(finding(&report, "burst.incast"), None);
}

/// A perftest through a queue that drains at a fixed rate, seen downstream of it: strictly periodic, but not a job.
#[test]
fn messages_of_one_length_have_no_steps() {
    let mut wire = Wire::default();
    for message in 0..80u64 {
        let end = wire.send(START_NS + message * 23_300_000, 1, 2, 50, false);
        assert!(end < START_NS + (message + 1) * 23_300_000);
    }
    for ms in (0..20_000).step_by(100) {
        wire.other(START_NS + 2000 * MS + ms * MS);
    }
    for hosts in [&[1][..], &[2], &[0]] {
        let report = wire.report(hosts);
        assert_eq!(report["steps"], Value::Null);
        for id in ["step.straggler", "step.slower", "job.stalled"] {
            assert_eq!(finding(&report, id), None);
        }
    }
}
