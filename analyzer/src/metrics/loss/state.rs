//! The states of a sequence, and the run that it is in.

use rocescope_common::account::Event;
use rocescope_common::wire::bth::{MASK24, psn_distance};

use super::arrival::Arrival;
use super::cause::Cause;
use crate::util::definition::definitions;

definitions! {
    SHORTEST_TIMER_NS: u64 = 100_000,
        "A single packet that passes again sooner than this, with no NAK, is a duplicate, in nanoseconds",
        "No transport timer is shorter: that of IBTA is 4.096 us * 2^n, and timers of NICs for the last packet of a window wait for some round trips of a loaded fabric";
}

/// A run: packets behind the expected PSN, one after the other.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the run")]
#[derive(Clone, Copy, Debug)]
pub(super) struct PsnRun {
    pub(super) start: u32,
    /// PSN of the latest packet.
    pub(super) last: u32,
    pub(super) start_ns: u64,
    /// The PSN expected when it began.
    pub(super) expected: u32,
    /// IPv4 identification of the first packet.
    pub(super) start_id: u16,
    /// Time since the packet before the run.
    pub(super) pause_ns: u64,
    pub(super) packets: u64,
    /// Neither a NAK nor a timeout explains it.
    pub(super) unexplained: bool,
    /// It has filled a gap of PSNs that had not passed before.
    pub(super) filled: bool,
    /// Packets of it that had passed before.
    pub(super) again: u64,
    /// The transport timer is why the sender goes back.
    pub(super) timed_out: bool,
    /// The receiver turned out to have its packets already.
    pub(super) acked: bool,
    /// PSNs that filled a gap as if reordered. Once a packet follows that has passed before, they were retransmissions.
    pub(super) provisional: u64,
    pub(super) provisional_ns: u64,
}

impl PsnRun {
    pub(super) const fn begin(arrival: &Arrival<'_>, pause_ns: u64) -> Self {
        Self {
            start: arrival.psn,
            last: arrival.psn,
            start_ns: arrival.time_ns,
            expected: arrival.expected,
            start_id: arrival.id,
            pause_ns,
            packets: 1,
            unexplained: false,
            filled: false,
            again: 0,
            timed_out: false,
            acked: false,
            provisional: 0,
            provisional_ns: 0,
        }
    }

    /// True for a single packet that came too soon for any timer to have expired.
    pub(super) const fn is_single_duplicate(&self) -> bool {
        self.packets == 1 && self.pause_ns < SHORTEST_TIMER_NS
    }

    /// True if `psn` is at or beyond the latest PSN.
    pub(super) const fn is_onward(&self, psn: u32) -> bool {
        psn_distance(self.last, psn) < MASK24 / 2
    }
}

/// State of a sequence; see the table of [`sequence`](super::sequence).
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Advancing,
    Undecided(PsnRun),
    GoingBack(PsnRun, Cause),
}

impl State {
    pub(super) const fn run(&self) -> Option<&PsnRun> {
        match self {
            Self::Advancing => None,
            Self::Undecided(run) | Self::GoingBack(run, _) => Some(run),
        }
    }

    pub(super) const fn run_mut(&mut self) -> Option<&mut PsnRun> {
        match self {
            Self::Advancing => None,
            Self::Undecided(run) | Self::GoingBack(run, _) => Some(run),
        }
    }

    /// True if the sender retransmits, and has not come to the highest PSN again.
    pub(super) fn is_behind(&self) -> bool {
        let Self::GoingBack(run, cause) = self else { return false };
        cause.is_retransmission() && run.packets >= 2 && run.last.wrapping_add(1) & MASK24 != run.expected
    }

    pub(super) const fn cause(&self) -> Option<Cause> {
        match self {
            Self::GoingBack(_, cause) => Some(*cause),
            Self::Advancing | Self::Undecided(_) => None,
        }
    }
}

/// Skipped PSNs that are missing for certain: sequences of responses skip PSNs between messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// All skipped PSNs are missing.
    All,
    /// The end of a message.
    First,
    /// The beginning of a message.
    Last,
    /// None: they are between two messages.
    None,
}

impl Missing {
    /// By these events of a packet, which `starts` a message or not.
    pub(super) const fn of(events: u16, starts: bool) -> Self {
        match (events & Event::GAP, events & Event::EDGE) {
            (0, _) => Self::None,
            (_, 0) => Self::All,
            _ if starts => Self::First,
            _ => Self::Last,
        }
    }
}
