//! The list: the rows that the filter lets through, in order.

use std::cmp::Ordering;

use serde_json::Value;

use super::columns::{COLUMNS, Column};
use super::filter::NicFacts;
use super::rows::{Row, active, devices};
use crate::analysis::{Device, QpSource};
use crate::findings::Finding;
use crate::model::Level;
use crate::tui::view::View;
use crate::util::map::Map;

/// Order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) struct Order {
    /// Place of a column; `None` for the worst first.
    pub(super) by: Option<usize>,
    pub(super) reverse: bool,
}

/// The rows that the filter lets through, in order; and the number of all.
pub(super) fn rows(view: &View, order: Order) -> (Vec<Row<'_>>, usize) {
    let now = view.analysis.as_ref();
    let (now_ns, steady_ns) = (now.map(|now| now.time_ns), now.and_then(|now| now.steady_ns));
    let mut all = Vec::new();
    let findings = by_number(view);
    for device in devices(view).filter(|device| !device.qps.is_empty()) {
        let per_s = rates(view, device);
        for qp in &device.qps {
            let by_psn = per_s.get(&qp.lqpn).copied().unwrap_or((None, None));
            let is_read = qp.sources.contains(&QpSource::Context);
            let readings = &view.timeline.readings;
            let by_context = if is_read { readings.rates(&device.name, qp.lqpn) } else { (None, None) };
            let control = &qp.control;
            let exists = !control.is_over();
            let own = findings.get(&qp.lqpn).into_iter().flatten().filter(|one| one.is_about_qp(device, qp));
            let rate_of = |listed: Option<f64>, read: Option<f64>| {
                listed.map(|_| QpSource::Netlink).or(read.map(|_| QpSource::Context))
            };
            all.push(Row {
                device,
                qp,
                sent: by_psn.0.or(by_context.0).filter(|_| exists),
                received: by_psn.1.or(by_context.1).filter(|_| exists),
                rates_of: (rate_of(by_psn.0, by_context.0), rate_of(by_psn.1, by_context.1)),
                age_ns: control.age_ns(now_ns, steady_ns),
                level: own.map(|one| Level::from(one.severity)).max().unwrap_or_default(),
            });
        }
    }
    let count = all.len();
    all.retain(|row| view.filter.query.nic(&NicFacts(row)));
    sort(&mut all, order);
    (all, count)
}

/// Rates from PSNs of the kernel's list.
fn rates(view: &View, device: &Device) -> Map<u32, (Option<f64>, Option<f64>)> {
    let ports = view.data.iter().flat_map(|data| &data.sample.devices.ports);
    let mut own = ports.filter(|port| port.device == device.name && Some(port.port) == device.port);
    let step = own.next().and_then(|port| view.timeline.trail.rates(port));
    step.map(|step| step.qps_per_s()).unwrap_or_default()
}

/// The active findings about queue pairs of this host, by the numbers of these.
fn by_number(view: &View) -> Map<u32, Vec<&Finding>> {
    let mut by_number: Map<u32, Vec<&Finding>> = Map::default();
    for finding in active(view) {
        let mut numbers: Vec<u32> = finding.subject.queue_pairs.iter().map(|qp| qp.lqpn).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for lqpn in numbers {
            by_number.entry(lqpn).or_default().push(finding);
        }
    }
    by_number
}

fn sort(rows: &mut [Row<'_>], order: Order) {
    match order.by.and_then(|at| COLUMNS.get(at)) {
        None => rows.sort_by(|a, b| worst(a, b)),
        Some(column) => {
            rows.sort_by_cached_key(|row| Cell::of(column, row));
        }
    }
    if order.reverse {
        rows.reverse();
    }
}

/// Order of rows: those that a finding is about, then those that stand still or retry, then the busiest; ended ones
/// come last.
fn worst(a: &Row<'_>, b: &Row<'_>) -> Ordering {
    let rate = |row: &Row<'_>| row.sent.unwrap_or(0.0) + row.received.unwrap_or(0.0);
    let place = |row: &Row<'_>| (row.label(), row.qp.lqpn);
    b.level
        .cmp(&a.level)
        .then_with(|| a.has_ended().cmp(&b.has_ended()))
        .then_with(|| b.qp.fault_rank().cmp(&a.qp.fault_rank()))
        .then_with(|| rate(b).total_cmp(&rate(a)))
        .then_with(|| place(a).cmp(&place(b)))
        .then_with(|| b.qp.control.creation_order().cmp(&a.qp.control.creation_order()))
}

/// A cell as it is sorted: figures from the largest on, texts by letter, what is unknown last.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    /// Bits of a figure that is not negative, the largest first.
    Figure(std::cmp::Reverse<u64>),
    Text(String),
    Unknown,
}

impl Cell {
    fn of(column: &Column, row: &Row<'_>) -> Self {
        match (column.value)(row) {
            Value::Null => Self::Unknown,
            // Floats that are not negative compare as their bits do.
            value => match value.as_f64() {
                Some(figure) => Self::Figure(std::cmp::Reverse(figure.max(0.0).to_bits())),
                None => Self::Text(column.cell(row)),
            },
        }
    }
}
