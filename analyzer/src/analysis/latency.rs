//! Reverse flow of a flow, and its latency, as the report has them.

use rocescope_common::account::flow::SRC_QP_SEVERAL;
use rocescope_common::wire::frame::UNKNOWN;
use rocescope_common::wire::opcode::TRANSPORT_UD;

use crate::analysis::{CompletionByOperation, LatencyByClass, Pairing, Untimed};
use crate::metrics::latency::Figure;
use crate::metrics::pairing::{Confidence, PairingEvidence};
use crate::sample::{FlowSample, PeerKey, Sample, Stats};

pub(super) fn by_class(figure: &Figure) -> Option<LatencyByClass> {
    let [write_send, read, atomic] = figure.classes()?.map(|times| times.map(Box::new));
    Some(LatencyByClass { write_send, read, atomic })
}

pub(super) fn completions(figure: &Figure) -> Option<CompletionByOperation> {
    let [write, send, read] = figure.completions.summaries()?.map(|times| times.map(Box::new));
    Some(CompletionByOperation { write, send, read })
}

pub(super) fn untimed(figure: &Figure) -> Untimed {
    let &Figure { ambiguous, ring_full, untracked, outstanding, .. } = figure;
    Untimed { ambiguous, ring_full, untracked, outstanding }
}

/// The queue pair that sends in this direction, and what says so.
pub(crate) fn peer(sample: &Sample, flow: &FlowSample) -> (Option<u32>, Option<Pairing>) {
    let named = |how: PairingEvidence, confidence: Confidence| Some(Pairing { how, confidence });
    if let Some(qp) = sample.owned(flow).and_then(|owned| owned.peer_qp) {
        return (Some(qp), named(PairingEvidence::Device, Confidence::Certain));
    }
    if let Some(pair) = sample.metrics.pairs.as_ref().and_then(|pairs| pairs.get(flow.slot)) {
        let pairing = pair.peer_qp.and_then(|_| named(pair.how, pair.confidence));
        return (pair.peer_qp, pairing);
    }
    if let Some(qp) = sample.peers.get(&PeerKey::of(&flow.key)) {
        // A recording has the queue pair and not how it was found.
        let evidence = named(PairingEvidence::Cm, Confidence::Certain).filter(|_| sample.recording.is_none());
        return (Some(*qp), evidence);
    }
    let datagram = datagram_qp(&flow.stats);
    (datagram, datagram.and_then(|_| named(PairingEvidence::Datagram, Confidence::Certain)))
}

/// The sending queue pair that the datagrams themselves name, when it was always the same.
fn datagram_qp(stats: &Stats) -> Option<u32> {
    (stats.transport == TRANSPORT_UD && stats.src_qp != UNKNOWN && stats.src_qp != SRC_QP_SEVERAL)
        .then_some(stats.src_qp)
}
