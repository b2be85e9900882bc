//! Traffic and signals over time for timelines, each packet counted once, from the start or as far back as snapshots
//! reach.
//!
//! A replay has time points computed from packets ([`metrics::timeline`](crate::metrics::timeline)); otherwise the
//! snapshots of the history are the points. Both are resampled to the number of columns of the screen.

use super::History;
use crate::analysis::Overlap;
use crate::metrics::timeline::{LinkPoints, POINTS, SignalKind};
use crate::model::Counts;
use crate::sample::{Direction, FlowSample, Sample};
use crate::util::map::Map;
use crate::util::time::NS_PER_S;

/// Maximum number of links with a series of their own.
const LINKS: usize = 16;

/// A quantity over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// Bits per second: the mean of a column.
    Throughput,
    /// Bits per second on one link, by its index.
    Link(usize),
    /// CE-marked over ECN-capable data packets: the maximum in a column.
    CeRatio,
    /// The same of one link, by its index.
    LinkCeRatio(usize),
    /// 99th percentile of the latencies of all requests, in nanoseconds: the maximum in a column.
    P99,
    /// Share of time for which the link partner paused the most paused priority: the maximum in a column.
    Paused,
    /// A signal, in packets per [`OverTime::bucket_ns`]: the maximum in a column.
    Signal(SignalKind),
}

/// Counts of a time span.
#[derive(Clone, Debug)]
struct CountedTime {
    from_ns: u64,
    to_ns: u64,
    bytes: f64,
    capable: f64,
    signals: [f64; SignalKind::ALL.len()],
    links: Vec<LinkCounts>,
}

/// Counts of a link: bytes, ECN-capable data packets, and those CE-marked.
#[derive(Clone, Copy, Debug, Default)]
struct LinkCounts {
    bytes: f64,
    capable: f64,
    ce: f64,
}

/// Gauges known only between two snapshots.
#[derive(Clone, Copy, Debug)]
struct Gauge {
    from_ns: u64,
    to_ns: u64,
    p99_ns: Option<f64>,
    paused: Option<f64>,
}

/// A time in which pause frames were captured, and the share of it that their priority was paused.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Paused {
    from_ns: u64,
    to_ns: u64,
    share: f64,
}

/// Traffic and signals over time.
#[derive(Clone, Debug, Default)]
pub struct OverTime {
    spans: Vec<CountedTime>,
    gauges: Vec<Gauge>,
    pauses: Vec<Paused>,
    /// Name and direction of the links with a series of their own.
    pub links: Vec<(String, Option<Direction>)>,
    /// Length of the shortest span, in nanoseconds.
    least_ns: u64,
    /// True if the packets show whether any were lost.
    shows_loss: bool,
    /// True if the packets show whether there were NAKs.
    shows_naks: bool,
    /// True if the spans come from packets rather than snapshots.
    pub from_packets: bool,
}

impl OverTime {
    /// Built from a replay's packets, or else from the snapshots of the history. `overlap`: packets that `sample`
    /// counts on several links.
    pub fn new(history: &History, sample: &Sample, overlap: &Overlap) -> Self {
        let links = sample.links.iter().take(LINKS).map(|link| (link.name.clone(), link.direction)).collect();
        let packets = sample.metrics.timeline.as_deref().filter(|links| !links.is_empty());
        let mut spans = match packets {
            Some(points) => of_packets(points, history, sample, overlap),
            None => of_snapshots(history),
        };
        let lengths = spans.iter().map(|span| span.to_ns - span.from_ns);
        // The first and the last point are cut by the beginning and end of the capture.
        let least_ns =
            if packets.is_some() { lengths.max() } else { lengths.min() }.unwrap_or(NS_PER_S).max(1);
        if let Some(window) = sample.window.filter(|_| packets.is_some()) {
            add_silence(&mut spans, least_ns, window);
        }
        let pairs = history.iter().zip(history.iter().skip(1));
        let gauges = pairs.filter_map(|(a, b)| Gauge::between(a, b)).collect();
        let pauses = pauses(sample);
        // Retired flows are part of what has grown alone.
        let counts = history.iter().next_back().map(|newest| newest.dedup.total.plus(&newest.dedup.grown));
        let counts = counts.unwrap_or_default();
        Self {
            spans,
            gauges,
            pauses,
            links,
            least_ns,
            shows_loss: counts.of_sequence(|c| c.lost).is_some(),
            shows_naks: counts.of_answers(Counts::naks).is_some(),
            from_packets: packets.is_some(),
        }
    }

    /// Beginning and end, Unix nanoseconds; `None` without data.
    pub fn range(&self) -> Option<(u64, u64)> {
        Some((self.spans.first()?.from_ns, self.spans.last()?.to_ns))
    }

    /// True if the series has a known value at any time.
    pub fn knows(&self, series: Series) -> bool {
        let gauged = || self.gauges.iter().any(|gauge| gauge.value(series).is_some());
        match series {
            Series::P99 => gauged(),
            // Live does not see whole frames, and captures have most of them cut.
            Series::Signal(SignalKind::WrongIcrc) => self.total(SignalKind::WrongIcrc, 0, u64::MAX) > 0.0,
            Series::Paused => gauged() || !self.pauses.is_empty(),
            _ => true,
        }
    }

    /// Packets of a signal between two times.
    pub fn total(&self, kind: SignalKind, from_ns: u64, to_ns: u64) -> f64 {
        let part = |span: &CountedTime| span.within(from_ns, to_ns).0 * span.signals[kind as usize];
        self.spans.iter().map(part).sum()
    }

    /// Length of the shortest span with known values, in nanoseconds.
    pub const fn least_ns(&self) -> u64 {
        self.least_ns
    }

    /// Time over which signals are counted in columns of `column_ns`: a second, or less if columns are shorter, but
    /// at least a span.
    pub fn bucket_ns(&self, column_ns: u64) -> u64 {
        if self.from_packets { column_ns.max(self.least_ns).min(NS_PER_S) } else { NS_PER_S }
    }

    /// Share of the time between two times of which there are data.
    pub fn covered(&self, from_ns: u64, to_ns: u64) -> f64 {
        let Some((first_ns, last_ns)) = self.range().filter(|_| to_ns > from_ns) else { return 0.0 };
        let ns = to_ns.min(last_ns).saturating_sub(from_ns.max(first_ns));
        ns as f64 / (to_ns - from_ns) as f64
    }

    /// Values of `columns` columns of `column_ns` each, from `from_ns` on; `None` for unknown values.
    pub fn columns(&self, series: Series, from_ns: u64, column_ns: u64, columns: usize) -> Vec<Option<f64>> {
        let mut all = Vec::with_capacity(columns);
        let mut start = from_ns;
        for _ in 0..columns {
            let end = start.saturating_add(column_ns);
            all.push(self.value(series, start, end));
            start = end;
        }
        all
    }

    /// The value between two times.
    pub fn value(&self, series: Series, from_ns: u64, to_ns: u64) -> Option<f64> {
        if matches!(series, Series::P99 | Series::Paused) {
            let first = self.gauges.partition_point(|gauge| gauge.to_ns <= from_ns);
            let gauges = self.gauges.get(first..)?.iter().take_while(|gauge| gauge.from_ns < to_ns);
            let largest = gauges.map(|gauge| gauge.value(series)).fold(None, larger);
            let captured = (series == Series::Paused).then(|| self.paused(from_ns, to_ns)).flatten();
            return larger(largest, captured);
        }
        let shown = match series {
            Series::Signal(SignalKind::Lost | SignalKind::Retransmitted) => self.shows_loss,
            Series::Signal(SignalKind::Nak | SignalKind::Rnr) => self.shows_naks,
            _ => true,
        };
        if !shown {
            return None;
        }
        let (from_ns, to_ns) = self.whole(from_ns, to_ns);
        let first = self.spans.partition_point(|span| span.to_ns <= from_ns);
        let rest = self.spans.get(first..)?;
        let spans = rest.iter().take_while(|span| span.from_ns < to_ns);
        let bucket_ns = self.bucket_ns(to_ns - from_ns);
        match series {
            Series::Throughput | Series::Link(_) => {
                let (mut bytes, mut ns) = (0.0, 0.0);
                for span in spans {
                    let (share, shared_ns) = span.within(from_ns, to_ns);
                    bytes += share * span.bytes_of(series)?;
                    ns += shared_ns;
                }
                // The first or the last point alone would be too short for its packets at the rate of the others.
                let ns = if self.from_packets && ns > 0.0 { ns.max(self.least_ns as f64) } else { ns };
                (ns > 0.0).then(|| bytes * 8.0 * NS_PER_S as f64 / ns)
            }
            Series::P99 | Series::Paused => None,
            // The growth between snapshots covers at least a bucket.
            Series::CeRatio | Series::LinkCeRatio(_) | Series::Signal(_) if !self.from_packets => {
                spans.map(|span| span.alone(series, bucket_ns)).fold(None, larger)
            }
            Series::CeRatio | Series::LinkCeRatio(_) | Series::Signal(_) => {
                let mut most = None;
                let mut bucket = Bucket::default();
                for span in spans {
                    let (share, ns) = span.within(from_ns, to_ns);
                    bucket.add(span, series, share, ns);
                    if bucket.ns >= bucket_ns as f64 {
                        most = larger(most, bucket.take(series, bucket_ns));
                    }
                }
                larger(most, bucket.take(series, bucket_ns))
            }
        }
    }
}

impl OverTime {
    /// Share of time for which pause frames paused a priority; `None` where none was captured at any time.
    fn paused(&self, from_ns: u64, to_ns: u64) -> Option<f64> {
        let (first, last) = self.range()?;
        if self.pauses.is_empty() || to_ns <= first || from_ns >= last {
            return None;
        }
        let within = self.pauses.iter().filter(|one| one.from_ns < to_ns && one.to_ns > from_ns);
        Some(within.map(|one| one.share).fold(0.0, f64::max))
    }

    /// The complete points whose middles lie in the time span, or the point that contains it: points are not split,
    /// so that each packet belongs to one column.
    fn whole(&self, from_ns: u64, to_ns: u64) -> (u64, u64) {
        if !self.from_packets {
            return (from_ns, to_ns);
        }
        let before =
            |time_ns: u64| self.spans.partition_point(|span| span.from_ns.midpoint(span.to_ns) < time_ns);
        let whole = self.spans.get(before(from_ns)..before(to_ns)).unwrap_or_default();
        if let (Some(first), Some(last)) = (whole.first(), whole.last()) {
            return (first.from_ns, last.to_ns);
        }
        let middle_ns = from_ns.midpoint(to_ns);
        let around = self.spans.iter().skip(before(from_ns).saturating_sub(1)).take(2);
        let around = around.filter(|span| (span.from_ns..span.to_ns).contains(&middle_ns));
        around.map(|span| (span.from_ns, span.to_ns)).next().unwrap_or((from_ns, to_ns))
    }
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(f64::max(a, b)),
        (a, b) => a.or(b),
    }
}

/// A part of a column long enough for a rate.
#[derive(Default)]
struct Bucket {
    ns: f64,
    capable: f64,
    ce: f64,
    signals: [f64; SignalKind::ALL.len()],
}

impl Bucket {
    fn add(&mut self, span: &CountedTime, series: Series, share: f64, ns: f64) {
        let (capable, ce) = span.ecn_of(series);
        self.ns += ns;
        self.capable += share * capable;
        self.ce += share * ce;
        for (sum, one) in self.signals.iter_mut().zip(span.signals) {
            *sum += share * one;
        }
    }

    fn take(&mut self, series: Series, bucket_ns: u64) -> Option<f64> {
        let Self { ns, capable, ce, signals } = std::mem::take(self);
        match series {
            Series::CeRatio | Series::LinkCeRatio(_) => (capable > 0.0).then(|| ce / capable),
            // A remainder shorter than a bucket at the end of a column is counted without scaling.
            Series::Signal(kind) => {
                let longer = (ns / bucket_ns as f64).max(1.0);
                (ns > 0.0).then(|| signals[kind as usize] / longer)
            }
            Series::Throughput | Series::Link(_) | Series::P99 | Series::Paused => None,
        }
    }
}

impl Gauge {
    /// Growth between two snapshots; `None` if no value is known.
    fn between(a: &super::Snapshot, b: &super::Snapshot) -> Option<Self> {
        let length_ns = b.time_ns.checked_sub(a.time_ns).filter(|ns| *ns > 0)?;
        let times = b.times.as_ref().zip(a.times.as_ref()).and_then(|(now, then)| now.since(then));
        let p99_ns = times.and_then(|times| times.tail()).map(|bucket| bucket.ns() as f64);
        // If ports were added or removed, the indices differ.
        let same = a.paused_ns.len() == b.paused_ns.len();
        let grown = a.paused_ns.iter().zip(&b.paused_ns).filter(|_| same).map(|(a, b)| b.saturating_sub(*a));
        let paused = grown.max().map(|ns| (ns as f64 / length_ns as f64).min(1.0));
        (p99_ns.is_some() || paused.is_some()).then_some(Self {
            from_ns: a.time_ns,
            to_ns: b.time_ns,
            p99_ns,
            paused,
        })
    }

    const fn value(&self, series: Series) -> Option<f64> {
        match series {
            Series::P99 => self.p99_ns,
            Series::Paused => self.paused,
            _ => None,
        }
    }
}

impl CountedTime {
    /// Overlap with a time span, as a share and in nanoseconds.
    fn within(&self, from_ns: u64, to_ns: u64) -> (f64, f64) {
        let ns = self.to_ns.min(to_ns).saturating_sub(self.from_ns.max(from_ns)) as f64;
        (ns / (self.to_ns - self.from_ns) as f64, ns)
    }

    /// The span's own value of a signal.
    fn alone(&self, series: Series, bucket_ns: u64) -> Option<f64> {
        let mut bucket = Bucket::default();
        bucket.add(self, series, 1.0, (self.to_ns - self.from_ns) as f64);
        bucket.take(series, bucket_ns)
    }

    fn bytes_of(&self, series: Series) -> Option<f64> {
        match series {
            Series::Link(at) => self.links.get(at).map(|link| link.bytes),
            _ => Some(self.bytes),
        }
    }

    /// ECN-capable data packets, and those CE-marked.
    fn ecn_of(&self, series: Series) -> (f64, f64) {
        match series {
            Series::LinkCeRatio(at) => self.links.get(at).map_or((0.0, 0.0), |link| (link.capable, link.ce)),
            _ => (self.capable, self.signals[SignalKind::Ce as usize]),
        }
    }
}

/// The pauses that captured frames asked for.
fn pauses(sample: &Sample) -> Vec<Paused> {
    let links = sample.metrics.control.iter().flat_map(|control| control.links.values());
    let intervals = links.flat_map(|link| &link.pauses).flat_map(|(.., pause)| &pause.intervals.0);
    let timed = intervals.filter_map(|one| {
        let length_ns = one.last_ns.saturating_sub(one.first_ns).max(1);
        let share = one.paused_ns.map(|ns| ns as f64 / length_ns as f64).or(one.share)?;
        Some(Paused {
            from_ns: one.first_ns,
            to_ns: one.last_ns.max(one.first_ns + 1),
            share: share.min(1.0),
        })
    });
    timed.collect()
}

/// The signals derived from counters, in the order of [`SignalKind`]; wrong ICRCs have none.
fn signals(counts: &Counts) -> [f64; SignalKind::ALL.len()] {
    [counts.lost, counts.retransmitted, counts.naks(), counts.rnr, counts.ecn_data[3], counts.cnp, 0]
        .map(|n| n as f64)
}

fn capable(counts: &Counts) -> f64 {
    counts.ecn_data[1..].iter().sum::<u64>() as f64
}

/// Growth between successive snapshots.
fn of_snapshots(history: &History) -> Vec<CountedTime> {
    let pairs = history.iter().zip(history.iter().skip(1));
    let span = |(a, b): (&super::Snapshot, &super::Snapshot)| {
        let counts = b.dedup.since(&a.dedup);
        let links = b.links.iter().take(LINKS).enumerate().map(|(at, link)| {
            let before = a.links.get(at).map(|link| link.grown).unwrap_or_default();
            let more = |of: fn(&Counts) -> f64| (of(&link.grown) - of(&before)).max(0.0);
            LinkCounts {
                bytes: more(|counts| counts.bytes as f64),
                capable: more(capable),
                ce: more(|counts| counts.ecn_data[3] as f64),
            }
        });
        (b.time_ns > a.time_ns).then(|| CountedTime {
            from_ns: a.time_ns,
            to_ns: b.time_ns,
            bytes: counts.bytes as f64,
            capable: capable(&counts),
            signals: signals(&counts),
            links: links.collect(),
        })
    };
    pairs.filter_map(span).collect()
}

/// The points of all links, scaled so that their sums equal those of the counters, since several taps see the same
/// packet.
fn of_packets(
    links: &[LinkPoints],
    history: &History,
    sample: &Sample,
    overlap: &Overlap,
) -> Vec<CountedTime> {
    let spoken = spoken_for(sample, overlap, links.len());
    let used = || links.iter().filter(|link| !link.points.is_empty());
    let length_ns = used().map(LinkPoints::length_ns).max().unwrap_or(1);
    let folded: Vec<LinkPoints> = links.iter().map(|link| link.folded(length_ns)).collect();
    let used = || folded.iter().filter(|link| !link.points.is_empty());
    let Some(first) = used().map(|link| link.first).min() else { return Vec::new() };
    let end = used().map(|link| link.first + link.points.len() as u64).max().unwrap_or(first);
    let (begin_ns, last_ns) = sample.window.unwrap_or((0, u64::MAX - 1));
    let mut spans: Vec<CountedTime> = (first..end)
        .map(|number| CountedTime {
            from_ns: number.saturating_mul(length_ns),
            to_ns: (number + 1).saturating_mul(length_ns),
            bytes: 0.0,
            capable: 0.0,
            signals: [0.0; SignalKind::ALL.len()],
            links: vec![LinkCounts::default(); folded.len().min(LINKS)],
        })
        .collect();
    for (at, link) in folded.iter().enumerate() {
        for (number, point) in (link.first..).zip(&link.points) {
            let place = usize::try_from(number - first).ok();
            let Some(span) = place.and_then(|place| spans.get_mut(place)) else { continue };
            let [bytes, capable, signals @ ..] = spoken.get(at).copied().unwrap_or([1.0; FIGURES]);
            span.bytes += point.bytes as f64 * bytes;
            span.capable += f64::from(point.capable) * capable;
            for ((sum, one), share) in span.signals.iter_mut().zip(point.signals).zip(signals) {
                *sum += f64::from(one) * share;
            }
            if let Some(link) = span.links.get_mut(at) {
                link.bytes += point.bytes as f64;
                link.capable += f64::from(point.capable);
                link.ce += f64::from(point.signals[SignalKind::Ce as usize]);
            }
        }
    }
    // The first point begins before the first packet, and the last one ends after the last packet.
    if let Some(span) = spans.first_mut().filter(|span| (span.from_ns..span.to_ns).contains(&begin_ns)) {
        span.from_ns = begin_ns;
    }
    if let Some(span) = spans.last_mut().filter(|span| (span.from_ns..span.to_ns).contains(&last_ns)) {
        span.to_ns = last_ns + 1;
    }
    if let Some(newest) = history.iter().next_back() {
        scale(&mut spans, &newest.dedup.grown);
    }
    spans.retain(|span| span.to_ns > span.from_ns);
    spans
}

/// Adds the time of a capture before its first and after its last RoCE packet.
fn add_silence(spans: &mut Vec<CountedTime>, least_ns: u64, window: (u64, u64)) {
    let links = spans.first().map_or(0, |span| span.links.len());
    let silent = |from_ns: u64, to_ns: u64| {
        // As few as the points that packets have, at most.
        let part_ns = to_ns.saturating_sub(from_ns).div_ceil(POINTS as u64).max(least_ns);
        let parts = to_ns.saturating_sub(from_ns).div_ceil(part_ns);
        (0..parts).map(move |at| CountedTime {
            from_ns: from_ns + at * part_ns,
            to_ns: (from_ns + (at + 1) * part_ns).min(to_ns),
            bytes: 0.0,
            capable: 0.0,
            signals: [0.0; SignalKind::ALL.len()],
            links: vec![LinkCounts::default(); links],
        })
    };
    let known = spans.first().zip(spans.last());
    if let Some((first_ns, last_ns)) = known.map(|(first, last)| (first.from_ns, last.to_ns)) {
        spans.splice(0..0, silent(window.0, first_ns));
        spans.extend(silent(last_ns, window.1.saturating_add(1)));
    }
}

/// Bytes, ECN-capable packets and signals of a point.
const FIGURES: usize = 2 + SignalKind::ALL.len();

/// For each of `links` links, the share of each figure that counts. A downstream tap that sees the same packets a
/// little later, or by another clock, must not raise a peak or show a signal at a second time: of flows that count the
/// same packets, one stands for all. That is the representative, or for a signal that another saw more of, as a loss
/// between two taps, that one.
fn spoken_for(sample: &Sample, overlap: &Overlap, links: usize) -> Vec<[f64; FIGURES]> {
    if overlap.taps < 2 {
        return vec![[1.0; FIGURES]; links];
    }
    let losses = sample.metrics.loss.as_ref();
    let figures = |flow: &FlowSample| {
        let counts = Counts::of(&flow.stats, flow.slot, losses);
        let [lost, retransmitted, naks, rnr, ce, cnp, _] = signals(&counts);
        let wrong = sample.metrics.icrc.as_ref().map_or(0, |icrc| icrc.wrong(flow.slot)) as f64;
        [counts.bytes as f64, capable(&counts), lost, retransmitted, naks, rnr, ce, cnp, wrong]
    };
    let all: Vec<[f64; FIGURES]> = sample.flows.iter().map(figures).collect();
    // The flow that stands for each figure of a group, and how much it saw.
    let mut standing: Map<usize, [(usize, f64); FIGURES]> = Map::default();
    for (at, own) in all.iter().enumerate() {
        let speaker = overlap.speaker(at);
        let of_speaker = all.get(speaker).unwrap_or(own);
        let known = standing.entry(speaker).or_insert_with(|| of_speaker.map(|figure| (speaker, figure)));
        let [_, capable, signals @ ..] = known;
        for (known, figure) in signals.iter_mut().zip(&own[2..]) {
            if *figure > known.1 {
                *known = (at, *figure);
            }
        }
        // A ratio is that of one tap.
        capable.0 = signals[SignalKind::Ce as usize].0;
    }
    let mut shares = vec![[(0.0, 0.0); FIGURES]; links];
    for (at, (flow, own)) in sample.flows.iter().zip(&all).enumerate() {
        let place = usize::from(flow.key.link).min(links.saturating_sub(1));
        let Some(share) = shares.get_mut(place) else { continue };
        let standing = standing.get(&overlap.speaker(at));
        for (kind, ((spoken, all), figure)) in share.iter_mut().zip(own).enumerate() {
            *all += figure;
            if standing.is_none_or(|flows| flows[kind].0 == at) {
                *spoken += figure;
            }
        }
    }
    let share = |(spoken, all): (f64, f64)| if all > 0.0 { spoken / all } else { 1.0 };
    shares.into_iter().map(|figures| figures.map(share)).collect()
}

fn scale(spans: &mut [CountedTime], counted: &Counts) {
    let by = |sum: f64, counted: f64| if sum > 0.0 { counted / sum } else { 1.0 };
    let bytes = by(spans.iter().map(|span| span.bytes).sum(), counted.bytes as f64);
    let enabled = by(spans.iter().map(|span| span.capable).sum(), capable(counted));
    let mut factors = signals(counted);
    for (kind, factor) in factors.iter_mut().enumerate() {
        *factor = by(spans.iter().map(|span| span.signals[kind]).sum(), *factor);
    }
    factors[SignalKind::WrongIcrc as usize] = 1.0;
    for span in spans {
        span.bytes *= bytes;
        span.capable *= enabled;
        for (signal, factor) in span.signals.iter_mut().zip(factors) {
            *signal *= factor;
        }
    }
}

#[cfg(test)]
#[path = "over_time_tests.rs"]
mod tests;
