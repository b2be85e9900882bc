//! Parts of findings as text, for every screen that shows some; and what cannot be seen.

use ratatui::style::Style;
use ratatui::text::Line;
use serde_json::json;

use crate::findings::{Finding, Severity};
use crate::model::{Level, Model};
use crate::sample::SourceKind;
use crate::sample::tunnels::not_decoded_live;
use crate::tui::analysis::Analysis;
use crate::tui::data::Data;
use crate::tui::export::ExportTable;
use crate::tui::theme;
use crate::tui::view::{AsOf, View};
use crate::tui::widgets::{Spans, counted};
use crate::util::numbers::share;
use crate::util::units;
use crate::util::wrap::wrap;

pub(super) const BLIND: &str = "BLIND SPOTS AND DROPS";

/// The time that findings cover, in words.
pub(in crate::tui) fn since(as_of: AsOf) -> String {
    match as_of {
        AsOf::Now => "since the start".to_owned(),
        AsOf::Earlier(time_ns) => format!("from the start to {}", units::clock_utc(time_ns)),
        AsOf::Later(time_ns) => {
            format!("of {}, later than the snapshot shown", units::clock_utc(time_ns))
        }
    }
}

/// Findings as a table.
pub(super) fn table<'a>(findings: impl Iterator<Item = &'a Finding>) -> ExportTable {
    let mut table =
        ExportTable::new(&["id", "severity", "title", "evidence", "flows", "advice", "last_seen_ns"]);
    table.rows = findings
        .map(|finding| {
            vec![
                json!(finding.id),
                json!(finding.severity),
                json!(finding.title),
                json!(finding.evidence),
                json!(finding.flows),
                json!(finding.advice),
                json!(finding.last_seen_ns),
            ]
        })
        .collect();
    table
}

/// Symbol of a finding. One for information has no level: it has neither colour nor alarm.
pub(super) fn mark(finding: &Finding) -> (&'static str, Style) {
    match finding.severity {
        Severity::Info => ("·", theme::DIM),
        severity => theme::mark(severity.into(), finding.active),
    }
}

/// Columns of a part's name, the spaces around it included.
pub(super) const NAME: usize = 11;

/// A text with its name before it.
pub(super) fn labelled(name: &str, text: &str, width: usize) -> Vec<Line<'static>> {
    let line = |(at, text): (usize, String)| {
        let mut spans = Spans::default();
        spans.push(format!(" {:<9} ", if at == 0 { name } else { "" }), theme::DIM);
        spans.push(text, theme::PLAIN);
        spans.into_line()
    };
    wrap(text, width.saturating_sub(NAME + 1)).into_iter().enumerate().map(line).collect()
}

/// Capture loss, and what this source cannot show, with the reason; worst first.
fn blind(data: &Data, analysis: &Analysis, filtered: bool) -> Vec<(Level, String)> {
    let mut blind = Vec::new();
    let model = &data.model;
    if model.lost.any() {
        let when = if model.losing { "still growing" } else { "not growing" };
        let lost = model.lost.in_words(counted).join(", ");
        blind.push((Level::Warning, format!("capture loss: {lost} ({when})")));
    }
    for port in analysis.report.facts.coverage.iter().filter(|port| port.why.is_some()) {
        let seen = units::ratio(port.ratio.map(|ratio| ratio.min(1.0)));
        let why = port.why.as_deref().unwrap_or_default();
        let did = if port.direction == "ingress" { "received" } else { "sent" };
        let (device, number) = (&port.device, port.port);
        let text = format!("coverage: {seen} of the packets {did} by {device} port {number} captured: {why}");
        blind.push((Level::Warning, text));
    }
    blind.extend(unclassified(model));
    if model.retired_flows > 0 {
        let n = units::count(model.retired_flows);
        blind.push((Level::Fine, format!("{n} flows retired: counted in totals, not listed as rows")));
    }
    if !model.rows.is_empty() && !analysis.timed {
        let why = match model.kind {
            SourceKind::Live => "latency: not available for these queue pairs",
            SourceKind::Replay => "latency: needs requests and their responses in the same capture",
        };
        blind.push((Level::Fine, why.into()));
    }
    if !analysis.owned {
        blind.push((
            Level::Fine,
            "process/pod: not available from this source (no RDMA device information)".into(),
        ));
    }
    if filtered {
        blind.push((Level::Fine, "packets excluded by --filter are not in any flow".into()));
    }
    if model.kind == SourceKind::Live {
        let hardware = "hardware-offloaded RoCE bypasses XDP and TC";
        blind.push((Level::Fine, hardware.into()));
    } else if model.lost.capture_drops.is_none() {
        blind.push((Level::Fine, "drops: not recorded in the capture file".into()));
    }
    blind
}

/// Reasons why frames could not be classified.
fn unclassified(model: &Model) -> Vec<(Level, String)> {
    let mut blind = Vec::new();
    let frames = model.frames();
    for (reason, packets) in &model.skipped {
        use rocescope_common::wire::SkipReason;
        let cut = matches!(
            reason,
            SkipReason::Truncated
                | SkipReason::TruncatedHeaders
                | SkipReason::TunnelUnparsed
                | SkipReason::Ipv6ExtUnparsed
                | SkipReason::Malformed
        );
        let tunnels = (model.kind == SourceKind::Live && *reason == SkipReason::TunnelUnparsed)
            .then(|| not_decoded_live(*packets))
            .flatten();
        if let Some(sentence) = tunnels {
            blind.push((Level::Warning, sentence));
        } else if cut {
            let share = units::ratio(Some(share(*packets, frames)));
            let text =
                format!("{}: {share} of frames could not be classified: {}", reason.name(), reason.meaning());
            blind.push((Level::Warning, text));
        }
    }
    blind
}

/// Drops and blind spots of rocescope, worst first.
pub(super) fn blind_spots(view: &View, width: usize) -> Vec<Line<'static>> {
    let (Some(data), Some(analysis)) = (&view.data, &view.analysis) else { return Vec::new() };
    let blind = blind(data, analysis, view.options.source_filtered);
    let mut lines = Vec::new();
    if blind.is_empty() {
        lines.push(Line::styled(" none", theme::DIM));
    }
    for (level, text) in &blind {
        for (i, part) in wrap(text, width.saturating_sub(4)).into_iter().enumerate() {
            let symbol = match (i, level) {
                (0, Level::Fine) => "·",
                (0, level) => theme::symbol(*level),
                _ => " ",
            };
            lines.push(Line::styled(format!(" {symbol} {part}"), theme::text(*level)));
        }
    }
    lines
}
