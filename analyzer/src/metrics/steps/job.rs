//! Tests whether a rhythm is that of a job.
//!
//! Much traffic repeats itself: a test that sends messages of one length through a queue that drains at one rate, a
//! sender that runs into the same retransmission timeout again and again, a client that asks every tenth of a second, a
//! checkpoint written every ten minutes. The cut into equal volumes finds a rhythm in all of these. A job that trains
//! is more than that: its hosts exchange data, at the same time, each with the same share in every step, and then rest
//! for about the same time. All of this is asked for here, and what lacks one of them has no steps: a wrong alarm costs
//! more than a job that is not recognized.

use super::segment::{Block, Segments};
use crate::metrics::traffic::flowlets::Record;
use crate::metrics::traffic::hosts::{Host, Pair};
use crate::metrics::traffic::times;
use crate::util::definition::definitions;
use crate::util::map::Map;
use crate::util::numbers::median;

definitions! {
    pub MIN_STEPS: usize = 8,
        "Minimum steps of a job",
        "The spread of fewer than seven periods says little: of seven pauses of random (exponential) length one draw in thirty looks as even as is asked for, of four one in six";
    PERIOD_SPREAD: f64 = 0.2,
        "Maximum spread of the periods, as a share of their median",
        "Steps with jitter of a fifth have 0.14, random pauses as long as the sending between them 0.28";
    GROUPED: f64 = 3.0,
        "Periods of this many times their median or more may stand between groups of parts of steps",
        "A group of buckets is followed by computing";
    SILENCE_SPREAD: f64 = 0.3,
        "Maximum spread of the silences between steps",
        "Pauses of random length have 0.69, those of any length up to a bound 0.5, computing with a jitter of a fifth 0.14";
    SILENCE_NOISE: f64 = 0.03,
        "Silences whose spread is below this share of the period are even",
        "However short they are: schedulers and collectors of garbage are late by milliseconds";
    IDLE: f64 = 0.04,
        "Minimum silence between steps, as a share of the period",
        "Computing takes a tenth of a step or more, of which a part may overlap with the sending of the first and last hosts";
    COMPARABLE: f64 = 0.5,
        "Minimum silence within a step over the median of those between steps, for the two to be comparable",
        "Half as long, it could be either";
    MAX_COMPARABLE: usize = 1,
        "Maximum comparable silences of a step",
        "All wait for one host. With more of them the cut could be anywhere";
    MIN_VOLUME: u64 = 16_384,
        "Minimum bytes of a step",
        "Heartbeats and barriers of a control plane send a few hundred bytes each";
    MOST: f64 = 0.8,
        "Minimum share of the steps in which this holds",
        "The first steps warm up, packets get lost";
    STRANGE: f64 = 0.1,
        "Maximum share of a step's bytes that other pairs of hosts than usual send",
        "Control traffic and storage of the same hosts";
    BOTH_WAYS: f64 = 0.2,
        "Minimum bytes that some host receives over those that it sends, and the other way round",
        "In a collective the two are the same, or differ by the number of its children in a tree; a reader's requests are a thousandth of what it reads, and a writer of checkpoints receives nothing";
    TOGETHER: f64 = 0.25,
        "Minimum share of the time with data in which several flows send",
        "Messages that queue pairs send in turn, requests and their responses never overlap";
    AT_ONCE: f64 = 0.5,
        "Among three hosts and more, minimum share of a step's bytes that several pairs of hosts exchange without a silence between them",
        "One event sets them off, although a slow host may let them pass one after the other. Two hosts that take turns ask and answer";
    SOME: f64 = 0.25,
        "Minimum share of the steps in which this shows",
        "A host that is late keeps its neighbours apart in all steps from then on";
    MEMBER: f64 = 0.1,
        "Minimum bytes of a flow over those of the largest, for it to be a member of the job",
        "Others are control traffic";
}

/// Reason why traffic has no steps of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoJob {
    /// No data.
    NoData,
    /// Nothing repeats.
    NoRhythm,
    /// Not repeated often enough.
    TooFew,
    /// Hardly anything is sent.
    TooSmall,
    /// Steps of very different length, or silences between them.
    Irregular,
    /// Hardly any silence between steps, or none that sets them apart from others.
    NoRest,
    /// Different hosts send in each step.
    NotAlike,
    /// Nobody both sends and receives, and there is only one who sends or one who receives.
    OneWay,
    /// Flows send one after the other.
    InTurn,
}

impl NoJob {
    /// The reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::NoData => "no data",
            Self::NoRhythm => "no periodic traffic with equal volumes",
            Self::TooFew => "fewer than 8 repetitions",
            Self::TooSmall => "what repeats is smaller than 16 KiB",
            Self::Irregular => "periods or pauses of very different length",
            Self::NoRest => "no pauses between repetitions",
            Self::NotAlike => "other hosts send in each repetition",
            Self::OneWay => "one host only sends or only receives",
            Self::InTurn => "flows send one after the other, as requests and answers do",
        }
    }
}

/// The distances of some numbers from the median of the five around each.
fn distances(numbers: &[u64]) -> Vec<u64> {
    let off = |at: usize| {
        let from = at.saturating_sub(2).min(numbers.len().saturating_sub(5));
        let near = median(numbers.get(from..(from + 5).min(numbers.len()))?.to_vec())?;
        Some(numbers.get(at)?.abs_diff(near))
    };
    (0..numbers.len()).filter_map(off).collect()
}

/// The middle distance of some numbers from the median of the five around each, as a share of the median of all: a
/// measure of irregularity that neither a trend nor single outliers move.
pub fn spread(numbers: &[u64]) -> Option<f64> {
    let all = median(numbers.to_vec())?;
    Some(median(distances(numbers))? as f64 / all.max(1) as f64)
}

/// True if a share of at least `MOST` of the verdicts is good.
fn most(verdicts: impl Iterator<Item = bool>) -> bool {
    let (mut good, mut all) = (0u32, 0u32);
    for verdict in verdicts {
        all += 1;
        good += u32::from(verdict);
    }
    all > 0 && f64::from(good) >= MOST * f64::from(all)
}

type Sums<Key> = Map<Key, u64>;

/// Holds the steps of a port against what a job does; there must be `least` of them. `flowlets` are sorted by start, as
/// for the cut.
///
/// # Errors
/// What speaks against a job.
pub fn is_job(segments: &Segments, flowlets: &[Record], pairs: &[Pair], least: usize) -> Result<(), NoJob> {
    if segments.steps.len() < least {
        return Err(NoJob::TooFew);
    }
    if segments.volume < MIN_VOLUME {
        return Err(NoJob::TooSmall);
    }
    let blocks: Vec<&[Block]> =
        segments.steps.iter().filter_map(|step| segments.blocks.get(step.clone())).collect();
    rhythm(segments, &blocks, least > MIN_STEPS)?;
    let steps: Vec<&[Record]> = (blocks.iter())
        .filter_map(|blocks| flowlets.get(blocks.first()?.flowlets.start..blocks.last()?.flowlets.end))
        .collect();
    alike(&steps)?;
    both_ways(&steps, pairs)?;
    let several = |step: &&&[Record]| together(step) || at_once(step, pairs);
    let shared = steps.iter().filter(several).count();
    if shared as f64 >= SOME * steps.len() as f64 { Ok(()) } else { Err(NoJob::InTurn) }
}

/// True if parts of steps were taken for steps: groups of the same size follow one another after long periods that are
/// alike and take two fifths of the time. Before a job has made some steps its parts have the only rhythm.
fn in_groups(periods: &[u64], period: u64) -> bool {
    let long: Vec<(usize, u64)> =
        periods.iter().copied().enumerate().filter(|(_, one)| *one >= times(period, GROUPED)).collect();
    let sizes: Vec<usize> = long.windows(2).map(|two| two[1].0 - two[0].0).collect();
    let (Some((first, _)), Some((last, _)), Some(size)) = (long.first(), long.last(), sizes.first()) else {
        return false;
    };
    let sum: u64 = long.iter().map(|(_, one)| *one).sum();
    let mean = sum / long.len() as u64;
    sizes.iter().all(|other| other == size)
        && first < size
        && periods.len() - last <= *size
        && long.iter().all(|(_, one)| one.abs_diff(mean) <= times(mean, PERIOD_SPREAD))
        && 5 * sum >= 2 * periods.iter().sum::<u64>()
}

/// `part`: the steps are those of one of several parts of the run that were tried. A middle distance of random pauses
/// is small in one of hundreds; most of the distances never are.
fn rhythm(segments: &Segments, blocks: &[&[Block]], part: bool) -> Result<(), NoJob> {
    let starts: Vec<u64> = blocks.iter().filter_map(|step| Some(step.first()?.start_ns)).collect();
    let periods: Vec<u64> = starts.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    let before = |step: &std::ops::Range<usize>| {
        let previous = segments.blocks.get(step.start.checked_sub(1)?)?;
        Some(segments.blocks.get(step.start)?.start_ns.saturating_sub(previous.end_ns))
    };
    let silences: Vec<u64> = segments.steps.iter().skip(1).filter_map(before).collect();
    let (Some(period), Some(silence)) = (median(periods.clone()), median(silences.clone())) else {
        return Err(NoJob::TooFew);
    };
    if in_groups(&periods, period) {
        return Err(NoJob::TooFew);
    }
    if (silence as f64) < IDLE * period as f64 {
        return Err(NoJob::NoRest);
    }
    if !most(blocks.iter().map(|step| !ambiguous(step, times(silence, COMPARABLE)))) {
        return Err(NoJob::NoRest);
    }
    let uneven = spread(&silences).unwrap_or(1.0);
    let noise = uneven * silence as f64 <= SILENCE_NOISE * period as f64;
    if spread(&periods).unwrap_or(1.0) > PERIOD_SPREAD || uneven > SILENCE_SPREAD && !noise {
        return Err(NoJob::Irregular);
    }
    let near = |distance: u64| distance as f64 <= SILENCE_SPREAD * silence as f64;
    if part && !noise && !most(distances(&silences).into_iter().map(near)) {
        return Err(NoJob::Irregular);
    }
    Ok(())
}

/// True if a step could as well be cut elsewhere: at several silences that are as long as those between steps, or at
/// one that cuts it into halves of the same traffic.
fn ambiguous(step: &[Block], comparable_ns: u64) -> bool {
    let long = |two: &[Block]| match two {
        [one, next] => next.start_ns.saturating_sub(one.end_ns) >= comparable_ns,
        _ => false,
    };
    let cuts: Vec<usize> = (1..step.len()).filter(|at| step.get(at - 1..=*at).is_some_and(long)).collect();
    let [cut] = cuts[..] else { return cuts.len() > MAX_COMPARABLE };
    let (one, other) = step.split_at(cut);
    let sums = |of: fn(&Block) -> u64| {
        let sum = |half: &[Block]| half.iter().map(of).sum::<u64>() as f64;
        (sum(one), sum(other))
    };
    let near = |(one, other): (f64, f64)| (one - other).abs() <= STRANGE * one.max(other);
    near(sums(|block| block.bytes)) && near(sums(|block| block.mark))
}

/// Checks that each pair of hosts sends about the same in nearly all steps.
fn alike(steps: &[&[Record]]) -> Result<(), NoJob> {
    let sums: Vec<Sums<u32>> = (steps.iter())
        .map(|step| {
            let mut sums = Sums::default();
            for flowlet in *step {
                *sums.entry(flowlet.pair).or_default() += flowlet.fresh_bytes;
            }
            sums
        })
        .collect();
    let mut volumes: Map<u32, Vec<u64>> = Map::default();
    for (pair, bytes) in sums.iter().flatten() {
        volumes.entry(*pair).or_default().push(*bytes);
    }
    let usual: Sums<u32> = (volumes.into_iter())
        .map(|(pair, mut volumes)| {
            // Steps in which a pair sends nothing are not in its list.
            volumes.resize(steps.len(), 0);
            (pair, median(volumes).unwrap_or(0))
        })
        .collect();
    let total: u64 = usual.values().sum();
    let near = |sums: &Sums<u32>| {
        let off: u64 = usual.iter().map(|(pair, usual)| sums.get(pair).unwrap_or(&0).abs_diff(*usual)).sum();
        // Each byte that one pair sends less is one that another pair sends more.
        off as f64 / 2.0 <= STRANGE * total as f64
    };
    if most(sums.iter().map(near)) { Ok(()) } else { Err(NoJob::NotAlike) }
}

/// Checks that hosts exchange data, over all steps: most of it begins or ends at hosts that both send and receive; or
/// it has several sources and several other destinations, as where a ring crosses the link between two switches.
fn both_ways(steps: &[&[Record]], pairs: &[Pair]) -> Result<(), NoJob> {
    let mut hosts: Map<Host, [u64; 2]> = Map::default();
    let mut total = 0;
    for flowlet in steps.iter().copied().flatten() {
        let Some(pair) = pairs.get(flowlet.pair as usize) else { continue };
        hosts.entry(pair.src).or_default()[0] += flowlet.fresh_bytes;
        hosts.entry(pair.dst).or_default()[1] += flowlet.fresh_bytes;
        total += flowlet.fresh_bytes;
    }
    let exchanged = |[sent, received]: &[u64; 2]| {
        let (less, more) = (*sent.min(received) as f64, *sent.max(received) as f64);
        if less >= BOTH_WAYS * more { sent + received } else { 0 }
    };
    let exchanged: u64 = hosts.values().map(exchanged).sum();
    let several = |way: fn(&[u64; 2]) -> u64| {
        let most = hosts.values().map(way).max().unwrap_or(0);
        hosts.values().filter(|bytes| way(bytes) as f64 >= BOTH_WAYS * most as f64).count() > 1
    };
    let crossing = several(|[sent, _]| *sent) && several(|[_, received]| *received);
    if total > 0 && (exchanged >= total || crossing) { Ok(()) } else { Err(NoJob::OneWay) }
}

/// True if several flows send at the same time in a step.
fn together(step: &[Record]) -> bool {
    let mut flows: Sums<(u32, u32)> = Sums::default();
    for flowlet in step {
        *flows.entry((flowlet.pair, flowlet.dest_qp)).or_default() += flowlet.fresh_bytes;
    }
    let most = flows.values().copied().max().unwrap_or(0);
    let member = |flowlet: &&Record| {
        flows.get(&(flowlet.pair, flowlet.dest_qp)).is_some_and(|bytes| *bytes as f64 >= MEMBER * most as f64)
    };
    overlap(step.iter().filter(member).map(|flowlet| (flowlet.start_ns, flowlet.end_ns)))
}

/// True if ranges of time overlap for a good part of the time that they cover.
fn overlap(spans: impl Iterator<Item = (u64, u64)>) -> bool {
    let mut edges: Vec<(u64, i64)> = spans.flat_map(|(start, end)| [(start, 1), (end, -1)]).collect();
    edges.sort_unstable();
    let (mut open, mut since, mut busy, mut several) = (0i64, 0, 0, 0);
    for (at, change) in edges {
        let length = at.saturating_sub(since);
        busy += if open > 0 { length } else { 0 };
        several += if open > 1 { length } else { 0 };
        (open, since) = (open + change, at);
    }
    several > 0 && several as f64 >= TOGETHER * busy as f64
}

/// The two hosts of a pair, whoever sends. Their packets may be questions and answers.
fn between(flowlet: &Record, pairs: &[Pair]) -> Option<[Host; 2]> {
    let pair = pairs.get(flowlet.pair as usize)?;
    Some([pair.src.min(pair.dst), pair.src.max(pair.dst)])
}

/// True if three hosts or more exchange data at once: most of it in runs to which several pairs of them contribute, or
/// by turns, so that each goes on before the other has ended.
fn at_once(step: &[Record], pairs: &[Pair]) -> bool {
    let mut spans: Map<[Host; 2], (u64, u64, u64)> = Map::default();
    for flowlet in step {
        let Some(hosts) = between(flowlet, pairs) else { continue };
        let (start, end, bytes) = spans.entry(hosts).or_insert((flowlet.start_ns, flowlet.end_ns, 0));
        (*start, *end) = (flowlet.start_ns.min(*start), flowlet.end_ns.max(*end));
        *bytes += flowlet.fresh_bytes;
    }
    let most = spans.values().map(|(.., bytes)| *bytes).max().unwrap_or(0);
    spans.retain(|_, (.., bytes)| *bytes as f64 >= MEMBER * most as f64);
    if spans.len() < 2 {
        return false;
    }
    let (mut shared, mut total) = (0, 0);
    for block in super::segment::atoms(step) {
        let mut hosts: Vec<[Host; 2]> = (step.get(block.flowlets).unwrap_or_default().iter())
            .filter(|flowlet| flowlet.fresh_bytes > 0)
            .filter_map(|flowlet| between(flowlet, pairs))
            .filter(|hosts| spans.contains_key(hosts))
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        total += block.bytes;
        shared += if hosts.len() > 1 { block.bytes } else { 0 };
    }
    shared > 0 && shared as f64 >= AT_ONCE * total as f64
        || overlap(spans.values().map(|(start, end, _)| (*start, *end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_few_steps_are_no_steps() {
        // Three steps of eight parts, the capture beginning and ending in the midst of one.
        let groups = |sizes: &[usize], waits: &[u64]| {
            let mut periods = Vec::new();
            for (at, size) in sizes.iter().enumerate() {
                periods.extend(std::iter::repeat_n(44, size - 1));
                periods.extend(waits.get(at));
            }
            in_groups(&periods, 44)
        };
        assert!(groups(&[8, 8, 8], &[690, 700]) && groups(&[3, 8, 8, 5], &[690, 700, 695]));
        assert!(!groups(&[8, 8], &[690]), "one pause shows no rhythm");
        assert!(!groups(&[8, 9, 8, 8], &[690, 700, 690]), "waits that come at any time");
        assert!(!groups(&[8, 8, 8], &[690, 2_000]) && !groups(&[20, 20, 20], &[200, 200]));
        assert!(!groups(&[24], &[]));
        // A ring of four hosts with six parts of unequal length, a third of it captured; milliseconds.
        let ring = [13, 11, 10, 12, 12, 61, 10, 12, 13, 13, 10, 62, 11, 15, 13, 15, 21, 73, 20, 20];
        assert!(in_groups(&ring, 13));
    }

    #[test]
    fn a_trend_is_no_spread_and_chance_is() {
        let trend: Vec<u64> = (0..30).map(|i| 1000 + 50 * i).collect();
        assert!(spread(&trend).unwrap() < 0.05);
        let outliers: Vec<u64> = (0..30).map(|i| if i % 7 == 3 { 5000 } else { 1000 }).collect();
        assert!(spread(&outliers).unwrap() < 0.01);
        // Twenty quantiles of the exponential distribution, in disorder.
        let random: Vec<u64> = (0..20)
            .map(|i| {
                let share = f64::from(i * 7 % 20) / 20.0 + 0.025;
                times(1_000_000, -(1.0 - share).ln())
            })
            .collect();
        assert!(spread(&random).unwrap() > 0.5, "{:?}", spread(&random));
        assert_eq!(spread(&[]), None);
    }
}
