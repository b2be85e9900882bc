//! Loss upstream of a tap, where another tap further upstream saw the packets.
//!
//! From PSNs alone a tap counts reordered packets that are retransmitted as lost, and does not see a retransmission
//! that is lost again. The packets that one tap saw and the other did not are exact.

use rocescope_common::account::FlowKey;
use rocescope_common::wire::opcode::TRANSPORT_UC;

use super::missed::Missed;
use super::taps::{arrived, retransmitted};
use crate::metrics::loss::{Loss, Metrics};
use crate::metrics::taps::TapPair;
use crate::sample::{FlowSample, Sample, has_sequence};
use crate::util::definition::definitions;
use crate::util::map::{Map, Set};

definitions! {
    UNMATCHED: u64 = 1,
        "Maximum packets of a hundred at the second tap that the first may not have seen, for its losses to be known there",
        "A tap that saw only a part of the time knows nothing of the rest";
}

/// Packets lost upstream of the link of a flow, by its slot; flows known from PSNs alone are not in it. Every view
/// counts these.
pub(crate) fn lost(sample: &Sample) -> Map<u32, u64> {
    let mut lost = Map::default();
    let pairs = sample.metrics.taps.as_deref().unwrap_or_default();
    let Some(losses) = sample.metrics.loss.as_ref().filter(|_| !pairs.is_empty()) else { return lost };
    let ends = |pair: &TapPair| pair.links.map(|link| FlowKey { link, ..pair.key });
    let ordered = || pairs.iter().filter(|pair| pair.ordered);
    let behind: Set<FlowKey> = ordered().map(|pair| ends(pair)[1]).collect();
    let at: Map<FlowKey, &FlowSample> = sample.flows.iter().map(|flow| (flow.key, flow)).collect();
    let in_vain =
        |flow: &FlowSample| losses.flow(flow.slot).requests.is_some_and(|one| one.is_retried_in_vain());
    let arrived = |vanished: u64, [near, far]: [&FlowSample; 2], is_proof: bool| {
        let unfilled = sum(losses, far, |metrics| metrics.unfilled);
        arrived(vanished, unfilled, retransmitted(losses, [near, far]), is_proof)
    };
    let mut captures = Missed::default();
    for pair in ordered() {
        let [Some(one), Some(two)] = ends(pair).map(|end| at.get(&end)) else { continue };
        if has_sequence(&two.stats) && two.stats.transport != TRANSPORT_UC && !in_vain(one) {
            let missed = arrived(pair.only[0], [one, two], true);
            captures.note(two.key.link, pair.matched + missed, missed);
            captures.note(one.key.link, pair.matched + pair.only[1], pair.only[1]);
        }
    }
    for pair in ordered() {
        let [first, second] = ends(pair);
        let (Some(one), Some(two)) = (at.get(&first), at.get(&second)) else { continue };
        // The first of all taps shows every loss downstream.
        let unmatched = two.stats.packets.saturating_sub(pair.matched);
        if behind.contains(&first) || unmatched * 100 > two.stats.packets * UNMATCHED {
            continue;
        }
        let vanished = pair.only[0];
        let is_proof = two.stats.transport != TRANSPORT_UC && !in_vain(one);
        let mut missed = arrived(vanished, [one, two], is_proof);
        if is_proof && (two.stats.acks > 0 || !has_sequence(&two.stats)) {
            let lost = if has_sequence(&two.stats) { sum(losses, two, |metrics| metrics.lost) } else { 0 };
            let answers = (vanished - missed).saturating_sub(lost);
            let matched = if has_sequence(&two.stats) { two.stats.acks } else { pair.matched };
            missed += captures.answers(&two.key.link, (matched + answers, answers), 0);
        }
        lost.insert(two.slot, sum(losses, one, |metrics| metrics.lost) + vanished - missed);
    }
    lost
}

/// A counter of the requests and the responses in a flow.
fn sum(losses: &Loss, flow: &FlowSample, of: fn(&Metrics) -> u64) -> u64 {
    let reported = losses.flow(flow.slot);
    [reported.requests, reported.responses].iter().flatten().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::{key, link, sample as of, stats};
    use crate::metrics::loss::FlowLoss;

    /// A queue pair at three taps, lost and unfilled at each by its PSNs, and what pairs of taps saw.
    fn sample(by_psn: [(u64, u64); 3], pairs: &[([u16; 2], bool, u64, [u64; 2])]) -> Sample {
        let key = |tap| key(tap, "10.0.0.1", "10.0.0.2", 5);
        let links = ["a", "b", "c"].map(|name| link(name, None)).into();
        let mut sample = of(links, (0..3).map(|tap| (key(tap), stats(7, 1_000, 1_000_000))).collect());
        let mut loss = Loss::default();
        for (flow, (lost, unfilled)) in sample.flows.iter().zip(by_psn) {
            let requests = Some(Metrics { lost, unfilled, retransmitted: 1_000, ..Metrics::default() });
            loss.flows.insert(flow.slot, FlowLoss { requests, ..FlowLoss::default() });
        }
        sample.metrics.loss = Some(loss);
        let pair = |&(links, ordered, matched, only): &([u16; 2], bool, u64, [u64; 2])| TapPair {
            ordered,
            matched,
            only,
            ..TapPair::empty(key(links[0]), links)
        };
        sample.metrics.taps = Some(pairs.iter().map(pair).collect());
        sample
    }

    /// By tap; `None` where PSNs alone tell.
    fn at_taps(sample: &Sample) -> [Option<u64>; 3] {
        let lost = lost(sample);
        std::array::from_fn(|at| lost.get(&sample.flows[at].slot).copied())
    }

    #[test]
    fn loss_between_taps_is_exact_and_adds_to_the_gaps_of_the_first() {
        let there = [([0, 1], true, 1_000, [92, 0])];
        assert_eq!(at_taps(&sample([(0, 0), (87, 0), (0, 0)], &there)), [None, Some(92), None]);
        assert_eq!(at_taps(&sample([(3, 0), (87, 0), (0, 0)], &there)), [None, Some(95), None]);
        assert_eq!(at_taps(&sample([(0, 0), (80, 12), (0, 0)], &there)), [None, Some(80), None], "missed");
        let order = [([0, 1], true, 1_000, [0, 0])];
        assert_eq!(at_taps(&sample([(0, 0), (1, 0), (0, 0)], &order)), [None, Some(0), None]);
    }

    /// A READ request takes an unknown number of PSNs: one that a capture misses leaves no gap.
    #[test]
    fn no_more_requests_are_lost_than_are_retransmitted() {
        let of = |rereads: u64| {
            let mut sample = sample([(0, 0); 3], &[([0, 1], true, 1_000, [13, 0])]);
            let near = sample.flows[0].slot;
            let loss = sample.metrics.loss.as_mut().unwrap();
            loss.flows.get_mut(&near).unwrap().requests = Some(Metrics { rereads, ..Metrics::default() });
            at_taps(&sample)[1]
        };
        assert_eq!((of(0), of(2), of(20)), (Some(0), Some(2), Some(13)));
    }

    /// A capture that misses requests at random misses ACKs, too: these are not lost.
    #[test]
    fn acks_that_a_capture_misses_are_not_lost() {
        let of = |unfilled: u64, acks: u64| {
            let mut sample = sample([(0, 0), (0, unfilled), (0, 0)], &[([0, 1], true, 1_000, [unfilled, 0])]);
            let key = |tap| key(tap, "10.0.0.2", "10.0.0.1", 6);
            let (mut flows, slot) = (sample.flows.to_vec(), u32::try_from(sample.flows.len()).unwrap());
            for tap in 0..2 {
                let mut stats = stats(7, 800, 48_000);
                stats.psn = rocescope_common::account::PsnTrack::default();
                flows.push(FlowSample { slot: slot + u32::from(tap), key: key(tap), stats });
            }
            sample.flows = flows.into();
            let pair = TapPair { matched: 800, only: [acks, 0], ..TapPair::empty(key(0), [0, 1]) };
            sample.metrics.taps.as_mut().unwrap().push(pair);
            lost(&sample).get(&(slot + 1)).copied()
        };
        assert_eq!((of(20, 15), of(0, 15)), (Some(0), Some(15)));
    }

    #[test]
    fn what_a_sender_retries_in_vain_was_not_received() {
        for (stuck, lost) in [(1, 80), (2, 92)] {
            let mut sample = sample([(0, 0), (80, 12), (0, 0)], &[([0, 1], true, 1_000, [92, 0])]);
            let sender = sample.flows[0].slot;
            let loss = sample.metrics.loss.as_mut().unwrap();
            loss.flows.get_mut(&sender).unwrap().requests.as_mut().unwrap().stuck = stuck;
            assert_eq!(at_taps(&sample), [None, Some(lost), None], "{stuck}");
        }
    }

    #[test]
    fn of_three_taps_the_first_decides() {
        let all =
            [([0, 1], true, 1_000, [4, 0]), ([1, 2], true, 1_000, [5, 0]), ([0, 2], true, 1_000, [9, 0])];
        assert_eq!(at_taps(&sample([(1, 0), (3, 0), (7, 0)], &all)), [None, Some(5), Some(10)]);
    }

    #[test]
    fn psns_decide_where_the_other_tap_saw_a_part_or_the_order_is_unknown() {
        for pair in [([0, 1], true, 500, [9, 0]), ([0, 1], false, 1_000, [9, 8])] {
            assert_eq!(at_taps(&sample([(0, 0), (87, 0), (0, 0)], &[pair])), [None; 3]);
        }
        assert!(lost(&of(Vec::new(), Vec::new())).is_empty());
    }
}
