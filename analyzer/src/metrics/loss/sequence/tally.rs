//! Signals of a sequence over time.

use super::Sequence;
use crate::metrics::loss::signal_intervals::{Counts, Recorder, Signal};

/// The signals that a sequence gives.
pub(super) const SIGNALS: [Signal; 16] = [
    Signal::Lost,
    Signal::Doubtful,
    Signal::GapCapable,
    Signal::GapMarked,
    Signal::LossUpstream,
    Signal::LossDownstream,
    Signal::Reordered,
    Signal::Retransmitted,
    Signal::RetransmittedAfterRnr,
    Signal::RetransmittedAfterTimeout,
    Signal::Timeout,
    Signal::TimeoutWait,
    Signal::RnrWait,
    Signal::RecoveryUpstream,
    Signal::RecoveryDownstream,
    Signal::Duplicate,
];

/// Number of each of [`SIGNALS`].
pub(super) type Tally = [u64; SIGNALS.len()];

impl Sequence {
    /// Of the PSNs lost, those that may have been reordered.
    pub(super) fn doubtful(&self) -> u64 {
        // If gaps are filled by late packets more often than senders are asked to go back, and receivers drop packets
        // out of order, a NAK is no evidence of loss.
        let late = self.answers_pass
            && self.unexplained_runs > self.explained_runs
            && self.go_back_n > self.selective;
        let unexplained = if self.answers_pass { self.ambiguous_lost } else { 0 };
        let alone = if self.goes_back() { self.alone } else { 0 };
        let lost = self.metrics.lost;
        let doubtful = self.metrics.doubtful + alone + unexplained + self.reordering_delay.doubtful(lost);
        if late { lost } else { doubtful.min(lost) }
    }

    fn tally(&self) -> Tally {
        let counted = &self.metrics;
        let (upstream, downstream) = (self.upstream.metrics(), self.downstream.metrics());
        let (episodes, recovery) =
            if counted.lost == 0 { (0, 0) } else { (upstream.count, upstream.total_ns) };
        [
            counted.lost,
            self.doubtful(),
            counted.gaps_capable,
            counted.gaps_ce,
            episodes,
            downstream.count,
            counted.recovered,
            counted.retransmitted + counted.rereads,
            counted.rnr_retransmitted,
            counted.timeout_retransmitted,
            counted.timeouts,
            counted.timeout_wait_ns,
            counted.rnr_wait_ns,
            recovery,
            downstream.total_ns,
            counted.mirrored,
        ]
    }

    /// Records what has shown since the last call, at a packet of this time; `counts` of its flow, where they are
    /// known.
    pub(in crate::metrics::loss) fn record(
        &mut self,
        intervals: &mut Recorder,
        slot: u32,
        time_ns: u64,
        counts: Option<Counts>,
    ) {
        if let Some(silence) = self.silence.take() {
            intervals.silence(slot, silence);
        }
        let tally = self.tally();
        let recorded = std::mem::replace(&mut self.recorded, tally);
        for ((signal, now), then) in SIGNALS.into_iter().zip(tally).zip(recorded) {
            if now < then {
                intervals.take_back(slot, signal, then - now);
            } else if now > then {
                let since = match signal {
                    Signal::Lost | Signal::LossUpstream | Signal::RecoveryUpstream => {
                        self.upstream.under_way()
                    }
                    Signal::LossDownstream | Signal::RecoveryDownstream => self.downstream.under_way(),
                    _ => None,
                };
                intervals.note(slot, signal, since.unwrap_or((time_ns, time_ns)), now - then, counts);
            }
        }
    }
}
