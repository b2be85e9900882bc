//! The report `rocescope.report/1`: what every view and every other program reads.
//!
//! [`Report::build`] turns a [`Sample`] into it, `json` and `text` write it. What each field means, in which unit, is
//! documented on the field itself: JSON Schema and docs/metrics.md are made from the doc comments. What is not known is
//! `None` and becomes null.

pub mod json;
#[cfg(test)]
pub(crate) mod schema;
pub mod text;
mod verdict;

use serde::Serialize;

use crate::analysis::{self, Facts};
use crate::findings::{self, Finding, Limits, NotEvaluated};
use crate::sample::Sample;
pub use verdict::ReportVerdict;

/// Name and version of the schema.
pub const SCHEMA: &str = "rocescope.report/1";

/// The user's choices about the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// The comparison of links, and the filter.
    pub analysis: analysis::Options,
    /// Thresholds of findings.
    pub limits: Limits,
}

impl From<analysis::Options> for Options {
    fn from(analysis: analysis::Options) -> Self {
        Self { analysis, limits: Limits::default() }
    }
}

/// One report: all facts up to one moment, findings on them, and what was not evaluated. Reports are
/// cumulative.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Name and version of the schema.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    pub schema: &'static str,
    /// Everything that follows from the sample without a judgement; its fields are fields of the report.
    #[serde(flatten)]
    pub facts: Facts,
    /// The conclusion in one sentence.
    pub verdict: ReportVerdict,
    /// Findings: active ones first, by impact, then ended ones, then those of severity `info`.
    pub findings: Vec<Finding>,
    /// Findings that could not be evaluated in this run: their absence from `findings` proves nothing.
    #[serde(rename = "unjudged")]
    pub not_evaluated: Vec<NotEvaluated>,
}

/// Verdict and findings that follow from facts.
struct Evaluation {
    verdict: ReportVerdict,
    findings: Vec<Finding>,
    not_evaluated: Vec<NotEvaluated>,
}

impl Report {
    /// The report of everything counted up to `sample`.
    ///
    /// The same counts give the same report, whatever the order of the sample's flows.
    pub fn build(sample: &Sample, options: &Options) -> Self {
        Self::with(sample, Facts::of(sample, &options.analysis), options)
    }

    /// The same report of a sample that nobody needs afterwards, in less memory.
    pub fn of_last(mut sample: Sample, options: &Options) -> Self {
        let facts = Facts::of_last(&mut sample, &options.analysis);
        Self::with(&sample, facts, options)
    }

    /// The report of these facts and what follows from them. Findings have flows from facts alone.
    fn with(sample: &Sample, facts: Facts, options: &Options) -> Self {
        let Evaluation { verdict, findings, not_evaluated } = Self::judge(sample, &facts, options);
        Self { schema: SCHEMA, facts, verdict, findings, not_evaluated }
    }

    fn judge(sample: &Sample, facts: &Facts, options: &Options) -> Evaluation {
        let (findings, not_evaluated) = Self::find(sample, facts, options);
        Evaluation { verdict: ReportVerdict::of(facts, &findings), findings, not_evaluated }
    }

    /// The findings from facts, and the checks that were not evaluated.
    fn find(sample: &Sample, facts: &Facts, options: &Options) -> (Vec<Finding>, Vec<NotEvaluated>) {
        if let Some(recording) = &sample.recording {
            // They were judged when they were recorded, from more than a recording keeps.
            let mut findings: Vec<Finding> =
                recording.findings.iter().filter_map(|json| findings::recorded::read(json)).collect();
            findings::order::sort(&mut findings, facts.window.last_ns);
            return (findings, Vec::new());
        }
        let not_evaluated = findings::not_evaluated(sample, facts);
        (findings::check(&findings::Input { sample, facts, limits: &options.limits }), not_evaluated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::{everything, key, link, sample, stats};

    /// No finding takes from the sample what its flows have.
    #[test]
    fn the_last_report_is_as_any_other() {
        let options = Options::default();
        assert_eq!(Report::of_last(everything(), &options), Report::build(&everything(), &options));
    }

    /// Two threads make the flows of many.
    #[test]
    fn the_last_report_of_many_flows_is_as_any_other() {
        const LINKS: [&str; 3] = ["a.pcap", "b.pcap", "c.pcap"];
        let host = |number: u32| format!("10.0.{}.{}", number % 7, number % 251);
        let flows = (0..20_011_u32).map(|number| {
            let at = number.wrapping_mul(7_919);
            let key = key((number % 3) as u16, &host(at), &host(at / 3), number);
            (key, stats(u16::try_from(49_152 + number % 1_000).unwrap(), 1 + u64::from(at % 1_000), 100_000))
        });
        let sample = sample(LINKS.map(|name| link(name, None)).into(), flows.collect());
        let (mut last, options) = (sample.clone(), analysis::Options::default());
        let facts = Facts::of_last(&mut last, &options);
        assert!(last.flows.is_empty() && facts.flows.len() == 20_011);
        assert!(facts == Facts::of(&sample, &options));
    }
}
