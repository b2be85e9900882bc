//! The benchmark's programs and cases.

use rocescope_common::abi::BenchStep;

use super::frames as f;
use crate::source::live::load::names;

/// A kind of program, with those that its cost is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// XDP, frames in one buffer.
    Xdp,
    /// XDP, also frames in several buffers.
    XdpFrags,
    /// TC.
    Tc,
}

impl Hook {
    /// Every program type, in the order of the output.
    pub const ALL: [Self; 3] = [Self::Xdp, Self::XdpFrags, Self::Tc];

    /// Name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::XdpFrags => "xdp_frags",
            Self::Tc => "tc",
        }
    }

    /// True for XDP.
    pub const fn is_xdp(self) -> bool {
        !matches!(self, Self::Tc)
    }

    /// The program of a case, and the one whose cost is taken off.
    pub(super) const fn programs(self, case: &Case) -> (&'static str, &'static str) {
        match (case.work, self) {
            (Work::Counting, _) => self.counting(case.step.is_some()),
            (Work::Clock, Self::Tc) => (names::BENCH_TC_CLOCK, names::BENCH_TC_EMPTY),
            (Work::Clock, _) => (names::BENCH_XDP_CLOCK, names::BENCH_XDP_EMPTY),
            (Work::Reach, Self::Tc) => (names::BENCH_TC_REACH, names::BENCH_TC_STEP),
            (Work::Reach, _) => (names::BENCH_XDP_REACH, names::BENCH_XDP_STEP),
            (Work::Answered, Self::Tc) => (names::BENCH_TC_ANSWERED, names::BENCH_TC_STEP),
            (Work::Answered, _) => (names::BENCH_XDP_ANSWERED, names::BENCH_XDP_STEP),
            (Work::Together, _) => (names::BENCH_XDP_TOGETHER, names::BENCH_XDP_STEP),
            (Work::Published, _) => (names::BENCH_XDP_PUBLISHED, names::BENCH_XDP_STEP),
            (Work::Insert, _) => (names::BENCH_XDP_INSERT, names::BENCH_XDP_STEP),
            (Work::Hash, _) => (names::BENCH_XDP_HASH, names::BENCH_XDP_STEP),
            (Work::Event, _) => (names::BENCH_XDP_EVENT, names::BENCH_XDP_STEP),
        }
    }

    /// The program that counts, and the one whose cost is taken off.
    const fn counting(self, stepping: bool) -> (&'static str, &'static str) {
        match (self, stepping) {
            (Self::Xdp, false) => (names::XDP, names::BENCH_XDP_EMPTY),
            (Self::XdpFrags, false) => (names::XDP_FRAGS, names::BENCH_XDP_FRAGS_EMPTY),
            (Self::Tc, false) => (names::TC_INGRESS, names::BENCH_TC_EMPTY),
            (Self::Xdp, true) => (names::BENCH_XDP, names::BENCH_XDP_STEP),
            (Self::XdpFrags, true) => (names::BENCH_XDP_FRAGS, names::BENCH_XDP_FRAGS_STEP),
            (Self::Tc, true) => (names::BENCH_TC, names::BENCH_TC_STEP),
        }
    }
}

/// The effect of a case on the tables and the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaseKind {
    /// One flow, or none, known from the warm-up on.
    Known,
    /// Every packet sends an event; the ring buffer is emptied between measurements.
    Events,
    /// Needs a table that holds exactly [`FLOWS`] flows, and fills it.
    Fill,
    /// The same table, now full of flows of which each packet is one in turn.
    Full,
}

impl Case {
    /// Number of tables that a round fills.
    pub(super) const TABLES: usize = 5;

    /// Table of its flows, of those that a round fills: that without the exact clock, that with it, or one of
    /// its own, since it counts nothing in it.
    pub(super) const fn table(&self) -> usize {
        match (self.work, self.precise) {
            (Work::Insert, false) => 2,
            (Work::Insert, true) => 3,
            (Work::Hash, _) => 4,
            (_, true) => 1,
            (_, false) => 0,
        }
    }
}

/// The work of a program: counting, or a part without which there is no counting. Those are the floor of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Parsing and counting of the packet.
    Counting,
    /// The exact clock is read.
    Clock,
    /// All but bins, messages and latency: their cache lines are written, too.
    Reach,
    /// A WRITE LAST and the ACK to it are counted, and nothing that may be unusual about them is considered.
    Answered,
    /// The frame is parsed, its flow found and locked, the clock read, and two neighbouring cache lines written in
    /// place of all that counting writes.
    Together,
    /// As [`Self::Reach`], with a time from memory.
    Published,
    /// The kernel inserts a flow into the hash, its slot is written, and an event is passed on.
    Insert,
    /// The first of these alone.
    Hash,
    /// The last of these alone.
    Event,
}

/// Flows in the cases that need many.
pub(super) const FLOWS: u32 = crate::source::live::DEFAULT_MAX_FLOWS;

/// A frame, and the state of the tables in which a program sees it.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// Name in JSON.
    pub(super) id: &'static str,
    /// Name in the table.
    pub(super) name: &'static str,
    pub(super) frame: Vec<u8>,
    /// The field that changes from packet to packet.
    pub(super) step: Option<BenchStep>,
    pub(super) kind: CaseKind,
    pub(super) work: Work,
    /// True for packets that are full ones on the line, and so stand for a rate in Gb/s.
    pub(super) full: bool,
    /// True when it is measured with every kind of program, otherwise with XDP and TC.
    pub(super) every_hook: bool,
    /// True when the exact clock is enabled.
    pub(super) precise: bool,
    /// True when the latency of the flow to this queue pair is measured: it is its own reverse direction.
    pub(super) timed: Option<u32>,
}

const TIMED_QP: u32 = 0x19;
const ANSWERED_QP: u32 = 0x1A;
const PSN: u32 = 0x00FF_FFFF;

/// The PSN goes up by 1 with each packet.
pub(super) const fn in_order(bth: u16) -> BenchStep {
    BenchStep { offset: bth + 8, mask: PSN, toggle: 0 }
}

/// The queue pair goes up by 1 with each packet, in a circle of [`FLOWS`].
const fn next_flow(bth: u16) -> BenchStep {
    BenchStep { offset: bth + 4, mask: FLOWS - 1, toggle: 0 }
}

/// A WRITE LAST, then the acknowledgement to it, then the next WRITE LAST.
const fn answered(bth: u16) -> BenchStep {
    const LAST_TO_ACK: u16 = (0x08 ^ 0x11) << 8;
    BenchStep { offset: bth, mask: PSN, toggle: LAST_TO_ACK }
}

fn case(id: &'static str, name: &'static str, frame: Vec<u8>, step: Option<BenchStep>) -> Case {
    let (kind, work) = (CaseKind::Known, Work::Counting);
    Case { id, name, frame, step, kind, work, full: true, every_hook: false, precise: false, timed: None }
}

/// All cases in the order of the table. Those that fill the flow table come last.
pub(super) fn all() -> Vec<Case> {
    [data(), exact(), others(), table()].concat()
}

/// WRITEs in every wrapper.
fn data() -> Vec<Case> {
    vec![
        Case {
            every_hook: true,
            ..case(
                "ipv4_in_order",
                "RoCEv2/IPv4 WRITE, PSNs in order",
                f::write(0x10),
                Some(in_order(f::IPV4_BTH)),
            )
        },
        Case {
            every_hook: true,
            ..case("ipv4_repeat", "RoCEv2/IPv4 WRITE, retransmitted PSN", f::write(0x10), None)
        },
        case("ipv6_in_order", "RoCEv2/IPv6 WRITE, in order", f::write_v6(), Some(in_order(f::IPV6_BTH))),
        case(
            "vlan_in_order",
            "VLAN, RoCEv2/IPv4 WRITE, in order",
            f::write_vlan(),
            Some(in_order(f::VLAN_BTH)),
        ),
        case(
            "vxlan_in_order",
            "VXLAN, RoCEv2/IPv4 WRITE, in order",
            f::write_vxlan(),
            Some(in_order(f::VXLAN_BTH)),
        ),
        case(
            "erspan2_in_order",
            "ERSPAN II, RoCEv2/IPv4 WRITE, in order",
            f::write_erspan(),
            Some(in_order(f::ERSPAN_BTH)),
        ),
    ]
}

/// Answers, and frames that are not RoCE.
fn others() -> Vec<Case> {
    vec![
        case("ack", "RoCEv2/IPv4 ACK", f::ack(), None),
        Case { kind: CaseKind::Events, ..case("cnp", "RoCEv2/IPv4 CNP, with its event", f::cnp(), None) },
        Case { kind: CaseKind::Events, ..case("nak", "RoCEv2/IPv4 NAK, with its event", f::nak(), None) },
        case("tcp", "TCP", f::tcp(), None),
        case("tcp_ipv6", "TCP over IPv6", f::tcp_v6(), None),
        case("tcp_vlan", "TCP with a VLAN tag in the frame", f::tcp_vlan(), None),
        case("udp", "other UDP", f::udp(), None),
        case("arp", "ARP", f::arp(), None),
    ]
    .into_iter()
    .map(|case| Case { full: false, ..case })
    .collect()
}

/// Packets that fill the flow table, or find it filled.
fn table() -> Vec<Case> {
    let of = |kind, work, precise, id, name| {
        let first = if id == "table_full" { 0x30_0000 } else { 0x20_0000 };
        Case { kind, work, precise, ..case(id, name, f::write(first), Some(next_flow(f::IPV4_BTH))) }
    };
    let (filling, filled) = (CaseKind::Fill, CaseKind::Full);
    let (all, reach, together) = (Work::Counting, Work::Reach, Work::Together);
    vec![
        of(filling, all, false, "new_flow", "a new flow each packet, with its event"),
        of(filling, Work::Insert, false, "floor_new_flow", "  floor: insertion, slot, event alone"),
        of(filling, Work::Hash, false, "floor_hash", "  of that, the insertion into the hash"),
        of(filling, Work::Event, false, "floor_event", "  of that, the event"),
        of(filled, all, false, "known_of_65536", "65,536 known flows, round robin"),
        of(filled, reach, false, "floor_of_65536", "  floor: all but bins and latency"),
        of(filled, together, false, "together_of_65536", "  its memory in two lines, uncounted"),
        of(filled, all, false, "table_full", "new flows, flow table full"),
        of(filling, all, true, "precise_new_flow", "a new flow each time, exact clock, bins"),
        of(filling, Work::Insert, true, "precise_floor_new_flow", "  floor: insertion, slot, event alone"),
        of(filled, all, true, "precise_of_65536", "65,536 known flows, exact clock, bins"),
        of(filled, reach, true, "precise_floor_of_65536", "  floor: all but bins and latency"),
        of(filled, together, true, "precise_together_of_65536", "  its memory in two lines, uncounted"),
    ]
}

/// Those with the exact clock.
fn exact() -> Vec<Case> {
    let of = |work, name, about| Case {
        work,
        precise: true,
        ..case(name, about, f::write(0x18), Some(in_order(f::IPV4_BTH)))
    };
    vec![
        Case {
            work: Work::Clock,
            full: false,
            ..case("clock", "the exact clock alone, nothing counted", f::write(0x10), None)
        },
        of(Work::Counting, "precise_in_order", "IPv4 WRITE in order, exact clock, bins"),
        of(Work::Reach, "floor_in_order", "  floor: all but bins and latency"),
        of(Work::Together, "together_in_order", "  its memory in two lines, uncounted"),
        of(Work::Published, "published_in_order", "  the same with a time from memory"),
        Case {
            precise: true,
            timed: Some(TIMED_QP),
            ..case(
                "timed_middle",
                "the same, latency measured",
                f::write(TIMED_QP),
                Some(in_order(f::IPV4_BTH)),
            )
        },
        Case {
            precise: true,
            timed: Some(ANSWERED_QP),
            ..case(
                "timed_answered",
                "WRITE LAST and ACK alternating, latency",
                f::write_last(ANSWERED_QP),
                Some(answered(f::IPV4_BTH)),
            )
        },
        Case {
            work: Work::Answered,
            precise: true,
            timed: Some(ANSWERED_QP),
            ..case(
                "floor_answered",
                "  floor: these two counted, nothing else",
                f::write_last(ANSWERED_QP),
                Some(answered(f::IPV4_BTH)),
            )
        },
    ]
}

const _: () = assert!(FLOWS.is_power_of_two());
