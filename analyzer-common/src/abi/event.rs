//! Events that the kernel programs send to user space immediately, in addition to counters.

use crate::account::latency::RetxRun;
use crate::account::{Event, FlowKey};

/// Bytes of the packet in an event: enough for the headers of a connection request inside VXLAN over IPv6.
pub const EVENT_HEADERS: usize = 256;

/// One event. In the ring buffer a record ends after none, [`EventRecord::FEW_HEADERS`] or all bytes of `headers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct EventRecord {
    /// Time of the packet, in the run's clock.
    pub time_ns: u64,
    /// The flow of the packet.
    pub key: FlowKey,
    /// BTH packet sequence number.
    pub psn: u32,
    /// With [`crate::account::Event::GAP`] the number of skipped PSNs. With [`crate::account::Event::CNP`]
    /// the age of the first CE mark on the flow that the CNP is for, see [`mark_age`].
    pub missing: u32,
    /// AETH, or [`crate::wire::frame::UNKNOWN`].
    pub aeth: u32,
    /// Length of the frame on the wire.
    pub wire_len: u32,
    /// Bits of [`crate::account::Event`].
    pub events: u16,
    /// Valid bytes of `headers`; 0 for events without headers.
    pub headers_len: u16,
    /// Offset of the BTH in `headers`.
    pub bth_offset: u16,
    /// BTH operation code.
    pub opcode: u8,
    /// IPv4 ToS or IPv6 traffic class.
    pub tos: u8,
    /// UDP source port.
    pub src_port: u16,
    /// Always 0.
    pub pad: [u8; 6],
    /// The first bytes of the packet; with [`crate::account::Event::RETX_RUN`] a [`RetxRun`].
    pub headers: [u8; EVENT_HEADERS],
}

impl EventRecord {
    /// Bytes of a record without headers.
    pub const BARE: usize = core::mem::offset_of!(Self, headers);
    /// Bytes of the packet in a short record: enough for the headers of nearly all packets.
    pub const FEW_HEADERS: usize = 128;
    /// Bytes of a short record.
    pub const SHORT: usize = Self::BARE + Self::FEW_HEADERS;
    /// Bytes of a whole record.
    pub const LONG: usize = core::mem::size_of::<Self>();

    /// Bytes of `headers` that a run takes, with [`crate::account::Event::RETX_RUN`].
    pub const RETX_RUN_LEN: u16 = core::mem::size_of::<RetxRun>() as u16;

    /// The run of duplicate-PSN packets in an event with [`crate::account::Event::RETX_RUN`]. The record's
    /// PSN and time are those of the packet that ended the run; `missing` is 1 if its PSN was a duplicate
    /// too.
    pub fn retx_run(&self) -> Option<RetxRun> {
        let is_run = self.events & Event::RETX_RUN != 0 && self.headers_len == Self::RETX_RUN_LEN;
        let word = |at: usize| self.headers.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
        let number = |at: usize| word(at).map(|bytes| u32::from_ne_bytes(*bytes));
        let long = |at: usize| {
            let bytes = self.headers.get(at..at + 8).and_then(|bytes| bytes.first_chunk());
            bytes.map(|bytes| u64::from_ne_bytes(*bytes))
        };
        if !is_run {
            return None;
        }
        Some(RetxRun {
            start_ns: long(0)?,
            end_ns: long(8)?,
            pause_ns: number(16)?,
            first: number(20)?,
            packets: number(24)?,
            expected: number(28)?,
        })
    }
}

/// Age of the first CE mark since the previous CNP, as encoded in the event of a CNP.
pub mod mark_age {
    /// The flow that the CNP is for is not known, or not tracked.
    pub const UNKNOWN: u32 = 0;
    /// No CE mark since the previous CNP.
    pub const NONE: u32 = 1;
    /// The smallest encoded age.
    const FIRST: u32 = 2;
    /// Ages are in units of 16 ns.
    const UNIT_BITS: u32 = 4;

    /// Encodes an age in nanoseconds; saturates at 68 s.
    #[inline(always)]
    pub const fn encode(ns: u64) -> u32 {
        let units = ns >> UNIT_BITS;
        if units > (u32::MAX - FIRST) as u64 { u32::MAX } else { units as u32 + FIRST }
    }

    /// The age in nanoseconds; `None` for [`UNKNOWN`] and [`NONE`].
    pub const fn decode(age: u32) -> Option<u64> {
        match age.checked_sub(FIRST) {
            Some(units) => Some((units as u64) << UNIT_BITS),
            None => None,
        }
    }
}

const _: () = {
    use core::mem::size_of;
    assert!(size_of::<EventRecord>() == 80 + EVENT_HEADERS);
    assert!(size_of::<RetxRun>() == 32 && EventRecord::BARE == 80);
    assert!(EventRecord::BARE.is_multiple_of(8) && EventRecord::SHORT.is_multiple_of(8));
};
