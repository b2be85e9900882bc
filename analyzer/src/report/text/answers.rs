//! Request-to-ACK latency, and CNPs with the sender that they throttle.

use std::cmp::Reverse;
use std::fmt::Write as _;

use crate::analysis::{Flow, Latency, LatencyRange, Untimed};
use crate::metrics::latency::is_least;
pub(crate) use crate::metrics::latency::{P99_SAMPLES, P999_SAMPLES};
use crate::report::Report;
use crate::report::text::flows::{endpoints, link_name};
use crate::report::text::more;
use crate::util::layout::{Align, Table, wrap};
use crate::util::units::{self, plural};

/// Flows listed: those with the highest p99, or with most CNPs.
const LISTED: usize = 10;

/// Largest error of the centre of a latency bucket, in per cent: eight buckets to an octave.
const HALF_BUCKET: f64 = 100.0 / 16.0;

/// Requests that percentiles are of, and those that no time is known of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requests {
    pub(crate) answered: u64,
    pub(crate) unanswered: u64,
}

impl Requests {
    /// Those of a flow of a report. A recording does not say how many were not answered.
    pub(crate) fn of(flow: &Flow, latency: &Latency) -> Self {
        let unanswered = flow.latency_untimed.get().map_or(0, Untimed::unanswered);
        Self { answered: latency.count, unanswered }
    }

    /// The median of those that were answered as text.
    pub(crate) fn p50(self, ns: u64) -> String {
        self.percentile(500, ns, 1)
    }

    /// Their 99th percentile; a dash where they are too few.
    pub(crate) fn p99(self, ns: u64) -> String {
        self.percentile(990, ns, P99_SAMPLES)
    }

    /// Their 99.9th percentile; a dash where they are too few or it is not known.
    pub(crate) fn p999(self, ns: impl Into<Option<u64>>) -> String {
        self.percentile(999, ns, P999_SAMPLES)
    }

    /// The sign of a lower bound where the percentile of all requests may be longer.
    pub(crate) fn sign(self, per_mille: u64) -> &'static str {
        if is_least(per_mille, self.answered, self.unanswered) { units::LEAST } else { "" }
    }

    /// Marked where the percentile of all requests may be longer; a dash for fewer answers than `enough`.
    fn percentile(self, per_mille: u64, ns: impl Into<Option<u64>>, enough: u64) -> String {
        let least = self.sign(per_mille);
        let known = ns.into().filter(|_| self.answered >= enough);
        known.map_or_else(|| units::UNKNOWN.into(), |ns| format!("{least}{}", units::duration(ns)))
    }
}

/// True if a flow has enough samples for a 99th percentile.
pub(super) fn has_p99(report: &Report) -> bool {
    report
        .facts
        .flows
        .iter()
        .filter_map(|flow| flow.latency_ns.as_deref())
        .any(|one| one.count >= P99_SAMPLES)
}

/// Latencies from request to ACK or response.
pub(super) fn latency(report: &Report, room: usize) -> Vec<String> {
    let recording = report.facts.source.recording;
    let mut flows: Vec<_> =
        report.facts.flows.iter().filter_map(|flow| Some((flow, flow.latency_ns.as_deref()?))).collect();
    // Few samples have no tail.
    let solid = |latency: &Latency| latency.count >= P99_SAMPLES;
    flows.sort_by_key(|(_, latency)| Reverse((solid(latency), latency.p99, latency.count)));
    let few = flows.iter().take(LISTED).any(|(_, latency)| latency.count < P999_SAMPLES);
    let row = |(flow, latency): &(&Flow, &Latency)| {
        let requests = Requests::of(flow, latency);
        let (p50, p99) = (requests.p50(latency.p50), requests.p99(latency.p99));
        let (p999, max) = (requests.p999(latency.p999.get()), units::duration(latency.max));
        let [p50_range, p99_range] = flow.latency_range_ns.as_deref().map(ranges).unwrap_or_default();
        let p99_range = if latency.count < P99_SAMPLES { units::UNKNOWN.into() } else { p99_range };
        let times = if recording.is_some() {
            [p50, p50_range, p99, p99_range, max].to_vec()
        } else {
            [p50, p99, p999, max].to_vec()
        };
        let mut cells = identity(flow, report);
        cells.push(units::count(latency.count));
        cells.extend(times);
        cells
    };
    let rows: Vec<Vec<String>> = flows.iter().take(LISTED).map(row).collect();
    let bounded = rows.iter().flatten().any(|cell| cell.starts_with(units::LEAST));
    let headings: &[_] = match recording {
        Some(_) => &["SAMPLES", "p50", "p50 RANGE", "p99", "p99 RANGE", "MAX"],
        None => &["SAMPLES", "p50", "p99", "p99.9", "MAX"],
    };
    let mut lines = list(report, headings, rows, flows.len(), room, false);
    if !lines.is_empty() {
        let mut why = exactness(report);
        if few && recording.is_some() {
            let _ = write!(why, " p99 needs {P99_SAMPLES} samples.");
        } else if few {
            let _ = write!(why, " p99 needs {P99_SAMPLES} samples, p99.9 {}.", units::count(P999_SAMPLES));
        }
        if bounded {
            let sign = units::LEAST;
            let _ = write!(
                why,
                " {sign}: lower bound, as more requests were retransmitted or not answered than lie above it."
            );
        }
        why.extend(not_timed(&report.facts.flows));
        why.extend(not_answered(&report.facts.flows));
        lines.extend(wrap(&why, room));
    }
    lines
}

/// The ranges of the median and of the 99th percentile, of a recording.
pub(crate) fn ranges(of: &LatencyRange) -> [String; 2] {
    [(of.p50_least, of.p50_most), (of.p99_least, of.p99_most)]
        .map(|(least, most)| format!("{}–{}", units::duration(least), units::duration(most)))
}

/// Error bound of the percentiles.
fn exactness(report: &Report) -> String {
    let Some(recording) = report.facts.source.recording else {
        return format!(
            "Percentiles are centres of histogram buckets, within {HALF_BUCKET} %; MAX is exact."
        );
    };
    let each = recording.interval_ns.map_or_else(String::new, |ns| format!(" of {}", units::duration(ns)));
    format!(
        "Percentiles are made from those of the recording's intervals{each}: the true ones lie in the ranges. p99.9 is \
         not recorded. MAX is exact, with --from at most 12.5 % too long."
    )
}

/// Requests that are in none of the times, by reason; none where there are none.
fn not_timed(flows: &[Flow]) -> Option<String> {
    let sum =
        |of: fn(Untimed) -> u64| flows.iter().filter_map(|flow| flow.latency_untimed.get()).map(of).sum();
    let reasons: [(u64, &str); 4] = [
        (
            flows.iter().filter_map(|flow| flow.latency_unpaired.get()).sum(),
            "before the reverse flow was known",
        ),
        (sum(|untimed| untimed.ambiguous), "retransmitted, or without a response of their own"),
        (sum(|untimed| untimed.ring_full), "beyond 64 outstanding ones"),
        (sum(|untimed| untimed.untracked), "of flows beyond the limit of timed ones"),
    ];
    let all: u64 = reasons.iter().map(|(requests, _)| requests).sum();
    let by_reason = reasons.iter().filter(|(requests, _)| *requests > 0);
    let by_reason: Vec<String> =
        by_reason.map(|(requests, why)| format!("{} {why}", units::count(*requests))).collect();
    (all > 0).then(|| {
        format!(
            " Not timed: {} ({}); percentiles and maximum may be higher.",
            plural(all, "request"),
            by_reason.join(", ")
        )
    })
}

/// Requests that no answer was seen for by the end; none where there are none.
fn not_answered(flows: &[Flow]) -> Option<String> {
    let outstanding = flows.iter().filter_map(|flow| flow.latency_untimed.get());
    let outstanding: u64 = outstanding.map(|untimed: Untimed| untimed.outstanding).sum();
    (outstanding > 0).then(|| format!(" Not answered by the end: {}.", plural(outstanding, "request")))
}

/// CNPs, and the data rate of their receiver before and after.
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
    let headings = ["CNP", "RATE", "DATA QP", "CE TO CNP", "DATA BEFORE", "DATA AFTER"];
    let mut lines = list(report, &headings, rows.collect(), flows.len(), room, true);
    if flows.iter().any(|(_, cnp)| cnp.delay_ns.is_some()) {
        let what = "CE TO CNP: median time from the first CE mark since the previous CNP; where the NIC paces its CNPs, pacing dominates it.";
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
    let hidden = all - rows.len();
    let mut table = Table::new(columns);
    for row in rows {
        table.row(row);
    }
    // A line replaces a column of dashes.
    let unknown = table.take_out(units::UNKNOWN);
    let mut lines = table.lines(room);
    if !unknown.is_empty() && say_unknown {
        lines.extend(wrap(&format!("Unknown for all flows: {}.", unknown.join(", ")), room));
    }
    lines.extend(more(hidden));
    lines
}
