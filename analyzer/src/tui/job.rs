//! What a new sample takes most of its time for, apart from the state, so that a thread of its own can do it
//! while keys are answered. Pure: from a history, a sample and a span to figures.

use std::any::Any;
use std::sync::Arc;

use super::column::Context;
use super::gone;
use super::matrix::Matrix;
use super::texts::Texts;
use crate::model::health::LastSeen;
use crate::model::history::Next;
use crate::model::{History, Model, Problem, Row, Span, health};
use crate::report::{self, Imbalance};
use crate::sample::{EventSample, Sample};

/// Queue pairs on the overview, at most.
const TOP: usize = 100;

/// What is not needed any more. To free the memory of 65,536 flows takes as long as to fill it, so that is done
/// where nobody waits.
pub type Spent = Vec<Box<dyn Any + Send>>;

/// What is to be worked out.
#[derive(Debug)]
pub struct Job {
    pub(super) sample: Arc<Sample>,
    /// Whether it is the last of the run.
    pub(super) last: bool,
    /// A copy: it shares its moments.
    pub(super) history: History,
    /// The span that figures are of; `None` when no figures are wanted.
    pub(super) span: Option<Span>,
    /// What filters look for words in, as far as it is known.
    pub(super) texts: Texts,
    pub(super) options: report::Options,
}

/// What came of it.
#[derive(Debug)]
pub struct Ready {
    pub(super) sample: Arc<Sample>,
    pub(super) last: bool,
    pub(super) next: Option<Next>,
    pub(super) figures: Option<Figures>,
    pub(super) texts: Texts,
    /// Flows that fell silent since the sample before.
    pub(super) gone: Vec<EventSample>,
    /// For the state to pass on.
    pub(super) spent: Spent,
}

/// Everything that follows from a moment and a span alone.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) span: Span,
    /// When counters had been reset.
    pub(super) reset_ns: Option<u64>,
    pub(super) model: Model,
    pub(super) paths: Arc<report::Paths>,
    pub(super) imbalance: Vec<Imbalance>,
    pub(super) problems: Vec<Problem>,
    pub(super) last_seen: LastSeen,
    pub(super) busiest: Vec<usize>,
    pub(super) matrix: Option<Matrix>,
}

impl Job {
    /// Does the work.
    #[must_use]
    pub fn run(self) -> Ready {
        let Self { sample, last, mut history, span, texts, options } = self;
        let before = history.iter().next_back().map(|moment| moment.time_ns);
        let gone = before.map_or_else(Vec::new, |before_ns| gone::between(before_ns, &sample));
        let next = history.prepare(&sample, last);
        if let Some(next) = &next {
            history.append(next.clone(), &sample, last);
        }
        let newest = history.len().checked_sub(1);
        let figures = span.zip(newest).and_then(|(span, at)| {
            let paths = Arc::new(match &next {
                Some(next) => report::Paths::with(Arc::clone(&next.again), &sample, &options),
                None => report::Paths::of(&sample, &options),
            });
            let mut figures = Figures::new(Vec::new(), &history, at, span, &sample, &options, paths)?;
            let cx = Context { model: &figures.model, sample: &sample };
            figures.matrix = Some(Matrix::new(cx, &figures.paths.again));
            Some(figures)
        });
        let texts = figures.as_ref().map_or_else(|| texts.clone(), |figures| texts.updated(&figures.model));
        let spent: Spent = vec![Box::new(history)];
        Ready { sample, last, next, figures, texts, gone, spent }
    }
}

impl Figures {
    /// The figures of moment number `at`; `None` when there is no such moment. `paths` are those of `sample`; `room`
    /// is memory for rows.
    pub(super) fn new(
        room: Vec<Row>,
        history: &History,
        at: usize,
        span: Span,
        sample: &Sample,
        options: &report::Options,
        paths: Arc<report::Paths>,
    ) -> Option<Self> {
        let model = Model::with_room(room, history, at, span, Some(sample))?;
        let loads: Vec<report::Load<'_>> = model
            .links
            .iter()
            .map(|link| report::Load {
                name: &link.name,
                direction: link.direction,
                bytes: link.delta.map_or(link.total.bytes, |delta| delta.counts.bytes),
            })
            .collect();
        let imbalance = report::imbalances(&loads, options, &paths.same_path);
        let problems = health::problems(&model, sample);
        let last_seen = health::last_seen(history, at);
        let busiest = busiest(&model);
        let reset_ns = history.reset_point().map(|reset| reset.time_ns);
        Some(Self { span, reset_ns, model, paths, imbalance, problems, last_seen, busiest, matrix: None })
    }
}

/// Rows with the highest rate, those that count nothing left out.
fn busiest(model: &Model) -> Vec<usize> {
    let rate = |row: &Row| row.delta.map_or(0, |delta| delta.counts.bytes);
    let mut rows: Vec<(u64, usize)> =
        model.rows.iter().enumerate().map(|(i, row)| (rate(row), i)).filter(|(rate, _)| *rate > 0).collect();
    let by_rate = |a: &(u64, usize), b: &(u64, usize)| b.0.cmp(&a.0).then(a.1.cmp(&b.1));
    if rows.len() > TOP {
        rows.select_nth_unstable_by(TOP, by_rate);
        rows.truncate(TOP);
    }
    rows.sort_unstable_by(by_rate);
    rows.into_iter().map(|(_, i)| i).collect()
}
