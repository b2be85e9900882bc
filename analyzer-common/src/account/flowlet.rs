//! Flowlets: how a flow's data comes in runs with silences between.
//!
//! Small enough for a kernel program to keep per flow: a packet after a silence ends the flowlet
//! before it, which can then be told to user space.

use crate::wire::opcode::Op;

/// A silence of a flow longer than this ends a flowlet, in nanoseconds.
///
/// Longer than the round trip and the scheduling that part the packets of one transfer, shorter than the
/// computing between two exchanges of a training job. At most 500 flowlets per second and flow.
pub const FLOWLET_GAP_NS: u64 = 2_000_000;

/// Data without a silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Flowlet {
    /// First packet, in the run's clock.
    pub start_ns: u64,
    /// Latest packet.
    pub end_ns: u64,
    /// Outer frames' lengths without FCS.
    pub bytes: u64,
    /// The same of packets that were not sent before. Each round of a job that repeats itself has the same number of
    /// these, whatever is lost on the way.
    pub fresh_bytes: u64,
    /// Packets. 0 means: no flowlet yet.
    pub packets: u64,
}

impl Flowlet {
    /// Whether a packet of this opcode counts: what carries or asks for data, no acknowledgement, no CNP.
    #[inline(always)]
    #[must_use]
    pub fn is_data(op: Op) -> bool {
        op.has(Op::KNOWN) && !op.any(Op::ACKNOWLEDGE | Op::CNP)
    }

    /// Takes in a packet, and gives the flowlet before it when that has ended.
    ///
    /// `repeat`: the packet's PSN was behind the expected one. Time that jumps back by less than a gap is disorder and
    /// moves nothing; by more it starts a new flowlet.
    #[inline(always)]
    pub fn observe(&mut self, now_ns: u64, len: u32, repeat: bool) -> Option<Self> {
        let bytes = u64::from(len);
        let fresh_bytes = if repeat { 0 } else { bytes };
        self.merge(&Self { start_ns: now_ns, end_ns: now_ns, bytes, fresh_bytes, packets: 1 })
    }

    /// Takes in packets without a silence between them, the way [`Self::observe`] does one by one.
    #[inline(always)]
    pub fn merge(&mut self, more: &Self) -> Option<Self> {
        let ahead = more.start_ns.saturating_sub(self.end_ns);
        let behind = self.start_ns.saturating_sub(more.start_ns);
        let ended = self.packets != 0 && (ahead > FLOWLET_GAP_NS || behind > FLOWLET_GAP_NS);
        let before = *self;
        if ended || self.packets == 0 {
            *self = *more;
        } else {
            if more.end_ns > self.end_ns {
                self.end_ns = more.end_ns;
            }
            self.packets += more.packets;
            self.bytes += more.bytes;
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
        assert_eq!(before.bytes, 200);
        assert_eq!(before.fresh_bytes, 100);
        assert_eq!(flowlet.observe(1001 + 2 * FLOWLET_GAP_NS, 50, false), Some(before));
        assert_eq!((flowlet.start_ns, flowlet.packets, flowlet.bytes), (1001 + 2 * FLOWLET_GAP_NS, 1, 50));
    }

    #[test]
    fn time_that_jumps_back_moves_no_end() {
        let mut flowlet = Flowlet::default();
        flowlet.observe(10_000_000, 1, false);
        assert_eq!(flowlet.observe(9_999_000, 1, false), None);
        assert_eq!((flowlet.start_ns, flowlet.end_ns), (10_000_000, 10_000_000));
        assert!(flowlet.observe(1, 1, false).is_some());
        assert_eq!((flowlet.start_ns, flowlet.end_ns), (1, 1));
        assert_eq!(flowlet.observe(u64::MAX, 1, false).map(|s| s.packets), Some(1));
    }

    #[test]
    fn acknowledgements_are_no_data() {
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
