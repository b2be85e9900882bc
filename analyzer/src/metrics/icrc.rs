//! Check of the invariant CRC (ICRC) of whole frames.
//!
//! 24 bytes per flow up to the last with a computed ICRC, and 40 more of one with a wrong ICRC: of truncated frames
//! nothing is kept. The CRC runs over everything from the IP header on, with a
//! carry-less multiply where the processor has one.

use crc32fast::Hasher;
use rocescope_common::wire::Frame;
use rocescope_common::wire::bth;
use rocescope_common::wire::frame::{FAMILY_LID, UNKNOWN};

use super::packet::Packet;
use super::timeline::{self, LinkPoints, SignalKind};
use crate::util::boxed_unless_zero::{BoxedUnlessZero, Zero};

/// Result of checking the ICRC of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The ICRC that its contents need.
    pub needed: u32,
    /// It has that one.
    pub right: bool,
}

/// Packets by what their ICRC says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Packets whose ICRC was computed.
    pub checked: u64,
    /// Those in which it was wrong.
    pub wrong: BoxedUnlessZero<IcrcErrors>,
    /// Packets of which it cannot be computed: cut, fragments, lengths that contradict each other.
    pub unchecked: u64,
}

/// Packets whose ICRC is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcrcErrors {
    /// Number of packets with a wrong ICRC.
    pub packets: u64,
    /// First and last of these, Unix nanoseconds; 0 for none.
    pub at_ns: (u64, u64),
}

impl Zero for IcrcErrors {
    const ZERO: &'static Self = &Self { packets: 0, at_ns: (0, 0) };
}

impl Checked {
    /// Adds the packets of another flow.
    pub fn add(&mut self, other: &Self) {
        self.checked += other.checked;
        self.unchecked += other.unchecked;
        add_wrong(&mut self.wrong, &other.wrong);
    }
}

fn add_wrong(sum: &mut BoxedUnlessZero<IcrcErrors>, other: &IcrcErrors) {
    if other.packets == 0 {
        return;
    }
    let ((first, last), (other_first, other_last)) = (sum.at_ns, other.at_ns);
    let first = if sum.packets > 0 { first.min(other_first) } else { other_first };
    sum.at_ns = (first, last.max(other_last));
    sum.packets += other.packets;
}

/// Packets whose ICRC was computed. All others of a flow are unchecked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Computed {
    packets: u64,
    wrong: BoxedUnlessZero<IcrcErrors>,
}

impl Computed {
    /// The same among this number of packets.
    fn among(&self, packets: u64) -> Checked {
        let unchecked = packets.saturating_sub(self.packets);
        Checked { checked: self.packets, wrong: self.wrong.clone(), unchecked }
    }
}

/// Results of the ICRC check of all flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Icrc {
    /// Results of flows, by slot; flows at the end without any are left out.
    flows: Vec<Computed>,
    /// Of retired flows, by link.
    retired: Vec<Computed>,
    /// Packets with a wrong ICRC over time, by link.
    wrong: Vec<LinkPoints>,
}

/// Collector of ICRC checks.
#[derive(Debug)]
pub struct Collector {
    slots: Vec<(u16, Computed)>,
    retired: Vec<Computed>,
    wrong: timeline::Recorder,
}

impl Collector {
    /// Nothing checked yet; the timeline in bins of this length.
    pub fn new(bin_ns: u64) -> Self {
        Self { slots: Vec::new(), retired: Vec::new(), wrong: timeline::Recorder::new(bin_ns) }
    }

    /// Takes in one packet, whose headers are `frame` and whose captured bytes are `data`. Returns what its ICRC says,
    /// where that can be computed; a packet that a switch `trimmed` has none.
    #[inline]
    pub fn packet(&mut self, packet: &Packet, frame: &Frame, data: &[u8], trimmed: bool) -> Option<Contents> {
        let contents = if trimmed { None } else { contents(data, frame) }?;
        let at = packet.slot as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, Default::default);
        }
        let (link, computed) = self.slots.get_mut(at)?;
        // A slot that was retired has counted nothing.
        *link = packet.link;
        computed.packets += 1;
        if !contents.right {
            let wrong = IcrcErrors { packets: 1, at_ns: (packet.time_ns, packet.time_ns) };
            add_wrong(&mut computed.wrong, &wrong);
            self.wrong.note(packet.link, SignalKind::WrongIcrc, packet.time_ns, 1);
        }
        Some(contents)
    }

    /// Takes in one packet of a slot that has had others, of a single tap. A truncated one has nothing to check.
    #[inline]
    pub fn next(&mut self, packet: &Packet, frame: &Frame, data: &[u8]) {
        if (frame.icrc_offset as usize) < data.len() {
            self.check(packet, frame, data);
        }
    }

    #[inline(never)]
    fn check(&mut self, packet: &Packet, frame: &Frame, data: &[u8]) {
        self.packet(packet, frame, data, false);
    }

    /// The flow of a slot was retired.
    pub fn retired(&mut self, slot: u32) {
        let Some((link, computed)) = self.slots.get_mut(slot as usize) else { return };
        let at = usize::from(*link);
        if self.retired.len() <= at {
            self.retired.resize_with(at + 1, Computed::default);
        }
        let gone = std::mem::take(computed);
        if let Some(sum) = self.retired.get_mut(at) {
            sum.packets += gone.packets;
            add_wrong(&mut sum.wrong, &gone.wrong);
        }
    }

    /// Checked and wrong ICRCs of all packets so far.
    pub fn metrics(&self) -> Icrc {
        Icrc {
            flows: self.slots.iter().map(|(_, computed)| computed.clone()).collect(),
            retired: self.retired.clone(),
            wrong: self.wrong.links(),
        }
    }

    /// All that is known, in the collector's own memory.
    pub fn finish(self) -> Icrc {
        let mut flows: Vec<Computed> = self.slots.into_iter().map(|(_, computed)| computed).collect();
        // Collected in place: what is smaller leaves room.
        flows.shrink_to_fit();
        Icrc { flows, retired: self.retired, wrong: self.wrong.links() }
    }
}

impl Icrc {
    /// Moves the times of wrong packets to the timeline of all signals.
    pub fn add_to(&mut self, timeline: &mut Vec<LinkPoints>) {
        timeline::add_to(timeline, std::mem::take(&mut self.wrong).into_iter());
    }

    /// Packets with a wrong ICRC of the flow in a slot.
    pub fn wrong(&self, slot: u32) -> u64 {
        self.flows.get(slot as usize).map_or(0, |flow| flow.wrong.packets)
    }

    /// The flow in a slot, of which this number of packets was counted.
    pub fn flow(&self, slot: u32, packets: u64) -> Checked {
        self.flows
            .get(slot as usize)
            .map_or_else(|| Computed::default().among(packets), |one| one.among(packets))
    }

    /// The retired flows of a link, of which this number of packets was counted.
    pub fn retired(&self, link: u16, packets: u64) -> Checked {
        let computed = self.retired.get(usize::from(link)).cloned();
        computed.unwrap_or_default().among(packets)
    }

    /// Gives back what is known of single flows.
    pub fn forget_flows(&mut self) {
        self.flows = Vec::new();
    }
}

/// The longest IP header with UDP, or GRH, that is looked at.
const MAX_NETWORK: usize = 128;
/// Length of a LRH. Ones stand for it where another header follows it, and for RoCE, which has none.
const LRH_LEN: usize = 8;

/// Checks the ICRC of a packet; `None` when it cannot be computed.
///
/// The same rule as [`rocescope_common::wire::icrc::check`], faster.
#[inline]
pub fn contents(data: &[u8], frame: &Frame) -> Option<Contents> {
    if frame.icrc_offset == UNKNOWN {
        return None;
    }
    let (ip, at, end) = (frame.ip_offset as usize, frame.bth_offset as usize, frame.icrc_offset as usize);
    let stored = u32::from_le_bytes(data.get(end..end.checked_add(4)?)?.try_into().ok()?);
    // Variant fields are replaced by ones, in a copy of the headers.
    let mut copy = [0xFF; LRH_LEN + MAX_NETWORK + bth::LEN];
    let local = frame.family == FAMILY_LID;
    let (ones, least) = if local { (0, LRH_LEN) } else { (LRH_LEN, 28) };
    let network_len = at.checked_sub(ip).filter(|len| (least..=MAX_NETWORK).contains(len))?;
    let head = copy.get_mut(..ones + network_len + bth::LEN)?;
    let (network, transport) = head.get_mut(ones..)?.split_at_mut_checked(network_len)?;
    network.copy_from_slice(data.get(ip..at)?);
    transport.copy_from_slice(data.get(at..at.checked_add(bth::LEN)?)?);
    if frame.family == 4 {
        network[1] = 0xFF;
        network[8] = 0xFF;
        network[10..12].fill(0xFF);
    } else if local {
        // The virtual lane.
        network[0] |= 0xF0;
    } else {
        // Traffic class and flow label, not the version.
        network[0] |= 0x0F;
        network[1..4].fill(0xFF);
        network[7] = 0xFF;
    }
    if frame.roce_version == 2 {
        network[network_len - 2..].fill(0xFF);
    }
    transport[4] = 0xFF;
    let mut hasher = Hasher::new();
    hasher.update(head);
    hasher.update(data.get(at + bth::LEN..end)?);
    let needed = hasher.finalize();
    Some(Contents { needed, right: needed == stored })
}

#[cfg(test)]
mod tests {
    use rocescope_common::wire::frame::{Entry, Full, Meta, Tag};
    use rocescope_common::wire::{icrc, parse};

    use super::contents;
    use crate::source::capture::Reader;

    /// Against the plain computation, over real frames, some of which are damaged, whole and cut
    /// anywhere.
    #[test]
    fn it_is_the_rule_of_the_wire() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/e5_corrupt_full.h1.pcap");
        let file = std::fs::File::open(path).unwrap();
        let mut reader = Reader::from_read(path, Box::new(file)).unwrap();
        let (mut right, mut wrong) = (0, 0);
        while let Some(record) = reader.next().unwrap() {
            let meta = Meta { entry: Entry::ETHERNET, offset: 0, wire_len: record.wire_len, tag: Tag::NONE };
            let Ok(frame) = parse::<Full>(&record.data, meta, &mut ()) else { continue };
            let check = |data| contents(data, &frame).map(|contents| contents.right);
            let here = check(record.data);
            assert_eq!(here, icrc::check(record.data, &frame));
            match here {
                Some(true) => right += 1,
                Some(false) => wrong += 1,
                None => {}
            }
            for len in [0, 20, 40, 54, record.data.len() - 1] {
                assert_eq!(check(record.data.get(..len).unwrap_or_default()), None);
            }
        }
        // The first 71 frames of the capture; the queue that damaged packets hit three of them.
        assert_eq!((right, wrong), (68, 3));
    }
}
