//! The packets of a flow that may have duplicates.

use std::collections::VecDeque;

use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::Op;

use super::{DUPLICATE_WITHIN_NS, MOST_OF_FLOW, Pair, SEARCHED};
use crate::metrics::packet::{ECT_MASK, Packet};

/// A packet that may have a duplicate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) time_ns: u64,
    /// PSN, opcode, IPv4 identification, source port.
    pub(super) key: u64,
    /// AETH, or DMA length, or payload.
    pub(super) what: u32,
    pub(super) ecn: u8,
    /// It cannot have passed before: its later passing is evidence.
    pub(super) first: bool,
    /// Its identification is another than that of the packet before it.
    pub(super) counted: bool,
    /// It has passed a third time.
    pub(super) thrice: bool,
}

impl Candidate {
    /// The packet; its identification is another than that of the one before, or not.
    pub(super) fn of(packet: &Packet, op: Op, counted: bool) -> Self {
        let sequenced = op.any(Op::REQUEST | Op::RESPONSE);
        Self {
            time_ns: packet.time_ns,
            key: u64::from(packet.psn) << 40
                | u64::from(packet.opcode) << 32
                | u64::from(packet.id) << 16
                | u64::from(packet.src_port),
            what: if packet.aeth == UNKNOWN { packet.dma_len ^ packet.payload } else { packet.aeth },
            ecn: packet.tos & ECT_MASK,
            // All CNPs of a flow look alike.
            first: !(op.has(Op::CNP) || sequenced && packet.outcome.duplicate_psn),
            counted,
            thrice: false,
        }
    }

    fn is(&self, other: &Self) -> bool {
        self.key == other.key && self.what == other.what
    }

    /// The place of the packet that this one repeats, if it is recent enough.
    fn before_in(&self, all: &VecDeque<Self>, pair: &Pair) -> Option<usize> {
        let (at, first) = all.iter().take(SEARCHED).enumerate().find(|(_, passed)| passed.is(self))?;
        (self.time_ns.saturating_sub(first.time_ns) <= first.window_ns(pair)).then_some(at)
    }

    /// Time for which its duplicate is awaited, ns.
    fn window_ns(&self, pair: &Pair) -> u64 {
        if self.counted { pair.late_ns() } else { DUPLICATE_WITHIN_NS }
    }
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) pair: u32,
    /// From the lower to the higher address, or back.
    pub(super) direction: bool,
    pub(super) link: u16,
    /// Most flows have none.
    pub(super) remembered: Option<Box<Remembered>>,
    pub(super) id: u16,
    /// The identification differs from that of the packet before.
    pub(super) differs: bool,
    /// New packets since the last that passed again.
    pub(super) advanced: bool,
}

/// The latest packets of a flow.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// Those that may have a duplicate.
    passed: VecDeque<Candidate>,
    /// Those that have a duplicate, and may have another.
    duplicated: VecDeque<Candidate>,
}

/// A packet that passed before.
#[derive(Clone, Copy, Debug)]
pub(super) enum Repetition {
    /// For the second time.
    Twice(Candidate),
    /// For the third time, where this is known to be a duplicate too.
    Duplicate(Candidate),
    /// For the third time, as a retransmission does.
    Retransmitted,
}

impl Slot {
    /// Number of packets that may have a duplicate.
    #[inline]
    pub(super) fn remembered(&self) -> usize {
        self.remembered.as_ref().map_or(0, |all| all.passed.len() + all.duplicated.len())
    }

    pub(super) fn remember(&mut self, own: Candidate) {
        self.remembered.get_or_insert_default().passed.push_back(own);
    }

    pub(super) fn forget(&mut self) {
        self.remembered = None;
    }

    /// Drops packets whose duplicate would have passed.
    #[inline]
    pub(super) fn prune(&mut self, now_ns: u64, pair: &mut Pair) {
        let over = |front: &Candidate, len: usize, pair: &Pair| {
            now_ns.saturating_sub(front.time_ns) > front.window_ns(pair) || len >= MOST_OF_FLOW
        };
        let Some(all) = &mut self.remembered else { return };
        let Remembered { passed, duplicated } = &mut **all;
        while let Some(front) = passed.front()
            && over(front, passed.len(), pair)
        {
            pair.judge.single(self.direction, front.first);
            passed.pop_front();
        }
        while let Some(front) = duplicated.front()
            && over(front, duplicated.len(), pair)
        {
            pair.judge.third(front.thrice);
            duplicated.pop_front();
        }
    }

    /// Takes out the packet that `own` repeats, with those before it: duplicates come in the order of their packets. Of
    /// CNPs, which look `alike`, any may be the one, and those before it stay.
    pub(super) fn take(&mut self, own: &Candidate, pair: &mut Pair, alike: bool) -> Option<Repetition> {
        let all = self.remembered.as_mut()?;
        if let Some(first) = take_first(&mut all.passed, own, (&mut *pair, self.direction), alike) {
            if !alike {
                await_another(&mut all.duplicated, first, pair);
            }
            return Some(Repetition::Twice(first));
        }
        let all = &mut all.duplicated;
        let at = own.before_in(all, pair)?;
        let first = all.get_mut(at)?;
        let (found, counted) = (*first, first.counted);
        let more = std::mem::replace(&mut first.thrice, true);
        if more && !counted {
            // Each packet has two duplicates at most.
            all.remove(at);
        }
        let is_copy = counted || !more && pair.judge.is_thrice();
        Some(if is_copy { Repetition::Duplicate(found) } else { Repetition::Retransmitted })
    }
}

/// Only the latest are kept: a longer list is not searched, and times that do not advance would let it grow.
fn await_another(all: &mut VecDeque<Candidate>, first: Candidate, pair: &mut Pair) {
    if all.len() >= SEARCHED
        && let Some(oldest) = all.pop_front()
    {
        pair.judge.third(oldest.thrice);
    }
    all.push_back(first);
}

fn take_first(
    all: &mut VecDeque<Candidate>,
    own: &Candidate,
    (pair, direction): (&mut Pair, bool),
    alike: bool,
) -> Option<Candidate> {
    let at = own.before_in(all, pair)?;
    if alike {
        return all.remove(at);
    }
    for passed in all.drain(..at) {
        pair.judge.single(direction, passed.first);
    }
    all.pop_front()
}
