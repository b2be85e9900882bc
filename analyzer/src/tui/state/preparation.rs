//! The slow part of taking a sample, apart from the state, so that it is done in the background while keys are
//! answered. Pure: from a history, a sample and a time range to values.

use std::sync::Arc;

use super::analysis::Analysis;
use super::data::Data;
use super::idle;
use super::peers::PeerGrouping;
use super::texts::Texts;
use crate::analysis;
use crate::model::history::PreparedSnapshot;
use crate::model::{History, TimeRange};
use crate::report;
use crate::sample::{EventSample, Sample};
use crate::util::deferred::discard;

/// A sample to be prepared for the state.
#[derive(Debug)]
pub struct Preparation {
    /// Samples before it for the history alone, the oldest first.
    pub(in crate::tui) earlier: Vec<Arc<Sample>>,
    pub(in crate::tui) sample: Arc<Sample>,
    /// True if it is the last of the run.
    pub(in crate::tui) last: bool,
    /// A copy: it shares its snapshots.
    pub(in crate::tui) history: History,
    /// The time range of the values; `None` when none are wanted.
    pub(in crate::tui) range: Option<TimeRange>,
    /// The texts that filters search, as far as they are known.
    pub(in crate::tui) texts: Texts,
    /// True if the matrix is shown.
    pub(in crate::tui) matrix: bool,
    pub(in crate::tui) by: PeerGrouping,
    pub(in crate::tui) options: report::Options,
    /// The latest one, which will judge the values unless another comes first.
    pub(in crate::tui) analysis: Option<Arc<Analysis>>,
}

/// Results of preparing a sample.
#[derive(Debug)]
pub struct Prepared {
    /// The samples before it and itself, the oldest first, with their snapshots.
    pub(in crate::tui) steps: Vec<Step>,
    pub(in crate::tui) sample: Arc<Sample>,
    pub(in crate::tui) last: bool,
    pub(in crate::tui) values: Option<Data>,
    pub(in crate::tui) texts: Texts,
}

/// A sample on its way into the history.
#[derive(Debug)]
pub(in crate::tui) struct Step {
    pub(in crate::tui) sample: Arc<Sample>,
    /// `None` where the history leaves it out.
    pub(in crate::tui) next: Option<PreparedSnapshot>,
    /// Flows that fell silent since the sample before.
    pub(in crate::tui) idle: Vec<EventSample>,
}

impl Step {
    /// Adds a sample to a history.
    fn new(history: &mut History, sample: &Arc<Sample>, last: bool) -> Self {
        let before = history.iter().next_back().map(|snapshot| snapshot.time_ns);
        let idle = before.map_or_else(Vec::new, |before_ns| idle::between(before_ns, sample));
        let next = history.prepare(sample, last);
        if let Some(next) = &next {
            history.append(next.clone(), sample, last);
        }
        Self { sample: Arc::clone(sample), next, idle }
    }
}

impl Preparation {
    /// Prepares the sample for the screens.
    pub fn run(self) -> Prepared {
        let Self { earlier, sample, last, mut history, range, texts, matrix, by, options, analysis } = self;
        let mut steps: Vec<Step> =
            earlier.iter().map(|sample| Step::new(&mut history, sample, false)).collect();
        let newest_step = Step::new(&mut history, &sample, last);
        let newest = history.len().checked_sub(1);
        let values = range.zip(newest).and_then(|(range, at)| {
            let paths = Arc::new(match &newest_step.next {
                Some(next) => analysis::Paths::with(Arc::clone(&next.overlap), &sample, &options.analysis),
                None => analysis::Paths::of(&sample, &options.analysis),
            });
            let mut values = Data::new(&history, at, (range, by), Arc::clone(&sample), &options, paths)?;
            if matrix {
                values.fill_matrix();
            }
            if let Some(analysis) = &analysis {
                values.judge_by(analysis, &options.analysis.rails);
            }
            Some(values)
        });
        let texts = values.as_ref().map_or_else(|| texts.clone(), |values| texts.updated(&values.model));
        steps.push(newest_step);
        discard(history);
        Prepared { steps, sample, last, values, texts }
    }
}
