//! Fields of traffic in time and by hosts.

use serde::Serialize;

use super::steps::{StepParts, StepTrend};
use crate::sample::{Address, Direction};
use crate::util::units;

/// One bucket of RoCE frames by length on the wire without FCS. Buckets end as those of RMON's etherStats
/// less the FCS, then at 2,043, 4,091 and 9,014 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FrameSize {
    /// Upper end of the bucket. Unit: bytes. Null: the last bucket, which has none.
    pub up_to_bytes: Option<u32>,
    /// Frames in it. Unit: packets.
    pub frames: u64,
}

/// Bursts of the RoCE traffic of one link, in bins of equal length. In a replay, both directions of a capture
/// count together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Burst {
    /// Name of the link.
    pub link: String,
    /// Direction of the link. Null: replay.
    pub direction: Option<Direction>,
    /// Length of a bin (`--bin`). Unit: ns.
    pub bin_ns: u64,
    /// Bins from the first with traffic to the last, empty ones included. Unit: bins.
    pub bins: u64,
    /// Bins with traffic. Unit: bins.
    pub active_bins: u64,
    /// `active_bins` / `bins`. Unit: ratio.
    pub duty_cycle: f64,
    /// Mean over all bins. Unit: bytes.
    pub mean_bytes: f64,
    /// Bytes in the peak bin. Unit: bytes.
    pub peak_bytes: u64,
    /// Packets in the peak bin. Unit: packets.
    pub peak_packets: u64,
    /// CE-marked packets in the peak bin. Unit: packets.
    pub peak_ce_packets: u64,
    /// CNPs in the peak bin. Unit: packets.
    pub peak_cnp_packets: u64,
    /// Start of the peak bin. Unit: Unix ns.
    pub peak_ns: u64,
    /// `peak_bytes` / `mean_bytes`; 1: constant rate. Unit: ratio.
    pub peak_to_mean: f64,
    /// Minimum of a bin within a burst: the largest power of two that is at most half of the peak. Unit:
    /// bytes.
    pub threshold_bytes: u64,
    /// Bursts: runs of bins that each reach `threshold_bytes`. Unit: bursts.
    pub bursts: u64,
    /// Share of all bins within bursts. Unit: ratio.
    pub burst_ratio: f64,
    /// Median length of a burst. Percentiles are at most 25 % too high, exact up to 4 bins. Unit: ns.
    pub length_p50_ns: u64,
    /// 99th percentile of the length. Unit: ns.
    pub length_p99_ns: u64,
    /// Longest burst, exact. Unit: ns.
    pub length_max_ns: u64,
    /// Packets that arrived more than 8 bins late, live more than 5 ms: in the mean, but in no bin. Unit:
    /// packets.
    pub late_packets: u64,
    /// Packets of the link in no bin because the ring buffer of bins was full. `totals.lost.bins_dropped` is
    /// their sum. Unit: packets.
    pub lost_packets: u64,
    /// Packets of the link in no bin because they are in no flow (`links[].left_out_packets`). They are missing in
    /// `incast` too. Unit: packets.
    pub left_out_packets: u64,
}

/// Data to one host on one link, by the number of hosts that send in the same bin. ACKs and CNPs do not count.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Incast {
    /// Name of the link.
    pub link: String,
    /// Direction of the link. Null: replay.
    pub direction: Option<Direction>,
    /// Receiver.
    pub dst: Address,
    /// Length of a bin. Senders within one bin may have taken turns in it. Unit: ns.
    pub bin_ns: u64,
    /// Hosts that sent data to it during the run. Unit: hosts.
    pub senders: u64,
    /// Most senders in one bin; 64 stands for 64 or more. Unit: hosts.
    pub senders_max: u64,
    /// 99th percentile of the senders per bin with data. Unit: hosts.
    pub senders_p99: u64,
    /// Bins with data. Unit: bins.
    pub bins: u64,
    /// Share of the bytes in bins with at least two senders. Unit: ratio.
    pub several_ratio: f64,
    /// Bytes in the fullest bin. Unit: bytes.
    pub peak_bytes: u64,
    /// Senders in the fullest bin. Unit: hosts.
    pub peak_senders: u64,
}

/// Steps of a training job: at least 8 times about the same volume, with about the same share for each pair of
/// hosts, by several flows at a time, between even silences of more than 2 ms. Based on the latest 8,192
/// blocks of data and at least 262,144 flowlets. If these have no steps, or other traffic followed them, at
/// least 16 steps of the latest half of the time, or of a half of that, and so on. Stragglers are searched on
/// all ports.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Steps {
    /// Name of the link.
    pub link: String,
    /// Direction of the link, where only one is observed. Null: replay, or both directions.
    pub direction: Option<Direction>,
    /// Whole steps, at least 8. Unit: steps.
    pub count: u64,
    /// Start of the first whole step. Unit: Unix ns.
    pub first_ns: u64,
    /// End of the last whole step. Unit: Unix ns.
    pub last_ns: u64,
    /// Median time from the start of a step to the start of the next. Unit: ns.
    pub period_ns: u64,
    /// Data of one step on this port without retransmissions, to 5 %. Unit: bytes.
    pub step_bytes: u64,
    /// Share of the port's data in whole steps: little where only the latest part of the run has steps. From the first
    /// of them to the last it is at least 0.95. Unit: ratio.
    pub explained_ratio: f64,
    /// Period by autocorrelation of the bytes per bin in the port's busiest direction: the peak nearest
    /// `period_ns`, an independent check that does not use volumes. Unit: ns. Null: no lag near it reaches a
    /// correlation of 0.3: the lengths of the steps vary.
    pub autocorrelation_period_ns: Option<u64>,
    /// Correlation at that period; 1: strictly periodic. Unit: ratio. Null: as `autocorrelation_period_ns`.
    pub autocorrelation: Option<f64>,
    /// 10th percentile of the period. Unit: ns.
    pub period_p10_ns: u64,
    /// 90th percentile of the period. Unit: ns.
    pub period_p90_ns: u64,
    /// Jitter: median distance of a period from the median of the five around it, over the median period. A
    /// trend and single long steps do not count. Unit: ratio.
    pub jitter_ratio: f64,
    /// Parts of the time of a step. Null: no two recognised steps in a row.
    pub parts: Option<StepParts>,
    /// Time per step that a network twice as fast wins at most: half of `parts.transfer_ns`. Less where
    /// transfers overlap with computation, or are limited by the hosts. Unit: ns. Null: as `parts`.
    pub faster_network_ns: Option<u64>,
    /// Step time over the run, and the time lost. Null: fewer than 12 steps.
    pub trend: Option<StepTrend>,
    /// Median period in the first third of the steps. Unit: ns.
    pub first_third_ns: u64,
    /// 75th percentile of the period in the first third. Unit: ns.
    pub first_third_p75_ns: u64,
    /// Median period in the last third. Unit: ns.
    pub last_third_ns: u64,
    /// 25th percentile of the period in the last third. Unit: ns.
    pub last_third_p25_ns: u64,
    /// Slope of the regression line through the periods: growth per step. Unit: ns.
    pub trend_ns_per_step: f64,
    /// Share of the time in which data passed the port, silences up to 2 ms included: upper bound of what a
    /// faster port can gain. Per step: `latest[].busy_ratio`. Unit: ratio.
    pub busy_ratio: f64,
    /// Share of the time from the first to the last packet of each step, waiting for other hosts included:
    /// upper bound of what any faster network can gain. The rest is computation. Unit: ratio.
    pub communication_ratio: f64,
    /// Median over the steps of the longest silence within a step. Unit: ns.
    pub silence_ns: u64,
    /// The latest 64 steps.
    pub latest: Vec<Step>,
    /// All steps, in order; for charts and recordings, and in no report.
    #[serde(skip)]
    pub all: Vec<crate::metrics::steps::Step>,
    /// Flow that most often ends a step. Null: not known.
    pub last_flow: Option<LastFlow>,
    /// Host that the others wait for, in at least 5 steps and in two of three steps of a run of steps. Null:
    /// there is none.
    pub straggler: Option<StepStraggler>,
    /// End of the traffic.
    pub ending: Ending,
}

/// One step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "JobStep"))]
pub struct Step {
    /// First packet of data. Unit: Unix ns.
    pub start_ns: u64,
    /// Time from its first packet to its last. Unit: ns.
    pub length_ns: u64,
    /// Time with data in it. Unit: ns.
    pub busy_ns: u64,
    /// `busy_ns` over the time to the start of the next step. Unit: ratio. Null: the last step.
    pub busy_ratio: Option<f64>,
    /// Longest silence in it. Unit: ns.
    pub silence_ns: u64,
}

/// Flow that most often ends a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LastFlow {
    /// Source address.
    pub src: Address,
    /// Destination address.
    pub dst: Address,
    /// Destination queue pair.
    pub dest_qp: u32,
    /// Steps that it ended. Unit: steps.
    pub steps: u64,
    /// Median time from the end of the second-last flow to its end. Unit: ns.
    pub behind_ns: u64,
}

/// Host that the others wait for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one host")]
pub struct StepStraggler {
    /// `starts_late`: begins the step after all others have done what they can: it computes longer.
    /// `slow_transfer`: its data takes three times as long as that of another. `pauses`: falls silent within
    /// a step without waiting for another host. `upstream`: `waits_for`, or a host that it waits for and that
    /// is not visible at this tap.
    pub kind: &'static str,
    /// The straggler. Null: `waits_for`, or a host upstream.
    pub host: Option<Address>,
    /// Host whose data ends the wait.
    pub waits_for: Address,
    /// Receiver of that data.
    pub dst: Address,
    /// Destination queue pair of that data.
    pub dest_qp: u32,
    /// Name of the link that shows it best.
    pub link: String,
    /// Data received by the host is visible on that link too, which rules out that it waits for another host.
    pub certain: bool,
    /// It was not waited for in at least 5 other steps.
    pub changed: bool,
    /// It begins late once in a step, and sends on at once what it receives from then on, in four of five steps: it is
    /// a member of a collective and no stage of a pipeline.
    pub passes_on: bool,
    /// No link shows another straggler. Several may be the stages of a pipeline.
    pub alone: bool,
    /// Steps in which it was waited for. Unit: steps.
    pub steps: u64,
    /// All steps from the first to the last of these. Unit: steps.
    pub of_steps: u64,
    /// Start of the first of these. Unit: Unix ns.
    pub since_ns: u64,
    /// End of the last of these. Unit: Unix ns.
    pub until_ns: u64,
    /// Median cost per step. `starts_late`: from the start of the last other host to its own, the smallest of
    /// all links that show it. `slow_transfer`: time above the fastest. Else: length of the common silence.
    /// Unit: ns.
    pub behind_ns: u64,
}

impl StepStraggler {
    /// Sentence about the straggler and the number of steps, the same in every view.
    pub fn in_words(&self) -> String {
        let (host, time) = (self.waits_for, units::duration(self.behind_ns));
        let what = match self.kind {
            "starts_late" => format!("Straggler {host}: starts {time} late"),
            "slow_transfer" => format!("Slow transfer {host} → {}: {time} longer", self.dst),
            "pauses" => format!("Straggler {host}: pauses for {time}"),
            _ => format!("Straggler is {host} or beyond it: {} waits {time}", self.dst),
        };
        format!("{what} in {} of {} steps", self.steps, self.of_steps)
    }
}

/// End of the traffic on the link of the steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ending {
    /// Time of the last data. Unit: Unix ns.
    pub last_data_ns: u64,
    /// Time from there to the last frame of any kind on the link; live: to the last reading. Unit: ns.
    pub silent_ns: u64,
    /// Data after the last whole step, as a share of a step; 0: the job ended, or rests, between two steps; 2
    /// or more: other traffic followed, and `steps` holds until `last_ns`. Unit: ratio. Null: a recording, which has
    /// whole steps alone.
    pub unfinished_ratio: Option<f64>,
    /// Flows with an unfinished message, or with an unanswered request whose answers would be visible here.
    /// Unit: flows. Null: as `unfinished_ratio`.
    pub outstanding_flows: Option<u64>,
}

/// Traffic between hosts, and messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pattern {
    /// Pattern of the pairs of hosts with at least a tenth of the largest pair's data: `pairs`, `ring`,
    /// `all_to_all`, `tree`. Null: none of these, or not clear: the link of one host shows its neighbours
    /// only.
    pub shape: Option<&'static str>,
    /// Distinct addresses. Unit: hosts.
    pub hosts: u64,
    /// Traffic by pair of hosts: the 256 pairs with the most data, in descending order. Of links that share a
    /// queue pair, the one that saw the most counts; other links add up.
    pub matrix: Vec<Cell>,
    /// All pairs. Unit: pairs.
    pub matrix_pairs: u64,
    /// Packets of pairs beyond 65,536 per run (counted per link): in no figure by hosts. Unit: packets.
    pub matrix_left_out_packets: u64,
    /// Packets of all links that are in no flow (`links[].left_out_packets`): in no figure of `pattern`. Unit:
    /// packets.
    pub left_out_packets: u64,
    /// Messages by operation. Null: flows that `--filter` excludes cannot be left out (live).
    pub operations: Option<Vec<OperationShare>>,
    /// Messages by operation and length. Null: as `operations`.
    pub message_sizes: Option<Vec<MessageSize>>,
}

/// Traffic from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cell {
    /// Sender.
    pub src: Address,
    /// Receiver.
    pub dst: Address,
    /// Packets of every kind. Unit: packets.
    pub packets: u64,
    /// Length of their outer frames. Unit: bytes.
    pub bytes: u64,
    /// Part of `bytes` without ACKNOWLEDGEs and CNPs. Unit: bytes.
    pub data_bytes: u64,
}

/// Messages of one operation, counted per link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OperationShare {
    /// `write`, `send` (datagrams included), `read` or `atomic`.
    pub operation: &'static str,
    /// Messages whose last packet was seen in order; for READs and atomics the requests. A last packet that
    /// arrives after later ones counts as repeated, and its message is not counted. Unit: messages.
    pub messages: u64,
    /// Part of `messages` that another tap counts too: subtract it to count each message once. Unit: messages.
    /// Null: live at several taps, or as `totals.counted_again.roce_packets`.
    pub counted_again: Option<u64>,
    /// Packets, retransmissions and responses included. Unit: packets.
    pub packets: u64,
    /// Their payload. Unit: bytes.
    pub payload_bytes: u64,
    /// Share of the payload of all four operations. Unit: ratio. Null: no payload at all.
    pub payload_ratio: Option<f64>,
    /// Messages of unknown length: their start was not seen, packets are missing, or lengths contradict each
    /// other. Unit: messages.
    pub size_unknown: u64,
}

/// Messages of one operation within one range of lengths. The length is that of the RETH, or the sum of the
/// packets of a SEND.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MessageSize {
    /// Operation, as in `pattern.operations[].operation`.
    pub operation: &'static str,
    /// Smallest length. Unit: bytes.
    pub from_bytes: u64,
    /// Largest length. Unit: bytes. Null: no upper end.
    pub to_bytes: Option<u64>,
    /// Messages. Unit: messages.
    pub messages: u64,
}
