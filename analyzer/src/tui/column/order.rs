//! Columns as numbers: how rows are sorted and compared by them.

use rocescope_common::account::flow::DSCP_NONE;

use rocescope_common::account::FlowStats;
use rocescope_common::account::flow::TRANSPORT_NONE;

use super::{Context, Id, share};
use crate::model::{Counts, Delta, Row, State, detail};
use crate::sample::address;

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
            | Id::Comm
            | Id::Pid
            | Id::Pod
            | Id::Transport
            | Id::SourcePort
            | Id::PeerQp
            | Id::Tunnel
    )
}

/// The sort key of row number `index`. Rows that are equal are sorted by rate.
#[must_use]
pub fn sort_key(id: Id, descending: bool, index: usize, row: &Row, cx: Context<'_>) -> SortKey {
    let value = sort_value(id, row, cx);
    let rate = float(row.delta.map_or(0.0, |d| d.bits_per_s()));
    let minor = std::cmp::Reverse(u64::try_from(rate).unwrap_or(u64::MAX));
    let major = value.map_or(0, |value| if descending { !value } else { value });
    SortKey { unknown: value.is_none(), major, minor, index }
}

/// Floats that are not negative compare like their bits.
fn float(n: f64) -> u128 {
    u128::from(n.max(0.0).to_bits())
}

fn sort_value(id: Id, row: &Row, cx: Context<'_>) -> Option<u128> {
    let key = &row.id.key;
    let ip = |words| match address(key.family, words) {
        std::net::IpAddr::V4(ip) => u128::from(ip.to_bits()),
        std::net::IpAddr::V6(ip) => ip.to_bits(),
    };
    match id {
        Id::Source => Some(ip(key.src)),
        Id::Destination => Some(ip(key.dst)),
        Id::Tunnel => cx.flow(row).map(|s| u128::from(s.encap)),
        Id::Comm => cx.owner(row).and_then(|owner| owner.comm.as_deref()).map(beginning),
        Id::Pod => cx.owner(row).and_then(|owner| owner.pod.as_deref()).map(beginning),
        Id::Share => row.delta.map(|d| float(d.bits_per_s())),
        _ => value(id, row, cx).map(float),
    }
}

/// Texts compare like their first sixteen bytes.
fn beginning(text: &str) -> u128 {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
    u128::from_be_bytes(bytes)
}

/// The figure that a column shows, in units of one (bits, packets, nanoseconds, fractions of 1); `None` when it is
/// not known, or the column shows no figure.
#[must_use]
pub fn value(id: Id, row: &Row, cx: Context<'_>) -> Option<f64> {
    let total = &row.total;
    let delta = row.delta.as_ref();
    let counted = |figure: fn(&Counts) -> u64| delta.map(|delta| figure(&delta.counts) as f64);
    let stats = || cx.flow(row);
    match id {
        Id::Source | Id::Destination | Id::Tunnel | Id::Comm | Id::Pod => None,
        Id::Pid => cx.owner(row).and_then(|owner| owner.pid).map(f64::from),
        Id::P50 => row.latency.map(|times| times.p50.ns() as f64),
        Id::P99 => row.latency.map(|times| times.p99.ns() as f64),
        Id::State => Some(f64::from(State::of(row).rank())),
        Id::Qp => Some(f64::from(row.id.key.dest_qp)),
        Id::Rate => delta.map(Delta::bits_per_s),
        Id::Share => Some(share(row, cx.model)),
        Id::PacketRate => delta.map(Delta::packets_per_s),
        Id::CeNow => delta.and_then(|d| d.counts.ce_ratio()),
        Id::CeAll => total.ce_ratio(),
        Id::CnpRate => delta.map(Delta::cnp_per_s),
        Id::Cnps => Some(total.cnp as f64),
        Id::Lost => counted(|c| c.lost),
        Id::Gaps => counted(|c| c.gaps),
        Id::Repeats => counted(|c| c.repeats),
        Id::Naks => counted(Counts::naks),
        Id::Rnr => counted(|c| c.rnr),
        Id::Bytes => Some(total.bytes as f64),
        Id::Packets => Some(total.packets as f64),
        Id::Link => Some(f64::from(row.id.key.link)),
        Id::Transport => stats().filter(|s| s.transport != TRANSPORT_NONE).map(|s| f64::from(s.transport)),
        Id::Mtu => stats().filter(|s| s.mtu > 0).map(|s| f64::from(s.mtu)),
        Id::Dscp => stats().filter(|s| s.dscp != DSCP_NONE).map(|s| f64::from(s.dscp)),
        Id::SourcePort => stats().filter(|s| s.roce_version == 2).map(|s| f64::from(s.src_port)),
        Id::PeerQp => row.at.and_then(|at| detail::peer_qp(cx.sample, at)).map(f64::from),
        Id::Vlan => stats().and_then(FlowStats::vlan_id).map(f64::from),
    }
}
