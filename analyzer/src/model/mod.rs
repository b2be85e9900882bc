//! Rows, rates and totals that views show, as a pure function of the history of samples.
//!
//! | module | contents |
//! |---|---|
//! | [`conclusions`] | findings as evaluated at a snapshot |
//! | [`counts`] | the counters, and their change over time |
//! | [`health`] | findings by flow |
//! | [`history`] | the last minutes, snapshot by snapshot |
//! | [`naks`] | NAKs on the rows of the data that they answer |
//! | [`snapshot`] | the part of a sample that is kept |
//! | [`over_time`] | traffic and signals over time, in columns |
//! | [`dedup`] | each packet counted once, regardless of the number of taps |
//! | [`detail`] | all figures of one flow, computed on demand |

pub mod conclusions;
pub mod counts;
pub mod dedup;
pub mod detail;
pub mod events;
pub mod health;
pub mod history;
mod level;
pub mod naks;
pub mod over_time;
pub mod signals;
pub mod snapshot;

use std::sync::Arc;

use rocescope_common::abi::Counter;
use rocescope_common::account::FlowKey;
use rocescope_common::account::latency::BUCKETS;
use rocescope_common::wire::SkipReason;

use crate::analysis::Lost;
use crate::metrics::latency::{Histogram, P99_SAMPLES, Times};
use crate::sample::{Direction, FlowSample, Sample, SourceKind};
pub use conclusions::Conclusions;
pub use counts::{Counts, Delta};
pub use dedup::Dedup;
pub use detail::Detail;
pub use health::{FlowVerdict, FlowVerdicts, State};
use history::Names;
pub use history::{History, Snapshot, TimeRange};
pub use level::Level;
pub use over_time::OverTime;
use snapshot::{EarlierFlow, EarlierFlows, Finder, FlowSnapshot, LinkSnapshot};

/// Identity of the flow of a row: the key, and the slot, which changes if the flow was retired and returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Key of the flow.
    pub key: FlowKey,
    /// Slot in the flow table.
    pub slot: u32,
}

/// One flow as a row, with its counts and rates.
#[derive(Clone, Debug)]
pub struct Row {
    /// Identity of the flow.
    pub id: Identity,
    /// Index in the newest [`Sample::flows`]; `None` if it is not there.
    pub at: Option<usize>,
    /// Counts since the start, or since counters were reset.
    pub total: Counts,
    /// Growth in the time range; `None` if unknown, or if a counter decreased.
    pub delta: Option<Delta>,
    /// Indices of its latencies in the snapshots at both ends of the time range; `None` for a sum of rows.
    timed: Option<(u32, BasePlace)>,
    /// The findings that name it; unknown until [`Model::judge`].
    pub judged: FlowVerdict,
}

/// Position of a row's flow in the snapshot before the time range.
#[derive(Clone, Copy, Debug)]
enum BasePlace {
    At(u32),
    /// The flow did not exist yet.
    New,
    /// The history does not have it any more.
    Unknown,
}

impl Row {
    /// A row for a sum of rows, starting from these counts; properties that cannot be summed are unknown.
    #[must_use]
    pub const fn sum(&self, total: Counts, delta: Option<Delta>) -> Self {
        Self { id: self.id, at: self.at, total, delta, timed: None, judged: self.judged }
    }
}

/// One link as a row, with its counts and rates.
#[derive(Clone, Debug)]
pub struct LinkRow {
    /// Name as reports show it.
    pub name: String,
    /// Direction; `None` in replay.
    pub direction: Option<Direction>,
    /// Number of flows on it now.
    pub flows: usize,
    /// RoCE packets on it.
    pub total: Counts,
    /// The same in the time range.
    pub delta: Option<Delta>,
    /// Frames that are not RoCE.
    pub skipped: Counter,
}

/// The time range of rates and counters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Basis {
    /// There is only one snapshot, or no time passed between two.
    Unknown,
    /// The given number of most recent seconds.
    Last(f64),
    /// All since the start or since counters were reset, in seconds.
    Whole(f64),
}

/// Maximum text lengths in characters; 0 if there is no such text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Longest {
    /// IPv4 addresses.
    pub ipv4: u16,
    /// Destination queue pairs.
    pub qp: u16,
}

impl Longest {
    fn of(rows: &[Row]) -> Self {
        let ipv4 = |words| match crate::sample::address(4, words) {
            // Three dots, and at least one digit per byte.
            crate::sample::Address::Ip(std::net::IpAddr::V4(ip)) => {
                ip.octets().iter().map(|byte| 1 + u16::from(*byte > 9) + u16::from(*byte > 99)).sum::<u16>()
                    + 3
            }
            _ => 0,
        };
        let mut longest = Self::default();
        let mut highest = None;
        for FlowKey { family, src, dst, dest_qp, .. } in rows.iter().map(|row| row.id.key) {
            if family == 4 {
                longest.ipv4 = longest.ipv4.max(ipv4(src)).max(ipv4(dst));
            }
            highest = highest.max(Some(dest_qp));
        }
        let digits = |n: u32| u16::try_from(n.checked_ilog10().unwrap_or(0) + 1).unwrap_or(u16::MAX);
        Self { qp: highest.map_or(0, digits), ..longest }
    }
}

/// Everything that views show except history and details of single flows.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is something of its own")]
pub struct Model {
    /// Time of the snapshot, Unix nanoseconds.
    pub time_ns: u64,
    /// Kind of the source.
    pub kind: SourceKind,
    /// Names of interfaces or files.
    pub inputs: Vec<String>,
    /// Length of the window so far in nanoseconds; `None` before the first frame of a replay.
    pub window_ns: Option<u64>,
    /// Time range of the figures.
    pub basis: Basis,
    /// A row for each flow known at this snapshot. NAKs and RNR NAKs count on the flow that they answer.
    pub rows: Vec<Row>,
    /// Number of flows at this snapshot, known or not.
    pub flows: usize,
    /// Links, in the order of [`Sample::links`].
    pub links: Vec<LinkRow>,
    /// All RoCE packets, including those of retired flows. NAK and PSN counters are not kept of retired flows and
    /// cover only the present ones.
    pub total: Counts,
    /// The same in the time range.
    pub delta: Option<Delta>,
    /// Both, with each packet counted once.
    pub dedup: Dedup,
    /// Number of retired flows.
    pub retired_flows: u64,
    /// Frames that are not RoCE, by reason, most frequent first; only reasons that occurred.
    pub skipped: Vec<(SkipReason, u64)>,
    /// Capture loss and full tables.
    pub lost: Lost,
    /// True if they grew in the time range.
    pub losing: bool,
    /// True if an address is IPv6.
    pub has_ipv6: bool,
    /// Maximum lengths of the texts that identify flows.
    pub longest: Longest,
    /// True if latency is measured.
    pub has_latency: bool,
    /// True if a flow has enough samples for a 99th percentile.
    pub has_p99: bool,
    /// Latencies of all requests that were answered in the time range; `None` where there are none, or unknown ones.
    pub latency: Option<Times>,
    /// The snapshot, and the one at the start of the time range.
    ends: Ends,
}

impl Model {
    /// The model at snapshot number `at` of the history, with the time range before it. `newest` provides the indices
    /// of rows in the newest sample. `None` if there is no such snapshot.
    pub fn new(history: &History, at: usize, range: TimeRange, newest: Option<&Sample>) -> Option<Self> {
        let end = history.shared(at)?;
        let names = history.names()?;
        let base = history.base(at, range);
        let seconds = base
            .and_then(|base| end.time_ns.checked_sub(base.time_ns))
            .filter(|ns| *ns > 0)
            .map(crate::util::time::seconds);
        let base = base.filter(|_| seconds.is_some());
        let since = |now: &Counts, then: Option<&Counts>| since(now, then, seconds);
        let reset = history.reset_point().filter(|reset| reset.time_ns < end.time_ns);
        let mut rows = Rows {
            earlier: base.map(|base| EarlierFlows::new(&base.flows, base.complete)),
            reset: reset.map(|reset| EarlierFlows::new(&reset.flows, reset.complete)),
            places: Places::new(newest),
            seconds,
        };
        let mut rows: Vec<Row> = (0..).zip(&end.flows).map(|(number, flow)| rows.row(number, flow)).collect();
        if let Some(pairs) = newest.and_then(|sample| sample.metrics.pairs.as_ref()) {
            naks::to_data(&mut rows, pairs);
        }
        let links = links(end, names, reset, base.map(Arc::as_ref), seconds);
        let whole = range == TimeRange::All;
        let basis = match seconds {
            None => Basis::Unknown,
            Some(seconds) if whole => Basis::Whole(seconds),
            Some(seconds) => Basis::Last(seconds),
        };
        let ends = (Arc::clone(end), base.cloned());
        let histograms = || end.flows.iter().filter_map(|flow| flow.histogram.as_ref());
        Some(Self {
            time_ns: end.time_ns,
            kind: names.kind,
            inputs: names.inputs.clone(),
            window_ns: end.start_ns.map(|start| end.time_ns.saturating_sub(start)),
            basis,
            has_latency: histograms().any(|h| !h.is_empty()),
            has_p99: histograms().any(|h| h.count() >= P99_SAMPLES),
            longest: Longest::of(&rows),
            has_ipv6: rows.iter().any(|row| row.id.key.family == 6),
            latency: latency(&ends, &rows),
            rows,
            flows: end.total.flows,
            links,
            total: after_reset(&end.total.total, reset.map(|r| &r.total.total)),
            delta: since(&end.total.grown, base.map(|base| &base.total.grown)),
            dedup: Dedup {
                taps: end.dedup.taps,
                flows: end.dedup.flows,
                delta: base
                    .zip(seconds)
                    .map(|(base, seconds)| Delta { counts: end.dedup.since(&base.dedup), seconds }),
                total: after_reset(&end.dedup.total, reset.map(|r| &r.dedup.total)),
            },
            retired_flows: end.retired_flows,
            skipped: end.skipped.clone(),
            lost: end.lost,
            ends,
            losing: end.lost.any() && base.is_some_and(|base| base.lost != end.lost),
        })
    }

    /// Latencies of the requests of `row` answered in the time range; `None` if there were none, or if unknown.
    /// Computed on demand, since for all flows it would take longer than everything else.
    pub fn latency(&self, row: &Row) -> Option<Times> {
        let (now, then) = self.timed(row)?;
        let times = then.map_or_else(|| now.since(&Histogram::default()), |then| now.since(then))?;
        Some(Times { unanswered: self.unanswered(row), ..times })
    }

    /// Requests of `row` in the time range without an answer of their own; 0 if unknown.
    pub fn unanswered(&self, row: &Row) -> u64 {
        unanswered(&self.ends, row)
    }

    /// Latencies of the requests of these rows together; rows without any, or with unknown ones, add nothing.
    pub fn latency_of<'a>(&self, rows: impl IntoIterator<Item = &'a Row>) -> Option<Times> {
        let mut rows = rows.into_iter().filter(|row| self.timed(row).is_some()).peekable();
        let first = rows.next()?;
        if rows.peek().is_none() {
            return self.latency(first);
        }
        let (mut ends, mut unanswered) = ([[0; BUCKETS]; 2], 0);
        for row in [first].into_iter().chain(rows) {
            self.add_latency(row, &mut ends);
            unanswered += self.unanswered(row);
        }
        let [now, then] = &ends;
        let times = Histogram::of(now).since(&Histogram::of(then))?;
        Some(Times { unanswered, ..times })
    }

    /// Latency samples of a row at the end of the time range, and at its start if the flow existed.
    fn timed(&self, row: &Row) -> Option<(&Histogram, Option<&Histogram>)> {
        fn histogram(snapshot: &Snapshot, at: u32) -> Option<&Histogram> {
            snapshot.flows.get(usize::try_from(at).ok()?)?.histogram.as_ref()
        }
        let (end, base) = &self.ends;
        let (number, then) = row.timed?;
        let now = histogram(end, number)?;
        match then {
            BasePlace::At(at) => Some((now, Some(histogram(base.as_deref()?, at)?))),
            BasePlace::New => Some((now, None)),
            BasePlace::Unknown => None,
        }
    }

    /// Adds the latency samples of a row at both ends of the time range; unknown ones add nothing.
    pub fn add_latency(&self, row: &Row, [now, then]: &mut [[u64; BUCKETS]; 2]) {
        if let Some((end, begin)) = self.timed(row) {
            end.add_to(now);
            if let Some(begin) = begin {
                begin.add_to(then);
            }
        }
    }

    /// Looks up the findings that name each row; `None` if no findings are known for that time.
    pub fn judge(&mut self, verdicts: Option<&FlowVerdicts>) {
        for row in &mut self.rows {
            row.judged = verdicts.map_or_else(FlowVerdict::default, |verdicts| verdicts.get(&row.id.key));
        }
    }

    /// True if none of the data in the time range is ECN-capable.
    pub fn is_ecn_off(&self) -> bool {
        self.dedup.delta.is_some_and(|delta| delta.counts.is_ecn_off())
    }

    /// Frames of all kinds.
    pub fn frames(&self) -> u64 {
        self.total.packets + self.skipped.iter().map(|(_, n)| n).sum::<u64>()
    }
}

/// The snapshot at the end of a time range, and the one at its start.
type Ends = (Arc<Snapshot>, Option<Arc<Snapshot>>);

/// Latencies of the requests of all flows that were answered in a time range.
fn latency(ends: &Ends, rows: &[Row]) -> Option<Times> {
    let (end, base) = ends;
    let then = base.as_deref().and_then(|base| base.times.as_ref());
    let times = end.times.as_ref()?.since(then.unwrap_or(&Histogram::default()))?;
    Some(Times { unanswered: rows.iter().map(|row| unanswered(ends, row)).sum(), ..times })
}

/// Requests of a row in a time range without an answer of their own; 0 if unknown.
fn unanswered((end, base): &Ends, row: &Row) -> u64 {
    let of = |snapshot: &Snapshot, at: u32| {
        let flow = usize::try_from(at).ok().and_then(|at| snapshot.flows.get(at));
        flow.map_or(0, |flow| flow.unanswered)
    };
    let Some((now, then)) = row.timed else { return 0 };
    match (then, base.as_deref()) {
        (BasePlace::At(then), Some(base)) => of(end, now).saturating_sub(of(base, then)).into(),
        (BasePlace::New, _) => of(end, now).into(),
        (BasePlace::At(_), None) | (BasePlace::Unknown, _) => 0,
    }
}

/// Growth since a reset. Sums may have decreased, since flows were retired.
fn after_reset(total: &Counts, reset: Option<&Counts>) -> Counts {
    reset.map_or(*total, |reset| total.less(reset))
}

/// Growth between two snapshots `seconds` apart; `None` if unknown, or if a counter decreased.
fn since(now: &Counts, then: Option<&Counts>, seconds: Option<f64>) -> Option<Delta> {
    let counts = now.since(then?)?;
    Some(Delta { counts, seconds: seconds? })
}

/// Rows of the links; `base` is the snapshot at the start of the time range.
fn links(
    end: &Snapshot,
    names: &Names,
    reset: Option<&Snapshot>,
    base: Option<&Snapshot>,
    seconds: Option<f64>,
) -> Vec<LinkRow> {
    let none = LinkSnapshot::default();
    let row = |(i, (link, (name, direction))): (usize, (&LinkSnapshot, &(String, Option<Direction>)))| {
        let of = |snapshot: Option<&Snapshot>| snapshot.map(|m| *m.links.get(i).unwrap_or(&none));
        LinkRow {
            name: name.clone(),
            direction: *direction,
            flows: link.flows,
            total: after_reset(&link.total, of(reset).map(|l| l.total).as_ref()),
            delta: since(&link.grown, of(base).map(|l| l.grown).as_ref(), seconds),
            skipped: link.skipped,
        }
    };
    end.links.iter().zip(&names.links).enumerate().map(row).collect()
}

/// Builds rows of flows.
struct Rows<'a> {
    earlier: Option<EarlierFlows<'a>>,
    reset: Option<EarlierFlows<'a>>,
    places: Places<'a>,
    seconds: Option<f64>,
}

impl Rows<'_> {
    fn row(&mut self, number: u32, flow: &FlowSnapshot) -> Row {
        let FlowSnapshot { id, counts, answered, .. } = flow;
        let counts = &Counts { answered: *answered, ..*counts };
        let none = Counts::default();
        let (then, place) = match self.earlier.as_mut().map(|e| e.find(id)) {
            Some(EarlierFlow::At(at, then)) => {
                (Some(&then.counts), u32::try_from(at).map_or(BasePlace::Unknown, BasePlace::At))
            }
            Some(EarlierFlow::New) => (Some(&none), BasePlace::New),
            Some(EarlierFlow::Unknown) | None => (None, BasePlace::Unknown),
        };
        let delta = then
            .and_then(|then| counts.since(then))
            .zip(self.seconds)
            .map(|(grown, seconds)| Delta { counts: Counts { answered: *answered, ..grown }, seconds });
        let total = match self.reset.as_mut().map(|e| e.find(id)) {
            Some(EarlierFlow::At(_, then)) => Counts { answered: *answered, ..counts.less(&then.counts) },
            _ => *counts,
        };
        Row {
            id: *id,
            at: self.places.find(id),
            total,
            delta,
            timed: Some((number, place)),
            judged: FlowVerdict::default(),
        }
    }
}

/// Finds flows in the newest sample, which has the same order.
struct Places<'a> {
    flows: &'a [FlowSample],
    finder: Finder,
}

impl<'a> Places<'a> {
    fn new(sample: Option<&'a Sample>) -> Self {
        let flows: &[FlowSample] = sample.map_or(&[], |sample| &sample.flows);
        Self { flows, finder: Finder::new(flows.len()) }
    }

    fn find(&mut self, id: &Identity) -> Option<usize> {
        let id_at = |at: usize| self.flows.get(at).map(|flow| Identity { key: flow.key, slot: flow.slot });
        self.finder.find(id, id_at)
    }
}
