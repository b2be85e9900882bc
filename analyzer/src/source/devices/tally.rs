//! Cumulative values from counters that start at any value, wrap, and are reset.

use std::collections::BTreeMap;

use crate::entity::devices::{PauseSample, SourceSample};
use crate::entity::pauses::{PauseInterval, PauseIntervals};
use crate::ethernet::mac_control::quanta_ns;
use crate::host::rdma::counters::{Reading, Source, difference};
use crate::host::rdma::vocabulary::{PauseCount, PauseCounts};
use crate::util::time::NS_PER_S;

/// Share of the time between two readings above which it counts as paused all the time, since counter values are
/// slightly older than their reading.
const ALL: f64 = 0.95;
/// Longest pause that a frame can request, in quanta (IEEE 802.3 annex 31B: 16 bits).
const MOST_QUANTA: u16 = u16::MAX;

/// The increase of a port's counters since the first reading.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    last: Reading,
    totals: BTreeMap<(Source, String), u64>,
    resets: BTreeMap<Source, u64>,
    window: Option<(u64, u64)>,
}

impl Tally {
    /// Adds a reading at Unix time `time_ns`.
    pub fn take(&mut self, reading: Reading, time_ns: u64) {
        let added = reading.since(&self.last);
        for (key, value) in reading.values() {
            let total = self.totals.entry(key.clone()).or_default();
            match added.get(key) {
                // A new counter counts from now on.
                None => {}
                Some(Some(added)) => *total = total.saturating_add(*added),
                // The counter was reset, and its value was counted since.
                Some(None) => {
                    *total = total.saturating_add(value);
                    *self.resets.entry(key.0).or_default() += 1;
                }
            }
        }
        // A counter that was unreadable once continues from its previous value.
        self.last.replace_by(reading);
        self.window = Some((self.window.map_or(time_ns, |(first, _)| first), time_ns));
    }

    /// Times of the first and the last reading, Unix nanoseconds.
    pub fn window(&self) -> Option<(u64, u64)> {
        self.window
    }

    /// The values by source, in the common vocabulary if it contains the counter; `driver` is that of the RDMA
    /// device. Of Ethernet statistics, which are thousands, only those with a known meaning.
    pub fn sources(&self, driver: Option<&str>) -> Vec<SourceSample> {
        let mut sources: Vec<SourceSample> = Vec::new();
        for source in [Source::Port, Source::Hardware, Source::Netlink, Source::Ethtool] {
            let mut values: BTreeMap<String, u64> = BTreeMap::new();
            let of = self.totals.iter().filter(|((s, _), _)| *s == source);
            let mut named: Vec<_> = of
                .map(|((_, name), value)| (source.meaning(driver, name), name, *value))
                .filter(|(meaning, ..)| source != Source::Ethtool || meaning.is_some())
                .collect();
            // Several names with one meaning are aliases, or one of them counts more than RoCE: then the longer name
            // is the exact one (rx_roce_only_pkts beside rx_pkts).
            named.sort_by_key(|(_, name, _)| std::cmp::Reverse(name.len()));
            for (meaning, name, value) in named {
                let shown = meaning.map_or(name.as_str(), |meaning| meaning.name());
                let shown = if values.contains_key(shown) { name.as_str() } else { shown };
                values.insert(shown.to_owned(), value);
            }
            if !values.is_empty() {
                let resets = self.resets.get(&source).copied().unwrap_or(0);
                sources.push(SourceSample {
                    source: source.name(),
                    values: values.into_iter().collect(),
                    resets,
                });
            }
        }
        sources
    }
}

/// Pauses of one port.
#[derive(Clone, Debug, Default)]
pub struct PauseTally {
    last: Option<(PauseCounts, u64)>,
    /// Received, then sent, by priority.
    totals: [[PauseTotal; 8]; 2],
}

#[derive(Clone, Debug, Default)]
struct PauseTotal {
    sum: PauseCount,
    worst_share: Option<f64>,
    most_share: Option<f64>,
    worst_frames_per_s: Option<f64>,
    run_ns: u64,
    longest_ns: u64,
    intervals: PauseIntervals,
}

impl PauseTally {
    /// Adds the counters at Unix time `time_ns`. `mbps` is the link speed, which bounds the duration of a pause
    /// frame.
    pub fn take(&mut self, counts: PauseCounts, time_ns: u64, mbps: Option<u32>) {
        let Some((before, before_ns)) = self.last.replace((counts, time_ns)) else {
            // Counts are known from now on.
            for (totals, counts) in self.totals.iter_mut().zip([&counts.received, &counts.sent]) {
                for (total, count) in totals.iter_mut().zip(counts) {
                    total.sum = PauseCount {
                        frames: count.frames.map(|_| 0),
                        microseconds: count.microseconds.map(|_| 0),
                        transitions: count.transitions.map(|_| 0),
                    };
                }
            }
            return;
        };
        let sides = [(&before.received, &counts.received), (&before.sent, &counts.sent)];
        for (totals, (before, now)) in self.totals.iter_mut().zip(sides) {
            for ((total, before), now) in totals.iter_mut().zip(before).zip(now) {
                total.add(before, now, (before_ns, time_ns), mbps);
            }
        }
    }

    /// Microseconds for which this port was paused since the first reading, by priority. `None` for priorities whose
    /// time is not counted.
    pub fn received_us(&self) -> [Option<u64>; 8] {
        self.totals[0].each_ref().map(|total| total.sum.microseconds)
    }

    /// The pauses of all priorities that the driver counts.
    pub fn pauses(&self) -> Vec<PauseSample> {
        let mut pauses = Vec::new();
        for (sent, totals) in [false, true].into_iter().zip(&self.totals) {
            for (priority, total) in (0u8..).zip(totals) {
                if total.sum == PauseCount::default() {
                    continue;
                }
                let timed = total.sum.microseconds.is_some();
                pauses.push(PauseSample {
                    quanta: None,
                    least_share: None,
                    sent,
                    priority: Some(priority),
                    frames: total.sum.frames,
                    paused_ns: total.sum.microseconds.map(|us| us.saturating_mul(1000)),
                    transitions: total.sum.transitions,
                    worst_share: total.worst_share,
                    most_share: total.most_share,
                    worst_frames_per_s: total.worst_frames_per_s,
                    longest_ns: timed.then_some(total.longest_ns),
                    intervals: total.intervals.clone(),
                });
            }
        }
        pauses
    }
}

impl PauseTotal {
    fn add(
        &mut self,
        before: &PauseCount,
        now: &PauseCount,
        (first_ns, last_ns): (u64, u64),
        mbps: Option<u32>,
    ) {
        let span_ns = last_ns.saturating_sub(first_ns);
        let added = |before: Option<u64>, now: Option<u64>| match (before, now) {
            // The counter was reset.
            (Some(before), Some(now)) => Some(difference(before, now).unwrap_or(now)),
            (None, Some(_)) => Some(0),
            (_, None) => None,
        };
        let more = |sum: &mut Option<u64>, added: Option<u64>| {
            if let Some(added) = added {
                *sum = Some(sum.unwrap_or(0).saturating_add(added));
            }
        };
        let frames = added(before.frames, now.frames);
        more(&mut self.sum.frames, frames);
        more(&mut self.sum.transitions, added(before.transitions, now.transitions));
        let paused_us = added(before.microseconds, now.microseconds);
        more(&mut self.sum.microseconds, paused_us);
        if span_ns == 0 {
            return;
        }
        let per_s = frames.map(|frames| frames as f64 * NS_PER_S as f64 / span_ns as f64);
        let bound = frames.zip(mbps.filter(|mbps| *mbps > 0 && paused_us.is_none())).map(|(frames, mbps)| {
            let each_ns = quanta_ns(MOST_QUANTA, u64::from(mbps));
            (frames as f64 * each_ns as f64 / span_ns as f64).min(1.0)
        });
        // Counters are read one after the other, so that slightly more than the whole time is possible.
        let share = paused_us.map(|us| (us as f64 * 1000.0 / span_ns as f64).min(1.0));
        let most = |known: Option<f64>, now: Option<f64>| known.into_iter().chain(now).reduce(f64::max);
        self.worst_frames_per_s = most(self.worst_frames_per_s, per_s);
        self.most_share = most(self.most_share, bound);
        self.worst_share = most(self.worst_share, share);
        if let Some(share) = share {
            self.run_ns = if share >= ALL { self.run_ns.saturating_add(span_ns) } else { 0 };
            self.longest_ns = self.longest_ns.max(self.run_ns);
        }
        if frames.is_some_and(|n| n > 0) || paused_us.is_some_and(|n| n > 0) {
            self.intervals.add(&PauseInterval {
                first_ns,
                last_ns,
                frames,
                quanta: None,
                paused_ns: paused_us.map(|us| us.saturating_mul(1000)),
                share,
                most_share: bound,
                worst_frames_per_s: per_s,
                longest_ns: share.map(|_| self.run_ns),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::util::time::NS_PER_S as SECOND;

    fn reading(source: Source, values: &[(&str, u64)]) -> Reading {
        let mut reading = Reading::default();
        reading.add(source, values.iter().map(|(name, value)| ((*name).to_owned(), *value)));
        reading
    }

    #[test]
    fn wraps_are_counted_over_and_resets_are_reported() {
        let mut tally = Tally::default();
        let near_end = u64::from(u32::MAX) - 9;
        tally.take(reading(Source::Hardware, &[("out_of_sequence", near_end), ("np_cnp_sent", 500)]), 10);
        tally.take(reading(Source::Hardware, &[("out_of_sequence", 10), ("np_cnp_sent", 7)]), 20);
        // A reading without the counter, and a later one with it.
        tally.take(reading(Source::Hardware, &[("np_cnp_sent", 8)]), 30);
        tally.take(reading(Source::Hardware, &[("out_of_sequence", 15), ("np_cnp_sent", 8)]), 40);
        assert_eq!(tally.window(), Some((10, 40)));
        let sources = tally.sources(Some("mlx5_ib"));
        assert_eq!(sources.len(), 1);
        assert_eq!((sources[0].source, sources[0].resets), ("sysfs hw_counters", 1));
        assert_eq!(sources[0].values, [("cnps_sent".to_owned(), 8), ("out_of_sequence".to_owned(), 25)]);
    }

    #[test]
    fn the_exact_one_of_two_names_has_the_common_name() {
        let mut tally = Tally::default();
        for n in [0, 5] {
            let values = [("rx_pkts", 100 * n), ("rx_roce_only_pkts", n), ("unheard_of", n)];
            tally.take(reading(Source::Hardware, &values), n);
            tally.take(reading(Source::Ethtool, &[("rx_queue_7_packets", n), ("rx_discards_phy", n)]), n);
        }
        let sources = tally.sources(Some("bnxt_re"));
        let of = |at: usize| sources[at].values.iter().map(|(n, v)| (n.as_str(), *v)).collect::<Vec<_>>();
        assert_eq!(of(0), [("rx_packets", 5), ("rx_pkts", 500), ("unheard_of", 5)]);
        assert_eq!(of(1), [("port_discards", 5)], "queues are not listed");
    }

    #[test]
    fn pauses_by_window() {
        let mut pauses = PauseTally::default();
        let at = |us: u64, frames: u64| {
            let mut counts = PauseCounts::default();
            counts.received[3] =
                PauseCount { frames: Some(frames), microseconds: Some(us), transitions: None };
            counts.sent[4].frames = Some(frames);
            counts
        };
        assert_eq!(pauses.pauses(), []);
        for (second, us) in [(0, 0), (1, 100_000), (2, 1_100_000), (3, 2_100_000), (4, 2_100_000)] {
            pauses.take(at(700 + us, second * 10), second * SECOND, Some(100_000));
        }
        let found = pauses.pauses();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].sent, found[0].priority, found[0].frames), (false, Some(3), Some(40)));
        assert_eq!((found[0].paused_ns, found[0].transitions), (Some(2_100_000_000), None));
        assert_eq!((found[0].worst_share, found[0].longest_ns), (Some(1.0), Some(2 * SECOND)));
        // Frames alone do not give a duration.
        assert_eq!((found[1].sent, found[1].paused_ns, found[1].worst_share), (true, None, None));
        // They give an upper bound: 10 frames per second of 65,535 × 512 bits at 100 Gbit/s.
        assert!((found[1].most_share.unwrap() - 0.003_355).abs() < 1e-5, "{found:?}");
        assert_eq!((found[1].worst_frames_per_s, found[0].most_share), (Some(10.0), None));
        assert_eq!((pauses.received_us()[3], pauses.received_us()[4]), (Some(2_100_000), None));
    }
}
