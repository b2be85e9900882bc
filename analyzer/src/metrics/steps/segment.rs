//! Start and end of the steps of a job, from the volume that each of them moves.
//!
//! A job that trains sends the same bytes in every step, and is silent in between. But it is also silent within a step,
//! when all wait for one; silences alone do not tell the two apart. So the blocks between long silences are joined
//! until each group has the same volume.

use std::ops::Range;

use rocescope_common::account::flowlet::FLOWLET_GAP_NS;

use crate::metrics::traffic::flowlets::Record;
use crate::metrics::traffic::times;
use crate::util::definition::definitions;
use crate::util::numbers::share;

definitions! {
    pub MIN_STEPS: usize = 5,
        "Minimum steps",
        "Fewer do not show a rhythm";
    TOLERANCE: f64 = 0.05,
        "Maximum difference of the volumes of steps, as a share",
        "Packets that the capture missed, small messages besides";
    EXPLAINED: f64 = 0.95,
        "Minimum share of the bytes from the first step to the last in whole steps",
        "The rest is other traffic of the same hosts";
    COVERED: f64 = 0.6,
        "Minimum share of all bytes in whole steps",
        "A capture begins and ends in the middle of a step";
    LONG_RUN: usize = 30,
        "Steps in a row that count whatever their share of all bytes",
        "A job computes, is evaluated for a while, and goes on";
    MOST: f64 = 0.8,
        "Minimum share of the steps in which the same hosts send the same",
        "The first steps warm up, packets get lost";
    ALIKE: f64 = 0.5,
        "Minimum silence between smaller steps over that between larger ones, of four in five, for the smaller to be the steps",
        "Silences between parts of a step are much shorter";
    LEFT_OVER: f64 = 0.02,
        "Share of a step that makes one cut better than another",
        "Less is what differs from step to step";
}

/// Steps that may be taken for one.
const MAX_MULTIPLE: u64 = 8;
/// Silences within a step.
const MAX_BLOCKS: usize = 16;
/// Blocks that are looked at: the latest.
const MAX_ATOMS: usize = 8192;
/// Lengths of a silence that are tried: from the gap that ends a flowlet up to ten seconds and more.
const LADDER: usize = 26;

/// Data without a silence on the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Time of the first packet, ns.
    pub start_ns: u64,
    /// Time of the last packet, ns.
    pub end_ns: u64,
    /// Bytes that were not sent before.
    pub bytes: u64,
    /// The same, weighted by who sends to whom: steps that are alike have about the same.
    pub mark: u64,
    /// Its flowlets, in the list that is sorted by start.
    pub flowlets: Range<usize>,
}

/// A link's traffic cut into steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Segments {
    /// The blocks between long silences.
    pub blocks: Vec<Block>,
    /// Blocks of each step, in order. Blocks between may be in none.
    pub steps: Vec<Range<usize>>,
    /// Bytes of a step.
    pub volume: u64,
    /// Share of all bytes that lie in whole steps.
    pub explained: f64,
}

/// The bytes of a flowlet by a weight of 1 to 16 that depends on the hosts only.
fn mark(flowlet: &Record) -> u64 {
    let weight = flowlet.pair.wrapping_add(1).wrapping_mul(0x9E37_79B1) >> 28;
    flowlet.fresh_bytes.saturating_mul(u64::from(weight) + 1)
}

/// The blocks of flowlets that are sorted by their start.
pub fn atoms(flowlets: &[Record]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for (at, flowlet) in flowlets.iter().enumerate() {
        match blocks.last_mut() {
            Some(block) if flowlet.start_ns.saturating_sub(block.end_ns) <= FLOWLET_GAP_NS => {
                block.end_ns = block.end_ns.max(flowlet.end_ns);
                block.bytes += flowlet.fresh_bytes;
                block.mark = block.mark.saturating_add(mark(flowlet));
                block.flowlets.end = at + 1;
            }
            _ => blocks.push(Block {
                start_ns: flowlet.start_ns,
                end_ns: flowlet.end_ns,
                bytes: flowlet.fresh_bytes,
                mark: mark(flowlet),
                flowlets: at..at + 1,
            }),
        }
    }
    blocks.drain(..blocks.len().saturating_sub(MAX_ATOMS));
    blocks
}

fn merged(atoms: &[Block], silence_ns: u64) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for atom in atoms {
        match blocks.last_mut() {
            Some(block) if atom.start_ns.saturating_sub(block.end_ns) <= silence_ns => {
                block.end_ns = block.end_ns.max(atom.end_ns);
                block.bytes += atom.bytes;
                block.mark = block.mark.saturating_add(atom.mark);
                block.flowlets.end = atom.flowlets.end;
            }
            _ => blocks.push(atom.clone()),
        }
    }
    blocks
}

/// The volume that most groups of `count` consecutive blocks have in common.
fn common_volume(blocks: &[Block], count: usize) -> u64 {
    let mut volumes: Vec<u64> =
        blocks.windows(count).map(|group| group.iter().map(|b| b.bytes).sum()).collect();
    volumes.sort_unstable();
    let (mut best, mut volume, mut end) = (0, 0, 0);
    for (start, smallest) in volumes.iter().enumerate() {
        let limit = times(*smallest, 1.0 + TOLERANCE);
        while volumes.get(end).is_some_and(|v| *v <= limit) {
            end += 1;
        }
        if end - start > best {
            best = end - start;
            volume = volumes.get(start + best / 2).copied().unwrap_or(*smallest);
        }
    }
    volume
}

/// Groups consecutive blocks, from the one at `offset` on, until each group has the volume.
fn grouped(blocks: &[Block], volume: u64, offset: usize) -> StepCuts {
    let enough = times(volume, 1.0 - TOLERANCE);
    let limit = times(volume, 1.0 + TOLERANCE);
    let (mut cut, mut from) = (StepCuts::default(), offset);
    while from < blocks.len() {
        let (mut bytes, mut to) = (0, from);
        while bytes < enough && to - from < MAX_BLOCKS {
            let Some(block) = blocks.get(to) else { break };
            bytes += block.bytes;
            to += 1;
        }
        if (enough..=limit).contains(&bytes) && bytes > 0 {
            cut.steps.push(from..to);
            cut.bytes += bytes;
            from = to;
        } else {
            from += 1;
        }
    }
    cut.keep_longest_run(blocks);
    cut
}

/// Blocks in groups of equal volume.
#[derive(Clone, Debug, Default)]
struct StepCuts {
    steps: Vec<Range<usize>>,
    /// Bytes in the steps.
    bytes: u64,
    /// Bytes from the first of them to the last.
    span_bytes: u64,
}

impl StepCuts {
    /// Leaves out steps at both ends, so that the traffic between steps is least: packets sent before a job began, and
    /// in a pause of the job.
    fn keep_longest_run(&mut self, blocks: &[Block]) {
        let bytes = |range: Range<usize>| -> u64 {
            blocks.get(range).unwrap_or_default().iter().map(|block| block.bytes).sum()
        };
        let worth = |range: Range<usize>, share: f64| bytes(range) as f64 * share;
        let (mut best, mut run): (Option<(f64, Range<usize>)>, _) = (None, (0.0, 0));
        for (at, step) in self.steps.iter().enumerate() {
            let before =
                at.checked_sub(1).and_then(|before| self.steps.get(before)).map_or(step.start, |b| b.end);
            let (mut sum, mut from) = run;
            sum -= worth(before..step.start, EXPLAINED);
            if sum <= 0.0 {
                (sum, from) = (0.0, at);
            }
            sum += worth(step.clone(), 1.0 - EXPLAINED);
            run = (sum, from);
            // Of two that are as good the later one.
            if best.as_ref().is_none_or(|(most, _)| sum >= *most) {
                best = Some((sum, from..at + 1));
            }
        }
        let Some((_, range)) = best else { return };
        self.steps = self.steps.get(range).unwrap_or_default().to_vec();
        self.bytes = self.steps.iter().map(|step| bytes(step.clone())).sum();
        if let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) {
            self.span_bytes = bytes(first.start..last.end);
        }
    }

    fn explained(&self) -> f64 {
        share(self.bytes, self.span_bytes)
    }

    /// True if the same hosts send the same shares in nearly all of the groups.
    fn alike(&self, blocks: &[Block]) -> bool {
        let ratio = |step: &Range<usize>| {
            let step = blocks.get(step.clone()).unwrap_or_default();
            let sum = |of: fn(&Block) -> u64| step.iter().map(of).sum::<u64>() as f64;
            sum(|block| block.mark) / sum(|block| block.bytes).max(1.0)
        };
        let ratios: Vec<f64> = self.steps.iter().map(ratio).collect();
        let mut sorted = ratios.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(middle) = sorted.get(sorted.len() / 2) else { return false };
        let near = ratios.iter().filter(|ratio| (*ratio - middle).abs() <= TOLERANCE * middle).count();
        near as f64 >= MOST * ratios.len() as f64
    }

    fn holds(&self, blocks: &[Block], total: u64) -> bool {
        self.steps.len() >= MIN_STEPS
            && self.alike(blocks)
            && self.explained() >= EXPLAINED
            && (self.bytes as f64 >= COVERED * total as f64 || self.steps.len() >= LONG_RUN)
    }

    /// The silence before a group that a share of them does not exceed.
    fn silence(&self, blocks: &[Block], share: f64) -> u64 {
        let before = |step: &Range<usize>| {
            let previous = blocks.get(step.start.checked_sub(1)?)?;
            Some(blocks.get(step.start)?.start_ns.saturating_sub(previous.end_ns))
        };
        let mut silences: Vec<u64> = self.steps.iter().filter_map(before).collect();
        silences.sort_unstable();
        let rank = times(silences.len() as u64, share);
        silences.get(usize::try_from(rank).unwrap_or(0)).copied().unwrap_or(0)
    }
}

/// The silence of a rung: powers of the root of two times the gap that ends a flowlet.
fn ladder(rung: usize) -> u64 {
    let octave = FLOWLET_GAP_NS << (rung / 2);
    if rung.is_multiple_of(2) { octave } else { octave * 1414 / 1000 }
}

/// The longest silence that cuts the traffic, `total` bytes, into at least this many equal volumes: its rung, the
/// volume, and the middle silence between two of these.
fn coarsest(atoms: &[Block], total: u64, least: usize) -> Option<(usize, u64, u64)> {
    (0..LADDER).rev().find_map(|rung| {
        let blocks = merged(atoms, ladder(rung));
        if blocks.len() < least {
            return None;
        }
        let mut volumes: Vec<u64> = (1..=4).map(|count| common_volume(&blocks, count)).collect();
        volumes.sort_unstable();
        volumes.into_iter().find_map(|volume| {
            let cut = grouped(&blocks, volume, 0);
            let holds = cut.steps.len() >= least && cut.holds(&blocks, total);
            holds.then(|| (rung, volume, cut.silence(&blocks, 0.5)))
        })
    })
}

/// Cuts a link's traffic into steps; `None` when it has no such rhythm. `starts` says for a block how many hosts begin
/// there by themselves, which only decides between cuts that are as good; the longer silences between steps decide
/// where that does not. Fewer than `many` may be groups of steps.
pub fn segments(atoms: &[Block], many: usize, starts: impl Fn(&Block) -> usize) -> Option<Segments> {
    let total: u64 = atoms.iter().map(|block| block.bytes).sum();
    if atoms.len() < MIN_STEPS || total == 0 {
        return None;
    }
    // The longest silences that cut the traffic into equal volumes are those between steps: shorter ones do that too
    // where a step has equal parts. Groups of steps have a longer silence after each.
    let (mut rung, mut volume, silence) =
        coarsest(atoms, total, many).or_else(|| coarsest(atoms, total, MIN_STEPS))?;
    // Several steps together have equal volumes as well.
    let single = (2..=MAX_MULTIPLE).rev().find_map(|parts| {
        (0..=rung).rev().find_map(|rung| {
            let blocks = merged(atoms, ladder(rung));
            let cut = grouped(&blocks, volume / parts, 0);
            let alike = cut.silence(&blocks, 0.2) as f64 >= ALIKE * silence as f64;
            (cut.holds(&blocks, total) && alike).then_some((rung, volume / parts))
        })
    });
    if let Some(single) = single {
        (rung, volume) = single;
    }
    // A silence within steps may be longer than some between them: shorter ones are looked at as well.
    let mut best: Option<(Segments, [f64; 2], (usize, u64))> = None;
    for finer in [rung, rung.saturating_sub(1), rung.saturating_sub(2)] {
        let blocks = merged(atoms, ladder(finer));
        for offset in 0..4.min(blocks.len()) {
            let cut = grouped(&blocks, volume, offset);
            if !cut.holds(&blocks, total) {
                continue;
            }
            let begins: usize = cut.steps.iter().filter_map(|step| blocks.get(step.start)).map(&starts).sum();
            let score = (begins, cut.silence(&blocks, 0.5));
            // A block left over between steps is a sign of a wrong cut. So is one left over at both ends, unless the
            // capture begins or ends within a step. Between cuts that are as good, causes decide.
            let margin = LEFT_OVER / cut.steps.len() as f64;
            let rank = [cut.explained(), cut.bytes as f64 / total as f64];
            let better = best.as_ref().is_none_or(|(_, before, most)| {
                let further = rank.iter().zip(before).find(|(now, before)| (*now - *before).abs() > margin);
                further.map_or(score > *most, |(now, before)| now > before)
            });
            if better {
                let segments =
                    Segments { blocks: blocks.clone(), steps: cut.steps, volume, explained: rank[1] };
                best = Some((segments, rank, score));
            }
        }
    }
    best.map(|(segments, ..)| segments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocescope_common::random::Random;

    use crate::util::time::NS_PER_MS as MS;

    const MANY: usize = 8;

    fn flowlets(list: &[(u64, u64, u64)]) -> Vec<Record> {
        (list.iter())
            .map(|(start, end, bytes)| Record {
                start_ns: start * MS,
                end_ns: end * MS,
                fresh_bytes: *bytes,
                ..Record::default()
            })
            .collect()
    }

    fn starts(segments: &Segments) -> Vec<u64> {
        segments.steps.iter().map(|step| segments.blocks[step.start].start_ns / MS).collect()
    }

    #[test]
    fn equal_volumes_between_silences() {
        let list: Vec<_> = (0..10).map(|i| (100 * i, 100 * i + 40, 1_000_000 + 1000 * i)).collect();
        let segments = segments(&atoms(&flowlets(&list)), MANY, |_| 0).unwrap();
        assert_eq!(starts(&segments), (0..10).map(|i| 100 * i).collect::<Vec<_>>());
        assert!(segments.explained > 0.99);
    }

    /// A step has three equal parts with short silences between: it is the long ones that count.
    #[test]
    fn parts_of_a_step_are_no_steps() {
        let mut list = Vec::new();
        for i in 0..10 {
            for part in 0..3 {
                list.push((200 * i + 20 * part, 200 * i + 20 * part + 10, 5000));
            }
        }
        let segments = segments(&atoms(&flowlets(&list)), MANY, |_| 0).unwrap();
        assert_eq!(starts(&segments), (0..10).map(|i| 200 * i).collect::<Vec<_>>());
        assert_eq!(segments.volume, 15_000);
    }

    /// From the sixth step on all wait in the middle for one, longer than they compute.
    #[test]
    fn a_silence_within_steps() {
        let mut list: Vec<_> = (0..5).map(|i| (100 * i, 100 * i + 40, 9000)).collect();
        for i in 5..12 {
            let at = 500 + (i - 5) * 160;
            list.extend([(at, at + 20, 3000), (at + 80, at + 110, 6000)]);
        }
        let segments = segments(&atoms(&flowlets(&list)), MANY, |_| 0).unwrap();
        let expected: Vec<u64> = (0..5).map(|i| 100 * i).chain((0..7).map(|i| 500 + 160 * i)).collect();
        assert_eq!(starts(&segments), expected);
    }

    /// Nothing but steps with a wait in the middle, cut at its start in the wrong place: hosts that start by themselves
    /// decide.
    #[test]
    fn who_starts_by_itself_decides_when_volumes_do_not() {
        let mut list = vec![(0, 30, 6000)];
        for i in 0..9 {
            let at = 72 + i * 150;
            list.extend([(at, at + 20, 3000), (at + 78, at + 108, 6000)]);
        }
        let second = |block: &Block| usize::from(block.bytes == 3000);
        let segments = segments(&atoms(&flowlets(&list)), MANY, second).unwrap();
        assert_eq!(starts(&segments), (0..9).map(|i| 72 + 150 * i).collect::<Vec<_>>());
    }

    /// Silences of very different lengths between steps: groups of three would do as well.
    #[test]
    fn several_steps_are_not_one() {
        let mut at = 0;
        let list: Vec<_> = (0..30)
            .map(|i| {
                at += 60 + if i % 3 == 0 { 35 } else { 0 };
                (at, at + 20, 7000)
            })
            .collect();
        let segments = segments(&atoms(&flowlets(&list)), MANY, |_| 0).unwrap();
        assert_eq!((segments.steps.len(), segments.volume), (30, 7000));
    }

    /// Every tenth step a checkpoint: six groups of ten have equal volumes, too.
    #[test]
    fn groups_of_steps_are_not_steps_because_of_a_longer_silence_between_them() {
        let mut at = 0;
        let list: Vec<_> = (0..60)
            .map(|i| {
                at += 55 + if i > 0 && i % 10 == 0 { 250 } else { 0 };
                (at, at + 5, 7000)
            })
            .collect();
        let segments = segments(&atoms(&flowlets(&list)), MANY, |_| 0).unwrap();
        assert_eq!((segments.steps.len(), segments.volume), (60, 7000));
    }

    #[test]
    fn no_rhythm() {
        assert_eq!(segments(&[], MANY, |_| 0), None);
        let steady: Vec<_> = (0..1000).map(|i| (i, i + 1, 1000)).collect();
        assert_eq!(segments(&atoms(&flowlets(&steady)), MANY, |_| 0), None);
        let mut random = Random::new(1);
        let mut at = 0;
        let wild: Vec<_> = (0..300)
            .map(|_| {
                at += 5 + random.below(300);
                (at, at + 1, 1 + random.below(1_000_000))
            })
            .collect();
        assert_eq!(segments(&atoms(&flowlets(&wild)), MANY, |_| 0), None);
    }
}
