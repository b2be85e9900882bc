use rocescope_common::random::Random;
use std::sync::LazyLock;

use crate::sample::Stats;
use rocescope_common::abi::Counter;
use rocescope_common::account::{FlowKey, observe};
use rocescope_common::wire::frame::FAMILY_LID;

use super::*;

/// Fields as the view has them, apart from which columns there are.
fn vocabulary() -> Vocabulary {
    static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
        let field = |name, aliases, unit| Field { name, aliases, unit, help: "" };
        vec![
            field("state", &[], Unit::Words(states)),
            field("qp", &[], Unit::Number),
            field("rate", &[], Unit::BitRate),
            field("ce", &[], Unit::Ratio),
            field("nak", &["naks"], Unit::Count),
            field("retx", &["rpt"], Unit::Count),
            Field { help: "99th percentile of latency", ..field("p99", &[], Unit::Duration) },
            field("bytes", &[], Unit::Bytes),
            field("pid", &[], Unit::Number),
            field("pod", &[], Unit::Text),
        ]
    });
    Vocabulary::new(&FIELDS)
}

fn states() -> &'static [String] {
    static STATES: LazyLock<Vec<String>> =
        LazyLock::new(|| ["ok", "loss", "nak", "loss+"].map(str::to_owned).to_vec());
    &STATES
}

fn source(text: &str) -> Result<Filter, FilterError> {
    Filter::source(text, vocabulary())
}

/// The canonical text of an expression of a view.
fn tree(text: &str) -> String {
    let (filter, error) = Filter::view(text, vocabulary());
    assert_eq!(error, None, "{text}");
    filter.unwrap().expr().to_string()
}

fn frame() -> Frame {
    Frame {
        src: [0, 0, 0, u32::from_ne_bytes([10, 0, 0, 1])],
        dst: [0, 0, 0, u32::from_ne_bytes([10, 0, 1, 2])],
        family: 4,
        roce_version: 2,
        tos: 2,
        opcode: 0x04,
        src_port: 49_152,
        dest_qp: 0x11,
        wire_len: 100,
        payload: 10,
        bth_offset: 42,
        ip_offset: 14,
        ..Frame::EMPTY
    }
}

#[test]
fn links_that_are_not_there_are_named() {
    let filter = Filter::source("link nosuch or not link rail*", vocabulary()).unwrap();
    assert_eq!(filter.unknown_links(&["rail0", "rail1"]), ["nosuch"]);
    assert_eq!(filter.unknown_links(&["eth0"]), ["nosuch", "rail*"]);
}

#[test]
fn a_test_of_the_port_of_rocev2_is_known() {
    let of = |text| Filter::source(text, vocabulary()).unwrap().tests_roce_port();
    assert!(of("host 10.0.0.1 and port 4791") && of("not (port = 4791)"));
    assert!(!of("port 4792") && !of("qp 4791") && !of("port > 4791"));
}

#[test]
fn packets_and_flows_match_alike() {
    let frame = frame();
    let mut stats = Stats::default();
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
        ("net 10.0.1.0/24", true),
        ("src host 10.0.0.1 and dst net 10.0.1", true),
        ("dst net 10.0.2", false),
        ("src 10.0 !dst 10.0.0", true),
        ("peer 10.0.1.2", true),
        ("qp > 16 and qp<=17", true),
        ("qp != 17", false),
        ("port >= 49152", true),
        ("dscp 0", true),
        ("dscp 26", false),
        ("vlan", false),
        ("vlan 0 and not vlan > 0", true),
        ("link *.pcap", true),
        ("link h*1", false),
        ("link != 'h1.pcap'", true),
        ("link h0 and not link h", true),
    ] {
        let filter = source(text).unwrap();
        assert_eq!(filter.packet(&frame, "h0.pcap"), expected, "packet: {text}");
        assert_eq!(filter.flow(&flow, None, "h0.pcap"), expected, "flow: {text}");
    }
}

#[test]
fn flows_have_any_of_their_ports_and_opcodes() {
    let mut stats = Stats::default();
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
        assert_eq!(source(text).unwrap().flow(&flow, Some(&extra), ""), expected, "{text}");
    }
}

#[test]
fn addresses_of_version_6() {
    let fd00 = u32::from_ne_bytes([0xfd, 0, 0, 0]);
    let frame = Frame { family: 6, src: [fd00, 0, 0, u32::from_ne_bytes([0, 0, 0, 1])], ..frame() };
    for (text, expected) in
        [("src fd00::1", true), ("src fd00::/8", true), ("src fd00::2", false), ("src 0.0.0.1", false)]
    {
        assert_eq!(source(text).unwrap().packet(&frame, ""), expected, "{text}");
    }
}

#[test]
fn addresses_of_infiniband() {
    let lid = |lid: u16| [0, 0, 0, u32::from(lid).to_be()];
    let frame = Frame { family: FAMILY_LID, src: lid(0x11), dst: lid(4), ..frame() };
    for (text, expected) in [("src lid:0x0011", true), ("host lid:4", true), ("host 0.0.0.4", false)] {
        assert_eq!(source(text).unwrap().packet(&frame, ""), expected, "{text}");
    }
    assert_eq!(source("src lid:17").unwrap().expr().to_string(), "src lid:0x0011");
}

#[test]
fn expressions_are_read_as_they_are_meant() {
    for (text, expected) in [
        ("host 10.0.1.0/24 and ce > 1%", "(host 10.0.1.0/24 and ce > 1%)"),
        ("HOST 10.0.1.7/24 AND CE>1 %", "(host 10.0.1.0/24 and ce > 1%)"),
        ("qp 1 or qp 2 qp 3", "(qp = 1 or (qp = 2 and qp = 3))"),
        ("(qp 1 or qp 2) and qp 3", "((qp = 1 or qp = 2) and qp = 3)"),
        ("not qp 1 and not (qp 2 || qp 3)", "(not qp = 1 and not (qp = 2 or qp = 3))"),
        ("!link eth0", "not link \"eth0\""),
        ("link 'eth0 in'&&nak", "(link \"eth0 in\" and nak)"),
        ("src host 10.0.1 dst net fd00:1", "(src 10.0.1.0/24 and dst fd00:1::/32)"),
        ("dst 10. host fd00::1", "(dst 10.0.0.0/8 and host fd00::1)"),
        ("rate>10G rate<=2.5gbps", "(rate > 10G and rate <= 2.5gbps)"),
        ("ce >1% ce 0.5 nak <=5", "(ce > 1% and ce = 0.5 and nak <= 5)"),
        ("p99 >= 1ms p99 != 3µs", "(p99 >= 1ms and p99 != 3µs)"),
        ("nak or retx and not rpt", "(nak or (retx and not retx))"),
        ("naks > 0 nak 5", "(nak > 0 and nak = 5)"),
        ("nak 10.0.0.1", "(nak and \"10.0.0.1\")"),
        ("qp 0x11 pid 0x11", "(qp = 17 and pid = 0x11)"),
        ("vlan and vlan 100", "(vlan > 0 and vlan = 100)"),
        ("opcode cnp", "opcode cnp"),
        ("state LOSS state loss+ !state ok", "(state \"loss\" and state \"loss+\" and not state \"ok\")"),
        ("pod Worker-0 pod != x", "(pod \"worker-0\" and not pod \"x\")"),
        ("rail0 'and' 10.0.1 2001:db8::1", "(\"rail0\" and \"and\" and \"10.0.1\" and \"2001:db8::1\")"),
        ("10.0.1.0/24", "host 10.0.1.0/24"),
        ("pod", "\"pod\""),
        ("qp4642 !loss", "(\"qp4642\" and not \"loss\")"),
        ("((((qp 1))))", "qp = 1"),
    ] {
        assert_eq!(tree(text), expected, "{text}");
        assert_eq!(tree(&tree(text)), expected, "the canonical text means the same: {text}");
    }
    assert_eq!(Filter::view("  ", vocabulary()), (None, None));
}

#[test]
fn numbers_have_units() {
    for (unit, text, number) in [
        (Unit::Count, "10k", 1e4),
        (Unit::Count, "0x11", 17.0),
        (Unit::BitRate, "2.5G", 2.5e9),
        (Unit::BitRate, "10Gb/s", 1e10),
        (Unit::BitRate, "400gbit/s", 4e11),
        (Unit::Rate, "1M/s", 1e6),
        (Unit::Bytes, "4kB", 4e3),
        (Unit::Ratio, "1%", 0.01),
        (Unit::Ratio, "250%", 2.5),
        (Unit::Ratio, ".5", 0.5),
        (Unit::Number, "7", 7.0),
        (Unit::Duration, "100us", 1e5),
        (Unit::Duration, "1.5ms", 1.5e6),
        (Unit::Duration, "2s", 2e9),
        (Unit::Duration, "7ns", 7.0),
        (Unit::Duration, "3µs", 3e3),
        (Unit::Duration, "0", 0.0),
    ] {
        assert!((unit.number(text).unwrap() - number).abs() <= 1e-9 * number, "{text}");
    }
    for (unit, text) in [
        (Unit::Count, ""),
        (Unit::Count, "k"),
        (Unit::Count, "1kk"),
        (Unit::Count, "nan"),
        (Unit::Count, "inf"),
        (Unit::Count, "-1"),
        (Unit::Count, "1e400"),
        (Unit::Ratio, "1"),
        (Unit::Ratio, "%"),
        (Unit::Number, "1.5"),
        (Unit::Number, "0x"),
        (Unit::Duration, "100"),
        (Unit::Duration, "1h"),
        (Unit::Duration, "us"),
        (Unit::Text, "1"),
    ] {
        assert_eq!(unit.number(text), None, "{unit:?} {text}");
    }
}

/// Text, cause, remedy, and the marked part.
type Mistake = (&'static str, &'static str, &'static str, &'static str);

/// At the source, and then in a view.
const MISTAKES: [&[Mistake]; 2] = [
    &[
        ("", "expected a condition", "fields: host, src, dst, qp", ""),
        ("host", "expected an address or a prefix after `host`", "10.0.0.0/24", ""),
        ("host foo", "expected an address or a prefix after `host`, found 'foo'", "", "foo"),
        ("host 1", "expected an address or a prefix after `host`, found '1'", "", "1"),
        ("host 10.0.0.1/33", "found '10.0.0.1/33'", "", "10.0.0.1/33"),
        ("host > 1", "`host` has no order for `>`", "write host VALUE", ">"),
        ("qp 16777216", "from 0 to 0xffffff after `qp`", "17 or 0x11", "16777216"),
        ("port 65536", "a UDP port", "", "65536"),
        ("vlan 4096", "a VLAN ID", "", "4096"),
        ("dscp 64", "a DSCP from 0 to 63", "26", "64"),
        ("opcode SENT", "an opcode", "RC_ACKNOWLEDGE", "SENT"),
        ("opcode 256", "an opcode", "", "256"),
        ("opcode RDMA_WRTE_LAST", "(did you mean 'RDMA_WRITE_LAST'?)", "", "RDMA_WRTE_LAST"),
        ("opcode rc_acknowledg", "(did you mean 'RC_ACKNOWLEDGE'?)", "", "rc_acknowledg"),
        (
            "qp 1 foo",
            "unknown field 'foo'",
            "fields: host, src, dst, qp, port, vlan, dscp, link, opcode",
            "foo",
        ),
        ("host 10.0.0.1 or 10.0.0.2", "unknown field '10.0.0.2'", "write host 10.0.0.2", "10.0.0.2"),
        ("qp 1 and", "expected a condition", "", ""),
        ("and qp 1", "expected a condition, found 'and'", "", "and"),
        ("(qp 1", "unclosed `(`", "", "("),
        ("qp 1)", "`)` without `(`", "", ")"),
        ("()", "expected a condition, found ')'", "", ")"),
        ("link 'a", "unclosed quote", "close it with '", "'a"),
        ("link )", "expected the name of a link after `link`, found ')'", "eth0", ")"),
        ("é foo", "unknown field 'é'", "", "é"),
        ("vlna 3", "unknown field 'vlna' (did you mean 'vlan'?)", "", "vlna"),
        (
            "host 10.0.0.1 and ce > 1%",
            "unexpected figure `ce`",
            "use it in --view-filter or at the / prompt; fields of --filter: host",
            "ce",
        ),
        ("pod x", "unexpected field of rows `pod`", "--view-filter or at the / prompt", "pod"),
    ],
    &[
        ("qp 1 latency > 1", "unknown field 'latency'", "fields: p99, ", "latency"),
        ("throughput > 1G", "unknown field 'throughput'", " more, see the help", "throughput"),
        ("foo >1", "unknown field 'foo'", "", "foo"),
        ("ce:>1%", "no colon after `ce`", "write ce > VALUE", "ce:"),
        ("qp:17", "no colon after `qp`", "write qp 17", "qp:17"),
        ("ce >x", "expected a percentage after `ce`, found 'x'", "for example 1%", "x"),
        ("ce > 1", "`ce` is a share from 0 to 1, found '1'", "write 1%", "1"),
        ("rate >", "expected a rate in bits per second after `rate`", "10G", ""),
        ("nak > and qp 1", "expected a number after `nak`, found 'and'", "10k", "and"),
        ("p99 > 100", "expected a time after `p99`, found '100'", "100us", "100"),
        ("> 5", "expected a condition, found '>'", "name a field before it", ">"),
        ("state foo", "unknown state 'foo'", "one of: ok, loss, nak", "foo"),
        ("pod > x", "`pod` has no order for `>`", "write pod VALUE", ">"),
    ],
];

#[test]
fn mistakes_are_pointed_at() {
    for (mistakes, view) in MISTAKES.into_iter().zip([false, true]) {
        for (text, cause, remedy, marked) in mistakes {
            let error =
                if view { Filter::view(text, vocabulary()).1.unwrap() } else { source(text).unwrap_err() };
            assert!(error.cause.contains(cause) && error.remedy.contains(remedy), "{text}: {error:?}");
            assert_eq!(&text[error.at..error.end], *marked, "{text}");
        }
    }
    let error = Filter::view("retransmit > 1", vocabulary()).1.unwrap();
    let first: String = error.one_line().chars().take(80).collect();
    assert!(first.contains("fields: retx, "), "the nearest is in the first line: {first}");
    let error = source("host foo and qp 1").unwrap_err();
    let sentence = "expected an address or a prefix after `host`, found 'foo' at column 6; for example 10.0.0.1, \
                    10.0.0.0/24 or fd00::/8";
    assert_eq!(error.to_string(), format!("{sentence}\n  host foo and qp 1\n       ^^^"));
    assert_eq!(error.one_line(), sentence);
    assert_eq!(source("host é").unwrap_err().column(), 6);
}

#[test]
fn nesting_has_a_limit_and_length_has_none() {
    let deep = "(".repeat(100_000);
    assert!(source(&deep).unwrap_err().cause.contains("nested"));
    assert!(source(&"not ".repeat(100_000)).is_err());
    // The canonical text of each that is accepted is accepted, too.
    for count in 1..70 {
        let nested = format!("{n}qp 1 {n}qp 2 or qp 3", n = "not ".repeat(count));
        let Ok(accepted) = source(&nested) else {
            assert!(count > 60, "{count}");
            continue;
        };
        let canonical = accepted.expr().to_string();
        assert_eq!(source(&canonical).map(|again| again.expr().to_string()), Ok(canonical), "{count}");
    }
    assert!(source(&format!("{}qp 1 qp 2", "not ".repeat(63))).unwrap_err().cause.contains("nested"));
    let long = vec!["qp 1"; 2000].join(" or ");
    assert!(source(&long).unwrap().packet(&Frame { dest_qp: 1, ..frame() }, ""));
}

#[test]
fn the_tests_before_a_mistake_are_in_force() {
    for (text, expected) in [
        ("nak > 0 and rate >", "nak > 0"),
        ("nak > 0 rate > x or qp 1", "nak > 0"),
        ("(qp 1 or qp", "qp = 1"),
        ("qp 1 and not (", "qp = 1"),
        ("(qp 1 and nak", "(qp = 1 and nak)"),
    ] {
        let (filter, error) = Filter::view(text, vocabulary());
        assert!(error.is_some(), "{text}");
        assert_eq!(filter.unwrap().expr().to_string(), expected, "{text}");
    }
    assert_eq!(Filter::view("rate >", vocabulary()).0, None);
}

/// Of figures that are unknown neither a test nor its opposite holds.
#[test]
fn unknown_figures_decide_nothing() {
    struct Row;
    impl Facts for Row {
        fn addresses(&self) -> (u8, Addr, Addr) {
            (4, [0; 4], [0; 4])
        }
        fn dest_qp(&self) -> u32 {
            17
        }
        fn link(&self, _: &Pattern) -> bool {
            false
        }
        fn figure(&self, at: usize) -> Option<f64> {
            // Only the rate is known.
            (at == 2).then_some(1e9)
        }
    }
    for (text, expected) in [
        ("ce > 1%", None),
        ("not ce > 1%", None),
        ("rate > 0", Some(true)),
        ("rate > 0 and ce > 1%", None),
        ("rate > 1G and ce > 1%", Some(false)),
        ("rate > 0 or ce > 1%", Some(true)),
        ("rate > 1G or ce > 1%", None),
        ("not (rate > 1G and ce > 1%)", Some(true)),
        ("port 1 or not port 1", None),
        ("vlan or dscp 1 or opcode CNP", None),
        ("pod x", Some(false)),
        ("not pod x", Some(true)),
        ("qp 17", Some(true)),
    ] {
        let (filter, error) = Filter::view(text, vocabulary());
        assert_eq!((filter.unwrap().expr().decide(&Row), error), (expected, None), "{text}");
    }
}

/// Any text is read without a panic; what is accepted has a canonical text that means the same.
#[test]
fn any_text_is_survived() {
    // The dictionary of the fuzz target, and what only this test adds: characters of several bytes.
    let dictionary = include_str!("../../../fuzz/filter.dict").lines().filter(|line| line.starts_with('"'));
    let mut parts: Vec<String> =
        dictionary.map(|line| line[1..line.len() - 1].replace("\\\"", "\"")).collect();
    parts.extend(["é", "\u{1F600}"].map(str::to_owned));
    let mut random = Random::new(1);
    let mut next = |below: usize| random.index(below);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..=next(9) {
            text.push_str(&parts[next(parts.len())]);
            text.push_str(if next(4) == 0 { "" } else { " " });
            if next(20) == 0 {
                text.push(char::from_u32(u32::try_from(next(0x1_0000)).unwrap()).unwrap_or(' '));
            }
        }
        let (filter, error) = Filter::view(&text, vocabulary());
        let errors = [error.clone(), source(&text).err()];
        for error in errors.into_iter().flatten() {
            assert!(text.get(error.at..error.end).is_some() && !error.to_string().is_empty(), "{text}");
        }
        // A word with both quotes in it cannot be quoted.
        if let (Some(filter), None, false) = (filter, error, text.contains(['"', '\''])) {
            accepted += 1;
            let canonical = filter.expr().to_string();
            assert_eq!(tree(&canonical), canonical, "{text}");
        }
    }
    assert!(accepted > 1_000, "{accepted}");
}
