//! Packets that may be duplicates of others, until it is known whether the capture shows those of their hosts twice.

use rocescope_common::wire::opcode::Op;

use super::{Cnps, Collector, NO_PLACE, link};
use crate::metrics::packet::{CE, Packet};
use crate::metrics::pairing::Reverse;
use crate::util::map::Map;

/// Flows with CNPs of which some are doubtful, 0.9 KB each.
const MAX_FLOWS: usize = 1_024;
/// Packets that can still be taken out of the bins.
const MAX_PACKETS: usize = 16_384;

#[derive(Clone, Copy, Debug)]
struct InBin {
    slot: u32,
    link: u16,
    time_ns: u64,
    cnp: bool,
    ce: bool,
    /// The flow was followed.
    followed: bool,
}

/// The counts of them, and those without them.
#[derive(Debug, Default)]
pub(super) struct DoubtfulMarks {
    /// The CNPs of flows without those that are doubtful, by slot.
    certain: Map<u32, Box<Cnps>>,
    in_bins: Vec<InBin>,
}

impl DoubtfulMarks {
    /// The CNPs of a flow without the doubtful ones, where it has any.
    pub(super) fn certain(&mut self, slot: u32) -> Option<&mut Cnps> {
        self.certain.get_mut(&slot).map(Box::as_mut)
    }

    pub(super) fn retired(&mut self, slot: u32) {
        self.certain.remove(&slot);
        self.in_bins.retain(|packet| packet.slot != slot);
    }
}

impl Collector {
    /// Takes in a packet that may be the duplicate of one before.
    #[cold]
    pub fn doubtful(&mut self, packet: &Packet, reverse: Reverse) {
        let cnp = Op::of(packet.opcode).has(Op::CNP);
        let ecn = packet.data_ecn();
        if !cnp && ecn == 0 {
            return;
        }
        let slot = packet.slot;
        let number = self.slots.get(slot as usize).map(|slot| slot.cnps);
        let before =
            number.and_then(|number| self.cnps.get(number)).filter(|_| cnp).map(|(cnps, _)| cnps.clone());
        let mut once = self.doubtful.certain.remove(&slot).or_else(|| before.map(Box::new));
        self.packet(packet, reverse);
        if let Some(once) = once.take()
            && self.doubtful.certain.len() < MAX_FLOWS
        {
            self.doubtful.certain.insert(slot, once);
        }
        if self.doubtful.in_bins.len() < MAX_PACKETS {
            let Packet { link, time_ns, .. } = *packet;
            let followed = self.slots.get(slot as usize).is_some_and(|slot| slot.data != NO_PLACE);
            self.doubtful.in_bins.push(InBin { slot, link, time_ns, cnp, ce: ecn == CE, followed });
        }
    }

    /// The doubtful packets of a flow were duplicates.
    #[cold]
    pub fn take_out(&mut self, slot: u32) {
        let Self { slots, data, cnps, links, doubtful, .. } = self;
        let numbers = slots.get(slot as usize);
        if let Some(once) = doubtful.certain.remove(&slot)
            && let Some((cnps, _)) = numbers.and_then(|numbers| cnps.get_mut(numbers.cnps))
        {
            *cnps = *once;
        }
        let mut data = numbers.and_then(|numbers| data.get_mut(numbers.data));
        doubtful.in_bins.retain(|packet| {
            if packet.slot != slot {
                return true;
            }
            let own = data
                .as_mut()
                .filter(|_| packet.followed && !packet.cnp)
                .map(|data| data.series.at(packet.time_ns));
            let of_link = link(links, packet.link, packet.time_ns).map(|link| link.at(packet.time_ns));
            for bin in [own, of_link].into_iter().flatten() {
                if packet.cnp {
                    bin.cnp = bin.cnp.saturating_sub(1);
                } else {
                    bin.capable = bin.capable.saturating_sub(1);
                    bin.ce = bin.ce.saturating_sub(u32::from(packet.ce));
                }
            }
            false
        });
    }
}
