//! The columns of the table of queue pairs, each one declaration, and the sets that they are in.

use rocescope_common::account::flow::{DSCP_NONE, TRANSPORT_NONE};
use rocescope_common::wire::opcode;

use super::value::{LinkName, Value, ValueKind};
use super::{COLUMN, Column, ColumnNeeds, Context};
use crate::analysis::Tunnels;
use crate::model::{Counts, Delta, Model, Row, State, detail, signals};
use crate::sample::{Stats, address};

/// Identifier of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "every column is described in the table of columns")]
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
    Retransmissions,
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

/// Columns for one question.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    /// Name of the set.
    pub name: &'static str,
    /// The question, for the help.
    pub help: &'static str,
    /// The columns from left to right; empty for those that fit and have values.
    pub columns: &'static [Id],
}

/// Every set, in the order of the key: each begins with what identifies a row.
pub const SETS: &[Set] = &[
    Set { name: "automatic", help: "the most relevant columns for this data", columns: &[] },
    Set {
        name: "health",
        help: "loss, retransmissions, NAKs, congestion",
        columns: &[
            Id::State,
            Id::Source,
            Id::Destination,
            Id::Qp,
            Id::Lost,
            Id::Retransmissions,
            Id::Naks,
            Id::Rnr,
            Id::CeNow,
            Id::CnpRate,
            Id::Gaps,
            Id::CeAll,
            Id::Cnps,
            Id::P99,
            Id::Link,
        ],
    },
    Set {
        name: "latency",
        help: "request latency and what delays requests",
        columns: &[
            Id::State,
            Id::Source,
            Id::Destination,
            Id::Qp,
            Id::P50,
            Id::P99,
            Id::Rnr,
            Id::Retransmissions,
            Id::CeNow,
            Id::PacketRate,
            Id::Link,
            Id::Comm,
            Id::Pod,
        ],
    },
    Set {
        name: "traffic",
        help: "rates, totals and shares of the load",
        columns: &[
            Id::State,
            Id::Source,
            Id::Destination,
            Id::Qp,
            Id::Rate,
            Id::PacketRate,
            Id::Bytes,
            Id::Packets,
            Id::Share,
            Id::Mtu,
            Id::Link,
        ],
    },
    Set {
        name: "identity",
        help: "both queue pairs, process, pod, tags, path",
        columns: &[
            Id::State,
            Id::Source,
            Id::Destination,
            Id::PeerQp,
            Id::Qp,
            Id::SourcePort,
            Id::Dscp,
            Id::Transport,
            Id::Comm,
            Id::Pid,
            Id::Pod,
            Id::Vlan,
            Id::Tunnel,
            Id::Link,
        ],
    },
];

/// Every column, from left to right.
pub const COLUMNS: &[Column] = &[
    Column {
        id: Id::State,
        name: "state",
        title: "STATE",
        kind: ValueKind::State,
        width: 5,
        rank: 0,
        help: "worst finding about the flow: upper case while active, lower case when past, + for more than one (LOSS+: loss now, and others); ok without one, idle without packets in the time range",
        get: |row, _| state(row),
        ..COLUMN
    },
    Column {
        id: Id::Source,
        name: "src",
        title: "SOURCE",
        kind: ValueKind::Address,
        width: 15,
        rank: 0,
        help: "source address",
        get: |row, _| Value::Address(address(row.id.key.family, row.id.key.src)),
        ..COLUMN
    },
    Column {
        id: Id::Destination,
        name: "dst",
        title: "DESTINATION",
        kind: ValueKind::Address,
        width: 15,
        rank: 0,
        help: "destination address",
        get: |row, _| Value::Address(address(row.id.key.family, row.id.key.dst)),
        ..COLUMN
    },
    Column {
        id: Id::Qp,
        name: "qp",
        title: "DQPN",
        kind: ValueKind::Number,
        width: 8,
        rank: 0,
        help: "destination QPN: the queue pair that the packets go to",
        get: |row, _| Value::Number(row.id.key.dest_qp),
        ..COLUMN
    },
    Column {
        id: Id::Rate,
        name: "rate",
        title: "b/s",
        kind: ValueKind::BitRate,
        width: 5,
        rank: 0,
        help: "bits per second of whole frames, in the time range",
        get: |row, _| Value::of(row.delta.as_ref(), |delta| Value::Rate(delta.bits_per_s())),
        ..COLUMN
    },
    Column {
        id: Id::Share,
        name: "share",
        title: "SHARE",
        kind: ValueKind::Share,
        width: 8,
        rank: 15,
        help: "share of the bits per second of all flows",
        get: |row, cx| Value::of(row.delta.as_ref(), |delta| Value::Share(share(delta, cx.model))),
        ..COLUMN
    },
    Column {
        id: Id::PacketRate,
        name: "pps",
        title: "pkt/s",
        kind: ValueKind::Rate,
        width: 6,
        rank: 9,
        help: "packets per second, in the time range",
        get: |row, _| Value::of(row.delta.as_ref(), |delta| Value::Rate(delta.packets_per_s())),
        ..COLUMN
    },
    Column {
        id: Id::CeNow,
        name: "ce",
        title: "CE %",
        kind: ValueKind::Ratio,
        width: 5,
        rank: 1,
        about: signals::CE,
        help: "CE-marked share of the ECN-capable data packets, in the time range",
        get: |row, _| Value::of(row.delta.as_ref().and_then(|delta| delta.counts.ce_ratio()), Value::Ratio),
        ..COLUMN
    },
    Column {
        id: Id::CeAll,
        name: "ce_all",
        title: "CE% TOT",
        kind: ValueKind::Ratio,
        width: 7,
        rank: 16,
        about: signals::CE,
        help: "CE-marked share of the ECN-capable data packets since the start",
        get: |row, _| Value::of(row.total.ce_ratio(), Value::Ratio),
        ..COLUMN
    },
    Column {
        id: Id::CnpRate,
        name: "cnp",
        title: "CNP/s",
        kind: ValueKind::Rate,
        width: 5,
        rank: 2,
        about: signals::CNP,
        help: "congestion notification packets per second, on the flow that carries them",
        get: |row, _| Value::of(row.delta.as_ref(), |delta| Value::Rate(delta.cnp_per_s())),
        ..COLUMN
    },
    Column {
        id: Id::Cnps,
        name: "cnps",
        title: "CNPs",
        kind: ValueKind::Count,
        width: 5,
        rank: 17,
        about: signals::CNP,
        help: "congestion notification packets since the start",
        get: |row, _| Value::Count(row.total.cnp),
        ..COLUMN
    },
    Column {
        id: Id::Lost,
        name: "lost",
        title: "LOST",
        kind: ValueKind::Count,
        width: 5,
        rank: 3,
        about: signals::LOST,
        help: "packets lost upstream of this link, in the time range; missing PSNs where reordering is indistinguishable from loss",
        get: |row, cx| sequence(row, cx, |counts| counts.lost),
        ..COLUMN
    },
    Column {
        id: Id::Gaps,
        name: "gaps",
        aliases: &["gap"],
        title: "GAPS",
        kind: ValueKind::Count,
        width: 5,
        rank: 14,
        about: signals::LOST,
        help: "PSN gaps, in the time range",
        get: |row, cx| {
            if cx.sample.has_psns() { sequence(row, cx, |counts| counts.gaps) } else { Value::Unknown }
        },
        ..COLUMN
    },
    Column {
        id: Id::Retransmissions,
        name: "retx",
        title: "RETX",
        kind: ValueKind::Count,
        width: 5,
        rank: 8,
        about: signals::RETRANSMITTED,
        help: "retransmissions, repeated READ requests included, in the time range; all packets with a PSN below the expected one where those out of order are not known",
        get: |row, cx| sequence(row, cx, |counts| counts.retransmitted),
        ..COLUMN
    },
    Column {
        id: Id::Naks,
        name: "nak",
        aliases: &["naks"],
        title: "NAK rx",
        kind: ValueKind::Count,
        width: 6,
        rank: 4,
        about: signals::NAK,
        help: "NAKs that the source received for packets of the flow, RNR NAKs excluded, in the time range; reports count them in the flow that carries them. Without the other direction: those it sent",
        get: |row, _| counted(row, Counts::naks),
        ..COLUMN
    },
    Column {
        id: Id::Rnr,
        name: "rnr",
        title: "RNR rx",
        kind: ValueKind::Count,
        width: 6,
        rank: 7,
        about: signals::RNR,
        help: "the same of RNR NAKs (receiver not ready)",
        get: |row, _| counted(row, |counts| counts.rnr),
        ..COLUMN
    },
    Column {
        id: Id::P50,
        name: "p50",
        title: "p50",
        kind: ValueKind::Duration,
        width: 6,
        rank: 13,
        needs: ColumnNeeds::Latency,
        help: "median request-to-ACK or response latency, in the time range; > a lower bound, as too many requests are not timed (retransmitted or not answered); nanoseconds in exports",
        get: |row, cx| {
            Value::of(cx.model.latency(row), |times| duration(times.p50.ns(), times.p50_is_least()))
        },
        ..COLUMN
    },
    Column {
        id: Id::P99,
        name: "p99",
        title: "p99",
        kind: ValueKind::Duration,
        width: 6,
        rank: 10,
        needs: ColumnNeeds::Latency,
        about: signals::LATENCY,
        help: "99th percentile of that latency",
        get: |row, cx| {
            let tail = cx.model.latency(row).and_then(|times| Some((times.tail()?, times.p99_is_least())));
            Value::of(tail, |(tail, is_least)| duration(tail.ns(), is_least))
        },
        ..COLUMN
    },
    Column {
        id: Id::Bytes,
        name: "bytes",
        title: "BYTES",
        kind: ValueKind::Bytes,
        width: 7,
        rank: 18,
        help: "bytes of whole frames since the start",
        get: |row, _| Value::Bytes(row.total.bytes),
        ..COLUMN
    },
    Column {
        id: Id::Packets,
        name: "pkts",
        aliases: &["packets"],
        title: "PKTS",
        kind: ValueKind::Count,
        width: 5,
        rank: 19,
        help: "packets since the start",
        get: |row, _| Value::Count(row.total.packets),
        ..COLUMN
    },
    Column {
        id: Id::Link,
        name: "link",
        title: "LINK",
        kind: ValueKind::Link,
        width: 10,
        rank: 12,
        help: "interface and direction, or capture file",
        get: |row, cx| {
            let link = row.id.key.link;
            Value::of(cx.model.links.get(usize::from(link)), |row| Value::Link(link, LinkName(row)))
        },
        ..COLUMN
    },
    Column {
        id: Id::Comm,
        name: "process",
        aliases: &["comm"],
        title: "PROCESS",
        kind: ValueKind::Text,
        width: 12,
        rank: 11,
        needs: ColumnNeeds::Owners,
        help: "process that created the queue pair, where known",
        get: |row, cx| Value::text_of(cx.owner(row).and_then(|owner| owner.comm.as_deref())),
        ..COLUMN
    },
    Column {
        id: Id::Pid,
        name: "pid",
        title: "PID",
        kind: ValueKind::Number,
        width: 7,
        rank: 21,
        needs: ColumnNeeds::Owners,
        help: "process ID",
        get: |row, cx| Value::of(cx.owner(row).and_then(|owner| owner.pid), Value::Number),
        ..COLUMN
    },
    Column {
        id: Id::Pod,
        name: "pod",
        title: "POD",
        kind: ValueKind::Text,
        width: 16,
        rank: 20,
        needs: ColumnNeeds::Owners,
        help: "pod or container of the process",
        get: |row, cx| Value::text_of(cx.owner(row).and_then(|owner| owner.pod.as_deref())),
        ..COLUMN
    },
    Column {
        id: Id::Transport,
        name: "transport",
        aliases: &["trans"],
        title: "TRANS",
        kind: ValueKind::Text,
        width: 5,
        rank: 22,
        help: "transport: RC, UC, UD, XRC; CNP for flows of CNPs alone",
        get: |row, cx| Value::text_of(cx.flow(row).and_then(transport)),
        ..COLUMN
    },
    Column {
        id: Id::Mtu,
        name: "mtu",
        title: "MTU",
        kind: ValueKind::Number,
        width: 4,
        rank: 25,
        help: "path MTU: payload of the latest FIRST or MIDDLE packet",
        get: |row, cx| {
            let mtu = cx.flow(row).map(|stats| stats.mtu).filter(|mtu| *mtu > 0);
            Value::of(mtu, Value::Number)
        },
        ..COLUMN
    },
    Column {
        id: Id::Dscp,
        name: "dscp",
        title: "DSCP",
        kind: ValueKind::Number,
        width: 4,
        rank: 23,
        help: "DSCP of the first packet",
        get: |row, cx| {
            let dscp = cx.flow(row).map(|stats| stats.dscp).filter(|dscp| *dscp != DSCP_NONE);
            Value::of(dscp, |dscp| number_or(u32::from(dscp), "0"))
        },
        ..COLUMN
    },
    Column {
        id: Id::SourcePort,
        name: "port",
        title: "SPORT",
        kind: ValueKind::Number,
        width: 6,
        rank: 24,
        help: "UDP source port of the first packet; + when there are others",
        get: |row, cx| {
            let stats = cx.flow(row).filter(|stats| stats.roce_version == 2);
            Value::of(stats, |stats| {
                let port = u32::from(stats.src_port);
                if stats.other_port_packets > 0 { Value::First(port) } else { Value::Number(port) }
            })
        },
        ..COLUMN
    },
    Column {
        id: Id::PeerQp,
        name: "peer_qp",
        aliases: &["sqpn"],
        title: "SQPN",
        kind: ValueKind::Number,
        width: 8,
        rank: 26,
        help: "source QPN: the queue pair at the sending end, where known",
        get: |row, cx| Value::of(row.at.and_then(|at| detail::peer_qp(cx.sample, at)), Value::Number),
        ..COLUMN
    },
    Column {
        id: Id::Vlan,
        name: "vlan",
        title: "VLAN",
        kind: ValueKind::Number,
        width: 4,
        rank: 27,
        help: "VLAN ID of the outermost tag; none (0 in filters): untagged",
        get: |row, cx| {
            let vlan = cx.flow(row).and_then(Stats::vlan_id);
            Value::of(vlan, |vlan| number_or(u32::from(vlan), "none"))
        },
        ..COLUMN
    },
    Column {
        id: Id::Tunnel,
        name: "tunnel",
        aliases: &["encap"],
        title: "TUNNEL",
        kind: ValueKind::Text,
        width: 8,
        rank: 28,
        help: "encapsulation of the packets, the outermost first",
        get: |row, cx| {
            let tunnels = cx.flow(row).map(|stats| Tunnels::of(stats).names().join("/"));
            Value::of(tunnels, |tunnels| Value::Text(tunnels.into()))
        },
        ..COLUMN
    },
];

/// The state of a row; unknown before findings are evaluated.
fn state(row: &Row) -> Value<'static> {
    let state = State::of(row);
    if state.known() { Value::State(state) } else { Value::Unknown }
}

/// A counter in the time range.
fn counted(row: &Row, counter: fn(&Counts) -> u64) -> Value<'_> {
    Value::of(row.delta.as_ref(), |delta| Value::Count(counter(&delta.counts)))
}

/// A counter of PSNs in the time range; flows without PSN sequence have none.
fn sequence<'a>(row: &'a Row, cx: Context<'a>, counter: fn(&Counts) -> u64) -> Value<'a> {
    if cx.without_sequence(row) { Value::Unknown } else { counted(row, counter) }
}

fn share(delta: &Delta, model: &Model) -> f64 {
    let all = model.dedup.delta.as_ref().map_or(0.0, Delta::bits_per_s);
    if all > 0.0 { delta.bits_per_s() / all } else { 0.0 }
}

/// A duration, or the least that it may be.
const fn duration(ns: u64, is_least: bool) -> Value<'static> {
    if is_least { Value::LeastDuration(ns) } else { Value::Duration(ns) }
}

/// A number that the screen shows as `word` when it is 0.
fn number_or(n: u32, word: &'static str) -> Value<'static> {
    if n == 0 { Value::Special(0, word) } else { Value::Number(n) }
}

fn transport(stats: &Stats) -> Option<&'static str> {
    match stats.transport {
        TRANSPORT_NONE => (stats.cnp_packets > 0).then_some("CNP"),
        transport => Some(opcode::transport(transport << 5)),
    }
}
