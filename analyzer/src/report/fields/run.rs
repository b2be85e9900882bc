//! Fields about the whole run.

use super::{FieldMeta, fields};

/// Fields outside `flows`.
pub const RUN: &[FieldMeta] = fields! {
    "schema", "text": "Name and version of the schema: `rocescope.report/1`.";
    "source.kind", "text": "Where the figures come from: `replay` (a capture), `live` (programs in the kernel), \
        `counters` (of devices, where no RoCE packet can pass the interfaces), `mixed` (packets, and counters of devices).";
    "source.inputs[]", "text": "Interfaces, or capture files as given.";
    "source.filter", "text": "The expression of `--filter`: RoCE that does not match is counted in `totals.packets` and `totals.skipped.filtered` alone."
        or null "everything is counted";
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
    "totals.ce_ratio", "ratio": "As `flows[].ce_ratio`, over all flows and retired flows."
        or null "no data packet is ECN-capable";
    "totals.skipped.<reason>", "packets": "Frames that are not counted as RoCE, by reason (see below).";
    "totals.lost.flow_table_full", "packets": "RoCE packets that found the flow table full: in the totals and in \
        their link, but in no flow.";
    "totals.lost.events_dropped", "events": "Events that found the ring buffer full."
        or null "there is no ring buffer (replay)";
    "totals.lost.bins_dropped", "packets": "Packets that are in their flows but not in `bursts`, `incast`, `steps` and `pattern.matrix`: what their \
        flow told of a bin found the ring buffer full." or null "nothing of that kind can get lost (replay), or it is not collected";
    "totals.lost.capture_drops", "packets": "Packets that the capture says it dropped."
        or null "the capture does not say, or there is none";
    "totals.lost.interface_drops", "packets": "Packets that the interfaces dropped on receipt during the run."
        or null "not known (replay)";
    "totals.lost.extra_table_full", "packets": "Packets counted in their flow whose source port or opcode found the \
        overflow table full: they are missing from `src_ports` and `opcodes`.";
    "totals.lost.contended", "packets": "RoCE packets of live runs that waited half a second or so for their flow's \
        counters, which another processor kept: in the totals and in their link, but in no flow. A processor keeps them \
        for nanoseconds unless it is taken away meanwhile, as that of a virtual machine may be: expect 0.";
    "totals.lost.ecn_untracked", "packets": "Packets left out of `ce_over_time` and `cnp`, because 16,384 other flows had \
        some.";
    "totals.lost.pause_untracked", "frames": "Pause frames left out of `links[].pause`: more than 256 stations sent some."
        or null "not collected (live)";
    "totals.retired.flows", "flows": "Flows that were closed during the run, idle for long or to make room. What they had \
        counted is in the totals and links.";
    "totals.retired.packets", "packets": "Packets of retired flows.";
    "totals.retired.bytes", "bytes": "Bytes of retired flows.";
    "totals.counted_again.taps", "links": "Links that count the same packets, at most: the totals add up what each of them saw. 1: each packet is \
        counted once. Told by queue pairs that links have in common, whose PSNs neither misses for the most part.";
    "totals.counted_again.roce_packets", "packets": "Of `roce_packets`, those that a link with more of the same queue pair counts too: take them away, and \
        each packet is counted once." or null "flows have retired of which another interface or capture may have counted the same packets";
    "totals.counted_again.roce_bytes", "bytes": "Their outer frames." or null "as above";
    "totals.counted_again.cnp_packets", "packets": "Of these, CNPs." or null "as above";
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
    "links[].mtu", "bytes": "MTU of the interface." or null "replay";
    "links[].skipped_bytes", "bytes": "Frames that are not counted as RoCE.";
    "links[].dscp[]", "object": "RoCEv2 packets by the DSCP of the (inner) IP header; only those seen."
        or null "some are not known: the overflow table was full, or flows that --filter leaves out have retired";
    "links[].dscp[].dscp", "0–63": "A DSCP.";
    "links[].dscp[].data_packets", "packets": "Packets other than CNP and ACKNOWLEDGE with it.";
    "links[].dscp[].data_bytes", "bytes": "Their outer frames.";
    "links[].dscp[].ack_packets", "packets": "ACKNOWLEDGE packets with it.";
    "links[].dscp[].cnp_packets", "packets": "Congestion notification packets with it.";
    "links[].ecn_over_time", "object": "Marks and notifications over time, in at most 128 bins that are 1.05 ms wide at \
        first; their width doubles when time runs out of them. Live, bins are as long as the time between two readings of the counters, or longer."
        or null "neither a mark nor a CNP passed";
    "links[].ecn_over_time.start_ns", "Unix ns": "Start of the first bin.";
    "links[].ecn_over_time.bin_ns", "ns": "Width of a bin.";
    "links[].ecn_over_time.capable[]", "packets": "ECN-capable packets other than CNP and ACKNOWLEDGE in each bin, marked \
        ones included.";
    "links[].ecn_over_time.ce[]", "packets": "Those marked CE.";
    "links[].ecn_over_time.cnp[]", "packets": "CNPs.";
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
    "imbalance[].over_time", "object": "The same in windows of time; those with less than a tenth of the mean window's bytes are left out. Links \
        of a replay are comparable in time only if the clocks of their captures agree." or null "bins are not counted, or there was no traffic";
    "imbalance[].over_time.window_ns", "ns": "Length of a window: about 100 ms, longer in long runs.";
    "imbalance[].over_time.windows", "windows": "How many count.";
    "imbalance[].over_time.max_over_mean_p50", "ratio": "Median of max/mean over the windows. Well above the whole run's: links take turns.";
    "imbalance[].over_time.max_over_mean_max", "ratio": "The worst window's.";
    "imbalance[].over_time.worst_ns", "Unix ns": "When that window began.";
    "imbalance[].same_path", "bool": "Some of these links see the same packets (two ends of a cable, both sides of a router): how \
        much each carries says nothing about balance. Those that are parallel follow as a comparison of their own, when there are two.";
    "rails[].direction", "text": "`ingress` or `egress`; only with `--rail`." or null "replay";
    "rails[].rails[].name", "text": "A rail, as `--rail` names it.";
    "rails[].rails[].links[]", "text": "Its links.";
    "rails[].rails[].bytes", "bytes": "Bytes of outer RoCE frames on them.";
    "rails[].max_over_mean", "ratio": "As `imbalance[].max_over_mean`, over rails." or null "all are idle";
    "rails[].jain", "ratio": "As `imbalance[].jain`, over rails." or null "all are idle";
    "ecmp", "object": "What hashing 5-tuples over equal uplinks would make of these flows: a model, for the hash and the seed of \
        a real switch are not known." or null "`--ecmp` was not given";
    "ecmp.uplinks", "links": "Equal uplinks, from `--ecmp`.";
    "ecmp.seeds", "number": "Hash seeds that were tried.";
    "ecmp.sets[].of", "text": "Flows that compete for the uplinks: those of a direction; in a capture taken at one host what \
        it sent, and what was sent to it; else all.";
    "ecmp.sets[].direction", "text": "`ingress` or `egress`." or null "replay";
    "ecmp.sets[].five_tuples", "tuples": "Different 5-tuples among them.";
    "ecmp.sets[].bytes", "bytes": "Their bytes, each 5-tuple on the link that saw most of it.";
    "ecmp.sets[].heavy", "tuples": "The fewest 5-tuples that carry four fifths of the bytes.";
    "ecmp.sets[].expected_collisions", "tuples": "How many heavy 5-tuples land, on average over hash functions, on an \
        uplink that has one already: h − N·(1 − (1 − 1/N)^h).";
    "ecmp.sets[].cases[].case", "text": "`as_seen`; `port_per_qp`: each queue pair with a source port of its own; `qps_2`, `qps_4`, \
        `qps_8`: every 5-tuple split evenly over so many queue pairs with ports of their own.";
    "ecmp.sets[].cases[].five_tuples", "tuples": "5-tuples in this case.";
    "ecmp.sets[].cases[].max_over_mean_p50", "ratio": "Bytes of the busiest uplink over the mean, median over the seeds.";
    "ecmp.sets[].cases[].max_over_mean_p95", "ratio": "The same, 95th percentile: one fabric in twenty is worse.";
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
    "taps[].copies_at[]", "packets": "Packets that the first, and the second link saw once more: the same PSN with the same IPv4 identification, as a mirror shows them or a network doubles them. They \
        are in none of the counts above.";
    "taps[].not_compared[]", "packets": "Packets of the flow at each of the two that are in none of these: before the first or behind the last packet \
        that both saw, CNPs that no IPv4 identification tells apart, and what found no room. With `packets_matched`, `only_at` and `copies_at` they make up `flows[].packets`."
        or null "the flow was closed meanwhile";
    "taps[].delay_change_ns.min", "ns": "One-way delay from the first link to the second, as change against the least at the start \
        (the clocks' difference is not known): the smallest.";
    "taps[].delay_change_ns.max", "ns": "The largest change.";
    "taps[].delay_change_ns.drift", "ns": "Change of the least delay from the first point to the last: the clocks drift, or the way \
        has become longer.";
    "taps[].delay_change_ns.points[].time_ns", "Unix ns": "Start of a span of time, by the clock of the link that saw the flow first; 32 spans at most.";
    "taps[].delay_change_ns.points[].change_ns", "ns": "Change of the least delay in it.";
    "links[].pause", "list": "Pauses that stations on the link asked for, from the MAC control frames of a capture (NICs and most mirrors \
        keep these frames to themselves: none seen says nothing)." or null "live: see `devices[].pause`";
    "links[].pause[].priority", "0–7": "Priority, of PFC." or null "the whole link was paused (IEEE 802.3x)";
    "links[].pause[].direction", "text": "Always null here: `from` says who asked." or null "always";
    "links[].pause[].from", "text": "Hardware address of the station that asked its neighbour to stop." or null "never here";
    "links[].pause[].frames", "frames": "Frames that stopped it (quanta above 0)." or null "never here";
    "links[].pause[].resumes", "frames": "Frames that ended the pause at once (quanta 0)." or null "never here";
    "links[].pause[].quanta", "quanta": "Sum of the quanta that these frames asked for, of 512 bits each: how long that is depends on the link's speed." or null "never here";
    "links[].pause[].paused_ns", "ns": "Time paused: from each frame to the next of its priority, or until its quanta are over at \
        `--link-speed`." or null "`--link-speed` is not given";
    "links[].pause[].episodes", "number": "Pauses: frames that came while it was running." or null "likewise";
    "links[].pause[].worst_share", "ratio": "Largest share of a window of 100 ms that was paused." or null "likewise";
    "links[].pause[].least_share", "ratio": "The same at the fastest Ethernet there is (1.6 Tb/s): what the share is at least." or null "`worst_share` is known";
    "links[].pause[].most_share", "ratio": "Always null here." or null "always";
    "links[].pause[].worst_frames_per_s", "frames/s": "Always null here." or null "always";
    "links[].pause[].longest_ns", "ns": "Longest pause, its renewals included." or null "`--link-speed` is not given";
    "links[].neighbours[]", "object": "What LLDP frames on the link said, of each neighbour the latest.";
    "links[].neighbours[].system", "text": "Its name." or null "it did not say";
    "links[].neighbours[].chassis", "text": "Its chassis: an address or a name." or null "it did not say";
    "links[].neighbours[].port", "text": "Its port." or null "it did not say";
    "links[].neighbours[].port_description", "text": "What the port is called." or null "it did not say";
    "links[].neighbours[].dialect", "text": "Which DCBX: `IEEE` or `CEE`." or null "it said nothing of lossless Ethernet";
    "links[].neighbours[].pfc", "object": "Priority flow control as advertised." or null "not advertised";
    "links[].neighbours[].pfc.enabled", "bits": "Bit p: priority p is lossless.";
    "links[].neighbours[].pfc.capable", "number": "Classes that can be lossless at a time.";
    "links[].neighbours[].pfc.willing", "bool": "It takes the other side's settings.";
    "links[].neighbours[].pfc.error", "bool": "It says that the two sides do not match (CEE).";
    "links[].neighbours[].ets", "object": "Traffic classes as advertised." or null "not advertised";
    "links[].neighbours[].ets.class_of[]", "number": "Traffic class of each priority.";
    "links[].neighbours[].ets.bandwidth[]", "%": "Share of each class.";
    "links[].neighbours[].ets.willing", "bool": "It takes the other side's settings.";
    "links[].neighbours[].apps[].selector", "number": "1 ethertype, 2 TCP port, 3 UDP port, 4 either port, 5 DSCP.";
    "links[].neighbours[].apps[].protocol", "number": "Ethertype, port or DSCP.";
    "links[].neighbours[].apps[].priorities", "bits": "Bit p: it has priority p.";
    "devices[].name", "text": "RDMA device that counted by itself (live). An entry for each port and source; never added to totals or flows.";
    "devices[].port", "number": "Port of the device." or null "the counters are not of one port";
    "devices[].source", "text": "Where the counters were read: `sysfs counters`, `sysfs hw_counters`, `RDMA netlink`, `ethtool`, `DCB netlink` \
        (pauses of drivers without statistics of their own).";
    "devices[].driver", "text": "RDMA driver: `mlx5_ib`, `bnxt_re`, `irdma`, `rxe` …" or null "not known";
    "devices[].interface", "text": "Network interface of the port." or null "not known";
    "devices[].members", "list": "Interfaces that a bond makes one of: their Ethernet counters are summed. Empty where the port has its interface to itself.";
    "devices[].gone", "bool": "The device disappeared during the run: what it counted until then stays.";
    "devices[].first_ns", "Unix ns": "First reading of its counters." or null "there was none yet";
    "devices[].last_ns", "Unix ns": "Last reading of its counters." or null "there was none yet";
    "devices[].counters.<name>", "as named": "What a counter added since the first reading. Under one name whatever the driver: `tx_packets`, \
        `rx_packets`, `tx_bytes`, `rx_bytes` (of RoCE), `ce_marked_packets`, `cnps_sent`, `cnps_handled`, `cnps_ignored`, `out_of_sequence`, \
        `psn_error_naks`, `implied_psn_errors`, `duplicate_requests`, `local_ack_timeouts`, `rnr_naks_received`, `rnr_naks_sent`, `out_of_buffer`, \
        `retransmissions`, `retries_exceeded`, `rnr_retries_exceeded`, `slow_restarts`, `rx_discards`, `icrc_errors`, `port_discards`, `tx_discards`, \
        `fec_corrected`, `fec_uncorrectable`, `link_downs`, `pcie_read_stalls`, `pcie_write_stalls`, `global_pause_received`, `global_pause_sent`, \
        `pause_storms`; other counters under the name their driver gives them. 32-bit counters that wrap are counted over; one that is not \
        listed is not known.";
    "devices[].resets", "number": "Times that counters of this entry went back (a driver loaded again, a reset by hand): what they had counted since \
        the reading before is lost.";
    "devices[].pause[]", "object": "Pauses by priority and direction, as the driver or DCB counts them.";
    "devices[].pause[].priority", "0–7": "Priority." or null "the whole link";
    "devices[].pause[].direction", "text": "`received`: the neighbour told this port to stop. `sent`: this port told the neighbour." or null "never here";
    "devices[].pause[].from", "text": "Always null here." or null "always";
    "devices[].pause[].frames", "frames": "Pause frames." or null "the driver does not count them";
    "devices[].pause[].resumes", "frames": "Always null here: drivers do not tell them apart." or null "always";
    "devices[].pause[].quanta", "quanta": "Always null here: drivers count none." or null "always";
    "devices[].pause[].paused_ns", "ns": "Time spent paused." or null "the driver does not count it";
    "devices[].pause[].episodes", "number": "Changes from running to paused." or null "the driver does not count them";
    "devices[].pause[].worst_share", "ratio": "Largest share of the time between two readings that was paused."
        or null "the driver does not count time, or there were not two readings";
    "devices[].pause[].least_share", "ratio": "Always null here." or null "always";
    "devices[].pause[].most_share", "ratio": "Largest share of the time between two readings that its frames can have paused at most: each for 65,535 quanta of 512 bits at the \
        link's speed."
        or null "time is counted (`worst_share`), or frames are not, or the speed is not known";
    "devices[].pause[].worst_frames_per_s", "frames/s": "Most pause frames a second between two readings."
        or null "the driver does not count them, or there were not two readings";
    "devices[].pause[].longest_ns", "ns": "Longest stretch of readings between which it was paused 95 % of the time or more."
        or null "the driver does not count time";
    "devices[].qps[].lqpn", "number": "A queue pair of the port, from RDMA netlink: its number. The 4,096 busiest, by number.";
    "devices[].qps[].rqpn", "number": "The number at the other end." or null "not connected, or a datagram transport";
    "devices[].qps[].kind", "text": "Transport: `RC`, `UC`, `UD` …" or null "not known";
    "devices[].qps[].state", "text": "State: `RTS`, `ERR` …" or null "not known";
    "devices[].qps[].pid", "number": "Process that made it." or null "the kernel made it, or another PID namespace";
    "devices[].qps[].comm", "text": "Its command, or the kernel module." or null "not known";
    "devices[].qps[].pod", "text": "Its pod or container." or null "it is in none, or that cannot be read";
    "devices[].qps[].sq_psn", "PSN": "PSN sent next." or null "the kernel does not tell";
    "devices[].qps[].rq_psn", "PSN": "PSN expected next." or null "the kernel does not tell, or a datagram transport";
    "devices[].qps[].sent_packets", "packets": "PSNs that its requests took since it was first seen; those of a READ are of the responses it asks for."
        or null "no PSN of the device ever moved (some drivers tell those of the connection's start), or so much passed the port that PSNs may have gone all the way round between two readings, or what passed is not known";
    "devices[].qps[].received_packets", "packets": "PSNs of requests that it took in." or null "as `sent_packets`";
    "devices[].qps[].pause_stall_ns", "ns": "Time in which it stood still although ready and busy before, while its priority was paused half of the time or more."
        or null "its PSNs do not tell";
    "devices[].qp_counters[].lqpns[]", "number": "Queue pairs that the device counts together (`rdma statistic qp`); one alone when they are bound one by one.";
    "devices[].qp_counters[].counters.<name>", "as named": "What their counters added since they were first read; names as in `devices[].counters`.";
    "devices[].qps_left_out", "queue pairs": "Queue pairs of the port that are not listed.";
    "coverage[].device", "text": "How much of what a port carried rocescope saw (live): the RDMA device,";
    "coverage[].port", "number": "its port,";
    "coverage[].link", "text": "its interface, or the watched members of its bond";
    "coverage[].direction", "text": "and the direction, `ingress` or `egress`.";
    "coverage[].seen_packets", "packets": "RoCE packets seen on the link: `links[].packets`.";
    "coverage[].counted_packets", "packets": "RoCE packets that the NIC says it carried meanwhile: `rx_packets` or `tx_packets` of `devices[].counters`."
        or null "no counter of the device tells RoCE packets";
    "coverage[].source", "text": "Where that was read." or null "as `counted_packets`";
    "coverage[].ratio", "ratio": "Seen over counted. The two are read at slightly different times, so that it may be a little above 1."
        or null "nothing was counted, or it is not known";
    "coverage[].why", "text": "Why the ratio is below 0.99." or null "it is not";
    "findings[].id", "text": "Stable name of the rule that found it.";
    "findings[].severity", "text": "`info`, `warning` or `critical`.";
    "findings[].title", "text": "What is wrong, in a sentence.";
    "findings[].evidence.<name>", "as named": "The figures it rests on." or null "that figure is not known";
    "findings[].flows[].link", "text": "A flow it is about: its link,";
    "findings[].flows[].direction", "text": "direction," or null "replay";
    "findings[].flows[].src", "address": "source,";
    "findings[].flows[].dst", "address": "destination";
    "findings[].flows[].dest_qp", "number": "and destination QP.";
    "findings[].advice", "text": "What to do.";
    "findings[].last_seen_ns", "Unix ns": "It cannot have shown later: the end of the last loss, NAK, packet sent again or time bin with a mark, or of the last step of a stretch; else the last packet of \
        the flows that it is about. The text and the screen say `until` where that is 10 s or more before the end of the data; such findings come behind \
        those that go on, before those of severity `info`." or null "not known, or it lasts by its nature (a silence, a setting)";
    "findings[].active", "boolean": "Whether it goes on: it was seen less than 10 s before the end of the data, or lasts by its nature.";
    "findings[].first_seen_ns", "Unix ns": "When it was seen first." or null "not known";
    "findings[].episodes[].first_ns", "Unix ns": "Begin of a time during which it showed; 10 s without it end an episode.";
    "findings[].episodes[].last_ns", "Unix ns": "End of that time.";
    "findings[].episodes[].peak", "as the title": "Largest value of the finding's own measure in it." or null "not known";
    "findings[].impact.packets_ratio", "ratio": "Share of the packets of the flows concerned, in the latest episode." or null "not known";
    "findings[].impact.retransmissions", "packets": "Packets retransmitted because of it." or null "not known";
    "findings[].impact.goodput_lost_bytes", "bytes": "Payload lost or sent more than once because of it." or null "not known";
    "findings[].impact.time_lost_ns", "ns": "Time that senders waited because of it, summed over queue pairs." or null "not known";
    "findings[].where.tap", "text": "The tap: an interface or a capture." or null "it is about no single tap";
    "findings[].where.link", "text": "The link." or null "it is about no single link";
    "findings[].where.direction", "text": "`ingress` or `egress`." or null "replay, or no single link";
    "findings[].where.hop", "text": "`upstream`, `downstream`, or the two taps that it is between." or null "not known";
    "findings[].where.switch_port", "text": "Switch and port at the other end of the link." or null "no LLDP names it";
    "findings[].requester", "object": "The end that sends the requests." or null "not known, or it is about no queue pair";
    "findings[].requester.addr", "address": "Its address,";
    "findings[].requester.qpn", "number": "queue pair," or null "not known, or several";
    "findings[].requester.pid", "number": "process," or null "not on this host, or not known";
    "findings[].requester.comm", "text": "command" or null "as `pid`";
    "findings[].requester.pod", "text": "and pod." or null "as `pid`, or in none";
    "findings[].responder", "object": "The end that answers them." or null "as `requester`";
    "findings[].responder.addr", "address": "Its address,";
    "findings[].responder.qpn", "number": "queue pair," or null "not known, or several";
    "findings[].responder.pid", "number": "process," or null "not on this host, or not known";
    "findings[].responder.comm", "text": "command" or null "as `pid`";
    "findings[].responder.pod", "text": "and pod." or null "as `pid`, or in none";
    "findings[].causes[]", "text": "Ids of findings that cause this one.";
    "findings[].effects[]", "text": "Ids of findings that this one causes.";
    "findings[].steps[].text", "text": "One action.";
    "findings[].steps[].command", "text": "The command for it on this host." or null "none, or parts of it are not known";
    "findings[].caveats[]", "text": "When it may be wrong, and what it does not see.";
    "unjudged[].id", "text": "A kind of finding that this run could not come to: that it is not among the findings says nothing.";
    "unjudged[].needs", "text": "What it rests on: `exact_times` (live, `--no-timing` is without), `packets_of_taps` and `whole_frames` (only a replay \
        has them), `link_speed` (a capture with pause frames, without `--link-speed`), `whole_sequences` (live: some queue pairs that lost packets could not be followed, or not without a break, their `flows[].loss` is null; findings of that kind leave these out, and count them as `flows_unjudged`).";
};
