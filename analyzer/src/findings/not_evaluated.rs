//! Findings that a run cannot evaluate, since the data that they need was not collected.

use super::{entries, once};
use crate::analysis::{Facts, Flow, Psn};
use crate::findings::NotEvaluated;
use crate::sample::Sample;

/// True if a flow's sequence is known to have problems of unknown kind: its counters show gaps or repeats, but there
/// are no loss figures. Loss findings leave out such a flow entirely, since the number of its lost packets is
/// unknown.
pub(super) fn is_not_evaluated(flow: &Flow) -> bool {
    let broken = |psn: Option<Psn>| psn.is_some_and(|psn| psn.gaps > 0 || psn.repeats > 0);
    let responses = flow.psn_responses.as_ref().is_some_and(|psn| psn.repeats > 0)
        || flow.responses_missing.get() > Some(0);
    flow.loss.get().is_none() && broken(flow.psn) || flow.loss_responses.get().is_none() && responses
}

/// Number of such flows, which loss findings leave out.
pub(super) fn flows_not_evaluated(facts: &Facts) -> u64 {
    once::count(facts.flows.iter().filter(|flow| is_not_evaluated(flow)))
}

/// Ids in order, each with its first need that is not met.
pub(super) fn not_evaluated(sample: &Sample, flows: &[Flow]) -> Vec<NotEvaluated> {
    let missing = entries().filter_map(|entry| {
        let need = entry.needs.iter().find(|need| need.is_missing(sample, flows))?;
        Some(NotEvaluated { id: entry.id, needs: need.name() })
    });
    let mut all: Vec<NotEvaluated> = missing.collect();
    all.sort_by_key(|one| one.id);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::sample;
    use crate::findings::Need;

    #[test]
    fn what_was_not_collected_leaves_findings_open() {
        let ids =
            |sample: &Sample| not_evaluated(sample, &[]).into_iter().map(|one| one.id).collect::<Vec<_>>();
        let nothing = ids(&sample(Vec::new(), Vec::new()));
        let collected = |need: &Need| !matches!(need, Need::PauseTimes | Need::Sequences);
        assert_eq!(nothing.len(), entries().filter(|entry| entry.needs.iter().any(collected)).count());
        assert!(nothing.is_sorted());
        let mut timed = sample(Vec::new(), Vec::new());
        timed.metrics.latency = Some(crate::metrics::latency::BySlot::default());
        timed.metrics.loss = Some(crate::metrics::loss::Loss::default());
        assert!(!ids(&timed).contains(&"latency.tail") && !ids(&timed).contains(&"retry.storm"));
        assert!(ids(&timed).contains(&"burst.incast"));
    }
}
