//! A flow's traffic in short bins of time, for the kernel programs: what of the figures of traffic
//! over time can only be known packet by packet.
//!
//! A flow keeps the record of the bin at hand. A packet that falls into another bin begins a new
//! record, and the old one is told to user space: a flow tells one record per bin (more only when
//! one is full), and nothing while it is silent. A silence that ends a [flowlet](super::flowlet) is
//! longer than a bin, so that the records of a flow tell its flowlets exactly.

use super::flow::{Event, Outcome};
use super::flowlet::{FLOWLET_GAP_NS, Flowlet};
use super::message::{ByOperation, MessagePacket, OpenMessage};
use crate::wire::Frame;
use crate::wire::opcode::Op;

/// The longest bin of records: offsets and sums fit their fields, and no silence between two flowlets
/// fits into one.
pub const LONGEST_NS: u64 = 1_000_000;

/// How time is cut into bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bins {
    /// Length of a bin, 1 to [`LONGEST_NS`].
    pub length_ns: u64,
    /// What is added to a time before it is divided by the length: bins begin where those of the
    /// wall clock do.
    pub phase_ns: u64,
}

impl Bins {
    /// The start of the bin that a time falls into.
    #[inline(always)]
    #[must_use]
    pub const fn start(self, now_ns: u64) -> u64 {
        let length = if self.length_ns == 0 { 1 } else { self.length_ns };
        now_ns.wrapping_sub(now_ns.wrapping_add(self.phase_ns) % length)
    }
}

/// What a flow sent in one bin. All zero: nothing yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FlowBin {
    /// Start of the bin, in the run's clock.
    pub start_ns: u64,
    /// In the lower 24 bits 1 + nanoseconds from there to the first packet of data, 0 when there is
    /// none. Above, which record of its bin this is, modulo 256.
    first: u32,
    /// 1 + nanoseconds from the start to the latest packet of data, 0 when there is none.
    last: u32,
    /// Outer frames of all packets.
    pub bytes: u32,
    /// Those of data, see [`Flowlet::is_data`].
    pub data_bytes: u32,
    /// Those of data that was not sent before.
    pub fresh_bytes: u32,
    /// Packets of every kind. 0: nobody's record.
    pub packets: u16,
    /// Data marked CE.
    pub ce: u16,
    /// The message that the flow is sending: of the flow, not of the bin. See [`OpenMessage`].
    message_bytes: u32,
    /// As above.
    message_flags: u8,
    /// Packets that are no data.
    pub control: u8,
    /// Of these, congestion notification packets.
    pub cnp: u8,
    /// Jumps of a PSN ahead.
    pub gaps: u8,
}

const OFFSET: u32 = 0x00FF_FFFF;
const PART: u32 = 1 << 24;
const CE: u8 = 3;

impl FlowBin {
    /// Takes in a packet that was just counted. When it begins a new record, the one before it goes
    /// to `ended`, and true comes back.
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
            self.data_bytes += frame.wire_len;
            self.fresh_bytes += if outcome.duplicate_psn { 0 } else { frame.wire_len };
            if frame.roce_version == 2 && frame.tos & CE == CE {
                self.ce += 1;
            }
            if outcome.events & Event::GAP != 0 {
                self.gaps += 1;
            }
        } else {
            self.control += 1;
            if op.has(Op::CNP) {
                self.cnp += 1;
            }
        }
        tell
    }

    /// Begins a record; the message goes on.
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

    /// Whether the flow has begun a message and not ended it.
    #[must_use]
    pub fn message_is_open(&self) -> bool {
        OpenMessage::from_parts(self.message_bytes, self.message_flags).is_open()
    }

    /// Packets of data.
    #[must_use]
    pub fn data_packets(&self) -> u16 {
        self.packets.saturating_sub(u16::from(self.control))
    }

    /// The data of this record; `None` when there is none.
    #[must_use]
    pub fn data(&self) -> Option<Flowlet> {
        let at = |offset: u32| self.start_ns.saturating_add(u64::from(offset & OFFSET).saturating_sub(1));
        (self.first & OFFSET != 0).then(|| Flowlet {
            start_ns: at(self.first),
            end_ns: at(self.last),
            bytes: u64::from(self.data_bytes),
            fresh_bytes: u64::from(self.fresh_bytes),
            packets: u64::from(self.data_packets()),
        })
    }

    /// Whether `later` is this record, with what was counted in it since.
    #[must_use]
    pub fn is_part_of(&self, later: &Self) -> bool {
        let first = self.first & OFFSET;
        self.start_ns == later.start_ns
            && self.first & !OFFSET == later.first & !OFFSET
            && (first == 0 || first == later.first & OFFSET)
            && self.packets <= later.packets
    }

    /// What was counted in this record since it was `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            // What was known of the data's beginning is so still.
            first: if self.data_bytes == before.data_bytes { 0 } else { self.first },
            last: if self.data_bytes == before.data_bytes { 0 } else { self.last },
            bytes: self.bytes.saturating_sub(before.bytes),
            data_bytes: self.data_bytes.saturating_sub(before.data_bytes),
            fresh_bytes: self.fresh_bytes.saturating_sub(before.fresh_bytes),
            packets: self.packets.saturating_sub(before.packets),
            ce: self.ce.saturating_sub(before.ce),
            control: self.control.saturating_sub(before.control),
            cnp: self.cnp.saturating_sub(before.cnp),
            gaps: self.gaps.saturating_sub(before.gaps),
            ..*self
        }
    }
}

/// The PSN and the time of a packet, in a word. 0: none. The time is known to 256 ns, and of the
/// latest 39 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct PsnAt(u64);

impl PsnAt {
    const SET: u64 = 1 << 63;
    const TIME: u64 = (1 << 39) - 1;
    const TIME_SHIFT: u32 = 8;
    const PSN_SHIFT: u32 = 39;

    /// A PSN at a time.
    #[inline(always)]
    #[must_use]
    pub const fn new(psn: u32, now_ns: u64) -> Self {
        let psn = (psn & OFFSET) as u64;
        Self(Self::SET | psn << Self::PSN_SHIFT | now_ns >> Self::TIME_SHIFT & Self::TIME)
    }

    /// PSN and time, when it is `now_ns` or not long before; `None` when there is none.
    #[must_use]
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

/// The latest request of a flow that wants an answer, and its latest answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LastExchange {
    /// The request.
    pub request: PsnAt,
    /// The answer.
    pub response: PsnAt,
}

impl LastExchange {
    /// Takes in a packet.
    #[inline(always)]
    pub fn observe(&mut self, frame: &Frame, op: Op, now_ns: u64) {
        if op.any(Op::RESPONSE | Op::ACKNOWLEDGE) {
            self.response = PsnAt::new(frame.psn, now_ns);
        }
        if Self::expects_response(frame, op) {
            self.request = PsnAt::new(frame.psn, now_ns);
        }
    }

    /// Whether a packet is data that wants an answer.
    #[inline(always)]
    #[must_use]
    pub fn expects_response(frame: &Frame, op: Op) -> bool {
        Flowlet::is_data(op) && (frame.ack_req || op.has(Op::READ_REQUEST))
    }
}

const _: () = {
    use core::mem::size_of;
    assert!(size_of::<FlowBin>() == 40 && size_of::<LastExchange>() == 16);
    assert!(LONGEST_NS < FLOWLET_GAP_NS && LONGEST_NS < OFFSET as u64);
    // As many bytes as the packets of a record can have.
    assert!(u16::MAX as u64 * 65_536 <= u32::MAX as u64);
};

#[cfg(test)]
#[path = "bin_tests.rs"]
mod tests;
