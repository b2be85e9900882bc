//! Queue pairs of the host's NICs: those that died first, then stalled ones.

use std::cmp::Reverse;

use super::markup::Markup;
use crate::analysis::{Device, DeviceQp, ERROR, GONE, NUMBER_REUSED};
use crate::report::Report;
use crate::util::units;

/// Maximum number of queue pairs listed.
const LISTED: usize = 100;

/// A column: heading, true for a number, and its text.
type Column = (&'static str, bool, fn(&Device, &DeviceQp) -> Option<String>);

/// The first one stays in view when the others scroll.
const COLUMNS: [Column; 24] = [
    ("Queue pair", false, |device, qp| Some(format!("{} QP {}", device.label(), qp.lqpn))),
    ("State", false, |_, qp| {
        if qp.control.is_over() { Some("ended".to_owned()) } else { qp.state.map(str::to_owned) }
    }),
    ("End", false, end),
    ("Peer", false, |_, qp| qp.control.dst.map(|dst| dst.to_string())),
    ("Peer QP", true, |_, qp| qp.rqpn.map(|qpn| qpn.to_string())),
    ("No progress for", true, |_, qp| qp.stuck_ns.filter(|ns| *ns > 0).map(units::duration)),
    ("In flight", true, |_, qp| qp.in_flight.map(|n| units::count(n.into()))),
    ("Retries", true, |_, qp| used(qp.retries_used, qp.control.retry_cnt.map(|most| most.to_string()))),
    ("RNR retries", true, |_, qp| {
        // A count of 7 has no limit (IBTA 9.7.5.2.8).
        let most = qp.control.rnr_retry.map(|most| if most == 7 { "∞".to_owned() } else { most.to_string() });
        used(qp.rnr_retries_used, most)
    }),
    ("Timeouts", true, |_, qp| {
        // Several queue pairs may have the same ones, unless they are certainly its own.
        let most = if qp.attribution == Some("likely") { "up to " } else { "" };
        qp.timeouts.map(|timeouts| format!("{most}{}", units::count(timeouts)))
    }),
    ("Sent", true, |_, qp| packets(qp, qp.sent_packets)),
    ("Received", true, |_, qp| packets(qp, qp.received_packets)),
    ("Own address", false, |_, qp| qp.control.src.map(|src| src.to_string())),
    ("UDP port", true, |_, qp| qp.control.udp_port.map(|port| port.to_string())),
    ("Plane", true, |_, qp| qp.plane.map(|plane| plane.to_string())),
    ("Bond port", true, |_, qp| qp.bond_port.map(|port| port.to_string())),
    ("Type", false, |_, qp| qp.kind.map(str::to_owned)),
    ("DSCP", true, |_, qp| qp.control.dscp.map(|dscp| dscp.to_string())),
    ("Path MTU", true, |_, qp| qp.control.path_mtu.map(|mtu| mtu.to_string())),
    ("Timeout set", true, |_, qp| match qp.control.timeout_ns {
        Some(0) => Some("never".to_owned()),
        timeout_ns => timeout_ns.map(units::duration),
    }),
    ("Created", true, |_, qp| qp.control.created_ns.map(units::clock_utc)),
    ("Ended", true, |_, qp| qp.control.ended_ns.map(units::clock_utc)),
    ("PID", true, |_, qp| qp.pid.map(|pid| pid.to_string())),
    ("Process", false, |_, qp| match (&qp.comm, &qp.pod) {
        (Some(comm), Some(pod)) => Some(format!("{comm} in {pod}")),
        (comm, pod) => comm.clone().or_else(|| pod.clone()),
    }),
];

fn packets(qp: &DeviceQp, n: Option<u64>) -> Option<String> {
    n.map(|n| format!("{}{}", qp.packets_mark(), units::count(n)))
}

/// Retries in use, of those that are set.
fn used(used: Option<u8>, most: Option<String>) -> Option<String> {
    match (used, most) {
        (Some(used), Some(most)) => Some(format!("{used} of {most}")),
        (used, None) => used.map(|used| used.to_string()),
        (None, Some(most)) => Some(format!("{} of {most}", units::UNKNOWN)),
    }
}

/// The kind of its end; of one that died with the time and the reason.
fn end(device: &Device, qp: &DeviceQp) -> Option<String> {
    let control = &qp.control;
    let words = match control.end? {
        ERROR => "died",
        NUMBER_REUSED => "number in use again, end not seen",
        GONE => "gone, end not seen",
        end => end,
    };
    let death = device.deaths_of(qp).next().filter(|_| control.end == Some(ERROR));
    let Some(event) = death else { return Some(words.to_owned()) };
    let reason = device.end_reason(qp).unwrap_or(&event.event);
    Some(format!("{words} {}: {reason}", units::clock_utc(event.time_ns)))
}

/// The section; empty without queue pairs.
pub(super) fn section(report: &Report) -> Markup {
    let mut page = Markup::default();
    let mut all: Vec<(&Device, &DeviceQp)> = report
        .facts
        .devices
        .iter()
        .flat_map(|device| device.qps.iter().map(move |qp| (device, qp)))
        .collect();
    if all.is_empty() {
        return page;
    }
    all.sort_by_key(|(_, qp)| Reverse(qp.rank()));
    let left_out: u64 = report.facts.devices.iter().map(|device| device.qps_left_out).sum();
    let hidden = all.len().saturating_sub(LISTED) as u64 + left_out;
    all.truncate(LISTED);
    let known = |(_, _, get): &&Column| all.iter().any(|(device, qp)| get(device, qp).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(known).collect();
    page.raw("<p class=\"hint\">Times are UTC; MTU in bytes.</p>\n");
    page.raw("<div class=\"wide\"><table class=\"flows qps\"><thead><tr>");
    for (title, number, _) in &columns {
        page.leaf("th", if *number { "n" } else { "" }, title);
    }
    page.raw("</tr></thead><tbody>\n");
    for (device, qp) in &all {
        let is_over = qp.control.is_over() && !qp.fault_rank().any();
        page.open("tr", &[("class", if is_over { "ended" } else { "" })]);
        for (_, number, get) in &columns {
            let text = get(device, qp).unwrap_or_else(|| units::UNKNOWN.to_owned());
            page.leaf("td", if *number { "n" } else { "" }, &text);
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table></div>\n");
    if hidden > 0 {
        page.leaf("p", "hint", &format!("… and {}", units::plural(hidden, "more queue pair")));
    }
    page
}
