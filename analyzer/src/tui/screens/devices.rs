//! Counters of devices, each with its source.

use std::collections::BTreeMap;

use ratatui::text::Line;

use crate::analysis::{FaultRank, PortCounter};
use crate::entity::contexts::ContextSample;
use crate::entity::devices::{Devices, PortSample, QpSample};
use crate::entity::lives::{DEVX, QpLife};
use crate::entity::posts::PostSample;
use crate::model::{Level, signals};
use crate::tui::column::compact;
use crate::tui::theme;
use crate::tui::trail::PortRates;
use crate::tui::view::View;
use crate::tui::widgets::panel::section;
use crate::tui::widgets::{Spans, cut};
use crate::util::units;

/// Queue pairs shown of a port, at most.
const QPS: usize = 8;
/// The counters shown of a port, in this order.
const SHOWN: [PortCounter; 20] = [
    PortCounter::CeMarkedPackets,
    PortCounter::CnpsSent,
    PortCounter::CnpsHandled,
    PortCounter::OutOfSequence,
    PortCounter::PsnErrorNaks,
    PortCounter::LocalAckTimeouts,
    PortCounter::Retransmissions,
    PortCounter::SlowRestarts,
    PortCounter::RetriesExceeded,
    PortCounter::RnrNaksReceived,
    PortCounter::RnrNaksSent,
    PortCounter::OutOfBuffer,
    PortCounter::PortDiscards,
    PortCounter::TxDiscards,
    PortCounter::RxDiscards,
    PortCounter::IcrcErrors,
    PortCounter::FecUncorrectable,
    PortCounter::LinkDowns,
    PortCounter::PcieReadStalls,
    PortCounter::PcieWriteStalls,
];

/// Everything about the devices at the snapshot shown; nothing without devices.
pub(super) fn lines(view: &View, width: usize) -> Vec<Line<'static>> {
    let Some(data) = &view.data else { return Vec::new() };
    let ports = &data.sample.devices.ports;
    let mut lines = Vec::new();
    for port in ports {
        let step = view.timeline.trail.rates(port);
        lines.push(head(port, step.as_ref(), width));
        lines.extend(counters(view, port, step.as_ref(), width));
        lines.extend(pauses(view, port, step.as_ref()));
        lines.extend(queue_pairs(view, port, (&data.sample.devices, step.as_ref()), width));
    }
    if !lines.is_empty() {
        lines.insert(
            0,
            section("NIC COUNTERS", "latest reading; not part of the packet counters above", width),
        );
    }
    lines
}

/// Short name of the source of a counter.
fn tag(source: &str) -> &'static str {
    match source {
        "ethtool" => "ethtool",
        "sysfs hw_counters" => "hw",
        "RDMA netlink" => "netlink",
        "DCB netlink" => "dcb",
        _ => "sysfs",
    }
}

fn head(port: &PortSample, step: Option<&PortRates<'_>>, width: usize) -> Line<'static> {
    let mut spans = Spans::default();
    let on = port.place().unwrap_or_else(|| units::UNKNOWN.to_owned());
    let driver = port.driver.as_deref().unwrap_or("unknown driver");
    spans.push(format!(" {} ", port.label()), theme::BOLD);
    spans.push(cut(&format!("{driver} on {on} "), width / 3, true), theme::DIM);
    for (way, packets, bytes) in [("rx", "rx_packets", "rx_bytes"), ("tx", "tx_packets", "tx_bytes")] {
        let per_s = |name| step.and_then(|step| step.per_s(name));
        let bits = per_s(bytes).map_or_else(|| units::UNKNOWN.into(), |n| units::bit_rate(n * 8.0));
        let count = per_s(packets).map_or_else(|| units::UNKNOWN.into(), compact);
        spans.push(format!(" {way} "), theme::DIM).push(format!("{bits} {count} pkt/s"), theme::PLAIN);
        let source = port.value(bytes).or_else(|| port.value(packets));
        spans.push(source.map_or_else(String::new, |(_, s)| format!(" [{}]", tag(s))), theme::DIM);
    }
    if port.hidden {
        spans.push("  RoCE offloaded", theme::text(Level::Warning));
    }
    spans.into_line()
}

/// Counters above zero, with their rates.
fn counters(
    view: &View,
    port: &PortSample,
    step: Option<&PortRates<'_>>,
    width: usize,
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut spans = Spans::default();
    for counter in SHOWN {
        let (name, title) = (counter.name(), counter.title());
        let Some((total, source)) = port.value(name).filter(|(total, _)| *total > 0) else { continue };
        let rate = step.and_then(|step| step.per_s(name));
        let per_s = rate.map_or_else(|| units::UNKNOWN.into(), compact);
        let figure = format!("{per_s}/s, {} total", compact(total as f64));
        let tag = format!(" [{}]", tag(source));
        if spans.width > 0 && spans.width + title.len() + figure.len() + tag.len() + 4 > width {
            lines.push(std::mem::take(&mut spans).into_line());
        }
        let grows = rate.is_some_and(|rate| rate > 0.0);
        let style = if grows { theme::text(view.counter_level(port, counter)) } else { theme::PLAIN };
        spans.push(format!("   {title} "), theme::DIM).push(figure, style).push(tag, theme::DIM);
    }
    if spans.width > 0 {
        lines.push(spans.into_line());
    }
    lines
}

fn pauses(view: &View, port: &PortSample, step: Option<&PortRates<'_>>) -> Vec<Line<'static>> {
    let worst = view.port_level(port, signals::PAUSED);
    let mut lines = Vec::new();
    for pause in port.pause.iter().filter(|p| p.frames.unwrap_or(0) + p.paused_ns.unwrap_or(0) > 0) {
        let share = step.and_then(|step| step.paused(pause.sent, pause.priority));
        let way = if pause.sent { "sent" } else { "received" };
        let level = if share.is_some_and(|share| share > 0.0) { worst } else { Level::Fine };
        let priority = pause.priority.map_or_else(|| "link-level".into(), |p| format!("priority {p}"));
        let frames = pause.frames.map_or_else(|| units::UNKNOWN.into(), |n| compact(n as f64));
        let mut spans = Spans::default();
        spans.push(format!("   PFC {way} {priority} "), theme::DIM);
        spans.push(format!("paused {} of time", units::ratio(share)), theme::text(level));
        spans
            .push(format!(", {frames} frames total"), theme::PLAIN)
            .push(format!(" [{}]", tag(port.pause_source)), theme::DIM);
        lines.push(spans.into_line());
    }
    lines
}

/// Facts from the NIC's own context of a queue pair; a dash for those that it lacks.
fn in_context(of: &ContextSample, level: Level) -> Line<'static> {
    let number = |n: Option<u32>| n.map_or_else(|| units::UNKNOWN.into(), |n| compact(f64::from(n)));
    let of_set = |used: Option<u8>, set: Option<u8>| match used {
        None => units::UNKNOWN.to_owned(),
        Some(used) => format!("{used}/{}", number(set.map(u32::from))),
    };
    let stuck = of.stuck_ns.filter(|ns| *ns > 0);
    let retries = of.retries_used.is_some_and(|used| used > 0);
    let mut spans = Spans::default();
    spans.push("      in flight ", theme::DIM).push(number(of.in_flight), theme::PLAIN);
    let level = theme::text(level);
    let time =
        stuck.map_or_else(|| of.stuck_ns.map_or(units::UNKNOWN.into(), |_| "0".into()), units::duration);
    spans.push("  stuck ", theme::DIM).push(time, if stuck.is_some() { level } else { theme::PLAIN });
    spans.push("  retries ", theme::DIM);
    let style = if retries { level } else { theme::PLAIN };
    spans.push(of_set(of.retries_used, of.context.retry_cnt), style);
    spans.push("  RNR ", theme::DIM).push(of_set(of.rnr_retries_used, of.context.rnr_retry), theme::PLAIN);
    spans.push("  unsent ", theme::DIM).push(number(of.context.unsent), theme::PLAIN);
    spans.push("  receives ", theme::DIM).push(number(of.context.posted_receives), theme::PLAIN);
    spans.into_line()
}

/// Work that its process posts, extrapolated from samples.
fn posted(of: &PostSample) -> Line<'static> {
    let rate = |n: u64, unit: fn(f64) -> String| {
        of.per_s(n).map_or_else(|| units::UNKNOWN.into(), |n| unit(n as f64))
    };
    let mut spans = Spans::default();
    spans.push("      posts about ", theme::DIM);
    spans.push(rate(of.counts.requests, compact), theme::PLAIN).push("/s  ", theme::DIM);
    spans.push(rate(of.counts.bytes * 8, units::bit_rate), theme::PLAIN).push("  of ", theme::DIM);
    let sizes = match (of.counts.shortest, of.counts.longest) {
        (shortest, longest) if shortest > longest => units::UNKNOWN.to_owned(),
        (shortest, longest) if shortest == longest => units::bytes(shortest),
        (shortest, longest) => format!("{} to {}", units::bytes(shortest), units::bytes(longest)),
    };
    spans.push(sizes, theme::PLAIN).push(" [post_send, sampled]", theme::DIM);
    spans.into_line()
}

/// Queue pairs that no list of the kernel has.
fn past_the_verbs<'a>(port: &'a PortSample, devices: &'a Devices) -> impl Iterator<Item = &'a QpLife> {
    devices.lives.qps.iter().filter(move |life| {
        let here = life.device == port.device && life.port.is_none_or(|number| number == port.port);
        life.origin == Some(DEVX) && !life.control.is_over() && here
    })
}

/// A queue pair made past the verbs: its packets are not known, its path is.
fn of_devx(life: &QpLife, width: usize) -> Line<'static> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| units::UNKNOWN.into());
    let mut spans = Spans::default();
    let (peer, kind) = (or_dash(life.rqpn.map(|qpn| qpn.to_string())), life.kind.unwrap_or(units::UNKNOWN));
    let state = life.state.unwrap_or(units::UNKNOWN);
    spans.push(format!("   QP {:<8} → {peer:<8} {kind:<4} {state:<5}", life.lqpn), theme::PLAIN);
    let dst = or_dash(life.control.dst.map(|dst| dst.to_string()));
    let dscp = or_dash(life.control.dscp.map(|dscp| dscp.to_string()));
    spans.push(format!(" to {dst} DSCP {dscp}"), theme::PLAIN).push(" [DEVX] ", theme::DIM);
    let room = width.saturating_sub(spans.width);
    spans.push(cut(life.comm.as_deref().unwrap_or_default(), room, false), theme::DIM);
    spans.into_line()
}

/// The queue pairs that stand still or retry, then the busiest.
fn queue_pairs(
    view: &View,
    port: &PortSample,
    (devices, step): (&Devices, Option<&PortRates<'_>>),
    width: usize,
) -> Vec<Line<'static>> {
    let of_port = devices.contexts.qps.iter().filter(|qp| qp.device == port.device && qp.port == port.port);
    let contexts: BTreeMap<u32, &ContextSample> = of_port.map(|qp| (qp.lqpn, qp)).collect();
    let trouble = |qp: &QpSample| {
        let of = contexts.get(&qp.owner.lqpn);
        FaultRank {
            stuck_ns: of.and_then(|of| of.stuck_ns).unwrap_or(0),
            retries: of.and_then(|of| of.retries_used).unwrap_or(0),
            ..FaultRank::default()
        }
    };
    let rates = |qp: &QpSample| step.map_or((None, None), |step| step.qp_per_s(qp));
    let mut busiest: Vec<(&QpSample, f64)> = port
        .qps
        .iter()
        .map(|qp| {
            let (sent, received) = rates(qp);
            (qp, sent.unwrap_or(0.0) + received.unwrap_or(0.0))
        })
        .collect();
    busiest.sort_by(|a, b| trouble(b.0).cmp(&trouble(a.0)).then(b.1.total_cmp(&a.1)));
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (qp, _) in busiest.iter().take(QPS) {
        let (sent, received) = rates(qp);
        let rate = |rate: Option<f64>| rate.map_or_else(|| units::UNKNOWN.into(), compact);
        let peer = qp.owner.rqpn.map_or_else(|| units::UNKNOWN.into(), |qpn| qpn.to_string());
        let kind = qp.owner.kind.unwrap_or(units::UNKNOWN);
        let state = qp.owner.state.unwrap_or(units::UNKNOWN);
        let whose = [qp.owner.comm.clone(), qp.owner.pod.clone()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" in ");
        let mut spans = Spans::default();
        spans.push(format!("   QP {:<8} → {peer:<8} {kind:<4} {state:<5}", qp.owner.lqpn), theme::PLAIN);
        // Without rates the owner has their room.
        if sent.is_some() || received.is_some() {
            spans.push(format!(" tx {:>6} rx {:>6} pkt/s", rate(sent), rate(received)), theme::PLAIN);
        }
        let context = contexts.get(&qp.owner.lqpn);
        spans.push(if context.is_some() { " [context] " } else { " [netlink] " }, theme::DIM);
        let room = width.saturating_sub(spans.width);
        spans.push(cut(&whose, room, false), theme::DIM);
        lines.push(spans.into_line());
        let level = view.local_qp_level(port, qp.owner.lqpn);
        lines.extend(context.map(|of| in_context(of, level)));
        lines.extend(devices.posts.of(&port.device, &qp.owner).map(posted));
    }
    let past: Vec<&QpLife> = past_the_verbs(port, devices).collect();
    lines.extend(past.iter().take(QPS).map(|life| of_devx(life, width)));
    let unshown = port.qps.len().saturating_sub(QPS) + past.len().saturating_sub(QPS);
    let more = unshown as u64 + port.qps_left_out;
    if more > 0 {
        lines.push(Line::styled(format!("   +{}", units::plural(more, "more queue pair")), theme::DIM));
    }
    lines
}
