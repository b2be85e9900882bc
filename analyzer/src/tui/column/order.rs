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
    pub(in crate::tui) major: u128,
    pub(in crate::tui) minor: std::cmp::Reverse<u64>,
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

/// The sort key of a row. Rows that are equal are sorted by rate.
#[must_use]
pub fn sort_key(id: Id, descending: bool, row: &Row, cx: Context<'_>) -> SortKey {
    let minor = std::cmp::Reverse(row.delta.as_ref().map_or(0, |d| float(d.bits_per_s())));
    let turned = |value: u128, all: u128| if descending { all - value.min(all) } else { value };
    let major = match sort_value(id, row, cx) {
        // One below the largest, which is for what is not known.
        Some(Value::Figure(n)) => turned(u128::from(n), u128::from(u64::MAX) - 1),
        Some(Value::Wide(n)) => turned(n, u128::MAX - 1),
        None if is_wide(id) => u128::MAX,
        None => u128::from(u64::MAX),
    };
    SortKey { major, minor }
}

/// Floats that are not negative compare like their bits.
fn float(n: f64) -> u64 {
    n.max(0.0).to_bits()
}

/// What a column sorts by.
enum Value {
    /// The bits of a float.
    Figure(u64),
    /// An address, or the beginning of a text.
    Wide(u128),
}

/// Whether rows are sorted by more than a figure: by an address or a text.
#[must_use]
pub const fn is_wide(id: Id) -> bool {
    matches!(id, Id::Source | Id::Destination | Id::Comm | Id::Pod)
}

fn sort_value(id: Id, row: &Row, cx: Context<'_>) -> Option<Value> {
    let key = &row.id.key;
    let ip = |words| match address(key.family, words) {
        std::net::IpAddr::V4(ip) => u128::from(ip.to_bits()),
        std::net::IpAddr::V6(ip) => ip.to_bits(),
    };
    match id {
        Id::Source => Some(Value::Wide(ip(key.src))),
        Id::Destination => Some(Value::Wide(ip(key.dst))),
        Id::Tunnel => cx.flow(row).map(|s| Value::Figure(u64::from(s.encap))),
        Id::Comm => {
            cx.owner(row).and_then(|owner| owner.comm.as_deref()).map(|text| Value::Wide(beginning(text)))
        }
        Id::Pod => {
            cx.owner(row).and_then(|owner| owner.pod.as_deref()).map(|text| Value::Wide(beginning(text)))
        }
        Id::Share => row.delta.as_ref().map(|d| Value::Figure(float(d.bits_per_s()))),
        _ => value(id, row, cx).map(|n| Value::Figure(float(n))),
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
        Id::P50 => cx.model.latency(row).map(|times| times.p50.ns() as f64),
        Id::P99 => cx.model.latency(row).and_then(|times| times.tail()).map(|p99| p99.ns() as f64),
        Id::State => Some(f64::from(State::of(row).rank())),
        Id::Qp => Some(f64::from(row.id.key.dest_qp)),
        Id::Rate => delta.map(Delta::bits_per_s),
        Id::Share => Some(share(row, cx.model)),
        Id::PacketRate => delta.map(Delta::packets_per_s),
        Id::CeNow => delta.and_then(|d| d.counts.ce_ratio()),
        Id::CeAll => total.ce_ratio(),
        Id::CnpRate => delta.map(Delta::cnp_per_s),
        Id::Cnps => Some(total.cnp as f64),
        Id::Lost | Id::Gaps | Id::Repeats if cx.without_sequence(row) => None,
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
