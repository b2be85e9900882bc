//! End of a finding, and the order of findings.

use std::cmp::Reverse;

use super::catalog::entry;
use super::span::LEAST_NS;
use crate::findings::{Finding, Severity};
use crate::metrics::loss::spells::SPELL_NS;
use crate::util::definition::definitions;
use crate::util::units;

/// A finding not seen for this long before the end of the data has ended, in nanoseconds.
pub const OVER_NS: u64 = SPELL_NS;

definitions! {
    pub QUIET_NS: u64 = 3_000_000_000,
        "An active finding that has not been seen for this long, in nanoseconds, is quiet and comes after those that are seen",
        "A step of a training job or two pass in it without the signal: it may have ended";
    pub QUIET_TIMES: u64 = 2,
        "A finding that showed again after a silence is quiet only after one longer by this factor",
        "A loss every four seconds goes on: the headline would change with each of them. What stops for good gives way after a few of its own silences, and at the latest when it has ended";
}

/// Position of a kind among those of the same severity.
fn rank(id: &str) -> u16 {
    entry(id).map_or(u16::MAX, |entry| entry.rank)
}

impl Finding {
    /// Time at which it ended, Unix nanoseconds, in data that ends at `end_ns`; `None` while active or if unknown.
    #[must_use]
    pub fn over_since(&self, end_ns: Option<u64>) -> Option<u64> {
        let (seen, end) = (self.last_seen_ns?, end_ns?);
        (end.saturating_sub(seen) >= OVER_NS).then_some(seen)
    }

    /// Time for which an active finding has not been seen, in nanoseconds, in data that ends at `end_ns`; `None`
    /// below [`QUIET_NS`], and while it is no longer than its own silences were ([`QUIET_TIMES`]).
    #[must_use]
    pub fn quiet_ns(&self, end_ns: Option<u64>) -> Option<u64> {
        let quiet = end_ns?.saturating_sub(self.last_seen_ns?);
        let least = QUIET_NS.max(self.longest_silence_ns.saturating_mul(QUIET_TIMES));
        (self.active && quiet >= least && self.over_since(end_ns).is_none()).then_some(quiet)
    }

    /// End and duration of its latest episode as text, `ended 13:05:09 UTC after 8.00 s`, with the date if it is
    /// another day; `None` while active.
    #[must_use]
    pub fn ended(&self, end_ns: Option<u64>) -> Option<String> {
        let when = format!("ended {}", self.end_utc(end_ns)?);
        Some(match self.length_ns() {
            Some(length) if length > 0 => format!("{when} after {}", units::duration(length)),
            _ => when,
        })
    }

    /// Length of its latest episode, in nanoseconds; `None` where its begin is not known.
    #[must_use]
    pub fn length_ns(&self) -> Option<u64> {
        let last_ns = self.episodes.last()?.last_ns;
        Some(last_ns.saturating_sub(self.since_ns()?))
    }

    /// Its end as text, `until 13:05:09 UTC`, with the date if it is another day.
    #[must_use]
    pub fn until(&self, end_ns: Option<u64>) -> Option<String> {
        Some(format!("until {}", self.end_utc(end_ns)?))
    }

    fn end_utc(&self, end_ns: Option<u64>) -> Option<String> {
        let seen = self.over_since(end_ns)?;
        Some(format!("{} UTC", units::recent_utc(seen, end_ns)))
    }
}

/// Sort key of a finding: group, quiet, severity, cost, rank, id.
type Key = (u8, bool, Reverse<Severity>, Reverse<u32>, u16, &'static str);

fn key(finding: &Finding, end_ns: Option<u64>) -> Key {
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
/// traffic or time decides
/// ([`Impact::share`](super::Impact::share)), then [`Entry::rank`](super::Entry::rank), causes first. An effect
/// follows a cause of the same severity that it names, whatever its cost. A finding with an owner follows its owner.
pub fn sort(findings: &mut [Finding], end_ns: Option<u64>) {
    let keys: Vec<(Key, Option<usize>, &'static str)> =
        findings.iter().map(|one| (key(one, end_ns), one.at, one.id)).collect();
    let of_owner = |owned: &Finding| {
        let owners = keys.iter().filter(|(_, at, id)| owned.is_owned_by(id, *at));
        owners.map(|(key, at, _)| (*key, *at)).min()
    };
    // Within a family, the check lists the worst first.
    findings.sort_by_cached_key(|finding| {
        let own = key(finding, end_ns);
        let owner = of_owner(finding);
        (owner.unwrap_or((own, finding.at)), owner.is_some(), own)
    });
    causes_first(findings, end_ns);
}

/// Moves an effect after the causes that it names, if they are in its group: equally severe and equally current. One that
/// shows now stays before a quiet cause.
/// Findings with an owner move with it.
fn causes_first(findings: &mut [Finding], end_ns: Option<u64>) {
    let group = |one: &Finding| {
        let (group, quiet, severity, ..) = key(one, end_ns);
        (group, quiet, severity, one.owner.is_some())
    };
    // Each move puts one effect after its last cause; two that name one another stay.
    let mut at = 0;
    let mut moves = findings.len();
    while let Some(effect) = findings.get(at) {
        let behind = findings.iter().skip(at + 1).rposition(|other| {
            effect.owner.is_none()
                && group(other) == group(effect)
                && effect.causes.contains(&other.id)
                && !other.causes.contains(&effect.id)
        });
        match behind.filter(|_| moves > 0) {
            Some(behind) => {
                let mut to = at + 1 + behind;
                // Findings that the cause owns follow it, and those that the effect owns follow the effect.
                while findings.get(to + 1).is_some_and(|next| next.owner.is_some()) {
                    to += 1;
                }
                let owned = findings[at + 1..].iter().take_while(|next| next.owner.is_some()).count();
                findings[at..=to].rotate_left(1 + owned);
                moves -= 1;
            }
            None => at += 1,
        }
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
        assert_eq!(headline.worst.map(|worst| worst.id), Some("links.imbalance"));
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
        assert_eq!(old.ended(Some(then + OVER_NS)).as_deref(), Some("ended 13:05:09 UTC after 8.00 s"));
        assert_eq!(old.ended(Some(then)), None);
    }
}
