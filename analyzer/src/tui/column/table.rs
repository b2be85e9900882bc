//! The columns of the table of queue pairs, each one declaration, and the sets that they are in.

use rocescope_common::account::flow::{DSCP_NONE, TRANSPORT_NONE};
use rocescope_common::wire::opcode;

use super::value::{LinkName, Value, ValueKind};
use super::{COLUMN, Column, ColumnNeeds};
use crate::analysis::Tunnels;
use crate::model::{Counts, Delta, Model, Row, State, detail, signals};
use crate::sample::{Stats, address};

/// Declares the columns, from left to right: name, title, kind of value, width, rank, fields that not every column has,
/// help, value.
macro_rules! columns {
    ($($id:ident: $name:literal, $title:literal, $kind:ident, width $width:literal, rank $rank:literal
        $(, $field:ident: $value:expr)*; $help:literal, $get:expr;)+) => {
        /// Identifier of a column.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "every column is described in the table of columns")]
        pub enum Id {
            $($id),+
        }

        /// Every column, from left to right.
        pub const COLUMNS: &[Column] = &[$(Column {
            id: Id::$id,
            name: $name,
            title: $title,
            kind: ValueKind::$kind,
            width: $width,
            rank: $rank,
            help: $help,
            get: $get,
            $($field: $value,)*
            ..COLUMN
        }),+];
    };
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

columns! {
    State: "state", "STATE", State, width 5, rank 0;
        "worst finding about the flow: upper case while active, lower case when past, + for more than one (LOSS+: loss now, and others); ok without one, idle without packets in the time range",
        |row, _| state(row);
    Source: "src", "SOURCE", Address, width 15, rank 0;
        "source address", |row, _| Value::Address(address(row.id.key.family, row.id.key.src));
    Destination: "dst", "DESTINATION", Address, width 15, rank 0;
        "destination address", |row, _| Value::Address(address(row.id.key.family, row.id.key.dst));
    Qp: "qp", "DQPN", Number, width 8, rank 0;
        "destination QPN: the queue pair that the packets go to", |row, _| Value::Number(row.id.key.dest_qp);
    Rate: "rate", "b/s", BitRate, width 5, rank 0;
        "bits per second of whole frames, in the time range",
        |row, _| Value::of(row.delta.as_ref(), |delta| Value::Rate(delta.bits_per_s()));
    Share: "share", "SHARE", Share, width 8, rank 15;
        "share of the bits per second of all flows",
        |row, cx| Value::of(row.delta.as_ref(), |delta| Value::Share(share(delta, cx.model)));
    PacketRate: "pps", "pkt/s", Rate, width 6, rank 9;
        "packets per second, in the time range",
        |row, _| Value::of(row.delta.as_ref(), |delta| Value::Rate(delta.packets_per_s()));
    CeNow: "ce", "CE %", Ratio, width 5, rank 1, about: signals::CE;
        "CE-marked share of the ECN-capable data packets, in the time range",
        |row, _| Value::of(row.delta.as_ref().and_then(|delta| delta.counts.ce_ratio()), Value::Ratio);
    CeAll: "ce_all", "CE% TOT", Ratio, width 7, rank 16, about: signals::CE;
        "CE-marked share of the ECN-capable data packets since the start",
        |row, _| Value::of(row.total.ce_ratio(), Value::Ratio);
    CnpRate: "cnp", "CNP/s", Rate, width 5, rank 2, about: signals::CNP;
        "congestion notification packets per second, on the flow that carries them",
        |row, _| Value::of(row.delta.as_ref(), |delta| Value::Rate(delta.cnp_per_s()));
    Cnps: "cnps", "CNPs", Count, width 5, rank 17, about: signals::CNP;
        "congestion notification packets since the start", |row, _| Value::Count(row.total.cnp);
    Lost: "lost", "LOST", Count, width 5, rank 3, about: signals::LOST;
        "packets lost upstream of this link, in the time range; missing PSNs where reordering is indistinguishable from loss",
        |row, _| sequence(row, |counts| counts.lost);
    Gaps: "gaps", "GAPS", Count, width 5, rank 14, aliases: &["gap"], about: signals::LOST;
        "PSN gaps, in the time range",
        |row, cx| {
            if cx.sample.has_psns() { sequence(row, |counts| counts.gaps) } else { Value::Unknown }
        };
    Retransmissions: "retx", "RETX", Count, width 5, rank 8, about: signals::RETRANSMITTED;
        "retransmissions, repeated READ requests included, in the time range; all packets with a PSN below the expected one where those out of order are not known",
        |row, _| sequence(row, |counts| counts.retransmitted);
    Naks: "nak", "NAK rx", Count, width 6, rank 4, aliases: &["naks"], about: signals::NAK;
        "NAKs that the source received for packets of the flow, RNR NAKs excluded, in the time range; reports count them in the flow that carries them. Without the other direction: those it sent",
        |row, _| answers(row, Counts::naks);
    Rnr: "rnr", "RNR rx", Count, width 6, rank 7, about: signals::RNR;
        "the same of RNR NAKs (receiver not ready)", |row, _| answers(row, |counts| counts.rnr);
    P50: "p50", "p50", Duration, width 6, rank 13, needs: ColumnNeeds::Latency;
        "median request-to-ACK or response latency, in the time range; > a lower bound, as too many requests are not timed (retransmitted or not answered); nanoseconds in exports",
        |row, cx| {
            Value::of(cx.model.latency(row), |times| duration(times.p50.ns(), times.p50_is_least()))
        };
    P99: "p99", "p99", Duration, width 6, rank 10, needs: ColumnNeeds::Latency, about: signals::LATENCY;
        "99th percentile of that latency",
        |row, cx| {
            let tail = cx.model.latency(row).and_then(|times| Some((times.tail()?, times.p99_is_least())));
            Value::of(tail, |(tail, is_least)| duration(tail.ns(), is_least))
        };
    Bytes: "bytes", "BYTES", Bytes, width 7, rank 18;
        "bytes of whole frames since the start", |row, _| Value::Bytes(row.total.bytes);
    Packets: "pkts", "PKTS", Count, width 5, rank 19, aliases: &["packets"];
        "packets since the start", |row, _| Value::Count(row.total.packets);
    Link: "link", "LINK", Link, width 10, rank 12;
        "interface and direction, or capture file",
        |row, cx| {
            let link = row.id.key.link;
            Value::of(cx.model.links.get(usize::from(link)), |row| Value::Link(link, LinkName(row)))
        };
    Comm: "process", "PROCESS", Text, width 12, rank 11, aliases: &["comm"], needs: ColumnNeeds::Owners;
        "process that created the queue pair, where known",
        |row, cx| Value::text_of(cx.owner(row).and_then(|owner| owner.comm.as_deref()));
    Pid: "pid", "PID", Number, width 7, rank 21, needs: ColumnNeeds::Owners;
        "process ID", |row, cx| Value::of(cx.owner(row).and_then(|owner| owner.pid), Value::Number);
    Pod: "pod", "POD", Text, width 16, rank 20, needs: ColumnNeeds::Owners;
        "pod or container of the process",
        |row, cx| Value::text_of(cx.owner(row).and_then(|owner| owner.pod.as_deref()));
    Transport: "transport", "TRANS", Text, width 5, rank 22, aliases: &["trans"];
        "transport: RC, UC, UD, XRC; CNP for flows of CNPs alone",
        |row, cx| Value::text_of(cx.flow(row).and_then(transport));
    Mtu: "mtu", "MTU", Number, width 4, rank 25;
        "path MTU: payload of the latest FIRST or MIDDLE packet",
        |row, cx| {
            let mtu = cx.flow(row).map(|stats| stats.mtu).filter(|mtu| *mtu > 0);
            Value::of(mtu, Value::Number)
        };
    Dscp: "dscp", "DSCP", Number, width 4, rank 23;
        "DSCP of the first packet",
        |row, cx| {
            let dscp = cx.flow(row).map(|stats| stats.dscp).filter(|dscp| *dscp != DSCP_NONE);
            Value::of(dscp, |dscp| number_or(u32::from(dscp), "0"))
        };
    SourcePort: "port", "SPORT", Number, width 6, rank 24;
        "UDP source port of the first packet; + when there are others",
        |row, cx| {
            let stats = cx.flow(row).filter(|stats| stats.roce_version == 2);
            Value::of(stats, |stats| {
                let port = u32::from(stats.src_port);
                if stats.seldom.other_port_packets > 0 { Value::First(port) } else { Value::Number(port) }
            })
        };
    PeerQp: "peer_qp", "SQPN", Number, width 8, rank 26, aliases: &["sqpn"];
        "source QPN: the queue pair at the sending end, where known",
        |row, cx| Value::of(row.at.and_then(|at| detail::peer_qp(cx.sample, at)), Value::Number);
    Vlan: "vlan", "VLAN", Number, width 4, rank 27;
        "VLAN ID of the outermost tag; none (0 in filters): untagged",
        |row, cx| {
            let vlan = cx.flow(row).and_then(Stats::vlan_id);
            Value::of(vlan, |vlan| number_or(u32::from(vlan), "none"))
        };
    Tunnel: "tunnel", "TUNNEL", Text, width 8, rank 28, aliases: &["encap"];
        "encapsulation of the packets, the outermost first",
        |row, cx| {
            let tunnels = cx.flow(row).map(|stats| Tunnels::of(stats).names().join("/"));
            Value::of(tunnels, |tunnels| Value::Text(tunnels.into()))
        };
}

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
fn sequence(row: &Row, counter: fn(&Counts) -> u64) -> Value<'_> {
    if row.total.of_sequence(counter).is_some() { counted(row, counter) } else { Value::Unknown }
}

/// A counter of NAKs in the time range; of flows without an observed answer it is unknown.
fn answers(row: &Row, counter: fn(&Counts) -> u64) -> Value<'_> {
    if row.total.of_answers(counter).is_some() { counted(row, counter) } else { Value::Unknown }
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
