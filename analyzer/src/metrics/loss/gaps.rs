//! PSN gaps: ranges of PSNs that were skipped, open or filled a short time ago.

use rocescope_common::wire::bth::{MASK24, psn_distance};

use super::arrival::ID_AHEAD;

/// Gaps kept per sequence, open and filled ones apart; the oldest make room.
pub(super) const MAX_GAPS: usize = 128;

/// A range of PSNs that were skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) start: u32,
    pub(super) len: u32,
    /// Time of the packet behind the gap, Unix nanoseconds.
    pub(super) opened_ns: u64,
    /// Latest IPv4 identification when the gap opened. If the sender counts identifications up, a packet of the gap
    /// with an earlier one was sent before the receiver could report the gap.
    pub(super) before: u16,
    /// A gap among retransmissions: the PSNs have passed before.
    pub(super) retransmitted: bool,
}

impl Gap {
    pub(super) fn contains(&self, psn: u32) -> bool {
        psn_distance(self.start, psn) < self.len
    }

    /// True if a packet with this identification was sent before the gap showed.
    pub(super) fn sent_before(&self, id: u16) -> bool {
        (1..ID_AHEAD).contains(&self.showed_after(id))
    }

    /// Identifications from this one to that after which the gap showed.
    fn showed_after(&self, id: u16) -> u16 {
        self.before.wrapping_sub(id)
    }
}

/// A range of PSNs that was a gap and has been filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FilledGap {
    pub(super) gap: Gap,
    pub(super) by: Fill,
}

impl FilledGap {
    /// True if `psn` of this gap comes next and is filled the same way.
    fn goes_on_with(&self, gap: &Gap, psn: u32, by: Fill) -> bool {
        self.by == by
            && self.gap.opened_ns == gap.opened_ns
            && self.gap.start.wrapping_add(self.gap.len) & MASK24 == psn
    }
}

/// Packets that fill a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// Its packets, out of order.
    Original,
    /// Retransmissions.
    Retransmission,
    /// It counts as retransmitted, but may be the original: no NAK or timeout explains it, or it passed again.
    Either,
    /// Retransmissions, after which the sender went on without the packets behind them.
    Alone,
}

impl Fill {
    pub(super) const fn retransmission(is: bool) -> Self {
        if is { Self::Retransmission } else { Self::Original }
    }
}

/// The gaps of a sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct Gaps {
    open: Vec<Gap>,
    /// Filled a short time ago, the oldest first; neighbours that were filled the same way in a row are one.
    filled: Vec<FilledGap>,
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

    /// The open gap that showed after a packet with this PSN and IPv4 identification was sent. Of several, each for one
    /// of the times that the PSN was sent, the first: what was sent later closes the later ones.
    pub(super) fn sent_before(&self, psn: u32, id: u16) -> Option<Gap> {
        self.open.iter().find(|gap| gap.contains(psn) && gap.sent_before(id)).copied()
    }

    /// Fills one PSN of the latest gap that contains it; the PSNs on both sides stay open.
    pub(super) fn fill(&mut self, psn: u32, by: Fill) -> Option<Gap> {
        let at = self.open.iter().rposition(|gap| gap.contains(psn))?;
        Some(self.fill_at(at, psn, by))
    }

    /// Fills one PSN of the gap that showed after the packet was sent.
    pub(super) fn fill_original(&mut self, psn: u32, id: u16) -> Option<Gap> {
        let at = self.open.iter().position(|gap| gap.contains(psn) && gap.sent_before(id))?;
        Some(self.fill_at(at, psn, Fill::Original))
    }

    fn fill_at(&mut self, at: usize, psn: u32, by: Fill) -> Gap {
        let gap = self.open.remove(at);
        let before = psn_distance(gap.start, psn);
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
            Some(last) if last.goes_on_with(&gap, psn, by) => last.gap.len += 1,
            _ => {
                if self.filled.len() >= MAX_GAPS {
                    self.filled.remove(0);
                }
                self.filled.push(FilledGap { gap: Gap { start: psn, len: 1, ..gap }, by });
            }
        }
        gap
    }

    /// A run from one PSN to another filled gaps and nothing else. Returns how many PSNs.
    pub(super) fn filled_alone(&mut self, start: u32, last: u32) -> u64 {
        let span = psn_distance(start, last);
        let is_own = |filled: &&mut FilledGap| {
            let first = psn_distance(start, filled.gap.start);
            filled.by == Fill::Retransmission && first <= span && filled.gap.len <= span + 1 - first
        };
        let alone = |filled: &mut FilledGap| {
            filled.by = Fill::Alone;
            u64::from(filled.gap.len)
        };
        self.filled.iter_mut().filter(is_own).map(alone).sum()
    }

    /// The packet of `psn` passes again: what filled its gap may be the original. Returns what it was taken for.
    pub(super) fn passes_again(&mut self, psn: u32) -> Option<Fill> {
        let at = self.filled.iter().rposition(|filled| filled.gap.contains(psn))?;
        let by = self.filled.get(at)?.by;
        // An original was never lost.
        if matches!(by, Fill::Retransmission | Fill::Alone) {
            self.split(at, psn, Fill::Either);
        }
        Some(by)
    }

    /// The latest filled gap that contains `psn`.
    pub(super) fn recently_filled(&self, psn: u32) -> Option<FilledGap> {
        self.filled.iter().rev().find(|filled| filled.gap.contains(psn)).copied()
    }

    /// True if a retransmission has filled the gap that showed first after a packet with this PSN and IPv4
    /// identification was sent. An open gap that contains the PSN is then one that a retransmission has left.
    pub(super) fn was_filled_for(&self, psn: u32, id: u16) -> bool {
        let Some(filled) = self.filled_for(psn, id).and_then(|at| self.filled.get(at)) else { return false };
        self.sent_before(psn, id).is_none_or(|open| filled.gap.showed_after(id) < open.showed_after(id))
    }

    /// Place of that gap among the filled ones.
    fn filled_for(&self, psn: u32, id: u16) -> Option<usize> {
        let of = |filled: &FilledGap| {
            filled.by != Fill::Original && filled.gap.contains(psn) && filled.gap.sent_before(id)
        };
        let all = self.filled.iter().enumerate().filter(|one| of(one.1));
        all.min_by_key(|one| one.1.gap.showed_after(id)).map(|(at, _)| at)
    }

    /// The original packet of `psn` arrived after a retransmission had filled its gap: it was reordered, not lost.
    /// Returns the gap.
    pub(super) fn original_arrived(&mut self, psn: u32, id: u16) -> Option<Gap> {
        let at = self.filled_for(psn, id)?;
        Some(self.split(at, psn, Fill::Original))
    }

    /// Changes what has filled one PSN of a filled gap. Returns the gap.
    fn split(&mut self, at: usize, psn: u32, to: Fill) -> Gap {
        let FilledGap { gap, by } = self.filled.remove(at);
        let before = psn_distance(gap.start, psn);
        let mut own = 1;
        // The PSNs of a long gap pass one after the other.
        if let Some(last) = at.checked_sub(1).and_then(|at| self.filled.get_mut(at))
            && last.goes_on_with(&gap, psn, to)
        {
            (last.gap.len, own) = (last.gap.len + 1, 0);
        }
        let behind = gap.len - before - 1;
        let parts = [(gap.start, before, by), (psn, own, to), (psn.wrapping_add(1) & MASK24, behind, by)];
        for (start, len, by) in parts.into_iter().rev().filter(|(_, len, _)| *len > 0) {
            self.filled.insert(at, FilledGap { gap: Gap { start, len, ..gap }, by });
        }
        let over = self.filled.len().saturating_sub(MAX_GAPS);
        self.filled.drain(..over);
        gap
    }

    /// True if `psn` is in a gap, or was a short time ago.
    pub(super) fn knows(&self, psn: u32) -> bool {
        self.at(psn).is_some() || self.recently_filled(psn).is_some()
    }

    /// True if a PSN that has not passed before is missing in `start..end`.
    pub(super) fn any_between(&self, start: u32, end: u32) -> bool {
        let span = psn_distance(start, end);
        self.open.iter().any(|gap| !gap.retransmitted && psn_distance(start, gap.start) < span)
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
        Gap { start, len, opened_ns: 1, before: 0, retransmitted: false }
    }

    #[test]
    fn filling_splits_a_gap_also_over_the_wrap() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.add(gap(0xFF_FFFE, 5)), None);
        assert!(gaps.at(2).is_some() && gaps.at(3).is_none());
        assert!(gaps.fill(0, Fill::Original).is_some());
        assert_eq!(gaps.missing(), 4);
        assert!(gaps.at(0).is_none() && gaps.at(0xFF_FFFF).is_some() && gaps.at(1).is_some());
        assert!(gaps.fill(1, Fill::Original).is_some());
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
            gaps.fill(psn, Fill::retransmission(psn % 3 == 0));
            gaps.original_arrived(psn.saturating_sub(5), 2);
        }
        assert!(gaps.open.len() <= MAX_GAPS && gaps.filled.len() <= MAX_GAPS);
    }

    /// Two duplicates of a PSN are overtaken: each closes the gap that it left.
    #[test]
    fn the_earlier_copy_closes_the_earlier_gap() {
        let mut gaps = Gaps::default();
        for before in [10, 20] {
            gaps.add(Gap { before, retransmitted: true, ..gap(5, 1) });
        }
        assert_eq!(gaps.fill_original(5, 4).map(|gap| gap.before), Some(10));
        assert_eq!(gaps.sent_before(5, 14).map(|gap| gap.before), Some(20));
        assert!(gaps.fill_original(5, 14).is_some() && gaps.at(5).is_none());
    }

    /// A retransmission has filled the gap of a packet, another one is overtaken: the original is that of the first
    /// gap.
    #[test]
    fn a_late_original_is_of_the_gap_that_showed_first() {
        let mut gaps = Gaps::default();
        gaps.add(Gap { before: 10, ..gap(5, 1) });
        gaps.fill(5, Fill::Retransmission);
        gaps.add(Gap { before: 20, retransmitted: true, ..gap(5, 1) });
        assert!(gaps.was_filled_for(5, 4) && !gaps.was_filled_for(5, 14));
        gaps.fill(5, Fill::Retransmission);
        assert_eq!(gaps.original_arrived(5, 4).map(|gap| gap.before), Some(10));
        assert_eq!(gaps.original_arrived(5, 14).map(|gap| gap.before), Some(20));
        assert_eq!(gaps.original_arrived(5, 4), None);
    }

    /// A long gap whose packets all pass again does not drive the others out of memory.
    #[test]
    fn what_passes_again_in_a_row_is_one_range() {
        let mut gaps = Gaps::default();
        for (start, len, by) in [(1, 1, Fill::Original), (10, 500, Fill::Retransmission)] {
            gaps.add(gap(start, len));
            for psn in start..start + len {
                gaps.fill(psn, by);
            }
        }
        assert_eq!(gaps.passes_again(1), Some(Fill::Original));
        assert_eq!(gaps.recently_filled(1).map(|filled| filled.by), Some(Fill::Original));
        for psn in 10..510 {
            assert_eq!(gaps.passes_again(psn), Some(Fill::Retransmission));
        }
        assert_eq!(gaps.passes_again(10), Some(Fill::Either));
        assert_eq!(gaps.filled.len(), 2);
    }

    #[test]
    fn an_identification_shows_packets_sent_before_the_gap_was_seen() {
        let gap = Gap { before: 3, ..gap(1, 1) };
        assert!(gap.sent_before(2) && gap.sent_before(0xFFFF) && gap.sent_before(0xC004));
        assert!(!gap.sent_before(3) && !gap.sent_before(4) && !gap.sent_before(0xC003));
    }
}
