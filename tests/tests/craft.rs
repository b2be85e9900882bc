//! Compares the tests' own builders of frames and files with known bytes, the parser and tshark.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::process::Command;

use rocescope_common::wire::frame::{Encap, Entry, Frame, Full, Meta, Tag, parse};
use rocescope_common::wire::{Layer, Trace, icrc};
use rocescope_tests::capture_file::{ETHERNET, Order, Pcap, PcapNg, SLL, SLL2};
use rocescope_tests::craft::{
    Icrc, Mac, Net, TEB, Transport, Typed, aeth, deth, erspan1, erspan2, erspan3, ethernet, gre, reth,
    roce_v1, sll, sll2, udp, vlan, vxlan,
};
use rocescope_tests::needs::installed_or_skip;

struct Layers(Vec<&'static str>);

impl Trace for Layers {
    fn layer(&mut self, layer: Layer, _: usize) {
        self.0.push(layer.name());
    }
}

fn parsed_from(bytes: &[u8], entry: Entry, offset: usize) -> (Frame, String) {
    let mut layers = Layers(Vec::new());
    let wire_len = u32::try_from(bytes.len()).unwrap();
    let frame = parse::<Full>(&bytes, Meta { entry, offset, wire_len, tag: Tag::NONE }, &mut layers).unwrap();
    (frame, layers.0.join(":"))
}

fn parsed(bytes: &[u8]) -> (Frame, String) {
    parsed_from(bytes, Entry::ETHERNET, 0)
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn v4() -> Net {
    Net::v4([10, 0, 0, 1], [10, 0, 0, 2]).tos(0x6A)
}

fn write() -> Transport {
    let mut transport = Transport::new(0x0A, 0x12_3456, 0xFF_FFFE).ext(reth(1, 2, 5)).payload(*b"hello");
    transport.ack_req = true;
    transport
}

/// The READ request of `InfiniBandPacket.dat` among PcapPlusPlus's packet examples (Unlicense), captured from
/// Soft-RoCE; and Mellanox's published CNP, as quoted by a BSD-licensed test.
#[test]
fn known_packets() {
    let mut read = Transport::new(0x0C, 0x11, 0x54_CB63).ext(reth(0x7FEE_260F_B000, 0x2B8, 65_536));
    read.ack_req = true;
    let mut net = Net::v4([192, 168, 56, 129], [192, 168, 56, 131]);
    net.id = 0xBE10;
    assert_eq!(
        net.roce(57_236, &read).bytes,
        hex("4500003cbe10400040118a4bc0a83881c0a83883df9412b700280000\
             0c00ffff000000118054cb6300007fee260fb000000002b80001000008c6154a"),
    );
    let mut net = Net::v4([22, 22, 22, 8], [22, 22, 22, 7]).tos(0x89);
    (net.id, net.ttl) = (0x98C6, 32);
    assert_eq!(
        net.roce(56_238, &Transport::cnp(0xD2)).bytes,
        hex("4589003c98c64000201169271616160816161607dbae12b700280000\
             8100ffff400000d20000000000000000000000000000000000000000dafc1bef"),
    );
}

#[test]
fn the_parser_reads_every_wrapper() {
    let packet = v4().roce(50_000, &write());
    let plain = ethernet(Mac::SRC, Mac::DST, &packet);
    let around = |protocol, inside: &[u8]| {
        ethernet(Mac::SRC, Mac::DST, &Net::v4([1, 1, 1, 1], [2, 2, 2, 2]).wrap(protocol, inside))
    };
    let v6 = Net::v6(1, 2).tos(0x6A).roce(50_000, &write());
    let mut extended = Net::v6(1, 2).tos(0x6A);
    extended.extensions = vec![(60, vec![0; 8])];
    let mut options = v4();
    options.options = vec![1; 8];
    let eth = |inside: &Typed| ethernet(Mac::SRC, Mac::DST, inside);
    let cases = [
        (plain.clone(), "eth:ip:udp:infiniband", 0),
        (eth(&options.roce(50_000, &write())), "eth:ip:udp:infiniband", 0),
        (eth(&v6), "eth:ipv6:udp:infiniband", 0),
        (eth(&vlan(0x8100, 0x602A, &packet)), "eth:vlan:ip:udp:infiniband", 0),
        (eth(&vlan(0x88A8, 7, &vlan(0x8100, 8, &v6))), "eth:vlan:vlan:ipv6:udp:infiniband", 0),
        (
            around(17, &udp(1, 4789, &vxlan(77, &plain))),
            "eth:ip:udp:vxlan:eth:ip:udp:infiniband",
            Encap::Vxlan as u32,
        ),
        (
            around(47, &gre(TEB, Some(5), Some(6), true, &plain)),
            "eth:ip:gre:eth:ip:udp:infiniband",
            Encap::Gre as u32,
        ),
        (
            around(47, &gre(packet.ethertype, None, None, false, &packet.bytes)),
            "eth:ip:gre:ip:udp:infiniband",
            Encap::Gre as u32,
        ),
        (around(47, &erspan1(&plain)), "eth:ip:gre:erspan:eth:ip:udp:infiniband", Encap::Erspan1 as u32),
        (
            around(47, &erspan2(9, 10, 3, 11, 12, &plain)),
            "eth:ip:gre:erspan:eth:ip:udp:infiniband",
            Encap::Erspan2 as u32,
        ),
        (
            around(47, &erspan3(Some(9), 11, 12, 0, Some([0; 8]), &plain)),
            "eth:ip:gre:erspan:eth:ip:udp:infiniband",
            Encap::Erspan3 as u32,
        ),
        (
            around(47, &erspan3(None, 11, 12, 2, None, &packet.bytes)),
            "eth:ip:gre:erspan:ip:udp:infiniband",
            Encap::Erspan3 as u32,
        ),
    ];
    for (bytes, layers, encap) in cases {
        let (frame, seen) = parsed(&bytes);
        assert_eq!(seen, layers);
        assert_eq!(frame.encap, encap, "{layers}");
        assert_eq!(icrc::check(&bytes, &frame), Some(true), "{layers}");
        assert_eq!((frame.opcode, frame.dest_qp, frame.psn), (0x0A, 0x12_3456, 0xFF_FFFE), "{layers}");
        assert_eq!((frame.payload, frame.tos, frame.src_port), (5, 0x6A, 50_000), "{layers}");
        assert!(frame.ack_req, "{layers}");
    }
    let (frame, _) = parsed(&eth(&vlan(0x88A8, 0xA007, &vlan(0x8100, 8, &v6))));
    assert_eq!((frame.vlan, frame.pcp, frame.inner_vlan), (7, 5, 8));
}

#[test]
fn the_parser_reads_cooked_captures_and_rocev1() {
    let packet = v4().roce(50_000, &write());
    let bytes = sll(4, &packet);
    let (frame, _) = parsed_from(&bytes, Entry::ethertype(packet.ethertype), 16);
    assert_eq!((frame.psn, icrc::check(&bytes, &frame)), (0xFF_FFFE, Some(true)));
    let bytes = sll2(3, 0, &packet);
    let (frame, _) = parsed_from(&bytes, Entry::ethertype(packet.ethertype), 20);
    assert_eq!((frame.psn, icrc::check(&bytes, &frame)), (0xFF_FFFE, Some(true)));

    let ack = Transport::ack(0x109, 0xA7_88C0, 0, 5);
    let bytes = ethernet(Mac::SRC, Mac::DST, &roce_v1([1; 16], [2; 16], 0x21, &ack));
    let (frame, layers) = parsed(&bytes);
    assert_eq!((layers.as_str(), frame.roce_version), ("eth:grh:infiniband", 1));
    assert_eq!((frame.aeth, icrc::check(&bytes, &frame)), (5, Some(true)));
}

#[test]
fn a_wrong_icrc_is_wrong_and_other_fields_are_where_they_belong() {
    let mut transport = Transport::new(0x64, 1, 0).ext(deth(0x8001_0000, 0x00AB_CDEF)).payload([0; 256]);
    transport.icrc = Icrc::Wrong;
    let bytes = ethernet(Mac::SRC, Mac::DST, &v4().roce(50_000, &transport));
    let (frame, _) = parsed(&bytes);
    assert_eq!(icrc::check(&bytes, &frame), Some(false));
    assert_eq!((frame.src_qp, frame.payload), (0xAB_CDEF, 256));
    transport.icrc = Icrc::Bytes([1, 2, 3, 4]);
    let bytes = v4().roce(50_000, &transport).bytes;
    assert_eq!(bytes[bytes.len() - 4..], [1, 2, 3, 4]);
    assert_eq!(aeth(0x60, 7), [0x60, 0, 0, 7]);
}

/// Fields that tshark reads from a file, one line per frame; `None` without tshark.
fn tshark(test: &str, file: &[u8], name: &str, fields: &[&str]) -> Option<Vec<String>> {
    if !installed_or_skip(test, "tshark") {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, file).unwrap();
    Some(run_tshark(&path, fields))
}

fn run_tshark(path: &Path, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(path).args(["-T", "fields", "-E", "separator=,"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(ToOwned::to_owned).collect()
}

const TIME: u64 = 1_700_000_000_123_456_789;

#[test]
fn tshark_reads_classic_pcap_in_all_forms() {
    let packet = v4().roce(50_000, &write());
    let frame = ethernet(Mac::SRC, Mac::DST, &packet);
    for order in [Order::Little, Order::Big] {
        for nanoseconds in [false, true] {
            let file = Pcap::with_snap_len(order, nanoseconds, ETHERNET, 60).packet(TIME, &frame).finish();
            let fields = ["frame.time_epoch", "frame.cap_len", "frame.len"];
            let test = "tshark_reads_classic_pcap_in_all_forms";
            let Some(lines) = tshark(test, &file, "a.pcap", &fields) else { return };
            let fraction = if nanoseconds { "123456789" } else { "123456000" };
            assert_eq!(lines, [format!("1700000000.{fraction},60,{}", frame.len())], "{order:?}");
        }
    }
}

#[test]
fn tshark_reads_pcapng_with_sections_interfaces_and_resolutions() {
    let packet = v4().roce(50_000, &write());
    let frame = ethernet(Mac::SRC, Mac::DST, &packet);
    let mut file = PcapNg::new(Order::Little);
    file.interface(Some("rail0"), ETHERNET, Some(9)).interface(None, SLL, None);
    file.packet(0, TIME, &frame, None).packet(1, TIME, &sll(0, &packet), None).dropped(0, 12);
    file.section(Order::Big).interface(Some("any"), SLL2, Some(0x8A));
    file.packet(0, TIME, &sll2(2, 4, &packet), Some(4_000))
        .block(0x0BAD, &[1, 2, 3])
        .simple_packet(&sll2(2, 0, &packet));
    let fields = ["frame.time_epoch", "frame.len", "infiniband.bth.destqp"];
    let test = "tshark_reads_pcapng_with_sections_interfaces_and_resolutions";
    let Some(lines) = tshark(test, &file.finish(), "a.pcapng", &fields) else { return };
    // Some versions of tshark show a block of unknown type as a frame without bytes.
    let lines: Vec<_> = lines.iter().filter(|line| !line.contains(",0,")).collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(*lines[3], format!(",{},0x123456", frame.len() + 6));
    assert_eq!(*lines[0], format!("1700000000.123456789,{},0x123456", frame.len()));
    assert_eq!(*lines[1], format!("1700000000.123456000,{},0x123456", frame.len() + 2));
    // 126 of 1024 parts of a second.
    assert_eq!(*lines[2], "1700000000.123046875,4000,0x123456");
}

#[test]
fn tshark_agrees_with_fields_of_wrapped_packets() {
    let frame = ethernet(Mac::SRC, Mac::DST, &vlan(0x8100, 0x602A, &v4().roce(50_000, &write())));
    let outer = Net::v4([1, 1, 1, 1], [2, 2, 2, 2]);
    let eth = |inside: &Typed| ethernet(Mac::SRC, Mac::DST, inside);
    let mut file = Pcap::new(Order::Little, true, ETHERNET);
    let frames = [
        frame.clone(),
        eth(&outer.udp(1, 4789, &vxlan(77, &frame))),
        eth(&outer.wrap(47, &gre(TEB, Some(5), None, true, &frame))),
        eth(&outer.wrap(47, &erspan1(&frame))),
        eth(&outer.wrap(47, &erspan2(9, 10, 3, 11, 12, &frame))),
        eth(&outer.wrap(47, &erspan3(Some(9), 11, 12, 0, Some([0; 8]), &frame))),
    ];
    for frame in &frames {
        file.packet(TIME, frame);
    }
    let fields =
        ["infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.reth.dmalen", "vlan.id", "_ws.malformed"];
    let test = "tshark_agrees_with_fields_of_wrapped_packets";
    let Some(lines) = tshark(test, &file.finish(), "a.pcap", &fields) else { return };
    assert_eq!(lines, ["10,16777214,5,42,"; 6]);
}
