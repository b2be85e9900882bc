//! One link with all kinds of problems, watched live and replayed: the kernel programs and a capture of the same
//! frames, at their times of sending, must give the same findings.
//!
//! Findings that only a replay can evaluate (`icrc.errors`, `loss.between_taps`), that are read from devices, and
//! that concern steps (see `job.rs`) are left out.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rocescope_tests::capture_file::{ETHERNET, Order, Pcap};
use rocescope_tests::craft::{self, Mac, Net, Transport};
use rocescope_tests::live::program::Program;
use rocescope_tests::live::wire::World;
use rocescope_tests::needs_root;
use rocescope_tests::oracle::binary;
use serde_json::Value;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const START: u64 = 1_800_000_000_000_000_000;
/// DSCP 26 without ECN, ECT(0), CE.
const OFF: u8 = 26 << 2;
const ECT: u8 = OFF | 2;
const CE: u8 = OFF | 3;
const SEND_ONLY: u8 = 0x04;
const WRITE_MIDDLE: u8 = 0x07;
const WRITE_LAST: u8 = 0x08;

/// Findings that both `live` and `replay` must raise, in order.
const EXPECTED: [&str; 22] = [
    "burst.incast",
    "cnp.without_ce",
    "ecn.congestion",
    "ecn.no_cnp",
    "ecn.not_capable",
    "entropy.low",
    "isolation.foreign_traffic",
    "latency.tail",
    "links.imbalance",
    "loss.after_tap",
    "loss.before_tap",
    "mtu.small",
    "nak.invalid_request",
    "nak.remote_access_error",
    "nak.remote_operational_error",
    "peer.silent",
    "qos.cnp_dscp",
    "qos.dscp_mixed",
    "qos.dscp_unset",
    "retry.storm",
    "rnr.slow_receiver",
    "rocev1.present",
];

/// Volume thresholds are lowered, since this link carries less than a real one.
const CONFIG: &str = "[findings.mtu]\nmin_bytes = 100000\n[findings.qos]\nmin_bytes = 100000\n\
                      [findings.isolation]\nmin_bytes = 100000\n";

/// Frames with their times of sending.
#[derive(Default)]
struct Script(Vec<(u64, Vec<u8>)>);

/// A connection between hosts 1 and 2 of a separate network.
#[derive(Clone, Copy)]
struct Connection {
    network: u8,
    tos: u8,
}

impl Connection {
    fn port(self) -> u16 {
        50_000 + u16::from(self.network)
    }

    fn there(self) -> Net {
        Net::v4([10, 9, self.network, 1], [10, 9, self.network, 2]).tos(self.tos)
    }

    fn back(self) -> Net {
        Net::v4([10, 9, self.network, 2], [10, 9, self.network, 1]).tos(ECT)
    }

    /// Queue pairs at the two ends.
    fn qps(self) -> (u32, u32) {
        (0x1000 + u32::from(self.network), 0x2000 + u32::from(self.network))
    }
}

impl Script {
    fn frame(&mut self, at: u64, inside: &craft::Typed) {
        self.0.push((at, craft::ethernet(Mac::SRC, Mac::DST, inside)));
    }

    fn request(&mut self, at: u64, of: Connection, psn: u32, ack_req: bool) {
        let transport =
            Transport { ack_req, ..Transport::new(SEND_ONLY, of.qps().0, psn).payload(vec![1; 64]) };
        self.frame(at, &of.there().roce(of.port(), &transport));
    }

    fn answer(&mut self, at: u64, of: Connection, psn: u32, syndrome: u8) {
        self.frame(at, &of.back().roce(of.port(), &Transport::ack(of.qps().1, psn, syndrome, 0)));
    }

    fn cnp(&mut self, at: u64, of: Connection) {
        self.frame(at, &of.back().roce(of.port(), &Transport::cnp(of.qps().1)));
    }

    /// Acknowledged requests, so that the pair is known. Returns the next PSN.
    fn greet(&mut self, of: Connection) -> u32 {
        for psn in 0..40 {
            self.request(u64::from(psn) * 4 * MS, of, psn, true);
            self.answer(u64::from(psn) * 4 * MS + 200 * US, of, psn, 0x1F);
        }
        40
    }

    /// All problems in less than three seconds.
    fn everything() -> Self {
        let mut script = Self::default();
        let connection = |network, tos| Connection { network, tos };
        script.marks(connection(0, ECT));
        script.notifications(connection(1, ECT));
        script.losses(connection(2, ECT), false);
        script.losses(connection(3, ECT), true);
        for (network, syndrome) in [(4, 0x61), (5, 0x62), (6, 0x63)] {
            let refused = connection(network, ECT);
            let psn = script.greet(refused);
            script.request(300 * MS, refused, psn, true);
            script.answer(301 * MS, refused, psn, syndrome);
        }
        script.not_ready(connection(7, ECT));
        script.tail(connection(8, ECT));
        script.shared_port();
        script.classes();
        script.old_and_foreign();
        script.incast();
        script.silent(connection(15, ECT));
        script.0.sort_by_key(|(at, _)| *at);
        script
    }

    /// Every third packet is marked without any CNP, for longer than the time between two readings of a live run,
    /// from which alone it knows the duration of marking.
    fn marks(&mut self, of: Connection) {
        let first = self.greet(of);
        for n in 0..600 {
            let of = Connection { tos: if n % 3 == 0 { CE } else { ECT }, ..of };
            let at = 200 * MS + u64::from(n) * 3_500 * US;
            self.request(at, of, first + n, n % 16 == 15);
            if n % 16 == 15 {
                self.answer(at + 300 * US, of, first + n, 0x1F);
            }
        }
    }

    fn notifications(&mut self, of: Connection) {
        let first = self.greet(of);
        for n in 0..300 {
            let at = 200 * MS + u64::from(n) * 2 * MS;
            self.request(at, of, first + n, n % 8 == 7);
            if n % 8 == 7 {
                self.answer(at + 200 * US, of, first + n, 0x1F);
            }
            if n % 15 == 14 {
                self.cnp(at + 400 * US, of);
            }
        }
    }

    /// A NAK and a go-back-N retransmission; the packet was seen at the tap, or not.
    fn losses(&mut self, of: Connection, passed: bool) {
        let mut psn = self.greet(of);
        let mut at = 200 * MS;
        for _ in 0..8 {
            let lost = psn + 10;
            for n in (psn..psn + 40).filter(|n| passed || *n != lost) {
                self.request(at, of, n, false);
                at += 200 * US;
            }
            self.answer(at, of, lost, 0x60);
            at += 500 * US;
            for n in lost..psn + 40 {
                self.request(at, of, n, n == psn + 39);
                at += 200 * US;
            }
            self.answer(at + 200 * US, of, psn + 39, 0x1F);
            psn += 40;
            at += 20 * MS;
        }
    }

    fn not_ready(&mut self, of: Connection) {
        let psn = self.greet(of);
        for n in 0..8 {
            let at = 200 * MS + u64::from(n) * 20 * MS;
            self.request(at, of, psn + n, true);
            self.answer(at + 200 * US, of, psn + n, 0x2C);
            self.request(at + 5 * MS, of, psn + n, true);
            self.answer(at + 5 * MS + 200 * US, of, psn + n, 0x1F);
        }
    }

    /// One in twenty requests waits for 20 ms.
    fn tail(&mut self, of: Connection) {
        let first = self.greet(of);
        let mut at = 200 * MS;
        for n in 0..560 {
            self.request(at, of, first + n, true);
            let wait = if n % 20 == 19 { 20 * MS } else { 100 * US };
            self.answer(at + wait, of, first + n, 0x1F);
            at += wait + MS;
        }
    }

    /// Six queue pairs with one source port.
    fn shared_port(&mut self) {
        let net = Net::v4([10, 9, 9, 1], [10, 9, 9, 2]).tos(ECT);
        for n in 0..300 {
            let transport = Transport::new(SEND_ONLY, 0x3000 + n % 6, n / 6).payload(vec![1; 512]);
            self.frame(200 * MS + u64::from(n) * 700 * US, &net.roce(51_000, &transport));
        }
    }

    /// Two traffic classes between the same hosts, most of the data without one, CNPs in the class of the data, and
    /// packets of 512 bytes where 1024 would fit.
    fn classes(&mut self) {
        for n in 0..1_200u32 {
            let tos = if n % 4 == 3 { OFF } else { 0 };
            let (length, qp) = if n % 4 == 3 { (512, 0x3100) } else { (1024, 0x3101) };
            let net = Net::v4([10, 9, 10, 1], [10, 9, 10, 2]).tos(tos);
            // Both messages end: a queue pair that is silent within one is another finding.
            let opcode = if n < 1_198 { WRITE_MIDDLE } else { WRITE_LAST };
            let transport = Transport::new(opcode, qp, n / 4 * if n % 4 == 3 { 1 } else { 3 } + n % 4 % 3);
            self.frame(
                300 * MS + u64::from(n) * 400 * US,
                &net.roce(51_001, &transport.payload(vec![1; length])),
            );
        }
        let net = Net::v4([10, 9, 10, 2], [10, 9, 10, 1]).tos(0);
        for n in 0..12 {
            self.frame(800 * MS + n * 20 * MS, &net.roce(0, &Transport::cnp(0x3200)));
        }
    }

    fn old_and_foreign(&mut self) {
        for n in 0..60u32 {
            let transport = Transport::new(SEND_ONLY, 0x3300, n).payload(vec![1; 1024]);
            let frame = craft::roce_v1([1; 16], [2; 16], 0, &transport);
            self.frame(300 * MS + u64::from(n) * 5 * MS, &frame);
        }
        let net = Net::v4([10, 9, 11, 1], [10, 9, 11, 2]);
        for n in 0..200 {
            self.frame(320 * MS + n * 3 * MS, &net.wrap(6, &vec![0; 1400]));
        }
    }

    /// Four senders simultaneously, with marks, and one at a time, without marks.
    fn incast(&mut self) {
        let send = |script: &mut Self, at: u64, sender: u8, psn: u32, tos: u8| {
            let net = Net::v4([10, 9, 14, sender], [10, 9, 14, 9]).tos(tos);
            let transport = Transport::new(SEND_ONLY, 0x3400 + u32::from(sender), psn).payload(vec![1; 512]);
            script.frame(at, &net.roce(52_000 + u16::from(sender), &transport));
        };
        for round in 0..60u32 {
            let at = 300 * MS + u64::from(round) * 16 * MS;
            for sender in 1..5u8 {
                let near = u64::from(sender) * 20 * US;
                for n in 0..4 {
                    let psn = round * 6 + n;
                    send(
                        self,
                        at + near + u64::from(n) * 80 * US,
                        sender,
                        psn,
                        if n % 2 == 0 { CE } else { ECT },
                    );
                }
                for n in 4..6 {
                    send(self, at + u64::from(sender) * 3 * MS, sender, round * 6 + n, ECT);
                }
            }
        }
    }

    fn silent(&mut self, of: Connection) {
        for round in 0..7 {
            for psn in 0..2 {
                self.request(300 * MS + round * 250 * MS + u64::from(psn) * 200 * US, of, psn, true);
            }
        }
    }
}

fn ids(report: &Value) -> BTreeSet<String> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|finding| finding["id"].as_str().unwrap().to_owned()).collect()
}

/// The last report of a live run on this traffic, and capture files of the same frames.
fn watch(folder: &Path, script: Script, more: &[&str]) -> (Value, Vec<PathBuf>) {
    let config = folder.join("config.toml");
    std::fs::write(&config, CONFIG).unwrap();
    let world = World::new().unwrap();
    // The second link carries no traffic.
    let (link, _idle) = (world.link("near0", 1500).unwrap(), world.link("near1", 1500).unwrap());
    let options = ["-i", "near0", "-i", "near1", "--output", "json", "--config", config.to_str().unwrap()];
    let program = Program::live(&world.near, &[&options, more].concat()).unwrap();
    let Script(script) = script;
    let mut capture = Pcap::new(Order::Little, true, ETHERNET);
    let start = Instant::now();
    for (at, frame) in &script {
        let due = start + Duration::from_nanos(*at);
        while let Some(left) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(left);
        }
        capture.packet(START + u64::try_from(start.elapsed().as_nanos()).unwrap(), frame);
        link.far.send(frame).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    let live = program.interrupt().unwrap().report().unwrap();
    let sent = u64::try_from(script.len()).unwrap();
    assert!(live["totals"]["packets"].as_u64() >= Some(sent), "{}", live["totals"]);
    let files = ["near0.pcap", "near1.pcap"].map(|name| folder.join(name));
    std::fs::write(&files[0], capture.finish()).unwrap();
    std::fs::write(&files[1], Pcap::new(Order::Little, true, ETHERNET).finish()).unwrap();
    (live, files.into())
}

fn not_evaluated(report: &Value) -> Vec<&str> {
    report["unjudged"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect()
}

#[test]
fn live_and_replay_come_to_the_same_findings() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let (live, files) = watch(folder.path(), Script::everything(), &[]);
    let config = folder.path().join("config.toml");
    let grouped = ["--group", "near0.pcap,near1.pcap", "--config", config.to_str().unwrap()];
    let replayed = binary::replay(&files, grouped).unwrap();
    assert_eq!(ids(&replayed), EXPECTED.map(str::to_owned).into(), "replay: {:#}", replayed["findings"]);
    assert_eq!(ids(&live), EXPECTED.map(str::to_owned).into(), "live: {:#}", live["findings"]);
    // A live run names the findings that it cannot evaluate.
    let of_replay =
        ["icrc.errors", "loss.between_taps", "path.mtu_black_hole", "path.rewritten", "qp.psn_overlap"];
    assert_eq!(not_evaluated(&live), of_replay);
    assert_eq!(not_evaluated(&replayed), [""; 0]);
    // Flows whose reverse direction is not visible are followed once they retransmit.
    let late = |flow: &Value| !flow["loss_unfollowed"].is_null() && !flow["loss"].is_null();
    assert!(live["flows"].as_array().unwrap().iter().any(late), "{:#}", live["flows"]);
}

/// A mirror port that shows both directions of another port shows each packet twice: nothing of it is loss or a
/// retransmission, live no more than in a replay, and the doubling is reported.
#[test]
fn a_mirror_of_both_directions_is_no_trouble() {
    const REQUESTS: u32 = 800;
    needs_root!();
    let mut script = Script::default();
    for host in 0..2 {
        let of = Connection { network: 20 + host, tos: ECT };
        // Known pairs first, of which the kernel reports what repeats.
        let first = script.greet(of);
        for n in 0..REQUESTS {
            let at = 1_500 * MS + u64::from(n) * 2 * MS;
            for copy in 0..2 {
                script.request(at + copy * US, of, first + n, n % 4 == 3);
                if n % 4 == 3 {
                    script.answer(at + 400 * US + copy * US, of, first + n, 0x1F);
                }
            }
        }
    }
    script.0.sort_by_key(|(at, _)| *at);
    let folder = tempfile::tempdir().unwrap();
    let (live, files) = watch(folder.path(), script, &[]);
    let replayed = binary::replay(&files[..1], [] as [&str; 0]).unwrap();
    for (way, report) in [("live", &live), ("replay", &replayed)] {
        let findings = report["findings"].as_array().unwrap();
        // The second link is idle.
        let is_wrong = |one: &&Value| one["severity"] != "info" && one["id"] != "links.imbalance";
        let wrong: Vec<&Value> = findings.iter().filter(is_wrong).collect();
        assert!(wrong.is_empty(), "{way}: {wrong:#?}");
        let twice = findings.iter().find(|one| one["id"] == "capture.duplicates");
        let twice = twice.unwrap_or_else(|| panic!("{way}: {:#}", report["flows"]));
        assert!(twice["evidence"]["copies"].as_u64() >= Some(u64::from(REQUESTS)), "{way}: {twice}");
    }
}

/// Without exact times, findings that do not need them are raised; the others are reported as not evaluated.
#[test]
fn without_timing_findings_that_need_it_are_not_evaluated() {
    const OPEN: [&str; 6] =
        ["burst.incast", "latency.tail", "loss.after_tap", "loss.before_tap", "peer.silent", "retry.storm"];
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let (live, _) = watch(folder.path(), Script::everything(), &["--no-timing"]);
    let expected = EXPECTED.iter().filter(|id| !OPEN.contains(id)).map(|id| (*id).to_owned());
    assert_eq!(ids(&live), expected.collect(), "{:#}", live["findings"]);
    let open = not_evaluated(&live);
    assert!(OPEN.iter().all(|id| open.contains(id)), "{open:?}");
    assert!(ids(&live).iter().all(|id| !open.contains(&id.as_str())), "{open:?}");
    for name in ["bursts", "incast", "steps"] {
        assert!(live[name].is_null(), "{name}");
    }
}
