//! Packets in the form that collectors take.

use std::sync::Arc;

use crate::entity::Stats;
use rocescope_common::account::{Event, FlowKey, Outcome};
use rocescope_common::wire::Frame;
use rocescope_common::wire::bth::MASK24;
pub use rocescope_common::wire::frame::CE;
use rocescope_common::wire::frame::PCP_NONE;
use rocescope_common::wire::opcode::Op;

/// ECN bits of the type of service, or traffic class.
pub const ECT_MASK: u8 = 3;

/// A counted RoCE packet, with the fields that collectors need of every packet. It borrows nothing, so that another
/// thread can take it later, and it fills one cache line: handing data to another processor costs by the line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Packet {
    /// Its time, Unix nanoseconds. Packets of one link are in the order of the capture, which is nearly always the
    /// order of their times.
    pub time_ns: u64,
    /// The slot of its flow. Another flow may reuse it after the flow is retired.
    pub slot: u32,
    /// The outcome of counting it.
    pub outcome: Outcome,
    /// BTH packet sequence number.
    pub psn: u32,
    /// First PSN of its sequence (of responses, or of requests).
    pub first: u32,
    /// Length of the outer frame on the wire without FCS.
    pub wire_len: u32,
    /// Payload in bytes, or [`UNKNOWN`](rocescope_common::wire::frame::UNKNOWN).
    pub payload: u32,
    /// AETH of the packet, or `UNKNOWN`.
    pub aeth: u32,
    /// DMA length of the RETH, or `UNKNOWN`.
    pub dma_len: u32,
    /// The next expected PSN of its sequence. Not next to [`first`](Self::first): one load for both, of which one was
    /// just stored and the other long ago, would stall.
    pub expected: u32,
    /// The flow's path MTU in bytes; 0 when unknown.
    pub mtu: u16,
    /// Number of its link.
    pub link: u16,
    /// IPv4 identification; 0 without one.
    pub id: u16,
    /// UDP source port; 0 without one.
    pub src_port: u16,
    /// BTH operation code.
    pub opcode: u8,
    /// IPv4 ToS or IPv6 traffic class.
    pub tos: u8,
    /// Time to live, or hop limit.
    pub hops: u8,
    /// Bits of [`Flag`], with the priority code point in [`Flag::PRIORITY`].
    flags: u8,
}

/// Bits of a packet that need no byte each.
struct Flag;

impl Flag {
    /// The BTH's AckReq bit.
    const ACK_REQ: u8 = 0x80;
    /// It has ECN bits: RoCEv2, and InfiniBand with its FECN.
    const ECN: u8 = 0x40;
    /// Its outermost VLAN tag is known.
    const TAGGED: u8 = 0x20;
    /// The priority code point of the outermost VLAN tag, from bit [`Flag::PRIORITY_SHIFT`] on.
    const PRIORITY: u8 = 0x1C;
    const PRIORITY_SHIFT: u32 = 2;
    /// The ECN bits of a packet that is neither an ACKNOWLEDGE nor a CNP: three collectors ask for them.
    const DATA_ECN: u8 = ECT_MASK;
}

const _: () = assert!(size_of::<Packet>() == 64, "a packet is one cache line");

impl Packet {
    /// A placeholder, to be overwritten.
    pub const EMPTY: Self = Self {
        time_ns: 0,
        slot: 0,
        outcome: Outcome::NONE,
        psn: 0,
        first: 0,
        wire_len: 0,
        payload: 0,
        aeth: 0,
        dma_len: 0,
        expected: 0,
        mtu: 0,
        link: 0,
        id: 0,
        src_port: 0,
        opcode: 0,
        tos: 0,
        hops: 0,
        flags: 0,
    };

    /// A counted packet: its headers and captured bytes, its time and link, the slot and the counters of its
    /// flow (this packet included), and the outcome of counting it.
    #[inline]
    pub fn new(
        (frame, data): (&Frame, &[u8]),
        (time_ns, link): (u64, u16),
        slot: u32,
        stats: &Stats,
        outcome: Outcome,
    ) -> Self {
        let op = Op::of(frame.opcode);
        let response = op.has(Op::RESPONSE);
        let (id, hops) = network(frame, data);
        let (first, expected) = if response {
            (stats.rare.psn_responses.first, stats.rare.psn_responses.expected)
        } else {
            (stats.psn.first, stats.psn.expected)
        };
        Self {
            time_ns,
            slot,
            outcome,
            psn: frame.psn,
            first,
            wire_len: frame.wire_len,
            payload: frame.payload,
            aeth: frame.aeth,
            dma_len: frame.dma_len,
            expected,
            // IBTA's are 256 to 4096.
            mtu: u16::try_from(stats.mtu).unwrap_or(u16::MAX),
            link,
            id,
            src_port: frame.src_port,
            opcode: frame.opcode,
            tos: frame.tos,
            hops,
            flags: flags(frame, op),
        }
    }

    /// The packet directly behind this one in the middle of a message: only PSN, IPv4 identification and time differ.
    #[inline]
    #[must_use]
    pub fn next(&self, (frame, data): (&Frame, &[u8]), time_ns: u64) -> Self {
        let (id, _) = network(frame, data);
        Self { time_ns, psn: frame.psn, expected: frame.psn.wrapping_add(1) & MASK24, id, ..*self }
    }

    /// The BTH's AckReq bit.
    #[inline]
    pub const fn ack_req(&self) -> bool {
        self.flags & Flag::ACK_REQ != 0
    }

    /// True if it has ECN bits.
    #[inline]
    pub const fn has_ecn(&self) -> bool {
        self.flags & Flag::ECN != 0
    }

    /// The ECN bits of a packet that is neither an ACKNOWLEDGE nor a CNP; 0 (not ECN-capable) for all others.
    #[inline]
    pub const fn data_ecn(&self) -> u8 {
        self.flags & Flag::DATA_ECN
    }

    /// Priority code point of the outermost VLAN tag; `None` when it is untagged, or the tag is not known.
    #[inline]
    pub fn priority(&self) -> Option<u8> {
        let priority = (self.flags & Flag::PRIORITY) >> Flag::PRIORITY_SHIFT;
        (self.flags & Flag::TAGGED != 0).then_some(priority)
    }

    /// True if collectors need its [`PacketExtras`].
    #[inline]
    pub fn wants_extras(&self) -> bool {
        self.outcome.events & (Event::NEW_FLOW | Event::GSI) != 0
    }
}

/// Headers and bytes that collectors need of a few packets only: the first of each flow, and those to queue pair 1.
#[derive(Clone, Debug)]
pub struct PacketExtras {
    /// Headers of the packet.
    pub frame: Frame,
    /// Key of the flow.
    pub key: FlowKey,
    /// Captured bytes of the frame.
    pub data: Vec<u8>,
    /// The tap of the capture.
    pub tap: Arc<str>,
    /// The number of the interface within the tap.
    pub interface: u32,
}

impl PacketExtras {
    /// The extras of a packet on `link` with these headers and captured bytes, from this interface of a tap.
    pub fn of((frame, data): (&Frame, &[u8]), link: u16, tap: Arc<str>, interface: u32) -> Self {
        Self { frame: *frame, key: FlowKey::of(frame, link), data: data.to_vec(), tap, interface }
    }
}

#[inline]
fn flags(frame: &Frame, op: Op) -> u8 {
    let ecn = match (frame.roce_version, op.any(Op::ACKNOWLEDGE | Op::CNP)) {
        (1, _) => 0,
        (_, true) => Flag::ECN,
        (_, false) => Flag::ECN | frame.tos & Flag::DATA_ECN,
    };
    let ack_req = u8::from(frame.ack_req) * Flag::ACK_REQ;
    if frame.pcp == PCP_NONE {
        return ack_req | ecn;
    }
    ack_req | ecn | Flag::TAGGED | frame.pcp << Flag::PRIORITY_SHIFT & Flag::PRIORITY
}

/// The IPv4 identification, and the time to live or hop limit; 0 where there is none, or it is cut off.
#[inline]
fn network(frame: &Frame, data: &[u8]) -> (u16, u8) {
    // From the identification on, with the hop limit of IPv6 and the time to live of IPv4: one look for both.
    let from = (frame.ip_offset as usize).saturating_add(4);
    let fields = data.get(from..).and_then(<[u8]>::first_chunk);
    match (frame.family, fields) {
        (4, Some(&[high, low, _, _, hops])) => (u16::from_be_bytes([high, low]), hops),
        (6, Some(&[_, _, _, hops, _])) => (0, hops),
        // A LRH has none.
        _ => (0, 0),
    }
}
