//! One flow at several taps: which of its packets passed where.

use super::MAX_WAITING;
use super::common::{COPY, Common, Ends, Entry, FREE, TWIN};
use super::header::{Body, Headers, MAX_TAPS};
use crate::metrics::loss::DUPLICATE_NS;
use crate::util::definition::definitions;
use rocescope_common::random::GOLDEN;

/// Packets that wait for being seen elsewhere, per flow: at first and at most.
const FIRST_PLACES: usize = 256;
const MAX_PLACES: usize = MAX_WAITING / 2;
/// Places looked at for a packet; and where there are as many as a flow can have, which may be nearly full.
const PROBES: usize = 16;
const MOST_PROBES: usize = 64;
/// Packets that all taps saw, remembered to know duplicates of them.
const RECENT: usize = 128;
/// The bits of a packet's identity that are its IPv4 identification.
const NUMBER: u64 = 0xFFFF;
/// Packets of a flow that wait although all taps known so far have seen them: one further down, whose clock may be
/// behind, has yet to show its first. Fewer where half of the places that flows share are taken, and where it is not
/// known that there is one.
const FIRST: u32 = 16_384;
const FIRST_CROWDED: u32 = 1_024;
const FIRST_UNKNOWN: u32 = 32;

definitions! {
    PATIENCE: u32 = 8_192,
        "Maximum packets by which one may be late at the second tap before it counts as lost",
        "Those of 32 MB in packets of 4,096 bytes: the buffers of a path hold less";
    ON_ITS_WAY_NS: u64 = 10_000_000,
        "Time before the latest packet that both taps saw, in nanoseconds: one that passed the first tap later than that is not lost yet",
        "It may still be on its way, held back by a pause";
}

/// A packet as it passes a tap.
#[derive(Clone, Copy, Debug)]
pub(super) struct TapPacket {
    /// PSN, opcode and IPv4 identification.
    pub(super) id: u64,
    pub(super) time_ns: u64,
    pub(super) body: Body,
    /// Number of its header.
    pub(super) header: u8,
    /// [`COPY`], [`TWIN`] or 0.
    copy: u8,
}

impl TapPacket {
    pub(super) const fn new(id: u64, time_ns: u64, body: Body, header: u8) -> Self {
        Self { id, time_ns, body, header, copy: 0 }
    }
}

/// A flow at several taps.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Links, in the order in which they saw the flow.
    pub(super) links: Vec<u16>,
    /// Time to live at each.
    pub(super) hops: Vec<u8>,
    pub(super) headers: Headers,
    /// Packets at each tap.
    counts: [u32; MAX_TAPS],
    entries: Vec<Entry>,
    /// Places in use.
    pub(super) used: usize,
    /// More packets had to wait than a flow has room for.
    pub(super) overflowed: bool,
    /// Number of the latest packet at each tap that left although taps were still to come; and the same when the third
    /// tap and those after it came.
    released: [u32; MAX_TAPS],
    unknown: Vec<[u32; MAX_TAPS]>,
    /// Packets to insert before all places are looked at again: where none of those that wait can be decided, as after
    /// the end of one capture, looking at each packet would take time that grows with their square.
    until_look: usize,
    #[cfg(test)]
    pub(super) looks: usize,
    /// Packets that were seen everywhere lately.
    recent: Vec<u64>,
    /// The latest packet at each tap, and when it passed.
    latest: [(u64, u64); MAX_TAPS],
    /// Number of times that packets that followed one another had different IPv4 identifications, and the same one:
    /// where they differ, retransmissions are distinguished from duplicates by a mirror or the network.
    numbers: [u32; 2],
    /// Duplicates at each tap.
    duplicates: [u64; MAX_TAPS],
    pub(super) common: Vec<Common>,
    pub(super) first_ns: u64,
    /// Packets that had to be forgotten before it was known whether they passed elsewhere.
    pub(super) forgotten: u64,
}

/// Place of a packet among `places`, a power of two. Consecutive PSNs, or PSNs and identifications, are as far
/// apart as they can be (multiples of the golden ratio), so that several duplicates of each fit between them.
fn spread(id: u64, places: usize) -> usize {
    let psn = (id >> 32).wrapping_mul(GOLDEN);
    let number = (id & NUMBER).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    (psn.wrapping_add(number) >> (places.leading_zeros() + 1)) as usize
}

/// The places of a packet among `places`, the first of them its own.
fn places_of(id: u64, places: usize) -> impl Iterator<Item = usize> + Clone {
    let start = spread(id, places);
    let probes = if places < MAX_PLACES { PROBES } else { MOST_PROBES };
    (start..start + probes).map(move |at| at & (places - 1))
}

/// Its place among those that all taps saw: consecutive PSNs have one each.
fn recent(id: u64) -> usize {
    (id.wrapping_mul(GOLDEN) >> 32) as usize % RECENT
}

/// Room for packets that wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingRoom {
    /// Places that may be added.
    places: usize,
    /// Packets of a flow that wait for a further tap.
    first: u32,
    /// That tap has not shown any packet of any flow yet.
    awaited: bool,
}

impl WaitingRoom {
    /// `awaited`: a tap has not shown any packet of any flow yet, so that its clock is behind by as much, or it has
    /// seen none of the flows; the latter where this one needed more places than a flow can have (`overflowed`).
    pub(super) const fn new(places: usize, awaited: bool, overflowed: bool) -> Self {
        let first = match (places > MAX_WAITING / 2, places > MAX_WAITING / 4) {
            (_, true) if awaited && overflowed => FIRST,
            (_, true) if awaited => u32::MAX,
            (true, _) => FIRST,
            _ => FIRST_CROWDED,
        };
        Self { places, first, awaited }
    }
}

impl Group {
    /// A flow that was first seen at this time.
    pub(super) fn new(first_ns: u64) -> Self {
        Self { first_ns, ..Self::default() }
    }

    /// The number of a link among the taps of the flow; `None` when there are too many.
    pub(super) fn tap(&mut self, link: u16, hops: u8) -> Option<u8> {
        let at = match self.links.iter().position(|other| *other == link) {
            Some(at) => at,
            None if self.links.len() < MAX_TAPS => {
                if self.links.len() >= 2 {
                    self.unknown.push(self.released);
                }
                self.links.push(link);
                self.hops.push(hops);
                self.links.len() - 1
            }
            None => return None,
        };
        u8::try_from(at).ok()
    }

    /// Places taken in memory.
    pub(super) fn places(&self) -> usize {
        self.entries.len()
    }

    /// Gives the memory back; what waits is forgotten.
    pub(super) fn clear(&mut self) {
        self.forgotten += self.used as u64;
        self.entries = Vec::new();
        self.used = 0;
        self.until_look = 0;
    }

    /// A packet passed a tap. `taps`: how many there are, as far as that is known.
    pub(super) fn packet(&mut self, tap: usize, taps: usize, arrived: &TapPacket, room: WaitingRoom) {
        let &TapPacket { id, time_ns, .. } = arrived;
        let Some(count) = self.counts.get_mut(tap) else { return };
        *count = count.wrapping_add(1);
        let place = *count;
        let (last, last_ns) = std::mem::replace(&mut self.latest[tap], (id, time_ns));
        let numbered = self.is_numbered(last, id);
        let again = id == last && time_ns.abs_diff(last_ns) < DUPLICATE_NS;
        if again && numbered {
            return self.count_duplicate(tap);
        }
        if self.entries.is_empty() {
            if room.places < FIRST_PLACES {
                return;
            }
            self.entries = vec![FREE; FIRST_PLACES];
        }
        let places = self.entries.len();
        let (mut free, mut twin) = (None, 0);
        for at in places_of(id, places) {
            let Some(entry) = self.entries.get_mut(at) else { continue };
            if entry.id == id && entry.taps & 1 << tap != 0 {
                if numbered {
                    return self.count_duplicate(tap);
                }
                if !again {
                    twin = TWIN;
                    entry.taps |= TWIN;
                }
            } else if entry.id == id {
                let at = if entry.taps & TWIN == 0 { at } else { self.nearest(at, tap, arrived) };
                return self.seen_elsewhere(at, tap, arrived, (place, again, taps, room));
            }
            if entry.id == 0 && free.is_none() {
                free = Some(at);
            }
        }
        if numbered && self.recent.get(recent(id)) == Some(&id) {
            return self.count_duplicate(tap);
        }
        if again {
            self.count_duplicate(tap);
        }
        let copy = if again { COPY } else { twin };
        let arrived = &TapPacket { copy, ..*arrived };
        let full = free.is_none() || self.used * 2 > places;
        if full && self.until_look == 0 {
            self.make_room(room);
            return self.insert(tap, arrived, place);
        }
        self.until_look = self.until_look.saturating_sub(1);
        self.insert_at(free, tap, arrived, place);
    }

    /// Of packets with one identity that wait for this one, the place of that whose delay is nearest to the delay of
    /// the packet before: the others are lost, or still to come. `found`: the place of one of them.
    fn nearest(&self, found: usize, tap: usize, arrived: &TapPacket) -> usize {
        let off = |at: usize| {
            let entry = self.entries.get(at).filter(|entry| entry.id == arrived.id)?;
            let other = entry.taps.trailing_zeros() as usize;
            let (first, second) = (tap.min(other), tap.max(other));
            let common = self.common.iter().find(|one| (one.first, one.second) == (first, second))?;
            let waiting_ns = *entry.time_ns.get(other)?;
            let difference = arrived.time_ns.wrapping_sub(waiting_ns).cast_signed();
            let difference = if tap == second { difference } else { difference.saturating_neg() };
            let is_free = entry.taps & (COPY | 1 << tap) == 0;
            is_free.then_some((difference.abs_diff(common.difference), at))
        };
        let around = places_of(arrived.id, self.entries.len());
        around.filter_map(off).min().map_or(found, |(_, at)| at)
    }

    /// A packet passed a tap that waits in a place for it; `again`: right behind another that nothing distinguishes
    /// from it.
    fn seen_elsewhere(
        &mut self,
        at: usize,
        tap: usize,
        arrived: &TapPacket,
        (place, again, taps, room): (u32, bool, usize, WaitingRoom),
    ) {
        let Some(entry) = self.entries.get_mut(at) else { return };
        if entry.taps & COPY != 0 {
            if again {
                // Both saw it twice in a row.
                *entry = FREE;
                self.used -= 1;
                return self.count_duplicate(tap);
            }
            let first = entry.taps.trailing_zeros() as usize;
            if let Some(duplicates) = self.duplicates.get_mut(first) {
                *duplicates = duplicates.saturating_sub(1);
            }
            entry.taps &= !COPY;
        }
        entry.taps |= 1 << tap;
        entry.time_ns[tap] = arrived.time_ns;
        entry.place[tap] = place;
        entry.headers[tap] = arrived.header;
        let before = std::mem::replace(&mut entry.body, arrived.body);
        let seen = *entry;
        let known = self.links.len();
        let to_come = known < taps.min(MAX_TAPS);
        let one_more = to_come && place <= room.first || known < MAX_TAPS && place <= FIRST_UNKNOWN;
        if seen.is_at(known) && !one_more {
            *entry = FREE;
            self.used -= 1;
            self.recent.resize(RECENT, 0);
            self.recent[recent(seen.id)] = seen.id;
            if to_come {
                self.release(&seen);
            }
        }
        self.matched(tap, &seen, before);
    }

    /// The links of the two taps.
    pub(super) fn links_of(&self, common: &Common) -> Option<[u16; 2]> {
        Some([*self.links.get(common.first)?, *self.links.get(common.second)?])
    }

    /// True if packets of the flow have IPv4 identifications of their own; `last` and `id` followed one another.
    fn is_numbered(&mut self, last: u64, id: u64) -> bool {
        if last != 0 && last >> 16 != id >> 16 {
            let alike = usize::from(last & NUMBER == id & NUMBER);
            self.numbers[alike] = self.numbers[alike].saturating_add(1);
        }
        id & NUMBER != 0 && self.numbers[1] <= self.numbers[0]
    }

    /// A packet passed a tap that it had passed already.
    fn count_duplicate(&mut self, tap: usize) {
        if let Some(duplicates) = self.duplicates.get_mut(tap) {
            *duplicates += 1;
        }
    }

    fn insert(&mut self, tap: usize, arrived: &TapPacket, place: u32) {
        let mut around = places_of(arrived.id, self.entries.len());
        let free = around.find(|at| self.entries.get(*at).is_some_and(|entry| entry.id == 0));
        self.insert_at(free, tap, arrived, place);
    }

    fn insert_at(&mut self, free: Option<usize>, tap: usize, arrived: &TapPacket, place: u32) {
        let &TapPacket { id, time_ns, body, header, copy } = arrived;
        let at = free.unwrap_or_else(|| spread(id, self.entries.len()));
        let Some(entry) = self.entries.get_mut(at) else { return };
        let gone = *entry;
        *entry = Entry { id, taps: 1 << tap | copy, body, ..FREE };
        entry.headers[tap] = header;
        entry.time_ns[tap] = time_ns;
        entry.place[tap] = place;
        if gone.id == 0 {
            self.used += 1;
        } else {
            self.release(&gone);
            self.settle(&gone);
        }
    }

    /// A packet leaves that further taps have yet to show.
    fn release(&mut self, entry: &Entry) {
        for tap in (0..MAX_TAPS).filter(|tap| entry.taps & 1 << tap != 0) {
            self.released[tap] = self.released[tap].max(entry.place[tap]);
        }
    }

    /// Decides on packets that have waited for long, and takes more memory where that is too little.
    fn make_room(&mut self, room: WaitingRoom) {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        let mut entries = std::mem::take(&mut self.entries);
        self.overflowed |= entries.len() >= MAX_PLACES && self.used * 5 > MAX_PLACES * 4;
        let first = if self.overflowed { room.first.min(FIRST) } else { room.first };
        let room = WaitingRoom { first, ..room };
        for entry in &mut entries {
            if entry.id != 0 && self.is_over(entry, room) {
                let gone = std::mem::replace(entry, FREE);
                self.used -= 1;
                if room.awaited || gone.is_at(self.links.len()) {
                    self.release(&gone);
                }
                self.settle(&gone);
            }
        }
        let places = entries.len();
        if self.used * 4 > places && places < MAX_PLACES && places <= room.places {
            self.entries = vec![FREE; places * 2];
            self.used = 0;
            for entry in entries.into_iter().filter(|entry| entry.id != 0) {
                let mut around = places_of(entry.id, places * 2);
                let free = around.find(|at| self.entries.get(*at).is_some_and(|place| place.id == 0));
                match free.and_then(|at| self.entries.get_mut(at)) {
                    Some(place) => {
                        *place = entry;
                        self.used += 1;
                    }
                    None => self.settle(&entry),
                }
            }
        } else {
            self.entries = entries;
            self.until_look = places / 8;
        }
    }

    /// True if all taps that a packet could still come by are long past it.
    fn is_over(&self, entry: &Entry, room: WaitingRoom) -> bool {
        let is_at_all = entry.is_at(self.links.len().max(2));
        if is_at_all || room.awaited {
            let place = entry.place.iter().max().copied().unwrap_or_default();
            let waited = self.counts.iter().any(|count| count.saturating_sub(place) > room.first);
            if is_at_all || !waited {
                // It only waits for a tap that may come.
                return waited;
            }
        }
        let mut of = self.common.iter().filter(|common| common.one_of(entry.taps).is_some()).peekable();
        of.peek().is_some()
            && of.all(|common| {
                let (side, tap) = common.one_of(entry.taps).unwrap_or_default();
                let (_, last) = common.span[side];
                last > entry.place[tap] && last - entry.place[tap] > PATIENCE
            })
    }

    /// A packet leaves without having been seen everywhere.
    fn settle(&mut self, entry: &Entry) {
        let mut known = entry.is_at(self.links.len());
        for common in &mut self.common {
            known |= common.count(entry);
            common.keep_early(entry);
        }
        self.forgotten += u64::from(!known);
    }

    /// `before`: as the tap saw it that saw it before.
    fn matched(&mut self, tap: usize, entry: &Entry, before: Body) {
        for other in (0..self.links.len()).filter(|other| *other != tap && entry.taps & 1 << other != 0) {
            let (first, second) = (tap.min(other), tap.max(other));
            let difference = entry.time_ns[second].wrapping_sub(entry.time_ns[first]).cast_signed();
            let places = [entry.place[first], entry.place[second]];
            let known = self.common.iter().position(|one| (one.first, one.second) == (first, second));
            let at = known.unwrap_or_else(|| {
                self.common.push(Common::new((first, second), entry.time_ns[first], difference));
                self.common.len() - 1
            });
            // Taps are numbered as they come: the first two wait for one another.
            let unknown = second.checked_sub(2).and_then(|at| self.unknown.get(at));
            let released = unknown.map_or(0, |released| released[first]);
            let common = &mut self.common[at];
            common.matched += 1;
            common.compare(entry, tap, before);
            common.extend(places, released);
            if known.is_some() {
                common.delay.add(entry.time_ns[first], difference);
            }
            common.difference = difference;
        }
    }

    /// Common packets of each two taps, with the packets that still wait counted as if nothing more came. `ends`: of
    /// the packets between the same hosts that both saw.
    pub(super) fn metrics(&self, ends: impl Fn(&Common) -> Ends) -> Vec<Common> {
        let mut all = self.common.clone();
        for common in &mut all {
            common.forget_large();
            common.duplicates =
                [common.first, common.second].map(|tap| self.duplicates.get(tap).copied().unwrap_or(0));
        }
        for entry in self.entries.iter().filter(|entry| entry.id != 0) {
            for common in &mut all {
                if !common.count(entry) {
                    let ends = ends(common);
                    common.count_begin(entry, ends.first_ns);
                    common.count_end(entry, ends.last_ns.map(|ns| ns.saturating_sub(ON_ITS_WAY_NS)));
                }
            }
        }
        for common in &mut all {
            let ends = ends(common);
            for entry in std::mem::take(&mut common.early) {
                common.count_begin(&entry, ends.first_ns);
            }
        }
        all
    }
}
