//! The report for people (`--output text`).
//!
//! What matters most comes first: totals and drops, findings, then links, flows and details; the verdict
//! ends the page, where a terminal shows it. A pure function of report, width and colour; plain text has no
//! control characters.

mod answers;
mod devices;
mod findings;
mod flows;
mod loss;
mod nccl;
mod qp_layers;
mod qp_paths;
mod summary;
#[cfg(test)]
mod tests;
mod traffic;

pub(crate) use traffic::{BURSTS_NOT_RECORDED, trend_in_words};

pub(crate) use answers::{P99_SAMPLES, P999_SAMPLES, Requests, ranges};
pub(crate) use findings::{Headline, end_of, headline, not_evaluated, sorted};
pub(crate) use flows::{missing, retransmissions};
pub(crate) use nccl::summary as nccl_summary;
pub(crate) use qp_layers::qp_layers;
pub(crate) use summary::sentences as summary;

use crate::sample::Address;
use std::collections::{BTreeMap, BTreeSet};

use rocescope_common::wire::SkipReason;

use crate::analysis::{Imbalance, Set, Spray, direction_name, hashing_case};
use crate::report::Report;
use crate::report::text::flows::link_name;
use crate::report::text::loss::counted;
use crate::util::layout::{self, Align, Table, labelled, plain, wrap};
use crate::util::style::{Paint, Role};
use crate::util::units::{self, plural};

/// Below this width lines run over.
const NARROWEST: usize = 48;
/// Longer lines are hard to read.
const WIDEST: usize = 160;

/// The line below a list that leaves out `hidden` others; `None` where there are none.
fn more(hidden: usize) -> Option<String> {
    (hidden > 0).then(|| format!("… and {} more", units::count(hidden as u64)))
}

/// [`painted`] without colour.
pub fn text(report: &Report, width: usize) -> String {
    painted(report, width, Paint::PLAIN)
}

/// The report in lines of at most `width` columns where that is possible (names and addresses are
/// never cut), at least 48 and at most 160, with a line end after each.
pub fn painted(report: &Report, width: usize, paint: Paint) -> String {
    let room = width.clamp(NARROWEST, WIDEST);
    let mut lines = summary::lines(report, room, paint);
    for Section { title, lines: own, .. } in sections(report, room, paint) {
        let rule = room.saturating_sub(layout::width(&title) + 4);
        let heading = format!("── {title} {}", "─".repeat(rule));
        lines.extend([String::new(), paint.paint(Role::Heading, &heading)]);
        lines.extend(own);
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// The lines that end the report, with a line end after each: the verdict, the worst finding, and the next command.
pub fn ending(report: &Report, width: usize, paint: Paint) -> String {
    let room = width.clamp(NARROWEST, WIDEST);
    findings::verdict(report, room, paint).into_iter().map(|line| line + "\n").collect()
}

/// The subject of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    Findings,
    Job,
    Nccl,
    Links,
    Balance,
    Bursts,
    Entropy,
    Flows,
    Latency,
    Notifications,
    Loss,
    Taps,
    Filtered,
    Skipped,
    Pauses,
    Neighbours,
    Devices,
    Verdict,
}

/// A part of the page below a heading.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// Subject of the section, by which options choose it.
    pub(crate) topic: Topic,
    /// Heading of the section.
    pub(crate) title: String,
    /// Its lines, at least one.
    pub(crate) lines: Vec<String>,
}

/// The sections that have something to report, in the order of the page.
pub(crate) fn sections(report: &Report, room: usize, paint: Paint) -> Vec<Section> {
    let once =
        if report.facts.totals.duplicates.is_some() { "; each packet once, without duplicates" } else { "" };
    let bin = report.facts.bursts.iter().flatten().next().map_or(0, |burst| burst.bin_ns);
    let bins =
        format!("BURSTS, {0} bins; SENDERS: most senders to one host in a bin of {0}", units::duration(bin));
    let skip = if report.facts.is_infiniband() { "NOT DATA: skipped InfiniBand packets" } else { "NOT RoCE" };
    let flow_lines = if report.facts.flows.is_empty() { Vec::new() } else { flows::lines(report, room) };
    let nccl_title = "NCCL RANKS by NCCL's own account (RAS)";
    let all: [(Topic, String, Vec<String>); 18] = [
        (Topic::Findings, title_of_findings(report), findings::lines(report, room, paint)),
        (Topic::Job, "JOB".into(), traffic::job(report, room)),
        (Topic::Nccl, nccl_title.into(), nccl::lines(report, room)),
        (Topic::Links, title_of_links(report, once), links(report, room)),
        (Topic::Balance, "LOAD BALANCE across parallel links".into(), balance(report, room)),
        (Topic::Bursts, bins, traffic::bursts(report, room)),
        (Topic::Entropy, "ECMP ENTROPY of 5-tuples".into(), hashing(report, room)),
        (Topic::Flows, title_of_flows(report, once), flow_lines),
        (Topic::Latency, title_of_latency(report), answers::latency(report, room)),
        (
            Topic::Notifications,
            "CNP: throttled sender and its data rate".into(),
            answers::notifications(report, room),
        ),
        (Topic::Loss, "LOSS, REORDERING, RETRANSMISSION".into(), loss::lines(report, room)),
        (Topic::Taps, "BETWEEN TAPS".into(), loss::taps(report, room)),
        (Topic::Filtered, "EXCLUDED BY --filter".into(), filtered(report, room)),
        (Topic::Skipped, skip.into(), skipped(report, room)),
        (Topic::Pauses, "PAUSE AND PFC FRAMES on links".into(), devices::pauses(report, room)),
        (Topic::Neighbours, "LLDP NEIGHBOURS".into(), devices::neighbours(report, room)),
        (
            Topic::Devices,
            "DEVICE COUNTERS, not included in the totals above".into(),
            devices::lines(report, room),
        ),
        (Topic::Verdict, "VERDICT".into(), findings::verdict(report, room, paint)),
    ];
    let of = |(topic, title, lines): (Topic, String, Vec<String>)| Section { topic, title, lines };
    all.into_iter().map(of).filter(|section| !section.lines.is_empty()).collect()
}

/// Bits per second over the report's window; `None` when it has no length.
fn rate(bytes: u64, report: &Report) -> Option<f64> {
    let ns = report.facts.window.length_ns().filter(|ns| *ns > 0)?;
    Some(bytes as f64 * 8e9 / ns as f64)
}

/// The head of the page counts the whole run, and so reads another percentage of the same loss.
fn title_of_findings(report: &Report) -> String {
    let dated = report.findings.iter().any(|one| one.is_problem() && one.is_of_episode());
    format!("FINDINGS{}", if dated { ", figures since each began" } else { "" })
}

fn title_of_links(report: &Report, once: &str) -> String {
    let marked = flows::marked(report.facts.is_infiniband());
    let length = report.facts.window.length_ns().filter(|ns| *ns > 0).map(units::duration);
    let over = length.map_or_else(String::new, |length| format!(", rates and {marked} over all {length}"));
    format!("LINKS{over}{once}")
}

fn title_of_latency(report: &Report) -> String {
    let by_p99 = if answers::has_p99(report) { ", by p99" } else { "" };
    let all = report.facts.window.length_ns().map_or_else(|| units::UNKNOWN.to_owned(), units::duration);
    format!("LATENCY of each queue pair over all {all}, request to ACK or response at this tap{by_p99}")
}

fn title_of_flows(report: &Report, once: &str) -> String {
    match report.facts.flows.len() {
        1 => "1 FLOW".to_owned(),
        n => format!(
            "{} FLOWS{} by bytes; rates over all {}{once}",
            units::count(n as u64),
            flows::distinct(report),
            report.facts.window.length_ns().map_or_else(|| units::UNKNOWN.into(), units::duration),
        ),
    }
}

fn links(report: &Report, room: usize) -> Vec<String> {
    if report.facts.links.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(vec![
        ("LINK", Align::Left),
        ("PACKETS", Align::Right),
        ("BYTES", Align::Right),
        ("RATE", Align::Right),
        (flows::marked(report.facts.is_infiniband()), Align::Right),
    ]);
    for link in &report.facts.links {
        let duplicates = link.duplicates.as_deref().copied().unwrap_or_default();
        let bytes = link.bytes.saturating_sub(duplicates.bytes);
        table.row(vec![
            link_name(&link.name, link.direction),
            units::count(link.packets.saturating_sub(duplicates.packets)),
            units::bytes(bytes),
            rate(bytes, report).map_or_else(|| units::UNKNOWN.into(), units::bit_rate),
            units::ratio(link.ce_ratio),
        ]);
    }
    let mut lines = table.lines(room);
    lines.extend(parallel(report).iter().flat_map(|hint| labelled("", 0, hint, room)));
    lines
}

/// Hint that links may be declared parallel with `--group`.
fn parallel(report: &Report) -> Option<String> {
    let facts = &report.facts;
    if !facts.imbalance.is_empty() || facts.links.iter().any(|link| link.direction.is_some()) {
        return None;
    }
    let mut hosts: BTreeMap<&str, BTreeSet<(Address, Address)>> = BTreeMap::new();
    for flow in &facts.flows {
        hosts.entry(&flow.link).or_default().insert((flow.src, flow.dst));
    }
    let same =
        |a: &str, b: &str| facts.taps.iter().any(|tap| tap.links.iter().all(|link| link == a || link == b));
    let (first, own) = hosts.first_key_value()?;
    let others = hosts.iter().skip(1).filter(|(link, pairs)| !own.is_disjoint(pairs) && !same(first, link));
    let names: Vec<&str> = std::iter::once(*first).chain(others.map(|(link, _)| *link)).collect();
    (names.len() > 1).then(|| {
        let list = names.iter().map(|name| plain(name)).collect::<Vec<_>>().join(",");
        format!("These links carry different packets of the same hosts: --group {list} compares their load.")
    })
}

fn balance(report: &Report, room: usize) -> Vec<String> {
    let mut lines: Vec<String> =
        report.facts.imbalance.iter().flat_map(|one| labelled("", 0, &balance_of(one), room)).collect();
    for one in &report.facts.rails {
        let rails: Vec<String> = one
            .rails
            .iter()
            .map(|rail| format!("{} {}", plain(&rail.name), units::bytes(rail.bytes)))
            .collect();
        let ratio = one.max_over_mean.map_or_else(|| units::UNKNOWN.into(), |ratio| format!("{ratio:.2}"));
        let way = one.direction.map_or_else(String::new, |way| format!(" ({})", direction_name(way)));
        let text = format!("Rails{way}: {}; the busiest carries {ratio} × the mean", rails.join(", "));
        lines.extend(labelled("", 0, &text, room));
    }
    lines
}

fn balance_of(imbalance: &Imbalance) -> String {
    let links = imbalance.links.iter().map(|name| link_name(name, None)).collect::<Vec<_>>().join(", ");
    let direction = imbalance.direction.map_or_else(String::new, |d| format!(" {}", direction_name(d)));
    if imbalance.same_path {
        return format!("{links}{direction}: not evaluated, some of these links see the same packets");
    }
    match (imbalance.max_over_mean, imbalance.jain) {
        (Some(max), Some(jain)) => {
            let time = imbalance.over_time.map_or_else(String::new, |time| {
                let (p50, worst) = (time.max_over_mean_p50, time.max_over_mean_max);
                format!(
                    "; in windows of {}: median {p50:.2} ×, maximum {worst:.2} ×",
                    units::duration(time.window_ns)
                )
            });
            // A mirror port shows both directions of its link.
            let ways = if imbalance.direction.is_none() && imbalance.ways.is_none() {
                "; both directions together, which cannot be distinguished"
            } else {
                ""
            };
            let found = if imbalance.found {
                " (grouped because they carry different packets between the same hosts; --group LINK,LINK overrides)"
            } else {
                ""
            };
            format!(
                "{links}{direction}: the busiest carries {max:.2} × the mean; Jain's index {jain:.3} (1: even){time}{ways}{found}"
            )
        }
        _ => format!("{links}{direction}: idle"),
    }
}

fn hashing(report: &Report, room: usize) -> Vec<String> {
    let entropy = &report.facts.entropy;
    let (Some(bits), Some(effective), Some(top)) =
        (entropy.tuples.entropy_bits, entropy.tuples.effective_flows, entropy.tuples.top_share)
    else {
        return Vec::new();
    };
    let ports = plural(entropy.tuples.source_ports, "source port");
    let data = entropy.data.map_or_else(String::new, |data| {
        let spread = match (data.effective_flows, data.normalized) {
            (Some(flows), Some(share)) => {
                format!(", {flows:.1} effective flows, normalized {}", units::ratio(Some(share)))
            }
            _ => String::new(),
        };
        format!("Data on {}{spread}. ", plural(data.five_tuples, "5-tuple"))
    });
    let spread = if entropy.tuples.five_tuples > 1 {
        format!(
            "{ports}, {effective:.1} effective flows, entropy {bits:.2} bits, normalized {}. The largest 5-tuple \
             carries {} of the bytes.",
            units::ratio(entropy.tuples.normalized),
            units::ratio(Some(top))
        )
    } else {
        format!("{ports}. All bytes take one path.")
    };
    let rest = match entropy.unattributed_bytes {
        Some(0) => String::new(),
        Some(bytes) => format!(" {} are left out: their 5-tuples are not known.", units::bytes(bytes)),
        None => " An unknown number of bytes is left out: their 5-tuples are not known.".into(),
    };
    let all = plural(entropy.tuples.five_tuples, "5-tuple");
    let mut lines =
        wrap(&format!("{data}All packets, ACKs and CNPs included: {all} from {spread}{rest}"), room);
    for set in report.facts.ecmp.iter().flat_map(|ecmp| &ecmp.sets) {
        lines.extend(uplinks(report.facts.ecmp.as_ref().map_or(0, |ecmp| ecmp.uplinks), set, room));
    }
    lines.extend(sprayed(report).iter().flat_map(|text| wrap(text, room)));
    lines
}

/// Flows whose packets take several paths on purpose.
fn sprayed(report: &Report) -> Option<String> {
    let all = || report.facts.flows.iter().filter_map(|flow| flow.spray.as_deref());
    let most = |of: fn(&Spray) -> Option<u64>| all().filter_map(of).max().unwrap_or(0);
    let parts = counted(&[
        (most(|spray| spray.src_ports), &|n| format!("up to {} each", plural(n, "source port"))),
        (most(|spray| spray.planes), &|n| plural(n, "plane")),
        (most(|spray| spray.reordering_depth), &|n| format!("out of order by up to {}", plural(n, "PSN"))),
        (all().filter_map(|spray| spray.trimmed).sum(), &|n| {
            format!("{} trimmed by a switch", plural(n, "packet"))
        }),
    ]);
    let flows = all().count() as u64;
    let is_spread = all().any(|spray| spray.src_ports.is_some() || spray.planes.is_some());
    let flows = (flows > 0).then(|| plural(flows, "flow"))?;
    // One tap does not show which way packets went that are out of order.
    let what = if is_spread {
        format!("Packets spread over several paths in {flows}")
    } else {
        format!("Packets of {flows}")
    };
    Some(format!("{what}: {}.", parts.join(", ")))
}

/// Simulated hashing over the user's number of uplinks.
fn uplinks(uplinks: u32, set: &Set, room: usize) -> Vec<String> {
    let text = format!(
        "Hashing over {uplinks} equal uplinks ({}): {} carry 80 % of the bytes; {:.1} of them on average share an uplink \
         with another one. Busiest uplink over the mean, median and 95th percentile over hash seeds:",
        set.of,
        plural(set.heavy, "5-tuple"),
        set.expected_collisions
    );
    let mut table = Table::new(vec![
        ("", Align::Left),
        ("5-TUPLES", Align::Right),
        ("MEDIAN", Align::Right),
        ("p95", Align::Right),
    ]);
    for case in &set.cases {
        let name = hashing_case(&case.case).unwrap_or_else(|| case.case.clone());
        table.row(vec![
            format!("  {name}"),
            units::count(case.five_tuples),
            format!("{:.2}", case.max_over_mean_p50),
            format!("{:.2}", case.max_over_mean_p95),
        ]);
    }
    let mut lines = wrap(&text, room);
    lines.extend(table.lines(room));
    lines
}

/// RoCE packets that do not match the user's filter.
fn filtered(report: &Report, room: usize) -> Vec<String> {
    let of = |(reason, n): &(SkipReason, u64)| (*reason == SkipReason::Filtered).then_some(*n);
    let Some(packets) = report.facts.totals.skipped.0.iter().find_map(of) else { return Vec::new() };
    let text = format!("{}: counted as frames only, in no flow or total", plural(packets, "RoCE packet"));
    wrap(&text, room)
}

fn skipped(report: &Report, room: usize) -> Vec<String> {
    let not_roce =
        || report.facts.totals.skipped.0.iter().filter(|(reason, _)| *reason != SkipReason::Filtered);
    if not_roce().next().is_none() {
        return Vec::new();
    }
    let mut table =
        Table::new(vec![("FRAMES", Align::Right), ("REASON", Align::Left), ("MEANING", Align::Left)]);
    for (reason, n) in not_roce() {
        table.row(vec![units::count(*n), reason.name().into(), reason.meaning().into()]);
    }
    table.lines(room)
}
