use rocescope_common::abi::Counter;
use rocescope_common::account::{FlowKey, FlowStats, observe};
use rocescope_common::wire::frame::{PCP_NONE, UNKNOWN};

use super::*;

fn frame() -> Frame {
    Frame {
        src: [0, 0, 0, u32::from_ne_bytes([10, 0, 0, 1])],
        dst: [0, 0, 0, u32::from_ne_bytes([10, 0, 1, 2])],
        family: 4,
        roce_version: 2,
        tos: 2,
        opcode: 0x04,
        src_port: 49_152,
        vlan: 0,
        inner_vlan: 0,
        pcp: PCP_NONE,
        ack_req: false,
        encap: 0,
        dest_qp: 0x11,
        psn: 0,
        wire_len: 100,
        inner_bytes: 0,
        payload: 10,
        aeth: UNKNOWN,
        dma_len: UNKNOWN,
        src_qp: UNKNOWN,
        bth_offset: 42,
        ip_offset: 14,
        icrc_offset: UNKNOWN,
    }
}

#[test]
fn packets_and_flows_match_alike() {
    let frame = frame();
    let mut stats = FlowStats::default();
    observe(&mut stats, &frame, 1);
    let flow = FlowSample { slot: 0, key: FlowKey::of(&frame, 0), stats };
    for (text, expected) in [
        ("host 10.0.0.1", true),
        ("host 10.0.1.2", true),
        ("host 10.0.0.2", false),
        ("src 10.0.0.1 and dst 10.0.1.2", true),
        ("src 10.0.1.2", false),
        ("src 10.0.0.0/16", true),
        ("src 10.0.0.0/24 dst 10.0.0.0/24", false),
        ("host 0.0.0.0/0", true),
        ("host ::/0", false),
        ("qp 17", true),
        ("qp 0x11", true),
        ("qp 0x12 or port 49152", true),
        ("not qp 0x11", false),
        ("not (qp 0x12 or qp 0x13)", true),
        ("qp 1 and qp 2 or qp 17", true),
        ("qp 17 or qp 1 and qp 2", true),
        ("! qp 1 && link h0.pcap", true),
        ("link 'h0.pcap'", true),
        ("link h1.pcap", false),
        ("opcode RC_SEND_ONLY", true),
        ("opcode send_only", true),
        ("opcode 0x04", true),
        ("opcode UD_SEND_ONLY", false),
        ("opcode CNP", false),
        ("((qp 17))", true),
    ] {
        let filter = Filter::parse(text).unwrap();
        assert_eq!(filter.packet(&frame, "h0.pcap"), expected, "packet: {text}");
        assert_eq!(filter.flow(&flow, None, "h0.pcap"), expected, "flow: {text}");
    }
}

#[test]
fn flows_have_any_of_their_ports_and_opcodes() {
    let mut stats = FlowStats::default();
    for (opcode, src_port) in [(0x04, 1), (0x81, 0), (0x64, 1)] {
        observe(&mut stats, &Frame { opcode, src_port, ..frame() }, 1);
    }
    let extra = Extra {
        ports: vec![(0, Counter { packets: 1, bytes: 1 })],
        opcodes: vec![(0x64, 1)],
        ..Extra::default()
    };
    let flow = FlowSample { slot: 0, key: FlowKey::of(&frame(), 0), stats };
    for (text, expected) in [
        ("port 0", true),
        ("port 1", true),
        ("port 2", false),
        ("opcode CNP", true),
        ("opcode UD_SEND_ONLY", true),
        ("opcode 0xE4", false),
    ] {
        assert_eq!(Filter::parse(text).unwrap().flow(&flow, Some(&extra), ""), expected, "{text}");
    }
}

#[test]
fn addresses_of_version_6() {
    let fd00 = u32::from_ne_bytes([0xfd, 0, 0, 0]);
    let frame = Frame { family: 6, src: [fd00, 0, 0, u32::from_ne_bytes([0, 0, 0, 1])], ..frame() };
    for (text, expected) in
        [("src fd00::1", true), ("src fd00::/8", true), ("src fd00::2", false), ("src 0.0.0.1", false)]
    {
        assert_eq!(Filter::parse(text).unwrap().packet(&frame, ""), expected, "{text}");
    }
}

#[test]
fn mistakes_are_pointed_at() {
    for (text, what, marked) in [
        ("", "expected a test (host", ""),
        ("host", "expected an address or a prefix after `host`", ""),
        ("host foo", "expected an address or a prefix after `host`, found `foo`", "foo"),
        ("host 10.0.0.1/33", "found `10.0.0.1/33`", "10.0.0.1/33"),
        ("qp 16777216", "from 0 to 0xffffff after `qp`", "16777216"),
        ("port 65536", "a port number", "65536"),
        ("opcode SENT", "an opcode's name", "SENT"),
        ("opcode 256", "an opcode's name", "256"),
        ("qp 1 foo", "expected `and` or `or`, found `foo`", "foo"),
        ("qp 1 and", "expected a test", ""),
        ("(qp 1", "is not closed", "("),
        ("qp 1)", "closes nothing", ")"),
        ("link 'a", "quote is not closed", "'a"),
        ("link )", "the name of a link", ")"),
        ("é foo", "expected a test", "é"),
    ] {
        let error = Filter::parse(text).unwrap_err();
        assert!(error.what.contains(what), "{text}: {}", error.what);
        assert_eq!(&text[error.at..error.end], marked, "{text}");
    }
    assert_eq!(
        Filter::parse("host foo and qp 1").unwrap_err().to_string(),
        "expected an address or a prefix after `host`, found `foo`\n  host foo and qp 1\n       ^^^"
    );
    let deep = "(".repeat(100_000);
    assert!(Filter::parse(&deep).unwrap_err().what.contains("within one another"));
    assert!(Filter::parse(&"not ".repeat(100_000)).is_err());
    let long = vec!["qp 1"; 2000].join(" or ");
    assert!(Filter::parse(&long).unwrap().packet(&Frame { dest_qp: 1, ..frame() }, ""));
}
