//! Packets in the form that collectors take.

use std::sync::Arc;

use rocescope_common::account::{Event, FlowKey, FlowStats, Outcome};
use rocescope_common::wire::Frame;
use rocescope_common::wire::frame::PCP_NONE;
use rocescope_common::wire::opcode::Op;

/// A counted RoCE packet, with the fields that collectors need of every packet. It borrows nothing, so that another thread
/// can take it later, and it fills one cache line: handing data to another processor costs by the line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Packet {
    /// Its time, Unix nanoseconds. Packets of one link are in the order of the capture, which is nearly always the order
    /// of their times.
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
    /// AETH, or `UNKNOWN`.
    pub aeth: u32,
    /// DMA length of the RETH, or `UNKNOWN`.
    pub dma_len: u32,
    /// The next expected PSN of its sequence. Not next to [`first`](Self::first): one load for both, of which one was just
    /// stored and the other long ago, would stall.
    pub expected: u32,
    /// The flow's path MTU in bytes; 0 when unknown.
    pub mtu: u16,
    /// Its link.
    pub link: u16,
    /// IPv4 identification; 0 without one.
    pub id: u16,
    /// UDP source port; 0 for RoCEv1.
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
    /// RoCEv2.
    const V2: u8 = 0x40;
    /// It has ECN bits: RoCEv2, and InfiniBand with its FECN.
    const ECN: u8 = 0x10;
    /// Its outermost VLAN tag is known.
    const TAGGED: u8 = 0x20;
    /// The priority code point of the outermost VLAN tag.
    const PRIORITY: u8 = 0x07;
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
    #[must_use]
    pub fn new(
        (frame, data): (&Frame, &[u8]),
        (time_ns, link): (u64, u16),
        slot: u32,
        stats: &FlowStats,
        outcome: Outcome,
    ) -> Self {
        let response = Op::of(frame.opcode).has(Op::RESPONSE);
        let track = if response { &stats.psn_responses } else { &stats.psn };
        Self {
            time_ns,
            slot,
            outcome,
            psn: frame.psn,
            first: track.first,
            wire_len: frame.wire_len,
            payload: frame.payload,
            aeth: frame.aeth,
            dma_len: frame.dma_len,
            expected: track.expected,
            // IBTA's are 256 to 4096.
            mtu: u16::try_from(stats.mtu).unwrap_or(u16::MAX),
            link,
            id: identification(frame, data),
            src_port: frame.src_port,
            opcode: frame.opcode,
            tos: frame.tos,
            hops: hops(frame, data),
            flags: flags(frame),
        }
    }

    /// The BTH's AckReq bit.
    #[inline]
    #[must_use]
    pub const fn ack_req(&self) -> bool {
        self.flags & Flag::ACK_REQ != 0
    }

    /// Whether it is RoCEv2, and not RoCEv1.
    #[inline]
    #[must_use]
    pub const fn is_v2(&self) -> bool {
        self.flags & Flag::V2 != 0
    }

    /// Whether it has ECN bits.
    #[inline]
    #[must_use]
    pub const fn has_ecn(&self) -> bool {
        self.flags & Flag::ECN != 0
    }

    /// Priority code point of the outermost VLAN tag; `None` when it is untagged, or the tag is not known.
    #[inline]
    #[must_use]
    pub fn priority(&self) -> Option<u8> {
        (self.flags & Flag::TAGGED != 0).then_some(self.flags & Flag::PRIORITY)
    }

    /// Whether collectors need its [`Aside`].
    #[inline]
    #[must_use]
    pub fn wants_aside(&self) -> bool {
        self.outcome.events & (Event::NEW_FLOW | Event::GSI) != 0
    }
}

/// What collectors need of a few packets only: the first of each flow, and those to queue pair 1.
#[derive(Clone, Debug)]
pub struct Aside {
    /// The parsed headers.
    pub frame: Frame,
    /// The flow key.
    pub key: FlowKey,
    /// The captured bytes.
    pub data: Vec<u8>,
    /// The tap of the capture.
    pub tap: Arc<str>,
    /// The number of the interface within the tap.
    pub interface: u32,
}

impl Aside {
    /// The aside of a packet on `link` with these headers and captured bytes, from this interface of a tap.
    #[must_use]
    pub fn of((frame, data): (&Frame, &[u8]), link: u16, tap: Arc<str>, interface: u32) -> Self {
        Self { frame: *frame, key: FlowKey::of(frame, link), data: data.to_vec(), tap, interface }
    }
}

#[inline]
fn flags(frame: &Frame) -> u8 {
    let bit = |set: bool, bit: u8| if set { bit } else { 0 };
    let tagged = frame.pcp != PCP_NONE;
    bit(frame.ack_req, Flag::ACK_REQ)
        | bit(frame.roce_version == 2, Flag::V2)
        | bit(frame.roce_version != 1, Flag::ECN)
        | bit(tagged, Flag::TAGGED | frame.pcp & Flag::PRIORITY)
}

/// Time to live, or hop limit; 0 where it is cut off, or there is none.
#[inline]
fn hops(frame: &Frame, data: &[u8]) -> u8 {
    let field = match frame.family {
        4 => 8,
        6 => 7,
        // A LRH has none.
        _ => return 0,
    };
    data.get(frame.ip_offset as usize + field).copied().unwrap_or(0)
}

/// The IPv4 identification; 0 without one.
#[inline]
fn identification(frame: &Frame, data: &[u8]) -> u16 {
    if frame.family != 4 || frame.roce_version != 2 {
        return 0;
    }
    let at = frame.ip_offset as usize + 4;
    match data.get(at..at + 2) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    }
}
