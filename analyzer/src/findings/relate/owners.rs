//! Findings that explain others: at the same time, between no other hosts.

use std::collections::BTreeSet;

use super::causality::{Times, count_comparison, is_near};
use crate::findings::Finding;
use crate::sample::Address;
use crate::util::map::{Map, Set};

/// Two hosts, the smaller address first.
type HostPair = (Address, Address);

/// Findings that own one kind and name the same hosts, in the order of the checks.
#[derive(Default)]
struct Owners {
    /// Place, beginning and end of each episode.
    all: Vec<(usize, u64, u64)>,
    /// Earliest start and latest end of a part of them. The first node is of all; the parts of node `n` are `2n` and
    /// `2n + 1`.
    nodes: Vec<(u64, u64)>,
}

impl Owners {
    fn prepare(&mut self) {
        let leaves = self.all.len().next_power_of_two();
        self.nodes = vec![(u64::MAX, 0); 2 * leaves];
        for (node, (_, first_ns, last_ns)) in self.nodes[leaves..].iter_mut().zip(&self.all) {
            *node = (*first_ns, *last_ns);
        }
        for node in (1..leaves).rev() {
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            self.nodes[node] = (left.0.min(right.0), left.1.max(right.1));
        }
    }

    /// The first that is at most 10 s from these times and accepted.
    fn first(&self, times: &Times, accepts: impl Fn(usize) -> bool) -> Option<usize> {
        let leaves = self.nodes.len() / 2;
        let meets = |range: (u64, u64)| times.0.iter().any(|own| is_near(range, *own));
        let mut open = vec![1];
        while let Some(node) = open.pop() {
            if !self.nodes.get(node).copied().is_some_and(meets) {
                continue;
            }
            if node < leaves {
                open.extend([2 * node + 1, 2 * node]);
                continue;
            }
            // Behind the last are leaves of nothing.
            let Some((at, ..)) = self.all.get(node - leaves) else { continue };
            count_comparison();
            if accepts(*at) {
                return Some(*at);
            }
        }
        None
    }
}

/// Owners by the kind that they own and the hosts that they name. There may be thousands of each, at the same time
/// between the same hosts.
struct OwnerIndex<'a> {
    /// Sets of host pairs that owners name.
    sets: Vec<&'a BTreeSet<HostPair>>,
    owners: Map<(&'static str, usize), Owners>,
    /// Sets with a host pair, of the owners of a kind.
    by_pair: Map<(&'static str, HostPair), Vec<usize>>,
}

impl<'a> OwnerIndex<'a> {
    fn of(found: &[Finding], hosts: &'a [BTreeSet<HostPair>]) -> Self {
        let mut index = Self { sets: Vec::new(), owners: Map::default(), by_pair: Map::default() };
        let mut numbers: Map<&BTreeSet<HostPair>, usize> = Map::default();
        for (at, one) in found.iter().enumerate().filter(|(_, one)| one.is_problem()) {
            if one.owns.is_empty() {
                continue;
            }
            let set = *numbers.entry(&hosts[at]).or_insert_with(|| {
                index.sets.push(&hosts[at]);
                index.sets.len() - 1
            });
            let times = Times::of(&one.episodes);
            for id in one.owns {
                let owners = index.owners.entry((*id, set)).or_default();
                if owners.all.is_empty() {
                    for pair in &hosts[at] {
                        index.by_pair.entry((*id, *pair)).or_default().push(set);
                    }
                }
                owners.all.extend(times.0.iter().map(|(first_ns, last_ns)| (at, *first_ns, *last_ns)));
            }
        }
        index.owners.values_mut().for_each(Owners::prepare);
        index
    }

    /// Sets of the owners of a kind that name all of these host pairs.
    fn that_name(&self, id: &'static str, pairs: &BTreeSet<HostPair>) -> Vec<usize> {
        let of_pairs: Option<Vec<&Vec<usize>>> =
            pairs.iter().map(|pair| self.by_pair.get(&(id, *pair))).collect();
        let rarest = of_pairs.and_then(|all| all.into_iter().min_by_key(|sets| sets.len()));
        let all = rarest.into_iter().flatten().copied();
        all.filter(|set| self.sets.get(*set).is_some_and(|set| pairs.is_subset(set))).collect()
    }
}

/// Owners and the findings that they explain, of several the first in the order of the checks. An info finding owns
/// nothing, and a likely cause owns nothing more severe: a guess must neither hide a certain finding nor adopt its
/// severity.
pub(super) fn owned(
    found: &[Finding],
    hosts: &[BTreeSet<HostPair>],
    mut pairs: Vec<(usize, usize)>,
) -> Vec<(usize, usize)> {
    let known: Set<usize> = pairs.iter().map(|(_, effect)| *effect).collect();
    let index = OwnerIndex::of(found, hosts);
    let mut that_name: Map<(&'static str, &BTreeSet<HostPair>), Vec<usize>> = Map::default();
    let mut new = Vec::new();
    for (effect, other) in found.iter().enumerate().filter(|(effect, _)| !known.contains(effect)) {
        let is_sure = |owner: usize| {
            let finding = &found[owner];
            !finding.subject.is_likely || other.severity <= finding.severity
        };
        let sets = that_name
            .entry((other.id, &hosts[effect]))
            .or_insert_with(|| index.that_name(other.id, &hosts[effect]));
        let times = Times::of(&other.episodes);
        let owners = sets.iter().filter_map(|set| index.owners.get(&(other.id, *set)));
        let first = owners.filter_map(|owners| owners.first(&times, is_sure)).min();
        new.extend(first.map(|owner| (owner, effect)));
    }
    new.sort_unstable();
    pairs.extend(new);
    pairs
}

#[cfg(test)]
mod tests {
    use super::super::causality::{COMPARED, overlap};
    use super::*;
    use crate::findings::{Episode, Severity};
    use crate::metrics::loss::signal_intervals::EPISODE_GAP_NS;

    const OWNED: &[&str] = &["loss.after_tap", "retry.timeouts"];

    fn hosts(of: &[u8]) -> BTreeSet<HostPair> {
        of.iter().map(|host| (Address::from([10, 0, 0, 0]), Address::from([10, 0, 0, *host]))).collect()
    }

    fn finding(id: &'static str, owns: &'static [&'static str], episodes: &[(u64, u64)]) -> Finding {
        let episode =
            |(first_ns, last_ns): &(u64, u64)| Episode { first_ns: *first_ns, last_ns: *last_ns, peak: None };
        let episodes = episodes.iter().map(episode).collect();
        Finding { episodes, owns, ..Finding::new(id, Severity::Warning, String::new()) }
    }

    #[test]
    fn each_owner_is_the_one_that_comparing_all_with_all_finds() {
        let mut numbers = rocescope_common::random::Random::new(1);
        let mut random = |below: u64| numbers.below(below);
        let mut owned_at_all = 0;
        for _ in 0..40 {
            let mut named = Vec::new();
            let found: Vec<Finding> = (0..200)
                .map(|_| {
                    named.push(hosts(&(0..3).filter(|_| random(2) == 0).collect::<Vec<u8>>()));
                    let begin = |at: u64| (at * EPISODE_GAP_NS, at * EPISODE_GAP_NS + EPISODE_GAP_NS / 2);
                    let episodes: Vec<_> = (0..random(3)).map(|_| begin(random(60))).collect();
                    let is_owner = random(2) == 0;
                    let id = if is_owner { "icrc.errors" } else { OWNED[usize::from(random(2) == 0)] };
                    let mut one = finding(id, if is_owner { OWNED } else { &[] }, &episodes);
                    one.severity = if random(3) == 0 { Severity::Critical } else { Severity::Warning };
                    if random(3) == 0 {
                        one.subject.is_likely = true;
                    }
                    one
                })
                .collect();
            let expected = |effect: usize| {
                let other = &found[effect];
                (0..found.len()).find(|owner| {
                    let one = &found[*owner];
                    one.owns.contains(&other.id)
                        && !named[effect].is_empty()
                        && named[effect].is_subset(&named[*owner])
                        && overlap(&one.episodes, &other.episodes)
                        && (!one.subject.is_likely || other.severity <= one.severity)
                })
            };
            let of: Map<usize, usize> = owned(&found, &named, Vec::new())
                .into_iter()
                .map(|(owner, effect)| (effect, owner))
                .collect();
            for effect in 0..found.len() {
                assert_eq!(of.get(&effect).copied(), expected(effect), "{effect}");
            }
            owned_at_all += of.len();
        }
        assert!(owned_at_all > 1_000, "{owned_at_all}");
    }

    #[test]
    fn the_last_of_a_thousand_owners_at_a_time_is_found_without_asking_all_for_each() {
        const MANY: usize = 1_000;
        // Guesses between the same hosts at the same time, which own nothing critical, and one that is certain.
        let guess = || {
            let mut one = finding("icrc.errors", OWNED, &[(5, 6)]);
            one.subject.is_likely = true;
            one
        };
        let mut found: Vec<Finding> = (0..MANY).map(|_| guess()).collect();
        found.push(finding("icrc.errors", OWNED, &[(5, 6)]));
        found.push(Finding { severity: Severity::Critical, ..finding("loss.after_tap", &[], &[(5, 6)]) });
        found.extend((0..MANY).map(|_| finding("loss.after_tap", &[], &[(5, 6)])));
        let named = vec![hosts(&[1]); found.len()];
        COMPARED.set(0);
        let of = owned(&found, &named, Vec::new());
        assert!(of.contains(&(MANY, MANY + 1)));
        assert_eq!(of.iter().filter(|(owner, _)| *owner == 0).count(), MANY);
        assert!(COMPARED.get() <= 2 * MANY as u64 + 1, "{}", COMPARED.get());
    }
}
