//! The figures of a live run as bytes: see [`crate::util::pack`]. Types with fields of their own are packed where they
//! are.

use super::Metrics;
use super::ecn::speed::Reaction;
use super::ecn::{self, series};
use super::latency::{self, Classes, LatencyRange, Summary, tails};
use super::loss::in_message::InMessage;
use super::loss::reads::Overlap;
use super::loss::signal_intervals::{Interval, Mark, Signal, SignalIntervals};
use super::loss::{
    self, AckState, Episodes, FlowLoss, GivenUp, Loss, NakTally, Naks, RetiredLoss, Retransmission, Sizes,
    Unfollowed,
};
use super::marking::Marked;
use super::pairing::{self, Confidence, PairingEvidence};
use super::setups::{Outcome, Row, SetupEnds, SetupKind, Setups};
use super::traffic::bins::{self, Bursts};
use super::traffic::flowlets::{FlowletState, Flowlets, Record};
use super::traffic::hosts::Degree;
use super::traffic::{LinkTraffic, Traffic};
use crate::util::pack::{Input, Layout, Malformed, Pack, pack};

/// Those that a live run has. Capture files alone have duplicates, ICRCs, trimmed packets, several taps, a timeline of
/// the whole run and control frames.
impl Pack for Metrics {
    fn layout(layout: &mut Layout) {
        layout.word("Metrics");
        layout.field("marking", |value: &Self| &value.marking);
        layout.field("pairs", |value: &Self| &value.pairs);
        layout.field("setups", |value: &Self| &value.setups);
        layout.field("latency", |value: &Self| &value.latency);
        layout.field("ecn", |value: &Self| &value.ecn);
        layout.field("loss", |value: &Self| &value.loss);
        layout.field("traffic", |value: &Self| &value.traffic);
    }

    fn pack(&self, out: &mut Vec<u8>) {
        let Self {
            marking,
            pairs,
            setups,
            latency,
            ecn,
            loss,
            duplicates: _,
            icrc: _,
            spray: _,
            steps: _,
            messages: _,
            taps: _,
            traffic,
            timeline: _,
            control: _,
        } = self;
        marking.pack(out);
        pairs.pack(out);
        setups.pack(out);
        latency.pack(out);
        ecn.pack(out);
        loss.pack(out);
        traffic.pack(out);
    }

    fn unpack(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            marking: Pack::unpack(input)?,
            pairs: Pack::unpack(input)?,
            setups: Pack::unpack(input)?,
            latency: Pack::unpack(input)?,
            ecn: Pack::unpack(input)?,
            loss: Pack::unpack(input)?,
            traffic: Pack::unpack(input)?,
            ..Self::default()
        })
    }
}

pack! {
    struct Marked { data_packets, data_bytes, ack_packets, cnp_packets }
    struct pairing::Pair { peer_qp, how, confidence, reverse }
    struct Setups { rows, untracked, ended }
    struct SetupEnds { family, from, to, kind, service_id, outcome }
    struct Row { setups, most_requests, first_ns, last_ns }
    struct Summary { count, p50, p99, p999, max }
    struct LatencyRange { p50_least, p50_most, p99_least, p99_most }
    struct latency::Figure { all, classes, histogram, unpaired, ambiguous, ring_full, untracked, outstanding, tails, completions }
    struct tails::TailInterval { first_ns, last_ns, samples, max_ns }
    struct ecn::Metrics { marks, cnps, links, untracked }
    struct ecn::Marks { first_ce_ns, series }
    struct ecn::OverTime { start_ns, bin_ns, bins }
    struct ecn::CnpFigure { answers, count, first_ns, last_ns, min_gap_ns, delay, without_mark, reaction }
    struct series::Bin { capable, ce, cnp }
    struct Reaction { window_ns, samples, before_bps, after_bps }
    struct Loss { flows, naks, ack_states, known, overlaps, in_messages, intervals, retired }
    struct RetiredLoss { lost, retransmitted, timeouts }
    struct InMessage { request, response, pace_ns }
    struct FlowLoss { requests, responses, unfollowed, given_up }
    struct Unfollowed { until_ns, packets, missing, repeats }
    struct AckState { asked_ns, answer_psn, refused, answered_something, sizes }
    struct Sizes { largest, before, largest_psn }
    struct Naks { rnr, codes }
    struct NakTally { count, last_ns }
    struct GivenUp { psn, last_psn, retries, opcode, bytes, last_ns, until_ns }
    struct Episodes { count, longest_ns, total_ns, largest, first_ns, last_ns }
    struct loss::Metrics {
        recovered, depth, lost, doubtful, unfilled, retransmitted, mirrored, rereads, rnr_retransmitted, timeout_retransmitted,
        timeouts, timeouts_acked, read_timeouts, timeout_wait_ns, timeout_range_ns, rnr_wait_ns, gaps_capable, gaps_ce,
        last_retransmission_ns, upstream, downstream, retransmission, stuck, stuck_psn, stuck_opcode,
        stuck_bytes,
    }
    struct Overlap { requests, psn, opcode, read_psn, read_span, first_ns, last_ns }
    struct SignalIntervals { flows, marks }
    struct Interval { first_ns, last_ns, count, at_first, at_last }
    struct Mark { time_ns, packets, capable }
    struct Traffic { bin_ns, end_ns, links, pairs, targets, left_out, kinds, flowlets }
    struct LinkTraffic { bursts, frame_sizes, last_ns, lost }
    struct Bursts {
        bin_ns, bins, active_bins, first_ns, peak, total, threshold_bytes, bursts, burst_bins, length_p50_ns,
        length_p99_ns, length_max_ns, late_packets, recent, long, long_bins, long_first,
    }
    struct bins::Bin { index, bytes, packets, capable, ce, cnp }
    struct Degree { bins, packets, bytes, ce, gaps, lossy_bytes, lossy_ns }
    struct Flowlets { ended, standing }
    struct Record { start_ns, end_ns, fresh_bytes, pair, dest_qp }
    struct FlowletState { flowlet, message_open, messages, request, answer }
}

pack! {
    enum Classes { 0 => None, 1 => One(class), 2 => Several(classes) }
}
pack! {
    enum PairingEvidence { 0 => Psn, 1 => SharedPort, 2 => PortIsQp, 3 => PortRule, 4 => Datagram, 5 => Cm, 6 => Device }
}
pack! {
    enum Confidence { 0 => Likely, 1 => Strong, 2 => Certain }
}
pack! {
    enum SetupKind { 0 => Connection, 1 => Resolution }
}
pack! {
    enum Outcome {
        0 => Unanswered, 1 => Delayed, 2 => Accepted, 3 => Rejected { reason, by_requester }, 4 => Unresolved { status },
    }
}
pack! {
    enum Retransmission { 0 => GoBackN, 1 => SelectiveRepeat }
}
pack! {
    enum Signal {
        0 => SequenceNak, 1 => RnrNak, 2 => OtherNak(code), 3 => Lost, 4 => LossUpstream, 5 => LossDownstream, 6 => Reordered,
        7 => Retransmitted, 8 => RetransmittedAfterRnr, 9 => RetransmittedAfterTimeout, 10 => Timeout, 11 => TimeoutWait,
        12 => Stall, 13 => StallWait, 14 => Silence, 15 => RnrWait, 16 => RecoveryUpstream, 17 => RecoveryDownstream,
        18 => CeMarked, 19 => Cnp, 20 => Duplicate, 21 => Doubtful, 22 => GapCapable, 23 => GapMarked, 24 => HeldUp,
        25 => NoFrame,
    }
}
