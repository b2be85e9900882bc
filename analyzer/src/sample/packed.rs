//! A sample and what happened at packets as bytes: see [`crate::util::pack`].

use rocescope_common::abi::Counter;
use rocescope_common::abi::post::PostCounts;
use rocescope_common::account::message::MessageCounts;
use rocescope_common::account::{Disorder, FlowKey, PsnTrack, Rare, Seldom};

use super::{
    Address, Direction, EventSample, Extra, FlowSample, Flows, GrownTimes, LastGrowth, LinkSample,
    MissedCounts, MissedInterval, MissedTimes, Opcodes, PeerKey, Psns, Recording, Retired, RetiredTuple,
    Sample, SourceKind, Stats, Tuple,
};
use crate::util::pack::{Input, Layout, Malformed, Pack, pack};

pack! {
    struct Sample {
        time_ns, steady_ns, kind, inputs, window, links, flows, extra, retired_tuples, retired_unattributed, peers, events_dropped,
        capture_drops, interface_drops, missed, grown, owners, devices, nccl, recording, metrics,
    }
    struct Recording { findings, interval_ns, latency_ranges }
    struct MissedTimes { read, intervals }
    struct GrownTimes { counters }
    struct LastGrowth { count, last_ns }
    struct MissedInterval { first_ns, last_ns, missed }
    struct MissedCounts { flow_table_full, contended, extra_table_full, events, bins, interface_drops }
    struct LinkSample {
        name, direction, mtu, speed_mbps, skipped, flow_table_full, contended, extra_full, retired,
    }
    struct Retired { flows, packets, bytes, cnp_packets, ecn, ecn_data }
    struct FlowSample { slot, key, stats }
    struct Extra { ports, opcodes, dscps }
    struct RetiredTuple { tuple, link, bytes }
    struct Tuple { family, src, dst, src_port }
    struct PeerKey { family, src, dst, dest_qp }
    struct EventSample {
        time_ns, key, events, opcode, tos, src_port, psn, missing, aeth, wire_len, bth_offset, headers,
    }
    struct Counter { packets, bytes }
    struct FlowKey { src, dst, dest_qp, link, family, pad }
    struct Stats {
        packets, bytes, payload_bytes, first_ns, last_ns, mtu, src_qp, encap, src_port, vlan, inner_vlan, pcp, dscp, mixed,
        roce_version, transport, response_open, psn, data_bytes, ecn_data, ecn_control, seldom, acks,
        cnp_packets, opcodes, rare,
    }
    struct Rare {
        payload_unknown, other_opcode_packets, rnr_naks, naks, ack_unknown, psn_responses, response_holes,
    }
    struct Seldom { other_port_packets, other_port_bytes, inner_bytes, last_ce_ns }
    struct PsnTrack { first, expected, slack, seen, disorder }
    struct Psns { first, expected, slack, seen, disorder }
    struct Disorder { repeats, gaps, missing, restarts }
    struct MessageCounts { packets, payload_bytes, sizes, size_unknown }
    struct PostCounts {
        calls, requests, bytes, long_chains, long_lists, faults, shortest, longest, opcodes, other_opcodes, sizes,
    }
}

pack! {
    enum SourceKind { 0 => Replay, 1 => Live }
}
pack! {
    enum Direction { 0 => Ingress, 1 => Egress }
}
pack! {
    enum Address { 0 => Ip(ip), 1 => Lid(lid) }
}

impl Pack for Flows {
    fn layout(layout: &mut Layout) {
        Vec::<FlowSample>::layout(layout);
    }

    fn pack(&self, out: &mut Vec<u8>) {
        Vec::pack(self, out);
    }

    fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Vec::unpack(input).map(|flows: Vec<FlowSample>| flows.into())
    }
}

impl Pack for Opcodes {
    fn layout(layout: &mut Layout) {
        Vec::<(u8, u64)>::layout(layout);
    }

    fn pack(&self, out: &mut Vec<u8>) {
        self.iter().collect::<Vec<_>>().pack(out);
    }

    fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Vec::unpack(input).map(|counts: Vec<(u8, u64)>| counts.into_iter().collect())
    }
}
