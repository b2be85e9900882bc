//! The report with its findings, and the entropy over 5-tuples in the time range: computed in the background, from the
//! same samples.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::analysis;
use crate::analysis::{Entropy, FlowId, NakCauses, Spray, Spread};
use crate::findings::{Grounds, Silences};
use crate::model::{Conclusions, FlowVerdicts, TimeRange};
use crate::report::{self, Report};
use crate::sample::Sample;

/// Spreads kept, at most.
const SPREADS: usize = 48;
/// Time between two of them at least, in nanoseconds.
const SPACING_NS: u64 = 2_000_000_000;

/// Scope of an analysis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Time range of the entropy.
    pub range: TimeRange,
    /// Uplinks that flows are hashed over; `None` for what the command line says.
    pub uplinks: Option<u32>,
}

/// Conclusions from a sample.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// Time of the sample, Unix nanoseconds.
    pub time_ns: u64,
    /// The same by `CLOCK_MONOTONIC`, if known.
    pub steady_ns: Option<u64>,
    /// Its report without the flows: since the start.
    pub report: Report,
    /// What a healthy verdict rests on, of all flows.
    pub grounds: Grounds,
    /// True if requests of some flow are timed.
    pub timed: bool,
    /// True if the process of some flow is known.
    pub owned: bool,
    /// The part of its findings that the history keeps.
    pub conclusions: Arc<Conclusions>,
    /// Spreading of packets over paths, of the flows that are spread.
    pub spread: Vec<(FlowId, Spray)>,
    /// Causes of the sequence-error NAKs of flows that carry some.
    pub nak_causes: Vec<(FlowId, NakCauses)>,
    /// The findings by flow.
    pub verdicts: FlowVerdicts,
    /// Spread of the data over 5-tuples in the time range; `None` until there are two samples.
    pub entropy: Option<Entropy>,
}

/// Draws conclusions from one sample after the other.
#[derive(Debug)]
pub struct Analyst {
    options: report::Options,
    spreads: VecDeque<(u64, Spread)>,
    silences: Silences,
}

impl Analyst {
    /// With these options of the report.
    pub fn new(options: report::Options) -> Self {
        Self { options, spreads: VecDeque::new(), silences: Silences::default() }
    }

    /// Draws conclusions from `sample`.
    #[must_use]
    pub fn analyse(&mut self, sample: &Sample, scope: Scope) -> Analysis {
        let now = sample.time_ns;
        if self.spreads.back().is_some_and(|(time, _)| *time > now) {
            self.spreads.clear();
            self.silences = Silences::default();
        }
        let spread = Spread::of_data(sample);
        let entropy = match scope.range.ns() {
            None if scope.range == TimeRange::All => Some(spread.entropy()),
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
        self.silences.note(&mut report.findings, report.facts.window.last_ns);
        if let Some(uplinks) = scope.uplinks {
            // The user's what-if is no ground for a finding.
            report.facts.ecmp = Some(analysis::what_if(sample, uplinks));
        }
        let conclusions = Arc::new(Conclusions::of(&report, now));
        let verdicts = FlowVerdicts::of(&report.findings);
        let grounds = Grounds::of(&report.facts);
        let timed = report.facts.flows.iter().any(|flow| flow.latency_ns.is_some());
        let owned = report.facts.flows.iter().any(|flow| flow.pid.is_some());
        let spread = report.facts.flows.iter();
        let spread = spread.filter_map(|flow| Some((FlowId::of(flow), *flow.spray.as_deref()?))).collect();
        let answers = report.facts.flows.iter().filter(|flow| flow.ack.naks.psn_sequence_error > 0);
        let nak_causes = answers.map(|flow| (FlowId::of(flow), report.facts.nak_causes(flow))).collect();
        // No screen shows the others, and 65,536 take as much memory as three samples.
        report.facts.flows = Vec::new();
        Analysis {
            time_ns: now,
            steady_ns: sample.steady_ns,
            report,
            grounds,
            timed,
            owned,
            conclusions,
            spread,
            nak_causes,
            verdicts,
            entropy,
        }
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
    use crate::sample::GrownTimes;

    /// Requests for ever, and this number of RNR NAKs.
    fn at(seconds: u64, rnr_naks: u64) -> Sample {
        let end = START + seconds * SECOND;
        let mut naks = stats(50_001, 1_000 * seconds, 62_000 * seconds);
        naks.rare.rnr_naks = rnr_naks;
        let mut data = stats(50_000, 100 * seconds, 100_000 * seconds);
        (naks.last_ns, data.last_ns) = (end, end);
        let flows =
            vec![(key(0, "10.0.0.1", "10.0.0.2", 17), data), (key(0, "10.0.0.2", "10.0.0.1", 18), naks)];
        let mut sample = sample(vec![link("eth0", None)], flows);
        (sample.time_ns, sample.window) = (end, Some((START, end)));
        sample
    }

    #[test]
    fn a_counter_that_stops_growing_ends_its_finding() {
        let mut analyst = Analyst::new(report::Options::default());
        let mut grown = GrownTimes::default();
        let mut until = |seconds, naks| {
            let mut sample = at(seconds, naks);
            grown.take(&sample);
            sample.grown = grown.clone();
            let report = analyst.analyse(&sample, Scope::default()).report;
            let finding = report.findings.iter().find(|finding| finding.id == "rnr.slow_receiver").unwrap();
            finding.over_since(report.facts.window.last_ns)
        };
        assert_eq!(until(1, 10), None);
        assert_eq!(until(2, 20), None);
        assert_eq!(until(11, 20), None, "nine seconds without");
        assert_eq!(until(12, 20), Some(START + 2 * SECOND));
        assert_eq!(until(13, 21), None, "and again");
    }
}
