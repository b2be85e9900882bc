//! NAKs on the rows of the data that they answer: the flow that a finding names, rather than the one that carries them.

use super::{Counts, Identity, Row};
use crate::metrics::pairing::BySlot;
use crate::sample::{FlowSample, Sample, has_answers};
use crate::util::map::{Map, Set};

/// The flows whose rows would show a NAK, because the flow that answers them carries ACKs or NAKs.
pub(super) struct Answered<'a> {
    pairs: Option<&'a BySlot>,
    /// Slots of the flows that carry ACKs or NAKs.
    carriers: Set<u32>,
}

impl<'a> Answered<'a> {
    pub(super) fn of(sample: &'a Sample) -> Self {
        let pairs = sample.metrics.pairs.as_ref();
        let flows = sample.flows.iter().filter(|flow| pairs.is_some() && has_answers(&flow.stats));
        Self { pairs, carriers: flows.map(|flow| flow.slot).collect() }
    }

    /// True if the flow is answered; of one whose other direction is not known, which keeps the NAKs that it carries,
    /// if it carries any answers.
    pub(super) fn has(&self, flow: &FlowSample) -> bool {
        match self.pairs.and_then(|pairs| pairs.get(flow.slot)?.reverse) {
            Some(reverse) => self.carriers.contains(&reverse),
            None => has_answers(&flow.stats),
        }
    }
}

/// Moves NAKs and RNR NAKs of each row to the row of the flow that they answer. Those of a flow whose other direction
/// is not known or has no row stay.
pub(super) fn to_data(rows: &mut [Row], pairs: &BySlot) {
    let any = |counts: &Counts| counts.rnr + counts.naks() > 0;
    let with_naks = rows.iter().enumerate().filter(|(_, row)| any(&row.total));
    let with_naks: Vec<(usize, u32)> =
        with_naks.filter_map(|(at, row)| Some((at, pairs.get(row.id.slot)?.reverse?))).collect();
    if with_naks.is_empty() {
        return;
    }
    let mut places: Map<u32, Option<usize>> = with_naks.iter().map(|(_, slot)| (*slot, None)).collect();
    for (at, row) in rows.iter().enumerate() {
        if let Some(place) = places.get_mut(&row.id.slot) {
            *place = Some(at);
        }
    }
    // Each flow may answer the other: all are taken before one is given.
    let mut moved = Vec::with_capacity(with_naks.len());
    for (from, slot) in with_naks {
        let Some(to) = places.get(&slot).copied().flatten() else { continue };
        let (Some(row), Some(data)) = (rows.get(from), rows.get(to)) else { continue };
        let (key, other) = (&row.id.key, &data.id.key);
        // The pairs are those of the newest sample: at an older snapshot the slot may have had another flow.
        let turned = (key.family, key.src, key.dst) == (other.family, other.dst, other.src);
        if from == to || !turned || row.delta.is_some() != data.delta.is_some() {
            continue;
        }
        if let Some(row) = rows.get_mut(from) {
            let delta = row.delta.as_mut().map(|delta| take_naks(&mut delta.counts));
            moved.push((to, take_naks(&mut row.total), delta.unwrap_or_default()));
        }
    }
    for (to, total, delta) in moved {
        if let Some(row) = rows.get_mut(to) {
            row.total.add(&total);
            if let Some(own) = &mut row.delta {
                own.counts.add(&delta);
            }
        }
    }
}

/// The flow whose NAKs answer this one; `None` where the other direction is not known.
pub fn answers_of(sample: &Sample, id: &Identity) -> Option<Identity> {
    let slot = sample.metrics.pairs.as_ref()?.get(id.slot)?.reverse?;
    let flow = sample.flows.iter().find(|flow| flow.slot == slot)?;
    let turned = (flow.key.family, flow.key.src, flow.key.dst) == (id.key.family, id.key.dst, id.key.src);
    turned.then_some(Identity { key: flow.key, slot })
}

/// Gives counts of data the NAKs of the flow that answers it, in place of those that it carries.
pub fn replace_naks(counts: &mut Counts, answers: Option<Counts>) {
    take_naks(counts);
    counts.answered = answers.is_some_and(|answers| answers.answered);
    counts.add(&take_naks(&mut answers.unwrap_or_default()));
}

/// The NAKs of these counts, which have none afterwards.
fn take_naks(counts: &mut Counts) -> Counts {
    let Counts { rnr, sequence_naks, other_naks, .. } = *counts;
    (counts.rnr, counts.sequence_naks, counts.other_naks) = (0, 0, 0);
    Counts { rnr, sequence_naks, other_naks, ..Counts::default() }
}
