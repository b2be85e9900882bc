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
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Xdp, Self::XdpFrags, Self::Tc];

    /// Name in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::XdpFrags => "xdp_frags",
            Self::Tc => "tc",
        }
    }

    /// True for XDP.
    #[must_use]
    pub const fn is_xdp(self) -> bool {
        !matches!(self, Self::Tc)
    }

    /// The program that reads the exact clock, and the one whose cost is taken off.
    pub(super) const fn clock(self) -> (&'static str, &'static str) {
        match self {
            Self::Tc => (names::BENCH_TC_CLOCK, names::BENCH_TC_EMPTY),
            Self::Xdp | Self::XdpFrags => (names::BENCH_XDP_CLOCK, names::BENCH_XDP_EMPTY),
        }
    }

    /// The program measured, and the one whose cost is taken off.
    pub(super) const fn programs(self, stepping: bool) -> (&'static str, &'static str) {
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
    /// Nothing is counted: only the exact clock is read.
    Clock,
    /// Every packet sends an event; the ring buffer is emptied between measurements.
    Events,
    /// Needs a table that holds exactly [`FLOWS`] flows, and fills it.
    Fill,
    /// The same table, now full of flows of which each packet is one in turn.
    Full,
}

/// Flows in the cases that need many.
pub(super) const FLOWS: u32 = crate::source::live::DEFAULT_MAX_FLOWS;

/// One case.
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
    Case {
        id,
        name,
        frame,
        step,
        kind: CaseKind::Known,
        full: true,
        every_hook: false,
        precise: false,
        timed: None,
    }
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
    vec![
        Case {
            kind: CaseKind::Fill,
            ..case(
                "new_flow",
                "a new flow each packet, with its event",
                f::write(0x20_0000),
                Some(next_flow(f::IPV4_BTH)),
            )
        },
        Case {
            kind: CaseKind::Full,
            ..case(
                "known_of_65536",
                "65,536 known flows, round robin",
                f::write(0x20_0000),
                Some(next_flow(f::IPV4_BTH)),
            )
        },
        Case {
            kind: CaseKind::Full,
            ..case(
                "table_full",
                "new flows, flow table full",
                f::write(0x30_0000),
                Some(next_flow(f::IPV4_BTH)),
            )
        },
        Case {
            kind: CaseKind::Fill,
            precise: true,
            ..case(
                "precise_new_flow",
                "a new flow each time, exact clock, bins",
                f::write(0x20_0000),
                Some(next_flow(f::IPV4_BTH)),
            )
        },
        Case {
            kind: CaseKind::Full,
            precise: true,
            ..case(
                "precise_of_65536",
                "65,536 known flows, exact clock, bins",
                f::write(0x20_0000),
                Some(next_flow(f::IPV4_BTH)),
            )
        },
    ]
}

/// Those with the exact clock.
fn exact() -> Vec<Case> {
    vec![
        Case {
            kind: CaseKind::Clock,
            full: false,
            ..case("clock", "the exact clock alone, nothing counted", f::write(0x10), None)
        },
        Case {
            precise: true,
            ..case(
                "precise_in_order",
                "IPv4 WRITE in order, exact clock, bins",
                f::write(0x18),
                Some(in_order(f::IPV4_BTH)),
            )
        },
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
    ]
}

const _: () = assert!(FLOWS.is_power_of_two());
