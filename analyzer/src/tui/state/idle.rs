//! Flows that fell silent, as events, which are derived from samples since no packet shows them.

use rocescope_common::wire::frame::UNKNOWN;

use super::log::{CAPACITY, IDLE, SILENT_NS};
use crate::sample::{EventSample, Sample};

/// Flows that have been silent for [`SILENT_NS`] now and had not been at the sample of `before_ns`, in the order of
/// their last packets; the latest, if there are more than the list of events holds.
pub fn between(before_ns: u64, sample: &Sample) -> Vec<EventSample> {
    let mut idle: Vec<EventSample> = sample
        .flows
        .iter()
        .map(|flow| (flow.stats.last_ns.saturating_add(SILENT_NS), flow))
        .filter(|(since, _)| (before_ns + 1..=sample.time_ns).contains(since))
        .map(|(since, flow)| EventSample {
            time_ns: since,
            key: flow.key,
            events: IDLE,
            aeth: UNKNOWN,
            ..EventSample::default()
        })
        .collect();
    idle.sort_by_key(|event| event.time_ns);
    idle.drain(..idle.len().saturating_sub(CAPACITY));
    idle
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixtures::{SECOND, START, key, link, sample, stats};

    #[test]
    fn a_flow_goes_once_and_at_its_time() {
        let at = |seconds: u64| {
            let flow = |qp: u16, last: u64| {
                let mut stats = stats(qp, 10, 1_000);
                stats.last_ns = START + last * SECOND;
                (key(0, "10.0.0.1", "10.0.0.2", qp.into()), stats)
            };
            let flows = vec![flow(18, 5), flow(17, 2), flow(19, seconds)];
            let mut sample = sample(vec![link("eth0", None)], flows);
            sample.time_ns = START + seconds * SECOND;
            sample
        };
        let went = |from: u64, to: u64| -> Vec<(u64, u32)> {
            let idle = between(START + from * SECOND, &at(to));
            idle.iter().map(|event| ((event.time_ns - START) / SECOND, event.key.dest_qp)).collect()
        };
        assert_eq!(went(10, 11), []);
        assert_eq!(went(11, 12), [(12, 17)]);
        assert_eq!(went(12, 13), []);
        assert_eq!(went(11, 20), [(12, 17), (15, 18)], "samples may be far apart");
        assert_eq!(went(20, 21), []);
    }
}
