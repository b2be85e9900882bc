//! The latest packets of a sequence, and the order in which its sender sent them.

use rocescope_common::wire::bth::MASK24;

use super::arrival::REUSE_PAUSE_NS;
use crate::util::boxed_unless_zero::Zero;
use crate::util::definition::definitions;

definitions! {
    NUMBERED: u8 = 16,
        "Packets in a row with a rising IPv4 identification after which it is the order of sending",
        "A random one rises by less than the largest step one time in eight";
    ID_STEP: u16 = 8_192,
        "Largest rise of the IPv4 identification from one packet of a flow to the next, exclusive",
        "Flows of a host share the counter";
}

/// Packets in a row with a rising one after which it is not a constant.
const DIFFERENT: u8 = 2;

/// The latest packets of one sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latest {
    pub(super) time_ns: u64,
    pub(super) id: u16,
    /// Highest identification so far.
    pub(super) high_id: u16,
    /// PSN, and in the lowest byte packets in a row with a rising identification, at most [`NUMBERED`].
    psn_and_rising: u32,
}

impl Latest {
    const NONE: Self = Self { time_ns: 0, id: 0, high_id: 0, psn_and_rising: 0 };
}

// Of very many flows each has one.
const _: () = assert!(size_of::<Latest>() == 16);

/// The latest responses of a flow; most have none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Responses {
    pub(super) latest: Latest,
    /// The latest is not the last of its message, and the one with the highest PSN is not.
    pub(super) open: bool,
    pub(super) within_message: bool,
}

impl Zero for Responses {
    const ZERO: &'static Self = &Self { latest: Latest::NONE, open: false, within_message: false };
}

impl Default for Latest {
    fn default() -> Self {
        Self::NONE
    }
}

impl Latest {
    #[inline]
    pub(super) const fn psn(&self) -> u32 {
        self.psn_and_rising >> 8
    }

    #[inline]
    const fn rising(&self) -> u8 {
        self.psn_and_rising.to_le_bytes()[0]
    }

    #[inline]
    pub(super) fn numbered(&self) -> bool {
        self.rising() >= NUMBERED
    }

    /// True if the identification changes from packet to packet: then a packet with the PSN and identification of
    /// another is its duplicate.
    #[inline]
    pub(super) fn differs(&self) -> bool {
        self.rising() >= DIFFERENT
    }

    #[inline]
    pub(super) fn follows(&self, psn: u32) -> bool {
        psn == self.psn().wrapping_add(1) & MASK24
    }

    #[inline(always)]
    pub(super) fn passed(&mut self, psn: u32, id: u16, time_ns: u64, in_order: bool) {
        let step = id.wrapping_sub(self.high_id);
        // Packets whose PSNs follow one another were sent in this order, reordered ones and retransmissions too.
        let rise = if in_order { Some(step) } else { self.follows(psn).then(|| id.wrapping_sub(self.id)) };
        let mut rising = self.rising();
        match rise {
            Some(1..ID_STEP) => rising += u8::from(rising < NUMBERED),
            // A reordered packet proves nothing.
            Some(rise) if rise > ID_STEP.wrapping_neg() => {}
            Some(_) => rising = 0,
            None => {}
        }
        let paused = time_ns.saturating_sub(self.time_ns) >= REUSE_PAUSE_NS;
        // A new packet that a retransmission has overtaken is not the latest that was sent.
        let overtaken = rising >= NUMBERED && step > ID_STEP.wrapping_neg();
        if (!in_order && step >= ID_STEP || overtaken) && !paused {
            self.id = id;
        } else {
            (self.id, self.high_id) = (id, id);
        }
        self.psn_and_rising = (psn & MASK24) << 8 | u32::from(rising);
        self.time_ns = time_ns;
    }
}
