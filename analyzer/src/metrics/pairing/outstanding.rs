//! Outstanding requests of unpaired flows by PSN: for connections whose ports say nothing.

use std::hash::{BuildHasher as _, Hasher as _};

use crate::entity::PeerKey;
use crate::util::definition::definitions;
use crate::util::map::State;

/// Places: requests of unpaired flows that are remembered at a time.
const PLACES: usize = 1 << 14;

definitions! {
    WINDOW_NS: u64 = 100_000_000,
        "Time after which a request of unpaired flows waits no longer for its response, in nanoseconds",
        "No response to it is on its way then";
}

#[derive(Clone, Copy, Debug)]
struct WaitingRequest {
    hash: u64,
    direction: u32,
    at_ns: u64,
}

/// No flow has a request with this PSN outstanding.
const NO_REQUESTER: u32 = u32::MAX;
/// More than one flow waits for this PSN.
const SEVERAL: u32 = u32::MAX - 1;

/// Requester of an outstanding request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requester {
    None,
    /// Requests of one direction alone.
    One(u32),
    Several,
}

/// Recent requests by (hosts, PSN). A fixed number of places; a later request takes an older one's.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    places: Vec<WaitingRequest>,
    hasher: State,
}

impl Outstanding {
    /// A request with this PSN went in `direction`, which has the key `key`.
    pub(super) fn request(&mut self, key: &PeerKey, psn: u32, direction: u32, now_ns: u64) {
        if self.places.is_empty() {
            self.places = vec![WaitingRequest { hash: 0, direction: NO_REQUESTER, at_ns: 0 }; PLACES];
        }
        let hash = self.hash(key.family, &key.src, &key.dst, psn);
        let Some(place) = self.places.get_mut(place(hash)) else { return };
        let same = place.hash == hash && place.direction != NO_REQUESTER && recent(place, now_ns);
        let direction = if same && place.direction != direction { SEVERAL } else { direction };
        *place = WaitingRequest { hash, direction, at_ns: now_ns };
    }

    /// Requester of the response that goes as `key` says.
    pub(super) fn answered(&self, key: &PeerKey, psn: u32, now_ns: u64) -> Requester {
        let hash = self.hash(key.family, &key.dst, &key.src, psn);
        let known = |place: &&WaitingRequest| place.hash == hash && recent(place, now_ns);
        match self.places.get(place(hash)).filter(known).map_or(NO_REQUESTER, |place| place.direction) {
            NO_REQUESTER => Requester::None,
            SEVERAL => Requester::Several,
            direction => Requester::One(direction),
        }
    }

    fn hash(&self, family: u8, src: &[u32; 4], dst: &[u32; 4], psn: u32) -> u64 {
        let mut state = self.hasher.build_hasher();
        for words in [src, dst] {
            state.write_u64(u64::from(words[0]) | u64::from(words[1]) << 32);
            state.write_u64(u64::from(words[2]) | u64::from(words[3]) << 32);
        }
        state.write_u64(u64::from(psn) | u64::from(family) << 32);
        state.finish()
    }
}

fn place(hash: u64) -> usize {
    usize::try_from(hash % PLACES as u64).unwrap_or_default()
}

fn recent(place: &WaitingRequest, now_ns: u64) -> bool {
    now_ns.saturating_sub(place.at_ns) <= WINDOW_NS
}
