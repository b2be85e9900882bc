//! Packets in the form that collectors take.

use std::sync::Arc;

use rocescope_common::account::{Event, FlowKey, FlowStats, Outcome};
use rocescope_common::wire::Frame;
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
    /// RoCE version, 1 or 2.
    pub roce_version: u8,
    /// The BTH's AckReq bit.
    pub ack_req: bool,
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
        roce_version: 0,
        ack_req: false,
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
            roce_version: frame.roce_version,
            ack_req: frame.ack_req,
        }
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

    /// Time to live, or hop limit; 0 where the packet is cut before it.
    #[must_use]
    pub fn hops(&self) -> u8 {
        let field = match self.frame.family {
            4 => 8,
            6 => 7,
            // A LRH has none.
            _ => return 0,
        };
        self.data.get(self.frame.ip_offset as usize + field).copied().unwrap_or(0)
    }
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
