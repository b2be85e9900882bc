//! Simulated load of N equal uplinks over which these flows are hashed.
//!
//! The hash and the seed of a real switch are not known to anyone outside it, so no path is
//! predicted. Instead the flows are hashed with many seeds, and the spread of the outcome is shown:
//! the median is what to expect, the 95th percentile what one fabric in twenty gets.

use rocescope_common::random::{GOLDEN, mix};
use serde::Serialize;

use super::entropy::{Weight, Weights, digest};
use crate::sample::{Address, Direction, Sample, address};
use crate::util::definition::definitions;

/// Seeds that are tried.
const SEEDS: u32 = 256;
/// Number of the heaviest tuples that are hashed one by one; the rest counts as spread evenly, as thousands
/// of small flows are.
const MAX_TUPLES: usize = 4096;
definitions! {
    HEAVY: f64 = 0.8,
        "Share of the bytes that heavy 5-tuples carry together",
        "The rest does not decide which uplink is the busiest";
}
/// Queue pairs per connection that are tried as a remedy.
const QPS: [u32; 3] = [2, 4, 8];

/// ECMP what-if: 5-tuples hashed over equal uplinks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ecmp {
    /// Equal uplinks, from `--ecmp`. Unit: links.
    pub uplinks: u32,
    /// Hash seeds that were tried. Unit: seeds.
    pub seeds: u32,
    /// Sets of flows that compete for the uplinks.
    pub sets: Vec<Set>,
}

/// Flows that share the uplinks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Set {
    /// Name of the set: the flows of a direction; in a capture taken at one host those sent and those
    /// received by it; else all.
    pub of: String,
    /// Their direction. Null: replay.
    pub direction: Option<Direction>,
    /// Distinct 5-tuples among them. Unit: tuples.
    pub five_tuples: u64,
    /// Their bytes, each 5-tuple on the link that saw most bytes. Unit: bytes.
    pub bytes: u64,
    /// Heavy 5-tuples: the smallest number of 5-tuples that carry four fifths of the bytes. Unit: tuples.
    pub heavy: u64,
    /// Expected number of heavy 5-tuples on an uplink that already has one, over all hash functions: h − N·(1
    /// − (1 − 1/N)^h). Unit: tuples.
    pub expected_collisions: f64,
    /// Hashing of the flows as seen, and with more source ports or queue pairs.
    pub cases: Vec<Case>,
}

/// Load of the busiest uplink in one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Case {
    /// `as_seen`; `port_per_qp`: each queue pair has its own source port; `qps_2`, `qps_4`, `qps_8`: each
    /// 5-tuple is split evenly over that number of queue pairs with their own ports.
    pub case: String,
    /// 5-tuples in this case. Unit: tuples.
    pub five_tuples: u64,
    /// Bytes of the busiest uplink over the mean, median over the seeds. Unit: ratio.
    pub max_over_mean_p50: f64,
    /// The same, 95th percentile: one fabric in twenty is worse. Unit: ratio.
    pub max_over_mean_p95: f64,
}

/// The what-if for any number of uplinks, whatever the options say.
pub fn what_if(sample: &Sample, uplinks: u32) -> Ecmp {
    let Weights { tuples, queue_pairs } = Weights::of(sample);
    let sides = sides(sample, &tuples);
    let sets = sides
        .into_iter()
        .map(|side| {
            let by_tuple: Vec<Weight> = tuples.iter().filter(|w| side.has(w)).copied().collect();
            let by_flow: Vec<Weight> = queue_pairs.iter().filter(|w| side.has(w)).copied().collect();
            set(&side, uplinks, &by_tuple, &by_flow)
        })
        .filter(|set| set.bytes > 0)
        .collect();
    Ecmp { uplinks, seeds: SEEDS, sets }
}

/// The same for any weights: by 5-tuple, and by queue pair; `None` when they weigh nothing.
pub(super) fn of_weights(uplinks: u32, name: &str, tuples: &[Weight], flows: &[Weight]) -> Option<Ecmp> {
    let direction = Some(Direction::Egress);
    let side = Side { name: name.into(), direction, links: None, src: None, dst: None };
    let set = set(&side, uplinks, tuples, flows);
    (set.bytes > 0).then(|| Ecmp { uplinks, seeds: SEEDS, sets: vec![set] })
}

/// Flows that go the same way, and so compete.
struct Side {
    name: String,
    direction: Option<Direction>,
    links: Option<Direction>,
    src: Option<Address>,
    dst: Option<Address>,
}

impl Side {
    fn has(&self, weight: &Weight) -> bool {
        let tuple = &weight.tuple;
        self.links.is_none_or(|direction| weight.direction == Some(direction))
            && self.src.is_none_or(|src| address(tuple.family, tuple.src) == src)
            && self.dst.is_none_or(|dst| address(tuple.family, tuple.dst) == dst)
    }
}

/// The two directions if links have directions. In a capture taken at one host, what it sends and what it
/// receives. Else everything.
fn sides(sample: &Sample, tuples: &[Weight]) -> Vec<Side> {
    let all = Side { name: "all".into(), direction: None, links: None, src: None, dst: None };
    if sample.links.iter().any(|link| link.direction.is_some()) {
        return [Direction::Egress, Direction::Ingress]
            .map(|direction| Side {
                name: super::direction_name(direction).into(),
                direction: Some(direction),
                links: Some(direction),
                ..Side { name: String::new(), direction: None, links: None, src: None, dst: None }
            })
            .into();
    }
    let mut ends = tuples.iter().map(|w| {
        let tuple = &w.tuple;
        [address(tuple.family, tuple.src), address(tuple.family, tuple.dst)]
    });
    let Some(first) = ends.next() else { return vec![all] };
    let rest: Vec<[Address; 2]> = ends.collect();
    let common: Vec<Address> =
        first.into_iter().filter(|host| rest.iter().all(|ends| ends.contains(host))).collect();
    // Two common hosts: the only pair there is, either of which distinguishes the directions.
    let Some(&host) = common.first() else { return vec![all] };
    vec![
        Side { name: format!("sent by {host}"), src: Some(host), direction: None, links: None, dst: None },
        Side { name: format!("sent to {host}"), dst: Some(host), direction: None, links: None, src: None },
    ]
}

/// A case of the what-if as people read it; `None` for what is none.
pub fn in_words(case: &str) -> Option<String> {
    match case {
        "as_seen" => Some("as it is now".to_owned()),
        "port_per_qp" => Some("a source port for each QP".to_owned()),
        case => {
            let qps: u32 = case.strip_prefix("qps_")?.parse().ok()?;
            Some(format!("{qps} QPs per connection"))
        }
    }
}

fn set(side: &Side, uplinks: u32, tuples: &[Weight], flows: &[Weight]) -> Set {
    let bytes: u64 = tuples.iter().map(|w| w.bytes).sum();
    let heavy = heavy(tuples, bytes);
    let as_seen = case("as_seen".into(), uplinks, tuples, 1);
    let name = "port_per_qp".to_owned();
    // Where that changes nothing, other hashes would only give another figure by chance.
    let port_per_qp = if have_own_ports(tuples, flows) {
        Case { case: name, ..as_seen.clone() }
    } else {
        case(name, uplinks, flows, 1)
    };
    let mut cases = vec![as_seen, port_per_qp];
    cases.extend(QPS.map(|qps| case(format!("qps_{qps}"), uplinks, tuples, qps)));
    Set {
        of: side.name.clone(),
        direction: side.direction,
        five_tuples: tuples.len() as u64,
        bytes,
        heavy,
        expected_collisions: collisions(heavy, uplinks),
        cases,
    }
}

/// True if each queue pair has a source port of its own: its bytes are those of one 5-tuple between the same hosts.
fn have_own_ports(tuples: &[Weight], flows: &[Weight]) -> bool {
    let ends = |weights: &[Weight]| {
        let mut ends: Vec<_> =
            weights.iter().map(|w| (w.tuple.family, w.tuple.src, w.tuple.dst, w.bytes)).collect();
        ends.sort_unstable();
        ends
    };
    tuples.len() == flows.len() && ends(tuples) == ends(flows)
}

/// The fewest tuples that carry four fifths of the bytes.
fn heavy(tuples: &[Weight], bytes: u64) -> u64 {
    let mut sizes: Vec<u64> = tuples.iter().map(|w| w.bytes).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0;
    let rest = |size: &u64| {
        sum += size;
        (sum - size) as f64 >= bytes as f64 * HEAVY
    };
    sizes.iter().position(rest).unwrap_or(sizes.len()) as u64
}

/// Mean number of `heavy` flows that land on an uplink that already has one.
fn collisions(heavy: u64, uplinks: u32) -> f64 {
    let n = f64::from(uplinks);
    let free = (1.0 - 1.0 / n).powf(heavy as f64);
    (heavy as f64 - n * (1.0 - free)).max(0.0)
}

fn case(name: String, uplinks: u32, weights: &[Weight], split: u32) -> Case {
    let mut heaviest: Vec<&Weight> = weights.iter().collect();
    heaviest.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.cmp(b)));
    let kept = MAX_TUPLES / split as usize;
    let rest: u64 = heaviest.iter().skip(kept).map(|w| w.bytes).sum();
    heaviest.truncate(kept);
    let mut parts: Vec<(u64, f64)> = Vec::with_capacity(heaviest.len() * split as usize);
    for weight in heaviest {
        let digest = digest(weight);
        for part in 0..u64::from(split) {
            parts.push((mix(digest ^ part.wrapping_mul(GOLDEN)), weight.bytes as f64 / f64::from(split)));
        }
    }
    let even = rest as f64 / f64::from(uplinks);
    let total: f64 = parts.iter().map(|(_, bytes)| bytes).sum::<f64>() + rest as f64;
    let mut loads = vec![0.0; uplinks as usize];
    let mut ratios: Vec<f64> = (0..u64::from(SEEDS))
        .map(|seed| {
            let salt = mix(seed.wrapping_mul(GOLDEN));
            loads.fill(even);
            for (digest, bytes) in &parts {
                // The upper half of the product with the number of uplinks: a number below it.
                let at = (u128::from(mix(digest ^ salt)) * u128::from(uplinks)) >> 64;
                if let Some(load) = usize::try_from(at).ok().and_then(|at| loads.get_mut(at)) {
                    *load += bytes;
                }
            }
            let most = loads.iter().copied().fold(0.0, f64::max);
            if total > 0.0 { most * f64::from(uplinks) / total } else { 1.0 }
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| {
        // Nearest rank.
        let rank = (share * f64::from(SEEDS)).ceil();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to SEEDS")]
        ratios.get((rank as usize).saturating_sub(1)).copied().unwrap_or(1.0)
    };
    Case {
        case: name,
        five_tuples: weights.len() as u64 * u64::from(split),
        max_over_mean_p50: at(0.5),
        max_over_mean_p95: at(0.95),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures;

    fn taps(flows: &[(&str, &str, u32, u16, u64)]) -> Sample {
        let flows = flows.iter().map(|&(src, dst, qp, port, bytes)| {
            (fixtures::key(0, src, dst, qp), fixtures::stats(port, bytes / 1000, bytes))
        });
        fixtures::sample(vec![fixtures::link("tap", None)], flows.collect())
    }

    fn sets_with(sample: &Sample, uplinks: u32) -> Vec<Set> {
        what_if(sample, uplinks).sets
    }

    fn p50(set: &Set, name: &str) -> f64 {
        set.cases.iter().find(|c| c.case == name).unwrap().max_over_mean_p50
    }

    #[test]
    fn every_case_has_words() {
        let sets = sets_with(&taps(&[("10.0.0.1", "10.0.0.2", 17, 50_000, 1_000_000)]), 4);
        let words: Vec<String> = sets[0].cases.iter().map(|case| in_words(&case.case).unwrap()).collect();
        assert_eq!(words[..3], ["as it is now", "a source port for each QP", "2 QPs per connection"]);
        assert!(words.iter().all(|words| !words.contains('_') && words.len() <= 25), "{words:?}");
        assert_eq!((in_words("qps_"), in_words("eth0")), (None, None));
    }

    #[test]
    fn collisions_of_few_flows() {
        assert!(collisions(0, 4).abs() < 1e-12 && collisions(1, 4).abs() < 1e-12);
        assert!((collisions(2, 2) - 0.5).abs() < 1e-12, "two of two share an uplink half of the time");
        assert!((collisions(4, 1) - 3.0).abs() < 1e-12);
    }

    /// One flow over four uplinks: one is four times as busy as the mean, whatever the seed.
    #[test]
    fn one_flow_cannot_be_spread_but_by_more_queue_pairs() {
        let sets = sets_with(&taps(&[("10.0.0.1", "10.0.0.2", 17, 50_000, 1_000_000)]), 4);
        let set = &sets[0];
        assert_eq!((sets.len(), set.five_tuples, set.heavy, set.bytes), (1, 1, 1, 1_000_000));
        assert!((p50(set, "as_seen") - 4.0).abs() < 1e-9 && (p50(set, "port_per_qp") - 4.0).abs() < 1e-9);
        assert!(p50(set, "qps_8") < p50(set, "qps_2") && p50(set, "qps_2") <= 4.0);
    }

    /// Sixteen queue pairs behind one port are one flow to the fabric; with a port each they are
    /// sixteen.
    #[test]
    fn a_port_for_each_queue_pair_spreads_what_one_port_does_not() {
        let flows: Vec<_> = (0..16).map(|qp| ("10.0.0.1", "10.0.0.2", qp, 50_000, 1_000_000)).collect();
        let sets = sets_with(&taps(&flows), 2);
        assert_eq!(sets[0].five_tuples, 1);
        assert!((p50(&sets[0], "as_seen") - 2.0).abs() < 1e-9);
        assert!(p50(&sets[0], "port_per_qp") < 1.5);
    }

    #[test]
    fn a_port_for_each_queue_pair_is_no_news_where_each_has_one() {
        let mut flows: Vec<_> = (0..4u16)
            .map(|qp| ("10.0.0.1", "10.0.0.2", u32::from(qp), 50_000 + qp, 1_000_000 + u64::from(qp) * 1_000))
            .collect();
        let figures = |flows: &[(&str, &str, u32, u16, u64)]| {
            let set = sets_with(&taps(flows), 4).remove(0);
            let case = |name: &str| {
                let case = set.cases.iter().find(|case| case.case == name).unwrap();
                (case.five_tuples, case.max_over_mean_p50.to_bits(), case.max_over_mean_p95.to_bits())
            };
            (case("as_seen"), case("port_per_qp"))
        };
        let (now, then) = figures(&flows);
        assert_eq!(now, then);
        flows[3].3 = flows[2].3;
        let (now, then) = figures(&flows);
        assert_eq!((now.0, then.0), (3, 4), "two share a port");
    }

    /// Exact: of two equal flows over two uplinks both take the same one half of the time, so over
    /// many pairs of flows the median is now 1, now 2, and the 95th percentile always 2.
    #[test]
    fn seeds_behave_like_chance() {
        let mut same = 0;
        for port in 0..64 {
            let flows = [
                ("10.0.0.1", "10.0.0.2", 1, port, 1_000_000),
                ("10.0.0.1", "10.0.0.2", 2, port + 100, 1_000_000),
            ];
            let sets = sets_with(&taps(&flows), 2);
            let set = &sets[0];
            same += u32::from(p50(set, "as_seen") > 1.5);
            let p95 = set.cases[0].max_over_mean_p95;
            assert!((p95 - 2.0).abs() < 1e-9, "{p95}");
        }
        assert!((12..=52).contains(&same), "{same}");
    }

    #[test]
    fn what_a_host_sends_does_not_compete_with_what_it_receives() {
        let flows = [
            ("10.0.0.1", "10.0.0.2", 1, 50_000, 1_000_000),
            ("10.0.0.1", "10.0.0.3", 2, 50_001, 1_000_000),
            ("10.0.0.2", "10.0.0.1", 3, 50_002, 3_000_000),
        ];
        let sets = sets_with(&taps(&flows), 2);
        let sums: Vec<(&str, u64)> = sets.iter().map(|set| (set.of.as_str(), set.bytes)).collect();
        assert_eq!(sums, [("sent by 10.0.0.1", 2_000_000), ("sent to 10.0.0.1", 3_000_000)]);
        let ring = [
            ("10.0.0.1", "10.0.0.2", 1, 50_000, 1_000_000),
            ("10.0.0.2", "10.0.0.3", 2, 50_001, 1_000_000),
            ("10.0.0.3", "10.0.0.1", 3, 50_002, 1_000_000),
        ];
        assert_eq!(sets_with(&taps(&ring), 2)[0].of, "all");
    }

    #[test]
    fn few_heavy_ones_among_many() {
        let mut flows: Vec<_> =
            (0..100u16).map(|i| ("10.0.0.1", "10.0.0.2", u32::from(i), 50_000 + i, 1_000)).collect();
        for flow in &mut flows[..3] {
            flow.4 = 1_000_000;
        }
        assert_eq!(sets_with(&taps(&flows), 2)[0].heavy, 3);
        assert_eq!(sets_with(&taps(&flows[3..13]), 2)[0].heavy, 8);
    }

    #[test]
    fn without_uplinks_there_is_no_estimate() {
        let facts = crate::analysis::Facts::of(&taps(&[]), &crate::analysis::Options::default());
        assert_eq!(facts.ecmp, None);
        assert_eq!(sets_with(&taps(&[]), 4), []);
    }
}
