//! Single packets with known fields: replay must decode them, and their ICRC must be correct.
//!
//! The packets come from the Linux kernel's Soft-RoCE driver and one other source (see the column of that name), so
//! their bytes and ICRCs are independent of this project.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper of tests may fail like a test")]

use rocescope_tests::capture_file::{ETHERNET, Order, Pcap, RAW_IP};
use rocescope_tests::oracle::{binary, captures, icrc};

struct Vector {
    name: String,
    starts_at: String,
    opcode: u64,
    dest_qp: u64,
    psn: u64,
    pad: u8,
    payload: u64,
    bytes: Vec<u8>,
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a hexadecimal number")
}

fn vectors() -> Vec<Vector> {
    let table = std::fs::read_to_string(captures::folder().join("vectors.tsv")).expect("vectors.tsv");
    let mut lines = table.lines();
    let heading = "name\tstarts_at\topcode\tdestqp\tpsn\tpad\tpayload_len\tsource\tlicence\thex";
    assert_eq!(lines.next(), Some(heading));
    let vectors: Vec<_> = lines
        .map(|line| {
            let columns: Vec<_> = line.split('\t').collect();
            let digits = columns[9].as_bytes().chunks(2);
            Vector {
                name: columns[0].to_owned(),
                starts_at: columns[1].to_owned(),
                opcode: hexadecimal(columns[2]),
                dest_qp: hexadecimal(columns[3]),
                psn: columns[4].parse().expect("psn"),
                pad: columns[5].parse().expect("pad"),
                payload: columns[6].parse().expect("payload_len"),
                bytes: digits
                    .map(|pair| u8::try_from(hexadecimal(std::str::from_utf8(pair).unwrap())).unwrap())
                    .collect(),
            }
        })
        .collect();
    assert!(vectors.len() >= 60, "{} vectors", vectors.len());
    vectors
}

fn word(bytes: &[u8], at: usize) -> usize {
    usize::from(bytes[at]) << 8 | usize::from(bytes[at + 1])
}

/// The innermost RoCE packet, from its IP header to its ICRC, and the offset of its BTH.
///
/// Handles only what the vectors contain: tags, IPv4 without options, IPv6, VXLAN.
fn innermost(vector: &Vector) -> (&[u8], usize) {
    let frame = &vector.bytes;
    let mut at = 0;
    let mut ethernet = vector.starts_at == "eth";
    loop {
        if ethernet {
            at += 12;
            while matches!(word(frame, at), 0x8100 | 0x88A8) {
                at += 4;
            }
            at += 2;
        }
        let (header, length) = match frame[at] >> 4 {
            4 => (20, word(frame, at + 2)),
            _ => (40, 40 + word(frame, at + 4)),
        };
        match word(frame, at + header + 2) {
            4791 => return (&frame[at..at + length], header + 8),
            4789 => at += header + 16,
            port => panic!("{}: port {port}", vector.name),
        }
        ethernet = true;
    }
}

#[test]
fn the_table_agrees_with_the_bytes() {
    for vector in vectors() {
        let (packet, bth) = innermost(&vector);
        assert_eq!(icrc::holds(packet, false), Some(true), "ICRC of {}", vector.name);
        assert_eq!(u64::from(packet[bth]), vector.opcode, "opcode of {}", vector.name);
        assert_eq!(packet[bth + 1] >> 4 & 3, vector.pad, "pad of {}", vector.name);
    }
}

/// Every bit covered by the ICRC must count, and none that a router may change.
#[test]
fn the_icrc_covers_what_it_should() {
    let vectors = vectors();
    for name in ["ipv4_0a_pad3", "ipv6_11_pad0"] {
        let vector = vectors.iter().find(|vector| vector.name == name).expect("a vector of that name");
        let (packet, bth) = innermost(vector);
        let v6 = packet[0] >> 4 == 6;
        for byte in 0..packet.len() {
            let mut changed = packet.to_vec();
            changed[byte] ^= 0x01;
            let free = match (v6, byte) {
                (false, 1 | 8 | 10 | 11) | (true, 1..=3 | 7) => true,
                _ => byte == bth - 2 || byte == bth - 1 || byte == bth + 4,
            };
            // The first byte of IPv4 also determines the start of the next header.
            if v6 || byte != 0 {
                // In IPv6 the low half of the first byte belongs to the traffic class.
                let free = free || (v6 && byte == 0);
                assert_eq!(icrc::holds(&changed, false), Some(free), "{name}: byte {byte}");
            }
        }
    }
}

#[test]
fn replay_reads_them_as_the_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for vector in vectors() {
        let path = folder.path().join(format!("{}.pcap", vector.name));
        let link_type = if vector.starts_at == "eth" { ETHERNET } else { RAW_IP };
        let mut file = Pcap::new(Order::Little, true, link_type);
        file.packet(1_700_000_000_123_456_789, &vector.bytes);
        std::fs::write(&path, file.finish()).unwrap();
        let report = match binary::replay(&[path], [] as [&str; 0]) {
            Ok(report) => report,
            Err(error) => {
                found.push(format!("{}: {error:#}", vector.name));
                continue;
            }
        };
        let flow = &report["flows"][0];
        // The opcode determines the sequence; ACKs and datagrams belong to none.
        let sequence = match vector.opcode & 0x1F {
            low if low == 0x11 || vector.opcode >> 5 == 3 => None,
            0x0D..=0x10 | 0x12 => Some("psn_responses"),
            _ => Some("psn"),
        };
        let mut check = |what: &str, is: &serde_json::Value, should: u64| {
            if is != &serde_json::json!(should) {
                found.push(format!("{}: {what} {is}, should be {should}", vector.name));
            }
        };
        check("roce_packets", &report["totals"]["roce_packets"], 1);
        check("dest_qp", &flow["dest_qp"], vector.dest_qp);
        check("opcode", &flow["opcodes"][0]["code"], vector.opcode);
        check("payload_bytes", &flow["payload_bytes"], vector.payload);
        check("payload_unknown", &flow["payload_unknown"], 0);
        check("first_ns", &flow["first_ns"], 1_700_000_000_123_456_789);
        for (field, value) in [("psn", &flow["psn"]), ("psn_responses", &flow["psn_responses"])] {
            if sequence == Some(field) {
                check(&format!("{field}.first"), &value["first"], vector.psn);
            } else if !value.is_null() {
                check(field, value, 0);
            }
        }
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

/// The bit errors of a faulty link, and only those, are found by the ICRC.
#[test]
fn corrupted_packets_are_those_with_a_wrong_icrc() {
    let wrong = |name: &str| {
        let plain = captures::plain(&captures::folder().join(name)).unwrap().expect("a plain pcap file");
        let whole = plain.frames.iter().filter(|(bytes, length)| bytes.len() == *length as usize);
        let packets = whole.map(|(bytes, _)| {
            let end = 14 + word(bytes, 16);
            icrc::holds(&bytes[14..end], false).expect("a RoCE packet")
        });
        let (right, wrong): (Vec<_>, Vec<_>) = packets.partition(|holds| *holds);
        (right.len(), wrong.len())
    };
    assert_eq!(wrong("b5_ops_full.h0.pcap"), (172, 0));
    assert_eq!(wrong("g_rnr.h0.pcap"), (111, 0));
    assert_eq!(wrong("e5_corrupt_full.h1.pcap"), (68, 3));
}
