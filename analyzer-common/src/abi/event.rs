//! Events: what the kernel programs tell at once rather than count.

use crate::account::FlowKey;

/// Bytes of the packet that go with an event: enough for the headers of a connection request
/// inside VXLAN over IPv6.
pub const EVENT_HEADERS: usize = 256;

/// One event in the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct EventRecord {
    /// When the packet was seen, in the run's clock.
    pub time_ns: u64,
    /// The flow of the packet.
    pub key: FlowKey,
    /// BTH packet sequence number.
    pub psn: u32,
    /// PSNs skipped, with [`crate::account::Event::GAP`]. With [`crate::account::Event::CNP`] the time
    /// since the flow that it is about was marked, see [`mark`].
    pub missing: u32,
    /// AETH, or [`crate::wire::frame::UNKNOWN`].
    pub aeth: u32,
    /// Length of the frame on the wire.
    pub wire_len: u32,
    /// Bits of [`crate::account::Event`].
    pub events: u16,
    /// How many of `headers` are the packet's; 0 for events that carry none.
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
    /// The first bytes of the packet.
    pub headers: [u8; EVENT_HEADERS],
}

/// What is told with a CNP of the first CE mark since the CNP before.
pub mod mark {
    /// The flow that the CNP is about is not known, or not watched.
    pub const UNKNOWN: u32 = 0;
    /// There was no mark.
    pub const NONE: u32 = 1;
    /// Less than any time told.
    const FIRST: u32 = 2;
    /// Times are told in units of 16 ns.
    const UNIT_BITS: u32 = 4;

    /// A mark so long ago, up to 68 s.
    #[inline(always)]
    #[must_use]
    pub const fn since(ns: u64) -> u32 {
        let units = ns >> UNIT_BITS;
        if units > (u32::MAX - FIRST) as u64 { u32::MAX } else { units as u32 + FIRST }
    }

    /// The nanoseconds that were told; `None` when no time was.
    #[must_use]
    pub const fn ns(told: u32) -> Option<u64> {
        match told.checked_sub(FIRST) {
            Some(units) => Some((units as u64) << UNIT_BITS),
            None => None,
        }
    }
}

const _: () = {
    use core::mem::size_of;
    assert!(size_of::<EventRecord>() == 80 + EVENT_HEADERS);
};
