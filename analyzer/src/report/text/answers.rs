//! What answers tell: how long they take, and who is told to slow down.

use std::cmp::Reverse;

use crate::analysis::{Flow, Latency};
pub(crate) use crate::metrics::latency::P99_SAMPLES;
use crate::report::Report;
use crate::report::text::flows::{endpoints, link_name};
use crate::report::text::layout::{Align, Table, wrap};
use crate::util::units;

/// Flows listed, those with the longest tails, or most notifications.
const LISTED: usize = 10;

/// Samples from which on the 99.9th percentile is told, see [`P99_SAMPLES`].
pub(crate) const P999_SAMPLES: u64 = 1_000;

/// A time that rests on `count` samples, of which it wants `least`.
pub(crate) fn enough(ns: u64, count: u64, least: u64) -> String {
    if count < least { units::UNKNOWN.into() } else { units::duration(ns) }
}

/// Times from request to answer.
pub(super) fn latency(report: &Report, room: usize) -> Vec<String> {
    let mut flows: Vec<_> =
        report.facts.flows.iter().filter_map(|flow| Some((flow, flow.latency_ns.as_ref()?))).collect();
    // A tail of few samples is no tail.
    let solid = |latency: &Latency| latency.count >= P99_SAMPLES;
    flows.sort_by_key(|(_, latency)| Reverse((solid(latency), latency.p99, latency.count)));
    let few = flows.iter().take(LISTED).any(|(_, latency)| latency.count < P999_SAMPLES);
    let rows = flows.iter().take(LISTED).map(|(flow, latency)| {
        let times = [
            units::duration(latency.p50),
            enough(latency.p99, latency.count, P99_SAMPLES),
            enough(latency.p999, latency.count, P999_SAMPLES),
            units::duration(latency.max),
        ];
        let mut cells = identity(flow, report);
        cells.push(units::count(latency.count));
        cells.extend(times);
        cells
    });
    let headings = ["SAMPLES", "P50", "P99", "P99.9", "MAX"];
    let mut lines = list(report, &headings, rows.collect(), flows.len(), room, false);
    if few {
        let why =
            format!("P99 is told from {P99_SAMPLES} samples on, P99.9 from {}.", units::count(P999_SAMPLES));
        lines.extend(wrap(&why, room));
    }
    lines
}

/// Notifications, and what they did.
pub(super) fn notifications(report: &Report, room: usize) -> Vec<String> {
    let mut flows: Vec<_> =
        report.facts.flows.iter().filter_map(|flow| Some((flow, flow.cnp.as_ref()?))).collect();
    flows.sort_by_key(|(flow, _)| Reverse(flow.cnp_packets));
    let rows = flows.iter().take(LISTED).map(|(flow, cnp)| {
        let rate =
            |bps: Option<u64>| bps.map_or_else(|| units::UNKNOWN.into(), |bps| units::bit_rate(bps as f64));
        let mut cells = identity(flow, report);
        cells.push(units::count(flow.cnp_packets));
        cells.push(cnp.per_second.map_or_else(|| units::UNKNOWN.into(), units::per_second));
        cells.push(
            cnp.answers.as_ref().map_or_else(|| units::UNKNOWN.into(), |data| data.dest_qp.to_string()),
        );
        cells.push(cnp.delay_ns.map_or_else(|| units::UNKNOWN.into(), |delay| units::duration(delay.p50)));
        cells.push(rate(cnp.rate_before_bps));
        cells.push(rate(cnp.rate_after_bps));
        cells
    });
    let headings = ["CNP", "PER S", "DATA TO", "MARK TO CNP", "BEFORE", "AFTER"];
    let mut lines = list(report, &headings, rows.collect(), flows.len(), room, true);
    if flows.iter().any(|(_, cnp)| cnp.delay_ns.is_some()) {
        let what = "MARK TO CNP is the median from the first mark since the CNP before: where the NIC paces its CNPs, that is most of it.";
        lines.extend(wrap(what, room));
    }
    lines
}

fn identity(flow: &Flow, report: &Report) -> Vec<String> {
    let mut cells = vec![endpoints(flow), flow.dest_qp.to_string()];
    if report.facts.links.len() > 1 {
        cells.push(link_name(&flow.link, flow.direction));
    }
    cells
}

fn list(
    report: &Report,
    headings: &[&'static str],
    rows: Vec<Vec<String>>,
    all: usize,
    room: usize,
    say_unknown: bool,
) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let mut columns = vec![("FLOW", Align::Left), ("QP", Align::Right)];
    if report.facts.links.len() > 1 {
        columns.push(("LINK", Align::Left));
    }
    columns.extend(headings.iter().map(|heading| (*heading, Align::Right)));
    let more = all - rows.len();
    let mut table = Table::new(columns);
    for row in rows {
        table.row(row);
    }
    // A column of dashes says nothing that a line does not say better.
    let unknown = table.take_out(units::UNKNOWN);
    let mut lines = table.lines(room);
    if !unknown.is_empty() && say_unknown {
        lines.extend(wrap(&format!("Not known of any of them: {}.", unknown.join(", ")), room));
    }
    if more > 0 {
        lines.push(format!("… and {} more", units::count(more as u64)));
    }
    lines
}
