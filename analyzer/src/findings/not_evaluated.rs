//! Findings that a run cannot come to, since what they rest on was not collected.

use super::once;
use crate::analysis::Facts;
use crate::analysis::{Flow, Psn};
use crate::findings::NotEvaluated;
use crate::metrics::Metrics;
use crate::sample::Sample;

/// Needs the order and the exact time of packets: live, `--no-timing` is without.
const TIMES: &str = "exact_times";
/// Needs every packet of several taps: live runs keep none.
const TAPS: &str = "packets_of_taps";
/// Needs whole frames: live runs read headers.
const FRAMES: &str = "whole_frames";

/// Needs to have followed a sequence without a break: live, queue pairs that lose packets and are not timed (no pair known, too many of them), or were not for
/// a while, have no loss figures, nor have READ responses.
const SEQUENCES: &str = "whole_sequences";

/// Needs the speed of the links, without which the quanta of pause frames are no time.
const SPEED: &str = "link_speed";

/// Whether pauses were asked for whose length is not known.
fn untimed_pauses(metrics: &Metrics) -> bool {
    let control = metrics.control.as_ref().filter(|control| control.stalled.is_none());
    control.is_some_and(|control| control.links.values().any(|link| !link.pauses.is_empty()))
}

type Kind = (&'static str, &'static str, fn(&Metrics) -> bool);

const KINDS: &[Kind] = &[
    ("burst.incast", TIMES, |metrics| metrics.traffic.is_none()),
    ("cnp.without_ce", TIMES, |metrics| metrics.pairs.is_none()),
    ("icrc.errors", FRAMES, |metrics| metrics.icrc.is_none()),
    ("job.stalled", TIMES, |metrics| metrics.traffic.is_none()),
    ("latency.tail", TIMES, |metrics| metrics.latency.is_none()),
    ("loss.after_tap", TIMES, |metrics| metrics.loss.is_none()),
    ("loss.before_tap", TIMES, |metrics| metrics.loss.is_none()),
    ("loss.between_taps", TAPS, |metrics| metrics.taps.is_none()),
    ("peer.silent", TIMES, |metrics| metrics.loss.is_none()),
    ("pfc.storm", SPEED, untimed_pauses),
    ("pfc.victim", SPEED, untimed_pauses),
    ("retry.storm", TIMES, |metrics| metrics.loss.is_none()),
    ("step.slower", TIMES, |metrics| metrics.traffic.is_none()),
    ("step.straggler", TIMES, |metrics| metrics.traffic.is_none()),
];

/// Kinds that go by what was lost and sent again.
const OF_LOSS: [&str; 3] = ["loss.after_tap", "loss.before_tap", "retry.storm"];

/// Whether something is known to have gone wrong in a flow's sequence, but not what: its counters show gaps or repeats, and there are no
/// figures of loss. What is said of losses leaves such a flow out as a whole, for of its packets it is unknown how many were lost.
pub(super) fn is_unjudged(flow: &Flow) -> bool {
    let broken = |psn: Option<Psn>| psn.is_some_and(|psn| psn.gaps > 0 || psn.repeats > 0);
    let responses = flow.psn_responses.is_some_and(|psn| psn.repeats > 0) || flow.responses_missing > Some(0);
    flow.loss.is_none() && broken(flow.psn) || flow.loss_responses.is_none() && responses
}

/// How many such flows there are: what findings of loss leave out.
pub(super) fn flows_unjudged(facts: &Facts) -> u64 {
    once::count(facts.flows.iter().filter(|flow| is_unjudged(flow)))
}

/// Their ids in order, and what each needs.
pub(super) fn not_evaluated(sample: &Sample, flows: &[Flow]) -> Vec<NotEvaluated> {
    let missing = KINDS.iter().filter(|(_, _, missing)| missing(&sample.metrics));
    let mut all: Vec<NotEvaluated> = missing.map(|(id, needs, _)| NotEvaluated { id, needs }).collect();
    if sample.metrics.loss.is_some() && flows.iter().any(is_unjudged) {
        all.extend(OF_LOSS.map(|id| NotEvaluated { id, needs: SEQUENCES }));
        all.sort_by_key(|one| one.id);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::sample;
    use crate::findings::entries;

    #[test]
    fn what_was_not_collected_leaves_findings_open() {
        let ids =
            |sample: &Sample| not_evaluated(sample, &[]).into_iter().map(|one| one.id).collect::<Vec<_>>();
        let nothing = ids(&sample(Vec::new(), Vec::new()));
        assert_eq!(nothing.len(), KINDS.iter().filter(|(_, needs, _)| *needs != SPEED).count());
        assert!(nothing.is_sorted() && nothing.iter().all(|id| entries().any(|entry| entry.id == *id)));
        let mut timed = sample(Vec::new(), Vec::new());
        timed.metrics.latency = Some(crate::metrics::latency::BySlot::default());
        timed.metrics.loss = Some(crate::metrics::loss::Loss::default());
        assert!(!ids(&timed).contains(&"latency.tail") && !ids(&timed).contains(&"retry.storm"));
        assert!(ids(&timed).contains(&"burst.incast"));
    }
}
