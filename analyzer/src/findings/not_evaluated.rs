//! Findings that a run cannot evaluate, since the data that they need was not collected.

use super::{dedup, entries};
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
    !flow.loss.is_known() && broken(flow.psn.get()) || !flow.loss_responses.is_known() && responses
}

/// Number of such flows, which loss findings leave out.
pub(super) fn flows_not_evaluated(facts: &Facts) -> u64 {
    dedup::count(facts.flows.iter().filter(|flow| is_not_evaluated(flow)))
}

/// Ids in order, each with its first need that is not met.
pub(super) fn not_evaluated(sample: &Sample, facts: &Facts) -> Vec<NotEvaluated> {
    let missing = entries().filter_map(|entry| {
        let need = entry.needs.iter().find(|need| need.is_missing(sample, facts))?;
        Some(NotEvaluated { id: entry.id, needs: need.name() })
    });
    let mut all: Vec<NotEvaluated> = missing.collect();
    all.sort_by_key(|one| one.id);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Options;
    use crate::analysis::fixtures::sample;
    use crate::findings::RequiredData;

    /// Loss between taps that is judged without some flows.
    #[test]
    fn what_the_taps_leave_open_is_listed() {
        use crate::analysis::fixtures::{key, link, stats};
        use crate::metrics::taps::TapPair;
        use crate::sample::Stats;
        const UC: u8 = 1;
        let needs = |ordered: bool, only: [u64; 2], uc_at: &[u16]| {
            let data = || stats(50_000, 1_000, 1_000_000);
            let mut flows: Vec<_> = [0, 1].map(|tap| (key(tap, "10.0.0.1", "10.0.0.2", 17), data())).into();
            for tap in uc_at {
                let uc = Stats { transport: UC, ..stats(50_000, 40, 40_000) };
                flows.push((key(*tap, "10.0.0.1", "10.0.0.2", 99), uc));
            }
            let mut sample = sample(["a.pcap", "b.pcap"].map(|name| link(name, None)).into(), flows);
            let of = TapPair::empty(key(0, "10.0.0.1", "10.0.0.2", 17), [0, 1]);
            let pair = TapPair { ordered, matched: 900, only, ..of };
            sample.metrics.taps = Some(vec![pair]);
            let facts = Facts::of(&sample, &Options::default());
            let all = not_evaluated(&sample, &facts);
            all.into_iter().find(|one| one.id == "loss.between_taps").map(|one| one.needs)
        };
        assert_eq!(needs(true, [5, 0], &[0, 1]), None);
        assert_eq!(needs(false, [0, 0], &[0, 1]), None, "nothing is missing");
        assert_eq!(needs(false, [5, 4], &[0, 1]), Some("order_of_taps"));
        assert_eq!(needs(false, [901, 902], &[0, 1]), None, "parallel links");
        assert_eq!(needs(true, [5, 0], &[0]), Some("uc_at_next_tap"));
        assert_eq!(needs(true, [5, 0], &[1]), None, "nothing is lost on the way to the first");
    }

    #[test]
    fn what_was_not_collected_leaves_findings_open() {
        let ids = |sample: &Sample| {
            let facts = Facts::of(sample, &Options::default());
            not_evaluated(sample, &facts).into_iter().map(|one| one.id).collect::<Vec<_>>()
        };
        let nothing = ids(&sample(Vec::new(), Vec::new()));
        let collected = |need: &RequiredData| {
            !matches!(
                need,
                RequiredData::PauseTimes
                    | RequiredData::Sequences
                    | RequiredData::TapOrder
                    | RequiredData::UcAtNextTap
            )
        };
        assert_eq!(nothing.len(), entries().filter(|entry| entry.needs.iter().any(collected)).count());
        assert!(nothing.is_sorted());
        let mut timed = sample(Vec::new(), Vec::new());
        timed.metrics.latency = Some(crate::metrics::latency::BySlot::default());
        timed.metrics.loss = Some(crate::metrics::loss::Loss::default());
        assert!(!ids(&timed).contains(&"latency.tail") && !ids(&timed).contains(&"retry.storm"));
        assert!(ids(&timed).contains(&"burst.incast"));
    }
}
