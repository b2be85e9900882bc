//! One snapshot of the history: the part of a sample that is kept.

use rocescope_common::abi::Counter;
use rocescope_common::account::latency::BUCKETS;
use rocescope_common::wire::SkipReason;

use super::dedup::{AllLinks, DedupSnapshot, DedupSum};
use super::naks::Answered;
use super::{Counts, Identity};
use crate::analysis::{Lost, Overlap, Skipped, upstream};
use crate::metrics::latency::{Bucket, Histogram};
use crate::sample::{FlowSample, Sample};
use crate::util::map::Map;

/// Number of flows kept in an older snapshot: those with the most bytes since the previous one.
pub const BUSIEST: usize = 1_000;

/// One flow at a snapshot.
#[derive(Clone, Debug)]
pub struct FlowSnapshot {
    /// Identity of the flow.
    pub id: Identity,
    /// Counts of the flow, without duplicates.
    pub counts: Counts,
    /// Latencies of its requests; `None` if not measured or not kept.
    pub histogram: Option<Histogram>,
    /// Median and, with enough samples, 99th percentile of requests answered since the previous snapshot.
    pub latency: Option<(Bucket, Option<Bucket>)>,
    /// Requests without an answer of their own until then.
    pub unanswered: u32,
    /// True if its row would show a NAK; `counts` are of the NAKs that it carries.
    pub answered: bool,
}

/// One link at a snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkSnapshot {
    /// Its counts, including retired flows; counters not kept of these cover the present flows.
    pub total: Counts,
    /// Counts since the first snapshot, including retired flows. Decreases only if packets turn out not to be lost.
    pub grown: Counts,
    /// Number of flows on the link.
    pub flows: usize,
    /// Frames that are not RoCE.
    pub skipped: Counter,
}

/// Counts of all links and flows at the time of a sample.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Time, Unix nanoseconds.
    pub time_ns: u64,
    /// Time of the first frame or of the start, Unix nanoseconds.
    pub start_ns: Option<u64>,
    /// Counts over all links.
    pub total: LinkSnapshot,
    /// The same, with each packet counted once.
    pub dedup: DedupSnapshot,
    /// Links, in the order of [`Sample::links`].
    pub links: Vec<LinkSnapshot>,
    /// Flows, in the order of [`Sample::flows`].
    pub flows: Vec<FlowSnapshot>,
    /// True if `flows` contains all flows.
    pub complete: bool,
    /// Number of retired flows.
    pub retired_flows: u64,
    /// Frames that are not RoCE, by reason, most frequent first.
    pub skipped: Vec<(SkipReason, u64)>,
    /// Capture loss and full tables.
    pub lost: Lost,
    /// Latencies of the requests of all flows; `None` if not measured.
    pub times: Option<Histogram>,
    /// Paused time per port and priority, caused by the link partner, in nanoseconds, in the order of the devices;
    /// only of ports whose driver counts it.
    pub paused_ns: Vec<u64>,
    /// Indices of the busiest flows, as long as `flows` is complete.
    busiest: Vec<u32>,
    /// Memory of the histograms, in bytes.
    histogram_bytes: usize,
}

impl Snapshot {
    /// An empty snapshot for the time before the first sample.
    pub(super) fn zero(sample: &Sample, time_ns: u64) -> Self {
        Self {
            time_ns,
            start_ns: Some(time_ns),
            total: LinkSnapshot::default(),
            dedup: DedupSnapshot::default(),
            links: vec![LinkSnapshot::default(); sample.links.len()],
            flows: Vec::new(),
            complete: true,
            retired_flows: 0,
            skipped: Vec::new(),
            lost: Lost::default(),
            times: None,
            paused_ns: Vec::new(),
            busiest: Vec::new(),
            histogram_bytes: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.flows.capacity() * size_of::<FlowSnapshot>()
            + self.links.capacity() * size_of::<LinkSnapshot>()
            + self.busiest.capacity() * 4
            + self.paused_ns.capacity() * 8
            + self.times.as_ref().map_or(0, Histogram::bytes)
            + self.histogram_bytes
    }

    /// Removes the latencies of flows that are not busy if they take more than `most` bytes.
    pub(super) fn limit_histograms(&mut self, most: usize) {
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

    /// The same with only the busiest flows, and without their latencies if these take more than `most` bytes; `None`
    /// if nothing would change.
    pub(super) fn trimmed(&self, most: usize) -> Option<Self> {
        let untimed = self.histogram_bytes > most;
        let fewer = self.complete && self.flows.len() > BUSIEST;
        if !untimed && !fewer {
            return None;
        }
        let mut flows: Vec<FlowSnapshot> = if fewer {
            self.busiest.iter().filter_map(|at| self.flows.get(*at as usize).cloned()).collect()
        } else {
            self.flows.clone()
        };
        if untimed {
            for flow in &mut flows {
                flow.histogram = None;
            }
        }
        Some(Self {
            time_ns: self.time_ns,
            start_ns: self.start_ns,
            total: self.total,
            dedup: self.dedup,
            links: self.links.clone(),
            flows,
            complete: !fewer && self.complete,
            retired_flows: self.retired_flows,
            skipped: self.skipped.clone(),
            lost: self.lost,
            times: self.times.clone(),
            paused_ns: self.paused_ns.clone(),
            busiest: Vec::new(),
            histogram_bytes: if untimed { 0 } else { self.histogram_bytes },
        })
    }
}

/// Builds the snapshot of a sample that follows `previous`.
pub(super) fn snapshot(sample: &Sample, overlap: &Overlap, previous: Option<&Snapshot>) -> Snapshot {
    let mut links: Vec<LinkSnapshot> = sample.links.iter().map(link).collect();
    let mut flows = Vec::with_capacity(sample.flows.len());
    let mut earlier = previous.map(|p| EarlierFlows::new(&p.flows, p.complete));
    let mut weights: Vec<(u64, u32)> = Vec::with_capacity(sample.flows.len());
    let timed = sample.metrics.latency.as_ref();
    let (mut histogram_bytes, mut dedup) = (0, DedupSum::new(overlap));
    let (mut before, mut known) = (vec![Counts::default(); links.len()], 0);
    let duplicates = sample.metrics.duplicates.as_ref();
    let (between, answered) = (upstream::lost(sample), Answered::of(sample));
    for (at, flow) in (0u32..).zip(&sample.flows) {
        let whole = judged(sample, flow, &between);
        let of_flow = duplicates.and_then(|found| found.flows.get(&flow.slot));
        let counts = of_flow.map_or(whole, |duplicates| whole.without(duplicates));
        let id = Identity { key: flow.key, slot: flow.slot };
        let then = earlier.as_mut().map(|e| e.find(&id));
        let earlier = counted_before(&counts, then);
        known += usize::from(matches!(then, Some(EarlierFlow::At(..))));
        let figure = timed.and_then(|timed| timed.get(flow.slot));
        let histogram = timed.map(|_| figure.map(|figure| figure.histogram.clone()).unwrap_or_default());
        let unanswered = figure.map_or(0, |figure| u32::try_from(figure.unanswered()).unwrap_or(u32::MAX));
        histogram_bytes += histogram.as_ref().map_or(0, Histogram::bytes);
        let (histogram, latency) = latency_since(histogram, then);
        if let Some(link) = links.get_mut(usize::from(flow.key.link)) {
            link.total.add(&whole);
            link.flows += 1;
            link.grown.add(&counts);
        }
        if let Some(before) = before.get_mut(usize::from(flow.key.link)) {
            before.add(&earlier);
        }
        dedup.add(flows.len(), &counts, &earlier);
        weights.push((counts.bytes - earlier.bytes, at));
        let answered = answered.has(flow);
        flows.push(FlowSnapshot { id, counts, histogram, latency, unanswered, answered });
    }
    for (link, on) in links.iter_mut().zip(duplicates.into_iter().flat_map(|found| &found.links)) {
        link.total = link.total.without(&on.duplicates);
    }
    let total = total(&mut links, &before, previous);
    let dedup = deduplicated(dedup, &total, known, previous);
    let Skipped(mut skipped) = Skipped::of(sample);
    skipped.sort_by_key(|(_, packets)| std::cmp::Reverse(*packets));
    Snapshot {
        time_ns: sample.time_ns,
        start_ns: sample.window.map(|(first, _)| first),
        total,
        dedup,
        links,
        times: timed.map(|_| of_all(&flows)),
        flows,
        complete: true,
        retired_flows: sample.links.iter().map(|l| l.retired.flows).sum(),
        skipped,
        lost: Lost::of(sample),
        paused_ns: paused(sample),
        busiest: busiest(weights),
        histogram_bytes,
    }
}

/// Counts of all links with each packet counted once; `known` flows of the previous snapshot still exist.
fn deduplicated(
    sum: DedupSum<'_>,
    total: &LinkSnapshot,
    known: usize,
    previous: Option<&Snapshot>,
) -> DedupSnapshot {
    let links = AllLinks {
        total: &total.total,
        grown: (&total.grown, &previous.map(|previous| previous.total.grown).unwrap_or_default()),
        flows: total.flows,
        retired: previous.is_some_and(|previous| known < previous.flows.len()),
    };
    sum.snapshot(&links, previous.map(|previous| &previous.dedup))
}

/// Counts of a flow at the previous snapshot. If its growth is unknown, it counts as zero.
fn counted_before(counts: &Counts, then: Option<EarlierFlow<'_>>) -> Counts {
    match then {
        Some(EarlierFlow::At(_, then)) => counts.since(&then.counts).map_or(*counts, |_| then.counts),
        Some(EarlierFlow::New) => Counts::default(),
        Some(EarlierFlow::Unknown) | None => *counts,
    }
}

/// The latencies of all flows together.
fn of_all(flows: &[FlowSnapshot]) -> Histogram {
    let mut counts = [0; BUCKETS];
    flows.iter().filter_map(|flow| flow.histogram.as_ref()).for_each(|one| one.add_to(&mut counts));
    Histogram::of(&counts)
}

/// Time for which ports were paused by their link partners, by port and priority, in nanoseconds.
fn paused(sample: &Sample) -> Vec<u64> {
    let pauses = sample.devices.ports.iter().flat_map(|port| &port.pause);
    pauses.filter(|pause| !pause.sent).filter_map(|pause| pause.paused_ns).collect()
}

/// The counters of a flow, with the losses known from other taps.
fn judged(sample: &Sample, flow: &FlowSample, between: &Map<u32, u64>) -> Counts {
    let mut counts = Counts::of(&flow.stats, flow.slot, sample.metrics.loss.as_ref());
    if let Some(lost) = between.get(&flow.slot) {
        counts.lost = *lost;
    }
    if sample.recording.is_some() {
        // It has losses and no PSNs.
        let loss = sample.metrics.loss.as_ref();
        counts.sequenced = loss.is_some_and(|loss| loss.is_known(flow.slot) != (false, false));
    }
    counts
}

/// The histogram of a flow, which shares the memory of the earlier one if no request was answered since, and median
/// and tail of the requests answered since.
fn latency_since(
    histogram: Option<Histogram>,
    then: Option<EarlierFlow<'_>>,
) -> (Option<Histogram>, Option<(Bucket, Option<Bucket>)>) {
    let none = Histogram::default();
    let before = match then {
        Some(EarlierFlow::At(_, then)) => then.histogram.as_ref(),
        Some(EarlierFlow::New) => Some(&none),
        Some(EarlierFlow::Unknown) | None => None,
    };
    let latency = histogram.as_ref().zip(before).and_then(|(now, before)| now.since(before));
    let latency = latency.map(|times| (times.p50, times.tail()));
    if latency.is_none() && histogram.as_ref() == before {
        return (before.cloned(), latency);
    }
    (histogram, latency)
}

/// Converts counts of each link to their growth since `before`, adds the growth until then, and returns the sum over
/// all links.
fn total(links: &mut [LinkSnapshot], before: &[Counts], previous: Option<&Snapshot>) -> LinkSnapshot {
    let (mut total, none) = (LinkSnapshot::default(), LinkSnapshot::default());
    for (at, (link, before)) in links.iter_mut().zip(before).enumerate() {
        let earlier = previous.map(|previous| previous.links.get(at).unwrap_or(&none));
        if let Some(earlier) = earlier {
            link.grown.add(&earlier.grown);
        }
        link.grown = link.grown.less(before);
        if let Some(earlier) = earlier {
            grow(link, earlier);
        }
        total.total.add(&link.total);
        total.grown.add(&link.grown);
        total.flows += link.flows;
        total.skipped.packets += link.skipped.packets;
        total.skipped.bytes += link.skipped.bytes;
    }
    total
}

/// Indices of the busiest flows by bytes since the previous snapshot; empty if all flows are among them.
fn busiest(mut weights: Vec<(u64, u32)>) -> Vec<u32> {
    if weights.len() <= BUSIEST {
        return Vec::new();
    }
    weights.select_nth_unstable_by(BUSIEST, |a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    weights.truncate(BUSIEST);
    let mut busiest: Vec<u32> = weights.into_iter().map(|(_, at)| at).collect();
    busiest.sort_unstable();
    busiest
}

/// Packets, bytes, ECN and CNP come from totals, which include retired flows; the rest are sums over the present
/// flows.
fn grow(link: &mut LinkSnapshot, previous: &LinkSnapshot) {
    let kept = |c: &Counts| Counts {
        packets: c.packets,
        bytes: c.bytes,
        ecn_data: c.ecn_data,
        cnp: c.cnp,
        ..Counts::default()
    };
    if let Some(since) = kept(&link.total).since(&kept(&previous.total)) {
        let whole = since.plus(&previous.grown);
        (link.grown.packets, link.grown.bytes, link.grown.ecn_data, link.grown.cnp) =
            (whole.packets, whole.bytes, whole.ecn_data, whole.cnp);
    }
}

fn link(link: &crate::sample::LinkSample) -> LinkSnapshot {
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
    LinkSnapshot { total, grown: Counts::default(), flows: 0, skipped }
}

/// A flow in an earlier snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) enum EarlierFlow<'a> {
    /// Its index and values there.
    At(usize, &'a FlowSnapshot),
    /// It did not exist.
    New,
    /// Unknown, since not all flows were kept.
    Unknown,
}

/// Finds flows in an earlier snapshot.
pub(super) struct EarlierFlows<'a> {
    flows: &'a [FlowSnapshot],
    complete: bool,
    finder: Finder,
}

impl<'a> EarlierFlows<'a> {
    pub(super) fn new(flows: &'a [FlowSnapshot], complete: bool) -> Self {
        Self { flows, complete, finder: Finder::new(flows.len()) }
    }

    pub(super) fn find(&mut self, id: &Identity) -> EarlierFlow<'a> {
        let flows = self.flows;
        match self.finder.find(id, |at| flows.get(at).map(|flow| flow.id)) {
            Some(at) => flows.get(at).map_or(EarlierFlow::Unknown, |flow| EarlierFlow::At(at, flow)),
            None if self.complete => EarlierFlow::New,
            None => EarlierFlow::Unknown,
        }
    }
}

/// Finds flows in a list with nearly the same order. The index after the latest hit is nearly always right; otherwise
/// the flow is not far behind, if the list has more flows than are looked up. An index by slot is built only after
/// that search has gone through the list.
pub(crate) struct Finder {
    len: usize,
    next: usize,
    /// Remaining steps of the search before the index is built.
    left: usize,
    /// Slots and indices, sorted by slot: each flow has its own slot.
    places: Option<Vec<(u32, usize)>>,
}

impl Finder {
    /// A finder for a list of `len` flows.
    pub(crate) fn new(len: usize) -> Self {
        Self { len, next: 0, left: len, places: None }
    }

    /// The index of a flow; `id_at` returns the flow at an index.
    pub(crate) fn find(&mut self, id: &Identity, id_at: impl Fn(usize) -> Option<Identity>) -> Option<usize> {
        let is = |at: &usize| id_at(*at).is_some_and(|other| other.slot == id.slot && other.key == id.key);
        let at = if is(&self.next) {
            Some(self.next)
        } else if let Some(places) = &self.places {
            noted(places, id.slot).filter(is)
        } else {
            let end = self.len.min(self.next.saturating_add(self.left));
            let found = (self.next..end).find(is);
            self.left -= found.unwrap_or(end).saturating_sub(self.next).min(self.left);
            found.or_else(|| {
                let mut places: Vec<(u32, usize)> =
                    (0..self.len).filter_map(|at| Some((id_at(at)?.slot, at))).collect();
                // Nearly sorted already, which this sort exploits.
                places.sort_by_key(|(slot, _)| *slot);
                let place = noted(&places, id.slot).filter(is);
                self.places = Some(places);
                place
            })
        };
        if let Some(at) = at {
            self.next = at + 1;
        }
        at
    }
}

fn noted(places: &[(u32, usize)], slot: u32) -> Option<usize> {
    let at = places.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
    places.get(at).map(|(_, place)| *place)
}
