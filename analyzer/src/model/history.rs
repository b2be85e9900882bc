//! The last minutes, moment by moment: totals, links and the busiest flows, in bounded memory.
//!
//! All counters of a moment are cumulative, so what any span counted is one moment taken from
//! another. The newest moment has every flow. Older ones keep every flow where a span may begin
//! there (see [`Span`]), else the [`BUSIEST`]; what was not kept is not known and shown as a dash.
//! Moments leave after [`KEPT_NS`]; when memory is short before that, every other of the older ones.

use std::collections::VecDeque;

use rocescope_common::abi::Counter;
use rocescope_common::wire::Reason;

use super::{Counts, Identity, Lost, lost, skipped};
use crate::figures::latency::{Bucket, Histogram};
use crate::report::Entropy;
use crate::sample::{Sample, SourceKind};

/// How far back moments are kept, in nanoseconds: ten minutes.
pub const KEPT_NS: u64 = 600 * SECOND;
/// Flows that an older moment keeps: those with most bytes since the moment before.
pub const BUSIEST: usize = 1_000;
/// Memory for moments, unless the user says otherwise.
pub const BUDGET: usize = 256 << 20;
const SECOND: u64 = 1_000_000_000;
/// Moments as close as this to the newest keep all flows at this spacing, in nanoseconds.
const COMPLETE: [(u64, u64); 2] = [(25 * SECOND / 2, 5 * SECOND / 2), (75 * SECOND, 15 * SECOND)];
/// A span may be shorter than asked by this part of it.
const TOLERANCE: u64 = 20;
/// The times of requests of one moment may take this share of the memory; those of the busiest flows are kept.
const HISTOGRAM_SHARE: usize = 32;
/// Where all flows of every moment that a span may begin at fit into this share of the memory, all
/// are kept.
const COMPLETE_SHARE: usize = 4;

/// The time that figures are of, up to the moment shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Span {
    /// Since the moment before.
    Latest,
    /// The last ten seconds: long enough for figures that stand still, short enough to be now.
    #[default]
    Seconds10,
    /// The last minute.
    Minute,
    /// Since the start, or since counters were reset.
    All,
}

impl Span {
    /// Every span, the shortest first.
    pub const ALL: [Self; 4] = [Self::Latest, Self::Seconds10, Self::Minute, Self::All];

    /// Its length in nanoseconds; `None` for what has no fixed one.
    #[must_use]
    pub const fn ns(self) -> Option<u64> {
        match self {
            Self::Latest | Self::All => None,
            Self::Seconds10 => Some(10 * SECOND),
            Self::Minute => Some(60 * SECOND),
        }
    }
}

/// One flow at a moment.
#[derive(Clone, Debug)]
pub struct FlowMoment {
    /// Which flow.
    pub id: Identity,
    /// All that it had counted.
    pub counts: Counts,
    /// How long its requests had taken; `None` where that is not collected, or not kept.
    pub histogram: Option<Histogram>,
    /// Median and 99th percentile of requests answered since the moment before.
    pub latency: Option<(Bucket, Bucket)>,
}

/// One link at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkMoment {
    /// All that it had counted, retired flows included; what is not kept of these is of the present.
    pub total: Counts,
    /// The sum of what it counted between moments: never goes back.
    pub grown: Counts,
    /// Flows on it.
    pub flows: usize,
    /// Frames that are not RoCE.
    pub skipped: Counter,
}

/// Everything kept of one moment.
#[derive(Clone, Debug)]
pub struct Moment {
    /// When, Unix time in nanoseconds.
    pub time_ns: u64,
    /// Unix time of the first frame, or of the start.
    pub start_ns: Option<u64>,
    /// All that was counted.
    pub total: LinkMoment,
    /// Links, in the order of [`Sample::links`].
    pub links: Vec<LinkMoment>,
    /// Flows, in the order of [`Sample::flows`].
    pub flows: Vec<FlowMoment>,
    /// Whether `flows` has all of them.
    pub complete: bool,
    /// Flows that were retired.
    pub retired_flows: u64,
    /// Frames that are not RoCE, by reason, the most first.
    pub skipped: Vec<(Reason, Counter)>,
    /// Own losses.
    pub lost: Lost,
    /// How bytes of the last seconds spread over 5-tuples, once that is known.
    pub entropy: Option<Entropy>,
    /// Places in `flows` of the busiest, while it has all.
    busiest: Vec<u32>,
    /// Memory that histograms take, in bytes.
    histogram_bytes: usize,
}

impl Moment {
    /// The time before anything was counted.
    fn zero(sample: &Sample, time_ns: u64) -> Self {
        Self {
            time_ns,
            start_ns: Some(time_ns),
            total: LinkMoment::default(),
            links: vec![LinkMoment::default(); sample.links.len()],
            flows: Vec::new(),
            complete: true,
            retired_flows: 0,
            skipped: Vec::new(),
            lost: Lost::default(),
            entropy: None,
            busiest: Vec::new(),
            histogram_bytes: 0,
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.flows.capacity() * size_of::<FlowMoment>()
            + self.links.capacity() * size_of::<LinkMoment>()
            + self.busiest.capacity() * 4
            + self.histogram_bytes
    }

    /// Forgets the times of flows that are not busy, where they take more than `most` bytes.
    fn limit_histograms(&mut self, most: usize) {
        if self.histogram_bytes <= most || self.flows.len() <= BUSIEST {
            return;
        }
        let mut busiest = self.busiest.iter().copied().peekable();
        self.histogram_bytes = 0;
        for (at, flow) in (0u32..).zip(&mut self.flows) {
            if busiest.next_if_eq(&at).is_none() {
                flow.histogram = None;
            }
            self.histogram_bytes += flow.histogram.as_ref().map_or(0, Histogram::bytes);
        }
    }

    /// Forgets all flows but the busiest, and their times where these take more than `most` bytes.
    fn trim(&mut self, most: usize) {
        if self.histogram_bytes > most {
            for flow in &mut self.flows {
                flow.histogram = None;
            }
            self.histogram_bytes = 0;
        }
        if !self.complete {
            return;
        }
        self.complete = self.flows.len() <= BUSIEST;
        if !self.complete {
            let busiest = std::mem::take(&mut self.busiest);
            self.flows = busiest.iter().filter_map(|at| self.flows.get(*at as usize).cloned()).collect();
        }
    }
}

/// Links as they are called now.
#[derive(Clone, Debug)]
pub struct Names {
    /// Kind of source.
    pub kind: SourceKind,
    /// Interfaces or files.
    pub inputs: Vec<String>,
    /// Name and direction of each link.
    pub links: Vec<(String, Option<crate::sample::Direction>)>,
}

/// The moments, the oldest first.
#[derive(Clone, Debug)]
pub struct History {
    moments: VecDeque<Moment>,
    /// What is subtracted from totals: where the user reset the counters.
    reset: Option<Moment>,
    names: Option<Names>,
    budget: usize,
}

impl Default for History {
    fn default() -> Self {
        Self::new(BUDGET)
    }
}

impl History {
    /// Nothing yet; moments will take `budget` bytes at most, but always two.
    #[must_use]
    pub fn new(budget: usize) -> Self {
        Self { moments: VecDeque::new(), reset: None, names: None, budget }
    }

    /// Takes a sample. One of the time of the newest moment is left out unless it is `last`; an earlier
    /// one starts anew.
    pub fn push(&mut self, sample: &Sample, last: bool) {
        let start = sample.window.map(|(first, _)| first);
        match self.moments.back() {
            Some(newest) if newest.time_ns > sample.time_ns => self.clear(),
            Some(newest) if newest.time_ns == sample.time_ns && !last => return,
            Some(newest) if newest.time_ns == sample.time_ns => {
                self.moments.pop_back();
            }
            _ => {}
        }
        if self.moments.is_empty()
            && let Some(start) = start.filter(|start| *start < sample.time_ns)
        {
            self.moments.push_back(Moment::zero(sample, start));
        }
        let mut moment = moment(sample, self.moments.back());
        moment.limit_histograms(self.budget / HISTOGRAM_SHARE);
        self.names = Some(Names {
            kind: sample.kind,
            inputs: sample.inputs.clone(),
            links: sample.links.iter().map(|l| (l.name.clone(), l.direction)).collect(),
        });
        self.moments.push_back(moment);
        self.thin();
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.moments.clear();
        self.reset = None;
    }

    /// Counts from the newest moment on; false when there is none.
    pub fn reset(&mut self) -> bool {
        self.reset = self.moments.back().cloned();
        self.reset.is_some()
    }

    /// Where counters were reset.
    #[must_use]
    pub fn reset_point(&self) -> Option<&Moment> {
        self.reset.as_ref()
    }

    /// Names of the links.
    #[must_use]
    pub fn names(&self) -> Option<&Names> {
        self.names.as_ref()
    }

    /// Number of moments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.moments.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.moments.is_empty()
    }

    /// Moment number `at`, the oldest first.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&Moment> {
        self.moments.get(at)
    }

    /// All moments, the oldest first.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Moment> + ExactSizeIterator {
        self.moments.iter()
    }

    /// The number of the newest moment at or before `time_ns`.
    #[must_use]
    pub fn at_time(&self, time_ns: u64) -> Option<usize> {
        self.moments.partition_point(|m| m.time_ns <= time_ns).checked_sub(1)
    }

    /// Notes how bytes spread at the moment of `time_ns`.
    pub fn set_entropy(&mut self, time_ns: u64, entropy: Entropy) {
        if let Some(at) = self.at_time(time_ns)
            && let Some(moment) = self.moments.get_mut(at).filter(|m| m.time_ns == time_ns)
        {
            moment.entropy = Some(entropy);
        }
    }

    /// Where a span that ends at moment number `at` begins. The beginning may be a little earlier than
    /// asked where that is needed to know all flows, and later where nothing older is known.
    #[must_use]
    pub fn base(&self, at: usize, span: Span) -> Option<&Moment> {
        let end = self.moments.get(at)?;
        let reset = self.reset.as_ref().filter(|reset| reset.time_ns < end.time_ns);
        let before = || self.moments.iter().take(at);
        let base = match (span, span.ns()) {
            (Span::All, _) => reset.or_else(|| before().next()),
            (_, None) => before().next_back(),
            (_, Some(ns)) => {
                // Samples come nearly, not exactly, every second.
                let wanted = end.time_ns.saturating_sub(ns - ns / TOLERANCE);
                let old = || before().rev().skip_while(move |m| m.time_ns > wanted);
                let whole = old().find(|m| m.complete).filter(|m| wanted - m.time_ns <= ns / 2);
                whole.or_else(|| old().next()).or_else(|| before().next())
            }
        }?;
        // What was before a reset is not to be seen again.
        Some(reset.filter(|reset| reset.time_ns > base.time_ns).unwrap_or(base))
    }

    /// Memory in use, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.moments.iter().map(Moment::bytes).sum()
    }

    fn thin(&mut self) {
        let Some(newest) = self.moments.back() else { return };
        let (now, flows) = (newest.time_ns, newest.flows.len());
        while self.moments.len() > 2
            && self.moments.front().is_some_and(|oldest| now - oldest.time_ns > KEPT_NS)
        {
            self.moments.pop_front();
        }
        let [(short, _), ..] = COMPLETE;
        let close = self.moments.iter().rev().take_while(|m| now - m.time_ns <= short).count();
        let all_fit = flows * size_of::<FlowMoment>() * (close + 6) <= self.budget / COMPLETE_SHARE;
        let times = self.budget / COMPLETE_SHARE / (KEPT_NS / SECOND) as usize;
        let mut later_bucket = None;
        for moment in self.moments.iter_mut().rev().skip(1) {
            let age = now - moment.time_ns;
            let kept = COMPLETE.iter().find(|(within, _)| age <= *within);
            let Some((within, spacing)) = kept else {
                moment.trim(times);
                continue;
            };
            // Buckets of absolute time, so that the same moments are kept from sample to sample.
            let bucket = (*spacing, moment.time_ns / spacing);
            if *within == short && all_fit {
                continue;
            }
            if later_bucket == Some(bucket) {
                moment.trim(times);
            } else if moment.complete {
                later_bucket = Some(bucket);
            }
        }
        while self.bytes() > self.budget && self.moments.len() > 2 {
            let (before, older) = (self.moments.len(), self.moments.len() * 7 / 8);
            let mut place = 0;
            // Where a span begins, everything is needed for as long as there is room.
            self.moments.retain(|moment| {
                place += 1;
                place > older || place % 2 == 1 || moment.complete && moment.flows.len() > BUSIEST
            });
            if self.moments.len() == before {
                self.moments.pop_front();
            }
        }
    }
}

/// What is kept of a sample that follows `previous`.
fn moment(sample: &Sample, previous: Option<&Moment>) -> Moment {
    let mut links: Vec<LinkMoment> = sample.links.iter().map(link).collect();
    let mut total = LinkMoment::default();
    let mut flows = Vec::with_capacity(sample.flows.len());
    let mut earlier = previous.map(|p| Earlier::new(&p.flows, p.complete));
    let mut weights: Vec<(u64, u32)> = Vec::with_capacity(sample.flows.len());
    let timed = sample.figures.latency.as_ref();
    let none = Histogram::default();
    let mut histogram_bytes = 0;
    for (at, flow) in (0u32..).zip(&sample.flows) {
        let counts = Counts::of(&flow.stats, flow.slot, sample.figures.loss.as_ref());
        let id = Identity { key: flow.key, slot: flow.slot };
        let then = earlier.as_mut().map(|e| e.find(&id));
        let since = match then {
            Some(Found::At(then)) => counts.since(&then.counts),
            Some(Found::New) => Some(counts),
            Some(Found::Unknown) | None => None,
        };
        let mut histogram = timed
            .map(|timed| timed.get(&flow.slot).map(|figure| figure.histogram.clone()).unwrap_or_default());
        histogram_bytes += histogram.as_ref().map_or(0, Histogram::bytes);
        let before = match then {
            Some(Found::At(then)) => then.histogram.as_ref(),
            Some(Found::New) => Some(&none),
            Some(Found::Unknown) | None => None,
        };
        let latency = histogram.as_ref().zip(before).and_then(|(now, before)| now.since(before));
        let latency = latency.map(|times| (times.p50, times.p99));
        if latency.is_none() && histogram.as_ref() == before {
            // The same times need memory once.
            histogram = before.cloned();
        }
        if let Some(link) = links.get_mut(usize::from(flow.key.link)) {
            link.total.add(&counts);
            link.flows += 1;
            if let Some(since) = &since {
                link.grown.add(since);
            }
        }
        weights.push((since.map_or(0, |s| s.bytes), at));
        flows.push(FlowMoment { id, counts, histogram, latency });
    }
    for (at, link) in links.iter_mut().enumerate() {
        let none = LinkMoment::default();
        if let Some(previous) = previous {
            grow(link, previous.links.get(at).unwrap_or(&none));
        }
        total.total.add(&link.total);
        total.grown.add(&link.grown);
        total.flows += link.flows;
        total.skipped.packets += link.skipped.packets;
        total.skipped.bytes += link.skipped.bytes;
    }
    let mut busiest = Vec::new();
    if weights.len() > BUSIEST {
        weights.select_nth_unstable_by(BUSIEST, |a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        weights.truncate(BUSIEST);
        busiest = weights.into_iter().map(|(_, at)| at).collect();
        busiest.sort_unstable();
    }
    Moment {
        time_ns: sample.time_ns,
        start_ns: sample.window.map(|(first, _)| first),
        total,
        links,
        flows,
        complete: true,
        retired_flows: sample.links.iter().map(|l| l.retired.flows).sum(),
        skipped: skipped(sample),
        lost: lost(sample),
        entropy: None,
        busiest,
        histogram_bytes,
    }
}

/// Adds what a link counted since `previous` to what had grown before. Packets, bytes, ECN and CNP come
/// from totals, which include retired flows; the rest are sums over the present flows.
fn grow(link: &mut LinkMoment, previous: &LinkMoment) {
    let kept = |c: &Counts| Counts {
        packets: c.packets,
        bytes: c.bytes,
        ecn_data: c.ecn_data,
        cnp: c.cnp,
        ..Counts::default()
    };
    if let Some(whole) = kept(&link.total).since(&kept(&previous.total)) {
        (link.grown.packets, link.grown.bytes, link.grown.ecn_data, link.grown.cnp) =
            (whole.packets, whole.bytes, whole.ecn_data, whole.cnp);
    }
    link.grown.add(&previous.grown);
}

fn link(link: &crate::sample::LinkSample) -> LinkMoment {
    let mut total = Counts::of_retired(&link.retired);
    for lost in [link.flow_table_full, link.contended] {
        total.packets += lost.packets;
        total.bytes += lost.bytes;
    }
    let mut skipped = Counter::default();
    for counter in &link.skipped {
        skipped.packets += counter.packets;
        skipped.bytes += counter.bytes;
    }
    LinkMoment { total, grown: Counts::default(), flows: 0, skipped }
}

/// What an earlier moment knows of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'a> {
    /// What it had.
    At(&'a FlowMoment),
    /// It was not there.
    New,
    /// Whether it was there is not kept.
    Unknown,
}

/// Finds flows in an earlier moment. Flows keep their order, so the place after the latest find is
/// nearly always right, and the map is only made when it is not.
pub(super) struct Earlier<'a> {
    flows: &'a [FlowMoment],
    complete: bool,
    next: usize,
    map: Option<hashbrown::HashMap<Identity, usize, foldhash::fast::RandomState>>,
}

impl<'a> Earlier<'a> {
    pub(super) fn new(flows: &'a [FlowMoment], complete: bool) -> Self {
        Self { flows, complete, next: 0, map: None }
    }

    pub(super) fn find(&mut self, id: &Identity) -> Found<'a> {
        let at = match self.flows.get(self.next) {
            Some(other) if other.id == *id => Some(self.next),
            _ => self.look_up(id),
        };
        match at {
            Some(at) => {
                self.next = at + 1;
                self.flows.get(at).map_or(Found::Unknown, Found::At)
            }
            None if self.complete => Found::New,
            None => Found::Unknown,
        }
    }

    fn look_up(&mut self, id: &Identity) -> Option<usize> {
        let flows = self.flows;
        let map = self.map.get_or_insert_with(|| flows.iter().enumerate().map(|(i, f)| (f.id, i)).collect());
        map.get(id).copied()
    }
}
