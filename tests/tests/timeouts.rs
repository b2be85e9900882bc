//! Transport timeouts in real captures, compared with an independent count on tshark's dissection.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail like a test")]

use std::collections::BTreeMap;
use std::process::Command;

use rocescope_tests::needs::installed_or_skip;
use rocescope_tests::oracle::{binary, captures};

/// Shorter than the timers of these captures (67 ms and 2.2 s), longer than a sender's reaction to an answer, in
/// seconds.
const TIMER: f64 = 0.055;
/// Minimum silence of a sender before a go-back-N, in seconds.
const SILENCE: f64 = 0.001;
const READ_REQUEST: u8 = 12;
/// Path MTU of the captures with READs.
const MTU: u32 = 1_024;

/// A packet as dissected by tshark.
struct Dissected {
    time: f64,
    hosts: (String, String),
    qp: u32,
    opcode: u8,
    psn: u32,
    is_nak: bool,
    read_bytes: u32,
}

fn dissected(name: &str) -> Option<Vec<Dissected>> {
    let fields =
        ["frame.time_relative", "ip.src", "ip.dst", "infiniband.bth.destqp", "infiniband.bth.opcode"];
    let more = ["infiniband.bth.psn", "infiniband.aeth.syndrome", "infiniband.reth.dmalen"];
    let mut command = Command::new("tshark");
    command.arg("-r").arg(captures::folder().join(name));
    command.args(["-Y", "infiniband.bth", "-T", "fields", "-E", "separator=;"]);
    command.args(fields.iter().chain(&more).flat_map(|field| ["-e", field]));
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let packet = |line: &str| {
        let part: Vec<&str> = line.split(';').collect();
        Dissected {
            time: part[0].parse().unwrap(),
            hosts: (part[1].into(), part[2].into()),
            qp: u32::from_str_radix(part[3].trim_start_matches("0x"), 16).unwrap(),
            opcode: part[4].parse().unwrap(),
            psn: part[5].parse().unwrap(),
            is_nak: part[6].parse::<u8>().is_ok_and(|syndrome| syndrome >> 5 == 3),
            read_bytes: part[7].parse().unwrap_or(0),
        }
    };
    Some(text.lines().map(packet).collect())
}

/// The requests of a queue pair.
#[derive(Default)]
struct Requester {
    last: f64,
    /// The PSN after its last packet.
    next: u32,
    /// The highest PSN so far, including READ responses.
    high: Option<u32>,
    /// The PSN of its latest go-back-N, unless a NAK has arrived since.
    went_back: Option<u32>,
    nak_since: bool,
    answered: f64,
}

/// Timeouts according to the silence of the peer, the sender's silence before them in milliseconds, and further cases
/// in which a sender goes back to one PSN twice for one NAK. `peer` maps a queue pair to the one that gets its
/// answers.
fn by_hand(packets: &[Dissected], peer: fn(u32) -> u32) -> (u64, u64, u64) {
    let mut requesters: BTreeMap<((String, String), u32), Requester> = BTreeMap::new();
    let (mut timeouts, mut silence, mut twice) = (0, 0.0, 0);
    for packet in packets {
        let (src, dst) = packet.hosts.clone();
        if !matches!(packet.opcode, 0..=READ_REQUEST) {
            if let Some(asks) = requesters.get_mut(&((dst, src), peer(packet.qp))) {
                asks.answered = packet.time;
                asks.nak_since |= packet.is_nak;
            }
            continue;
        }
        let own = requesters.entry(((src, dst), packet.qp)).or_default();
        let paused = packet.time - own.last;
        if own.high.is_some_and(|high| packet.psn <= high) && paused >= SILENCE {
            // A READ also waits for its responses.
            let waited =
                if packet.opcode == READ_REQUEST { paused.min(packet.time - own.answered) } else { paused };
            let goes_back = own.went_back == Some(packet.psn) && !own.nak_since;
            if packet.time - own.answered >= TIMER && own.next != packet.psn {
                timeouts += 1;
                silence += waited;
            } else if goes_back {
                twice += 1;
            }
        }
        if own.high.is_some_and(|high| packet.psn <= high) && own.next != packet.psn {
            (own.went_back, own.nak_since) = (Some(packet.psn), false);
        }
        let span = if packet.opcode == READ_REQUEST { packet.read_bytes.div_ceil(MTU).max(1) } else { 1 };
        own.high = own.high.max(Some(packet.psn + span - 1));
        (own.last, own.next) = (packet.time, packet.psn + span);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some seconds, never negative"
    )]
    let milliseconds = (silence * 1e3).round() as u64;
    (timeouts, milliseconds, twice)
}

/// From the report: timeouts, and the silence before them in milliseconds.
fn reported(name: &str) -> (u64, u64) {
    let report = binary::replay(&[captures::folder().join(name)], [] as [&str; 0]).unwrap();
    let flows = report["flows"].as_array().unwrap().iter();
    let sum = |of| flows.clone().filter_map(|flow| flow["loss"][of].as_u64()).sum::<u64>();
    (sum("timeouts"), (sum("timeout_wait_ns") + 500_000) / 1_000_000)
}

#[test]
fn timeouts_are_those_that_one_counts_by_hand() {
    if !installed_or_skip("timeouts_are_those_that_one_counts_by_hand", "tshark") {
        return;
    }
    // Connections with equal numbers at both ends; and one between 32 and 36.
    let same: fn(u32) -> u32 = |qp| qp;
    let rping: fn(u32) -> u32 = |qp| 68 - qp;
    for (name, peer, expected) in [
        ("e1_loss1.h0.pcap.gz", same, (15, 892, 3)),
        ("e3_reorder.h0.pcap.gz", same, (11, 757, 0)),
        ("h6_rping_loss.h0.pcap.gz", rping, (11, 25_141, 0)),
        ("h6_rping_loss.h1.pcap.gz", rping, (9, 20_544, 0)),
    ] {
        let packets: Vec<Dissected> =
            dissected(name).unwrap().into_iter().filter(|packet| packet.qp > 1).collect();
        let (timeouts, silence_ms, twice) = by_hand(&packets, peer);
        assert_eq!((timeouts, silence_ms, twice), expected, "{name}");
        let (said, said_ms) = reported(name);
        assert_eq!(said, timeouts + twice, "{name}");
        assert!(said_ms >= silence_ms && (twice > 0 || said_ms == silence_ms), "{name}: {said_ms} ms");
    }
    // The same downstream of the reordering.
    assert_eq!(reported("e3_reorder.h1.pcap.gz").0, 11);
}
