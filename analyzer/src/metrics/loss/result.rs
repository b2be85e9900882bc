//! Results: loss in one sequence, NAKs of a flow.

use super::episode::Episodes;

/// Way in which a sender retransmits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retransmission {
    /// Everything from the missing packet on.
    GoBackN,
    /// The missing packets only.
    SelectiveRepeat,
}

/// NAKs of one kind in a flow: how many were seen, and the time of the latest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NakTally {
    /// Number of NAKs.
    pub count: u64,
    /// Unix nanoseconds; 0 when there is none.
    pub last_ns: u64,
}

/// NAKs of a flow by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Naks {
    /// RNR NAKs of the flow.
    pub rnr: NakTally,
    /// By code 0 to 4; all others last.
    pub codes: [NakTally; 6],
}

/// Names of the codes of NAKs from 1 on, as in reports; the last one of all others.
pub const OTHER_CODES: [&str; 5] =
    ["invalid_request", "remote_access_error", "remote_operational_error", "invalid_rd_request", "reserved"];

impl Naks {
    /// Counts one, with the low syndrome bits of its AETH as `code`.
    pub(super) fn add(&mut self, rnr: bool, code: u32, time_ns: u64) {
        let last = self.codes.len() - 1;
        let code = usize::try_from(code).map_or(last, |code| code.min(last));
        let Some(tally) = (if rnr { Some(&mut self.rnr) } else { self.codes.get_mut(code) }) else { return };
        tally.count += 1;
        tally.last_ns = tally.last_ns.max(time_ns);
    }
}

/// Loss, reordering and retransmission in one sequence. A PSN is a packet, but for READ requests, which take one PSN
/// for each response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// PSNs that were skipped and whose original packet arrived later: out of order, not lost.
    pub recovered: u64,
    /// Largest number of PSNs between a packet out of order and the PSN expected then.
    pub depth: u32,
    /// PSNs lost upstream: skipped here, then retransmitted; retransmissions that were lost as well count again. Of UC,
    /// which retransmits nothing: skipped and never seen.
    pub lost: u64,
    /// Part of `lost` that may have been reordered: the PSN passed again, a sender that goes back N repeated nothing
    /// else, or neither a NAK nor a timeout explains its run. All of `lost` where more unexplained runs than explained
    /// ones fill gaps of a go-back-N sender.
    pub doubtful: u64,
    /// PSNs that were skipped here and never arrived, though the sender went on.
    pub unfilled: u64,
    /// Retransmissions of packets that had passed here before.
    pub retransmitted: u64,
    /// Duplicates that a mirror or the network made.
    pub mirrored: u64,
    /// Retransmitted READ requests: the request was lost, or responses were.
    pub rereads: u64,
    /// Retransmissions after an RNR NAK.
    pub rnr_retransmitted: u64,
    /// Retransmissions after a transport timeout, READ requests included.
    pub timeout_retransmitted: u64,
    /// Transport timeouts: the sender retransmitted after a pause, without a NAK since its last go-back-N.
    pub timeouts: u64,
    /// Of these, those after which an ACK showed that what is retransmitted had arrived: the ACKs were lost, or late.
    pub timeouts_acked: u32,
    /// Of these, those after which a READ request is retransmitted. Live: not known, 0.
    pub read_timeouts: u32,
    /// Silence before these timeouts, summed, nanoseconds.
    pub timeout_wait_ns: u64,
    /// The shortest and the longest of these silences, nanoseconds; 0 for none.
    pub timeout_range_ns: (u64, u64),
    /// From the RNR NAK to the retransmission it delays, summed, nanoseconds.
    pub rnr_wait_ns: u64,
    /// PSN gaps behind which an ECN-capable packet follows, and those where that packet is marked CE: a queue that
    /// overflows marks what it still takes.
    pub gaps_capable: u64,
    /// PSN gaps behind which a CE-marked packet follows.
    pub gaps_ce: u64,
    /// Time of the latest retransmission, Unix nanoseconds; 0 for none.
    pub last_retransmission_ns: u64,
    /// Episodes of loss upstream.
    pub upstream: Episodes,
    /// Episodes in which the receiver NAKed packets that had passed here: lost downstream, or dropped by the receiver
    /// as corrupt or out of order. If the reverse direction is not captured, all retransmissions.
    pub downstream: Episodes,
    /// Way in which the sender retransmits; `None` when it had no reason to, or the packets do not show it.
    pub retransmission: Option<Retransmission>,
    /// Number of restarts at one PSN in a row, without progress.
    pub stuck: u64,
    /// That PSN; `None` without restarts.
    pub stuck_psn: Option<u32>,
    /// Opcode of the packet it restarts with; `None` without restarts.
    pub stuck_opcode: Option<u8>,
    /// Length of that message, where the packet says it.
    pub stuck_bytes: Option<u32>,
}

impl Metrics {
    /// Retransmissions, repeated READ requests included.
    #[must_use]
    pub const fn retransmissions(&self) -> u64 {
        self.retransmitted + self.rereads
    }

    /// True if the sender has retried the same request at least twice without progress at the end: a lost packet causes
    /// one retry.
    #[must_use]
    pub const fn is_retried_in_vain(&self) -> bool {
        is_in_vain(self.stuck)
    }
}

/// True for this number of restarts at one PSN.
#[must_use]
pub const fn is_in_vain(stuck: u64) -> bool {
    stuck >= 2
}

/// A connection whose sender restarted at one PSN, got no answer to it, and sent nothing more until another connection
/// used the number of the queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The PSN it restarted at.
    pub psn: u32,
    /// The last PSN it sent.
    pub last_psn: u32,
    /// Number of restarts in a row.
    pub retries: u64,
    /// Opcode of the packet it restarted with.
    pub opcode: u8,
    /// Length of that message, where the packet says it.
    pub bytes: Option<u32>,
    /// Its last packet, Unix nanoseconds.
    pub last_ns: u64,
    /// The first packet of the connection after it, Unix nanoseconds.
    pub until_ns: u64,
}
