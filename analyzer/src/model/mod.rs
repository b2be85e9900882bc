//! What views show: rows, rates and totals, as a pure function of one sample or of two.
//!
//! | module | holds |
//! |---|---|
//! | [`counts`] | the counters, and their change over time |
//! | [`health`] | what is wrong, and how badly |
//! | [`history`] | the last minutes of the header figures |
//! | [`detail`] | everything about one flow, made when it is looked at |

pub mod counts;
pub mod detail;
pub mod health;
pub mod history;

use rocescope_common::abi::Counter;
use rocescope_common::account::FlowKey;
use rocescope_common::wire::Reason;

use crate::sample::{Direction, FlowSample, LinkSample, Sample, SourceKind};
use counts::NS_PER_S;
pub use counts::{Counts, Delta};
pub use detail::Detail;
pub use health::{Kind, Level, Problem, State};
pub use history::History;

/// Which flow a row is: the key, and the slot, which changes when the flow was retired and came
/// back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The flow.
    pub key: FlowKey,
    /// Its place in the table.
    pub slot: u32,
}

/// One flow.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which one; [`Sample::flows`] has it at the row's own index.
    pub id: Identity,
    /// All that was counted.
    pub total: Counts,
    /// What was counted in the span that rates are of; `None` when there is none, or a counter
    /// went back.
    pub delta: Option<Delta>,
}

/// One link.
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
    /// The same in the span that rates are of.
    pub delta: Option<Delta>,
    /// Frames that are not RoCE.
    pub skipped: Counter,
}

/// What rocescope or the capture itself missed. `None` where it cannot be known.
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
}

impl Lost {
    /// Whether anything was missed.
    #[must_use]
    pub fn any(&self) -> bool {
        let known = [self.events_dropped, self.capture_drops, self.interface_drops];
        self.flow_table_full + self.contended + self.extra_full > 0 || known.iter().flatten().any(|n| *n > 0)
    }
}

/// The span that rates are of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Basis {
    /// There is only one sample, or no time passed between two.
    Unknown,
    /// Between two samples, in seconds.
    Interval(f64),
    /// The whole window, in seconds: averages.
    Whole(f64),
}

/// Everything views show but history and details of single flows.
#[derive(Clone, Debug)]
pub struct Model {
    /// The moment, Unix time in nanoseconds.
    pub time_ns: u64,
    /// Kind of source.
    pub kind: SourceKind,
    /// Interfaces or files.
    pub inputs: Vec<String>,
    /// Length of the window so far in nanoseconds; `None` before the first frame of a replay.
    pub window_ns: Option<u64>,
    /// What rates are of.
    pub basis: Basis,
    /// A row per flow, in the order of [`Sample::flows`].
    pub rows: Vec<Row>,
    /// Links, in the order of [`Sample::links`].
    pub links: Vec<LinkRow>,
    /// All RoCE packets, those of retired flows included. What is not kept of retired flows (NAKs
    /// and PSN figures) is of the present ones.
    pub total: Counts,
    /// The same in the span that rates are of.
    pub delta: Option<Delta>,
    /// Flows that were retired.
    pub retired_flows: u64,
    /// Frames that are not RoCE, by reason, the most first; only reasons that occurred.
    pub skipped: Vec<(Reason, Counter)>,
    /// Own losses.
    pub lost: Lost,
    /// Whether they grew since the previous sample.
    pub losing: bool,
    /// Whether an address is IPv6.
    pub has_ipv6: bool,
}

impl Model {
    /// The model of `current`; rates are of the time since `previous`.
    #[must_use]
    pub fn new(current: &Sample, previous: Option<&Sample>) -> Self {
        let seconds = previous
            .and_then(|p| current.time_ns.checked_sub(p.time_ns))
            .filter(|ns| *ns > 0)
            .map(|ns| ns as f64 / NS_PER_S);
        let pair = previous.zip(seconds);
        let basis = seconds.map_or(Basis::Unknown, Basis::Interval);
        let mut earlier = pair.map(|(p, _)| Earlier::new(&p.flows));
        let mut model = Self::start(current, basis, |flow, total| {
            let then = earlier.as_mut()?.find(flow).unwrap_or_default();
            Some(Delta { counts: total.since(&then)?, seconds: seconds? })
        });
        if let Some((previous, seconds)) = pair {
            model.rates_of_sums(previous, seconds);
            model.losing = model.lost != lost(previous) && model.lost.any();
        }
        model
    }

    /// The model of a finished run: rates are averages over the whole window.
    #[must_use]
    pub fn whole(last: &Sample) -> Self {
        let ns = last.window.and_then(|(first, end)| end.checked_sub(first)).filter(|ns| *ns > 0);
        let seconds = ns.map(|ns| ns as f64 / NS_PER_S);
        let average = |counts: Counts| seconds.map(|seconds| Delta { counts, seconds });
        let basis = seconds.map_or(Basis::Unknown, Basis::Whole);
        let mut model = Self::start(last, basis, |_, total| average(*total));
        model.delta = average(model.total);
        for link in &mut model.links {
            link.delta = average(link.total);
        }
        model
    }

    /// CE ratio in the span that rates are of.
    #[must_use]
    pub fn ce_now(&self) -> Option<f64> {
        self.delta.and_then(|d| d.counts.ce_ratio())
    }

    /// Frames of any kind.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.total.packets + self.skipped.iter().map(|(_, c)| c.packets).sum::<u64>()
    }

    fn start(
        sample: &Sample,
        basis: Basis,
        mut delta: impl FnMut(&FlowSample, &Counts) -> Option<Delta>,
    ) -> Self {
        let mut links: Vec<LinkRow> = sample.links.iter().map(link_row).collect();
        let mut total = Counts::default();
        for link in &links {
            total.add(&link.total);
        }
        let mut has_ipv6 = false;
        let rows = sample.flows.iter().map(|flow| {
            let counts = Counts::of(&flow.stats);
            total.add(&counts);
            if let Some(link) = links.get_mut(usize::from(flow.key.link)) {
                link.total.add(&counts);
                link.flows += 1;
            }
            has_ipv6 |= flow.key.family == 6;
            let id = Identity { key: flow.key, slot: flow.slot };
            Row { id, total: counts, delta: delta(flow, &counts) }
        });
        let rows = rows.collect();
        Self {
            time_ns: sample.time_ns,
            kind: sample.kind,
            inputs: sample.inputs.clone(),
            window_ns: sample.window.map(|(first, last)| last.saturating_sub(first)),
            basis,
            rows,
            links,
            total,
            delta: None,
            retired_flows: sample.links.iter().map(|l| l.retired.flows).sum(),
            skipped: skipped(sample),
            lost: lost(sample),
            losing: false,
            has_ipv6,
        }
    }

    /// Rates of links and of everything. Packets, bytes, ECN and CNP come from totals, which
    /// include retired flows; the rest are sums over the present flows.
    fn rates_of_sums(&mut self, previous: &Sample, seconds: f64) {
        let before = Self::start(previous, Basis::Unknown, |_, _| None);
        let mut sums = vec![Counts::default(); self.links.len()];
        let mut sum = Counts::default();
        for row in &self.rows {
            let Some(delta) = row.delta else { continue };
            sum.add(&delta.counts);
            if let Some(link) = sums.get_mut(usize::from(row.id.key.link)) {
                link.add(&delta.counts);
            }
        }
        let merge = |total: &Counts, earlier: &Counts, mut sum: Counts| {
            let kept = |c: &Counts| Counts {
                packets: c.packets,
                bytes: c.bytes,
                ecn_data: c.ecn_data,
                cnp: c.cnp,
                ..Counts::default()
            };
            let kept = kept(total).since(&kept(earlier))?;
            (sum.packets, sum.bytes, sum.ecn_data, sum.cnp) =
                (kept.packets, kept.bytes, kept.ecn_data, kept.cnp);
            Some(Delta { counts: sum, seconds })
        };
        self.delta = merge(&self.total, &before.total, sum);
        for (i, (link, sum)) in self.links.iter_mut().zip(sums).enumerate() {
            let none = Counts::default();
            let earlier = before.links.get(i).map_or(&none, |l| &l.total);
            link.delta = merge(&link.total, earlier, sum);
        }
    }
}

fn link_row(link: &LinkSample) -> LinkRow {
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
    LinkRow { name: link.name.clone(), direction: link.direction, flows: 0, total, delta: None, skipped }
}

fn skipped(sample: &Sample) -> Vec<(Reason, Counter)> {
    let mut skipped: Vec<(Reason, Counter)> = Reason::ALL
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
    }
}

/// Finds flows in an earlier sample. Flows keep their order, so the place after the latest find is
/// nearly always right, and the map is only made when it is not.
struct Earlier<'a> {
    flows: &'a [FlowSample],
    next: usize,
    map: Option<hashbrown::HashMap<Identity, usize, foldhash::fast::RandomState>>,
}

impl<'a> Earlier<'a> {
    fn new(flows: &'a [FlowSample]) -> Self {
        Self { flows, next: 0, map: None }
    }

    fn find(&mut self, flow: &FlowSample) -> Option<Counts> {
        let is = |other: &FlowSample| other.slot == flow.slot && other.key == flow.key;
        let at = match self.flows.get(self.next) {
            Some(other) if is(other) => self.next,
            _ => {
                let flows = self.flows;
                let map = self.map.get_or_insert_with(|| {
                    flows
                        .iter()
                        .enumerate()
                        .map(|(i, f)| (Identity { key: f.key, slot: f.slot }, i))
                        .collect()
                });
                *map.get(&Identity { key: flow.key, slot: flow.slot })?
            }
        };
        self.next = at + 1;
        self.flows.get(at).map(|f| Counts::of(&f.stats))
    }
}
