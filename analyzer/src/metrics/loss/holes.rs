//! Ranges of PSNs that were skipped: where something is missing, or was until lately.

use rocescope_common::wire::bth::MASK24;

/// Ranges kept per sequence and state; the oldest make room.
pub(super) const MAX_HOLES: usize = 128;

/// IPv4 identifications between which a packet lies that was sent in its turn: those of the packets
/// before and behind the hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) after: u16,
    pub(super) before: u16,
}

impl Turn {
    /// Between two packets; `None` where the second was not numbered after the first.
    pub(super) fn between(after: u16, before: u16) -> Option<Self> {
        (2..0x8000).contains(&before.wrapping_sub(after)).then_some(Self { after, before })
    }

    /// Whether a packet with this identification was sent between the two.
    pub(super) fn holds(self, id: u16) -> bool {
        let place = id.wrapping_sub(self.after);
        place > 0 && place < self.before.wrapping_sub(self.after)
    }
}

/// PSNs that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) start: u32,
    pub(super) len: u32,
    /// When the packet behind it passed.
    pub(super) opened_ns: u64,
    /// Where the sender numbers its IP packets.
    pub(super) turn: Option<Turn>,
    /// Skipped while packets were sent again: they had passed before.
    pub(super) again: bool,
}

impl Hole {
    pub(super) fn contains(&self, psn: u32) -> bool {
        psn.wrapping_sub(self.start) & MASK24 < self.len
    }

    /// Whether a packet with this identification was sent when those were that are missing.
    fn in_turn(&self, id: u16) -> bool {
        self.turn.is_some_and(|turn| turn.holds(id))
    }
}

/// A hole of one PSN that was filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) hole: Hole,
    /// By a packet that was sent again.
    pub(super) resent: bool,
}

/// The holes of a sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct Holes {
    open: Vec<Hole>,
    /// Filled lately, the oldest first; ranges that were filled alike and in a row are one.
    filled: Vec<Filled>,
}

impl Holes {
    /// Adds a hole. The oldest may have to go: it is given back.
    pub(super) fn add(&mut self, hole: Hole) -> Option<Hole> {
        let gone = if self.open.len() < MAX_HOLES {
            None
        } else {
            // What had passed before matters least.
            let oldest = self.open.iter().position(|hole| hole.again).unwrap_or(0);
            Some(self.open.remove(oldest))
        };
        self.open.push(hole);
        gone
    }

    /// The hole that `psn` lies in.
    pub(super) fn at(&self, psn: u32) -> Option<Hole> {
        // Of two that overlap, the later one says what is missing now.
        self.open.iter().rev().find(|hole| hole.contains(psn)).copied()
    }

    /// The hole that a packet of this PSN and IPv4 identification was sent in the turn of.
    pub(super) fn in_turn(&self, psn: u32, id: u16) -> Option<Hole> {
        self.open.iter().rev().find(|hole| hole.contains(psn) && hole.in_turn(id)).copied()
    }

    /// Takes one PSN out of the latest hole it lies in; all before and behind it stay.
    pub(super) fn fill(&mut self, psn: u32, resent: bool) -> Option<Hole> {
        let at = self.open.iter().rposition(|hole| hole.contains(psn))?;
        Some(self.fill_at(at, psn, resent))
    }

    /// The same with the hole in the turn of which the packet was sent, which came by itself.
    pub(super) fn fill_in_turn(&mut self, psn: u32, id: u16) -> Option<Hole> {
        let at = self.open.iter().rposition(|hole| hole.contains(psn) && hole.in_turn(id))?;
        Some(self.fill_at(at, psn, false))
    }

    fn fill_at(&mut self, at: usize, psn: u32, resent: bool) -> Hole {
        let hole = self.open.remove(at);
        let before = psn.wrapping_sub(hole.start) & MASK24;
        let behind = hole.len - before - 1;
        if before > 0 {
            self.open.insert(at, Hole { len: before, ..hole });
        }
        if behind > 0 {
            let rest = Hole { start: psn.wrapping_add(1) & MASK24, len: behind, ..hole };
            let mut next = at + usize::from(before > 0);
            // What had passed before matters least.
            if self.open.len() >= MAX_HOLES
                && let Some(oldest) = self.open.iter().position(|hole| hole.again)
                && oldest < at
            {
                self.open.remove(oldest);
                next -= 1;
            }
            if self.open.len() < MAX_HOLES {
                self.open.insert(next, rest);
            } else if let Some(last) = self.open.get_mut(at) {
                // No room for both halves: the one that is still to come is kept.
                *last = rest;
            }
        }
        match self.filled.last_mut() {
            Some(last)
                if last.resent == resent
                    && last.hole.opened_ns == hole.opened_ns
                    && last.hole.start.wrapping_add(last.hole.len) & MASK24 == psn =>
            {
                last.hole.len += 1;
            }
            _ => {
                if self.filled.len() >= MAX_HOLES {
                    self.filled.remove(0);
                }
                self.filled.push(Filled { hole: Hole { start: psn, len: 1, ..hole }, resent });
            }
        }
        hole
    }

    /// The latest hole with `psn` that was filled.
    pub(super) fn was_filled(&self, psn: u32) -> Option<Filled> {
        self.filled.iter().rev().find(|filled| filled.hole.contains(psn)).copied()
    }

    /// `psn` was in a hole that a packet sent again had filled, and now comes in its own right, with the
    /// identification of its turn: from now on it is like any other. Gives the hole.
    pub(super) fn came_after_all(&mut self, psn: u32, id: u16) -> Option<Hole> {
        let of = |filled: &Filled| filled.resent && filled.hole.contains(psn) && filled.hole.in_turn(id);
        let at = self.filled.iter().rposition(of)?;
        let Filled { hole, .. } = self.filled.remove(at);
        let before = psn.wrapping_sub(hole.start) & MASK24;
        let parts = [
            (hole.start, before, true),
            (psn, 1, false),
            (psn.wrapping_add(1) & MASK24, hole.len - before - 1, true),
        ];
        for (start, len, resent) in parts.into_iter().rev().filter(|(_, len, _)| *len > 0) {
            self.filled.insert(at, Filled { hole: Hole { start, len, ..hole }, resent });
        }
        let over = self.filled.len().saturating_sub(MAX_HOLES);
        self.filled.drain(..over);
        Some(hole)
    }

    /// Whether something was missing at `psn`, now or lately.
    pub(super) fn knows(&self, psn: u32) -> bool {
        self.at(psn).is_some() || self.was_filled(psn).is_some()
    }

    /// Whether something that had not passed before is missing between `start` and `end`.
    pub(super) fn any_between(&self, start: u32, end: u32) -> bool {
        let span = end.wrapping_sub(start) & MASK24;
        self.open.iter().any(|hole| !hole.again && hole.start.wrapping_sub(start) & MASK24 < span)
    }

    /// PSNs that are missing and have not passed before.
    pub(super) fn missing(&self) -> u64 {
        self.open.iter().filter(|hole| !hole.again).map(|hole| u64::from(hole.len)).sum()
    }

    /// Forgets everything, and says what was missing.
    pub(super) fn clear(&mut self) -> u64 {
        let missing = self.missing();
        self.open.clear();
        self.filled.clear();
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole(start: u32, len: u32) -> Hole {
        Hole { start, len, opened_ns: 1, turn: None, again: false }
    }

    #[test]
    fn filling_splits_a_hole_also_over_the_wrap() {
        let mut holes = Holes::default();
        assert_eq!(holes.add(hole(0xFF_FFFE, 5)), None);
        assert!(holes.at(2).is_some() && holes.at(3).is_none());
        assert!(holes.fill(0, false).is_some());
        assert_eq!(holes.missing(), 4);
        assert!(holes.at(0).is_none() && holes.at(0xFF_FFFF).is_some() && holes.at(1).is_some());
        assert!(holes.fill(1, false).is_some());
        assert_eq!(holes.was_filled(1).map(|filled| (filled.hole.start, filled.hole.len)), Some((0, 2)));
        assert!(holes.any_between(0xFF_0000, 1) && !holes.any_between(5, 9));
        assert_eq!(holes.clear(), 3);
        assert!(!holes.knows(1));
    }

    #[test]
    fn memory_is_bounded_and_what_is_dropped_is_told() {
        let mut holes = Holes::default();
        let mut dropped = 0;
        for i in 0..1000 {
            let again = i % 2 == 0;
            let gone = holes.add(Hole { again, ..hole(i * 10, 3) });
            dropped += u64::from(gone.is_some());
        }
        assert_eq!(dropped, 1000 - MAX_HOLES as u64);
        for psn in 0..10_000 {
            holes.fill(psn, psn % 3 == 0);
            holes.came_after_all(psn.saturating_sub(5), 2);
        }
        assert!(holes.open.len() <= MAX_HOLES && holes.filled.len() <= MAX_HOLES);
    }

    #[test]
    fn turns_are_between_their_neighbours() {
        let turn = Turn { after: 0xFFFE, before: 3 };
        assert!(turn.holds(0xFFFF) && turn.holds(0) && turn.holds(2));
        assert!(!turn.holds(3) && !turn.holds(0xFFFE) && !turn.holds(100));
    }
}
