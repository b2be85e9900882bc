//! Reordering delay of a flow: that of packets known to be reordered bounds that of packets for which a NAK came
//! meanwhile.

use crate::util::definition::definitions;

/// Steps of the time for which a gap was open: powers of two of a microsecond.
const STEPS: usize = 20;

definitions! {
    LEAST: u64 = 4,
        "Minimum packets that were out of order, for lost PSNs that came as late to be doubtful",
        "Fewer may be single accidents";
    EACH: u64 = 8,
        "Maximum doubtful PSNs for each of them",
        "Receivers NAK most gaps before they fill";
    MANY: u64 = 4,
        "Minimum packets out of order for each lost PSN, for it to be doubtful where IPv4 identifications count up",
        "A packet that fills a gap is known to be a retransmission there, and only its original may be late";
}

/// Times for which gaps were open.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReorderingDelay {
    /// PSNs that were late and not lost, and the longest time that one took, nanoseconds.
    reordered: u64,
    longest_ns: u64,
    /// PSNs counted as lost, by the time for which their gap was open.
    lost: [u32; STEPS],
    numbered: bool,
}

fn step(open_ns: u64) -> usize {
    ((open_ns / 1_000).max(1).ilog2() as usize).min(STEPS - 1)
}

impl ReorderingDelay {
    /// An original filled a gap that was open for that long.
    pub(super) fn reordered(&mut self, open_ns: u64) {
        self.reordered += 1;
        self.longest_ns = self.longest_ns.max(open_ns);
    }

    /// PSNs count as lost whose gap was open for that long.
    pub(super) fn lost(&mut self, open_ns: u64, psns: u64, numbered: bool) {
        self.numbered |= numbered;
        if let Some(count) = self.lost.get_mut(step(open_ns)) {
            *count = count.saturating_add(u32::try_from(psns).unwrap_or(u32::MAX));
        }
    }

    /// Number of the PSNs `lost` whose gap was filled within twice the longest reordering delay.
    pub(super) fn doubtful(&self, lost: u64) -> u64 {
        let enough =
            if self.numbered { self.reordered >= MANY * lost } else { self.reordered * EACH >= lost };
        if self.reordered < LEAST || !enough {
            return 0;
        }
        self.lost.iter().take(step(self.longest_ns) + 1).map(|count| u64::from(*count)).sum()
    }

    /// True if packets are late for as long as the sender seems to pause: at a tap behind the longer way, all of them
    /// may be.
    pub(super) fn explains(&self, pause_ns: u64) -> bool {
        self.reordered >= LEAST * EACH && pause_ns <= self.longest_ns + self.longest_ns / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// Packets late by this and not lost, and 16 PSNs lost in gaps open for that long.
    fn doubtful(reordered: u64, late_us: u64, open_us: u64, numbered: bool) -> u64 {
        let mut reordering_delay = ReorderingDelay::default();
        for _ in 0..reordered {
            reordering_delay.reordered(late_us * US);
        }
        for _ in 0..4 {
            reordering_delay.lost(open_us * US, 4, numbered);
        }
        reordering_delay.doubtful(16)
    }

    #[test]
    fn gap_filled_as_fast_as_reordered_packets_is_ambiguous() {
        assert_eq!(doubtful(5, 38, 35, false), 16);
        assert_eq!(doubtful(5, 38, 63, false), 16, "the same step");
        assert_eq!(doubtful(5, 38, 65, false), 0, "longer than anything is late");
        assert_eq!(doubtful(3, 38, 35, false), 0, "single accidents");
        assert_eq!(doubtful(63, 38, 35, true), 0);
        assert_eq!(doubtful(64, 38, 35, true), 16);
        assert_eq!(doubtful(5, 38, 0, false), 16);
        let many = ReorderingDelay { reordered: 5, longest_ns: 38 * US, ..ReorderingDelay::default() };
        assert_eq!(many.doubtful(41), 0, "most are lost");
        assert_eq!(step(u64::MAX), STEPS - 1);
    }

    #[test]
    fn a_pause_as_long_as_packets_are_late_is_no_timer() {
        let late = ReorderingDelay { reordered: 32, longest_ns: 4_000 * US, ..ReorderingDelay::default() };
        assert!(late.explains(3_900 * US) && late.explains(5_000 * US));
        assert!(!late.explains(5_001 * US));
        assert!(!ReorderingDelay { reordered: 31, ..late }.explains(3_900 * US));
    }
}
