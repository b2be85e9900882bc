//! The report for people (`--output text`).
//!
//! What matters most comes first: findings, the sums, what was lost, then links, hashing and flows.
//! Plain text without colour or control characters; a pure function of report and width.

mod answers;
mod devices;
mod flows;
pub(crate) mod layout;
mod loss;
mod summary;
#[cfg(test)]
mod tests;
mod traffic;

pub(crate) use answers::{P99_SAMPLES, P999_SAMPLES, enough};

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rocescope_common::wire::SkipReason;

use crate::analysis::{Imbalance, Kind, Set, direction_name, hashing_case};
use crate::findings::{Finding, Severity};
use crate::report::Report;
use crate::report::text::flows::link_name;
use crate::report::text::layout::{Align, Table, labelled, plain, wrap};
use crate::util::units::{self, plural};

/// Below this nothing sensible can be laid out: lines then run over.
const NARROWEST: usize = 48;
/// Beyond this the eye loses the line.
const WIDEST: usize = 160;

/// The report in lines of at most `width` columns where that is possible (names and addresses are
/// never cut), at least 48 and at most 160, with a line end after each.
#[must_use]
pub fn text(report: &Report, width: usize) -> String {
    let room = width.clamp(NARROWEST, WIDEST);
    let mut page = Page { lines: summary::lines(report, room), room };
    page.section("FINDINGS", findings(report, room));
    page.section("JOB", traffic::job(report, room));
    page.section("LINKS", links(report, room));
    page.section("BALANCE", balance(report, room));
    let bin = report.facts.bursts.iter().flatten().next().map_or(0, |burst| burst.bin_ns);
    let title = format!("BURSTS, in bins of {}; senders: most at once to one host", units::duration(bin));
    page.section(&title, traffic::bursts(report, room));
    page.section("HASHING", hashing(report, room));
    let flows = if report.facts.flows.is_empty() { Vec::new() } else { flows::lines(report, room) };
    let title = match report.facts.flows.len() {
        1 => "1 FLOW".to_owned(),
        n => format!("{} FLOWS, busiest first; rates over each flow's own time", units::count(n as u64)),
    };
    page.section(&title, flows);
    page.section(
        "LATENCY, from request to answer as seen here, longest tails first",
        answers::latency(report, room),
    );
    page.section(
        "CNP, who is told to slow down, and the rate of its data",
        answers::notifications(report, room),
    );
    page.section("LOST, LATE AND SENT AGAIN", loss::lines(report, room));
    page.section("BETWEEN TAPS", loss::taps(report, room));
    page.section("LEFT OUT BY --filter", filtered(report, room));
    page.section("NOT RoCE", skipped(report, room));
    page.section("PAUSES, asked for by stations on the link", devices::pauses(report, room));
    page.section("NEIGHBOURS, from LLDP", devices::neighbours(report, room));
    page.section("DEVICES, their own counters: not part of the sums above", devices::lines(report, room));
    let mut text = page.lines.join("\n");
    text.push('\n');
    text
}

struct Page {
    lines: Vec<String>,
    room: usize,
}

impl Page {
    /// A heading between rules and what belongs to it; nothing when that is empty.
    fn section(&mut self, title: &str, lines: Vec<String>) {
        if lines.is_empty() {
            return;
        }
        let rule = self.room.saturating_sub(layout::width(title) + 4);
        self.lines.push(String::new());
        self.lines.push(format!("── {title} {}", "─".repeat(rule)));
        self.lines.extend(lines);
    }
}

fn findings(report: &Report, room: usize) -> Vec<String> {
    const INDENT: usize = 10;
    let mut lines = Vec::new();
    let mut findings = report.findings.clone();
    let end = report.facts.window.last_ns;
    crate::findings::order::sort(&mut findings, end);
    let mut told = Told::default();
    for finding in &findings {
        let severity = match finding.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "CRITICAL",
        };
        let until = finding.until(end).map_or_else(String::new, |until| format!(", {until}"));
        let title = format!("{} [{}]{until}", plain(&finding.title), finding.id);
        lines.extend(labelled(severity, INDENT, &title, room));
        // What is only good to know stays on its line.
        if finding.severity == Severity::Info {
            continue;
        }
        if let Some(flows) = flows_of(finding) {
            lines.extend(labelled("", INDENT, &flows, room));
        }
        if let Some(advice) = told.new_of(finding) {
            lines.extend(labelled("", INDENT, &plain(&advice), room));
        }
    }
    let live = matches!(report.facts.source.kind, Kind::Live | Kind::Mixed);
    for (needs, what, here) in [
        ("exact_times", "Not judged, without exact times (--no-timing)", live),
        ("link_speed", "Judged by bounds or not at all, without the links' speed (--link-speed 100G)", true),
        (
            "whole_sequences",
            "Judged without the queue pairs that lost packets and could not be followed all the time",
            live,
        ),
    ] {
        let open: Vec<&str> =
            report.not_evaluated.iter().filter(|one| one.needs == needs).map(|one| one.id).collect();
        if here && !open.is_empty() && report.facts.totals.roce_packets > 0 {
            lines.extend(wrap(&format!("{what}: {}", open.join(", ")), room));
        }
    }
    if !report.findings.is_empty() {
        lines.push("`rocescope explain ID` says what each means and how it was found.".into());
    }
    lines
}

/// Advice that stands on the page already, sentence by sentence, with the finding that gave it. Each finding has all of its
/// advice, whatever stands before it; the page says a thing once.
#[derive(Default)]
struct Told<'a>(HashMap<&'a str, &'static str>);

impl<'a> Told<'a> {
    /// What of a finding's advice is new, and where the rest stands; `None` when there is nothing to say.
    fn new_of(&mut self, finding: &'a Finding) -> Option<String> {
        let mut new: Vec<&str> = Vec::new();
        let mut above = None;
        for sentence in finding.advice.split_inclusive(". ").map(str::trim_end) {
            match self.0.entry(sentence) {
                Entry::Occupied(told) => above = above.or(Some(*told.get())),
                Entry::Vacant(place) => {
                    place.insert(finding.id);
                    new.push(sentence);
                }
            }
        }
        match (new.is_empty(), above) {
            (true, Some(id)) => (id != finding.id).then(|| format!("See [{id}] above.")),
            (true, None) => None,
            (false, Some(id)) => Some(format!("{} For the rest see [{id}] above.", new.join(" "))),
            (false, None) => Some(finding.advice.clone()),
        }
    }
}

/// The first flows that a finding names, and how many more there are.
fn flows_of(finding: &Finding) -> Option<String> {
    const SHOWN: usize = 3;
    let named: Vec<String> = (finding.flows.iter().take(SHOWN))
        .map(|flow| {
            let link = link_name(&flow.link, flow.direction);
            format!("{} → {} QP {} on {link}", flow.src, flow.dst, flow.dest_qp)
        })
        .collect();
    let all = finding.evidence["flows"].as_u64();
    let more = all.unwrap_or(finding.flows.len() as u64).saturating_sub(named.len() as u64);
    let rest = if more > 0 { format!(", and {}", plural(more, "more flow")) } else { String::new() };
    (!named.is_empty()).then(|| format!("{}{rest}", named.join("; ")))
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
        ("CE", Align::Right),
    ]);
    for link in &report.facts.links {
        table.row(vec![
            link_name(&link.name, link.direction),
            units::count(link.packets),
            units::bytes(link.bytes),
            summary::rate(link.bytes, report).map_or_else(|| units::UNKNOWN.into(), units::bit_rate),
            units::ratio(link.ce_ratio),
        ]);
    }
    table.lines(room)
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
        let said = format!("Rails{way}: {}; busiest {ratio} × the mean", rails.join(", "));
        lines.extend(labelled("", 0, &said, room));
    }
    lines
}

fn balance_of(imbalance: &Imbalance) -> String {
    let links = imbalance.links.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ");
    let direction = imbalance.direction.map_or_else(String::new, |d| format!(" {}", direction_name(d)));
    if imbalance.same_path {
        return format!(
            "{links}{direction}: some see the same packets, so their shares say nothing of balance"
        );
    }
    match (imbalance.max_over_mean, imbalance.jain) {
        (Some(max), Some(jain)) => {
            let time = imbalance.over_time.map_or_else(String::new, |time| {
                let (p50, worst) = (time.max_over_mean_p50, time.max_over_mean_max);
                format!(
                    "; in windows of {} median {p50:.2}, worst {worst:.2}",
                    units::duration(time.window_ns)
                )
            });
            format!("{links}{direction}: busiest {max:.2} × the mean, Jain {jain:.3} (1 is even){time}")
        }
        _ => format!("{links}{direction}: all idle"),
    }
}

fn hashing(report: &Report, room: usize) -> Vec<String> {
    let entropy = &report.facts.entropy;
    let (Some(bits), Some(effective), Some(top)) =
        (entropy.entropy_bits, entropy.effective_flows, entropy.top_share)
    else {
        return Vec::new();
    };
    let tuples = plural(entropy.five_tuples, "5-tuple");
    let ports = plural(entropy.source_ports, "source port");
    let spread = if entropy.five_tuples > 1 {
        format!(
            "Entropy {bits:.2} bits, {} of an even spread: as good as {effective:.1} equal flows. The \
             busiest carries {}.",
            units::ratio(entropy.normalized),
            units::ratio(Some(top))
        )
    } else {
        "All bytes hash onto one path.".into()
    };
    let rest = match entropy.unattributed_bytes {
        Some(0) => String::new(),
        Some(bytes) => format!(" {} are in none: their ports are not known.", units::bytes(bytes)),
        None => " An unknown number of bytes is in none: their ports are not known.".into(),
    };
    let mut lines = wrap(&format!("{tuples} from {ports}. {spread}{rest}"), room);
    for set in report.facts.ecmp.iter().flat_map(|ecmp| &ecmp.sets) {
        lines.extend(uplinks(report.facts.ecmp.as_ref().map_or(0, |ecmp| ecmp.uplinks), set, room));
    }
    lines
}

/// What the user's number of uplinks would make of it.
fn uplinks(uplinks: u32, set: &Set, room: usize) -> Vec<String> {
    let said = format!(
        "Over {uplinks} equal uplinks ({}): {} carry 80 % of the bytes, of which on average {:.1} get an uplink that \
         another has already. The busiest uplink over the mean, median and 95th percentile of hash seeds:",
        set.of,
        plural(set.heavy, "5-tuple"),
        set.expected_collisions
    );
    let mut table = Table::new(vec![
        ("", Align::Left),
        ("5-TUPLES", Align::Right),
        ("MEDIAN", Align::Right),
        ("95 %", Align::Right),
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
    let mut lines = wrap(&said, room);
    lines.extend(table.lines(room));
    lines
}

/// RoCE that the user did not want to see.
fn filtered(report: &Report, room: usize) -> Vec<String> {
    let of = |(reason, n): &(SkipReason, u64)| (*reason == SkipReason::Filtered).then_some(*n);
    let Some(packets) = report.facts.totals.skipped.0.iter().find_map(of) else { return Vec::new() };
    let said =
        format!("{}: in no flow, and in no figure above but the frames", plural(packets, "RoCE packet"));
    wrap(&said, room)
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
