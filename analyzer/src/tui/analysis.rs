//! What takes longer than a picture may: the report with its findings, and the spread over 5-tuples in
//! the span. Computed beside the screen, from the same samples.

use std::collections::VecDeque;

use crate::model::Span;
use crate::report::{self, Entropy, Report, Spread};
use crate::sample::Sample;

/// Spreads kept, at most.
const SPREADS: usize = 48;
/// Time between two of them at least, in nanoseconds.
const SPACING_NS: u64 = 2_000_000_000;

/// What the user wants to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Entropy is of this span.
    pub span: Span,
    /// Uplinks that flows are hashed over; `None` for what the command line says.
    pub uplinks: Option<u32>,
}

/// What was concluded from a sample.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// The sample's time.
    pub time_ns: u64,
    /// Its report: since the start.
    pub report: Report,
    /// Spread over 5-tuples in the span; `None` until there are two samples.
    pub entropy: Option<Entropy>,
}

/// Draws conclusions from one sample after the other.
#[derive(Debug)]
pub struct Analyst {
    options: report::Options,
    spreads: VecDeque<(u64, Spread)>,
}

impl Analyst {
    /// With these options of the report.
    #[must_use]
    pub fn new(options: report::Options) -> Self {
        Self { options, spreads: VecDeque::new() }
    }

    /// Concludes what there is to conclude from `sample`.
    #[must_use]
    pub fn analyse(&mut self, sample: &Sample, ask: Ask) -> Analysis {
        let now = sample.time_ns;
        if self.spreads.back().is_some_and(|(time, _)| *time > now) {
            self.spreads.clear();
        }
        let spread = Spread::of(sample);
        let entropy = match ask.span.ns() {
            None if ask.span == Span::All => Some(spread.entropy()),
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
        if let Some(uplinks) = ask.uplinks {
            // What the user tries out is no ground for a finding.
            report.ecmp = report::what_if(sample, uplinks);
        }
        Analysis { time_ns: now, report, entropy }
    }

    /// The newest spread of this time or before, else the oldest.
    fn before(&self, time_ns: u64) -> Option<&Spread> {
        let found = self.spreads.iter().rev().find(|(time, _)| *time <= time_ns);
        found.or_else(|| self.spreads.front()).map(|(_, spread)| spread)
    }
}
