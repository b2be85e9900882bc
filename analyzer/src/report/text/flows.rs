//! The flow table: the busiest flows, then smaller ones with errors.

use std::cmp::Reverse;
use std::collections::HashSet;

pub(super) use crate::analysis::link_name;
use crate::analysis::loss::counted_responses;
use crate::analysis::{Flow, Psn};
use crate::report::Report;
use crate::report::text::rate;
use crate::util::layout::{Align, Table, labelled};
use crate::util::units;

/// Flows listed because they carry most bytes.
const BUSIEST: usize = 20;
/// Flows listed because of their errors: NAKs are in small flows.
const TROUBLED: usize = 10;

/// In front of the numbers of a flow that takes two lines.
const INDENT: &str = "    ";

/// A column of counts.
#[derive(Clone, Copy)]
struct Figure {
    heading: &'static str,
    /// `None`: unknown, or not applicable to the flow.
    of: fn(&Flow) -> Option<u64>,
    /// True for what ACKs and NAKs show, which many flows do not carry.
    of_answers: bool,
}

const fn figure(heading: &'static str, of: fn(&Flow) -> Option<u64>) -> Figure {
    Figure { heading, of, of_answers: false }
}

/// Most important first: where the width does not suffice, the last are left out. NAKs are, as in the report, those
/// that travel in the flow: its source sent them. The screen has them in the row of the data that they answer.
const FIGURES: [Figure; 7] = [
    figure("CNP", |flow| Some(flow.cnps_dedup())),
    figure("GAPS", |flow| sequences(flow, |psn| psn.gaps)),
    figure("MISSING", missing),
    Figure { of_answers: true, ..figure("NAK TX", |flow| flow.of_answers(|flow| flow.naks_dedup().total())) },
    Figure { of_answers: true, ..figure("RNR TX", |flow| flow.of_answers(Flow::rnr_naks_dedup)) },
    figure("RETX", retransmissions),
    figure("RESTARTS", |flow| sequences(flow, |psn| psn.restarts)),
];

/// PSN gaps in either sequence of a flow, in packets: lost or reordered.
pub(crate) fn missing(flow: &Flow) -> Option<u64> {
    sequences(flow, |psn| psn.missing)
}

/// Retransmissions in either sequence of a flow, repeated READ requests included; `None` where a
/// sequence with packets behind the expected PSN was not followed.
pub(crate) fn retransmissions(flow: &Flow) -> Option<u64> {
    let both = [
        (flow.psn.get(), flow.loss.get()),
        (flow.psn_responses.as_deref().copied(), flow.loss_responses.get()),
    ];
    // A recording has losses and no PSNs.
    let mut present = both.iter().filter(|(psn, loss)| psn.is_some() || loss.is_some()).peekable();
    present.peek()?;
    present.try_fold(0, |sum, (psn, loss)| match loss {
        Some(loss) => Some(sum + loss.retransmissions()),
        None => psn.filter(|psn| psn.repeats == 0).map(|_| sum),
    })
}

/// The sum over both sequences of a flow; `None` when neither is known.
fn sequences(flow: &Flow, of: fn(&Psn) -> u64) -> Option<u64> {
    let both = [flow.psn.get(), counted_responses(flow)];
    both.iter().any(Option::is_some).then(|| both.iter().flatten().map(of).sum())
}

/// ` (8 distinct, at up to 2 taps)` where several taps see the same flows.
pub(super) fn distinct(report: &Report) -> String {
    let flows = &report.facts.flows;
    let names: HashSet<_> = flows.iter().map(|flow| (flow.src, flow.dst, flow.dest_qp)).collect();
    match report.facts.totals.counted_again.taps {
        taps if taps > 1 && names.len() < flows.len() => {
            format!(" ({} distinct, at up to {taps} taps)", units::count(names.len() as u64))
        }
        _ => String::new(),
    }
}

/// The section's lines, `room` columns wide.
pub(super) fn lines(report: &Report, room: usize) -> Vec<String> {
    let mut order: Vec<&Flow> = report.facts.flows.iter().collect();
    order.sort_by_key(|flow| Reverse(flow.bytes_dedup()));
    let (busiest, rest) = order.split_at(order.len().min(BUSIEST));
    let mut troubled: Vec<&Flow> =
        rest.iter().copied().filter(|flow| flow.fault_rank().errors() > 0).collect();
    let troubled_in_all = troubled.len();
    troubled.sort_by_key(|flow| Reverse(flow.fault_rank()));
    troubled.truncate(TROUBLED);

    let shown: Vec<&Flow> = busiest.iter().chain(&troubled).copied().collect();
    let (metrics, zero): (Vec<Figure>, Vec<Figure>) = FIGURES.into_iter().partition(|figure| {
        let all = || report.facts.flows.iter().map(figure.of);
        // Of a flow with a sequence, only trouble is unknown; what carries no answers shows no NAKs, either.
        let unknown = |flow: &Flow| {
            !figure.of_answers && sequences(flow, |_| 0).is_some() && (figure.of)(flow).is_none()
        };
        let none_known = !figure.of_answers && all().all(|n| n.is_none());
        all().any(|n| n > Some(0)) || none_known || report.facts.flows.iter().any(unknown)
    });
    let (unknown, zero): (Vec<Figure>, Vec<Figure>) = zero
        .into_iter()
        .partition(|figure| report.facts.flows.iter().all(|flow| (figure.of)(flow).is_none()));
    let (mut lines, left_out) = table(report, &shown, &metrics, room);
    if !troubled.is_empty() {
        // The heading is first; a flow takes one line or two.
        let per_flow = (lines.len() - 1) / shown.len();
        lines.insert(1 + per_flow * busiest.len(), "… smaller flows with errors:".into());
    }
    let hidden = report.facts.flows.len() - shown.len();
    if hidden > 0 {
        lines.push(match troubled_in_all - troubled.len() {
            0 => format!("… and {} more", units::count(hidden as u64)),
            n => format!(
                "… and {} more, {} of them with errors",
                units::count(hidden as u64),
                units::count(n as u64)
            ),
        });
    }
    for (label, headings) in [
        ("All zero: ", names(&zero)),
        ("Unknown without ACK or NAK: ", names(&unknown)),
        ("Omitted columns: ", left_out.join(", ")),
    ] {
        if !headings.is_empty() {
            lines.extend(labelled(label, label.len(), &headings, room));
        }
    }
    lines
}

fn names(metrics: &[Figure]) -> String {
    metrics.iter().map(|figure| figure.heading).collect::<Vec<_>>().join(", ")
}

/// One line per flow where that fits, else two: the flow's identity above its numbers. Also the
/// headings of columns that do not fit.
fn table(
    report: &Report,
    flows: &[&Flow],
    metrics: &[Figure],
    room: usize,
) -> (Vec<String>, Vec<&'static str>) {
    let links = report.facts.links.len() > 1;
    let mut identity = vec![("FLOW", Align::Left), ("QP", Align::Right)];
    if links {
        identity.push(("LINK", Align::Left));
    }
    let mut one = Table::new(identity.into_iter().chain(headings(flows, metrics)).collect());
    for flow in flows {
        let mut cells = vec![endpoints(flow), flow.dest_qp.to_string()];
        if links {
            cells.push(link(flow));
        }
        cells.extend(numbers(report, flow, metrics));
        one.row(cells);
    }
    if one.fits(room) {
        return (one.lines(room), Vec::new());
    }

    let room = room.saturating_sub(INDENT.len());
    for kept in (0..=metrics.len()).rev() {
        let (kept, out) = metrics.split_at(kept);
        let mut two = Table::new(headings(flows, kept).collect());
        for flow in flows {
            two.row(numbers(report, flow, kept));
        }
        if !two.fits(room) && !kept.is_empty() {
            continue;
        }
        let mut all = Vec::new();
        for (i, metrics) in two.lines(room).into_iter().enumerate() {
            if let Some(flow) = i.checked_sub(1).and_then(|i| flows.get(i)) {
                let on = if links { format!(" on {}", link(flow)) } else { String::new() };
                all.push(format!("{} QP {}{on}", endpoints(flow), flow.dest_qp));
            }
            all.push(format!("{INDENT}{metrics}"));
        }
        return (all, out.iter().map(|figure| figure.heading).collect());
    }
    (Vec::new(), Vec::new())
}

fn headings(flows: &[&Flow], metrics: &[Figure]) -> impl Iterator<Item = (&'static str, Align)> {
    let marked = marked(flows.iter().all(|flow| flow.roce_version.is_none()));
    let fixed = ["BYTES", "RATE", marked, "PORTS"].into_iter();
    fixed.chain(metrics.iter().map(|figure| figure.heading)).map(|heading| (heading, Align::Right))
}

fn numbers(report: &Report, flow: &Flow, metrics: &[Figure]) -> Vec<String> {
    let mut cells = vec![
        units::bytes(flow.bytes_dedup()),
        rate(flow.bytes_dedup(), report).map_or_else(|| units::UNKNOWN.into(), units::bit_rate),
        units::ratio(flow.ce_ratio()),
        short(flow.src_port_count.get()),
    ];
    cells.extend(metrics.iter().map(|figure| short((figure.of)(flow))));
    cells
}

/// Heading of the share of marked packets.
pub(super) const fn marked(infiniband: bool) -> &'static str {
    if infiniband { "FECN" } else { "CE" }
}

/// All digits up to five of them, then three and a prefix.
fn short(n: Option<u64>) -> String {
    match n {
        Some(n) if n >= 100_000 => units::si(n as f64),
        n => units::count_or_unknown(n),
    }
}

pub(super) fn endpoints(flow: &Flow) -> String {
    format!("{} → {}", flow.src, flow.dst)
}

fn link(flow: &Flow) -> String {
    link_name(&flow.link, flow.direction)
}
