//! The columns of the table of queue pairs: one table gives title, width, order, help, cell text
//! and sort order.

mod fit;
mod order;

use ratatui::style::Style;
use rocescope_common::account::FlowStats;
use rocescope_common::account::flow::{DSCP_NONE, TRANSPORT_NONE};
use rocescope_common::wire::opcode;

pub use fit::{Has, fit, fit_sums};
pub use order::{SortKey, is_wide, largest_first, sort_key, value};

use super::theme;
use crate::metrics::latency::Bucket;
use crate::model::{Counts, Delta, Kind, Level, LinkRow, Model, Row, State, detail};
use crate::sample::{Sample, address};
use crate::source::flows::owners::QpOwner;
use crate::util::units;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "every column is described in the table below")]
pub enum Id {
    State,
    Source,
    Destination,
    Qp,
    Rate,
    Share,
    PacketRate,
    CeNow,
    CeAll,
    CnpRate,
    Cnps,
    Lost,
    Gaps,
    Repeats,
    Naks,
    Rnr,
    P50,
    P99,
    Bytes,
    Packets,
    Link,
    Comm,
    Pid,
    Pod,
    Transport,
    Mtu,
    Dscp,
    SourcePort,
    PeerQp,
    Vlan,
    Tunnel,
}

/// How a column looks and what it means.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Which one.
    pub id: Id,
    /// Its name in filters, on the command line and in the configuration file.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its width.
    pub width: u16,
    /// Columns with a smaller number come first when there is little room.
    pub rank: u8,
    /// Whether it is aligned to the right, as numbers are.
    pub right: bool,
    /// What it shows, for the help.
    pub help: &'static str,
}

const fn left(
    id: Id,
    name: &'static str,
    title: &'static str,
    width: u16,
    rank: u8,
    help: &'static str,
) -> Column {
    Column { id, name, title, width, rank, right: false, help }
}

const fn right(
    id: Id,
    name: &'static str,
    title: &'static str,
    width: u16,
    rank: u8,
    help: &'static str,
) -> Column {
    Column { id, name, title, width, rank, right: true, help }
}

/// Every column, from left to right.
pub const COLUMNS: &[Column] = &[
    left(
        Id::State,
        "state",
        "STATE",
        5,
        0,
        "worst problem; upper case: now, lower case: earlier, +: and others",
    ),
    left(Id::Source, "src", "SOURCE", 15, 0, "source address"),
    left(Id::Destination, "dst", "DESTINATION", 15, 0, "destination address"),
    right(Id::Qp, "qp", "QP", 8, 0, "destination queue pair"),
    right(Id::Rate, "rate", "b/s", 5, 0, "bits per second of whole frames"),
    left(Id::Share, "share", "SHARE", 8, 15, "share of the bits per second, as a bar"),
    right(Id::PacketRate, "pps", "pkt/s", 5, 9, "packets per second"),
    right(Id::CeNow, "ce", "CE %", 5, 1, "packets marked CE by ECN-capable data packets"),
    right(Id::CeAll, "ce_all", "ALL %", 5, 16, "the same since the start"),
    right(
        Id::CnpRate,
        "cnp",
        "CNP/s",
        5,
        2,
        "congestion notification packets per second, in the flow they travel in",
    ),
    right(Id::Cnps, "cnps", "CNPs", 5, 17, "congestion notification packets since the start"),
    right(
        Id::Lost,
        "lost",
        "LOST",
        5,
        3,
        "packets lost before this link; where late ones cannot be told from lost ones, PSNs missing; this and all up to RNR are of the span",
    ),
    right(Id::Gaps, "gaps", "GAPS", 5, 14, "jumps in the PSNs"),
    right(Id::Repeats, "rpt", "RPT", 5, 8, "packets with a PSN seen before: sent again"),
    right(Id::Naks, "nak", "NAKs", 5, 4, "NAKs, RNR apart"),
    right(Id::Rnr, "rnr", "RNR", 5, 7, "receiver-not-ready NAKs"),
    right(
        Id::P50,
        "p50",
        "P50",
        6,
        13,
        "median time from a request to its answer, of the span; nanoseconds in exports",
    ),
    right(Id::P99, "p99", "P99", 6, 10, "99th percentile of the same"),
    right(Id::Bytes, "bytes", "BYTES", 7, 18, "bytes of whole frames since the start"),
    right(Id::Packets, "pkts", "PKTS", 5, 19, "packets since the start"),
    left(Id::Link, "link", "LINK", 10, 12, "interface and direction, or capture file"),
    left(Id::Comm, "comm", "PROCESS", 12, 11, "command of the process that made the queue pair, where known"),
    right(Id::Pid, "pid", "PID", 7, 21, "number of that process"),
    left(Id::Pod, "pod", "POD", 16, 20, "pod or container that it runs in"),
    left(Id::Transport, "trans", "TRANS", 5, 22, "transport: RC, UC, UD, XRC"),
    right(Id::Mtu, "mtu", "MTU", 4, 25, "path MTU: payload of the latest FIRST or MIDDLE packet"),
    right(Id::Dscp, "dscp", "DSCP", 4, 23, "DSCP of the first packet"),
    right(
        Id::SourcePort,
        "port",
        "SPORT",
        6,
        24,
        "UDP source port of the first packet; + when there are others",
    ),
    right(Id::PeerQp, "peer_qp", "PEER QP", 8, 26, "queue pair at the sending end, where it is known"),
    right(Id::Vlan, "vlan", "VLAN", 4, 27, "outermost VLAN id; none (0 in filters): untagged"),
    left(Id::Tunnel, "tunnel", "TUNNEL", 8, 28, "tunnels around the packets"),
];

/// A column with the width it has on this screen.
#[derive(Clone, Copy, Debug)]
pub struct Fitted {
    /// The column.
    pub column: &'static Column,
    /// Its width.
    pub width: u16,
}

/// The column of an id.
#[must_use]
pub fn column(id: Id) -> &'static Column {
    // Every id is in the table; a test looks.
    COLUMNS.iter().find(|column| column.id == id).unwrap_or(&COLUMNS[0])
}

/// The column of a name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.name == name)
}

/// What a cell needs besides its row.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The model.
    pub model: &'a Model,
    /// The newest sample.
    pub sample: &'a Sample,
}

impl<'a> Context<'a> {
    fn flow(&self, row: &Row) -> Option<&'a FlowStats> {
        self.sample.flows.get(row.at?).map(|flow| &flow.stats)
    }

    /// Whether no packet of the row's flow has a place in a sequence: of acknowledgements and CNPs nothing is known to
    /// be lost or to come again.
    pub(super) fn without_sequence(&self, row: &Row) -> bool {
        let total = &row.total;
        total.gaps + total.repeats + total.lost == 0
            && self.flow(row).is_some_and(|stats| stats.psn.seen + stats.psn_responses.seen == 0)
    }

    /// Whose the row's queue pair is, where the kernel says so.
    #[must_use]
    pub fn owner(&self, row: &Row) -> Option<&'a QpOwner> {
        if self.sample.owners.all().is_empty() {
            return None;
        }
        self.sample.flows.get(row.at?).and_then(|flow| self.sample.owned(flow)).map(|owned| owned.owner)
    }
}

/// Text and style of one cell.
#[must_use]
pub fn cell(id: Id, row: &Row, cx: Context<'_>) -> (String, Style) {
    let total = &row.total;
    let delta = row.delta.as_ref();
    let counted = |figure: fn(&Counts) -> u64, level| {
        delta.map_or_else(unknown, |delta| number(figure(&delta.counts), level))
    };
    match id {
        Id::State => state(row),
        Id::Source => (address(row.id.key.family, row.id.key.src).to_string(), theme::PLAIN),
        Id::Destination => (address(row.id.key.family, row.id.key.dst).to_string(), theme::PLAIN),
        Id::Qp => (row.id.key.dest_qp.to_string(), theme::PLAIN),
        Id::Rate => figure(delta.map(Delta::bits_per_s), Level::Fine, theme::BOLD),
        Id::Share => (bar(share(row, cx.model), 8), theme::BAR),
        Id::PacketRate => figure(delta.map(Delta::packets_per_s), Level::Fine, theme::PLAIN),
        Id::CeNow => percent(delta.and_then(|d| d.counts.ce_ratio()), row),
        Id::CeAll => percent(total.ce_ratio(), row),
        Id::CnpRate => figure(delta.map(Delta::cnp_per_s), Level::Warning, theme::PLAIN),
        Id::Cnps => number(total.cnp, Level::Warning),
        Id::Lost | Id::Gaps | Id::Repeats if cx.without_sequence(row) => unknown(),
        Id::Lost => counted(|c| c.lost, Level::Critical),
        Id::Gaps => counted(|c| c.gaps, Level::Critical),
        Id::Repeats => counted(|c| c.repeats, Level::Warning),
        Id::Naks => counted(Counts::naks, Level::Critical),
        Id::Rnr => counted(|c| c.rnr, Level::Warning),
        Id::P50 => time(cx.model.latency(row).map(|times| times.p50)),
        Id::P99 => time(cx.model.latency(row).and_then(|times| times.tail())),
        Id::Comm | Id::Pid | Id::Pod => {
            let owner = cx.owner(row);
            let text = match id {
                Id::Comm => owner.and_then(|owner| owner.comm.clone()),
                Id::Pid => owner.and_then(|owner| owner.pid).map(|pid| pid.to_string()),
                _ => owner.and_then(|owner| owner.pod.clone()),
            };
            text.map_or_else(unknown, |text| (text, theme::PLAIN))
        }
        Id::Bytes => (units::bytes(total.bytes), theme::PLAIN),
        Id::Packets => number(total.packets, Level::Fine),
        Id::Link => (link(row, cx.model), theme::PLAIN),
        _ => setting(id, row, cx),
    }
}

fn unknown() -> (String, Style) {
    (units::UNKNOWN.to_owned(), theme::DIM)
}

/// Columns that need the flow's own counters.
fn setting(id: Id, row: &Row, cx: Context<'_>) -> (String, Style) {
    let Some(stats) = cx.flow(row) else { return unknown() };
    let peer = || row.at.and_then(|at| detail::peer_qp(cx.sample, at));
    let text = match id {
        Id::Transport if stats.transport != TRANSPORT_NONE => {
            Some(opcode::transport(stats.transport << 5).to_owned())
        }
        Id::Transport if stats.cnp_packets > 0 => Some("CNP".to_owned()),
        Id::Mtu if stats.mtu > 0 => Some(stats.mtu.to_string()),
        Id::Dscp if stats.dscp != DSCP_NONE => Some(stats.dscp.to_string()),
        Id::SourcePort if stats.roce_version == 2 => {
            Some(format!("{}{}", stats.src_port, if stats.other_port_packets > 0 { "+" } else { "" }))
        }
        Id::PeerQp => peer().map(|qp| qp.to_string()),
        Id::Vlan => stats.vlan_id().map(|id| if id == 0 { "none".to_owned() } else { id.to_string() }),
        Id::Tunnel => Some(detail::encapsulation(stats.encap).join("/")),
        _ => None,
    };
    match text {
        None => unknown(),
        Some(text) if text == "0" || text == "none" => (text, theme::DIM),
        Some(text) => (text, theme::PLAIN),
    }
}

/// The state as a word: upper case while it lasts.
#[must_use]
pub fn state(row: &Row) -> (String, Style) {
    let state = State::of(row);
    match (state.worst, state.active) {
        (Some(kind), _) => {
            let more = if state.more { "+" } else { "" };
            if state.present {
                (format!("{}{more}", kind.word()), theme::badge(state.level()))
            } else {
                (format!("{}{more}", kind.word().to_lowercase()), theme::text(state.level()))
            }
        }
        (None, Some(false)) => ("idle".into(), theme::DIM),
        (None, _) if !state.known() => unknown(),
        (None, _) => ("ok".into(), theme::PLAIN),
    }
}

fn time(bucket: Option<Bucket>) -> (String, Style) {
    bucket.map_or_else(unknown, |bucket| (units::duration(bucket.ns()).replace(' ', ""), theme::PLAIN))
}

/// Name and number of a process, as far as they are known.
#[must_use]
pub fn process(owner: &QpOwner) -> Option<String> {
    match (&owner.comm, owner.pid) {
        (Some(comm), Some(pid)) => Some(format!("{comm} ({pid})")),
        (Some(comm), None) => Some(comm.clone()),
        (None, pid) => pid.map(|pid| format!("process {pid}")),
    }
}

/// Three significant digits without a space: `1.25k`.
#[must_use]
pub fn compact(n: f64) -> String {
    units::si(n).replace(' ', "")
}

fn figure(value: Option<f64>, level: Level, fine: Style) -> (String, Style) {
    match value {
        None => (units::UNKNOWN.into(), theme::DIM),
        Some(n) if n <= 0.0 => ("0".into(), theme::DIM),
        Some(n) => (compact(n), if level == Level::Fine { fine } else { theme::text(level) }),
    }
}

fn number(n: u64, level: Level) -> (String, Style) {
    if n < 100_000 {
        let style = if n == 0 { theme::DIM } else { theme::text(level) };
        (n.to_string(), style)
    } else {
        (compact(n as f64), theme::text(level))
    }
}

fn percent(ratio: Option<f64>, row: &Row) -> (String, Style) {
    let style = match ratio {
        None => theme::DIM,
        Some(r) if r <= 0.0 => theme::DIM,
        Some(_) if State::of(row).has(Kind::Congestion) => theme::text(Level::Warning),
        Some(_) => theme::PLAIN,
    };
    (units::ratio(ratio).trim_end_matches(" %").to_owned(), style)
}

fn share(row: &Row, model: &Model) -> f64 {
    let all = model.dedup.delta.as_ref().map_or(0.0, Delta::bits_per_s);
    if all > 0.0 { row.delta.as_ref().map_or(0.0, Delta::bits_per_s) / all } else { 0.0 }
}

/// A bar of `width` cells, filled by `share` to the eighth of a cell; what is not nothing shows.
#[must_use]
pub fn bar(share: f64, width: u16) -> String {
    const PARTS: [char; 9] = ['·', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
    let eighths = (share.min(1.0) * f64::from(width) * 8.0).round();
    let eighths = if share > 0.0 { eighths.max(1.0) } else { 0.0 };
    let part = |i: u16| {
        let here = (eighths - f64::from(i) * 8.0).clamp(0.0, 8.0);
        PARTS.into_iter().zip(0u8..).find(|(_, n)| f64::from(*n) >= here).map_or('█', |(part, _)| part)
    };
    (0..width).map(part).collect()
}

/// Whether a column means something for several queue pairs together.
#[must_use]
pub const fn sums_up(id: Id) -> bool {
    matches!(
        id,
        Id::State
            | Id::Rate
            | Id::Share
            | Id::PacketRate
            | Id::CeNow
            | Id::CeAll
            | Id::CnpRate
            | Id::Cnps
            | Id::Lost
            | Id::Gaps
            | Id::Repeats
            | Id::Naks
            | Id::Rnr
            | Id::Bytes
            | Id::Packets
    )
}

/// The value of a cell for an export: a figure, a text, or null for what is not known.
#[must_use]
pub fn json(id: Id, row: &Row, cx: Context<'_>) -> serde_json::Value {
    use serde_json::Value;
    match id {
        Id::State
        | Id::Source
        | Id::Destination
        | Id::Link
        | Id::Comm
        | Id::Pod
        | Id::Transport
        | Id::Tunnel => {
            let text = cell(id, row, cx).0;
            if text == units::UNKNOWN { Value::Null } else { Value::String(text) }
        }
        // Counts are whole numbers and stay so.
        Id::Rate | Id::Share | Id::PacketRate | Id::CeNow | Id::CeAll | Id::CnpRate => {
            value(id, row, cx).into()
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts below 2^53")]
        _ => value(id, row, cx).map(|n| n as u64).into(),
    }
}

/// The name of a row's link, with its direction.
#[must_use]
pub fn link(row: &Row, model: &Model) -> String {
    model.links.get(usize::from(row.id.key.link)).map_or_else(String::new, link_name)
}

/// The name of a link, with its direction.
#[must_use]
pub fn link_name(link: &LinkRow) -> String {
    match link.direction {
        Some(crate::sample::Direction::Ingress) => format!("{} in", link.name),
        Some(crate::sample::Direction::Egress) => format!("{} out", link.name),
        None => link.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn a_bar_is_filled_to_the_eighth_of_a_cell() {
        let bars = [(0.0, "····"), (1e-9, "▏···"), (1.0 / 32.0, "▏···"), (0.25, "█···"), (0.3, "█▎··")];
        for (share, text) in bars.into_iter().chain([(0.5, "██··"), (0.99, "████"), (7.0, "████")])
        {
            assert_eq!(bar(share, 4), text, "{share}");
        }
        assert_eq!(bar(f64::NAN, 2), "··");
    }
}
