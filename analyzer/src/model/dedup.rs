//! Totals that count each packet once although several taps see it.
//!
//! [`Overlap`] contains the flows that count the same packets. The one with the most packets represents them; gaps
//! and CE marks are, for each queue pair, those of the tap with the most.

use super::{Counts, Delta, Row};
use crate::analysis::Overlap;
use crate::util::map::{Map, Set};

/// Sums over all links, without packets that another link counts too.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dedup {
    /// Maximum number of links that count the same packets; 1 if the sums are those of the model.
    pub taps: usize,
    /// Number of queue pairs, by direction, regardless of links.
    pub flows: usize,
    /// In the time range.
    pub delta: Option<Delta>,
    /// Since the start, or since counters were reset.
    pub total: Counts,
}

/// The same at a snapshot of the history.
#[derive(Clone, Copy, Debug, Default)]
pub struct DedupSnapshot {
    /// Maximum number of links that count the same packets.
    pub taps: usize,
    /// Number of queue pairs, by direction.
    pub flows: usize,
    /// All that was counted.
    pub total: Counts,
    /// Counts since the first snapshot, including retired flows. Decreases only if packets turn out to be duplicates
    /// or not lost.
    pub grown: Counts,
    /// The part of `total` counted by flows that still exist; `None` if no two of them count the same packets.
    merged: Option<Counts>,
}

impl DedupSnapshot {
    /// The growth since `earlier`.
    pub fn since(&self, earlier: &Self) -> Counts {
        self.grown.less(&earlier.grown)
    }
}

/// Collects the flows of a sample, to count each packet once.
///
/// Taps see a packet one after the other, so at each snapshot a different tap may be ahead: the growth of a group of
/// flows is computed for the group, never from the flow that is ahead at the moment.
pub(super) struct DedupSum<'a> {
    overlap: &'a Overlap,
    /// Groups of flows that count the same packets, by the flow that represents the group.
    groups: Map<usize, Group>,
    /// All flows added up.
    all: Group,
    /// Flows whose queue pair is also on another link.
    more: usize,
}

/// Counts of flows now and at the previous snapshot.
#[derive(Clone, Copy, Default)]
struct Group {
    now: Counts,
    then: Counts,
}

/// The counts of all links together at a snapshot.
pub(super) struct AllLinks<'a> {
    /// All that was counted.
    pub total: &'a Counts,
    /// Counts since the first snapshot, now and at the previous snapshot.
    pub grown: (&'a Counts, &'a Counts),
    /// Number of flows.
    pub flows: usize,
    /// True if flows of the previous snapshot were retired.
    pub retired: bool,
}

impl<'a> DedupSum<'a> {
    pub(super) fn new(overlap: &'a Overlap) -> Self {
        Self { overlap, groups: Map::default(), all: Group::default(), more: 0 }
    }

    /// Adds flow number `at` of the sample; `then` are its counts at the previous snapshot.
    pub(super) fn add(&mut self, at: usize, counts: &Counts, then: &Counts) {
        if self.overlap.is_empty() {
            return;
        }
        self.more += usize::from(self.overlap.queue_pair(at) != at);
        if self.overlap.taps < 2 {
            return;
        }
        self.all.now.add(counts);
        self.all.then.add(then);
        let speaker = self.overlap.speaker(at);
        let group = self.groups.entry(speaker).or_insert(Group { now: *counts, then: *then });
        group.now =
            if speaker == at { counts.with_loss_of(&group.now) } else { group.now.with_loss_of(counts) };
        // Another flow may have represented the group then.
        group.then = if then.bytes > group.then.bytes {
            then.with_loss_of(&group.then)
        } else {
            group.then.with_loss_of(then)
        };
    }

    /// The sums as a snapshot.
    pub(super) fn snapshot(self, links: &AllLinks<'_>, previous: Option<&DedupSnapshot>) -> DedupSnapshot {
        let mut sums = Group::default();
        for group in self.groups.values() {
            sums.now.add(&group.now);
            sums.then.add(&group.then);
        }
        // As counted then. Counts of flows that have left since must not be subtracted.
        let then = match previous {
            Some(DedupSnapshot { merged: Some(merged), .. }) if !links.retired => merged,
            Some(DedupSnapshot { merged: None, .. }) => &self.all.then,
            _ => &sums.then,
        };
        let before = previous.map(|previous| previous.grown).unwrap_or_default();
        let (grown, grown_before) = links.grown;
        let more = [grown, &self.all.then, &sums.now].into_iter().fold(before, |sum, part| sum.plus(part));
        let less = [&self.all.now, then].into_iter().fold(*grown_before, |sum, part| sum.plus(part));
        let mut total = links.total.less(&self.all.now);
        total.add(&sums.now);
        DedupSnapshot {
            taps: self.overlap.taps.max(1),
            flows: links.flows.saturating_sub(self.more),
            total,
            grown: more.less(&less),
            merged: (self.overlap.taps > 1).then_some(sums.now),
        }
    }
}

/// The share of one row in the packets that it shares with others.
#[derive(Clone, Copy, Debug)]
pub struct RowShare<'a> {
    /// The row, among those given, that represents them.
    pub row: &'a Row,
    /// In the time range, with the gaps of the others.
    pub delta: Option<Delta>,
    /// The same since the start, or since counters were reset.
    pub total: Counts,
    /// True for the first row of its queue pair.
    pub new: bool,
}

/// Up to this number of rows, groups are found by linear search, since there may be thousands of small groups.
const FEW: usize = 16;

/// Passes `rows` to `with`, those that count the same packets as one.
pub fn each<'a>(rows: impl Iterator<Item = &'a Row>, overlap: &Overlap, mut with: impl FnMut(&RowShare<'a>)) {
    let alone = |row: &'a Row| RowShare { row, delta: row.delta, total: row.total, new: true };
    let most = rows.size_hint().1.unwrap_or(usize::MAX);
    if overlap.is_empty() || most <= 1 {
        rows.for_each(|row| with(&alone(row)));
        return;
    }
    let few = most <= FEW;
    // Each with its representative and its queue pair.
    let mut merged: Vec<(usize, usize, RowShare<'a>)> = Vec::with_capacity(if few { most } else { 0 });
    let mut places: Map<usize, usize> = Map::default();
    let mut queue_pairs: Set<usize> = Set::default();
    for row in rows {
        let Some(at) = row.at else {
            with(&alone(row));
            continue;
        };
        let (speaker, queue_pair) = (overlap.speaker(at), overlap.queue_pair(at));
        let place = if few {
            merged.iter().position(|(other, ..)| *other == speaker).unwrap_or(merged.len())
        } else {
            *places.entry(speaker).or_insert(merged.len())
        };
        let Some((.., seen)) = merged.get_mut(place) else {
            let new = if few {
                merged.iter().all(|(_, other, _)| *other != queue_pair)
            } else {
                queue_pairs.insert(queue_pair)
            };
            merged.push((speaker, queue_pair, RowShare { new, ..alone(row) }));
            continue;
        };
        let new = seen.new;
        *seen = if at == speaker { both(&alone(row), seen) } else { both(seen, &alone(row)) };
        seen.new = new;
    }
    for (.., seen) in &merged {
        with(seen);
    }
}

/// The counts of `first`, with the gaps of `other`.
fn both<'a>(first: &RowShare<'a>, other: &RowShare<'a>) -> RowShare<'a> {
    let delta = match (first.delta, other.delta) {
        (Some(one), Some(two)) => Some(Delta { counts: one.counts.with_loss_of(&two.counts), ..one }),
        (one, two) => one.or(two),
    };
    RowShare { delta, total: first.total.with_loss_of(&other.total), ..*first }
}

#[cfg(test)]
mod tests {
    use crate::analysis::fixtures::{SECOND, START, key, link, sample, stats};
    use crate::model::{History, Model, TimeRange};
    use crate::sample::Sample;

    /// A queue pair at two taps that have seen this number of its packets, a tenth of them NAKs, and one on a third
    /// link.
    fn at(second: u64, seen: [u64; 2]) -> Sample {
        let flow = |link: u16, packets: u64| {
            let mut stats = stats(7, packets, packets * 100);
            stats.rare.naks[0] = packets / 10;
            (key(link, "10.0.0.1", "10.0.0.2", 1), stats)
        };
        let alone = (key(2, "10.0.0.3", "10.0.0.4", 2), stats(7, 1_000 * second, 50_000 * second));
        let links = ["h0", "h1", "h2"].map(|name| link(name, None));
        let mut sample = sample(links.into(), vec![flow(0, seen[0]), flow(1, seen[1]), alone]);
        (sample.time_ns, sample.window) = (START + second * SECOND, Some((START, START + second * SECOND)));
        sample
    }

    #[test]
    fn a_packet_that_one_tap_sees_before_a_snapshot_and_the_other_after_it_counts_once() {
        // Each tap is ahead at times; in the end both have seen all packets.
        let seen = [[100, 0], [120, 130], [300, 280], [310, 400], [500, 500]];
        for from in 0..seen.len() {
            let mut history = History::new(1 << 20);
            for (second, seen) in (1..).zip(seen).skip(from) {
                let sample = at(second, seen);
                history.push(&sample, false);
                let model = Model::new(&history, history.len() - 1, TimeRange::All, Some(&sample)).unwrap();
                let most = seen.into_iter().max().unwrap();
                let counts = model.dedup.delta.unwrap().counts;
                assert_eq!(counts.packets, most + 1_000 * second, "{seen:?} from {from}");
                assert_eq!(counts.naks(), most / 10, "{seen:?} from {from}");
                assert_eq!(counts, model.dedup.total);
            }
        }
    }

    #[test]
    fn packets_that_turn_out_to_be_the_same_are_taken_back() {
        let mut history = History::new(1 << 20);
        for (second, seen) in [(1, [100, 100]), (2, [200, 200])] {
            let mut sample = at(second, seen);
            for flow in &mut sample.flows[..2] {
                let track = &mut flow.stats.psn;
                // Until the second snapshot the taps have no PSN in common.
                let first = u32::from(flow.key.link) * 100;
                (track.seen, track.first, track.expected) = (1, first, 100 * u32::try_from(second).unwrap());
                if second == 1 {
                    track.expected += first;
                }
            }
            history.push(&sample, false);
            let model = Model::new(&history, history.len() - 1, TimeRange::All, Some(&sample)).unwrap();
            assert_eq!(model.dedup.delta.unwrap().counts, model.dedup.total, "{second}");
            assert_eq!(model.dedup.taps, usize::try_from(second).unwrap());
        }
    }

    #[test]
    fn what_a_retired_flow_counted_stays() {
        let mut history = History::new(1 << 20);
        let first = at(1, [100, 90]);
        history.push(&first, false);
        let mut second = at(2, [150, 150]);
        second.flows.truncate(2);
        let retired = &mut second.links[2].retired;
        (retired.flows, retired.packets, retired.bytes, retired.ecn_data[2]) = (1, 1_500, 75_000, 1_500);
        history.push(&second, false);
        let model = Model::new(&history, history.len() - 1, TimeRange::All, Some(&second)).unwrap();
        let counts = model.dedup.delta.unwrap().counts;
        assert_eq!((counts.packets, counts.naks()), (150 + 1_500, 15));
    }
}
