//! What a packet has changed in a sequence, for the spells of its flow.

use super::super::result::Metrics;
use super::super::spells::{Recorder, Signal};
use super::Sequence;

/// How often each signal has shown.
pub(in super::super) type Tally = [(Signal, u64); 7];

impl Sequence {
    /// How often each signal has shown so far, for [`record`](Self::record).
    pub(in super::super) fn tally(&self) -> Tally {
        let Metrics { lost, recovered, retransmitted, rereads, rnr_retransmitted, timeouts, .. } =
            self.metrics;
        let episodes = if lost == 0 { 0 } else { self.upstream.metrics().count };
        [
            (Signal::Lost, lost),
            (Signal::LossUpstream, episodes),
            (Signal::LossDownstream, self.downstream.metrics().count),
            (Signal::Reordered, recovered),
            (Signal::Retransmitted, retransmitted + rereads),
            (Signal::RetransmittedAfterRnr, rnr_retransmitted),
            (Signal::Timeout, timeouts),
        ]
    }

    /// Records what has changed since `earlier`, with a packet of this time.
    pub(in super::super) fn record(&self, spells: &mut Recorder, slot: u32, earlier: &Tally, time_ns: u64) {
        for ((signal, now), (_, then)) in self.tally().into_iter().zip(earlier) {
            if now < *then {
                spells.take_back(slot, signal, then - now);
            } else if now > *then {
                let episode = match signal {
                    Signal::Lost | Signal::LossUpstream => self.upstream.under_way(),
                    Signal::LossDownstream => self.downstream.under_way(),
                    _ => None,
                };
                spells.note(slot, signal, episode.unwrap_or((time_ns, time_ns)), now - then);
            }
        }
    }
}
