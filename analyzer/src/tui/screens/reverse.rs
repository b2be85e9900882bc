//! The other direction of a queue pair.

use crate::model::Detail;
use crate::sample::{FlowSample, Sample};

/// The place of the flow that goes the other way on the same interface: addresses turned round, to the
/// queue pair that sends this one. `None` when that is not known or not seen.
pub(in crate::tui) fn other_direction(sample: &Sample, detail: &Detail) -> Option<usize> {
    let key = &detail.id.key;
    let pair = sample.metrics.pairs.as_ref().and_then(|pairs| pairs.get(detail.id.slot));
    if let Some(slot) = pair.and_then(|pair| pair.reverse)
        && let Some(at) = sample.flows.iter().position(|flow| flow.slot == slot)
    {
        return Some(at);
    }
    let peer = detail.peer_qp?;
    let turned = |other: &FlowSample| {
        let there = &other.key;
        there.family == key.family && there.src == key.dst && there.dst == key.src && there.dest_qp == peer
    };
    let link = |at: u16| sample.links.get(usize::from(at)).map(|link| link.name.as_str());
    let mut found = sample.flows.iter().enumerate().filter(|(_, other)| turned(other));
    let first = found.next()?;
    // On one interface, rather than on another that saw the same packets.
    let same = |(_, other): &(usize, &FlowSample)| link(other.key.link) == link(key.link);
    if same(&first) {
        return Some(first.0);
    }
    Some(found.find(same).map_or(first.0, |(at, _)| at))
}
