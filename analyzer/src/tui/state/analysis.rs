//! What takes longer than a picture may: the report with its findings, and the spread over 5-tuples in
//! the time range. Computed beside the screen, from the same samples.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::analysis;
use crate::analysis::{Entropy, Flow, Spread};
use crate::findings::{Finding, order};
use crate::model::{Conclusions, FlowVerdicts, TimeRange};
use crate::report::{self, Report};
use crate::sample::Sample;

/// Spreads kept, at most.
const SPREADS: usize = 48;
/// Time between two of them at least, in nanoseconds.
const SPACING_NS: u64 = 2_000_000_000;

/// What the user wants to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Entropy is of this time range.
    pub range: TimeRange,
    /// Uplinks that flows are hashed over; `None` for what the command line says.
    pub uplinks: Option<u32>,
}

/// What was concluded from a sample.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The sample's time.
    pub time_ns: u64,
    /// Its report without the flows: since the start.
    pub report: Report,
    /// True if requests of some flow are timed.
    pub timed: bool,
    /// True if the process of some flow is known.
    pub owned: bool,
    /// What of its findings is kept for those who come back to the snapshot later.
    pub conclusions: Arc<Conclusions>,
    /// The findings by flow.
    pub verdicts: FlowVerdicts,
    /// Spread over 5-tuples in the time range; `None` until there are two samples.
    pub entropy: Option<Entropy>,
}

/// Draws conclusions from one sample after the other.
#[derive(Debug)]
pub struct Analyst {
    options: report::Options,
    spreads: VecDeque<(u64, Spread)>,
    grown: [Grown; GROWING.len()],
}

/// A counter over all flows, and when it grew last.
#[derive(Clone, Copy, Debug, Default)]
struct Grown {
    count: u64,
    /// Unix nanoseconds; `None` when it has not grown before our eyes.
    last_ns: Option<u64>,
}

/// A finding that rests on a count of packets whose times are not kept, and that count.
type Growing = (&'static str, fn(&Flow) -> u64);

const GROWING: [Growing; 5] = [
    ("nak.invalid_request", |flow| flow.ack.naks.invalid_request),
    ("nak.remote_access_error", |flow| flow.ack.naks.remote_access_error),
    ("nak.remote_operational_error", |flow| flow.ack.naks.remote_operational_error),
    ("retry.storm", |flow| [flow.psn, flow.psn_responses].iter().flatten().map(|psn| psn.repeats).sum()),
    ("rnr.slow_receiver", |flow| flow.ack.rnr_naks),
];

impl Analyst {
    /// With these options of the report.
    #[must_use]
    pub fn new(options: report::Options) -> Self {
        Self { options, spreads: VecDeque::new(), grown: [Grown::default(); GROWING.len()] }
    }

    /// Concludes what there is to conclude from `sample`.
    #[must_use]
    pub fn analyse(&mut self, sample: &Sample, ask: Ask) -> Analysis {
        let now = sample.time_ns;
        if self.spreads.back().is_some_and(|(time, _)| *time > now) {
            self.spreads.clear();
            self.grown = Default::default();
        }
        let spread = Spread::of(sample);
        let entropy = match ask.range.ns() {
            None if ask.range == TimeRange::All => Some(spread.entropy()),
            None => self.spreads.back().map(|(_, then)| spread.since(then).entropy()),
            Some(ns) => self.before(now.saturating_sub(ns)).map(|then| spread.since(then).entropy()),
        };
        if self.spreads.back().is_none_or(|(time, _)| now - time >= SPACING_NS) {
            if self.spreads.len() == SPREADS {
                self.spreads.pop_front();
            }
            self.spreads.push_back((now, spread));
        }
        let mut report = Report::build(sample, &self.options);
        self.date(&mut report, now);
        if let Some(uplinks) = ask.uplinks {
            // What the user tries out is no ground for a finding.
            report.facts.ecmp = analysis::what_if(sample, uplinks);
        }
        let conclusions = Arc::new(Conclusions::of(&report, now));
        let verdicts = FlowVerdicts::of(&report.findings);
        let timed = report.facts.flows.iter().any(|flow| flow.latency_ns.is_some());
        let owned = report.facts.flows.iter().any(|flow| flow.pid.is_some());
        // No screen shows them, and 65,536 take as much memory as three samples.
        report.facts.flows = Vec::new();
        Analysis { time_ns: now, report, timed, owned, conclusions, verdicts, entropy }
    }

    /// Dates findings without episodes, whose packets have no times of their own: by the analysis that saw their count
    /// grow, which is closer than the end of their flows.
    fn date(&mut self, report: &mut Report, now: u64) {
        let end_ns = report.facts.window.last_ns;
        for (grown, (id, of)) in self.grown.iter_mut().zip(GROWING) {
            let count = report.facts.flows.iter().map(of).sum();
            // Less than before is a flow that retired.
            if count > grown.count {
                grown.last_ns = Some(now);
            }
            grown.count = count;
            let dated = |finding: &&mut Finding| finding.id == id && finding.episodes.is_empty();
            for finding in report.findings.iter_mut().filter(dated) {
                let known = [finding.last_seen_ns, grown.last_ns];
                finding.last_seen_ns = known.into_iter().flatten().min();
                finding.active = finding.over_since(end_ns).is_none();
            }
        }
        order::sort(&mut report.findings, end_ns);
    }

    /// The newest spread of this time or before, else the oldest.
    fn before(&self, time_ns: u64) -> Option<&Spread> {
        let found = self.spreads.iter().rev().find(|(time, _)| *time <= time_ns);
        found.or_else(|| self.spreads.front()).map(|(_, spread)| spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::{SECOND, START, key, link, sample, stats};

    /// Requests for ever, and NAKs of a receiver that was not ready, so many of them.
    fn at(seconds: u64, rnr_naks: u64) -> Sample {
        let end = START + seconds * SECOND;
        let mut naks = stats(50_001, 1_000 * seconds, 62_000 * seconds);
        naks.rnr_naks = rnr_naks;
        let mut data = stats(50_000, 100 * seconds, 100_000 * seconds);
        (naks.last_ns, data.last_ns) = (end, end);
        let flows =
            vec![(key(0, "10.0.0.1", "10.0.0.2", 17), data), (key(0, "10.0.0.2", "10.0.0.1", 18), naks)];
        let mut sample = sample(vec![link("eth0", None)], flows);
        (sample.time_ns, sample.window) = (end, Some((START, end)));
        sample
    }

    #[test]
    fn what_no_longer_grows_is_over_though_its_flows_go_on() {
        let mut analyst = Analyst::new(report::Options::default());
        let mut until = |seconds, naks| {
            let report = analyst.analyse(&at(seconds, naks), Ask::default()).report;
            let finding = report.findings.iter().find(|finding| finding.id == "rnr.slow_receiver").unwrap();
            finding.over_since(report.facts.window.last_ns)
        };
        assert_eq!(until(1, 10), None);
        assert_eq!(until(2, 20), None);
        assert_eq!(until(11, 20), None, "nine seconds without");
        assert_eq!(until(12, 20), Some(START + 2 * SECOND));
        assert_eq!(until(13, 21), None, "and again");
        assert_eq!(until(3, 21), None, "the replay was wound back");
        assert_eq!(until(4, 22), None);
        assert_eq!(until(14, 22), Some(START + 4 * SECOND));
    }
}
