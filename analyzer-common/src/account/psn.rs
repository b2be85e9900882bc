//! PSN sequences modulo 2^24: gaps, duplicate PSNs, restarts.

use core::ops::{Deref, DerefMut};

use super::part::{Part, in_place};
use crate::wire::bth::MASK24;
use crate::wire::frame::UNKNOWN;

/// Maximum distance ahead of or behind the expected PSN within one sequence; larger jumps are restarts.
pub const WINDOW: u32 = 65_536;

/// The PSN sequence of one direction of a queue pair, with what is out of order in the form that its place needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PsnTrack<D = Disorder> {
    /// PSN of the first packet seen.
    pub first: u32,
    /// Expected PSN of the next packet; after a READ of unknown length the largest possible one.
    pub expected: u32,
    /// Number of PSNs up to and including `expected` that count as in order: 1, or more after a READ of
    /// unknown length.
    pub slack: u32,
    /// 0 until the first packet.
    pub seen: u32,
    /// What is out of order, which nearly every sequence lacks. It is read as if its counters were those of the track.
    pub disorder: D,
}

/// Packets of a PSN sequence that are out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Disorder {
    /// Packets with a duplicate PSN (behind the expected one): retransmitted or reordered.
    pub repeats: u64,
    /// Gaps: jumps ahead of the expected PSN.
    pub gaps: u64,
    /// PSNs skipped by gaps.
    pub missing: u64,
    /// Jumps larger than [`WINDOW`]: the QP number is in use again.
    pub restarts: u64,
}

/// Number of PSNs that a packet takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Distance from the packet's PSN to the largest possible PSN of the next packet, at least 1.
    pub upper: u32,
    /// True if the length is unknown, so that the next packet may have any PSN in between.
    pub loose: bool,
}

impl Span {
    /// One PSN: all packets but READ requests.
    pub const ONE: Self = Self { upper: 1, loose: false };

    /// Span of a READ request of `dma_len` bytes (or [`UNKNOWN`]) with a path MTU of `mtu` bytes (0:
    /// unknown).
    #[inline(always)]
    pub const fn of_read(dma_len: u32, mtu: u32) -> Self {
        const SMALLEST_MTU: u32 = 256;
        if dma_len == UNKNOWN {
            return Self { upper: WINDOW - 1, loose: true };
        }
        let loose = mtu == 0;
        // `checked_div` avoids the panic path of a division by zero.
        let unit = if loose { SMALLEST_MTU } else { mtu };
        let whole = match dma_len.checked_div(unit) {
            Some(whole) => whole,
            None => 0,
        };
        let packets = if whole.wrapping_mul(unit) == dma_len { whole } else { whole + 1 };
        Self { upper: if packets == 0 { 1 } else { packets }, loose }
    }
}

/// Effect of a packet on the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first packet, or the expected PSN.
    InOrder,
    /// A gap of this many PSNs.
    Gap(u32),
    /// A PSN behind the expected one: retransmitted or reordered (IBTA: duplicate). As far back as [`WINDOW`], or to
    /// the latest READ request.
    Duplicate,
    /// A jump larger than [`WINDOW`].
    Restart,
}

in_place!(Disorder);

impl Disorder {
    /// Everything is in order: all zero.
    pub const NONE: Self = Self { repeats: 0, gaps: 0, missing: 0, restarts: 0 };
}

impl PsnTrack {
    /// Initial value: no packet seen.
    pub const NONE: Self = Self { first: 0, expected: 0, slack: 0, seen: 0, disorder: Disorder::NONE };
}

impl<D: Part<Disorder>> Deref for PsnTrack<D> {
    type Target = Disorder;

    #[inline(always)]
    fn deref(&self) -> &Disorder {
        self.disorder.part()
    }
}

impl<D: Part<Disorder>> DerefMut for PsnTrack<D> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Disorder {
        self.disorder.part_mut()
    }
}

impl<D: Part<Disorder>> PsnTrack<D> {
    /// The same in another form.
    pub fn form<E: From<Disorder>>(&self) -> PsnTrack<E> {
        let Self { first, expected, slack, seen, .. } = *self;
        PsnTrack { first, expected, slack, seen, disorder: (**self).into() }
    }

    /// Accounts for a packet with this PSN that takes `span` PSNs.
    #[inline(always)]
    pub fn observe(&mut self, psn: u32, span: Span) -> Step {
        let step = if self.seen == 0 {
            self.seen = 1;
            self.first = psn;
            Step::InOrder
        } else if (self.expected.wrapping_sub(psn) & MASK24) < self.slack {
            Step::InOrder
        } else {
            let ahead = psn.wrapping_sub(self.expected) & MASK24;
            if ahead < WINDOW {
                let disorder = self.disorder.part_mut();
                disorder.gaps += 1;
                disorder.missing += u64::from(ahead);
                Step::Gap(ahead)
            } else if ahead >= (MASK24 + 1) - WINDOW || (MASK24 + 1).wrapping_sub(ahead) <= self.slack {
                self.disorder.part_mut().repeats += 1;
                return Step::Duplicate;
            } else {
                self.disorder.part_mut().restarts += 1;
                Step::Restart
            }
        };
        self.expected = psn.wrapping_add(span.upper) & MASK24;
        self.slack = if span.loose { span.upper } else { 1 };
        step
    }
}

impl<D> PsnTrack<D> {
    /// Accounts for a packet with the expected PSN, as [`observe`](Self::observe) does, behind one that took one PSN.
    #[inline(always)]
    pub(super) fn next(&mut self) {
        self.expected = self.expected.wrapping_add(1) & MASK24;
    }
}

#[cfg(test)]
mod tests {
    use super::{PsnTrack, Span, Step, WINDOW};

    fn track(psns: &[u32]) -> (PsnTrack, Step) {
        let mut t = PsnTrack::NONE;
        let mut last = Step::InOrder;
        for psn in psns {
            last = t.observe(*psn, Span::ONE);
        }
        (t, last)
    }

    #[test]
    fn in_order_across_the_wrap() {
        let (t, step) = track(&[0xFF_FFFE, 0xFF_FFFF, 0, 1]);
        assert_eq!((t.first, t.expected, step), (0xFF_FFFE, 2, Step::InOrder));
        assert_eq!((t.gaps, t.repeats, t.restarts), (0, 0, 0));
    }

    #[test]
    fn the_four_steps_at_their_bounds() {
        assert_eq!(track(&[10, 11 + WINDOW - 1]).1, Step::Gap(WINDOW - 1));
        assert_eq!(track(&[10, 11 + WINDOW]).1, Step::Restart);
        assert_eq!(track(&[0, 1u32.wrapping_sub(WINDOW) & 0xFF_FFFF]).1, Step::Duplicate);
        assert_eq!(track(&[0, 0u32.wrapping_sub(WINDOW) & 0xFF_FFFF]).1, Step::Restart);
        let (t, _) = track(&[5, 9, 6, 7, 8, 10]);
        assert_eq!((t.gaps, t.missing, t.repeats, t.expected), (1, 3, 3, 11));
        let (t, _) = track(&[100, 8_000_000, 8_000_001]);
        assert_eq!((t.restarts, t.gaps, t.expected, t.first), (1, 0, 8_000_002, 100));
    }

    #[test]
    fn spans_of_reads() {
        assert_eq!(Span::of_read(0, 1024), Span::ONE);
        assert_eq!(Span::of_read(3000, 1024), Span { upper: 3, loose: false });
        assert_eq!(Span::of_read(4096, 1024), Span { upper: 4, loose: false });
        assert_eq!(Span::of_read(10_000, 0), Span { upper: 40, loose: true });
        assert_eq!(Span::of_read(u32::MAX, 0), Span { upper: 65_535, loose: true });
        assert_eq!(Span::of_read(u32::MAX - 1, 256).upper, 1 << 24);
    }

    #[test]
    fn after_a_read_of_unknown_span_any_psn_in_it_is_in_order() {
        for (next, step) in [
            (101, Step::InOrder),
            (140, Step::InOrder),
            (141, Step::Gap(1)),
            (100, Step::Duplicate),
            (50, Step::Duplicate),
        ] {
            let mut t = PsnTrack::NONE;
            t.observe(100, Span::of_read(10_000, 0));
            assert_eq!(t.observe(next, Span::ONE), step, "{next}");
        }
        let mut t = PsnTrack::NONE;
        t.observe(100, Span::of_read(10_000, 1024));
        assert_eq!(t.observe(110, Span::ONE), Step::InOrder);
        // A READ of 20 MiB may take more PSNs than the window: repeated, it is no restart.
        let mut t = PsnTrack::NONE;
        t.observe(100, Span::of_read(20 << 20, 0));
        assert_eq!((t.observe(100, Span::of_read(20 << 20, 0)), t.restarts), (Step::Duplicate, 0));
        assert_eq!(t.observe(99, Span::ONE), Step::Restart);
    }

    #[test]
    fn no_input_panics() {
        let mut t = PsnTrack::NONE;
        for psn in [0, 0xFF_FFFF, u32::MAX, 0x80_0000] {
            for dma in [0, 1, 255, u32::MAX - 1, u32::MAX] {
                for mtu in [0, 1, 255, u32::MAX] {
                    t.observe(psn & 0xFF_FFFF, Span::of_read(dma, mtu));
                }
            }
        }
    }
}
