//! Who sends to whom: a cell for each pair of hosts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hashbrown::HashMap;

use super::once::holes;
use crate::model::{Counts, Model, Row};
use crate::sample::address;

/// What cells show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metric {
    /// Bits per second.
    #[default]
    Rate,
    /// CE marks by ECN-capable data packets.
    Ce,
    /// Packets lost and NAKs for a sequence error.
    Loss,
    /// 99th percentile of latency: the worst of the pair's queue pairs.
    Latency,
}

impl Metric {
    /// The next one, in a circle.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Rate => Self::Ce,
            Self::Ce => Self::Loss,
            Self::Loss => Self::Latency,
            Self::Latency => Self::Rate,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Rate => "bits per second",
            Self::Ce => "CE ratio",
            Self::Loss => "packets lost, sequence NAKs",
            Self::Latency => "latency, 99th percentile",
        }
    }
}

/// From one host to another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cell {
    /// Queue pairs.
    pub flows: usize,
    /// What they counted in the span.
    pub counts: Counts,
    /// Length of the span in seconds; 0 when it is not known.
    pub seconds: f64,
    /// The worst 99th percentile of latency in the span, in nanoseconds.
    pub latency_ns: Option<u64>,
}

impl Cell {
    /// What it shows; `None` when that is not known.
    #[must_use]
    pub fn value(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Rate => (self.seconds > 0.0).then(|| self.counts.bytes as f64 * 8.0 / self.seconds),
            Metric::Ce => self.counts.ce_ratio(),
            Metric::Loss => {
                (self.seconds > 0.0).then_some((self.counts.lost + self.counts.sequence_naks) as f64)
            }
            Metric::Latency => self.latency_ns.map(|ns| ns as f64),
        }
    }
}

/// The matrix. Hosts are in the order of their addresses.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    /// Rows.
    pub sources: Vec<IpAddr>,
    /// Columns.
    pub destinations: Vec<IpAddr>,
    cells: BTreeMap<(IpAddr, IpAddr), Cell>,
    numbers: BTreeMap<IpAddr, usize>,
}

impl Matrix {
    /// The matrix of all flows. A queue pair that passes several links counts once, from the link that saw most of
    /// it; what was lost or marked on the way from the one that shows it.
    #[must_use]
    pub fn new(model: &Model) -> Self {
        type Seen<'a> = (&'a Row, Option<Counts>);
        let mut by_qp: HashMap<(IpAddr, IpAddr, u32), Seen<'_>, foldhash::fast::RandomState> =
            HashMap::default();
        let bytes = |row: &Row| (row.delta.as_ref().map_or(0, |delta| delta.counts.bytes), row.total.bytes);
        for row in &model.rows {
            let key = &row.id.key;
            let ends = (address(key.family, key.src), address(key.family, key.dst), key.dest_qp);
            let (kept, seen) = by_qp.entry(ends).or_insert((row, None));
            if bytes(row) > bytes(kept) {
                *kept = row;
            }
            if let Some(delta) = &row.delta {
                let counts = delta.counts;
                *seen = Some(seen.map_or(counts, |seen| holes(seen, &[seen, counts])));
            }
        }
        let mut cells: BTreeMap<(IpAddr, IpAddr), Cell> = BTreeMap::new();
        for ((src, dst, _), (row, seen)) in by_qp {
            let cell = cells.entry((src, dst)).or_default();
            cell.flows += 1;
            if let Some(delta) = &row.delta {
                cell.counts.add(&seen.map_or(delta.counts, |seen| holes(delta.counts, &[seen])));
                cell.seconds = cell.seconds.max(delta.seconds);
            }
            cell.latency_ns = cell.latency_ns.max(row.latency.map(|times| times.p99.ns()));
        }
        let mut sources: Vec<IpAddr> = cells.keys().map(|(src, _)| *src).collect();
        let mut destinations: Vec<IpAddr> = cells.keys().map(|(_, dst)| *dst).collect();
        for hosts in [&mut sources, &mut destinations] {
            hosts.sort_unstable();
            hosts.dedup();
        }
        let mut all: Vec<IpAddr> = sources.iter().chain(&destinations).copied().collect();
        all.sort_unstable();
        all.dedup();
        let numbers = all.into_iter().zip(1..).collect();
        Self { sources, destinations, cells, numbers }
    }

    /// Rows and columns.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.sources.len(), self.destinations.len())
    }

    /// The number of a host among all, senders and receivers, from 1; 0 for one that is neither.
    #[must_use]
    pub fn number(&self, host: &IpAddr) -> usize {
        self.numbers.get(host).copied().unwrap_or(0)
    }

    /// The cell of two hosts; `None` when nothing goes from one to the other.
    #[must_use]
    pub fn cell(&self, src: &IpAddr, dst: &IpAddr) -> Option<&Cell> {
        self.cells.get(&(*src, *dst))
    }

    /// Row and column of the cell with the largest figure; of the first of several.
    #[must_use]
    pub fn hottest(&self, metric: Metric) -> Option<(usize, usize)> {
        let mut hottest: Option<(f64, &IpAddr, &IpAddr)> = None;
        for (src, dst, cell) in self.iter() {
            let value = cell.value(metric).unwrap_or(0.0);
            if hottest.is_none_or(|(most, ..)| value > most) {
                hottest = Some((value, src, dst));
            }
        }
        let (_, src, dst) = hottest?;
        Some((self.sources.binary_search(src).ok()?, self.destinations.binary_search(dst).ok()?))
    }

    /// The largest figure of all cells.
    #[must_use]
    pub fn most(&self, metric: Metric) -> f64 {
        self.cells.values().filter_map(|cell| cell.value(metric)).fold(0.0, f64::max)
    }

    /// All cells.
    pub fn iter(&self) -> impl Iterator<Item = (&IpAddr, &IpAddr, &Cell)> {
        self.cells.iter().map(|((src, dst), cell)| (src, dst, cell))
    }
}
