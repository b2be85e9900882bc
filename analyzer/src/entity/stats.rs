//! Counters of one flow in user space: the kernel's, without the memory for what a flow does not have.

use rocescope_common::account::flow::{OPCODES, OpcodeCounts};
use rocescope_common::account::{Disorder, FlowCounters, FlowStats, PsnTrack, Rare, Seldom};

use crate::util::boxed_unless_zero::BoxedUnlessZero;

/// Counters of one flow. With very many flows most have a few opcodes and no NAK: they take half of what a kernel slot
/// does.
pub type Stats =
    FlowCounters<Opcodes, BoxedUnlessZero<Rare>, BoxedUnlessZero<Seldom>, BoxedUnlessZero<Disorder>>;

/// PSN sequence of its requests.
pub type Psns = PsnTrack<BoxedUnlessZero<Disorder>>;

// Of very many flows each has one.
const _: () = assert!(size_of::<Stats>() <= 216);

/// True if packets of the flow are part of a PSN sequence: loss and retransmission of ACKs, CNPs and datagrams alone
/// are unknown.
pub fn has_sequence(stats: &Stats) -> bool {
    stats.psn.seen != 0 || stats.rare.psn_responses.seen != 0
}

/// True if the flow has carried ACKs or NAKs: of one without any it is unknown whether it would show a NAK, as of
/// datagrams, or of requests whose responder is not captured. Truncated ones do not tell.
pub fn has_answers(stats: &Stats) -> bool {
    stats.acks + stats.rare.rnr_naks + stats.rare.naks.iter().sum::<u64>() > 0
}

/// Opcodes that need no memory of their own: FIRST, MIDDLE, LAST and ONLY of one operation.
const FEW: usize = 4;
/// No opcode: none has these low bits.
const NONE: u8 = u8::MAX;

/// Packets by the low five bits of the opcode.
#[derive(Clone, Debug)]
pub struct Opcodes(List);

#[derive(Clone, Debug)]
enum List {
    /// In the order of their first packets, less than 2^32 of each.
    Few { codes: [u8; FEW], packets: [u32; FEW] },
    /// By opcode: a search takes longer than everything else about a packet.
    All(Box<[u64; OPCODES]>),
}

impl Default for Opcodes {
    fn default() -> Self {
        Self(List::Few { codes: [NONE; FEW], packets: [0; FEW] })
    }
}

impl Opcodes {
    /// Opcodes with packets, by their low five bits, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, u64)> {
        let (few, all) = match &self.0 {
            List::Few { codes, packets } => {
                (Some(codes.iter().copied().zip(packets.iter().copied().map(u64::from))), None)
            }
            List::All(packets) => (None, Some((0..).zip(packets.iter().copied()))),
        };
        few.into_iter().flatten().chain(all.into_iter().flatten()).filter(|(_, packets)| *packets > 0)
    }

    /// Packets with these low five bits of the opcode.
    pub fn get(&self, low: u8) -> u64 {
        self.iter().find(|(code, _)| *code == low).map_or(0, |(_, packets)| packets)
    }

    /// Adds packets of an opcode that is new, or beyond the few, or has very many; false if it has no place.
    #[cold]
    fn add(&mut self, low: u8, more: u64) -> bool {
        if usize::from(low) >= OPCODES {
            return false;
        }
        if let List::Few { codes, packets } = &mut self.0 {
            let at = position(*codes, low).or_else(|| position(*codes, NONE));
            if let Some((code, packets)) = at.and_then(|at| codes.get_mut(at).zip(packets.get_mut(at)))
                && let Ok(sum) = u32::try_from(u64::from(*packets).saturating_add(more))
            {
                (*code, *packets) = (low, sum);
                return true;
            }
            let mut all = Box::new([0; OPCODES]);
            for (code, packets) in codes.iter().zip(packets) {
                if let Some(place) = all.get_mut(usize::from(*code)) {
                    *place = (*packets).into();
                }
            }
            self.0 = List::All(all);
        }
        let List::All(all) = &mut self.0 else { return false };
        let Some(packets) = all.get_mut(usize::from(low)) else { return false };
        *packets = packets.saturating_add(more);
        true
    }
}

/// The place of an opcode among few. Without a branch for each: which opcode comes next is hard to predict.
#[inline]
fn position(codes: [u8; FEW], low: u8) -> Option<usize> {
    const ONES: u32 = u32::from_le_bytes([1; FEW]);
    let differ = u32::from_le_bytes(codes) ^ u32::from_le_bytes([low; FEW]);
    // The highest bit of each byte that is 0; a borrow can add bytes behind the first one only.
    let equal = differ.wrapping_sub(ONES) & !differ & ONES << 7;
    (equal != 0).then(|| equal.trailing_zeros() as usize / 8)
}

impl OpcodeCounts for Opcodes {
    #[inline]
    fn count(&mut self, low: usize) -> bool {
        // Five bits.
        let Ok(low) = u8::try_from(low) else { return false };
        match &mut self.0 {
            List::Few { codes, packets } => {
                if let Some(packets) = position(*codes, low).and_then(|at| packets.get_mut(at))
                    && let Some(sum) = packets.checked_add(1)
                {
                    *packets = sum;
                    return true;
                }
            }
            List::All(packets) => {
                if let Some(packets) = packets.get_mut(usize::from(low)) {
                    *packets += 1;
                    return true;
                }
            }
        }
        self.add(low, 1)
    }
}

impl PartialEq for Opcodes {
    fn eq(&self, other: &Self) -> bool {
        (0..).take(OPCODES).all(|low| self.get(low) == other.get(low))
    }
}

impl Eq for Opcodes {}

impl FromIterator<(u8, u64)> for Opcodes {
    /// From low five bits and packets; those without a place (see [`OPCODES`]) are left out.
    fn from_iter<I: IntoIterator<Item = (u8, u64)>>(counts: I) -> Self {
        let mut opcodes = Self::default();
        for (low, packets) in counts.into_iter().filter(|(_, packets)| *packets > 0) {
            opcodes.add(low, packets);
        }
        opcodes
    }
}

impl<const N: usize> From<[(u8, u64); N]> for Opcodes {
    fn from(counts: [(u8, u64); N]) -> Self {
        Self::from_iter(counts)
    }
}

/// The counters of a kernel slot.
pub fn from_kernel(slot: &FlowStats) -> Stats {
    slot.with_parts((0..).zip(slot.opcodes).collect(), slot.rare.into(), slot.seldom.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_are_counted_like_those_of_a_kernel_slot() {
        let (mut small, mut slot) = (Opcodes::default(), [0; OPCODES]);
        let lows = [7, 7, 6, 8, 31, 10, 7, 30, 4, 10, 17, 29, 0, 17];
        for low in lows.into_iter().chain((0..32).rev()) {
            assert_eq!(small.count(low), slot.count(low), "{low}");
            assert_eq!(small, (0..).zip(slot).collect(), "{low}");
            let sum: u64 = small.iter().map(|(_, packets)| packets).sum();
            assert_eq!(sum, slot.iter().sum::<u64>());
        }
        assert_eq!((small.get(7), small.get(30), small.get(NONE)), (4, 0, 0));
        assert_ne!(small, Opcodes::default());
    }

    #[test]
    fn very_many_packets_are_counted() {
        let most = u64::from(u32::MAX);
        let (mut few, mut many): (Opcodes, Opcodes) = ([(7, most), (4, 1)].into(), [(4, most + 1)].into());
        assert!(matches!((&few.0, &many.0), (List::Few { .. }, List::All(_))));
        assert!(few.count(7) && few.count(4) && many.count(4) && !many.count(OPCODES));
        assert_eq!((few.get(7), few.get(4), many.get(4)), (most + 1, 2, most + 2));
    }

    #[test]
    fn counters_of_a_slot_are_the_same_in_half_the_memory() {
        let mut slot = FlowStats { packets: 9, ..FlowStats::default() };
        slot.opcodes[4] = 9;
        (slot.rare.naks[2], slot.seldom.other_port_bytes) = (1, 3);
        let stats = from_kernel(&slot);
        assert_eq!((stats.packets, stats.seldom.other_port_bytes, stats.rare.naks), (9, 3, slot.rare.naks));
        assert_eq!(stats.opcodes.iter().collect::<Vec<_>>(), [(4, 9)]);
        assert!(size_of::<Stats>() * 2 < size_of::<FlowStats>(), "{} bytes", size_of::<Stats>());
    }
}
