//! The top of the text: what was looked at, the sums, and what was lost.

use rocescope_common::wire::SkipReason;

use crate::analysis::{Coverage, Kind};
use crate::report::Report;
use crate::report::text::flows::link_name;
use crate::report::text::layout::{labelled, plain};
use crate::util::units::{self, plural};

/// Width of the labels at the left.
const LABEL: usize = 10;
/// Inputs named one by one; a report on a thousand files names the first of them.
const MAX_INPUTS: usize = 8;

pub(super) fn lines(report: &Report, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |label: &str, text: &str| lines.extend(labelled(label, LABEL, text, room));
    say("rocescope", &source(report));
    if let Some(filter) = &report.facts.source.filter {
        say("Filter", &format!("{}: everything else is left out", plain(filter)));
    }
    say("Window", &window(report));
    say("RoCE", &roce(report));
    if report.facts.totals.roce_packets > 0 {
        say("ECN", &ecn(report));
        say("CNP", &cnp(report));
    }
    if report.facts.totals.retired.flows > 0 {
        let retired = &report.facts.totals.retired;
        say(
            "Retired",
            &format!(
                "{} with {}, {}: in the sums, not in the table{}",
                plural(retired.flows, "closed flow"),
                plural(retired.packets, "packet"),
                units::bytes(retired.bytes),
                match report.facts.totals.counted_again.roce_packets {
                    Some(_) => "",
                    None => "; what several links saw of them is in the sums as often",
                }
            ),
        );
    }
    if report.facts.totals.roce_packets > 0 {
        for (n, sentence) in super::loss::headline(report).into_iter().enumerate() {
            say(if n == 0 { "Loss" } else { "" }, &sentence);
        }
    }
    say("Not seen", &lost(report));
    for coverage in coverage(report) {
        say("Coverage", &coverage);
    }
    for sentence in nothing_seen(report) {
        say("", &sentence);
    }
    lines
}

/// Bits per second over the report's window; `None` when it has no length.
pub(super) fn rate(bytes: u64, report: &Report) -> Option<f64> {
    let ns = report.facts.window.length_ns().filter(|ns| *ns > 0)?;
    Some(bytes as f64 * 8e9 / ns as f64)
}

fn source(report: &Report) -> String {
    let inputs = &report.facts.source.inputs;
    let named: Vec<String> = inputs.iter().take(MAX_INPUTS).map(|name| plain(name)).collect();
    let more = match inputs.len().saturating_sub(MAX_INPUTS) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let what = match report.facts.source.kind {
        Kind::Replay => "replay of",
        Kind::Live => "live on",
        Kind::Counters => "device counters of",
        Kind::Mixed => "packets and device counters of",
    };
    format!("{what} {}{more}", named.join(", "))
}

fn window(report: &Report) -> String {
    match (report.facts.window.first_ns, report.facts.window.length_ns()) {
        (Some(first), Some(length)) => {
            format!("{}, {} long", units::time_utc(first), units::duration(length))
        }
        _ => "no frame, so no time".into(),
    }
}

fn roce(report: &Report) -> String {
    let totals = &report.facts.totals;
    let of = |packets: u64, bytes: u64| {
        let rate = rate(bytes, report).map_or_else(String::new, |r| format!(", {}", units::bit_rate(r)));
        format!("{}, {}{rate}", plural(packets, "packet"), units::bytes(bytes))
    };
    let frames = format!("{}, {}", plural(totals.packets, "frame"), units::bytes(totals.bytes));
    let again = &totals.counted_again;
    if again.taps < 2 {
        return format!("{} (of {frames})", of(totals.roce_packets, totals.roce_bytes));
    }
    // Sums over taps, beside which a rate would be taken for the wire's.
    let sums = format!("{}, {}", plural(totals.roce_packets, "packet"), units::bytes(totals.roce_bytes));
    match again.roce_packets.zip(again.roce_bytes) {
        Some((packets, bytes)) => format!(
            "{}. Up to {} taps see each: together they counted {sums} (of {frames})",
            of(totals.roce_packets.saturating_sub(packets), totals.roce_bytes.saturating_sub(bytes)),
            again.taps
        ),
        None => format!("{sums}, counted at up to {} taps each (of {frames})", again.taps),
    }
}

/// Where several taps see the same packets, the share at the one with most: a mean over taps would thin out
/// what is marked between them.
fn ecn(report: &Report) -> String {
    let most = report.facts.links.iter().filter(|link| link.ce_ratio.is_some());
    let most = most.max_by(|a, b| a.ce_ratio.unwrap_or(0.0).total_cmp(&b.ce_ratio.unwrap_or(0.0)));
    match (report.facts.totals.ce_ratio, most) {
        (None, _) => "off: no data packet is ECN-capable".into(),
        (Some(ratio), Some(most)) if report.facts.totals.counted_again.taps > 1 && ratio > 0.0 => format!(
            "{} of ECN-capable data is marked CE on {}, more than elsewhere",
            units::ratio(most.ce_ratio),
            link_name(&most.name, most.direction)
        ),
        (ratio, _) => format!("{} of ECN-capable data is marked CE", units::ratio(ratio)),
    }
}

fn cnp(report: &Report) -> String {
    let totals = &report.facts.totals;
    match totals.counted_again.cnp_packets {
        Some(again) => units::count(totals.cnp_packets.saturating_sub(again)),
        None if totals.counted_again.taps < 2 => units::count(totals.cnp_packets),
        None => format!("{}, counted at each tap", units::count(totals.cnp_packets)),
    }
}

/// What rocescope itself did not see.
fn lost(report: &Report) -> String {
    let lost = &report.facts.totals.lost;
    let counters = [
        (Some(lost.flow_table_full), "packets in no flow (flow table full)"),
        (Some(lost.contended), "packets in no flow (its counters were kept by another processor)"),
        (Some(lost.extra_table_full), "packets without their port or opcode (overflow table full)"),
        (lost.events_dropped, "events (ring buffer full)"),
        (lost.bins_dropped, "packets missing from bursts and steps (ring buffer full)"),
        (lost.capture_drops, "packets dropped by the capture"),
        (lost.interface_drops, "packets dropped by the interface"),
    ];
    let some: Vec<String> = counters
        .iter()
        .filter_map(|(n, what)| n.filter(|n| *n > 0).map(|n| format!("{} {what}", units::count(n))))
        .collect();
    let known = if some.is_empty() { "nothing counted".into() } else { some.join("; ") };
    let unknown: Vec<&str> = [
        (lost.events_dropped, "events", report.facts.source.kind != Kind::Replay),
        (lost.capture_drops, "capture drops", report.facts.source.kind == Kind::Replay),
        (lost.interface_drops, "interface drops", report.facts.source.kind != Kind::Replay),
    ]
    .into_iter()
    .filter_map(|(n, what, applies)| (n.is_none() && applies).then_some(what))
    .collect();
    if unknown.is_empty() { known } else { format!("{known} (not known: {})", unknown.join(", ")) }
}

/// How much of what each port carried was seen.
fn coverage(report: &Report) -> Vec<String> {
    let one = |coverage: &Coverage| {
        let of = format!("{}/{} {}", plain(&coverage.device), coverage.port, coverage.direction);
        let counted = match (coverage.counted_packets, &coverage.source) {
            (Some(packets), Some(source)) => {
                format!(
                    "{} of {} ({source})",
                    units::count(coverage.seen_packets),
                    plural(packets, "RoCE packet")
                )
            }
            _ => "not known: no counter of the device tells RoCE packets".into(),
        };
        let ratio =
            coverage.ratio.map_or_else(String::new, |ratio| format!("{}, ", units::ratio(Some(ratio))));
        let why = coverage.why.as_ref().map_or_else(String::new, |why| format!(": {}", plain(why)));
        format!("{of}: {ratio}{counted}{why}")
    };
    report.facts.coverage.iter().map(one).collect()
}

/// Why there is nothing to see, and what would help.
fn nothing_seen(report: &Report) -> Vec<String> {
    let totals = &report.facts.totals;
    if totals.roce_packets > 0 {
        return Vec::new();
    }
    let of = |reason: SkipReason| totals.skipped.0.iter().find(|(r, _)| *r == reason).map_or(0, |(_, n)| *n);
    let mut why = Vec::new();
    let cut = of(SkipReason::Truncated) + of(SkipReason::TruncatedHeaders);
    if cut > 0 {
        why.push(format!(
            "{} frames were cut too early to be counted: capture 128 bytes of each (tcpdump -s 128).",
            units::count(cut)
        ));
    }
    if of(SkipReason::Filtered) > 0 {
        why.push(format!("{} RoCE packets did not match --filter.", units::count(of(SkipReason::Filtered))));
    }
    if of(SkipReason::LinkTypeUnsupported) > 0 {
        why.push("The capture's link type is not supported: capture on an Ethernet interface.".into());
    }
    if report.facts.source.kind == Kind::Live {
        why.push(
            "No RoCE packet passed. A NIC that does RoCE in hardware shows none of it to XDP or TC: \
             watch a mirror port, or read libpcap's RDMA sniffer where the NIC allows it: \
             tcpdump -U -s 128 -i mlx5_0 -w - | rocescope replay -"
                .into(),
        );
    } else if report.facts.source.kind == Kind::Counters {
        why.push(
            "No RoCE packet passes these interfaces, since the NIC handles RoCE in hardware: what it counted itself is \
             under DEVICES. For packets watch a mirror port, or read libpcap's RDMA sniffer where the NIC allows it: \
             tcpdump -U -s 128 -i mlx5_0 -w - | rocescope replay -"
                .into(),
        );
    } else if report.facts.source.kind == Kind::Mixed {
        why.push("No RoCE packet passed so far.".into());
    } else if totals.packets == 0 {
        why.push("There was no frame at all.".into());
    } else if why.is_empty() {
        why.push(
            "None of the frames is RoCE. Was it captured on the port that carries it, and with its \
             RDMA device (tcpdump -i mlx5_0) where the NIC does RoCE in hardware?"
                .into(),
        );
    }
    why
}
