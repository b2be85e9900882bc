//! Fields of one flow.

use super::{FieldMeta, fields};

/// Fields of `flows[]`.
pub const FLOW: &[FieldMeta] = fields! {
    "flows[].link", "text": "Name of the link, as in `links`.";
    "flows[].direction", "text": "`ingress` or `egress`." or null "replay";
    "flows[].src", "address": "Source: the innermost IP header, or the GRH of RoCEv1.";
    "flows[].dst", "address": "Destination.";
    "flows[].dest_qp", "number": "Destination queue pair, 24 bits. Of CNPs: the QP that is told to slow down.";
    "flows[].roce_version", "number": "1 (GRH over Ethernet) or 2 (UDP); of the first packet.";
    "flows[].src_port_count", "ports": "Different UDP source ports. 0 for RoCEv1, which has none."
        or null "some found the overflow table full";
    "flows[].src_ports[].port", "number": "A UDP source port. The 16 with most bytes are listed, most first.";
    "flows[].src_ports[].packets", "packets": "Packets from it.";
    "flows[].src_ports[].bytes", "bytes": "Their outer frames.";
    "flows[].vlan", "number": "Outermost VLAN id of the first packet; 0 is known to be untagged."
        or null "not known: XDP may not see the tag, raw IP has no link layer";
    "flows[].inner_vlan", "number": "Second VLAN id of the first packet; 0 is none." or null "not known";
    "flows[].pcp", "number": "Priority code point of the first packet." or null "untagged, or not known";
    "flows[].dscp", "number": "DSCP of the first packet." or null "RoCEv1";
    "flows[].encapsulation", "text": "Tunnels around the first packet, outermost first, joined with `+`: `vxlan`, \
        `vxlan-gpe`, `geneve`, `gre`, `erspan1`, `erspan2`, `erspan3`, `mpls`, `ipip`." or null "none";
    "flows[].mixed[]", "text": "Properties that a later packet did not share with the first: `vlan`, `inner_vlan`, \
        `pcp`, `dscp`, `encapsulation`, `roce_version`.";
    "flows[].path_mtu", "bytes": "Path MTU in use: payload of the latest SEND or WRITE, FIRST or MIDDLE packet, which carry exactly \
        that." or null "no message of several packets was seen";
    "flows[].packets", "packets": "Packets of every kind.";
    "flows[].bytes", "bytes": "Outer frames on the wire without FCS.";
    "flows[].inner_bytes", "bytes": "Of encapsulated packets: 14 + length of the inner IP packet."
        or null "no packet was encapsulated";
    "flows[].payload_bytes", "bytes": "Payload without headers, padding and ICRC.";
    "flows[].payload_unknown", "packets": "Packets whose payload length is not known: an opcode without a known \
        header chain, or lengths that contradict each other.";
    "flows[].first_ns", "Unix ns": "Earliest packet.";
    "flows[].last_ns", "Unix ns": "Latest packet.";
    "flows[].ecn.not_ect", "packets": "All packets with ECN bits 00: not ECN-capable. RoCEv1 counts in none of the four.";
    "flows[].ecn.ect1", "packets": "ECN bits 01.";
    "flows[].ecn.ect0", "packets": "ECN bits 10.";
    "flows[].ecn.ce", "packets": "ECN bits 11: congestion was experienced.";
    "flows[].ce_ratio", "ratio": "ce / (ect0 + ect1 + ce) over packets other than CNP and ACKNOWLEDGE."
        or null "none of them is ECN-capable: ECN is off, which is not 0 %";
    "flows[].ce_over_time", "object": "CE marks over time from the first mark on, in at most 64 bins that are 1.05 ms wide at \
        first; their width doubles when the flow lasts longer. Live, bins are as long as the time between two readings of the counters, or longer, \
        and the first has what passed since the reading before." or null "no packet is marked CE";
    "flows[].ce_over_time.start_ns", "Unix ns": "Start of the first bin.";
    "flows[].ce_over_time.bin_ns", "ns": "Width of a bin.";
    "flows[].ce_over_time.capable[]", "packets": "ECN-capable packets other than CNP and ACKNOWLEDGE in each bin, marked ones \
        included.";
    "flows[].ce_over_time.ce[]", "packets": "Those marked CE.";
    "flows[].cnp_packets", "packets": "Congestion notification packets in this flow: they tell its `dest_qp` to slow down.";
    "flows[].cnp", "object": "The notifications in this flow, and what they did."
        or null "there are none; live also: every event of them was dropped (`totals.lost.events_dropped`)";
    "flows[].cnp.answers", "object": "The flow of data whose sender they tell to slow down, on the same tap."
        or null "not known (`pairing`), or it does not pass here";
    "flows[].cnp.answers.link", "text": "Its link,";
    "flows[].cnp.answers.direction", "text": "direction," or null "replay";
    "flows[].cnp.answers.src", "address": "source,";
    "flows[].cnp.answers.dst", "address": "destination";
    "flows[].cnp.answers.dest_qp", "number": "and destination QP.";
    "flows[].cnp.per_second", "1/s": "CNPs per second between the first and the last." or null "fewer than two, or no time \
        between them";
    "flows[].cnp.min_interval_ns", "ns": "Least time between two CNPs of this flow: the NIC's pacing is at most this."
        or null "fewer than two; live also: events were dropped, and one in between may be among them";
    "flows[].cnp.delay_ns", "object": "Time from a CE mark in the flow that they answer to the CNP, at this tap: from the \
        first mark since the CNP before, not from the mark that brought it, so it includes the NIC's pacing, which can make up most of it. Percentiles as in `latency_ns`."
        or null "no mark passed here before a CNP; live also: the two are no pair that is timed (see `latency_ns`)";
    "flows[].cnp.delay_ns.count", "samples": "CNPs with a mark before.";
    "flows[].cnp.delay_ns.p50", "ns": "Median.";
    "flows[].cnp.delay_ns.p99", "ns": "99th percentile.";
    "flows[].cnp.delay_ns.p999", "ns": "99.9th percentile.";
    "flows[].cnp.delay_ns.max", "ns": "Longest.";
    "flows[].cnp.without_ce", "packets": "CNPs without a mark since the CNP before. Marks set behind this tap are not seen."
        or null "the flow they answer is not known; live also: not timed, or events were dropped";
    "flows[].cnp.rate_before_bps", "bits/s": "Rate of the data in the window before a CNP: the median over up to 128 CNPs, \
        without those that came before any mark and any other CNP. Outer frames of ECN-capable packets."
        or null "the flow is not known, or has too few packets, or stops after CNPs; live: the kernel programs keep no rate in fractions of a millisecond";
    "flows[].cnp.rate_after_bps", "bits/s": "The same in the window after it, without the 262 µs in which it passed."
        or null "as `rate_before_bps`";
    "flows[].cnp.rate_window_ns", "ns": "Length of the windows: 1.05 ms, or 10.5 ms for slow senders."
        or null "as `rate_before_bps`";
    "flows[].cnp.rate_samples", "CNPs": "CNPs that the two rates rest on." or null "as `rate_before_bps`";
    "flows[].opcodes[].code", "number": "BTH opcode, in rising order.";
    "flows[].opcodes[].name", "text": "Its name as in Linux' ib_pack.h without the prefix, `CNP`, `DC_OR_RD_0xNN`, \
        `UNKNOWN_0xNN`.";
    "flows[].opcodes[].packets", "packets": "Packets with it.";
    "flows[].ack.acks", "packets": "AETHs that acknowledge (ACKNOWLEDGE, READ RESPONSE, ATOMIC ACKNOWLEDGE).";
    "flows[].ack.rnr_naks", "packets": "Receiver-not-ready NAKs: no receive buffer was posted.";
    "flows[].ack.naks.psn_sequence_error", "packets": "NAK code 0: the responder missed a packet.";
    "flows[].ack.naks.invalid_request", "packets": "NAK code 1.";
    "flows[].ack.naks.remote_access_error", "packets": "NAK code 2.";
    "flows[].ack.naks.remote_operational_error", "packets": "NAK code 3.";
    "flows[].ack.naks.invalid_rd_request", "packets": "NAK code 4.";
    "flows[].ack.naks.reserved", "packets": "Other NAK codes.";
    "flows[].ack.unknown", "packets": "AETHs that were cut off or have the reserved type.";
    "flows[].last_naks_ns", "object": "When the latest NAK of each kind passed." or null "live, `--no-timing`";
    "flows[].last_naks_ns.rnr", "Unix ns": "Receiver not ready." or null "there was none; live also: not all were told (events were dropped)";
    "flows[].last_naks_ns.psn_sequence_error", "Unix ns": "NAK code 0." or null "there was none; live also: not all were told (events were dropped)";
    "flows[].last_naks_ns.invalid_request", "Unix ns": "NAK code 1." or null "there was none; live also: not all were told (events were dropped)";
    "flows[].last_naks_ns.remote_access_error", "Unix ns": "NAK code 2." or null "there was none; live also: not all were told (events were dropped)";
    "flows[].last_naks_ns.remote_operational_error", "Unix ns": "NAK code 3." or null "there was none; live also: not all were told (events were dropped)";
    "flows[].psn", "object": "Sequence of the requests." or null "no request of RC, UC or XRC was seen";
    "flows[].psn.first", "PSN": "PSN of the first request seen.";
    "flows[].psn.expected", "PSN": "PSN that the next request should have.";
    "flows[].psn.repeats", "packets": "Requests up to 65,536 PSNs behind the expected one: sent again, or late.";
    "flows[].psn.gaps", "jumps": "Jumps ahead by less than 65,536 PSNs: something was lost before this link, or comes late.";
    "flows[].psn.missing", "PSNs": "PSNs skipped by them.";
    "flows[].psn.restarts", "jumps": "Jumps too far to be either: the QP number is in use again.";
    "flows[].psn_responses", "object": "The same of READ RESPONSE and ATOMIC ACKNOWLEDGE packets."
        or null "none was seen";
    "flows[].psn_responses.first", "PSN": "PSN of the first response seen.";
    "flows[].psn_responses.expected", "PSN": "PSN that the next response should have.";
    "flows[].psn_responses.repeats", "packets": "Responses behind the expected PSN.";
    "flows[].psn_responses.gaps", "jumps": "Jumps ahead. Responses take the PSNs of their requests, so a queue pair \
        that also writes or sends jumps without any loss: `responses_missing` leaves those out.";
    "flows[].psn_responses.missing", "PSNs": "PSNs skipped by them.";
    "flows[].psn_responses.restarts", "jumps": "Jumps too far to be either.";
    "flows[].responses_missing", "PSNs": "Of `psn_responses.missing`, those that are missing for certain: what is skipped within a message of responses, \
        and one where a message has no beginning, or the one before it no end. PSNs skipped between two messages may be those of requests that an acknowledgement answers."
        or null "no response was seen";
    "flows[].loss", "object": "What was lost, reordered and sent again among the requests. Live: of flows that are \
        timed (see `latency_ns`), since they are (`loss_unfollowed`), as told by the kernel programs; IPv4 identifications are not looked at, and pauses are \
        those of all packets of the flow."
        or null "no request of RC, UC or XRC was seen; live also: the flow is not timed, or was not for a while in which packets were skipped or came again; what was told of it falls \
        short of `psn.repeats` and `psn.gaps` because events were dropped; or with `--no-timing`";
    "flows[].loss.recovered", "PSNs": "Skipped, then late in their own right: reordered on the way, not lost. Told by the IPv4 \
        identification where the sender counts it up, else by coming within `--reorder-window` and before any NAK.";
    "flows[].loss.lost", "PSNs": "Lost before this link: skipped here and sent again, also packets that were sent again and lost \
        once more. Of UC, which sends nothing again: skipped and not seen since.";
    "flows[].loss.unfilled", "PSNs": "Skipped here and never seen, though the sender did not send them again: they went \
        another way, or the capture missed them; or the loss was not repaired by the end.";
    "flows[].loss.retransmitted", "packets": "Sent again though they had passed here before.";
    "flows[].loss.mirrored", "packets": "Shown twice, by a mirror or as the network doubled it: the same PSN with the same IPv4 identification, or twice in a row \
        within 10 us.";
    "flows[].loss.rereads", "packets": "READ requests sent again: a request or responses were lost.";
    "flows[].loss.rnr_resent", "packets": "Of `retransmitted`: because the receiver was not ready.";
    "flows[].loss.timeouts", "times": "The sender went back after a pause of 1 ms or more that no NAK ended: its timer ran out.";
    "flows[].loss.stuck", "times": "At the end: how often in a row the sender began again at one PSN without getting further.";
    "flows[].loss.last_again_ns", "Unix ns": "When the latest packet of `retransmitted` or `rereads` passed." or null "there was none";
    "flows[].loss.retransmission", "text": "`go_back_n`: everything from the missing packet on is sent again; `selective_repeat`: \
        only what was missing." or null "nothing was sent again, or it cannot be told";
    "flows[].loss.before_tap.episodes", "episodes": "Times at which something was lost before this link; what is lost before \
        the last is repaired belongs to it.";
    "flows[].loss.before_tap.longest_ns", "ns": "The longest, from the skip to the last repair." or null "there was none";
    "flows[].loss.before_tap.largest", "PSNs": "Lost in the largest." or null "there was none";
    "flows[].loss.before_tap.first_ns", "Unix ns": "Start of the first." or null "there was none";
    "flows[].loss.before_tap.last_ns", "Unix ns": "End of the last." or null "there was none";
    "flows[].loss.after_tap.episodes", "episodes": "Times at which the receiver asked (NAK; of responses: a READ sent again) for what had \
        passed here: lost behind this link, or refused there as damaged or out of order. Where no answers are seen: times at which the sender went back.";
    "flows[].loss.after_tap.longest_ns", "ns": "The longest, from the first packet sent again to the last." or null "there was none";
    "flows[].loss.after_tap.largest", "packets": "Sent again in the largest." or null "there was none";
    "flows[].loss.after_tap.first_ns", "Unix ns": "Start of the first." or null "there was none";
    "flows[].loss.after_tap.last_ns", "Unix ns": "End of the last." or null "there was none";
    "flows[].loss_responses", "object": "The same of READ RESPONSE and ATOMIC ACKNOWLEDGE packets."
        or null "no response was seen, or this source does not tell (live): repeats among responses are counted, not told one by one; `responses_missing` says what is missing at first sight";
    "flows[].loss_responses.recovered", "PSNs": "Skipped, then late in their own right: reordered on the way, not lost. Told by the IPv4 \
        identification where the sender counts it up, else by coming within `--reorder-window` and before any NAK.";
    "flows[].loss_responses.lost", "PSNs": "Lost before this link: skipped here and sent again, also packets that were sent again and lost \
        once more. Of UC, which sends nothing again: skipped and not seen since.";
    "flows[].loss_responses.unfilled", "PSNs": "Skipped here and never seen, though the sender did not send them again: they went \
        another way, or the capture missed them; or the loss was not repaired by the end.";
    "flows[].loss_responses.retransmitted", "packets": "Sent again though they had passed here before.";
    "flows[].loss_responses.mirrored", "packets": "Shown twice, by a mirror or as the network doubled it: the same PSN with the same IPv4 identification, or twice in a row \
        within 10 us.";
    "flows[].loss_responses.rereads", "packets": "READ requests sent again: a request or responses were lost.";
    "flows[].loss_responses.rnr_resent", "packets": "Of `retransmitted`: because the receiver was not ready.";
    "flows[].loss_responses.timeouts", "times": "The sender went back after a pause of 1 ms or more that no NAK ended: its timer ran out.";
    "flows[].loss_responses.stuck", "times": "At the end: how often in a row the sender began again at one PSN without getting further.";
    "flows[].loss_responses.last_again_ns", "Unix ns": "When the latest packet of `retransmitted` or `rereads` passed." or null "there was none";
    "flows[].loss_responses.retransmission", "text": "`go_back_n`: everything from the missing packet on is sent again; `selective_repeat`: \
        only what was missing." or null "nothing was sent again, or it cannot be told";
    "flows[].loss_responses.before_tap.episodes", "episodes": "Times at which something was lost before this link; what is lost before \
        the last is repaired belongs to it.";
    "flows[].loss_responses.before_tap.longest_ns", "ns": "The longest, from the skip to the last repair." or null "there was none";
    "flows[].loss_responses.before_tap.largest", "PSNs": "Lost in the largest." or null "there was none";
    "flows[].loss_responses.before_tap.first_ns", "Unix ns": "Start of the first." or null "there was none";
    "flows[].loss_responses.before_tap.last_ns", "Unix ns": "End of the last." or null "there was none";
    "flows[].loss_responses.after_tap.episodes", "episodes": "Times at which the receiver asked (NAK; of responses: a READ sent again) for what had \
        passed here: lost behind this link, or refused there as damaged or out of order. Where no answers are seen: times at which the sender went back.";
    "flows[].loss_responses.after_tap.longest_ns", "ns": "The longest, from the first packet sent again to the last." or null "there was none";
    "flows[].loss_responses.after_tap.largest", "packets": "Sent again in the largest." or null "there was none";
    "flows[].loss_responses.after_tap.first_ns", "Unix ns": "Start of the first." or null "there was none";
    "flows[].loss_responses.after_tap.last_ns", "Unix ns": "End of the last." or null "there was none";
    "flows[].loss_unfollowed", "object": "What passed before requests were followed, and is not in `loss`: shares of what is lost are of the packets since. A tool that is started while a job \
        loses packets needs some milliseconds to know which flows are two directions of a connection."
        or null "they were followed from the first packet on, or nothing had been skipped or sent again until then";
    "flows[].loss_unfollowed.until_ns", "Unix ns": "Since then requests are followed.";
    "flows[].loss_unfollowed.packets", "packets": "Of `packets`.";
    "flows[].loss_unfollowed.missing", "PSNs": "Of `psn.missing`: lost or only late.";
    "flows[].loss_unfollowed.repeats", "packets": "Of `psn.repeats`.";
    "flows[].icrc", "object": "Whether packets arrive as they were sent." or null "this source does not tell (live)";
    "flows[].icrc.checked", "packets": "Packets whose invariant CRC was computed.";
    "flows[].icrc.bad", "packets": "Those in which it is wrong: damaged on the way, or rewritten in what should not change.";
    "flows[].icrc.unchecked", "packets": "Packets of which it cannot be computed: cut by the snap length, fragments.";
    "flows[].latency_ns", "object": "Time from a request to its answer, of the requests in this flow: from a request \
        that asks for an acknowledgement, or a READ, atomic or FLUSH, to the first packet that answers it here. An \
        acknowledgement answers everything up to its PSN. Needs the flow with the answers (`pairing`) on the same tap. Live: measured in the kernel, by its exact clock, for the 512 busiest flows of \
        requests whose pair is known."
        or null "no sample: there is no such request, no flow with the answers; live also: 512 busier flows are timed (`latency_untimed.untracked`), or with `--no-timing`";
    "flows[].latency_ns.count", "samples": "Answered requests it rests on.";
    "flows[].latency_ns.p50", "ns": "Median: the middle of its histogram bucket, at most 6.25 % off. So are the other \
        percentiles. All below 1.024 µs is one bucket, and all from 17.2 s on.";
    "flows[].latency_ns.p99", "ns": "99th percentile.";
    "flows[].latency_ns.p999", "ns": "99.9th percentile.";
    "flows[].latency_ns.max", "ns": "Longest; exact to 16 ns.";
    "flows[].latency_by_class", "object": "The same by class of request." or null "`latency_ns` is null";
    "flows[].latency_by_class.write_send", "object": "SEND, WRITE, FLUSH and ATOMIC WRITE." or null "there is no sample";
    "flows[].latency_by_class.write_send.count", "samples": "As `latency_ns.count`.";
    "flows[].latency_by_class.write_send.p50", "ns": "Median.";
    "flows[].latency_by_class.write_send.p99", "ns": "99th percentile.";
    "flows[].latency_by_class.write_send.p999", "ns": "99.9th percentile.";
    "flows[].latency_by_class.write_send.max", "ns": "Longest.";
    "flows[].latency_by_class.read", "object": "RDMA READ: to its first response." or null "there is no sample";
    "flows[].latency_by_class.read.count", "samples": "As `latency_ns.count`.";
    "flows[].latency_by_class.read.p50", "ns": "Median.";
    "flows[].latency_by_class.read.p99", "ns": "99th percentile.";
    "flows[].latency_by_class.read.p999", "ns": "99.9th percentile.";
    "flows[].latency_by_class.read.max", "ns": "Longest.";
    "flows[].latency_by_class.atomic", "object": "COMPARE SWAP and FETCH ADD." or null "there is no sample";
    "flows[].latency_by_class.atomic.count", "samples": "As `latency_ns.count`.";
    "flows[].latency_by_class.atomic.p50", "ns": "Median.";
    "flows[].latency_by_class.atomic.p99", "ns": "99th percentile.";
    "flows[].latency_by_class.atomic.p999", "ns": "99.9th percentile.";
    "flows[].latency_by_class.atomic.max", "ns": "Longest.";
    "flows[].latency_unpaired", "requests": "Requests that passed while the flow with the answers was not known: \
        pairs are never applied backwards. Live, a pair is known some milliseconds after the packet that shows it." or null "the flow has no request to be timed, \
        or (live) with `--no-timing`";
    "flows[].latency_untimed", "object": "Other requests without a sample."
        or null "the flow has no request to be timed, or (live) with `--no-timing`";
    "flows[].latency_untimed.ambiguous", "requests": "Sent again before an answer came, which could then be to either; or \
        left behind by a restart, or their own response went missing.";
    "flows[].latency_untimed.ring_full", "requests": "More than 64 were waiting for their answer.";
    "flows[].latency_untimed.untracked", "requests": "65,536 other flows were being timed, 512 in live.";
    "flows[].latency_untimed.outstanding", "requests": "Not answered so far.";
    "flows[].pause_stall_ns", "ns": "Time in which the flow was silent for 1 ms or more and its priority was paused for half of that \
        or more, by MAC control frames of others on the link. The priority is that of the tag, without one DSCP / 8."
        or null "live, there is no pause frame on the link, or `--link-speed` is not given";
    "flows[].peer_qp", "number": "Queue pair at the sending end: the one that answers to this flow go to."
        or null "not known, or datagrams or connections came from several";
    "flows[].pairing", "object": "What `peer_qp` rests on." or null "`peer_qp` is null";
    "flows[].pairing.how", "text": "`device`: the device says so of its own queue pair (live, RDMA netlink). `cm`: \
        connection management named both ends. `datagram`: the datagram header names \
        the sender. `port_rule`: the UDP source port is what a driver computes from the queue pair numbers. `port_is_qp`: \
        it is the sender's queue pair number. `shared_port`: just one flow each way uses this port. `psn`: just one flow of \
        requests waited for the PSNs of the answers, eight times (replay: it takes every packet).";
    "flows[].pairing.confidence", "text": "`certain` (device, cm, datagram), `strong` (port_rule, port_is_qp, and shared_port once \
        acknowledgements fit the requests' PSNs, in replay) or `likely`.";
    "flows[].pid", "number": "Process on this host that made the queue pair the flow goes to (ingress) or comes from (egress)."
        or null "not live, no RDMA device, made by the kernel, or two queue pairs fit";
    "flows[].comm", "text": "Its name, or that of the kernel module." or null "not known";
    "flows[].pod", "text": "The Kubernetes pod by name or id, else the container, else the Slurm job that it runs in."
        or null "not known, or the host itself";
};
