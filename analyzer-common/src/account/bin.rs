//! Traffic over time in the kernel programs: the figures that need every packet.
//!
//! A flow keeps one record, of its current bin. A packet in another bin starts a new record, and the old
//! one goes to user space: one record per flow and bin (more if a counter is full), none while the flow is
//! silent. Bins are shorter than the silence that ends a [flowlet](super::flowlet), so the records
//! reproduce flowlets exactly.

use super::flowlet::{FLOWLET_GAP_NS, Flowlet};
use super::message::{ByOperation, MessagePacket, OpenMessage};
use super::outcome::{Event, Outcome};
use crate::wire::Frame;
use crate::wire::frame::CE;
use crate::wire::opcode::Op;

/// Maximum length of a bin: offsets and sums fit into their fields, and a bin is shorter than the gap
/// between two flowlets.
pub const LONGEST_NS: u64 = 1_000_000;

/// Division of time into bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bins {
    /// Length of a bin, 1 to [`LONGEST_NS`].
    pub length_ns: u64,
    /// Added to a time before the division, to align bins with the wall clock.
    pub phase_ns: u64,
}

impl Bins {
    /// Start of the bin that contains a time.
    #[inline(always)]
    pub const fn start(self, now_ns: u64) -> u64 {
        let length = if self.length_ns == 0 { 1 } else { self.length_ns };
        now_ns.wrapping_sub(now_ns.wrapping_add(self.phase_ns) % length)
    }
}

/// Traffic of a flow in one bin. All zero: empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FlowBin {
    /// Start of the bin, in the run's clock.
    pub start_ns: u64,
    /// Lower 24 bits: 1 + nanoseconds from the start of the bin to the first data packet, 0 if there is
    /// none. Upper bits: number of this record within its bin, modulo 256.
    first: u32,
    /// 1 + nanoseconds from the start of the bin to the latest data packet, 0 if there is none.
    last: u32,
    /// Bytes of the outer frames of all packets.
    pub bytes: u32,
    /// Bytes of packets other than data, see [`Flowlet::is_data`]. Counted rather than those of data, of which there
    /// are more.
    control_bytes: u32,
    /// Bytes of data packets that are retransmissions (PSN behind the expected one).
    repeat_bytes: u32,
    /// Packets of every kind. 0: the record is empty.
    pub packets: u16,
    /// Data packets marked CE.
    pub ce: u16,
    /// The flow's open message, which outlives the bin: see [`OpenMessage`].
    message_bytes: u32,
    /// Flags of the open message.
    message_flags: u8,
    /// Packets other than data.
    pub control: u8,
    /// Congestion notification packets among them.
    pub cnp: u8,
    /// Number of PSN gaps.
    pub gaps: u8,
}

const OFFSET: u32 = 0x00FF_FFFF;
const PART: u32 = 1 << 24;

impl FlowBin {
    /// Counts a packet that [`observe`](super::flow::observe) has counted. If it starts a new record, moves
    /// the previous one to `ended` and returns true.
    #[inline(always)]
    pub fn observe(
        &mut self,
        frame: &Frame,
        op: Op,
        outcome: Outcome,
        now_ns: u64,
        bins: Bins,
        ended: &mut Self,
    ) -> bool {
        let over = now_ns.wrapping_sub(self.start_ns) >= bins.length_ns;
        let full = self.packets == u16::MAX || self.control == u8::MAX || self.gaps == u8::MAX;
        let mut tell = false;
        if over || full {
            tell = self.packets != 0;
            *ended = *self;
            self.begin(if over { bins.start(now_ns) } else { self.start_ns }, over);
        }
        self.packets += 1;
        self.bytes += frame.wire_len;
        if Flowlet::is_data(op) {
            let offset = (now_ns.wrapping_sub(self.start_ns) as u32 & OFFSET) + 1;
            if self.first & OFFSET == 0 {
                self.first |= offset & OFFSET;
            }
            if offset > self.last {
                self.last = offset;
            }
            if outcome.duplicate_psn {
                self.repeat_bytes += frame.wire_len;
            }
            if frame.roce_version != 1 && frame.tos & CE == CE {
                self.ce += 1;
            }
            if outcome.events & Event::GAP != 0 {
                self.gaps += 1;
            }
        } else {
            self.control += 1;
            self.control_bytes += frame.wire_len;
            if op.has(Op::CNP) {
                self.cnp += 1;
            }
        }
        tell
    }

    /// Starts a record; keeps the open message.
    #[inline(always)]
    fn begin(&mut self, start_ns: u64, first_of_bin: bool) {
        let part = if first_of_bin { 0 } else { self.first.wrapping_add(PART) & !OFFSET };
        *self = Self {
            start_ns,
            first: part,
            message_bytes: self.message_bytes,
            message_flags: self.message_flags,
            ..Self::default()
        };
    }

    /// Counts the packet in its message, see [`OpenMessage::packet`].
    #[inline(always)]
    pub fn message(&mut self, kinds: &mut ByOperation, frame: &Frame, op: Op, outcome: Outcome) {
        let mut open = OpenMessage::from_parts(self.message_bytes, self.message_flags);
        open.packet(
            kinds,
            MessagePacket::of(frame),
            op,
            outcome.duplicate_psn,
            outcome.events & Event::GAP != 0,
        );
        (self.message_bytes, self.message_flags) = open.parts();
    }

    /// True if the flow has an open message.
    pub fn message_is_open(&self) -> bool {
        OpenMessage::from_parts(self.message_bytes, self.message_flags).is_open()
    }

    /// Bytes of data packets.
    pub fn data_bytes(&self) -> u32 {
        self.bytes.saturating_sub(self.control_bytes)
    }

    /// Bytes of data packets that are not retransmissions.
    pub fn fresh_bytes(&self) -> u32 {
        self.data_bytes().saturating_sub(self.repeat_bytes)
    }

    /// Data packets among the packets of this record.
    pub fn data_packets(&self) -> u16 {
        self.packets.saturating_sub(u16::from(self.control))
    }

    /// The data of this record as a flowlet; `None` without data.
    pub fn data(&self) -> Option<Flowlet> {
        let at = |offset: u32| self.start_ns.saturating_add(u64::from(offset & OFFSET).saturating_sub(1));
        (self.first & OFFSET != 0).then(|| Flowlet {
            start_ns: at(self.first),
            end_ns: at(self.last),
            fresh_bytes: u64::from(self.fresh_bytes()),
        })
    }

    /// True if `later` is a later state of this record.
    pub fn is_part_of(&self, later: &Self) -> bool {
        let first = self.first & OFFSET;
        self.start_ns == later.start_ns
            && self.first & !OFFSET == later.first & !OFFSET
            && (first == 0 || first == later.first & OFFSET)
            && self.packets <= later.packets
    }

    /// Traffic counted in this record after the state `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            // The start of the data was in `before` already.
            first: if self.data_bytes() == before.data_bytes() { 0 } else { self.first },
            last: if self.data_bytes() == before.data_bytes() { 0 } else { self.last },
            bytes: self.bytes.saturating_sub(before.bytes),
            control_bytes: self.control_bytes.saturating_sub(before.control_bytes),
            repeat_bytes: self.repeat_bytes.saturating_sub(before.repeat_bytes),
            packets: self.packets.saturating_sub(before.packets),
            ce: self.ce.saturating_sub(before.ce),
            control: self.control.saturating_sub(before.control),
            cnp: self.cnp.saturating_sub(before.cnp),
            gaps: self.gaps.saturating_sub(before.gaps),
            ..*self
        }
    }
}

/// PSN and time of a packet in one word; 0: none. Resolution 256 ns, range 39 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct PsnAt(u64);

impl PsnAt {
    const SET: u64 = 1 << 63;
    const TIME: u64 = (1 << 39) - 1;
    const TIME_SHIFT: u32 = 8;
    const PSN_SHIFT: u32 = 39;

    /// Encodes a PSN and a time.
    #[inline(always)]
    pub const fn new(psn: u32, now_ns: u64) -> Self {
        let psn = (psn & OFFSET) as u64;
        Self(Self::SET | psn << Self::PSN_SHIFT | now_ns >> Self::TIME_SHIFT & Self::TIME)
    }

    /// PSN and time, which is at most 39 hours before `now_ns`; `None` if there is none.
    pub fn get(self, now_ns: u64) -> Option<(u32, u64)> {
        if self.0 & Self::SET == 0 {
            return None;
        }
        let now = now_ns >> Self::TIME_SHIFT;
        let ago = now.wrapping_sub(self.0) & Self::TIME;
        let psn = (self.0 >> Self::PSN_SHIFT) as u32 & OFFSET;
        Some((psn, now.saturating_sub(ago) << Self::TIME_SHIFT))
    }
}

/// The latest request of a flow that expects a response, and its latest response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LastExchange {
    /// Latest request, with its time.
    pub request: PsnAt,
    /// Latest response, with its time.
    pub response: PsnAt,
}

impl LastExchange {
    /// Counts a packet, which arrives at `now_ns`.
    #[inline(always)]
    pub fn observe(&mut self, frame: &Frame, op: Op, now_ns: u64) {
        if op.any(Op::RESPONSE | Op::ACKNOWLEDGE) {
            self.response = PsnAt::new(frame.psn, now_ns);
        }
        if Self::expects_response(frame, op) {
            self.request = PsnAt::new(frame.psn, now_ns);
        }
    }

    /// True if a packet is data that expects a response.
    #[inline(always)]
    pub fn expects_response(frame: &Frame, op: Op) -> bool {
        Flowlet::is_data(op) && (frame.ack_req || op.has(Op::READ_REQUEST))
    }
}

const _: () = {
    use core::mem::size_of;
    assert!(size_of::<FlowBin>() == 40 && size_of::<LastExchange>() == 16);
    assert!(LONGEST_NS < FLOWLET_GAP_NS && LONGEST_NS < OFFSET as u64);
    // The bytes of a full record fit.
    assert!(u16::MAX as u64 * 65_536 <= u32::MAX as u64);
};

#[cfg(test)]
#[path = "bin_tests.rs"]
mod tests;
