//! Dates findings that rest on packet counters without times, by their growth between analyses.

use super::{Finding, order};
use crate::analysis::Flow;

/// A kind of finding that rests on such a counter, and the counter of a flow.
type Growing = (&'static str, fn(&Flow) -> u64);

const GROWING: [Growing; 5] = [
    (super::nak::INVALID.id, |flow| flow.ack.naks.invalid_request),
    (super::nak::ACCESS.id, |flow| flow.ack.naks.remote_access_error),
    (super::nak::OPERATIONAL.id, |flow| flow.ack.naks.remote_operational_error),
    (super::retry::STORM.id, |flow| {
        flow.psn.iter().chain(flow.psn_responses.as_deref()).map(|psn| psn.repeats).sum()
    }),
    (super::rnr::SLOW.id, |flow| flow.ack.rnr_naks),
];

/// A counter, summed over all flows.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    count: u64,
    /// Time of the latest analysis in which it had grown, Unix nanoseconds; `None` before that.
    last_ns: Option<u64>,
}

/// The counters at the latest analysis.
#[derive(Clone, Debug, Default)]
pub struct Growth([Counter; GROWING.len()]);

impl Growth {
    /// Dates findings without episodes, of an analysis at `now_ns` over data that ends at `end_ns`: the analysis that
    /// saw the counter grow is a closer bound than the end of the flows.
    pub fn date(&mut self, findings: &mut [Finding], flows: &[Flow], end_ns: Option<u64>, now_ns: u64) {
        for (counter, (id, of)) in self.0.iter_mut().zip(GROWING) {
            let count = flows.iter().map(of).sum();
            // A smaller sum means that a flow was retired.
            if count > counter.count {
                counter.last_ns = Some(now_ns);
            }
            counter.count = count;
            let undated = |finding: &&mut Finding| finding.id == id && finding.first_seen_ns.is_none();
            for finding in findings.iter_mut().filter(undated) {
                let known = [finding.last_seen_ns, counter.last_ns];
                finding.last_seen_ns = known.into_iter().flatten().min();
                if let Some((episode, last_ns)) = finding.episodes.last_mut().zip(finding.last_seen_ns) {
                    episode.last_ns = last_ns.max(episode.first_ns);
                }
                finding.active = finding.over_since(end_ns).is_none();
            }
        }
        order::sort(findings, end_ns);
    }
}
