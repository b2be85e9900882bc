//! The table of metrics, from which the exposition, HELP lines and docs/exporter.md are generated.

use super::ledger::Count;
pub use super::metric::{Metric, MetricKind};
use super::read;
use crate::host::rdma::vocabulary::{Meaning, port_counters};

/// Labels of the metrics of a device port.
const PORT: &[&str] = &["device", "port"];
/// Labels of the metrics of a link.
const LINK: &[&str] = &["link", "direction"];
/// Labels of the metrics of pauses.
const PAUSE: &[&str] = &["device", "port", "direction", "priority"];

/// Declares a counter.
macro_rules! counter {
    ($name:literal, $unit:expr, $labels:expr, $source:literal, $help:literal, $read:expr) => {
        Metric {
            name: concat!("rocescope_", $name),
            kind: MetricKind::Counter,
            unit: $unit,
            labels: $labels,
            source: $source,
            help: $help,
            read: $read,
        }
    };
}

/// Declares a gauge.
macro_rules! gauge {
    ($name:literal, $unit:expr, $labels:expr, $source:literal, $help:literal, $read:expr) => {
        Metric { kind: MetricKind::Gauge, ..counter!($name, $unit, $labels, $source, $help, $read) }
    };
}

macro_rules! device_names {
    ($($variant:ident $name:literal, $unit:literal, $title:literal, $meaning:literal;)+) => {
        /// Name of the metric of a counter, and the field of the report.
        const fn device_names(of: Meaning) -> [&'static str; 2] {
            match of {
                $(Meaning::$variant => [concat!("rocescope_device_", $name), concat!("devices[].counters.", $name)],)+
                Meaning::Priority(_) => [""; 2],
            }
        }
    };
}
port_counters!(device_names);

/// The metric of a counter of a port; its name, unit and meaning are those of the counter.
macro_rules! device {
    ($counter:ident) => {
        device!($counter, None)
    };
    ($counter:ident, $unit:expr) => {
        Metric {
            name: device_names(Meaning::$counter)[0],
            kind: MetricKind::Counter,
            unit: $unit,
            labels: PORT,
            source: device_names(Meaning::$counter)[1],
            help: Meaning::$counter.text(),
            read: |reading, series| read::device(reading, series, Meaning::$counter.name()),
        }
    };
}

mod queue_pairs;
use queue_pairs::QUEUE_PAIRS;

const PACKETS: Option<&str> = Some("packets");
const BYTES: Option<&str> = Some("bytes");
const SECONDS: Option<&str> = Some("seconds");
const RATIO: Option<&str> = Some("ratio");

/// All metrics, in the order of the exposition.
pub const REGISTRY: &[Metric] = &joined::<{ TRAFFIC.len() + QUEUE_PAIRS.len() + ROCESCOPE.len() }>();

/// The tables, one behind the other.
const fn joined<const N: usize>() -> [Metric; N] {
    let parts = [TRAFFIC, QUEUE_PAIRS, ROCESCOPE];
    let mut all = [TRAFFIC[0]; N];
    let (mut part, mut at, mut to) = (0, 0, 0);
    while part < parts.len() {
        if at < parts[part].len() {
            all[to] = parts[part][at];
            (at, to) = (at + 1, to + 1);
        } else {
            (part, at) = (part + 1, 0);
        }
    }
    all
}

/// Those of devices and links.
#[rustfmt::skip]
const TRAFFIC: &[Metric] = &[
    Metric {
        name: "rocescope_build",
        kind: MetricKind::Info,
        unit: None,
        labels: &["version", "revision", "kernel"],
        source: "process",
        help: "Version of rocescope, commit that it was built from (absent: not from a repository), and release of the running kernel.",
        read: read::build,
    },
    Metric {
        name: "rocescope_device",
        kind: MetricKind::Info,
        unit: None,
        labels: &[
            "device",
            "port",
            "netdev",
            "driver",
            "firmware",
            "link_layer",
            "pci_addr",
            "numa_node",
            "speed",
            "pod",
        ],
        source: "devices[]",
        help: "RDMA device port: its network interface, driver, firmware, PCI address, NUMA node and speed in Mb/s at the start; and the pod in whose network namespace that interface is.",
        read: read::device_info,
    },
    // Ports of devices, as counted by the NIC.
    device!(TxPackets, PACKETS),
    device!(RxPackets, PACKETS),
    device!(TxBytes, BYTES),
    device!(RxBytes, BYTES),
    device!(CeMarkedPackets, PACKETS),
    device!(CnpsSent),
    device!(CnpsHandled),
    device!(CnpsIgnored),
    device!(OutOfSequence),
    device!(PsnErrorNaks),
    device!(ImpliedPsnErrors),
    device!(DuplicateRequests),
    device!(LocalAckTimeouts),
    device!(RnrNaksSent),
    device!(RnrNaksReceived),
    device!(OutOfBuffer),
    Metric { name: "rocescope_device_retransmitted_packets", ..device!(Retransmissions, PACKETS) },
    device!(RetriesExceeded),
    device!(RnrRetriesExceeded),
    device!(AccessNaksReceived),
    device!(AccessNaksSent),
    device!(SlowRestarts),
    device!(RxDiscards),
    device!(IcrcErrors),
    device!(PortDiscards),
    device!(TxDiscards),
    device!(FecUncorrectable),
    device!(LinkDowns),
    device!(PcieReadStalls),
    device!(PcieWriteStalls),
    device!(GlobalPauseReceived),
    device!(GlobalPauseSent),
    device!(PauseStorms),
    // Prometheus' own check refuses a name with the word "counter".
    counter! { "device_statistics_resets", None, &["device", "port", "source"], "devices[].resets",
        "Times at which counters of a device decreased (driver reloaded, manual reset); its metrics go on.",
        read::resets },
    counter! { "pause_frames", None, PAUSE, "devices[].pause[].frames",
        "PFC pause frames of priorities that were ever paused. direction received: the neighbour paused this port.",
        read::pause_frames },
    counter! { "pause_seconds", SECONDS, PAUSE, "devices[].pause[].paused_ns",
        "Time paused by PFC, of priorities that were ever paused. Absent: the driver does not count it.",
        read::pause_seconds },
    counter! { "pause_episodes", None, PAUSE, "devices[].pause[].episodes",
        "Changes from running to paused, of priorities that were ever paused. Absent: the driver does not count them.",
        read::pause_episodes },
    gauge! { "coverage_ratio", RATIO, &["device", "port", "netdev", "direction", "source"], "coverage[].ratio",
        "RoCE packets seen by rocescope over those counted by the NIC, by the source of its counters. Absent: not known, or nothing was counted.",
        read::coverage },
    // Links, counted from packets.
    counter! { "link_packets", PACKETS, LINK, "links[].packets",
        "RoCE packets seen on a link.",
        |reading, series| read::links(reading, series, |link| link.packets) },
    counter! { "link_bytes", BYTES, LINK, "links[].bytes",
        "Length of their outer frames, without FCS.",
        |reading, series| read::links(reading, series, |link| link.bytes) },
    counter! { "link_ecn_capable_packets", PACKETS, LINK, "links[].ce_ratio (its base)",
        "ECN-capable RoCE packets other than CNP and ACKNOWLEDGE, CE-marked ones included.",
        |reading, series| read::links(reading, series, |link| link.ecn_data.capable()) },
    counter! { "link_ce_marked_packets", PACKETS, LINK, "links[].ce_ratio",
        "CE-marked packets among those of rocescope_link_ecn_capable_packets_total.",
        |reading, series| read::links(reading, series, |link| link.ecn_data.ce) },
    counter! { "link_cnp_packets", PACKETS, LINK, "flows[].cnp_packets",
        "Congestion notification packets seen on a link.",
        |reading, series| read::links(reading, series, |link| link.cnp_packets) },
    counter! { "link_lost_packets", PACKETS, LINK, "flows[].loss.lost, flows[].loss_responses.lost",
        "Packets lost upstream of the link. Absent: no flow is followed (--no-timing, no RoCE).",
        |reading, series| read::link_count(reading, series, Count::Lost) },
    counter! { "link_reordered_packets", PACKETS, LINK, "flows[].loss.recovered, flows[].loss_responses.recovered",
        "Packets out of order that were not lost. Absent: as rocescope_link_lost_packets_total.",
        |reading, series| read::link_count(reading, series, Count::Reordered) },
    counter! { "link_retransmitted_packets", PACKETS, LINK, "flows[].loss.retransmitted, flows[].loss_responses.retransmitted",
        "Retransmissions of packets seen before on the link. Absent: as rocescope_link_lost_packets_total.",
        |reading, series| read::link_count(reading, series, Count::Retransmitted) },
    counter! { "link_timeouts", None, LINK, "flows[].loss.timeouts, flows[].loss_responses.timeouts",
        "Transport timeouts of the senders seen on the link. Absent: as rocescope_link_lost_packets_total.",
        |reading, series| read::link_count(reading, series, Count::Timeouts) },
    counter! { "link_nak_packets", PACKETS, &["link", "direction", "code"], "flows[].ack.naks, flows[].ack.rnr_naks",
        "NAKs by code, of those that occurred; rnr_nak and psn_sequence_error always.", read::link_naks },
    counter! { "link_skipped_frames", None, &["link", "direction", "reason"], "totals.skipped (by link)",
        "Frames other than RoCE, by reason; reasons that did not occur are absent.", read::link_skipped },
    gauge! { "link_burst_peak_ratio", RATIO, LINK, "bursts[].peak_bytes",
        "Bytes of the fullest bin (1 ms unless --bin) since the start over what the link carries in it. Absent: speed unknown, or no traffic.",
        read::burst_peak },
    Metric {
        name: "rocescope_rtt_seconds",
        kind: MetricKind::Histogram,
        unit: SECONDS,
        labels: &["link", "direction", "class"],
        source: "flows[].latency_by_class",
        help: "Request-to-ACK and response latency at this tap, by link and class of the requests (write_send, read: to the first response, atomic). The sum is of middles of buckets, 6.25 % off at most.",
        read: read::latency,
    },
    Metric {
        name: "rocescope_message_completion_seconds",
        kind: MetricKind::Histogram,
        unit: SECONDS,
        labels: &["link", "opcode"],
        source: "flows[].message_completion_ns",
        help: "Message completion time of the messages that this host sends, by link and operation (write, send, read): from the first packet to the ACK of the last, of a READ from the request to the last packet of the response. The sum is of typical times of buckets, 21 % off at most.",
        read: read::completion,
    },
    // All links.
    gauge! { "entropy_normalized", None, &["link"], "entropy.normalized (by link)",
        "Entropy of the bytes on a link over the 5-tuples over its maximum; 1: even. Absent: fewer than two 5-tuples.",
        read::entropy },
    gauge! { "entropy_source_ports", None, &["link"], "entropy.source_ports (by link)",
        "Distinct UDP source ports of RoCEv2 on a link.", read::source_ports },
    gauge! { "links_imbalance_ratio", RATIO, &["links", "direction"], "imbalance[].max_over_mean",
        "Bytes of the busiest of parallel links over their mean; 1: even. Absent: one link, or all idle.",
        read::imbalance },
    gauge! { "flows", None, &[], "flows",
        "Flows in the flow table.",
        |reading, series| series.push(&[], reading.report.facts.flows.len() as u64) },
    counter! { "flows_retired", None, &[], "totals.retired.flows",
        "Flows that left the flow table because they were idle.",
        |reading, series| series.push(&[], reading.report.facts.totals.retired.flows) },
];

/// Those of the analysis and of rocescope itself.
#[rustfmt::skip]
const ROCESCOPE: &[Metric] = &[
    // The analysis.
    gauge! { "finding_active", None, &["id", "severity", "link", "direction", "device", "port"], "findings[]",
        "1 while the finding is active, absent otherwise.", read::finding_active },
    gauge! { "findings", None, &["severity"], "findings[]",
        "Active findings that no other finding explains.", read::findings },
    // Rocescope itself.
    counter! { "lost", None, &["where"], "totals.lost",
        "Packets and events that rocescope did not count completely, by place. Absent: not known.",
        read::lost },
    counter! { "series_dropped", None, &["family"], "process",
        "Peers and queue pairs without a series of their own because of the limit, each counted again whenever it begins to lack one.",
        read::dropped },
    counter! { "otlp_requests", None, &["signal", "result"], "process",
        "Requests to the OTLP collector: sent (accepted), retried (each time), dropped (the queue was full), refused (an error after which there is no retry). Absent: no --otlp.",
        read::otlp_requests },
    counter! { "otlp_rejected_points", None, &["signal"], "process",
        "Points or log records that the OTLP collector rejected in requests that it accepted. Absent: no --otlp.",
        read::otlp_rejected },
    counter! { "recording_rows", None, &[], "process",
        "Rows of all tables that the agent made for its recording, lost ones included. Absent: no --record.",
        |reading, series| series.known(&[], reading.process.rows.map(|[all, _]| all)) },
    counter! { "recording_rows_lost", None, &[], "hosts.rows_lost of the recording",
        "Rows that could not be written: the disk is full or fails. Absent: no --record.",
        |reading, series| series.known(&[], reading.process.rows.map(|[_, lost]| lost)) },
    gauge! { "scrape_collector_success", None, &["collector"], "source, devices, qp_lives, qp_context",
        "1: the source works (qp_list: all devices list their queue pairs; qp_context: any context of a queue pair was read, or none was to read yet); 0: it does not. Absent: it was not asked for.",
        read::collectors },
    gauge! { "reading_timestamp_seconds", SECONDS, &[], "window.last_ns",
        "Unix time of the sample from which these metrics are computed.",
        |reading, series| series.push(&[], read::unix_seconds(reading.sample.time_ns)) },
    counter! { "process_cpu_seconds", SECONDS, &[], "process",
        "CPU time used by rocescope in user space.",
        |reading, series| series.known(&[], reading.process.cpu_seconds) },
    gauge! { "process_resident_memory_bytes", BYTES, &[], "process",
        "Memory in use by rocescope in user space.",
        |reading, series| series.known(&[], reading.process.resident_bytes) },
    counter! { "bpf_run_seconds", SECONDS, &["program"], "process",
        "Time that the kernel programs ran, by type of program. Absent: the kernel does not measure it (sysctl kernel.bpf_stats_enabled is 0).",
        read::bpf_run },
    gauge! { "bpf_memory_bytes", BYTES, &[], "process",
        "Memory of the kernel programs and their maps, as the kernel accounts it.",
        |reading, series| series.known(&[], reading.process.bpf.memory_bytes) },
    gauge! { "process_start_time_seconds", SECONDS, &[], "process",
        "Unix time at which rocescope was started.",
        |reading, series| series.push(&[], read::unix_seconds(reading.process.started_ns)) },
];
