//! End of a finding, and the order of findings.

use std::cmp::Reverse;

use super::catalog::entry;
use super::period::LEAST_NS;
use crate::findings::{DataEnd, Finding, Severity};
use crate::metrics::loss::signal_intervals::EPISODE_GAP_NS;
use crate::util::definition::definitions;
use crate::util::map::Map;
use crate::util::units;

/// A finding not seen for this long before the end of the data has ended, in nanoseconds.
pub const OVER_NS: u64 = EPISODE_GAP_NS;

definitions! {
    pub QUIET_NS: u64 = 3_000_000_000,
        "An active finding that has not been seen for this long, in nanoseconds, is quiet and comes after those that are seen",
        "A step of a training job or two pass in it without the signal: it may have ended";
    pub QUIET_TIMES: u64 = 2,
        "A finding that showed again after a silence is quiet only after one longer by this factor",
        "A loss every four seconds is one problem, and the headline would change with each loss. One that has stopped gives way after a few of its own silences, and at the latest when it has ended";
}

/// Position of a kind among those of the same severity.
fn rank(id: &str) -> u16 {
    entry(id).map_or(u16::MAX, |entry| entry.rank)
}

impl Finding {
    /// Time at which it ended, Unix nanoseconds, in data that ends at `end_ns`; `None` while active or if unknown.
    pub fn over_since(&self, end_ns: Option<u64>) -> Option<u64> {
        let (seen, end) = (self.last_seen_ns?, end_ns?);
        (self.settled || end.saturating_sub(seen) >= OVER_NS).then_some(seen)
    }

    /// Time for which an active finding has not been seen, in nanoseconds, in data that ends at `end_ns`; `None`
    /// below [`QUIET_NS`], and while it is no longer than its own silences were ([`QUIET_TIMES`]).
    pub fn quiet_ns(&self, end_ns: Option<u64>) -> Option<u64> {
        let quiet = end_ns?.saturating_sub(self.last_seen_ns?);
        let least = QUIET_NS.max(self.longest_silence_ns.saturating_mul(QUIET_TIMES));
        (self.active && quiet >= least && self.over_since(end_ns).is_none()).then_some(quiet)
    }

    /// The same until the time that a view shows, where that is later than the end of the data.
    pub fn quiet_until(&self, end: DataEnd) -> Option<u64> {
        self.quiet_ns(end.ns)?;
        Some(end.until()?.saturating_sub(self.last_seen_ns?))
    }

    /// `ended` or `quiet` in data that ends at `end_ns`; `None` for what shows now.
    pub fn past_word(&self, end_ns: Option<u64>) -> Option<&'static str> {
        if self.has_ended(end_ns) {
            return Some("ended");
        }
        self.quiet_ns(end_ns).map(|_| "quiet")
    }

    /// End and duration of its latest episode as text, `ended 13:05:09 UTC, lasted 8.00 s`, with the date if it is
    /// another day; `None` while active.
    pub fn ended(&self, end_ns: Option<u64>) -> Option<String> {
        let when = format!("ended {}", self.end_utc(end_ns)?);
        Some(match self.length_ns() {
            Some(length) if length > 0 => format!("{when}, lasted {}", units::duration(length)),
            _ => when,
        })
    }

    /// Length of its latest episode, in nanoseconds; `None` where its beginning is not known.
    pub fn length_ns(&self) -> Option<u64> {
        let last_ns = self.episodes.last()?.last_ns;
        Some(last_ns.saturating_sub(self.since_ns()?))
    }

    /// Its end as text, `until 13:05:09 UTC`, with the date if it is another day.
    pub fn until(&self, end_ns: Option<u64>) -> Option<String> {
        Some(format!("until {}", self.end_utc(end_ns)?))
    }

    fn end_utc(&self, end_ns: Option<u64>) -> Option<String> {
        let seen = self.over_since(end_ns)?;
        Some(format!("{} UTC", units::recent_utc(seen, end_ns)))
    }
}

/// Sort key of a finding: group, quiet, severity, cost, rank, id.
pub(super) type Key = (u8, bool, Reverse<Severity>, Reverse<u32>, u16, &'static str);

/// The order of a finding among others, without regard to causes and owners.
pub(super) fn key(finding: &Finding, end_ns: Option<u64>) -> Key {
    let over = finding.over_since(end_ns).is_some();
    let group = match (finding.severity, over) {
        (Severity::Info, _) => 2,
        (_, true) => 1,
        (_, false) => 0,
    };
    let quiet = finding.quiet_ns(end_ns).is_some();
    (group, quiet, Reverse(finding.severity), Reverse(cost(finding)), rank(finding.id), finding.id)
}

/// Cost of a finding in its latest episode, as a power of two of parts per million: a difference of less than a
/// factor of two does not decide.
fn cost(finding: &Finding) -> u32 {
    let length =
        finding.episodes.last().map_or(OVER_NS, |episode| episode.last_ns.saturating_sub(episode.first_ns));
    let share = finding.impact.share(length.max(LEAST_NS)).unwrap_or(0.0);
    crate::metrics::traffic::times(1_000_000, share).checked_ilog2().unwrap_or(0)
}

/// Sorts findings by priority: active ones, then ended ones, then info. Of the active ones, those that show now come
/// before quiet ones, whatever their severity: the first is the headline. Then the most severe first; then the share of
/// traffic or time decides ([`Impact::share`](super::Impact::share)), then [`Entry::rank`](super::Entry::rank), causes
/// first. An effect follows a cause of the same severity that it names, whatever its cost. A finding with an owner
/// follows its owner.
pub fn sort(findings: &mut [Finding], end_ns: Option<u64>) {
    // The keys of owners: by place, and the first of each kind where the kind alone is known.
    type Id = &'static str;
    type Rank = (Key, Option<usize>);
    let mut by_place: Map<(Id, Option<usize>), Rank> = Map::default();
    let mut by_kind: Map<Id, Rank> = Map::default();
    for one in findings.iter() {
        let own = (key(one, end_ns), one.at);
        let least = |known: &mut Rank| *known = (*known).min(own);
        by_place.entry((one.id, one.at)).and_modify(least).or_insert(own);
        by_kind.entry(one.id).and_modify(least).or_insert(own);
    }
    let of_owner = |owned: &Finding| {
        let id = owned.owner?;
        if owned.owner_at.is_none() { by_kind.get(id) } else { by_place.get(&(id, owned.owner_at)) }.copied()
    };
    // Within a family, the check lists the worst first.
    findings.sort_by_cached_key(|finding| {
        let own = key(finding, end_ns);
        let owner = of_owner(finding);
        (owner.unwrap_or((own, finding.at)), owner.is_some(), own)
    });
    causes_first(findings, end_ns);
}

/// Moves an effect after the causes that it names, if they are in its group: equally severe and equally current. One
/// that shows now stays before a quiet cause. Findings with an owner move with it.
fn causes_first(findings: &mut [Finding], end_ns: Option<u64>) {
    let mut order = Vec::with_capacity(findings.len());
    let mut blocks = Blocks::of(findings, end_ns);
    while blocks.next_group() {
        blocks.order(&mut order);
    }
    // Each is moved once: `order` names the place of what comes next.
    let mut places: Vec<usize> = vec![0; order.len()];
    for (to, from) in order.into_iter().enumerate() {
        if let Some(place) = places.get_mut(from) {
            *place = to;
        }
    }
    for at in 0..places.len() {
        while places[at] != at {
            let to = places[at];
            findings.swap(at, to);
            places.swap(at, to);
        }
    }
}

/// Findings in blocks: one that stands for itself, and those that it owns behind it.
struct Blocks {
    /// Group, class, first finding and the one after the last of each block.
    all: Vec<Block>,
    /// Classes that must precede each class: those that it names as causes, unless they also name it. A class is the
    /// findings of one kind with the same causes.
    blockers: Vec<Vec<usize>>,
    /// The blocks of the group in question.
    group: std::ops::Range<usize>,
}

struct Block {
    group: (u8, bool, Reverse<Severity>),
    class: usize,
    findings: std::ops::Range<usize>,
}

impl Blocks {
    fn of(findings: &[Finding], end_ns: Option<u64>) -> Self {
        let mut classes: Map<(&'static str, &[&'static str]), usize> = Map::default();
        let mut names = Vec::new();
        let mut all: Vec<Block> = Vec::new();
        for (at, one) in findings.iter().enumerate() {
            if let (Some(_), Some(last)) = (one.owner, all.last_mut()) {
                last.findings.end = at + 1;
                continue;
            }
            let class = *classes.entry((one.id, &one.causes)).or_insert_with(|| {
                names.push((one.id, &one.causes[..]));
                names.len() - 1
            });
            let (group, quiet, severity, ..) = key(one, end_ns);
            all.push(Block { group: (group, quiet, severity), class, findings: at..at + 1 });
        }
        let blocks = |effect: &(&str, &[&str]), cause: &(&str, &[&str])| {
            effect.1.contains(&cause.0) && !cause.1.contains(&effect.0)
        };
        let blockers = names.iter().map(|effect| {
            let causes = names.iter().enumerate().filter(|(_, cause)| blocks(effect, cause));
            causes.map(|(class, _)| class).collect()
        });
        Self { blockers: blockers.collect(), all, group: 0..0 }
    }

    /// Turns to the next group; false after the last.
    fn next_group(&mut self) -> bool {
        let start = self.group.end;
        let Some(first) = self.all.get(start) else { return false };
        let rest = self.all[start..].iter().take_while(|block| block.group == first.group);
        self.group = start..start + rest.count();
        true
    }

    /// Appends the findings of the group: as they are, but an effect directly after the last of its causes.
    fn order(&self, order: &mut Vec<usize>) {
        let mut left: Vec<usize> = vec![0; self.blockers.len()];
        for block in &self.all[self.group.clone()] {
            left[block.class] += 1;
        }
        let is_free =
            |left: &[usize], class: usize| self.blockers[class].iter().all(|cause| left[*cause] == 0);
        // Effects that wait, by class.
        let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); self.blockers.len()];
        for at in self.group.clone() {
            if !is_free(&left, self.all[at].class) {
                waiting[self.all[at].class].push(at);
                continue;
            }
            let mut free = vec![at];
            while let Some(at) = free.pop() {
                let block = &self.all[at];
                order.extend(block.findings.clone());
                left[block.class] -= 1;
                if left[block.class] == 0 {
                    // Classes whose last pending cause this was, in reverse order: the one that waits longest is popped
                    // last.
                    let of_it = |class: &usize| {
                        self.blockers[*class].contains(&block.class) && is_free(&left, *class)
                    };
                    let mut freed: Vec<usize> = (0..waiting.len())
                        .filter(of_it)
                        .flat_map(|class| std::mem::take(&mut waiting[class]))
                        .collect();
                    freed.sort_unstable();
                    free.extend(freed);
                }
            }
        }
        // Kinds that cause one another in a circle stay as they are.
        let mut rest: Vec<usize> = waiting.into_iter().flatten().collect();
        rest.sort_unstable();
        order.extend(rest.into_iter().flat_map(|at| self.all[at].findings.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Episode, Impact};

    fn finding(id: &'static str, severity: Severity, last_seen_ns: Option<u64>) -> Finding {
        Finding { last_seen_ns, ..Finding::new(id, severity, String::new()) }
    }

    #[test]
    fn what_is_over_is_behind_what_goes_on_and_before_what_is_good_to_know() {
        const END: u64 = 100 * OVER_NS;
        let mut all = [
            finding("good.to_know", Severity::Info, None),
            finding("critical.over", Severity::Critical, Some(END - OVER_NS)),
            finding("warning.over", Severity::Warning, Some(7)),
            finding("warning.now", Severity::Warning, Some(END - OVER_NS + 1)),
            finding("warning.always", Severity::Warning, None),
            finding("critical.now", Severity::Critical, Some(END)),
        ];
        sort(&mut all, Some(END));
        let ids = all.each_ref().map(|finding| finding.id);
        let order = [
            "critical.now",
            "warning.always",
            "warning.now",
            "critical.over",
            "warning.over",
            "good.to_know",
        ];
        assert_eq!(ids, order);
        sort(&mut all, None);
        assert_eq!(all[0].id, "critical.now", "without an end nothing is known to be over");
        assert_eq!(all[1].id, "critical.over");
    }

    #[test]
    fn what_shows_now_is_before_what_is_quiet_whatever_its_severity() {
        const END: u64 = 100 * OVER_NS;
        let with = |id, severity, quiet_ns| Finding {
            active: true,
            impact: Impact { packets_ratio: Some(0.02 * quiet_ns as f64), ..Impact::default() },
            ..finding(id, severity, Some(END - quiet_ns))
        };
        let mut all = [
            with("rnr.slow_receiver", Severity::Warning, QUIET_NS),
            with("links.imbalance", Severity::Warning, QUIET_NS - 1),
            with("loss.before_tap", Severity::Critical, QUIET_NS + 1),
        ];
        sort(&mut all, Some(END));
        let ids = all.each_ref().map(|finding| finding.id);
        assert_eq!(ids, ["links.imbalance", "loss.before_tap", "rnr.slow_receiver"]);
        let headline = crate::findings::Verdict::of(&all, false);
        assert_eq!(headline.headline.map(|worst| worst.id), Some("links.imbalance"));
        assert_eq!(headline.health, crate::findings::Health::Critical, "it has not ended yet");
        // An effect that shows now is not behind a cause that is quiet.
        let mut both =
            [with("loss.before_tap", Severity::Warning, QUIET_NS), with("retry.storm", Severity::Warning, 0)];
        both[1].causes = vec!["loss.before_tap"];
        sort(&mut both, Some(END));
        assert_eq!(both[0].id, "retry.storm");
    }

    #[test]
    fn a_cause_is_before_what_it_causes() {
        let ids = ["retry.storm", "step.slower", "loss.after_tap", "tool.lost", "icrc.errors"];
        let mut all = ids.map(|id| finding(id, Severity::Warning, None));
        sort(&mut all, None);
        let order = ["tool.lost", "icrc.errors", "loss.after_tap", "retry.storm", "step.slower"];
        assert_eq!(all.each_ref().map(|finding| finding.id), order);
        // Severity and end still take precedence.
        all[4].severity = Severity::Critical;
        (all[0].last_seen_ns, all[4].last_seen_ns) = (Some(1), Some(OVER_NS));
        sort(&mut all, Some(OVER_NS + 1));
        let order = ["step.slower", "icrc.errors", "loss.after_tap", "retry.storm", "tool.lost"];
        assert_eq!(all.each_ref().map(|finding| finding.id), order);
    }

    #[test]
    fn an_effect_is_behind_the_causes_that_it_names_whatever_it_costs() {
        let mut all = ["latency.tail", "rnr.slow_receiver", "retry.storm", "loss.before_tap", "qp.died"]
            .map(|id| finding(id, Severity::Warning, None));
        all[0].impact.time_lost_ns = Some(9 * LEAST_NS);
        all[0].causes = vec!["loss.before_tap", "qp.died"];
        all[2].causes = vec!["loss.before_tap"];
        (all[2].impact.time_lost_ns, all[2].owner) = (Some(LEAST_NS), Some("latency.tail"));
        all[4].severity = Severity::Info;
        sort(&mut all, None);
        let ids = all.each_ref().map(|one| one.id);
        // A cause of severity info does not delay a warning.
        assert_eq!(ids, ["loss.before_tap", "latency.tail", "retry.storm", "rnr.slow_receiver", "qp.died"]);
        // Two that name one another are ordered by cost.
        let mut both = ["retry.storm", "rnr.slow_receiver"].map(|id| finding(id, Severity::Warning, None));
        both[0].impact.packets_ratio = Some(0.5);
        (both[0].causes, both[1].causes) = (vec!["rnr.slow_receiver"], vec!["retry.storm"]);
        sort(&mut both, None);
        assert_eq!(both[0].id, "retry.storm");
    }

    #[test]
    fn of_those_that_are_as_bad_the_costlier_is_first_and_what_it_owns_follows() {
        let with = |id, ratio, ms: Option<u64>| Finding {
            impact: Impact {
                packets_ratio: ratio,
                time_lost_ns: ms.map(|ms| ms * 1_000_000),
                ..Impact::default()
            },
            ..finding(id, Severity::Warning, None)
        };
        let mut all = [
            with("tool.lost", None, None),
            with("icrc.errors", Some(0.01), None),
            Finding { owner: Some("burst.incast"), ..with("loss.before_tap", Some(0.5), None) },
            // Relative to ten seconds, the minimum length of an episode.
            with("retry.storm", Some(0.02), Some(3_000)),
            with("burst.incast", Some(0.2), None),
            with("loss.after_tap", Some(0.2), Some(1)),
        ];
        sort(&mut all, None);
        let order =
            ["retry.storm", "loss.after_tap", "burst.incast", "loss.before_tap", "icrc.errors", "tool.lost"];
        assert_eq!(all.each_ref().map(|finding| finding.id), order);
    }

    #[test]
    fn times_of_another_day_have_their_date() {
        // 2026-03-01 13:05:09.250 UTC.
        let then = crate::analysis::fixtures::START;
        let old = finding("old", Severity::Warning, Some(then));
        assert_eq!(old.until(Some(then + OVER_NS)).as_deref(), Some("until 13:05:09 UTC"));
        assert_eq!(old.until(Some(then + 86_400 * LEAST_NS)).as_deref(), Some("until 2026-03-01 13:05 UTC"));
        assert_eq!(old.until(Some(then + OVER_NS - 1)), None);
        assert_eq!(old.until(None), None);
        let episode = Episode { first_ns: then - 8_000_000_000, last_ns: then, peak: None };
        let old = Finding { episodes: vec![episode], ..old };
        assert_eq!(old.ended(Some(then + OVER_NS)).as_deref(), Some("ended 13:05:09 UTC"), "begin not known");
        let old = Finding { first_seen_ns: Some(episode.first_ns), ..old };
        assert_eq!(old.ended(Some(then + OVER_NS)).as_deref(), Some("ended 13:05:09 UTC, lasted 8.00 s"));
        assert_eq!(old.ended(Some(then)), None);
    }

    /// As the words say it: each effect in turn goes behind the last of its causes, until none is before one.
    fn causes_first_one_by_one(findings: &mut [Finding]) {
        let group = |one: &Finding| (one.severity, one.owner.is_some());
        let (mut at, mut moves) = (0, findings.len());
        while let Some(effect) = findings.get(at) {
            let behind = findings.iter().skip(at + 1).rposition(|other| {
                effect.owner.is_none()
                    && group(other) == group(effect)
                    && effect.causes.contains(&other.id)
                    && !other.causes.contains(&effect.id)
            });
            let Some(behind) = behind.filter(|_| moves > 0) else {
                at += 1;
                continue;
            };
            let mut to = at + 1 + behind;
            while findings.get(to + 1).is_some_and(|next| next.owner.is_some()) {
                to += 1;
            }
            let owned = findings[at + 1..].iter().take_while(|next| next.owner.is_some()).count();
            findings[at..=to].rotate_left(1 + owned);
            moves -= 1;
        }
    }

    #[test]
    fn effects_are_behind_their_causes_where_moving_them_one_by_one_puts_them() {
        // Each may be caused by those before it, so that there is no circle.
        const IDS: [&str; 5] = ["tool.lost", "pfc.storm", "icrc.errors", "loss.after_tap", "retry.storm"];
        // With effects of effects, effects of one cause may be in another order among themselves.
        for (rounds, first_effect) in [(2_000, 3), (2_000, 1)] {
            let mut random = random();
            for round in 0..rounds {
                let mut all: Vec<Finding> = (0..2 + random(12))
                    .map(|at| {
                        let kind = random(IDS.len());
                        let severity = [Severity::Critical, Severity::Warning][usize::from(at > 6)];
                        let mut one = Finding { at: Some(at), ..finding(IDS[kind], severity, None) };
                        let causes = match first_effect {
                            1 => kind,
                            first if kind < first => 0,
                            first => first,
                        };
                        one.causes = IDS[..causes].iter().copied().filter(|_| random(3) == 0).collect();
                        one.owner = (at > 0 && random(5) == 0).then_some("pfc.victim");
                        one
                    })
                    .collect();
                let mut reference = all.clone();
                causes_first_one_by_one(&mut reference);
                causes_first(&mut all, None);
                let places = |all: &[Finding]| all.iter().map(|one| one.at).collect::<Vec<_>>();
                if first_effect > 1 {
                    assert_eq!(places(&all), places(&reference), "round {round}");
                }
                let heads: Vec<&Finding> = all.iter().filter(|one| one.owner.is_none()).collect();
                for (at, effect) in heads.iter().enumerate() {
                    let late = heads[at..]
                        .iter()
                        .any(|cause| cause.severity == effect.severity && effect.causes.contains(&cause.id));
                    assert!(!late, "round {round}: {} is before a cause", effect.id);
                }
                let mut sorted = places(&all);
                sorted.sort_unstable();
                assert_eq!(sorted, (0..all.len()).map(Some).collect::<Vec<_>>(), "round {round}");
            }
        }
    }

    fn random() -> impl FnMut(usize) -> usize {
        let mut random = rocescope_common::random::Random::new(1);
        move |below| random.index(below)
    }
}
