//! Host matrix: a cell for each pair of source and destination.

use rocescope_common::wire::frame::Addr;

use crate::analysis::Overlap;
use crate::findings::Problem;
use crate::metrics::latency::Bucket;
use crate::model::signals::{self, About};
use crate::model::{Counts, FlowVerdict, FlowVerdicts, Model, Row, dedup};
use crate::sample::{Address, MULTICAST_QP, address};
use crate::tui::column::Context;
use crate::util::map::Map;

/// The metric that cells show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metric {
    /// Bits per second.
    #[default]
    Rate,
    /// CE-marked by ECN-capable data packets.
    Ce,
    /// Packets lost upstream of the link.
    Loss,
    /// Retransmissions.
    Retransmissions,
    /// NAKs that the source received, RNR NAKs excluded.
    Naks,
    /// RNR NAKs that the source received.
    Rnr,
    /// p99 latency of the requests of all queue pairs of the pair.
    Latency,
}

impl Metric {
    /// Kinds of findings about it.
    pub const fn about(self) -> About {
        match self {
            Self::Rate => signals::NOTHING,
            Self::Ce => signals::CE,
            Self::Loss => signals::LOST,
            Self::Retransmissions => signals::RETRANSMITTED,
            Self::Naks => signals::NAK,
            Self::Rnr => signals::RNR,
            Self::Latency => signals::LATENCY,
        }
    }

    /// The next one, in a circle.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Rate => Self::Ce,
            Self::Ce => Self::Loss,
            Self::Loss => Self::Retransmissions,
            Self::Retransmissions => Self::Naks,
            Self::Naks => Self::Rnr,
            Self::Rnr => Self::Latency,
            Self::Latency => Self::Rate,
        }
    }

    /// Name of the metric.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Ce => "CE ratio",
            Self::Loss => "packets lost",
            Self::Retransmissions => "retransmissions",
            Self::Naks => "NAKs received (excluding RNR)",
            Self::Rnr => "RNR NAKs received",
            Self::Latency => "p99 latency of host pairs",
        }
    }

    /// The metric that shows a problem of this kind.
    pub const fn of(kind: Problem) -> Self {
        match kind {
            Problem::Loss | Problem::Icrc => Self::Loss,
            Problem::Retransmission | Problem::Reordering => Self::Retransmissions,
            Problem::Refused => Self::Naks,
            Problem::NotReady => Self::Rnr,
            Problem::Congestion | Problem::Incast | Problem::NoCnp | Problem::Notification => Self::Ce,
            Problem::Latency => Self::Latency,
            _ => Self::Rate,
        }
    }
}

/// From one host to another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cell {
    /// Number of queue pairs.
    pub flows: usize,
    /// The growth of their counters in the time range.
    pub counts: Counts,
    /// Length of the time range in seconds; 0 when it is not known.
    pub seconds: f64,
    /// The 99th percentile of latency in the time range, of the requests of all its queue pairs, in nanoseconds.
    pub latency_ns: Option<u64>,
    /// True if it is a lower bound: too many of these requests have no answer.
    pub latency_is_least: bool,
    /// Findings about its flows; unknown until [`Matrix::judge`].
    pub judged: FlowVerdict,
}

impl Cell {
    /// The value of a metric; `None` when it is unknown.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Rate => (self.seconds > 0.0).then(|| self.counts.bytes as f64 * 8.0 / self.seconds),
            Metric::Ce => self.counts.ce_ratio(),
            Metric::Loss => self.counts.of_sequence(|counts| counts.lost).map(|n| n as f64),
            Metric::Retransmissions => {
                self.counts.of_sequence(|counts| counts.retransmitted).map(|n| n as f64)
            }
            Metric::Naks => self.counts.of_answers(Counts::naks).map(|n| n as f64),
            Metric::Rnr => self.counts.of_answers(|counts| counts.rnr).map(|n| n as f64),
            Metric::Latency => self.latency_ns.map(|ns| ns as f64),
        }
    }
}

/// Places of a source and a destination in a list of hosts.
type Pair = (u32, u32);

/// Hosts in the order in which they come.
#[derive(Default)]
struct Hosts {
    all: Vec<Address>,
    places: Map<(u8, Addr), u32>,
}

impl Hosts {
    fn place(&mut self, family: u8, host: Addr) -> u32 {
        *self.places.entry((family, host)).or_insert_with(|| {
            self.all.push(address(family, host));
            u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// All hosts in the order of their addresses, and the place there of each.
    fn in_order(self) -> (Vec<Address>, Vec<u32>) {
        let mut hosts: Vec<(Address, usize)> = self.all.into_iter().zip(0..).collect();
        hosts.sort_unstable();
        let mut places = vec![0; hosts.len()];
        for (new, (_, old)) in (0..).zip(&hosts) {
            if let Some(place) = places.get_mut(*old) {
                *place = new;
            }
        }
        (hosts.into_iter().map(|(host, _)| host).collect(), places)
    }
}

/// Sets the latency of each cell, from its rows: as the overview has it of the same pair.
fn add_latency(cells: &mut [Cell], mut timed: Vec<(u32, &Row)>, model: &Model) {
    timed.sort_by_key(|(at, _)| *at);
    for rows in timed.chunk_by(|(one, _), (other, _)| one == other) {
        let at = rows.first().and_then(|(at, _)| usize::try_from(*at).ok());
        let Some(cell) = at.and_then(|at| cells.get_mut(at)) else { continue };
        let latency = model.latency_of(rows.iter().map(|(_, row)| *row));
        cell.latency_ns = latency.and_then(|latency| latency.tail()).map(Bucket::ns);
        cell.latency_is_least = latency.is_some_and(|latency| latency.p99_is_least());
    }
}

/// The matrix. Hosts are in the order of their addresses.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    /// Hosts that send, by row.
    pub sources: Vec<Address>,
    /// Hosts that receive, by column.
    pub destinations: Vec<Address>,
    /// Those that are one or the other.
    hosts: Vec<Address>,
    cells: Vec<Cell>,
    /// Places of their hosts, and of the cells, in the order of the hosts.
    pairs: Vec<(Pair, u32)>,
}

impl Matrix {
    /// The matrix of all flows, of which the newest sample counts `again` what it says: a packet that passes several
    /// links counts once, from the link that saw most of its queue pair; what was lost or marked on the way from the
    /// one that shows it.
    pub fn new(cx: Context<'_>, overlap: &Overlap) -> Self {
        let model = cx.model;
        let mut cells: Vec<Cell> = Vec::new();
        let mut numbers: Map<Pair, u32> = Map::default();
        let mut hosts = Hosts::default();
        // Rows with the number of their cell.
        let mut timed: Vec<(u32, &Row)> = Vec::new();
        dedup::each(model.rows.iter(), overlap, |seen| {
            let key = &seen.row.id.key;
            let pair = (hosts.place(key.family, key.src), hosts.place(key.family, key.dst));
            let next = u32::try_from(cells.len()).unwrap_or(u32::MAX);
            let at = *numbers.entry(pair).or_insert(next);
            if at == next {
                cells.push(Cell::default());
            }
            let Some(cell) = usize::try_from(at).ok().and_then(|at| cells.get_mut(at)) else { return };
            // Multicast datagrams go to no queue pair.
            let multicast = key.dest_qp == MULTICAST_QP && address(key.family, key.dst).is_multicast();
            cell.flows += usize::from(seen.new && !multicast);
            if let Some(delta) = &seen.delta {
                cell.counts.add(&delta.counts);
                cell.seconds = cell.seconds.max(delta.seconds);
            }
            if model.has_latency {
                timed.push((at, seen.row));
            }
        });
        add_latency(&mut cells, timed, model);
        let (hosts, places) = hosts.in_order();
        let place =
            |old: u32| usize::try_from(old).ok().and_then(|old| places.get(old)).copied().unwrap_or(0);
        let mut pairs: Vec<(Pair, u32)> =
            numbers.into_iter().map(|((src, dst), at)| ((place(src), place(dst)), at)).collect();
        pairs.sort_unstable();
        let (mut sends, mut receives) = (vec![false; hosts.len()], vec![false; hosts.len()]);
        for ((src, dst), _) in &pairs {
            for (marks, host) in [(&mut sends, src), (&mut receives, dst)] {
                if let Some(mark) = usize::try_from(*host).ok().and_then(|at| marks.get_mut(at)) {
                    *mark = true;
                }
            }
        }
        let those = |marks: Vec<bool>| {
            hosts.iter().zip(marks).filter(|(_, marked)| *marked).map(|(host, _)| *host).collect()
        };
        Self { sources: those(sends), destinations: those(receives), hosts, cells, pairs }
    }

    /// Number of rows and of columns.
    pub fn size(&self) -> (usize, usize) {
        (self.sources.len(), self.destinations.len())
    }

    /// The number of a host among all, senders and receivers, from 1; 0 for one that is neither.
    pub fn number(&self, host: &Address) -> usize {
        self.hosts.binary_search(host).map_or(0, |at| at + 1)
    }

    /// The cell of two hosts; `None` when nothing goes from one to the other.
    pub fn cell(&self, src: &Address, dst: &Address) -> Option<&Cell> {
        self.at(self.place(src, dst)?)
    }

    /// Place of the cell of two hosts.
    fn place(&self, src: &Address, dst: &Address) -> Option<u32> {
        let place = |host| u32::try_from(self.hosts.binary_search(host).ok()?).ok();
        let pair = (place(src)?, place(dst)?);
        let at = self.pairs.binary_search_by_key(&pair, |(pair, _)| *pair).ok()?;
        Some(self.pairs.get(at)?.1)
    }

    /// Looks up the findings of each pair; `None` before findings are evaluated.
    pub fn judge(&mut self, verdicts: Option<&FlowVerdicts>) {
        let none = if verdicts.is_some() { FlowVerdict::FINE } else { FlowVerdict::default() };
        self.cells.iter_mut().for_each(|cell| cell.judged = none);
        for (src, dst, judged) in verdicts.into_iter().flat_map(FlowVerdicts::flows) {
            let at = self.place(&src, &dst).and_then(|at| usize::try_from(at).ok());
            if let Some(cell) = at.and_then(|at| self.cells.get_mut(at)) {
                cell.judged = cell.judged.join(judged);
            }
        }
    }

    fn at(&self, at: u32) -> Option<&Cell> {
        self.cells.get(usize::try_from(at).ok()?)
    }

    /// Row and column of the cell with the largest value; of the first of several.
    pub fn hottest(&self, metric: Metric) -> Option<(usize, usize)> {
        self.hottest_of(metric, |_| true)
    }

    /// The same among those cells that `are`.
    pub fn hottest_of(&self, metric: Metric, are: impl Fn(&Cell) -> bool) -> Option<(usize, usize)> {
        let mut hottest: Option<(f64, &Address, &Address)> = None;
        for (src, dst, cell) in self.iter().filter(|(.., cell)| are(cell)) {
            let value = cell.value(metric).unwrap_or(0.0);
            if hottest.is_none_or(|(most, ..)| value > most) {
                hottest = Some((value, src, dst));
            }
        }
        let (_, src, dst) = hottest?;
        Some((self.sources.binary_search(src).ok()?, self.destinations.binary_search(dst).ok()?))
    }

    /// The pairs with the largest values, largest first, those that are equal in the order of their addresses; at most
    /// `count`.
    pub fn top(&self, metric: Metric, count: usize) -> Vec<(&Address, &Address, &Cell)> {
        let value = |(.., cell): &(&Address, &Address, &Cell)| cell.value(metric).unwrap_or(-1.0);
        let mut all: Vec<(f64, (&Address, &Address, &Cell))> =
            self.iter().map(|entry| (value(&entry), entry)).collect();
        let order = |a: &(f64, (&Address, &Address, &Cell)), b: &(f64, (&Address, &Address, &Cell))| {
            b.0.total_cmp(&a.0).then_with(|| (a.1.0, a.1.1).cmp(&(b.1.0, b.1.1)))
        };
        if count < all.len() {
            all.select_nth_unstable_by(count, order);
            all.truncate(count);
        }
        all.sort_unstable_by(order);
        all.into_iter().map(|(_, entry)| entry).collect()
    }

    /// The largest value of all cells.
    pub fn most(&self, metric: Metric) -> f64 {
        self.cells.iter().filter_map(|cell| cell.value(metric)).fold(0.0, f64::max)
    }

    /// All cells, in the order of their hosts' addresses.
    pub fn iter(&self) -> impl Iterator<Item = (&Address, &Address, &Cell)> {
        let host = |place: u32| self.hosts.get(usize::try_from(place).ok()?);
        self.pairs.iter().filter_map(move |((src, dst), at)| Some((host(*src)?, host(*dst)?, self.at(*at)?)))
    }
}
