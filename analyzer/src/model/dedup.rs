//! Totals with each packet counted once, though several taps see it.
//!
//! [`Overlap`] holds the flows that count the same packets. The one with most packets represents them; gaps and CE marks are,
//! queue pair by queue pair, those of the tap that has most of them.

use hashbrown::{HashMap, HashSet};

use super::{Counts, Delta, Row};
use crate::analysis::Overlap;

type State = foldhash::fast::RandomState;

/// Sums over all links less what a link counted that another counts too.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dedup {
    /// Links that count the same packets, at most; 1 when the sums are those of the model.
    pub taps: usize,
    /// Queue pairs, by direction, on however many links they are.
    pub flows: usize,
    /// In the time range.
    pub delta: Option<Delta>,
    /// Since the start, or since counters were reset.
    pub total: Counts,
}

/// The same at a snapshot of the history.
#[derive(Clone, Copy, Debug, Default)]
pub struct DedupSnapshot {
    /// Links that count the same packets, at most.
    pub taps: usize,
    /// Queue pairs, by direction.
    pub flows: usize,
    /// All that was counted.
    pub total: Counts,
    /// The sum of what was counted between snapshots: never goes back.
    pub grown: Counts,
}

/// Flows of a sample as they come, to be counted once.
pub(super) struct Sum<'a> {
    overlap: &'a Overlap,
    /// The counts of each representative flow, in all and since the snapshot before, with the gaps of the others.
    spoken: HashMap<usize, (Counts, Counts), State>,
    /// The same of all of them added up.
    all: (Counts, Counts),
    /// Flows of a queue pair that is on another link too.
    more: usize,
}

impl<'a> Sum<'a> {
    pub(super) fn new(overlap: &'a Overlap) -> Self {
        Self { overlap, spoken: HashMap::default(), all: Default::default(), more: 0 }
    }

    /// Takes flow number `at` of the sample.
    pub(super) fn add(&mut self, at: usize, counts: &Counts, since: Option<&Counts>) {
        if self.overlap.is_empty() {
            return;
        }
        self.more += usize::from(self.overlap.queue_pair(at) != at);
        if self.overlap.taps < 2 {
            return;
        }
        let since = since.copied().unwrap_or_default();
        self.all.0.add(counts);
        self.all.1.add(&since);
        let speaker = self.overlap.speaker(at);
        let told = self.spoken.entry(speaker).or_insert((*counts, since));
        *told = if speaker == at {
            (counts.with_holes_of(&told.0), since.with_holes_of(&told.1))
        } else {
            (told.0.with_holes_of(counts), told.1.with_holes_of(&since))
        };
    }

    /// The snapshot: `total` and `since` are the sums over all links, `flows` their number.
    pub(super) fn snapshot(
        self,
        total: &Counts,
        since: &Counts,
        flows: usize,
        previous: Option<&DedupSnapshot>,
    ) -> DedupSnapshot {
        let (mut total, mut grown) = (total.less(&self.all.0), since.less(&self.all.1));
        for (all, since) in self.spoken.values() {
            total.add(all);
            grown.add(since);
        }
        if let Some(previous) = previous {
            grown.add(&previous.grown);
        }
        DedupSnapshot { taps: self.overlap.taps.max(1), flows: flows.saturating_sub(self.more), total, grown }
    }
}

/// The share of one row in the packets that it has in common with others.
#[derive(Clone, Copy, Debug)]
pub struct RowShare<'a> {
    /// The row that speaks: of those at hand.
    pub row: &'a Row,
    /// In the time range, with the holes of the others.
    pub delta: Option<Delta>,
    /// The same since the start, or since counters were reset.
    pub total: Counts,
    /// True for the first row of its queue pair.
    pub new: bool,
}

/// Up to this number of rows, those of the same packets are searched one by one: there may be thousands of small
/// groups.
const FEW: usize = 16;

/// Hands `rows` to `with`, those that count the same packets as one.
pub fn each<'a>(rows: impl Iterator<Item = &'a Row>, overlap: &Overlap, mut with: impl FnMut(&RowShare<'a>)) {
    let alone = |row: &'a Row| RowShare { row, delta: row.delta, total: row.total, new: true };
    let most = rows.size_hint().1.unwrap_or(usize::MAX);
    if overlap.is_empty() || most <= 1 {
        rows.for_each(|row| with(&alone(row)));
        return;
    }
    let few = most <= FEW;
    // With the speaker of each, and its queue pair.
    let mut merged: Vec<(usize, usize, RowShare<'a>)> = Vec::with_capacity(if few { most } else { 0 });
    let mut places: HashMap<usize, usize, State> = HashMap::default();
    let mut queue_pairs: HashSet<usize, State> = HashSet::default();
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
        (Some(one), Some(two)) => Some(Delta { counts: one.counts.with_holes_of(&two.counts), ..one }),
        (one, two) => one.or(two),
    };
    RowShare { delta, total: first.total.with_holes_of(&other.total), ..*first }
}
