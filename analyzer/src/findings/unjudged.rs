//! Findings that a run cannot come to, since what they rest on was not collected.

use crate::figures::Figures;
use crate::report::Unjudged;
use crate::sample::Sample;

/// Needs the order and the exact time of packets: live, `--no-timing` is without.
const TIMES: &str = "exact_times";
/// Needs every packet of several taps: live runs keep none.
const TAPS: &str = "packets_of_taps";
/// Needs whole frames: live runs read headers.
const FRAMES: &str = "whole_frames";

type Kind = (&'static str, &'static str, fn(&Figures) -> bool);

const KINDS: &[Kind] = &[
    ("burst.incast", TIMES, |figures| figures.traffic.is_none()),
    ("cnp.without_ce", TIMES, |figures| figures.pairs.is_none()),
    ("icrc.errors", FRAMES, |figures| figures.icrc.is_none()),
    ("job.stalled", TIMES, |figures| figures.traffic.is_none()),
    ("latency.tail", TIMES, |figures| figures.latency.is_none()),
    ("loss.after_tap", TIMES, |figures| figures.loss.is_none()),
    ("loss.before_tap", TIMES, |figures| figures.loss.is_none()),
    ("loss.between_taps", TAPS, |figures| figures.taps.is_none()),
    ("peer.silent", TIMES, |figures| figures.loss.is_none()),
    ("retry.storm", TIMES, |figures| figures.loss.is_none()),
    ("step.slower", TIMES, |figures| figures.traffic.is_none()),
    ("step.straggler", TIMES, |figures| figures.traffic.is_none()),
];

/// Their ids in order, and what each needs.
pub(super) fn unjudged(sample: &Sample) -> Vec<Unjudged> {
    let missing = KINDS.iter().filter(|(_, _, missing)| missing(&sample.figures));
    missing.map(|(id, needs, _)| Unjudged { id, needs }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::entries;
    use crate::report::fixtures::sample;

    #[test]
    fn what_was_not_collected_leaves_findings_open() {
        let ids = |sample: &Sample| unjudged(sample).into_iter().map(|one| one.id).collect::<Vec<_>>();
        let nothing = ids(&sample(Vec::new(), Vec::new()));
        assert_eq!(nothing.len(), KINDS.len());
        assert!(nothing.is_sorted() && nothing.iter().all(|id| entries().any(|entry| entry.id == *id)));
        let mut timed = sample(Vec::new(), Vec::new());
        timed.figures.latency = Some(hashbrown::HashMap::default());
        timed.figures.loss = Some(crate::figures::loss::Loss::default());
        assert!(!ids(&timed).contains(&"latency.tail") && !ids(&timed).contains(&"retry.storm"));
        assert!(ids(&timed).contains(&"burst.incast"));
    }
}
