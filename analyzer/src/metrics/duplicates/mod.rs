//! Duplicates: captures that show each packet twice.
//!
//! A mirror of both directions of a port or VLAN, and files of two interfaces merged into one, show each packet twice,
//! from microseconds to milliseconds apart. The duplicate has the same headers but for TTL and ECN, so that it looks
//! like a retransmission where the sender does not count the IPv4 identification up. One packet does not tell; a pair
//! of hosts does:
//!
//! | observation | retransmission | duplicate |
//! |---|---|---|
//! | share of packets that pass twice, both directions | those behind a loss | all |
//! | between two packets that pass again, packets that are new | none: the sender goes back and sends on from there | nearly always |
//! | a NAK between the two | usual | none for most |
//! | identification, where the sender counts it up | another | the same |
//!
//! Each link is watched for its first packets, and again once many of its packets are behind the expected PSN. From the
//! packet on that decides it, duplicates go to no collector; they are counted here. A packet that passes a third time
//! is new, so that a retransmission which the capture doubles too counts once; it is a duplicate where its
//! identification says so, or where nearly all packets that pass twice do so three times.
//!
//! If the sender counts identifications up, a duplicate is recognised however late it arrives: files of two taps merged
//! into one show packets as far apart as the path between them delays them.
//!
//! Bounded: a packet is remembered for `DUPLICATE_WITHIN_NS`, where it is known by its identification for
//! `LATE_DUPLICATE_NS`, at most `MOST_REMEMBERED` of them (24 bytes each).

mod counts;
mod judge;
mod slot;
#[cfg(test)]
mod tests;

use crate::util::definition::definitions;
use crate::util::index::Index;
use crate::util::map::Map;
use rocescope_common::account::{Event, FlowKey};
use rocescope_common::wire::frame::{Addr, UNKNOWN};
use rocescope_common::wire::opcode::Op;

use super::packet::{CE, Packet, PacketExtras};
pub use counts::DuplicateCounts;
pub(super) use judge::DEFINITIONS as OF_HOSTS;
use judge::{DuplicateDetector, Evidence};
use slot::{Candidate, Repetition, Slot};

definitions! {
    pub DUPLICATE_WITHIN_NS: u64 = 10_000_000,
        "Maximum time from a packet to its duplicate, in nanoseconds",
        "Clocks of two capturing hosts that PTP or NTP on a LAN keeps differ by up to some milliseconds";
    pub LATE_DUPLICATE_NS: u64 = 100_000_000,
        "Maximum time from a packet to its duplicate where sender and receiver count IPv4 identifications up, in nanoseconds",
        "Queues between two taps delay packets that long";
}

/// Packets among which that of a duplicate is looked for, from the oldest without a duplicate on: duplicates come in
/// the order of their packets.
const SEARCHED: usize = 1_024;
/// Packets of a link that are watched from its first packet on, and after each duplicate.
const WATCHED: u32 = 4_096;
/// The same after a packet that is behind the expected PSN.
const WATCHED_AGAIN: u32 = 256;
/// Packets behind the expected PSN, above one in [`SELDOM`], after which a link is watched again: of a link whose
/// packets pass twice half are, of one with loss few.
const MANY: u32 = 64;
/// See [`MANY`].
const SELDOM: u32 = 8;
/// Packets remembered in one flow: those of 10 ms at 100 Gbit/s with a path MTU of 4,096.
const MOST_OF_FLOW: usize = 32_768;
/// Packets remembered in all: 48 MB.
const MOST_REMEMBERED: usize = 2_097_152;
/// Pairs of hosts, per link, that are judged.
const MOST_PAIRS: usize = 65_536;
/// Flows of a pair whose figures so far are dropped once it is decided.
const MOST_FLOWS: usize = 1_024;

/// Judgement of a packet for the collectors.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A packet of its own.
    Own,
    /// The same, but the duplicate of an earlier packet if its pair of hosts is found to be duplicated
    /// ([`Filter::decided`]).
    Doubtful,
    /// The duplicate of an earlier packet. `marked`: the duplicate is marked CE, the other is not.
    Copy {
        /// True if the duplicate is marked CE and the earlier packet is not.
        marked: bool,
    },
}

/// Duplicates on one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnLink {
    /// All duplicates, those of retired flows too.
    pub duplicates: DuplicateCounts,
    /// Sum of the times from a packet to its duplicate, nanoseconds.
    pub delay_sum_ns: u64,
    /// The longest of them.
    pub delay_max_ns: u64,
    /// First and last duplicate, Unix nanoseconds; 0 for none.
    pub first_ns: u64,
    /// Time of the last duplicate, Unix nanoseconds; 0 for none.
    pub last_ns: u64,
    /// Duplicates marked CE after the first had passed unmarked.
    pub marked: u64,
}

impl OnLink {
    /// Adds a duplicate of `first`; whether it is marked CE, and the first was not.
    fn add(&mut self, packet: &Packet, op: Op, first: &Candidate) -> bool {
        let marked = packet.data_ecn() == CE && first.ecn != CE;
        let delay_ns = packet.time_ns.saturating_sub(first.time_ns);
        let mut duplicates = DuplicateCounts::default();
        duplicates.add(packet, op, first.ecn);
        self.join(&Self {
            duplicates,
            delay_sum_ns: delay_ns,
            delay_max_ns: delay_ns,
            first_ns: packet.time_ns,
            last_ns: packet.time_ns,
            marked: u64::from(marked),
        });
        marked
    }

    fn join(&mut self, other: &Self) {
        self.duplicates.join(&other.duplicates);
        self.delay_sum_ns = self.delay_sum_ns.saturating_add(other.delay_sum_ns);
        self.delay_max_ns = self.delay_max_ns.max(other.delay_max_ns);
        self.first_ns = if self.first_ns == 0 { other.first_ns } else { self.first_ns.min(other.first_ns) };
        self.last_ns = self.last_ns.max(other.last_ns);
        self.marked += other.marked;
    }
}

/// Duplicates found so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Duplicates {
    /// Of flows, by slot.
    pub flows: Map<u32, DuplicateCounts>,
    /// By link; links at the end without any are left out.
    pub links: Vec<OnLink>,
    /// Packets that were not compared since too many are remembered.
    pub unfollowed: u64,
}

impl Duplicates {
    /// Duplicates in the flow of a slot.
    pub fn flow(&self, slot: u32) -> DuplicateCounts {
        self.flows.get(&slot).copied().unwrap_or_default()
    }

    /// Duplicates on a link.
    pub fn link(&self, link: usize) -> OnLink {
        self.links.get(link).copied().unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct Link {
    /// Packets still to be watched.
    left: u32,
    /// It is watched, or its latest packets may begin the watch again.
    restless: bool,
    /// While it is not watched: [`SELDOM`] for each packet behind the expected PSN, less one for each of the others.
    behind: u32,
    /// Number of times that the watch began again.
    watches: u32,
    /// True if it was watched from its first packet on.
    whole: bool,
    /// Slots that remember packets.
    active: Vec<u32>,
    /// Pairs decided to be duplicated, and decided not to be.
    duplicated: u32,
    single: u32,
}

impl Link {
    /// True if the watch begins again with this packet.
    #[inline]
    const fn wakes(&mut self, behind: bool) -> bool {
        if !behind {
            self.behind = self.behind.saturating_sub(1);
            return false;
        }
        self.behind += SELDOM;
        if self.behind < MANY * SELDOM {
            return false;
        }
        (self.behind, self.left) = (0, WATCHED_AGAIN);
        self.watches = self.watches.wrapping_add(1);
        true
    }
}

/// Two hosts on a link, the lower address first.
type Hosts = (u16, u8, Addr, Addr);

#[derive(Debug, Default)]
struct Pair {
    hosts: Hosts,
    judge: DuplicateDetector,
    /// The link's, at its latest packet.
    watches: u32,
    slots: Vec<u32>,
    /// The longest time from a packet to its duplicate, nanoseconds.
    delay_max_ns: u64,
}

impl Pair {
    /// Time for which packets that are known by their identification are remembered, ns.
    fn late_ns(&self) -> u64 {
        if self.judge.has_duplicates() {
            LATE_DUPLICATE_NS.min(DUPLICATE_WITHIN_NS + 2 * self.delay_max_ns)
        } else {
            LATE_DUPLICATE_NS
        }
    }
}

/// A flow of a pair that was found to be duplicated.
#[derive(Clone, Copy, Debug)]
pub struct Decided {
    /// Slot of the flow.
    pub slot: u32,
    /// Number of its link.
    pub link: u16,
    /// Its duplicates so far that were taken for packets ([`Verdict::Doubtful`]).
    pub duplicates: DuplicateCounts,
    /// All duplicates of the flow are among them.
    pub whole: bool,
}

/// Distinguishes duplicates from packets of their own.
#[derive(Debug, Default)]
pub struct Filter {
    links: Vec<Link>,
    slots: Vec<Slot>,
    numbers: Index,
    pairs: Vec<Pair>,
    remembered: usize,
    /// Number of restless links: where there are none, a packet at the expected PSN needs no look.
    restless: usize,
    found: Duplicates,
    /// Of flows whose pair is not decided: what are duplicates if it is found to be duplicated.
    pending: Map<u32, OnLink>,
    /// Flows of a pair that was decided just now.
    decided: Vec<Decided>,
}

impl Filter {
    /// Judges one packet: its own, or a duplicate.
    #[inline(always)]
    pub fn packet(&mut self, packet: &Packet, extras: Option<&PacketExtras>) -> Verdict {
        if self.is_idle() && extras.is_none() && !packet.outcome.duplicate_psn {
            return Verdict::Own;
        }
        self.look(packet, extras)
    }

    /// True if packets at the expected PSN need no look.
    #[inline]
    pub(super) const fn is_idle(&self) -> bool {
        self.restless == 0
    }

    #[inline(never)]
    fn look(&mut self, packet: &Packet, extras: Option<&PacketExtras>) -> Verdict {
        if let Some(extras) = extras
            && packet.outcome.events & Event::NEW_FLOW != 0
        {
            self.open(packet.slot, &extras.key);
        }
        let at = usize::from(packet.link);
        let Some(link) = self.links.get_mut(at) else { return Verdict::Own };
        let watched = link.left > 0 || link.wakes(packet.outcome.duplicate_psn);
        let verdict = if watched { self.watch(packet) } else { Verdict::Own };
        if let Some(link) = self.links.get_mut(at) {
            let restless = link.left > 0 || link.behind > 0;
            self.restless += usize::from(restless);
            self.restless -= usize::from(std::mem::replace(&mut link.restless, restless));
        }
        verdict
    }

    /// Flows whose figures so far took duplicates for packets: their pair was found to be duplicated. Each is given
    /// once.
    #[inline]
    pub fn decided(&mut self) -> Vec<Decided> {
        std::mem::take(&mut self.decided)
    }

    /// The flow of a slot was retired. Its link keeps its duplicates.
    pub fn retired(&mut self, slot: u32) {
        if let Some(gone) = self.slots.get_mut(slot as usize) {
            self.remembered -= gone.remembered();
            *gone = Slot { pair: UNKNOWN, ..Slot::default() };
        }
        self.found.flows.remove(&slot);
        self.pending.remove(&slot);
    }

    /// Duplicates found so far.
    pub fn metrics(&self) -> Duplicates {
        self.found.clone()
    }

    #[cold]
    fn open(&mut self, slot: u32, key: &FlowKey) {
        self.retired(slot);
        let at = usize::from(key.link);
        while self.links.len() <= at {
            self.links.push(Link { left: WATCHED, whole: true, restless: true, ..Link::default() });
            self.restless += 1;
        }
        let direction = key.src <= key.dst;
        let (low, high) = if direction { (key.src, key.dst) } else { (key.dst, key.src) };
        let hosts = (key.link, key.family, low, high);
        let known = self.numbers.get(&hosts, |number| Some(self.pairs.get(number as usize)?.hosts));
        let pair = match known {
            Some(pair) => pair,
            None if self.pairs.len() >= MOST_PAIRS => UNKNOWN,
            None => {
                let link = &self.links[at];
                // Of a link on which others are duplicated so are these, until their packets say otherwise.
                let judge = DuplicateDetector::new(link.duplicated > 0 && link.single == 0);
                self.pairs.push(Pair { hosts, judge, watches: link.watches, ..Pair::default() });
                let number = u32::try_from(self.pairs.len() - 1).unwrap_or(UNKNOWN);
                let pairs = &self.pairs;
                self.numbers.insert(&hosts, number, |number| Some(pairs.get(number as usize)?.hosts));
                number
            }
        };
        if let Some(pair) = self.pairs.get_mut(pair as usize)
            && pair.slots.len() < MOST_FLOWS
            && !pair.judge.is_decided()
        {
            pair.slots.push(slot);
        }
        let at = slot as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || Slot { pair: UNKNOWN, ..Slot::default() });
        }
        self.slots[at] = Slot { pair, direction, link: key.link, ..Slot::default() };
    }

    #[inline(never)]
    fn watch(&mut self, packet: &Packet) -> Verdict {
        let Some(slot) = self.slots.get_mut(packet.slot as usize) else { return Verdict::Own };
        let Some(pair) = self.pairs.get_mut(slot.pair as usize) else { return Verdict::Own };
        let watches = self.links.get(usize::from(packet.link)).map_or(0, |link| link.watches);
        if std::mem::replace(&mut pair.watches, watches) != watches {
            pair.judge.begin_again();
        }
        let op = Op::of(packet.opcode);
        let sequenced = op.any(Op::REQUEST | Op::RESPONSE);
        let mut own = Candidate::of(packet, op, packet.id != slot.id);
        let before = slot.remembered();
        slot.prune(own.time_ns, pair);
        // A packet at or beyond the expected PSN has not passed before.
        let again = if sequenced && own.first { None } else { slot.take(&own, pair, op.has(Op::CNP)) };
        let mut verdict = Verdict::Own;
        self.remembered -= before - slot.remembered();
        let (mut duplicate, mut taken) = (None, None);
        match again {
            Some(Repetition::Twice(first)) => {
                let evidence = Evidence {
                    first_ns: first.time_ns,
                    first: first.first,
                    advanced: slot.advanced,
                    differs: slot.differs,
                };
                slot.advanced = false;
                let is_evidence = pair.judge.twice(slot.direction, &evidence);
                // CNPs look alike, and prove nothing; if their hosts are duplicated, so are they.
                taken = Some(first).filter(|_| is_evidence || op.has(Op::CNP));
                duplicate = Some(first).filter(|_| pair.judge.has_duplicates());
            }
            Some(Repetition::Duplicate(first)) => {
                (duplicate, taken) = (Some(first).filter(|_| pair.judge.has_duplicates()), Some(first));
            }
            Some(Repetition::Retransmitted) | None => {
                own.first &= again.is_none();
                if packet.outcome.events & (Event::NAK | Event::RNR) != 0 {
                    pair.judge.nak(packet.time_ns);
                }
                slot.differs = own.first && own.counted;
                slot.id = packet.id;
                slot.advanced |= own.first;
                self.remember(packet, own);
            }
        }
        if let Some(first) = taken.filter(|_| duplicate.is_none()) {
            self.pending.entry(packet.slot).or_default().add(packet, op, &first);
            if self.is_open(packet.slot) {
                verdict = Verdict::Doubtful;
            }
        }
        match self.after(packet, duplicate, op) {
            Verdict::Own => verdict,
            duplicate => duplicate,
        }
    }

    /// True if the pair of a flow may still be found to be duplicated.
    fn is_open(&self, slot: u32) -> bool {
        let pair = self.slots.get(slot as usize).and_then(|slot| self.pairs.get(slot.pair as usize));
        pair.is_some_and(|pair| pair.judge.is_open())
    }

    fn remember(&mut self, packet: &Packet, own: Candidate) {
        let (Some(slot), Some(link)) =
            (self.slots.get_mut(packet.slot as usize), self.links.get_mut(usize::from(packet.link)))
        else {
            return;
        };
        if self.remembered >= MOST_REMEMBERED {
            self.found.unfollowed += 1;
            return;
        }
        if slot.remembered() == 0 {
            link.active.push(packet.slot);
        }
        slot.remember(own);
        self.remembered += 1;
    }

    /// Counts a duplicate, and ends the watch where nothing is duplicated.
    #[inline]
    fn after(&mut self, packet: &Packet, duplicate: Option<Candidate>, op: Op) -> Verdict {
        let Some(number) = self.slots.get(packet.slot as usize).map(|slot| slot.pair) else {
            return Verdict::Own;
        };
        self.settle(number, packet.link);
        let Some(link) = self.links.get_mut(usize::from(packet.link)) else { return Verdict::Own };
        let Some(first) = duplicate else {
            let behind = packet.outcome.duplicate_psn;
            link.left = if behind { link.left.max(WATCHED_AGAIN) } else { link.left.saturating_sub(1) };
            if link.left == 0 {
                self.forget(packet.link);
            }
            return Verdict::Own;
        };
        link.left = WATCHED;
        self.found.flows.entry(packet.slot).or_default().add(packet, op, first.ecn);
        let at = usize::from(packet.link);
        if self.found.links.len() <= at {
            self.found.links.resize(at + 1, OnLink::default());
        }
        let marked = self.found.links[at].add(packet, op, &first);
        if let Some(pair) = self.pairs.get_mut(number as usize) {
            pair.delay_max_ns = pair.delay_max_ns.max(packet.time_ns.saturating_sub(first.time_ns));
        }
        Verdict::Copy { marked }
    }

    /// Notes a decision about a pair with its link.
    fn settle(&mut self, number: u32, at: u16) {
        let Some(pair) = self.pairs.get_mut(number as usize) else { return };
        let Some(duplicated) = pair.judge.changed() else { return };
        let Some(link) = self.links.get_mut(usize::from(at)) else { return };
        let mut slots = std::mem::take(&mut pair.slots);
        if !duplicated {
            link.single += 1;
            for slot in slots {
                self.pending.remove(&slot);
            }
            return;
        }
        link.duplicated += 1;
        let whole = link.whole;
        // Where duplicates begin later, the pair was decided before.
        let of_pair = |slot: &&u32| self.slots.get(**slot as usize).is_some_and(|slot| slot.pair == number);
        slots.extend(self.pending.keys().filter(of_pair));
        slots.sort_unstable();
        slots.dedup();
        for slot in slots {
            let pending = self.pending.remove(&slot);
            if self.slots.get(slot as usize).is_some_and(|slot| slot.pair == number) {
                let taken = pending.map(|pending| pending.duplicates).unwrap_or_default();
                self.decided.push(Decided { slot, link: at, duplicates: taken, whole });
                // Loss drops duplicates that it has taken for retransmissions only if it drops all.
                self.count(slot, at, pending.filter(|_| whole));
            }
        }
    }

    /// Counts duplicates of a flow that have passed before its pair was decided.
    fn count(&mut self, slot: u32, link: u16, pending: Option<OnLink>) {
        let Some(pending) = pending else { return };
        self.found.flows.entry(slot).or_default().join(&pending.duplicates);
        let at = usize::from(link);
        if self.found.links.len() <= at {
            self.found.links.resize(at + 1, OnLink::default());
        }
        self.found.links[at].join(&pending);
    }

    /// Nothing on a link is duplicated: its packets are not remembered any more.
    #[cold]
    fn forget(&mut self, at: u16) {
        let Some(link) = self.links.get_mut(usize::from(at)) else { return };
        link.whole = false;
        for number in std::mem::take(&mut link.active) {
            if let Some(slot) = self.slots.get_mut(number as usize)
                && slot.link == at
            {
                self.remembered -= slot.remembered();
                slot.forget();
                self.pending.remove(&number);
            }
        }
    }
}
