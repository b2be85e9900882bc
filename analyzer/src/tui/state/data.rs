//! The values shown: everything that follows from a snapshot, a time range and a sample alone. Pure.

use std::sync::{Arc, Mutex, Weak};

use super::analysis::Analysis;
use super::matrix::Matrix;
use super::peers::{self, Peer, PeerGrouping, Rails};
use crate::analysis;
use crate::analysis::{FlowId, Imbalance, Paths};
use crate::model::{FlowVerdicts, History, Identity, LinkRow, Model, OverTime, Row, TimeRange};
use crate::report;
use crate::sample::{Sample, address};
use crate::tui::column::Context;
use crate::util::lock::Locked;

/// Flows up to which values are made while a key waits.
const AT_ONCE: usize = 8_192;

/// Flows with the places of their rows, those looked up last first.
type Places = Vec<(Identity, Option<usize>)>;
/// Flows that findings list, with the places of their rows.
type ListedPlaces = Vec<(FlowId, Option<usize>)>;
/// Listed flows whose places are remembered.
const LISTED: usize = 256;
/// Rows whose places are remembered: both directions of a few queue pairs.
const KNOWN: usize = 8;

/// The values of a snapshot.
#[derive(Clone, Debug)]
pub struct Data {
    /// The time range asked for.
    pub(in crate::tui) range: TimeRange,
    /// Time of the reset of counters.
    pub(in crate::tui) reset_ns: Option<u64>,
    /// The newest sample; in a paused view that of the pause.
    pub sample: Arc<Sample>,
    /// The model of the snapshot shown.
    pub model: Model,
    /// The links of the sample that see the same packets.
    pub paths: Arc<Paths>,
    /// Balance of the load across links in the time range.
    pub imbalance: Vec<Imbalance>,
    /// Property that the flows of a row of `peers` share.
    pub by: PeerGrouping,
    /// Flows that share something, the worst first.
    pub peers: Vec<Peer>,
    /// Traffic and signals over time.
    pub over_time: Arc<OverTime>,
    /// Sums by host pair; empty until the matrix is shown.
    pub matrix: Matrix,
    /// Places of the rows that were looked up last.
    places: Arc<Mutex<Places>>,
    /// The same of flows that findings list.
    listed: Arc<Mutex<ListedPlaces>>,
    /// The analysis whose verdicts rows, peers and matrix have; none where they are those of an earlier time.
    judged_by: Weak<Analysis>,
}

/// Snapshot, time range and sample of values that are wanted.
#[derive(Debug)]
pub struct ValuesRequest {
    /// A copy: it shares its snapshots.
    pub(in crate::tui) history: History,
    /// The number of the snapshot in it.
    pub(in crate::tui) at: usize,
    pub(in crate::tui) range: TimeRange,
    pub(in crate::tui) sample: Arc<Sample>,
    /// Those of the sample, where they are known.
    pub(in crate::tui) paths: Option<Arc<Paths>>,
    /// True if the matrix is shown.
    pub(in crate::tui) matrix: bool,
    pub(in crate::tui) by: PeerGrouping,
    pub(in crate::tui) options: report::Options,
    /// The latest one, which will judge them unless another comes first.
    pub(in crate::tui) analysis: Option<Arc<Analysis>>,
}

impl ValuesRequest {
    /// True if a key may wait for the values.
    pub(in crate::tui) fn at_once(&self) -> bool {
        self.history.get(self.at).is_none_or(|snapshot| snapshot.flows.len() <= AT_ONCE)
    }

    /// True if `data` are these values.
    pub(in crate::tui) fn are(&self, data: &Data) -> bool {
        data.range == self.range
            && data.by == self.by
            && data.reset_ns == self.history.reset_point().map(|reset| reset.time_ns)
            && self.history.get(self.at).is_some_and(|snapshot| snapshot.time_ns == data.model.time_ns)
            && Arc::ptr_eq(&data.sample, &self.sample)
            && (!self.matrix || data.has_matrix())
    }

    /// The values; `None` when there is no such snapshot.
    pub fn make(self) -> Option<Data> {
        let Self { history, at, range, sample, paths, matrix, by, options, analysis } = self;
        let paths = paths.unwrap_or_else(|| Arc::new(Paths::of(&sample, &options.analysis)));
        let mut data = Data::new(&history, at, (range, by), sample, &options, paths)?;
        if matrix {
            data.fill_matrix();
        }
        if let Some(analysis) = &analysis {
            data.judge_by(analysis, &options.analysis.rails);
        }
        Some(data)
    }
}

impl Data {
    /// The values of snapshot number `at` without the matrix; `None` when there is no such snapshot. `paths` are those
    /// of `sample`.
    pub(in crate::tui) fn new(
        history: &History,
        at: usize,
        (range, by): (TimeRange, PeerGrouping),
        sample: Arc<Sample>,
        options: &report::Options,
        paths: Arc<Paths>,
    ) -> Option<Self> {
        let model = Model::new(history, at, range, Some(&sample))?;
        let imbalance = analysis::imbalances(&loads(&model), &options.analysis, &paths.same_path);
        let reset_ns = history.reset_point().map(|reset| reset.time_ns);
        let cx = Context { model: &model, sample: &sample };
        let peers = peers::of(cx, (by, &options.analysis.rails), &paths.overlap);
        let over_time = Arc::new(OverTime::new(history, &sample, &paths.overlap));
        let matrix = Matrix::default();
        let (places, listed, judged_by) = (Arc::default(), Arc::default(), Weak::new());
        Some(Self {
            range,
            reset_ns,
            sample,
            model,
            paths,
            imbalance,
            by,
            peers,
            over_time,
            matrix,
            places,
            listed,
            judged_by,
        })
    }

    /// Looks up the findings that belong to rows, peers and host pairs; `None`: nothing was concluded.
    pub(in crate::tui) fn judge(&mut self, verdicts: Option<&FlowVerdicts>, rails: &Rails) {
        self.judged_by = Weak::new();
        self.model.judge(verdicts);
        self.matrix.judge(verdicts);
        let cx = Context { model: &self.model, sample: &self.sample };
        peers::judge(&mut self.peers, cx, (self.by, rails), verdicts.is_some());
    }

    /// The same with the verdicts of an analysis.
    pub(in crate::tui) fn judge_by(&mut self, analysis: &Arc<Analysis>, rails: &Rails) {
        self.judge(Some(&analysis.verdicts), rails);
        self.judged_by = Arc::downgrade(analysis);
    }

    /// True if they have the verdicts of this analysis.
    pub(in crate::tui) fn is_judged_by(&self, analysis: &Arc<Analysis>) -> bool {
        // While it is known here, no other can have its place in memory.
        std::ptr::eq(self.judged_by.as_ptr(), Arc::as_ptr(analysis))
    }

    /// The row of a flow. To look through those of very many flows takes a millisecond: it is done once for the few
    /// that a picture is about.
    pub(in crate::tui) fn row(&self, id: &Identity) -> Option<&Row> {
        self.model.rows.get(self.place(id)?)
    }

    /// The place of the row of a flow.
    pub(in crate::tui) fn place(&self, id: &Identity) -> Option<usize> {
        let mut known = self.places.locked();
        if let Some((_, place)) = known.iter().find(|(known, _)| known == id) {
            return *place;
        }
        let place = self.model.rows.iter().position(|row| row.id == *id);
        known.truncate(KNOWN - 1);
        known.insert(0, (*id, place));
        place
    }

    /// The rows of flows that a finding lists, in their order. As for [`Self::row`], they are looked for once.
    pub(in crate::tui) fn rows_of(&self, flows: &[FlowId]) -> Vec<Option<&Row>> {
        let mut known = self.listed.locked();
        let place = |known: &ListedPlaces, flow: &FlowId| {
            known.iter().find(|(one, _)| one == flow).map(|(_, place)| *place)
        };
        if known.len() > LISTED {
            known.clear();
        }
        let new: Vec<&FlowId> = flows.iter().filter(|flow| place(&known, flow).is_none()).collect();
        if !new.is_empty() {
            let places = self.places_of(&new);
            known.extend(new.into_iter().cloned().zip(places));
        }
        flows.iter().map(|flow| self.model.rows.get(place(&known, flow).flatten()?)).collect()
    }

    /// The places of the rows of flows.
    fn places_of(&self, flows: &[&FlowId]) -> Vec<Option<usize>> {
        let mut found = vec![None; flows.len()];
        let mut left = flows.len();
        for (place, row) in self.model.rows.iter().enumerate() {
            let is = |flow: &&FlowId| is_of(row, flow, &self.model);
            if let Some(found) = flows.iter().position(is).and_then(|at| found.get_mut(at)) {
                left -= usize::from(found.is_none());
                *found = Some(place);
            }
            if left == 0 {
                break;
            }
        }
        found
    }

    /// The loads of links in the time range.
    pub(in crate::tui) fn loads(&self) -> Vec<analysis::Load<'_>> {
        loads(&self.model)
    }

    /// The context of cells of the table.
    pub fn context(&self) -> Context<'_> {
        Context { model: &self.model, sample: &self.sample }
    }

    /// True if the matrix is made, or would be empty.
    pub(in crate::tui) fn has_matrix(&self) -> bool {
        self.matrix.size() != (0, 0) || self.model.rows.is_empty()
    }

    /// True if a key may wait for the matrix.
    pub(in crate::tui) fn at_once(&self) -> bool {
        self.model.rows.len() <= AT_ONCE
    }

    /// Makes the matrix, where that is not done yet.
    pub(in crate::tui) fn fill_matrix(&mut self) {
        if !self.has_matrix() {
            self.matrix = Matrix::new(self.context(), &self.paths.overlap);
            self.judged_by = Weak::new();
        }
    }
}

/// True for the row of a flow.
pub(in crate::tui) fn is_of(row: &Row, flow: &FlowId, model: &Model) -> bool {
    let key = &row.id.key;
    key.dest_qp == flow.dest_qp
        && address(key.family, key.src) == flow.src
        && address(key.family, key.dst) == flow.dst
        && model
            .links
            .get(usize::from(key.link))
            .is_some_and(|link| link.name == flow.link && link.direction == flow.direction)
}

/// The loads of links in the time range, or, while that is not known, since the start.
fn loads(model: &Model) -> Vec<analysis::Load<'_>> {
    let load = |link: &'_ LinkRow| link.delta.map_or(link.total.bytes, |delta| delta.counts.bytes);
    let links = model.links.iter();
    links
        .map(|link| analysis::Load { name: &link.name, direction: link.direction, bytes: load(link) })
        .collect()
}
