//! Cause and effect among findings between the same hosts or in the same queue pair, at the same time. There may be
//! thousands of findings, so none is compared with all others.

use std::collections::BTreeSet;

use crate::findings::catalog::entry;
use crate::findings::{Episode, Finding};
use crate::metrics::loss::signal_intervals::EPISODE_GAP_NS;
use crate::sample::Address;
use crate::util::definition::definitions;
use crate::util::map::Map;

/// Kinds that cause a finding, and kinds that it causes.
pub(super) type Related = (Vec<&'static str>, Vec<&'static str>);

/// A queue pair with its host.
pub(super) type QueuePair = (Address, u32);

/// Kinds found whose queue pairs decide whether one causes the other.
pub(super) fn related_by_queue_pairs(found: &[Finding]) -> BTreeSet<&'static str> {
    let kinds: BTreeSet<&'static str> = found.iter().map(|one| one.id).collect();
    let mut related = BTreeSet::new();
    for effect in &kinds {
        let causes = causes_of(effect).iter().filter(|cause| kinds.contains(*cause));
        let causes = causes.filter(|cause| is_of_queue_pairs(cause));
        related.extend(causes.flat_map(|cause| [*cause, *effect]));
    }
    related
}

/// Causes and effects by places and times: kinds in the order of the checks. Queue pairs are sorted, and those of kinds
/// that are [related by them](related_by_queue_pairs).
pub(super) fn met(
    found: &[Finding],
    hosts: &[BTreeSet<(Address, Address)>],
    queue_pairs: &[Vec<QueuePair>],
) -> Vec<Related> {
    let mut known = FindingIndex::default();
    for (at, finding) in found.iter().enumerate() {
        known.add(finding, &hosts[at], &queue_pairs[at]);
    }
    known.prepare();
    // Kinds by what they cause, as the entries of the effects name it.
    let kinds: Vec<&'static str> = known.kinds.iter().map(|(id, _)| *id).collect();
    let mut effects_of: Map<&'static str, Vec<&'static str>> = Map::default();
    for effect in &kinds {
        for cause in causes_of(effect) {
            effects_of.entry(cause).or_default().push(effect);
        }
    }
    let related = |(at, one): (usize, &Finding)| {
        let meets = |kind: &KindIndex<'_>, by_queue_pairs, role| {
            let times = Times::of(&one.episodes);
            if by_queue_pairs {
                kind.by_queue_pair.meets(&queue_pairs[at], &times, role)
            } else {
                kind.between(&hosts[at], &times, role)
            }
        };
        let causes = kinds.iter().copied().filter(|cause| {
            causes_of(one.id).contains(cause)
                && known.of(cause).any(|kind| {
                    !kind.no_cause_of.contains(&one.id) && meets(kind, is_of_queue_pairs(cause), Role::Cause)
                })
        });
        let effects = effects_of.get(one.id).into_iter().flatten().copied().filter(|effect| {
            !one.no_cause_of.contains(effect)
                && known.of(effect).any(|kind| meets(kind, is_of_queue_pairs(one.id), Role::Effect))
        });
        (causes.collect(), effects.collect())
    };
    found.iter().enumerate().map(related).collect()
}

fn causes_of(id: &str) -> &'static [&'static str] {
    entry(id).map_or(&[], |entry| entry.causes)
}

fn is_of_queue_pairs(id: &str) -> bool {
    entry(id).is_some_and(|entry| entry.of_queue_pairs)
}

/// All findings by kind, in the order in which the kinds are found.
#[derive(Default)]
struct FindingIndex<'q> {
    kinds: Vec<(&'static str, Vec<KindIndex<'q>>)>,
    at: Map<&'static str, usize>,
}

impl<'q> FindingIndex<'q> {
    fn add(&mut self, one: &Finding, hosts: &BTreeSet<(Address, Address)>, queue_pairs: &'q [QueuePair]) {
        let at = *self.at.entry(one.id).or_insert_with(|| {
            self.kinds.push((one.id, Vec::new()));
            self.kinds.len() - 1
        });
        let of_kind = &mut self.kinds[at].1;
        let own = of_kind.iter().position(|kind| kind.no_cause_of == one.no_cause_of).unwrap_or_else(|| {
            of_kind.push(KindIndex { no_cause_of: one.no_cause_of, ..KindIndex::default() });
            of_kind.len() - 1
        });
        of_kind[own].add(&one.episodes, hosts, queue_pairs);
    }

    fn prepare(&mut self) {
        for kind in self.kinds.iter_mut().flat_map(|(_, of_kind)| of_kind) {
            let times = kind.by_hosts.values_mut();
            times.chain([&mut kind.all, &mut kind.anywhere]).for_each(Times::prepare);
            kind.by_queue_pair.prepare();
        }
    }

    fn of(&self, id: &str) -> impl Iterator<Item = &KindIndex<'q>> {
        self.at.get(id).into_iter().flat_map(|at| &self.kinds[*at].1)
    }
}

/// Times of the findings of one kind that cannot cause the same other kinds.
#[derive(Default)]
struct KindIndex<'q> {
    no_cause_of: &'static [&'static str],
    all: Times,
    /// Those that name no hosts.
    anywhere: Times,
    by_hosts: Map<(Address, Address), Times>,
    by_queue_pair: ByQueuePair<'q>,
}

impl<'q> KindIndex<'q> {
    fn add(
        &mut self,
        episodes: &[Episode],
        hosts: &BTreeSet<(Address, Address)>,
        queue_pairs: &'q [QueuePair],
    ) {
        let times = Times::of(episodes);
        self.all.extend(&times);
        if hosts.is_empty() {
            self.anywhere.extend(&times);
        }
        for pair in hosts {
            self.by_hosts.entry(*pair).or_default().extend(&times);
        }
        self.by_queue_pair.add(queue_pairs, times);
    }

    /// True if one of them was at the same time between one of these hosts, or if the hosts of either are not known.
    fn between(&self, hosts: &BTreeSet<(Address, Address)>, times: &Times, role: Role) -> bool {
        if hosts.is_empty() {
            return self.all.meets(times, role);
        }
        self.anywhere.meets(times, role)
            || hosts.iter().filter_map(|pair| self.by_hosts.get(pair)).any(|own| own.meets(times, role))
    }
}

/// Times of findings by queue pair. One finding may name a million: queue pairs that the same findings name share the
/// number of their times, and those of the only one are not listed again.
#[derive(Default)]
struct ByQueuePair<'q> {
    /// Those of the only finding, which are sorted.
    only: Option<&'q [QueuePair]>,
    /// Until prepared, a queue pair has an entry for each finding; then it is sorted, with one for all.
    numbers: Vec<(QueuePair, usize)>,
    times: Vec<Times>,
}

impl<'q> ByQueuePair<'q> {
    fn add(&mut self, queue_pairs: &'q [QueuePair], times: Times) {
        if queue_pairs.is_empty() {
            return;
        }
        let number = self.times.len();
        self.times.push(times);
        if number == 0 {
            self.only = Some(queue_pairs);
            return;
        }
        let first = self.only.take().into_iter().flatten().map(|one| (*one, 0));
        self.numbers.extend(first.chain(queue_pairs.iter().map(|one| (*one, number))));
    }

    fn prepare(&mut self) {
        if self.only.is_some() {
            self.times.iter_mut().for_each(Times::prepare);
            return;
        }
        let of_findings = std::mem::take(&mut self.times);
        let mut known: Map<Vec<usize>, usize> = Map::default();
        let mut findings = Vec::new();
        self.numbers.sort_unstable();
        for same in self.numbers.chunk_by_mut(|(one, _), (other, _)| one == other) {
            findings.clear();
            findings.extend(same.iter().map(|(_, finding)| *finding));
            same[0].1 = known.get(&findings).copied().unwrap_or_else(|| {
                let mut times = Times::default();
                for finding in &findings {
                    times.extend(&of_findings[*finding]);
                }
                times.prepare();
                self.times.push(times);
                known.insert(findings.clone(), self.times.len() - 1);
                self.times.len() - 1
            });
        }
        self.numbers.dedup_by_key(|(queue_pair, _)| *queue_pair);
    }

    /// True if one of the findings was at the same time in one of these queue pairs, which are sorted.
    fn meets(&self, queue_pairs: &[QueuePair], times: &Times, role: Role) -> bool {
        if let Some(mut rest) = self.only {
            let is_common = |one: &QueuePair| {
                rest = &rest[rest.partition_point(|known| known < one)..];
                rest.first() == Some(one)
            };
            return queue_pairs.iter().any(is_common) && self.times[0].meets(times, role);
        }
        let (mut rest, mut before) = (&self.numbers[..], None);
        queue_pairs.iter().any(|one| {
            rest = &rest[rest.partition_point(|(known, _)| known < one)..];
            let number = rest.first().filter(|(known, _)| known == one).map(|(_, number)| *number);
            number.is_some_and(|number| {
                before.replace(number) != Some(number) && self.times[number].meets(times, role)
            })
        })
    }
}

/// Times of findings: first and last nanosecond. When prepared, sorted by the first, each with the latest end so far.
#[derive(Default)]
pub(super) struct Times(pub(super) Vec<(u64, u64)>);

impl Times {
    /// The times of one finding; all time where it is not known.
    pub(super) fn of(episodes: &[Episode]) -> Self {
        if episodes.is_empty() {
            return Self(vec![(0, u64::MAX)]);
        }
        Self(episodes.iter().map(|one| (one.first_ns, one.last_ns)).collect())
    }

    fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }

    fn prepare(&mut self) {
        self.0.sort_unstable();
        self.0.dedup();
        let mut latest = 0;
        for (_, last_ns) in &mut self.0 {
            latest = latest.max(*last_ns);
            *last_ns = latest;
        }
    }

    /// True if one of these, prepared, which have this role, and one of the others can be cause and effect by their
    /// times.
    fn meets(&self, others: &Self, role: Role) -> bool {
        count_comparison();
        let (after_others, before_others) = match role {
            Role::Cause => (LATE_NS, EPISODE_GAP_NS),
            Role::Effect => (EPISODE_GAP_NS, LATE_NS),
        };
        others.0.iter().any(|(first_ns, last_ns)| {
            let begun = self.0.partition_point(|(first, _)| *first <= last_ns.saturating_add(after_others));
            let latest = begun.checked_sub(1).map(|at| self.0[at].1);
            latest.is_some_and(|latest| latest.saturating_add(before_others) >= *first_ns)
        })
    }
}

/// Role of a kind: cause or effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Cause,
    Effect,
}

definitions! {
    LATE_NS: u64 = 100_000_000,
        "Time by which a cause may begin after the end of its effect, in nanoseconds",
        "An effect that has ended before has another cause. Times of signals are those of their time bins, and clocks of two taps differ by less";
}

/// True if one finding can have caused another by their times: it began before the other ended, and ended at most 10 s
/// before the other began; or if the time of one is unknown.
pub fn can_cause(cause: &[Episode], effect: &[Episode]) -> bool {
    let meets = |cause: &Episode, effect: &Episode| {
        cause.first_ns <= effect.last_ns.saturating_add(LATE_NS)
            && effect.first_ns <= cause.last_ns.saturating_add(EPISODE_GAP_NS)
    };
    cause.is_empty()
        || effect.is_empty()
        || cause.iter().any(|one| effect.iter().any(|other| meets(one, other)))
}

/// True if two findings occurred at the same time, at most 10 s apart, or if the time of one is unknown.
pub(in crate::findings) fn overlap(a: &[Episode], b: &[Episode]) -> bool {
    count_comparison();
    let range = |one: &Episode| (one.first_ns, one.last_ns);
    a.is_empty() || b.is_empty() || a.iter().any(|a| b.iter().any(|b| is_near(range(a), range(b))))
}

/// True if two ranges of time are at most 10 s apart, each with its first and last nanosecond.
pub(super) const fn is_near((a_first, a_last): (u64, u64), (b_first, b_last): (u64, u64)) -> bool {
    a_first <= b_last.saturating_add(EPISODE_GAP_NS) && b_first <= a_last.saturating_add(EPISODE_GAP_NS)
}

/// Counts a comparison, in tests.
#[inline]
pub(super) fn count_comparison() {
    #[cfg(test)]
    COMPARED.set(COMPARED.get() + 1);
}

#[cfg(test)]
thread_local! {
    /// Number of comparisons of the times of two findings, or of one and of those of a kind in one place.
    pub(super) static COMPARED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::super::{hosts, queue_pairs};
    use super::*;
    use crate::findings::Severity;

    /// Numbers that can be repeated.
    fn random(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut random = rocescope_common::random::Random::new(seed);
        move |below| random.below(below)
    }

    #[test]
    fn what_ended_before_another_began_is_no_effect_of_it() {
        let episode = |(first_ns, last_ns)| Episode { first_ns, last_ns, peak: None };
        let finding = |id, times: (u64, u64)| Finding {
            episodes: vec![episode(times)],
            ..Finding::new(id, Severity::Warning, String::new())
        };
        let end = 100 * EPISODE_GAP_NS;
        for (cause_first, expected) in [(end + LATE_NS, true), (end + LATE_NS + 1, false)] {
            let found = [
                finding("rnr.slow_receiver", (cause_first, cause_first + EPISODE_GAP_NS)),
                finding("retry.storm", (end - EPISODE_GAP_NS, end)),
            ];
            assert_eq!(can_cause(&found[0].episodes, &found[1].episodes), expected);
            let (nowhere, no_pairs) = (vec![BTreeSet::new(); 2], vec![Vec::new(); 2]);
            let related = met(&found, &nowhere, &no_pairs);
            assert_eq!((related[0].1.is_empty(), related[1].0.is_empty()), (!expected, !expected));
        }
        // An effect may follow.
        let cause = [episode((end - EPISODE_GAP_NS, end))];
        for (effect_first, expected) in [(end + EPISODE_GAP_NS, true), (end + EPISODE_GAP_NS + 1, false)] {
            assert_eq!(can_cause(&cause, &[episode((effect_first, u64::MAX))]), expected);
        }
        assert!(can_cause(&cause, &[]) && can_cause(&[], &cause), "of unknown time");
    }

    #[test]
    fn what_is_found_by_place_and_time_is_what_comparing_all_with_all_finds() {
        const IDS: [&str; 5] =
            ["icrc.errors", "loss.after_tap", "retry.storm", "rnr.slow_receiver", "path.rewritten"];
        for seed in 1..60 {
            let mut random = random(seed);
            let found: Vec<Finding> = (0..30)
                .map(|_| {
                    let episode =
                        |first_ns| Episode { first_ns, last_ns: first_ns + EPISODE_GAP_NS, peak: None };
                    let mut name = |_| {
                        let host = |at: u64| Address::from([10, 0, 0, u8::try_from(at).unwrap()]);
                        (host(random(3)), host(random(3)), u32::try_from(random(3)).unwrap())
                    };
                    let named = (0..seed % 3).map(&mut name).collect();
                    let no_cause_of = if random(4) == 0 { &["retry.storm"][..] } else { &[] };
                    let episodes = (0..random(3)).map(|_| episode(random(20) * EPISODE_GAP_NS)).collect();
                    let id = IDS[usize::try_from(random(IDS.len() as u64)).unwrap()];
                    Finding {
                        named,
                        episodes,
                        no_cause_of,
                        ..Finding::new(id, Severity::Warning, String::new())
                    }
                })
                .collect();
            let hosts: Vec<_> = found.iter().map(hosts).collect();
            let queue_pairs: Vec<_> =
                found.iter().map(|one| queue_pairs(one.named.iter(), |_| None)).collect();
            let sorted = |ids: &mut Vec<&'static str>| {
                ids.sort_unstable();
                ids.dedup();
                ids.clone()
            };
            for (effect, (mut causes, mut effects)) in
                met(&found, &hosts, &queue_pairs).into_iter().enumerate()
            {
                let related = |cause: usize, effect: usize| {
                    let (one, other) = (&found[cause], &found[effect]);
                    let is_cause = entry(other.id).is_some_and(|entry| entry.causes.contains(&one.id));
                    let meet = if is_of_queue_pairs(one.id) {
                        queue_pairs[cause].iter().any(|one| queue_pairs[effect].contains(one))
                    } else {
                        hosts[cause].is_empty()
                            || hosts[effect].is_empty()
                            || !hosts[cause].is_disjoint(&hosts[effect])
                    };
                    is_cause
                        && meet
                        && !one.no_cause_of.contains(&other.id)
                        && can_cause(&one.episodes, &other.episodes)
                };
                let all = || 0..found.len();
                let mut own: Vec<_> =
                    all().filter(|at| related(*at, effect)).map(|at| found[at].id).collect();
                assert_eq!(sorted(&mut causes), sorted(&mut own), "causes of {effect}, seed {seed}");
                let mut own: Vec<_> =
                    all().filter(|at| related(effect, *at)).map(|at| found[at].id).collect();
                assert_eq!(sorted(&mut effects), sorted(&mut own), "effects of {effect}, seed {seed}");
            }
        }
    }
}
