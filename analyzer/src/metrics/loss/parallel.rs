//! PSNs of a flow whose packets are spread over parallel links: a gap at one tap is a packet that passed another.

use super::{UNKNOWN, WINDOW};
use crate::util::map::Map;
use rocescope_common::wire::bth::MASK24;

/// Flows followed; further ones are judged by each link alone.
const MAX_FLOWS: usize = 4_096;

/// Flows whose packets take parallel links, by pair of hosts and destination queue pair.
#[derive(Debug, Default)]
pub(super) struct Parallel {
    numbers: Map<(u32, u32), u32>,
    flows: Vec<Passed>,
}

impl Parallel {
    /// Notes a packet of a sequence whose flow has this number, or is new here if its tap sees a part of it: a member by its name,
    /// slot and PSN before; true as for [`Self::pass`].
    pub(super) fn note(
        &mut self,
        number: &mut u32,
        member: Option<((u32, u32), u32, u32)>,
        psn: u32,
    ) -> bool {
        if *number == UNKNOWN
            && let Some((name, slot, before)) = member.filter(|(name, ..)| name.0 != UNKNOWN)
        {
            *number = self.join(name, slot, before);
        }
        self.pass(*number, psn)
    }

    /// The flow's number, which this slot sees a part of; [`UNKNOWN`] if there is no room.
    fn join(&mut self, name: (u32, u32), slot: u32, psn: u32) -> u32 {
        let next = u32::try_from(self.flows.len()).unwrap_or(UNKNOWN);
        let number = match self.numbers.get(&name) {
            Some(number) => *number,
            None if self.flows.len() >= MAX_FLOWS => return UNKNOWN,
            None => {
                self.numbers.insert(name, next);
                self.flows.push(Passed::new(psn));
                next
            }
        };
        if let Some(flow) = self.flows.get_mut(number as usize)
            && !flow.slots.contains(&slot)
        {
            flow.slots.push(slot);
            // Until now the packets of this link were not noted.
            flow.known_from = flow.newest;
        }
        number
    }

    /// Notes a packet; true if it has passed another of several links before, or the same one, or may have.
    pub(super) fn pass(&mut self, number: u32, psn: u32) -> bool {
        let Some(flow) = self.flows.get_mut(number as usize) else { return false };
        let before = flow.pass(psn);
        flow.slots.len() > 1 && before
    }
}

/// The PSNs of a flow that have passed, of the latest [`WINDOW`].
#[derive(Debug)]
struct Passed {
    slots: Vec<u32>,
    bits: Box<[u64]>,
    newest: u32,
    /// Of earlier ones it is not known whether they passed.
    known_from: u32,
}

impl Passed {
    fn new(psn: u32) -> Self {
        let bits = vec![0; WINDOW as usize / 64].into_boxed_slice();
        Self { slots: Vec::new(), bits, newest: psn, known_from: psn }
    }

    /// Notes a PSN; true if it has passed before, or is too old to know.
    fn pass(&mut self, psn: u32) -> bool {
        let ahead = psn.wrapping_sub(self.newest) & MASK24;
        let behind = self.newest.wrapping_sub(psn) & MASK24;
        if ahead.min(behind) >= WINDOW {
            // Another connection, or one that left no packet of a window.
            (self.newest, self.known_from) = (psn, psn);
            self.bits.fill(0);
        } else if ahead > 0 && ahead < WINDOW {
            for skipped in 1..=ahead {
                self.set(self.newest.wrapping_add(skipped), false);
            }
            self.newest = psn;
            if psn.wrapping_sub(self.known_from) & MASK24 >= WINDOW {
                self.known_from = psn.wrapping_sub(WINDOW - 1) & MASK24;
            }
            return self.set(psn, true);
        }
        let known = psn.wrapping_sub(self.known_from) & MASK24 < WINDOW;
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

    #[test]
    fn a_psn_that_passed_a_parallel_link_is_known() {
        let mut all = Parallel::default();
        let name = (1, 17);
        let number = all.join(name, 0, 100);
        assert!(!all.pass(number, 101) && !all.pass(number, 101), "one link alone shows no other");
        assert_eq!(all.join(name, 1, 102), number);
        let first = 103;
        for psn in first..first + 3 * WINDOW {
            assert!(!all.pass(number, psn & MASK24), "{psn}");
        }
        let last = first + 3 * WINDOW - 1;
        assert!(all.pass(number, last) && all.pass(number, last - WINDOW + 1));
        // A hole that is filled later, once.
        assert!(!all.pass(number, last + 10) && !all.pass(number, last + 5) && all.pass(number, last + 5));
        // Another connection with other PSNs.
        assert!(!all.pass(number, 5_000_000) && all.pass(number, 5_000_000) && !all.pass(number, 5_000_001));
    }

    #[test]
    fn psns_before_the_second_link_joined_may_have_passed() {
        let mut all = Parallel::default();
        let number = all.join((1, 17), 0, MASK24 - 1);
        assert!(!all.pass(number, 1));
        all.join((1, 17), 1, 1);
        assert!(all.pass(number, 0) && all.pass(number, MASK24));
        assert!(!all.pass(number, 3) && !all.pass(number, 2), "behind the newest, and not seen");
    }
}
