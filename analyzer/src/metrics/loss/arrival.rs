//! What is known of a packet before it is judged: PSN, times and identification, the NAKs and requests around it; and
//! the times that distinguish pauses, duplicates and retransmissions.

use rocescope_common::wire::bth::psn_distance;
use rocescope_common::wire::frame::UNKNOWN;

use super::parallel::Elsewhere;
use crate::util::definition::definitions;

definitions! {
    NAK_MEMORY_NS: u64 = 2_000_000_000,
        "Maximum time between a NAK and the retransmission that answers it, in nanoseconds",
        "The longest RNR timer is 655 ms";
    pub(super) REUSE_PAUSE_NS: u64 = 100_000_000,
        "Pause after which a packet was certainly sent after the one before, and may belong to another connection, in nanoseconds",
        "Packets in flight do not wait that long: a shared buffer of 64 MB drains within 5 ms at 100 Gb/s";
    pub(in crate::metrics) DUPLICATE_NS: u64 = 10_000,
        "Maximum time between two packets in a row with the same PSN that are duplicates, without IPv4 identifications that count up, in nanoseconds",
        "A retransmission needs a round trip or a timer (the shortest RNR timer is 10 us)";
    pub STALL_NS: u64 = 100_000_000,
        "Minimum silence in the middle of a message that is none of the sender's own, in nanoseconds",
        "It has the message, and sends it at the rate of its link or of its congestion control: at the lowest rate of DCQCN (1 Mbit/s) a packet of 4,096 bytes every 33 ms";
}

/// An IPv4 identification is later than another when it is ahead by less than this.
pub(super) const ID_AHEAD: u16 = 0x4000;

/// NAK that was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nak {
    /// Slot of the flow that carried it.
    pub(super) slot: u32,
    pub(super) psn: u32,
    pub(super) time_ns: u64,
    pub(super) rnr: bool,
}

/// A request by one of its packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Request {
    pub(super) opcode: u8,
    /// Length of the message, in its first packet of a WRITE or READ; else [`UNKNOWN`].
    pub(super) bytes: u32,
}

impl Request {
    /// Length of the message, where the packet says it.
    pub(super) fn length(self) -> Option<u32> {
        Some(self.bytes).filter(|bytes| *bytes != UNKNOWN)
    }
}

/// What the requester of READ responses has requested more than once, where its requests pass this tap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RepeatedReads {
    /// Nothing so far.
    pub(super) nothing: bool,
    /// The latest READ request that passed twice although the requester sent it once: its PSN and those that it takes.
    pub(super) duplicate: Option<(u32, u32)>,
}

impl RepeatedReads {
    /// True if the requester has not repeated its READ for the response with this PSN: the responder got one request
    /// twice.
    pub(super) fn is_not_for(self, psn: u32) -> bool {
        self.nothing || self.duplicate.is_some_and(|(first, span)| psn_distance(first, psn) < span.max(1))
    }
}

/// A packet that arrived at the tap, and its surroundings.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about one packet")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) psn: u32,
    pub(super) time_ns: u64,
    /// IPv4 identification, or 0.
    pub(super) id: u16,
    /// The sender counts its identification up, so that `id` gives the order of sending.
    pub(super) numbered: bool,
    /// At least, its packets have different identifications.
    pub(super) differs: bool,
    /// PSN, IPv4 identification and time of the packet before, and the highest identification.
    pub(super) last_psn: u32,
    pub(super) last_id: u16,
    pub(super) last_ns: u64,
    pub(super) high_id: u16,
    /// First PSN of the sequence, and the expected one.
    pub(super) first: u32,
    pub(super) expected: u32,
    /// PSNs it takes: 1, of READ requests one for each response.
    pub(super) span: u32,
    /// True for a READ request.
    pub(super) read: bool,
    pub(super) request: Request,
    /// Its ECN bits; 0 where they are not known.
    pub(super) ecn: u8,
    /// NAKs of the reverse direction, in no order.
    pub(super) naks: &'a [Nak],
    /// True if packets of the reverse direction are captured.
    pub(super) reverse_captured: bool,
    /// The reverse direction is not captured, but answers of other hosts to the sender are on this link.
    pub(super) others_answer: bool,
    /// Slot of the flow with its answers at this tap, or [`UNKNOWN`].
    pub(super) answers_slot: u32,
    /// PSN of the latest ACK to the flow; `None` where that is unknown, or few have passed.
    pub(super) all_acked: Option<u32>,
    /// Time of the last READ response to the flow; `None` if that is unknown.
    pub(super) responded_ns: Option<u64>,
    /// Of a READ response: what its requester has repeated.
    pub(super) asked: RepeatedReads,
    /// Length of the reordering window, nanoseconds.
    pub(super) window_ns: u64,
    /// Of its PSN on parallel links.
    pub(super) elsewhere: Elsewhere,
}

impl Arrival<'_> {
    /// True if it was sent before a packet that has already passed, by its identification.
    pub(super) fn is_reordered(&self) -> bool {
        let behind = self.high_id.wrapping_sub(self.id);
        let paused = self.time_ns.saturating_sub(self.last_ns) >= REUSE_PAUSE_NS;
        self.numbered && !paused && behind > 0 && behind < ID_AHEAD
    }

    /// Time from the latest RNR NAK for a PSN to its retransmission at `until_ns`.
    pub(super) fn rnr_wait_ns(&self, psn: u32, until_ns: u64) -> u64 {
        let asked = self.naks.iter().filter(|nak| nak.rnr && nak.psn == psn && nak.time_ns <= until_ns);
        asked.map(|nak| until_ns - nak.time_ns).min().unwrap_or(0)
    }

    /// The latest NAK for these PSNs, near in time and not before `since_ns`; an RNR NAK precedes the sequence errors
    /// that follow from it.
    pub(super) fn nak(&self, of: impl Fn(&Nak) -> bool, since_ns: u64) -> Option<Nak> {
        let near = |nak: &&Nak| of(nak) && nak.time_ns.abs_diff(self.time_ns) < NAK_MEMORY_NS;
        let found = self.naks.iter().filter(near).filter(|nak| nak.time_ns >= since_ns);
        found.max_by_key(|nak| (nak.rnr, nak.time_ns)).copied()
    }
}
