//! The flow table in user space, which corresponds to the maps of the kernel.
//!
//! A flow has a slot, as in the kernel; slots of retired flows are reused. All sizes are bounded, and packets without
//! room are counted. No allocation per packet.

use hashbrown::HashTable;
use rocescope_common::abi::maps::{ExtraKind, dscp_value};
use rocescope_common::abi::{Counter, ExtraKey};
use rocescope_common::account::{FlowKey, Outcome, observe, observe_next};
use rocescope_common::wire::{Frame, SkipReason};
use std::hash::{BuildHasher as _, Hasher as _};

use crate::metrics::marking::ByDscp;
use crate::sample::marking;
use crate::sample::{
    Direction, Extra, FlowSample, Flows, LinkSample, MissedCounts, MissedTimes, RetiredTuple, Stats,
};
use crate::source::flows::retire::RetiredTuples;
use crate::util::map::{Map, State};

/// Maximum number of entries in the overflow table, as in the kernel.
pub const MAX_EXTRA: usize = 65_536;
/// Maximum number of links in a table.
pub const MAX_LINKS: usize = u16::MAX as usize + 1;

/// Entries of the cache of recent flows, which are found without the index; initial and maximum, powers of two. Two
/// flows that share an entry cost an index lookup whenever they alternate; there are enough entries to make that
/// rare. Unused entries take no space in the CPU's caches.
const RECENT: usize = 2048;
const MAX_RECENT: usize = 1 << 18;

/// A packet that was counted.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The slot of its flow.
    pub slot: u32,
    /// The flow's counters, the packet included.
    pub stats: &'a Stats,
    /// The outcome of counting it.
    pub outcome: Outcome,
}

/// Flows, links and overflow entries, updated frame by frame.
#[derive(Debug)]
pub struct FlowTable {
    max_flows: usize,
    index: HashTable<u32>,
    hasher: State,
    /// Each is its own number. `packets == 0` marks one that is not in use.
    slots: Vec<FlowSample>,
    free: Vec<u32>,
    /// Flows so far, and the number of each slot's flow among them; none while no slot was used twice, and flows are in
    /// the order of their slots.
    born: u64,
    order: Vec<u64>,
    /// Slots of recent flows; their number is a power of two.
    recent: Vec<u32>,
    extra: ExtraTable,
    links: Vec<LinkSample>,
    retired: RetiredTuples,
    missed: MissedTimes,
}

impl FlowTable {
    /// A table for up to `max_flows` flows at a time. Memory grows with the actual number of flows.
    pub fn new(max_flows: usize) -> Self {
        Self::with_limits(max_flows, MAX_EXTRA, crate::source::flows::retire::MAX_TUPLES)
    }

    /// A table that also limits the overflow table and the 5-tuples of retired flows.
    pub fn with_limits(max_flows: usize, max_extra: usize, max_tuples: usize) -> Self {
        Self {
            max_flows: max_flows.min(u32::MAX as usize - 1),
            index: HashTable::new(),
            hasher: State::default(),
            slots: Vec::new(),
            free: Vec::new(),
            born: 0,
            order: Vec::new(),
            recent: vec![u32::MAX; RECENT],
            extra: ExtraTable::new(max_extra),
            links: Vec::new(),
            retired: RetiredTuples::with_max(max_tuples),
            missed: MissedTimes::default(),
        }
    }

    /// Adds a link and returns its index; `None` if there are [`MAX_LINKS`] already.
    pub fn add_link(&mut self, name: String, direction: Option<Direction>) -> Option<u16> {
        let index = u16::try_from(self.links.len()).ok()?;
        self.links.push(LinkSample { name, direction, ..LinkSample::default() });
        Some(index)
    }

    /// Renames link number `link`.
    pub fn rename_link(&mut self, link: u16, name: String) {
        if let Some(link) = self.links.get_mut(usize::from(link)) {
            link.name = name;
        }
    }

    /// The links, by index.
    pub fn links(&self) -> &[LinkSample] {
        &self.links
    }

    /// The times at which packets found a table full.
    pub const fn missed(&self) -> &MissedTimes {
        &self.missed
    }

    /// Counts a frame that is not RoCE or is excluded.
    #[inline]
    pub fn skip(&mut self, link: u16, reason: SkipReason, wire_len: u32) {
        if let Some(link) = self.links.get_mut(usize::from(link)) {
            link.skipped[reason as usize].add(wire_len);
        }
    }

    /// Counts a RoCE packet at `now_ns` and returns its flow and the outcome. `None`: the table is full, and the packet
    /// is counted as such.
    ///
    /// `link` must come from [`Self::add_link`].
    #[inline]
    pub fn observe(&mut self, link: u16, frame: &Frame, now_ns: u64) -> Option<Observed<'_>> {
        let mut number = *self.recent.get(recent_index(frame, link, self.recent.len()))?;
        let known = |slot: &FlowSample| is_of(&slot.key, frame, link);
        if !self.slots.get(number as usize).is_some_and(known) {
            number = self.find_or_add(&FlowKey::of(frame, link), (frame.wire_len, now_ns))?;
            let recent = recent_index(frame, link, self.recent.len());
            *self.recent.get_mut(recent)? = number;
        }
        let FlowSample { stats, .. } = self.slots.get_mut(number as usize)?;
        let outcome = observe(stats, frame, now_ns);
        if outcome.other_port || outcome.other_opcode || outcome.other_dscp {
            let full = !self.extra.others(number, frame, outcome);
            if full && let Some(link) = self.links.get_mut(usize::from(link)) {
                link.extra_full += 1;
                self.missed
                    .add((now_ns, now_ns), &MissedCounts { extra_table_full: 1, ..MissedCounts::default() });
            }
        }
        Some(Observed { slot: number, stats, outcome })
    }

    /// Counts a packet that [continues](observe_next) the message of the latest packet of the flow in `slot`.
    #[inline]
    pub fn observe_next(&mut self, slot: u32, frame: &Frame, now_ns: u64) -> Option<Observed<'_>> {
        let FlowSample { stats, .. } = self.slots.get_mut(slot as usize)?;
        observe_next(stats, frame, now_ns);
        Some(Observed { slot, stats, outcome: Outcome::NONE })
    }

    #[inline(never)]
    fn find_or_add(&mut self, key: &FlowKey, (wire_len, now_ns): (u32, u64)) -> Option<u32> {
        let hash = hash_of(&self.hasher, key);
        let slots = &mut self.slots;
        let same = |number: &u32| slots.get(*number as usize).is_some_and(|slot| slot.key == *key);
        if let Some(number) = self.index.find(hash, same) {
            return Some(*number);
        }
        if self.index.len() >= self.max_flows {
            if let Some(link) = self.links.get_mut(usize::from(key.link)) {
                link.flow_table_full.add(wire_len);
            }
            self.missed
                .add((now_ns, now_ns), &MissedCounts { flow_table_full: 1, ..MissedCounts::default() });
            return None;
        }
        let free = self.free.pop();
        let number = free.or_else(|| u32::try_from(slots.len()).ok())?;
        let slot = FlowSample { slot: number, key: *key, stats: Stats::default() };
        if free.is_some() {
            if self.order.is_empty() {
                self.order = (0..).zip(slots.iter()).map(|(at, _)| at).collect();
            }
            *slots.get_mut(number as usize)? = slot;
            *self.order.get_mut(number as usize)? = self.born;
        } else {
            slots.push(slot);
            if !self.order.is_empty() {
                self.order.push(self.born);
            }
        }
        self.born += 1;
        let hasher = &self.hasher;
        self.index.insert_unique(hash, number, |number| {
            slots.get(*number as usize).map_or(0, |slot| hash_of(hasher, &slot.key))
        });
        if self.index.len() > self.recent.len() / 2 && self.recent.len() < MAX_RECENT {
            // The cache is emptied, which costs each flow one lookup in the index.
            self.recent = vec![u32::MAX; self.recent.len() * 2];
        }
        Some(number)
    }

    /// Retires the flows whose latest packet is more than `idle_ns` before `now_ns`, adds their counts to the sums of
    /// their links, and returns their slots.
    pub fn retire_idle(&mut self, now_ns: u64, idle_ns: u64) -> Vec<u32> {
        let mut gone = Vec::new();
        for (number, slot) in (0u32..).zip(&self.slots) {
            if slot.stats.packets != 0 && now_ns.saturating_sub(slot.stats.last_ns) > idle_ns {
                gone.push(number);
            }
        }
        if gone.is_empty() {
            return gone;
        }
        let extra = self.extra.take(&gone);
        for number in &gone {
            let Some(slot) = self.slots.get_mut(*number as usize) else { continue };
            if let Some(link) = self.links.get_mut(usize::from(slot.key.link)) {
                self.retired.fold(&mut link.retired, &slot.key, &slot.stats, extra.get(number));
            }
            let hash = hash_of(&self.hasher, &slot.key);
            if let Ok(entry) = self.index.find_entry(hash, |other| other == number) {
                entry.remove();
            }
            // No packet is of this key, which has no family.
            (slot.key, slot.stats) = (FlowKey::default(), Stats::default());
        }
        // The lowest numbers are used first.
        self.free.extend(gone.iter().rev());
        gone
    }

    /// Number of flows that are not retired.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True if there are no flows.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The flows in the order in which they appeared.
    #[must_use]
    pub fn flows(&self) -> Flows {
        let present = |slot: &&FlowSample| slot.stats.packets != 0;
        if self.order.is_empty() {
            return self.slots.iter().filter(present).cloned().collect();
        }
        let mut live: Vec<(u64, &FlowSample)> =
            self.order.iter().copied().zip(&self.slots).filter(|(_, slot)| present(slot)).collect();
        // Nearly sorted.
        live.sort_unstable_by_key(|(born, _)| *born);
        live.into_iter().map(|(_, slot)| slot.clone()).collect()
    }

    /// The flows as [`flows`](Self::flows) gives them; the table is empty afterwards. The list takes the table's own
    /// memory where no slot was reused.
    pub fn take_flows(&mut self) -> Flows {
        if !self.order.is_empty() {
            return self.flows();
        }
        self.index = HashTable::new();
        let mut slots = std::mem::take(&mut self.slots);
        slots.retain(|slot| slot.stats.packets != 0);
        slots.into()
    }

    /// Overflow entries of flows, by slot.
    pub fn extra(&self) -> Map<u32, Extra> {
        let mut by_slot = Map::default();
        group(&self.extra.list, &mut by_slot);
        by_slot
    }

    /// Bytes by 5-tuple of retired flows.
    pub fn retired_tuples(&self) -> &[RetiredTuple] {
        self.retired.tuples()
    }

    /// Packets by DSCP for each link; `None` if some packets found no room.
    pub fn marking(&self, flows: &Flows, extra: &Map<u32, Extra>) -> Option<Vec<ByDscp>> {
        marking::by_link(&self.links, flows, extra, self.retired.marking())
    }

    /// Bytes of retired flows whose 5-tuple is not kept.
    pub fn retired_unattributed(&self) -> u64 {
        self.retired.unattributed()
    }
}

/// The index of a flow in a cache of `places` entries (a power of two): addresses and queue pair numbers differ in
/// their low bits, which the product carries to its high bits.
#[inline]
fn recent_index(frame: &Frame, link: u16, places: usize) -> usize {
    let ends = u32::from_be(frame.src[3]) ^ u32::from_be(frame.dst[3]).rotate_left(11);
    let id = u64::from(frame.dest_qp) | u64::from(link) << 48;
    let product = (id ^ u64::from(ends) << 20).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product >> 40) as usize & (places - 1)
}

/// True if `key` is that of `frame` on `link`. Compares word by word, and for IPv4 the only word that is not 0: a
/// wide load of a key that was just stored in parts stalls until all stores have reached the cache, which would take
/// longer than the rest of the work on a packet.
#[inline]
fn is_of(key: &FlowKey, frame: &Frame, link: u16) -> bool {
    let differs = (key.dest_qp ^ frame.dest_qp)
        | (key.src[3] ^ frame.src[3])
        | (key.dst[3] ^ frame.dst[3])
        | u32::from(key.link ^ link)
        | u32::from(key.family ^ frame.family);
    differs == 0 && (frame.family == 4 || key.src == frame.src && key.dst == frame.dst)
}

#[inline]
fn hash_of(hasher: &State, key: &FlowKey) -> u64 {
    let mut state = hasher.build_hasher();
    let wide = |[a, b, c, d]: [u32; 4]| {
        u128::from(a) | u128::from(b) << 32 | u128::from(c) << 64 | u128::from(d) << 96
    };
    state.write_u128(wide(key.src));
    state.write_u128(wide(key.dst));
    state.write_u64(u64::from(key.dest_qp) | u64::from(key.link) << 32 | u64::from(key.family) << 48);
    state.finish()
}

fn group(list: &[(ExtraKey, Counter)], by_slot: &mut Map<u32, Extra>) {
    for (key, counter) in list {
        let extra = by_slot.entry(key.slot).or_default();
        if key.kind == ExtraKind::PORT {
            extra.ports.push((key.value, *counter));
        } else if key.kind == ExtraKind::DSCP {
            extra.dscps.push((key.value, *counter));
        } else if let Ok(code) = u8::try_from(key.value) {
            extra.opcodes.push((code, counter.packets));
        }
    }
}

/// Further ports, opcodes and DSCPs of flows, as in the kernel's overflow map, in order of appearance.
#[derive(Debug)]
struct ExtraTable {
    list: Vec<(ExtraKey, Counter)>,
    index: Map<ExtraKey, u32>,
    max: usize,
}

impl ExtraTable {
    fn new(max: usize) -> Self {
        Self { list: Vec::new(), index: Map::default(), max: max.min(u32::MAX as usize) }
    }

    /// Counts a packet; false when there is no room.
    fn add(&mut self, key: ExtraKey, wire_len: u32) -> bool {
        if let Some(at) = self.index.get(&key) {
            if let Some((_, counter)) = self.list.get_mut(*at as usize) {
                counter.add(wire_len);
            }
            return true;
        }
        let Ok(at) = u32::try_from(self.list.len()) else { return false };
        if self.list.len() >= self.max {
            return false;
        }
        self.list.push((key, Counter { packets: 1, bytes: u64::from(wire_len) }));
        self.index.insert(key, at);
        true
    }

    /// Counts what a packet has that its flow's own counters have no room for; false when there is no room here either.
    #[cold]
    fn others(&mut self, slot: u32, frame: &Frame, outcome: Outcome) -> bool {
        let others = [
            (outcome.other_port, ExtraKind::PORT, frame.src_port),
            (outcome.other_opcode, ExtraKind::OPCODE, u16::from(frame.opcode)),
            (outcome.other_dscp, ExtraKind::DSCP, dscp_value(frame)),
        ];
        let mut room = true;
        for (_, kind, value) in others.into_iter().filter(|(other, ..)| *other) {
            room &= self.add(ExtraKey { slot, kind, value }, frame.wire_len);
        }
        room
    }

    /// Removes the entries of `slots` (in ascending order) and returns them by slot.
    fn take(&mut self, slots: &[u32]) -> Map<u32, Extra> {
        let mut taken = Map::default();
        if self.list.iter().all(|(key, _)| slots.binary_search(&key.slot).is_err()) {
            return taken;
        }
        let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.list)
            .into_iter()
            .partition(|(key, _)| slots.binary_search(&key.slot).is_ok());
        group(&gone, &mut taken);
        self.index.clear();
        self.index.extend((0u32..).zip(&kept).map(|(at, (key, _))| (*key, at)));
        self.list = kept;
        taken
    }
}

#[cfg(test)]
mod tests;
