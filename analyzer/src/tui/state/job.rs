//! What a new sample takes most of its time for, apart from the state, so that a thread of its own can do it
//! while keys are answered. Pure: from a history, a sample and a time range to figures.

use std::sync::Arc;

use super::data::Data;
use super::idle;
use super::texts::Texts;
use crate::analysis;
use crate::model::history::Next;
use crate::model::{History, TimeRange};
use crate::report;
use crate::sample::{EventSample, Sample};
use crate::util::deferred::discard;

/// What is to be worked out.
#[derive(Debug)]
pub struct Job {
    pub(in crate::tui) sample: Arc<Sample>,
    /// True if it is the last of the run.
    pub(in crate::tui) last: bool,
    /// A copy: it shares its snapshots.
    pub(in crate::tui) history: History,
    /// The time range that figures are of; `None` when no figures are wanted.
    pub(in crate::tui) range: Option<TimeRange>,
    /// What filters look for words in, as far as it is known.
    pub(in crate::tui) texts: Texts,
    /// True if somebody looks at the matrix.
    pub(in crate::tui) matrix: bool,
    pub(in crate::tui) options: report::Options,
}

/// Its result.
#[derive(Debug)]
pub struct Ready {
    pub(in crate::tui) sample: Arc<Sample>,
    pub(in crate::tui) last: bool,
    pub(in crate::tui) next: Option<Next>,
    pub(in crate::tui) metrics: Option<Data>,
    pub(in crate::tui) texts: Texts,
    /// Flows that fell silent since the sample before.
    pub(in crate::tui) idle: Vec<EventSample>,
}

impl Job {
    /// Does the work.
    #[must_use]
    pub fn run(self) -> Ready {
        let Self { sample, last, mut history, range, texts, matrix, options } = self;
        let before = history.iter().next_back().map(|snapshot| snapshot.time_ns);
        let idle = before.map_or_else(Vec::new, |before_ns| idle::between(before_ns, &sample));
        let next = history.prepare(&sample, last);
        if let Some(next) = &next {
            history.append(next.clone(), &sample, last);
        }
        let newest = history.len().checked_sub(1);
        let metrics = range.zip(newest).and_then(|(range, at)| {
            let paths = Arc::new(match &next {
                Some(next) => analysis::Paths::with(Arc::clone(&next.again), &sample, &options.analysis),
                None => analysis::Paths::of(&sample, &options.analysis),
            });
            let mut metrics = Data::new(&history, at, range, Arc::clone(&sample), &options, paths)?;
            if matrix {
                metrics.fill_matrix();
            }
            Some(metrics)
        });
        let texts = metrics.as_ref().map_or_else(|| texts.clone(), |metrics| texts.updated(&metrics.model));
        discard(history);
        Ready { sample, last, next, metrics, texts, idle }
    }
}
