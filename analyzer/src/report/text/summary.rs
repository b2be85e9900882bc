//! The top of the text: source, totals, losses and drops.

use rocescope_common::wire::SkipReason;

use crate::analysis::{Coverage, Ecn, InputKind};
use crate::report::Report;
use crate::report::text::flows::link_name;
use crate::report::text::rate;
use crate::sample::tunnels::not_decoded_live;
use crate::util::layout::{labelled, plain};
use crate::util::style::{Paint, Role};
use crate::util::units::{self, plural};

/// Width of the labels at the left.
const LABEL: usize = 10;
/// Inputs named one by one; a report on a thousand files names the first of them.
const MAX_INPUTS: usize = 8;

pub(super) fn lines(report: &Report, room: usize, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    for (label, text) in sentences(report) {
        let mut own = labelled(label, LABEL, &text, room);
        if let Some(first) = own.first_mut() {
            *first = paint.head(Role::Dim, first, LABEL);
        }
        lines.extend(own);
    }
    lines
}

/// The sentences of the summary, each with its label; one without continues the one before.
pub(crate) fn sentences(report: &Report) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let mut say = |label: &'static str, text: &str| all.push((label, text.to_owned()));
    say("rocescope", &source(report));
    if let Some(filter) = &report.facts.source.filter {
        say("Filter", &plain(filter));
    }
    say("Time", &window(report));
    say(if report.facts.is_infiniband() { "IB" } else { "RoCE" }, &roce(report));
    if report.facts.totals.roce_packets > 0 {
        let (marks, notifications) =
            if report.facts.is_infiniband() { ("FECN", "BECN") } else { ("ECN", "CNP") };
        say(marks, &ecn(report));
        say(notifications, &cnp(report));
    }
    if report.facts.totals.retired.flows > 0 {
        let retired = &report.facts.totals.retired;
        say(
            "Retired",
            &format!(
                "{} with {}, {}: included in the totals, not in the flow table{}",
                plural(retired.flows, "idle flow"),
                plural(retired.packets, "packet"),
                units::bytes(retired.bytes),
                match report.facts.totals.counted_again.roce_packets {
                    Some(_) => "",
                    None => "; packets seen on several links are counted once per link",
                }
            ),
        );
    }
    if report.facts.totals.roce_packets > 0 {
        for (label, sentences) in super::loss::headline(report) {
            for (n, sentence) in sentences.iter().enumerate() {
                say(if n == 0 { label } else { "" }, sentence);
            }
        }
    }
    say("Drops", &drops(report));
    if let Some(sentence) = not_decoded(report) {
        say("Tunnels", &sentence);
    }
    for coverage in coverage(report) {
        say("Coverage", &coverage);
    }
    for sentence in nothing_seen(report) {
        say("", &sentence);
    }
    all
}

fn source(report: &Report) -> String {
    let inputs = &report.facts.source.inputs;
    let named: Vec<String> = inputs.iter().take(MAX_INPUTS).map(|name| plain(name)).collect();
    let more = match inputs.len().saturating_sub(MAX_INPUTS) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let what = match report.facts.source.kind {
        InputKind::Replay => "replay of",
        InputKind::Live => "live on",
        InputKind::Counters => "device counters of",
        InputKind::Mixed => "packets and device counters of",
    };
    format!("{what} {}{more}", named.join(", "))
}

fn window(report: &Report) -> String {
    match (report.facts.window.first_ns, report.facts.window.length_ns()) {
        (Some(first), Some(length)) => {
            format!("{}, {}", units::time_utc(first), units::duration(length))
        }
        _ => "no frames".into(),
    }
}

fn roce(report: &Report) -> String {
    let totals = &report.facts.totals;
    let duplicates = totals.duplicates.as_deref().copied().unwrap_or_default();
    let of = |packets: u64, bytes: u64| {
        let once = bytes.saturating_sub(duplicates.bytes);
        let rate = rate(once, report).map_or_else(String::new, |r| format!(", {}", units::bit_rate(r)));
        let twice = match duplicates.packets {
            0 => String::new(),
            duplicates => format!(
                " ({} of them duplicates, not in rates and tables [capture.duplicates])",
                units::count(duplicates)
            ),
        };
        format!("{}{twice}, {}{rate}", plural(packets, "packet"), units::bytes(bytes))
    };
    let frames = format!("{}, {}", plural(totals.packets, "frame"), units::bytes(totals.bytes));
    let again = &totals.counted_again;
    if again.taps < 2 {
        return format!("{} (of {frames})", of(totals.roce_packets, totals.roce_bytes));
    }
    // A rate of sums over taps is not the rate of any wire.
    let sums = format!("{}, {}", plural(totals.roce_packets, "packet"), units::bytes(totals.roce_bytes));
    match again.roce_packets.zip(again.roce_bytes) {
        Some((packets, bytes)) => format!(
            "{}; deduplicated, up to {} taps show the same packet: {sums} at all taps (of {frames})",
            of(totals.roce_packets.saturating_sub(packets), totals.roce_bytes.saturating_sub(bytes)),
            again.taps
        ),
        None => format!("{sums}, counted once per tap, at up to {} taps (of {frames})", again.taps),
    }
}

/// The CE ratio; of several taps that see the same packets, the highest: a mean over taps would dilute
/// marks that are set between them.
fn ecn(report: &Report) -> String {
    let most = report.facts.links.iter().filter(|link| link.ce_ratio.is_some());
    let most = most.max_by(|a, b| a.ce_ratio.unwrap_or(0.0).total_cmp(&b.ce_ratio.unwrap_or(0.0)));
    if report.facts.is_infiniband() {
        return format!(
            "{} of the run's data packets FECN-marked",
            units::ratio(report.facts.totals.ce_ratio)
        );
    }
    match (report.facts.totals.ce_ratio, most) {
        (None, _) => without_ecn(report).into(),
        (Some(ratio), Some(most)) if report.facts.totals.counted_again.taps > 1 && ratio > 0.0 => format!(
            "{} of the run's ECN-capable data CE-marked on {}, the highest of all links",
            units::ratio(most.ce_ratio),
            link_name(&most.name, most.direction)
        ),
        (ratio, _) => format!("{} of the run's ECN-capable data CE-marked", units::ratio(ratio)),
    }
}

/// Why no data packet is ECN-capable.
fn without_ecn(report: &Report) -> &'static str {
    let Ecn { not_ect, .. } = report.facts.totals.ecn_data;
    if not_ect > 0 || report.facts.is_recording() {
        return "not enabled: all data is Not-ECT";
    }
    let v1 = report.facts.flows.iter().any(|flow| flow.roce_version == Some(1) && flow.has_sequence());
    if v1 { "none: RoCEv1 has no ECN bits" } else { "unknown: no data packets" }
}

fn cnp(report: &Report) -> String {
    let totals = &report.facts.totals;
    let duplicates = totals.duplicates.as_deref().map_or(0, |duplicates| duplicates.cnp_packets);
    match totals.counted_again.cnp_packets {
        Some(again) => units::count(totals.cnp_packets.saturating_sub(again + duplicates)),
        None if totals.counted_again.taps < 2 => units::count(totals.cnp_packets),
        None => format!("{}, counted once per tap", units::count(totals.cnp_packets)),
    }
}

/// Packets and events that rocescope or the capture dropped.
fn drops(report: &Report) -> String {
    let lost = &report.facts.totals.lost;
    let some = lost.in_words(plural);
    let unknown: Vec<&str> = [
        (lost.events_dropped, "dropped events", report.facts.source.kind != InputKind::Replay),
        (lost.capture_drops, "drops by the capture", report.facts.source.kind == InputKind::Replay),
        (lost.interface_drops, "drops by the interface", report.facts.source.kind != InputKind::Replay),
    ]
    .into_iter()
    .filter_map(|(n, what, applies)| (n.is_none() && applies).then_some(what))
    .collect();
    let known = match (some.is_empty(), unknown.is_empty()) {
        (true, true) => "none".into(),
        (true, false) => "none counted".into(),
        _ => some.join("; "),
    };
    if unknown.is_empty() { known } else { format!("{known}; not known: {}", unknown.join(", ")) }
}

/// Share of each port's RoCE packets that was seen.
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
            _ => "unknown, no device counter counts RoCE packets".into(),
        };
        let ratio =
            coverage.ratio.map_or_else(String::new, |ratio| format!("{}, ", units::ratio(Some(ratio))));
        let why = coverage.why.as_ref().map_or_else(String::new, |why| format!(": {}", plain(why)));
        format!("{of}: {ratio}{counted}{why}")
    };
    report.facts.coverage.iter().map(one).collect()
}

/// Packets in tunnels that a replay would decode.
fn not_decoded(report: &Report) -> Option<String> {
    let is_live = matches!(report.facts.source.kind, InputKind::Live | InputKind::Mixed);
    is_live.then(|| not_decoded_live(skipped(report, SkipReason::TunnelUnparsed))).flatten()
}

/// Number of frames that were skipped for a reason.
fn skipped(report: &Report, reason: SkipReason) -> u64 {
    report.facts.totals.skipped.0.iter().find(|(one, _)| *one == reason).map_or(0, |(_, packets)| *packets)
}

/// Reason why there is no RoCE packet, and what to do.
fn nothing_seen(report: &Report) -> Vec<String> {
    let totals = &report.facts.totals;
    if totals.roce_packets > 0 {
        return Vec::new();
    }
    let of = |reason: SkipReason| skipped(report, reason);
    let mut why = Vec::new();
    let cut = of(SkipReason::Truncated) + of(SkipReason::TruncatedHeaders);
    if cut > 0 {
        why.push(format!(
            "{} frames are truncated before the BTH: capture 128 bytes of each (tcpdump -s 128).",
            units::count(cut)
        ));
    }
    if of(SkipReason::Filtered) > 0 {
        why.push(format!("{} RoCE packets did not match --filter.", units::count(of(SkipReason::Filtered))));
    }
    if of(SkipReason::LinkTypeUnsupported) > 0 {
        why.push("The capture's link type is not supported: capture on an Ethernet interface.".into());
    }
    if report.facts.source.kind == InputKind::Live {
        why.push(
            "No RoCE packet was observed. Hardware-offloaded RoCE bypasses XDP and TC: watch a mirror port, or read \
             libpcap's RDMA sniffer where the NIC allows it: \
             tcpdump -U -s 128 -i mlx5_0 -w - | rocescope replay -"
                .into(),
        );
    } else if report.facts.source.kind == InputKind::Counters {
        why.push(
            "No RoCE packet is visible on these interfaces: hardware-offloaded RoCE bypasses XDP and TC. The NIC's own counters \
             are under DEVICE COUNTERS. For packets watch a mirror port, or read libpcap's RDMA sniffer where the NIC allows it: \
             tcpdump -U -s 128 -i mlx5_0 -w - | rocescope replay -"
                .into(),
        );
    } else if report.facts.source.kind == InputKind::Mixed {
        why.push("No RoCE packet has been observed.".into());
    } else if totals.packets == 0 && !report.facts.devices.is_empty() {
        why.push(
            "No packet was recorded. Queue pairs and counters of the NICs are under DEVICE COUNTERS.".into(),
        );
    } else if totals.packets == 0 {
        why.push("No frame to report: the input is empty, or --from and --to leave out everything.".into());
    } else if why.is_empty() {
        why.push(
            "None of the frames is RoCE. Capture on the port that carries RoCE, and on the RDMA device \
             (tcpdump -i mlx5_0) where the NIC offloads RoCE."
                .into(),
        );
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::{cnps, key, link, sample, stats};
    use crate::report::Options;
    use crate::sample::Stats;

    #[test]
    fn ecn_is_not_disabled_where_no_data_can_show_it() {
        let of = |stats: Stats| {
            let flows = vec![(key(0, "10.0.0.1", "10.0.0.2", 17), stats)];
            ecn(&Report::build(&sample(vec![link("a.pcap", None)], flows), &Options::default()))
        };
        let data = || stats(50_000, 100, 100_000);
        let not_ect = Stats { ecn_data: [100, 0, 0, 0], ..data() };
        assert_eq!(of(not_ect), "not enabled: all data is Not-ECT");
        assert_eq!(of(cnps(50_000, 10)), "unknown: no data packets");
        let v1 = Stats { ecn_data: [0; 4], roce_version: 1, ..data() };
        assert_eq!(of(v1), "none: RoCEv1 has no ECN bits");
    }
}
