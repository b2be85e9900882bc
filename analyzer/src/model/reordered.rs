//! Sequence-error NAKs caused only by reordering.
//!
//! A receiver sends a NAK for any gap, by loss or reordering. The corresponding data flow shows the cause.

use super::Counts;
use crate::analysis::Overlap;
use crate::sample::Sample;
use crate::util::map::{Map, Set};

/// Slots of ACK flows with sequence-error NAKs whose data flow lost nothing on any link and was reordered on at least
/// one. `between` are packets lost between taps.
pub(super) fn reordering_only(sample: &Sample, overlap: &Overlap, between: &Map<u32, u64>) -> Set<u32> {
    let metrics = &sample.metrics;
    let (Some(losses), Some(pairs)) = (&metrics.loss, &metrics.pairs) else { return Set::default() };
    let asking =
        sample.flows.iter().filter(|flow| flow.stats.rare.naks.first().is_some_and(|naks| *naks > 0));
    let asking: Vec<(u32, u32)> =
        asking.filter_map(|flow| Some((flow.slot, pairs.get(&flow.slot)?.reverse?))).collect();
    if asking.is_empty() {
        return Set::default();
    }
    let data: Set<u32> = asking.iter().map(|(_, data)| *data).collect();
    // All links that see the data count, since only those downstream of the reordering see it.
    let flows = || sample.flows.iter().enumerate();
    let queue_pair: Map<u32, usize> = flows()
        .filter(|(_, flow)| data.contains(&flow.slot))
        .map(|(at, flow)| (flow.slot, overlap.queue_pair(at)))
        .collect();
    let mut found: Map<usize, (u64, u64)> = queue_pair.values().map(|at| (*at, (0, 0))).collect();
    for (at, flow) in flows() {
        if let Some((lost, late)) = found.get_mut(&overlap.queue_pair(at)) {
            let counts = Counts::of(&flow.stats, flow.slot, Some(losses));
            *lost += between.get(&flow.slot).copied().unwrap_or(counts.lost);
            *late += counts.late;
        }
    }
    let only_late = |data: &u32| {
        let found = queue_pair.get(data).and_then(|at| found.get(at));
        found.is_some_and(|(lost, late)| *lost == 0 && *late > 0)
    };
    asking.into_iter().filter(|(_, data)| only_late(data)).map(|(slot, _)| slot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::{key, link, sample, stats};
    use crate::metrics::loss::{FlowLoss, Loss, Metrics};
    use crate::metrics::pairing::{Confidence, How, Pair};
    use crate::model::{History, Model, TimeRange};

    /// A data flow with the loss figures `found`, and its ACK flow with 3 NAKs.
    fn asked(found: Metrics, reverse: Option<u32>) -> Sample {
        let mut answers = stats(17, 10, 620);
        answers.rare.naks[0] = 3;
        let flows = vec![
            (key(0, "10.0.0.1", "10.0.0.2", 20), stats(17, 100, 100_000)),
            (key(0, "10.0.0.2", "10.0.0.1", 10), answers),
        ];
        let mut sample = sample(vec![link("eth0", None)], flows);
        let [data, asking] = [0, 1].map(|at: usize| sample.flows[at].slot);
        let lost = FlowLoss { requests: Some(found), ..FlowLoss::default() };
        sample.metrics.loss = Some(Loss { flows: Map::from_iter([(data, lost)]), ..Loss::default() });
        let reverse = reverse.map(|_| data);
        let pair = Pair { peer_qp: Some(20), how: How::Cm, confidence: Confidence::Certain, reverse };
        sample.metrics.pairs = Some(Map::from_iter([(asking, pair)]));
        sample
    }

    #[test]
    fn naks_caused_by_reordering_are_no_loss() {
        let late = Metrics { recovered: 5, ..Metrics::default() };
        for (found, reverse, loss) in [
            (late, Some(0), false),
            (Metrics { lost: 1, ..late }, Some(0), true),
            (Metrics::default(), Some(0), true),
            // The corresponding data flow is unknown.
            (late, None, true),
        ] {
            let sample = asked(found, reverse);
            let mut history = History::new(1 << 20);
            let next = history.prepare(&sample, false).unwrap();
            history.append(next, &sample, false);
            let model = Model::new(&history, history.len() - 1, TimeRange::All, Some(&sample)).unwrap();
            let answers = model.rows.iter().find(|row| row.id.key.dest_qp == 10).unwrap();
            assert_eq!(answers.total.loss(), loss, "{found:?}, {reverse:?}");
            assert_eq!(answers.total.naks(), 3);
        }
    }
}
