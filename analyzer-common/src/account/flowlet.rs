//! Flowlets: bursts of a flow's data, separated by silences.
//!
//! Small enough to be kept per flow in a kernel program.

use crate::wire::opcode::Op;

/// Minimum silence in nanoseconds that ends a flowlet (exclusive).
///
/// Longer than the round-trip time and the scheduling gaps within a transfer, shorter than the computation
/// between two exchanges of a training job. At most 500 flowlets per second and flow.
pub const FLOWLET_GAP_NS: u64 = 2_000_000;

/// Data of a flow without a silence in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Flowlet {
    /// First packet, in the run's clock. Later than the latest: no flowlet yet.
    pub start_ns: u64,
    /// Latest packet, in the run's clock.
    pub end_ns: u64,
    /// Bytes of the outer frames, without FCS, of packets that are not retransmissions. Equal in every iteration of a
    /// periodic job, whatever is lost.
    pub fresh_bytes: u64,
}

impl Default for Flowlet {
    fn default() -> Self {
        Self::NONE
    }
}

impl Flowlet {
    /// No flowlet yet.
    pub const NONE: Self = Self { start_ns: u64::MAX, end_ns: 0, fresh_bytes: 0 };

    /// True if there is a flowlet.
    #[inline(always)]
    pub const fn is_some(&self) -> bool {
        self.start_ns <= self.end_ns
    }

    /// True if packets of this opcode are data: requests and responses with data or for data, not
    /// acknowledgements or CNPs.
    #[inline(always)]
    pub fn is_data(op: Op) -> bool {
        op.only(Op::KNOWN, Op::ACKNOWLEDGE | Op::CNP)
    }

    /// Adds a packet; returns the previous flowlet if this packet starts a new one.
    ///
    /// `duplicate_psn`: the PSN was behind the expected one. A step back in time by up to the gap is jitter
    /// and moves neither end; a larger one starts a new flowlet.
    #[inline(always)]
    pub fn observe(&mut self, now_ns: u64, len: u32, duplicate_psn: bool) -> Option<Self> {
        let fresh_bytes = if duplicate_psn { 0 } else { u64::from(len) };
        // Nearly every packet: later than the one before, which is no earlier than the start, by no more than the gap.
        if now_ns.wrapping_sub(self.end_ns) <= FLOWLET_GAP_NS && self.is_some() {
            self.end_ns = now_ns;
            self.fresh_bytes += fresh_bytes;
            return None;
        }
        self.merge(&Self { start_ns: now_ns, end_ns: now_ns, fresh_bytes })
    }

    /// Adds packets without a silence between them, equivalent to [`Self::observe`] for each.
    #[inline(always)]
    pub fn merge(&mut self, more: &Self) -> Option<Self> {
        let ahead = more.start_ns.saturating_sub(self.end_ns);
        let behind = self.start_ns.saturating_sub(more.start_ns);
        let ended = self.is_some() && (ahead > FLOWLET_GAP_NS || behind > FLOWLET_GAP_NS);
        let before = *self;
        if ended || !self.is_some() {
            *self = *more;
        } else {
            if more.end_ns > self.end_ns {
                self.end_ns = more.end_ns;
            }
            self.fresh_bytes += more.fresh_bytes;
        }
        if ended { Some(before) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::{FLOWLET_GAP_NS, Flowlet};
    use crate::wire::opcode::{CNP, Op};

    #[test]
    fn a_silence_ends_a_flowlet() {
        let mut flowlet = Flowlet::default();
        assert_eq!(flowlet.observe(1000, 100, false), None);
        assert_eq!(flowlet.observe(1000 + FLOWLET_GAP_NS, 100, true), None);
        let before = flowlet;
        assert_eq!(before.fresh_bytes, 100);
        assert_eq!(flowlet.observe(1001 + 2 * FLOWLET_GAP_NS, 50, false), Some(before));
        assert_eq!((flowlet.start_ns, flowlet.fresh_bytes), (1001 + 2 * FLOWLET_GAP_NS, 50));
    }

    #[test]
    fn a_flowlet_may_begin_at_any_time() {
        for at_ns in [0, 1, FLOWLET_GAP_NS, u64::MAX] {
            let mut flowlet = Flowlet::default();
            assert!(!flowlet.is_some());
            assert_eq!(flowlet.observe(at_ns, 7, false), None);
            assert_eq!(flowlet, Flowlet { start_ns: at_ns, end_ns: at_ns, fresh_bytes: 7 });
        }
    }

    #[test]
    fn a_step_back_in_time_moves_neither_end() {
        let mut flowlet = Flowlet::default();
        flowlet.observe(10_000_000, 1, false);
        assert_eq!(flowlet.observe(9_999_000, 1, false), None);
        assert_eq!((flowlet.start_ns, flowlet.end_ns), (10_000_000, 10_000_000));
        assert!(flowlet.observe(1, 1, false).is_some());
        assert_eq!((flowlet.start_ns, flowlet.end_ns), (1, 1));
        assert_eq!(flowlet.observe(u64::MAX, 1, false).map(|before| before.end_ns), Some(1));
    }

    #[test]
    fn acknowledgements_are_not_data() {
        for (code, counts) in [
            (0x06, true),
            (0x0C, true),
            (0x10, true),
            (0x64, true),
            (0x11, false),
            (CNP, false),
            (0xE0, false),
        ] {
            assert_eq!(Flowlet::is_data(Op::of(code)), counts, "{code:#x}");
        }
    }
}
