//! Link type 247: the local route header comes first, without a record around it. Flows and skips are those that tshark
//! dissects in the same packets as ERF records (197), since it does not read 247 (4.0: "network type 247 unknown or
//! unsupported").

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::Command;

use rocescope_tests::capture_file::{Order, Pcap, erf};
use rocescope_tests::oracle::{binary, tshark};
use serde_json::Value;

const LINKTYPE_ERF: u16 = 197;
const LINKTYPE_INFINIBAND: u16 = 247;
const START_NS: u64 = 1_772_370_309_000_000_000;
/// Congestion was seen on the way, and by the other end, in the fifth byte of the BTH.
const FECN: u8 = 0x80;
const BECN: u8 = 0x40;

/// Next header after the LRH.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    RawIpv6 = 1,
    Bth = 2,
    Grh = 3,
}

/// A packet: LRH, GRH if asked for, BTH and what follows it, ICRC and, if asked for, VCRC.
fn packet(lane: u8, next: Next, [slid, dlid]: [u16; 2], bth: &[u8], has_vcrc: bool) -> Vec<u8> {
    let mut inner = Vec::new();
    if next == Next::Grh {
        inner.extend([0x60, 0, 0, 0]);
        inner.extend(u16::try_from(bth.len() + 4).unwrap().to_be_bytes());
        inner.extend([0x1B, 64]);
        for lid in [slid, dlid] {
            inner.extend(gid(lid).octets());
        }
    }
    inner.extend(bth);
    inner.extend([0; 4]);
    let words = u16::try_from((8 + inner.len()) / 4).unwrap();
    let mut all = vec![lane << 4, 0x30 | next as u8];
    for word in [dlid, words, slid] {
        all.extend(word.to_be_bytes());
    }
    all.extend(inner);
    all.extend(if has_vcrc { &[0; 2][..] } else { &[] });
    all
}

fn gid(lid: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xFE80, 0, 0, 0, 2, 0xC903, 0, lid)
}

fn bth(opcode: u8, marks: u8, qp: u8, psn: u8, rest: &[u8]) -> Vec<u8> {
    [&[opcode, 0, 0xFF, 0xFF, marks, 0, 0, qp, 0, 0, 0, psn][..], rest].concat()
}

/// What can be on such a link; the VCRC may be missing, but in ERF records it is there.
fn packets(link_type: u16) -> Vec<Vec<u8>> {
    const WRITE_ONLY: u8 = 0x0A;
    let write = |marks, psn| {
        let reth = [&[0; 8][..], &[0, 0, 0, 1, 0, 0, 0, 64], &[7; 64]].concat();
        bth(WRITE_ONLY, marks, 0x11, psn, &reth)
    };
    let (there, back) = ([0x21, 0x22], [0x22, 0x21]);
    let vcrc = link_type == LINKTYPE_ERF;
    vec![
        packet(0, Next::Bth, there, &write(0, 1), true),
        packet(0, Next::Bth, there, &write(FECN, 2), vcrc),
        packet(3, Next::Grh, there, &write(0, 1), true),
        packet(3, Next::Grh, there, &write(FECN, 2), true),
        packet(3, Next::Grh, there, &write(0, 3), vcrc),
        // An ACK that answers a mark, and CNPs: of InfiniBand, and with the opcode of RoCEv2.
        packet(0, Next::Bth, back, &bth(0x11, BECN, 0x31, 2, &[0x1F, 0, 0, 2]), true),
        packet(0, Next::Bth, back, &bth(0x80, BECN, 0x31, 0, &[0; 16]), true),
        packet(0, Next::Bth, back, &bth(0x81, BECN, 0x31, 0, &[0; 16]), true),
        // A subnet management packet, and IPv6 without a transport.
        packet(15, Next::Bth, there, &bth(0x64, 0, 0, 4, &[0; 8 + 256]), true),
        packet(0, Next::RawIpv6, there, &[0x60; 40], true),
    ]
}

/// Packets by source, destination, destination queue pair and opcode, and those that are no transport, as tshark reads
/// them.
type Counted = (BTreeMap<(String, String, u64, u64), u64>, [u64; 2]);

fn counted_by_tshark(path: &Path) -> Counted {
    const FIELDS: [&str; 8] = [
        "infiniband.lrh.vl",
        "infiniband.lrh.lnh",
        "infiniband.lrh.slid",
        "infiniband.lrh.dlid",
        "infiniband.grh.sgid",
        "infiniband.grh.dgid",
        "infiniband.bth.destqp",
        "infiniband.bth.opcode",
    ];
    let mut command = Command::new("tshark");
    command.arg("-r").arg(path).args(["-T", "fields", "-E", "separator=;", "-E", "occurrence=f"]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    let number = |text: &str| {
        let hex = text.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16));
        hex.unwrap_or_else(|| text.parse()).unwrap()
    };
    let (mut flows, mut others) = (BTreeMap::new(), [0, 0]);
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let fields: Vec<&str> = line.split(';').collect();
        match (number(fields[0]), number(fields[1])) {
            (15, _) => others[0] += 1,
            (_, 0 | 1) => others[1] += 1,
            (_, next) => {
                let address = |lid: &str, gid: &str| match next {
                    3 => gid.parse::<Ipv6Addr>().unwrap().to_string(),
                    _ => format!("lid:0x{:04x}", number(lid)),
                };
                let (src, dst) = (address(fields[2], fields[4]), address(fields[3], fields[5]));
                // CNPs of InfiniBand are counted under the opcode of RoCEv2.
                let opcode = if fields[7] == "128" { 0x81 } else { number(fields[7]) };
                *flows.entry((src, dst, number(fields[6]), opcode)).or_insert(0) += 1;
            }
        }
    }
    (flows, others)
}

#[test]
fn packets_of_link_type_247_are_those_that_tshark_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ib.pcap");
    let records = folder.path().join("erf.pcap");
    for (path, link_type) in [(&path, LINKTYPE_INFINIBAND), (&records, LINKTYPE_ERF)] {
        let mut file = Pcap::new(Order::Little, true, link_type);
        for (at, packet) in (0..).zip(packets(link_type)) {
            let frame = if link_type == LINKTYPE_ERF { erf(&packet) } else { packet };
            file.packet(START_NS + at * 1_000, &frame);
        }
        std::fs::write(path, file.finish()).unwrap();
    }
    let report = binary::replay(&[path], [] as [&str; 0]).unwrap();
    let flows = report["flows"].as_array().unwrap();
    let mut own = BTreeMap::new();
    for flow in flows {
        let text = |field: &str| flow[field].as_str().unwrap().to_owned();
        for opcode in flow["opcodes"].as_array().unwrap() {
            let key = (
                text("src"),
                text("dst"),
                flow["dest_qp"].as_u64().unwrap(),
                opcode["code"].as_u64().unwrap(),
            );
            own.insert(key, opcode["packets"].as_u64().unwrap());
        }
    }
    let skipped = &report["totals"]["skipped"];
    let others = ["infiniband_management", "infiniband_raw"].map(|why| skipped[why].as_u64().unwrap_or(0));
    assert_eq!(others, [1, 1], "{skipped}");
    // tshark 4.0 does not dissect FECN and BECN: what was sent is the truth.
    let of = |src: &str| -> &Value { flows.iter().find(|flow| flow["src"] == src).unwrap() };
    let (plain, global, back) = (of("lid:0x0021"), of(&gid(0x21).to_string()), of("lid:0x0022"));
    assert_eq!((&plain["ecn"]["ce"], &plain["ecn"]["ect0"]), (&Value::from(1), &Value::from(1)), "{plain}");
    assert_eq!(
        (&global["ecn"]["ce"], &global["ecn"]["ect0"]),
        (&Value::from(1), &Value::from(2)),
        "{global}"
    );
    assert_eq!((&back["cnp_packets"], &back["ack"]["acks"]), (&Value::from(3), &Value::from(1)), "{back}");
    assert_eq!(report["entropy"]["normalized"], Value::Null, "there are no ports");
    // Without their VCRC, which each hop computes anew.
    assert_eq!(plain["bytes"], 2 * (8 + 12 + 16 + 64 + 4), "{plain}");
    if tshark::available().unwrap() {
        assert_eq!((own, others), counted_by_tshark(&records));
    }
}
