//! The columns of flows and of queue pairs of NICs, declared once for CSV and the table of the HTML page.
//!
//! Counts are those of `rocescope.report/1`, without duplicates in the capture. Unknown is null.

use serde_json::Value;

use crate::analysis::loss::{TapContext, Upstream};
use crate::analysis::{Device, DeviceQp, Flow, QpSource, direction_name};
use crate::findings::Unit;
use crate::report::Report;
use crate::report::text::{P99_SAMPLES, P999_SAMPLES, missing, retransmissions};
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

const fn text(name: &'static str, title: &'static str, help: &'static str) -> Column {
    Column { name, title, unit: Unit::Text, help, ..COLUMN }
}

const fn id(name: &'static str, title: &'static str, help: &'static str) -> Column {
    Column { name, title, unit: Unit::Id, help, ..COLUMN }
}

const fn of(unit: Unit, name: &'static str, title: &'static str, help: &'static str) -> Column {
    Column { name, title, unit, help, ..COLUMN }
}

/// A name from packets or processes, without control characters.
fn name(text: Option<&str>) -> Value {
    text.map_or(Value::Null, |text| Value::String(plain(text)))
}

/// A column of queue pairs of NICs alone, in CSV only.
const fn nic(unit: Unit, name: &'static str, help: &'static str) -> Column {
    of(unit, name, "", help)
}

/// The same where the field of the report has its name.
macro_rules! nic {
    ($unit:ident, $name:literal, $help:literal, |$qp:ident| $value:expr) => {
        Column {
            of_qp: |_, $qp| $value,
            source: concat!("devices[].qps[].", $name),
            ..nic(Unit::$unit, $name, $help)
        }
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
pub(crate) const COLUMNS: &[Column] = &[
    Column {
        get: |flow, _| name(Some(flow.link.as_str())),
        of_qp: |device, _| name(device.interface.as_deref()),
        source: "flows[].link, devices[].interface",
        ..of(Unit::Link, "link", "Link", "link of the flow")
    },
    Column {
        get: |flow, _| name(flow.direction.map(direction_name)),
        source: "flows[].direction",
        ..text("direction", "", "direction of the link; empty in a replay")
    },
    Column {
        get: |flow, _| flow.src.to_string().into(),
        of_qp: |_, qp| address(qp.control.src),
        source: "flows[].src, devices[].qps[].src",
        ..text("src", "Source", "source address")
    },
    Column {
        get: |flow, _| flow.peer_qp.into(),
        of_qp: |_, qp| qp.lqpn.into(),
        source: "flows[].peer_qp, devices[].qps[].lqpn",
        ..id("src_qp", "QP", "queue pair that sends")
    },
    Column {
        get: |flow, _| flow.dst.to_string().into(),
        of_qp: |_, qp| address(qp.control.dst),
        source: "flows[].dst, devices[].qps[].dst",
        ..text("dst", "Destination", "destination address")
    },
    Column {
        get: |flow, _| flow.dest_qp.into(),
        of_qp: |_, qp| qp.rqpn.into(),
        source: "flows[].dest_qp, devices[].qps[].rqpn",
        ..id("dest_qp", "QP", "destination queue pair")
    },
    Column { source: "findings[].flows", ..text(FINDINGS, "Findings", "findings that name the flow") },
    Column {
        get: |flow, _| flow.roce_version.into(),
        source: "flows[].roce_version",
        ..id("roce_version", "", "RoCE version")
    },
    Column {
        get: |flow, _| flow.vlan.into(),
        source: "flows[].vlan",
        ..id("vlan", "", "outermost VLAN id; 0: untagged")
    },
    Column {
        get: |flow, _| flow.pcp.into(),
        of_qp: |_, qp| qp.priority.into(),
        source: "flows[].pcp, devices[].qps[].priority",
        ..id("pcp", "", "priority code point of the tag")
    },
    Column {
        get: |flow, _| flow.dscp.into(),
        of_qp: |_, qp| qp.control.dscp.into(),
        source: "flows[].dscp, devices[].qps[].dscp",
        ..id("dscp", "DSCP", "DSCP of the first packet")
    },
    Column {
        get: |flow, _| flow.src_port_count.get().into(),
        source: "flows[].src_port_count",
        ..of(Unit::Count, "src_port_count", "", "distinct UDP source ports")
    },
    Column {
        get: |flow, _| flow.packets.saturating_sub(flow.duplicates().packets).into(),
        source: "flows[].packets",
        ..of(Unit::Count, "packets", "Packets", "packets")
    },
    Column {
        get: |flow, _| flow.bytes_dedup().into(),
        source: "flows[].bytes",
        ..of(Unit::Bytes, "bytes", "Bytes", "outer frames without FCS")
    },
    Column {
        get: |flow, _| flow.payload_bytes.saturating_sub(flow.duplicates().payload_bytes).into(),
        source: "flows[].payload_bytes",
        ..of(Unit::Bytes, "payload_bytes", "", "payload")
    },
    Column {
        get: |flow, context| context.length_ns.map(|ns| flow.bytes_dedup() as f64 * 8e9 / ns as f64).into(),
        ..of(Unit::BitsPerSecond, "rate_bits_per_s", "Rate", "mean over the whole time range")
    },
    Column {
        get: |flow, _| flow.ce_ratio.into(),
        source: "flows[].ce_ratio",
        ..of(Unit::Ratio, "ce_ratio", "CE", "CE-marked share of ECN-capable data; unknown: ECN is off")
    },
    Column {
        get: |flow, _| flow.cnps_dedup().into(),
        source: "flows[].cnp_packets",
        ..of(Unit::Count, "cnp_packets", "CNP", "congestion notification packets")
    },
    Column {
        get: |flow, context| upstream(flow, context, |side| side.lost),
        source: "flows[].loss.lost, flows[].loss_responses.lost",
        ..of(Unit::Count, "lost_packets", "Lost", "packets lost upstream of the link")
    },
    Column {
        get: |flow, context| match flow.loss.get() {
            Some(of_recording) if of_recording.lost_or_reordered.get().is_none() => Value::Null,
            _ => upstream(flow, context, |side| side.doubtful),
        },
        source: "flows[].loss.lost_or_reordered, flows[].loss_responses.lost_or_reordered",
        ..of(
            Unit::Count,
            "lost_or_reordered_packets",
            "",
            "part of lost_packets that may have been reordered",
        )
    },
    Column {
        get: |flow, _| loss(flow, |loss| loss.recovered),
        source: "flows[].loss.recovered, flows[].loss_responses.recovered",
        ..of(Unit::Count, "reordered_packets", "", "packets that arrived out of order")
    },
    Column {
        get: |flow, _| missing(flow).into(),
        source: "flows[].psn.missing, flows[].psn_responses.missing",
        ..of(Unit::Count, "missing_psns", "", "PSNs skipped: lost or reordered")
    },
    Column {
        get: |flow, _| retransmissions(flow).into(),
        source: "flows[].loss.retransmitted, flows[].loss_responses.retransmitted, flows[].loss.rereads, flows[].loss_responses.rereads",
        ..of(
            Unit::Count,
            "retransmitted_packets",
            "RETX",
            "retransmissions of packets seen at this tap, repeated READ requests included",
        )
    },
    Column {
        get: |flow, _| loss(flow, |loss| loss.timeouts),
        of_qp: |_, qp| qp.timeouts.into(),
        source: "flows[].loss.timeouts, flows[].loss_responses.timeouts, devices[].qps[].timeouts",
        ..of(
            Unit::Count,
            "timeouts",
            "Timeouts",
            "transport timeouts; of a queue pair of a NIC those of the port that are attributed to it",
        )
    },
    Column {
        get: |flow, _| flow.naks_dedup().psn_sequence_error.into(),
        source: "flows[].ack.naks.psn_sequence_error",
        ..of(
            Unit::Count,
            "nak_sequence_packets",
            "NAK TX",
            "NAKs (PSN sequence error) that travel in this flow",
        )
    },
    Column {
        get: |flow, _| flow.naks_dedup().refused().into(),
        source: "flows[].ack.naks",
        ..of(Unit::Count, "nak_other_packets", "", "NAKs of other codes")
    },
    Column {
        get: |flow, _| flow.rnr_naks_dedup().into(),
        source: "flows[].ack.rnr_naks",
        ..of(Unit::Count, "rnr_naks", "RNR TX", "RNR NAKs that travel in this flow")
    },
    Column {
        get: |flow, _| flow.latency_ns.as_deref().map(|latency| latency.count).into(),
        source: "flows[].latency_ns.count",
        ..of(Unit::Count, "latency_count", "", "requests that were timed")
    },
    Column {
        get: |flow, _| latency(flow, 1, |latency| latency.p50),
        source: "flows[].latency_ns.p50",
        ..of(Unit::Nanoseconds, "latency_p50_ns", "p50", "median from request to ACK or response")
    },
    Column {
        get: |flow, _| latency(flow, P99_SAMPLES, |latency| latency.p99),
        source: "flows[].latency_ns.p99",
        ..of(Unit::Nanoseconds, "latency_p99_ns", "p99", "99th percentile; unknown below 100 samples")
    },
    Column {
        get: |flow, _| latency(flow, P999_SAMPLES, |latency| latency.p999.get()),
        source: "flows[].latency_ns.p999",
        ..of(Unit::Nanoseconds, "latency_p999_ns", "", "99.9th percentile; unknown below 1,000 samples")
    },
    Column {
        get: |flow, _| latency(flow, 1, |latency| latency.max),
        source: "flows[].latency_ns.max",
        ..of(Unit::Nanoseconds, "latency_max_ns", "", "longest")
    },
    Column {
        get: |flow, _| flow.path_mtu.into(),
        of_qp: |_, qp| qp.control.path_mtu.into(),
        source: "flows[].path_mtu, devices[].qps[].path_mtu",
        ..of(Unit::Bytes, "path_mtu_bytes", "", "path MTU in use")
    },
    Column {
        get: |flow, _| flow.first_ns.into(),
        source: "flows[].first_ns",
        ..of(Unit::Time, "first_unix_ns", "", "first packet")
    },
    Column {
        get: |flow, _| flow.last_ns.into(),
        source: "flows[].last_ns",
        ..of(Unit::Time, "last_unix_ns", "", "last packet")
    },
    Column {
        get: |flow, _| flow.pid.into(),
        of_qp: |_, qp| qp.pid.into(),
        source: "flows[].pid, devices[].qps[].pid",
        ..id("pid", "", "process that owns the queue pair on this host")
    },
    Column {
        get: |flow, _| name(flow.comm.as_deref()),
        of_qp: |_, qp| name(qp.comm.as_deref()),
        source: "flows[].comm, devices[].qps[].comm",
        ..text("comm", "Process", "its command name")
    },
    Column {
        get: |flow, _| name(flow.pod.as_deref()),
        of_qp: |_, qp| name(qp.pod.as_deref()),
        source: "flows[].pod, devices[].qps[].pod",
        ..text("pod", "", "its pod, container or job")
    },
    Column {
        get: |_, _| QpSource::Packets.name().into(),
        of_qp: |_, qp| qp.sources.iter().map(|source| source.name()).collect::<Vec<_>>().join(" ").into(),
        source: "devices[].qps[].sources",
        ..text(
            "sources",
            "",
            "of a flow packets alone; of a queue pair of a NIC its sources, never packets alone",
        )
    },
    Column {
        of_qp: |device, _| name(Some(&device.name)),
        source: "devices[].name",
        ..nic(Unit::Text, "device", "RDMA device of the queue pair")
    },
    Column {
        of_qp: |device, _| device.port.into(),
        source: "devices[].port",
        ..nic(Unit::Id, "port", "its port")
    },
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
    Column {
        of_qp: |_, qp| qp.in_flight.into(),
        source: "devices[].qps[].in_flight",
        ..nic(
            Unit::Count,
            "in_flight_packets",
            "packets sent and not acknowledged at the latest reading of its context",
        )
    },
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
    Column {
        of_qp: |_, qp| qp.control.created_ns.into(),
        source: "devices[].qps[].created_ns",
        ..nic(Unit::Time, "created_unix_ns", "creation")
    },
    Column {
        of_qp: |_, qp| qp.control.ended_ns.into(),
        source: "devices[].qps[].ended_ns",
        ..nic(Unit::Time, "ended_unix_ns", "destruction")
    },
    Column {
        of_qp: |_, qp| name(qp.control.end),
        source: "devices[].qps[].end",
        ..nic(Unit::Text, "end_kind", "kind of its end: destroyed, error, number_reused or gone")
    },
];
