//! Dates findings that rest on packet counters without times, by their growth between readings.

use super::Finding;
use crate::sample::{Counted, Sample};

/// Kinds of findings that rest on such a counter.
const GROWING: [(&str, Counted); 5] = [
    (super::checks::nak::INVALID.id, Counted::InvalidRequest),
    (super::checks::nak::ACCESS.id, Counted::AccessError),
    (super::checks::nak::OPERATIONAL.id, Counted::OperationalError),
    (super::checks::retry::STORM.id, Counted::Repeats),
    (super::checks::rnr::SLOW.id, Counted::RnrNaks),
];

/// Dates a finding without episodes: the reading that saw the counter grow is a closer bound than the end of the flows.
pub(super) fn date(finding: &mut Finding, sample: &Sample) {
    let counter = GROWING.iter().find(|(id, _)| *id == finding.id).map(|(_, counter)| *counter);
    let Some(counter) = counter.filter(|_| finding.first_seen_ns.is_none()) else { return };
    let known = [finding.last_seen_ns, sample.grown.last_ns(counter)];
    finding.last_seen_ns = known.into_iter().flatten().min();
    if let Some((episode, last_ns)) = finding.episodes.last_mut().zip(finding.last_seen_ns) {
        episode.last_ns = last_ns.max(episode.first_ns);
    }
}
