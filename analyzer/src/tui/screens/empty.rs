//! Reasons why a screen is empty, and remedies.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use rocescope_common::wire::SkipReason;

use crate::entity::devices::PortSample;
use crate::report::text::nccl_summary;
use crate::sample::SourceKind;
use crate::tui::column::compact;
use crate::tui::data::Data;
use crate::tui::theme;
use crate::tui::timeline::End;
use crate::tui::view::View;
use crate::tui::widgets::line;
use crate::util::units;
use crate::util::wrap::hanging;

/// Reasons listed.
const REASONS: usize = 6;

pub(super) fn render(buffer: &mut Buffer, area: Rect, view: &View) {
    put(buffer, area, &lines(view));
}

/// Reasons why a screen is empty, and remedies.
pub(super) fn because(buffer: &mut Buffer, area: Rect, why: &str, help: &str) {
    put(buffer, area, &[title(why), text(help)]);
}

/// Lines that [`render`] fills.
pub(super) fn height(view: &View, width: u16) -> u16 {
    let lines = lines(view).iter().map(|line| wrapped(line, width.into()).len()).sum::<usize>();
    u16::try_from(lines).unwrap_or(u16::MAX - 1) + 1
}

fn put(buffer: &mut Buffer, area: Rect, lines: &[Line<'_>]) {
    let width = usize::from(area.width);
    for (y, text) in (1..).zip(lines.iter().flat_map(|line| wrapped(line, width))) {
        line(buffer, area, y, &text);
    }
}

/// Breaks a line between words; what follows is indented a little more than its beginning.
fn wrapped(text: &Line<'_>, width: usize) -> Vec<Line<'static>> {
    let whole = text.to_string();
    let indent = whole.chars().take_while(|c| *c == ' ').count() + 2;
    hanging(&whole, width, indent).into_iter().map(|part| Line::styled(part, text.style)).collect()
}

/// True if there is nothing at all to see; says why, if so.
pub(super) fn nothing_at_all(buffer: &mut Buffer, area: Rect, view: &View) -> bool {
    let nothing = view.data.as_ref().is_none_or(|data| data.model.rows.is_empty());
    if nothing {
        render(buffer, area, view);
    }
    nothing
}

fn text(text: impl Into<String>) -> Line<'static> {
    Line::from(format!("  {}", text.into()))
}

fn title(text: impl Into<String>) -> Line<'static> {
    Line::styled(format!("  {}", text.into()), theme::BOLD)
}

fn lines(view: &View) -> Vec<Line<'static>> {
    let Some(data) = &view.data else {
        return match &view.timeline.end {
            None => vec![title("Waiting for the first sample…")],
            Some(End::Done) => vec![title("The source ended without a sample.")],
            // It may be a file, or an option: the sentence names what is at fault.
            Some(End::Failed(error)) => vec![title(error.clone())],
        };
    };
    let mut lines = nothing(view, data);
    if let Some(nccl) = view.analysis.as_ref().and_then(|analysis| analysis.report.facts.nccl.as_ref()) {
        lines.extend([Line::default(), title(nccl_summary(nccl))]);
    }
    lines.extend(data.model.skipped.first().map(|(reason, _)| remedy(*reason)).into_iter().flatten());
    let hidden: Vec<String> = hidden(data).map(PortSample::label).collect();
    if !hidden.is_empty() {
        lines.push(Line::default());
        let one = if hidden.len() == 1 { "offloads" } else { "offload" };
        lines.push(title(format!("{} {one} RoCE.", hidden.join(", "))));
        let qps = data.sample.devices.lives.qps.len()
            + data.sample.devices.ports.iter().map(|port| port.qps.len()).sum::<usize>();
        lines.push(text(if qps > 0 {
            "Queue pairs: screen 2; NIC counters: screen 5 and findings."
        } else {
            "NIC counters: screen 5 and findings."
        }));
    }
    if data.model.kind == SourceKind::Live {
        lines.extend(live_hint());
    }
    lines
}

/// Ports whose NIC carries RoCE past the kernel.
fn hidden(data: &Data) -> impl Iterator<Item = &PortSample> {
    data.sample.devices.ports.iter().filter(|port| port.hidden)
}

fn nothing(view: &View, data: &Data) -> Vec<Line<'static>> {
    let model = &data.model;
    let frames = model.frames();
    if model.kind == SourceKind::Live && data.sample.links.is_empty() {
        return vec![
            title("No packet source: only NIC counters are read."),
            text("See screen 5 and the findings. The events (screen 7) say why there are no packets."),
        ];
    }
    if frames == 0 {
        let what = match (&view.timeline.end, model.kind) {
            (Some(_), SourceKind::Replay) if data.sample.recording.is_some() => {
                "No packets recorded in the time range shown."
            }
            (Some(_), SourceKind::Replay) => "The capture contains no frames in the time range shown.",
            (_, SourceKind::Replay) if data.sample.recording.is_some() => "No packets recorded so far.",
            (_, SourceKind::Replay) => "No frames read yet.",
            (_, SourceKind::Live) => "No frames captured yet on these interfaces.",
        };
        let help = match (&view.timeline.end, model.kind) {
            _ if data.sample.recording.is_some() && hidden(data).next().is_some() => {
                return vec![title(what)];
            }
            (Some(_), _) => "Check --from and --to, and the interface and filter of the capture.",
            (None, SourceKind::Replay) => "Values appear with the first frame of the capture.",
            // What an offloaded NIC carries is in its counters: neither link nor traffic is in question.
            (None, SourceKind::Live) if hidden(data).next().is_some() => return vec![title(what)],
            (None, SourceKind::Live) => "Is the link up and is there traffic? Compare with `ip -s link`.",
        };
        return vec![title(what), text(help)];
    }
    if model.total.packets > 0 {
        return vec![
            title("No active queue pairs."),
            text(format!("{} retired by the idle timeout.", units::plural(model.retired_flows, "flow"))),
        ];
    }
    let so_far = if view.timeline.end.is_some() { "" } else { " yet" };
    let mut lines = vec![title(format!(
        "No RoCE packets{so_far} in {} frames. Frames by reason:",
        compact(frames as f64)
    ))];
    for (reason, packets) in model.skipped.iter().take(REASONS) {
        let share = units::ratio(Some(*packets as f64 / frames as f64));
        let count = compact(*packets as f64);
        lines.push(text(format!("  {count:>6} {share:>7}  {}: {}", reason.name(), reason.meaning())));
    }
    lines
}

fn remedy(reason: SkipReason) -> Vec<Line<'static>> {
    let advice = match reason {
        SkipReason::Truncated | SkipReason::TruncatedHeaders => {
            "Frames are truncated: capture at least 128 bytes per frame (tcpdump -s 128)."
        }
        SkipReason::Filtered => "The filter on the command line excludes all RoCE packets.",
        SkipReason::LinkTypeUnsupported => "Capture on an Ethernet interface, or with tcpdump -i any.",
        SkipReason::UltraEthernet => "This is Ultra Ethernet, not RoCE; rocescope does not decode it.",
        _ => return Vec::new(),
    };
    vec![Line::default(), text(advice)]
}

fn live_hint() -> Vec<Line<'static>> {
    vec![
        Line::default(),
        title("Hardware-offloaded RoCE bypasses XDP and TC."),
        text("Use a mirror port, or the RDMA sniffer of libpcap where the NIC supports it:"),
        text("  tcpdump -U -s 128 -i mlx5_0 -w - | rocescope replay -"),
    ]
}
