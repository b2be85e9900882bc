//! A queue pair of a reliable connection: its settings and its state at both ends.

use std::collections::{BTreeMap, VecDeque};

use super::packet::Packet;

/// Operation of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Write,
    WriteImm,
    Send,
    Read,
    Atomic,
}

/// The UDP source ports of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    One(u16),
    /// A different port for each packet: this number, from a base on.
    Many(u16, u16),
}

/// Retransmission after a sequence error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    GoBackN,
    /// Only the missing PSN; the responder keeps packets that arrive out of order, and sends a NAK once a gap has
    /// this age, in packets.
    Selective(u64),
}

/// Settings of a connection, the same at both ends.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) mtu: u32,
    /// Maximum number of unacknowledged packets of the requester.
    pub(crate) window: u64,
    /// Maximum number of READ requests in flight.
    pub(crate) reads: u64,
    /// Interval of acknowledge requests, in packets.
    pub(crate) ack_every: u64,
    /// Number of ACKs coalesced into one.
    pub(crate) coalesce: u32,
    pub(crate) timeout_ns: u64,
    pub(crate) retries: u32,
    pub(crate) backoff: bool,
    pub(crate) recovery: Recovery,
    pub(crate) ports: Ports,
    pub(crate) tos: u8,
    /// Rate limit of the requester, in bits per second; 0 for none.
    pub(crate) bits_per_s: u64,
    /// Sends CNPs, and reacts to them.
    pub(crate) dcqcn: bool,
    /// Minimum time between two CNPs of a queue pair.
    pub(crate) cnp_gap_ns: u64,
    /// Number of receive buffers; 0 for unlimited.
    pub(crate) buffers: u32,
    /// Time until a used buffer is posted again.
    pub(crate) repost_ns: u64,
    /// RNR timer code of the responder.
    pub(crate) rnr_code: u8,
    pub(crate) first_psn: u64,
    /// The responder rejects the message with this number with this NAK code, and both ends stop.
    pub(crate) refuse: Option<(u32, u8)>,
    /// Planes of the fabric over which packets are spread by an outer header; 0 for none.
    pub(crate) planes: u16,
    /// The outer header names its segments in a routing header (SRv6), not by its destination alone.
    pub(crate) routing: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mtu: 4096,
            window: 128,
            reads: 4,
            ack_every: 32,
            coalesce: 1,
            timeout_ns: 4_096 << 12,
            retries: 7,
            backoff: false,
            recovery: Recovery::GoBackN,
            ports: Ports::One(50_000),
            // DSCP 26, ECT(0).
            tos: 26 << 2 | 2,
            bits_per_s: 0,
            dcqcn: true,
            cnp_gap_ns: 50_000,
            buffers: 0,
            repost_ns: 0,
            rnr_code: 12,
            first_psn: 0x1000,
            refuse: None,
            planes: 0,
            routing: false,
        }
    }
}

/// A posted message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) verb: Verb,
    pub(crate) len: u32,
    /// First PSN, and number of PSNs.
    pub(crate) start: u64,
    pub(crate) count: u64,
    pub(crate) job: usize,
    pub(crate) tag: u64,
}

impl Message {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.count
    }
}

/// An answer that a responder has to send. Answers leave in the order of their requests.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// An ACK, NAK or atomic response; else the responses to a READ.
    pub(crate) packet: Option<Packet>,
    /// Earliest time of sending.
    pub(crate) at: u64,
    pub(crate) start: u64,
    pub(crate) next: u64,
    pub(crate) end: u64,
    pub(crate) len: u32,
}

/// One end of a connection: requester of its own messages, responder for its peer's.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "states of two independent machines")]
pub(crate) struct Qp {
    pub(crate) host: usize,
    pub(crate) number: u32,
    pub(crate) peer: usize,
    pub(crate) set: Settings,
    /// Stopped by an error.
    pub(crate) dead: bool,
    /// Its process has ended.
    pub(crate) frozen: bool,
    /// Uplink of the host to which it is bound, if any.
    pub(crate) uplink: Option<usize>,

    pub(crate) messages: VecDeque<Message>,
    /// PSN of the next message, of the next packet, of the oldest unacknowledged packet, and after the highest PSN
    /// sent.
    pub(crate) end: u64,
    pub(crate) next: u64,
    pub(crate) una: u64,
    pub(crate) high: u64,
    pub(crate) resend: VecDeque<u64>,
    pub(crate) deadline: u64,
    pub(crate) timer_runs: bool,
    pub(crate) tries: u32,
    pub(crate) wait_until: u64,
    pub(crate) reread: Option<u64>,
    /// Times of the first transmission of packets that request an ACK.
    pub(crate) asked: BTreeMap<u64, u64>,
    pub(crate) rate: super::cc::Rate,
    pub(crate) free_at: u64,
    pub(crate) packets: u64,

    pub(crate) expected: u64,
    /// The first PSN that no answer of it has acknowledged.
    pub(crate) acknowledged: u64,
    pub(crate) completed: u32,
    pub(crate) nak_sent: bool,
    pub(crate) nak_for: u64,
    pub(crate) ahead: BTreeMap<u64, Packet>,
    pub(crate) answers: VecDeque<Answer>,
    pub(crate) credits: u32,
    pub(crate) ack_owed: u32,
    pub(crate) cnp_at: u64,
}

impl Qp {
    pub(crate) fn new(host: usize, number: u32, peer: usize, mut set: Settings) -> Self {
        // A window without a packet that requests an ACK would wait for the timer.
        set.ack_every = set.ack_every.min(set.window / 2).max(1);
        let (first, credits) = (set.first_psn, set.buffers);
        Self {
            host,
            number,
            peer,
            dead: false,
            frozen: false,
            uplink: None,
            messages: VecDeque::new(),
            end: first,
            next: first,
            una: first,
            high: first,
            resend: VecDeque::new(),
            deadline: u64::MAX,
            timer_runs: false,
            tries: 0,
            wait_until: 0,
            reread: None,
            asked: BTreeMap::new(),
            rate: super::cc::Rate::new(set.bits_per_s),
            free_at: 0,
            packets: 0,
            expected: first,
            acknowledged: first,
            completed: 0,
            nak_sent: false,
            nak_for: u64::MAX,
            ahead: BTreeMap::new(),
            answers: VecDeque::new(),
            credits,
            ack_owed: 0,
            cnp_at: 0,
            set,
        }
    }

    /// The message that a PSN belongs to.
    pub(crate) fn message(&self, psn: u64) -> Option<&Message> {
        let at = self.messages.partition_point(|message| message.end() <= psn);
        self.messages.get(at).filter(|message| message.start <= psn)
    }

    /// True if the packet of a PSN has arrived.
    pub(crate) fn has(&self, psn: u64) -> bool {
        psn < self.expected || self.ahead.contains_key(&psn)
    }

    pub(crate) fn stopped(&self) -> bool {
        self.dead || self.frozen
    }
}
