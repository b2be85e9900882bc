//! Rows, rates and totals that views show, as a pure function of the history of samples.
//!
//! | module | holds |
//! |---|---|
//! | [`conclusions`] | findings as they stood at a snapshot |
//! | [`counts`] | the counters, and their change over time |
//! | [`health`] | what the findings say about each flow |
//! | [`history`] | the last minutes, snapshot by snapshot |
//! | [`snapshot`] | what is kept of one of them |
//! | [`over_time`] | traffic and signals over time, in columns |
//! | [`dedup`] | each packet once, however many taps see it |
//! | [`detail`] | everything about one flow, made when it is looked at |

pub mod conclusions;
pub mod counts;
pub mod dedup;
pub mod detail;
pub mod events;
pub mod health;
pub mod history;
pub mod over_time;
mod reordered;
pub mod signals;
pub mod snapshot;

use std::sync::Arc;

use rocescope_common::abi::Counter;
use rocescope_common::account::FlowKey;
use rocescope_common::account::latency::BUCKETS;
use rocescope_common::wire::SkipReason;

use crate::metrics::latency::{Histogram, P99_SAMPLES, Times};
use crate::sample::{Direction, FlowSample, Sample, SourceKind};
pub use conclusions::Conclusions;
use counts::NS_PER_S;
pub use counts::{Counts, Delta};
pub use dedup::Dedup;
pub use detail::Detail;
pub use health::{FlowVerdicts, Judged, Level, State};
use history::Names;
pub use history::{History, Snapshot, TimeRange};
pub use over_time::OverTime;
use snapshot::{EarlierFlow, EarlierFlows, Finder, FlowSnapshot, LinkSnapshot};

/// Identity of the flow of a row: the key, and the slot, which changes when the flow was retired and came
/// back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Key of the flow.
    pub key: FlowKey,
    /// Its place in the table.
    pub slot: u32,
}

/// One flow as a row, with its counts and rates.
#[derive(Clone, Debug)]
pub struct Row {
    /// Identity of the flow.
    pub id: Identity,
    /// Its place in the newest [`Sample::flows`]; `None` when it is not there (any more).
    pub at: Option<usize>,
    /// All that was counted since the start, or since counters were reset.
    pub total: Counts,
    /// The growth in the time range; `None` when that is not known, or a counter decreased.
    pub delta: Option<Delta>,
    /// Places of its latencies in the snapshots at both ends of the time range; `None` for a sum of rows.
    timed: Option<(u32, BasePlace)>,
    /// The findings that name it; not known until [`Model::judge`].
    pub judged: Judged,
}

/// Place of the flow of a row in the snapshot before its time range.
#[derive(Clone, Copy, Debug)]
enum BasePlace {
    At(u32),
    /// It was not there yet.
    New,
    /// Not kept.
    Unknown,
}

impl Row {
    /// The beginning of a sum of rows, which counts so much; what cannot be added up is unknown.
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
    /// Flows on it now.
    pub flows: usize,
    /// RoCE packets on it.
    pub total: Counts,
    /// The same in the time range.
    pub delta: Option<Delta>,
    /// Frames that are not RoCE.
    pub skipped: Counter,
}

/// Packets and events that rocescope or the capture missed. `None` means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// RoCE packets that found the flow table full.
    pub flow_table_full: u64,
    /// RoCE packets that did not get at their flow's counters.
    pub contended: u64,
    /// Packets counted without their port or opcode.
    pub extra_full: u64,
    /// Events that found the ring buffer full.
    pub events_dropped: Option<u64>,
    /// Packets that the capture says it dropped.
    pub capture_drops: Option<u64>,
    /// Packets that the interfaces dropped.
    pub interface_drops: Option<u64>,
    /// Packets that are missing from bins over time.
    pub bins_dropped: Option<u64>,
}

impl Lost {
    /// True if anything was missed.
    #[must_use]
    pub fn any(&self) -> bool {
        let known = [self.events_dropped, self.capture_drops, self.interface_drops, self.bins_dropped];
        self.flow_table_full + self.contended + self.extra_full > 0 || known.iter().flatten().any(|n| *n > 0)
    }
}

/// The time range of rates and counters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Basis {
    /// There is only one snapshot, or no time passed between two.
    Unknown,
    /// The last seconds, of this number.
    Last(f64),
    /// All since the start or since counters were reset, in seconds.
    Whole(f64),
}

/// Letters that the longest of something takes; 0 when there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Longest {
    /// Length of the longest text of an IPv4 address.
    pub ipv4: u16,
    /// Of destination queue pairs.
    pub qp: u16,
}

impl Longest {
    fn of(rows: &[Row]) -> Self {
        let ipv4 = |words| match crate::sample::address(4, words) {
            // Three dots, and a digit at least for each byte.
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

/// Everything views show but history and details of single flows.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is something of its own")]
pub struct Model {
    /// The snapshot, Unix time in nanoseconds.
    pub time_ns: u64,
    /// Kind of the source.
    pub kind: SourceKind,
    /// Names of interfaces or files.
    pub inputs: Vec<String>,
    /// Length of the window so far in nanoseconds; `None` before the first frame of a replay.
    pub window_ns: Option<u64>,
    /// Time range of the figures.
    pub basis: Basis,
    /// A row per flow that is known at this snapshot.
    pub rows: Vec<Row>,
    /// Flows that there were at this snapshot, known or not.
    pub flows: usize,
    /// Links, in the order of [`Sample::links`].
    pub links: Vec<LinkRow>,
    /// All RoCE packets, those of retired flows included. NAK and PSN counters, which are not kept of retired flows,
    /// are of the present ones.
    pub total: Counts,
    /// The same in the time range.
    pub delta: Option<Delta>,
    /// Both, each packet once.
    pub dedup: Dedup,
    /// Flows that were retired.
    pub retired_flows: u64,
    /// Frames that are not RoCE, by reason, the most first; only reasons that occurred.
    pub skipped: Vec<(SkipReason, Counter)>,
    /// Capture loss and full tables.
    pub lost: Lost,
    /// True if they grew in the time range.
    pub losing: bool,
    /// True if an address is IPv6.
    pub has_ipv6: bool,
    /// Widths of the texts that distinguish flows.
    pub longest: Longest,
    /// True if requests are timed.
    pub has_latency: bool,
    /// True if a flow has enough of them for a 99th percentile.
    pub has_p99: bool,
    /// The snapshot, and the one before the time range.
    ends: (Arc<Snapshot>, Option<Arc<Snapshot>>),
}

impl Model {
    /// The model at snapshot number `at` of the history, with the time range before it. `newest` gives the places of
    /// rows in it. `None` when there is no such snapshot.
    #[must_use]
    pub fn new(history: &History, at: usize, range: TimeRange, newest: Option<&Sample>) -> Option<Self> {
        let end = history.shared(at)?;
        let names = history.names()?;
        let base = history.base(at, range);
        let seconds = base
            .and_then(|base| end.time_ns.checked_sub(base.time_ns))
            .filter(|ns| *ns > 0)
            .map(|ns| ns as f64 / NS_PER_S);
        let base = base.filter(|_| seconds.is_some());
        let since = |now: &Counts, then: Option<&Counts>| since(now, then, seconds);
        let reset = history.reset_point().filter(|reset| reset.time_ns < end.time_ns);
        let mut rows = Rows {
            earlier: base.map(|base| EarlierFlows::new(&base.flows, base.complete)),
            reset: reset.map(|reset| EarlierFlows::new(&reset.flows, reset.complete)),
            places: Places::new(newest),
            seconds,
        };
        let rows: Vec<Row> = (0..).zip(&end.flows).map(|(number, flow)| rows.row(number, flow)).collect();
        let links = links(end, names, reset, base.map(Arc::as_ref), seconds);
        let whole = range == TimeRange::All;
        let basis = match seconds {
            None => Basis::Unknown,
            Some(seconds) if whole => Basis::Whole(seconds),
            Some(seconds) => Basis::Last(seconds),
        };
        Some(Self {
            time_ns: end.time_ns,
            kind: names.kind,
            inputs: names.inputs.clone(),
            window_ns: end.start_ns.map(|start| end.time_ns.saturating_sub(start)),
            basis,
            has_latency: end.flows.iter().any(|flow| flow.histogram.as_ref().is_some_and(|h| !h.is_empty())),
            has_p99: end
                .flows
                .iter()
                .any(|flow| flow.histogram.as_ref().is_some_and(|h| h.count() >= P99_SAMPLES)),
            longest: Longest::of(&rows),
            has_ipv6: rows.iter().any(|row| row.id.key.family == 6),
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
            ends: (Arc::clone(end), base.cloned()),
            losing: end.lost.any() && base.is_some_and(|base| base.lost != end.lost),
        })
    }

    /// Latencies of the requests of `row` answered in the time range; `None` when none was, or it is not known.
    /// Computed on demand: for all flows at once it takes longer than all else about them.
    #[must_use]
    pub fn latency(&self, row: &Row) -> Option<Times> {
        let (now, then) = self.timed(row)?;
        then.map_or_else(|| now.since(&Histogram::default()), |then| now.since(then))
    }

    /// Samples of a row at the end of the time range, and at its beginning where it was there.
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

    /// Adds the samples of a row at both ends of the time range to those of others; what is not known adds nothing.
    pub fn add_latency(&self, row: &Row, [now, then]: &mut [[u64; BUCKETS]; 2]) {
        if let Some((end, begin)) = self.timed(row) {
            end.add_to(now);
            if let Some(begin) = begin {
                begin.add_to(then);
            }
        }
    }

    /// Looks up the findings that name each row; `None` when no finding of that time is known.
    pub fn judge(&mut self, verdicts: Option<&FlowVerdicts>) {
        for row in &mut self.rows {
            row.judged = verdicts.map_or_else(Judged::default, |verdicts| verdicts.get(&row.id.key));
        }
    }

    /// Frames of any kind.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.total.packets + self.skipped.iter().map(|(_, c)| c.packets).sum::<u64>()
    }
}

/// The growth after a reset. Sums may be smaller now, since flows were retired.
fn after_reset(total: &Counts, reset: Option<&Counts>) -> Counts {
    reset.map_or(*total, |reset| total.less(reset))
}

/// Growth between two snapshots that are `seconds` apart; `None` when that is unknown, or a counter decreased.
fn since(now: &Counts, then: Option<&Counts>, seconds: Option<f64>) -> Option<Delta> {
    let counts = now.since(then?)?;
    Some(Delta { counts, seconds: seconds? })
}

/// The rows of links; `base` is the snapshot before the time range.
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

/// Makes rows of flows.
struct Rows<'a> {
    earlier: Option<EarlierFlows<'a>>,
    reset: Option<EarlierFlows<'a>>,
    places: Places<'a>,
    seconds: Option<f64>,
}

impl Rows<'_> {
    fn row(&mut self, number: u32, flow: &FlowSnapshot) -> Row {
        let FlowSnapshot { id, counts, .. } = flow;
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
            .map(|(counts, seconds)| Delta { counts, seconds });
        let total = match self.reset.as_mut().map(|e| e.find(id)) {
            Some(EarlierFlow::At(_, then)) => counts.less(&then.counts),
            _ => *counts,
        };
        Row {
            id: *id,
            at: self.places.find(id),
            total,
            delta,
            timed: Some((number, place)),
            judged: Judged::default(),
        }
    }
}

/// Finds flows in the newest sample, where they have the same order.
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

fn skipped(sample: &Sample) -> Vec<(SkipReason, Counter)> {
    let mut skipped: Vec<(SkipReason, Counter)> = SkipReason::ALL
        .iter()
        .map(|reason| {
            let mut sum = Counter::default();
            for counter in sample.links.iter().filter_map(|l| l.skipped.get(*reason as usize)) {
                sum.packets += counter.packets;
                sum.bytes += counter.bytes;
            }
            (*reason, sum)
        })
        .filter(|(_, sum)| sum.packets > 0)
        .collect();
    skipped.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.packets));
    skipped
}

fn lost(sample: &Sample) -> Lost {
    Lost {
        flow_table_full: sample.links.iter().map(|l| l.flow_table_full.packets).sum(),
        contended: sample.links.iter().map(|l| l.contended.packets).sum(),
        extra_full: sample.links.iter().map(|l| l.extra_full).sum(),
        events_dropped: sample.events_dropped,
        capture_drops: sample.capture_drops,
        interface_drops: sample.interface_drops,
        bins_dropped: sample.metrics.traffic.as_ref().and_then(|traffic| traffic.lost_packets()),
    }
}
