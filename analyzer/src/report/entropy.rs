//! How evenly bytes spread over 5-tuples: what the fabric hashes to choose a path.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use crate::report::Entropy;
use crate::report::flow::Ports;
use crate::sample::{Sample, Tuple};

/// Entropy over 5-tuples of everything that `sample` has counted.
#[must_use]
pub fn entropy(sample: &Sample) -> Entropy {
    let (weights, unattributed_bytes) = weights(sample);
    let five_tuples = weights.len() as u64;
    let source_ports = weights.iter().map(|(tuple, _)| tuple.src_port).collect::<BTreeSet<_>>().len() as u64;
    let total = weights.iter().map(|(_, bytes)| *bytes as f64).sum::<f64>();
    let nothing = Entropy { five_tuples, source_ports, unattributed_bytes, ..Entropy::default() };
    if total <= 0.0 {
        return nothing;
    }
    // p·log2(1/p) rather than −p·log2(p): one tuple gives 0, not −0.
    let bits: f64 = weights
        .iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(_, bytes)| *bytes as f64 / total)
        .map(|p| p * p.recip().log2())
        .sum();
    let top = weights.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    Entropy {
        entropy_bits: Some(bits),
        normalized: (five_tuples > 1).then(|| bits / (five_tuples as f64).log2()),
        effective_flows: Some(bits.exp2()),
        top_share: Some(top as f64 / total),
        ..nothing
    }
}

/// Bytes by 5-tuple, in a fixed order so that sums of floats are the same in every run, and the
/// bytes that cannot be told apart by 5-tuple (`None`: not even how many).
fn weights(sample: &Sample) -> (Vec<(Tuple, u64)>, Option<u64>) {
    let mut by_link: HashMap<(Tuple, u16), u64, foldhash::fast::RandomState> = HashMap::default();
    let mut unattributed = Some(sample.retired_unattributed);
    for flow in &sample.flows {
        let key = &flow.key;
        let ports = Ports::of(&flow.stats, sample.extra.get(&flow.slot));
        if sample.links.get(usize::from(key.link)).is_some_and(|link| link.extra_full > 0) {
            unattributed = unattributed.zip(ports.missing_bytes).map(|(sum, bytes)| sum + bytes);
        }
        for port in ports.seen {
            let tuple = Tuple { family: key.family, src: key.src, dst: key.dst, src_port: port.port };
            *by_link.entry((tuple, key.link)).or_default() += port.bytes;
        }
    }
    for retired in &sample.retired_tuples {
        *by_link.entry((retired.tuple, retired.link)).or_default() += retired.bytes;
    }
    // The same packet passes several links: the link that saw most of the tuple speaks for it.
    let mut most: HashMap<Tuple, u64, foldhash::fast::RandomState> = HashMap::default();
    for ((tuple, _), bytes) in by_link {
        let weight = most.entry(tuple).or_default();
        *weight = bytes.max(*weight);
    }
    let mut weights: Vec<_> = most.into_iter().collect();
    weights.sort_unstable();
    (weights, unattributed)
}
