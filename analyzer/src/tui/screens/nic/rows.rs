//! Rows: the queue pairs of the latest facts, with rates from two readings and the findings about them.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::Value;

use super::columns::{COLUMNS, Column};
use super::filter::NicFacts;
use crate::analysis::{Device, DeviceQp, QpSource};
use crate::findings::Finding;
use crate::model::Level;
use crate::tui::view::View;
use crate::util::map::Map;
use crate::util::units;

/// A queue pair, whatever its place in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) struct Key {
    device: String,
    port: Option<u32>,
    lqpn: u32,
    created_ns: Option<u64>,
}

/// Queue pair as a row.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    pub(super) device: &'a Device,
    pub(super) qp: &'a DeviceQp,
    /// Packets sent a second.
    pub(super) sent: Option<f64>,
    pub(super) received: Option<f64>,
    /// From its creation to its end, or to now.
    pub(super) age_ns: Option<u64>,
    /// Of the worst active finding about it.
    pub(super) level: Level,
}

/// The letter of a source.
pub(super) const fn letter(source: QpSource) -> char {
    match source {
        QpSource::Netlink => 'L',
        QpSource::ControlPath => 'V',
        QpSource::Devx => 'D',
        QpSource::Context => 'N',
        QpSource::Posts => 'P',
        QpSource::Packets => 'W',
    }
}

/// A source in words.
pub(super) const fn words(source: QpSource) -> &'static str {
    match source {
        QpSource::Netlink => "list",
        QpSource::ControlPath => "verbs",
        QpSource::Devx => "DEVX",
        QpSource::Context => "context",
        QpSource::Posts => "posts",
        QpSource::Packets => "wire",
    }
}

impl Row<'_> {
    /// Label of device and port.
    pub(super) fn label(&self) -> String {
        self.device.label()
    }

    /// Its state; of one that has ended, that.
    pub(super) fn state(&self) -> &'static str {
        if self.has_ended() { "ended" } else { self.qp.state.unwrap_or(units::UNKNOWN) }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.qp.control.is_over()
    }

    /// True if a finding is about it, it is dead, it stands still or it retries.
    pub(super) fn is_in_trouble(&self) -> bool {
        // A timeout of long ago is none.
        let (broken, stuck_ns, retries, _) = self.qp.trouble();
        self.level > Level::Fine || (broken, stuck_ns, retries) > (0, 0, 0)
    }

    /// Name and number of its process.
    pub(super) fn process(&self) -> Option<String> {
        match (&self.qp.comm, self.qp.pid) {
            (Some(comm), Some(pid)) => Some(format!("{comm} ({pid})")),
            (Some(comm), None) => Some(comm.clone()),
            (None, pid) => pid.map(|pid| pid.to_string()),
        }
    }

    pub(super) fn key(&self) -> Key {
        Key {
            device: self.device.name.clone(),
            port: self.device.port,
            lqpn: self.qp.lqpn,
            created_ns: self.qp.control.created_ns,
        }
    }
}

/// Order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) struct Order {
    /// Place of a column; `None` for the worst first.
    pub(super) by: Option<usize>,
    pub(super) reverse: bool,
}

/// True if there is any row.
pub(in crate::tui) fn any(view: &View) -> bool {
    devices(view).any(|device| !device.qps.is_empty())
}

fn devices(view: &View) -> impl Iterator<Item = &Device> {
    view.analysis.iter().flat_map(|analysis| &analysis.report.facts.devices)
}

/// The rows that the filter lets through, in order; and the number of all.
pub(super) fn rows(view: &View, order: Order) -> (Vec<Row<'_>>, usize) {
    let now_ns = view.analysis.as_ref().map(|analysis| analysis.time_ns);
    let mut all = Vec::new();
    for device in devices(view).filter(|device| !device.qps.is_empty()) {
        let findings = about(view, device);
        let per_s = rates(view, device);
        for qp in &device.qps {
            let by_psn = per_s.get(&qp.lqpn).copied().unwrap_or((None, None));
            let is_read = qp.sources.contains(&QpSource::Context);
            let readings = &view.timeline.readings;
            let by_context = if is_read { readings.rates(&device.name, qp.lqpn) } else { (None, None) };
            let control = &qp.control;
            let exists = !control.is_over();
            let own = findings.get(&qp.lqpn).into_iter().flatten().filter(|one| existed(one, qp));
            let end_ns = control.over_by().or(now_ns);
            all.push(Row {
                device,
                qp,
                sent: by_psn.0.or(by_context.0).filter(|_| exists),
                received: by_psn.1.or(by_context.1).filter(|_| exists),
                age_ns: control.created_ns.zip(end_ns).map(|(made, end)| end.saturating_sub(made)),
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

/// The active findings on a port that name queue pairs, by the numbers.
fn about<'a>(view: &'a View, device: &'a Device) -> Map<u32, Vec<&'a Finding>> {
    let mut by_number: Map<u32, Vec<&Finding>> = Map::default();
    for finding in findings_on(view, device) {
        for qpn in numbers(finding) {
            by_number.entry(qpn).or_default().push(finding);
        }
    }
    by_number
}

fn findings_on<'a>(view: &'a View, device: &'a Device) -> impl Iterator<Item = &'a Finding> {
    let all = view.concluded().map_or(&[][..], |concluded| concluded.findings);
    all.iter().filter(|one| {
        let is_here = match one.evidence["device"].as_str() {
            Some(label) => label == device.label(),
            None => one.place.link.as_deref() == device.interface.as_deref(),
        };
        one.active && one.evidence["lqpn"].is_u64() && is_here
    })
}

/// The queue pairs of this host that a finding names: the first of them, and the others that it lists.
fn numbers(finding: &Finding) -> BTreeSet<u32> {
    let others = finding.evidence["lqpns"].as_array();
    let all = std::iter::once(&finding.evidence["lqpn"]).chain(others.into_iter().flatten());
    all.filter_map(|qpn| u32::try_from(qpn.as_u64()?).ok()).collect()
}

/// True if the queue pair existed in the latest episode of a finding that names its number: numbers are reused.
fn existed(finding: &Finding, qp: &DeviceQp) -> bool {
    let control = &qp.control;
    let is_later = control.created_ns.zip(finding.last_seen_ns).is_some_and(|(made, seen)| made > seen);
    let is_earlier = control.over_by().zip(finding.since_ns()).is_some_and(|(end, since)| end < since);
    !is_later && !is_earlier
}

/// The active findings about a queue pair.
pub(super) fn findings<'a>(view: &'a View, row: &'a Row<'_>) -> impl Iterator<Item = &'a Finding> {
    let is_about = |one: &&Finding| numbers(one).contains(&row.qp.lqpn) && existed(one, row.qp);
    findings_on(view, row.device).filter(is_about)
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
        .then_with(|| b.qp.trouble().cmp(&a.qp.trouble()))
        .then_with(|| rate(b).total_cmp(&rate(a)))
        .then_with(|| place(a).cmp(&place(b)))
        .then_with(|| b.qp.control.created_ns.cmp(&a.qp.control.created_ns))
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
