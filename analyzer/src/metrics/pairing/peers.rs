//! Which queue pair sends to which: what connection management says about it.
//!
//! A RoCE packet names only the queue pair it goes to. When two hosts connect, a request (REQ)
//! and a reply (REP) on queue pair 1 name both. Fed with such datagrams, this keeps the answer.

use std::collections::VecDeque;

use hashbrown::HashMap;
use rocescope_common::wire::cm::{self, Message};
use rocescope_common::wire::frame::Addr;

use crate::sample::PeerKey;

type State = foldhash::fast::RandomState;

/// Requests that may wait for their reply; the oldest is forgotten for a new one.
const MAX_REQUESTS: usize = 16_384;
/// Directions of connections that are remembered; more are not.
const MAX_PEERS: usize = 1 << 20;

/// A request: who asked whom, under which communication id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Request {
    family: u8,
    from: Addr,
    to: Addr,
    id: u32,
}

/// Follows connection set-ups.
#[derive(Debug, Default)]
pub struct Peers {
    requests: HashMap<Request, u32, State>,
    order: VecDeque<Request>,
    known: HashMap<PeerKey, u32, State>,
    /// The latest word on directions of which something else was said before.
    doubtful: HashMap<PeerKey, u32, State>,
}

/// A queue pair, as packets to it name it, and the one that sends to it.
pub type Stated = (PeerKey, u32);

impl Peers {
    /// Reads the datagram whose BTH is at `bth_offset` of `bytes`; anything that is no REQ or
    /// REP changes nothing. Gives what it says of the two directions of a connection.
    pub fn observe(
        &mut self,
        family: u8,
        src: Addr,
        dst: Addr,
        bytes: &[u8],
        bth_offset: usize,
    ) -> Option<[Stated; 2]> {
        match cm::read(&bytes, bth_offset) {
            Some(Message::Req { local_id, local_qp }) => {
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
            Some(Message::Rep { remote_id, local_qp, .. }) => {
                // The request stays: replies are repeated when they get lost.
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
            None => None,
        }
    }

    fn insert(&mut self, key: PeerKey, qp: u32) {
        if let Some(latest) = self.doubtful.get_mut(&key) {
            *latest = qp;
        } else if let Some(before) = self.known.get(&key).copied() {
            if before != qp {
                self.known.remove(&key);
                self.doubtful.insert(key, qp);
            }
        } else if self.known.len() + self.doubtful.len() < MAX_PEERS {
            self.known.insert(key, qp);
        }
    }

    /// The queue pair at the sending end, by the direction of the packets. One that was connected to
    /// several in turn, its number being used again, is not in it.
    #[must_use]
    pub fn peers(&self) -> &HashMap<PeerKey, u32, State> {
        &self.known
    }

    /// The queue pair that was last said to send in this direction, and whether that was always so.
    #[must_use]
    pub fn latest(&self, key: &PeerKey) -> Option<(u32, bool)> {
        let sure = self.known.get(key).map(|qp| (*qp, true));
        sure.or_else(|| self.doubtful.get(key).map(|qp| (*qp, false)))
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
