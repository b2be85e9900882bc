//! Entropy of the bytes over the 5-tuples that the fabric hashes.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::flow::Ports;
use crate::analysis::{DataEntropy, Entropy};
use crate::sample::{Address, Direction, FlowSample, RetiredTuple, Sample, Tuple, address};
use rocescope_common::random::{GOLDEN, mix};

/// Entropy over 5-tuples of everything that `sample` has counted.
#[must_use]
pub fn entropy(sample: &Sample) -> Entropy {
    let all = Spread::of(sample).entropy();
    let data = (all.five_tuples > 0).then(|| {
        let Entropy { five_tuples, effective_flows, normalized, .. } = Spread::of_data(sample).entropy();
        DataEntropy { five_tuples, effective_flows, normalized }
    });
    Entropy { data, ..all }
}

/// Distribution of bytes over 5-tuples at a moment, small enough to be kept: the bytes between two moments
/// have an entropy of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// A number that stands for the 5-tuple, its source port, its bytes; by number.
    tuples: Vec<(u64, u16, u64)>,
    unattributed_bytes: Option<u64>,
}

impl Spread {
    /// The spread of everything that `sample` has counted.
    #[must_use]
    pub fn of(sample: &Sample) -> Self {
        Self::over(weights(sample, Unit::FiveTuple))
    }

    /// The spread of the flows that carry payload; of retired ones that is not known.
    fn of_data(sample: &Sample) -> Self {
        Self::over(weights_of(sample, Unit::FiveTuple, |flow| flow.stats.payload_bytes > 0, &[]))
    }

    /// The spread of the packets on each link, both directions, by its name. Bytes without a 5-tuple are left out.
    #[must_use]
    pub fn by_link(sample: &Sample) -> BTreeMap<&str, Self> {
        let (sums, _) = sums_of(sample, Unit::FiveTuple, |_| true, &sample.retired_tuples);
        let mut links: BTreeMap<&str, Vec<Weight>> = BTreeMap::new();
        for TupleBytes { tuple, dest_qp, link, bytes } in sums {
            let Some(on) = sample.links.get(usize::from(link)) else { continue };
            let weights = links.entry(on.name.as_str()).or_default();
            match weights.last_mut() {
                // Both directions: sums are in the order of their 5-tuples.
                Some(last) if last.tuple == tuple => last.bytes += bytes,
                _ => weights.push(Weight { tuple, dest_qp, direction: None, bytes }),
            }
        }
        links.into_iter().map(|(name, weights)| (name, Self::over((weights, None)))).collect()
    }

    pub(super) fn over((weights, unattributed_bytes): (Vec<Weight>, Option<u64>)) -> Self {
        let mut tuples: Vec<(u64, u16, u64)> =
            weights.iter().map(|w| (digest(w), w.tuple.src_port, w.bytes)).collect();
        tuples.sort_unstable();
        Self { tuples, unattributed_bytes }
    }

    /// The increase since `earlier`. 5-tuples without new bytes are left out; so are the bytes of one
    /// that now has fewer, since another link speaks for it.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut before = earlier.tuples.iter().peekable();
        let mut tuples = Vec::new();
        for &(digest, port, bytes) in &self.tuples {
            while before.next_if(|(other, ..)| *other < digest).is_some() {}
            let then = before.next_if(|(other, ..)| *other == digest).map_or(0, |(.., bytes)| *bytes);
            if bytes > then {
                tuples.push((digest, port, bytes - then));
            }
        }
        let between = self.unattributed_bytes.zip(earlier.unattributed_bytes);
        Self { tuples, unattributed_bytes: between.map(|(now, then)| now.saturating_sub(then)) }
    }

    /// Entropy and related figures of these 5-tuples.
    #[must_use]
    pub fn entropy(&self) -> Entropy {
        let five_tuples = self.tuples.len() as u64;
        let source_ports = self.tuples.iter().map(|(_, port, _)| port).collect::<BTreeSet<_>>().len() as u64;
        let nothing = Entropy {
            five_tuples,
            source_ports,
            unattributed_bytes: self.unattributed_bytes,
            ..Entropy::default()
        };
        let bytes = || self.tuples.iter().map(|(.., bytes)| *bytes);
        let Some(bits) = bits_of(bytes()) else { return nothing };
        let total = bytes().map(|bytes| bytes as f64).sum::<f64>();
        let top = bytes().max().unwrap_or(0);
        Entropy {
            entropy_bits: Some(bits),
            normalized: (five_tuples > 1).then(|| bits / (five_tuples as f64).log2()),
            effective_flows: Some(bits.exp2()),
            top_share: Some(top as f64 / total),
            ..nothing
        }
    }
}

/// The key that bytes are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Addresses and source port: what the fabric sees.
    FiveTuple,
    /// Addresses and destination queue pair, whatever the port.
    QueuePair,
}

/// Bytes of one [`Unit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Weight {
    /// Addresses and source port; the port is 0 for a queue pair.
    pub(super) tuple: Tuple,
    /// Destination queue pair; 0 for a 5-tuple.
    pub(super) dest_qp: u32,
    /// Direction of the link that saw most bytes.
    pub(super) direction: Option<Direction>,
    /// Bytes on that link.
    pub(super) bytes: u64,
}

/// Bytes of one [`Unit`] on one link.
#[derive(Clone, Copy, Debug)]
struct TupleBytes {
    tuple: Tuple,
    dest_qp: u32,
    link: u16,
    bytes: u64,
}

/// Bytes by 5-tuple or queue pair, in a fixed order so that sums of floats are the same in every
/// run, and the bytes that have no 5-tuple (`None`: not even how many). Bytes of
/// retired flows are known by 5-tuple only and stay so.
pub(super) fn weights(sample: &Sample, unit: Unit) -> (Vec<Weight>, Option<u64>) {
    weights_of(sample, unit, |_| true, &sample.retired_tuples)
}

/// The same of some flows and retired tuples.
fn weights_of(
    sample: &Sample,
    unit: Unit,
    is_counted: fn(&FlowSample) -> bool,
    retired: &[RetiredTuple],
) -> (Vec<Weight>, Option<u64>) {
    let (mut sums, unattributed) = sums_of(sample, unit, is_counted, retired);
    // The same packet passes several links: the link that saw most of the tuple speaks for it, of those that saw the
    // same the first.
    sums.dedup_by(|other, best| {
        let same = (other.tuple, other.dest_qp) == (best.tuple, best.dest_qp);
        if same && other.bytes > best.bytes {
            *best = *other;
        }
        same
    });
    let direction = |link: u16| sample.links.get(usize::from(link)).and_then(|link| link.direction);
    // Of one size: collected in place.
    const { assert!(size_of::<TupleBytes>() == size_of::<Weight>()) };
    let weight = |TupleBytes { tuple, dest_qp, link, bytes }| Weight {
        tuple,
        dest_qp,
        direction: direction(link),
        bytes,
    };
    let weights = sums.into_iter().map(weight).collect();
    (weights, unattributed)
}

/// The same by link, each once, in the order of 5-tuples, queue pairs and links.
fn sums_of(
    sample: &Sample,
    unit: Unit,
    is_counted: fn(&FlowSample) -> bool,
    retired: &[RetiredTuple],
) -> (Vec<TupleBytes>, Option<u64>) {
    let mut sums: Vec<TupleBytes> = Vec::with_capacity(sample.flows.len());
    let mut add = |tuple, dest_qp, link, bytes| sums.push(TupleBytes { tuple, dest_qp, link, bytes });
    let without_flow = sample.links.iter().map(|link| link.without_flow().bytes).sum::<u64>();
    let mut unattributed = Some(sample.retired_unattributed + without_flow);
    for flow in sample.flows.iter().filter(|flow| is_counted(flow)) {
        let key = &flow.key;
        let tuple = |src_port| Tuple { family: key.family, src: key.src, dst: key.dst, src_port };
        let duplicates = sample.duplicates(flow.slot).bytes;
        if unit == Unit::QueuePair {
            add(tuple(0), key.dest_qp, key.link, flow.stats.bytes.saturating_sub(duplicates));
            continue;
        }
        let ports = Ports::of(&flow.stats, sample.extra.get(&flow.slot));
        if sample.lacks_ports(key.link) {
            unattributed = unattributed.zip(ports.missing_bytes).map(|(sum, bytes)| sum + bytes);
        }
        for port in ports.seen {
            // Duplicates have the port of their packets, and are spread over the flow's ports as those are.
            let once = port.bytes - share(duplicates, port.bytes, flow.stats.bytes);
            add(tuple(port.port), 0, key.link, once);
        }
    }
    for retired in retired {
        add(retired.tuple, 0, retired.link, retired.bytes);
    }
    sums.sort_unstable_by_key(|sum| (sum.tuple, sum.dest_qp, sum.link));
    sums.dedup_by(|more, sum| {
        let same = (more.tuple, more.dest_qp, more.link) == (sum.tuple, sum.dest_qp, sum.link);
        sum.bytes += if same { more.bytes } else { 0 };
        same
    });
    (sums, unattributed)
}

/// `part` of `whole` of these bytes; no more than `part`.
fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(bytes) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX).min(part)
}

/// Entropy of weights in bits; `None` when they have no bytes.
pub(super) fn bits<'a>(weights: impl Iterator<Item = &'a Weight> + Clone) -> Option<f64> {
    bits_of(weights.map(|w| w.bytes))
}

fn bits_of(weights: impl Iterator<Item = u64> + Clone) -> Option<f64> {
    let total = weights.clone().map(|bytes| bytes as f64).sum::<f64>();
    // p·log2(1/p) rather than −p·log2(p): one tuple gives 0, not −0.
    let shares = weights.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64 / total);
    (total > 0.0).then(|| shares.map(|p| p * p.recip().log2()).sum())
}

/// Spread of the bytes that one host sends, over queue pairs and over 5-tuples.
#[derive(Clone, Debug, PartialEq)]
pub struct QpSpread {
    /// Address of the sending host.
    pub src: Address,
    /// Queue pairs that it sends to.
    pub queue_pairs: u64,
    /// Number of equal queue pairs that would spread as evenly; `None` without bytes.
    pub effective_queue_pairs: Option<f64>,
    /// 5-tuples that it sends from.
    pub five_tuples: u64,
    /// Number of equal 5-tuples that would spread as evenly.
    pub effective_tuples: Option<f64>,
    /// Number of different source ports.
    pub source_ports: u64,
}

impl QpSpread {
    /// One for each host that sends, by address. RoCEv1 and retired flows are left out, since for these not
    /// both are known.
    #[must_use]
    pub fn by_sender(sample: &Sample) -> Vec<Self> {
        let (tuples, _) = weights(sample, Unit::FiveTuple);
        let (pairs, _) = weights(sample, Unit::QueuePair);
        Self::of_weights(tuples, pairs)
    }

    /// The same for any weights: by 5-tuple, and by queue pair.
    pub(super) fn of_weights(mut tuples: Vec<Weight>, mut pairs: Vec<Weight>) -> Vec<Self> {
        let sender = |w: &Weight| address(w.tuple.family, w.tuple.src);
        for list in [&mut tuples, &mut pairs] {
            list.sort_by_key(|w| (sender(w), *w));
        }
        let tuples: Vec<&[Weight]> = tuples.chunk_by(|a, b| sender(a) == sender(b)).collect();
        let pairs = pairs.chunk_by(|a, b| sender(a) == sender(b)).filter_map(|pairs| {
            let src = pairs.first().map(sender)?;
            // Both are sorted by sender.
            let at = tuples.binary_search_by_key(&Some(src), |tuples| tuples.first().map(sender)).ok()?;
            let tuples = tuples.get(at)?;
            let ports: BTreeSet<u16> = tuples.iter().map(|w| w.tuple.src_port).collect();
            Some(Self {
                src,
                queue_pairs: pairs.len() as u64,
                effective_queue_pairs: bits(pairs.iter()).map(f64::exp2),
                five_tuples: tuples.len() as u64,
                effective_tuples: bits(tuples.iter()).map(f64::exp2),
                source_ports: ports.len() as u64,
            })
        });
        pairs.collect()
    }
}

/// A number that stands for a unit, the same in every run.
pub(super) fn digest(weight: &Weight) -> u64 {
    let Weight { tuple, dest_qp, .. } = weight;
    let words = tuple.src.into_iter().chain(tuple.dst).chain([u32::from(tuple.src_port), *dest_qp]);
    words.fold(u64::from(tuple.family), |state, word| mix(state.wrapping_add(GOLDEN) ^ u64::from(word)))
}
