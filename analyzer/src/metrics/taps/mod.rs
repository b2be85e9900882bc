//! The same flows at several taps: packets lost between them, and changes of the delay.
//!
//! Packets are recognised by PSN, opcode and, in IPv4, identification. Clocks need not agree: a packet waits
//! until the other tap sees it, however much later its time is. A waiting packet takes 72 bytes; all
//! of them at most 72 MiB, half of that per flow. Packets that find no room are not evaluated.

mod common;
mod group;
mod header;
mod series;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::util::definition::definitions;
use crate::util::map::Map;
use rocescope_common::account::{Event, FlowKey};
use rocescope_common::wire::frame::Addr;
use rocescope_common::wire::opcode::Op;

use super::icrc::Contents;
use super::packet::{Packet, PacketExtras};
use common::{Common, Ends};
pub use common::{LatestOfSize, MissingAtTap};
pub(super) use group::DEFINITIONS as OF_FLOWS;
use group::{Group, TapPacket, WaitingRoom};
use header::{Body, MAX_TAPS};
pub use header::{Header, HeaderPair, Resized};
pub use series::Series;

/// Packets that wait, of all flows.
const MAX_WAITING: usize = 1 << 20;
/// Flows that are followed.
const MAX_GROUPS: usize = 65_536;

definitions! {
    ALONE_NS: u64 = 30_000_000_000,
        "Maximum time by which the second tap may see a flow for the first time after the first tap, in nanoseconds",
        "Clocks of hosts differ by seconds";
}

/// Packets kept before there is more than one tap: captures of several interfaces show the second when it sees the
/// first packet.
const EARLY: u32 = 256;
const NONE: u32 = u32::MAX;

/// A flow at two taps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapPair {
    /// The flow; its link is that of the first tap.
    pub key: FlowKey,
    /// Links of the taps: the one nearer the sender first, if that is known.
    pub links: [u16; 2],
    /// The first is nearer the sender.
    pub ordered: bool,
    /// Packets that both saw.
    pub matched: u64,
    /// Packets that only the first saw, and only the second, between packets that both saw; and before these, if other
    /// packets between the same hosts had passed both by then.
    pub only: [u64; 2],
    /// First and last time of these, Unix nanoseconds by the clock of the tap that saw them; 0 for none.
    pub only_ns: [(u64, u64); 2],
    /// Packets that did not arrive at the second although the first saw them, and the reverse, by size and at the end.
    pub gone: [MissingAtTap; 2],
    /// Largest payload of the packets that both saw, in bytes.
    pub largest: u16,
    /// The latest packets that both saw, by size: the largest first, each later than those before it.
    pub sizes: Vec<LatestOfSize>,
    /// Packets that each saw once more: the same PSN with the same IPv4 identification.
    pub duplicates: [u64; 2],
    /// Packets that both saw, by their headers at the first and at the second.
    pub passed: Vec<HeaderPair>,
    /// Packets whose headers there was no room for: not in `passed`.
    pub not_passed: u64,
    /// Packets whose payload is of another length at the second.
    pub resized: Resized,
    /// Time at the second minus time at the first. The clocks' difference is included.
    pub delay: Series,
}

/// The first packet of a flow.
#[derive(Clone, Copy, Debug)]
struct FirstPacket {
    key: FlowKey,
    slot: u32,
    link: u16,
    hops: u8,
    time_ns: u64,
}

/// Collector of the comparison of taps.
#[derive(Debug, Default)]
pub struct Collector {
    /// Number of taps there are, or will be, as far as that is known. Packets are kept where it is more than one.
    taps: usize,
    /// Packets kept so far without knowing that.
    early: u32,
    /// Links seen so far, up to as many as a flow is followed on.
    links: Vec<u16>,
    /// Taps that were announced, and the names of those seen so far, up to as many as that: a tap has several links
    /// where its interfaces or directions have one each.
    announced: usize,
    names: Vec<Arc<str>>,
    index: Map<FlowKey, u32>,
    groups: Vec<(FlowKey, Group)>,
    /// Flows that began while there was one tap, after the early packets: they become groups if there is a second one.
    alone: Vec<FirstPacket>,
    /// Group and tap by slot.
    slots: Vec<(u32, u8)>,
    waiting: usize,
}

impl Collector {
    /// Says how many taps there are: with two or more, packets are kept from the first on.
    pub fn expect(&mut self, taps: usize) {
        self.announced = taps.min(MAX_TAPS);
        self.follow(taps);
    }

    /// There are at least as many taps that a flow may pass.
    fn follow(&mut self, taps: usize) {
        self.taps = self.taps.max(taps);
        self.group_those_alone();
    }

    /// Takes in one packet, and what its ICRC says, where that is known.
    #[inline(always)]
    pub fn packet(&mut self, packet: &Packet, extras: Option<&PacketExtras>, contents: Option<Contents>) {
        if let Some(extras) = extras
            && packet.outcome.events & Event::NEW_FLOW != 0
        {
            self.open(packet, extras);
        }
        let several = self.taps > 1;
        if several || self.early < EARLY {
            self.keep(packet, contents);
            if !several {
                self.early += 1;
                if self.early == EARLY {
                    self.forget();
                }
            }
        }
    }

    /// True if packets are not kept.
    #[inline]
    pub(super) const fn is_idle(&self) -> bool {
        self.taps <= 1 && self.early >= EARLY
    }

    /// The flow of a slot was retired.
    pub fn retired(&mut self, slot: u32) {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            *slot = (NONE, 0);
        }
    }

    #[cold]
    fn open(&mut self, packet: &Packet, extras: &PacketExtras) {
        let link = packet.link;
        if self.links.len() < MAX_TAPS && !self.links.contains(&link) {
            self.links.push(link);
            self.follow(self.links.len());
        }
        if self.names.len() < self.announced && !self.names.contains(&extras.tap) {
            self.names.push(Arc::clone(&extras.tap));
        }
        let key = FlowKey { link: 0, ..extras.key };
        let first = FirstPacket { key, slot: packet.slot, link, hops: packet.hops, time_ns: packet.time_ns };
        if self.taps > 1 || self.early < EARLY {
            self.group(&first);
        } else {
            self.retired(packet.slot);
            if self.groups.len() + self.alone.len() < MAX_GROUPS {
                self.alone.push(first);
            }
        }
    }

    /// Puts a flow into the group of its queue pair.
    fn group(&mut self, first: &FirstPacket) {
        let group = match self.index.get(&first.key) {
            Some(group) => *group,
            None if self.groups.len() < MAX_GROUPS => {
                let number = u32::try_from(self.groups.len()).unwrap_or(NONE);
                self.groups.push((first.key, Group::new(first.time_ns)));
                self.index.insert(first.key, number);
                number
            }
            None => NONE,
        };
        let place = self
            .groups
            .get_mut(group as usize)
            .and_then(|(_, one)| Some((group, one.tap(first.link, first.hops)?)))
            .unwrap_or((NONE, 0));
        let at = first.slot as usize;
        if place.0 == NONE {
            // Of a single tap, most flows have no group.
            return self.retired(first.slot);
        }
        if self.slots.len() <= at {
            self.slots.resize(at + 1, (NONE, 0));
        }
        self.slots[at] = place;
    }

    /// Once there are two taps, every flow has a group.
    fn group_those_alone(&mut self) {
        if self.taps > 1 {
            for first in std::mem::take(&mut self.alone) {
                self.group(&first);
            }
        }
    }

    /// The packets kept end somewhere in a flow: later ones that the second tap shows would look like missed by the
    /// first.
    fn forget(&mut self) {
        self.groups.iter_mut().for_each(|(_, group)| group.clear());
        self.waiting = 0;
    }

    fn keep(&mut self, packet: &Packet, contents: Option<Contents>) {
        let Some((group, tap)) = self.slots.get(packet.slot as usize).copied() else { return };
        let Some((_, group)) = self.groups.get_mut(group as usize) else { return };
        let number = packet.id;
        if number == 0 && Op::of(packet.opcode).has(Op::CNP) {
            // All of them are alike.
            return;
        }
        let before = group.places();
        if group.links.len() < 2 && packet.time_ns.saturating_sub(group.first_ns) > ALONE_NS {
            group.clear();
        } else {
            let id =
                1 << 63 | u64::from(packet.psn) << 32 | u64::from(packet.opcode) << 16 | u64::from(number);
            let awaited = self.names.len() < self.announced;
            let room = MAX_WAITING.saturating_sub(self.waiting);
            let room = WaitingRoom::new(room, awaited, group.overflowed);
            let tap = usize::from(tap);
            let number = group.headers.number(tap, Header::of(packet, contents));
            let arrived = TapPacket::new(id, packet.time_ns, Body::of(packet, contents), number);
            group.packet(tap, self.taps, &arrived, room);
        }
        self.waiting = self.waiting + group.places() - before.min(self.waiting + group.places());
    }

    /// Pairs of taps so far: flows that two taps or more saw.
    pub fn metrics(&self) -> Vec<TapPair> {
        let ends = self.ends();
        let several: Vec<(&FlowKey, &Group, Vec<Common>)> = self
            .groups
            .iter()
            .filter(|(_, group)| !group.common.is_empty())
            .map(|(key, group)| {
                let of = |common: &Common| {
                    let links = group.links_of(common)?;
                    let way = (key.family, key.src, key.dst, in_order(links, links));
                    ends.get(&way).map(|ends| ends_in_order(links, *ends))
                };
                (key, group, group.metrics(|common| of(common).unwrap_or_default()))
            })
            .collect();
        let delays = delays(&several);
        let mut pairs = Vec::new();
        for (key, group, all) in &several {
            for common in all {
                let Some(links) = group.links_of(common) else { continue };
                let hops = (group.hops.get(common.first), group.hops.get(common.second));
                let pair = TapPair {
                    key: FlowKey { link: links[0], ..**key },
                    links,
                    ordered: true,
                    matched: common.matched,
                    only: common.only,
                    only_ns: common.only_ns,
                    gone: common.gone,
                    largest: common.largest,
                    sizes: common.sizes.clone(),
                    duplicates: common.duplicates,
                    passed: common.compared.passed(&group.headers),
                    not_passed: common.compared.left_out,
                    resized: common.compared.resized,
                    delay: common.delay,
                };
                pairs.push(match first_is_nearer(&pair, hops, &delays).filter(|_| !pair.is_parallel()) {
                    Some(true) => pair,
                    Some(false) => pair.reversed(),
                    None => TapPair { ordered: false, ..pair },
                });
            }
        }
        pairs
    }

    /// Times of the packets of any flow from one host to another that both of two links saw; links in the order of
    /// their numbers.
    fn ends(&self) -> Map<LinkPairDirection, Ends> {
        let mut all: Map<LinkPairDirection, Ends> = Map::default();
        for (key, group) in &self.groups {
            for common in &group.common {
                let Some(links) = group.links_of(common) else { continue };
                let way = (key.family, key.src, key.dst, in_order(links, links));
                all.entry(way).or_default().join(ends_in_order(links, common.ends));
            }
        }
        all
    }
}

/// True if each of two taps sees more packets that the other does not than both do: they are on parallel links, and
/// what both saw are retransmissions.
pub fn are_parallel(only: [u64; 2], matched: u64) -> bool {
    only.iter().all(|only| *only > matched)
}

/// Two values, the one of the link with the lower number first; the other way round, it gives back what it was given.
fn in_order<T>(links: [u16; 2], [first, second]: [T; 2]) -> [T; 2] {
    if links[0] <= links[1] { [first, second] } else { [second, first] }
}

/// The same for times.
fn ends_in_order(links: [u16; 2], ends: Ends) -> Ends {
    if links[0] <= links[1] { ends } else { ends.reversed() }
}

/// Two links in one direction between two hosts.
type LinkPairDirection = (u8, Addr, Addr, [u16; 2]);

/// Times between two links in one direction between two hosts, by the ends.
type Delays = Map<LinkPairDirection, Vec<(u64, i64)>>;

/// The smallest differences of times that any flow from one host to another shows.
fn delays(several: &[(&FlowKey, &Group, Vec<Common>)]) -> Delays {
    let mut delays = Delays::default();
    for (key, group, all) in several {
        for common in all {
            let (Some(first), Some(second)) = (group.links.get(common.first), group.links.get(common.second))
            else {
                continue;
            };
            let series = if first < second { common.delay } else { common.delay.reversed() };
            let links = [*first.min(second), *first.max(second)];
            delays.entry((key.family, key.src, key.dst, links)).or_default().extend(series.points());
        }
    }
    delays
}

/// True if the first tap is nearer the sender; `None` when it is unknown.
fn first_is_nearer(pair: &TapPair, hops: (Option<&u8>, Option<&u8>), delays: &Delays) -> Option<bool> {
    if hops.0 != hops.1 {
        // Routers count down.
        return Some(hops.0 > hops.1);
    }
    let by_delay = by_delay(pair, delays);
    let (clear, likely) = (by_delay.filter(|(_, clear)| *clear), by_delay);
    // A capture that drops packets lacks them as if they were lost on the way to it.
    clear.map(|(first, _)| first).or_else(|| by_count(pair)).or(likely.map(|(first, _)| first))
}

/// The same by the packets that each lacks.
fn by_count(pair: &TapPair) -> Option<bool> {
    let [first, second] = pair.only;
    // Packets are lost on the way and do not appear from nothing.
    (first.abs_diff(second) > 0 && (first > 4 * second || second > 4 * first)).then_some(first > second)
}

/// The same by the times between the taps, there and back, and whether nearly all of them agree.
fn by_delay(pair: &TapPair, delays: &Delays) -> Option<(bool, bool)> {
    let (key, [a, b]) = (&pair.key, pair.links);
    let links = [a.min(b), a.max(b)];
    let there = delays.get(&(key.family, key.src, key.dst, links))?;
    let back = delays.get(&(key.family, key.dst, key.src, links))?;
    // The clocks' difference is in both, the way in one with plus and in the other with minus. It
    // may drift: only what is near in time is compared.
    let mut sum = 0i64;
    let mut count = 0i64;
    for (time_ns, difference) in there {
        let near = back.iter().min_by_key(|(other_ns, _)| other_ns.abs_diff(*time_ns))?;
        sum = sum.saturating_add(difference.saturating_sub(near.1).signum());
        count += 1;
    }
    // Most have to agree.
    if sum.abs() * 2 <= count {
        return None;
    }
    Some(((sum > 0) == (a < b), sum.abs() * 10 >= count * 8))
}

impl TapPair {
    /// A flow at two taps that no packet has passed.
    #[cfg(test)]
    pub(crate) fn empty(key: FlowKey, links: [u16; 2]) -> Self {
        Self {
            key,
            links,
            ordered: true,
            matched: 0,
            only: [0; 2],
            only_ns: [(0, 0); 2],
            gone: [MissingAtTap::default(); 2],
            largest: 0,
            sizes: Vec::new(),
            duplicates: [0; 2],
            passed: Vec::new(),
            not_passed: 0,
            resized: Resized::default(),
            delay: Series::new(0, 0),
        }
    }

    /// True if the two taps are on parallel links; see [`are_parallel`].
    fn is_parallel(&self) -> bool {
        are_parallel(self.only, self.matched)
    }

    fn reversed(self) -> Self {
        let ([a, b], [first, second]) = (self.links, self.only);
        let [first_ns, second_ns] = self.only_ns;
        let [first_duplicates, second_duplicates] = self.duplicates;
        let [first_gone, second_gone] = self.gone;
        let reversed = |latest: LatestOfSize| {
            let [first_ns, second_ns] = latest.at_ns;
            LatestOfSize { at_ns: [second_ns, first_ns], ..latest }
        };
        Self {
            sizes: self.sizes.into_iter().map(reversed).collect(),
            duplicates: [second_duplicates, first_duplicates],
            gone: [second_gone, first_gone],
            passed: self.passed.into_iter().map(HeaderPair::reversed).collect(),
            resized: self.resized.reversed(),
            key: FlowKey { link: b, ..self.key },
            links: [b, a],
            only: [second, first],
            only_ns: [second_ns, first_ns],
            delay: self.delay.reversed(),
            ..self
        }
    }
}
