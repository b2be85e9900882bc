//! Fields about traffic in time and by hosts.

use super::{FieldMeta, fields};

/// Fields of `bursts`, `incast`, `steps` and `pattern`.
pub const TRAFFIC: &[FieldMeta] = fields! {
    "links[].frame_sizes[].up_to_bytes", "bytes": "RoCE frames by length on the wire without FCS: the upper end of a bucket. The \
        ends are those of RMON's etherStats less the FCS, and beyond them 2,043, 4,091 and 9,014."
        or null "the last bucket, which has none";
    "links[].frame_sizes[].frames", "packets": "Frames in it.";
    "bursts[].link", "text": "RoCE traffic of a link in bins of equal length: its name. In a replay a link is a capture and has \
        no direction: both directions that it holds count together.";
    "bursts[].direction", "text": "`ingress` or `egress`." or null "replay";
    "bursts[].bin_ns", "ns": "Length of a bin (`--bin`).";
    "bursts[].bins", "bins": "From the first bin with traffic to the last, those without included.";
    "bursts[].active_bins", "bins": "Bins with traffic.";
    "bursts[].duty_cycle", "ratio": "active_bins / bins.";
    "bursts[].mean_bytes", "bytes": "Mean over all bins.";
    "bursts[].peak_bytes", "bytes": "In the bin with most.";
    "bursts[].peak_packets", "packets": "In that bin.";
    "bursts[].peak_ce_packets", "packets": "Of these, marked CE.";
    "bursts[].peak_cnp_packets", "packets": "Of these, CNPs.";
    "bursts[].peak_ns", "Unix ns": "When it began.";
    "bursts[].peak_to_mean", "ratio": "peak_bytes / mean_bytes: 1 is a steady stream.";
    "bursts[].threshold_bytes", "bytes": "A burst is a run of bins with at least this many bytes each: the largest power of two that is no \
        more than half of the peak.";
    "bursts[].bursts", "bursts": "How many there were.";
    "bursts[].burst_ratio", "ratio": "Share of all bins that lie in bursts.";
    "bursts[].length_p50_ns", "ns": "Median length of a burst. Percentiles are at most 25 % too high, exact up to 4 bins.";
    "bursts[].length_p99_ns", "ns": "99th percentile.";
    "bursts[].length_max_ns", "ns": "Longest, exactly.";
    "bursts[].late_packets", "packets": "Packets that came more than 8 bins late, live more than 5 ms: in the mean and in no bin.";
    "bursts[].lost_packets", "packets": "Packets of the link that are in no bin, because the ring buffer of bins was full. The sum over links is \
        `totals.lost.bins_dropped`.";
    "incast[].link", "text": "Data to one host, by the number of hosts that send it at once. Acknowledgements and CNPs do not count. The 256 \
        receivers with most senders are listed.";
    "incast[].direction", "text": "Of the link." or null "replay";
    "incast[].dst", "address": "Who receives.";
    "incast[].bin_ns", "ns": "At once means: in one bin of this length.";
    "incast[].senders", "hosts": "Hosts that sent data to it over the whole run.";
    "incast[].senders_max", "hosts": "Most of them in one bin; 64 stands for 64 and more.";
    "incast[].senders_p99", "hosts": "In 99 % of the bins with data no more than this.";
    "incast[].bins", "bins": "Bins with data.";
    "incast[].several_ratio", "ratio": "Share of the bytes that came in bins with two senders or more.";
    "incast[].peak_bytes", "bytes": "In the fullest bin.";
    "incast[].peak_senders", "hosts": "Senders in that bin.";
    "steps", "object": "Steps of a job." or null "no traffic is plainly that of a job that takes steps (see `steps.link`), or a thousandth of all packets are in no bin (`totals.lost.bins_dropped`)";
    "steps.link", "text": "Steps of a job: the same volume of data again and again, at least 8 times, each pair of hosts with about \
        the same share; sent and received by some host; by several flows at a time; with even silences of more than 2 ms between. What lacks one of these is no job and has no \
        steps. These are of the port with most steps, its two directions together; the straggler is looked for on all ports. The latest 8,192 blocks of \
        data and at least 262,144 flowlets count.";
    "steps.direction", "text": "Of the port, where only one direction is observed." or null "replay, and both directions";
    "steps.count", "steps": "Whole steps seen, at least 8.";
    "steps.first_ns", "Unix ns": "Start of the first of these.";
    "steps.last_ns", "Unix ns": "End of the last.";
    "steps.period_ns", "ns": "Median time from the start of a step to the start of the next.";
    "steps.step_bytes", "bytes": "What a step sends on this port, repeats excepted, to 5 %.";
    "steps.explained_ratio", "ratio": "Share of the port's data in whole steps; from the first of them to the last at least 0.95.";
    "steps.autocorrelation_period_ns", "ns": "Period of the bytes per bin of the port's busiest direction by autocorrelation: the peak near \
        `period_ns`, another way to the same figure, which knows nothing of volumes." or null "no lag near it correlates by 0.3 or more: the steps' lengths differ";
    "steps.autocorrelation", "ratio": "Correlation at that period: 1 is a perfect rhythm." or null "no period";
    "steps.first_third_ns", "ns": "Median of the periods in the first third of the steps.";
    "steps.first_third_p75_ns", "ns": "Three of four of these are no longer.";
    "steps.last_third_ns", "ns": "Median in the last third.";
    "steps.last_third_p25_ns", "ns": "Three of four of these are longer, or as long.";
    "steps.trend_ns_per_step", "ns": "Slope of the straight line through the periods: by how much each is longer than the one before.";
    "steps.busy_ratio", "ratio": "Share of the time in which data passed the port (silences up to 2 ms included): what a faster port could \
        win of the job's time, at most. `steps.latest[].busy_ratio` has it step by step.";
    "steps.communication_ratio", "ratio": "Share of the time from the first to the last packet of a step, waiting for other hosts included: \
        what a network of any speed could win of the job's time, at most. What is left is computing alone.";
    "steps.silence_ns", "ns": "Median of the longest silence within a step.";
    "steps.latest[].start_ns", "Unix ns": "The latest 64 steps: first packet of data.";
    "steps.latest[].length_ns", "ns": "From there to its last packet.";
    "steps.latest[].busy_ns", "ns": "Time with data in it.";
    "steps.latest[].busy_ratio", "ratio": "Share of the time to the start of the next step: how much of this step the network was busy." or null "the last step";
    "steps.latest[].silence_ns", "ns": "Its longest silence.";
    "steps.last_flow.src", "address": "The flow that most often finishes a step last: who sends,";
    "steps.last_flow.dst", "address": "to whom,";
    "steps.last_flow.dest_qp", "number": "on which queue pair.";
    "steps.last_flow.steps", "steps": "In how many steps.";
    "steps.last_flow.behind_ns", "ns": "By how much after the flow before it (median).";
    "steps.straggler", "object": "The host that the others wait for, in 5 steps or more and in two of three of a stretch."
        or null "there is none";
    "steps.straggler.kind", "text": "`starts_late` (begins the step when all others have done what they can: it computes longer), `slow_transfer` (its \
        data takes three times as long as another's), `pauses` (falls silent in the middle of the step without being kept), `upstream` (it or a \
        host that it waits for and that is not in sight).";
    "steps.straggler.host", "address": "Who it is." or null "only known to be `waits_for` or a host behind it";
    "steps.straggler.waits_for", "address": "Whose data ends the wait.";
    "steps.straggler.dst", "address": "To whom it is sent,";
    "steps.straggler.dest_qp", "number": "and on which queue pair.";
    "steps.straggler.link", "text": "The link on which this was seen best.";
    "steps.straggler.certain", "bool": "What the host receives passes that link too, so that nobody else can have kept it.";
    "steps.straggler.changed", "bool": "In 5 or more other steps it was not waited for.";
    "steps.straggler.alone", "bool": "No other host is named on any link: with several it may be that each is a stage of a pipeline.";
    "steps.straggler.steps", "steps": "Steps in which it was waited for,";
    "steps.straggler.of_steps", "steps": "of these from the first to the last.";
    "steps.straggler.since_ns", "Unix ns": "Start of the first.";
    "steps.straggler.until_ns", "Unix ns": "End of the last.";
    "steps.straggler.behind_ns", "ns": "Median of what it costs a step: `starts_late` from the start of the last of the others to its own, the \
        least over all links that show it; `slow_transfer` the time above the quickest; else the silence of all.";
    "steps.ending.last_data_ns", "Unix ns": "Last data on the link.";
    "steps.ending.silent_ns", "ns": "From there to the last frame of any kind on the link (live: to the last reading).";
    "steps.ending.unfinished_ratio", "ratio": "Data behind the last whole step, as a share of a step: 0 when the job ended, or rests, between two steps.";
    "steps.ending.outstanding_flows", "flows": "Flows of the link with a message that has not ended, or with a request that was not answered though \
        answers between its hosts pass here.";
    "pattern.shape", "text": "What the matrix of hosts forms, from pairs with at least a tenth of the largest: `pairs`, `ring`, `all_to_all`, `tree`."
        or null "none of these, or not clear: one host's own link shows no more than its neighbours";
    "pattern.hosts", "hosts": "Different addresses.";
    "pattern.matrix[].src", "address": "Who sends; the 256 pairs with most data, most first. Links that share a queue pair \
        of the pair see the same packets, and the one that saw most counts; others add up.";
    "pattern.matrix[].dst", "address": "To whom.";
    "pattern.matrix[].packets", "packets": "Packets of every kind.";
    "pattern.matrix[].bytes", "bytes": "Their outer frames.";
    "pattern.matrix[].data_bytes", "bytes": "Of these, those that are no acknowledgement and no CNP.";
    "pattern.matrix_pairs", "pairs": "Pairs in all.";
    "pattern.matrix_left_out_packets", "packets": "Packets of pairs beyond 65,536 per run (links counted each), which are in no figure about hosts.";
    "pattern.operations", "list": "Messages by kind." or null "those of flows that --filter leaves out cannot be told apart (live)";
    "pattern.message_sizes", "list": "Messages by length." or null "as above";
    "pattern.operations[].operation", "text": "`write`, `send` (datagrams included), `read`, `atomic`. What passes two links counts on both.";
    "pattern.operations[].messages", "messages": "Messages whose end was seen in its turn; of READs and atomics the requests. An end that was lost or late and came behind later packets is taken for a repeat, and its message is missing.";
    "pattern.operations[].packets", "packets": "Packets, repeats and responses included.";
    "pattern.operations[].payload_bytes", "bytes": "Their payload.";
    "pattern.operations[].payload_ratio", "ratio": "Share of the payload of all four." or null "there is no payload at all";
    "pattern.operations[].size_unknown", "messages": "Messages of unknown length: their start was not seen, packets are missing, or lengths contradict each other.";
    "pattern.message_sizes[].operation", "text": "Messages by length: which kind,";
    "pattern.message_sizes[].from_bytes", "bytes": "the shortest";
    "pattern.message_sizes[].to_bytes", "bytes": "and the longest that count here." or null "no end";
    "pattern.message_sizes[].messages", "messages": "How many. The length is the RETH's, or the sum of the packets of a SEND.";
};
