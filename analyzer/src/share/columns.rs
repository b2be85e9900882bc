//! The columns of flows and of queue pairs of NICs, declared once for CSV and the table of the HTML page.
//!
//! Counts are those of `rocescope.report/1`, without duplicates in the capture. Unknown is null.

use serde_json::Value;

use crate::analysis::loss::{TapContext, Upstream};
use crate::analysis::{Device, DeviceQp, Flow, QpSource, direction_name};
use crate::findings::Unit;
use crate::report::Report;
use crate::report::text::{P99_SAMPLES, P999_SAMPLES, Requests, missing, retransmissions};
use crate::util::layout::plain;
use crate::util::map::Map;

/// A column of the flows in CSV and HTML.
pub(crate) struct Column {
    /// Name in CSV, with the unit.
    pub(crate) name: &'static str,
    /// Heading on the page; empty for columns of CSV only.
    pub(super) title: &'static str,
    /// Unit of the values.
    pub(super) unit: Unit,
    /// Fields of the report with the same figure; empty without one.
    #[cfg_attr(not(test), expect(dead_code, reason = "what a test compares the names by"))]
    pub(crate) source: &'static str,
    /// Meaning of the column, for the heading of the table.
    pub(super) help: &'static str,
    /// Reads the value from a flow.
    pub(super) get: fn(&Flow, &Context<'_>) -> Value,
    /// Reads the value from a queue pair of a NIC.
    pub(super) of_qp: fn(&Device, &DeviceQp) -> Value,
}

/// Further data from which values are read.
pub(crate) struct Context<'a> {
    /// Losses known from other taps.
    around: TapContext<'a>,
    /// Length of the time range; `None`: unknown.
    length_ns: Option<u64>,
    /// Ids of the findings that name a flow, by its index in the report.
    findings: Map<usize, Vec<&'static str>>,
}

impl<'a> Context<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        let mut findings: Map<usize, Vec<&'static str>> = Map::default();
        let places: Map<_, usize> = report
            .facts
            .flows
            .iter()
            .enumerate()
            .map(|(at, flow)| ((flow.link.as_str(), flow.direction, flow.src, flow.dst, flow.dest_qp), at))
            .collect();
        for finding in &report.findings {
            for id in &finding.flows {
                let key = (id.link.as_str(), id.direction, id.src, id.dst, id.dest_qp);
                if let Some(at) = places.get(&key) {
                    let ids = findings.entry(*at).or_default();
                    if !ids.contains(&finding.id) {
                        ids.push(finding.id);
                    }
                }
            }
        }
        let around = TapContext::of(&report.facts);
        Self { around, length_ns: report.facts.window.length_ns().filter(|ns| *ns > 0), findings }
    }

    /// Ids of the findings that name the flow at this index of the report, most important first.
    pub(super) fn findings_of(&self, at: usize) -> &[&'static str] {
        self.findings.get(&at).map_or(&[], Vec::as_slice)
    }
}

/// Sign before this value of the flow where the percentile of all requests may be longer.
pub(super) fn least_sign(column: &Column, flow: &Flow) -> &'static str {
    let per_mille = match column.name {
        "latency_p50_ns" => 500,
        "latency_p99_ns" => 990,
        _ => return "",
    };
    flow.latency_ns.as_deref().map_or("", |latency| Requests::of(flow, latency).sign(per_mille))
}

/// Name of the column filled by [`Context::findings_of`], which needs the index of the flow.
pub(super) const FINDINGS: &str = "findings";

const COLUMN: Column = Column {
    name: "",
    title: "",
    unit: Unit::Count,
    source: "",
    help: "",
    get: |_, _| Value::Null,
    of_qp: |_, _| Value::Null,
};

/// Declares a column: unit, name, heading, meaning, fields of the report, the value of a flow, and that of a queue pair
/// of a NIC where it has one.
macro_rules! column {
    ($unit:ident, $name:expr, $title:literal, $help:literal, $source:expr $(, $get:expr)?) => {
        Column { name: $name, title: $title, unit: Unit::$unit, source: $source, help: $help, $(get: $get,)? ..COLUMN }
    };
    ($unit:ident, $name:expr, $title:literal, $help:literal, $source:expr, $get:expr, $of_qp:expr) => {
        Column { of_qp: $of_qp, ..column!($unit, $name, $title, $help, $source, $get) }
    };
}

/// A name from packets or processes, without control characters.
fn name(text: Option<&str>) -> Value {
    text.map_or(Value::Null, |text| Value::String(plain(text)))
}

/// Declares a column of queue pairs of NICs alone, in CSV only, where the field of the report has its name.
macro_rules! nic {
    ($unit:ident, $name:literal, $help:literal, |$qp:ident| $value:expr) => {
        column!($unit, $name, "", $help, concat!("devices[].qps[].", $name), |_, _| Value::Null, |_, $qp| {
            $value
        })
    };
}

fn address(address: Option<std::net::IpAddr>) -> Value {
    address.map(|address| address.to_string()).into()
}

/// A latency, if there are enough samples.
fn latency<T: Into<Option<u64>>>(flow: &Flow, least: u64, get: fn(&crate::analysis::Latency) -> T) -> Value {
    flow.latency_ns.as_deref().filter(|latency| latency.count >= least).and_then(|one| get(one).into()).into()
}

/// A figure summed over both sequences of a flow; null if none is followed.
fn loss(flow: &Flow, get: fn(&crate::analysis::Loss) -> u64) -> Value {
    let known = flow.losses();
    known.iter().flatten().map(get).reduce(|a, b| a + b).into()
}

/// Packets lost upstream of the link, as far as known from all taps; null if no sequence is followed.
fn upstream(flow: &Flow, context: &Context<'_>, get: fn(&Upstream) -> u64) -> Value {
    if flow.lost_upstream.get().is_none() && flow.losses().iter().all(Option::is_none) {
        return Value::Null;
    }
    context.around.upstream(flow).iter().map(get).sum::<u64>().into()
}

/// All columns, in the order of the CSV.
#[rustfmt::skip]
pub(crate) const COLUMNS: &[Column] = &[
    column! { Link, "link", "Link", "link of the flow",
        "flows[].link, devices[].interface",
        |flow, _| name(Some(flow.link.as_str())), |device, _| name(device.interface.as_deref()) },
    column! { Text, "direction", "", "direction of the link; empty in a replay",
        "flows[].direction", |flow, _| name(flow.direction.map(direction_name)) },
    column! { Text, "src", "Source", "source address",
        "flows[].src, devices[].qps[].src",
        |flow, _| flow.src.to_string().into(), |_, qp| address(qp.control.src) },
    column! { Id, "src_qp", "QP", "queue pair that sends",
        "flows[].peer_qp, devices[].qps[].lqpn", |flow, _| flow.peer_qp.into(), |_, qp| qp.lqpn.into() },
    column! { Text, "dst", "Destination", "destination address",
        "flows[].dst, devices[].qps[].dst",
        |flow, _| flow.dst.to_string().into(), |_, qp| address(qp.control.dst) },
    column! { Id, "dest_qp", "QP", "destination queue pair",
        "flows[].dest_qp, devices[].qps[].rqpn", |flow, _| flow.dest_qp.into(), |_, qp| qp.rqpn.into() },
    column! { Text, FINDINGS, "Findings", "findings that name the flow",
        "findings[].flows" },
    column! { Id, "roce_version", "", "RoCE version",
        "flows[].roce_version", |flow, _| flow.roce_version.into() },
    column! { Id, "vlan", "", "outermost VLAN id; 0: untagged",
        "flows[].vlan", |flow, _| flow.vlan.into() },
    column! { Id, "pcp", "", "priority code point of the tag",
        "flows[].pcp, devices[].qps[].priority", |flow, _| flow.pcp.into(), |_, qp| qp.priority.into() },
    column! { Id, "dscp", "DSCP", "DSCP of the first packet",
        "flows[].dscp, devices[].qps[].dscp", |flow, _| flow.dscp.into(), |_, qp| qp.control.dscp.into() },
    column! { Count, "src_port_count", "", "distinct UDP source ports",
        "flows[].src_port_count", |flow, _| flow.src_port_count.get().into() },
    column! { Count, "packets", "Packets", "packets",
        "flows[].packets", |flow, _| flow.packets.saturating_sub(flow.duplicates().packets).into() },
    column! { Bytes, "bytes", "Bytes", "outer frames without FCS",
        "flows[].bytes", |flow, _| flow.bytes_dedup().into() },
    column! { Bytes, "payload_bytes", "", "payload",
        "flows[].payload_bytes",
        |flow, _| flow.payload_bytes.saturating_sub(flow.duplicates().payload_bytes).into() },
    column! { BitsPerSecond, "rate_bits_per_s", "Rate", "mean over the whole time range",
        "", |flow, context| context.length_ns.map(|ns| flow.bytes_dedup() as f64 * 8e9 / ns as f64).into() },
    column! { Ratio, "ce_ratio", "CE", "CE-marked share of ECN-capable data; unknown: ECN is off",
        "flows[].ce_ratio", |flow, _| flow.ce_ratio().into() },
    column! { Count, "cnp_packets", "CNP", "congestion notification packets",
        "flows[].cnp_packets", |flow, _| flow.cnps_dedup().into() },
    column! { Count, "lost_packets", "Lost", "packets lost upstream of the link",
        "flows[].loss.lost, flows[].loss_responses.lost",
        |flow, context| upstream(flow, context, |side| side.lost) },
    column! { Count, "lost_or_reordered_packets", "", "part of lost_packets that may have been reordered",
        "flows[].loss.lost_or_reordered, flows[].loss_responses.lost_or_reordered",
        |flow, context| match flow.loss.get() {
            Some(of_recording) if of_recording.lost_or_reordered.get().is_none() => Value::Null,
            _ => upstream(flow, context, |side| side.doubtful),
        } },
    column! { Count, "reordered_packets", "", "packets that arrived out of order",
        "flows[].loss.recovered, flows[].loss_responses.recovered",
        |flow, _| loss(flow, |loss| loss.recovered) },
    column! { Count, "missing_psns", "", "PSNs skipped: lost or reordered",
        "flows[].psn.missing, flows[].psn_responses.missing", |flow, _| missing(flow).into() },
    column! { Count, "retransmitted_packets", "RETX", "retransmissions of packets seen at this tap, repeated READ requests included",
        "flows[].loss.retransmitted, flows[].loss_responses.retransmitted, flows[].loss.rereads, flows[].loss_responses.rereads",
        |flow, _| retransmissions(flow).into() },
    column! { Count, "timeouts", "Timeouts", "transport timeouts; of a queue pair of a NIC those of the port that are attributed to it",
        "flows[].loss.timeouts, flows[].loss_responses.timeouts, devices[].qps[].timeouts",
        |flow, _| loss(flow, |loss| loss.timeouts), |_, qp| qp.timeouts.into() },
    column! { Count, "nak_sequence_packets", "NAK TX", "NAKs (PSN sequence error) that travel in this flow; unknown without any ACK or NAK",
        "flows[].ack.naks.psn_sequence_error", |flow, _| flow.of_answers(|flow| flow.naks_dedup().psn_sequence_error).into() },
    column! { Count, "nak_other_packets", "", "NAKs of other codes",
        "flows[].ack.naks", |flow, _| flow.of_answers(|flow| flow.naks_dedup().refused()).into() },
    column! { Count, "rnr_naks", "RNR TX", "RNR NAKs that travel in this flow; unknown likewise",
        "flows[].ack.rnr_naks", |flow, _| flow.of_answers(Flow::rnr_naks_dedup).into() },
    column! { Count, "latency_count", "", "requests that were timed",
        "flows[].latency_ns.count",
        |flow, _| flow.latency_ns.as_deref().map(|latency| latency.count).into() },
    column! { Nanoseconds, "latency_p50_ns", "p50", "median from request to ACK or response",
        "flows[].latency_ns.p50", |flow, _| latency(flow, 1, |latency| latency.p50) },
    column! { Nanoseconds, "latency_p99_ns", "p99", "99th percentile; unknown below 100 samples",
        "flows[].latency_ns.p99", |flow, _| latency(flow, P99_SAMPLES, |latency| latency.p99) },
    column! { Nanoseconds, "latency_p999_ns", "", "99.9th percentile; unknown below 1,000 samples",
        "flows[].latency_ns.p999", |flow, _| latency(flow, P999_SAMPLES, |latency| latency.p999.get()) },
    column! { Nanoseconds, "latency_max_ns", "", "longest",
        "flows[].latency_ns.max", |flow, _| latency(flow, 1, |latency| latency.max) },
    column! { Bytes, "path_mtu_bytes", "", "path MTU in use",
        "flows[].path_mtu, devices[].qps[].path_mtu",
        |flow, _| flow.path_mtu.into(), |_, qp| qp.control.path_mtu.into() },
    column! { Time, "first_unix_ns", "", "first packet",
        "flows[].first_ns", |flow, _| flow.first_ns.into() },
    column! { Time, "last_unix_ns", "", "last packet",
        "flows[].last_ns", |flow, _| flow.last_ns.into() },
    column! { Id, "pid", "", "process that owns the queue pair on this host",
        "flows[].pid, devices[].qps[].pid", |flow, _| flow.pid.into(), |_, qp| qp.pid.into() },
    column! { Text, "comm", "Process", "its command name",
        "flows[].comm, devices[].qps[].comm",
        |flow, _| name(flow.comm.as_deref()), |_, qp| name(qp.comm.as_deref()) },
    column! { Text, "pod", "", "its pod, container or job",
        "flows[].pod, devices[].qps[].pod",
        |flow, _| name(flow.pod.as_deref()), |_, qp| name(qp.pod.as_deref()) },
    column! { Text, "sources", "", "of a flow packets alone; of a queue pair of a NIC its sources, never packets alone",
        "devices[].qps[].sources",
        |_, _| QpSource::Packets.name().into(),
        |_, qp| qp.sources.iter().map(|source| source.name()).collect::<Vec<_>>().join(" ").into() },
    column! { Text, "device", "", "RDMA device of the queue pair",
        "devices[].name", |_, _| Value::Null, |device, _| name(Some(&device.name)) },
    column! { Id, "port", "", "its port",
        "devices[].port", |_, _| Value::Null, |device, _| device.port.into() },
    nic!(Text, "kind", "transport", |qp| name(qp.kind)),
    nic!(Text, "state", "state at the latest reading", |qp| name(qp.state)),
    nic!(Id, "udp_port", "UDP source port of its packets", |qp| qp.control.udp_port.into()),
    nic!(Id, "plane", "plane of a multi-plane port, from 1", |qp| qp.plane.into()),
    nic!(Id, "bond_port", "port of the bond, from 1", |qp| qp.bond_port.into()),
    nic!(Nanoseconds, "timeout_ns", "transport timeout; 0: never", |qp| qp.control.timeout_ns.into()),
    nic!(Count, "retry_cnt", "retries after a timeout or a sequence error", |qp| qp.control.retry_cnt.into()),
    nic!(Count, "rnr_retry", "retries after an RNR NAK; 7: no limit", |qp| qp.control.rnr_retry.into()),
    nic!(Count, "sent_packets", "PSNs taken by its requests", |qp| qp.sent_packets.into()),
    nic!(Count, "received_packets", "PSNs of the requests that it received", |qp| qp.received_packets.into()),
    nic!(
        Count,
        "ambiguous_readings",
        "readings since the previous one of which its PSN may have wrapped: above 0 its packets are lower bounds",
        |qp| qp.ambiguous_readings.into()
    ),
    column! { Count, "in_flight_packets", "", "packets sent and not acknowledged at the latest reading of its context",
        "devices[].qps[].in_flight", |_, _| Value::Null, |_, qp| qp.in_flight.into() },
    nic!(
        Nanoseconds,
        "stuck_ns",
        "time for which packets have been in flight without one being acknowledged",
        |qp| qp.stuck_ns.into()
    ),
    nic!(Count, "retries_used", "retries in use then", |qp| qp.retries_used.into()),
    nic!(Count, "rnr_retries_used", "RNR retries in use then", |qp| qp.rnr_retries_used.into()),
    nic!(Count, "sequence_errors", "sequence-error NAKs of the port that are attributed to it", |qp| {
        qp.sequence_errors.into()
    }),
    nic!(
        Text,
        "attribution",
        "how sure timeouts and sequence_errors of the port are its own: certain or likely",
        |qp| name(qp.attribution)
    ),
    column! { Time, "created_unix_ns", "", "creation",
        "devices[].qps[].created_ns", |_, _| Value::Null, |_, qp| qp.control.created_ns.into() },
    column! { Time, "ended_unix_ns", "", "destruction",
        "devices[].qps[].ended_ns", |_, _| Value::Null, |_, qp| qp.control.ended_ns.into() },
    column! { Text, "end_kind", "", "kind of its end: destroyed, error, number_reused or gone",
        "devices[].qps[].end", |_, _| Value::Null, |_, qp| name(qp.control.end) },
];
