//! The columns of the table of queue pairs: one table gives title, width, order, help, cell text
//! and sort order.

use ratatui::style::Style;
use rocescope_common::account::flow::{DSCP_NONE, TRANSPORT_NONE};
use rocescope_common::wire::opcode;

use super::theme;
use crate::model::{Level, Model, Row, State, detail};
use crate::sample::{Sample, address};
use crate::units;

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
    Bytes,
    Packets,
    Link,
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

const fn left(id: Id, title: &'static str, width: u16, rank: u8, help: &'static str) -> Column {
    Column { id, title, width, rank, right: false, help }
}

const fn right(id: Id, title: &'static str, width: u16, rank: u8, help: &'static str) -> Column {
    Column { id, title, width, rank, right: true, help }
}

/// Every column, from left to right.
pub const COLUMNS: &[Column] = &[
    left(Id::State, "STATE", 5, 0, "worst problem; upper case: now, lower case: earlier, +: and others"),
    left(Id::Source, "SOURCE", 15, 0, "source address"),
    left(Id::Destination, "DESTINATION", 15, 0, "destination address"),
    right(Id::Qp, "QP", 8, 0, "destination queue pair"),
    right(Id::Rate, "b/s", 5, 0, "bits per second of whole frames"),
    left(Id::Share, "SHARE", 8, 12, "share of the bits per second, as a bar"),
    right(Id::PacketRate, "pkt/s", 5, 9, "packets per second"),
    right(Id::CeNow, "CE %", 5, 1, "packets marked CE by ECN-capable data packets, now"),
    right(Id::CeAll, "ALL %", 5, 13, "the same since the start"),
    right(Id::CnpRate, "CNP/s", 5, 2, "congestion notification packets per second in this flow"),
    right(Id::Cnps, "CNPs", 5, 14, "congestion notification packets since the start"),
    right(Id::Lost, "LOST", 5, 3, "PSNs missing, requests and responses"),
    right(Id::Gaps, "GAPS", 5, 11, "jumps in the PSNs"),
    right(Id::Repeats, "RPT", 5, 8, "packets with a PSN seen before: sent again"),
    right(Id::Naks, "NAKs", 5, 4, "all NAKs, RNR included"),
    right(Id::Rnr, "RNR", 5, 7, "receiver-not-ready NAKs"),
    right(Id::Bytes, "BYTES", 7, 15, "bytes of whole frames since the start"),
    right(Id::Packets, "PKTS", 5, 16, "packets since the start"),
    left(Id::Link, "LINK", 10, 10, "interface and direction, or capture file"),
    left(Id::Transport, "TRANS", 5, 17, "transport: RC, UC, UD, XRC"),
    right(Id::Mtu, "MTU", 4, 20, "path MTU: payload of the latest FIRST or MIDDLE packet"),
    right(Id::Dscp, "DSCP", 4, 18, "DSCP of the first packet"),
    right(Id::SourcePort, "SPORT", 6, 19, "UDP source port of the first packet; + when there are others"),
    right(Id::PeerQp, "PEER QP", 8, 21, "queue pair at the sending end, where it is known"),
    right(Id::Vlan, "VLAN", 4, 22, "outermost VLAN id; 0: untagged"),
    left(Id::Tunnel, "TUNNEL", 8, 23, "tunnels around the packets"),
];

/// A column with the width it has on this screen.
#[derive(Clone, Copy, Debug)]
pub struct Fitted {
    /// The column.
    pub column: &'static Column,
    /// Its width.
    pub width: u16,
}

/// Room for the longest IPv4 address, and for most of the IPv6 ones.
const ADDRESS_V4: u16 = 15;
const ADDRESS_V6: u16 = 39;

/// The columns that fit into `width`, from left to right. Addresses get what is left over.
#[must_use]
pub fn fit(width: u16, has_ipv6: bool) -> Vec<Fitted> {
    let mut ranked: Vec<&'static Column> = COLUMNS.iter().collect();
    ranked.sort_by_key(|column| column.rank);
    // One column of screen between two columns of the table.
    let mut left = width + 1;
    let mut limit = u8::MAX;
    for column in ranked {
        // On wide screens IPv6 addresses come before the columns of least rank.
        let wanted = column.width + 1;
        if wanted > left || column.rank > limit {
            limit = limit.min(column.rank);
            continue;
        }
        if has_ipv6 && column.rank >= 12 && left < wanted + 2 * (ADDRESS_V6 - ADDRESS_V4) {
            limit = limit.min(column.rank);
            continue;
        }
        left -= wanted;
    }
    let used: Vec<&'static Column> = COLUMNS.iter().filter(|column| column.rank < limit).collect();
    let grow = if has_ipv6 { (left / 2).min(ADDRESS_V6 - ADDRESS_V4) } else { 0 };
    let address = |id| matches!(id, Id::Source | Id::Destination);
    let widths = used
        .into_iter()
        .map(|column| Fitted { column, width: column.width + if address(column.id) { grow } else { 0 } });
    widths.collect()
}

/// What a cell needs besides its row.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The model.
    pub model: &'a Model,
    /// The sample it was made of.
    pub sample: &'a Sample,
}

/// Text and style of one cell. `index` is the row's place in the model.
#[must_use]
pub fn cell(id: Id, index: usize, row: &Row, cx: Context<'_>) -> (String, Style) {
    let total = &row.total;
    let delta = row.delta.as_ref();
    match id {
        Id::State => state(row),
        Id::Source => (address(row.id.key.family, row.id.key.src).to_string(), theme::PLAIN),
        Id::Destination => (address(row.id.key.family, row.id.key.dst).to_string(), theme::PLAIN),
        Id::Qp => (row.id.key.dest_qp.to_string(), theme::PLAIN),
        Id::Rate => figure(delta.map(crate::model::Delta::bits_per_s), Level::Fine, theme::BOLD),
        Id::Share => (bar(share(row, cx.model), 8), theme::BAR),
        Id::PacketRate => figure(delta.map(crate::model::Delta::packets_per_s), Level::Fine, theme::PLAIN),
        Id::CeNow => percent(delta.and_then(|d| d.counts.ce_ratio())),
        Id::CeAll => percent(total.ce_ratio()),
        Id::CnpRate => figure(delta.map(crate::model::Delta::cnp_per_s), Level::Warning, theme::PLAIN),
        Id::Cnps => number(total.cnp, Level::Warning),
        Id::Lost => number(total.missing, Level::Critical),
        Id::Gaps => number(total.gaps, Level::Critical),
        Id::Repeats => number(total.repeats, Level::Warning),
        Id::Naks => {
            let refused = total.sequence_naks + total.other_naks > 0;
            number(total.naks(), if refused { Level::Critical } else { Level::Warning })
        }
        Id::Rnr => number(total.rnr, Level::Warning),
        Id::Bytes => (units::bytes(total.bytes), theme::PLAIN),
        Id::Packets => number(total.packets, Level::Fine),
        Id::Link => (link(row, cx.model), theme::PLAIN),
        _ => setting(id, index, cx),
    }
}

/// Columns that need the flow's own counters.
fn setting(id: Id, index: usize, cx: Context<'_>) -> (String, Style) {
    let unknown = (units::UNKNOWN.to_owned(), theme::DIM);
    let Some(stats) = cx.sample.flows.get(index).map(|flow| &flow.stats) else { return unknown };
    let text = match id {
        Id::Transport if stats.transport != TRANSPORT_NONE => {
            opcode::transport(stats.transport << 5).to_owned()
        }
        Id::Transport if stats.cnp_packets > 0 => "CNP".to_owned(),
        Id::Mtu if stats.mtu > 0 => stats.mtu.to_string(),
        Id::Dscp if stats.dscp != DSCP_NONE => stats.dscp.to_string(),
        Id::SourcePort if stats.roce_version == 2 => {
            format!("{}{}", stats.src_port, if stats.other_port_packets > 0 { "+" } else { "" })
        }
        Id::PeerQp => match detail::peer_qp(cx.sample, index) {
            Some(qp) => qp.to_string(),
            None => return unknown,
        },
        Id::Vlan => match stats.vlan_id() {
            Some(id) => id.to_string(),
            None => return unknown,
        },
        Id::Tunnel => detail::encapsulation(stats.encap).join("/"),
        _ => return unknown,
    };
    if text == "0" { (text, theme::DIM) } else { (text, theme::PLAIN) }
}

/// The state as a word: upper case while it lasts.
#[must_use]
pub fn state(row: &Row) -> (String, Style) {
    let state = State::of(row);
    match (state.worst, state.active) {
        (Some(kind), _) => {
            let more = if state.more { "+" } else { "" };
            if state.present || row.delta.is_none() {
                (format!("{}{more}", kind.word()), theme::badge(kind.level()))
            } else {
                (format!("{}{more}", kind.word().to_lowercase()), theme::text(kind.level()))
            }
        }
        (None, Some(false)) => ("idle".into(), theme::DIM),
        (None, _) => ("ok".into(), theme::PLAIN),
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

fn percent(ratio: Option<f64>) -> (String, Style) {
    let style = match ratio {
        None => theme::DIM,
        Some(r) if r <= 0.0 => theme::DIM,
        Some(r) if r >= crate::model::health::CE_LIMIT => theme::text(Level::Warning),
        Some(_) => theme::PLAIN,
    };
    (units::ratio(ratio).trim_end_matches(" %").to_owned(), style)
}

fn share(row: &Row, model: &Model) -> f64 {
    let all = model.delta.map_or(0.0, |d| d.bits_per_s());
    if all > 0.0 { row.delta.map_or(0.0, |d| d.bits_per_s()) / all } else { 0.0 }
}

/// A bar of `width` cells, filled by `share`.
#[must_use]
pub fn bar(share: f64, width: u16) -> String {
    let eighths = (share.clamp(0.0, 1.0) * f64::from(width)).ceil();
    (0..width).map(|i| if f64::from(i) < eighths { '█' } else { '·' }).collect()
}

/// The name of a row's link, with its direction.
#[must_use]
pub fn link(row: &Row, model: &Model) -> String {
    model.links.get(usize::from(row.id.key.link)).map_or_else(String::new, |link| match link.direction {
        Some(crate::sample::Direction::Ingress) => format!("{} in", link.name),
        Some(crate::sample::Direction::Egress) => format!("{} out", link.name),
        None => link.name.clone(),
    })
}

/// By what rows are sorted; smaller comes first, and unknown always comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SortKey {
    unknown: bool,
    major: u128,
    minor: std::cmp::Reverse<u64>,
    index: usize,
}

/// Whether a column is first sorted with the largest on top.
#[must_use]
pub const fn largest_first(id: Id) -> bool {
    !matches!(
        id,
        Id::Source
            | Id::Destination
            | Id::Qp
            | Id::Link
            | Id::Transport
            | Id::SourcePort
            | Id::PeerQp
            | Id::Tunnel
    )
}

/// The sort key of a row. Rows that are equal are sorted by rate.
#[must_use]
pub fn sort_key(id: Id, descending: bool, index: usize, row: &Row, cx: Context<'_>) -> SortKey {
    let value = sort_value(id, index, row, cx);
    let rate = float(row.delta.map_or(0.0, |d| d.bits_per_s()));
    let minor = std::cmp::Reverse(u64::try_from(rate).unwrap_or(u64::MAX));
    let major = value.map_or(0, |value| if descending { !value } else { value });
    SortKey { unknown: value.is_none(), major, minor, index }
}

/// Floats that are not negative compare like their bits.
fn float(n: f64) -> u128 {
    u128::from(n.max(0.0).to_bits())
}

fn sort_value(id: Id, index: usize, row: &Row, cx: Context<'_>) -> Option<u128> {
    let total = &row.total;
    let delta = row.delta.as_ref();
    let key = &row.id.key;
    let ip = |words| match address(key.family, words) {
        std::net::IpAddr::V4(ip) => u128::from(ip.to_bits()),
        std::net::IpAddr::V6(ip) => ip.to_bits(),
    };
    let stats = cx.sample.flows.get(index).map(|flow| &flow.stats);
    match id {
        Id::State => Some(u128::from(State::of(row).rank())),
        Id::Source => Some(ip(key.src)),
        Id::Destination => Some(ip(key.dst)),
        Id::Qp => Some(u128::from(key.dest_qp)),
        Id::Rate | Id::Share => delta.map(|d| float(d.bits_per_s())),
        Id::PacketRate => delta.map(|d| float(d.packets_per_s())),
        Id::CeNow => delta.and_then(|d| d.counts.ce_ratio()).map(float),
        Id::CeAll => total.ce_ratio().map(float),
        Id::CnpRate => delta.map(|d| float(d.cnp_per_s())),
        Id::Cnps => Some(u128::from(total.cnp)),
        Id::Lost => Some(u128::from(total.missing)),
        Id::Gaps => Some(u128::from(total.gaps)),
        Id::Repeats => Some(u128::from(total.repeats)),
        Id::Naks => Some(u128::from(total.naks())),
        Id::Rnr => Some(u128::from(total.rnr)),
        Id::Bytes => Some(u128::from(total.bytes)),
        Id::Packets => Some(u128::from(total.packets)),
        Id::Link => Some(u128::from(key.link)),
        Id::Transport => stats.filter(|s| s.transport != TRANSPORT_NONE).map(|s| u128::from(s.transport)),
        Id::Mtu => stats.filter(|s| s.mtu > 0).map(|s| u128::from(s.mtu)),
        Id::Dscp => stats.filter(|s| s.dscp != DSCP_NONE).map(|s| u128::from(s.dscp)),
        Id::SourcePort => stats.filter(|s| s.roce_version == 2).map(|s| u128::from(s.src_port)),
        Id::PeerQp => detail::peer_qp(cx.sample, index).map(u128::from),
        Id::Vlan => stats.and_then(rocescope_common::account::FlowStats::vlan_id).map(u128::from),
        Id::Tunnel => stats.map(|s| u128::from(s.encap)),
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Id, fit};

    #[test]
    fn at_80_columns_what_matters_fits_and_wider_screens_show_more() {
        let ids = |width, v6| fit(width, v6).iter().map(|f| f.column.id).collect::<Vec<_>>();
        let used = |width, v6| fit(width, v6).iter().map(|f| f.width + 1).sum::<u16>() - 1;
        let narrow = ids(80, false);
        for id in [
            Id::State,
            Id::Source,
            Id::Destination,
            Id::Qp,
            Id::Rate,
            Id::CeNow,
            Id::CnpRate,
            Id::Lost,
            Id::Naks,
        ] {
            assert!(narrow.contains(&id), "{id:?}");
        }
        assert!(ids(120, false).len() > narrow.len());
        assert_eq!(ids(240, false).len(), COLUMNS.len());
        for width in 60..300 {
            assert!(used(width, false) <= width, "{width}");
            assert!(used(width, true) <= width, "{width}");
            if width > 60 {
                assert!(ids(width, false).len() >= ids(width - 1, false).len(), "{width}");
            }
        }
    }
}
