//! The report for people (`--output text`).
//!
//! What matters most comes first: findings, the sums, what was lost, then links, hashing and flows.
//! Plain text without colour or control characters; a pure function of report and width.

mod flows;
mod layout;
mod loss;
mod summary;
#[cfg(test)]
mod tests;

use crate::report::text::flows::link_name;
use crate::report::text::layout::{Align, Table, labelled, plain, plural, wrap};
use crate::report::{Device, Imbalance, Report, Severity, direction_name};
use crate::units;

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
    page.section("LINKS", links(report, room));
    page.section("BALANCE", balance(report, room));
    page.section("HASHING", hashing(report, room));
    let flows = if report.flows.is_empty() { Vec::new() } else { flows::lines(report, room) };
    let title = match report.flows.len() {
        1 => "1 FLOW".to_owned(),
        n => format!("{} FLOWS, busiest first; rates over each flow's own time", units::count(n as u64)),
    };
    page.section(&title, flows);
    page.section("LOST, LATE AND SENT AGAIN", loss::lines(report, room));
    page.section("BETWEEN TAPS", loss::taps(report, room));
    page.section("NOT RoCE", skipped(report, room));
    page.section("DEVICES, their own counters: not part of the sums above", devices(&report.devices, room));
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
    let mut findings: Vec<_> = report.findings.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in findings {
        let severity = match finding.severity {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Critical => "CRITICAL",
        };
        lines.extend(labelled(severity, INDENT, &plain(&finding.title), room));
        if !finding.advice.is_empty() {
            lines.extend(labelled("", INDENT, &plain(&finding.advice), room));
        }
    }
    lines
}

fn links(report: &Report, room: usize) -> Vec<String> {
    if report.links.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(vec![
        ("LINK", Align::Left),
        ("PACKETS", Align::Right),
        ("BYTES", Align::Right),
        ("RATE", Align::Right),
        ("CE", Align::Right),
    ]);
    for link in &report.links {
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
    report.imbalance.iter().flat_map(|one| labelled("", 0, &balance_of(one), room)).collect()
}

fn balance_of(imbalance: &Imbalance) -> String {
    let links = imbalance.links.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ");
    let direction = imbalance.direction.map_or_else(String::new, |d| format!(" {}", direction_name(d)));
    match (imbalance.max_over_mean, imbalance.jain) {
        (Some(max), Some(jain)) => {
            format!("{links}{direction}: busiest {max:.2} × the mean, Jain {jain:.3} (1 is even)")
        }
        _ => format!("{links}{direction}: all idle"),
    }
}

fn hashing(report: &Report, room: usize) -> Vec<String> {
    let entropy = &report.entropy;
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
    wrap(&format!("{tuples} from {ports}. {spread}{rest}"), room)
}

fn skipped(report: &Report, room: usize) -> Vec<String> {
    if report.totals.skipped.0.is_empty() {
        return Vec::new();
    }
    let mut table =
        Table::new(vec![("FRAMES", Align::Right), ("REASON", Align::Left), ("MEANING", Align::Left)]);
    for (reason, n) in &report.totals.skipped.0 {
        table.row(vec![units::count(*n), reason.name().into(), reason.meaning().into()]);
    }
    table.lines(room)
}

fn devices(devices: &[Device], room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for device in devices {
        let port = device.port.map_or_else(String::new, |port| format!("/{port}"));
        let counted: Vec<String> = device
            .counters
            .iter()
            .filter(|(_, n)| **n > 0)
            .map(|(name, n)| format!("{} {}", plain(name), units::count(*n)))
            .collect();
        let counters = if counted.is_empty() { "all counters 0".into() } else { counted.join(", ") };
        lines.push(format!("{}{port} ({})", plain(&device.name), plain(&device.source)));
        lines.extend(labelled("", 4, &counters, room));
    }
    lines
}
