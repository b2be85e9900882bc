//! Dates findings that rest on packet counters without times, by their growth between readings.

use super::{Finding, entry};
use crate::sample::Sample;

/// Dates a finding without episodes: the reading that saw the counter grow is a closer bound than the end of the flows.
pub(super) fn date(finding: &mut Finding, sample: &Sample) {
    let counter = entry(finding.id).and_then(|entry| entry.grows);
    let Some(counter) = counter.filter(|_| finding.first_seen_ns.is_none()) else { return };
    let known = [finding.last_seen_ns, sample.grown.last_ns(counter)];
    finding.last_seen_ns = known.into_iter().flatten().min();
    if let Some((episode, last_ns)) = finding.episodes.last_mut().zip(finding.last_seen_ns) {
        episode.last_ns = last_ns.max(episode.first_ns);
    }
}
