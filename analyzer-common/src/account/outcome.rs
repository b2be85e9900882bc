//! Outcome of counting a packet: tasks that remain for the caller.

/// Events of a packet for user space: bits of [`Outcome::events`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event;

impl Event {
    /// First packet of a flow.
    pub const NEW_FLOW: u16 = 1;
    /// A congestion notification packet.
    pub const CNP: u16 = 1 << 1;
    /// First CE mark after [`CE_BURST_GAP_NS`](super::flow::CE_BURST_GAP_NS) without one.
    pub const CE: u16 = 1 << 2;
    /// NAK other than RNR.
    pub const NAK: u16 = 1 << 3;
    /// RNR NAK.
    pub const RNR: u16 = 1 << 4;
    /// PSN gap: PSNs were skipped that are missing.
    pub const GAP: u16 = 1 << 5;
    /// PSN sequence restarted: the jump is too large for a gap, so the QP number is in use again.
    pub const RESTART: u16 = 1 << 6;
    /// A datagram to QP 1: connection management.
    pub const GSI: u16 = 1 << 7;
    /// A run of duplicate-PSN packets, sent by the kernel programs for timed flows when the run ends, in
    /// addition to the events of the packet that ended it.
    pub const RETX_RUN: u16 = 1 << 8;
    /// With [`GAP`](Self::GAP), of the PSNs skipped by responses only the one at a message boundary is
    /// certainly missing: a message lacks its first packet, or the previous one its last. The other PSNs
    /// may belong to requests that an ACKNOWLEDGE answers.
    pub const EDGE: u16 = 1 << 9;

    /// Of the skipped PSNs, those that are certainly missing according to these events.
    #[inline(always)]
    pub const fn certain(events: u16, skipped: u32) -> u32 {
        match (events & Self::GAP, events & Self::EDGE) {
            (0, _) => 0,
            (_, 0) => skipped,
            _ => 1,
        }
    }
}

/// Result of [`observe`](super::observe): what remains for the caller.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about one packet")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Events of the packet, bits of [`Event`].
    pub events: u16,
    /// The source port differs from the flow's first: count it in the overflow table.
    pub other_port: bool,
    /// The flow does not count this opcode: count it in the overflow table.
    pub other_opcode: bool,
    /// The DSCP differs from the flow's first: count it in the overflow table.
    pub other_dscp: bool,
    /// Duplicate PSN: behind the expected one in the sequence of requests or responses, i.e. a
    /// retransmission or a reordered packet.
    pub duplicate_psn: bool,
    /// Skipped PSNs; [`Event::certain`] gives how many are certainly missing. Responses use the PSNs of
    /// their requests, and between two response messages the requester may have sent requests that an
    /// ACKNOWLEDGE answers.
    pub missing: u32,
}

impl Outcome {
    /// No events, nothing left to do.
    pub const NONE: Self = Self {
        events: 0,
        other_port: false,
        other_opcode: false,
        other_dscp: false,
        duplicate_psn: false,
        missing: 0,
    };
}

/// An [`Outcome`] in two words: kernel programs pass it through memory, and each field would take an access of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PackedOutcome {
    /// [`Outcome::events`] in the lower half, and the bits below.
    pub bits: u32,
    /// [`Outcome::missing`].
    pub missing: u32,
}

impl PackedOutcome {
    /// Bit of [`Outcome::other_port`].
    pub const OTHER_PORT: u32 = 1 << 16;
    /// Bit of [`Outcome::other_opcode`].
    pub const OTHER_OPCODE: u32 = 1 << 17;
    /// Bit of [`Outcome::other_dscp`].
    pub const OTHER_DSCP: u32 = 1 << 18;
    /// Bit of [`Outcome::duplicate_psn`].
    pub const DUPLICATE_PSN: u32 = 1 << 19;

    /// [`Outcome::NONE`].
    pub const NONE: Self = Self { bits: 0, missing: 0 };

    /// Adds events, bits of [`Event`].
    #[inline(always)]
    pub const fn event(&mut self, events: u16) {
        self.bits |= events as u32;
    }

    /// The outcome, field by field.
    #[inline(always)]
    pub const fn unpack(self) -> Outcome {
        Outcome {
            events: self.bits as u16,
            other_port: self.bits & Self::OTHER_PORT != 0,
            other_opcode: self.bits & Self::OTHER_OPCODE != 0,
            other_dscp: self.bits & Self::OTHER_DSCP != 0,
            duplicate_psn: self.bits & Self::DUPLICATE_PSN != 0,
            missing: self.missing,
        }
    }
}
