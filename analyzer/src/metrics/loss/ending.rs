//! What a collector has found, so far and at the end.

use super::signal_intervals::SignalIntervals;
use super::slot::Slot;
use super::{Collector, Loss};

impl Collector {
    /// The result so far.
    #[must_use]
    pub fn metrics(&self) -> Loss {
        Loss {
            naks: self.naks.clone(),
            overlaps: self.overlaps.clone(),
            ack_states: self.slots.iter().map(Slot::ack_state).collect(),
            ..self.of_flows(self.intervals.intervals())
        }
    }

    /// The same at the end, in the collector's own memory: with very many flows, those that stand still have more of it
    /// than all others, and what is shared with a sample would be copied before it is changed.
    #[must_use]
    pub fn finish(mut self) -> Loss {
        let intervals = self.intervals.take();
        let found = self.of_flows(intervals);
        // Collected in place: what is smaller leaves room.
        let mut ack_states: Vec<_> = self.slots.into_iter().map(|slot| slot.ack_state()).collect();
        ack_states.shrink_to_fit();
        Loss { naks: self.naks, overlaps: self.overlaps, ack_states, ..found }
    }

    /// What the state of each flow says, with the times of signals until now.
    fn of_flows(&self, mut intervals: SignalIntervals) -> Loss {
        let troubled = (0..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.request_loss.is_some() || slot.response_loss.is_some());
        self.add_lasting(&mut intervals);
        Loss {
            flows: troubled.map(|(number, slot)| (number, slot.loss())).collect(),
            intervals,
            retired: self.retired,
            in_messages: Some(self.in_messages()),
            ..Loss::default()
        }
    }
}
