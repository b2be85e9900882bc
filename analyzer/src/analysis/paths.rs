//! Links that see the same packets: taps along one path, the two ends of a cable, both sides of a router.
//!
//! The queue pairs that they have in common show it. Links that share a load have none in
//! common, or, where a fabric sprays packets, each misses what the others carry.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rocescope_common::account::PsnTrack;
use rocescope_common::wire::bth::{MASK24, psn_distance};
use rocescope_common::wire::frame::Addr;
use serde::Serialize;

use crate::sample::{FlowSample, Sample, Stats};
use crate::util::definition::definitions;
use crate::util::map::Map;

/// A direction of a queue pair, wherever it is seen: family, source, destination, destination queue pair.
type Name = (u8, Addr, Addr, u32);

definitions! {
    PART: f64 = 0.3,
        "Minimum share of a flow's PSNs that a link misses for good, for it to be one of several that share its packets",
        "No reliable connection survives such a loss, and of two links that share its packets each misses one half";
}

/// Links on which one queue pair is compared, pair by pair; seen on more, each link counts for itself. More than the
/// taps and the planes of any fabric, and a bound on the time that a made-up capture takes.
pub(super) const MAX_OBSERVATIONS: usize = 512;

/// Flows that are counted on more than one link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Of each flow of the sample. Empty where each queue pair is on one link alone.
    observations: Vec<Observation>,
    /// Links that count the same packets, at most; 1 when each packet is counted once.
    pub taps: usize,
}

/// One flow among those of its queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Observation {
    /// The flow that speaks for its packets: that of the link which saw most of them, maybe itself.
    speaker: u32,
    /// The flow of the queue pair that comes first in the sample, be its packets the same or not.
    first: u32,
}

impl Overlap {
    /// Finds the flows that `sample` counts on more than one link.
    pub fn of(sample: &Sample) -> Self {
        let mut overlap = Self { observations: Vec::new(), taps: 1 };
        let several = several(sample);
        if !several.is_empty() {
            let alone = (0u32..).zip(&sample.flows).map(|(at, _)| Observation { speaker: at, first: at });
            overlap.observations = alone.collect();
        }
        for mut observations in several.into_values() {
            let first = observations.first().and_then(|at| u32::try_from(*at).ok());
            // The link that saw most speaks for the queue pair; of those that saw the same, the first.
            observations.sort_by_key(|at| {
                let flow = sample.flows.get(*at);
                flow.map(|flow| (Reverse(flow.stats.bytes), flow.key.link))
            });
            let mut counted: Vec<(&FlowSample, u32, usize)> = Vec::new();
            for at in observations {
                let (Some(flow), Ok(number)) = (sample.flows.get(at), u32::try_from(at)) else { continue };
                let speaker = match counted.iter_mut().find(|(first, ..)| same(&first.stats, &flow.stats)) {
                    None => {
                        counted.push((flow, number, 1));
                        number
                    }
                    Some((_, speaker, taps)) => {
                        *taps += 1;
                        overlap.taps = overlap.taps.max(*taps);
                        *speaker
                    }
                };
                if let Some(observation) = overlap.observations.get_mut(at) {
                    *observation = Observation { speaker, first: first.unwrap_or(number) };
                }
            }
        }
        overlap
    }

    /// True if the packets of flow number `at` of the sample are counted on another link too.
    pub fn is_duplicate(&self, at: usize) -> bool {
        self.speaker(at) != at
    }

    /// True if every queue pair is on one link alone.
    pub const fn is_empty(&self) -> bool {
        self.observations.is_empty()
    }

    /// The flow that speaks for the packets of flow number `at`: the one on the link that saw most of them.
    pub fn speaker(&self, at: usize) -> usize {
        self.observations
            .get(at)
            .and_then(|observation| usize::try_from(observation.speaker).ok())
            .unwrap_or(at)
    }

    /// The flow that comes first of the queue pair of flow number `at`, whether links share its packets or see the
    /// same.
    pub fn queue_pair(&self, at: usize) -> usize {
        self.observations
            .get(at)
            .and_then(|observation| usize::try_from(observation.first).ok())
            .unwrap_or(at)
    }
}

/// Packets in the totals that more than one link counted, found by queue pairs that links have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MultiTapCounts {
    /// Largest number of links that count the same packets; 1: each packet is counted once. Unit: links.
    pub taps: u64,
    /// Part of `totals.roce_packets` that another link with more packets of the same queue pair counts too.
    /// Subtract it to count each packet once. Unit: packets. Null: flows were retired that another link may
    /// have counted too.
    pub roce_packets: Option<u64>,
    /// Length of their outer frames. Unit: bytes. Null: as `roce_packets`.
    pub roce_bytes: Option<u64>,
    /// CNPs among them. Unit: packets. Null: as `roce_packets`.
    pub cnp_packets: Option<u64>,
}

impl Default for MultiTapCounts {
    fn default() -> Self {
        Self { taps: 1, roce_packets: Some(0), roce_bytes: Some(0), cnp_packets: Some(0) }
    }
}

/// Queue pairs that are on more than one link: the numbers of their flows in the sample.
fn several(sample: &Sample) -> Map<Name, Vec<usize>> {
    let mut all: Map<Name, Vec<usize>> = Map::default();
    if sample.links.len() > 1 {
        for (at, FlowSample { key, .. }) in sample.flows.iter().enumerate() {
            all.entry((key.family, key.src, key.dst, key.dest_qp)).or_default().push(at);
        }
        all.retain(|_, observations| (2..=MAX_OBSERVATIONS).contains(&observations.len()));
    }
    all
}

/// Flows of queue pairs of which several links see a part each, with the number of these links.
pub(super) fn parts(sample: &Sample) -> Vec<(usize, u64)> {
    let mut all = Vec::new();
    for mut observations in several(sample).into_values() {
        observations.retain(|at| sample.flows.get(*at).is_some_and(|flow| is_part(&flow.stats)));
        let links = observations.len() as u64;
        all.extend(observations.into_iter().filter(|_| links > 1).map(|at| (at, links)));
    }
    all
}

/// Pairs of links, the smaller number first, that see packets of the same sequence. Acknowledgements
/// alone do not distinguish taps and links that share a load.
pub(crate) fn related(sample: &Sample) -> BTreeSet<(u16, u16)> {
    let mut related = BTreeSet::new();
    for observations in several(sample).into_values() {
        let flows: Vec<&FlowSample> = observations.iter().filter_map(|at| sample.flows.get(*at)).collect();
        for (n, one) in flows.iter().enumerate() {
            for other in flows.iter().skip(n + 1) {
                let (a, b) = (one.key.link.min(other.key.link), one.key.link.max(other.key.link));
                if sequence(&one.stats).is_some()
                    && !related.contains(&(a, b))
                    && same(&one.stats, &other.stats)
                {
                    related.insert((a, b));
                }
            }
        }
    }
    related
}

/// True if two links that count the same queue pair count the same packets. Without PSNs they are assumed to.
pub(super) fn same(one: &Stats, other: &Stats) -> bool {
    let (Some(a), Some(b)) = (sequence(one), sequence(other)) else { return true };
    // A packet takes one link: of two that share a load, one alone has the first.
    if a.first != b.first && is_part(one) && is_part(other) {
        return false;
    }
    // A queue pair that moved from one link to the other goes on where it was.
    let length = |track: &PsnTrack| psn_distance(track.first, track.expected);
    let round = |packets: u64, track: &PsnTrack| track.restarts > 0 || packets > u64::from(MASK24);
    if round(one.packets, &a) || round(other.packets, &b) {
        return true;
    }
    let (a_length, b_length) = (length(&a), length(&b));
    let ahead = psn_distance(a.first, b.first);
    let behind = psn_distance(b.first, a.first);
    let common = if ahead < a_length {
        (a_length - ahead).min(b_length)
    } else if behind < b_length {
        (b_length - behind).min(a_length)
    } else {
        0
    };
    common.saturating_mul(2) >= a_length.min(b_length)
}

/// The PSNs of a flow: of its requests, or else of its responses.
fn sequence(stats: &Stats) -> Option<PsnTrack> {
    [stats.psn.form(), stats.rare.psn_responses].into_iter().find(|track| track.seen != 0)
}

/// True if a link sees a part of a flow. Packets out of order or retransmitted have filled as many gaps. Responses
/// between acknowledgements have holes where nothing is missing.
fn is_part(stats: &Stats) -> bool {
    let Some(track) = sequence(stats) else { return false };
    let holes = track.missing.saturating_sub(track.repeats);
    let numbered =
        stats.psn.seen != 0 || stats.acks + stats.rare.rnr_naks + stats.rare.naks.iter().sum::<u64>() == 0;
    numbered && holes > 0 && holes as f64 >= PART * (stats.packets + holes) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::{key, link, sample as of, stats};
    use rocescope_common::account::Disorder;

    fn track(first: u32, expected: u32, missing: u64, repeats: u64) -> PsnTrack {
        let disorder = Disorder { missing, repeats, ..Disorder::NONE };
        PsnTrack { seen: 1, slack: 1, first, expected, disorder }
    }

    fn sample(flows: &[(u16, u32, u64, PsnTrack)]) -> Sample {
        let flow = |&(link, qp, packets, psn): &(u16, u32, u64, PsnTrack)| {
            let stats = Stats { psn: psn.form(), ..stats(7, packets, packets * 1000) };
            (key(link, "10.0.0.1", "10.0.0.2", qp), stats)
        };
        of(["a", "b", "c"].map(|name| link(name, None)).into(), flows.iter().map(flow).collect())
    }

    #[test]
    fn a_queue_pair_on_very_many_links_is_not_compared() {
        let on = |links: usize| {
            let names: Vec<String> = (0..links).map(|n| format!("l{n}")).collect();
            let flow = |n: usize| {
                let psn = track(0, 100, 0, 0);
                let key = key(u16::try_from(n).unwrap(), "10.0.0.1", "10.0.0.2", 1);
                (key, Stats { psn: psn.form(), ..stats(7, 100, 100_000) })
            };
            of(names.iter().map(|name| link(name, None)).collect(), (0..links).map(flow).collect())
        };
        assert_eq!(Overlap::of(&on(MAX_OBSERVATIONS)).taps, MAX_OBSERVATIONS);
        let many = on(MAX_OBSERVATIONS + 1);
        assert!(Overlap::of(&many).is_empty() && related(&many).is_empty());
    }

    #[test]
    fn taps_of_one_path_count_the_same_packets() {
        let sample = sample(&[
            (0, 1, 100, track(0, 100, 0, 0)),
            (1, 1, 99, track(1, 100, 1, 0)),
            (2, 1, 60, track(40, 100, 0, 0)),
            (2, 2, 60, track(40, 100, 0, 0)),
        ]);
        let overlap = Overlap::of(&sample);
        let flags: Vec<bool> = (0..4).map(|at| overlap.is_duplicate(at)).collect();
        assert_eq!((flags, overlap.taps), (vec![false, true, true, false], 3));
        assert_eq!((overlap.speaker(2), overlap.queue_pair(2), overlap.speaker(3)), (0, 0, 3));
        assert!(!overlap.is_empty() && overlap.speaker(9) == 9);
        assert_eq!(related(&sample).len(), 3);
    }

    #[test]
    fn links_that_share_a_load_do_not() {
        // Each of two links carries every other packet; a queue pair moves; PSNs begin anew behind 2^24.
        for (a, b) in [
            (track(0, 200, 100, 0), track(1, 199, 99, 0)),
            (track(0, 100, 0, 0), track(100, 200, 0, 0)),
            (track(MASK24 - 50, 50, 0, 0), track(50, 150, 0, 0)),
        ] {
            let sample = sample(&[(0, 1, 100, a), (1, 1, 100, b)]);
            let overlap = Overlap::of(&sample);
            assert_eq!((overlap.taps, overlap.is_duplicate(0), overlap.is_duplicate(1)), (1, false, false));
            assert_eq!((overlap.queue_pair(0), overlap.queue_pair(1)), (0, 0), "one queue pair all the same");
            assert!(related(&sample).is_empty());
        }
        // One that sees all, before the two.
        let parts = [(0, 1, 100, track(0, 200, 100, 0)), (1, 1, 100, track(1, 199, 99, 0))];
        let all = (2, 1, 200, track(0, 200, 0, 0));
        let sample = sample(&[parts[0], parts[1], all]);
        let overlap = Overlap::of(&sample);
        assert!(overlap.is_duplicate(0) && overlap.is_duplicate(1) && !overlap.is_duplicate(2));
        assert!(!related(&sample).contains(&(0, 1)));
    }

    #[test]
    fn taps_behind_the_same_holes_count_the_same_packets() {
        let holes = track(0, 200, 100, 0);
        let sample = sample(&[(0, 1, 100, holes), (1, 1, 100, holes)]);
        assert_eq!(Overlap::of(&sample).taps, 2);
    }

    #[test]
    fn reordering_leaves_no_holes() {
        let late = track(0, 100, 50, 50);
        let sample = sample(&[(0, 1, 100, track(0, 100, 0, 0)), (1, 1, 100, late)]);
        assert_eq!(Overlap::of(&sample).taps, 2);
    }
}
