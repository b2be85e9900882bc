//! Congestion marks and notifications: CE marks over time, and the loop from a mark through the CNP
//! to the sender that slows down.
//!
//! A flow is followed from its first mark on, or the first CNP for it. Bounded: [`MAX_FLOWS`] flows of
//! data (1.2 KB each) and as many with CNPs (0.9 KB), [`MAX_LINKS`] links (1.6 KB). Flows beyond are
//! counted.

mod cnps;
mod doubtful;
pub mod series;
pub mod speed;

use rocescope_common::wire::opcode::Op;

use super::latency::Summary;
use super::packet::{CE, Packet};
use super::pairing::{NONE, Reverse};
use crate::util::map::Map;
pub(crate) use cnps::Cnps;
use doubtful::DoubtfulMarks;
use series::{Bin, Series};
use speed::{Reaction, Speed};

/// Flows of data that are followed at a time, and flows with CNPs.
pub const MAX_FLOWS: usize = 16_384;
/// Links with a history.
pub const MAX_LINKS: usize = 4_096;
/// Bins of a flow's history.
pub const FLOW_BINS: usize = 64;
/// Bins of a link's history.
pub const LINK_BINS: usize = 128;

/// State of a flow of data.
#[derive(Clone, Debug)]
struct Data {
    series: Series<FLOW_BINS>,
    speed: Speed,
    /// First CE mark since the latest CNP.
    marked_ns: Option<u64>,
    first_ce_ns: Option<u64>,
}

impl Data {
    #[inline]
    fn packet(&mut self, now: u64, bytes: u32, ce: bool) {
        let bin = self.series.at(now);
        bin.capable += 1;
        self.speed.packet(now, bytes);
        if ce {
            self.marked(now);
        }
    }

    #[inline]
    fn marked(&mut self, now: u64) {
        self.series.at(now).ce += 1;
        self.marked_ns.get_or_insert(now);
        self.first_ce_ns.get_or_insert(now);
    }
}

/// Places of a flow in the two pools.
#[derive(Clone, Copy, Debug)]
struct Slot {
    data: u16,
    cnps: u16,
}

/// No place in a pool.
const NO_PLACE: u16 = u16::MAX;
const _: () = assert!(MAX_FLOWS < NO_PLACE as usize);

const FREE: Slot = Slot { data: NO_PLACE, cnps: NO_PLACE };

/// Boxes with numbers that are used again.
#[derive(Debug)]
struct Pool<T> {
    items: Vec<Box<T>>,
    free: Vec<u16>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Pool<T> {
    fn add(&mut self, item: T) -> u16 {
        if let Some(number) = self.free.pop()
            && let Some(place) = self.items.get_mut(usize::from(number))
        {
            **place = item;
            return number;
        }
        if self.items.len() >= MAX_FLOWS {
            return NO_PLACE;
        }
        self.items.push(Box::new(item));
        u16::try_from(self.items.len() - 1).unwrap_or(NO_PLACE)
    }

    fn get(&self, number: u16) -> Option<&T> {
        self.items.get(usize::from(number)).map(Box::as_ref)
    }

    fn get_mut(&mut self, number: u16) -> Option<&mut T> {
        self.items.get_mut(usize::from(number)).map(Box::as_mut)
    }

    fn remove(&mut self, number: u16) {
        if usize::from(number) < self.items.len() {
            self.free.push(number);
        }
    }
}

/// Follows marks and notifications packet by packet.
#[derive(Debug, Default)]
pub struct Collector {
    slots: Vec<Slot>,
    data: Pool<Data>,
    /// With the slot of the flow that the CNPs answer, at the latest CNP.
    cnps: Pool<(Cnps, u32)>,
    links: Vec<Option<Box<Series<LINK_BINS>>>>,
    untracked: u64,
    doubtful: DoubtfulMarks,
}

impl Collector {
    /// Takes in a packet; `reverse` is what is known of the other direction at it.
    #[inline(always)]
    pub fn packet(&mut self, packet: &Packet, reverse: Reverse) {
        let op = Op::of(packet.opcode);
        let ecn = packet.data_ecn();
        if ecn != 0 {
            self.data(packet, ecn == CE);
        } else if op.has(Op::CNP) {
            self.cnp(packet, reverse);
        }
    }

    /// Takes in packets in the middle of a message, alike but for their times, which do not go back, and not marked.
    pub fn train(&mut self, train: &[Packet]) {
        let (Some(first), Some(last)) = (train.first(), train.last()) else { return };
        if first.data_ecn() == 0 {
            return;
        }
        let times = (first.time_ns, last.time_ns);
        match link(&mut self.links, first.link, first.time_ns).map(|link| link.bin_of_all(times)) {
            None => {}
            Some(Some(bin)) => bin.capable += u32::try_from(train.len()).unwrap_or(u32::MAX),
            Some(None) => {
                for packet in train {
                    if let Some(link) = link(&mut self.links, packet.link, packet.time_ns) {
                        link.at(packet.time_ns).capable += 1;
                    }
                }
            }
        }
        let known = self.slots.get(first.slot as usize).map_or(NO_PLACE, |slot| slot.data);
        if known != NO_PLACE
            && let Some(data) = self.data.get_mut(known)
        {
            for packet in train {
                data.packet(packet.time_ns, packet.wire_len, false);
            }
        }
    }

    /// A packet that counts already passed again, marked by now.
    #[cold]
    pub fn marked(&mut self, packet: &Packet) {
        let now = packet.time_ns;
        if let Some(link) = link(&mut self.links, packet.link, now) {
            link.at(now).ce += 1;
        }
        match self.follow(packet.slot, now) {
            Some(data) => data.marked(now),
            None => self.untracked += 1,
        }
    }

    #[inline(always)]
    fn data(&mut self, packet: &Packet, ce: bool) {
        let now = packet.time_ns;
        if let Some(link) = link(&mut self.links, packet.link, now) {
            let bin = link.at(now);
            bin.capable += 1;
            bin.ce += u32::from(ce);
        }
        // Most flows are never marked, and cost no more than this look.
        let known = self.slots.get(packet.slot as usize).map_or(NO_PLACE, |slot| slot.data);
        if known != NO_PLACE {
            if let Some(data) = self.data.get_mut(known) {
                data.packet(now, packet.wire_len, ce);
            }
        } else if ce {
            match self.follow(packet.slot, now) {
                Some(data) => data.packet(now, packet.wire_len, ce),
                None => self.untracked += 1,
            }
        }
    }

    /// Starts to follow a flow of data, unless it is followed already.
    #[cold]
    fn follow(&mut self, slot: u32, now: u64) -> Option<&mut Data> {
        let place = place(&mut self.slots, slot)?;
        if place.data == NO_PLACE {
            place.data = self.data.add(Data {
                series: Series::new(now),
                speed: Speed::new(),
                marked_ns: None,
                first_ce_ns: None,
            });
        }
        self.data.get_mut(place.data)
    }

    #[cold]
    fn cnp(&mut self, packet: &Packet, reverse: Reverse) {
        let now = packet.time_ns;
        if let Some(link) = link(&mut self.links, packet.link, now) {
            link.at(now).cnp += 1;
        }
        // From here on the rate of the data is of interest, marked or not.
        if reverse.slot != NONE {
            self.follow(reverse.slot, now);
        }
        let answered = self.slots.get(reverse.slot as usize).map_or(NO_PLACE, |slot| slot.data);
        let Some(slot) = place(&mut self.slots, packet.slot) else { return };
        if slot.cnps == NO_PLACE {
            slot.cnps = self.cnps.add((Cnps::new(now), NONE));
        }
        let Some((cnps, answers)) = self.cnps.get_mut(slot.cnps) else {
            self.untracked += 1;
            return;
        };
        *answers = reverse.slot;
        let once = self.doubtful.certain(packet.slot);
        let marked_ns = self.data.get_mut(answered).map(|data| {
            data.speed.notified(now);
            data.marked_ns.take()
        });
        for cnps in [Some(cnps), once].into_iter().flatten() {
            cnps.add(now);
            match marked_ns.map(|marked| marked.map(|marked| now.checked_sub(marked))) {
                Some(None) => cnps.without_mark(),
                Some(Some(Some(delay))) => cnps.after_mark(delay),
                // Its data is not there, or the clock stepped backwards.
                None | Some(Some(None)) => {}
            }
        }
    }

    /// The flow of a slot was retired.
    pub fn retired(&mut self, slot: u32) {
        let Some(place) = self.slots.get_mut(slot as usize) else { return };
        let gone = std::mem::replace(place, FREE);
        self.data.remove(gone.data);
        self.cnps.remove(gone.cnps);
        self.doubtful.retired(slot);
    }

    /// The figures so far.
    pub fn metrics(&self) -> Metrics {
        let mut metrics = Metrics { untracked: self.untracked, ..Metrics::default() };
        for (number, slot) in (0u32..).zip(&self.slots) {
            if let Some(data) = self.data.get(slot.data)
                && let Some(first_ce_ns) = data.first_ce_ns
            {
                let series = OverTime::of(data.series.bins());
                metrics.marks.insert(number, Marks { first_ce_ns, series });
            }
            if let Some((cnps, answers)) = self.cnps.get(slot.cnps) {
                let answered = self.slots.get(*answers as usize).map_or(NO_PLACE, |slot| slot.data);
                let answered = self.data.get(answered);
                let mut figure = cnps.figure();
                figure.answers = (*answers != NONE).then_some(*answers);
                figure.without_mark = figure.without_mark.filter(|_| answered.is_some());
                figure.reaction = answered.and_then(|data| data.speed.reaction());
                metrics.cnps.insert(number, figure);
            }
        }
        let links = self.links.iter().map(|link| link.as_ref().map(|link| OverTime::of(link.bins())));
        metrics.links = links.map(|link| link.filter(OverTime::any_mark)).collect();
        metrics
    }
}

fn place(slots: &mut Vec<Slot>, slot: u32) -> Option<&mut Slot> {
    let at = slot as usize;
    if slots.len() <= at {
        slots.resize(at + 1, FREE);
    }
    slots.get_mut(at)
}

#[inline]
fn link(
    links: &mut Vec<Option<Box<Series<LINK_BINS>>>>,
    link: u16,
    now: u64,
) -> Option<&mut Series<LINK_BINS>> {
    let at = usize::from(link);
    if at >= MAX_LINKS {
        return None;
    }
    if links.len() <= at {
        links.resize(at + 1, None);
    }
    Some(links.get_mut(at)?.get_or_insert_with(|| Box::new(Series::new(now))))
}

/// A history, as it is reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverTime {
    /// Start of the first bin, Unix nanoseconds.
    pub start_ns: u64,
    /// Length of each bin, ns.
    pub bin_ns: u64,
    /// Counts, up to the last bin in use.
    pub bins: Vec<Bin>,
}

impl OverTime {
    pub(crate) fn of((start_ns, bin_ns, bins): (u64, u64, &[Bin])) -> Self {
        Self { start_ns, bin_ns, bins: bins.to_vec() }
    }

    pub(crate) fn any_mark(&self) -> bool {
        self.bins.iter().any(|bin| bin.ce + bin.cnp > 0)
    }
}

/// CE marks of one flow of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Time of the first CE mark, Unix nanoseconds.
    pub first_ce_ns: u64,
    /// Data and marks over time.
    pub series: OverTime,
}

/// The CNPs in one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CnpFigure {
    /// Slot of the flow of data that they answer.
    pub answers: Option<u32>,
    /// Number of CNPs.
    pub count: u64,
    /// Time of the first CNP, Unix nanoseconds.
    pub first_ns: u64,
    /// Time of the last CNP, Unix nanoseconds.
    pub last_ns: u64,
    /// Least time between two.
    pub min_gap_ns: Option<u64>,
    /// From the first CE mark since the CNP before to the CNP.
    pub delay: Option<Summary>,
    /// CNPs without a mark since the one before; `None` when the data's flow is not followed.
    pub without_mark: Option<u64>,
    /// The sender's rate before and after.
    pub reaction: Option<Reaction>,
}

/// Marks and notifications so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Flows with CE marks, by slot.
    pub marks: Map<u32, Marks>,
    /// Flows with CNPs, by slot.
    pub cnps: Map<u32, CnpFigure>,
    /// By link, where there was a mark or a CNP.
    pub links: Vec<Option<OverTime>>,
    /// Packets of flows beyond what is followed.
    pub untracked: u64,
}
