//! Pairs of flows of which one answers the other: the two directions of a queue pair.
//!
//! A packet names only the queue pair it goes to. Evidence of the origin, best first: connection management on QP 1
//! (certain); a UDP source port that a known formula gives for the two queue pair numbers (strong); one source port
//! that just one flow each way uses (likely, strong once acknowledgements agree with the requests' PSNs); responses
//! whose PSNs just one flow of requests waits for (likely).
//!
//! Decided when a flow's first packets pass, from what was seen so far, and not applied backwards:
//! earlier packets stay unpaired (latency keeps a few requests and times them later). A better way that is found later
//! replaces a weaker one.

mod outstanding;
pub mod peers;
#[cfg(test)]
mod tests;

use crate::util::index::Index;
use rocescope_common::account::{Event, FlowKey, latency};
use rocescope_common::wire::cm;
use rocescope_common::wire::frame::{Addr, UNKNOWN};
use rocescope_common::wire::opcode::Op;

use super::packet::{Packet, PacketExtras};
use super::setups::{self, Setups};
use crate::entity::PeerKey;
use crate::util::definition::definitions;
use crate::util::pack::pack;
pub(super) use outstanding::DEFINITIONS as OF_REQUESTS;
use outstanding::Outstanding;
use peers::Peers;

/// Directions that are kept at a time; flows beyond them stay unpaired.
const MAX_DIRECTIONS: usize = 1 << 20;
/// Flows with one source port between two hosts that are looked at.
const MAX_CANDIDATES: usize = 64;

definitions! {
    PSN_VOTES: u8 = 8,
        "Different PSNs that requests of one flow alone waited for, after which two flows are a pair",
        "One or two that fit by chance are not followed by as many";
    FROM_START: u32 = 256,
        "First PSN of a flow from which on its PSNs distinguish it from others",
        "Libraries that do not choose it at random begin at 0 with every queue pair, and these often advance together";
    AGREEMENTS: u8 = 3,
        "Acknowledgements that agree with the requests, after which flows with one source port are a pair",
        "An ACK of another flow rarely falls among the requests in flight";
    DISAGREEMENTS: u8 = 2,
        "Acknowledgements that do not agree, after which they are none",
        "A single one may be late";
}

/// No slot, no direction.
pub const NONE: u32 = u32::MAX;

/// Evidence that two flows belong together, from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PairingEvidence {
    /// Responses carry PSNs that just one flow of requests waits for.
    Psn,
    /// Both use one source port, and no other flow between the two hosts does.
    SharedPort,
    /// The source port is the sender's queue pair number.
    PortIsQp,
    /// The source port is what a driver computes from the queue pair numbers.
    PortRule,
    /// The datagram header names the sender.
    Datagram,
    /// Connection management named both.
    Cm,
    /// The device says it of its own queue pair; not concluded from packets.
    Device,
}

impl PairingEvidence {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Psn => "psn",
            Self::SharedPort => "shared_port",
            Self::PortIsQp => "port_is_qp",
            Self::PortRule => "port_rule",
            Self::Datagram => "datagram",
            Self::Cm => "cm",
            Self::Device => "device",
        }
    }
}

/// Certainty of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Fits, and nothing else that was seen does.
    Likely,
    /// Chance is out of the question for all practical purposes.
    Strong,
    /// The packets say so.
    Certain,
}

impl Confidence {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Likely => "likely",
            Self::Strong => "strong",
            Self::Certain => "certain",
        }
    }
}

/// The other direction of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The queue pair at the sending end; `None` when connection management named several in turn.
    pub peer_qp: Option<u32>,
    /// Evidence for the pair.
    pub how: PairingEvidence,
    /// Certainty of the pair.
    pub confidence: Confidence,
    /// Slot of the flow that carries the answers, where it was seen with the same clock.
    pub reverse: Option<u32>,
}

/// The other directions of flows, by slot. A map takes twice the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BySlot(Vec<(u32, Pair)>);

pack! {
    new BySlot;
}

impl BySlot {
    /// The other direction of the flow in a slot.
    pub fn get(&self, slot: u32) -> Option<&Pair> {
        let at = self.0.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
        self.0.get(at).map(|(_, pair)| pair)
    }

    /// All, with their slots.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Pair)> {
        self.0.iter().map(|(slot, pair)| (*slot, pair))
    }
}

/// Position of a link. Times of one tap come from one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the tap: one capture, or the host of a live run.
    pub tap: u32,
    /// Number of the interface within the tap, whatever the direction.
    pub interface: u32,
}

/// Slots of the flows of a direction. Nearly all have one.
#[derive(Clone, Debug)]
#[expect(clippy::box_collection, reason = "8 bytes where there are none, not 24")]
struct Slots {
    /// [`NONE`] where there is none.
    first: u32,
    others: Option<Box<Vec<u32>>>,
}

impl Default for Slots {
    fn default() -> Self {
        Self { first: NONE, others: None }
    }
}

impl Slots {
    fn push(&mut self, slot: u32) {
        if self.first == NONE {
            self.first = slot;
        } else {
            self.others.get_or_insert_default().push(slot);
        }
    }

    fn remove(&mut self, slot: u32) {
        if let Some(others) = &mut self.others {
            others.retain(|other| *other != slot);
        }
        if self.first == slot {
            self.first = match &mut self.others {
                Some(others) if !others.is_empty() => others.remove(0),
                _ => NONE,
            };
        }
    }

    /// In the order in which they came.
    fn iter(&self) -> impl Iterator<Item = &u32> {
        let first = Some(&self.first).filter(|first| **first != NONE);
        first.into_iter().chain(self.others.iter().flat_map(|others| others.iter()))
    }

    fn len(&self) -> usize {
        self.iter().count()
    }
}

/// One direction of a queue pair, on whatever links it was seen.
#[derive(Clone, Debug)]
struct Direction {
    key: PeerKey,
    /// Slots of its flows, one for each link.
    slots: Slots,
    /// Source port, once a packet other than a CNP has passed.
    port: Option<u16>,
    /// Next direction with the same hosts and port.
    next: u32,
    /// The other direction, where it was seen.
    pair: u32,
    how: Option<PairingEvidence>,
    peer_qp: u32,
    /// Connection management said different things.
    doubtful: bool,
    /// With a shared port: acknowledgements that agree, and those that do not.
    agreed: u8,
    disagreed: u8,
    /// A shared port turned out to be chance.
    barred: bool,
    /// For whom its responses speak, and how often they did.
    vote_for: u32,
    votes: u8,
    vote_psn: u32,
    /// Latest request with an answer to come.
    last_psn: u32,
}

impl Direction {
    fn settled(&self) -> bool {
        match self.how {
            None => false,
            Some(PairingEvidence::SharedPort) => self.agreed >= AGREEMENTS,
            Some(_) => true,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    direction: u32,
    /// Slot of the flow with the answers.
    reverse: u32,
    link: u16,
    /// The queue pair at the other end is known.
    paired: bool,
    /// Only PSNs may still tell something.
    decided: bool,
    /// Nothing is left to find out.
    settled: bool,
}

const FREE: Slot =
    Slot { direction: NONE, reverse: NONE, link: 0, paired: false, decided: false, settled: false };

/// The other direction of a flow, at the time of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reverse {
    /// Slot of the flow with the answers to this one, or the requests that this one answers; [`NONE`]
    /// when no such flow has been seen with the same clock.
    pub slot: u32,
    /// It is known which queue pair that is.
    pub paired: bool,
}

/// True if the PSN of a packet may show which flow it belongs to: a request with an answer to come, or the
/// first packet of an answer.
fn says_something(packet: &Packet) -> bool {
    let op = Op::of(packet.opcode);
    op.has(Op::ACKNOWLEDGE) || op.has(Op::RESPONSE | Op::STARTS) || latency::is_timed(op, packet.ack_req())
}

/// Hosts and source port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PortKey {
    hosts: PeerKey,
    port: u16,
}

impl PortKey {
    fn of(key: &PeerKey, port: u16) -> Self {
        Self { hosts: PeerKey { dest_qp: 0, ..*key }, port }
    }
}

fn reversed(key: &PeerKey, dest_qp: u32) -> PeerKey {
    PeerKey { family: key.family, src: key.dst, dst: key.src, dest_qp }
}

/// Finds pairs packet by packet.
#[derive(Debug, Default)]
pub struct Pairing {
    slots: Vec<Slot>,
    directions: Vec<Direction>,
    free: Vec<u32>,
    /// Directions by key.
    index: Index,
    /// The latest direction with hosts and port; the others follow by [`Direction::next`].
    ports: Index,
    places: Vec<Option<Place>>,
    taps: Vec<String>,
    peers: Peers,
    setups: setups::Collector,
    outstanding: Outstanding,
}

impl Pairing {
    /// Takes in a packet and gives what is known at it of its flow's other direction.
    #[inline(always)]
    pub fn packet(&mut self, packet: &Packet, extras: Option<&PacketExtras>) -> Reverse {
        const SELDOM: u16 = Event::NEW_FLOW | Event::RESTART | Event::GSI;
        if let Some(slot) = self.slots.get(packet.slot as usize)
            && packet.outcome.events & SELDOM == 0
            && (slot.settled || (slot.decided && !says_something(packet)))
        {
            return Reverse { slot: slot.reverse, paired: slot.paired };
        }
        self.unsettled(packet, extras);
        self.reverse(packet.slot)
    }

    /// True if packets in the middle of messages tell nothing more about the flow of a slot.
    #[must_use]
    pub fn is_decided(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|slot| slot.settled || slot.decided)
    }

    /// The other direction of a slot's flow, as known so far.
    pub fn reverse(&self, slot: u32) -> Reverse {
        let slot = self.slots.get(slot as usize).unwrap_or(&FREE);
        Reverse { slot: slot.reverse, paired: slot.paired }
    }

    /// The pair of the flow of a slot, as known so far.
    pub fn pair(&self, slot: u32) -> Option<Pair> {
        let slot = self.slots.get(slot as usize)?;
        let direction = self.directions.get(slot.direction as usize)?;
        let how = direction.how?;
        let confidence = match how {
            PairingEvidence::Device | PairingEvidence::Cm | PairingEvidence::Datagram => Confidence::Certain,
            PairingEvidence::PortRule | PairingEvidence::PortIsQp => Confidence::Strong,
            PairingEvidence::SharedPort if direction.agreed >= AGREEMENTS => Confidence::Strong,
            PairingEvidence::SharedPort | PairingEvidence::Psn => Confidence::Likely,
        };
        Some(Pair {
            peer_qp: (!direction.doubtful).then_some(direction.peer_qp),
            how,
            confidence,
            reverse: (slot.reverse != NONE).then_some(slot.reverse),
        })
    }

    /// Everything known, by slot.
    pub fn pairs(&self) -> BySlot {
        let slots = (0u32..).zip(&self.slots).filter(|(_, slot)| slot.direction != NONE);
        let mut pairs: Vec<_> = slots.filter_map(|(number, _)| Some((number, self.pair(number)?))).collect();
        pairs.shrink_to_fit();
        BySlot(pairs)
    }

    #[inline(never)]
    fn unsettled(&mut self, packet: &Packet, extras: Option<&PacketExtras>) {
        let op = Op::of(packet.opcode);
        let link = packet.link;
        if let Some(extras) = extras
            && !self.places.get(usize::from(link)).is_some_and(Option::is_some)
        {
            let place = Place { tap: self.tap_number(&extras.tap), interface: extras.interface };
            self.link(link, place);
        }
        if packet.outcome.events & Event::GSI != 0
            && let Some(extras) = extras
        {
            let frame = &extras.frame;
            let bytes = (&extras.data[..], frame.bth_offset as usize);
            self.management(frame.family, (frame.src, frame.dst), bytes, packet.time_ns);
        }
        // Neither datagrams nor CNPs use the connection's port.
        let connected = op.any(Op::REQUEST | Op::RESPONSE | Op::ACKNOWLEDGE);
        let port = (connected && packet.src_port != 0).then_some(packet.src_port);
        let new = packet.outcome.events & Event::NEW_FLOW != 0;
        let restart = packet.outcome.events & Event::RESTART != 0 && op.has(Op::REQUEST);
        if let Some(extras) = extras {
            self.flow(packet.slot, &extras.key, port, new, restart);
        } else {
            self.goes_on(packet.slot, port, restart);
        }
        if says_something(packet) {
            self.evidence(packet);
        }
        let Some(slot) = self.slots.get_mut(packet.slot as usize) else { return };
        let direction = self.directions.get(slot.direction as usize);
        slot.decided = direction.is_none_or(|direction| direction.port.is_some());
        slot.paired = direction.is_some_and(|direction| direction.how.is_some());
        // Datagrams name their sender themselves.
        slot.settled = op.has(Op::DETH) || direction.is_some_and(Direction::settled);
    }

    /// A datagram to QP 1 from one host to another, its bytes and where its BTH is: it may name both ends of a
    /// connection.
    pub fn management(
        &mut self,
        family: u8,
        hosts: (Addr, Addr),
        (bytes, bth_offset): (&[u8], usize),
        now_ns: u64,
    ) {
        let Some(message) = cm::read(&bytes, bth_offset) else { return };
        self.setups.message(family, hosts, &message, now_ns);
        if let Some(stated) = self.peers.message(family, hosts, &message) {
            self.stated(&stated);
        }
    }

    /// Connection set-ups so far.
    pub fn setups(&self) -> Setups {
        self.setups.metrics()
    }

    /// Queue pairs that connection management has named so far.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The device says which queue pair sends in the direction of the flow in a slot.
    pub fn device(&mut self, slot: u32, peer_qp: u32) {
        let direction = self.slots.get(slot as usize).map_or(NONE, |slot| slot.direction);
        let Some(known) = self.directions.get(direction as usize) else { return };
        let key = known.key;
        if known.how != Some(PairingEvidence::Device) || known.peer_qp != peer_qp || known.pair == NONE {
            self.by_name(direction, &key, peer_qp, true, PairingEvidence::Device);
        }
    }

    /// Says where a link is. Needed before flows of the link are taken in.
    pub fn link(&mut self, link: u16, place: Place) {
        let at = usize::from(link);
        if self.places.len() <= at {
            self.places.resize(at + 1, None);
        }
        if let Some(known) = self.places.get_mut(at) {
            *known = Some(place);
        }
    }

    fn tap_number(&mut self, name: &str) -> u32 {
        let at = self.taps.iter().position(|tap| tap == name).unwrap_or_else(|| {
            self.taps.push(name.to_owned());
            self.taps.len() - 1
        });
        u32::try_from(at).unwrap_or(NONE)
    }

    /// A flow in a slot, with the source port of a packet that belongs to a connection, if there was
    /// one. `new`: the slot is used for the first time, or again. `restart`: its queue pair number
    /// is in use again.
    ///
    /// Enough for pairs by connection management and by port; a source that sees flows and no
    /// packets calls this alone.
    pub fn flow(&mut self, number: u32, key: &FlowKey, port: Option<u16>, new: bool, restart: bool) {
        let at = number as usize;
        if self.slots.len() <= at {
            self.slots.resize(at + 1, FREE);
        }
        let stale = self.slots.get(at).is_some_and(|slot| new && slot.direction != NONE);
        if stale {
            self.retired(number);
        }
        let Some(slot) = self.slots.get(at).copied() else { return };
        if slot.direction != NONE || self.join(number, key).is_some() {
            self.goes_on(number, port, restart);
        }
    }

    /// A packet came of a flow that is known: from `port`, or after a sequence number that starts anew.
    fn goes_on(&mut self, number: u32, port: Option<u16>, restart: bool) {
        let Some(Slot { direction, .. }) = self.slots.get(number as usize).copied() else { return };
        if restart
            && self.directions.get(direction as usize).is_some_and(|d| d.how < Some(PairingEvidence::Cm))
        {
            self.unpair(direction);
            self.set_port(direction, None);
        }
        if port.is_some() && self.directions.get(direction as usize).is_some_and(|d| d.port.is_none()) {
            self.set_port(direction, port);
            self.decide(direction);
        }
    }

    /// Adds a slot to its direction, which may be new.
    fn join(&mut self, number: u32, key: &FlowKey) -> Option<u32> {
        let peer_key = PeerKey::of(key);
        let direction = match self.with_key(&peer_key) {
            Some(direction) => direction,
            None => self.add(peer_key)?,
        };
        *self.slots.get_mut(number as usize)? = Slot { direction, link: key.link, ..FREE };
        let known = self.directions.get_mut(direction as usize)?;
        known.slots.push(number);
        if known.slots.len() == 1 {
            self.decide(direction);
        }
        self.settle(direction);
        self.resolve(direction);
        Some(direction)
    }

    /// The direction with this key.
    fn with_key(&self, key: &PeerKey) -> Option<u32> {
        self.index.get(key, |number| Some(self.directions.get(number as usize)?.key))
    }

    fn add(&mut self, key: PeerKey) -> Option<u32> {
        if self.index.len() >= MAX_DIRECTIONS {
            return None;
        }
        let direction = Direction {
            key,
            slots: Slots::default(),
            port: None,
            next: NONE,
            pair: NONE,
            how: None,
            peer_qp: UNKNOWN,
            doubtful: false,
            agreed: 0,
            disagreed: 0,
            barred: false,
            vote_for: NONE,
            votes: 0,
            vote_psn: UNKNOWN,
            last_psn: UNKNOWN,
        };
        let number = if let Some(number) = self.free.pop() {
            *self.directions.get_mut(number as usize)? = direction;
            number
        } else {
            self.directions.push(direction);
            u32::try_from(self.directions.len() - 1).ok()?
        };
        let directions = &self.directions;
        self.index.insert(&key, number, |number| Some(directions.get(number as usize)?.key));
        Some(number)
    }

    /// The flow of a slot was retired.
    pub fn retired(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number as usize) else { return };
        let direction = std::mem::replace(slot, FREE).direction;
        let Some(gone) = self.directions.get_mut(direction as usize) else { return };
        gone.slots.remove(number);
        let (empty, key, pair) = (gone.slots.len() == 0, gone.key, gone.pair);
        if let Some(pair) = self.directions.get_mut(pair as usize) {
            // The other direction still knows who it was.
            if empty {
                pair.pair = NONE;
            }
            for slot in pair.slots.iter() {
                if let Some(slot) = self.slots.get_mut(*slot as usize).filter(|s| s.reverse == number) {
                    slot.reverse = NONE;
                }
            }
        }
        if empty {
            self.set_port(direction, None);
            self.index.remove(&key, direction);
            self.free.push(direction);
        } else {
            self.resolve(direction);
        }
    }
}

mod decide;
