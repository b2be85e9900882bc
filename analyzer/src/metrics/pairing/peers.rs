//! The queue pairs at both ends of a connection, from connection management.
//!
//! A RoCE packet names its destination queue pair only. A request (REQ) and a reply (REP) on
//! queue pair 1, with which two hosts connect, name both.

use std::collections::VecDeque;

use rocescope_common::wire::cm::{self, Message, Req};
use rocescope_common::wire::frame::Addr;

use crate::entity::PeerKey;
use crate::util::map::Map;

/// Requests that may wait for their reply; a new one replaces the oldest.
const MAX_REQUESTS: usize = 16_384;
/// Directions of connections that are kept, at most.
const MAX_PEERS: usize = 1 << 20;

/// A connection request: its two hosts and its communication id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Request {
    family: u8,
    from: Addr,
    to: Addr,
    id: u32,
}

/// Peers from connection establishment.
#[derive(Debug, Default)]
pub struct Peers {
    requests: Map<Request, u32>,
    order: VecDeque<Request>,
    known: Map<PeerKey, u32>,
    /// The latest queue pair of directions that had another one before.
    ambiguous: Map<PeerKey, u32>,
}

/// The direction to a queue pair, and the queue pair that sends in it.
pub type KnownPeer = (PeerKey, u32);

impl Peers {
    /// Reads the datagram whose BTH is at `bth_offset` of `bytes`; anything but a REQ or REP changes nothing. Returns
    /// the queue pairs of both directions once a connection is complete.
    pub fn observe(
        &mut self,
        family: u8,
        src: Addr,
        dst: Addr,
        bytes: &[u8],
        bth_offset: usize,
    ) -> Option<[KnownPeer; 2]> {
        self.message(family, (src, dst), &cm::read(&bytes, bth_offset)?)
    }

    /// The same with the message itself.
    pub fn message(
        &mut self,
        family: u8,
        (src, dst): (Addr, Addr),
        message: &Message,
    ) -> Option<[KnownPeer; 2]> {
        match *message {
            Message::Req(Req { local_id, local_qp, .. }) => {
                let request = Request { family, from: src, to: dst, id: local_id };
                if self.requests.insert(request, local_qp).is_none() {
                    self.order.push_back(request);
                    if self.order.len() > MAX_REQUESTS
                        && let Some(oldest) = self.order.pop_front()
                    {
                        self.requests.remove(&oldest);
                    }
                }
                None
            }
            Message::Rep { remote_id, local_qp, .. } => {
                // The request stays: a lost reply is retransmitted.
                let request = Request { family, from: dst, to: src, id: remote_id };
                let requester = self.requests.get(&request).copied()?;
                let stated = [
                    (PeerKey { family, src: dst, dst: src, dest_qp: local_qp }, requester),
                    (PeerKey { family, src, dst, dest_qp: requester }, local_qp),
                ];
                for (key, qp) in stated {
                    self.insert(key, qp);
                }
                Some(stated)
            }
            _ => None,
        }
    }

    fn insert(&mut self, key: PeerKey, qp: u32) {
        if let Some(latest) = self.ambiguous.get_mut(&key) {
            *latest = qp;
        } else if let Some(before) = self.known.get(&key).copied() {
            if before != qp {
                self.known.remove(&key);
                self.ambiguous.insert(key, qp);
            }
        } else if self.known.len() + self.ambiguous.len() < MAX_PEERS {
            self.known.insert(key, qp);
        }
    }

    /// The source queue pair by direction. Queue pairs whose number was reused for another connection are left out.
    pub fn peers(&self) -> &Map<PeerKey, u32> {
        &self.known
    }

    /// The latest source queue pair of a direction, and whether there was never another one.
    pub fn latest(&self, key: &PeerKey) -> Option<(u32, bool)> {
        let sure = self.known.get(key).map(|qp| (*qp, true));
        sure.or_else(|| self.ambiguous.get(key).map(|qp| (*qp, false)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Addr = [0, 0, 0, 1];
    const B: Addr = [0, 0, 0, 2];

    fn datagram(attribute: u16, words: &[(usize, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; 20 + 24 + 232];
        bytes[0] = 0x64;
        bytes[21] = 7;
        bytes[36..38].copy_from_slice(&attribute.to_be_bytes());
        for (at, word) in words {
            bytes[44 + at..48 + at].copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn a_connection_names_both_ends() {
        let mut peers = Peers::default();
        let rep = datagram(0x13, &[(0, 77), (4, 42), (12, 0x22 << 8)]);
        peers.observe(4, B, A, &rep, 0);
        assert!(peers.peers().is_empty(), "a reply to a request that was not seen");
        peers.observe(4, A, B, &datagram(0x10, &[(0, 42), (32, 0x11 << 8)]), 0);
        peers.observe(4, A, B, &rep, 0);
        assert!(peers.peers().is_empty(), "a reply from the wrong end");
        peers.observe(4, B, A, &rep, 0);
        let get = |src, dst, dest_qp| peers.peers().get(&PeerKey { family: 4, src, dst, dest_qp }).copied();
        assert_eq!((get(A, B, 0x22), get(B, A, 0x11)), (Some(0x11), Some(0x22)));
        assert_eq!(peers.peers().len(), 2);
    }

    #[test]
    fn a_number_that_is_used_again_names_no_one_peer() {
        let mut peers = Peers::default();
        for (id, requester) in [(1, 0x11), (2, 0x12), (3, 0x12)] {
            peers.observe(4, A, B, &datagram(0x10, &[(0, id), (32, requester << 8)]), 0);
            peers.observe(4, B, A, &datagram(0x13, &[(4, id), (12, 0x22 << 8)]), 0);
        }
        let key = PeerKey { family: 4, src: A, dst: B, dest_qp: 0x22 };
        assert_eq!((peers.peers().get(&key), peers.latest(&key)), (None, Some((0x12, false))));
        let back = PeerKey { family: 4, src: B, dst: A, dest_qp: 0x12 };
        assert_eq!(peers.latest(&back), Some((0x22, true)));
    }

    #[test]
    fn requests_without_reply_stay_bounded() {
        let mut peers = Peers::default();
        for id in 0..40_000 {
            peers.observe(4, A, B, &datagram(0x10, &[(0, id), (32, id << 8)]), 0);
        }
        assert_eq!((peers.requests.len(), peers.order.len()), (MAX_REQUESTS, MAX_REQUESTS));
        peers.observe(4, B, A, &datagram(0x13, &[(4, 39_999), (12, 5 << 8)]), 0);
        assert_eq!(peers.peers().len(), 2);
    }
}
