//! PSNs of a flow whose packets are spread over parallel links: a gap at one tap is a packet that passed another.

use super::{Event, Packet, UNKNOWN, WINDOW};
use crate::util::map::Map;
use rocescope_common::wire::bth::{MASK24, psn_distance};

/// Flows followed; further ones are judged by each link alone.
const MAX_FLOWS: usize = 4_096;
/// Maximum number of earlier PSNs recorded when a link is recognized as carrying only a part of its flow, which takes
/// 64 packets.
const MOST_BEFORE: u32 = 4_096;

/// State of a packet on the parallel links of its flow, when it is seen here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// Nothing: it is the newest, or may only be out of order.
    Nothing,
    /// It has passed one of them, or may have.
    Passed,
    /// None, although the latest of those behind it passed longer ago than the reordering window.
    Missing,
}

/// Flows whose packets take parallel links, by pair of hosts and destination queue pair.
#[derive(Debug, Default)]
pub(super) struct Parallel {
    numbers: Map<(u32, u32), u32>,
    flows: Vec<SeenPsns>,
}

/// The part of a flow that one link shows, before a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// Pair of hosts and destination queue pair.
    name: (u32, u32),
    slot: u32,
    /// First PSN, and the one that was expected before the packet.
    first: u32,
    expected: u32,
}

impl Member {
    pub(super) const fn of(name: (u32, u32), packet: &Packet) -> Self {
        let Packet { slot, psn, first, expected, outcome, .. } = *packet;
        let expected =
            if outcome.duplicate_psn { expected } else { psn.wrapping_sub(outcome.missing) & MASK24 };
        // Of another connection nothing has passed.
        let first = if outcome.events & Event::RESTART == 0 { first } else { expected };
        Self { name, slot, first, expected }
    }
}

impl Parallel {
    /// Records a PSN. `number` is that of a flow over parallel links; if it is [`UNKNOWN`] and a member is given, the
    /// flow is registered first. `passed`: whether a PSN behind the expected one has passed this link, where that is
    /// known. Last the packet: PSN and time, and the reordering window.
    pub(super) fn note(
        &mut self,
        number: &mut u32,
        member: Option<Member>,
        passed: Option<&dyn Fn(u32) -> bool>,
        (psn, time_ns, window_ns): (u32, u64, u64),
    ) -> Elsewhere {
        if *number == UNKNOWN
            && let Some(member) = member.filter(|member| member.name.0 != UNKNOWN)
        {
            *number = self.join(member, passed);
        }
        let newest = self.flows.get(*number as usize).map(|flow| (flow.newest, flow.newest_ns));
        let passed = self.pass(*number, psn, time_ns);
        let is_late = |(newest, newest_ns): (u32, u64)| {
            let behind = psn_distance(psn, newest);
            (1..WINDOW).contains(&behind) && time_ns.saturating_sub(newest_ns) > window_ns
        };
        match self.flows.get(*number as usize) {
            Some(flow) if flow.slots.len() > 1 && passed => Elsewhere::Passed,
            Some(flow) if flow.slots.len() > 1 && newest.is_some_and(is_late) => Elsewhere::Missing,
            _ => Elsewhere::Nothing,
        }
    }

    /// The flow's number, of which a slot sees a part; [`UNKNOWN`] if there is no room.
    fn join(&mut self, member: Member, passed: Option<&dyn Fn(u32) -> bool>) -> u32 {
        let Member { name, slot, first, expected } = member;
        // From the first one that is known on.
        let sent = psn_distance(first, expected);
        let known = if passed.is_some() { sent.min(MOST_BEFORE) } else { 1 };
        let from = expected.wrapping_sub(known) & MASK24;
        let next = u32::try_from(self.flows.len()).unwrap_or(UNKNOWN);
        let number = match self.numbers.get(&name) {
            Some(number) => *number,
            None if self.flows.len() >= MAX_FLOWS => return UNKNOWN,
            None => {
                self.numbers.insert(name, next);
                self.flows.push(SeenPsns::new(from));
                next
            }
        };
        if let Some(flow) = self.flows.get_mut(number as usize)
            && !flow.slots.contains(&slot)
        {
            flow.slots.push(slot);
            match passed {
                Some(passed) => flow.backfill(from, known, passed),
                // The packets of this link were not noted until now.
                None => flow.known_from = flow.newest,
            }
        }
        number
    }

    /// Notes a packet; true if it has passed another of several links before, or the same one, or may have.
    pub(super) fn pass(&mut self, number: u32, psn: u32, time_ns: u64) -> bool {
        let Some(flow) = self.flows.get_mut(number as usize) else { return false };
        let newest = flow.newest;
        let before = flow.pass(psn);
        if flow.newest != newest {
            flow.newest_ns = time_ns;
        }
        flow.slots.len() > 1 && before
    }
}

/// The PSNs of a flow that have passed, of the latest [`WINDOW`].
#[derive(Debug)]
struct SeenPsns {
    slots: Vec<u32>,
    bits: Box<[u64]>,
    newest: u32,
    /// Time of the newest, Unix nanoseconds.
    newest_ns: u64,
    /// Of earlier ones it is not known whether they passed.
    known_from: u32,
}

impl SeenPsns {
    fn new(psn: u32) -> Self {
        let bits = vec![0; WINDOW as usize / 64].into_boxed_slice();
        Self { slots: Vec::new(), bits, newest: psn, newest_ns: u64::MAX, known_from: psn }
    }

    /// Notes what has passed a link until now, of this number of PSNs from one on.
    fn backfill(&mut self, from: u32, count: u32, passed: &dyn Fn(u32) -> bool) {
        for psn in (0..count).map(|at| from.wrapping_add(at) & MASK24).filter(|psn| passed(*psn)) {
            self.pass(psn);
        }
        if psn_distance(self.known_from, from) < WINDOW {
            self.known_from = from;
        }
    }

    /// Notes a PSN; true if it has passed before, or is too old to know.
    fn pass(&mut self, psn: u32) -> bool {
        let ahead = psn_distance(self.newest, psn);
        let behind = psn_distance(psn, self.newest);
        if ahead.min(behind) >= WINDOW {
            // Another connection, or one that left no packet of a window.
            (self.newest, self.known_from) = (psn, psn);
            self.bits.fill(0);
        } else if ahead > 0 && ahead < WINDOW {
            for skipped in 1..=ahead {
                self.set(self.newest.wrapping_add(skipped), false);
            }
            self.newest = psn;
            if psn_distance(self.known_from, psn) >= WINDOW {
                self.known_from = psn.wrapping_sub(WINDOW - 1) & MASK24;
            }
            return self.set(psn, true);
        }
        let known = psn_distance(self.known_from, psn) < WINDOW;
        self.set(psn, true) || !known
    }

    /// Sets the bit of a PSN; returns the old one.
    fn set(&mut self, psn: u32, to: bool) -> bool {
        let at = psn % WINDOW;
        let Some(word) = self.bits.get_mut(at as usize / 64) else { return false };
        let bit = 1 << (at % 64);
        let old = *word & bit != 0;
        *word = if to { *word | bit } else { *word & !bit };
        old
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link whose only packet so far had this PSN.
    fn member(name: (u32, u32), slot: u32, psn: u32) -> Member {
        Member { name, slot, first: psn, expected: psn.wrapping_add(1) & MASK24 }
    }

    #[test]
    fn psns_before_both_links_joined_are_known_from_their_gaps() {
        let mut all = Parallel::default();
        let (even, odd) = (|psn: u32| psn.is_multiple_of(2), |psn: u32| psn % 2 == 1 && psn != 141);
        let link = |slot, first, expected| Member { name: (1, 17), slot, first, expected };
        let number = all.join(link(0, 100, 165), Some(&even));
        assert!(!all.pass(number, 166, 0), "one link alone shows no other");
        assert_eq!(all.join(link(1, 101, 168), Some(&odd)), number);
        assert!(all.pass(number, 140, 0) && all.pass(number, 143, 0) && all.pass(number, 166, 0));
        assert!(!all.pass(number, 141, 0) && all.pass(number, 141, 0), "lost, and retransmitted once");
        assert!(all.pass(number, 100, 0), "before the first packet of the second link");
        assert!(!all.pass(number, 168, 0) && !all.pass(number, 170, 0) && !all.pass(number, 169, 0));
    }

    #[test]
    fn a_psn_that_passed_a_parallel_link_is_known() {
        let mut all = Parallel::default();
        let name = (1, 17);
        let number = all.join(member(name, 0, 100), None);
        assert!(!all.pass(number, 101, 0) && !all.pass(number, 101, 0), "one link alone shows no other");
        assert_eq!(all.join(member(name, 1, 102), None), number);
        let first = 103;
        for psn in first..first + 3 * WINDOW {
            assert!(!all.pass(number, psn & MASK24, 0), "{psn}");
        }
        let last = first + 3 * WINDOW - 1;
        assert!(all.pass(number, last, 0) && all.pass(number, last - WINDOW + 1, 0));
        // A hole that is filled later, once.
        assert!(
            !all.pass(number, last + 10, 0)
                && !all.pass(number, last + 5, 0)
                && all.pass(number, last + 5, 0)
        );
        // Another connection with other PSNs.
        assert!(
            !all.pass(number, 5_000_000, 0)
                && all.pass(number, 5_000_000, 0)
                && !all.pass(number, 5_000_001, 0)
        );
    }

    #[test]
    fn psns_before_the_second_link_joined_may_have_passed() {
        let mut all = Parallel::default();
        let number = all.join(member((1, 17), 0, MASK24 - 1), None);
        assert!(!all.pass(number, 1, 0));
        all.join(member((1, 17), 1, 1), None);
        assert!(all.pass(number, 0, 0) && all.pass(number, MASK24, 0));
        assert!(!all.pass(number, 3, 0) && !all.pass(number, 2, 0), "behind the newest, and not seen");
    }

    #[test]
    fn a_psn_that_no_link_has_shown_for_longer_than_the_window_is_missing() {
        let mut all = Parallel::default();
        let mut number = all.join(member((1, 17), 0, 100), None);
        let mut note = |psn, time_ns| all.note(&mut number, None, None, (psn, time_ns, 50));
        assert_eq!((note(102, 10), note(101, 100)), (Elsewhere::Nothing, Elsewhere::Nothing), "one link");
        all.join(member((1, 17), 1, 102), None);
        let mut note = |psn, time_ns| all.note(&mut number, None, None, (psn, time_ns, 50));
        assert_eq!(note(103, 100), Elsewhere::Nothing);
        assert_eq!(note(106, 110), Elsewhere::Nothing);
        assert_eq!(note(104, 160), Elsewhere::Nothing, "out of order");
        assert_eq!(note(105, 161), Elsewhere::Missing);
        assert_eq!(note(105, 170), Elsewhere::Passed);
        assert_eq!(note(107, 500), Elsewhere::Nothing, "the newest");
    }
}
