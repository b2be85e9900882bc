//! Entropy of the bytes over the 5-tuples that the fabric hashes.

use std::collections::BTreeMap;

use crate::analysis::flow::Ports;
use crate::analysis::{DataEntropy, Entropy, TupleEntropy};
use crate::entity::wide;
use crate::sample::{Address, Direction, RetiredTuple, Sample, Tuple, address};
use rocescope_common::random::{GOLDEN, mix};

/// Entropy over 5-tuples of everything that a sample with these weights has counted.
pub(super) fn entropy(weights: &Weights) -> Entropy {
    let all = Spread::over(&weights.tuples, weights.unattributed_bytes).entropy();
    let data = (all.tuples.five_tuples > 0).then(|| {
        let TupleEntropy { five_tuples, effective_flows, normalized, .. } = weights.data.entropy().tuples;
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
    /// The spread of the data that `sample` has counted: of the flows that carry payload. ACKs go back on as many ports
    /// as data came, and ECMP has the data to balance.
    pub fn of_data(sample: &Sample) -> Self {
        let (mut sums, unattributed) = sums_of(sample, Unit::FiveTuple);
        sums.retain(|sum| sum.with_payload);
        Self::over(&weights(sample, sums), unattributed)
    }

    /// The spread of the packets on each link, both directions, by its name. Bytes without a 5-tuple are left out.
    pub fn by_link(sample: &Sample) -> BTreeMap<&str, Self> {
        let (sums, _) = sums_of(sample, Unit::FiveTuple);
        let mut links: BTreeMap<&str, Vec<Weight>> = BTreeMap::new();
        for TupleBytes { tuple, dest_qp, link, bytes, .. } in by_link(sums) {
            let Some(on) = sample.links.get(usize::from(link)) else { continue };
            let weights = links.entry(on.name.as_str()).or_default();
            match weights.last_mut() {
                // Both directions: sums are in the order of their 5-tuples.
                Some(last) if last.tuple == tuple => last.bytes += bytes,
                _ => weights.push(Weight { tuple, dest_qp, direction: None, bytes }),
            }
        }
        links.into_iter().map(|(name, weights)| (name, Self::over(&weights, None))).collect()
    }

    pub(super) fn over(weights: &[Weight], unattributed_bytes: Option<u64>) -> Self {
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
    pub fn entropy(&self) -> Entropy {
        let five_tuples = self.tuples.len() as u64;
        let source_ports = distinct(self.tuples.iter().map(|(_, port, _)| *port));
        let bytes = || self.tuples.iter().map(|(.., bytes)| *bytes);
        let bits = bits_of(bytes());
        let total = bytes().map(|bytes| bytes as f64).sum::<f64>();
        let top = bytes().max().unwrap_or(0);
        let tuples = TupleEntropy {
            five_tuples,
            source_ports,
            entropy_bits: bits,
            normalized: bits.filter(|_| five_tuples > 1).map(|bits| bits / (five_tuples as f64).log2()),
            effective_flows: bits.map(f64::exp2),
            top_share: bits.map(|_| top as f64 / total),
        };
        Entropy { tuples, unattributed_bytes: self.unattributed_bytes, data: None }
    }
}

/// The key that bytes are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
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
    /// They are of a flow that carries payload; of a retired one that is not known.
    with_payload: bool,
    bytes: u64,
}

/// Bytes of a sample by 5-tuple and by queue pair, which several figures are made of. Bytes of retired flows are known
/// by 5-tuple only and stay so.
pub(super) struct Weights {
    pub(super) tuples: Vec<Weight>,
    pub(super) queue_pairs: Vec<Weight>,
    /// 5-tuples of the flows that carry payload.
    data: Spread,
    /// Bytes that have no 5-tuple; `None`: not even how many.
    unattributed_bytes: Option<u64>,
}

impl Weights {
    pub(super) fn of(sample: &Sample) -> Self {
        let (sums, unattributed_bytes) = sums_of(sample, Unit::FiveTuple);
        let data = sums.iter().filter(|sum| sum.with_payload).copied().collect();
        Self {
            data: Spread::over(&weights(sample, data), None),
            tuples: weights(sample, sums),
            queue_pairs: weights(sample, sums_of(sample, Unit::QueuePair).0),
            unattributed_bytes,
        }
    }
}

/// Bytes by 5-tuple or queue pair, in a fixed order so that sums of floats are the same in every run.
fn weights(sample: &Sample, sums: Vec<TupleBytes>) -> Vec<Weight> {
    let mut sums = by_link(sums);
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
    let weight = |TupleBytes { tuple, dest_qp, link, bytes, .. }| Weight {
        tuple,
        dest_qp,
        direction: direction(link),
        bytes,
    };
    sums.into_iter().map(weight).collect()
}

/// Sums that are in order, with those of the same link as one.
fn by_link(mut sums: Vec<TupleBytes>) -> Vec<TupleBytes> {
    sums.dedup_by(|more, sum| {
        let same = (more.tuple, more.dest_qp, more.link) == (sum.tuple, sum.dest_qp, sum.link);
        sum.bytes += if same { more.bytes } else { 0 };
        same
    });
    sums
}

/// Bytes of each flow and retired 5-tuple, in the order of 5-tuples, queue pairs and links, and the bytes that have no
/// 5-tuple (`None`: not even how many).
fn sums_of(sample: &Sample, unit: Unit) -> (Vec<TupleBytes>, Option<u64>) {
    let mut sums: Vec<TupleBytes> = Vec::with_capacity(sample.flows.len());
    let without_flow = sample.links.iter().map(|link| link.without_flow().bytes).sum::<u64>();
    let mut unattributed = Some(sample.retired_unattributed + without_flow);
    for flow in &sample.flows {
        let key = &flow.key;
        let sum = |src_port, dest_qp, bytes| TupleBytes {
            tuple: Tuple { family: key.family, src: key.src, dst: key.dst, src_port },
            dest_qp,
            link: key.link,
            with_payload: flow.stats.payload_bytes > 0,
            bytes,
        };
        let duplicates = sample.duplicates(flow.slot).bytes;
        if unit == Unit::QueuePair {
            sums.push(sum(0, key.dest_qp, flow.stats.bytes.saturating_sub(duplicates)));
            continue;
        }
        let ports = Ports::of(&flow.stats, sample.extra.get(&flow.slot));
        if sample.lacks_ports(key.link) {
            unattributed = unattributed.zip(ports.missing_bytes).map(|(sum, bytes)| sum + bytes);
        }
        sums.extend(ports.seen.iter().map(|port| {
            // Duplicates have the port of their packets, and are spread over the flow's ports as those are.
            let once = port.bytes - share(duplicates, port.bytes, flow.stats.bytes);
            sum(port.port, 0, once)
        }));
    }
    let retired = |&RetiredTuple { tuple, link, bytes }: &RetiredTuple| TupleBytes {
        tuple,
        dest_qp: 0,
        link,
        with_payload: false,
        bytes,
    };
    sums.extend(sample.retired_tuples.iter().map(retired));
    // As tuples are in order.
    sums.sort_unstable_by_key(|sum| {
        let Tuple { family, src, dst, src_port } = sum.tuple;
        (family, wide(src), wide(dst), src_port, sum.dest_qp, sum.link)
    });
    (sums, unattributed)
}

/// `part` of `whole` of these bytes; no more than `part`.
fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(bytes) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX).min(part)
}

/// Number of different ports.
fn distinct(ports: impl Iterator<Item = u16>) -> u64 {
    let mut ports: Vec<u16> = ports.collect();
    ports.sort_unstable();
    ports.dedup();
    ports.len() as u64
}

/// Number of equal weights that would spread as evenly; `None` when they have no bytes.
fn effective(weights: &[Weight]) -> Option<f64> {
    bits_of(weights.iter().map(|w| w.bytes)).map(f64::exp2)
}

/// Entropy of bytes in bits; `None` when there are none.
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
    /// One for each host that sends, by address: of weights by 5-tuple and by queue pair, each in their order. RoCEv1
    /// and retired flows are left out, since for these not both are known.
    pub(super) fn by_sender(tuples: &[Weight], queue_pairs: &[Weight]) -> Vec<Self> {
        let by_tuple = of_senders(tuples);
        let spreads = of_senders(queue_pairs).into_iter().filter_map(|(src, pairs)| {
            let at = by_tuple.binary_search_by_key(&src, |(src, _)| *src).ok()?;
            let (_, tuples) = by_tuple.get(at)?;
            Some(Self {
                src,
                queue_pairs: pairs.len() as u64,
                effective_queue_pairs: effective(pairs),
                five_tuples: tuples.len() as u64,
                effective_tuples: effective(tuples),
                source_ports: distinct(tuples.iter().map(|w| w.tuple.src_port)),
            })
        });
        spreads.collect()
    }
}

/// The weights of each host that sends, by address. They are in the order of addresses as these are on the wire, which
/// is another one.
fn of_senders<'w>(weights: &'w [Weight]) -> Vec<(Address, &'w [Weight])> {
    let parts = weights.chunk_by(|a, b| (a.tuple.family, a.tuple.src) == (b.tuple.family, b.tuple.src));
    let of_sender = |part: &'w [Weight]| {
        let Tuple { family, src, .. } = part.first()?.tuple;
        Some((address(family, src), part))
    };
    let mut parts: Vec<_> = parts.filter_map(of_sender).collect();
    parts.sort_by_key(|(src, _)| *src);
    parts
}

/// A number that stands for a unit, the same in every run.
pub(super) fn digest(weight: &Weight) -> u64 {
    let Weight { tuple, dest_qp, .. } = weight;
    let words = tuple.src.into_iter().chain(tuple.dst).chain([u32::from(tuple.src_port), *dest_qp]);
    words.fold(u64::from(tuple.family), |state, word| mix(state.wrapping_add(GOLDEN) ^ u64::from(word)))
}
