//! PSN gaps: ranges of PSNs that were skipped, open or filled a short time ago.

use rocescope_common::wire::bth::MASK24;

/// Gaps kept per sequence, open and filled ones apart; the oldest make room.
pub(super) const MAX_GAPS: usize = 128;

/// IPv4 identifications of the packets on both sides of a gap. An original packet of the gap has one between them; a
/// retransmission has a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdRange {
    pub(super) after: u16,
    pub(super) before: u16,
}

impl IdRange {
    /// The range between two packets; `None` where the second identification does not follow the first.
    pub(super) fn between(after: u16, before: u16) -> Option<Self> {
        (2..0x8000).contains(&before.wrapping_sub(after)).then_some(Self { after, before })
    }

    /// Whether a packet with this identification was sent between the two.
    pub(super) fn contains(self, id: u16) -> bool {
        let place = id.wrapping_sub(self.after);
        place > 0 && place < self.before.wrapping_sub(self.after)
    }
}

/// A range of PSNs that were skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) start: u32,
    pub(super) len: u32,
    /// When the packet behind it passed, Unix nanoseconds.
    pub(super) opened_ns: u64,
    /// Known where the sender counts its IPv4 identification up.
    pub(super) ids: Option<IdRange>,
    /// A gap among retransmissions: the PSNs have passed before.
    pub(super) retransmitted: bool,
}

impl Gap {
    pub(super) fn contains(&self, psn: u32) -> bool {
        psn.wrapping_sub(self.start) & MASK24 < self.len
    }

    /// Whether a packet with this identification is an original of the gap, not a retransmission.
    fn sent_in_order(&self, id: u16) -> bool {
        self.ids.is_some_and(|ids| ids.contains(id))
    }
}

/// A range of PSNs that was a gap and has been filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) gap: Gap,
    /// By retransmissions.
    pub(super) by_retransmission: bool,
}

/// The gaps of a sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct Gaps {
    open: Vec<Gap>,
    /// Filled a short time ago, the oldest first; neighbours that were filled the same way in a row are one.
    filled: Vec<Filled>,
}

impl Gaps {
    /// Adds a gap. Returns the oldest when it had to make room.
    pub(super) fn add(&mut self, gap: Gap) -> Option<Gap> {
        let gone = if self.open.len() < MAX_GAPS {
            None
        } else {
            // A gap among retransmissions matters least.
            let oldest = self.open.iter().position(|gap| gap.retransmitted).unwrap_or(0);
            Some(self.open.remove(oldest))
        };
        self.open.push(gap);
        gone
    }

    /// The open gap that contains `psn`.
    pub(super) fn at(&self, psn: u32) -> Option<Gap> {
        // Of two that overlap, the later one is current.
        self.open.iter().rev().find(|gap| gap.contains(psn)).copied()
    }

    /// The open gap of which a packet with this PSN and IPv4 identification is an original.
    pub(super) fn sent_in_order(&self, psn: u32, id: u16) -> Option<Gap> {
        self.open.iter().rev().find(|gap| gap.contains(psn) && gap.sent_in_order(id)).copied()
    }

    /// Fills one PSN of the latest gap that contains it; the PSNs on both sides stay open.
    pub(super) fn fill(&mut self, psn: u32, by_retransmission: bool) -> Option<Gap> {
        let at = self.open.iter().rposition(|gap| gap.contains(psn))?;
        Some(self.fill_at(at, psn, by_retransmission))
    }

    /// Fills one PSN of the gap of which the packet is an original.
    pub(super) fn fill_original(&mut self, psn: u32, id: u16) -> Option<Gap> {
        let at = self.open.iter().rposition(|gap| gap.contains(psn) && gap.sent_in_order(id))?;
        Some(self.fill_at(at, psn, false))
    }

    fn fill_at(&mut self, at: usize, psn: u32, by_retransmission: bool) -> Gap {
        let gap = self.open.remove(at);
        let before = psn.wrapping_sub(gap.start) & MASK24;
        let behind = gap.len - before - 1;
        if before > 0 {
            self.open.insert(at, Gap { len: before, ..gap });
        }
        if behind > 0 {
            let rest = Gap { start: psn.wrapping_add(1) & MASK24, len: behind, ..gap };
            let mut next = at + usize::from(before > 0);
            // A gap among retransmissions matters least.
            if self.open.len() >= MAX_GAPS
                && let Some(oldest) = self.open.iter().position(|gap| gap.retransmitted)
                && oldest < at
            {
                self.open.remove(oldest);
                next -= 1;
            }
            if self.open.len() < MAX_GAPS {
                self.open.insert(next, rest);
            } else if let Some(last) = self.open.get_mut(at) {
                // No room for both halves: the second is kept, since its packets are still to come.
                *last = rest;
            }
        }
        match self.filled.last_mut() {
            Some(last)
                if last.by_retransmission == by_retransmission
                    && last.gap.opened_ns == gap.opened_ns
                    && last.gap.start.wrapping_add(last.gap.len) & MASK24 == psn =>
            {
                last.gap.len += 1;
            }
            _ => {
                if self.filled.len() >= MAX_GAPS {
                    self.filled.remove(0);
                }
                self.filled.push(Filled { gap: Gap { start: psn, len: 1, ..gap }, by_retransmission });
            }
        }
        gap
    }

    /// The latest filled gap that contains `psn`.
    pub(super) fn recently_filled(&self, psn: u32) -> Option<Filled> {
        self.filled.iter().rev().find(|filled| filled.gap.contains(psn)).copied()
    }

    /// The original packet of `psn` arrived after a retransmission had filled its gap: it was reordered, not lost. Returns
    /// the gap.
    pub(super) fn original_arrived(&mut self, psn: u32, id: u16) -> Option<Gap> {
        let of = |filled: &Filled| {
            filled.by_retransmission && filled.gap.contains(psn) && filled.gap.sent_in_order(id)
        };
        let at = self.filled.iter().rposition(of)?;
        let Filled { gap, .. } = self.filled.remove(at);
        let before = psn.wrapping_sub(gap.start) & MASK24;
        let parts = [
            (gap.start, before, true),
            (psn, 1, false),
            (psn.wrapping_add(1) & MASK24, gap.len - before - 1, true),
        ];
        for (start, len, by_retransmission) in parts.into_iter().rev().filter(|(_, len, _)| *len > 0) {
            self.filled.insert(at, Filled { gap: Gap { start, len, ..gap }, by_retransmission });
        }
        let over = self.filled.len().saturating_sub(MAX_GAPS);
        self.filled.drain(..over);
        Some(gap)
    }

    /// Whether `psn` is in a gap, or was a short time ago.
    pub(super) fn knows(&self, psn: u32) -> bool {
        self.at(psn).is_some() || self.recently_filled(psn).is_some()
    }

    /// Whether a PSN that has not passed before is missing in `start..end`.
    pub(super) fn any_between(&self, start: u32, end: u32) -> bool {
        let span = end.wrapping_sub(start) & MASK24;
        self.open.iter().any(|gap| !gap.retransmitted && gap.start.wrapping_sub(start) & MASK24 < span)
    }

    /// PSNs that are missing and have not passed before.
    pub(super) fn missing(&self) -> u64 {
        self.open.iter().filter(|gap| !gap.retransmitted).map(|gap| u64::from(gap.len)).sum()
    }

    /// Forgets all gaps. Returns how many PSNs were missing.
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

    fn gap(start: u32, len: u32) -> Gap {
        Gap { start, len, opened_ns: 1, ids: None, retransmitted: false }
    }

    #[test]
    fn filling_splits_a_gap_also_over_the_wrap() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.add(gap(0xFF_FFFE, 5)), None);
        assert!(gaps.at(2).is_some() && gaps.at(3).is_none());
        assert!(gaps.fill(0, false).is_some());
        assert_eq!(gaps.missing(), 4);
        assert!(gaps.at(0).is_none() && gaps.at(0xFF_FFFF).is_some() && gaps.at(1).is_some());
        assert!(gaps.fill(1, false).is_some());
        assert_eq!(gaps.recently_filled(1).map(|filled| (filled.gap.start, filled.gap.len)), Some((0, 2)));
        assert!(gaps.any_between(0xFF_0000, 1) && !gaps.any_between(5, 9));
        assert_eq!(gaps.clear(), 3);
        assert!(!gaps.knows(1));
    }

    #[test]
    fn memory_is_bounded_and_dropped_gaps_are_returned() {
        let mut gaps = Gaps::default();
        let mut dropped = 0;
        for i in 0..1000 {
            let retransmitted = i % 2 == 0;
            let gone = gaps.add(Gap { retransmitted, ..gap(i * 10, 3) });
            dropped += u64::from(gone.is_some());
        }
        assert_eq!(dropped, 1000 - MAX_GAPS as u64);
        for psn in 0..10_000 {
            gaps.fill(psn, psn % 3 == 0);
            gaps.original_arrived(psn.saturating_sub(5), 2);
        }
        assert!(gaps.open.len() <= MAX_GAPS && gaps.filled.len() <= MAX_GAPS);
    }

    #[test]
    fn identifications_lie_between_those_of_the_neighbours() {
        let ids = IdRange { after: 0xFFFE, before: 3 };
        assert!(ids.contains(0xFFFF) && ids.contains(0) && ids.contains(2));
        assert!(!ids.contains(3) && !ids.contains(0xFFFE) && !ids.contains(100));
    }
}
