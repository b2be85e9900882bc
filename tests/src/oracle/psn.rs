//! The accounting rule for packet sequence numbers, modulo 2^24.

const MODULUS: u32 = 1 << 24;
const WINDOW: u32 = 65_536;

/// One PSN sequence: the requests of a flow, or its responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracker {
    /// Sequence number of the first packet.
    pub first: u32,
    /// PSN of the next new packet, or the highest possible value.
    pub expected: u32,
    /// Packets with a PSN before `expected`.
    pub repeats: u64,
    /// Packets with a PSN above `expected`.
    pub gaps: u64,
    /// Number of PSNs skipped.
    pub missing: u64,
    /// Jumps too far for either.
    pub restarts: u64,
    /// Distance below `expected` within which the next packet is still in order.
    slack: u32,
}

/// Number of PSNs that a packet takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// Exactly this number.
    Exact(u32),
    /// At least one, at most this number: a READ with unknown path MTU or length.
    UpTo(u32),
}

impl Span {
    /// Span of a READ request of `dma_length` bytes (`None`: truncated) at a path MTU (`None`: unknown).
    pub fn of_read(dma_length: Option<u64>, mtu: Option<u64>) -> Self {
        let packets = |size: u64, mtu: u64| u32::try_from(size.div_ceil(mtu).max(1)).unwrap_or(u32::MAX);
        match (dma_length, mtu) {
            (Some(size), Some(mtu)) => Self::Exact(packets(size, mtu)),
            (Some(size), None) => Self::UpTo(packets(size, 256)),
            (None, _) => Self::UpTo(WINDOW - 1),
        }
    }
}

impl Tracker {
    /// Starts with the first packet, which is never a gap.
    pub fn start(psn: u32, span: Span) -> Self {
        let mut tracker =
            Self { first: psn, expected: 0, repeats: 0, gaps: 0, missing: 0, restarts: 0, slack: 0 };
        tracker.advance(psn, span);
        tracker
    }

    /// Accounts for one more packet.
    pub fn observe(&mut self, psn: u32, span: Span) {
        let behind = self.expected.wrapping_sub(psn) % MODULUS;
        let ahead = psn.wrapping_sub(self.expected) % MODULUS;
        if behind <= self.slack {
            self.advance(psn, span);
        } else if ahead < WINDOW {
            self.gaps += 1;
            self.missing += u64::from(ahead);
            self.advance(psn, span);
        } else if behind <= WINDOW {
            self.repeats += 1;
        } else {
            self.restarts += 1;
            self.advance(psn, span);
        }
    }

    fn advance(&mut self, psn: u32, span: Span) {
        let (packets, slack) = match span {
            Span::Exact(packets) => (packets, 0),
            Span::UpTo(packets) => (packets, packets.saturating_sub(1)),
        };
        self.expected = psn.wrapping_add(packets) % MODULUS;
        self.slack = slack;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(psns: &[u32]) -> Tracker {
        let mut tracker = Tracker::start(psns[0], Span::Exact(1));
        for psn in &psns[1..] {
            tracker.observe(*psn, Span::Exact(1));
        }
        tracker
    }

    #[test]
    fn wraps_without_a_gap() {
        let tracker = run(&[0xFF_FFFE, 0xFF_FFFF, 0, 1]);
        assert_eq!((tracker.expected, tracker.gaps, tracker.repeats, tracker.restarts), (2, 0, 0, 0));
    }

    #[test]
    fn edges_between_gap_restart_and_repeat() {
        assert_eq!(run(&[0, 1 + 65_535]).missing, 65_535);
        assert_eq!(run(&[0, 1 + 65_536]).restarts, 1);
        assert_eq!(run(&[70_000, 70_001 - 65_536]).repeats, 1);
        assert_eq!(run(&[70_000, 70_001 - 65_537]).restarts, 1);
    }

    #[test]
    fn a_repeat_leaves_expected_alone() {
        let tracker = run(&[10, 11, 12, 11, 12, 13]);
        assert_eq!((tracker.expected, tracker.repeats, tracker.gaps), (14, 2, 0));
    }

    #[test]
    fn a_read_of_unknown_mtu_allows_any_next_number_in_its_range() {
        let read = Span::of_read(Some(1024), None);
        assert_eq!(read, Span::UpTo(4));
        for (next, gaps, repeats) in [(100, 0, 1), (101, 0, 0), (104, 0, 0), (105, 1, 0)] {
            let mut tracker = Tracker::start(100, read);
            tracker.observe(next, Span::Exact(1));
            assert_eq!((tracker.gaps, tracker.repeats), (gaps, repeats), "next {next}");
        }
        assert_eq!(Span::of_read(Some(0), Some(1024)), Span::Exact(1));
        assert_eq!(Span::of_read(Some(1025), Some(1024)), Span::Exact(2));
        assert_eq!(Span::of_read(None, Some(1024)), Span::UpTo(65_535));
    }
}
