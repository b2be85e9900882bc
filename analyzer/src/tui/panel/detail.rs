//! Everything about the selected queue pair.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Widget as _};
use rocescope_common::account::flow::{DSCP_NONE, FlowStats, SRC_QP_SEVERAL};
use rocescope_common::account::{Mixed, PsnTrack};
use rocescope_common::wire::opcode::Name;

use super::{Spans, line};
use crate::model::{Detail, Level};
use crate::tui::app::App;
use crate::tui::column::{bar, compact};
use crate::tui::{log, theme};
use crate::units;

const NAME: usize = 9;
/// Entries of a list that are shown at least, whatever the height.
const LISTED: usize = 16;

pub(super) fn render(buffer: &mut Buffer, area: Rect, detail: Option<&Detail>, app: &App) {
    let Some(detail) = detail.filter(|_| area.height > 1) else { return };
    let beside = area.x > 0;
    let block = Block::new()
        .borders(if beside { Borders::LEFT.union(Borders::TOP) } else { Borders::TOP })
        .title(Line::styled(format!(" {} ", log::route(&detail.id.key)), theme::BOLD));
    let inner = block.inner(area);
    block.render(area, buffer);
    let (main, lists) = (main(detail, app), lists(detail, beside));
    if beside {
        let all = main.into_iter().chain(std::iter::once(Line::default())).chain(lists);
        for (y, text) in (0..inner.height).zip(all) {
            line(buffer, inner, y, &text);
        }
        return;
    }
    let half = inner.width * 3 / 5;
    let left = Rect { width: half, ..inner };
    let right = Rect { x: inner.x + half, width: inner.width - half, ..inner };
    for (y, text) in (0..inner.height).zip(main) {
        line(buffer, left, y, &text);
    }
    for (y, text) in (0..inner.height).zip(lists) {
        line(buffer, right, y, &text);
    }
}

fn entry(name: &str, text: impl Into<String>) -> Line<'static> {
    styled(name, text, Level::Fine)
}

fn styled(name: &str, text: impl Into<String>, level: Level) -> Line<'static> {
    let mut spans = Spans::default();
    spans.push(format!(" {name:<NAME$}"), theme::DIM).push(text, theme::text(level));
    spans.into_line()
}

fn bad(is_bad: bool, level: Level) -> Level {
    if is_bad { level } else { Level::Fine }
}

/// What is bad comes first, so that it shows on small screens.
fn main(detail: &Detail, app: &App) -> Vec<Line<'static>> {
    let stats = &detail.stats;
    let model = app.data.as_ref().map(|data| &data.model);
    let row = app.flows.selected.and_then(|at| app.order.get(at)).and_then(|i| model?.rows.get(*i));
    let delta = row.and_then(|row| row.delta);
    let rate = delta.map_or_else(
        || units::UNKNOWN.into(),
        |d| format!("{}, {} pkt/s", units::bit_rate(d.bits_per_s()), compact(d.packets_per_s())),
    );
    let ratio = row.and_then(|row| row.total.ce_ratio());
    let [not_ect, ect1, ect0, ce] = stats.ecn();
    let n = |n: u64| compact(n as f64);
    let naks: u64 = stats.naks.iter().sum();
    let mut lines = vec![
        entry("rate", rate),
        entry("total", format!("{}, {} packets", units::bytes(stats.bytes), units::count(stats.packets))),
    ];
    lines.extend(psn("PSN", &stats.psn));
    if stats.psn_responses.seen != 0 {
        lines.extend(psn("responses", &stats.psn_responses));
    }
    lines.extend([
        styled(
            "acks",
            format!("{} ACK, {} RNR, {naks} NAK", compact(stats.acks as f64), stats.rnr_naks),
            if naks > 0 { Level::Critical } else { bad(stats.rnr_naks > 0, Level::Warning) },
        ),
        styled(
            "ECN",
            format!("CE {} of capable; {} CNP", units::ratio(ratio), compact(stats.cnp_packets as f64)),
            bad(ce + stats.cnp_packets > 0, Level::Warning),
        ),
        entry("", format!("{} CE, {} ECT0, {} ECT1, {} not", n(ce), n(ect0), n(ect1), n(not_ect))),
    ]);
    lines.extend(nak_codes(stats));
    lines.push(entry("peer QP", peer(detail)));
    let (path, tags) = path(detail);
    lines.extend([entry("path", path), entry("tags", tags)]);
    lines.push(entry("link", detail.link.clone()));
    lines.push(entry("last", format!("{} UTC", units::clock_utc(stats.last_ns))));
    let mixed: Vec<&str> =
        Mixed::NAMES.iter().filter(|(bit, _)| stats.mixed & bit != 0).map(|(_, name)| *name).collect();
    if !mixed.is_empty() {
        lines.push(styled("changed", mixed.join(", "), Level::Warning));
    }
    lines
}

fn psn(name: &str, track: &PsnTrack) -> Vec<Line<'static>> {
    if track.seen == 0 {
        return vec![entry(name, units::UNKNOWN)];
    }
    let found = [
        (track.missing, "missing"),
        (track.gaps, "gaps"),
        (track.repeats, "repeats"),
        (track.restarts, "restarts"),
    ];
    let found: Vec<String> = found
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", compact(count as f64)))
        .collect();
    let expected = format!("next {}", track.expected);
    if found.is_empty() {
        return vec![entry(name, format!("in order, {expected}"))];
    }
    let repeated = bad(track.repeats > 0, Level::Warning);
    let level = if track.gaps > 0 { Level::Critical } else { repeated };
    vec![styled(name, found.join(", "), level), entry("", format!("{expected}, first {}", track.first))]
}

fn nak_codes(stats: &FlowStats) -> Vec<Line<'static>> {
    let codes = (0u32..).zip(stats.naks).filter(|(_, count)| *count > 0);
    codes
        .map(|(code, count)| {
            let name = log::syndrome((0x60 | code) << 24);
            styled("", format!("{count} {name}"), Level::Critical)
        })
        .collect()
}

fn peer(detail: &Detail) -> String {
    match (detail.peer_qp, detail.stats.src_qp) {
        (Some(qp), _) => qp.to_string(),
        (None, SRC_QP_SEVERAL) => "several".to_owned(),
        (None, _) => "not known".to_owned(),
    }
}

/// What the packets look like: RoCE version, MTU and DSCP, then tags and tunnels.
fn path(detail: &Detail) -> (String, String) {
    let stats = &detail.stats;
    let mtu = if stats.mtu > 0 { stats.mtu.to_string() } else { units::UNKNOWN.to_owned() };
    let dscp = if stats.dscp == DSCP_NONE { units::UNKNOWN.to_owned() } else { stats.dscp.to_string() };
    let mut tags = vec![match stats.vlan_id() {
        None => "VLAN -".to_owned(),
        Some(0) => "untagged".to_owned(),
        Some(id) => format!("VLAN {id}"),
    }];
    if let Some(id) = stats.inner_vlan_id().filter(|id| *id != 0) {
        tags.push(format!("inner VLAN {id}"));
    }
    tags.extend(stats.priority().map(|pcp| format!("PCP {pcp}")));
    if !detail.encapsulation.is_empty() {
        tags.push(detail.encapsulation.join("/"));
    }
    (format!("RoCEv{}, MTU {mtu}, DSCP {dscp}", stats.roce_version), tags.join(", "))
}

fn lists(detail: &Detail, bars: bool) -> Vec<Line<'static>> {
    let packets = detail.stats.packets;
    let mut lines = vec![Line::styled(" opcodes", theme::DIM)];
    for (code, count) in detail.opcodes.iter().take(LISTED) {
        lines.push(counted(&Name(*code).to_string(), *count, packets, bars));
    }
    let ports = detail.ports.len();
    if ports > 0 {
        lines.push(Line::styled(format!(" source ports: {ports}"), theme::DIM));
        for (port, counter) in detail.ports.iter().take(LISTED) {
            lines.push(counted(&port.to_string(), counter.packets, packets, bars));
        }
    }
    lines
}

fn counted(name: &str, count: u64, all: u64, bars: bool) -> Line<'static> {
    let share = if all > 0 { count as f64 / all as f64 } else { 0.0 };
    let mut spans = Spans::default();
    spans.push(format!(" {:>6} ", compact(count as f64)), theme::BOLD);
    if bars {
        spans.push(format!("{} ", bar(share, 5)), theme::BAR);
    }
    spans.push(name, theme::PLAIN);
    spans.into_line()
}
