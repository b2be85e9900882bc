//! Compares the parser with tshark, frame by frame: layers and fields.
//!
//! The captures in `data/encap` are real tunnels and mirrors, though without RoCE inside; RoCE
//! inside them is crafted.

#![expect(clippy::expect_used, reason = "a helper of tests may fail like a test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use rocescope_common::wire::frame::{Encap, Full, PCP_NONE, Tag, UNKNOWN, VLAN_UNKNOWN};
use rocescope_common::wire::{self, Entry, Frame, Layer, Meta, SkipReason, Trace, cooked, parse};
use rocescope_tests::oracle::captures::{self, PlainPcap};
use rocescope_tests::oracle::packet::{self, Content, Packet};
use rocescope_tests::oracle::{cases, icrc, layers, tshark};

/// Capture, its most frequent layer path, and the number of frames with that path.
const EXPECTED: [(&str, &str, usize); 33] = [
    ("arkime_gre-erspan-vxlan.pcap", "eth:ip:gre:erspan:eth:ip:udp:vxlan:eth:ip", 7),
    ("arkime_gre-erspan.pcap", "eth:ip:gre:erspan:eth:ip", 4),
    ("arkime_mpls-basic.pcap", "eth:ip", 23),
    ("tcpdump_802.1ad_QinQ.pcap", "eth:vlan:vlan", 2),
    ("tcpdump_dcb_pfc.pcap", "eth", 4),
    ("tcpdump_erspan-type-i-1.pcap", "eth:ip:gre:erspan:eth:vlan:ip", 2),
    ("tcpdump_erspan-type-i-2.pcap", "eth:ip:gre:erspan:eth:vlan:ip", 2),
    ("tcpdump_erspan-type-i-3.pcap", "eth:ip:gre:erspan:eth:vlan", 1),
    ("tcpdump_erspan-type-i-4.pcap", "eth:ip:gre:erspan:eth:ip", 80),
    ("tcpdump_erspan-type-ii-1.pcap", "eth:ip:gre:erspan:eth:ip", 1),
    ("tcpdump_erspan-type-ii-2.pcap", "eth:ip:gre:erspan:eth:ip:udp", 16),
    ("tcpdump_erspan-type-ii-3.pcap", "eth:ip:gre:erspan:eth", 70),
    ("tcpdump_erspan-type-iii-ft-0.pcap", "eth:ip:gre:erspan:eth:vlan:ip", 9),
    ("tcpdump_erspan-type-iii-ft-7.pcap", "eth:ip:gre:erspan", 58),
    ("tcpdump_erspan-type-iii-pb-1.pcap", "raw:ipv6:gre:erspan", 1),
    ("tcpdump_geneve-gcp.pcap", "eth:ip:udp:geneve:ip", 1),
    ("tcpdump_geneve.pcap", "eth:ip:udp:geneve:eth:ip", 39),
    ("tcpdump_gre-heapoverflow-1.pcap", "eth:ip", 1),
    ("tcpdump_mpls-label-heapoverflow.pcap", "eth:mpls", 1),
    ("tcpdump_mpls-over-udp.pcap", "eth:ip:udp:mpls:ip", 2),
    ("tcpdump_nsh-over-vxlan-gpe.pcap", "eth:ip:udp:nsh:ip:udp", 1),
    ("tcpdump_various_gre.pcap", "eth", 49),
    ("tcpdump_vxlan.pcap", "eth:ip:udp:vxlan:eth:ip", 8),
    ("xdp2_QinQ.pcap", "eth:vlan:vlan", 2),
    ("xdp2_gre-within-gre.pcap", "eth:ip:gre:ip:gre:ip", 624),
    ("xdp2_ipip.pcap", "eth:ip:ip", 10),
    ("xdp2_ipv4frags.pcap", "eth:ip", 3),
    ("xdp2_ipv6-udp-fragmented.pcap", "eth:ipv6:udp", 3),
    ("xdp2_vxlan.pcap", "eth:ip:udp:vxlan:eth:ip", 8),
    ("zeek_erspan.pcap", "eth:ip:gre:eth:ip", 190),
    ("zeek_erspanII.pcap", "eth:ip:gre:erspan:eth:ip", 4),
    ("zeek_erspanIII.pcap", "eth:ip:gre:erspan:eth:ip", 2),
    ("zeek_gre-erspan3-dot1q.pcap", "eth:ip:gre:erspan:eth:vlan:ip", 2),
];

/// Names of the parsed layers, reduced by the same rules as tshark's.
#[derive(Default)]
struct Walked(Vec<&'static str>);

impl Trace for Walked {
    fn layer(&mut self, layer: Layer, _: usize) {
        // tshark does not name the GRH, and names an MPLS stack once.
        let again = layer == Layer::Mpls && self.0.last() == Some(&layer.name());
        if !again && !matches!(layer, Layer::Ipv6Ext | Layer::Grh) {
            self.0.push(layer.name());
        }
    }
}

/// The parser's result for one captured frame.
fn parsed(link_type: u32, frame: &[u8], wire_len: u32) -> (String, Result<Frame, SkipReason>) {
    let mut path = Walked::default();
    let (entry, offset, tag) = match link_type {
        1 => (Entry::ETHERNET, 0, Tag::NONE),
        101 => {
            path.0.push("raw");
            (Entry::IP, 0, Tag::UNKNOWN)
        }
        113 | 276 => {
            let header = if link_type == 113 { cooked::sll(&frame) } else { cooked::sll2(&frame) };
            let header = header.expect("a whole cooked header");
            path.0.push("sll");
            (Entry::ethertype(header.ethertype), header.offset, Tag::NONE)
        }
        other => panic!("link type {other}"),
    };
    let result = parse::<Full>(&frame, Meta { entry, offset, wire_len, tag }, &mut path);
    (path.0.join(":"), result)
}

/// The frames of a capture according to tshark, which reads each capture once for all tests of this program.
fn rows(path: &Path) -> Arc<Vec<tshark::Row>> {
    type Read = Arc<OnceLock<Arc<Vec<tshark::Row>>>>;
    static READ: Mutex<BTreeMap<PathBuf, Read>> = Mutex::new(BTreeMap::new());
    let read = READ.lock().expect("no test panicked here").entry(path.to_path_buf()).or_default().clone();
    read.get_or_init(|| Arc::new(tshark::read(path).expect("tshark"))).clone()
}

fn paths(rows: &[tshark::Row]) -> Vec<String> {
    rows.iter().map(|row| layers::normalised(row.text("frame.protocols", 0).unwrap_or_default())).collect()
}

/// tshark calls VXLAN-GPE `vxlan` if the source port is VXLAN's, and nothing otherwise.
fn without_gpe(ours: &str, theirs: &str) -> String {
    let named = ours.replace("vxlangpe", "vxlan");
    if named == theirs { named } else { ours.replace("vxlangpe:", "") }
}

fn encapsulated() -> Vec<PathBuf> {
    let folder = captures::folder().join("encap");
    captures::own().expect("captures").into_iter().filter(|path| path.starts_with(&folder)).collect()
}

#[test]
fn tshark_gets_as_deep_as_the_captures_are() {
    if !tshark::available().unwrap() {
        return;
    }
    for (name, path, frames) in EXPECTED {
        let rows = rows(&captures::folder().join("encap").join(name));
        let found = paths(&rows).iter().filter(|found| *found == path).count();
        assert_eq!(found, frames, "{name}: {path}");
    }
}

#[test]
fn the_parser_walks_the_layers_that_tshark_does() {
    if !tshark::available().unwrap() {
        return;
    }
    let mut found = Vec::new();
    for capture in encapsulated() {
        let plain = captures::plain(&capture).expect("a capture").expect("a plain pcap file");
        let theirs = paths(&rows(&capture));
        let walked = |(frame, len): &(Vec<u8>, u32)| parsed(plain.link_type, frame, *len).0;
        let ours: Vec<_> = plain
            .frames
            .iter()
            .map(walked)
            .zip(&theirs)
            .map(|(our, their)| without_gpe(&our, their))
            .collect();
        let name = capture.file_name().unwrap().to_string_lossy().into_owned();
        // Its second frame claims IPv4 but is not: rocescope accepts no such header.
        let no_ip = |our: &str, their: &str| {
            name == "tcpdump_gre-heapoverflow-1.pcap" && their == format!("{our}:ip")
        };
        let differences = layers::differences(&ours, &theirs, no_ip);
        found.extend(differences.into_iter().map(|line| format!("{name}: {line}")));
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

/// One field of a packet, as parsed and according to tshark.
type Field = (&'static str, Option<u64>, Option<u64>);

fn fields(ours: &Frame, theirs: &Packet) -> Vec<Field> {
    let known = |value: u32| (value != UNKNOWN).then_some(u64::from(value));
    let id = |value: u16| (value != VLAN_UNKNOWN).then_some(u64::from(value));
    let version2 = theirs.roce_version == 2;
    let mut list = vec![
        ("roce_version", Some(u64::from(ours.roce_version)), Some(theirs.roce_version)),
        ("opcode", Some(u64::from(ours.opcode)), Some(u64::from(theirs.code))),
        ("dest_qp", Some(u64::from(ours.dest_qp)), Some(theirs.dest_qp)),
        ("psn", Some(u64::from(ours.psn)), Some(u64::from(theirs.psn))),
        ("src_port", version2.then_some(u64::from(ours.src_port)), theirs.src_port),
        ("payload", known(ours.payload), theirs.payload),
        ("vlan", id(ours.vlan), theirs.vlan),
        ("inner_vlan", id(ours.inner_vlan), theirs.inner_vlan),
        ("pcp", (ours.pcp != PCP_NONE).then_some(u64::from(ours.pcp)), theirs.pcp),
        ("inner_bytes", (ours.encap != 0).then_some(u64::from(ours.inner_bytes)), theirs.inner_bytes),
        ("aeth syndrome", known(ours.aeth).map(|aeth| aeth >> 24), theirs.syndrome),
        ("src_qp", known(ours.src_qp), theirs.src_qp),
    ];
    if version2 {
        list.push(("ecn", Some(u64::from(ours.tos & 3)), theirs.ecn.map(|ecn| ecn as u64)));
        list.push(("dscp", Some(u64::from(ours.tos >> 2)), theirs.dscp));
    }
    // The parser also returns the RETH of WRITEs.
    if theirs.opcode.read_reth.is_some() {
        list.push(("dma_length", known(ours.dma_len), theirs.dma_length));
    }
    list
}

/// True if the ICRC matches the tests' own computation; `None` if the packet is incomplete, or has extension headers,
/// which that computation does not support.
fn invariant(bytes: &[u8], frame: &Frame) -> Option<bool> {
    let at = |offset: u32| usize::try_from(offset).ok();
    let (ip, bth, end) = (at(frame.ip_offset)?, at(frame.bth_offset)?, at(frame.icrc_offset)?);
    let plain =
        bth - ip == if frame.roce_version == 1 { 40 } else { [28, 48][usize::from(frame.family == 6)] };
    if !plain {
        return None;
    }
    icrc::holds(bytes.get(ip..end.checked_add(4)?)?, frame.roce_version == 1)
}

fn compare_frames(name: &str, plain: &PlainPcap, rows: &[tshark::Row], found: &mut Vec<String>) {
    assert_eq!(plain.frames.len(), rows.len(), "frames of {name}");
    for (number, ((bytes, len), row)) in (1..).zip(plain.frames.iter().zip(rows)) {
        let frame = packet::decode(row).expect("tshark's row");
        match (parsed(plain.link_type, bytes, *len).1, frame.content) {
            (Ok(ours), Content::Roce(theirs)) => {
                let differing = fields(&ours, &theirs).into_iter().filter(|(_, a, b)| a != b);
                found.extend(differing.map(|(field, a, b)| {
                    format!("{name} frame {number}: {field}: rocescope {a:?}, tshark {b:?}")
                }));
                let tunnels: Vec<_> = ours
                    .encap
                    .to_le_bytes()
                    .into_iter()
                    .filter_map(Encap::from_byte)
                    .map(Encap::name)
                    .collect();
                let tunnels = (!tunnels.is_empty()).then(|| tunnels.join("+"));
                if tunnels != theirs.encapsulation {
                    let theirs = &theirs.encapsulation;
                    found.push(format!("{name} frame {number}: tunnels {tunnels:?}, tshark {theirs:?}"));
                }
                let (said, computed) = (wire::icrc::check(bytes, &ours), invariant(bytes, &ours));
                if computed.is_some_and(|computed| said != Some(computed)) {
                    found.push(format!("{name} frame {number}: ICRC {said:?}, computed {computed:?}"));
                }
            }
            (Err(SkipReason::Truncated), Content::Truncated) => {}
            (Err(reason), Content::Other) if reason != SkipReason::Truncated => {}
            // tshark reads nothing of a truncated UDP header, although its ports may be complete.
            (Err(SkipReason::Truncated), Content::Other) if ends_within_udp_to_roce(bytes) => {}
            (ours, theirs) => {
                found.push(format!("{name} frame {number}: rocescope {ours:?}, tshark {theirs:?}"));
            }
        }
    }
}

/// True if a frame ends within a UDP header, after a destination port of RoCEv2.
fn ends_within_udp_to_roce(bytes: &[u8]) -> bool {
    let ports = |have: usize| bytes.len().checked_sub(have).and_then(|at| bytes.get(at + 2..at + 4));
    (4..8).any(|have| ports(have) == Some(&4791u16.to_be_bytes()[..]))
}

#[test]
fn the_parser_reads_the_fields_that_tshark_does() {
    if !tshark::available().unwrap() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut all = captures::own().unwrap();
    all.extend(captures::further().unwrap());
    for case in cases::all() {
        all.push(folder.path().join(case.name));
        std::fs::write(folder.path().join(case.name), case.file).unwrap();
    }
    let (mut found, mut compared) = (Vec::new(), 0);
    for capture in all {
        if let Some(plain) = captures::plain(&capture).unwrap() {
            let name = capture.file_name().unwrap().to_string_lossy().into_owned();
            compare_frames(&name, &plain, &rows(&capture), &mut found);
            compared += 1;
        }
    }
    assert!(compared > 80, "only {compared} captures compared");
    found.truncate(200);
    assert!(found.is_empty(), "differences:\n{}", found.join("\n"));
}
