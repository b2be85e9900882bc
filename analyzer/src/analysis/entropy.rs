//! Entropy of the bytes over the 5-tuples that the fabric hashes.

use std::collections::BTreeMap;

use crate::analysis::flow::Ports;
use crate::analysis::{DataEntropy, Entropy, TupleEntropy};
use crate::entity::wide;
use crate::sample::{Address, Direction, RetiredTuple, Sample, Tuple, address};
use rocescope_common::random::{GOLDEN, mix};

/// Entropy over 5-tuples of everything that a sample has counted, and the spread of the bytes of each sender. With very
/// many flows the sums are the largest lists that facts are made from: there is one at a time.
pub(super) fn spreads(sample: &Sample) -> (Entropy, Vec<QpSpread>) {
    let (sums, unattributed) = sums_of(sample, Unit::FiveTuple);
    let all = Spread::over(units(sums.iter().copied()), unattributed).entropy();
    let data = (all.tuples.five_tuples > 0).then(|| {
        let with_payload = sums.iter().filter(|sum| sum.with_payload).copied();
        let TupleEntropy { five_tuples, effective_flows, normalized, .. } =
            Spread::over(units(with_payload), None).entropy().tuples;
        DataEntropy { five_tuples, effective_flows, normalized }
    });
    let tuples = of_senders(units(sums.into_iter()));
    let (sums, _) = sums_of(sample, Unit::QueuePair);
    let spreads = QpSpread::join(&tuples, of_senders(units(sums.into_iter())));
    (Entropy { data, ..all }, spreads)
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
        let (sums, unattributed) = sums_of(sample, Unit::FiveTuple);
        Self::over(units(sums.into_iter().filter(|sum| sum.with_payload)), unattributed)
    }

    /// The spread of the packets on each link, both directions, by its name. Bytes without a 5-tuple are left out.
    pub fn by_link(sample: &Sample) -> BTreeMap<&str, Self> {
        let (sums, _) = sums_of(sample, Unit::FiveTuple);
        let mut links: BTreeMap<&str, Vec<Weight>> = BTreeMap::new();
        for TupleBytes { tuple, dest_qp, link, bytes, .. } in by_link(sums.into_iter()) {
            let Some(on) = sample.links.get(usize::from(link)) else { continue };
            let weights = links.entry(on.name.as_str()).or_default();
            match weights.last_mut() {
                // Both directions: sums are in the order of their 5-tuples.
                Some(last) if last.tuple == tuple => last.bytes += bytes,
                _ => weights.push(Weight { tuple, dest_qp, direction: None, bytes }),
            }
        }
        links.into_iter().map(|(name, weights)| (name, Self::over(weights.into_iter(), None))).collect()
    }

    pub(super) fn over(weights: impl Iterator<Item = Weight>, unattributed_bytes: Option<u64>) -> Self {
        let mut tuples: Vec<(u64, u16, u64)> =
            weights.map(|w| (digest(&w), w.tuple.src_port, w.bytes)).collect();
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
        let source_ports = distinct(&mut self.tuples.iter().map(|(_, port, _)| *port).collect());
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

impl TupleBytes {
    fn is_of_unit(&self, other: &Self) -> bool {
        (self.tuple, self.dest_qp) == (other.tuple, other.dest_qp)
    }

    const fn weight(self) -> Weight {
        let Self { tuple, dest_qp, bytes, .. } = self;
        Weight { tuple, dest_qp, direction: None, bytes }
    }
}

/// Bytes of a sample by 5-tuple and by queue pair. Bytes of retired flows are known by 5-tuple only and stay so.
pub(super) struct Weights {
    pub(super) tuples: Vec<Weight>,
    pub(super) queue_pairs: Vec<Weight>,
}

impl Weights {
    pub(super) fn of(sample: &Sample) -> Self {
        let direction = |link: u16| sample.links.get(usize::from(link)).and_then(|link| link.direction);
        let weights = |unit| {
            let sums = of_units(sums_of(sample, unit).0.into_iter());
            sums.map(|sum| Weight { direction: direction(sum.link), ..sum.weight() }).collect()
        };
        Self { tuples: weights(Unit::FiveTuple), queue_pairs: weights(Unit::QueuePair) }
    }
}

/// The weights of sums that are in order, without directions.
fn units(sums: impl Iterator<Item = TupleBytes>) -> impl Iterator<Item = Weight> {
    of_units(sums).map(TupleBytes::weight)
}

/// Bytes by 5-tuple or queue pair, of sums that are in order, so that sums of floats are the same in every run. The
/// same packet passes several links: the link that saw most of the tuple speaks for it, of those that saw the same the
/// first.
fn of_units(sums: impl Iterator<Item = TupleBytes>) -> impl Iterator<Item = TupleBytes> {
    let mut sums = by_link(sums).peekable();
    std::iter::from_fn(move || {
        let mut best = sums.next()?;
        while let Some(other) = sums.next_if(|other| other.is_of_unit(&best)) {
            if other.bytes > best.bytes {
                best = other;
            }
        }
        Some(best)
    })
}

/// Sums that are in order, with those of the same link as one.
fn by_link(sums: impl Iterator<Item = TupleBytes>) -> impl Iterator<Item = TupleBytes> {
    let mut sums = sums.peekable();
    std::iter::from_fn(move || {
        let mut sum = sums.next()?;
        while let Some(more) = sums.next_if(|more| more.link == sum.link && more.is_of_unit(&sum)) {
            sum.bytes += more.bytes;
        }
        Some(sum)
    })
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
fn distinct(ports: &mut Vec<u16>) -> u64 {
    ports.sort_unstable();
    ports.dedup();
    ports.len() as u64
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
        let of = |weights: &[Weight]| of_senders(weights.iter().copied());
        Self::join(&of(tuples), of(queue_pairs))
    }

    fn join(tuples: &[SentBytes], queue_pairs: Vec<SentBytes>) -> Vec<Self> {
        let spreads = queue_pairs.into_iter().filter_map(|pairs| {
            let at = tuples.binary_search_by_key(&pairs.src, |tuples| tuples.src).ok()?;
            let tuples = tuples.get(at)?;
            Some(Self {
                src: pairs.src,
                queue_pairs: pairs.units,
                effective_queue_pairs: pairs.effective,
                five_tuples: tuples.units,
                effective_tuples: tuples.effective,
                source_ports: tuples.source_ports,
            })
        });
        spreads.collect()
    }
}

/// Bytes that one host sends, by one [`Unit`].
struct SentBytes {
    src: Address,
    /// Number of its units.
    units: u64,
    /// Number of equal weights that would spread as evenly; `None` when they have no bytes.
    effective: Option<f64>,
    source_ports: u64,
}

/// The bytes of each host that sends, by address. Weights are in the order of addresses as these are on the wire, which
/// is another one.
fn of_senders(weights: impl Iterator<Item = Weight>) -> Vec<SentBytes> {
    let sender = |weight: &Weight| (weight.tuple.family, weight.tuple.src);
    let mut weights = weights.peekable();
    let mut senders = Vec::new();
    let (mut bytes, mut ports): (Vec<u64>, Vec<u16>) = (Vec::new(), Vec::new());
    while let Some((family, src)) = weights.peek().map(sender) {
        bytes.clear();
        ports.clear();
        while let Some(weight) = weights.next_if(|weight| sender(weight) == (family, src)) {
            bytes.push(weight.bytes);
            ports.push(weight.tuple.src_port);
        }
        senders.push(SentBytes {
            src: address(family, src),
            units: bytes.len() as u64,
            effective: bits_of(bytes.iter().copied()).map(f64::exp2),
            source_ports: distinct(&mut ports),
        });
    }
    senders.sort_by_key(|sent| sent.src);
    senders
}

/// A number that stands for a unit, the same in every run.
pub(super) fn digest(weight: &Weight) -> u64 {
    let Weight { tuple, dest_qp, .. } = weight;
    let words = tuple.src.into_iter().chain(tuple.dst).chain([u32::from(tuple.src_port), *dest_qp]);
    words.fold(u64::from(tuple.family), |state, word| mix(state.wrapping_add(GOLDEN) ^ u64::from(word)))
}
