//! Silences after which findings showed again, from successive analyses: what recurs does not give up its place each
//! time.

use std::collections::BTreeMap;

use super::{Finding, order};

/// An active finding at the latest analysis.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "the unit is part of each name")]
struct ActiveFinding {
    last_seen_ns: u64,
    /// Time without it so far.
    silence_ns: u64,
    /// The longest such time after which it showed again.
    longest_ns: u64,
}

/// Active findings at the latest analysis, by [`Finding::key`].
#[derive(Clone, Debug, Default)]
pub struct Silences(BTreeMap<String, ActiveFinding>);

impl Silences {
    /// Gives each active finding of an analysis over data that ends at `end_ns` the longest of its silences, and puts
    /// all in order.
    pub fn note(&mut self, findings: &mut [Finding], end_ns: Option<u64>) {
        let mut before = std::mem::take(&mut self.0);
        for finding in findings.iter_mut().filter(|one| one.active) {
            let Some((last_seen_ns, end_ns)) = finding.last_seen_ns.zip(end_ns) else { continue };
            let key = finding.key();
            let mut shown = before.remove(&key).unwrap_or_default();
            if last_seen_ns > shown.last_seen_ns {
                shown.longest_ns = shown.longest_ns.max(shown.silence_ns);
            }
            (shown.last_seen_ns, shown.silence_ns) = (last_seen_ns, end_ns.saturating_sub(last_seen_ns));
            finding.longest_silence_ns = shown.longest_ns;
            self.0.insert(key, shown);
        }
        order::sort(findings, end_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Severity, Verdict};
    use crate::util::time::NS_PER_S as S;

    const START: u64 = 1_000 * S;

    /// The headline of each second beside a steady warning, with a loss seen at these seconds.
    fn headlines(losses: &[u64], seconds: u64) -> Vec<&'static str> {
        let mut silences = Silences::default();
        let of = |id, severity, seen: u64| Finding {
            first_seen_ns: Some(START),
            last_seen_ns: Some(START + seen * S),
            ..Finding::new(id, severity, String::new())
        };
        let headline = |now: u64| {
            let mut all = vec![of("links.imbalance", Severity::Warning, now)];
            if let Some(seen) = losses.iter().rev().find(|at| **at <= now) {
                let mut loss = of("loss.before_tap", Severity::Critical, *seen);
                let end_ns = Some(START + now * S);
                loss.active = loss.over_since(end_ns).is_none();
                all.push(loss);
            }
            let now_ns = START + now * S;
            silences.note(&mut all, Some(now_ns));
            Verdict::of(&all, false).headline.unwrap().id
        };
        (0..seconds).map(headline).collect()
    }

    fn changes(headlines: &[&str]) -> usize {
        headlines.windows(2).filter(|two| two[0] != two[1]).count()
    }

    #[test]
    fn a_headline_does_not_alternate_with_what_recurs() {
        let every = |n: u64| (0..60).step_by(usize::try_from(n).unwrap()).collect::<Vec<_>>();
        for n in [1, 2, 3, 4, 5, 7, 9] {
            let shown = headlines(&every(n), 60);
            assert!(changes(&shown) <= 2, "every {n} s: {shown:?}");
            assert_eq!(shown[59], "loss.before_tap", "every {n} s");
        }
        // Silences that grow.
        let shown = headlines(&[0, 2, 5, 9, 14, 20, 27, 35, 44, 53], 60);
        assert!(changes(&shown) <= 4, "{shown:?}");
    }

    #[test]
    fn what_has_stopped_gives_way_to_what_goes_on() {
        for (n, within) in [(1, 3), (2, 4), (4, 8), (9, order::OVER_NS / S)] {
            let losses: Vec<u64> = (0..=36).step_by(usize::try_from(n).unwrap()).collect();
            let shown = headlines(&losses, 60);
            let last = losses.last().unwrap();
            let first = (*last..60).find(|at| shown[usize::try_from(*at).unwrap()] == "links.imbalance");
            assert!(first.is_some_and(|at| at <= last + within), "every {n} s: {first:?}");
            // It does not come back.
            assert!(
                shown[usize::try_from(first.unwrap()).unwrap()..].iter().all(|id| *id == "links.imbalance")
            );
        }
    }
}
