//! Queue pairs of the host's NICs, stalled ones first.

use std::cmp::Reverse;

use super::markup::Markup;
use crate::analysis::{Device, DeviceQp};
use crate::report::Report;
use crate::util::units;

/// Maximum number of queue pairs listed.
const LISTED: usize = 100;

/// A column: heading, true for a number, and its text.
type Column = (&'static str, bool, fn(&Device, &DeviceQp) -> Option<String>);

const COLUMNS: [Column; 16] = [
    ("Device", false, |device, _| {
        Some(device.port.map_or_else(|| device.name.clone(), |port| format!("{}/{port}", device.name)))
    }),
    ("QP", true, |_, qp| Some(qp.lqpn.to_string())),
    ("Peer QP", true, |_, qp| qp.rqpn.map(|qpn| qpn.to_string())),
    ("Peer", false, |_, qp| qp.control.dst.map(|dst| dst.to_string())),
    ("Type", false, |_, qp| qp.kind.map(str::to_owned)),
    ("State", false, |_, qp| {
        if qp.control.is_over() { Some("ended".to_owned()) } else { qp.state.map(str::to_owned) }
    }),
    ("No progress for", true, |_, qp| qp.stuck_ns.filter(|ns| *ns > 0).map(units::duration)),
    ("In flight", true, |_, qp| qp.in_flight.map(|n| units::count(n.into()))),
    ("Retries", true, |_, qp| qp.retries_used.map(|n| n.to_string())),
    ("RNR retries", true, |_, qp| qp.rnr_retries_used.map(|n| n.to_string())),
    ("Timeouts", true, |_, qp| qp.timeouts.map(units::count)),
    ("Sent", true, |_, qp| qp.sent_packets.map(units::count)),
    ("Received", true, |_, qp| qp.received_packets.map(units::count)),
    ("DSCP", true, |_, qp| qp.control.dscp.map(|dscp| dscp.to_string())),
    ("PID", true, |_, qp| qp.pid.map(|pid| pid.to_string())),
    ("Process", false, |_, qp| match (&qp.comm, &qp.pod) {
        (Some(comm), Some(pod)) => Some(format!("{comm} in {pod}")),
        (comm, pod) => comm.clone().or_else(|| pod.clone()),
    }),
];

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
    all.sort_by_key(|(_, qp)| {
        let moved = qp.sent_packets.unwrap_or(0) + qp.received_packets.unwrap_or(0);
        Reverse((qp.stuck_ns.unwrap_or(0), qp.retries_used.unwrap_or(0), moved))
    });
    let left_out: u64 = report.facts.devices.iter().map(|device| device.qps_left_out).sum();
    let hidden = all.len().saturating_sub(LISTED) as u64 + left_out;
    all.truncate(LISTED);
    let known = |(_, _, get): &&Column| all.iter().any(|(device, qp)| get(device, qp).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(known).collect();
    page.raw("<div class=\"wide\"><table><thead><tr>");
    for (title, number, _) in &columns {
        page.leaf("th", if *number { "n" } else { "" }, title);
    }
    page.raw("</tr></thead><tbody>\n");
    for (device, qp) in &all {
        page.raw("<tr>");
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
