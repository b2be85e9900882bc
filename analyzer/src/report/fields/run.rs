//! Fields about the whole run.

use super::{FieldMeta, fields};

/// Fields outside `flows`.
pub const RUN: &[FieldMeta] = fields! {
    "schema", "text": "Name and version of the schema: `rocescope.report/1`.";
    "source.kind", "text": "Where the figures come from: `replay` (a capture), `live` (programs in the kernel), \
        `counters` (of devices), `mixed`.";
    "source.inputs[]", "text": "Interfaces, or capture files as given.";
    "window.first_ns", "Unix ns": "Replay: time of the first frame of any kind. Live: when the programs were attached."
        or null "there was no frame";
    "window.last_ns", "Unix ns": "Replay: time of the last frame of any kind. Live: the last reading."
        or null "there was no frame";
    "totals.packets", "packets": "All frames, RoCE or not, on all links. A frame that passes two links counts twice.";
    "totals.bytes", "bytes": "Their lengths on the wire, outer frame, without FCS.";
    "totals.roce_packets", "packets": "Frames with a whole base transport header that `--filter` lets through.";
    "totals.roce_bytes", "bytes": "Their outer frames.";
    "totals.cnp_packets", "packets": "Congestion notification packets (opcode 0x81).";
    "totals.ecn.not_ect", "packets": "Packets of flows and retired flows whose ECN bits are 00: not ECN-capable.";
    "totals.ecn.ect1", "packets": "ECN bits 01: ECN-capable, ECT(1).";
    "totals.ecn.ect0", "packets": "ECN bits 10: ECN-capable, ECT(0).";
    "totals.ecn.ce", "packets": "ECN bits 11: congestion was experienced.";
    "totals.skipped.<reason>", "packets": "Frames that are not counted as RoCE, by reason (see below).";
    "totals.lost.flow_table_full", "packets": "RoCE packets that found the flow table full: in the totals and in \
        their link, but in no flow.";
    "totals.lost.events_dropped", "events": "Events that found the ring buffer full."
        or null "there is no ring buffer (replay)";
    "totals.lost.capture_drops", "packets": "Packets that the capture says it dropped."
        or null "the capture does not say, or there is none";
    "totals.lost.interface_drops", "packets": "Packets that the interfaces dropped on receipt during the run."
        or null "not known (replay)";
    "totals.lost.extra_table_full", "packets": "Packets counted in their flow whose source port or opcode found the \
        overflow table full: they are missing from `src_ports` and `opcodes`.";
    "totals.retired.flows", "flows": "Flows that were closed during the run, idle for long or to make room. What they had \
        counted is in the totals and links.";
    "totals.retired.packets", "packets": "Packets of retired flows.";
    "totals.retired.bytes", "bytes": "Bytes of retired flows.";
    "entropy.five_tuples", "tuples": "Different (source, destination, UDP, source port, 4791), retired flows \
        included. One seen on several links counts once, with the bytes of the link that saw most of it.";
    "entropy.source_ports", "ports": "Different UDP source ports among them.";
    "entropy.entropy_bits", "bits": "Entropy of the bytes over the 5-tuples: −Σ p·log2 p."
        or null "no RoCEv2 was seen";
    "entropy.normalized", "ratio": "Entropy over its largest value, log2(five_tuples): 1 is an even spread."
        or null "there are fewer than two 5-tuples";
    "entropy.effective_flows", "tuples": "2 to the entropy: how many equal flows would spread as well."
        or null "no RoCEv2 was seen";
    "entropy.top_share", "ratio": "Share of the bytes in the busiest 5-tuple."
        or null "no RoCEv2 was seen";
    "entropy.unattributed_bytes", "bytes": "Bytes left out because their 5-tuple is not known any more: too many \
        flows were retired, or the overflow table was full."
        or null "a flow lost ports and carried both RoCE versions";
    "links[].name", "text": "Interface, or capture file without folders.";
    "links[].direction", "text": "`ingress` or `egress`, seen from this host." or null "replay";
    "links[].packets", "packets": "RoCE packets: flows, retired flows and those that found the flow table full.";
    "links[].bytes", "bytes": "Their outer frames.";
    "links[].ce_ratio", "ratio": "As `flows[].ce_ratio`, over flows and retired flows of the link."
        or null "no data packet is ECN-capable";
    "links[].icrc", "object": "As `flows[].icrc`, over flows and retired flows of the link." or null "live";
    "links[].icrc.checked", "packets": "Packets whose invariant CRC was computed.";
    "links[].icrc.bad", "packets": "Those in which it is wrong.";
    "links[].icrc.unchecked", "packets": "Packets of which it cannot be computed.";
    "imbalance[].links[]", "text": "Links of one direction that share a load, idle ones included.";
    "imbalance[].direction", "text": "Their direction." or null "replay";
    "imbalance[].max_over_mean", "ratio": "Bytes of the busiest link over the mean: 1 is even, the number of links \
        is the worst." or null "all are idle";
    "imbalance[].jain", "ratio": "Jain's index (Σx)² / (n·Σx²) over bytes: 1 is even, 1/n the worst."
        or null "all are idle";
    "taps[].src", "address": "Source of a flow that two links saw, which are two taps on one way: captures from several places, or several \
        interfaces. Clocks may differ by seconds: packets are matched by PSN, opcode and IPv4 identification, not by time. Empty in live.";
    "taps[].dst", "address": "Destination.";
    "taps[].dest_qp", "number": "Destination queue pair.";
    "taps[].links[]", "text": "The two links: the one nearer the sender first, if that is known.";
    "taps[].from", "text": "The link nearer the sender: told by the time to live, else by which of the two lacks packets, else by \
        times in both directions." or null "it cannot be told";
    "taps[].to", "text": "The link nearer the receiver." or null "it cannot be told";
    "taps[].packets_matched", "packets": "Packets that both saw.";
    "taps[].vanished", "packets": "Packets that passed `from` and not `to`, between packets that passed both: lost on the way, or missed \
        by the capture at `to`." or null "the order is not known and one of the two lacks packets";
    "taps[].only_at[]", "packets": "Packets that only the first, and only the second link saw, between packets that both saw.";
    "taps[].delay_change_ns.min", "ns": "One-way delay from the first link to the second, as change against the least at the start \
        (the clocks' difference is not known): the smallest.";
    "taps[].delay_change_ns.max", "ns": "The largest change.";
    "taps[].delay_change_ns.drift", "ns": "Change of the least delay from the first point to the last: the clocks drift, or the way \
        has become longer.";
    "taps[].delay_change_ns.points[].time_ns", "Unix ns": "Start of a span of time, by the clock of the link that saw the flow first; 32 spans at most.";
    "taps[].delay_change_ns.points[].change_ns", "ns": "Change of the least delay in it.";
    "devices[].name", "text": "RDMA device or interface that counted by itself.";
    "devices[].port", "number": "Port of the device." or null "the counters are not of one port";
    "devices[].source", "text": "Where the counters were read.";
    "devices[].counters.<name>", "as named": "A counter under the name its driver gives it. Never added to totals \
        or flows.";
    "devices[].qps[]", "object": "A queue pair as the device tells it.";
    "findings[].id", "text": "Stable name of the rule that found it.";
    "findings[].severity", "text": "`info`, `warning` or `critical`.";
    "findings[].title", "text": "What is wrong, in a sentence.";
    "findings[].evidence.<name>", "as named": "The figures it rests on.";
    "findings[].flows[].link", "text": "A flow it is about: its link,";
    "findings[].flows[].direction", "text": "direction," or null "replay";
    "findings[].flows[].src", "address": "source,";
    "findings[].flows[].dst", "address": "destination";
    "findings[].flows[].dest_qp", "number": "and destination QP.";
    "findings[].advice", "text": "What to do.";
};
