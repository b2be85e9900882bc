//! Conclusions with evidence and advice, and what rocescope lost or cannot see.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{Spans, cut, empty, line, wrap};
use crate::findings::{Finding, Severity};
use crate::model::Level;
use crate::sample::SourceKind;
use crate::tui::analysis::Analysis;
use crate::tui::app::{App, Data};
use crate::tui::key::Input;
use crate::tui::layout::Layout;
use crate::tui::shown::{Concluded, Then};
use crate::tui::theme;
use crate::util::units;

/// Flows of a finding that are listed.
const FLOWS: usize = 6;

pub(super) fn render(buffer: &mut Buffer, at: &Layout, app: &App) {
    let (Some(data), Some(analysis), Some(concluded)) = (&app.data, &app.analysis, app.concluded()) else {
        if app.data.is_none() {
            empty::render(buffer, at.body, app);
        } else {
            empty::because(
                buffer,
                at.body,
                "Findings are being worked out.",
                "They are drawn from all that was counted since the start, beside the screen.",
            );
        }
        return;
    };
    let Concluded { findings, end_ns: end, then } = concluded;
    let width = usize::from(at.body.width);
    let blind = blind(data, analysis, app.options.source_filtered);
    if findings.is_empty() {
        let text = format!("  No findings {}.", since(then));
        let mut lines = vec![Line::default(), Line::styled(text, theme::BOLD)];
        if !data.problems.is_empty() {
            let text = "  What the line at the top shows is below the thresholds of every finding.";
            lines.push(Line::raw(text));
        }
        lines.push(Line::default());
        lines.extend(blind_lines(&blind, width));
        put(buffer, at.body, lines);
        return;
    }
    let count = findings.len();
    let list = at.findings(count);
    let over = findings.iter().filter(|finding| finding.over_since(end).is_some()).count();
    let over = if over > 0 { format!(", then {over} over") } else { String::new() };
    line(
        buffer,
        list,
        0,
        &Line::styled(format!(" FINDINGS {}: {count}, the worst first{over}", since(then)), theme::HEAD),
    );
    let rows = findings.iter().enumerate().skip(app.findings.offset).take(at.findings_page());
    for (y, (place, finding)) in (1..).zip(rows) {
        line(buffer, list, y, &title(finding, end, width));
        if app.findings.selected == Some(place) {
            super::select(buffer, Rect { y: list.y + y, height: 1, ..list });
        }
    }
    let below = Rect { y: list.bottom(), height: at.body.height - list.height, ..at.body };
    let mut lines = vec![Line::default()];
    if let Some(finding) = findings.get(app.findings.selected.unwrap_or(0)) {
        lines.extend(text(finding, end, width));
        lines.push(Line::default());
    }
    lines.extend(blind_lines(&blind, width));
    let room = usize::from(below.height);
    let more = (lines.len() + 1).saturating_sub(room);
    if lines.len() > room && room > 0 {
        lines.truncate(room - 1);
        let key = app.options.keys.first(Input::Read);
        let text = format!(" {more} more lines, what was lost or not seen among them: {key} has all");
        lines.push(Line::styled(cut(&text, width, false), theme::DIM));
    }
    put(buffer, below, lines);
}

/// What findings are of, in words.
pub(super) fn since(then: Then) -> String {
    match then {
        Then::Now => "since the start".to_owned(),
        Then::By(time_ns) => format!("from the start to {}", units::clock_utc(time_ns)),
        Then::Later(time_ns) => {
            format!("known only of {}, later than what is shown", units::clock_utc(time_ns))
        }
    }
}

fn put(buffer: &mut Buffer, area: Rect, lines: Vec<Line<'_>>) {
    for (y, text) in (0..area.height).zip(lines) {
        line(buffer, area, y, &text);
    }
}

const fn level(severity: Severity) -> Level {
    match severity {
        Severity::Info => Level::Fine,
        Severity::Warning => Level::Warning,
        Severity::Critical => Level::Critical,
    }
}

/// Severity and title in a line, and until when it showed where it is over at `end`.
pub(super) fn title(finding: &Finding, end: Option<u64>, width: usize) -> Line<'static> {
    let level = level(finding.severity);
    let word = match finding.severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "CRITICAL",
    };
    let mut spans = Spans::default();
    spans.push(format!(" {} {word:<8} ", theme::symbol(level)), theme::text(level));
    let until = finding.until(end).map_or_else(String::new, |until| format!("  {until}"));
    let room = width.saturating_sub(spans.width + until.chars().count());
    spans.push(cut(&finding.title, room, false), theme::PLAIN);
    spans.push(until, theme::DIM);
    spans.into_line()
}

/// Everything about one finding in data that ends at `end`.
fn text(finding: &Finding, end: Option<u64>, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(format!(" {}", finding.id), theme::HEAD)];
    let mut part = |name: &str, text: String| {
        let wrapped = wrap(&text, width.saturating_sub(12), 0);
        for (i, text) in wrapped.into_iter().enumerate() {
            let mut spans = Spans::default();
            spans.push(format!(" {:<9} ", if i == 0 { name } else { "" }), theme::DIM);
            spans.push(text, theme::PLAIN);
            lines.push(spans.into_line());
        }
    };
    part("what", finding.title.clone());
    if let (Some(until), Some(since), Some(end)) = (finding.until(end), finding.over_since(end), end) {
        part("over", format!("{until}, {} before the latest figures", units::duration(end - since)));
    }
    let evidence: Vec<String> =
        finding.evidence.iter().map(|one| format!("{} {}", one.label, one.text())).collect();
    part("evidence", evidence.join(", "));
    part("advice", finding.advice.clone());
    for (i, flow) in finding.flows.iter().take(FLOWS).enumerate() {
        let route = format!("{} → {} QP {} on {}", flow.src, flow.dst, flow.dest_qp, flow.link);
        part(if i == 0 { "flows" } else { "" }, route);
    }
    if finding.flows.len() > FLOWS {
        part("", format!("and {} more; Enter shows them all", finding.flows.len() - FLOWS));
    }
    lines
}

/// Everything about the selected finding, with what it means and how it is computed.
#[must_use]
pub(in crate::tui) fn lines(app: &App) -> Vec<Line<'static>> {
    let (Some(concluded), Some(data), Some(analysis)) = (app.concluded(), &app.data, &app.analysis) else {
        return Vec::new();
    };
    // The box is as wide as the screen up to a limit, with a border on both sides.
    let width = usize::from(app.size.0.min(super::WIDEST).saturating_sub(2));
    let mut lines = Vec::new();
    let finding = concluded.findings.get(app.findings.selected.unwrap_or(0));
    if let Some(finding) = finding {
        lines.extend(text(finding, concluded.end_ns, width));
        lines.push(Line::default());
    }
    // Before what is the same for every finding of a kind, and long.
    lines.extend(blind_lines(&blind(data, analysis, app.options.source_filtered), width));
    if let Some(finding) = finding
        && let Some(entry) = crate::findings::entries().find(|entry| entry.id == finding.id)
    {
        lines.push(Line::default());
        for paragraph in entry.text().lines() {
            let wrapped = wrap(paragraph, width.saturating_sub(2), 0);
            lines.extend(wrapped.into_iter().map(|part| Line::raw(format!(" {part}").trim_end().to_owned())));
        }
    }
    lines
}

/// What was lost, and what this source cannot show, with the reason; worst first.
fn blind(data: &Data, analysis: &Analysis, filtered: bool) -> Vec<(Level, String)> {
    let mut blind = Vec::new();
    let model = &data.model;
    if model.lost.any() {
        let when = if model.losing { "still growing" } else { "not growing now" };
        blind.push((Level::Warning, format!("lost: {} ({when})", super::header::own_losses(&model.lost))));
    }
    for port in analysis.report.facts.coverage.iter().filter(|port| port.why.is_some()) {
        let seen = crate::util::units::ratio(port.ratio.map(|ratio| ratio.min(1.0)));
        let why = port.why.as_deref().unwrap_or_default();
        let did = if port.direction == "ingress" { "received" } else { "sent" };
        let (device, number) = (&port.device, port.port);
        let text = format!("coverage: {seen} of what {device} port {number} {did} was seen: {why}");
        blind.push((Level::Warning, text));
    }
    let frames = model.frames();
    for (reason, counter) in &model.skipped {
        use rocescope_common::wire::Reason;
        let cut = matches!(
            reason,
            Reason::Truncated
                | Reason::TruncatedHeaders
                | Reason::TunnelUnparsed
                | Reason::Ipv6ExtUnparsed
                | Reason::Malformed
        );
        if cut {
            let share = crate::util::units::ratio(Some(counter.packets as f64 / frames.max(1) as f64));
            let text = format!(
                "{}: {share} of the frames could be RoCE and cannot be told: {}",
                reason.name(),
                reason.meaning()
            );
            blind.push((Level::Warning, text));
        }
    }
    if model.retired_flows > 0 {
        let n = crate::util::units::count(model.retired_flows);
        blind.push((
            Level::Fine,
            format!("{n} flows were retired: their packets stay in totals, not in rows"),
        ));
    }
    if !model.rows.is_empty() && !analysis.timed {
        let why = match model.kind {
            SourceKind::Live => "latency: not known of these queue pairs in this run",
            SourceKind::Replay => "latency: needs requests and their answers in the same capture",
        };
        blind.push((Level::Fine, why.into()));
    }
    if !analysis.owned {
        blind.push((
            Level::Fine,
            "processes: packets do not say whose they are; this source has no other word of it".into(),
        ));
    }
    if filtered {
        blind.push((Level::Fine, "what --filter leaves out is not counted in flows".into()));
    }
    if model.kind == SourceKind::Live {
        let hardware =
            "hardware RoCE: a NIC that does RoCE in hardware shows its packets neither to XDP nor to TC";
        blind.push((Level::Fine, hardware.into()));
    } else if model.lost.capture_drops.is_none() {
        blind.push((Level::Fine, "drops: the capture does not say whether it dropped packets".into()));
    }
    blind
}

fn blind_lines(blind: &[(Level, String)], width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(" LOST OR NOT SEEN by rocescope", theme::HEAD)];
    if blind.is_empty() {
        lines.push(Line::styled(" nothing", theme::DIM));
    }
    for (level, text) in blind {
        for (i, part) in wrap(text, width.saturating_sub(4), 0).into_iter().enumerate() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::START;
    use crate::findings::Evidence;
    use crate::findings::order::OVER_NS;

    #[test]
    fn what_is_over_says_until_when_however_long_its_title_is() {
        let title_text = "0.9 % of the packets from 10.0.0.1 to 10.0.0.2 are lost before eth0: 9 of 1009";
        let mut finding = Finding::new("loss.before_tap", Severity::Warning, title_text.into());
        (finding.advice, finding.last_seen_ns) = ("Look.".into(), Some(START));
        finding.evidence.insert(Evidence::named("better_case", "qps_2".into()));
        finding.evidence.insert(Evidence::named("link", "eth_0".into()));
        let (now, over) = (Some(START + OVER_NS - 1), Some(START + 2 * OVER_NS));
        let line = title(&finding, over, 60).to_string();
        assert!(line.ends_with("  until 13:05:09 UTC") && line.chars().count() <= 60, "{line}");
        assert!(!title(&finding, now, 60).to_string().contains("until"));

        let page = |end| {
            let lines: Vec<String> = text(&finding, end, 80).iter().map(ToString::to_string).collect();
            lines.join("\n")
        };
        assert!(
            page(over).contains("until 13:05:09 UTC, 20.0 s before the latest figures"),
            "{}",
            page(over)
        );
        assert!(!page(now).contains("until"));
        assert!(page(now).contains("better case qps_2, link eth_0"), "{}", page(now));
    }
}
