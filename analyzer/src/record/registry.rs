//! The registry of tables: name, type, unit, meaning and source of every column. The type of a row, the schema of the
//! Parquet files and docs/recording.md are generated from it.
//!
//! A new column is nullable and comes last, so that older files stay readable. Names, types and meanings never
//! change.

use super::cell::Time;
use crate::sample::{Address, Direction};
use crate::util::shared::Shared;

/// A nullable text.
type Text = Option<Shared>;

tables! {
    FlowSecond = flow_seconds, "A flow in an interval in which it had packets." {
        t: Time, "Unix ns", "window.last_ns", "End of the interval.";
        interval_ns: u64, "ns", "", "Length of the interval.";
        host: Shared, "", "", "Name of the recording host.";
        job: Text, "", "", "Job of the host. Null: none is known.";
        pod: Text, "", "flows[].pod", "Pod of the owning process. Null: none, or not known.";
        link: Shared, "", "flows[].link", "Link that sees the flow.";
        rail: Text, "", "rails[].rails[].name", "Rail of the link, as `--rail` names it. Null: none is named.";
        direction: Option<Direction>, "", "flows[].direction", "`ingress` or `egress`. Null: from a capture.";
        src: Address, "", "flows[].src", "Source address.";
        dst: Address, "", "flows[].dst", "Destination address.";
        dest_qp: u64, "", "flows[].dest_qp", "Destination queue pair.";
        src_qp: Option<u64>, "", "flows[].peer_qp", "Sending queue pair. Null: not known.";
        src_port: Option<u64>, "", "flows[].src_ports[].port", "UDP source port with the most bytes of the flow's life. Null: RoCEv1, or not known.";
        src_port_count: Option<u64>, "ports", "flows[].src_port_count", "UDP source ports of the flow's life. Null: not known.";
        roce_version: Option<u64>, "", "flows[].roce_version", "1 or 2. Null: InfiniBand.";
        transport: u64, "", "", "Transport: the three upper bits of the BTH opcode of the first packet (0: RC, 1: UC, 3: UD, 5: XRC).";
        dscp: Option<u64>, "", "flows[].dscp", "DSCP of the first packet. Null: as in the report.";
        pcp: Option<u64>, "", "flows[].pcp", "VLAN priority of the first packet. Null: untagged, or not known.";
        vlan: Option<u64>, "", "flows[].vlan", "Outermost VLAN; 0: untagged. Null: not known.";
        packets: u64, "packets", "flows[].packets", "Packets.";
        bytes: u64, "bytes", "flows[].bytes", "Length of their outer frames, without FCS.";
        payload_bytes: u64, "bytes", "flows[].payload_bytes", "Payload.";
        ecn_capable: u64, "packets", "flows[].ce_ratio (its base)", "ECN-capable packets other than CNP and ACKNOWLEDGE, CE-marked ones included.";
        ce: u64, "packets", "flows[].ce_ratio (its numerator)", "CE-marked packets among `ecn_capable`.";
        cnp_packets: u64, "packets", "flows[].cnp_packets", "Congestion notification packets.";
        acks: u64, "packets", "flows[].ack.acks", "ACKs.";
        rnr_naks: u64, "packets", "flows[].ack.rnr_naks", "RNR NAKs.";
        nak_sequence: u64, "packets", "flows[].ack.naks.psn_sequence_error", "Sequence-error NAKs.";
        nak_other: u64, "packets", "flows[].ack.naks", "NAKs with other codes.";
        lost: Option<i64>, "packets", "flows[].loss.lost + flows[].loss_responses.lost", "Packets lost upstream of the link. Negative where a later packet corrects an earlier interval. Null: no sequence is followed.";
        reordered: Option<i64>, "packets", "flows[].loss.recovered + flows[].loss_responses.recovered", "Packets out of order that were not lost. Null: as `lost`.";
        retransmitted: Option<i64>, "packets", "flows[].loss.retransmitted + flows[].loss_responses.retransmitted", "Retransmissions of packets seen before on the link. Null: as `lost`.";
        timeouts: Option<i64>, "timeouts", "flows[].loss.timeouts + flows[].loss_responses.timeouts", "Transport timeouts of the sender. Null: as `lost`.";
        timeout_wait_ns: Option<i64>, "ns", "flows[].loss.timeout_wait_ns + flows[].loss_responses.timeout_wait_ns", "Silence before these timeouts. Null: as `lost`.";
        rnr_wait_ns: Option<i64>, "ns", "flows[].loss.rnr_wait_ns + flows[].loss_responses.rnr_wait_ns", "Time from RNR NAKs to the retransmissions that they delay. Null: as `lost`.";
        rtt_count: Option<u64>, "samples", "flows[].latency_ns.count", "Request-to-ACK and response latencies measured at this tap. Null: not measured.";
        rtt_sum_ns: Option<u64>, "ns", "flows[].latency_ns", "Their sum, from the middles of histogram buckets (error at most 6.25 %). Null: no sample.";
        rtt_p50_ns: Option<u64>, "ns", "flows[].latency_ns.p50", "Their median in the interval. Null: no sample.";
        rtt_p99_ns: Option<u64>, "ns", "flows[].latency_ns.p99", "Their 99th percentile in the interval. Null: no sample.";
        rtt_max_ns: Option<u64>, "ns", "flows[].latency_ns.max", "The longest of the interval: the upper bound of its histogram bucket, at most the longest so far. Null: no sample.";
        messages: u64, "messages", "flows[].opcodes", "Requests completed: SEND and WRITE LAST or ONLY, READ and atomic requests; retransmissions count again.";
        pid: Option<u64>, "", "flows[].pid", "Owning process. Null: not known.";
        comm: Text, "", "flows[].comm", "Command name of the process. Null: not known.";
        source: Shared, "", "source.kind", "Origin of the figures: `packets`.";
        message_bytes: Option<u64>, "bytes", "flows[].payload_bytes", "Payload of SEND and WRITE requests; retransmissions count again. Null: the flow has READ responses too, whose payload is counted with it.";
        nak_other_json: Text, "packets", "flows[].ack.naks", "`nak_other` by code, in JSON. Null: none, or of an older version.";
        loss_of: Text, "", "flows[].loss, flows[].loss_responses", "The flow's losses are of `requests`, `responses`, `both`. Null: as `lost`, or of an older version.";
        first: Option<Time>, "Unix ns", "flows[].first_ns", "First packet of the flow, in its first row. Null: a later row, or of an older version.";
    }

    FlowRollup = flow_rollup, "Flows of a link to one destination, summed over a longer interval (`--rollup`): about a twentieth of the rows." {
        t: Time, "Unix ns", "window.last_ns", "End of the interval.";
        interval_ns: u64, "ns", "", "Length of the interval.";
        host: Shared, "", "", "Name of the recording host.";
        job: Text, "", "", "Job of the host. Null: none is known.";
        link: Shared, "", "flows[].link", "Link that sees the flows.";
        rail: Text, "", "rails[].rails[].name", "Rail of the link, as `--rail` names it. Null: none is named.";
        direction: Option<Direction>, "", "flows[].direction", "`ingress` or `egress`. Null: from a capture.";
        dst: Address, "", "flows[].dst", "Destination address.";
        flow_rows: u64, "rows", "", "Rows of `flow_seconds` that are summed.";
        packets: u64, "packets", "flows[].packets", "As in `flow_seconds`.";
        bytes: u64, "bytes", "flows[].bytes", "As in `flow_seconds`.";
        payload_bytes: u64, "bytes", "flows[].payload_bytes", "As in `flow_seconds`.";
        ecn_capable: u64, "packets", "flows[].ce_ratio (its base)", "As in `flow_seconds`.";
        ce: u64, "packets", "flows[].ce_ratio (its numerator)", "As in `flow_seconds`.";
        cnp_packets: u64, "packets", "flows[].cnp_packets", "As in `flow_seconds`.";
        rnr_naks: u64, "packets", "flows[].ack.rnr_naks", "As in `flow_seconds`.";
        nak_sequence: u64, "packets", "flows[].ack.naks.psn_sequence_error", "As in `flow_seconds`.";
        nak_other: u64, "packets", "flows[].ack.naks", "As in `flow_seconds`.";
        lost: Option<i64>, "packets", "flows[].loss.lost + flows[].loss_responses.lost", "As in `flow_seconds`. Null: null in all rows.";
        reordered: Option<i64>, "packets", "flows[].loss.recovered + flows[].loss_responses.recovered", "As `lost`. Null: as `lost`.";
        retransmitted: Option<i64>, "packets", "flows[].loss.retransmitted + flows[].loss_responses.retransmitted", "As `lost`. Null: as `lost`.";
        timeouts: Option<i64>, "timeouts", "flows[].loss.timeouts + flows[].loss_responses.timeouts", "As `lost`. Null: as `lost`.";
        rtt_count: Option<u64>, "samples", "flows[].latency_ns.count", "As in `flow_seconds`. Null: not measured.";
        rtt_sum_ns: Option<u64>, "ns", "flows[].latency_ns", "As in `flow_seconds`. Null: no sample.";
        rtt_max_ns: Option<u64>, "ns", "flows[].latency_ns.max", "As in `flow_seconds`. Null: no sample.";
    }

    #[derive(Default)]
    LinkSecond = link_seconds, "A link in an interval in which it had RoCE packets or other frames, and at the start and once a minute without any." {
        t: Time, "Unix ns", "window.last_ns", "End of the interval.";
        interval_ns: u64, "ns", "", "Length of the interval.";
        host: Shared, "", "", "Name of the recording host.";
        job: Text, "", "", "Job of the host. Null: none is known.";
        link: Shared, "", "links[].name", "Link.";
        rail: Text, "", "rails[].rails[].name", "Rail of the link, as `--rail` names it. Null: none is named.";
        direction: Option<Direction>, "", "links[].direction", "`ingress` or `egress`. Null: from a capture.";
        speed_bps: Option<u64>, "bit/s", "", "Speed of the link. Null: not known.";
        packets: u64, "packets", "links[].packets", "RoCE packets.";
        bytes: u64, "bytes", "links[].bytes", "Length of their outer frames, without FCS.";
        ecn_capable: u64, "packets", "links[].ce_ratio (its base)", "ECN-capable RoCE packets other than CNP and ACKNOWLEDGE, CE-marked ones included.";
        ce: u64, "packets", "links[].ce_ratio (its numerator)", "CE-marked packets among `ecn_capable`.";
        cnp_packets: u64, "packets", "flows[].cnp_packets", "Congestion notification packets.";
        skipped: u64, "frames", "totals.skipped (by link)", "Frames other than RoCE.";
        flows: u64, "flows", "flows", "Flows with packets in the interval.";
        lost: Option<i64>, "packets", "flows[].loss.lost + flows[].loss_responses.lost", "Packets lost upstream of the link. Negative where a later packet corrects an earlier interval. Null: no sequence is followed.";
        reordered: Option<i64>, "packets", "flows[].loss.recovered + flows[].loss_responses.recovered", "Packets out of order that were not lost. Null: as `lost`.";
        retransmitted: Option<i64>, "packets", "flows[].loss.retransmitted + flows[].loss_responses.retransmitted", "Retransmissions of packets seen before on the link. Null: as `lost`.";
        timeouts: Option<i64>, "timeouts", "flows[].loss.timeouts + flows[].loss_responses.timeouts", "Transport timeouts seen on the link. Null: as `lost`.";
        peak_bytes: Option<u64>, "bytes", "bursts[].peak_bytes", "Bytes of the bin with the most bytes in the run, if it lies in this interval. Null: an earlier bin has more, or not known.";
        bin_ns: Option<u64>, "ns", "bursts[].bin_ns", "Length of a bin. Null: as `bursts`.";
        bursts: Option<u64>, "bursts", "bursts[].bursts", "Bursts that ended. Null: bins are not counted.";
        incast_senders: Option<u64>, "senders", "incast[].senders_max", "Most senders to one host in a bin since the start. Null: not known.";
        neighbour_system: Text, "", "links[].neighbours[]", "System name of the LLDP neighbour: the switch. Null: none was heard.";
        neighbour_port: Text, "", "links[].neighbours[]", "Port of the LLDP neighbour. Null: none was heard.";
        pause_frames: Option<u64>, "frames", "devices[].pause[].frames, links[].pause[].frames", "Pause frames that stop this direction, of all priorities: received for `egress`, sent for `ingress`; in captures of any station. Null: not counted. By priority: `device_seconds`.";
        pause_ns: Option<u64>, "ns", "devices[].pause[].paused_ns, links[].pause[].paused_ns", "Time for which they paused it, summed over priorities. Null: not counted.";
        skipped_json: Text, "frames, bytes", "totals.skipped, links[].skipped_bytes", "`skipped` by reason, in JSON: frames and their bytes. Null: none, or of an older version.";
    }

    #[derive(Default)]
    DeviceSecond = device_seconds, "A counter of an RDMA device's port that increased in an interval. Counters that did not increase have no row." {
        t: Time, "Unix ns", "devices[].last_ns", "End of the interval.";
        interval_ns: u64, "ns", "", "Length of the interval.";
        host: Shared, "", "", "Name of the recording host.";
        job: Text, "", "", "Job of the host. Null: none is known.";
        device: Shared, "", "devices[].name", "RDMA device.";
        port: Option<u64>, "", "devices[].port", "Port. Null: not of one port.";
        netdev: Text, "", "devices[].interface", "Network interface of the port. Null: not known.";
        driver: Text, "", "devices[].driver", "RDMA driver. Null: not known.";
        source: Shared, "", "devices[].source", "Source of the counter.";
        counter: Shared, "", "devices[].counters", "Name of the counter, as in the report; of pauses `pause_frames`, `pause_ns` and `pause_episodes`.";
        direction: Text, "", "devices[].pause[].direction", "`received` or `sent`, of pauses. Null: no pause.";
        priority: Option<u64>, "", "devices[].pause[].priority", "Priority of a pause, 0 to 7. Null: no pause, or of the whole link.";
        delta: u64, "as named", "devices[].counters", "Increase of the counter.";
    }

    QpSecond = qp_seconds, "A queue pair of this host in an interval in which its PSNs moved, or the NIC's own context showed retries, a standstill or no posted receive: the traffic of NICs that process RoCE in hardware. Never part of `flow_seconds`." {
        t: Time, "Unix ns", "window.last_ns", "End of the interval.";
        interval_ns: u64, "ns", "", "Time that the counts cover: since the previous reading of the source of its packets (the context, or the kernel's list), or the length of the interval where that is longer.";
        host: Shared, "", "", "Name of the recording host.";
        job: Text, "", "", "Job of the process, or of the host. Null: none is known.";
        pod: Text, "", "devices[].qps[].pod", "Pod of the process. Null: none, or not known.";
        device: Shared, "", "devices[].name", "RDMA device.";
        port: Option<u64>, "", "devices[].port", "Port. Null: not known.";
        netdev: Text, "", "devices[].interface", "Network interface of the port. Null: not known.";
        rail: Text, "", "rails[].rails[].name", "Rail of that interface, as `--rail` names it. Null: none is named.";
        lqpn: u64, "", "devices[].qps[].lqpn", "Number of the queue pair.";
        rqpn: Option<u64>, "", "devices[].qps[].rqpn", "Number of the queue pair at the other end. Null: not connected, or a datagram transport.";
        src: Option<Address>, "", "devices[].qps[].src", "Address that it sends from. Null: not known.";
        dst: Option<Address>, "", "devices[].qps[].dst", "Address of the other end. Null: not known.";
        udp_port: Option<u64>, "", "devices[].qps[].udp_port", "UDP source port of its packets. Null: not known.";
        dscp: Option<u64>, "", "devices[].qps[].dscp", "DSCP of its packets. Null: not known.";
        pid: Option<u64>, "", "devices[].qps[].pid", "Process. Null: as in the report.";
        comm: Text, "", "devices[].qps[].comm", "Command name of the process. Null: not known.";
        sent_packets: Option<u64>, "packets", "devices[].qps[].sent_packets", "PSNs taken by its requests. Null: not known, or they may have wrapped in the interval.";
        received_packets: Option<u64>, "packets", "devices[].qps[].received_packets", "PSNs of the requests that it received. Null: as `sent_packets`.";
        readings: Option<u64>, "readings", "devices[].qps[].context_readings", "Readings of its context in the interval. Null: none was ever read.";
        retrying_readings: Option<u64>, "readings", "devices[].qps[].retrying_readings", "Those that showed retries in use. Null: the context does not tell.";
        rnr_retrying_readings: Option<u64>, "readings", "devices[].qps[].rnr_retrying_readings", "Those that showed RNR retries in use. Null: the context does not tell.";
        exhausted_readings: Option<u64>, "readings", "devices[].qps[].exhausted_readings", "Those that showed a receive queue in use without a posted receive. Null: the context does not tell.";
        in_flight: Option<u64>, "packets", "devices[].qps[].in_flight", "Packets sent and not acknowledged at the latest reading. Null: as in the report.";
        stuck_ns: Option<u64>, "ns", "devices[].qps[].stuck_ns", "Time for which packets have been in flight without one being acknowledged, at the latest reading. Null: as `in_flight`.";
        retries_used: Option<u64>, "retries", "devices[].qps[].retries_used", "Retries in use at the latest reading. Null: as in the report.";
        rnr_retries_used: Option<u64>, "retries", "devices[].qps[].rnr_retries_used", "RNR retries in use at the latest reading. Null: as in the report.";
        posted_receives: Option<u64>, "work requests", "devices[].qps[].posted_receives", "Receives posted and not used at the latest reading. Null: as in the report.";
        unsent_wqes: Option<u64>, "the driver's blocks", "devices[].qps[].unsent_wqes", "Send work posted and not begun at the latest reading. Null: as in the report.";
        timeouts: Option<u64>, "timeouts", "devices[].qps[].timeouts", "Transport timeouts of the port that are attributed to it. Null: none was ever.";
        sequence_errors: Option<u64>, "NAKs", "devices[].qps[].sequence_errors", "Sequence-error NAKs of the port that are attributed to it. Null: none was ever.";
        attribution: Text, "", "devices[].qps[].attribution", "Confidence of these two. `certain`: they are its own. `likely`: each suspect has the whole count, so that a sum over queue pairs is too high. Null: none is attributed.";
        pause_stall_ns: Option<u64>, "ns", "devices[].qps[].pause_stall_ns", "Time without progress while its priority was paused at least half of the time. Null: not known.";
    }

    #[derive(Default)]
    QpLife = qp_lives, "A queue pair of this host as the kernel, its control path and the NIC show it: a row when it is first seen, and when anything but `t` changes. The latest row of a host, device, number and creation is its state." {
        t: Time, "Unix ns", "window.last_ns", "Time of the sample.";
        host: Shared, "", "", "Name of the recording host.";
        job: Text, "", "", "Job of the host. Null: none is known.";
        pod: Text, "", "devices[].qps[].pod", "Pod of the process. Null: none, or not known.";
        device: Shared, "", "devices[].name", "RDMA device.";
        port: Option<u64>, "", "devices[].port", "Port. Null: not known.";
        netdev: Text, "", "devices[].interface", "Network interface of the port. Null: not known.";
        lqpn: u64, "", "devices[].qps[].lqpn", "Number of the queue pair.";
        rqpn: Option<u64>, "", "devices[].qps[].rqpn", "Number of the queue pair at the other end. Null: not connected, or a datagram transport.";
        kind: Text, "", "devices[].qps[].kind", "Transport: `RC`, `UC`, `UD`. Null: not known.";
        origin: Text, "", "devices[].qps[].origin", "Creator: `verbs`, `kernel` or `devx`. Null: not known.";
        state: Text, "", "devices[].qps[].state", "State: `RTS`, `ERR` and so on. Null: not known.";
        pid: Option<u64>, "", "devices[].qps[].pid", "Process. Null: as in the report.";
        comm: Text, "", "devices[].qps[].comm", "Command name of the process. Null: not known.";
        created: Option<Time>, "Unix ns", "devices[].qps[].created_ns", "Creation. Null: before the run, or not seen.";
        ended: Option<Time>, "Unix ns", "devices[].qps[].ended_ns", "Destruction. Null: it exists, or its end was not seen.";
        end_reason: Text, "", "devices[].qp_events[].reason, devices[].qp_events[].event", "Reason of a queue pair in the state `ERR` or that ended: that which its driver gives, else its latest fatal event, else its latest asynchronous event or failed verb. Null: none.";
        src: Option<Address>, "", "devices[].qps[].src", "Address that it sends from. Null: not known.";
        dst: Option<Address>, "", "devices[].qps[].dst", "Address of the other end. Null: not known.";
        udp_port: Option<u64>, "", "devices[].qps[].udp_port", "UDP source port of its packets. Null: not known.";
        dscp: Option<u64>, "", "devices[].qps[].dscp", "DSCP of its packets. Null: not known.";
        path_mtu: Option<u64>, "bytes", "devices[].qps[].path_mtu", "Path MTU. Null: not known.";
        timeout_ns: Option<u64>, "ns", "devices[].qps[].timeout_ns", "Transport timeout; 0: never. Null: not known.";
        retry_cnt: Option<u64>, "retries", "devices[].qps[].retry_cnt", "Retries after a timeout or a sequence error. Null: not known.";
        rnr_retry: Option<u64>, "retries", "devices[].qps[].rnr_retry", "Retries after an RNR NAK; 7: no limit. Null: not known.";
        connected: Option<Time>, "Unix ns", "devices[].qps[].connected_ns", "First time in the state RTS. Null: as in the report, or of an older version.";
        priority: Option<u64>, "", "devices[].qps[].priority", "Priority (PCP) of its packets. Null: as in the report, or of an older version.";
        plane: Option<u64>, "", "devices[].qps[].plane", "Plane of a multi-plane port, from 1. Null: as in the report, or of an older version.";
        bond_port: Option<u64>, "", "devices[].qps[].bond_port", "Port of the bond that it sends on, from 1. Null: as in the report, or of an older version.";
        end_kind: Text, "", "devices[].qps[].end", "Its end: `destroyed`, `error`, `number_reused` or `gone`. Null: as in the report, or of an older version.";
        sources: Text, "", "devices[].qps[].sources", "Sources of these facts: `netlink`, `control_path`, `devx`, `context` and so on, joined by commas. Null: of an older version.";
        gone: Option<u64>, "", "", "1: it is no longer reported, and its end was not seen. Null: not so, or of an older version.";
    }

    #[derive(Default)]
    Event = events, "Something that happened at one packet, or to a queue pair or port on the control path. At most 1,000 of packets in an interval; `hosts.events_left_out` counts the others." {
        t: Time, "Unix ns", "devices[].qp_events[].time_ns", "Time of the event.";
        host: Shared, "", "", "Name of the recording host.";
        job: Text, "", "", "Job of the host. Null: none is known.";
        event: Shared, "", "devices[].qp_events[].event", "Of a packet: `NAK`, `GAP`, `CNP` and so on, joined by commas, in the words of the Events screen; else the asynchronous event or the verb that failed.";
        link: Text, "", "flows[].link", "Link of the packet. Null: of the control path.";
        direction: Option<Direction>, "", "flows[].direction", "Direction of the link. Null: from a capture, or of the control path.";
        device: Text, "", "devices[].name", "RDMA device. Null: of a packet.";
        lqpn: Option<u64>, "", "devices[].qp_events[].lqpn", "Queue pair of the control path. Null: of a port or a packet.";
        src: Option<Address>, "", "flows[].src", "Source address. Null: not known.";
        dst: Option<Address>, "", "flows[].dst", "Destination address. Null: not known.";
        dest_qp: Option<u64>, "", "flows[].dest_qp", "Destination queue pair of the packet. Null: of the control path.";
        bits: Option<u64>, "", "", "The events of the packet as a set of bits. Null: of the control path.";
        opcode: Option<u64>, "", "flows[].opcodes[].code", "BTH opcode. Null: of the control path.";
        psn: Option<u64>, "PSN", "", "Packet sequence number. Null: of the control path.";
        missing: Option<u64>, "PSNs", "", "PSNs skipped, of a gap. Null: no gap.";
        aeth: Option<u64>, "", "", "AETH. Null: none.";
        tos: Option<u64>, "", "", "IPv4 ToS or IPv6 traffic class. Null: of the control path.";
        src_port: Option<u64>, "", "", "UDP source port. Null: of the control path.";
        wire_len: Option<u64>, "bytes", "", "Length of the frame on the wire. Null: of the control path.";
        errno: Option<i64>, "", "devices[].qp_events[].errno", "Error number of a verb that failed. Null: no verb.";
        pid: Option<u64>, "", "devices[].qp_events[].pid", "Process of the verb or queue pair. Null: not known.";
        comm: Text, "", "devices[].qp_events[].comm", "Its command name. Null: not known.";
        reason: Text, "", "devices[].qp_events[].reason", "Reason of an `error reason`, as the driver gives it. Null: another event, or of an older version.";
        duration_ns: Option<u64>, "ns", "devices[].qp_events[].duration_ns", "Duration of a verb that failed. Null: no verb, not measured, or of an older version.";
    }

    #[derive(Default)]
    Finding = findings, "A finding of the report: a row when it is first raised, when it ends or returns, when its severity changes, and once a minute while its figures change." {
        t: Time, "Unix ns", "window.last_ns", "Time of the report.";
        host: Shared, "", "", "Name of the recording host.";
        job: Text, "", "", "Job of the host. Null: none is known.";
        id: Shared, "", "findings[].id", "Id.";
        severity: Shared, "", "findings[].severity", "`info`, `warning` or `critical`.";
        active: u64, "", "findings[].active", "1: it goes on; 0: it has ended.";
        since: Option<Time>, "Unix ns", "findings[].first_seen_ns", "Time at which it was first seen. Null: not known.";
        until: Option<Time>, "Unix ns", "findings[].last_seen_ns", "Time at which it was last seen. Null: not known.";
        title: Shared, "", "findings[].title", "Diagnosis with the figure that proves it.";
        link: Text, "", "findings[].where.link", "Link. Null: no single link.";
        direction: Option<Direction>, "", "findings[].where.direction", "Direction of the link. Null: no single link, or from a capture.";
        hop: Text, "", "findings[].where.hop", "`upstream` or `downstream` of the tap, or the two taps between which it is. Null: not known.";
        switch_port: Text, "", "findings[].where.switch_port", "Switch and port at the other end of the link. Null: no LLDP neighbour.";
        src: Option<Address>, "", "findings[].requester.addr", "Requester. Null: several, or none.";
        dst: Option<Address>, "", "findings[].responder.addr", "Responder. Null: several, or none.";
        packets_ratio: Option<f64>, "ratio", "findings[].impact.packets_ratio", "Share of the packets of the flows concerned. Null: not known.";
        time_lost_ns: Option<u64>, "ns", "findings[].impact.time_lost_ns", "Time lost because of the finding. Null: not known.";
        json: Shared, "", "findings[]", "The finding in JSON, as in the report.";
    }

    Step = steps, "A step of the job, as the traffic shows it. A step can be written again with other times, or as none: use the latest row of a start, where `length_ns` is not 0." {
        t: Time, "Unix ns", "window.last_ns", "Time of the report.";
        host: Shared, "", "", "Name of the recording host.";
        job: Text, "", "", "Job of the host. Null: none is known.";
        link: Shared, "", "steps.link", "Link on which the steps are seen.";
        direction: Option<Direction>, "", "steps.direction", "Direction of the link. Null: from a capture.";
        start: Time, "Unix ns", "steps.latest[].start_ns", "Start of the step.";
        length_ns: u64, "ns", "", "Time to the start of the next step. 0: none follows; with `active_ns` null, a step that an earlier row has is none.";
        busy_ns: u64, "ns", "steps.latest[].busy_ns", "Time with traffic.";
        silence_ns: u64, "ns", "steps.latest[].silence_ns", "Longest silence.";
        straggler: Option<Address>, "", "steps.straggler.waits_for", "Host that most steps wait for. Null: none.";
        straggler_kind: Text, "", "steps.straggler.kind", "`starts_late`, `slow_transfer`, `pauses` and so on. Null: no straggler.";
        straggler_certain: Option<u64>, "", "steps.straggler.certain", "1: the straggler is certain; 0: it may be upstream of that host. Null: no straggler.";
        behind_ns: Option<u64>, "ns", "steps.straggler.behind_ns", "Time for which a step waits for the straggler. Null: no straggler.";
        active_ns: Option<u64>, "ns", "steps.latest[].length_ns", "Time from its first packet to its last. Null: of an older version.";
        step_bytes: Option<u64>, "bytes", "steps.step_bytes", "Data of one step. Null: of an older version.";
        explained_ratio: Option<f64>, "ratio", "steps.explained_ratio", "Share of the port's data in whole steps so far. Null: of an older version.";
        straggler_json: Text, "", "steps.straggler", "The straggler as the report has it, in JSON. Null: no straggler, or of an older version.";
        gap_follows: Option<u64>, "", "", "1: data that is in no step follows, half a step or more; 0: none. Null: of an older version.";
    }

    Host = hosts, "The recording host: a row at the start, once a minute, at the end, and for every interval with lost data or a clock step. Counts cover the time since the previous row." {
        t: Time, "Unix ns", "window.last_ns", "End of the interval.";
        interval_ns: u64, "ns", "", "Time since the previous row.";
        host: Shared, "", "", "Name of the recording host.";
        job: Text, "", "", "Job of the host. Null: none is known.";
        version: Shared, "", "", "Version of rocescope.";
        kernel: Text, "", "", "Release of the kernel. Null: from a capture.";
        source: Shared, "", "source.kind", "Kind of the source: `live`, `replay`, `counters` or `mixed`.";
        inputs: Shared, "", "source.inputs", "Interfaces or captures, joined by commas.";
        devices: Text, "", "devices[].name", "RDMA devices with driver, joined by commas. Null: none.";
        packets: u64, "packets", "totals.packets", "Frames of every kind.";
        roce_packets: u64, "packets", "totals.roce_packets", "RoCE packets.";
        retired_flows: u64, "flows", "totals.retired.flows", "Flows that left the flow table.";
        flow_table_full: u64, "packets", "totals.lost.flow_table_full", "RoCE packets that found the flow table full.";
        contended: u64, "packets", "totals.lost.contended", "Packets that could not update the counters of their flow, locked by another CPU.";
        events_dropped: Option<u64>, "events", "totals.lost.events_dropped", "Events that did not reach user space. Null: not known.";
        capture_drops: Option<u64>, "packets", "totals.lost.capture_drops", "Packets that the capture says it dropped. Null: not known.";
        interface_drops: Option<u64>, "packets", "totals.lost.interface_drops", "Packets that the interfaces dropped on receipt. Null: not known.";
        unrecorded_packets: u64, "packets", "", "RoCE packets in no row of `flow_seconds`: of flows that left the table between two samples, or for which the table was full.";
        rows_lost: u64, "rows", "", "Rows that could not be written.";
        events_left_out: u64, "events", "", "Events without a row: of packets beyond 1,000 in an interval, of queue pairs and ports beyond the 4,096 that are kept between two samples.";
        clock_jump_ns: i64, "ns", "", "Step of the clock relative to the elapsed time; positive: forwards. 0: none.";
        clock_synchronised: Option<u64>, "", "", "1: a daemon of NTP or PTP has synchronised the clock, as the kernel knows; 0: none has. Null: from a capture.";
        clock_offset_ns: Option<i64>, "ns", "", "Offset that the kernel still corrects (adjtimex); positive: the clock is behind. Null: not synchronised, or from a capture.";
        clock_error_ns: Option<u64>, "ns", "", "Maximum error of the clock, as the kernel estimates it. Null: as `clock_offset_ns`.";
        started: Option<Time>, "Unix ns", "", "Time of the first sample of the run that wrote the row: what another run found before is over. Null: of an older version.";
    }
}
