//! The metrics of peers and queue pairs: a bounded number of series, whatever the traffic.

use super::{BYTES, Metric, MetricKind, PACKETS, RATIO, SECONDS};
use crate::export::ledger::Count;
use crate::export::read;
use crate::util::time::seconds;

/// Labels of the metrics of a peer.
const PEER: &[&str] = &["link", "direction", "peer"];
/// Labels of the metrics of a queue pair.
const QP: &[&str] = &["link", "direction", "peer", "device", "lqpn", "rqpn", "pid", "comm", "pod"];
/// Labels of the metrics of paths.
const PATHS: &[&str] = &["weighted_by"];
/// Labels of the metrics of a queue pair whose packets are not seen.
const NIC_QP: &[&str] = &["device", "lqpn", "rqpn", "peer", "pid", "comm", "pod"];

#[rustfmt::skip]
pub(super) const QUEUE_PAIRS: &[Metric] = &[
    // Peers and queue pairs: a bounded number.
    counter! { "peer_bytes", BYTES, PEER, "flows[].bytes",
        "Bytes to or from the peers with the most bytes (--peers); peer other is the sum of the rest. A peer counts from when it gets its series.",
        |reading, series| read::peers(reading, series, Count::Bytes) },
    counter! { "peer_lost_packets", PACKETS, PEER, "flows[].loss.lost, flows[].loss_responses.lost",
        "Packets lost upstream of the link, by peer as rocescope_peer_bytes_total.",
        |reading, series| read::peers(reading, series, Count::Lost) },
    counter! { "peer_retransmitted_packets", PACKETS, PEER, "flows[].loss.retransmitted, flows[].loss_responses.retransmitted",
        "Retransmissions seen on the link, by peer as rocescope_peer_bytes_total.",
        |reading, series| read::peers(reading, series, Count::Retransmitted) },
    counter! { "qp_packets", PACKETS, QP, "flows[].packets",
        "Packets of the flows with the most losses and retransmissions, then bytes (--per-qp; else absent). Queue pairs of NICs whose packets are not seen have rocescope_device_qp_sent_packets_total.",
        |reading, series| read::qps(reading, series, |qp| qp.counts.get(Count::Packets)) },
    counter! { "qp_bytes", BYTES, QP, "flows[].bytes",
        "Bytes of the flows of rocescope_qp_packets_total.",
        |reading, series| read::qps(reading, series, |qp| qp.counts.get(Count::Bytes)) },
    counter! { "qp_ce_marked_packets", PACKETS, QP, "flows[].ecn.ce",
        "CE-marked packets of the flows of rocescope_qp_packets_total.",
        |reading, series| read::qps(reading, series, |qp| Some(qp.ce_marked)) },
    counter! { "qp_lost_packets", PACKETS, QP, "flows[].loss.lost, flows[].loss_responses.lost",
        "Packets lost upstream of the link, of the flows of rocescope_qp_packets_total.",
        |reading, series| read::qps(reading, series, |qp| qp.counts.get(Count::Lost)) },
    counter! { "qp_retransmitted_packets", PACKETS, QP, "flows[].loss.retransmitted, flows[].loss_responses.retransmitted",
        "Retransmissions seen on the link, of the flows of rocescope_qp_packets_total.",
        |reading, series| read::qps(reading, series, |qp| qp.counts.get(Count::Retransmitted)) },
    // Queue pairs of NICs: no packet of theirs is seen.
    counter! { "device_qp_sent_packets", PACKETS, NIC_QP, "devices[].qps[].sent_packets",
        "PSNs taken by the requests of queue pairs of which no packet is seen, at least where 2^24 packets or more pass the port between two readings; those that died, stand still, retry or time out first, then those with the most packets (--per-qp; else absent). Absent: not known.",
        |reading, series| read::nic_qps(reading, series, |qp| qp.sent.get()) },
    counter! { "device_qp_received_packets", PACKETS, NIC_QP, "devices[].qps[].received_packets",
        "PSNs of the requests received by the queue pairs of rocescope_device_qp_sent_packets_total.",
        |reading, series| read::nic_qps(reading, series, |qp| qp.received.get()) },
    counter! { "device_qp_ambiguous_readings", None, NIC_QP, "devices[].qps[].ambiguous_readings",
        "Readings since the previous one of which the PSN of the same queue pairs may have wrapped, and one each time that their packets are taken from another source (the kernel's list, the NIC's own context) or counted from 0 again. The packets in between are missing from rocescope_device_qp_sent_packets_total and rocescope_device_qp_received_packets_total: rate() of them is too low while this grows. Absent: as rocescope_device_qp_sent_packets_total.",
        |reading, series| read::nic_qps(reading, series, |qp| qp.ambiguous.get()) },
    gauge! { "device_qp_in_flight_packets", PACKETS, NIC_QP, "devices[].qps[].in_flight",
        "Packets sent and not acknowledged at the latest reading of the NIC's own context, of the same queue pairs. Absent: no context, or the queue pair is gone.",
        |reading, series| read::nic_qps(reading, series, |qp| qp.in_flight.map(u64::from)) },
    gauge! { "device_qp_stuck_seconds", SECONDS, NIC_QP, "devices[].qps[].stuck_ns",
        "Time for which their packets have been in flight without one being acknowledged. Absent: as rocescope_device_qp_in_flight_packets.",
        |reading, series| read::nic_qps(reading, series, |qp| qp.stuck_ns.map(seconds)) },
    gauge! { "device_qp_retries_used", None, NIC_QP, "devices[].qps[].retries_used",
        "Retries in use at the latest reading of their contexts. Absent: as rocescope_device_qp_in_flight_packets.",
        |reading, series| read::nic_qps(reading, series, |qp| qp.retries_used.map(u64::from)) },
    counter! { "device_qp_timeouts", None, NIC_QP, "devices[].qps[].timeouts",
        "Transport timeouts of the port that are attributed to them, at most: several queue pairs may have the same ones, which do not add up then. Absent: none was.",
        |reading, series| read::nic_qps(reading, series, |qp| qp.timeouts.get()) },
    gauge! { "qp_paths_qps", None, &["five_tuple"], "qp_paths.known, qp_paths.qps",
        "Connected queue pairs that can send and of which no packet is seen, by whether their 5-tuple is known or unknown. Absent: there are none.",
        read::qp_paths_qps },
    gauge! { "qp_paths_entropy_normalized", None, PATHS, "qp_paths.normalized",
        "Entropy of those with a known 5-tuple over the 5-tuples over its maximum; 1: even. Label weighted_by: bytes where those of each are known, else queue_pairs. Absent: fewer than two 5-tuples. Not part of rocescope_entropy_normalized, which is of packets.",
        |reading, series| read::qp_paths(reading, series, |paths| paths.tuples.normalized) },
    gauge! { "qp_paths_effective_flows", None, PATHS, "qp_paths.effective_flows",
        "2 to that entropy in bits. Absent: no 5-tuple is known.",
        |reading, series| read::qp_paths(reading, series, |paths| paths.tuples.effective_flows) },
    gauge! { "qp_paths_imbalance_ratio", RATIO, &["over", "weighted_by"], "qp_paths.ports, qp_paths.rails, qp_paths.planes",
        "Load of the busiest of the ports, rails or planes (label over) over their mean, of the queue pairs of rocescope_qp_paths_qps; 1: even. Absent: fewer than two, or all idle. Not part of rocescope_links_imbalance_ratio, which is of packets.",
        read::qp_paths_imbalance },
    gauge! { "qps", None, &["device", "port", "type", "state", "owner"], "devices[].qps[]",
        "Queue pairs that the kernel knows, by transport, state and command name of the process; owner other is the sum beyond 32.",
        read::qp_states },
    counter! { "qp_events", None, &["device", "event"], "devices[].qp_events[].event",
        "Asynchronous events and failed verbs of queue pairs, and events of ports, from the kernel's control path, of those that occurred; event other is the sum beyond 64 names.",
        read::qp_events },
];
