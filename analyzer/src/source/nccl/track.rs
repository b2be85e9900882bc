//! Evaluates successive responses. A single one is weak evidence: collectives outrun the query, so that healthy ranks
//! differ by one or two. A rank whose count stays unchanged behind the others in successive responses makes them
//! wait.

use std::collections::BTreeMap;

use crate::entity::nccl::{Answer, CommId, Communicator, Event, Nccl, Rank};

/// A communicator that is missing from responses for this long is gone. Several jobs on a host share the port, and
/// the kernel chooses which one responds.
const GONE_NS: u64 = 120_000_000_000;
/// The same in query intervals, if that is longer.
const GONE_QUERIES: u64 = 3;
/// Maximum number of communicators and ranks kept.
const MAX_COMMUNICATORS: usize = 4_096;
const MAX_RANKS: usize = 65_536;
/// Maximum number of events kept.
const MAX_EVENTS: usize = 256;

/// State from all responses so far.
#[derive(Debug, Default)]
pub struct Track {
    known: Nccl,
    communicators: BTreeMap<CommId, Communicator>,
}

impl Track {
    /// A state before the first query, with the address and interval of queries.
    pub fn new(address: String, interval_ns: u64) -> Self {
        let known = Nccl { address, interval_ns, ..Nccl::default() };
        Self { known, communicators: BTreeMap::new() }
    }

    /// Records a query without a response.
    pub fn failed(&mut self, why: String) {
        self.known.failures += 1;
        self.known.unavailable = Some(why);
    }

    /// Adds a response received at `now_ns`.
    pub fn answered(&mut self, mut answer: Answer, now_ns: u64) {
        for mut one in std::mem::take(&mut answer.listed) {
            let before = self.communicators.get(&one.id);
            one.seen_ns = now_ns;
            compare(&mut one, before, now_ns);
            if before.is_some() || self.communicators.len() < MAX_COMMUNICATORS {
                self.communicators.insert(one.id, one);
            }
        }
        let patience = GONE_NS.max(self.known.interval_ns.saturating_mul(GONE_QUERIES));
        // Text responses name a communicator only while it has a problem.
        self.communicators.retain(|_, one| {
            one.seen_ns == now_ns || answer.whole && one.seen_ns.saturating_add(patience) > now_ns
        });
        let known = &mut self.known;
        known.answers += 1;
        (known.answered_ns, known.unavailable) = (Some(now_ns), None);
        known.latest = answer;
        let mut room = MAX_RANKS;
        known.communicators = self.communicators.values().cloned().collect();
        for one in &mut known.communicators {
            one.ranks.truncate(room);
            room -= one.ranks.len();
        }
    }

    /// Adds an event; if the list is full, the oldest one is dropped.
    pub fn happened(&mut self, event: Event) {
        if self.known.events.len() == MAX_EVENTS {
            self.known.events.remove(0);
            self.known.events_left_out += 1;
        }
        self.known.events.push(event);
    }

    /// State from all responses and events so far.
    pub fn known(&self) -> Nccl {
        self.known.clone()
    }
}

/// Determines since when each rank has been in its state.
fn compare(now: &mut Communicator, before: Option<&Communicator>, now_ns: u64) {
    let earlier: BTreeMap<u32, &Rank> =
        before.into_iter().flat_map(|one| &one.ranks).map(|rank| (rank.rank, rank)).collect();
    for rank in &mut now.ranks {
        let was = earlier.get(&rank.rank).filter(|was| was.process == rank.process);
        let same = was.filter(|was| (was.state, was.error) == (rank.state, rank.error));
        rank.state_since_ns = same.map_or(now_ns, |was| was.state_since_ns);
        let still = was.filter(|was| was.launched == rank.launched).and_then(|was| was.behind_since_ns);
        rank.behind_since_ns = (rank.behind(&now.furthest) > 0).then(|| still.unwrap_or(now_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::nccl::{Launched, RankState};
    use crate::source::nccl::text;

    use crate::util::time::NS_PER_S as SECOND;

    fn answer(hash: u64, counts: &[u64]) -> Answer {
        let launched = |count: &u64| Launched::from([None, None, None, None, Some(*count), None]);
        let ranks = (0..).zip(counts).map(|(number, count)| Rank {
            state: Some(RankState::Running),
            launched: launched(count),
            ..Rank::new(number)
        });
        let id = CommId { hash, secondary: None };
        let furthest = launched(counts.iter().max().unwrap_or(&0));
        let one = Communicator { id, size: None, furthest, ranks: ranks.collect(), seen_ns: 0 };
        Answer { whole: true, communicators: 1, listed: vec![one], ..Answer::default() }
    }

    fn behind(track: &Track, rank: usize) -> Option<u64> {
        track.known().communicators[0].ranks[rank].behind_since_ns.map(|ns| ns / SECOND)
    }

    #[test]
    fn a_rank_is_behind_since_it_stands_still_behind_others() {
        let mut track = Track::new("localhost:28028".into(), SECOND);
        for (at, counts, expected) in [
            (10, [5, 5], None),
            // The other rank advanced; this one stood still before, which is no evidence.
            (20, [5, 6], Some(20)),
            (30, [5, 6], Some(20)),
            (40, [5, 9], Some(20)),
            // It advanced: it is slow, but the others do not wait forever.
            (50, [6, 9], Some(50)),
            (60, [9, 9], None),
        ] {
            track.answered(answer(1, &counts), at * SECOND);
            assert_eq!((behind(&track, 0), behind(&track, 1)), (expected, None), "{at}");
        }
    }

    #[test]
    fn jobs_that_share_the_port_are_kept_apart_and_forgotten() {
        let mut track = Track::new("localhost:28028".into(), SECOND);
        track.answered(answer(1, &[5, 6]), 10 * SECOND);
        track.answered(answer(2, &[1, 1]), 20 * SECOND);
        track.failed("no answer in time".into());
        track.answered(answer(1, &[5, 6]), 30 * SECOND);
        assert_eq!((track.known().communicators.len(), behind(&track, 0)), (2, Some(10)));
        assert_eq!((track.known().answers, track.known().failures, track.known().unavailable), (3, 1, None));
        track.answered(answer(3, &[1]), 30 * SECOND + GONE_NS);
        assert_eq!(track.known().communicators.len(), 1);
    }

    #[test]
    fn text_names_a_communicator_only_while_something_is_wrong() {
        let mut track = Track::new("localhost:28028".into(), SECOND);
        let wrong = crate::source::nccl::server::TEXT_2_27;
        track.answered(text::answer(wrong.as_bytes()), 10 * SECOND);
        track.answered(text::answer(wrong.as_bytes()), 20 * SECOND);
        assert_eq!(behind(&track, 1), Some(10));
        track.answered(text::answer(b""), 30 * SECOND);
        assert_eq!(track.known().communicators, []);
    }
}
