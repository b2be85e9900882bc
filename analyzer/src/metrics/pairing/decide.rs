//! Decides which flow answers which, from the evidence that was collected.

use rocescope_common::account::latency;
use rocescope_common::account::psn::WINDOW;
use rocescope_common::wire::bth::psn_distance;
use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::Op;

use super::outstanding::Requester;
use super::{
    DISAGREEMENTS, Direction, FROM_START, MAX_CANDIDATES, NONE, PSN_VOTES, Pairing, PairingEvidence, PortKey,
    reversed,
};
use crate::entity::PeerKey;
use crate::metrics::Packet;
use crate::metrics::pairing::peers::KnownPeer;
use crate::util::source_port;

fn port_key(directions: &[Direction], number: u32) -> Option<PortKey> {
    let direction = directions.get(number as usize)?;
    Some(PortKey::of(&direction.key, direction.port?))
}

impl Pairing {
    /// Connection management named the ends of a connection.
    pub(super) fn stated(&mut self, stated: &[KnownPeer; 2]) {
        for (key, _) in stated {
            if let Some(direction) = self.with_key(key) {
                self.decide(direction);
            }
        }
    }

    /// Looks for the other direction with all that is known of this one now.
    pub(super) fn decide(&mut self, number: u32) {
        let Some(direction) = self.directions.get(number as usize) else { return };
        let key = direction.key;
        if direction.how == Some(PairingEvidence::Device) {
            let qp = direction.peer_qp;
            return self.by_name(number, &key, qp, true, PairingEvidence::Device);
        }
        if let Some((qp, sure)) = self.peers.latest(&key) {
            return self.by_name(number, &key, qp, sure, PairingEvidence::Cm);
        }
        let Some(port) =
            direction.port.filter(|_| direction.how.is_none_or(|how| how < PairingEvidence::PortRule))
        else {
            return;
        };
        let x = key.dest_qp;
        let theirs = self.with_port(&reversed(&key, 0), port);
        let same = self.candidates(&key, &theirs, number);
        let both = one(same.iter().filter(|(_, y)| source_port::of_both(x, *y) == port));
        if let Some(other) = both {
            return self.set(number, other, PairingEvidence::PortRule);
        }
        let hashed = self.with_port(&reversed(&key, 0), source_port::of_sender(x));
        let hashed = self.candidates(&key, &hashed, number);
        if let Some(other) = one(hashed.iter().filter(|(_, y)| source_port::of_sender(*y) == port)) {
            return self.set(number, other, PairingEvidence::PortRule);
        }
        if let Some(other) = self.by_own_number(number, &key, port) {
            return self.set(number, other, PairingEvidence::PortIsQp);
        }
        // A port that several connections use says nothing about any of them.
        let mine = self.with_port(&key, port);
        if let ([_], [other]) = (mine.as_slice(), theirs.as_slice()) {
            let free = |number: u32| {
                self.directions.get(number as usize).is_some_and(|d| d.how.is_none() && !d.barred)
            };
            if *other != number && free(number) && free(*other) {
                self.set(number, *other, PairingEvidence::SharedPort);
            }
        } else {
            for number in mine.into_iter().chain(theirs) {
                if self
                    .directions
                    .get(number as usize)
                    .is_some_and(|d| d.how == Some(PairingEvidence::SharedPort))
                {
                    self.unpair(number);
                }
            }
        }
    }

    /// Connection management or the device named the queue pair at the other end.
    pub(super) fn by_name(&mut self, number: u32, key: &PeerKey, qp: u32, sure: bool, how: PairingEvidence) {
        let other = self.with_key(&reversed(key, qp)).filter(|other| *other != number);
        let now = self.directions.get(number as usize);
        let pair = now.map_or(NONE, |direction| direction.pair);
        if pair != NONE && Some(pair) != other {
            self.unpair(number);
        }
        if let Some(other) = other {
            self.set(number, other, how);
        }
        if let Some(direction) = self.directions.get_mut(number as usize) {
            direction.how = Some(how);
            direction.peer_qp = qp;
            direction.doubtful = !sure;
        }
        self.settle(number);
    }

    /// Ports that are queue pair numbers: both ways, or one way where no hash gives such a port.
    fn by_own_number(&self, number: u32, key: &PeerKey, port: u16) -> Option<u32> {
        let x = key.dest_qp;
        let mine_says = port < source_port::FIRST_HASHED_PORT;
        let from_them = self.with_port(&reversed(key, 0), source_port::is_sender(x));
        let from_them = self.candidates(key, &from_them, number);
        let both = one(from_them.iter().filter(|(_, y)| source_port::is_sender(*y) == port));
        if both.is_some() {
            return both;
        }
        if mine_says && let Some(other) = self.with_key(&reversed(key, u32::from(port))) {
            return Some(other).filter(|other| *other != number && self.open(*other, x));
        }
        // Their port is my destination, whatever mine is.
        if x < u32::from(source_port::FIRST_HASHED_PORT) { one(from_them.iter()) } else { None }
    }

    /// Those directions `back` between the same hosts that are not surely paired with another, and their destination
    /// queue pairs.
    fn candidates(&self, key: &PeerKey, back: &[u32], number: u32) -> Vec<(u32, u32)> {
        let open = back.iter().filter(|other| **other != number && self.open(**other, key.dest_qp));
        open.filter_map(|other| Some((*other, self.directions.get(*other as usize)?.key.dest_qp))).collect()
    }

    /// True if a direction could be the other one of a direction to `qp`.
    fn open(&self, number: u32, qp: u32) -> bool {
        self.directions.get(number as usize).is_some_and(|direction| {
            direction.how.is_none_or(|how| how < PairingEvidence::PortIsQp)
                || (direction.pair == NONE && direction.peer_qp == qp)
        })
    }

    fn with_port(&self, hosts: &PeerKey, port: u16) -> Vec<u32> {
        let mut found = Vec::new();
        let mut next = self.first_with(&PortKey::of(hosts, port));
        while let Some(direction) = self.directions.get(next as usize)
            && found.len() < MAX_CANDIDATES
        {
            found.push(next);
            next = direction.next;
        }
        found
    }

    pub(super) fn set_port(&mut self, number: u32, port: Option<u16>) {
        let Some(direction) = self.directions.get_mut(number as usize) else { return };
        let (key, old, next) = (direction.key, direction.port, direction.next);
        if let Some(old) = old {
            self.unchain(&PortKey::of(&key, old), number, next);
        }
        let head = port.map_or(NONE, |port| self.first_with(&PortKey::of(&key, port)));
        if let Some(direction) = self.directions.get_mut(number as usize) {
            (direction.port, direction.next) = (port, head);
        }
        if let Some(port) = port {
            let key = PortKey::of(&key, port);
            if head == NONE {
                let directions = &self.directions;
                self.ports.insert(&key, number, |number| port_key(directions, number));
            } else {
                self.ports.replace(&key, head, number);
            }
        }
    }

    /// The latest direction with these hosts and this port, or [`NONE`].
    fn first_with(&self, key: &PortKey) -> u32 {
        self.ports.get(key, |number| port_key(&self.directions, number)).unwrap_or(NONE)
    }

    fn unchain(&mut self, key: &PortKey, number: u32, next: u32) {
        let head = self.first_with(key);
        if head == number {
            if next == NONE {
                self.ports.remove(key, number);
            } else {
                self.ports.replace(key, number, next);
            }
            return;
        }
        let mut at = head;
        while let Some(direction) = self.directions.get_mut(at as usize) {
            if direction.next == number {
                direction.next = next;
                return;
            }
            at = direction.next;
        }
    }

    /// Pairs two directions, unless what is known of one of them is at least as good.
    fn set(&mut self, one: u32, other: u32, how: PairingEvidence) {
        let ends = |numbers: (u32, u32), directions: &[Direction]| {
            let (a, b) = (directions.get(numbers.0 as usize)?, directions.get(numbers.1 as usize)?);
            Some((a.key.dest_qp, b.key.dest_qp, a.pair, b.pair, a.how, b.how))
        };
        let Some((one_qp, other_qp, a, b, how_a, how_b)) = ends((one, other), &self.directions) else {
            return;
        };
        if how_a.max(how_b) == Some(how) && a == other && b == one {
            return;
        }
        for (number, pair) in [(one, a), (other, b)] {
            if pair != NONE {
                self.unpair(number);
            }
        }
        for (number, pair, qp) in [(one, other, other_qp), (other, one, one_qp)] {
            if let Some(direction) = self.directions.get_mut(number as usize) {
                direction.pair = pair;
                direction.peer_qp = qp;
                direction.how = Some(how);
                direction.agreed = 0;
                direction.disagreed = 0;
            }
        }
        self.settle(one);
        self.settle(other);
        self.resolve(one);
    }

    /// Forgets the other direction, in both.
    pub(super) fn unpair(&mut self, number: u32) {
        let pair = self.directions.get(number as usize).map_or(NONE, |direction| direction.pair);
        for number in [number, pair] {
            let Some(direction) = self.directions.get_mut(number as usize) else { continue };
            direction.pair = NONE;
            direction.how = None;
            direction.peer_qp = UNKNOWN;
            direction.votes = 0;
            direction.vote_for = NONE;
            for slot in direction.slots.iter() {
                if let Some(slot) = self.slots.get_mut(*slot as usize) {
                    slot.reverse = NONE;
                    slot.paired = false;
                    slot.settled = false;
                }
            }
        }
    }

    /// Flows of a direction about which everything is known need no second look.
    pub(super) fn settle(&mut self, number: u32) {
        let Some(direction) = self.directions.get(number as usize) else { return };
        let (paired, settled) = (direction.how.is_some(), direction.settled());
        for slot in direction.slots.iter() {
            if let Some(slot) = self.slots.get_mut(*slot as usize) {
                slot.paired = paired;
                slot.settled = settled;
            }
        }
    }

    /// Finds for the flows of both directions the nearest flow of the other one: on the same link,
    /// interface or at least tap. Times of different taps cannot be compared.
    pub(super) fn resolve(&mut self, number: u32) {
        let Some(one) = self.directions.get(number as usize) else { return };
        let Some(other) = self.directions.get(one.pair as usize) else { return };
        for (from, to) in [(&one.slots, &other.slots), (&other.slots, &one.slots)] {
            for slot in from.iter() {
                let link = self.slots.get(*slot as usize).map_or(0, |slot| slot.link);
                let near = to.iter().filter_map(|other| {
                    let nearness = self.nearness(link, self.slots.get(*other as usize)?.link);
                    (nearness > 0).then_some((nearness, *other))
                });
                // Of equal ones the first.
                let nearest = near.reduce(|best, next| if next.0 > best.0 { next } else { best });
                let reverse = nearest.map_or(NONE, |(_, slot)| slot);
                if let Some(slot) = self.slots.get_mut(*slot as usize) {
                    slot.reverse = reverse;
                }
            }
        }
    }

    fn nearness(&self, one: u16, other: u16) -> u8 {
        let place = |link: u16| self.places.get(usize::from(link)).copied().flatten();
        match (place(one), place(other)) {
            _ if one == other => 3,
            (Some(a), Some(b)) if a == b => 2,
            (Some(a), Some(b)) if a.tap == b.tap => 1,
            _ => 0,
        }
    }

    /// Takes the evidence of PSNs, if ports give none, or not enough.
    pub(super) fn evidence(&mut self, packet: &Packet) {
        let Some(slot) = self.slots.get(packet.slot as usize) else { return };
        let number = slot.direction;
        let Some(direction) = self.directions.get_mut(number as usize) else { return };
        if direction.settled() {
            return;
        }
        let op = Op::of(packet.opcode);
        if latency::is_timed(op, packet.ack_req()) {
            direction.last_psn = packet.psn;
            // Sequences that start at 0 do not distinguish queue pairs. Requests of a pair that is not certain
            // yet wait, too.
            if packet.first >= FROM_START {
                self.outstanding.request(&direction.key, packet.psn, number, packet.time_ns);
            }
            return;
        }
        let psn = latency::acked_psn(op, packet.psn, packet.aeth);
        // A NAK names what was not received; a later packet of a response, what no request has.
        if psn != packet.psn || psn == UNKNOWN || psn == direction.vote_psn {
            return;
        }
        direction.vote_psn = psn;
        if direction.how == Some(PairingEvidence::SharedPort) {
            self.check_shared(number, psn);
        } else if direction.how.is_none() {
            let key = direction.key;
            let waits = self.outstanding.answered(&key, psn, packet.time_ns);
            self.vote(number, waits, op.has(Op::RESPONSE));
        }
    }

    /// True if an acknowledgement fits the requests of the flow with the same port.
    fn check_shared(&mut self, number: u32, psn: u32) {
        let pair = self.directions.get(number as usize).map_or(NONE, |direction| direction.pair);
        let last = self.directions.get(pair as usize).map_or(UNKNOWN, |pair| pair.last_psn);
        if last == UNKNOWN {
            return;
        }
        let behind = |psn: u32, last: u32| psn_distance(psn, last) < WINDOW;
        let fits = behind(psn, last);
        // A responder may acknowledge packets that did not ask for it, and passed since: these are not followed.
        if !fits && behind(last, psn) {
            return;
        }
        let mut wrong = false;
        for number in [number, pair] {
            let Some(direction) = self.directions.get_mut(number as usize) else { continue };
            if fits {
                direction.agreed = direction.agreed.saturating_add(1);
            } else {
                direction.disagreed = direction.disagreed.saturating_add(1);
                wrong = direction.disagreed >= DISAGREEMENTS;
                direction.barred = wrong;
            }
        }
        if wrong {
            self.unpair(number);
        } else if fits {
            self.settle(number);
            self.settle(pair);
        }
    }

    /// An answer came, and these wait for it. A READ is never answered before it is asked: a response that nobody waits
    /// for speaks against all that came before.
    fn vote(&mut self, number: u32, waits: Requester, is_response: bool) {
        let is_free = |w: &u32| self.directions.get(*w as usize).is_some_and(|other| other.how.is_none());
        let waiting = match waits {
            Requester::One(direction) => Some(direction).filter(is_free),
            Requester::None | Requester::Several => None,
        };
        let Some(direction) = self.directions.get_mut(number as usize) else { return };
        match waiting {
            Some(waiting) if waiting == direction.vote_for => direction.votes += 1,
            Some(waiting) => (direction.vote_for, direction.votes) = (waiting, 1),
            None if is_response && waits == Requester::None => direction.votes = 0,
            None => direction.votes = direction.votes.saturating_sub(1),
        }
        if direction.votes >= PSN_VOTES {
            let other = direction.vote_for;
            self.set(number, other, PairingEvidence::Psn);
        }
    }
}

/// The only one, if it is.
fn one<'a>(mut found: impl Iterator<Item = &'a (u32, u32)>) -> Option<u32> {
    let (first, _) = found.next()?;
    found.next().is_none().then_some(*first)
}
