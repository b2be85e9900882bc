//! The last minutes, snapshot by snapshot: totals, links and the busiest flows, in bounded memory.
//!
//! All counters of a snapshot are cumulative, so that the counts of any time range are the difference of two
//! snapshots. The newest snapshot contains all flows. Older ones contain all flows if a time range may begin there
//! (see [`TimeRange`]), else the [`BUSIEST`]; counts that were not kept are unknown and shown as a dash. Snapshots
//! are removed after [`KEPT_NS`]; if memory is short before that, every other one of the older ones.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::conclusions::Conclusions;
use super::snapshot::{self, FlowSnapshot};
pub use super::snapshot::{BUSIEST, Snapshot};
use crate::analysis::{Entropy, Overlap};
use crate::findings::Finding;
use crate::metrics::loss::signal_intervals::EPISODE_GAP_NS;
use crate::sample::{Sample, SourceKind};
use crate::util::deferred::discard;
use crate::util::time::NS_PER_S;

/// Age up to which snapshots are kept, in nanoseconds: ten minutes.
pub const KEPT_NS: u64 = 600 * NS_PER_S;
/// Default memory limit of snapshots, in bytes.
pub const BUDGET: usize = 256 << 20;
/// A problem that began within this time is new.
const ONSET_NS: u64 = 4 * NS_PER_S;
/// Age up to which snapshots keep all flows, and the spacing of these snapshots, in nanoseconds.
const COMPLETE: [(u64, u64); 2] = [(25 * NS_PER_S / 2, 5 * NS_PER_S / 2), (75 * NS_PER_S, 15 * NS_PER_S)];
/// A time range may be shorter than requested by one part in this number.
const TOLERANCE: u64 = 20;
/// The latencies of one snapshot may take one part in this number of the memory; those of the busiest flows are kept.
const HISTOGRAM_SHARE: usize = 32;
/// All flows are kept if the snapshots at which a time range may begin fit into one part in this number of the
/// memory.
const COMPLETE_SHARE: usize = 4;

/// The time range of rates and counters, up to the snapshot shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeRange {
    /// Since the previous snapshot.
    Latest,
    /// The last ten seconds: long enough for steady values, short enough for current ones.
    #[default]
    Seconds10,
    /// The last minute.
    Minute,
    /// Since the start, or since counters were reset.
    All,
}

impl TimeRange {
    /// All time ranges, shortest first.
    pub const ALL: [Self; 4] = [Self::Latest, Self::Seconds10, Self::Minute, Self::All];

    /// Length in nanoseconds; `None` without a fixed length.
    pub const fn ns(self) -> Option<u64> {
        match self {
            Self::Latest | Self::All => None,
            Self::Seconds10 => Some(10 * NS_PER_S),
            Self::Minute => Some(60 * NS_PER_S),
        }
    }
}

/// Names of the links and inputs.
#[derive(Clone, Debug)]
pub struct Names {
    /// Kind of the source.
    pub kind: SourceKind,
    /// Names of interfaces or files.
    pub inputs: Vec<String>,
    /// Name and direction of each link.
    pub links: Vec<(String, Option<crate::sample::Direction>)>,
}

/// A snapshot, with results that were computed later.
#[derive(Clone, Debug)]
struct KeptSnapshot {
    snapshot: Arc<Snapshot>,
    /// Entropy over 5-tuples in the last seconds, once computed.
    entropy: Option<Entropy>,
    /// The findings at that time, if evaluated.
    conclusions: Option<Arc<Conclusions>>,
}

impl KeptSnapshot {
    const fn new(snapshot: Arc<Snapshot>) -> Self {
        Self { snapshot, entropy: None, conclusions: None }
    }

    fn bytes(&self) -> usize {
        self.snapshot.bytes() + self.conclusions.as_ref().map_or(0, |conclusions| conclusions.bytes())
    }
}

/// The snapshots, oldest first. A clone shares them.
#[derive(Clone, Debug)]
pub struct History {
    snapshots: VecDeque<KeptSnapshot>,
    /// Snapshot subtracted from totals: the one at which the user reset the counters.
    reset: Option<Arc<Snapshot>>,
    /// The first snapshot, once it is too old to be among the others: totals count from it.
    first: Option<Arc<Snapshot>>,
    /// Time of the oldest conclusions that have each of the latest findings.
    known: BTreeMap<String, u64>,
    /// Time of the latest findings.
    concluded_ns: u64,
    names: Option<Arc<Names>>,
    budget: usize,
}

/// The snapshot of a sample that is not in the history yet; see [`History::prepare`].
#[derive(Clone, Debug)]
pub struct PreparedSnapshot {
    snapshot: Arc<Snapshot>,
    /// The snapshot before the first one kept.
    previous: Option<Arc<Snapshot>>,
    names: Arc<Names>,
    /// Packets that the sample counts on more than one link.
    pub(crate) overlap: Arc<Overlap>,
}

impl Default for History {
    fn default() -> Self {
        Self::new(BUDGET)
    }
}

impl History {
    /// An empty history whose snapshots take at most `budget` bytes, but of which two are always kept.
    pub fn new(budget: usize) -> Self {
        Self {
            snapshots: VecDeque::new(),
            reset: None,
            first: None,
            known: BTreeMap::new(),
            concluded_ns: 0,
            names: None,
            budget,
        }
    }

    /// Adds a sample. A sample with the time of the newest snapshot is left out unless it is `last`; an earlier one
    /// starts a new history.
    pub fn push(&mut self, sample: &Sample, last: bool) {
        if let Some(next) = self.prepare(sample, last) {
            self.append(next, sample, last);
        }
    }

    /// Prepares the snapshot that [`push`](Self::push) would add; `None` if it would leave the sample out. This is
    /// nearly all of the work, and can run in another thread on a clone of the history.
    pub fn prepare(&self, sample: &Sample, last: bool) -> Option<PreparedSnapshot> {
        let newest = self.snapshots.back().map(|kept| &kept.snapshot);
        let previous = match newest {
            Some(newest) if newest.time_ns == sample.time_ns && !last => return None,
            Some(newest) if newest.time_ns == sample.time_ns => {
                self.snapshots.iter().rev().nth(1).map(|kept| &kept.snapshot)
            }
            Some(newest) => Some(newest).filter(|newest| newest.time_ns < sample.time_ns),
            None => None,
        };
        let zero = start(sample).filter(|_| previous.is_none()).map(|start| Snapshot::zero(sample, start));
        let from = previous.map(|previous| &**previous).or(zero.as_ref());
        let overlap = Arc::new(Overlap::of(sample));
        let mut snapshot = snapshot::snapshot(sample, &overlap, from);
        snapshot.limit_histograms(self.budget / HISTOGRAM_SHARE);
        let names = Names {
            kind: sample.kind,
            inputs: sample.inputs.clone(),
            links: sample.links.iter().map(|l| (l.name.clone(), l.direction)).collect(),
        };
        let previous = previous.map(Arc::clone);
        Some(PreparedSnapshot { snapshot: Arc::new(snapshot), previous, names: Arc::new(names), overlap })
    }

    /// Adds the prepared snapshot of `sample`. If the history has changed since, the snapshot is prepared again.
    pub fn append(&mut self, next: PreparedSnapshot, sample: &Sample, last: bool) {
        match self.snapshots.back().map(|kept| kept.snapshot.time_ns) {
            Some(newest) if newest > sample.time_ns => self.clear(),
            Some(newest) if newest == sample.time_ns && !last => return,
            Some(newest) if newest == sample.time_ns => {
                discard(self.snapshots.pop_back());
            }
            _ => {}
        }
        let newest = self.snapshots.back().map(|kept| &kept.snapshot);
        let fits = match (newest, &next.previous) {
            (Some(newest), Some(previous)) => Arc::ptr_eq(newest, previous),
            (None, None) => true,
            _ => false,
        };
        let next = if fits { Some(next) } else { self.prepare(sample, last) };
        let Some(next) = next else { return };
        if self.snapshots.is_empty()
            && let Some(start) = start(sample)
        {
            let snapshot = Arc::new(Snapshot::zero(sample, start));
            self.snapshots.push_back(KeptSnapshot::new(snapshot));
        }
        self.names = Some(next.names);
        self.snapshots.push_back(KeptSnapshot::new(next.snapshot));
        self.thin();
    }

    /// Removes all snapshots.
    pub fn clear(&mut self) {
        discard((std::mem::take(&mut self.snapshots), self.reset.take(), self.first.take()));
        (self.known, self.concluded_ns) = (BTreeMap::new(), 0);
    }

    /// Makes counters start at the newest snapshot; false if there is none.
    pub fn reset(&mut self) -> bool {
        self.reset = self.snapshots.back().map(|kept| Arc::clone(&kept.snapshot));
        self.reset.is_some()
    }

    /// The snapshot at which the counters were reset.
    pub fn reset_point(&self) -> Option<&Snapshot> {
        self.reset.as_deref()
    }

    /// Names of the links.
    pub fn names(&self) -> Option<&Names> {
        self.names.as_deref()
    }

    /// Number of snapshots kept.
    pub fn len(&self) -> usize {
        self.snapshots.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.snapshots.is_empty()
    }

    /// Snapshot number `at`, oldest first.
    pub fn get(&self, at: usize) -> Option<&Snapshot> {
        self.shared(at).map(Arc::as_ref)
    }

    /// The same as a shared pointer.
    pub(super) fn shared(&self, at: usize) -> Option<&Arc<Snapshot>> {
        self.snapshots.get(at).map(|kept| &kept.snapshot)
    }

    /// All snapshots, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Snapshot> + ExactSizeIterator {
        self.snapshots.iter().map(|kept| &*kept.snapshot)
    }

    /// The number of the newest snapshot at or before `time_ns`.
    pub fn at_time(&self, time_ns: u64) -> Option<usize> {
        self.snapshots.partition_point(|kept| kept.snapshot.time_ns <= time_ns).checked_sub(1)
    }

    /// The number of the snapshot nearest to `time_ns`, as samples are not exactly a second apart.
    pub fn nearest(&self, time_ns: u64) -> Option<usize> {
        let off = |at: usize| self.get(at).map(|snapshot| snapshot.time_ns.abs_diff(time_ns));
        let Some(before) = self.at_time(time_ns) else { return off(0).map(|_| 0) };
        let after = before + 1;
        Some(if off(after).is_some_and(|after| Some(after) < off(before)) { after } else { before })
    }

    /// Stores the entropy of the bytes at the snapshot of `time_ns`.
    pub fn set_entropy(&mut self, time_ns: u64, entropy: Entropy) {
        if let Some(kept) = self.kept_of(time_ns) {
            kept.entropy = Some(entropy);
        }
    }

    /// Stores the findings at a snapshot, if it is still kept.
    pub fn set_conclusions(&mut self, conclusions: Arc<Conclusions>) {
        let time_ns = conclusions.time_ns;
        let keys: Vec<String> = conclusions.findings.iter().map(Finding::key).collect();
        if time_ns >= self.concluded_ns {
            self.concluded_ns = time_ns;
            self.known.retain(|key, _| keys.contains(key));
        }
        for key in keys {
            let known = self.known.entry(key).or_insert(time_ns);
            *known = time_ns.min(*known);
        }
        if let Some(kept) = self.kept_of(conclusions.time_ns) {
            kept.conclusions = Some(conclusions);
        }
    }

    /// The snapshot with exactly this time, if kept.
    fn kept_of(&mut self, time_ns: u64) -> Option<&mut KeptSnapshot> {
        let at = self.at_time(time_ns)?;
        self.snapshots.get_mut(at).filter(|kept| kept.snapshot.time_ns == time_ns)
    }

    /// The latest findings at snapshot number `at`.
    pub fn conclusions(&self, at: usize) -> Option<&Conclusions> {
        self.snapshots.iter().take(at + 1).rev().find_map(|kept| kept.conclusions.as_deref())
    }

    /// Time of the oldest findings since which this one has been among them; `None` if there are none after them.
    pub fn concluded_by(&self, finding: &Finding) -> Option<u64> {
        let by_ns = *self.known.get(&finding.key())?;
        (by_ns < self.concluded_ns).then_some(by_ns)
    }

    /// The entropy at snapshot number `at`, or at one of the `near` snapshots before it.
    pub fn entropy(&self, at: usize, near: usize) -> Option<Entropy> {
        self.snapshots.iter().take(at + 1).rev().take(near).find_map(|kept| kept.entropy)
    }

    /// The snapshot at the start of a time range that ends at snapshot number `at`. The start may be slightly earlier
    /// than requested, to one that contains all flows, and later if nothing older is kept.
    pub fn base(&self, at: usize, range: TimeRange) -> Option<&Arc<Snapshot>> {
        let end = self.get(at)?;
        let reset = self.reset.as_ref().filter(|reset| reset.time_ns < end.time_ns);
        let before = || self.snapshots.iter().map(|kept| &kept.snapshot).take(at);
        let base = match (range, range.ns()) {
            (TimeRange::All, _) => reset.or(self.first.as_ref()).or_else(|| before().next()),
            (_, None) => before().next_back(),
            (_, Some(ns)) => {
                // Samples arrive about every second, not exactly.
                let wanted = end.time_ns.saturating_sub(ns - ns / TOLERANCE);
                let old = || before().rev().skip_while(move |m| m.time_ns > wanted);
                let whole = old().find(|m| m.complete).filter(|m| wanted - m.time_ns <= ns / 2);
                whole.or_else(|| old().next()).or_else(|| before().next())
            }
        }?;
        // A time range does not extend back beyond a reset.
        Some(reset.filter(|reset| reset.time_ns > base.time_ns).unwrap_or(base))
    }

    /// True if a possible problem began in the last four seconds: a counter of loss, retransmissions, NAKs, CE marks,
    /// CNPs or capture loss grows that had not grown in the ten seconds before.
    pub fn has_onset(&self) -> bool {
        let Some(newest) = self.iter().next_back() else { return false };
        let ago = |ns: u64| self.at_time(newest.time_ns.saturating_sub(ns)).and_then(|at| self.get(at));
        let (Some(recent), Some(before)) =
            (ago(ONSET_NS).or_else(|| self.get(0)), ago(ONSET_NS + EPISODE_GAP_NS).or_else(|| self.get(0)))
        else {
            return false;
        };
        let grew = |now: &Snapshot, then: &Snapshot| {
            let counts = now.dedup.since(&then.dedup);
            let [.., marked] = counts.ecn_data;
            let own = now.lost != then.lost;
            [counts.lost, counts.retransmitted, counts.naks(), counts.rnr, marked, counts.cnp, own.into()]
        };
        let pairs = grew(newest, recent).into_iter().zip(grew(recent, before));
        pairs.into_iter().any(|(now, before)| now > 0 && before == 0)
    }

    /// Memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        self.snapshots.iter().map(KeptSnapshot::bytes).sum()
    }

    fn thin(&mut self) {
        let Some(newest) = self.snapshots.back().map(|kept| &kept.snapshot) else { return };
        let (now, flows) = (newest.time_ns, newest.flows.len());
        let old = |kept: &KeptSnapshot| now - kept.snapshot.time_ns > KEPT_NS;
        while self.snapshots.len() > 2 && self.snapshots.front().is_some_and(old) {
            let front = self.snapshots.pop_front();
            if self.first.is_none() {
                self.first = front.as_ref().map(|kept| Arc::clone(&kept.snapshot));
            }
            discard(front);
        }
        let [(short, _), ..] = COMPLETE;
        let close = self.iter().rev().take_while(|m| now - m.time_ns <= short).count();
        let all_fit = flows * size_of::<FlowSnapshot>() * (close + 6) <= self.budget / COMPLETE_SHARE;
        let times = self.budget / COMPLETE_SHARE / (KEPT_NS / NS_PER_S) as usize;
        let mut later_bucket = None;
        let trim = |snapshot: &mut Arc<Snapshot>| {
            if let Some(trimmed) = snapshot.trimmed(times) {
                discard(std::mem::replace(snapshot, Arc::new(trimmed)));
            }
        };
        for KeptSnapshot { snapshot, .. } in self.snapshots.iter_mut().rev().skip(1) {
            let age = now - snapshot.time_ns;
            let kept = COMPLETE.iter().find(|(within, _)| age <= *within);
            let Some((within, spacing)) = kept else {
                trim(snapshot);
                continue;
            };
            // Intervals of absolute time, so that the choice of snapshots is stable from sample to sample.
            let bucket = (*spacing, snapshot.time_ns / spacing);
            if *within == short && all_fit {
                continue;
            }
            if later_bucket == Some(bucket) {
                trim(snapshot);
            } else if snapshot.complete {
                later_bucket = Some(bucket);
            }
        }
        while self.bytes() > self.budget && self.snapshots.len() > 2 {
            let (before, older) = (self.snapshots.len(), self.snapshots.len() * 7 / 8);
            let mut place = 0;
            // The start of a time range needs all flows, as long as there is room.
            self.snapshots.retain(|KeptSnapshot { snapshot, .. }| {
                place += 1;
                let stays =
                    place > older || place % 2 == 1 || snapshot.complete && snapshot.flows.len() > BUSIEST;
                if !stays {
                    discard(Arc::clone(snapshot));
                }
                stays
            });
            if self.snapshots.len() == before {
                discard(self.snapshots.pop_front());
            }
        }
    }
}

/// Start of a sample's window, if it is before the sample's time.
fn start(sample: &Sample) -> Option<u64> {
    sample.window.map(|(first, _)| first).filter(|start| *start < sample.time_ns)
}
